//! Barriers against a plain reference, the number of arrivals, in random orders and with threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Kind, Members, segment};
use proptest::prelude::*;
use syncline_sync::cost::{Algorithm, best_radix, transfers};
use syncline_sync::{
    BarrierMember, Fault, Space, SpaceError,
    barrier::{Combined, Counter, Role, roles},
    board::Flags,
    membership::FaultList,
};
use syncline_testkit::{cases, property};

/// Far beyond the length of any wait, on any machine.
const HANG: Duration = Duration::from_secs(300);

/// Members arrive, poll, or do both, as `steps` says. No member completes an episode before all
/// have arrived, and all members do once all have arrived and polled often enough.
fn drive(mut members: Members, steps: &[(usize, u8)]) {
    let n = members.len();
    let mut arrived = vec![0_u64; n];
    let mut through = vec![0_u64; n];
    let look = |member: &mut Box<dyn BarrierMember>,
                arrived: &[u64],
                through: &mut u64,
                mine: u64| {
        let done = member.done().unwrap();
        assert_eq!(done, member.episodes() == mine, "done() is whether no episode is under way");
        if member.episodes() > *through {
            *through += 1;
            assert_eq!(member.episodes(), *through, "one episode after the other");
            assert!(arrived.iter().all(|&a| a >= *through), "through before all had arrived");
        }
    };
    for &(at, what) in steps {
        let at = at % n;
        if what % 3 != 1 {
            members[at].arrive().unwrap();
            arrived[at] = through[at] + 1;
        }
        if what % 3 != 0 {
            let mine = arrived[at];
            look(&mut members[at], &arrived, &mut through[at], mine);
        }
    }
    // Completes the episode in progress for all; members have arrived at most at that episode.
    let last = through.iter().max().unwrap() + 1;
    while through.iter().any(|&t| t < last) {
        let before: Vec<_> = members.iter().map(|member| member.episodes()).collect();
        for _ in 0..4 * n {
            for at in 0..n {
                if through[at] < last {
                    members[at].arrive().unwrap();
                    arrived[at] = through[at] + 1;
                    look(&mut members[at], &arrived, &mut through[at], arrived[at]);
                }
            }
        }
        let after: Vec<_> = members.iter().map(|member| member.episodes()).collect();
        assert_ne!(before, after, "all poll, and no member makes progress");
    }
}

proptest! {
    #![proptest_config(property(256))]

    #[test]
    fn nobody_is_through_before_all_have_arrived(
        n in 1_usize..14,
        which in 0_usize..100,
        steps in prop::collection::vec((0_usize..100, 0_u8..3), 0..300),
    ) {
        let kinds = Kind::every(n);
        drive(kinds[which % kinds.len()].heap(n), &steps);
    }
}

#[test]
fn any_number_of_members() {
    for n in (1..=40).chain([63, 64, 65, 127, 128, 129, 300]) {
        for kind in Kind::every(n) {
            drive(kind.heap(n), &[]);
        }
    }
}

#[test]
fn four_thousand_members() {
    for kind in [
        Kind::Counter,
        Kind::Tournament(Flags::Packed),
        Kind::Dissemination(4, Flags::Packed),
        Kind::CounterWithin(64),
    ] {
        let mut members = kind.heap(4096);
        for episode in 1..=2 {
            members.iter_mut().for_each(|member| member.arrive().unwrap());
            while members.iter().any(|member| member.episodes() < episode) {
                members.iter_mut().for_each(|member| {
                    member.done().unwrap();
                });
            }
        }
    }
}

/// Threads, each with its own counter that the others read.
fn by_threads(members: Members, episodes: u64) {
    let counters: Vec<AtomicU64> = members.iter().map(|_| AtomicU64::new(0)).collect();
    let deadline = Instant::now() + HANG;
    std::thread::scope(|scope| {
        for (rank, mut member) in members.into_iter().enumerate() {
            let counters = &counters;
            scope.spawn(move || {
                assert_eq!(member.rank(), rank);
                for episode in 1..=episodes {
                    counters[rank].store(episode, Ordering::Relaxed);
                    if episode % 3 == rank as u64 % 3 {
                        member.arrive().unwrap();
                    }
                    member.wait_deadline(Some(deadline)).unwrap();
                    for counter in counters {
                        let there = counter.load(Ordering::Relaxed);
                        assert!((episode..=episode + 1).contains(&there), "{there} in {episode}");
                    }
                }
                // A member that leaves must not disturb those that have not completed the episode.
                drop(member);
            });
        }
    });
}

#[test]
fn threads_meet() {
    for n in (1..=9).chain([16]) {
        for kind in Kind::every(n) {
            by_threads(kind.heap(n), cases(50).into());
        }
    }
}

