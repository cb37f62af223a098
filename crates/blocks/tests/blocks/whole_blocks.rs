//! Routines that update whole blocks: the bits are those of the plain double loop, the halo has the
//! values that the loop would read, and existing C code runs unchanged.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use libloading::Library;
use proptest::prelude::*;
use syncline_blocks::{
    BlockedSweep, Error,
    kernel::{BlockKernel, CBlockFunction, CBlockKernel},
    plan::Order,
};
use syncline_overlay::error::RunError;
use syncline_store::{Block, Layout, Shape, placement::Rect};
use syncline_testkit::property;
use syncline_wave::{
    Error as WaveError, Neighbour, PointKernel, Runner, Stencil, Sweep,
    kernels::{Alignment, Lk23, NinePoint, Sor},
    reference::plain_sweep,
};

use crate::Real;
use crate::bits::{Case, case, red_black, runner};
use crate::common::{Data, bits, blank, same, values};
use crate::kernels::{Check, KERNELS, with_kernel};
use crate::way::{corners, layouts};

/// The plain double loop as existing code would have it.
#[derive(Clone, Debug)]
struct Loops<K, const N: usize>(K);

impl<T: Real, K: PointKernel<N>, const N: usize> BlockKernel<T> for Loops<K, N> {
    fn coefficients(&self) -> usize {
        N
    }

    fn stencil(&self) -> Stencil {
        K::STENCIL
    }

    fn sweep(&self, shape: Shape, field: &mut [T], coefficients: &[&[T]]) {
        let coefficients = <[&[T]; N]>::try_from(coefficients).expect("other coefficients");
        plain_sweep(&self.0, field, coefficients, shape.rows, shape.cols);
        // The routine may overwrite its halo.
        let Rect { row, col, rows, cols } = K::STENCIL.updated(shape);
        for (i, value) in field.iter_mut().enumerate() {
            let (j, k) = (i / shape.cols, i % shape.cols);
            if !(row..row + rows).contains(&j) || !(col..col + cols).contains(&k) {
                *value = T::from_f64(-7.0);
            }
        }
    }
}

/// Runs the case with whole blocks.
fn run_case<T: Real, B: BlockKernel<T> + Clone, const N: usize>(
    case: &Case,
    kernel: &B,
    data: &Data<T, N>,
    change: impl FnOnce(BlockedSweep<B>) -> BlockedSweep<B>,
) -> Vec<T> {
    let block = case.block(corners(kernel.stencil()));
    let folder = tempfile::tempdir().unwrap();
    let folder = case.on_file.then(|| folder.path());
    let (field, coefficients) = data.matrices(folder, layouts(block)[case.layouts.0]);
    let result = blank(folder, case.shape, layouts(block)[case.layouts.1]);
    let mut sweep = change(case.sweep(kernel.clone(), block));
    if case.least {
        let least = match sweep.clone().memory(1).plan_blocks(&field, &coefficients, &result) {
            Err(Error::Memory { window, .. }) => window,
            other => panic!("{other:?}"),
        };
        sweep = sweep.memory(least);
    }
    let (result, report) = sweep.run_blocks(&field, &coefficients, result).unwrap();
    assert_eq!(report.iterations, case.iterations);
    assert_eq!(bits(&values(&field)), bits(&data.field));
    values(&result)
}

/// A case with whole blocks.
struct WholeBlocks(Case);

impl Check for WholeBlocks {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let data = self.0.data::<T, N>();
        let found = run_case(&self.0, &Loops::<K, N>(kernel.clone()), &data, |sweep| sweep);
        same(&found, &data.plain(&kernel, self.0.iterations), self.0.shape.cols)
    }
}

/// Compiles these files to a library, without contraction of multiplications and additions, so that
/// the bits are equal; `None` without a compiler.
fn compiled(sources: &[&Path]) -> Option<Library> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("old.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags =
        ["-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Werror", "-o"];
    match Command::new(&compiler).args(flags).arg(&library).args(sources).output() {
        Err(error) => {
            println!("skipped: {compiler:?} cannot be run: {error}");
            return None;
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))
        }
    }
    // SAFETY: the library has no initialisers.
    Some(unsafe { Library::new(&library) }.unwrap())
}

