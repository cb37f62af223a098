//! Notes: names of objects, facts about the run, and the places of tasks, beside the events.
//!
//! Notes are made seldom, when an object is made or a run begins, and only while recording is on:
//! the functions take closures, so that no text is formatted otherwise.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::recorder::is_enabled;
use crate::writer;

/// The most notes that wait for a file, or for [`notes`].
const MOST: usize = 1 << 20;

/// The classes of objects that have names. Each process has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ObjectClass {
    /// A location of an overlay.
    Location,
    /// A barrier.
    Barrier,
    /// A lock.
    Lock,
    /// A file.
    File,
    /// A section of the program.
    Section,
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Note {
    /// A property of the run, of the process that records it.
    Fact {
        /// The property, such as `matrix.rows`.
        key: String,
        /// Its value.
        value: String,
    },
    /// The name of an object.
    Name {
        /// The class of the object.
        class: ObjectClass,
        /// Its number.
        id: u32,
        /// Its name.
        name: String,
    },
    /// A run of an overlay: the numbers of its tasks.
    Overlay {
        /// The number of the first task.
        first: u32,
        /// The number of tasks, which have consecutive numbers.
        tasks: u32,
    },
    /// A task of an overlay.
    Task {
        /// Its number.
        id: u32,
        /// Its name. Its words before the first number are its kind, and two numbers are its place
        /// in a matrix of tasks: `wave 3, 7`.
        name: String,
        /// The member of the team that runs the task, where the overlay is on a team.
        member: Option<u32>,
    },
    /// A task's request at a location.
    Access {
        /// The number of the task.
        task: u32,
        /// The number of the location.
        location: u32,
        /// Whether the request is exclusive.
        exclusive: bool,
    },
}

/// The notes that no file has yet, and the number of notes that were dropped.
static PENDING: Mutex<(Vec<Note>, u64)> = Mutex::new((Vec::new(), 0));

/// The next number for objects.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Reserves `count` consecutive numbers for objects of this process, and returns the first.
///
/// May be called by any thread at any time, also while recording is off. Numbers wrap after 2^32.
/// # Memory ordering
/// Relaxed: numbers order nothing.
pub fn new_ids(count: u32) -> u32 {
    NEXT.fetch_add(count, Relaxed)
}

/// Adds notes, if recording is on; `make` is called only then.
///
/// May be called by any thread at any time. A process keeps at most 2^20 notes that were not
/// written yet; further ones are dropped and counted.
///
/// # Examples
/// ```
/// use syncline_trace::note::{Note, ObjectClass, add, new_ids, notes};
///
/// syncline_trace::enable(100);
/// let id = new_ids(1);
/// add(|| [Note::Name { class: ObjectClass::Lock, id, name: "the table".into() }]);
/// let is_it = |note: &Note| matches!(note, Note::Name { name, .. } if name == "the table");
/// assert!(notes().iter().any(is_it));
/// ```
pub fn add<I: IntoIterator<Item = Note>>(make: impl FnOnce() -> I) {
    // The list may have been locked when a child was made by `fork`.
    if !is_enabled() || writer::is_child() {
        return;
    }
    let made = make();
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    for note in made {
        if pending.0.len() < MOST {
            pending.0.push(note);
        } else {
            pending.1 += 1;
        }
    }
}

/// Adds a fact about the run, if recording is on. A later fact with the same key replaces it.
pub fn fact(key: &str, value: impl std::fmt::Display) {
    add(|| [Note::Fact { key: key.into(), value: value.to_string() }]);
}

/// Returns a copy of the notes that no file has.
#[must_use]
pub fn notes() -> Vec<Note> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
}

/// Removes and returns at most `most` pending notes, and the number of dropped ones.
pub(crate) fn take(most: usize) -> (Vec<Note>, u64) {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let count = pending.0.len().min(most);
    let notes = pending.0.drain(..count).collect();
    (notes, std::mem::take(&mut pending.1))
}

/// Removes all pending notes.
pub(crate) fn clear() {
    *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = (Vec::new(), 0);
}
