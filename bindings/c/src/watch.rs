//! Drawings of overlays, and snapshots of them while they run.
//!
//! # Contract
//! A run has exclusive use of its overlay, so another thread needs an object of its own to observe
//! it: a watch, which the program creates before the run. Texts belong to the caller, which frees
//! them; after a failure there is no text.

use std::ffi::{CString, c_char};
use std::ptr;
use std::time::Duration;

use syncline_overlay::{Snapshot, Watch as Look, snapshot::Format};

use crate::error::{Error, Status, borrow, c_string, call, out};
use crate::overlay::{Overlay, the_overlay};

/// The form in which an overlay is shown.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// One line for each task: active, or delayed, with the tasks that delay it.
    Words = 0,
    /// For terminals: locations across, FIFO rank upwards; squares are exclusive and circles
    /// inclusive requests.
    Text = 1,
    /// A graph for Graphviz.
    Dot = 2,
    /// A drawing for browsers and papers.
    Svg = 3,
}

impl Drawing {
    fn of(number: u32) -> Result<Self, Error> {
        let all = [Drawing::Words, Drawing::Text, Drawing::Dot, Drawing::Svg];
        let known = all.into_iter().find(|&drawing| drawing as u32 == number);
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_drawing {number}")))
    }

    fn show(self, snapshot: &Snapshot) -> String {
        match self {
            Drawing::Words => snapshot.to_string(),
            Drawing::Text => snapshot.draw(Format::Text),
            Drawing::Dot => snapshot.draw(Format::Dot),
            Drawing::Svg => snapshot.draw(Format::Svg),
        }
    }
}

/// An observer of an overlay while it runs. Any thread may use it, and several may use one watch at
/// the same time.
#[derive(Debug)]
pub struct Watch(Look);

/// Turns a text into one that the caller owns and frees with `syncline_text_dispose`; `NULL` if
/// there is none.
fn give(shown: Option<String>) -> *mut c_char {
    shown.map_or(ptr::null_mut(), |shown| c_string(shown).into_raw())
}

/// Frees a text that a function of this library returned; does nothing for `NULL`.
///
/// # Safety
/// `text` must be the unchanged pointer from such a function, and must not be used after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_text_dispose(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: `give` made the string with `into_raw`, as the caller guarantees that the text
        // comes from this library; it is not used after this call.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Shows the first requests of a checked overlay, in the order in which every run enqueues them.
///
/// `drawing` is a `syncline_drawing`. The caller frees `*text` with `syncline_text_dispose`.
///
/// # Safety
/// `overlay` must not have been freed. `*text` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_draw(
    overlay: *const Overlay,
    drawing: u32,
    text: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `text` is valid for writes.
        let text = unsafe { out(text, "text") }?;
        let drawing = Drawing::of(drawing)?;
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let start = unsafe { the_overlay(overlay) }?.checked()?.start();
        text.write(give(Some(drawing.show(&start))));
        Ok(())
    })
}

/// Creates a watch for a checked overlay, before or between its runs; it cannot be created during a
/// run. The watch outlives the overlay, and shows nothing after the overlay was freed. Free it with
/// `syncline_watch_free`.
///
/// # Safety
/// `overlay` must not have been freed. `*watch` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_new(
    overlay: *const Overlay,
    watch: *mut *mut Watch,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `watch` is valid for writes.
        let watch = unsafe { out(watch, "watch") }?;
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let look = unsafe { the_overlay(overlay) }?.checked()?.watch();
        watch.write(Box::into_raw(Box::new(Watch(look))));
        Ok(())
    })
}

/// Frees a watch; does nothing for `NULL`.
///
/// # Safety
/// `watch` must come from `syncline_watch_new`; no call may be using it, or use it later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_free(watch: *mut Watch) {
    if !watch.is_null() {
        // SAFETY: `syncline_watch_new` made the box, and the caller guarantees that no call uses
        // the watch now or later.
        drop(unsafe { Box::from_raw(watch) });
    }
}

/// Shows the present state of the run: the tasks that run, and the tasks that are delayed, with the
/// tasks that delay them.
///
/// `*text` is `NULL` if the overlay is not running; else the caller frees it with
/// `syncline_text_dispose`.
///
/// # Safety
/// `watch` must not have been freed. `*text` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_draw(
    watch: *const Watch,
    drawing: u32,
    text: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `text` is valid for writes.
        let text = unsafe { out(text, "text") }?;
        let drawing = Drawing::of(drawing)?;
        // SAFETY: the caller guarantees that a non-null `watch` points to a live watch.
        let snapshot = unsafe { borrow(watch, "the watch") }?.0.snapshot();
        text.write(give(snapshot.map(|snapshot| drawing.show(&snapshot))));
        Ok(())
    })
}

/// Waits until no task of the run has completed an iteration for `patience` nanoseconds, and
/// reports which task waits for which, and since when.
///
/// `*text` is `NULL` if the run has ended before (reported once for each run), if no run is in
/// progress and none begins within `patience`, or, at once, if the overlay was freed; else the
/// caller frees it with `syncline_text_dispose`. With `SYNCLINE_DRAWING_WORDS` it is the whole
/// report, with another drawing the queues of that moment. If `end_run` is true, the run then fails
/// with `SYNCLINE_STATUS_STUCK` and the report as its message, as soon as the running bodies have
/// returned, unless it has ended by itself in between.
///
/// A checked overlay cannot deadlock: a report means that a body takes longer than `patience`, or
/// waits for something that was not declared.
///
/// # Safety
/// `watch` must not have been freed. `*text` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_stuck(
    watch: *const Watch,
    patience: u64,
    end_run: bool,
    drawing: u32,
    text: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `text` is valid for writes.
        let text = unsafe { out(text, "text") }?;
        let drawing = Drawing::of(drawing)?;
        // SAFETY: the caller guarantees that a non-null `watch` points to a live watch.
        let look = unsafe { &borrow(watch, "the watch")?.0 };
        let stuck = look.stuck(Duration::from_nanos(patience));
        let shown = stuck.as_ref().map(|stuck| match drawing {
            Drawing::Words => stuck.to_string(),
            drawing => drawing.show(stuck.snapshot()),
        });
        if let Some(stuck) = stuck
            && end_run
        {
            look.end(stuck);
        }
        text.write(give(shown));
        Ok(())
    })
}
