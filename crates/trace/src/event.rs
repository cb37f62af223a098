//! An event, and its encoding as three words of a ring.
//!
//! ```text
//!   word 0   time in nanoseconds                                 64 bits
//!   word 1   0 (24 bits) | kind (8 bits) | subject (32 bits)
//!   word 2   value                                               64 bits
//! ```

/// The kind of an event. The recording code defines what subject and value mean; the usual meaning
/// is given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum EventKind {
    /// A request was queued at location `subject`.
    Post = 0,
    /// A request at location `subject` was granted.
    Grant = 1,
    /// Work on `subject` began.
    Begin = 2,
    /// Work on `subject` ended.
    End = 3,
    /// A wait for `subject` to reach `value` was not satisfied by its first check.
    Wait = 4,
    /// That wait has ended.
    Woken = 5,
    /// `value` bytes of `subject` were mapped.
    Map = 6,
    /// `value` bytes of `subject` were unmapped.
    Unmap = 7,
    /// A point of the program's choice.
    Mark = 8,
}

impl EventKind {
    /// Every kind, at the index that is its number.
    const ALL: [EventKind; 9] = [
        EventKind::Post,
        EventKind::Grant,
        EventKind::Begin,
        EventKind::End,
        EventKind::Wait,
        EventKind::Woken,
        EventKind::Map,
        EventKind::Unmap,
        EventKind::Mark,
    ];
}

/// One recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time in nanoseconds since recording was first enabled in this process.
    pub time_ns: u64,
    /// The number of the recording thread, in the order of the threads' first events.
    pub thread: u32,
    /// The kind of the event.
    pub kind: EventKind,
    /// The object of the event: a number chosen by the recording code.
    pub subject: u32,
    /// Further detail: a number chosen by the recording code.
    pub value: u64,
}

impl Event {
    pub(crate) fn encode(time_ns: u64, kind: EventKind, subject: u32, value: u64) -> [u64; 3] {
        [time_ns, u64::from(kind as u8) << 32 | u64::from(subject), value]
    }

    /// Returns `None` if the words were not made by `encode`.
    pub(crate) fn decode(thread: u32, [time_ns, what, value]: [u64; 3]) -> Option<Event> {
        let kind = *EventKind::ALL.get((what >> 32) as usize)?;
        Some(Event { time_ns, thread, kind, subject: what as u32, value })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_its_words() {
        for (index, kind) in EventKind::ALL.into_iter().enumerate() {
            assert_eq!(index, kind as usize);
            let event = Event { time_ns: 1, thread: 2, kind, subject: u32::MAX, value: u64::MAX };
            assert_eq!(Event::decode(2, Event::encode(1, kind, u32::MAX, u64::MAX)), Some(event));
        }
        assert_eq!(Event::decode(0, [0, 9 << 32, 0]), None);
    }
}
