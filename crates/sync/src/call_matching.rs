//! The collective call that each member is blocked in: distinguishes calls that can never complete
//! from slow members.
//!
//! # Contract
//! Everything that all members wait for together is an *object* (a barrier, the gather, the sync of
//! an `Rma`). It has the same number for all members, and *episodes*, which are counted from 1. In
//! an episode a member makes *steps*, each of which other members wait for. The steps depend on the
//! object:
//!
//! | object                | step                               | which wait needs it        |
//! |-----------------------|------------------------------------|----------------------------|
//! | counter, gather, sync | [`ARRIVED`]                        | that of every other member |
//! | counter that is led   | [`ARRIVED`]: of all but rank 0     | that of rank 0             |
//! |                       | [`LAST`]: rank 0 has released them | that of every other member |
//! | dissemination         | r + 1: has raised flags of round r | one flag of round r        |
//! | tournament            | [`ARRIVED`]: has raised its winner | that of its winner         |
//! |                       | [`LAST`]: has raised its losers    | that of each of those      |
//!
//! A member notes its *progress* at every object: the episode, and how many steps of it the member
//! has made. When a wait without a deadline has lasted for 0.1 s, the member also notes that it is
//! *blocked* in this wait, and which progress of which members the wait needs. Blocked members read
//! the notes of the others. If members wait for one another in a cycle, the member that finds the
//! cycle decides the *verdict*: [`Fault::Mismatch`], with two of the calls. The verdict is final,
//! and ends every wait of the team that does not end by itself.
//!
//! ```text
//!           blocked in          needs          gather  sync    behind that, and blocked
//!  rank 0   allocate, gather 3  all: gather 3.1   3.1   7.1    1 (2.1 < 3.1)
//!  rank 1   sync, sync 8        all: sync 8.1     2.1   8.1    0 (7.1 < 8.1): a cycle
//!  rank 2   (computes)                            2.1   7.1
//! ```
//!
//! A member whose function has ended notes that as well: waits for an episode at which it has not
//! arrived end with [`Fault::Left`].
//!
//! # Why no slow member is reported
//! Three conditions hold.
//!
//! 1. A wait that needs a step of a member does not end before that member has made the step. (The
//!    members in a wait's note are therefore those that it needs directly. A member of a
//!    dissemination barrier that depends on member n only through others has no note that names n:
//!    it may complete without a later step of n.)
//! 2. A blocked member makes no step at any object while its wait lasts.
//! 3. A note of a blocked member describes the state at some moment while it was blocked. At no
//!    object does the progress in it lag behind the steps that the member had made by then. A
//!    barrier of several rounds therefore notes its progress whenever a call returns from it,
//!    complete or not, and before a wait in it is noted.
//!
//! Take a cycle of notes, and let the youngest of them be that of member n. The member m before it
//! in the cycle needs a step that n had not made at the moment of that note (by 3). So m was still
//! blocked at that moment (by 1), and had made no step since its own note (by 2). Hence the member
//! before m still lacked the step it needs of m, and was still blocked as well; and so on around
//! the cycle. At that moment all of them were blocked, and each waited for the next. None can ever
//! proceed. The age of the notes does not matter: they may travel between hosts for any time.
//!
//! The progress read of a member may be newer than its note: that shows fewer cycles, never more.
//!
//! A wait with a deadline ends by itself, and is not noted.
//!
//! # Why every cycle is found
//! If no member can proceed, every member is blocked or has ended. Each note of a blocked member
//! names at least one member without which its wait does not end. Following these names leads back
//! to a member visited before, or to a member that has ended, which [`Fault::Left`] reports.
//!
//! # Costs
//! One store to a line of the member's own per episode; two for the member that leads a barrier. A
//! split-phase barrier of several rounds has one more for `arrive`, and one for each `done` that
//! returns `false`. Two more for a long wait, and a load of one word of every other member ten
//! times a second.
//!
//! # Source
//! AND waits and cycles among them: Chandy, Misra and Haas, "Distributed deadlock detection"
//! (1983), the AND model. Change: as progress only grows, notes need no probes to confirm them.

mod call;
mod cycle;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicU64, Ordering};

use crate::agreement::{Asked, Difference};
use crate::error::{Fault, SpaceError};
use crate::membership::MAX_MEMBERS;
use crate::space::{Array, Shared, Space};
pub use call::Call;
use cycle::{Note, Set};

/// The number of objects of a team that are tracked. Calls on others are not compared.
const OBJECTS: usize = if cfg!(loom) { 2 } else { 62 }; // small, as a model explores every word

