//! The software queue lock, on shared memory and messages.
//!
//! # Contract
//! See [`lock`](super). Every member has *nodes*: one for each mutex that it holds, or in whose
//! queue it has a place. The word of the mutex, at its owner, names the last node of the queue.
//! Each node has a link to the next node, and a flag that is raised when the mutex reaches the
//! node.
//!
//! # Figure
//! ```text
//!  owner: tail ──────────────────────┐       lock:   tail <- swap(my node); if there was a last
//!                                    ▼               node: link it to mine, wait for my flag
//!  member 4's node ──link──> member 1's node unlock: no link: tail <- free, if it is still my node
//!  (holds)                   (waits on flag)         else wait for the link, grant the next node
//! ```
//! Flags are monotone counters of waits: a link contains the value to which the next node's flag is
//! to be raised. So nothing is reset that another thread may still read.
//!
//! # An abandoned place
//! When the deadline of a wait passes, the member keeps its place in the queue and marks it
//! *absent*. The mutex passes over an absent place. If no node follows, it stays there until the
//! member comes back or another member links its node. A single word decides all of this: the link,
//! which only read-modify-writes change:
//!
//! | step             | the link word    | if it was               | result                       |
//! |------------------|------------------|-------------------------|------------------------------|
//! | link the next    | or (next)        | granted and absent      | the mutex goes to the next   |
//! | grant            | or `GRANTED`     | absent, with a next     | the mutex goes to the next   |
//! |                  |                  | absent, without a next  | the mutex stays here         |
//! |                  |                  | present                 | the flag is raised           |
//! | leave (deadline) | or `ABSENT`      | granted                 | it stays: it holds the mutex |
//! | come back        | without `ABSENT` | granted, without a next | it holds the mutex           |
//! |                  | (unchanged)      | granted, with a next    | place lost: it asks again    |
//!
//! # Costs
//! Uncontended: a swap and a compare-swap at the owner, each one read-modify-write on the owner's
//! host and two messages from another host. Contended: a swap; one message to link; one message, or
//! two transfers of cache lines, to hand over. Members wait on words of their own host. A mutex
//! that stays at an absent place costs the next member one more message in each direction.
//!
//! # Source
//! Mellor-Crummey and Scott (1991); for one-sided memory Saify's thesis (2002), section 5.2, whose
//! text on the release has one mistake: after a compare-swap that fails, `locked` of the next node
//! has to become false. Abandoned places: Scott and Scherer, "Scalable queue-based spin locks with
//! timeout" (2001), whose nodes are unlinked by their owners. Changed: numbers in one word name the
//! nodes; links and flags go to the process that needs them, which receives them while it waits,
//! and not through the server; flags are monotone; an absent node stays in the queue. Its member
//! does not wait, but other members need the messages that arrive for the node. So before a member
//! abandons its place, its process starts a thread that receives ([`Endpoint::keep_serving`]), if
//! it has none.
//!
//! [`Endpoint::keep_serving`]: syncline_fabric::endpoint::Endpoint::keep_serving

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_fabric::endpoint::{Out, Service};
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Policy, Signal, WaitError, poll_schedule::PollSchedule};
use syncline_sync::{
    Fault, Space, SpaceError,
    agreement::Thing,
    membership::FaultList,
    space::{Array, Shared},
};
use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{Activity, Span, is_enabled, span, span_since};

use super::poison::{MOST, Wanted};
use crate::engine::Engine;
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::{Rma, Syncs};

const NODES: usize = MOST;

/// A place in a queue, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Node {
    /// The name of the next node, or 0; `GRANTED` and `ABSENT`.
    link: AtomicU64,
    flag: Signal,
}

// SAFETY: a node consists of two words; all bytes zero are a node that is neither linked nor
// raised.
unsafe impl Shared for Node {}

/// The mutex has reached this node.
const GRANTED: u64 = 1 << 62;
/// The member does not wait at this node.
const ABSENT: u64 = 1 << 63;
const BOTH: u64 = GRANTED | ABSENT;

/// The nodes of the members of a host.
#[derive(Clone, Debug)]
struct Shelf {
    /// The ranks of the members of this host, in the order of their nodes.
    here: Arc<[usize]>,
    nodes: Array<Node>,
    /// The engine, which is notified of syncs that other hosts have completed.
    engine: Option<Arc<Engine>>,
    /// The number of members of a process, to compute a rank's process.
    threads: usize,
}

