//! The columns of a pass, cut between hosts.
//!
//! # Contract
//! [`Cuts`] divides the walk of a [`Chain`] among hosts, in whole pieces, the same way in every
//! band. A [`Share`] says which columns of the walk a host runs with
//! [`tile::run`](super::tile::run), which columns of the matrix it needs, and which it finishes. A
//! host has a ring of its own, which is about as wide as its columns. At each [`Cut`] two messages
//! per band carry values of the field between the rings of the two hosts: [`message`] says when
//! they are exported and imported. The result has the bits of one host, which has those of the
//! double loop.
//!
//! All hosts must have the same chain but for the slots of the ring, and the same pieces and number
//! of hosts. They may differ in slots, in tiles, and in the number of bands in flight.
//!
//! # The cut
//! Let `a` be the first column of the walk east of the cut, and `top` the first strip of band `p`
//! in iteration 0. In band `p` the western host runs iteration `t` up to `g = G(p, t)`, the same
//! for all strips of the band:
//!
//! ```text
//! G(p, t) = step * top + a - lag * t             position in strip s: C = G(p, t) - step * s
//!
//! One band, each iteration one strip higher than the previous one           g ->
//! iteration 0   west ===================>>|--------------- east     = updated by the western host
//! iteration 1   west =================>>|----------------- east     - updated by the eastern host
//! iteration 2   west ===============>>|------------------- east     > sent east: `lag` records
//!
//! One strip, which is the last of band p in iteration t - 1 and the first of band p + 1 in t
//! band p,     iteration t - 1   west ======|<<<<<<<<<<<<<<<<<------ east    < sent west: `ahead`
//! band p + 1, iteration t       west ====================|--------- east      records
//! ```
//!
//! So the cut leans to the west within a band, and returns to the east by `ahead = band * step`
//! from one band to the next: `G(p + 1, t) = G(p, t) + ahead = G(p, t - 1) + ahead - lag`. Bands
//! differ only in the edges of the matrix at which strips and positions end.
//!
//! # What is sent
//! Let version `v` of a value be the one after `v` iterations. Iteration `t` reads, for an update
//! at `g`, version `t+1` at `g-lag..g` in the strip and in the one above, and version `t` at
//! `g..=g+lag` in the strip and in the one below. Rows that are never updated, coefficients and
//! version 0 are packed by each host from its own rows. All other values were written in band `p`
//! or `p-1`: in `p-1` if the strip is the first one of iteration `t`, before it is updated, or the
//! one above, after its update.
//!
//! * *The eastern host, from band `p`.* It reads version `t+1` at `g >= G(p,t)-lag`, and version
//!   `t` at `g >= G(p,t)`; the western host writes them up to `G(p,t)` and `G(p,t-1) = G(p,t)+lag`.
//!   So what crosses is version `t+1` from `G(p,t+1) = G(p,t)-lag` to `G(p,t)`, for each iteration
//!   `t` and each of its strips. The western host writes these values once in this band, as its
//!   next iteration ends before them: **all of them are in its ring, in their versions, when its
//!   last piece of the band has run.** The ranges of successive iterations of a strip join.
//! * *The eastern host, from band `p-1`.* It wrote version `t+1` of the strip above from `G(p-1,t)`
//!   on, and version `t` of the first strip from `G(p-1,t-1)` on. Both are at most `G(p,t)-lag`.
//!   Nothing crosses.
//! * *The western host, from band `p`.* It reads version `t+1` before `G(p,t)`, and version `t`
//!   before `G(p,t)+lag = G(p,t-1)`, which it wrote. Nothing crosses.
//! * *The western host, from band `p-1`.* It reads version `t` of the first strip before
//!   `G(p,t)+lag = G(p-1,t-1)+ahead`, and wrote it before `G(p-1,t-1)`. So `ahead` positions cross,
//!   in each iteration `t` but the first, **which the eastern host wrote in the columns from `a` to
//!   `a+ahead` of band `p-1`: in its first piece.** Iteration `t` of band `p` writes them next.
//!   Version `t+1` of the strip above is what the next iteration reads of its first strip. After
//!   the last iteration the strip above crosses as well, but only its last row is read.
//!
//! Positions become final in whole groups of the width. If the cut is inside of a group, the
//! eastern host finishes it, and the values of the group that the western host wrote last are sent,
//! too. With pieces of a multiple of the width the group is in the `lag` records already: then `C`
//! of the last iteration is 1 more than a multiple of the width.
//!
//! # Sizes
//! For `levels` iterations over bands of `H = band * width` rows, with `skew` and `lag = skew + 1`:
//!
//! | per cut                        | at most                                                     |
//! |--------------------------------|-------------------------------------------------------------|
//! | values sent east, per band     | `lag * levels * H`, and `(width - 1 - lag) * H`, see above  |
//! | values sent west, per band     | `((levels - 1) * width + 1) * H * skew`                     |
//! | columns that both hosts need   | `(levels - 1) * abs(step - lag) + (H - 1) * skew + 2`       |
//! | positions that both rings have | `2 * (lag + step + 2 * width)` more, less `width * skew`    |
//!
//! With 20 iterations, 128 rows, vectors of 8 doubles and skew 1: 40 and 153 KiB, 243 columns; with
//! skew 2, 60 and 306 KiB, 503 columns. Of these values a kernel of seven or nine points reads more
//! than 95 %; most of the others are in rows and columns that are not updated.
//!
//! A piece is at least `ahead` wide, and each share has at least one piece: [`Cuts::most`].
//!
//! # Source
//! This project's. The skew of tiles against messages of a fixed direction is known from
//! J. Ramanujam and P. Sadayappan, "Tiling multidimensional iteration spaces for multicomputers",
//! JPDC 1992.

