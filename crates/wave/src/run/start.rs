//! The point where a run begins: at the first iteration, after an interrupted run, after a finished
//! result, or not at all.
//!
//! # Contract
//! Unless requested, no run replaces a file that is not the result of the same computation. Two
//! computations are the same if they have the same description, shape, type and inputs. The number
//! of iterations requested, and where a tolerance ends them, are not part of it: `k` iterations
//! give the same bits whatever the tolerance. The sizes of blocks are part of it in the order
//! max-parallel alone, whose numbers depend on them: the caller describes them.
//!
//! | exists at the result's name or in its folder   | `Refuse` | `Resume`             | `Discard` |
//! |------------------------------------------------|----------|----------------------|-----------|
//! | nothing                                        | begin    | begin                | begin     |
//! | same computation: folder of an interrupted run | refuse   | resume at last pass  | begin     |
//! | same: a result of fewer iterations             | refuse   | continue from it     | begin     |
//! | same: a result of as many, or converged        | refuse   | nothing left to do   | begin     |
//! | same: of more iterations than are wanted       | refuse   | refuse               | begin     |
//! | another computation, or unknown                | refuse   | refuse               | begin     |
//!
//! A result has converged if one of its known residuals is at most the tolerance of this run
//! ([`Made::converged_to`]). An iteration whose residual is unknown counts as one with a larger
//! change. The wanted iterations are those requested; with an exact stop, only those up to that
//! iteration.
//!
//! When a run begins, it notes the state of the output ([`FileState`]) that it may replace, and it
//! replaces nothing else at its end.
//!
//! A result of several fields is a file for each, all in one folder. It counts as a result only if
//! all files are there, are of the same computation, each of its field, and of the same iteration.
//!
//! # Costs
//! Inputs whose path or modification time differs from the recorded one are read once, for their
//! checksums.

use std::path::{Path, PathBuf};

use syncline_store::{
    generation::{Existing, Generations, Identity, Leftover, Made, Progress, ResultMark, Resumed},
    newfile::{FileState, check_together},
};

use super::target::{Leftovers, Target};
use crate::sweep::{Settings, SweepReport};
use crate::{Error, Result};

/// The key under which a manifest notes the state of the output when its run began.
const STANDING: &str = "output at the start";

/// The keys under which an [`Identity`] describes the fields: their types, their dimensions, and
/// the format of the result.
pub(crate) const TYPES: &str = "types";
pub(crate) const DIMENSIONS: &str = "dimensions";
pub(crate) const FORMAT: &str = "format";

/// The state of the outputs when a run began.
#[derive(Clone, Debug)]
pub(crate) struct Standing(Vec<FileState>);

impl Standing {
    pub(crate) fn of(paths: &[PathBuf]) -> syncline_store::Result<Self> {
        let states = paths.iter().map(|path| FileState::of(path));
        Ok(Self(states.collect::<syncline_store::Result<_>>()?))
    }

    /// Returns the state of an output.
    pub(crate) fn of_output(&self, n: usize) -> &FileState {
        &self.0[n]
    }

    /// Checks that each name belongs to the same file, or is free: an earlier run may have removed
    /// some of several old files.
    pub(crate) fn check(&self, paths: &[PathBuf]) -> syncline_store::Result<()> {
        let several = paths.len() > 1;
        let is_free = |path: &PathBuf| several && path.symlink_metadata().is_err();
        let mut names = self.0.iter().zip(paths).filter(|(_, path)| !is_free(path));
        names.try_for_each(|(state, path)| state.check(path))
    }

    /// Returns the state that a manifest notes. Without the note, only free names may be used.
    fn noted(progress: Option<&Progress>, count: usize) -> Self {
        let noted = |n| progress.and_then(|progress| progress.note.get(&key(n))?.parse().ok());
        Self((0..count).map(|n| noted(n).unwrap_or_default()).collect())
    }
}

/// Returns the key of the note of an output's state.
fn key(n: usize) -> String {
    if n == 0 { STANDING.to_owned() } else { format!("{STANDING}, {n}") }
}

