//! The software queue lock, over memory and messages.
//!
//! # Contract
//! See [`lock`](super). Every member has *nodes*, one for each mutex that it holds or waits for. The mutex's word, at its
//! owner, is the last node of its queue. Each node has a link to the next, and a flag that whoever is before it raises.
//!
//! # Figure
//! ```text
//!  owner: tail ───────────────────────┐            lock:   tail <- swap my node; if there was one: link it to mine,
//!                                     ▼                    wait until my flag is raised
//!  member 4's node ──link──> member 1's node       unlock: no link? tail <- free, if it is my node still
//!  (holds)                   (waits on its flag)           else wait for the link; raise the next one's flag
//! ```
//! Flags are numbers of waits, which only grow: a link says to which number the next one's is to be raised. So nothing is
//! reset that somebody may still be looking at.
//!
//! # Costs
//! Free: a swap and a compare-swap at the owner: on its host one read-modify-write each, from others two messages each.
//! Contended: a swap; one message to link; one message, or two line transfers, to hand over. Members wait on words of
//! their own host.
//!
//! # Source
//! Mellor-Crummey and Scott (1991); for one-sided memory Saify's thesis (2002), section 5.2, whose text on the release has
//! one mistake: after a compare-swap that fails, the next one's `locked` is to become false. Changed: nodes are named by
//! numbers in one word; links and flags go to the process that needs them, which drives while it waits, and not through the
//! server; flags are monotone.

use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_fabric::endpoint::{Out, Service};
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{PaddedSignal, Policy};
use syncline_sync::{Array, Deaths, Fault, Space, SpaceError};

use super::poison::{MOST, Wanted};
use crate::engine::Engine;
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::{Rma, Syncs};

const NODES: usize = MOST;

/// The nodes of the members of a host.
#[derive(Clone, Debug)]
struct Shelf {
    /// The rank of the first node's member, and so on: those of this host.
    here: Arc<[usize]>,
    links: Array<AtomicU64>,
    flags: Array<PaddedSignal>,
    /// Who is told of syncs that others have completed.
    engine: Option<Arc<Engine>>,
}

/// A member's nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    shelf: Shelf,
    deaths: Deaths,
    service: u32,
    /// Where its nodes begin on the shelf.
    first: usize,
    free: Vec<usize>,
    /// How often each has been waited with.
    waits: [u64; NODES],
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
    fn within(space: &mut Space, here: &[usize], engine: Option<Arc<Engine>>) -> Result<Shelf, SpaceError> {
        let nodes = NODES * here.len();
        Ok(Shelf { here: here.into(), links: space.array(nodes)?, flags: space.array(nodes)?, engine })
    }

    /// Where a node of a member of this host stands.
    fn place(&self, rank: usize, node: usize) -> Option<usize> {
        let member = self.here.iter().position(|&other| other == rank)?;
        (node < NODES).then_some(member * NODES + node)
    }

    fn link(&self, rank: usize, node: usize, next: u64) {
        if let Some(place) = self.place(rank, node) {
            // Release: pairs with the Acquire of whoever hands over.
            self.links[place].store(next, Ordering::Release);
        }
    }

    fn raise(&self, rank: usize, node: usize, waits: u64) {
        if let Some(place) = self.place(rank, node) {
            self.flags[place].raise_to(waits);
        }
    }
}

impl Service for Shelf {
    fn receive(&self, _from: usize, body: &[u8], _out: &mut Out<'_>) {
        let mut words = crate::message::words(body);
        let (Some(what), Some(node), Some(word)) = (words.next(), words.next(), words.next()) else { return };
        if node >> 48 == 0 {
            return;
        }
        // Before the flag: who is let in asks for what is as new as what it is told.
        if let (Some(engine), Some(epoch)) = (&self.engine, words.next()) {
            engine.hear(epoch);
        }
        let (rank, node, _) = named(node);
        match what {
            LINK => self.link(rank, node, word),
            RAISE => self.raise(rank, node, word),
            _ => (),
        }
    }
}

impl Nodes {
    pub(crate) fn new(rma: &Rma, me: &mut Member) -> Result<Nodes, RmaError> {
        let engine = match &rma.sync {
            Syncs::Hosts(far) => Some(Arc::clone(&far.engine)),
            Syncs::Host(_) => None,
        };
        let shelf = Shelf::within(me.space(), &rma.here, engine)?;
        let service = me.attach(|| shelf.clone()).map_or(0, |(service, _)| service);
        let first = shelf.place(rma.rank, 0).expect("a member is on its host");
        let free = (0..NODES).rev().collect();
        Ok(Nodes { shelf, deaths: me.deaths().clone(), service, first, free, waits: [0; NODES] })
    }

