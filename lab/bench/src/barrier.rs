//! `syncline-lab bench barrier`: barriers, ours and others', in turn.
//!
//! ```text
//! counter, ... auto             ours, in threads; those called "processes" in processes that share memory
//! counter, sense reversal       a textbook's, from `syncline_baselines`
//! std::sync::Barrier            Rust's standard library: a mutex and a condition
//! OpenMP barrier                gcc (libgomp) and clang (libomp), each by three policies of waiting   \
//! pthread_barrier               gcc                                                                    } compiled when
//! std::barrier                  g++: C++20                                                            /  the command runs
//! ```
//!
//! Measured are episodes back to back, and with work between: back to back, the last to arrive in
//! one episode arrives first in the next and finds the barrier's lines in its cache, which flatters
//! counters.

mod advice;

use std::path::Path;

use syncline_baselines::CounterBarrier;
use syncline_sync::{
    Auto, Barrier, BarrierMember, Combined, Counter, Dissemination, Flags, Space, SpaceError, Tournament,
};

use super::contest::{
    self, Bout, Contender, Contest, ContestArgs, Field, Fits, Inside, Measured, Ratio, Side, Source, Subject,
    Way,
};
use crate::error::Result;
use crate::stop::Signals;

/// Races barriers against one another, and against the time that a cache line takes between two
/// processors.
///
/// Peers in C and C++ are compiled with gcc, clang and g++ where these are installed (Debian: gcc
/// g++ clang libomp-dev) and skipped otherwise. OpenMP's barriers wait by three policies: their
/// default, active and passive. Times are wall times per episode, without the work between two.
/// Members have a processor each, if there are as many; if there are not (oversubscribed), the
/// system places them.
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
    fairness: false,
    field,
    ratios,
    more: || Some(advice::text()),
};

/// Runs the race; returns what to print.
pub(crate) fn barrier(args: &BenchBarrierArgs, signals: &Signals) -> Result<String> {
    contest::contest(&args.contest, &SUBJECT, signals)
}

/// Ours, in threads, and with how many members.
const OURS: [(&str, Fits, Inside); 8] = [
    ("counter", |_| true, |bout| ours(bout, Counter::within)),
    (
        "tournament, packed",
        |_| true,
        |bout| ours(bout, |space, n| Tournament::within(space, n, Flags::Packed)),
    ),
    (
        "tournament, padded",
        |_| true,
        |bout| ours(bout, |space, n| Tournament::within(space, n, Flags::Padded)),
    ),
    ("dissemination, packed", |_| true, |bout| disseminate(bout, 2, Flags::Packed)),
    ("dissemination, padded", |_| true, |bout| disseminate(bout, 2, Flags::Padded)),
    // With two members it is the same as with radix 2.
    ("dissemination, radix 4", |members| members > 2, |bout| disseminate(bout, 4, Flags::Packed)),
    ("combined, 2 groups", |members| members >= 4 && members.is_multiple_of(2), |bout| combined(bout)),
    (
        "auto",
        |_| true,
        |bout| {
            let processors = bout.processors();
            ours(bout, |space, members| Auto::within(space, members, processors))
        },
    ),
];

/// Ours, in processes.
const PROCESSES: [(&str, Way); 3] = [
    ("counter, processes", Way::Counter),
    ("auto, processes", Way::Auto),
    ("dissemination, processes", Way::Dissemination),
];

fn ours<B: Barrier>(
    bout: &Bout<'_>,
    make: impl FnOnce(&mut Space, usize) -> Result<B, SpaceError>,
) -> Result<Measured, String> {
    let barrier = make(&mut Space::heap(), bout.members).map_err(|error| error.to_string())?;
    wait_all(bout, |rank| barrier.member(rank))
}

fn disseminate(bout: &Bout<'_>, radix: usize, flags: Flags) -> Result<Measured, String> {
    ours(bout, |space, members| Dissemination::within(space, members, radix, flags))
}

