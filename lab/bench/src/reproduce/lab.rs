//! What items share: the scale, the folder of data, and experiments that are run once.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use syncline_store::Shape;

use super::steps::{self, Twenty};
use crate::contest::Contest;
use crate::error::{Result, failed};
use crate::farm::{self, Cost};
use crate::papers::data::Folder;
use crate::papers::race::{Race, Run};
use crate::rma::{self, Hosts, Measured};
use crate::solve;
use crate::stop::Signals;

/// The sizes of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scale {
    /// For tests: seconds for all items.
    #[value(hide = true)]
    Tiny,
    /// Minutes for all items, on two processors.
    Small,
    /// Those of the papers.
    Paper,
}

impl Scale {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.pick("tiny", "small", "paper")
    }

    /// Returns one of three values.
    pub(crate) fn pick<T>(self, tiny: T, small: T, paper: T) -> T {
        match self {
            Scale::Tiny => tiny,
            Scale::Small => small,
            Scale::Paper => paper,
        }
    }

    /// Returns the side of the matrix of sweeps out of core.
    pub(crate) fn side(self) -> usize {
        self.pick(96, 2048, 16384)
    }

    /// Returns the sides of blocks that are compared.
    pub(crate) fn blocks(self) -> Vec<usize> {
        let all: &[usize] = match self {
            Scale::Tiny => &[12, 24, 48],
            Scale::Small => &[64, 128, 256, 512],
            Scale::Paper => &[512, 1024, 2048, 4096],
        };
        all.to_vec()
    }

    /// Returns the bytes of memory that a sweep out of core may map.
    pub(crate) fn memory(self) -> u64 {
        self.pick(1 << 30, 32 << 20, 2 << 30)
    }

    /// Returns the time of a message between hosts.
    pub(crate) fn latency(self) -> Duration {
        Duration::from_micros(self.pick(20, 200, 200))
    }
}

/// An experiment that is run once. A failure is kept, too.
#[derive(Debug)]
pub(crate) struct Once<T>(OnceCell<Result<T, String>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> Once<T> {
    fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        let made = self.0.get_or_init(|| make().map_err(|why| why.to_string()));
        made.as_ref().map_err(|why| why.clone().into())
    }
}

/// The systems of equations that were measured, and what the farm costs.
pub(crate) type Solved = (Vec<solve::Results>, syncline_solve::parallel::FarmCosts);

/// The state of a run.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) scale: Scale,
    /// A folder that is removed at the end.
    pub(crate) folder: PathBuf,
    pub(crate) signals: Signals,
    schemes: Once<Vec<Run>>,
    twenty: Once<Vec<Twenty>>,
    fences: Once<BTreeMap<usize, Vec<Measured>>>,
    syncs: Once<BTreeMap<usize, Vec<Measured>>>,
    locks: Once<Vec<Measured>>,
    threads: Once<Contest>,
    processes: Once<BTreeMap<usize, Vec<Measured>>>,
    groups: Once<BTreeMap<(usize, usize), Vec<Measured>>>,
    costs: Once<Vec<Cost>>,
    solved: Once<Solved>,
}

impl Lab {
    /// Returns a state without results.
    pub(crate) fn new(scale: Scale, folder: &Path, signals: &Signals) -> Self {
        Self {
            scale,
            folder: folder.to_owned(),
            signals: signals.clone(),
            schemes: Once::default(),
            twenty: Once::default(),
            fences: Once::default(),
            syncs: Once::default(),
            locks: Once::default(),
            threads: Once::default(),
            processes: Once::default(),
            groups: Once::default(),
            costs: Once::default(),
            solved: Once::default(),
        }
    }

    /// Checks that the disk has room for some bytes.
    ///
    /// # Errors
    /// If it has not, or cannot be asked.
    pub(crate) fn room(&self, bytes: u64) -> Result<()> {
        let place = self.folder.display();
        let disk = rustix::fs::statvfs(&self.folder)
            .map_err(|error| failed(&format!("ask for the room in {place}"), error))?;
        let free = disk.f_bavail * disk.f_frsize;
        // A little more, for everything else.
        let needed = bytes + bytes / 20;
        if needed <= free {
            return Ok(());
        }
        let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
        let (needed, free) = (gib(needed), gib(free));
        Err(format!("{needed:.1} GiB are needed in {place}, where {free:.1} GiB are free").into())
    }

    /// Returns the matrices of sweeps, in rows and in blocks of some sides; they are made once.
    ///
    /// # Errors
    /// If there is no room, and errors of files.
    pub(crate) fn matrices(&self, sides: &[usize]) -> Result<Folder> {
        let side = self.scale.side();
        let path = self.folder.join("matrices");
        let bytes = (side * side * 8) as u64;
        let missing = |n: &&usize| !path.join(format!("blocks-{n}")).join("layout.json").exists();
        // Six matrices in rows; in blocks, the field in both layouts; and results.
        let rows = if path.join("rows").exists() { 0 } else { 6 };
        self.room(bytes * (rows + 7 * sides.iter().filter(missing).count() as u64 + 2))?;
        let folder = Folder::new(&path, Shape::new(side, side));
        folder.make(sides)?;
        Ok(folder)
    }

