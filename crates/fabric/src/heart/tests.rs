use super::*;
use crate::wire::channel::{Conditions, Network};
use syncline_sync::Space;

const TIMEOUT: Duration = Duration::from_millis(800);

/// A process, and its wire.
type Process = (Heart, Box<dyn Wire>);

fn hearts(hosts: usize) -> (Network, Vec<Process>) {
    hearts_of(hosts, 1, 1)
}

/// Of a number of hosts with a number of processes each, of which some serve.
fn hearts_of(hosts: usize, each: usize, servers: usize) -> (Network, Vec<Process>) {
    let all = hosts * each;
    let network = Network::new(all, Conditions::default());
    let shape = Shape { processes: all, threads: 2, cores: 1 };
    let named = Hosts::new(&(0..all).map(|process| process / each).collect::<Vec<_>>());
    let named = named.with_servers(servers);
    // Processes of a host have one list of the dead.
    let control = |_| Control::within(&mut Space::heap(), all, 2 * all).unwrap();
    let controls = (0..hosts).map(control).collect::<Vec<_>>();
    let heart = |process: usize| {
        let control = controls[process / each].clone();
        let heart = Heart::new(process, named.clone(), control, shape, TIMEOUT);
        (heart, Box::new(network.wire(process)) as Box<dyn Wire>)
    };
    (network.clone(), (0..all).map(heart).collect())
}

/// All go on by `step` for a while, but those who are stopped.
fn pass(hearts: &mut [Process], now: &mut Instant, steps: u32, stopped: &[usize]) {
    for _ in 0..steps {
        *now += TIMEOUT / 16;
        for (process, (heart, wire)) in hearts.iter_mut().enumerate() {
            if stopped.contains(&process) {
                continue;
            }
            while let Some((from, message)) = wire.receive().unwrap() {
                heart.heard(from);
                heart.receive(from, &message[8..]);
            }
            heart.beat(&mut **wire, *now);
        }
    }
}

fn dead(hearts: &[Process]) -> Vec<usize> {
    hearts.iter().map(|(heart, _)| heart.control.deaths.count()).collect()
}

#[test]
fn a_silent_host_is_told_of_to_all_and_nobody_else_is() {
    let (network, mut hearts) = hearts(5);
    let mut now = Instant::now();
    pass(&mut hearts, &mut now, 100, &[]);
    assert_eq!(dead(&hearts), [0; 5]);
    network.cut(2);
    pass(&mut hearts, &mut now, 20, &[]);
    for (process, (heart, _)) in hearts.iter().enumerate().filter(|(process, _)| *process != 2) {
        assert_eq!(heart.control.deaths.count(), 2, "process {process}");
        assert!(heart.control.deaths.includes(4) && heart.control.deaths.includes(5));
    }
    // The one cut off has lost all others, in the end.
    pass(&mut hearts, &mut now, 100, &[]);
    assert_eq!(dead(&hearts), [2, 2, 8, 2, 2]);
}

/// The host that has found the verdict may be heard last, and the member that ends because of it
/// first.
#[test]
fn a_verdict_is_heard_before_what_follows_from_it() {
    let (_, mut hearts) = hearts(3);
    hearts[2].0.control.made(4, 2);
    let verdict = [u64::MAX, 0, 0];
    let (heart, wire) = &mut hearts[0];
    heart.control.calls.decide_as(verdict);
    heart.tell_verdict(&mut **wire);
    let (heart, wire) = &mut hearts[1];
    while let Some((from, message)) = wire.receive().unwrap() {
        heart.receive(from, &message[8..]);
    }
    assert_eq!(heart.control.calls.verdict_words(), Some(verdict));
    // Each of its members has made one thing less than rank 4.
    heart.bye(&mut **wire, &[1, 1]);
    let (heart, wire) = &mut hearts[2];
    let mut messages = Vec::new();
    while let Some(message) = wire.receive().unwrap() {
        messages.push(message);
    }
    messages.sort_by_key(|&(from, _)| from != 1);
    for (from, message) in messages {
        heart.receive(from, &message[8..]);
        let told = heart.control.calls.verdict_words() == Some(verdict);
        assert!(told || heart.control.deaths.count() == 0, "a death is heard of first");
    }
    assert_eq!(heart.control.deaths.fault_of(2), Some(Fault::Left { rank: 2 }));
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
    let (network, mut hearts) = hearts(4);
    let mut now = Instant::now();
    network.cut(2);
    pass(&mut hearts, &mut now, 30, &[]);
    let silent = Some(Fault::Silent(Silence::new(4, TIMEOUT.as_millis() as u32)));
    let told = [0, 1, 3].map(|process| hearts[process].0.control.deaths.fault_of(4));
    assert_eq!(told, [silent; 3]);
    // One process is told by its MPI, and the others by it.
    hearts[0].0.failed(&WireError::Gone { process: 1 });
    pass(&mut hearts, &mut now, 2, &[1, 2]);
    assert_eq!(hearts[3].0.control.deaths.fault_of(3), Some(Fault::Reported { rank: 3 }));
}

