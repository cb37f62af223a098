//! Exports of all spans of a trace for other programs.
//!
//! Both exports read the trace once, span by span, in memory that does not depend on its length.

mod csv;
mod nest;
mod perfetto;

use std::io;

pub use csv::csv;
pub use perfetto::perfetto;
use syncline_trace::{ActivityClass, Role};

use crate::error::ReportError;

/// Returns the word for a class.
fn class_name(class: ActivityClass) -> &'static str {
    match class {
        ActivityClass::Work => "work",
        ActivityClass::Wait => "wait",
        ActivityClass::Device => "device",
        ActivityClass::Mark => "mark",
    }
}

/// Returns the words for a role, or nothing for a thread without one.
fn role_name(role: Option<Role>) -> String {
    match role {
        Some(Role::Worker(number)) => format!("worker {number}"),
        Some(Role::Manager) => "manager".into(),
        Some(Role::Server(host)) => format!("server {host}"),
        Some(Role::Member(rank)) => format!("member {rank}"),
        _ => String::new(),
    }
}

/// Returns the error of an export that cannot be written.
fn cannot_write(what: &str, source: io::Error) -> ReportError {
    ReportError::Write { what: what.into(), source }
}
