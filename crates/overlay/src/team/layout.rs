//! Where the data of each location are in a run on a team, what each release sends, and what each
//! task waits for.
//!
//! # Contract
//! [`Layout::new`] computes the part of one member from the queues of the first requests and the
//! member that runs each task. All members compute the same sizes, slots and messages: what a host
//! sends is what the other host expects.
//!
//! | the location is used by     | its data are                         | a task waits for        |
//! |-----------------------------|--------------------------------------|-------------------------|
//! | tasks of one member         | in the location itself               | rounds (see `compiled`) |
//! | members of one host         | in the host's memory, in one slot    | rounds (see `compiled`) |
//! | several hosts, without data | nowhere                              | rounds (see `compiled`) |
//! | several hosts               | on each host, in one or two slots    | versions and room       |
//!
//! # Versions, receptions, slots
//! Each release of a writer makes a *version*. A reader between two writers of the queue, and the
//! second of the two, need the version of the first. A host that needs versions of writers on other
//! hosts *receives* them: reception 0 is the initial value, and the further ones are numbered in
//! the order of the queue. Reception n is in slot n modulo 2 of the host. Readers read it in place,
//! and writers of the host change it in place, until the next reception.
//! So a writer may be a round ahead of readers on other hosts, and a message never waits for a
//! reader.
//!
//! ```text
//! queue of x   u (host A)   r, s (B)   v (B)   t (A)        A receives v's version, B receives u's
//!
//! host A   slot 0: initial, u ──────┐               ┌─> slot 1: t reads, u writes ─────┐
//! host B   slot 0                   └─> slot 1: r, s read, v writes ─┘                 └─> slot 0
//! ```
//!
//! Let `q` be the number of writers whose versions a host receives in each round. The release of
//! such a writer in its round r is reception `1 + r q + i`, where `i` such writers stand before it
//! in the queue. An access in its round r refers to reception `r q + c`, where `c` such writers
//! stand before it.
//!
//! # Waits
//! An access waits for the writer of its version, and a writer also for the readers of that version
//! on its own host. Readers on other hosts have copies. A writer whose version is reception n on
//! another host waits until all accesses there to receptions up to n - 2 have been released: this
//! is its *room*. For an access with number `c`, in rounds:
//!
//! ```text
//! r' q + c <= n - 2 = r q + i - 1   =>   r' = r + floor((i - 1 - c) / q), released: r' + 1 rounds
//! ```
//!
//! All these accesses stand before the writer's in the queue. So the waits are a part of those of
//! the queue, and cannot deadlock.
//!
//! A wait for room is left out if it follows from other waits, as where data flow back to the
//! writer: in a ring of tasks, the token that a task gets has passed all others.
//!
//! # Messages
//! A release sends one message to each host that waits for it, with all the data that this host
//! needs of it. Long data go by themselves, from the slot itself where it stays as it is: see
//! [`long`](super::long). It also sends its rounds to each host with a writer that waits for its
//! room, where no such message does so.
//!
//! # Source
//! One writer per version is the second step of the canonical form ([`canonical`](crate::canonical)
//! for the model). Pushing data with the grant follows from the next request always being posted
//! before the release (Clauss and Gustedt, PDP 2010, name the distributed case as future work).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::compiled::{Wait, circle, order};
use crate::plan::Queues;
use crate::raw::AccessMode;
use crate::wire::encoded_len;

/// The members of the team and the tasks that they run.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    /// The rank of the member that runs each task.
    pub(crate) rank_of: Vec<u32>,
    /// The process and the host of each rank.
    pub(crate) process_of: Vec<usize>,
    pub(crate) host_of: Vec<usize>,
}

impl Team {
    pub(crate) fn rank(&self, task: u32) -> u32 {
        self.rank_of[task as usize]
    }

    pub(crate) fn host(&self, task: u32) -> usize {
        self.host_of[self.rank(task) as usize]
    }

    fn process(&self, task: u32) -> usize {
        self.process_of[self.rank(task) as usize]
    }
}

/// The offsets of data in the memory of the host, in even and in odd rounds of a task.
pub(crate) type Offsets = [usize; 2];

