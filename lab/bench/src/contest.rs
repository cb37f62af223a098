//! What `bench barrier` and `bench lock` share: contenders that alternate, round after round.
//!
//! ```text
//! contender          threads of this process, or a process that answers (`peer`; `member`: ours, in processes)
//! cell               how many members, and how much work between two episodes
//! run                one contender in one cell, for some milliseconds
//! round              the limit H (`hop`), and then a run of every contender in every cell
//! ```
//!
//! Of many short rounds the median says more than the mean of a long one: what disturbs the machine
//! disturbs some of them. Before the first round, every contender is run once in every cell. That
//! run is not counted; one that takes far longer than it was given is the only one in its cell, and
//! the table says so. In each round another contender begins, so that none always comes after the
//! same one.
//!
//! If there are processors for all members, each is pinned to one; if there are not
//! (oversubscribed), none is.

mod contend;
mod hop;
mod machine;
mod meet;
mod member;
mod peer;
mod results;
mod table;
mod team;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

pub(crate) use self::hop::hop;
pub(crate) use self::machine::Machine;
pub(crate) use self::member::{BenchMemberArgs, Way, member};
pub(crate) use self::peer::{Source, start};
pub(crate) use self::results::Ratio;
use super::at_least;
use super::peers::failed;
use super::places::Places;
use super::spread::{Spread, median};
use crate::error::Result;
use crate::stop::Signals;

/// How a race is run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContestArgs {
    /// Less than a minute in all, with these numbers of members
    #[arg(long)]
    quick: bool,
    /// How many members there are, in each race [default: few, one per core, and four per core]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=256))]
    members: Vec<u16>,
    /// How often everything is run [default: 200; with --quick as often as a minute allows, at most
    /// 30]
    #[arg(long, value_name = "N", value_parser = at_least(1))]
    rounds: Option<usize>,
    /// How long a run takes, about [default: 5 of a barrier, 20 of a lock]
    #[arg(long, value_name = "MS", value_parser = at_least(1))]
    milliseconds: Option<usize>,
    /// Print one JSON object per line, and no table
    #[arg(long)]
    json: bool,
}

/// How long `--quick` takes, about. A minute is not to be exceeded.
const QUICK: Duration = Duration::from_secs(50);
/// A contender is left out of a cell if a run takes this much longer than it was given.
const TOO_LONG: Duration = Duration::from_millis(250);
/// And this for each of its members, which may be processes and have to start.
const START: Duration = Duration::from_millis(10);

/// What is raced.
#[derive(Debug)]
pub(crate) struct Subject {
    /// What it is, and what is told of it.
    pub(crate) what: &'static str,
    /// What one of the members is.
    pub(crate) unit: &'static str,
    /// Members, if none are asked for, on this many processors.
    pub(crate) members: fn(usize) -> Vec<usize>,
    /// Lengths of the work between two episodes, in nanoseconds.
    pub(crate) works: &'static [f64],
    /// How long a run takes, if it is not asked for.
    pub(crate) milliseconds: usize,
    /// Whether members have shares.
    pub(crate) fairness: bool,
    /// The contenders that take part; programs are made in the folder.
    pub(crate) field: fn(&Path) -> Result<Field>,
    /// What is told of the medians, below the tables.
    pub(crate) ratios: fn(&Contest) -> Vec<Ratio>,
    /// What else is told, to people.
    pub(crate) more: fn() -> Option<String>,
}

/// The contenders that take part, and those that cannot, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Field {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) skipped: Vec<(&'static str, String)>,
}

/// Whose a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// Ours.
    Ours,
    /// A textbook's.
    Baseline,
    /// Another project's, in use.
    Peer,
}

/// Runs a contender that is threads of this process.
pub(crate) type Inside = fn(&Bout<'_>) -> Result<Measured, String>;

/// Whether a contender can be run with this many members.
pub(crate) type Fits = fn(usize) -> bool;

/// One that takes part.
#[derive(Debug)]
pub(crate) struct Contender {
    name: &'static str,
    side: Side,
    how: How,
    fits: Fits,
}

#[derive(Debug)]
enum How {
    Inside(Inside),
    Process(peer::Peer),
}

/// A run: on which places, by how many, with how much work, for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bout<'p> {
    pub(crate) places: &'p Places,
    pub(crate) members: usize,
    pub(crate) work_ns: f64,
    pub(crate) time: Duration,
}

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Nanoseconds of wall time per episode, without the work, or per lock and unlock.
    pub(crate) ns: f64,
    /// Whether each member had a processor of its own, if there is one for each.
    pub(crate) pinned: bool,
    /// The least share of a lock by the greatest.
    pub(crate) fairness: Option<f64>,
}