use std::ops::Range;

use syncline_store::Element;

use super::pack::Rows;
use super::tile::Chain;
use super::{Geometry, Ring};
use crate::Result;

mod message;
#[cfg(test)]
mod tests;

/// The number of iterations that are looked at to compare the work of columns.
const SAMPLES: usize = 64;

/// The division of a walk among hosts.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    chain: Chain,
    piece: usize,
    /// The column of the walk at which each share begins, and the end of the walk.
    bounds: Vec<isize>,
}

impl Cuts {
    /// Returns the greatest number of hosts that can share a walk in pieces of `piece` columns.
    pub(crate) fn most(chain: &Chain, piece: usize) -> usize {
        chain.walk().len().div_ceil(piece)
    }

    /// Divides the walk of a chain, in pieces of `piece` columns, among `hosts` hosts. Each has at
    /// least one piece, and the number of updates is as even as whole pieces allow.
    ///
    /// # Errors
    /// [`Cuts::most`], if that is less than `hosts`.
    ///
    /// # Panics
    /// If there is no host, or if a piece is narrower than [`Chain::ahead`].
    pub(crate) fn new(
        chain: Chain,
        piece: usize,
        hosts: usize,
    ) -> std::result::Result<Self, usize> {
        assert!(hosts > 0 && piece >= chain.ahead());
        let most = Self::most(&chain, piece);
        if hosts > most {
            return Err(most);
        }
        let walk = chain.walk();
        let column = |pieces: usize| (walk.start + (pieces * piece) as isize).min(walk.end);
        let all = work(&chain, walk.end);
        let (mut bounds, mut least) = (vec![walk.start], 1);
        for host in 1..hosts {
            let share = |pieces: usize| work(&chain, column(pieces)) * hosts as u64;
            let wanted = all * host as u64;
            let (mut low, mut high) = (0, most);
            while low < high {
                let middle = usize::midpoint(low, high);
                if share(middle) < wanted { low = middle + 1 } else { high = middle }
            }
            let before = low.saturating_sub(1);
            let nearer = share(before).abs_diff(wanted) < share(low).abs_diff(wanted);
            let pieces = if nearer { before } else { low }.clamp(least, most - (hosts - host));
            bounds.push(column(pieces));
            least = pieces + 1;
        }
        bounds.push(walk.end);
        Ok(Cuts { chain, piece, bounds })
    }