/// A counter in each half, dissemination between the two.
fn combined(bout: &Bout<'_>) -> Result<Measured, String> {
    let half = bout.members / 2;
    let made = || {
        let outer = Dissemination::new(2)?;
        let group = |group| Ok(Combined::new(group, Counter::new(half)?, outer.clone()));
        (0..2).map(group).collect::<Result<Vec<_>, SpaceError>>()
    };
    let groups = made().map_err(|error| error.to_string())?;
    wait_all(bout, |rank| groups[rank / half].member(rank % half))
}

fn wait_all<M: BarrierMember>(
    bout: &Bout<'_>,
    member: impl Fn(usize) -> Result<M, SpaceError>,
) -> Result<Measured, String> {
    let members: Result<Vec<_>, _> = (0..bout.members).map(member).collect();
    let mut members = members.map_err(|error| error.to_string())?.into_iter();
    bout.meet(|_| {
        let mut member = members.next().expect("as many as there are members");
        // No member leaves before the end.
        move || member.wait().expect("a barrier that nobody leaves")
    })
}

/// Those of others that are threads of this process: a line each.
const INSIDE: [(&str, Side, Inside); 2] = [
    ("counter, sense reversal (Kadur, Kochar)", Side::Baseline, |bout| {
        let barrier = CounterBarrier::new(bout.members);
        bout.meet(|_| {
            let mut member = barrier.member();
            move || member.wait()
        })
    }),
    ("std::sync::Barrier", Side::Peer, |bout| {
        let barrier = std::sync::Barrier::new(bout.members);
        bout.meet(|_| {
            || {
                barrier.wait();
            }
        })
    }),
];

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

/// Those that are compiled.
static SOURCES: [Source; 8] = [
    openmp("OpenMP, libgomp (gcc)", "gcc", &[]),
    openmp("OpenMP, libgomp (gcc), active", "gcc", ACTIVE),
    openmp("OpenMP, libgomp (gcc), passive", "gcc", PASSIVE),
    openmp("OpenMP, libomp (clang)", "clang", &[]),
    openmp("OpenMP, libomp (clang), active", "clang", ACTIVE),
    openmp("OpenMP, libomp (clang), passive", "clang", PASSIVE),
    Source {
        name: "pthread_barrier",
        compiler: "gcc",
        file: PTHREAD,
        flags: &["-pthread"],
        form: &[],
        environment: &[],
    },
    Source {
        name: "std::barrier (g++)",
        compiler: "g++",
        file: STD,
        flags: &["-std=c++20", "-pthread"],
        form: &[],
        environment: &[],
    },
];

fn field(folder: &Path) -> Result<Field> {
    let mut field = Field::default();
    let ours = OURS.map(|(name, fits, run)| Contender::inside(name, Side::Ours, run).only(fits));
    field.contenders.extend(ours);
    for (name, way) in PROCESSES {
        field.contenders.push(Contender::processes(name, way)?);
    }
    field.contenders.extend(INSIDE.map(|(name, side, run)| Contender::inside(name, side, run)));
    contest::start(folder, &SOURCES, &mut field)?;
    Ok(field)
}

/// OpenMP's, by the policy of waiting that it has if nothing is said.
const OPENMP_DEFAULT: [&str; 2] = ["OpenMP, libgomp (gcc)", "OpenMP, libomp (clang)"];

fn ratios(race: &Contest) -> Vec<Ratio> {
    let hop = race.median_hop();
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
        Ratio::of("auto / std::barrier (g++), 8 members", auto, race.median("std::barrier (g++)", 8)),
        Ratio::of("auto / std::sync::Barrier, 8 members", auto, race.median("std::sync::Barrier", 8)),
        Ratio::of("auto / best OpenMP by default, 8 members", auto, race.best(&OPENMP_DEFAULT, 8)),
    ];
    let processes = race.processes_by_threads(&[
        ("counter", "counter, processes"),
        ("auto", "auto, processes"),
        ("dissemination, padded", "dissemination, processes"),
    ]);
    ratios.into_iter().flatten().chain(processes).collect()
}
