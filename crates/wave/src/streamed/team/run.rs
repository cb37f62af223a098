//! A whole streamed sweep on a team: see the phases in the documentation of [`team`](super).

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_kernel::dynamic::Kernel;
use syncline_store::array::ArraySource;
use syncline_store::columns::{ColumnWriter, Share as FileShare, UnitSums};
use syncline_store::direct_io::DirectFile;
use syncline_store::generation::{Generations, Identity, Made};
use syncline_store::newfile::{FileState, check_named};
use syncline_store::shared::{InputView, SharedName, SharedNewFile};
use syncline_store::{Layout, Matrix};
use syncline_trace::{Activity, span};

use super::data::{Buffers, Memory, Output, PassLayout, Sizes};
use super::pass::{Again, Own, Pass};
use super::same::{arguments, same};
use super::sums::Between;
use super::whole::Whole;
use super::{link, plan};
use crate::lanes::Real;
use crate::run::Done;
use crate::run::target::{Leftovers, Target};
use crate::streamed::data::{Held, Source};
use crate::streamed::pass::{Spent, Waves};
use crate::streamed::plan::StreamPlan;
use crate::streamed::run::{Arrays, question_for};
use crate::strip::Ring;
use crate::strip::cut::Cuts;
use crate::strip::ghosts::Ghosts;
use crate::strip::tile::Chain;
use crate::sweep::matrices::{identity, taken};
use crate::sweep::{Settings, SweepPlan, SweepReport};
use crate::team::groups::Groups;
use crate::{Error, Result, facts};

/// The first word of a sweep. Another collective call begins with another word, but by chance.
const SWEEP: u64 = 0x5357_4545_5020_6f6e;

/// Returns the value, if no member has an error; otherwise this member's error, or that of the
/// member of the lowest rank that has one. An error that another member was said to have gives way
/// to that member's own, which says more.
pub(crate) fn all<T>(me: &mut Member, outcome: Result<T>) -> Result<T> {
    const ELSEWHERE: u64 = 1;
    const OWN: u64 = 2;
    let kind = match &outcome {
        Ok(_) => 0,
        Err(Error::Elsewhere { .. }) => ELSEWHERE,
        Err(_) => OWN,
    };
    let kinds = me.gather(kind)?;
    let first = |kind| kinds.iter().position(|&of| of == kind);
    let Some(rank) = first(OWN).or_else(|| first(ELSEWHERE)) else { return outcome };
    let text = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let first = me.exchange(text.as_bytes())?.swap_remove(rank);
    match outcome {
        Err(error) if kind == OWN || kinds[rank] == ELSEWHERE => Err(error),
        _ => Err(Error::Elsewhere { rank, error: String::from_utf8_lossy(&first).into_owned() }),
    }
}

/// Begins a sweep: checks that all members do, and that none has found anything wrong with its
/// arguments (`checked`).
pub(crate) fn begin(me: &mut Member, checked: Result<()>) -> Result<()> {
    let words = me.gather(SWEEP)?;
    if let Some(rank) = words.iter().position(|&word| word != SWEEP) {
        let error = "it makes another collective call where this member begins a sweep".to_owned();
        return Err(Error::Elsewhere { rank, error });
    }
    all(me, checked)
}

/// What all members have agreed on before anything is written.
struct Agreed {
    begun: Instant,
    held: Vec<Held>,
    /// Those of the inputs, as they were at first.
    versions: Vec<Option<(u64, i128)>>,
    groups: Groups,
    plan: StreamPlan,
    threads: usize,
}

