//! One member's way to global memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use syncline_fabric::{Endpoint, Hosts, Member, TeamBoard};
use syncline_sync::{Auto, AutoMember, Deaths, Fault};

use crate::element::Element;
use crate::engine::{Engine, HostWords, MOST, Place, Request};
use crate::error::RmaError;
use crate::exchange;
use crate::handle::State;
use crate::memory::{Arena, Global, Part, Table, room};
use crate::message::{Kind, push};
use crate::shape::Piece;

/// A member's part in the global memory of a team: allocations, operations, and what completes them.
///
/// Made by all members together, with [`Rma::new`]. Operations are in the [module's](crate) table.
#[derive(Debug)]
pub struct Rma {
    /// Which of all in this process.
    number: u64,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    threads: usize,
    hosts: Hosts,
    /// The members on this host.
    pub(crate) here: Vec<usize>,
    deaths: Deaths,
    arena: Arena,
    allocations: u32,
    pub(crate) sync: Syncs,
    /// Something has been written to this host's memory since the last fence.
    pub(crate) stored: bool,
}

/// What the next one in this process is called.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// How members wait for one another.
#[derive(Debug)]
pub(crate) enum Syncs {
    Host(AutoMember),
    Hosts(Box<Far>),
}

/// What a member of a team on several hosts has.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) service: u32,
    pub(crate) engine: Arc<Engine>,
    /// Its flags are not used: it tells who has left.
    pub(crate) board: TeamBoard,
    /// How many syncs this member has begun.
    pub(crate) begun: u64,
    /// By host: how many requests are to be acknowledged at the next fence.
    pub(crate) marks: Vec<u64>,
    /// The hosts whose mark is not 0.
    pub(crate) touched: Vec<usize>,
    /// Hosts and their marks when the last sync began: what that completes.
    covered: Vec<(usize, u64)>,
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
        let radix = exchange::best_radix(me.hosts().count());
        Rma::with_radix(me, radix)
    }

    /// The same, whose syncs go between hosts in rounds of that radix (at least 2): see [`exchange`]. For comparisons.
    ///
    /// # Collective
    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_radix(me: &mut Member, radix: usize) -> Result<Rma, RmaError> {
        let hosts = me.hosts().clone();
        let here = me.ranks_on(me.host());
        let sync = match me.endpoint().cloned() {
            None => {
                let cores = me.cores();
                Syncs::Host(me.make(|space, members| Auto::within(space, members, cores))?)
            }
            Some(endpoint) => {
                let board = me.board(0)?;
                let words = HostWords::within(me.space(), hosts.count())?;
                let make = || Engine::new(&endpoint, here.len(), words, radix);
                let attached = me.attach(make);
                let (service, engine) = attached.expect("a team with an endpoint");
                let marks = vec![0; hosts.count()];
                let (touched, covered) = (Vec::new(), Vec::new());
                let far = Far { endpoint, service, engine, board, begun: 0, marks, touched, covered };
                Syncs::Hosts(Box::new(far))
            }
        };
        let (rank, size, threads) = (me.rank(), me.size(), me.threads());
        let (arena, allocations) = (Arena::default(), 0);
        let deaths = me.deaths().clone();
        // Relaxed: a number that nobody else has.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Ok(Rma { number, rank, size, threads, hosts, here, deaths, arena, allocations, sync, stored: false })
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

    /// Allocates so many elements at this member, all bytes zero; other members allocate as many as they like.
    ///
    /// # Collective
    /// All members allocate and free the same in the same order. It waits for all.
    ///
    /// # Errors
    /// [`RmaError::Space`] if a host has no room: the same for all its members; [`RmaError::Mismatch`] if the others free,
    /// or allocate other elements.
    ///
    /// # Panics
    /// If `me` is another member than this one.
    pub fn allocate<T: Element>(&mut self, me: &mut Member, len: usize) -> Result<Global<T>, RmaError> {
        assert_eq!(me.rank(), self.rank, "memory is allocated by the member itself");
        self.all_call(me, size_of::<T>() as u64 + 1)?;
        let bytes = len.saturating_mul(size_of::<T>());
        let all = me.gather(bytes as u64)?;
        let all = all.into_iter().map(|bytes| bytes as usize).collect::<Vec<_>>();
        let needed = self.here.iter().try_fold(0_usize, |sum, &rank| {
            let part = all[rank].checked_next_multiple_of(4096).map(|_| room(all[rank]));
            part.and_then(|part| sum.checked_add(part))
        });
        let lines = self.arena.take(me.space(), needed.unwrap_or(usize::MAX / 2));
        // A host that has no room tells all: nobody has the allocation then.
        let rooms = me.gather(lines.is_ok().into())?;
        let lines = match (lines, rooms.iter().position(|&room| room == 0)) {
            (Ok(lines), None) => lines,
            (Ok(lines), Some(_)) => {
                self.arena.give(lines);
                let full = syncline_sync::SpaceError::Full { asked: needed.unwrap_or(usize::MAX), left: 0 };
                return Err(full.into());
            }
            (Err(error), _) => return Err(error.into()),
        };
        self.allocations += 1;
        let table = Arc::new(Table::new(self.number, self.allocations, &all, &self.here, lines));
        table.clear(self.rank);
        if let Syncs::Hosts(far) = &self.sync {
            far.engine.know(&table);
        }
        self.sync()?;
        Ok(Global::new(table))
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
        self.all_call(me, u64::from(memory.table.id) << 32)?;
        self.part(&memory, self.rank, 0, 0)?;
        check_freed(&memory.table)?;
        self.sync()?;
        memory.table.freed.store(true, Ordering::Relaxed);
        if let Syncs::Hosts(far) = &self.sync {
            far.engine.forget(memory.table.id);
        }
        self.arena.give(memory.table.lines.clone());
        Ok(())
    }

    /// All members call the same function: `what` says which.
    pub(crate) fn all_call(&self, me: &mut Member, what: u64) -> Result<(), RmaError> {
        let all = me.gather(what)?;
        match all.iter().position(|&other| other != what) {
            Some(other) => {
                let what = "allocate, free and make mutexes together, in the same order";
                Err(RmaError::Mismatch { rank: self.rank, other, what })
            }
            None => Ok(()),
        }
    }

    /// The host of a member.
    pub(crate) fn host_of(&self, rank: usize) -> usize {
        self.hosts.of(self.process_of(rank))
    }

    /// The process of a member.
    pub(crate) fn process_of(&self, rank: usize) -> usize {
        rank / self.threads
    }

    /// Whether all live, as far as is known.
    pub(crate) fn alive(&self) -> Result<(), Fault> {
        self.deaths.after(0).map_or(Ok(()), |rank| Err(Fault::Dead { rank }))
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
    ) -> Result<(Part, usize), RmaError> {
        let Some(&part) = memory.table.parts.get(rank).filter(|_| memory.table.of == self.number) else {
            return Err(self.no_part(memory, rank));
        };
        let size = size_of::<T>().max(1);
        let to = from.checked_add(len).filter(|&to| to <= part.bytes / size);
        match to {
            Some(_) => Ok((part, from * size)),
            None => {
                let to = from.saturating_add(len);
                Err(RmaError::Bounds { rank, from, to, len: part.bytes / size })
            }
        }
    }

    #[cold]
    fn no_part<T>(&self, memory: &Global<T>, rank: usize) -> RmaError {
        if memory.table.of == self.number {
            return RmaError::Rank { rank, size: self.size };
        }
        let why = "the memory was allocated by another member, or by another Rma".to_owned();
        RmaError::Shape { why }
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
        if rank >= self.size {
            return Err(RmaError::Rank { rank, size: self.size });
        }
        if self.stored {
            // SeqCst: stores are seen before any load that follows, as those are who look at a flag after it.
            fence(Ordering::SeqCst);
            self.stored = false;
        }
        let host = self.host_of(rank);
        match &mut self.sync {
            Syncs::Host(_) => Ok(()),
            Syncs::Hosts(far) => far.fence(host),
        }
    }

    /// Waits until everything that this member has written, to whatever member, is there for all to see.
    ///
    /// It asks nobody: acknowledgements come by themselves. With nothing under way it is a look.
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

    /// The same, as ARMCI does it: it asks `window` of the hosts that were written to, waits for their answers, asks
    /// the next. A window of 1 is one host after the other; more than there are is all at once.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn fence_all_asking(&mut self, window: Window) -> Result<(), RmaError> {
        let random = self.rank as u64;
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
    /// [`RmaError::Fault`]: a member without which it never ends; [`RmaError::Refused`]: as [`fence`](Self::fence).
    #[inline]
    pub fn sync(&mut self) -> Result<(), RmaError> {
        match &mut self.sync {
            Syncs::Host(barrier) => {
                use syncline_sync::BarrierMember as _;
                self.stored = false;
                Ok(barrier.wait()?)
            }
            Syncs::Hosts(_) => {
                self.sync_start()?;
                self.sync_wait(None)
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

/// How [`Rma::fence_all_asking`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many hosts are asked before the first has to answer.
    pub k: usize,
    /// In an order of each member's own, so that not all ask the same host first.
    pub random: bool,
}

pub(crate) fn check_freed(table: &Table) -> Result<(), RmaError> {
    if table.is_freed() {
        return Err(RmaError::Shape { why: "the allocation has been freed".to_owned() });
    }
    Ok(())
}

/// A run of bytes there, in a member's part, and here, in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) there: usize,
    pub(crate) here: usize,
    pub(crate) len: usize,
}

impl Run {
    /// Where it is in a buffer: at an address that was exposed, if the buffer is null.
    pub(crate) fn place(&self, buffer: *mut u8) -> *mut u8 {
        if buffer.is_null() {
            return std::ptr::with_exposed_provenance_mut(self.here);
        }
        buffer.wrapping_add(self.here)
    }

    /// Its bytes in a buffer.
    ///
    /// # Safety
    /// It is inside the buffer, which nobody writes for `'a`.
    pub(crate) unsafe fn bytes<'a>(&self, buffer: *const u8) -> &'a [u8] {
        // SAFETY: as the caller vouches. A buffer that is null has no empty runs, so each has an address.
        unsafe { std::slice::from_raw_parts(self.place(buffer.cast_mut()), self.len) }
    }
}

/// Runs, cut into what fits a message; each message's, as pieces and as runs.
pub(crate) fn batches(runs: &[Run]) -> Vec<(Vec<Piece>, Vec<Run>)> {
    let mut batches: Vec<(Vec<Piece>, Vec<Run>)> = Vec::new();
    let mut room = 0;
    for &Run { mut there, mut here, mut len } in runs {
        while len > 0 {
            if room == 0 {
                batches.push(Default::default());
                room = MOST;
            }
            let part = len.min(room);
            let (pieces, cut) = batches.last_mut().expect("there is one with room");
            let (offset, bytes) = (there as u64, part as u32);
            match pieces.last_mut().and_then(|last| last.and(offset, bytes).map(|more| (last, more))) {
                Some((last, more)) => *last = more,
                None => pieces.push(Piece { offset, len: bytes, count: 1, stride: 0 }),
            }
            cut.push(Run { there, here, len: part });
            // A piece takes room as well, so that lists of small runs do not make long messages.
            room -= part;
            if pieces.len() * 8 * Piece::WORDS >= MOST {
                room = 0;
            }
            (there, here, len) = (there + part, here + part, len - part);
        }
    }
    batches
}

impl Far {
    /// Sends a request about a part of global memory, after which a fence has to wait for it if it changes memory.
    pub(crate) fn request(
        &mut self,
        host: usize,
        request: Request<'_>,
        size: usize,
        data: impl Fn(&mut Vec<u8>),
    ) -> Result<(), Fault> {
        let parity = (self.begun % 2) as u8;
        let changes = request.kind.changes();
        let request = Request { parity, ..request };
        self.engine.request(&self.endpoint, self.service, request, host, size, data)?;
        if changes {
            self.mark(host);
        }
        Ok(())
    }

    fn mark(&mut self, host: usize) {
        if self.marks[host] == 0 {
            self.touched.push(host);
        }
        self.marks[host] = self.engine.sent(host);
    }

    /// Waits for all answers to a request.
    pub(crate) fn answer(&self, ticket: u64) -> Result<u128, RmaError> {
        let mut value = None;
        let waited = self.endpoint.wait(None, || {
            value = value.take().or_else(|| self.engine.answered(ticket));
            value.is_some() && self.engine.is_level()
        });
        if waited.is_err() {
            self.engine.give_up(ticket);
        }
        waited?;
        value.unwrap_or(Ok(0))
    }

    /// Looks whether an operation is done, and what its value is.
    pub(crate) fn look(&self, state: State) -> Result<Option<u128>, RmaError> {
        let mut value = None;
        let looked = self.endpoint.wait(Some(Instant::now()), || {
            value = value.take().or_else(|| match state {
                State::Done => Some(Ok(0)),
                State::Sent(host, mark) => {
                    let done = self.marks.len() <= host || self.engine.acked(host, mark);
                    done.then_some(Ok(0))
                }
                State::Asked(ticket) => self.engine.answered(ticket),
            });
            value.is_some()
        });
        match (looked, value) {
            (_, Some(value)) => {
                // Soon: see `Engine::is_level`.
                self.endpoint.wait(None, || self.engine.is_level())?;
                self.refusals()?;
                value.map(Some)
            }
            (Err(Fault::TimedOut) | Ok(()), None) => Ok(None),
            (Err(fault), None) => Err(fault.into()),
        }
    }

    /// What was refused since somebody asked last.
    pub(crate) fn refusals(&self) -> Result<(), RmaError> {
        self.engine.refused().map_or(Ok(()), Err)
    }

    fn fence(&mut self, host: usize) -> Result<(), RmaError> {
        let mark = self.marks[host];
        if mark == 0 {
            return Ok(());
        }
        self.endpoint.wait(None, || self.engine.acked(host, mark))?;
        self.marks[host] = 0;
        self.touched.retain(|&other| other != host);
        self.refusals()
    }

    fn fence_all(&mut self) -> Result<(), RmaError> {
        let (engine, marks) = (&self.engine, &self.marks);
        self.endpoint.wait(None, || self.touched.iter().all(|&host| engine.acked(host, marks[host])))?;
        for host in self.touched.drain(..) {
            self.marks[host] = 0;
        }
        self.refusals()
    }

    fn ask_all(&mut self, window: Window, rank: u64) -> Result<(), RmaError> {
        let mut hosts = std::mem::take(&mut self.touched);
        if window.random {
            // Each member begins somewhere else, and goes on in an order of its own.
            let mut state = (rank + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.begun;
            for last in (1..hosts.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                hosts.swap(last, (state >> 33) as usize % (last + 1));
            }
        }
        let asked = hosts.chunks(window.k.max(1)).try_for_each(|group| self.ask_each(group));
        match asked {
            Ok(()) => hosts.into_iter().for_each(|host| self.marks[host] = 0),
            // Nobody knows what has been done: the next fence waits for all of them.
            Err(_) => self.touched = hosts,
        }
        asked
    }

    fn ask_each(&mut self, hosts: &[usize]) -> Result<(), RmaError> {
        let ask = |&host: &usize| self.ask_about(Kind::Fence, host, 0, 0, [0; 2]);
        let asked = hosts.iter().map(ask).collect::<Vec<_>>();
        let mut failed = None;
        for ticket in asked {
            // All are taken back, whatever becomes of one.
            if let Err(error) = ticket.and_then(|ticket| self.answer(ticket)) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Asks a host something that has an answer without data.
    pub(crate) fn ask_about(
        &mut self,
        kind: Kind,
        host: usize,
        allocation: u32,
        rank: usize,
        words: [u64; 2],
    ) -> Result<u64, RmaError> {
        let ticket = self.engine.ask(VecDeque::from([Vec::new()]));
        let request = Request { allocation, rank, ticket, ..Request::new(kind) };
        let sent =
            self.request(host, request, 16, |message| words.into_iter().for_each(|word| push(message, word)));
        if let Err(fault) = sent {
            self.engine.give_up(ticket);
            return Err(fault.into());
        }
        Ok(ticket)
    }

    /// Tells a host something.
    pub(crate) fn tell_about(
        &mut self,
        kind: Kind,
        host: usize,
        allocation: u32,
        rank: usize,
        words: [u64; 2],
    ) -> Result<(), RmaError> {
        let request = Request { allocation, rank, ..Request::new(kind) };
        self.request(host, request, 16, |message| words.into_iter().for_each(|word| push(message, word)))?;
        Ok(())
    }

    fn start(&mut self) {
        use syncline_sync::SignalBoard as _;
        if self.board.episodes() < self.begun {
            return; // as barriers do it: it has arrived already
        }
        self.begun += 1;
        self.covered.clear();
        self.covered.extend(self.touched.iter().map(|&host| (host, self.marks[host])));
        let words = &self.engine.words;
        let members = self.engine.members();
        // A release: what this member did is seen by who begins the exchange.
        if words.arrived().add(1) == self.begun * members {
            self.endpoint.enter(self.service, |out| self.engine.arrived(out));
        }
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<(), RmaError> {
        use syncline_sync::SignalBoard as _;
        if self.board.episodes() == self.begun {
            return Ok(());
        }
        let (completed, begun) = (self.engine.words.completed(), self.begun);
        let waited =
            self.endpoint.wait(deadline, || completed.get() >= begun || self.board.missing().is_some());
        if completed.get() < begun {
            waited?;
            return Err(self.board.missing().unwrap_or(Fault::TimedOut).into());
        }
        self.board.complete();
        for (host, mark) in self.covered.drain(..) {
            // Unless something was sent there since the sync began.
            if self.marks[host] == mark {
                self.marks[host] = 0;
            }
        }
        self.touched.retain(|&host| self.marks[host] != 0);
        self.refusals()
    }
}

impl Request<'_> {
    pub(crate) fn new(kind: Kind) -> Self {
        Request { kind, detail: 0, parity: 0, allocation: 0, rank: 0, ticket: 0, pieces: &[], answer: 0 }
    }
}

/// Places in a buffer for the answers to a request each.
pub(crate) fn places(batches: &[(Vec<Piece>, Vec<Run>)], buffer: *mut u8) -> VecDeque<Vec<Place>> {
    let place = |run: &Run| Place { at: run.place(buffer), len: run.len };
    batches.iter().map(|(_, runs)| runs.iter().map(place).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_fabric::Team;

    /// Whoever arrives twice is there once: else the others would go on without somebody.
    fn arrives_twice(me: &mut Member) -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u64>(me, 1)?;
        let (rank, size) = (me.rank(), me.size());
        for round in 1..=50_u64 {
            rma.put(&memory, (rank + 1) % size, 0, &[round])?;
            if rank == 0 {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            rma.sync_start()?;
            rma.sync_start()?;
            if round % 2 == 0 {
                rma.sync()?;
            } else {
                rma.sync_wait(None)?;
            }
            let mut word = [0];
            rma.get(&memory, rank, 0, &mut word)?;
            assert_eq!(word, [round]);
            rma.sync()?;
        }
        Ok(())
    }

    #[test]
    fn a_sync_that_is_started_twice_is_one() {
        for result in Team::threads(3).quiet().run(arrives_twice).unwrap() {
            result.unwrap();
        }
        for result in Team::hosts(2).threads(2).quiet().run(arrives_twice).unwrap() {
            result.unwrap();
        }
    }
}
