//! One engine of a pass: its pieces, and what it gives other members for the next engine.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use syncline_kernel::rule::{Around, greater};

use super::panel::{Panel, PanelKind};
use super::{Pass, locked};
use crate::Result;
use crate::engine::{Crossing, Engine, Job, Worker};
use crate::pass::spent::add;
use crate::semaphore::Semaphore;

/// One engine of a pass.
pub(super) struct Stage<'s> {
    pub(super) pass: &'s Pass<'s>,
    pub(super) engine: &'s dyn Engine,
    /// The number of positions of a piece.
    pub(super) piece: usize,
    pub(super) workers: Mutex<Vec<Box<dyn Worker + 's>>>,
    /// Its levels among those of the pass.
    pub(super) levels: Range<usize>,
    pub(super) norms: &'s Mutex<Vec<f64>>,
    /// What it reads, and the engine before it, if any.
    pub(super) incoming: (PanelKind<'s>, Option<&'s dyn Engine>),
    /// What it writes.
    pub(super) outgoing: PanelKind<'s>,
    pub(super) processors: &'s Semaphore,
}

impl Stage<'_> {
    /// Returns the positions of the pieces of a member.
    pub(super) fn pieces(&self, member: usize) -> Vec<(isize, isize)> {
        self.engine.pieces(member, self.piece)
    }

    /// Returns the slabs that come in with a band.
    pub(super) fn slabs_in(&self, band: usize) -> Range<usize> {
        match self.incoming.1 {
            None => self.engine.bands().slabs_in(band),
            Some(before) => before.bands().slabs_out(band),
        }
    }

    /// Runs one piece of a band.
    pub(super) fn piece(
        &self,
        out: &Panel,
        panel: &Panel,
        band: usize,
        range: (isize, isize),
        mut crossing: Crossing<'_>,
    ) -> Result<()> {
        let (pass, engine) = (self.pass, self.engine);
        pass.go_on()?;
        let idle = locked(&self.workers).pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => engine.worker()?,
        };
        let slabs_in = &pass.place(panel, self.incoming.0, self.slabs_in(band))[..];
        let slabs_out = &pass.place(out, self.outgoing, engine.bands().slabs_out(band))[..];
        let job = Job { band, range, slabs_in, slabs_out, monitor: pass.monitor };
        let levels = engine.levels_in(band);
        let mut changes = vec![0.0; if pass.norm { levels.len() } else { 0 }];
        let mut wanted = pass.norm.then_some(&mut changes[..]);
        // Before what is around the piece: what waits for a processor holds nothing else.
        let processor = self.processors.take();
        let mut ran = false;
        let mut run = || {
            // Once, whatever is around the piece.
            if std::mem::replace(&mut ran, true) {
                return;
            }
            let begun = Instant::now();
            // SAFETY: the pieces of a band run one after another, as all hold its final slabs
            // exclusively, and each runs after the piece of the band before that is ahead, whose
            // cell it holds inclusively; a slot has one band at a time. The panel has the slabs
            // that come in, and no other task writes it, and there is room for the final ones; an
            // array in memory has all slabs, and a final one is written after the values that came
            // in there were copied. The pieces at a cut hold what crosses it, in the order of all
            // members. The lanes are available.
            let packed = unsafe { worker.piece(&job, &mut crossing, wanted.as_deref_mut()) };
            add(&pass.spent.pack_ns, packed);
            add(&pass.spent.update_ns, begun.elapsed().saturating_sub(packed));
        };
        if let Some(Around(around)) = pass.around {
            around(&mut run);
        }
        run();
        drop(processor);
        // The piece may have ended early.
        pass.go_on()?;
        if pass.norm {
            let mut all = locked(self.norms);
            let own = all[self.levels.clone()][levels].iter_mut();
            own.zip(changes).for_each(|(all, one)| *all = greater(*all, one));
        }
        let Crossing { to_before, to_after, .. } = crossing;
        let given = [to_before, to_after].into_iter().flatten().map(|given| given.len() as u64);
        pass.spent.exchanged.fetch_add(given.sum(), Relaxed);
        locked(&self.workers).push(worker);
        pass.monitor.one_more();
        Ok(())
    }

    /// Gives another member its margin of the final slabs of a band, after all pieces.
    pub(super) fn give_margin(&self, out: &Panel, band: usize, to: usize, margin: &mut [u8]) {
        let (slabs, between) = (self.engine.bands().slabs_out(band), (self.pass.ranks().0, to));
        // SAFETY: the task holds the final slabs of the band exclusively, after its last piece.
        unsafe { self.pass.give_margin(out, between, slabs, margin) };
        self.pass.spent.exchanged.fetch_add(margin.len() as u64, Relaxed);
    }

    /// Takes the margin of the final slabs of a band from another member.
    pub(super) fn take_margin(&self, panel: &Panel, band: usize, from: usize, margin: &[u8]) {
        let (slabs, between) = (self.engine.bands().slabs_out(band), (from, self.pass.ranks().0));
        // SAFETY: the task holds the panel exclusively.
        unsafe { self.pass.take_margin(panel, between, slabs, margin) };
    }
}
