//! The queue of one location: strict FIFO order of exclusive and inclusive requests.
//!
//! # Contract
//! A request is granted when every request ahead of it has been released, except that adjacent
//! inclusive requests are granted together. No request overtakes another: a reader does not join a
//! group of readers that holds the location while a writer waits ahead of it (R1).
//! [`Section::next`] queues the holder's next request and then releases the current one, in a
//! single step (R2). An abandoned request leaves the queue as if it had never been posted (R5). (R1
//! to R5 are the ordering rules; the documentation of the crate lists them.) No call blocks: a
//! callback reports each grant.
//!
//! # State
//! Requests that hold the location are counted, not linked, so a holder's node is free to queue its
//! next request: a handle needs one node for its whole life.
//!
//! ```text
//! holders   0: free       X: one writer     1..: that number of readers
//! head ──> node ──> node ──> node <── tail      waiting, in the order of their posts
//!
//! node      Idle ──post──> Waiting ──grant──> Held ──release──> Idle
//!             \______________post (free, or joins)___^  \__next__> Waiting or Held again
//! ```
//!
//! | invariant                | reason                                                           |
//! |--------------------------|------------------------------------------------------------------|
//! | free: no request waits   | a release grants the front; a post to a free location is granted |
//! | readers hold, one waits  | then the front is a writer: readers before it were granted       |
//! | all fields under `lock`  | they are atomics only so that sharing them needs no `unsafe`     |
//!
//! # Memory ordering
//! All accesses to the fields are relaxed: the lock orders them, as entering a section synchronizes
//! with the end of the section before it. The hand-over of the location's data is ordered by the
//! same lock up to the granter, and from there by the callback: it must publish the grant with
//! release semantics, and the waiter must read it with acquire semantics. [`Node::grants`] does
//! both.
//!
//! # Costs
//! Post, release and next take one section each (a compare-and-swap and a store), touch up to three
//! nodes, and take constant time per grant. Abandon is linear in the number of waiting requests. No
//! operation allocates.
//!
//! # Source
//! The model is that of Clauss and Gustedt, "Iterative computations with ordered read-write locks",
//! JPDC 2010. Two things differ: a handle has one node instead of two alternating handles, since
//! holders are not linked; and `next` posts and releases in one section.

use syncline_signal::primitive::{AtomicU32, Ordering::Relaxed};
use syncline_signal::{
    Signal, plant,
    spinlock::{SpinGuard, SpinLock},
};

/// The absent node index.
const NONE: u32 = u32::MAX;
/// The value of `RawLocation::holders` while one writer holds the location.
const EXCLUSIVE: u32 = u32::MAX;

/// The access that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// Read access, shared with adjacent readers.
    Inclusive,
    /// Write access, alone.
    Exclusive,
}

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const HELD: u32 = 2;
/// The flag in `Node::state` that marks an exclusive request.
const WRITER: u32 = 4;

/// The queue of one location. It is `#[repr(C)]` and links nodes by index, without pointers, so it
/// may lie in shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct RawLocation {
    /// Guards all fields except `poison`, and all fields of the location's nodes except `grants`.
    lock: SpinLock,
    /// The first waiting node, or `NONE`.
    head: AtomicU32,
    /// The last waiting node; meaningless while `head` is `NONE`.
    tail: AtomicU32,
    /// 0, the number of readers that hold the location, or `EXCLUSIVE`.
    holders: AtomicU32,
    /// 0, or 1 + the number of the task or thread that poisoned the location.
    poison: AtomicU32,
}

/// The request of one handle. It is `#[repr(C)]` and has no pointers.
#[repr(C)]
#[derive(Debug)]
pub struct Node {
    /// The next waiting node, or `NONE`.
    next: AtomicU32,
    /// `IDLE`, `WAITING` or `HELD`, with the flag `WRITER`.
    state: AtomicU32,
    /// The waiter that a grant is reported to: a number that only the callback interprets.
    waiter: AtomicU32,
    /// 1 while a waker is registered beside the node, else 0. The granter takes and wakes it.
    waker: AtomicU32,
    /// The number of grants so far, for waiters that sleep on the node itself.
    grants: Signal,
}

