//! The data of a pass: where its slabs come from and where they go, and the buffers between.
//!
//! # Contract
//! A panel has the slabs of a band: of each array in a buffer, or where they are in memory. A group
//! of members of a team has the columns of its members, and on the way in their margins as well; of
//! three dimensions it reads whole planes. See [`columns`](crate::team::columns).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use syncline_store::columns::{ColumnWriter, FileRows, Share as FileShare};
use syncline_store::direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue};

use super::Pass;
use super::panel::{Panel, PanelKind, Room};
use crate::engine::Slabs;
use crate::pass::spent::timed;
use crate::pass::sums::SlabSums;
use crate::team::columns::Members;
use crate::team::sums::Units;
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
    /// The columns of the group of this member in a file that all groups write, in either order.
    /// One member of a group writes.
    Columns(Option<Box<ColumnWriter>>, Arc<FileShare>),
}

impl Sink {
    /// Returns where the final slabs of a band begin in their buffer.
    pub(super) fn outgoing(&self) -> Outgoing {
        match self {
            Sink::Down(down) => Outgoing::Blocks(down.start, down.writer.file().alignment()),
            Sink::Columns(_, share) => Outgoing::Columns(share.clone()),
            Sink::Memory(all) => Outgoing::Memory(*all),
            Sink::Up(..) => Outgoing::Anywhere,
        }
    }
}

/// Where the final slabs of a field begin in their buffer.
pub(super) enum Outgoing {
    /// Aligned as in the file, in blocks of this length, in which the slabs begin at this byte.
    Blocks(i64, usize),
    /// Where the file's columns are written from.
    Columns(Arc<FileShare>),
    Anywhere,
    /// In the memory of the array.
    Memory(Slabs),
}

/// A file that is written downward.
pub(crate) struct Down {
    pub(crate) writer: DirectWriter,
    /// The byte at which the first slab of the pass begins, or would begin, and the end of the
    /// bytes that the pass writes.
    pub(crate) start: i64,
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
        let at = |bytes: usize| (self.start + bytes as i64) as u64;
        let bytes = at(skipped)..at(skipped + len);
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

impl Pass<'_> {
    /// Returns the bytes of a slab of an array.
    pub(super) fn slab_bytes(&self, array: usize) -> usize {
        self.dims[1] * self.dims[2] * self.elements[array].bytes()
    }

    /// Returns the bytes of a row of an array.
    fn row_bytes(&self, array: usize) -> usize {
        self.dims[2] * self.elements[array].bytes()
    }

    /// Returns the slabs of an array in a file, as rows.
    pub(super) fn file_slabs(&self, array: usize, start: u64) -> FileRows {
        let row_bytes = self.slab_bytes(array) as u64;
        FileRows { start, row_bytes, rows: self.slabs as u64 }
    }

    /// Returns the bytes of a slab that this member has between engines.
    pub(super) fn own_bytes(&self, array: usize) -> Range<u64> {
        self.bytes_in(array, self.team.map(|of| of.columns.all(of.rank)))
    }

    /// Returns the bytes of a slab that the group of this member reads.
    pub(super) fn read_bytes(&self, array: usize) -> Range<u64> {
        self.bytes_in(array, self.team.map(Members::of_group))
    }

    fn bytes_in(&self, array: usize, cols: Option<Range<usize>>) -> Range<u64> {
        match cols {
            Some(cols) if self.dims[1] == 1 => {
                let bytes = self.elements[array].bytes();
                (cols.start * bytes) as u64..(cols.end * bytes) as u64
            }
            _ => 0..self.slab_bytes(array) as u64,
        }
    }

