//! Our contenders in processes: the server side, as a subcommand that the help does not list.
//!
//! ```text
//! the race  ── RUN 4 5 0 ──>  bench-member counter ── launches 4 of ──> bench-member counter --run
//!           <── NS AS_WANTED [SHARE...] ── the standard output of both ─────── member 0
//! ```
//!
//! Each run is a team of its own, so that no idle member wakes up beside others. The loops of the
//! members are those of threads (`meet`, `contend`); their words are in the memory that the team
//! shares.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use syncline_fabric::{Launcher, Member, Team};
use syncline_sync::{
    Auto, BarrierMember, Lock, Mcs, SpaceError, Ticket,
    barrier::{Counter, Dissemination},
    board::Flags,
    lock::RawLock,
    space::Array,
};

use super::contend::{Shares, compete};
use super::meet::{Board, WRONG, attend};
use super::{Bout, Measured};
use crate::error::{Result, Usage, failed};
use crate::places::Places;
use crate::race::{Line, Phase};

/// Takes part in a race, as requested by `bench barrier` or `bench lock` on standard input.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BenchMemberArgs {
    /// The subject of the race
    #[arg(value_enum)]
    way: Way,
    /// The run of which this process is a member
    #[arg(long, value_name = "LINE")]
    run: Option<String>,
}

/// A barrier or a lock of ours that processes race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    Counter,
    Auto,
    Dissemination,
    Ticket,
    Mcs,
}

/// The name of the subcommand.
const NAME: &str = "bench-member";

impl Way {
    /// Returns the name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns this command, as the server process that races this way.
    pub(super) fn command(self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        // The tables already report that members outnumber processors.
        command.args([NAME, &self.name()]).env("SYNCLINE_QUIET", "1");
        Ok(command)
    }
}

/// `syncline-lab bench-member`: answers one line after another, or is a member of the team that
/// does.
pub(crate) fn member(BenchMemberArgs { way, run }: &BenchMemberArgs) -> Result<()> {
    if let Some(line) = run {
        // The race reports members that are not pinned.
        let places = Places::of_this_thread().unwrap_or_else(|_| Places::none());
        let bout = parse(line, &places)?;
        let parts = Team::run(|me| part(me, *way, &Bout { members: me.size(), ..bout }))?;
        return parts
            .into_iter()
            .collect::<Result<()>>()
            .map_err(|why| failed("take part in a race", why));
    }
    let program = std::env::current_exe()?;
    for line in io::stdin().lines() {
        let line = line?;
        let Bout { members, .. } = parse(&line, &Places::none())?;
        Launcher::new(&program)
            .args([NAME, &way.name(), "--run", &line])
            .processes(members)
            .run()?;
    }
    Ok(())
}

fn parse<'p>(line: &str, places: &'p Places) -> Result<Bout<'p>> {
    let numbers = || {
        let mut words = line.split_whitespace();
        let run = words.next() == Some("RUN");
        let (members, milliseconds) =
            (words.next()?.parse().ok()?, words.next()?.parse::<f64>().ok()?);
        let work_ns = words.next()?.parse().ok()?;
        let time = Duration::try_from_secs_f64(milliseconds * 1e-3).ok()?;
        (run && words.next().is_none()).then_some(Bout { places, members, work_ns, time })
    };
    let usage =
        || Usage(format!("RUN MEMBERS MILLISECONDS WORK_NS is expected, not {line:?}")).into();
    numbers().ok_or_else(usage)
}

/// Runs a member's part.
fn part(me: &mut Member, way: Way, bout: &Bout<'_>) -> Result<()> {
    match way {
        Way::Counter => {
            let barrier = me.make(Counter::within)?;
            meet(me, bout, barrier)
        }
        Way::Auto => {
            let barrier =
                me.make(|space, members| Auto::within(space, members, bout.processors()))?;
            meet(me, bout, barrier)
        }
        Way::Dissemination => {
            let barrier =
                me.make(|space, members| Dissemination::within(space, members, 2, Flags::Padded))?;
            meet(me, bout, barrier)
        }
        Way::Ticket => contend::<Ticket>(me, bout),
        Way::Mcs => contend::<Mcs>(me, bout),
    }
}

/// Returns words that all members of a run share.
fn words<const N: usize>(me: &mut Member) -> Result<[Array<Line<AtomicU64>>; N], SpaceError> {
    let size = me.size();
    let words = (0..N).map(|_| me.space().array(size)).collect::<Result<Vec<_>, _>>()?;
    Ok(words.try_into().expect("as many as were made"))
}

