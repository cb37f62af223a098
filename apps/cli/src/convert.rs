//! `syncline convert`: all matrices of a directory in another layout.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use syncline_blocks::plan::{BlockModel, BlockTime};
use syncline_store::probe::Disk;
use syncline_store::{
    Block, DataDir, Element, ElementType, Layout, Matrix, Shape, chunk::Chunk,
    dir::write_layout_json, generation::Existing,
};

use syncline_common::signals::Signals;
use syncline_common::terminal;
use syncline_common::units::{Bytes, Each, Time, rate};

use crate::args::BlockSize;
use crate::args::{ConvertArgs, LayoutKind};
use crate::budget;
use crate::error::{Error, Result};
use crate::output::{LAYOUT, NewDir, RESULT, file_name};
use crate::results::{Raw, field_of};
use crate::watch::{SYNC, bar_of_bytes, watch};

/// Larger buffers make nothing faster.
const MOST: u64 = 512 << 20;

/// The number of bytes of two files that are compared at once.
const PIECE: usize = 64 << 10;

/// The iterations of the run that blocks are chosen for, as in the papers.
const ITERATIONS: u64 = 20;

/// Converts a directory; returns the text to print.
pub(crate) fn convert(args: &ConvertArgs, signals: &Signals) -> Result<String> {
    let start = Instant::now();
    check_options(args)?;
    let dir = DataDir::open(&args.dir)?;
    let Chosen { names, sources, shape, left } = Chosen::of(&dir, &args.only)?;
    let same =
        |a, b| fs::canonicalize(a).ok().zip(fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b);
    if same(&args.dir, &args.outdir) {
        let why = "is also read: take another directory".to_owned();
        return Err(Error::Output { path: args.outdir.clone(), why });
    }
    let npy = args.layout == LayoutKind::RowMajor;
    let memory = budget::Bound::new(args.memory).for_buffers("a buffer for values", 1 << 20)?;
    let (layout, chosen) = match args.block {
        Some(BlockSize::Auto) => choose(args, shape, &sources, memory, signals)?,
        given => (
            args.layout_with(given.and_then(BlockSize::given).unwrap_or(usual(shape)), shape),
            None,
        ),
    };
    let arrays: BTreeMap<String, (Layout, ElementType)> = names
        .iter()
        .zip(&sources)
        .map(|(name, source)| (name.clone(), (layout_of(name, layout), source.element())))
        .collect();
    let memory = memory.min(MOST);
    let mut out = NewDir::create(&args.outdir, names.iter().map(|name| file_name(name, npy)))?;
    for (file, why) in &left {
        terminal::say(format_args!("left: {} {why}", file.display()));
    }
    let mut jobs = Vec::new();
    for (source, (name, (layout, _))) in sources.into_iter().zip(&arrays) {
        jobs.push(match source {
            Source::Float64(source) => {
                Job::new(source, out.matrix(name, shape, *layout, npy)?, memory)
            }
            Source::Float32(source) => {
                Job::new(source, out.matrix(name, shape, *layout, npy)?, memory)
            }
        });
    }
    let chunks: Vec<_> = jobs.iter().map(|job| Arc::clone(&job.written)).collect();
    let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
    let bar = bar_of_bytes("converting", signals);
    bar.set_length(bytes);
    let look = |bar: &indicatif::ProgressBar| {
        bar.set_position(chunks.iter().map(|chunk| chunk.traffic().written).sum());
    };
    watch(signals, &bar, look, move || jobs.into_iter().try_for_each(|job| (job.work)()))?;
    let path = out.path().to_owned();
    out.commit(signals, |path| match npy {
        true => Ok(()),
        false => Ok(write_layout_json(path, shape, &arrays)?),
    })?;
    let time = start.elapsed();
    let (count, size, rate) = (arrays.len(), Bytes(bytes), rate(bytes, time));
    let kind = match args.layout {
        LayoutKind::RowMajor => "row-major .npy".to_owned(),
        _ => layout.to_string(),
    };
    let path = path.display();
    let taken = names.join(" ");
    let chosen = chosen.map_or(String::new(), |why| format!("\nchosen: {why}"));
    let time = Time(time);
    Ok(format!(
        "wrote {count} matrices of {shape}, {kind}, {size}, to {path} in {time} ({rate}/s)\ntaken: {taken}{chosen}"
    ))
}

