//! Processes that end, are killed, or cannot be started.

use std::process::Command;

use syncline_farm::{Farm, FarmError, Program, Vpid, bounds::Bounds};
use syncline_testkit::cases;

use crate::worker::Role;
use crate::{late, program, worker};

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut farm = Farm::new().unwrap();
    let error = farm.spawn(&Program::new("/nowhere/to/be/found")).unwrap_err().to_string();
    assert_eq!(error, "cannot start /nowhere/to/be/found: No such file or directory (os error 2)");
    let asks = worker(&mut farm, Role::Missing { times: 1 });
    let told: String = farm.recv_deadline(asks, late()).unwrap();
    assert_eq!(told, "cannot start /nowhere/to/be/found: No such file or directory (os error 2)");
}

#[test]
fn a_death_ends_the_waits_for_it() {
    let mut farm = Farm::new().unwrap();
    for role in [Role::Hang, Role::Spin] {
        let victim = worker(&mut farm, role);
        assert_eq!(farm.recv_deadline::<u64>(victim, late()).unwrap(), 7);
        farm.kill(victim).unwrap();
        let error = farm.recv_deadline::<u64>(victim, late()).unwrap_err();
        assert_eq!(error.to_string(), format!("process {victim} was killed by signal 9"));
    }
    // A receiver to which no further message can be sent, as its channel is full.
    let victim = worker(&mut farm, Role::Hang);
    assert_eq!(farm.recv_deadline::<u64>(victim, late()).unwrap(), 7);
    farm.send(victim, &1_u64).unwrap();
    farm.kill(victim).unwrap();
    let error = farm.send_deadline(victim, &2_u64, late()).unwrap_err();
    assert_eq!(error.to_string(), format!("process {victim} was killed by signal 9"));
}

