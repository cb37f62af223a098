//! Stencils: a point is updated if and only if every neighbour that the kernel declares exists, in
//! every form of kernel, and a kernel that reads an undeclared neighbour is refused before anything
//! is computed. The tests of `syncline-blocks` include this file: `Way` is another there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::Real;
use crate::common::{Data, blank, lanes, same, values};
use crate::way::{Way, common, way};
use proptest::prelude::*;
use syncline_store::{Layout, Matrix, Shape};
use syncline_testkit::property;
use syncline_wave::{
    Described, Error, Lane, Neighbour, Neighbours, PointKernel, Runner, Stencil, Sweep,
    kernels::Alignment,
    lanes::Lanes,
    reference::{Reference, plain_sweep},
    target::Target,
};

/// Distances by a chess king's steps. The kernel declares fewer neighbours than it reads: all
/// except those to the north-east and south-west, which `min` would hide if they were NaN.
#[derive(Clone)]
struct Chess<const ALL: bool>;

impl<const ALL: bool> PointKernel<1> for Chess<ALL> {
    const STENCIL: Stencil = if ALL { Stencil::NINE_POINT } else { Stencil::SEVEN_POINT };

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [cost]: [L; 1]) -> L {
        let across = L::splat(1.5) * cost;
        let near = (at.north + cost).min((at.west + cost).min(at.centre));
        (at.north_east + across)
            .min((at.south_west + across).min((at.north_west + across).min(near)))
    }
}

/// A kernel that reads a diagonal neighbour which its stencil does not declare.
#[derive(Clone)]
struct Leaning;

impl PointKernel<1> for Leaning {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    fn update<L: Lane>(&self, at: Neighbours<L>, [f]: [L; 1]) -> L {
        L::choose(f.less(L::splat(2.0)), at.north + at.west, at.north_west)
    }
}

const SHAPE: Shape = Shape::new(60, 80);

fn chess() -> Data<f64, 1> {
    let mut field = vec![1e9; SHAPE.elements()];
    field[30 * 80 + 40] = 0.0;
    let cost = (0..SHAPE.elements()).map(|i| 1.0 + (i * 7919 % 101) as f64).collect();
    Data { shape: SHAPE, field, coefficients: [cost] }
}

/// Checks that every way to run the kernel is refused with an error that names the neighbours it
/// reads, and leaves no file.
fn is_refused<K: PointKernel<1> + Clone>(kernel: &K, expected: Stencil) {
    let data = chess();
    let (field, coefficients) = data.matrices(None, Layout::RowMajor);
    let result = || blank::<f64>(None, SHAPE, Layout::RowMajor);
    let check = |what: &str, error: Option<Error>| match error {
        Some(error @ Error::Undeclared { reads, stencil }) => {
            assert_eq!((reads, stencil), (expected, K::STENCIL), "{what}");
            assert!(error.to_string().contains(&format!("reads {expected}, ")), "{what}: {error}");
        }
        other => panic!("{what}: {other:?}"),
    };
    for iterations in [0, 2] {
        let sweep = || Sweep::new(kernel.clone()).iterations(iterations);
        let (what, way) = (format!("{iterations} iterations"), Way::default());
        check(&what, way.run(sweep(), &field, &coefficients, result()).err().map(common));
        check(&what, way.plan(sweep(), &field, &coefficients, &result()).err().map(common));
    }
    let folder = tempfile::tempdir().unwrap();
    let target = Target::npy(folder.path().join("out"));
    check(
        "target",
        Sweep::new(kernel.clone())
            .iterations(9)
            .depth(2)
            .run_to(&field, &coefficients, &target)
            .err(),
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let loops = Reference { kernel, field: &field, coefficients: &coefficients, iterations: 1 };
    check("reference", loops.run(result(), 1 << 20).err());
    let mut work = data.field.clone();
    let plain = || plain_sweep(kernel, &mut work, [&data.coefficients[0]], 60, 80);
    let panic = catch_unwind(AssertUnwindSafe(plain)).expect_err("the plain loop runs");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains(&format!("reads {expected}, ")), "{message}");
    assert_eq!(work, data.field);
}

