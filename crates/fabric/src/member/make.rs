//! Collective objects: a member makes barriers, locks and boards together with all others.

use syncline_sync::{
    Auto, Barrier, Lock, Space, SpaceError,
    agreement::Thing,
    barrier::{
        Combined, CombinedMember, Counter, Dissemination, DisseminationMember, Phased, Tournament,
        TournamentMember,
    },
    board::MemoryFlags,
    call_matching::{Call, Caller, Naming},
    lock::{LockMember, RawLock},
    membership::FaultList,
};

use super::Member;
use crate::barrier::{Kind, TeamBarrier, levels};
use crate::board::{self, TeamBoard};
use crate::environment::Shape;

/// An object that a [`Member`] can make together with all others: see [`Member::make`].
pub trait Collective: Sized {
    /// One member's part of the object.
    type Seat;

    /// Makes waits of the object's members end for the members in this list.
    #[must_use]
    fn watched(self, fault_list: &FaultList) -> Self;

    /// Takes the part of the member `rank`.
    ///
    /// # Errors
    /// If the rank is taken, or is not a rank of the object.
    fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError>;
}

macro_rules! collective {
    ($($barrier:ty),*) => {$(
        impl Collective for $barrier {
            type Seat = <$barrier as Barrier>::Member;

            fn watched(self, fault_list: &FaultList) -> Self {
                self.watching(fault_list)
            }

            fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError> {
                self.member(rank)
            }
        }
    )*};
}

collective!(Auto, Counter, Dissemination, Tournament);

impl<R: RawLock, T: Send> Collective for Lock<R, T> {
    type Seat = LockMember<R, T>;

    fn watched(self, fault_list: &FaultList) -> Self {
        self.watching(fault_list)
    }

    fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError> {
        self.member(rank)
    }
}

impl Member {
    /// Makes a barrier or lock with all others, and takes this member's part of it.
    ///
    /// # Collective
    /// All members make the same objects in the same order. No member waits for another. A member
    /// that ends when it has made fewer objects than another is given up, so that waits for its
    /// part end. So is a member that ends because of an error from here: every object has a seat
    /// for every member.
    ///
    /// # Errors
    /// The errors of `make`; [`SpaceError::Mismatch`] if this member and another do not make the
    /// same objects.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::{BarrierMember, Lock, Mcs, barrier::Dissemination, board::Flags};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut barrier = me.make(|space, members| {
    ///         Dissemination::within(space, members, 4, Flags::Padded)
    ///     })?;
    ///     let mut sum = me.make(Lock::<Mcs, u64>::within)?;
    ///     *sum.lock()? += 1;
    ///     barrier.wait()?;
    ///     assert_eq!(*sum.lock()?, 2);
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// })?;
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn make<C: Collective>(
        &mut self,
        make: impl FnOnce(&mut Space, usize) -> Result<C, SpaceError>,
    ) -> Result<C::Seat, SpaceError> {
        self.one_host()?;
        let (size, thing) = (self.size(), self.part_of());
        let caller = self.object();
        let fault_list = self.fault_list().called(caller);
        let made = match thing {
            Some(thing) => make(&mut self.space.making(thing), size),
            None => make(&mut self.space, size),
        };
        let seat = made?.watched(&fault_list).seat(self.rank)?;
        self.made();
        Ok(seat)
    }

