//! What to start.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::FarmError;

/// A program with its arguments: what a task's process runs.
///
/// It links Syncline and calls [`Farm::join`](crate::Farm::join) (or [`serve`](crate::serve)); the
/// current program, started again, is one such. Its standard input is empty; its other streams, its
/// folder and its environment are the manager's.
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
    /// A program, which is looked for as a shell would.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Program {
        Program { path: path.as_ref().to_owned(), args: Vec::new(), variables: Vec::new() }
    }

    /// The program of this process.
    ///
    /// # Errors
    /// [`FarmError::System`] if the system does not say which it is.
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

    /// Sets a variable of its environment.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }
}

/// A program on its way to the manager.
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
