//! `syncline-lab bench solve`: triangular decompositions, as in the tables of Moreno Maza,
//! Stephenson, Watt and Xie (2008).
//!
//! ```text
//! features   the systems: variables, degree, prime, seconds then and now
//! speed-ups  by a replay on 2, 5 and 9 workers, and measured with the paper's two codecs and ours
//! integers   what workers read and write, and how many of these are zero
//! time       where the time of the workers goes; the overhead in per cent of the net work
//! analysis   per spawn, per message, per integer
//! others     Singular's minAssGTZ and FriCAS's zeroSetSplit, where they are installed
//! ```
//!
//! In every round, each system is solved in one process; with each codec, on workers that are
//! started for it and end with it; and again on workers that have solved it once and wait. They
//! cache nothing of it, but have FLINT and their memory. Medians are told. The overhead is the
//! paper's: spawns, messages, and the reading and writing of integers, of all workers together;
//! waiting is not in it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use syncline_farm::Program;
use syncline_solve::codec::Codec;
use syncline_solve::decompose::Decomposer;
use syncline_solve::parallel::{
    Effort, FarmCosts, Report, Scheme, Solver, farm_costs, serve_worker,
};
use syncline_solve::replay::{Record, span_of};
use syncline_solve::solve::{Job, run, run_jobs, solution};
use syncline_solve::{
    Method, Mode, Poly, Solution, SolveError, Source, System, solve as solve_system,
};

use crate::error::{Result, failed};
use crate::race::Machine;
use crate::stop::Signals;

/// Measures triangular decompositions: the tables of the paper, of which the systems are.
///
/// It needs FLINT. Singular and FriCAS are raced where they are installed.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "syncline-lab bench solve [OPTIONS]")]
pub(crate) struct BenchSolveArgs {
    /// Rounds; medians are told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = crate::at_least(1))]
    rounds: usize,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = crate::at_least(1))]
    workers: usize,
    /// Only systems whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Prints all results as JSON
    #[arg(long)]
    json: bool,
}

/// A system, and what the paper says about it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    text: &'static str,
    /// Sequential seconds, processors, and the speed-ups with Kronecker's codec and by terms.
    pub(crate) paper: Option<(f64, usize, f64, f64)>,
}

macro_rules! subject {
    ($name:literal, $folder:literal, $paper:expr) => {
        Subject {
            name: $name,
            text: include_str!(concat!(
                "../../../apps/solve/tests/systems/",
                $folder,
                $name,
                ".txt"
            )),
            paper: $paper,
        }
    };
}

pub(crate) const SUBJECTS: [Subject; 9] = [
    subject!("eco6", "", Some((4.00, 5, 2.1, 2.1))),
    subject!("eco7", "", Some((727.95, 9, 6.1, 6.2))),
    subject!("cnogues2", "", Some((476.16, 9, 2.3, 2.2))),
    subject!("cnogues", "", Some((2162.40, 9, 2.4, 2.2))),
    subject!("nooburg4", "", Some((4.14, 9, 2.3, 2.3))),
    subject!("ubikker", "", Some((866.20, 9, 1.9, 1.8))),
    subject!("cohn2", "", Some((305.24, 9, 3.2, 3.0))),
    subject!("eco8", "classics/", None),
    subject!("eco9", "classics/", None),
];

const CODECS: [(Codec, &str); 3] =
    [(Codec::Kronecker, "kronecker"), (Codec::Terms, "terms"), (Codec::Flat, "flat")];

/// The results of one codec.
#[derive(Debug, Serialize)]
pub(crate) struct Farmed {
    pub(crate) codec: &'static str,
    pub(crate) seconds: Vec<f64>,
    /// The same with workers that have solved the system once before.
    pub(crate) waiting: Vec<f64>,
    pub(crate) workers: u64,
    pub(crate) tasks: u64,
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) zeros: u64,
    pub(crate) work_seconds: f64,
    pub(crate) read_seconds: f64,
    pub(crate) write_seconds: f64,
    pub(crate) spawn_seconds: f64,
    pub(crate) message_seconds: f64,
    /// Spawns, messages, reading and writing, in per cent of the work.
    pub(crate) overhead: f64,
}

