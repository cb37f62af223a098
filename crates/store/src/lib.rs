//! Matrices on disk and in memory: chunks, layouts and `.npy` files.
//!
//! | module       | holds                                                                  |
//! |--------------|------------------------------------------------------------------------|
//! | `array`      | [`Array`](array::Array): two or three dimensions, any type             |
//! | `element`    | [`Element`], [`ElementType`]: real and whole numbers                   |
//! | `layout`     | [`Shape`], [`Block`], [`Layout`], [`Grid`], [`Side`], [`Rect`]         |
//! | `placement`  | [`Placement`]: the positions of blocks, frontiers and elements         |
//! | `chunk`      | [`Chunk`]: bytes on file, heap or shared segment, mapped by part       |
//! | `matrix`     | [`Matrix`]                                                             |
//! | `whole`      | matrices lent as a whole, and the positions of their rows in the file  |
//! | `tile`       | [`Tile`]: a block for reading                                          |
//! | `region`     | [`Region`]: a block for writing                                        |
//! | `rows`       | rectangles of any layout, transferred in few accesses                  |
//! | `npy`        | `.npy` headers                                                         |
//! | `newfile`    | [`NewFile`]: an output that appears complete or not at all             |
//! | `shared`     | output and input files that several hosts open                         |
//! | `generation` | [`Generations`]: a long computation that survives crashes              |
//! | `checksum`   | [`checksum`]: 64 bits over the bytes of a panel                        |
//! | `convert`    | [`convert`]: conversion between layouts in bounded memory              |
//! | `dir`        | [`DataDir`]: the matrices of one computation                           |
//! | `buffer`     | [`IoBuffer`]: aligned memory in huge pages                             |
//! | `direct`     | [`DirectFile`]: a file for direct I/O                                  |
//! | `io_queue`   | [`IoQueue`]: [`ReadRequest`]s and [`WriteRequest`]s in flight together |
//! | `transfer`   | one piece of a read or write, continued until it completes             |
//! | `io_uring`   | pieces in an io_uring                                                  |
//! | `stream`     | [`DirectWriter`]: a file written sequentially                          |
//! | `columns`    | ranges of columns of a file that several hosts read and write          |
//! | [`probe`]    | the speed of a disk under the requests of a sweep                      |
//!
//! The crate depends on neither locks nor kernels. Matrices have at least one element; a dimension
//! of zero is an error.
//!
//! [`Side`]: placement::Side
//! [`Rect`]: placement::Rect
//! [`Placement`]: placement::Placement
//! [`Chunk`]: chunk::Chunk
//! [`Tile`]: blocks::Tile
//! [`Region`]: blocks::Region
//! [`Generations`]: generation::Generations
//! [`IoBuffer`]: direct_io::IoBuffer
//! [`DirectFile`]: direct_io::DirectFile
//! [`IoQueue`]: direct_io::IoQueue
//! [`ReadRequest`]: direct_io::ReadRequest
//! [`WriteRequest`]: direct_io::WriteRequest
//! [`DirectWriter`]: direct_io::DirectWriter

pub mod array;
mod buffer;
mod bytes;
#[doc(hidden)]
pub mod checksum;
#[doc(hidden)]
pub mod chunk;
#[doc(hidden)]
pub mod columns;
mod convert;
#[doc(hidden)]
pub mod dir;
mod direct;
mod element;
mod error;
pub mod generation;
mod half;
mod io_queue;
mod io_uring;
#[doc(hidden)]
pub mod layout;
mod matrix;
#[doc(hidden)]
pub mod newfile;
mod npy;
pub mod placement;
pub mod probe;
mod region;
mod rows;
#[doc(hidden)]
pub mod shared;
mod stream;
mod tile;
mod traced;
mod transfer;
mod whole;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use convert::convert;
pub use dir::DataDir;
pub use element::{Element, ElementType};
pub use error::{Error, Result};
pub use layout::{Block, Grid, Layout, Shape};
pub use matrix::Matrix;
pub use newfile::NewFile;

/// Views of the blocks of a matrix, for reading and for writing.
pub mod blocks {
    pub use crate::region::{Contents, Region, ViewMut};
    pub use crate::tile::{MatrixBlock, Tile, View};
}

/// Files read and written past the page cache, several pieces in flight.
pub mod direct_io {
    pub use crate::buffer::IoBuffer;
    pub use crate::direct::DirectFile;
    pub use crate::io_queue::{IoQueue, Method, ReadRequest, WriteRequest};
    pub use crate::stream::DirectWriter;
    pub use crate::whole::RowMajorFile;
}
