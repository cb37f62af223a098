//! The rows of the columns of one group: read from the input, written to the output, in memory that
//! the members of the group share.
//!
//! ```text
//! memory of the host   | group 0                              | group 2 ...
//!                      | slot 0              | slot 1 ...     |
//!                      | array 0 | ... | out |                |      each on a page boundary
//! ```
//! All positions follow from the plan, so every member computes them. The order of accesses is that
//! of the pass: see [`pass`](super::pass).
//!
//! A disk reads up to twice as fast into huge pages (2.6 GiB/s to 1.2). The memory of the host has
//! them, where the kernel can (since Linux 6.1, see `Segment::commit`). The memory of a group of
//! one member is its own.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use syncline_fabric::Member;
use syncline_overlay::error::RunError;
use syncline_signal::primitive::AtomicU64;
use syncline_store::columns::{ColumnWriter, FileRows, Share as FileShare, UnitSums};
use syncline_store::direct_io::{IoBuffer, IoQueue, Method};
use syncline_sync::space::Array;

use super::sums::Between;
use super::whole;
use crate::Result;
use crate::lanes::Real;
use crate::streamed::data::Source;
use crate::strip::cut::{Cuts, Share};
use crate::strip::ghosts::Ghosts;
use crate::strip::pack::Rows;
use crate::strip::tile::Chain;
use crate::team::groups::Groups;

/// The alignment of buffers: that of direct I/O, and a page on most hosts.
const ALIGN: usize = 4096;

/// Returns the position of the rows of an array of `E` in a file.
fn file_rows<E: Real>(start: u64, (rows, cols): (usize, usize)) -> FileRows {
    FileRows { start, row_bytes: (cols * E::BYTES) as u64, rows: rows as u64 }
}

/// What determines the positions of all data of a pass.
#[derive(Clone, Copy)]
pub(super) struct PassLayout<'r> {
    pub(super) ghosts: Ghosts,
    pub(super) chain: Chain,
    pub(super) cuts: &'r Cuts,
    pub(super) groups: &'r Groups,
    /// The number of rows and columns of the matrix.
    pub(super) sizes: (usize, usize),
    pub(super) slots: usize,
}

impl PassLayout<'_> {
    /// Returns the rows of the matrix that come in with a band.
    pub(super) fn rows_in(&self, band: usize) -> Range<usize> {
        self.ghosts.rows(self.chain.rows_in(band))
    }

    /// Returns the rows of the matrix that are final after a band.
    pub(super) fn rows_out(&self, band: usize) -> Range<usize> {
        self.ghosts.rows(self.chain.rows_out(band))
    }

    /// Returns the division of the output file among the groups.
    pub(super) fn share_file<E: Real>(&self, header: &[u8], block: usize) -> Result<FileShare> {
        let groups = 0..self.groups.count();
        let firsts: Vec<Share> =
            groups.map(|g| self.groups.ends(self.cuts, g)[0].clone()).collect();
        let (count, ghosts) = (firsts.len(), self.ghosts);
        let cut = move |row: u64, group: usize| {
            let columns = firsts[group].columns_out(ghosts.row(row as usize));
            (ghosts.columns(columns).start * E::BYTES) as u64
        };
        let sizes = (self.sizes.0 as u64, (self.sizes.1 * E::BYTES) as u64);
        Ok(FileShare::new(header, sizes, count, block, cut)?)
    }
}

/// The positions of the buffers of one group within a slot, in bytes.
#[derive(Clone, Debug)]
struct Slot {
    /// By array; empty if the array is in memory.
    arrays: Vec<Range<usize>>,
    out: Range<usize>,
}

impl Slot {
    fn new<E: Real>(
        layout: &PassLayout<'_>,
        sources: &[Source<'_, E>],
        file: &FileShare,
        group: usize,
    ) -> Slot {
        let mut end = 0;
        let mut next = |room: usize| {
            let start = end;
            end = (start + room).next_multiple_of(ALIGN);
            start..start + room
        };
        let count = (layout.chain.band * layout.chain.geometry.width + 1) as u64;
        let columns = layout.groups.columns_in(layout.cuts, group);
        let columns = bytes::<E>(&layout.ghosts.columns(columns));
        let room = |source: &Source<'_, E>| match source {
            Source::Memory(_) => 0,
            Source::File(input, start) => {
                file_rows::<E>(*start, layout.sizes).room(input, count, &columns)
            }
        };
        let arrays = sources.iter().map(|source| next(room(source))).collect();
        let bands = (0..layout.chain.bands()).map(|band| in_file(&layout.rows_out(band)));
        let room = bands.map(|rows| file.place(&rows, group).1.room).max().unwrap_or(0);
        Slot { arrays, out: next(room) }
    }