/// Under what conditions all are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    members: usize,
    work_ns: f64,
}

/// A line of the output.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Record {
    /// What it is run on.
    Machine(Machine),
    /// One that cannot take part.
    Skipped { way: &'static str, why: String },
    /// One whose threads could not be pinned.
    Unpinned { way: &'static str },
    /// One that takes too long in a cell.
    LeftOut {
        way: &'static str,
        side: Side,
        #[serde(flatten)]
        cell: Cell,
        ns: f64,
    },
    /// The time of a hop in a round: the best and the median of some short runs.
    Hop { round: usize, best_ns: f64, median_ns: f64 },
    /// One run.
    Run {
        way: &'static str,
        side: Side,
        #[serde(flatten)]
        cell: Cell,
        round: usize,
        ns: f64,
        fairness: Option<f64>,
    },
    /// What follows from the runs of a contender in a cell.
    Cell(Standing),
    /// What follows from the medians of all.
    Ratio(Ratio),
}

/// How a contender stands in a cell.
#[derive(Debug, Serialize)]
struct Standing {
    way: &'static str,
    side: Side,
    #[serde(flatten)]
    cell: Cell,
    oversubscribed: bool,
    rounds: usize,
    /// In nanoseconds.
    #[serde(flatten)]
    spread: Spread,
    /// By the time of a hop.
    to_hop: Option<f64>,
    /// By the best median of a peer.
    to_best_peer: Option<f64>,
    /// The median.
    fairness: Option<f64>,
}

/// A race.
#[derive(Debug)]
pub(crate) struct Contest {
    subject: &'static Subject,
    places: Places,
    processors: usize,
    cells: Vec<Cell>,
    most_rounds: usize,
    milliseconds: usize,
    /// After this no round begins that would not end before it, but for the first.
    until: Option<Instant>,
    /// Rounds that were run.
    rounds: usize,
    records: Vec<Record>,
}

/// Runs the race; returns what to print.
pub(crate) fn contest(args: &ContestArgs, subject: &'static Subject, signals: &Signals) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("syncline-bench.").tempdir();
    let folder = folder.map_err(|error| failed("make a directory for the peers' programs", error))?;
    let (args, path) = (args.clone(), folder.path().to_owned());
    let work = move || {
        let mut contest = Contest::new(&args, subject);
        eprintln!("compiling the peers");
        contest.race((subject.field)(&path)?)?;
        if !args.json {
            return Ok([table::text(&contest)]
                .into_iter()
                .chain((subject.more)())
                .collect::<Vec<_>>()
                .join("\n\n"));
        }
        let lines = contest.records.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>();
        lines.map(|lines| lines.join("\n")).map_err(|error| failed("write JSON", error))
    };
    signals.abandon(work)
}

impl Contender {
    /// One that is threads of this process.
    pub(crate) fn inside(name: &'static str, side: Side, run: Inside) -> Self {
        Self { name, side, how: How::Inside(run), fits: |_| true }
    }

    /// The same, run only with as many members as fit it.
    pub(crate) fn only(self, fits: Fits) -> Self {
        Self { fits, ..self }
    }

    fn run(&mut self, bout: &Bout<'_>) -> Result<Measured> {
        let done = match &mut self.how {
            How::Inside(run) => run(bout),
            How::Process(peer) => peer.run(bout),
        };
        done.map_err(|why| failed(&format!("run {} with {} members", self.name, bout.members), why))
    }
}

impl Bout<'_> {
    /// How many processors there are.
    pub(crate) fn processors(&self) -> usize {
        processors(self.places)
    }

    /// Whether there are not as many processors as members.
    fn oversubscribed(&self) -> bool {
        self.members > self.processors()
    }
}

/// How many processors there are; if it is not known which, as many as the system says.
fn processors(places: &Places) -> usize {
    match places.len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        known => known,
    }
}

