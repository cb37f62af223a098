//! Locations: named resources, with or without data, each with a queue of readers and writers.

use std::any::type_name;
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_trace::note::new_ids;

use crate::nodes::{BY_HAND, NodePool};
use crate::raw::{AccessMode, Nodes, RawLocation, Section};
use crate::wakers::Wakes;
use crate::wire::Wire;

/// The receiver of the grants of an overlay's tasks: the engine of its run.
pub(crate) trait Route: Send + Sync {
    /// Reports that task `task` was granted one of its requests. Called inside the section.
    fn granted(&self, task: u32);
    /// Reports that a handle has posted a request at a location of the overlay. Called inside the
    /// section.
    fn joined(&self, location: &Core, kind: AccessMode);
    /// Reports that a handle has given its request back. Called inside the section.
    fn parted(&self, location: &Core, kind: AccessMode);
}

/// The part of a location that does not depend on the type of its data.
#[repr(C, align(64))]
pub struct Core {
    pub(crate) raw: RawLocation,
    pub(crate) nodes: NodePool,
    pub(crate) name: String,
    /// The number of the location in traces.
    pub(crate) traced: u32,
    /// The name of the task that poisoned the location.
    poisoner: Mutex<String>,
    /// The engine of the overlay that runs over this location, if one does. `routed` mirrors
    /// whether it is set, so that handles can test it without the lock.
    route: Mutex<Option<Arc<dyn Route>>>,
    routed: AtomicBool,
    /// The number of requests of handles, queued or granted, and the number of exclusive ones among
    /// them. Changed inside the section only.
    by_hand: AtomicU32,
    writers_by_hand: AtomicU32,
    /// The bytes of the data, if they are all that there is to it: then the data can be copied to
    /// other processes. `len` is 0 if there are no data.
    pub(crate) bytes: Option<Bytes>,
    /// The encoding of the value, if it is copied to other processes in encoded form. Then `bytes`
    /// has the length of that form, and no address.
    pub(crate) wire: Option<Wire>,
}

/// The bytes of the data of a location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    /// Null if the location has no memory of its own.
    pub(crate) first: *mut u8,
    pub(crate) len: usize,
    /// The type of the value, or of the values of a slice, for messages.
    pub(crate) of: &'static str,
}

// SAFETY: an address and a number; the code that dereferences the address is responsible for the
// access.
unsafe impl Send for Bytes {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes {}

impl Core {
    pub(crate) fn new(name: String, bytes: Option<Bytes>, wire: Option<Wire>) -> Self {
        Core {
            raw: RawLocation::new(),
            nodes: NodePool::new(),
            name,
            traced: new_ids(1),
            poisoner: Mutex::default(),
            route: Mutex::default(),
            routed: AtomicBool::new(false),
            by_hand: AtomicU32::new(0),
            writers_by_hand: AtomicU32::new(0),
            bytes,
            wire,
        }
    }

    /// Reports a grant to the waiter of node `n`, when the caller does not know whether an overlay
    /// runs here. A waker of the waiter is moved to `wakes`, which wakes it after the section.
    pub(crate) fn tell(&self, n: u32, wakes: &mut Wakes) {
        let node = self.nodes.node(n);
        if node.waiter() == BY_HAND {
            self.nodes.tell_handle(n, wakes);
        } else if let Some(route) = &*self.route.lock().unwrap_or_else(PoisonError::into_inner) {
            route.granted(node.waiter());
        }
    }

    /// Returns the number of requests of handles: all, or the exclusive ones. Exact inside the
    /// section only.
    pub(crate) fn by_hand(&self, writers_only: bool) -> u32 {
        let count = if writers_only { &self.writers_by_hand } else { &self.by_hand };
        count.load(Ordering::Relaxed)
    }

    /// Counts a request that a handle has posted in this section, and reports it to the running
    /// overlay.
    #[inline]
    pub(crate) fn joined(&self, _section: &Section<'_>, kind: AccessMode) {
        self.by_hand.store(self.by_hand(false) + 1, Ordering::Relaxed);
        if kind == AccessMode::Exclusive {
            self.writers_by_hand.store(self.by_hand(true) + 1, Ordering::Relaxed);
        }
        self.with_route(|route| route.joined(self, kind));
    }

    /// Uncounts a request that a handle has given back in this section, and reports it to the
    /// running overlay.
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
        // Relaxed: an overlay sets `routed` before it enters the section. A handle that comes after
        // that section sees the flag; the overlay sees a handle that came before it in `by_hand`.
        if self.routed.load(Ordering::Relaxed)
            && let Some(route) = &*self.route.lock().unwrap_or_else(PoisonError::into_inner)
        {
            f(&**route);
        }
    }

