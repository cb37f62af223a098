//! The messages between a pool's manager and its workers.
//!
//! | from the manager | meaning                                                           |
//! |------------------|-------------------------------------------------------------------|
//! | `Run`            | run these tasks, one after the other                              |
//! | `Yours`          | the awaited child was not begun: run it yourself                  |
//! | `Answer`         | the result of the awaited child                                   |
//! | `End`            | there are no more tasks                                           |
//! | `Forks`          | send children to the manager; else they run where they are joined |
//! | `Cancel`         | the current task is not wanted any more                           |
//! | `ForkTable`      | steal tasks from this fork table, as this worker                  |
//!
//! `Forks` must be the first order.
//!
//! | from a worker | meaning                                                               |
//! |---------------|-----------------------------------------------------------------------|
//! | `Done`        | the results of its next tasks, in their order, and the time they took |
//! | `Fork`        | a child of its current task                                           |
//! | `Join`        | it waits for a child                                                  |
//!
//! Each enumeration exists twice, to be serialized from borrowed data and to be deserialized. The
//! variants are in the same order.

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use crate::pool::TaskError;

/// The result of a task that was run.
pub(crate) type Ran<R> = Result<R, TaskError>;

#[derive(Serialize)]
pub(crate) enum OrderRef<'a, I: Clone + ExactSizeIterator<Item: Serialize>, R> {
    Run {
        #[serde(serialize_with = "in_order")]
        tasks: I,
        /// The numbers of the tasks, for traces; none if nothing is recorded.
        numbers: &'a [u64],
    },
    Yours,
    Answer(&'a Result<R, TaskError>),
    End,
    Forks,
    ForkTable {
        block: u32,
        worker: u64,
    },
    Cancel,
}

#[derive(Deserialize)]
pub(crate) enum Order<T, R> {
    Run { tasks: Vec<T>, numbers: Vec<u64> },
    Yours,
    Answer(Result<R, TaskError>),
    End,
    Forks,
    ForkTable { block: u32, worker: u64 },
    Cancel,
}

#[derive(Serialize)]
pub(crate) enum ReportRef<'a, T, R> {
    Done { results: &'a [Ran<R>], nanos: u64 },
    Fork { number: u64, task: &'a T },
    Join { number: u64 },
}

#[derive(Deserialize)]
pub(crate) enum WorkerReport<T, R> {
    Done { results: Vec<Ran<R>>, nanos: u64 },
    Fork { number: u64, task: T },
    Join { number: u64 },
}

fn in_order<S: Serializer, I: Clone + ExactSizeIterator<Item: Serialize>>(
    items: &I,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let items = items.clone();
    let mut sequence = serializer.serialize_seq(Some(items.len()))?;
    for item in items {
        sequence.serialize_element(&item)?;
    }
    sequence.end()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wire::{decode, encode};

    #[test]
    fn what_is_written_is_what_is_read() {
        type Nothing = std::vec::IntoIter<u8>;
        let tasks = [1_u32, 2, 300];
        let run: OrderRef<'_, _, u8> = OrderRef::Run { tasks: tasks.iter(), numbers: &[7] };
        let read: Order<u32, u8> = decode(&encode(&run).unwrap()).unwrap();
        let same = |read: &[u32], numbers: &[u64]| read == tasks && numbers == [7];
        assert!(matches!(read, Order::Run { tasks, numbers } if same(&tasks, &numbers)));
        let answer = encode(&OrderRef::<'_, Nothing, u8>::Answer(&Ok(7))).unwrap();
        assert!(matches!(decode(&answer).unwrap(), Order::<u8, u8>::Answer(Ok(7))));
        for (order, end) in [(OrderRef::<'_, Nothing, u8>::Yours, false), (OrderRef::End, true)] {
            let read: Order<u8, u8> = decode(&encode(&order).unwrap()).unwrap();
            assert!(if end { matches!(read, Order::End) } else { matches!(read, Order::Yours) });
        }
        let results = [Ok(5_u8), Err(TaskError::Panicked { message: "no".to_owned() })];
        let report = |report: ReportRef<'_, u8, u8>| decode(&encode(&report).unwrap()).unwrap();
        let done: WorkerReport<u8, u8> = report(ReportRef::Done { results: &results, nanos: 9 });
        assert!(matches!(done, WorkerReport::Done { results: read, nanos: 9 } if read == results));
        assert!(matches!(
            report(ReportRef::Fork { number: 3, task: &4 }),
            WorkerReport::Fork { number: 3, task: 4 }
        ));
        assert!(matches!(report(ReportRef::Join { number: 3 }), WorkerReport::Join { number: 3 }));
    }
}
