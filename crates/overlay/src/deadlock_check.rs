//! The liveness check: whether an overlay can ever deadlock.
//!
//! # Contract
//! [`cycle`] returns a cycle of tasks that wait for each other in the given queues, or `None`. If
//! there is none, no run that starts with these queues ever deadlocks.
//!
//! # Why checking the first requests suffices
//! The waits-for graph has an edge from a task to each task with an earlier request, at the same
//! location, that excludes its own. A task that can run has no outgoing edges: it is a sink.
//! Running it, with its next requests posted before the current ones are released (R2), reverses
//! all its edges. Reversing all edges of a sink keeps an acyclic graph acyclic (the task becomes a
//! source), and every acyclic graph has a sink, so some task can always run. Conversely, none of
//! the tasks of a cycle can ever run.
//!
//! # Costs
//! Depth-first search over adjacent groups in each queue. Of two adjacent groups at least one is a
//! single writer, so the number of edges, and the time, are linear in the number of requests.
//!
//! # Source
//! Barbosa and Gafni, "Concurrency in heavily loaded neighborhood-constrained systems", TOPLAS 1989
//! (scheduling by edge reversal). For ordered locks: Clauss and Gustedt, JPDC 2010.

use crate::raw::AccessMode;

/// One edge of a cycle: a task, the location where it waits, and the task that it waits for.
pub(crate) type Step = (u32, u32, u32);

/// Returns a cycle of the waits-for graph of these queues (per location: tasks and kinds, front
/// first).
pub(crate) fn cycle(queues: &[Vec<(u32, AccessMode)>], tasks: usize) -> Option<Vec<Step>> {
    let edges = edges(queues, tasks);
    // Colours: 0 not visited, 1 on the current path, 2 finished.
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

/// Returns for each task the locations where it waits, and the tasks of the group just ahead of it
/// there. Edges to groups farther ahead are left out, as they follow transitively.
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
