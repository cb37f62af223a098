//! The choice between streamed and blocked sweeps, from the options, the order and the layouts.
//!
//! | condition                                                 | executor |
//! |-----------------------------------------------------------|----------|
//! | --executor is given                                       | as given |
//! | --depth                                                   | streamed |
//! | --block, --runner, another order than wave                | blocked  |
//! | an array or an output that is not row-major               | blocked  |
//! | none of these, and memory for a streamed pass             | streamed |
//! | none of these, and too little memory                      | blocked  |
//!
//! Options that contradict each other or the layouts are an error, which names every conflicting
//! option: the same command without them runs. --exact-stop requires no executor: in blocks it
//! selects the order barrier, which has the bits of the order wave and stops exactly. --resume
//! continues a result with either executor, but an interrupted streamed run only as a streamed run.

use std::path::Path;

use syncline_common::words::{are, list};
use syncline_store::Layout;
use syncline_wave::{Error as WaveError, lanes::Real};

use crate::args::{BlockOrder, ExecutorKind, RunArgs};
use crate::error::{Error, Result};
use crate::sweeps::Arrays;

/// The way in which a sweep goes over its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executor {
    /// By passes, each of many iterations.
    Streamed,
    /// Block by block.
    Blocked,
}

/// The names of options.
type Names = Vec<&'static str>;

/// Refuses combinations of options that are wrong for any data.
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

/// Returns the given options that only streamed sweeps have.
pub(crate) fn for_streamed(args: &RunArgs) -> Names {
    let asked = [
        (args.executor == ExecutorKind::Streamed, "--executor streamed"),
        (args.depth.is_some(), "--depth"),
    ];
    given(&asked)
}

/// Returns the given options that only sweeps in blocks have.
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

/// Returns the order of a sweep by `executor`. An exact stop in blocks uses the order barrier.
pub(crate) fn order(args: &RunArgs, executor: Executor) -> BlockOrder {
    match (args.order, executor) {
        (BlockOrder::Wave, Executor::Blocked) if args.exact_stop => BlockOrder::Barrier,
        (order, _) => order,
    }
}

/// Returns the executor for these options, which have passed [`check`], and these layouts.
/// `in_blocks` returns the error of a blocked sweep of these arrays that is independent of the
/// options.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other or the layouts.
pub(crate) fn choose<T: Real>(
    args: &RunArgs,
    arrays: &Arrays<T>,
    result: Layout,
    in_blocks: impl FnOnce() -> Result<()>,
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
            // Such an error remains without the options, so it is reported first.
            in_blocks()?;
            Err(Error::Wave(not_streamed(args, &streamed, arrays, result)))
        }
    }
}

fn is_row_major(layout: Layout) -> bool {
    layout == Layout::RowMajor
}

/// Returns the error for options of streamed sweeps beside options of blocked sweeps. Only with
/// row-major data may the latter be left out.
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

/// Returns the error for options of streamed sweeps with data that are not row-major.
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
        // A field given as a file may be unknown to `convert`.
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
