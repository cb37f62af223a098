//! The buffers of a pass: those of a process, and those that a group of members shares.
//!
//! # Contract
//! A group of several members has its buffers in memory of the host, where each member computes the
//! same places. Tasks of all members access them in the order of the locations that stand for them.

use std::ops::Range;

use syncline_fabric::Member;
use syncline_overlay::error::RunError;
use syncline_signal::primitive::AtomicU64;
use syncline_store::direct_io::IoBuffer;
use syncline_sync::space::Array as Shared;

use super::Pass;
use super::data::{Outgoing, Sink, Source};
use crate::Result;
use crate::engine::Bands;
use crate::team::columns::Members;

/// The slabs of a band, of all arrays: in buffers of the panel, or in the memory of the array.
/// Where they are in a buffer follows from the band: see [`Pass::place`].
#[derive(Default)]
pub(super) struct Panel {
    pub(super) buffers: Vec<Option<Room>>,
}

/// The memory of a buffer.
pub(super) enum Room {
    Own(IoBuffer),
    /// Memory of the host that the members of a group share: the first of some bytes.
    Shared(*mut u8, usize),
}

// SAFETY: what accesses the memory has it in the order of the pass.
unsafe impl Send for Room {}
// SAFETY: as for `Send`.
unsafe impl Sync for Room {}

impl Room {
    pub(super) fn as_ptr(&self) -> *mut u8 {
        match self {
            Room::Own(buffer) => buffer.as_ptr().cast_mut(),
            Room::Shared(first, _) => *first,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Room::Own(buffer) => buffer.len(),
            Room::Shared(_, len) => *len,
        }
    }

    /// Returns bytes of the buffer.
    ///
    /// # Safety
    /// No thread of any process writes these bytes meanwhile.
    pub(super) unsafe fn part(&self, bytes: Range<usize>) -> &[u8] {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len());
        // SAFETY: the bytes are in the buffer, which outlives the pass, and are initialised, as
        // they were zero at first; the caller excludes writes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().add(bytes.start), bytes.len()) }
    }

    /// Returns all bytes for writing.
    ///
    /// # Safety
    /// No other thread of any process accesses the buffer meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the caller excludes other accesses")]
    pub(super) unsafe fn all_mut(&self) -> &mut [u8] {
        // SAFETY: as in `part`, and the memory may be written through a pointer; the caller
        // excludes other accesses.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len()) }
    }
}

/// The memory of a host that its groups of several members share.
pub(super) struct GroupMemory {
    /// The first byte for the group of this member, and the number of its bytes.
    first: *mut u8,
    len: usize,
    /// The bytes of a slot.
    slot: usize,
}

/// The alignment of shared buffers: that of direct I/O, and a page on most hosts.
const ALIGN: usize = 4096;

impl GroupMemory {
    /// Returns buffers of these lengths, which begin at byte `from` of a slot.
    fn rooms(&self, slot: usize, from: usize, lens: &[Option<usize>]) -> Vec<Option<Room>> {
        let mut at = slot * self.slot + from;
        let room = |len: &Option<usize>| {
            let first = self.first.wrapping_add(at);
            at += aligned(*len);
            assert!(at <= self.len, "{at} bytes do not fit into {}", self.len);
            len.map(|len| Room::Shared(first, len))
        };
        lens.iter().map(room).collect()
    }
}

fn aligned(len: Option<usize>) -> usize {
    len.map_or(0, |len| len.next_multiple_of(ALIGN))
}

/// What a panel is for.
#[derive(Clone, Copy)]
pub(super) enum PanelKind<'o> {
    /// What the first engine reads, as it is in the files.
    Incoming,
    /// What an engine passes on to the next.
    Between,
    /// What the last engine writes, as it goes to its files.
    Outgoing(&'o [Outgoing]),
}

impl Panel {
    pub(super) fn into_buffers(self) -> impl Iterator<Item = IoBuffer> {
        self.buffers.into_iter().flatten().filter_map(|room| match room {
            Room::Own(buffer) => Some(buffer),
            Room::Shared(..) => None,
        })
    }
}

