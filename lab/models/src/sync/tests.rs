//! Checks that the protocol is correct, and which property each planted bug breaks.

use Op::{Ask, Finish, Get, Hear, Long, Peek, Put, Start, Tell};
use proptest::prelude::*;
use syncline_testkit::property;

use super::*;
use crate::explore::{breaks, holds, safe};

const STALE: &str = "gets are never stale";
const AHEAD: &str = "gets see nothing of later epochs";
const COMPLETE: &str = "an epoch that is complete has all its puts";
const BARRIER: &str = "no epoch completes before all have started it";
const ENDS: &str = "every run ends";

/// Three hosts, two syncs: puts before, between and (split-phase) during them; gets by third hosts;
/// loads.
fn three() -> Vec<Vec<Op>> {
    vec![
        vec![Put(2), Start, Put(2), Finish, Put(1), Start, Finish, Get(2)],
        vec![Start, Finish, Get(2), Start, Put(2), Finish, Get(2)],
        vec![Put(0), Start, Put(1), Finish, Get(2), Start, Put(0), Finish, Get(1)],
    ]
}

/// Like `three`, without requests during a sync.
fn three_blocking() -> Vec<Vec<Op>> {
    vec![
        vec![Put(2), Start, Finish, Put(2), Start, Finish, Get(2)],
        vec![Start, Finish, Get(2), Put(2), Start, Finish, Get(2)],
        vec![Put(0), Start, Finish, Put(1), Start, Finish, Get(0)],
    ]
}

/// Three syncs: the counters of a parity are reused before other hosts have left the previous sync.
fn thrice() -> Vec<Vec<Op>> {
    vec![
        vec![Put(2), Start, Put(2), Finish, Start, Put(2), Finish, Start, Finish],
        vec![Start, Put(2), Finish, Start, Put(2), Finish, Put(2), Start, Finish, Get(2)],
        vec![Start, Finish, Start, Finish, Get(2), Start, Put(1), Finish, Get(2)],
    ]
}

fn four() -> Vec<Vec<Op>> {
    vec![
        vec![Put(3), Start, Put(3), Finish, Start, Finish, Get(3)],
        vec![Start, Finish, Get(3), Start, Finish],
        vec![Start, Put(3), Finish, Start, Finish],
        vec![Start, Finish, Start, Finish, Get(3)],
    ]
}

/// Two members on host 0.
fn shared() -> Vec<Vec<Op>> {
    vec![
        vec![Start, Put(2), Finish, Start, Put(2), Finish],
        vec![Put(2), Start, Finish, Put(2), Start, Finish, Get(2)],
        vec![Start, Finish, Get(2), Start, Finish],
        vec![Start, Finish, Start, Finish, Get(2)],
    ]
}

fn at_home(radix: usize) -> Config {
    Config { homes: vec![0, 0, 1, 2], ..Config::new(3, radix) }
}

#[test]
fn one_exchange_with_the_gate_is_right_for_three() {
    for radix in [2, 3] {
        holds(
            &format!("3 hosts, radix {radix}, 2 syncs"),
            Sync::new(Config::new(3, radix), &three()),
        );
        holds(
            &format!("3 hosts, radix {radix}, 3 syncs"),
            Sync::new(Config::new(3, radix), &thrice()),
        );
    }
}

#[test]
fn it_is_right_for_four() {
    for radix in [2, 3, 4] {
        holds(
            &format!("4 hosts, radix {radix}, 2 syncs"),
            Sync::new(Config::new(4, radix), &four()),
        );
    }
}

#[test]
fn it_is_right_with_two_members_on_a_host() {
    for radix in [2, 3] {
        holds(&format!("2 members on a host, radix {radix}"), Sync::new(at_home(radix), &shared()));
    }
}

/// Long puts among short ones, and gets behind them by their own member and by others.
fn long() -> Vec<Vec<Op>> {
    vec![
        vec![Long(2), Put(2), Start, Long(2), Finish, Get(2), Start, Finish],
        vec![Put(2), Start, Finish, Get(2), Long(2), Start, Finish, Get(2)],
        vec![Start, Long(1), Finish, Start, Finish, Get(1)],
    ]
}

