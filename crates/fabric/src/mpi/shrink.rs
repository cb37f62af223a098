//! A job of MPI that goes on without the processes that have died.
//!
//! # Contract
//! ```text
//!   process 0 ── f ── told: 2 is dead ──┐                    ┌── f again, of a team of 3 ── nobody has died ──> results
//!   process 1 ── f ── told: 2 is dead ──┼── shrink, agree ───┼── f again ───────────────────────────────────> results
//!   process 2 ── f ── ✝                 │                    │
//!   process 3 ── f ── has ended well ───┘                    └── f again ───────────────────────────────────> results
//! ```
//! A team is run. When it has ended in all who live, MPI says who that is: if everybody, their results are those of the job;
//! otherwise they make a team of their own, and begin again. What a member does when it is told of a death, returns an error
//! or panics, is all the same; what it does in a team in which nobody has died is its result.
//!
//! * Whoever cannot get ready, since another has died meanwhile, revokes the communicator: so nobody waits there.
//! * Who is dead is for MPI to say. It does not know of a host that is cut off, and might wait for
//!   it. So no process waits longer than [`PATIENCE`], or than `SYNCLINE_TIMEOUT` if that is longer,
//!   and gets an error that says so; but where MPI permits one thread only it waits as long as MPI
//!   does. (In MPI_Init, before all this, Open MPI waits for the dead.)
//! * Messages to a team that is no more may still be under way, so MPI does not get its communicator back.
//! * `MPI_Finalize` waits for the dead. After a death processes end without it, when all who are left have agreed to.
//!
//! # Costs
//! A shrinking and an agreement of MPI after each team, 10 to 40 ms; a team anew.
//!
//! # Source
//! User-level failure mitigation: Bland, Bouteiller, Herault, Bosilca, Dongarra, "Post-failure recovery of MPI communication
//! capability", IJHPCA 27 (2013); the run anew of one function is that of Reinit (Laguna et al., EuroMPI 2014).

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use syncline_mpi::{Communicator, MpiError, communicator::ThreadSupport, error::ErrorClass};

use super::{Ended, Job, has_failed};
use crate::error::TeamError;
use crate::member::Member;

/// So long MPI may take to find out who lives, when all others have ended or are dead to us. Longer,
/// if silence may be longer: the reason for both is a machine with too much to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs teams until nobody has died in one.
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
            // Some are still on the way to the split, or in it.
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

/// Those who live, within some time.
fn bounded(job: &Job<'_>, all: Communicator) -> Result<Communicator, TeamError> {
    if job.mpi.threads() < ThreadSupport::Serialized {
        return Ok(living(all)?);
    }
    let (tell, told) = mpsc::channel();
    let thread = thread::Builder::new().name("syncline shrink".to_owned());
    let started = thread.spawn(move || {
        // Nobody listens any more if it took too long.
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

/// Those who live, when all of them know of one another.
fn living(mut all: Communicator) -> Result<Communicator, MpiError> {
    loop {
        all = all.shrink()?;
        match all.agree(1) {
            Err(error) if error.fault() == Some(ErrorClass::ProcessFailed) => (),
            agreed => return agreed.map(|_| all),
        }
    }
}
