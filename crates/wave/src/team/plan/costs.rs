//! The expected time of a pass on a team.
//!
//! # Contract
//! [`Costs`] has the times of the parts of a pass, and [`Costs::pass_ns`] returns that of the pass.
//! The time from a band to the next is the greatest of these:
//!
//! | it takes                        | because                                                   |
//! |---------------------------------|-----------------------------------------------------------|
//! | a band of a member              | its threads compute                                       |
//! | a panel                         | the disk of its group reads and writes                    |
//! | two messages and two pieces     | the last piece of the western member at a cut and the     |
//! |                                 | first one of the eastern member follow each other in turn |
//! | the turn of a slot, divided by  | a panel is read, computed by each member of the group in  |
//! | the number of slots             | turn, and written, before the next one is in its slot     |
//!
//! The last member begins when all others have run their first band.
//!
//! # Correctness
//! A pass is a graph of tasks with fixed times. Its tests compare it with that graph, task by task.
//!
//! # Source
//! The period of a graph of tasks that repeat is the greatest mean time of its cycles: F. Baccelli,
//! G. Cohen, G. J. Olsder and J.-P. Quadrat, *Synchronization and Linearity*, Wiley 1992. The table
//! has the cycles that are the longest in practice.

use super::link::Link;
use crate::strip::cut::Cuts;
use crate::strip::plan::{Question, StreamPlan};
use crate::team::groups::Groups;

/// The nanoseconds of a panel beside those of its bytes, for the requests to read and to write it
/// and for the tasks of its band.
const PANEL_NS: f64 = 2e5;

/// The nanoseconds of the parts of a pass.
#[derive(Clone, Debug)]
pub(super) struct Costs<'g> {
    groups: &'g Groups,
    bands: usize,
    slots: usize,
    /// The threads of a member.
    threads: f64,
    /// To read or to write the panel of a group.
    disk: f64,
    /// For each member, its pieces of a band.
    pieces: Vec<Vec<f64>>,
    /// For each cut, the messages eastward and westward.
    messages: Vec<[f64; 2]>,
}

impl<'g> Costs<'g> {
    /// Returns the costs of a plan. `narrow` asks about the columns of the largest group, whose
    /// threads compute for `busy` nanoseconds in a pass.
    pub(super) fn new(
        narrow: &Question,
        busy: f64,
        plan: &StreamPlan,
        cuts: &Cuts,
        groups: &'g Groups,
        links: &[Link],
    ) -> Self {
        let (members, largest) = (groups.members_in_all(), groups.largest() as f64);
        let bands = cuts.chain().bands();
        let band = busy / bands as f64 / largest * members as f64;
        let pieces = |member| cuts.parts(member).into_iter().map(|part| part * band).collect();
        let messages = |(member, link): (usize, &Link)| {
            let values = cuts
                .share(member)
                .east
                .map_or([0; 2], |cut| [cut.eastward_len(bands / 2), cut.westward_len(bands / 2)]);
            values.map(|values| link.ns(values * narrow.value))
        };
        Costs {
            groups,
            bands,
            slots: plan.panels,
            threads: narrow.threads as f64 / largest,
            disk: narrow.pass_of(busy) / bands as f64 + PANEL_NS,
            pieces: (0..members).map(pieces).collect(),
            messages: links.iter().enumerate().map(messages).collect(),
        }
    }

