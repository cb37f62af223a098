//! Functions that the program gives.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use syncline_store::ElementType;
use syncline_store::array::Array;

use crate::monitor::Monitor;
use crate::reference::plain_arrays;
use crate::{Described, Error, Runner, Sweep};

/// Returns a description with this update and the function `f`.
fn text(update: &str) -> String {
    format!("name = 'x'\nfield = 'u'\nfunctions = ['f']\nupdate = '{update}'")
}

fn fault(text: &str) -> String {
    Described::parse(text).unwrap_err().to_string()
}

#[test]
fn wrong_calls_are_refused_at_their_place() {
    for (update, message) in [
        ("u = old.w + f(u) + f(u, 1)", "column 30: `f` has 1 argument(s) above, and 2 here"),
        ("u = old.w", "line 3, column 14: the update does not call `f`"),
        ("u = old.w + f", "column 23: `f` is a function; its arguments are missing"),
        ("u = old.w + f(1, 2)", "needs a value of an array among its arguments"),
        ("u = old.w + f(int32(u))", "takes values of float64, but this is int32"),
        ("u = old.w + g(u)", "column 23: there is no function `g`"),
        ("f = u; u = old.w + f(u)", "`f` is a function already"),
    ] {
        let fault = fault(&text(update));
        assert!(fault.contains(message), "{update}: {fault}");
    }
    let many = format!("u = old.w + f({})", ["u"; 17].join(", "));
    assert!(fault(&text(&many)).contains("`f` may have 16 arguments at most"));
    let twice = text("u = old.w + f(u)").replace("['f']", "['f', 'f']");
    assert!(fault(&twice).contains("`f` is a function already"));
    for known in ["sqrt", "int32"] {
        let text = text("u = old.w + f(u)").replace("['f']", &format!("['{known}']"));
        assert!(fault(&text).contains("column 14"), "{}", fault(&text));
    }
}

#[test]
fn an_argument_with_a_number_before_the_array_is_a_value_of_the_array() {
    for update in ["u = f(2 * old.w)", "u = f(if(old.w < 1, 7, u), 3)", "u = f(f(2 * old.w))"] {
        Described::parse(&text(update)).unwrap();
    }
}

#[test]
fn a_function_without_code_or_for_other_data_is_refused() {
    let described = Described::parse(&text("u = old.w + f(u, 2)")).unwrap();
    assert!(described.needs_arrays());
    assert_eq!(described.functions().collect::<Vec<_>>(), [("f", 2)]);
    let wide = Array::from_vec(&[2, 2], vec![1.0_f64; 4]).unwrap();
    let sweep = Sweep::new(described.clone());
    let error = sweep.run_arrays(std::slice::from_ref(&wide), &[]).unwrap_err().to_string();
    assert_eq!(error, "the function f of the kernel x: the program has not given its code");
    let error = described.clone().with_function("g", |_, _| ()).unwrap_err().to_string();
    assert_eq!(error, "the function g of the kernel x: the description names no such function");
    let sweep = Sweep::new(described.with_function("f", |_, _| ()).unwrap());
    let narrow = Array::from_vec(&[2, 2], vec![1.0_f32; 4]).unwrap();
    let error = sweep.run_arrays(&[narrow], &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "the function f of the kernel x: it takes float64, but the arrays are float32"
    );
}

/// Adds the context to the product of the arguments.
unsafe extern "C" fn product(
    n: usize,
    arguments: *const *const f64,
    results: *mut f64,
    context: *mut c_void,
) {
    for i in 0..n {
        // SAFETY: the caller gives two arguments and the results, of `n` values each, and a number.
        unsafe {
            let [x, y] = [0, 1].map(|a| *(*arguments.add(a)).add(i));
            *results.add(i) = x * y + *context.cast::<f64>();
        }
    }
}