    pub(crate) fn lock(
        &mut self,
        rma: &mut Rma,
        words: &Global<u64>,
        at: usize,
        wanted: &Wanted<'_>,
    ) -> Result<u64, RmaError> {
        let node = self.free.pop().ok_or_else(|| RmaError::Shape {
            why: format!("a member holds at most {NODES} mutexes of a set at once"),
        })?;
        // Relaxed: others write it after they have swapped, which comes after this and is a release.
        self.shelf.links[self.first + node].store(0, Ordering::Relaxed);
        let waits = self.waits[node] + 1;
        let mine = name(rma.rank, node, waits);
        let before = rma.swap(words, wanted.rank, at, mine).inspect_err(|_| self.free.push(node))?;
        if before != 0 {
            self.waits[node] = waits;
            self.tell(rma, LINK, before, mine);
            // On an error the node stays in the queue, and is not used again.
            self.wait(rma, node, waits, wanted)?;
        }
        Ok(mine)
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
        let link = &self.shelf.links[self.first + node];
        // Acquire: pairs with the Release in `link`.
        let mut next = link.load(Ordering::Acquire);
        if next == 0
            && let Syncs::Hosts(far) = &rma.sync
        {
            // It may have come, and nobody have looked.
            let _ = far.endpoint.wait(Some(Instant::now()), || link.load(Ordering::Acquire) != 0);
            next = link.load(Ordering::Acquire);
        }
        if next == 0 {
            if rma.compare_swap(words, rank, at, mine, 0)? == mine {
                self.free.push(node);
                return Ok(());
            }
            next = self.linked(rma, node)?;
        }
        self.free.push(node);
        self.tell(rma, RAISE, next, named(next).2);
        Ok(())
    }

    /// Somebody has swapped and is about to link.
    fn linked(&self, rma: &Rma, node: usize) -> Result<u64, Fault> {
        let link = &self.shelf.links[self.first + node];
        let there = || link.load(Ordering::Acquire) != 0;
        match &rma.sync {
            Syncs::Hosts(far) => far.endpoint.wait(None, there)?,
            Syncs::Host(_) => {
                let mut looks = 0_u32;
                while !there() {
                    looks += 1;
                    if looks < 64 {
                        std::hint::spin_loop();
                    } else {
                        std::thread::yield_now();
                    }
                    if looks.is_multiple_of(4096)
                        && let Some(rank) = self.deaths.after(0)
                    {
                        return Err(Fault::Dead { rank });
                    }
                }
            }
        }
        Ok(link.load(Ordering::Acquire))
    }

    fn wait(&self, rma: &Rma, node: usize, waits: u64, wanted: &Wanted<'_>) -> Result<(), RmaError> {
        let flag = &self.shelf.flags[self.first + node];
        match &rma.sync {
            Syncs::Hosts(far) => {
                let mut lost = Ok(());
                far.endpoint.wait(None, || {
                    let granted = flag.get() >= waits;
                    if !granted {
                        lost = wanted.holds.check(wanted.rank, wanted.index);
                    }
                    lost.is_err() || granted && far.engine.is_level()
                })?;
                lost
            }
            Syncs::Host(_) => {
                flag.wait_until(waits, &Policy::default().watching(wanted), None)
                    .map(|_| ())
                    .or_else(|_| wanted.lost())
            }
        }
    }

    /// Writes the link of a node, or raises its flag, wherever it is.
    fn tell(&self, rma: &mut Rma, what: u64, node: u64, word: u64) {
        let (rank, number, _) = named(node);
        if rma.host_of(rank) == rma.host_of(rma.rank) {
            match what {
                LINK => self.shelf.link(rank, number, word),
                _ => self.shelf.raise(rank, number, word),
            }
            return;
        }
        let process = rma.process_of(rank);
        let (service, far) = (self.service, rma.far());
        let epoch = far.engine.epoch();
        far.endpoint.enter(service, |out| {
            let mut message = out.message();
            [what, node, word, epoch].into_iter().for_each(|word| crate::message::push(&mut message, word));
            out.send(process, message);
        });
    }
}
