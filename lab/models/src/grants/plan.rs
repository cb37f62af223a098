//! The plan that every host derives from the overlay: slots, waits and messages.
//!
//! # Contract
//! The functions are those of the protocol's text: [`Share`] has `q` and `c` of a host's accesses,
//! [`Wait`] is a condition on the word of a task, [`Plan`] lists for each task what it waits for
//! and which hosts its release sends to. Planted bugs that change formulas are here.

use super::overlay::Overlay;
use super::rules::Bug;

/// A condition: before round `r`, the word of `task` is at least `r + lag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task whose word must be high enough.
    pub task: usize,
    /// The number of rounds beyond `r` that it must have released; it may be negative.
    pub lag: i16,
}

/// An access as its host sees it.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The location.
    pub location: usize,
    /// The place in its queue.
    pub place: usize,
    /// Whether the access is exclusive.
    pub writes: bool,
    /// Whether the location has data.
    pub data: bool,
    /// The number of receptions of the host in a round (`q`).
    pub per_round: u8,
    /// The number of receptions of a round that the access stands behind (`c`).
    pub behind: u8,
}

impl Use {
    /// Returns the number of the reception that the access refers to in a round.
    pub fn reception(&self, round: u8) -> u8 {
        round * self.per_round + self.behind
    }
}

/// The release of a writer, as another host receives it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The destination.
    pub to: usize,
    /// The location.
    pub location: usize,
    /// The number of receptions of the destination in a round (`q`).
    pub per_round: u8,
    /// The number of receptions of a round that are numbered before this one (`i`).
    pub index: u8,
    /// Whether the slot of the writer stays as it is until long data have left it.
    pub stays: bool,
}

impl Delivery {
    /// Returns the number of the reception that the release of a round is.
    pub fn reception(&self, round: u8) -> u8 {
        1 + round * self.per_round + self.index
    }
}

/// The part of a location with data that a host receives.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// The writers whose versions the host needs from another host, by index, in queue order.
    pub needed: Vec<usize>,
}

impl Share {
    /// Returns what `host` needs of a location.
    pub fn new(overlay: &Overlay, location: usize, host: usize) -> Self {
        let this = &overlay.locations[location];
        let writers = this.writers();
        if writers.is_empty() || !this.data {
            return Share::default();
        }
        let needed = (0..writers.len()).filter(|&writer| {
            let home = |place: usize| overlay.homes[this.queue[place].task()];
            let mut users = (0..this.queue.len()).filter(|&place| this.previous(place) == writer);
            home(writers[writer]) != host && users.any(|place| home(place) == host)
        });
        Share { needed: needed.collect() }
    }

    /// Returns the number of needed writers that stand before a place.
    pub fn before(&self, writers: &[usize], place: usize) -> u8 {
        self.needed.iter().filter(|&&writer| writers[writer] < place).count() as u8
    }
}

/// The waits and messages of an overlay, by task; every host derives the same plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The conditions for beginning a round.
    pub waits: Vec<Vec<Wait>>,
    /// The accesses.
    pub uses: Vec<Vec<Use>>,
    /// The data that a release sends.
    pub deliveries: Vec<Vec<Delivery>>,
    /// The hosts to which a release sends a message at once, a bit for each.
    pub direct: Vec<u8>,
    /// The hosts that need the word of the task as room, a bit for each.
    pub rooms: Vec<u8>,
    /// The tasks that are connected to a task by waits, a bit for each.
    pub component: Vec<u8>,
    /// By task and other task: the most rounds by which the task can be ahead of the other one.
    pub ahead: Vec<Vec<i16>>,
}

/// A wait for room: the writer, the location, and what it waits for.
type Room = (usize, usize, Wait);

/// No bound.
const FAR: i16 = i16::MAX / 4;

impl Plan {
    /// Derives the plan.
    pub fn new(overlay: &Overlay, bug: Bug) -> Self {
        let tasks = overlay.homes.len();
        let mut plan = Plan {
            waits: vec![Vec::new(); tasks],
            uses: vec![Vec::new(); tasks],
            deliveries: vec![Vec::new(); tasks],
            direct: vec![0; tasks],
            rooms: vec![0; tasks],
            ..Plan::default()
        };
        let mut rooms = Vec::new();
        for (location, this) in overlay.locations.iter().enumerate() {
            if this.data {
                plan.share(overlay, location, bug, &mut rooms);
            } else {
                plan.order(overlay, location, bug);
            }
        }
        plan.stay(overlay, bug, &rooms);
        rooms.iter().for_each(|&(task, _, wait)| plan.waits[task].push(wait));
        for (task, waits) in plan.waits.iter_mut().enumerate() {
            waits.retain(|wait| wait.task != task);
            waits.sort_unstable_by_key(|wait| (wait.task, -wait.lag));
            waits.dedup_by_key(|wait| wait.task);
        }
        plan.close();
        plan
    }

    /// Finds the data that stay in the slot of their writer. All waits but those for room are
    /// known.
    ///
    /// Receptions must follow, no access of the host may use the reception after the release, and
    /// all waits for room that concern the slot must follow from other waits with a round to spare.
    fn stay(&mut self, overlay: &Overlay, bug: Bug, rooms: &[Room]) {
        let ahead = closure(&self.waits);
        let plan = self.clone();
        let host = |task: usize| overlay.homes[task];
        for (task, deliveries) in self.deliveries.iter_mut().enumerate() {
            for delivery in deliveries {
                let location = delivery.location;
                let queue = &overlay.locations[location].queue;
                let using = |task: usize| {
                    plan.uses[task].iter().find(|using| using.location == location).expect("a use")
                };
                // All accesses of the host for some rounds, in the order of one queue.
                let rounds =
                    (0..3).flat_map(|round| queue.iter().map(move |at| (round, at.task())));
                let here = rounds.filter(|&(_, at)| host(at) == host(task));
                let mut behind = here.skip_while(|&at| at != (1, task)).skip(1);
                let own = using(task).reception(1);
                let used = behind.any(|(round, at)| using(at).reception(round) == own);
                let tight = rooms.iter().any(|&(writer, of, Wait { task: at, lag })| {
                    let most = if bug == Bug::StaysTight { 1 - lag } else { -lag };
                    of == location && at == task && ahead[writer][task] > most
                });
                delivery.stays =
                    using(task).per_round > 0 && (!used || bug == Bug::StaysUsed) && !tight;
            }
        }
    }