/// The results of one system.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) name: &'static str,
    pub(crate) variables: usize,
    pub(crate) degree: usize,
    pub(crate) prime: u64,
    pub(crate) paper_seconds: Option<f64>,
    pub(crate) sequential: Vec<f64>,
    /// The seconds of the method `auto`, a median.
    pub(crate) auto: f64,
    pub(crate) steps: usize,
    /// The speed-ups of the replay on 2, 5 and 9 workers.
    pub(crate) replayed: [f64; 3],
    pub(crate) farmed: Vec<Farmed>,
    pub(crate) singular: Option<f64>,
    pub(crate) fricas: Option<f64>,
}

/// Works for `bench solve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SolveWorkerArgs {
    /// Solves a system alone, and prints a line of JSON
    #[arg(long, value_name = "NAME")]
    alone: Option<String>,
}

/// A solution by one process: a process that has only one thread, as a worker has, since `malloc`
/// is slower in others.
#[derive(Debug, Deserialize, Serialize)]
struct Alone {
    seconds: f64,
    /// The seconds of the method `auto`.
    auto: f64,
    steps: usize,
    /// The time of everything on 2, 5 and 9 workers, by a replay: the steps, and then the
    /// components, of which only sections are done by several workers.
    spans: [f64; 3],
}

impl Alone {
    /// The speed-ups of the replay.
    fn replayed(&self) -> [f64; 3] {
        self.spans.map(|span| self.seconds / span)
    }
}

/// Works for `bench solve`.
pub(crate) fn solve_worker(args: &SolveWorkerArgs) -> Result<()> {
    if let Some(name) = &args.alone {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name);
        let source = Source::read(subject.ok_or("no such system")?.text)?;
        let System { ring, equations } = source.system(source.names())?;
        let began = Instant::now();
        let decomposer = Decomposer::new(&ring, &equations, &[]);
        let (solved, record) = Record::of(&decomposer, decomposer.first());
        let components = Instant::now();
        let mut batches = Vec::new();
        let _ = solution(&decomposer, solved, Mode::Kalkbrener, true, &mut |jobs| {
            let mut batch = Vec::new();
            let timed = |job: Job| {
                let began = Instant::now();
                let found = job.run();
                batch.push(began.elapsed());
                found
            };
            let found = jobs.into_iter().map(timed).collect();
            batches.push(batch);
            found
        });
        let alone_only = components.elapsed().saturating_sub(batches.iter().flatten().sum());
        let span = |workers| {
            let sections = batches.iter().map(|batch| span_of(batch, workers)).sum::<Duration>();
            (record.span(workers) + alone_only + sections).as_secs_f64()
        };
        let seconds = began.elapsed().as_secs_f64();
        let spans = [2, 5, 9].map(span);
        let began = Instant::now();
        let (prepared, _) = Method::Auto.prepare(&ring, &equations, &[]);
        let _ = solve_system(&ring, &prepared, &[], Mode::Kalkbrener, true);
        let alone =
            Alone { seconds, auto: began.elapsed().as_secs_f64(), steps: record.steps(), spans };
        println!("{}", serde_json::to_string(&alone)?);
        return Ok(());
    }
    serve_worker()?;
    Err("this process is no worker of a solver".into())
}

/// Solves a system in a process of its own.
fn alone(subject: &Subject) -> Result<Alone> {
    let output = Command::new(std::env::current_exe()?)
        .args(["solve-worker", "--alone", subject.name])
        .output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(&format!("solve {}", subject.name), why));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs the measurements, and returns the tables.
pub(crate) fn solve(args: &BenchSolveArgs, signals: &Signals) -> Result<String> {
    let program = Program::this()?.arg("solve-worker");
    let costs = farm_costs(&program)?;
    let mut all = Vec::new();
    for subject in &SUBJECTS {
        if args.only.as_ref().is_none_or(|only| subject.name.contains(only.as_str())) {
            signals.check()?;
            let (rounds, workers) = (args.rounds, args.workers);
            all.push(measure((rounds, workers, true), subject, &program, costs, signals)?);
        }
    }
    let machine = Machine::here(args.workers);
    if args.json {
        let json = serde_json::json!({
            "machine": machine.line(),
            "rounds": args.rounds,
            "workers": args.workers,
            "systems": all,
        });
        return Ok(json.to_string());
    }
    Ok(tables(args, &all, costs, &machine))
}

