//! `syncline verify`: checks of barriers, locks, memory, pools, overlays and sweeps on this
//! machine, in every place.
//!
//! The suites are those of `syncline_conformance`. This module chooses the teams in which they run,
//! and prints the results. The processes of a team run this command again (`--session`).

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use syncline_common::signals::Signals;
use syncline_common::terminal;
use syncline_conformance::{Subject, Suite, TeamKind};
use syncline_fabric::Team;

use crate::args::{Places, VerifyArgs};
use crate::error::{Error, Result};
use crate::watch;

impl From<Places> for TeamKind {
    fn from(places: Places) -> TeamKind {
        match places {
            Places::Threads => TeamKind::Threads,
            Places::Processes => TeamKind::Processes,
            Places::Both => TeamKind::Both,
            Places::Hosts => TeamKind::Hosts,
        }
    }
}

/// `syncline verify`; returns the text to print.
pub(crate) fn run(subject: Subject, args: &VerifyArgs, signals: &Signals) -> Result<String> {
    let rounds = args.rounds.unwrap_or(match (subject, args.quick) {
        (Subject::Sweep, true) => 10,
        (Subject::Sweep, false) => 100,
        (_, true) => 400,
        (_, false) => 10_000,
    });
    let suite = Suite { subject, rounds, only: args.only.clone() };
    if suite.names().is_empty() {
        let names = subject.names().join(", ");
        return Err(Error::Usage(format!(
            "no {} has such a name; there are: {names}",
            subject.word()
        )));
    }
    let launched = syncline_mpi::launched::launched_with_others();
    let joins =
        std::env::var_os("SYNCLINE_TEAM").is_some() || launched.is_some() && subject.is_far();
    if args.session || joins {
        // One of the processes of a team: the environment names its members.
        // It looks at no signals.
        return signals.while_joining(|| here(&suite, !args.session));
    }
    let places = match args.places.as_slice() {
        [] => TeamKind::all(subject),
        some => some.iter().map(|&place| place.into()).collect(),
    };
    let counts = args.members.0.clone();
    let bar = terminal::bar("{msg} [{wide_bar}] {pos} of {len} teams");
    bar.set_message(format!("verifying {}s", subject.word()));
    bar.set_length((counts.len() * places.len()) as u64);
    let watched = bar.clone();
    let work = move || {
        let start = Instant::now();
        for &members in &counts {
            for &place in &places {
                suite.run(place, members, &again(&suite))?;
                watched.inc(1);
            }
        }
        Ok(table(&suite, &places, &counts, start.elapsed()))
    };
    watch::watch(signals, &bar, |_| (), work)
}

/// Runs all algorithms in the team of the environment, and in the teams that remain after a
/// failure. With `tell`, the first member reports the results.
fn here(suite: &Suite, tell: bool) -> Result<String> {
    let start = Instant::now();
    let told = Team::run_shrinking(|me| {
        let (size, hosts) = (me.size(), me.hosts().count());
        let servers = match me.hosts().servers().len() {
            several if several > hosts => format!(" with {several} servers"),
            _ => String::new(),
        };
        let transport = me.endpoint().map(|endpoint| format!(", by {}", endpoint.transport()));
        let between = servers + &transport.unwrap_or_default();
        let first = me.rank() == 0 && tell;
        if first {
            // Printed before anything can fail. A missing reader is no error.
            let _ =
                writeln!(std::io::stdout(), "verifying {size} members on {hosts} hosts{between}");
        }
        suite.session(me)?;
        let (names, rounds, seconds) =
            (suite.names().join(", "), suite.rounds, start.elapsed().as_secs_f64());
        let text = format!(
            "{names}: {rounds} rounds ok, {size} members on {hosts} hosts{between}, {seconds:.1} seconds"
        );
        Ok(first.then_some(text))
    })?;
    let told = told.into_iter().collect::<Result<Vec<_>, String>>().map_err(Error::Refuted)?;
    Ok(told.into_iter().flatten().next().unwrap_or_default())
}

/// Returns the arguments of this command as a process of a team.
fn again(suite: &Suite) -> Vec<String> {
    let mut args =
        vec!["verify".to_owned(), suite.subject.word().to_owned(), "--session".to_owned()];
    args.extend(["--rounds".to_owned(), suite.rounds.to_string()]);
    args.extend(suite.only.iter().flat_map(|only| ["--only".to_owned(), only.clone()]));
    args
}

fn table(suite: &Suite, places: &[TeamKind], counts: &[usize], took: Duration) -> String {
    let names = suite.names();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}", suite.subject.word());
    for place in places {
        let _ = write!(text, "  {:>12}", place.word());
    }
    for name in &names {
        let _ = write!(text, "\n{name:width$}");
        for _ in places {
            let _ = write!(text, "  {:>12}", format!("{} ok", suite.rounds * counts.len() as u64));
        }
    }
    let counts = counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let promise = match suite.subject {
        Subject::Barrier => {
            "All values were there, every round was over before the next, and no member skipped one."
        }
        Subject::Lock => {
            "One at a time held each lock, no change was lost, and all got it in the order in which they asked."
        }
        Subject::Rma => {
            "Memory was as simulated, no member read what was stale, and nothing was done twice or not at all."
        }
        Subject::Farm => "Every task has ended once, with its result.",
        Subject::Sweep => "Each sweep had the result of the plain double loop, bit for bit.",
        Subject::Overlay => "Each overlay had the results of its run in one thread, bit for bit.",
    };
    let _ = write!(
        text,
        "\n\nRounds, with {counts} members. {promise}\n{:.1} seconds; in `both` the members are as many processes as threads \
         or fewer.",
        took.as_secs_f64()
    );
    text
}
