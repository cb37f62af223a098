//! The definition of a scheme: for each member, the list of messages that it sends and awaits.

use crate::machine::Time;

/// A step of a member, which ends before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Asks the hosts of these members whether all puts into them are done, and waits for their
    /// answers.
    Ask(Vec<usize>),
    /// Sends a message to each of some members, and waits until `hear` messages of the members'
    /// same step have arrived.
    Tell {
        /// The receivers, and the number of words that each message has behind its head.
        to: Vec<(usize, usize)>,
        /// The number of messages to wait for.
        hear: usize,
    },
    /// Waits until all puts into the member's own memory are done.
    Done,
}

/// The processors that do the work of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// A client, which calls, and a server, which puts and answers, on a processor each: ARMCI.
    Apart,
    /// One processor: the waiting member does the server's work. This is the product's way.
    Together,
}

/// The members, and the puts in flight when they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of members; each is a host of one process.
    pub members: usize,
    /// The number of other members into which each has put something, once: the next ones in rank
    /// order.
    pub targets: usize,
    /// Whether all puts are done and acknowledged when the members begin; a scheme may have to ask
    /// even so. Otherwise the puts have just left.
    pub quiet: bool,
    /// A member that begins later than the others, and its delay.
    pub late: Option<(usize, Time)>,
    /// A member whose puts, and the questions behind them, are in flight longer, and their delay.
    pub slow: Option<(usize, Time)>,
}

impl Load {
    /// Returns a load of `members` members, each of which has just put something into seven others,
    /// or into all if there are fewer.
    #[must_use]
    pub fn puts(members: usize) -> Load {
        let targets = members.saturating_sub(1).min(7);
        Load { members, targets, quiet: false, late: None, slow: None }
    }

    /// Returns the load of [`Load::puts`] some time later: all puts are done.
    #[must_use]
    pub fn quiet(members: usize) -> Load {
        Load { quiet: true, ..Load::puts(members) }
    }
}

/// A way to establish that all members have arrived and all earlier puts are done.
pub trait Scheme {
    /// Returns the scheme's name in tables.
    fn name(&self) -> String;

    /// Returns the number of consecutive latencies: the scheme's time on a machine without overhead
    /// and gap.
    fn rounds(&self, load: &Load) -> usize;

    /// Returns the number of messages that all members send, without puts.
    fn messages(&self, load: &Load) -> usize;

    /// Returns the steps of a member.
    fn steps(&self, load: &Load, member: usize) -> Vec<Step>;

    /// Returns which processors do the work of a host.
    fn driven(&self) -> Driven;

    /// Returns whether all members do the same at the same times, so that one can represent all.
    fn alike(&self, _load: &Load) -> bool {
        true
    }
}

/// Returns ceil(log2 n).
pub(crate) fn log2(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}
