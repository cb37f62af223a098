//! Overlays on a team: the tasks of one overlay run in all members, which may be threads,
//! processes, and processes on several hosts.
//!
//! # Contract
//! Every member builds the same overlay, and calls [`Checked::run_on`]. Each task runs in one
//! member. The results are those of [`Checked::run`], bit for bit: the tasks that conflict run in
//! the same order, round by round.
//!
//! ```text
//!            host A                                     host B
//!  member 0 ──┐        ┌── member 1           member 2 ──┐        ┌── member 3
//!  tasks 0, 1 │ rounds │ tasks 2, 3           tasks 4, 5 │ rounds │ tasks 6, 7
//!             └─ data ─┘                                 └─ data ─┘
//!                     └── a release: rounds and data ──> ┘
//! ```
//!
//! # Phases
//! ```text
//! agree (one gather) ─> memory (one gather) ─> first values ─> all wait ─> run ─> all have ended
//!       │ plans differ        │ no memory                                  │      (one gather)
//!       └─────────────────────┴── the same error everywhere                │ failure: all stop
//!                                                                          └─> final values
//!                                           a value cannot be decoded: an error of all <─┘
//! ```
//! Nothing runs before all members have agreed on the whole plan.
//!
//! * `agreement` compares the plans and finds the first difference.
//! * `layout` decides where data are, what a release sends, and what a task waits for.
//! * `memory` is what the members of a host share. A worker polls the words of tasks of other
//!   members there, as it polls those of its own.
//! * `exchange` sends and receives. A release pushes its data with the grant to each host that
//!   waits for it: no member asks for data.
//! * `long` lets long data go by themselves, from slot to slot.
//! * `encoded` decodes the values of `Location::wire` before a body and encodes them after it.
//! * `values` distributes first and final values. `share` is how workers wait and fail together.
//!
//! # Leaving
//! A task that leaves runs its body no more, but its member passes its turns on: it forwards the
//! data and counts rounds. So no slot and no wait of another task changes. The run is over when all
//! tasks have left or have ended.
//!
//! # Failures
//! A body that fails or panics is published to all hosts, and all members stop after the bodies
//! that they run. The member that ran it returns the error, the others [`RunError::Elsewhere`] with
//! its rank. A member that dies ends all waits, with the [`Fault`](syncline_sync::Fault) of the
//! team.
//!
//! # Costs
//! A step within a host: as in `claimed`, and a fence. Between hosts: one message for each release
//! and host that waits, and the transfers of long data. To begin and end a run: three gathers and a
//! wait, and a gather more if a location has an encoded value, whose decoding may fail at the end.
//!
//! # Why this crate depends on `fabric`
//! A run on a team is a method of [`Checked`], and shares the engine, the compiled form and the
//! errors of a run in one process. A crate above both would need all of these in public.
//!
//! # Source
//! The paper names the distributed implementation as future work (Clauss and Gustedt, PDP 2010,
//! section 5). The construction is this project's; explored by stateright (`lab/models`).

mod agreement;
mod encoded;
mod exchange;
mod layout;
mod long;
mod memory;
mod phases;
mod share;
mod values;

use syncline_fabric::Member;

use crate::error::RunError;
use crate::overlay::Checked;
use crate::run::{RunReport, Runner};
use crate::stop::Stop;

impl Checked<'_> {
    /// Runs the overlay on a team: each member runs its tasks, with the results of
    /// [`run`](Self::run).
    ///
    /// A task runs in the member that [`Overlay::place`](crate::Overlay::place) names; by default
    /// the members get equal parts of the tasks, in the order of declaration. Every member runs its
    /// tasks with the workers of `runner`, of which one is the calling thread.
    ///
    /// # Locations
    /// A location that tasks of several members use is a
    /// [`Location::plain`](crate::Location::plain), a
    /// [`Location::slice`](crate::Location::slice) or a
    /// [`Location::wire`](crate::Location::wire), or has no data. Its first value is that of the
    /// member that runs its first writer. After the run it has its final value in each member with
    /// a task that uses it. If the run fails, such a location keeps the value that it had before.
    /// (If a final value of a [`Location::wire`](crate::Location::wire) cannot be decoded, other
    /// locations may have their final values.)
    /// Handles of this process wait at all locations until the end of the run.
    ///
    /// Writers do not wait for readers on other hosts, which have copies. So the rounds of tasks
    /// that conflict differ by at most 1, as in [`run`](Self::run), at locations that members of
    /// one host use and at locations without data; by at most 2 on a host that gets versions from
    /// others, and between hosts if there is one writer; and by at most 3 between hosts otherwise.
    ///
    /// # Collective
    /// All members call it, with overlays of the same tasks, locations and order, and with the same
    /// arguments. The bodies may differ.
    ///
    /// # Errors
    /// As for [`run`](Self::run). [`RunError::Differs`] if members have declared different
    /// overlays; [`RunError::Wire`] if a first or final value cannot be encoded or decoded;
    /// [`RunError::Elsewhere`] if the run fails, or cannot begin, at another member;
    /// [`RunError::Fault`] if a member is dead or has left. All members return an error if one
    /// does.
    ///
    /// # Examples
    /// A token goes around a ring of tasks, each in a member of its own:
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
    ///
    /// // Two hosts, as far as the members can tell, of two members each.
    /// let results = Team::hosts(2).threads(2).quiet().run(|me| {
    ///     let token = Location::plain("token", 0_u64);
    ///     let mut overlay = Overlay::new();
    ///     for rank in 0..me.size() {
    ///         let name = format!("member {rank}");
    ///         overlay.task(name, token.write(), |token, _| *token += 1);
    ///     }
    ///     let mut overlay = overlay.check(Initial::Program)?;
    ///     overlay.run_on(me, Runner::pool(1), Stop::after(10))?;
    ///     let token = *token.reader().acquire()?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(token)
    /// })?;
    /// for token in results {
    ///     assert_eq!(token?, 40);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn run_on(
        &mut self,
        me: &mut Member,
        runner: Runner,
        stop: Stop,
    ) -> Result<RunReport, RunError> {
        phases::run(self, me, runner, stop)
    }
}
