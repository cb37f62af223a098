//! Chooses the depth, the bands and the pieces of a sweep over arrays.
//!
//! # Contract
//! [`Question::answer`] returns the plan, or an error with the memory that the smallest plan needs.
//!
//! | number | choice                                                                             |
//! |--------|------------------------------------------------------------------------------------|
//! | depth  | as given, or the one with the least estimated time of a whole run                  |
//! | band   | as many slabs as, with those of all levels, fit a core's cache                     |
//! | piece  | as many positions as fit, but enough for the loops of a program                    |
//! | flight | the threads plus one, or plus two if an array is on file: those of all members     |
//! |        | that share it                                                                      |
//!
//! # The time
//! A pass takes the greater of the disk's time, for the bytes that it reads and writes, and the
//! processors' time: a copy of each value into and out of the rings, the transfers between cache
//! and memory, and an update per value and level. An update takes longer if the values of one level
//! of a piece do not stay in the cache for the next level. A band transfers the slabs that it works
//! on, those of all levels, so deep passes have high bands. A piece of an ordered rule in two
//! dimensions puts values back for the next one, so long pieces copy less. Each thread begins some
//! pieces after the one before it, so short pieces wait less. A pass of one band, as few long rows
//! have it, is done by one thread, and has the least memory.

use syncline_kernel::rule::{Edge, Rule};
use syncline_store::ElementType;

use crate::engines::copies;
use crate::engines::explicit;
use crate::engines::ordered;
use crate::team::columns::{Columns, LeaningColumns};
use crate::{Error, Result};

/// The way in which a sweep over arrays uses memory and cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayPlan {
    /// The greatest number of iterations in a pass.
    pub depth: u64,
    /// The number of passes, if no convergence test ends the sweep earlier.
    pub passes: u64,
    /// The number of slabs (rows, or planes in three dimensions) that a task brings in.
    pub band: usize,
    /// The number of positions across a slab that a task covers.
    pub piece: usize,
    /// The number of bands in memory at once.
    pub flight: usize,
    /// The number of slabs that a pass reads twice at each end of the first axis: 0 unless that is
    /// periodic.
    pub twice: usize,
    /// The bytes of all buffers.
    pub memory: u64,
}

/// Nanoseconds per update of a value of 8 bytes.
const UPDATE_NS: f64 = 0.25;
/// Nanoseconds per byte that is copied into a ring or out of it, for explicit and ordered rules.
const COPY_NS: [f64; 2] = [0.05, 0.15];
/// Nanoseconds per byte that memory delivers or takes.
const MEMORY_NS: f64 = 0.025;
/// The factor by which an update of an ordered rule outside of the cache is slower.
const OUTSIDE: f64 = 1.1;
/// Nanoseconds for a run of a program, for a task, and for a pass.
const RUN_NS: f64 = 30.0;
const TASK_NS: f64 = 3000.0;
const PASS_NS: f64 = 2e5;
/// Nanoseconds per byte of a buffer that is touched for the first time.
const TOUCH_NS: f64 = 0.5;
/// Nanoseconds of the disk for the requests of a band, beside its bytes.
const REQUEST_NS: f64 = 1.5e5;
/// The depths, bands and pieces among which a plan is chosen.
const DEPTHS: [usize; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 48, 64, 100, 200];
const BANDS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const PIECES: [usize; 9] = [4, 8, 16, 32, 128, 512, 1024, 2048, 4096];
/// The greatest number of engines in one pass.
const ENGINES: u64 = 8;
/// Bytes of the small buffers of each thread.
const SMALL: u64 = 256 << 10;
/// Bytes of a block of a file.
const BLOCK: u64 = 4 << 10;
/// What takes less memory, as a band has whole slabs.
const TURNED: &str =
    "turn the arrays, and the kernel with them, so that their longest axis is the first";
/// The share of slabs that a process computes twice is at most one in this number.
pub(crate) const TWICE: usize = 8;
/// The number of slabs up to which a pass may have all of them in one band.
const FEW: usize = 8;
/// Bytes of a task, with its location and its requests.
const TASK: u64 = 3 << 10;

