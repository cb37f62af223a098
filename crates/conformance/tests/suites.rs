//! The suites hold in every place: those of barriers, locks, one-sided memory and pools.
//!
//! The processes of a team run this program again, with the name of the test that starts them.

use syncline_conformance::{Subject, Suite, TeamKind};
use syncline_fabric::Team;
use syncline_testkit::{as_role, cases};

/// Runs a suite in teams of each of these sizes, or a member's part if this process is one of a
/// team.
fn holds(test: &str, place: TeamKind, suite: &Suite, members: &[usize]) {
    // Sweeps write their files into the current folder.
    std::env::set_current_dir(std::env::temp_dir()).unwrap();
    if std::env::var_os("SYNCLINE_TEAM").is_some() {
        let found = Team::run(|me| suite.session(me)).unwrap();
        found.into_iter().for_each(|found| found.unwrap());
        // Skips the summary of the test harness: the program that started this one counts the test.
        std::process::exit(0);
    }
    let again = as_role(test).map(str::to_owned);
    for &members in members {
        if let Err(error) = suite.run(place, members, &again) {
            panic!("{members} members, {}: {error}", place.word());
        }
    }
}

macro_rules! suites {
    ($($(#[$attribute:meta])* $test:ident: $subject:ident, $place:ident, $rounds:literal, $members:expr;)*) => {$(
        #[test]
        $(#[$attribute])*
        fn $test() {
            let rounds = cases($rounds).into();
            let suite = Suite { subject: Subject::$subject, rounds, only: None };
            holds(stringify!($test), TeamKind::$place, &suite, &$members);
        }
    )*};
}

suites! {
    barriers_hold_in_threads: Barrier, Threads, 200, [1, 2, 3, 4, 5, 8, 17];
    barriers_hold_in_processes: Barrier, Processes, 200, [2, 3, 5];
    barriers_hold_in_both: Barrier, Both, 200, [4, 6, 9];
    locks_hold_in_threads: Lock, Threads, 200, [1, 2, 3, 4, 9];
    locks_hold_in_processes: Lock, Processes, 200, [2, 3, 5];
    locks_hold_in_both: Lock, Both, 200, [4, 6];
    memory_holds_in_threads: Rma, Threads, 16, [1, 2, 3, 4, 5, 8];
    memory_holds_in_processes: Rma, Processes, 16, [1, 2, 3, 4, 5, 8];
    memory_holds_in_both: Rma, Both, 16, [4, 8];
    #[ignore = "full: 20 s: hosts that share the processors"]
    // In fewer than three rounds no suite synchronises in two steps or calls the collective fence.
    memory_holds_on_hosts: Rma, Hosts, 3, [1, 2, 3, 4, 5, 8];
    pools_hold_in_threads: Farm, Threads, 100, [1, 2, 3, 4, 6];
    pools_hold_in_processes: Farm, Processes, 100, [2, 3, 4, 6];
    pools_hold_in_both: Farm, Both, 100, [4, 6];
    pools_hold_on_hosts: Farm, Hosts, 100, [1, 2, 3, 4, 6];
    overlays_hold_in_threads: Overlay, Threads, 40, [1, 2, 3, 4, 6];
    overlays_hold_in_processes: Overlay, Processes, 40, [2, 3, 4];
    overlays_hold_in_both: Overlay, Both, 40, [4, 6];
    #[ignore = "full: 16 s: each sweep is compared with the plain loop"]
    sweeps_hold_in_threads: Sweep, Threads, 1, [1, 2, 3, 6];
    #[ignore = "full: 29 s: each sweep is compared with the plain loop"]
    sweeps_hold_in_processes: Sweep, Processes, 1, [2, 3, 6];
    sweeps_hold_in_both: Sweep, Both, 1, [4];
    #[ignore = "full: 29 s: each sweep is compared with the plain loop"]
    sweeps_hold_on_hosts: Sweep, Hosts, 1, [2, 3, 4];
    #[ignore = "full: 15 s: hosts that share the processors"]
    overlays_hold_on_hosts: Overlay, Hosts, 8, [1, 2, 3, 4, 6, 8];
}

#[test]
fn names_select_algorithms() {
    let suite = Suite { subject: Subject::Barrier, rounds: 1, only: Some("tournament".to_owned()) };
    assert_eq!(suite.names(), ["tournament", "tournament, padded", "tournament in dissemination"]);
    let suite = Suite { only: Some("none".to_owned()), ..suite };
    assert!(suite.names().is_empty());
}
