//! The update of one point, written once for all widths of vectors.

use crate::lanes::{Lane, Vector};

/// A point and its eight neighbours, in the state that the sweep's order gives them.
///
/// `L` is one value or several at once: of as many points whose updates do not depend on one another. Above
/// and to the left everything is updated already, to the right and below it is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours<L> {
    /// The point itself, not updated yet.
    pub centre: L,
    /// The neighbour in the row above: updated already.
    pub north: L,
    /// The neighbour to the left: updated already.
    pub west: L,
    /// The neighbour to the right: not updated yet.
    pub east: L,
    /// The neighbour in the row below: not updated yet.
    pub south: L,
    /// The neighbour above and to the left: updated already. Only with [`PointKernel::DIAGONAL`].
    pub north_west: L,
    /// The neighbour below and to the right: not updated yet. Only with [`PointKernel::DIAGONAL`].
    pub south_east: L,
    /// The neighbour above and to the right: updated already. Only with [`PointKernel::CORNERS`].
    pub north_east: L,
    /// The neighbour below and to the left: not updated yet. Only with [`PointKernel::CORNERS`].
    pub south_west: L,
}

impl<E: Copy> Neighbours<E> {
    /// This value everywhere, until it is known.
    #[inline(always)]
    pub(crate) const fn all(value: E) -> Self {
        Neighbours {
            centre: value,
            north: value,
            west: value,
            east: value,
            south: value,
            north_west: value,
            south_east: value,
            north_east: value,
            south_west: value,
        }
    }

    /// The neighbours of element `i` of a row-major matrix with rows of `cols` elements; it must be interior.
    #[inline(always)]
    pub(crate) fn of(field: &[E], i: usize, cols: usize) -> Self {
        Neighbours {
            centre: field[i],
            north: field[i - cols],
            west: field[i - 1],
            east: field[i + 1],
            south: field[i + cols],
            north_west: field[i - cols - 1],
            south_east: field[i + cols + 1],
            north_east: field[i - cols + 1],
            south_west: field[i + cols - 1],
        }
    }
}

/// The update of one interior point from its neighbours and from `N` coefficients at the same place.
///
/// Points at the edge of the matrix are never updated. The executors call `update` for every interior point
/// and iteration, for one point or for several at a time, in an order whose result is that of the plain
/// double loop. Among several may be some that are at the edge, or do not exist: their values may be anything,
/// and their results are thrown away. Equal bits then only ask that the function is one: the same arguments, the same result.
/// Rust neither reassociates floating-point operations nor contracts them, so the expression as written is
/// what is computed, whatever the width.
///
/// Mark `update` as `#[inline(always)]`: only then is it compiled for the vectors of the machine.
///
/// ```
/// use syncline_wave::{Lane, Neighbours, PointKernel};
///
/// /// The largest of a point and what has flowed to it from the north and the west, less what seeps away.
/// struct Flood;
///
/// impl PointKernel<1> for Flood {
///     #[inline(always)]
///     fn update<L: Lane>(&self, at: Neighbours<L>, [seepage]: [L; 1]) -> L {
///         at.centre.max(at.north.max(at.west) - seepage)
///     }
/// }
/// ```
pub trait PointKernel<const N: usize>: Send + Sync {
    /// Whether `update` uses the neighbours to the north-west and south-east.
    ///
    /// In blocks, they are of two more blocks to wait for. A kernel that does not use them may say so; then
    /// they are not a number (NaN), and the order max-parallel is allowed.
    const DIAGONAL: bool = true;

    /// Whether `update` uses the neighbours to the north-east and south-west.
    ///
    /// They lie against the diagonal, along which points are updated at the same time; with them the
    /// executors take a steeper diagonal, and blocks of several rows must be as wide as the matrix. Without, those
    /// two are not a number (NaN).
    const CORNERS: bool = false;

    /// The new value of the point.
    fn update<L: Lane>(&self, at: Neighbours<L>, coefficients: [L; N]) -> L;
}

/// What the engine asks of a kernel: some independent points at a time, with any number of coefficients.
///
/// This is what a [`PointKernel`] (through [`Typed`]), a described one and a C function have in common.
pub(crate) trait Update: Sync {
    /// See [`PointKernel::DIAGONAL`].
    const DIAGONAL: bool = true;

    /// See [`PointKernel::CORNERS`].
    const CORNERS: bool;

    /// How many coefficients there are. The same at every call; a constant where it can be.
    fn coefficients(&self) -> usize;

    /// The new values of `R` vectors of points. The coefficients of `at[r]` stand at `coefficients[r]`, one
    /// vector after the other.
    ///
    /// # Safety
    /// `coefficients[r]` is aligned and valid for reading that many vectors; the processor has the
    /// instructions of `L`.
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
    ) -> [L; R];
}

/// A [`PointKernel`] as the engine has it.
#[derive(Debug)]
pub(crate) struct Typed<'k, K, const N: usize>(pub(crate) &'k K);

impl<K: PointKernel<N>, const N: usize> Update for Typed<'_, K, N> {
    const DIAGONAL: bool = K::DIAGONAL;
    const CORNERS: bool = K::CORNERS;

    #[inline(always)]
    fn coefficients(&self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
    ) -> [L; R] {
        let mut new = [L::splat(0.0); R];
        for r in 0..R {
            let mut values = [L::splat(0.0); N];
            for (n, value) in values.iter_mut().enumerate() {
                // SAFETY: the caller warrants the coefficients.
                *value = unsafe { L::load(coefficients[r].add(n * L::WIDTH)) };
            }
            new[r] = self.0.update(at[r], values);
        }
        new
    }
}