    /// Makes a barrier in two levels: `inner` for the threads of each process, `outer` for the
    /// processes.
    ///
    /// # Collective
    /// As for [`make`](Self::make). Every member's view makes the inner barriers of all processes,
    /// so that all views agree on the objects that follow.
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::{BarrierMember, barrier::Counter};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut barrier = me.combine(Counter::within, Counter::within)?;
    ///     barrier.wait()?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// })?;
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn combine<Inner: Collective + Phased, Outer: Collective + Barrier>(
        &mut self,
        inner: impl Fn(&mut Space, usize) -> Result<Inner, SpaceError>,
        outer: impl FnOnce(&mut Space, usize) -> Result<Outer, SpaceError>,
    ) -> Result<CombinedMember<Inner::Led, <Outer as Barrier>::Member>, SpaceError> {
        self.one_host()?;
        let Shape { processes, threads, .. } = self.node.shape;
        let process = self.process();
        let caller = self.object();
        let mut space = self.space.making(Thing::Barrier);
        let inners =
            (0..processes).map(|_| inner(&mut space, threads)).collect::<Result<Vec<_>, _>>();
        let inner = inners?.swap_remove(process);
        let among = |ranks: Vec<usize>| {
            let caller = caller.clone().map(|caller| caller.among(&ranks));
            self.node.control.fault_list.called(caller)
        };
        let leaders = among((0..processes).map(|process| process * threads).collect());
        let group = among(self.node.shape.ranks(process).collect());
        let outer = outer(&mut space, processes)?.watched(&leaders);
        drop(space);
        let inner = inner.watched(&group);
        let combined = Combined::new(process, inner, outer).watching(&self.node.control.fault_list);
        let seat = combined.member(self.thread())?;
        self.made();
        Ok(seat)
    }

    /// Makes a tournament barrier of all members, on any hosts.
    ///
    /// # Collective
    /// As for [`make`](Self::make).
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    pub fn tournament(&mut self) -> Result<TournamentMember<TeamBoard>, SpaceError> {
        let slots = TournamentMember::<TeamBoard>::slots(self.size());
        let board = self.board_for_all(slots, Thing::Barrier)?;
        Ok(TournamentMember::new(board))
    }

    /// Makes a dissemination barrier of all members, on any hosts, with the given radix.
    ///
    /// # Collective
    /// As for [`make`](Self::make).
    ///
    /// # Errors
    /// As for [`make`](Self::make); [`SpaceError::Radix`] if the radix is less than 2.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::BarrierMember;
    ///
    /// // Two hosts, as far as the members can tell, of two members each.
    /// Team::hosts(2).threads(2).run(|me| {
    ///     let mut barrier = me.dissemination(2)?;
    ///     barrier.wait()?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// })?;
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn dissemination(
        &mut self,
        radix: usize,
    ) -> Result<DisseminationMember<TeamBoard>, SpaceError> {
        if radix < 2 {
            return Err(SpaceError::Radix { radix });
        }
        let radix = radix.min(self.size().max(2));
        let slots = DisseminationMember::<TeamBoard>::slots(self.size(), radix);
        let board = self.board_for_all(slots, Thing::Barrier)?;
        Ok(DisseminationMember::new(board, radix))
    }

    /// Makes a barrier in two levels: a counter of the members of each host, and a dissemination
    /// barrier of the hosts with the given radix (0: the best radix for their number).
    ///
    /// # Collective
    /// As for [`make`](Self::make).
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    pub fn combined(&mut self, radix: usize) -> Result<TeamBarrier, SpaceError> {
        self.is_member()?;
        let caller = self.object();
        let mut space = self.space.making(Thing::Barrier);
        let barrier = levels(&self.node, self.rank, &mut space, &mut self.services, radix, caller)?;
        drop(space);
        self.made();
        Ok(TeamBarrier(Kind::Hosts(Box::new(barrier))))
    }

    /// Makes a board of all members, on any hosts, with a number of slots for each.
    ///
    /// # Collective
    /// As for [`make`](Self::make).
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    pub fn board(&mut self, slots: usize) -> Result<TeamBoard, SpaceError> {
        self.board_for_all(slots, Thing::Board)
    }

    fn board_for_all(&mut self, slots: usize, thing: Thing) -> Result<TeamBoard, SpaceError> {
        let all = (0..self.size()).collect::<Vec<_>>();
        Ok(self.board_for(&all, slots, thing)?.expect("a member is one of all"))
    }

