//! Locations: something, perhaps with data, that has a queue of readers and writers.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::access::{Read, Write};
use crate::handle::{Exclusive, Handle, Inclusive};
use crate::raw::{AccessMode, Node, Nodes, RawLocation, Section};
use crate::wakers::{WakerSlot, Wakes};

/// The waiter of a handle that is used by hand: its grants are counted on its own node.
pub(crate) const BY_HAND: u32 = u32::MAX;

/// Whoever runs the tasks of an overlay, told when a task is granted something.
pub(crate) trait Route: Send + Sync {
    /// Task `task` was granted one of its requests.
    fn granted(&self, task: u32);
    /// A handle has posted at a location of the overlay. Called inside its section.
    fn joined(&self, location: &Core, kind: AccessMode);
    /// A handle has given its request back. Called inside the section.
    fn parted(&self, location: &Core, kind: AccessMode);
}

/// The part of a location that knows nothing of the type of its data.
#[repr(C, align(64))]
pub struct Core {
    pub(crate) raw: RawLocation,
    pub(crate) nodes: NodePool,
    pub(crate) name: String,
    /// The name of the task that poisoned the location.
    poisoner: Mutex<String>,
    /// Set while an overlay runs over this location; `routed` says whether it is.
    route: Mutex<Option<Arc<dyn Route>>>,
    routed: AtomicBool,
    /// Requests of handles that are used by hand, queued or granted; and those of them that are exclusive. Changed inside
    /// the section.
    by_hand: AtomicU32,
    writers_by_hand: AtomicU32,
}

impl Core {
    /// Tells the waiter of node `n` of a grant, when it is not known whether an overlay runs here. If it
    /// waits with a waker, that one is left in `wakes`, to be woken after the section.
    pub(crate) fn tell(&self, n: u32, wakes: &mut Wakes) {
        let node = self.nodes.node(n);
        if node.waiter() == BY_HAND {
            self.tell_handle(n, wakes);
        } else if let Some(route) = &*self.route.lock().unwrap_or_else(PoisonError::into_inner) {
            route.granted(node.waiter());
        }
    }

    /// Requests of handles that are used by hand, all or those that are exclusive. Exact inside the section only.
    pub(crate) fn by_hand(&self, writers_only: bool) -> u32 {
        let count = if writers_only { &self.writers_by_hand } else { &self.by_hand };
        count.load(Ordering::Relaxed)
    }

    /// A handle that is used by hand has posted a request, in this section.
    #[inline]
    pub(crate) fn joined(&self, _section: &Section<'_>, kind: AccessMode) {
        self.by_hand.store(self.by_hand(false) + 1, Ordering::Relaxed);
        if kind == AccessMode::Exclusive {
            self.writers_by_hand.store(self.by_hand(true) + 1, Ordering::Relaxed);
        }
        self.with_route(|route| route.joined(self, kind));
    }

    /// A handle that is used by hand has given its request back, in this section.
    #[inline]
    pub(crate) fn parted(&self, _section: &Section<'_>, kind: AccessMode) {
        self.by_hand.store(self.by_hand(false) - 1, Ordering::Relaxed);
        if kind == AccessMode::Exclusive {
            self.writers_by_hand.store(self.by_hand(true) - 1, Ordering::Relaxed);
        }
        self.with_route(|route| route.parted(self, kind));
    }

    #[inline]
    fn with_route(&self, f: impl FnOnce(&dyn Route)) {
        // Relaxed: an overlay enters the section after it has said so. A handle that came before is seen there.
        if self.routed.load(Ordering::Relaxed)
            && let Some(route) = &*self.route.lock().unwrap_or_else(PoisonError::into_inner)
        {
            f(&**route);
        }
    }

    /// Joins the overlay that `route` runs. False if the location is in a running overlay already.
    pub(crate) fn join(&self, route: &Arc<dyn Route>) -> bool {
        let mut slot = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slot.is_none();
        if free {
            *slot = Some(Arc::clone(route));
            self.routed.store(true, Ordering::Relaxed);
        }
        free
    }