/// Loads the existing code of `crates/syncline/examples/legacy`.
fn old_lk23() -> Option<CBlockKernel<f64>> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let here = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../syncline/examples/legacy"));
    let library = LIBRARY.get_or_init(|| compiled(&[&here.join("lk23.c"), &here.join("block.c")]));
    // SAFETY: the function has this type.
    let function = *unsafe { library.as_ref()?.get::<CBlockFunction<f64>>("lk23_block") }.unwrap();
    // SAFETY: the function has no state, and stays within its arrays, of which five are
    // coefficients; the library is in a static and never unloaded.
    Some(unsafe { CBlockKernel::new(function, std::ptr::null_mut(), 5, Stencil::FIVE_POINT) })
}

proptest! {
    #![proptest_config(property(160))]

    #[test]
    fn plain_loops_over_whole_blocks_are_the_plain_loop(
        case in case(1..40_usize, 1..20_usize),
        kernel in 0..KERNELS,
        float32: bool,
    ) {
        with_kernel(&WholeBlocks(case), kernel, float32)?;
    }

    #[test]
    fn old_lk23_in_c_is_the_plain_loop(case in case(1..60_usize, 1..20_usize), red_and_black: bool) {
        if let Some(old) = old_lk23() {
            let data = case.data::<f64, 5>();
            let expected = match red_and_black {
                true => red_black(&Lk23, &data, case.block(false), case.iterations),
                false => data.plain(&Lk23, case.iterations),
            };
            let order = |sweep: BlockedSweep<_>| if red_and_black { sweep.order(Order::MaxParallel) } else { sweep };
            same(&run_case(&case, &old, &data, order), &expected, case.shape.cols)?;
        }
    }
}

/// Framed data, in memory and on file, many blocks, several threads: no bit differs.
#[test]
fn old_lk23_in_c_on_framed_data() {
    let Some(old) = old_lk23() else { return };
    let (shape, block) = (Shape::new(301, 410), Block::new(64, 48));
    let data = Data::<f64, 5>::new(11, shape);
    let expected = bits(&data.plain(&Lk23, 12));
    let folder = tempfile::tempdir().unwrap();
    for (thickness, place) in [(1, None), (2, None), (1, Some(folder.path()))] {
        let frames = Layout::Framed { block, thickness };
        let (field, coefficients) = data.matrices(place, frames);
        for runner in [Runner::pool(1), Runner::pool(3), Runner::Threads] {
            let sweep = BlockedSweep::of(Sweep::new(old).iterations(12).runner(runner));
            let (result, _) =
                sweep.run_blocks(&field, &coefficients, blank(place, shape, frames)).unwrap();
            assert_eq!(bits(&values(&result)), expected);
        }
    }
}

/// A routine in single precision with nine points, which reads a factor through its context.
const NINE: &str = "
#include <stddef.h>
void nine(float *u, const float *const *c, size_t rows, size_t cols, void *context) {
    const float omega = *(const float *)context;
    const float *f = c[0];
    for (size_t j = 1; j < rows - 1; j++)
        for (size_t k = 1; k < cols - 1; k++) {
            float *p = u + j * cols + k;
            float near = p[-(ptrdiff_t)cols] + p[cols] + p[1] + p[-1];
            float far = p[1 - (ptrdiff_t)cols] + p[-1 - (ptrdiff_t)cols] + p[cols + 1] + p[cols - 1];
            p[0] = p[0] + omega * ((4.0f * near + far + f[j * cols + k]) / 20.0f - p[0]);
        }
}
";

#[test]
fn nine_points_in_c_in_single_precision() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("nine.c");
    std::fs::write(&source, NINE).unwrap();
    let Some(library) = compiled(&[&source]) else { return };
    // SAFETY: the function has this type.
    let function = *unsafe { library.get::<CBlockFunction<f32>>("nine") }.unwrap();
    let omega = 1.25_f32;
    // SAFETY: the function only reads the number behind the context, and stays within its arrays,
    // of which one is a coefficient; the number and the library live as long as the kernel.
    let old = unsafe {
        CBlockKernel::new(function, (&raw const omega).cast_mut().cast(), 1, Stencil::NINE_POINT)
    };
    let shape = Shape::new(40, 53);
    let data = Data::<f32, 1>::new(5, shape);
    let expected = bits(&data.plain(&NinePoint::new(1.25).unwrap(), 5));
    for block in [Block::new(1, 7), Block::new(1, 53), Block::new(6, 53)] {
        for layout in layouts(block) {
            let (field, coefficients) = data.matrices(None, layout);
            let sweep = BlockedSweep::of(Sweep::new(old).iterations(5).runner(Runner::pool(3)))
                .block(block);
            let (result, _) =
                sweep.run_blocks(&field, &coefficients, blank(None, shape, layout)).unwrap();
            assert_eq!(bits(&values(&result)), expected, "{layout:?}");
        }
    }
}

