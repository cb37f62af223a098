//! Programs of others.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use syncline_store::Shape;

use crate::error::{Error, Result};

/// The sweep by numpy and numba.
const NUMBA: &str = include_str!("../../peers/numba_memmap.py");

/// What all peers in C and C++ include: its name, and the text.
const HEADER: (&str, &str) = ("peer.h", include_str!("../../peers/peer.h"));

pub(super) fn failed(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Io { what: what.to_owned(), source: std::io::Error::other(why.to_string()) }
}

pub(super) fn run(what: &str, command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| failed(what, error))?;
    if !status.success() {
        let text = String::from_utf8_lossy(&stderr);
        return Err(failed(what, text.lines().last().unwrap_or("it failed without a word")));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// A folder in which peers in C and C++ are compiled, each once.
#[derive(Debug)]
pub(super) struct Workshop<'f> {
    folder: &'f Path,
    made: Vec<(PathBuf, Result<(), String>)>,
}

/// The compiled program, or why there is none.
type Made = Result<PathBuf, String>;

impl<'f> Workshop<'f> {
    /// With these headers, by name and text, beside what all peers include.
    pub(super) fn new(folder: &'f Path, headers: &[(&str, &str)]) -> Result<Self> {
        let workshop = Self { folder, made: Vec::new() };
        [HEADER].iter().chain(headers).try_for_each(|&file| workshop.write(file))?;
        Ok(workshop)
    }

    fn write(&self, (name, text): (&str, &str)) -> Result<()> {
        std::fs::write(self.folder.join(name), text)
            .map_err(|error| failed("write the peers' sources", error))
    }

    /// The program of a source, by name and text. The same file by the same compiler is the same
    /// program.
    pub(super) fn program(&mut self, compiler: &str, source: (&str, &str), flags: &[&str]) -> Result<Made> {
        let program = self.folder.join(format!("{}.{compiler}", source.0));
        let known = self.made.iter().find(|(path, _)| *path == program).map(|(_, done)| done.clone());
        let done = match known {
            Some(done) => done,
            None => {
                self.write(source)?;
                let done = self.compile(compiler, source.0, flags, &program);
                self.made.push((program.clone(), done.clone()));
                done
            }
        };
        Ok(done.map(|()| program))
    }

    fn compile(&self, compiler: &str, file: &str, flags: &[&str], program: &Path) -> Result<(), String> {
        let mut command = Command::new(compiler);
        command.current_dir(self.folder).args(["-O3", "-o"]).arg(program).arg(file).args(flags);
        let output = command.output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("no {compiler}"),
            _ => format!("{compiler}: {error}"),
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("error")).or(said.lines().next());
        Err(format!("{compiler}: {}", line.unwrap_or("it failed without a word").trim()))
    }
}

/// A Python that has numpy and numba, or what would install them. Nothing is installed here.
pub(crate) fn environment(dir: &Path) -> Result<PathBuf, String> {
    let has = |python: &Path| {
        let check = Command::new(python).args(["-c", "import numba, numpy"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    let folder = dir.join(".syncline-bench-venv");
    let own = folder.join("bin/python");
    let found = [own, PathBuf::from("python3")].into_iter().find(|python| has(python));
    found.ok_or_else(|| {
        let folder = folder.display();
        format!("no numpy and numba: python3 -m venv {folder} && {folder}/bin/pip install numpy numba")
    })
}

/// Seconds per iteration of numpy.memmap and numba.
pub(crate) fn numba(python: &Path, folder: &Path, iterations: u64) -> Result<f64> {
    let output =
        run("run numba", Command::new(python).args(["-c", NUMBA]).arg(folder).arg(iterations.to_string()))?;
    let number = output.split_whitespace().next().and_then(|text| text.parse().ok());
    number.ok_or_else(|| failed("run numba", "it printed no time"))
}

/// A program that runs the sweep on data of its own.
pub(crate) struct Yardstick {
    program: PathBuf,
    arguments: [String; 5],
}

impl Yardstick {
    /// The program, compiled into `folder` if it is source, which has made its data there.
    ///
    /// It is run up to 20 iterations in a pass.
    pub(crate) fn new(file: &Path, folder: &Path, shape: Shape, iterations: u64) -> Result<Self> {
        // A name without a slash would be looked for elsewhere.
        let named = |error| failed(&format!("run the yardstick {}", file.display()), error);
        let mut program = file.canonicalize().map_err(named)?;
        if file.extension().is_some_and(|extension| extension == "cpp") {
            program = folder.join("yardstick");
            let flags = ["-O3", "-march=native", "-ffp-contract=off", "-pthread", "-o"];
            run("compile the yardstick", Command::new("g++").args(flags).arg(&program).arg(file))?;
        }
        let data = folder.join("yardstick-data");
        std::fs::create_dir_all(&data)
            .map_err(|error| failed("make a directory for the yardstick", error))?;
        let numbers =
            [((shape.rows - 2) / 8).max(1) as u64, shape.cols as u64, iterations, iterations.min(20)];
        let [strips, cols, iterations, depth] = numbers.map(|n| n.to_string());
        let arguments = [data.to_string_lossy().into_owned(), strips, cols, iterations, depth];
        let yardstick = Self { program, arguments };
        yardstick.output()?;
        Ok(yardstick)
    }

    fn output(&self) -> Result<String> {
        run("run the yardstick", Command::new(&self.program).args(&self.arguments))
    }

    /// Seconds of a run.
    pub(crate) fn seconds(&self) -> Result<f64> {
        let output = self.output()?;
        let after = output.split("wall ").nth(1).and_then(|rest| rest.split('s').next());
        let seconds = after.and_then(|text| text.trim().parse().ok());
        seconds.ok_or_else(|| failed("run the yardstick", "it printed no time"))
    }
}