/// Returns the identity with which the file of a field is marked.
pub(crate) fn of_field(identity: &Identity, n: usize, fields: usize) -> Identity {
    let mut of = identity.clone();
    if fields > 1 {
        of.what.insert("field".to_owned(), format!("{} of {fields}", n + 1));
    }
    of
}

/// Returns the identity of the manifest of a run into these files.
pub(crate) fn of_files(identity: &Identity, paths: &[PathBuf]) -> Identity {
    let mut of = identity.clone();
    if paths.len() > 1 {
        let names = paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
        of.what.insert("files".to_owned(), names.collect::<Vec<_>>().join(", "));
    }
    of
}

/// The point where a run begins.
pub(crate) enum Start {
    Anew,
    /// After the last pass of an interrupted run.
    From(Generations),
    /// After the result that has the name.
    After(Made),
    /// The result exists already.
    Complete(Made),
}

/// The point where a sweep in blocks begins that may continue from a result.
///
/// To continue from a result of fewer iterations, run a sweep with that result in place of the
/// field; [`add`](Self::add) then turns its report into that of all iterations.
#[derive(Debug)]
pub struct Resumption {
    /// The identity of the computation, with which the result must be
    /// [marked](syncline_store::generation::ResultMark).
    pub identity: Identity,
    /// The iterations, residuals and convergence of the result that has the name, if the sweep
    /// continues from it or has nothing to do.
    pub made: Option<Made>,
    /// Whether nothing is left to do.
    pub is_complete: bool,
    /// The state of the file that had the name. The result may replace only that, unless the target
    /// says otherwise.
    pub standing: FileState,
}

impl Resumption {
    /// Returns the number of iterations that are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.made.as_ref().map_or(0, |made| made.iterations)
    }

    /// Returns the report of a run that has nothing left to do.
    #[must_use]
    pub fn report<P>(&self, plan: P) -> SweepReport<P> {
        self.add(SweepReport::of_nothing(plan))
    }

    /// Adds the earlier iterations to the report of the sweep that has continued from them.
    #[must_use]
    pub fn add<P>(&self, report: SweepReport<P>) -> SweepReport<P> {
        let Some(made) = &self.made else { return report };
        let mut residuals = report.residuals;
        if !residuals.is_empty() || report.iterations == 0 {
            residuals.splice(0..0, made.residuals.iter().copied());
        }
        SweepReport {
            iterations: made.iterations + report.iterations,
            residuals,
            converged: report.converged.map(|at| made.iterations + at).or(made.converged),
            resumed: made.iterations,
            ..report
        }
    }
}

/// The number of iterations and the convergence test that a run was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// The maximum number of iterations.
    pub(crate) iterations: u64,
    pub(crate) tolerance: Option<f64>,
    pub(crate) exact_stop: bool,
    /// The number of consecutive iterations whose residuals must be at most the tolerance.
    pub(crate) window: usize,
}

impl Asked {
    pub(crate) const fn of(settings: &Settings) -> Self {
        let Settings { iterations, tolerance, exact_stop, .. } = *settings;
        Self { iterations, tolerance, exact_stop, window: 1 }
    }

    /// Returns the first iteration, from 0, that is known to end a window of small residuals.
    fn converged(self, made: &Made) -> Option<u64> {
        if self.window == 1 {
            return made.converged_to(self.tolerance);
        }
        let small = |window: &[f64]| window.iter().all(|&one| Some(one) <= self.tolerance);
        let at = made.residuals.windows(self.window).position(small);
        let unknown = made.iterations.saturating_sub(made.residuals.len() as u64);
        let known = at.map(|at| unknown + (at + self.window - 1) as u64);
        // As in `Made::converged_to`.
        let noted =
            made.converged.filter(|_| made.tolerance.is_some() && made.tolerance <= self.tolerance);
        known.into_iter().chain(noted).min()
    }

    /// Returns `made`, with the iteration in which it reached this run's tolerance in place of that
    /// for its own.
    pub(crate) fn judge(self, made: Made) -> Made {
        Made { converged: self.converged(&made), tolerance: self.tolerance, ..made }
    }

