//! The output of tasks, on its way to standard output and standard error.
//!
//! ```text
//!   Spool     the output of one task: the first MiB in memory, the rest in an unnamed file
//!     │ ended
//!   Ordered   with --keep-order: held until all tasks before it have ended
//!     │
//!   Printer   a thread, as the reader may take any time; it reports progress by an eventfd
//!     │ written
//!   Row       the task's line in the job log, if there is one
//! ```
//!
//! No more tasks are started while more than [`WAITING`] bytes or [`FILES`] files of ended tasks
//! wait ([`Ordered::has_room`]). Memory is therefore bounded for any reader, and for any duration
//! of the first task. The tasks that already run may add a MiB each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use indicatif::ProgressBar;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;

use super::joblog::Row;
use crate::error::{Error, Result};

/// The number of bytes of one task's output that are kept in memory.
const IN_MEMORY: usize = 1 << 20;
/// The number of bytes that may wait.
const WAITING: usize = 64 << 20;
/// The number of files that may wait.
pub(super) const FILES: usize = 64;
/// The number of bytes read from a file at once.
const PIECE: usize = 64 << 10;
/// The memory of an output besides its bytes.
const OVERHEAD: usize = 200;

/// The output of one task.
#[derive(Debug, Default)]
pub(super) struct Spool {
    memory: Vec<u8>,
    /// The output beyond the bytes in memory.
    file: Option<File>,
    /// The line to log once all output is written.
    row: Option<Row>,
}

impl Spool {
    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= IN_MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Returns the contents of a file and their length. A short file is read into memory and
    /// closed.
    pub(super) fn of(mut file: File) -> io::Result<(Self, u64)> {
        file.rewind()?;
        let length = file.metadata()?.len();
        if length > IN_MEMORY as u64 {
            return Ok((Self { file: Some(file), ..Self::default() }, length));
        }
        let mut memory = Vec::new();
        file.read_to_end(&mut memory)?;
        Ok((memory.into(), length))
    }

    /// Returns all bytes, if there are at most `most`.
    pub(super) fn into_bytes(self, most: usize) -> Option<Vec<u8>> {
        let Self { mut memory, file, .. } = self;
        if let Some(mut file) = file {
            file.rewind().ok()?;
            // One byte more shows that it is longer.
            file.take((most + 1).saturating_sub(memory.len()) as u64)
                .read_to_end(&mut memory)
                .ok()?;
        }
        Some(memory).filter(|memory| memory.len() <= most)
    }

    /// Sets the line that is logged once all output is written.
    pub(super) fn log(&mut self, row: Row) {
        self.row = Some(row);
    }

    fn has_bytes(&self) -> bool {
        !self.memory.is_empty() || self.file.is_some()
    }

    fn is_empty(&self) -> bool {
        !self.has_bytes() && self.row.is_none()
    }

    fn size(&self) -> Size {
        let row = self.row.as_ref().map_or(0, Row::len);
        Size { bytes: self.memory.len() + row + OVERHEAD, files: self.file.is_some().into() }
    }

    /// Writes all bytes to `to`.
    fn print(&mut self, to: BorrowedFd<'_>) -> io::Result<()> {
        write_all(to, &self.memory)?;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.rewind()?;
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                read => write_all(to, &piece[..read])?,
            }
        }
    }
}

impl From<Vec<u8>> for Spool {
    /// Wraps bytes, which stay in memory regardless of their number.
    fn from(memory: Vec<u8>) -> Self {
        Self { memory, ..Self::default() }
    }
}

/// Writes all bytes, even if another process has made the descriptor nonblocking.
pub(super) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
                // The result does not matter: the next write reports errors.
                let _ = rustix::event::poll(&mut fds, None);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The memory and files of a waiting output.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    bytes: usize,
    files: usize,
}

/// A thread that writes to a descriptor.
#[derive(Debug)]
pub(super) struct Printer {
    pieces: Sender<Spool>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// An eventfd that is signalled after each printed piece.
    woken: OwnedFd,
    pieces: AtomicUsize,
    bytes: AtomicUsize,
    files: AtomicUsize,
    /// The pieces with bytes that were not printed, or not to their end.
    unprinted: AtomicUsize,
    /// The failure, until it is reported.
    broken: Mutex<Option<Broken>>,
    /// Whether anything has failed; spares callers the lock.
    broke: AtomicBool,
}

/// The operation that a printer failed at.
#[derive(Debug)]
pub(super) enum Broken {
    /// Printing: the printer prints and logs nothing any more.
    Output(io::Error),
    /// Writing a line of the job log.
    Log(Error),
}

