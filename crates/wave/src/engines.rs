//! The engines: how the iterations of a pass go over the data in memory.
//!
//! | engine       | kernels                                    | data                             |
//! |--------------|--------------------------------------------|----------------------------------|
//! | [`explicit`] | read values before the iteration only      | one ring of slabs for all levels |
//! | [`strips`]   | ordered, of one real field with edges that | strips of rows side by side      |
//! |              | stay, down and to the right                |                                  |
//! | [`ordered`]  | any other                                  | rows along diagonals, a window   |
//! | [`copies`]   | none: what comes in is final               | none                             |
//!
//! Each implements [`Engine`](crate::engine::Engine), and nothing outside of this folder depends on
//! the way it works.

pub(crate) mod copies;
pub(crate) mod explicit;
pub(crate) mod ordered;
pub(crate) mod strips;

#[cfg(test)]
pub(crate) mod tests;
