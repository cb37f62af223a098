//! The plan of a team, which all its processes derive from the seed; and their reports.

use std::io::Write as _;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use syncline_fabric::{Member, Team, TeamError};
use syncline_sync::space::Array;
use syncline_testkit::Random;

/// Far beyond the time that any step here takes.
pub(crate) const HANG: Duration = Duration::from_secs(200);

/// The thread that kills a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killer {
    /// This member of the victim, when it comes to a certain place for the n-th time.
    Itself { rank: usize, place: u64, visits: u64 },
    /// Another thread of the victim, after some time.
    Beside { after: Duration },
    /// This member of another process, after some time.
    Other { rank: usize, after: Duration },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub(crate) process: usize,
    pub(crate) killer: Killer,
}

/// The number of places at which members of locks kill themselves; in barriers there is one.
pub(crate) const PLACES: u64 = 5;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    /// The second victim dies after the first, at a time of its own.
    pub(crate) victims: Vec<Victim>,
    /// The kind of barrier or lock.
    pub(crate) kind: u64,
}

impl Plan {
    pub(crate) fn new(role: &str, seed: u64) -> Plan {
        let mut random = Random::stream(seed, 999);
        let processes = 3 + random.below(4) as usize;
        let threads = if processes < 5 && random.one_in(2) { 2 } else { 1 };
        let locks = role == "locks";
        let process = random.below(processes as u64) as usize;
        let after = random.microseconds(20_000);
        let killer = match random.below(3) {
            0 => {
                let rank = process * threads + random.below(threads as u64) as usize;
                let place = if locks { random.below(PLACES) } else { 0 };
                Killer::Itself { rank, place, visits: 1 + random.below(300) }
            }
            1 => Killer::Beside { after },
            _ => {
                let other = (process + 1 + random.below(processes as u64 - 1) as usize) % processes;
                Killer::Other { rank: other * threads, after }
            }
        };
        let mut victims = vec![Victim { process, killer }];
        // Two processes must survive: a single one would not wait, and would get no error.
        if locks && processes > 3 && random.one_in(3) {
            let process = (process + 1 + random.below(processes as u64 - 1) as usize) % processes;
            // Counted from the first death.
            let range = [500, 5_000, 150_000][random.below(3) as usize];
            let after = random.microseconds(range);
            victims.push(Victim { process, killer: Killer::Beside { after } });
        }
        Plan { seed, processes, threads, victims, kind: random.below(1 << 20) }
    }

    fn dies(&self, process: usize) -> bool {
        self.victims.iter().any(|victim| victim.process == process)
    }

    /// Returns the members of the processes that are not killed.
    pub(crate) fn survivors(&self) -> impl Iterator<Item = usize> {
        (0..self.processes * self.threads).filter(|rank| !self.dies(rank / self.threads))
    }

    /// Runs the team, in its launcher and in its processes.
    pub(crate) fn run(&self, f: impl Fn(&mut Member, &Stage) + Sync) {
        let run = Team::processes(self.processes).threads(self.threads).run(|me| {
            let stage = Stage::new(self, me);
            f(me, &stage);
            stage.end();
        });
        let launched = !matches!(run, Ok(ref results) if !results.is_empty());
        let code = run.as_ref().err().map_or(0, TeamError::exit_code);
        if launched {
            say(format_args!("launcher: {code}"));
        }
        exit(code.into());
    }
}

/// Writes a line to standard error in one piece.
pub(crate) fn say(what: std::fmt::Arguments<'_>) {
    std::io::stderr().write_all(format!("{what}\n").as_bytes()).unwrap();
}

pub(crate) fn late() -> Option<Instant> {
    Some(Instant::now() + HANG)
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A member of the team, and the words that all members share.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) rank: usize,
    begun: Instant,
    pids: Array<AtomicU64>,
    /// The time at which each victim was killed, or 0.
    killed: Array<AtomicU64>,
    /// The step that each member has reached.
    steps: Array<AtomicU64>,
    /// For each victim, whether this member got an error for it.
    told: Vec<std::cell::Cell<bool>>,
    visits: std::cell::Cell<u64>,
}

