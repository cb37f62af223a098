//! A C function in the engine equals the same kernel in Rust in the plain double loop.

use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use syncline_kernel::Error;
use syncline_kernel::dynamic::Dynamic as _;
use syncline_store::Shape;

use super::described::Chained;
use super::numbers;
use crate::c::{CFunction, CKernel, CPoint};
use crate::kernels::{Alignment, Lk23, NinePoint};
use crate::lanes::Lanes;
use crate::reference::plain_sweep;
use crate::{Neighbour, Neighbours, PointKernel, Stencil};

extern "C" fn lk23(at: *const CPoint, c: *const f64, calls: *mut c_void) -> f64 {
    // SAFETY: the engine passes a point and five coefficients; the context is the counter of the
    // test.
    let (at, c, calls) =
        unsafe { (*at, std::slice::from_raw_parts(c, 5), &*calls.cast::<AtomicU64>()) };
    calls.fetch_add(1, Relaxed);
    let qa = at.south * c[0] + at.north * c[1] + at.east * c[2] + at.west * c[3] + c[4];
    at.centre + 0.175 * (qa - at.centre)
}

extern "C" fn nine(at: *const CPoint, f: *const f64, _: *mut c_void) -> f64 {
    // SAFETY: the engine passes a point and one coefficient.
    let (at, f) = unsafe { (*at, *f) };
    let near = at.north + at.south + at.east + at.west;
    let far = at.north_east + at.north_west + at.south_east + at.south_west;
    at.centre + 1.2 * ((4.0 * near + far + f) / 20.0 - at.centre)
}

extern "C" fn alignment(at: *const CPoint, score: *const f64, _: *mut c_void) -> f64 {
    // SAFETY: the engine passes a point and one coefficient.
    let (at, score) = unsafe { (*at, *score) };
    (at.north_west + score).max(at.north.max(at.west) - 0.125)
}

const WEST: Stencil = Stencil::of(&[Neighbour::West]);

fn equal<K: PointKernel<N>, const N: usize>(kernel: &K, c: &CKernel) {
    for (rows, cols, levels) in [(2, 2, 1), (3, 3, 1), (20, 33, 3), (35, 19, 5)] {
        let shape = Shape::new(rows, cols);
        let arrays: Vec<Vec<f64>> =
            (0..=N as u64).map(|a| numbers(a + 7, shape.elements(), 0.2)).collect();
        let mut expected = arrays[0].clone();
        for _ in 0..levels {
            plain_sweep(
                kernel,
                &mut expected,
                std::array::from_fn(|n| &arrays[n + 1][..]),
                rows,
                cols,
            );
        }
        for lanes in Lanes::available() {
            let run = Chained { lanes, shape, arrays: &arrays, levels, band: 4, tile: 16 };
            let out = run.with(&*c.kernel().unwrap());
            assert!(out == expected, "{lanes} {shape}");
        }
    }
}

#[test]
fn functions_equal_kernels() {
    let calls = AtomicU64::new(0);
    // SAFETY: the functions accept any values and may be called from any thread; the context is an
    // atomic counter, or unused.
    let (lk23, nine) = unsafe {
        (
            CKernel::new(lk23, (&raw const calls).cast_mut().cast(), 5, Stencil::FIVE_POINT),
            CKernel::new(nine, std::ptr::null_mut(), 1, Stencil::NINE_POINT),
        )
    };
    equal::<_, 5>(&Lk23, &lk23);
    equal::<_, 1>(&NinePoint::new(1.2).unwrap(), &nine);
    assert!(calls.into_inner() > 0);
}

const ALIGNMENT: Stencil = Stencil::of(&[Neighbour::North, Neighbour::West, Neighbour::NorthWest]);

/// With a stencil of north, west and north-west the last row and column are updated.
#[test]
fn a_function_updates_to_the_end() {
    // SAFETY: the function accepts any values, may be called from any thread, and uses no context.
    let function = unsafe { CKernel::new(alignment, std::ptr::null_mut(), 1, ALIGNMENT) };
    equal::<_, 1>(&Alignment::global(0.125).unwrap(), &function);
}