    fn bytes(&self) -> usize {
        self.out.end.next_multiple_of(ALIGN)
    }
}

/// The number of bytes that the buffers of a pass take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// Of all groups of the host that have several members.
    host: usize,
    /// Of this member, if it is alone in its group.
    own: usize,
}

impl Sizes {
    pub(super) fn new<E: Real>(
        layout: &PassLayout<'_>,
        sources: &[Source<'_, E>],
        file: &FileShare,
        group: usize,
    ) -> Sizes {
        let slots = |g| layout.slots * Slot::new(layout, sources, file, g).bytes() + ALIGN;
        let shared = |&g: &usize| !layout.groups.is_alone(g);
        let host = layout.groups.beside(group).filter(shared).map(slots).sum();
        Sizes { host, own: if layout.groups.is_alone(group) { slots(group) } else { 0 } }
    }

    /// Returns the sizes for both of two passes.
    pub(super) fn max(self, other: Sizes) -> Sizes {
        Sizes { host: self.host.max(other.host), own: self.own.max(other.own) }
    }
}

/// The memory of the buffers of all passes.
pub(super) struct Memory {
    /// That of the host; borrowed if a group of the host needs it.
    host: Option<Array<AtomicU64>>,
    own: Option<IoBuffer>,
}

impl Memory {
    /// Takes the memory; returns what it got, and the error if that is not all.
    ///
    /// # Collective
    /// The members of a host call it with the same size for the host.
    pub(super) fn new(me: &mut Member, sizes: Sizes) -> (Memory, Result<()>) {
        let words = sizes.host.div_ceil(size_of::<AtomicU64>());
        let mut memory = Memory { host: None, own: None };
        let mut take = || {
            if words > 0 {
                memory.host = Some(me.borrow(words).map_err(RunError::Space)?);
            }
            if sizes.own > 0 {
                memory.own = Some(IoBuffer::new(sizes.own)?);
            }
            Ok(())
        };
        let taken = take();
        (memory, taken)
    }

    /// Gives the memory of the host back, which no member uses any more.
    pub(super) fn give_back(self, me: &mut Member) {
        if let Some(host) = self.host {
            me.give_back(host);
        }
    }

    /// Returns the first byte, and the number of bytes, of the memory for a group.
    fn of(&self, alone: bool) -> (*mut u8, usize) {
        match (&self.own, &self.host) {
            (Some(own), _) if alone => (own.as_ptr().cast_mut(), own.len()),
            (_, Some(host)) => (host.as_ptr().cast_mut().cast(), size_of_val(&**host)),
            _ => (std::ptr::null_mut(), 0),
        }
    }
}

/// What a member reads with.
pub(super) struct Reader {
    queue: IoQueue,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader { queue: IoQueue::new(Method::Auto) }
    }
}

/// The panels and the final rows of one group.
pub(super) struct Buffers<'r, E> {
    layout: PassLayout<'r>,
    sources: &'r [Source<'r, E>],
    file: Arc<FileShare>,
    group: usize,
    /// The first byte of slot 0, in the memory.
    first: *mut u8,
    slot: Slot,
    element: PhantomData<(E, &'r Memory)>,
}

// SAFETY: the memory is that of the host, which any thread may access, or an `IoBuffer`, which is
// `Sync`. Methods that access it are unsafe, and their callers exclude other accesses.
unsafe impl<E: Real> Sync for Buffers<'_, E> {}

