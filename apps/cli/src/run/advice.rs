//! What a run that cannot go on tells the user: the state that is kept, and what to do about it.

use std::io::ErrorKind;
use std::path::Path;

use syncline_store::{
    Error as StoreError,
    generation::{Generations, Leftover},
};
use syncline_wave::{Error as WaveError, target::Taken};

use crate::args::RunArgs;
use crate::error::{Error, list};
use crate::kernels::Kernel;
use crate::output::Output;

/// The run that cannot go on.
pub(super) struct Advice<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) kernel: &'a Kernel,
    /// The output, or the first one, beside which leftovers are.
    pub(super) output: &'a Output,
    /// The number of members of the team that runs the job; 1 if it runs by itself.
    pub(super) members: usize,
    /// Whether --field can name a result, so that a run starts from it.
    pub(super) starts_from_results: bool,
}

impl Advice<'_> {
    /// Returns what --resume would do, or where it can do so, if there are several members.
    pub(super) fn resume(&self, here: &'static str) -> &'static str {
        if self.members == 1 { here } else { "--resume in one process, or " }
    }

    /// Returns the error for an output whose name is taken.
    pub(super) fn taken(&self, output: &Path, by: Taken) -> Error {
        let differs = self.kernel.in_words(by.differs.clone());
        let path = output.display();
        let ways = match by.left {
            Some(0) if self.members > 1 => {
                "--force computes it again, another --output leaves it".to_owned()
            }
            Some(0) => "--resume leaves it as it is, --force computes it again".to_owned(),
            Some(_) if self.members > 1 => {
                "--resume goes on from it in one process, --force replaces it".to_owned()
            }
            Some(_) => "--resume goes on from it, --force replaces it".to_owned(),
            None if by.is_like_the_field && self.starts_from_results => {
                let npy = if self.output.npy { ".npy" } else { "" };
                format!(
                    "--force replaces it, another --output leaves it, --field {path} --output OTHER{npy} starts \
                     from it"
                )
            }
            None => "--force replaces it, another --output leaves it".to_owned(),
        };
        Error::Taken { output: output.to_owned(), by: Taken { differs, ..by }.to_string(), ways }
    }

    /// Describes the state that is kept, if there is any.
    pub(super) fn kept(&self) -> Option<String> {
        let resume = if self.members == 1 { "--resume" } else { "--resume in one process" };
        match Generations::leftover(&self.output.path) {
            Ok(Leftover::Resumable(progress)) => {
                let (done, all) = (progress.iterations, self.args.iterations);
                Some(format!("{done} of {all} iterations are kept, {resume} goes on from there"))
            }
            Ok(Leftover::Complete(_)) => {
                Some(format!("the output is complete, {resume} removes what else is left"))
            }
            Ok(Leftover::Unnamed(_, paths)) => {
                let paths = list(&paths);
                Some(format!(
                    "the result is complete but for the names of {paths}: {resume} gives them"
                ))
            }
            _ => None,
        }
    }

    /// Returns the error of an interruption, with the state that is kept.
    pub(super) fn interrupted(&self, signal: u8) -> Error {
        if let Some(left) = self.kept() {
            return Error::Interrupted { signal, left };
        }
        match Generations::leftover(&self.output.path) {
            // The sweep did not end in time, so its folder stays.
            Ok(Leftover::Busy(_)) => {
                let left =
                    "--resume goes on from its last complete pass, if there is one".to_owned();
                Error::Interrupted { signal, left }
            }
            _ => Error::interrupted(signal),
        }
    }

    /// Adds to an error which state is kept, or what the user can do.
    pub(super) fn explain(&self, error: Error) -> Error {
        match (error, self.kept()) {
            (Error::Wave(WaveError::Store(why)), Some(left)) if is_passing(&why) => {
                Error::Kept { why: Box::new(why), left }
            }
            (error, _) => self.advise(error),
        }
    }

    /// Adds to an error what the user can do. The error is not a failure of a later pass.
    pub(super) fn advise(&self, error: Error) -> Error {
        let output = self.output.path.clone();
        match error {
            Error::Wave(WaveError::Store(StoreError::OtherRun { path, differences })) => {
                let differences = self.kernel.in_words(differences);
                Error::Useless { output, why: StoreError::OtherRun { path, differences }.into() }
            }
            Error::Wave(WaveError::Store(
                why @ (StoreError::Manifest { .. } | StoreError::Generation { .. }),
            )) => Error::Useless { output, why: why.into() },
            // The space for the comparison was reserved first, so the result has too little because
            // of it.
            Error::Wave(WaveError::Store(why @ StoreError::NoSpace { .. }))
                if self.args.verify.is_some() =>
            {
                Error::VerifyRoom(why)
            }
            Error::Wave(WaveError::Taken { by, path }) => self.taken(&path, *by),
            Error::Wave(WaveError::Fewer { done, asked, .. }) => {
                let why = match asked < self.args.iterations {
                    true => "after which --exact-stop ends",
                    false => "asked for",
                };
                Error::Fewer { output, done, asked, why }
            }
            Error::Wave(WaveError::Leftovers { found, .. }) => {
                let resume = self.resume("--resume to go on from there, or ");
                Error::LeftOver { output, what: found, resume }
            }
            other => other,
        }
    }
}

/// Returns whether a later run may go on after an error. It cannot without an input file that has
/// disappeared.
fn is_passing(why: &StoreError) -> bool {
    match why {
        StoreError::NoSpace { .. } | StoreError::Appeared { .. } => true,
        StoreError::File { source, .. } => source.kind() != ErrorKind::NotFound,
        StoreError::Kept { source, .. } => is_passing(source),
        _ => false,
    }
}
