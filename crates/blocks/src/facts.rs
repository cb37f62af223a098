//! The facts that traces have about a sweep in blocks, beside those of all sweeps.
//!
//! | fact                                 | value                                                |
//! |--------------------------------------|------------------------------------------------------|
//! | `sweep.executor`                     | `blocked`                                            |
//! | `sweep.memory`                       | the bytes of the blocks in memory at once            |
//! | `sweep.blocks`, `.block`             | rows x columns of blocks, and of a block             |
//! | `sweep.windows`, `.held`             | blocks in memory at once; all are in memory          |
//! | `disk.read_peak`, `disk.write_peak`  | bytes per second, where they are known               |

use syncline_trace::note::fact;
use syncline_wave::executor::{Arrays, Data, note};
use syncline_wave::lanes::Real;

use crate::plan::BlockPlan;
use crate::sweep::Settings;

/// Notes the facts of a sweep. `kernel` is its name, or that of its type.
pub(crate) fn blocked<E: Real>(
    settings: &Settings,
    kernel: &str,
    arrays: &Arrays<'_, E>,
    plan: &BlockPlan,
) {
    let shape = arrays.field.shape();
    let (coefficients, layout) = (arrays.coefficients.len(), arrays.field.layout());
    let dims = &[shape.rows, shape.cols];
    note(&settings.common, kernel, &Data { dims, element: E::TYPE, coefficients, layout });
    if let Some(disk) = settings.disk {
        fact("disk.read_peak", disk.read);
        fact("disk.write_peak", disk.write);
    }
    let block = plan.grid.block_size();
    fact("sweep.executor", "blocked");
    fact("sweep.blocks", format_args!("{} x {}", plan.grid.rows(), plan.grid.cols()));
    fact("sweep.block", format_args!("{} x {}", block.rows, block.cols));
    fact("sweep.windows", plan.windows);
    fact("sweep.held", plan.held);
    fact("sweep.memory", plan.window.saturating_mul(plan.windows.min(plan.grid.len() as u64)));
}