/// Returns the reason why systems cannot be solved on this machine: FLINT is not installed.
pub(crate) fn lacks() -> Option<String> {
    let source = Source::read(SUBJECTS[0].text).ok()?;
    source.system(source.names()).err().map(|why| why.to_string())
}

/// Measures the paper's systems of these names, without other programs that solve them.
///
/// # Errors
/// Errors of the solver, and [`Interrupted`](crate::error::Interrupted).
pub(crate) fn measured(
    only: &[&str],
    rounds: usize,
    workers: usize,
    signals: &Signals,
) -> Result<(Vec<Results>, FarmCosts)> {
    let program = Program::this()?.arg("solve-worker");
    let costs = farm_costs(&program)?;
    let wanted = SUBJECTS.iter().filter(|subject| only.contains(&subject.name));
    let measure = |subject| measure((rounds, workers, false), subject, &program, costs, signals);
    Ok((wanted.map(measure).collect::<Result<_>>()?, costs))
}

/// Returns the median; the greater of the two middle values if their number is even.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures a system: a number of rounds, with a number of workers, and by others if they are
/// wanted.
fn measure(
    (rounds, workers, others): (usize, usize, bool),
    subject: &Subject,
    program: &Program,
    costs: FarmCosts,
    signals: &Signals,
) -> Result<Results> {
    let source = Source::read(subject.text)?;
    let System { ring, equations } = source.system(source.names())?;
    let decomposer = Decomposer::new(&ring, &equations, &[]);
    let solved = run(&decomposer, decomposer.first(), &mut |_| ());
    let expected = solution(&decomposer, solved, Mode::Kalkbrener, true, &mut run_jobs);
    let mut sequential = Vec::new();
    let mut farmed = CODECS.map(|(_, name)| (name, [const { Vec::new() }; 2], Vec::new()));
    for _ in 0..rounds {
        signals.check()?;
        sequential.push(alone(subject)?);
        for ((codec, _), (_, [seconds, waiting], reports)) in CODECS.iter().zip(&mut farmed) {
            let solver = Solver {
                workers,
                program: Some(program.clone()),
                scheme: Scheme::Stolen,
                codec: *codec,
                factor: true,
                ..Solver::default()
            };
            let check = |solved: Result<(Solution, Report), SolveError>| {
                let (found, report) = solved?;
                signals.check()?;
                if found != expected {
                    let name = subject.name;
                    return Err(failed("compare", format!("workers solve {name} differently")));
                }
                Ok(report)
            };
            signals.check()?;
            let began = Instant::now();
            let solved = solver.solve(&ring, &equations, &[], |_| ());
            seconds.push(began.elapsed().as_secs_f64());
            reports.push(check(solved)?);
            // The second system of workers that are there.
            let mut workers = solver.start()?;
            check(workers.solve(&ring, &equations, &[], |_| ()))?;
            let began = Instant::now();
            let solved = workers.solve(&ring, &equations, &[], |_| ());
            waiting.push(began.elapsed().as_secs_f64());
            check(solved)?;
        }
    }
    // The replay is that of the median.
    sequential.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let typical = &sequential[sequential.len() / 2];
    let farmed = farmed.into_iter().map(|(codec, [seconds, waiting], mut reports)| {
        reports.sort_by_key(|report| report.effort.work_micros);
        let report = reports[reports.len() / 2];
        let Effort { tasks, read, written, zeros, .. } = report.effort;
        let micros = |micros: u64| micros as f64 / 1e6;
        let work_seconds = micros(report.effort.work_micros);
        let read_seconds = micros(report.effort.read_micros);
        let write_seconds = micros(report.effort.write_micros);
        let spawn_seconds = report.workers as f64 * costs.spawn.as_secs_f64();
        let message_seconds = 2.0 * tasks as f64 * costs.message.as_secs_f64();
        let sum = spawn_seconds + message_seconds + read_seconds + write_seconds;
        Farmed {
            codec,
            seconds,
            waiting,
            workers: report.workers,
            tasks,
            read,
            written,
            zeros,
            work_seconds,
            read_seconds,
            write_seconds,
            spawn_seconds,
            message_seconds,
            overhead: 100.0 * sum / work_seconds,
        }
    });
    Ok(Results {
        name: subject.name,
        variables: ring.variables(),
        degree: equations.iter().map(Poly::total_degree).max().unwrap_or_default(),
        prime: ring.prime(),
        paper_seconds: subject.paper.map(|paper| paper.0),
        steps: typical.steps,
        replayed: typical.replayed(),
        sequential: sequential.iter().map(|alone| alone.seconds).collect(),
        auto: median(&sequential.iter().map(|alone| alone.auto).collect::<Vec<_>>()),
        farmed: farmed.collect(),
        singular: others.then(|| singular(source.names(), ring.prime(), &equations)).flatten(),
        fricas: others.then(|| fricas(source.names(), ring.prime(), &equations)).flatten(),
    })
}

