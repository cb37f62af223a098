//! What bounds the run so far, found by another thread, as it takes the time of reading the files.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use syncline_report::live;

/// Longer traces are not read again and again.
const MOST_BYTES: u64 = 200 << 20;
/// The shortest time between two readings.
const PAUSE: Duration = Duration::from_secs(3);
/// The pause after a reading is this many times as long: readings take a tenth of a processor.
const PART: u32 = 9;

/// Finds what bounds a run, now and then.
#[derive(Debug)]
pub(super) struct CauseFinder {
    path: PathBuf,
    reading: Option<(Instant, Receiver<Option<String>>)>,
    /// The time of the next reading.
    next: Instant,
    words: Option<String>,
    /// Whether the last reading began after the end of the run.
    is_last: bool,
}

impl CauseFinder {
    /// Finds the causes of the run that is recorded to this file.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            reading: None,
            next: Instant::now() + PAUSE,
            words: None,
            is_last: false,
        }
    }

    /// Takes the result of a reading, and begins another one if it is due, or if the run has ended.
    pub(super) fn look(&mut self, bytes: u64, over: bool) {
        if let Some((began, result)) = &self.reading {
            match result.try_recv() {
                Ok(words) => {
                    self.words = words.or(self.words.take());
                    self.next = Instant::now() + PAUSE.max(began.elapsed() * PART);
                }
                Err(TryRecvError::Empty) => return,
                // The thread has ended without a result.
                Err(TryRecvError::Disconnected) => self.next = Instant::now() + PAUSE,
            }
            self.reading = None;
        }
        let due = if over { !self.is_last } else { Instant::now() >= self.next };
        if !due || bytes > MOST_BYTES {
            return;
        }
        self.is_last = over;
        let (sender, receiver) = mpsc::channel();
        let path = self.path.clone();
        let read = move || {
            // Without effect on the run, if that is allowed.
            let _ = rustix::process::setpriority_process(None, 10);
            let _ = sender.send(words(&path));
        };
        if thread::Builder::new().name("cause".to_owned()).spawn(read).is_ok() {
            self.reading = Some((Instant::now(), receiver));
        }
    }

    /// Finds what bounds the run, before it returns.
    pub(super) fn find(&mut self, bytes: u64) {
        if bytes <= MOST_BYTES {
            self.words = words(&self.path).or(self.words.take());
        }
    }

    /// Returns what bounds the run, as far as it is known.
    pub(super) fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }
}

fn words(path: &Path) -> Option<String> {
    // A trace without events, or one that was just replaced, has no cause yet.
    live::summary(&[path]).ok().map(|summary| summary.headline)
}
