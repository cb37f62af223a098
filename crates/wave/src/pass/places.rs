//! The locations of a pass, and the buffers for which they stand.
//!
//! # Contract
//! All members of a team make the same locations. Those of other members are empty here, but for
//! the bytes that travel.

use std::collections::BTreeMap;

use syncline_overlay::Location;
use syncline_store::direct_io::{IoQueue, Method};

use super::data::{Sink, Writers};
use super::panel::{GroupMemory, Panel};
use super::stage::Stage;
use super::{PROGRESS, Pass};
use crate::engine::Bands;
use crate::pass::sums::{PassSums, SlabSums};
use crate::team::sums::Units;
use crate::{Error, Result};

/// What crosses the cuts of an engine: for each cut in the order of the direction and each slot,
/// forward and back.
pub(super) type Cuts = Vec<[Vec<Location<[u8]>>; 2]>;

/// The locations of one engine.
pub(super) struct StagePlaces {
    /// For each member, slot and piece.
    pub(super) cells: Vec<Vec<Vec<Location<()>>>>,
    pub(super) cuts: Cuts,
    /// For each pair of neighbours and each slot, what the next engine reads.
    pub(super) margins: Vec<Message>,
}

/// For each slot, what comes in and the final slabs, of the group of this member. They are accessed
/// by tasks that hold the locations which stand for them.
pub(super) struct Panels {
    pub(super) incoming: Vec<Panel>,
    pub(super) finals: Vec<Panel>,
}

/// Bytes that one member gives another one.
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) to: usize,
    /// For each slot.
    pub(super) bytes: Vec<Location<[u8]>>,
}

/// The locations of a pass. Those of other members are empty.
pub(super) struct Places {
    /// For each group and slot, what comes in; and for each member and slot, its final slabs. Both
    /// stand for [`Panels`].
    pub(super) incoming: Vec<Vec<Location<()>>>,
    pub(super) finals: Vec<Vec<Location<()>>>,
    /// For each member, each engine but the last and each slot, what it passes on.
    pub(super) between: Vec<Vec<Vec<Location<Panel>>>>,
    pub(super) readers: Vec<Location<IoQueue>>,
    /// The sums of the arrays that are read, with the numbers of these, and those of the fields
    /// that are written, if they are wanted.
    pub(super) sums: Vec<(usize, Location<SlabSums>)>,
    pub(super) written: Option<Location<Vec<SlabSums>>>,
    /// For each member that has columns, what it checks, and what it sums.
    pub(super) left: Vec<Location<Option<Units>>>,
    pub(super) given: Vec<Location<Option<Units>>>,
    /// For each member, of which one in each group writes.
    pub(super) writers: Vec<Location<Writers>>,
    pub(super) stages: Vec<StagePlaces>,
    /// For each member and slot, its final values, if all get them.
    pub(super) whole: Vec<Vec<Location<[u8]>>>,
    /// The parts of blocks that another group writes, of each field.
    pub(super) edges: Vec<(usize, Message)>,
}