#[test]
fn long_puts_are_applied_when_their_data_are_in_place() {
    for radix in [2, 3] {
        holds(&format!("long puts, radix {radix}"), Sync::new(Config::new(3, radix), &long()));
    }
}

#[test]
fn a_long_put_that_is_counted_before_its_data_are_in_place_is_found() {
    let config = Config { data: Data::AtTurn, ..Config::new(3, 2) };
    breaks("counted at its turn", Sync::new(config, &long()), COMPLETE);
}

#[test]
fn a_get_that_overtakes_a_long_put_is_found() {
    let config = Config { data: Data::Overtaken, ..Config::new(3, 2) };
    breaks("requests do not wait for data", Sync::new(config, &long()), STALE);
}

#[test]
fn longer_programs() {
    let programs = [
        vec![Put(2), Start, Put(2), Finish, Put(1), Start, Put(1), Finish, Start, Put(2), Finish],
        vec![Start, Ask(2), Finish, Get(2), Start, Put(2), Finish, Put(2), Start, Finish, Get(2)],
        vec![Put(0), Start, Put(1), Finish, Start, Put(0), Finish, Ask(1), Start, Finish, Get(1)],
    ];
    let shared = [
        vec![Put(2), Start, Put(2), Finish, Put(1), Start, Put(1), Finish],
        vec![Put(2), Start, Ask(2), Finish, Get(2), Start, Put(2), Finish],
        vec![Start, Put(2), Finish, Get(2), Start, Finish, Get(0)],
        vec![Put(0), Start, Finish, Start, Put(0), Finish, Get(1)],
    ];
    for radix in [2, 3] {
        let config = Config { counted: Counted::All, ..Config::new(3, radix) };
        holds(&format!("longer, radix {radix}"), Sync::new(config, &programs));
        let config = Config { counted: Counted::All, ..at_home(radix) };
        holds(&format!("longer, 2 members on a host, radix {radix}"), Sync::new(config, &shared));
    }
}

/// Puts before, between and during syncs, to either server; gets by third hosts from either server.
#[test]
fn it_is_right_with_two_servers_of_a_host() {
    for radix in [2, 3] {
        let config = Config { servers: 2, ..Config::new(3, radix) };
        holds(&format!("2 servers, radix {radix}"), Sync::new(config.clone(), &three()));
        holds(&format!("2 servers, radix {radix}, 3 syncs"), Sync::new(config, &thrice()));
        let config = Config { servers: 2, window: 1, ..at_home(radix) };
        holds(
            &format!("2 servers, 2 members on a host, radix {radix}"),
            Sync::new(config, &shared()),
        );
    }
    let config = Config { servers: 2, gate: Gate::First, ..Config::new(3, 3) };
    breaks("a gate at the first server", Sync::new(config, &three()), STALE);
}

#[test]
fn it_is_right_with_counts_by_origin() {
    let config = Config { counters: Counters::Origins, ..Config::new(3, 3) };
    holds("counts by origin", Sync::new(config, &thrice()));
}

/// A member that waits for room in the window does not block the steps that make room.
#[test]
fn it_is_right_with_a_window_of_one() {
    for radix in [2, 3] {
        let config = Config { window: 1, ..Config::new(3, radix) };
        holds(&format!("a window of one, radix {radix}"), Sync::new(config, &thrice()));
        let config = Config { window: 1, ..at_home(radix) };
        holds(
            &format!("a window of one, 2 members on a host, radix {radix}"),
            Sync::new(config, &shared()),
        );
    }
}

