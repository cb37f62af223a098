//! Views of a segment have the same words, in any thread and in any order. Small enough for Miri.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_memory::{Pages, Segment};
use syncline_sync::{Space, space::Shared};

/// A word that views share.
#[derive(Debug, Default)]
#[repr(transparent)]
struct Word(AtomicU64);

// SAFETY: zero is the default; no pointers, no drop; changed by atomic operations only.
unsafe impl Shared for Word {}

#[test]
fn views_have_the_same_words() {
    let segment = Arc::new(Segment::heap(1 << 19, Pages::Small).unwrap());
    // SAFETY: the segment is new, so it is zero, and only views use it.
    let views = [(); 3].map(|()| unsafe { Space::segment(Arc::clone(&segment)) }.unwrap());
    std::thread::scope(|scope| {
        for mut view in views {
            scope.spawn(move || {
                let arrays = [3, 7, 1].map(|len| view.array::<Word>(len).unwrap());
                for (number, word) in arrays.iter().flat_map(|array| array.iter()).enumerate() {
                    word.0.fetch_add(number as u64 + 1, Ordering::Relaxed);
                }
                // The words live as long as the last array, not only as long as the view.
                drop(view);
                arrays[1].clone()[6].0.fetch_add(0, Ordering::Relaxed);
            });
        }
    });
    // SAFETY: as before: only views use the segment.
    let mut view = unsafe { Space::segment(segment) }.unwrap();
    let sums = [3, 7, 1].map(|len| view.array::<Word>(len).unwrap());
    let sums =
        sums.iter().flat_map(|array| array.iter()).map(|word| word.0.load(Ordering::Relaxed));
    assert_eq!(sums.collect::<Vec<_>>(), (1..=11).map(|number| 3 * number).collect::<Vec<u64>>());
}
