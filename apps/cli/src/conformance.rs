//! `syncline verify`: barriers, locks, memory and pools do what they promise, on this machine, in
//! every place.
//!
//! ```text
//! for each number of members, for each place       a team: threads here, or processes of this command (--session)
//!   in every member                                 a session: one algorithm after the other, in the same memory
//!     rounds                                        checked by every member as it goes, see `barrier` and `lock`
//! ```
//!
//! Nothing is written down to be looked at later: what the method compares (values, times, rounds)
//! stands in the team's memory for as long as others may compare with it, so that ten million
//! rounds take no more of it than two.
//!
//! # Source
//! Kadur and Kochar's method (barriers.txt, "Experimentation methodology"): change a variable,
//! barrier, print value, time and rank; values agree, the greatest time of a round is below the
//! least of the next, no member skips.

mod barrier;
mod farm;
mod lock;
mod rma;
mod scene;

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use syncline_fabric::wire::channel::Conditions;
use syncline_fabric::{Member, Team};

use crate::args::{Places, VerifyArgs};
use crate::error::{Error, Result};
use crate::watch::{self, Signals};

/// What is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Barrier,
    Lock,
    Rma,
    Farm,
}

/// What a session verifies.
#[derive(Clone, Debug)]
struct Plan {
    subject: Subject,
    rounds: u64,
    only: Option<String>,
}

/// How long a wait in a session may take: a wait that takes longer never ends.
const PATIENCE: Duration = Duration::from_secs(60);

fn deadline() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

impl Subject {
    fn names(self) -> Vec<&'static str> {
        match self {
            Self::Barrier => barrier::ALGORITHMS.iter().map(|&(name, _)| name).collect(),
            Self::Lock => lock::ALGORITHMS.iter().map(|&(name, _)| name).collect(),
            Self::Rma => rma::PARTS.iter().map(|&(name, _)| name).collect(),
            Self::Farm => farm::PARTS.iter().map(|&(name, _)| name).collect(),
        }
    }

    /// Whether it is for members on several hosts, too.
    fn is_far(self) -> bool {
        matches!(self, Self::Rma | Self::Farm)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Lock => "lock",
            Self::Rma => "rma",
            Self::Farm => "farm",
        }
    }
}

impl Plan {
    fn includes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    fn names(&self) -> Vec<&'static str> {
        self.subject.names().into_iter().filter(|name| self.includes(name)).collect()
    }

    /// One member's part; what is wrong, if anything is.
    fn session(&self, me: &mut Member) -> Result<(), String> {
        match self.subject {
            Subject::Barrier => barrier::session(me, self),
            Subject::Lock => lock::session(me, self),
            Subject::Rma => rma::session(me, self),
            Subject::Farm => farm::session(me, self),
        }
    }
}

impl Places {
    /// Where a subject is verified unless an option says otherwise.
    fn all(subject: Subject) -> Vec<Places> {
        let mut all = vec![Places::Threads, Places::Processes, Places::Both];
        all.extend(subject.is_far().then_some(Places::Hosts));
        all
    }

    fn word(self) -> &'static str {
        match self {
            Places::Hosts => "hosts",
            Places::Threads => "threads",
            Places::Processes => "processes",
            Places::Both => "both",
        }
    }

    /// Processes, and threads in each.
    fn shape(self, members: usize) -> (usize, usize) {
        match self {
            Places::Threads => (0, members),
            Places::Processes => (members, 1),
            // As square as may be, and not fewer threads than processes; a prime number is one
            // process.
            Places::Both | Places::Hosts => {
                let divides = |&processes: &usize| members.is_multiple_of(processes);
                let processes = (1..=members.isqrt()).rev().find(divides).unwrap_or(1);
                (processes, members / processes)
            }
        }
    }
}

/// `syncline verify`; returns what to print.
pub(crate) fn run(subject: Subject, args: &VerifyArgs, signals: &Signals) -> Result<String> {
    let rounds = args.rounds.unwrap_or(if args.quick { 400 } else { 10_000 });
    let plan = Plan { subject, rounds, only: args.only.clone() };
    if plan.names().is_empty() {
        let names = subject.names().join(", ");
        return Err(Error::Usage(format!("no {} has such a name; there are: {names}", subject.word())));
    }
    let launched = syncline_mpi::launched().filter(|launched| launched.size != Some(1));
    let joins = std::env::var_os("SYNCLINE_TEAM").is_some() || launched.is_some() && subject.is_far();
    if args.session || joins {
        // One of the processes of a team: its members are in the environment.
        return here(&plan, !args.session);
    }
    let places = if args.places.is_empty() { Places::all(subject) } else { args.places.clone() };
    let counts = args.members.0.clone();
    let bar = watch::bar("{msg} [{wide_bar}] {pos} of {len} teams");
    bar.set_message(format!("verifying {}s", subject.word()));
    bar.set_length((counts.len() * places.len()) as u64);
    let watched = bar.clone();
    let work = move || {
        let start = Instant::now();
        for &members in &counts {
            for &place in &places {
                team(&plan, place, members)?;
                watched.inc(1);
            }
        }
        Ok(table(&plan, &places, &counts, start.elapsed()))
    };
    watch::watch(signals, &bar, |_| (), work)
}

