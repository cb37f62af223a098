//! Runs of checked overlays, and what they report.

use std::ptr;

use syncline_overlay::{
    Runner as Who, Stop,
    run::{ReadyOrder, RunReport as Done},
};

use crate::error::{Error, Status, call, optional};
use crate::overlay::{Overlay, the_overlay};

/// Who runs the tasks. Later versions may know more.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A thread for each task.
    Threads = 0,
    /// So many workers, each home to a part of the tasks, that claim from each other.
    Pool = 1,
    /// The same; a worker first takes tasks that waited for what it ran last.
    PoolDepthFirst = 2,
    /// So many workers, each of which runs its part of the tasks and no others.
    Static = 3,
    /// As a pool, but over the queues of the locations all the time: the reference for the others.
    Queues = 4,
}

/// What a run did. Later versions may have more fields, at the end.
#[repr(C)]
#[derive(Debug)]
pub struct Report {
    /// The most iterations that any task did; all did as many unless some left.
    pub iterations: u64,
    /// Iterations of all tasks together.
    pub steps: u64,
    /// Whether the convergence test was met.
    pub converged: bool,
    /// The first iteration, from 0, whose residual was small enough, if one was.
    pub converged_at: u64,
    /// With a convergence test: the residual of each iteration. `NULL` if there is none.
    pub residuals: *const f64,
    /// How many residuals there are.
    pub residual_count: usize,
    /// Iterations of all tasks together that went over the queues of the locations: with the runners that do so, or
    /// while a handle had a request at one of them.
    pub interpreted_steps: u64,
}

/// A report with its array. The report comes first, so that a pointer to it is a pointer to both.
#[repr(C)]
struct Kept {
    report: Report,
    residuals: Vec<f64>,
}

/// Runs the tasks of a checked overlay, so many iterations each, and returns when all have stopped.
///
/// `runner` is one of `syncline_runner`; `workers` is how many a pool has, the calling thread among them (0
/// counts as 1). `*report` gets what was done, and `NULL` after an error; `report` may be `NULL`. An overlay
/// can be run again.
///
/// # Safety
/// `overlay` was not freed. `report` is `NULL`, or `*report` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_run(
    overlay: *mut Overlay,
    runner: u32,
    workers: usize,
    iterations: u64,
    report: *mut *mut Report,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { run(overlay, runner, workers, Stop::after(iterations), report) }
}

/// Like `syncline_overlay_run`, until the greatest `syncline_step_report` of an iteration, in absolute
/// value, is at most `tolerance`, or for `at_most` iterations.
///
/// All tasks stop at one common iteration, some behind that one: while the last tasks finish an iteration, others
/// are ahead. The tasks must depend on each other, if only by way of others; none may leave.
///
/// # Safety
/// `overlay` was not freed. `report` is `NULL`, or `*report` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_overlay_run_until(
    overlay: *mut Overlay,
    runner: u32,
    workers: usize,
    tolerance: f64,
    at_most: u64,
    report: *mut *mut Report,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { run(overlay, runner, workers, Stop::converged(tolerance, at_most), report) }
}

/// # Safety
/// As `syncline_overlay_run`.
unsafe fn run(
    overlay: *mut Overlay,
    runner: u32,
    workers: usize,
    stop: Stop,
    report: *mut *mut Report,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
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
        // SAFETY: as the caller vouches.
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

/// Gives a report back; `NULL` is nothing.
///
/// # Safety
/// `report` comes from a run, and is not used from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_report_dispose(report: *mut Report) {
    if !report.is_null() {
        // SAFETY: as the caller vouches; `keep` made it as part of this.
        let kept = unsafe { Box::from_raw(report.cast::<Kept>()) };
        drop(kept.residuals);
    }
}
