//! Simulated teams: legal programs are never reported, and every cycle of blocked members is found.
//!
//! One thread drives the members in any order: they arrive, poll, wait, and stop waiting after some
//! time to wait elsewhere. The barriers are the real ones, over a board that blocks no thread, and
//! a second time [`Plain`]. Both have to agree at every step, and the notes have to agree with the
//! true state.

mod plain;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

use syncline_testkit::{Random, cases, seed};

use super::*;
use crate::agreement::Thing;
use crate::barrier::{
    Barrier, BarrierMember, Combined, Counter, DisseminationMember, TournamentMember,
};
use crate::barrier::{CombinedMember, CounterMember};
use crate::board::{Awaited, SignalBoard};
use crate::membership::FaultList;
use plain::{Kind, Plain};
use syncline_signal::Policy;

/// An action of a member at an object.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    /// A short wait, which may end before the episode is complete.
    Look(usize),
    Wait(usize),
}

/// A board whose calls never block: a call that would wait notes that, and times out.
#[derive(Debug)]
struct Board {
    flags: Arc<Mutex<Vec<u64>>>,
    seat: usize,
    members: usize,
    episodes: u64,
    caller: Caller,
}

impl Board {
    fn flag(&self, of: usize, slot: usize) -> u64 {
        self.flags.lock().unwrap()[slot * self.members + of]
    }
}

impl SignalBoard for Board {
    fn rank(&self) -> usize {
        self.seat
    }

    fn members(&self) -> usize {
        self.members
    }

    fn raise(&mut self, to: usize, slot: usize, epoch: u64) -> Result<(), Fault> {
        self.flags.lock().unwrap()[slot * self.members + to] = epoch;
        Ok(())
    }

    fn poll(&mut self, slot: usize, epoch: u64) -> Result<bool, Fault> {
        Ok(self.flag(self.seat, slot) >= epoch)
    }

    fn wait(
        &mut self,
        slot: usize,
        epoch: u64,
        awaited: Awaited,
        _: Option<Instant>,
    ) -> Result<(), Fault> {
        if self.flag(self.seat, slot) >= epoch {
            return Ok(());
        }
        self.caller.block(self.episodes + 1, awaited.into());
        Err(Fault::TimedOut)
    }

    fn reached(&mut self, step: u32) {
        self.caller.reached(self.episodes + 1, step);
    }

    fn complete(&mut self) {
        self.episodes += 1;
    }

    fn episodes(&self) -> u64 {
        self.episodes
    }

    fn set_policy(&mut self, _: &Policy<'_>) {}
}

/// A member's seat at an object.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are a few of them at a time")]
enum Seat {
    Counter(CounterMember),
    Dissemination(DisseminationMember<Board>),
    Tournament(TournamentMember<Board>),
    Levels(Box<CombinedMember<CounterMember, DisseminationMember<Board>>>),
}

/// Creates the seats of all members.
fn seats(kind: Kind, callers: &[Caller]) -> Vec<Seat> {
    let members = callers.len();
    let flags = Arc::new(Mutex::new(vec![0; 16 * members]));
    let board = |seat: usize, ranks: &[usize]| {
        let caller = callers[ranks[seat]].clone().among(ranks);
        Board { flags: Arc::clone(&flags), seat, members: ranks.len(), episodes: 0, caller }
    };
    let all = (0..members).collect::<Vec<_>>();
    let ranks = 0..members;
    let watching = |counter: &Counter, caller: Caller| {
        let fault_list = FaultList::within(&mut Space::heap(), members).unwrap();
        counter.clone().watching(&fault_list.called(Some(caller)))
    };
    match kind {
        Kind::Counter => {
            let counter = Counter::new(members).unwrap();
            let member =
                |rank: usize| watching(&counter, callers[rank].clone()).member(rank).unwrap();
            ranks.map(member).map(Seat::Counter).collect()
        }
        Kind::Dissemination(radix) => ranks
            .map(|rank| Seat::Dissemination(DisseminationMember::new(board(rank, &all), radix)))
            .collect(),
        Kind::Tournament => {
            ranks.map(|rank| Seat::Tournament(TournamentMember::new(board(rank, &all)))).collect()
        }
        Kind::Levels(size) => {
            let leaders = (0..members).step_by(size).collect::<Vec<_>>();
            let inner = leaders.iter().map(|_| Counter::new(size).unwrap()).collect::<Vec<_>>();
            let member = |rank: usize| {
                let (group, seat) = (rank / size, rank % size);
                let ranks = (group * size..(group + 1) * size).collect::<Vec<_>>();
                let inner = watching(&inner[group], callers[rank].clone().among(&ranks));
                let outer =
                    Outer(Mutex::new((seat == 0).then(|| board(group, &leaders))), leaders.len());
                Seat::Levels(Box::new(Combined::new(group, inner, outer).member(seat).unwrap()))
            };
            ranks.map(member).collect()
        }
    }
}

/// A barrier of a single seat, which exists already.
#[derive(Debug)]
struct Outer(Mutex<Option<Board>>, usize);

impl Barrier for Outer {
    type Member = DisseminationMember<Board>;

