//! Futures of grants, polled directly: positions, cancellation, wakers, and random steps against a
//! plain queue.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::polling::{block_on, poll};
use crate::common::{Random, late, seeds, within};
use syncline_overlay::AccessMode;
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Stop,
    handle::{Exclusive, Granted, Guard, post_all},
};

/// A waker that counts.
#[derive(Default)]
struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::<Bell>::default();
    (Arc::clone(&bell), Waker::from(bell))
}

#[test]
fn the_place_is_taken_at_the_call() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2, mut w3) = (x.writer(), x.writer(), x.writer());
    let one = w1.granted();
    let mut two = w2.granted();
    w3.post();
    let (bell, waker) = bell();
    assert!(poll(&mut two, &waker).is_pending(), "the first holds, polled or not");
    assert!(w3.try_acquire().unwrap().is_none());
    *block_on(one).unwrap() = 1;
    assert_eq!(bell.rings(), 1);
    *block_on(two).unwrap() = 2;
    assert_eq!(*w3.try_acquire().unwrap().expect("the last one"), 2);
}

#[test]
fn a_request_posted_before_keeps_its_place() {
    let (x, y) = (Location::new("x", 0), Location::new("y", 0));
    let (mut w1, mut w2, mut w3) = (x.writer(), x.writer(), y.writer());
    post_all(&mut [&mut w1, &mut w3]);
    let mut late = w2.granted();
    block_on(async {
        let (x, y) = (w1.granted().await.unwrap(), w3.granted().await.unwrap());
        assert_eq!((*x, *y), (0, 0));
        assert!(poll(&mut late, Waker::noop()).is_pending());
    });
    assert!(block_on(late).is_ok());
}

#[test]
fn a_dropped_future_is_skipped_polled_or_not_granted_or_not() {
    for (polled, granted, behind) in (0..8).map(|i| (i & 1 != 0, i & 2 != 0, i & 4 != 0)) {
        let x = Location::new("x", 0);
        let (mut w1, mut w2, mut w3) = (x.writer(), x.writer(), x.writer());
        w1.post();
        let (bell, waker) = bell();
        let mut quits = w2.granted();
        if polled {
            assert!(poll(&mut quits, &waker).is_pending());
        }
        if behind {
            w3.post();
        }
        if granted {
            w1.abandon();
        }
        assert_eq!(bell.rings(), u64::from(polled && granted));
        drop(quits);
        w1.abandon();
        assert_eq!(bell.rings(), u64::from(polled && granted), "it is not woken after the drop");
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1, "no waker is kept");
        assert!(w3.try_acquire().unwrap().is_some());
    }
}

#[test]
fn a_poll_with_another_waker_replaces_the_first() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2) = (x.writer(), x.writer());
    w1.post();
    let mut future = w2.granted();
    let ((first, old), (second, new)) = (bell(), bell());
    for waker in [&old, &old, &new, &new] {
        assert!(poll(&mut future, waker).is_pending());
    }
    drop(old);
    assert_eq!(Arc::strong_count(&first), 1);
    assert_eq!(
        Arc::strong_count(&second),
        3,
        "polling again with the same waker puts no second one"
    );
    drop(w1);
    assert_eq!((first.rings(), second.rings()), (0, 1));
    assert!(poll(&mut future, &new).is_ready());
}

/// One release grants many readers, more than there is room for on the stack; all are woken.
#[test]
fn a_hundred_readers_are_woken_together_in_order() {
    struct Note(usize, Arc<Mutex<Vec<usize>>>);
    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let x = Location::new("x", 0);
    let mut writer = x.writer();
    writer.post();
    let mut readers: Vec<_> = (0..100).map(|_| x.reader()).collect();
    let mut futures: Vec<_> = readers.iter_mut().map(|r| r.granted()).collect();
    let woken = Arc::<Mutex<Vec<usize>>>::default();
    for (i, future) in futures.iter_mut().enumerate() {
        assert!(poll(future, &Waker::from(Arc::new(Note(i, Arc::clone(&woken))))).is_pending());
    }
    drop(writer);
    assert_eq!(*woken.lock().unwrap(), (0..100).collect::<Vec<_>>());
    assert!(futures.iter_mut().all(|f| poll(f, Waker::noop()).is_ready()));
}

