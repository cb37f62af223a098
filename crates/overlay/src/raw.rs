//! The queue of one location: strict FIFO of exclusive and inclusive requests.
//!
//! # Contract
//! A request is granted when everything ahead of it has been released, except that neighbouring
//! inclusive requests share the grant. Nobody overtakes, readers do not join a granted group past a
//! waiting writer (R1). [`Section::next`] queues the holder's next request and then releases the
//! current one in a single step (R2). An abandoned request leaves the queue as if it had never been
//! made (R5). No call blocks: who waits is told by the callback when its turn has come.
//!
//! # State
//! Requests that hold the location are counted, not linked, so a holder's node is free to queue its
//! next request: a handle needs one node for its whole life.
//!
//! ```text
//! holders   0: free       X: one writer     1..: that many readers
//! head ──> node ──> node ──> node <── tail      waiting, in order of their posts
//!
//! node      Idle ──post──> Waiting ──grant──> Held ──release──> Idle
//!             \______________post (free, or joins)___^  \__next__> Waiting or Held again
//! ```
//!
//! | invariant                | why                                                              |
//! |--------------------------|------------------------------------------------------------------|
//! | free implies none waits  | a release grants the front; a post to a free location is granted |
//! | readers hold, one waits  | then the front is a writer: readers before it were granted       |
//! | all fields under `lock`  | they are atomics only so that sharing them needs no `unsafe`     |
//!
//! # Costs
//! Post, release and next: one section (a compare-and-swap and a store) and up to three nodes; constant
//! time per grant. Abandon: linear in the number of waiting requests. Nothing allocates.
//!
//! # Source
//! Clauss and Gustedt, "Iterative computations with ordered read-write locks", JPDC 2010, for the
//! model. Changed: one node per handle instead of two handles in turn, since holders are not linked;
//! `next` posts and releases in one section.

use syncline_signal::primitive::{AtomicU32, Ordering::Relaxed};
use syncline_signal::{
    Signal, plant,
    spinlock::{SpinGuard, SpinLock},
};

/// No node.
const NONE: u32 = u32::MAX;
/// In `holders`: one writer.
const EXCLUSIVE: u32 = u32::MAX;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// To read, together with neighbouring readers.
    Inclusive,
    /// To write, alone.
    Exclusive,
}

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const HELD: u32 = 2;
/// Set in `Node::state` for exclusive requests.
const WRITER: u32 = 4;

/// The queue of one location. `#[repr(C)]`, linked by index, no pointers: it may stand in shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct RawLocation {
    /// Guards all fields but `poison`, and all nodes of the location but their `grants`.
    lock: SpinLock,
    /// First waiting node, or `NONE`.
    head: AtomicU32,
    /// Last waiting node; meaningless when `head` is `NONE`.
    tail: AtomicU32,
    /// 0, a number of readers, or `EXCLUSIVE`.
    holders: AtomicU32,
    /// 0, or 1 + who poisoned the location.
    poison: AtomicU32,
}

/// The request of one handle. `#[repr(C)]`, no pointers.
#[repr(C)]
#[derive(Debug)]
pub struct Node {
    /// The next waiting node, or `NONE`.
    next: AtomicU32,
    /// `IDLE`, `WAITING` or `HELD`, and `WRITER`.
    state: AtomicU32,
    /// Who is told of a grant: a number that means something to the callback only.
    waiter: AtomicU32,
    /// 1 if a waker stands beside the node: whoever tells of its grant wakes it. Else 0.
    waker: AtomicU32,
    /// The grants so far, for waiters that sleep on the node itself.
    grants: Signal,
}

impl Node {
    /// An idle node of `waiter`.
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

    /// Who is told of a grant.
    #[inline]
    #[must_use]
    pub fn waiter(&self) -> u32 {
        self.waiter.load(Relaxed)
    }

    /// Changes who is told of a grant. Only while the node is idle.
    pub fn set_waiter(&self, waiter: u32) {
        self.waiter.store(waiter, Relaxed);
    }

    /// The grants so far, as far as the callbacks count them here.
    #[inline]
    #[must_use]
    pub fn grants(&self) -> &Signal {
        &self.grants
    }

    /// Whether it holds the location. Exact inside the section only.
    pub(crate) fn is_held(&self) -> bool {
        self.is(HELD)
    }

    /// Whether a waker stands beside the node. Exact in a section, and for the owner of an idle node.
    #[inline]
    pub(crate) fn has_waker(&self) -> bool {
        self.waker.load(Relaxed) != 0
    }