impl Contest {
    fn new(args: &ContestArgs, subject: &'static Subject) -> Self {
        let places = Places::or_none();
        let processors = processors(&places);
        let mut members: Vec<usize> = args.members.iter().map(|&n| n.into()).collect();
        if members.is_empty() {
            members = (subject.members)(processors);
        }
        members.sort_unstable();
        members.dedup();
        let cells = members
            .into_iter()
            .flat_map(|members| subject.works.iter().map(move |&work_ns| Cell { members, work_ns }));
        Self {
            subject,
            places,
            processors,
            cells: cells.collect(),
            most_rounds: args.rounds.unwrap_or(if args.quick { 30 } else { 200 }),
            milliseconds: args.milliseconds.unwrap_or(subject.milliseconds),
            until: (args.quick && args.rounds.is_none()).then(|| Instant::now() + QUICK),
            rounds: 0,
            records: vec![Record::Machine(Machine::here(processors))],
        }
    }

    fn race(&mut self, field: Field) -> Result<()> {
        let Field { mut contenders, skipped } = field;
        for (way, why) in skipped {
            eprintln!("skipped: {way}: {why}");
            self.records.push(Record::Skipped { way, why });
        }
        let places = self.places.clone();
        let time = Duration::from_millis(self.milliseconds as u64);
        let bout = |Cell { members, work_ns }: Cell| Bout { places: &places, members, work_ns, time };
        let mut racing = Vec::new();
        for &cell in &self.cells.clone() {
            eprintln!("trying: {}", self.title(cell));
            let mut in_it = Vec::new();
            let fit = contenders.iter_mut().enumerate().filter(|(_, one)| (one.fits)(cell.members));
            for (c, contender) in fit {
                let start = Instant::now();
                let measured = contender.run(&bout(cell))?;
                let (way, side) = (contender.name, contender.side);
                let known =
                    |record: &Record| matches!(record, Record::Unpinned { way: known } if *known == way);
                if !measured.pinned && !self.records.iter().any(known) {
                    self.records.push(Record::Unpinned { way });
                }
                if start.elapsed() > time + TOO_LONG + START * cell.members as u32 {
                    self.records.push(Record::LeftOut { way, side, cell, ns: measured.ns });
                } else {
                    in_it.push(c);
                }
            }
            racing.push((cell, in_it));
        }
        let start = Instant::now();
        for round in 0..self.most_rounds {
            eprintln!("round {}", round + 1);
            let hop = hop(&places).map_err(|why| failed("measure a hop of a cache line", why))?;
            if let Some(Spread { best, median, .. }) = hop {
                self.records.push(Record::Hop { round, best_ns: best, median_ns: median });
            }
            for (cell, in_it) in &mut racing {
                for &c in &*in_it {
                    let Contender { name: way, side, .. } = contenders[c];
                    let cell = *cell;
                    let Measured { ns, fairness, .. } = contenders[c].run(&bout(cell))?;
                    self.records.push(Record::Run { way, side, cell, round, ns, fairness });
                }
                if !in_it.is_empty() {
                    in_it.rotate_left(1);
                }
            }
            self.rounds = round + 1;
            let each = start.elapsed() / self.rounds as u32;
            if self.until.is_some_and(|until| Instant::now() + each > until) {
                break;
            }
        }
        self.conclude(&contenders);
        let ratios = (self.subject.ratios)(self);
        self.records.extend(ratios.into_iter().map(Record::Ratio));
        Ok(())
    }

    /// Says how each contender stands in each cell.
    fn conclude(&mut self, contenders: &[Contender]) {
        let hop = self.hop().map(|hop| hop.median);
        for &cell in &self.cells.clone() {
            let spreads: Vec<_> =
                contenders.iter().map(|contender| self.spread(contender.name, cell)).collect();
            let peers = contenders.iter().zip(&spreads).filter(|(contender, _)| contender.side == Side::Peer);
            let best =
                peers.filter_map(|(_, (spread, _))| spread.map(|spread| spread.median)).reduce(f64::min);
            for (&Contender { name: way, side, .. }, &(spread, fairness)) in contenders.iter().zip(&spreads) {
                let Some(spread) = spread else { continue };
                self.records.push(Record::Cell(Standing {
                    way,
                    side,
                    cell,
                    oversubscribed: cell.members > self.processors,
                    rounds: self.rounds,
                    spread,
                    to_hop: hop.map(|hop| spread.median / hop),
                    to_best_peer: best.map(|best| spread.median / best),
                    fairness,
                }));
            }
        }
    }

