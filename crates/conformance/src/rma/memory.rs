//! Every operation, in every shape and on every type, compared with a memory that each member
//! simulates.
//!
//! # The simulated memory
//! Every member derives the operations of all members in a round from the number of the round. The
//! part of each member has two sections: one to which a single member puts, in order, and one to
//! which all members add. The contents after a sync therefore do not depend on the order of
//! operations, and every member computes them by itself.
//!
//! In some turns the sections are so long that most operations move more bytes than fit a message
//! between hosts: their data go as long messages, and some as several of them.

use std::time::Instant;

use syncline_fabric::Member;
use syncline_rma::{
    Element, Global, Rma, RmaError, Strided,
    element::{Complex, Number},
};
use syncline_signal::poll_schedule::PollSchedule;

use super::super::scene::hash;
use super::{PATIENCE, Random, Wrong, sync};

/// A number type for the operations of this file; exact for small values.
trait Value: Number + PartialEq + std::fmt::Debug {
    fn new(n: usize) -> Self;
}

macro_rules! values {
    ($($value:ty, $new:expr);*) => {$(
        impl Value for $value {
            fn new(n: usize) -> Self {
                let small = (n % 32) as i32 - 16;
                $new(small)
            }
        }
    )*};
}

values! {
    i32, |n: i32| n; i64, i64::from; f32, |n: i32| n as f32; f64, f64::from;
    Complex<f32>, |n: i32| Complex::new(n as f32, (n + 1) as f32);
    Complex<f64>, |n: i32| Complex::new(n.into(), (n - 1).into())
}

/// The number of elements of a section, and that of a long one. A part has two sections: one for
/// puts, one for additions.
const SECTION: usize = 3000;
const LONG: usize = 20_000;
const ROUNDS_OF_A_TYPE: u64 = 8;

pub(super) fn all(me: &mut Member, rma: &mut Rma, rounds: u64) -> Result<(), Wrong> {
    let rounds = rounds.div_ceil(ROUNDS_OF_A_TYPE).max(6);
    for turn in 0..rounds {
        match turn % 6 {
            0 => typed::<i64>(me, rma, turn),
            1 => typed::<f64>(me, rma, turn),
            2 => typed::<i32>(me, rma, turn),
            3 => typed::<Complex<f64>>(me, rma, turn),
            4 => typed::<f32>(me, rma, turn),
            _ => typed::<Complex<f32>>(me, rma, turn),
        }?;
    }
    Ok(())
}

/// The operation of a member in a round: its target, place, shape and values.
struct Step {
    section: usize,
    target: usize,
    offset: usize,
    counts: Vec<usize>,
    there: Vec<usize>,
    here: Vec<usize>,
    first: usize,
    adds: bool,
    how: usize,
    seed: usize,
}

/// Returns the steps of a member in a round. In each part, only one member puts to the first
/// section.
fn steps(section: usize, round: u64, rank: usize, size: usize) -> Vec<Step> {
    let mut random = Random(hash(round, rank as u64), 0);
    let owner = |target: usize| (target + round as usize) % size;
    let count = 1 + random.below(5);
    let step = |_| {
        let target = random.below(size);
        let adds = owner(target) != rank || random.below(2) == 0;
        let levels = random.below(4);
        // From the innermost level out; the elements of each level do not overlap.
        let inner = if section == SECTION { 12 } else { section / 6 };
        let mut counts = vec![1 + random.below(if levels == 0 { section } else { inner })];
        let (mut there, mut here, mut extents) = (Vec::new(), Vec::new(), [counts[0]; 2]);
        for _ in 0..levels {
            let count = 1 + random.below(5);
            let strides = extents.map(|extent| extent + random.below(4));
            if strides
                .iter()
                .zip(extents)
                .any(|(stride, extent)| stride * (count - 1) + extent > section)
            {
                break;
            }
            extents = [0, 1].map(|side| strides[side] * (count - 1) + extents[side]);
            counts.push(count);
            there.push(strides[0]);
            here.push(strides[1]);
        }
        let offset = usize::from(adds) * section + random.below(section + 1 - extents[0]);
        let first = random.below(section + 1 - extents[1]);
        Step {
            section,
            target,
            offset,
            counts,
            there,
            here,
            first,
            adds,
            how: random.below(4),
            seed: random.below(1 << 20),
        }
    };
    (0..count).map(step).collect()
}

impl Step {
    /// Visits every element, by its index at the target and its index in the local buffer.
    fn each(&self, mut visit: impl FnMut(usize, usize)) {
        let all: usize = self.counts[1..].iter().product();
        for group in 0..all {
            let (mut rest, mut there, mut here) = (group, self.offset, self.first);
            for (level, &count) in self.counts[1..].iter().enumerate() {
                there += rest % count * self.there[level];
                here += rest % count * self.here[level];
                rest /= count;
            }
            (0..self.counts[0]).for_each(|n| visit(there + n, here + n));
        }
    }

    fn values<T: Value>(&self) -> Vec<T> {
        (0..self.section).map(|n| T::new(hash(self.seed as u64, n as u64) as usize)).collect()
    }

    fn factor<T: Value>(&self) -> T {
        T::new(self.seed % 7 + 13)
    }

    /// Returns the contiguous runs, as a list.
    fn list(&self) -> Vec<(usize, usize, usize)> {
        let mut list = Vec::new();
        let mut last = 0;
        self.each(|there, here| {
            last += 1;
            if last % self.counts[0] == 1 % self.counts[0] {
                list.push((there, here, self.counts[0]));
            }
        });
        list
    }

