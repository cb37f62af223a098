//! Peers in C and C++: compiled when they are needed, by what compilers there are, each run a
//! process.
//!
//! A process ends before the next one starts, so that no idle threads of one library spin beside
//! another. Its threads are pinned: those of OpenMP by the environment, which a process cannot
//! change for itself, those of oneTBB by itself. The same threads run the rounds that it does not
//! time and then those that it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::crew::Measured;
use super::program::Program;
use super::ways::Site;
use super::work::Body;
use crate::error::{Result, failed};
use crate::kernel::{CALIBRATION, kernel};
use crate::peers::{Workshop, output};
use crate::places::Places;

/// How one of them is made.
#[derive(Debug)]
pub(crate) struct Source {
    /// What it is called.
    pub(crate) way: &'static str,
    /// Which of the program's forms.
    form: &'static str,
    compiler: &'static str,
    file: &'static str,
    text: &'static str,
    flags: &'static [&'static str],
}

const HEADER: (&str, &str) = ("overlay.h", include_str!("../../../peers/overlay.h"));
const OPENMP: &str = include_str!("../../../peers/overlay_openmp.c");
const TBB: &str = include_str!("../../../peers/overlay_tbb.cpp");

const fn openmp(way: &'static str, form: &'static str, compiler: &'static str) -> Source {
    Source { way, form, compiler, file: "overlay_openmp.c", text: OPENMP, flags: &["-fopenmp"] }
}

/// All of them.
pub(crate) const SOURCES: [Source; 5] = [
    openmp("OpenMP task depend, gcc", "tasks", "gcc"),
    openmp("OpenMP task depend, clang", "tasks", "clang"),
    openmp("OpenMP for, gcc", "for", "gcc"),
    openmp("OpenMP for, clang", "for", "clang"),
    Source {
        way: "oneTBB flow graph",
        form: "flow",
        compiler: "g++",
        file: "overlay_tbb.cpp",
        text: TBB,
        flags: &["-std=c++17", "-ltbb"],
    },
];

/// One that is compiled.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) source: &'static Source,
    program: PathBuf,
}

/// Compiles what can be compiled into `folder`; for the others, why not.
pub(crate) fn compile(folder: &Path) -> Result<Vec<(&'static Source, Result<Peer, String>)>> {
    let mut workshop = Workshop::new(folder, &[HEADER])?;
    let make = |source: &'static Source| {
        let made = workshop.program(
            Path::new(source.compiler),
            (source.file, source.text),
            source.flags,
        )?;
        Ok((source, made.map(|program| Peer { source, program })))
    };
    SOURCES.iter().map(make).collect()
}

impl Peer {
    /// Nanoseconds of an iteration of the loop that bodies spin in.
    pub(crate) fn calibrate(&self) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let measured = self.start(
                Path::new("-"),
                "kernel",
                &Places::none(),
                1,
                [0, CALIBRATION],
                Body::Empty,
            )?;
            if measured.checksum != kernel(1, CALIBRATION) {
                return Err(failed(
                    &format!("calibrate {}", self.source.way),
                    "its loop is another one",
                ));
            }
            best = best.min(measured.seconds * 1e9 / CALIBRATION as f64);
        }
        Ok(best)
    }

    /// Runs a program, which stands in a file in the folder of the site.
    pub(crate) fn run(
        &self,
        site: &Site,
        program: &Program,
        body: Body,
        workers: usize,
        rounds: [u64; 2],
    ) -> Result<Measured> {
        let file = site.folder.join(format!("{}.txt", program.name));
        if !file.exists() {
            fs::write(&file, program.text())
                .map_err(|error| failed("write a program for peers", error))?;
        }
        let run = self.start(&file, self.source.form, &site.places, workers, rounds, body)?;
        Ok(Measured { steps: rounds[1] * program.tasks.len() as u64, ..run })
    }

    fn start(
        &self,
        file: &Path,
        form: &str,
        places: &Places,
        workers: usize,
        rounds: [u64; 2],
        body: Body,
    ) -> Result<Measured> {
        let what = format!("run {}", self.source.way);
        let mut command = Command::new(&self.program);
        let numbers = [workers as u64, rounds[0], rounds[1]].map(|n| n.to_string());
        command
            .arg(file)
            .arg(form)
            .args(numbers)
            .args([body.name(), &body.iterations().to_string()]);
        // Workers spin while they wait, as ours do.
        command
            .env("OMP_WAIT_POLICY", "active")
            .env_remove("OMP_PROC_BIND")
            .env_remove("OMP_PLACES");
        if let Some(openmp) = places.openmp() {
            command.env("OMP_PROC_BIND", "true").env("OMP_PLACES", openmp);
        }
        parse(&output(&mut command).map_err(|why| failed(&what, why))?)
            .ok_or_else(|| failed(&what, "it printed no result"))
    }
}

/// `SECONDS CHECKSUM PINNED`, of how many steps it does not say.
fn parse(output: &str) -> Option<Measured> {
    let mut words = output.split_whitespace();
    let mut next = || words.next();
    Some(Measured {
        seconds: next()?.parse().ok()?,
        steps: 0,
        checksum: u64::from_str_radix(next()?, 16).ok()?,
        pinned: next()? == "1",
    })
}
