//! Reports of traces: what bounds a run, what each thread did when, and exports for other tools.
//!
//! ```text
//!   trace files ──Reader──> Trace ──analysis──> model::Report ──page──> report.html
//!                           (aligned times)             └──serde──> JSON
//! ```

pub mod model;
