//! Drawings of overlays, and looks at them while they run.
//!
//! # Contract
//! A run has its overlay for itself, so that another thread needs an object of its own to look: a watch, made before.
//! Texts belong to the caller, who gives them back; after a failure there is none.

use std::ffi::{CString, c_char};
use std::ptr;
use std::time::Duration;

use syncline_overlay::{Snapshot, Watch as Look, snapshot::Format};

use crate::error::{Error, Status, borrow, c_string, call, out};
use crate::overlay::{Overlay, the_overlay};

/// How an overlay is shown.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// A line for each task: active, or delayed and by whom.
    Words = 0,
    /// For terminals: locations across, FIFO rank up, squares exclusive and circles inclusive requests.
    Text = 1,
    /// For graphviz.
    Dot = 2,
    /// For browsers and papers.
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

/// Looks at an overlay while it runs, from any thread; several may use one watch at the same time.
#[derive(Debug)]
pub struct Watch(Look);

/// A text for the caller, which gives it back by `syncline_text_dispose`; `NULL` if there is none.
fn give(shown: Option<String>) -> *mut c_char {
    shown.map_or(ptr::null_mut(), |shown| c_string(shown).into_raw())
}

/// Gives a text back that a function of this library made; `NULL` is nothing.
///
/// # Safety
/// `text` comes from such a function as it is, and is not used from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_text_dispose(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as the caller vouches; `give` made it so.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Shows the first requests of a checked overlay, as every run queues them.
///
/// `drawing` is one of `syncline_drawing`. `*text` is to be given back by `syncline_text_dispose`.
///
/// # Safety
/// `overlay` was not freed. `*text` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_draw(
    overlay: *const Overlay,
    drawing: u32,
    text: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let text = unsafe { out(text, "text") }?;
        let drawing = Drawing::of(drawing)?;
        // SAFETY: as the caller vouches.
        let start = unsafe { the_overlay(overlay) }?.checked()?.start();
        text.write(give(Some(drawing.show(&start))));
        Ok(())
    })
}

/// Makes a watch over a checked overlay, before or between its runs: one cannot be made during a run. It goes on
/// when the overlay is freed, and then sees nothing.
///
/// # Safety
/// `overlay` was not freed. `*watch` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_new(
    overlay: *const Overlay,
    watch: *mut *mut Watch,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let watch = unsafe { out(watch, "watch") }?;
        // SAFETY: as the caller vouches.
        let look = unsafe { the_overlay(overlay) }?.checked()?.watch();
        watch.write(Box::into_raw(Box::new(Watch(look))));
        Ok(())
    })
}

/// Gives a watch back; `NULL` is nothing.
///
/// # Safety
/// `watch` comes from `syncline_watch_new`; no call uses it now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_free(watch: *mut Watch) {
    if !watch.is_null() {
        // SAFETY: as the caller vouches.
        drop(unsafe { Box::from_raw(watch) });
    }
}

/// Shows who stands where at this moment: which tasks run, which are delayed and by whom.
///
/// `*text` is `NULL` if the overlay does not run; else it is to be given back by
/// `syncline_text_dispose`.
///
/// # Safety
/// `watch` was not freed. `*text` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_draw(
    watch: *const Watch,
    drawing: u32,
    text: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let text = unsafe { out(text, "text") }?;
        let drawing = Drawing::of(drawing)?;
        // SAFETY: as the caller vouches.
        let snapshot = unsafe { borrow(watch, "the watch") }?.0.snapshot();
        text.write(give(snapshot.map(|snapshot| drawing.show(&snapshot))));
        Ok(())
    })
}

/// Waits until no task of the run has ended an iteration for `patience` nanoseconds, and reports who waits for whom, and
/// since when.
///
/// `*text` is `NULL` if the run has ended before (told once for each run), or if none is under way
/// and none begins for as long, or, at once, if the overlay was freed; else it is to be given back
/// by `syncline_text_dispose`. With `SYNCLINE_DRAWING_WORDS` it is the whole report, with another
/// drawing the queues of that moment. If `end_run` is true the run then fails with
/// `SYNCLINE_STATUS_STUCK` and the report as its message, as soon as the bodies under way have
/// returned; unless it has ended by itself in between.
///
/// A checked overlay cannot deadlock: a body takes longer than `patience`, or waits for something that was not declared.
///
/// # Safety
/// `watch` was not freed. `*text` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_watch_stuck(
    watch: *const Watch,
    patience: u64,
    end_run: bool,
    drawing: u32,
    text: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let text = unsafe { out(text, "text") }?;
        let drawing = Drawing::of(drawing)?;
        // SAFETY: as the caller vouches.
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
