//! A run on a team: the processes of `syncline launch` or of an MPI launcher share the columns.
//!
//! Every process runs this command with the same arguments. The first member chooses the output and
//! prints the summary. An error is printed once, by the member of the lowest rank that has it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use syncline_blocks::kernel::Real;
use syncline_common::signals::Signals;
use syncline_fabric::{Member, Team};
use syncline_store::{ElementType, Error as StoreError};
use syncline_wave::{Error as WaveError, SweepReport, monitor::Monitor};

use super::advice::Advice;
use super::{Job, Meter, arrays};
use crate::args::RunArgs;
use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::inputs::Inputs;
use crate::kernels::Kernel;
use crate::progress::Progress;
use crate::summary::{Asked, Measured, Peak, Summary};
use crate::watch::LINE;
use crate::{executor, verify};

/// The longest time for which members wait for the one that prints an error.
const PATIENCE: Duration = Duration::from_secs(2);
/// The interval at which signals are checked, and the bar is updated.
const TICK: Duration = Duration::from_millis(50);

/// Runs the part of this process; returns the summary in the process of the first member, and
/// whether the tolerance was reached, if one was given.
pub(super) fn run(args: &RunArgs, signals: &Signals) -> Result<(Option<Summary>, bool)> {
    let part = |me: &mut Member| {
        signals.as_member(|| member(me, args, signals).map_err(|error| told_by_one(me, error)))
    };
    let results = signals.while_joining(|| Team::run(part).map_err(Error::from))?;
    let (mut summary, mut all) = (None, true);
    for result in results {
        let (own, converged) = result?;
        summary = own.or(summary);
        all &= converged;
    }
    Ok((summary, all))
}

/// Ends the part of a process whose command line is not that of a run; returns the exit code. The
/// other members hear of it, as some launchers do not end them.
pub(super) fn refuse(why: String) -> Result<u8> {
    let results = Team::run(|me| {
        let outcome: Result<()> = Err(Error::Usage(why.clone()));
        all(me, outcome).map_err(|error| told_by_one(me, error).exit_code())
    })?;
    Ok(results.into_iter().filter_map(std::result::Result::err).max().unwrap_or(2))
}

/// Prints the error of the first member that has one.
fn told_by_one(me: &mut Member, error: Error) -> Error {
    let code = first_of(me, error).tell();
    // A launcher of MPI ends the others when the first process has exited.
    let _ = me.wait_deadline(Instant::now().checked_add(PATIENCE));
    Error::Told { code }
}

/// Refuses options that a team does not have.
fn check(args: &RunArgs) -> Result<()> {
    executor::check(args)?;
    let given = [(args.verify.is_some(), "--verify"), (args.resume, "--resume")];
    let mut options = executor::for_blocks(args);
    options.extend(given.iter().filter(|(given, _)| *given).map(|(_, name)| *name));
    options.first().map_or(Ok(()), |option| Err(unavailable(option)))
}

fn unavailable(option: &str) -> Error {
    Error::Usage(format!(
        "{option} is not available on a team: leave it out, or run the sweep in one process"
    ))
}

/// Returns the error if this member is the one that prints it, with the name of the member if
/// others do not have an error of their own.
fn first_of(me: &mut Member, error: Error) -> Error {
    let code = error.exit_code();
    let elsewhere = matches!(error, Error::Wave(WaveError::Elsewhere { .. }) | Error::Told { .. });
    let Ok(own) = me.gather(u64::from(!elsewhere)) else { return error };
    let owners = own.iter().filter(|&&own| own != 0).count();
    if own.iter().position(|&own| own != 0).unwrap_or(0) != me.rank() {
        return Error::Told { code };
    }
    match error {
        Error::Interrupted { .. } => error,
        why if owners > 0 && owners < me.size() => {
            Error::OfMember { member: me.place(), why: Box::new(why) }
        }
        why => why,
    }
}

/// Returns the value if no member has an error.
pub(super) fn all<R>(me: &mut Member, outcome: Result<R>) -> Result<R> {
    let own = outcome.as_ref().err().map(|error| error as &dyn std::fmt::Display);
    match (me.first_error(own).map_err(WaveError::from)?, outcome) {
        (Some((rank, error)), Ok(_)) => Err(WaveError::Elsewhere { rank, error }.into()),
        (_, outcome) => outcome,
    }
}

/// Returns the sum over all processes of what each member measures of its process.
fn sum(me: &mut Member, own: u64) -> Option<u64> {
    let own = if me.thread() == 0 { own } else { 0 };
    me.gather(own).ok().map(|all| all.into_iter().sum())
}

/// Returns the peak of the host with the most, and the bound and the number of its members.
fn highest(me: &mut Member, bound: Bound) -> Option<(Peak, Bound, usize)> {
    let mut words = Vec::new();
    for word in [bound.bytes()].into_iter().chain(Peak::take().encode()) {
        words.push(me.gather(word).ok()?);
    }
    // A process has the same peak for each of its members.
    let peak =
        |&process: &usize| Peak::decode([1, 2, 3].map(|word| words[word][process * me.threads()]));
    let host = |host| {
        let (processes, members) = (me.hosts().processes(host), me.ranks_on(host));
        let peaks: Vec<Peak> = processes.iter().map(peak).collect();
        let bound = members.iter().map(|&rank| words[0][rank]).fold(0, u64::saturating_add);
        (Peak::of_host(&peaks), Bound::of(bound), members.len())
    };
    (0..me.hosts().count()).map(host).max_by_key(|(peak, ..)| peak.governed())
}

