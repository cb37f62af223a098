//! The memory of a host in a run on a team: the rounds of all tasks, the data that members share,
//! and the first failure.
//!
//! ```text
//! words    | failure: state, rank, ... text | counts | by task: left | by task: state | by
//!          | component: tasks that have left                                                |
//! parked   | an event count for each worker of the host                                     |
//! data     | slots of the locations, at the offsets of `Layout`                             |
//! ```
//!
//! # States
//! The word of a task of this host is written by the worker that runs the task. That of another
//! host's task is a mirror, raised by the thread that receives a message, when all data of the
//! message are in place.
//!
//! | order                       | because                                                     |
//! |-----------------------------|-------------------------------------------------------------|
//! | release store, acquire load | the data of a message are seen by tasks that saw its rounds |
//!
//! Accesses to the data are in this file.

use syncline_fabric::Member;
use syncline_signal::event_count::EventCount;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_sync::{SpaceError, space::Array};

use crate::location::Bytes;
use crate::parked::ParkedWorkers;

/// The words of the failure: its state, the fields, and the text.
const STATE: usize = 0;
const FIELDS: usize = 1;
const TEXT: usize = FIELDS + 4;
const TEXT_WORDS: usize = 60;
/// The words of the counts.
const DEPARTED: usize = TEXT + TEXT_WORDS;
const INITIALS: usize = DEPARTED + 1;
const FINALS: usize = DEPARTED + 2;
const ANNOUNCED: usize = FINALS + 1;
const HEAD: usize = ANNOUNCED + 1;

/// The states of the failure.
const NONE: u64 = 0;
const BEING_WRITTEN: u64 = 1;
const PUBLISHED: u64 = 2;

/// A failure of a task, as members of other processes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The member that ran the task.
    pub(crate) rank: usize,
    /// The task that failed, and whether it panicked; `None` if the member failed by itself.
    pub(crate) task: Option<(u32, bool)>,
    /// The error, with the names of task and iteration.
    pub(crate) error: String,
}

impl Failed {
    /// The fields as words, and the text, which is cut to the length that fits.
    pub(crate) fn words(&self) -> ([u64; 4], &str) {
        let (task, panicked) = self.task.map_or((u64::MAX, 0), |(t, p)| (t.into(), p.into()));
        let mut len = self.error.len().min(8 * TEXT_WORDS);
        while !self.error.is_char_boundary(len) {
            len -= 1;
        }
        ([self.rank as u64, task, panicked, len as u64], &self.error[..len])
    }

    pub(crate) fn of_words(fields: [u64; 4], text: &[u8]) -> Failed {
        let [rank, task, panicked, _] = fields;
        let task = u32::try_from(task).ok().map(|task| (task, panicked != 0));
        let error = String::from_utf8_lossy(text).into_owned();
        Failed { rank: rank as usize, task, error }
    }
}

/// The memory that the members of a host share during a run. A clone refers to the same memory.
#[derive(Clone, Debug)]
pub(crate) struct HostMemory {
    words: Array<AtomicU64>,
    parked: Array<EventCount>,
    data: Array<AtomicU64>,
    tasks: usize,
}

impl HostMemory {
    /// Borrows the memory for `tasks` tasks in `components` components, `workers` workers of the
    /// host, and `bytes` bytes of data.
    ///
    /// # Errors
    /// If the host has no memory for them.
    pub(crate) fn borrow(
        me: &mut Member,
        (tasks, components): (usize, usize),
        workers: usize,
        bytes: usize,
    ) -> Result<HostMemory, SpaceError> {
        let words = me.borrow(HEAD + 2 * tasks + components)?;
        let parked = match me.borrow(workers) {
            Ok(parked) => parked,
            Err(error) => {
                me.give_back(words);
                return Err(error);
            }
        };
        match me.borrow(bytes.div_ceil(8).max(1)) {
            Ok(data) => Ok(HostMemory { words, parked, data, tasks }),
            Err(error) => {
                me.give_back(words);
                me.give_back(parked);
                Err(error)
            }
        }
    }

