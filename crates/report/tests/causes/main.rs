//! The causes that reports name, for programs that were made to have them, and none for a healthy
//! program.

mod program;

use program::{MS, Program, Thread, report_of};
use syncline_report::model::{Cause, Report};
use syncline_trace::note::{Note, ObjectClass};
use syncline_trace::{Activity, Role};

/// Checks the first cause of a report, and what its headline contains.
fn names(report: &Report, kind: &str, words: &[&str]) {
    let found = report.summary.causes.first().map(|cause| cause.kind.as_str());
    assert_eq!(found, Some(kind), "{:#?}", report.summary);
    for word in words {
        assert!(report.summary.headline.contains(word), "{word}: {:#?}", report.summary);
    }
}

/// Threads that execute the steps of a row of tasks each, 50 iterations of 4 ms.
fn sweep(threads: u32, step: impl Fn(u32, u64) -> u64, wait: impl Fn(u32, u64) -> u64) -> Program {
    let thread = |worker| {
        let mut thread = Thread::new(Role::Worker(worker));
        for iteration in 0..50 {
            thread.does(Activity::AwaitTask, 0, 0, wait(worker, iteration));
            thread.does(Activity::Step, worker, iteration, step(worker, iteration));
        }
        thread
    };
    let mut program = Program::of((0..threads).map(thread).collect());
    program.tasks("block", 1, threads);
    program
}

#[test]
fn a_healthy_run_has_no_cause() {
    let report = report_of(&[sweep(4, |_, _| 4 * MS, |_, _| MS / 10)]);
    assert_eq!(report.summary.causes, []);
    assert_eq!(report.summary.headline, "Nothing holds the run up: 98 % of its time is work.");
    assert_eq!(report.missing, [""; 0]);
    let grid = &report.grids[0];
    assert_eq!((grid.name.as_str(), grid.work.len(), grid.tasks.len()), ("block", 50, 4));
    assert!((grid.work[7][2] - 0.004).abs() < 1e-9 && (grid.wait[7][2] - 0.0001).abs() < 1e-9);
}

#[test]
fn threads_on_one_processor_are_a_wrong_placement() {
    let mut program = sweep(4, |_, _| 4 * MS, |_, _| MS / 10);
    for thread in &mut program.threads {
        (thread.allowed, thread.queued) = ("0".into(), 150 * MS);
    }
    program.processors = vec![[100, 0, 0, 0], [2, 98, 0, 0], [1, 99, 0, 0], [0, 100, 0, 0]];
    let words = ["Wrong placement", "worker 0, worker 1, worker 2, worker 3", "processor 0 only"];
    names(&report_of(&[program]), "placement", &words);
}

#[test]
fn more_threads_than_processors_are_named() {
    let mut program = sweep(12, |_, _| 4 * MS, |_, _| MS / 10);
    program.threads.iter_mut().for_each(|thread| thread.queued = 130 * MS);
    program.processors = vec![[20, 0, 0, 0]; 4];
    names(&report_of(&[program]), "oversubscribed", &["12 compute on 4 processors"]);
}

/// Twelve threads that take turns by permits: they are ready to run, for moments, more often than
/// they work.
#[test]
fn threads_that_take_turns_are_not_too_many() {
    let mut program = sweep(12, |_, _| MS, |_, _| 3 * MS);
    for thread in &mut program.threads {
        (thread.queued, thread.beside_work) = (130 * MS, 100 * MS);
    }
    program.processors = vec![[20, 0, 0, 0]; 4];
    let report = report_of(&[program]);
    let many = report.summary.causes.iter().find(|cause| cause.kind == "oversubscribed");
    assert_eq!(many, None, "{:#?}", report.summary);
}

#[test]
fn other_programs_are_named() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| MS / 10);
    program.threads.iter_mut().for_each(|thread| thread.queued = 100 * MS);
    program.processors = vec![[20, 0, 0, 0]; 4];
    names(&report_of(&[program]), "busy-machine", &["other programs"]);
}

#[test]
fn a_limit_of_processor_time_is_named() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| MS / 10);
    program.throttled = 60 * MS;
    names(&report_of(&[program]), "limit", &["A limit of processor time holds the run back"]);
}

/// Eight workers of which four compute at any time, on four processors.
#[test]
fn workers_that_take_turns_are_healthy() {
    let turns = |worker: u32, iteration: u64| match (worker % 2, iteration) {
        (0, 0) => 0,
        _ => 4 * MS,
    };
    let report = report_of(&[sweep(8, |_, _| 4 * MS, turns)]);
    assert_eq!(report.summary.causes, []);
    assert!(report.summary.work > 0.98, "{:?}", report.summary);
}

