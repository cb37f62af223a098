//! The software queue lock, over memory and messages.
//!
//! # Contract
//! See [`lock`](super). Every member has *nodes*, one for each mutex that it holds or has a place
//! in the queue of. The mutex's word, at its owner, is the last node of its queue. Each node has a
//! link to the next, and a flag that is raised when the mutex comes to it.
//!
//! # Figure
//! ```text
//!  owner: tail ───────────────────────┐            lock:   tail <- swap my node; if there was one: link it to mine,
//!                                     ▼                    wait until my flag is raised
//!  member 4's node ──link──> member 1's node       unlock: no link? tail <- free, if it is my node still
//!  (holds)                   (waits on its flag)           else wait for the link; grant the next node
//! ```
//! Flags are numbers of waits, which only grow: a link says to which number the next one's is to be raised. So nothing is
//! reset that somebody may still be looking at.
//!
//! # A place that is left
//! A wait whose deadline passes keeps its place and marks it *absent*. The mutex goes past an
//! absent place, or stays at it if there is none behind it, until the member comes back or another
//! member links itself. All that is decided by one word, the link, which is only changed by
//! read-modify-writes:
//!
//! | step                     | the link word       | if before it was           | then                                      |
//! |--------------------------|---------------------|----------------------------|-------------------------------------------|
//! | link the next            | or (next)           | granted and absent         | the mutex goes to the next                |
//! | grant                    | or `GRANTED`        | absent, with a next        | the mutex goes to the next                |
//! |                          |                     | absent, without            | it stays here                             |
//! |                          |                     | present                    | the flag is raised                        |
//! | leave (deadline)         | or `ABSENT`         | granted                    | it does not leave: it holds the mutex     |
//! | come back                | without `ABSENT`    | granted, without a next    | it holds the mutex                        |
//! |                          | (unchanged)         | granted, with a next       | the place is lost: it asks anew           |
//!
//! # Costs
//! Free: a swap and a compare-swap at the owner: on its host one read-modify-write each, from
//! others two messages each. Contended: a swap; one message to link; one message, or two line
//! transfers, to hand over. Members wait on words of their own host. A mutex that stays at an
//! absent place costs the next member a message more, there and back.
//!
//! # Source
//! Mellor-Crummey and Scott (1991); for one-sided memory Saify's thesis (2002), section 5.2, whose
//! text on the release has one mistake: after a compare-swap that fails, the next one's `locked` is
//! to become false. Places that are left: Scott and Scherer, "Scalable queue-based spin locks with
//! timeout" (2001), whose nodes are unlinked by their owners. Changed: nodes are named by numbers
//! in one word; links and flags go to the process that needs them, which drives while it waits, and
//! not through the server; flags are monotone; an absent node stays in the queue. Its member does
//! not wait, but others need the messages that come for it: before a member leaves its place, its
//! process gets a thread that receives ([`Endpoint::keep_serving`]), if it has none.
//!
//! [`Endpoint::keep_serving`]: syncline_fabric::endpoint::Endpoint::keep_serving

use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_fabric::endpoint::{Out, Service};
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Policy, Signal, WaitError};
use syncline_sync::{
    Fault, Space, SpaceError,
    agreement::Thing,
    membership::FaultList,
    space::{Array, Shared},
};

use super::poison::{MOST, Wanted};
use crate::engine::Engine;
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::{Rma, Syncs};

const NODES: usize = MOST;

/// A place in a queue, alone on its lines.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Node {
    /// The name of the next node, or 0; `GRANTED` and `ABSENT`.
    link: AtomicU64,
    flag: Signal,
}

// SAFETY: two words, for which 0 is a node that was neither linked nor raised.
unsafe impl Shared for Node {}

/// The mutex has come to this node.
const GRANTED: u64 = 1 << 62;
/// The member does not wait.
const ABSENT: u64 = 1 << 63;
const BOTH: u64 = GRANTED | ABSENT;

/// The nodes of the members of a host.
#[derive(Clone, Debug)]
struct Shelf {
    /// The rank of the first node's member, and so on: those of this host.
    here: Arc<[usize]>,
    nodes: Array<Node>,
    /// Who is told of syncs that others have completed.
    engine: Option<Arc<Engine>>,
    /// By rank: its process.
    threads: usize,
}

/// A member's nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    shelf: Shelf,
    fault_list: FaultList,
    service: u32,
    /// Where its nodes begin on the shelf.
    first: usize,
    free: Vec<usize>,
    /// How often each has been waited with.
    waits: [u64; NODES],
    /// Places that were left: owner, index, node.
    left: Vec<(usize, usize, usize)>,
}

