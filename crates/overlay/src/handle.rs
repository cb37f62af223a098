//! Handles and guards: ordered locks for direct use, without an overlay.
//!
//! An iterative task posts its first request and then loops: acquire, work, [`next`](Guard::next).
//! The last iteration ends by dropping the guard.

pub use crate::handle::future::Granted;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use syncline_signal::Policy;
use syncline_trace::{Activity, span};

use crate::error::AcquireError;
use crate::location::{Core, Location};
use crate::nodes::BY_HAND;
use crate::raw::{AccessMode, Nodes, Section};
use crate::wakers::Wakes;

pub(crate) mod future;

mod mode {
    /// The access mode of a handle's requests, as a type.
    pub trait Mode {
        const KIND: crate::raw::AccessMode;
    }
}
use mode::Mode;
use sealed::Queueing;

/// The mode of handles whose requests are inclusive: read access, shared with adjacent readers.
#[derive(Debug)]
pub enum Inclusive {}
/// The mode of handles whose requests are exclusive: write access, alone.
#[derive(Debug)]
pub enum Exclusive {}

impl Mode for Inclusive {
    const KIND: AccessMode = AccessMode::Inclusive;
}
impl Mode for Exclusive {
    const KIND: AccessMode = AccessMode::Exclusive;
}

/// A task's access to a location: it posts a request, acquires the grant, and goes on to the next
/// request.
///
/// Posting is separate from acquiring: a post takes a position in the queue and never blocks. A
/// handle has at most one pending request (R3). Access belongs to the handle, not to a thread: a
/// handle with a posted request may be sent to another thread. Dropping the handle abandons its
/// request without waiting; the queue then skips it.
///
/// # Memory ordering
/// Everything done under grants ahead in the queue happens before everything done under this grant.
///
/// # Examples
/// Two tasks that alternate, for any number of iterations:
/// ```
/// use syncline_overlay::Location;
///
/// let counter = Location::new("counter", 0);
/// let (mut even, mut odd) = (counter.writer(), counter.writer());
/// even.post();
/// odd.post();
/// std::thread::scope(|s| {
///     for (mut handle, parity) in [(odd, 1), (even, 0)] {
///         s.spawn(move || {
///             for _ in 0..1000 {
///                 let mut n = handle.acquire().unwrap();
///                 assert_eq!(*n % 2, parity);
///                 *n += 1;
///                 n.next(); // posts the next request, then releases this one
///             }
///         });
///     }
/// });
/// ```
/// A handle has one guard at a time:
/// ```compile_fail,E0499
/// # use syncline_overlay::Location;
/// let location = Location::new("x", 1);
/// let mut handle = location.writer();
/// let one = handle.acquire().unwrap();
/// let two = handle.acquire().unwrap();
/// drop((one, two));
/// ```
/// and the data cannot be accessed after `next`:
/// ```compile_fail,E0382
/// # use syncline_overlay::Location;
/// let location = Location::new("x", 1);
/// let mut handle = location.writer();
/// let mut guard = handle.acquire().unwrap();
/// guard.next();
/// *guard = 2;
/// ```
pub struct Handle<T: ?Sized, M: Mode> {
    location: Location<T>,
    node: u32,
    /// The name of the task, for the error that other handles return if it panics.
    owner: Option<Box<str>>,
    /// Whether a request is posted, or granted and not yet released.
    pending: bool,
    /// The number of grants of the node, up to and including that of the pending request.
    grants: u64,
    mode: PhantomData<fn(M)>,
}

impl<T: ?Sized> Location<T> {
    /// Creates a handle for inclusive requests.
    #[must_use]
    pub fn reader(&self) -> Handle<T, Inclusive> {
        Handle::new(self.clone())
    }

    /// Creates a handle for exclusive requests.
    #[must_use]
    pub fn writer(&self) -> Handle<T, Exclusive> {
        Handle::new(self.clone())
    }
}

/// A handle for inclusive requests.
pub type Reader<T> = Handle<T, Inclusive>;
/// A handle for exclusive requests.
pub type Writer<T> = Handle<T, Exclusive>;

/// Access to the data of a location, until the guard is dropped or goes on to the
/// [next](Guard::next) request.
///
/// Dropping an exclusive guard during a panic poisons the location.
#[must_use = "the location is released as soon as the guard is dropped"]
pub struct Guard<'h, T: ?Sized, M: Mode> {
    handle: &'h mut Handle<T, M>,
    /// Whether the thread was already unwinding when the guard was created: then dropping it does
    /// not poison.
    unwinding: bool,
}

impl<T: ?Sized, M: Mode> Handle<T, M> {
    pub(crate) fn new(location: Location<T>) -> Self {
        let node = location.core.nodes.take(BY_HAND);
        // A recycled node keeps its grant count, so this handle starts from that count.
        let grants = location.core.nodes.node(node).grants().get();
        Handle { location, node, owner: None, pending: false, grants, mode: PhantomData }
    }

