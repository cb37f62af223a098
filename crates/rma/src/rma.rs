//! One member's way to global memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use syncline_fabric::{Hosts, Member};
use syncline_process::Generation;
use syncline_sync::{Auto, Fault, SpaceError, agreement::Thing, barrier::AutoMember, calls::Call};

use crate::allocate::Begun;
use crate::element::Element;
use crate::engine::{Engine, HostWords};
use crate::error::RmaError;
use crate::far::Far;
use crate::memory::{Global, HostMemory, Lines, MemberPart, Table, room};
use crate::sync_exchange;

/// A member's part in the global memory of a team: allocations, operations, and what completes them.
///
/// Made by all members together, with [`Rma::new`]. Operations are in the [module's](crate) table.
#[derive(Debug)]
pub struct Rma {
    /// Which of all in this process.
    number: u64,
    /// That of the process whose member's it is.
    born: Generation,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    threads: usize,
    hosts: Hosts,
    /// The members on this host.
    pub(crate) here: Vec<usize>,
    pub(crate) arena: HostMemory,
    allocations: u32,
    /// An allocation whose deadline has passed.
    pub(crate) begun: Option<Box<Begun>>,
    pub(crate) sync: Syncs,
    /// Something has been written to this host's memory since the last fence.
    pub(crate) stored: bool,
}

/// What a member says that it calls, in the upper byte of a word; the rest says with what.
pub(crate) mod call {
    pub(crate) const ALLOCATE: u64 = 1 << 56;
    pub(crate) const FREE: u64 = 2 << 56;
    pub(crate) const MUTEXES: u64 = 3 << 56;
    pub(crate) const FREE_MUTEXES: u64 = 4 << 56;
    /// Of a set of mutexes that is to be freed: the member holds one.
    pub(crate) const HELD: u64 = 1 << 55;
}

/// Allocations of at least this many bytes ask the host what memory it has left.
const LOOK: usize = 1 << 20;

/// As a word that members gather: 0, or one more than the bytes that are left, if that is why
/// something could not be had.
pub(crate) fn left_after(error: Option<&SpaceError>) -> u64 {
    match error {
        None => 0,
        // Of what is reserved more may be left than the host has.
        Some(SpaceError::Full { left, .. } | SpaceError::Memory { left, .. }) => {
            syncline_memory::room::left().unwrap_or(u64::MAX).min(*left as u64) + 1
        }
        Some(_) => 1,
    }
}

/// What the next one in this process is called.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// How members wait for one another.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "on one host there is no pointer to follow")]
pub(crate) enum Syncs {
    Host(AutoMember),
    Hosts(Box<Far>),
}

impl Rma {
    /// Global memory for all members of a team.
    ///
    /// # Collective
    /// All members make it, as by [`Member::make`].
    ///
    /// # Errors
    /// [`RmaError::Space`] if the team's memory has no room.
    pub fn new(me: &mut Member) -> Result<Rma, RmaError> {
        let radix = sync_exchange::best_radix(me.hosts().count());
        Rma::with_radix(me, radix)
    }

    /// As [`new`](Self::new), of any radix: see [`unstable::with_radix`](crate::unstable::with_radix).
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
        // Relaxed: a number that nobody else has.
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

    /// This member's rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The table of a new allocation, of these bytes by rank, of which those of this host stand in
    /// `lines`.
    pub(crate) fn table(&mut self, bytes: &[usize], lines: Lines) -> Arc<Table> {
        self.allocations += 1;
        Arc::new(Table::new(self.number, self.allocations, bytes, &self.here, lines))
    }

    /// Gives an allocation back. What has been done to it before is done; gets that are under way are waited for first, or may
    /// be [refused](RmaError::Refused).
    ///
    /// # Collective
    /// As [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`RmaError::Shape`] if it has been freed already, by another view of it.
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