/// Wakers are woken outside the queue: this waker posts, releases and abandons when it is woken,
/// replaced or dropped.
#[test]
fn a_waker_may_use_the_location_when_it_is_woken_and_when_it_is_dropped() {
    struct Meddler(Location<u32>);
    impl Wake for Meddler {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Meddler {
        fn drop(&mut self) {
            let mut other = self.0.writer();
            let _ = other.try_acquire().unwrap();
        }
    }
    within(|| {
        let x = Location::new("x", 0);
        let meddler = || Waker::from(Arc::new(Meddler(x.clone())));
        let (mut w1, mut w2) = (x.writer(), x.writer());
        w1.post();
        let mut future = w2.granted();
        assert!(poll(&mut future, &meddler()).is_pending());
        assert!(poll(&mut future, &meddler()).is_pending()); // replaced
        drop(future); // dropped
        let mut future = w2.granted();
        assert!(poll(&mut future, &meddler()).is_pending());
        drop(w1); // woken
        assert!(poll(&mut future, &meddler()).is_ready());
    });
}

#[test]
fn a_waker_that_panics_costs_nobody_else_the_wake_up() {
    struct Broken;
    impl Wake for Broken {
        fn wake(self: Arc<Self>) {
            panic!("a broken waker");
        }
    }
    let x = Location::new("x", 0);
    let (mut w, mut r1, mut r2) = (x.writer(), x.reader(), x.reader());
    w.post();
    let (mut one, mut two) = (r1.granted(), r2.granted());
    let (bell, waker) = bell();
    assert!(poll(&mut one, &Waker::from(Arc::new(Broken))).is_pending());
    assert!(poll(&mut two, &waker).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| w.abandon())).is_err());
    assert_eq!(bell.rings(), 1);
    assert!(poll(&mut one, &waker).is_ready() && poll(&mut two, &waker).is_ready());
}

#[test]
fn a_leaked_future_leaves_its_request_to_the_handle() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2) = (x.writer(), x.writer());
    w1.post();
    let (bell, waker) = bell();
    let mut future = w2.granted();
    assert!(poll(&mut future, &waker).is_pending());
    std::mem::forget(future);
    drop(w1);
    assert_eq!(bell.rings(), 1);
    *w2.acquire_until(late()).unwrap() = 1;
    assert!(block_on(w2.granted()).is_ok());
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn a_future_is_not_polled_after_it_was_ready() {
    let x = Location::new("x", 0);
    let mut writer = x.writer();
    let mut future = writer.granted();
    assert!(poll(&mut future, Waker::noop()).is_ready());
    let _ = poll(&mut future, Waker::noop());
}

/// The action of a directly polled task on its guard.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Hold,
    Next,
    Again,
    End,
}

/// A directly polled task: it awaits, holds until it is ordered to release, and repeats.
struct Actor {
    body: Pin<Box<dyn Future<Output = ()>>>,
    order: Rc<Cell<Order>>,
    holds: Rc<Cell<bool>>,
    kind: AccessMode,
    waits: Option<(Arc<Bell>, Waker)>,
}

impl Actor {
    fn new(x: &Location<u64>, kind: AccessMode) -> Self {
        let (order, holds) = (Rc::new(Cell::new(Order::Hold)), Rc::new(Cell::new(false)));
        macro_rules! body {
            ($handle:expr) => {{
                let (mut handle, order, holds) = ($handle, Rc::clone(&order), Rc::clone(&holds));
                handle.post();
                Box::pin(async move {
                    while order.get() != Order::End {
                        let guard = handle.granted().await.unwrap();
                        order.set(Order::Hold);
                        holds.set(true);
                        poll_fn(|_| {
                            if order.get() == Order::Hold { Poll::Pending } else { Poll::Ready(()) }
                        })
                        .await;
                        holds.set(false);
                        match order.get() {
                            Order::Next => guard.next(),
                            _ => drop(guard),
                        }
                    }
                })
            }};
        }
        let body: Pin<Box<dyn Future<Output = ()>>> = match kind {
            AccessMode::Inclusive => body!(x.reader()),
            AccessMode::Exclusive => body!(x.writer()),
        };
        Actor { body, order, holds, kind, waits: None }
    }

    /// Polls with the previous waker, or with a new one. Returns true when the task has ended.
    fn poll(&mut self, anew: bool) -> bool {
        let (_, waker) = match &mut self.waits {
            Some(waits) if !anew => waits,
            waits => waits.insert(bell()),
        };
        self.body.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
    }
}

/// Returns whether a plain queue grants a request: it is the first, or all up to it read.
fn is_granted(queue: &[(usize, AccessMode)], actor: usize) -> bool {
    let at = queue.iter().position(|q| q.0 == actor).expect("in the queue");
    at == 0 || queue[..=at].iter().all(|q| q.1 == AccessMode::Inclusive)
}

