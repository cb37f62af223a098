//! A member of a team.

mod borrowed;
mod make;

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use syncline_mpi::Communicator;
use syncline_process::Generation;
use syncline_sync::{
    Auto, Barrier as _, BarrierMember, Fault, Space, SpaceError,
    call_matching::{Call, Caller},
    membership::FaultList,
};
use syncline_trace::{Activity, span};

use crate::barrier::{Kind, TeamBarrier, levels};
use crate::ending::{AtEnd, Endings};
use crate::endpoint::{Endpoint, Service};
use crate::gather::Gathering;
use crate::hosts::Hosts;
use crate::node::Node;
use borrowed::Borrowed;
pub use make::Collective;

/// A member of a team: the argument of the function of [`Team::run`](crate::Team::run).
///
/// Rank `r` is thread `r % threads` of process `r / threads`.
#[derive(Debug)]
pub struct Member {
    node: Arc<Node>,
    rank: usize,
    /// The generation of the process that the member belongs to.
    born: Generation,
    space: Space,
    barrier: TeamBarrier,
    /// The number of objects that the member has made with the others.
    things: u64,
    /// The number of services that it has attached with the others.
    services: u32,
    gathering: Gathering,
    /// How often the member has gathered, and the service number of the gather.
    gathered: (u64, u32),
    /// Whether it has given its word, and waits for the words of others.
    gathers: bool,
    gather_caller: Option<Caller>,
    /// The number of objects whose calls are compared, and the name of the next one in messages.
    objects: usize,
    called: Call,
    endings: Endings,
    borrowed: Borrowed,
}

/// The first objects whose calls are compared; those that members make follow.
const WAIT: usize = 0;
const GATHER: usize = 1;

