//! Is an overlay live? Once and for ever.
//!
//! # Contract
//! [`cycle`] finds a circle of tasks that wait for each other in the given queues, or says that there
//! is none. With none, no run ever deadlocks.
//!
//! # Why the first look suffices
//! The waits-for graph has an edge from a task to each task with an earlier request, on some location,
//! that excludes it. A task that can run has no edges out: a sink. Running it, with its next requests
//! posted before the present ones are released (R2), turns all its edges round. Turning round all
//! edges of a sink of an acyclic graph leaves it acyclic (it becomes a source), and an acyclic graph
//! has a sink. If on the other hand there is a circle, none of its tasks can ever run.
//!
//! # Costs
//! Depth-first over adjacent groups in each queue. Of two adjacent groups one is a single writer, so the
//! edges, and the time, are linear in the number of requests.
//!
//! # Source
//! Barbosa and Gafni, "Concurrency in heavily loaded neighborhood-constrained systems", TOPLAS 1989
//! (scheduling by edge reversal); for ordered locks: Clauss and Gustedt, JPDC 2010.

use crate::raw::AccessMode;

/// One step of a circle: a task, the location where it waits, and the task that it waits for.
pub(crate) type Step = (u32, u32, u32);

/// A circle in the waits-for graph of these queues (per location: tasks and kinds, first one first).
pub(crate) fn cycle(queues: &[Vec<(u32, AccessMode)>], tasks: usize) -> Option<Vec<Step>> {
    let edges = edges(queues, tasks);
    // 0: not seen, 1: on the path, 2: done.
    let mut colour = vec![0_u8; tasks];
    let mut path: Vec<(u32, usize)> = Vec::new();
    for start in 0..tasks as u32 {
        if colour[start as usize] != 0 {
            continue;
        }
        colour[start as usize] = 1;
        path.push((start, 0));
        while let Some(&mut (task, ref mut at)) = path.last_mut() {
            let Some(&(_, ahead)) = edges[task as usize].get(*at) else {
                colour[task as usize] = 2;
                path.pop();
                continue;
            };
            *at += 1;
            match colour[ahead as usize] {
                0 => {
                    colour[ahead as usize] = 1;
                    path.push((ahead, 0));
                }
                1 => {
                    let from = path.iter().position(|&(t, _)| t == ahead)?;
                    let step = |&(t, next): &(u32, usize)| {
                        let (location, ahead) = edges[t as usize][next - 1];
                        (t, location, ahead)
                    };
                    return Some(path[from..].iter().map(step).collect());
                }
                _ => {}
            }
        }
    }
    None
}

/// For each task: where it waits, and for whom. Only for the group just ahead: that one waits for the rest.
pub(crate) fn edges(queues: &[Vec<(u32, AccessMode)>], tasks: usize) -> Vec<Vec<(u32, u32)>> {
    let mut edges = vec![Vec::new(); tasks];
    for (location, queue) in queues.iter().enumerate() {
        let same_group = |a: &(u32, AccessMode), b: &(u32, AccessMode)| {
            a.1 == AccessMode::Inclusive && b.1 == AccessMode::Inclusive
        };
        let mut ahead: &[(u32, AccessMode)] = &[];
        for group in queue.chunk_by(same_group) {
            for &(task, _) in group {
                edges[task as usize].extend(ahead.iter().map(|&(u, _)| (location as u32, u)));
            }
            ahead = group;
        }
    }
    edges
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const X: AccessMode = AccessMode::Exclusive;
    const I: AccessMode = AccessMode::Inclusive;

    #[test]
    fn two_tasks_each_first_where_the_other_is_second() {
        let found = cycle(&[vec![(0, X), (1, X)], vec![(1, X), (0, X)]], 2);
        assert_eq!(found, Some(vec![(0, 1, 1), (1, 0, 0)]));
    }

    #[test]
    fn readers_do_not_wait_for_readers() {
        assert_eq!(cycle(&[vec![(0, I), (1, I)], vec![(1, I), (0, I)]], 2), None);
        assert_eq!(cycle(&[vec![(0, X), (1, I), (2, I), (3, X)]], 4), None);
    }

    #[test]
    fn a_circle_through_a_group_of_readers_is_found_behind_a_live_part() {
        let queues =
            [vec![(0, X), (1, I), (2, I), (3, X)], vec![(3, I), (4, X)], vec![(4, X), (2, X)]];
        assert_eq!(cycle(&queues, 5), Some(vec![(2, 2, 4), (4, 1, 3), (3, 0, 2)]));
    }
}
