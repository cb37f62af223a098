//! `syncline-lab schemes`: races older and other schemes of Livermore kernel 23 out of core.

pub(crate) mod data;
pub(crate) mod plot;
pub(crate) mod race;
pub(crate) mod report;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use syncline_memory::room::Size;
use syncline_store::Shape;

use self::data::Folder;
use self::race::{Race, Run};
use crate::at_least;
use crate::error::{Result, failed};
use crate::race::Options;
use crate::stop::Signals;

/// Races the papers' schemes of out-of-core sweeps of Livermore kernel 23.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Schemes {
    /// Creates the missing data and layouts
    Prepare(Data),
    /// Runs all schemes in turn, caches dropped before each, and prints the tables of the papers'
    /// Fig. 7
    ///
    /// Everything is run 3 times; with --quick once, and two iterations. With --json each run is
    /// printed as soon as it has ended, and the tables on standard error.
    Race {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        options: Options,
        /// Iterations of each run of several iterations
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
        iterations: u64,
        /// Memory limit of a scheme
        #[arg(long, value_name = "SIZE", default_value = "2G")]
        memory: Size,
        /// Processors of a ring [default: twice those of the machine]
        #[arg(long, value_name = "N", value_parser = at_least(1))]
        processors: Option<usize>,
        /// Draws Fig. 7(a) and 7(b)
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
    },
    /// Prints the tables of runs that `race --json` has printed
    Report {
        /// The runs, one per line
        runs: PathBuf,
        /// Draws Fig. 7(a) and 7(b)
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
    },
}

/// The folder of the data, and their size.
#[derive(Clone, Debug, Args)]
pub(crate) struct Data {
    /// The folder of the data; they stay there
    #[arg(long)]
    dir: PathBuf,
    /// Rows of each matrix
    #[arg(long, default_value_t = 2048, value_parser = at_least(1))]
    rows: usize,
    /// Columns of each matrix
    #[arg(long, default_value_t = 2048, value_parser = at_least(1))]
    cols: usize,
    /// Sides of the square blocks
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512], value_parser = at_least(1))]
    blocks: Vec<usize>,
}

impl Data {
    fn folder(&self) -> Result<(Folder, Vec<usize>)> {
        let folder = Folder::new(&self.dir, Shape::new(self.rows, self.cols));
        let mut blocks = self.blocks.clone();
        blocks.sort_unstable();
        blocks.dedup();
        folder.make(&blocks)?;
        Ok((folder, blocks))
    }
}

/// Runs a subcommand; returns the text to print.
pub(crate) fn schemes(schemes: &Schemes, signals: &Signals) -> Result<String> {
    let (schemes, asked) = (schemes.clone(), signals.clone());
    // New files have no name until they are complete.
    signals.cancel(|| (), move || run(schemes, &asked))
}

fn run(schemes: Schemes, signals: &Signals) -> Result<String> {
    let (runs, plot, json) = match schemes {
        Schemes::Prepare(data) => return data.folder().map(|_| String::new()),
        Schemes::Report { runs, plot } => (read(&runs)?, plot, false),
        Schemes::Race { data, options, iterations, memory, processors, plot } => {
            let (folder, blocks) = data.folder()?;
            let machine = std::thread::available_parallelism().map_or(1, usize::from);
            let race = Race {
                folder,
                blocks,
                iterations: if options.quick { 2 } else { iterations },
                memory: memory.0,
                rounds: if options.quick { 1 } else { options.rounds.unwrap_or(3) },
                processors: processors.unwrap_or(2 * machine),
                json: options.json,
            };
            (race.run(signals)?, plot, options.json)
        }
    };
    let text = report::text(&runs);
    if let Some(path) = plot {
        let drawn = std::fs::write(&path, plot::svg(&runs)?);
        drawn.map_err(|error| failed(&format!("write {}", path.display()), error))?;
    }
    if json {
        eprint!("{text}");
        return Ok(String::new());
    }
    Ok(text.trim_end().to_owned())
}

/// Prints; a closed pipe is an error, not a panic.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error| failed("print", error))
}

fn read(path: &Path) -> Result<Vec<Run>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| failed(&format!("read {}", path.display()), error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let run = |(n, line): (usize, &str)| {
        let why = |error| format!("{}:{}: {error}", path.display(), n + 1);
        Ok(serde_json::from_str(line).map_err(why)?)
    };
    lines.map(run).collect()
}
