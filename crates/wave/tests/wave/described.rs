//! Runs of descriptions with functions that the program gives, and with many values.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use syncline_store::ElementType;
use syncline_store::array::Array;
use syncline_wave::monitor::Monitor;
use syncline_wave::reference::plain_arrays;
use syncline_wave::{Described, Error, Runner, Sweep};

/// Returns a description with this update and the function `f`.
fn text(update: &str) -> String {
    format!("name = 'x'\nfield = 'u'\nfunctions = ['f']\nupdate = '{update}'")
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

#[test]
fn what_has_many_numbers_or_values_needs_no_arrays() {
    let sums: Vec<String> = (0..300).map(|i| format!("(n + {i}.5)")).collect();
    let tens: Vec<String> = sums.chunks(10).map(|c| format!("({})", c.join(" + "))).collect();
    let numbers = format!("u = ({}) / 300\n", tens.join(" - "));
    let names: Vec<String> = (0..80).map(|i| format!("v{i}")).collect();
    // All 80 values must be kept at once: each is used in one sum, and again in a quotient that
    // runs in the opposite order.
    let mut update: String = (0..80).map(|i| format!("v{i} = sqrt(n + {i})\n")).collect();
    update += &format!(
        "f = {}\nb = {}\n",
        names.join(" - "),
        names.iter().rev().cloned().collect::<Vec<_>>().join(" / ")
    );
    for update in [numbers, update + "u = f*b"] {
        let text = format!("name = 'many'\nfield = 'u'\nupdate = '''\n{update}'''");
        let described = Described::parse(&text).unwrap();
        assert!(!described.needs_arrays());
        let u = Array::from_vec(&[9, 40], (0..360).map(|n| f64::from(n % 17)).collect()).unwrap();
        let (fields, _) = Sweep::new(described.clone())
            .iterations(3)
            .run_arrays(std::slice::from_ref(&u), &[])
            .unwrap();
        let mut expected = [u];
        plain_arrays(&described, &mut expected, &[], 3).unwrap();
        assert_eq!(fields[0].first_difference(&expected[0]), None);
    }
}
