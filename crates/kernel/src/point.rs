//! The update of one point, written once for all vector widths.

use crate::dynamic::Kernel;
use crate::lanes::{Lane, Vector};
use crate::stencil::{Neighbour, Stencil, record};
use crate::strip::fused::STRIPS;
use crate::{Result, lanes::Real};

/// A point and its eight neighbours, in the state that the order of the sweep gives them.
///
/// `L` holds one value, or the values of several points whose updates do not depend on one another.
/// Neighbours above and to the left are updated already; neighbours to the right and below are not.
/// A kernel may read only the neighbours that its [`STENCIL`](PointKernel::STENCIL) names; the
/// others hold arbitrary values, possibly NaN.
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
    /// Returns a point with `value` everywhere, as a start before the real values are filled in.
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

    /// Returns a reference to the value of `neighbour`.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn get_mut(&mut self, neighbour: Neighbour) -> &mut E {
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
    /// Returns the point at element `i` of a row-major matrix with rows of `cols` elements, and the
    /// neighbours of the stencil, which must exist. The other neighbours are NaN.
    #[doc(hidden)]
    #[inline(always)]
    pub fn of(field: &[T], i: usize, cols: usize, stencil: Stencil) -> Self {
        let value = |neighbour| value_of(field, i, cols, stencil, neighbour);
        Neighbours {
            centre: field[i],
            north: value(Neighbour::North),
            west: value(Neighbour::West),
            east: value(Neighbour::East),
            south: value(Neighbour::South),
            north_west: value(Neighbour::NorthWest),
            south_east: value(Neighbour::SouthEast),
            north_east: value(Neighbour::NorthEast),
            south_west: value(Neighbour::SouthWest),
        }
    }
}

/// Returns the value of a neighbour of element `i` of a row-major matrix with rows of `cols`
/// elements, or NaN if the stencil does not have it.
#[inline(always)]
fn value_of<T: Real>(
    field: &[T],
    i: usize,
    cols: usize,
    stencil: Stencil,
    neighbour: Neighbour,
) -> T {
    if !stencil.has(neighbour) {
        return T::splat(f64::NAN);
    }
    let (down, right) = neighbour.offset();
    field[i.wrapping_add_signed(down * cols as isize + right)]
}

/// The update of one point from its neighbours and from `N` coefficients at the same place.
///
/// A point is updated if and only if all neighbours in the [`STENCIL`](Self::STENCIL) exist; the
/// other points form the edge and keep their values. The executors call `update` for every such
/// point and iteration, for one point or for several at a time, in an order whose result is that of
/// the plain double loop. Some of several points may lie on the edge or outside of the matrix:
/// their values are arbitrary, and their results are discarded. The results have the same bits at
/// every width provided that `update` is a pure function: the same arguments give the same result.
/// Rust neither reassociates floating-point operations nor contracts them, so the expression as
/// written is the one computed, whatever the width.
///
/// Mark `update` as `#[inline(always)]`: only then is it compiled for the vector instructions of
/// the machine.
///
/// ```
/// # extern crate syncline_kernel as syncline_wave;
/// use syncline_wave::{Lane, Neighbour, Neighbours, PointKernel, Stencil};
///
/// /// The largest of a point and the flow from the north and the west, less what seeps away.
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
/// A sweep of a kernel that reads a neighbour outside of its stencil is refused before any point is
/// computed, with [`Error::Undeclared`](crate::Error::Undeclared), which names the neighbour. To
/// detect this, each sweep first calls `update` once with values that only record their origin.
pub trait PointKernel<const N: usize>: Send + Sync {
    /// The neighbours that `update` reads: [`Stencil::FIVE_POINT`], for example, or a set made by
    /// [`Stencil::of`].
    ///
    /// Three properties of a sweep are derived from it: which edges of the matrix stay, how steeply
    /// the vectors are skewed, and which blocks wait for which.
    const STENCIL: Stencil;

    /// Returns the new value of the point.
    fn update<L: Lane>(&self, at: Neighbours<L>, coefficients: [L; N]) -> L;

