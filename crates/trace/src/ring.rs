//! A ring of four-word entries with one writer and any number of readers, none of which blocks.
//!
//! # Contract
//! A ring has one [`Writer`], whose `push` is wait-free. [`Ring::read`] may be called by any thread
//! at any time, and returns a run of consecutive entries, none torn, that ends at or after the last
//! entry whose `push` happened before the call. Entries that the writer overwrites while they are
//! read are left out, oldest first.
//!
//! ```text
//!   head = 13, 8 slots: entries 6..13 may be read, entry 13 is perhaps being written over entry 5
//!
//!   slot      0    1    2    3    4    5    6    7
//!   entry     8    9   10   11   12  5|13   6    7
//!                                     ^ head % slots
//! ```
//!
//! # Method
//! The method is that of a sequence lock in which `head` is the sequence number of every slot:
//! entry `i` is in slot `i % slots` from the moment when `head` becomes `i + 1` until the moment
//! when it becomes `i + slots`. H.-J. Boehm, "Can seqlocks get along with programming language
//! memory models?", MSPC 2012, doi:10.1145/2247684.2247688, shows where the fences belong. This
//! ring differs in that one counter serves all slots, so that an entry has no sequence word of its
//! own.
//!
//! # Costs
//! `push` is five stores to cache lines that only the writer writes (on x86-64 the fence and the
//! orderings are free; on ARM they cost a barrier each). `read` copies the entries, and loads
//! `head` twice.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::plant;
use crate::slots::Slots;
use crate::sync::{AtomicU64, fence};

/// The words of one entry.
pub(crate) type Words = [u64; 4];

/// The readers' side of a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The number of entries ever written, which is the number of the next entry.
    head: AtomicU64,
    /// The number of slots is a power of two greater than `keep`.
    slots: Slots,
    keep: usize,
}

/// The only writer of a ring.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Arc<Ring>,
    /// The value of `head`, so that the writer need not load it. (It must not load it under loom
    /// 0.7, which checks for races only against the last access to a word: such a load would hide
    /// the readers' loads before it.)
    next: u64,
}

impl Writer {
    /// Makes a ring that keeps the last `keep` entries; `keep` is at least 1 and less than 2^62.
    ///
    /// One more slot is needed, for the entry that is being written, and the sum is rounded up to a
    /// power of two. Returns `None` if there is no memory for it.
    pub(crate) fn new(keep: usize) -> Option<Writer> {
        let ring = Ring { head: AtomicU64::new(0), slots: Slots::new(slots(keep))?, keep };
        Some(Writer { ring: Arc::new(ring), next: 0 })
    }

    /// Returns the ring, for its readers.
    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Appends an entry, overwriting the oldest if the ring is full. Returns whether half of the
    /// ring has been written since the last call that returned true, so that a reader can keep up.
    #[inline]
    pub(crate) fn push(&mut self, words: Words) -> bool {
        if !plant::is("no fence in push") {
            // Pairs with the fence in `read`: a reader that has seen any of the stores below also
            // sees that `head` has reached `next`, and does not take the slot for the old entry.
            fence(Release);
        }
        for (slot, word) in self.ring.slot(self.next).iter().zip(words) {
            slot.store(word, Relaxed);
        }
        self.next += 1;
        // Release: pairs with the Acquire load in `read`, which then sees these words or newer.
        self.ring.head.store(self.next, Release);
        // The length is a power of two of at least 2.
        self.next & (self.ring.slots.len() as u64 / 2 - 1) == 0
    }
}

/// Returns the number of slots of a ring that keeps this many entries.
fn slots(keep: usize) -> usize {
    (keep + 1).next_power_of_two()
}

/// Returns the bytes that a ring takes when all of its slots are in use.
pub(crate) fn bytes(keep: usize) -> u64 {
    (slots(keep) * size_of::<Words>()) as u64
}

impl Ring {
    /// Returns the number of entries that the ring keeps.
    pub(crate) fn keep(&self) -> usize {
        self.keep
    }