/// All algorithms in the team of the environment, and in those that are left after a death; the
/// first member tells what it was, if that is to be told.
fn here(plan: &Plan, tell: bool) -> Result<String> {
    let start = Instant::now();
    let told = Team::run_shrinking(|me| {
        let (size, hosts) = (me.size(), me.hosts().count());
        let servers = match me.hosts().servers().len() {
            several if several > hosts => format!(" with {several} servers"),
            _ => String::new(),
        };
        let transport = me.endpoint().map(|endpoint| format!(", by {}", endpoint.transport()));
        let between = servers + &transport.unwrap_or_default();
        let first = me.rank() == 0 && tell;
        if first {
            // Before anything can go wrong. If there is no reader, that is all right.
            let _ = writeln!(std::io::stdout(), "verifying {size} members on {hosts} hosts{between}");
        }
        plan.session(me)?;
        let (names, rounds, seconds) = (plan.names().join(", "), plan.rounds, start.elapsed().as_secs_f64());
        let text = format!(
            "{names}: {rounds} rounds ok, {size} members on {hosts} hosts{between}, {seconds:.1} seconds"
        );
        Ok(first.then_some(text))
    })?;
    let told = told.into_iter().collect::<Result<Vec<_>, String>>().map_err(Error::Refuted)?;
    Ok(told.into_iter().flatten().next().unwrap_or_default())
}

/// All algorithms in one team.
fn team(plan: &Plan, place: Places, members: usize) -> Result<()> {
    let (processes, threads) = place.shape(members);
    if place == Places::Hosts {
        // A prime number of members is a host each; else some hosts of several members, in two
        // processes if may be.
        let (hosts, each) = if processes == 1 { (members, 1) } else { (threads, processes) };
        let (processes, threads) = if each % 2 == 0 { (2, each / 2) } else { (1, each) };
        let latency =
            Conditions { jitter: Duration::from_micros(20), seed: members as u64, ..Conditions::default() };
        let servers = if members % 8 == 4 { 2 } else { 1 };
        let team = Team::hosts(hosts).processes(processes).servers(servers).threads(threads);
        // All live, though a loaded machine may keep a thread from a processor for long.
        let team = team.quiet().conditions(latency).timeout(PATIENCE);
        return refuted(team.run(|me| plan.session(me))?);
    }
    if processes == 0 {
        return refuted(Team::threads(threads).quiet().run(|me| plan.session(me))?);
    }
    let mut args = vec!["verify".to_owned(), plan.subject.word().to_owned(), "--session".to_owned()];
    args.extend(["--rounds".to_owned(), plan.rounds.to_string()]);
    args.extend(plan.only.iter().flat_map(|only| ["--only".to_owned(), only.clone()]));
    let team = Team::processes(processes).threads(threads).quiet().args(args);
    refuted(team.run(|me| plan.session(me))?)
}

/// The first member's finding, if there is any.
fn refuted(results: Vec<Result<(), String>>) -> Result<()> {
    results.into_iter().collect::<Result<Vec<()>, String>>().map(|_| ()).map_err(Error::Refuted)
}

fn table(plan: &Plan, places: &[Places], counts: &[usize], took: Duration) -> String {
    let names = plan.names();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}", plan.subject.word());
    for place in places {
        let _ = write!(text, "  {:>12}", place.word());
    }
    for name in &names {
        let _ = write!(text, "\n{name:width$}");
        for _ in places {
            let _ = write!(text, "  {:>12}", format!("{} ok", plan.rounds * counts.len() as u64));
        }
    }
    let counts = counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let promise = match plan.subject {
        Subject::Barrier => {
            "All values were there, every round was over before the next, and no member skipped one."
        }
        Subject::Lock => {
            "One at a time held each lock, no change was lost, and all got it in the order in which they asked."
        }
        Subject::Rma => {
            "Memory was as simulated, no member read what was stale, and nothing was done twice or not at all."
        }
        Subject::Farm => "Every task has ended once, with its result.",
    };
    let _ = write!(
        text,
        "\n\nRounds, with {counts} members. {promise}\n{:.1} seconds; in `both` the members are as many processes as threads \
         or fewer.",
        took.as_secs_f64()
    );
    text
}

/// What is wrong, with everything that is needed to find it.
fn finding(me: &Member, algorithm: &str, round: u64, what: std::fmt::Arguments<'_>) -> String {
    format!(
        "{algorithm}, {} members ({} processes of {} threads), round {round}, member {}: {what}",
        me.size(),
        me.processes(),
        me.threads(),
        me.rank()
    )
}