/// A dynamic program as in textbooks: it fills the last row and column of its matrix.
const TABLE: &str = "
#include <stddef.h>
void table(double *s, const double *const *c, size_t rows, size_t cols, void *context) {
    for (size_t j = 1; j < rows; j++)
        for (size_t k = 1; k < cols; k++) {
            double *p = s + j * cols + k;
            double meet = p[-1 - (ptrdiff_t)cols] + c[0][j * cols + k];
            double up = p[-(ptrdiff_t)cols], gapped = (up > p[-1] ? up : p[-1]) - 0.125;
            *p = meet > gapped ? meet : gapped;
        }
}
";

#[test]
fn a_table_in_c_is_filled_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("table.c");
    std::fs::write(&source, TABLE).unwrap();
    let Some(library) = compiled(&[&source]) else { return };
    // SAFETY: the function has this type.
    let function = *unsafe { library.get::<CBlockFunction<f64>>("table") }.unwrap();
    let stencil = Stencil::of(&[Neighbour::North, Neighbour::West, Neighbour::NorthWest]);
    // SAFETY: the function has no state, and stays within its arrays, of which one is a
    // coefficient; the library lives as long as the kernel.
    let old = unsafe { CBlockKernel::new(function, std::ptr::null_mut(), 1, stencil) };
    for (rows, cols) in [(40, 53), (2, 2), (1, 7), (9, 2)] {
        let shape = Shape::new(rows, cols);
        let data = Data::<f64, 1>::new(6, shape);
        // The function on the whole matrix at once gives the same as the kernel of points.
        let mut whole = data.field.clone();
        if rows > 1 {
            old.sweep(shape, &mut whole, &[&data.coefficients[0]]);
        }
        let expected = data.plain(&Alignment::global(0.125).unwrap(), 1);
        assert_eq!(bits(&whole), bits(&expected));
        for block in [Block::new(1, 7), Block::new(8, 8), Block::new(13, 1), Block::new(rows, cols)]
        {
            for layout in layouts(block.clipped(shape)) {
                let (field, coefficients) = data.matrices(None, layout);
                let sweep = BlockedSweep::of(Sweep::new(old).runner(Runner::pool(3))).block(block);
                let (result, _) =
                    sweep.run_blocks(&field, &coefficients, blank(None, shape, layout)).unwrap();
                assert_eq!(bits(&values(&result)), bits(&expected), "{shape} in {layout:?}");
            }
        }
    }
}

/// Counts iterations in each point, and checks the halo: points above or to the left have one
/// iteration more, points to the right or below have the same number. Points of the edge of the
/// matrix always have -1.
#[derive(Clone, Debug)]
struct Counting(Stencil);

impl BlockKernel<f64> for Counting {
    fn coefficients(&self) -> usize {
        1
    }

    fn stencil(&self) -> Stencil {
        self.0
    }

    fn sweep(&self, Shape { rows, cols }: Shape, field: &mut [f64], coefficients: &[&[f64]]) {
        let old = field[cols + 1];
        let fits = |found: f64, expected: f64| found == expected || found == -1.0;
        for j in 1..rows - 1 {
            for k in 1..cols - 1 {
                assert_eq!(
                    (field[j * cols + k], coefficients[0][j * cols + k]),
                    (old, 0.5),
                    "own ({j}, {k})"
                );
            }
            assert!(fits(field[j * cols], old + 1.0), "west {j}");
            assert!(fits(field[j * cols + cols - 1], old), "east {j}");
        }
        for k in 1..cols - 1 {
            assert!(fits(field[k], old + 1.0), "north {k}");
            assert!(fits(field[(rows - 1) * cols + k], old), "south {k}");
        }
        let last = field.len() - 1;
        let corners = [(0, old + 1.0), (last, old), (cols - 1, old + 1.0), (last + 1 - cols, old)];
        for (n, (at, expected)) in corners.into_iter().enumerate() {
            let used = match self.0 {
                Stencil::FIVE_POINT => false,
                Stencil::SEVEN_POINT => n < 2,
                _ => true,
            };
            // At the end of the matrix, the corner is a point of its edge, whether or not the
            // kernel uses it.
            let found = field[at];
            assert!(
                found == -1.0 || if used { found == expected } else { found.is_nan() },
                "corner {n}: {found}"
            );
        }
        for j in 1..rows - 1 {
            field[j * cols + 1..j * cols + cols - 1].iter_mut().for_each(|value| *value += 1.0);
        }
    }
}

