//! The update of one point, written once for all widths of vectors.

use crate::lanes::{Lane, Vector};
use crate::stencil::{Neighbour, Stencil, record};
use crate::{Result, lanes::Real};

/// A point and its eight neighbours, in the state that the sweep's order gives them.
///
/// `L` is one value or several at once: of as many points whose updates do not depend on one
/// another. Above and to the left everything is updated already, to the right and below it is not.
/// Of the neighbours only those of the kernel's [`STENCIL`](PointKernel::STENCIL) may be read; the
/// others may be any number or none.
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
    /// The neighbour above and to the left: updated already.
    pub north_west: L,
    /// The neighbour below and to the right: not updated yet.
    pub south_east: L,
    /// The neighbour above and to the right: updated already.
    pub north_east: L,
    /// The neighbour below and to the left: not updated yet.
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

    /// The place of a neighbour.
    #[inline(always)]
    pub(crate) const fn get_mut(&mut self, neighbour: Neighbour) -> &mut E {
        match neighbour {
            Neighbour::North => &mut self.north,
            Neighbour::West => &mut self.west,
            Neighbour::East => &mut self.east,
            Neighbour::South => &mut self.south,
            Neighbour::NorthWest => &mut self.north_west,
            Neighbour::SouthEast => &mut self.south_east,
            Neighbour::NorthEast => &mut self.north_east,
            Neighbour::SouthWest => &mut self.south_west,
        }
    }
}

impl<T: Real> Neighbours<T> {
    /// The point at element `i` of a row-major matrix with rows of `cols` elements, and the
    /// neighbours of the stencil, which must be there. The others are not a number (NaN).
    #[inline(always)]
    pub(crate) fn of(field: &[T], i: usize, cols: usize, stencil: Stencil) -> Self {
        let mut at = Neighbours { centre: field[i], ..Neighbours::all(T::splat(f64::NAN)) };
        for neighbour in Neighbour::ALL {
            if stencil.has(neighbour) {
                let (down, right) = neighbour.offset();
                *at.get_mut(neighbour) = field[i.wrapping_add_signed(down * cols as isize + right)];
            }
        }
        at
    }
}

/// The update of one point from its neighbours and from `N` coefficients at the same place.
///
/// A point is updated if and only if all neighbours of the [`STENCIL`](Self::STENCIL) exist; the
/// other points are the edge, and stay. The executors call `update` for every such point and
/// iteration, for one point or for several at a time, in an order whose result is that of the plain
/// double loop. Among several may be some that are at the edge, or do not exist: their values may
/// be anything, and their results are thrown away. Equal bits then only ask that the function is
/// one: the same arguments, the same result. Rust neither reassociates floating-point operations
/// nor contracts them, so the expression as written is what is computed, whatever the width.
///
/// Mark `update` as `#[inline(always)]`: only then is it compiled for the vectors of the machine.
///
/// ```
/// use syncline_wave::{Lane, Neighbour, Neighbours, PointKernel, Stencil};
///
/// /// The largest of a point and what has flowed to it from the north and the west, less what seeps away.
/// struct Flood;
///
/// impl PointKernel<1> for Flood {
///     // Nothing comes from the east or the south: the last row and column are flooded, too.
///     const STENCIL: Stencil = Stencil::of(&[Neighbour::North, Neighbour::West]);
///
///     #[inline(always)]
///     fn update<L: Lane>(&self, at: Neighbours<L>, [seepage]: [L; 1]) -> L {
///         at.centre.max(at.north.max(at.west) - seepage)
///     }
/// }
/// ```
///
/// # Errors
/// A sweep of a kernel that reads another neighbour is refused before anything is computed, with
/// [`Error::Undeclared`](crate::Error::Undeclared), which names it. To find out, each sweep first
/// calls `update` once with values that only record where they come from.
///
/// ```
/// use std::sync::Arc;
/// use syncline_wave::{Lane, Neighbours, PointKernel, Stencil, Sweep};
/// # use syncline_store::{Layout, Matrix, Shape};
///
/// struct Distance;
///
/// impl PointKernel<0> for Distance {
///     const STENCIL: Stencil = Stencil::FIVE_POINT;
///
///     #[inline(always)]
///     fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
///         at.centre.min(at.north_east + L::splat(1.5))
///     }
/// }
/// # let field = Arc::new(Matrix::<f64>::zeros(Shape::new(9, 9), Layout::RowMajor)?);
/// # let result = Matrix::zeros(Shape::new(9, 9), Layout::RowMajor)?;
/// let error = Sweep::new(Distance).run(&field, &[], result).unwrap_err();
/// assert!(error.to_string().starts_with("the kernel reads north-east, "));
/// # Ok::<(), syncline_wave::Error>(())
/// ```
pub trait PointKernel<const N: usize>: Send + Sync {
    /// The neighbours that `update` reads: [`Stencil::FIVE_POINT`], or some others by
    /// [`Stencil::of`].
    ///
    /// All that depends on it is derived from it: which edges of the matrix stay, how steep the
    /// vectors lie, and which blocks wait for which.
    const STENCIL: Stencil;

    /// The new value of the point.
    fn update<L: Lane>(&self, at: Neighbours<L>, coefficients: [L; N]) -> L;
}

/// What the engine asks of a kernel: some independent points at a time, with any number of
/// coefficients.
///
/// This is what a [`PointKernel`] (through [`Typed`]), a described one and a C function have in
/// common.
pub(crate) trait Update: Sync {
    /// Whether north-west and south-east are loaded. Without, they are not a number (NaN).
    const DIAGONAL: bool;

    /// Whether north-east and south-west are loaded, for which the skew is 2. Without, they are not
    /// a number (NaN).
    const CORNERS: bool;

    /// The neighbours that are read. The same at every call. Those across are in it only if they
    /// are loaded.
    fn stencil(&self) -> Stencil;

    /// Whether the update reads no other neighbours than those of its stencil.
    fn check(&self) -> Result<()>;

    /// How many coefficients there are. The same at every call; a constant where it can be.
    fn coefficients(&self) -> usize;

    /// The new values of `R` vectors of points. The coefficients of `at[r]` stand at
    /// `coefficients[r]`, one vector after the other.
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
    const DIAGONAL: bool = K::STENCIL.diagonal();
    const CORNERS: bool = K::STENCIL.corners();

    #[inline(always)]
    fn stencil(&self) -> Stencil {
        K::STENCIL
    }

    fn check(&self) -> Result<()> {
        record::check(self.0)
    }

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
