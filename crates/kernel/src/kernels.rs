//! The kernels built into the crate.
//!
//! ```text
//!                 coefficients         new value                         stencil    edges kept
//! [`Lk23`]        zr zb zu zv zz       Livermore kernel 23               n w e s    all 4
//! [`Sor`]         none, or f           over-relaxation, five points      n w e s    all 4
//! [`NinePoint`]   none, or f           over-relaxation, nine points      all eight  all 4
//! [`GaussSeidelVariable`] an aw ae as f mask   any five-point system, with mask  n w e s    all 4
//! [`Alignment`]   scores               the best score of an alignment    n w nw     n, w
//! ```
//!
//! The documentation of each kernel gives the association of its expression. No operation is
//! contracted.

mod alignment;
mod any;
mod gauss_seidel_variable;
mod lk23;
mod nine_point;
mod sor;

pub use crate::Error as KernelError;
pub use crate::dynamic::Dynamic;

pub use alignment::Alignment;
pub use any::AnyKernel;
pub use gauss_seidel_variable::GaussSeidelVariable;
pub use lk23::Lk23;
pub use nine_point::NinePoint;
pub use sor::Sor;
