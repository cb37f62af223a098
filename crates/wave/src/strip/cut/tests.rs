//! Hosts that share the columns of every band equal the plain double loop bit for bit, in every
//! order of pieces and messages that the contract of [`cut`](super) allows; planted faults are
//! found.
//!
//! Each host has a ring, inputs and an output of its own, all of which are filled with NaN where
//! the host has no business. Messages are buffers.

mod faults;
mod hosts;
mod sizes;

use proptest::prelude::*;
use syncline_kernel::dynamic::{Dynamic as _, Kernel};
use syncline_kernel::point::Typed;
use syncline_store::Shape;
use syncline_testkit::property;

use hosts::{Fault, Found, simulate};

use super::super::ghosts::Ghosts;
use super::super::tests::{Eight, Few, numbers};
use super::super::tile::Chain;
use super::super::{Geometry, TOGETHER};
use crate::described::Described;
use crate::lanes::{Lane, Lanes, Real};
use crate::{
    PointKernel,
    kernels::{Lk23, Sor},
    reference::plain_sweep,
};

/// The next event, of those that are allowed.
#[derive(Clone, Copy, Debug)]
enum Prefer {
    Any,
    /// The westernmost host, as far ahead as it may be.
    West,
    /// The easternmost host, as close behind as it may be.
    East,
    /// The earliest band, or the latest.
    Early,
    Late,
    /// Messages as late as possible, or as soon as possible.
    Pieces,
    Messages,
}

#[derive(Clone, Debug)]
struct Case {
    lanes: Lanes,
    shape: Shape,
    levels: usize,
    band: usize,
    tile: usize,
    /// The number of columns by which a piece is wider than necessary.
    wider: usize,
    hosts: usize,
    /// The number of bands that may be in flight on each host.
    in_flight: [usize; 5],
    passes: usize,
    prefer: Prefer,
    seed: u64,
    norm: bool,
    /// The number of positions around the window of each ring that no host may write.
    guard: isize,
    fault: Fault,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            lanes: Lanes::best(),
            shape: Shape::new(150, 300),
            levels: 6,
            band: TOGETHER,
            tile: 32,
            wider: 3,
            hosts: 3,
            in_flight: [2, 3, 2, 4, 5],
            passes: 1,
            prefer: Prefer::Any,
            seed: 0,
            norm: false,
            guard: 0,
            fault: Fault::None,
        }
    }
}

impl Case {
    /// Returns the chain of a sweep of a kernel, on a host with this number of bands in flight.
    fn chain<T: Real>(&self, kernel: &dyn Kernel<T>, in_flight: usize) -> Chain {
        let width = self.lanes.width(T::BYTES);
        let geometry = Geometry {
            shape: Ghosts::new(self.shape, kernel.stencil()).shape(),
            width,
            skew: if kernel.corners() { 2 } else { 1 },
            arrays: 1 + kernel.coefficients(),
            slots: 0,
        };
        let slots = Chain::slots(width, self.levels, self.band, in_flight);
        Chain { geometry: geometry.with_slots(slots), levels: self.levels, band: self.band }
    }

    /// Returns the number of iterations of a pass: every other pass is shorter.
    fn levels_of(&self, pass: usize) -> usize {
        if pass.is_multiple_of(2) { self.levels } else { self.levels.div_ceil(2) }
    }

    fn arrays<T: Real>(&self, coefficients: usize) -> Vec<Vec<T>> {
        let n = self.shape.elements();
        let scale = |array| if array == 0 { 1.0 } else { 0.25 };
        (0..=coefficients as u64).map(|a| numbers(self.seed ^ a, n, scale(a))).collect()
    }

    /// Returns the field after all passes, and the greatest change in each iteration.
    fn plain<T: Real, K: PointKernel<N>, const N: usize>(&self, kernel: &K) -> (Vec<T>, Vec<f64>) {
        let mut arrays = self.arrays::<T>(N);
        let (field, coefficients) = arrays.split_first_mut().unwrap();
        let sweep = |_| {
            let before = field.clone();
            let c = std::array::from_fn(|n| &coefficients[n][..]);
            plain_sweep(kernel, field, c, self.shape.rows, self.shape.cols);
            let changes = field.iter().zip(&before).map(|(a, b)| Lane::abs(*a - *b).to_f64());
            changes.fold(0.0, f64::max)
        };
        let levels: usize = (0..self.passes).map(|pass| self.levels_of(pass)).sum();
        let norms = (0..levels).map(sweep).collect();
        (arrays.swap_remove(0), norms)
    }

    /// Runs the case with `kernel` on hosts; returns whether it equals `K` in the plain loop, and
    /// the findings on the way.
    fn run<T: Real, K: PointKernel<N>, const N: usize>(
        &self,
        plain: &K,
        kernel: &dyn Kernel<T>,
    ) -> (bool, Found) {
        let (expected, norms) = self.plain::<T, K, N>(plain);
        let (out, found) = simulate(self, kernel, self.arrays::<T>(N));
        let same = out.iter().zip(&expected).all(|(a, b)| a.bits() == b.bits());
        (same && (!self.norm || found.norms == norms), found)
    }

