//! Chained bands in strips equal the plain double loop bit for bit, in every order of pieces that
//! the contract of [`tile`](super::tile) allows; orders that it forbids are detected.

mod c_kernel;
mod described;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use syncline_kernel::point::{Neighbours, PointKernel, Typed};
use syncline_store::Shape;
use syncline_testkit::{Random, cases, property};

use super::ghosts::Ghosts;
use super::pack::Rows;
use super::tile::{Chain, Job, Scratch, run};
use super::{Geometry, Ring, TOGETHER};
use crate::lanes::{Lane, Lanes, Real};
use crate::{Neighbour, Stencil, kernels::Lk23, reference::plain_sweep};

pub(crate) fn numbers<T: Real>(seed: u64, count: usize, scale: f64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..count).map(|_| T::from_f64(random.fraction() * scale)).collect()
}

/// A kernel of all eight neighbours, each with a weight of its own.
pub(super) struct Eight;

impl PointKernel<1> for Eight {
    const STENCIL: Stencil = Stencil::NINE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [more]: [L; 1]) -> L {
        let weighted = |value: L, weight: f64| value * L::splat(weight);
        weighted(at.centre, 0.09) + weighted(at.north, 0.17) - weighted(at.west, 0.11)
            + weighted(at.east, 0.07)
            + weighted(at.south, 0.19)
            - weighted(at.north_west, 0.03)
            + weighted(at.north_east, 0.13)
            + weighted(at.south_west, 0.05)
            - weighted(at.south_east, 0.15)
            + more
    }
}

/// A kernel of some of the neighbours, each with a weight of its own; edges that the other kernels
/// keep are updated, too.
pub(super) struct Few<const BITS: u8>;

impl<const BITS: u8> PointKernel<1> for Few<BITS> {
    const STENCIL: Stencil = {
        let (mut stencil, mut n) = (Stencil::of(&[]), 0);
        while n < 8 {
            if BITS >> n & 1 == 1 {
                stencil = stencil.union(Stencil::of(&[Neighbour::ALL[n]]));
            }
            n += 1;
        }
        stencil
    };

    #[inline(always)]
    fn update<L: Lane>(&self, mut at: Neighbours<L>, [more]: [L; 1]) -> L {
        let mut sum = at.centre * L::splat(0.375) + more;
        for (n, neighbour) in Neighbour::ALL.into_iter().enumerate() {
            if BITS >> n & 1 == 1 {
                sum = sum - *at.get_mut(neighbour) * L::splat(0.0625 * (n + 1) as f64);
            }
        }
        sum
    }
}

/// The choice of the next piece and band.
#[derive(Clone, Copy, Debug)]
enum Schedule {
    /// One band after another, each in one piece.
    Bands,
    /// Any allowed piece of up to this number of columns.
    Random { piece: usize, seed: u64 },
    /// The lowest allowed band: bands follow one another as closely as possible.
    Closely { piece: usize },
}

#[derive(Clone, Debug)]
struct Case {
    lanes: Lanes,
    shape: Shape,
    levels: usize,
    band: usize,
    tile: usize,
    schedule: Schedule,
    /// The number of bands that may be in flight at once, and the number for which the ring has
    /// slots.
    under_way: usize,
    slots: usize,
    /// The number of columns by which a band comes too early.
    early: usize,
    /// Whether the result replaces the field.
    in_place: bool,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            lanes: Lanes::best(),
            shape: Shape::new(200, 400),
            levels: 5,
            band: TOGETHER,
            tile: 32,
            schedule: Schedule::Bands,
            under_way: 1,
            slots: 1,
            early: 0,
            in_place: false,
        }
    }
}

/// The field after all iterations, and the greatest change in each.
type Outcome<T> = (Vec<T>, Vec<f64>);

impl Case {
    fn arrays<T: Real, const N: usize>(&self) -> Vec<Vec<T>> {
        let n = self.shape.elements();
        (0..=N as u64).map(|a| numbers(a, n, if a == 0 { 1.0 } else { 0.25 })).collect()
    }

    fn plain<T: Real, K: PointKernel<N>, const N: usize>(&self, kernel: &K) -> Outcome<T> {
        let mut arrays = self.arrays::<T, N>();
        let (field, coefficients) = arrays.split_first_mut().unwrap();
        let sweep = |_| {
            let before = field.clone();
            let c = std::array::from_fn(|n| &coefficients[n][..]);
            plain_sweep(kernel, field, c, self.shape.rows, self.shape.cols);
            let changes = field.iter().zip(&before).map(|(a, b)| Lane::abs(*a - *b).to_f64());
            changes.fold(0.0, f64::max)
        };
        let norms = (0..self.levels).map(sweep).collect();
        (arrays.swap_remove(0), norms)
    }

