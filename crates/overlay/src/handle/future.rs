//! The future of a grant.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Guard, Handle, Mode};
use crate::error::AcquireError;

/// The future of a grant, returned by [`Handle::granted`]. It resolves to the guard.
///
/// It works with any executor: the thread that releases the location calls the waker of the last
/// poll, after it has left the location. A waiting future costs nothing until then. Wakers must not
/// panic.
///
/// # Order
/// The request is in the queue since the call of `granted`, or since it was posted before. Tasks
/// that await and threads that block share one queue. A granted request holds the location whether
/// or not the future is polled: do not set the future aside while waiting for a request behind it.
///
/// # Cancellation
/// Dropping the future before it is ready abandons the request, as [`Handle::abandon`] does: later
/// requests skip it, the drop does not wait, and a grant at that moment passes to the next request
/// in the queue. To stop waiting but keep the position, keep the future and poll it again later; it
/// is `Unpin`, so `&mut future` is a future too. For a time limit, use the executor's timer.
///
/// A task that is dropped while it holds the guard releases the location; its handle, when dropped,
/// abandons the request that [`Guard::next`] has posted. Neither poisons the location: only a panic
/// does.
///
/// # Threads
/// The guard may be held across an `.await`, and may move to another thread there, if `T` is `Send`
/// and `Sync`. Everything done under grants ahead in the queue happens before everything done under
/// this grant.
///
/// # Panics
/// `poll` panics if it is called again after the future was ready.
///
/// # Examples
/// Takes the first of two locations that is granted, and abandons the other request:
/// ```
/// use std::future::poll_fn;
/// use std::pin::Pin;
/// use std::task::Poll;
/// use syncline_overlay::Location;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let (a, b) = (Location::new("a", 1), Location::new("b", 2));
/// let mut busy = a.writer();
/// let held = busy.granted().await?;
///
/// let (mut x, mut y) = (a.reader(), b.reader());
/// let (mut one, mut other) = (x.granted(), y.granted());
/// let first = poll_fn(|cx| match Pin::new(&mut one).poll(cx) {
///     Poll::Pending => Pin::new(&mut other).poll(cx),
///     ready => ready,
/// });
/// assert_eq!(*first.await?, 2);
/// drop(one); // abandons
/// drop(held);
/// assert!(a.writer().try_acquire()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// Data that may not be shared between threads stays on one thread:
/// ```compile_fail,E0277
/// # use syncline_overlay::Location;
/// let mut handle = Location::new("x", std::cell::Cell::new(1)).writer();
/// tokio::spawn(async move { handle.granted().await.map(drop) });
/// ```
#[must_use = "a future that is dropped abandons its request"]
pub struct Granted<'h, T: ?Sized, M: Mode> {
    /// The handle, taken when the future is ready.
    handle: Option<&'h mut Handle<T, M>>,
}

impl<'h, T: ?Sized, M: Mode> Granted<'h, T, M> {
    /// Creates the future of a handle with a pending request.
    pub(super) fn new(handle: &'h mut Handle<T, M>) -> Self {
        Granted { handle: Some(handle) }
    }
}

impl<'h, T: ?Sized, M: Mode> Future for Granted<'h, T, M> {
    type Output = Result<Guard<'h, T, M>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(self.handle.is_some(), "a future of a grant was polled after it was ready");
        let granted = self.handle.take_if(|h| {
            let core = h.core();
            core.nodes.granted_or_wakes(&core.raw, h.node, h.grants, context.waker())
        });
        granted.map_or(Poll::Pending, |handle| Poll::Ready(handle.guard()))
    }
}

impl<T: ?Sized, M: Mode> Drop for Granted<'_, T, M> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.abandon();
        }
    }
}

impl<T: ?Sized, M: Mode> fmt::Debug for Granted<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Granted").field(&self.handle).finish()
    }
}
