//! Barriers, locks, one-sided memory and pools do what they promise, on this machine, in every
//! place.
//!
//! ```text
//! Suite::run(place, members)       a team: threads, processes, both, or hosts with messages between them
//!   in every member, session()     one algorithm after the other, in the same memory
//!     rounds                       each member checks each round: see `barrier`, `lock`, `rma`, `farm`
//! ```
//!
//! A session writes nothing down to be looked at later: what it compares (values, times, rounds)
//! stands in the team's memory for as long as other members may compare with it. So ten million
//! rounds take no more memory than two.
//!
//! # Source
//! Kadur and Kochar's method for barriers (barriers.txt, "Experimentation methodology"): change a
//! variable, pass the barrier, print value, time and rank; values agree, the greatest time of a
//! round is below the least of the next, no member skips a round. Here the members compare instead
//! of printing. One-sided memory is held against a memory that every member simulates.

mod barrier;
mod farm;
mod lock;
mod rma;
mod scene;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::time::{Duration, Instant};

use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team, TeamError};

/// What a suite verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every barrier: no member leaves one before all have come.
    Barrier,
    /// Every lock: one member at a time holds it, in the order in which they asked.
    Lock,
    /// One-sided memory: every operation, and everything that completes operations.
    Rma,
    /// Pools of the members of a team: every task ends once, with its result.
    Farm,
}

impl Subject {
    /// The names of its algorithms or parts, in the order in which a session goes through them.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Barrier => barrier::ALGORITHMS.iter().map(|&(name, _)| name).collect(),
            Self::Lock => lock::ALGORITHMS.iter().map(|&(name, _)| name).collect(),
            Self::Rma => rma::PARTS.iter().map(|&(name, _)| name).collect(),
            Self::Farm => farm::PARTS.iter().map(|&(name, _)| name).collect(),
        }
    }

    /// Whether members on several hosts can have it.
    #[must_use]
    pub fn is_far(self) -> bool {
        matches!(self, Self::Rma | Self::Farm)
    }

    /// Its name in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Lock => "lock",
            Self::Rma => "rma",
            Self::Farm => "farm",
        }
    }
}

/// Where the members of a team are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamKind {
    /// Threads of one process.
    Threads,
    /// A process each.
    Processes,
    /// Several threads in each of several processes.
    Both,
    /// On several hosts, which are groups of threads here.
    Hosts,
}

impl TeamKind {
    /// The places in which a subject can be verified.
    #[must_use]
    pub fn all(subject: Subject) -> Vec<TeamKind> {
        let mut all = vec![TeamKind::Threads, TeamKind::Processes, TeamKind::Both];
        all.extend(subject.is_far().then_some(TeamKind::Hosts));
        all
    }

    /// Its name in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TeamKind::Threads => "threads",
            TeamKind::Processes => "processes",
            TeamKind::Both => "both",
            TeamKind::Hosts => "hosts",
        }
    }

    /// Processes, and threads in each.
    fn shape(self, members: usize) -> (usize, usize) {
        match self {
            TeamKind::Threads => (0, members),
            TeamKind::Processes => (members, 1),
            // As square as may be, and not fewer threads than processes; a prime number is one
            // process.
            TeamKind::Both | TeamKind::Hosts => {
                let divides = |&processes: &usize| members.is_multiple_of(processes);
                let processes = (1..=members.isqrt()).rev().find(divides).unwrap_or(1);
                (processes, members / processes)
            }
        }
    }
}

/// Why a suite does not hold, or could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something does not do what it promises: the algorithm, the members, the round, and what is
    /// wrong.
    #[error("{0}")]
    Refuted(String),
    /// The team could not be started, or a member of it has failed.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// What is verified, and for how long.
///
/// ```
/// use syncline_conformance::{TeamKind, Subject, Suite};
///
/// let suite = Suite { subject: Subject::Lock, rounds: 20, only: None };
/// suite.run(TeamKind::Threads, 3, &[])?;
/// # Ok::<(), syncline_conformance::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Suite {
    /// What is verified.
    pub subject: Subject,
    /// Rounds of each algorithm.
    pub rounds: u64,
    /// Only algorithms whose name contains this.
    pub only: Option<String>,
}

/// How long a wait in a session may take: a wait that takes longer never ends.
const PATIENCE: Duration = Duration::from_secs(60);

fn deadline() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

impl Suite {
    /// The names of the algorithms that it verifies.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.subject.names().into_iter().filter(|name| self.includes(name)).collect()
    }

    fn includes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// One member's part, in a team that exists.
    ///
    /// # Collective
    /// All members of the team call it with the same suite.
    ///
    /// # Errors
    /// What is wrong, with the algorithm, the round and the member.
    pub fn session(&self, me: &mut Member) -> Result<(), String> {
        match self.subject {
            Subject::Barrier => barrier::session(me, self),
            Subject::Lock => lock::session(me, self),
            Subject::Rma => rma::session(me, self),
            Subject::Farm => farm::session(me, self),
        }
    }

    /// Verifies all algorithms in one team of this many members.
    ///
    /// In [`TeamKind::Processes`] and [`TeamKind::Both`] the processes are this program again with the
    /// arguments `again`, which must call [`session`](Self::session) with the same suite in
    /// [`Team::run`].
    ///
    /// # Errors
    /// [`Error::Refuted`] with the finding of the first member that has one; [`Error::Team`].
    pub fn run(&self, place: TeamKind, members: usize, again: &[String]) -> Result<(), Error> {
        let (processes, threads) = place.shape(members);
        let session = |me: &mut Member| self.session(me);
        let results = if place == TeamKind::Hosts {
            // A prime number of members is a host each; else some hosts of several members, in two
            // processes where the members of a host are an even number.
            let (hosts, each) = if processes == 1 { (members, 1) } else { (threads, processes) };
            let (processes, threads) = if each % 2 == 0 { (2, each / 2) } else { (1, each) };
            let latency = Conditions {
                jitter: Duration::from_micros(20),
                seed: members as u64,
                ..Conditions::default()
            };
            let servers = if members % 8 == 4 { 2 } else { 1 };
            let team = Team::hosts(hosts).processes(processes).servers(servers).threads(threads);
            // All live, though a loaded machine may keep a thread from a processor for long.
            team.quiet().conditions(latency).timeout(PATIENCE).run(session)?
        } else if processes == 0 {
            Team::threads(threads).quiet().run(session)?
        } else {
            Team::processes(processes).threads(threads).quiet().args(again).run(session)?
        };
        results.into_iter().collect::<Result<(), String>>().map_err(Error::Refuted)
    }
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
