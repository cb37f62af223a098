//! The kernels that come with the crate.
//!
//! ```text
//!                 coefficients         new value                                  stencil    stay
//! [`Lk23`]        zr zb zu zv zz       Livermore kernel 23                        n w e s    4 edges
//! [`Sor`]         none, or f           over-relaxation, five points               n w e s    4 edges
//! [`NinePoint`]   none, or f           over-relaxation, nine points               all eight  4 edges
//! [`GaussSeidelVariable`] an aw ae as f mask   any five-point system, with given points   n w e s    4 edges
//! [`Alignment`]   scores               the best score of an alignment             n w nw     n, w
//! ```
//!
//! Each is an expression whose association its documentation gives; nothing is contracted.

mod alignment;
mod gauss_seidel_variable;
mod lk23;
mod nine_point;
mod sor;

pub use crate::dynamic::Dynamic;

pub use alignment::Alignment;
pub use gauss_seidel_variable::GaussSeidelVariable;
pub use lk23::Lk23;
pub use nine_point::NinePoint;
pub use sor::Sor;
