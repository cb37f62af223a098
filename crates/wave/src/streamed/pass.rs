//! The time and the bytes of passes, and the pieces of a team's waves.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_kernel::dynamic::Kernel;

use super::plan::StreamPlan;
use crate::Result;
use crate::lanes::Real;
use crate::semaphore::Semaphore;
use crate::strip::tile::{self, Job, Scratch};

/// Nanoseconds and bytes, summed over all threads.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) read_ns: AtomicU64,
    pub(crate) write_ns: AtomicU64,
    pub(crate) check_ns: AtomicU64,
    pub(crate) pack_ns: AtomicU64,
    pub(crate) update_ns: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    /// On a team: bytes of the field that were sent to other members.
    pub(crate) exchanged: AtomicU64,
}

impl Spent {
    /// Returns all numbers.
    fn all(&self) -> [&AtomicU64; 8] {
        let Spent { read_ns, write_ns, check_ns, pack_ns, update_ns, read, written, exchanged } =
            self;
        [read_ns, write_ns, check_ns, pack_ns, update_ns, read, written, exchanged]
    }

    /// Returns the sums over all members of a team; all members call it.
    pub(crate) fn of_all(&self, me: &mut Member) -> Result<Spent> {
        let own = self.all().map(|number| number.load(Relaxed).to_le_bytes());
        let sum = Spent::default();
        for numbers in me.exchange(own.as_flattened())? {
            for (total, number) in sum.all().into_iter().zip(numbers.as_chunks::<8>().0) {
                total.fetch_add(u64::from_le_bytes(*number), Relaxed);
            }
        }
        Ok(sum)
    }
}

/// Adds the time that `work` takes to `total`.
pub(crate) fn timed<R>(total: &AtomicU64, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    add(total, start.elapsed());
    result
}

/// Adds a time to `total`.
pub(crate) fn add(total: &AtomicU64, time: Duration) {
    // Relaxed: only a statistic.
    total.fetch_add(time.as_nanos() as u64, Relaxed);
}

/// The computation of pieces of waves.
pub(super) struct Waves<'r, E> {
    kernel: &'r dyn Kernel<E>,
    plan: &'r StreamPlan,
    spent: &'r Spent,
    /// Limits the threads that compute: there are more workers than that, as some wait for the
    /// disk.
    processors: Semaphore,
    /// Buffers that are not in use.
    scratch: Mutex<Vec<Scratch<E>>>,
}

impl<'r, E: Real> Waves<'r, E> {
    pub(super) fn new(
        kernel: &'r dyn Kernel<E>,
        plan: &'r StreamPlan,
        threads: usize,
        spent: &'r Spent,
    ) -> Self {
        let processors = Semaphore::new(threads as u64);
        Waves { kernel, plan, spent, processors, scratch: Mutex::default() }
    }

    /// Runs a piece, and raises `norms`, if given, to the greatest changes. `around` is called with
    /// the tiles of the piece, while this thread counts as one that computes.
    ///
    /// # Safety
    /// The conditions of [`tile::run`] must hold where `around` calls its argument, but for the
    /// scratch.
    pub(super) unsafe fn piece(
        &self,
        job: &Job<'_, E>,
        mut norms: Option<&mut [f64]>,
        around: impl FnOnce(&mut dyn FnMut()),
    ) {
        let pool = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = pool().pop();
        let make = || Scratch::new(&job.chain.geometry, self.plan.tile);
        let mut scratch = idle.unwrap_or_else(make);
        {
            let _processor = self.processors.take();
            around(&mut || {
                // SAFETY: the scratch was made for this geometry and this tile; the caller
                // guarantees the other conditions.
                unsafe {
                    let norms = norms.as_deref_mut();
                    tile::run(self.plan.lanes, self.kernel, job, &mut scratch, norms);
                }
            });
        }
        add(&self.spent.pack_ns, std::mem::take(&mut scratch.packing));
        add(&self.spent.update_ns, std::mem::take(&mut scratch.updating));
        pool().push(scratch);
    }
}