    fn chained<T: Real, K: PointKernel<N>, const N: usize>(
        &self,
        kernel: &K,
        norm: bool,
    ) -> Outcome<T> {
        let ghosts = Ghosts::new(self.shape, K::STENCIL);
        let geometry = Geometry {
            shape: ghosts.shape(),
            width: self.lanes.width(T::BYTES),
            skew: if K::STENCIL.corners() { 2 } else { 1 },
            arrays: 1 + N,
            slots: Chain::slots(self.lanes.width(T::BYTES), self.levels, self.band, self.slots),
        };
        let chain = Chain { geometry, levels: self.levels, band: self.band };
        let ring = Ring::new(geometry).unwrap();
        let mut arrays = self.arrays::<T, N>();
        let mut out = vec![T::from_f64(-1.0); self.shape.elements()];
        let (rows, cols) = (self.shape.rows, self.shape.cols);
        let all = |start| {
            ghosts.place(Rows { start, first: 0, end: rows, left: 0, right: cols, pitch: cols })
        };
        let rows_in: Vec<_> = arrays.iter_mut().map(|a| all(a.as_mut_ptr())).enumerate().collect();
        let rows_out = if self.in_place { rows_in[0].1 } else { all(out.as_mut_ptr()) };
        let mut norms = vec![0.0; self.levels];
        let mut scratch = Scratch::new(&geometry, self.tile);
        self.pieces(&chain, |band, columns| {
            let (chain, ring, rows_in, tile) = (&chain, &ring, &rows_in[..], self.tile);
            let job = Job { chain, ring, band, columns, rows_in, rows_out, tile };
            let norms = norm.then_some(&mut norms[chain.levels_in(band)]);
            // SAFETY: the ring has the geometry of the chain and the width of these lanes, which
            // the machine has; the rows are whole matrices. Everything runs in one thread, so a
            // piece that comes too early reads old values but no invalid memory, and the ring wraps
            // around whatever its number of slots.
            unsafe { run(self.lanes, &Typed::<K, N>(kernel), &job, &mut scratch, norms) };
        });
        (if self.in_place { arrays.swap_remove(0) } else { out }, norms)
    }

    /// Calls `run` for all pieces of all bands, in the order of the schedule.
    fn pieces(&self, chain: &Chain, mut run: impl FnMut(usize, std::ops::Range<isize>)) {
        let (walk, bands) = (chain.walk(), chain.bands());
        let mut next = vec![walk.start; bands];
        let mut random =
            Random::new(if let Schedule::Random { seed, .. } = self.schedule { seed } else { 0 });
        while let Some(first) = next.iter().position(|&column| column < walk.end) {
            // The pieces that may be next: those of the bands in flight whose upper neighbour is
            // far enough ahead.
            let mut size = || match self.schedule {
                Schedule::Bands => walk.len(),
                Schedule::Random { piece, .. } => 1 + random.below(piece),
                Schedule::Closely { piece } => piece,
            };
            let piece = |band: usize| {
                let to = (next[band] + size() as isize).min(walk.end);
                let needed = to + chain.ahead() as isize - self.early as isize;
                let free = band == 0 || next[band - 1] >= needed.min(walk.end);
                (free && next[band] < walk.end).then_some((band, next[band]..to))
            };
            let allowed: Vec<_> =
                (first..bands.min(first + self.under_way)).filter_map(piece).collect();
            let choice = match self.schedule {
                Schedule::Random { .. } => random.below(allowed.len()),
                _ => allowed.len() - 1,
            };
            let (band, columns) = allowed[choice].clone();
            next[band] = columns.end;
            run(band, columns);
        }
    }

    fn is_the_plain_loop<T: Real, K: PointKernel<N>, const N: usize>(&self, kernel: &K) -> bool {
        let (expected, norms) = self.plain::<T, K, N>(kernel);
        let found = self.chained::<T, K, N>(kernel, true);
        found == (expected.clone(), norms) && self.chained::<T, K, N>(kernel, false).0 == expected
    }

    fn check(&self) {
        assert!(self.is_the_plain_loop::<f64, _, 5>(&Lk23), "Lk23, f64: {self:?}");
        assert!(self.is_the_plain_loop::<f32, _, 5>(&Lk23), "Lk23, f32: {self:?}");
        assert!(self.is_the_plain_loop::<f64, _, 1>(&Eight), "eight, f64: {self:?}");
        assert!(self.is_the_plain_loop::<f32, _, 1>(&Eight), "eight, f32: {self:?}");
        // North, west, north-west; south and east; west; north-west, north and north-east.
        assert!(self.is_the_plain_loop::<f64, _, 1>(&Few::<0b0001_0011>), "0b0001_0011: {self:?}");
        assert!(self.is_the_plain_loop::<f32, _, 1>(&Few::<0b0000_1100>), "0b0000_1100: {self:?}");
        assert!(self.is_the_plain_loop::<f64, _, 1>(&Few::<0b0000_0010>), "0b0000_0010: {self:?}");
        assert!(self.is_the_plain_loop::<f32, _, 1>(&Few::<0b0101_0001>), "0b0101_0001: {self:?}");
    }
}