impl Pass<'_> {
    /// Makes the locations and the buffers of a pass.
    pub(super) fn places(
        &self,
        stages: &[Stage<'_>],
        sinks: Vec<Sink>,
        sums: &mut PassSums,
        memory: Option<&GroupMemory>,
    ) -> Result<(Places, Panels)> {
        let ((rank, members), fields) = (self.ranks(), sinks.len());
        let (Some(first), Some(last)) = (stages.first(), stages.last()) else {
            unreachable!("a pass has an engine")
        };
        let flight = first.engine.bands().flight;
        let most = first.engine.bands().most_slabs();
        // A member that is alone in its group has buffers of its own.
        let alone = |group| self.team.is_none_or(|of| of.groups.is_alone(group));
        let memory = memory.filter(|_| !alone(self.group()));
        let group = |slot: usize| {
            let incoming = self.panel((slot, most), memory)?;
            let bands = last.engine.bands();
            Ok::<_, Error>((incoming, self.outgoing(&sinks, (slot, most), bands, memory)?))
        };
        let (incoming, finals) = (0..flight).map(group).collect::<Result<_>>()?;
        let panels = Panels { incoming, finals };
        let stand = |name: String| named(&name, vec![(); flight]);
        let incoming = (0..self.groups()).map(|group| stand(format!("panel of {group}"))).collect();
        let finals = (0..members).map(|member| stand(format!("rows of {member}"))).collect();
        let mut between = Vec::new();
        for member in 0..members {
            let of_engine = |n: usize| {
                let panel = |_| match member == rank {
                    true => self.between(fields, most),
                    false => Ok(Panel::default()),
                };
                let panels = (0..flight).map(panel).collect::<Result<Vec<_>>>()?;
                Ok(named(&format!("between {n} of {member}"), panels))
            };
            between.push((1..stages.len()).map(of_engine).collect::<Result<_>>()?);
        }
        let edges = self.edges(&sinks, last.engine.bands());
        let message = |from, to, len: usize, name: &str| {
            let name = |r| format!("{name} of {from} for {to}, {r}");
            let bytes = (0..flight).map(|r| Location::absent(name(r), len.max(1))).collect();
            Message { from, to, bytes }
        };
        let of_stage = |(n, stage): (usize, &Stage<'_>)| {
            let cells = |member: usize| {
                let cells = |r| {
                    let name = format!("band {r} of {member} in {n}, piece");
                    named(&name, vec![(); stage.pieces(member).len()])
                };
                (0..flight).map(cells).collect()
            };
            let cut = |cut: usize| {
                let [forward, back] = stage.engine.crossing_bytes(cut);
                [("forward", forward), ("back", back + PROGRESS)].map(|(way, bytes)| {
                    let name = |r| format!("values {way} at {cut} in {n}, {r}");
                    (0..flight).map(|r| Location::absent(name(r), bytes.max(1))).collect()
                })
            };
            let pairs = (1..members).flat_map(|right| [(right - 1, right), (right, right - 1)]);
            let margins = pairs.filter(|_| n + 1 < stages.len()).map(|(from, to)| {
                let len = self.margin_bytes((from, to), fields, most);
                message(from, to, len, &format!("margin {n}"))
            });
            StagePlaces {
                cells: (0..members).map(cells).collect(),
                cuts: (1..members).map(|nth| cut(nth - 1)).collect(),
                margins: margins.collect(),
            }
        };
        let edges = edges.into_iter().map(|(field, from, to, most)| {
            (field, message(from, to, 8 + most, &format!("edge {field}")))
        });
        let edges = edges.collect();
        let stages = stages.iter().enumerate().map(of_stage).collect();
        let wholes = if self.to_all && members > 1 { 0..members } else { 0..0 };
        let whole = |member| {
            let len = self.whole_bytes(member, fields, last.engine.bands()).max(1);
            let name = |r| format!("final values of {member}, {r}");
            (0..flight).map(|r| Location::absent(name(r), len)).collect()
        };
        let whole = wholes.map(whole).collect();
        let queue = || IoQueue::new(Method::Auto);
        let reader = |member| Location::new(format!("reader of {member}"), queue());
        let mut mine = Some(sinks);
        let writer = |member| {
            let sinks = mine.take_if(|_| member == rank).unwrap_or_default();
            Location::new(format!("writer of {member}"), Writers { sinks, queue: queue() })
        };
        let written = std::mem::take(&mut sums.written);
        let written = Some(written).filter(|written| !written.is_empty());
        let read = std::mem::replace(&mut sums.read, vec![None; self.sources.len()]);
        let read = read.into_iter().enumerate().filter_map(|(array, sums)| Some((array, sums?)));
        // All members have such sums, or none has.
        let of_members = |units: &mut Option<Units>, what: &str| {
            let wanted = if units.is_some() { members } else { 0 };
            let mut own = |member| units.take_if(|_| member == rank);
            let place = |member| Location::new(format!("sums {what} {member}"), own(member));
            (0..wanted).map(place).collect()
        };
        let places = Places {
            incoming,
            finals,
            between,
            written: written.map(|sums| Location::new("sums of the fields", sums)),
            left: of_members(&mut sums.left, "that are left of"),
            given: of_members(&mut sums.given, "of the fields of"),
            readers: (0..members).map(reader).collect(),
            sums: read
                .map(|(n, sums)| (n, Location::new(format!("sums of array {n}"), sums)))
                .collect(),
            writers: (0..members).map(writer).collect(),
            stages,
            whole,
            edges,
        };
        Ok((places, panels))
    }

    /// Returns the fields and groups that give parts of blocks to others, which write them, with
    /// the greatest number of bytes for a band.
    fn edges(&self, sinks: &[Sink], bands: &Bands) -> Vec<(usize, usize, usize, usize)> {
        let (groups, mut most) = (self.groups(), BTreeMap::new());
        for (field, sink) in sinks.iter().enumerate() {
            let Sink::Columns(_, share) = sink else { continue };
            for band in 0..bands.count() {
                let rows = self.file_rows(&self.actual(bands.slabs_out(band)));
                for from in 0..groups {
                    for (to, bytes) in share.edges_from(rows.clone(), from) {
                        let most = most.entry((field, from, to)).or_insert(0);
                        *most = bytes.max(*most);
                    }
                }
            }
        }
        most.into_iter().map(|((field, from, to), most)| (field, from, to, most)).collect()
    }
}

fn named<T>(name: &str, values: Vec<T>) -> Vec<Location<T>> {
    let locations = values.into_iter().enumerate();
    locations.map(|(i, value)| Location::new(format!("{name} {i}"), value)).collect()
}
