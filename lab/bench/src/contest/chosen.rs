//! Races of few contenders, for other commands than `bench`.

use std::path::Path;

use super::{Contest, ContestArgs, Subject};
use crate::error::Result;
use crate::race::{Options, Pace};
use crate::stop::Signals;

/// Races the contenders of these names, back to back, and returns the race.
///
/// # Errors
/// Those of a race.
pub(crate) fn race_of(
    subject: &'static Subject,
    only: &[&str],
    members: &[usize],
    (rounds, milliseconds): (usize, usize),
    folder: &Path,
    signals: &Signals,
) -> Result<Contest> {
    let options = Options { quick: false, json: false, rounds: Some(rounds) };
    let members = members.iter().map(|&n| n as u16).collect();
    let args = ContestArgs { options, members, milliseconds: Some(milliseconds) };
    let mut contest = Contest::new(&args, subject);
    contest.cells.retain(|cell| cell.work_ns == 0.0);
    let contenders = contest.contenders(folder, |name| only.contains(&name))?;
    contest.race(contenders, Pace::exactly(rounds), signals)?;
    Ok(contest)
}

impl Contest {
    /// Returns the names of the ways that could not be raced, with the reasons.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = String> + '_ {
        self.skipped.iter().map(|skipped| format!("{}: {}", skipped.way, skipped.why))
    }
}
