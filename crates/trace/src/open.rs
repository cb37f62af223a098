//! The open spans of a thread: what it does at this moment, for other threads to read.
//!
//! # Contract
//! One thread opens and closes slots, wait-free. [`OpenSpans::read`] may be called by any thread at
//! any time. It returns spans that were open at some moment during the call, none torn.
//!
//! ```text
//!   depth        0                1                 2
//!   since     t0 (open)        t1 (open)         0 (closed)
//!   what      Step of task 7   waits for lock 3  -
//! ```
//!
//! # Method
//! Each slot is a sequence lock whose sequence number is the begin of the span: it is 0 while the
//! slot changes, and a thread opens no two spans at the same tick with different contents that a
//! reader could confuse (such a mix would be two spans of no length). The fences are those of H.-J.
//! Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012.
//!
//! # Costs
//! Opening is four stores, closing one, to lines that only this thread writes.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::plant;
use crate::sync::{AtomicU64, fence};

/// The number of nested spans that can be seen while they are open. Deeper ones are recorded when
/// they end, as all are.
pub(crate) const DEPTH: usize = 8;

/// The slots of one thread.
#[derive(Debug)]
pub(crate) struct OpenSpans {
    /// For each depth: since, what, detail.
    slots: [[AtomicU64; 3]; DEPTH],
}

impl OpenSpans {
    pub(crate) fn new() -> OpenSpans {
        OpenSpans { slots: [(); DEPTH].map(|()| [(); 3].map(|()| AtomicU64::new(0))) }
    }

    /// Opens the slot of this depth. `since` is not 0.
    #[inline]
    pub(crate) fn open(&self, depth: usize, since: u64, what: u64, detail: u64) {
        let Some([begin, kind, more]) = self.slots.get(depth) else { return };
        begin.store(0, Relaxed);
        if !plant::is("no fence in open") {
            // Pairs with the fence in `read`: a reader that has seen one of the two stores below
            // does not find the old `since` any more.
            fence(Release);
        }
        kind.store(what, Relaxed);
        more.store(detail, Relaxed);
        // Release: pairs with the Acquire load in `read`, which then sees the two stores above.
        begin.store(since, Release);
    }

    /// Closes the slot of this depth.
    #[inline]
    pub(crate) fn close(&self, depth: usize) {
        if let Some([begin, ..]) = self.slots.get(depth) {
            begin.store(0, Relaxed);
        }
    }

    /// Returns the open spans as since, what, detail, the outermost first.
    pub(crate) fn read(&self) -> Vec<[u64; 3]> {
        let open = self.slots.iter().filter_map(|[begin, kind, more]| {
            // Acquire: pairs with the Release store in `open`.
            let since = begin.load(Acquire);
            let span = [since, kind.load(Relaxed), more.load(Relaxed)];
            if !plant::is("no fence in read of open spans") {
                // Pairs with the fence in `open`.
                fence(Acquire);
            }
            (since != 0 && begin.load(Relaxed) == since).then_some(span)
        });
        open.collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn open_spans_are_those_not_closed() {
        let open = OpenSpans::new();
        open.open(0, 5, 6, 7);
        open.open(1, 8, 9, 10);
        assert_eq!(open.read(), [[5, 6, 7], [8, 9, 10]]);
        open.close(1);
        assert_eq!(open.read(), [[5, 6, 7]]);
        open.open(DEPTH, 1, 2, 3);
        open.close(DEPTH);
        assert_eq!(open.read(), [[5, 6, 7]]);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use std::sync::Arc;

    /// A thread opens and closes three spans in a slot, while another reads: it sees one of them
    /// whole, or none.
    fn reader_against_owner() {
        loom::model(|| {
            let spans = Arc::new(OpenSpans::new());
            let owner = {
                let spans = Arc::clone(&spans);
                loom::thread::spawn(move || {
                    for since in 1..3 {
                        spans.open(0, since, 10 + since, 20 + since);
                        if since == 2 {
                            spans.close(0);
                        }
                    }
                })
            };
            for [since, what, detail] in spans.read() {
                assert_eq!([what, detail], [10 + since, 20 + since], "torn");
            }
            owner.join().unwrap();
            assert!(spans.read().is_empty());
        });
    }

    #[test]
    fn a_reader_sees_whole_spans() {
        reader_against_owner();
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn a_missing_fence_in_open_is_caught() {
        plant::with("no fence in open", reader_against_owner);
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn a_missing_fence_in_read_is_caught() {
        plant::with("no fence in read of open spans", reader_against_owner);
    }
}
