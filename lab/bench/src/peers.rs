//! Programs of other projects: found, compiled and run, or asked line by line ([`Server`]).
//!
//! Nothing is installed. A missing program is reported with the line that installs it on Debian and
//! its derivatives, if it is a package there.

mod server;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use syncline_store::Shape;

pub(crate) use self::server::Server;
use crate::error::{Failure, Result, failed};

/// The source of the sweep by numpy and numba.
const NUMBA: &str = include_str!("../../peers/numba_memmap.py");

/// The header of all peers in C and C++: its name, and its text.
const HEADER: (&str, &str) = ("peer.h", include_str!("../../peers/peer.h"));

/// Returns the line that installs a program, and the other packages that its peers need.
fn install(program: &str) -> Option<&'static str> {
    Some(match program {
        "gcc" => "apt-get install gcc",
        "g++" => "apt-get install g++",
        "clang" => "apt-get install clang libomp-dev",
        "python3" => "apt-get install python3",
        "mpicc" | "mpirun" => "apt-get install openmpi-bin libopenmpi-dev",
        "cargo" | "rustc" => "curl https://sh.rustup.rs | sh",
        _ => return None,
    })
}

/// Formats an error and its remedy.
pub(crate) fn missing(what: impl Display, install: impl Display) -> String {
    format!("{what} ({install})")
}

/// Returns the error of a command that could not be started.
fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    let program = Path::new(command.get_program());
    let (name, file) = (program.display(), program.file_name().and_then(|name| name.to_str()));
    match (error.kind(), file.and_then(install)) {
        (std::io::ErrorKind::NotFound, Some(line)) => missing(format!("no {name}"), line),
        (std::io::ErrorKind::NotFound, None) => format!("no {name}"),
        _ => format!("{name}: {error}"),
    }
    .into()
}

/// Returns the standard output of a command.
///
/// # Errors
/// If the command cannot be started, or fails: the most informative line of its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| not_started(command, &error))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    let line = said.lines().find(|line| line.contains("error")).or(said.lines().last());
    let name = command.get_program().display();
    Err(format!("{name}: {}", line.unwrap_or("it failed without a word").trim()).into())
}

/// A folder in which peers in C and C++ are compiled, each once.
#[derive(Debug)]
pub(crate) struct Workshop<'f> {
    folder: &'f Path,
    made: Vec<(PathBuf, Result<(), String>)>,
}

impl<'f> Workshop<'f> {
    /// Creates a workshop with these headers, by name and text, in addition to the header of all
    /// peers.
    pub(crate) fn new(folder: &'f Path, headers: &[(&str, &str)]) -> Result<Self> {
        let workshop = Self { folder, made: Vec::new() };
        [HEADER].iter().chain(headers).try_for_each(|&file| workshop.write(file))?;
        Ok(workshop)
    }

    fn write(&self, (name, text): (&str, &str)) -> Result<()> {
        std::fs::write(self.folder.join(name), text)
            .map_err(|error| failed("write the peers' sources", error))
    }

    /// Returns the program of a source, by name and text, or the reason why there is none. A file
    /// is compiled once for each compiler.
    pub(crate) fn program(
        &mut self,
        compiler: &Path,
        source: (&str, &str),
        flags: &[&str],
    ) -> Result<Result<PathBuf, String>> {
        let name = compiler.file_name().unwrap_or_default().display();
        let program = self.folder.join(format!("{}.{name}", source.0));
        let known =
            self.made.iter().find(|(path, _)| *path == program).map(|(_, done)| done.clone());
        let done = match known {
            Some(done) => done,
            None => {
                self.write(source)?;
                let mut command = Command::new(compiler);
                command
                    .current_dir(self.folder)
                    .args(["-O3", "-o"])
                    .arg(&program)
                    .arg(source.0)
                    .args(flags);
                let line = match flags.contains(&"-ltbb") {
                    true => Some("apt-get install g++ libtbb-dev"),
                    false => install(&name.to_string()),
                };
                let done =
                    output(&mut command).map(drop).map_err(|why| match (why.to_string(), line) {
                        (why, Some(line)) if why.starts_with("no ") => {
                            missing(format!("no {name}"), line)
                        }
                        (why, Some(line)) => missing(why, line),
                        (why, None) => why,
                    });
                self.made.push((program.clone(), done.clone()));
                done
            }
        };
        Ok(done.map(|()| program))
    }
}

