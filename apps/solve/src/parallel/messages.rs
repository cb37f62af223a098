//! What the manager and the workers of a solver send to one another.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::codec::{Codec, CodecError, Reader, Writer};
use crate::poly::{Poly, Ring};
use crate::primes::Doubt;
use crate::solve::{Job, Mode};
use crate::task::Task;

/// Integers, sent as bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Integers(pub(super) Vec<i64>);

impl Serialize for Integers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytemuck::cast_slice(&self.0))
    }
}

impl<'de> Deserialize<'de> for Integers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Integers, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Integers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes of integers")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Integers, E> {
                match bytes.len() % size_of::<i64>() {
                    0 => Ok(Integers(bytemuck::allocation::pod_collect_to_vec(bytes))),
                    _ => Err(E::invalid_length(bytes.len(), &self)),
                }
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

/// A value that is encoded for other processes. Within a process, it goes along with its integers,
/// so that it need not be decoded.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Passed<X> {
    pub(super) integers: Integers,
    #[serde(skip)]
    pub(super) here: Option<X>,
}

impl<X> Default for Passed<X> {
    fn default() -> Passed<X> {
        Passed { integers: Integers::default(), here: None }
    }
}

/// A value that is passed.
pub(super) trait Value: Sized {
    fn write(&self, writer: &mut Writer);
    fn read(reader: Reader<'_>) -> Result<Self, CodecError>;
}

impl Value for Task {
    fn write(&self, writer: &mut Writer) {
        writer.task(self);
    }

    fn read(reader: Reader<'_>) -> Result<Task, CodecError> {
        reader.whole_task()
    }
}

impl Value for Vec<Chain> {
    fn write(&self, writer: &mut Writer) {
        writer.chains(self);
    }

    fn read(reader: Reader<'_>) -> Result<Vec<Chain>, CodecError> {
        reader.chains()
    }
}

impl Value for Job {
    fn write(&self, writer: &mut Writer) {
        writer.polys(self.inputs.iter());
        writer.polys(self.inequations.iter());
        writer.task(&self.task);
    }

    fn read(mut reader: Reader<'_>) -> Result<Job, CodecError> {
        let ring = reader.ring().clone();
        let (inputs, inequations) = (reader.polys()?, reader.polys()?);
        Ok(Job { ring, inputs, inequations, task: reader.whole_task()? })
    }
}

/// A system, and how it is to be solved.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Problem {
    /// Which of the systems of its [`Workers`](super::Workers) it is. Another one begins without
    /// cached subresultants, even if it is the same system.
    pub(super) number: u64,
    pub(super) names: Vec<String>,
    pub(super) prime: u64,
    pub(super) inputs: Integers,
    pub(super) how: How,
}

/// How a system is to be solved.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct How {
    pub(super) codec: Codec,
    /// What chains stand for.
    pub(super) mode: Mode,
    /// The seed of random numbers.
    pub(super) seed: u64,
}

impl Problem {
    pub(super) fn new(
        number: u64,
        ring: &Ring,
        equations: &[Poly],
        inequations: &[Poly],
        how: How,
    ) -> Problem {
        let inputs = encoded(how.codec, |writer| {
            writer.polys(equations.iter());
            writer.polys(inequations.iter());
        });
        Problem { number, names: ring.names().to_vec(), prime: ring.prime(), inputs, how }
    }
}

/// What a worker is to do.
#[derive(Serialize, Deserialize)]
pub(super) enum Order {
    /// An answer only.
    Nothing,
    /// Steps of a task until a time has passed.
    Steps { task: Passed<Task>, micros: u64 },
    /// A job of components, with a system of its own in the ring of the problem.
    Points { job: Passed<Job> },
    /// All steps of a task, some of them by other workers.
    Tree { task: Passed<Task> },
    /// The components of solved chains.
    Components { solved: Passed<Vec<Chain>>, factor: bool },
}

/// A task of the pool.
#[derive(Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) problem: Problem,
    pub(super) order: Order,
}

/// A task that is left, with what the pool orders tasks by.
#[derive(Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) task: Passed<Task>,
    pub(super) dimension: usize,
    pub(super) cost: f64,
}

/// What a worker has done.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) chains: Passed<Vec<Chain>>,
    /// Whether each chain is known to be irreducible, and why not.
    pub(super) primes: Vec<(bool, Option<Doubt>)>,
    pub(super) degrees: Vec<usize>,
    pub(super) left: Vec<Left>,
    pub(super) effort: Effort,
}

/// What workers have done, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// The number of steps.
    pub steps: u64,
    /// The number of tasks that were sent or forked.
    pub tasks: u64,
    /// The number of integers that were read.
    pub read: u64,
    /// The number of integers that were written.
    pub written: u64,
    /// The number of zeros among all these integers.
    pub zeros: u64,
    /// The time of steps, and of components, in microseconds.
    pub work_micros: u64,
    /// The time in which tasks and chains were decoded, in microseconds.
    pub read_micros: u64,
    /// The time in which they were encoded, in microseconds.
    pub write_micros: u64,
}

impl Effort {
    pub(super) fn add(&mut self, other: &Effort) {
        self.steps += other.steps;
        self.tasks += other.tasks;
        self.read += other.read;
        self.written += other.written;
        self.zeros += other.zeros;
        self.work_micros += other.work_micros;
        self.read_micros += other.read_micros;
        self.write_micros += other.write_micros;
    }

    /// Returns a value, and counts the integers that are decoded for it, and the time.
    pub(super) fn read<X: Value>(
        &mut self,
        codec: Codec,
        ring: &Ring,
        passed: Passed<X>,
    ) -> Result<X, CodecError> {
        let Passed { integers, here } = passed;
        if let Some(value) = here {
            return Ok(value);
        }
        let began = Instant::now();
        let value = X::read(Reader::new(codec, ring, &integers.0))?;
        self.read_micros += began.elapsed().as_micros() as u64;
        self.read += integers.0.len() as u64;
        self.zeros += zeros(&integers);
        Ok(value)
    }

    /// Encodes a value, and counts the integers and the time.
    pub(super) fn write<X: Value>(&mut self, codec: Codec, value: X) -> Passed<X> {
        let began = Instant::now();
        let integers = encoded(codec, |writer| value.write(writer));
        self.write_micros += began.elapsed().as_micros() as u64;
        self.written += integers.0.len() as u64;
        self.zeros += zeros(&integers);
        Passed { integers, here: Some(value) }
    }

    pub(super) fn working<X>(&mut self, work: impl FnOnce() -> X) -> X {
        let began = Instant::now();
        let value = work();
        self.work_micros += began.elapsed().as_micros() as u64;
        value
    }
}

/// Encodes integers.
pub(super) fn encoded(codec: Codec, write: impl FnOnce(&mut Writer)) -> Integers {
    let mut writer = Writer::new(codec);
    write(&mut writer);
    Integers(writer.finish())
}

pub(super) fn zeros(integers: &Integers) -> u64 {
    integers.0.iter().filter(|&&integer| integer == 0).count() as u64
}