/// Returns the slabs that a pass of one process reads twice for each level.
pub(crate) fn around(rule: &Rule) -> usize {
    if rule.edges[0] == Edge::Periodic { 2 * explicit::reach(rule) } else { 0 }
}

/// Returns the greatest depth of a pass over some slabs by one process: with more, it would compute
/// too many of them twice.
pub(crate) fn deepest(rule: &Rule, slabs: usize) -> u64 {
    match around(rule) {
        0 => u64::MAX,
        around => (2 * slabs / (TWICE * around)).max(1) as u64,
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) rule: &'q Rule,
    pub(crate) dims: [usize; 3],
    /// The number of members that share the columns.
    pub(crate) members: usize,
    /// The number of members that share what comes in and the final slabs, at most. Each follows
    /// the one before it by a band.
    pub(crate) together: usize,
    /// The types of all arrays, and whether they are on file.
    pub(crate) elements: &'q [ElementType],
    pub(crate) on_file: &'q [bool],
    pub(crate) result_on_file: bool,
    /// Whether a result in memory is copied to files at the end, by all members.
    pub(crate) copied: bool,
    pub(crate) iterations: u64,
    pub(crate) converges: bool,
    pub(crate) depth: Option<u64>,
    /// The greatest depth, unless it is given.
    pub(crate) deepest: u64,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    /// The number of bands in memory at once, at most: less than the threads can use, where memory
    /// is short.
    pub(crate) flight: Option<usize>,
    /// The slabs more than `dims` has that a pass reads for each level: of a member of a team, or
    /// where the first axis is periodic.
    pub(crate) around: usize,
    /// The bytes of a core's cache.
    pub(crate) cache: u64,
    /// The disk's rate in bytes per second, if known.
    pub(crate) disk: Option<f64>,
}