    /// Registers the engine `route` of an overlay. Returns false if another overlay already runs
    /// over the location.
    pub(crate) fn join(&self, route: &Arc<dyn Route>) -> bool {
        let mut slot = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        let free = slot.is_none();
        if free {
            *slot = Some(Arc::clone(route));
            self.routed.store(true, Ordering::Relaxed);
        }
        free
    }

    /// Unregisters the engine.
    pub(crate) fn part(&self) {
        self.routed.store(false, Ordering::Relaxed);
        *self.route.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn poison(&self, task: &str) {
        {
            let mut poisoner = self.poisoner.lock().unwrap_or_else(PoisonError::into_inner);
            if self.raw.poisoned().is_none() {
                task.clone_into(&mut poisoner);
            }
        }
        self.raw.poison(0);
    }

    /// Returns the name of the task that poisoned the location, if one did.
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

/// The data of a location, accessible only under a grant.
#[repr(transparent)]
pub(crate) struct Value<T: ?Sized>(pub(crate) UnsafeCell<T>);

// SAFETY: the queue of the location admits either one writer or readers only. Shared access from
// several threads needs `T: Sync`; exclusive access from changing threads needs `T: Send`.
unsafe impl<T: ?Sized + Send + Sync> Sync for Value<T> {}

impl<T: ?Sized> Value<T> {
    /// Returns the data for reading.
    ///
    /// # Safety
    /// The caller must hold an inclusive or exclusive grant for `'g`. No `&mut` from
    /// [`Value::write`] under the same grant may exist during `'g`. The allocation must outlive
    /// `'g`.
    #[inline]
    pub(crate) unsafe fn read<'g>(&self) -> &'g T {
        // SAFETY: no `&mut` to the data exists during `'g`: the grant excludes other writers, and
        // the caller guarantees it for its own grant. The caller keeps the allocation alive (see
        // `# Safety`).
        unsafe { &*self.0.get() }
    }

    /// Returns the data for writing.
    ///
    /// # Safety
    /// The caller must hold an exclusive grant for `'g`. No other reference under this grant may
    /// exist during `'g`. The allocation must outlive `'g`.
    #[inline]
    pub(crate) unsafe fn write<'g>(&self) -> &'g mut T {
        // SAFETY: no other reference to the data exists during `'g`: the grant excludes all other
        // requests, and the caller guarantees it for its own grant. The caller keeps the allocation
        // alive (see `# Safety`).
        unsafe { &mut *self.0.get() }
    }
}

/// The memory in which a request finds its data: that of the location itself, or, in a run on a
/// team, memory that members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The location's own memory.
    Own,
    /// The first bytes of the data in even rounds and in odd rounds.
    Shared([*mut u8; 2]),
}

/// The addresses at which a request finds the data in even and in odd rounds of its task: twice
/// that of the location's own data, except in a run on a team.
pub(crate) struct Addresses<T: ?Sized>([*mut T; 2]);

// SAFETY: the addresses are dereferenced only by `read` and `write`, whose conditions are those of
// references: shared ones need `T: Sync`, exclusive ones `T: Send`.
unsafe impl<T: ?Sized + Send + Sync> Send for Addresses<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: ?Sized + Send + Sync> Sync for Addresses<T> {}

impl<T: ?Sized> Addresses<T> {
    /// Returns the data of a round for reading.
    ///
    /// # Safety
    /// As for [`Value::read`], and the address must be valid.
    #[inline]
    pub(crate) unsafe fn read<'g>(&self, round: u64) -> &'g T {
        // SAFETY: the address is valid and no `&mut` to the data exists during `'g`: the caller
        // guarantees both.
        unsafe { &*self.0[(round & 1) as usize] }
    }

