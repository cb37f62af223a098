//! A member's access to global memory: creation, frees, fences and syncs.
//!
//! # Contract
//! A team on one host and a team on several hosts have the same calls. On one host all memory is
//! shared, so a write is complete when its stores are visible. Between hosts it is complete when
//! the owner's server has performed it.
//!
//! | call          | on one host                 | between hosts                             |
//! |---------------|-----------------------------|-------------------------------------------|
//! | `fence`       | a SeqCst fence after stores | waits until one server has acknowledged   |
//! | `fence_all`   | the same                    | waits until all servers have acknowledged |
//! | `sync`        | a barrier ([`Auto`])        | one exchange of counts (`sync_exchange`)  |
//! | `sync_global` | the same                    | one or two exchanges                      |
//!
//! # Costs
//! A fence without earlier writes is a check. A fence between hosts is the rest of a round trip to
//! the servers that this member has written to, which it asks at once. A sync has the costs of its
//! barrier or of its exchange.
//!
//! # Source
//! The fences of ARMCI (Nieplocha and Carpenter 1999), and the combined fence and barrier of
//! Saify's thesis (2002), chapter 4. Changed: a sync is one exchange where the thesis has two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use syncline_fabric::{Hosts, Member};
use syncline_process::Generation;
use syncline_sync::{
    Auto, Fault, SpaceError, agreement::Thing, barrier::AutoMember, call_matching::Call,
};
use syncline_trace::{Activity, span};

use crate::allocate::Begun;
use crate::element::Element;
use crate::engine::{Engine, HostWords};
use crate::error::RmaError;
use crate::far::Far;
use crate::memory::{Global, HostMemory, Lines, MemberPart, Table, room};
use crate::sync_exchange;

/// A member's access to the global memory of a team: allocations, operations, and their completion.
///
/// All members create it together, with [`Rma::new`]. The table in the [crate] documentation
/// lists the operations and when they complete.
#[derive(Debug)]
pub struct Rma {
    /// The number of this `Rma` in its process: memory that another one has allocated is refused.
    number: u64,
    /// The generation of the process that created it: differs in a child that `fork` has made.
    born: Generation,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    threads: usize,
    hosts: Hosts,
    /// The ranks of the members on this host.
    pub(crate) here: Vec<usize>,
    pub(crate) arena: HostMemory,
    allocations: u32,
    /// An allocation whose deadline has passed, and which has to be resumed.
    pub(crate) begun: Option<Box<Begun>>,
    pub(crate) sync: Syncs,
    /// Whether this member has written to this host's memory since its last fence.
    pub(crate) stored: bool,
}

/// The collective function that a member announces, in the upper byte of a word. The lower bits
/// hold its argument.
pub(crate) mod call {
    pub(crate) const ALLOCATE: u64 = 1 << 56;
    pub(crate) const FREE: u64 = 2 << 56;
    pub(crate) const MUTEXES: u64 = 3 << 56;
    pub(crate) const FREE_MUTEXES: u64 = 4 << 56;
    /// Set when a set of mutexes is to be freed and the announcing member holds one of them.
    pub(crate) const HELD: u64 = 1 << 55;
}

/// Allocations of at least this number of bytes check how much memory the host has left.
const LOOK: usize = 1 << 20;

/// Encodes the result of a request for memory as a word for a gather: 0 for success, otherwise 1
/// plus the number of bytes left, or 1 if memory is not the reason of the failure.
pub(crate) fn left_after(error: Option<&SpaceError>) -> u64 {
    match error {
        None => 0,
        // The reservation may have more room than the host has memory.
        Some(SpaceError::Full { left, .. } | SpaceError::Memory { left, .. }) => {
            syncline_memory::room::left().unwrap_or(u64::MAX).min(*left as u64) + 1
        }
        Some(_) => 1,
    }
}

/// The number of the next `Rma` of this process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// How members wait for one another at a sync.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "on one host there is no pointer to follow")]
pub(crate) enum Syncs {
    Host(AutoMember),
    Hosts(Box<Far>),
}

impl Rma {
    /// Creates the access of this member to the global memory of its team.
    ///
    /// # Collective
    /// All members call it, as with [`Member::make`].
    ///
    /// # Errors
    /// [`RmaError::Space`] if the team's memory has no room.
    pub fn new(me: &mut Member) -> Result<Rma, RmaError> {
        let radix = sync_exchange::best_radix(me.hosts().count());
        Rma::with_radix(me, radix)
    }