/// The seconds that Singular takes for the components; `None` if it is not installed, or takes more
/// than 20 s.
fn singular(names: &[String], prime: u64, equations: &[Poly]) -> Option<f64> {
    let equations = equations.iter().map(Poly::to_string).collect::<Vec<_>>().join(",");
    let script = format!(
        "LIB \"primdec.lib\"; ring r = {prime}, ({}), dp; ideal i = {equations}; \
         system(\"--ticks-per-sec\", 1000); int t = timer; list l = minAssGTZ(i); \
         print(\"milliseconds \" + string(timer - t)); quit;",
        names.join(","),
    );
    let text = told("Singular", &["-q", "--no-warn", "-c", &script], "")?;
    let line = text.lines().find_map(|line| line.strip_prefix("milliseconds "))?;
    Some(line.trim().parse::<f64>().ok()? / 1000.0)
}

/// The seconds that FriCAS takes for regular chains, which it neither factors nor compares; `None`
/// if it is not installed, or takes more than 20 s.
fn fricas(names: &[String], prime: u64, equations: &[Poly]) -> Option<f64> {
    let quoted = names.iter().map(|name| format!("'{name}")).collect::<Vec<_>>().join(",");
    let mut script = format!(
        "F := PF({prime})\nls : List Symbol := [{quoted}]\nV := OVAR(ls)\nP := NSMP(F, V)\n\
         T := REGSET(F, IndexedExponents V, V, P)\nlp : List P := []\n"
    );
    for name in names {
        let _ = writeln!(script, "{name} : P := '{name}");
    }
    for equation in equations {
        let _ = writeln!(script, "lp := concat(lp, ({equation})::P);");
    }
    script.push_str(")set messages time on\nlts := zeroSetSplit(lp)$T;\n)quit\n");
    let text = told("fricas", &["-nosman"], &script)?;
    let line = text.lines().find(|line| line.contains("Time:"))?;
    line.rsplit('=').next()?.trim().strip_suffix("sec")?.trim().parse().ok()
}