    pub(crate) fn part(&self) {
        self.routed.store(false, Ordering::Relaxed);
        *self.route.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn poison(&self, who: &str) {
        {
            let mut poisoner = self.poisoner.lock().unwrap_or_else(PoisonError::into_inner);
            if self.raw.poisoned().is_none() {
                who.clone_into(&mut poisoner);
            }
        }
        self.raw.poison(0);
    }

    /// The name of the task that poisoned the location, if one did.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.raw.poisoned()?;
        Some(self.poisoner.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("name", &self.name)
            .field("raw", &self.raw)
            .finish_non_exhaustive()
    }
}

/// Items that never move, found by index. The first few lie in place; further blocks, each twice the one
/// before, are made when they are needed.
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

    /// Index of block and place in it: block `b` of the far ones has `NEAR << b` items.
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

/// The nodes of a location, handed out and taken back. The first few lie beside the queue.
#[derive(Debug)]
pub(crate) struct NodePool {
    nodes: Blocks<Node>,
    free: Mutex<Free>,
    /// Beside each node a place for a waker: made when the first future waits here.
    wakers: OnceLock<Box<Blocks<WakerSlot>>>,
}

#[derive(Debug)]
struct Free {
    returned: Vec<u32>,
    never_used: u32,
}

impl NodePool {
    fn new() -> Self {
        NodePool {
            nodes: Blocks::new(|| Node::new(BY_HAND)),
            free: Mutex::new(Free { returned: Vec::new(), never_used: 0 }),
            wakers: OnceLock::new(),
        }
    }

    /// An idle node that tells `waiter` of its grants.
    pub(crate) fn take(&self, waiter: u32) -> u32 {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = free.returned.pop().unwrap_or_else(|| {
            free.never_used += 1;
            free.never_used - 1
        });
        self.nodes.get_or_make(index, || Node::new(BY_HAND)).set_waiter(waiter);
        index
    }

    /// Takes back an idle node.
    pub(crate) fn put_back(&self, index: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).returned.push(index);
    }

    /// The place for a waker beside node `n`. May allocate, so not in a section.
    pub(crate) fn make_waker_slot(&self, n: u32) -> &WakerSlot {
        self.wakers
            .get_or_init(|| Box::new(Blocks::new(WakerSlot::default)))
            .get_or_make(n, WakerSlot::default)
    }

    /// The place for a waker beside node `n`, if there was one before.
    pub(crate) fn waker_slot(&self, n: u32) -> Option<&WakerSlot> {
        self.wakers.get()?.get(n)
    }
}

impl Nodes for NodePool {
    #[inline]
    fn node(&self, index: u32) -> &Node {
        match self.nodes.get(index) {
            Some(node) => node,
            // Indices come from `take`, which has made the node.
            None => unreachable!("node {index} was never handed out"),
        }
    }
}

/// The data of a location, reached only through grants.
pub(crate) struct Value<T>(UnsafeCell<T>);

// SAFETY: the queue of the location lets either one writer or some readers at the data: shared access
// from several threads needs `T: Sync`, exclusive access from changing threads `T: Send`.
unsafe impl<T: Send + Sync> Sync for Value<T> {}

impl<T> Value<T> {
    /// The data, to read.
    ///
    /// # Safety
    /// The caller holds an inclusive or exclusive grant for as long as `'g`, and no `&mut` from
    /// [`Value::write`] under the same grant.
    #[inline]
    pub(crate) unsafe fn read<'g>(&self) -> &'g T {
        // SAFETY: the grant keeps writers away for `'g`; the allocation outlives the handle of the grant.
        unsafe { &*self.0.get() }
    }

    /// The data, to write.
    ///
    /// # Safety
    /// The caller holds an exclusive grant for as long as `'g`, and takes no other reference under it.
    #[inline]
    pub(crate) unsafe fn write<'g>(&self) -> &'g mut T {
        // SAFETY: the grant keeps everybody else away for `'g`; the allocation outlives its handle.
        unsafe { &mut *self.0.get() }
    }
}

