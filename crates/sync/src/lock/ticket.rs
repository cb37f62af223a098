//! The ticket lock: two numbers, the next ticket and the ticket that is being served.
//!
//! # Contract
//! See [`Queue`]. Tickets are served in the order in which they were drawn.
//!
//! # State
//! ```text
//! next      ... 17 ─┐ drawn by adding 1
//! serving   14      │
//!           └ holds the lock; 15 and 16 poll `serving`, first with pauses and yields; then each
//!             sleeps in its own place
//! attention: the number of waiters that do not poll: asleep, or gone for now
//! turns     | 12 | 13 | ... | the owners of the tickets that are not polled for: ticket mod size
//! ```
//! A place is a signal whose number names the ticket that it is about: 1024 (ticket + 1) + phase.
//!
//! | phase           | the member                    | next                                   |
//! |-----------------|-------------------------------|----------------------------------------|
//! | odd, below 1023 | sleeps                        | 1023, by the releaser: it has the lock |
//! | even, above 0   | gave up, and keeps its ticket | + 1, by the member, when it resumes;   |
//! |                 |                               | 1023, by the releaser: passed over     |
//! | 1023            | no longer needs this place    | a later ticket                         |
//!
//! Releaser and member both change the place by an atomic maximum; the previous value shows each of
//! them which came first. A late releaser finds a place that is about a later ticket, and changes
//! nothing.
//!
//! # Why a release needs no read-modify-write
//! It stores `serving` and then loads `attention`. A member that goes to sleep adds to `attention`
//! and then loads `serving`. The fence between them is asymmetric: the sleeper pays for both sides
//! (Dekker; see `syncline_signal::asymmetric`).
//!
//! # Costs
//! Uncontended: one addition, one load, one store, one load. Contended: `next` and `serving` share
//! a line, which moves to each member that polls it: about three transfers per hand-over with two
//! members, and as many as there are polling members with more. A sleeping member costs nothing but
//! its own wake-up.
//!
//! # Source
//! Reed and Kanodia (1979); Mellor-Crummey and Scott (1991); the thesis on ARMCI locks, 5.1.2.
//! Changes: waiters sleep, each in its own place, and may give up.

use std::time::Instant;

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, Signal, WaitError, asymmetric, plant};

use super::queue::{Inside, Queue};
use crate::error::SpaceError;
use crate::space::{Array, Element, Shared, Space};

/// The ticket lock: the cheapest lock when it is free, and with few members.
///
/// See [`Lock`](crate::Lock) for how to use it.
#[derive(Clone, Debug)]
pub struct Ticket {
    words: Element<Words>,
    turns: Array<Turn>,
    places: Array<Place>,
}

/// A private type, so that no other code can have an array of it at the same place of a segment.
#[derive(Debug, Default)]
#[repr(transparent)]
struct Turn(AtomicU64);

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Place(Signal);

// SAFETY: a word, without pointers or drop, changed by atomic operations only; 0 is about no
// ticket.
unsafe impl Shared for Turn {}
// SAFETY: a word, without pointers or drop, changed by atomic operations only; 0 is about no
// ticket.
unsafe impl Shared for Place {}

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Words {
    next: AtomicU64,
    serving: Signal,
    attention: AtomicU64,
}

// SAFETY: three words, without pointers or drop, changed by atomic operations only; 0 is a free
// lock of which no ticket has been drawn.
unsafe impl Shared for Words {}

/// The number of phases of a place; see the table.
const PHASES: u64 = 1024;
const OVER: u64 = PHASES - 1;
/// The last phase in which a place can be given up.
const LAST: u64 = OVER - 1;
/// The factor of the ticket in a turn; the rest is 1 + a rank.
const RANKS: u64 = 1 << 13;

fn place_of(ticket: u64) -> u64 {
    (ticket + 1) * PHASES
}

/// Returns whether the number of a place is that of a member that gave up.
fn given_up(number: u64) -> bool {
    number.is_multiple_of(2) && !number.is_multiple_of(PHASES)
}

impl Ticket {
    fn words(&self) -> &Words {
        &self.words
    }

    fn turn(&self, ticket: u64) -> &AtomicU64 {
        &self.turns[ticket as usize & (self.turns.len() - 1)].0
    }

    fn place(&self, rank: usize) -> &Signal {
        &self.places[rank].0
    }

    /// Resumes the place of a member that gave up; `None` if the place has been passed over.
    #[cold]
    fn come_back(&self, rank: usize, number: u64) -> Option<u64> {
        if number % PHASES == LAST {
            return Some(number);
        }
        (self.place(rank).raise_to(number + 1) == number).then_some(number + 1)
    }

