//! Which collective call each member is blocked in: what tells calls that can never complete from members that are slow.
//!
//! # Contract
//! Everything that all members wait for together is an *object* (a barrier, the gather, the sync of an `Rma`), with the
//! same number for all, and has *episodes*, counted from 1. A member notes its arrivals at every object, and in which
//! episode of which object it is *blocked*: when a wait without a deadline has lasted for a tenth of a second. Blocked
//! members look at what the others have noted. If members wait for one another in a circle, the one that finds it gives
//! the *verdict*: [`Fault::Mismatch`], with two of the calls. It stays, and ends every wait of the team that does not end
//! by itself.
//!
//! ```text
//!           blocked in         arrivals: gather  sync        waits for, of those that are blocked
//!  rank 0   allocate, gather 3           3       7           1 (2 < 3)
//!  rank 1   sync, sync 8                 2       8           0 (7 < 8)            a circle: neither can complete
//!  rank 2   (computes)                   2       7
//! ```
//!
//! A member whose function has ended notes that, too: waits for an episode at which it has not arrived end with
//! [`Fault::Left`].
//!
//! # Why nobody is accused who is slow
//! *A note says what was so at some moment while its member was blocked, however old it is.* Of a circle of such notes let
//! the youngest be that of member n. The member before it in the circle waits for n, which had not arrived at that moment;
//! so that member was still blocked then, and had arrived nowhere since its own note. The same holds for the one before
//! that, and so on round the circle: at that moment all of them were blocked, and each waited for the next. So notes may
//! travel between hosts for any time, in any order. A wait with a deadline ends by itself, and is not noted.
//!
//! # Costs
//! A store to a line of the member's own at each arrival. Two more for a wait that lasts, and a look at one word of every
//! other member ten times a second. A member that has arrived, and from which the others still need something (see
//! [`barrier`](crate::barrier)), counts as arrived.
//!
//! # Source
//! Waits for all of several, and circles among them: Chandy, Misra and Haas, "Distributed deadlock detection" (1983), the
//! AND model. Changed: as arrivals only grow, notes need no probes to confirm them.

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicU64, Ordering};

use crate::error::{Fault, SpaceError};
use crate::space::{Array, Shared, Space};

/// What members call together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Call {
    /// The wait of all members of a team.
    Wait = 1,
    /// The wait of a barrier that members have made.
    Barrier = 2,
    /// A word of every member, for every member.
    Gather = 3,
    /// A sync of one-sided memory.
    Sync = 4,
    /// A sync of a group.
    GroupSync = 5,
    /// An allocation of one-sided memory.
    Allocate = 6,
    /// The end of one.
    Free = 7,
    /// The making of mutexes.
    Mutexes = 8,
    /// The end of a set of mutexes.
    FreeMutexes = 9,
}

impl Call {
    const ALL: [Call; 9] = [
        Call::Wait,
        Call::Barrier,
        Call::Gather,
        Call::Sync,
        Call::GroupSync,
        Call::Allocate,
        Call::Free,
        Call::Mutexes,
        Call::FreeMutexes,
    ];

    fn of(number: u64) -> Option<Call> {
        Call::ALL.into_iter().find(|&call| call as u64 == number & 0xff)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Wait => "member wait",
            Call::Barrier => "barrier wait",
            Call::Gather => "gather",
            Call::Sync => "sync",
            Call::GroupSync => "group sync",
            Call::Allocate => "allocate",
            Call::Free => "deallocate",
            Call::Mutexes => "mutexes new",
            Call::FreeMutexes => "mutexes free",
        })
    }
}

/// How many objects of a team are known here. Calls on others are not compared.
const OBJECTS: usize = if cfg!(loom) { 2 } else { 62 }; // a model follows every word

/// What a member notes: lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
struct Row {
    /// 0: in nothing; or call, object, episode; or `ENDED`.
    blocked: AtomicU64,
    /// The call that its waits are part of, if it is another than the object's own.
    named: AtomicU64,
    /// By object: the last episode at which it has arrived; all bits: it is none of those that meet there.
    arrivals: [AtomicU64; OBJECTS],
}

impl Default for Row {
    fn default() -> Self {
        let word = || AtomicU64::new(0);
        Row { blocked: word(), named: word(), arrivals: std::array::from_fn(|_| word()) }
    }
}

// SAFETY: words, of which 0 says that nothing has happened.
unsafe impl Shared for Row {}

const CALL: u32 = 56;
const OBJECT: u32 = 48;
const EPISODE: u64 = (1 << OBJECT) - 1;
/// Of a member whose function has ended, for good: no call has that number.
const ENDED: u64 = u64::MAX;

/// An episode of an object.
type Key = (usize, u64);

fn key(blocked: u64) -> Key {
    ((blocked >> OBJECT) as usize & 0xff, blocked & EPISODE)
}

/// At so many different episodes members are looked for that wait for one another.
const KEYS: usize = 16;

/// What the members of a team have noted, as far as it is known on a host. A clone is the same notes.
#[derive(Clone, Debug)]
pub struct Calls {
    rows: Array<Row>,
    verdict: Array<AtomicU64>,
}

