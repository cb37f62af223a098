//! The future of a grant.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Guard, Handle, Mode};
use crate::error::AcquireError;

/// The future of a grant, from [`Handle::granted`]: it becomes the guard.
///
/// It knows no executor: whoever polls it is woken by its waker, from the thread that releases, when
/// that one has left the location. Until then it costs nothing. Wakers must not panic.
///
/// # Order
/// The request stands in the queue since `granted` was called, or since it was posted before. Tasks that
/// await and threads that block stand in one queue. A request that is granted holds the location, polled
/// or not: do not lay its future aside while you wait for somebody behind it.
///
/// # Cancellation
/// Dropping the future before it is ready abandons the request, as [`Handle::abandon`] does: later
/// requests skip it, the drop does not wait, and a grant that comes in that moment goes to the next in the
/// queue. To give up for a while and keep the place, keep the future and poll it again; it is `Unpin`, so
/// `&mut future` is a future too. A time limit is made of the executor's timer.
///
/// A task that is dropped while it holds the guard releases; its handle, when dropped, abandons what
/// [`Guard::next`] has posted. Neither poisons: only a panic does.
///
/// # Threads
/// The guard may be held across an `.await`, and may change threads there, if `T` is `Send` and `Sync`.
/// What happened under grants ahead in the queue happened before what is done under this one.
///
/// # Panics
/// `poll` panics when it is called again after the future was ready.
///
/// # Examples
/// The first of two locations, and the other request is given up:
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
/// Data that may not be shared between threads stay on one:
/// ```compile_fail,E0277
/// # use syncline_overlay::Location;
/// let mut handle = Location::new("x", std::cell::Cell::new(1)).writer();
/// tokio::spawn(async move { handle.granted().await.map(drop) });
/// ```
#[must_use = "a future that is dropped abandons its request"]
pub struct Granted<'h, T, M: Mode> {
    /// Taken when ready.
    handle: Option<&'h mut Handle<T, M>>,
}

impl<'h, T, M: Mode> Granted<'h, T, M> {
    /// Of a handle with a pending request.
    pub(super) fn new(handle: &'h mut Handle<T, M>) -> Self {
        Granted { handle: Some(handle) }
    }
}

impl<'h, T, M: Mode> Future for Granted<'h, T, M> {
    type Output = Result<Guard<'h, T, M>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(self.handle.is_some(), "a future of a grant was polled after it was ready");
        let granted =
            self.handle.take_if(|h| h.core().granted_or_wakes(h.node, h.grants, context.waker()));
        granted.map_or(Poll::Pending, |handle| Poll::Ready(handle.guard()))
    }
}

impl<T, M: Mode> Drop for Granted<'_, T, M> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.abandon();
        }
    }
}

impl<T, M: Mode> fmt::Debug for Granted<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Granted").field(&self.handle).finish()
    }
}
