//! `syncline-lab bench rma`: races one-sided memory, and its completion, against the equivalents of
//! other projects.
//!
//! ```text
//! one host         `host`    operations on memory that two processes share, against H, a hop
//!                            of a cache line
//! several hosts    `far`     fences, syncs, locks and barriers over messages, as in the papers'
//!                            figures, against a round trip, against the schemes of ARMCI and the
//!                            papers, and against the team's MPI
//! ```
//!
//! Every member runs the same entries, batch by batch, in turn, round after round (`race`). The
//! time of a batch is that of the slowest member, or the mean of all where a table says so.
//! `report` prints the results; `targets` compares them with the targets.

mod far;
mod host;
mod kit;
mod race;
mod report;
mod targets;

use std::time::Duration;

use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team};

use self::race::Pace;
use crate::error::{Result, failed};
use crate::race::Options;
use crate::stop::Signals;

/// Measures one-sided memory, fences, syncs, mutexes and barriers of a team, in turn with those of
/// others.
///
/// In two processes of its own on one host: each operation, in nanoseconds. Started by an MPI
/// launcher on several hosts: the figures of Saify's thesis on ARMCI (Ohio State University, 2002),
/// that is fences after puts to 1 to N-1 hosts, a fence and a barrier right after puts or a while
/// after them, contended locks, and barriers, with the same by MPI where it has an equivalent, in
/// microseconds, and the number of messages of each. Where times are compared with a target, the
/// last table says so. Everything is run 500 times on one host, with --quick 150 times, and on
/// several hosts 15 times, with --quick 5 times, if time allows.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench rma [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench rma --quick
  mpirun -n 4 --map-by node syncline-lab bench rma --rounds 20
  testbed/testbed run --mpi openmpi --env SYNCLINE_TIMEOUT=20000 syncline-lab bench rma --json
  syncline-lab bench rma --hosts 4 --delay-us 200     (groups of threads that exchange messages; no MPI)

Environment: SYNCLINE_THREADS, the members of each process; SYNCLINE_TIMEOUT, in milliseconds, is to be longer than any call \
of MPI blocks, as nothing is said to other hosts meanwhile."
)]
pub(crate) struct BenchRmaArgs {
    #[command(flatten)]
    options: Options,
    /// Only groups whose name contains this, of several hosts: ping, long, fence, sync, delay,
    /// lock, queue, counter, barrier, idle
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// The number of hosts that are threads of this process, which exchange messages in memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    hosts: Option<u16>,
    /// Delay of a message between these hosts
    #[arg(long, value_name = "US", default_value_t = 200, requires = "hosts")]
    delay_us: u32,
    /// This process is a member of the measuring team
    #[arg(long, hide = true)]
    session: bool,
}

/// Runs the measurement; returns the text to print, which is empty in most processes.
pub(crate) fn rma(args: &BenchRmaArgs, signals: &Signals) -> Result<String> {
    let member = |me: &mut Member| session(me, args, signals).map_err(|why| why.to_string());
    let options = &args.options;
    let results = if let Some(hosts) = args.hosts {
        let latency = Duration::from_micros(args.delay_us.into());
        let conditions = Conditions { latency, ..Conditions::default() };
        Team::hosts(hosts.into()).conditions(conditions).quiet().run(member)
    } else if args.session || Team::is_launched() {
        Team::run(member)
    } else {
        let mut arguments = vec!["bench".to_owned(), "rma".to_owned(), "--session".to_owned()];
        arguments.extend(options.quick.then(|| "--quick".to_owned()));
        arguments.extend(options.json.then(|| "--json".to_owned()));
        let rounds = options.rounds.iter();
        arguments.extend(rounds.flat_map(|rounds| ["--rounds".to_owned(), rounds.to_string()]));
        // Two threads of one process measure the hop.
        Team::processes(2).quiet().args(arguments).run(member)
    };
    // After a signal, the signal is the reason why the team has ended.
    signals.check()?;
    let texts = results?.into_iter().collect::<Result<Vec<_>, _>>();
    let texts = texts.map_err(|why| failed("measure", why))?;
    Ok(texts.concat())
}

/// Runs one member's part; the first member returns the text to print.
fn session(me: &mut Member, args: &BenchRmaArgs, signals: &Signals) -> Result<String> {
    let hosts = me.hosts().count();
    let (usual, quick, seconds) = if hosts == 1 { (500, 150, 25) } else { (15, 5, 8) };
    let options = &args.options;
    let pace = Pace {
        rounds: options.rounds.unwrap_or(if options.quick { quick } else { usual }),
        most: Duration::from_secs(if options.quick { seconds } else { 10 * seconds }),
        signals,
    };
    let rank = me.rank();
    let report = match hosts {
        1 if me.size() == 1 => {
            return Err("one member alone has no other to put to: at least two are needed".into());
        }
        1 => host::report(me, pace)?,
        _ => {
            let only: Vec<_> = args.only.iter().map(String::as_str).collect();
            far::report(me, pace, far::Wanted { only: &only, all_fences: false })?
        }
    };
    Ok(match rank {
        0 if options.json => report.json()?,
        0 => report.text(),
        _ => String::new(),
    })
}

/// A measurement on hosts that are groups of threads.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The group, the setting and the way, as the tables name them.
    pub(crate) group: &'static str,
    pub(crate) setting: String,
    pub(crate) way: String,
    /// The median time, and the least one, in nanoseconds.
    pub(crate) ns: f64,
    pub(crate) best_ns: f64,
    /// The messages of all members together, per operation.
    pub(crate) messages: Option<f64>,
}

/// The hosts of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts {
    /// Their number, and that of the threads of each.
    pub(crate) hosts: usize,
    pub(crate) threads: usize,
    /// The time of a message between two of them.
    pub(crate) latency: Duration,
}

/// Measures groups on hosts that are groups of threads of this process, with all numbers of targets
/// that the thesis has.
///
/// # Errors
/// Errors of the team and of its members, and [`Interrupted`](crate::error::Interrupted).
pub(crate) fn on_hosts(
    Hosts { hosts, threads, latency }: Hosts,
    only: &[&str],
    (rounds, most): (usize, Duration),
    signals: &Signals,
) -> Result<Vec<Measured>> {
    let pace = Pace { rounds, most, signals };
    let wanted = far::Wanted { only, all_fences: true };
    let member = |me: &mut Member| {
        let report = far::report(me, pace, wanted).map_err(|why| why.to_string())?;
        Ok::<_, String>(report.cells)
    };
    let conditions = Conditions { latency, ..Conditions::default() };
    let team = Team::hosts(hosts).threads(threads).conditions(conditions).quiet();
    // The others of a process that works on many threads may be late.
    let results = team.timeout(Duration::from_secs(60)).run(member);
    signals.check()?;
    let cells = results?.into_iter().next().ok_or("a team without members")?;
    let cells = cells.map_err(|why| failed("measure", why))?;
    let measured = |cell: race::Cell| Measured {
        group: cell.key.group,
        setting: cell.key.setting,
        way: cell.way,
        ns: cell.spread.median,
        best_ns: cell.spread.best,
        messages: cell.key.messages,
    };
    Ok(cells.into_iter().map(measured).collect())
}