/// Data in a message: those of one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) len: usize,
    /// Whether it is an encoded value, which may be shorter.
    pub(crate) encoded: bool,
    /// The offsets at the sender, in a [`Message`]; at the receiver, in [`Layout::arrivals`].
    pub(crate) at: Offsets,
    /// Whether the sender's slot stays as it is until the data have left it: see `long`.
    pub(crate) stays: bool,
}

impl Part {
    /// The number of bytes that are sent, of a value that begins with these bytes.
    #[inline]
    pub(crate) fn used(&self, bytes: &[u8]) -> usize {
        if self.encoded { encoded_len(bytes).min(self.len) } else { self.len }
    }
}

/// A message that each release of a task sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The process that receives it: one that runs a task that waits for it.
    pub(crate) process: usize,
    pub(crate) parts: Box<[Part]>,
}

/// What the releases of a task of this member send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) messages: Vec<Message>,
    /// The processes that get the rounds of the task as room, and no message.
    pub(crate) rooms: Vec<usize>,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.rooms.is_empty()
    }
}

/// A location whose data are in the memory of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) encoded: bool,
    /// The distance of its two slots; 0 if it has one.
    pub(crate) stride: usize,
}

impl Stored {
    /// The offset of a slot, 0 or 1. Saturating: the memory for so long data is refused.
    pub(crate) fn slot(&self, slot: usize) -> usize {
        self.offset.saturating_add(slot.saturating_mul(self.stride))
    }
}

/// The part of one member in a run on a team.
#[derive(Debug)]
pub(crate) struct Layout {
    /// What the tasks of this member's host wait for: pairs of a task and a wait.
    pub(crate) waits: Vec<(u32, Wait)>,
    /// The bytes of the data in the memory of this host.
    pub(crate) bytes: usize,
    /// The locations whose data are there.
    pub(crate) stored: BTreeMap<u32, Stored>,
    /// The offsets of each access of this member's tasks to these locations.
    offsets: HashMap<(u32, u32), Offsets>,
    /// By task of this member.
    pub(crate) outgoing: HashMap<u32, Outgoing>,
    /// By task of another host: the parts of its messages to this host.
    pub(crate) arrivals: HashMap<u32, Box<[Part]>>,
    /// The locations whose first value comes from another host.
    pub(crate) initials: Vec<u32>,
    /// The locations used on several hosts, with data.
    pub(crate) remote: BTreeMap<u32, Remote>,
    /// The component of each task: tasks of two components have no location in common, not even
    /// indirectly.
    pub(crate) component: Box<[u32]>,
    /// The number of tasks in each component.
    pub(crate) sizes: Box<[u64]>,
}

/// A location with data that is used on several hosts.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// The task whose member has the first value: the first writer, or else the first reader.
    pub(crate) owner: u32,
    /// The writers, in the order of the queue.
    pub(crate) writers: Vec<u32>,
    pub(crate) hosts: BTreeMap<usize, Use>,
}

/// The use of such a location on one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Use {
    /// The writers whose versions it receives, by their index among all writers.
    pub(crate) received: Vec<usize>,
    /// Whether an access there refers to the initial value.
    pub(crate) initial: bool,
    /// The process of the first task that uses it there.
    pub(crate) process: usize,
}

impl Use {
    /// Returns the slot of the version that writer `writer` makes in a round.
    pub(crate) fn slot(&self, writer: usize, round: u64) -> Option<usize> {
        let i = self.received.iter().position(|&j| j == writer)?;
        Some(((1 + round * self.received.len() as u64 + i as u64) % 2) as usize)
    }
}

/// The data of two locations are this far apart at least: no two share a pair of cache lines.
pub(crate) const ALIGN: usize = 128;