#[test]
fn the_halo_is_what_the_double_loop_would_see() {
    let shape = Shape::new(23, 31);
    let mut data = Data { shape, field: vec![-1.0; 23 * 31], coefficients: [vec![0.5; 23 * 31]] };
    for j in 1..22 {
        data.field[j * 31 + 1..j * 31 + 30].fill(0.0);
    }
    let blocks =
        [(Stencil::FIVE_POINT, 5, 7), (Stencil::SEVEN_POINT, 4, 6), (Stencil::NINE_POINT, 1, 6)];
    let wide =
        [(Stencil::NINE_POINT, 4, 31), (Stencil::SEVEN_POINT, 1, 1), (Stencil::FIVE_POINT, 1, 1)];
    for (stencil, high, wide) in blocks.into_iter().chain(wide) {
        let block = Block::new(high, wide);
        for (n, layout) in layouts(block).into_iter().enumerate() {
            let (field, coefficients) = data.matrices(None, layout);
            let sweep =
                BlockedSweep::of(Sweep::new(Counting(stencil)).iterations(9).runner(runner(n)))
                    .block(block);
            let (result, _) =
                sweep.run_blocks(&field, &coefficients, blank(None, shape, layout)).unwrap();
            let expected: Vec<f64> =
                data.field.iter().map(|v| if *v == 0.0 { 9.0 } else { *v }).collect();
            assert_eq!(values(&result), expected);
        }
    }
}

/// Records the shapes of its blocks.
struct Shapes<'s>(Stencil, &'s Mutex<Vec<Shape>>);

impl BlockKernel<f64> for Shapes<'_> {
    fn coefficients(&self) -> usize {
        0
    }

    fn stencil(&self) -> Stencil {
        self.0
    }

    fn sweep(&self, shape: Shape, _: &mut [f64], _: &[&[f64]]) {
        self.1.lock().unwrap().push(shape);
    }
}

/// A block that is the whole matrix has no halo, whichever edges are updated.
#[test]
fn the_halo_is_where_the_stencil_reaches() {
    use Neighbour::{East, North, NorthWest, SouthWest, West};
    let shape = Shape::new(6, 8);
    for neighbours in [&[North, West, NorthWest][..], &[West], &[East, North], &[SouthWest], &[]] {
        let (field, []) = Data::<f64, 0>::new(1, shape).matrices(None, Layout::RowMajor);
        let seen = Mutex::default();
        let sweep = BlockedSweep::of(Sweep::new(Shapes(Stencil::of(neighbours), &seen)));
        let sweep = sweep.block(Block::new(6, 8));
        sweep.run_blocks(&field, &[], blank(None, shape, Layout::RowMajor)).unwrap();
        assert_eq!(*seen.lock().unwrap(), [shape], "{neighbours:?}");
    }
}

/// The routine determines the order of updates: column by column, five points read the same
/// neighbours.
#[derive(Clone)]
struct ByColumns;

impl BlockKernel<f64> for ByColumns {
    fn coefficients(&self) -> usize {
        0
    }

    fn stencil(&self) -> Stencil {
        Stencil::FIVE_POINT
    }

    fn sweep(&self, Shape { rows, cols }: Shape, u: &mut [f64], _: &[&[f64]]) {
        for k in 1..cols - 1 {
            for j in 1..rows - 1 {
                let i = j * cols + k;
                let around = u[i - cols] + u[i + cols] + u[i - 1] + u[i + 1];
                u[i] += 0.3 * (around - 4.0 * u[i]);
            }
        }
    }
}

#[test]
fn column_by_column_is_the_same_for_five_points() {
    let shape = Shape::new(45, 38);
    let data = Data::<f64, 0>::new(9, shape);
    let mut whole = data.field.clone();
    (0..6).for_each(|_| ByColumns.sweep(shape, &mut whole, &[]));
    let (field, []) = data.matrices(None, Layout::RowMajor);
    let sweep = BlockedSweep::of(Sweep::new(ByColumns).iterations(6).runner(Runner::pool(2)))
        .block(Block::new(7, 9));
    let (result, _) = sweep.run_blocks(&field, &[], blank(None, shape, Layout::RowMajor)).unwrap();
    assert_eq!(bits(&values(&result)), bits(&whole));
}