/// Pins this member, if there is a processor for each.
fn take_place(me: &Member, bout: &Bout<'_>, unpinned: &[Line<AtomicU64>]) {
    let pinned = bout.oversubscribed() || bout.places.pin(me.rank());
    unpinned[me.rank()].0.store(u64::from(!pinned), Ordering::Relaxed);
}

fn meet(me: &mut Member, bout: &Bout<'_>, mut barrier: impl BarrierMember) -> Result<()> {
    // Relaxed, in all accesses: the team's barrier provides the ordering.
    let [arrived, unpinned, wrong, common] = words(me)?;
    let (rank, plan) = (me.rank(), &me.space().array(1)?[0]);
    take_place(me, bout, &unpinned);
    let work = (rank == 0).then(|| bout.work());
    if let Some(work) = work {
        common[0].0.store(work.iterations, Ordering::Relaxed);
    }
    me.wait()?;
    let iterations = common[0].0.load(Ordering::Relaxed);
    // The loss of a member ends the race.
    let once = || barrier.wait().expect("a team in which no member dies");
    let seen = attend(Board { plan, arrived: &arrived }, rank, bout.time, iterations, once);
    wrong[rank].0.store(u64::from(seen.wrong), Ordering::Relaxed);
    me.wait()?;
    let Some(work) = work else { return Ok(()) };
    if sum(&wrong) > 0 {
        return Err(WRONG.into());
    }
    let ns = bout.episode(seen, work);
    answer(&Measured { ns, pinned: sum(&unpinned) == 0, fairness: None }, &[]);
    Ok(())
}

fn contend<R: RawLock>(me: &mut Member, bout: &Bout<'_>) -> Result<()> {
    // Relaxed, in all accesses: the team's barrier provides the ordering.
    let mut lock = me.make(Lock::<R, u64>::within)?;
    let [before, shares, unpinned, begun] = words(me)?;
    let (rank, phase) = (me.rank(), me.space().array::<Phase>(1)?);
    let (phase, begun) = (&phase[0], &begun[0].0);
    me.wait()?;
    let mut time = Duration::ZERO;
    thread::scope(|scope| {
        // The lead thread is not a member, and must not take a member's place.
        let lead = (rank == 0).then(|| scope.spawn(|| bout.keep_time(phase, begun)));
        take_place(me, bout, &unpinned);
        if rank == 0 {
            phase.open();
        }
        if phase.begins() {
            let once = || *lock.lock().expect("a team in which no member dies") += 1;
            let (early, share) = compete(phase, begun, once);
            before[rank].0.store(early, Ordering::Relaxed);
            shares[rank].0.store(share, Ordering::Relaxed);
        }
        if let Some(lead) = lead {
            time = lead.join().unwrap_or_default();
        }
    });
    me.wait()?;
    if rank > 0 {
        return Ok(());
    }
    let shares = Shares {
        shares: shares.iter().map(|Line(share)| share.load(Ordering::Relaxed)).collect(),
        before: sum(&before),
        time,
        pinned: sum(&unpinned) == 0,
    };
    answer(&shares.with(*lock.lock()?)?, &shares.shares);
    Ok(())
}

fn sum(words: &[Line<AtomicU64>]) -> u64 {
    words.iter().map(|Line(word)| word.load(Ordering::Relaxed)).sum()
}

/// Prints the measurement.
fn answer(measured: &Measured, shares: &[u64]) {
    let mut line = format!("{:.3} {}", measured.ns, u8::from(measured.pinned));
    for share in shares {
        let _ = write!(line, " {share}");
    }
    line.push('\n');
    // The reader may be gone.
    let mut out = io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_understood_and_anything_else_told() {
        let places = Places::none();
        let bout = parse("RUN 3 2.5 500", &places).unwrap();
        assert_eq!(
            (bout.members, bout.time, bout.work_ns),
            (3, Duration::from_micros(2500), 500.0)
        );
        for line in ["", "RUN 3 2.5", "RUN 3 2.5 500 1", "GO 3 2.5 500", "RUN 3 -1 0", "RUN x 1 0"]
        {
            let refused = parse(line, &places).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("not {line:?}")), "{refused}");
        }
        assert_eq!(Way::Dissemination.name(), "dissemination");
    }
}
