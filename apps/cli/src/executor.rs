//! Streamed or in blocks: what the options, the order and the layouts ask for.
//!
//! | asked for by                                              | executor |
//! |-----------------------------------------------------------|----------|
//! | --executor                                                | that one |
//! | --depth, --exact-stop                                     | streamed |
//! | --block, --runner, another order than wave                | blocked  |
//! | an array that is not row-major, or an output that is not  | blocked  |
//! | nothing of these, and memory for a streamed pass          | streamed |
//! | nothing of these, and too little                          | blocked  |
//!
//! Whatever contradicts is an error. --resume goes on from a result with either; an interrupted
//! streamed run only goes on streamed.

use syncline_store::Layout;
use syncline_wave::{Error as WaveError, Executor, Real};

use crate::args::{BlockOrder, ExecutorKind, RunArgs};
use crate::error::{Error, Result};
use crate::kernels::Arrays;

/// Checks the options alone.
///
/// # Errors
/// [`Error::Usage`].
pub(crate) fn check(args: &RunArgs) -> Result<()> {
    let refuse = |text: String| Err(Error::Usage(text));
    if args.resume && args.force {
        return refuse("--resume goes on from what --force discards: give one of them".to_owned());
    }
    if args.exact_stop && args.until.is_none() {
        return refuse("--exact-stop is for runs with --until".to_owned());
    }
    match (for_streamed(args), for_blocks(args)) {
        (Some(one), Some(other)) => {
            refuse(format!("{one} is for streamed sweeps, but {other} for sweeps in blocks"))
        }
        _ => Ok(()),
    }
}

/// An option that only streamed sweeps have.
fn for_streamed(args: &RunArgs) -> Option<&'static str> {
    let asked = [
        (args.executor == ExecutorKind::Streamed, "--executor streamed"),
        (args.depth.is_some(), "--depth"),
        (args.exact_stop, "--exact-stop"),
    ];
    asked.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
}

/// An option that only sweeps in blocks have.
pub(crate) fn for_blocks(args: &RunArgs) -> Option<&'static str> {
    let asked = [
        (args.executor == ExecutorKind::Blocked, "--executor blocked"),
        (args.block.is_some(), "--block"),
        (args.runner.is_some(), "--runner"),
        (args.order == BlockOrder::MaxParallel, "--order max-parallel"),
        (args.order == BlockOrder::Barrier, "--order barrier"),
    ];
    asked.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
}

/// Whether a run that was to be streamed may go in blocks, as nothing was asked for that they have not.
pub(crate) fn may_change(args: &RunArgs) -> bool {
    for_streamed(args).is_none()
}

/// The executor for these options, which were [`check`]ed, and these layouts.
///
/// # Errors
/// When a streamed sweep was asked for and a layout does not allow it.
pub(crate) fn choose<T: Real>(args: &RunArgs, arrays: &Arrays<T>, result: Layout) -> Result<Executor> {
    if for_blocks(args).is_some() {
        return Ok(Executor::Blocked);
    }
    let other = arrays.all().find(|matrix| matrix.layout() != Layout::RowMajor);
    let found = other.map(|matrix| (matrix.name().to_owned(), matrix.layout()));
    let found = found.or((result != Layout::RowMajor).then(|| ("the output".to_owned(), result)));
    match (found, for_streamed(args)) {
        (None, _) => Ok(Executor::Streamed),
        (Some(_), None) => Ok(Executor::Blocked),
        (Some((name, layout)), Some(option)) => {
            let why = format!("it is {layout}, not row-major, and {option} is for streamed sweeps");
            Err(Error::Wave(WaveError::NotStreamed { name, why }))
        }
    }
}