    /// Announces that the member no longer polls, and sleeps.
    fn queue_up(
        &self,
        rank: usize,
        ticket: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        let (words, place) = (self.words(), self.place(rank));
        // Relaxed: published by the addition to `attention`.
        self.turn(ticket).store(ticket * RANKS + rank as u64 + 1, Ordering::Relaxed);
        let asleep = place_of(ticket) + 1;
        place.raise_to(asleep);
        // Release: pairs with the Acquire in `pass_on`.
        words.attention.fetch_add(1, Ordering::Release);
        asymmetric::heavy();
        if words.serving.get() == ticket {
            self.satisfied();
            return Ok(());
        }
        self.sleep(rank, asleep, policy, deadline)
    }

    /// Sleeps in a place that is marked as asleep.
    fn sleep(
        &self,
        rank: usize,
        asleep: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        let place = self.place(rank);
        let over = asleep / PHASES * PHASES + OVER;
        let Err(error) = place.wait_until(over, policy, deadline) else {
            self.satisfied();
            return Ok(());
        };
        // The previous value shows which came first: if the releaser did, the lock is ours.
        if place.raise_to(asleep + 1) >= over {
            // Acquire: pairs with the Release of the releaser's raise. A load, not a fence, as
            // ThreadSanitizer does not support fences.
            let _ = place.get();
            self.satisfied();
            return Ok(());
        }
        Err(error)
    }

    /// Decrements the number of members that do not poll.
    fn satisfied(&self) {
        self.words().attention.fetch_sub(1, Ordering::Relaxed);
    }

    /// Serves `ticket`: wakes its owner if it sleeps, passes the ticket over if its owner gave up.
    #[cold]
    fn pass_on(&self, mut ticket: u64) {
        let words = self.words();
        // Acquire: pairs with the Release in `queue_up`.
        while words.attention.load(Ordering::Acquire) != 0 {
            let turn = self.turn(ticket).load(Ordering::Relaxed);
            let (of, rank) = (turn / RANKS, turn % RANKS);
            if of != ticket || rank == 0 {
                return; // the owner polls, or will poll; or the ticket has not been drawn
            }
            let (place, over) = (self.place(rank as usize - 1), place_of(ticket) + OVER);
            let before = place.raise_to(over);
            let gave_up = before < over && before > place_of(ticket) && given_up(before);
            if !gave_up || plant::is("ticket: grants a place that was given up") {
                return;
            }
            self.satisfied();
            ticket += 1;
            words.serving.publish(ticket);
            asymmetric::light();
        }
    }
}

impl Queue for Ticket {
    const NAME: &'static str = "ticket lock";

    fn within(space: &mut Space, members: usize) -> Result<Self, SpaceError> {
        let words = space.array(1)?.element(0);
        let turns = space.array(members.next_power_of_two())?;
        Ok(Ticket { words, turns, places: space.array(members)? })
    }

    #[inline]
    fn try_acquire(&self, rank: usize, _: Inside) -> bool {
        // The place was given up and has not been passed over: other members are ahead of it.
        if given_up(self.place(rank).get()) {
            return false;
        }
        let words = self.words();
        let serving = words.serving.get();
        // `get` is the acquire of the lock: if no ticket has been drawn since, the last releaser
        // published the number that was read. Acquire and Release: as in `ask`.
        words
            .next
            .compare_exchange(serving, serving + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    fn ask(&self, rank: usize, _: Inside) -> Option<u64> {
        let words = self.words();
        let number = self.place(rank).get();
        if given_up(number)
            && let Some(asked) = self.come_back(rank, number)
        {
            return Some(asked);
        }
        // Acquire and Release: an earlier owner of this ticket's turn, a whole table of tickets
        // ago, wrote it before.
        let ticket = words.next.fetch_add(1, Ordering::AcqRel);
        (words.serving.get() != ticket).then(|| place_of(ticket))
    }

    fn wait(
        &self,
        rank: usize,
        asked: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
        _: Inside,
    ) -> Result<bool, WaitError> {
        let ticket = asked / PHASES - 1;
        match asked % PHASES {
            0 if self.words().serving.look_until(ticket, policy, deadline).is_some() => (),
            0 => self.queue_up(rank, ticket, policy, deadline)?,
            LAST => return self.place(rank).wait_until(asked + 1, policy, deadline).map(|_| false),
            _ => self.sleep(rank, asked, policy, deadline)?,
        }
        Ok(true)
    }

    #[inline]
    fn release(&self, _: usize, _: &dyn Liveness, _: Inside) {
        let words = self.words();
        let next = words.serving.get() + 1;
        words.serving.publish(next);
        asymmetric::light();
        if words.attention.load(Ordering::Relaxed) != 0 {
            self.pass_on(next);
        }
    }

    fn is_awaited(&self, _: usize, _: Inside) -> bool {
        let words = self.words();
        words.next.load(Ordering::Relaxed) > words.serving.get() + 1
    }

    fn reset(&self, _: Inside) {
        let words = self.words();
        let next = words.next.load(Ordering::Relaxed);
        words.attention.store(0, Ordering::Relaxed);
        for Place(place) in &*self.places {
            place.raise_to(next * PHASES + OVER);
        }
        words.serving.publish(next);
    }
}
