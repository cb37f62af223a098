//! What the farm knows of each of its processes: a record in common memory.
//!
//! | life        | means                                                      | by                                 |
//! |-------------|------------------------------------------------------------|------------------------------------|
//! | `Free`      | no process                                                 |                                    |
//! | `Reserved`  | a number without a process: it can be sent to               | the process that reserves          |
//! | `Asked`     | a worker has asked the manager to start it                  | that worker                        |
//! | `Started`   | its process runs                                            | the manager                        |
//! | `Joined`    | its process takes part                                      | itself                             |
//! | `Ended`     | it has ended, or could not be started; what it sent is there | the manager                        |
//! | `Free`      | of the next generation                                     | the manager, when nothing of it is left |
//!
//! The word holds the generation as well, so no step is ever taken for another process than it was
//! meant for.
//!
//! Any process may start a number that is reserved, and one does: the one whose exchange of the
//! parent succeeds ([`Record::claim`]). It alone writes the request and takes the step from
//! `Reserved`. If it dies before that step, the manager finds its number as the parent.
//!
//! # Places that are waited for
//! A place can be given away when no process has anything of the one that has ended. The manager's
//! thread frees such places, the oldest first: those beyond a number of dead that it keeps, and as
//! many as are waited for.
//!
//! | process          | step                                                                    |
//! |------------------|-------------------------------------------------------------------------|
//! | waits for a place | says so in its record; finds no free place; rings the manager; sleeps     |
//! | lets the dead go  | notes the end (or unlinks the channel); fence; rings the manager if any process waits |
//! | manager's thread  | when it is rung: counts those that wait; fence; frees what is let go; rings all |
//!
//! Of the two fences one comes first. So either the manager's thread sees what was let go, or the
//! process that lets go sees the one that waits.

use syncline_process::watch::Ending;
use syncline_signal::primitive::{AtomicU64, Ordering, fence};
use syncline_signal::{PaddedSignal, plant};

use crate::vpid::Vpid;

/// How far a process has come.
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

/// A process in common memory. All zero: there is none.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The generation, and in the lowest eight bits the life.
    life: AtomicU64,
    /// The number of its process in the system.
    pub(crate) pid: AtomicU64,
    /// The process that reserved it, and then, with [`CLAIMED`], the one that starts it.
    parent: AtomicU64,
    /// 1: the parent has seen its end.
    noted: AtomicU64,
    /// How it ended: see [`code`].
    ending: AtomicU64,
    /// What is to be started: the number of a block, and its length in the upper half.
    pub(crate) request: AtomicU64,
    /// How many channels were opened to it.
    pub(crate) inbound: AtomicU64,
    /// 1: it waits for a place.
    waits: AtomicU64,
    /// What it is at, if it is a worker of a pool.
    pub(crate) progress: ProgressRecord,
    /// Rung when there is something for it.
    pub(crate) bell: PaddedSignal,
}

/// What a worker of a pool is at: written by itself, read by the manager when it has ended, or
/// takes too long.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct ProgressRecord {
    /// How many tasks it has begun.
    pub(crate) begun: AtomicU64,
    /// When it has begun the last one, in nanoseconds of the monotonic clock; 0: it has ended that
    /// one.
    pub(crate) since: AtomicU64,
}

/// Why a process is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitCause {
    /// Its process has ended.
    Ended(Ending),
    /// It could not be started.
    NotStarted(String),
    /// The process that reserved it, or was to start it, has ended before it was started.
    NeverStarted,
    /// It is a member of a team, and is dead or has been given up.
    Dead,
    /// It has ended, and its place was given away: nothing more is known.
    Forgotten,
}

impl std::fmt::Display for ExitCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitCause::Ended(ending) => write!(f, "{ending}"),
            ExitCause::NotStarted(why) => write!(f, "could not be started: {why}"),
            ExitCause::NeverStarted => f.write_str("was never started: who reserved it has ended"),
            ExitCause::Dead => f.write_str("is dead"),
            ExitCause::Forgotten => f.write_str("ended long ago"),
        }
    }
}

const EXITED: u64 = 1 << 32;
const KILLED: u64 = 2 << 32;
const REFUSED: u64 = 3 << 32;
const NEVER: u64 = 4 << 32;

/// A fate in one word.
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

/// In the word of the parent: that process starts it, and no other may. No number of a process has
/// this bit.
const CLAIMED: u64 = 1 << 63;

fn word(generation: u64, life: ProcessState) -> u64 {
    generation << 8 | life as u64
}

/// Whether any of these processes is to be helped to a place, after something of the dead was let
/// go.
pub(crate) fn has_let_go<'r>(living: &mut impl Iterator<Item = &'r Record>) -> bool {
    if !plant::is("record: no fence") {
        // Pairs with the fence in `waiting`.
        fence(Ordering::SeqCst);
    }
    living.any(Record::is_waiting)
}