impl Layout {
    /// Computes the part of the member `me`. `bytes` has the length of the data of each location,
    /// 0 for a location without data, and whether they are an encoded value.
    pub(crate) fn new(queues: &Queues, bytes: &[(usize, bool)], team: &Team, me: u32) -> Layout {
        let mut layout = Layout {
            waits: Vec::new(),
            bytes: 0,
            stored: BTreeMap::new(),
            offsets: HashMap::new(),
            outgoing: HashMap::new(),
            arrivals: HashMap::new(),
            initials: Vec::new(),
            remote: BTreeMap::new(),
            component: Box::default(),
            sizes: Box::default(),
        };
        let tasks = team.rank_of.len();
        (layout.component, layout.sizes) = components(queues, tasks);
        let mut rank = vec![0; tasks];
        order(queues, tasks).0.iter().zip(0_u32..).for_each(|(&t, r)| rank[t as usize] = r);
        let mut edges = Edges::default();
        for (l, queue) in (0_u32..).zip(queues) {
            let hosts: BTreeSet<usize> = queue.iter().map(|q| team.host(q.0)).collect();
            let members: BTreeSet<u32> = queue.iter().map(|q| team.rank(q.0)).collect();
            let (len, encoded) = bytes[l as usize];
            if hosts.len() <= 1 || len == 0 {
                edges.of_circle(queue, &rank);
            } else {
                let remote = Remote::new(queue, team);
                edges.of_versions(l, queue, &rank, &remote, team);
                layout.remote.insert(l, remote);
            }
            let host = team.host_of[me as usize];
            if members.len() > 1 && len > 0 && hosts.contains(&host) {
                layout.store(l, len, encoded);
            }
        }
        let tight = edges.drop_implied_rooms(tasks);
        layout.address(queues, team, me);
        let stays = |from: u32, l: u32| {
            !tight.contains(&from) && layout.remote[&l].is_last(&queues[l as usize], from, team)
        };
        let stays: BTreeSet<(u32, u32)> = edges
            .data
            .iter()
            .map(|&(from, _, l)| (from, l))
            .filter(|&(from, l)| team.rank(from) == me && stays(from, l))
            .collect();
        layout.route(edges, &stays, team, me);
        layout
    }

    /// Returns where an access of a task of this member finds its data; `None`: in the location
    /// itself.
    pub(crate) fn offsets(&self, task: u32, location: u32) -> Option<Offsets> {
        self.offsets.get(&(task, location)).copied()
    }

    /// Reserves the memory of a location on this host.
    fn store(&mut self, location: u32, len: usize, encoded: bool) {
        // Saturating, as in `slot`.
        let room = len.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        let stride = if self.remote.contains_key(&location) { room } else { 0 };
        self.stored.insert(location, Stored { offset: self.bytes, len, encoded, stride });
        self.bytes = self.bytes.saturating_add(room).saturating_add(stride);
    }

    /// Sets the offsets of the accesses of this member's tasks, and the initial values.
    fn address(&mut self, queues: &Queues, team: &Team, me: u32) {
        let host = team.host_of[me as usize];
        for (&l, stored) in &self.stored {
            let queue = &queues[l as usize];
            let remote = self.remote.get(&l);
            for &(t, _) in queue.iter().filter(|q| team.rank(q.0) == me) {
                let slots = remote.map_or([0, 0], |remote| remote.slots_of(queue, t, host));
                self.offsets.insert((t, l), slots.map(|slot| stored.slot(slot)));
            }
            if let Some(remote) = remote
                && team.host(remote.owner) != host
                && remote.hosts[&host].initial
            {
                self.initials.push(l);
            }
        }
    }

