//! `syncline-lab bench lock`: races locks, ours and others'.
//!
//! ```text
//! ticket, mcs                           ours: in threads or, if called "processes", in processes
//! location, by handles                  ours: a request in a location's queue for each addition
//! test-and-set, ... array lock          textbook locks, from `baselines`
//! std::sync::Mutex                      Rust's standard library
//! parking_lot Mutex and FairMutex       the crate; the fair one is handed over in order
//! pthread_mutex, pthread_spin           gcc, compiled when the command runs
//! ```
//!
//! The critical section is one addition to a plain counter. A lock that one thread can take many
//! times in a row looks fast, because the counter stays in one cache: so a column shows the
//! fairness, the least share divided by the greatest.

use std::sync::Mutex;

use crate::baselines::{ArrayLock, Guarded, Lock as Textbook, TestAndSet, TestAndTestAndSet};
use syncline_overlay::Location;
use syncline_sync::{Lock, Mcs, Ticket, lock::RawLock};

use crate::contest::{
    self, ANY, Bout, Contest, ContestArgs, Fits, Inside, Measured, Ratio, Source, Subject, Way,
};
use crate::error::Result;
use crate::race::Side;
use crate::stop::Signals;

/// Races locks against one another, and against the time that a cache line takes between two
/// processors.
///
/// Peers in C are compiled with gcc where it is installed, and skipped otherwise, with the line
/// that installs it. Everything is run 200 times; with --quick as often as a minute allows, at most
/// 30 times. Times are wall times per lock and unlock around one addition; fairness is the least
/// share of a thread divided by the greatest: compare locks of equal fairness. Each thread has its
/// own processor, if there are enough; if there are not (oversubscribed), the system places the
/// threads.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench lock [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench lock --quick
  syncline-lab bench lock --members 1,2,4,8,16,32 --rounds 20
  syncline-lab bench lock --members 2 --json"
)]
pub(crate) struct BenchLockArgs {
    #[command(flatten)]
    contest: ContestArgs,
}

static SUBJECT: Subject = Subject {
    what: "locks: ns of wall time per lock and unlock, around one addition",
    unit: "thread",
    members: |processors| vec![1, 2, processors, 4 * processors],
    works: &[0.0],
    milliseconds: 20,
    inside: &INSIDE,
    processes: &PROCESSES,
    sources: &SOURCES,
    ratios,
    more: || None,
};

/// Runs the race; returns the text to print.
pub(crate) fn lock(args: &BenchLockArgs, signals: &Signals) -> Result<String> {
    contest::contest(&args.contest, &SUBJECT, signals)
}

/// The contenders that are threads of this process.
static INSIDE: [(&str, Side, Fits, Inside); 9] = [
    ("ticket", Side::Ours, ANY, ours::<Ticket>),
    ("mcs", Side::Ours, ANY, ours::<Mcs>),
    ("location, by handles", Side::Ours, ANY, |bout| {
        let location = Location::new("counter", 0_u64);
        let shares = bout.contend(|_| {
            let mut writer = location.writer();
            // No member panics, so the location is never poisoned.
            move || *writer.acquire().expect("a location that no member poisons") += 1
        })?;
        shares.with(location.into_inner().map_err(|_| "a handle was left")?)
    }),
    ("test-and-set", Side::Baseline, ANY, |bout| baseline(bout, TestAndSet::new())),
    ("test-and-test-and-set, backoff", Side::Baseline, ANY, |bout| {
        baseline(bout, TestAndTestAndSet::new())
    }),
    ("array lock (Anderson)", Side::Baseline, ANY, |bout| {
        baseline(bout, ArrayLock::new(bout.members))
    }),
    ("std::sync::Mutex", Side::Peer, ANY, |bout| {
        let counter = Mutex::new(0);
        let shares =
            bout.contend(|_| || *counter.lock().unwrap_or_else(|error| error.into_inner()) += 1)?;
        shares.with(counter.into_inner().unwrap_or_else(|error| error.into_inner()))
    }),
    ("parking_lot Mutex", Side::Peer, ANY, |bout| {
        let counter = parking_lot::Mutex::new(0);
        let shares = bout.contend(|_| || *counter.lock() += 1)?;
        shares.with(counter.into_inner())
    }),
    ("parking_lot FairMutex", Side::Peer, ANY, |bout| {
        let counter = parking_lot::FairMutex::new(0);
        let shares = bout.contend(|_| || *counter.lock() += 1)?;
        shares.with(counter.into_inner())
    }),
];

/// Our locks, in processes.
static PROCESSES: [(&str, Way); 2] =
    [("ticket, processes", Way::Ticket), ("mcs, processes", Way::Mcs)];

fn ours<R: RawLock>(bout: &Bout<'_>) -> Result<Measured> {
    let lock = Lock::<R, u64>::new(bout.members, 0)?;
    let shares = bout.contend(|rank| {
        let mut member = lock.member(rank).expect("a rank that no member has");
        // No member panics, so the lock is never poisoned.
        move || *member.lock().expect("a lock that no member poisons") += 1
    })?;
    let mut member = lock.member(0)?;
    shares.with(*member.lock()?)
}

fn baseline<L: Textbook>(bout: &Bout<'_>, lock: L) -> Result<Measured> {
    let counter = Guarded::new(lock, 0);
    let shares = bout.contend(|_| || counter.with(|n| *n += 1))?;
    shares.with(counter.into_inner())
}

const PTHREAD: (&str, &str) = ("lock_pthread.c", include_str!("../../peers/lock_pthread.c"));

const fn pthread(name: &'static str, form: &'static [&'static str]) -> Source {
    Source { name, compiler: "gcc", file: PTHREAD, flags: &["-pthread"], form, environment: &[] }
}

/// The contenders that are compiled.
static SOURCES: [Source; 2] =
    [pthread("pthread_mutex", &["mutex"]), pthread("pthread_spin", &["spin"])];

fn ratios(race: &Contest) -> Vec<Ratio> {
    let (hop, processors) = (race.hop(), race.processors());
    let alone = race.median("std::sync::Mutex", 1);
    let mut ratios =
        vec![Ratio::of("ticket / std::sync::Mutex, 1 thread", race.median("ticket", 1), alone)];
    for way in ["ticket", "mcs"] {
        ratios.push(Ratio::of(format!("{way} / H, 2 threads"), race.median(way, 2), hop));
        ratios.push(Ratio::just(
            format!("{way}, 2 threads: fairness"),
            race.median(&format!("{way}: fairness"), 2),
        ));
    }
    for way in ["ticket", "mcs"].into_iter().filter(|_| processors < 8) {
        let what = format!("{way}, 8 threads on {processors} processors: us for each hand-over");
        ratios.push(Ratio::just(what, race.median(way, 8).map(|ns| ns / 1e3)));
    }
    let processes = [("ticket", "ticket, processes"), ("mcs", "mcs, processes")];
    ratios.into_iter().flatten().chain(race.processes_by_threads(&processes)).collect()
}