#[test]
fn who_waits_for_anybody_is_told_of_children_that_fail_and_once() {
    let mut farm = Farm::new().unwrap();
    let bad = worker(&mut farm, Role::Exit(3));
    let hangs = worker(&mut farm, Role::Hang);
    let (mut sevens, mut ends) = (0, 0);
    while sevens < 2 || ends < 1 {
        match farm.recv_any_deadline::<u64>(late()) {
            Ok((_, 7)) => sevens += 1,
            Err(FarmError::Gone { vpid, cause }) => {
                assert_eq!((vpid, cause.to_string().as_str()), (bad, "exited with 3"));
                ends += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    farm.kill(hangs).unwrap();
    let error = farm.recv_any_deadline::<u64>(late()).unwrap_err().to_string();
    assert_eq!(error, format!("process {hangs} was killed by signal 9"));
    assert!(matches!(farm.recv_any_deadline::<u64>(late()), Err(FarmError::Alone)));
}

#[test]
fn a_number_whose_owner_has_ended_will_never_be_born() {
    let mut farm = Farm::new().unwrap();
    let owner = worker(&mut farm, Role::Abandon);
    let never: Vpid = farm.recv_deadline(owner, late()).unwrap();
    let error = farm.recv_deadline::<u64>(never, late()).unwrap_err().to_string();
    assert_eq!(error, format!("process {never} was never started: its parent has ended"));
}

/// Starts a worker as soon as there is a place for it.
fn worker_at_last(farm: &mut Farm, role: Role) -> Vpid {
    let vpid = farm.reserve_deadline(late()).unwrap();
    farm.send(vpid, &role).unwrap();
    farm.start(vpid, &program()).unwrap();
    vpid
}

/// An ended process keeps no place that another needs.
#[test]
fn all_places_can_be_those_of_living_processes() {
    let mut farm = Farm::with(Bounds::default().processes(8).memory(1 << 20)).unwrap();
    for _ in 0..3 {
        let dead: Vec<_> = (0..7).map(|_| worker_at_last(&mut farm, Role::Exit(3))).collect();
        for vpid in dead {
            assert_eq!(farm.recv_deadline::<u64>(vpid, late()).unwrap(), 7);
            let error = farm.recv_deadline::<u64>(vpid, late()).unwrap_err().to_string();
            assert_eq!(error, format!("process {vpid} exited with 3"));
        }
    }
    let living: Vec<_> = (0..7).map(|_| worker_at_last(&mut farm, Role::Hang)).collect();
    assert!(matches!(farm.reserve(), Err(FarmError::Full { processes: 8 })));
    for vpid in living {
        assert_eq!(farm.recv_deadline::<u64>(vpid, late()).unwrap(), 7);
    }
}

/// The place of a process that ends during a wait for a place is found by that wait, not only by
/// the next call.
#[test]
fn a_place_that_becomes_free_is_waited_for() {
    let mut farm = Farm::with(Bounds::default().processes(3).memory(1 << 20)).unwrap();
    for _ in 0..20 {
        // It ends after sending the number, while this process waits.
        let ends = worker_at_last(&mut farm, Role::Exit(0));
        let waits = worker_at_last(&mut farm, Role::Exit(0));
        for vpid in [ends, waits] {
            assert_eq!(farm.recv_deadline::<u64>(vpid, late()).unwrap(), 7);
        }
    }
}

/// Each of several processes that wait at once for places of ended processes gets one.
#[test]
fn places_that_several_wait_for_are_found_by_all() {
    let mut farm = Farm::with(Bounds::default().processes(9).memory(1 << 20)).unwrap();
    let askers: Vec<_> = (0..4).map(|_| worker(&mut farm, Role::Ask)).collect();
    for _ in 0..cases(50) {
        // All other places belong to ended processes to which no process refers.
        let dead: Vec<_> = (0..4).map(|_| worker_at_last(&mut farm, Role::Exit(3))).collect();
        for vpid in dead {
            assert_eq!(farm.recv_deadline::<u64>(vpid, late()).unwrap(), 7);
            assert_eq!(farm.wait(vpid, late()).unwrap().to_string(), "exited with 3");
        }
        askers.iter().for_each(|&asker| farm.send(asker, &1_u64).unwrap());
        for &asker in &askers {
            assert_eq!(farm.recv_deadline::<u64>(asker, late()).unwrap(), 1);
        }
        askers.iter().for_each(|&asker| farm.send(asker, &0_u64).unwrap());
    }
}

/// A place that is freed by the parent of its process is found by another process that waits.
#[test]
fn a_place_whose_process_is_let_go_is_found_by_another() {
    let mut farm = Farm::with(Bounds::default().processes(3).memory(1 << 20)).unwrap();
    let asker = worker(&mut farm, Role::Ask);
    for _ in 0..20 {
        let dead = worker_at_last(&mut farm, Role::Exit(3));
        assert_eq!(farm.recv_deadline::<u64>(dead, late()).unwrap(), 7);
        farm.send(asker, &1_u64).unwrap();
        // The place belongs to the dead process until its end is reported to this one.
        let error = farm.recv_deadline::<u64>(dead, late()).unwrap_err().to_string();
        assert_eq!(error, format!("process {dead} exited with 3"));
        assert_eq!(farm.recv_deadline::<u64>(asker, late()).unwrap(), 1);
        farm.send(asker, &0_u64).unwrap();
    }
}

/// A failed start keeps no place, neither at the manager nor at a worker.
#[test]
fn a_start_that_fails_keeps_no_place() {
    let mut farm = Farm::with(Bounds::default().processes(4).memory(1 << 20)).unwrap();
    for _ in 0..20 {
        let vpid = farm.reserve_deadline(late()).unwrap();
        let error = farm.start(vpid, &Program::new("/nowhere/to/be/found")).unwrap_err();
        assert!(matches!(error, FarmError::Start { .. }), "{error}");
    }
    let asks = worker_at_last(&mut farm, Role::Missing { times: 20 });
    for _ in 0..20 {
        let told: String = farm.recv_deadline(asks, late()).unwrap();
        assert_eq!(
            told,
            "cannot start /nowhere/to/be/found: No such file or directory (os error 2)"
        );
    }
    let living: Vec<_> = (0..2).map(|_| worker_at_last(&mut farm, Role::Hang)).collect();
    for vpid in living {
        assert_eq!(farm.recv_deadline::<u64>(vpid, late()).unwrap(), 7);
    }
}

/// Of several processes that start the same vpid, one succeeds; the others get an error.
#[test]
fn a_number_is_started_once() {
    let mut farm = Farm::with(Bounds::default().processes(16).memory(1 << 20)).unwrap();
    let others: Vec<_> = (0..3).map(|_| worker(&mut farm, Role::Start)).collect();
    for _ in 0..cases(40) {
        let vpid = farm.reserve_deadline(late()).unwrap();
        others.iter().for_each(|&other| farm.send(other, &vpid).unwrap());
        let own = farm.start(vpid, &Program::new("true"));
        let mut started = usize::from(own.is_ok());
        for &other in &others {
            let refused: String = farm.recv_deadline(other, late()).unwrap();
            started += usize::from(refused.is_empty());
            let not = format!("process {vpid} is not reserved, or was started already");
            assert!(refused.is_empty() || refused == not, "{refused}");
        }
        assert_eq!(started, 1);
        farm.wait(vpid, late()).unwrap();
    }
    let late = late().unwrap();
    while farm.living() > 3 {
        assert!(std::time::Instant::now() < late, "{} live", farm.living());
        std::thread::yield_now();
    }
}

/// A process does not wait for something that only it can do.
#[test]
fn no_process_waits_for_itself() {
    let mut farm = Farm::new().unwrap();
    let me = farm.vpid();
    let said = |error: FarmError| error.to_string();
    assert_eq!(said(farm.wait(me, None).unwrap_err()), "process 0 cannot wait for its own end");
    assert_eq!(said(farm.kill(me).unwrap_err()), "process 0 cannot kill itself: it can exit");
    let error = said(farm.recv::<u64>(me).unwrap_err());
    assert_eq!(error, "process 0 cannot wait for a message from itself");
    farm.send(me, &5_u64).unwrap();
    let error = said(farm.send(me, &6_u64).unwrap_err());
    assert_eq!(error, "process 0 cannot wait until it receives what it has sent itself");
    assert_eq!(farm.recv::<u64>(me).unwrap(), 5);
}

/// Places are reused, vpids are not, and no message is delivered to or from the wrong process.
#[test]
fn thousands_pass_through_few_places() {
    let mut farm = Farm::with(Bounds::default().processes(8).memory(1 << 20)).unwrap();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..cases(40) {
        let mut batch: Vec<Vpid> =
            (0..3).map(|_| worker_at_last(&mut farm, Role::Exit(0))).collect();
        assert!(batch.iter().all(|&vpid| seen.insert(vpid)), "a number was used twice");
        while !batch.is_empty() {
            let (from, seven) = farm.recv_any_deadline::<u64>(late()).unwrap();
            assert_eq!(seven, 7);
            assert!(batch.contains(&from), "from {from}, which has sent its message before");
            batch.retain(|&vpid| vpid != from);
        }
    }
}

/// A worker that exceeds its memory limit ends with an error.
#[test]
fn memory_of_workers_is_bounded() {
    let mut farm = Farm::with(Bounds::default().worker_memory(256 << 20)).unwrap();
    let (modest, greedy) =
        (worker(&mut farm, Role::Eat(16 << 20)), worker(&mut farm, Role::Eat(1 << 30)));
    assert_eq!(farm.recv_deadline::<u64>(modest, late()).unwrap(), 16 << 20);
    let error = farm.recv_deadline::<u64>(greedy, late()).unwrap_err().to_string();
    assert!(error.contains("was killed by signal 6") || error.contains("exited with"), "{error}");
}

/// Not a test: a manager that is killed.
#[test]
fn manager() {
    if std::env::var_os("SYNCLINE_FARM_TEST").is_none() {
        return;
    }
    let mut farm = Farm::new().unwrap();
    let workers = [worker(&mut farm, Role::Spin), worker(&mut farm, Role::Hang)];
    let tree = worker(&mut farm, Role::Echo);
    for vpid in workers {
        assert_eq!(farm.recv_deadline::<u64>(vpid, late()).unwrap(), 7);
    }
    let pids = workers.iter().chain([&tree]).map(|&vpid| farm.pid(vpid).unwrap().to_string());
    println!("\npids {}", pids.collect::<Vec<_>>().join(" "));
    std::thread::sleep(std::time::Duration::from_secs(300));
}

#[test]
fn a_manager_that_dies_takes_its_workers_along() {
    use std::io::BufRead;

    let mut manager = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::manager", "--nocapture", "--quiet"])
        .env("SYNCLINE_FARM_TEST", "manager")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(manager.stdout.take().unwrap()).lines();
    let pids =
        lines.find_map(|line| line.unwrap().strip_prefix("pids ").map(str::to_owned)).unwrap();
    let watches: Vec<_> = pids
        .split_whitespace()
        .map(|pid| syncline_process::watch::ProcessWatch::new(pid.parse().unwrap()).unwrap())
        .collect();
    assert!(watches.iter().all(|watch| !watch.has_exited().unwrap()));
    manager.kill().unwrap();
    manager.wait().unwrap();
    for watch in &watches {
        assert!(watch.wait_exit(late()).unwrap(), "process {} is left behind", watch.pid());
    }
}

/// A process that ignores SIGCHLD gets no exit causes.
#[test]
fn a_manager_that_could_not_know_how_workers_end_is_refused() {
    if std::env::var_os("SYNCLINE_FARM_TEST").is_some() {
        println!(
            "\nsays {}",
            Farm::new().map(|_| "nothing".to_owned()).unwrap_or_else(|error| error.to_string())
        );
        return;
    }
    if !Command::new("env")
        .args(["--ignore-signal=CHLD", "true"])
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return println!(
            "skipped: env has no --ignore-signal here, so no manager that ignores SIGCHLD was started"
        );
    }
    let name = "faults::a_manager_that_could_not_know_how_workers_end_is_refused";
    let said = Command::new("env")
        .arg("--ignore-signal=CHLD")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--quiet"])
        .env("SYNCLINE_FARM_TEST", "manager")
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix("says ")).unwrap();
    assert!(line.contains("this process ignores SIGCHLD"), "{line}");
}

/// A manager without free descriptors for another process returns an error, and its farm continues.
#[test]
fn descriptors_may_be_used_up() {
    if std::env::var_os("SYNCLINE_FARM_TEST").is_some() {
        let mut farm = Farm::new().unwrap();
        let mut workers = Vec::new();
        let why = loop {
            match farm.spawn(&Program::new("sleep").arg("300")) {
                Ok(vpid) => workers.push(vpid),
                Err(error) => break error,
            }
        };
        farm.kill(workers[0]).unwrap();
        farm.wait(workers[0], late()).unwrap();
        let again =
            farm.spawn(&Program::new("true")).and_then(|vpid| farm.wait(vpid, late())).unwrap();
        println!("\nsays {} started, {why}; then one {again}", workers.len());
        return;
    }
    let said = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 48; exec \"$0\" --exact faults::descriptors_may_be_used_up --nocapture --quiet",
        ])
        .arg(std::env::current_exe().unwrap())
        .env("SYNCLINE_FARM_TEST", "manager")
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix("says ")).unwrap();
    assert!(
        line.contains("Too many open files") && line.ends_with("then one exited with 0"),
        "{line}"
    );
}

#[test]
fn a_farm_that_is_dropped_leaves_nobody() {
    let mut farm = Farm::new().unwrap();
    let workers = [worker(&mut farm, Role::Spin), worker(&mut farm, Role::Hang)];
    let sleeper = farm.spawn(&Program::new("sleep").arg("300")).unwrap();
    let watch =
        |vpid: &Vpid| syncline_process::watch::ProcessWatch::new(farm.pid(*vpid).unwrap()).unwrap();
    let watches: Vec<_> = workers.iter().chain([&sleeper]).map(watch).collect();
    assert_eq!(farm.living(), 3);
    drop(farm);
    assert!(watches.iter().all(|watch| watch.has_exited().unwrap()));
}

#[test]
fn a_process_that_takes_no_part_is_told_of_as_well() {
    let mut farm = Farm::new().unwrap();
    let vpid = farm.spawn(&Program::new("sh").args(["-c", "exit 5"])).unwrap();
    assert_eq!(farm.wait(vpid, late()).unwrap().to_string(), "exited with 5");
    let vpid = farm.spawn(&program().variable("SYNCLINE_FARM", "nonsense")).unwrap();
    assert!(farm.pid(vpid).is_some());
}
