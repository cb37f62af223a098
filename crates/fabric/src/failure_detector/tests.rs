use super::*;
use crate::transport::in_memory::{Conditions, Network};
use syncline_sync::Space;

const TIMEOUT: Duration = Duration::from_millis(800);

/// A process, and its transport.
type Process = (FailureDetector, Box<dyn Transport>);

fn detectors(hosts: usize) -> (Network, Vec<Process>) {
    detectors_of(hosts, 1, 1)
}

/// Creates the detectors of `hosts` hosts with `each` processes each, of which `servers` serve.
fn detectors_of(hosts: usize, each: usize, servers: usize) -> (Network, Vec<Process>) {
    let all = hosts * each;
    let network = Network::new(all, Conditions::default());
    let shape = Shape { processes: all, threads: 2, cores: 1 };
    let named = Hosts::new(&(0..all).map(|process| process / each).collect::<Vec<_>>());
    let named = named.with_servers(servers);
    // Processes of a host have one list of the dead.
    let control = |_| TeamState::within(&mut Space::heap(), all, 2 * all).unwrap();
    let controls = (0..hosts).map(control).collect::<Vec<_>>();
    let detector = |process: usize| {
        let control = controls[process / each].clone();
        let detector = FailureDetector::new(process, named.clone(), control, shape, TIMEOUT);
        (detector, Box::new(network.transport(process)) as Box<dyn Transport>)
    };
    (network.clone(), (0..all).map(detector).collect())
}

/// Advances all detectors by `steps` steps of time, except those that are `stopped`.
fn pass(detectors: &mut [Process], now: &mut Instant, steps: u32, stopped: &[usize]) {
    for _ in 0..steps {
        *now += TIMEOUT / 16;
        for (process, (detector, transport)) in detectors.iter_mut().enumerate() {
            if stopped.contains(&process) {
                continue;
            }
            while let Some((from, message)) = transport.receive().unwrap() {
                detector.heard(from);
                detector.receive(from, &message[8..]);
            }
            detector.beat(&mut **transport, *now);
        }
    }
}

fn dead(detectors: &[Process]) -> Vec<usize> {
    detectors.iter().map(|(detector, _)| detector.control.fault_list.count()).collect()
}

#[test]
fn a_silent_host_is_told_of_to_all_and_nobody_else_is() {
    let (network, mut detectors) = detectors(5);
    let mut now = Instant::now();
    pass(&mut detectors, &mut now, 100, &[]);
    assert_eq!(dead(&detectors), [0; 5]);
    network.cut(2);
    pass(&mut detectors, &mut now, 20, &[]);
    for (process, (detector, _)) in
        detectors.iter().enumerate().filter(|(process, _)| *process != 2)
    {
        assert_eq!(detector.control.fault_list.count(), 2, "process {process}");
        assert!(detector.control.fault_list.includes(4) && detector.control.fault_list.includes(5));
    }
    // The host that was cut off has lost all others, in the end.
    pass(&mut detectors, &mut now, 100, &[]);
    assert_eq!(dead(&detectors), [2, 2, 8, 2, 2]);
}

/// The messages of the host that has found the verdict may be handled last, and those of the member
/// that ends because of it first.
#[test]
fn a_verdict_is_heard_before_what_follows_from_it() {
    let (_, mut detectors) = detectors(3);
    detectors[2].0.control.made(4, 2);
    let verdict = [u64::MAX, 0, 0];
    let (detector, transport) = &mut detectors[0];
    detector.control.calls.decide_as(verdict);
    detector.tell_verdict(&mut **transport);
    let (detector, transport) = &mut detectors[1];
    while let Some((from, message)) = transport.receive().unwrap() {
        detector.receive(from, &message[8..]);
    }
    assert_eq!(detector.control.calls.verdict_words(), Some(verdict));
    // Each of its members has made one object less than rank 4.
    detector.bye(&mut **transport, &[1, 1]);
    let (detector, transport) = &mut detectors[2];
    let mut messages = Vec::new();
    while let Some(message) = transport.receive().unwrap() {
        messages.push(message);
    }
    messages.sort_by_key(|&(from, _)| from != 1);
    for (from, message) in messages {
        detector.receive(from, &message[8..]);
        let told = detector.control.calls.verdict_words() == Some(verdict);
        assert!(told || detector.control.fault_list.count() == 0, "a death is heard of first");
    }
    assert_eq!(detector.control.fault_list.fault_of(2), Some(Fault::Left { rank: 2 }));
}