    /// Returns the number of hosts.
    pub(crate) fn hosts(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Returns the chain whose walk is divided.
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// Returns the part of a band's work that each piece of a host is. The parts of all hosts add
    /// up to 1.
    pub(crate) fn parts(&self, host: usize) -> Vec<f64> {
        let (share, walk) = (self.share(host), self.chain.walk());
        let before = |column: isize| work(&self.chain, column) as f64;
        let all = before(walk.end) - before(walk.start);
        let mut begin = before(share.columns.start);
        let part = |piece| {
            let end = before(share.piece(piece).end);
            (end - std::mem::replace(&mut begin, end)) / all
        };
        (0..share.pieces()).map(part).collect()
    }

    /// Returns the share of a host; host 0 is the westernmost.
    pub(crate) fn share(&self, host: usize) -> Share {
        let cut = |host| Cut { chain: self.chain, at: self.bounds[host] };
        Share {
            chain: self.chain,
            piece: self.piece,
            columns: self.bounds[host]..self.bounds[host + 1],
            west: (host > 0).then(|| cut(host)),
            east: (host + 1 < self.hosts()).then(|| cut(host + 1)),
        }
    }
}

/// Returns the number of vectors that a band updates in the columns before `column`, in some of its
/// iterations.
fn work(chain: &Chain, column: isize) -> u64 {
    let g = &chain.geometry;
    let updated = |(level, strip): (usize, usize)| {
        let position = column + level as isize * drift(g) - strip as isize * g.step();
        position.clamp(0, g.positions() as isize) as u64
    };
    let levels = (0..chain.levels).step_by(chain.levels.div_ceil(SAMPLES));
    levels.flat_map(|level| (0..chain.band).map(move |strip| (level, strip))).map(updated).sum()
}

/// Returns the number of positions by which an iteration is further east than the previous one, at
/// one column of the walk.
const fn drift(g: &Geometry) -> isize {
    g.step() - g.lag() as isize
}

/// A place at which the walk is cut between two hosts.
///
/// Its methods that transfer values are in [`message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    chain: Chain,
    /// The first column of the walk that belongs to the host to the east.
    at: isize,
}

impl Cut {
    /// Returns the first position of a strip that the eastern host updates in iteration `level` of
    /// a band.
    const fn position(&self, band: usize, strip: isize, level: usize) -> isize {
        let g = &self.chain.geometry;
        self.at - (g.lag() * level) as isize + (self.chain.top(band) - strip) * g.step()
    }

    /// Returns the range of [`position`](Self::position) for all strips and iterations. Both ends
    /// are included.
    const fn positions(&self) -> (isize, isize) {
        let chain = &self.chain;
        let (step, all) = (chain.geometry.step(), chain.levels as isize - 1);
        let (west, east) = if drift(&chain.geometry) < 0 { (all, 0) } else { (0, all) };
        let strips = chain.band as isize - 1;
        (
            self.at + west * drift(&chain.geometry) - strips * step,
            self.at + east * drift(&chain.geometry),
        )
    }

    /// Returns the first position of a strip that is final on the eastern host: positions become
    /// final in groups of the width.
    const fn final_position(&self, band: usize, strip: isize) -> isize {
        let width = self.chain.geometry.width as isize;
        self.position(band, strip, self.chain.levels - 1).div_euclid(width) * width
    }

    /// Returns the first column of a row that is final on the eastern host.
    fn final_column(&self, row: usize) -> usize {
        let (g, chain) = (&self.chain.geometry, &self.chain);
        let width = g.width as isize;
        let above = row as isize - 1;
        let (strip, value) = (above.div_euclid(width), above.rem_euclid(width));
        let band = (strip + chain.levels as isize) as usize / chain.band;
        let column = self.final_position(band, strip) - g.skew as isize * value;
        column.clamp(0, g.shape.cols as isize) as usize
    }
}