/// Its host has no other server, so another process of that host tells the others, long before
/// silence would.
#[test]
fn the_death_of_a_server_is_told_by_its_host() {
    let (_, mut hearts) = hearts_of(2, 2, 1);
    let mut now = Instant::now();
    pass(&mut hearts, &mut now, 20, &[]);
    // What a watch by pidfd does, in the memory of that host.
    hearts[3].0.control.deaths.tell(Fault::Dead { rank: 4 });
    hearts[3].0.control.deaths.tell(Fault::Dead { rank: 5 });
    hearts[3].0.control.set_died(2);
    pass(&mut hearts, &mut now, 2, &[2]);
    assert_eq!(hearts[0].0.control.deaths.fault_of(4), Some(Fault::Dead { rank: 4 }));
}

#[test]
fn one_who_was_stopped_accuses_nobody_and_is_not_accused_too_soon() {
    let (_, mut hearts) = hearts(4);
    let mut now = Instant::now();
    pass(&mut hearts, &mut now, 10, &[]);
    for _ in 0..5 {
        pass(&mut hearts, &mut now, 10, &[1]);
        pass(&mut hearts, &mut now, 10, &[]);
    }
    assert_eq!(dead(&hearts), [0; 4]);
    pass(&mut hearts, &mut now, 40, &[1]);
    assert_eq!(dead(&hearts), [2, 0, 2, 2]);
}

#[test]
fn a_silent_server_is_missed_whoever_else_of_its_host_talks() {
    for (servers, stopped, missed) in [(1, 2, 4), (2, 3, 2), (2, 2, 2)] {
        let (_, mut hearts) = hearts_of(2, 2, servers);
        let mut now = Instant::now();
        pass(&mut hearts, &mut now, 100, &[]);
        assert_eq!(dead(&hearts), [0; 4]);
        for _ in 0..40 {
            pass(&mut hearts, &mut now, 1, &[stopped]);
            // The other process of that host has something to say all the time.
            let (heart, wire) = &mut hearts[5 - stopped];
            heart.send(&mut **wire, 0, &[BEAT]);
        }
        assert_eq!(dead(&hearts)[..2], [missed; 2], "{servers} servers, {stopped} is stopped");
        assert!(hearts[0].0.control.deaths.includes(2 * stopped));
    }
}

#[test]
fn two_neighbours_may_die_together() {
    let (network, mut hearts) = hearts(6);
    let mut now = Instant::now();
    pass(&mut hearts, &mut now, 10, &[]);
    network.cut(3);
    network.cut(4);
    pass(&mut hearts, &mut now, 60, &[]);
    let told = dead(&hearts);
    assert_eq!([told[0], told[1], told[2], told[5]], [4; 4]);
}

#[test]
fn a_process_that_has_ended_accuses_none_that_goes_on() {
    for (hosts, ended) in [(2, &[0][..]), (3, &[1]), (5, &[1, 2]), (6, &[0, 2, 3, 4])] {
        let (_, mut hearts) = hearts(hosts);
        let mut now = Instant::now();
        for &process in ended {
            let (heart, wire) = &mut hearts[process];
            heart.bye(&mut **wire, &[0, 0]);
        }
        pass(&mut hearts, &mut now, 100, &[]);
        assert_eq!(dead(&hearts), vec![0; hosts], "{ended:?} of {hosts}");
    }
}