/// Returns the layout with the blocks that are expected to be fastest, and the reason for them.
fn choose(
    args: &ConvertArgs,
    shape: Shape,
    sources: &[Source],
    memory: u64,
    signals: &Signals,
) -> Result<(Layout, Option<String>)> {
    let element = sources.iter().map(Source::element).max_by_key(|element| element.bytes());
    let element = element.unwrap_or(ElementType::Float64);
    let fit = |why: &str| (args.layout_with(usual(shape), shape), Some(why.to_owned()));
    // The result is one more matrix.
    let bytes =
        (shape.elements() as u64).saturating_mul((element.bytes() * (sources.len() + 1)) as u64);
    if bytes <= memory {
        return Ok(fit(
            "an eighth of the longer side within 64 to 2048, as all matrices fit the memory",
        ));
    }
    // The target directory, or its nearest existing ancestor.
    let above = args.outdir.ancestors().find(|path| path.is_dir());
    let folder = above.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let bar = signals.bar(SYNC).with_message("measuring the disk");
    let disk = watch(signals, &bar, |bar| bar.tick(), move || Ok(Disk::below(&folder)?))?;
    let model = BlockModel {
        shape,
        layout: args.layout_with(usual(shape), shape),
        coefficients: sources.len() - 1,
        element,
        memory,
        workers: std::thread::available_parallelism().map_or(1, usize::from) as u64,
        iterations: ITERATIONS,
        disk,
    };
    Ok(match model.best()? {
        Some(BlockTime { block, seconds, .. }) => {
            (args.layout_with(block, shape), Some(why(&disk, block, seconds)))
        }
        None => fit("an eighth of the longer side within 64 to 2048, as no block fits the memory"),
    })
}

/// Describes in one line why the block size was chosen.
pub(crate) fn why(disk: &Disk, block: Block, seconds: f64) -> String {
    let (read, write) = (Bytes(disk.read as u64), Bytes(disk.write as u64));
    format!(
        "blocks of {block}: {} an iteration expected, if the disk reads {read}/s, writes {write}/s and takes {} a piece",
        Each(seconds),
        Each(disk.piece)
    )
}

/// Returns the default block: an eighth of the longer side, at most the size in the papers.
fn usual(shape: Shape) -> Block {
    let side = shape.rows.max(shape.cols).div_ceil(8).clamp(64, 2048);
    Block::new(side, side)
}

/// A matrix to convert.
#[derive(Debug)]
enum Source {
    Float64(Matrix<f64>),
    Float32(Matrix<f32>),
}

