//! Mutexes on a team: sets of them, so many at each member, for all members.
//!
//! # Contract
//! A mutex is held by one member at a time. What a holder has written, wherever, is there for the next one: an unlock
//! completes it first. Waiting members get it in the order in which they asked (`Mcs`, `Server`).
//! Products have `Mcs`; benchmarks compare it with the others (`unstable`).
//!
//! | kind         | lock, free            | hand-over between hosts          | unlock, nobody waits  | waits on              |
//! |--------------|-----------------------|----------------------------------|-----------------------|-----------------------|
//! | `Mcs`        | a swap at the owner   | 1 message, holder to next        | a compare-swap there  | a word of its own     |
//! | `Server`     | request, grant        | 2: to the server, to the next    | 1 message             | an answer             |
//! | `Ticket`     | fetch-add, get        | 1, and gets of all who wait      | 1 message             | a word of the owner   |
//! | `Hybrid`     | as Ticket on the owner's host, as Server on others                                        ||||
//!
//! On one host all these are operations on memory. *Owner*: the member whose mutex it is.
//!
//! # A holder that is gone
//! A member that drops its handle to a set, or whose function returns, while it holds a mutex of
//! the set leaves the mutex *poisoned*: what the mutex guards may be half changed. The members that
//! wait for it and those that ask later get [`RmaError::Poisoned`], with the rank of that member;
//! there is no recovery. A member that dies with a mutex is named by
//! [`Fault::Dead`](syncline_sync::Fault::Dead). See `poison`.
//!
//! # Source
//! Saify's thesis (2002), chapter 5: the software queue is `Mcs`, the others are what it is compared with. Changed:
//! see `mcs`.

mod mcs;
mod poison;
pub(crate) mod server;
mod ticket;

use std::time::Instant;

use syncline_fabric::Member;
use syncline_sync::calls::Call;

use self::poison::{Holds, MOST, Named, Own, Wanted};
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::{Rma, call};

/// How the mutexes of a set work: `Mcs` in products; the others are there to compare it with.
///
/// A wait for a mutex of tickets that its deadline ends leaves nothing. `Server` has deadlines on
/// one host only, and refuses others by [`RmaError::Shape`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// A queue of the members that wait, each of which tells the next.
    #[default]
    Mcs,
    /// A queue that the server of the owner's host keeps.
    Server,
    /// A number for each who asks, and the number of who may go on, which all look at.
    Ticket,
    /// Tickets for members of the owner's host, whom the server represents for others: what ARMCI had.
    Hybrid,
}

/// A set of mutexes: see [`Rma::mutexes`].
#[derive(Debug)]
pub struct Mutexes {
    kind: LockKind,
    /// Two words each: of a queue its end; of tickets the next one, and the one that is served.
    words: Global<u64>,
    held: Vec<Held>,
    /// The mutexes of `held`, in the same places, for the case that this member leaves.
    holds: Own,
    nodes: Option<mcs::Nodes>,
}

/// A mutex that this member holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    mutex: Named,
    /// What its kind needs to let it go.
    token: u64,
}

/// Words of a mutex: a pair of lines, so that no two share one.
const WORDS: usize = 16;

impl Rma {
    /// Makes so many mutexes at this member; other members make as many as they like.
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

    /// As [`mutexes`](Self::mutexes), of any kind.
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
        // More than can be named take more than there is: all members are told so.
        let words = if count > Named::INDICES { usize::MAX } else { count * WORDS };
        let words = self.allocate(me, words)?;
        Ok(Mutexes { kind, words, held: Vec::new(), holds, nodes })
    }
}

