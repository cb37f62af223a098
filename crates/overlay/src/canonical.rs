//! The canonical form of a plan: each task writes exactly one location, and each location has
//! exactly one writer.
//!
//! # Contract
//! [`Plan::canonical`] rewrites any live plan with a few more tasks and locations. The result is
//! canonical ([`Plan::is_canonical`]) and live, and each original task sees the same values in each
//! iteration as in the original under the same [`Initial`]. The result states what each new task
//! does ([`Role`]) and what each new location holds ([`Content`]), so that a program with data and
//! bodies can run it. The form serves for proofs, for placement, and for frontiers in locations of
//! their own; overlays run without it.
//!
//! # Procedure
//! First all tasks get one total order that agrees with every queue of the live start. Everything
//! else follows from the ranks in this order; `t < u` means that `t` comes first. Queues are shown
//! front first.
//!
//! **1. Several writes.** A task that writes `k > 1` locations gets a private location `a` for its
//! results, and an export task for each of the `k`. A writer also reads: the main task still needs
//! the old values.
//! ```text
//! l1: t(X)            a:  t(X) e1(I) e2(I)
//! l2: t(X)     ──>    l1: t(I) e1(X)
//!                     l2: t(I) e2(X)            t < e1 < e2 < all tasks behind t
//! ```
//! The exports stand right behind their main task. A task between them would still see the old
//! values.
//!
//! **2. Several writers.** A location with writers `u1 < .. < um`, `m > 1`, becomes `m` versions,
//! one for each writer. A reader reads the version of the last writer before it. A reader before
//! `u1` reads `lm`, of the previous iteration. Writers read in the same way: `uj` reads `l(j-1)`,
//! and `u1` reads `lm`.
//! ```text
//! l: r(I) u1(X) s(I) u2(X) v(I)     ──>     l1:           u1(X) s(I) u2(I)
//!                                           l2: r(I) u1(I)           u2(X) v(I)
//! ```
//! So `lm` is the *home* of `l`: it starts with the initial value and ends with the last one. The
//! other versions are written before they are read. A single writer (`m = 1`) works in place.
//!
//! **3. No write.** A task that writes nothing gets a private, empty location. A location without a
//! writer gets a keeper, a task that does nothing, behind all other tasks.
//! ```text
//! l: t(I)      ──>    l: t(I) keep(X)      d: t(X)
//! ```
//!
//! **4. Parts.** Readers that need only a [`Part`] of a location read a copy of it, exported right
//! behind the writer (and behind its export, if it has one). They then never hold the whole
//! location.
//! ```text
//! l: t(X) r(I) s(I)     ──>     l: t(X) f(I) g(I)     p: f(X) r(I)     q: g(X) s(I)
//! ```
//! A part is copied once for each version of which it is read. It starts with the part of the
//! initial value if a reader reads it from the home.
//!
//! # Order of the rules
//! Rule 1 comes before 2: the reads of a main task are then ordinary reads, and find their version
//! by rank. In the opposite order, a main task would also lock the stale content of the version
//! that its export overwrites. Rule 2 comes before 4, as a part belongs to a version. Rule 3 comes
//! last: no other rule changes the tasks and locations that it applies to.
//!
//! # Correctness
//! Liveness: the requests enter task by task in one total order. Equal results: tasks that conflict
//! run in this order in every iteration, so it suffices to consider the sequential program. There,
//! by induction, version `j` holds the value of `l` from behind the exports of `uj` until behind
//! those of `uj` one iteration later, and the readers of this version stand in between.
//!
//! # Costs
//! | rule | for each                     | tasks | locations | requests | copies per iteration |
//! |------|------------------------------|-------|-----------|----------|----------------------|
//! | 1    | task with `k > 1` writes     | `k`   | 1         | `2k + 1` | `k` values           |
//! | 2    | location with `m > 1` writers| 0     | `m - 1`   | `s`      | `s` values           |
//! | 3    | task, or location, with none | 0, 1  | 1, 0      | 1        | none                 |
//! | 4    | part and version of it       | 1     | 1         | 2        | the part             |
//! | 4, 3 | part of an unwritten location| 1     | 1         | 1        | none                 |
//!
//! where `s` of the `m` writers write nothing else. In addition, a reader of several parts of one
//! location has a request for each. Time and space are linear in the result, up to logarithms.
//!
//! A chain of tasks that wait for each other gets longer by each sub-task in it. In return, a task
//! waits only for the copies of what it wrote, and no longer for its readers: neighbours can be
//! more iterations apart, by the number of sub-tasks between them (two on a grid with frontiers,
//! instead of one). A keeper connects readers that were unrelated: they too stay within two
//! iterations of each other. Constants that bodies can borrow are better left out of a plan.
//!
//! # Source
//! The canonical form is that of Clauss and Gustedt, "Experimenting iterative computations with
//! ordered read-write locks" (section 2.1), which does not describe how to derive it. This
//! procedure adds: the main task reads old values, versions wrap around, keepers, and parts of any
//! location instead of the frontiers of blocks.