    /// Gives the memory back: no member of the host uses it any more.
    pub(crate) fn give_back(self, me: &mut Member) {
        me.give_back(self.words);
        me.give_back(self.parked);
        me.give_back(self.data);
    }

    /// Sets the words to their first values. No other member uses them yet.
    pub(crate) fn reset(&self) {
        // Relaxed: a barrier of the members follows.
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The states of all tasks.
    pub(crate) fn states(&self) -> Array<AtomicU64> {
        self.words.part(HEAD + self.tasks..HEAD + 2 * self.tasks)
    }

    /// The workers of the host, in pools of `group` workers.
    pub(crate) fn parked(&self, group: usize) -> ParkedWorkers {
        ParkedWorkers::of(self.words.part(ANNOUNCED..HEAD), self.parked.clone(), group)
    }

    /// Records that a task has left after this number of rounds. Returns the number of tasks that
    /// have left.
    pub(crate) fn depart(&self, task: u32, component: u32, rounds: u64) -> u64 {
        // Relaxed, here and in `left`: the counts below, and the messages at the end of the run,
        // order the word.
        self.words[HEAD + task as usize].store(rounds, Ordering::Relaxed);
        // AcqRel, both: the last one to leave synchronizes with all others.
        self.in_component(component).fetch_add(1, Ordering::AcqRel);
        self.words[DEPARTED].fetch_add(1, Ordering::AcqRel) + 1
    }

    fn in_component(&self, component: u32) -> &AtomicU64 {
        &self.words[HEAD + 2 * self.tasks + component as usize]
    }

    /// The number of tasks of a component that have left.
    pub(crate) fn departed_of(&self, component: u32) -> u64 {
        // Acquire: pairs with the Release in `depart`.
        self.in_component(component).load(Ordering::Acquire)
    }

    /// The number of tasks that have left.
    pub(crate) fn departed(&self) -> u64 {
        // Acquire: pairs with the Release in `depart`.
        self.words[DEPARTED].load(Ordering::Acquire)
    }

    /// The number of rounds after which a task has left, or `None` if it has not.
    pub(crate) fn left(&self, task: u32) -> Option<u64> {
        let rounds = self.words[HEAD + task as usize].load(Ordering::Relaxed);
        (rounds > 0).then_some(rounds)
    }

    /// Counts a first value that another host has sent.
    pub(crate) fn count_initial(&self) {
        // Release: pairs with the Acquire in `initials`: the data are in place.
        self.words[INITIALS].fetch_add(1, Ordering::Release);
    }

    pub(crate) fn initials(&self) -> u64 {
        // Acquire: pairs with the Release in `count_initial`.
        self.words[INITIALS].load(Ordering::Acquire)
    }

    /// Counts a final value that another host has sent.
    pub(crate) fn count_final(&self) {
        // Release: pairs with the Acquire in `finals`: the data are in place.
        self.words[FINALS].fetch_add(1, Ordering::Release);
    }

    pub(crate) fn finals(&self) -> u64 {
        // Acquire: pairs with the Release in `count_final`.
        self.words[FINALS].load(Ordering::Acquire)
    }

    /// Publishes a failure on this host, unless there is one already.
    pub(crate) fn fail(&self, failed: &Failed) -> bool {
        let state = &self.words[STATE];
        // Relaxed: the words that follow are this thread's, until the Release below.
        if state
            .compare_exchange(NONE, BEING_WRITTEN, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        let (fields, text) = failed.words();
        let put = |at: usize, word: u64| self.words[at].store(word, Ordering::Relaxed);
        fields.into_iter().enumerate().for_each(|(i, word)| put(FIELDS + i, word));
        for (i, bytes) in text.as_bytes().chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            put(TEXT + i, u64::from_le_bytes(word));
        }
        // Release: pairs with the Acquire in `has_failed`: the words above are seen.
        state.store(PUBLISHED, Ordering::Release);
        true
    }

    /// Whether a failure is published.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        // Acquire: pairs with the Release in `fail`.
        self.words[STATE].load(Ordering::Acquire) == PUBLISHED
    }

