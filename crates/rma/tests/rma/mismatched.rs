//! Collective calls that do not match end in an error that names two of them, at every member, and
//! no member hangs. Random programs that match, in any legal order of their halves and with slow
//! members, never end in an error.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team, TeamBarrier, TeamError, board::TeamBoard};
use syncline_rma::{Rma, RmaError};
use syncline_signal::Signal;
use syncline_sync::{
    Auto, BarrierMember, Fault,
    barrier::{Counter, DisseminationMember, TournamentMember},
    call_matching::Call,
};
use syncline_testkit::{cases, seed};

use crate::programs::{accused, legal};

/// Runs `work` on a thread, and fails if it takes too long.
fn ends<T: Send + 'static>(what: String, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// The teams: threads, and hosts of one process, of two threads, and of two processes.
const TEAMS: [(usize, usize, usize); 6] =
    [(0, 1, 2), (0, 1, 3), (2, 1, 1), (3, 1, 1), (2, 1, 2), (2, 2, 1)];

fn team<R: Send>(
    (hosts, processes, threads): (usize, usize, usize),
    work: impl Fn(&mut Member) -> R + Sync,
) -> Result<Vec<R>, TeamError> {
    match hosts {
        0 => Team::threads(threads).quiet().run(work),
        _ => Team::hosts(hosts).processes(processes).threads(threads).quiet().run(work),
    }
}

/// The call of rank 0 or of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Allocate,
    Sync,
    Wait,
    Free,
    Mutexes,
    FreeMutexes,
    Gather,
    HalfAndWait,
}

impl Does {
    fn call(self) -> Call {
        match self {
            Does::Allocate => Call::Allocate,
            Does::Sync => Call::Sync,
            Does::Wait | Does::HalfAndWait => Call::Wait,
            Does::Free => Call::Free,
            Does::Mutexes => Call::Mutexes,
            Does::FreeMutexes => Call::FreeMutexes,
            Does::Gather => Call::Gather,
        }
    }

    fn go(self, me: &mut Member) -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u64>(me, 1)?;
        let mut set = rma.mutexes(me, 1)?;
        match self {
            Does::Allocate => rma.allocate::<u64>(me, 1).map(drop),
            Does::Sync => rma.sync(),
            Does::Wait => Ok(me.wait()?),
            Does::Free => rma.free(me, memory),
            Does::Mutexes => rma.mutexes(me, 1).map(drop),
            Does::FreeMutexes => set.free(&mut rma, me),
            Does::Gather => me.gather(1).map(drop).map_err(RmaError::from),
            // It has arrived at the barrier already, and the others do not come.
            Does::HalfAndWait => {
                me.barrier().arrive()?;
                Ok(me.wait()?)
            }
        }
    }
}

fn apart(shape: (usize, usize, usize), one: Does, others: Does) {
    let what = format!("{shape:?}, {one:?}, {others:?}");
    let results = ends(what.clone(), move || {
        team(shape, move |me| if me.rank() == 0 { one.go(me) } else { others.go(me) })
    });
    for (rank, result) in results.unwrap().into_iter().enumerate() {
        match result {
            Err(RmaError::Fault(Fault::Mismatch { rank: first, call, other, other_call })) => {
                assert!(first == 0 && other > 0, "{what}: {first} {other}");
                assert_eq!((call, other_call), (one.call(), others.call()), "{what}");
            }
            other => panic!("{what}: rank {rank}: {other:?}"),
        }
    }
}

#[test]
#[ignore = "full: it waits for 10 s"]
fn calls_that_do_not_match_are_named() {
    for shape in TEAMS {
        for (one, others) in [
            (Does::Allocate, Does::Sync),
            (Does::Sync, Does::Allocate),
            (Does::Wait, Does::Sync),
            (Does::Free, Does::Wait),
            (Does::Mutexes, Does::Sync),
            (Does::FreeMutexes, Does::Wait),
            (Does::Gather, Does::Sync),
        ] {
            apart(shape, one, others);
        }
    }
    // Shapes in which an arrival is a call by itself.
    apart((0, 1, 2), Does::HalfAndWait, Does::Sync);
    apart((2, 1, 1), Does::Sync, Does::HalfAndWait);
}

