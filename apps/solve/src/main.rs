//! The `syncline-solve` command: triangular decomposition of polynomial systems over Z/p.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use clap::{CommandFactory as _, Parser, ValueEnum};
use clap_complete::Shell;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use syncline_process::streams::{self, Stream};
use syncline_solve::check::{SEED, check_by};
use syncline_solve::codec::Codec;
use syncline_solve::parallel::{Report, Scheme, Solver, serve_worker};
use syncline_solve::solve::{Progress, run, run_jobs, solution};
use syncline_solve::{Method, Mode, Poly, Ring, Solution, SolveError, Source, polynomial};

// SAFETY: the loader calls each pointer of the section as a function of C, before `main`, on the
// only thread. `look` needs nothing that Rust sets up for `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = streams::look;

/// The largest number of bytes of a system: 256 MiB.
const MOST_TEXT: u64 = 1 << 28;
/// The least time to read a system, so that a time limit of 0 ends its solution and not its
/// reading.
const LEAST_READING: Duration = Duration::from_secs(1);

const EXIT_CODES: &str = "Exit codes: 0 for success; 1 for an error; 2 for a wrong command line or \
                          a closed standard output; 3 for a solution that --check finds wrong; \
                          4 when the time is over.";

/// Decompose the zeros of a system of polynomials over Z/p into triangular chains.
///
/// The file has the variables, greatest first, the prime, and one polynomial in each line:
///
///     vars x y z
///     prime 7841
///     x^2 + y*z - 1
///     (x - y)*(x + z)
///
/// Files of msolve are read as well. Each chain that is printed is a component of the zeros, or
/// several; its variables without a polynomial are free.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment, max_term_width = 100, after_help = EXIT_CODES)]
struct Args {
    /// The system; `-` reads standard input
    file: PathBuf,
    /// Worker processes; 1 without --timeout and --memory solves in this process
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// How polynomials are sent to workers
    #[arg(long, value_enum, default_value_t = Wire::Flat)]
    wire: Wire,
    /// How tasks come to workers
    #[arg(long, value_enum, default_value_t = Tasks::Stolen, hide = true)]
    tasks: Tasks,
    /// The order of the variables, greatest first: `file`, `reversed`, `auto`, or x,y,z
    #[arg(long, default_value = "file")]
    order: String,
    /// What the zeros are the union of: closures of chains (kalkbrener), or their points (lazard)
    #[arg(long, value_enum, default_value_t = Chains::Kalkbrener)]
    mode: Chains,
    /// How chains are found: by themselves, or with a Groebner basis if the zeros are finitely many
    #[arg(long, value_enum, default_value_t = Way::Chains)]
    method: Way,
    /// Divide components into irreducible ones over Z/p
    #[arg(long)]
    factor: bool,
    /// List the zeros with coordinates in Z/p, if the dimension is 0
    #[arg(long)]
    points: bool,
    /// Check the solution, also by a second one after a random linear change of variables
    #[arg(long)]
    check: bool,
    /// A polynomial that must not vanish; may be repeated
    #[arg(long, value_name = "POLY", allow_hyphen_values = true)]
    nonzero: Vec<String>,
    /// Print the solution as one line of JSON, the last one
    #[arg(long)]
    json: bool,
    /// Give up after some seconds; reading the system has at least one
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// The memory of each worker in MiB, at least 8
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(8..))]
    memory: Option<u32>,
    /// Record what workers do and what they wait for, for `syncline report FILE`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wire {
    Kronecker,
    Terms,
    Flat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Tasks {
    Farmed,
    Forked,
    Stolen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Chains {
    Kalkbrener,
    Lazard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    Chains,
    Auto,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "not a number of seconds".to_owned())
}

