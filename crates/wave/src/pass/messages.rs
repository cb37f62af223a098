//! What the members of a team give one another in a pass, beside what crosses the cuts of engines:
//! the margins of the next engine, parts of blocks, and the final values that all get in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::Pass;
use super::data::{Outgoing, Sink, Writers};
use super::panel::{Panel, PanelKind};
use crate::Result;
use crate::engine::Bands;
use crate::pass::spent::add;
use crate::team::columns::Members;

impl Pass<'_> {
    /// Returns the bytes of the final values of a member in a band, at most.
    pub(super) fn whole_bytes(&self, member: usize, fields: usize, bands: &Bands) -> usize {
        let Some(of) = self.team else { return 0 };
        let point: usize = self.elements[..fields].iter().map(|element| element.bytes()).sum();
        let slab = |slab| -> usize {
            (0..self.dims[1]).map(|row| of.columns.own(member, slab, row).len()).sum()
        };
        let band = |band| self.actual(bands.slabs_out(band)).map(slab).sum::<usize>();
        (0..bands.count()).map(band).max().unwrap_or(0) * point
    }

    /// Copies the final values of a member in the slabs of a band between a message and the memory
    /// of the fields, with `copy`. It gets the address in memory and the part of the message.
    fn each_final(
        &self,
        out: &Panel,
        outgoing: &[Outgoing],
        (member, slabs): (usize, Range<usize>),
        mut copy: impl FnMut(*mut u8, Range<usize>),
    ) {
        let Some(of) = self.team else { return };
        let (slabs, rows, mut at) = (self.actual(slabs), self.dims[1], 0);
        for (field, buffer) in out.buffers.iter().enumerate() {
            let place = self.place_of(field, buffer, PanelKind::Outgoing(outgoing), &slabs);
            let bytes = self.elements[field].bytes();
            for (slab, row) in slabs.clone().flat_map(|slab| (0..rows).map(move |row| (slab, row)))
            {
                let own = of.columns.own(member, slab, row);
                let len = own.len() * bytes;
                copy(place.row(slab, (row, rows)).wrapping_add(own.start * bytes), at..at + len);
                at += len;
            }
        }
    }

    /// Puts the final values of this member into a message for all others.
    pub(super) fn give_whole(
        &self,
        out: &Panel,
        outgoing: &[Outgoing],
        slabs: Range<usize>,
        message: &mut [u8],
    ) {
        let (begun, rank) = (Instant::now(), self.team.map_or(0, |of| of.rank));
        self.each_final(out, outgoing, (rank, slabs), |from, part| {
            let to = &mut message[part];
            // SAFETY: the task holds the final slabs of this member inclusively: no other one
            // writes its columns of them, and they are in the memory of the field.
            unsafe { from.cast_const().copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
            self.spent.exchanged.fetch_add(to.len() as u64, Relaxed);
        });
        add(&self.spent.pack_ns, begun.elapsed());
    }

    /// Takes the final values of another member from its message.
    pub(super) fn take_whole(
        &self,
        out: &Panel,
        outgoing: &[Outgoing],
        of: (usize, Range<usize>),
        message: &[u8],
    ) {
        let begun = Instant::now();
        self.each_final(out, outgoing, of, |to, part| {
            let from = &message[part];
            // SAFETY: the pass does not read the memory of the fields, and in these slabs only this
            // task writes the columns of the other member.
            unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        });
        add(&self.spent.pack_ns, begun.elapsed());
    }

    /// Returns the columns of one member that another one reads in a row of a slab.
    fn margin(&self, from: usize, to: usize, row: usize) -> Range<usize> {
        let Some(Members { columns, .. }) = self.team else { return 0..0 };
        // Only engines with the same cuts in all slabs continue one another.
        let (own, read) = (columns.own(from, 0, row), columns.read(to, row));
        let start = own.start.max(read.start);
        start..own.end.min(read.end).max(start)
    }

    /// Returns the bytes of the margins that one member gives another one, of `band` slabs of the
    /// fields.
    pub(super) fn margin_bytes(
        &self,
        (from, to): (usize, usize),
        fields: usize,
        band: usize,
    ) -> usize {
        let bytes: usize = self.elements[..fields].iter().map(|element| element.bytes()).sum();
        (0..self.dims[1]).map(|row| self.margin(from, to, row).len() * band * bytes).sum()
    }

    /// Copies the margins between a message and the panel, which has these slabs, with `copy`. It
    /// gets the address in the panel and the part of the message.
    fn each_margin(
        &self,
        panel: &Panel,
        (from, to): (usize, usize),
        slabs: Range<usize>,
        mut copy: impl FnMut(*mut u8, Range<usize>),
    ) {
        let (rows, mut at) = (self.dims[1], 0);
        let margins: Vec<_> = (0..rows).map(|row| self.margin(from, to, row)).collect();
        let places = self.place(panel, PanelKind::Between, slabs.clone());
        for (field, place) in places.iter().enumerate().take(self.fields) {
            let bytes = self.elements[field].bytes();
            for slab in self.actual(slabs.clone()) {
                for (row, cols) in margins.iter().enumerate().filter(|(_, cols)| !cols.is_empty()) {
                    let first = place.row(slab, (row, rows)).wrapping_add(cols.start * bytes);
                    copy(first, at..at + cols.len() * bytes);
                    at += cols.len() * bytes;
                }
            }
        }
    }

    /// Puts the margins that one member gives another one into a message.
    ///
    /// # Safety
    /// No other thread writes to the panel, which has final values of these slabs.
    pub(super) unsafe fn give_margin(
        &self,
        panel: &Panel,
        between: (usize, usize),
        slabs: Range<usize>,
        message: &mut [u8],
    ) {
        self.each_margin(panel, between, slabs, |from, part| {
            let to = &mut message[part];
            // SAFETY: the panel has the columns that the member has or reads, of all fields.
            unsafe { from.cast_const().copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        });
    }

    /// Takes the margins of a message into the panel.
    ///
    /// # Safety
    /// No other thread accesses the panel, which has room for these slabs.
    pub(super) unsafe fn take_margin(
        &self,
        panel: &Panel,
        between: (usize, usize),
        slabs: Range<usize>,
        message: &[u8],
    ) {
        self.each_margin(panel, between, slabs, |to, part| {
            let from = &message[part];
            // SAFETY: as in `give_margin`.
            unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        });
    }
}

impl Writers {
    /// Puts the parts of blocks that other groups write into messages: each for a field and a
    /// group.
    pub(super) fn give_edges<'m>(
        &mut self,
        messages: impl Iterator<Item = ((usize, usize), &'m mut [u8])>,
    ) {
        let mut given = BTreeMap::new();
        for (field, sink) in self.sinks.iter_mut().enumerate() {
            if let Sink::Columns(Some(writer), _) = sink {
                given.extend(writer.take_edges().map(|(to, edge)| ((field, to), edge)));
            }
        }
        for (of, message) in messages {
            let edge = given.remove(&of).unwrap_or_default();
            message[..8].copy_from_slice(&(edge.len() as u64).to_le_bytes());
            message[8..8 + edge.len()].copy_from_slice(&edge);
        }
    }

    /// Takes the parts of blocks that other groups have given, each of a field, and writes the
    /// blocks that they complete.
    pub(super) fn take_edges<'m>(
        &mut self,
        messages: impl Iterator<Item = (usize, &'m [u8])>,
    ) -> Result<()> {
        for (field, message) in messages {
            let len = message[..8].try_into().map_or(0, u64::from_le_bytes) as usize;
            if let (Some(Sink::Columns(Some(writer), _)), 1..) = (self.sinks.get_mut(field), len) {
                writer.accept(&message[8..8 + len])?;
                writer.flush(&mut self.queue)?;
            }
        }
        Ok(())
    }
}
