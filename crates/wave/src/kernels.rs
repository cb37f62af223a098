//! The kernels that come with the crate.
//!
//! ```text
//!                 coefficients            new value                                           uses
//! [`Lk23`]        zr zb zu zv zz          Livermore kernel 23                                 n w e s
//! [`Sor`]         none, or f              over-relaxation, five points                        n w e s
//! [`NinePoint`]   none, or f              over-relaxation, nine points                        all eight
//! [`GaussSeidel`] an aw ae as f mask      any five-point system, with points that are given   n w e s
//! [`Alignment`]   scores                  the best score of an alignment                      n w nw
//! ```
//!
//! Each is an expression whose association its documentation gives; nothing is contracted.

mod alignment;
mod gauss_seidel;
mod lk23;
mod nine_point;
mod sor;

pub use alignment::Alignment;
pub use gauss_seidel::GaussSeidel;
pub use lk23::Lk23;
pub use nine_point::NinePoint;
pub use sor::Sor;
