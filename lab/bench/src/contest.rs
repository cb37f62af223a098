//! The common part of `bench barrier` and `bench lock`: contenders that are threads or processes,
//! raced in cells.
//!
//! ```text
//! contender          threads of this process, or a server process (`peers::Server`, `member`)
//! cell               a number of members, and the work between two episodes: a group of the race
//! run                one contender in one cell, for some milliseconds
//! ```
//!
//! A server process answers each request with one line. NS is the wall time per episode, without
//! the work, or per lock and unlock; AS_WANTED is 1 if each member has its own processor, or if
//! there are fewer processors than members; a SHARE is the number of times that a member had the
//! lock. `lab/peers/members.h` and `member` implement the server.
//!
//! ```text
//! RUN MEMBERS MILLISECONDS WORK_NS    ->    NS AS_WANTED [SHARE...]
//! ```
//!
//! If there are processors for all members, each member is pinned to one; if there are not
//! (oversubscribed), none is.

mod chosen;
mod contend;
mod meet;
mod member;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

pub(crate) use self::chosen::race_of;
pub(crate) use self::member::{BenchMemberArgs, Way, member};
use crate::error::{Result, failed};
use crate::peers::{Server, Workshop};
use crate::places::Places;
use crate::race::{
    Entry, Group, Hops, Lines, Machine, Options, Pace, Results, Side, Skipped, Spread, Table,
    figure, hold, race, ratio,
};
use crate::stop::Signals;

/// The options of a race.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContestArgs {
    #[command(flatten)]
    options: Options,
    /// Numbers of members, a race for each [default: few, one per core, and four per core]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=256))]
    members: Vec<u16>,
    /// Approximate duration of a run [default: 5 for a barrier, 20 for a lock]
    #[arg(long, value_name = "MS", value_parser = crate::at_least(1))]
    milliseconds: Option<usize>,
}

/// The approximate duration of `--quick`. It must not exceed a minute.
const QUICK: Duration = Duration::from_secs(50);
/// A contender is left out of a cell if a run takes longer than requested by this time.
const TOO_LONG: Duration = Duration::from_millis(250);
/// Plus this time for each member, as members may be processes that have to start.
const START: Duration = Duration::from_millis(10);

/// The subject of a race.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The title, and the explanation of what is measured.
    pub(crate) what: &'static str,
    /// The word for a member.
    pub(crate) unit: &'static str,
    /// The default numbers of members, for a number of processors.
    pub(crate) members: fn(usize) -> Vec<usize>,
    /// The lengths of the work between two episodes, in nanoseconds.
    pub(crate) works: &'static [f64],
    /// The default duration of a run.
    pub(crate) milliseconds: usize,
    /// The contenders that are threads of this process.
    pub(crate) inside: &'static [(&'static str, Side, Fits, Inside)],
    /// Our contenders in processes.
    pub(crate) processes: &'static [(&'static str, Way)],
    /// The contenders that are compiled.
    pub(crate) sources: &'static [Source],
    /// The ratios of medians, printed below the tables.
    pub(crate) ratios: fn(&Contest) -> Vec<Ratio>,
    /// Further text for the table output.
    pub(crate) more: fn() -> Option<String>,
}

/// Runs a contender that is threads of this process.
pub(crate) type Inside = fn(&Bout<'_>) -> Result<Measured>;

/// Returns whether a contender supports this number of members.
pub(crate) type Fits = fn(usize) -> bool;

/// Supports any number of members.
pub(crate) const ANY: Fits = |_| true;

/// A peer in C or C++.
#[derive(Debug)]
pub(crate) struct Source {
    /// The name of the contender.
    pub(crate) name: &'static str,
    /// The compiler.
    pub(crate) compiler: &'static str,
    /// The file name, and its contents.
    pub(crate) file: (&'static str, &'static str),
    pub(crate) flags: &'static [&'static str],
    /// The argument of the program, if any.
    pub(crate) form: &'static [&'static str],
    /// Additions to the program's environment.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// The headers that the sources include.
const HEADERS: [(&str, &str); 2] = [
    ("members.h", include_str!("../../peers/members.h")),
    ("barrier.h", include_str!("../../peers/barrier.h")),
];

/// Prefixes of environment variables that would change OpenMP's wait policy.
const OPENMP: [&str; 3] = ["OMP_", "GOMP_", "KMP_"];

/// A contender.
#[derive(Clone, Debug)]
struct Contender {
    name: &'static str,
    side: Side,
    fits: Fits,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Inside(Inside),
    Process(Server),
}