mod form;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::check_error::CheckError;
use crate::deadlock_check;
use crate::initial::Initial;
use crate::plan::{LocationId, Plan, Queues, Task};
use crate::raw::AccessMode::{self, Exclusive, Inclusive};

pub use form::{Canonical, Content, Part, Role};

impl Plan {
    /// Returns whether each task writes exactly one location, and each location has exactly one
    /// writer.
    #[must_use]
    pub fn is_canonical(&self) -> bool {
        let mut writers = vec![0; self.locations.len()];
        let mut one_each = true;
        for requests in &self.requests {
            let mut writes = 0;
            for &(l, _) in requests.iter().filter(|r| r.1 == Exclusive) {
                writers[l as usize] += 1;
                writes += 1;
            }
            one_each &= writes == 1;
        }
        one_each && writers.iter().all(|&n| n == 1)
    }

    /// Returns the [canonical form](Canonical) of this plan: the same values in each iteration,
    /// with exactly one write for each task and one writer for each location. Readers of `parts`
    /// get copies of the parts in place of the whole. In a plan that is already canonical, without
    /// parts, only the order of the tasks changes: they are declared in the order of `initial`.
    ///
    /// # Errors
    /// Those of [`check`](Plan::check), and [`CheckError::Part`] if a part is given to a task that
    /// does not read its location, or writes it.
    ///
    /// # Examples
    /// Blocks of a 2 x 2 grid, each updated between its neighbours' frontiers. The derived plan has
    /// a main task for each block and a sub-task for each frontier. Only a block's own tasks hold
    /// the whole block:
    /// ```
    /// use syncline_overlay::AccessMode::{Exclusive, Inclusive};
    /// use syncline_overlay::{Initial, Plan, canonical::Part};
    ///
    /// let mut plan = Plan::new();
    /// let [nw, ne, sw, se] = ["NW", "NE", "SW", "SE"].map(|name| plan.location(name));
    /// let mut parts = Vec::new();
    /// // Each block, and the frontiers that it reads: beside it, and above or below it.
    /// for (block, beside, side, across, edge) in [
    ///     (nw, ne, "NE.west", sw, "SW.north"),
    ///     (ne, nw, "NW.east", se, "SE.north"),
    ///     (sw, se, "SE.west", nw, "NW.south"),
    ///     (se, sw, "SW.east", ne, "NE.south"),
    /// ] {
    ///     let name = format!("update {}", plan.location_name(block));
    ///     let reader =
    ///         plan.task(name, [(block, Exclusive), (beside, Inclusive), (across, Inclusive)]);
    ///     for (of, name) in [(beside, side), (across, edge)] {
    ///         parts.push(Part { of, name: name.to_owned(), readers: vec![reader] });
    ///     }
    /// }
    /// let canonical = plan.canonical(&Initial::Wave, &parts)?;
    /// let derived = canonical.plan();
    /// assert!(derived.is_canonical() && derived.check(&Initial::Wave).is_ok());
    ///
    /// let line = |task| {
    ///     let what = |(place, kind)| match kind {
    ///         Exclusive => format!("writes {}", derived.location_name(place)),
    ///         Inclusive => format!("reads {}", derived.location_name(place)),
    ///     };
    ///     let requests: Vec<String> = derived.requests(task).map(what).collect();
    ///     format!("{}: {}", derived.task_name(task), requests.join(", "))
    /// };
    /// let lines: Vec<String> = derived.tasks().map(line).collect();
    /// assert_eq!(
    ///     lines,
    ///     [
    ///         "update NW: writes NW, reads NE.west, reads SW.north",
    ///         "update NW: export NW.east: writes NW.east, reads NW",
    ///         "update NW: export NW.south: writes NW.south, reads NW",
    ///         "update NE: writes NE, reads NW.east, reads SE.north",
    ///         "update NE: export NE.west: writes NE.west, reads NE",
    ///         "update NE: export NE.south: writes NE.south, reads NE",
    ///         "update SW: writes SW, reads SE.west, reads NW.south",
    ///         "update SW: export SW.north: writes SW.north, reads SW",
    ///         "update SW: export SW.east: writes SW.east, reads SW",
    ///         "update SE: writes SE, reads SW.east, reads NE.south",
    ///         "update SE: export SE.north: writes SE.north, reads SE",
    ///         "update SE: export SE.west: writes SE.west, reads SE",
    ///     ],
    /// );
    /// # Ok::<(), syncline_overlay::error::CheckError>(())
    /// ```
    pub fn canonical(&self, initial: &Initial, parts: &[Part]) -> Result<Canonical, CheckError> {
        self.check_parts(parts)?;
        let order = total_order(&self.live(initial)?, self.tasks.len());
        Ok(Pass::new(self, parts, &order).copies().tasks())
    }