    /// Returns the kernel as the executors see it. The loops over points are compiled where this
    /// function is.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn erased<E: Real>(&self) -> Box<dyn Kernel<E> + '_>
    where
        Self: Sized,
    {
        Box::new(Typed(self))
    }
}

/// Implements [`PointKernel::erased`] for a kernel of this crate, so that its loops are compiled in
/// this crate only. The unit tests run few kernels, and compile those alone.
macro_rules! built_in {
    ($variant:ident) => {
        #[cfg(not(test))]
        #[allow(private_interfaces)]
        fn erased<E: crate::lanes::Real>(&self) -> Box<dyn crate::dynamic::Kernel<E> + '_> {
            E::built_in(crate::compiled::BuiltIn::$variant(self))
        }
    };
}
pub(crate) use built_in;

/// The engine's interface to a kernel: updates some independent points at a time, with any number
/// of coefficients.
///
/// A [`PointKernel`] (through [`Typed`]), a described kernel and a C function implement it.
pub trait Update: Sync {
    /// Whether north-west and south-east are loaded. Otherwise they are NaN.
    const DIAGONAL: bool;

    /// Whether north-east and south-west are loaded, in which case the skew is 2. Otherwise they
    /// are NaN.
    const CORNERS: bool;

    /// Returns the neighbours that the update reads: the same set at every call. Diagonal
    /// neighbours are in it only if they are loaded.
    fn stencil(&self) -> Stencil;

    /// Checks that the update reads no neighbours beyond its stencil.
    fn check(&self) -> Result<()>;

    /// Returns the number of coefficients: the same at every call, and a constant where possible.
    fn coefficients(&self) -> usize;

    /// Prepares memory for updates of `R` vectors, which take what this function returns.
    #[inline(always)]
    fn prepare<L: Vector, const R: usize>(&self, _: &mut Slots) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// Returns the new values of `R` vectors of points. The coefficients of `at[r]` are stored at
    /// `coefficients[r]`, one vector after another.
    ///
    /// # Safety
    /// * Each `coefficients[r]` must be aligned to the vectors and valid for reads of that number
    ///   of vectors.
    /// * `slots` must be what [`prepare`](Self::prepare) has returned for `L` and `R`; the memory
    ///   must not have been prepared for another update since, nor be in use by another thread.
    /// * The processor must have the instructions of `L`.
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
        slots: *mut u8,
    ) -> [L; R];

    /// Updates [`TOGETHER`](crate::strip::TOGETHER) strips in [`FUSED`](crate::strip::FUSED)
    /// iterations, at the positions of the next `values` values, one at least. Returns whether it
    /// has: otherwise the caller updates vector by vector.
    ///
    /// # Safety
    /// The conditions of [`fused`](crate::strip::fused::fused) must hold for the strips, which are
    /// all that it reads.
    #[inline(always)]
    unsafe fn run_strips<L: Vector>(
        &self,
        _strips: [*mut L::Element; STRIPS],
        _values: usize,
    ) -> bool {
        false
    }
}

/// The memory in which a described update keeps values.
#[derive(Debug, Default)]
pub struct Slots(Vec<Line>);

/// As many bytes as the widest vector, aligned like it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its address is used")] [u8; 64]);

impl Slots {
    /// Returns the address of this number of bytes, aligned to 64.
    pub(crate) fn of(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// Adapts a [`PointKernel`] to the engine.
#[derive(Debug)]
pub struct Typed<'k, K, const N: usize>(pub &'k K);

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
        _: *mut u8,
    ) -> [L; R] {
        // Not over ranges: see `strip::fused`.
        let mut new = [L::splat(0.0); R];
        let mut r = 0;
        while r < R {
            let mut values = [L::splat(0.0); N];
            let mut n = 0;
            while n < N {
                // SAFETY: `n` is less than `N`, and the caller guarantees that `coefficients[r]` is
                // aligned and valid for reads of `N` vectors.
                values[n] = unsafe { L::load(coefficients[r].add(n * L::WIDTH)) };
                n += 1;
            }
            new[r] = self.0.update(at[r], values);
            r += 1;
        }
        new
    }
}