#[test]
fn a_c_function_is_one_of_rust() {
    let mut context = 0.25_f64;
    let text = text("u = max(f(u, w), n) / 2 + f(c, u[-1, -2])")
        .replace("field = 'u'", "field = 'u'\ncoefficients = ['c']\nedges = 'clamped'");
    let described = Described::parse(&text).unwrap();
    // SAFETY: the function and its context are those of this test, and it writes only results.
    let c = unsafe {
        described.clone().with_c_function("f", product, (&raw mut context).cast()).unwrap()
    };
    let rust = described
        .with_function("f", |arguments, results| {
            for (i, result) in results.iter_mut().enumerate() {
                *result = arguments[0][i] * arguments[1][i] + 0.25;
            }
        })
        .unwrap();
    let values = |seed: u64| {
        let value = |i: u64| ((i * seed) % 17) as f64 / 16.0;
        Array::from_vec(&[50, 700], (0..35_000).map(value).collect()).unwrap()
    };
    let (field, coefficient) = (values(7), values(5));
    let run = |kernel: &Described| {
        let sweep = Sweep::new(kernel.clone()).iterations(4).runner(Runner::pool(2));
        sweep.run_arrays(&[values(7)], &[values(5)]).unwrap().0
    };
    let (left, right) = (run(&c), run(&rust));
    assert_eq!(left[0].bytes(), right[0].bytes());
    let mut plain = [field];
    plain_arrays(&c, &mut plain, &[coefficient], 4).unwrap();
    assert_eq!(left[0].bytes(), plain[0].bytes());
}

#[test]
fn a_panic_of_a_function_is_an_error_of_the_run() {
    let described = Described::parse(&text("u = old.w + f(u)")).unwrap();
    let described = described.with_function("f", |_, _| panic!("no logarithm")).unwrap();
    for threads in [1, 2] {
        let field = Array::from_vec(&[100, 100], vec![1.0_f64; 10_000]).unwrap();
        let sweep = Sweep::new(described.clone()).iterations(5).runner(Runner::pool(threads));
        let error = sweep.run_arrays(&[field], &[]).unwrap_err().to_string();
        assert!(error.contains("no logarithm"), "{error}");
    }
}

#[test]
fn a_cancelled_sweep_ends_within_a_piece() {
    const SIDE: usize = 300;
    let (iterations, cancels_at) = (4, 1000);
    for (dims, expression) in [
        (vec![SIDE, SIDE], "old.w + f(u)"),
        (vec![SIDE, SIDE], "w + f(u)"),
        (vec![2, SIDE, SIDE], "w + f(u)"),
        (vec![2, SIDE, SIDE], "old.w + f(u)"),
    ] {
        let text = text(&format!("u = {expression}"));
        let text = match dims.len() {
            2 => text,
            _ => text.replace("field = 'u'", "field = 'u'\ndimensions = 3"),
        };
        let monitor = Arc::new(Monitor::new());
        let (seen, after) = (Arc::clone(&monitor), Arc::new(AtomicUsize::new(0)));
        let calls = Arc::clone(&after);
        let function = move |_: &[&[f64]], results: &mut [f64]| {
            results.fill(0.5);
            let points = calls.fetch_add(results.len(), Relaxed) + results.len();
            if points >= cancels_at {
                seen.cancel();
            }
        };
        let described = Described::parse(&text).unwrap().with_function("f", function).unwrap();
        let field = Array::zeros(ElementType::Float64, &dims).unwrap();
        let sweep = Sweep::new(described).iterations(iterations).runner(Runner::pool(1));
        let error = sweep.monitor(monitor).run_arrays(&[field], &[]).unwrap_err();
        assert!(matches!(error, Error::Cancelled { .. }), "{dims:?}, {text}: {error}");
        // The points at one position of each level, or of a row.
        let points = after.load(Relaxed);
        let most = cancels_at + iterations as usize * SIDE;
        assert!(points <= most, "{dims:?}, {text}: {points} points, at most {most}");
    }
}