/// Agrees on the sweep and its plan. `checked` is what a member has found wrong with its arguments;
/// there is no target if the result is in memory.
fn agree<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    target: Option<&Target>,
    checked: Result<()>,
    me: &mut Member,
) -> Result<Agreed> {
    let begun = Instant::now();
    begin(me, checked)?;
    let same = same(me, &arguments(settings, kernel, arrays, target))?;
    all(me, same)?;
    let held = arrays.hold();
    let views = held.and_then(|held| Ok((held, views(arrays)?, arrays.versions()?)));
    let (held, views, versions) = all(me, views)?;
    let paths: Vec<_> = arrays.on_file().filter_map(|(_, matrix)| matrix.path()).collect();
    check_views(me, &paths, &views)?;
    let on_file = target.is_some();
    let question = question_for(settings, kernel, arrays, &held, on_file, settings.iterations);
    let refused = match (settings.tolerance, settings.iterations, arrays.has_points(kernel)) {
        (Some(_), ..) => Some(Error::NotOnTeam {
            what: "a tolerance",
            instead: "give a number of iterations, or run it in one process",
        }),
        (None, 0, _) | (None, _, false) => Some(Error::NotOnTeam {
            what: "a sweep that updates nothing",
            instead: "run it in one process",
        }),
        _ => None,
    };
    let mut question = all(me, refused.map_or(question, Err))?;
    let memory = question.memory;
    let poorest = plan::agree(me, &mut question)?;
    let groups = Groups::of(me);
    let links = link::measure(me, &groups)?;
    let plan = match plan::answer(&question, &groups, &links) {
        // The error of the members that have too little, each with its own bound.
        Err(Error::StreamMemory { needed, .. }) if memory >= needed => {
            Err(Error::Elsewhere { rank: poorest, error: String::new() })
        }
        Err(Error::StreamMemory { depth, needed, .. }) => {
            let (allowed, on_team, instead) = (memory, true, None);
            Err(Error::StreamMemory { allowed, depth, needed, on_team, instead })
        }
        plan => plan,
    };
    let plan = all(me, plan)?;
    let (shape, coefficients) = (arrays.field.shape(), arrays.coefficients.len());
    let (dims, layout) = (&[shape.rows, shape.cols], Layout::RowMajor);
    let data = facts::Data { dims, element: E::TYPE, coefficients, layout };
    let streamed = SweepPlan::Streamed(plan);
    facts::streamed(settings, kernel.name(), &data, &streamed, question.disk);
    Ok(Agreed { begun, held, versions, groups, plan, threads: question.threads })
}

/// Runs a sweep into a file, on a team; all members call it. `checked` is what a member has found
/// wrong with its arguments.
pub(crate) fn run<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    target: &Target,
    checked: Result<()>,
    me: &mut Member,
) -> Result<SweepReport> {
    let agreed = agree(settings, kernel, arrays, Some(target), checked, me)?;
    // The first member decides about the name, and creates the files.
    let begin = (me.rank() == 0)
        .then(|| Begin::new(arrays, settings, target, &agreed.plan, me))
        .transpose();
    let begin = all(me, begin)?;
    let names = begin.as_ref().map(|begin| begin.names()).unwrap_or_default();
    let names = decode(&me.exchange(&names)?.swap_remove(0));
    let here = me.place();
    let open = |name: &SharedName| {
        let file = name.open(&target.path, &here)?;
        let direct = DirectFile::of(&file, &name.path(&target.path), true)?;
        Ok(OpenFile { file, direct })
    };
    let files = names.iter().map(open).collect::<Result<Vec<_>>>();
    let files = all(me, files)?;
    let header = Matrix::<E>::header(target.npy, arrays.field.shape());
    // The largest block of all members: a block has one writer.
    let block = files.iter().map(|file| FileShare::best_block(&file.direct)).max().unwrap_or(1);
    let block = me.gather(block as u64)?.into_iter().max().unwrap_or(1) as usize;
    let outputs = Outputs { header, block, files, wholes: Vec::new() };
    let (made, last) = agreed.sweep(settings, kernel, arrays, &outputs, me)?;
    let committed = begin.map_or(Ok(()), |begin| begin.commit(last, &made.made(None)));
    all(me, committed)?;
    Ok(made)
}