/// The first step of an episode: the member has arrived.
pub const ARRIVED: u32 = 1;
/// The last step of an episode, if it is a separate one: the member has released others.
pub const LAST: u32 = (1 << STEPS) - 1;

/// The number of bits of a progress that hold the step; those above hold the episode.
const STEPS: u32 = 6;

fn progress(episode: u64, step: u32) -> u64 {
    episode << STEPS | u64::from(step)
}

/// The notes of one member, on lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
struct Row {
    /// 0: not blocked; or the wait that it is blocked in, see [`packed`]; or `ENDED`.
    blocked: AtomicU64,
    /// The call that its waits are part of, if it differs from the object's own call.
    named: AtomicU64,
    /// By object. All bits set: the member does not take part in that object.
    progress: [AtomicU64; OBJECTS],
}

impl Default for Row {
    fn default() -> Self {
        let word = || AtomicU64::new(0);
        Row { blocked: word(), named: word(), progress: std::array::from_fn(|_| word()) }
    }
}

// SAFETY: words, without pointers or drop, changed by atomic operations only; 0 is the initial
// state.
unsafe impl Shared for Row {}

/// The note of a member whose function has ended, which is final: no call has that number.
const ENDED: u64 = u64::MAX;

/// The positions of the fields of a blocked note: call, object, peers, step, and the lower bits of
/// the episode. A reader thus gets a consistent note in one load, without a lock.
const CALL: u32 = 56;
const OBJECT: u32 = 50;
const PEERS: u32 = 37;
const STEP: u32 = 31;
const EPISODE: u64 = (1 << STEP) - 1;
const _: () = assert!(OBJECTS <= 1 << (CALL - OBJECT) && MAX_MEMBERS + 2 <= 1 << (OBJECT - PEERS));

/// The peers of a note: all; the members of the same group; from there on one member, by rank.
const ALL: u64 = 0;
const GROUP: u64 = 1;
const RANKS: u64 = 2;

fn packed(call: u64, object: usize, peers: u64, step: u32, episode: u64) -> u64 {
    let object = (object as u64) << OBJECT;
    call << CALL | object | peers << PEERS | u64::from(step) << STEP | episode & EPISODE
}

fn object(blocked: u64) -> usize {
    (blocked >> OBJECT) as usize & ((1 << (CALL - OBJECT)) - 1)
}

/// Returns the progress that a note needs, where `own` is the progress of its member at that
/// object. The needed episode is the same, the one before or a later one, so the nearest upper bits
/// that fit are right.
fn needed(blocked: u64, own: u64) -> u64 {
    let near = own >> STEPS;
    // The difference of the lower bits, sign-extended.
    let apart = ((blocked << (64 - STEP)).wrapping_sub(near << (64 - STEP))) as i64 >> (64 - STEP);
    progress(near.wrapping_add_signed(apart), (blocked >> STEP) as u32 & LAST)
}

/// The notes of the members of a team, as far as this host has them. A clone shares the same notes.
#[derive(Clone, Debug)]
pub struct Calls {
    rows: Array<Row>,
    /// The verdict; if it is a difference, followed by the requests of the two members.
    verdict: Array<AtomicU64>,
    /// The group of each rank; empty: all are in one group.
    groups: Arc<[usize]>,
}

