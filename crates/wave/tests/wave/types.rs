//! Sweeps over arrays of each type of the store: what they compute, and how it is stored.

use syncline_store::array::{Array, Bool, Half, Number};
use syncline_wave::reference::plain_arrays;
use syncline_wave::{Described, Sweep};

/// Returns what one iteration makes of one row; the plain loop makes the same of it.
fn made<T: Number, C: Number>(more: &str, u: &[T], c: &[C]) -> Vec<T> {
    let text = format!(
        "name = 'x'\nfield = 'u'\ncoefficients = ['c']\n{more}\n[types]\nu = '{}'\nc = '{}'",
        T::TYPE,
        C::TYPE
    );
    let described = Described::parse(&text).unwrap();
    let field = Array::from_vec(&[1, u.len()], u.to_vec()).unwrap();
    let coefficient = Array::from_vec(&[1, c.len()], c.to_vec()).unwrap();
    let run = Sweep::new(described.clone()).iterations(1);
    let coefficients = [coefficient];
    let (fields, _) = run.run_arrays(std::slice::from_ref(&field), &coefficients).unwrap();
    let mut plain = [field];
    plain_arrays(&described, &mut plain, &coefficients, 1).unwrap();
    assert_eq!(fields[0].first_difference(&plain[0]), None, "{text}");
    fields[0].values().unwrap().to_vec()
}

#[test]
fn whole_numbers_of_every_type_overflow_as_the_text_says() {
    let [wrap, saturate] = ["wrapping", "saturating"].map(|o| format!("overflow = '{o}'\n"));
    let (least, most) = (i8::MIN, i8::MAX);
    let u = [least, -1, 0, 100, most];
    let of = |overflow: &str, update: &str, c: i8| {
        made(&format!("{overflow}update = 'u = {update}'"), &u, &[c; 5])
    };
    assert_eq!(of(&wrap, "u + c", 1), [-127, 0, 1, 101, least]);
    assert_eq!(of(&saturate, "u + c", 1), [-127, 0, 1, 101, most]);
    assert_eq!(of(&wrap, "u * c", 2), [0, -2, 0, -56, -2]);
    assert_eq!(of(&saturate, "u * c", 2), [least, -2, 0, most, most]);
    assert_eq!(of(&wrap, "-u", 0), [least, 1, 0, -100, -127]);
    assert_eq!(of(&saturate, "abs(u)", 0), [most, 1, 0, 100, most]);
    assert_eq!(of(&wrap, "u / c", -1), [least, 1, 0, -100, -127]);
    assert_eq!(of(&wrap, "u % c", -1), [0; 5]);
    assert_eq!(of(&wrap, "u % c", 7), [5, 6, 0, 2, 1]);
    assert_eq!(of(&wrap, "u % c", -7), [-2, -1, 0, -5, -6]);
    assert_eq!(of(&saturate, "u % c", 0), [0; 5]);
    assert_eq!(of(&wrap, "u ** 2", 0), [0, 1, 0, 16, 1]);
    assert_eq!(of(&saturate, "u ** 3", 0), [least, -1, 0, most, most]);
    assert_eq!(of(&wrap, "u ** 0", 0), [1; 5]);
    let u = [0, 1, 1 << 31, u32::MAX];
    let of = |overflow: &str, update: &str, c: i64| {
        made(&format!("{overflow}update = 'u = {update}'"), &u, &[c; 4])
    };
    assert_eq!(of(&wrap, "u - 1", 0), [u32::MAX, 0, (1 << 31) - 1, u32::MAX - 1]);
    assert_eq!(of(&saturate, "u - 1", 0), [0, 0, (1 << 31) - 1, u32::MAX - 1]);
    assert_eq!(of(&wrap, "u * u", 0), [0, 1, 0, 1]);
    assert_eq!(of(&saturate, "u * u", 0), [0, 1, u32::MAX, u32::MAX]);
    assert_eq!(of(&wrap, "uint32(c)", -1), [u32::MAX; 4]);
    assert_eq!(of(&saturate, "uint32(c)", -1), [0; 4]);
    assert_eq!(of(&saturate, "uint32(c)", 1 << 40), [u32::MAX; 4]);
    assert_eq!(of(&wrap, "u % 10", 0), [0, 1, 8, 5]);
    let from = |c: f64| made(&format!("{wrap}update = 'u = uint32(c)'"), &[7_u32], &[c])[0];
    assert_eq!([-1.0, 3.9, 1e10, f64::NAN].map(from), [0, 3, u32::MAX, 0]);
}