/// Runs a sweep into a matrix in the memory of each member, on a team; all members call it, with
/// what a member has found wrong with its arguments.
pub(crate) fn gather<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    mut result: Matrix<E>,
    checked: Result<()>,
    me: &mut Member,
) -> Result<(Matrix<E>, SweepReport)> {
    let in_memory = match result.as_mut_slice() {
        Some(_) => Ok(()),
        None => Err(Error::NotOnTeam {
            what: "a result that is not row-major in memory",
            instead: "give a target for a file, or a matrix in memory",
        }),
    };
    let agreed = agree(settings, kernel, arrays, None, checked.and(in_memory), me)?;
    let shape = (arrays.field.shape().rows, arrays.field.shape().cols);
    // A pass reads the result of the pass before.
    let mut second = Vec::new();
    let reserved = match agreed.plan.passes {
        1 => Ok(()),
        _ => second.try_reserve_exact(shape.0 * shape.1).map_err(|_| Error::StreamMemory {
            allowed: settings.memory,
            depth: agreed.plan.depth,
            needed: (shape.0 * shape.1 * E::BYTES) as u64,
            on_team: true,
            instead: None,
        }),
    };
    all(me, reserved)?;
    let values = result.as_mut_slice().unwrap_or_default();
    let mut wholes = vec![Whole::new(values, shape)];
    if agreed.plan.passes > 1 {
        second.resize(shape.0 * shape.1, E::from_f64(0.0));
        wholes.push(Whole::new(&mut second, shape));
        // The last pass has the result.
        wholes.rotate_left((agreed.plan.passes % 2 == 0).into());
    }
    let outputs = Outputs { header: Vec::new(), block: E::BYTES, files: Vec::new(), wholes };
    let (made, _) = agreed.sweep(settings, kernel, arrays, &outputs, me)?;
    Ok((result, made))
}

impl Agreed {
    /// Runs all passes; returns the report, and the number of the output of the last one.
    fn sweep<E: Real>(
        &self,
        settings: &Settings,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        outputs: &Outputs<E>,
        me: &mut Member,
    ) -> Result<(SweepReport, usize)> {
        let Agreed { begun, held, versions, groups, plan, threads } = self;
        let (spent, threads) = (&Spent::default(), *threads);
        let stages =
            Stages { settings, kernel, arrays, held, versions, plan, groups, spent, threads };
        let (done, last) = stages.passes(me, outputs)?;
        let spent = &spent.of_all(me)?;
        let workers = (threads * me.size()) as u64;
        let plan = SweepPlan::Streamed(*plan);
        Ok((done.report(plan, workers, spent, begun.elapsed()), last))
    }
}

/// What the passes write in turn, and read: files, or matrices of the member.
struct Outputs<E> {
    header: Vec<u8>,
    block: usize,
    files: Vec<OpenFile>,
    wholes: Vec<Whole<E>>,
}

impl<E: Real> Outputs<E> {
    fn len(&self) -> usize {
        self.files.len() + self.wholes.len()
    }

    /// Returns an output as the source of the next pass.
    fn source(&self, output: usize) -> Source<'_, E> {
        match self.wholes.get(output) {
            Some(whole) => whole.source(),
            None => Source::File(&self.files[output].direct, self.header.len() as u64),
        }
    }
}

/// A file that the passes write, and read.
struct OpenFile {
    file: File,
    direct: DirectFile,
}

/// Looks at all inputs on file.
fn views<E: Real>(arrays: &Arrays<'_, E>) -> Result<Vec<InputView>> {
    let paths = arrays.on_file().filter_map(|(_, matrix)| matrix.path());
    Ok(paths.map(InputView::of).collect::<syncline_store::Result<_>>()?)
}

/// Checks that all members see the same inputs, which this member has at `paths`.
pub(crate) fn check_views(me: &mut Member, paths: &[&Path], views: &[InputView]) -> Result<()> {
    let own: Vec<u8> = views.iter().flat_map(InputView::encode).collect();
    let (mut theirs, here) = (me.exchange(&own)?, me.place());
    let first = theirs.swap_remove(0);
    let firsts = first.as_chunks::<32>().0.iter().map(InputView::decode);
    let same = views.iter().zip(firsts).zip(paths);
    let mut checks = same.map(|((own, first), path)| own.check(&first, path, &here, "rank 0"));
    let counts = if first.len() == own.len() {
        Ok(())
    } else {
        Err(Error::NotOnTeam {
            what: "a number of inputs that differs from that of rank 0",
            instead: "give all members the same inputs",
        })
    };
    let checked = counts.and_then(|()| Ok(checks.try_for_each(|check| check)?));
    all(me, checked)
}

