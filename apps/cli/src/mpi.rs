//! `syncline mpi`: shims for the MPIs of this machine.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use syncline_common::terminal;
use syncline_common::words::plural;
use syncline_mpi::{
    MpiError,
    build::{build, compilers},
    shim::{Shim, folders, home, installed},
};

use crate::args::{MpiBuildArgs, MpiListArgs};
use crate::error::{Error, Result};

/// `syncline mpi build`. All compilers are tried; the error is that of the last one that failed.
pub(crate) fn build_all(args: &MpiBuildArgs) -> Result<String> {
    let found = compilers();
    let given = args.mpicc.iter().map(|mpicc| mpicc.as_os_str());
    let mpiccs: Vec<&OsStr> = match args.mpicc.is_empty() {
        true => found.iter().map(|path| path.as_os_str()).collect(),
        false => given.collect(),
    };
    if mpiccs.is_empty() {
        return Err(Error::Mpi {
            why: "no compiler of MPI is on the path (mpicc, mpicc.openmpi, mpicc.mpich): load the MPI's module, or say \
                  which by --mpicc CMD"
                .to_owned(),
        });
    }
    let into = args.into.clone().or_else(home).ok_or_else(|| Error::Mpi {
        why: "neither XDG_DATA_HOME nor HOME says where shims may stand: give --into DIR"
            .to_owned(),
    })?;
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for mpicc in &mpiccs {
        match one(mpicc, &into) {
            Ok(line) => lines.push(line),
            Err(error) => failed.push(error),
        }
    }
    let text = lines.join("\n");
    let (n, Some(last)) = (failed.len(), failed.pop()) else { return Ok(text) };
    if mpiccs.len() == 1 {
        return Err(last);
    }
    // The shims that were built are printed nevertheless.
    if !text.is_empty() {
        let _ = writeln!(io::stdout(), "{text}");
    }
    Err(Error::Mpi {
        why: format!("{n} of {} compilers built no shim, the last: {last}", mpiccs.len()),
    })
}

fn one(mpicc: &OsStr, into: &Path) -> Result<String> {
    let built = build(mpicc, into).map_err(|error| match error {
        MpiError::Compiler { mpicc, output } => {
            // The output of a compiler needs its own lines.
            terminal::say(format_args!("{output}"));
            Error::Mpi {
                why: format!("{mpicc} cannot compile the shim; what it says stands above"),
            }
        }
        other => Error::from(other),
    })?;
    let without = match built.without.len() {
        0 => String::new(),
        _ => format!(", without some calls ({})", built.without.join(" ")),
    };
    let Shim { path, family, version, mpi, .. } = &built.shim;
    Ok(format!(
        "{}: {family} {version}, MPI {mpi}{without}: {}",
        Path::new(mpicc).display(),
        path.display()
    ))
}

/// A file in a folder of shims.
#[derive(Debug, Serialize)]
struct Listed {
    path: String,
    family: Option<&'static str>,
    version: Option<String>,
    mpi: Option<String>,
    failures: Option<bool>,
    error: Option<String>,
}

impl Listed {
    fn of(path: &Path, shim: &Result<Shim, MpiError>) -> Listed {
        let shim_or = shim.as_ref().ok();
        Listed {
            path: path.display().to_string(),
            family: shim_or.map(|shim| shim.family.name()),
            version: shim_or.map(|shim| shim.version.to_string()),
            mpi: shim_or.map(|shim| shim.mpi.clone()),
            failures: shim_or.map(|shim| shim.ulfm),
            error: shim.as_ref().err().map(ToString::to_string),
        }
    }
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Json {
    folders: Vec<String>,
    named: Option<Listed>,
    shims: Vec<Listed>,
}

/// `syncline mpi list`.
pub(crate) fn list(args: &MpiListArgs) -> Result<String> {
    let (folders, shims) = (folders(), installed());
    let named = named();
    if args.json {
        let object = Json {
            folders: folders.iter().map(|folder| folder.display().to_string()).collect(),
            named: named.as_ref().map(|(path, shim)| Listed::of(path, shim)),
            shims: shims.iter().map(|(path, shim)| Listed::of(path, shim)).collect(),
        };
        return serde_json::to_string(&object)
            .map_err(|error| Error::Io { what: "write JSON".to_owned(), source: error.into() });
    }
    let mut lines = Vec::new();
    if let Some((path, shim)) = &named {
        lines.push(format!("SYNCLINE_MPI: {}", in_words(path, shim)));
    }
    lines.extend(shims.iter().map(|(path, shim)| in_words(path, shim)));
    if shims.is_empty() {
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let s = plural(folders.len() as u64);
        lines.push(format!(
            "no shims in the folder{s} {}: the first program under an MPI, or `syncline mpi build`, makes them",
            folders.join(", ")
        ));
    }
    Ok(lines.join("\n"))
}

/// Returns the shim that the environment names.
pub(crate) fn named() -> Option<(PathBuf, Result<Shim, MpiError>)> {
    let path = PathBuf::from(std::env::var_os("SYNCLINE_MPI").filter(|path| !path.is_empty())?);
    let shim = Shim::read(&path);
    Some((path, shim))
}

/// Describes a shim, or the reason why a file is not one.
pub(crate) fn in_words(path: &Path, shim: &Result<Shim, MpiError>) -> String {
    match shim {
        Ok(shim) => {
            format!("{} {}, MPI {}: {}", shim.family, shim.version, shim.mpi, path.display())
        }
        Err(error) => error.to_string(),
    }
}