    /// Returns the maximum number of iterations that the result may have, given the progress
    /// `made`; `None` if an exact stop would have ended at an unknown iteration.
    fn wanted(self, made: &Made) -> Option<u64> {
        let Some(at) = self.converged(made).filter(|_| self.exact_stop) else {
            return Some(self.iterations);
        };
        // An earlier iteration could be among those whose residuals are no longer known, unless the
        // run that computed them had the same tolerance.
        let known = made.iterations.saturating_sub(made.residuals.len() as u64);
        let first = known + self.window as u64 - 1;
        let is_first = known == 0 || at > first || made.tolerance == self.tolerance;
        is_first.then_some(self.iterations.min(at + 1))
    }

    /// Returns the maximum number of iterations left to do; `None` if there are too many already.
    fn left(self, made: &Made) -> Option<u64> {
        let left = self.wanted(made)?.checked_sub(made.iterations)?;
        Some(if self.converged(made).is_some() { 0 } else { left })
    }
}

/// The parameters that determine where a run begins.
pub(crate) struct Begin<'a> {
    pub(crate) target: &'a Target,
    pub(crate) asked: Asked,
}

impl Begin<'_> {
    /// Examines what exists, and decides by the target's setting. Fills in the known checksums of
    /// the identity's inputs; `sum` computes that of one input, `is_generation` returns whether the
    /// values of the result's file are those of a generation.
    pub(crate) fn start(
        &self,
        identity: &mut Identity,
        sum: impl FnMut(usize) -> Result<Option<u64>>,
        is_generation: impl FnOnce(&Progress) -> Result<bool>,
    ) -> Result<(Start, Standing)> {
        let (path, paths) = (&self.target.path, &self.target.paths());
        check_together(paths)?;
        let settle = |then: &Identity, now: &mut Identity| now.settle(then, sum);
        match (self.target.leftovers, Generations::leftover(path)?) {
            (_, Leftover::Busy(path)) => Err(Error::Store(syncline_store::Error::Busy { path })),
            (Leftovers::Discard, _) => {
                Generations::discard(path)?;
                self.anew()
            }
            (Leftovers::Refuse, Leftover::Nothing) => match taken(paths, identity, self.asked)? {
                None => self.anew(),
                Some((path, taken)) => Err(taken.into_error(&path)),
            },
            (Leftovers::Refuse, leftover) => {
                Err(Error::Leftovers { path: path.clone(), found: what_is_left(&leftover) })
            }
            (Leftovers::Resume, Leftover::Nothing) => self.after(identity, settle),
            (Leftovers::Resume, Leftover::Empty) => {
                Generations::discard(path)?;
                self.after(identity, settle)
            }
            (Leftovers::Resume, _) => {
                let mut now = of_files(identity, paths);
                let resumed = Generations::resume_settled(path, &mut now, settle)?;
                identity.inputs = now.inputs;
                match resumed {
                    Resumed::Underway(generations) => self.from(generations),
                    Resumed::Complete(progress) if is_generation(&progress)? => {
                        let made = made(&progress, self.asked.tolerance);
                        self.of_the_same(ResultMark { identity: identity.clone(), made })
                    }
                    // Another program has replaced the file since.
                    Resumed::Complete(_) => {
                        let why = "another file has replaced the result";
                        Err(Taken::unknown(why).into_error(path))
                    }
                    Resumed::Nothing => self.anew(),
                }
            }
        }
    }

    fn anew(&self) -> Result<(Start, Standing)> {
        Ok((Start::Anew, Standing::of(&self.target.paths())?))
    }

    /// Resumes an interrupted run.
    fn from(&self, generations: Generations) -> Result<(Start, Standing)> {
        let path = &self.target.path;
        let progress = generations.progress();
        let made =
            progress.map(|progress| made(progress, self.asked.tolerance)).unwrap_or_default();
        if self.asked.left(&made).is_none() {
            let (done, asked) = (made.iterations, self.asked.wanted(&made).unwrap_or_default());
            return Err(Error::Fewer { path: path.clone(), done, asked });
        }
        let paths = self.target.paths();
        let standing = Standing::noted(progress, paths.len());
        standing.check(&paths)?;
        Ok((Start::From(generations), standing))
    }

    /// Continues from the result that has the name, if there is one.
    fn after(
        &self,
        identity: &mut Identity,
        settle: impl FnOnce(&Identity, &mut Identity) -> Result<()>,
    ) -> Result<(Start, Standing)> {
        let paths = self.target.paths();
        match found(&paths)? {
            Found::Nothing => self.anew(),
            Found::Unknown(path, taken) => Err(taken.into_error(&path)),
            Found::Results(marks) => {
                let mut now = of_field(identity, 0, paths.len());
                settle(&marks[0].identity, &mut now)?;
                identity.inputs = now.inputs;
                match differing(&paths, &marks, identity, self.asked) {
                    None => self.of_the_same(
                        marks
                            .into_iter()
                            .next()
                            .unwrap_or_else(|| unreachable!("a target has at least one file")),
                    ),
                    Some((path, taken)) => Err(taken.into_error(&path)),
                }
            }
        }
    }

    /// Continues from a result of the same computation.
    fn of_the_same(&self, mark: ResultMark) -> Result<(Start, Standing)> {
        let standing = Standing::of(&self.target.paths())?;
        let left = self.asked.left(&mark.made);
        match left {
            None => Err(Taken::by(&mark, &mark.identity, self.asked).into_error(&self.target.path)),
            Some(0) => Ok((Start::Complete(self.asked.judge(mark.made)), standing)),
            Some(_) => Ok((Start::After(self.asked.judge(mark.made)), standing)),
        }
    }
}