impl<'r, E: Real> Buffers<'r, E> {
    /// Creates the buffers of a group in its memory, whose [`Sizes`] suffice.
    pub(super) fn new(
        layout: PassLayout<'r>,
        sources: &'r [Source<'r, E>],
        file: Arc<FileShare>,
        group: usize,
        memory: &'r Memory,
    ) -> Self {
        let alone = layout.groups.is_alone(group);
        let (base, len) = memory.of(alone);
        // The same in all processes of the host: each maps the memory to a page boundary.
        let lead = base.addr().next_multiple_of(ALIGN) - base.addr();
        let before = layout.groups.beside(group).take_while(|&other| other < group);
        let before = before.filter(|&g| !alone && !layout.groups.is_alone(g));
        let bytes = before.map(|g| layout.slots * Slot::new(&layout, sources, &file, g).bytes());
        let start = lead + bytes.sum::<usize>();
        let slot = Slot::new(&layout, sources, &file, group);
        let end = start + layout.slots * slot.bytes();
        assert!(end <= len, "{end} bytes do not fit");
        let first = base.wrapping_add(start);
        Buffers { layout, sources, file, group, first, slot, element: PhantomData }
    }

    /// Returns the address of a buffer of a slot.
    fn address(&self, slot: usize, buffer: &Range<usize>) -> *mut u8 {
        assert!(slot < self.layout.slots);
        self.first.wrapping_add(slot * self.slot.bytes() + buffer.start)
    }

    /// Returns a buffer of a slot.
    ///
    /// # Safety
    /// No other thread, of any process, accesses the buffer meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the caller excludes other accesses")]
    unsafe fn buffer(&self, slot: usize, buffer: &Range<usize>) -> &mut [u8] {
        // SAFETY: the buffer is inside the memory, as `new` has checked for all slots, and the
        // memory outlives `self`. It consists of atomics or is an `IoBuffer`, which may be written
        // through a pointer; its bytes are initialised, as they were zero at first. The caller
        // excludes other accesses.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot, buffer), buffer.len()) }
    }

    /// Returns bytes of a buffer of a slot.
    ///
    /// # Safety
    /// No thread, of any process, writes to these bytes meanwhile.
    unsafe fn part(&self, slot: usize, buffer: &Range<usize>, part: Range<usize>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= buffer.len());
        let first = self.address(slot, buffer).wrapping_add(part.start);
        // SAFETY: as for `buffer`, of which this is a part; the caller excludes writes to it.
        unsafe { std::slice::from_raw_parts(first, part.len()) }
    }

    /// Returns the columns of a panel, of the matrix.
    fn columns_in(&self) -> Range<usize> {
        let PassLayout { ghosts, groups, cuts, .. } = self.layout;
        ghosts.columns(groups.columns_in(cuts, self.group))
    }

    /// Reads the given rows of all arrays on file into the panel of a slot; returns the number of
    /// bytes read.
    ///
    /// # Safety
    /// No other thread, of any process, accesses the panel meanwhile.
    pub(super) unsafe fn read(
        &self,
        slot: usize,
        rows: Range<usize>,
        reader: &mut Reader,
    ) -> Result<u64> {
        let columns = self.columns_in();
        let mut reads = Vec::new();
        let mut bytes_read = 0;
        for (source, buffer) in self.sources.iter().zip(&self.slot.arrays) {
            let Source::File(file, start) = source else { continue };
            // SAFETY: the caller excludes other accesses; the buffers of a slot do not overlap.
            let into = unsafe { self.buffer(slot, buffer) };
            let all = file_rows::<E>(*start, self.layout.sizes);
            all.read(file, in_file(&rows), bytes::<E>(&columns), into, &mut reads)?;
            bytes_read += (rows.len() * columns.len() * E::BYTES) as u64;
        }
        reader.queue.read(&mut reads)?;
        Ok(bytes_read)
    }

    /// Subtracts the given rows of the field, in the panel of a slot and of the columns that a
    /// member needs, from the sums of their writers.
    ///
    /// # Safety
    /// No thread, of any process, writes to the panel meanwhile. It holds the rows.
    pub(super) unsafe fn subtract(
        &self,
        slot: usize,
        rows: Range<usize>,
        (between, member): (&Between, usize),
        left: &mut UnitSums,
    ) -> Result<()> {
        let (Source::File(file, start), panel) = (&self.sources[0], &self.slot.arrays[0]) else {
            return Ok(());
        };
        let columns = self.columns_in();
        let all = file_rows::<E>(*start, self.layout.sizes);
        let place = all.place(file, &in_file(&rows), &bytes::<E>(&columns));
        for row in rows.clone() {
            let first = place.lead + (row - rows.start) * place.pitch;
            for part in between.parts(member, row) {
                let at = |column| first + (column - columns.start) * E::BYTES;
                // SAFETY: as the caller guarantees.
                let read = unsafe { self.part(slot, panel, at(part.start)..at(part.end)) };
                left.subtract(row as u64, bytes::<E>(&part), read)?;
            }
        }
        Ok(())
    }

    /// Adds the given final rows of a member, in a slot, to the sums of what it writes.
    ///
    /// # Safety
    /// No thread, of any process, writes to the final rows of the member meanwhile.
    pub(super) unsafe fn sum(
        &self,
        slot: usize,
        rows: Range<usize>,
        (between, member): (&Between, usize),
        sums: &mut UnitSums,
    ) -> Result<()> {
        let (columns, place) = self.file.place(&in_file(&rows), self.group);
        for row in rows.clone() {
            let own = bytes::<E>(&between.columns(member, row));
            if own.is_empty() {
                continue;
            }
            let at = place.lead
                + (row - rows.start) * place.pitch
                + (own.start - columns.start) as usize;
            let len = (own.end - own.start) as usize;
            // SAFETY: as the caller guarantees; these columns are the member's.
            let written = unsafe { self.part(slot, &self.slot.out, at..at + len) };
            sums.add(row as u64, own, written)?;
        }
        Ok(())
    }

    /// Returns the position of the given rows of each array, counted with the ghost lines, in the
    /// panel of a slot or in memory, and of the columns of a share.
    pub(super) fn rows_in(
        &self,
        slot: usize,
        rows: Range<usize>,
        share: &Share,
    ) -> Vec<(usize, Rows<E>)> {
        let PassLayout { ghosts, .. } = self.layout;
        let columns = self.columns_in();
        let place = |(source, buffer): (&Source<'_, E>, &Range<usize>)| {
            let rows = match source {
                Source::Memory(all) => *all,
                Source::File(file, start) => {
                    let all = file_rows::<E>(*start, self.layout.sizes);
                    let place = all.place(file, &in_file(&rows), &bytes::<E>(&columns));
                    let first = self.address(slot, buffer).wrapping_add(place.lead).cast::<E>();
                    Rows {
                        start: first.wrapping_sub(columns.start),
                        first: rows.start,
                        end: rows.end,
                        left: columns.start,
                        right: columns.end,
                        pitch: place.pitch / E::BYTES,
                    }
                }
            };
            share.clip(ghosts.place(rows))
        };
        self.sources.iter().zip(&self.slot.arrays).map(place).enumerate().collect()
    }

    /// Returns the position of the given final rows, counted with the ghost lines, in a slot, and
    /// of the columns that a share finishes.
    pub(super) fn rows_out(&self, slot: usize, rows: Range<usize>, share: &Share) -> Rows<E> {
        let PassLayout { ghosts, .. } = self.layout;
        let (columns, place) = self.file.place(&in_file(&rows), self.group);
        let first = self.address(slot, &self.slot.out).wrapping_add(place.lead).cast::<E>();
        let own = rows.clone().map(|row| ghosts.columns(share.columns_out(ghosts.row(row))));
        let own = own.filter(|own| !own.is_empty());
        let own = own.reduce(|all, own| all.start.min(own.start)..all.end.max(own.end));
        let own = own.unwrap_or(0..0);
        ghosts.place(Rows {
            start: first.wrapping_sub(columns.start as usize / E::BYTES),
            first: rows.start,
            end: rows.end,
            left: own.start,
            right: own.end,
            pitch: place.pitch / E::BYTES,
        })
    }

    /// Puts the final rows of a slot into `values`, for all members: see [`whole`](super::whole).
    ///
    /// # Safety
    /// No other thread, of any process, accesses the rows of the slot meanwhile.
    pub(super) unsafe fn pack(&self, slot: usize, rows: Range<usize>, values: &mut [E]) {
        // SAFETY: as the caller guarantees.
        let buffer = unsafe { self.buffer(slot, &self.slot.out) };
        whole::pack(&self.file, self.group, rows, buffer, values);
    }

    /// Writes the final rows of a slot, which must be the next ones. Puts the bytes of other groups
    /// into their edges: pairs of a group and the bytes of a message, of which the first eight are
    /// the length.
    ///
    /// # Safety
    /// No other thread, of any process, accesses the rows of the slot meanwhile.
    pub(super) unsafe fn write<'e>(
        &self,
        output: &mut Output,
        slot: usize,
        rows: &Range<usize>,
        edges: impl Iterator<Item = (usize, &'e mut [u8])>,
    ) -> Result<()> {
        // SAFETY: as the caller guarantees.
        let buffer = unsafe { self.buffer(slot, &self.slot.out) };
        output.writer.write(&mut output.queue, buffer, in_file(rows))?;
        let mut messages: Vec<(usize, Vec<u8>)> = output.writer.take_edges().collect();
        for (group, edge) in edges {
            let found = messages.iter().position(|(to, _)| *to == group);
            let message = found.map_or_else(Vec::new, |at| messages.swap_remove(at).1);
            edge[..8].copy_from_slice(&(message.len() as u64).to_le_bytes());
            edge[8..8 + message.len()].copy_from_slice(&message);
        }
        Ok(())
    }
}