    /// Like [`new`](Self::new), with a given radix: see
    /// [`unstable::with_radix`](crate::unstable::with_radix).
    pub(crate) fn with_radix(me: &mut Member, radix: usize) -> Result<Rma, RmaError> {
        let hosts = me.hosts().clone();
        let here = me.ranks_on(me.host());
        let sync = match me.endpoint().cloned() {
            None => {
                let cores = me.cores();
                Syncs::Host(
                    me.calling(Call::Sync)
                        .make(|space, members| Auto::within(space, members, cores))?,
                )
            }
            Some(endpoint) => {
                let board = me.calling(Call::Sync).board(0)?;
                let words =
                    HostWords::within(&mut me.space().making(Thing::OneSided), hosts.count())?;
                let make = || Engine::new(&endpoint, here.len(), words, radix);
                let attached = me.attach(make);
                let (service, engine) = attached.expect("a team with an endpoint");
                Syncs::Hosts(Box::new(Far::new(endpoint, service, engine, board)))
            }
        };
        let (rank, size, threads) = (me.rank(), me.size(), me.threads());
        let (arena, allocations) = (HostMemory::default(), 0);
        // Relaxed: only the uniqueness of the number matters.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let (begun, born) = (None, Generation::current());
        Ok(Rma {
            number,
            born,
            rank,
            size,
            threads,
            hosts,
            here,
            arena,
            allocations,
            begun,
            sync,
            stored: false,
        })
    }

    /// Returns this member's rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Creates the table of a new allocation. `bytes` holds the size of each part by rank; the
    /// parts of this host lie in `lines`.
    pub(crate) fn table(&mut self, bytes: &[usize], lines: Lines) -> Arc<Table> {
        self.allocations += 1;
        Arc::new(Table::new(self.number, self.allocations, bytes, &self.here, lines))
    }

    /// Frees an allocation.
    ///
    /// Operations that were called before are completed first. A get that is in flight when this is
    /// called either completes or fails with [`RmaError::Refused`].
    ///
    /// # Collective
    /// As [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`RmaError::Shape`] if the memory has been freed already,
    /// through another view of it.
    ///
    /// # Panics
    /// As [`allocate`](Self::allocate).
    pub fn free<T: Element>(&mut self, me: &mut Member, memory: Global<T>) -> Result<(), RmaError> {
        assert_eq!(me.rank(), self.rank, "memory is freed by the member itself");
        self.check_not_forked()?;
        let _free = me.naming(Call::Free);
        self.all_call(me, call::FREE | u64::from(memory.table.id))?;
        self.free_alone(memory)
    }

    /// Frees an allocation once it is known that all members do so.
    pub(crate) fn free_alone<T: Element>(&mut self, memory: Global<T>) -> Result<(), RmaError> {
        self.part(&memory, self.rank, 0, 0)?;
        self.sync()?;
        memory.table.set_free();
        if let Syncs::Hosts(far) = &self.sync {
            far.engine.unregister(memory.table.id);
        }
        let (lines, parts) = (&memory.table.lines, &memory.table.parts);
        let before = self.here.iter().take_while(|&&rank| rank != self.rank);
        let at = before.map(|&rank| room(parts[rank].bytes)).sum();
        // SAFETY: no member uses the part: all members have called this function, and the sync has
        // completed their operations on the memory. No other allocation has it yet: the next
        // allocation is collective, and this member takes part in it only after this call.
        unsafe { lines.give_back(at, parts[self.rank].bytes) };
        self.arena.give(memory.table.lines.clone());
        Ok(())
    }

    /// Returns this member's report about the room on its host, encoded as by [`left_after`].
    pub(crate) fn verdict(&self, lines: &Result<Lines, SpaceError>, needed: usize) -> u64 {
        let first = self.here.first() == Some(&self.rank);
        // Small allocations skip the check. A large allocation that exceeds the memory of the host
        // could get a process killed when it touches the pages.
        let left = if first && lines.is_ok() && needed >= LOOK {
            syncline_memory::room::left()
        } else {
            None
        };
        match left.filter(|&left| left < needed as u64) {
            Some(left) => left + 1,
            None => left_after(lines.as_ref().err()),
        }
    }