/// Returns what an interrupted run has made, for a run with this tolerance. A manifest has room for
/// all residuals.
pub(crate) fn made(progress: &Progress, tolerance: Option<f64>) -> Made {
    let Progress { iterations, residuals, .. } = progress;
    Made { iterations: *iterations, residuals: residuals.clone(), tolerance, converged: None }
}

/// Notes the state of the output in a manifest.
pub(crate) fn note(progress: &mut Progress, standing: &Standing) {
    let states = standing.0.iter().enumerate();
    progress.note.extend(states.map(|(n, state)| (key(n), state.to_string())));
}

/// What has the names of the outputs.
enum Found {
    Nothing,
    /// A result for each output.
    Results(Vec<ResultMark>),
    /// A file that is not known as a result, or the only one of several.
    Unknown(PathBuf, Taken),
}

/// Examines the files that have the names of the outputs.
fn found(paths: &[PathBuf]) -> Result<Found> {
    let all = paths.iter().map(|path| Existing::at(path));
    let all = all.collect::<syncline_store::Result<Vec<_>>>()?;
    let missing = |existing: &Existing| matches!(existing, Existing::Nothing);
    if all.iter().all(missing) {
        return Ok(Found::Nothing);
    }
    let some_missing = all.iter().any(missing);
    let mut marks = Vec::new();
    for (path, existing) in paths.iter().zip(all) {
        let why = match existing {
            Existing::Nothing => continue,
            Existing::Result(_) if some_missing => "the file of another field is missing",
            Existing::Result(mark) => {
                marks.push(*mark);
                continue;
            }
            Existing::Other(why) => why,
            _ => "it is of an unknown kind",
        };
        return Ok(Found::Unknown(path.clone(), Taken::unknown(why)));
    }
    Ok(Found::Results(marks))
}

/// Returns the first file that is not a result from which a run can continue, and why.
fn differing(
    paths: &[PathBuf],
    marks: &[ResultMark],
    identity: &Identity,
    asked: Asked,
) -> Option<(PathBuf, Taken)> {
    let first = marks.first()?.made.iterations;
    paths.iter().zip(marks).enumerate().find_map(|(n, (path, mark))| {
        let mut taken = Taken::by(mark, &of_field(identity, n, paths.len()), asked);
        if mark.made.iterations != first {
            let of = paths[0].display();
            taken.differs.push(format!("iterations of {of} are {first}"));
            taken.left = None;
        }
        (!taken.differs.is_empty()).then(|| (path.clone(), taken))
    })
}