/// What a program prints within 20 s.
fn told(program: &str, args: &[&str], input: &str) -> Option<String> {
    let mut child = Command::new("timeout")
        .args(["-k", "1", "20", program])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // Closed at once; a program that has ended already reads nothing.
    let _ = child.stdin.take()?.write_all(input.as_bytes());
    let output = child.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// All results as tables.
fn tables(args: &BenchSolveArgs, all: &[Results], costs: FarmCosts, machine: &Machine) -> String {
    let mut out = format!("{}\n{} rounds, medians\n", machine.line(), args.rounds);
    out.push_str(
        "\nfeatures     n  d       p  seconds 2008  seconds now     ratio  steps  auto now  Singular  FriCAS\n",
    );
    for results in all {
        let now = median(&results.sequential);
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        let ratio = results.paper_seconds.map_or("-".to_owned(), |s| format!("{:.0}", s / now));
        let _ = writeln!(
            out,
            "{:10} {:3} {:2} {:7} {:>13} {now:12.4} {ratio:>9} {:6} {:9.4} {:>9} {:>7}",
            results.name,
            results.variables,
            results.degree,
            results.prime,
            optional(results.paper_seconds),
            results.steps,
            results.auto,
            optional(results.singular),
            optional(results.fricas),
        );
    }
    let workers = args.workers;
    let _ = writeln!(
        out,
        "\nspeed-ups   paper: CPUs, Kronecker, terms   replay 2, 5, 9       measured with {workers}: \
         kronecker, terms, flat   of the replay; by workers that wait"
    );
    for results in all {
        let paper = SUBJECTS.iter().find(|subject| subject.name == results.name);
        let paper = paper
            .and_then(|subject| subject.paper)
            .map_or("-".to_owned(), |paper| format!("{}  {:.1}  {:.1}", paper.1, paper.2, paper.3));
        let now = median(&results.sequential);
        let speed_ups = |of: fn(&Farmed) -> &[f64]| {
            results.farmed.iter().map(|farmed| now / median(of(farmed))).collect::<Vec<_>>()
        };
        let [two, five, nine] = results.replayed;
        let of_replay = |measured: &[f64]| {
            let best = measured.iter().copied().fold(0.0, f64::max);
            if workers == 2 { format!("{:.2}", best / two) } else { "-".to_owned() }
        };
        let measured = speed_ups(|farmed| &farmed.seconds);
        let waiting = of_replay(&speed_ups(|farmed| &farmed.waiting));
        let of_replay = of_replay(&measured);
        let measured = measured.iter().map(|m| format!("{m:.2}")).collect::<Vec<_>>().join("  ");
        let _ = writeln!(
            out,
            "{:10} {paper:>20} {two:17.2}  {five:.2}  {nine:.2} {measured:>33} {of_replay:>19} \
             {waiting:>8}",
            results.name
        );
    }
    out.push_str(
        "\nintegers    codec      workers   tasks       read    written      total  zeros %\n",
    );
    for (results, farmed) in each(all) {
        let total = farmed.read + farmed.written;
        let _ = writeln!(
            out,
            "{:11} {:10} {:7} {:7} {:10} {:10} {total:10} {:8.0}",
            results.name,
            farmed.codec,
            farmed.workers,
            farmed.tasks,
            farmed.read,
            farmed.written,
            100.0 * farmed.zeros as f64 / total.max(1) as f64
        );
    }
    out.push_str(
        "\ntime        codec       spawns ms  messages us   read ms  write ms  net work s  \
         overhead %\n",
    );
    for (results, farmed) in each(all) {
        let _ = writeln!(
            out,
            "{:11} {:10} {:10.2} {:12.0} {:9.2} {:9.2} {:11.3} {:11.1}",
            results.name,
            farmed.codec,
            1e3 * farmed.spawn_seconds,
            1e6 * farmed.message_seconds,
            1e3 * farmed.read_seconds,
            1e3 * farmed.write_seconds,
            farmed.work_seconds,
            farmed.overhead
        );
    }
    let _ = writeln!(
        out,
        "\nanalysis    codec      ns per integer read  written     (per spawn {:.2} ms, per message \
         {:.1} us)",
        1e3 * costs.spawn.as_secs_f64(),
        1e6 * costs.message.as_secs_f64()
    );
    for (results, farmed) in each(all) {
        let per = |seconds: f64, count: u64| 1e9 * seconds / count.max(1) as f64;
        let _ = writeln!(
            out,
            "{:11} {:10} {:19.1} {:8.1}",
            results.name,
            farmed.codec,
            per(farmed.read_seconds, farmed.read),
            per(farmed.write_seconds, farmed.written)
        );
    }
    out.truncate(out.trim_end().len());
    out
}

/// All codecs of all systems.
fn each(all: &[Results]) -> impl Iterator<Item = (&Results, &Farmed)> {
    all.iter().flat_map(|results| results.farmed.iter().map(move |farmed| (results, farmed)))
}
