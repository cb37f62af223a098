//! Rules: what a description says, whatever executes it.
//!
//! # Contract
//! A rule updates the points of one or several fields, which have the same two or three dimensions.
//! An iteration updates every point once, in one of two ways:
//!
//! | kind     | the update reads                                | the order of the points         |
//! |----------|-------------------------------------------------|---------------------------------|
//! | explicit | values before the iteration only (`old.n`)      | has no effect                   |
//! | ordered  | values in the state that the order leaves (`n`) | plane by plane and row by row,  |
//! |          |                                                 | along its direction             |
//!
//! The executors and the plain loop ([`plain`]) derive everything from the rule: the reads of its
//! graph, the types of its arrays, its edges and its directions. They share nothing else.
//!
//! # Axes
//! All parts count three axes: planes, rows and columns. A field of two dimensions has its rows on
//! the first axis and its columns on the last; the axis between them has the length 1.
//!
//! # Edges
//! Each axis has an [`Edge`], for the points that lack a neighbour along it. If it is fixed, a
//! point is updated if and only if its neighbours exist, as for every kernel. Otherwise all points
//! are updated, and the edge says what a kernel sees beyond it.
//!
//! ```text
//!             beyond | the matrix          a b c d   the values of a row
//! clamped      a  a  | a b c d             read beyond its first column, at the distance of
//! reflected    c  b  | a b c d             two and of one
//! periodic     c  d  | a b c d
//! 0            0  0  | a b c d
//! ```
//!
//! A value that is read beyond an edge is that of the element which the edge names, in the state in
//! which the element is at that time.

mod blocks;
mod function;
mod loops;
pub(crate) mod native;
mod operations;
pub mod plain;
pub mod program;
pub(crate) mod update;

use syncline_store::ElementType;
use syncline_store::array::Half;

pub use self::function::Around;
pub(crate) use self::function::{Code, Context, Function};
use crate::described::graph::{Graph, Id, Node};
pub use crate::described::graph::{Read, Type};
use crate::lanes::Vector;
use crate::{Neighbour, Stencil};

/// What a kernel sees beyond the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edge {
    /// Nothing: points that need a neighbour there keep their values.
    Fixed,
    /// The last element before the edge.
    Clamped,
    /// The elements before the edge, in reverse order, without the last one.
    Reflected,
    /// The elements at the other end.
    Periodic,
    /// This number.
    Value(f64),
}

/// The place that a read beyond an edge leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beyond {
    /// An element, by its position along the axis.
    At(usize),
    /// A number.
    Number(f64),
}

impl Edge {
    /// Returns where a read at a position along an axis of this length leads; `None` beyond a fixed
    /// edge.
    #[inline]
    pub fn at(self, position: isize, len: usize) -> Option<Beyond> {
        let last = len as isize - 1;
        if (0..=last).contains(&position) {
            return Some(Beyond::At(position as usize));
        }
        let place = match self {
            Edge::Fixed => return None,
            Edge::Value(value) => return Some(Beyond::Number(value)),
            Edge::Clamped => position.clamp(0, last),
            Edge::Periodic => position.rem_euclid(len as isize),
            Edge::Reflected => {
                // To and fro, as often as an axis of few elements needs it.
                let along = position.rem_euclid((2 * last).max(1));
                if along > last { 2 * last - along } else { along.min(last) }
            }
        };
        Some(Beyond::At(place as usize))
    }
}

/// The direction of a sweep of an ordered rule: towards which side the planes, the rows of a plane
/// and the points of a row follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Whether planes are updated from the last to the first; in two dimensions the rows, which are
    /// on the same axis.
    pub up: bool,
    /// Whether the rows of a plane are updated from the last to the first, in three dimensions.
    pub north: bool,
    /// Whether the points of a row are updated from the last to the first.
    pub left: bool,
}

impl Direction {
    /// The directions by name, of two dimensions and of three.
    const FLAT: [(&'static str, Direction); 4] = [
        ("south-east", Direction::of(false, false, false)),
        ("south-west", Direction::of(false, false, true)),
        ("north-west", Direction::of(true, false, true)),
        ("north-east", Direction::of(true, false, false)),
    ];
    const SOLID: [(&'static str, Direction); 8] = [
        ("down-south-east", Direction::of(false, false, false)),
        ("down-south-west", Direction::of(false, false, true)),
        ("down-north-west", Direction::of(false, true, true)),
        ("down-north-east", Direction::of(false, true, false)),
        ("up-south-east", Direction::of(true, false, false)),
        ("up-south-west", Direction::of(true, false, true)),
        ("up-north-west", Direction::of(true, true, true)),
        ("up-north-east", Direction::of(true, true, false)),
    ];

    const fn of(up: bool, north: bool, left: bool) -> Self {
        Direction { up, north, left }
    }

    /// Returns the directions of two or three dimensions by name.
    #[inline]
    pub const fn names(dimensions: usize) -> &'static [(&'static str, Direction)] {
        if dimensions == 2 { &Direction::FLAT } else { &Direction::SOLID }
    }

