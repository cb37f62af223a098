//! A histogram whose bins are spread over the members; all members count into all bins at once.
//!
//! A member draws a batch of values, sorts them by the owners of their bins, and adds 1 to each
//! bin: one list of bins for each owner, which is one message if the owner is on another host.
//! Concurrent accumulates to one bin all count, so members need no turns, and no member holds a
//! copy of the whole histogram.
//!
//! ```sh
//! cargo run --release --example histogram                              # threads
//! syncline launch -n 4 -- target/release/examples/histogram 10000000   # processes; values of each
//! cargo run --release --example histogram -- --hosts 2                 # emulated hosts
//! ```

use std::error::Error;
use std::time::Instant;

use syncline::team::Member;
use syncline::{Rma, Team};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BINS: usize = 1000;
const BATCH: usize = 5000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let hosts = arguments.next_if_eq("--hosts").and_then(|_| arguments.next());
    let values = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let work = |me: &mut Member| histogram(me, values);
    let results = match hosts {
        Some(hosts) => Team::hosts(hosts.parse()?).run(work)?,
        None => Team::run(work)?,
    };
    for result in results {
        let (rank, all, seconds) = result?;
        if rank == 0 {
            let rate = 1e-6 * all as f64 / seconds;
            println!("counted {all} values into {BINS} bins: {rate:.1} million a second");
        }
    }
    Ok(())
}

/// The values that a member draws: sums of two dice with many sides, so that most values fall into
/// the bins in the middle.
fn drawn(rank: usize, values: usize) -> impl Iterator<Item = usize> {
    let mut state = rank as u64 + 1;
    let mut side = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % (BINS / 2)
    };
    (0..values).map(move |_| side() + side())
}

/// Counts `values` values of each member. Returns the rank, the number of all values, and the
/// elapsed seconds.
pub(crate) fn histogram(me: &mut Member, values: usize) -> Result<(usize, usize, f64)> {
    let (rank, size) = (me.rank(), me.size());
    let each = BINS.div_ceil(size);
    let mut rma = Rma::new(me)?;
    // Bin b is number b % each of rank b / each.
    let bins = rma.allocate::<i64>(me, each)?;
    let mut lists = vec![Vec::new(); size];
    let mut values_left = drawn(rank, values).peekable();
    rma.sync()?;
    let start = Instant::now();
    while values_left.peek().is_some() {
        for bin in values_left.by_ref().take(BATCH) {
            // Adds one number, the first of the buffer, to the bin.
            lists[bin / each].push((bin % each, 0, 1));
        }
        for (owner, list) in lists.iter_mut().enumerate() {
            rma.accumulate_list(&bins, owner, list, 1, &[1])?;
            list.clear();
        }
    }
    rma.sync()?;
    let seconds = start.elapsed().as_secs_f64();

    // Each member checks its own bins.
    let mut expected = vec![0_i64; each * size];
    (0..size).flat_map(|rank| drawn(rank, values)).for_each(|bin| expected[bin] += 1);
    let mut found = vec![0; each];
    rma.get(&bins, rank, 0, &mut found)?;
    if found != expected[rank * each..][..each] {
        return Err(format!("the bins of rank {rank} are not what a plain loop counts").into());
    }
    rma.free(me, bins)?;
    Ok((rank, size * values, seconds))
}