/// Twelve tasks start, are polled with old and new wakers, advance, and are dropped, at random and
/// in every state. After each step the ready and woken tasks are those that the plain queue names.
#[test]
fn random_steps_agree_with_a_plain_queue() {
    const STEPS: usize = 4000;
    within(|| {
        let (mut granted, mut dropped_waiting, mut dropped_granted) = (0_u64, 0_u64, 0_u64);
        let seeds = seeds(0, 80);
        let runs = seeds.end - seeds.start;
        for seed in seeds {
            let mut random = Random::new(seed);
            let x = Location::new("x", 0_u64);
            let mut actors: [Option<Actor>; 12] = Default::default();
            let mut queue: Vec<(usize, AccessMode)> = Vec::new();
            let writers = random.within(1..=4);
            for _ in 0..STEPS {
                let a = random.within(0..=11);
                let Some(actor) = &mut actors[a] else {
                    let kind = if random.within(0..=4) < writers {
                        AccessMode::Exclusive
                    } else {
                        AccessMode::Inclusive
                    };
                    actors[a] = Some(Actor::new(&x, kind));
                    queue.push((a, kind));
                    continue;
                };
                if random.within(0..=9) == 0 {
                    if !actor.holds.get() {
                        *(if is_granted(&queue, a) {
                            &mut dropped_granted
                        } else {
                            &mut dropped_waiting
                        }) += 1;
                    }
                    actors[a] = None;
                    queue.retain(|q| q.0 != a);
                } else {
                    if actor.holds.get() {
                        let order = [Order::Next, Order::Again, Order::End][random.within(0..=2)];
                        actor.order.set(order);
                        queue.retain(|q| q.0 != a);
                        if order != Order::End {
                            queue.push((a, actor.kind));
                        }
                    }
                    let ends = actor.order.get() == Order::End;
                    let anew = actor.waits.as_ref().is_none_or(|(bell, _)| bell.rings() > 0)
                        || random.within(0..=1) == 0;
                    assert_eq!(actor.poll(anew), ends);
                    if ends {
                        actors[a] = None;
                    } else {
                        assert_eq!(actor.holds.get(), is_granted(&queue, a));
                        granted += u64::from(actor.holds.get());
                    }
                }
                for (a, actor) in actors.iter().enumerate() {
                    if let Some(Actor { waits: Some((bell, _)), holds, .. }) = actor {
                        assert!(holds.get() || bell.rings() == u64::from(is_granted(&queue, a)));
                    }
                }
            }
            drop(actors);
            assert!(x.writer().try_acquire().unwrap().is_some(), "nothing is left in the queue");
        }
        let steps = format!("{granted} granted, {dropped_waiting} and {dropped_granted} dropped");
        let is_fair = granted > 125 * runs && dropped_waiting.min(dropped_granted) * 2 > 25 * runs;
        assert!(is_fair, "{steps}: not a fair sample");
    });
}

/// A run that fails releases what its tasks hold, also to futures that await it.
#[test]
fn a_run_that_fails_wakes_those_who_await() {
    for runner in [Runner::pool(2), Runner::Threads] {
        within(move || {
            let x = Location::new("x", 0);
            let (mut outside, (bell, waker)) = (x.writer(), bell());
            let (slot, waiting) = (Mutex::new(Some(&mut outside)), Mutex::new(None));
            let mut overlay = Overlay::new();
            overlay.task("fails", x.write(), |x: &mut u32, step| {
                *x += 1;
                if step.iteration() < 3 {
                    return Ok(());
                }
                let mut future = slot.lock().unwrap().take().expect("one failure").granted();
                assert!(poll(&mut future, &waker).is_pending());
                *waiting.lock().unwrap() = Some(future);
                Err("enough")
            });
            let failed = overlay.check(Initial::Wave).unwrap().run(runner, Stop::after(10));
            assert!(failed.unwrap_err().to_string().contains("enough"));
            assert_eq!(bell.rings(), 1);
            let future = waiting.lock().unwrap().take().expect("it waits");
            assert_eq!(block_on(future).map(|n| *n), Ok(4));
        });
    }
}

#[test]
fn futures_and_guards_may_be_sent() {
    fn may_be_sent<T: Send + Sync + Unpin>() {}
    may_be_sent::<Granted<'_, Vec<u8>, Exclusive>>();
    may_be_sent::<Guard<'_, Vec<u8>, Exclusive>>();
}
