//! Matrices on disk and in memory: chunks, layouts, .npy.
//!
//! | module        | holds                                                                    |
//! |---------------|--------------------------------------------------------------------------|
//! | `element`     | [`Element`], [`ElementType`]: float64 and float32                        |
//! | `layout`      | [`Shape`], [`Block`], [`Layout`], [`Grid`], [`Side`], [`Rect`]           |
//! | `placement`   | [`Placement`]: where each block, frontier and element stands             |
//! | `model`       | [`io_model`]: what a sweep reads and writes                              |
//! | `chunk`       | [`Chunk`]: bytes on file, heap or shared segment, mapped by part         |
//! | `matrix`      | [`Matrix`]                                                               |
//! | `whole`       | matrices that are lent whole, and where their rows are on file           |
//! | `tile`        | [`Tile`]: a block for reading                                            |
//! | `region`      | [`Region`]: a block for writing                                          |
//! | `rows`        | rectangles of any layout by few accesses                                 |
//! | `npy`         | `.npy` headers                                                           |
//! | `newfile`     | [`NewFile`]: an output that appears whole or not at all                  |
//! | `generation`  | [`Generations`]: a long computation that a crash does not undo           |
//! | `checksum`    | [`checksum`]: 64 bits over the bytes of a panel                          |
//! | `convert`     | [`convert`]: from layout to layout in bounded memory                     |
//! | `dir`         | [`DataDir`]: the matrices of one computation                             |
//! | `buffer`      | [`IoBuffer`]: aligned memory in huge pages                               |
//! | `direct`      | [`DirectFile`]: a file for direct I/O                                    |
//! | `queue`       | [`IoQueue`]: [`ReadRequest`]s and [`WriteRequest`]s under way together                 |
//! | `transfer`    | one piece of a read or write, to its end                                 |
//! | `ring`        | pieces in an io_uring                                                    |
//! | `stream`      | [`DirectWriter`]: a file written from front to back                      |
//! | [`probe`]     | what a disk does with the requests of a sweep                            |
//!
//! The crate knows neither locks nor kernels. Matrices have at least one element; a dimension of zero is an
//! error.

mod buffer;
mod bytes;
mod checksum;
mod chunk;
mod convert;
mod dir;
mod direct;
mod element;
mod error;
mod generation;
mod io_queue;
mod io_uring;
mod layout;
mod matrix;
mod model;
mod newfile;
mod npy;
mod placement;
pub mod probe;
mod region;
mod rows;
mod stream;
mod tile;
mod transfer;
mod whole;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use syncline_memory::{Access, Advice, Pages};

pub use buffer::IoBuffer;
pub use checksum::{Checksum, checksum};
pub use chunk::{Chunk, Mapped, Touch, Traffic, read_text};
pub use convert::convert;
pub use dir::{DataDir, write_layout_json};
pub use direct::DirectFile;
pub use element::{Element, ElementType};
pub use error::{Error, Result};
pub use generation::{
    Existing, Generations, Identity, InputId, Leftover, Made, Progress, ResultMark, Resumed,
};
pub use io_queue::{IoQueue, Method, ReadRequest, WriteRequest};
pub use layout::{Block, Grid, Layout, LayoutTextError, Rect, Shape, Side};
pub use matrix::Matrix;
pub use model::{IoModel, io_model};
pub use newfile::{FileState, NewFile};
pub use placement::{Copies, Placement, Section, StridedRun};
pub use region::{Contents, Region, ViewMut};
pub use stream::DirectWriter;
pub use tile::{MatrixBlock, Tile, View};
pub use whole::RowMajorFile;
