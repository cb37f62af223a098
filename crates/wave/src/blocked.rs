//! The blocked executor: the papers' way.
//!
//! # Contract
//! Every block of the result is a location; the task of a block has an exclusive request for its own
//! and inclusive ones for up to four neighbours'. The input and the coefficients are never written, and
//! need no locks. With the orders that keep order, the bits are those of the plain double loop.
//!
//! # One step of a task
//! ```text
//! take a window ─> copy the four lines around the block from the neighbours
//!               ─> map the block (the first time: copy it from the input)
//!               ─> map the coefficients ─> take a processor ─> update ─> unmap
//! ```
//! Mapping waits for the disk. Out of core there are twice as many workers as processors, so that one
//! half reads while the other computes.
//!
//! A neighbour that has not been updated yet still has its values in the input, not in the result.
//!
//! # Costs
//! Read per step: the paper's model ([`syncline_store::io_model`]): the block and its coefficients, and
//! of each neighbour the whole block (row-major, blocked) or one frontier (framed). Written: the block.
//! When held: nothing but the first reading. Locks: up to five requests, one allocation-free step.
//!
//! # Source
//! Clauss and Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks", PDP 2010;
//! Clauss, Gustedt and Suter, PDP 2008. Changed: a pool of workers instead of a thread per block (which
//! remains), a bound on the blocks in memory, frontiers without sub-tasks, and the input is kept.

use std::array;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_overlay::{Checked, Initial, Location, Overlay, Runner, Step, Stop};
use syncline_store::{Contents, Grid, Matrix, Region, Shape, Side, Tile, Touch, View};

use crate::block::{self, Buffer, Frontiers, Rows};
use crate::plan::Plan;
use crate::sweep::{Order, Report, Sweep};
use crate::window::Windows;
use crate::{Error, Monitor, PointKernel, Result};

/// The data of a location: a block of the result.
struct Block {
    region: Region,
    /// Updates so far. Before the first the block's values are those of the input.
    rounds: u64,
}

/// What all tasks share.
struct Shared<'a, K, const N: usize> {
    kernel: &'a K,
    field: &'a Arc<Matrix>,
    coefficients: &'a [Arc<Matrix>; N],
    grid: Grid,
    shape: Shape,
    /// The right to have a block in memory.
    windows: Windows,
    /// The right to compute: out of core there are more blocks under way than processors.
    processors: Windows,
    /// Buffers not in use; never more than blocks under way.
    buffers: Mutex<Vec<Buffers>>,
    monitor: &'a Monitor,
    norm: bool,
}

#[derive(Default)]
struct Buffers {
    frontiers: Frontiers,
    block: Vec<f64>,
}

/// See [`Sweep::run`].
pub(crate) fn run<K: PointKernel<N>, const N: usize>(
    sweep: &Sweep<K>,
    plan: Plan,
    field: &Arc<Matrix>,
    coefficients: &[Arc<Matrix>; N],
    result: Matrix,
) -> Result<(Matrix, Report)> {
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
    let processors = sweep.processors();
    let most = plan.windows.min(plan.grid.len() as u64);
    let (runner, workers) = match sweep.runner {
        Runner::Pool { order, .. } => {
            let workers = most.min(if plan.held { processors } else { 2 * processors });
            (Runner::Pool { workers: workers as usize, order }, workers)
        }
        threads => (threads, most),
    };
    let shared = Shared {
        kernel: &sweep.kernel,
        field,
        coefficients,
        grid: plan.grid,
        shape: field.shape(),
        windows: Windows::new(plan.windows),
        processors: Windows::new(if plan.held { u64::MAX } else { processors }),
        buffers: Mutex::default(),
        monitor: &sweep.monitor,
        norm: sweep.tolerance.is_some(),
    };
    sweep.monitor.begin(sweep.iterations.saturating_mul(plan.grid.len() as u64));
    let blocks: Vec<Location<Block>> = result
        .into_regions(plan.grid)?
        .into_iter()
        .enumerate()
        .map(|(b, region)| Location::new(name(&plan.grid, b), Block { region, rounds: 0 }))
        .collect();
    let initial = match sweep.order {
        Order::Wave | Order::Barrier => Initial::Wave,
        Order::MaxParallel => Initial::MaxParallel,
    };
    let mut overlay = shared.overlay(&blocks).check(initial)?;
    let done = match sweep.order {
        Order::Barrier => barriers(&mut overlay, runner, sweep)?,
        _ => {
            let stop = match sweep.tolerance {
                Some(tolerance) => Stop::converged(tolerance, sweep.iterations),
                None => Stop::after(sweep.iterations),
            };
            let report = overlay.run(runner, stop)?;
            Done { iterations: report.iterations, residuals: report.residuals, converged: report.converged }
        }
    };
    drop(overlay);
    // The overlay and its references are gone, so every location gives its block back.
    let regions = blocks.into_iter().filter_map(|b| b.into_inner().ok()).map(|b| b.region).collect();
    let result = Matrix::from_regions(regions)?;
    let after = traffic();
    let report = Report {
        iterations: done.iterations,
        residuals: done.residuals,
        converged: done.converged,
        bytes_read: after.0 - before.0,
        bytes_written: after.1 - before.1,
        processors: processors.min(workers),
        workers,
        plan,
    };
    Ok((result, report))
}

