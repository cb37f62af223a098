//! Simulated teams: programs that are legal are never accused, and every circle of blocked members is found.

use super::*;

/// What a member does: at an object, to arrive only, or to wait.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    Wait(usize),
}

/// A team that is simulated: who has arrived where, what the table says, and what another host has heard of it.
struct Team {
    programs: Vec<Vec<Step>>,
    at: Vec<usize>,
    /// By member and object.
    arrived: Vec<Vec<u64>>,
    completed: Vec<Vec<u64>>,
    blocked: Vec<bool>,
    tables: [Calls; 2],
    objects: usize,
}

impl Team {
    fn new(programs: Vec<Vec<Step>>, objects: usize) -> Team {
        let members = programs.len();
        let table = || Calls::within(&mut Space::heap(), members).unwrap();
        let zeros = vec![vec![0; objects]; members];
        Team {
            at: vec![0; members],
            arrived: zeros.clone(),
            completed: zeros,
            blocked: vec![false; members],
            tables: [table(), table()],
            programs,
            objects,
        }
    }

    fn complete(&self, object: usize, episode: u64) -> bool {
        self.arrived.iter().all(|arrived| arrived[object] >= episode)
    }

    fn arrive(&mut self, member: usize, object: usize) {
        if self.arrived[member][object] == self.completed[member][object] {
            let episode = self.arrived[member][object] + 1;
            self.tables[0].caller(member, object, Call::Barrier).unwrap().arrive(episode);
            self.arrived[member][object] = episode;
        }
    }

    /// Whether a member could go on.
    fn can(&self, member: usize) -> bool {
        match self.programs[member].get(self.at[member]) {
            None => false,
            Some(&Step::Arrive(_)) => true,
            Some(&Step::Wait(object)) => {
                let (arrived, completed) = (self.arrived[member][object], self.completed[member][object]);
                arrived == completed || self.complete(object, arrived)
            }
        }
    }

    /// A member goes on, if it can; and notes that it is blocked, if it is, and pleases to.
    fn step(&mut self, member: usize, notes: bool) {
        let Some(&step) = self.programs[member].get(self.at[member]) else { return };
        let object = match step {
            Step::Arrive(object) => {
                self.arrive(member, object);
                self.at[member] += 1;
                return;
            }
            Step::Wait(object) => object,
        };
        self.arrive(member, object);
        let episode = self.arrived[member][object];
        let caller = self.tables[0].caller(member, object, Call::Barrier).unwrap();
        if self.complete(object, episode) {
            if std::mem::take(&mut self.blocked[member]) {
                caller.unblock();
            }
            self.completed[member][object] = episode;
            self.at[member] += 1;
        } else if notes {
            self.blocked[member] = true;
            caller.block(episode);
        }
    }

    /// The other host hears of a member, as it is now.
    fn tell(&self, member: usize) {
        if let Some(note) = self.tables[0].note_of(member, 0) {
            self.tables[1].note(member, &note);
        }
    }

    fn found(&self) -> Option<Fault> {
        self.tables.iter().find_map(Calls::find).map(told)
    }

    fn stuck(&self) -> bool {
        (0..self.programs.len()).all(|member| !self.can(member))
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Every member arrives and waits as often as the others, in orders that cannot deadlock: a common order of waits, and
/// before each wait an arrival anywhere earlier.
fn legal(random: &mut Random, members: usize, objects: usize) -> Vec<Vec<Step>> {
    let order = (0..12).map(|_| random.below(objects)).collect::<Vec<_>>();
    let program = |random: &mut Random| {
        let mut steps = Vec::new();
        let mut early = vec![false; objects];
        for &object in &order {
            for (other, early) in early.iter_mut().enumerate() {
                if random.below(4) == 0 && !*early {
                    *early = true;
                    steps.push(Step::Arrive(other));
                }
            }
            early[object] = false;
            steps.push(Step::Wait(object));
        }
        steps
    };
    (0..members).map(|_| program(random)).collect()
}

/// Runs in a random order, with notes that travel at random; what is found, and whether nothing moves in the end.
fn run(random: &mut Random, mut team: Team) -> (Option<Fault>, Team) {
    let members = team.programs.len();
    for _ in 0..400 {
        let member = random.below(members);
        team.step(member, random.below(3) > 0);
        if random.below(4) == 0 {
            team.tell(random.below(members));
        }
        if random.below(3) == 0
            && let Some(fault) = team.found()
        {
            return (Some(fault), team);
        }
    }
    // Until nothing moves: all that are blocked say so.
    for _ in 0..400 {
        (0..members).for_each(|member| team.step(member, true));
    }
    (0..members).for_each(|member| team.tell(member));
    (team.found(), team)
}

#[test]
fn legal_programs_are_never_accused() {
    let mut random = Random(1);
    for turn in 0..3000 {
        let (members, objects) = (2 + random.below(4), 1 + random.below(3));
        let programs = legal(&mut random, members, objects);
        let (found, _) = run(&mut random, Team::new(programs.clone(), objects));
        assert_eq!(found, None, "turn {turn}: {programs:?}");
    }
}

/// A program in which some waits are exchanged or left out: what is found is a deadlock indeed, and every deadlock of
/// members that all are blocked is found.
#[test]
fn exactly_the_deadlocks_are_found() {
    let mut random = Random(2);
    let (mut deadlocks, mut ends) = (0, 0);
    for turn in 0..6000 {
        let (members, objects) = (2 + random.below(4), 2 + random.below(2));
        let mut programs = legal(&mut random, members, objects);
        for _ in 0..1 + random.below(2) {
            let program = &mut programs[random.below(members)];
            let at = random.below(program.len());
            match random.below(3) {
                0 => drop(program.remove(at)),
                1 => program.swap(at, 0),
                _ => program[at] = Step::Wait(random.below(objects)),
            }
        }
        let (found, mut team) = run(&mut random, Team::new(programs, objects));
        (0..400).for_each(|_| (0..members).for_each(|member| team.step(member, true)));
        let over = (0..members).filter(|&member| team.at[member] == team.programs[member].len()).count();
        if let Some(Fault::Mismatch { rank, other, .. }) = found {
            for member in [rank, other] {
                assert!(!team.can(member), "turn {turn}: member {member} goes on: {:?}", team.programs);
                assert!(team.at[member] < team.programs[member].len(), "turn {turn}");
            }
            deadlocks += 1;
        } else {
            // Nothing moves: then somebody has ended, whom the others are told of in another way.
            assert!(over > 0 && team.stuck(), "turn {turn}: not found: {:?}", team.programs);
            ends += 1;
        }
        assert_eq!(team.objects, objects);
    }
    assert!(deadlocks > 100 && ends > 100, "{deadlocks} {ends}");
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
    assert_eq!(text, "rank 0 is in sync, rank 2 is in allocate: neither can complete");
    assert_eq!(waits[0].look().unwrap().to_string(), text);
    drop((waits, named));
    assert!(calls.note_of(0, 0).is_none() && calls.verdict().is_some());
    assert!(calls.caller(0, OBJECTS, Call::Sync).is_none());
}

#[test]
fn a_wait_with_a_deadline_is_not_noted() {
    let calls = Calls::within(&mut Space::heap(), 2).unwrap();
    let [one, two] = [0, 1].map(|rank| calls.caller(rank, rank, Call::Barrier).unwrap());
    one.arrive(1);
    two.arrive(1);
    let waits = [Blocking::new(Some(&one), 1, Some(Instant::now())), Blocking::new(Some(&two), 1, None)];
    (0..5).for_each(|_| waits.iter().for_each(|wait| assert_eq!(wait.look(), None)));
}
