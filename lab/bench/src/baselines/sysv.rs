//! Messages between processes by System V shared memory, step by step as a farm of tasks was published with them.
//!
//! # Contract
//! A [`Channel`] goes from one process, i, to another, j: as many messages as one wants, one at a time, in order. One
//! sender and one receiver at a time: there is no state for a claim, so two senders may both see a tag that is free. A
//! message may be sent before its receiver is born, and outlives its sender. Numbers of processes are 0 to 255, as `ftok`
//! takes eight bits; of the folder's files it takes sixteen bits of the inode and eight of the device, so that keys of two
//! files may be the same, and then their channels are one.
//!
//! Segments are the system's, and outlive all processes. The channel that was made by [`Channel::new`] deletes them, and
//! the files, when it is dropped, whatever is in them: it belongs to who outlives the messages. The other end is
//! [`Channel::join`]. Whoever is killed deletes nothing: `ipcs -m`, `ipcrm`.
//!
//! ```text
//! tag       0 ──────> t > 0 ──────> -1 ──────> 0        t integers are there; they are being read; there is room
//!            sender          receiver   receiver
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
//! What is not said there, and done here: there is a dash between i and j in the names of the files; the sender detaches
//! the tag at its end, and the receiver attaches it again for step 11; between two looks of step 4 one yields, or sleeps
//! ([`Between`]), and no longer than one is told to; the sender writes the tag with Release, and the receiver reads it
//! with Acquire, and so back again. Data are read from the data segment, not from that of the tag as the text has it once.
//! No data cannot be sent: their size would be that of room.
//!
//! Where processors are short, a yield is no sleep: beside threads that compute, a message takes as long as these are let
//! run, some milliseconds, and with short sleeps some hundred microseconds.
//!
//! # Costs
//! A message: either side opens two files and asks for their status; four `shmget`, five `shmat` and `shmdt`, and one
//! `shmctl`; a segment made and deleted. The data's pages are zeroed, and faulted in by both sides, as that of the tag is
//! at each `shmat`.
//!
//! # Source
//! M. Moreno Maza, B. Stephenson, S. M. Watt, Y. Xie, "Multiprocessed Parallelism Support in Aldor on SMPs and Multicores",
//! 2008: "Data communication and synchronization", 1 to 4, and for [`cold`] "Dynamic process management".

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

/// The tag while there is room.
const FREE: i32 = 0;
/// The tag while data are read.
const READING: i32 = -1;

/// What one does between two looks at a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Between {
    /// Lets others have the processor.
    #[default]
    Yield,
    /// Sleeps that long, and as much longer as the system takes.
    Sleep(Duration),
}

/// The way from one process to another.
#[derive(Debug)]
pub struct Channel {
    data: PathBuf,
    tag: PathBuf,
    from: u8,
    between: Between,
    at_most: Option<Duration>,
    /// Whether all is to be deleted when this is dropped.
    owned: bool,
}

impl Channel {
    /// The channel from process `i` to process `j`, with its files in the folder; all of it is deleted when this is
    /// dropped.
    ///
    /// # Errors
    /// When the files or the tag cannot be made.
    pub fn new(folder: &Path, i: u8, j: u8) -> io::Result<Self> {
        let mut channel = Self::join(folder, i, j);
        channel.owned = true;
        // So that what cannot work is known now. Dropped, if it is an error.
        channel.tag()?;
        Ok(channel)
    }

    /// The other end of a channel that somebody else has made, or will make. Dropped, it deletes nothing.
    #[must_use]
    pub fn join(folder: &Path, i: u8, j: u8) -> Self {
        let file = |what: &str| folder.join(format!("{what}-{i}-{j}"));
        let (data, tag) = (file("data"), file("tag"));
        Self { data, tag, from: i, between: Between::default(), at_most: None, owned: false }
    }

    /// What is done between two looks at the tag, and how long one waits at most, if not for ever.
    #[must_use]
    pub fn waiting(mut self, between: Between, at_most: Option<Duration>) -> Self {
        (self.between, self.at_most) = (between, at_most);
        self
    }