impl Printer {
    /// Starts a thread that writes to `to`. If both are on a terminal, `bar` is hidden during each
    /// write.
    pub(super) fn start(to: BorrowedFd<'_>, bar: &ProgressBar) -> Result<Self> {
        let failed = |source| Error::Io { what: "start a thread".to_owned(), source };
        let woken = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            woken: woken.map_err(|errno| failed(errno.into()))?,
            pieces: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            files: AtomicUsize::new(0),
            unprinted: AtomicUsize::new(0),
            broken: Mutex::new(None),
            broke: false.into(),
        });
        let to = to.try_clone_to_owned().map_err(failed)?;
        let bar = to.is_terminal().then(|| bar.clone());
        let (pieces, receiver) = mpsc::channel::<Spool>();
        let theirs = Arc::clone(&shared);
        let work = move || {
            let mut prints = true;
            for piece in receiver {
                prints = theirs.print(piece, to.as_fd(), bar.as_ref(), prints);
            }
        };
        thread::Builder::new().name("print".to_owned()).spawn(work).map_err(failed)?;
        Ok(Self { pieces, shared })
    }

    /// Prints a piece after all pieces given before.
    pub(super) fn print(&self, piece: Spool) {
        if piece.is_empty() {
            return;
        }
        // Relaxed, here and below: the channel publishes the pieces, and the counters stand alone.
        let size = piece.size();
        self.shared.pieces.fetch_add(1, Ordering::Relaxed);
        self.shared.bytes.fetch_add(size.bytes, Ordering::Relaxed);
        self.shared.files.fetch_add(size.files, Ordering::Relaxed);
        // The thread lives as long as the channel.
        let _ = self.pieces.send(piece);
    }

    /// Returns whether everything has been printed.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.pieces.load(Ordering::Acquire) == 0
    }

    /// Returns the number of pieces that are not printed to their end: those that wait, and those
    /// after a failure.
    pub(super) fn unprinted(&self) -> usize {
        self.shared.pieces.load(Ordering::Acquire) + self.shared.unprinted.load(Ordering::Relaxed)
    }

    /// Returns whether the printer accepts more output.
    pub(super) fn has_room(&self) -> bool {
        self.fits(Size::default())
    }

    /// Returns whether the printer accepts more output while `more` waits elsewhere.
    fn fits(&self, more: Size) -> bool {
        self.shared.bytes.load(Ordering::Relaxed) + more.bytes < WAITING
            && self.shared.files.load(Ordering::Relaxed) + more.files < FILES
    }

    /// Returns the failure of the printer; once.
    pub(super) fn broken(&self) -> Option<Broken> {
        self.shared
            .broke
            .load(Ordering::Acquire)
            .then(|| self.shared.broken.lock().take())
            .flatten()
    }

    /// Resets the eventfd.
    pub(super) fn hear(&self) {
        let _ = rustix::io::read(&self.shared.woken, &mut [0; 8]);
    }
}

impl AsFd for Printer {
    /// Returns a descriptor for a poll; it is readable after progress.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.woken.as_fd()
    }
}

impl Shared {
    /// Prints and logs a piece if `prints` is set; returns whether printing may go on.
    fn print(
        &self,
        mut piece: Spool,
        to: BorrowedFd<'_>,
        bar: Option<&ProgressBar>,
        prints: bool,
    ) -> bool {
        let size = piece.size();
        let mut done = Ok(());
        if prints {
            done = match bar {
                Some(bar) => bar.suspend(|| piece.print(to)),
                None => piece.print(to),
            }
            .map_err(Broken::Output);
            let row = piece.row.as_ref().filter(|_| done.is_ok());
            done = done.and(row.map_or(Ok(()), Row::write).map_err(Broken::Log));
        }
        let goes_on = prints && !matches!(done, Err(Broken::Output(_)));
        if !goes_on && piece.has_bytes() {
            // Relaxed: the Release below publishes it with the number of pieces.
            self.unprinted.fetch_add(1, Ordering::Relaxed);
        }
        if let Err(broken) = done {
            *self.broken.lock() = Some(broken);
            self.broke.store(true, Ordering::Release);
        }
        self.files.fetch_sub(size.files, Ordering::Relaxed);
        self.bytes.fetch_sub(size.bytes, Ordering::Relaxed);
        self.pieces.fetch_sub(1, Ordering::Release);
        // A full eventfd is readable, so the receiver is notified anyway.
        let _ = rustix::io::write(&self.woken, &1_u64.to_ne_bytes());
        goes_on
    }
}

/// Standard output, in the order in which tasks end, or in the order of the tasks.
#[derive(Debug)]
pub(super) struct Ordered {
    printer: Printer,
    keep_order: bool,
    /// The first task whose output has not been printed.
    next: u64,
    held: BTreeMap<u64, Spool>,
    size: Size,
}

