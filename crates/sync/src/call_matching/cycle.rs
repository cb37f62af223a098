//! Finds cycles among notes: blocked members that wait for one another.
//!
//! # Costs
//! A depth-first search. Waits that need the same of the same members share a node, so a search
//! visits each pair of a member and such a node once, and each wait for a single member once.

/// The note of a blocked member.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) rank: usize,
    pub(super) call: u64,
    pub(super) object: usize,
    pub(super) set: Set,
    /// The progress that the members of the set have to make.
    pub(super) needed: u64,
}

/// The members of which a blocked member needs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    All,
    Group(usize),
    One(usize),
}

/// The needs that several notes may share: an object, a progress, the members, and the waiting
/// member, if it has to be left out of them.
type Common = (usize, u64, Set, Option<usize>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    /// On the current path of the search.
    Open,
    /// Leads to no cycle.
    Closed,
}

/// Returns two neighbours in a cycle of notes. The notes are in ascending order of ranks. The
/// neighbours are in different episodes or at different objects, if the cycle has such a pair.
/// `behind` returns whether a member lacks the progress that a note needs.
pub(super) fn find(
    notes: &[Note],
    group: impl Fn(usize) -> usize,
    behind: impl Fn(&Note, usize) -> bool,
) -> Option<(&Note, &Note)> {
    let mut common: Vec<(Common, usize)> = Vec::new();
    // The shared node of each note that needs more than one member.
    let shared = notes.iter().enumerate().map(|(at, note)| {
        if matches!(note.set, Set::One(_)) {
            return None;
        }
        let except = behind(note, note.rank).then_some(note.rank);
        let key = (note.object, note.needed, note.set, except);
        let known = common.iter().position(|(known, _)| *known == key);
        Some(
            notes.len()
                + known.unwrap_or_else(|| {
                    common.push((key, at));
                    common.len() - 1
                }),
        )
    });
    let shared = shared.collect::<Vec<_>>();
    // Returns the next successor of a node, from position `turn` on.
    let next = |node: usize, turn: &mut usize| -> Option<usize> {
        let Some(&((.., set, except), at)) = node.checked_sub(notes.len()).map(|at| &common[at])
        else {
            let turn = std::mem::replace(turn, 1);
            return (turn == 0).then(|| match notes[node].set {
                Set::One(rank) => {
                    let at = notes.binary_search_by_key(&rank, |note| note.rank).ok()?;
                    behind(&notes[node], rank).then_some(at)
                }
                _ => shared[node],
            })?;
        };
        let found = (*turn..notes.len()).find(|&to| {
            let rank = notes[to].rank;
            let meant = match set {
                Set::Group(of) => group(rank) == of,
                _ => true,
            };
            meant && except != Some(rank) && behind(&notes[at], rank)
        });
        *turn = found.map_or(notes.len(), |to| to + 1);
        found
    };
    let mut nodes = vec![(Seen::Never, 0); notes.len() + common.len()];
    let mut path = Vec::new();
    for start in 0..notes.len() {
        if nodes[start].0 != Seen::Never {
            continue;
        }
        nodes[start].0 = Seen::Open;
        path.push(start);
        while let Some(&node) = path.last() {
            match next(node, &mut nodes[node].1) {
                Some(to) if nodes[to].0 == Seen::Open => {
                    let first = path.iter().position(|&on| on == to).unwrap_or_default();
                    let circle = path[first..].iter().filter_map(|&node| notes.get(node)).collect();
                    return neighbours(circle);
                }
                Some(to) if nodes[to].0 == Seen::Never => {
                    nodes[to].0 = Seen::Open;
                    path.push(to);
                }
                Some(_) => (),
                None => {
                    nodes[node].0 = Seen::Closed;
                    path.pop();
                }
            }
        }
    }
    None
}

fn neighbours(circle: Vec<&Note>) -> Option<(&Note, &Note)> {
    let pairs = || circle.iter().copied().zip(circle.iter().copied().cycle().skip(1));
    let apart = |(one, other): &(&Note, &Note)| {
        // Waits for different steps of one episode are part of the same call.
        let wait = |note: &Note| (note.object, note.needed >> super::STEPS);
        wait(one) != wait(other)
    };
    pairs().find(apart).or_else(|| pairs().next())
}
