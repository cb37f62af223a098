//! The memory of a report does not grow with the number of spans: a trace may be larger than it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use syncline_report::{Trace, page, report};
use syncline_trace::clock::ClockPair;
use syncline_trace::frame::{Frame, LanePart, ProcessInfo, TickSpan, encode};
use syncline_trace::note::Note;
use syncline_trace::{Activity, Role};

/// The bytes that are allocated now, and the most that ever were.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all calls are passed on to the system's allocator; the counters are no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller meets the conditions of `GlobalAlloc::alloc`, which are those of
        // `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller meets the conditions of `GlobalAlloc::dealloc`; `alloc` returned `at`.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Writes the trace of two workers that execute steps of 100 ns, in frames of 10 000 steps each.
fn write_trace(path: &Path, frames: u64) {
    const BEGIN: u64 = 1_000_000_000;
    const STEPS: u64 = 10_000;
    let mut file = std::fs::File::create(path).unwrap();
    let clock = |ticks| ClockPair { ticks, monotonic_ns: ticks, realtime_ns: ticks };
    for number in 0..frames {
        let lane = |worker: u32| {
            let step = |step| {
                let since = BEGIN + (number * STEPS + step) * 100;
                let iteration = (number * STEPS + step) / 8;
                let task = worker * 8 + (step % 8) as u32;
                TickSpan {
                    since,
                    until: since + 100,
                    activity: Activity::Step,
                    subject: task,
                    detail: iteration,
                }
            };
            let mut part = LanePart::default();
            (part.thread, part.role) = (worker, Some(Role::Worker(worker)));
            part.set_spans(&(0..STEPS).map(step).collect::<Vec<_>>());
            part
        };
        let first = number == 0;
        let info = ProcessInfo { pid: 1, began: clock(BEGIN), processors: 2, ..Default::default() };
        let frame = Frame {
            stream: 7,
            number,
            clock: clock(BEGIN + (number + 1) * STEPS * 100),
            process: first.then_some(info),
            notes: if first { vec![Note::Overlay { first: 0, tasks: 16 }] } else { Vec::new() },
            lanes: vec![lane(0), lane(1)],
            last: number + 1 == frames,
            ..Frame::default()
        };
        file.write_all(&encode(&frame)).unwrap();
    }
}

/// Returns the bytes of a trace, and the most bytes that its report and page take.
fn memory_of(frames: u64) -> (u64, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.trace");
    write_trace(&path, frames);
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let report = report(&Trace::open(&[&path]).unwrap()).unwrap();
    assert_eq!(report.missing, [""; 0]);
    assert!(report.progress[0].points.last().unwrap().1 == (frames * 20_000) as f64);
    drop(page::render(&report));
    (std::fs::metadata(&path).unwrap().len(), MOST.load(Relaxed) - before)
}

#[test]
fn a_trace_may_be_larger_than_memory() {
    let (short_file, short) = memory_of(8);
    let (long_file, long) = memory_of(40);
    assert!(long_file > 4 * short_file);
    assert!(
        long < short + short / 4,
        "{short} bytes of memory for {short_file}, {long} for {long_file}"
    );
}
