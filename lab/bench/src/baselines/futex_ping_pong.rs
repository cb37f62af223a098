//! A word that two processes pass to each other, each asleep while the other has it: the cost of a
//! wakeup.
//!
//! # Contract
//! [`PingPong::start`] starts the other process, which must call [`answer`] and must not use its
//! standard input otherwise: its standard input is the shared memory. The process ends when the
//! `PingPong` is dropped, and is killed when the process that started it dies. If it ends by
//! itself, a round trip returns an error and does not block.
//!
//! ```text
//! this process:   word = THEIRS; wake; while word == THEIRS: sleep
//! the other:      while word == OURS: sleep; word = OURS; wake
//! ```
//!
//! # Costs
//! A round trip is two `FUTEX_WAKE` and two `FUTEX_WAIT`; some of the waits find that the word has
//! changed already, and do not sleep. Neither process spins, and no wait has a timeout. A wakeup of
//! another process by the same means cannot take less than half of this, unless that process is
//! still awake.
//!
//! # Source
//! The example of futex(2), with one word instead of two.

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

/// The turn of the measuring process.
const OURS: u32 = 0;
/// The turn of the answering process.
const THEIRS: u32 = 1;
/// The end of the exchange.
const OVER: u32 = 2;

/// The size of the mapping: a page, of which only the beginning is used.
const BYTES: usize = 4096;

/// The contents of the page. Zero is a valid value: the turn of the measuring process.
#[derive(Debug)]
struct Words {
    turn: AtomicU32,
    /// The process id of the measuring process.
    parent: AtomicU32,
}

/// The page that both processes map.
#[derive(Debug)]
struct Shared {
    start: NonNull<Words>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and only its atomic words are
// accessed.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the memory of a descriptor.
    fn of(memory: impl AsFd) -> io::Result<Self> {
        if fstat(&memory)?.st_size < BYTES as i64 {
            return Err(io::Error::other("standard input is not the memory of a ping-pong"));
        }
        // SAFETY: the address is null, so the system chooses one, and no existing mapping is
        // replaced.
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
        // SAFETY: the page is mapped until `self` is dropped, and page-aligned; the memory is at
        // least `BYTES` long, and no process shrinks it; both processes access these words only as
        // atomics.
        unsafe { self.start.as_ref() }
    }

    /// Passes the word to the other process and wakes it, unless the exchange has ended.
    fn hand_over(&self, mine: u32, others: u32) {
        // Release: pairs with the Acquire in `sleep_while`, as it would with data to pass. An
        // exchange, not a store, so that it cannot overwrite `OVER`.
        let _ =
            self.words().turn.compare_exchange(mine, others, Ordering::Release, Ordering::Relaxed);
        self.wake();
    }

    /// Ends the exchange.
    fn end(&self) {
        self.words().turn.store(OVER, Ordering::Release);
        self.wake();
    }

    /// Wakes the sleeping process; at most one sleeps.
    fn wake(&self) {
        // Not private: the waiter is in another process. The call cannot fail.
        let _ = futex::wake(&self.words().turn, futex::Flags::empty(), 1);
    }

    /// Sleeps until the word differs from `turn`, and returns the new value.
    fn sleep_while(&self, turn: u32) -> u32 {
        loop {
            let now = self.words().turn.load(Ordering::Acquire);
            if now != turn {
                return now;
            }
            // Woken, interrupted, or the word had changed: check again.
            let _ = futex::wait(&self.words().turn, futex::Flags::empty(), turn, None);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `of` mapped `BYTES` at this address, and all references to the page borrow from
        // `self`. With these arguments the call cannot fail.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

/// The measuring side of two processes that pass a word to each other.
#[derive(Debug)]
pub struct PingPong {
    shared: Arc<Shared>,
    /// Starts the other process and waits for its end. `None`: it has ended.
    watch: Option<JoinHandle<io::Result<ExitStatus>>>,
}

impl PingPong {
    /// Starts the other process, and blocks until it has answered once.
    ///
    /// # Errors
    /// If the memory cannot be created, if the process does not start, or if it ends without an
    /// answer.
    pub fn start(mut other: Command) -> io::Result<Self> {
        let memory = File::from(memfd_create("syncline-ping-pong", MemfdFlags::CLOEXEC)?);
        ftruncate(&memory, BYTES as u64)?;
        let shared = Arc::new(Shared::of(&memory)?);
        // Relaxed: the other process starts after the store.
        shared.words().parent.store(std::process::id(), Ordering::Relaxed);
        let watched = Arc::clone(&shared);
        // The death signal of a child is sent when the thread that started it ends; this thread
        // lives until the child has ended.
        let watch = thread::Builder::new().name("ping-pong watch".to_owned()).spawn(move || {
            let status = other.stdin(memory).spawn().and_then(|mut child| child.wait());
            watched.end();
            status
        })?;
        let mut started = Self { shared, watch: Some(watch) };
        started.round_trips(1)?;
        Ok(started)
    }

    /// Makes `n` round trips, one after the other, and returns their time in seconds.
    ///
    /// # Errors
    /// If the other process has ended.
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

    /// Returns the reason why the exchange has ended.
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
            // The exit status no longer matters.
            let _ = watch.join();
        }
    }
}

/// Runs the answering side on the memory that is standard input, until the exchange ends.
///
/// # Errors
/// If standard input is not the memory of a [`PingPong`], or if the process that started this one
/// has ended.
pub fn answer() -> io::Result<()> {
    let shared = Shared::of(io::stdin())?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the call.
    if getppid().map_or(0, |parent: Pid| parent.as_raw_nonzero().get().cast_unsigned())
        != shared.words().parent.load(Ordering::Relaxed)
    {
        return Err(io::Error::other("the process that started this one has ended"));
    }
    while shared.sleep_while(OURS) != OVER {
        shared.hand_over(THEIRS, OURS);
    }
    Ok(())
}