impl<'a> Stage<'a> {
    fn new(plan: &'a Plan, me: &mut Member) -> Self {
        let members = me.size();
        let pids: Array<AtomicU64> = me.space().array(plan.processes).unwrap();
        let killed = me.space().array(2).unwrap();
        let steps = me.space().array(members).unwrap();
        let told = plan.victims.iter().map(|_| false.into()).collect();
        if me.thread() == 0 {
            pids[me.process()].store(std::process::id().into(), Ordering::Relaxed);
            say(format_args!("pid: {}", std::process::id()));
        }
        me.wait().unwrap();
        let begun = Instant::now();
        let stage =
            Stage { plan, rank: me.rank(), begun, pids, killed, steps, told, visits: 0.into() };
        for (number, victim) in plan.victims.iter().enumerate() {
            let Killer::Beside { after } = victim.killer else { continue };
            if victim.process == me.process() && me.thread() == 0 {
                let (killed, fault_list) = (stage.killed.clone(), me.fault_list().clone());
                std::thread::spawn(move || {
                    while number > 0 && fault_list.count() == 0 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    // A sleep ends late; a spinning loop ends at any moment.
                    let until = Instant::now() + after;
                    std::thread::sleep(after.saturating_sub(Duration::from_micros(300)));
                    while Instant::now() < until {
                        std::thread::yield_now();
                    }
                    kill(&killed[number], std::process::id());
                });
            }
        }
        stage
    }

    /// Marks a place at which a kill may be due. All members call it, each time they reach the
    /// place.
    pub(crate) fn at(&self, here: u64) {
        match self.plan.victims[0].killer {
            Killer::Itself { rank, place, visits } if rank == self.rank && place == here => {
                self.visits.set(self.visits.get() + 1);
                if self.visits.get() == visits {
                    kill(&self.killed[0], std::process::id());
                }
            }
            // Relaxed, here and below: the lock, or time, orders these words.
            Killer::Other { rank, after }
                if rank == self.rank
                    && self.begun.elapsed() >= after
                    && self.killed[0].load(Ordering::Relaxed) == 0 =>
            {
                let victim = self.plan.victims[0].process;
                kill(&self.killed[0], self.pids[victim].load(Ordering::Relaxed) as u32);
            }
            _ => (),
        }
    }

    /// Returns the victim to which a rank belongs, and the time at which it was killed.
    pub(crate) fn victim(&self, dead: usize) -> (usize, u64) {
        let of = |victim: &Victim| victim.process == dead / self.plan.threads;
        let number = self.plan.victims.iter().position(of);
        let number =
            number.unwrap_or_else(|| panic!("{dead} is named, and is not killed by the plan"));
        let killed = self.killed[number].load(Ordering::Relaxed);
        assert_ne!(killed, 0, "{dead} is named before it was killed");
        (number, killed)
    }

    /// Checks that the rank that an error has named belongs to a killed process. Reports it the
    /// first time.
    pub(crate) fn told(&self, dead: usize) {
        let (number, killed) = self.victim(dead);
        if !self.told[number].replace(true) {
            let process = self.plan.victims[number].process;
            say(format_args!("told: {} {process} {}", self.rank, now() - killed));
        }
    }

    /// Marks the victims for which `dead` holds as noticed, with or without an error.
    pub(crate) fn knows(&self, dead: impl Fn(usize) -> bool) {
        for (victim, told) in self.plan.victims.iter().zip(&self.told) {
            told.set(told.get() || dead(victim.process * self.plan.threads));
        }
    }

    /// Whether this member has noticed all deaths of the plan.
    pub(crate) fn knows_all(&self) -> bool {
        self.told.iter().all(std::cell::Cell::get)
    }

    pub(crate) fn step(&self, step: u64) {
        self.steps[self.rank].store(step, Ordering::Relaxed);
    }

    /// Whether all survivors have reached this step.
    pub(crate) fn all_at(&self, step: u64) -> bool {
        self.plan.survivors().all(|rank| self.steps[rank].load(Ordering::Relaxed) >= step)
    }

    /// Reports the end of this member; a victim never gets here.
    fn end(&self) {
        assert!(self.plan.survivors().any(|rank| rank == self.rank), "a victim has ended");
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for line in maps.lines().filter(|line| line.contains("/dev/shm/")) {
            say(format_args!("named: {line}"));
        }
        for fd in std::fs::read_dir("/proc/self/fd").unwrap() {
            let file = std::fs::read_link(fd.unwrap().path()).unwrap_or_default();
            if file.starts_with("/dev/shm") {
                say(format_args!("named: {}", file.display()));
            }
        }
        say(format_args!("ended: {}", self.rank));
    }
}

/// Stores the time and kills the process.
fn kill(when: &AtomicU64, pid: u32) {
    let pid = Pid::from_raw(pid as i32).unwrap();
    when.store(now(), Ordering::Relaxed);
    kill_process(pid, Signal::KILL).unwrap();
    if pid == rustix::process::getpid() {
        loop {
            std::thread::park(); // the signal arrives at any moment
        }
    }
}