impl Calls {
    /// Creates the notes of `members` members, none of which is in a call.
    ///
    /// # Errors
    /// Errors of [`Space::array`] if the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<Calls, SpaceError> {
        Ok(Calls { rows: space.array(members)?, verdict: space.array(3)?, groups: Arc::new([]) })
    }

    /// Returns the same notes, with members in groups: for barriers within each group, see
    /// [`Caller::among`]. Every view of the notes is given the same groups.
    #[must_use]
    pub fn grouped(self, group: impl Fn(usize) -> usize) -> Calls {
        Calls { groups: (0..self.rows.len()).map(group).collect(), ..self }
    }

    /// Returns a member's handle to the object with the number `object`, whose waits are part of
    /// `call`.
    #[must_use]
    pub fn caller(&self, rank: usize, object: usize, call: Call) -> Option<Caller> {
        let known = rank < self.rows.len() && object < OBJECTS;
        known.then(|| Caller {
            calls: self.clone(),
            rank,
            object,
            call,
            ranks: None,
            compared: true,
        })
    }

    /// Names the call that the member's waits are part of, until the result is dropped.
    #[must_use]
    pub fn naming(&self, rank: usize, call: Call) -> Naming {
        // Relaxed, as in the drop of [`Naming`]: the member's own word.
        let before = self.rows[rank].named.swap(call as u64, Ordering::Relaxed);
        Naming { calls: self.clone(), rank, before }
    }

    /// Notes that the function of a member has ended: it will not arrive at any further episode.
    pub fn end(&self, rank: usize) {
        // Release: pairs with the Acquire in `is_absent` and `note_of`: all its progress is seen.
        self.rows[rank].blocked.store(ENDED, Ordering::Release);
    }

    /// Returns whether a member has ended without having arrived at an episode.
    fn is_absent(&self, rank: usize, object: usize, episode: u64) -> bool {
        let row = &self.rows[rank];
        // Acquire: pairs with the Release in `end` and `note`.
        row.blocked.load(Ordering::Acquire) == ENDED
            && row.progress[object].load(Ordering::Relaxed) >> STEPS < episode
    }

    /// Returns the verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Fault> {
        // Acquire: pairs with the Release in `decide`.
        let word = self.verdict[0].load(Ordering::Acquire);
        if word == 0 { None } else { Some(self.decode(word)) }
    }

    /// Returns the verdict as words, for other hosts.
    #[must_use]
    pub fn verdict_words(&self) -> Option<[u64; 3]> {
        // Acquire: pairs with the Release in `decide`.
        let word = self.verdict[0].load(Ordering::Acquire);
        let asked = |at: usize| self.verdict[at].load(Ordering::Relaxed);
        (word != 0).then(|| if word == DIFFERS { [word, asked(1), asked(2)] } else { [word, 0, 0] })
    }

    /// Sets the verdict of another host, unless there is one already.
    pub fn decide_as(&self, words: [u64; 3]) {
        match words {
            [DIFFERS, first, second] => self.decide_difference(&Difference {
                first: Asked::of_word(first),
                second: Asked::of_word(second),
            }),
            [word, ..] => self.decide(word),
        }
    }

    /// Sets the verdict, unless there is one already.
    pub(crate) fn decide(&self, word: u64) {
        // Release: pairs with the Acquire in `verdict` and `verdict_words`.
        let _ = self.verdict[0].compare_exchange(0, word, Ordering::Release, Ordering::Relaxed);
    }

    /// Makes the different requests of two members the verdict, unless there is one already or the
    /// members are not known.
    ///
    /// Two hosts may find one difference each. The difference whose first word is stored first
    /// becomes the verdict, and the other host leaves the decision to it. (Members of one host find
    /// the same difference, as their ledger records only one.)
    pub(crate) fn decide_difference(&self, difference: &Difference) {
        let Difference { first, second } = difference;
        if first.rank().is_none() || second.rank().is_none() {
            return;
        }
        // Relaxed: ordered by the Release of `decide`.
        let claimed =
            self.verdict[1].compare_exchange(0, first.word(), Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_ok() || claimed == Err(first.word()) {
            self.verdict[2].store(second.word(), Ordering::Relaxed);
            self.decide(DIFFERS);
        }
    }

    /// Returns the notes of a member of this host, for other hosts, if it is blocked or has ended
    /// and its word differs from `known`.
    #[must_use]
    pub fn note_of(&self, rank: usize, known: u64) -> Option<Vec<u64>> {
        let row = self.rows.get(rank)?;
        // Acquire: pairs with the Release in `block`: the progress is at least that of that moment.
        let blocked = row.blocked.load(Ordering::Acquire);
        if blocked == 0 || blocked == known {
            return None;
        }
        let progress = row.progress.iter().map(|word| word.load(Ordering::Relaxed));
        Some(std::iter::once(blocked).chain(progress).collect())
    }

    /// Stores the notes of a member of another host. Only one thread at a time does so for a
    /// member.
    pub fn note(&self, rank: usize, words: &[u64]) {
        let (Some(row), Some((&blocked, progress))) = (self.rows.get(rank), words.split_first())
        else {
            return;
        };
        row.progress
            .iter()
            .zip(progress)
            .for_each(|(word, &made)| word.store(made, Ordering::Relaxed));
        // Release: pairs with the Acquire in `find`.
        row.blocked.store(blocked, Ordering::Release);
    }

    /// Searches for members that wait for one another.
    #[cold]
    fn find(&self) -> Option<u64> {
        let mut notes = Vec::new();
        for (rank, row) in self.rows.iter().enumerate() {
            // Acquire: pairs with the Release in `block` and `note`: progress that is read after
            // this is at least as new.
            let word = row.blocked.load(Ordering::Acquire);
            if word == 0 || word == ENDED {
                continue;
            }
            let object = object(word);
            let Some(own) = row.progress.get(object) else { continue };
            let needed = needed(word, own.load(Ordering::Relaxed));
            let set = match word >> PEERS & ((1 << (OBJECT - PEERS)) - 1) {
                ALL => Set::All,
                GROUP => Set::Group(self.group(rank)),
                one => Set::One((one - RANKS) as usize),
            };
            notes.push(Note { rank, call: word >> CALL, object, set, needed });
        }
        let behind = |note: &Note, rank: usize| {
            // Relaxed: ordered by the Acquire above.
            self.rows[rank].progress[note.object].load(Ordering::Relaxed) < note.needed
        };
        let (one, other) = cycle::find(&notes, |rank| self.group(rank), behind)?;
        let of = |note: &Note| (note.rank as u64) << 8 | note.call;
        let (first, second) = (of(one), of(other));
        Some(VERDICT | first.min(second) << 24 | first.max(second))
    }

    /// Decodes a verdict.
    fn decode(&self, word: u64) -> Fault {
        if word == DIFFERS {
            // Relaxed: ordered by the Acquire of the verdict.
            let asked = |at: usize| Asked::of_word(self.verdict[at].load(Ordering::Relaxed));
            return Fault::Differs(Difference { first: asked(1), second: asked(2) });
        }
        let of = |word: u64| ((word >> 8) as usize & 0xffff, Call::of(word).unwrap_or(Call::Wait));
        let ((rank, call), (other, other_call)) = (of(word >> 24), of(word));
        Fault::Mismatch { rank, call, other, other_call }
    }

    fn group(&self, rank: usize) -> usize {
        self.groups.get(rank).copied().unwrap_or_default()
    }
}