#[test]
fn what_was_seen_travels() {
    let faults = [
        Fault::Dead { rank: 7 },
        Fault::Left { rank: 7 },
        Fault::Reported { rank: 7 },
        Fault::Silent(Silence::new(7, 86_400_000)),
    ];
    assert_eq!(faults.map(|fault| from_word(7, to_word(fault))), faults);
}

#[test]
fn all_hosts_are_told_what_was_seen() {
    let (network, mut detectors) = detectors(4);
    let mut now = Instant::now();
    network.cut(2);
    pass(&mut detectors, &mut now, 30, &[]);
    let silent = Some(Fault::Silent(Silence::new(4, TIMEOUT.as_millis() as u32)));
    let told = [0, 1, 3].map(|process| detectors[process].0.control.fault_list.fault_of(4));
    assert_eq!(told, [silent; 3]);
    // MPI reports the failure to one process, which notifies the others.
    detectors[0].0.failed(&TransportError::Gone { process: 1 });
    pass(&mut detectors, &mut now, 2, &[1, 2]);
    assert_eq!(detectors[3].0.control.fault_list.fault_of(3), Some(Fault::Reported { rank: 3 }));
}

/// The host has no other server, so another process of that host notifies the others, long before
/// silence would.
#[test]
fn the_death_of_a_server_is_told_by_its_host() {
    let (_, mut detectors) = detectors_of(2, 2, 1);
    let mut now = Instant::now();
    pass(&mut detectors, &mut now, 20, &[]);
    // As the thread that watches by pidfd does, in the memory of that host.
    detectors[3].0.control.fault_list.report(Fault::Dead { rank: 4 });
    detectors[3].0.control.fault_list.report(Fault::Dead { rank: 5 });
    detectors[3].0.control.set_died(2);
    pass(&mut detectors, &mut now, 2, &[2]);
    assert_eq!(detectors[0].0.control.fault_list.fault_of(4), Some(Fault::Dead { rank: 4 }));
}

#[test]
fn one_who_was_stopped_accuses_nobody_and_is_not_accused_too_soon() {
    let (_, mut detectors) = detectors(4);
    let mut now = Instant::now();
    pass(&mut detectors, &mut now, 10, &[]);
    for _ in 0..5 {
        pass(&mut detectors, &mut now, 10, &[1]);
        pass(&mut detectors, &mut now, 10, &[]);
    }
    assert_eq!(dead(&detectors), [0; 4]);
    pass(&mut detectors, &mut now, 40, &[1]);
    assert_eq!(dead(&detectors), [2, 0, 2, 2]);
}

#[test]
fn a_silent_server_is_missed_whoever_else_of_its_host_talks() {
    for (servers, stopped, missed) in [(1, 2, 4), (2, 3, 2), (2, 2, 2)] {
        let (_, mut detectors) = detectors_of(2, 2, servers);
        let mut now = Instant::now();
        pass(&mut detectors, &mut now, 100, &[]);
        assert_eq!(dead(&detectors), [0; 4]);
        for _ in 0..40 {
            pass(&mut detectors, &mut now, 1, &[stopped]);
            // The other process of that host sends messages all the time.
            let (detector, transport) = &mut detectors[5 - stopped];
            detector.send(&mut **transport, 0, &[BEAT]);
        }
        assert_eq!(dead(&detectors)[..2], [missed; 2], "{servers} servers, {stopped} is stopped");
        assert!(detectors[0].0.control.fault_list.includes(2 * stopped));
    }
}

#[test]
fn two_neighbours_may_die_together() {
    let (network, mut detectors) = detectors(6);
    let mut now = Instant::now();
    pass(&mut detectors, &mut now, 10, &[]);
    network.cut(3);
    network.cut(4);
    pass(&mut detectors, &mut now, 60, &[]);
    let told = dead(&detectors);
    assert_eq!([told[0], told[1], told[2], told[5]], [4; 4]);
}

