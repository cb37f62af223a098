//! What a scheme is: for each member a list of what it sends and what it waits for.

use crate::machine::Time;

/// What a member does before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Asks the hosts of those members whether all that it has put there is done, and waits for their answers.
    Ask(Vec<usize>),
    /// Tells members something, in so many words behind a head, and waits until as many as `hear` have told it something in
    /// their same step.
    Tell {
        /// To whom, and how many words.
        to: Vec<(usize, usize)>,
        /// Of how many to hear.
        hear: usize,
    },
    /// Waits until all that is put into its own memory has been done.
    Done,
}

/// Who does the work of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// A client, which calls, and a server, which puts and answers, on a processor each: ARMCI.
    Apart,
    /// Whoever waits drives: one processor does it all. So it is in the product.
    Together,
}

/// Who takes part, and what is under way when they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many: hosts of one process.
    pub members: usize,
    /// How many others each has put something into, each once: those next behind it.
    pub targets: usize,
    /// All that was put is done and acknowledged, unless one has to ask. Otherwise it has just left.
    pub quiet: bool,
    /// Somebody who begins later than the others.
    pub late: Option<(usize, Time)>,
    /// Somebody whose puts, and what it asks behind them, are longer under way.
    pub slow: Option<(usize, Time)>,
}

impl Load {
    /// So many members, each of which has just put something into seven others, or all if there are fewer.
    #[must_use]
    pub fn puts(members: usize) -> Load {
        let targets = members.saturating_sub(1).min(7);
        Load { members, targets, quiet: false, late: None, slow: None }
    }

    /// The same, some time later.
    #[must_use]
    pub fn quiet(members: usize) -> Load {
        Load { quiet: true, ..Load::puts(members) }
    }
}

/// A way to know that all have arrived and everything put before is done.
pub trait Scheme {
    /// Its name in tables.
    fn name(&self) -> String;

    /// How many ways of a message follow one another: its time where messages cost nothing.
    fn rounds(&self, load: &Load) -> usize;

    /// How many messages all send, without puts.
    fn messages(&self, load: &Load) -> usize;

    /// What a member does.
    fn steps(&self, load: &Load, member: usize) -> Vec<Step>;

    /// Who does it.
    fn driven(&self) -> Driven;

    /// Whether all members do the same at the same times, so that one can stand for all.
    fn alike(&self, _load: &Load) -> bool {
        true
    }
}

/// ceil(log2 n).
pub(crate) fn log2(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}
