//! `schemes`: races older and other schemes of Livermore kernel 23 out of core.

mod data;
mod error;
mod plot;
mod race;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use syncline_store::Shape;

use crate::data::Folder;
use crate::error::{Error, Result};
use crate::race::{Race, Run};

/// Races the papers' schemes of out-of-core sweeps of Livermore kernel 23.
#[derive(Debug, Parser)]
#[command(name = "schemes")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Makes the data and their layouts, as far as they are not there.
    Prepare(Data),
    /// Runs all schemes in turn, caches dropped before each, and prints the tables of the papers' Fig. 7.
    Race {
        #[command(flatten)]
        data: Data,
        /// Iterations of the runs of several.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
        iterations: u64,
        /// The most memory of a scheme: bytes, or with K, M or G.
        #[arg(long, default_value = "2G", value_parser = bytes)]
        memory: u64,
        /// How often each is run.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// Processors of a ring [default: twice those of the machine].
        #[arg(long)]
        processors: Option<usize>,
        /// Prints each run as a line of JSON, and the tables on the other output.
        #[arg(long)]
        json: bool,
        /// One round of two iterations.
        #[arg(long)]
        quick: bool,
        /// Draws Fig. 7(a) and 7(b).
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
    },
    /// Prints the tables of runs that `race --json` has printed.
    Report {
        /// The runs, one a line.
        runs: PathBuf,
        /// Draws Fig. 7(a) and 7(b).
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
    },
}

/// Where the data are, and of what size.
#[derive(Debug, Args)]
struct Data {
    /// The folder of the data; they stay there.
    #[arg(long)]
    dir: PathBuf,
    /// Rows of each matrix.
    #[arg(long, default_value_t = 2048, value_parser = side)]
    rows: usize,
    /// Columns of each matrix.
    #[arg(long, default_value_t = 2048, value_parser = side)]
    cols: usize,
    /// Sides of the square blocks.
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512], value_parser = side)]
    blocks: Vec<usize>,
}

impl Data {
    fn folder(&self) -> Result<(Folder, Vec<usize>)> {
        let folder = Folder::new(&self.dir, Shape::new(self.rows, self.cols))?;
        let mut blocks = self.blocks.clone();
        blocks.sort_unstable();
        blocks.dedup();
        folder.make(&blocks)?;
        Ok((folder, blocks))
    }
}

fn side(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "a number of at least 1".to_owned())
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).filter(|n| *n > 0);
    bytes.ok_or_else(|| "bytes, or a number with K, M or G".to_owned())
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("schemes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command.what {
        What::Prepare(data) => data.folder().map(drop),
        What::Report { runs, plot } => {
            let runs = read(&runs)?;
            print(&report::text(&runs))?;
            draw(plot, &runs)
        }
        What::Race { data, iterations, memory, rounds, processors, json, quick, plot } => {
            let (folder, blocks) = data.folder()?;
            let machine = std::thread::available_parallelism().map_or(1, usize::from);
            let race = Race {
                folder,
                blocks,
                iterations: if quick { 2 } else { iterations },
                memory,
                rounds: if quick { 1 } else { rounds },
                processors: processors.unwrap_or(2 * machine).max(1),
            };
            let runs = race.run(|run| match json {
                true => {
                    print(&format!("{}\n", serde_json::to_string(run).map_err(Error::json("print a run"))?))
                }
                false => Ok(()),
            })?;
            match json {
                true => eprint!("{}", report::text(&runs)),
                false => print(&report::text(&runs))?,
            }
            draw(plot, &runs)
        }
    }
}

/// A closed pipe is an error, not a panic.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::io("print"))
}

fn draw(plot: Option<PathBuf>, runs: &[Run]) -> Result<()> {
    plot.map_or(Ok(()), |path| {
        std::fs::write(&path, plot::svg(runs)).map_err(Error::io(format!("write {}", path.display())))
    })
}

fn read(path: &std::path::Path) -> Result<Vec<Run>> {
    let text = std::fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(n, line)| {
            serde_json::from_str(line).map_err(Error::json(format!("{}:{}", path.display(), n + 1)))
        })
        .collect()
}
