//! Random overlays under random schedules, held against what one queue for each location gives.

use syncline_testkit::{Random, cases, seed};

use super::*;

/// Returns an overlay of 2 to `hosts` hosts, with up to `tasks` tasks and `locations` locations.
pub(super) fn overlay(
    random: &mut Random,
    hosts: usize,
    tasks: usize,
    locations: usize,
) -> Overlay {
    let hosts = random.within(2..=hosts);
    let tasks = random.within(1..=tasks);
    let homes: Vec<usize> = (0..tasks).map(|_| random.below(hosts)).collect();
    let mut order: Vec<usize> = (0..tasks).collect();
    random.shuffle(&mut order);
    let mut overlay = Overlay::new(hosts, &homes);
    let (writers, density) = (random.within(1..=4) as u64, random.within(1..=4));
    for _ in 0..random.within(1..=locations) {
        let mut queue = Vec::new();
        for &task in &order {
            if random.below(4) < density {
                let access = if random.one_in(writers) { Access::Write } else { Access::Read };
                queue.push(access(task));
            }
        }
        overlay = if random.one_in(6) { overlay.control(&queue) } else { overlay.data(&queue) };
    }
    overlay
}

/// Returns a run of an overlay by random rules, up to `rounds` rounds.
pub(super) fn grants(random: &mut Random, overlay: Overlay, rounds: usize) -> Grants {
    let tasks = overlay.homes.len();
    let rounds = random.within(1..=rounds);
    let mut rules = Rules::new(tasks, rounds as u8);
    if random.one_in(2) {
        rules.bodies = (0..tasks).map(|_| random.within(1..=rounds) as u8).collect();
    }
    if random.one_in(3) {
        rules.rounds = None;
    }
    rules.release = random.one_of(&[Release::OneStep, Release::RaiseFirst, Release::SendFirst]);
    rules.two_steps = random.one_in(2);
    if rules.rounds.is_some() && random.one_in(4) {
        rules.bodies = vec![rounds as u8; tasks];
        let converges = random.below(rounds) as u8;
        rules.test = Some(Test { converges, delay: random.within(1..=4) as u8 });
    }
    rules.flush = random.one_of(&[Flush::Any, Flush::Idle]);
    if random.one_in(5) {
        let failures = random.within(1..=2);
        for _ in 0..failures {
            let task = random.below(tasks);
            rules.fails[task] = Some(random.below(rules.bodies[task]));
        }
        rules.failure = if failures == 1 { Failure::Broadcast } else { Failure::Agreed };
    }
    if random.one_in(2) {
        rules.long = random.below(1 << LOCATIONS) as u8;
    }
    Grants::new(overlay, rules)
}

/// What many runs have shown.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    steps: usize,
    comparisons: usize,
    /// The most data messages of one task in one channel.
    waiting: usize,
    /// The most rounds that conflicting tasks of a location with data were apart: on one host, by
    /// the number of its receptions in a round; on different hosts, by the number of writers. The
    /// last entry stands for all larger numbers.
    together: [i16; 3],
    apart: [i16; 3],
    /// The same as the plans' bounds have it.
    bounds: [[i16; 3]; 2],
}

impl Tally {
    fn note(&mut self, grants: &Grants, state: &State) {
        for task in 0..grants.overlay.homes.len() {
            let own = Kind::Words(Some(task as u8));
            let data = |message: &&Message| message.kind == own && message.has_data();
            let channels = state.channels.iter().flatten();
            let most = channels.map(|channel| channel.iter().filter(data).count()).max();
            self.waiting = self.waiting.max(most.unwrap_or(0));
        }
        for (at, location) in grants.overlay.locations.iter().enumerate() {
            if !location.data {
                continue;
            }
            for a in &location.queue {
                for b in location.queue.iter().filter(|b| a.writes() || b.writes()) {
                    let (a, b) = (a.task(), b.task());
                    let one = grants.overlay.homes[a] == grants.overlay.homes[b];
                    let of = |task| i16::from(grants.released(state, task));
                    let used = grants.plan().uses[a].iter().find(|using| using.location == at);
                    let class = if one {
                        usize::from(used.expect("its use").per_round)
                    } else {
                        location.writers().len()
                    };
                    let class = class.min(2);
                    let most = if one { &mut self.together } else { &mut self.apart };
                    most[class] = most[class].max(of(a) - of(b));
                    let bound = &mut self.bounds[usize::from(one)][class];
                    *bound = (*bound).max(grants.plan().ahead[a][b]);
                }
            }
        }
    }
}

