//! The steps of the members of a program: a legal program, generated from a seed, and the misuses
//! applied to it.

use std::fmt::Write as _;

use syncline_testkit::Random;

/// The placement of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Threads,
    Hosts,
    Launched,
    OpenMpi,
    Mpich,
}

/// A way to misuse the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ranks, places, lengths and objects that do not exist.
    Arguments,
    /// A wait for an operation that was not begun, or a release of a lock that is not held.
    OutOfTurn,
    /// An object is freed twice.
    FreedTwice,
    /// A member returns in the middle of the program with any number.
    Return,
    /// A member returns while it holds a lock or a mutex.
    ReturnHolding,
    /// A process exits in the middle of the program, or executes another program.
    Exit,
    /// A process is killed or aborts.
    Kill,
    /// Several threads use the objects of one member.
    Threads,
    /// A team inside a team.
    Nested,
    /// Calls after the team has ended.
    After,
    /// A child that makes no calls and ends before its parent or later.
    Fork,
    /// A child that makes calls as if it were the member.
    ForkCalls,
    /// Collective calls of one member have a deadline, which may be too early, and the member
    /// continues.
    Timed,
    /// One member omits a collective call, makes it twice, in another order, or makes a different
    /// call.
    Mismatch,
}

impl Kind {
    pub(crate) const ALL: [Kind; 14] = [
        Kind::Arguments,
        Kind::OutOfTurn,
        Kind::FreedTwice,
        Kind::Return,
        Kind::ReturnHolding,
        Kind::Exit,
        Kind::Kill,
        Kind::Threads,
        Kind::Nested,
        Kind::After,
        Kind::Fork,
        Kind::ForkCalls,
        Kind::Timed,
        Kind::Mismatch,
    ];
}

/// A program: the steps of each member, and the steps after the team.
pub(crate) struct Plan {
    pub(crate) members: usize,
    /// The number of MPI processes that count as one host.
    pub(crate) per_host: usize,
    pub(crate) misuses: Vec<Kind>,
    ranks: Vec<Vec<String>>,
    after: Vec<String>,
}

/// The objects that all members have created so far.
#[derive(Default)]
struct Made {
    /// The sizes in bytes of the present allocations.
    memory: [Option<usize>; 4],
    mutexes: [Option<usize>; 2],
    barrier: bool,
    lock: bool,
}

const COLLECTIVE: [&str; 14] = [
    "sync",
    "sync_start",
    "sync_wait",
    "wait",
    "allocate",
    "deallocate",
    "mutexes_new",
    "mutexes_free",
    "rma",
    "barrier",
    "barrier_wait",
    "barrier_wait_for",
    "lock_new",
    "memory",
];

fn is_collective(step: &str) -> bool {
    COLLECTIVE.contains(&step.split(' ').next().unwrap())
}

impl Plan {
    /// Generates the program of a seed, with some of these kinds of misuse; without any if `kinds`
    /// is empty.
    pub(crate) fn new(place: Place, seed: u64, kinds: &[Kind]) -> Self {
        let random = &mut Random::new(seed);
        let members = 2 + random.below(3);
        let mpi = matches!(place, Place::OpenMpi | Place::Mpich);
        let per_host = if mpi { [9, 1, 2][random.below(3)] } else { 9 };
        // Objects in shared memory cannot span hosts.
        let shares = place != Place::Hosts && per_host >= members;
        let mut plan = Plan {
            members,
            per_host,
            misuses: Vec::new(),
            ranks: vec![Vec::new(); members],
            after: Vec::new(),
        };
        plan.legal(random, shares);
        let misuses = if kinds.is_empty() { 0 } else { 1 + random.below(3) };
        for _ in 0..misuses {
            let kind = kinds[random.below(kinds.len())];
            plan.misuses.push(kind);
            plan.misuse(kind, random, shares);
        }
        plan
    }

    fn all(&mut self, step: &str) {
        self.ranks.iter_mut().for_each(|steps| steps.push(step.to_owned()));
    }

    fn legal(&mut self, random: &mut Random, shares: bool) {
        let mut made = Made { memory: [Some(256), None, None, None], ..Made::default() };
        made.mutexes[0] = Some(2);
        for step in ["rma", "allocate 0 256", "mutexes_new 0 2", "sync"] {
            self.all(step);
        }
        for _ in 0..3 + random.below(8) {
            for rank in 0..self.members {
                for _ in 0..random.below(4) {
                    let steps = self.one_sided(random, &made);
                    self.ranks[rank].extend(steps);
                }
            }
            self.collective(random, &mut made, shares);
        }
    }

