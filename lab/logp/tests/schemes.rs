//! Checks that formulas and simulation agree, and that no member leaves before all have arrived and
//! all puts into it are done.

use proptest::prelude::*;
use syncline_logp::schemes::{Asking, Fence, Global, Pairwise, Sync, Twice};
use syncline_logp::{
    Driven, L, Load, Machine, Scheme, Step, Time, in_latencies, simulate, simulate_all,
};
use syncline_rma::unstable::sync_exchange::HEAD;
use syncline_testkit::property;

fn schemes(radix: usize) -> Vec<Box<dyn Scheme>> {
    vec![
        Box::new(Asking { window: 1 }),
        Box::new(Asking { window: 3 }),
        Box::new(Asking { window: usize::MAX }),
        Box::new(Pairwise),
        Box::new(Twice { radix }),
        Box::new(Sync { radix }),
        Box::new(Global { radix }),
        Box::new(Fence { radix }),
    ]
}

const MEMBERS: [usize; 9] = [1, 2, 3, 5, 7, 8, 31, 64, 1000];

#[test]
fn formulas_are_what_is_simulated() {
    for members in MEMBERS {
        let radices: &[usize] = if members > 100 { &[3, 32] } else { &[2, 3, 8, 64] };
        for &radix in radices {
            for scheme in schemes(radix) {
                for load in [Load::puts(members), Load::quiet(members)] {
                    let name =
                        format!("{}, {members} members, radix {radix}, {load:?}", scheme.name());
                    let found = simulate_all(&*scheme, Machine::new(0.0, 0.0), &load);
                    assert_eq!(found.messages, scheme.messages(&load), "{name}");
                    assert_eq!(found.time, scheme.rounds(&load) as f64, "{name}");
                    // A small overhead adds little.
                    let near = simulate_all(&*scheme, Machine::new(1e-6, 0.0), &load);
                    assert!(near.time >= found.time && near.time < found.time + 1e-3, "{name}");
                }
            }
        }
    }
}

