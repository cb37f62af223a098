//! The facts that traces have about a sweep.
//!
//! | fact                                 | value                                                |
//! |--------------------------------------|------------------------------------------------------|
//! | `sweep.kernel`                       | the name of the kernel, or of its type               |
//! | `sweep.executor`                     | `streamed` or `blocked`                              |
//! | `sweep.rows`, `.cols`, `.element`    | the matrix; `sweep.planes` of three dimensions       |
//! | `sweep.coefficients`                 | the number of coefficients                           |
//! | `sweep.layout`                       | the layout of the field                              |
//! | `sweep.iterations`                   | the number of iterations that the sweep does at most |
//! | `sweep.threads`                      | the threads of a process that compute at once        |
//! | `sweep.memory`, `.memory.allowed`    | bytes: those of the plan, and the bound              |
//! | `sweep.depth`, `.passes`             | streamed: iterations in a pass, passes               |
//! | `sweep.panels`, `.panel_rows`        | streamed: panels in memory at once (the ring), rows  |
//! | `sweep.tile`, `.piece`               | streamed: columns of a tile (of strips), and a task  |
//! | `sweep.blocks`, `.block`             | blocked: rows x columns of blocks, and of a block    |
//! | `sweep.windows`, `.held`             | blocked: blocks in memory at once; all are in memory |
//! | `disk.read_peak`, `disk.write_peak`  | bytes per second, where they are known               |

use syncline_store::{ElementType, Layout};
use syncline_trace::note::fact;

use crate::lanes::Real;
use crate::plan::BlockPlan;
use crate::sweep::matrices::Arrays;
use crate::sweep::{Settings, SweepPlan};

/// What a sweep goes over.
pub(crate) struct Data<'d> {
    /// Rows and columns, or planes, rows and columns.
    pub(crate) dims: &'d [usize],
    pub(crate) element: ElementType,
    pub(crate) coefficients: usize,
    pub(crate) layout: Layout,
}

/// Notes what all sweeps have in common. `kernel` is its name, or that of its type.
fn note(settings: &Settings, kernel: &str, data: &Data<'_>) {
    let [planes @ .., rows, cols] = data.dims else { return };
    fact("sweep.kernel", short(kernel));
    if let [planes] = planes {
        fact("sweep.planes", planes);
    }
    fact("sweep.rows", rows);
    fact("sweep.cols", cols);
    fact("sweep.element", data.element);
    fact("sweep.coefficients", data.coefficients);
    fact("sweep.layout", data.layout);
    fact("sweep.iterations", settings.iterations);
    fact("sweep.threads", settings.processors());
    fact("sweep.memory.allowed", settings.memory);
    if let Some(disk) = settings.disk {
        fact("disk.read_peak", disk.read);
        fact("disk.write_peak", disk.write);
    }
}

/// Notes the facts of a streamed sweep. `disk` is the rate at which the disk reads.
pub(crate) fn streamed(
    settings: &Settings,
    kernel: &str,
    data: &Data<'_>,
    plan: &SweepPlan,
    disk: Option<f64>,
) {
    note(settings, kernel, data);
    fact("sweep.executor", "streamed");
    fact("sweep.depth", plan.depth());
    fact("sweep.passes", plan.passes());
    fact("sweep.panels", plan.flight());
    match plan {
        SweepPlan::Streamed(plan) => {
            fact("sweep.panel_rows", plan.rows);
            fact("sweep.tile", plan.tile);
            fact("sweep.piece", plan.piece);
            fact("sweep.memory", plan.memory);
        }
        SweepPlan::Arrays(plan) => {
            fact("sweep.panel_rows", plan.band);
            if plan.twice > 0 {
                fact("sweep.read_twice", plan.twice);
            }
            fact("sweep.piece", plan.piece);
            fact("sweep.memory", plan.memory);
        }
        SweepPlan::Blocked(_) => {}
    }
    if let Some(rate) = disk {
        fact("disk.read_peak", rate);
    }
}

/// Notes the facts of a sweep in blocks.
pub(crate) fn blocked<E: Real>(
    settings: &Settings,
    kernel: &str,
    arrays: &Arrays<'_, E>,
    plan: &BlockPlan,
) {
    let shape = arrays.field.shape();
    let (coefficients, layout) = (arrays.coefficients.len(), arrays.field.layout());
    let dims = &[shape.rows, shape.cols];
    note(settings, kernel, &Data { dims, element: E::TYPE, coefficients, layout });
    let block = plan.grid.block_size();
    fact("sweep.executor", "blocked");
    fact("sweep.blocks", format_args!("{} x {}", plan.grid.rows(), plan.grid.cols()));
    fact("sweep.block", format_args!("{} x {}", block.rows, block.cols));
    fact("sweep.windows", plan.windows);
    fact("sweep.held", plan.held);
    fact("sweep.memory", plan.window.saturating_mul(plan.windows.min(plan.grid.len() as u64)));
}

/// Returns the last part of the name of a type, without the adapters of this crate.
fn short(name: &str) -> &str {
    let inner = name.split_once("Typed<").map_or(name, |(_, inner)| inner);
    let inner = inner.strip_prefix("'_, ").unwrap_or(inner);
    let end = inner.find(['<', ',', '>']).unwrap_or(inner.len());
    inner[..end].rsplit("::").next().unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_shortened() {
        for (name, expected) in [
            ("syncline_wave::kernel::Typed<syncline_wave::kernels::lk23::Lk23, 5>", "Lk23"),
            ("a::Typed<'_, a::Few<3>, 1>", "Few"),
            ("a::described::Program<f64>", "Program"),
            ("Own", "Own"),
        ] {
            assert_eq!(short(name), expected);
        }
    }
}
