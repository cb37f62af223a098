//! Checks that barriers, locks, one-sided memory and pools keep their contracts on this machine, in
//! every place.
//!
//! ```text
//! Suite::run(place, members)     a team: threads, processes, both, or hosts that exchange messages
//!   in every member, session()   one algorithm after the other, in the same memory
//!     rounds                     each member checks each round: `barrier`, `lock`, `rma`, `farm`
//! ```
//!
//! A session keeps no log. The values that it compares (values, times, rounds) stay in the team's
//! memory only as long as other members may compare with them, so ten million rounds take no more
//! memory than two.
//!
//! # Source
//! Kadur and Kochar's method for barriers (barriers.txt, "Experimentation methodology"): change a
//! variable, pass the barrier, print value, time and rank; values agree, the greatest time of a
//! round is below the least of the next, no member skips a round. Here the members compare instead
//! of printing. One-sided memory is compared with a memory that every member simulates.

mod barrier;
mod farm;
mod lock;
mod overlay;
mod rma;
mod scene;
mod sweep;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::time::{Duration, Instant};

use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team, TeamError};

/// The subject of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every barrier: no member leaves one before all have arrived.
    Barrier,
    /// Every lock: one member at a time holds it, in the order of their requests.
    Lock,
    /// One-sided memory: every operation, and every way to complete operations.
    Rma,
    /// Pools of the members of a team: every task ends once, with its result.
    Farm,
    /// Overlays on a team: the results are those of their runs on threads.
    Overlay,
    /// Sweeps on a team: the results are those of the plain double loop.
    Sweep,
}

impl Subject {
    /// Returns the names of its algorithms or parts, in the order in which a session runs them.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Barrier => barrier::ALGORITHMS.iter().map(|&(name, _)| name).collect(),
            Self::Lock => lock::ALGORITHMS.iter().map(|&(name, _)| name).collect(),
            Self::Rma => rma::PARTS.iter().map(|&(name, _)| name).collect(),
            Self::Farm => farm::PARTS.iter().map(|&(name, _)| name).collect(),
            Self::Overlay => overlay::PARTS.iter().map(|&(name, _)| name).collect(),
            Self::Sweep => sweep::KERNELS.to_vec(),
        }
    }

    /// Returns whether it can be verified between members on several hosts.
    #[must_use]
    pub fn is_far(self) -> bool {
        matches!(self, Self::Rma | Self::Farm | Self::Overlay | Self::Sweep)
    }

    /// Returns its name in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Lock => "lock",
            Self::Rma => "rma",
            Self::Farm => "farm",
            Self::Overlay => "overlay",
            Self::Sweep => "sweep",
        }
    }
}

/// The place of the members of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamKind {
    /// Threads of one process.
    Threads,
    /// One process per member.
    Processes,
    /// Several threads in each of several processes.
    Both,
    /// Several hosts, simulated by groups of threads.
    Hosts,
}

impl TeamKind {
    /// Returns the places in which a subject can be verified.
    #[must_use]
    pub fn all(subject: Subject) -> Vec<TeamKind> {
        let mut all = vec![TeamKind::Threads, TeamKind::Processes, TeamKind::Both];
        all.extend(subject.is_far().then_some(TeamKind::Hosts));
        all
    }

    /// Returns its name in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TeamKind::Threads => "threads",
            TeamKind::Processes => "processes",
            TeamKind::Both => "both",
            TeamKind::Hosts => "hosts",
        }
    }

    /// Returns the number of processes, and of threads in each.
    fn shape(self, members: usize) -> (usize, usize) {
        match self {
            TeamKind::Threads => (0, members),
            TeamKind::Processes => (members, 1),
            // As square as possible, with at least as many threads as processes; a prime number of
            // members is one process.
            TeamKind::Both | TeamKind::Hosts => {
                let divides = |&processes: &usize| members.is_multiple_of(processes);
                let processes = (1..=members.isqrt()).rev().find(divides).unwrap_or(1);
                (processes, members / processes)
            }
        }
    }
}

/// The reason why a suite fails, or could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A contract is broken; the text has the algorithm, the members, the round and the fault.
    #[error("{0}")]
    Refuted(String),
    /// The team could not be started, or a member of it has failed.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// A verification: its subject, its length and its selection.
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
    /// The subject.
    pub subject: Subject,
    /// The number of rounds of each algorithm.
    pub rounds: u64,
    /// Restricts the suite to algorithms whose name contains this text.
    pub only: Option<String>,
}

/// The maximum time of a wait in a session; a wait that takes longer is considered to never end. It
/// must not pass on a machine that runs other programs, too.
const PATIENCE: Duration = Duration::from_secs(300);

fn deadline() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

impl Suite {
    /// Returns the names of the algorithms that the suite verifies.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.subject.names().into_iter().filter(|name| self.includes(name)).collect()
    }

    fn includes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Runs one member's part in an existing team.
    ///
    /// # Collective
    /// All members of the team call it with the same suite.
    ///
    /// # Errors
    /// The fault, with the algorithm, the round and the member.
    pub fn session(&self, me: &mut Member) -> Result<(), String> {
        match self.subject {
            Subject::Barrier => barrier::session(me, self),
            Subject::Lock => lock::session(me, self),
            Subject::Rma => rma::session(me, self),
            Subject::Farm => farm::session(me, self),
            Subject::Overlay => overlay::session(me, self),
            Subject::Sweep => sweep::session(me, self),
        }
    }

    /// Verifies all algorithms in one team with this number of members.
    ///
    /// In [`TeamKind::Processes`] and [`TeamKind::Both`] the processes run this program again with
    /// the arguments `again`. With these it must call [`session`](Self::session) with the same
    /// suite in
    /// [`Team::run`].
    ///
    /// # Errors
    /// [`Error::Refuted`] with the finding of the first member that has one; [`Error::Team`].
    pub fn run(&self, place: TeamKind, members: usize, again: &[String]) -> Result<(), Error> {
        let (processes, threads) = place.shape(members);
        let session = |me: &mut Member| self.session(me);
        let results = if place == TeamKind::Hosts {
            // With a prime number of members, each is on its own host. Otherwise several hosts have
            // several members each, in two processes if the number of members per host is even.
            let (hosts, each) = if processes == 1 { (members, 1) } else { (threads, processes) };
            let (processes, threads) = if each % 2 == 0 { (2, each / 2) } else { (1, each) };
            let latency = Conditions {
                jitter: Duration::from_micros(20),
                seed: members as u64,
                ..Conditions::default()
            };
            let servers = if members % 8 == 4 { 2 } else { 1 };
            let team = Team::hosts(hosts).processes(processes).servers(servers).threads(threads);
            // All members are alive, although a loaded machine may keep a thread from running for
            // long.
            team.quiet().conditions(latency).timeout(PATIENCE).run(session)?
        } else if processes == 0 {
            Team::threads(threads).quiet().run(session)?
        } else {
            Team::processes(processes).threads(threads).quiet().args(again).run(session)?
        };
        results.into_iter().collect::<Result<(), String>>().map_err(Error::Refuted)
    }
}

/// Formats a finding with all facts that are needed to reproduce it.
fn finding(me: &Member, algorithm: &str, round: u64, what: std::fmt::Arguments<'_>) -> String {
    format!(
        "{algorithm}, {} members ({} processes of {} threads), round {round}, member {}: {what}",
        me.size(),
        me.processes(),
        me.threads(),
        me.rank()
    )
}
