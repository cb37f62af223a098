//! The data of a pass: where its slabs come from and where they go, and the buffers between.
//!
//! # Contract
//! A panel has the slabs of a band: of each array in a buffer, or where they are in memory. A
//! member of a team with columns of its own has those, and on the way in its margins as well;
//! of three dimensions it reads whole planes. See [`columns`](crate::team::columns).

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use syncline_store::columns::{ColumnWriter, FileRows, Share as FileShare};
use syncline_store::direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue};

use super::Pass;
use crate::engine::{Bands, Slabs};
use crate::pass::sums::SlabSums;
use crate::streamed::timed;
use crate::{Error, Result};

/// An array that a pass reads.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// All slabs.
    Memory(Slabs),
    /// A file, and the byte at which its elements begin.
    File(&'a DirectFile, u64),
}

/// The place of a field that a pass writes.
pub(crate) enum Sink {
    /// All slabs.
    Memory(Slabs),
    /// A file that is written from the first slab to the last.
    Down(Box<Down>),
    /// A file that is written from the last slab to the first, and the byte at which its elements
    /// begin.
    Up(File, PathBuf, u64),
    /// The columns of this member in a file that all members write, in either order.
    Columns(Box<ColumnWriter>, Arc<FileShare>),
}

impl Sink {
    /// Returns where the final slabs of a band begin in their buffer.
    pub(super) fn outgoing(&self) -> Outgoing {
        match self {
            Sink::Down(down) => Outgoing::Blocks(down.start, down.writer.file().alignment()),
            Sink::Columns(_, share) => Outgoing::Columns(share.clone()),
            Sink::Memory(_) | Sink::Up(..) => Outgoing::Anywhere,
        }
    }
}

/// Where the final slabs of a field begin in their buffer.
pub(super) enum Outgoing {
    /// Aligned as in the file, in blocks of this length, in which the slabs begin at this byte.
    Blocks(u64, usize),
    /// Where the file's columns are written from.
    Columns(Arc<FileShare>),
    Anywhere,
}

/// A file that is written downward.
pub(crate) struct Down {
    pub(crate) writer: DirectWriter,
    /// The byte at which the first slab of the pass begins, and the end of the bytes that the pass
    /// writes.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Down {
    /// Writes those bytes of some slabs that the pass writes; returns their number. The slabs begin
    /// `skipped` bytes after the first slab of the pass. The buffer has them from byte `lead` on,
    /// aligned as in the file.
    fn write(
        &mut self,
        queue: &mut IoQueue,
        (buffer, lead): (&mut [u8], usize),
        (skipped, len): (usize, usize),
    ) -> Result<u64> {
        let bytes = self.start + skipped as u64..self.start + (skipped + len) as u64;
        let from = self.writer.position().max(bytes.start);
        let to = self.end.min(bytes.end);
        if from >= to {
            return Ok(0);
        }
        let first = lead + (from - bytes.start) as usize - self.writer.lead();
        self.writer.write(queue, &mut buffer[first..], (to - from) as usize)?;
        Ok(to - from)
    }
}

/// The slabs of a band, of all arrays: in buffers of the panel, or in the memory of the array.
#[derive(Default)]
pub(super) struct Panel {
    buffers: Vec<Option<IoBuffer>>,
    pub(super) slabs: Vec<Slabs>,
}

impl Panel {
    pub(super) fn into_buffers(self) -> impl Iterator<Item = IoBuffer> {
        self.buffers.into_iter().flatten()
    }
}