    fn members(&self) -> usize {
        self.1
    }

    fn member(&self, rank: usize) -> Result<Self::Member, SpaceError> {
        let board = self.0.lock().unwrap().take().ok_or(SpaceError::Taken { rank })?;
        Ok(DisseminationMember::new(board, 2))
    }
}

impl Seat {
    fn member(&mut self) -> &mut dyn BarrierMember {
        match self {
            Seat::Counter(member) => member,
            Seat::Dissemination(member) => member,
            Seat::Tournament(member) => member,
            Seat::Levels(member) => &mut **member,
        }
    }

    /// Notes that a wait is long.
    fn block(&mut self, caller: &Caller) {
        match self {
            Seat::Counter(member) => caller.block(member.episodes() + 1, member.needs()),
            Seat::Dissemination(member) => assert_eq!(member.wait(), Err(Fault::TimedOut)),
            Seat::Tournament(member) => assert_eq!(member.wait(), Err(Fault::TimedOut)),
            Seat::Levels(member) => {
                let (rank, episode, size) = (caller.rank, member.episodes() + 1, member.size());
                match member.parts() {
                    (_, Some(outer)) => assert_eq!(outer.wait(), Err(Fault::TimedOut)),
                    (inner, None) => {
                        let ranks =
                            (rank / size * size..(rank / size + 1) * size).collect::<Vec<_>>();
                        caller.clone().among(&ranks).block(episode, inner.unwrap().needs());
                    }
                }
            }
        }
    }
}

/// Notes in flight from one host to another, with the ranks of their members.
type Link = VecDeque<(usize, Vec<u64>)>;

/// A simulated team on several hosts: the true state, the notes on each host, and the notes in
/// flight.
struct Team {
    programs: Vec<Vec<Step>>,
    at: Vec<usize>,
    plain: Vec<Plain>,
    /// By object, by member.
    seats: Vec<Vec<Seat>>,
    callers: Vec<Vec<Caller>>,
    /// By member and object: the number of completed waits.
    waited: Vec<Vec<u64>>,
    blocked: Vec<bool>,
    /// By host.
    tables: Vec<Calls>,
    host_of: Vec<usize>,
    sent: Vec<u64>,
    /// By sender and receiver, in order.
    links: Vec<Vec<Link>>,
}

impl Team {
    fn new(programs: Vec<Vec<Step>>, kinds: &[Kind], hosts: usize) -> Team {
        let members = programs.len();
        // The groups of an object in levels are the same for all objects.
        let size = kinds
            .iter()
            .find_map(|kind| if let Kind::Levels(size) = kind { Some(*size) } else { None });
        let table = |_| {
            Calls::within(&mut Space::heap(), members)
                .unwrap()
                .grouped(|rank| rank / size.unwrap_or(members))
        };
        let tables = (0..hosts).map(table).collect::<Vec<_>>();
        let host_of = (0..members).map(|rank| rank * hosts / members).collect::<Vec<_>>();
        let caller = |rank: usize, object| {
            tables[host_of[rank]].caller(rank, object, Call::Barrier).unwrap()
        };
        let callers =
            (0..kinds.len()).map(|object| (0..members).map(|rank| caller(rank, object)).collect());
        let callers = callers.collect::<Vec<Vec<_>>>();
        Team {
            at: vec![0; members],
            plain: kinds.iter().map(|&kind| Plain::new(kind, members)).collect(),
            seats: kinds
                .iter()
                .zip(&callers)
                .map(|(&kind, callers)| seats(kind, callers))
                .collect(),
            callers,
            waited: vec![vec![0; kinds.len()]; members],
            blocked: vec![false; members],
            tables,
            host_of,
            sent: vec![0; members],
            links: vec![vec![VecDeque::new(); hosts]; hosts],
            programs,
        }
    }