/// Something, perhaps with data, that has a strict queue of readers and writers.
///
/// The data is owned by the location and reached only through grants: of a [handle](Handle), when it
/// is used by hand, or of a task in an [`Overlay`](crate::Overlay). `Location<()>` orders tasks over
/// something that lives elsewhere. Cloning makes another reference to the same location.
///
/// ```
/// use syncline_overlay::Location;
///
/// let total = Location::new("total", 0_u64);
/// let (mut first, mut second) = (total.writer(), total.reader());
/// first.post(); // the order of the posts ...
/// second.post();
/// std::thread::scope(|s| {
///     s.spawn(move || assert_eq!(*second.acquire().unwrap(), 7)); // ... decides, not that of the threads
///     s.spawn(move || *first.acquire().unwrap() = 7);
/// });
/// ```
///
/// Data cannot leave its guard:
/// ```compile_fail,E0597
/// # use syncline_overlay::Location;
/// let location = Location::new("x", String::new());
/// let text: &String;
/// {
///     let mut handle = location.reader();
///     let guard = handle.acquire().unwrap();
///     text = &*guard;
/// }
/// println!("{text}");
/// ```
/// and cannot be written under an inclusive grant:
/// ```compile_fail,E0594
/// # use syncline_overlay::Location;
/// let location = Location::new("x", 1);
/// *location.reader().acquire().unwrap() = 2;
/// ```
/// nor travel to other threads if its type may not:
/// ```compile_fail,E0277
/// # use syncline_overlay::Location;
/// let location = Location::new("x", std::cell::Cell::new(1));
/// std::thread::spawn(move || location.reader());
/// ```
pub struct Location<T> {
    pub(crate) core: Arc<Core>,
    pub(crate) value: Arc<Value<T>>,
}

impl<T> Location<T> {
    /// A location that owns `value`. The name appears in errors and drawings.
    pub fn new(name: impl Into<String>, value: T) -> Self {
        Location {
            core: Arc::new(Core {
                raw: RawLocation::new(),
                nodes: NodePool::new(),
                name: name.into(),
                poisoner: Mutex::default(),
                route: Mutex::default(),
                routed: AtomicBool::new(false),
                by_hand: AtomicU32::new(0),
                writers_by_hand: AtomicU32::new(0),
            }),
            value: Arc::new(Value(UnsafeCell::new(value))),
        }
    }

    /// The name given at its making.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// A handle for inclusive requests, to be used by hand.
    #[must_use]
    pub fn reader(&self) -> Handle<T, Inclusive> {
        Handle::new(self.clone())
    }

    /// A handle for exclusive requests, to be used by hand.
    #[must_use]
    pub fn writer(&self) -> Handle<T, Exclusive> {
        Handle::new(self.clone())
    }

    /// Says that a task of an overlay reads this location.
    #[must_use]
    pub fn read(&self) -> Read<T> {
        Read(self.clone())
    }

    /// Says that a task of an overlay writes this location.
    #[must_use]
    pub fn write(&self) -> Write<T> {
        Write(self.clone())
    }

    /// The data back, if this is the last reference: no handle, task or clone is left.
    ///
    /// # Errors
    /// The location itself, if it is still in use.
    pub fn into_inner(self) -> Result<T, Self> {
        let Location { core, value } = self;
        Arc::try_unwrap(value).map(|v| v.0.into_inner()).map_err(|value| Location { core, value })
    }

    /// Declares the data sound again after a panic had poisoned it.
    pub fn clear_poison(&self) {
        self.core.raw.clear_poison();
    }
}

impl<T> Clone for Location<T> {
    fn clone(&self) -> Self {
        Location { core: Arc::clone(&self.core), value: Arc::clone(&self.value) }
    }
}

impl<T> fmt::Debug for Location<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location").field("name", &self.name()).finish_non_exhaustive()
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

    #[test]
    fn the_queue_and_the_near_nodes_are_neighbours() {
        assert_eq!(std::mem::offset_of!(Core, raw), 0);
        assert!(std::mem::offset_of!(Core, nodes) <= 64);
    }
}
