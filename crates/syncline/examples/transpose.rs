//! Transposes a matrix whose rows are spread over the members: each member writes to all others,
//! followed by one sync.
//!
//! Of its own rows, a member transposes the columns that become rows of another member in a buffer,
//! and writes them by one strided put: row by row, with gaps for the columns that other members
//! write. No member receives anything. When a member returns from the sync, its part of the result
//! is complete.
//!
//! ```text
//!   rank 0: | A00 A01 |         | A00'  A10' |      A01, transposed, is written by rank 0 into
//!   rank 1: | A10 A11 |   ──>   | A01'  A11' |      the rows of rank 1, beside rank 1's own A11'
//! ```
//!
//! ```sh
//! cargo run --release --example transpose                              # threads
//! syncline launch -n 4 -- target/release/examples/transpose 4000       # processes; number of rows
//! cargo run --release --example transpose -- --hosts 2                 # emulated hosts
//! ```

use std::error::Error;
use std::ops::Range;
use std::time::Instant;

use syncline::rma::Strided;
use syncline::team::Member;
use syncline::{Rma, Team};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let hosts = arguments.next_if_eq("--hosts").and_then(|_| arguments.next());
    let n = arguments.next().map_or(Ok(2000), |n| n.parse())?;
    let work = |me: &mut Member| transpose(me, n);
    let results = match hosts {
        Some(hosts) => Team::hosts(hosts.parse()?).run(work)?,
        None => Team::run(work)?,
    };
    for result in results {
        let (rank, seconds) = result?;
        if rank == 0 {
            let rate = 8e-9 * (n * n) as f64 / seconds;
            println!("transposed {n} x {n} numbers: {rate:.2} GB/s");
        }
    }
    Ok(())
}

/// Returns the rows of a member.
fn rows(n: usize, rank: usize, size: usize) -> Range<usize> {
    n * rank / size..n * (rank + 1) / size
}

/// Transposes a matrix of n x n numbers several times. Returns the rank and the seconds of the
/// fastest repetition.
pub(crate) fn transpose(me: &mut Member, n: usize) -> Result<(usize, f64)> {
    let (rank, size) = (me.rank(), me.size());
    let mine = rows(n, rank, size);
    let number = |row: usize, column: usize, time: usize| (row * n + column + time) as f64;
    let mut rma = Rma::new(me)?;
    let result = rma.allocate::<f64>(me, mine.len() * n)?;
    let mut turned = vec![0.0; n.div_ceil(size) * mine.len()];
    let mut fastest = f64::INFINITY;
    for time in 0..5 {
        let matrix: Vec<f64> = mine
            .clone()
            .flat_map(|row| (0..n).map(move |column| number(row, column, time)))
            .collect();
        rma.sync()?;
        let start = Instant::now();
        // Each member begins with the next one, so that not all write to the same member at once.
        for to in (1..=size).map(|ahead| (rank + ahead) % size) {
            let columns = rows(n, to, size);
            for (block, column) in turned.chunks_mut(mine.len().max(1)).zip(columns.clone()) {
                block
                    .iter_mut()
                    .zip(matrix[column..].iter().step_by(n))
                    .for_each(|(to, &from)| *to = from);
            }
            let there = Strided { counts: &[mine.len(), columns.len()], strides: &[n] };
            rma.put_strided(&result, to, mine.start, there, &turned, 0, &[mine.len()])?;
        }
        rma.sync()?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
        let mut found = vec![0.0; mine.len() * n];
        rma.get(&result, rank, 0, &mut found)?;
        for (at, found) in found.into_iter().enumerate() {
            let (row, column) = (mine.start + at / n, at % n);
            if found != number(column, row, time) {
                return Err(format!("rank {rank}: row {row}, column {column} is {found}").into());
            }
        }
    }
    rma.free(me, result)?;
    Ok((rank, fastest))
}