    /// Returns the axes along which the sweep goes from the last position to the first.
    #[inline]
    pub const fn reversed(self) -> [bool; 3] {
        [self.up, self.north, self.left]
    }

    /// Returns an offset along the direction.
    #[inline]
    pub fn along(self, offset: [i8; 3]) -> [i8; 3] {
        let reversed = self.reversed();
        std::array::from_fn(|axis| if reversed[axis] { -offset[axis] } else { offset[axis] })
    }

    /// Returns whether points of a plane that can be updated at the same time are further to the
    /// left in a later row.
    #[inline]
    pub const fn leans_left(self) -> bool {
        self.north == self.left
    }

    /// Returns whether a neighbour is updated before the point.
    #[inline]
    pub fn has_made(self, offset: [i8; 3]) -> bool {
        self.along(offset) < [0; 3]
    }
}

/// What happens to a whole number that its type cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The bits that the type has remain.
    #[default]
    Wrapping,
    /// The nearest number that the type can hold.
    Saturating,
}

/// The update of a point, as a description gives it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Two or three.
    pub dimensions: usize,
    /// The number of fields.
    pub fields: usize,
    /// The names and the types of the fields, then those of the coefficients.
    pub arrays: Vec<(String, Type)>,
    pub(crate) graph: Graph,
    /// The new value of each field.
    pub(crate) roots: Vec<Id>,
    /// Whether the update reads values before the iteration only.
    pub explicit: bool,
    /// The edges of planes, rows and columns.
    pub edges: [Edge; 3],
    pub(crate) overflow: Overflow,
    /// The directions of the iterations in turn; one at least.
    pub directions: Vec<Direction>,
    /// The functions that the program gives.
    pub(crate) functions: Vec<Function>,
    /// What runs each piece, for functions that need it.
    pub around: Option<Around>,
}

impl Rule {
    /// Returns whether the rule is one of the kind that every kernel is: of one field in two
    /// dimensions, ordered, in one direction, with edges that stay.
    pub fn is_plain(&self) -> bool {
        (self.dimensions, self.fields) == (2, 1)
            && self.edges == [Edge::Fixed; 3]
            && self.directions == [Direction::default()]
    }

    /// Returns whether the loops over strips can compute the rule: it is
    /// [plain](Self::is_plain), reads its field in the order of the updates at neighbours that
    /// touch the point, reads coefficients at the point only, and has no types.
    pub(crate) fn fits_strips(&self) -> bool {
        let fits = |id| match self.graph.node(id) {
            Node::Read(Read { old: true, .. })
            | Node::Cast(..)
            | Node::Call(..)
            | Node::Constant(_, Type::Of(_)) => false,
            Node::Read(Read { array, offset, .. }) => {
                let reach = i8::from(array == 0);
                offset.iter().all(|far| (-reach..=reach).contains(far))
                    && self.graph.value_of(id) == Type::Real
            }
            _ => true,
        };
        self.is_plain() && self.graph.needed(&self.roots).into_iter().all(fits)
    }

    /// Returns all reads, each once.
    pub fn reads(&self) -> Vec<Read> {
        let read = |id| match self.graph.node(id) {
            Node::Read(read) => Some(read),
            _ => None,
        };
        self.graph.needed(&self.roots).into_iter().filter_map(read).collect()
    }

    /// Returns the neighbours in the plane of the point that touch it and that the update reads.
    pub fn touching(&self) -> Stencil {
        let touches = |neighbour: &Neighbour| {
            let (down, right) = neighbour.offset();
            let offset = match self.dimensions {
                2 => [down as i8, 0, right as i8],
                _ => [0, down as i8, right as i8],
            };
            self.reads().iter().any(|r| (r.array as usize) < self.fields && r.offset == offset)
        };
        let read = Neighbour::ALL.into_iter().filter(touches);
        read.fold(Stencil::of(&[]), |all, one| all.union(Stencil::of(&[one])))
    }

    /// Returns, for each axis, how far the update reads before and after the point.
    pub fn reach(&self) -> [(usize, usize); 3] {
        let mut reach = [(0, 0); 3];
        for read in self.reads() {
            for (axis, offset) in read.offset.into_iter().enumerate() {
                let (before, after) = &mut reach[axis];
                *before = (*before).max(usize::from((-offset).max(0) as u8));
                *after = (*after).max(usize::from(offset.max(0) as u8));
            }
        }
        reach
    }

    /// Returns, for each axis, the positions of the points that are updated in a field of these
    /// dimensions.
    pub fn updated(&self, dims: [usize; 3]) -> [std::ops::Range<usize>; 3] {
        let reach = self.reach();
        std::array::from_fn(|axis| match self.edges[axis] {
            Edge::Fixed => {
                let end = dims[axis].saturating_sub(reach[axis].1);
                reach[axis].0.min(end)..end
            }
            _ => 0..dims[axis],
        })
    }

