//! The update of one point.

/// A point and its four neighbours, in the state that the sweep's order gives them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// The point itself, not updated yet.
    pub centre: f64,
    /// The neighbour in the row above: updated already.
    pub north: f64,
    /// The neighbour to the left: updated already.
    pub west: f64,
    /// The neighbour to the right: not updated yet.
    pub east: f64,
    /// The neighbour in the row below: not updated yet.
    pub south: f64,
}

/// The update of one interior point from its neighbours and from `N` coefficients at the same place.
///
/// Points at the edge of the matrix are never updated. The executors call `update` once per interior
/// point and iteration, in an order whose result is that of the plain double loop. Equal bits then only
/// ask that the function is one: the same arguments, the same result. Rust neither reassociates
/// floating-point operations nor contracts them, so the expression as written is what is computed.
///
/// ```
/// use syncline_wave::{Neighbours, PointKernel};
///
/// /// The largest of a point and what has flowed to it from the north and the west.
/// struct Flood;
///
/// impl PointKernel<0> for Flood {
///     fn update(&self, at: Neighbours, []: [f64; 0]) -> f64 {
///         at.centre.max(at.north).max(at.west)
///     }
/// }
/// ```
pub trait PointKernel<const N: usize>: Send + Sync {
    /// The new value of the point.
    fn update(&self, at: Neighbours, coefficients: [f64; N]) -> f64;
}