/// A description of the file that has a result's name already.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The kind of the file, phrased to follow "FILE is": "the result of 40 iterations of lk23".
    pub found: String,
    /// The respects in which it differs from the requested result, one per entry; empty if it does
    /// not, or if a run could continue from it.
    pub differs: Vec<String>,
    /// Whether it is the result of a computation, this one or another.
    pub is_result: bool,
    /// Whether it has the shape and type of the field, so that any run like this one can start from
    /// it.
    pub is_like_the_field: bool,
    /// The maximum number of iterations left to do for a run that continues from it; `None` if a
    /// run cannot continue from it.
    pub left: Option<u64>,
}

impl Taken {
    fn by(mark: &ResultMark, now: &Identity, asked: Asked) -> Self {
        let mut differs = mark.identity.differences(now);
        let left = asked.left(&mark.made);
        if left.is_none() {
            let done = mark.made.iterations;
            let why = match asked.wanted(&mark.made) {
                None => format!(
                    "iterations were {done}, the iteration of an exact stop is no longer known"
                ),
                Some(wanted) if wanted < asked.iterations => {
                    format!("iterations were {done}, are {wanted}, where an exact stop ends")
                }
                Some(wanted) => format!("iterations were {done}, are {wanted}"),
            };
            differs.insert(0, why);
        }
        let same = |name| mark.identity.what.get(name) == now.what.get(name);
        let is_like_the_field = [TYPES, DIMENSIONS].into_iter().all(same);
        let left = left.filter(|_| differs.is_empty());
        Self { found: mark.to_string(), differs, is_result: true, is_like_the_field, left }
    }

    fn unknown(why: &'static str) -> Self {
        let found = Existing::Other(why).to_string();
        Self { found, differs: Vec::new(), is_result: false, is_like_the_field: false, left: None }
    }

    /// Returns whether a run could continue from it, or has nothing to do.
    #[must_use]
    pub const fn is_the_same(&self) -> bool {
        self.left.is_some()
    }

    fn into_error(self, path: &Path) -> Error {
        Error::Taken { path: path.to_owned(), by: Box::new(self) }
    }
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.found)?;
        match &self.differs[..] {
            [] => Ok(()),
            differs => write!(f, ", not what is asked for: {}", differs.join("; ")),
        }
    }
}

/// Returns the first file that has the name of an output, with its description, for a run that must
/// not change it. Of results from which a run can continue it is the first of all.
pub(crate) fn taken(
    paths: &[PathBuf],
    identity: &Identity,
    asked: Asked,
) -> Result<Option<(PathBuf, Taken)>> {
    let marks = match found(paths)? {
        Found::Nothing => return Ok(None),
        Found::Unknown(path, taken) => return Ok(Some((path, taken))),
        Found::Results(marks) => marks,
    };
    let mut now = of_field(identity, 0, paths.len());
    // The inputs are not read for this: an input of the same length is taken for the same.
    now.settle::<Error>(&marks[0].identity, |n| Ok(marks[0].identity.inputs[n].sum))?;
    let first = || (paths[0].clone(), Taken::by(&marks[0], &now, asked));
    let identity = Identity { inputs: now.inputs.clone(), ..identity.clone() };
    Ok(Some(differing(paths, &marks, &identity, asked).unwrap_or_else(first)))
}

/// Returns the names of files, for a message.
fn listed(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| path.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

fn what_is_left(leftover: &Leftover) -> String {
    match leftover {
        Leftover::Empty => "a run that ended in its first pass".to_owned(),
        Leftover::Resumable(progress) => {
            format!("a run that ended after {} iterations", progress.iterations)
        }
        Leftover::Complete(_) => "a run that was complete except for its cleanup".to_owned(),
        Leftover::Unnamed(_, paths) => {
            format!("a run that was complete but for the names of {}", listed(paths))
        }
        Leftover::Damaged(why) => format!("a damaged run ({why})"),
        _ => "something unknown".to_owned(),
    }
}