    /// The published failure.
    pub(crate) fn failure(&self) -> Option<Failed> {
        if !self.has_failed() {
            return None;
        }
        let get = |at: usize| self.words[at].load(Ordering::Relaxed);
        let fields = std::array::from_fn(|i| get(FIELDS + i));
        let text: Vec<u8> = (0..TEXT_WORDS).flat_map(|i| get(TEXT + i).to_le_bytes()).collect();
        let len = (fields[3] as usize).min(text.len());
        Some(Failed::of_words(fields, &text[..len]))
    }

    /// The address of data of this length in the memory.
    ///
    /// # Panics
    /// If they are not inside.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let bytes = self.data.len() * size_of::<AtomicU64>();
        assert!(offset <= bytes && len <= bytes - offset, "{len} bytes at {offset} of {bytes}");
        self.data.as_ptr().cast_mut().cast::<u8>().wrapping_add(offset)
    }

    /// Copies data of a location into the memory.
    ///
    /// # Safety
    /// No other thread accesses these bytes meanwhile.
    ///
    /// # Panics
    /// If the bytes are not inside.
    pub(crate) unsafe fn write(&self, offset: usize, data: &[u8]) {
        let to = self.at(offset, data.len());
        // SAFETY: `to` points to as many bytes, which `self` keeps alive: they are inside an array
        // of atomics, and may be written through a shared reference. No other thread accesses
        // them: the caller guarantees it. `data` is no part of the array, as a reference to it
        // would be such an access.
        unsafe { to.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }

    /// Appends data of a location in the memory to `to`.
    ///
    /// # Safety
    /// No other thread writes these bytes meanwhile.
    ///
    /// # Panics
    /// If the bytes are not inside.
    pub(crate) unsafe fn append(&self, offset: usize, len: usize, to: &mut Vec<u8>) {
        let from = self.at(offset, len);
        // SAFETY: `from` points to `len` bytes, which `self` keeps alive and which are initialised,
        // as the array was zero at first. No other thread writes them: the caller guarantees it.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(from, len) });
    }

    /// The bytes of an encoded value in the memory.
    ///
    /// # Safety
    /// No other thread accesses these bytes while the reference lives, and there is no second
    /// reference to them.
    ///
    /// # Panics
    /// If the bytes are not inside.
    #[allow(clippy::mut_from_ref, reason = "the bytes are those of atomics")]
    pub(crate) unsafe fn encoded_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        let first = self.at(offset, len);
        // SAFETY: `first` points to `len` initialised bytes inside an array of atomics, which
        // `self` keeps alive. The caller guarantees that the reference is the only access.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }

    /// The bytes of an encoded value in the memory.
    ///
    /// # Safety
    /// No thread writes these bytes while the reference lives.
    ///
    /// # Panics
    /// If the bytes are not inside.
    pub(crate) unsafe fn encoded(&self, offset: usize, len: usize) -> &[u8] {
        let first = self.at(offset, len);
        // SAFETY: as in `encoded_mut`, for shared access.
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    /// Copies the data of a location from the location's own memory into this one.
    ///
    /// # Safety
    /// The run holds the location, no other thread accesses its data there or here.
    pub(crate) unsafe fn put(&self, offset: usize, own: Bytes) {
        // SAFETY: the bytes are those of plain values in a location that the run keeps alive, so
        // they are initialised; no other thread accesses them: the caller guarantees it.
        unsafe { self.write(offset, std::slice::from_raw_parts(own.first, own.len)) };
    }

    /// Copies the data of a location back into the location's own memory.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    pub(crate) unsafe fn take(&self, offset: usize, own: Bytes) {
        let from = self.at(offset, own.len);
        // SAFETY: both are `own.len` bytes that are alive: in this memory, and in a location that
        // the run keeps alive. They are parts of different allocations. Any bytes are a valid
        // value, as the location holds plain values. No other thread accesses either: the caller
        // guarantees it.
        unsafe { own.first.copy_from_nonoverlapping(from, own.len) };
    }
}