#[test]
fn a_process_that_has_ended_accuses_none_that_goes_on() {
    for (hosts, ended) in [(2, &[0][..]), (3, &[1]), (5, &[1, 2]), (6, &[0, 2, 3, 4])] {
        let (_, mut detectors) = detectors(hosts);
        let mut now = Instant::now();
        for &process in ended {
            let (detector, transport) = &mut detectors[process];
            detector.bye(&mut **transport, &[0, 0]);
        }
        pass(&mut detectors, &mut now, 100, &[]);
        assert_eq!(dead(&detectors), vec![0; hosts], "{ended:?} of {hosts}");
    }
}

/// Processes that have ended detect the death of a process that continues: they wait for it.
#[test]
fn a_process_that_has_ended_goes_on_to_watch() {
    let (network, mut detectors) = detectors(4);
    let mut now = Instant::now();
    for process in [0, 2, 3] {
        let (detector, transport) = &mut detectors[process];
        detector.bye(&mut **transport, &[0, 0]);
    }
    pass(&mut detectors, &mut now, 10, &[]);
    network.cut(1);
    pass(&mut detectors, &mut now, 60, &[]);
    for process in [0, 2, 3] {
        assert!(detectors[process].0.all_over(), "process {process}");
    }
}

#[test]
fn a_process_that_was_given_up_accuses_none_and_is_told_of_the_end() {
    let (_, mut detectors) = detectors(3);
    let mut now = Instant::now();
    // As when its members have panicked.
    let (detector, transport) = &mut detectors[0];
    (0..2).for_each(|rank| detector.control.fault_list.give_up(rank));
    detector.bye(&mut **transport, &[0, 0]);
    pass(&mut detectors, &mut now, 60, &[]);
    assert_eq!(dead(&detectors), [2; 3]);
    for process in [1, 2] {
        let (detector, transport) = &mut detectors[process];
        detector.bye(&mut **transport, &[0, 0]);
    }
    pass(&mut detectors, &mut now, 1, &[]);
    assert_eq!(dead(&detectors), [2; 3]);
    assert!(detectors.iter().all(|(detector, _)| detector.all_over()));
}

#[test]
fn members_that_have_ended_are_not_missed() {
    let (_, mut detectors) = detectors(3);
    let mut now = Instant::now();
    let (detector, transport) = &mut detectors[1];
    detector.bye(&mut **transport, &[0, 0]);
    pass(&mut detectors, &mut now, 60, &[1]);
    assert_eq!(dead(&detectors), [0; 3]);
    assert!(!detectors[0].0.all_over());
    let (detector, transport) = &mut detectors[2];
    detector.bye(&mut **transport, &[0, 1]);
    pass(&mut detectors, &mut now, 1, &[1]);
    assert!(!detectors[0].0.all_over());
    let (detector, _) = &mut detectors[0];
    detector.over[0] = true;
    assert!(detectors[0].0.all_over());
    // A member of process 1 has made fewer objects than rank 0.
    detectors[0].0.control.made(0, 1);
    assert!(detectors[0].0.control.fault_list.includes(2));
}

/// Processes end one after the other, with time in between for beats. After the last message of
/// each, no other message is in flight to any.
#[test]
fn nothing_is_sent_to_a_process_that_has_gone() {
    for (hosts, each, servers) in [(2, 1, 1), (3, 1, 1), (2, 3, 1), (2, 3, 2), (5, 1, 1)] {
        let (network, mut detectors) = detectors_of(hosts, each, servers);
        let (mut now, mut gone) = (Instant::now(), Vec::new());
        for step in 0..60 {
            pass(&mut detectors, &mut now, 1, &gone);
            for process in
                (0..detectors.len()).filter(|process| !gone.contains(process)).collect::<Vec<_>>()
            {
                let (detector, transport) = &mut detectors[process];
                if !detector.over[process] {
                    if step >= 5 * process {
                        detector.bye(&mut **transport, &[0, 0]);
                    }
                } else if detector.all_over() {
                    detector.last(&mut **transport);
                    if detector.all_quiet() {
                        gone.push(process);
                    }
                }
            }
        }
        assert_eq!(gone.len(), detectors.len(), "{hosts} hosts of {each}");
        assert_eq!(network.under_way(), 0, "{hosts} hosts of {each}");
    }
}

