//! A member leaves while it holds a mutex: the members that wait for the mutex, and those that ask
//! later, get an error that names the holder.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use syncline_fabric::{Member, Team, TeamError};
use syncline_rma::unstable::{LockKind, mutexes};
use syncline_rma::{Rma, RmaError};

/// The way in which a holder leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its function returns, and everything in it is dropped.
    Returns,
    /// It drops the set, and stays in the team.
    Drops,
    /// It leaks the set with `forget`, and returns.
    Forgets,
    /// It returns the set to the caller of the team.
    Keeps,
    Panics,
}

const WAYS: [Way; 5] = [Way::Returns, Way::Drops, Way::Forgets, Way::Keeps, Way::Panics];
const KINDS: [LockKind; 4] = [LockKind::Mcs, LockKind::Server, LockKind::Ticket, LockKind::Hybrid];

type Kept = Option<(syncline_rma::Mutexes, Rma)>;

/// Rank 0 leaves with mutex 1 of the last rank. Rank 1 waits for it already; the others ask later.
fn leave(me: &mut Member, kind: LockKind, way: Way, asked: &AtomicUsize) -> Result<Kept, RmaError> {
    let mut rma = Rma::new(me)?;
    let mut set = mutexes(&mut rma, me, kind, 2)?;
    let (owner, last) = (me.size() - 1, me.size() - 1);
    if me.rank() == 0 {
        set.lock(&mut rma, owner, 1)?;
    }
    rma.sync()?;
    if me.rank() == 0 {
        set.lock(&mut rma, owner, 0)?;
        set.unlock(&mut rma, owner, 0)?;
        while asked.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // Long enough that rank 1 usually waits; if it does not, it asks later.
        std::thread::sleep(Duration::from_millis(20));
        match way {
            Way::Returns => (),
            Way::Drops => drop(set),
            Way::Forgets => std::mem::forget(set),
            Way::Keeps => return Ok(Some((set, rma))),
            Way::Panics => panic!("planned"),
        }
        if way == Way::Drops {
            me.wait()?;
        }
        return Ok(None);
    }
    asked.fetch_add(1, Ordering::Relaxed);
    if me.rank() == last && last > 1 {
        std::thread::sleep(Duration::from_millis(100));
    }
    for _ in 0..100 {
        let told = set.lock(&mut rma, owner, 1).unwrap_err();
        let text = told.to_string();
        match told {
            RmaError::Poisoned { rank, index: 1, by: 0 } if rank == owner => {
                assert!(
                    text.contains(&format!("mutex 1 of rank {owner}"))
                        && text.contains("rank 0 left"),
                    "{text}"
                );
            }
            // A panic may also be reported as the death of the member.
            other => assert!(way == Way::Panics && text.contains("rank 0 "), "{other:?}"),
        }
    }
    if way == Way::Drops {
        me.wait()?;
    }
    Ok(None)
}

