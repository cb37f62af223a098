//! Which collective call each member is blocked in: what tells calls that can never complete from
//! members that are slow.
//!
//! # Contract
//! Everything that all members wait for together is an *object* (a barrier, the gather, the sync of
//! an `Rma`). It has the same number for all members, and *episodes*, which are counted from 1. In
//! an episode a member makes *steps*: each is something that other members wait for. An object
//! tells which steps there are:
//!
//! | object                | step                               | which wait needs it        |
//! |-----------------------|------------------------------------|----------------------------|
//! | counter, gather, sync | [`ARRIVED`]                        | that of every other member |
//! | counter that is led   | [`ARRIVED`]: of all but rank 0     | that of rank 0             |
//! |                       | [`LAST`]: rank 0 has let them go   | that of every other member |
//! | dissemination         | r + 1: has raised flags of round r | one flag of round r        |
//! | tournament            | [`ARRIVED`]: has raised its winner | that of its winner         |
//! |                       | [`LAST`]: has raised those beaten  | that of each of those      |
//!
//! A member notes its *progress* at every object: the episode and how many steps of it the member
//! has made. It also notes in which wait it is *blocked*, when a wait without a deadline has lasted
//! for a tenth of a second: which progress of which members that wait needs. Blocked members look
//! at what the others have noted. If members wait for one another in a circle, the member that
//! finds it gives the *verdict*: [`Fault::Mismatch`], with two of the calls. The verdict stays, and
//! ends every wait of the team that does not end by itself.
//!
//! ```text
//!           blocked in          needs          gather  sync    behind that, and blocked
//!  rank 0   allocate, gather 3  all: gather 3.1   3.1   7.1    1 (2.1 < 3.1)
//!  rank 1   sync, sync 8        all: sync 8.1     2.1   8.1    0 (7.1 < 8.1): a circle
//!  rank 2   (computes)                            2.1   7.1
//! ```
//!
//! A member whose function has ended notes that, too: waits for an episode at which it has not
//! arrived end with [`Fault::Left`].
//!
//! # Why no slow member is accused
//! Three things are so.
//!
//! 1. A wait that needs a step of a member does not end before that member has made the step. (So
//!    the members in a wait's note are those that it needs itself. A member of a dissemination
//!    barrier that hears of member n through others only has no note that names n: it may complete
//!    without a later step of n.)
//! 2. A blocked member makes no step at any object while its wait lasts.
//! 3. A note of a blocked member says what was so at some moment while it was blocked. The progress
//!    in it never lags behind the steps that the member had made by then, at no object. So a
//!    barrier of several rounds notes its progress whenever a call leaves it, complete or not, and
//!    before a wait in it is noted.
//!
//! Take a circle of notes, and let the youngest of them be that of member n. The member m before it
//! in the circle needs a step that n had not made at the moment of that note (by 3). So m was still
//! blocked at that moment (by 1), and had made no step since its own note (by 2). Hence the member
//! before m still lacked what it needs of m, and was still blocked as well; and so on round the
//! circle. At that moment all of them were blocked, and each waited for the next. None can ever go
//! on. The age of the notes does not matter: they may travel between hosts for any time.
//!
//! What is read of a member may be newer than its note: that shows fewer circles, never more.
//!
//! A wait with a deadline ends by itself, and is not noted.
//!
//! # Why every circle is found
//! If nothing moves any more, every member is blocked or has ended. Each note of a blocked member
//! names at least one member without which its wait does not end. From member to member this leads
//! back to one that was there before, or to one that has ended, of which [`Fault::Left`] tells.
//!
//! # Costs
//! A store to a line of the member's own in each episode; two for the member that leads a barrier.
//! A split barrier of several rounds has one more for `arrive`, and one for each `done` that says
//! no. Two more for a wait that lasts, and a look at one word of every other member ten times a
//! second.
//!
//! # Source
//! Waits for all of several, and circles among them: Chandy, Misra and Haas, "Distributed deadlock
//! detection" (1983), the AND model. Changed: as progress only grows, notes need no probes to
//! confirm them.

mod call;
mod deadlock;

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
use deadlock::{Note, Set};