    /// Returns the number of the next entry.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Relaxed)
    }

    /// Copies the entries that are still present, from number `from` on, oldest first. Returns the
    /// number of the first of them, or of the next entry if there are none: entries between `from`
    /// and this number are lost.
    pub(crate) fn read(&self, from: u64) -> (u64, Vec<Words>) {
        // Acquire: pairs with the Release store in `push`, so that the loads below return the words
        // of entries before `end`, or of newer entries in the same slots.
        let end = self.head.load(Acquire);
        let first = from.max(end.saturating_sub(self.keep as u64)).min(end);
        let mut entries: Vec<Words> = (first..end)
            .map(|entry| self.slot(entry).each_ref().map(|word| word.load(Relaxed)))
            .collect();
        if !plant::is("no fence in read") {
            // Pairs with the fence in `push`: if any word above came from entry `n`, the load below
            // returns `n` or more.
            fence(Acquire);
        }
        let head = self.head.load(Relaxed);
        // So a word of entry `i` can come from entry `i + slots`, or from a later one in the same
        // slot, only if `head` has reached `i + slots` by now. Entry `head` itself may be in the
        // middle of its `push`, hence the +1.
        let under_way = if plant::is("entry under way forgotten") { 0 } else { 1 };
        let intact = (head + under_way).saturating_sub(self.slots.len() as u64);
        let lost = intact.saturating_sub(first).min(end - first);
        entries.drain(..lost as usize);
        (first + lost, entries)
    }

    fn slot(&self, entry: u64) -> &[AtomicU64; 4] {
        // The length is a power of two, so the mask computes the remainder, and the index is in
        // bounds.
        &self.slots[entry as usize & (self.slots.len() - 1)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn keeps_the_last_entries(keep in 1usize..20, pushed in 0u64..60, from in 0u64..70) {
            let mut writer = Writer::new(keep).unwrap();
            for entry in 0..pushed {
                writer.push([entry, entry + 1, entry + 2, entry + 3]);
            }
            let ring = writer.ring();
            prop_assert_eq!(ring.head(), pushed);
            let first = from.max(pushed.saturating_sub(keep as u64));
            let entry = |entry| [entry, entry + 1, entry + 2, entry + 3];
            let expected: Vec<Words> = (first..pushed).map(entry).collect();
            prop_assert_eq!(ring.read(from), (first.min(pushed), expected));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    fn entry(number: u64) -> Words {
        [10 + number, 20 + number, 30 + number, 40 + number]
    }

    /// Checks that a reader at any moment sees whole, consecutive entries, and the last ones after
    /// the writer has ended.
    fn reader_against_writer(keep: usize, pushes: u64) {
        loom::model(move || {
            let mut writer = Writer::new(keep).unwrap();
            let ring = writer.ring().clone();
            let writer = thread::spawn(move || {
                for number in 0..pushes {
                    writer.push(entry(number));
                }
            });
            let (first, seen) = ring.read(0);
            assert!(seen.len() <= keep);
            let whole: Vec<Words> = (first..).take(seen.len()).map(entry).collect();
            assert_eq!(seen, whole, "torn or out of order");
            assert!(first + seen.len() as u64 <= pushes);
            writer.join().unwrap();
            let last: Vec<Words> = (pushes - keep as u64..pushes).map(entry).collect();
            assert_eq!(ring.read(0), (pushes - keep as u64, last));
        });
    }

    #[test]
    fn one_kept() {
        reader_against_writer(1, 3);
    }

    #[test]
    fn three_kept() {
        reader_against_writer(3, 5);
    }

    #[test]
    #[should_panic(expected = "torn or out of order")]
    fn a_missing_fence_in_push_is_caught() {
        plant::with("no fence in push", || reader_against_writer(1, 3));
    }

    #[test]
    #[should_panic(expected = "torn or out of order")]
    fn a_missing_fence_in_read_is_caught() {
        plant::with("no fence in read", || reader_against_writer(1, 3));
    }

    #[test]
    #[should_panic(expected = "torn or out of order")]
    fn forgetting_the_entry_under_way_is_caught() {
        plant::with("entry under way forgotten", || reader_against_writer(1, 3));
    }
}