/// A run: its places, members, work and duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bout<'p> {
    pub(crate) places: &'p Places,
    pub(crate) members: usize,
    pub(crate) work_ns: f64,
    pub(crate) time: Duration,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Nanoseconds of wall time per episode, without the work, or per lock and unlock.
    pub(crate) ns: f64,
    /// Whether each member had its own processor, if there is one for each.
    pub(crate) pinned: bool,
    /// The least share of a lock divided by the greatest.
    pub(crate) fairness: Option<f64>,
}

/// The conditions under which contenders are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Cell {
    members: usize,
    work_ns: f64,
}

/// A ratio of medians that is printed beside the tables.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    what: String,
    value: f64,
}

/// A race.
#[derive(Debug)]
pub(crate) struct Contest {
    subject: &'static Subject,
    machine: Machine,
    processors: usize,
    cells: Vec<Cell>,
    milliseconds: usize,
    stage: Hops,
    results: Results<Cell>,
    skipped: Vec<Skipped<()>>,
}

/// Runs the race; returns the text to print.
pub(crate) fn contest(
    args: &ContestArgs,
    subject: &'static Subject,
    signals: &Signals,
) -> Result<String> {
    let args = args.clone();
    let work = move |folder: &Path, signals: &Signals| {
        let start = Instant::now();
        let mut contest = Contest::new(&args, subject);
        let contenders = contest.contenders(folder, |_| true)?;
        let quick = args.options.quick;
        let pace = match args.options.rounds {
            Some(rounds) => Pace::exactly(rounds),
            None if quick => Pace { least: 1, most: 30, until: Some(start + QUICK), warm_up: true },
            None => Pace::exactly(200),
        };
        contest.race(contenders, pace, signals)?;
        if args.options.json { contest.json() } else { Ok(contest.text()) }
    };
    hold(signals, None, || (), work)
}

impl Contender {
    fn run(&self, bout: &Bout<'_>) -> Result<Measured> {
        let done = match &self.how {
            How::Inside(run) => run(bout),
            How::Process(server) => bout.ask(server),
        };
        done.map_err(|why| failed(&format!("run it with {} members", bout.members), why))
    }
}

impl Bout<'_> {
    /// Returns the number of processors.
    pub(crate) fn processors(&self) -> usize {
        self.places.processors()
    }

    /// Returns whether there are fewer processors than members.
    fn oversubscribed(&self) -> bool {
        self.members > self.processors()
    }

    /// Returns the places to which members are pinned, if they are.
    fn pinned(&self) -> Option<&Places> {
        (!self.oversubscribed()).then_some(self.places)
    }

    /// Requests a run from a server process.
    fn ask(&self, server: &Server) -> Result<Measured> {
        let Bout { members, work_ns, time, .. } = self;
        let answer =
            server.ask(&format!("RUN {members} {} {work_ns}", time.as_secs_f64() * 1e3))?;
        let parse = || {
            let mut words = answer.split_whitespace();
            let ns = words.next()?.parse().ok()?;
            let pinned = words.next()? == "1";
            let shares: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
            Some(Measured { ns, pinned, fairness: contend::fairness(&shares?) })
        };
        parse().ok_or_else(|| format!("it said {answer:?}").into())
    }
}

impl Contest {
    fn new(args: &ContestArgs, subject: &'static Subject) -> Self {
        let places = Places::or_none();
        let processors = places.processors();
        let mut members: Vec<usize> = args.members.iter().map(|&n| n.into()).collect();
        if members.is_empty() {
            members = (subject.members)(processors);
        }
        members.sort_unstable();
        members.dedup();
        let cells = members.into_iter().flat_map(|members| {
            subject.works.iter().map(move |&work_ns| Cell { members, work_ns })
        });
        Self {
            subject,
            machine: Machine::here(processors),
            processors,
            cells: cells.collect(),
            milliseconds: args.milliseconds.unwrap_or(subject.milliseconds),
            stage: Hops::new(places),
            results: Results::default(),
            skipped: Vec::new(),
        }
    }

