//! The engines: how the iterations of a pass go over the data in memory.
//!
//! | engine       | kernels                                    | data                                  |
//! |--------------|--------------------------------------------|---------------------------------------|
//! | [`explicit`] | read values before the iteration only      | one ring of slabs for all iterations  |
//! | [`ordered`]  | all others, in any direction               | rows along diagonals, in a window     |
//! | [`copies`]   | none: what comes in is final               | none                                  |
//!
//! Each implements [`Engine`](crate::engine::Engine), and nothing outside of this folder depends on
//! the way it works.

pub(crate) mod copies;
pub(crate) mod explicit;
pub(crate) mod ordered;

#[cfg(test)]
pub(crate) mod tests;
