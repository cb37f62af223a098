//! Liveness in both directions, with real processes that are killed. Every wait ends by a deadline.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use syncline_process::{
    Error, Spawn,
    lifeline::{Lifeline, LifelineEnd},
    watch::ProcessWatch,
};
use syncline_testkit::again;

/// Far beyond what any wait takes. Helpers give up by themselves after this time.
const HANG: Duration = Duration::from_secs(300);
const ROLE: &str = "SYNCLINE_MEMORY_TEST_ROLE";

fn late() -> Option<Instant> {
    Some(Instant::now() + HANG)
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(20))
}

fn sleeper() -> Child {
    Command::new("sleep").arg("300").spawn().unwrap()
}

#[test]
fn a_killed_child_has_exited() {
    let mut child = sleeper();
    let watch = ProcessWatch::new(child.id()).unwrap();
    assert_eq!(watch.pid(), child.id());
    assert!(!watch.has_exited().unwrap());
    assert!(!watch.wait_exit(soon()).unwrap());
    child.kill().unwrap();
    assert!(watch.wait_exit(late()).unwrap());
    assert!(watch.has_exited().unwrap(), "not yet collected");
    child.wait().unwrap();
    assert!(watch.has_exited().unwrap(), "collected");
}

#[test]
fn a_child_that_ends_has_exited() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let watch = ProcessWatch::new(child.id()).unwrap();
    assert!(!watch.has_exited().unwrap());
    drop(child.stdin.take());
    assert!(watch.wait_exit(late()).unwrap());
    child.wait().unwrap();
}

#[test]
fn a_wait_wakes_when_the_child_dies_meanwhile() {
    let mut child = sleeper();
    let watch = ProcessWatch::new(child.id()).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| watch.wait_exit(late()).unwrap());
        child.kill().unwrap();
        assert!(waiter.join().unwrap());
    });
    child.wait().unwrap();
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    for pid in [0, 1 << 30, u32::MAX] {
        let error = ProcessWatch::new(pid).unwrap_err();
        let Error::Process { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::SRCH.raw_os_error()), "{error}");
        assert!(error.to_string().starts_with(&format!("cannot watch process {pid}: ")));
    }
}

#[test]
fn a_lifeline_is_cut_by_dropping_its_keeper() {
    let (keeper, end) = Lifeline::pair().unwrap();
    assert!(!end.is_cut().unwrap());
    assert!(!end.wait_cut(soon()).unwrap());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| end.wait_cut(late()).unwrap());
        drop(keeper);
        assert!(waiter.join().unwrap());
    });
    assert!(end.is_cut().unwrap());
    assert!(LifelineEnd::from_fd(end.into_fd()).unwrap().is_cut().unwrap());
}

/// A child that was not given the keeper explicitly does not keep the lifeline intact.
#[test]
fn a_living_child_does_not_hold_the_keeper() {
    let (keeper, end) = Lifeline::pair().unwrap();
    let mut child = sleeper();
    drop(keeper);
    assert!(end.wait_cut(late()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A helper: a parent that starts groups, holds their ends, and does not end by itself. Each group
/// closes all descriptors that it has but standard output, by which it is seen to live.
#[test]
fn helper_holder() {
    if !is_helper("holder") {
        return;
    }
    // Descriptors of other numbers lie between, below and above.
    let low = std::fs::File::open("/dev/null").unwrap();
    let mut keepers = Vec::new();
    for script in [
        "exec sleep 300",
        // A child whose parent has ended, so that the leader's is the only number that is known.
        "(sleep 300 & sleep 300) & sleep 300; exit",
        "exec env -i sleep 300",
    ] {
        let (keeper, end) = Lifeline::pair().unwrap();
        let closes = "for fd in /proc/self/fd/*; do fd=${fd##*/}; [ $fd -lt 3 ] || eval \"exec $fd>&-\"; done";
        let mut spawn = Spawn::new("bash");
        spawn.hand(end.as_fd()).unwrap();
        let script = format!("{closes}; echo born >&1; {script}");
        let leader = spawn.args(["-c", &script]).start_group().unwrap();
        end.kill_group_when_cut(leader.id()).unwrap();
        keepers.push((keeper.hold(end).unwrap(), leader));
    }
    drop(low);
    // An end with a higher number than its keeper's.
    let (keeper, end) = Lifeline::pair().unwrap();
    let high = rustix::io::fcntl_dupfd_cloexec(&end, 100).unwrap();
    drop(end);
    let leader = Spawn::new("sh").args(["-c", "echo born; exec sleep 300"]).start_group().unwrap();
    let end = LifelineEnd::from_fd(high).unwrap();
    end.kill_group_when_cut(leader.id()).unwrap();
    keepers.push((keeper.hold(end).unwrap(), leader));
    println!("\nheld");
    std::thread::sleep(HANG);
}

/// The kernel kills groups in which no process has the lifeline any more.
#[test]
fn groups_that_have_closed_their_lifeline_end_with_a_killed_keeper() {
    if syncline_testkit::Tool::find("bash").is_none() {
        return;
    }
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let mut holder = run_helper("holder").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        let (mut line, mut born, mut held) = (String::new(), 0, false);
        while born < 4 || !held {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the helper ended early");
            born += usize::from(line.trim_end().ends_with("born"));
            held |= line.trim_end() == "held";
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&holder), signal).unwrap();
        holder.wait().unwrap();
        // The pipe ends with the last process that has it.
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(output.read_to_string(&mut line).map(drop)));
        receiver.recv_timeout(HANG / 2).expect("a group outlives its keeper").unwrap();
    }
}

