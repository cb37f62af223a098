//! One of a team.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use syncline_memory::Generation;
use syncline_mpi::Communicator;
use syncline_sync::{
    Auto, Barrier, BarrierMember, Call, Caller, Combined, CombinedMember, Counter, Deaths, Dissemination,
    DisseminationMember, Fault, Lock, LockMember, MemoryFlags, Naming, Phased, RawLock, Space, SpaceError,
    Tournament, TournamentMember,
};

use crate::barrier::{Kind, TeamBarrier, levels};
use crate::board::{self, TeamBoard};
use crate::ending::{AtEnd, Endings};
use crate::endpoint::{Endpoint, Service};
use crate::environment::Shape;
use crate::gather::Gathering;
use crate::hosts::Hosts;
use crate::node::Node;

/// What a [`Member`] can make together with all others: see [`Member::make`].
pub trait Collective: Sized {
    /// One member's part of it.
    type Seat;

    /// The same thing; its members are told of these deaths.
    #[must_use]
    fn watched(self, deaths: &Deaths) -> Self;

    /// Takes the part of the member `rank`.
    ///
    /// # Errors
    /// If the rank is taken, or none of its members.
    fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError>;
}

macro_rules! collective {
    ($($barrier:ty),*) => {$(
        impl Collective for $barrier {
            type Seat = <$barrier as Barrier>::Member;

            fn watched(self, deaths: &Deaths) -> Self {
                self.watching(deaths)
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

    fn watched(self, deaths: &Deaths) -> Self {
        self.watching(deaths)
    }

    fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError> {
        self.member(rank)
    }
}

/// One of a team: what the function of [`Team::run`](crate::Team::run) gets.
///
/// Rank `r` is thread `r % threads` of process `r / threads`.
#[derive(Debug)]
pub struct Member {
    node: Arc<Node>,
    rank: usize,
    /// That of the process whose member it is.
    born: Generation,
    space: Space,
    barrier: TeamBarrier,
    /// How many things it has made with the others.
    things: u64,
    /// How many services it has attached with the others.
    services: u32,
    gathering: Gathering,
    /// How often it has gathered, and as which service.
    gathered: (u64, u32),
    /// It has given its word, and waits for those of others.
    gathers: bool,
    gather_caller: Option<Caller>,
    /// How many objects it has made with the others, and what the next one is called.
    objects: usize,
    called: Call,
    endings: Endings,
}

/// Objects whose calls are compared: these two, and then those that members make.
const WAIT: usize = 0;
const GATHER: usize = 1;

impl Member {
    /// What all members of a process need to be made: the barrier, where there is one host.
    pub(crate) fn new(
        node: &Arc<Node>,
        rank: usize,
        space: &Space,
        barrier: Option<&Auto>,
    ) -> Result<Self, SpaceError> {
        let (node, mut space, mut services) = (Arc::clone(node), space.clone().of_member(rank), 0);
        let caller = |object, call| node.control.calls.caller(rank, object, call);
        let kind = match barrier {
            Some(barrier) => {
                let deaths = node.control.deaths.called(caller(WAIT, Call::Wait));
                Kind::Host(barrier.clone().watching(&deaths).member(rank)?)
            }
            None => {
                let wait = caller(WAIT, Call::Wait);
                Kind::Hosts(Box::new(levels(&node, rank, &mut space, &mut services, 0, wait)?))
            }
        };
        let gathering = Gathering::within(&mut space, node.shape.members())?;
        services += 1;
        if let Some(endpoint) = &node.endpoint {
            endpoint.attach(services, || gathering.clone());
        }
        let gather_caller = caller(GATHER, Call::Gather);
        let (barrier, gathered) = (TeamBarrier(kind), (0, services));
        let (endings, gathers, born) = (Endings::default(), false, Generation::current());
        Ok(Member {
            node,
            rank,
            born,
            space,
            barrier,
            things: 0,
            services,
            gathering,
            gathered,
            gathers,
            gather_caller,
            objects: GATHER,
            called: Call::Barrier,
            endings,
        })
    }

    /// Which of the members this is, counted from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.node.shape.members()
    }

    /// How many processes have died before this team was made of those who were left: see
    /// [`Team::run_shrinking`](crate::Team::run_shrinking).
    #[must_use]
    pub fn died(&self) -> usize {
        self.node.died
    }

    /// Which of the processes this member is in.
    #[must_use]
    pub fn process(&self) -> usize {
        self.node.process
    }

    /// How many processes there are.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.node.shape.processes
    }

    /// Which of its process's members this is.
    #[must_use]
    pub fn thread(&self) -> usize {
        self.rank % self.node.shape.threads
    }

    /// How many members each process has.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.node.shape.threads
    }

    /// Which of the hosts this member is on: groups of processes that have memory in common.
    #[must_use]
    pub fn host(&self) -> usize {
        self.node.hosts.of(self.node.process)
    }

    /// Which processes are on which hosts.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.node.hosts
    }

    /// The ranks of the members on a host, in ascending order.
    #[must_use]
    pub fn ranks_on(&self, host: usize) -> Vec<usize> {
        self.node.ranks_on(host)
    }

    /// What carries messages to members on other hosts, if there are any.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        self.node.endpoint.as_ref()
    }

    /// A communicator of the team's processes, for calls of MPI by the program itself; `None` if no MPI launched the team, or
    /// another member of this process has it.
    ///
    /// Calls of MPI take turns: while one blocks, nothing is served here, and who is silent for longer than
    /// `SYNCLINE_TIMEOUT` is taken for dead. What was put before may leave after it, unless it was fenced. Its own collective
    /// calls are those of processes, not of members.
    #[must_use]
    pub fn take_mpi(&mut self) -> Option<Communicator> {
        self.at_home().ok()?;
        self.node.mpi.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Attaches a service to the endpoint of this process, and returns its number; the members of a process share it.
    /// `None` where there are no other hosts.
    ///
    /// # Collective
    /// All members attach the same services in the same order.
    ///
    /// # Panics
    /// If they do not.
    pub fn attach<S: Service>(&mut self, make: impl FnOnce() -> S) -> Option<(u32, Arc<S>)> {
        self.services += 1;
        let service = self.services;
        self.endpoint().map(|endpoint| (service, endpoint.attach(service, make)))
    }

    /// On how many cores the team runs, as whoever made it saw it: the same for all members, for `Auto::within`.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.node.shape.cores
    }

    /// This member's view of the memory that all share.
    ///
    /// # Collective
    /// All members ask it for the same things in the same order. What is made of it here, and not by
    /// [`make`](Self::make), is waited for even if a member has ended without it.
    pub fn space(&mut self) -> &mut Space {
        &mut self.space
    }

    /// The members that are dead; [`LAUNCHER`](syncline_sync::LAUNCHER) stands for the launcher.
    /// Waits for signals that stand in [`space`](Self::space) end for them by `Policy::watching`.
    #[must_use]
    pub fn deaths(&self) -> &Deaths {
        &self.node.control.deaths
    }

    /// The barrier of all members, to arrive at it now and wait later.
    pub fn barrier(&mut self) -> &mut TeamBarrier {
        &mut self.barrier
    }

    /// Waits until all members have come here.
    ///
    /// # Collective
    /// All members call it, each as often as the others.
    ///
    /// # Errors
    /// [`Fault::Dead`] and the like, [`Fault::Left`]: a member without which it never ends. [`Fault::Forked`], as from all
    /// that a member does, in a child that `fork` has made of its process.
    pub fn wait(&mut self) -> Result<(), Fault> {
        self.barrier.wait()
    }

    /// As [`wait`](Self::wait), until a time. When the deadline passes, this member has arrived and stays so: either call goes
    /// on.
    ///
    /// # Collective
    /// As [`wait`](Self::wait). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; as [`wait`](Self::wait).
    pub fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        self.barrier.wait_deadline(deadline)
    }

    /// Gives a word, and gets those of all members, by rank.
    ///
    /// # Collective
    /// All members call it, each as often as the others. It counts as something [made](Self::make).
    ///
    /// # Errors
    /// [`Fault::Dead`]: a member without which it never ends.
    ///
    /// # Examples
    /// ```
    /// let words = syncline_fabric::Team::threads(3).run(|me| me.gather(10 + me.rank() as u64))?;
    /// assert_eq!(words, vec![Ok(vec![10, 11, 12]); 3]);
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn gather(&mut self, value: u64) -> Result<Vec<u64>, Fault> {
        self.gather_deadline(value, None)
    }

    /// As [`gather`](Self::gather), and waits until a time. When the deadline passes, the word has been given: the next call
    /// goes on to wait for the others, and its own word does not count.
    ///
    /// # Collective
    /// As [`gather`](Self::gather). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; as [`gather`](Self::gather).
    pub fn gather_deadline(&mut self, value: u64, deadline: Option<Instant>) -> Result<Vec<u64>, Fault> {
        self.at_home()?;
        let (time, service) = self.gathered;
        if !std::mem::replace(&mut self.gathers, true) {
            self.made();
            if let Some(caller) = &self.gather_caller {
                caller.arrive(time + 1);
            }
            let endpoint = self.endpoint().map(|endpoint| (endpoint, service));
            self.gathering.give(endpoint, self.rank, time, value);
        }
        let words = self.gathering.take(
            self.endpoint(),
            self.deaths(),
            self.gather_caller.as_ref(),
            time,
            deadline,
        )?;
        (self.gathered.0, self.gathers) = (time + 1, false);
        Ok(words)
    }

    /// Makes a barrier or lock with all others, and takes this member's part of it.
    ///
    /// # Collective
    /// All members make the same things in the same order. Nobody waits for the others. A member that ends when it has
    /// made less than another is given up, so that nobody waits for its part. So is one that ends because it got an error
    /// here: what is made has a seat for every member.
    ///
    /// # Errors
    /// What `make` says; [`SpaceError::Mismatch`] if this member and another do not make the same things.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::{BarrierMember, Dissemination, Flags, Lock, Mcs};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut barrier = me.make(|space, members| Dissemination::within(space, members, 4, Flags::Padded))?;
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
        let size = self.size();
        let caller = self.object();
        let deaths = self.deaths().called(caller);
        let seat = make(&mut self.space, size)?.watched(&deaths).seat(self.rank)?;
        self.made();
        Ok(seat)
    }

    /// Makes a barrier in two levels: `inner` for the threads of each process, `outer` for the processes.
    ///
    /// # Collective
    /// As [`make`](Self::make). Every member's view makes the inner barriers of all processes, so that all views agree
    /// on what comes after them.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::{BarrierMember, Counter};
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
        let inners = (0..processes).map(|_| inner(&mut self.space, threads)).collect::<Result<Vec<_>, _>>();
        let inner = inners?.swap_remove(self.process());
        let caller = self.object();
        let deaths = self.deaths().called(caller);
        let outer = outer(&mut self.space, processes)?.watched(&deaths);
        let inner = inner.watched(&deaths);
        let seat = Combined::new(self.process(), inner, outer).member(self.thread())?;
        self.made();
        Ok(seat)
    }

    /// Whether this process is the one whose member it is, and not a child that `fork` has made of it: that is no member.
    ///
    /// # Errors
    /// [`Fault::Forked`].
    #[inline]
    pub fn at_home(&self) -> Result<(), Fault> {
        if self.born.is_current() { Ok(()) } else { Err(Fault::Forked { rank: self.rank }) }
    }

    fn is_member(&self) -> Result<(), SpaceError> {
        self.at_home().map_err(|_| SpaceError::Forked { rank: self.rank })
    }

    fn one_host(&self) -> Result<(), SpaceError> {
        self.is_member()?;
        match self.node.hosts.count() {
            1 => Ok(()),
            hosts => Err(SpaceError::Hosts { hosts }),
        }
    }

    /// Makes a tournament barrier of all members, on whatever hosts they are.
    ///
    /// # Collective
    /// As [`make`](Self::make).
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn tournament(&mut self) -> Result<TournamentMember<TeamBoard>, SpaceError> {
        let board = self.board(TournamentMember::<TeamBoard>::slots(self.size()))?;
        Ok(TournamentMember::new(board))
    }

    /// Makes a dissemination barrier of all members, on whatever hosts they are, with that radix.
    ///
    /// # Collective
    /// As [`make`](Self::make).
    ///
    /// # Errors
    /// As [`make`](Self::make); [`SpaceError::Radix`].
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
    pub fn dissemination(&mut self, radix: usize) -> Result<DisseminationMember<TeamBoard>, SpaceError> {
        if radix < 2 {
            return Err(SpaceError::Radix { radix });
        }
        let radix = radix.min(self.size().max(2));
        let board = self.board(DisseminationMember::<TeamBoard>::slots(self.size(), radix))?;
        Ok(DisseminationMember::new(board, radix))
    }

    /// Makes a barrier in two levels: a counter of the members of each host, and a dissemination barrier of the hosts, with
    /// that radix (0: the one that fits).
    ///
    /// # Collective
    /// As [`make`](Self::make).
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn combined(&mut self, radix: usize) -> Result<TeamBarrier, SpaceError> {
        self.is_member()?;
        let caller = self.object();
        let barrier = levels(&self.node, self.rank, &mut self.space, &mut self.services, radix, caller)?;
        self.made();
        Ok(TeamBarrier(Kind::Hosts(Box::new(barrier))))
    }

    /// Makes a board of all members, on whatever hosts they are, with so many slots for each.
    ///
    /// # Collective
    /// As [`make`](Self::make).
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn board(&mut self, slots: usize) -> Result<TeamBoard, SpaceError> {
        let all = (0..self.size()).collect::<Vec<_>>();
        Ok(self.board_of(&all, slots)?.expect("a member is one of all"))
    }

    /// Makes a board of some members, which have these ranks here, and on the board their places in the list. `None` for one
    /// that is not among them.
    ///
    /// # Collective
    /// As [`make`](Self::make): all members of the team make it, with the same list.
    ///
    /// # Errors
    /// As [`make`](Self::make); [`SpaceError::Rank`], [`SpaceError::Taken`] if a rank is none, or is there twice.
    pub fn board_of(&mut self, ranks: &[usize], slots: usize) -> Result<Option<TeamBoard>, SpaceError> {
        self.is_member()?;
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
        let caller = self.object();
        if let Some(caller) = caller.as_ref().filter(|_| mine.is_none()) {
            caller.arrive(u64::MAX);
        }
        let board = match self.node.endpoint.clone() {
            None => {
                let flags =
                    MemoryFlags::within(&mut self.space, ranks.len(), slots, syncline_sync::Flags::Packed)?;
                let flags = flags.watching(&self.deaths().called(caller));
                mine.map(|place| flags.board(place).map(TeamBoard::memory)).transpose()?
            }
            Some(endpoint) => {
                let processes = ranks.iter().map(|rank| rank / self.threads()).collect();
                let flags = board::Flags::within(&mut self.space, processes, slots)?;
                self.services += 1;
                mine.map(|place| TeamBoard::across(&endpoint, self.services, flags, place, caller))
            }
        };
        self.made();
        Ok(board)
    }

    /// The next barrier or board that this member makes with the others is called so in messages.
    pub fn calling(&mut self, call: Call) -> &mut Self {
        self.called = call;
        self
    }

    /// Until the result is dropped, the waits of this member are part of that call, in messages.
    #[must_use]
    pub fn naming(&self, call: Call) -> Naming {
        self.node.control.calls.naming(self.rank, call)
    }

    /// The next thing that all members make, with what it is called.
    fn object(&mut self) -> Option<Caller> {
        self.objects += 1;
        let call = std::mem::replace(&mut self.called, Call::Barrier);
        self.node.control.calls.caller(self.rank, self.objects, call)
    }

    fn made(&mut self) {
        self.things += 1;
        self.node.control.made(self.rank, self.things);
    }

    /// Calls something when this member's function has returned or panicked, unless it has been dropped by then.
    ///
    /// For what others wait for and a member may leave undone, wherever the thing itself is then: a mutex that it holds.
    pub fn at_end(&mut self, ending: &Arc<impl AtEnd + 'static>) {
        self.endings.push(ending);
    }

    /// This member's function has returned; if it has not, nobody is to wait for it. Returns the how many-th end this is.
    pub(crate) fn end(&self, returned: bool) -> u64 {
        // Before the others are told, so that their ends come after it.
        let end = self.node.control.note_end(self.rank);
        self.endings.end();
        if returned {
            self.node.control.ended(self.rank, self.things);
        } else {
            // Its guards and handles are dropped, unless it has passed them on to other threads, which may be
            // at work with them. So it is not declared dead while its process lives.
            self.deaths().give_up(self.rank);
        }
        // After the reasons for which it may have ended.
        self.node.control.calls.end(self.rank);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        fn movable<T: Send + 'static>() {}
        movable::<Member>();
        movable::<crate::TeamError>();
        movable::<crate::Launcher>();
    }
}