    /// Sets the name of the task that uses the handle. Without it, errors show the name of the
    /// thread.
    #[must_use]
    pub fn named(mut self, task: &str) -> Self {
        self.owner = Some(task.into());
        self
    }

    /// Posts a request at the end of the queue and returns at once. Does nothing while a request is
    /// pending.
    pub fn post(&mut self) {
        if !self.pending {
            let core = Arc::clone(&self.location.core);
            self.post_in(&mut core.raw.section());
        }
    }

    /// Blocks until the pending request is granted. Posts a request first if none is pending.
    ///
    /// # Errors
    /// [`AcquireError::Poisoned`] if a writer panicked; the request is then released.
    pub fn acquire(&mut self) -> Result<Guard<'_, T, M>, AcquireError> {
        self.wait(None)
    }

    /// Like [`acquire`](Handle::acquire), but times out at `deadline`. The request then stays in
    /// the queue.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`] at the deadline; [`AcquireError::Poisoned`] if a writer panicked.
    pub fn acquire_until(&mut self, deadline: Instant) -> Result<Guard<'_, T, M>, AcquireError> {
        self.wait(Some(deadline))
    }

    /// Returns the guard if the request is granted, or `None` while it waits. Posts a request first
    /// if none is pending.
    ///
    /// # Errors
    /// [`AcquireError::Poisoned`] if a writer panicked; the request is then released.
    pub fn try_acquire(&mut self) -> Result<Option<Guard<'_, T, M>>, AcquireError> {
        self.post();
        if self.core().nodes.node(self.node).grants().get() < self.grants {
            return Ok(None);
        }
        self.guard().map(Some)
    }

    /// Posts a request, unless one is pending, and returns a future of its grant.
    ///
    /// The request takes its position in the queue at the call, not at the first poll: the order of
    /// the calls decides, whatever the executor does. See [`Granted`] for the effect of dropping
    /// the future.
    ///
    /// # Errors
    /// The future resolves to [`AcquireError::Poisoned`] if a writer panicked; the request is then
    /// released.
    ///
    /// # Examples
    /// Two alternating tasks under tokio; any other executor works as well:
    /// ```
    /// use syncline_overlay::{Location, error::AcquireError};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let counter = Location::new("counter", 0);
    /// let (mut even, mut odd) = (counter.writer(), counter.writer());
    /// even.post();
    /// odd.post();
    /// let tasks = [(odd, 1), (even, 0)].map(|(mut handle, parity)| {
    ///     tokio::spawn(async move {
    ///         for _ in 0..1000 {
    ///             let mut n = handle.granted().await?;
    ///             assert_eq!(*n % 2, parity);
    ///             *n += 1;
    ///             n.next(); // posts the next request, then releases this one
    ///         }
    ///         Ok::<(), AcquireError>(())
    ///     })
    /// });
    /// for task in tasks {
    ///     task.await??;
    /// }
    /// assert_eq!(*counter.reader().granted().await?, 2000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn granted(&mut self) -> Granted<'_, T, M> {
        self.post();
        Granted::new(self)
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<Guard<'_, T, M>, AcquireError> {
        self.post();
        let granted = self.core().nodes.node(self.node).grants();
        let waits = span(Activity::AwaitLocation, self.core().traced, 0);
        let waited = granted.wait_until(self.grants, &Policy::default(), deadline);
        drop(waits);
        if waited.is_err() {
            return Err(AcquireError::TimedOut { location: self.location.name().to_owned() });
        }
        self.guard()
    }

    fn guard(&mut self) -> Result<Guard<'_, T, M>, AcquireError> {
        if let Some(task) = self.core().poisoned() {
            self.abandon();
            return Err(AcquireError::Poisoned { location: self.location.name().to_owned(), task });
        }
        Ok(Guard { handle: self, unwinding: std::thread::panicking() })
    }

    /// Withdraws the pending request, if there is one. Does not wait.
    pub fn abandon(&mut self) {
        if std::mem::take(&mut self.pending) {
            let core = &*self.location.core;
            let mut wakes = Wakes::default();
            let mut section = core.raw.section();
            section.abandon(&core.nodes, self.node, &mut |n| core.tell(n, &mut wakes));
            core.parted(&section, M::KIND);
            drop(section);
            // The request may have been granted just before it was abandoned.
            self.grants = core.nodes.node(self.node).grants().get();
            core.nodes.forget_waker(self.node);
        }
    }

    fn core(&self) -> &Core {
        &self.location.core
    }
}

impl<T: ?Sized, M: Mode> Drop for Handle<T, M> {
    fn drop(&mut self) {
        self.abandon();
        self.core().nodes.put_back(self.node);
    }
}