    fn members(&self) -> usize {
        self.programs.len()
    }

    /// Arrives, unless the member has completed an episode there that it has not waited for.
    fn arrive(&mut self, member: usize, object: usize) -> bool {
        let plain = &mut self.plain[object];
        if plain.completed[member] > self.waited[member][object] {
            return false;
        }
        plain.arrive(member);
        self.seats[object][member].member().arrive().unwrap();
        true
    }

    fn done(&mut self, member: usize, object: usize) -> bool {
        let done = self.seats[object][member].member().done().unwrap();
        assert_eq!(done, self.plain[object].done(member), "member {member} at {object}: {self}");
        done
    }

    /// Advances a member if possible. If it is blocked, and `notes` is set, it notes that it is.
    fn step(&mut self, member: usize, notes: bool) {
        let Some(&step) = self.programs[member].get(self.at[member]) else { return };
        match step {
            Step::Arrive(object) => drop(self.arrive(member, object)),
            Step::Look(object) => {
                if self.arrive(member, object) {
                    self.done(member, object);
                }
            }
            Step::Wait(object) => {
                let caller = self.callers[object][member].clone();
                let was = std::mem::take(&mut self.blocked[member]);
                if was {
                    caller.unblock();
                }
                if self.arrive(member, object) && !self.done(member, object) {
                    self.blocked[member] = was || notes;
                    if self.blocked[member] {
                        self.seats[object][member].block(&caller);
                    }
                    return self.check(member);
                }
                self.waited[member][object] += 1;
            }
        }
        self.at[member] += 1;
        self.check(member);
    }

    /// Checks that the notes of a member lag behind what it has sent at no object.
    fn check(&self, member: usize) {
        for (object, plain) in self.plain.iter().enumerate() {
            let noted = &self.tables[self.host_of[member]].rows[member].progress[object];
            let noted = noted.load(Ordering::Relaxed);
            assert!(noted >= plain.sent[member], "member {member} at {object}: {self}");
            assert!(
                noted == plain.sent[member] || noted & u64::from(LAST) == 0,
                "{member} at {object}: {self}"
            );
        }
    }

    /// Sends the notes of the members of a host.
    fn send_notes(&mut self, host: usize) {
        for member in (0..self.members()).filter(|&member| self.host_of[member] == host) {
            if let Some(note) = self.tables[host].note_of(member, self.sent[member]) {
                self.sent[member] = note[0];
                for link in &mut self.links[host] {
                    link.push_back((member, note.clone()));
                }
            }
        }
    }

    /// Delivers a note from one host to another.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let note = self.links[from][to].pop_front();
        if let Some((member, words)) = &note
            && from != to
        {
            self.tables[to].note(*member, words);
        }
        note.is_some()
    }

    fn found(&self) -> Option<Fault> {
        self.tables.iter().find_map(|table| Some(table.decode(table.find()?)))
    }

    /// Returns whether members that are blocked, and have noted it, wait for one another in a
    /// cycle.
    fn deadlocked(&self) -> bool {
        let mut left =
            (0..self.members()).filter(|&member| self.blocked[member]).collect::<Vec<_>>();
        loop {
            let waits = |&member: &usize| match self.programs[member][self.at[member]] {
                Step::Wait(object) => {
                    let missing = self.plain[object].missing(member);
                    missing.iter().any(|other| *other != member && left.contains(other))
                }
                _ => false,
            };
            let next = left.iter().copied().filter(waits).collect::<Vec<_>>();
            if next.len() == left.len() {
                return !left.is_empty();
            }
            left = next;
        }
    }
}

impl fmt::Display for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:?} of {:?}", self.plain, self.at, self.programs)
    }
}

