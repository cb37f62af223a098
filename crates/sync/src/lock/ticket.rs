//! Two numbers: the next ticket, and the one that is being served.
//!
//! # Contract
//! See [`Queue`]. Tickets are served in the order in which they were drawn.
//!
//! # State
//! ```text
//! next      ... 17 ─┐ drawn by adding 1
//! serving   14      │
//!           └ holds the lock; 15 and 16 look at `serving`, some with pauses and yields, then each asleep in its own place
//! attention: how many of those who wait are not looking: asleep, or gone for now
//! turns     | 12 | 13 | ... | whose ticket that is, for those who are not looking: ticket mod size
//! ```
//! A place is a signal, and its number says which ticket it is about: 1024 (ticket + 1) + phase.
//!
//! | phase           | the member                                      | next                                        |
//! |-----------------|-------------------------------------------------|---------------------------------------------|
//! | odd, below 1023 | is asleep                                       | 1023 by the releaser: it has the lock       |
//! | even, above 0   | gave up, and keeps its ticket                   | + 1 by itself, when it is back; 1023 by the releaser: passed over |
//! | 1023            | needs this place no more                        | a later ticket                              |
//!
//! Releaser and member both use the maximum, and what it returns tells each who was first. A releaser that comes late finds
//! a place about a later ticket, and changes nothing.
//!
//! # Why a release needs no read-modify-write
//! It stores `serving`, and then looks at `attention`. Whoever goes to sleep adds to `attention`, and then looks at
//! `serving`. The fence between is asymmetric: the sleeper pays for both (Dekker; see `syncline_signal::asymmetric`).
//!
//! # Costs
//! Free: one addition, one load, one store, one load. Contended: `next` and `serving` share a line, which goes to each who
//! looks at it: about three transfers a hand-over with two members, and as many as there are lookers with more; those
//! asleep cost nothing but their own wake-up.
//!
//! # Source
//! Reed and Kanodia (1979); Mellor-Crummey and Scott (1991); the thesis on ARMCI locks, 5.1.2. Changed: waiters sleep, each
//! in a place of its own, and may give up.

use std::time::Instant;

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, Signal, WaitError, asymmetric, plant};

use super::queue::{Inside, Queue};
use crate::error::SpaceError;
use crate::space::{Array, Element, Shared, Space};

/// Tickets: the cheapest lock when it is free, and with few members.
///
/// See [`Lock`](crate::Lock) for how to use it.
#[derive(Clone, Debug)]
pub struct Ticket {
    words: Element<Words>,
    turns: Array<Turn>,
    places: Array<Place>,
}

/// Types of their own: nobody else can have an array of them, at whatever place.
#[derive(Debug, Default)]
#[repr(transparent)]
struct Turn(AtomicU64);

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Place(Signal);

// SAFETY: a word; 0 is about no ticket.
unsafe impl Shared for Turn {}
// SAFETY: a word; 0 is about no ticket.
unsafe impl Shared for Place {}

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Words {
    next: AtomicU64,
    serving: Signal,
    attention: AtomicU64,
}

// SAFETY: three words; 0 is a free lock of which no ticket has been drawn.
unsafe impl Shared for Words {}

/// Phases of a place; see the table.
const PHASES: u64 = 1024;
const OVER: u64 = PHASES - 1;
/// The last in which a place can be given up.
const LAST: u64 = OVER - 1;
/// What a turn can hold beside its ticket: 1 + a rank.
const RANKS: u64 = 1 << 13;

fn place_of(ticket: u64) -> u64 {
    (ticket + 1) * PHASES
}

/// Whether the number of a place is that of a member that gave up.
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

    /// A member that gave up is back: to its place, if that has not been passed over.
    #[cold]
    fn come_back(&self, rank: usize, number: u64) -> Option<u64> {
        if number % PHASES == LAST {
            return Some(number);
        }
        (self.place(rank).raise_to(number + 1) == number).then_some(number + 1)
    }

    /// Not served soon: says so, and sleeps.
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

    /// Sleeps in a place that is marked asleep.
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
        // The maximum tells who was first: the releaser, and the lock is ours, or we.
        if place.raise_to(asleep + 1) >= over {
            // Acquire: pairs with the Release of the raise by who let go. A load, not a fence, as ThreadSanitizer does not
            // know fences.
            let _ = place.get();
            self.satisfied();
            return Ok(());
        }
        Err(error)
    }

    /// One less of those who do not look.
    fn satisfied(&self) {
        self.words().attention.fetch_sub(1, Ordering::Relaxed);
    }

    /// `ticket` is served: wakes its owner if it does not look, passes it over if it is gone.
    #[cold]
    fn pass_on(&self, mut ticket: u64) {
        let words = self.words();
        // Acquire: pairs with the Release in `queue_up`.
        while words.attention.load(Ordering::Acquire) != 0 {
            let turn = self.turn(ticket).load(Ordering::Relaxed);
            let (of, rank) = (turn / RANKS, turn % RANKS);
            if of != ticket || rank == 0 {
                return; // it looks itself, or will; or has not been drawn
            }
            let (place, over) = (self.place(rank as usize - 1), place_of(ticket) + OVER);
            let before = place.raise_to(over);
            let gave_up = before < over && before > place_of(ticket) && given_up(before);
            if !gave_up || plant::is("ticket: grants who gave up") {
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
    fn within(space: &mut Space, members: usize) -> Result<Self, SpaceError> {
        let words = space.array(1)?.element(0);
        let turns = space.array(members.next_power_of_two())?;
        Ok(Ticket { words, turns, places: space.array(members)? })
    }

    #[inline]
    fn try_acquire(&self, rank: usize, _: Inside) -> bool {
        // A place that was given up and not passed over: others are before it.
        if given_up(self.place(rank).get()) {
            return false;
        }
        let words = self.words();
        let serving = words.serving.get();
        // The acquire of the lock is that of `get`: as long as no ticket has been drawn since, who let go last is who
        // published that. Acquire and Release here: as in `acquire`.
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
        // Acquire and Release: whoever used this ticket's turn before, a whole table of tickets ago, wrote it before.
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