    /// Returns the data of a round for writing.
    ///
    /// # Safety
    /// As for [`Value::write`], and the address must be valid.
    #[inline]
    pub(crate) unsafe fn write<'g>(&self, round: u64) -> &'g mut T {
        // SAFETY: the address is valid and no other reference to the data exists during `'g`: the
        // caller guarantees both.
        unsafe { &mut *self.0[(round & 1) as usize] }
    }
}

/// A named resource with a strict queue of readers and writers, usually with data of type `T`.
///
/// The location owns the data, which is accessible only under a grant: of a
/// [handle](crate::handle::Handle), or of a task in an [`Overlay`](crate::Overlay). A
/// `Location<()>` orders tasks that share something which lives elsewhere. Cloning creates another
/// reference to the same location.
///
/// ```
/// use syncline_overlay::Location;
///
/// let total = Location::new("total", 0_u64);
/// let (mut first, mut second) = (total.writer(), total.reader());
/// first.post(); // the order of the posts ...
/// second.post();
/// std::thread::scope(|s| {
///     // ... decides the order of the grants, not the start of the threads
///     s.spawn(move || assert_eq!(*second.acquire().unwrap(), 7));
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
/// and cannot be sent to other threads if its type forbids it:
/// ```compile_fail,E0277
/// # use syncline_overlay::Location;
/// let location = Location::new("x", std::cell::Cell::new(1));
/// std::thread::spawn(move || location.reader());
/// ```
pub struct Location<T: ?Sized> {
    pub(crate) core: Arc<Core>,
    pub(crate) value: Arc<Value<T>>,
    /// Makes a pointer to the data from the address of its first byte, if a run on a team has them
    /// elsewhere.
    pub(crate) rebase: Option<fn(*mut u8, usize) -> *mut T>,
}

impl<T> Location<T> {
    /// Creates a location that owns `value`. The name appears in errors and drawings.
    ///
    /// In a run [on a team](crate::Checked::run_on), tasks of one member use it, or of several
    /// members if `T` has no bytes, as in a `Location<()>`.
    pub fn new(name: impl Into<String>, value: T) -> Self {
        let control = size_of::<T>() == 0;
        let bytes = control.then_some(Bytes { first: std::ptr::null_mut(), len: 0, of: "nothing" });
        Location {
            core: Arc::new(Core::new(name.into(), bytes, None)),
            value: Arc::new(Value(UnsafeCell::new(value))),
            rebase: None,
        }
    }

    /// Creates a location that owns a plain value: one whose bytes are all that there is to it, as
    /// of a number, or of an array or `#[repr(C)]` struct of numbers. In a run [on a
    /// team](crate::Checked::run_on), tasks of any members use it.
    ///
    /// ```
    /// use syncline_overlay::Location;
    ///
    /// let position = Location::plain("position", [0.0, 0.5]);
    /// assert_eq!(position.reader().acquire().unwrap()[1], 0.5);
    /// ```
    pub fn plain(name: impl Into<String>, value: T) -> Self
    where
        T: Pod,
    {
        let value = Arc::new(Value(UnsafeCell::new(value)));
        let first = value.0.get().cast();
        let bytes = Bytes { first, len: size_of::<T>(), of: type_name::<T>() };
        let core = Arc::new(Core::new(name.into(), Some(bytes), None));
        Location { core, value, rebase: Some(|first, _| first.cast()) }
    }

    /// Creates a location that owns a value of any type that serde serialises. In a run [on a
    /// team](crate::Checked::run_on), tasks of any members use it.
    ///
    /// `bound` is the number of bytes that the encoded value (in the format of postcard) may take;
    /// members reserve this many, and a release sends those that the value takes. Nothing is
    /// encoded in a run on threads, nor at a location that tasks of one member use. Otherwise a
    /// task has a decoded copy for each of its requests. The copy is decoded when another task has
    /// written a new version, and encoded after each round that writes. A value that takes more
    /// than `bound` bytes is an error of the task that wrote it. A task that reads must not change
    /// the value (as a cell inside it would allow): other tasks do not see the change. Bytes that
    /// do not decode are an error of the task that has the grant. So are values that are nested
    /// deeper than 256 levels, as a linked list is, or have more than 65 536 elements that take no
    /// bytes.
    ///
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
    ///
    /// // Two hosts, as far as the members can tell.
    /// let results = Team::hosts(2).quiet().run(|me| {
    ///     let path = Location::wire("path", 1 << 10, Vec::<String>::new());
    ///     let mut overlay = Overlay::new();
    ///     for rank in 0..me.size() {
    ///         let name = format!("rank {rank}");
    ///         overlay.task(name.clone(), path.write(), move |path, _| path.push(name.clone()));
    ///     }
    ///     let mut overlay = overlay.check(Initial::Program)?;
    ///     overlay.run_on(me, Runner::pool(1), Stop::after(2))?;
    ///     let path = path.reader().acquire()?.join(", ");
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(path)
    /// })?;
    /// for path in results {
    ///     assert_eq!(path?, "rank 0, rank 1, rank 0, rank 1");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn wire(name: impl Into<String>, bound: usize, value: T) -> Self
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let value = Arc::new(Value(UnsafeCell::new(value)));
        let wire = Wire::new(value.0.get(), bound);
        let (first, len) = (std::ptr::null_mut(), wire.len());
        let bytes = Bytes { first, len, of: type_name::<T>() };
        let core = Arc::new(Core::new(name.into(), Some(bytes), Some(wire)));
        Location { core, value, rebase: Some(|first, _| first.cast()) }
    }
}

