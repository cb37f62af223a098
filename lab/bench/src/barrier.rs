//! `syncline-lab bench barrier`: races barriers, ours and others'.
//!
//! ```text
//! counter, ... auto          ours: in threads or, if called "processes", in processes
//! counter, sense reversal    a textbook's, from `baselines`
//! std::sync::Barrier         Rust's standard library: a mutex and a condition variable
//! OpenMP barrier             gcc (libgomp) and clang (libomp), each with three wait policies
//! pthread_barrier            gcc
//! std::barrier               g++: C++20
//! ```
//!
//! The last three are compiled when the command runs. Episodes are measured back to back, and with
//! work between them: back to back, the last member to arrive in one episode arrives first in the
//! next and finds the barrier's lines in its cache, which flatters counters.

mod advice;

use std::path::Path;

use crate::baselines::CounterBarrier;
use syncline_sync::{
    Auto, Barrier, BarrierMember, Space, SpaceError,
    barrier::{Combined, Counter, Dissemination, Tournament},
    board::Flags,
};

use crate::contest::{
    self, ANY, Bout, Contest, ContestArgs, Fits, Inside, Measured, Ratio, Source, Subject, Way,
};
use crate::error::Result;
use crate::race::Side;
use crate::stop::Signals;

/// Races barriers against one another, and against the time that a cache line takes between two
/// processors.
///
/// Peers in C and C++ are compiled with gcc, clang and g++ where these are installed, and skipped
/// otherwise, with the line that installs them. Everything is run 200 times; with --quick as often
/// as a minute allows, at most 30 times. OpenMP's barriers have three wait policies: their default,
/// active and passive. Times are wall times per episode, without the work between two. Each member
/// has its own processor, if there are enough; if there are not (oversubscribed), the system places
/// the members.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench barrier [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench barrier --quick
  syncline-lab bench barrier --members 2,3,4,6,8,12,16,24,32 --rounds 20
  syncline-lab bench barrier --members 2 --json"
)]
pub(crate) struct BenchBarrierArgs {
    #[command(flatten)]
    contest: ContestArgs,
}

static SUBJECT: Subject = Subject {
    what: "barriers: ns of wall time per episode, without the work between",
    unit: "member",
    members: |processors| vec![2, processors.max(2), 4 * processors],
    works: &[0.0, 500.0],
    milliseconds: 5,
    inside: &INSIDE,
    processes: &PROCESSES,
    sources: &SOURCES,
    ratios,
    more: || Some(advice::text()),
};

/// Runs the race; returns the text to print.
pub(crate) fn barrier(args: &BenchBarrierArgs, signals: &Signals) -> Result<String> {
    contest::contest(&args.contest, &SUBJECT, signals)
}

/// Races these contenders alone: see [`contest::race_of`].
///
/// # Errors
/// Those of a race.
pub(crate) fn race_of(
    only: &[&str],
    members: &[usize],
    pace: (usize, usize),
    folder: &Path,
    signals: &Signals,
) -> Result<Contest> {
    contest::race_of(&SUBJECT, only, members, pace, folder, signals)
}

/// The contenders that are threads of this process, and the numbers of members that they support.
static INSIDE: [(&str, Side, Fits, Inside); 10] = [
    ("counter", Side::Ours, ANY, |bout| ours(bout, Counter::within)),
    ("tournament, packed", Side::Ours, ANY, |bout| tournament(bout, Flags::Packed)),
    ("tournament, padded", Side::Ours, ANY, |bout| tournament(bout, Flags::Padded)),
    ("dissemination, packed", Side::Ours, ANY, |bout| disseminate(bout, 2, Flags::Packed)),
    ("dissemination, padded", Side::Ours, ANY, |bout| disseminate(bout, 2, Flags::Padded)),
    // With two members it would equal radix 2.
    (
        "dissemination, radix 4",
        Side::Ours,
        |members| members > 2,
        |bout| disseminate(bout, 4, Flags::Packed),
    ),
    (
        "combined, 2 groups",
        Side::Ours,
        |members| members >= 4 && members.is_multiple_of(2),
        combined,
    ),
    ("auto", Side::Ours, ANY, |bout| {
        let processors = bout.processors();
        ours(bout, |space, members| Auto::within(space, members, processors))
    }),
    ("counter, sense reversal (Kadur, Kochar)", Side::Baseline, ANY, |bout| {
        let barrier = CounterBarrier::new(bout.members);
        bout.meet(|_| {
            let mut member = barrier.member();
            move || member.wait()
        })
    }),
    ("std::sync::Barrier", Side::Peer, ANY, |bout| {
        let barrier = std::sync::Barrier::new(bout.members);
        bout.meet(|_| {
            || {
                barrier.wait();
            }
        })
    }),
];

/// Our barriers, in processes.
static PROCESSES: [(&str, Way); 3] = [
    ("counter, processes", Way::Counter),
    ("auto, processes", Way::Auto),
    ("dissemination, processes", Way::Dissemination),
];

