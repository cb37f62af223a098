//! The errors that members get for abandoned mutexes, and for collective calls that do not match.

use std::time::Duration;

use syncline_fabric::Member;
use syncline_rma::unstable::{LockKind, mutexes};
use syncline_rma::{Rma, RmaError};
use syncline_sync::{Fault, call_matching::Call};

use super::{Wrong, hash};
use crate::deadline;

/// The rounds for each kind of mutex: one in which the others wait when it is abandoned, and one in
/// which they request it later. Few, as the memory of an abandoned set is not freed.
const LEFT: u64 = 2;

/// In each round one member drops its set while it holds a mutex of another member. All others
/// request the mutex, before or after that, and must get an error with the mutex and its last
/// holder.
pub(super) fn poison(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    for kind in [LockKind::Mcs, LockKind::Server, LockKind::Ticket, LockKind::Hybrid] {
        for round in 0..LEFT.min(rounds) {
            let wrong = |what: String| Wrong(round, format!("{kind:?}: {what}"));
            let (holder, owner) = (hash(round, 1) as usize % size, hash(round, 2) as usize % size);
            let mut set = mutexes(rma, me, kind, 1)?;
            if rank == holder {
                set.lock(rma, owner, 0).map_err(|error| wrong(error.to_string()))?;
            }
            rma.sync()?;
            if rank == holder {
                if round % 2 == 0 {
                    // Most of the others wait by then; the result is the same for the rest.
                    std::thread::sleep(Duration::from_millis(5));
                }
                drop(set);
            } else {
                if round % 2 == 1 {
                    std::thread::sleep(Duration::from_millis(hash(round, rank as u64) % 5));
                }
                let poisoned = RmaError::Poisoned { rank: owner, index: 0, by: holder };
                // The other kinds have no deadlines between hosts.
                let told = match kind {
                    LockKind::Mcs => set.lock_deadline(rma, owner, 0, deadline()),
                    _ => set.lock(rma, owner, 0),
                };
                match told {
                    Err(error) if error == poisoned => (),
                    Err(error) => return Err(wrong(format!("{error}, and not: {poisoned}"))),
                    Ok(()) => return Err(wrong(format!("the mutex is free, and not: {poisoned}"))),
                }
            }
            rma.sync()?;
        }
    }
    Ok(())
}

/// One member allocates while all others sync: every member must get an error that names both
/// calls. The team is unusable afterwards. Under MPI its processes end in order.
pub(super) fn mismatch(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    if size == 1 {
        return Ok(());
    }
    let odd = hash(rounds, size as u64) as usize % size;
    // Without a deadline: a wait that times out by itself is not compared with others.
    let told = if rank == odd { rma.allocate::<u64>(me, 1).map(drop) } else { rma.sync() };
    let is_odd = |rank: usize, call: Call| (rank == odd) == (call == Call::Allocate) && rank < size;
    match told {
        Err(RmaError::Fault(Fault::Mismatch { rank: one, call, other, other_call }))
            if is_odd(one, call) && is_odd(other, other_call) && [one, other].contains(&odd) =>
        {
            Ok(())
        }
        Err(error) => {
            Err(Wrong(0, format!("{error}, and not: rank {odd} is in {}", Call::Allocate)))
        }
        Ok(()) => Err(Wrong(0, format!("no error, though rank {odd} is in {}", Call::Allocate))),
    }
}