    /// Appends a step that all members take.
    fn collective(&mut self, random: &mut Random, made: &mut Made, shares: bool) {
        let (slot, set) = (1 + random.below(3), random.below(2));
        match random.below(if shares { 11 } else { 7 }) {
            0 | 1 => self.all("sync"),
            2 => self.all("wait"),
            3 | 4 => match made.memory[slot].take() {
                Some(_) => self.all(&format!("deallocate {slot}")),
                None => {
                    let bytes = [8, 64, 1000, 4096][random.below(4)];
                    made.memory[slot] = Some(bytes);
                    self.all(&format!("allocate {slot} {bytes}"));
                }
            },
            5 => match made.mutexes[set].take() {
                Some(_) => self.all(&format!("mutexes_free {set}")),
                None => {
                    made.mutexes[set] = Some(1 + random.below(2));
                    self.all(&format!("mutexes_new {set} {}", made.mutexes[set].unwrap()));
                }
            },
            6 => {
                self.all("sync_start");
                for rank in 0..self.members {
                    let step = self.one_sided(random, made);
                    self.ranks[rank].extend(step);
                }
                self.all("sync_wait 0");
            }
            7 | 8 if made.barrier => self.all("barrier_wait"),
            7 | 8 => {
                made.barrier = true;
                self.all("barrier");
            }
            9 if !made.lock => {
                made.lock = true;
                self.all("lock_new");
            }
            _ => self.all(&format!("memory {}", 8 << random.below(8))),
        }
    }

    /// Returns correct steps that a member takes by itself.
    fn one_sided(&self, random: &mut Random, made: &Made) -> Vec<String> {
        let rank = random.below(self.members);
        let there: Vec<_> = (0..4).filter_map(|slot| Some((slot, made.memory[slot]?))).collect();
        let (slot, bytes) = there[random.below(there.len())];
        let at = 8 * random.below(bytes / 8);
        match random.below(10) {
            0 => vec![format!("put {slot} {rank} {at} 8")],
            1 => vec![format!("get {slot} {rank} {at} 8")],
            2 => vec![format!("accumulate {slot} {rank} {at} 8")],
            3 => vec![format!("add {slot} {rank} {at}")],
            4 => vec![format!("fence {rank}")],
            5 => vec!["fence_all".to_owned()],
            6 => vec![format!("start_put {slot} {rank} {at} 8"), "handle_wait".to_owned()],
            7 => vec!["allocate_local 100".to_owned(), "free_local".to_owned()],
            8 if made.lock => vec!["lock_acquire".to_owned(), "lock_release".to_owned()],
            _ => match made.mutexes.iter().position(Option::is_some) {
                Some(set) => {
                    let index = random.below(made.mutexes[set].unwrap());
                    let inside = format!("put {slot} {rank} {at} 8");
                    vec![
                        format!("lock {set} {rank} {index}"),
                        inside,
                        format!("unlock {set} {rank} {index}"),
                    ]
                }
                None => vec![format!("sleep {}", random.below(4))],
            },
        }
    }

    /// Returns a position among a member's steps at which a step may be inserted: after those that
    /// create the first objects.
    fn place(&self, rank: usize, random: &mut Random) -> usize {
        4.min(self.ranks[rank].len()) + random.below(self.ranks[rank].len().saturating_sub(4) + 1)
    }

    fn insert(&mut self, rank: usize, steps: &[String], random: &mut Random) {
        let at = self.place(rank, random).min(self.ranks[rank].len());
        self.ranks[rank].splice(at..at, steps.iter().cloned());
    }

    /// Ends a member's part at a position in the middle.
    fn end(&mut self, rank: usize, steps: &[String], random: &mut Random) {
        let at = self.place(rank, random).min(self.ranks[rank].len());
        self.ranks[rank].truncate(at);
        self.ranks[rank].extend_from_slice(steps);
    }

