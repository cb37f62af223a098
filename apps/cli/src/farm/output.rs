//! What tasks wrote, on its way to standard output and standard error.
//!
//! ```text
//!   Spool     what one task wrote: the first MiB in memory, more of it in a file without a name
//!     │ ended
//!   Ordered   with --keep-order: until all before it have ended
//!     │
//!   Printer   a thread, as the reader may take any time; it says by an eventfd when it has got on
//!     │ written
//!   Row       the task's line in the job log, if there is one
//! ```
//!
//! No more tasks are started while more than [`WAITING`] bytes or [`FILES`] files have ended and
//! wait ([`Ordered::has_room`]), so whatever the reader does, and however long the first task
//! takes, memory is bounded. The tasks that run already may add a MiB each.

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

/// How much of one task's output is in memory.
const IN_MEMORY: usize = 1 << 20;
/// How many bytes may wait.
const WAITING: usize = 64 << 20;
/// How many files may wait.
pub(super) const FILES: usize = 64;
/// How much is read of a file at once.
const PIECE: usize = 64 << 10;
/// What an output takes beside its bytes.
const OVERHEAD: usize = 200;

/// What one task wrote.
#[derive(Debug, Default)]
pub(super) struct Spool {
    memory: Vec<u8>,
    /// What came after that.
    file: Option<File>,
    /// What is logged when all of it is written.
    row: Option<Row>,
}

impl Spool {
    /// Adds to the end.
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

    /// What is in a file, which is closed if that is little; and how much that is.
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

    /// All of it, if it is no longer than that.
    pub(super) fn into_bytes(self, most: usize) -> Option<Vec<u8>> {
        let Self { mut memory, file, .. } = self;
        if let Some(mut file) = file {
            file.rewind().ok()?;
            // One more tells that it is longer.
            file.take((most + 1).saturating_sub(memory.len()) as u64)
                .read_to_end(&mut memory)
                .ok()?;
        }
        Some(memory).filter(|memory| memory.len() <= most)
    }

    /// Has this logged when all of it is written.
    pub(super) fn log(&mut self, row: Row) {
        self.row = Some(row);
    }

    fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.file.is_none() && self.row.is_none()
    }

    fn size(&self) -> Size {
        let row = self.row.as_ref().map_or(0, Row::len);
        Size { bytes: self.memory.len() + row + OVERHEAD, files: self.file.is_some().into() }
    }

    /// Writes it all to another.
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
    /// Bytes that stay in memory, however many they are.
    fn from(memory: Vec<u8>) -> Self {
        Self { memory, ..Self::default() }
    }
}

/// Writes it all, also where another process has made writes not to block.
pub(super) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
                // Whatever comes of it, the write tells.
                let _ = rustix::event::poll(&mut fds, None);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// What something takes while it waits.
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
    /// Woken when something was printed.
    woken: OwnedFd,
    pieces: AtomicUsize,
    bytes: AtomicUsize,
    files: AtomicUsize,
    /// What failed, until it is told.
    broken: Mutex<Option<Broken>>,
    /// Whether anything has failed, for callers that only want to know that.
    broke: AtomicBool,
}

/// What a printer could not do.
#[derive(Debug)]
pub(super) enum Broken {
    /// Print: it prints and logs nothing any more.
    Output(io::Error),
    /// Write a line of the job log.
    Log(Error),
}

impl Printer {
    /// A thread that writes to `to`, with `bar` out of the way if both are on a terminal.
    pub(super) fn start(to: BorrowedFd<'_>, bar: &ProgressBar) -> Result<Self> {
        let failed = |source| Error::Io { what: "start a thread".to_owned(), source };
        let woken = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            woken: woken.map_err(|errno| failed(errno.into()))?,
            pieces: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            files: AtomicUsize::new(0),
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

    /// Prints this after all that was given before.
    pub(super) fn print(&self, piece: Spool) {
        if piece.is_empty() {
            return;
        }
        // Relaxed, here and below: what is counted stands in the channel, and the counts for
        // themselves.
        let size = piece.size();
        self.shared.pieces.fetch_add(1, Ordering::Relaxed);
        self.shared.bytes.fetch_add(size.bytes, Ordering::Relaxed);
        self.shared.files.fetch_add(size.files, Ordering::Relaxed);
        // The thread lives as long as the channel.
        let _ = self.pieces.send(piece);
    }

    /// Whether all has been printed.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.pieces.load(Ordering::Acquire) == 0
    }

    /// Whether more is welcome.
    pub(super) fn has_room(&self) -> bool {
        self.fits(Size::default())
    }

    /// Whether more is welcome though this waits elsewhere.
    fn fits(&self, more: Size) -> bool {
        self.shared.bytes.load(Ordering::Relaxed) + more.bytes < WAITING
            && self.shared.files.load(Ordering::Relaxed) + more.files < FILES
    }

    /// What it could not do; told once.
    pub(super) fn broken(&self) -> Option<Broken> {
        self.shared
            .broke
            .load(Ordering::Acquire)
            .then(|| self.shared.broken.lock().take())
            .flatten()
    }

    /// Forgets that it was woken.
    pub(super) fn hear(&self) {
        let _ = rustix::io::read(&self.shared.woken, &mut [0; 8]);
    }
}

impl AsFd for Printer {
    /// For a poll: readable when it has got on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.woken.as_fd()
    }
}

impl Shared {
    /// Prints and logs a piece, if this prints still; whether it does afterwards.
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
        if let Err(broken) = done {
            *self.broken.lock() = Some(broken);
            self.broke.store(true, Ordering::Release);
        }
        self.files.fetch_sub(size.files, Ordering::Relaxed);
        self.bytes.fetch_sub(size.bytes, Ordering::Relaxed);
        self.pieces.fetch_sub(1, Ordering::Release);
        // Of an eventfd that is full the other side knows.
        let _ = rustix::io::write(&self.woken, &1_u64.to_ne_bytes());
        goes_on
    }
}

/// Standard output, as tasks end or in their order.
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

    /// What a task wrote; of every task once, as others wait for it.
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

    /// Prints what waits for tasks that will not end.
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

    /// Whether there is room for outputs of more tasks.
    pub(super) fn has_room(&self) -> bool {
        self.printer.fits(self.size)
    }

    /// The task for which others wait, if any do.
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
        // The thread ends, and closes its side, when all is printed.
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
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn outputs_come_in_order(numbers in Just((1..=40_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let output = printed(|printer| {
                let mut ordered = Ordered::new(printer, true);
                for &number in &numbers {
                    // One never ends.
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