    /// Sorts the waits and messages of all tasks into those of this member and its host.
    /// `stays` has the tasks and locations whose data stay in their slot while they are sent.
    fn route(&mut self, edges: Edges, stays: &BTreeSet<(u32, u32)>, team: &Team, me: u32) {
        let host = team.host_of[me as usize];
        let waits = edges.waits.iter().chain(&edges.rooms).copied();
        self.waits = waits.filter(|&(t, _)| team.host(t) == host).collect();
        // The first task of each host that waits for a task of another host.
        let mut first: BTreeMap<(u32, usize), u32> = BTreeMap::new();
        let between_hosts = |&&(from, to): &&(u32, u32)| team.host(from) != team.host(to);
        for &(from, to) in edges.grants.iter().filter(between_hosts) {
            let first = first.entry((from, team.host(to))).or_insert(to);
            *first = (*first).min(to);
        }
        for (&(from, to_host), &to) in &first {
            let carried = edges.data.range((from, to_host, 0)..=(from, to_host, u32::MAX));
            let carried: Vec<u32> = carried.map(|&(_, _, l)| l).collect();
            if team.rank(from) == me {
                let part = |&l: &u32| {
                    let at = self.offsets[&(from, l)];
                    let Stored { len, encoded, .. } = self.stored[&l];
                    Part { len, encoded, at, stays: stays.contains(&(from, l)) }
                };
                let parts = carried.iter().map(part).collect();
                let message = Message { process: team.process(to), parts };
                self.outgoing.entry(from).or_default().messages.push(message);
            }
            if to_host == host {
                let part = |&l: &u32| {
                    let (stored, remote) = (&self.stored[&l], &self.remote[&l]);
                    let writer = remote.writers.iter().position(|&w| w == from);
                    let slot = |round| {
                        let slot = writer.and_then(|w| remote.hosts[&host].slot(w, round));
                        stored.slot(slot.unwrap_or(0))
                    };
                    let Stored { len, encoded, .. } = *stored;
                    Part { len, encoded, at: [slot(0), slot(1)], stays: false }
                };
                self.arrivals.insert(from, carried.iter().map(part).collect());
            }
        }
        // One room for each host whose writers wait for a task, unless a message goes there.
        let mut rooms: BTreeMap<(u32, usize), u32> = BTreeMap::new();
        for &(writer, Wait { task: reader, .. }) in &edges.rooms {
            let to_host = team.host(writer);
            if team.rank(reader) == me && !first.contains_key(&(reader, to_host)) {
                rooms.entry((reader, to_host)).or_insert(writer);
            }
        }
        for ((reader, _), writer) in rooms {
            self.outgoing.entry(reader).or_default().rooms.push(team.process(writer));
        }
        self.outgoing.retain(|_, outgoing| !outgoing.is_empty());
    }
}

impl Remote {
    fn new(queue: &[(u32, AccessMode)], team: &Team) -> Remote {
        let is_writer = |q: &&(u32, AccessMode)| q.1 == AccessMode::Exclusive;
        let writers: Vec<u32> = queue.iter().filter(is_writer).map(|q| q.0).collect();
        let owner = writers.first().copied().unwrap_or(queue[0].0);
        let mut hosts: BTreeMap<usize, Use> = BTreeMap::new();
        for &(t, _) in queue {
            let used = Use { process: team.process(t), ..Use::default() };
            hosts.entry(team.host(t)).or_insert(used);
        }
        for (place, &(t, _)) in queue.iter().enumerate() {
            let used = hosts.get_mut(&team.host(t));
            if let (Some(used), Some(j)) = (used, version_at(queue, place))
                && team.host(writers[j]) != team.host(t)
            {
                used.received.push(j);
            }
        }
        for used in hosts.values_mut() {
            used.received.sort_unstable();
            used.received.dedup();
        }
        let mut remote = Remote { owner, writers, hosts };
        for &(t, _) in queue {
            let host = team.host(t);
            let (count, _) = remote.reference(queue, t, host);
            if let Some(used) = remote.hosts.get_mut(&host) {
                used.initial |= count == 0 || used.received.is_empty();
            }
        }
        remote
    }

    /// Returns `c` and `q` of an access of a task on this host: in its round r it refers to
    /// reception `r q + c`.
    fn reference(&self, queue: &[(u32, AccessMode)], task: u32, host: usize) -> (u64, u64) {
        let received = &self.hosts[&host].received;
        let place = queue.iter().position(|q| q.0 == task).unwrap_or(0);
        let before = queue[..place].iter().filter(|q| q.1 == AccessMode::Exclusive).count();
        let count = received.iter().filter(|&&j| j < before).count();
        (count as u64, received.len() as u64)
    }