/// A sync does not wait for a get in flight, unless gets are counted.
#[test]
fn gets_that_nobody_waits_for() {
    let programs = [
        vec![Ask(2), Start, Ask(2), Finish, Start, Finish, Put(2)],
        vec![Start, Finish, Put(2), Start, Finish],
        vec![Start, Finish, Start, Finish],
    ];
    breaks("asks, puts counted", Sync::new(Config::new(3, 3), &programs), AHEAD);
    for radix in [2, 3] {
        let config = Config { counted: Counted::All, ..Config::new(3, radix) };
        holds(&format!("asks, all counted, radix {radix}"), Sync::new(config, &programs));
    }
}

/// A reader that bypasses the gate needs two exchanges.
#[test]
fn readers_outside_the_gate() {
    let programs = [
        vec![Put(2), Start, Put(2), Finish, Put(2), Start, Finish],
        vec![Start, Finish, Peek(2), Start, Finish, Peek(2)],
        vec![Start, Finish, Start, Finish, Get(0)],
    ];
    breaks("past the gate", Sync::new(Config::new(3, 3), &programs), STALE);
    for radix in [2, 3] {
        let config = Config { exchanges: Exchanges::Two, ..Config::new(3, radix) };
        holds(
            &format!("past the gate, two exchanges, radix {radix}"),
            Sync::new(config, &programs),
        );
    }
}

/// A member that has completed a sync may signal to one that has begun it and not completed it. The
/// gets of the receiver are not ordered after that sync, unless the signal carries its number.
#[test]
fn word_of_mouth() {
    let programs = |hears: Vec<Op>| {
        [vec![Put(3), Start, Finish], vec![Start, Finish, Tell], hears, vec![Start, Finish, Get(0)]]
    };
    let early = programs(vec![Start, Hear(1), Get(3), Finish]);
    breaks("heard during a sync", Sync::new(Config::new(4, 2), &early), STALE);
    let config = Config { told: true, ..Config::new(4, 2) };
    holds("heard during a sync, with its number", Sync::new(config, &early));
    let config = Config { exchanges: Exchanges::Two, ..Config::new(4, 2) };
    holds("heard during a sync, two exchanges", Sync::new(config, &early));
    let late = programs(vec![Start, Finish, Hear(1), Get(3)]);
    holds("heard after a sync", Sync::new(Config::new(4, 2), &late));
}

#[test]
fn no_gate() {
    let config = Config { gate: Gate::None, ..Config::new(3, 3) };
    breaks("no gate", Sync::new(config.clone(), &three()), STALE);
    // Counts by origin do not help either; with sums, further properties break.
    let origins = Config { counters: Counters::Origins, ..config.clone() };
    breaks("no gate, counts by origin", Sync::new(origins, &three()), STALE);
    breaks("no gate", Sync::new(config.clone(), &thrice()), COMPLETE);
    breaks("no gate", Sync::new(config, &thrice()), ENDS);
}

#[test]
fn a_gate_that_asks_for_more() {
    breaks(
        "left < completed",
        Sync::new(Config { gate: Gate::More, ..Config::new(3, 3) }, &three()),
        ENDS,
    );
}

/// The papers zero the counters on leaving: by then a faster host may have put again.
#[test]
fn counters_that_are_zeroed() {
    let config = Config { counters: Counters::Zeroed, ..Config::new(3, 3) };
    breaks("zeroed, gate", Sync::new(config.clone(), &three_blocking()), ENDS);
    let config = Config { exchanges: Exchanges::Two, gate: Gate::None, ..config };
    breaks("zeroed, two exchanges", Sync::new(config, &three_blocking()), ENDS);
}

#[test]
fn one_counter() {
    let config = Config { counters: Counters::One, ..Config::new(3, 3) };
    breaks("one counter", Sync::new(config.clone(), &three()), COMPLETE);
    holds("one counter, nothing during a sync", Sync::new(config, &three_blocking()));
}

/// With three hosts, the rounds of radix 2 reach all hosts directly anyway.
#[test]
fn a_round_too_early() {
    let at_once = |hosts| Config { rounds: Rounds::AtOnce, ..Config::new(hosts, 2) };
    breaks("rounds at once", Sync::new(at_once(4), &four()), BARRIER);
    breaks("rounds at once", Sync::new(at_once(4), &four()), COMPLETE);
    holds("rounds at once, 3 hosts", Sync::new(at_once(3), &three()));
}

