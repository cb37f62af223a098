//! The command line of `syncline verify`.

use clap::{Subcommand, ValueEnum};
use syncline_sync::membership::MAX_MEMBERS;

/// The subcommands of `syncline verify`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verify {
    /// Verifies that no member leaves a barrier before all have arrived
    ///
    /// In every round one member changes a variable, all members pass the barrier, and each reads
    /// the variable and records the time and its round. All must read the new value; all times of a
    /// round must precede all times of the next; no member may be a round ahead or behind. At
    /// random, members arrive immediately or after a delay, and block, poll, or arrive first and
    /// wait later.
    #[command(after_long_help = "\
Examples:
  syncline verify barrier --quick
  syncline verify barrier --members 2 --rounds 10000000 --only counter --in threads

Exit codes: 0 all hold; 1 a test fails, and is named on standard error with the round and the members; 2 wrong command line.")]
    Barrier(VerifyArgs),
    /// Verifies that a lock has one holder at a time, and serves requests in order
    ///
    /// Members request the lock in every way (blocking, with deadlines, and only if it is free) and
    /// change the data that it guards: no other member may be inside, and no change may be lost.
    /// Then, round after round, one member holds the lock while the others request it in a random
    /// order, each after the previous one has gone to sleep. They must acquire it in that order.
    #[command(after_long_help = "\
Examples:
  syncline verify lock --quick
  syncline verify lock --members 1-9,16 --rounds 100000 --only mcs

Exit codes: 0 all hold; 1 a test fails, and is named on standard error with the round and the members; 2 wrong command line.")]
    Lock(VerifyArgs),
    /// Verifies one-sided memory: put, get, accumulate, fence, sync, and barriers over messages
    ///
    /// Members do random operations of every kind on one another's memory, in every shape and type,
    /// and compare it with a memory that each of them simulates. After every way to complete
    /// operations they check that no member, also one that took no part, sees an old value.
    #[command(after_long_help = "\
Examples:
  syncline verify rma --quick
  syncline verify rma --members 2-5 --in hosts --only syncs --rounds 100000
  mpirun -n 4 syncline verify rma --quick

`hosts` are groups of threads that exchange messages, as members on several machines do. Under an MPI launcher, \
its processes are the members.
Exit codes: 0 all hold; 1 a test fails, and is named on standard error with the round and the members; 2 wrong command line.")]
    Rma(VerifyArgs),
    /// Verifies pools of the members of a team: every task ends once, with its result
    ///
    /// One member submits tasks of all sizes, some with priority, some expensive, and trees of
    /// tasks that fork others. All other members, on all hosts, run the tasks. Each result is
    /// compared with the expected one.
    #[command(after_long_help = "\
Examples:
  syncline verify farm --quick
  mpirun -n 4 syncline verify farm --quick

Under an MPI launcher, its processes are the members.
Exit codes: 0 all hold; 1 a test fails, and is named on standard error with the task; 2 wrong command line.")]
    Farm(VerifyArgs),
    /// Verifies overlays on a team: the results are those of their runs on threads
    ///
    /// Each round is a random overlay: tasks with random readers and writers, some that leave,
    /// placed in random members. All final values, and all values that tasks saw, are compared with
    /// those of the run of the same overlay in one thread. Other tests let data flow one way, let
    /// bodies fail, and let members declare different overlays.
    #[command(after_long_help = "\
Examples:
  syncline verify overlay --quick
  syncline verify overlay --members 4 --in hosts --only random --rounds 100000
  mpirun -n 4 syncline verify overlay --quick

`hosts` are groups of threads that exchange messages, as members on several machines do. Under an MPI launcher, \
its processes are the members.
Exit codes: 0 all hold; 1 a test fails, and is named on standard error with the round and the members; 2 wrong command line.")]
    Overlay(VerifyArgs),
    /// Verifies sweeps on a team: the results are those of the plain double loop
    ///
    /// Each round is a sweep of a random matrix by each kernel, of float64 or float32, in memory or
    /// on file, with a random depth. The members share its columns. The result is compared with
    /// that of the plain double loop, bit for bit. The files are in a folder in the current one,
    /// which all members must see. Without --rounds there are 100 rounds, and 10 with --quick.
    #[command(after_long_help = "\
Examples:
  syncline verify sweep --rounds 20
  mpirun -n 4 syncline verify sweep --rounds 20

Under an MPI launcher, its processes are the members.
Exit codes: 0 all hold; 1 a test fails, and is named on standard error with the round and the members; 2 wrong command line.")]
    Sweep(VerifyArgs),
}

/// How much is verified.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// A short trial: 400 rounds of each test
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
    /// The number of rounds of each test [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: Option<u64>,
    /// The team sizes to test, as a list of numbers and ranges, each at most 4096 [default:
    /// 1-9,16,33]
    #[arg(long, value_name = "LIST", value_parser = parse_counts, default_value = "1-9,16,33", hide_default_value = true)]
    pub(crate) members: TeamSizes,
    /// Where the members run [default: everywhere that the suite supports]
    #[arg(long = "in", value_name = "PLACES", value_enum, value_delimiter = ',')]
    pub(crate) places: Vec<Places>,
    /// Run only the tests whose name contains NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Set by the command when it starts the processes of a team
    #[arg(long, hide = true)]
    pub(crate) session: bool,
}

/// Where the members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Places {
    /// Threads of one process
    Threads,
    /// One process per member
    Processes,
    /// Several threads in each of several processes
    Both,
    /// Several hosts, simulated by groups of threads; for rma and farm
    Hosts,
}

/// Team sizes, in the order in which they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TeamSizes(pub(crate) Vec<usize>);

fn parse_counts(text: &str) -> Result<TeamSizes, String> {
    let number = |text: &str| match text.trim().parse() {
        Ok(n) if (1..=MAX_MEMBERS).contains(&n) => Ok(n),
        _ => Err(format!("'{text}' is not a number of members from 1 to {MAX_MEMBERS}")),
    };
    let mut counts = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!("'{part}' is empty: the range begins after its end"));
                }
                counts.extend(first..=last);
            }
            None => counts.push(number(part)?),
        }
    }
    Ok(TeamSizes(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_members_are_lists_of_ranges() {
        assert_eq!(parse_counts("1-3,16"), Ok(TeamSizes(vec![1, 2, 3, 16])));
        assert!(parse_counts("0").unwrap_err().contains("from 1 to 4096"));
        for text in ["3-1", "5,3-1"] {
            assert!(parse_counts(text).unwrap_err().contains("'3-1' is empty"));
        }
        assert!(parse_counts("two").is_err());
    }
}
