//! Ranges of columns of a row-major file, read and written by several hosts at once.
//!
//! The hosts of one sweep share an input file and an output file. Each owns a range of columns:
//!
//! ```text
//!            host 0       host 1       host 2
//!  row r    |############|............|############|     one file, row after row; a row begins at
//!  row r+1  |###########|............|#############|     any byte, and a cut may move from row to
//!  row r+2  |##########|............|##############|     row
//! ```
//!
//! | module   | holds                                                                         |
//! |----------|-------------------------------------------------------------------------------|
//! | `place`  | [`FileRows`], [`Place`]: rows of a file in a buffer, with one pitch; reads    |
//! | `share`  | [`Share`], [`Split`], [`Part`]: the owner of each byte and of each disk block |
//! | `edge`   | bytes that travel to the owner of their block                                 |
//! | `blocks` | blocks whose bytes are not all present                                        |
//! | `writer` | [`ColumnWriter`]: the rows of one host, each block written once               |
//! | `sums`   | [`UnitSums`]: checksums that hosts compute together                           |
//!
//! # Promises on shared file systems
//!
//! | between the hosts           | promised by                                                    |
//! |-----------------------------|----------------------------------------------------------------|
//! | no block has two writers    | [`Share`]: all hosts compute the same owner                    |
//! | no page has two writers     | the last page has one owner; other blocks are                  |
//! |                             | written past the page cache, or whole pages                    |
//! | written data are seen later | each host syncs its data ([`SharedNewFile`]), the caller       |
//! |                             | then has a barrier, then a host opens the file: that is what   |
//! |                             | NFS (close-to-open) and all stronger file systems guarantee    |
//! | reads of an input           | no host writes it; all open it after its last writer closed it |
//!
//! Two direct writers of one block lose data: a disk, or the server of a network file system,
//! replaces a block as a whole. So a block has one writer, and the bytes of other hosts in it
//! travel to that writer as edges.
//!
//! [`SharedNewFile`]: crate::shared::SharedNewFile

mod blocks;
mod edge;
mod place;
mod share;
mod sums;
#[cfg(test)]
mod testing;
mod writer;

pub use place::{FileRows, Place};
pub use share::{Part, Share, Split};
pub use sums::UnitSums;
pub use writer::ColumnWriter;