    /// Gives an allocation back, when all members are known to do so.
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
        // SAFETY: all members have called this, and what they did to the memory is done; to have it
        // again, they allocate together, which this member does later.
        unsafe { lines.give_back(at, parts[self.rank].bytes) };
        self.arena.give(memory.table.lines.clone());
        Ok(())
    }

    /// What this member says of the room on its host: see [`left_after`].
    pub(crate) fn verdict(&self, lines: &Result<Lines, SpaceError>, needed: usize) -> u64 {
        let first = self.here.first() == Some(&self.rank);
        // What is small is not worth a look; what is not may get a process killed if the host has
        // not got it.
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

    /// The member that asked for the most, if a member has said that its host has no room: the same
    /// for all members.
    pub(crate) fn no_room(&self, asked: &[usize], said: &[u64]) -> Option<RmaError> {
        let host = self.host_of(said.iter().position(|&said| said != 0)?);
        let of = |&rank: &usize| self.host_of(rank) == host;
        let left =
            (0..self.size).filter(of).map(|rank| said[rank]).filter(|&said| said != 0).max()? - 1;
        let together = (0..self.size)
            .filter(of)
            .fold(0_u64, |sum, rank| sum.saturating_add(asked[rank] as u64));
        // The first of those that asked for the most.
        let rank = (0..self.size).filter(of).rev().max_by_key(|&rank| asked[rank])?;
        Some(RmaError::Room { rank, asked: asked[rank] as u64, together, host, left })
    }

    /// All members call the same function: `what` says which.
    pub(crate) fn all_call(&self, me: &mut Member, what: u64) -> Result<(), RmaError> {
        self.all_call_marked(me, what, 0).map(|_| ())
    }

    /// The same, and what each has said; in the bits of `mark` they may differ.
    pub(crate) fn all_call_marked(
        &self,
        me: &mut Member,
        what: u64,
        mark: u64,
    ) -> Result<Vec<u64>, RmaError> {
        self.all_call_deadline(me, what, mark, None)
    }

    /// The same, until a time.
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

    /// No allocation has timed out that is to be gone on with.
    #[inline]
    fn nothing_begun(&self) -> Result<(), RmaError> {
        if self.begun.is_some() { Err(RmaError::Unfinished) } else { Ok(()) }
    }

    /// The host of a member.
    pub(crate) fn host_of(&self, rank: usize) -> usize {
        self.hosts.of(self.process_of(rank))
    }

    /// The number of the server that does what is asked of a member.
    pub(crate) fn server_of(&self, rank: usize) -> usize {
        self.hosts.server_of(self.process_of(rank))
    }

    /// The process of a member.
    pub(crate) fn process_of(&self, rank: usize) -> usize {
        rank / self.threads
    }

    /// Whether this process is the one whose member's it is, and not a child that `fork` has made
    /// of it: that is no member.
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

    /// Waits until everything that this member has written to other hosts is done.
    pub(crate) fn complete_far(&mut self) -> Result<(), RmaError> {
        match &mut self.sync {
            Syncs::Hosts(far) if !far.touched.is_empty() => far.fence_all(),
            _ => Ok(()),
        }
    }

    /// The part of a member, and the bytes of these elements in it.
    #[inline]
    pub(crate) fn part<T>(
        &self,
        memory: &Global<T>,
        rank: usize,
        from: usize,
        len: usize,
    ) -> Result<(MemberPart, usize), RmaError> {
        // What is right needs no error in the way: a result of that size goes by memory.
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
        // One comparison for both: whose memory it is, and that this is not a child made by fork.
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

    /// How operations on other hosts' memory are done.
    pub(crate) fn far(&mut self) -> &mut Far {
        match &mut self.sync {
            Syncs::Hosts(far) => far,
            Syncs::Host(_) => unreachable!("all memory of a team on one host is here"),
        }
    }

    /// Waits until everything that this member has written to the memory of `rank` is there for all to see.
    ///
    /// # One-sided
    /// The member itself calls it, and nobody else has to do anything.
    ///
    /// # Memory ordering
    /// Puts and accumulates before it are seen, by whatever member, before what this member writes after it.
    ///
    /// # Errors
    /// [`RmaError::Rank`]; [`RmaError::Fault`] if somebody is dead; [`RmaError::Refused`] if the other host could not do
    /// something.
    #[inline]
    pub fn fence(&mut self, rank: usize) -> Result<(), RmaError> {
        self.check_not_forked()?;
        if rank >= self.size {
            return Err(RmaError::Rank { rank, size: self.size });
        }
        if self.stored {
            // SeqCst: stores are seen before any load that follows, as those are who look at a flag after it.
            fence(Ordering::SeqCst);
            self.stored = false;
        }
        let server = self.server_of(rank);
        match &mut self.sync {
            Syncs::Host(_) => Ok(()),
            Syncs::Hosts(far) => far.fence(server),
        }
    }

    /// Waits until everything that this member has written, to whatever member, is there for all to see.
    ///
    /// It asks all hosts at once that have not acknowledged everything. With nothing under way it is a look.
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

    /// As [`fence_all`](Self::fence_all), as ARMCI does it: see
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

    /// Waits until all members have come here, and everything that any of them has written before is done.
    ///
    /// Whoever comes out sees all of that, wherever it looks: a fence of all and a barrier, in one exchange between hosts.
    ///
    /// # Collective
    /// All members call it, each as often as the others.
    ///
    /// # Memory ordering
    /// What any member did before its call happened before what any does after.
    ///
    /// # Errors
    /// [`RmaError::Fault`]: a member without which it never ends; [`RmaError::Refused`]: as
    /// [`fence`](Self::fence); [`RmaError::Unfinished`] if an allocation has timed out.
    #[inline]
    pub fn sync(&mut self) -> Result<(), RmaError> {
        self.sync_deadline(None)
    }

    /// As [`sync`](Self::sync), and waits until a time. When the deadline passes, this member has
    /// arrived and stays so: the same call, `sync` or [`sync_wait`](Self::sync_wait) goes on, and
    /// what is written meanwhile belongs to the next sync.
    ///
    /// A member whose sync has timed out calls one of them again, or stays in its function, until
    /// the others have passed. If it returns before, or drops this, they may be told that it has
    /// left ([`Fault::Left`]) where all are on one host: a sync is a barrier there, which may have
    /// several rounds. Between hosts its arrival is all that they need.
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
                Ok(barrier.wait_deadline(deadline)?)
            }
            Syncs::Hosts(_) => {
                self.sync_start()?;
                self.sync_wait(deadline)
            }
        }
    }

    /// Arrives at a sync, and does not wait: what is written from now on is not of it, but of the next.
    ///
    /// # Collective
    /// As [`sync`](Self::sync). It is followed by [`sync_wait`](Self::sync_wait), or by [`sync_done`](Self::sync_done)
    /// until that says so, before the next one; until then it does nothing, and `sync` waits for the one that was started.
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

    /// Whether the sync at which this member has arrived is complete. Does not block.
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

    /// Waits until the sync at which this member has arrived is complete, or until a time.
    ///
    /// # Errors
    /// [`Fault::TimedOut`]: it may be called again; as [`sync`](Self::sync).
    pub fn sync_wait(&mut self, deadline: Option<Instant>) -> Result<(), RmaError> {
        use syncline_sync::BarrierMember as _;
        self.check_not_forked()?;
        match &mut self.sync {
            // It has arrived, or a wait would arrive first.
            Syncs::Host(barrier) => match barrier.done() {
                Ok(true) => Ok(()),
                _ => Ok(barrier.wait_deadline(deadline)?),
            },
            Syncs::Hosts(far) => far.wait(deadline),
        }
    }

    /// As [`sync`](Self::sync), also for those who look past it: when it returns, everything that was written before is in
    /// the memory of all hosts, and not only before the eyes of members. For memory that others read: devices, programs
    /// outside of the team.
    ///
    /// It takes a second exchange, unless all had everything acknowledged when they called.
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

/// How [`fence_all_asking`](crate::unstable::fence_all_asking) asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many hosts are asked before the first has to answer.
    pub k: usize,
    /// In an order of each member's own, so that not all ask the same host first.
    pub random: bool,
}
