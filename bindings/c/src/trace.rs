//! Recording: what the threads of a program do and wait for, in a file.
//!
//! # Contract
//! A program records from [`syncline_trace_start`] to [`syncline_trace_finish`] or to its ordinary
//! end, or all the time if `SYNCLINE_TRACE` names a file. The library records by itself; a program
//! adds *sections*, which have names and are nested on each thread.
//!
//! # Costs
//! While nothing is recorded, a section costs a few nanoseconds; otherwise two time stamps, and a
//! look at a table of names, which takes a lock.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_char;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{Activity, Span, TraceError, is_enabled, span};

use crate::error::{Error, Status, call, name};

/// The numbers of the sections, by name. Emptied when a recording begins, whose file has no names
/// yet.
static SECTIONS: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

thread_local! {
    /// The sections of this thread that have begun, the innermost last.
    static OPEN: RefCell<Vec<Option<Span>>> = const { RefCell::new(Vec::new()) };
}

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Self {
        let status = match error {
            TraceError::Recording { .. } => Status::Misuse,
            TraceError::File { .. } => Status::System,
            _ => Status::InvalidArgument,
        };
        Error::new(status, error.to_string())
    }
}

/// Returns the number of the section with this name.
fn section(name: String) -> u32 {
    let mut sections = SECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let sections = sections.get_or_insert_default();
    if let Some(&id) = sections.get(&name) {
        return id;
    }
    let id = note::new_ids(1);
    note::add(|| [Note::Name { class: ObjectClass::Section, id, name: name.clone() }]);
    sections.insert(name, id);
    id
}

/// Starts to record what the threads of this process do and wait for, to a file. Processes that the
/// library starts from now on record to the same file. `syncline report` reads it.
///
/// A program need not call this: with `SYNCLINE_TRACE` in its environment it records from its first
/// use of the library on. An earlier trace in the file is replaced.
///
/// `SYNCLINE_STATUS_MISUSE` if this process records already; `SYNCLINE_STATUS_SYSTEM` if the file
/// cannot be created; `SYNCLINE_STATUS_INVALID_ARGUMENT` if it has other contents than a trace,
/// which are left alone.
///
/// # Safety
/// `file` must be `NULL`, or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_trace_start(file: *const c_char) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `file` is a string.
        let file = unsafe { name(file, "file") }?;
        SECTIONS.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(syncline_trace::start(Path::new(&file))?)
    })
}

/// Ends the recording of this process, and writes what is left to the file. The ordinary end of the
/// process does the same. Does nothing if nothing is recorded.
///
/// `SYNCLINE_STATUS_SYSTEM` if the file could not be written to its end.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_trace_finish() -> Status {
    call(|| {
        syncline_trace::finish()?;
        Ok(())
    })
}

/// Begins a section of the calling thread, which lasts until the matching `syncline_trace_end`. It
/// appears under its name in the trace; sections of the same name belong together. Sections of a
/// thread are nested. While nothing is recorded, the section is only counted.
///
/// # Safety
/// `name` must be `NULL`, or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_trace_begin(name: *const c_char) -> Status {
    call(|| {
        let begun = if is_enabled() {
            // SAFETY: the caller guarantees that a non-null `name` is a string.
            let name = unsafe { self::name(name, "name") }?;
            Some(span(Activity::Section, section(name), 0))
        } else {
            crate::error::present(name, "name")?;
            None
        };
        // A thread whose variables are destroyed already has no sections.
        let _ = OPEN.try_with(|open| open.borrow_mut().push(begun));
        Ok(())
    })
}

/// Ends the innermost section of the calling thread.
///
/// `SYNCLINE_STATUS_MISUSE` if the thread is in no section.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_trace_end() -> Status {
    call(|| {
        let ended = OPEN.try_with(|open| open.borrow_mut().pop());
        match ended {
            Ok(None) => Err(Error::misuse("this thread has not begun a section of the trace")),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    })
}