    /// Returns an error if a member has reported that its host has no room. The error names the
    /// member of that host that asked for the most, and is the same for all members.
    pub(crate) fn no_room(&self, asked: &[usize], said: &[u64]) -> Option<RmaError> {
        let host = self.host_of(said.iter().position(|&said| said != 0)?);
        let of = |&rank: &usize| self.host_of(rank) == host;
        let left =
            (0..self.size).filter(of).map(|rank| said[rank]).filter(|&said| said != 0).max()? - 1;
        let together = (0..self.size)
            .filter(of)
            .fold(0_u64, |sum, rank| sum.saturating_add(asked[rank] as u64));
        // `max_by_key` returns the last maximum: in reverse order this is the lowest rank.
        let rank = (0..self.size).filter(of).rev().max_by_key(|&rank| asked[rank])?;
        Some(RmaError::Room { rank, asked: asked[rank] as u64, together, host, left })
    }

    /// Checks that all members call the same function. `what` encodes the function and its
    /// argument.
    pub(crate) fn all_call(&self, me: &mut Member, what: u64) -> Result<(), RmaError> {
        self.all_call_marked(me, what, 0).map(|_| ())
    }

    /// Like [`all_call`](Self::all_call), and returns the words of all members, which may differ in
    /// the bits of `mark`.
    pub(crate) fn all_call_marked(
        &self,
        me: &mut Member,
        what: u64,
        mark: u64,
    ) -> Result<Vec<u64>, RmaError> {
        self.all_call_deadline(me, what, mark, None)
    }

    /// Like [`all_call_marked`](Self::all_call_marked), with a deadline.
    pub(crate) fn all_call_deadline(
        &self,
        me: &mut Member,
        what: u64,
        mark: u64,
        deadline: Option<Instant>,
    ) -> Result<Vec<u64>, RmaError> {
        self.nothing_begun()?;
        let all = me.gather_deadline(what, deadline)?;
        match all.iter().position(|&other| (other ^ what) & !mark != 0) {
            Some(other) => {
                let what = "allocate, free and make mutexes together, in the same order";
                Err(RmaError::Mismatch { rank: self.rank, other, what })
            }
            None => Ok(all),
        }
    }

    /// Returns an error if an allocation has timed out and has not been resumed.
    #[inline]
    fn nothing_begun(&self) -> Result<(), RmaError> {
        if self.begun.is_some() { Err(RmaError::Unfinished) } else { Ok(()) }
    }

    /// Returns the host of a member.
    pub(crate) fn host_of(&self, rank: usize) -> usize {
        self.hosts.of(self.process_of(rank))
    }

    /// Returns the number of the server that handles requests for a member's memory.
    pub(crate) fn server_of(&self, rank: usize) -> usize {
        self.hosts.server_of(self.process_of(rank))
    }

    /// Returns the process of a member.
    pub(crate) fn process_of(&self, rank: usize) -> usize {
        rank / self.threads
    }

    /// Returns an error in a child that `fork` has made of the member's process: the child is no
    /// member.
    ///
    /// # Errors
    /// [`Fault::Forked`].
    #[inline]
    pub fn check_not_forked(&self) -> Result<(), Fault> {
        if self.born.is_current() { Ok(()) } else { Err(self.forked()) }
    }

    #[cold]
    #[inline(never)]
    fn forked(&self) -> Fault {
        Fault::Forked { rank: self.rank }
    }

    /// Waits until everything that this member has written to other hosts is complete.
    pub(crate) fn complete_far(&mut self) -> Result<(), RmaError> {
        match &mut self.sync {
            Syncs::Hosts(far) if !far.touched.is_empty() => far.fence_all(),
            _ => Ok(()),
        }
    }

    /// Returns a member's part, and the offset in bytes of element `from`, after checking that the
    /// part has `len` elements from there on.
    #[inline]
    pub(crate) fn part<T>(
        &self,
        memory: &Global<T>,
        rank: usize,
        from: usize,
        len: usize,
    ) -> Result<(MemberPart, usize), RmaError> {
        // The successful path returns an `Option`: a `Result` with an error of this size would be
        // returned through memory.
        match self.whole_part(memory, rank, from, len) {
            Some(found) => Ok(found),
            None => Err(self.no_part(memory, rank, from, len)),
        }
    }

    #[inline(always)]
    fn whole_part<T>(
        &self,
        memory: &Global<T>,
        rank: usize,
        from: usize,
        len: usize,
    ) -> Option<(MemberPart, usize)> {
        // One comparison checks both conditions: the memory belongs to this `Rma`, and the process
        // is not a child that `fork` has made.
        let of = |_: &&MemberPart| (memory.table.of() ^ self.number) | self.born.passed() == 0;
        let &part = memory.table.parts.get(rank).filter(of)?;
        let size = size_of::<T>().max(1);
        from.checked_add(len).filter(|&to| to <= part.bytes / size).map(|_| (part, from * size))
    }

