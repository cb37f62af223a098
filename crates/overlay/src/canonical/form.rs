//! The parts of a canonical plan, in terms of the original.

use crate::plan::{LocationId, Plan, Task};

/// A part of the value of a location, and the tasks that need no more of it than such parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The location.
    pub of: LocationId,
    /// The name of its copy.
    pub name: String,
    /// The tasks that read the location and need only this part (and other parts).
    pub readers: Vec<Task>,
}

/// The role of a task of a canonical plan. All tasks and locations named here are those of the
/// original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs the body of `task`. Its requests stand in the order of the original ones; each original
    /// request reads the locations whose [content](Canonical::content) is the version, or the
    /// parts, of its location. The task writes one of these:
    /// * a version of a location of which it reads nothing else: the body works in place;
    /// * a version of a location of which it reads another version: the body makes the new value
    ///   from the old one;
    /// * its private results: the body makes a new value for each location that the original
    ///   writes;
    /// * an empty private location.
    Main {
        /// The task.
        task: Task,
    },
    /// Copies the new value of `location` from the private results of `task` to its version (rule
    /// 1).
    Export {
        /// The task whose result is copied.
        task: Task,
        /// The location.
        location: LocationId,
    },
    /// Copies a part from the version that `task` wrote (rule 4).
    ExportPart {
        /// The task whose result is copied.
        task: Task,
        /// The index of the part in the list passed to [`Plan::canonical`].
        part: usize,
    },
    /// Does nothing: the location is never written (rule 3).
    Keep {
        /// The location.
        location: LocationId,
    },
}

impl Role {
    /// Returns the original task that it belongs to, or `None` for a keeper.
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

/// The content of a location of a canonical plan. All tasks and locations named here are those of
/// the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The value of a location as written by one of its writers.
    Version {
        /// The location.
        of: LocationId,
        /// The writer; `None` if the location is never written.
        after: Option<Task>,
    },
    /// The results of a task that writes several locations: a value for each, in the order of its
    /// requests.
    Results {
        /// The task.
        of: Task,
    },
    /// A part of a location as written by one of its writers.
    Part {
        /// The index of the part in the list passed to [`Plan::canonical`].
        part: usize,
        /// The writer; `None` if the location is never written.
        after: Option<Task>,
    },
    /// Nothing: the private location of a task that writes nothing.
    Nothing {
        /// The task.
        of: Task,
    },
}

/// A plan in canonical form, with the relation of its tasks and locations to the original.
///
/// Data: the [home](Canonical::home) of each location must start with its initial value, and each
/// part read from a home with the part of it; everything else is written before it is read. Bodies:
/// see [`Role`]. Tasks are declared in the order of their rank, so [`Initial::Program`] and
/// [`Initial::Wave`] give the results of the original under the initial order of the derivation;
/// other orders do not.
///
/// [`Initial::Program`]: crate::Initial::Program
/// [`Initial::Wave`]: crate::Initial::Wave
///
/// # Examples
/// Two tasks update one number in turn. In canonical form each writes its version, and reads the
/// other's:
/// ```
/// use std::collections::HashMap;
/// use syncline_overlay::AccessMode::{Exclusive, Inclusive};
/// use syncline_overlay::{
///     Initial, Location, Overlay, Plan, Runner, Stop, canonical::Role, plan::LocationId
/// };
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
///         Role::Main { task } if task == add =>
///             |(new, old): (&mut u64, &u64), _: &mut _| *new = *old + 1,
///         Role::Main { .. } => |(new, old): (&mut u64, &u64), _: &mut _| *new = *old * 2,
///         other => unreachable!("each task writes one location: {other:?}"),
///     });
/// }
/// overlay.check(Initial::Program)?.run(Runner::pool(2), Stop::after(3))?;
/// assert_eq!(
///     *cells[&canonical.home(number)].reader().acquire()?,
///     (((1 + 1) * 2 + 1) * 2 + 1) * 2
/// );
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
    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the role of a task of the canonical plan.
    ///
    /// # Panics
    /// Panics if the task does not exist.
    #[must_use]
    pub fn role(&self, task: Task) -> Role {
        self.roles[task.0 as usize]
    }

    /// Returns the content of a location of the canonical plan.
    ///
    /// # Panics
    /// Panics if the location does not exist.
    #[must_use]
    pub fn content(&self, place: LocationId) -> Content {
        self.contents[place.0 as usize]
    }

    /// Returns the location that holds the initial value of an original location before the start,
    /// and its last value at the end.
    ///
    /// # Panics
    /// Panics if the location does not exist.
    #[must_use]
    pub fn home(&self, original: LocationId) -> LocationId {
        self.homes[original.0 as usize]
    }
}