/// Each member waits for the next one, in separate barriers: a cycle of three is detected.
#[test]
fn longer_circles_are_found() {
    fn circle(me: &mut Member) -> Result<(), Fault> {
        let make = |me: &mut Member| me.make(Counter::within).unwrap();
        let mut barriers = [make(me), make(me), make(me)];
        let rank = me.rank();
        // This member arrives at the barrier that the member before it waits at, and not at the one
        // that the member after it waits at.
        barriers[(rank + 1) % 3].arrive()?;
        barriers[rank].wait()
    }
    let results = ends("circle".to_owned(), || Team::threads(3).quiet().run(circle).unwrap());
    assert!(
        results.iter().all(|result| matches!(result, Err(Fault::Mismatch { .. }))),
        "{results:?}"
    );
}

/// Members make different things; one makes nothing, and waits. All get an error that names the
/// members and the things.
#[test]
fn members_that_make_different_things_are_told() {
    fn differ(me: &mut Member) -> Result<(), String> {
        match me.rank() {
            0 => me.space().array::<Signal>(1).map(drop),
            1 => me.space().array::<Signal>(64).map(drop),
            _ => Ok(()),
        }
        .map_err(|error| error.to_string())?;
        me.wait().map_err(|fault| fault.to_string())
    }
    for shape in [(0, 1, 3), (0, 1, 2), (2, 1, 2)] {
        let results = ends(format!("{shape:?}"), move || team(shape, differ).unwrap());
        for (rank, result) in results.into_iter().enumerate() {
            let text = result.expect_err("nothing that it waits for is the same for all");
            let (one, other) = ("rank 0 allocates 8 bytes", "rank 1 allocates 512 bytes");
            let what = format!("{one} of memory, {other} of memory");
            let either = format!("{other} of memory, {one} of memory");
            let told = ": all members must make the same things in the same order";
            let expected = [format!("{what}{told}"), format!("{either}{told}")];
            assert!(expected.contains(&text), "{shape:?}, {rank}: {text}");
        }
    }
}

/// The same words of memory for another kind of object are a difference.
#[test]
fn one_sided_memory_is_no_barrier() {
    fn differ(me: &mut Member) -> Result<(), String> {
        let made = match me.rank() {
            0 => Rma::new(me).map(drop).map_err(|error| error.to_string()),
            _ => {
                let cores = me.cores();
                let barrier = me.make(|space, members| Auto::within(space, members, cores));
                barrier.map(drop).map_err(|error| error.to_string())
            }
        };
        made?;
        me.gather(0).map(drop).map_err(|fault| fault.to_string())
    }
    let results = ends("one host".to_owned(), || Team::threads(2).quiet().run(differ).unwrap());
    let made = [(0, "one-sided memory"), (1, "a barrier")]
        .map(|(rank, what)| format!("rank {rank} makes {what}"));
    let [one, other] = &made;
    let told = "all members must make the same things in the same order";
    let either = [format!("{one}, {other}: {told}"), format!("{other}, {one}: {told}")];
    for result in results {
        let text = result.expect_err("a member has made something else");
        assert!(either.contains(&text), "{text}");
    }
}

/// The barriers of several rounds at which a member stops waiting.
#[derive(Clone, Copy, Debug)]
enum Rounds {
    Team,
    Dissemination,
    Tournament,
    Combined,
}

impl Rounds {
    const ALL: [Rounds; 4] =
        [Rounds::Team, Rounds::Dissemination, Rounds::Tournament, Rounds::Combined];