impl Node {
    /// Creates an idle node that belongs to `waiter`.
    #[must_use]
    pub fn new(waiter: u32) -> Self {
        Node {
            next: AtomicU32::new(NONE),
            state: AtomicU32::new(IDLE),
            waiter: AtomicU32::new(waiter),
            waker: AtomicU32::new(0),
            grants: Signal::new(0),
        }
    }

    /// Returns the waiter that a grant is reported to.
    #[inline]
    #[must_use]
    pub fn waiter(&self) -> u32 {
        self.waiter.load(Relaxed)
    }

    /// Changes the waiter that a grant is reported to. Call this only while the node is idle.
    pub fn set_waiter(&self, waiter: u32) {
        self.waiter.store(waiter, Relaxed);
    }

    /// Returns the number of grants so far. Callbacks that wake their waiters in another way need
    /// not count here.
    #[inline]
    #[must_use]
    pub fn grants(&self) -> &Signal {
        &self.grants
    }

    /// Returns whether the node holds the location. Exact inside the section only.
    pub(crate) fn is_held(&self) -> bool {
        self.is(HELD)
    }

    /// Returns whether a waker is registered beside the node. Exact inside a section, and for the
    /// owner of an idle node.
    #[inline]
    pub(crate) fn has_waker(&self) -> bool {
        self.waker.load(Relaxed) != 0
    }

    pub(crate) fn set_has_waker(&self, yes: bool) {
        self.waker.store(u32::from(yes), Relaxed);
    }

    /// Returns whether the node has no request. Exact inside the section only.
    pub(crate) fn is_idle(&self) -> bool {
        self.is(IDLE)
    }

    fn is_writer(&self) -> bool {
        self.state.load(Relaxed) & WRITER != 0
    }

    fn is(&self, state: u32) -> bool {
        self.state.load(Relaxed) & !WRITER == state
    }

    fn set(&self, state: u32) {
        self.state.store(self.state.load(Relaxed) & WRITER | state, Relaxed);
    }
}

/// A collection that resolves node indices to the nodes of a location.
pub trait Nodes {
    /// Returns the node with this index.
    fn node(&self, index: u32) -> &Node;
}

impl Nodes for [Node] {
    #[inline]
    fn node(&self, index: u32) -> &Node {
        &self[index as usize]
    }
}

impl<const N: usize> Nodes for [Node; N] {
    #[inline]
    fn node(&self, index: u32) -> &Node {
        &self[index as usize]
    }
}

/// The locked queue of a location: everything that the caller does inside appears as a single step
/// to other threads.
///
/// Every method takes the location's nodes and a callback that receives the index of each node that
/// is granted. The callback runs inside the section: it must not lock a location, must not wait,
/// and must not call code that might, such as a waker.
#[derive(Debug)]
pub struct Section<'a> {
    raw: &'a RawLocation,
    _lock: SpinGuard<'a>,
}

impl RawLocation {
    /// Creates a free location.
    #[must_use]
    pub fn new() -> Self {
        RawLocation {
            lock: SpinLock::new(),
            head: AtomicU32::new(NONE),
            tail: AtomicU32::new(NONE),
            holders: AtomicU32::new(0),
            poison: AtomicU32::new(0),
        }
    }

    /// Locks the queue. A section lasts a few instructions; other threads spin meanwhile.
    #[inline]
    #[must_use]
    pub fn section(&self) -> Section<'_> {
        Section { raw: self, _lock: self.lock.lock() }
    }

    /// Locks the queue until the section that [`entered`](RawLocation::entered) returns is dropped.
    /// It serves callers that must be in several sections at once; all such callers lock in the
    /// order of addresses, so they cannot deadlock.
    #[inline]
    pub(crate) fn enter(&self) {
        std::mem::forget(self.lock.lock());
    }

    /// Returns the section that [`enter`](RawLocation::enter) locked.
    #[inline]
    pub(crate) fn entered(&self) -> Section<'_> {
        Section { raw: self, _lock: self.lock.locked() }
    }

    /// Marks the location as left in an unknown state by `task`, a number that only the callers
    /// interpret. The first mark stays.
    pub fn poison(&self, task: u32) {
        let _section = self.section();
        if self.poison.load(Relaxed) == 0 {
            self.poison.store(task.saturating_add(1), Relaxed);
        }
    }

    /// Removes the mark that [`poison`](RawLocation::poison) set.
    pub fn clear_poison(&self) {
        let _section = self.section();
        self.poison.store(0, Relaxed);
    }

    /// Returns the number passed to [`poison`](RawLocation::poison), if the location is poisoned.
    ///
    /// Exact for a caller that holds a grant: the mark is set before the release that led to the
    /// grant.
    #[inline]
    #[must_use]
    pub fn poisoned(&self) -> Option<u32> {
        self.poison.load(Relaxed).checked_sub(1)
    }
}

