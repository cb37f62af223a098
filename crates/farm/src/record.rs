//! The record of each process of a farm, in shared memory.
//!
//! | state      | meaning                                             | set by                |
//! |------------|-----------------------------------------------------|-----------------------|
//! | `Free`     | the record belongs to no process                    |                       |
//! | `Reserved` | a vpid without a process, which can be sent to      | the reserving process |
//! | `Asked`    | a worker has asked the manager to start the process | that worker           |
//! | `Started`  | the process runs                                    | the manager           |
//! | `Joined`   | the process takes part in the farm                  | the process itself    |
//! | `Ended`    | it has ended or could not be started                | the manager           |
//! | `Free`     | free in the next generation                         | the manager           |
//!
//! The messages of an ended process remain readable. The manager frees its record once no process
//! refers to it.
//!
//! The state word also holds the generation, so a transition never applies to a different process
//! than the intended one.
//!
//! Any process may start a reserved vpid, and exactly one does: the process whose exchange of
//! `parent` succeeds ([`Record::claim`]). Only that process writes the request and makes the
//! transition from `Reserved`. If it dies before that transition, the manager finds its vpid in
//! `parent`.
//!
//! # Waiting for a free place
//! A place is the index of a record in the table of processes. It can be reused when no process
//! refers to the ended process that occupied it. The manager's thread frees such places, the oldest
//! first: those beyond the fixed number of ended processes that it retains, and as many as
//! processes wait for.
//!
//! * A process that waits for a place sets `waits` in its record, finds no free place, notifies the
//!   manager and sleeps.
//! * A process that releases an ended one notes the end (or unlinks the channel), executes a fence,
//!   and notifies the manager if a process waits.
//! * The manager's thread, once notified, counts the waiting processes, executes a fence, frees
//!   what was released and notifies all processes.
//!
//! One of the two fences comes first. Either the manager's thread sees what was released, or the
//! releasing process sees the waiting one.

use syncline_process::watch::Ending;
use syncline_signal::primitive::{AtomicU64, Ordering, fence};
use syncline_signal::{event_count::EventCount, plant};

use crate::vpid::Vpid;

/// The state of a process in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum ProcessState {
    Free,
    Reserved,
    Asked,
    Started,
    Joined,
    Ended,
}

const LIVES: [ProcessState; 6] = [
    ProcessState::Free,
    ProcessState::Reserved,
    ProcessState::Asked,
    ProcessState::Started,
    ProcessState::Joined,
    ProcessState::Ended,
];

/// The record of one process, in shared memory. All zero bytes: no process.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The generation, and the [`ProcessState`] in the lowest eight bits.
    life: AtomicU64,
    /// The process ID of the operating system.
    pub(crate) pid: AtomicU64,
    /// The vpid that reserved the record; with [`CLAIMED`], the vpid that starts the process.
    parent: AtomicU64,
    /// 1: the parent has seen the end of the process.
    noted: AtomicU64,
    /// The exit cause: see [`code`].
    ending: AtomicU64,
    /// The start request: the number of its block, and its length in the upper half.
    pub(crate) request: AtomicU64,
    /// The number of channels that have been opened to the process.
    pub(crate) inbound: AtomicU64,
    /// 1: the process waits for a free place.
    waits: AtomicU64,
    /// The progress of the process, if it is a worker of a pool.
    pub(crate) progress: ProgressRecord,
    /// The events for it: a message for it, the end of any process. Notified for each, as a channel
    /// has one reader: no fence and no mark of a sleeper would be cheaper than the count.
    pub(crate) events: EventCount,
}

/// The progress of a worker of a pool. The worker writes it; the manager reads it when the worker
/// has ended or exceeds its time limit.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct ProgressRecord {
    /// The number of tasks that the worker has begun.
    pub(crate) begun: AtomicU64,
    /// The start time of the last task, in nanoseconds of the monotonic clock; 0: that task has
    /// ended.
    pub(crate) since: AtomicU64,
    /// What the tasks of the worker publish.
    pub(crate) published: [AtomicU64; PUBLISHED],
}

/// The number of numbers that a worker can publish: they fill the line of its progress.
pub const PUBLISHED: usize = 6;

impl ProgressRecord {
    pub(crate) fn publish(&self, numbers: &[u64; PUBLISHED]) {
        for (to, &number) in self.published.iter().zip(numbers) {
            // Relaxed: each number is read by itself, as a hint.
            to.store(number, Ordering::Relaxed);
        }
    }

    pub(crate) fn published(&self) -> [u64; PUBLISHED] {
        std::array::from_fn(|index| self.published[index].load(Ordering::Relaxed))
    }
}

/// The reason why a process no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitCause {
    /// The process has ended.
    Ended(Ending),
    /// The process could not be started.
    NotStarted(String),
    /// The process that reserved it, or was to start it, ended before the start.
    NeverStarted,
    /// The process is a member of a team, and has died or has been given up.
    Dead,
    /// The process has ended and its place was reused; no more is known about it.
    Forgotten,
}

