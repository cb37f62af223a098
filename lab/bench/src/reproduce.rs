//! `syncline-lab reproduce`: the figures and tables of the five papers, each by one command.
//!
//! | module        | contents                                                               |
//! |---------------|------------------------------------------------------------------------|
//! | `items`       | the table of all items                                                 |
//! | `lab`         | what items share: the scale, the folder, experiments that are run once |
//! | `outcome`     | claims, tables and figures, and their files                            |
//! | `orwl`        | Clauss, Gustedt: ordered read-write locks (2010)                       |
//! | `armci`       | Saify: collectives of ARMCI (2002)                                     |
//! | `aldor`       | Moreno Maza, Stephenson, Watt, Xie: a farm of Aldor processes (2008)   |
//! | `barriers`    | Kadur, Kochar: barriers                                                |
//! | `wavefront`   | Clauss, Gustedt, Suter: out-of-core wavefronts (2008)                  |
//! | `steps`       | the times of the steps of a sweep                                      |
//!
//! An item runs an experiment, which is mostly one of `bench` or `schemes`, writes data and
//! figures, and prints what the paper saw and what is seen here. The sentence is computed from the
//! data. Hosts are groups of threads that exchange messages in memory with a latency
//! ([`Team::hosts`](syncline_fabric::Team::hosts)): no MPI, no root, no network.

mod aldor;
mod armci;
mod barriers;
mod items;
mod lab;
mod orwl;
mod outcome;
mod steps;
mod wavefront;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::items::ITEMS;
use self::lab::{Lab, Scale};
use self::outcome::Outcome;
use crate::error::{Result, Usage, failed};
use crate::race::{Machine, hold};
use crate::stop::Signals;

/// Reproduces the figures and tables of the five papers that Syncline is made after.
///
/// Each item runs its experiment, writes data (CSV, JSON) and figures (SVG, PNG), and prints what
/// the paper saw and what is seen here. Hosts are groups of threads with a latency between them.
/// Items that share an experiment run it once. Exit code 1 if an item has failed.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab reproduce [OPTIONS] ITEM...\n       syncline-lab reproduce \
                      [OPTIONS] --all\n       \
                      syncline-lab reproduce --list",
    after_long_help = "\
                       Examples:
  syncline-lab reproduce --list
  syncline-lab reproduce orwl-fig3 B13
  syncline-lab reproduce --all --output target/reproduced"
)]
pub(crate) struct ReproduceArgs {
    /// Items, by id or name
    #[arg(value_name = "ITEM", required_unless_present_any = ["all", "list"])]
    items: Vec<String>,
    /// All items
    #[arg(long, conflicts_with = "items")]
    all: bool,
    /// Lists all items: what each does, or why it cannot be run here
    #[arg(long, conflicts_with_all = ["items", "all"])]
    list: bool,
    /// Sizes: small takes some 10 minutes for all items; paper those of the papers, hours and 100
    /// GiB of disk
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    scale: Scale,
    /// The folder of the results
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    output: PathBuf,
}

/// A figure, table or experiment of a paper.
#[derive(Debug)]
pub(crate) struct Item {
    /// The id in the list of requirements.
    id: &'static str,
    /// Its names; the first is that of its folder.
    names: &'static [&'static str],
    /// F for a figure, T for a table, B for an experiment.
    kind: &'static str,
    title: &'static str,
    /// Where the paper has it.
    place: &'static str,
    /// What is done here.
    how: &'static str,
    /// Returns the reason why it cannot be run here.
    lacks: fn() -> Option<String>,
    run: fn(&Lab) -> Result<Outcome>,
}

impl Item {
    fn name(&self) -> &'static str {
        self.names[0]
    }

    fn is(&self, name: &str) -> bool {
        self.id.eq_ignore_ascii_case(name) || self.names.contains(&name)
    }
}

/// Runs items; returns the text to print.
pub(crate) fn reproduce(args: &ReproduceArgs, signals: &Signals) -> Result<String> {
    if args.list {
        return Ok(list());
    }
    let mut chosen: Vec<&'static Item> = Vec::new();
    for name in &args.items {
        let item = ITEMS.iter().find(|item| item.is(name)).ok_or_else(|| {
            Usage(format!("no item has the id or name {name:?}: see syncline-lab reproduce --list"))
        })?;
        if !chosen.iter().any(|other| other.id == item.id) {
            chosen.push(item);
        }
    }
    if args.all {
        chosen = ITEMS.iter().collect();
    }
    let output = args.output.clone();
    std::fs::create_dir_all(&output)
        .map_err(|error| failed(&format!("make {}", output.display()), error))?;
    let scale = args.scale;
    // The data of sweeps are beside the results, on a disk: the folder for temporary files may be
    // in memory.
    let below = output.clone();
    hold(
        signals,
        Some(&below),
        || (),
        move |folder, signals| run(&chosen, Lab::new(scale, folder, signals), &output),
    )
}

/// Runs items one after the other; returns the number of items of each fate.
fn run(chosen: &[&'static Item], lab: Lab, output: &Path) -> Result<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let machine = Machine::here(processors).line();
    let (mut ran, mut cannot, mut failures) = (0, 0, Vec::new());
    for (n, item) in chosen.iter().enumerate() {
        lab.signals.check()?;
        let (number, name) = (n + 1, item.name());
        let all = chosen.len();
        if let Some(why) = (item.lacks)() {
            cannot += 1;
            say(&format!("{} {name}: cannot be run here: {why}", item.id))?;
            continue;
        }
        eprintln!("{number} of {all}: {} {name}: {}", item.id, item.title);
        let start = Instant::now();
        // A fault of one item must not end the others.
        let done = catch_unwind(AssertUnwindSafe(|| (item.run)(&lab)));
        let done = done.unwrap_or_else(|_| Err("it failed by a fault of its own (a panic)".into()));
        let written = done.and_then(|outcome| {
            outcome.write(item, lab.scale.name(), &machine, output)?;
            Ok(outcome)
        });
        lab.signals.check()?;
        let took = start.elapsed().as_secs_f64();
        match written {
            Ok(outcome) => {
                ran += 1;
                say(&format!("{} {name}: {}.", item.id, outcome.sentence()))?;
                eprintln!("{number} of {all}: {} {name}: done in {took:.1} s", item.id);
            }
            Err(why) => {
                eprintln!("{number} of {all}: {} {name}: failed after {took:.1} s: {why}", item.id);
                failures.push(item.id);
            }
        }
    }
    outcome::write_page(ITEMS, output)?;
    let count = format!("{} items: {ran} run, {cannot} cannot be run here", chosen.len());
    match failures.is_empty() {
        true => Ok(count),
        false => {
            let number = failures.len();
            Err(format!("{count}, {number} failed: {}", failures.join(", ")).into())
        }
    }
}

/// Prints a line at once; a reader that has closed the pipe ends the run.
fn say(line: &str) -> Result<()> {
    crate::papers::print(&format!("{line}\n"))
}

/// Returns the list of all items.
fn list() -> String {
    let mut text = String::new();
    for item in ITEMS {
        let Item { id, kind, title, place, how, names, .. } = item;
        let what = match (item.lacks)() {
            Some(why) => format!("cannot be run here: {why}"),
            None => (*how).to_owned(),
        };
        let also = match &names[1..] {
            [] => String::new(),
            also => format!(" (also named {})", also.join(", ")),
        };
        let name = item.name();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{id:4} {name:20}  {kind:3}  {title} ({place})");
        let _ = writeln!(text, "     {what}{also}");
    }
    let _ = write!(text, "{} items", ITEMS.len());
    text
}
