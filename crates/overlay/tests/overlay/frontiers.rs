//! Livermore kernel 23 on blocks whose frontiers, one row or column each, have locations of their
//! own in the canonical form. The bits are those of the plain double loop, and no task holds a
//! neighbour's block.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{I, X, mix, runners, within};
use syncline_overlay::{
    Checked, Initial, Location, Overlay, Plan, Step, Stop,
    access::Reads,
    canonical::{Canonical, Content, Part, Role},
    plan::{LocationId, Task},
};

/// The neighbours of a block, in the order in which its task requests them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    North,
    West,
    East,
    South,
}
use Side::{East, North, South, West};
const SIDES: [Side; 4] = [North, West, East, South];

impl Side {
    fn opposite(self) -> Side {
        SIDES[3 - self as usize]
    }
}

/// The partition of a matrix into blocks.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// The number of blocks down and across.
    blocks: (usize, usize),
    /// The number of points of a block, down and across.
    points: (usize, usize),
}

impl Grid {
    fn rows(self) -> usize {
        self.blocks.0 * self.points.0
    }

    fn cols(self) -> usize {
        self.blocks.1 * self.points.1
    }

    fn count(self) -> usize {
        self.blocks.0 * self.blocks.1
    }

    /// Returns the points of a block in the matrix. Points count from 1: a boundary of fixed values
    /// surrounds the matrix.
    fn range(self, block: usize) -> (Range<usize>, Range<usize>) {
        let (i, j) = (block / self.blocks.1 * self.points.0, block % self.blocks.1 * self.points.1);
        (i + 1..i + 1 + self.points.0, j + 1..j + 1 + self.points.1)
    }

    fn neighbour(self, block: usize, side: Side) -> Option<usize> {
        let (i, j) = (block / self.blocks.1, block % self.blocks.1);
        match side {
            North => (i > 0).then(|| block - self.blocks.1),
            West => (j > 0).then(|| block - 1),
            East => (j + 1 < self.blocks.1).then(|| block + 1),
            South => (i + 1 < self.blocks.0).then(|| block + self.blocks.1),
        }
    }

    /// Returns the plan of the papers, in which each block is a location and its task reads the
    /// blocks around it, and the parts that it needs of those: the adjacent sides.
    fn plan(self) -> (Plan, Vec<(Part, Side)>) {
        let mut plan = Plan::new();
        let name = |b: usize| format!("{} {}", b / self.blocks.1, b % self.blocks.1);
        let blocks: Vec<LocationId> = (0..self.count()).map(|b| plan.location(name(b))).collect();
        let mut parts = Vec::new();
        for b in 0..self.count() {
            let around = SIDES.iter().filter_map(|&side| Some((self.neighbour(b, side)?, side)));
            let around: Vec<(usize, Side)> = around.collect();
            let reads = around.iter().map(|&(other, _)| (blocks[other], I));
            let reader = plan
                .task(format!("task {}", name(b)), std::iter::once((blocks[b], X)).chain(reads));
            for (other, side) in around {
                let side = side.opposite();
                let name = format!("{} {side:?}", name(other));
                parts.push((Part { of: blocks[other], name, readers: vec![reader] }, side));
            }
        }
        (plan, parts)
    }

    fn canonical(self, initial: &Initial) -> (Canonical, Vec<Side>) {
        let (plan, parts) = self.plan();
        let (parts, sides): (Vec<Part>, Vec<Side>) = parts.into_iter().unzip();
        (plan.canonical(initial, &parts).unwrap(), sides)
    }

    /// Returns one row or column of a block.
    fn frontier(self, block: &[f64], side: Side) -> Vec<f64> {
        let (rows, cols) = self.points;
        match side {
            North => block[..cols].to_vec(),
            South => block[(rows - 1) * cols..].to_vec(),
            West => block.iter().step_by(cols).copied().collect(),
            East => block[cols - 1..].iter().step_by(cols).copied().collect(),
        }
    }

    /// Sweeps a block between frontiers. The fixed boundary replaces absent ones.
    fn sweep(self, block: usize, values: &mut [f64], around: [Option<&[f64]>; 4]) {
        let (rows, cols) = self.points;
        let (above, left) = (self.range(block).0.start, self.range(block).1.start);
        for i in 0..rows {
            for j in 0..cols {
                let (row, col) = (above + i, left + j);
                let at = |i: usize, j: usize| values[i * cols + j];
                let n = if i > 0 {
                    at(i - 1, j)
                } else {
                    around[0].map_or_else(|| start(row - 1, col), |f| f[j])
                };
                let w = if j > 0 {
                    at(i, j - 1)
                } else {
                    around[1].map_or_else(|| start(row, col - 1), |f| f[i])
                };
                let e = if j + 1 < cols {
                    at(i, j + 1)
                } else {
                    around[2].map_or_else(|| start(row, col + 1), |f| f[i])
                };
                let s = if i + 1 < rows {
                    at(i + 1, j)
                } else {
                    around[3].map_or_else(|| start(row + 1, col), |f| f[j])
                };
                values[i * cols + j] = update(row, col, at(i, j), [n, w, e, s]);
            }
        }
    }
}

