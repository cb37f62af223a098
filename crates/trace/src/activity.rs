//! What a thread did: the activities, their classes, and the objects that they name.

/// Defines the activities in the order of their numbers: the name, the class, and the words for
/// tables and time lines.
macro_rules! activities {
    ($($(#[$doc:meta])* $name:ident, $class:ident, $words:literal;)*) => {
        /// The activity of a span or of a mark. The table gives what `subject` and `detail` mean.
        ///
        /// | activity        | subject         | detail             | recorded by                 |
        /// |-----------------|-----------------|--------------------|-----------------------------|
        /// | `Step`          | task            | iteration          | overlays, sweeps            |
        /// | `Job`           | 0               | number of the task | workers of pools            |
        /// | `Section`       | section         | the caller's       | programs                    |
        /// | `Serve`         | peer            | 0                  | servers of memory           |
        /// | `Read`, `Write` | file            | bytes              | direct input/output         |
        /// | `AwaitTask`     | 0               | 0                  | idle workers of overlays    |
        /// | `AwaitLocation` | location        | 0                  | handles of locations        |
        /// | `AwaitBarrier`  | barrier         | episode, from 0    | barriers                    |
        /// | `AwaitLock`     | lock            | rank of the member | locks                       |
        /// | `AwaitFence`    | peer            | 0                  | fences                      |
        /// | `AwaitSync`     | barrier         | episode, from 0    | fence and barrier in one    |
        /// | `AwaitMessage`  | peer            | 0                  | receivers                   |
        /// | `AwaitDisk`     | file            | 0                  | threads that need data      |
        /// | `AwaitJob`      | peer            | 0                  | idle workers of pools       |
        /// | `AwaitResult`   | peer            | 0                  | managers, parents of tasks  |
        /// | `AwaitPermit`   | 0, or the peer  | 0                  | semaphores, full channels   |
        /// | `AwaitProcess`  | peer            | 0                  | starts, ends of processes   |
        /// | `AwaitSignal`   | 0               | the value          | programs                    |
        /// | `Sent`          | peer            | a message          | transports                  |
        /// | `Received`      | peer            | a message          | transports                  |
        /// | `Mark`          | section         | the caller's       | programs                    |
        /// | `HoldLock`      | lock            | rank of the member | locks that are waited for   |
        /// | `Command`       | slot            | number of the task | `syncline farm run`         |
        ///
        /// A task of a stealing pool has no number: the detail of its `Job` is `u64::MAX`.
        ///
        /// # Peers and messages
        /// A peer is the number of a process of the team, or `u32::MAX` for all of them; in a farm,
        /// it is the number of a process of the farm. The two marks of a message, `Sent` and
        /// `Received`, have the same detail, `number << 36 | way << 32 | sender << 16 | receiver`:
        /// on each way from one process to another, messages are numbered from 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Activity {
            $($(#[$doc])* $name,)*
        }

        impl Activity {
            /// Every activity, at the index that is its number.
            pub const ALL: [Activity; [$($words),*].len()] = [$(Activity::$name),*];

            /// Returns the class of the activity.
            #[must_use]
            pub fn class(self) -> ActivityClass {
                match self {
                    $(Activity::$name => ActivityClass::$class,)*
                }
            }

            /// Returns the words for tables and time lines.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Activity::$name => $words,)*
                }
            }
        }
    };
}

activities! {
    /// A task of an overlay executed one iteration.
    Step, Work, "step";
    /// A worker of a pool executed a task.
    Job, Work, "task of a pool";
    /// A part of the program that has a name.
    Section, Work, "section";
    /// A server executed requests of other members.
    Serve, Work, "serves requests";
    /// The disk executed a read request. Requests overlap one another and other spans.
    Read, Device, "read";
    /// The disk executed a write request.
    Write, Device, "write";
    /// A member held a lock while another one waited for it. The span overlaps what the member did
    /// under the lock.
    HoldLock, Device, "holds a lock";
    /// A process executed a task of `syncline farm run`. Tasks overlap one another.
    Command, Device, "command of a farm";
    /// A worker waited because no task was ready.
    AwaitTask, Wait, "no ready task";
    /// A handle waited for the grant of its request.
    AwaitLocation, Wait, "waits for a location";
    /// A member waited at a barrier.
    AwaitBarrier, Wait, "waits at a barrier";
    /// A member waited for a lock.
    AwaitLock, Wait, "waits for a lock";
    /// A member waited for the completion of its one-sided operations.
    AwaitFence, Wait, "waits in a fence";
    /// A member waited in a fence and barrier in one.
    AwaitSync, Wait, "waits in a sync";
    /// A member waited for a message.
    AwaitMessage, Wait, "waits for a message";
    /// A thread waited for a request to the disk.
    AwaitDisk, Wait, "waits for the disk";
    /// A worker of a pool waited for a task.
    AwaitJob, Wait, "waits for a task of the pool";
    /// The manager of a pool waited for results.
    AwaitResult, Wait, "waits for results";
    /// A thread waited for a permit, such as one of a bounded number of slots.
    AwaitPermit, Wait, "waits for a permit";
    /// A thread waited for the start or the end of a process.
    AwaitProcess, Wait, "waits for a process";
    /// A thread waited for a signal of the program.
    AwaitSignal, Wait, "waits for a signal";
    /// A message was passed to the transport.
    Sent, Mark, "sent";
    /// A message was taken from the transport.
    Received, Mark, "received";
    /// A point of the program's choice.
    Mark, Mark, "mark";
}

/// The classes of activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActivityClass {
    /// The thread computed.
    Work,
    /// The thread waited.
    Wait,
    /// A device worked, or a lock was held. The thread did something else meanwhile, or waited, in
    /// other spans.
    Device,
    /// A moment: `since` and `until` are equal.
    Mark,
}

impl Activity {
    /// Returns the activity with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Activity> {
        Activity::ALL.get(usize::from(number)).copied()
    }
}

/// One recorded span, or a mark, whose `since` and `until` are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The beginning, in nanoseconds; see [`snapshot`](crate::snapshot()) for time zero.
    pub since_ns: u64,
    /// The end, in nanoseconds.
    pub until_ns: u64,
    /// The number of the recording thread, in the order of the threads' first events.
    pub thread: u32,
    /// What the thread did.
    pub activity: Activity,
    /// The object of the activity: a number from [`new_ids`](crate::note::new_ids) or a rank.
    pub subject: u32,
    /// Further detail, as [`Activity`] gives it.
    pub detail: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_activity_is_at_its_number_and_in_the_class_of_its_name() {
        for (number, activity) in Activity::ALL.into_iter().enumerate() {
            assert_eq!(activity as usize, number);
            assert_eq!(Activity::from_number(number as u8), Some(activity));
            let waits = activity.name().starts_with("waits") || activity == Activity::AwaitTask;
            assert_eq!(activity.class() == ActivityClass::Wait, waits, "{activity:?}");
        }
        assert_eq!(Activity::from_number(Activity::ALL.len() as u8), None);
    }
}