/// A program that starts its workers for every pass.
#[test]
fn workers_that_are_started_again_are_one() {
    let mut threads = Vec::new();
    for pass in 0..7 {
        for worker in 0..2 {
            let mut thread = Thread::new(Role::Worker(worker));
            thread.now = pass * 44 * MS;
            for iteration in 0..10 {
                thread.does(Activity::Step, worker, iteration, 4 * MS);
            }
            (thread.ends, thread.queued) = (true, MS);
            threads.push(thread);
        }
    }
    let mut program = Program::of(threads);
    program.tasks("block", 1, 2);
    let report = report_of(&[program]);
    assert_eq!(report.lanes.len(), 2, "{:?}", report.lanes);
    let (ran, queued) = report.lanes[1].processor.unwrap();
    assert!((ran - 7.0 * 0.039).abs() < 1e-9 && (queued - 0.007).abs() < 1e-9, "{ran} {queued}");
}

/// One of two threads waits for the disk in its steps, the other one computes as long.
#[test]
fn threads_whose_steps_are_equally_long_are_no_stragglers() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| MS / 10);
    for iteration in 0..50 {
        let since = iteration * 41 * MS / 10 + MS / 10;
        program.threads[1].beside(Activity::AwaitDisk, 77, 0, [since, since + 3 * MS]);
    }
    names(&report_of(&[program]), "disk", &["threads wait for its pages"]);
}

#[test]
fn a_straggler_is_named() {
    let slow = |worker, _| if worker == 2 { 10 * MS } else { 4 * MS };
    let wait = |worker, _| if worker == 2 { 0 } else { 6 * MS };
    names(&report_of(&[sweep(4, slow, wait)]), "straggler", &["worker 2", "2.5 times"]);
}

/// The threads of a run may outnumber the processors for a moment, and delay one another.
#[test]
fn a_thread_without_a_processor_is_no_straggler() {
    let lacking = |queued: u64| {
        let slow = |worker, _| if worker == 2 { 10 * MS } else { 4 * MS };
        let wait = |worker, _| if worker == 2 { 0 } else { 6 * MS };
        let mut program = sweep(4, slow, wait);
        program.threads[2].queued = queued;
        program.processors = vec![[14, 36, 0, 0]; 4];
        report_of(&[program])
    };
    let report = lacking(300 * MS);
    let balance = |cause: &Cause| matches!(&*cause.kind, "straggler" | "imbalance");
    assert!(!report.summary.causes.iter().any(balance), "{:#?}", report.summary);
    // The lack does not explain the delay.
    names(&lacking(150 * MS), "straggler", &["worker 2", "2.5 times"]);
}

#[test]
fn a_member_that_comes_late_to_barriers_is_named() {
    let member = |rank| {
        let mut member = Thread::new(Role::Member(rank));
        for episode in 0..40 {
            let (work, wait) = if rank == 1 { (9 * MS, MS / 5) } else { (3 * MS, 6 * MS) };
            member.does(Activity::Section, 9, 0, work);
            member.does(Activity::AwaitBarrier, 5, episode, wait);
        }
        member
    };
    let program = Program::of((0..3).map(member).collect());
    names(&report_of(&[program]), "straggler", &["the others wait for member 1"]);
}

/// Member 1 never comes to the barrier, and records nothing but its role.
#[test]
fn a_member_that_does_not_come_is_named() {
    let mut waiting = Thread::new(Role::Member(0));
    waiting.does(Activity::Section, 9, 0, 10 * MS);
    waiting.does(Activity::AwaitBarrier, 5, 0, 3000 * MS);
    let mut absent = Thread::new(Role::Member(1));
    absent.sleeps = true;
    let report = report_of(&[Program::of(vec![waiting, absent])]);
    names(&report, "straggler", &["the others wait for member 1"]);
    assert!((report.length - 3.01).abs() < 1e-9);
}

#[test]
fn a_process_that_stands_still_is_named() {
    let [mut first, mut second] = exchanging(0);
    for program in [&mut first, &mut second] {
        program.threads[0].does(Activity::AwaitSync, 3, 60, 4000 * MS);
    }
    second.silent = 400 * MS..3900 * MS;
    names(&report_of(&[first, second]), "stopped", &["member 1 stood still for 3.", " s"]);
}