/// Returns the initial value of a point, or the fixed value of a boundary point.
fn start(i: usize, j: usize) -> f64 {
    mix(i as u64, j as u64) as f64 / u64::MAX as f64
}

/// Applies the kernel at one point. Its five coefficients depend on the position.
fn update(i: usize, j: usize, here: f64, [n, w, e, s]: [f64; 4]) -> f64 {
    let coefficient = |which: u64| 0.25 * start(i, j * 8 + which as usize) + 0.01;
    let [zb, zv, zu, zr, zz] = [0, 1, 2, 3, 4].map(coefficient);
    let qa = s * zr + n * zb + e * zu + w * zv + zz;
    here + 0.175 * (qa - here)
}

/// Runs the plain double loop over a part of the matrix.
fn sweep_plain(matrix: &mut [Vec<f64>], (rows, cols): (Range<usize>, Range<usize>)) {
    for i in rows {
        for j in cols.clone() {
            let around = [matrix[i - 1][j], matrix[i][j - 1], matrix[i][j + 1], matrix[i + 1][j]];
            matrix[i][j] = update(i, j, matrix[i][j], around);
        }
    }
}

fn matrix(grid: Grid) -> Vec<Vec<f64>> {
    let row = |i| (0..grid.cols() + 2).map(|j| start(i, j)).collect();
    (0..grid.rows() + 2).map(row).collect()
}

fn bits(matrix: &[Vec<f64>]) -> Vec<u64> {
    matrix.iter().flatten().map(|x| x.to_bits()).collect()
}

fn number(task: Task, grid: Grid) -> usize {
    grid.plan().0.tasks().position(|t| t == task).unwrap()
}

/// The data and bodies of a canonical plan.
struct Data {
    grid: Grid,
    cells: Vec<Location<Vec<f64>>>,
    homes: Vec<usize>,
    /// The number of iterations that each block has done.
    done: Vec<AtomicU64>,
}

