//! Mutexes on a team: sets of mutexes, of which each member owns any number, for all members.
//!
//! # Contract
//! One member at a time holds a mutex. The next holder sees everything that the previous one has
//! written, in all parts: an unlock completes these writes first. Waiting members get the mutex in
//! the order in which they asked (`Mcs`, `Server`). Products use `Mcs`; benchmarks compare it with
//! the other kinds (`unstable`).
//!
//! | kind     | lock, free     | hand-over between hosts | unlock, no waiter | waits on      |
//! |----------|----------------|-------------------------|-------------------|---------------|
//! | `Mcs`    | swap at owner  | 1 message to the next   | compare-swap      | own word      |
//! | `Server` | request, grant | 2: to server, to next   | 1 message         | answer        |
//! | `Ticket` | 2 fetch-adds   | a fetch-add, polls      | a fetch-add       | word at owner |
//!
//! `Hybrid` is `Ticket` for members of the owner's host, and `Server` for members of other hosts.
//! The *owner* is the member that the mutex belongs to. A swap, a compare-swap or a fetch-add at
//! the owner takes two messages from another host. On one host all of these are operations on
//! memory.
//!
//! # A holder that is gone
//! If a member drops its handle to a set, or its function returns, while it holds a mutex of the
//! set, the mutex becomes *poisoned*: the data that the mutex guards may be half changed. Members
//! that wait for the mutex and members that ask later get [`RmaError::Poisoned`], with the rank of
//! that member. There is no recovery. A member that dies with a mutex is reported by
//! [`Fault::Dead`](syncline_sync::Fault::Dead). See `poison`.
//!
//! # Source
//! Saify's thesis (2002), chapter 5: its software queue is `Mcs`, and it compares the queue with
//! the other kinds. Changed: see `mcs`.

mod mcs;
mod poison;
pub(crate) mod server;
mod ticket;

use std::time::Instant;

use syncline_fabric::Member;
use syncline_sync::call_matching::Call;
use syncline_trace::since;

use self::poison::{Holds, MOST, Named, Own, Wanted};
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::{Rma, call};

/// The algorithm of the mutexes of a set: `Mcs` in products; the others are for comparison.
///
/// A wait for a ticket mutex that ends at its deadline leaves no trace. `Server` supports deadlines
/// on one host only, and otherwise returns [`RmaError::Shape`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// A queue of the waiting members, in which each holder passes the mutex to the next one.
    #[default]
    Mcs,
    /// A queue that the server of the owner's host keeps.
    Server,
    /// A ticket for each member that asks, and a word with the ticket that is served, which all
    /// poll.
    Ticket,
    /// Tickets for members of the owner's host. The server takes tickets for the members of other
    /// hosts: the locks of ARMCI.
    Hybrid,
}

/// A set of mutexes: see [`Rma::mutexes`].
#[derive(Debug)]
pub struct Mutexes {
    kind: LockKind,
    /// The words of each mutex: in a queue, the name of its last node; for tickets, the next ticket
    /// and, at `SERVED`, the ticket that is served.
    words: Global<u64>,
    held: Vec<Held>,
    /// The mutexes of `held`, at the same indices, to be poisoned if this member leaves.
    holds: Own,
    nodes: Option<mcs::Nodes>,
}

/// A mutex that this member holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    mutex: Named,
    /// The state that its kind needs for the unlock.
    token: u64,
    /// When it was locked; 0 if recording was off.
    since: u64,
}

/// The number of words of a mutex: a pair of cache lines, so that no two mutexes share one.
const WORDS: usize = 16;

impl Rma {
    /// Creates a set of mutexes, `count` of which this member owns. Each member chooses its own
    /// count.
    ///
    /// # Collective
    /// As [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    ///
    /// # Panics
    /// As [`allocate`](Self::allocate).
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError};
    ///
    /// Team::hosts(2).threads(2).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let sum = rma.allocate::<i64>(me, 1)?;
    ///     let mut mutexes = rma.mutexes(me, 1)?;
    ///     for _ in 0..10 {
    ///         mutexes.lock(&mut rma, 0, 0)?;
    ///         let mut value = [0];
    ///         rma.get(&sum, 3, 0, &mut value)?;
    ///         rma.put(&sum, 3, 0, &[value[0] + 1])?;
    ///         mutexes.unlock(&mut rma, 0, 0)?; // the next one reads what was put
    ///     }
    ///     rma.sync()?;
    ///     let mut value = [0];
    ///     rma.get(&sum, 3, 0, &mut value)?;
    ///     assert_eq!(value, [40]);
    ///     rma.sync()
    /// })?.into_iter().collect::<Result<(), _>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mutexes(&mut self, me: &mut Member, count: usize) -> Result<Mutexes, RmaError> {
        self.mutexes_of(me, LockKind::Mcs, count)
    }

    /// Like [`mutexes`](Self::mutexes), for any kind.
    pub(crate) fn mutexes_of(
        &mut self,
        me: &mut Member,
        kind: LockKind,
        count: usize,
    ) -> Result<Mutexes, RmaError> {
        self.check_not_forked()?;
        let _making = me.naming(Call::Mutexes);
        self.all_call(me, call::MUTEXES | kind as u64)?;
        let holds = Own(Holds::new(me)?);
        let nodes = if kind == LockKind::Mcs { Some(mcs::Nodes::new(self, me)?) } else { None };
        // More mutexes than have names need more memory than there is: all members get that error.
        let words = if count > Named::INDICES { usize::MAX } else { count * WORDS };
        let words = self.allocate(me, words)?;
        Ok(Mutexes { kind, words, held: Vec::new(), holds, nodes })
    }
}