impl Question<'_> {
    /// Returns the number of bands that are worth having in memory at once.
    fn full_flight(&self) -> usize {
        let disk = self.result_on_file || self.on_file.iter().any(|on_file| *on_file);
        if disk { self.threads * self.together + 2 } else { self.threads + 1 }
    }

    /// Returns the number of bands in memory at once: not more than there are.
    fn flight(&self, depth: usize, band: usize) -> usize {
        let flight = self.flight.unwrap_or(usize::MAX).min(self.full_flight());
        if self.members > 1 {
            return flight;
        }
        let bands = match self.rule.explicit {
            true => self.explicit(depth, (band, 1, 1)).bands.count(),
            false => {
                let last = |chain: Vec<ordered::Geometry>| chain.last().map(|g| g.bands.count());
                self.chains(depth, (band, 1)).filter_map(last).max().unwrap_or(1)
            }
        };
        flight.min(bands).max(1)
    }

    /// Returns the geometry of a pass of an explicit rule.
    fn explicit(&self, depth: usize, bands: (usize, usize, usize)) -> explicit::Geometry {
        let [slabs, rows, cols] = self.dims;
        let dims = [slabs + self.around * depth, rows, cols];
        explicit::Geometry::new(self.rule, dims, depth, bands)
    }

    /// Returns the bytes of the elements of a point, of some arrays.
    fn bytes(&self, which: impl Fn(usize) -> bool) -> u64 {
        let chosen = self.elements.iter().enumerate().filter(|(array, _)| which(*array));
        chosen.map(|(_, element)| element.bytes() as u64).sum()
    }

    /// Returns the greatest number of successive iterations that one pass may do: all go down, or
    /// all up, and of those that turn to another side each takes an engine of its own.
    fn chained(&self) -> u64 {
        let directions = &self.rule.directions;
        let period = directions.len() as u64;
        let up = |i: u64| self.rule.direction(i).up;
        if self.rule.explicit || directions.iter().all(|direction| *direction == directions[0]) {
            return u64::MAX;
        }
        if (0..period).all(|i| up(i) == up(0)) {
            return ENGINES;
        }
        let runs = (0..period)
            .map(|from| (from..from + period).take_while(|i| up(*i) == up(from)).count() as u64);
        runs.max().unwrap_or(1).min(ENGINES)
    }

    /// Returns the geometries of the engines of each kind of pass.
    fn chains(
        &self,
        depth: usize,
        bands: (usize, usize),
    ) -> impl Iterator<Item = Vec<ordered::Geometry>> {
        (0..self.rule.directions.len() as u64).map(move |from| {
            let up = self.rule.direction(from).up;
            let same = |i: &u64| self.rule.direction(*i).up == up;
            let levels = (from..from + depth as u64).take_while(same).count() as u64;
            ordered::chain(self.rule, self.dims, bands, from..from + levels)
        })
    }

    /// Returns the geometries of the engines of the pass that has most of them.
    fn ordered(&self, depth: usize, band: usize) -> Vec<ordered::Geometry> {
        let bands = (band, self.flight(depth, band));
        self.chains(depth, bands).max_by_key(Vec::len).unwrap_or_default()
    }

    /// Returns the bytes of all buffers of a pass, and of the values that should stay in the cache:
    /// those of one level of a piece, or of a window.
    fn room(&self, depth: usize, band: usize, piece: usize) -> (u64, u64) {
        let (rule, flight) = (self.rule, self.flight(depth, band));
        let slab = (self.dims[1] * self.dims[2]) as u64;
        // The slabs of a band, and of the buffers for what comes in and what goes out.
        let most = band.min(self.dims[0] + self.around * depth).max(1);
        let (rings, piece_bytes, windows) = if rule.explicit {
            let g = self.explicit(depth, (band, flight, piece));
            let ring = |array: usize| {
                let field = array < rule.fields;
                let copied = field || self.on_file[array] || g.is_periodic();
                if copied { g.ring_bytes(self.elements[array], field) } else { 0 }
            };
            let rings: u64 = (0..self.elements.len()).map(ring).sum();
            let rings = rings + explicit::beyond_bytes(rule, self.elements, &g);
            (rings, g.level_points(piece) * self.bytes(|_| true), 0)
        } else {
            let chain = self.ordered(depth, band);
            let ring = |g: &ordered::Geometry, array: usize| {
                let copied = array < rule.fields || self.on_file[array] || rule.dimensions == 3;
                if copied { g.ring_bytes(self.elements[array]) } else { 0 }
            };
            let arrays = || 0..self.elements.len();
            let rings: u64 = chain.iter().map(|g| arrays().map(|a| ring(g, a)).sum::<u64>()).sum();
            // What one engine passes on to the next.
            let moved = self.bytes(|array| array < rule.fields || self.on_file[array]);
            let passed = (chain.len() as u64 - 1) * most as u64 * slab * moved * flight as u64;
            let window = |g: &ordered::Geometry| {
                let piece = piece.max(g.least_piece());
                self.elements.iter().map(|element| g.window_bytes(piece, *element)).sum::<u64>()
            };
            let window = chain.iter().map(window).max().unwrap_or(0);
            let flat = rule.dimensions == 2;
            let own = if flat { chain.len() as u64 * window } else { 0 };
            let windows = own * self.threads as u64;
            (rings + passed, window, windows)
        };
        let panel = |on_file: bool, array: usize| match on_file {
            true => {
                let bytes = most as u64 * slab * self.elements[array].bytes() as u64;
                // Larger buffers have large pages.
                let page = if bytes + (16 << 10) < 2 << 20 { 4 << 10 } else { 2 << 20 };
                (bytes + (16 << 10)).next_multiple_of(page)
            }
            false => 0,
        };
        let panels: u64 = self.on_file.iter().enumerate().map(|(a, f)| panel(*f, a)).sum();
        let outs: u64 = (0..rule.fields).map(|field| panel(self.result_on_file, field)).sum();
        // Where the first slabs follow the last ones, each part is read into memory of its own.
        let goes_around = self.rule.edges[0] == Edge::Periodic;
        let apart = self.on_file.iter().enumerate().map(|(a, f)| panel(*f && goes_around, a));
        let apart = apart.max().unwrap_or(0);
        let buffers = flight as u64 * (panels + outs) + apart + self.threads as u64 * SMALL;
        // A band has a task for each piece, and one to read and one to write. Members that share
        // the columns have the tasks of all.
        let (_, pieces) = self.tasks(depth, band, piece);
        let tasks = (flight * (pieces + 2) * self.members) as u64 * TASK;
        let crossing = if self.members > 1 { self.crossing(depth, band) } else { 0 };
        (rings + windows + buffers + tasks + crossing, piece_bytes)
    }

    /// Returns the bytes that a member needs for what crosses its cuts, and for rows of which it
    /// reads or writes a part: blocks around them, and those that it shares.
    fn crossing(&self, depth: usize, band: usize) -> u64 {
        let (flight, fields) = (self.flight(depth, band) as u64, self.rule.fields);
        let of_fields = self.bytes(|array| array < fields);
        let engines = self.ordered(depth, band);
        let crossing: u64 = engines.iter().map(ordered::Geometry::crossing_values).sum();
        let messages = 2 * crossing * of_fields;
        let rows = match self.copied {
            true => band.max(copies::ROWS / self.dims[1]),
            false => band,
        };
        let rows = (rows * self.dims[1]) as u64;
        let read = self.on_file.iter().filter(|on_file| **on_file).count() as u64;
        let written = if self.result_on_file || self.copied { fields as u64 } else { 0 };
        flight * (messages + rows * BLOCK * (2 * read + 8 * written))
    }

    /// Returns the estimated nanoseconds of a pass.
    fn pass_ns(&self, depth: usize, band: usize, piece: usize) -> f64 {
        let points = self.dims.iter().map(|n| *n as f64).product::<f64>();
        let (buffers, works) = self.room(depth, band, piece);
        let fits = works <= self.cache / 5 * 4;
        let kind = usize::from(!self.rule.explicit);
        let fields = self.bytes(|array| array < self.rule.fields) as f64;
        let all = self.bytes(|_| true) as f64;
        let run = match (self.rule.explicit, self.rule.dimensions) {
            (true, 2) => piece.min(self.dims[2]),
            (true, _) => self.dims[2],
            (false, 2) => band,
            (false, _) => self.dims[1],
        };
        let update = UPDATE_NS * all / 8.0;
        let update = match (fits, self.rule.explicit) {
            (true, _) => update,
            // What a level has written is not in the cache any more when the next one reads it.
            (false, true) => update + MEMORY_NS * 3.0 * all,
            (false, false) => update * OUTSIDE,
        };
        let update = update + RUN_NS / run as f64;
        let copies = COPY_NS[kind] * (fields + all) * self.moved_again(depth, band, piece);
        // A band loads and stores what it works on, also the slabs of bands before it.
        let few = self.dims[0] <= FEW;
        let of_band = if few { band.min(self.dims[0]).max(1) } else { band } as f64;
        let moves = MEMORY_NS * 2.0 * all * self.slabs(depth, band, piece) as f64 / of_band;
        let levels = depth as f64;
        let busy = points * (update * levels + copies + moves) / self.threads as f64;
        let moved = self.bytes(|array| self.on_file[array]) as f64
            + if self.result_on_file { fields } else { 0.0 };
        let disk = self.disk.map_or(0.0, |rate| points * moved / rate * 1e9);
        let (bands, pieces) = self.tasks(depth, band, piece);
        let disk = disk + if moved > 0.0 { bands as f64 * REQUEST_NS } else { 0.0 };
        let tasks = (bands * pieces) as f64 * TASK_NS / self.threads as f64;
        // The bands follow one another: with few pieces in each, threads wait for one another. The
        // last piece of a member and the first one of its neighbour follow each other in turn: with
        // fewer than four each also waits for the other one's thread.
        let (share, least) = if self.members > 1 { (4.0, 0.25) } else { (2.0, 1.0) };
        let flight = self.flight(depth, band) as f64;
        let together = (pieces as f64 / share).min(flight).clamp(least, self.threads as f64);
        let idle = self.threads as f64 / together;
        // A piece of an ordered rule waits for the second one of the band before: each thread
        // begins two pieces after the one before it.
        let later = if self.rule.explicit { 0.0 } else { 2.0 * (self.threads - 1) as f64 };
        let idle = idle * (1.0 + later * self.threads as f64 / (bands * pieces) as f64);
        // At the start and at the end of a pass only some bands are in flight.
        let lag = match bands {
            1 if few => 1.0,
            _ => 1.0 + (2.0 * levels + 3.0 * of_band) / self.dims[0] as f64,
        };
        let computing = (busy + tasks) * idle;
        // The disk waits for the processors, and they for it, where there is one band at a time.
        let both = if flight > 1.0 { computing.max(disk) } else { computing + disk };
        both * lag + buffers as f64 * TOUCH_NS + PASS_NS
    }

    /// Returns how many times the values of a band are copied in and out: a piece in two dimensions
    /// puts the values of its last positions back, for the next one.
    fn moved_again(&self, depth: usize, band: usize, piece: usize) -> f64 {
        if self.rule.explicit || self.rule.dimensions == 3 {
            return 1.0;
        }
        let times = |g: &ordered::Geometry| {
            let piece = piece.max(g.least_piece()) as f64;
            1.0 + g.put_back() as f64 / piece
        };
        self.ordered(depth, band).iter().map(times).fold(1.0, f64::max)
    }

    /// Returns the number of slabs that a band works on.
    fn slabs(&self, depth: usize, band: usize, piece: usize) -> usize {
        match self.rule.explicit {
            true => self.explicit(depth, (band, 1, piece)).slabs(),
            false => self.ordered(depth, band).iter().map(ordered::Geometry::slabs).sum(),
        }
    }

    /// Returns the numbers of bands and pieces of a pass.
    fn tasks(&self, depth: usize, band: usize, piece: usize) -> (usize, usize) {
        if self.rule.explicit {
            let g = self.explicit(depth, (band, 1, piece));
            return (g.bands.count(), g.walk().len().div_ceil(piece).max(1));
        }
        let chain = self.ordered(depth, band);
        let bands = chain.last().map_or(0, |g| g.bands.count());
        let pieces = chain.iter().map(|g| {
            let (piece, walk) = (piece.max(g.least_piece()), g.walk().len());
            match self.members {
                1 => walk.div_ceil(piece).max(1),
                // The pieces of a member are longer instead of one that is shorter.
                _ if self.rule.dimensions == 2 => {
                    (self.dims[2].saturating_sub(2 * g.margin()) / piece).max(1)
                }
                _ => (walk.saturating_sub(2 * g.margin()) / piece).max(1),
            }
        });
        (bands, pieces.sum())
    }

    /// Returns the columns of the members of a team for passes of this depth in these bands, if
    /// they are wide enough.
    pub(crate) fn columns(&self, depth: usize, band: usize) -> Option<LeaningColumns> {
        let bands = (band, self.flight(depth, band));
        let engines: Vec<_> = self.chains(depth, bands).flatten().collect();
        let greatest = |of: &dyn Fn(&ordered::Geometry) -> usize| engines.iter().map(of).max();
        let margin = greatest(&ordered::Geometry::margin)?;
        let lean = engines.iter().map(ordered::Geometry::lean).max_by_key(|lean| lean.abs())?;
        let [_, rows, cols] = self.dims;
        let columns = LeaningColumns::new((rows, cols), self.members, lean, margin);
        let least = greatest(&ordered::Geometry::least_piece)?.max(margin);
        (self.members == 1 || columns.least() >= least).then_some(columns)
    }

    /// Returns the question about the widest part of a member, if they are wide enough.
    fn of_member(&self, depth: usize, band: usize) -> Option<Self> {
        if self.members == 1 {
            return Some(*self);
        }
        let columns = self.columns(depth, band)?;
        let width = (0..self.members).map(|member| columns.all(member).len()).max()?;
        let [slabs, rows, _] = self.dims;
        Some(Question { dims: [slabs, rows, width], ..*self })
    }

    /// Returns the plan. If the memory does not hold the bands that the threads can use, there are
    /// fewer of them.
    pub(crate) fn answer(&self) -> Result<ArrayPlan> {
        let full = self.full_flight();
        let fewer = [2, 1].into_iter().filter(|flight| *flight < full && self.members == 1);
        let mut refused = None;
        for flight in [full].into_iter().chain(fewer) {
            match (Question { flight: Some(flight), ..*self }).of_flight() {
                Err(error @ Error::StreamMemory { .. }) => refused = Some(error),
                answer => return answer,
            }
        }
        // The one of the fewest bands, which takes the least.
        Err(refused.unwrap_or_else(|| unreachable!("there is an answer for each number of bands")))
    }

    fn of_flight(&self) -> Result<ArrayPlan> {
        let iterations = self.iterations.max(1);
        let most = self.depth.unwrap_or(iterations).min(iterations).min(self.chained());
        let mut depths: Vec<usize> = match self.depth {
            Some(depth) => vec![depth.min(most).max(1) as usize],
            None => {
                let most = usize::try_from(most.min(self.deepest)).unwrap_or(usize::MAX);
                DEPTHS.into_iter().map(|depth| depth.min(most)).collect()
            }
        };
        depths.dedup();
        // Ordered rules of three dimensions work on one plane after the other.
        let planes = !self.rule.explicit && self.rule.dimensions == 3;
        let bands = if planes { &BANDS[..1] } else { &BANDS[..] };
        let mut best: Option<(f64, ArrayPlan)> = None;
        let mut least: Option<u64> = None;
        for depth in depths {
            for &band in bands {
                let Some(of_member) = self.of_member(depth, band) else { continue };
                for piece in PIECES {
                    let plan = of_member.plan(depth, band, piece);
                    least = Some(least.unwrap_or(u64::MAX).min(plan.memory));
                    if plan.memory > self.memory {
                        continue;
                    }
                    let pass = of_member.pass_ns(depth, band, piece);
                    let time = match self.converges {
                        true => pass / depth as f64,
                        false => pass * iterations.div_ceil(depth as u64) as f64,
                    };
                    if best.as_ref().is_none_or(|(other, _)| time < *other) {
                        best = Some((time, plan));
                    }
                }
            }
        }
        match (best, least, self.depth) {
            (Some((_, plan)), ..) => Ok(plan),
            (None, Some(needed), depth) => Err(Error::StreamMemory {
                allowed: self.memory,
                depth: depth.unwrap_or(1),
                needed,
                on_team: false,
                instead: (self.dims[1..].iter().any(|n| *n > self.dims[0])).then_some(TURNED),
            }),
            // The columns of a member are too narrow for this depth.
            (None, None, Some(2..)) => {
                let depth = self.depth.map(|depth| depth.min(most) / 2);
                Question { depth, ..*self }.answer()
            }
            (None, None, _) => {
                let fits = |members: &usize| {
                    let fewer = Question { members: *members, ..*self };
                    fewer.columns(1, 1).is_some()
                };
                let most = (1..self.members).rev().find(fits).unwrap_or(1);
                Err(Error::Members { members: self.members, most })
            }
        }
    }

    fn plan(&self, depth: usize, band: usize, piece: usize) -> ArrayPlan {
        let (memory, _) = self.room(depth, band, piece);
        ArrayPlan {
            depth: depth as u64,
            passes: self.iterations.max(1).div_ceil(depth as u64),
            band: if !self.rule.explicit && self.rule.dimensions == 3 { 1 } else { band },
            piece,
            flight: self.flight(depth, band),
            twice: around(self.rule) / 2 * depth,
            memory,
        }
    }
}
