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
//! | `disk.read_peak`                     | bytes per second, where they are known               |
//!
//! Those of a sweep in blocks alone are in `syncline_blocks`.

use syncline_store::{ElementType, Layout};
use syncline_trace::note::fact;

use crate::sweep::{Settings, SweepPlan};

/// What a sweep goes over.
#[derive(Debug)]
pub struct Data<'d> {
    /// Rows and columns, or planes, rows and columns.
    pub dims: &'d [usize],
    /// The type of the elements of the first field.
    pub element: ElementType,
    /// The number of coefficients.
    pub coefficients: usize,
    /// The layout of the field.
    pub layout: Layout,
}

/// Notes what all sweeps have in common. `kernel` is its name, or that of its type.
pub fn note(settings: &Settings, kernel: &str, data: &Data<'_>) {
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
    }
    if let Some(rate) = disk {
        fact("disk.read_peak", rate);
    }
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