/// The part of the first member: the decision about the name, and the files.
struct Begin {
    files: Vec<SharedNewFile>,
    identity: Identity,
    standing: FileState,
    replaces_any: bool,
}

impl Begin {
    fn new<E: Real>(
        arrays: &Arrays<'_, E>,
        settings: &Settings,
        target: &Target,
        plan: &StreamPlan,
        me: &Member,
    ) -> Result<Begin> {
        let standing = FileState::of(&target.path)?;
        if target.leftovers != Leftovers::Discard
            && let Some(by) = taken(settings, arrays, target)?
        {
            if target.leftovers == Leftovers::Resume {
                return Err(Error::NotOnTeam {
                    what: "resuming",
                    instead: "resume it in one process, or discard what is there",
                });
            }
            return Err(Error::Taken { path: target.path.clone(), by: Box::new(by) });
        }
        if target.leftovers == Leftovers::Discard {
            Generations::discard(&target.path)?;
        }
        let shape = arrays.field.shape();
        let bytes = Matrix::<E>::file_bytes(target.npy, shape, Layout::RowMajor)?;
        // A pass reads the result of the pass before.
        let count = plan.passes.min(2) as usize;
        let files = SharedNewFile::create_several(&target.path, bytes, &me.place(), count)?;
        let replaces_any = target.leftovers == Leftovers::Discard;
        Ok(Begin { files, identity: identity(settings, arrays, target)?, standing, replaces_any })
    }

    /// Returns the names of the files, as a message.
    fn names(&self) -> Vec<u8> {
        encode(&self.files)
    }

    /// Gives the file of the last pass the name of the output.
    fn commit(mut self, last: usize, made: &Made) -> Result<()> {
        self.identity.check_inputs()?;
        let file = self.files.swap_remove(last);
        self.identity.mark(file.file(), made);
        match self.replaces_any {
            true => file.commit()?,
            false => file.commit_over(&self.standing)?,
        }
        Ok(())
    }
}

/// Returns the names of the files, as a message.
pub(crate) fn encode(files: &[SharedNewFile]) -> Vec<u8> {
    let names = files.iter().map(|file| file.name().encode());
    names.flat_map(|name| (name.len() as u64).to_le_bytes().into_iter().chain(name)).collect()
}

/// Returns the names in a message.
pub(crate) fn decode(mut message: &[u8]) -> Vec<SharedName> {
    let mut names = Vec::new();
    while let Some((len, rest)) = message.split_first_chunk::<8>() {
        let Some((name, rest)) = rest.split_at_checked(u64::from_le_bytes(*len) as usize) else {
            break;
        };
        names.extend(SharedName::decode(name));
        message = rest;
    }
    names
}

/// All that the passes have in common.
struct Stages<'a, E: Real> {
    settings: &'a Settings,
    kernel: &'a dyn Kernel<E>,
    arrays: &'a Arrays<'a, E>,
    held: &'a [Held],
    versions: &'a [Option<(u64, i128)>],
    plan: &'a StreamPlan,
    groups: &'a Groups,
    spent: &'a Spent,
    threads: usize,
}

