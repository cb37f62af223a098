//! Reports of traces: what bounds a run, what each thread did when, and exports for other tools.
//!
//! ```text
//!   trace files ──load──> Trace ──collect──> sums, grids, bins ──causes──> model::Report ──> page
//!                         (aligned times)                                      └──serde──> JSON
//!                             └──export──> Perfetto, comma-separated values
//! ```
//!
//! A trace may be larger than memory: it is read twice, frame by frame, and what is collected is
//! bounded by the size of the page.

mod align;
mod causes;
mod collect;
mod error;
pub mod export;
pub mod live;
pub mod load;
pub mod model;
pub mod page;
mod report;
mod text;

pub use error::ReportError;
pub use load::Trace;
pub use report::report;