/// What a terminal would obey is not in a report.
#[test]
fn names_are_printed_as_they_are_written() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| MS / 10);
    program.notes.retain(|note| !matches!(note, Note::Task { .. }));
    let hostile = format!("\u{1b}[2J\n{}", "long ".repeat(100_000));
    program.notes.extend((0..2).map(|id| Note::Task { id, name: hostile.clone(), member: None }));
    program.fact("\u{1b}]0;title\u{7}", "\u{202e}");
    let report = report_of(&[program]);
    let all = format!("{:?} {:?} {:?}", report.grids[0].tasks, report.facts, report.overlay);
    let shown = report.grids[0].tasks.iter().chain(report.facts.iter().flat_map(|(a, b)| [a, b]));
    assert!(shown.flat_map(|text| text.chars()).all(|c| !c.is_control() && c != '\u{202e}'));
    assert!(all.len() < 10_000, "{}", all.len());
}

#[test]
fn a_heavy_task_is_named() {
    let thread = |worker: u32| {
        let mut thread = Thread::new(Role::Worker(worker));
        for iteration in 0..20 {
            for task in [2 * worker, 2 * worker + 1] {
                let heavy = task == 5;
                thread.does(Activity::Step, task, iteration, if heavy { 18 * MS } else { 2 * MS });
            }
            thread.does(Activity::AwaitTask, 0, 0, if worker == 2 { 0 } else { 16 * MS });
        }
        thread
    };
    let mut program = Program::of((0..4).map(thread).collect());
    program.tasks("block", 2, 4);
    names(&report_of(&[program]), "imbalance", &["block (1, 1)", "9.0 times"]);
}

/// A sweep whose threads wait for reads, of 1 MB each.
fn reading(milliseconds: u64) -> Program {
    let mut program = sweep(2, |_, _| MS, |_, _| milliseconds * MS);
    let mut reader = Thread::new(Role::Worker(9));
    for request in 0..50 {
        let since = request * (milliseconds + 1) * MS;
        reader.beside(Activity::Read, 77, 1 << 20, [since, since + milliseconds * MS]);
    }
    reader.now = program.threads[0].now;
    program.threads.push(reader);
    program.notes.push(Note::Name { class: ObjectClass::File, id: 77, name: "za.npy".into() });
    program
}

#[test]
fn a_disk_that_is_slower_than_measured_is_named() {
    let mut program = reading(20);
    program.fact("disk.read_peak", "900000000");
    program.fact("disk.write_peak", "800000000");
    names(&report_of(&[program]), "disk", &["A slow disk", "52 MB/s", "800 MB/s"]);
}

#[test]
fn a_disk_at_its_peak_bounds_the_run() {
    let mut program = reading(20);
    program.fact("disk.read_peak", "60000000");
    program.fact("disk.write_peak", "60000000");
    let report = report_of(&[program]);
    names(&report, "disk", &["The disk bounds the run", "52 MB/s"]);
    let disk = report.disk.unwrap();
    let bytes: f64 = disk.read.iter().map(|rate| rate * disk.bin).sum();
    assert!((bytes - 50.0 * 1_048_576.0).abs() < 1e3, "{bytes}");
    assert_eq!(disk.files[0].0, "za.npy");
}

#[test]
fn pages_from_the_disk_are_named() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| MS / 10);
    program.threads.iter_mut().for_each(|thread| {
        (thread.faults, thread.sleeps) = (400, true);
    });
    names(&report_of(&[program]), "memory", &["pages that come from the disk"]);
}

#[test]
fn a_lock_is_named() {
    let member = |rank| {
        let mut member = Thread::new(Role::Member(rank));
        for _ in 0..50 {
            member.does(Activity::Section, 9, 0, 2 * MS);
            member.does(Activity::AwaitLock, 40 + rank, 0, 2 * MS);
        }
        member
    };
    let mut program = Program::of((0..4).map(member).collect());
    // Each member has its own number for the lock.
    program.notes.extend((40..44).map(|id| Note::Name {
        class: ObjectClass::Lock,
        id,
        name: "the table".into(),
    }));
    names(&report_of(&[program]), "lock", &["4 threads wait for the table"]);
}

/// The detail of a message.
fn message(number: u64, from: u64, to: u64) -> u64 {
    number << 36 | from << 16 | to
}

