//! One of a team.

mod make;

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use syncline_mpi::Communicator;
use syncline_process::Generation;
use syncline_sync::{
    Auto, Barrier as _, BarrierMember, Fault, Space, SpaceError,
    calls::{Call, Caller},
    membership::FaultList,
};

use crate::barrier::{Kind, TeamBarrier, levels};
use crate::ending::{AtEnd, Endings};
use crate::endpoint::{Endpoint, Service};
use crate::gather::Gathering;
use crate::hosts::Hosts;
use crate::node::Node;
pub use make::Collective;

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
        let (node, mut services) = (Arc::clone(node), 0);
        let mut space = space.clone().of_member(rank).telling(&node.control.calls);
        let caller = |object, call| node.control.calls.caller(rank, object, call);
        let kind = match barrier {
            Some(barrier) => {
                let fault_list = node.control.fault_list.called(caller(WAIT, Call::Wait));
                Kind::Host(barrier.clone().watching(&fault_list).member(rank)?)
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
        self.check_not_forked().ok()?;
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

    /// The members that are dead; [`LAUNCHER`](syncline_sync::membership::LAUNCHER) stands for the launcher.
    /// Waits for signals that stand in [`space`](Self::space) end for them by `Policy::watching`.
    #[must_use]
    pub fn fault_list(&self) -> &FaultList {
        &self.node.control.fault_list
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
    /// [`Fault::Dead`] and the like, [`Fault::Left`]: a member without which it never ends.
    /// [`Fault::Forked`], as from all that a member does, in a child that `fork` has made of its
    /// process.
    pub fn wait(&mut self) -> Result<(), Fault> {
        self.barrier.wait()
    }

    /// As [`wait`](Self::wait), until a time. When the deadline passes, this member has arrived and
    /// stays so: either call goes on.
    ///
    /// A member whose wait has timed out waits again, or stays in its function, until the others
    /// have passed. If it returns before, those on other hosts are told that it has left, where
    /// they need more of it than its arrival ([`Fault::Left`]). On one host the others pass if the
    /// barrier is a [`Counter`](syncline_sync::barrier::Counter), which it is where members share cores.
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

    /// As [`gather`](Self::gather), and waits until a time. When the deadline passes, the word has
    /// been given: the next call goes on to wait for the others, and its own word does not count.
    ///
    /// # Collective
    /// As [`gather`](Self::gather). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; as [`gather`](Self::gather).
    pub fn gather_deadline(
        &mut self,
        value: u64,
        deadline: Option<Instant>,
    ) -> Result<Vec<u64>, Fault> {
        self.check_not_forked()?;
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
            self.fault_list(),
            self.gather_caller.as_ref(),
            time,
            deadline,
        )?;
        (self.gathered.0, self.gathers) = (time + 1, false);
        Ok(words)
    }

    /// Whether this process is the one whose member it is, and not a child that `fork` has made of
    /// it: that is no member.
    ///
    /// # Errors
    /// [`Fault::Forked`].
    #[inline]
    pub fn check_not_forked(&self) -> Result<(), Fault> {
        if self.born.is_current() { Ok(()) } else { Err(Fault::Forked { rank: self.rank }) }
    }

    /// Calls something when this member's function has returned or panicked, unless it has been
    /// dropped by then.
    ///
    /// For what others wait for and a member may leave undone, wherever the thing itself is then: a
    /// mutex that it holds.
    pub fn at_end(&mut self, ending: &Arc<impl AtEnd + 'static>) {
        self.endings.push(ending);
    }

    /// This member's function has ended; unless it has `returned`, no other member is to wait for
    /// this one. Returns the place of this end in the order of all, from 1.
    pub(crate) fn end(&self, returned: bool) -> u64 {
        // Before the others are told, so that their ends come after it.
        let end = self.node.control.note_end(self.rank);
        self.endings.end();
        if returned {
            self.node.control.ended(self.rank, self.things);
        } else {
            // Its guards and handles are dropped, unless it has passed them on to other threads, which may be
            // at work with them. So it is not declared dead while its process lives.
            self.fault_list().give_up(self.rank);
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