    /// Returns the expected nanoseconds of a pass.
    pub(super) fn pass_ns(&self) -> f64 {
        let band: Vec<f64> = self.pieces.iter().map(|pieces| pieces.iter().sum()).collect();
        let computed = band.iter().map(|band| band / self.threads);
        let exchanged = self.messages.iter().zip(self.pieces.windows(2)).map(|(ways, pieces)| {
            let (last, first) = (pieces[0].last(), pieces[1].first());
            ways.iter().chain(last).chain(first).sum()
        });
        let turns = (0..self.groups.count()).map(|group| {
            let members = self.groups.members(group);
            let eastward = self.messages[members.start..members.end - 1].iter().map(|ways| ways[0]);
            let turn = band[members].iter().copied().chain(eastward).sum::<f64>();
            (turn + 2.0 * self.disk) / self.slots as f64
        });
        let period = computed.chain(exchanged).chain(turns).fold(self.disk, f64::max);
        let begin: f64 = band.iter().zip(&self.messages).map(|(band, ways)| band + ways[0]).sum();
        let last = band.last().copied().unwrap_or(0.0);
        begin + (self.bands - 1) as f64 * period + last + 2.0 * self.disk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_testkit::{Random, cases};

    /// Returns the nanoseconds of a pass whose tasks begin as soon as they may, with one thread for
    /// each member.
    fn simulated(costs: &Costs<'_>) -> f64 {
        let Costs { groups, bands, slots, disk, pieces, messages, .. } = costs;
        let members = pieces.len();
        let (mut read, mut written) = (vec![0.0; groups.count()], vec![vec![]; groups.count()]);
        // The end of the first piece of the band before, and the end of all pieces so far.
        let (mut first, mut free) = (vec![0.0_f64; members], vec![0.0_f64; members]);
        for p in 0..*bands {
            for group in 0..groups.count() {
                let slot = p.checked_sub(*slots).map_or(0.0, |before| written[group][before]);
                read[group] = f64::max(read[group], slot) + disk;
            }
            // Members run band p from west to east; what comes from the east is of band p - 1.
            let before = first.clone();
            let mut east = 0.0;
            for m in 0..members {
                let mut now = free[m].max(read[groups.group(m)]).max(east);
                let last = pieces[m].len() - 1;
                for (c, piece) in pieces[m].iter().enumerate() {
                    if c == last && m + 1 < members && p > 0 {
                        now = now.max(before[m + 1] + messages[m][1]);
                    }
                    now += piece;
                    if c == 0 {
                        first[m] = now;
                    }
                }
                free[m] = now;
                east = now + messages.get(m).map_or(0.0, |ways| ways[0]);
            }
            for (group, written) in written.iter_mut().enumerate() {
                let computed = groups.members(group).map(|m| free[m]).fold(0.0, f64::max);
                let since = written.last().copied().unwrap_or(0.0);
                written.push(f64::max(since, computed) + disk);
            }
        }
        written.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The bounds of the estimate are no theorem: they are those that these seeds have. So every
    /// tier takes its seeds from these 3000, and the arithmetic is the same on every machine.
    #[test]
    fn the_expected_time_is_about_that_of_the_tasks() {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for seed in 0..u64::from(cases(3000).min(3000)) {
            let mut random = Random::new(seed);
            let (members, each) = (1 + random.below(6), 1 + random.below(3));
            let groups = Groups::new(&(0..members).map(|m| m / each).collect::<Vec<_>>());
            let mut time = |most: usize| 1.0 + random.below(most) as f64;
            let (piece, message, disk) = (time(1000), time(5000), time(3000));
            let mut random = Random::new(seed + 1_000_000);
            let mut about = |time: f64| time * (75 + random.below(50)) as f64 / 100.0;
            let count = 1 + seed as usize % 9;
            let pieces = (0..members).map(|_| (0..count).map(|_| about(piece)).collect());
            let pieces: Vec<Vec<f64>> = pieces.collect();
            let messages = (1..members).map(|_| [about(message), about(message)]).collect();
            let slots = 2 + seed as usize % 7;
            let bands = 20 + seed as usize % 300;
            let groups = &groups;
            let costs = Costs { groups, bands, slots, threads: 1.0, disk, pieces, messages };
            let ratio = costs.pass_ns() / simulated(&costs);
            (least, most) = (least.min(ratio), most.max(ratio));
            assert!((0.98..1.05).contains(&ratio), "seed {seed}: {ratio}");
        }
        println!("expected by simulated: {least} to {most}");
    }
}