const LINK: u64 = 1;
const RAISE: u64 = 2;

/// A node as a word: 1 + rank, number, and to how much its flag is to be raised, if it waits.
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

    /// A node of a member of this host.
    fn node(&self, rank: usize, node: usize) -> Option<&Node> {
        let member = self.here.iter().position(|&other| other == rank)?;
        self.nodes.get(member * NODES + node).filter(|_| node < NODES)
    }

    /// Links a node of this host to the next; returns the next if the mutex goes to that.
    fn link(&self, rank: usize, node: usize, next: u64) -> Option<u64> {
        let node = self.node(rank, node)?;
        // AcqRel: what the next did before it asked is seen by the member that hands over, and what
        // the holder did before it left the mutex at this node is seen by the next. Pairs with the
        // other changes of the word.
        let before = node.link.fetch_or(next & !BOTH, Ordering::AcqRel);
        (before & BOTH == BOTH).then_some(next)
    }

    /// The mutex goes to a node, and past those that are absent. Returns the first that is on
    /// another host.
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

/// Whether a word is the name of a node.
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
        // Before the flag: who is let in asks for what is as new as what it is told.
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
        })
    }

    fn node(&self, node: usize) -> &Node {
        &self.shelf.nodes[self.first + node]
    }

    /// Takes the mutex, or a place in its queue that is kept if the deadline passes. Returns the
    /// name of the node.
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
                self.wait(rma, node, wanted, deadline)?;
            }
            self.level(rma)?;
            return Ok(name(rma.rank, node, self.waits[node]));
        }
        let node = self.free.pop().ok_or_else(|| RmaError::Shape {
            why: format!(
                "a member holds, or has places in the queues of, at most {NODES} mutexes of a set"
            ),
        })?;
        // Relaxed: others change it after they have swapped, which comes after this and is a
        // release.
        self.node(node).link.store(0, Ordering::Relaxed);
        let waits = self.waits[node] + 1;
        let mine = name(rma.rank, node, waits);
        let before =
            rma.swap(words, wanted.rank, at, mine).inspect_err(|_| self.free.push(node))?;
        if before != 0 {
            self.waits[node] = waits;
            self.link(rma, before, mine);
            self.wait(rma, node, wanted, deadline)?;
        }
        Ok(mine)
    }

    /// The place that this member has left in the queue of a mutex, if it has it still, and whether
    /// the mutex stays there.
    fn come_back(&mut self, wanted: &Wanted<'_>) -> Option<(usize, bool)> {
        // Those that the mutex has gone past can be used again.
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
            // The mutex has gone past it just now.
            Err(_) => {
                self.free.push(node);
                None
            }
        }
    }

    pub(crate) fn unlock(
        &mut self,
        rma: &mut Rma,
        words: &Global<u64>,
        rank: usize,
        at: usize,
        mine: u64,
    ) -> Result<(), RmaError> {
        let (_, node, _) = named(mine);
        // Acquire: pairs with the Release in `link`.
        let link = || self.node(node).link.load(Ordering::Acquire) & !BOTH;
        let mut next = link();
        if next == 0
            && let Syncs::Hosts(far) = &rma.sync
        {
            // It may have come, and nobody have looked.
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
        self.grant(rma, next);
        Ok(())
    }

    /// Somebody has swapped and is about to link.
    fn linked(&self, rma: &Rma, node: usize) -> Result<u64, Fault> {
        let link = || self.node(node).link.load(Ordering::Acquire) & !BOTH;
        match &rma.sync {
            Syncs::Hosts(far) => far.endpoint.wait(None, || link() != 0)?,
            Syncs::Host(_) => {
                let mut looks = 0_u32;
                while link() == 0 {
                    looks += 1;
                    if looks < 64 {
                        std::hint::spin_loop();
                    } else {
                        std::thread::yield_now();
                    }
                    if looks.is_multiple_of(4096)
                        && let Some(fault) = self.fault_list.fault(0)
                    {
                        return Err(fault);
                    }
                }
            }
        }
        Ok(link())
    }

    /// Waits until the mutex has come to a node. If it does not, the place is left.
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
            // It has come at the last moment.
            Err(_) => self.level(rma),
        }
    }

    /// Waits until this host has completed the syncs that it has heard of. It will, soon.
    fn level(&self, rma: &Rma) -> Result<(), RmaError> {
        match &rma.sync {
            Syncs::Hosts(far) => Ok(far.endpoint.wait(None, || far.engine.is_level())?),
            Syncs::Host(_) => Ok(()),
        }
    }

    /// Links a node, wherever it is, to one of this member's.
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
