//! Mutexes on a team: sets of them, so many at each member, for all members.
//!
//! # Contract
//! A mutex is held by one member at a time. What a holder has written, wherever, is there for the next one: an unlock
//! completes it first. Waiting members get it in the order in which they asked (`Mcs`, `Server`; the others: see there).
//!
//! | kind         | lock, free            | hand-over between hosts          | unlock, nobody waits  | waits on              |
//! |--------------|-----------------------|----------------------------------|-----------------------|-----------------------|
//! | [`Mcs`](LockKind::Mcs) | a swap at the owner   | 1 message, holder to next        | a compare-swap there  | a word of its own     |
//! | `Server`     | request, grant        | 2: to the server, to the next    | 1 message             | an answer             |
//! | `Ticket`     | fetch-add, get        | 1, and gets of all who wait      | 1 message             | a word of the owner   |
//! | `Hybrid`     | as Ticket on the owner's host, as Server on others                                        ||||
//!
//! On one host all these are operations on memory. *Owner*: the member whose mutex it is.
//!
//! A member that dies with a mutex is named to those who wait for it; the mutex is not free again, as nobody knows what it
//! has left half done.
//!
//! # Source
//! Saify's thesis (2002), chapter 5: the software queue is [`Mcs`](LockKind::Mcs), the others are what it is compared with. Changed:
//! see `mcs`.

mod mcs;
pub(crate) mod server;
mod ticket;

use syncline_fabric::Member;

use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::Rma;

/// How the mutexes of a set work. [`Mcs`](LockKind::Mcs) is the one to use; the others are there to compare it with.
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
    /// What this member holds: rank, index, and what its kind needs to let go.
    held: Vec<(usize, usize, u64)>,
    nodes: Option<mcs::Nodes>,
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
    /// use syncline_rma::{LockKind, Rma, RmaError};
    ///
    /// Team::hosts(2).threads(2).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let sum = rma.allocate::<i64>(me, 1)?;
    ///     let mut mutexes = rma.mutexes(me, LockKind::Mcs, 1)?;
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
    pub fn mutexes(&mut self, me: &mut Member, kind: LockKind, count: usize) -> Result<Mutexes, RmaError> {
        self.all_call(me, 1 << 48 | kind as u64)?;
        let nodes = if kind == LockKind::Mcs { Some(mcs::Nodes::new(self, me)?) } else { None };
        let words = self.allocate(me, count.saturating_mul(WORDS))?;
        Ok(Mutexes { kind, words, held: Vec::new(), nodes })
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
    /// [`RmaError::Rank`], [`RmaError::Mutex`]; [`RmaError::Held`] if this member holds it; [`RmaError::Fault`] if somebody
    /// is dead: the queue may be broken then.
    pub fn lock(&mut self, rma: &mut Rma, rank: usize, index: usize) -> Result<(), RmaError> {
        let at = self.place(rma, rank, index)?;
        if self.holding(rank, index).is_some() {
            return Err(RmaError::Held { rank, index });
        }
        let token = match (self.kind, &mut self.nodes) {
            (LockKind::Mcs, Some(nodes)) => nodes.lock(rma, &self.words, rank, at)?,
            (LockKind::Ticket, _) => ticket::lock(rma, &self.words, rank, at)?,
            (LockKind::Hybrid, _) if rma.host_of(rank) == rma.host_of(rma.rank) => {
                ticket::lock(rma, &self.words, rank, at)?
            }
            (kind, _) => server::lock(rma, &self.words, rank, at, kind == LockKind::Hybrid)?,
        };
        self.held.push((rank, index, token));
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
        let at = self.place(rma, rank, index)?;
        let held = self.holding(rank, index).ok_or(RmaError::NotHeld { rank, index })?;
        rma.complete_far()?;
        let (.., token) = self.held.swap_remove(held);
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
        self.held.first().map(|&(rank, index, _)| RmaError::Held { rank, index })
    }

    /// Gives the set back.
    ///
    /// # Collective
    /// As [`Rma::free`].
    ///
    /// # Errors
    /// As [`Rma::free`]; [`RmaError::Held`] if this member holds one of them.
    pub fn free(self, rma: &mut Rma, me: &mut Member) -> Result<(), RmaError> {
        match self.held() {
            Some(held) => Err(held),
            None => rma.free(me, self.words),
        }
    }

    /// The first word of a mutex, among those of its owner.
    fn place(&self, rma: &Rma, rank: usize, index: usize) -> Result<usize, RmaError> {
        if rank >= rma.size {
            return Err(RmaError::Rank { rank, size: rma.size });
        }
        let count = self.count(rank);
        if index < count { Ok(index * WORDS) } else { Err(RmaError::Mutex { rank, index, count }) }
    }

    fn holding(&self, rank: usize, index: usize) -> Option<usize> {
        self.held.iter().position(|&(of, number, _)| (of, number) == (rank, index))
    }
}