struct Done {
    iterations: u64,
    residuals: Vec<f64>,
    converged: Option<u64>,
}

/// One iteration after the other, with nothing in between.
fn barriers<K>(overlay: &mut Checked<'_>, runner: Runner, sweep: &Sweep<K>) -> Result<Done> {
    let mut done = Done { iterations: 0, residuals: Vec::new(), converged: None };
    while done.iterations < sweep.iterations && done.converged.is_none() {
        let stop = sweep.tolerance.map_or(Stop::after(1), |tolerance| Stop::converged(tolerance, 1));
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

impl<K: PointKernel<N>, const N: usize> Shared<'_, K, N> {
    fn overlay<'s>(&'s self, blocks: &[Location<Block>]) -> Overlay<'s> {
        let mut overlay = Overlay::new();
        for (b, block) in blocks.iter().enumerate() {
            let neighbours = Side::ALL.map(|side| self.grid.neighbour(b, side));
            let task = Task {
                input: self.field.tile(&self.grid, b),
                neighbours: neighbours.map(|n| n.map(|n| self.field.tile(&self.grid, n))),
                coefficients: array::from_fn(|n| self.coefficients[n].tile(&self.grid, b)),
                shared: self,
            };
            let reads = neighbours.map(|n| n.map(|n| blocks[n].read()));
            overlay.task(name(&self.grid, b), (block.write(), reads), move |(own, around), step| {
                task.step(own, around, step)
            });
        }
        overlay
    }
}

/// The task of one block.
struct Task<'s, K, const N: usize> {
    input: Tile,
    neighbours: [Option<Tile>; 4],
    coefficients: [Tile; N],
    shared: &'s Shared<'s, K, N>,
}

impl<K: PointKernel<N>, const N: usize> Task<'_, K, N> {
    fn step(&self, own: &mut Block, around: [Option<&Block>; 4], step: &mut Step) -> Result<()> {
        if self.shared.monitor.is_cancelled() {
            return Err(Error::Cancelled { iteration: own.rounds });
        }
        let _window = self.shared.windows.take();
        let pool = || self.shared.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = pool().pop().unwrap_or_default();
        self.read_frontiers(around, &mut buffers.frontiers)?;
        let norm = self.update(own, &mut buffers)?;
        pool().push(buffers);
        own.rounds += 1;
        step.report(norm);
        self.shared.monitor.one_more();
        Ok(())
    }

    fn read_frontiers(&self, around: [Option<&Block>; 4], frontiers: &mut Frontiers) -> Result<()> {
        for (side, (block, input)) in Side::ALL.into_iter().zip(around.iter().zip(&self.neighbours)) {
            let (Some(block), Some(input)) = (block, input) else {
                frontiers.line_mut(side, 0);
                continue;
            };
            let line = frontiers.line_mut(side, self.input.rect().line(side));
            match block.rounds {
                0 => input.frontier(side.facing(), line)?,
                _ => block.region.frontier(side.facing(), line)?,
            }
        }
        Ok(())
    }

    fn update(&self, own: &mut Block, buffers: &mut Buffers) -> Result<f64> {
        let first = own.rounds == 0;
        let Buffers { frontiers, block } = buffers;
        if own.region.in_place() {
            let mut view = own.region.view_mut(if first { Contents::Discard } else { Contents::Keep })?;
            if first && self.input.in_place() {
                let old = self.input.view()?;
                (0..old.rows()).for_each(|i| view.row_mut(i).copy_from_slice(old.row(i)));
            } else if first {
                let values = self.sized(block);
                self.input.load(values)?;
                let rows = values.chunks_exact(self.input.cols());
                rows.enumerate().for_each(|(i, row)| view.row_mut(i).copy_from_slice(row));
            }
            return self.update_rows(&mut view, frontiers);
        }
        let cols = self.input.cols();
        let values = self.sized(block);
        if first {
            self.input.load(values)?;
        } else {
            own.region.load(values)?;
        }
        let norm = self.update_rows(&mut Buffer { values, cols }, frontiers)?;
        own.region.store(values)?;
        Ok(norm)
    }

    /// The block's part of a buffer that is large enough for every block.
    fn sized<'b>(&self, block: &'b mut Vec<f64>) -> &'b mut [f64] {
        let most = self.shared.grid.rect(0).elements();
        if block.len() < most {
            block.resize(most, 0.0);
        }
        &mut block[..self.input.rect().elements()]
    }

    fn update_rows(&self, rows: &mut impl Rows, frontiers: &Frontiers) -> Result<f64> {
        let views: Vec<View<'_>> =
            self.coefficients.iter().map(|c| c.view()).collect::<syncline_store::Result<_>>()?;
        let Shared { kernel, shape, norm, .. } = *self.shared;
        let _processor = self.shared.processors.take();
        let rect = self.input.rect();
        Ok(if norm {
            block::update::<K, N, true>(kernel, rows, frontiers, &views, rect, shape)
        } else {
            block::update::<K, N, false>(kernel, rows, frontiers, &views, rect, shape)
        })
    }
}
