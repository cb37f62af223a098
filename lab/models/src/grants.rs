//! Grants with data between hosts: an overlay whose tasks run on several hosts.
//!
//! # Contract
//! *Overlay.* Each location has a cyclic queue of accesses, exclusive or inclusive, in the order of
//! the first requests. Every task does rounds 0, 1, 2 and so on; in each it accesses all its
//! locations, and then releases them all at once. Each task lives on one host. Its *word* is the
//! number of rounds that it has released. A host has the words of its own tasks, and *mirrors* of
//! words of tasks on other hosts, which messages raise. Channels are reliable, and FIFO for each
//! ordered pair of hosts.
//!
//! *Versions.* A location has writers `w_0 .. w_(m-1)`, in queue order, and `R_j` is the set of
//! readers between `w_j` and `w_(j+1)`, cyclic. Each release of a writer is a version. `R_j` and
//! `w_(j+1)` need the version of `w_j`, and `w_(j+1)` modifies it in place.
//!
//! *Receptions.* A host `H` needs `j` if it has an access in `R_j` or `w_(j+1)` and `w_j` is on
//! another host; `q` is the number of `j` that it needs. Reception 0 is the initial value, which is
//! in place before the host handles any message. The release of `w_j` in round `r` is reception
//! `n = 1 + r q + i`, where `i` is the number of needed writers before `w_j`. Reception `n` goes to
//! slot `n mod 2`. An access `a` of `H` uses reception `r q + c` in round `r`, where `c` is the
//! number of needed writers that stand before `a`. A host with `q = 0` has one slot.
//!
//! *Release.* A release of round `r` sends one message to each host that needs data of it, with the
//! word `r + 1` and the data of all locations that this host needs. The data are copied before the
//! word is raised on the task's own host; the message leaves before or after that. The receiver
//! copies all data to their slots, and then raises the mirror.
//!
//! *Long data* are announced by the message of the release, and move by themselves: `long` has the
//! states of a move. The mirror is raised when the message has been received and its long data, and
//! those of all releases before, have landed. The data leave the writer's slot itself if it *stays*
//! as it is: `q > 0`, no access of the host uses the reception after the release, and each wait for
//! room that concerns the slot follows from other waits with a round to spare. A task ends its next
//! round only when its data that stay have been sent.
//!
//! *Room.* A writer that will send reception `n` to `H` waits until all accesses of `H` to
//! receptions up to `n - 2` are released. Their words travel with any message from `H` to the
//! writer's host, or alone: a host must send them at the latest when it has nothing to run.
//!
//! | access `a`, round `r`    | waits for                    | rounds released, at least       |
//! |--------------------------|------------------------------|---------------------------------|
//! | any                      | `w_j`, which makes its data  | r + \[`w_j` before `a`\]        |
//! | `w_(j+1)`                | each of `R_j` on its host    | r + \[reader before `a`\]       |
//! | `w_j`, for each host `H` | each access `a'` of `H`      | r + 1 + floor((i - 1 - c') / q) |
//! | of a control location    | each conflicting access `a'` | r + \[`a'` before `a`\]         |
//!
//! A condition in brackets counts 1 if it holds, and 0 otherwise; `c'` is the `c` of `a'`.
//!
//! A *control location* has no data that travel, no slots and no slack; a release sends its word at
//! once to each host that waits for it.
//!
//! *Leaving.* A task that leaves has no bodies any more, but its turns are passed on: its host
//! waits as before, forwards the versions unchanged, and counts rounds. A notice goes to all hosts.
//! In a run without a number of rounds, a host passes turns on only while a task that waits connect
//! to the leaver has not left; the run is over when all have left.
//!
//! *Failure.* A body that fails is not released. A notice with its task goes to all hosts, which
//! begin no more bodies. If two tasks can fail at the same time, hosts agree on one as
//! [`Failure::Agreed`] does. A host sends nothing after its notice, so that a host which has the
//! notices of all hosts has also received all their messages. It may return only when all hosts
//! have ended.
//!
//! *Convergence.* The residual of a round is complete when all tasks have ended it, which one host
//! finds from the reports of all hosts. A task releases while the report of its host travels, so no
//! distance of tasks bounds how late the verdict is. A task therefore begins round `r` only when
//! its host has the verdict of round `r - D`, and all tasks do `n + D` rounds if round `n`
//! converges. Any `D >= 1` is live; `D = d + 1`, with the diameter `d` of the conflicts, gives the
//! number of rounds that the delayed stop of one host gives.
//!
//! # Properties
//! | property                                         | meaning                                 |
//! |--------------------------------------------------|-----------------------------------------|
//! | an access finds the version that one queue gives | results depend on no host and no delay  |
//! | no slot changes while it is used                 | bodies and receivers never share a slot |
//! | at most two receptions are unread                | two slots suffice; counted when sent    |
//! | one message for a release and host               |                                         |
//! | no task is too far ahead                         | the table of distances below            |
//! | every run ends                                   | no deadlock; failures reach all hosts   |
//! | the last writer's host has the result            | after leaving, too                      |
//! | no task passes the last round                    | all tasks do the same number of rounds  |
//! | all hosts name the same failed task              | with [`Failure::Agreed`]                |
//! | no message follows a notice of a failure         | the channels are empty when a host ends |
//!
//! | conflicting tasks of a location                    | rounds apart, at most |
//! |----------------------------------------------------|-----------------------|
//! | on one host with `q = 0`, or of a control location | 1                     |
//! | on one host with `q > 0`                           | 2                     |
//! | on different hosts, one writer                     | 2                     |
//! | on different hosts, two or more writers            | 3                     |
//!
//! All four are attained. With `w_0` on host A, `w_1` on B, then a slow reader on C, `w_1` is two
//! rounds ahead of the reader; `w_0` waits for `w_1`, not for the reader, and is three ahead.
//!
//! # Figure: a writer on host A, a reader behind it on host B (q = 1)
//! ```text
//! host A   w 0 ──1──┐  w 1 ──2──┐  w 2 waits: reception 3 goes to slot 1, which the reader
//!                   v           v             of reception 1 has not released
//! host B   slot 1:  1  slot 0:  2
//!          reader 0: begins with reception 1 ........ releases ──room: 1──> A: w 2 begins
//! ```
//!
//! # State of a slot
//! | state           | next event                                     | next state       |
//! |-----------------|------------------------------------------------|------------------|
//! | free for `n`    | the writer of `n` has room; its message leaves | in flight        |
//! | in flight       | the data are copied, and the mirror is raised  | filled with `n`  |
//! | filled with `n` | a writer of this host modifies it in place     | filled with `n`  |
//! | filled with `n` | the last access to `n` of this host releases   | free for `n + 2` |
//!
//! # What is modelled
//! Two or three hosts, up to four tasks, two locations, three or four rounds; data are the numbers
//! of versions. A body has two steps: it reads all, and it writes all. A release is one step, or
//! two in either order: the host's word, and the messages. A reception is one step, or two: the
//! data, and the mirrors. Room messages leave at any time, or only when the host is idle.
//!
//! A fault is noted where it happens, from the contents of the slots and from the order of one
//! queue ([`Overlay::due`]), which share no formula with the protocol. Not modelled: changes of the
//! form of a run, and the transport of final values to hosts that have not got them.
//!
//! # Explored
//! | overlay: 3 rounds, all orders of the steps           | states, from .. to | 4 rounds |
//! |------------------------------------------------------|--------------------|----------|
//! | `star`: one writer, readers before and behind it     | 992 .. 16 696      | 23 704   |
//! | `pipeline`: one way over three hosts                 | 652 .. 5 392       | 10 039   |
//! | `moving`: two writers, a host with two receptions    | 3 502 .. 84 066    | 124 066  |
//! | `moving on all`: three writers on three hosts        | 2 525 .. 69 266    | 101 242  |
//! | `in place`: two writers on one host                  | 1 913 .. 15 239    | 25 703   |
//! | `control`: a control location, and data              | 854 .. 11 598      | 18 936   |
//! | `joint`: two locations in a message                  | 992 .. 8 777       | 13 554   |
//! | `crossing`: data both ways between unconnected tasks | 3 646 .. 76 129    | 169 304  |
//!
//! With leaving, failures and convergence these are 266 models and 2 million states, in 20 s. With
//! long data there are 20 more of 2 or 3 rounds, and a ring, with 854 to 313 406 states.
//! Random overlays are explored as well; and random schedules of random overlays (2 to 4 hosts, up
//! to 8 tasks, 5 locations and 9 rounds) find the same table of distances, and no fault.
//!
//! | planted bug                                      | broken property, after how many steps  |
//! |--------------------------------------------------|----------------------------------------|
//! | no wait for room                                 | receptions, 6; version, 10; slot, 10   |
//! | room of `n - 3`                                  | receptions, 6; version, 10; slot, 10   |
//! | room of `n - 1`                                  | none: 134 to 905 states; no slack      |
//! | room posted when the body begins                 | receptions, 10; slot, 12               |
//! | slot by order of arrival; none if `q = 1`        | version, 7                             |
//! | slot by parity of the round; none if `q = 1`     | version, 8                             |
//! | mirror raised before all data are in place       | version, 4                             |
//! | a writer skips remote readers and their writer   | version, 1; slot, 4                    |
//! | data copied after the word is raised             | version, 6                             |
//! | room never travels alone where no data flow back | every run ends, 16                     |
//! | room travels with data only                      | every run ends, 12; data both ways, 20 |
//! | a control location with slack                    | version, 5; slot, 6                    |
//! | no wait for a task that has left                 | version, 7; every run ends, 29         |
//! | turns of a task that has left are not passed on  | every run ends, 18 to 24               |
//! | failure only to hosts that the task sends to     | every run ends, 12                     |
//! | two failures, each broadcast once                | all hosts name the same ..., 14        |
//! | a release completed after a notice of a failure  | no message follows ..., 10             |
//! | no wait for the verdict; D beyond all distances  | no task passes ..., 40                 |
//! | no initial value; none if no reader comes first  | version, 1                             |
//! | initial value filled in by the first body        | version, 9                             |
//! | messages of a pair overtake each other           | version, 6                             |
//! | mirror raised before long data have landed       | version, 4                             |
//! | ... before those of the release before           | version, 8                             |
//! | data leave a slot that the host uses             | slot, 3                                |
//! | data leave a slot with no round to spare         | slot, 17                               |
//! | a release before the last data have been sent    | slot, 32                               |
//!
//! "Version", "slot" and "receptions" are the first three properties.

mod checks;
mod long;
mod model;
mod overlay;
mod plan;
#[cfg(test)]
mod random;
mod rules;
mod state;
mod steps;
#[cfg(test)]
mod tests;

pub use long::{Move, Step};
pub use overlay::{Access, HOSTS, LOCATIONS, Location, Overlay, TASKS};
pub use plan::{Delivery, Plan, Share, Use, Wait};
pub use rules::{Bug, Failure, Flush, Release, Rules, Test};
pub use state::{Action, EMPTY, Faults, Host, Kind, Message, NONE, Phase, State, TORN};

/// A run of an overlay.
#[derive(Clone, Debug)]
pub struct Grants {
    /// The overlay.
    pub overlay: Overlay,
    /// The configuration.
    pub rules: Rules,
    plan: Plan,
}

impl Grants {
    /// Creates a run.
    pub fn new(overlay: Overlay, rules: Rules) -> Self {
        let plan = Plan::new(&overlay, rules.bug);
        Grants { overlay, rules, plan }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// Returns whether a bit of a set is set.
fn has(set: u8, at: usize) -> bool {
    set & 1 << at != 0
}