/// A member's nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    shelf: Shelf,
    fault_list: FaultList,
    service: u32,
    /// The index of its first node on the shelf.
    first: usize,
    free: Vec<usize>,
    /// The number of waits with each node.
    waits: [u64; NODES],
    /// The abandoned places: owner, index, node.
    left: Vec<(usize, usize, usize)>,
    /// By owner and first word: the number of each mutex that has a span in traces.
    traced: HashMap<(usize, usize), u32>,
}

const LINK: u64 = 1;
const RAISE: u64 = 2;

/// Encodes a node as a word: 1 + rank, number, and the value to which its flag is raised if it
/// waits.
fn name(rank: usize, node: usize, waits: u64) -> u64 {
    (rank as u64 + 1) << 48 | (node as u64) << 40 | waits & ((1 << 40) - 1)
}

fn named(name: u64) -> (usize, usize, u64) {
    ((name >> 48) as usize - 1, (name >> 40) as usize & 0xff, name & ((1 << 40) - 1))
}

impl Shelf {
    fn within(
        space: &mut Space,
        here: &[usize],
        threads: usize,
        engine: Option<Arc<Engine>>,
    ) -> Result<Shelf, SpaceError> {
        Ok(Shelf { here: here.into(), nodes: space.array(NODES * here.len())?, threads, engine })
    }

    /// Returns a node of a member of this host.
    fn node(&self, rank: usize, node: usize) -> Option<&Node> {
        let member = self.here.iter().position(|&other| other == rank)?;
        self.nodes.get(member * NODES + node).filter(|_| node < NODES)
    }

    /// Links a node of this host to the next one. Returns the next one if the mutex goes to it.
    fn link(&self, rank: usize, node: usize, next: u64) -> Option<u64> {
        let node = self.node(rank, node)?;
        // AcqRel: the member that hands over sees everything the next member did before it asked,
        // and the next member sees everything the holder did before it left the mutex at this node.
        // Pairs with the other changes of the word.
        let before = node.link.fetch_or(next & !BOTH, Ordering::AcqRel);
        (before & BOTH == BOTH).then_some(next)
    }

    /// Passes the mutex to a node, skipping absent ones. Returns the first node on another host.
    fn grant(&self, mut to: u64) -> Option<u64> {
        loop {
            let (rank, number, waits) = named(to);
            let Some(node) = self.node(rank, number) else { return Some(to) };
            // AcqRel: as in `link`.
            let before = node.link.fetch_or(GRANTED, Ordering::AcqRel);
            match (before & ABSENT != 0, before & !BOTH) {
                (false, _) => {
                    node.flag.raise_to(waits);
                    return None;
                }
                (true, 0) => return None,
                (true, next) => to = next,
            }
        }
    }

    fn write(&self, out: &mut Out<'_>, words: [u64; 3]) {
        let epoch = self.engine.as_ref().map_or(0, |engine| engine.epoch());
        let mut message = out.message();
        words.into_iter().chain([epoch]).for_each(|word| crate::message::push(&mut message, word));
        out.send(named(words[1]).0 / self.threads, message);
    }
}

/// Returns whether a word is the name of a node.
fn is_name(word: u64) -> bool {
    word & !BOTH == word && word >> 48 != 0
}

impl Service for Shelf {
    fn receive(&self, _from: usize, body: &[u8], out: &mut Out<'_>) {
        let mut words = crate::message::words(body);
        let (Some(what), Some(node), Some(word)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        if !is_name(node) || what == LINK && !is_name(word) {
            return;
        }
        // Before the flag: the member that the flag lets in must not read older memory than the
        // sender.
        if let (Some(engine), Some(epoch)) = (&self.engine, words.next()) {
            engine.hear(epoch);
        }
        let (rank, number, _) = named(node);
        if self.node(rank, number).is_none() {
            return;
        }
        let granted = match what {
            LINK => self.link(rank, number, word),
            RAISE => Some(node),
            _ => None,
        };
        if let Some(far) = granted.and_then(|node| self.grant(node)) {
            self.write(out, [RAISE, far, 0]);
        }
    }
}

impl Nodes {
    pub(crate) fn new(rma: &Rma, me: &mut Member) -> Result<Nodes, RmaError> {
        let engine = match &rma.sync {
            Syncs::Hosts(far) => Some(Arc::clone(&far.engine)),
            Syncs::Host(_) => None,
        };
        let threads = me.threads();
        let shelf =
            Shelf::within(&mut me.space().making(Thing::Mutexes), &rma.here, threads, engine)?;
        let service = me.attach(|| shelf.clone()).map_or(0, |(service, _)| service);
        let first =
            rma.here.iter().position(|&other| other == rma.rank).expect("a member is on its host");
        let (first, free, left) = (first * NODES, (0..NODES).rev().collect(), Vec::new());
        Ok(Nodes {
            shelf,
            fault_list: me.fault_list().clone(),
            service,
            first,
            free,
            waits: [0; NODES],
            left,
            traced: HashMap::new(),
        })
    }