impl Member {
    /// Creates a member of a process. `barrier` is the team's barrier if the team is on a single
    /// host.
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
            borrowed: Borrowed::default(),
        })
    }

    /// Returns the rank of this member, counted from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.node.shape.members()
    }

    /// Returns the number of processes that had died before this team was made of the remaining
    /// ones: see [`Team::run_shrinking`](crate::Team::run_shrinking).
    #[must_use]
    pub fn died(&self) -> usize {
        self.node.died
    }

    /// Returns the number of the process that this member is in.
    #[must_use]
    pub fn process(&self) -> usize {
        self.node.process
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.node.shape.processes
    }

    /// Returns the number of this member within its process.
    #[must_use]
    pub fn thread(&self) -> usize {
        self.rank % self.node.shape.threads
    }

    /// Returns the number of members of each process.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.node.shape.threads
    }

    /// Returns the number of the host that this member is on. Hosts are groups of processes that
    /// share memory.
    #[must_use]
    pub fn host(&self) -> usize {
        self.node.hosts.of(self.node.process)
    }

    /// Returns the name of this member for messages: its rank and the name of its machine.
    #[doc(hidden)]
    #[must_use]
    pub fn place(&self) -> String {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("rank {} on {}", self.rank, machine.trim())
    }

    /// Returns the mapping of processes to hosts.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.node.hosts
    }

    /// Returns the ranks of the members on a host, in ascending order.
    #[must_use]
    pub fn ranks_on(&self, host: usize) -> Vec<usize> {
        self.node.ranks_on(host)
    }

    /// Returns the endpoint that carries messages to members on other hosts, if there are any.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        self.node.endpoint.as_ref()
    }

    /// Returns a communicator of the team's processes, for MPI calls of the program itself; `None`
    /// if no MPI launched the team, or another member of this process has taken it.
    ///
    /// MPI calls take turns: while one blocks, this process serves no messages, and a process that
    /// is silent for longer than `SYNCLINE_TIMEOUT` is taken for dead. One-sided puts that precede
    /// the call may leave after it, unless they were fenced. Collective MPI calls are calls of
    /// processes, not of members.
    #[must_use]
    pub fn take_mpi(&mut self) -> Option<Communicator> {
        self.check_not_forked().ok()?;
        self.node.mpi.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Attaches a service to the endpoint of this process, and returns its number and the service,
    /// which the members of a process share. Returns `None` where there are no other hosts.
    ///
    /// # Collective
    /// All members attach the same services in the same order.
    ///
    /// # Panics
    /// If members attach different services.
    pub fn attach<S: Service>(&mut self, make: impl FnOnce() -> S) -> Option<(u32, Arc<S>)> {
        self.services += 1;
        let service = self.services;
        self.endpoint().map(|endpoint| (service, endpoint.attach(service, make)))
    }

    /// Returns the number of cores that the team runs on, as seen by the process that made the
    /// team: the same for all members, for `Auto::within`.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.node.shape.cores
    }

    /// Returns this member's view of the memory that all members share.
    ///
    /// # Collective
    /// All members make the same objects in it in the same order. If an object is made here, and
    /// not by [`make`](Self::make), a wait for a member that has ended without its part of it does
    /// not end.
    pub fn space(&mut self) -> &mut Space {
        &mut self.space
    }

    /// Returns the list of the members that are dead or missed;
    /// [`LAUNCHER`](syncline_sync::membership::LAUNCHER) stands for the launcher. With
    /// `Policy::watching`, the list ends waits for signals in [`space`](Self::space).
    #[must_use]
    pub fn fault_list(&self) -> &FaultList {
        &self.node.control.fault_list
    }

    /// Returns the barrier of all members, for arriving first and waiting later.
    pub fn barrier(&mut self) -> &mut TeamBarrier {
        &mut self.barrier
    }

    /// Waits until all members have arrived.
    ///
    /// # Collective
    /// All members call it, equally often.
    ///
    /// # Errors
    /// [`Fault::Dead`] and the like, or [`Fault::Left`], if a member is missing without which the
    /// wait never ends. [`Fault::Forked`], as from every method of a member, in a child that `fork`
    /// has made of its process.
    pub fn wait(&mut self) -> Result<(), Fault> {
        self.barrier.wait()
    }

    /// Like [`wait`](Self::wait), with a deadline. When the deadline passes, this member has
    /// arrived and stays arrived: a later call of either method continues the wait.
    ///
    /// A member whose wait has timed out waits again, or stays in its function, until the others
    /// have passed. If it returns earlier, members on other hosts that need more of it than its
    /// arrival get [`Fault::Left`]. On one host the others pass if the barrier is a
    /// [`Counter`](syncline_sync::barrier::Counter), which it is where members share cores.
    ///
    /// # Collective
    /// As for [`wait`](Self::wait). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; otherwise as for [`wait`](Self::wait).
    pub fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        self.barrier.wait_deadline(deadline)
    }

    /// Gives a word, and returns the words of all members, by rank.
    ///
    /// # Collective
    /// All members call it, equally often. It counts as an object that is [made](Self::make).
    ///
    /// # Errors
    /// [`Fault::Dead`] and the like, or [`Fault::Left`], if a member is missing without which the
    /// wait never ends.
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

    /// Like [`gather`](Self::gather), with a deadline. When the deadline passes, the word has been
    /// given: the next call continues to wait for the others, and ignores its own word.
    ///
    /// # Collective
    /// As for [`gather`](Self::gather). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; otherwise as for
    /// [`gather`](Self::gather).
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
        let waits = span(Activity::AwaitMessage, u32::MAX, 0);
        let words = self.gathering.take(
            self.endpoint(),
            self.fault_list(),
            self.gather_caller.as_ref(),
            time,
            deadline,
        );
        drop(waits);
        let words = words?;
        (self.gathered.0, self.gathers) = (time + 1, false);
        Ok(words)
    }

    /// Gives some bytes, and returns the bytes of all members, by rank.
    ///
    /// It is meant for a few bytes on rare occasions, such as the text of an error: eight bytes
    /// travel at a time, by [`gather`](Self::gather).
    ///
    /// # Collective
    /// As for [`gather`](Self::gather). Each member gives any number of bytes.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    ///
    /// # Examples
    /// ```
    /// let all = syncline_fabric::Team::threads(2).run(|me| {
    ///     me.exchange(format!("this is rank {}", me.rank()).as_bytes())
    /// })?;
    /// let expected = vec![b"this is rank 0".to_vec(), b"this is rank 1".to_vec()];
    /// assert_eq!(all, vec![Ok(expected.clone()), Ok(expected)]);
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn exchange(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let lengths = self.gather(bytes.len() as u64)?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut all = vec![Vec::new(); lengths.len()];
        let mut words = bytes.chunks(8);
        for _ in 0..longest.div_ceil(8) {
            let mut word = [0; 8];
            let own = words.next().unwrap_or_default();
            word[..own.len()].copy_from_slice(own);
            for (bytes, word) in all.iter_mut().zip(self.gather(u64::from_le_bytes(word))?) {
                bytes.extend(word.to_le_bytes());
            }
        }
        for (bytes, len) in all.iter_mut().zip(lengths) {
            bytes.truncate(len as usize);
        }
        Ok(all)
    }

    /// Gives this member's error, if it has one, and returns the one of the lowest rank that has
    /// one, with that rank.
    ///
    /// # Collective
    /// As for [`gather`](Self::gather).
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn first_error(
        &mut self,
        own: Option<&dyn std::fmt::Display>,
    ) -> Result<Option<(usize, String)>, Fault> {
        let failed = self.gather(own.is_some().into())?;
        let Some(rank) = failed.iter().position(|&failed| failed != 0) else { return Ok(None) };
        let text = own.map(ToString::to_string).unwrap_or_default();
        let text = self.exchange(text.as_bytes())?.swap_remove(rank);
        Ok(Some((rank, String::from_utf8_lossy(&text).into_owned())))
    }

    /// Checks that this process is the one that the member belongs to, and not a child that `fork`
    /// has made of it: such a child is no member.
    ///
    /// # Errors
    /// [`Fault::Forked`].
    #[inline]
    pub fn check_not_forked(&self) -> Result<(), Fault> {
        if self.born.is_current() { Ok(()) } else { Err(Fault::Forked { rank: self.rank }) }
    }

    /// Registers a cleanup that runs when this member's function has returned or panicked, unless
    /// it has been dropped by then.
    ///
    /// It is meant for obligations that others wait for and that a member may leave undone,
    /// wherever the object itself is then: a mutex that it holds, for example.
    pub fn at_end(&mut self, ending: &Arc<impl AtEnd + 'static>) {
        self.endings.push(ending);
    }

    /// Records that this member's function has ended. Unless it has `returned`, no other member
    /// waits for this one any more. Returns the position of this end in the order of all ends, from
    /// 1.
    pub(crate) fn end(&self, returned: bool) -> u64 {
        // Before the others can see the end, so that their ends come after it.
        let end = self.node.control.note_end(self.rank);
        self.endings.end();
        if returned {
            self.node.control.ended(self.rank, self.things);
        } else {
            // Its guards and handles are dropped, unless it has passed them on to other threads,
            // which may use them. So it is not declared dead while its process lives.
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
