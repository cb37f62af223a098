//! A pipeline of filters over blocks of a signal: each member of the team is one stage, and passes
//! each block on to the next member.
//!
//! Data flow in one direction only, so nothing comes back that would tell a stage that there is
//! room. Each location between two stages has two slots on the receiving host: a stage is at most
//! three blocks ahead of the next one, and the memory is the same after any number of blocks.
//!
//! ```text
//!   rank 0            rank 1            rank 2            rank 3
//!   makes blocks ───> filters ────────> filters ────────> filters, and sums what comes out
//! ```
//!
//! ```sh
//! cargo run --release --example pipeline                               # threads
//! syncline launch -n 4 -- target/release/examples/pipeline 100000      # processes; the blocks
//! mpirun -n 4 target/release/examples/pipeline 100000                  # ranks of MPI
//! cargo run --release --example pipeline -- --hosts 4                  # emulated hosts
//! ```

use std::error::Error;
use std::time::Instant;

use syncline::team::Member;
use syncline::{Initial, Location, Overlay, Runner, Stop, Team};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The numbers in a block.
const BLOCK: usize = 64;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let hosts = arguments.next_if_eq("--hosts").and_then(|_| arguments.next());
    let blocks = arguments.next().map_or(Ok(1000), |n| n.parse())?;
    let work = |me: &mut Member| {
        let began = Instant::now();
        let passed = pipeline(me, blocks)?;
        Ok::<_, Box<dyn Error + Send + Sync>>((me.rank() + 1 == me.size(), passed, began.elapsed()))
    };
    let results = match hosts {
        Some(hosts) => Team::hosts(hosts.parse()?).run(work)?,
        None => Team::run(work)?,
    };
    for result in results {
        let (last, passed, time) = result?;
        if last {
            let each = time.as_secs_f64() * 1e6 / blocks as f64;
            println!("{blocks} blocks, sum {}: {each:.1} us for each", passed.sum);
        }
        if passed.messages > 0 {
            let Passed { messages, rooms, .. } = passed;
            println!("a stage sent {messages} messages with data and {rooms} about room");
        }
    }
    Ok(())
}

/// What a member has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passed {
    /// At the last member: the sum of all numbers that came out.
    pub(crate) sum: f64,
    /// The messages that it sent to other hosts.
    pub(crate) messages: u64,
    pub(crate) rooms: u64,
}

/// Passes blocks through all members, each of which filters them but the first.
pub(crate) fn pipeline(me: &mut Member, blocks: u64) -> Result<Passed> {
    let (rank, size) = (me.rank(), me.size());
    let between = |n: usize| Location::slice(format!("block {n}"), vec![0.0; BLOCK]);
    let passed: Vec<_> = (0..size).map(between).collect();
    let sum = Location::new("sum", 0.0);
    let mut overlay = Overlay::new();
    overlay.task("source", passed[0].write(), |block, step| source(block, step.iteration()));
    for stage in 1..size {
        let access = (passed[stage - 1].read(), passed[stage].write());
        let mut filter = Filter::default();
        overlay.task(format!("stage {stage}"), access, move |(from, to), _| filter.run(from, to));
    }
    overlay.task("sink", (passed[size - 1].read(), sum.write()), |(block, sum), _| {
        *sum += block.iter().sum::<f64>();
    });
    // Without this, members would get equal numbers of tasks. The last one also has the sink.
    for (rank, task) in overlay.plan().tasks().enumerate().collect::<Vec<_>>() {
        overlay.place(task, rank.min(size - 1));
    }
    let mut overlay = overlay.check(Initial::Program)?;
    let report = overlay.run_on(me, Runner::pool(1), Stop::after(blocks))?;
    drop(overlay);
    let sum = if rank + 1 == size { sum.into_inner().unwrap_or(f64::NAN) } else { 0.0 };
    Ok(Passed { sum, messages: report.messages, rooms: report.room_messages })
}

/// Makes a block.
pub(crate) fn source(block: &mut [f64], number: u64) {
    for (i, value) in block.iter_mut().enumerate() {
        *value = ((number as usize * BLOCK + i) % 17) as f64;
    }
}

/// The mean of each number and the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    before: f64,
}

impl Filter {
    pub(crate) fn run(&mut self, from: &[f64], to: &mut [f64]) {
        for (value, mean) in from.iter().zip(to) {
            *mean = (self.before + value) / 2.0;
            self.before = *value;
        }
    }
}
