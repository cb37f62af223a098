//! Messages between processes by System V shared memory, step by step as published for a farm of
//! tasks.
//!
//! # Contract
//! A [`Channel`] leads from one process, i, to another, j, and carries any number of messages, one
//! at a time, in order. It has one sender and one receiver at a time: no state marks a claim, so
//! two senders may both see a free tag. A message may be sent before its receiver exists, and
//! outlives its sender. Process numbers are 0 to 255, because `ftok` takes eight bits; of the files
//! it takes sixteen bits of the inode and eight bits of the device, so the keys of two files may be
//! equal, and their channels then coincide.
//!
//! Segments belong to the system, and outlive all processes. The channel created by
//! [`Channel::new`] deletes them, and the files, when it is dropped, even if a message is in them:
//! it belongs to the process that outlives the messages. The other end is created by
//! [`Channel::join`]. A process that is killed deletes nothing: use `ipcs -m` and `ipcrm`.
//!
//! ```text
//! tag       0 ──────> t > 0 ──────> -1 ──────> 0        t integers are present; they
//!            sender          receiver   receiver        are being read; the tag is free
//!
//! send      1 make the files data-ij and tag-ij      receive   1 make the files
//!           2 their keys, with i                               2 their keys, with i
//!           3 make or find the tag, attach                     3 make or find the tag, attach
//!           4 until the tag is 0                               4 until the tag t is above 0
//!           5 make the data segment, as long as the data       5 tag = -1
//!           6 write                                            6 detach the tag
//!           7 detach the data                                  7 find the data segment, attach
//!           8 tag = how many integers                          8 read t integers
//!                                                              9 detach the data
//!                                                             10 delete the data segment
//!                                                             11 tag = 0
//! ```
//!
//! Details that the paper leaves open, and the choices here: the names of the files have a dash
//! between i and j; the sender detaches the tag at its end, and the receiver attaches it again for
//! step 11; between two checks of step 4 a process yields or sleeps ([`Between`]), until an
//! optional deadline; the sender writes the tag with Release and the receiver reads it with
//! Acquire, and the same in the other direction. Data are read from the data segment, not from that
//! of the tag, as the text has it in one place. An empty message cannot be sent: its length would
//! be the free tag.
//!
//! Where processors are scarce, a yield is no sleep: beside computing threads, a message takes as
//! long as their time slice, some milliseconds; with short sleeps it takes some hundred
//! microseconds.
//!
//! # Costs
//! For a message, each side opens two files and asks for their status; both together make four
//! `shmget`, five `shmat` and `shmdt`, and one `shmctl`; a segment is created and deleted. The
//! data's pages are zeroed, and faulted in by both sides, as is the page of the tag at each
//! `shmat`.
//!
//! # Source
//! M. Moreno Maza, B. Stephenson, S. M. Watt, Y. Xie, "Multiprocessed Parallelism Support in Aldor
//! on SMPs and Multicores", 2008: "Data communication and synchronization", 1 to 4, and for
//! [`cold`] "Dynamic process management".

mod segment;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use libc::key_t;
use segment::{Attached, Id, Wanted};

/// The tag while the channel is free.
const FREE: i32 = 0;
/// The tag while the data are read.
const READING: i32 = -1;

/// The action between two checks of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Between {
    /// Yields the processor.
    #[default]
    Yield,
    /// Sleeps for this time, and for as much longer as the system takes.
    Sleep(Duration),
}

/// A channel from one process to another.
#[derive(Debug)]
pub struct Channel {
    data: PathBuf,
    tag: PathBuf,
    from: u8,
    between: Between,
    at_most: Option<Duration>,
    /// Whether dropping this end deletes the segments and files.
    owned: bool,
}

impl Channel {
    /// Creates the channel from process `i` to process `j`, with its files in `folder`; dropping it
    /// deletes its segments and files.
    ///
    /// # Errors
    /// If the files or the tag cannot be created.
    pub fn new(folder: &Path, i: u8, j: u8) -> io::Result<Self> {
        let mut channel = Self::join(folder, i, j);
        channel.owned = true;
        // Fail here rather than at the first message. After an error, the drop deletes what was
        // created.
        channel.tag()?;
        Ok(channel)
    }

    /// Returns the other end of a channel, which another process has created or will create.
    /// Dropping it deletes nothing.
    #[must_use]
    pub fn join(folder: &Path, i: u8, j: u8) -> Self {
        let file = |what: &str| folder.join(format!("{what}-{i}-{j}"));
        let (data, tag) = (file("data"), file("tag"));
        Self { data, tag, from: i, between: Between::default(), at_most: None, owned: false }
    }

    /// Sets the action between two checks of the tag, and the longest wait; `None` waits without
    /// limit.
    #[must_use]
    pub fn waiting(mut self, between: Between, at_most: Option<Duration>) -> Self {
        (self.between, self.at_most) = (between, at_most);
        self
    }