impl Ordered {
    pub(super) fn new(printer: Printer, keep_order: bool) -> Self {
        Self { printer, keep_order, next: 1, held: BTreeMap::new(), size: Size::default() }
    }

    /// Prints the output of a task. Must be called once for every task, as later outputs wait for
    /// it.
    pub(super) fn print(&mut self, number: u64, output: Spool) {
        if !self.keep_order {
            return self.printer.print(output);
        }
        let size = output.size();
        self.held.insert(number, output);
        self.size.bytes += size.bytes;
        self.size.files += size.files;
        while let Some(output) = self.held.remove(&self.next) {
            self.release(output);
            self.next += 1;
        }
    }

    /// Prints the outputs that wait for tasks that will not end.
    pub(super) fn flush(&mut self) {
        for output in std::mem::take(&mut self.held).into_values() {
            self.release(output);
        }
    }

    fn release(&mut self, output: Spool) {
        let size = output.size();
        self.size.bytes -= size.bytes;
        self.size.files -= size.files;
        self.printer.print(output);
    }

    /// Returns whether there is room for outputs of more tasks.
    pub(super) fn has_room(&self) -> bool {
        self.printer.fits(self.size)
    }

    /// Returns the task whose output others wait for, if there is one.
    pub(super) fn waits_for(&self) -> Option<u64> {
        (!self.held.is_empty()).then_some(self.next)
    }

    pub(super) fn printer(&self) -> &Printer {
        &self.printer
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    fn printed(print: impl FnOnce(Printer)) -> Vec<u8> {
        let (to, mut from) = UnixStream::pair().unwrap();
        let printer = Printer::start(to.as_fd(), &ProgressBar::hidden()).unwrap();
        drop(to);
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            from.read_to_end(&mut read).unwrap();
            read
        });
        // The thread ends, and closes its side, when everything is printed.
        print(printer);
        reader.join().unwrap()
    }

    #[test]
    fn what_is_long_goes_through_a_file() {
        let mut expected = Vec::new();
        let output = printed(|printer| {
            let mut spool = Spool::default();
            for piece in 0..40_u8 {
                let piece = vec![piece; 100_000];
                spool.write(&piece).unwrap();
                expected.extend(piece);
            }
            assert!(spool.memory.len() <= IN_MEMORY && spool.file.is_some());
            printer.print(spool);
        });
        assert!(output == expected);
    }

    #[test]
    fn what_is_too_long_is_not_taken() {
        for length in [0, 10, IN_MEMORY, IN_MEMORY + 10] {
            let spool = |length| {
                let mut spool = Spool::default();
                spool.write(&vec![1; length / 2]).unwrap();
                spool.write(&vec![1; length - length / 2]).unwrap();
                spool
            };
            assert_eq!(spool(length).into_bytes(length), Some(vec![1; length]));
            assert_eq!(spool(length + 1).into_bytes(length), None);
        }
    }

    #[test]
    fn files_are_printed_whatever_their_length() {
        for length in [0, 1, IN_MEMORY, IN_MEMORY + 1] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![7; length]).unwrap();
            let output = printed(|printer| printer.print(Spool::of(file).unwrap().0));
            assert!(output == vec![7; length], "{length}");
        }
    }

    #[test]
    fn whoever_does_not_read_any_more_is_told_of_once() {
        let (to, from) = UnixStream::pair().unwrap();
        drop(from);
        let printer = Printer::start(to.as_fd(), &ProgressBar::hidden()).unwrap();
        printer.print(b"x".to_vec().into());
        while !printer.is_idle() {
            thread::yield_now();
        }
        let broken = printer.broken();
        assert!(
            matches!(broken, Some(Broken::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe)
        );
        assert!(printer.broken().is_none() && printer.has_room());
    }

    proptest! {
        #![proptest_config(property(32))]

        #[test]
        fn outputs_come_in_order(numbers in Just((1..=40_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let output = printed(|printer| {
                let mut ordered = Ordered::new(printer, true);
                for &number in &numbers {
                    // One task never ends.
                    if number != 30 {
                        ordered.print(number, format!("{number} ").into_bytes().into());
                    }
                }
                assert_eq!(ordered.waits_for(), Some(30));
                ordered.flush();
                assert_eq!((ordered.size.bytes, ordered.size.files), (0, 0));
            });
            let expected: String =
                (1..=40).filter(|number| *number != 30).map(|number| format!("{number} ")).collect();
            prop_assert_eq!(String::from_utf8(output).unwrap(), expected);
        }
    }
}
