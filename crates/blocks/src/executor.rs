//! The blocked executor: the method of the papers.
//!
//! # Contract
//! Every block of the result is a location; the task of a block has an exclusive request for its
//! own location and inclusive requests for those of up to four neighbours, or eight if the kernel
//! also uses the diagonal neighbours. The input and the coefficients are never written, and need no
//! locks. With the orders that preserve program order, the result is bit-identical to that of the
//! plain double loop.
//!
//! # One step of a task
//! ```text
//! take a window ─> copy the four lines around the block from the neighbours
//!               ─> map the block (the first time: copy it from the input)
//!               ─> map the coefficients ─> take a processor ─> update ─> unmap
//! ```
//! Mapping waits for the disk. Out of core there are twice as many workers as processors, so that
//! one half reads while the other half computes.
//!
//! The current values of a neighbour that has not been updated yet are in the input, not in the
//! result.
//!
//! # Costs
//! Bytes read per step, by the paper's model ([`io_model`](crate::plan::io_model)): the block and
//! its coefficients, and of each neighbour the whole block (row-major, blocked) or one frontier
//! (framed). Bytes written: the block. When all matrices are held, only the first reading remains.
//! Locks: up to five requests, or nine with the diagonal neighbours, in one allocation-free step.
//!
//! # Source
//! Clauss and Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks", PDP
//! 2010; Clauss, Gustedt and Suter, PDP 2008. The differences: a pool of workers instead of a
//! thread per block (which remains available), a bound on the blocks in memory, frontiers without
//! sub-tasks, and the input is preserved.

mod frontier_exchange;

use std::sync::{Arc, Mutex, PoisonError};

use syncline_overlay::{Checked, Initial, Location, Overlay, Runner, Step, Stop};
use syncline_store::{
    Grid, Matrix, Shape,
    blocks::{Contents, Region, Tile, View},
    chunk::Touch,
};
use syncline_wave::executor::{Arrays, Semaphore, Settings as Common};
use syncline_wave::lanes::Real;
use syncline_wave::monitor::Monitor;
use syncline_wave::{Error as WaveError, Result as WaveResult, SweepReport};

use crate::block::{self, Blockwise, Frontiers};
use crate::compiled::Swept;
use crate::error::{Error, Result};
use crate::facts;
use crate::plan::{BlockPlan, Order};
use crate::sweep::Settings;

/// The data of a location: a block of the result.
struct Block<E: Real> {
    region: Region<E>,
    /// The number of updates so far. Before the first one, the values of the block are those of the
    /// input.
    rounds: u64,
}

/// The state that all tasks share.
struct Shared<'a, E: Real, K: Blockwise<E>> {
    kernel: &'a K,
    field: &'a Arc<Matrix<E>>,
    coefficients: &'a [Arc<Matrix<E>>],
    grid: Grid,
    shape: Shape,
    /// Limits the blocks in memory.
    windows: Semaphore,
    /// Limits the blocks that are being computed: out of core, more blocks than processors are in
    /// flight.
    processors: Semaphore,
    /// Buffers that are not in use; never more than the blocks in flight.
    buffers: Mutex<Vec<Buffers<E, K::Workspace>>>,
    monitor: &'a Monitor,
    norm: bool,
}

#[derive(Default)]
struct Buffers<E, W> {
    frontiers: Frontiers<E>,
    block: Vec<E>,
    /// A line of a diagonal neighbour, of which only the corner value is needed.
    line: Vec<E>,
    workspace: W,
}