    /// The times of a contender in a cell, and its median fairness.
    fn spread(&self, contender: &str, of: Cell) -> (Option<Spread>, Option<f64>) {
        let runs = self.records.iter().filter_map(|record| match record {
            Record::Run { way, cell, ns, fairness, .. } if *way == contender && *cell == of => {
                Some((*ns, *fairness))
            }
            _ => None,
        });
        let (times, shares): (Vec<_>, Vec<_>) = runs.unzip();
        (Spread::of(times), median(shares.into_iter().flatten().collect()))
    }

    /// What a cell is called.
    fn title(&self, Cell { members, work_ns }: Cell) -> String {
        let number = if members == 1 { "" } else { "s" };
        let work = match work_ns {
            _ if self.subject.works.len() == 1 => String::new(),
            0.0 => ", back to back".to_owned(),
            work => format!(", {work} ns of work between"),
        };
        let crowd = if members > self.processors { ", oversubscribed" } else { "" };
        format!("{members} {}{number}{work}{crowd}", self.subject.unit)
    }

    /// The best hops of the rounds.
    fn hop(&self) -> Option<Spread> {
        let hops = self.records.iter().filter_map(|record| match record {
            Record::Hop { best_ns, .. } => Some(*best_ns),
            _ => None,
        });
        Spread::of(hops.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    /// A contender that takes as many milliseconds as it says nanoseconds.
    fn slow(bout: &Bout<'_>, milliseconds: u64) -> Result<Measured, String> {
        sleep(Duration::from_millis(milliseconds));
        Ok(Measured { ns: milliseconds as f64 * bout.members as f64, pinned: true, fairness: None })
    }

    fn slow_ones(_: &Path) -> Result<Field> {
        Ok(Field {
            contenders: vec![
                Contender::inside("first", Side::Peer, |bout| slow(bout, 2)),
                Contender::inside("second", Side::Ours, |bout| slow(bout, 1)),
                Contender::inside("last", Side::Peer, |bout| slow(bout, 300)),
            ],
            skipped: vec![("absent", "no reason".to_owned())],
        })
    }

    static SLOW: Subject = Subject {
        what: "sleeps",
        unit: "sleeper",
        members: |_| vec![4, 1],
        works: &[0.0],
        milliseconds: 1,
        fairness: false,
        field: slow_ones,
        ratios: |race| {
            Ratio::of("second / last", race.median("second", 1), race.median("last", 1))
                .into_iter()
                .chain(Ratio::of("second / first", race.best_of_ours(1), race.median("first", 1)))
                .chain(Ratio::of("second / hop", race.median("second", 4), None))
                .collect()
        },
        more: || None,
    };

    #[test]
    fn who_takes_too_long_is_left_out_and_the_others_are_compared_with_the_best_peer() {
        let args = ContestArgs {
            quick: true,
            members: Vec::new(),
            rounds: Some(2),
            milliseconds: None,
            json: false,
        };
        let mut contest = Contest::new(&args, &SLOW);
        contest.race(slow_ones(Path::new("")).unwrap()).unwrap();
        let standing = |record: &Record| match record {
            Record::Cell(Standing { way, cell, rounds: 2, spread, to_best_peer, .. }) => {
                Some((*way, cell.members, spread.median, *to_best_peer))
            }
            _ => None,
        };
        let standings: Vec<_> = contest.records.iter().filter_map(standing).collect();
        let (whole, half) = (Some(1.0), Some(0.5));
        assert_eq!(
            standings,
            [
                ("first", 1, 2.0, whole),
                ("second", 1, 1.0, half),
                ("first", 4, 8.0, whole),
                ("second", 4, 4.0, half)
            ]
        );
        let text = table::text(&contest);
        let told = [
            "skipped: absent: no reason",
            "left out: it takes too long, 1200 ns",
            "1 sleeper  ",
            "4 sleepers",
            "second / first",
        ];
        assert!(told.iter().all(|words| text.contains(words)), "{text}");
        assert!(!text.contains("second / last") && !text.contains("second / hop"), "{text}");
    }
}