impl<E: Real> Stages<'_, E> {
    /// Runs all passes; returns what was done, and the file of the last one.
    fn passes(&self, me: &mut Member, outputs: &Outputs<E>) -> Result<(Done, usize)> {
        let Stages { settings, plan, .. } = self;
        let monitor = &settings.monitor;
        monitor.passes_are(plan.passes, 0, settings.iterations);
        let pieces = me.gather(self.pieces(me)?)?;
        monitor.begin(pieces[me.rank()..].iter().sum());
        let memory = self.memory(me, outputs)?;
        let done = self.passes_in(me, outputs, &memory);
        // Where a member is dead, others may still be in a pass.
        if !matches!(done, Err(Error::Fault(_))) {
            memory.give_back(me);
        }
        done
    }

    /// Runs all passes with these buffers.
    fn passes_in(
        &self,
        me: &mut Member,
        outputs: &Outputs<E>,
        memory: &Memory,
    ) -> Result<(Done, usize)> {
        let Stages { settings, plan, .. } = self;
        let (mut done, mut last, mut ring) = (Done::default(), 0, None);
        // What the last pass has written, and the sums of what this member reads of it.
        let mut before: Option<(Between, UnitSums)> = None;
        while done.iterations < settings.iterations {
            let levels = plan.depth.min(settings.iterations - done.iterations);
            let next_levels = plan.depth.min(settings.iterations - done.iterations - levels);
            let again = next_levels > 0 && !outputs.files.is_empty();
            let written = again.then(|| self.between(me, levels, next_levels)).transpose()?;
            let (read, left) = before.take().unzip();
            let read = read.as_ref().map(|between| Again {
                between,
                passes: done.passes,
                path: outputs.files[last].direct.name(),
            });
            let sources = self.sources((done.passes > 0).then(|| outputs.source(last)));
            let next = if done.passes == 0 { 0 } else { (last + 1) % outputs.len() };
            let output = self.pass(
                me,
                (levels, done.iterations),
                &sources,
                (outputs, next),
                (&mut ring, memory),
                (read, left, written.as_ref()),
            );
            let unchanged = || {
                let mut inputs = self.arrays.on_file();
                inputs.try_for_each(|(_, matrix)| ArraySource::of_matrix(matrix).map(drop))?;
                let mut files = outputs.files.iter();
                files.try_for_each(|open| check_named(open.direct.name()))?;
                self.arrays.check_versions(self.versions)
            };
            // No member reads the output, or gives it its name, before all have synced.
            let sums = all(me, output.and_then(|sums| unchanged().map(|()| sums)))?;
            if let (Some(written), Some(sums)) = (written, sums) {
                let expected = written.exchange(me, &sums);
                before = Some((written, all(me, expected)?));
            }
            done.take(levels, Vec::new(), None, 1);
            last = next;
            let own = settings.monitor.own();
            let of_all = [me.gather(own[0])?, me.gather(own[1])?];
            settings.monitor.others_are(of_all.map(|all| all[me.rank() + 1..].iter().sum()));
            settings.monitor.pass_is_over(None);
        }
        Ok((done, last))
    }

    /// Returns the sources of a pass that reads this field, or of the first pass.
    fn sources<'f>(&'f self, field: Option<Source<'f, E>>) -> Vec<Source<'f, E>> {
        let mut sources = self.arrays.sources(self.held);
        if let Some(field) = field {
            sources[0] = field;
        }
        sources
    }

    /// Takes the memory for the buffers of all passes.
    fn memory(&self, me: &mut Member, outputs: &Outputs<E>) -> Result<Memory> {
        let (depth, iterations) = (self.plan.depth, self.settings.iterations);
        let group = self.groups.group(me.rank());
        let mut sizes = Sizes::default();
        let later = (outputs.len() > 1).then_some(1);
        for (levels, field) in [
            (depth.min(iterations), None),
            (depth.min(iterations), later),
            (iterations % depth, later),
        ] {
            if levels > 0 {
                let cuts = self.cuts(levels, me.size())?;
                let layout = self.layout(&cuts);
                let file = layout.share_file::<E>(&outputs.header, outputs.block)?;
                let sources = self.sources(field.map(|output| outputs.source(output)));
                sizes = sizes.max(Sizes::new(&layout, &sources, &file, group));
            }
        }
        let (memory, taken) = Memory::new(me, sizes);
        match all(me, taken) {
            Ok(()) => Ok(memory),
            Err(error) => {
                memory.give_back(me);
                Err(error)
            }
        }
    }

    fn layout<'c>(&'c self, cuts: &'c Cuts) -> PassLayout<'c> {
        let shape = self.arrays.field.shape();
        let ghosts = Ghosts::new(shape, self.kernel.stencil());
        let (groups, slots) = (self.groups, self.plan.panels);
        PassLayout {
            ghosts,
            chain: cuts.chain(),
            cuts,
            groups,
            sizes: (shape.rows, shape.cols),
            slots,
        }
    }

    fn cuts(&self, levels: u64, members: usize) -> Result<Cuts> {
        let plan = self.plan;
        let chain = Chain { geometry: plan.geometry, levels: levels as usize, band: plan.band };
        Cuts::new(chain, plan.piece, members).map_err(|most| Error::Members { members, most })
    }

    /// Returns the division of the file that a pass of `levels` iterations writes, and one of
    /// `next` iterations reads.
    fn between(&self, me: &Member, levels: u64, next: u64) -> Result<Between> {
        let shape = self.arrays.field.shape();
        let ghosts = Ghosts::new(shape, self.kernel.stencil());
        let [writers, readers] = [self.cuts(levels, me.size())?, self.cuts(next, me.size())?];
        Ok(Between::new(ghosts, (shape.rows, shape.cols), E::BYTES, &writers, &readers))
    }

    /// Returns the number of pieces that this member runs in all passes.
    fn pieces(&self, me: &Member) -> Result<u64> {
        let (depth, all) = (self.plan.depth, self.settings.iterations);
        let of = |levels: u64| -> Result<u64> {
            let share = self.cuts(levels, me.size())?.share(me.rank());
            let plan = self.plan;
            let chain = Chain { geometry: plan.geometry, levels: levels as usize, band: plan.band };
            Ok((share.pieces() * chain.bands()) as u64)
        };
        let rest = if all % depth > 0 { of(all % depth)? } else { 0 };
        Ok(rest + if all >= depth { all / depth * of(depth)? } else { 0 })
    }

    /// Runs a pass of `levels` iterations into an output, and syncs this member's part of a file.
    /// Returns the sums of what this member has written, if another pass reads it.
    fn pass(
        &self,
        me: &mut Member,
        (levels, before): (u64, u64),
        sources: &[Source<'_, E>],
        (outputs, into): (&Outputs<E>, usize),
        (ring, memory): (&mut Option<Ring<E>>, &Memory),
        (read, left, written): (Option<Again<'_>>, Option<UnitSums>, Option<&Between>),
    ) -> Result<Option<UnitSums>> {
        let Stages { settings, plan, groups, spent, threads, .. } = *self;
        let (member, cuts) = (me.rank(), &self.cuts(levels, me.size())?);
        let (layout, share) = (self.layout(cuts), cuts.share(member));
        let (group, file) = (groups.group(member), outputs.files.get(into));
        let prepared = share.fit(ring).and_then(|()| {
            let divided = Arc::new(layout.share_file::<E>(&outputs.header, outputs.block)?);
            let mut output = None;
            if let Some(file) = file.filter(|_| groups.writer(group) == member) {
                let own = DirectFile::of(&file.file, file.direct.name(), true)?;
                output = Some(Output::new(ColumnWriter::new(own, Arc::clone(&divided), group)?));
            }
            let buffers = Buffers::new(layout, sources, Arc::clone(&divided), group, memory);
            let sums = written.map(|between| between.of_writer(member)).transpose()?;
            Ok((divided, buffers, Own { output, sums, left }))
        });
        let (divided, buffers, own) = all(me, prepared)?;
        let Some(ring) = ring else { unreachable!("the share has set its ring") };
        let pass = Pass {
            layout,
            buffers,
            sources,
            ring,
            waves: Waves::new(self.kernel, plan, threads, spent),
            spent,
            monitor: &settings.monitor,
            file: &divided,
            member,
            share,
            lanes: plan.lanes,
            tile: plan.tile,
            threads,
            before,
            whole: outputs.wholes.get(into).copied(),
            read,
            written,
        };
        let Own { output, sums, .. } = pass.run(me, own)?;
        if let Some(output) = output {
            output.finish()?;
        }
        let Some(file) = file else { return Ok(sums) };
        let failed = |source| {
            let path = file.direct.name().to_owned();
            syncline_store::Error::File { action: "sync", path, source }
        };
        let _waits = span(Activity::AwaitDisk, u32::MAX, 0);
        file.file.sync_data().map_err(failed)?;
        Ok(sums)
    }
}