impl Pass<'_> {
    /// Returns the lengths of the buffers for what comes in with a band.
    fn incoming_rooms(&self, band: usize) -> Vec<Option<usize>> {
        let room = |(array, source): (usize, &Source<'_>)| match source {
            Source::Memory(_) => None,
            Source::File(file, start) => {
                let part = self.read_bytes(array);
                Some(self.file_slabs(array, *start).room(file, band as u64, &part))
            }
        };
        self.sources.iter().enumerate().map(room).collect()
    }

    /// Returns the lengths of the buffers for the final slabs of a band of each field. `bands` are
    /// those of the last engine.
    fn outgoing_rooms(&self, sinks: &[Sink], band: usize, bands: &Bands) -> Vec<Option<usize>> {
        let room = |(field, sink): (usize, &Sink)| {
            let bytes = band * self.slab_bytes(field);
            match sink {
                Sink::Memory(_) => None,
                Sink::Down(down) => {
                    let file = down.writer.file();
                    Some(file.room(0, bytes) + 2 * file.alignment())
                }
                Sink::Up(..) => Some(bytes),
                Sink::Columns(_, share) => {
                    let slabs = (0..bands.count()).map(|band| bands.slabs_out(band));
                    let rows = slabs.map(|slabs| self.file_rows(&self.actual(slabs)));
                    let room = rows.map(|rows| share.place(&rows, self.group()).1.room).max();
                    Some(room.unwrap_or(0))
                }
            }
        };
        sinks.iter().enumerate().map(room).collect()
    }

    /// Returns the number of the group of this member.
    pub(super) fn group(&self) -> usize {
        self.group_of(self.ranks().0)
    }

    /// Borrows the memory of the host for the groups of several members, if there are any. All
    /// members of a host have the same.
    ///
    /// # Collective
    /// The members of a host call it.
    pub(super) fn group_memory(
        &self,
        sinks: &[Sink],
        (band, bands): (usize, &Bands),
        me: &mut Member,
    ) -> Result<Option<(Shared<AtomicU64>, GroupMemory)>> {
        let Some(members) = self.team else { return Ok(None) };
        let (groups, own) = (&members.groups, self.group());
        let slot = |group: usize| {
            // The pass, as the first member of the group has it.
            let members = Members { rank: groups.members(group).start, ..members.clone() };
            let of = Pass { team: Some(&members), own: self.own.clone(), ..*self };
            let (incoming, outgoing) =
                (of.incoming_rooms(band), of.outgoing_rooms(sinks, band, bands));
            incoming.into_iter().chain(outgoing).map(aligned).sum::<usize>()
        };
        let shared: Vec<usize> =
            groups.beside(own).filter(|&group| !groups.is_alone(group)).collect();
        let bytes =
            |groups: &[usize]| groups.iter().map(|&g| bands.flight * slot(g)).sum::<usize>();
        if bytes(&shared) == 0 {
            return Ok(None);
        }
        let words = (bytes(&shared) + ALIGN).div_ceil(size_of::<AtomicU64>());
        let memory: Shared<AtomicU64> = me.borrow(words).map_err(RunError::Space)?;
        let base = memory.as_ptr().cast_mut().cast::<u8>();
        // The same in all processes of the host: each maps the memory to a page boundary.
        let lead = base.addr().next_multiple_of(ALIGN) - base.addr();
        let before: Vec<usize> = shared.iter().copied().filter(|&group| group < own).collect();
        let first = base.wrapping_add(lead + bytes(&before));
        let len = if groups.is_alone(own) { 0 } else { bytes(&[own]) };
        Ok(Some((memory, GroupMemory { first, len, slot: slot(own) })))
    }

    /// Returns the buffers for what comes in with a band, in a slot.
    pub(super) fn panel(
        &self,
        (slot, band): (usize, usize),
        memory: Option<&GroupMemory>,
    ) -> Result<Panel> {
        let rooms = self.incoming_rooms(band);
        let buffers = match memory {
            Some(memory) => memory.rooms(slot, 0, &rooms),
            None => self.own_rooms(&rooms)?,
        };
        Ok(Panel { buffers })
    }

    /// Returns the buffers for the final slabs of a band of each field, in a slot. `bands` are
    /// those of the last engine.
    pub(super) fn outgoing(
        &self,
        sinks: &[Sink],
        (slot, band): (usize, usize),
        bands: &Bands,
        memory: Option<&GroupMemory>,
    ) -> Result<Panel> {
        let rooms = self.outgoing_rooms(sinks, band, bands);
        let before = || self.incoming_rooms(band).into_iter().map(aligned).sum();
        let buffers = match memory {
            Some(memory) => memory.rooms(slot, before(), &rooms),
            None => self.own_rooms(&rooms)?,
        };
        Ok(Panel { buffers })
    }

    fn own_rooms(&self, rooms: &[Option<usize>]) -> Result<Vec<Option<Room>>> {
        let own = |room: &Option<usize>| {
            room.map(|room| self.buffers.take(room).map(Room::Own)).transpose()
        };
        rooms.iter().map(own).collect()
    }
}