impl std::fmt::Display for ExitCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitCause::Ended(ending) => write!(f, "{ending}"),
            ExitCause::NotStarted(why) => write!(f, "could not be started: {why}"),
            ExitCause::NeverStarted => f.write_str("was never started: its parent has ended"),
            ExitCause::Dead => f.write_str("is dead"),
            ExitCause::Forgotten => f.write_str("ended long ago"),
        }
    }
}

const EXITED: u64 = 1 << 32;
const KILLED: u64 = 2 << 32;
const REFUSED: u64 = 3 << 32;
const NEVER: u64 = 4 << 32;

/// Encodes an exit cause in one word.
pub(crate) fn code(cause: &Result<Ending, Option<i32>>) -> u64 {
    match *cause {
        Ok(Ending::Exited(code)) => EXITED | u64::from(code),
        Ok(Ending::Killed(signal)) => KILLED | u64::from(signal as u32),
        Err(Some(errno)) => REFUSED | u64::from(errno as u32),
        Err(None) => NEVER,
    }
}

fn cause(code: u64) -> ExitCause {
    let low = code as u32;
    match code & !u64::from(u32::MAX) {
        EXITED => ExitCause::Ended(Ending::Exited(low as u8)),
        KILLED => ExitCause::Ended(Ending::Killed(low as i32)),
        REFUSED => ExitCause::NotStarted(std::io::Error::from_raw_os_error(low as i32).to_string()),
        NEVER => ExitCause::NeverStarted,
        _ => ExitCause::Forgotten,
    }
}

/// In `parent`: the named process starts the vpid, and no other may. No vpid has this bit set.
const CLAIMED: u64 = 1 << 63;

fn word(generation: u64, life: ProcessState) -> u64 {
    generation << 8 | life as u64
}

/// Returns whether any of these processes waits for a place. Called after something of an ended
/// process was released.
pub(crate) fn has_let_go<'r>(living: &mut impl Iterator<Item = &'r Record>) -> bool {
    if !plant::is("record: no fence") {
        // SeqCst: pairs with the fence in `waiting`.
        fence(Ordering::SeqCst);
    }
    living.any(Record::is_waiting)
}

/// Returns the number of these processes that wait for places. After the call, the caller sees
/// everything that was released before a fence of [`has_let_go`] that missed one of these
/// processes.
pub(crate) fn waiting<'r>(living: &mut impl Iterator<Item = &'r Record>) -> usize {
    let waiting = living.filter(|record| record.is_waiting()).count();
    // SeqCst: pairs with the fence in `has_let_go`.
    fence(Ordering::SeqCst);
    waiting
}

impl Record {
    /// Returns the current generation and state.
    pub(crate) fn now(&self) -> (u64, ProcessState) {
        // Acquire: pairs with the Release in `step`: the fields that belong to a state are written
        // before it.
        let word = self.life.load(Ordering::Acquire);
        // An invalid value, which no process of the farm writes, counts as `Ended`.
        (word >> 8, LIVES.get((word & 0xFF) as usize).copied().unwrap_or(ProcessState::Ended))
    }

    /// Returns the state of the process `vpid`: `Ended` if its place belongs to a later generation.
    pub(crate) fn life(&self, vpid: Vpid) -> ProcessState {
        match self.now() {
            (generation, life) if generation == vpid.generation() => life,
            (generation, _) if generation > vpid.generation() => ProcessState::Ended,
            _ => ProcessState::Free,
        }
    }

    /// Returns the vpid that reserved the record, or that starts or has started the process.
    pub(crate) fn parent(&self) -> Vpid {
        Vpid::from_raw(self.parent.load(Ordering::Relaxed) & !CLAIMED)
    }

    /// Stores `parent` as the vpid that has just reserved the record.
    pub(crate) fn reserved_by(&self, parent: Vpid) {
        self.parent.store(parent.to_raw(), Ordering::Relaxed);
    }

