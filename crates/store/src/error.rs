//! The error type of the crate. Each error is one line that names the file and the numbers.

use std::io;
use std::path::PathBuf;

use crate::{Block, ElementType, Layout, Shape};

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused an operation on a file or folder as a whole.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted operation: "open", "create", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A path cannot be that of an output.
    #[error("the output {} {why}", path.display())]
    Output {
        /// The path.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A complete result did not get its name. It has another one, or is still in the folder of its
    /// run, from which the run can be resumed.
    #[error("{source}; the result is in {}", kept.display())]
    Kept {
        /// The file of the result.
        kept: PathBuf,
        /// The reason.
        source: Box<Error>,
    },
    /// A file that is not complete yet has lost its name.
    #[error("{} was removed by another program before it was complete", path.display())]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// A part of a file could not be read, written or mapped: the file is truncated, the disk
    /// fails, or no address space is left.
    #[error("cannot {action} bytes {offset} to {} of {name}: {source}", offset + len)]
    Part {
        /// The attempted operation: "map", "read", "write".
        action: &'static str,
        /// The file.
        name: String,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Memory for a matrix could not be allocated.
    #[error("cannot get {bytes} bytes of memory: {source}")]
    Memory {
        /// The number of bytes requested.
        bytes: usize,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a valid `.npy` file.
    #[error("{} is not a .npy file: {why}", path.display())]
    NotNpy {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The file holds elements of a type other than the requested one.
    #[error("{} holds elements of type {found}, not '{}' ({asked})", path.display(), asked.descr())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The type that the file holds: the `descr` of a `.npy` header, or of the type that
        /// `layout.json` gives.
        found: String,
        /// The requested type.
        asked: ElementType,
    },
    /// The `.npy` file holds elements of a type that matrices do not support.
    #[error("{} holds elements of type {found}, neither '<f8' (float64) nor '<f4' (float32)", path.display())]
    UnknownDtype {
        /// The file.
        path: PathBuf,
        /// The `descr` of its header.
        found: String,
    },
    /// The `.npy` file holds elements of a type that arrays do not support.
    #[error(
        "{} holds elements of type {found}; save it as one of {}, for example by numpy's \
         `.astype`", path.display(), ElementType::ALL.map(ElementType::name).join(", ")
    )]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// The `descr` of its header.
        found: String,
    },
    /// The `.npy` file has neither two nor three dimensions.
    #[error("{} has {} dimension(s) {dims:?}, not 2 or 3", path.display(), dims.len())]
    NotTwoOrThreeDimensions {
        /// The file.
        path: PathBuf,
        /// Its dimensions.
        dims: Vec<u64>,
    },
    /// The `.npy` file has an array without elements.
    #[error("{} has no elements: its dimensions are {dims:?}", path.display())]
    NoElements {
        /// The file.
        path: PathBuf,
        /// Its dimensions, of which one is 0.
        dims: Vec<u64>,
    },
    /// The number of values is not that of the dimensions, or a dimension is 0 or too large.
    #[error("{given} values do not make an array of {dims:?}")]
    Dimensions {
        /// The dimensions.
        dims: Vec<usize>,
        /// The number of values.
        given: usize,
    },
    /// A text does not name a type of elements.
    #[error("{text:?} is not a type of elements: use float64 or float32")]
    UnknownElement {
        /// The text.
        text: String,
    },
    /// The `.npy` file is in Fortran order.
    #[error("{} is in Fortran (column-major) order; only C order is read", path.display())]
    FortranOrder {
        /// The file.
        path: PathBuf,
    },
    /// The `.npy` file does not have two dimensions.
    #[error("{} has {} dimension(s) {dims:?}, not 2", path.display(), dims.len())]
    NotTwoDimensions {
        /// The file.
        path: PathBuf,
        /// Its dimensions.
        dims: Vec<u64>,
    },
    /// The length of the file does not match its shape and layout.
    #[error("{} has {actual} bytes, but {what} takes {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The contents that determine the expected length.
        what: String,
        /// The expected number of bytes.
        expected: u64,
        /// The actual number of bytes.
        actual: u64,
    },
    /// The data start at an offset that is not aligned for the elements.
    #[error(
        "the data of {} start at byte {offset}, not a multiple of {}: save the file again",
        path.display(), element.bytes()
    )]
    Unaligned {
        /// The file.
        path: PathBuf,
        /// The byte at which the data start.
        offset: u64,
        /// The type of its elements.
        element: ElementType,
    },
    /// No matrix can have the shape in the file's header.
    #[error("{}: {source}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// [`Empty`](Self::Empty) or [`TooLarge`](Self::TooLarge).
        source: Box<Error>,
    },
    /// The matrix has no elements.
    #[error("a matrix of {shape} has no elements")]
    Empty {
        /// The shape.
        shape: Shape,
    },
    /// The number of bytes of the matrix overflows.
    #[error("a matrix of {shape} is too large")]
    TooLarge {
        /// The shape.
        shape: Shape,
    },
    /// The layout contains a zero.
    #[error("layout {layout} has a zero: blocks and thickness are at least 1")]
    BadBlock {
        /// The layout.
        layout: Layout,
    },
    /// The grid does not have the matrix's shape, or does not match the layout.
    #[error("{name} is {shape} {layout}: it cannot be cut as {asked_shape} into blocks of {asked}")]
    Grid {
        /// The matrix.
        name: String,
        /// Its shape.
        shape: Shape,
        /// Its layout.
        layout: Layout,
        /// The shape of the grid.
        asked_shape: Shape,
        /// The block of the grid.
        asked: Block,
    },
    /// A block, row or range is beyond the end of the matrix or file.
    #[error("{name} has {count} {what}, not {asked}")]
    Range {
        /// The matrix or file.
        name: String,
        /// "rows", "blocks", "bytes".
        what: &'static str,
        /// The number of items that exist.
        count: u64,
        /// The end of the requested range.
        asked: u64,
    },
    /// A buffer has the wrong length.
    #[error("{name}: the buffer holds {actual} values, {expected} are needed")]
    Buffer {
        /// The matrix.
        name: String,
        /// The number of values needed.
        expected: usize,
        /// The number of values that the buffer holds.
        actual: usize,
    },
    /// An I/O buffer is too short.
    #[error("{name}: the buffer has {given} bytes, {needed} are needed")]
    Room {
        /// The file.
        name: String,
        /// The number of bytes needed, in whole blocks.
        needed: usize,
        /// The number of bytes in the buffer.
        given: usize,
    },
    /// A view of a framed block was requested; such a block must be loaded and stored.
    #[error("{name} is {layout}: its blocks cannot be used in place")]
    NotInPlace {
        /// The matrix.
        name: String,
        /// Its layout.
        layout: Layout,
    },
    /// The requested layout cannot be stored in a `.npy` file.
    #[error("a .npy file is row-major, it cannot be {layout}")]
    NotRowMajor {
        /// The requested layout.
        layout: Layout,
    },
    /// A write to a matrix or file that was opened for reading.
    #[error("{name} was opened for reading only")]
    ReadOnly {
        /// The matrix or file.
        name: String,
    },
    /// The regions handed back are not exactly those of one matrix.
    #[error(
        "{given} region(s) of {name} were handed back, but it has {expected}, each needed once"
    )]
    Regions {
        /// The matrix of the first region.
        name: String,
        /// The number of regions given.
        given: usize,
        /// The number of regions of the matrix.
        expected: usize,
    },
    /// Two matrices that must have the same shape differ.
    #[error("{src} is {src_shape}, but {dst} is {dst_shape}")]
    Shapes {
        /// The source matrix.
        src: String,
        /// The shape of the source.
        src_shape: Shape,
        /// The destination matrix.
        dst: String,
        /// The shape of the destination.
        dst_shape: Shape,
    },
    /// The memory bound is too small for the smallest piece of work.
    #[error("{needed} bytes of memory are needed at least, {given} are allowed")]
    MemoryBound {
        /// The minimum number of bytes.
        needed: u64,
        /// The number of bytes allowed.
        given: u64,
    },
    /// The file system does not have enough space for an output.
    #[error("{} needs {needed} bytes, but only {free} are free in its folder's file system", path.display())]
    NoSpace {
        /// The file to be created.
        path: PathBuf,
        /// The size of the file in bytes.
        needed: u64,
        /// The number of bytes that the file system has free for the caller.
        free: u64,
    },
    /// A data directory without matrices, or an invalid `layout.json`.
    #[error("{}: {why}", path.display())]
    Directory {
        /// The folder or its `layout.json`.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The data directory does not have the requested matrix.
    #[error("{} has no matrix {name}; it has {}", path.display(), names.join(", "))]
    NoMatrix {
        /// The folder.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// The names of the matrices in the directory.
        names: Vec<String>,
    },
    /// Another run holds the lock of the output.
    #[error("another run works on this output: it holds {}", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// An interrupted run left files that block a new run.
    #[error("{} is left of an interrupted run: resume or discard it first", path.display())]
    Leftover {
        /// The folder of the interrupted run.
        path: PathBuf,
    },
    /// A file or folder that was not created by a run stands where only a run's files belong. It is
    /// never removed.
    #[error("{} was not made by a run: move it away", path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
    },
    /// The manifest of an interrupted run is damaged, or has a newer version.
    #[error("manifest {}: {why}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A generation does not match its manifest, or was never committed.
    #[error("generation {generation}, {}: {why}", path.display())]
    Generation {
        /// The number of the generation.
        generation: u64,
        /// The file of the generation, which may be missing.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The files of an interrupted run belong to another computation.
    #[error("{} is of another computation: {}", path.display(), differences.join("; "))]
    OtherRun {
        /// The folder of the interrupted run.
        path: PathBuf,
        /// The differences, one entry each.
        differences: Vec<String>,
    },
    /// An input was modified while a run read it.
    #[error("{} was changed while it was read: the result would be of neither version", path.display())]
    InputChanged {
        /// The file.
        path: PathBuf,
    },
    /// The name of a result is taken by a file that did not exist, or was another file, when the
    /// run began.
    #[error("{} is not what it was when the run began, and is not replaced: move it away", path.display())]
    Appeared {
        /// The name of the result.
        path: PathBuf,
    },
    /// The requested generation is neither the last committed one nor the next.
    #[error("generation {asked} of {} is not available: the last committed generation is {committed}", path.display())]
    NotAtHand {
        /// The folder of the run.
        path: PathBuf,
        /// The requested generation.
        asked: u64,
        /// The last committed generation, 0 if there is none.
        committed: u64,
    },
    /// The hosts that share a file by columns do not agree, or bytes of one of them are missing.
    #[error("{name}: {why}")]
    Columns {
        /// The file.
        name: String,
        /// The reason.
        why: String,
    },
    /// A file that the hosts of a run share is not the same file on all of them.
    #[error("{} is not shared: {why}", path.display())]
    NotShared {
        /// The file.
        path: PathBuf,
        /// What two hosts see.
        why: String,
    },
    /// A commit failed midway: resuming the run determines which generation is the last.
    #[error("a commit in {} failed before: resume the run", path.display())]
    CommitFailed {
        /// The folder of the run.
        path: PathBuf,
    },
}

impl Error {
    /// Adds the file in which a result is kept, if it is.
    pub(crate) fn kept(self, kept: Option<PathBuf>) -> Self {
        match kept {
            Some(kept) => Self::Kept { kept, source: Box::new(self) },
            None => self,
        }
    }
}
