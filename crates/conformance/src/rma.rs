//! A session of one-sided memory.
//!
//! | part       | contract                                                                        |
//! |------------|---------------------------------------------------------------------------------|
//! | `memory`   | every operation, in every shape and on every type, agrees with a simulation     |
//! | `syncs`    | a member that leaves a sync sees all earlier puts of any member, anywhere       |
//! | `fences`   | put, fence, flag: a member that sees the flag sees the put, anywhere            |
//! | `words`    | tickets are unique; a lock made of swaps has one holder; pairs are not torn     |
//! | `locks`    | a mutex has one holder, which sees its predecessor's writes at a third member   |
//! | `flood`    | under MPI: many puts to a stopped process take bounded memory, and none is lost |
//! | `barriers` | no member leaves a barrier over messages before all have arrived                |
//! | `poison`   | a mutex abandoned by its holder is poisoned; the error names that member        |
//! | `mismatch` | every member gets an error that names both calls; the team is then unusable     |

mod faults;
mod memory;

use std::time::{Duration, Instant};

use syncline_fabric::{Advised, Member};
use syncline_rma::unstable::{LockKind, Window, fence_all_asking, mutexes, with_radix};
use syncline_rma::{Rma, RmaError};
use syncline_signal::poll_schedule::PollSchedule;
use syncline_sync::BarrierMember;

use super::scene::{give_way, hash};
use super::{PATIENCE, Suite, deadline, finding};

/// Verifies one part.
pub(super) type Part = fn(&mut Member, &mut Rma, u64) -> Result<(), Wrong>;

/// All parts.
pub(super) const PARTS: [(&str, Part); 9] = [
    ("memory", memory::all),
    ("syncs", syncs),
    ("fences", fences),
    ("words", words),
    ("locks", locks),
    ("flood", flood),
    ("barriers", barriers),
    ("poison", faults::poison),
    (LAST, faults::mismatch),
];

/// The part after which its team is unusable.
const LAST: &str = "mismatch";

/// A finding: the round, and the fault.
pub(super) struct Wrong(u64, String);

impl From<RmaError> for Wrong {
    fn from(error: RmaError) -> Self {
        Wrong(0, error.to_string())
    }
}

impl From<syncline_sync::Fault> for Wrong {
    fn from(fault: syncline_sync::Fault) -> Self {
        Wrong(0, fault.to_string())
    }
}

impl From<syncline_sync::SpaceError> for Wrong {
    fn from(error: syncline_sync::SpaceError) -> Self {
        Wrong(0, Advised(&error).to_string())
    }
}

pub(super) fn session(me: &mut Member, suite: &Suite) -> Result<(), String> {
    // A radix of 2 gives the maximum number of message rounds; `None` is the default radix.
    for radix in [None, Some(2)] {
        let rma = match radix {
            None => Rma::new(me),
            Some(radix) => with_radix(me, radix),
        };
        let mut rma = rma.map_err(|error| finding(me, "rma", 0, format_args!("{error}")))?;
        let goes_on = |name: &str| name != LAST || radix.is_some();
        for (name, part) in PARTS.iter().filter(|(name, _)| suite.includes(name) && goes_on(name)) {
            let hosts = me.hosts().count();
            part(me, &mut rma, suite.rounds).map_err(|Wrong(round, what)| {
                finding(me, name, round, format_args!("hosts: {hosts}: {what}"))
            })?;
        }
    }
    Ok(())
}

/// A pseudorandom sequence that depends only on its seed.
struct Random(u64, u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        (hash(self.0, self.1) % n.max(1) as u64) as usize
    }
}

/// Completes all operations and synchronises, in one of several ways. All members choose the same.
fn sync(rma: &mut Rma, choice: u64) -> Result<(), RmaError> {
    match choice % 6 {
        0 => rma.sync_global(),
        1 => {
            rma.sync_start()?;
            let (late, mut poll) = (Instant::now() + PATIENCE, PollSchedule::new());
            while !rma.sync_done()? {
                if Instant::now() > late {
                    return Err(syncline_sync::Fault::TimedOut.into());
                }
                poll.pause();
            }
            Ok(())
        }
        2 => {
            rma.fence_all()?;
            rma.sync()
        }
        3 => {
            let random = choice.is_multiple_of(2);
            fence_all_asking(rma, Window { k: 1 + (choice >> 8) as usize % 3, random })?;
            rma.sync_start()?;
            rma.sync_wait(deadline())
        }
        _ => rma.sync(),
    }
}

