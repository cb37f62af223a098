//! Waits at barriers and for locks in traces. The program records in memory, and its tests are told
//! apart by the numbers of their objects.
#![cfg(not(loom))]

use std::sync::Arc;
use std::time::Duration;

use syncline_memory::Segment;
use syncline_signal::{Policy, Signal};
use syncline_sync::barrier::{Combined, Counter, Dissemination, RawCounter};
use syncline_sync::{Barrier, BarrierMember, Lock, Mcs, Space, Ticket, lock::RawLock};
use syncline_trace::note::{Note, ObjectClass, notes};
use syncline_trace::{Activity, Event, enable, mark, snapshot};

/// Nanoseconds by which times of two threads may contradict their order: the clocks of processors
/// differ by less, and a clock is read earlier than a load before it by less.
const SLACK: u64 = 1000;

/// The numbers of all objects whose name has this text.
fn ids(class: ObjectClass, text: &str) -> Vec<u32> {
    let named = notes().into_iter().filter_map(|note| match note {
        Note::Name { class: of, id, name } if of == class && name.contains(text) => Some(id),
        _ => None,
    });
    let mut ids: Vec<u32> = named.collect();
    ids.dedup();
    ids
}

fn events(activity: Activity, subject: u32) -> Vec<Event> {
    among(&snapshot(), activity, subject)
}

/// The times of events are comparable within one snapshot.
fn among(events: &[Event], activity: Activity, subject: u32) -> Vec<Event> {
    let wanted = |event: &&Event| (event.activity, event.subject) == (activity, subject);
    events.iter().filter(wanted).copied().collect()
}

#[test]
fn the_wait_at_a_barrier_lasts_until_the_late_member_has_come() {
    const LATE: u32 = 77;
    enable(1 << 12);
    let barrier = Counter::new(3).unwrap();
    let here = Signal::new(0);
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let mut member = barrier.member(rank).unwrap();
            let here = &here;
            scope.spawn(move || {
                member.wait().unwrap();
                if rank == 2 {
                    here.wait_until(2, &Policy::default(), None).unwrap();
                    mark(Activity::Mark, LATE, 0);
                } else {
                    here.increment();
                }
                member.wait().unwrap();
            });
        }
    });
    let all = snapshot();
    let [late] = among(&all, Activity::Mark, LATE)[..] else { panic!("no mark") };
    let waits = among(&all, Activity::AwaitBarrier, barrier.traced().id());
    for episode in 0..2 {
        let of_it: Vec<_> = waits.iter().filter(|wait| wait.detail == episode).collect();
        assert_eq!(of_it.len(), 3, "{waits:?}");
        let last = of_it.iter().map(|wait| wait.since_ns).max().unwrap();
        assert!(of_it.iter().all(|wait| wait.until_ns + SLACK >= last), "{waits:?}");
        if episode == 1 {
            let is_after = |wait: &&Event| wait.until_ns + SLACK >= late.since_ns;
            assert!(of_it.iter().all(is_after), "{late:?} {waits:?}");
            assert!(of_it.iter().any(|w| w.thread == late.thread && w.since_ns >= late.since_ns));
        }
    }
    assert_eq!(waits.len(), 6);
}

#[test]
fn a_barrier_of_two_levels_has_one_span_for_each_wait() {
    enable(1 << 12);
    let outer = Dissemination::new(2).unwrap();
    let groups = [0, 1].map(|group| {
        let inner = Counter::new(2).unwrap();
        (inner.traced().id(), Combined::new(group, inner, outer.clone()))
    });
    std::thread::scope(|scope| {
        for (_, group) in &groups {
            for rank in 0..2 {
                let mut member = group.member(rank).unwrap();
                scope.spawn(move || (0..5).try_for_each(|_| member.wait()).unwrap());
            }
        }
    });
    assert_eq!(events(Activity::AwaitBarrier, outer.traced().id()).len(), 4 * 5);
    assert!(groups.iter().all(|&(inner, _)| events(Activity::AwaitBarrier, inner).is_empty()));
}

#[test]
fn a_barrier_without_ranks_is_known_by_its_address() {
    enable(1 << 12);
    let barrier = RawCounter::new(2);
    std::thread::scope(|scope| {
        let pass = || (0..3).filter(|_| barrier.wait()).count();
        scope.spawn(pass);
        pass();
    });
    let subject = 1 << 31 | (std::ptr::from_ref(&barrier).addr() / 8) as u32;
    let mut episodes: Vec<_> =
        events(Activity::AwaitBarrier, subject).iter().map(|wait| wait.detail).collect();
    episodes.sort_unstable();
    assert_eq!(episodes, [0, 0, 1, 1, 2, 2]);
}

/// Views of one segment, as processes have them, call the same object by the same name.
#[test]
fn objects_in_shared_memory_have_the_same_name_in_all_views() {
    enable(1 << 12);
    let segment = Arc::new(Segment::shared(1 << 20).unwrap());
    // SAFETY: the segment is new, so it is zero, and nothing else uses it.
    let mut views = [0, 1].map(|_| unsafe { Space::segment(Arc::clone(&segment)) }.unwrap());
    for (rank, view) in views.iter_mut().enumerate() {
        let barrier = Counter::within(view, 2).unwrap();
        let lock = Lock::<Mcs, u64>::within(view, 2).unwrap();
        drop((barrier.member(rank).unwrap(), lock.member(rank).unwrap()));
    }
    let barriers = ids(ObjectClass::Barrier, "barrier 0 of the team (counter)");
    let locks = ids(ObjectClass::Lock, "lock 1 of the team (MCS lock)");
    assert_eq!((barriers.len(), locks.len()), (2, 2), "{:?}", notes());
}

fn contended<R: RawLock>(kind: &str) {
    enable(1 << 12);
    let lock = Lock::<R, u64>::new(2, 0).unwrap();
    let [mut holder, mut other] = [0, 1].map(|rank| lock.member(rank).unwrap());
    let id = *ids(ObjectClass::Lock, kind).iter().max().unwrap();
    // The lock is free.
    drop(holder.lock().unwrap());
    assert!(
        events(Activity::AwaitLock, id).is_empty() && events(Activity::HoldLock, id).is_empty()
    );
    // The other member may begin to wait late, or be in the queue and read the clock late: then the
    // lock is held for longer.
    let overlap = (0..15).any(|attempt| {
        let held = holder.lock().unwrap();
        let here = Signal::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                here.increment();
                drop(other.lock().unwrap());
            });
            here.wait_until(1, &Policy::default(), None).unwrap();
            std::thread::sleep(Duration::from_millis(1 << attempt));
            drop(held);
        });
        let all = snapshot();
        let held = among(&all, Activity::HoldLock, id);
        let waits = among(&all, Activity::AwaitLock, id);
        assert!(held.iter().all(|hold| hold.detail == 0));
        assert!(waits.iter().all(|wait| wait.detail == 1));
        let Some(hold) = held.last() else { return false };
        let wait = waits.last().unwrap();
        // A holding ends before the release, and a wait ends after it.
        assert!(hold.until_ns <= wait.until_ns + SLACK, "{hold:?} {wait:?}");
        wait.since_ns <= hold.until_ns
    });
    assert!(overlap, "{:?}", snapshot());
}

#[test]
fn a_contended_lock_has_waits_and_the_holding_that_they_wait_for() {
    contended::<Mcs>("MCS lock ");
    contended::<Ticket>("ticket lock ");
}
