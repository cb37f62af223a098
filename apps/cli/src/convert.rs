//! `syncline convert`: all matrices of a directory in another layout.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use syncline_store::{Block, Chunk, DataDir, Element, ElementType, Layout, Matrix, Shape, write_layout_json};

use crate::args::{ConvertArgs, LayoutKind};
use crate::budget;
use crate::error::{Error, Result};
use crate::output::{NewDir, file_name};
use crate::units::{Bytes, Time, rate};
use crate::watch::{Signals, bar_of_bytes, watch};

/// Buffers beyond this make nothing faster.
const MOST: u64 = 512 << 20;

/// Converts a directory; returns what to print.
pub(crate) fn convert(args: &ConvertArgs, signals: &Signals) -> Result<String> {
    let start = Instant::now();
    check_options(args)?;
    let dir = DataDir::open(&args.dir)?;
    let sources: Vec<Source> =
        dir.names().iter().map(|name| Source::open(&dir, name)).collect::<Result<_>>()?;
    let shape = common_shape(&sources)?;
    let same = |a, b| fs::canonicalize(a).ok().zip(fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b);
    if same(&args.dir, &args.outdir) {
        let why = "is also read: take another directory".to_owned();
        return Err(Error::Output { path: args.outdir.clone(), why });
    }
    let npy = args.layout == LayoutKind::RowMajor;
    let arrays: BTreeMap<String, (Layout, ElementType)> = dir
        .names()
        .iter()
        .zip(&sources)
        .map(|(name, source)| (name.clone(), (layout_of(name, shape, args), source.element())))
        .collect();
    let memory = budget::Bound::new(args.memory).for_buffers("a buffer for values", 1 << 20)?.min(MOST);

    let mut out = NewDir::create(&args.outdir, dir.names().iter().map(|name| file_name(name, npy)))?;
    let mut jobs = Vec::new();
    for (source, (name, (layout, _))) in sources.into_iter().zip(&arrays) {
        jobs.push(match source {
            Source::Float64(source) => Job::new(source, out.matrix(name, shape, *layout, npy)?, memory),
            Source::Float32(source) => Job::new(source, out.matrix(name, shape, *layout, npy)?, memory),
        });
    }
    let chunks: Vec<_> = jobs.iter().map(|job| Arc::clone(&job.written)).collect();
    let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
    let bar = bar_of_bytes("converting");
    bar.set_length(bytes);
    let look = |bar: &indicatif::ProgressBar| {
        bar.set_position(chunks.iter().map(|chunk| chunk.traffic().written).sum());
    };
    watch(signals, &bar, look, move || jobs.into_iter().try_for_each(|job| (job.work)()))?;
    let path = out.path().to_owned();
    out.commit(signals)?;
    if !npy {
        write_layout_json(&path, shape, &arrays)?;
    }
    let time = start.elapsed();
    let (count, size, rate) = (arrays.len(), Bytes(bytes), rate(bytes, time));
    let kind = match args.layout {
        LayoutKind::RowMajor => "row-major .npy".to_owned(),
        _ => args.layout_of_field(shape).to_string(),
    };
    let path = path.display();
    Ok(format!("wrote {count} matrices of {shape}, {kind}, {size}, to {path} in {} ({rate}/s)", Time(time)))
}

/// A matrix to be converted.
#[derive(Debug)]
enum Source {
    Float64(Matrix<f64>),
    Float32(Matrix<f32>),
}

impl Source {
    fn open(dir: &DataDir, name: &str) -> Result<Self> {
        Ok(match dir.element(name)? {
            ElementType::Float64 => Self::Float64(dir.matrix(name)?),
            ElementType::Float32 => Self::Float32(dir.matrix(name)?),
        })
    }

    const fn element(&self) -> ElementType {
        match self {
            Self::Float64(_) => ElementType::Float64,
            Self::Float32(_) => ElementType::Float32,
        }
    }

    const fn shape(&self) -> Shape {
        match self {
            Self::Float64(matrix) => matrix.shape(),
            Self::Float32(matrix) => matrix.shape(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Float64(matrix) => matrix.name(),
            Self::Float32(matrix) => matrix.name(),
        }
    }
}

/// A conversion, of elements of either type.
struct Job {
    /// What is written.
    written: Arc<Chunk>,
    work: Box<dyn FnOnce() -> Result<()> + Send>,
}

impl Job {
    fn new<T: Element>(source: Matrix<T>, mut new: Matrix<T>, memory: u64) -> Self {
        let written = Arc::clone(new.chunk());
        let work = Box::new(move || Ok(syncline_store::convert(&source, &mut new, memory)?));
        Self { written, work }
    }
}

fn check_options(args: &ConvertArgs) -> Result<()> {
    let refuse = |text: &str| Err(Error::Usage(text.to_owned()));
    match args.layout {
        LayoutKind::RowMajor if args.block.is_some() => refuse("--block is not for the layout row-major"),
        LayoutKind::RowMajor | LayoutKind::Blocked if args.thickness.is_some() => {
            refuse("--thickness is for the layout framed only")
        }
        _ if args.thickness == Some(0) => refuse("--thickness is at least 1"),
        _ => Ok(()),
    }
}

/// The shape that all matrices have: a `layout.json` knows only one.
fn common_shape(matrices: &[Source]) -> Result<Shape> {
    let Some((first, others)) = matrices.split_first() else {
        return Err(Error::Usage("there is no matrix to convert".to_owned()));
    };
    match others.iter().find(|other| other.shape() != first.shape()) {
        None => Ok(first.shape()),
        Some(other) => Err(Error::Store(syncline_store::Error::Shapes {
            src: first.name().to_owned(),
            src_shape: first.shape(),
            dst: other.name().to_owned(),
            dst_shape: other.shape(),
        })),
    }
}

/// Only neighbours read frames, and only of the field.
fn layout_of(name: &str, shape: Shape, args: &ConvertArgs) -> Layout {
    let layout = args.layout_of_field(shape);
    match name.strip_suffix(".out").unwrap_or(name) {
        "za" | "u" | "score" => layout,
        _ => layout.without_frame(),
    }
}

impl ConvertArgs {
    fn layout_of_field(&self, shape: Shape) -> Layout {
        let side = (shape.rows.max(shape.cols).div_ceil(8)).clamp(64, 2048);
        let block = self.block.unwrap_or(Block::new(side, side)).clipped(shape);
        match self.layout {
            LayoutKind::RowMajor => Layout::RowMajor,
            LayoutKind::Blocked => Layout::Blocked(block),
            LayoutKind::Framed => Layout::Framed { block, thickness: self.thickness.unwrap_or(1) },
        }
    }
}
