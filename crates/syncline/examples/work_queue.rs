//! A work queue, as in codes of chemistry: get, compute, accumulate.
//!
//! A shared counter hands out blocks: each `fetch_add` returns the next one. A block is read from
//! the member that owns it, computed, and added to the result of the member that owns that. No
//! member takes part in the accesses of another, so none waits for a member at work, and blocks of
//! different cost leave no member idle while there is work.
//!
//! ```text
//!   counter of rank 0: 17 ──fetch_add──> block 17 ──get──> compute ──accumulate──> result 17 %
//! RESULTS
//! ```
//!
//! ```sh
//! cargo run --release --example work_queue                             # threads
//! syncline launch -n 4 -- target/release/examples/work_queue 2000      # processes; number of
//! blocks
//! cargo run --release --example work_queue -- --hosts 2                # emulated hosts
//! ```

use std::error::Error;

use syncline::team::Member;
use syncline::{Rma, Team};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const LENGTH: usize = 1000;
const RESULTS: usize = 7;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let hosts = arguments.next_if_eq("--hosts").and_then(|_| arguments.next());
    let blocks = arguments.next().map_or(Ok(500), |n| n.parse())?;
    let work = |me: &mut Member| work_queue(me, blocks);
    let results = match hosts {
        Some(hosts) => Team::hosts(hosts.parse()?).run(work)?,
        None => Team::run(work)?,
    };
    for result in results {
        let (rank, done, steps) = result?;
        println!("rank {rank}: {done} blocks, {steps} rounds");
    }
    Ok(())
}

fn input(block: usize) -> Vec<f64> {
    (0..LENGTH).map(|n| ((block * 31 + n * 7) % 101) as f64).collect()
}

/// The number of rounds of a block: few for most blocks, many for some.
fn rounds(block: usize) -> usize {
    1 + (block * 37 % 20).pow(2)
}

/// Computes a block. All numbers are whole, so the order of the sums does not matter.
fn compute(block: usize, values: &mut [f64]) {
    for round in 0..rounds(block) {
        values.iter_mut().for_each(|value| *value = (*value * 3.0 + round as f64) % 1009.0);
    }
}

/// Takes part until all blocks are done. Returns the rank, the number of blocks that it has done,
/// and their rounds.
pub(crate) fn work_queue(me: &mut Member, blocks: usize) -> Result<(usize, usize, usize)> {
    let (rank, size) = (me.rank(), me.size());
    // Block b is number b / size of rank b % size; so are the results.
    let place = |b: usize| (b % size, b / size * LENGTH);
    let mut rma = Rma::new(me)?;
    let counter = rma.allocate::<i64>(me, usize::from(rank == 0))?;
    let input_of = rma.allocate::<f64>(me, blocks.div_ceil(size) * LENGTH)?;
    let results = rma.allocate::<f64>(me, RESULTS.div_ceil(size) * LENGTH)?;
    for block in (rank..blocks).step_by(size) {
        let (owner, offset) = place(block);
        rma.put(&input_of, owner, offset, &input(block))?;
    }
    rma.sync()?; // all blocks are written

    let (mut done, mut steps) = (0, 0);
    let mut values = vec![0.0; LENGTH];
    loop {
        let block = rma.fetch_add(&counter, 0, 0, 1)? as usize;
        if block >= blocks {
            break;
        }
        let (owner, offset) = place(block);
        rma.get(&input_of, owner, offset, &mut values)?;
        compute(block, &mut values);
        let (owner, offset) = place(block % RESULTS);
        rma.accumulate(&results, owner, offset, 1.0, &values)?;
        (done, steps) = (done + 1, steps + rounds(block));
    }
    rma.sync()?; // all results are complete

    // Rank 0 compares the results with the plain loop.
    for result in 0..if rank == 0 { RESULTS } else { 0 } {
        let mut expected = vec![0.0; LENGTH];
        for block in (result..blocks).step_by(RESULTS) {
            let mut values = input(block);
            compute(block, &mut values);
            expected.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let (owner, offset) = place(result);
        rma.get(&results, owner, offset, &mut values)?;
        if values != expected {
            return Err(format!("result {result} is not that of the plain loop").into());
        }
    }
    rma.free(me, counter)?;
    rma.free(me, input_of)?;
    rma.free(me, results)?;
    Ok((rank, done, steps))
}