/// Two hosts whose members exchange messages in every step, each under way for 2 ms. The clock of
/// the second one is ahead.
fn exchanging(ahead: u64) -> [Program; 2] {
    [0, 1].map(|own: u64| {
        let other = 1 - own;
        let mut member = Thread::new(Role::Member(own as u32));
        for round in 0..60 {
            member.does(Activity::Section, 9, 0, MS);
            let now = member.now;
            member.beside(Activity::Sent, other as u32, message(round, own, other), [now; 2]);
            member.does(Activity::AwaitSync, 3, round, 2 * MS);
            let now = member.now;
            member.beside(Activity::Received, other as u32, message(round, other, own), [now; 2]);
        }
        let mut program = Program::of(vec![member]);
        (program.host, program.ahead) = (format!("host {own}"), own * ahead);
        program.fact("team.process", &own.to_string());
        program
    })
}

#[test]
fn messages_are_named_and_clocks_are_aligned() {
    for ahead in [0, 3_600_000_000_000] {
        let report = report_of(&exchanging(ahead));
        names(&report, "messages", &["under way for 2.0 ms"]);
        let messages = report.messages.unwrap();
        assert_eq!((messages.all, messages.peers.len()), (120, 2));
        for &(_, _, sent, received) in &messages.arrows {
            assert!((received - sent - 0.002).abs() < 1e-4, "{sent} {received}, ahead {ahead}");
        }
        assert!(
            messages.clocks.contains("2 hosts were aligned by the messages"),
            "{}",
            messages.clocks
        );
        assert!((report.length - 0.18).abs() < 1e-3, "{}", report.length);
    }
}

#[test]
fn the_order_of_tasks_is_named() {
    // One thread at a time has a ready task.
    let wait = |worker: u32, iteration: u64| match (worker, iteration) {
        (worker, 0) => u64::from(worker) * 4 * MS,
        _ => 12 * MS,
    };
    let report = report_of(&[sweep(4, |_, _| 4 * MS, wait)]);
    names(&report, "order", &["of 4 threads at work"]);
}

/// A busy machine makes any kind of task the one with the most work.
#[test]
fn the_wave_is_of_the_tasks_whose_numbers_are_places() {
    let mut thread = Thread::new(Role::Worker(0));
    for iteration in 0..4 {
        thread.does(Activity::Step, 0, iteration, MS);
    }
    thread.does(Activity::Step, 1, 0, 9 * MS);
    let mut program = Program::of(vec![thread]);
    program.notes.push(Note::Overlay { first: 0, tasks: 2 });
    for (id, name) in [(0, "wave 2, 5"), (1, "sum 1 0")] {
        program.notes.push(Note::Task { id, name: name.into(), member: None });
    }
    let wave = report_of(&[program]).wave.unwrap();
    assert_eq!((wave.rows, wave.cols, wave.steps[17].len()), (3, 6, 4));
}

#[test]
fn steps_that_are_too_small_are_named() {
    let report = report_of(&[sweep(2, |_, _| 500, |_, _| 900)]);
    names(&report, "small-tasks", &["Small tasks", "500 ns"]);
}

#[test]
fn the_end_of_a_farm_is_named() {
    let worker = |number: u32| {
        let mut worker = Thread::new(Role::Worker(number));
        for task in 0..10 {
            let long = number == 3 && task == 9;
            let id = u64::from(number) * 10 + task;
            worker.does(Activity::Job, 0, id, if long { 200 * MS } else { 10 * MS });
        }
        if number != 3 {
            worker.does(Activity::AwaitJob, 0, 0, 190 * MS);
        }
        worker
    };
    let program = Program::of((0..4).map(worker).collect());
    names(&report_of(&[program]), "farm-tail", &["task 39", "200.0 ms"]);
}

#[test]
fn a_long_task_of_a_farm_is_named() {
    let mut first = Thread::new(Role::Worker(1));
    first.does(Activity::Job, 0, 1, 10 * MS);
    first.does(Activity::Job, 0, 2, 300 * MS);
    first.does(Activity::Job, 0, 3, 10 * MS);
    let mut second = Thread::new(Role::Worker(2));
    // A task in a task.
    second.beside(Activity::Job, 0, 4, [5 * MS, 15 * MS]);
    second.does(Activity::Job, 0, 5, 20 * MS);
    second.does(Activity::AwaitJob, 0, 0, 290 * MS);
    second.does(Activity::Job, 0, 6, 10 * MS);
    let report = report_of(&[Program::of(vec![first, second])]);
    names(&report, "imbalance", &["task 2 of the pool takes 300.0 ms"]);
    let running = report.farm.unwrap().running;
    assert!(running.iter().all(|&(_, tasks)| tasks < 2.01), "{running:?}");
}

