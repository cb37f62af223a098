//! The files that all members of a team write.
//!
//! # Contract
//! The first member creates the files of all fields under hidden names ([`Begun`]), and all open
//! them. Of several passes there are two sets, written in turn. At the end the first member commits
//! those of the last pass, like a run in one process: those of several fields get their names
//! together.
//!
//! Members that have slabs exchange the sums of what they have written ([`Written`]). In the next
//! pass each compares every unit that it reads with the sum of the writer. Members that have
//! columns take sums of these ([`sums`](super::sums)); for the sums of whole slabs that the record
//! of a result has, each reads a part of the slabs at the end ([`sums`]).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use syncline_fabric::Member;
use syncline_store::columns::Share as FileShare;
use syncline_store::direct_io::DirectFile;
use syncline_store::generation::{Identity, Progress};
use syncline_store::newfile::check_named;
use syncline_store::shared::SharedNewFile;
use syncline_trace::{Activity, span};

use crate::monitor::Monitor;
use crate::pass::sums::{PassSums, SlabSums};
use crate::run::computation::Computation;
use crate::run::fields::{Fields, Input, failed};
use crate::run::start::{Standing, Start};
use crate::run::target::Kind;
use crate::run::target::{Leftovers, Pending, Target};
use crate::sweep::{Settings, SweepReport};
use crate::team::agree::{all, decode, encode};
use crate::team::share::Share;
use crate::{Error, Result};

/// The files of a set, with their hidden paths.
pub(super) type Set = Vec<(File, PathBuf)>;

/// The part of the first member: the decision about the names, and the files.
pub(super) struct Begun {
    files: Vec<SharedNewFile>,
    identity: Identity,
    standing: Standing,
}

impl Begun {
    /// Decides whether the target may be written, and creates its files.
    pub(super) fn new(what: &Computation<'_>, passes: u64, creator: &str) -> Result<Self> {
        let mut identity = what.identity();
        let (start, standing) = what.begin(&mut identity)?;
        if !matches!(start, Start::Anew) {
            return Err(Error::NotOnTeam {
                what: "resuming",
                instead: "resume it in one process, or discard what is there",
            });
        }
        // A pass reads the result of the pass before.
        let sets = passes.min(2) as usize;
        let mut of_fields = Vec::new();
        for (path, input) in what.target.paths().iter().zip(what.inputs) {
            let (_, bytes) = input.file(what.target.npy);
            let files = SharedNewFile::create_several(path, bytes, creator, sets)?;
            of_fields.push(files.into_iter());
        }
        let mut files = Vec::new();
        for _ in 0..sets {
            files.extend(of_fields.iter_mut().filter_map(Iterator::next));
        }
        Ok(Begun { files, identity, standing })
    }

    /// Returns the names of the files, as a message.
    pub(super) fn names(&self) -> Vec<u8> {
        encode(&self.files)
    }

    /// Gives the files of a set, whose units have these sums, their names, together.
    pub(super) fn commit(
        mut self,
        target: &Target,
        set: &Set,
        report: &SweepReport,
        (settings, share, dims): (&Settings, &Share, Vec<usize>),
        sums: Vec<u64>,
    ) -> Result<()> {
        self.identity.check_inputs()?;
        let mut files = Vec::new();
        for ((_, hidden), path) in set.iter().zip(target.paths()) {
            let is_it = |file: &SharedNewFile| file.name().path(&path) == *hidden;
            let Some(at) = self.files.iter().position(is_it) else {
                unreachable!("the set has files of this run")
            };
            files.push(self.files.swap_remove(at).into_new());
        }
        let sums = Progress {
            iterations: report.iterations,
            panel_rows: share.unit.unwrap_or(1) as u64,
            checksums: sums,
            residuals: report.residuals.clone(),
            ..Progress::default()
        };
        let pending = Pending {
            kind: Kind::New(files),
            npy: target.npy,
            dims,
            identity: self.identity,
            made: report.made(settings.tolerance),
            sums,
            replaces: (target.leftovers != Leftovers::Discard).then_some(self.standing),
        };
        pending.commit()
    }
}

/// Opens the files with these names, as `opener`; returns the sets, and the length of a block of
/// the files for this member.
pub(super) fn open(target: &Target, names: &[u8], opener: &str) -> Result<(Vec<Set>, u64)> {
    let (mut files, mut block) = (Vec::new(), 1);
    let paths = target.paths();
    for (name, path) in decode(names).iter().zip(paths.iter().cycle()) {
        let file = name.open(path, opener)?;
        let hidden = name.path(path);
        block = block.max(FileShare::best_block(&DirectFile::of(&file, &hidden, true)?));
        files.push((file, hidden));
    }
    let mut sets = Vec::new();
    while !files.is_empty() {
        let others = files.split_off(paths.len().min(files.len()));
        sets.push(std::mem::replace(&mut files, others));
    }
    Ok((sets, block as u64))
}