/// How many objects of a team are known here. Calls on others are not compared.
const OBJECTS: usize = if cfg!(loom) { 2 } else { 62 }; // a model follows every word

/// The first step of an episode: the member has arrived.
pub const ARRIVED: u32 = 1;
/// The last step of an episode, where it is one by itself: the member has let others go.
pub const LAST: u32 = (1 << STEPS) - 1;

/// How many bits of a progress are the steps; those above are the episode.
const STEPS: u32 = 6;

fn progress(episode: u64, step: u32) -> u64 {
    episode << STEPS | u64::from(step)
}

/// What a member notes: lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
struct Row {
    /// 0: in nothing; or what it is blocked in, see [`packed`]; or `ENDED`.
    blocked: AtomicU64,
    /// The call that its waits are part of, if it is another than the object's own.
    named: AtomicU64,
    /// By object. All bits: the member is none of those that meet there.
    progress: [AtomicU64; OBJECTS],
}

impl Default for Row {
    fn default() -> Self {
        let word = || AtomicU64::new(0);
        Row { blocked: word(), named: word(), progress: std::array::from_fn(|_| word()) }
    }
}

// SAFETY: words, of which 0 says that nothing has happened.
unsafe impl Shared for Row {}

/// Of a member whose function has ended, for good: no call has that number.
const ENDED: u64 = u64::MAX;

/// Where things stand in a note of a blocked member: call, object, peers, step, the lower bits of
/// the episode. What a reader finds then belongs together, without a lock.
const CALL: u32 = 56;
const OBJECT: u32 = 50;
const PEERS: u32 = 37;
const STEP: u32 = 31;
const EPISODE: u64 = (1 << STEP) - 1;
const _: () = assert!(OBJECTS <= 1 << (CALL - OBJECT) && MAX_MEMBERS + 2 <= 1 << (OBJECT - PEERS));

/// Peers of a note: all; the members of the same group; from there on one, by rank.
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

/// The progress that a note needs, where its member has come to `own` at that object. That is the
/// same episode, the one before or a later one: its upper bits are the nearest that fit.
fn needed(blocked: u64, own: u64) -> u64 {
    let near = own >> STEPS;
    // The difference of the lower bits, with its sign.
    let apart = ((blocked << (64 - STEP)).wrapping_sub(near << (64 - STEP))) as i64 >> (64 - STEP);
    progress(near.wrapping_add_signed(apart), (blocked >> STEP) as u32 & LAST)
}

/// What the members of a team have noted, as far as it is known on a host. A clone is the same
/// notes.
#[derive(Clone, Debug)]
pub struct Calls {
    rows: Array<Row>,
    /// The verdict; and if it is a difference, what the two members have asked for.
    verdict: Array<AtomicU64>,
    /// By rank; none: all are in one.
    groups: Arc<[usize]>,
}