/// Runs `work` on a thread, and fails if it takes too long.
fn ends<T: Send + 'static>(what: String, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn check(way: Way, results: Result<Vec<Result<Kept, RmaError>>, TeamError>) {
    match results {
        Ok(results) => results.into_iter().for_each(|result| drop(result.unwrap())),
        Err(TeamError::Panicked { rank: 0, message }) => {
            assert!(way == Way::Panics && message == "planned", "{message}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_holder_that_leaves_is_named_on_one_host() {
    for (kind, way) in KINDS.into_iter().flat_map(|kind| WAYS.map(|way| (kind, way))) {
        for members in [2, 3] {
            ends(format!("{kind:?}, {way:?}, {members} threads"), move || {
                let asked = AtomicUsize::new(0);
                check(way, Team::threads(members).quiet().run(|me| leave(me, kind, way, &asked)));
            });
        }
    }
}

#[test]
#[ignore = "full: it waits for 8 s"]
fn a_holder_that_leaves_is_named_between_hosts() {
    for (kind, way) in KINDS.into_iter().flat_map(|kind| WAYS.map(|way| (kind, way))) {
        for (hosts, processes, threads) in [(2, 1, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1)] {
            ends(format!("{kind:?}, {way:?}, {hosts} x {processes} x {threads}"), move || {
                let asked = AtomicUsize::new(0);
                let team = Team::hosts(hosts).processes(processes).threads(threads).quiet();
                check(way, team.run(|me| leave(me, kind, way, &asked)));
            });
        }
    }
}

/// Rank 0 locks mutexes and unlocks some of them, in various orders. The mutexes that it still
/// holds at the end are poisoned, and no others.
#[test]
fn what_is_held_at_the_end_is_poisoned_and_nothing_else() {
    const COUNT: usize = 6;
    // All mutexes are locked in order; these are unlocked, in this order, or locked again.
    let orders: [&[usize]; 6] =
        [&[], &[5, 4], &[0, 5], &[2, 0, 4], &[0, 1, 2, 3, 4], &[3, 3, 5, 1, 0]];
    let told = |me: &mut Member, kind: LockKind, released: &[usize]| -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let mut set = mutexes(&mut rma, me, kind, COUNT)?;
        let mut held = Vec::from_iter(0..COUNT);
        for &index in released {
            match held.iter().position(|&other| other == index) {
                Some(at) => drop(held.remove(at)),
                None => held.push(index),
            }
        }
        if me.rank() == 0 {
            for index in 0..COUNT {
                set.lock(&mut rma, 1, index)?;
            }
            let mut now = Vec::from_iter(0..COUNT);
            for &index in released {
                if now.contains(&index) {
                    set.unlock(&mut rma, 1, index)?;
                    assert_eq!(
                        set.unlock(&mut rma, 1, index),
                        Err(RmaError::NotHeld { rank: 1, index }),
                        "{released:?}"
                    );
                    now.retain(|&other| other != index);
                } else {
                    set.lock(&mut rma, 1, index)?;
                    now.push(index);
                }
            }
            drop(set);
            rma.sync()?;
            return rma.sync();
        }
        rma.sync()?;
        for index in 0..COUNT {
            let outcome = set.lock(&mut rma, 1, index);
            match held.contains(&index) {
                true => {
                    assert_eq!(
                        outcome,
                        Err(RmaError::Poisoned { rank: 1, index, by: 0 }),
                        "{released:?}"
                    )
                }
                false => {
                    outcome?;
                    set.unlock(&mut rma, 1, index)?;
                }
            }
        }
        rma.sync()
    };
    for kind in KINDS {
        for released in orders {
            let results = ends(format!("{kind:?} {released:?}"), move || {
                Team::threads(2).run(|me| told(me, kind, released))
            });
            results.unwrap().into_iter().for_each(|result| result.unwrap());
        }
    }
}

/// A set is freed by all members, or by none while a member holds a mutex of it. Then all members
/// get an error, the others with the rank of the holder, and may go on.
#[test]
fn a_set_that_is_held_is_not_freed_and_all_are_told() {
    fn held(me: &mut Member) -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let mut set = rma.mutexes(me, 1)?;
        let (rank, last) = (me.rank(), me.size() - 1);
        if rank == last {
            set.lock(&mut rma, 0, 0)?;
        }
        let told = set.free(&mut rma, me).unwrap_err();
        if rank == last {
            assert_eq!(told, RmaError::Held { rank: 0, index: 0 });
            set.unlock(&mut rma, 0, 0)?;
        } else {
            assert_eq!(told, RmaError::HeldBy { by: last });
            assert!(told.to_string().contains(&format!("rank {last}")), "{told}");
        }
        set.lock(&mut rma, 0, 0)?;
        set.unlock(&mut rma, 0, 0)?;
        set.free(&mut rma, me)?;
        assert!(set.lock(&mut rma, 0, 0).unwrap_err().to_string().contains("freed"));
        rma.sync()
    }
    ends("one host".to_owned(), || {
        Team::threads(3).quiet().run(held).unwrap().into_iter().for_each(|result| result.unwrap());
    });
    ends("two hosts".to_owned(), || {
        Team::hosts(2)
            .threads(2)
            .quiet()
            .run(held)
            .unwrap()
            .into_iter()
            .for_each(|result| result.unwrap());
    });
}
