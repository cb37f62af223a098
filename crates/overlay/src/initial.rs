//! The order in which the first requests enter the queues.
//!
//! All requests of a task enter in a single step (R4), task by task in the order of a total rank.
//! Then no tasks wait for each other in a cycle, and none ever will (see `deadlock_check`).

use crate::conflicts::{Requests, colours};
use crate::raw::AccessMode;

/// The order in which the first requests of the tasks enter the queues. It decides the results:
/// tasks that conflict run in this order in every iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Initial {
    /// The order of declaration. The results are those of the sequential program that runs the
    /// tasks one after the other, round by round.
    Program,
    /// By depth: a task comes right behind all earlier-declared tasks that it conflicts with. On a
    /// grid the depth is the diagonal `i + j`. The results are those of `Program`, and the ready
    /// tasks form a wave from the start.
    Wave,
    /// By a proper colouring: conflicting tasks have different colours, so all tasks of the first
    /// colour start at once. On a grid the order is red-black. The results **differ** from those of
    /// the sequential program.
    MaxParallel,
    /// By the given numbers, one for each task in the order of declaration. Smaller numbers come
    /// first; tasks with equal numbers stay in the order of declaration.
    Priority(Vec<i64>),
}

impl Initial {
    /// Returns the tasks in the order of their rank. `Priority` must have one number for each task.
    pub(crate) fn order(&self, requests: &Requests, locations: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..requests.len() as u32).collect();
        match self {
            Initial::Program => {}
            Initial::Wave => {
                let depth = depths(requests, locations);
                order.sort_by_key(|&t| depth[t as usize]);
            }
            Initial::MaxParallel => {
                let colour = colours(requests, locations);
                order.sort_by_key(|&t| colour[t as usize]);
            }
            Initial::Priority(priority) => order.sort_by_key(|&t| priority[t as usize]),
        }
        order
    }
}

/// Returns for each task the length of the longest chain of conflicting tasks declared before it.
fn depths(requests: &Requests, locations: usize) -> Vec<u32> {
    // Per location: the least depth for a reader, and for a writer.
    let mut free = vec![(0_u32, 0_u32); locations];
    requests
        .iter()
        .map(|task| {
            let depth = task
                .iter()
                .map(|&(l, kind)| {
                    let (reader, writer) = free[l as usize];
                    if kind == AccessMode::Exclusive { writer } else { reader }
                })
                .max()
                .unwrap_or(0);
            for &(l, kind) in task {
                let (reader, writer) = &mut free[l as usize];
                *writer = (*writer).max(depth + 1);
                if kind == AccessMode::Exclusive {
                    *reader = depth + 1;
                }
            }
            depth
        })
        .collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns a five-point grid: task (i, j) writes its own location and reads its neighbours'.
    fn grid(rows: u32, cols: u32) -> Vec<Vec<(u32, AccessMode)>> {
        let mut tasks = Vec::new();
        for i in 0..rows {
            for j in 0..cols {
                let mut task = vec![(i * cols + j, AccessMode::Exclusive)];
                let mut read = |i: u32, j: u32| task.push((i * cols + j, AccessMode::Inclusive));
                if i > 0 {
                    read(i - 1, j);
                }
                if j > 0 {
                    read(i, j - 1);
                }
                if j + 1 < cols {
                    read(i, j + 1);
                }
                if i + 1 < rows {
                    read(i + 1, j);
                }
                tasks.push(task);
            }
        }
        tasks
    }

    #[test]
    fn the_wave_of_a_grid_is_its_diagonals() {
        let depth = depths(&grid(5, 7), 35);
        for i in 0..5 {
            for j in 0..7 {
                assert_eq!(depth[i * 7 + j], (i + j) as u32);
            }
        }
    }

    #[test]
    fn a_grid_takes_two_colours() {
        let colour = colours(&grid(5, 7), 35);
        for i in 0..5 {
            for j in 0..7 {
                assert_eq!(colour[i * 7 + j], ((i + j) % 2) as u32);
            }
        }
    }

    #[test]
    fn wave_keeps_the_order_of_conflicting_tasks() {
        // Writer, two readers, writer, reader on one location.
        let x = AccessMode::Exclusive;
        let i = AccessMode::Inclusive;
        let tasks: Vec<_> = [x, i, i, x, i].map(|k| vec![(0, k)]).into();
        assert_eq!(depths(&tasks, 1), [0, 1, 1, 2, 3]);
        assert_eq!(Initial::Priority(vec![3, 1, 2, 1, 0]).order(&tasks, 1), [4, 1, 3, 2, 0]);
    }
}