    fn check_parts(&self, parts: &[Part]) -> Result<(), CheckError> {
        for part in parts {
            for reader in &part.readers {
                let requests = self.requests.get(reader.0 as usize);
                if !requests.is_some_and(|list| list.contains(&(part.of.0, Inclusive))) {
                    return Err(CheckError::Part {
                        part: part.name.clone(),
                        task: self.name_of(*reader),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Returns all tasks in an order that agrees with all queues. Where the queues leave a choice, the
/// order is that of declaration.
fn total_order(queues: &Queues, tasks: usize) -> Vec<u32> {
    let mut behind = vec![Vec::new(); tasks];
    let mut waits = vec![0; tasks];
    for (t, edges) in (0..).zip(deadlock_check::edges(queues, tasks)) {
        waits[t as usize] = edges.len();
        edges.iter().for_each(|&(_, ahead)| behind[ahead as usize].push(t));
    }
    let free = |&t: &u32| waits[t as usize] == 0;
    let mut ready: BinaryHeap<_> = (0..tasks as u32).filter(free).map(Reverse).collect();
    let mut order = Vec::with_capacity(tasks);
    while let Some(Reverse(t)) = ready.pop() {
        order.push(t);
        for &u in &behind[t as usize] {
            waits[u as usize] -= 1;
            if waits[u as usize] == 0 {
                ready.push(Reverse(u));
            }
        }
    }
    order
}

/// The versions of one location of the original.
struct Versions {
    /// The ranks of the writers, ascending.
    writers: Vec<usize>,
    /// The versions, in the order of their writers; a single version if there is no writer.
    places: Vec<LocationId>,
    /// For each version, the numbers of the parts that are read from it, and their copies.
    copies: Vec<Vec<(usize, LocationId)>>,
}

impl Versions {
    /// Returns the version that the writer of this rank writes: the number of writers before it.
    fn written(&self, rank: usize) -> usize {
        self.writers.partition_point(|&w| w < rank)
    }

    /// Returns the version that a task of this rank reads: that of the last writer before it,
    /// cyclically.
    fn found(&self, rank: usize) -> usize {
        (self.written(rank) + self.places.len() - 1) % self.places.len()
    }
}

/// The rewriting pass: it creates first the locations, then the tasks in their order.
struct Pass<'a> {
    original: &'a Plan,
    parts: &'a [Part],
    order: &'a [u32],
    /// The versions of each original location.
    versions: Vec<Versions>,
    /// By reader and original location: the copies of parts that it reads in place of the whole.
    pieces: HashMap<(Task, LocationId), Vec<LocationId>>,
    made: Canonical,
}

impl<'a> Pass<'a> {
    /// Starts the pass with the versions of rule 2.
    fn new(original: &'a Plan, parts: &'a [Part], order: &'a [u32]) -> Self {
        let mut writers = vec![Vec::new(); original.locations.len()];
        for (rank, &t) in order.iter().enumerate() {
            for &(l, _) in original.requests[t as usize].iter().filter(|r| r.1 == Exclusive) {
                writers[l as usize].push(rank);
            }
        }
        let made = Canonical { plan: Plan::new(), roles: vec![], contents: vec![], homes: vec![] };
        let mut pass =
            Pass { original, parts, order, versions: vec![], pieces: HashMap::new(), made };
        for (of, writers) in original.locations().zip(writers) {
            let count = writers.len().max(1);
            let mut versions =
                Versions { writers, places: vec![], copies: vec![Vec::new(); count] };
            for version in 0..count {
                let after = pass.writer(&versions, version);
                let name = pass.name(original.location_name(of), &versions, after);
                versions.places.push(pass.location(name, Content::Version { of, after }));
            }
            pass.made.homes.push(versions.places[count - 1]);
            pass.versions.push(versions);
        }
        pass
    }

    /// Creates the locations of rule 4.
    fn copies(mut self) -> Self {
        let mut rank = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(place, &t)| rank[t as usize] = place);
        for (number, part) in self.parts.iter().enumerate() {
            for &reader in &part.readers {
                let of = part.of.0 as usize;
                let version = self.versions[of].found(rank[reader.0 as usize]);
                let known =
                    self.versions[of].copies[version].last().filter(|copy| copy.0 == number);
                let copy = known.map(|copy| copy.1).unwrap_or_else(|| {
                    let after = self.writer(&self.versions[of], version);
                    let name = self.name(&part.name, &self.versions[of], after);
                    let copy = self.location(name, Content::Part { part: number, after });
                    self.versions[of].copies[version].push((number, copy));
                    copy
                });
                let pieces = self.pieces.entry((reader, part.of)).or_default();
                if pieces.last() != Some(&copy) {
                    pieces.push(copy);
                }
            }
        }
        self
    }

    /// Creates the tasks of rules 1, 3 and 4.
    fn tasks(mut self) -> Canonical {
        for (rank, &t) in self.order.iter().enumerate() {
            let task = Task(t);
            let private = self.main(rank, task);
            for (location, _) in self.original.requests(task).filter(|r| r.1 == Exclusive) {
                self.exports(rank, task, location, private);
            }
        }
        for location in self.original.locations() {
            let Versions { writers, places, copies } = &self.versions[location.0 as usize];
            if writers.is_empty() {
                let kept = places.iter().copied().chain(copies.iter().flatten().map(|copy| copy.1));
                for place in kept.collect::<Vec<_>>() {
                    let name = format!("keep {}", self.made.plan.location_name(place));
                    self.task(name, Role::Keep { location }, [(place, Exclusive)]);
                }
            }
        }
        self.made
    }

    /// Creates the main task of `task`. Returns its private location, if it has one.
    fn main(&mut self, rank: usize, task: Task) -> Option<LocationId> {
        let name = self.original.task_name(task);
        let writes = self.original.requests(task).filter(|r| r.1 == Exclusive).count();
        let mut requests = Vec::new();
        for (l, kind) in self.original.requests(task) {
            let versions = &self.versions[l.0 as usize];
            let (found, written) = (versions.found(rank), versions.written(rank));
            let in_place = kind == Exclusive && writes == 1 && found == written;
            match self.pieces.get(&(task, l)) {
                _ if in_place => {}
                Some(pieces) => requests.extend(pieces.iter().map(|&piece| (piece, Inclusive))),
                None => requests.push((versions.places[found], Inclusive)),
            }
            if kind == Exclusive && writes == 1 {
                requests.push((versions.places[written], Exclusive));
            }
        }
        let private = match writes {
            0 => Some((format!("nothing of {name}"), Content::Nothing { of: task })),
            1 => None,
            _ => Some((format!("results of {name}"), Content::Results { of: task })),
        };
        let private = private.map(|(name, content)| self.location(name, content));
        requests.extend(private.map(|place| (place, Exclusive)));
        self.task(name.to_owned(), Role::Main { task }, requests);
        private
    }

    /// Creates the exports of one location that `task` writes: the value from its results, and its
    /// parts.
    fn exports(
        &mut self,
        rank: usize,
        task: Task,
        location: LocationId,
        results: Option<LocationId>,
    ) {
        let name = self.original.task_name(task);
        let versions = &mut self.versions[location.0 as usize];
        let written = versions.written(rank);
        let version = versions.places[written];
        let copies = std::mem::take(&mut versions.copies[written]);
        if let Some(results) = results {
            let name = format!("{name}: export {}", self.original.location_name(location));
            self.task(
                name,
                Role::Export { task, location },
                [(version, Exclusive), (results, Inclusive)],
            );
        }
        for (part, copy) in copies {
            let name = format!("{name}: export {}", self.parts[part].name);
            self.task(
                name,
                Role::ExportPart { task, part },
                [(copy, Exclusive), (version, Inclusive)],
            );
        }
    }

    /// Returns the writer of this version.
    fn writer(&self, versions: &Versions, version: usize) -> Option<Task> {
        versions.writers.get(version).map(|&rank| Task(self.order[rank]))
    }

    /// Returns the name of a version of a location, or of a part of it.
    fn name(&self, of: &str, versions: &Versions, after: Option<Task>) -> String {
        match after {
            Some(task) if versions.writers.len() > 1 => {
                format!("{of} after {}", self.original.task_name(task))
            }
            _ => of.to_owned(),
        }
    }

    fn location(&mut self, name: String, content: Content) -> LocationId {
        self.made.contents.push(content);
        self.made.plan.location(name)
    }

    fn task(
        &mut self,
        name: String,
        role: Role,
        requests: impl IntoIterator<Item = (LocationId, AccessMode)>,
    ) {
        self.made.roles.push(role);
        self.made.plan.task(name, requests);
    }
}
