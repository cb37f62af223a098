//! Detects the neighbours that an update reads, by running it on values that record their origin.
//!
//! # Contract
//! [`reads`] runs the update of a kernel once. A value carries the set of neighbours that it
//! depends on. The result of every operation depends on all its operands, so comparisons, choices,
//! `min` and `max` hide no neighbour. An update cannot branch on a lane in any other way, because
//! [`Lane`] does not expose its values. It can branch on the fields of the kernel, which have their
//! real values in this run.
//!
//! # Why the check is not one of types
//! Accessors with assertions at compile time would cost each kernel a second type parameter,
//! and fail in `cargo build` only, not in `cargo check`. They would reject a neighbour that is
//! read under a condition on the fields of the kernel.
//!
//! # Costs
//! One update per sweep; none in the loop over points.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Neighbour, Stencil};
use crate::{Error, Lane, Neighbours, PointKernel, Result};

/// A value of which only the set of neighbours that it depends on is recorded.
#[derive(Clone, Copy, Debug)]
struct Origin(Stencil);

impl Origin {
    const NONE: Origin = Origin(Stencil::of(&[]));

    const fn of(neighbour: Neighbour) -> Self {
        Origin(Stencil::of(&[neighbour]))
    }

    const fn with(self, other: Self) -> Self {
        Origin(self.0.union(other.0))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Origin {
            type Output = Origin;
            fn $method(self, other: Origin) -> Origin {
                self.with(other)
            }
        }
    )*};
}

operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Origin {
    type Output = Origin;
    fn neg(self) -> Origin {
        self
    }
}

impl Lane for Origin {
    type Mask = Origin;

    fn splat(_: f64) -> Self {
        Origin::NONE
    }

    fn less(self, other: Self) -> Origin {
        self.with(other)
    }

    fn equal(self, other: Self) -> Origin {
        self.with(other)
    }

    fn choose(mask: Origin, yes: Self, no: Self) -> Self {
        mask.with(yes).with(no)
    }

    fn min(self, other: Self) -> Self {
        self.with(other)
    }

    fn max(self, other: Self) -> Self {
        self.with(other)
    }

    fn abs(self) -> Self {
        self
    }

    fn sqrt(self) -> Self {
        self
    }
}

/// Returns the neighbours that the update reads.
fn reads<K: PointKernel<N>, const N: usize>(kernel: &K) -> Stencil {
    let at = Neighbours {
        centre: Origin::NONE,
        north: Origin::of(Neighbour::North),
        west: Origin::of(Neighbour::West),
        east: Origin::of(Neighbour::East),
        south: Origin::of(Neighbour::South),
        north_west: Origin::of(Neighbour::NorthWest),
        south_east: Origin::of(Neighbour::SouthEast),
        north_east: Origin::of(Neighbour::NorthEast),
        south_west: Origin::of(Neighbour::SouthWest),
    };
    kernel.update(at, [Origin::NONE; N]).0
}

/// Checks that the update reads no neighbours beyond the stencil of the kernel.
///
/// # Errors
/// [`Error::Undeclared`] if it does.
pub(crate) fn declared<K: PointKernel<N>, const N: usize>(kernel: &K) -> Result<()> {
    let undeclared = reads(kernel).without(K::STENCIL);
    if undeclared.is_empty() {
        Ok(())
    } else {
        Err(Error::Undeclared { reads: undeclared, stencil: K::STENCIL })
    }
}

/// Like [`declared`], but a panic of the kernel becomes an error, as in the sweep.
///
/// # Errors
/// [`Error::Undeclared`] if the update reads more neighbours; [`Error::Panicked`] if it panics.
pub(crate) fn check<K: PointKernel<N>, const N: usize>(kernel: &K) -> Result<()> {
    caught(|| declared(kernel))?
}

/// Calls `call` and turns a panic into an error.
pub(super) fn caught<R>(call: impl FnOnce() -> R) -> Result<R> {
    // `AssertUnwindSafe`: the state that a kernel leaves behind when it panics is as safe to access
    // here as after the panic of a task.
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Error::Panicked { message }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor};

    #[test]
    fn the_kernels_of_the_crate_declare_what_they_read() {
        fn exact<K: PointKernel<N>, const N: usize>(kernel: &K) {
            assert_eq!(reads(kernel), K::STENCIL);
        }
        exact::<_, 5>(&Lk23);
        exact::<_, 0>(&Sor::gauss_seidel());
        exact::<_, 1>(&Sor::gauss_seidel());
        exact::<_, 0>(&NinePoint::gauss_seidel());
        exact::<_, 1>(&NinePoint::gauss_seidel());
        exact::<_, 6>(&GaussSeidelVariable);
        exact::<_, 1>(&Alignment::global(1.0).unwrap());
        exact::<_, 1>(&Alignment::local(1.0).unwrap());
    }

    /// A kernel that applies one operation with the undeclared neighbour among its operands. The
    /// field selects the operation.
    struct Hidden(usize);

    /// The number of operations.
    const WAYS: usize = 18;

    impl PointKernel<1> for Hidden {
        const STENCIL: Stencil = Stencil::FIVE_POINT;

        fn update<L: Lane>(&self, at: Neighbours<L>, [c]: [L; 1]) -> L {
            let (x, n, zero) = (at.south_west, at.north, L::splat(0.0));
            match self.0 {
                0 => n + x,
                1 => x - n,
                2 => zero * x,
                3 => c / x,
                4 => -x,
                5 => x.abs(),
                6 => x.sqrt(),
                7 => x.min(n),
                8 => n.min(x),
                9 => x.max(n),
                10 => n.max(x),
                11 => L::choose(x.less(c), n, c),
                12 => L::choose(c.less(x), n, c),
                13 => L::choose(x.equal(zero), n, c),
                14 => L::choose(zero.equal(x), n, c),
                15 => L::choose(n.less(c), x, n),
                16 => L::choose(n.less(c), n, x),
                _ => x,
            }
        }
    }

    #[test]
    fn no_operation_hides_a_neighbour() {
        for way in 0..WAYS {
            match check(&Hidden(way)) {
                Err(Error::Undeclared { reads, stencil }) => {
                    assert_eq!(reads, Stencil::of(&[Neighbour::SouthWest]), "{way}");
                    assert_eq!(stencil, Stencil::FIVE_POINT);
                }
                other => panic!("{way}: {other:?}"),
            }
        }
    }

    /// Each neighbour is recorded as itself.
    #[test]
    fn every_neighbour_is_told_apart() {
        struct One(Neighbour);
        impl PointKernel<0> for One {
            const STENCIL: Stencil = Stencil::of(&[]);
            fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
                at.centre
                    + match self.0 {
                        Neighbour::North => at.north,
                        Neighbour::West => at.west,
                        Neighbour::East => at.east,
                        Neighbour::South => at.south,
                        Neighbour::NorthWest => at.north_west,
                        Neighbour::SouthEast => at.south_east,
                        Neighbour::NorthEast => at.north_east,
                        Neighbour::SouthWest => at.south_west,
                    }
            }
        }
        for neighbour in Neighbour::ALL {
            assert_eq!(reads(&One(neighbour)), Stencil::of(&[neighbour]));
            let text = check(&One(neighbour)).unwrap_err().to_string();
            assert!(text.contains(&format!("reads {neighbour}, ")), "{text}");
        }
    }
}