impl Calls {
    /// Notes of so many members, which are in nothing.
    ///
    /// # Errors
    /// If the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<Calls, SpaceError> {
        Ok(Calls { rows: space.array(members)?, verdict: space.array(1)? })
    }

    /// A member at an object of that number, whose waits are that call.
    #[must_use]
    pub fn caller(&self, rank: usize, object: usize, call: Call) -> Option<Caller> {
        let known = rank < self.rows.len() && object < OBJECTS;
        known.then(|| Caller { calls: self.clone(), rank, object, call })
    }

    /// Until the result is dropped, what the member waits for is part of that call.
    #[must_use]
    pub fn naming(&self, rank: usize, call: Call) -> Naming {
        // Relaxed, as at the end: the member's own word.
        let before = self.rows[rank].named.swap(call as u64, Ordering::Relaxed);
        Naming { calls: self.clone(), rank, before }
    }

    /// The function of a member has ended: it arrives nowhere any more.
    pub fn end(&self, rank: usize) {
        // Release: pairs with the Acquire in `absent` and `note_of`: all its arrivals are seen.
        self.rows[rank].blocked.store(ENDED, Ordering::Release);
    }

    /// A member that has ended without having arrived at an episode, among those that `surely` do not.
    fn absent(&self, (object, episode): Key, surely: impl Fn(usize) -> bool) -> Option<usize> {
        self.rows.iter().enumerate().position(|(rank, row)| {
            // Acquire: pairs with the Release in `end` and `note`.
            row.blocked.load(Ordering::Acquire) == ENDED
                && row.arrivals[object].load(Ordering::Relaxed) < episode
                && surely(rank)
        })
    }

    /// The verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Fault> {
        // Acquire: pairs with the Release in `decide`.
        let word = self.verdict[0].load(Ordering::Acquire);
        if word == 0 { None } else { Some(told(word)) }
    }

    /// The verdict as a word, for other hosts; 0: there is none.
    #[must_use]
    pub fn verdict_word(&self) -> u64 {
        self.verdict[0].load(Ordering::Acquire)
    }

    /// A verdict, which stays if it is the first.
    pub fn decide(&self, word: u64) {
        // Release: pairs with the Acquire in `verdict`.
        let _ = self.verdict[0].compare_exchange(0, word, Ordering::Release, Ordering::Relaxed);
    }

    /// What a member of this host has noted, for other hosts, if it is blocked and not as the word `known` says.
    #[must_use]
    pub fn note_of(&self, rank: usize, known: u64) -> Option<Vec<u64>> {
        let row = self.rows.get(rank)?;
        // Acquire: pairs with the Release in `block`: the arrivals are at least those of that moment.
        let blocked = row.blocked.load(Ordering::Acquire);
        if blocked == 0 || blocked == known {
            return None;
        }
        let arrivals = row.arrivals.iter().map(|word| word.load(Ordering::Relaxed));
        Some(std::iter::once(blocked).chain(arrivals).collect())
    }

    /// What a member of another host has noted. There is one thread at a time that tells of a member.
    pub fn note(&self, rank: usize, words: &[u64]) {
        let (Some(row), Some((&blocked, arrivals))) = (self.rows.get(rank), words.split_first()) else {
            return;
        };
        row.arrivals.iter().zip(arrivals).for_each(|(word, &arrival)| word.store(arrival, Ordering::Relaxed));
        // Release: pairs with the Acquire in `find`.
        row.blocked.store(blocked, Ordering::Release);
    }

    /// Looks for members that wait for one another.
    #[cold]
    fn find(&self) -> Option<u64> {
        let mut keys: Vec<(Key, usize, u64)> = Vec::new();
        let mut blocked = Vec::new();
        for (rank, row) in self.rows.iter().enumerate() {
            // Acquire: pairs with the Release in `block` and `note`: arrivals that are read after this are at least as new.
            let word = row.blocked.load(Ordering::Acquire);
            if word == 0 || word == ENDED {
                continue;
            }
            let known = keys.iter().position(|&(known, ..)| known == key(word));
            let at = known.unwrap_or_else(|| {
                keys.push((key(word), rank, word));
                keys.len() - 1
            });
            blocked.push((rank, at));
            if keys.len() > KEYS {
                return None;
            }
        }
        if keys.len() < 2 {
            return None;
        }
        // By two episodes: who is blocked in the second, and has not arrived at the first.
        let mut waits = [[None; KEYS]; KEYS];
        for (from, &((object, episode), ..)) in keys.iter().enumerate() {
            for &(rank, to) in &blocked {
                let arrivals = &self.rows[rank].arrivals;
                let arrived = arrivals.get(object).is_none_or(|word| word.load(Ordering::Relaxed) >= episode);
                if !arrived && from != to {
                    waits[from][to].get_or_insert(rank);
                }
            }
        }
        let count = keys.len();
        let mut reach = waits.map(|row| row.map(|rank: Option<usize>| rank.is_some()));
        for through in 0..count {
            for from in 0..count {
                for to in 0..count {
                    reach[from][to] |= reach[from][through] && reach[through][to];
                }
            }
        }
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let circle = |&(from, to): &(usize, usize)| reach[to][from];
        let (from, to, other) =
            pairs.filter(circle).find_map(|(from, to)| Some((from, to, waits[from][to]?)))?;
        let (rank, call, other_call) = (keys[from].1, keys[from].2 >> CALL, keys[to].2 >> CALL);
        let of = |rank: usize, call: u64| (rank as u64) << 8 | call;
        let (first, second) = (of(rank, call), of(other, other_call));
        Some(1 << 63 | first.min(second) << 24 | first.max(second))
    }
}