    /// Returns the bytes of some columns of a row of a slab, which are in the buffer.
    ///
    /// # Safety
    /// No thread of any process writes these columns meanwhile.
    unsafe fn bytes_of<'b>(
        &self,
        array: usize,
        (buffer, place): (&'b Room, &Slabs),
        (slab, row): (usize, usize),
        cols: Range<usize>,
    ) -> &'b [u8] {
        let bytes = self.elements[array].bytes();
        let first = place.row(slab, (row, self.dims[1])).addr() + cols.start * bytes;
        let first = first - buffer.as_ptr().addr();
        // SAFETY: the caller excludes writes.
        unsafe { buffer.part(first..first + cols.len() * bytes) }
    }

    /// Adds some slabs, which count from the first one of the pass, to sums. The slabs are in the
    /// buffer, which the caller's task holds at least inclusively.
    fn sum(&self, sums: &mut SlabSums, array: usize, place: (&Room, &Slabs), slabs: Range<usize>) {
        let [_, rows, cols] = self.dims;
        for slab in slabs {
            let at = (self.first + slab) % self.slabs;
            // SAFETY: the caller's task holds the slabs.
            let bytes = unsafe { self.bytes_of(array, place, (slab, 0), 0..rows * cols) };
            sums.add(at..at + 1, bytes);
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

    /// Returns where a panel has some slabs of its arrays, along the direction.
    pub(super) fn place(
        &self,
        panel: &Panel,
        kind: PanelKind<'_>,
        slabs: Range<usize>,
    ) -> Vec<Slabs> {
        let slabs = self.actual(slabs);
        let arrays = panel.buffers.iter().enumerate();
        let of = |(array, buffer)| self.place_of(array, buffer, kind, &slabs);
        arrays.map(of).collect()
    }

    /// Returns where the buffer of an array has some slabs, as the array counts them.
    pub(super) fn place_of(
        &self,
        array: usize,
        buffer: &Option<Room>,
        kind: PanelKind<'_>,
        slabs: &Range<usize>,
    ) -> Slabs {
        let Some(buffer) = buffer else {
            return match (kind, &self.sources[array]) {
                (PanelKind::Outgoing(outgoing), _) => match outgoing[array] {
                    Outgoing::Memory(all) => all,
                    _ => unreachable!("what goes to a file has a buffer"),
                },
                (_, Source::Memory(all)) => *all,
                (_, Source::File(..)) => unreachable!("what comes from a file has a buffer"),
            };
        };
        let (first, rows) = (buffer.as_ptr(), self.dims[1] as u64);
        let anywhere = || {
            let part = self.own_bytes(array);
            let flat = self.dims[1] == 1;
            let pitch = if flat { part.end - part.start } else { part.end / rows };
            (first.wrapping_sub(part.start as usize), pitch as usize)
        };
        let (start, pitch) = match (kind, &self.sources[array], self.team) {
            (PanelKind::Incoming, Source::File(file, start), _) => {
                let (part, mut wanted) = (self.read_bytes(array), self.in_arrays(slabs));
                let (wanted, None) = (wide(&wanted.next().unwrap_or(0..0)), wanted.next()) else {
                    // They were copied there, see `read_apart`.
                    return Slabs {
                        around: None,
                        first: slabs.start,
                        start: first,
                        pitch: self.row_bytes(array),
                    };
                };
                let at = self.file_slabs(array, *start).place(file, &wanted, &part);
                let start = first.wrapping_add(at.lead).wrapping_sub(part.start as usize);
                (start, if self.dims[1] == 1 { at.pitch } else { self.row_bytes(array) })
            }
            (PanelKind::Outgoing(outgoing), _, team) => match (&outgoing[array], team) {
                (Outgoing::Columns(share), Some(_)) => {
                    let (columns, place) = share.place(&self.file_rows(slabs), self.group());
                    let start = first.wrapping_add(place.lead);
                    (start.wrapping_sub(columns.start as usize), place.pitch)
                }
                (Outgoing::Blocks(start, alignment), _) => {
                    let offset = start + (slabs.start * self.slab_bytes(array)) as i64;
                    let lead = offset.rem_euclid(*alignment as i64) as usize;
                    (first.wrapping_add(lead), self.row_bytes(array))
                }
                _ => anywhere(),
            },
            _ => anywhere(),
        };
        Slabs { start, first: slabs.start, pitch, around: None }
    }

    /// Returns the parts of some slabs, as positions in the arrays: one, unless the first slabs
    /// follow the last ones among them.
    fn in_arrays(&self, slabs: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let (period, end) = (self.slabs, self.first + slabs.end);
        let mut at = self.first + slabs.start;
        std::iter::from_fn(move || {
            let here = at % period;
            let count = (end - at).min(period - here);
            at += count;
            (count > 0).then_some(here..here + count)
        })
    }

    /// Reads the slabs of a band.
    pub(super) fn read(
        &self,
        panel: &Panel,
        queue: &mut IoQueue,
        slabs: Range<usize>,
    ) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let (mut reads, mut bytes) = (Vec::new(), 0);
        let wanted = self.in_arrays(&slabs).next().unwrap_or(0..0);
        if wanted.len() < slabs.len() {
            return self.read_apart(panel, queue, &slabs);
        }
        for (array, buffer) in panel.buffers.iter().enumerate() {
            let (Source::File(file, start), Some(buffer)) = (&self.sources[array], buffer) else {
                continue;
            };
            let (part, wanted) = (self.read_bytes(array), wide(&wanted));
            bytes += slabs.len() as u64 * (part.end - part.start);
            let rows = self.file_slabs(array, *start);
            // SAFETY: the task that reads holds the panel exclusively, in the order of all members.
            let into = unsafe { buffer.all_mut() };
            rows.read(file, wanted, part, into, &mut reads)?;
        }
        timed(&self.spent.read_ns, || queue.read(&mut reads))?;
        self.spent.read.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    /// Reads the slabs of a band among which the first ones of the arrays follow the last ones:
    /// part by part, each into memory of its own, from where it is copied to its place.
    fn read_apart(&self, panel: &Panel, queue: &mut IoQueue, slabs: &Range<usize>) -> Result<()> {
        for (array, buffer) in panel.buffers.iter().enumerate() {
            let (Source::File(file, start), Some(buffer)) = (&self.sources[array], buffer) else {
                continue;
            };
            let (slab, rows) = (self.slab_bytes(array), self.file_slabs(array, *start));
            // SAFETY: the task that reads holds the panel exclusively.
            let into = unsafe { buffer.all_mut() };
            let mut at = 0;
            for part in self.in_arrays(slabs) {
                let (all, len) = (0..slab as u64, part.len() * slab);
                let mut apart = IoBuffer::new(rows.room(file, part.len() as u64, &all))?;
                let mut reads = Vec::new();
                let place = rows.read(file, wide(&part), all, apart.as_mut_slice(), &mut reads)?;
                timed(&self.spent.read_ns, || queue.read(&mut reads))?;
                into[at..at + len].copy_from_slice(&apart.as_slice()[place.lead..][..len]);
                at += len;
            }
            self.spent.read.fetch_add(at as u64, Relaxed);
            self.monitor.moved(at as u64);
        }
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
            let kind = PanelKind::Incoming;
            let place = self.place_of(array, &panel.buffers[array], kind, &slabs);
            // A slab that comes in again counts once.
            let once = slabs.start.min(self.slabs)..slabs.end.min(self.slabs);
            self.sum(sums, array, (buffer, &place), once.clone());
            let Some(expected) = self.expected.filter(|_| array < self.fields) else {
                return Ok(());
            };
            self.in_arrays(&once).try_for_each(|slabs| {
                sums.complete(&slabs).try_for_each(|(unit, sum)| expected(array, unit, sum))
            })
        })
    }

    /// Subtracts the columns that this member checks of the slabs of a band from the sums of those
    /// that have written them, and looks at the units that are complete.
    pub(super) fn check_columns(
        &self,
        panel: &Panel,
        left: &mut Option<Units>,
        slabs: Range<usize>,
    ) -> Result<()> {
        let Some(left) = left.as_mut().filter(|_| !slabs.is_empty()) else { return Ok(()) };
        self.go_on()?;
        let slabs = self.actual(slabs);
        timed(&self.spent.check_ns, || {
            for (field, buffer) in panel.buffers.iter().enumerate().take(self.fields) {
                let Some(room) = buffer else { continue };
                let place = self.place_of(field, buffer, PanelKind::Incoming, &slabs);
                left.subtract(field, slabs.clone(), |slab, row, cols| {
                    // SAFETY: the task holds the panel inclusively, in the order of all members.
                    unsafe { self.bytes_of(field, (room, &place), (slab, row), cols) }
                })?;
            }
            match (left.damaged(&slabs, self.up), self.damaged) {
                (Some((field, slabs, cols)), Some(damaged)) => Err(damaged(field, slabs, cols)),
                _ => Ok(()),
            }
        })
    }

    /// Returns the rows of a file that some slabs are.
    pub(super) fn file_rows(&self, slabs: &Range<usize>) -> Range<u64> {
        (slabs.start * self.dims[1]) as u64..(slabs.end * self.dims[1]) as u64
    }

    /// Adds the final values of this member in the slabs of a band to the sums of the fields.
    pub(super) fn sum_columns(
        &self,
        out: &Panel,
        given: &mut Option<Units>,
        outgoing: &[Outgoing],
        slabs: Range<usize>,
    ) -> Result<()> {
        let Some(given) = given.as_mut().filter(|_| !slabs.is_empty()) else { return Ok(()) };
        self.go_on()?;
        let slabs = self.actual(slabs);
        timed(&self.spent.check_ns, || {
            for (field, buffer) in out.buffers.iter().enumerate() {
                let Some(room) = buffer else { continue };
                let kind = PanelKind::Outgoing(outgoing);
                let place = self.place_of(field, buffer, kind, &slabs);
                given.add(field, slabs.clone(), |slab, row, cols| {
                    // SAFETY: the task holds the final slabs of this member inclusively.
                    unsafe { self.bytes_of(field, (room, &place), (slab, row), cols) }
                })?;
            }
            Ok(())
        })
    }

    /// Adds the final slabs of a band to the sums of the fields.
    pub(super) fn sum_out(
        &self,
        out: &Panel,
        sums: &mut [SlabSums],
        outgoing: &[Outgoing],
        slabs: Range<usize>,
    ) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let clip = |slab: usize| slab.clamp(self.own.start, self.own.end);
        let own = clip(slabs.start)..clip(slabs.end);
        timed(&self.spent.check_ns, || {
            for (field, (buffer, sums)) in out.buffers.iter().zip(sums).enumerate() {
                let place = self.place_of(field, buffer, PanelKind::Outgoing(outgoing), &slabs);
                if let Some(buffer) = buffer {
                    self.sum(sums, field, (buffer, &place), own.clone());
                }
            }
        });
        Ok(())
    }

    /// Writes the final slabs of a band.
    pub(super) fn write(
        &self,
        out: &Panel,
        writers: &mut Writers,
        outgoing: &[Outgoing],
        slabs: Range<usize>,
    ) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let mut bytes = 0;
        let Writers { sinks, queue } = writers;
        for (field, (buffer, sink)) in out.buffers.iter().zip(sinks).enumerate() {
            let place = self.place_of(field, buffer, PanelKind::Outgoing(outgoing), &slabs);
            let Some(buffer) = buffer else { continue };
            let slab = self.slab_bytes(field);
            // SAFETY: the task that writes holds the final slabs of all members of the group
            // exclusively, in the order of all members.
            let buffer = unsafe { buffer.all_mut() };
            let (skipped, len) = (slabs.start * slab, slabs.len() * slab);
            bytes += timed(&self.spent.write_ns, || match sink {
                Sink::Memory(_) => Ok(0),
                Sink::Down(down) => {
                    let lead = place.start.addr() - buffer.as_ptr().addr();
                    down.write(queue, (buffer, lead), (skipped, len))
                }
                Sink::Up(file, path, start) => {
                    let failed = |source| syncline_store::Error::File {
                        action: "write",
                        path: path.clone(),
                        source,
                    };
                    file.write_all_at(&buffer[..len], *start + skipped as u64).map_err(failed)?;
                    Ok(len as u64)
                }
                Sink::Columns(None, _) => unreachable!("one member of a group writes"),
                Sink::Columns(Some(writer), share) => {
                    let (rows, group) = (self.file_rows(&slabs), writer.host());
                    let own = rows.clone().map(|row| share.columns(row, group));
                    let bytes = own.map(|own| own.end - own.start).sum();
                    writer.write(queue, buffer, rows)?;
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
        let buffer = |(array, source): (usize, &Source<'_>)| match source {
            Source::Memory(_) if array >= fields => Ok(None),
            _ => {
                let part = self.own_bytes(array);
                let slab = (part.end - part.start) as usize;
                self.buffers.take(band * slab).map(|buffer| Some(Room::Own(buffer)))
            }
        };
        let buffers = self.sources.iter().enumerate().map(buffer);
        Ok(Panel { buffers: buffers.collect::<Result<_>>()? })
    }
}

fn wide(slabs: &Range<usize>) -> Range<u64> {
    slabs.start as u64..slabs.end as u64
}

/// The files of all fields that are written.
pub(super) struct Writers {
    pub(super) sinks: Vec<Sink>,
    pub(super) queue: IoQueue,
}

impl Writers {
    /// Writes what is left. The data of files that all members write are not synced.
    pub(super) fn finish(mut self) -> Result<()> {
        for sink in self.sinks {
            match sink {
                Sink::Down(down) => drop(down.writer.finish()?),
                Sink::Columns(Some(writer), _) => drop(writer.finish(&mut self.queue)?),
                Sink::Columns(None, _) | Sink::Memory(_) | Sink::Up(..) => {}
            }
        }
        Ok(())
    }
}