#[test]
fn a_kernel_that_reads_what_it_does_not_name_is_refused() {
    is_refused(&Chess::<false>, Stencil::of(&[Neighbour::NorthEast, Neighbour::SouthWest]));
    is_refused(&Leaning, Stencil::of(&[Neighbour::NorthWest]));
}

/// With all neighbours declared the result is that of a hand-written loop.
#[test]
fn a_kernel_that_names_what_it_reads_is_right() {
    let data = chess();
    let mut expected = data.field.clone();
    for _ in 0..2 {
        for i in (1..59).flat_map(|j| (1..79).map(move |k| j * 80 + k)) {
            let cost = data.coefficients[0][i];
            let across = [i - 79, i + 79, i - 81].map(|i| expected[i] + 1.5 * cost);
            let near = [i - 80, i - 1].map(|i| expected[i] + cost);
            let least = across.into_iter().chain(near).fold(expected[i], f64::min);
            expected[i] = least;
        }
    }
    let (field, coefficients) = data.matrices(None, Layout::RowMajor);
    for lanes in Lanes::available() {
        let sweep = Sweep::new(Chess::<true>).iterations(2).lanes(lanes);
        let result = blank(None, SHAPE, Layout::RowMajor);
        let (result, _) = Way::default().run(sweep, &field, &coefficients, result).unwrap();
        same(&values(&result), &expected, 80).unwrap();
    }
}

/// The settings of a sweep.
#[derive(Clone, Debug)]
struct How {
    lanes: Lanes,
    threads: usize,
    iterations: u64,
    way: Way,
}

fn how() -> impl Strategy<Value = How> {
    (lanes(), 1..4_usize, 1..5_u64, way()).prop_map(|(lanes, threads, iterations, way)| How {
        lanes,
        threads,
        iterations,
        way,
    })
}

impl How {
    fn sweep<K>(&self, kernel: K) -> Sweep<K> {
        Sweep::new(kernel)
            .iterations(self.iterations)
            .lanes(self.lanes)
            .runner(Runner::pool(self.threads))
    }

    /// Returns the field, its coefficients and a result, in the layout.
    #[expect(clippy::type_complexity, reason = "three matrices")]
    fn matrices<T: Real, const N: usize>(
        &self,
        data: &Data<T, N>,
        stencil: Stencil,
    ) -> (Arc<Matrix<T>>, [Arc<Matrix<T>>; N], Matrix<T>) {
        let layout = self.way.layout(data.shape, stencil);
        let (field, coefficients) = data.matrices(None, layout);
        (field, coefficients, blank(None, data.shape, layout))
    }

    /// Runs a kernel in Rust, and the same kernel as a text.
    fn both<T: Real, K: PointKernel<N> + Clone, const N: usize>(
        &self,
        kernel: &K,
        text: &str,
        data: &Data<T, N>,
    ) -> [Vec<T>; 2] {
        let (field, coefficients, result) = self.matrices(data, K::STENCIL);
        let sweep = self.sweep(kernel.clone());
        let (typed, report) = self.way.run(sweep, &field, &coefficients, result).unwrap();
        assert_eq!(report.iterations, self.iterations);
        [values(&typed), self.described(text, data, K::STENCIL)]
    }