impl Mutexes {
    /// How many mutexes a member has.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn count(&self, rank: usize) -> usize {
        self.words.len(rank) / WORDS
    }

    /// Waits for a mutex of the member `rank`, and takes it.
    ///
    /// # One-sided
    /// The member itself calls it. It may hold several mutexes at once, and must not ask for one that it holds.
    ///
    /// # Memory ordering
    /// What those who held it before did, up to their unlocks, is seen.
    ///
    /// # Errors
    /// [`RmaError::Rank`], [`RmaError::Mutex`]; [`RmaError::Held`] if this member holds it;
    /// [`RmaError::Poisoned`] if a member has left while it held it; [`RmaError::Fault`] if a
    /// member is dead: the queue may be broken then; [`RmaError::Shape`] if this member holds 64
    /// mutexes of the set.
    #[inline]
    pub fn lock(&mut self, rma: &mut Rma, rank: usize, index: usize) -> Result<(), RmaError> {
        self.lock_deadline(rma, rank, index, None)
    }

    /// Waits for a mutex until a time, and takes it.
    ///
    /// A deadline bounds the wait for the holder. Between hosts the question itself is one exchange
    /// of messages, which is waited for. A wait whose deadline has passed leaves its place in the
    /// queue, which the next call for this mutex finds again. If the mutex comes to the place
    /// meanwhile, it goes on to the next member that waits, and the next call asks anew; without
    /// such a member it stays there until a member asks.
    ///
    /// # One-sided
    /// As [`lock`](Self::lock).
    ///
    /// # Memory ordering
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    /// [`Fault::TimedOut`](syncline_sync::Fault::TimedOut) in [`RmaError::Fault`] when the deadline
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
        self.held.push(Held { mutex, token });
        Ok(())
    }

    /// Lets a mutex go, when everything that this member has written is done.
    ///
    /// # One-sided
    /// By the member that holds it.
    ///
    /// # Memory ordering
    /// What this member did before is seen by who holds the mutex next.
    ///
    /// # Errors
    /// [`RmaError::NotHeld`]; as [`lock`](Self::lock).
    pub fn unlock(&mut self, rma: &mut Rma, rank: usize, index: usize) -> Result<(), RmaError> {
        rma.check_not_forked()?;
        rma.complete_far()?;
        // A mutex that this member holds is one that there is.
        let Some(token) = self.let_go(Named::new(rma.rank, rank, index)) else {
            return Err(self.not_held(rma, rank, index));
        };
        let at = index * WORDS;
        match (self.kind, &mut self.nodes) {
            (LockKind::Mcs, Some(nodes)) => nodes.unlock(rma, &self.words, rank, at, token),
            (LockKind::Ticket, _) => ticket::unlock(rma, &self.words, rank, at, token),
            (LockKind::Hybrid, _) if rma.host_of(rank) == rma.host_of(rma.rank) => {
                ticket::unlock(rma, &self.words, rank, at, token)
            }
            (kind, _) => server::unlock(rma, &self.words, rank, at, kind == LockKind::Hybrid),
        }
    }

    /// One of the set that this member holds, as the error of who must not.
    #[must_use]
    pub fn held(&self) -> Option<RmaError> {
        self.held.first().map(|held| {
            let (rank, index) = held.mutex.place();
            RmaError::Held { rank, index }
        })
    }

    /// Gives the set back, if no member holds one of its mutexes. To use it afterwards is an error.
    ///
    /// # Collective
    /// As [`Rma::free`].
    ///
    /// # Errors
    /// As [`Rma::free`]; [`RmaError::Held`] if this member holds a mutex of the set, and
    /// [`RmaError::HeldBy`] if another member does. Then all members get an error, and the set is
    /// as it was.
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

    /// The first word of a mutex, among those of its owner.
    #[inline]
    fn place(&self, rma: &Rma, rank: usize, index: usize) -> Option<usize> {
        let part = self.words.table.parts.get(rank)?;
        let there =
            rma.check_not_forked().is_ok() && index < part.bytes / (WORDS * size_of::<u64>());
        there.then_some(index * WORDS)
    }

    /// Why a mutex has no place.
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

    /// Takes a mutex out of those that are held. Most often it is the last one.
    #[inline]
    fn let_go(&mut self, mutex: Named) -> Option<u64> {
        match self.held.pop_if(|last| last.mutex == mutex) {
            Some(last) => {
                self.holds.0.clear(self.held.len());
                Some(last.token)
            }
            None => self.let_go_among(mutex),
        }
    }

    #[inline(never)]
    fn let_go_among(&mut self, mutex: Named) -> Option<u64> {
        let place = self.held.iter().position(|held| held.mutex == mutex)?;
        let Held { token, .. } = self.held.swap_remove(place);
        self.holds.0.note(place, self.held[place].mutex);
        self.holds.0.clear(self.held.len());
        Some(token)
    }
}

#[cold]
#[inline(never)]
fn too_many() -> RmaError {
    RmaError::Shape { why: format!("a member holds at most {MOST} mutexes of a set at once") }
}