/// A worker that does not know the number of its task.
#[test]
fn a_task_without_a_number_has_no_number() {
    let mut first = Thread::new(Role::Worker(1));
    first.does(Activity::Job, 0, u64::MAX, 300 * MS);
    let mut second = Thread::new(Role::Worker(2));
    (0..3).for_each(|task| second.does(Activity::Job, 0, task, 10 * MS));
    second.does(Activity::AwaitJob, 0, 0, 270 * MS);
    let report = report_of(&[Program::of(vec![first, second])]);
    names(&report, "farm-tail", &["a task takes 300.0 ms"]);
}

#[test]
fn a_manager_without_a_processor_is_named() {
    let worker = |number: u32| {
        let mut worker = Thread::new(Role::Worker(number));
        for task in 0..100 {
            worker.does(Activity::Job, 0, 2 * task + u64::from(number), 4 * MS);
            worker.does(Activity::AwaitJob, 0, 0, MS);
        }
        worker
    };
    let mut manager = Thread::new(Role::Manager);
    manager.does(Activity::AwaitMessage, 0, 0, 500 * MS);
    manager.queued = 300 * MS;
    let report = report_of(&[Program::of(vec![worker(0), worker(1), manager])]);
    let cause = report.summary.causes.iter().find(|cause| cause.kind == "farm-manager").unwrap();
    assert!(cause.evidence.contains("the manager had no processor for 60 %"), "{cause:#?}");
}

/// Members that wait for nothing, and execute no steps.
#[test]
fn members_without_a_span_are_at_work() {
    let member = |rank| {
        let mut member = Thread::new(Role::Member(rank));
        (member.now, member.ends) = (500 * MS, true);
        member
    };
    let report = report_of(&[Program::of(vec![member(0), member(1)])]);
    assert_eq!(report.summary.headline, "Nothing holds the run up: 100 % of its time is work.");
}

/// A damaged trace may hold any numbers, and its checks may be right.
#[test]
fn absurd_numbers_are_no_error() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| MS / 10);
    program.threads[0].does(Activity::Step, u32::MAX, u64::MAX, MS);
    for size in [u64::MAX, u64::MAX - 7] {
        program.threads[0].does(Activity::Read, u32::MAX, size, MS);
        program.threads[1].does(Activity::Job, u32::MAX, size, MS);
        program.threads[1].does(Activity::Received, u32::MAX, size, 0);
    }
    for first in [u32::MAX - 1, 7] {
        program.notes.push(Note::Overlay { first, tasks: u32::MAX });
        let (id, name) = (first, "block 99999999999999999999, 4294967295".into());
        program.notes.push(Note::Task { id, name, member: Some(u32::MAX - first % 2) });
    }
    assert!(report_of(&[program]).length > 0.2);
}

#[test]
fn a_run_that_is_stuck_is_named_with_what_it_waits_for() {
    let mut program = sweep(2, |_, _| 4 * MS, |_, _| 0);
    program.killed = true;
    program.threads[0].hangs(Activity::AwaitLock, 40);
    program.threads[1].hangs(Activity::AwaitBarrier, 41);
    // A third thread, which is none of the workers, goes on for five seconds.
    let mut other = Thread::new(Role::Server(0));
    other.does(Activity::Serve, 0, 0, 5000 * MS);
    program.threads.push(other);
    program.notes.push(Note::Name { class: ObjectClass::Lock, id: 40, name: "the table".into() });
    let report = report_of(&[program]);
    names(&report, "stuck", &["The run is stuck"]);
    let evidence = &report.summary.causes[0].evidence;
    assert!(evidence.contains("worker 0 waits for a lock the table"), "{evidence}");
    assert!(report.missing[0].contains("did not end its recording"), "{:?}", report.missing);
}

#[test]
fn tasks_of_a_team_on_one_member_are_a_wrong_placement() {
    let member = |rank: u32| {
        let mut member = Thread::new(Role::Member(rank));
        for iteration in 0..20 {
            let tasks = if rank == 0 { 0..7 } else { 7..8 };
            for task in tasks.clone() {
                member.does(Activity::Step, task, iteration, 2 * MS);
            }
            member.does(Activity::AwaitTask, 0, 0, (7 - tasks.len() as u64) * 2 * MS);
        }
        member
    };
    let mut program = Program::of((0..2).map(member).collect());
    program.notes.push(Note::Overlay { first: 0, tasks: 8 });
    program.notes.extend((0..8).map(|id| Note::Task {
        id,
        name: format!("task {id}"),
        member: Some(u32::from(id == 7)),
    }));
    names(&report_of(&[program]), "placement", &["member 0 runs 7 of 8 tasks"]);
}
