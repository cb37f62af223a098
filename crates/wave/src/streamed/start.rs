//! Where a run begins: anew, after an interrupted one, after a finished result, or not at all.
//!
//! # Contract
//! No run replaces a file unasked that is not the result of the same computation. The same is: the same description,
//! settings, shape, type and inputs; not the same number of iterations.
//!
//! | at the result's name, or in its folder         | `Refuse` | `Resume`                   | `Discard` |
//! |------------------------------------------------|----------|----------------------------|-----------|
//! | nothing                                        | begin    | begin                      | begin     |
//! | the folder of an interrupted run, the same     | refuse   | go on after its last pass  | begin     |
//! | a result of the same, of fewer iterations      | refuse   | go on from it              | begin     |
//! | a result of the same, of as many, or converged | refuse   | nothing is left to do      | begin     |
//! | the same, of more iterations                   | refuse   | refuse                     | begin     |
//! | of another computation, or not known           | refuse   | refuse                     | begin     |
//!
//! What a run may replace it notes when it begins ([`Standing`]), and replaces nothing else at its end.
//!
//! # Costs
//! Inputs of other places or times than those noted are read once, for their checksums.

use std::path::Path;

use syncline_store::{Existing, Generations, Identity, Leftover, Made, Mark, Progress, Resumed, Standing};

use super::target::{Leftovers, Target};
use crate::{Error, Result};

/// The name of what a manifest notes of the output when its run began.
const STANDING: &str = "output at the start";

/// Where a run begins.
pub(crate) enum Start {
    Anew,
    /// After the last pass of an interrupted run.
    From(Generations),
    /// After the result that has the name.
    After(Made),
    /// The result is there.
    Complete(Made),
}

/// What beginning takes.
pub(crate) struct Begin<'a> {
    pub(crate) target: &'a Target,
    /// How many are asked for.
    pub(crate) iterations: u64,
    pub(crate) tolerance: Option<f64>,
}

impl Begin<'_> {
    /// Looks at what is there, and what was said about it. The identity gets the checksums of its inputs that are known;
    /// `sum` finds out that of one, `is_generation` whether the result's file has the numbers of a generation.
    pub(crate) fn start(
        &self,
        identity: &mut Identity,
        sum: impl FnMut(usize) -> Result<Option<u64>>,
        is_generation: impl FnOnce(&Progress) -> Result<bool>,
    ) -> Result<(Start, Standing)> {
        let path = &self.target.path;
        let settle = |then: &Identity, now: &mut Identity| now.settle(then, sum);
        match (self.target.leftovers, Generations::leftover(path)?) {
            (_, Leftover::Busy(path)) => Err(Error::Store(syncline_store::Error::Busy { path })),
            (Leftovers::Discard, _) => {
                Generations::discard(path)?;
                self.anew()
            }
            (Leftovers::Refuse, Leftover::Nothing) => match taken(path, identity, self.iterations)? {
                None => self.anew(),
                Some(taken) => Err(taken.into_error(path)),
            },
            (Leftovers::Refuse, leftover) => {
                Err(Error::Leftovers { path: path.clone(), found: what_is_left(&leftover) })
            }
            (Leftovers::Resume, Leftover::Nothing) => self.after(identity, settle),
            (Leftovers::Resume, Leftover::Empty) => {
                Generations::discard(path)?;
                self.after(identity, settle)
            }
            (Leftovers::Resume, _) => match Generations::resume_settled(path, identity, settle)? {
                Resumed::Underway(generations) => self.from(generations),
                Resumed::Complete(progress) if is_generation(&progress)? => {
                    let Progress { iterations, residuals, .. } = progress;
                    let converged = converged(iterations, &residuals, self.tolerance);
                    let made = Made { iterations, residuals, converged };
                    self.of_the_same(Mark { identity: identity.clone(), made })
                }
                // Another program has put a file there since.
                Resumed::Complete(_) => {
                    Err(Taken::unknown("it is not the result that got the name").into_error(path))
                }
                Resumed::Nothing => self.anew(),
            },
        }
    }

    fn anew(&self) -> Result<(Start, Standing)> {
        Ok((Start::Anew, Standing::of(&self.target.path)?))
    }

    /// After an interrupted run.
    fn from(&self, generations: Generations) -> Result<(Start, Standing)> {
        let path = &self.target.path;
        let progress = generations.progress();
        let (done, asked) = (progress.map_or(0, |progress| progress.iterations), self.iterations);
        if done > asked {
            return Err(Error::Fewer { path: path.clone(), done, asked });
        }
        // Of a manifest without the note nothing is known: then only a name that is free is taken.
        let noted = progress.and_then(|progress| progress.note.get(STANDING)?.parse().ok());
        let standing: Standing = noted.unwrap_or_default();
        standing.check(path)?;
        Ok((Start::From(generations), standing))
    }

    /// After the result that has the name, if there is one.
    fn after(
        &self,
        identity: &mut Identity,
        settle: impl FnOnce(&Identity, &mut Identity) -> Result<()>,
    ) -> Result<(Start, Standing)> {
        let path = &self.target.path;
        match Existing::at(path)? {
            Existing::Nothing => self.anew(),
            Existing::Result(mark) => {
                settle(&mark.identity, identity)?;
                match Taken::by(&mark, identity, self.iterations) {
                    taken if taken.differs.is_empty() => self.of_the_same(*mark),
                    taken => Err(taken.into_error(path)),
                }
            }
            Existing::Other(why) => Err(Taken::unknown(why).into_error(path)),
            _ => Err(Taken::unknown("it is of an unknown kind").into_error(path)),
        }
    }

    /// After a result of the same computation.
    fn of_the_same(&self, mark: Mark) -> Result<(Start, Standing)> {
        let standing = Standing::of(&self.target.path)?;
        let (done, asked) = (mark.made.iterations, self.iterations);
        Ok(match done.cmp(&asked) {
            std::cmp::Ordering::Greater => {
                return Err(Taken::by(&mark, &mark.identity, asked).into_error(&self.target.path));
            }
            std::cmp::Ordering::Less if mark.made.converged.is_none() => (Start::After(mark.made), standing),
            _ => (Start::Complete(mark.made), standing),
        })
    }
}

