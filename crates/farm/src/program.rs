//! The program that a process of a farm runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::FarmError;

/// A program with its arguments, which the process of a task runs.
///
/// The program links Syncline and calls [`Farm::join`](crate::Farm::join) (or
/// [`serve`](crate::serve)); the current program, started again, is such a program. Its standard
/// input is empty; it inherits the other streams, the working directory and the environment of the
/// manager, without what an MPI launcher or a launcher of a team has set for the manager
/// ([`leave_team`](syncline_fabric::leave_team)).
///
/// ```
/// use syncline_farm::Program;
///
/// let worker = Program::this()?.arg("--worker");
/// let solver = Program::new("/usr/local/bin/lazy-solve").args(["-v", "2"]).variable("LANG", "C");
/// # let _ = (worker, solver);
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) variables: Vec<(OsString, OsString)>,
}

impl Program {
    /// Creates a program from a path, which is searched for as a shell does.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Program {
        Program { path: path.as_ref().to_owned(), args: Vec::new(), variables: Vec::new() }
    }

    /// Returns the program of this process.
    ///
    /// # Errors
    /// [`FarmError::System`] if the system does not report the path of the executable.
    pub fn this() -> Result<Program, FarmError> {
        let what = "find the program of this process";
        let path = std::env::current_exe().map_err(|source| FarmError::System { what, source })?;
        Ok(Program::new(path))
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, |program, arg| program.arg(arg))
    }

    /// Sets an environment variable of the program.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }
}

/// A program in serialized form, as sent to the manager.
#[derive(Deserialize, Serialize)]
pub(crate) struct Request {
    path: Vec<u8>,
    args: Vec<Vec<u8>>,
    variables: Vec<(Vec<u8>, Vec<u8>)>,
}

impl From<&Program> for Request {
    fn from(program: &Program) -> Self {
        let bytes = |text: &OsString| text.as_bytes().to_vec();
        Request {
            path: program.path.as_os_str().as_bytes().to_vec(),
            args: program.args.iter().map(bytes).collect(),
            variables: program
                .variables
                .iter()
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
        }
    }
}

impl From<Request> for Program {
    fn from(request: Request) -> Self {
        let text = OsString::from_vec;
        Program {
            path: text(request.path).into(),
            args: request.args.into_iter().map(text).collect(),
            variables: request
                .variables
                .into_iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        }
    }
}
