//! Models of call matching: a member that arrives early at one barrier and waits at another is
//! never reported as mismatched. Only members that can never go on are reported (`call_matching`,
//! "Why no slow member is reported"); planted bugs show that the models notice a progress note that
//! lags.

use loom::thread;
use syncline_signal::plant;

use super::model;
use crate::{
    Barrier, BarrierMember, Space,
    barrier::{Counter, CounterMember, Dissemination, Tournament},
    call_matching::{ARRIVED, Blocking, Call, Caller, Calls, LAST, Needs, Peers},
    membership::FaultList,
};

/// Two members at two barriers. One member arrives at the first barrier early and waits there last:
/// neither is reported. A call of `look` stands for the call that a long wait makes.
fn early_arrivals_are_legal() {
    model(2, || {
        let calls = Calls::within(&mut Space::heap(), 2).unwrap();
        let barriers = [0, 1].map(|_| Counter::new(2).unwrap());
        let go = move |rank: usize, calls: &Calls, mut seats: [CounterMember; 2]| {
            let [first, second] =
                [0, 1].map(|object| calls.caller(rank, object, Call::Barrier).unwrap());
            let wait = |seat: &mut CounterMember, caller: &Caller| {
                caller.arrive(1);
                seat.arrive().unwrap();
                let blocking = Blocking::new(Some(caller), 1, None);
                let mut complete = false;
                for _ in 0..2 {
                    complete = complete || seat.done().unwrap();
                    if !complete {
                        assert_eq!(blocking.look(), None, "a member that had arrived was accused");
                    }
                }
                drop(blocking);
                if !complete {
                    seat.wait().unwrap();
                }
            };
            let [one, other] = &mut seats;
            if rank == 0 {
                first.arrive(1);
                one.arrive().unwrap();
                wait(other, &second);
                wait(one, &first);
            } else {
                wait(one, &first);
                wait(other, &second);
            }
            seats
        };
        let seats = |rank: usize| [0, 1].map(|at| barriers[at].member(rank).unwrap());
        let (mine, theirs, other) = (seats(0), seats(1), calls.clone());
        let other = thread::spawn(move || go(1, &other, theirs));
        let mine = go(0, &calls, mine);
        drop((mine, other.join().unwrap()));
    });
}

/// The same, where the first barrier has rounds, and the barrier itself records the arrivals. The
/// member `early` arrives there, and waits at the second barrier before it returns to the first.
/// `needs` is what the waits at the first barrier need, by rank.
fn early_rounds_are_legal<B, M>(
    early: usize,
    needs: [Needs; 2],
    make: fn() -> B,
    seat: fn(&B, &FaultList, usize) -> M,
) where
    B: 'static,
    M: BarrierMember + 'static,
{
    fn wait(member: &mut impl BarrierMember, caller: &Caller, needs: Needs) {
        member.arrive().unwrap();
        let blocking = Blocking::new(Some(caller), 1, None).needing(needs);
        let mut complete = false;
        for _ in 0..2 {
            complete = complete || member.done().unwrap();
            if !complete {
                assert_eq!(blocking.look(), None, "a member that had raised its flags was accused");
            }
        }
        drop(blocking);
        if !complete {
            member.wait().unwrap();
        }
    }
    model(2, move || {
        let calls = Calls::within(&mut Space::heap(), 2).unwrap();
        let fault_list = FaultList::within(&mut Space::heap(), 2).unwrap();
        let (rounds, counter) = (make(), Counter::new(2).unwrap());
        let seats = |rank: usize| {
            let callers = [0, 1].map(|object| calls.caller(rank, object, Call::Barrier).unwrap());
            let lists = callers.each_ref().map(|caller| fault_list.called(Some(caller.clone())));
            let second = counter.clone().watching(&lists[1]).member(rank).unwrap();
            (callers, seat(&rounds, &lists[0], rank), second)
        };
        let go =
            move |rank: usize,
                  (callers, mut first, mut second): ([Caller; 2], M, CounterMember)| {
                if rank == early {
                    first.arrive().unwrap();
                    wait(&mut second, &callers[1], Needs::ARRIVALS);
                    wait(&mut first, &callers[0], needs[rank]);
                } else {
                    wait(&mut first, &callers[0], needs[rank]);
                    wait(&mut second, &callers[1], Needs::ARRIVALS);
                }
                (first, second)
            };
        let (mine, theirs) = (seats(0), seats(1));
        let other = thread::spawn(move || go(1, theirs));
        let mine = go(0, mine);
        drop((mine, other.join().unwrap()));
    });
}

/// One round: each member needs the other's flag.
fn early_disseminations_are_legal() {
    let needs =
        [1, 0].map(|from| Needs { peers: Peers::Seat(from), step: ARRIVED, reached: ARRIVED });
    let make = || Dissemination::new(2).unwrap();
    early_rounds_are_legal(0, needs, make, |barrier, fault_list, rank| {
        barrier.clone().watching(fault_list).member(rank).unwrap()
    });
}

/// The loser is early: it has raised its winner, and waits for its own flag when it returns.
fn early_tournaments_are_legal() {
    let up = Needs { peers: Peers::Seat(1), step: ARRIVED, reached: 0 };
    let down = Needs { peers: Peers::Seat(0), step: LAST, reached: ARRIVED };
    let make = || Tournament::new(2).unwrap();
    early_rounds_are_legal(1, [up, down], make, |barrier, fault_list, rank| {
        barrier.clone().watching(fault_list).member(rank).unwrap()
    });
}

#[test]
fn early_disseminations_are_not_accused() {
    early_disseminations_are_legal();
}

#[test]
fn early_tournaments_are_not_accused() {
    early_tournaments_are_legal();
}

#[test]
#[should_panic(expected = "a member that had raised its flags was accused")]
fn progress_of_a_dissemination_that_lags_is_noticed() {
    plant::with("calls: progress lags", early_disseminations_are_legal);
}

#[test]
#[should_panic(expected = "a member that had raised its flags was accused")]
fn progress_of_a_tournament_that_lags_is_noticed() {
    plant::with("calls: progress lags", early_tournaments_are_legal);
}

#[test]
fn early_arrivals_are_not_accused() {
    early_arrivals_are_legal();
}

#[test]
#[should_panic(expected = "a member that had arrived was accused")]
fn an_arrival_that_is_not_noted_is_noticed() {
    plant::with("calls: an arrival is not noted", early_arrivals_are_legal);
}