impl Pass<'_> {
    /// Returns the bytes of a slab of an array.
    fn slab_bytes(&self, array: usize) -> usize {
        self.dims[1] * self.dims[2] * self.elements[array].bytes()
    }

    /// Returns the bytes of a row of an array.
    fn row_bytes(&self, array: usize) -> usize {
        self.dims[2] * self.elements[array].bytes()
    }

    /// Returns the slabs of an array in a file, as rows.
    fn file_slabs(&self, array: usize, start: u64) -> FileRows {
        let row_bytes = self.slab_bytes(array) as u64;
        FileRows { start, row_bytes, rows: self.dims[0] as u64 }
    }

    /// Returns the bytes of a slab that are read.
    fn read_bytes(&self, array: usize) -> Range<u64> {
        match self.team {
            Some((columns, rank)) if self.dims[1] == 1 => {
                let (cols, bytes) = (columns.all(rank), self.elements[array].bytes());
                (cols.start * bytes) as u64..(cols.end * bytes) as u64
            }
            _ => 0..self.slab_bytes(array) as u64,
        }
    }

    /// Adds the columns of this member of some slabs, which count from the first one of the pass,
    /// to sums. The slabs are in the buffer.
    fn sum(
        &self,
        sums: &mut SlabSums,
        array: usize,
        (buffer, place): (&IoBuffer, &Slabs),
        slabs: Range<usize>,
    ) {
        let [_, rows, cols] = self.dims;
        let bytes = self.elements[array].bytes();
        let inside = |slab: usize, row: usize, cols: Range<usize>| {
            let first = place.row(slab, (row, rows)).addr() + cols.start * bytes;
            &buffer.as_slice()[first - buffer.as_ptr().addr()..][..cols.len() * bytes]
        };
        for slab in slabs {
            let at = self.first + slab;
            match self.team {
                None => sums.add(at..at + 1, inside(slab, 0, 0..rows * cols)),
                Some((columns, rank)) => (0..rows).for_each(|row| {
                    let own = columns.own(rank, row);
                    sums.add_part(at, at * rows + row, inside(slab, row, own));
                }),
            }
        }
    }

    /// Returns the slabs of a band, as the arrays count them.
    pub(super) fn actual(&self, slabs: Range<usize>) -> Range<usize> {
        let n = self.dims[0];
        if self.up { n - slabs.end..n - slabs.start } else { slabs }
    }

    /// Returns the error of a cancelled sweep: a pass of which a part was left out must not look
    /// complete.
    pub(super) fn go_on(&self) -> Result<()> {
        match self.monitor.is_cancelled() {
            true => Err(Error::Cancelled { iteration: self.before }),
            false => Ok(()),
        }
    }

    pub(super) fn panel(&self, band: usize) -> Result<Panel> {
        let (mut buffers, mut slabs) = (Vec::new(), Vec::new());
        for (array, source) in self.sources.iter().enumerate() {
            let (buffer, place) = match source {
                Source::Memory(all) => (None, *all),
                Source::File(file, start) => {
                    let part = self.read_bytes(array);
                    let room = self.file_slabs(array, *start).room(file, band as u64, &part);
                    (Some(self.buffers.take(room)?), nowhere())
                }
            };
            buffers.push(buffer);
            slabs.push(place);
        }
        Ok(Panel { buffers, slabs })
    }

    /// Reads the slabs of a band.
    pub(super) fn read(
        &self,
        panel: &mut Panel,
        queue: &mut IoQueue,
        slabs: Range<usize>,
    ) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let mut reads = Vec::new();
        let places = panel.buffers.iter_mut().zip(&mut panel.slabs);
        let mut bytes = 0;
        for (array, (buffer, place)) in places.enumerate() {
            let (Source::File(file, start), Some(buffer)) = (&self.sources[array], buffer) else {
                continue;
            };
            let (part, rows) = (self.read_bytes(array), self.file_slabs(array, *start));
            let wanted = slabs.start as u64..slabs.end as u64;
            let at = rows.place(file, &wanted, &part);
            let first = buffer.as_mut_ptr().wrapping_add(at.lead);
            *place = Slabs {
                start: first.wrapping_sub(part.start as usize),
                first: slabs.start,
                pitch: if self.dims[1] == 1 { at.pitch } else { self.row_bytes(array) },
            };
            bytes += slabs.len() as u64 * (part.end - part.start);
            rows.read(file, wanted, part, buffer.as_mut_slice(), &mut reads)?;
        }
        timed(&self.spent.read_ns, || queue.read(&mut reads))?;
        self.spent.read.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    /// Adds the slabs of a band to the sums of an array, and compares those of a field that are
    /// complete.
    pub(super) fn check(
        &self,
        panel: &Panel,
        sums: &mut SlabSums,
        array: usize,
        slabs: Range<usize>,
    ) -> Result<()> {
        let Some(Some(buffer)) = panel.buffers.get(array) else { return Ok(()) };
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        timed(&self.spent.check_ns, || {
            self.sum(sums, array, (buffer, &panel.slabs[array]), slabs.clone());
            let Some(expected) = self.expected.filter(|_| array < self.fields) else {
                return Ok(());
            };
            let slabs = self.first + slabs.start..self.first + slabs.end;
            sums.complete(&slabs).try_for_each(|(unit, sum)| expected(array, unit, sum))
        })
    }

    /// Returns the rows of a file that some slabs are.
    pub(super) fn file_rows(&self, slabs: &Range<usize>) -> Range<u64> {
        (slabs.start * self.dims[1]) as u64..(slabs.end * self.dims[1]) as u64
    }

    /// Returns buffers for the final slabs of a band of each field. `bands` are those of the
    /// last engine.
    pub(super) fn outgoing(&self, sinks: &[Sink], band: usize, bands: &Bands) -> Result<Panel> {
        let (mut buffers, mut slabs) = (Vec::new(), Vec::new());
        for (field, sink) in sinks.iter().enumerate() {
            let bytes = band * self.slab_bytes(field);
            let (room, place) = match sink {
                Sink::Memory(all) => (None, *all),
                Sink::Down(down) => {
                    let file = down.writer.file();
                    (Some(file.room(0, bytes) + 2 * file.alignment()), nowhere())
                }
                Sink::Up(..) => (Some(bytes), nowhere()),
                Sink::Columns(_, share) => {
                    let rank = self.team.map_or(0, |(_, rank)| rank);
                    let slabs = (0..bands.count()).map(|band| bands.slabs_out(band));
                    let rows = slabs.map(|slabs| self.file_rows(&self.actual(slabs)));
                    let room = rows.map(|rows| share.place(&rows, rank).1.room).max();
                    (Some(room.unwrap_or(0)), nowhere())
                }
            };
            buffers.push(room.map(|room| self.buffers.take(room)).transpose()?);
            slabs.push(place);
        }
        Ok(Panel { buffers, slabs })
    }

    /// Prepares the buffers for the final slabs of a band; buffers between engines begin anywhere.
    pub(super) fn place(&self, out: &mut Panel, outgoing: &[Outgoing], slabs: Range<usize>) {
        let (slabs, rows) = (self.actual(slabs), self.dims[1] as u64);
        let places = out.buffers.iter_mut().zip(&mut out.slabs);
        for (field, (buffer, place)) in places.enumerate() {
            let Some(buffer) = buffer else { continue };
            let first = buffer.as_mut_ptr();
            let (start, pitch) = match (outgoing.get(field), self.team) {
                (Some(Outgoing::Columns(share)), Some((_, rank))) => {
                    let (columns, place) = share.place(&self.file_rows(&slabs), rank);
                    let start = first.wrapping_add(place.lead);
                    (start.wrapping_sub(columns.start as usize), place.pitch)
                }
                (Some(Outgoing::Blocks(start, alignment)), _) => {
                    let offset = start + (slabs.start * self.slab_bytes(field)) as u64;
                    let lead = (offset % *alignment as u64) as usize;
                    (first.wrapping_add(lead), self.row_bytes(field))
                }
                _ => {
                    let part = self.read_bytes(field);
                    let flat = self.dims[1] == 1;
                    let pitch = if flat { part.end - part.start } else { part.end / rows };
                    (first.wrapping_sub(part.start as usize), pitch as usize)
                }
            };
            *place = Slabs { start, first: slabs.start, pitch };
        }
    }

    /// Writes the final slabs of a band.
    pub(super) fn write(
        &self,
        out: &mut Panel,
        writers: &mut Writers,
        slabs: Range<usize>,
    ) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let mut bytes = 0;
        let Writers { sinks, sums: all_sums, queue } = writers;
        let buffers = out.buffers.iter_mut().zip(&out.slabs).zip(sinks);
        for (field, ((buffer, place), sink)) in buffers.enumerate() {
            let Some(buffer) = buffer else { continue };
            let slab = self.slab_bytes(field);
            if let Some(sums) = all_sums.get_mut(field) {
                let clip = |slab: usize| slab.clamp(self.own.start, self.own.end);
                let own = clip(slabs.start)..clip(slabs.end);
                timed(&self.spent.check_ns, || self.sum(sums, field, (buffer, place), own));
            }
            let (skipped, len) = (slabs.start * slab, slabs.len() * slab);
            bytes += timed(&self.spent.write_ns, || match sink {
                Sink::Memory(_) => Ok(0),
                Sink::Down(down) => {
                    let lead = place.start.addr() - buffer.as_ptr().addr();
                    let buffer = (buffer.as_mut_slice(), lead);
                    down.write(queue, buffer, (skipped, len))
                }
                Sink::Up(file, path, start) => {
                    let failed = |source| syncline_store::Error::File {
                        action: "write",
                        path: path.clone(),
                        source,
                    };
                    file.write_all_at(&buffer.as_slice()[..len], *start + skipped as u64)
                        .map_err(failed)?;
                    Ok(len as u64)
                }
                Sink::Columns(writer, share) => {
                    let (rows, rank) = (self.file_rows(&slabs), writer.host());
                    let own = rows.clone().map(|row| share.columns(row, rank));
                    let bytes = own.map(|own| own.end - own.start).sum();
                    writer.write(queue, buffer.as_mut_slice(), rows)?;
                    Ok::<_, Error>(bytes)
                }
            })?;
        }
        self.spent.written.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    /// Returns buffers for the slabs of all arrays that one engine passes on to the next. Arrays in
    /// memory that never change need none.
    pub(super) fn between(&self, fields: usize, band: usize) -> Result<Panel> {
        let mut panel = Panel { buffers: Vec::new(), slabs: Vec::new() };
        for (array, source) in self.sources.iter().enumerate() {
            let (buffer, place) = match source {
                Source::Memory(all) if array >= fields => (None, *all),
                _ => {
                    let part = self.read_bytes(array);
                    let slab = (part.end - part.start) as usize;
                    (Some(self.buffers.take(band * slab)?), nowhere())
                }
            };
            panel.buffers.push(buffer);
            panel.slabs.push(place);
        }
        Ok(panel)
    }

    /// Returns the columns of one member that another one reads in a row of a slab.
    fn margin(&self, from: usize, to: usize, row: usize) -> Range<usize> {
        let Some((columns, _)) = self.team else { return 0..0 };
        let (own, read) = (columns.own(from, row), columns.read(to, row));
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
        ((from, to), fields): ((usize, usize), usize),
        slabs: Range<usize>,
        mut copy: impl FnMut(*mut u8, Range<usize>),
    ) {
        let (rows, mut at) = (self.dims[1], 0);
        let margins: Vec<_> = (0..rows).map(|row| self.margin(from, to, row)).collect();
        for (field, place) in panel.slabs.iter().enumerate().take(fields) {
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
        between: ((usize, usize), usize),
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
        between: ((usize, usize), usize),
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

/// The files of all fields that are written.
pub(super) struct Writers {
    pub(super) sinks: Vec<Sink>,
    /// The sums of what is written, if they are wanted.
    pub(super) sums: Vec<SlabSums>,
    pub(super) queue: IoQueue,
}

impl Writers {
    /// Writes what is left, and returns the sums. The data of files that all members write are not
    /// synced.
    pub(super) fn finish(mut self) -> Result<Vec<SlabSums>> {
        for sink in self.sinks {
            match sink {
                Sink::Down(down) => drop(down.writer.finish()?),
                Sink::Columns(writer, _) => drop(writer.finish(&mut self.queue)?),
                Sink::Memory(_) | Sink::Up(..) => {}
            }
        }
        Ok(self.sums)
    }

    /// Puts the parts of blocks that other members write into messages: each for a field and a
    /// member.
    pub(super) fn give_edges<'m>(
        &mut self,
        messages: impl Iterator<Item = ((usize, usize), &'m mut [u8])>,
    ) {
        let mut given = BTreeMap::new();
        for (field, sink) in self.sinks.iter_mut().enumerate() {
            if let Sink::Columns(writer, _) = sink {
                given.extend(writer.take_edges().map(|(to, edge)| ((field, to), edge)));
            }
        }
        for (of, message) in messages {
            let edge = given.remove(&of).unwrap_or_default();
            message[..8].copy_from_slice(&(edge.len() as u64).to_le_bytes());
            message[8..8 + edge.len()].copy_from_slice(&edge);
        }
    }

    /// Takes the parts of blocks that other members have given, each of a field, and writes the
    /// blocks that they complete.
    pub(super) fn take_edges<'m>(
        &mut self,
        messages: impl Iterator<Item = (usize, &'m [u8])>,
    ) -> Result<()> {
        for (field, message) in messages {
            let len = message[..8].try_into().map_or(0, u64::from_le_bytes) as usize;
            if let (Some(Sink::Columns(writer, _)), 1..) = (self.sinks.get_mut(field), len) {
                writer.accept(&message[8..8 + len])?;
                writer.flush(&mut self.queue)?;
            }
        }
        Ok(())
    }
}

/// Returns the place of slabs that are not in their buffer yet.
const fn nowhere() -> Slabs {
    Slabs { start: std::ptr::null_mut(), first: 0, pitch: 0 }
}
