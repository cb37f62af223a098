//! What can go wrong, in one line each, with the file and the numbers.

use std::io;
use std::path::PathBuf;

use crate::{Block, ElementType, Layout, Shape};

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused an operation on a file or folder as a whole.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried: "open", "create", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A part of a file could not be read, written or mapped: a truncated file, a failing disk, no address
    /// space.
    #[error("cannot {action} bytes {offset} to {} of {name}: {source}", offset + len)]
    Part {
        /// What was tried: "map", "read", "write".
        action: &'static str,
        /// The file.
        name: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Memory for a matrix could not be had.
    #[error("cannot get {bytes} bytes of memory: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file is not a `.npy` file that can be understood.
    #[error("{} is not a .npy file: {why}", path.display())]
    NotNpy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file holds elements of another type than was asked for.
    #[error("{} holds elements of type {found}, not '{}' ({asked})", path.display(), asked.descr())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// What it holds: the `descr` of a `.npy` header, or of the type that `layout.json` gives.
        found: String,
        /// The type that it was to be opened as.
        asked: ElementType,
    },
    /// The `.npy` file holds elements of a type that matrices cannot have.
    #[error("{} holds elements of type {found}, neither '<f8' (float64) nor '<f4' (float32)", path.display())]
    UnknownDtype {
        /// The file.
        path: PathBuf,
        /// The `descr` of its header.
        found: String,
    },
    /// A text that names no type of elements.
    #[error("{text:?} is no type of elements: there are float64 and float32")]
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
    /// The `.npy` file has not two dimensions.
    #[error("{} has {} dimension(s) {dims:?}, not 2", path.display(), dims.len())]
    NotTwoDimensions {
        /// The file.
        path: PathBuf,
        /// Its dimensions.
        dims: Vec<u64>,
    },
    /// The file is shorter or longer than its shape and layout demand.
    #[error("{} has {actual} bytes, but {what} takes {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// What is in it.
        what: String,
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        actual: u64,
    },
    /// The data start at a byte that no element can start at in memory.
    #[error(
        "the data of {} start at byte {offset}, not a multiple of {}: save the file anew",
        path.display(), element.bytes()
    )]
    Unaligned {
        /// The file.
        path: PathBuf,
        /// Where the data start.
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
    /// A matrix without elements.
    #[error("a matrix of {shape} has no elements")]
    Empty {
        /// The shape.
        shape: Shape,
    },
    /// A matrix whose bytes cannot be counted.
    #[error("a matrix of {shape} is too large")]
    TooLarge {
        /// The shape.
        shape: Shape,
    },
    /// A layout with a zero in it.
    #[error("layout {layout} has a zero: blocks and thickness are at least 1")]
    BadBlock {
        /// The layout.
        layout: Layout,
    },
    /// A grid that is not of the matrix's shape, or not the one that the layout is made of.
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
    /// A block, row or range that the matrix has not.
    #[error("{name} has {count} {what}, not {asked}")]
    Range {
        /// The matrix or file.
        name: String,
        /// "rows", "blocks", "bytes".
        what: &'static str,
        /// How many it has.
        count: u64,
        /// The end of what was asked.
        asked: u64,
    },
    /// A buffer of the wrong length.
    #[error("{name}: the buffer holds {actual} values, {expected} are needed")]
    Buffer {
        /// The matrix.
        name: String,
        /// Values needed.
        expected: usize,
        /// Values that the buffer holds.
        actual: usize,
    },
    /// A buffer for I/O that is too short.
    #[error("{name}: the buffer has {given} bytes, {needed} are needed")]
    Room {
        /// The file.
        name: String,
        /// Bytes needed: whole blocks.
        needed: usize,
        /// Bytes that the buffer has.
        given: usize,
    },
    /// A view of a framed block was asked for; such a block must be loaded and stored.
    #[error("{name} is {layout}: its blocks cannot be used in place")]
    NotInPlace {
        /// The matrix.
        name: String,
        /// Its layout.
        layout: Layout,
    },
    /// A `.npy` file of a layout that `.npy` has not.
    #[error("a .npy file is row-major, it cannot be {layout}")]
    NotRowMajor {
        /// The layout asked for.
        layout: Layout,
    },
    /// Writing to what was opened for reading.
    #[error("{name} was opened for reading only")]
    ReadOnly {
        /// The matrix or file.
        name: String,
    },
    /// The regions handed back are not all those of one matrix.
    #[error(
        "{given} region(s) of {name} were handed back, but it has {expected}, each needed once"
    )]
    Regions {
        /// The matrix of the first of them.
        name: String,
        /// How many were given.
        given: usize,
        /// How many there are.
        expected: usize,
    },
    /// Two matrices that should have one shape have two.
    #[error("{src} is {src_shape}, but {dst} is {dst_shape}")]
    Shapes {
        /// The matrix read.
        src: String,
        /// Its shape.
        src_shape: Shape,
        /// The matrix written.
        dst: String,
        /// Its shape.
        dst_shape: Shape,
    },
    /// The memory allowed is too little for the least piece of work.
    #[error("{needed} bytes of memory are needed at least, {given} are allowed")]
    MemoryBound {
        /// The least that is needed.
        needed: u64,
        /// What is allowed.
        given: u64,
    },
    /// The file system has not enough room for an output.
    #[error("{} needs {needed} bytes, but only {free} are free in its folder's file system", path.display())]
    NoSpace {
        /// The file to be made.
        path: PathBuf,
        /// Its bytes.
        needed: u64,
        /// Bytes that the file system has free for the caller.
        free: u64,
    },
    /// A data directory without matrices, or a `layout.json` that makes no sense.
    #[error("{}: {why}", path.display())]
    Directory {
        /// The folder or its `layout.json`.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A matrix that the data directory has not.
    #[error("{} has no matrix {name}; it has {}", path.display(), names.join(", "))]
    NoMatrix {
        /// The folder.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The names that it has.
        names: Vec<String>,
    },
    /// Another run works on the same output.
    #[error("another run works on this output: it holds {}", path.display())]
    Busy {
        /// The lock that it holds.
        path: PathBuf,
    },
    /// An interrupted run has left something where a new one would begin.
    #[error("{} is left of an interrupted run: resume or discard it first", path.display())]
    Leftover {
        /// The folder of the interrupted run.
        path: PathBuf,
    },
    /// A file or folder that no run has made, where only a run's files should be. It is never removed.
    #[error("{} was not made by a run: move it away", path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
    },
    /// The manifest of an interrupted run is damaged, or of a newer version.
    #[error("manifest {}: {why}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A generation is not what its manifest says, or was never committed.
    #[error("generation {generation}, {}: {why}", path.display())]
    Generation {
        /// Its number.
        generation: u64,
        /// The file that holds it, or should.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// What an interrupted run has left is of another computation.
    #[error("{} is of another computation: {}", path.display(), differences.join("; "))]
    OtherRun {
        /// The folder of the interrupted run.
        path: PathBuf,
        /// What differs, one thing each.
        differences: Vec<String>,
    },
    /// An input that was written to while a run read it.
    #[error("{} was changed while it was read: the result would be of neither version", path.display())]
    InputChanged {
        /// The file.
        path: PathBuf,
    },
    /// Where a result was to get its name stands something that was not there, or was another file,
    /// when its run began.
    #[error("{} is not what it was when the run began, and is not replaced: move it away", path.display())]
    Appeared {
        /// The name of the result.
        path: PathBuf,
    },
    /// A generation that is neither the last committed one nor the next.
    #[error("generation {asked} of {} is not at hand: {committed} is the last that was committed", path.display())]
    NotAtHand {
        /// The folder of the run.
        path: PathBuf,
        /// The generation asked for.
        asked: u64,
        /// The last that was committed, 0 for none.
        committed: u64,
    },
    /// A commit failed half-way: which generation is the last will be seen when the run is resumed.
    #[error("a commit in {} failed before: resume the run", path.display())]
    CommitFailed {
        /// The folder of the run.
        path: PathBuf,
    },
}