fn main() -> ExitCode {
    if let Err(error) = serve_worker() {
        return fail(&error.to_string(), 1);
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(documented) = document(&words) {
        return documented.map_or_else(|error| fail(&error, 1), |()| ExitCode::SUCCESS);
    }
    let args = Args::parse();
    if streams::was_closed(Stream::Output) {
        let closed =
            "standard output is closed: the solution has no place (> /dev/null discards it)";
        return fail(closed, 2);
    }
    if let Some(path) = &args.trace
        && let Err(error) = syncline_trace::start(path)
    {
        return fail(&error.to_string(), 1);
    }
    let outcome = execute(&args);
    if let Err(error) = syncline_trace::finish() {
        eprintln!("warning: {error}; it ends there");
    }
    match outcome {
        Ok(code) => code,
        Err(Failure::Solve(SolveError::TimedOut)) => {
            let seconds = args.timeout.unwrap_or_default().as_secs_f64();
            let hint = match args.method {
                Way::Chains => "; perhaps --method auto or another --order is faster",
                Way::Auto => "",
            };
            fail(&format!("not solved within {seconds} s{hint}"), 4)
        }
        Err(Failure::Solve(error @ SolveError::Syntax { .. })) => {
            fail(&format!("{}: {error}", args.file.display()), 1)
        }
        Err(Failure::Solve(error)) => {
            let hint = match (&error, args.memory) {
                (SolveError::Worker { .. }, Some(memory)) => {
                    format!("; perhaps it needs more than --memory {memory}")
                }
                _ => String::new(),
            };
            fail(&format!("{error}{hint}"), 1)
        }
        Err(Failure::Other(message)) => fail(&message, 1),
    }
}

/// Writes what an installation has beside the command, by one of two options that are for `make
/// install` alone: `--man DIR` writes the manual page, `--completions SHELL` prints completions.
fn document(words: &[OsString]) -> Option<Result<(), String>> {
    let [option, value] = words else { return None };
    let mut command = Args::command();
    if option == "--man" {
        let written = clap_mangen::generate_to(command, value);
        return Some(written.map_err(|error| format!("cannot write the manual page: {error}")));
    }
    if option != "--completions" {
        return None;
    }
    let shell = value.to_string_lossy().parse::<Shell>();
    Some(shell.and_then(|shell| {
        // Generated in memory: clap panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "syncline-solve", &mut script);
        let written = match streams::was_closed(Stream::Output) {
            true => Err(rustix::io::Errno::BADF.into()),
            false => std::io::stdout().write_all(&script),
        };
        written.map_err(|error| format!("cannot write to standard output: {error}"))
    }))
}

fn fail(message: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::from(code)
}

enum Failure {
    Solve(SolveError),
    Other(String),
}

impl From<SolveError> for Failure {
    fn from(error: SolveError) -> Failure {
        Failure::Solve(error)
    }
}

fn execute(args: &Args) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let deadline = args.timeout.and_then(|timeout| started.checked_add(timeout));
    let least = deadline.map(|deadline| deadline.max(started + LEAST_READING));
    let reading = TimeLimit::new(least, args, "read");
    let text = text(&args.file)?;
    let source = Source::read(&text)?;
    let order = order(&source, &args.order)?;
    let system = source.system(&order)?;
    let nonzero = args
        .nonzero
        .iter()
        .map(|text| {
            polynomial(&system.ring, text)
                .map_err(|error| Failure::Other(format!("--nonzero {text}: {error}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    drop(reading);
    let began = Instant::now();
    let method = match args.method {
        Way::Chains => Method::Chains,
        Way::Auto => Method::Auto,
    };
    let preparing = (method == Method::Auto).then(|| TimeLimit::new(deadline, args, "solved"));
    let (equations, no_basis) = method.prepare(&system.ring, &system.equations, &nonzero);
    drop(preparing);
    if method == Method::Auto {
        match &no_basis {
            None => eprintln!("method: a Groebner basis"),
            Some(why) => eprintln!("method: chains, without a Groebner basis: {why}"),
        }
    }
    let (solution, report) = solved(args, &system.ring, &equations, &nonzero, 0, deadline)?;
    let seconds = began.elapsed().as_secs_f64();
    let mut out = String::new();
    describe(&mut out, args, &system.ring, &solution);
    let points = args.points.then(|| {
        let _listing = TimeLimit::new(deadline, args, "solved");
        rational_points(&system.ring, &solution)
    });
    if let Some(points) = &points {
        match points {
            None => out.push_str("There are infinitely many points: none are listed.\n"),
            Some(points) => {
                let _ = writeln!(out, "Points over Z/{}: {}", system.ring.prime(), points.len());
                for point in points {
                    let values = system.ring.names().iter().zip(point);
                    let values = values.map(|(name, value)| format!("{name} = {value}"));
                    let _ = writeln!(out, "  {}", values.collect::<Vec<_>>().join(", "));
                }
            }
        }
    }
    let mut checked = None;
    let check_began = Instant::now();
    if args.check {
        let _checking = TimeLimit::new(deadline, args, "checked");
        let mode = mode(args);
        let mut second = |equations: &[Poly], inequations: &[Poly]| {
            let found = solved(args, &system.ring, equations, inequations, SEED, deadline);
            found.map(|(found, _)| found)
        };
        let (ring, equations) = (&system.ring, &system.equations);
        let outcome = match check_by(&mut second, ring, equations, &nonzero, &solution, mode) {
            Err(SolveError::TimedOut) => return Ok(too_late(args.timeout, "checked")),
            outcome => outcome?,
        };
        let check_seconds = check_began.elapsed().as_secs_f64();
        let _ = match &outcome {
            Ok(()) => writeln!(out, "Checked in {check_seconds:.3} s: right."),
            Err(why) => writeln!(out, "Checked: WRONG: {why}."),
        };
        checked = Some(outcome.is_ok());
    }
    if args.json {
        let chains = solution.components.iter().map(|component| {
            component.chain.members().map(|(_, m)| m.to_string()).collect::<Vec<_>>()
        });
        // True or unknown.
        let known = solution.components.iter().map(|c| c.is_prime.then_some(true));
        let known = known.collect::<Vec<_>>();
        let doubts = solution.components.iter().map(|c| c.doubt.map(|d| d.told(&system.ring)));
        let doubts = doubts.collect::<Vec<_>>();
        let mut summary = json!({
            "dimension": solution.dimension(),
            "points": solution.points(),
            "degrees": solution.degrees,
            "dimensions": dimensions(&solution),
            "irreducible": known,
            "doubts": doubts,
            "nonzero": args.nonzero,
            "method": if method == Method::Auto && no_basis.is_none() { "basis" } else { "chains" },
            "order": order,
            "prime": system.ring.prime(),
            "chains": chains.collect::<Vec<_>>(),
            "seconds": seconds,
            "workers": args.workers,
        });
        if let Some(checked) = checked {
            summary["checked"] = checked.into();
        }
        if let Some(points) = points {
            summary["rational_points"] = json!(points);
        }
        if let Some(report) = report {
            summary["farm"] = json!({
                "started": report.workers,
                "lost": report.lost,
                "steps": report.effort.steps,
                "tasks": report.effort.tasks,
                "integers_read": report.effort.read,
                "integers_written": report.effort.written,
                "zeros": report.effort.zeros,
                "work_us": report.effort.work_micros,
                "read_us": report.effort.read_micros,
                "write_us": report.effort.write_micros,
            });
        }
        let _ = writeln!(out, "{summary}");
    } else {
        let _ = writeln!(out, "Solved in {seconds:.3} s.");
        if method == Method::Chains && seconds > 1.0 && solution.points().is_some() {
            out.push_str("Perhaps --method auto is faster: the zeros are finitely many.\n");
        }
    }
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()) {
        return Err(Failure::Other(format!("standard output: {error}")));
    }
    Ok(if checked == Some(false) { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn too_late(timeout: Option<Duration>, what: &str) -> ExitCode {
    fail(&format!("not {what} within {} s", timeout.unwrap_or_default().as_secs_f64()), 4)
}

/// Reads a system; `-` is standard input.
fn text(file: &Path) -> Result<String, Failure> {
    let is_input = file.as_os_str() == "-";
    let name = if is_input { "standard input".into() } else { file.to_string_lossy() };
    let failed = |error: std::io::Error| Failure::Other(format!("{name}: {error}"));
    let mut text = Vec::new();
    let read = if !is_input {
        File::open(file).and_then(|file| file.take(MOST_TEXT + 1).read_to_end(&mut text))
    } else if streams::was_closed(Stream::Input) {
        // What is open in its place is empty.
        Err(rustix::io::Errno::BADF.into())
    } else {
        std::io::stdin().lock().take(MOST_TEXT + 1).read_to_end(&mut text)
    };
    read.map_err(failed)?;
    if text.len() as u64 > MOST_TEXT {
        let most = MOST_TEXT >> 20;
        return Err(Failure::Other(format!("{name}: a system has at most {most} MiB of text")));
    }
    String::from_utf8(text).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::Other(format!("{name}: byte {} is not part of a text in UTF-8", at + 1))
    })
}

/// Ends the process at a deadline, unless it is dropped before: reading, a basis, a list of points
/// and a check are in this process, and cannot be interrupted.
struct TimeLimit {
    /// The thread that waits ends when this is dropped.
    _alive: Sender<()>,
}

impl TimeLimit {
    fn new(deadline: Option<Instant>, args: &Args, what: &'static str) -> TimeLimit {
        let (alive, wait) = mpsc::channel();
        let timeout = args.timeout;
        let end = move |deadline: Instant| {
            let left = deadline.saturating_duration_since(Instant::now());
            if wait.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                too_late(timeout, what);
                std::process::exit(4);
            }
        };
        if let Some(deadline) = deadline {
            std::thread::spawn(move || end(deadline));
        }
        TimeLimit { _alive: alive }
    }
}

/// A number with a noun in the right form.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn mode(args: &Args) -> Mode {
    match args.mode {
        Chains::Kalkbrener => Mode::Kalkbrener,
        Chains::Lazard => Mode::Lazard,
    }
}

/// The order of the variables that is asked for.
fn order(source: &Source<'_>, order: &str) -> Result<Vec<String>, SolveError> {
    let file = source.names().to_vec();
    Ok(match order {
        "file" => file,
        "reversed" => file.into_iter().rev().collect(),
        "auto" => {
            // Variables of low degree first: they are eliminated by small polynomials.
            let system = source.system(&file)?;
            let weight = |name: &String| {
                let index = file.iter().position(|other| other == name).unwrap_or_default();
                let level = file.len() - index;
                let degrees = system.equations.iter().map(|equation| equation.degree(level));
                let degrees = degrees.collect::<Vec<_>>();
                (degrees.iter().max().copied(), degrees.iter().sum::<usize>())
            };
            let mut names = file.clone();
            names.sort_by_key(weight);
            eprintln!("order of the variables: {}", names.join(","));
            names
        }
        names => names.split(',').map(|name| name.trim().to_owned()).collect(),
    })
}

/// Solves the system in this process or by workers.
fn solved(
    args: &Args,
    ring: &Ring,
    equations: &[Poly],
    nonzero: &[Poly],
    seed: u64,
    deadline: Option<Instant>,
) -> Result<(Solution, Option<Report>), SolveError> {
    let bar = if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(100));
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
    } else {
        ProgressBar::hidden()
    };
    let told = |progress: Progress| {
        bar.set_message(format!(
            "tasks: {} open, {} done; dimension {}; {} chains",
            progress.open, progress.done, progress.dimension, progress.solved
        ));
    };
    if args.workers == 1 && args.timeout.is_none() && args.memory.is_none() {
        let decomposer = mode(args).decomposer(ring, equations, nonzero).with_seed(seed);
        let solved = run(&decomposer, decomposer.first(), &mut { told });
        bar.set_message("components");
        let solution = solution(&decomposer, solved, mode(args), args.factor, &mut run_jobs);
        bar.finish_and_clear();
        return Ok((solution, None));
    }
    let codec = match args.wire {
        Wire::Kronecker => Codec::Kronecker,
        Wire::Terms => Codec::Terms,
        Wire::Flat => Codec::Flat,
    };
    let solver = Solver {
        workers: args.workers.into(),
        codec,
        scheme: match args.tasks {
            Tasks::Farmed => Scheme::Farmed,
            Tasks::Forked => Scheme::Forked,
            Tasks::Stolen => Scheme::Stolen,
        },
        mode: mode(args),
        factor: args.factor,
        timeout: deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        worker_memory: u64::from(args.memory.unwrap_or_default()) << 20,
        seed,
        ..Solver::default()
    };
    let outcome = solver.solve(ring, equations, nonzero, told);
    bar.finish_and_clear();
    outcome.map(|(solution, report)| (solution, Some(report)))
}

fn dimensions(solution: &Solution) -> Vec<usize> {
    solution.components.iter().map(|component| component.chain.dimension()).collect()
}

/// Describes the solution in words and chains.
fn describe(out: &mut String, args: &Args, ring: &Ring, solution: &Solution) {
    let count = solution.components.len();
    let _ = match (solution.dimension(), solution.points()) {
        (None, _) if args.nonzero.is_empty() => writeln!(out, "The system has no zeros."),
        (None, _) => {
            let excluded = args.nonzero.join(", ");
            writeln!(out, "The system has no zeros other than those of {excluded}.")
        }
        (Some(_), Some(points)) => {
            writeln!(
                out,
                "The system has {}, in {}.",
                counted(points, "zero"),
                counted(count, "chain")
            )
        }
        (Some(dimension), None) => {
            writeln!(out, "The zeros have dimension {dimension}, in {}.", counted(count, "chain"))
        }
    };
    if count > 0 && !args.nonzero.is_empty() {
        let _ = writeln!(out, "Without the zeros of {}.", args.nonzero.join(", "));
    }
    for (number, component) in solution.components.iter().enumerate() {
        let chain = &component.chain;
        let free = chain.free().map(|level| ring.name(level)).collect::<Vec<_>>();
        let _ = write!(
            out,
            "\n{}. dimension {}, degree {}",
            number + 1,
            chain.dimension(),
            solution.degrees[number]
        );
        if component.is_prime {
            out.push_str(", irreducible");
        } else if args.factor && (mode(args) == Mode::Kalkbrener || chain.dimension() == 0) {
            out.push_str(", perhaps reducible");
            if let Some(doubt) = component.doubt {
                let _ = write!(out, " ({})", doubt.told(ring));
            }
        }
        if !free.is_empty() {
            let _ = write!(out, "; free: {}", free.join(", "));
        }
        out.push('\n');
        for (_, member) in chain.members() {
            let _ = writeln!(out, "   {member}");
        }
    }
    if count > 0 {
        out.push('\n');
    }
}

/// The points with coordinates in Z/p, greatest variable first; `None` if the dimension is not 0.
fn rational_points(ring: &Ring, solution: &Solution) -> Option<Vec<Vec<u64>>> {
    solution.points()?;
    let n = ring.variables();
    let mut points = Vec::new();
    for component in &solution.components {
        // The least variable first.
        let mut partial = vec![Vec::new()];
        for (level, member) in component.chain.members() {
            partial = partial
                .iter()
                .flat_map(|known: &Vec<u64>| {
                    let special = known
                        .iter()
                        .enumerate()
                        .fold(member.as_ref().clone(), |p, (below, &value)| {
                            p.evaluate(below + 1, value)
                        });
                    roots(&special, level).into_iter().map(|root| {
                        let mut known = known.clone();
                        known.push(root);
                        known
                    })
                })
                .collect();
        }
        points.extend(partial.into_iter().filter(|point| point.len() == n).map(|mut point| {
            point.reverse();
            point
        }));
    }
    points.sort();
    Some(points)
}

/// The roots in Z/p of a polynomial in the variable of `level` alone.
fn roots(p: &Poly, level: usize) -> Vec<u64> {
    let prime = p.ring().prime();
    p.factor()
        .into_iter()
        .filter(|(factor, _)| factor.degree(level) == 1)
        .map(|(factor, _)| {
            let constant = factor.coefficients(level)[0].constant_value().unwrap_or_default();
            (prime - constant) % prime
        })
        .collect()
}