/// Returns objects for a number of members.
fn kinds(random: &mut Random, members: usize, objects: usize) -> Vec<Kind> {
    let sizes = (2..members).filter(|size| members.is_multiple_of(*size)).collect::<Vec<_>>();
    let size = if sizes.is_empty() { 1 } else { sizes[random.below(sizes.len())] };
    let kind = |random: &mut Random| match random.below(6) {
        0 => Kind::Counter,
        1 | 2 => Kind::Dissemination(2 + random.below(2)),
        3 => Kind::Tournament,
        _ => Kind::Levels(size),
    };
    (0..objects).map(|_| kind(random)).collect()
}

/// Returns programs in which every member arrives and waits as often as the others, in orders that
/// cannot deadlock: a common order of waits, and before each wait arrivals and short waits
/// anywhere.
fn legal(random: &mut Random, members: usize, objects: usize) -> Vec<Vec<Step>> {
    let order = (0..12).map(|_| random.below(objects)).collect::<Vec<_>>();
    let program = |random: &mut Random| {
        let mut steps = Vec::new();
        for &object in &order {
            for other in 0..objects {
                match random.below(8) {
                    0 => steps.push(Step::Arrive(other)),
                    1 => (0..1 + random.below(3)).for_each(|_| steps.push(Step::Look(other))),
                    _ => (),
                }
            }
            steps.push(Step::Wait(object));
        }
        steps
    };
    (0..members).map(|_| program(random)).collect()
}

/// Runs a team in a random order, with notes that are delivered at random; returns the fault found.
/// In the end no member can proceed, and all notes have been delivered.
fn run(random: &mut Random, team: &mut Team) -> Option<Fault> {
    let (members, hosts) = (team.members(), team.tables.len());
    for _ in 0..100 * members {
        team.step(random.below(members), random.below(3) > 0);
        if random.below(4) == 0 {
            team.send_notes(random.below(hosts));
        }
        if random.below(2) == 0 {
            team.deliver(random.below(hosts), random.below(hosts));
        }
        if random.below(3) == 0
            && let Some(fault) = team.found()
        {
            return Some(fault);
        }
    }
    settle(team);
    (0..hosts).for_each(|host| team.send_notes(host));
    // In order between two hosts, in any order otherwise.
    while team.links.iter().flatten().any(|link| !link.is_empty()) {
        team.deliver(random.below(hosts), random.below(hosts));
        if let Some(fault) = team.found().filter(|_| random.below(4) == 0) {
            return Some(fault);
        }
    }
    team.found()
}