    fn described<T: Real, const N: usize>(
        &self,
        text: &str,
        data: &Data<T, N>,
        stencil: Stencil,
    ) -> Vec<T> {
        let kernel = Described::parse(text).unwrap();
        assert_eq!(kernel.stencil(), stencil, "{text}");
        let (field, coefficients, result) = self.matrices(data, stencil);
        let sweep = self.sweep(kernel.clone());
        let (result, _) = self.way.run_dynamic(sweep, &field, &coefficients, result).unwrap();
        let loops = Reference {
            kernel: &kernel,
            field: &field,
            coefficients: &coefficients,
            iterations: self.iterations,
        };
        // The reference runs in bands of few rows.
        let plain = loops.run_dynamic(blank(None, data.shape, Layout::RowMajor), 3000).unwrap();
        assert_eq!(values(&result), values(&plain), "the reference differs: {text}");
        values(&result)
    }
}

/// Returns the scores of two sequences and of all their prefixes, in whole numbers: rows of the
/// one, columns of the other.
fn scores(a: &[u8], b: &[u8], (equal, other, gap): (i64, i64, i64), local: bool) -> Vec<i64> {
    let cols = b.len() + 1;
    let mut table = vec![0; (a.len() + 1) * cols];
    for j in 0..=a.len() {
        for k in 0..cols {
            let meet =
                || table[(j - 1) * cols + k - 1] + if a[j - 1] == b[k - 1] { equal } else { other };
            let best = match (j, k) {
                (0, _) | (_, 0) if local => 0,
                (0, n) | (n, 0) => -gap * n as i64,
                _ => meet().max(table[(j - 1) * cols + k] - gap).max(table[j * cols + k - 1] - gap),
            };
            table[j * cols + k] = if local { best.max(0) } else { best };
        }
    }
    table
}

#[derive(Clone, Debug)]
struct Sequences {
    a: Vec<u8>,
    b: Vec<u8>,
    costs: (i64, i64, i64),
    local: bool,
}

fn sequences() -> impl Strategy<Value = Sequences> {
    let letters = || prop_oneof![3 => prop::collection::vec(0_u8..4, 0..40), 1 => prop::collection::vec(0_u8..4, 0..4)];
    (letters(), letters(), (1..4_i64, -3..1_i64, 0..4_i64), any::<bool>())
        .prop_map(|(a, b, costs, local)| Sequences { a, b, costs, local })
}

impl Sequences {
    /// Returns the matrices of the sequences: the gaps alone, zeros, and the scores of pairs of
    /// letters.
    fn data<T: Real>(&self) -> Data<T, 1> {
        let shape = Shape::new(self.a.len() + 1, self.b.len() + 1);
        let (mut field, mut meet) =
            (vec![T::default(); shape.elements()], vec![T::default(); shape.elements()]);
        let (equal, other, gap) = self.costs;
        for (i, (field, meet)) in field.iter_mut().zip(&mut meet).enumerate() {
            let (j, k) = (i / shape.cols, i % shape.cols);
            if j == 0 || k == 0 {
                *field = T::from_f64(if self.local { 0.0 } else { -(gap * (j + k) as i64) as f64 });
            } else {
                let score = if self.a[j - 1] == self.b[k - 1] { equal } else { other };
                // Values of an earlier alignment make no difference.
                (*meet, *field) = (T::from_f64(score as f64), T::from_f64(99.0));
            }
        }
        Data { shape, field, coefficients: [meet] }
    }

    fn check<T: Real>(&self, how: &How) -> Result<(), TestCaseError> {
        let gap = self.costs.2;
        let kernel =
            if self.local { Alignment::local(gap as f64) } else { Alignment::global(gap as f64) };
        let least = if self.local {
            "max(0, max(nw + m, max(n, w) - gap))"
        } else {
            "max(nw + m, max(n, w) - gap)"
        };
        let text = format!(
            "name = 'a'\nfield = 'score'\ncoefficients = ['m']\nupdate = 'score = {least}'\nconstants = {{ gap = {gap} }}"
        );
        let data = self.data::<T>();
        let expected: Vec<T> = scores(&self.a, &self.b, self.costs, self.local)
            .into_iter()
            .map(|score| T::from_f64(score as f64))
            .collect();
        let cols = data.shape.cols;
        for found in how.both(&kernel.unwrap(), &text, &data) {
            // Zeros of either sign are the same score.
            let at = found.iter().zip(&expected).position(|(a, b)| a != b);
            prop_assert!(
                at.is_none(),
                "{:?}",
                at.map(|at| (at / cols, at % cols, found[at], expected[at]))
            );
        }
        Ok(())
    }
}

