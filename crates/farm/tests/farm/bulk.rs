//! Bytes within values that are read in place, and the waits that other threads end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use syncline_farm::pool::{PUBLISHED, serve_forks};
use syncline_farm::wire::Bulk;
use syncline_farm::{Farm, FarmError, PoolBuilder, Task, TaskError, Vpid};
use syncline_testkit::property;

use crate::{late, program_of};

/// Not a test: a worker that sends its bytes back, or ends if there are none.
#[test]
fn reflects() {
    serve_forks(|(name, bytes): (String, Bulk), forks| {
        forks.publish([name.len() as u64; PUBLISHED]);
        if bytes.is_empty() {
            std::process::exit(9);
        }
        // A small message is not in the memory of the farm.
        assert!(!bytes.is_in_message() || bytes.as_ptr().addr().is_multiple_of(64), "{name}");
        (name, bytes)
    })
    .unwrap();
}

fn builder(workers: usize) -> PoolBuilder {
    PoolBuilder::new(workers).program(program_of("bulk::reflects"))
}

#[test]
fn large_bytes_are_read_where_they_were_written() {
    let mut pool = builder(2).memory(8 << 20).start::<_, (String, Bulk)>().unwrap();
    let sizes = [100_000, 70_000, 1 << 20, 65_537];
    for round in 0..10_u8 {
        let sent = |&size: &usize| Task::new((format!("{size}"), Bulk::from(vec![round; size])));
        for done in pool.map(sizes.iter().map(sent).collect::<Vec<_>>()) {
            let (name, bytes) = done.result.unwrap();
            assert!(bytes.is_in_message() && bytes.as_ptr().addr().is_multiple_of(64));
            assert_eq!((bytes.len().to_string(), bytes.iter().all(|b| *b == round)), (name, true));
        }
    }
    // They outlive the pool, and may be written.
    let (_, kept) = pool.run(("kept".to_owned(), Bulk::from(vec![5; 100_000]))).unwrap();
    pool.finish();
    // SAFETY: the bytes are in a message of this process, and no reference to them is in use.
    unsafe { kept.as_mut_ptr().write(6) };
    assert_eq!((kept[0], kept[99_999]), (6, 5));
}

/// More workers than the memory has room for: tasks wait, so that none lacks room for its result.
#[test]
fn arguments_leave_room_for_results() {
    for (size, workers) in [(18 << 20, 2), (18 << 20, 4), (9 << 20, 8), (1_200_000, 64)] {
        let mut pool = builder(workers).memory(64 << 20).start::<_, (String, Bulk)>().unwrap();
        for n in 0..24 {
            pool.submit((n.to_string(), Bulk::from(vec![n; size])));
        }
        for _ in 0..24 {
            let (n, bytes) = pool.next().unwrap().result.unwrap();
            let n: u8 = n.parse().unwrap();
            assert!(bytes[..] == vec![n; size]);
        }
    }
}

proptest! {
    #![proptest_config(property(256))]

    #[test]
    fn any_bytes_anywhere_in_a_value_arrive(
        parts in prop::collection::vec((0_usize..5000, any::<u8>(), ".{0,20}"), 0..6),
    ) {
        let mut farm = Farm::new().unwrap();
        let sent: Vec<_> = parts
            .iter()
            .map(|(len, byte, text)| (text.clone(), Bulk::from(vec![*byte; *len])))
            .collect();
        farm.send(Vpid::MANAGER, &sent).unwrap();
        let read: Vec<(String, Bulk)> = farm.recv_deadline(Vpid::MANAGER, late()).unwrap();
        prop_assert_eq!(read.len(), parts.len());
        for ((len, byte, text), (read_text, bytes)) in parts.iter().zip(&read) {
            prop_assert_eq!(text, read_text);
            prop_assert_eq!(&**bytes, &vec![*byte; *len][..]);
            if bytes.is_in_message() && !bytes.is_empty() {
                prop_assert_eq!(bytes.as_ptr().addr() % 64, 0);
            }
        }
    }
}

#[test]
fn the_death_of_a_worker_tells_what_it_had_published() {
    let mut pool = builder(1).start::<_, (String, Bulk)>().unwrap();
    let ended = pool.run(("twelve bytes".to_owned(), Bulk::from(Vec::new())));
    let Err(TaskError::Worker { published, tries: 1, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(published, [12; PUBLISHED]);
}

#[test]
fn another_thread_ends_a_wait() {
    let mut pool = builder(1).start::<(String, Bulk), (String, Bulk)>().unwrap();
    let waker = pool.waker();
    // Before the wait: it ends at once, and only this one.
    pool.submit(("one".to_owned(), Bulk::from(vec![1])));
    waker.wake();
    assert!(pool.next_or_woken(late()).unwrap().is_none());
    assert!(pool.next_or_woken(late()).unwrap().is_some());
    assert!(pool.next_or_woken(late()).unwrap().is_none(), "all tasks have ended");
    // During the wait, again and again.
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                waker.wake();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for _ in 0..50 {
            pool.submit(("more".to_owned(), Bulk::from(vec![1; 10])));
        }
        let mut outcomes = Vec::new();
        while outcomes.len() < 50 {
            match pool.next_or_woken(late()) {
                Ok(outcome) => outcomes.extend(outcome),
                Err(_) => break,
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.result.is_ok()).count(), 50);
    });
    let now = std::time::Instant::now();
    pool.submit(("last".to_owned(), Bulk::from(vec![1])));
    let wait = pool.next_or_woken(Some(now)).map(drop);
    assert!(matches!(wait, Ok(()) | Err(FarmError::TimedOut { .. })));
}

#[test]
fn a_task_that_no_worker_has_is_taken_back() {
    let mut pool = builder(1).batch(1).start::<(String, Bulk), (String, Bulk)>().unwrap();
    let ids: Vec<_> =
        (0..4_u8).map(|n| pool.submit((n.to_string(), Bulk::from(vec![n; 3])))).collect();
    assert!(pool.withdraw(ids[2]) && !pool.withdraw(ids[2]));
    assert!(pool.withdraw(ids[0]));
    let mut left = Vec::new();
    while let Some(outcome) = pool.next() {
        left.push(outcome.id);
        assert!(!pool.withdraw(outcome.id));
    }
    left.sort();
    assert_eq!(left, [ids[1], ids[3]]);
    let progress = pool.progress();
    assert_eq!((progress.submitted, progress.ended, progress.failed), (4, 4, 0));
}
