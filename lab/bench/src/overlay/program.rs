//! A program: cyclic tasks, each of which writes one value and reads some others.
//!
//! Task `t` writes value `t`. A round is the sequential program: level after level, in any order
//! within a level. The dependences are those of that program over all rounds, including those of a
//! reader on the next writer.
//!
//! # The grid
//! Five points: a task reads its four neighbours, in place (Gauss-Seidel). Its level is its
//! anti-diagonal.
//!
//! # Patterns
//! The dependences of a [`Pattern`] repeat after a number of timesteps, the period. A round is that
//! number of timesteps, or two if the period is one; each timestep has its own task and value for
//! every point. So timestep t reads what t-1 wrote, no task reads a value that is being written,
//! and only a task of a later round waits for readers: double buffering, with more buffers for
//! longer periods.
//!
//! ```text
//! stencil, three points, a round of two timesteps      value (point, phase)
//! phase 0   (0,0) (1,0) (2,0)   read phase 1 of the round before
//!             | \ / | \ / |
//! phase 1   (0,1) (1,1) (2,1)   read phase 0 of this round
//! ```
//!
//! Tasks of one point have consecutive numbers: a split of the tasks in this order is a split of
//! the points.

use std::fmt::Write as _;

use super::patterns::Pattern;
use super::work::{checksum, value};

/// A program of cyclic tasks.
#[derive(Debug)]
pub(crate) struct Program {
    /// The program's name.
    pub(crate) name: &'static str,
    /// The tasks, by number.
    pub(crate) tasks: Vec<Task>,
    /// The tasks of each level.
    pub(crate) levels: Vec<Vec<u32>>,
}

/// A task.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// The position in a round.
    pub(crate) level: u32,
    /// The tasks whose values it reads.
    pub(crate) reads: Vec<u32>,
    /// The tasks whose value it reads, or that read its value; all are of other levels.
    pub(crate) conflicts: Vec<u32>,
}

impl Program {
    /// Returns the five-point grid.
    pub(crate) fn grid(rows: usize, cols: usize) -> Self {
        let task = |t: usize| {
            let (i, j) = (t / cols, t % cols);
            let read = |there: bool, u: usize| there.then_some(u as u32);
            let around = [
                read(i > 0, t.wrapping_sub(cols)),
                read(j > 0, t.wrapping_sub(1)),
                read(j + 1 < cols, t + 1),
                read(i + 1 < rows, t + cols),
            ];
            ((i + j) as u32, around.into_iter().flatten().collect())
        };
        Self::new("grid", (0..rows * cols).map(task))
    }

    /// Returns the tasks of a pattern.
    pub(crate) fn of(pattern: Pattern, width: usize) -> Self {
        let phases = Self::phases(pattern, width);
        let task = |n: usize| {
            let (i, phase) = (n / phases, n % phases);
            let before = (phase + phases - 1) % phases;
            let reads = pattern.dependences(width, phase, i).into_iter();
            (phase as u32, reads.map(|j| (j * phases + before) as u32).collect())
        };
        Self::new(pattern.name(), (0..width * phases).map(task))
    }

    /// Returns the number of timesteps in a round of a pattern.
    fn phases(pattern: Pattern, width: usize) -> usize {
        match pattern.period(width) {
            1 => 2,
            more => more,
        }
    }

    fn new(name: &'static str, tasks: impl Iterator<Item = (u32, Vec<u32>)>) -> Self {
        let mut tasks: Vec<_> =
            tasks.map(|(level, reads)| Task { level, reads, conflicts: Vec::new() }).collect();
        let mut levels = Vec::new();
        for t in 0..tasks.len() {
            let level = tasks[t].level as usize;
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(t as u32);
            for u in tasks[t].reads.clone() {
                tasks[t].conflicts.push(u);
                tasks[u as usize].conflicts.push(t as u32);
            }
        }
        for task in &mut tasks {
            task.conflicts.sort_unstable();
            task.conflicts.dedup();
        }
        Self { name, tasks, levels }
    }

    /// Returns whether task `a` precedes task `b`, with which it conflicts, in every round.
    pub(crate) fn first(&self, a: u32, b: u32) -> bool {
        self.tasks[a as usize].level < self.tasks[b as usize].level
    }

    /// Returns the checksum of the sequential program.
    pub(crate) fn plain(&self, rounds: u64) -> u64 {
        let mut values = vec![0; self.tasks.len()];
        for round in 0..rounds {
            for &t in self.levels.iter().flatten() {
                let reads = self.tasks[t as usize].reads.iter().map(|&u| values[u as usize]);
                values[t as usize] = value(t, round, reads);
            }
        }
        checksum(values.into_iter())
    }

    /// Returns the program in the format of the compiled peers; see `lab/peers/overlay.h`.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} {}\n", self.tasks.len(), self.levels.len());
        for &t in self.levels.iter().flatten() {
            let Task { level, reads, conflicts } = &self.tasks[t as usize];
            let _ = write!(text, "{t} {level}");
            for list in [reads, conflicts] {
                let _ = write!(text, " {}", list.len());
                for u in list {
                    let _ = write!(text, " {u}");
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    /// The double loop over timesteps and points, with all values of all timesteps.
    fn double_loop(pattern: Pattern, width: usize, rounds: usize) -> u64 {
        let phases = Program::phases(pattern, width);
        let mut steps = vec![vec![0; width]];
        for t in 0..phases * rounds {
            let point = |i: usize| {
                let reads = pattern.dependences(width, t, i).into_iter().map(|j| steps[t][j]);
                value((i * phases + t % phases) as u32, (t / phases) as u64, reads)
            };
            let step = (0..width).map(point).collect();
            steps.push(step);
        }
        let last = &steps[steps.len() - phases..];
        checksum((0..width).flat_map(|i| last.iter().map(move |step| step[i])))
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn a_pattern_as_a_program_is_the_double_loop(width in 1_usize..70, rounds in 1_usize..12) {
            for pattern in Pattern::ALL {
                let plain = Program::of(pattern, width).plain(rounds as u64);
                prop_assert_eq!(plain, double_loop(pattern, width, rounds), "{}", pattern.name());
            }
        }

        #[test]
        fn tasks_that_conflict_are_of_different_levels(width in 1_usize..70, rows in 1_usize..9) {
            let patterns = Pattern::ALL.into_iter().map(|p| Program::of(p, width));
            for program in patterns.chain([Program::grid(rows, width)]) {
                for (t, task) in program.tasks.iter().enumerate() {
                    for &u in &task.conflicts {
                        prop_assert!(task.level != program.tasks[u as usize].level, "{}: {t} {u}", program.name);
                        prop_assert!(program.tasks[u as usize].conflicts.contains(&(t as u32)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_of_the_grid_goes_on_from_the_one_above() {
        let grid = Program::grid(3, 4);
        assert_eq!(grid.levels.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 3, 3, 2, 1]);
        assert_eq!(grid.tasks[5].reads, [1, 4, 6, 9]);
        assert!(grid.first(4, 5) && !grid.first(6, 5));
    }
}
