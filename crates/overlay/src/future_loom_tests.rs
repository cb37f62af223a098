//! Loom models of futures of grants: real locations and handles, polled directly. Run with
//! `make loom`.
//!
//! Handles are created before the threads: a lock that loom does not model guards the list of free
//! nodes. In a planted model the first thread blocks, since loom cannot unwind the others. Its
//! values are not dropped then, since a blocked model cannot enter a section.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;

use syncline_signal::{Policy, Signal, plant};

use crate::loom_tests::model;
use crate::{
    Location,
    handle::{Guard, Writer, future::Granted},
};

/// A waker that counts, and can be waited for.
struct Bell(Signal);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.increment();
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell(Signal::new(0)));
    (Arc::clone(&bell), Waker::from(bell))
}

type Future32<'h> = Granted<'h, u32, crate::handle::Exclusive>;
type Guard32<'h> = Guard<'h, u32, crate::handle::Exclusive>;

fn poll<'h>(future: &mut Future32<'h>, waker: &Waker) -> Option<Guard32<'h>> {
    match Pin::new(future).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(guard) => Some(guard.unwrap()),
        Poll::Pending => None,
    }
}

/// A minimal executor: it polls again only after a wake-up.
fn block_on(future: Future32<'_>) -> Guard32<'_> {
    let (bell, waker) = bell();
    let mut future = ManuallyDrop::new(future); // a ready future has nothing to drop
    for rings in 1.. {
        if let Some(guard) = poll(&mut future, &waker) {
            return guard;
        }
        bell.0.wait_until(rings, &Policy::default(), None).unwrap();
    }
    unreachable!()
}

/// Returns a location, and handles that have posted in this order. The first one is granted.
fn queue<const N: usize>() -> (Location<u32>, [Writer<u32>; N]) {
    let location = Location::new("x", 0);
    let mut handles = std::array::from_fn(|_| location.writer());
    handles.iter_mut().for_each(Writer::post);
    (location, handles)
}

fn add_one(handle: &mut Writer<u32>) {
    *handle.try_acquire().unwrap().expect("granted") += 1;
}

/// The grant comes before, during and after the poll.
fn grant_and_poll() {
    model(|| {
        let (_, [mut first, second]) = queue();
        let mut second = ManuallyDrop::new(second);
        let holder = thread::spawn(move || add_one(&mut first));
        let mut guard = block_on(second.granted());
        assert_eq!(*guard, 1);
        *guard += 1;
        drop(guard);
        holder.join().unwrap();
        drop(ManuallyDrop::into_inner(second));
    });
}

#[test]
fn no_wake_up_is_lost() {
    grant_and_poll();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_lost_wake_up_is_noticed() {
    plant::with("future: no second look", grant_and_poll);
}

/// A future is polled with one waker and then with another, which alone must be woken.
fn poll_with_two_wakers() {
    model(|| {
        let (_, [mut first, second]) = queue();
        let mut second = ManuallyDrop::new(second);
        let mut future = ManuallyDrop::new(second.granted());
        let (_, waker) = bell();
        assert!(poll(&mut future, &waker).is_none());
        let holder = thread::spawn(move || add_one(&mut first));
        assert_eq!(*block_on(ManuallyDrop::into_inner(future)), 1);
        holder.join().unwrap();
        drop(ManuallyDrop::into_inner(second));
    });
}

#[test]
fn the_last_waker_is_woken() {
    poll_with_two_wakers();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_waker_that_is_not_replaced_is_noticed() {
    plant::with("future: first waker kept", poll_with_two_wakers);
}

/// A future is dropped at the moment of its grant: the next request is granted and woken.
#[test]
fn a_future_dropped_in_the_moment_of_its_grant_hands_it_on() {
    model(|| {
        let (_, [mut first, mut second, third]) = queue();
        let mut third = ManuallyDrop::new(third);
        let quitter = thread::spawn(move || {
            let (_, waker) = bell();
            let mut future = second.granted();
            drop(poll(&mut future, &waker));
        });
        add_one(&mut first);
        assert_eq!(*block_on(third.granted()), 1);
        quitter.join().unwrap();
        drop(ManuallyDrop::into_inner(third));
    });
}

/// A future and a thread alternate twice: the waker of the first turn is gone in the second.
#[test]
fn a_future_and_a_thread_alternate() {
    model(|| {
        let (_, [mut first, second]) = queue();
        let mut second = ManuallyDrop::new(second);
        let thread = thread::spawn(move || {
            let mut n = first.acquire().unwrap();
            *n += 1;
            n.next();
            let mut n = first.acquire().unwrap();
            assert_eq!(*n, 2);
            *n += 1;
        });
        let mut n = block_on(second.granted());
        assert_eq!(*n, 1);
        *n += 1;
        n.next();
        assert_eq!(*block_on(second.granted()), 3);
        thread.join().unwrap();
        drop(ManuallyDrop::into_inner(second));
    });
}
