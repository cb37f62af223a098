//! Reading the files of a run while they are written.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use syncline_trace::{Reader, TraceError};

use super::Live;
use crate::error::ReportError;
use crate::load::with_siblings;

/// The time between two looks for files of other hosts.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the trace of a run, and the files of other hosts beside it (`FILE.HOST`).
///
/// A trace that does not exist yet, or is replaced by that of a new run, is followed as soon as it
/// is there.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use syncline_report::live::{Follower, State};
/// use syncline_trace::{Activity, finish, span, start};
///
/// # let folder = std::env::temp_dir().join(format!("syncline-live-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("run.trace");
/// let mut follower = Follower::new(&file);
/// follower.poll(Duration::MAX)?;
/// assert_eq!(follower.live().view().state, State::Empty);
///
/// start(&file)?;
/// drop(span(Activity::Step, 7, 0));
/// finish()?;
/// follower.poll(Duration::MAX)?;
/// let view = follower.live().view();
/// assert_eq!((view.state, view.lanes[0].all_steps), (State::Ended, 1));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    files: Vec<Followed>,
    /// The time of the next look for further files.
    next: Option<Instant>,
    live: Live,
    /// Recordings that began before this moment, in nanoseconds since 1970, are left out.
    after: u64,
    earlier: HashSet<u64>,
}

#[derive(Debug)]
struct Followed {
    path: PathBuf,
    reader: Reader,
    /// The length at the last look.
    length: u64,
    /// The same file, to see that it still begins as it did.
    file: File,
    /// Its first bytes: the header of a frame, with a checksum.
    head: Vec<u8>,
}

impl Followed {
    fn open(path: PathBuf) -> Result<Followed, ReportError> {
        // What is no trace is refused first: to open a pipe would wait.
        Reader::open(&path)?;
        let file = File::open(&path).map_err(|source| TraceError::File {
            what: "open",
            path: path.clone(),
            source,
        })?;
        // The head is read before the reader fills its buffer: a trace that is replaced in between
        // has another head at the next look, and is read again.
        let head = head(&file);
        let reader = Reader::open(&path)?;
        let length = file.metadata().map_or(0, |data| data.len());
        Ok(Followed { path, reader, length, file, head })
    }

    /// Returns whether the file holds another trace than before: its beginning is gone.
    fn is_replaced(&mut self) -> bool {
        self.length = self.file.metadata().map_or(self.length, |data| data.len());
        let before = std::mem::replace(&mut self.head, head(&self.file));
        let here = |data: &Metadata| (data.dev(), data.ino());
        let moved = match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(own)) => here(&there) != here(&own),
            _ => false,
        };
        moved || !self.head.starts_with(&before)
    }
}

/// Returns the first bytes of a file.
fn head(file: &File) -> Vec<u8> {
    let mut head = [0; 24];
    let mut count = 0;
    while let Ok(read @ 1..) = file.read_at(&mut head[count..], count as u64) {
        count += read;
    }
    head[..count].to_vec()
}

impl Follower {
    /// Follows the trace at this path.
    #[must_use]
    pub fn new(path: &Path) -> Follower {
        Follower {
            path: path.to_owned(),
            files: Vec::new(),
            next: None,
            live: Live::new(),
            after: 0,
            earlier: HashSet::new(),
        }
    }

    /// Leaves out what began before this moment: a trace that a new run is about to replace.
    #[must_use]
    pub fn after(mut self, moment: SystemTime) -> Follower {
        let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.after = since.as_nanos().try_into().unwrap_or(u64::MAX);
        self
    }

    /// Reads what is new, for about this time at most. Returns whether it came to the end of all
    /// files.
    ///
    /// # Errors
    /// If a file cannot be read, or is no trace.
    pub fn poll(&mut self, time: Duration) -> Result<bool, ReportError> {
        let until = Instant::now().checked_add(time);
        self.look()?;
        for index in 0..self.files.len() {
            while let Some(frame) = self.files[index].reader.next_frame()? {
                if frame.process.as_ref().is_some_and(|own| own.began.realtime_ns < self.after) {
                    self.earlier.insert(frame.stream);
                }
                if !self.earlier.contains(&frame.stream) {
                    self.live.take(&frame);
                }
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns what is known of the run.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Returns the bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }

    /// Opens files that are new, and begins again if one was replaced.
    fn look(&mut self) -> Result<(), ReportError> {
        let mut replaced = false;
        for file in &mut self.files {
            replaced |= file.is_replaced();
        }
        if replaced {
            *self = Follower { after: self.after, ..Follower::new(&self.path) };
        }
        if self.next.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        for path in with_siblings(&[&self.path]) {
            if self.files.iter().all(|file| file.path != path) && path.exists() {
                self.files.push(Followed::open(path)?);
            }
        }
        // Until there is a file, each call looks for it.
        self.next = (!self.files.is_empty()).then(|| Instant::now() + LOOK);
        Ok(())
    }
}
