//! The errors of the crate.

use std::io;
use std::path::PathBuf;

use syncline_fabric::Advised;
use syncline_memory::room::Size;
use syncline_sync::{Fault, SpaceError};

use crate::record::ExitCause;
use crate::vpid::Vpid;
use crate::wire::WireError;

/// The error type of farms and pools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FarmError {
    /// The process to send to or to receive from has ended. All messages that it had sent were
    /// received before.
    #[error("process {vpid} {cause}")]
    Gone {
        /// The ended process.
        vpid: Vpid,
        /// Its exit cause.
        cause: ExitCause,
    },

    /// The deadline passed.
    #[error("the deadline passed while waiting for {what}")]
    TimedOut {
        /// The awaited event.
        what: String,
    },

    /// There is no message, and no live process that could send one.
    #[error("no process of the farm is left that could send anything")]
    Alone,

    /// There is no such process in this farm.
    #[error("there is no process {vpid} in this farm")]
    Unknown {
        /// The given vpid.
        vpid: Vpid,
    },

    /// The vpid is not reserved, or its process has already been started.
    #[error("process {vpid} is not reserved, or was started already")]
    NotReserved {
        /// The given vpid.
        vpid: Vpid,
    },

    /// This process would wait for something that only it can do.
    #[error("process {vpid} cannot {what}")]
    Itself {
        /// This process.
        vpid: Vpid,
        /// The operation that it cannot do.
        what: &'static str,
    },

    /// All places of the farm are taken: by live processes, or by ended ones whose messages have
    /// not been received or whose end has not been reported to their parent.
    #[error(
        "all places of the farm ({processes}) are taken, by live processes, or by ended ones whose messages or ends \
         were not received: wait for some, or found the farm with a higher bound of processes"
    )]
    Full {
        /// The number of places.
        processes: usize,
    },

    /// The farm's memory has no room for the message.
    #[error(
        "no {} are free for a message in the farm's memory of {}: receive some, or found the farm with a higher \
         bound of memory",
        Size(*asked as u64),
        Size(*memory as u64)
    )]
    Room {
        /// The number of bytes that were requested.
        asked: usize,
        /// The size of the memory in bytes.
        memory: usize,
    },

    /// The requested memory exceeds the address space.
    #[error("{} of memory for messages are more than this machine can address", Size(*asked as u64))]
    Memory {
        /// The number of bytes that were requested.
        asked: usize,
    },

    /// A number is out of range.
    #[error("{what} must be from {least} to {most}, not {said}")]
    Range {
        /// The description of the number.
        what: &'static str,
        /// The given number.
        said: usize,
        /// The smallest valid number.
        least: usize,
        /// The largest valid number.
        most: usize,
    },

    /// A message is invalid, or not of the type that the receiver expects.
    #[error("a message from process {from} {why}")]
    Garbled {
        /// The sender.
        from: Vpid,
        /// The reason.
        why: WireError,
    },

    /// A value cannot be sent.
    #[error("a value for process {to} cannot be sent: it {why}")]
    Unsendable {
        /// The receiver.
        to: Vpid,
        /// The reason.
        why: WireError,
    },

    /// A program could not be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// The environment variable that the manager has set for this process is invalid.
    #[error("{variable} is {value:?}: {why}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The reason.
        why: String,
    },

    /// This process has already joined the farm, or another process has in its place.
    #[error("process {vpid} of the farm takes part already")]
    Taken {
        /// The vpid.
        vpid: Vpid,
    },

    /// A process that was started as a worker is about to found another farm.
    #[error(
        "this process was started by a farm, and has not joined it: it must serve, or join, before it \
         founds another"
    )]
    Worker,

    /// This process is a copy, made by `fork`, of a process of the farm.
    #[error(
        "this process is a copy that fork() has made of process {vpid} of the farm, and is not part of it: only the \
         forked process may use it"
    )]
    Forked {
        /// The vpid of the forked process.
        vpid: Vpid,
    },

    /// Only the manager can do this.
    #[error("only the manager can {what}; this is process {vpid}")]
    Manager {
        /// The operation.
        what: &'static str,
        /// This process.
        vpid: Vpid,
    },

    /// A member of the team, without which the others cannot continue, is dead.
    #[error("a pool of a team has ended: {fault}")]
    Team {
        /// The fault.
        fault: Fault,
    },

    /// A pool of a team has a configuration that a team does not support.
    #[error("a team cannot run a pool that is {kind}: its members exist already, and stay")]
    UnsupportedPool {
        /// The unsupported kind.
        kind: &'static str,
    },

    /// An error of the memory of a team.
    #[error("the team's memory: {}", Advised(.0))]
    Space(#[from] SpaceError),

    /// An error of the shared memory.
    #[error(transparent)]
    Memories(#[from] syncline_memory::Error),

    /// An error of the lifeline.
    #[error(transparent)]
    Lifeline(#[from] syncline_process::Error),

    /// The system refused an operation.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}
