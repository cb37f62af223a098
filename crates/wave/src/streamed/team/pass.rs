//! One pass on a team, as an overlay: see the table in the documentation of [`team`](super).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use syncline_fabric::Member;
use syncline_overlay::access::{Read, Write};
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, run::ReadyOrder};
use syncline_store::columns::{Share as FileShare, UnitSums};

use super::data::{Buffers, Output, PassLayout, Reader, in_file};
use super::sums::Between;
use super::whole::{self, Whole};
use crate::lanes::{Lanes, Real};
use crate::monitor::Monitor;
use crate::streamed::data::Source;
use crate::streamed::pass::{Spent, Waves, timed};
use crate::strip::Ring;
use crate::strip::cut::Share;
use crate::strip::pack::Rows;
use crate::strip::tile::Job;
use crate::{Error, Result};

/// The state of one member in a pass.
pub(super) struct Pass<'r, E> {
    pub(super) layout: PassLayout<'r>,
    pub(super) buffers: Buffers<'r, E>,
    pub(super) sources: &'r [Source<'r, E>],
    pub(super) ring: &'r Ring<E>,
    pub(super) waves: Waves<'r, E>,
    pub(super) spent: &'r Spent,
    pub(super) monitor: &'r Monitor,
    pub(super) file: &'r FileShare,
    pub(super) member: usize,
    pub(super) share: Share,
    pub(super) lanes: Lanes,
    pub(super) tile: usize,
    pub(super) threads: usize,
    /// The number of iterations before the pass.
    pub(super) before: u64,
    /// The matrix of this member, if the result is not a file.
    pub(super) whole: Option<Whole<E>>,
    /// What this pass reads again, and what the next one does.
    pub(super) read: Option<Again<'r>>,
    pub(super) written: Option<&'r Between>,
}

/// A file that a pass has written and another one reads.
#[derive(Clone, Copy)]
pub(super) struct Again<'r> {
    pub(super) between: &'r Between,
    /// The number of passes that have ended, and the name of the file of the last one.
    pub(super) passes: u64,
    pub(super) path: &'r Path,
}

/// What a member has in a pass, and after it.
#[derive(Default)]
pub(super) struct Own {
    /// The output of the group, in the member that writes.
    pub(super) output: Option<Output>,
    /// The sums of what this member writes, if another pass reads it.
    pub(super) sums: Option<UnitSums>,
    /// The sums of what this member reads again, less those of what it has read.
    pub(super) left: Option<UnitSums>,
}

/// The locations that hosts share.
struct Shared<E: Real> {
    /// For each cut and slot: the values that cross eastward, and westward.
    cuts: [Vec<Vec<Location<[E]>>>; 2],
    /// For each cut and slot: the progress of the members to the east, as [`Monitor`] has it. They
    /// travel with the westward values.
    progress: Vec<Vec<Location<[u64]>>>,
    /// For each group and slot: its final rows, if they are for all members.
    finals: Vec<Vec<Location<[E]>>>,
    edges: Vec<Edge>,
}

/// The bytes of disk blocks that one group gives to another, which writes the blocks.
struct Edge {
    from: usize,
    to: usize,
    /// For each slot.
    bytes: Vec<Location<[u8]>>,
}