impl Data {
    fn new(grid: Grid, canonical: &Canonical, sides: &[Side]) -> Self {
        let (original, parts) = grid.plan();
        let plan = canonical.plan();
        let matrix = matrix(grid);
        let block_of = |of: LocationId| -> Vec<f64> {
            let (rows, cols) = grid.range(original.locations().position(|l| l == of).unwrap());
            matrix[rows].iter().flat_map(|row| row[cols.clone()].iter().copied()).collect()
        };
        let cell = |l| {
            let value = match canonical.content(l) {
                Content::Version { of, .. } => block_of(of),
                Content::Part { part, .. } => {
                    grid.frontier(&block_of(parts[part].0.of), sides[part])
                }
                other => panic!("blocks have one writer each, and no task writes two: {other:?}"),
            };
            Location::new(plan.location_name(l), value)
        };
        let home = |l| plan.locations().position(|place| place == canonical.home(l)).unwrap();
        Data {
            grid,
            cells: plan.locations().map(cell).collect(),
            homes: original.locations().map(home).collect(),
            done: (0..grid.count()).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn overlay<'a>(
        &'a self,
        canonical: &'a Canonical,
        sides: &'a [Side],
        initial: Initial,
    ) -> Checked<'a> {
        let plan = canonical.plan();
        let cell =
            |place: LocationId| &self.cells[plan.locations().position(|l| l == place).unwrap()];
        let mut overlay = Overlay::new();
        for task in plan.tasks() {
            let of_kind = |kind| plan.requests(task).filter(move |r| r.1 == kind).map(|r| r.0);
            let write = cell(of_kind(X).next().unwrap()).write();
            let reads: Vec<_> = of_kind(I).map(|l| cell(l).read()).collect();
            let name = plan.task_name(task);
            match canonical.role(task) {
                Role::Main { task } => {
                    let block = number(task, self.grid);
                    let side = |l| match canonical.content(l) {
                        Content::Part { part, .. } => sides[part].opposite(),
                        other => panic!("a task reads frontiers only: {other:?}"),
                    };
                    let around: Vec<Side> = of_kind(I).map(side).collect();
                    let body = move |(values, reads): (&mut Vec<f64>, Reads<'_, Vec<f64>>),
                                     step: &mut Step| {
                        let mut frontiers = [None; 4];
                        for (side, frontier) in around.iter().zip(reads.iter()) {
                            frontiers[*side as usize] = Some(&frontier[..]);
                        }
                        self.look_around(block, step);
                        self.grid.sweep(block, values, frontiers);
                        self.done[block].fetch_add(1, Ordering::Relaxed);
                    };
                    overlay.task(name, (write, reads), body);
                }
                Role::ExportPart { part, .. } => {
                    overlay.task(name, (write, reads), move |(copy, block), _| {
                        *copy = self.grid.frontier(&block[0], sides[part]);
                    });
                }
                other => panic!("nothing else is needed: {other:?}"),
            }
        }
        overlay.check(initial).unwrap()
    }

    /// Checks that neighbours are at most two iterations apart, and none is behind a task that
    /// runs.
    fn look_around(&self, block: usize, step: &Step) {
        for side in SIDES {
            if let Some(other) = self.grid.neighbour(block, side) {
                // Relaxed: the grants under which the task runs have ordered the counts that
                // matter.
                let ahead = self.done[other].load(Ordering::Relaxed).wrapping_sub(step.iteration());
                assert!(ahead <= 2, "{ahead} iterations ahead");
            }
        }
    }

    fn bits(&self) -> Vec<u64> {
        let mut matrix = matrix(self.grid);
        for (block, &home) in self.homes.iter().enumerate() {
            let (rows, cols) = self.grid.range(block);
            let mut reader = self.cells[home].reader();
            let values = reader.acquire().unwrap();
            for (row, values) in rows.zip(values.chunks(self.grid.points.1)) {
                matrix[row][cols.clone()].copy_from_slice(values);
            }
        }
        bits(&matrix)
    }
}

const GRIDS: [Grid; 6] = [
    Grid { blocks: (1, 1), points: (3, 4) },
    Grid { blocks: (2, 2), points: (2, 3) },
    Grid { blocks: (1, 5), points: (4, 1) },
    Grid { blocks: (4, 1), points: (1, 3) },
    Grid { blocks: (3, 4), points: (3, 2) },
    Grid { blocks: (5, 5), points: (1, 1) },
];

#[test]
fn frontiers_give_the_bits_of_the_double_loop() {
    within(|| {
        for grid in GRIDS {
            for initial in [Initial::Program, Initial::Wave] {
                let (canonical, sides) = grid.canonical(&initial);
                for (i, runner) in runners().into_iter().enumerate() {
                    let iterations = [1, 2, 13][i % 3];
                    let mut expected = matrix(grid);
                    for _ in 0..iterations {
                        sweep_plain(&mut expected, (1..grid.rows() + 1, 1..grid.cols() + 1));
                    }
                    let data = Data::new(grid, &canonical, &sides);
                    let mut overlay = data.overlay(&canonical, &sides, initial.clone());
                    overlay.run(runner, Stop::after(iterations)).unwrap();
                    assert_eq!(data.bits(), bits(&expected), "{grid:?}, {initial:?}, {runner:?}");
                }
            }
        }
    });
}

#[test]
fn frontiers_in_red_black_order_give_the_bits_of_the_blocks_in_that_order() {
    within(|| {
        let grid = Grid { blocks: (3, 4), points: (3, 2) };
        let mut order: Vec<usize> = (0..grid.count()).collect();
        order.sort_by_key(|b| (b / 4 + b % 4) % 2);
        let mut expected = matrix(grid);
        for _ in 0..9 {
            order.iter().for_each(|&block| sweep_plain(&mut expected, grid.range(block)));
        }
        let (canonical, sides) = grid.canonical(&Initial::MaxParallel);
        for runner in runners() {
            let data = Data::new(grid, &canonical, &sides);
            // The tasks are declared in their order, so `Program` keeps it.
            let mut overlay = data.overlay(&canonical, &sides, Initial::Program);
            overlay.run(runner, Stop::after(9)).unwrap();
            assert_eq!(data.bits(), bits(&expected), "{runner:?}");
        }
    });
}

#[test]
fn no_task_holds_a_block_of_another() {
    for grid in GRIDS {
        for initial in [Initial::Program, Initial::Wave, Initial::MaxParallel] {
            let (canonical, _) = grid.canonical(&initial);
            let plan = canonical.plan();
            let owner = |block| {
                grid.plan()
                    .0
                    .tasks()
                    .zip(grid.plan().0.locations())
                    .find(|p| p.1 == block)
                    .unwrap()
                    .0
            };
            for task in plan.tasks() {
                for (place, _) in plan.requests(task) {
                    if let Content::Version { of, .. } = canonical.content(place) {
                        assert_eq!(
                            canonical.role(task).task(),
                            Some(owner(of)),
                            "{}",
                            plan.task_name(task)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_grid_gets_a_task_and_a_location_for_each_frontier() {
    for grid in GRIDS {
        let (r, c) = grid.blocks;
        let frontiers = 2 * (r * (c - 1) + c * (r - 1));
        let (canonical, _) = grid.canonical(&Initial::Wave);
        let plan = canonical.plan();
        assert!(plan.is_canonical());
        assert_eq!(plan.tasks().len(), r * c + frontiers);
        assert_eq!(plan.locations().len(), r * c + frontiers);
        assert_eq!(
            plan.tasks().map(|t| plan.requests(t).len()).sum::<usize>(),
            r * c + 3 * frontiers
        );
    }
}

/// Half of all blocks still start at once.
#[test]
fn a_colouring_starts_as_many_blocks_as_before() {
    let grid = Grid { blocks: (8, 8), points: (1, 1) };
    let (canonical, _) = grid.canonical(&Initial::MaxParallel);
    let start = canonical.plan().check(&Initial::Program).unwrap();
    assert_eq!(start.active().len(), 32);
    assert!(start.active().into_iter().all(|t| matches!(canonical.role(t), Role::Main { .. })));
}
