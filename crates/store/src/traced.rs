//! Files and waits for disks in traces.
//!
//! A file has a number of its process, and its name in messages. Different handles to a file have
//! different numbers and the same name. A span `Read` or `Write` is a piece of a direct transfer,
//! from its first request to its last answer; its detail is the number of bytes that were
//! transferred. A thread that has to wait for the disk meanwhile, or in a call on a mapping or a
//! sync, has a span `AwaitDisk`.

use std::path::Path;

use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{Activity, Span, is_enabled, span};

/// Reserves a number for a file, and notes its name if recording is on.
pub(crate) fn file(name: &Path) -> u32 {
    let id = note::new_ids(1);
    note::add(|| [Note::Name { class: ObjectClass::File, id, name: name.display().to_string() }]);
    id
}

/// Begins a wait for the disk, for a file that has a number.
pub(crate) fn awaits(file: u32) -> Span {
    span(Activity::AwaitDisk, file, 0)
}

/// Begins a wait for the disk, for a file without a number.
pub(crate) fn awaits_named(name: &Path) -> Option<Span> {
    is_enabled().then(|| awaits(file(name)))
}