    fn wait(
        self,
        me: &mut Member,
        made: &mut Made,
        deadline: Option<Instant>,
    ) -> Result<(), Fault> {
        match self {
            Rounds::Team => me.wait_deadline(deadline),
            Rounds::Dissemination => made.0.wait_deadline(deadline),
            Rounds::Tournament => made.1.wait_deadline(deadline),
            Rounds::Combined => made.2.wait_deadline(deadline),
        }
    }
}

type Made = (DisseminationMember<TeamBoard>, TournamentMember<TeamBoard>, TeamBarrier);

/// A member times out at a barrier in which the others still need its signals, and waits elsewhere.
fn stops_waiting(me: &mut Member, at: Rounds, stops: usize) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    let mut made = (me.dissemination(2)?, me.tournament()?, me.combined(2)?);
    if me.rank() == stops {
        let soon = Some(Instant::now() + Duration::from_millis(20));
        assert_eq!(at.wait(me, &mut made, soon), Err(Fault::TimedOut));
    }
    // From here on the others come to the barrier.
    me.gather(0)?;
    if me.rank() != stops {
        at.wait(me, &mut made, None)?;
    }
    rma.sync()
}

#[test]
fn a_member_that_has_stopped_waiting_is_missed_in_later_rounds() {
    // Four hosts; two hosts of two members; four threads; three hosts of two members.
    for shape in [(4, 1, 1), (2, 1, 2), (0, 1, 4), (3, 1, 2)] {
        for at in Rounds::ALL {
            let what = format!("{shape:?}, {at:?}");
            let results =
                ends(what.clone(), move || team(shape, move |me| stops_waiting(me, at, 0)));
            let results = results.unwrap();
            // A barrier on a single word completes without its members: all have arrived.
            let well = results.iter().filter(|result| result.is_ok()).count();
            assert!(well == 0 || well == results.len() && shape.0 == 0, "{what}: {results:?}");
            for result in results.into_iter().filter_map(Result::err) {
                match result {
                    RmaError::Fault(Fault::Mismatch {
                        rank: 0,
                        call: Call::Sync,
                        other_call,
                        ..
                    }) => {
                        assert!(matches!(other_call, Call::Wait | Call::Barrier), "{what}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
        }
    }
}

/// Members that wait for a slow member, or for one that waits elsewhere with a deadline, get no
/// error.
#[test]
#[ignore = "full: it waits for 9 s"]
fn slow_members_and_deadlines_are_no_mismatch() {
    for shape in TEAMS {
        ends(format!("{shape:?}"), move || {
            let slow = |me: &mut Member| {
                let mut rma = Rma::new(me)?;
                if me.rank() == 0 {
                    std::thread::sleep(Duration::from_millis(900));
                }
                rma.sync()?;
                // Rank 0 waits for something else first, with a deadline.
                if me.rank() == 0 {
                    let late = Some(Instant::now() + Duration::from_millis(700));
                    assert_eq!(me.wait_deadline(late), Err(Fault::TimedOut));
                }
                rma.sync()?;
                me.wait()?;
                Ok::<_, RmaError>(())
            };
            team(shape, slow).unwrap().into_iter().for_each(|result| result.unwrap());
        });
    }
}

#[test]
fn legal_programs_are_not_accused() {
    let first = seed(0);
    for seed in first..first + u64::from(cases(4)) {
        for shape in TEAMS {
            ends(format!("{shape:?}, seed {seed}"), move || {
                team(shape, move |me| legal(me, seed))
                    .unwrap()
                    .into_iter()
                    .for_each(|result| result.unwrap());
            });
        }
    }
}

/// The same programs, in which one member leaves out a wait or waits elsewhere: every member gets
/// an error, and ends.
#[test]
fn illegal_programs_end_in_errors() {
    let first = seed(0);
    for seed in first..first + u64::from(cases(10)) {
        for shape in TEAMS {
            let what = format!("{shape:?}, seed {seed}");
            let results =
                ends(what.clone(), move || team(shape, move |me| accused(me, seed)).unwrap());
            results
                .into_iter()
                .for_each(|result| result.unwrap_or_else(|got| panic!("{what}: {got}")));
        }
    }
}