impl Mutexes {
    /// Returns the number of mutexes of a member in this set.
    ///
    /// # Panics
    /// If `rank` is not the rank of a member.
    #[must_use]
    pub fn count(&self, rank: usize) -> usize {
        self.words.len(rank) / WORDS
    }

    /// Locks a mutex of the member `rank`, and waits until it is free.
    ///
    /// # One-sided
    /// Only this member calls it. It may hold several mutexes at once, and must not ask for one
    /// that it holds.
    ///
    /// # Memory ordering
    /// Everything that earlier holders did before their unlocks is seen.
    ///
    /// # Errors
    /// [`RmaError::Rank`], [`RmaError::Mutex`]; [`RmaError::Held`] if this member holds the mutex;
    /// [`RmaError::Poisoned`] if a member has left while it held the mutex; [`RmaError::Fault`] if
    /// a member is dead, as the queue may be broken; [`RmaError::Shape`] if this member holds, or
    /// has places in the queues of, 64 mutexes of the set.
    #[inline]
    pub fn lock(&mut self, rma: &mut Rma, rank: usize, index: usize) -> Result<(), RmaError> {
        self.lock_deadline(rma, rank, index, None)
    }

    /// Like [`lock`](Self::lock), with a deadline.
    ///
    /// The deadline bounds the wait for the holder. Between hosts the request itself takes one
    /// exchange of messages, which has no deadline. When the deadline passes, this member keeps its
    /// place in the queue, and its next call for this mutex resumes there. If the mutex reaches the
    /// place meanwhile, it passes on to the next waiting member, and the next call of this member
    /// enqueues it again. Without a waiting member, the mutex stays at the place until a member
    /// asks for it.
    ///
    /// # One-sided
    /// As [`lock`](Self::lock).
    ///
    /// # Memory ordering
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    /// [`Fault::TimedOut`](syncline_sync::Fault::TimedOut) in [`RmaError::Fault`] if the deadline
    /// passes first; as [`lock`](Self::lock).
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let mut mutexes = rma.mutexes(me, 1)?;
    ///     let soon = Some(Instant::now() + Duration::from_millis(1));
    ///     while mutexes.lock_deadline(&mut rma, 0, 0, soon).is_err() {
    ///         std::thread::yield_now(); // something else
    ///     }
    ///     mutexes.unlock(&mut rma, 0, 0)?;
    ///     rma.sync()
    /// })?.into_iter().collect::<Result<(), RmaError>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock_deadline(
        &mut self,
        rma: &mut Rma,
        rank: usize,
        index: usize,
        deadline: Option<Instant>,
    ) -> Result<(), RmaError> {
        let Some(at) = self.place(rma, rank, index) else {
            return Err(self.no_place(rma, rank, index));
        };
        let mutex = Named::new(rma.rank, rank, index);
        if self.holds(mutex) {
            return Err(RmaError::Held { rank, index });
        }
        let holds = &*self.holds.0;
        holds.check(mutex)?;
        let slot = self.held.len();
        if slot == MOST {
            return Err(too_many());
        }
        let wanted = Wanted { holds, rank, index, mutex };
        let words = &self.words;
        let token = match (self.kind, &mut self.nodes) {
            (LockKind::Mcs, Some(nodes)) => nodes.lock(rma, words, at, &wanted, deadline)?,
            (LockKind::Ticket, _) => ticket::lock(rma, words, at, &wanted, deadline)?,
            (LockKind::Hybrid, _) if rma.host_of(rank) == rma.host_of(rma.rank) => {
                ticket::lock(rma, words, at, &wanted, deadline)?
            }
            (kind, _) => server::lock(rma, words, at, kind == LockKind::Hybrid, &wanted, deadline)?,
        };
        holds.note(slot, mutex);
        self.held.push(Held { mutex, token, since: since() });
        Ok(())
    }

    /// Unlocks a mutex after everything that this member has written is complete.
    ///
    /// # One-sided
    /// The member that holds the mutex calls it.
    ///
    /// # Memory ordering
    /// The next holder sees everything that this member did before.
    ///
    /// # Errors
    /// [`RmaError::NotHeld`]; as [`lock`](Self::lock).
    pub fn unlock(&mut self, rma: &mut Rma, rank: usize, index: usize) -> Result<(), RmaError> {
        rma.check_not_forked()?;
        rma.complete_far()?;
        // A mutex that this member holds needs no check of its bounds.
        let Some((token, since)) = self.let_go(Named::new(rma.rank, rank, index)) else {
            return Err(self.not_held(rma, rank, index));
        };
        let at = index * WORDS;
        match (self.kind, &mut self.nodes) {
            (LockKind::Mcs, Some(nodes)) => nodes.unlock(rma, &self.words, rank, at, token, since),
            (LockKind::Ticket, _) => ticket::unlock(rma, &self.words, rank, at, token),
            (LockKind::Hybrid, _) if rma.host_of(rank) == rma.host_of(rma.rank) => {
                ticket::unlock(rma, &self.words, rank, at, token)
            }
            (kind, _) => server::unlock(rma, &self.words, rank, at, kind == LockKind::Hybrid),
        }
    }

    /// Returns the error [`RmaError::Held`] for a mutex of the set that this member holds, if there
    /// is one.
    #[must_use]
    pub fn held(&self) -> Option<RmaError> {
        self.held.first().map(|held| {
            let (rank, index) = held.mutex.place();
            RmaError::Held { rank, index }
        })
    }

    /// Frees the set if no member holds one of its mutexes. Later uses of the set return errors.
    ///
    /// # Collective
    /// As [`Rma::free`].
    ///
    /// # Errors
    /// As [`Rma::free`]; [`RmaError::Held`] if this member holds a mutex of the set, and
    /// [`RmaError::HeldBy`] if another member does. In both cases all members get an error, and the
    /// set remains usable.
    pub fn free(&mut self, rma: &mut Rma, me: &mut Member) -> Result<(), RmaError> {
        rma.check_not_forked()?;
        let _freeing = me.naming(Call::FreeMutexes);
        let (held, id) = (self.held(), u64::from(self.words.table.id));
        let mark = if held.is_some() { call::HELD } else { 0 };
        let all = rma.all_call_marked(me, call::FREE_MUTEXES | id | mark, call::HELD)?;
        match (held, all.iter().position(|what| what & call::HELD != 0)) {
            (Some(held), _) => Err(held),
            (None, Some(by)) => Err(RmaError::HeldBy { by }),
            (None, None) => rma.free_alone(self.words.view::<u64>()?),
        }
    }

    /// Returns the index of the first word of a mutex in its owner's part.
    #[inline]
    fn place(&self, rma: &Rma, rank: usize, index: usize) -> Option<usize> {
        let part = self.words.table.parts.get(rank)?;
        let there =
            rma.check_not_forked().is_ok() && index < part.bytes / (WORDS * size_of::<u64>());
        there.then_some(index * WORDS)
    }

    /// Returns the reason why [`place`](Self::place) found none.
    #[cold]
    #[inline(never)]
    fn no_place(&self, rma: &Rma, rank: usize, index: usize) -> RmaError {
        match rma.check_not_forked() {
            Err(forked) => forked.into(),
            Ok(()) if rank >= rma.size => RmaError::Rank { rank, size: rma.size },
            Ok(()) => RmaError::Mutex { rank, index, count: self.count(rank) },
        }
    }

    #[cold]
    #[inline(never)]
    fn not_held(&self, rma: &Rma, rank: usize, index: usize) -> RmaError {
        match self.place(rma, rank, index) {
            Some(_) => RmaError::NotHeld { rank, index },
            None => self.no_place(rma, rank, index),
        }
    }

    #[inline]
    fn holds(&self, mutex: Named) -> bool {
        !self.held.is_empty() && self.held.iter().any(|held| held.mutex == mutex)
    }

    /// Removes a mutex from those that are held. Most often it is the last one.
    #[inline]
    fn let_go(&mut self, mutex: Named) -> Option<(u64, u64)> {
        match self.held.pop_if(|last| last.mutex == mutex) {
            Some(last) => {
                self.holds.0.clear(self.held.len());
                Some((last.token, last.since))
            }
            None => self.let_go_among(mutex),
        }
    }

    #[inline(never)]
    fn let_go_among(&mut self, mutex: Named) -> Option<(u64, u64)> {
        let place = self.held.iter().position(|held| held.mutex == mutex)?;
        let Held { token, since, .. } = self.held.swap_remove(place);
        self.holds.0.note(place, self.held[place].mutex);
        self.holds.0.clear(self.held.len());
        Some((token, since))
    }
}

#[cold]
#[inline(never)]
fn too_many() -> RmaError {
    RmaError::Shape { why: format!("a member holds at most {MOST} mutexes of a set at once") }
}