impl<T: ?Sized, M: Mode> fmt::Debug for Handle<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("location", &self.location.name())
            .field("kind", &M::KIND)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl<T: ?Sized, M: Mode> Guard<'_, T, M> {
    /// Posts the next request of the handle and then releases this one, in one step (R2): an
    /// iterative task thus keeps its position in the order.
    pub fn next(self) {
        let handle = &mut *std::mem::ManuallyDrop::new(self).handle;
        handle.grants += 1;
        let core = &*handle.location.core;
        let mut wakes = Wakes::default();
        core.raw.section().next(&core.nodes, handle.node, &mut |n| core.tell(n, &mut wakes));
    }
}

impl<T: ?Sized, M: Mode> Deref for Guard<'_, T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the handle holds a grant for as long as the guard exists, and `&self` borrows the
        // guard. No `&mut` from `deref_mut` coexists, as that borrows the guard exclusively. The
        // handle's `location` keeps the allocation alive.
        unsafe { self.handle.location.value.read() }
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T, Exclusive> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the handle holds an exclusive grant for as long as the guard exists. `&mut self`
        // borrows the guard exclusively, so no other reference under this grant coexists. The
        // handle's `location` keeps the allocation alive.
        unsafe { self.handle.location.value.write() }
    }
}

impl<T: ?Sized, M: Mode> Drop for Guard<'_, T, M> {
    fn drop(&mut self) {
        if !self.unwinding && std::thread::panicking() && M::KIND == AccessMode::Exclusive {
            let thread = std::thread::current();
            let task =
                self.handle.owner.as_deref().or(thread.name()).unwrap_or("a thread without name");
            self.handle.core().poison(task);
        }
        self.handle.pending = false;
        let core = self.handle.core();
        let mut wakes = Wakes::default();
        let mut section = core.raw.section();
        section.release(&core.nodes, self.handle.node, &mut |n| core.tell(n, &mut wakes));
        core.parted(&section, M::KIND);
    }
}

impl<T: ?Sized + fmt::Debug, M: Mode> fmt::Debug for Guard<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&&**self).finish()
    }
}

mod sealed {
    use std::sync::Arc;

    /// The operations that `post_all` needs of a handle.
    pub trait Queueing {
        fn shared_core(&self) -> Arc<crate::location::Core>;
        fn post_in(&mut self, section: &mut crate::raw::Section<'_>);
    }
}

/// A handle of any data type and mode, as an argument of [`post_all`].
pub trait Post: sealed::Queueing {}

impl<T: ?Sized, M: Mode> Post for Handle<T, M> {}

impl<T: ?Sized, M: Mode> sealed::Queueing for Handle<T, M> {
    fn shared_core(&self) -> Arc<Core> {
        Arc::clone(&self.location.core)
    }

    fn post_in(&mut self, section: &mut Section<'_>) {
        if !std::mem::replace(&mut self.pending, true) {
            self.grants += 1;
            let core = &*self.location.core;
            // A post grants at most the posted request itself, whose waker is registered only after
            // the post: no waker is taken.
            section.post(&core.nodes, self.node, M::KIND, &mut |n| {
                core.tell(n, &mut Wakes::default())
            });
            core.joined(section, M::KIND);
        }
    }
}

/// Posts the first requests of one task over several locations in a single step (R4).
///
/// Without it, two tasks that both need `a` and `b` could each be first in one queue and second in
/// the other, and wait for each other without end. Handles with a pending request are skipped.
///
/// The tasks of a running overlay cannot interleave with a post over several of their locations.
/// Tasks that use handles can: they go on at one location after the other, so all of them must have
/// posted before the first goes on.
///
/// ```
/// use syncline_overlay::{Location, handle::post_all};
///
/// let (a, b) = (Location::new("a", 1), Location::new("b", 2));
/// let (mut x, mut y) = (a.writer(), b.reader());
/// post_all(&mut [&mut x, &mut y]);
/// *x.acquire().unwrap() += *y.acquire().unwrap();
/// ```
pub fn post_all(handles: &mut [&mut dyn Post]) {
    let mut handles: Vec<_> = handles.iter_mut().map(|h| (h.shared_core(), h)).collect();
    // Every caller locks in the order of addresses, so callers cannot deadlock.
    handles.sort_by_key(|(core, _)| Arc::as_ptr(core));
    let cores: Vec<_> = handles.iter().map(|(core, _)| Arc::clone(core)).collect();
    let mut sections: Vec<(*const Core, Section<'_>)> = Vec::with_capacity(cores.len());
    for core in &cores {
        if sections.last().is_none_or(|(last, _)| *last != Arc::as_ptr(core)) {
            sections.push((Arc::as_ptr(core), core.raw.section()));
        }
    }
    let mut at = 0;
    for (core, handle) in &mut handles {
        while sections[at].0 != Arc::as_ptr(core) {
            at += 1;
        }
        handle.post_in(&mut sections[at].1);
    }
}