/// Runs until no member can proceed and all blocked members have noted it.
fn settle(team: &mut Team) {
    for _ in 0..100 * team.members() {
        (0..team.members()).for_each(|member| team.step(member, true));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of programs; the code is safe and in one thread")]
fn legal_programs_are_never_accused() {
    let seed = seed(1);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for turn in 0..cases(3000) {
        let (members, objects, hosts) =
            (2 + random.below(6), 1 + random.below(3), 1 + random.below(3));
        let programs = legal(&mut random, members, objects);
        let kinds = kinds(&mut random, members, objects);
        let mut team = Team::new(programs, &kinds, hosts);
        let found = run(&mut random, &mut team);
        assert_eq!(found, None, "turn {turn}: {kinds:?} {team}");
        let over = (0..members).all(|member| team.at[member] == team.programs[member].len());
        assert!(over, "turn {turn}: {kinds:?} {team}");
    }
}

/// Programs in which some waits are exchanged or left out: each reported deadlock is one, and every
/// cycle of blocked members is found.
#[test]
#[cfg_attr(miri, ignore = "thousands of programs; the code is safe and in one thread")]
fn exactly_the_deadlocks_are_found() {
    let seed = seed(2);
    println!("seed {seed}");
    let (mut random, turns) = (Random::new(seed), cases(6000));
    let (mut deadlocks, mut ends) = (0, 0);
    for turn in 0..turns {
        let (members, objects, hosts) =
            (2 + random.below(6), 2 + random.below(2), 1 + random.below(3));
        let mut programs = legal(&mut random, members, objects);
        for _ in 0..1 + random.below(2) {
            let program = &mut programs[random.below(members)];
            let at = random.below(program.len());
            let object = random.below(objects);
            match random.below(4) {
                0 => drop(program.remove(at)),
                1 => program.swap(at, 0),
                // The member stops waiting, and waits elsewhere.
                2 => {
                    program[at] = Step::Look(object);
                    program.insert(at + 1, Step::Wait((object + 1) % objects));
                }
                _ => program[at] = Step::Wait(object),
            }
        }
        let kinds = kinds(&mut random, members, objects);
        let mut team = Team::new(programs, &kinds, hosts);
        let found = run(&mut random, &mut team);
        let known = team.deadlocked();
        settle(&mut team);
        assert_eq!(found.is_some(), team.deadlocked(), "turn {turn}: {kinds:?} {team}");
        if let Some(Fault::Mismatch { rank, other, .. }) = found {
            assert!(known, "turn {turn}: {kinds:?} {team}");
            for member in [rank, other] {
                let stuck = team.blocked[member] && team.at[member] < team.programs[member].len();
                assert!(stuck, "turn {turn}: member {member} is not blocked: {kinds:?} {team}");
            }
            deadlocks += 1;
        } else {
            // No member can proceed, so members have ended, which is reported in another way.
            let over =
                (0..members).filter(|&member| team.at[member] == team.programs[member].len());
            assert!(over.count() > 0, "turn {turn}: {kinds:?} {team}");
            ends += 1;
        }
    }
    let is_fair = 6 * deadlocks > turns && 6 * ends > turns;
    assert!(is_fair, "{deadlocks} deadlocks and {ends} ends are no fair sample");
}

#[test]
fn the_calls_are_named() {
    let calls = Calls::within(&mut Space::heap(), 3).unwrap();
    let (allocates, syncs) =
        (calls.caller(2, 1, Call::Gather).unwrap(), calls.caller(0, 2, Call::Sync).unwrap());
    allocates.arrive(3);
    syncs.arrive(8);
    let named = calls.naming(2, Call::Allocate);
    let waits = [Blocking::new(Some(&allocates), 3, None), Blocking::new(Some(&syncs), 8, None)];
    assert!(waits.iter().all(|wait| wait.look().is_none()), "the first look is too early");
    assert_eq!(waits[0].look(), None);
    let text = waits[1].look().unwrap().to_string();
    assert_eq!(
        text,
        "rank 0 is in sync, rank 2 is in allocate: neither can complete; all members must make the same \
         collective calls in the same order"
    );
    assert_eq!(waits[0].look().unwrap().to_string(), text);
    drop((waits, named));
    assert!(calls.note_of(0, 0).is_none() && calls.verdict().is_some());
    assert!(calls.caller(0, OBJECTS, Call::Sync).is_none());
}

#[test]
fn the_first_difference_is_the_verdict_here_and_on_other_hosts() {
    let asked = |rank, bytes| Asked::new(Thing::Memory, Some(rank), Some(bytes));
    let [one, other] = [(0, 100), (4, 300)].map(|(rank, bytes)| Difference {
        first: asked(rank, bytes),
        second: asked(rank + 1, bytes + 1),
    });
    let [here, there] = [0, 1].map(|_| Calls::within(&mut Space::heap(), 6).unwrap());
    let unknown = Asked::new(Thing::Memory, None, Some(1));
    here.decide_difference(&Difference { first: unknown, second: asked(1, 2) });
    assert_eq!((here.verdict(), here.verdict_words()), (None, None));
    for difference in [one, other, one] {
        here.decide_difference(&difference);
        assert_eq!(here.verdict(), Some(Fault::Differs(one)));
    }
    // Another host, which has found a different difference, receives this one.
    there.decide_difference(&other);
    there.decide_as(here.verdict_words().unwrap());
    assert_eq!(there.verdict(), Some(Fault::Differs(other)));
    let third = Calls::within(&mut Space::heap(), 6).unwrap();
    third.decide_as(here.verdict_words().unwrap());
    assert_eq!(third.verdict(), here.verdict());
}

#[test]
fn a_wait_with_a_deadline_is_not_noted() {
    let calls = Calls::within(&mut Space::heap(), 2).unwrap();
    let [one, two] = [0, 1].map(|rank| calls.caller(rank, rank, Call::Barrier).unwrap());
    one.arrive(1);
    two.arrive(1);
    let waits =
        [Blocking::new(Some(&one), 1, Some(Instant::now())), Blocking::new(Some(&two), 1, None)];
    (0..5).for_each(|_| waits.iter().for_each(|wait| assert_eq!(wait.look(), None)));
}