    /// Checks that the case equals the plain loop, and that values cross the cuts: as many as are
    /// announced, and some if the matrix has
    /// a whole band of rows.
    fn check_of<T: Real, K: PointKernel<N>, const N: usize>(
        &self,
        plain: &K,
        kernel: &dyn Kernel<T>,
        name: &str,
    ) {
        let (same, found) = self.run(plain, kernel);
        assert!(same, "{name}, {} bytes: {self:?}", T::BYTES);
        assert_eq!(found.crossed, found.to_cross, "{name}, {} bytes: {self:?}", T::BYTES);
        let width = self.lanes.width(T::BYTES);
        let enough = self.shape.rows > self.band * width && self.shape.cols > 4 * width;
        if found.hosts > 1 && enough {
            assert!(found.crossed.iter().sum::<usize>() > 0, "{name}: {self:?}");
        }
    }

    fn check(&self) {
        fn both<K: PointKernel<N>, const N: usize>(case: &Case, kernel: &K, name: &str) {
            case.check_of::<f64, K, N>(kernel, &Typed::<K, N>(kernel), name);
            case.check_of::<f32, K, N>(kernel, &Typed::<K, N>(kernel), name);
        }
        both::<_, 5>(self, &Lk23, "Lk23");
        both::<_, 1>(self, &Eight, "eight");
        // North, west, north-west; south and east; west; north-west, north and north-east.
        both::<_, 1>(self, &Few::<0b0001_0011>, "0b0001_0011");
        both::<_, 1>(self, &Few::<0b0000_1100>, "0b0000_1100");
        both::<_, 1>(self, &Few::<0b0000_0010>, "0b0000_0010");
        both::<_, 1>(self, &Few::<0b0101_0001>, "0b0101_0001");
        let (sor, described) = (Sor::new(1.7).unwrap(), Described::parse(SOR).unwrap());
        self.check_of::<f64, _, 1>(&sor, &*described.kernel().unwrap(), "described");
        self.check_of::<f32, _, 1>(&sor, &*described.kernel().unwrap(), "described");
    }
}

const SOR: &str = "name = 'sor'\nfield = 'u'\ncoefficients = ['f']\nconstants = { omega = 1.7 }\n\
    update = 'u = u + omega*((n + s + e + w + f)/4 - u)'";

#[test]
#[ignore = "full: 7 s of computing"]
fn small() {
    for lanes in Lanes::available() {
        for (rows, cols) in [(3, 3), (4, 9), (10, 10), (37, 41), (64, 30), (19, 100)] {
            for (levels, band, tile) in [(1, 4, 8), (2, 4, 16), (20, 8, 32)] {
                for hosts in [1, 2, 5] {
                    let shape = Shape::new(rows, cols);
                    Case { lanes, shape, levels, band, tile, hosts, ..Case::default() }.check();
                }
            }
        }
    }
}

/// More iterations than rows: the cut of the last ones is far from that of the first.
#[test]
#[ignore = "full: 8 s of computing"]
fn deep() {
    for lanes in Lanes::available() {
        for prefer in [Prefer::Pieces, Prefer::West] {
            let shape = Shape::new(45, 420);
            Case { lanes, shape, levels: 60, prefer, passes: 2, guard: 40, ..Case::default() }
                .check();
        }
    }
}

/// A host may be several bands ahead of its neighbour.
#[test]
fn ahead() {
    for lanes in Lanes::available() {
        let shape = Shape::new(200, 500);
        let case = Case { lanes, shape, in_flight: [5; 5], hosts: 2, ..Case::default() };
        let ahead = |prefer| {
            let case = Case { prefer, ..case.clone() };
            case.run::<f64, _, 5>(&Lk23, &Typed::<_, 5>(&Lk23)).1.ahead
        };
        assert!(ahead(Prefer::West) > 1, "{lanes}");
    }
}

fn case() -> impl Strategy<Value = Case> {
    let lanes = prop::sample::select(Lanes::available().collect::<Vec<_>>());
    let numbers = (3..150_usize, 3..300_usize, 1..25_usize, 1..4_usize, 1..80_usize);
    let prefer = prop::sample::select(vec![
        Prefer::Any,
        Prefer::West,
        Prefer::East,
        Prefer::Early,
        Prefer::Late,
        Prefer::Pieces,
        Prefer::Messages,
    ]);
    let hosts = (1..6_usize, prop::array::uniform5(1..6_usize));
    let order = (0..100_usize, prefer, any::<u64>(), any::<bool>(), 1..4_usize);
    (lanes, numbers, hosts, order).prop_map(|(lanes, numbers, (hosts, in_flight), order)| {
        let (rows, cols, levels, fours, tile) = numbers;
        let (wider, prefer, seed, norm, passes) = order;
        Case {
            lanes,
            shape: Shape::new(rows, cols),
            levels,
            band: fours * TOGETHER,
            tile,
            wider,
            hosts,
            in_flight,
            passes,
            prefer,
            seed,
            norm,
            guard: if norm { 40 } else { 0 },
            fault: Fault::None,
        }
    })
}

proptest! {
    #![proptest_config(property(40))]

    /// Any shape on any number of hosts, in any allowed order, equals the plain loop.
    #[test]
    fn any_order_of_pieces_and_messages(case in case()) {
        case.check();
    }
}