/// The part of every band that one host runs.
///
/// Columns and rows of the matrix are counted with the ghost lines, see [`Ghosts`](super::ghosts).
#[derive(Clone, Debug)]
pub(crate) struct Share {
    chain: Chain,
    piece: usize,
    /// The columns of the walk.
    pub(crate) columns: Range<isize>,
    /// The cut between this host and the one to the west, unless this is the first host.
    pub(crate) west: Option<Cut>,
    /// The cut between this host and the one to the east, unless this is the last host.
    pub(crate) east: Option<Cut>,
}

impl Share {
    /// Returns the number of pieces of a band. At least 1.
    pub(crate) fn pieces(&self) -> usize {
        self.columns.len().div_ceil(self.piece)
    }

    /// Returns the columns of the walk of a piece.
    pub(crate) fn piece(&self, piece: usize) -> Range<isize> {
        let start = self.columns.start + (piece * self.piece) as isize;
        start..(start + self.piece as isize).min(self.columns.end)
    }

    /// Returns the columns of the matrix whose rows the host needs, of every array.
    pub(crate) fn columns_in(&self) -> Range<usize> {
        let g = &self.chain.geometry;
        let shear = (g.skew * (g.width - 1)) as isize;
        let column = |column: isize| column.clamp(0, g.shape.cols as isize) as usize;
        // The columns of all updates, and one more. Rows that are not updated are final, too.
        let start = self.west.map_or(0, |cut| column(cut.positions().0 - shear - 1));
        let end = self.east.map_or(g.shape.cols, |cut| column(cut.positions().1 + 1));
        start.min(self.all_columns_out().start)..end
    }

    /// Returns the part of `rows` that the host needs.
    pub(crate) fn clip<E: Element>(&self, rows: Rows<E>) -> Rows<E> {
        let columns = self.columns_in();
        let (left, right) = (rows.left.max(columns.start), rows.right.min(columns.end));
        Rows { left, right, ..rows }
    }

    /// Returns the columns of a row of the matrix that are final on this host after the band that
    /// finishes the row.
    pub(crate) fn columns_out(&self, row: usize) -> Range<usize> {
        let cols = self.chain.geometry.shape.cols;
        let start = self.west.map_or(0, |cut| cut.final_column(row));
        start..self.east.map_or(cols, |cut| cut.final_column(row))
    }

    /// Returns the least range of columns that contains those of [`columns_out`](Self::columns_out)
    /// of every row of any matrix with this number of columns.
    pub(crate) fn all_columns_out(&self) -> Range<usize> {
        let (g, chain) = (&self.chain.geometry, &self.chain);
        let width = g.width as isize;
        let end = |cut: Cut, strip: usize, value: usize| {
            let last = (chain.levels as isize - 1) * drift(g) - strip as isize * g.step();
            let position = (cut.at + last).div_euclid(width) * width;
            (position - (g.skew * value) as isize).clamp(0, g.shape.cols as isize) as usize
        };
        let start = self.west.map_or(0, |cut| end(cut, chain.band - 1, g.width - 1));
        start..self.east.map_or(g.shape.cols, |cut| end(cut, 0, 0))
    }

    /// Returns the positions that the host accesses: the window of its ring.
    pub(crate) fn window(&self) -> Range<isize> {
        let g = &self.chain.geometry;
        // The neighbours of updates are less than `lag + step` away. Rows are packed in groups.
        let margin = g.lag() as isize + g.step() + 2 * g.width as isize;
        let Range { start, end } = g.whole();
        let start = self.west.map_or(start, |cut| (cut.positions().0 - margin).clamp(start, end));
        start..self.east.map_or(end, |cut| (cut.positions().1 + margin).clamp(start, end))
    }

    /// Returns the size of the ring of the host, in bytes, for elements of `element` bytes.
    pub(crate) fn bytes(&self, element: usize) -> u64 {
        self.chain.geometry.bytes_of(&self.window(), element)
    }

    /// Allocates the ring of the host, or changes that of another pass.
    pub(crate) fn fit<E: Element>(&self, ring: &mut Option<Ring<E>>) -> Result<()> {
        let (geometry, window) = (self.chain.geometry, self.window());
        match ring {
            Some(ring) => ring.fit_to(geometry, window)?,
            none => *none = Some(Ring::of(geometry, window)?),
        }
        Ok(())
    }
}