/// Returns the neighbours of a stencil by the bits of a number, with their names in a text.
fn chosen(bits: u8) -> (Stencil, Vec<&'static str>) {
    let names = ["n", "w", "e", "s", "nw", "se", "ne", "sw"];
    let all = Neighbour::ALL.into_iter().zip(names).enumerate();
    let (neighbours, names): (Vec<_>, Vec<_>) =
        all.filter(|(n, _)| bits >> n & 1 == 1).map(|(_, pair)| pair).unzip();
    (Stencil::of(&neighbours), names)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(300) })]

    /// Every score of an alignment is that of the table, to the last row and column.
    #[test]
    fn alignments_are_those_of_the_table(sequences in sequences(), how in how(), float32: bool) {
        if float32 { sequences.check::<f32>(&how)? } else { sequences.check::<f64>(&how)? }
    }

    /// For any stencil on any shape, the sweep updates the points for which a loop finds that all
    /// their neighbours exist.
    #[test]
    fn points_are_updated_if_their_neighbours_exist(
        bits: u8,
        (rows, cols) in (prop_oneof![1..4_usize, 1..50_usize], prop_oneof![1..4_usize, 1..50_usize]),
        how in how(),
        seed: u64,
    ) {
        let (stencil, names) = chosen(bits);
        let shape = Shape::new(rows, cols);
        let data = Data::<f64, 1>::new(seed, shape);
        let mut expected = data.field.clone();
        let weight = |n: usize| 0.0625 * (n + 1) as f64;
        for _ in 0..how.iterations {
            for i in 0..shape.elements() {
                let place = |n: Neighbour| {
                    let (down, right) = n.offset();
                    let (j, k) = ((i / cols) as isize + down, (i % cols) as isize + right);
                    let inside = (0..rows as isize).contains(&j) && (0..cols as isize).contains(&k);
                    inside.then_some((j * cols as isize + k) as usize)
                };
                if let Some(places) = stencil.neighbours().map(place).collect::<Option<Vec<_>>>() {
                    let own = expected[i] * 0.375 + data.coefficients[0][i];
                    expected[i] = places.iter().enumerate().fold(own, |sum, (n, at)| sum - expected[*at] * weight(n));
                }
            }
        }
        let terms: String = names.iter().enumerate().map(|(n, name)| format!(" - {name}*{}", weight(n))).collect();
        let text = format!("name = 'k'\nfield = 'u'\ncoefficients = ['c']\nupdate = 'u = u*0.375 + c{terms}'");
        same(&how.described(&text, &data, stencil), &expected, cols)?;
    }
}

/// The example that the reproduction of the literature shows: AAA and AAA score 6 with 2 for each
/// pair, and the last point has that score.
#[test]
fn the_last_point_is_the_score_of_both_sequences() {
    let shape = Shape::new(4, 4);
    let data = Data { shape, field: vec![0.0; 16], coefficients: [vec![2.0; 16]] };
    let way = Way::default();
    let how = How { lanes: Lanes::best(), threads: 1, iterations: 1, way };
    let text = "name = 'a'\nfield = 'score'\ncoefficients = ['m']\nupdate = 'score = max(0, max(nw + m, max(n, w) - 1))'";
    for found in how.both(&Alignment::local(1.0).unwrap(), text, &data) {
        assert_eq!(found[15], 6.0);
        let row = |j: usize| found[4 * j..4 * j + 4].to_vec();
        assert_eq!((row(0), row(3)), (vec![0.0; 4], vec![0.0, 2.0, 4.0, 6.0]));
    }
}