    fn node(&self, node: usize) -> &Node {
        &self.shelf.nodes[self.first + node]
    }

    /// Takes the mutex, and returns the name of the node. If the deadline passes, the member keeps
    /// its place in the queue.
    pub(crate) fn lock(
        &mut self,
        rma: &mut Rma,
        words: &Global<u64>,
        at: usize,
        wanted: &Wanted<'_>,
        deadline: Option<Instant>,
    ) -> Result<u64, RmaError> {
        if !self.left.is_empty()
            && let Some((node, holds)) = self.come_back(wanted)
        {
            if !holds {
                let _waits = self.begin_wait(rma, words, wanted, at);
                self.wait(rma, node, wanted, deadline)?;
            }
            self.level(rma)?;
            return Ok(name(rma.rank, node, self.waits[node]));
        }
        let node = self.free.pop().ok_or_else(|| RmaError::Shape {
            why: format!(
                "a member holds, or has places in the queues of, at most {NODES} mutexes of a set at once"
            ),
        })?;
        // Relaxed: other members change the word only after their own swap at the owner, which
        // acquires the swap that this member makes after this store.
        self.node(node).link.store(0, Ordering::Relaxed);
        let waits = self.waits[node] + 1;
        let mine = name(rma.rank, node, waits);
        let before =
            rma.swap(words, wanted.rank, at, mine).inspect_err(|_| self.free.push(node))?;
        if before != 0 {
            self.waits[node] = waits;
            let _waits = self.begin_wait(rma, words, wanted, at);
            self.link(rma, before, mine);
            self.wait(rma, node, wanted, deadline)?;
        }
        Ok(mine)
    }

    /// Returns to the place that this member has abandoned in the queue of a mutex, if it still has
    /// it. Also returns whether the mutex is there.
    fn come_back(&mut self, wanted: &Wanted<'_>) -> Option<(usize, bool)> {
        // Nodes that the mutex has passed over become free.
        let (shelf, first) = (&self.shelf, self.first);
        let passed = |node: usize| {
            let link = shelf.nodes[first + node].link.load(Ordering::Acquire);
            link & GRANTED != 0 && link & !BOTH != 0
        };
        let free = &mut self.free;
        self.left.retain(|&(.., node)| {
            let passed = passed(node);
            if passed {
                free.push(node);
            }
            !passed
        });
        let found = self
            .left
            .iter()
            .position(|&(rank, index, _)| (rank, index) == (wanted.rank, wanted.index))?;
        let (.., node) = self.left.swap_remove(found);
        let back = |link: u64| (link & GRANTED == 0 || link & !BOTH == 0).then_some(link & !ABSENT);
        match self.node(node).link.fetch_update(Ordering::AcqRel, Ordering::Acquire, back) {
            Ok(link) => Some((node, link & GRANTED != 0)),
            // The mutex has just passed over it.
            Err(_) => {
                self.free.push(node);
                None
            }
        }
    }

    /// Returns the number of a mutex in traces, and notes its name, which is the same for all
    /// members.
    #[cold]
    fn traced(&mut self, words: &Global<u64>, rank: usize, at: usize) -> u32 {
        let (set, index) = (words.table.id, at / super::WORDS);
        *self.traced.entry((rank, at)).or_insert_with(|| {
            let id = note::new_ids(1);
            let name = format!("mutex {index} of rank {rank} in set {set} of the team");
            note::add(|| [Note::Name { class: ObjectClass::Lock, id, name }]);
            id
        })
    }

    /// Begins a wait for a mutex in traces.
    fn begin_wait(
        &mut self,
        rma: &Rma,
        words: &Global<u64>,
        wanted: &Wanted<'_>,
        at: usize,
    ) -> Option<Span> {
        let wait = |id| span(Activity::AwaitLock, id, rma.rank as u64);
        is_enabled().then(|| wait(self.traced(words, wanted.rank, at)))
    }