/// The first iteration, from 0, with a residual that is small enough, by the residuals of the last iterations of so many.
pub(crate) fn converged(iterations: u64, residuals: &[f64], tolerance: Option<f64>) -> Option<u64> {
    let at = residuals.iter().position(|&residual| Some(residual) <= tolerance)?;
    Some(iterations.saturating_sub(residuals.len() as u64) + at as u64)
}

/// What a manifest notes of the output.
pub(crate) fn note(progress: &mut Progress, standing: &Standing) {
    progress.note.insert(STANDING.to_owned(), standing.to_string());
}

/// A name that is taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What stands there, as what follows "FILE is": "the result of 40 iterations of lk23".
    pub found: String,
    /// In what it is not the result that was asked for, one thing each; nothing if it is, or a run could go on from it.
    pub differs: Vec<String>,
    /// The iterations behind it, if it is the result of any computation.
    pub iterations: Option<u64>,
}

impl Taken {
    fn by(mark: &Mark, now: &Identity, asked: u64) -> Self {
        let done = mark.made.iterations;
        let mut differs = mark.identity.differences(now);
        if done > asked {
            differs.insert(0, format!("iterations were {done}, are {asked}"));
        }
        Self { found: mark.to_string(), differs, iterations: Some(done) }
    }

    fn unknown(why: &'static str) -> Self {
        Self { found: Existing::Other(why).to_string(), differs: Vec::new(), iterations: None }
    }

    /// Whether a run could go on from it, or has nothing to do.
    #[must_use]
    pub fn is_the_same(&self) -> bool {
        self.iterations.is_some() && self.differs.is_empty()
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

/// What has a result's name, for a run that is not to touch it.
pub(crate) fn taken(path: &Path, identity: &Identity, iterations: u64) -> Result<Option<Taken>> {
    Ok(match Existing::at(path)? {
        Existing::Nothing => None,
        Existing::Result(mark) => {
            let mut now = identity.clone();
            // Not worth reading the inputs: those of the same length are taken for the same.
            now.settle::<Error>(&mark.identity, |n| Ok(mark.identity.inputs[n].sum))?;
            Some(Taken::by(&mark, &now, iterations))
        }
        Existing::Other(why) => Some(Taken::unknown(why)),
        _ => Some(Taken::unknown("it is of an unknown kind")),
    })
}

fn what_is_left(leftover: &Leftover) -> String {
    match leftover {
        Leftover::Empty => "a run that ended in its first pass".to_owned(),
        Leftover::Resumable(progress) => format!("a run that ended after {} iterations", progress.iterations),
        Leftover::Complete(_) => "a run that was complete but for its removal".to_owned(),
        Leftover::Damaged(why) => format!("a damaged run ({why})"),
        _ => "something unknown".to_owned(),
    }
}