/// In each round every member puts the number of the round to others, and reads at a third member
/// the value put by a fourth.
fn syncs(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    // Early: put before the sync begins. Late: put while the sync is in progress, so part of the
    // next one.
    let early = rma.allocate::<u64>(me, size)?;
    let late = rma.allocate::<u64>(me, size)?;
    for round in 1..=rounds {
        let mut random = Random(hash(round, rank as u64), 0);
        let wrong = |error: RmaError| Wrong(round, error.to_string());
        let all = (1..size).map(|n| (rank + n) % size).chain([rank]);
        for target in all.filter(|_| random.below(4) > 0) {
            rma.put(&early, target, rank, &[round]).map_err(wrong)?;
        }
        // A draw that all members repeat identically tells which of these were put.
        let drawn = |from: usize, target: usize| {
            let mut random = Random(hash(round, from as u64), 0);
            let position = (target + size - from - 1) % size;
            (0..position).for_each(|_| _ = random.below(4));
            random.below(4) > 0
        };
        let split = hash(round, 1).is_multiple_of(2);
        if split {
            rma.sync_start().map_err(wrong)?;
            rma.put(&late, (rank + round as usize) % size, rank, &[round]).map_err(wrong)?;
            rma.sync_wait(deadline()).map_err(wrong)?;
        } else {
            rma.sync().map_err(wrong)?;
        }
        for _ in 0..3 {
            let (target, from) = (random.below(size), random.below(size));
            let mut found = [0];
            rma.get(&early, target, from, &mut found).map_err(wrong)?;
            let next = if drawn(from, target) { round } else { 0 };
            if found[0] < next {
                let what = format!(
                    "member {target} has {} from member {from}, not {next}: it is stale",
                    found[0]
                );
                return Err(Wrong(round, what));
            }
            if found[0] > round + 1 {
                return Err(Wrong(
                    round,
                    format!("member {target} has {} from the future", found[0]),
                ));
            }
        }
        if split {
            rma.sync().map_err(wrong)?;
            let (target, mut found) = (random.below(size), [0]);
            let from = (target + size * round as usize - round as usize) % size;
            rma.get(&late, target, from, &mut found).map_err(wrong)?;
            if found[0] < round {
                return Err(Wrong(
                    round,
                    format!("a put during a sync is not there after the next: {}", found[0]),
                ));
            }
            rma.sync().map_err(wrong)?;
        }
    }
    rma.free(me, early)?;
    Ok(rma.free(me, late)?)
}

/// Put, fence, flag: a member that waits for the flag reads the values put, possibly at a third
/// member.
fn fences(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    let data = rma.allocate::<u64>(me, 64 * size)?;
    let flags = rma.allocate::<u64>(me, 8 * size)?;
    for round in 1..=rounds {
        let wrong = |error: RmaError| Wrong(round, error.to_string());
        // This member puts at `holder` and sets the flag at `right`; its own flag is set by `left`.
        let right = (rank + 1) % size;
        let holder = |from: usize| (from + round as usize) % size;
        rma.put(&data, holder(rank), 64 * rank, &[round; 64]).map_err(wrong)?;
        match round % 3 {
            0 => rma.fence(holder(rank)).map_err(wrong)?,
            1 => rma.fence_all().map_err(wrong)?,
            _ => fence_all_asking(rma, Window { k: 2, random: true }).map_err(wrong)?,
        }
        rma.put(&flags, right, 8 * rank, &[round]).map_err(wrong)?;
        let left = (rank + size - 1) % size;
        let (late, mut poll) = (Instant::now() + PATIENCE, PollSchedule::new());
        let mut flag = [0];
        loop {
            rma.get(&flags, rank, 8 * left, &mut flag).map_err(wrong)?;
            if flag[0] >= round {
                break;
            }
            if Instant::now() > late {
                return Err(Wrong(round, "no member makes progress any more".to_owned()));
            }
            poll.pause();
            if let Some(dead) = me.fault_list().after(0) {
                return Err(Wrong(round, format!("member {dead} is dead")));
            }
        }
        let mut found = [0; 64];
        rma.get(&data, holder(left), 64 * left, &mut found).map_err(wrong)?;
        if found.iter().any(|&word| word < round) {
            return Err(Wrong(
                round,
                format!("after the flag of member {left}, {found:?} is not all there"),
            ));
        }
    }
    rma.sync()?;
    rma.free(me, data)?;
    Ok(rma.free(me, flags)?)
}