    /// Adds a location with data.
    fn share(&mut self, overlay: &Overlay, location: usize, bug: Bug, rooms: &mut Vec<Room>) {
        let this = &overlay.locations[location];
        let (queue, writers) = (&this.queue, this.writers());
        let home = |place: usize| overlay.homes[queue[place].task()];
        let shares: Vec<_> =
            (0..overlay.hosts).map(|host| Share::new(overlay, location, host)).collect();
        for (place, access) in queue.iter().enumerate() {
            let (task, share) = (access.task(), &shares[home(place)]);
            let behind = share.before(&writers, place);
            let per_round = share.needed.len() as u8;
            let writes = access.writes();
            self.uses[task].push(Use { location, place, writes, data: true, per_round, behind });
            if writers.is_empty() {
                continue;
            }
            let previous = this.previous(place);
            let users = |writer: usize| {
                let reads = move |&at: &usize| !queue[at].writes() && this.previous(at) == writer;
                (0..queue.len()).filter(reads)
            };
            let wait = |at: usize| Wait { task: queue[at].task(), lag: i16::from(at < place) };
            let skips = writes && users(previous).any(|at| home(at) != home(writers[previous]));
            if !(bug == Bug::SkipsReaders && skips) {
                self.waits[task].push(wait(writers[previous]));
            }
            if !writes {
                continue;
            }
            let own = users(previous).filter(|&at| home(at) == home(place));
            self.waits[task].extend(own.map(wait));
            let writer = writers.iter().position(|&at| at == place).expect("a writer");
            for (to, share) in shares.iter().enumerate() {
                let Some(index) = share.needed.iter().position(|&needed| needed == writer) else {
                    continue;
                };
                let per_round = share.needed.len() as u8;
                self.deliveries[task].push(Delivery {
                    to,
                    location,
                    per_round,
                    index: index as u8,
                    stays: false,
                });
                self.direct[task] |= 1 << to;
                for at in (0..queue.len()).filter(|&at| home(at) == to) {
                    self.rooms[queue[at].task()] |= 1 << home(place);
                    // Of the receptions up to number 1 + r q + i - depth.
                    let depth = match bug {
                        Bug::RoomStrict => 1,
                        Bug::RoomLoose => 3,
                        _ => 2,
                    };
                    let most = index as i16 + 1 - depth - i16::from(share.before(&writers, at));
                    let lag = 1 + most.div_euclid(i16::from(per_round));
                    if bug != Bug::NoRoom {
                        rooms.push((task, location, Wait { task: queue[at].task(), lag }));
                    }
                }
            }
        }
    }

    /// Adds a control location: the rule of one host.
    fn order(&mut self, overlay: &Overlay, location: usize, bug: Bug) {
        let queue = &overlay.locations[location].queue;
        for (place, access) in queue.iter().enumerate() {
            let (task, writes) = (access.task(), access.writes());
            let home = overlay.homes[task];
            self.uses[task].push(Use {
                location,
                place,
                writes,
                data: false,
                per_round: 0,
                behind: 0,
            });
            for (at, other) in queue.iter().enumerate() {
                if at == place || !writes && !other.writes() {
                    continue;
                }
                let remote = overlay.homes[other.task()] != home;
                let slack = bug == Bug::ControlSlack && remote && writes && !other.writes();
                let lag = i16::from(at < place) - i16::from(slack);
                self.waits[task].push(Wait { task: other.task(), lag });
                if remote {
                    self.direct[other.task()] |= 1 << home;
                }
            }
        }
    }

    /// Derives the components and the bounds from the waits.
    fn close(&mut self) {
        let tasks = self.waits.len();
        self.ahead = closure(&self.waits);
        let near = |a: usize, b: usize| self.ahead[a][b] < FAR || self.ahead[b][a] < FAR;
        let connected = |a: usize| (0..tasks).filter(|&b| near(a, b)).map(|b| 1 << b).sum();
        self.component = (0..tasks).map(connected).collect();
    }

    /// Returns the most rounds by which one of two tasks can be ahead of the other one.
    pub fn apart(&self, a: usize, b: usize) -> Option<i16> {
        let most = self.ahead[a][b].max(self.ahead[b][a]);
        (most < FAR).then_some(most)
    }
}

/// Returns the most rounds by which each task can be ahead of each other one.
fn closure(waits: &[Vec<Wait>]) -> Vec<Vec<i16>> {
    let tasks = waits.len();
    let mut ahead = vec![vec![FAR; tasks]; tasks];
    for (task, waits) in waits.iter().enumerate() {
        ahead[task][task] = 0;
        for wait in waits {
            ahead[task][wait.task] = ahead[task][wait.task].min(1 - wait.lag);
        }
    }
    for via in 0..tasks {
        for a in 0..tasks {
            for b in 0..tasks {
                let sum = ahead[a][via] + ahead[via][b];
                ahead[a][b] = ahead[a][b].min(sum).min(FAR);
            }
        }
    }
    ahead
}