/// Returns a Python that has numpy and numba; if there is none, the line that installs it.
pub(crate) fn numba(dir: &Path) -> Result<PathBuf> {
    let has =
        |python: &PathBuf| output(Command::new(python).args(["-c", "import numba, numpy"])).is_ok();
    let folder = dir.join(".syncline-bench-venv");
    let found = [folder.join("bin/python"), PathBuf::from("python3")].into_iter().find(has);
    found.ok_or_else(|| {
        let folder = folder.display();
        let python = output(Command::new("python3").args(["-c", "import ensurepip"]));
        let first = if python.is_ok() { "" } else { "apt-get install python3-venv && " };
        let line =
            format!("{first}python3 -m venv {folder} && {folder}/bin/pip install numpy numba");
        missing("no numpy and numba", line).into()
    })
}

/// Returns the seconds per iteration of numpy.memmap and numba.
pub(crate) fn numba_seconds(python: &Path, folder: &Path, iterations: u64) -> Result<f64> {
    let said =
        output(Command::new(python).args(["-c", NUMBA]).arg(folder).arg(iterations.to_string()))?;
    let number = said.split_whitespace().next().and_then(|text| text.parse().ok());
    number.ok_or_else(|| "numba printed no time".into())
}

/// A program that runs the sweep on its own data.
pub(crate) struct Yardstick {
    program: PathBuf,
    arguments: [String; 5],
}

impl Yardstick {
    /// Returns the program, compiled into `folder` if it is source, after it has created its data
    /// there.
    ///
    /// A pass has at most 20 iterations.
    pub(crate) fn new(file: &Path, folder: &Path, shape: Shape, iterations: u64) -> Result<Self> {
        // A name without a slash would be looked up on the path.
        let named = |error| failed(&format!("run the yardstick {}", file.display()), error);
        let mut program = file.canonicalize().map_err(named)?;
        if file.extension().is_some_and(|extension| extension == "cpp") {
            program = folder.join("yardstick");
            let flags = ["-O3", "-march=native", "-ffp-contract=off", "-pthread", "-o"];
            let compiled = output(Command::new("g++").args(flags).arg(&program).arg(file));
            compiled.map_err(|why| failed("compile the yardstick", why))?;
        }
        let data = folder.join("yardstick-data");
        std::fs::create_dir_all(&data)
            .map_err(|error| failed("make a directory for the yardstick", error))?;
        let numbers = [
            ((shape.rows - 2) / 8).max(1) as u64,
            shape.cols as u64,
            iterations,
            iterations.min(20),
        ];
        let [strips, cols, iterations, depth] = numbers.map(|n| n.to_string());
        let arguments = [data.to_string_lossy().into_owned(), strips, cols, iterations, depth];
        let yardstick = Self { program, arguments };
        yardstick.output()?;
        Ok(yardstick)
    }

    fn output(&self) -> Result<String> {
        output(Command::new(&self.program).args(&self.arguments))
            .map_err(|why| failed("run the yardstick", why))
    }

    /// Returns the seconds of a run.
    pub(crate) fn seconds(&self) -> Result<f64> {
        let output = self.output()?;
        let after = output.split("wall ").nth(1).and_then(|rest| rest.split('s').next());
        let seconds = after.and_then(|text| text.trim().parse().ok());
        seconds.ok_or_else(|| "the yardstick printed no time".into())
    }
}