    /// Makes a board of some members, given by their ranks; on the board a member's rank is its
    /// index in the list. Returns `None` in a member that is not in the list.
    ///
    /// # Collective
    /// As for [`make`](Self::make): all members of the team call it, with the same list.
    ///
    /// # Errors
    /// As for [`make`](Self::make); [`SpaceError::Rank`] if an entry is not a rank of the team,
    /// [`SpaceError::Taken`] if a rank is in the list twice.
    pub fn board_of(
        &mut self,
        ranks: &[usize],
        slots: usize,
    ) -> Result<Option<TeamBoard>, SpaceError> {
        self.board_for(ranks, slots, Thing::Board)
    }

    /// Makes a board of these members, as part of `thing`.
    fn board_for(
        &mut self,
        ranks: &[usize],
        slots: usize,
        thing: Thing,
    ) -> Result<Option<TeamBoard>, SpaceError> {
        self.is_member()?;
        let thing = self.part_of().unwrap_or(thing);
        let members = self.size();
        for (place, &rank) in ranks.iter().enumerate() {
            if rank >= members {
                return Err(SpaceError::Rank { rank, members });
            }
            if ranks[..place].contains(&rank) {
                return Err(SpaceError::Taken { rank });
            }
        }
        let mine = ranks.iter().position(|&rank| rank == self.rank);
        let caller = self.object().map(|caller| caller.among(ranks));
        if let Some(caller) = caller.as_ref().filter(|_| mine.is_none()) {
            caller.abstain();
        }
        let endpoint = self.node.endpoint.clone();
        let mut space = self.space.making(thing);
        let board = match endpoint {
            None => {
                let flags = MemoryFlags::within(
                    &mut space,
                    ranks.len(),
                    slots,
                    syncline_sync::board::Flags::Packed,
                )?;
                let flags = flags.watching(&self.node.control.fault_list.called(caller));
                mine.map(|place| flags.board(place).map(TeamBoard::memory)).transpose()?
            }
            Some(endpoint) => {
                let processes = ranks.iter().map(|rank| rank / self.node.shape.threads).collect();
                let flags = board::Flags::within(&mut space, processes, slots)?;
                self.services += 1;
                mine.map(|place| TeamBoard::across(&endpoint, self.services, flags, place, caller))
            }
        };
        drop(space);
        self.made();
        Ok(board)
    }

    /// Sets the name under which the next barrier or board that this member makes appears in
    /// messages.
    pub fn calling(&mut self, call: Call) -> &mut Self {
        self.called = call;
        self
    }

    /// Attributes the waits of this member to `call` in messages, until the result is dropped.
    #[must_use]
    pub fn naming(&self, call: Call) -> Naming {
        self.node.control.calls.naming(self.rank, call)
    }

    /// Creates the caller of the next object that all members make, with its name for messages.
    fn object(&mut self) -> Option<Caller> {
        self.objects += 1;
        let call = std::mem::replace(&mut self.called, Call::Barrier);
        self.node.control.calls.caller(self.rank, self.objects, call)
    }

    /// Returns the object that the next barrier or board is a part of, if it is not an object by
    /// itself.
    fn part_of(&self) -> Option<Thing> {
        match self.called {
            Call::Sync => Some(Thing::OneSided),
            Call::GroupSync => Some(Thing::Group),
            _ => None,
        }
    }

    pub(super) fn made(&mut self) {
        self.things += 1;
        self.node.control.made(self.rank, self.things);
    }

    fn is_member(&self) -> Result<(), SpaceError> {
        self.check_not_forked().map_err(|_| SpaceError::Forked { rank: self.rank })
    }

    fn one_host(&self) -> Result<(), SpaceError> {
        self.is_member()?;
        match self.node.hosts.count() {
            1 => Ok(()),
            hosts => Err(SpaceError::Hosts { hosts }),
        }
    }
}
