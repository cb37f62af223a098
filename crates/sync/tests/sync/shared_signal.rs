//! A signal in a shared segment: two processes, two mappings, one word. Each process sleeps until
//! the other raises its word; with a process-private futex both would sleep without an end.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use std::time::{Duration, Instant};

use syncline_memory::Segment;
use syncline_signal::{Policy, Signal};
use syncline_testkit::again;

const ROUNDS: u64 = 100;
const DESCRIPTOR: &str = "SYNCLINE_TEST_DESCRIPTOR";

/// Two signals at the start of the segment.
fn signals(segment: &Segment) -> &[Signal; 2] {
    // SAFETY: the segment is longer than this, page-aligned, and zero at first, which is a signal
    // at 0; both processes use it as nothing else.
    unsafe { &*segment.as_ptr().cast::<[Signal; 2]>() }
}

/// Sleeps until `mine` is raised, and raises `theirs`, once per round.
fn play(mine: &Signal, theirs: &Signal) {
    let sleepy = Policy { pauses: 0, yield_for: Duration::ZERO, ..Policy::default() };
    let deadline = Instant::now() + Duration::from_secs(300);
    for round in 1..=ROUNDS {
        theirs.raise_to(round);
        mine.wait_until(round, &sleepy, Some(deadline)).unwrap();
    }
}

#[test]
fn two_processes_wake_each_other() {
    if let Ok(descriptor) = std::env::var(DESCRIPTOR) {
        // SAFETY: the parent passed the descriptor down, open, and nothing else here owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor.parse().unwrap()) };
        let segment = Segment::from_fd(descriptor).unwrap();
        let [a, b] = signals(&segment);
        play(b, a);
        // The parent reports the result of the test.
        std::process::exit(0);
    }
    let segment = Segment::shared(4096).unwrap();
    // The duplicate is inherited; the segment's own descriptor is closed on exec.
    let inherited = rustix::io::dup(segment.fd().unwrap()).unwrap();
    let mut child = again("shared_signal::two_processes_wake_each_other")
        .env(DESCRIPTOR, inherited.as_raw_fd().to_string())
        .spawn()
        .unwrap();
    let [a, b] = signals(&segment);
    play(a, b);
    assert!(child.wait().unwrap().success());
}