    pub(crate) fn set_has_waker(&self, yes: bool) {
        self.waker.store(u32::from(yes), Relaxed);
    }

    /// Whether it has no request. Exact inside the section only.
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

/// Where the nodes of a location are found by their index.
pub trait Nodes {
    /// The node with this index.
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

/// The queue of a location, locked: what the caller does in here is one step to everybody else.
///
/// Every method takes the location's nodes and a callback that is told the index of each node that is
/// granted. The callback runs inside the section: it must neither lock a location nor wait, nor call
/// code that might, such as a waker.
#[derive(Debug)]
pub struct Section<'a> {
    raw: &'a RawLocation,
    _lock: SpinGuard<'a>,
}

impl RawLocation {
    /// A free location.
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

    /// Locks the queue for a few instructions.
    #[inline]
    #[must_use]
    pub fn section(&self) -> Section<'_> {
        Section { raw: self, _lock: self.lock.lock() }
    }

    /// Locks the queue until the section that [`entered`](RawLocation::entered) returns is dropped. For
    /// whoever must be in several sections at once; all do it in the order of addresses.
    #[inline]
    pub(crate) fn enter(&self) {
        std::mem::forget(self.lock.lock());
    }

    /// The section that was entered.
    #[inline]
    pub(crate) fn entered(&self) -> Section<'_> {
        Section { raw: self, _lock: self.lock.locked() }
    }

    /// Marks the location as left in an unknown state by `who`. The first mark stays.
    pub fn poison(&self, who: u32) {
        let _section = self.section();
        if self.poison.load(Relaxed) == 0 {
            self.poison.store(who.saturating_add(1), Relaxed);
        }
    }

    /// Takes the mark off.
    pub fn clear_poison(&self) {
        let _section = self.section();
        self.poison.store(0, Relaxed);
    }

    /// Who left the location in an unknown state, if anybody did.
    ///
    /// Exact for whoever holds a grant: the mark is set before the release that led to the grant.
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
    /// Queues a request for the idle node `n`.
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

    /// Releases what node `n` holds.
    #[inline]
    pub fn release<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32, granted: &mut impl FnMut(u32)) {
        let node = nodes.node(n);
        debug_assert!(node.is(HELD), "only a holder releases");
        node.set(IDLE);
        self.one_holder_less(nodes, node.is_writer(), granted);
    }

    /// Queues the next request of node `n`, of the same kind, and then releases what it holds.
    #[inline]
    pub fn next<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32, granted: &mut impl FnMut(u32)) {
        let node = nodes.node(n);
        debug_assert!(node.is(HELD), "only a holder goes on to its next request");
        let writer = node.is_writer();
        if !writer && self.raw.head.load(Relaxed) == NONE {
            // The next request joins the group that this one leaves.
            granted(n);
            return;
        }
        self.append(nodes, n);
        self.one_holder_less(nodes, writer, granted);
    }

    /// Takes back the request of node `n`: leaves the queue if it waits, releases if it holds.
    pub fn abandon<N: Nodes + ?Sized>(&mut self, nodes: &N, n: u32, granted: &mut impl FnMut(u32)) {
        let node = nodes.node(n);
        if node.is(HELD) {
            self.release(nodes, n, granted);
        } else if node.is(WAITING) {
            self.unlink(nodes, n);
            node.set(IDLE);
            // Readers behind an abandoned writer join the readers that hold.
            let holders = self.raw.holders.load(Relaxed);
            if holders != EXCLUSIVE && !plant::is("queue: abandoned writer blocks") {
                self.grant_readers(nodes, holders, granted);
            }
        }
    }

    /// How many hold the location, and how.
    pub(crate) fn holders(&self) -> (u32, AccessMode) {
        match self.raw.holders.load(Relaxed) {
            EXCLUSIVE => (1, AccessMode::Exclusive),
            readers => (readers, AccessMode::Inclusive),
        }
    }

    /// Shows those that wait, first one first.
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

    /// The node `n`, which holds the location, makes room for others: `requests` (of idle nodes) come first, and then
    /// those that waited behind it. If it reads, they come beside or behind other readers.
    pub(crate) fn replace<N: Nodes + ?Sized>(
        &mut self,
        nodes: &N,
        n: u32,
        requests: impl Iterator<Item = (u32, AccessMode)>,
        granted: &mut impl FnMut(u32),
    ) {
        debug_assert!(nodes.node(n).is(HELD), "only a holder makes room");
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

    /// Grants the first request of a free location, and the readers behind it if it is one.
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

    /// Grants all readers at the front, beside `holders` readers that hold already.
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