    /// Sends, when the message before has been received.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for no data or more than 2^31 - 1; [`TimedOut`](ErrorKind::TimedOut) if
    /// nobody receives in time; [`AlreadyExists`](ErrorKind::AlreadyExists) if there is another sender; what the system
    /// says. Nothing has been sent then.
    pub fn send(&mut self, data: &[i32]) -> io::Result<()> {
        let size = i32::try_from(data.len()).ok().filter(|&size| size != FREE);
        let size = size
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "this many cannot be sent"))?;
        let (data_key, tag) = self.tag()?;
        let tag = tag.attach()?;
        self.wait(&tag, |tag| tag == FREE)?;
        let id = Id::of(data_key, data.len(), Wanted::New)?;
        let mut segment = id.attach().inspect_err(|_| {
            // The first error is the one to tell.
            let _ = id.delete();
        })?;
        segment.write(data);
        drop(segment);
        // Release: pairs with the Acquire of the receiver's wait, so that it reads what was written.
        tag.tag().store(size, Ordering::Release);
        Ok(())
    }

    /// Receives the next message, when it is there.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut) if nobody sends in time; what the system says. After an error of the system the
    /// message may be lost, and the channel is closed for ever.
    pub fn receive(&mut self) -> io::Result<Vec<i32>> {
        let (data_key, tag_id) = self.tag()?;
        let tag = tag_id.attach()?;
        let size = self.wait(&tag, |tag| tag > FREE)?;
        // Relaxed: says only to others who would receive that they are late.
        tag.tag().store(READING, Ordering::Relaxed);
        drop(tag);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let id = Id::of(data_key, size, Wanted::There)?;
        let segment = id.attach()?;
        let data = segment.read();
        drop(segment);
        id.delete()?;
        // Release: pairs with the Acquire of the sender's wait, which makes a segment under the key that is free now.
        tag_id.attach()?.tag().store(FREE, Ordering::Release);
        Ok(data)
    }

    /// Deletes the segments and the files, whoever made them and whatever is in them. Whoever waits there waits in vain.
    ///
    /// # Errors
    /// What the system says, after all has been tried.
    pub fn remove(mut self) -> io::Result<()> {
        self.owned = false;
        self.delete()
    }

    /// Steps 1 to 3, but for the attaching: the key of the data, and the tag.
    fn tag(&self) -> io::Result<(key_t, Id)> {
        for file in [&self.data, &self.tag] {
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file)?;
        }
        let data = segment::key(&self.data, self.from)?;
        let tag = segment::key(&self.tag, self.from)?;
        Ok((data, Id::of(tag, 1, Wanted::Anyway)?))
    }

    /// Step 4.
    fn wait(&self, tag: &Attached, is_wanted: impl Fn(i32) -> bool) -> io::Result<i32> {
        let end = self.at_most.map(|at_most| Instant::now() + at_most);
        loop {
            // Acquire: pairs with the Release of the other's last step.
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
            // The segment before its file, without which there is no key.
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
            // Nobody could be told.
            let _ = self.delete();
        }
    }
}

/// What starts a program as `system` would, by a shell that forks and executes it; but nobody waits for it.
///
/// The shell does, and ends as the program ends: so there is something to wait for. Who has published this has programs
/// run in the background, which takes the same two processes. To kill the child is to kill the shell only. If the program
/// cannot be executed, the shell ends with 126 or 127.
#[must_use]
pub fn shell(program: &OsStr, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("sh");
    // With something left to do a shell does not become the program, but forks.
    command.args(["-c", "\"$0\" \"$@\"; exit $?"]).arg(program).args(arguments);
    command
}

/// Starts a program by a [`shell`].
///
/// # Errors
/// When the shell cannot be started.
pub fn cold(program: &OsStr, arguments: &[&OsStr]) -> io::Result<Child> {
    shell(program, arguments).spawn()
}