impl Default for RawLocation {
    fn default() -> Self {
        Self::new()
    }
}

impl Section<'_> {
    /// Queues a request for the idle node `n`, or grants it at once if nothing excludes it.
    #[inline]
    pub fn post<N: Nodes + ?Sized>(
        &mut self,
        nodes: &N,
        n: u32,
        kind: AccessMode,
        granted: &mut impl FnMut(u32),
    ) {
        let node = nodes.node(n);
        debug_assert!(node.is(IDLE), "one pending request per handle");
        let writer = kind == AccessMode::Exclusive;
        node.state.store(if writer { WRITER } else { 0 }, Relaxed);
        let holders = self.raw.holders.load(Relaxed);
        let overtakes = plant::is("queue: reader overtakes") && !writer;
        let none_waits = self.raw.head.load(Relaxed) == NONE || overtakes;
        if none_waits && (holders == 0 || !writer && holders != EXCLUSIVE) {
            self.raw.holders.store(if writer { EXCLUSIVE } else { holders + 1 }, Relaxed);
            node.set(HELD);
            granted(n);
        } else {
            self.append(nodes, n);
        }
    }

    /// Releases the location that node `n` holds, and grants the requests at the front if it
    /// becomes free.
    #[inline]
    pub fn release<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32, granted: &mut impl FnMut(u32)) {
        let node = nodes.node(n);
        debug_assert!(node.is(HELD), "only a holder releases");
        node.set(IDLE);
        self.one_holder_less(nodes, node.is_writer(), granted);
    }

    /// Queues the next request of node `n`, of the same kind, and then releases the location that
    /// it holds.
    #[inline]
    pub fn next<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32, granted: &mut impl FnMut(u32)) {
        let node = nodes.node(n);
        debug_assert!(node.is(HELD), "only a holder goes on to its next request");
        let writer = node.is_writer();
        if !writer && self.raw.head.load(Relaxed) == NONE {
            // The next request joins the group of readers that this one leaves.
            granted(n);
            return;
        }
        self.append(nodes, n);
        self.one_holder_less(nodes, writer, granted);
    }

    /// Withdraws the request of node `n`: removes it from the queue if it waits, releases it if it
    /// holds.
    pub fn abandon<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32, granted: &mut impl FnMut(u32)) {
        let node = nodes.node(n);
        if node.is(HELD) {
            self.release(nodes, n, granted);
        } else if node.is(WAITING) {
            self.unlink(nodes, n);
            node.set(IDLE);
            // Readers behind an abandoned writer join the readers that hold the location.
            let holders = self.raw.holders.load(Relaxed);
            if holders != EXCLUSIVE && !plant::is("queue: abandoned writer blocks") {
                self.grant_readers(nodes, holders, granted);
            }
        }
    }

    /// Returns the number of requests that hold the location, and their kind.
    pub(crate) fn holders(&self) -> (u32, AccessMode) {
        match self.raw.holders.load(Relaxed) {
            EXCLUSIVE => (1, AccessMode::Exclusive),
            readers => (readers, AccessMode::Inclusive),
        }
    }

    /// Calls `show` for each waiting request, from the front of the queue.
    pub(crate) fn waiting<'n, N: Nodes + ?Sized>(
        &self,
        nodes: &'n N,
        mut show: impl FnMut(&'n Node, AccessMode),
    ) {
        let mut at = self.raw.head.load(Relaxed);
        while at != NONE {
            let node = nodes.node(at);
            show(
                node,
                if node.is_writer() { AccessMode::Exclusive } else { AccessMode::Inclusive },
            );
            at = node.next.load(Relaxed);
        }
    }

    /// Replaces node `n`, which holds the location, by `requests` of idle nodes. They enter the
    /// queue ahead of the requests that waited behind `n`, in the order of the iterator. If `n`
    /// reads, they enter behind the other readers that hold the location, or beside them.
    pub(crate) fn replace<N: Nodes + ?Sized>(
        &mut self,
        nodes: &N,
        n: u32,
        requests: impl Iterator<Item = (u32, AccessMode)>,
        granted: &mut impl FnMut(u32),
    ) {
        debug_assert!(nodes.node(n).is(HELD), "only a holder is replaced");
        let left = if nodes.node(n).is_writer() { 0 } else { self.raw.holders.load(Relaxed) - 1 };
        nodes.node(n).set(IDLE);
        let mut at = self.raw.head.load(Relaxed);
        self.raw.head.store(NONE, Relaxed);
        self.raw.holders.store(left, Relaxed);
        requests.for_each(|(node, kind)| self.post(nodes, node, kind, granted));
        while at != NONE {
            let node = nodes.node(at);
            let next = node.next.load(Relaxed);
            let kind = if node.is_writer() { AccessMode::Exclusive } else { AccessMode::Inclusive };
            node.set(IDLE);
            self.post(nodes, at, kind, granted);
            at = next;
        }
    }

    fn append<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32) {
        let node = nodes.node(n);
        node.set(WAITING);
        node.next.store(NONE, Relaxed);
        if self.raw.head.load(Relaxed) == NONE {
            self.raw.head.store(n, Relaxed);
        } else {
            nodes.node(self.raw.tail.load(Relaxed)).next.store(n, Relaxed);
        }
        self.raw.tail.store(n, Relaxed);
    }

    fn unlink<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32) {
        let after = nodes.node(n).next.load(Relaxed);
        let mut before = NONE;
        let mut at = self.raw.head.load(Relaxed);
        while at != n {
            before = at;
            at = nodes.node(at).next.load(Relaxed);
        }
        if before == NONE {
            self.raw.head.store(after, Relaxed);
        } else {
            nodes.node(before).next.store(after, Relaxed);
        }
        if after == NONE {
            self.raw.tail.store(before, Relaxed);
        }
    }

    #[inline]
    fn one_holder_less<N: Nodes + ?Sized>(
        &mut self,
        nodes: &N,
        writer: bool,
        granted: &mut impl FnMut(u32),
    ) {
        let left = if writer { 0 } else { self.raw.holders.load(Relaxed) - 1 };
        self.raw.holders.store(left, Relaxed);
        if left == 0 {
            self.grant_front(nodes, granted);
        }
    }

    /// Grants the first request of a free location; if it is a reader, all adjacent readers too.
    #[inline]
    fn grant_front<N: Nodes + ?Sized>(&mut self, nodes: &N, granted: &mut impl FnMut(u32)) {
        let head = self.raw.head.load(Relaxed);
        if head == NONE {
            return;
        }
        let node = nodes.node(head);
        if node.is_writer() {
            self.raw.head.store(node.next.load(Relaxed), Relaxed);
            self.raw.holders.store(EXCLUSIVE, Relaxed);
            node.set(HELD);
            granted(head);
        } else {
            self.grant_readers(nodes, 0, granted);
        }
    }

    /// Grants all readers at the front, beside the `holders` readers that already hold the
    /// location.
    fn grant_readers<N: Nodes + ?Sized>(
        &mut self,
        nodes: &N,
        mut holders: u32,
        granted: &mut impl FnMut(u32),
    ) {
        let mut at = self.raw.head.load(Relaxed);
        while at != NONE && !nodes.node(at).is_writer() {
            let node = nodes.node(at);
            holders += 1;
            node.set(HELD);
            let next = node.next.load(Relaxed);
            granted(at);
            at = next;
        }
        self.raw.head.store(at, Relaxed);
        self.raw.holders.store(holders, Relaxed);
    }
}