    /// Returns the available contenders among those that are wanted; programs of other projects are
    /// compiled into `folder`.
    fn contenders(
        &mut self,
        folder: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Contender>> {
        let Subject { inside, processes, sources, .. } = self.subject;
        let threads = inside
            .iter()
            .filter(|one| wanted(one.0))
            .map(|&(name, side, fits, run)| Contender { name, side, fits, how: How::Inside(run) });
        let mut all: Vec<_> = threads.collect();
        let process = |name, side, command| {
            Ok::<_, crate::error::Failure>(Contender {
                name,
                side,
                fits: ANY,
                how: How::Process(Server::start(command)?),
            })
        };
        for (name, way) in processes.iter().filter(|one| wanted(one.0)) {
            all.push(process(name, Side::Ours, way.command()?)?);
        }
        eprintln!("compiling the peers");
        let mut workshop = Workshop::new(folder, &HEADERS)?;
        for source in sources.iter().filter(|source| wanted(source.name)) {
            match workshop.program(Path::new(source.compiler), source.file, source.flags)? {
                Ok(program) => {
                    let mut command = Command::new(program);
                    for (name, _) in std::env::vars_os() {
                        if OPENMP.iter().any(|openmp| name.to_string_lossy().starts_with(openmp)) {
                            command.env_remove(name);
                        }
                    }
                    command.args(source.form).envs(source.environment.iter().copied());
                    all.push(process(source.name, Side::Peer, command)?);
                }
                Err(why) => self.skipped.push(Skipped::told((), source.name, why)),
            }
        }
        Ok(all)
    }

    fn race(&mut self, contenders: Vec<Contender>, pace: Pace, signals: &Signals) -> Result<()> {
        let time = Duration::from_millis(self.milliseconds as u64);
        let groups = self.cells.iter().map(|&cell| {
            let Cell { members, work_ns } = cell;
            let entry = |one: &Contender| {
                let one = one.clone();
                Entry::of(cell, one.side, one.name, &["", FAIRNESS], move |stage: &mut Hops| {
                    let done = one.run(&Bout { places: &stage.places, members, work_ns, time })?;
                    if !done.pinned {
                        stage.unpinned(one.name);
                    }
                    Ok(vec![vec![done.ns], Vec::from_iter(done.fairness)])
                })
            };
            let entries = contenders.iter().filter(|one| (one.fits)(members)).map(entry);
            Group::new(entries).patience(time + TOO_LONG + START * members as u32)
        });
        self.results = race(&mut self.stage, signals, &mut groups.collect::<Vec<_>>(), pace)?;
        let skipped = std::mem::take(&mut self.results.skipped).into_iter();
        self.skipped.extend(skipped.map(|Skipped { way, why, .. }| Skipped { key: (), way, why }));
        Ok(())
    }

    /// Returns the number of processors.
    pub(crate) fn processors(&self) -> usize {
        self.processors
    }

    /// Returns the median of the rounds' least times of a hop.
    pub(crate) fn hop(&self) -> Option<f64> {
        self.stage.median()
    }

    /// Returns the median of a contender, or of one of its metrics, with this number of members and
    /// no work.
    pub(crate) fn median(&self, way: &str, members: usize) -> Option<f64> {
        self.best(&[way], members)
    }

    /// Returns the least median of some ways.
    pub(crate) fn best(&self, ways: &[&str], members: usize) -> Option<f64> {
        self.results.best(&Cell { members, work_ns: 0.0 }, ways)
    }

    /// Returns the least median of our contenders in threads.
    pub(crate) fn best_of_ours(&self, members: usize) -> Option<f64> {
        let ours = self.subject.inside.iter().filter(|(_, side, ..)| *side == Side::Ours);
        self.best(&ours.map(|(name, ..)| *name).collect::<Vec<_>>(), members)
    }

    /// Returns the cost of shared memory between processes with 2 members: each pair names a way in
    /// threads, and the same way in processes.
    pub(crate) fn processes_by_threads(&self, ways: &[(&str, &str)]) -> Vec<Ratio> {
        let ratio = |&(threads, processes): &(&str, &str)| {
            let what = format!("{processes} / threads, 2 members");
            Ratio::of(what, self.median(processes, 2), self.median(threads, 2))
        };
        ways.iter().filter_map(ratio).collect()
    }

    /// Returns the best median of a peer in a cell.
    fn best_peer(&self, of: Cell) -> Option<f64> {
        let peers = self.results.main().filter(|cell| cell.side == Side::Peer && cell.key == of);
        peers.map(|cell| cell.spread.median).reduce(f64::min)
    }

    fn fairness(&self, of: Cell, way: &str) -> Option<f64> {
        self.results.median(&of, &format!("{way}: {FAIRNESS}"))
    }

    /// Returns the title of a cell.
    fn title(&self, Cell { members, work_ns }: Cell) -> String {
        let number = if members == 1 { "" } else { "s" };
        let work = match work_ns {
            _ if self.subject.works.len() == 1 => String::new(),
            0.0 => ", back to back".to_owned(),
            work => format!(", {work} ns of work between"),
        };
        let crowd = if members > self.processors { ", oversubscribed" } else { "" };
        format!("{members} {}{number}{work}{crowd}, ns", self.subject.unit)
    }

    /// Formats the results as a table for each cell.
    fn text(&self) -> String {
        let hop = match self.stage.best() {
            Some(Spread { median, best, .. }) => {
                format!(
                    "H, a hop of a cache line between two of them: median {median:.1} ns, best {best:.1}"
                )
            }
            None => "no two of them, so no hop of a cache line between them".to_owned(),
        };
        let Self { subject, milliseconds, results, .. } = self;
        let mut lines = vec![
            format!("{}; {hop}", self.machine.line()),
            format!(
                "{}; {} alternating rounds of {milliseconds} ms each",
                subject.what, results.rounds
            ),
        ];
        lines.extend(self.skipped.iter().map(ToString::to_string));
        lines.extend(self.stage.unpinned.iter().map(|way| format!("not pinned: {way}")));
        let hop = self.hop();
        for &cell in &self.cells {
            let peer = self.best_peer(cell);
            let by = |by: Option<f64>| {
                move |cell: &crate::race::Cell<Cell>| ratio(Some(cell.spread.median), by)
            };
            let (by_hop, by_peer) = (by(hop), by(peer));
            let fairness = |of: &crate::race::Cell<Cell>| self.fairness(of.key, &of.way);
            let columns: [crate::race::Column<'_, Cell>; 3] =
                [("/ H", &by_hop), ("/ peer", &by_peer), ("fairness", &fairness)];
            let fair = results.cells.iter().any(|of| of.key == cell && of.metric == FAIRNESS);
            let columns = &columns[..if fair { 3 } else { 2 }];
            let standings = self.results.main().filter(|standing| standing.key == cell);
            let mut table =
                Table::of(self.title(cell), standings, 1.0, |cell| cell.way.clone(), columns);
            for out in results.left_out.iter().filter(|out| out.key == cell) {
                table.row(
                    format!("  {}: left out: it takes too long, {:.0} ns", out.way, out.value),
                    [],
                );
            }
            lines.push(table.to_string());
        }
        let mut ratios = Table::new("of the medians", ["value"]);
        (subject.ratios)(self)
            .iter()
            .for_each(|Ratio { what, value }| ratios.row(what, [figure(*value)]));
        lines.push(ratios.to_string());
        lines.extend((subject.more)().map(|more| format!("\n{more}")));
        lines.join("\n")
    }

    /// Formats the results as one JSON object per line.
    fn json(&self) -> Result<String> {
        let Self { results, stage, .. } = self;
        let mut lines = Lines::new("kind");
        lines.push("machine", &self.machine)?;
        lines.all("skipped", &self.skipped)?;
        lines.all("unpinned", stage.unpinned.iter().map(|way| json!({ "way": way })))?;
        for crate::race::LeftOut { key, way, side, value } in &results.left_out {
            let Cell { members, work_ns } = key;
            let out = json!({ "way": way, "side": side, "members": members, "work_ns": work_ns, "ns": value });
            lines.push("left_out", &out)?;
        }
        for (round, Spread { best, median, .. }) in stage.hops.iter().enumerate() {
            lines.push("hop", &json!({ "round": round, "best_ns": best, "median_ns": median }))?;
        }
        for crate::race::Run { key, way, side, round, values } in &results.runs {
            let Cell { members, work_ns } = key;
            // NaN, which stands for no value, becomes null.
            let run = json!({ "way": way, "side": side, "members": members, "work_ns": work_ns, "round": round,
                "ns": values[0], "fairness": values[1] });
            lines.push("run", &run)?;
        }
        for cell in results.main() {
            let (key, Spread { median, best, p90 }) = (cell.key, cell.spread);
            let standing = json!({ "way": cell.way, "side": cell.side, "members": key.members,
                "work_ns": key.work_ns, "oversubscribed": key.members > self.processors,
                "rounds": cell.rounds, "median": median, "best": best, "p90": p90,
                "to_hop": ratio(Some(median), self.hop()),
                "to_best_peer": ratio(Some(median), self.best_peer(key)),
                "fairness": self.fairness(key, &cell.way) });
            lines.push("cell", &standing)?;
        }
        lines.all("ratio", (self.subject.ratios)(self))?;
        Ok(lines.text())
    }
}

/// The name of the second metric.
const FAIRNESS: &str = "fairness";

impl Ratio {
    /// Returns one time divided by another; `None` if either was not measured.
    pub(crate) fn of(what: impl Into<String>, time: Option<f64>, by: Option<f64>) -> Option<Self> {
        Self::just(what, ratio(time, by))
    }

    /// Returns a number that is no ratio of two times.
    pub(crate) fn just(what: impl Into<String>, value: Option<f64>) -> Option<Self> {
        Some(Self { what: what.into(), value: value? })
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    /// A contender that takes as many milliseconds as it reports nanoseconds.
    fn slow(bout: &Bout<'_>, milliseconds: u64) -> Result<Measured> {
        sleep(Duration::from_millis(milliseconds));
        Ok(Measured { ns: milliseconds as f64 * bout.members as f64, pinned: true, fairness: None })
    }

    static SLOW: Subject = Subject {
        what: "sleeps",
        unit: "sleeper",
        members: |_| vec![4, 1],
        works: &[0.0],
        milliseconds: 1,
        inside: &[
            ("first", Side::Peer, ANY, |bout| slow(bout, 2)),
            ("second", Side::Ours, ANY, |bout| slow(bout, 1)),
            // Longer than the patience of a group.
            ("last", Side::Peer, ANY, |bout| slow(bout, bout.time.as_millis() as u64 + 299)),
        ],
        processes: &[],
        sources: &[],
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
        // On a machine so busy that others take too long as well, again with more patience.
        let raced = [None, Some(3000), Some(100_000)].into_iter().find_map(|milliseconds| {
            let options = Options { quick: true, json: false, rounds: None };
            let args = ContestArgs { options, members: Vec::new(), milliseconds };
            let mut contest = Contest::new(&args, &SLOW);
            contest.skipped.push(Skipped::told((), "absent", "no reason"));
            let folder = tempfile::tempdir().unwrap();
            let contenders = contest.contenders(folder.path(), |_| true).unwrap();
            contest.race(contenders, Pace::exactly(2), &Signals::default()).unwrap();
            let is_left_out = |way| contest.results.left_out.iter().any(|out| out.way == way);
            let is_busy = is_left_out("first") || is_left_out("second");
            (!is_busy).then(|| (contest, milliseconds.unwrap_or(1)))
        });
        let (contest, milliseconds) = raced.expect("a machine that is not as busy as that");
        let standing = |cell: &crate::race::Cell<Cell>| {
            let to_best_peer = cell.spread.median / contest.best_peer(cell.key).unwrap();
            (cell.way.clone(), cell.key.members, cell.spread.median, to_best_peer)
        };
        let standings: Vec<_> = contest.results.main().map(standing).collect();
        let expected = [
            ("first", 1, 2.0, 1.0),
            ("second", 1, 1.0, 0.5),
            ("first", 4, 8.0, 1.0),
            ("second", 4, 4.0, 0.5),
        ];
        assert_eq!(
            standings,
            expected.map(|(way, members, ns, to)| (way.to_owned(), members, ns, to))
        );
        let text = contest.text();
        let left_out = format!("left out: it takes too long, {} ns", 4 * (milliseconds + 299));
        let told = [
            "skipped: absent: no reason",
            &left_out,
            "1 sleeper, ",
            "4 sleepers",
            "second / first",
        ];
        assert!(told.iter().all(|words| text.contains(words)), "{text}");
        assert!(!text.contains("second / last") && !text.contains("second / hop"), "{text}");
    }

    #[test]
    fn answers_are_understood_and_others_told() {
        let places = Places::none();
        let bout =
            Bout { places: &places, members: 3, work_ns: 500.0, time: Duration::from_micros(2500) };
        let said = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            bout.ask(&Server::start(command).unwrap()).map_err(|error| error.to_string())
        };
        let measured =
            said("read line; [ \"$line\" = 'RUN 3 2.5 500' ] && echo 7.5 1 30 20 40").unwrap();
        assert_eq!((measured.ns, measured.pinned, measured.fairness), (7.5, true, Some(0.5)));
        let measured = said("read line; echo 7.5 0; read line").unwrap();
        assert_eq!((measured.ns, measured.pinned, measured.fairness), (7.5, false, None));
        assert_eq!(said("read line; echo seven").unwrap_err(), "it said \"seven\"");
        assert_eq!(said("read line").unwrap_err(), "it has ended");
    }
}