/// The wrapper computes the greatest change of each iteration, in the type of the matrices.
#[test]
fn residuals_are_those_of_the_plain_loop() {
    fn check<T: Real>(odd: bool) {
        let shape = Shape::new(34, 29);
        let data = Data::<T, 1>::new(3, shape);
        let data = if odd { data.with_odd_values(3) } else { data };
        let kernel = Sor::new(1.1).unwrap();
        let expected = data.residuals(&kernel, 30);
        let block = Block::new(6, 8);
        for layout in layouts(block) {
            let (field, coefficients) = data.matrices(None, layout);
            let tolerance = expected[20].max(0.0);
            let sweep = Sweep::new(Loops::<_, 1>(kernel)).iterations(30).until(tolerance);
            let sweep = BlockedSweep::of(sweep.runner(Runner::pool(2)));
            let sweep = sweep.block(block).order(Order::Barrier);
            let (_, report) =
                sweep.run_blocks(&field, &coefficients, blank(None, shape, layout)).unwrap();
            assert_eq!(
                bits(&report.residuals),
                bits(&expected[..report.residuals.len()]),
                "{layout:?}"
            );
            let first = expected.iter().position(|&r| r <= tolerance).map(|at| at as u64);
            assert_eq!(report.converged, first);
            assert_eq!(report.iterations, first.map_or(30, |first| first + 1));
        }
    }
    check::<f64>(false);
    check::<f32>(false);
    check::<f64>(true);
}

/// The memory limit includes all arrays of a block in plain form, and the block itself if it is
/// framed.
#[test]
fn the_plain_form_counts() {
    let (shape, block) = (Shape::new(40, 50), Block::new(8, 9));
    let data = Data::<f64, 5>::new(3, shape);
    for (layout, frames) in layouts(block).into_iter().zip([0, 0, 1, 1]) {
        let (field, coefficients) = data.matrices(None, layout);
        let sweep = BlockedSweep::of(Sweep::new(Loops::<_, 5>(Lk23))).block(block);
        let plan = sweep.plan_blocks(&field, &coefficients, &blank(None, shape, layout)).unwrap();
        assert_eq!(plan.window, 6 * 10 * 11 * 8 + frames * 8 * 9 * 8, "{layout:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let shape = Shape::new(20, 20);
    let data = Data::<f64, 5>::new(3, shape);
    let (field, c) = data.matrices(None, Layout::RowMajor);
    let run = |sweep: Sweep<Loops<Lk23, 5>>, n: usize| {
        let sweep = BlockedSweep::of(sweep);
        sweep.run_blocks(&field, &c[..n], blank(None, shape, Layout::RowMajor)).unwrap_err()
    };
    let error = run(Sweep::new(Loops(Lk23)).iterations(3), 4);
    assert!(matches!(error, Error::Sweep(WaveError::Coefficients { expected: 5, given: 4 })));
    let run = |order, stencil| {
        let sweep = BlockedSweep::of(Sweep::new(Counting(stencil)));
        let sweep = sweep.block(Block::new(5, 5)).order(order);
        sweep.run_blocks(&field, &c[..1], blank(None, shape, Layout::RowMajor)).unwrap_err()
    };
    assert!(matches!(run(Order::MaxParallel, Stencil::SEVEN_POINT), Error::Corners));
    assert!(matches!(run(Order::Wave, Stencil::NINE_POINT), Error::CornerBlocks { .. }));
}

/// Panics when it is called for the twentieth time.
struct Breaking(AtomicUsize);

impl BlockKernel<f64> for Breaking {
    fn coefficients(&self) -> usize {
        0
    }

    fn stencil(&self) -> Stencil {
        Stencil::FIVE_POINT
    }

    fn sweep(&self, _: Shape, _: &mut [f64], _: &[&[f64]]) {
        assert!(self.0.fetch_add(1, Relaxed) != 19, "the routine broke");
    }
}

#[test]
fn a_routine_that_panics_is_an_error() {
    let shape = Shape::new(30, 30);
    for kind in 0..4 {
        let (field, []) = Data::<f64, 0>::new(1, shape).matrices(None, Layout::RowMajor);
        let sweep = Sweep::new(Breaking(AtomicUsize::new(0))).iterations(9).runner(runner(kind));
        let sweep = BlockedSweep::of(sweep).block(Block::new(8, 8));
        let result = blank(None, shape, Layout::RowMajor);
        match sweep.run_blocks(&field, &[], result) {
            Err(Error::Sweep(WaveError::Run(RunError::Panicked { message, .. }))) => {
                assert_eq!(message, "the routine broke")
            }
            other => panic!("{other:?}"),
        }
    }
}