    /// Whether a writer's access is the last one of its host to its reception, and receptions
    /// follow it: from its release on, the host does not use the slot until the reception after the
    /// next.
    fn is_last(&self, queue: &[(u32, AccessMode)], writer: u32, team: &Team) -> bool {
        let host = team.host(writer);
        let (own, q) = self.reference(queue, writer, host);
        let behind = queue.iter().skip_while(|access| access.0 != writer).skip(1);
        let here = |access: &&(u32, AccessMode)| team.host(access.0) == host;
        let refers =
            |c: u64| move |access: &(u32, AccessMode)| self.reference(queue, access.0, host).0 == c;
        // The accesses with q behind them refer to the same reception as those with 0 in the next
        // round.
        q > 0
            && !behind.filter(here).any(refers(own))
            && !(own == q && queue.iter().filter(here).any(refers(0)))
    }

    /// Returns the slot of an access in even and in odd rounds.
    pub(crate) fn slots_of(
        &self,
        queue: &[(u32, AccessMode)],
        task: u32,
        host: usize,
    ) -> [usize; 2] {
        let (c, q) = self.reference(queue, task, host);
        [0, 1].map(|round| ((round * q + c) % 2) as usize)
    }
}

/// Returns the component of each task, and the number of tasks in each component.
fn components(queues: &Queues, tasks: usize) -> (Box<[u32]>, Box<[u64]>) {
    let mut parent: Vec<u32> = (0..tasks as u32).collect();
    fn root(parent: &mut [u32], mut t: u32) -> u32 {
        while parent[t as usize] != t {
            parent[t as usize] = parent[parent[t as usize] as usize];
            t = parent[t as usize];
        }
        t
    }
    for pair in queues.iter().flat_map(|queue| queue.windows(2)) {
        let (a, b) = (root(&mut parent, pair[0].0), root(&mut parent, pair[1].0));
        parent[a.max(b) as usize] = a.min(b);
    }
    let (mut component, mut sizes) = (vec![0; tasks], Vec::new());
    for t in 0..tasks as u32 {
        let root = root(&mut parent, t);
        if root == t {
            component[t as usize] = sizes.len() as u32;
            sizes.push(0);
        } else {
            component[t as usize] = component[root as usize];
        }
        sizes[component[t as usize] as usize] += 1;
    }
    (component.into(), sizes.into())
}

/// Returns the index, among the writers of a queue, of the one whose version the access at this
/// place refers to: the writer before it in the cyclic order. `None` if it is the only writer, or
/// if there are no writers.
fn version_at(queue: &[(u32, AccessMode)], place: usize) -> Option<usize> {
    let is_writer = |q: &&(u32, AccessMode)| q.1 == AccessMode::Exclusive;
    let all = queue.iter().filter(is_writer).count();
    let before = queue[..place].iter().filter(is_writer).count();
    let j = (before + all).checked_sub(1)? % all.max(1);
    let own = queue[place].1 == AccessMode::Exclusive && all == 1;
    (all > 0 && !own).then_some(j)
}

/// What the tasks wait for, and which waits need messages.
#[derive(Debug, Default)]
struct Edges {
    waits: Vec<(u32, Wait)>,
    /// Pairs of a task and a task that waits for its release.
    grants: BTreeSet<(u32, u32)>,
    /// A task, the host to which its release sends data, and the location.
    data: BTreeSet<(u32, usize, u32)>,
    /// The waits of writers for room: pairs of a writer and a wait for a task of another host.
    rooms: Vec<(u32, Wait)>,
}

impl Edges {
    /// Adds the waits of `compiled`: each group of the cyclic queue waits for the group before it.
    fn of_circle(&mut self, queue: &[(u32, AccessMode)], rank: &[u32]) {
        let groups = circle(queue);
        for (i, group) in groups.iter().enumerate().filter(|_| groups.len() > 1) {
            let ahead = &groups[(i + groups.len() - 1) % groups.len()];
            for &t in group {
                ahead.iter().for_each(|&u| self.wait(t, u, rank));
            }
        }
    }