    /// Sends a message, once the previous message has been received.
    ///
    /// # Errors
    /// * [`InvalidInput`](ErrorKind::InvalidInput) if `data` is empty or has more than 2^31 - 1
    ///   values;
    /// * [`TimedOut`](ErrorKind::TimedOut) if the previous message is not received in time;
    /// * [`AlreadyExists`](ErrorKind::AlreadyExists) if there is another sender;
    /// * errors of the system.
    ///
    /// After an error nothing has been sent.
    pub fn send(&mut self, data: &[i32]) -> io::Result<()> {
        let size = i32::try_from(data.len()).ok().filter(|&size| size != FREE);
        let size = size.ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidInput, "a message has 1 to 2^31 - 1 integers")
        })?;
        let (data_key, tag) = self.tag()?;
        let tag = tag.attach()?;
        self.wait(&tag, |tag| tag == FREE)?;
        let id = Id::of(data_key, data.len(), Wanted::New)?;
        let mut segment = id.attach().inspect_err(|_| {
            // Report the first error.
            let _ = id.delete();
        })?;
        segment.write(data);
        drop(segment);
        // Release: pairs with the Acquire of the receiver's wait, and publishes the data.
        tag.tag().store(size, Ordering::Release);
        Ok(())
    }

    /// Receives the next message, once it is there.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut) if no message is sent in time; errors of the system. After
    /// an error of the system the message may be lost, and the channel is unusable.
    pub fn receive(&mut self) -> io::Result<Vec<i32>> {
        let (data_key, tag_id) = self.tag()?;
        let tag = tag_id.attach()?;
        let size = self.wait(&tag, |tag| tag > FREE)?;
        // Relaxed: only tells other receivers that they are late.
        tag.tag().store(READING, Ordering::Relaxed);
        drop(tag);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let id = Id::of(data_key, size, Wanted::There)?;
        let segment = id.attach()?;
        let data = segment.read();
        drop(segment);
        id.delete()?;
        // Release: pairs with the Acquire of the sender's wait. The sender then creates a segment
        // under the key that is free again.
        tag_id.attach()?.tag().store(FREE, Ordering::Release);
        Ok(data)
    }

    /// Deletes the segments and the files, even if another process created them or a message is in
    /// them. Processes that wait on the channel then wait until their deadline.
    ///
    /// # Errors
    /// The first error of the system, after all deletions have been tried.
    pub fn remove(mut self) -> io::Result<()> {
        self.owned = false;
        self.delete()
    }

    /// Does steps 1 to 3 without attaching: returns the key of the data, and the tag.
    fn tag(&self) -> io::Result<(key_t, Id)> {
        for file in [&self.data, &self.tag] {
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file)?;
        }
        let data = segment::key(&self.data, self.from)?;
        let tag = segment::key(&self.tag, self.from)?;
        Ok((data, Id::of(tag, 1, Wanted::Anyway)?))
    }

    /// Does step 4.
    fn wait(&self, tag: &Attached, is_wanted: impl Fn(i32) -> bool) -> io::Result<i32> {
        let end = self.at_most.map(|at_most| Instant::now() + at_most);
        loop {
            // Acquire: pairs with the Release of the other side's last step.
            let now = tag.tag().load(Ordering::Acquire);
            if is_wanted(now) {
                return Ok(now);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(ErrorKind::TimedOut.into());
            }
            match self.between {
                Between::Yield => thread::yield_now(),
                Between::Sleep(time) => thread::sleep(time),
            }
        }
    }

    fn delete(&self) -> io::Result<()> {
        let mut first = Ok(());
        for file in [&self.data, &self.tag] {
            // The segment goes before its file, without which it has no key.
            let segment = || Id::of(segment::key(file, self.from)?, 0, Wanted::There)?.delete();
            for done in [segment(), fs::remove_file(file)] {
                match done {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        first = first.and(Err(error))
                    }
                    _ => {}
                }
            }
        }
        first
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if self.owned {
            // A drop cannot report errors.
            let _ = self.delete();
        }
    }
}

/// Returns a command that starts a program as `system` would, by a shell that forks and executes
/// it; but without a wait in this process.
///
/// The shell waits for the program and ends with its exit status, so that there is a child to wait
/// for. The publication runs programs in the background, which takes the same two processes.
/// Killing the child kills only the shell. If the program cannot be executed, the shell ends with
/// 126 or 127.
#[must_use]
pub fn shell(program: &OsStr, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("sh");
    // With a command left to run, a shell does not replace itself by the program, but forks.
    command.args(["-c", "\"$0\" \"$@\"; exit $?"]).arg(program).args(arguments);
    command
}

/// Starts a program by a [`shell`].
///
/// # Errors
/// If the shell cannot be started.
pub fn cold(program: &OsStr, arguments: &[&OsStr]) -> io::Result<Child> {
    shell(program, arguments).spawn()
}