/// Writes the headers of all files.
pub(super) fn write_headers(inputs: &[Input<'_>], npy: bool, sets: &[Set]) -> Result<()> {
    for set in sets {
        for ((file, path), input) in set.iter().zip(inputs) {
            let (header, _) = input.file(npy);
            file.write_all_at(&header, 0).map_err(|source| failed("write", path, source))?;
        }
    }
    Ok(())
}

/// Returns the sums of all units of the fields in a set, of a result with several: by these a later
/// run knows that the files are of one run. Each member reads a part of the units.
///
/// # Collective
/// All members call it, after all have brought what they have written to disk.
pub(super) fn sums(
    inputs: &[Input<'_>],
    (set, npy): (&Set, bool),
    share: &Share,
    monitor: &Monitor,
    me: &mut Member,
) -> Result<Vec<u64>> {
    if set.len() < 2 {
        return Ok(Vec::new());
    }
    let (unit, slabs, members, rank) = (share.unit.unwrap_or(1), share.slabs, me.size(), me.rank());
    let units = slabs.div_ceil(unit);
    let part = |rank: usize| units * rank / members..units * (rank + 1) / members;
    let mine = part(rank).start * unit..(part(rank).end * unit).min(slabs);
    let read = inputs.iter().zip(set).map(|(input, (file, path))| {
        let file = DirectFile::of(file, path, false)?;
        let place = (input.start(npy), input.slab_bytes());
        let sums = SlabSums::of_file(&file, place, (unit, slabs), mine.clone(), monitor)?;
        Ok(sums.values().to_vec())
    });
    let mut sums = all(me, read.collect::<Result<Vec<_>>>())?;
    gather(&mut sums, part, me)?;
    Ok(sums.concat())
}

/// Exchanges the sums of the units that each member has.
fn gather(
    sums: &mut [Vec<u64>],
    units: impl Fn(usize) -> Range<usize>,
    me: &mut Member,
) -> Result<()> {
    let mine = sums.iter().flat_map(|sums| &sums[units(me.rank())]);
    let mine: Vec<u8> = mine.flat_map(|sum| sum.to_le_bytes()).collect();
    for (member, message) in me.exchange(&mine)?.iter().enumerate() {
        let mut values = message.as_chunks::<8>().0.iter();
        for sums in &mut *sums {
            for (sum, value) in sums[units(member)].iter_mut().zip(&mut values) {
                *sum = u64::from_le_bytes(*value);
            }
        }
    }
    Ok(())
}

/// Brings what this member has written to the first set to disk, and checks that the files that it
/// has read are still those.
pub(super) fn sync(fields: &[Fields]) -> Result<()> {
    for (n, fields) in fields.iter().enumerate() {
        let Fields::Files(files) = fields else { continue };
        for (file, path) in files {
            check_named(path)?;
            if n == 0 {
                let _waits = span(Activity::AwaitDisk, u32::MAX, 0);
                file.sync_data().map_err(|source| failed("sync", path, source))?;
            }
        }
    }
    Ok(())
}

/// The sums that all members have taken of the slabs that they wrote.
#[derive(Default)]
pub(super) struct Written {
    /// Those of the last pass, and those of the pass before, which the last one has read.
    last: Option<OfPass>,
    before: Option<OfPass>,
    passes: u64,
}

struct OfPass {
    /// The iterations before the pass, and its number.
    before: u64,
    pass: u64,
    paths: Vec<PathBuf>,
    /// For each field, those of its units.
    sums: Vec<Vec<u64>>,
}

impl Written {
    /// Returns the sums of the last pass, of all units.
    pub(super) fn sums(&self) -> Vec<u64> {
        self.last.iter().flat_map(|last| &last.sums).flatten().copied().collect()
    }

    /// Compares the sums of what a pass has read with those of its writers. `before` is the number
    /// of iterations before the pass.
    pub(super) fn check(&mut self, before: u64, sums: &PassSums, share: &Share) -> Result<()> {
        // A pass that is run once more has read what it had read.
        if self.last.as_ref().is_some_and(|last| last.before != before) {
            self.before = self.last.take();
        }
        let Some(of_pass) = &self.before else { return Ok(()) };
        let unit = share.unit.unwrap_or(1);
        let slabs = sums.slabs.iter().filter(|slabs| !slabs.is_empty());
        let units = slabs.flat_map(|slabs| slabs.start / unit..slabs.end.div_ceil(unit));
        for ((read, expected), path) in sums.read.iter().zip(&of_pass.sums).zip(&of_pass.paths) {
            let actual = read.as_ref().map_or(&[][..], SlabSums::values);
            for n in units.clone() {
                if actual.get(n) != expected.get(n) {
                    let last = ((n + 1) * unit).min(share.slabs) - 1;
                    let why = format!(
                        "positions {} to {last} of the first axis are damaged: their checksum \
                         differs",
                        n * unit
                    );
                    let (generation, path) = (of_pass.pass, path.clone());
                    return Err(syncline_store::Error::Generation { generation, path, why }.into());
                }
            }
        }
        Ok(())
    }

    /// Keeps the sums of a pass, and exchanges them: the members have the slabs `own`.
    ///
    /// # Collective
    /// All members call it after each pass.
    pub(super) fn exchange(
        &mut self,
        before: u64,
        fields: &[Fields],
        sums: &PassSums,
        (own, share): (&[Range<usize>], &Share),
        me: &mut Member,
    ) -> Result<()> {
        let paths = match fields.first() {
            Some(Fields::Files(files)) => files.iter().map(|(_, path)| path.clone()).collect(),
            _ => Vec::new(),
        };
        let mut all: Vec<Vec<u64>> =
            sums.written.iter().map(|sums| sums.values().to_vec()).collect();
        let unit = share.unit.unwrap_or(1);
        let units = |member: usize| own[member].start / unit..own[member].end.div_ceil(unit);
        gather(&mut all, units, me)?;
        self.passes += 1;
        self.last = Some(OfPass { before, pass: self.passes, paths, sums: all });
        Ok(())
    }
}
