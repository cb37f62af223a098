//! The nodes of a location's queue, and the slots beside them for the wakers of requests.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use crate::raw::{Node, Nodes};

/// The waiter number of a handle: its grants are counted on its own node.
pub(crate) const BY_HAND: u32 = u32::MAX;

/// Items with stable addresses, found by index. The first few lie in place; further blocks, each
/// twice as long as the one before, are allocated on demand.
#[derive(Debug)]
struct Blocks<S> {
    near: [S; NEAR],
    far: [OnceLock<Box<[S]>>; 28],
}

const NEAR: usize = 8;

impl<S> Blocks<S> {
    fn new(item: impl Fn() -> S) -> Self {
        Blocks { near: std::array::from_fn(|_| item()), far: [const { OnceLock::new() }; 28] }
    }

    /// Returns the block of an index and the offset in it: far block `b` has `NEAR << b` items.
    fn place(index: u32) -> (usize, usize) {
        let i = index as usize / NEAR;
        let block = i.ilog2() as usize;
        (block, index as usize - (NEAR << block))
    }

    #[inline]
    fn get(&self, index: u32) -> Option<&S> {
        if let Some(item) = self.near.get(index as usize) {
            return Some(item);
        }
        let (block, place) = Self::place(index);
        Some(&self.far[block].get()?[place])
    }

    fn get_or_make(&self, index: u32, item: impl Fn() -> S) -> &S {
        if let Some(near) = self.near.get(index as usize) {
            return near;
        }
        let (block, place) = Self::place(index);
        &self.far[block].get_or_init(|| (0..NEAR << block).map(|_| item()).collect())[place]
    }
}

/// The nodes of a location: allocates and recycles them. The first few lie beside the queue.
#[derive(Debug)]
pub(crate) struct NodePool {
    nodes: Blocks<Node>,
    free: Mutex<Free>,
    /// A slot for a waker beside each node. Allocated when the first future waits at the location.
    wakers: OnceLock<Box<Blocks<WakerSlot>>>,
}

#[derive(Debug)]
struct Free {
    returned: Vec<u32>,
    never_used: u32,
}

impl NodePool {
    pub(crate) fn new() -> Self {
        NodePool {
            nodes: Blocks::new(|| Node::new(BY_HAND)),
            free: Mutex::new(Free { returned: Vec::new(), never_used: 0 }),
            wakers: OnceLock::new(),
        }
    }

    /// Takes an idle node and makes `waiter` the waiter that its grants are reported to.
    pub(crate) fn take(&self, waiter: u32) -> u32 {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = free.returned.pop().unwrap_or_else(|| {
            free.never_used += 1;
            free.never_used - 1
        });
        self.nodes.get_or_make(index, || Node::new(BY_HAND)).set_waiter(waiter);
        index
    }

    /// Returns an idle node to the pool.
    pub(crate) fn put_back(&self, index: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).returned.push(index);
    }

    /// Returns the waker slot beside node `n`. May allocate, so it must not be called in a section.
    pub(crate) fn make_waker_slot(&self, n: u32) -> &WakerSlot {
        self.wakers
            .get_or_init(|| Box::new(Blocks::new(WakerSlot::default)))
            .get_or_make(n, WakerSlot::default)
    }

    /// Returns the waker slot beside node `n`, if it has been allocated.
    pub(crate) fn waker_slot(&self, n: u32) -> Option<&WakerSlot> {
        self.wakers.get()?.get(n)
    }
}

impl Nodes for NodePool {
    #[inline]
    fn node(&self, index: u32) -> &Node {
        match self.nodes.get(index) {
            Some(node) => node,
            // `take` returned the index, and has allocated the node.
            None => unreachable!("node {index} was never handed out"),
        }
    }
}

/// The slot for the waker of one node. Only threads in a section of the location, or the owner of
/// the idle node, lock it, so the mutex is never contended.
#[derive(Debug, Default)]
pub(crate) struct WakerSlot(Mutex<Option<Waker>>);

impl WakerSlot {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_where_they_were_put() {
        let arena = NodePool::new();
        let taken: Vec<u32> = (0..1000).map(|i| arena.take(i)).collect();
        for (i, &n) in taken.iter().enumerate() {
            assert_eq!(arena.node(n).waiter(), i as u32);
        }
        arena.put_back(taken[500]);
        assert_eq!(arena.take(7), taken[500], "returned nodes are used first");
    }
}