impl Calls {
    /// Notes of a number of members, which are in no call.
    ///
    /// # Errors
    /// If the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<Calls, SpaceError> {
        Ok(Calls { rows: space.array(members)?, verdict: space.array(3)?, groups: Arc::new([]) })
    }

    /// The same notes, of members that are in groups: for barriers within each group, see
    /// [`Caller::among`]. Every view of the notes is told the same groups.
    #[must_use]
    pub fn grouped(self, group: impl Fn(usize) -> usize) -> Calls {
        Calls { groups: (0..self.rows.len()).map(group).collect(), ..self }
    }

    /// A member at an object of that number, whose waits are that call.
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

    /// Until the result is dropped, what the member waits for is part of that call.
    #[must_use]
    pub fn naming(&self, rank: usize, call: Call) -> Naming {
        // Relaxed, as at the end: the member's own word.
        let before = self.rows[rank].named.swap(call as u64, Ordering::Relaxed);
        Naming { calls: self.clone(), rank, before }
    }

    /// The function of a member has ended: it arrives nowhere any more.
    pub fn end(&self, rank: usize) {
        // Release: pairs with the Acquire in `is_absent` and `note_of`: all its progress is seen.
        self.rows[rank].blocked.store(ENDED, Ordering::Release);
    }

    /// Whether a member has ended without having arrived at an episode.
    fn is_absent(&self, rank: usize, object: usize, episode: u64) -> bool {
        let row = &self.rows[rank];
        // Acquire: pairs with the Release in `end` and `note`.
        row.blocked.load(Ordering::Acquire) == ENDED
            && row.progress[object].load(Ordering::Relaxed) >> STEPS < episode
    }

    /// The verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Fault> {
        // Acquire: pairs with the Release in `decide`.
        let word = self.verdict[0].load(Ordering::Acquire);
        if word == 0 { None } else { Some(self.told(word)) }
    }

    /// The verdict in words, for other hosts.
    #[must_use]
    pub fn verdict_words(&self) -> Option<[u64; 3]> {
        // Acquire: pairs with the Release in `decide`.
        let word = self.verdict[0].load(Ordering::Acquire);
        let asked = |at: usize| self.verdict[at].load(Ordering::Relaxed);
        (word != 0).then(|| if word == DIFFERS { [word, asked(1), asked(2)] } else { [word, 0, 0] })
    }

    /// A verdict of another host, which stays if it is the first.
    pub fn decide_as(&self, words: [u64; 3]) {
        match words {
            [DIFFERS, first, second] => self.decide_difference(&Difference {
                first: Asked::of_word(first),
                second: Asked::of_word(second),
            }),
            [word, ..] => self.decide(word),
        }
    }

    /// A verdict, which stays if it is the first.
    pub(crate) fn decide(&self, word: u64) {
        // Release: pairs with the Acquire in `verdict` and `verdict_words`.
        let _ = self.verdict[0].compare_exchange(0, word, Ordering::Release, Ordering::Relaxed);
    }

    /// Two members have asked for different things: the verdict, unless there is another, or it is
    /// not known which members.
    ///
    /// Two hosts may find a difference each. Then the one whose words stand first is the verdict:
    /// the other one leaves it to that. (Members of one host have found the same difference, as
    /// there is one in their ledger.)
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

    /// What a member of this host has noted, for other hosts, if it is blocked and not as the word
    /// `known` says.
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

    /// What a member of another host has noted. There is one thread at a time that tells of a
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

    /// Looks for members that wait for one another.
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
            // Relaxed: after the Acquire above.
            self.rows[rank].progress[note.object].load(Ordering::Relaxed) < note.needed
        };
        let (one, other) = deadlock::find(&notes, |rank| self.group(rank), behind)?;
        let of = |note: &Note| (note.rank as u64) << 8 | note.call;
        let (first, second) = (of(one), of(other));
        Some(VERDICT | first.min(second) << 24 | first.max(second))
    }

    /// What a word that is a verdict says.
    fn told(&self, word: u64) -> Fault {
        if word == DIFFERS {
            // Relaxed: after the Acquire of the verdict.
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

/// Of a word that is a verdict.
const VERDICT: u64 = 1 << 63;
/// The verdict that members have made different things.
const DIFFERS: u64 = VERDICT | 1 << 62;

/// A member at an object: see [`Calls::caller`].
#[derive(Clone, Debug)]
pub struct Caller {
    calls: Calls,
    rank: usize,
    object: usize,
    call: Call,
    /// The ranks of the members that meet there, if they are not all.
    ranks: Option<Arc<[usize]>>,
    /// Whether its waits are noted.
    compared: bool,
}

impl Caller {
    /// The same member, where only the members of these ranks meet, which have their places in the
    /// list as ranks: at a barrier of a group ([`Calls::grouped`]), at the barrier of one member of
    /// each group, or where all others [never arrive](Self::abstain).
    #[must_use]
    pub fn among(self, ranks: &[usize]) -> Caller {
        let all = ranks.iter().copied().eq(0..self.calls.rows.len());
        Caller { ranks: (!all).then(|| ranks.into()), ..self }
    }

    /// The same member in that seat of a barrier of that many members. If that cannot be, its waits
    /// are not compared: nothing is known of the members there.
    pub(crate) fn seated(self, seat: usize, members: usize) -> Caller {
        let meet = self.ranks.as_ref().map_or(self.calls.rows.len(), |ranks| ranks.len());
        let compared = meet == members && self.rank_at(seat) == Some(self.rank);
        Caller { compared, ..self }
    }

    /// The rank in the team of the member that has that rank here.
    fn rank_at(&self, seat: usize) -> Option<usize> {
        match &self.ranks {
            None => (seat < self.calls.rows.len()).then_some(seat),
            Some(ranks) => ranks.get(seat).copied(),
        }
    }

    /// The member arrives at an episode: called before others can know of it.
    #[inline]
    pub fn arrive(&self, episode: u64) {
        if plant::is("calls: an arrival is not noted") {
            return;
        }
        self.reached(episode, ARRIVED);
    }

    /// The member has made that many steps of an episode. Called before the member waits for
    /// anything else, at the latest.
    #[inline]
    pub fn reached(&self, episode: u64, step: u32) {
        let made = progress(episode, step);
        let word = &self.calls.rows[self.rank].progress[self.object];
        // Relaxed: the member's own word; ordered by the Release of `block`.
        if word.load(Ordering::Relaxed) < made {
            word.store(made, Ordering::Relaxed);
        }
    }

    /// The member is none of those that meet here.
    pub fn abstain(&self) {
        self.calls.rows[self.rank].progress[self.object].store(u64::MAX, Ordering::Relaxed);
    }

    /// The verdict, if there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Fault> {
        self.calls.verdict()
    }

    /// Notes that the member is blocked, with what it has done before.
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

    /// All members that meet here, if a note can say who they are.
    fn all_seats(&self) -> Option<u64> {
        let Some(ranks) = &self.ranks else { return Some(ALL) };
        let of = |&rank: &usize| self.calls.group(rank) == self.calls.group(self.rank);
        ranks.iter().copied().eq((0..self.calls.rows.len()).filter(of)).then_some(GROUP)
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

/// Of which members a wait needs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Of all members of the team but the one that waits.
    Team,
    /// Of all members that meet there but the one that waits.
    Seats,
    /// Of the member that has this rank there.
    Seat(usize),
}

/// What a wait needs, and what the member that waits has done before in the same episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The members whose step it needs.
    pub peers: Peers,
    /// The step of the episode that they have to make.
    pub step: u32,
    /// How many steps the member that waits has made.
    pub reached: u32,
}

impl Needs {
    /// That all members of the team arrive, as the one that waits has.
    pub const ARRIVALS: Needs = Needs { peers: Peers::Team, step: ARRIVED, reached: ARRIVED };
}

/// A wait of a member in an episode of an object, which notes that it is blocked when it lasts.
#[derive(Debug)]
pub struct Blocking<'a> {
    caller: Option<&'a Caller>,
    episode: u64,
    needs: Needs,
    endless: bool,
    /// Only members themselves arrive.
    in_person: bool,
    /// The waiting thread's own word, and nothing for a model to explore.
    looks: AtomicU32,
}