    /// Removes the waits for room that follow from other waits. Returns the tasks with a wait for
    /// room, removed or not, that does not follow with a round to spare.
    ///
    /// A wait of a task in its round r for `r + lag` rounds of a second one, and of that one for
    /// `r + lag'` rounds of a third, give `r + lag + lag' - 1` rounds of the third. So a wait
    /// follows if there is a way with a sum of `1 - lag` of at most that of the wait itself.
    fn drop_implied_rooms(&mut self, tasks: usize) -> HashSet<u32> {
        let mut tight = HashSet::new();
        if self.rooms.is_empty() {
            return tight;
        }
        let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); tasks];
        self.waits.iter().for_each(|&(t, wait)| waits[t as usize].push(wait));
        self.rooms.sort_unstable();
        self.rooms.dedup();
        let mut kept = Vec::new();
        let mut distance = vec![i32::MAX; tasks];
        for rooms in self.rooms.chunk_by(|a, b| a.0 == b.0) {
            let cost = |wait: &Wait| 1 - wait.lag / 2;
            let most = rooms.iter().map(|(_, wait)| cost(wait)).max().unwrap_or(0);
            let (mut queue, mut seen) = (VecDeque::from([(rooms[0].0, 0)]), Vec::new());
            while let Some((t, far)) = queue.pop_front() {
                for wait in &waits[t as usize] {
                    let (there, known) = (far + cost(wait), &mut distance[wait.task as usize]);
                    if there <= most && there < *known {
                        *known = there;
                        seen.push(wait.task);
                        // Costs are 0 and 1.
                        match cost(wait) {
                            0 => queue.push_front((wait.task, there)),
                            _ => queue.push_back((wait.task, there)),
                        }
                    }
                }
            }
            let far = |wait: &Wait| distance[wait.task as usize] - cost(wait);
            kept.extend(rooms.iter().filter(|(_, wait)| far(wait) > 0));
            tight.extend(rooms.iter().filter(|(_, wait)| far(wait) >= 0).map(|r| r.1.task));
            seen.into_iter().for_each(|t| distance[t as usize] = i32::MAX);
        }
        self.rooms = kept;
        tight
    }

    fn wait(&mut self, task: u32, ahead: u32, rank: &[u32]) {
        let lag = if rank[ahead as usize] < rank[task as usize] { 2 } else { 0 };
        self.waits.push((task, Wait { task: ahead, lag }));
        self.grants.insert((ahead, task));
    }

    /// Adds the waits for versions and for room.
    fn of_versions(
        &mut self,
        location: u32,
        queue: &[(u32, AccessMode)],
        rank: &[u32],
        remote: &Remote,
        team: &Team,
    ) {
        for (place, &(t, kind)) in queue.iter().enumerate() {
            let host = team.host(t);
            let version = version_at(queue, place);
            if let Some(j) = version {
                let writer = remote.writers[j];
                self.wait(t, writer, rank);
                if team.host(writer) != host {
                    self.data.insert((writer, host, location));
                }
            }
            if kind == AccessMode::Inclusive {
                continue;
            }
            // The readers of the same version on this host.
            for (other, &(u, kind)) in queue.iter().enumerate() {
                let reads = kind == AccessMode::Inclusive && team.host(u) == host;
                if reads && version_before(queue, other) == version_before(queue, place) {
                    self.wait(t, u, rank);
                }
            }
            // Room on the hosts that receive its versions.
            let Some(j) = remote.writers.iter().position(|&w| w == t) else { continue };
            for (&there, used) in remote.hosts.iter().filter(|(there, _)| **there != host) {
                let Some(i) = used.received.iter().position(|&other| other == j) else { continue };
                for &(u, _) in queue.iter().filter(|q| team.host(q.0) == there) {
                    let (c, q) = remote.reference(queue, u, there);
                    let lag = 2 * (1 + (i as i64 - 1 - c as i64).div_euclid(q as i64));
                    self.rooms.push((t, Wait { task: u, lag: lag as i32 }));
                }
            }
        }
    }
}

/// Returns the index of the last writer before this place in the cyclic order, which may be the
/// access itself.
fn version_before(queue: &[(u32, AccessMode)], place: usize) -> usize {
    let is_writer = |q: &&(u32, AccessMode)| q.1 == AccessMode::Exclusive;
    let all = queue.iter().filter(is_writer).count();
    let before = queue[..place].iter().filter(is_writer).count();
    (before + all - 1) % all
}
