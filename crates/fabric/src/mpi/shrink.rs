//! An MPI job that continues without the processes that have died.
//!
//! # Contract
//! ```text
//!   process 0 ── f ── gets: 2 is dead ──┐                    ┌─ f again, in a team of 3 ─> results
//!   process 1 ── f ── gets: 2 is dead ──┼── shrink, agree ───┼─ f again ────────────────> results
//!   process 2 ── f ── ✝                 │                    │         (no process has died)
//!   process 3 ── f ── has ended well ───┘                    └─ f again ────────────────> results
//! ```
//! A team is run. When it has ended in all live processes, MPI determines these processes: if none
//! is missing, their results are those of the job; otherwise they form a new team, and run the
//! function again. After a death, it does not matter whether a member's function returns an error,
//! returns a result or panics; its outcome in a team without a death is its result.
//!
//! * A process that cannot get ready, because another process has died meanwhile, revokes the
//!   communicator, so that no process waits in it.
//! * MPI decides which processes are dead. It does not notice a host that is cut off, and might
//!   wait for it. So no process waits longer than [`PATIENCE`], or than `SYNCLINE_TIMEOUT` if that
//!   is longer; after that it gets an error that says so. Where MPI permits one thread only, a
//!   process waits as long as MPI does. (In `MPI_Init`, before all this, Open MPI waits for the
//!   dead.)
//! * Messages to a team that has ended may still be in flight, so its communicator is not returned
//!   to MPI.
//! * `MPI_Finalize` waits for the dead. After a death, processes end without it, when all remaining
//!   processes have agreed to end.
//!
//! # Costs
//! A shrink and an agreement of MPI after each team, 10 to 40 ms; the setup of a new team.
//!
//! # Source
//! User-level failure mitigation: Bland, Bouteiller, Herault, Bosilca, Dongarra, "Post-failure
//! recovery of MPI communication capability", IJHPCA 27 (2013). Running one function again is the
//! model of Reinit (Laguna et al., EuroMPI 2014).

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use syncline_mpi::{Communicator, MpiError, communicator::ThreadSupport, error::ErrorClass};

use super::{Ended, Job, has_failed};
use crate::error::TeamError;
use crate::member::Member;

/// How long MPI may take to determine the live processes, when all others have ended or are dead to
/// this library; longer if `SYNCLINE_TIMEOUT` is longer, since a long timeout and a slow MPI have
/// the same reason: an overloaded machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs teams until no process has died in one.
pub(super) fn run<R, F>(job: &Job<'_>, mut all: Communicator, f: &F) -> Ended<R>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    let mut died = 0;
    job.mpi.keep_communicators();
    loop {
        let process = all.rank();
        let own = all.split(Some(0), i32::try_from(process).unwrap_or(i32::MAX));
        let ended = match own {
            Ok(Some(own)) => job.run(own, died, f),
            Ok(None) => Ended { result: Err(TeamError::Others), process, missing: None },
            Err(error) => Ended { result: Err(error.into()), process, missing: None },
        };
        if matches!(ended.result, Err(TeamError::Forked { .. })) {
            std::mem::forget(all);
            return ended;
        }
        if has_failed(&ended.result) {
            // Some processes are on the way to the split, or in it.
            let _ = all.revoke();
        }
        let before = all.size();
        let left = match bounded(job, all) {
            Ok(left) => left,
            Err(error) => {
                let missing = ended.missing.or_else(|| Some(Vec::new()));
                return Ended { result: ended.result.and(Err(error)), process, missing };
            }
        };
        if left.size() == before {
            let missing = ended.missing.or_else(|| (died > 0).then(Vec::new));
            return Ended { missing, ..ended };
        }
        died += before - left.size();
        if left.rank() == 0 {
            let (left, begun) = (left.size(), left.size() + died);
            crate::say(format_args!("{died} of {begun} processes dead, {left} go on"));
        }
        all = left;
    }
}

/// Returns a communicator of the live processes, within a time limit.
fn bounded(job: &Job<'_>, all: Communicator) -> Result<Communicator, TeamError> {
    if job.mpi.threads() < ThreadSupport::Serialized {
        return Ok(living(all)?);
    }
    let (tell, told) = mpsc::channel();
    let thread = thread::Builder::new().name("syncline shrink".to_owned());
    let started = thread.spawn(move || {
        // The receiver is gone if this took too long.
        let _ = tell.send(living(all));
    });
    started.map_err(|source| TeamError::System {
        what: "start a thread that shrinks the team",
        source,
    })?;
    let patience = PATIENCE.max(job.said.timeout);
    match told.recv_timeout(patience) {
        Ok(left) => Ok(left?),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(TeamError::Unshrunk { seconds: patience.as_secs() })
        }
    }
}

/// Returns a communicator of the live processes, when all of them agree on it.
fn living(mut all: Communicator) -> Result<Communicator, MpiError> {
    loop {
        all = all.shrink()?;
        match all.agree(1) {
            Err(error) if error.fault() == Some(ErrorClass::ProcessFailed) => (),
            agreed => return agreed.map(|_| all),
        }
    }
}