/// How many of these processes wait for places. What was let go before the fence of
/// [`has_let_go`], which did not find one of them, is seen from here on.
pub(crate) fn waiting<'r>(living: &mut impl Iterator<Item = &'r Record>) -> usize {
    let waiting = living.filter(|record| record.is_waiting()).count();
    // Pairs with the fence in `has_let_go`.
    fence(Ordering::SeqCst);
    waiting
}

impl Record {
    /// The generation, and how far it has come.
    pub(crate) fn now(&self) -> (u64, ProcessState) {
        // Acquire: pairs with the Release in `step`: what belongs to a life was written before it.
        let word = self.life.load(Ordering::Acquire);
        // Garbage, which no process of the farm writes, is as good as an end.
        (word >> 8, LIVES.get((word & 0xFF) as usize).copied().unwrap_or(ProcessState::Ended))
    }

    /// How far that very process has come. One whose place has another by now has ended.
    pub(crate) fn life(&self, vpid: Vpid) -> ProcessState {
        match self.now() {
            (generation, life) if generation == vpid.generation() => life,
            (generation, _) if generation > vpid.generation() => ProcessState::Ended,
            _ => ProcessState::Free,
        }
    }

    /// The process that reserved it, or the one that starts, or has started, it.
    pub(crate) fn parent(&self) -> Vpid {
        Vpid::from_raw(self.parent.load(Ordering::Relaxed) & !CLAIMED)
    }

    /// It was reserved by `parent`, just now.
    pub(crate) fn reserved_by(&self, parent: Vpid) {
        self.parent.store(parent.to_raw(), Ordering::Relaxed);
    }

    /// Whether `by` is to start a number that is reserved: true for one process only.
    pub(crate) fn claim(&self, vpid: Vpid, by: Vpid) -> bool {
        // Relaxed: the exchange only chooses; the step from `Reserved` publishes.
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
            // The place was given away meanwhile, and has a new parent, or will have one.
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

    /// Whether a number without a process never gets one, as its parent is dead: then no other
    /// process starts it from now on.
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

    /// The parent has seen its end, and looks at the record no more.
    pub(crate) fn note(&self) {
        // Release: pairs with the Acquire in `is_noted`.
        self.noted.store(1, Ordering::Release);
    }

    /// Whether the parent has seen its end.
    pub(crate) fn is_noted(&self) -> bool {
        // Acquire: pairs with the Release in `note`.
        self.noted.load(Ordering::Acquire) == 1
    }

    /// From now on it waits for a place, or does no more.
    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.store(u64::from(waits), Ordering::Relaxed);
    }

    /// Whether it waits for a place. Others look by [`waiting`] and [`has_let_go`].
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed) == 1
    }

    /// A member of a team is there, whichever process says so.
    pub(crate) fn is_member(&self) {
        self.step(0, ProcessState::Free, ProcessState::Joined);
    }

    /// From one life to another, if it is in that one.
    pub(crate) fn step(&self, generation: u64, from: ProcessState, to: ProcessState) -> bool {
        // Release: pairs with the Acquire in `now`. Acquire: the process that steps goes on from
        // what the one before has written.
        let (from, to) = (word(generation, from), word(generation, to));
        self.life.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// From whichever of several lives it is in to another. Another process may step from one of
    /// these to the next meanwhile: they are given in that order, so that none is passed by.
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

    /// It has ended: from whatever life.
    pub(crate) fn end(&self, vpid: Vpid, code: u64) {
        self.ending.store(code, Ordering::Relaxed);
        // Release: pairs with the Acquire in `now`.
        self.life.store(word(vpid.generation(), ProcessState::Ended), Ordering::Release);
    }

    /// Nothing is left of one that has ended: its place is free for another.
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
        // Release: as above.
        self.life.store(word(generation + 1, ProcessState::Free), Ordering::Release);
    }

    /// Why a process is no more that has [`ProcessState::Ended`].
    pub(crate) fn cause(&self, vpid: Vpid) -> ExitCause {
        let cause = cause(self.ending.load(Ordering::Relaxed));
        // Acquire: the look at the life below is not to come before the one at the ending above.
        fence(Ordering::Acquire);
        // Looked at afterwards: if the place is another's by now, so may the fate be.
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
        for (told, read) in [
            (Ok(Ending::Exited(200)), "exited with 200"),
            (Ok(Ending::Killed(9)), "was killed by signal 9"),
            (Err(Some(2)), "could not be started: No such file or directory (os error 2)"),
            (Err(None), "was never started: who reserved it has ended"),
        ] {
            record.end(vpid, code(&told));
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