/// Verifies tickets, a lock made of swaps, and pairs.
fn words(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    use syncline_rma::Pair;

    let (rank, size) = (me.rank(), me.size());
    let rounds = rounds.min(2000);
    let tickets = rma.allocate::<i64>(me, 2)?;
    let pairs = rma.allocate::<Pair>(me, 1)?;
    let small = rma.allocate::<i32>(me, 2)?;
    let mine = rma.allocate::<u64>(me, rounds as usize)?;
    let home = size - 1;
    let mut last = -1;
    for round in 0..rounds {
        let wrong = |error: RmaError| Wrong(round, error.to_string());
        let ticket = rma.fetch_add(&tickets, home, 0, 1).map_err(wrong)?;
        if ticket <= last {
            return Err(Wrong(round, format!("ticket {ticket} after {last}")));
        }
        last = ticket;
        rma.put(&mine, rank, round as usize, &[ticket as u64]).map_err(wrong)?;
        let handle = rma.start_fetch_add(&small, home, 1, -2).map_err(wrong)?;
        // A lock: 0 means free.
        let (late, mut poll) = (Instant::now() + PATIENCE, PollSchedule::new());
        while rma.compare_swap(&tickets, home, 1, 0, 1 + rank as i64).map_err(wrong)? != 0 {
            if Instant::now() > late {
                return Err(Wrong(round, "no member releases the lock word any more".to_owned()));
            }
            poll.pause();
        }
        let mut sum = [0];
        rma.get(&small, home, 0, &mut sum).map_err(wrong)?;
        rma.put(&small, home, 0, &[sum[0] + 1]).map_err(wrong)?;
        rma.fence(home).map_err(wrong)?;
        let holder = rma.swap(&tickets, home, 1, 0).map_err(wrong)?;
        if holder != 1 + rank as i64 {
            return Err(Wrong(round, format!("the lock word held {holder}, not {}", 1 + rank)));
        }
        rma.wait(handle).map_err(wrong)?;
        // Both halves of a pair always come from the same member and round.
        let pair = Pair(rank as u64, hash(rank as u64, 5));
        let before = if round % 2 == 0 {
            rma.swap(&pairs, home, 0, pair).map_err(wrong)?
        } else {
            let seen = rma.compare_swap(&pairs, home, 0, Pair(0, 0), Pair(0, 0)).map_err(wrong)?;
            rma.compare_swap(&pairs, home, 0, seen, pair).map_err(wrong)?
        };
        if before != Pair(0, 0) && before.1 != hash(before.0, 5) {
            return Err(Wrong(round, format!("a pair is torn: {before:?}")));
        }
    }
    rma.sync()?;
    let all = size as u64 * rounds;
    let mut taken = Vec::new();
    for member in 0..size {
        let mut of = vec![0; rounds as usize];
        rma.get(&mine, member, 0, &mut of)?;
        taken.extend(of);
    }
    taken.sort_unstable();
    if taken != (0..all).collect::<Vec<_>>() {
        return Err(Wrong(rounds, "tickets were given twice, or not at all".to_owned()));
    }
    let mut sums = [0; 2];
    rma.get(&small, home, 0, &mut sums)?;
    if sums != [all as i32, -2 * all as i32] {
        return Err(Wrong(rounds, format!("{all} additions to the words made {sums:?}")));
    }
    rma.sync()?;
    rma.free(me, tickets)?;
    rma.free(me, pairs)?;
    rma.free(me, small)?;
    Ok(rma.free(me, mine)?)
}

/// Verifies every kind of mutex: two of them, sometimes held one inside the other.
fn locks(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    let rounds = rounds.min(200);
    for kind in [LockKind::Mcs, LockKind::Server, LockKind::Ticket, LockKind::Hybrid] {
        // The mutexes are on the last member and their data on the first, so that they are usually
        // on different members.
        let mut set = mutexes(rma, me, kind, 2 * usize::from(rank == size - 1))?;
        let numbers = rma.allocate::<u64>(me, 4)?;
        for round in 1..=rounds {
            let wrong = |error: RmaError| Wrong(round, format!("{kind:?}: {error}"));
            let which = hash(round, rank as u64) as usize % 3;
            let inside = if which == 2 { vec![0, 1] } else { vec![which] };
            for &index in &inside {
                set.lock(rma, size - 1, index).map_err(wrong)?;
            }
            for &index in &inside {
                let mut pair = [0; 2];
                rma.get(&numbers, 0, 2 * index, &mut pair).map_err(wrong)?;
                if pair[1] != pair[0] * 3 {
                    return Err(Wrong(round, format!("{kind:?}: {pair:?} is half changed")));
                }
                rma.put(&numbers, 0, 2 * index, &[pair[0] + 1]).map_err(wrong)?;
                if hash(round, 9).is_multiple_of(4) {
                    give_way();
                }
                rma.put(&numbers, 0, 2 * index + 1, &[3 * (pair[0] + 1)]).map_err(wrong)?;
            }
            for &index in inside.iter().rev() {
                set.unlock(rma, size - 1, index).map_err(wrong)?;
            }
        }
        rma.sync()?;
        let mut found = [0; 4];
        rma.get(&numbers, 0, 0, &mut found)?;
        let times = |index: usize| {
            let all = (0..size as u64)
                .flat_map(|rank| (1..=rounds).map(move |round| hash(round, rank) as usize % 3));
            all.filter(|&which| which == 2 || which == index).count() as u64
        };
        if [found[0], found[2]] != [times(0), times(1)] {
            return Err(Wrong(rounds, format!("{kind:?}: changes were lost: {found:?}")));
        }
        rma.sync()?;
        rma.free(me, numbers)?;
        set.free(rma, me)?;
    }
    Ok(())
}