#[test]
fn only_a_read_end_of_a_pipe_is_a_lifeline() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    for fd in [OwnedFd::from(writer), OwnedFd::from(null)] {
        let error = LifelineEnd::from_fd(fd).unwrap_err();
        assert!(error.to_string().ends_with("is not the read end of a lifeline"), "{error}");
    }
}

/// A command that runs one of the helpers below in a process of its own.
fn run_helper(role: &str) -> Command {
    let mut command = again(&format!("helper_{role}"));
    command.env(ROLE, role);
    command
}

fn is_helper(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|mine| mine == role)
}

/// A helper: a parent that makes a lifeline and a child, and does not end by itself.
#[test]
fn helper_parent() {
    if is_helper("parent") {
        let (_keeper, end) = Lifeline::pair().unwrap();
        let mut child = run_helper("child").stdin(Stdio::from(end.into_fd())).spawn().unwrap();
        child.wait().unwrap();
    }
}

/// A helper: a child with its lifeline as standard input.
#[test]
fn helper_child() {
    if is_helper("child") {
        let fd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let end = LifelineEnd::from_fd(fd).unwrap();
        println!("\nborn {} {}", std::process::id(), end.is_cut().unwrap());
        std::io::stdout().flush().unwrap();
        println!("\ntold {}", end.wait_cut(late()).unwrap());
    }
}

/// When the parent is killed with SIGKILL, its orphan sees the lifeline cut and ends.
#[test]
fn an_orphan_hears_of_its_parents_death() {
    let mut parent = run_helper("parent").stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("born ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the helper ended early");
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[2], "false", "cut while the parent lived");
    let orphan = ProcessWatch::new(words[1].parse().unwrap()).unwrap();
    assert!(!orphan.wait_exit(soon()).unwrap());

    parent.kill().unwrap();
    parent.wait().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("told true"), "{rest}");
    assert!(orphan.wait_exit(late()).unwrap());
}

/// A helper: a child that computes without end, and has its lifeline as standard input.
#[test]
fn helper_busy() {
    if is_helper("busy") {
        let fd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        LifelineEnd::from_fd(fd).unwrap().kill_own_group_when_cut().unwrap();
        println!("\nbusy");
        let born = Instant::now();
        while born.elapsed() < HANG {
            std::hint::spin_loop();
        }
    }
}

/// The kernel kills two children with a lifeline each, though they never poll it.
#[test]
fn the_kernel_kills_children_whose_lifeline_is_cut() {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    let start = || {
        let (keeper, end) = Lifeline::pair().unwrap();
        let mut child = run_helper("busy")
            .process_group(0)
            .stdin(end.into_fd())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("busy") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the helper ended early");
        }
        (child, keeper)
    };
    let mut children = [start(), start()];
    assert!(children.iter_mut().all(|(child, _)| child.try_wait().unwrap().is_none()));
    for (mut child, keeper) in children {
        drop(keeper);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    // A child that arms its lifeline after the keeper is gone is killed at once.
    let (keeper, end) = Lifeline::pair().unwrap();
    drop(keeper);
    let mut late = run_helper("busy").stdin(end.into_fd()).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(late.wait().unwrap().signal(), Some(9));
}