/// Marks a word as a verdict.
const VERDICT: u64 = 1 << 63;
/// The verdict that members have created different things.
const DIFFERS: u64 = VERDICT | 1 << 62;

/// A member's handle to an object: see [`Calls::caller`].
#[derive(Clone, Debug)]
pub struct Caller {
    calls: Calls,
    rank: usize,
    object: usize,
    call: Call,
    /// The ranks of the members that take part in the object; `None`: all.
    ranks: Option<Arc<[usize]>>,
    /// Whether its waits are noted.
    compared: bool,
}

impl Caller {
    /// Returns the same handle for an object in which only the members of these ranks take part;
    /// their ranks there are their positions in the list. Used for a barrier of a group
    /// ([`Calls::grouped`]), for the barrier of one member of each group, or where all others
    /// [never arrive](Self::abstain).
    #[must_use]
    pub fn among(self, ranks: &[usize]) -> Caller {
        let all = ranks.iter().copied().eq(0..self.calls.rows.len());
        Caller { ranks: (!all).then(|| ranks.into()), ..self }
    }

    /// Returns the same handle, for that seat of a barrier of `members` members. If the seat or the
    /// number of members does not fit, its waits are not compared: the members there are unknown.
    pub(crate) fn seated(self, seat: usize, members: usize) -> Caller {
        let meet = self.ranks.as_ref().map_or(self.calls.rows.len(), |ranks| ranks.len());
        let compared = meet == members && self.rank_at(seat) == Some(self.rank);
        Caller { compared, ..self }
    }

    /// Returns the rank in the team of the member in seat `seat`.
    fn rank_at(&self, seat: usize) -> Option<usize> {
        match &self.ranks {
            None => (seat < self.calls.rows.len()).then_some(seat),
            Some(ranks) => ranks.get(seat).copied(),
        }
    }

    /// Notes that the member arrives at an episode. Called before others can observe the arrival.
    #[inline]
    pub fn arrive(&self, episode: u64) {
        if plant::is("calls: an arrival is not noted") {
            return;
        }
        self.reached(episode, ARRIVED);
    }

    /// Notes that the member has made that number of steps of an episode. Called at the latest
    /// before the member waits for anything else.
    #[inline]
    pub fn reached(&self, episode: u64, step: u32) {
        let made = progress(episode, step);
        let word = &self.calls.rows[self.rank].progress[self.object];
        // Relaxed: the member's own word; ordered by the Release of `block`.
        if word.load(Ordering::Relaxed) < made {
            word.store(made, Ordering::Relaxed);
        }
    }

    /// Notes that the member does not take part in this object.
    pub fn abstain(&self) {
        self.calls.rows[self.rank].progress[self.object].store(u64::MAX, Ordering::Relaxed);
    }