/// Runs an overlay once, in a random order, with some tasks and channels that are much slower than
/// others; returns what went wrong.
fn run(grants: &Grants, random: &mut Random, tally: &mut Tally) -> Result<(), String> {
    let mut state = grants.start();
    let speeds: Vec<u64> = (0..64).map(|_| 1 + random.below(20_u64).pow(2)).collect();
    let speed = |action: &Action| match *action {
        Action::Begin(task) => speeds[task],
        Action::End(task) => speeds[8 + task],
        Action::Finish(task) => speeds[16 + task],
        Action::Receive { from, to, .. } => speeds[24 + HOSTS * from + to],
        Action::Flush { from, to } => speeds[40 + HOSTS * from + to],
        Action::Move(_, step) => speeds[56 + step as usize],
    };
    let mut actions = Vec::new();
    tally.runs += 1;
    loop {
        actions.clear();
        grants.list(&state, &mut actions);
        let total: u64 = actions.iter().map(speed).sum();
        if total == 0 {
            break;
        }
        let mut left = random.below(total);
        let chosen = actions.iter().find(|&action| match left.checked_sub(speed(action)) {
            Some(less) => {
                left = less;
                false
            }
            None => true,
        });
        let &action = chosen.expect("an action");
        grants.take(&mut state, action);
        tally.steps += 1;
        if let Action::Begin(task) | Action::End(task) = action {
            tally.comparisons += grants.plan().uses[task].len();
        }
        if state.faults.any() {
            return Err(format!("{:?} after {action:?}", state.faults));
        }
        if !grants.is_in_time(&state) {
            return Err(format!("a task passes the last round after {action:?}"));
        }
        if !grants.is_fair(&state) {
            return Err(format!("a task is too far ahead after {action:?}"));
        }
        tally.note(grants, &state);
    }
    if !grants.is_over(&state) {
        return Err(format!("hangs: {state:?}"));
    }
    if state.hosts.iter().any(|host| host.failed != 0) {
        return if grants.is_agreed(&state) { Ok(()) } else { Err(format!("names: {state:?}")) };
    }
    if grants.has_results(&state) { Ok(()) } else { Err(format!("no results: {state:?}")) }
}

/// The number of seeds, from 0 on, with which the bounds are reached.
const REACHED: u32 = 500;

/// Every run keeps the bounds of the table in the module's text. That some run reaches each of them
/// is checked with seeds of which this is known; so random seeds come after these.
#[test]
fn any_overlay_gives_what_one_queue_gives() {
    let more = match seed(0) {
        0 => 0..0,
        first => first..first + u64::from(cases(4000)),
    };
    let mut tally = Tally::default();
    for seed in (0..u64::from(cases(4000).clamp(REACHED, 4000))).chain(more) {
        let mut random = Random::new(seed);
        let overlay = overlay(&mut random, HOSTS, TASKS, LOCATIONS);
        let grants = grants(&mut random, overlay, 9);
        for _ in 0..4 {
            let outcome = run(&grants, &mut random, &mut tally);
            outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{grants:?}"));
        }
    }
    println!("{tally:?}");
    // The table of the module's text.
    assert_eq!((tally.together, tally.apart), ([1, 2, 2], [0, 2, 3]));
    assert_eq!(tally.bounds, [[0, 2, 3], [1, 2, 2]]);
}

/// Random schedules of random overlays find each bug that the explorer finds in a chosen one. The
/// search for a bug ends when it is found: that it is, with these seeds, is a fact. With random
/// seeds, more are tried.
#[test]
fn random_schedules_find_the_planted_bugs() {
    for bug in Bug::ALL {
        let mut tally = Tally::default();
        let is_right = matches!(bug, Bug::None | Bug::RoomStrict);
        let count = if is_right { cases(1000) } else { cases(1000).max(1000) };
        let first = seed(0);
        let found = (first..first + u64::from(count)).find(|&seed| {
            let mut random = Random::new(seed);
            let overlay = overlay(&mut random, HOSTS, TASKS, LOCATIONS);
            let Grants { overlay, mut rules, .. } = grants(&mut random, overlay, 9);
            rules.bug = bug;
            if matches!(bug, Bug::CopiedLate | Bug::SentAfterNotice) {
                (rules.release, rules.failure) = (Release::RaiseFirst, Failure::Agreed);
            }
            if bug.is_long() {
                rules.long = u8::MAX;
            }
            run(&Grants::new(overlay, rules), &mut random, &mut tally).is_err()
        });
        println!("{bug:?}: found with seed {found:?}, of {count} from {first} on");
        assert_eq!(found.is_none(), is_right, "{bug:?}, seeds from {first} on: {found:?}");
    }
}

/// Counts receptions as they come when one queue is played round after round.
#[test]
fn receptions_are_numbered_in_the_order_of_the_queue() {
    let first = seed(0);
    for seed in first..first + u64::from(cases(2000)) {
        let mut random = Random::new(seed);
        let overlay = overlay(&mut random, HOSTS, TASKS, LOCATIONS);
        let plan = Plan::new(&overlay, Bug::None);
        for (at, location) in overlay.locations.iter().enumerate().filter(|(_, this)| this.data) {
            let queue = &location.queue;
            let home = |place: usize| overlay.homes[queue[place].task()];
            for host in 0..overlay.hosts {
                let mut count = 0;
                for (round, place) in (0..5).flat_map(|of| (0..queue.len()).map(move |at| (of, at)))
                {
                    let task = queue[place].task();
                    if home(place) == host {
                        let mut uses = plan.uses[task].iter();
                        let using = uses.find(|using| using.location == at).expect("its use");
                        assert_eq!(using.reception(round), count, "seed {seed}: {overlay:?}");
                    } else if queue[place].writes() {
                        // The accesses up to the next writer, which may be this one.
                        let behind = (1..=queue.len()).map(|by| (place + by) % queue.len());
                        let mut next = behind.clone();
                        let last = next.position(|at| queue[at].writes()).expect("a writer");
                        let needs = behind.take(last + 1).any(|at| home(at) == host);
                        let mut deliveries = plan.deliveries[task].iter();
                        let delivery = deliveries.find(|it| it.to == host && it.location == at);
                        assert_eq!(delivery.is_some(), needs, "seed {seed}: {overlay:?}");
                        count += u8::from(needs);
                        assert!(delivery.is_none_or(|delivery| delivery.reception(round) == count));
                    }
                }
            }
        }
    }
}
