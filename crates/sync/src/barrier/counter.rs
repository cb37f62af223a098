//! A barrier of one word that counts arrivals and never decreases.
//!
//! # Contract
//! See [`barrier`](crate::barrier). Arrival is one addition; no member forwards anything for
//! others.
//!
//! # State: one signal
//! ```text
//! P = 3            0   1   2   3   4   5   6   7 ...      arrivals so far
//! episode          └── 1st ──┘   └── 2nd ──┘
//! complete at               3           6
//! ```
//! In its e-th episode, a member arrives with one addition and waits until the word is at least e
//! P. If rank 0 leads, it adds its own arrival last, when the others have gathered at e P - 1.
//!
//! # Costs
//! Per episode P additions, one after the other, as the line moves from core to core, and P - 1
//! readers that fetch the line after the last addition. With two members that is less than any
//! other barrier; from about 8 members on the line is the bottleneck.
//!
//! # Why only the last arrival wakes
//! Waking the sleepers at each arrival would be a system call without effect (`Signal::count`).
//! With this the counter is the best barrier wherever members outnumber cores: each member has
//! to run once, not once per round.
//!
//! # Source
//! Kadur and Kochar's counter barrier with sense reversal. Changes: the critical section is one
//! addition; the count continues instead of being reset by the last member, so there is no sense,
//! and no episode in which a late member could meet the flags of the next.

use std::time::Instant;

use syncline_signal::{PaddedSignal, Policy, plant};
use syncline_trace::note::ObjectClass;

use super::{Barrier, BarrierMember, LedMember, Phased};
use crate::agreement::Thing;
use crate::call_matching::{ARRIVED, LAST, Needs, Peers};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, Membership, Seats};
use crate::space::{Element, Space};
use crate::traced::Traced;

/// A barrier of one word: the best choice for few members, and when members outnumber cores.
///
/// # Examples
/// ```
/// use syncline_sync::{Barrier, BarrierMember, barrier::Counter};
///
/// let barrier = Counter::new(3)?;
/// std::thread::scope(|scope| {
///     for rank in 0..3 {
///         let mut member = barrier.member(rank).unwrap();
///         scope.spawn(move || {
///             for _ in 0..10 {
///                 member.wait().unwrap();
///             }
///         });
///     }
/// });
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    word: Element<PaddedSignal>,
    seats: Seats,
    fault_list: Option<FaultList>,
}

/// A member of a [`Counter`].
#[derive(Debug)]
pub struct CounterMember {
    membership: Membership,
    word: Element<PaddedSignal>,
    /// The value of `word` at which the next episode is complete.
    goal: u64,
    arrived: bool,
    /// Whether rank 0 waits for the others before it arrives.
    led: bool,
}

impl Counter {
    /// Creates a barrier for threads.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize) -> Result<Counter, SpaceError> {
        Self::within(&mut Space::heap(), members)
    }

    /// Creates a barrier in `space`.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many; errors of [`Space::array`] if the
    /// space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<Counter, SpaceError> {
        let space = &mut *space.making(Thing::Barrier);
        let seats = Seats::within(space, members)?;
        Ok(Counter { word: space.array(1)?.element(0), seats, fault_list: None })
    }

    /// Returns the same barrier, whose waits end for the faults in `fault_list`.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Counter { fault_list: Some(fault_list.clone()), ..self }
    }

    fn seat(&self, rank: usize, led: bool) -> Result<CounterMember, SpaceError> {
        let membership = Membership::new(&self.seats, self.fault_list.as_ref(), rank)?;
        membership.traced().name(ObjectClass::Barrier, "counter");
        let goal = membership.members() as u64;
        Ok(CounterMember { membership, word: self.word.clone(), goal, arrived: false, led })
    }
}

impl Barrier for Counter {
    type Member = CounterMember;

    fn members(&self) -> usize {
        self.seats.members()
    }

    fn traced(&self) -> Traced {
        self.seats.traced
    }