impl<E: Pod> Location<[E]> {
    /// Creates a location that owns a slice of plain values, such as numbers. In a run [on a
    /// team](crate::Checked::run_on), tasks of any members use it.
    ///
    /// ```
    /// use syncline_overlay::Location;
    ///
    /// let row = Location::slice("row", vec![0.0; 1000]);
    /// row.writer().acquire().unwrap()[999] = 1.0;
    /// assert_eq!(row.reader().acquire().unwrap().len(), 1000);
    /// ```
    pub fn slice(name: impl Into<String>, values: impl IntoIterator<Item = E>) -> Self {
        let cells: Arc<[UnsafeCell<E>]> = values.into_iter().map(UnsafeCell::new).collect();
        // SAFETY: the pointer comes from `into_raw` of an `Arc<[UnsafeCell<E>]>`. `Value<[E]>` is
        // a transparent wrapper of `UnsafeCell<[E]>`, which has the size and the alignment of
        // `[E]`, as has `[UnsafeCell<E>]` with the same number of elements.
        let value = unsafe { Arc::from_raw(Arc::into_raw(cells) as *const Value<[E]>) };
        let data = value.0.get();
        let (first, len) = (data.cast(), data.len() * size_of::<E>());
        let bytes = Bytes { first, len, of: type_name::<E>() };
        let core = Arc::new(Core::new(name.into(), Some(bytes), None));
        Location { core, value, rebase: Some(rebase) }
    }

    /// Creates the location of a slice of `len` values without the values, for a run on a team: a
    /// member needs no memory for a location that none of its tasks uses, and none for the values
    /// before the first write, if no task reads them. Tasks of several members use it: otherwise
    /// their slices are empty.
    #[doc(hidden)]
    pub fn absent(name: impl Into<String>, len: usize) -> Self {
        let Location { value, .. } = Location::slice("", []);
        let len = len * size_of::<E>();
        let bytes = Bytes { first: std::ptr::null_mut(), len, of: type_name::<E>() };
        let core = Arc::new(Core::new(name.into(), Some(bytes), None));
        Location { core, value, rebase: Some(rebase) }
    }
}

/// Makes a pointer to a slice of the given number of bytes.
fn rebase<E>(first: *mut u8, len: usize) -> *mut [E] {
    std::ptr::slice_from_raw_parts_mut(first.cast::<E>(), len / size_of::<E>().max(1))
}

impl<T: ?Sized> Location<T> {
    /// The addresses of the location's own data.
    pub(crate) fn own_addresses(&self) -> Addresses<T> {
        Addresses([self.value.0.get(); 2])
    }

    /// The addresses of the data in this memory.
    pub(crate) fn addresses(&self, placement: Placement) -> Addresses<T> {
        match (placement, self.rebase, &self.core.bytes) {
            (Placement::Shared(first), Some(rebase), Some(bytes)) => {
                Addresses(first.map(|first| rebase(first, bytes.len)))
            }
            _ => self.own_addresses(),
        }
    }

    /// Returns the name of the location.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Returns the data, if this is the last reference: no handle, task or clone is left.
    ///
    /// # Errors
    /// Returns the location itself if it is still in use.
    pub fn into_inner(self) -> Result<T, Self>
    where
        T: Sized,
    {
        let Location { core, value, rebase } = self;
        Arc::try_unwrap(value).map(|v| v.0.into_inner()).map_err(|value| Location {
            core,
            value,
            rebase,
        })
    }

    /// Removes the poison of a panic: the caller declares the data sound.
    pub fn clear_poison(&self) {
        self.core.raw.clear_poison();
    }
}

impl<T: ?Sized> Clone for Location<T> {
    fn clone(&self) -> Self {
        let (core, value) = (Arc::clone(&self.core), Arc::clone(&self.value));
        Location { core, value, rebase: self.rebase }
    }
}

impl<T: ?Sized> fmt::Debug for Location<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_queue_and_the_near_nodes_are_neighbours() {
        assert_eq!(std::mem::offset_of!(Core, raw), 0);
        assert!(std::mem::offset_of!(Core, nodes) <= 64);
    }
}
