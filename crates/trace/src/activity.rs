//! What a thread did: the activities, their classes, and the objects that they name.

/// The activity of a span or of a mark. The table gives what `subject` and `detail` mean.
///
/// | activity        | subject          | detail                    | recorded by                    |
/// |-----------------|------------------|---------------------------|--------------------------------|
/// | `Step`          | task             | iteration                 | overlays, sweeps               |
/// | `Job`           | 0                | the task, or `u64::MAX`   | workers of pools               |
/// | `Section`       | section          | the caller's              | programs                       |
/// | `Serve`         | peer             | 0                         | servers of one-sided memory    |
/// | `Read`, `Write` | file             | bytes                     | direct input/output            |
/// | `AwaitTask`     | 0                | 0                         | workers without a ready task   |
/// | `AwaitLocation` | location         | 0                         | handles of locations           |
/// | `AwaitBarrier`  | barrier          | episode, from 0           | barriers                       |
/// | `AwaitLock`     | lock             | the rank of the member    | locks                          |
/// | `AwaitFence`    | peer             | 0                         | fences                         |
/// | `AwaitSync`     | barrier          | episode, from 0           | fence and barrier in one       |
/// | `AwaitMessage`  | peer             | 0                         | receivers                      |
/// | `AwaitDisk`     | file             | 0                         | threads that need a request    |
/// | `AwaitJob`      | peer             | 0                         | idle workers of pools          |
/// | `AwaitResult`   | peer             | 0                         | managers, parents of tasks     |
/// | `AwaitPermit`   | 0, or the peer   | 0                         | semaphores, full channels      |
/// | `AwaitProcess`  | peer             | 0                         | starts and ends of processes   |
/// | `AwaitSignal`   | 0                | the value waited for      | programs                       |
/// | `Ready`         | task             | 0                         | overlays: the last grant       |
/// | `Sent`          | peer             | a message: see below      | transports                     |
/// | `Received`      | peer             | a message: see below      | transports                     |
/// | `Mark`          | section          | the caller's              | programs                       |
/// | `HoldLock`      | lock             | the rank of the member    | locks that others waited for   |
///
/// # Peers and messages
/// A peer is the number of a process of the team, or `u32::MAX` for all of them; in a farm, it is
/// the number of a process of the farm. The two marks of a message, `Sent` and `Received`, have the
/// same detail, `number << 36 | way << 32 | sender << 16 | receiver`: on each way from one process
/// to another, messages are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Activity {
    /// A task of an overlay executed one iteration.
    Step = 0,
    /// A worker of a pool executed a task.
    Job = 1,
    /// A part of the program that has a name.
    Section = 2,
    /// A server executed requests of other members.
    Serve = 3,
    /// The disk executed a read request. Requests overlap one another and other spans.
    Read = 4,
    /// The disk executed a write request.
    Write = 5,
    /// A worker waited because no task was ready.
    AwaitTask = 6,
    /// A handle waited for the grant of its request.
    AwaitLocation = 7,
    /// A member waited at a barrier.
    AwaitBarrier = 8,
    /// A member waited for a lock.
    AwaitLock = 9,
    /// A member waited for the completion of its one-sided operations.
    AwaitFence = 10,
    /// A member waited in a fence and barrier in one.
    AwaitSync = 11,
    /// A member waited for a message.
    AwaitMessage = 12,
    /// A thread waited for a request to the disk.
    AwaitDisk = 13,
    /// A worker of a pool waited for a task.
    AwaitJob = 14,
    /// The manager of a pool waited for results.
    AwaitResult = 15,
    /// A thread waited for a permit, such as one of a bounded number of slots.
    AwaitPermit = 16,
    /// A thread waited for the start or the end of a process.
    AwaitProcess = 17,
    /// A thread waited for a signal of the program.
    AwaitSignal = 18,
    /// A task received the last grant that it needed.
    Ready = 19,
    /// A message was passed to the transport.
    Sent = 20,
    /// A message was taken from the transport.
    Received = 21,
    /// A point of the program's choice.
    Mark = 22,
    /// A member held a lock while another one waited for it. The span overlaps what the member did
    /// under the lock.
    HoldLock = 23,
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
    /// Every activity, at the index that is its number.
    pub const ALL: [Activity; 24] = [
        Activity::Step,
        Activity::Job,
        Activity::Section,
        Activity::Serve,
        Activity::Read,
        Activity::Write,
        Activity::AwaitTask,
        Activity::AwaitLocation,
        Activity::AwaitBarrier,
        Activity::AwaitLock,
        Activity::AwaitFence,
        Activity::AwaitSync,
        Activity::AwaitMessage,
        Activity::AwaitDisk,
        Activity::AwaitJob,
        Activity::AwaitResult,
        Activity::AwaitPermit,
        Activity::AwaitProcess,
        Activity::AwaitSignal,
        Activity::Ready,
        Activity::Sent,
        Activity::Received,
        Activity::Mark,
        Activity::HoldLock,
    ];

    /// Returns the activity with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Activity> {
        Activity::ALL.get(usize::from(number)).copied()
    }

    /// Returns the class of the activity.
    #[must_use]
    pub fn class(self) -> ActivityClass {
        match self as u8 {
            0..=3 => ActivityClass::Work,
            4..=5 | 23 => ActivityClass::Device,
            6..=18 => ActivityClass::Wait,
            _ => ActivityClass::Mark,
        }
    }

    /// Returns the words for tables and time lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Activity::Step => "step",
            Activity::Job => "task of a pool",
            Activity::Section => "section",
            Activity::Serve => "serves requests",
            Activity::Read => "read",
            Activity::Write => "write",
            Activity::AwaitTask => "no ready task",
            Activity::AwaitLocation => "waits for a location",
            Activity::AwaitBarrier => "waits at a barrier",
            Activity::AwaitLock => "waits for a lock",
            Activity::AwaitFence => "waits in a fence",
            Activity::AwaitSync => "waits in a sync",
            Activity::AwaitMessage => "waits for a message",
            Activity::AwaitDisk => "waits for the disk",
            Activity::AwaitJob => "waits for a task of the pool",
            Activity::AwaitResult => "waits for results",
            Activity::AwaitPermit => "waits for a permit",
            Activity::AwaitProcess => "waits for a process",
            Activity::AwaitSignal => "waits for a signal",
            Activity::Ready => "ready",
            Activity::Sent => "sent",
            Activity::Received => "received",
            Activity::Mark => "mark",
            Activity::HoldLock => "holds a lock",
        }
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
    /// The object of the activity: a number from [`new_ids`](crate::new_ids) or a rank.
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