#[test]
fn bool_is_a_condition() {
    let (no, yes, odd) = (Bool(0), Bool(1), Bool(7));
    let c = [0.0, 1.0, f64::NAN];
    let of = |update: &str| made(&format!("update = 'u = {update}'"), &[no, yes, odd], &c);
    assert_eq!(of("u"), [no, yes, odd]);
    assert_eq!(of("not u"), [yes, no, no]);
    assert_eq!(of("u and c == c"), [no, yes, no]);
    assert_eq!(of("u or c < 1"), [yes, yes, yes]);
    assert_eq!(of("bool(c)"), [no, yes, yes]);
    assert_eq!(of("bool(u)"), [no, yes, odd]);
    assert_eq!(of("isnan(c)"), [no, no, yes]);
    assert_eq!(of("1"), [yes, yes, yes]);
    assert_eq!(of("if(c == 1, u, not u)"), [yes, yes, no]);
    assert_eq!(of("if(u, 0, c < 1)"), [yes, no, no]);
    let of = |update: &str| made(&format!("update = 'u = {update}'"), &c, &[no, yes, odd]);
    assert_eq!(of("float64(c)"), [0.0, 1.0, 1.0]);
    assert_eq!(of("float64(c and c) + float64(not c)"), [1.0, 1.0, 1.0]);
    assert_eq!(of("if(c, 3, 2)"), [2.0, 3.0, 3.0]);
}

#[test]
fn float16_is_computed_in_float32_and_rounded_once() {
    let halves = |values: [f64; 4]| values.map(Half::from_f64);
    let u = halves([1.0, 0.1, 65_504.0, f64::NAN]);
    // Just above the middle between 1 and the next number: by way of float32 it would be 1.
    let c = [1.0 + 2_f64.powi(-11) + 2_f64.powi(-40), 0.1, 65_519.9, 1e300];
    let of = |update: &str| made(&format!("update = 'u = {update}'"), &u, &c);
    let same = |found: Vec<Half>, expected: [f64; 4]| {
        let pairs = found.into_iter().zip(halves(expected));
        pairs.into_iter().for_each(|(x, y)| assert!(x == y || x.is_nan() && y.is_nan(), "{x} {y}"));
    };
    same(of("float16(c)"), [1.0 + 2_f64.powi(-10), 0.1, 65_504.0, f64::INFINITY]);
    same(of("float32(c)"), [1.0, 0.1, 65_504.0, f64::INFINITY]);
    // The sum is no number of float16, and is not rounded to one before it is divided.
    let tenth = Half::from_f64(0.1).to_f32();
    let third = f64::from((tenth + 1.0) / 3.0);
    same(of("(u + 1) / 3"), [2.0 / 3.0, third, f64::from(65_505.0_f32 / 3.0), f64::NAN]);
    same(of("float16(u + 1000) - 1000"), [1.0, 0.0, f64::INFINITY, f64::NAN]);
    same(of("if(isnan(u) or u > 2, 0.1, u)"), [1.0, 0.1, 0.1, 0.1]);
    // What is assigned is read again as it is stored.
    let pair = Described::parse(
        "name = 'x'\nfields = ['u', 'v']\nupdate = 'u = u + 1000; v = u - 1000'\n\
         [types]\nu = 'float16'\nv = 'float32'",
    )
    .unwrap();
    let arrays = [
        Array::from_vec(&[1, 1], vec![Half::from_f64(0.1)]).unwrap(),
        Array::from_vec(&[1, 1], vec![0_f32]).unwrap(),
    ];
    let (fields, _) = Sweep::new(pair).iterations(1).run_arrays(&arrays, &[]).unwrap();
    assert_eq!(fields[1].values(), Some(&[0_f32][..]));
    // A number that means no data is rounded as the data are.
    let nodata = made(
        "update = 'u = u + 1'\nnodata = { u = -9999 }",
        &halves([-9999.0, 1.0, 2.0, -10_000.0]),
        &c,
    );
    same(nodata, [-10_000.0, 2.0, 3.0, -10_000.0]);
}