    /// Unlocks a mutex that this member has held since `since`, in ticks of traces.
    pub(crate) fn unlock(
        &mut self,
        rma: &mut Rma,
        words: &Global<u64>,
        rank: usize,
        at: usize,
        mine: u64,
        since: u64,
    ) -> Result<(), RmaError> {
        let (_, node, _) = named(mine);
        // Acquire: pairs with the Release in `link`.
        let link = || self.node(node).link.load(Ordering::Acquire) & !BOTH;
        let mut next = link();
        if next == 0
            && let Syncs::Hosts(far) = &rma.sync
        {
            // The link may have arrived and not been received yet.
            let _ = far.endpoint.wait(Some(Instant::now()), || link() != 0);
            next = link();
        }
        if next == 0 {
            if rma.compare_swap(words, rank, at, mine, 0)? == mine {
                self.free.push(node);
                return Ok(());
            }
            next = self.linked(rma, node)?;
        }
        self.free.push(node);
        if since != 0 {
            let id = self.traced(words, rank, at);
            span_since(Activity::HoldLock, id, rma.rank as u64, since);
        }
        self.grant(rma, next);
        Ok(())
    }

    /// Waits for the link of a member that has swapped the tail and is about to link its node.
    fn linked(&self, rma: &Rma, node: usize) -> Result<u64, Fault> {
        let link = || self.node(node).link.load(Ordering::Acquire) & !BOTH;
        match &rma.sync {
            Syncs::Hosts(far) => far.endpoint.wait(None, || link() != 0)?,
            Syncs::Host(_) => {
                let (mut looks, mut poll) = (0_u32, PollSchedule::with_pauses());
                while link() == 0 {
                    looks += 1;
                    poll.pause();
                    if looks.is_multiple_of(64)
                        && let Some(fault) = self.fault_list.fault(0)
                    {
                        return Err(fault);
                    }
                }
            }
        }
        Ok(link())
    }

    /// Waits until the mutex reaches a node. If the wait fails, the place is marked absent.
    fn wait(
        &mut self,
        rma: &Rma,
        node: usize,
        wanted: &Wanted<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), RmaError> {
        let (flag, waits) = (&self.node(node).flag, self.waits[node]);
        let waited = match &rma.sync {
            Syncs::Hosts(far) => {
                let mut lost = Ok(());
                let waited = far.endpoint.wait(deadline, || {
                    let granted = flag.get() >= waits;
                    if !granted {
                        lost = wanted.holds.check(wanted.mutex);
                    }
                    lost.is_err() || granted && far.engine.is_level()
                });
                waited.map_err(RmaError::from).and(lost)
            }
            Syncs::Host(_) => flag
                .wait_until(waits, &Policy::default().watching(wanted), deadline)
                .map(|_| ())
                .or_else(|error| match error {
                    WaitError::TimedOut => Err(Fault::TimedOut.into()),
                    _ => wanted.lost(),
                }),
        };
        let Err(error) = waited else { return Ok(()) };
        if let Syncs::Hosts(far) = &rma.sync {
            far.endpoint.keep_serving();
        }
        let leave = |link: u64| (link & GRANTED == 0).then_some(link | ABSENT);
        match self.node(node).link.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave) {
            Ok(_) => {
                self.left.push((wanted.rank, wanted.index, node));
                Err(error)
            }
            // The mutex has arrived at the last moment.
            Err(_) => self.level(rma),
        }
    }

    /// Waits until this host has completed the syncs that are known to be complete elsewhere, which
    /// is a short wait.
    fn level(&self, rma: &Rma) -> Result<(), RmaError> {
        match &rma.sync {
            Syncs::Hosts(far) => Ok(far.endpoint.wait(None, || far.engine.is_level())?),
            Syncs::Host(_) => Ok(()),
        }
    }

    /// Links a node, on any host, to one of this member's.
    fn link(&self, rma: &mut Rma, node: u64, mine: u64) {
        let (rank, number, _) = named(node);
        if rma.host_of(rank) == rma.host_of(rma.rank) {
            if self.shelf.link(rank, number, mine).is_some() {
                self.grant(rma, mine);
            }
        } else {
            self.send(rma, [LINK, node, mine]);
        }
    }

    fn grant(&self, rma: &mut Rma, node: u64) {
        if let Some(far) = self.shelf.grant(node) {
            self.send(rma, [RAISE, far, 0]);
        }
    }

    fn send(&self, rma: &mut Rma, words: [u64; 3]) {
        rma.far().endpoint.enter(self.service, |out| self.shelf.write(out, words));
    }
}