    #[cold]
    #[inline(never)]
    fn no_part<T>(&self, memory: &Global<T>, rank: usize, from: usize, len: usize) -> RmaError {
        if let Err(forked) = self.check_not_forked() {
            return forked.into();
        }
        let why = match memory.table.of() {
            0 => "the memory has been freed",
            of if of == self.number => {
                let Some(part) = memory.table.parts.get(rank) else {
                    return RmaError::Rank { rank, size: self.size };
                };
                let (to, len) = (from.saturating_add(len), part.bytes / size_of::<T>().max(1));
                return RmaError::Bounds { rank, from, to, len };
            }
            _ => "the memory was allocated by another member, or by another rma",
        };
        RmaError::Shape { why: why.to_owned() }
    }

    /// Returns the state for operations on the memory of other hosts.
    pub(crate) fn far(&mut self) -> &mut Far {
        match &mut self.sync {
            Syncs::Hosts(far) => far,
            Syncs::Host(_) => unreachable!("all memory of a team on one host is here"),
        }
    }

    /// Waits until everything that this member has written to the memory of `rank` is visible to
    /// all members.
    ///
    /// # One-sided
    /// Only this member calls it; no other member takes part.
    ///
    /// # Memory ordering
    /// Every member sees the puts and accumulates that precede the fence before it sees any write
    /// that follows the fence.
    ///
    /// # Errors
    /// [`RmaError::Rank`]; [`RmaError::Fault`] if a member is dead; [`RmaError::Refused`] if the
    /// other host has refused an operation.
    #[inline]
    pub fn fence(&mut self, rank: usize) -> Result<(), RmaError> {
        self.check_not_forked()?;
        if rank >= self.size {
            return Err(RmaError::Rank { rank, size: self.size });
        }
        if self.stored {
            // SeqCst: the stores become visible before any load that follows, as programs that
            // check a flag after a fence require.
            fence(Ordering::SeqCst);
            self.stored = false;
        }
        let server = self.server_of(rank);
        match &mut self.sync {
            Syncs::Host(_) => Ok(()),
            Syncs::Hosts(far) => far.fence(server),
        }
    }

    /// Waits until everything that this member has written, to any member, is visible to all
    /// members.
    ///
    /// It sends its questions to all hosts with unacknowledged writes at once. With nothing in
    /// flight it costs one check.
    ///
    /// # One-sided
    /// As [`fence`](Self::fence).
    ///
    /// # Memory ordering
    /// As [`fence`](Self::fence).
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    #[inline]
    pub fn fence_all(&mut self) -> Result<(), RmaError> {
        self.check_not_forked()?;
        if self.stored {
            // SeqCst: see `fence`.
            fence(Ordering::SeqCst);
            self.stored = false;
        }
        match &mut self.sync {
            Syncs::Host(_) => Ok(()),
            Syncs::Hosts(far) if far.touched.is_empty() => Ok(()),
            Syncs::Hosts(far) => far.fence_all(),
        }
    }

    /// Like [`fence_all`](Self::fence_all), with the schedule of ARMCI: see
    /// [`unstable::fence_all_asking`](crate::unstable::fence_all_asking).
    pub(crate) fn fence_all_asking(&mut self, window: Window) -> Result<(), RmaError> {
        self.check_not_forked()?;
        let random = self.rank as u64;
        // SeqCst: see `fence`.
        fence(Ordering::SeqCst);
        self.stored = false;
        match &mut self.sync {
            Syncs::Host(_) => Ok(()),
            Syncs::Hosts(far) => far.ask_all(window, random),
        }
    }

    /// Waits until all members have called it, and everything that any of them has written before
    /// its call is complete.
    ///
    /// A member that returns sees all of these writes in all parts. The call combines a fence by
    /// all members and a barrier in one exchange of messages between hosts.
    ///
    /// # Collective
    /// All members call it, each the same number of times.
    ///
    /// # Memory ordering
    /// Everything that a member did before its call happens before everything that any member does
    /// after its own call returns.
    ///
    /// # Errors
    /// [`RmaError::Fault`] if the sync cannot complete because of a member; [`RmaError::Refused`]
    /// as for [`fence`](Self::fence); [`RmaError::Unfinished`] if an allocation has timed out.
    #[inline]
    pub fn sync(&mut self) -> Result<(), RmaError> {
        self.sync_deadline(None)
    }