/// The values that a piece imports, and those that it exports: at the western cut of its member,
/// and at the eastern one. Progress comes in at the eastern cut, and goes out at the western one.
struct Crossed<'g, E> {
    imports: [Option<&'g [E]>; 2],
    exports: [Option<&'g mut [E]>; 2],
    progress: (Option<&'g [u64]>, Option<&'g mut [u64]>),
}

const EAST: usize = 0;
const WEST: usize = 1;

/// The locations of one group. Those without data stand for buffers of [`Buffers`].
struct OfGroup {
    /// For each slot: the panel, and the final rows of each member.
    panels: Vec<Location<()>>,
    outs: Vec<Vec<Location<()>>>,
    /// In the member that writes: its output.
    writer: Location<Option<Output>>,
}

/// The locations of one member.
struct OfMember<E: Real> {
    /// For each slot: the position of the final rows.
    rows: Vec<Location<Option<Rows<E>>>>,
    /// For each slot and piece.
    cells: Vec<Vec<Location<()>>>,
    /// In the member itself, as are the sums: see [`Own`].
    reader: Location<Option<Reader>>,
    sums: Location<Option<UnitSums>>,
    left: Location<Option<UnitSums>>,
}

/// All locations of a pass.
struct Places<E: Real> {
    shared: Shared<E>,
    groups: Vec<OfGroup>,
    members: Vec<OfMember<E>>,
}

/// Returns what a finished pass has left in a location.
fn last<T>(location: Location<T>) -> T {
    location.into_inner().unwrap_or_else(|_| {
        unreachable!("a finished pass holds the last reference to its locations")
    })
}

/// The access of a piece to the values that cross cuts, as in [`Crossed`].
type Crossing<E> =
    ([Option<Read<[E]>>; 2], [Option<Write<[E]>>; 2], (Option<Read<[u64]>>, Option<Write<[u64]>>));

impl<E: Real> Pass<'_, E> {
    /// Runs the pass. Returns the output, which is complete but for the last sync, and the sums.
    pub(super) fn run(&self, me: &mut Member, own: Own) -> Result<Own> {
        let mut places = self.places(own);
        let overlay = self.overlay(&places);
        let mut checked = overlay.check(Initial::Program)?;
        self.monitor.watches(checked.watch());
        let slots = self.layout.slots;
        let rounds = self.layout.chain.bands().div_ceil(slots) as u64;
        // Some workers wait for the disk.
        let workers = self.threads + 2 * slots;
        let runner = Runner::Pool { workers, order: ReadyOrder::DepthFirst };
        let done = checked.run_on(me, runner, Stop::after(rounds));
        drop(checked);
        done?;
        let group = places.groups.swap_remove(self.layout.groups.group(self.member));
        let member = places.members.swap_remove(self.member);
        Ok(Own { output: last(group.writer), sums: last(member.sums), left: last(member.left) })
    }

    fn places(&self, own: Own) -> Places<E> {
        let Own { mut output, mut sums, mut left } = own;
        let PassLayout { groups, cuts, slots, .. } = self.layout;
        let own = groups.group(self.member);
        let named = |what: String| {
            (0..slots).map(move |r| Location::new(format!("{what}, {r}"), ())).collect()
        };
        let of_group = |group: usize| OfGroup {
            panels: named(format!("panel of {group}")),
            outs: groups.members(group).map(|m| named(format!("rows of rank {m}"))).collect(),
            writer: Location::new(
                format!("writer of {group}"),
                if group == own { output.take() } else { None },
            ),
        };
        let groups = (0..groups.count()).map(of_group).collect();
        let of_member = |member: usize| {
            let (pieces, own) = (cuts.share(member).pieces(), member == self.member);
            let name = |r, c| format!("cell {r}, {c} of rank {member}");
            let cells = |r| (0..pieces).map(move |c| Location::new(name(r, c), ())).collect();
            let rows = |r| Location::new(format!("place of rows of rank {member}, {r}"), None);
            OfMember {
                rows: (0..slots).map(rows).collect(),
                cells: (0..slots).map(cells).collect(),
                reader: Location::new(format!("reader of rank {member}"), own.then(Reader::new)),
                sums: Location::new(
                    format!("sums of rank {member}"),
                    if own { sums.take() } else { None },
                ),
                left: Location::new(
                    format!("sums left of rank {member}"),
                    if own { left.take() } else { None },
                ),
            }
        };
        let members = (0..cuts.hosts()).map(of_member).collect();
        Places { shared: self.shared(), groups, members }
    }

    fn shared(&self) -> Shared<E> {
        let PassLayout { groups, cuts, chain, slots, .. } = self.layout;
        let bands = 0..chain.bands();
        let crossing = |cut: usize, way: usize| {
            let at = cuts.share(cut).east;
            let len = |band| match (at, way) {
                (Some(at), EAST) => at.eastward_len(band),
                (Some(at), _) => at.westward_len(band),
                (None, _) => 0,
            };
            let len = bands.clone().map(len).max().unwrap_or(0).max(1);
            let name = ["east", "west"][way];
            let location = |r| Location::absent(format!("values {name} {cut}, {r}"), len);
            (0..slots).map(location).collect()
        };
        let ways = [EAST, WEST];
        let progress = |cut: usize| {
            (0..slots).map(|r| Location::absent(format!("progress {cut}, {r}"), 2)).collect()
        };
        let progress = (0..cuts.hosts() - 1).map(progress).collect();
        let cuts = ways.map(|way| (0..cuts.hosts() - 1).map(|cut| crossing(cut, way)).collect());
        let mut edges = Vec::new();
        for from in 0..groups.count() {
            for (to, most) in self.edges_from(from) {
                let location = |r| Location::absent(format!("edge {from} to {to}, {r}"), 8 + most);
                edges.push(Edge { from, to, bytes: (0..slots).map(location).collect() });
            }
        }
        let alone = groups.members_in_all() == 1;
        let finals = |group: usize| {
            let len = |band| whole::count::<E>(self.file, group, self.layout.rows_out(band));
            let len = bands.clone().map(len).max().unwrap_or(0).max(1);
            let name = |r| format!("final rows of {group}, {r}");
            let location = |r| match alone {
                // A run on a team has memory for locations that several members use.
                true => Location::slice(name(r), vec![E::from_f64(0.0); len]),
                false => Location::absent(name(r), len),
            };
            (0..slots).map(location).collect()
        };
        let all = if self.whole.is_some() { groups.count() } else { 0 };
        let finals = (0..all).map(finals).collect();
        Shared { cuts, progress, finals, edges }
    }

    /// Returns the groups that write blocks with bytes of this one, and for each the greatest
    /// number of bytes of a message for a band.
    fn edges_from(&self, from: usize) -> BTreeMap<usize, usize> {
        let mut edges = BTreeMap::new();
        for band in 0..self.layout.chain.bands() {
            let rows = self.layout.rows_out(band);
            let rows = rows.start as u64..rows.end as u64;
            for (to, bytes) in self.file.edges_from(rows, from) {
                let most = edges.entry(to).or_insert(0);
                *most = bytes.max(*most);
            }
        }
        edges
    }

    /// Declares all tasks, slot by slot and from west to east; those of other members have bodies
    /// as well, which do not run here.
    fn overlay<'o>(&'o self, places: &Places<E>) -> Overlay<'o> {
        let PassLayout { groups, slots, .. } = self.layout;
        let mut overlay = Overlay::new();
        for r in 0..slots {
            for group in 0..groups.count() {
                self.read_task(&mut overlay, places, group, r);
                for member in groups.members(group) {
                    self.check_task(&mut overlay, places, member, r);
                    self.wave_tasks(&mut overlay, places, member, r);
                    self.sum_task(&mut overlay, places, member, r);
                }
                self.write_task(&mut overlay, places, group, r);
                self.take_tasks(&mut overlay, places, group, r);
            }
            for group in 0..groups.count() {
                self.edge_task(&mut overlay, places, group, r);
            }
        }
        overlay
    }

    fn read_task<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        group: usize,
        r: usize,
    ) {
        if self.sources.iter().all(|source| matches!(source, Source::Memory(_))) {
            return;
        }
        let PassLayout { groups, .. } = self.layout;
        let rank = groups.reader(group, r);
        let (panel, reader) = (&places.groups[group].panels[r], &places.members[rank].reader);
        let name = format!("read {r} of {group}");
        let task = overlay.task(name, (panel.write(), reader.write()), move |(_, reader), step| {
            self.read(r, reader, self.band(r, step))
        });
        overlay.place(task, rank);
    }

    fn check_task<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        member: usize,
        r: usize,
    ) {
        let Some(again) = self.read else { return };
        let panel = &places.groups[self.layout.groups.group(member)].panels[r];
        let access = (panel.read(), places.members[member].left.write());
        let name = format!("check {r} of rank {member}");
        let task = overlay.task(name, access, move |(_, left), step| {
            self.check(again, r, left, self.band(r, step))
        });
        overlay.place(task, member);
    }

    fn sum_task<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        member: usize,
        r: usize,
    ) {
        let Some(between) = self.written else { return };
        let groups = self.layout.groups;
        let group = groups.group(member);
        let out = &places.groups[group].outs[member - groups.members(group).start][r];
        let access = (out.read(), places.members[member].sums.write());
        let name = format!("sum {r} of rank {member}");
        let task = overlay.task(name, access, move |(_, sums), step| {
            self.sum(between, r, sums, self.band(r, step))
        });
        overlay.place(task, member);
    }

    fn wave_tasks<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        member: usize,
        r: usize,
    ) {
        let PassLayout { groups, slots, .. } = self.layout;
        let (group, own) = (groups.group(member), &places.members[member]);
        let of_group = &places.groups[group];
        let out = &of_group.outs[member - groups.members(group).start][r];
        let above = &own.cells[(r + slots - 1) % slots];
        let pieces = above.len();
        for c in 0..pieces {
            let right = &above[(c + 1).min(pieces - 1)];
            let access = (
                (own.rows[r].write(), out.write()),
                of_group.panels[r].read(),
                own.cells[r][c].write(),
                right.read(),
                self.crossing(&places.shared, member, r, c),
            );
            let name = format!("wave {r}, {c} of rank {member}");
            let task = overlay.task(name, access, move |((rows, _), _, _, _, crossed), step| {
                let (imports, exports, progress) = crossed;
                let crossed = Crossed { imports, exports, progress };
                self.wave(r, rows, crossed, self.band(r, step), c)
            });
            overlay.place(task, member);
        }
    }

    fn write_task<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        group: usize,
        r: usize,
    ) {
        let edges = || places.shared.edges.iter().filter(|edge| edge.from == group);
        let to: Vec<usize> = edges().map(|edge| edge.to).collect();
        let edges: Vec<Write<[u8]>> = edges().map(|edge| edge.bytes[r].write()).collect();
        let of_group = &places.groups[group];
        let outs: Vec<Write<()>> = of_group.outs.iter().map(|outs| outs[r].write()).collect();
        let name = format!("write {r} of {group}");
        let task = if let Some(finals) = places.shared.finals.get(group) {
            overlay.task(name, (outs, finals[r].write()), move |(_, finals), step| {
                self.pack(r, finals, self.band(r, step))
            })
        } else {
            let access = (outs, of_group.writer.write(), edges);
            overlay.task(name, access, move |(_, output, mut edges), step| {
                let edges = to.iter().copied().zip(edges.iter_mut());
                self.write(r, output, edges, self.band(r, step))
            })
        };
        overlay.place(task, self.layout.groups.writer(group));
    }

    fn take_tasks<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        group: usize,
        r: usize,
    ) {
        let Some(finals) = places.shared.finals.get(group) else { return };
        for member in 0..self.layout.cuts.hosts() {
            let name = format!("take {r} of {group}, rank {member}");
            let task = overlay.task(name, finals[r].read(), move |finals, step| {
                self.take(group, finals, self.band(r, step))
            });
            overlay.place(task, member);
        }
    }

    fn edge_task<'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        places: &Places<E>,
        group: usize,
        r: usize,
    ) {
        let edges = places.shared.edges.iter().filter(|edge| edge.to == group);
        let edges: Vec<Read<[u8]>> = edges.map(|edge| edge.bytes[r].read()).collect();
        if edges.is_empty() {
            return;
        }
        let access = (places.groups[group].writer.write(), edges);
        let name = format!("edge {r} of {group}");
        let task = overlay.task(name, access, move |(output, edges), step| {
            self.edges(output, edges.iter(), self.band(r, step))
        });
        overlay.place(task, self.layout.groups.writer(group));
    }

    /// Returns the access of a piece to the values that cross the cuts of a member.
    fn crossing(&self, shared: &Shared<E>, member: usize, r: usize, piece: usize) -> Crossing<E> {
        let PassLayout { cuts, slots, .. } = self.layout;
        let pieces = cuts.share(member).pieces();
        let before = (r + slots - 1) % slots;
        let west = member.checked_sub(1).filter(|_| piece == 0);
        let east = Some(member).filter(|_| piece + 1 == pieces && member + 1 < cuts.hosts());
        let ([eastward, westward], progress) = (&shared.cuts, &shared.progress);
        (
            [west.map(|cut| eastward[cut][r].read()), east.map(|cut| westward[cut][before].read())],
            [west.map(|cut| westward[cut][r].write()), east.map(|cut| eastward[cut][r].write())],
            (
                east.map(|cut| progress[cut][before].read()),
                west.map(|cut| progress[cut][r].write()),
            ),
        )
    }

    /// Returns the band of slot `r` in this round, which may be after the last band.
    fn band(&self, r: usize, step: &Step) -> usize {
        step.iteration() as usize * self.layout.slots + r
    }

    /// Returns an error if the sweep is cancelled.
    fn go_on(&self) -> Result<()> {
        match self.monitor.is_cancelled() {
            true => Err(Error::Cancelled { iteration: self.before }),
            false => Ok(()),
        }
    }

    fn read(&self, r: usize, reader: &mut Option<Reader>, band: usize) -> Result<()> {
        let rows = self.layout.rows_in(band);
        let Some(reader) = reader.as_mut().filter(|_| !rows.is_empty()) else { return Ok(()) };
        self.go_on()?;
        // SAFETY: the task holds the panel of the slot exclusively, in the order of all members.
        let read = timed(&self.spent.read_ns, || unsafe { self.buffers.read(r, rows, reader) })?;
        self.spent.read.fetch_add(read, Relaxed);
        self.monitor.moved(read);
        Ok(())
    }

    fn check(
        &self,
        again: Again<'_>,
        r: usize,
        left: &mut Option<UnitSums>,
        band: usize,
    ) -> Result<()> {
        let rows = self.layout.rows_in(band);
        let Some(left) = left.as_mut().filter(|_| !rows.is_empty()) else { return Ok(()) };
        self.go_on()?;
        let which = (again.between, self.member);
        // SAFETY: the task holds the panel of the slot inclusively, in the order of all members,
        // after the task that has read these rows.
        let read = || unsafe { self.buffers.subtract(r, rows.clone(), which, left) };
        timed(&self.spent.check_ns, read)?;
        let Some((rows, bytes)) = left.damaged(in_file(&rows)) else { return Ok(()) };
        let [first, end] = [bytes.start, bytes.end].map(|byte| byte / E::BYTES as u64);
        let why = format!(
            "rows {} to {}, columns {first} to {}, are damaged: their checksum differs",
            rows.start,
            rows.end - 1,
            end - 1
        );
        let (generation, path) = (again.passes, again.path.to_owned());
        Err(syncline_store::Error::Generation { generation, path, why }.into())
    }

    fn sum(
        &self,
        between: &Between,
        r: usize,
        sums: &mut Option<UnitSums>,
        band: usize,
    ) -> Result<()> {
        let rows = if band < self.layout.chain.bands() { self.layout.rows_out(band) } else { 0..0 };
        let Some(sums) = sums.as_mut().filter(|_| !rows.is_empty()) else { return Ok(()) };
        self.go_on()?;
        // SAFETY: the task holds the final rows of this member in the slot inclusively, in the
        // order of all members.
        let summed = || unsafe { self.buffers.sum(r, rows, (between, self.member), sums) };
        timed(&self.spent.write_ns, summed)
    }

    fn wave(
        &self,
        r: usize,
        rows: &mut Option<Rows<E>>,
        crossed: Crossed<'_, E>,
        band: usize,
        piece: usize,
    ) -> Result<()> {
        let PassLayout { chain, .. } = &self.layout;
        if band >= chain.bands() {
            return Ok(());
        }
        self.go_on()?;
        let place = || self.buffers.rows_out(r, self.layout.rows_out(band), &self.share);
        let rows_out = *match piece {
            0 => rows.insert(place()),
            _ => rows.get_or_insert_with(place),
        };
        let rows_in = self.buffers.rows_in(r, self.layout.rows_in(band), &self.share);
        let job = Job {
            chain,
            ring: self.ring,
            band,
            columns: self.share.piece(piece),
            rows_in: &rows_in,
            rows_out,
            tile: self.tile,
        };
        let [west, east] = [self.share.west, self.share.east];
        let Crossed { imports, mut exports, progress } = crossed;
        if let (Some(&[done, moved]), 1..) = (progress.0, band) {
            self.monitor.others_are([done, moved]);
        }
        let mut exported = 0;
        // SAFETY:
        // * ring, lanes, kernel and arrays fit, as in the pass of one process, and the ring has the
        //   window of the share; so do the rows, which have all columns of the share;
        // * the pieces to the left and above, and those of the band `slots` earlier, have run as in
        //   the pass of one process; panel and outgoing rows are those of the group, and the pieces
        //   hold them as there: the panel inclusively, and exclusively the location for the columns
        //   of this member. Members finish different columns, and the vector of positions at a cut
        //   is finished by the eastern member, after the western one: see `strip::cut`;
        // * the first piece holds the eastward values of its western cut for this band, and the
        //   last one the westward values of its eastern cut for the band above, both inclusively:
        //   the pieces of the neighbours that export them have run. They are imported before the
        //   tiles of the piece, and exported after them, by the same task; consecutive bands of
        //   these pieces run one after the other. So the order is that of `cut::message`.
        unsafe {
            self.waves.piece(&job, None, |tiles| {
                if let (Some(cut), Some(values)) = (west, imports[0]) {
                    cut.import_west(self.lanes, &job, &values[..cut.eastward_len(band)]);
                }
                if let (Some(cut), Some(values), Some(above)) =
                    (east, imports[1], band.checked_sub(1))
                {
                    cut.import_east(self.ring, above, &values[..cut.westward_len(above)]);
                }
                tiles();
                if let (Some(cut), Some(values)) = (west, &mut exports[0]) {
                    let values = &mut values[..cut.westward_len(band)];
                    cut.export_west(self.ring, band, values);
                    exported += size_of_val(values);
                }
                if let (Some(cut), Some(values)) = (east, &mut exports[1]) {
                    let values = &mut values[..cut.eastward_len(band)];
                    cut.export_east(self.lanes, &job, values);
                    exported += size_of_val(values);
                }
            });
        }
        self.spent.exchanged.fetch_add(exported as u64, Relaxed);
        self.monitor.one_more();
        if let Some(progress) = progress.1 {
            progress.copy_from_slice(&[self.monitor.done(), self.monitor.bytes()]);
        }
        Ok(())
    }

    fn write<'e>(
        &self,
        r: usize,
        output: &mut Option<Output>,
        edges: impl Iterator<Item = (usize, &'e mut [u8])>,
        band: usize,
    ) -> Result<()> {
        let PassLayout { chain, groups, cuts, .. } = self.layout;
        let rows = if band < chain.bands() { self.layout.rows_out(band) } else { 0..0 };
        let Some(output) = output.as_mut().filter(|_| !rows.is_empty()) else {
            edges.for_each(|(_, edge)| edge[..8].fill(0));
            return Ok(());
        };
        self.go_on()?;
        let columns = groups.all_columns_out(cuts, groups.group(self.member));
        let bytes = (rows.len() * columns.len() * E::BYTES) as u64;
        // SAFETY: the task holds the final rows of all members of the group in this slot
        // exclusively, in the order of all members.
        let wrote = || unsafe { self.buffers.write(output, r, &rows, edges) };
        timed(&self.spent.write_ns, wrote)?;
        self.spent.written.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    fn pack(&self, r: usize, finals: &mut [E], band: usize) -> Result<()> {
        if band < self.layout.chain.bands() {
            self.go_on()?;
            let rows = self.layout.rows_out(band);
            // SAFETY: the task holds the final rows of all members of the group in this slot
            // exclusively, in the order of all members.
            timed(&self.spent.pack_ns, || unsafe { self.buffers.pack(r, rows, finals) });
        }
        Ok(())
    }

    fn take(&self, group: usize, finals: &[E], band: usize) -> Result<()> {
        let bands = self.layout.chain.bands();
        let Some(whole) = self.whole.as_ref().filter(|_| band < bands) else { return Ok(()) };
        let rows = self.layout.rows_out(band);
        // SAFETY: the caller of the pass has borrowed the matrix for it, and the pass does not read
        // it. Groups finish different columns, and bands different rows.
        timed(&self.spent.pack_ns, || unsafe { whole.take(self.file, group, rows, finals) });
        Ok(())
    }

    fn edges<'e>(
        &self,
        output: &mut Option<Output>,
        edges: impl Iterator<Item = &'e [u8]>,
        band: usize,
    ) -> Result<()> {
        let some = band < self.layout.chain.bands() && !self.layout.rows_out(band).is_empty();
        let Some(output) = output.as_mut().filter(|_| some) else { return Ok(()) };
        timed(&self.spent.write_ns, || output.accept(edges))
    }
}