impl<'a> Blocking<'a> {
    /// A wait for all members, which begins; the one that waits has arrived.
    #[inline]
    #[must_use]
    pub fn new(caller: Option<&'a Caller>, episode: u64, deadline: Option<Instant>) -> Self {
        let (endless, looks, needs) = (deadline.is_none(), AtomicU32::new(0), Needs::ARRIVALS);
        Blocking { caller, episode, needs, endless, in_person: false, looks }
    }

    /// The same, of a wait that needs that.
    #[inline]
    #[must_use]
    pub fn needing(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// The verdict, if there is one: asked for before the wait sleeps, and ten times a second from
    /// then on. From the second time on it notes that the member is blocked, and looks for others.
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
    /// Members arrive here by themselves, not by a handle that they may have passed on: see
    /// [`absent`](Self::absent).
    #[inline]
    #[must_use]
    pub fn in_person(mut self) -> Self {
        self.in_person = true;
        self
    }

    /// A member that has ended, and for which this wait would last for ever. It may have left
    /// because of something else that is known by then, and is to be told instead.
    #[must_use]
    pub fn absent(&self) -> Option<Fault> {
        if self.in_person { self.absent_if(|_| true) } else { None }
    }

    /// The same among the members that surely do not arrive, once they have ended. `surely` is
    /// asked by the rank that a member has there, and that rank is told.
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