    /// Returns the verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Fault> {
        self.calls.verdict()
    }

    /// Notes that the member is blocked, and its progress before that.
    fn block(&self, episode: u64, needs: Needs) {
        let peers = match needs.peers {
            Peers::Team => Some(ALL),
            Peers::Seats => self.all_seats(),
            Peers::Seat(seat) => self.rank_at(seat).map(|rank| RANKS + rank as u64),
        };
        let Some(peers) = peers.filter(|_| self.compared) else { return };
        self.reached(episode, needs.reached);
        let row = &self.calls.rows[self.rank];
        let call = match row.named.load(Ordering::Relaxed) {
            0 => self.call as u64,
            named => named,
        };
        let word = packed(call, self.object, peers, needs.step, episode);
        // Release: pairs with the Acquire in `find` and `note_of`.
        row.blocked.store(word, Ordering::Release);
    }

    /// Returns the peers of a note for all members that take part, if a note can express them.
    fn all_seats(&self) -> Option<u64> {
        let Some(ranks) = &self.ranks else { return Some(ALL) };
        let of = |&rank: &usize| self.calls.group(rank) == self.calls.group(self.rank);
        ranks.iter().copied().eq((0..self.calls.rows.len()).filter(of)).then_some(GROUP)
    }

    fn unblock(&self) {
        // Release: a reader that loads 0 reads nothing else of this row.
        self.calls.rows[self.rank].blocked.store(0, Ordering::Release);
    }
}

/// The scope of a call that the waits of a member are part of: see [`Calls::naming`].
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

/// The members whose step a wait needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// All members of the team except the waiting one.
    Team,
    /// All members that take part in the object except the waiting one.
    Seats,
    /// The member in this seat.
    Seat(usize),
}

/// The needs of a wait, and the steps that the waiting member has made in the same episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The members whose step the wait needs.
    pub peers: Peers,
    /// The step of the episode that they have to make.
    pub step: u32,
    /// The number of steps that the waiting member has made.
    pub reached: u32,
}

impl Needs {
    /// All members of the team arrive, as the waiting member has.
    pub const ARRIVALS: Needs = Needs { peers: Peers::Team, step: ARRIVED, reached: ARRIVED };
}

/// A wait of a member in an episode of an object. It notes that the member is blocked if it is
/// long.
#[derive(Debug)]
pub struct Blocking<'a> {
    caller: Option<&'a Caller>,
    episode: u64,
    needs: Needs,
    endless: bool,
    /// Whether only the members themselves arrive, not handles that they may have passed on.
    in_person: bool,
    /// Not a model's atomic: the waiting thread's own word needs no exploration.
    looks: AtomicU32,
}

impl<'a> Blocking<'a> {
    /// Begins a wait for all members, in which the waiting member has arrived.
    #[inline]
    #[must_use]
    pub fn new(caller: Option<&'a Caller>, episode: u64, deadline: Option<Instant>) -> Self {
        let (endless, looks, needs) = (deadline.is_none(), AtomicU32::new(0), Needs::ARRIVALS);
        Blocking { caller, episode, needs, endless, in_person: false, looks }
    }

    /// Returns the same wait, with these needs.
    #[inline]
    #[must_use]
    pub fn needing(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Returns the verdict, if there is one. Called before the wait sleeps, and ten times a second
    /// from then on. From the second call on, it notes that the member is blocked and searches for
    /// a cycle.
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
        self.caller?.block(self.episode, self.needs);
        if let Some(word) = calls.find() {
            calls.decide(word);
        }
        calls.verdict()
    }
}

impl Blocking<'_> {
    /// Returns the same wait, at an object where members arrive themselves, not by a handle that
    /// they may have passed on: see [`absent`](Self::absent).
    #[inline]
    #[must_use]
    pub fn in_person(mut self) -> Self {
        self.in_person = true;
        self
    }

    /// Returns the fault of a member that has ended, and for which this wait would never end. It
    /// may have left because of another fault that is visible by then, which takes precedence.
    #[must_use]
    pub fn absent(&self) -> Option<Fault> {
        if self.in_person { self.absent_if(|_| true) } else { None }
    }

    /// Returns the same, for members that cannot arrive once they have ended: those for whose seat
    /// `surely` returns `true`. The fault holds the seat.
    pub(crate) fn absent_if(&self, surely: impl Fn(usize) -> bool) -> Option<Fault> {
        let caller = self.caller?;
        let absent = |rank| caller.calls.is_absent(rank, caller.object, self.episode);
        let mut seats = (0..).map_while(|seat| Some((seat, caller.rank_at(seat)?)));
        let (seat, _) = seats.find(|&(seat, rank)| absent(rank) && surely(seat))?;
        Some(Fault::Left { rank: seat })
    }
}

impl Drop for Blocking<'_> {
    #[inline]
    fn drop(&mut self) {
        // After a failed model its words are gone.
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
