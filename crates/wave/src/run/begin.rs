//! The begin of a pass: what it reads, where it writes, and its engines.

use std::ops::Range;
use std::sync::Arc;

use syncline_fabric::Member;
use syncline_kernel::rule::three;
use syncline_store::ElementType;
use syncline_store::array::Array;
use syncline_store::columns::{ColumnWriter, Share as FileShare};
use syncline_store::direct_io::{DirectFile, DirectWriter};

use super::{Coming, Part, Run};
use crate::engine::Slabs;
use crate::engines::copies::Copies;
use crate::pass::spent::Spent;
use crate::pass::sums::PassSums;
use crate::pass::{Down, Expected, Pass, Sink, Source};
use crate::run::fields::{Fields, Input, failed};
use crate::run::scheme::Engines;
use crate::team::columns::Members;
use crate::{Error, Result};

impl Run<'_> {
    /// Prepares one pass and runs it. Says that it has begun before it calls any member.
    pub(super) fn begin(
        &self,
        sets: &[Fields],
        Coming { before, passes, levels, first, in_place }: Coming,
        (spent, sums, expected): (&Spent, &mut PassSums, Option<&Expected<'_>>),
        (me, begun): (Option<&mut Member>, &mut bool),
    ) -> Result<Vec<f64>> {
        let (fields, members) = (self.scheme.fields(), self.members(levels));
        let (target, last) =
            (&sets[0], if in_place { &sets[0] } else { sets.last().unwrap_or(&sets[0]) });
        let up = levels > 0 && self.scheme.is_up(before);
        let Part { read, origin, .. } = self.part(levels);
        let of_arrays = self.dims()[0];
        let from = |array: &Array| {
            Source::Memory(match self.scheme.goes_around() {
                true => Slabs { around: Some((read.start, of_arrays)), ..slabs(array) },
                false => skipping(slabs(array), read.start as isize * slab_bytes(array)),
            })
        };
        // What is written has each slab of the arrays once.
        let skipped = |slab: usize| (read.start as isize - origin as isize) * slab as isize;
        let to = |array: &Array| skipping(slabs(array), skipped(slab_bytes(array) as usize));
        let mut opened = Vec::new();
        if let (false, Fields::Files(files)) = (first, last) {
            for (file, path) in files {
                opened.push(DirectFile::of(file, path, false)?);
            }
        }
        let source = |n: usize| {
            let input = &self.inputs[n];
            match (input, last) {
                (_, Fields::Memory(arrays)) if n < fields && !first => from(&arrays[n]),
                (_, Fields::Files(_)) if n < fields && !first => {
                    Source::File(&opened[n], input.start(self.npy))
                }
                (Input::Memory(array), _) => from(array),
                (Input::File(file), _) => {
                    let (file, start) = file.direct();
                    Source::File(file, start)
                }
            }
        };
        let sources: Vec<Source<'_>> = (0..self.inputs.len()).map(source).collect();
        let sink = |n: usize| match target {
            Fields::Memory(arrays) => Ok(Sink::Memory(to(&arrays[n]))),
            Fields::Files(files) => {
                let ((file, path), input) = (&files[n], &self.inputs[n]);
                let start = input.start(self.npy);
                if let Some(members) = &members {
                    let file = DirectFile::of(file, path, true)?;
                    let share = Arc::new(self.file_share(input, members, &file)?);
                    let Members { groups, rank, .. } = members;
                    let group = groups.group(*rank);
                    let writer = match groups.writer(group) == *rank {
                        true => Some(Box::new(ColumnWriter::new(file, share.clone(), group)?)),
                        false => None,
                    };
                    return Ok(Sink::Columns(writer, share));
                }
                if up {
                    let failed = |source| failed("open", path, source);
                    return Ok(Sink::Up(file.try_clone().map_err(failed)?, path.to_owned(), start));
                }
                let bytes = self.share.bytes(start, input.slab_bytes() as u64);
                let writer = DirectWriter::new(DirectFile::of(file, path, true)?, bytes.start)?;
                let start = start as i64 + skipped(input.slab_bytes()) as i64;
                Ok(Sink::Down(Box::new(Down { writer, start, end: bytes.end })))
            }
        };
        let sinks = (0..fields).map(sink).collect::<Result<Vec<Sink>>>()?;
        let elements: Vec<ElementType> = self.inputs.iter().map(Input::element).collect();
        let whole: Vec<Option<Slabs>> = sources[fields..]
            .iter()
            .map(|source| match source {
                Source::Memory(slabs) => Some(*slabs),
                Source::File(..) => None,
            })
            .collect();
        // Of three dimensions the columns are those of no row.
        let flat = self.dims()[1] == 1;
        let damaged = |field: usize, slabs: Range<usize>, cols: Range<usize>| {
            let Fields::Files(files) = last else { unreachable!("files are checked") };
            let [last_slab, last_col] = [&slabs, &cols].map(|range| range.end.max(1) - 1);
            let cols = match flat {
                true => format!(", columns {} to {last_col},", cols.start),
                false => String::new(),
            };
            let why = format!(
                "positions {} to {last_slab} of the first axis{cols} are damaged: their checksum \
                 differs",
                slabs.start
            );
            let path = files[field].1.clone();
            Error::from(syncline_store::Error::Generation { generation: passes, path, why })
        };
        let pass = Pass {
            sources: &sources,
            elements: &elements,
            fields,
            dims: [read.len(), self.dims()[1], self.dims()[2]],
            first: read.start,
            own: self.share.own.start + origin - read.start
                ..self.share.own.end + origin - read.start,
            slabs: of_arrays,
            up,
            threads: self.settings.processors() as usize,
            norm: self.settings.tolerance.is_some(),
            monitor: self.monitor(),
            around: self.scheme.around(),
            spent,
            buffers: &self.buffers,
            expected,
            before,
            team: members.as_ref(),
            damaged: Some(&damaged),
        };
        let engines: Engines<'_> = if levels == 0 {
            let sizes = (pass.dims, self.scheme.plan().flight());
            let engine = Copies::new(sizes, &elements[..fields], members.as_ref());
            vec![(Box::new(engine), 1)]
        } else {
            let extent = self.extent(levels, before);
            self.scheme.engines(&extent, &elements, &whole)?
        };
        *begun = true;
        pass.run(&engines, sinks, sums, me.filter(|_| members.is_some()))
    }

    /// Returns the division of a file among the groups of members by columns.
    fn file_share(
        &self,
        input: &Input<'_>,
        members: &Members,
        file: &DirectFile,
    ) -> Result<FileShare> {
        let ([slabs, rows, cols], bytes) = (self.dims(), input.element().bytes());
        let (header, _) = input.file(self.npy);
        let block = FileShare::best_block(file).max(self.share.block as usize);
        let (groups, members) = (members.groups.count(), members.clone());
        let cut = move |row: u64, group: usize| {
            let (row, member) = (row as usize, members.groups.members(group).start);
            (members.columns.own(member, row / rows, row % rows).start * bytes) as u64
        };
        let sizes = ((slabs * rows) as u64, (cols * bytes) as u64);
        Ok(FileShare::new(&header, sizes, groups, block, cut)?)
    }
}

/// Returns the place of an array. The run writes only to arrays that it has made.
fn slabs(array: &Array) -> Slabs {
    let pitch = three(array.dims())[2] * array.element().bytes();
    Slabs { start: array.bytes().as_ptr().cast_mut(), first: 0, pitch, around: None }
}

/// Returns slabs whose first one is some bytes further.
const fn skipping(slabs: Slabs, bytes: isize) -> Slabs {
    Slabs { start: slabs.start.wrapping_offset(bytes), ..slabs }
}

fn slab_bytes(array: &Array) -> isize {
    let [_, rows, cols] = three(array.dims());
    (rows * cols * array.element().bytes()) as isize
}