    /// Returns the runs of all schemes of sweeps out of core.
    pub(crate) fn schemes(&self) -> Result<&[Run]> {
        let runs = self.schemes.get(|| {
            let blocks = self.scale.blocks();
            let machine = std::thread::available_parallelism().map_or(1, usize::from);
            let race = Race {
                folder: self.matrices(&blocks)?,
                blocks,
                iterations: self.scale.pick(2, 3, 4),
                memory: self.scale.memory(),
                rounds: self.scale.pick(1, 2, 1),
                processors: 2 * machine,
                json: false,
            };
            race.run(&self.signals)
        });
        runs.map(Vec::as_slice)
    }

    /// Returns the runs of 20 iterations, with the times of their steps.
    pub(crate) fn twenty(&self) -> Result<&[Twenty]> {
        self.twenty.get(|| steps::twenty(self)).map(Vec::as_slice)
    }

    /// The number of rounds of a group on hosts, and its longest duration.
    fn pace(&self) -> (usize, Duration) {
        (self.scale.pick(1, 7, 15), Duration::from_secs(self.scale.pick(1, 10, 60)))
    }

    fn on_hosts(&self, hosts: usize, threads: usize, only: &[&str]) -> Result<Vec<Measured>> {
        let hosts = Hosts { hosts, threads, latency: self.scale.latency() };
        eprintln!("measuring on {} hosts of {threads} threads: {}", hosts.hosts, only.join(", "));
        let (rounds, most) = self.pace();
        // A barrier is short, and many rounds of it are.
        let rounds = if only == ["barrier"] { 5 * rounds } else { rounds };
        rma::on_hosts(hosts, only, (rounds, most), &self.signals)
    }

    /// Returns the fences between 4 hosts, and between 8.
    pub(crate) fn fences(&self) -> Result<&BTreeMap<usize, Vec<Measured>>> {
        self.fences.get(|| {
            let all = self.scale.pick([3, 4], [4, 8], [4, 8]);
            all.into_iter().map(|hosts| Ok((hosts, self.on_hosts(hosts, 1, &["fence"])?))).collect()
        })
    }

    /// Returns the syncs between some numbers of hosts, without and with delays.
    pub(crate) fn syncs(&self) -> Result<&BTreeMap<usize, Vec<Measured>>> {
        self.syncs.get(|| {
            let all: &[usize] = self.scale.pick(&[2, 4], &[2, 4, 8], &[2, 4, 8]);
            let only = ["sync", "delay"];
            all.iter().map(|&hosts| Ok((hosts, self.on_hosts(hosts, 1, &only)?))).collect()
        })
    }

    /// Returns the locks that members of 8 hosts contend for.
    pub(crate) fn locks(&self) -> Result<&[Measured]> {
        let hosts = self.scale.pick(3, 8, 8);
        self.locks.get(|| self.on_hosts(hosts, 1, &["lock"])).map(Vec::as_slice)
    }

    /// Returns the barriers of threads.
    pub(crate) fn threads(&self) -> Result<&Contest> {
        self.threads.get(|| super::barriers::race(self))
    }

    /// Returns the barriers of some numbers of hosts with one member each.
    pub(crate) fn processes(&self) -> Result<&BTreeMap<usize, Vec<Measured>>> {
        self.processes.get(|| {
            let all = 2..=self.scale.pick(4, 9, 9);
            all.map(|hosts| Ok((hosts, self.on_hosts(hosts, 1, &["barrier"])?))).collect()
        })
    }

    /// Returns the barriers of some numbers of hosts with several threads each.
    pub(crate) fn groups(&self) -> Result<&BTreeMap<(usize, usize), Vec<Measured>>> {
        self.groups.get(|| {
            let mut all = BTreeMap::new();
            for hosts in 2..=self.scale.pick(3, 8, 8) {
                for threads in 1..=self.scale.pick(2, 4, 4) {
                    all.insert((hosts, threads), self.on_hosts(hosts, threads, &["barrier"])?);
                }
            }
            Ok(all)
        })
    }

    /// Returns what the parts of a farm cost.
    pub(crate) fn costs(&self) -> Result<&[Cost]> {
        let rounds = self.scale.pick(1, 7, 30);
        self.costs.get(|| farm::costs(&self.folder, rounds, &self.signals)).map(Vec::as_slice)
    }

    /// Returns the solutions of the systems of equations.
    pub(crate) fn solved(&self) -> Result<&Solved> {
        self.solved.get(|| {
            let all = solve::SUBJECTS.iter().filter(|subject| subject.paper.is_some());
            let names: Vec<_> = all.map(|subject| subject.name).collect();
            let names = &names[..self.scale.pick(1, names.len(), names.len())];
            let processors = std::thread::available_parallelism().map_or(2, usize::from);
            let workers = self.scale.pick(2, processors.clamp(2, 9), processors.clamp(2, 9));
            solve::measured(names, self.scale.pick(1, 3, 5), workers, &self.signals)
        })
    }
}