/// And one that goes on is missed by those that have ended, too: they wait for it.
#[test]
fn a_process_that_has_ended_goes_on_to_watch() {
    let (network, mut hearts) = hearts(4);
    let mut now = Instant::now();
    for process in [0, 2, 3] {
        let (heart, wire) = &mut hearts[process];
        heart.bye(&mut **wire, &[0, 0]);
    }
    pass(&mut hearts, &mut now, 10, &[]);
    network.cut(1);
    pass(&mut hearts, &mut now, 60, &[]);
    for process in [0, 2, 3] {
        assert!(hearts[process].0.all_over(), "process {process}");
    }
}

#[test]
fn a_process_that_was_given_up_accuses_none_and_is_told_of_the_end() {
    let (_, mut hearts) = hearts(3);
    let mut now = Instant::now();
    // As when its members have panicked.
    let (heart, wire) = &mut hearts[0];
    (0..2).for_each(|rank| heart.control.deaths.give_up(rank));
    heart.bye(&mut **wire, &[0, 0]);
    pass(&mut hearts, &mut now, 60, &[]);
    assert_eq!(dead(&hearts), [2; 3]);
    for process in [1, 2] {
        let (heart, wire) = &mut hearts[process];
        heart.bye(&mut **wire, &[0, 0]);
    }
    pass(&mut hearts, &mut now, 1, &[]);
    assert_eq!(dead(&hearts), [2; 3]);
    assert!(hearts.iter().all(|(heart, _)| heart.all_over()));
}

#[test]
fn members_that_have_ended_are_not_missed() {
    let (_, mut hearts) = hearts(3);
    let mut now = Instant::now();
    let (heart, wire) = &mut hearts[1];
    heart.bye(&mut **wire, &[0, 0]);
    pass(&mut hearts, &mut now, 60, &[1]);
    assert_eq!(dead(&hearts), [0; 3]);
    assert!(!hearts[0].0.all_over());
    let (heart, wire) = &mut hearts[2];
    heart.bye(&mut **wire, &[0, 1]);
    pass(&mut hearts, &mut now, 1, &[1]);
    assert!(!hearts[0].0.all_over());
    let (heart, _) = &mut hearts[0];
    heart.over[0] = true;
    assert!(hearts[0].0.all_over());
    // A member has made less than another of them.
    hearts[0].0.control.made(0, 1);
    assert!(hearts[0].0.control.deaths.includes(2));
}

/// Processes end one after the other, with time in between for beats. After the last message of
/// each no other is under way to any.
#[test]
fn nothing_is_sent_to_a_process_that_has_gone() {
    for (hosts, each, servers) in [(2, 1, 1), (3, 1, 1), (2, 3, 1), (2, 3, 2), (5, 1, 1)] {
        let (network, mut hearts) = hearts_of(hosts, each, servers);
        let (mut now, mut gone) = (Instant::now(), Vec::new());
        for step in 0..60 {
            pass(&mut hearts, &mut now, 1, &gone);
            for process in
                (0..hearts.len()).filter(|process| !gone.contains(process)).collect::<Vec<_>>()
            {
                let (heart, wire) = &mut hearts[process];
                if !heart.over[process] {
                    if step >= 5 * process {
                        heart.bye(&mut **wire, &[0, 0]);
                    }
                } else if heart.all_over() {
                    heart.last(&mut **wire);
                    if heart.all_quiet() {
                        gone.push(process);
                    }
                }
            }
        }
        assert_eq!(gone.len(), hearts.len(), "{hosts} hosts of {each}");
        assert_eq!(network.under_way(), 0, "{hosts} hosts of {each}");
    }
}