/// See [`BlockedSweep::run`](crate::BlockedSweep::run).
pub(crate) fn run<E: Real, K: Blockwise<E>>(
    settings: &Settings,
    kernel: &K,
    plan: BlockPlan,
    arrays: &Arrays<'_, E>,
    result: Matrix<E>,
) -> Result<Swept<E>> {
    if (kernel.stencil().corners() || kernel.stencil().diagonal())
        && settings.order == Order::MaxParallel
    {
        return Err(Error::Corners);
    }
    let common = &settings.common;
    facts::blocked(settings, kernel.name(), arrays, &plan);
    let Arrays { field, coefficients } = *arrays;
    let result_chunk = Arc::clone(result.chunk());
    let traffic = || {
        let read_only = [field.chunk()].into_iter().chain(coefficients.iter().map(|m| m.chunk()));
        let all: Vec<_> = read_only.chain([&result_chunk]).map(|chunk| chunk.traffic()).collect();
        (all.iter().map(|t| t.read).sum::<u64>(), all.iter().map(|t| t.written).sum::<u64>())
    };
    let before = traffic();
    if plan.held {
        field.hold(Touch::Read)?;
        result.hold(Touch::Write)?;
        coefficients.iter().try_for_each(|m| m.hold(Touch::Read))?;
    }
    let processors = common.processors();
    let most = plan.windows.min(plan.grid.len() as u64);
    let workers = most.min(if plan.held { processors } else { 2 * processors });
    let (runner, workers) = match common.runner {
        Runner::Pool { order, .. } => (Runner::Pool { workers: workers as usize, order }, workers),
        Runner::Queues { order, .. } => {
            (Runner::Queues { workers: workers as usize, order }, workers)
        }
        Runner::Static { .. } => (Runner::Static { workers: workers as usize }, workers),
        threads => (threads, most),
    };
    let shared = Shared {
        kernel,
        field,
        coefficients,
        grid: plan.grid,
        shape: field.shape(),
        windows: Semaphore::new(plan.windows),
        processors: Semaphore::new(if plan.held { u64::MAX } else { processors }),
        buffers: Mutex::default(),
        monitor: &common.monitor,
        norm: common.tolerance.is_some(),
    };
    common.monitor.begin(common.iterations.saturating_mul(plan.grid.len() as u64));
    let blocks: Vec<Location<Block<E>>> = result
        .into_regions(plan.grid)?
        .into_iter()
        .enumerate()
        .map(|(b, region)| Location::new(name(&plan.grid, b), Block { region, rounds: 0 }))
        .collect();
    let initial = match settings.order {
        Order::Wave | Order::Barrier => Initial::Wave,
        Order::MaxParallel => Initial::MaxParallel,
    };
    let mut overlay = shared.overlay(&blocks).check(initial)?;
    common.monitor.watches(overlay.watch());
    let done = match settings.order {
        Order::Barrier => barriers(&mut overlay, runner, common)?,
        _ => {
            let stop = match common.tolerance {
                Some(tolerance) => Stop::converged(tolerance, common.iterations),
                None => Stop::after(common.iterations),
            };
            let report = overlay.run(runner, stop)?;
            Done {
                iterations: report.iterations,
                residuals: report.residuals,
                converged: report.converged,
            }
        }
    };
    drop(overlay);
    // The overlay, which borrowed the locations, is gone, so every location gives its block back.
    let regions =
        blocks.into_iter().filter_map(|b| b.into_inner().ok()).map(|b| b.region).collect();
    let result = Matrix::from_regions(regions)?;
    let after = traffic();
    let mut report = SweepReport::of_nothing(plan);
    (report.iterations, report.passes) = (done.iterations, done.iterations);
    (report.residuals, report.converged) = (done.residuals, done.converged);
    (report.bytes_read, report.bytes_written) = (after.0 - before.0, after.1 - before.1);
    (report.processors, report.workers) = (processors.min(workers), workers);
    Ok((result, report))
}

struct Done {
    iterations: u64,
    residuals: Vec<f64>,
    converged: Option<u64>,
}

/// Runs one iteration after the other, without overlap.
fn barriers(overlay: &mut Checked<'_>, runner: Runner, settings: &Common) -> Result<Done> {
    let mut done = Done { iterations: 0, residuals: Vec::new(), converged: None };
    while done.iterations < settings.iterations && done.converged.is_none() {
        let stop =
            settings.tolerance.map_or(Stop::after(1), |tolerance| Stop::converged(tolerance, 1));
        let report = overlay.run(runner, stop)?;
        done.residuals.extend(report.residuals);
        done.converged = report.converged.map(|_| done.iterations);
        done.iterations += 1;
    }
    Ok(done)
}

fn name(grid: &Grid, block: usize) -> String {
    let (i, j) = grid.at(block);
    format!("block ({i}, {j})")
}