#[test]
fn small() {
    for lanes in Lanes::available() {
        for (rows, cols) in [(3, 3), (4, 9), (10, 10), (37, 41), (64, 30), (19, 100)] {
            for (levels, band, tile) in
                [(1, 4, 8), (2, 4, 16), (4, 4, 8), (5, 8, 32), (20, 8, 32), (9, 16, 1000)]
            {
                let shape = Shape::new(rows, cols);
                Case { lanes, shape, levels, band, tile, ..Case::default() }.check();
            }
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let lanes = prop::sample::select(Lanes::available().collect::<Vec<_>>());
    let numbers = (3..150_usize, 3..250_usize, 1..25_usize, 1..5_usize, 1..80_usize);
    let order = (1..300_usize, any::<u64>(), 1..6_usize, any::<bool>());
    (lanes, numbers, order).prop_map(|(lanes, numbers, (piece, seed, bands, in_place))| {
        let (rows, cols, levels, fours, tile) = numbers;
        Case {
            lanes,
            shape: Shape::new(rows, cols),
            levels,
            band: fours * TOGETHER,
            tile,
            schedule: Schedule::Random { piece, seed },
            under_way: bands,
            slots: bands,
            early: 0,
            in_place,
        }
    })
}

proptest! {
    #![proptest_config(property(120))]

    /// Any shape, in any allowed order, equals the plain loop.
    #[test]
    fn any_order_of_pieces(case in case()) {
        case.check();
    }
}

/// Bands as close to one another as allowed, and as many as the ring has slots for.
#[test]
fn closely() {
    for lanes in Lanes::available() {
        for piece in [1, 100, 7, 32].into_iter().take(cases(4) as usize) {
            let schedule = Schedule::Closely { piece };
            Case { lanes, schedule, under_way: 4, slots: 4, ..Case::default() }.check();
        }
    }
}

/// The comparison detects a band that comes one piece too early, a ring without slots for a band,
/// and a ring without slots for all bands in flight (most easily with vectors of one value, which
/// drift the most).
#[test]
fn what_is_not_allowed_shows() {
    for lanes in Lanes::available() {
        let piece = 2 * TOGETHER * lanes.width(8);
        let schedule = Schedule::Closely { piece };
        let legal = Case { lanes, schedule, under_way: 4, slots: 4, ..Case::default() };
        assert!(legal.is_the_plain_loop::<f64, _, 5>(&Lk23), "{legal:?}");
        let early = Case { early: piece, ..legal.clone() };
        assert!(!early.is_the_plain_loop::<f64, _, 5>(&Lk23), "{early:?}");
        // With one iteration only: after several iterations, wide vectors need overwritten values
        // only in columns where they are still intact.
        let narrow = Case { slots: 0, levels: 1, ..legal.clone() };
        assert!(!narrow.is_the_plain_loop::<f64, _, 5>(&Lk23), "{narrow:?}");
        let legal = Case { levels: 1, ..legal };
        assert!(legal.is_the_plain_loop::<f64, _, 5>(&Lk23), "{legal:?}");
    }
    let schedule = Schedule::Closely { piece: 8 };
    let legal = Case {
        lanes: Lanes::Scalar,
        levels: 19,
        schedule,
        under_way: 2,
        slots: 2,
        ..Case::default()
    };
    assert!(legal.is_the_plain_loop::<f64, _, 5>(&Lk23), "{legal:?}");
    let narrow = Case { slots: 1, ..legal };
    assert!(!narrow.is_the_plain_loop::<f64, _, 5>(&Lk23), "{narrow:?}");
}

/// The kernel is called for each interior point and iteration, and for few other points.
#[test]
fn the_edges_cost_little() {
    struct Counts(AtomicU64);
    impl PointKernel<0> for Counts {
        const STENCIL: Stencil = Stencil::FIVE_POINT;
        #[inline(always)]
        fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
            self.0.fetch_add(1, Relaxed);
            at.west
        }
    }
    let case = Case { lanes: Lanes::Scalar, shape: Shape::new(402, 1002), ..Case::default() };
    let kernel = Counts(AtomicU64::new(0));
    case.chained::<f64, _, 0>(&kernel, false);
    let (calls, points) = (kernel.0.into_inner(), 400 * 1000 * case.levels as u64);
    assert!((points..points + points / 20).contains(&calls), "{calls} calls for {points} points");
}