#[test]
fn views_of_a_segment_are_one_barrier() {
    for n in [1, 2, 3, 8] {
        for kind in Kind::every(n) {
            let segment = segment();
            // As processes do it: each makes its own view, and is one member of it.
            let members = (0..n).map(|rank| {
                // SAFETY: the segment is new, and only these views use it.
                let mut space = unsafe { Space::segment(segment.clone()) }.unwrap();
                let fault_list = FaultList::within(&mut space, n).unwrap();
                // Leaves the seats of others in this view free: `Kind::members` would take them
                // all.
                view(kind, &mut space, n, rank, &fault_list)
            });
            by_threads(members.collect(), cases(20).into());
        }
    }
}

fn view(
    kind: Kind,
    space: &mut Space,
    n: usize,
    rank: usize,
    fault_list: &FaultList,
) -> Box<dyn BarrierMember> {
    use syncline_sync::{
        Auto, Barrier,
        barrier::{Combined, Counter, Dissemination, Tournament},
    };
    match kind {
        Kind::Counter => {
            Box::new(Counter::within(space, n).unwrap().watching(fault_list).member(rank).unwrap())
        }
        Kind::Auto(cores) => Box::new(Auto::within(space, n, cores).unwrap().member(rank).unwrap()),
        Kind::Tournament(flags) => {
            Box::new(Tournament::within(space, n, flags).unwrap().member(rank).unwrap())
        }
        Kind::Dissemination(radix, flags) => {
            Box::new(Dissemination::within(space, n, radix, flags).unwrap().member(rank).unwrap())
        }
        Kind::CounterWithin(size) => {
            let outer = Dissemination::within(space, n / size, 2, Flags::Packed).unwrap();
            let inner: Vec<_> =
                (0..n / size).map(|_| Counter::within(space, size).unwrap()).collect();
            let group = rank / size;
            Box::new(Combined::new(group, inner[group].clone(), outer).member(rank % size).unwrap())
        }
        Kind::TournamentWithin(size) => {
            let outer = Dissemination::within(space, n / size, 2, Flags::Packed).unwrap();
            let make = |_| Tournament::within(space, size, Flags::Packed).unwrap();
            let inner: Vec<_> = (0..n / size).map(make).collect();
            let group = rank / size;
            Box::new(Combined::new(group, inner[group].clone(), outer).member(rank % size).unwrap())
        }
    }
}

#[test]
fn a_deadline_ends_a_wait_and_loses_nothing() {
    for kind in Kind::every(4) {
        let mut members = kind.heap(4);
        let mut late = members.remove(1);
        let all_gave_up = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for mut member in members {
                let all_gave_up = &all_gave_up;
                scope.spawn(move || {
                    let soon = Instant::now() + Duration::from_millis(20);
                    let waited = member.wait_deadline(Some(soon));
                    all_gave_up.wait();
                    assert_eq!(waited, Err(Fault::TimedOut), "{kind:?}");
                    member.wait().unwrap();
                    assert_eq!(member.episodes(), 1);
                });
            }
            all_gave_up.wait();
            late.wait().unwrap();
        });
    }
}

#[test]
fn who_leaves_is_told_to_those_who_wait() {
    for kind in Kind::every(6) {
        let mut members = kind.heap(6);
        // All members complete one episode; then rank 4 leaves.
        members.iter_mut().for_each(|member| member.arrive().unwrap());
        while members.iter().any(|member| member.episodes() < 1) {
            members.iter_mut().for_each(|member| {
                member.done().unwrap();
            });
        }
        drop(members.remove(4));
        std::thread::scope(|scope| {
            for mut member in members {
                scope.spawn(move || {
                    let fault = member.wait().unwrap_err();
                    // In two levels, the members of a group see that their leader has left, once it
                    // has.
                    assert!(matches!(fault, Fault::Left { .. }), "{kind:?}: {fault}");
                    assert!(member.wait().is_err(), "it stays so");
                });
            }
        });
    }
}

/// A list holds ranks among all members: 1 is neither the second group nor the second member of
/// one.
#[test]
fn in_two_levels_one_who_has_left_is_named_as_the_list_does() {
    let space = &mut Space::heap();
    let fault_list = FaultList::within(space, 4).unwrap();
    let outer = Counter::within(space, 2).unwrap().watching(&fault_list);
    let mut members = Vec::new();
    for group in 0..2 {
        let inner = Counter::within(space, 2).unwrap().watching(&fault_list);
        let group = Combined::new(group, inner, outer.clone()).watching(&fault_list);
        members.extend((0..2).map(|rank| group.member(rank).unwrap()));
    }
    fault_list.report(Fault::Left { rank: 1 });
    for mut member in [3, 2, 0].map(|rank| members.remove(rank)) {
        let fault = member.wait_deadline(Some(Instant::now() + HANG));
        assert_eq!(fault, Err(Fault::Left { rank: 1 }), "{}", member.rank());
    }
}