/// The members of a process have left early, and one of its host says so before the process says
/// bye: it lives.
#[test]
fn a_process_whose_members_have_left_is_waited_for_and_watched() {
    for is_killed in [false, true] {
        let (network, mut hearts) = hearts(4);
        let mut now = Instant::now();
        pass(&mut hearts, &mut now, 10, &[]);
        (2..4).for_each(|rank| hearts[1].0.control.deaths.tell(Fault::Left { rank }));
        pass(&mut hearts, &mut now, 10, &[]);
        assert_eq!(dead(&hearts), [2; 4], "all hosts are told");
        for process in [0, 2, 3] {
            let (heart, wire) = &mut hearts[process];
            heart.bye(&mut **wire, &[1, 1]);
        }
        pass(&mut hearts, &mut now, 100, &[]);
        for process in [0, 2, 3] {
            let heart = &hearts[process].0;
            assert!(
                !heart.all_over() && !heart.any_died(),
                "process {process} waits for process 1"
            );
        }
        if is_killed {
            network.cut(1);
        } else {
            let (heart, wire) = &mut hearts[1];
            heart.bye(&mut **wire, &[0, 0]);
        }
        pass(&mut hearts, &mut now, 100, &[]);
        for process in [0, 2, 3] {
            let heart = &hearts[process].0;
            assert_eq!(
                (heart.all_over(), heart.any_died()),
                (true, is_killed),
                "process {process}"
            );
            assert_eq!(heart.control.deaths.fault_of(2), Some(Fault::Left { rank: 2 }));
        }
    }
}

/// What a watch by pidfd finds on one host, the others are told of, those whose members have ended
/// included.
#[test]
fn the_death_of_a_process_that_had_left_is_told_to_all_hosts() {
    let (_, mut hearts) = hearts_of(3, 2, 1);
    let mut now = Instant::now();
    // Process 3 is no server. Its members have left; then it is killed.
    (6..8).for_each(|rank| hearts[2].0.control.deaths.tell(Fault::Left { rank }));
    for process in [0, 1, 4, 5] {
        let (heart, wire) = &mut hearts[process];
        heart.bye(&mut **wire, &[1, 1]);
    }
    pass(&mut hearts, &mut now, 10, &[3]);
    assert!(hearts.iter().all(|(heart, _)| !heart.any_died()));
    hearts[2].0.control.set_died(3);
    let (heart, wire) = &mut hearts[2];
    heart.bye(&mut **wire, &[1, 1]);
    pass(&mut hearts, &mut now, 10, &[3]);
    for process in [0, 1, 2, 4, 5] {
        let heart = &hearts[process].0;
        assert_eq!((heart.all_over(), heart.any_died()), (true, true), "process {process}");
    }
}

/// MPI says so, and a process may not exit before all have said bye.
#[test]
fn a_process_that_dies_after_its_bye_is_missed_at_the_end() {
    let (_, mut hearts) = hearts(3);
    let mut now = Instant::now();
    let (heart, wire) = &mut hearts[1];
    heart.bye(&mut **wire, &[0, 0]);
    pass(&mut hearts, &mut now, 10, &[1]);
    hearts[0].0.failed(&WireError::Gone { process: 1 });
    pass(&mut hearts, &mut now, 10, &[1]);
    assert_eq!((dead(&hearts)[0], hearts[2].0.any_died()), (0, true), "its members had ended well");
    // Where MPI says nothing, its silence does.
    let (_, mut hearts) = self::hearts(3);
    let (heart, wire) = &mut hearts[1];
    heart.bye(&mut **wire, &[0, 0]);
    pass(&mut hearts, &mut now, 60, &[]);
    assert!(hearts.iter().all(|(heart, _)| !heart.any_died()), "it waits for the others");
    pass(&mut hearts, &mut now, 30, &[1]);
    assert!([0, 2].iter().all(|&process| hearts[process].0.any_died()));
    let (_, mut hearts) = self::hearts(3);
    for (heart, wire) in &mut hearts {
        heart.bye(&mut **wire, &[0, 0]);
    }
    pass(&mut hearts, &mut now, 1, &[]);
    hearts[0].0.failed(&WireError::Gone { process: 1 });
    assert!(!hearts[0].0.any_died(), "it may exit");
}