impl<E: Real, K: Blockwise<E>> Shared<'_, E, K> {
    fn overlay<'s>(&'s self, blocks: &[Location<Block<E>>]) -> Overlay<'s> {
        let mut overlay = Overlay::new();
        for (b, block) in blocks.iter().enumerate() {
            let around = self.around(b);
            let task = Task {
                input: self.field.tile(&self.grid, b),
                neighbours: around.map(|n| n.map(|n| self.field.tile(&self.grid, n))),
                coefficients: self.coefficients.iter().map(|c| c.tile(&self.grid, b)).collect(),
                shared: self,
            };
            let reads = around.map(|n| n.map(|n| blocks[n].read()));
            overlay.task(
                name(&self.grid, b),
                (block.write(), reads),
                move |(own, around), step| task.step(own, around, step),
            );
        }
        overlay
    }
}

/// The task of one block.
struct Task<'s, E: Real, K: Blockwise<E>> {
    input: Tile<E>,
    neighbours: [Option<Tile<E>>; 8],
    coefficients: Vec<Tile<E>>,
    shared: &'s Shared<'s, E, K>,
}

impl<E: Real, K: Blockwise<E>> Task<'_, E, K> {
    fn step(
        &self,
        own: &mut Block<E>,
        around: [Option<&Block<E>>; 8],
        step: &mut Step,
    ) -> WaveResult<()> {
        if self.shared.monitor.is_cancelled() {
            return Err(WaveError::Cancelled { iteration: own.rounds });
        }
        let _window = self.shared.windows.take();
        let pool = || self.shared.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = pool().pop();
        let mut buffers = idle.unwrap_or_default();
        self.read_frontiers(around, &mut buffers)?;
        let norm = self.update(own, &mut buffers)?;
        pool().push(buffers);
        own.rounds += 1;
        step.report(norm);
        self.shared.monitor.one_more();
        Ok(())
    }

    fn update(
        &self,
        own: &mut Block<E>,
        buffers: &mut Buffers<E, K::Workspace>,
    ) -> WaveResult<f64> {
        let first = own.rounds == 0;
        if own.region.in_place() {
            let mut view =
                own.region.view_mut(if first { Contents::Discard } else { Contents::Keep })?;
            if first && self.input.in_place() {
                let old = self.input.view()?;
                (0..old.rows()).for_each(|i| view.row_mut(i).copy_from_slice(old.row(i)));
            } else if first {
                let values = self.sized(&mut buffers.block);
                self.input.load(values)?;
                let rows = values.chunks_exact(self.input.cols());
                rows.enumerate().for_each(|(i, row)| view.row_mut(i).copy_from_slice(row));
            }
            let values = (view.as_mut_ptr(), view.pitch());
            return self.update_rows(values, &buffers.frontiers, &mut buffers.workspace);
        }
        let cols = self.input.cols();
        let values = self.sized(&mut buffers.block);
        if first {
            self.input.load(values)?;
        } else {
            own.region.load(values)?;
        }
        let place = (values.as_mut_ptr(), cols);
        let norm = self.update_rows(place, &buffers.frontiers, &mut buffers.workspace)?;
        own.region.store(values)?;
        Ok(norm)
    }

    /// Returns this block's part of a buffer that is large enough for every block.
    fn sized<'b>(&self, block: &'b mut Vec<E>) -> &'b mut [E] {
        let most = self.shared.grid.rect(0).elements();
        if block.len() < most {
            block.resize(most, E::default());
        }
        &mut block[..self.input.rect().elements()]
    }

    /// Updates the block that starts at the given pointer, with the given pitch. No other task
    /// accesses the block.
    fn update_rows(
        &self,
        values: (*mut E, usize),
        frontiers: &Frontiers<E>,
        workspace: &mut K::Workspace,
    ) -> WaveResult<f64> {
        let views: Vec<View<'_, E>> =
            self.coefficients.iter().map(|c| c.view()).collect::<syncline_store::Result<_>>()?;
        let coefficients: Vec<_> = views.iter().map(|view| (view.as_ptr(), view.pitch())).collect();
        let Shared { kernel, shape, norm, .. } = *self.shared;
        let _processor = self.shared.processors.take();
        let block = block::Block {
            rect: self.input.rect(),
            values,
            coefficients: &coefficients,
            frontiers,
        };
        // SAFETY: `values` points into a view or a buffer to which the caller has exclusive access;
        // the coefficients point into `views`, which outlive the call, and their number was checked
        // to be the kernel's.
        unsafe { kernel.update(&block, shape, workspace, norm) }
    }
}