    fn member(&self, rank: usize) -> Result<CounterMember, SpaceError> {
        self.seat(rank, false)
    }
}

impl Phased for Counter {
    type Led = CounterMember;

    fn led(&self, rank: usize) -> Result<CounterMember, SpaceError> {
        self.seat(rank, true)
    }
}

impl CounterMember {
    fn leads(&self) -> bool {
        self.led && self.membership.rank == 0
    }

    fn add(&self) {
        let (goal, led) = (self.goal, self.led);
        let early = u64::from(plant::is("counter: wakes too early"));
        self.word.count(|now| now == goal - early || led && now == goal - 1);
    }

    /// Returns the steps of others that a wait of this member needs. In a led barrier, rank 0 adds
    /// its arrival last, so its arrival is all that the others need.
    #[inline]
    pub(crate) fn needs(&self) -> Needs {
        match (self.led, self.leads()) {
            (false, _) => Needs::ARRIVALS,
            (true, true) => Needs { peers: Peers::Seats, step: ARRIVED, reached: 0 },
            (true, false) => Needs { peers: Peers::Seat(0), step: LAST, reached: ARRIVED },
        }
    }

    fn complete(&mut self) {
        self.arrived = false;
        self.goal += self.membership.members() as u64;
        self.membership.episodes += 1;
    }

    fn reached(&mut self, number: u64) -> Result<bool, Fault> {
        self.membership.check_not_forked()?;
        let short = u64::from(plant::is("counter: one short"));
        if self.word.get() + short >= number {
            return Ok(true);
        }
        self.membership.missed().map(|()| false)
    }

    #[inline]
    fn wait_for(&self, number: u64, deadline: Option<Instant>) -> Result<(), Fault> {
        let number = number - u64::from(plant::is("counter: one short"));
        // A value that is already reached needs no wait to be set up.
        if self.word.get() >= number { Ok(()) } else { self.wait_longer(number, deadline) }
    }

    #[inline(never)]
    fn wait_longer(&self, number: u64, deadline: Option<Instant>) -> Result<(), Fault> {
        let waiting = self.membership.waiting(self.needs(), deadline);
        match self.word.wait_until(number, &waiting.policy(), deadline) {
            Ok(_) => Ok(()),
            Err(error) => Err(waiting.fault(error)),
        }
    }
}

impl BarrierMember for CounterMember {
    fn rank(&self) -> usize {
        self.membership.rank
    }

    fn members(&self) -> usize {
        self.membership.members()
    }

    fn traced(&self) -> Traced {
        self.membership.traced()
    }

    fn episodes(&self) -> u64 {
        self.membership.episodes
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Fault> {
        self.membership.check_not_forked()?;
        if !self.arrived {
            self.arrived = true;
            if !self.leads() {
                self.membership.reached(ARRIVED);
                self.membership.parts = self.membership.episodes + 1;
                self.add();
            }
        }
        Ok(())
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        if !self.arrived {
            return Ok(true);
        }
        if self.leads() {
            if self.gathered()? {
                self.release()?;
            }
        } else if self.reached(self.goal)? {
            self.complete();
        }
        Ok(!self.arrived)
    }

    #[inline]
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        self.arrive()?;
        if self.leads() {
            self.wait_gathered(deadline)?;
            return self.release();
        }
        self.wait_for(self.goal, deadline)?;
        self.complete();
        Ok(())
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        self.membership.set_policy(policy);
    }
}

impl LedMember for CounterMember {
    fn gathered(&mut self) -> Result<bool, Fault> {
        self.reached(self.goal - 1)
    }

    fn wait_gathered(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        self.membership.check_not_forked()?;
        self.wait_for(self.goal - 1, deadline)
    }

    fn release(&mut self) -> Result<(), Fault> {
        self.membership.check_not_forked()?;
        self.add();
        self.membership.reached(LAST);
        self.complete();
        Ok(())
    }
}