/// The output of one group.
pub(super) struct Output {
    writer: ColumnWriter,
    queue: IoQueue,
}

impl Output {
    pub(super) fn new(writer: ColumnWriter) -> Self {
        Output { writer, queue: IoQueue::new(Method::Auto) }
    }

    /// Takes the bytes of other groups, and writes the blocks that they complete.
    pub(super) fn accept<'e>(&mut self, edges: impl Iterator<Item = &'e [u8]>) -> Result<()> {
        for edge in edges {
            let len = edge[..8].try_into().map_or(0, u64::from_le_bytes) as usize;
            if len > 0 {
                self.writer.accept(&edge[8..8 + len])?;
            }
        }
        Ok(self.writer.flush(&mut self.queue)?)
    }

    /// Writes the last blocks. The data are not synced.
    pub(super) fn finish(mut self) -> Result<()> {
        self.writer.finish(&mut self.queue)?;
        Ok(())
    }
}

fn bytes<E: Real>(columns: &Range<usize>) -> Range<u64> {
    (columns.start * E::BYTES) as u64..(columns.end * E::BYTES) as u64
}

pub(super) fn in_file(rows: &Range<usize>) -> Range<u64> {
    rows.start as u64..rows.end as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use syncline_store::Shape;
    use syncline_store::direct_io::DirectFile;
    use syncline_sync::Space;
    use syncline_testkit::{Random, cases, seed};

    use super::*;
    use crate::{Stencil, strip};

    #[test]
    fn buffers_of_a_host_do_not_overlap() {
        let plain = tempfile::tempfile().unwrap();
        let input = DirectFile::of(&plain, Path::new("name"), false).unwrap();
        let first = seed(0);
        for seed in first..first + u64::from(cases(200)) {
            let mut random = Random::new(seed);
            let shape = Shape::new(3 + random.below(300), 200 + random.below(3000));
            let ghosts = Ghosts::new(shape, Stencil::FIVE_POINT);
            let (levels, band, slots) = (1 + random.below(9), 4, 2 + random.below(3));
            let whole =
                strip::Geometry { shape: ghosts.shape(), width: 4, skew: 1, arrays: 3, slots: 0 };
            let whole = whole.with_slots(Chain::slots(4, levels, band, slots));
            let chain = Chain { geometry: whole, levels, band };
            let hosts: Vec<usize> = (0..1 + random.below(6)).map(|_| random.below(3)).collect();
            let groups = Groups::new(&hosts);
            let Ok(cuts) = Cuts::new(chain, chain.ahead(), hosts.len()) else { continue };
            let sizes = (shape.rows, shape.cols);
            let layout = PassLayout { ghosts, chain, cuts: &cuts, groups: &groups, sizes, slots };
            let sources =
                [Source::File(&input, 128), Source::Memory(no_rows()), Source::File(&input, 0)];
            let file = Arc::new(layout.share_file::<f64>(b"header", 4096).unwrap());
            for member in 0..hosts.len() {
                let own = groups.group(member);
                let sizes = Sizes::new(&layout, &sources, &file, own);
                let memory = Memory {
                    host: Some(Space::heap().array(sizes.host / 8 + 1).unwrap()),
                    own: Some(IoBuffer::new(sizes.own).unwrap()),
                };
                let mut used: Vec<Range<usize>> = Vec::new();
                for group in groups.beside(own) {
                    if groups.is_alone(group) && group != own {
                        continue;
                    }
                    let file = Arc::clone(&file);
                    let buffers = Buffers::<f64>::new(layout, &sources, file, group, &memory);
                    let (first, len) = memory.of(groups.is_alone(group));
                    for slot in 0..slots {
                        let all = buffers.slot.arrays.iter().chain([&buffers.slot.out]);
                        for buffer in all.filter(|buffer| !buffer.is_empty()) {
                            let start = buffers.address(slot, buffer).addr();
                            assert_eq!(start % ALIGN, 0);
                            assert!(start >= first.addr());
                            assert!(start + buffer.len() <= first.addr() + len);
                            used.push(start..start + buffer.len());
                        }
                    }
                }
                used.sort_unstable_by_key(|used| used.start);
                assert!(used.windows(2).all(|two| two[0].end <= two[1].start), "seed {seed}");
            }
        }
    }

    fn no_rows() -> Rows<f64> {
        let start = std::ptr::null_mut();
        Rows { start, first: 0, end: 0, left: 0, right: 0, pitch: 0 }
    }
}