/// Leaders and members that have detected a departure keep their handles.
#[test]
fn in_two_levels_one_who_leaves_is_told_to_all_groups() {
    for kind in [Kind::CounterWithin(2), Kind::TournamentWithin(2)] {
        let mut members = kind.heap(6);
        drop(members.remove(1));
        let all_were_told = std::sync::Barrier::new(members.len());
        std::thread::scope(|scope| {
            for mut member in members {
                let all_were_told = &all_were_told;
                scope.spawn(move || {
                    let fault = member.wait_deadline(Some(Instant::now() + HANG));
                    let again = member.wait_deadline(Some(Instant::now() + HANG));
                    all_were_told.wait();
                    let named = match member.rank() {
                        0 => 1,
                        leader if leader.is_multiple_of(2) => 0,
                        other => other - 1,
                    };
                    assert_eq!(
                        fault,
                        Err(Fault::Left { rank: named }),
                        "{kind:?}, {}",
                        member.rank()
                    );
                    assert_eq!(again, fault, "it stays so");
                });
            }
        });
    }
}

#[test]
fn a_group_that_there_is_not_takes_no_seats() {
    let (inner, outer) = (Counter::new(2).unwrap(), Counter::new(2).unwrap());
    let refused = Combined::new(2, inner.clone(), outer.clone()).member(0).unwrap_err();
    assert_eq!(refused, SpaceError::Rank { rank: 2, members: 2 });
    Combined::new(1, inner, outer).member(0).unwrap();
}

#[test]
fn in_two_levels_who_has_left_is_named_among_all() {
    for kind in [Kind::CounterWithin(3), Kind::TournamentWithin(3)] {
        let members = kind.heap(6);
        let mut members: Vec<_> = members.into_iter().map(Some).collect();
        for rank in [1, 2, 5] {
            members[rank].as_mut().unwrap().arrive().unwrap();
        }
        let mut leave_and_wait = |leaves: usize, waits: usize| {
            members[leaves] = None;
            let fault = members[waits].as_mut().unwrap().wait().unwrap_err();
            assert_eq!(fault, Fault::Left { rank: leaves }, "{kind:?}");
        };
        // A member of the second group, detected by its leader; that leader, detected among the
        // leaders; the first leader, detected by its own group.
        leave_and_wait(4, 3);
        leave_and_wait(3, 0);
        leave_and_wait(0, 1);
    }
}

#[test]
fn the_dead_are_told_to_those_who_wait_or_look() {
    for kind in Kind::every(4) {
        let mut space = Space::heap();
        let fault_list = FaultList::within(&mut space, 4).unwrap();
        let mut members = kind.members(&mut space, 4, &fault_list).unwrap();
        // A dead process drops nothing.
        std::mem::forget(members.remove(2));
        std::thread::scope(|scope| {
            let mut looking = members.pop().unwrap();
            for mut member in members {
                scope.spawn(move || {
                    assert_eq!(member.wait(), Err(Fault::Dead { rank: 2 }), "{kind:?}")
                });
            }
            std::thread::sleep(Duration::from_millis(5));
            fault_list.give_up(2);
            looking.arrive().unwrap();
            let late = Instant::now() + HANG;
            let fault = loop {
                match looking.done() {
                    Err(fault) => break fault,
                    Ok(done) => {
                        assert!(
                            !done && Instant::now() < late,
                            "{kind:?}: the death is never reported"
                        )
                    }
                }
                std::thread::yield_now();
            };
            assert_eq!(fault, Fault::Dead { rank: 2 }, "{kind:?}");
        });
    }
}

#[test]
fn seats_are_taken_once() {
    use syncline_sync::{Barrier, barrier::Counter};
    let barrier = Counter::new(2).unwrap();
    let member = barrier.member(0).unwrap();
    assert_eq!(barrier.member(0).unwrap_err(), SpaceError::Taken { rank: 0 });
    assert_eq!(barrier.member(2).unwrap_err(), SpaceError::Rank { rank: 2, members: 2 });
    drop(member);
    assert_eq!(
        barrier.member(0).unwrap_err().to_string(),
        "rank 0 is taken: each member takes part once"
    );
}

#[test]
fn numbers_that_make_no_barrier_are_refused() {
    use syncline_sync::barrier::{Counter, Dissemination};
    assert_eq!(Counter::new(0).unwrap_err(), SpaceError::Members { members: 0, most: 4096 });
    assert_eq!(Counter::new(4097).unwrap_err(), SpaceError::Members { members: 4097, most: 4096 });
    let radix = |radix| Dissemination::within(&mut Space::heap(), 3, radix, Flags::Packed);
    assert_eq!(radix(1).unwrap_err(), SpaceError::Radix { radix: 1 });
    assert_eq!(radix(usize::MAX).unwrap().radix(), 3);
}