#[test]
fn one_stands_for_all() {
    let machines = [(0.01, 0.0), (0.1, 0.0), (0.01, 0.004), (0.1, 0.004), (0.3, 0.05)];
    for members in [1, 2, 3, 5, 8, 31, 100] {
        for radix in [2, 3, 8, 100] {
            for scheme in schemes(radix) {
                for load in [Load::puts(members), Load::quiet(members)] {
                    for (overhead, gap) in machines {
                        let machine = Machine::new(overhead, gap);
                        let (one, all) = (
                            simulate(&*scheme, machine, &load),
                            simulate_all(&*scheme, machine, &load),
                        );
                        let name =
                            format!("{}, {members}, radix {radix}, {machine:?}", scheme.name());
                        assert_eq!(one.messages, all.messages, "{name}");
                        assert_eq!(one.time, all.time, "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn by_hand() {
    let time = |scheme: &dyn Scheme, members, overhead, gap| {
        simulate(scheme, Machine::new(overhead, gap), &Load::puts(members)).time
    };
    // Two members: one message each, behind the put.
    assert_eq!(time(&Sync { radix: 2 }, 2, 0.1, 0.0), 1.2);
    assert_eq!(time(&Pairwise, 2, 0.1, 0.0), 2.4);
    assert_eq!(time(&Asking { window: 1 }, 2, 0.1, 0.0), 3.6);
    // A question, an answer, and the barrier.
    assert_eq!(time(&Fence { radix: 2 }, 2, 0.1, 0.0), 3.6);
    // Each member sends to all: the last of seven messages leaves at 0.7, arrives at 1.7, and is
    // handled by 1.8.
    let quiet = simulate(&Sync { radix: 8 }, Machine::new(0.1, 0.0), &Load::quiet(8)).time;
    assert_eq!(quiet, 1.8);
    // From 0.7 on the only processor has fourteen messages to handle.
    assert_eq!(time(&Sync { radix: 8 }, 8, 0.1, 0.0), 2.1);
    // Six words, one of which is a count.
    assert_eq!(time(&Sync { radix: 2 }, 2, 0.0, 0.01), 1.06);
}

proptest! {
    #![proptest_config(property(60))]

    #[test]
    fn nobody_leaves_before_all_have_come(
        members in 2_usize..70,
        radix in 2_usize..12,
        who in any::<prop::sample::Index>(),
        overhead in 0.0..0.2,
        quiet in any::<bool>(),
    ) {
        let (machine, late) = (Machine::new(overhead, 0.0), 50 * L);
        for scheme in schemes(radix) {
            let who = who.index(members);
            let load = Load { quiet, late: Some((who, late)), ..Load::puts(members) };
            let left = simulate(&*scheme, machine, &load).left;
            for (member, &left) in left.iter().enumerate() {
                let way = if member == who { 0.0 } else { 1.0 };
                prop_assert!(left >= in_latencies(late) + way, "{}: {member} at {left}", scheme.name());
            }
        }
    }

    #[test]
    fn nobody_leaves_before_all_is_done(
        members in 2_usize..70,
        radix in 2_usize..12,
        who in any::<prop::sample::Index>(),
        overhead in 0.0..0.2,
    ) {
        let (machine, slow) = (Machine::new(overhead, 0.0), 50 * L);
        for scheme in schemes(radix) {
            let who = who.index(members);
            let load = Load { slow: Some((who, slow)), ..Load::puts(members) };
            let left = simulate(&*scheme, machine, &load).left;
            for (member, &left) in left.iter().enumerate() {
                let target = (1..=load.targets).any(|ahead| (who + ahead) % members == member);
                // Behind the gate a member waits only for its own memory.
                let waits = target || scheme.name() != "`sync`";
                prop_assert!(left >= if waits { in_latencies(slow) } else { 1.0 }, "{}: {member} at {left}", scheme.name());
            }
        }
    }

    /// A theorem where one member represents all. Every message goes over one wire, so messages
    /// arrive in the order in which they are sent, and that is the order of the steps. Each
    /// processor therefore does the same jobs in the same order on any machine. The end of a job
    /// is the maximum of two earlier times, plus costs, so no time falls when a cost rises.
    ///
    /// Puts have no fixed place among the jobs if one processor does all: some of them are handled
    /// before the member begins, and more of them where the overhead is larger. At most one of them
    /// delays the beginning, by less than an overhead, and each of the others comes after it or
    /// does not cost the member any time. So the place of the `targets` puts is worth at most
    /// `targets` overheads.
    #[test]
    fn what_costs_more_takes_longer(
        members in 2_usize..100,
        radix in 2_usize..40,
        overhead in 0..L / 5,
        gap in 0..L / 100,
        more in 0..L / 10,
    ) {
        for scheme in schemes(radix) {
            for load in [Load::puts(members), Load::quiet(members)] {
                if !scheme.alike(&load) {
                    continue;
                }
                let time = |overhead, gap| time(&*scheme, Machine { overhead, gap }, &load);
                let together = scheme.driven() == Driven::Together && !load.quiet;
                let place = if together { load.targets as Time * overhead } else { 0 };
                let least = time(overhead, gap).saturating_sub(place);
                prop_assert!(time(overhead + more, gap) >= least, "{}", scheme.name());
                prop_assert!(time(overhead, gap + more) >= least, "{}", scheme.name());
            }
        }
    }

    /// A theorem for every scheme. The time without costs is the number of messages on the longest
    /// chain, each of which is sent, is in flight, and is handled. Conversely, go back along a
    /// chain from the last event: at any time a message of it is in flight, or waits for a wire or
    /// a processor that is busy. There are at most `rounds` flights, each of which waits for a wire
    /// at most as long as the wire has words, and `rounds` + 1 visits to hosts.
    #[test]
    fn a_time_is_between_the_critical_path_and_the_work(
        members in 1_usize..100,
        radix in 2_usize..40,
        overhead in 0..L / 5,
        gap in 0..L / 100,
    ) {
        for scheme in schemes(radix) {
            for load in [Load::puts(members), Load::quiet(members)] {
                let time = time(&*scheme, Machine { overhead, gap }, &load);
                let rounds = scheme.rounds(&load) as Time;
                let hop = L + 2 * overhead + HEAD as Time * gap;
                prop_assert!(time >= rounds * hop, "{}: {time}", scheme.name());
                let (jobs, words) = work(&*scheme, &load);
                let most = rounds * (L + words * gap) + (rounds + 1) * jobs * overhead;
                prop_assert!(time <= most, "{}: {time}, {most}", scheme.name());
            }
        }
    }
}

/// Returns the time of a scheme, exactly.
fn time(scheme: &dyn Scheme, machine: Machine, load: &Load) -> Time {
    (simulate(scheme, machine, load).time * L as f64).round() as Time
}

/// Returns the greatest number of messages that a host sends or handles, and of the words that it
/// sends.
fn work(scheme: &dyn Scheme, load: &Load) -> (Time, Time) {
    let of = |member| {
        let (mut jobs, mut words) = (load.targets, 0);
        for step in scheme.steps(load, member) {
            match step {
                // As many hosts ask this one: questions and answers, both sent and received.
                Step::Ask(to) => {
                    jobs += 4 * to.len();
                    words += 2 * HEAD * to.len();
                }
                Step::Tell { to, hear } => {
                    jobs += to.len() + hear;
                    words += to.iter().map(|(_, words)| HEAD + words).sum::<usize>();
                }
                Step::Done => {}
            }
        }
        (jobs as Time, words as Time)
    };
    let most = |a: (Time, Time), b: (Time, Time)| (a.0.max(b.0), a.1.max(b.1));
    (0..load.members).map(of).fold((0, 0), most)
}

/// Schedules of lists have Graham's anomaly: a message that arrives earlier, and is handled first,
/// may delay one on the critical path. Here five members beyond sixteen send to five of these,
/// which also get messages of later steps.
#[test]
fn a_higher_cost_may_shorten_a_schedule() {
    let load = Load::quiet(21);
    assert!(!Pairwise.alike(&load));
    let time = |overhead| simulate(&Pairwise, Machine::new(overhead, 0.02), &load).time;
    assert_eq!((time(0.25), time(0.26)), (19.1, 19.08));
}

#[test]
fn more_members_take_longer() {
    for (overhead, gap) in [(0.01, 0.0), (0.1, 0.0), (0.01, 0.004)] {
        let machine = Machine::new(overhead, gap);
        for radix in [2, 4, 16] {
            for scheme in schemes(radix) {
                // For the thesis's scheme, powers of two only: other sizes are slower.
                let mut last = 0.0;
                for members in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
                    let time = simulate(&*scheme, machine, &Load::puts(members)).time;
                    assert!(time >= last, "{}: {members} members", scheme.name());
                    last = time;
                }
            }
        }
    }
}