/// The maximum growth of memory by a flood, in bytes.
const FLOODED: usize = 64 << 20;

/// Puts to the last member, whose process is stopped for half of the time after which it would
/// count as dead (at most a second).
fn flood(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    const WORDS: usize = 1000;
    let by_mpi = me.endpoint().is_some_and(|endpoint| endpoint.transport().starts_with("MPI"));
    let (rank, last) = (me.rank(), me.size() - 1);
    if !by_mpi || me.ranks_on(me.hosts().count() - 1).contains(&0) {
        return Ok(());
    }
    let puts = (500 * rounds).min(1_000_000);
    let memory = rma.allocate::<u64>(me, WORDS)?;
    let before = most_memory();
    if rank == last {
        let timeout = std::env::var("SYNCLINE_TIMEOUT")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(10_000_u64);
        let pause = (timeout / 2).min(1000);
        let stop = format!(
            "sleep 0.05; kill -STOP $1; sleep {}.{:03}; kill -CONT $1",
            pause / 1000,
            pause % 1000
        );
        let pid = std::process::id().to_string();
        let stopping = std::process::Command::new("sh").args(["-c", &stop, "sh", &pid]).spawn();
        let stopped = stopping.and_then(|mut stopping| stopping.wait());
        stopped.map_err(|error| Wrong(0, format!("cannot stop this process: {error}")))?;
    }
    if rank == 0 {
        for number in 0..puts {
            rma.put(&memory, last, number as usize % WORDS, &[number])?;
        }
    }
    rma.sync()?;
    let more = most_memory().saturating_sub(before);
    if more > FLOODED {
        return Err(Wrong(
            puts,
            format!("{puts} puts to a process that was stopped took {more} bytes"),
        ));
    }
    let mut found = [0; WORDS];
    rma.get(&memory, last, 0, &mut found)?;
    for (index, &word) in found.iter().enumerate() {
        // The last number below `puts` that is put there, if any is.
        let rest = (puts - 1).checked_sub(index as u64);
        let expected = rest.map_or(0, |rest| puts - 1 - rest % WORDS as u64);
        if word != expected {
            return Err(Wrong(puts, format!("word {index} is {word}, not {expected}")));
        }
    }
    rma.sync()?;
    Ok(rma.free(me, memory)?)
}

/// Returns the peak memory of this process, in bytes.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().split(' ').next()).and_then(|number| number.parse().ok());
    kilobytes.unwrap_or(0_usize) << 10
}

/// Verifies every barrier of the team: each member writes its round before it, and reads the rounds
/// of others after it.
fn barriers(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let rounds = rounds.min(200);
    barrier(me, rma, rounds, |me| Ok(me.tournament()?))?;
    for radix in [2, 3, 64] {
        barrier(me, rma, rounds, |me| Ok(me.dissemination(radix)?))?;
    }
    barrier(me, rma, rounds, |me| Ok(me.combined(0)?))
}

fn barrier<B: BarrierMember>(
    me: &mut Member,
    rma: &mut Rma,
    rounds: u64,
    make: impl FnOnce(&mut Member) -> Result<B, Wrong>,
) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    let mut barrier = make(me)?;
    let rows = rma.allocate::<u64>(me, 8 * size)?;
    for round in 1..=rounds {
        let wrong = |error: RmaError| Wrong(round, error.to_string());
        let to = (rank + 1) % size;
        rma.put(&rows, to, 8 * rank, &[round]).map_err(wrong)?;
        rma.fence_all().map_err(wrong)?;
        if round % 3 == 0 {
            barrier.arrive().map_err(|fault| Wrong(round, fault.to_string()))?;
            std::thread::sleep(Duration::from_micros(hash(round, rank as u64) % 50));
        }
        barrier.wait_deadline(deadline()).map_err(|fault| Wrong(round, fault.to_string()))?;
        let (from, mut found) = ((rank + hash(round, 3) as usize) % size, [0]);
        rma.get(&rows, (from + 1) % size, 8 * from, &mut found).map_err(wrong)?;
        if found[0] < round || found[0] > round + 1 {
            return Err(Wrong(round, format!("member {from} had come to round {} only", found[0])));
        }
    }
    rma.sync()?;
    Ok(rma.free(me, rows)?)
}