    /// Like [`sync`](Self::sync), with a deadline.
    ///
    /// When the deadline passes, this member has arrived at the sync and stays arrived. The next
    /// call of this function, [`sync`](Self::sync) or [`sync_wait`](Self::sync_wait) resumes the
    /// same sync; writes in between belong to the following sync.
    ///
    /// A member whose sync has timed out must call one of these again, or stay in its function,
    /// until the other members have passed. If it returns earlier, or drops this value, the others
    /// may get [`Fault::Left`] if all members are on one host: there a sync is a barrier, which may
    /// have several rounds. Between hosts the others need no more than its arrival.
    ///
    /// # Collective
    /// As [`sync`](Self::sync). Each member has a deadline of its own, or none.
    ///
    /// # Memory ordering
    /// As [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; as [`sync`](Self::sync).
    #[inline]
    pub fn sync_deadline(&mut self, deadline: Option<Instant>) -> Result<(), RmaError> {
        self.nothing_begun()?;
        match &mut self.sync {
            Syncs::Host(barrier) => {
                use syncline_sync::BarrierMember as _;
                self.stored = false;
                let _waits = span(Activity::AwaitSync, barrier.traced().id(), barrier.episodes());
                Ok(barrier.wait_untraced(deadline)?)
            }
            Syncs::Hosts(_) => {
                self.sync_start()?;
                self.sync_wait(deadline)
            }
        }
    }

    /// Arrives at a sync without waiting. Writes that follow belong to the next sync.
    ///
    /// # Collective
    /// As [`sync`](Self::sync). Before its next sync, each member calls
    /// [`sync_wait`](Self::sync_wait), or calls [`sync_done`](Self::sync_done) until it returns
    /// `true`. Until then, another `sync_start` does nothing, and `sync` waits for the sync that
    /// was started.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_start(&mut self) -> Result<(), RmaError> {
        use syncline_sync::BarrierMember as _;
        self.check_not_forked()?;
        self.nothing_begun()?;
        match &mut self.sync {
            Syncs::Host(barrier) => Ok(barrier.arrive()?),
            Syncs::Hosts(far) => {
                far.start();
                Ok(())
            }
        }
    }

    /// Returns whether the sync at which this member has arrived is complete. Does not block.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_done(&mut self) -> Result<bool, RmaError> {
        use syncline_sync::BarrierMember as _;
        self.check_not_forked()?;
        match &mut self.sync {
            Syncs::Host(barrier) => Ok(barrier.done()?),
            Syncs::Hosts(far) => match far.wait(Some(Instant::now())) {
                Err(RmaError::Fault(Fault::TimedOut)) => Ok(false),
                done => done.map(|()| true),
            },
        }
    }

    /// Waits until the sync at which this member has arrived is complete, or until the deadline.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] if the deadline passes first: the function may be called again; as
    /// [`sync`](Self::sync).
    pub fn sync_wait(&mut self, deadline: Option<Instant>) -> Result<(), RmaError> {
        use syncline_sync::BarrierMember as _;
        self.check_not_forked()?;
        match &mut self.sync {
            // A completed sync must not be waited for again: `wait_untraced` would arrive at the
            // next one.
            Syncs::Host(barrier) => match barrier.done() {
                Ok(true) => Ok(()),
                _ => {
                    let _waits =
                        span(Activity::AwaitSync, barrier.traced().id(), barrier.episodes());
                    Ok(barrier.wait_untraced(deadline)?)
                }
            },
            Syncs::Hosts(far) => {
                use syncline_sync::board::SignalBoard as _;
                let board = &far.board;
                let _waits = span(Activity::AwaitSync, board.traced().id(), board.episodes());
                far.wait(deadline)
            }
        }
    }

    /// Like [`sync`](Self::sync), and also waits until the writes of all members are in the memory
    /// of all hosts.
    ///
    /// A `sync` orders the writes of all members only for the members themselves. This function is
    /// for memory that is read from outside the team, by devices or other programs.
    ///
    /// It takes a second exchange, unless all writes of all members were acknowledged when the
    /// members called it.
    ///
    /// # Collective
    /// As [`sync`](Self::sync).
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_global(&mut self) -> Result<(), RmaError> {
        self.sync()?;
        match &self.sync {
            Syncs::Hosts(far) if far.engine.words.known().get() < far.begun => self.sync(),
            _ => Ok(()),
        }
    }
}

/// The schedule of [`fence_all_asking`](crate::unstable::fence_all_asking).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number of hosts that are asked at once. The next ones are asked when all of these have
    /// answered.
    pub k: usize,
    /// Whether each member asks the hosts in a random order of its own, so that not all members ask
    /// the same host first.
    pub random: bool,
}
