//! The standard streams that this process was started without.
//!
//! # Contract
//! Before `main`, Rust opens `/dev/null` in place of each standard stream that is closed, so that
//! no file of the program gets its number. What the program then prints is lost, and what it reads
//! is empty, without an error. So a program looks at the streams earlier: it has [`look`] called by
//! the loader, before the loader calls the program.
//!
//! ```
//! // SAFETY: `look` may be called before `main`.
//! #[used]
//! #[unsafe(link_section = ".init_array")]
//! static LOOK: extern "C" fn() = syncline_process::streams::look;
//! ```
//!
//! Without these lines, all streams count as open. A library does not have them, as it is none of
//! its business.
//!
//! # Source
//! `.init_array`: System V ABI, "Initialization and Termination Functions".

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::FdFlags;

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Input = 0,
    /// Standard output.
    Output = 1,
}

/// A bit for each stream that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Returns whether the stream was closed when this process was started (`>&-`).
#[must_use]
pub fn was_closed(stream: Stream) -> bool {
    // Relaxed: the word was written before the first thread began.
    CLOSED.load(Ordering::Relaxed) >> (stream as u8) & 1 == 1
}

/// Lets programs that this process starts find the streams closed as well, and not `/dev/null` in
/// their place.
///
/// # Errors
/// Returns the system's error.
pub fn pass_on() -> io::Result<()> {
    let set = |stream: Stream| match stream {
        Stream::Input => rustix::io::fcntl_setfd(io::stdin(), FdFlags::CLOEXEC),
        Stream::Output => rustix::io::fcntl_setfd(io::stdout(), FdFlags::CLOEXEC),
    };
    let mut closed =
        [Stream::Input, Stream::Output].into_iter().filter(|stream| was_closed(*stream));
    Ok(closed.try_for_each(set)?)
}

/// Looks at the streams: see the head of the module. It needs nothing that Rust sets up for `main`:
/// no allocation, no standard stream, no thread-local value.
pub extern "C" fn look() {
    for stream in [Stream::Input, Stream::Output] {
        // SAFETY: the call takes two numbers and touches no memory of this process.
        if unsafe { libc::fcntl(stream as i32, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream as u8, Ordering::Relaxed);
        }
    }
}
