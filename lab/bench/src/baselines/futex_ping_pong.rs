//! A word that two processes hand to each other, each asleep while the other has it: what waking costs.
//!
//! # Contract
//! [`PingPong::start`] starts the other process, which is to call [`answer`] and nothing else that touches its standard
//! input: there it finds the memory. It ends when the `PingPong` is dropped, and is killed when the process that has started
//! it dies. If it ends by itself, a round trip is an error, not a wait for ever.
//!
//! ```text
//! this one:   word = THEIRS; wake; while word == THEIRS: sleep
//! the other:  while word == OURS: sleep; word = OURS; wake
//! ```
//!
//! # Costs
//! A round trip is two `FUTEX_WAKE` and two `FUTEX_WAIT`, of which some find that the word has changed already and do not
//! sleep. Nobody spins, and nobody has a timeout. Whoever wakes another process by the same means cannot be faster than
//! half of this, unless it is still awake.
//!
//! # Source
//! The example of futex(2), with one word in place of two.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::futex;

/// The turn is of the process that measures.
const OURS: u32 = 0;
/// The turn is of the process that answers.
const THEIRS: u32 = 1;
/// It is over.
const OVER: u32 = 2;

/// What is mapped: a page, of which the beginning is used.
const BYTES: usize = 4096;

/// What stands at its beginning. Zero is a value: it is this one's turn.
#[derive(Debug)]
struct Words {
    turn: AtomicU32,
    /// The process that measures.
    parent: AtomicU32,
}

/// The page that both processes have.
#[derive(Debug)]
struct Shared {
    start: NonNull<Words>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and only its atomic words are touched.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the memory of a descriptor.
    fn of(memory: impl AsFd) -> io::Result<Self> {
        if fstat(&memory)?.st_size < BYTES as i64 {
            return Err(io::Error::other("standard input is not the memory of a ping-pong"));
        }
        // SAFETY: where it is mapped is the system's choice, so nothing else is replaced.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                memory,
                0,
            )?
        };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap: mapped at 0"))?;
        Ok(Self { start })
    }

    fn words(&self) -> &Words {
        // SAFETY: mapped until this is dropped, on a page's boundary; the memory is as long, which nobody changes, and
        // both processes touch these words as atomics only.
        unsafe { self.start.as_ref() }
    }

    /// Hands the word over, and wakes who sleeps on it; unless it is over.
    fn hand_over(&self, mine: u32, others: u32) {
        // Release: pairs with the Acquire in `sleep_while`, as it would if there were data to hand over. Exchanged, so
        // that nobody overwrites that it is over.
        let _ =
            self.words().turn.compare_exchange(mine, others, Ordering::Release, Ordering::Relaxed);
        self.wake();
    }

    /// Says that it is over.
    fn end(&self) {
        self.words().turn.store(OVER, Ordering::Release);
        self.wake();
    }

    /// Wakes who sleeps: one at most.
    fn wake(&self) {
        // Not private: the other is another process. It cannot fail.
        let _ = futex::wake(&self.words().turn, futex::Flags::empty(), 1);
    }

    /// Sleeps until the word is another one, which is returned.
    fn sleep_while(&self, turn: u32) -> u32 {
        loop {
            let now = self.words().turn.load(Ordering::Acquire);
            if now != turn {
                return now;
            }
            // Woken, interrupted, or the word had changed: look again.
            let _ = futex::wait(&self.words().turn, futex::Flags::empty(), turn, None);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped so in `of`; all references to it are borrowed from this. It can only fail if that were not so.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

/// Two processes that hand a word to each other: the side that measures.
#[derive(Debug)]
pub struct PingPong {
    shared: Arc<Shared>,
    /// Starts the other process and waits for it, so that its end is known here. `None`: it has ended.
    watch: Option<JoinHandle<io::Result<ExitStatus>>>,
}

impl PingPong {
    /// Starts the other process, and waits until it has answered once.
    ///
    /// # Errors
    /// When there is no memory, the process does not start, or it ends without an answer.
    pub fn start(mut other: Command) -> io::Result<Self> {
        let memory = File::from(memfd_create("syncline-ping-pong", MemfdFlags::CLOEXEC)?);
        ftruncate(&memory, BYTES as u64)?;
        let shared = Arc::new(Shared::of(&memory)?);
        // Relaxed: the other process is started after that.
        shared.words().parent.store(std::process::id(), Ordering::Relaxed);
        let watched = Arc::clone(&shared);
        // Who has this thread as its parent is killed when the thread ends, which it does not before.
        let watch = thread::Builder::new().name("ping-pong watch".to_owned()).spawn(move || {
            let status = other.stdin(memory).spawn().and_then(|mut child| child.wait());
            watched.end();
            status
        })?;
        let mut started = Self { shared, watch: Some(watch) };
        started.round_trips(1)?;
        Ok(started)
    }

    /// Seconds of so many round trips, one after the other.
    ///
    /// # Errors
    /// When the other process has ended.
    pub fn round_trips(&mut self, n: u64) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..n {
            self.shared.hand_over(OURS, THEIRS);
            if self.shared.sleep_while(THEIRS) == OVER {
                return Err(self.why());
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// Why it is over.
    fn why(&mut self) -> io::Error {
        match self.watch.take().map(JoinHandle::join) {
            Some(Ok(Ok(status))) => {
                io::Error::other(format!("the other process has ended: {status}"))
            }
            Some(Ok(Err(error))) => error,
            Some(Err(_)) | None => io::Error::other("the other process has ended"),
        }
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(watch) = self.watch.take() {
            // How it has ended is nobody's concern any more.
            let _ = watch.join();
        }
    }
}

/// The other process: answers on the memory that is its standard input, until it is over.
///
/// # Errors
/// When its standard input is something else.
pub fn answer() -> io::Result<()> {
    let shared = Shared::of(io::stdin())?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before that.
    if getppid().map_or(0, |parent: Pid| parent.as_raw_nonzero().get().cast_unsigned())
        != shared.words().parent.load(Ordering::Relaxed)
    {
        return Err(io::Error::other("who has started this has ended"));
    }
    while shared.sleep_while(OURS) != OVER {
        shared.hand_over(THEIRS, OURS);
    }
    Ok(())
}
