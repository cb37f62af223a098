//! Peers in C and C++: compiled on demand with the available compilers; each run is a process.
//!
//! A process ends before the next one starts, so that no idle threads of one library spin beside
//! another. Its threads are pinned: OpenMP's by the environment, which a process cannot change for
//! itself, oneTBB's by the process. The same threads run the untimed rounds and then the timed
//! ones.

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

/// How a peer is compiled.
#[derive(Debug)]
pub(crate) struct Source {
    /// The name of the peer.
    pub(crate) way: &'static str,
    /// The form of the program.
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

/// All peers.
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

/// A compiled peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) source: &'static Source,
    program: PathBuf,
}

/// Compiles the peers into `folder`; returns the error for each one that does not compile.
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
    /// Returns the nanoseconds of an iteration of the loop of bodies.
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
                    "its loop computes another value than ours",
                ));
            }
            best = best.min(measured.seconds * 1e9 / CALIBRATION as f64);
        }
        Ok(best)
    }

    /// Runs a program, which is in a file in the folder of the site.
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
        // Workers spin while they wait, like ours.
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

/// Parses `SECONDS CHECKSUM PINNED`; the number of steps is not in the line.
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