fn member(me: &mut Member, args: &RunArgs, signals: &Signals) -> Result<(Option<Summary>, bool)> {
    all(me, check(args))?;
    let inputs = Inputs::open(&args.dir, &args.also);
    let inputs = all(me, inputs)?;
    let kernel = Kernel::choose(args, |name| inputs.has(name));
    let kernel = all(me, kernel)?;
    if let Some(described) = &kernel.over_arrays {
        return arrays::run_on(args, &kernel, described, &inputs, me, signals);
    }
    let found = all(me, inputs.find(&kernel, args.field.as_deref()))?;
    let (members, bound) = (me.size(), Bound::of_member(args.memory, me.ranks_on(me.host()).len()));
    match found.element {
        ElementType::Float64 => {
            let job = Job::<f64>::open(args, &kernel, &found);
            Job { members, bound, ..all(me, job)? }.run_on(me, signals)
        }
        ElementType::Float32 => {
            let job = Job::<f32>::open(args, &kernel, &found);
            Job { members, bound, ..all(me, job)? }.run_on(me, signals)
        }
        other => all(me, Err(Error::Whole(other))),
    }
}

/// Returns the number of threads of a member: as given, or its part of the cores of its host.
pub(super) fn threads(args: &RunArgs, me: &Member) -> usize {
    let by_default = || {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / me.ranks_on(me.host()).len()).max(1)
    };
    args.threads.map_or_else(by_default, |threads| threads as usize)
}

/// Runs `work`. Meanwhile the first member shows the progress, and a signal cancels the sweep;
/// returns the signal as well.
pub(super) fn attend<R>(
    me: &mut Member,
    signals: &Signals,
    monitor: &Monitor,
    mut progress: Progress,
    work: impl FnOnce(&mut Member) -> R,
) -> (R, Option<u8>) {
    let first = me.rank() == 0;
    let bar = if first { signals.bar(LINE) } else { indicatif::ProgressBar::hidden() };
    let done = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let attendant = scope.spawn(|| {
            let mut caught = None;
            // Relaxed: the flag publishes no other data.
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                if first {
                    progress.show(&bar);
                    signals.tell(&bar);
                }
                if let Some(signal) = signals.take() {
                    caught.get_or_insert(signal);
                    monitor.cancel();
                }
            }
            caught
        });
        let result = work(me);
        done.store(true, Ordering::Relaxed);
        attendant.thread().unpark();
        (result, attendant.join().unwrap_or_default())
    });
    bar.finish_and_clear();
    ended
}

/// Returns the error of a sweep as the command tells it; `explain` adds what the command knows of
/// its memory.
pub(super) fn explained(
    error: WaveError,
    signal: Option<u8>,
    advice: &Advice<'_>,
    explain: impl FnOnce(WaveError) -> Error,
) -> Error {
    match (error, signal) {
        (WaveError::Cancelled { .. }, Some(signal)) => Error::interrupted(signal),
        // Another member tells of the signal that came to all.
        (WaveError::Elsewhere { .. }, Some(signal)) => Error::Told { code: 128 + signal },
        // The file of the last pass is damaged. It is removed, so there is nothing to discard.
        (error @ WaveError::Store(StoreError::Generation { .. }), _) => error.into(),
        (error, _) => advice.explain(explain(error)).for_each_member(),
    }
}

/// Returns the measurements around a sweep whose result is complete, whatever happens to other
/// members now.
pub(super) fn measured(me: &mut Member, meter: Meter, bound: Bound) -> Measured {
    let (time, disk) = meter.stop();
    let (peak, bound, on_host) = highest(me, bound).unwrap_or_else(|| (Peak::take(), bound, 1));
    Measured {
        members: me.size(),
        on_host,
        time,
        sync_time: Duration::ZERO,
        peak,
        disk: disk.and_then(|(read, written)| Some((sum(me, read)?, sum(me, written)?))),
        bound,
        verified: None,
        chosen: None,
        instead: None,
        unmarked: None,
    }
}

impl<T: Real> Job<'_, T> {
    /// Returns the summary in the first member, and whether the tolerance was reached, if one was
    /// given.
    fn run_on(self, me: &mut Member, signals: &Signals) -> Result<(Option<Summary>, bool)> {
        let shape = self.arrays.field.shape();
        let first = me.rank() == 0;
        let prepared = (|| {
            verify::check(self.args, shape)?;
            if first {
                self.start(Executor::Streamed)?;
            }
            Ok(())
        })();
        all(me, prepared)?;
        let mut how = self.how(Executor::Streamed);
        let threads = threads(self.args, me);
        how.runner = syncline_wave::Runner::pool(threads);
        how.memory = self.bound.for_member(threads as u64);
        let target = self.target(None);
        let points = self.kernel.points(shape) as f64;
        let iterations = self.args.iterations;
        let progress = Progress::new(self.monitor.clone(), points, iterations, None, signals);
        let (progress, meter) = (progress.under(self.bound), Meter::start());
        let work = |me: &mut Member| how.run_on(me, &self.kernel.runs, &self.arrays, &target);
        let (swept, signal) = attend(me, signals, &self.monitor, progress, work);
        let report = swept.map_err(|error| {
            let explain = |error| self.bound.of_streamed(error, threads as u64, &self.arrays);
            explained(error, signal, &self.advice(), explain)
        })?;
        let measured = measured(me, meter, self.bound);
        // One process tells by its exit code.
        let converged = !first || self.args.until.is_none() || report.converged.is_some();
        Ok((first.then(|| self.summarize(&report, &measured)), converged))
    }

    fn summarize(&self, report: &SweepReport, measured: &Measured) -> Summary {
        let asked = Asked {
            args: self.args,
            kernel: self.kernel,
            element: T::TYPE,
            shape: self.arrays.field.shape(),
            output: &self.output,
        };
        Summary::new(&asked, self.layout, report, measured)
    }
}
