//! `syncline bench barrier`: barriers, ours and others', in turn.
//!
//! ```text
//! counter, sense reversal       a textbook's, from `syncline_baselines`
//! std::sync::Barrier            Rust's standard library: a mutex and a condition
//! OpenMP barrier                gcc (libgomp) and clang (libomp), each by three policies of waiting   \
//! pthread_barrier               gcc                                                                    } compiled when
//! std::barrier                  g++: C++20                                                            /  the command runs
//! ```
//!
//! Measured are episodes back to back, and with work between: back to back, who arrives last in one episode arrives
//! first in the next and finds the barrier's lines in its cache, which flatters counters.

use std::path::Path;

use syncline_baselines::CounterBarrier;

use super::contest::{self, Contender, ContestArgs, Field, Inside, Side, Source, Subject};
use crate::error::Result;
use crate::watch::Signals;

/// Races barriers against one another, and against the time that a cache line takes between two processors.
///
/// Peers in C and C++ are compiled with gcc, clang and g++ where these are installed (Debian: gcc g++ clang
/// libomp-dev) and skipped otherwise. OpenMP's barriers wait by three policies: their default, active and passive.
/// Times are wall times per episode, without the work between two. Members have a processor each, if there
/// are as many; if there are not (oversubscribed), the system places them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline bench barrier [OPTIONS]",
    after_long_help = "\
Examples:
  syncline bench barrier --quick
  syncline bench barrier --members 2,3,4,6,8,12,16,24,32 --rounds 20
  syncline bench barrier --members 2 --json"
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
    more: || None,
};

/// Runs the race; returns what to print.
pub(crate) fn barrier(args: &BenchBarrierArgs, signals: &Signals) -> Result<String> {
    contest::contest(&args.contest, &SUBJECT, signals)
}

/// Those that are threads of this process: a line each.
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

const OPENMP: (&str, &str) = ("barrier_openmp.c", include_str!("../../../../bench/peers/barrier_openmp.c"));
const PTHREAD: (&str, &str) =
    ("barrier_pthread.c", include_str!("../../../../bench/peers/barrier_pthread.c"));
const STD: (&str, &str) = ("barrier_std.cpp", include_str!("../../../../bench/peers/barrier_std.cpp"));

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
    field.contenders.extend(INSIDE.map(|(name, side, run)| Contender::inside(name, side, run)));
    contest::start(folder, &SOURCES, &mut field)?;
    Ok(field)
}