/// The members of a process have left early, and a process of their host reports it before the
/// process sends bye: the process lives.
#[test]
fn a_process_whose_members_have_left_is_waited_for_and_watched() {
    for is_killed in [false, true] {
        let (network, mut detectors) = detectors(4);
        let mut now = Instant::now();
        pass(&mut detectors, &mut now, 10, &[]);
        (2..4).for_each(|rank| detectors[1].0.control.fault_list.report(Fault::Left { rank }));
        pass(&mut detectors, &mut now, 10, &[]);
        assert_eq!(dead(&detectors), [2; 4], "all hosts are told");
        for process in [0, 2, 3] {
            let (detector, transport) = &mut detectors[process];
            detector.bye(&mut **transport, &[1, 1]);
        }
        pass(&mut detectors, &mut now, 100, &[]);
        for process in [0, 2, 3] {
            let detector = &detectors[process].0;
            assert!(
                !detector.all_over() && !detector.any_died(),
                "process {process} waits for process 1"
            );
        }
        if is_killed {
            network.cut(1);
        } else {
            let (detector, transport) = &mut detectors[1];
            detector.bye(&mut **transport, &[0, 0]);
        }
        pass(&mut detectors, &mut now, 100, &[]);
        for process in [0, 2, 3] {
            let detector = &detectors[process].0;
            assert_eq!(
                (detector.all_over(), detector.any_died()),
                (true, is_killed),
                "process {process}"
            );
            assert_eq!(detector.control.fault_list.fault_of(2), Some(Fault::Left { rank: 2 }));
        }
    }
}

/// A death that is detected by pidfd on one host is reported to the other hosts, including those
/// whose members have ended.
#[test]
fn the_death_of_a_process_that_had_left_is_told_to_all_hosts() {
    let (_, mut detectors) = detectors_of(3, 2, 1);
    let mut now = Instant::now();
    // Process 3 is not a server. Its members have left; then it is killed.
    (6..8).for_each(|rank| detectors[2].0.control.fault_list.report(Fault::Left { rank }));
    for process in [0, 1, 4, 5] {
        let (detector, transport) = &mut detectors[process];
        detector.bye(&mut **transport, &[1, 1]);
    }
    pass(&mut detectors, &mut now, 10, &[3]);
    assert!(detectors.iter().all(|(detector, _)| !detector.any_died()));
    detectors[2].0.control.set_died(3);
    let (detector, transport) = &mut detectors[2];
    detector.bye(&mut **transport, &[1, 1]);
    pass(&mut detectors, &mut now, 10, &[3]);
    for process in [0, 1, 2, 4, 5] {
        let detector = &detectors[process].0;
        assert_eq!((detector.all_over(), detector.any_died()), (true, true), "process {process}");
    }
}

/// MPI reports the death; no process may exit before all have sent bye.
#[test]
fn a_process_that_dies_after_its_bye_is_missed_at_the_end() {
    let (_, mut detectors) = detectors(3);
    let mut now = Instant::now();
    let (detector, transport) = &mut detectors[1];
    detector.bye(&mut **transport, &[0, 0]);
    pass(&mut detectors, &mut now, 10, &[1]);
    detectors[0].0.failed(&TransportError::Gone { process: 1 });
    pass(&mut detectors, &mut now, 10, &[1]);
    assert_eq!(
        (dead(&detectors)[0], detectors[2].0.any_died()),
        (0, true),
        "its members had ended well"
    );
    // Where MPI reports nothing, the silence of the process shows it.
    let (_, mut detectors) = self::detectors(3);
    let (detector, transport) = &mut detectors[1];
    detector.bye(&mut **transport, &[0, 0]);
    pass(&mut detectors, &mut now, 60, &[]);
    assert!(detectors.iter().all(|(detector, _)| !detector.any_died()), "it waits for the others");
    pass(&mut detectors, &mut now, 30, &[1]);
    assert!([0, 2].iter().all(|&process| detectors[process].0.any_died()));
    let (_, mut detectors) = self::detectors(3);
    for (detector, transport) in &mut detectors {
        detector.bye(&mut **transport, &[0, 0]);
    }
    pass(&mut detectors, &mut now, 1, &[]);
    detectors[0].0.failed(&TransportError::Gone { process: 1 });
    assert!(!detectors[0].0.any_died(), "it may exit");
}