#[test]
fn views_that_differ_are_told() {
    use syncline_sync::barrier::{Counter, Tournament};
    let segment = segment();
    // SAFETY: the segment is new, and only these views use it.
    let [mut one, mut two] = [0, 1].map(|_| unsafe { Space::segment(segment.clone()) }.unwrap());
    Counter::within(&mut one, 3).unwrap();
    let error = Tournament::within(&mut two, 4, Flags::Packed).unwrap_err();
    assert_eq!(
        error.to_string(),
        "one view makes a barrier, another makes a barrier of another kind or size: all members must make \
         the same things in the same order"
    );
    // From there on its offsets would differ: its arrays would overlap other things.
    let all = [Counter::within(&mut two, 3).unwrap_err(), two.array::<AtomicU64>(1).unwrap_err()];
    assert_eq!(all, [error; 2]);
    // The other view fails as well: it would have its later arrays alone.
    assert_eq!(Counter::within(&mut one, 5).unwrap_err(), error);
    // Everything before that position is the same for all: a late view gets it.
    let segment = self::segment();
    // SAFETY: the segment is new, and only these views use it.
    let views =
        [0, 1, 2].map(|rank| unsafe { Space::segment(segment.clone()) }.unwrap().of_member(rank));
    let [mut one, mut two, mut late] = views;
    for view in [&mut one, &mut two] {
        Counter::within(view, 3).unwrap();
    }
    one.array::<AtomicU64>(1).unwrap();
    let error = two.array::<AtomicU64>(2).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("rank 0 allocates 8 bytes of memory, rank 1 allocates 16 bytes")
    );
    Counter::within(&mut late, 3).unwrap();
    // The first view made the same request; the late view fails nevertheless.
    assert_eq!(late.array::<AtomicU64>(1).unwrap_err(), error);
    let small = std::sync::Arc::new(syncline_memory::Segment::shared(4096).unwrap());
    // SAFETY: the segment is new, and only this view uses it.
    assert!(matches!(unsafe { Space::segment(small) }.unwrap_err(), SpaceError::Full { .. }));
    let none = Space::heap().array::<AtomicU64>(1 << 61);
    assert!(matches!(none.unwrap_err(), SpaceError::Full { .. }));
    assert!(matches!(
        FaultList::within(&mut Space::heap(), 1 << 60).unwrap_err(),
        SpaceError::Members { .. }
    ));
}

#[test]
fn every_loser_has_one_winner_and_the_champion_is_rank_0() {
    for n in 1..=300_usize {
        let table: Vec<_> = (0..n).map(|rank| roles(rank, n)).collect();
        let rounds = n.next_power_of_two().ilog2() as usize;
        let mut losses = vec![0; n];
        for (rank, mine) in table.iter().enumerate() {
            assert_eq!(mine.len(), rounds);
            for (round, role) in mine.iter().enumerate() {
                match *role {
                    Role::Winner { loser } | Role::Champion { loser } => {
                        assert_eq!(table[loser][round], Role::Loser { winner: rank });
                        losses[loser] += 1;
                        let last = matches!(role, Role::Champion { .. });
                        assert_eq!(last, round == rounds - 1 && rank == 0);
                    }
                    Role::Loser { winner } => assert!(winner < rank),
                    Role::Bye => assert!(rank + (1 << round) >= n),
                    Role::Dropout => {
                        assert!(matches!(mine[..round], [.., Role::Loser { .. } | Role::Dropout]))
                    }
                }
            }
        }
        assert_eq!(losses[0], 0);
        assert!(losses[1..].iter().all(|&l| l == 1));
    }
}

#[test]
fn the_formulas_count_what_is_raised() {
    for n in 2..=256 {
        assert_eq!(transfers(Algorithm::Tournament, n).all, 4 * (n - 1));
        for radix in 2..=8 {
            // The raises of one member, counted by walking through its rounds.
            let mut raises = 0;
            let mut distance = 1;
            while distance < n {
                raises += (1..radix).filter(|j| j * distance < n).count();
                distance *= radix;
            }
            assert_eq!(transfers(Algorithm::Dissemination { radix }, n).all, 2 * n * raises);
        }
        let best = transfers(Algorithm::Dissemination { radix: best_radix(n) }, n).chain;
        assert!(
            (2..=8).all(|radix| best <= transfers(Algorithm::Dissemination { radix }, n).chain)
        );
    }
}