fn told(word: u64) -> Fault {
    let of = |word: u64| ((word >> 8) as usize & 0xffff, Call::of(word).unwrap_or(Call::Wait));
    let ((rank, call), (other, other_call)) = (of(word >> 24), of(word));
    Fault::Mismatch { rank, call, other, other_call }
}

/// A member at an object: see [`Calls::caller`].
#[derive(Clone, Debug)]
pub struct Caller {
    calls: Calls,
    rank: usize,
    object: usize,
    call: Call,
}

impl Caller {
    /// The member arrives at an episode: called before others can know of it. `u64::MAX`: it never has to.
    #[inline]
    pub fn arrive(&self, episode: u64) {
        if plant::is("calls: an arrival is not noted") {
            return;
        }
        // Relaxed: ordered by the Release of `block`.
        self.calls.rows[self.rank].arrivals[self.object].store(episode, Ordering::Relaxed);
    }

    /// The verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Fault> {
        self.calls.verdict()
    }

    fn block(&self, episode: u64) {
        let row = &self.calls.rows[self.rank];
        let call = match row.named.load(Ordering::Relaxed) {
            0 => self.call as u64,
            named => named,
        };
        let word = call << CALL | (self.object as u64) << OBJECT | episode & EPISODE;
        // Release: pairs with the Acquire in `find` and `note_of`.
        row.blocked.store(word, Ordering::Release);
    }

    fn unblock(&self) {
        // Release: a look that reads 0 sees nothing else of this row.
        self.calls.rows[self.rank].blocked.store(0, Ordering::Release);
    }
}

/// A call that the waits of a member are part of: see [`Calls::naming`].
#[derive(Debug)]
pub struct Naming {
    calls: Calls,
    rank: usize,
    before: u64,
}

impl Drop for Naming {
    fn drop(&mut self) {
        self.calls.rows[self.rank].named.store(self.before, Ordering::Relaxed);
    }
}

/// A wait of a member in an episode of an object, which notes that it is blocked when it lasts.
#[derive(Debug)]
pub struct Blocking<'a> {
    caller: Option<&'a Caller>,
    episode: u64,
    endless: bool,
    /// Only members themselves arrive.
    in_person: bool,
    /// The waiting thread's own word, and nothing for a model to explore.
    looks: AtomicU32,
}

impl<'a> Blocking<'a> {
    /// A wait that begins.
    #[inline]
    #[must_use]
    pub fn new(caller: Option<&'a Caller>, episode: u64, deadline: Option<Instant>) -> Self {
        let (endless, looks) = (deadline.is_none(), AtomicU32::new(0));
        Blocking { caller, episode, endless, in_person: false, looks }
    }

    /// The verdict, if there is one: asked for before the wait sleeps, and ten times a second from then on. From the second
    /// time on it notes that the member is blocked, and looks for others.
    pub fn look(&self) -> Option<Fault> {
        let calls = &self.caller?.calls;
        let verdict = calls.verdict();
        if verdict.is_some() || !self.endless {
            return verdict;
        }
        // Relaxed: the waiting thread's own word.
        let looks = self.looks.load(Ordering::Relaxed);
        self.looks.store(looks.saturating_add(1), Ordering::Relaxed);
        if looks == 0 {
            return None;
        }
        self.caller?.block(self.episode);
        if let Some(word) = calls.find() {
            calls.decide(word);
        }
        calls.verdict()
    }
}

impl Blocking<'_> {
    /// Members arrive here by themselves, not by a handle that they may have passed on: see [`absent`](Self::absent).
    #[inline]
    #[must_use]
    pub fn in_person(mut self) -> Self {
        self.in_person = true;
        self
    }

    /// A member that has ended, and for which this wait would last for ever. It may have left because of something else
    /// that is known by then, and is to be told instead.
    #[must_use]
    pub fn absent(&self) -> Option<Fault> {
        if self.in_person { self.absent_if(|_| true) } else { None }
    }

    /// The same among the members that surely do not arrive, once they have ended.
    pub(crate) fn absent_if(&self, surely: impl Fn(usize) -> bool) -> Option<Fault> {
        let caller = self.caller?;
        let rank = caller.calls.absent((caller.object, self.episode), surely)?;
        Some(Fault::Left { rank })
    }
}

impl Drop for Blocking<'_> {
    #[inline]
    fn drop(&mut self) {
        // A model that has failed has no words any more.
        if self.looks.load(Ordering::Relaxed) > 1
            && !(cfg!(loom) && std::thread::panicking())
            && let Some(caller) = self.caller
        {
            caller.unblock();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