#[test]
fn one_inbox() {
    breaks("one inbox", Sync::new(Config { inboxes: 1, ..Config::new(3, 2) }, &three()), ENDS);
}

/// With one member on a host, no other member can begin its syncs between the steps of an issue.
/// With two, another can, but only between the steps of a member that has itself begun the sync:
/// until then the host cannot begin it.
#[test]
fn an_issue_in_two_steps() {
    for issue in [Issue::ParityFirst, Issue::CountFirst] {
        holds(
            &format!("{issue:?}, one member"),
            Sync::new(Config { issue, ..Config::new(3, 3) }, &thrice()),
        );
        let config = Config { issue, ..at_home(3) };
        breaks(&format!("{issue:?}"), Sync::new(config.clone(), &shared()), ENDS);
        let config = Config { split_in_one_step: true, ..config };
        holds(&format!("{issue:?}, but not during a sync"), Sync::new(config, &shared()));
    }
}

#[test]
fn the_papers_two_exchanges() {
    let two = Config { exchanges: Exchanges::Two, gate: Gate::None, ..Config::new(3, 3) };
    let origins = Config { counters: Counters::Origins, ..two.clone() };
    holds("two exchanges, counts by origin", Sync::new(origins, &thrice()));
    let one = Config { counters: Counters::One, ..two.clone() };
    holds(
        "two exchanges, one counter, nothing during a sync",
        Sync::new(one.clone(), &three_blocking()),
    );
    breaks("two exchanges, one counter", Sync::new(one, &three()), COMPLETE);
    holds("two exchanges, parities", Sync::new(two, &thrice()));
}

/// Two to four hosts, up to two members on the first, and a few requests before, between and during
/// up to three syncs.
fn any_programs() -> impl Strategy<Value = (Config, Vec<Vec<Op>>)> {
    let issues = prop::sample::select(vec![Issue::OneStep, Issue::ParityFirst, Issue::CountFirst]);
    (2usize..=4, 2usize..=4, any::<bool>(), 1usize..=3, 1usize..=3, issues, 1..=SERVERS)
        .prop_flat_map(|(hosts, radix, shared, syncs, window, issue, servers)| {
            // The state space grows fast with the number of hosts.
            let (syncs, shared) = if hosts == 4 { (1, false) } else { (syncs, shared) };
            let mut config = Config {
                window,
                servers,
                counted: Counted::All,
                issue,
                split_in_one_step: true,
                ..Config::new(hosts, radix.min(hosts))
            };
            if shared {
                config.homes.insert(0, 0);
            }
            let members = config.homes.len();
            let op = (0..members, 0..=2 * syncs, 0..4usize, 0..hosts);
            let ops = prop::collection::vec(op, 1..=if hosts == 2 { 7 } else { 5 });
            (Just(config), ops).prop_map(move |(config, ops)| {
                let program = |member| {
                    let issued = |gap| {
                        let here = ops.iter().filter(move |op| (op.0, op.1) == (member, gap));
                        here.map(|&(_, _, kind, host)| {
                            [Put(host), Long(host), Get(host), Ask(host)][kind]
                        })
                    };
                    let before = |gap| [Finish, Start][gap % 2];
                    let rest = (1..=2 * syncs)
                        .flat_map(|gap| [before(gap)].into_iter().chain(issued(gap)));
                    issued(0).chain(rest).collect()
                };
                (config, (0..members).map(program).collect())
            })
        })
}

proptest! {
    // Each case is an exploration of its own.
    #![proptest_config(property(32))]

    #[test]
    fn any_small_programs_are_right((config, programs) in any_programs()) {
        let safe = safe(Sync::new(config, &programs));
        prop_assert!(safe.is_ok(), "{}", safe.unwrap_err());
    }
}