/// A function that reads neighbours beyond its stencil is refused, and the error names them.
#[test]
fn a_function_that_reads_more_is_refused() {
    let check = |function: CFunction, coefficients, stencil| {
        // SAFETY: the functions accept any values, may be called from any thread, and use no
        // context.
        let kernel = unsafe { CKernel::new(function, std::ptr::null_mut(), coefficients, stencil) };
        kernel.kernel::<f64>().unwrap().check()
    };
    check(nine, 1, Stencil::NINE_POINT).unwrap();
    check(alignment, 1, ALIGNMENT).unwrap();
    check(alignment, 1, Stencil::SEVEN_POINT).unwrap();
    let refused = |function, stencil, expected: &str| match check(function, 1, stencil) {
        Err(Error::Undeclared { reads, .. }) => assert_eq!(reads.to_string(), expected),
        other => panic!("{other:?}"),
    };
    refused(nine, Stencil::SEVEN_POINT, "north-east and south-west");
    refused(nine, ALIGNMENT, "east, south, south-east, north-east and south-west");
    refused(alignment, Stencil::FIVE_POINT, "north-west");
    refused(alignment, WEST, "north and north-west");
}

/// For `f32` the values are widened and the result is rounded once, which does not give the bits of
/// a kernel that computes in `f32`.
#[test]
fn floats_are_rounded_once() {
    // SAFETY: the function accepts any values, may be called from any thread, and uses no context.
    let nine = unsafe { CKernel::new(nine, std::ptr::null_mut(), 1, Stencil::NINE_POINT) };
    let shape = Shape::new(11, 13);
    let field: Vec<f32> = numbers(5, shape.elements(), 1.0);
    let mut expected = field.clone();
    for j in 1..shape.rows - 1 {
        for k in 1..shape.cols - 1 {
            let i = j * shape.cols + k;
            let wide: Vec<f64> = expected.iter().map(|v| f64::from(*v)).collect();
            let at = Neighbours::of(&wide, i, shape.cols, Stencil::NINE_POINT);
            expected[i] = NinePoint::new(1.2).unwrap().update(at, [0.25]) as f32;
        }
    }
    for lanes in Lanes::available() {
        let arrays = [field.clone(), vec![0.25; shape.elements()]];
        let out = Chained { lanes, shape, arrays: &arrays, levels: 1, band: 4, tile: 8 }
            .with(&*nine.kernel().unwrap());
        assert!(out == expected, "{lanes}");
    }
}

const SOURCE: &str = "
struct syncline_point {
    double centre, north, west, east, south;
    double north_west, north_east, south_west, south_east;
};
double update(const struct syncline_point *at, const double *c, void *context) {
    const double relax = *(const double *)context;
    const double qa = at->south * c[0] + at->north * c[1] + at->east * c[2] + at->west * c[3] + c[4];
    return at->centre + relax * (qa - at->centre);
}
";

#[test]
fn a_file_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = ["-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-o"];
    match Command::new(&compiler).args(flags).arg(&library).arg(&source).output() {
        Err(error) => return println!("skipped: {compiler:?} cannot be run: {error}"),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))
        }
    }
    // SAFETY: the library has no initialisers.
    let library = unsafe { libloading::Library::new(&library) }.unwrap();
    // SAFETY: the function in `SOURCE` has this type.
    let update = *unsafe { library.get::<CFunction>("update") }.unwrap();
    let relax = 0.175_f64;
    // SAFETY: the function only reads the point, five coefficients and the number that the context
    // points to; the number and the library outlive the kernel.
    let kernel = unsafe {
        CKernel::new(update, (&raw const relax).cast_mut().cast(), 5, Stencil::FIVE_POINT)
    };
    assert_eq!(kernel.coefficients(), 5);
    equal::<_, 5>(&Lk23, &kernel);
}
