//! Streamed or in blocks: what the options, the order and the layouts ask for.
//!
//! | asked for by                                              | executor |
//! |-----------------------------------------------------------|----------|
//! | --executor                                                | that one |
//! | --depth                                                   | streamed |
//! | --block, --runner, another order than wave                | blocked  |
//! | an array that is not row-major, or an output that is not  | blocked  |
//! | nothing of these, and memory for a streamed pass          | streamed |
//! | nothing of these, and too little                          | blocked  |
//!
//! Options that contradict each other or the layouts are an error, which names every option that
//! is in the way: the same command without them runs. --exact-stop asks for no executor: in blocks
//! the order barrier, which has the bits of the order wave, stops exactly by itself. --resume goes
//! on from a result with either executor; an interrupted streamed run only goes on streamed.

use std::path::Path;

use syncline_store::Layout;
use syncline_wave::{Error as WaveError, Executor, Result as WaveResult, lanes::Real};

use crate::args::{BlockOrder, ExecutorKind, RunArgs};
use crate::error::{Error, Result};
use crate::kernels::Arrays;

/// Options, by their names.
type Names = Vec<&'static str>;

/// Checks the options that are wrong whatever the data are.
///
/// # Errors
/// [`Error::Usage`].
pub(crate) fn check(args: &RunArgs) -> Result<()> {
    let refuse = |text: &str| Err(Error::Usage(text.to_owned()));
    if args.resume && args.force {
        return refuse(
            "--resume goes on from what --force discards: leave out --resume, or leave out --force",
        );
    }
    if args.exact_stop && args.until.is_none() {
        return refuse(
            "--exact-stop is for runs with --until: give --until, or leave out --exact-stop",
        );
    }
    Ok(())
}

/// The options that only streamed sweeps have.
pub(crate) fn for_streamed(args: &RunArgs) -> Names {
    let asked = [
        (args.executor == ExecutorKind::Streamed, "--executor streamed"),
        (args.depth.is_some(), "--depth"),
    ];
    given(&asked)
}

/// The options that only sweeps in blocks have.
pub(crate) fn for_blocks(args: &RunArgs) -> Names {
    let asked = [
        (args.executor == ExecutorKind::Blocked, "--executor blocked"),
        (args.block.is_some(), "--block"),
        (args.runner.is_some(), "--runner"),
        (args.order == BlockOrder::MaxParallel, "--order max-parallel"),
        (args.order == BlockOrder::Barrier, "--order barrier"),
    ];
    given(&asked)
}

fn given(asked: &[(bool, &'static str)]) -> Names {
    asked.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect()
}

/// The order of a sweep by an executor. An exact stop in blocks is that of the barrier.
pub(crate) fn order(args: &RunArgs, executor: Executor) -> BlockOrder {
    match (args.order, executor) {
        (BlockOrder::Wave, Executor::Blocked) if args.exact_stop => BlockOrder::Barrier,
        (order, _) => order,
    }
}

/// Options as a list in words.
pub(crate) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Whether one option or several are.
pub(crate) fn are(names: &[&str]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

/// The executor for these options, which were [`check`]ed, and these layouts. `in_blocks` is what
/// is wrong with a sweep in blocks of these arrays, whatever the options are.
///
/// # Errors
/// When the options contradict each other or the layouts.
pub(crate) fn choose<T: Real>(
    args: &RunArgs,
    arrays: &Arrays<T>,
    result: Layout,
    in_blocks: impl FnOnce() -> WaveResult<()>,
) -> Result<Executor> {
    let row_major =
        result == Layout::RowMajor && arrays.all().all(|array| is_row_major(array.layout()));
    let (streamed, blocks) = (for_streamed(args), for_blocks(args));
    match (streamed.is_empty(), blocks.is_empty()) {
        (false, false) => Err(contradiction(args, streamed, &blocks, row_major)),
        (true, false) if args.exact_stop && args.order == BlockOrder::MaxParallel => Err(Error::Usage(
            "--exact-stop is for the orders wave and barrier, not for --order max-parallel: leave out \
                 --exact-stop, or leave out --order max-parallel"
                .to_owned(),
        )),
        (true, false) => Ok(Executor::Blocked),
        (_, true) if row_major => Ok(Executor::Streamed),
        (true, true) => Ok(Executor::Blocked),
        (false, true) => {
            // Then leaving out the options would not do.
            in_blocks()?;
            Err(Error::Wave(not_streamed(args, &streamed, arrays, result)))
        }
    }
}

fn is_row_major(layout: Layout) -> bool {
    layout == Layout::RowMajor
}

/// Options for streamed sweeps beside options for blocks. Only row-major data can do without the
/// latter.
fn contradiction(args: &RunArgs, mut streamed: Names, blocks: &[&str], row_major: bool) -> Error {
    if args.exact_stop && args.order == BlockOrder::MaxParallel {
        streamed.push("--exact-stop");
    }
    let (names, others) = (list(&streamed), list(blocks));
    let or = if row_major { format!(", or leave out {others}") } else { String::new() };
    Error::Usage(format!(
        "{names} {} for streamed sweeps, but {others} {} for sweeps in blocks: leave out {names}{or}",
        are(&streamed),
        are(blocks)
    ))
}

/// Options for streamed sweeps, and data that are not row-major.
fn not_streamed<T: Real>(
    args: &RunArgs,
    asked: &[&str],
    arrays: &Arrays<T>,
    result: Layout,
) -> WaveError {
    let others: Vec<_> = arrays.all().filter(|array| !is_row_major(array.layout())).collect();
    let (name, layout) = match others.first() {
        Some(array) => (array.name().to_owned(), array.layout()),
        None => ("the output".to_owned(), result),
    };
    let folders: Vec<_> = others.iter().map(|array| Path::new(array.name()).parent()).collect();
    let convert = match folders.first() {
        // A field that is given as a file may be one that `convert` does not know.
        Some(Some(folder))
            if args.field.is_none() && folders.iter().all(|other| *other == Some(folder)) =>
        {
            let npy = match &args.output {
                Some(output) if !output.as_os_str().as_encoded_bytes().ends_with(b".npy") => {
                    " (and give --output a name that ends in .npy)"
                }
                _ => "",
            };
            let folder = folder.display();
            format!(
                ", or sweep row-major data, which `syncline convert {folder} NEW --layout row-major` makes{npy}"
            )
        }
        _ => String::new(),
    };
    let (names, are) = (list(asked), are(asked));
    let why = format!(
        "it is {layout}, not row-major, and {names} {are} for streamed sweeps: leave out {names}{convert}"
    );
    WaveError::NotStreamed { name, why }
}