    fn is_plain(&self) -> bool {
        self.counts.len() == 1
    }

    /// Performs the step.
    fn perform<T: Value>(&self, rma: &mut Rma, memory: &Global<T>) -> Result<(), RmaError> {
        let (target, values, factor) = (self.target, self.values::<T>(), self.factor::<T>());
        let shape = Strided { counts: &self.counts, strides: &self.there };
        let plain = || &values[self.first..self.first + self.counts[0]];
        match (self.adds, self.how) {
            (false, 0) => rma.put_list(memory, target, &self.list(), &values),
            (true, 0) => rma.accumulate_list(memory, target, &self.list(), factor, &values),
            (false, 1) if self.is_plain() => rma.put(memory, target, self.offset, plain()),
            (true, 1) if self.is_plain() => {
                rma.accumulate(memory, target, self.offset, factor, plain())
            }
            (false, 2) if self.is_plain() => {
                let handle = rma.start_put(memory, target, self.offset, plain())?;
                rma.wait(handle)
            }
            (true, 2) if self.is_plain() => {
                let mut handle =
                    rma.start_accumulate(memory, target, self.offset, factor, plain())?;
                let (late, mut poll) = (Instant::now() + PATIENCE, PollSchedule::new());
                while !rma.test(&mut handle)? && Instant::now() < late {
                    poll.pause();
                }
                Ok(())
            }
            (false, _) => {
                rma.put_strided(memory, target, self.offset, shape, &values, self.first, &self.here)
            }
            (true, _) => {
                let (offset, first) = (self.offset, self.first);
                rma.accumulate_strided(
                    memory, target, offset, shape, factor, &values, first, &self.here,
                )
            }
        }
    }

    /// Applies the step to the simulated memory.
    fn simulate<T: Value>(&self, part: &mut [T], sum: impl Fn(T, T) -> T) {
        let (values, factor) = (self.values::<T>(), self.factor::<T>());
        self.each(|there, here| {
            part[there] =
                if self.adds { sum(part[there], values[here] * factor) } else { values[here] };
        });
    }

    /// Reads the elements that the step would have written, in one of the possible ways.
    fn read<T: Value>(&self, rma: &mut Rma, memory: &Global<T>) -> Result<Vec<T>, RmaError> {
        let mut values = vec![T::new(3); self.section];
        let shape = Strided { counts: &self.counts, strides: &self.there };
        let (target, offset, first) = (self.target, self.offset, self.first);
        let plain = first..first + self.counts[0];
        match self.how {
            0 => rma.get_list(memory, target, &self.list(), &mut values)?,
            1 if self.is_plain() => rma.get(memory, target, offset, &mut values[plain])?,
            2 if self.is_plain() => {
                let handle =
                    rma.start_get(memory, target, offset, vec![T::new(0); self.counts[0]])?;
                values[plain].copy_from_slice(&rma.wait(handle)?);
            }
            3 if self.is_plain() => {
                let (head, tail) = values[plain].split_at_mut(self.counts[0] / 2);
                let middle = offset + head.len();
                rma.batch(|batch| {
                    batch.get(memory, target, offset, head)?;
                    batch.get(memory, target, middle, tail)
                })?;
            }
            _ => rma.get_strided(memory, target, offset, shape, &mut values, first, &self.here)?,
        }
        Ok(values)
    }
}

/// Runs a few rounds with numbers of one type.
fn typed<T: Value + std::ops::Add<Output = T>>(
    me: &mut Member,
    rma: &mut Rma,
    turn: u64,
) -> Result<(), Wrong> {
    let (rank, size) = (me.rank(), me.size());
    let section = if turn % 4 == 3 { LONG } else { SECTION };
    let memory = if turn.is_multiple_of(2) {
        rma.allocate::<T>(me, 2 * section)?
    } else {
        rma.allocate::<u8>(me, 2 * section * size_of::<T>())?.view::<T>()?
    };
    let mut simulated = vec![vec![zero::<T>(); 2 * section]; size];
    for round in turn * ROUNDS_OF_A_TYPE..(turn + 1) * ROUNDS_OF_A_TYPE {
        let wrong = |error: RmaError| Wrong(round, error.to_string());
        for step in steps(section, round, rank, size) {
            step.perform(rma, &memory).map_err(wrong)?;
        }
        sync(rma, hash(round, 77)).map_err(wrong)?;
        for step in (0..size).flat_map(|rank| steps(section, round, rank, size)) {
            step.simulate(&mut simulated[step.target], |a, b| a + b);
        }
        // The steps of the next round serve as the shapes of reads.
        for step in steps(section, round + 1, rank, size) {
            let found = step.read(rma, &memory).map_err(wrong)?;
            let mut different = None;
            step.each(|there, here| {
                let expected = simulated[step.target][there];
                if found[here] != expected {
                    different.get_or_insert((there, found[here], expected));
                }
            });
            if let Some((at, found, expected)) = different {
                let what = format!(
                    "element {at} of member {} is {found:?}, not {expected:?}",
                    step.target
                );
                return Err(Wrong(round, what));
            }
        }
        sync(rma, hash(round, 78)).map_err(wrong)?;
    }
    Ok(rma.free(me, memory)?)
}

fn zero<T: Element>() -> T {
    T::zeroed()
}
