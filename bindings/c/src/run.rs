//! Runs of checked overlays, and their reports.

use std::ptr;

use syncline_overlay::{
    Runner as Who, Stop,
    run::{ReadyOrder, RunReport as Done},
};

use crate::error::{Error, Status, call, optional};
use crate::overlay::{Overlay, the_overlay};

/// The scheduler that runs the tasks. Later versions may have more.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// One thread for each task.
    Threads = 0,
    /// A pool of workers, each of which is home to a part of the tasks; workers claim tasks from
    /// each other.
    Pool = 1,
    /// Like `Pool`; a worker first takes tasks that waited for the task that it ran last.
    PoolDepthFirst = 2,
    /// A pool of workers, each of which runs its part of the tasks and no others.
    Static = 3,
    /// Like `Pool`, but every iteration goes through the queues of the locations: the reference for
    /// the other runners.
    Queues = 4,
}

/// The results of a run. Later versions may have more fields at the end.
#[repr(C)]
#[derive(Debug)]
pub struct Report {
    /// The largest number of iterations of any task; all tasks did this number unless some left.
    pub iterations: u64,
    /// The iterations of all tasks together.
    pub steps: u64,
    /// Whether the convergence test was met.
    pub converged: bool,
    /// The first iteration, from 0, whose residual was small enough, if there was one; else 0.
    pub converged_at: u64,
    /// With a convergence test: the residual of each iteration. `NULL` if there is none. The report
    /// owns the array.
    pub residuals: *const f64,
    /// The number of residuals.
    pub residual_count: usize,
    /// The iterations of all tasks together that went through the queues of the locations: with the
    /// runners that use them, or while a handle had a request at one of the locations.
    pub interpreted_steps: u64,
}

/// A report with its array. The report is the first field, so that a pointer to it is also a
/// pointer to the whole.
#[repr(C)]
struct Kept {
    report: Report,
    residuals: Vec<f64>,
}

/// Runs the tasks of a checked overlay, `iterations` times each, and returns when all have stopped.
///
/// `runner` is a `syncline_runner`; `workers` is the number of workers of a pool, including the
/// calling thread (0 counts as 1). `*report` becomes a report, which the caller frees with
/// `syncline_report_dispose`, or `NULL` after an error; `report` may be `NULL`. An overlay can be
/// run again.
///
/// # Safety
/// `overlay` must not have been freed. `report` must be `NULL`, or `*report` must be valid for
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_run(
    overlay: *mut Overlay,
    runner: u32,
    workers: usize,
    iterations: u64,
    report: *mut *mut Report,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { run(overlay, runner, workers, Stop::after(iterations), report) }
}

/// Like `syncline_overlay_run`, but runs until the largest absolute value that tasks passed to
/// `syncline_step_report` in an iteration is at most `tolerance`, or for `at_most` iterations.
///
/// All tasks stop at one common iteration, which may be later than the one that met the test: while
/// the last tasks finish an iteration, others are ahead. The tasks must depend on each other,
/// directly or through others; none may leave.
///
/// # Safety
/// `overlay` must not have been freed. `report` must be `NULL`, or `*report` must be valid for
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_run_until(
    overlay: *mut Overlay,
    runner: u32,
    workers: usize,
    tolerance: f64,
    at_most: u64,
    report: *mut *mut Report,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { run(overlay, runner, workers, Stop::converged(tolerance, at_most), report) }
}

/// # Safety
/// The conditions of `syncline_overlay_run` apply.
unsafe fn run(
    overlay: *mut Overlay,
    runner: u32,
    workers: usize,
    stop: Stop,
    report: *mut *mut Report,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `report` is valid for writes.
        let report = unsafe { optional(report) };
        let who = match runner {
            n if n == Runner::Threads as u32 => Who::Threads,
            n if n == Runner::Pool as u32 => Who::Pool { workers, order: ReadyOrder::Fifo },
            n if n == Runner::PoolDepthFirst as u32 => {
                Who::Pool { workers, order: ReadyOrder::DepthFirst }
            }
            n if n == Runner::Static as u32 => Who::Static { workers },
            n if n == Runner::Queues as u32 => Who::Queues { workers, order: ReadyOrder::Fifo },
            n => return Err(Error::invalid(format!("there is no syncline_runner {n}"))),
        };
        // SAFETY: the caller guarantees that a non-null `overlay` points to a live overlay.
        let done = unsafe { the_overlay(overlay) }?.checked()?.run(who, stop)?;
        if let Some(report) = report {
            report.write(keep(done));
        }
        Ok(())
    })
}

fn keep(done: Done) -> *mut Report {
    let report = Report {
        iterations: done.iterations,
        steps: done.steps,
        converged: done.converged.is_some(),
        converged_at: done.converged.unwrap_or(0),
        residuals: if done.residuals.is_empty() { ptr::null() } else { done.residuals.as_ptr() },
        residual_count: done.residuals.len(),
        interpreted_steps: done.interpreted_steps,
    };
    Box::into_raw(Box::new(Kept { report, residuals: done.residuals })).cast()
}

/// Frees a report and its array of residuals; does nothing for `NULL`.
///
/// # Safety
/// `report` must come from a run, and must not be used after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_report_dispose(report: *mut Report) {
    if !report.is_null() {
        // SAFETY: the caller guarantees that the report comes from a run, so `keep` made it as the
        // first field of a boxed `Kept`; it is not used after this call.
        let kept = unsafe { Box::from_raw(report.cast::<Kept>()) };
        drop(kept.residuals);
    }
}
