//! What a canonical plan is made of, in terms of the original.

use crate::overlay::Task;
use crate::plan::{LocationId, Plan};

/// A part of what a location holds, and who needs no more of it than that (and other parts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The location.
    pub of: LocationId,
    /// The name of its copy.
    pub name: String,
    /// Tasks that read the location and are content with this part.
    pub readers: Vec<Task>,
}

/// What a task of a canonical plan does. All tasks and locations named here are those of the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs the body of `task`. Its requests stand in the order of the original ones; for each of those, what
    /// it reads [is](Canonical::content) the version, or the parts, of that location. What it writes is
    /// * a version that it does not read beside: the body works in place,
    /// * a version of a location of which it reads another: the body makes the new value from the old one,
    /// * its private results: the same, for each location that the original writes,
    /// * nothing.
    Main {
        /// The task.
        task: Task,
    },
    /// Copies the new value of `location` from the private results of `task` to its version (rule 1).
    Export {
        /// Whose result it is.
        task: Task,
        /// The location.
        location: LocationId,
    },
    /// Copies a part out of the version that `task` wrote (rule 4).
    ExportPart {
        /// Whose result it is.
        task: Task,
        /// The number of the part, in the list that [`Plan::canonical`] was given.
        part: usize,
    },
    /// Does nothing: `location` is never written (rule 3).
    Keep {
        /// The location.
        location: LocationId,
    },
}

impl Role {
    /// The original task that it belongs to; none for a keeper.
    #[must_use]
    pub fn task(self) -> Option<Task> {
        match self {
            Role::Main { task } | Role::Export { task, .. } | Role::ExportPart { task, .. } => {
                Some(task)
            }
            Role::Keep { .. } => None,
        }
    }
}

/// What a location of a canonical plan holds. All tasks and locations named here are those of the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The value of a location as one of its writers left it.
    Version {
        /// The location.
        of: LocationId,
        /// The writer; none if it is never written.
        after: Option<Task>,
    },
    /// What a task that writes several locations makes of them: a value for each, as its requests stand.
    Results {
        /// The task.
        of: Task,
    },
    /// A part of a location as one of its writers left it.
    Part {
        /// The number of the part, in the list that [`Plan::canonical`] was given.
        part: usize,
        /// The writer; none if it is never written.
        after: Option<Task>,
    },
    /// Nothing: the private location of a task that writes nothing.
    Nothing {
        /// The task.
        of: Task,
    },
}

/// A plan in canonical form, and what its tasks and locations are in terms of the original.
///
/// Data: the [home](Canonical::home) of each location starts with its initial value, and each part with a
/// part of it; all else is written before it is read. Bodies: see [`Role`]. Tasks are declared in the order
/// of their rank: [`Initial::Program`] and [`Initial::Wave`] give the results of the original under the
/// initial order that it was made for; others do not.
///
/// [`Initial::Program`]: crate::Initial::Program
/// [`Initial::Wave`]: crate::Initial::Wave
///
/// # Examples
/// Two tasks take turns at one number. In canonical form each writes its version, and reads the other's:
/// ```
/// use std::collections::HashMap;
/// use syncline_overlay::AccessMode::{Exclusive, Inclusive};
/// use syncline_overlay::{Initial, Location, Overlay, Plan, Runner, Stop, canonical::Role, plan::LocationId};
///
/// let mut plan = Plan::new();
/// let number = plan.location("number");
/// let add = plan.task("add", [(number, Exclusive)]);
/// plan.task("double", [(number, Exclusive)]);
/// let canonical = plan.canonical(&Initial::Program, &[])?;
///
/// let derived = canonical.plan();
/// let start = |l| if l == canonical.home(number) { 1 } else { 0 };
/// let cell = |l| (l, Location::new(derived.location_name(l), start(l)));
/// let cells: HashMap<LocationId, Location<u64>> = derived.locations().map(cell).collect();
/// let mut overlay = Overlay::new();
/// for task in derived.tasks() {
///     let cell = |kind| &cells[&derived.requests(task).find(|r| r.1 == kind).unwrap().0];
///     let access = (cell(Exclusive).write(), cell(Inclusive).read());
///     overlay.task(derived.task_name(task), access, match canonical.role(task) {
///         Role::Main { task } if task == add => |(new, old): (&mut u64, &u64), _: &mut _| *new = *old + 1,
///         Role::Main { .. } => |(new, old): (&mut u64, &u64), _: &mut _| *new = *old * 2,
///         other => unreachable!("no task writes two locations, and nobody only reads: {other:?}"),
///     });
/// }
/// overlay.check(Initial::Program)?.run(Runner::pool(2), Stop::after(3))?;
/// assert_eq!(*cells[&canonical.home(number)].reader().acquire()?, (((1 + 1) * 2 + 1) * 2 + 1) * 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    pub(super) plan: Plan,
    pub(super) roles: Vec<Role>,
    pub(super) contents: Vec<Content>,
    pub(super) homes: Vec<LocationId>,
}

impl Canonical {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What a task of the canonical plan does.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn role(&self, task: Task) -> Role {
        self.roles[task.0 as usize]
    }

    /// What a location of the canonical plan holds.
    ///
    /// # Panics
    /// If there is no such location.
    #[must_use]
    pub fn content(&self, place: LocationId) -> Content {
        self.contents[place.0 as usize]
    }

    /// Where a location of the original has its initial value before the start, and its last one at the end.
    ///
    /// # Panics
    /// If there is no such location.
    #[must_use]
    pub fn home(&self, original: LocationId) -> LocationId {
        self.homes[original.0 as usize]
    }
}