    fn misuse(&mut self, kind: Kind, random: &mut Random, shares: bool) {
        let rank = random.below(self.members);
        let (other, beyond) =
            (random.below(self.members), self.members + random.below(3) * 1_000_000);
        match kind {
            Kind::Arguments => {
                let wrong = [
                    format!("put 0 {beyond} 0 8"),
                    format!("get 0 {beyond} 0 8"),
                    format!("put 0 {other} 255 8"),
                    format!("get 0 {other} 18446744073709551608 16"),
                    format!("put 3 {other} 0 8"),
                    format!("put_null 0 {other} 0 8"),
                    format!("get_no_rma 0 {other} 0 8"),
                    format!("accumulate 0 {other} 4 8"),
                    format!("accumulate 0 {other} 0 12"),
                    format!("accumulate_kind 0 {other} 0 8"),
                    format!("add 0 {other} 4"),
                    format!("add 0 {other} 256"),
                    format!("fence {beyond}"),
                    format!("lock 0 {beyond} 0"),
                    format!("lock 0 {other} 99"),
                    format!("lock 1 {other} 0"),
                    "member_null".to_owned(),
                    format!("lock_as {beyond}"),
                    format!("barrier_as {beyond}"),
                ];
                let step = wrong[random.below(wrong.len())].clone();
                self.insert(rank, &[step], random);
            }
            Kind::OutOfTurn => {
                let wrong = [
                    format!("unlock 0 {other} 0"),
                    "sync_wait 1".to_owned(),
                    "sync_done".to_owned(),
                    "lock_release".to_owned(),
                    "handle_wait".to_owned(),
                    "free_local".to_owned(),
                ];
                let step = wrong[random.below(wrong.len())].clone();
                match random.below(4) {
                    0 => {
                        let step = ["handle_garbage", "handle_wait"].map(str::to_owned);
                        self.insert(rank, &step, random);
                    }
                    _ => self.insert(rank, &[step], random),
                }
            }
            Kind::FreedTwice => {
                // All members free an object, and one of them frees it twice.
                let frees = random.one_of(&["deallocate 0", "mutexes_free 0"]);
                self.all(frees);
                self.ranks[rank].push(frees.to_owned());
                self.ranks[rank].push(format!("put 0 {other} 0 8"));
                self.ranks[other].push(format!("lock 0 {rank} 0"));
            }
            Kind::Return => self.end(rank, &[format!("return {}", random.below(2) * 3)], random),
            Kind::ReturnHolding => {
                // The others release the lock at once if they acquire it first. A later misuse may
                // add a collective call; a member that holds a lock there while others wait for the
                // lock is a deadlock of the program, which only deadlines end.
                let others: Vec<_> = (0..self.members).filter(|&one| one != rank).collect();
                if shares && random.below(2) == 0 {
                    self.all("lock_new");
                    self.ranks[rank].extend(["lock_acquire", "return 0"].map(str::to_owned));
                    let wait = ["lock_acquire", "lock_release"].map(str::to_owned);
                    others.iter().for_each(|&one| self.ranks[one].extend_from_slice(&wait));
                } else {
                    // All members create mutexes, then one keeps a mutex for which the others wait.
                    self.all("mutexes_new 1 1");
                    self.ranks[rank].extend([format!("lock 1 {other} 0"), "return 0".to_owned()]);
                    let (sleep, lock) = (random.below(30), format!("1 {other} 0"));
                    let wait = [
                        format!("sleep {sleep}"),
                        format!("lock {lock}"),
                        format!("unlock {lock}"),
                    ];
                    others.iter().for_each(|&one| self.ranks[one].extend_from_slice(&wait));
                }
            }
            Kind::Exit => {
                let step =
                    random.one_of(&["exit 0", "exit 5", "_exit 0", "_exit 5", "exec"]).to_owned();
                self.end(rank, &[step], random);
            }
            Kind::Kill => {
                let step = random.one_of(&["kill 9", "kill 15", "kill 11", "abort"]).to_owned();
                self.end(rank, &[step], random);
            }
            Kind::Threads => {
                self.insert(rank, &[format!("threads {}", 1 + random.below(3))], random)
            }
            Kind::Nested => self.insert(rank, &[format!("nested {}", random.below(2))], random),
            Kind::After => {
                let steps = [
                    "put 0 0 0 8",
                    "get 0 0 0 8",
                    "sync",
                    "deallocate 0",
                    "lock 0 0 0",
                    "fence_all",
                    "allocate 1 8",
                ];
                let step = random.one_of(&steps).to_owned();
                self.after.push(step);
            }
            Kind::Fork => {
                self.insert(rank, &[random.one_of(&["fork 0", "fork 3"]).to_owned()], random)
            }
            Kind::ForkCalls => {
                self.insert(rank, &[random.one_of(&["fork 1", "fork 2"]).to_owned()], random)
            }
            Kind::Timed => {
                for step in self.ranks[rank].iter_mut().skip(4) {
                    let words: Vec<_> = step.split(' ').collect();
                    let time = [0, 1, 20, 500][random.below(4)];
                    let timed = match words[..] {
                        ["sync"] => format!("sync_for {time}"),
                        ["wait"] => format!("wait_for {time}"),
                        ["allocate", slot, bytes] => format!("allocate_for {slot} {bytes} {time}"),
                        ["lock", set, of, index] => format!("lock_for {set} {of} {index} {time}"),
                        _ => continue,
                    };
                    if random.below(2) == 0 {
                        *step = timed;
                    }
                }
            }
            Kind::Mismatch => self.mismatch(rank, random),
        }
    }

    fn mismatch(&mut self, rank: usize, random: &mut Random) {
        let steps = &mut self.ranks[rank];
        let places: Vec<_> = (4..steps.len()).filter(|&at| is_collective(&steps[at])).collect();
        let Some(&at) = places.get(random.below(places.len().max(1))) else { return };
        match random.below(4) {
            0 => drop(steps.remove(at)),
            1 => steps.insert(at, steps[at].clone()),
            2 => {
                let other = places[random.below(places.len())];
                steps.swap(at, other);
            }
            _ => {
                steps[at] = random
                    .one_of(&["sync", "wait", "allocate 1 64", "sync_start", "mutexes_new 1 1"])
                    .to_owned()
            }
        }
    }

    /// Whether a process may end in the middle of the team.
    pub(crate) fn kills(&self) -> bool {
        self.misuses.iter().any(|kind| matches!(kind, Kind::Kill | Kind::Exit))
    }

    /// Returns the text that the program interprets.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (rank, steps) in self.ranks.iter().enumerate() {
            steps.iter().for_each(|step| writeln!(text, "{rank} {step}").unwrap());
        }
        self.after.iter().for_each(|step| writeln!(text, "after {step}").unwrap());
        text
    }
}