    /// Returns the type of the data of a description without types: that of the first array that
    /// has no type.
    pub fn real_of(&self, elements: impl Iterator<Item = ElementType>) -> ElementType {
        let mut all = self.arrays.iter().zip(elements);
        let untyped = all.find(|((_, value), _)| *value == Type::Real);
        untyped.map_or(ElementType::Float64, |(_, element)| element)
    }

    /// Returns whether points that can be updated at the same time lie along another diagonal of
    /// the planes in some iterations than in others.
    pub fn leans_both_ways(&self) -> bool {
        let mut leans = self.directions.iter().map(|direction| direction.leans_left());
        let first = leans.next();
        self.dimensions == 3 && !self.explicit && leans.any(|left| Some(left) != first)
    }

    /// Returns the direction of an iteration.
    #[inline]
    pub fn direction(&self, iteration: u64) -> Direction {
        self.directions[(iteration % self.directions.len() as u64) as usize]
    }
}

/// Returns planes, rows and columns; of two dimensions rows, 1, columns.
#[inline]
pub fn three(dims: &[usize]) -> [usize; 3] {
    match *dims {
        [rows, cols] => [rows, 1, cols],
        [planes, rows, cols] => [planes, rows, cols],
        _ => [0; 3],
    }
}

/// Returns the greater of a norm and a change; NaN is greater than any number.
#[inline]
pub fn greater(norm: f64, change: f64) -> f64 {
    if norm.is_nan() || change <= norm { norm } else { change }
}

/// Returns the greatest change of `n` values: 0 for a value that is equal before and after, or NaN
/// before and after; NaN, which is greater than any number, for one that is NaN once.
///
/// # Safety
/// `old` and `new` must be valid for reads of `n` values of the type; they need not be aligned.
pub unsafe fn change(element: ElementType, old: *const u8, new: *const u8, n: usize) -> f64 {
    /// # Safety
    /// The conditions of [`change`] must hold for values of `T`.
    unsafe fn of<T: Copy, N: Copy + Default>(
        old: *const u8,
        new: *const u8,
        n: usize,
        raised: impl Fn(N, T, T) -> N,
        greater: impl Fn(N, N) -> N,
    ) -> N {
        /// The number of norms that do not wait for one another.
        const APART: usize = 8;
        let (old, new) = (old.cast::<T>(), new.cast::<T>());
        // SAFETY: `i` is less than `n`.
        let pair = |i| unsafe { (old.add(i).read_unaligned(), new.add(i).read_unaligned()) };
        let (mut norms, whole) = ([N::default(); APART], n - n % APART);
        for i in (0..whole).step_by(APART) {
            for (k, norm) in norms.iter_mut().enumerate() {
                let (old, new) = pair(i + k);
                *norm = raised(*norm, old, new);
            }
        }
        let rest = |norm, (old, new)| raised(norm, old, new);
        norms.into_iter().fold((whole..n).map(pair).fold(N::default(), rest), greater)
    }
    // SAFETY: the values are of this type, as the caller guarantees.
    unsafe {
        match element {
            ElementType::Float64 => of(old, new, n, <f64 as Vector>::raised, Vector::greater),
            ElementType::Float32 => {
                of(old, new, n, <f32 as Vector>::raised, Vector::greater).into()
            }
            ElementType::Float16 => {
                let raised = |m: f32, x: Half, y: Half| Vector::raised(m, x.to_f32(), y.to_f32());
                of(old, new, n, raised, Vector::greater).into()
            }
            ElementType::Int8 => {
                of(old, new, n, |m: u8, x: i8, y| m.max(y.abs_diff(x)), Ord::max).into()
            }
            ElementType::Uint32 => {
                of(old, new, n, |m: u32, x: u32, y| m.max(y.abs_diff(x)), Ord::max).into()
            }
            ElementType::Uint8 | ElementType::Bool => {
                of(old, new, n, |m: u8, x: u8, y| m.max(y.abs_diff(x)), Ord::max).into()
            }
            ElementType::Int16 => {
                of(old, new, n, |m: u16, x: i16, y| m.max(y.abs_diff(x)), Ord::max).into()
            }
            ElementType::Uint16 => {
                of(old, new, n, |m: u16, x: u16, y| m.max(y.abs_diff(x)), Ord::max).into()
            }
            ElementType::Int32 => {
                of(old, new, n, |m: u32, x: i32, y| m.max(y.abs_diff(x)), Ord::max).into()
            }
            ElementType::Int64 => {
                of(old, new, n, |m: u64, x: i64, y| m.max(y.abs_diff(x)), Ord::max) as f64
            }
        }
    }
}