    /// Claims the start of a reserved vpid for `by`. Returns true for exactly one process.
    pub(crate) fn claim(&self, vpid: Vpid, by: Vpid) -> bool {
        // Relaxed: the exchange only selects the starter; the transition from `Reserved` publishes.
        let reserver = self.parent.load(Ordering::Relaxed);
        let claimed = by.to_raw() | CLAIMED;
        if plant::is("record: claimed by a look") {
            let free = self.life(vpid) == ProcessState::Reserved && reserver & CLAIMED == 0;
            self.parent.store(claimed, Ordering::Relaxed);
            return free;
        }
        let chosen = self.life(vpid) == ProcessState::Reserved
            && reserver & CLAIMED == 0
            && self
                .parent
                .compare_exchange(reserver, claimed, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if chosen && self.life(vpid) != ProcessState::Reserved {
            // The place was reused in between: it has, or will have, a new parent.
            let _ = self.parent.compare_exchange(
                claimed,
                reserver,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            return false;
        }
        chosen
    }

    /// Returns whether the process will never be started because its parent `dead` has died. If so,
    /// no other process starts it from now on.
    pub(crate) fn is_orphan(&self, dead: Vpid) -> bool {
        let (reserver, claimed) = (dead.to_raw(), dead.to_raw() | CLAIMED);
        // Relaxed: as in `claim`.
        matches!(self.now().1, ProcessState::Reserved | ProcessState::Asked)
            && match self.parent.compare_exchange(
                reserver,
                claimed,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => true,
                Err(parent) => parent == claimed,
            }
    }

    /// Records that the parent has seen the end and does not read the record again.
    pub(crate) fn note(&self) {
        // Release: pairs with the Acquire in `is_noted`.
        self.noted.store(1, Ordering::Release);
    }

    /// Returns whether the parent has seen the end.
    pub(crate) fn is_noted(&self) -> bool {
        // Acquire: pairs with the Release in `note`.
        self.noted.load(Ordering::Acquire) == 1
    }

    /// Sets whether the process waits for a free place.
    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.store(u64::from(waits), Ordering::Relaxed);
    }

    /// Returns whether the process waits for a free place. Other processes call [`waiting`] and
    /// [`has_let_go`], which add the fences.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed) == 1
    }

    /// Marks a member of a team as present. Any process may call it, any number of times.
    pub(crate) fn is_member(&self) {
        self.step(0, ProcessState::Free, ProcessState::Joined);
    }

    /// Changes the state from `from` to `to`; returns false if the state is not `from`.
    pub(crate) fn step(&self, generation: u64, from: ProcessState, to: ProcessState) -> bool {
        // Release: pairs with the Acquire in `now`. Acquire: the caller continues from what the
        // process that made the previous transition has written.
        let (from, to) = (word(generation, from), word(generation, to));
        self.life.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Changes the state to `to` from whichever of `lives` it is in. As another process may
    /// concurrently move from one of `lives` to the next, they must be given in that order: then
    /// none is missed.
    pub(crate) fn step_from(
        &self,
        generation: u64,
        lives: &[ProcessState],
        to: ProcessState,
    ) -> bool {
        debug_assert!(lives.is_sorted(), "{lives:?}");
        let step = |&life| self.step(generation, life, to);
        if plant::is("record: the last life first") {
            return lives.iter().rev().any(step);
        }
        lives.iter().any(step)
    }

    /// Sets the state to `Ended`, from any state, with the exit cause `code`.
    pub(crate) fn end(&self, vpid: Vpid, code: u64) {
        self.ending.store(code, Ordering::Relaxed);
        // Release: pairs with the Acquire in `now`.
        self.life.store(word(vpid.generation(), ProcessState::Ended), Ordering::Release);
    }

    /// Frees the place of an ended process to which nothing refers any more, for the next
    /// generation.
    pub(crate) fn free(&self, generation: u64) {
        for field in [
            &self.pid,
            &self.parent,
            &self.noted,
            &self.ending,
            &self.request,
            &self.inbound,
            &self.waits,
            &self.progress.begun,
            &self.progress.since,
        ] {
            field.store(0, Ordering::Relaxed);
        }
        self.progress.publish(&[0; PUBLISHED]);
        // Release: pairs with the Acquire in `now`.
        self.life.store(word(generation + 1, ProcessState::Free), Ordering::Release);
    }

    /// Returns the exit cause of a process in state [`ProcessState::Ended`].
    pub(crate) fn cause(&self, vpid: Vpid) -> ExitCause {
        let cause = cause(self.ending.load(Ordering::Relaxed));
        // Acquire: the load of the state below must not be reordered before the load of `ending`.
        fence(Ordering::Acquire);
        // Checked after the load: if the place was reused, the loaded exit cause may be the new
        // one's.
        if self.now() == (vpid.generation(), ProcessState::Ended) {
            cause
        } else {
            ExitCause::Forgotten
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "the text of an error number is the system's")]
    fn a_fate_is_what_was_told() {
        let record = Record::default();
        let vpid = Vpid::new(7, 0);
        assert_eq!(record.life(vpid), ProcessState::Free);
        for (cause, read) in [
            (Ok(Ending::Exited(200)), "exited with 200"),
            (Ok(Ending::Killed(9)), "was killed by signal 9"),
            (Err(Some(2)), "could not be started: No such file or directory (os error 2)"),
            (Err(None), "was never started: its parent has ended"),
        ] {
            record.end(vpid, code(&cause));
            assert_eq!(record.cause(vpid).to_string(), read);
        }
        record.free(0);
        assert_eq!(
            (record.life(vpid), record.cause(vpid)),
            (ProcessState::Ended, ExitCause::Forgotten)
        );
        assert_eq!(record.life(Vpid::new(7, 1)), ProcessState::Free);
        assert!(
            record.step(1, ProcessState::Free, ProcessState::Reserved)
                && !record.step(1, ProcessState::Free, ProcessState::Reserved)
        );
    }
}