fn ours<B: Barrier>(
    bout: &Bout<'_>,
    make: impl FnOnce(&mut Space, usize) -> Result<B, SpaceError>,
) -> Result<Measured> {
    let barrier = make(&mut Space::heap(), bout.members)?;
    wait_all(bout, |rank| barrier.member(rank))
}

fn tournament(bout: &Bout<'_>, flags: Flags) -> Result<Measured> {
    ours(bout, |space, members| Tournament::within(space, members, flags))
}

fn disseminate(bout: &Bout<'_>, radix: usize, flags: Flags) -> Result<Measured> {
    ours(bout, |space, members| Dissemination::within(space, members, radix, flags))
}

/// A counter in each half, dissemination between the halves.
fn combined(bout: &Bout<'_>) -> Result<Measured> {
    let half = bout.members / 2;
    let outer = Dissemination::new(2)?;
    let group = |group| Ok(Combined::new(group, Counter::new(half)?, outer.clone()));
    let groups = (0..2).map(group).collect::<Result<Vec<_>, SpaceError>>()?;
    wait_all(bout, |rank| groups[rank / half].member(rank % half))
}

fn wait_all<M: BarrierMember>(
    bout: &Bout<'_>,
    member: impl Fn(usize) -> Result<M, SpaceError>,
) -> Result<Measured> {
    let mut members = (0..bout.members).map(member).collect::<Result<Vec<_>, _>>()?.into_iter();
    bout.meet(|_| {
        let mut member = members.next().expect("as many as there are members");
        // No member leaves before the end.
        move || member.wait().expect("a barrier that no member leaves")
    })
}

const OPENMP: (&str, &str) = ("barrier_openmp.c", include_str!("../../peers/barrier_openmp.c"));
const PTHREAD: (&str, &str) = ("barrier_pthread.c", include_str!("../../peers/barrier_pthread.c"));
const STD: (&str, &str) = ("barrier_std.cpp", include_str!("../../peers/barrier_std.cpp"));

const ACTIVE: &[(&str, &str)] = &[("OMP_WAIT_POLICY", "active")];
const PASSIVE: &[(&str, &str)] = &[("OMP_WAIT_POLICY", "passive")];

const fn openmp(
    name: &'static str,
    compiler: &'static str,
    environment: &'static [(&'static str, &'static str)],
) -> Source {
    Source { name, compiler, file: OPENMP, flags: &["-fopenmp"], form: &[], environment }
}

/// The contenders that are compiled.
static SOURCES: [Source; 8] = [
    openmp("OpenMP, libgomp (gcc)", "gcc", &[]),
    openmp("OpenMP, libgomp (gcc), active", "gcc", ACTIVE),
    openmp("OpenMP, libgomp (gcc), passive", "gcc", PASSIVE),
    openmp("OpenMP, libomp (clang)", "clang", &[]),
    openmp("OpenMP, libomp (clang), active", "clang", ACTIVE),
    openmp("OpenMP, libomp (clang), passive", "clang", PASSIVE),
    Source { flags: &["-pthread"], file: PTHREAD, ..openmp("pthread_barrier", "gcc", &[]) },
    Source {
        flags: &["-std=c++20", "-pthread"],
        file: STD,
        ..openmp("std::barrier (g++)", "g++", &[])
    },
];

/// OpenMP's barriers with their default wait policy.
pub(crate) const OPENMP_DEFAULT: [&str; 2] = ["OpenMP, libgomp (gcc)", "OpenMP, libomp (clang)"];

fn ratios(race: &Contest) -> Vec<Ratio> {
    let hop = race.hop();
    let openmp: Vec<_> =
        SOURCES.iter().filter(|source| source.file == OPENMP).map(|source| source.name).collect();
    let dissemination = race.best(&["dissemination, packed", "dissemination, padded"], 2);
    let tournament = race.best(&["tournament, packed", "tournament, padded"], 2);
    let auto = race.median("auto", 8);
    let ratios = [
        Ratio::of("best of ours / H, 2 members back to back", race.best_of_ours(2), hop),
        Ratio::of(
            "best of ours / best OpenMP, 2 members back to back",
            race.best_of_ours(2),
            race.best(&openmp, 2),
        ),
        Ratio::of("dissemination, best flags / H, 2 members back to back", dissemination, hop),
        Ratio::of("tournament, best flags / H, 2 members back to back", tournament, hop),
        Ratio::of(
            "auto / std::barrier (g++), 8 members",
            auto,
            race.median("std::barrier (g++)", 8),
        ),
        Ratio::of(
            "auto / std::sync::Barrier, 8 members",
            auto,
            race.median("std::sync::Barrier", 8),
        ),
        Ratio::of("auto / best OpenMP by default, 8 members", auto, race.best(&OPENMP_DEFAULT, 8)),
    ];
    let processes = race.processes_by_threads(&[
        ("counter", "counter, processes"),
        ("auto", "auto, processes"),
        ("dissemination, padded", "dissemination, processes"),
    ]);
    ratios.into_iter().flatten().chain(processes).collect()
}
