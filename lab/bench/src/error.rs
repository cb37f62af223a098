//! The errors of a race, in one line each.

use std::fmt::Display;

use syncline_fabric::TeamError;

/// Any error.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result type of this command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// A request that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// An interruption by SIGINT or SIGTERM.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by {}; unfinished results are not kept", signal_hook::low_level::signal_name((*.0).into()).unwrap_or("a signal"))]
pub(crate) struct Interrupted(pub(crate) u8);

/// Returns the error "cannot `what`: `why`".
pub(crate) fn failed(what: &str, why: impl Display) -> Failure {
    format!("cannot {what}: {why}").into()
}

/// Returns the exit code for a failure.
pub(crate) fn exit_code(failure: &Failure) -> u8 {
    match (failure.downcast_ref::<Interrupted>(), failure.downcast_ref::<TeamError>()) {
        (Some(Interrupted(signal)), _) => 128 + signal,
        (_, Some(TeamError::Members { .. })) => 2,
        (_, Some(error)) => error.exit_code(),
        _ if failure.is::<Usage>() => 2,
        _ => 1,
    }
}
