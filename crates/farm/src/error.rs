//! The errors of the crate.

use std::io;
use std::path::PathBuf;

use syncline_memory::room::Size;
use syncline_sync::{Fault, SpaceError};

use crate::record::ExitCause;
use crate::vpid::Vpid;
use crate::wire::WireError;

/// Why something with a farm did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FarmError {
    /// The process that was to send or receive something is no more. What it had sent was received
    /// before.
    #[error("process {vpid} {cause}")]
    Gone {
        /// Which.
        vpid: Vpid,
        /// Why.
        cause: ExitCause,
    },

    /// The deadline passed.
    #[error("the deadline passed while waiting for {what}")]
    TimedOut {
        /// What did not come.
        what: String,
    },

    /// There is no message, and no process lives that could send one.
    #[error("no process of the farm is left that could send anything")]
    Alone,

    /// There is no such process in this farm.
    #[error("there is no process {vpid} in this farm")]
    Unknown {
        /// Its number.
        vpid: Vpid,
    },

    /// A process that has a number cannot be given another process.
    #[error("process {vpid} is not one that was reserved and not started yet")]
    NotReserved {
        /// Its number.
        vpid: Vpid,
    },

    /// This process would wait for something that only it can do.
    #[error("process {vpid} cannot {what}")]
    Itself {
        /// This process.
        vpid: Vpid,
        /// What it cannot do.
        what: &'static str,
    },

    /// All places of the farm are taken by processes that live, or whose messages were not
    /// received, or whose end was not told to the process that has started them.
    #[error(
        "all places of the farm ({processes}) are taken, by processes that live or whose messages or ends were not \
         received: wait for some, or found it with a higher bound of processes"
    )]
    Full {
        /// How many there are room for.
        processes: usize,
    },

    /// The farm's memory holds no more messages.
    #[error(
        "no {} are free for a message in the farm's memory of {}: receive some, or found it with a higher bound of \
         memory",
        Size(*asked as u64),
        Size(*memory as u64)
    )]
    Room {
        /// What was asked for.
        asked: usize,
        /// What there is in all.
        memory: usize,
    },

    /// More memory than there can be at all.
    #[error("{} of memory for messages are more than this machine can address", Size(*asked as u64))]
    Memory {
        /// What was asked for.
        asked: usize,
    },

    /// A number of something out of its range.
    #[error("{what} must be from {least} to {most}, not {said}")]
    Range {
        /// Of what.
        what: &'static str,
        /// What was said.
        said: usize,
        /// The least that can be.
        least: usize,
        /// The most that can be.
        most: usize,
    },

    /// A message that is not what the receiver takes it for.
    #[error("a message from process {from} {why}")]
    Garbled {
        /// Its sender.
        from: Vpid,
        /// What is wrong with it.
        why: WireError,
    },

    /// A value that cannot be sent.
    #[error("a value for process {to} cannot be sent: it {why}")]
    Unsendable {
        /// Its receiver.
        to: Vpid,
        /// What is wrong with it.
        why: WireError,
    },

    /// A program that could not be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// Which.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// What the manager has told this process of the farm makes no sense.
    #[error("{variable} is {value:?}: {why}")]
    Variable {
        /// Where it was told.
        variable: &'static str,
        /// What.
        value: String,
        /// What is wrong with it.
        why: String,
    },

    /// This process takes part already, or another does in its place.
    #[error("process {vpid} of the farm takes part already")]
    Taken {
        /// Its number.
        vpid: Vpid,
    },

    /// A process that was started as a worker is about to start others.
    #[error(
        "this process was started by a farm, and has not taken part in it: it has to serve, or to join, before anything \
         that founds another"
    )]
    Worker,

    /// This process is a copy that `fork` has made of one of the farm.
    #[error(
        "this process is a copy that fork() has made of process {vpid} of the farm, and has no part in the farm: only the \
         process that was forked may use it"
    )]
    Forked {
        /// The number of that process.
        vpid: Vpid,
    },

    /// Only the manager can do this.
    #[error("only the manager can {what}; this is process {vpid}")]
    Manager {
        /// What.
        what: &'static str,
        /// This process.
        vpid: Vpid,
    },

    /// A member of the team is dead, without which the others do not go on.
    #[error("a pool of a team has ended: {fault}")]
    Team {
        /// The process.
        fault: Fault,
    },

    /// A pool of a team has another kind of crew.
    #[error("a team cannot be a crew that is {kind}: its members are there already, and stay")]
    PoolBuilder {
        /// Which.
        kind: &'static str,
    },

    /// The memory of a team.
    #[error(transparent)]
    Space(#[from] SpaceError),

    /// The memory that all share.
    #[error(transparent)]
    Memories(#[from] syncline_memory::Error),

    /// The lifeline.
    #[error(transparent)]
    Lifeline(#[from] syncline_process::Error),

    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}