impl Source {
    fn open(dir: &DataDir, name: &str) -> Result<Self> {
        let (path, npy) = (dir.path().join(name), dir.path().join(format!("{name}.npy")));
        // Results, which no directory lists, are raw or `.npy`.
        Ok(if !dir.has(name) && path.is_file() {
            let raw = Raw::of(&path)?;
            match raw.element {
                ElementType::Float64 => Self::Float64(raw.open(&path)?),
                ElementType::Float32 => Self::Float32(raw.open(&path)?),
                other => return Err(Error::Whole(other)),
            }
        } else if !dir.has(name) && npy.is_file() {
            match ElementType::of_npy(&npy)? {
                ElementType::Float64 => Self::Float64(Matrix::open(&npy)?),
                ElementType::Float32 => Self::Float32(Matrix::open(&npy)?),
                other => return Err(Error::Whole(other)),
            }
        } else {
            match dir.element(name)? {
                ElementType::Float64 => Self::Float64(dir.matrix(name)?),
                ElementType::Float32 => Self::Float32(dir.matrix(name)?),
                other => return Err(Error::Whole(other)),
            }
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
    /// The matrix that is written.
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
        LayoutKind::RowMajor if args.block.is_some() => {
            refuse("--block is not for the layout row-major")
        }
        LayoutKind::RowMajor | LayoutKind::Blocked if args.thickness.is_some() => {
            refuse("--thickness is for the layout framed only")
        }
        _ if args.thickness == Some(0) => refuse("--thickness is at least 1"),
        _ => Ok(()),
    }
}

/// The matrices to convert.
struct Chosen {
    names: Vec<String>,
    sources: Vec<Source>,
    /// The common shape: a `layout.json` holds only one.
    shape: Shape,
    /// The files that are skipped, and why.
    left: Vec<(PathBuf, String)>,
}

impl Chosen {
    /// Selects the matrices that `only` names, or else all convertible matrices of the directory
    /// that are not results.
    ///
    /// # Errors
    /// If a named matrix cannot be converted, or none can.
    fn of(dir: &DataDir, only: &[String]) -> Result<Self> {
        if !only.is_empty() {
            let mut names: Vec<_> = only.iter().map(|name| plain(dir, name)).collect();
            names.sort();
            names.dedup();
            let sources: Vec<_> =
                names.iter().map(|name| Source::open(dir, name)).collect::<Result<_>>()?;
            let shape = common_shape(&sources)?;
            return Ok(Self { names, sources, shape, left: Vec::new() });
        }
        let (mut opened, mut left, mut first) = (Vec::new(), Vec::new(), None);
        for name in dir.names() {
            let file = dir.file(name);
            if is_result(name, &file)? {
                left.push((file, "is a result; --only takes it".to_owned()));
                continue;
            }
            match Source::open(dir, name) {
                Ok(source) => opened.push((name.clone(), source)),
                Err(error) => {
                    left.push((file, format!("cannot be taken: {error}")));
                    first.get_or_insert(error);
                }
            }
        }
        leave_copies(dir, &mut opened, &mut left)?;
        left.extend(unlisted(dir)?);
        let Some(shape) = usual_shape(&opened) else {
            let results =
                "there are only results of runs here: --only says which to take".to_owned();
            return Err(first.unwrap_or(Error::Usage(results)));
        };
        let (taken, others): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|(_, source)| source.shape() == shape);
        left.extend(others.into_iter().map(|(name, source)| {
            (dir.file(&name), format!("is {}, not {shape} as the others", source.shape()))
        }));
        let (names, sources) = taken.into_iter().unzip();
        Ok(Self { names, sources, shape, left })
    }
}

/// Skips files with the same bytes as a result in the same directory. A plain copy of a result has
/// no mark and would be taken for one more matrix of the problem. The field and other inputs of the
/// run may have those bytes too, and are kept.
fn leave_copies(
    dir: &DataDir,
    opened: &mut Vec<(String, Source)>,
    left: &mut Vec<(PathBuf, String)>,
) -> Result<()> {
    let names = dir.names().iter().filter(|name| opened.iter().all(|(taken, _)| taken != *name));
    let mut results = Vec::new();
    for name in names {
        let file = dir.file(name);
        if is_result(name, &file)? {
            let mut inputs = vec![field_of(name).to_owned()];
            if let Existing::Result(mark) = Existing::at(&file)? {
                let name_of = |name: &str| name.strip_suffix(".npy").unwrap_or(name).to_owned();
                inputs.extend(mark.identity.inputs.iter().map(|input| name_of(&input.name)));
            }
            results.push((file, inputs));
        }
    }
    let mut kept = Vec::new();
    for (name, source) in opened.drain(..) {
        let file = dir.file(&name);
        let mut of = None;
        for (result, inputs) in &results {
            if of.is_none() && !inputs.contains(&name) && has_the_bytes_of(&file, result)? {
                of = Some(result);
            }
        }
        match of {
            None => kept.push((name, source)),
            Some(result) => {
                left.push((
                    file,
                    format!("is a copy of the result {}; --only takes it", result.display()),
                ));
            }
        }
    }
    *opened = kept;
    Ok(())
}

/// Returns whether two files have the same bytes. Reads little if they differ.
fn has_the_bytes_of(one: &Path, other: &Path) -> Result<bool> {
    let failed = |path: &Path| {
        let what = format!("read {}", path.display());
        move |source| Error::Io { what, source }
    };
    let open = |path: &Path| fs::File::open(path).map_err(failed(path));
    let (file_one, file_other) = (open(one)?, open(other)?);
    let len = |file: &fs::File, path| Ok::<_, Error>(file.metadata().map_err(failed(path))?.len());
    let bytes = len(&file_one, one)?;
    if bytes != len(&file_other, other)? {
        return Ok(false);
    }
    let mut pieces = [vec![0; PIECE], vec![0; PIECE]];
    for at in (0..bytes).step_by(PIECE) {
        let here = (bytes - at).min(PIECE as u64) as usize;
        let [piece_one, piece_other] = &mut pieces;
        file_one.read_exact_at(&mut piece_one[..here], at).map_err(failed(one))?;
        file_other.read_exact_at(&mut piece_other[..here], at).map_err(failed(other))?;
        if piece_one[..here] != piece_other[..here] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the raw results of a raw directory, which its `layout.json` does not list.
fn unlisted(dir: &DataDir) -> Result<Vec<(PathBuf, String)>> {
    let failed = |source| Error::Io { what: format!("read {}", dir.path().display()), source };
    let mut all = Vec::new();
    if dir.is_raw() {
        for entry in fs::read_dir(dir.path()).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            let name =
                file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if name != LAYOUT && !dir.has(&name) && file.is_file() && is_result(&name, &file)? {
                all.push((file, "is a result; --only takes it".to_owned()));
            }
        }
        all.sort();
    }
    Ok(all)
}

/// Returns the name of a matrix, given by its name or by that of its `.npy` file.
fn plain(dir: &DataDir, name: &str) -> String {
    let plain = name.strip_suffix(".npy").filter(|_| !dir.has(name));
    plain.unwrap_or(name).to_owned()
}

/// Returns whether a file is a result, by its mark or by a name of the form that a run gives.
fn is_result(name: &str, file: &Path) -> Result<bool> {
    Ok(name.ends_with(RESULT) || matches!(Existing::at(file)?, Existing::Result(_)))
}

/// Returns the most frequent shape; of equally frequent ones, the larger.
fn usual_shape(opened: &[(String, Source)]) -> Option<Shape> {
    let count = |shape| opened.iter().filter(|(_, source)| source.shape() == shape).count();
    let shapes = opened.iter().map(|(_, source)| source.shape());
    shapes.max_by_key(|&shape| (count(shape), shape.elements()))
}

/// Returns the shape that all matrices have.
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

/// Returns the layout of a matrix. Only neighbours read frames, and only those of the field, which
/// has `layout`.
fn layout_of(name: &str, layout: Layout) -> Layout {
    // The name of a result begins with that of its field.
    match field_of(name) {
        "za" | "u" | "score" => layout,
        _ => layout.without_frame(),
    }
}

impl ConvertArgs {
    /// Returns the layout of the field, with blocks of this size.
    fn layout_with(&self, block: Block, shape: Shape) -> Layout {
        let block = block.clipped(shape);
        match self.layout {
            LayoutKind::RowMajor => Layout::RowMajor,
            LayoutKind::Blocked => Layout::Blocked(block),
            LayoutKind::Framed => Layout::Framed { block, thickness: self.thickness.unwrap_or(1) },
        }
    }
}
