//! What the environment says of a team.
//!
//! | variable           | set by     | says                                                                   |
//! |--------------------|------------|------------------------------------------------------------------------|
//! | `SYNCLINE_TEAM`    | launchers  | the descriptors of a team, and this process's place in it               |
//! | `SYNCLINE_THREADS` | people     | how many threads a team has when nobody launched it                    |
//! | `SYNCLINE_QUIET`   | people     | `1`: no warning when members outnumber cores                           |
//! | `SYNCLINE_MEMORY`  | people     | how many bytes the members of a host share at most: `4G`               |
//! | `SYNCLINE_PER_HOST`| people     | how many processes of a host share memory, under MPI                   |
//! | `SYNCLINE_SERVERS` | people     | how many processes of a host serve other hosts                         |
//! | `SYNCLINE_TIMEOUT` | people     | after how many milliseconds of silence a host is dead (10 000)         |

use std::os::fd::RawFd;
use std::time::Duration;

use syncline_process::inherit::{DESCRIPTOR, Told};
use syncline_sync::membership::MAX_MEMBERS;

use crate::error::TeamError;

/// Set by launchers. A program that a member starts must not be given it.
pub(crate) const TEAM: &str = "SYNCLINE_TEAM";
const THREADS: &str = "SYNCLINE_THREADS";
const QUIET: &str = "SYNCLINE_QUIET";
const TIMEOUT: &str = "SYNCLINE_TIMEOUT";
const MEMORY: &str = "SYNCLINE_MEMORY";
const PER_HOST: &str = "SYNCLINE_PER_HOST";
const SERVERS: &str = "SYNCLINE_SERVERS";

/// What `SYNCLINE_TEAM` says. The version is to be raised with any change of what stands in the memory of a team.
const TOLD: Told<6> = Told {
    by: "launcher",
    version: 4,
    fields: [
        ("segment", DESCRIPTOR),
        ("lifeline", DESCRIPTOR),
        ("process", 0..=MAX_MEMBERS as u64 - 1),
        ("processes", 1..=MAX_MEMBERS as u64),
        ("threads", 1..=MAX_MEMBERS as u64),
        ("cores", 1..=u64::MAX),
    ],
};

/// The shape of a team: every process has as many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    /// On how many cores they run, as whoever made the team saw it.
    pub(crate) cores: usize,
}

impl Shape {
    /// A team on the cores that this process may use.
    pub(crate) fn here(processes: usize, threads: usize) -> Result<Shape, TeamError> {
        let wrong = TeamError::Members { processes, threads };
        let members =
            processes.checked_mul(threads).filter(|members| (1..=MAX_MEMBERS).contains(members));
        members.ok_or(wrong).map(|_| Shape { processes, threads, cores: cores() })
    }

    pub(crate) fn members(self) -> usize {
        self.processes * self.threads
    }

    /// The ranks of a process.
    pub(crate) fn ranks(self, process: usize) -> std::ops::Range<usize> {
        process * self.threads..(process + 1) * self.threads
    }

    /// Says so if members outnumber cores. Called once for a team, by whoever makes it.
    pub(crate) fn warn(self) {
        let Shape { cores, .. } = self;
        let members = self.members();
        if members > cores && std::env::var_os(QUIET).is_none_or(|quiet| quiet != "1") {
            let plural = if cores == 1 { "" } else { "s" };
            crate::say(format_args!(
                "{members} members share {cores} core{plural}: they take turns, and every wait takes longer; run at most \
                 {cores} (processes times threads), give the program more cores, or silence this by {QUIET}=1"
            ));
        }
    }
}

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a variable says, if it is set.
fn read<T>(
    variable: &'static str,
    expected: impl FnOnce() -> String,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, TeamError> {
    let Some(value) = std::env::var_os(variable) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match parse(value.trim()) {
        Some(said) => Ok(Some(said)),
        None => {
            Err(TeamError::Variable { variable, value, why: format!("expected {}", expected()) })
        }
    }
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| (1..=MAX_MEMBERS).contains(count))
}

/// How many threads a process has, if somebody says so.
pub(crate) fn threads() -> Result<Option<usize>, TeamError> {
    read(THREADS, || format!("a number of threads from 1 to {MAX_MEMBERS}"), count)
}

/// How many processes of a host share memory: the others are as if they were on other hosts.
pub(crate) fn per_host() -> Result<Option<usize>, TeamError> {
    read(PER_HOST, || format!("a number of processes from 1 to {MAX_MEMBERS}"), count)
}

/// How many processes of a host serve others.
pub(crate) fn servers() -> Result<usize, TeamError> {
    let said = read(SERVERS, || format!("a number of processes from 1 to {MAX_MEMBERS}"), count)?;
    Ok(said.unwrap_or(1))
}

/// How much memory the members of a host share, if somebody says so.
pub(crate) fn memory() -> Result<Option<usize>, TeamError> {
    read(
        MEMORY,
        || "bytes, as 500M or 4G".to_owned(),
        |text| {
            let (digits, shift) = match text.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't'])
            {
                Some(digits) => {
                    (digits, 10 * (1 + "KMGT".find(text.to_uppercase().chars().last()?)?))
                }
                None => (text, 0),
            };
            digits.parse::<usize>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
        },
    )
}

/// After how long a silence another host is dead. A debugger, or SIGSTOP, may well stop a process
/// for seconds; that a process has ended is seen otherwise, and at once.
pub(crate) fn timeout() -> Result<Duration, TeamError> {
    let said = read(
        TIMEOUT,
        || "milliseconds, from 50 to a day".to_owned(),
        |text| text.parse().ok().filter(|milliseconds| (50..=86_400_000).contains(milliseconds)),
    );
    Ok(Duration::from_millis(said?.unwrap_or(10_000)))
}

/// The place of a launched process in its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) shape: Shape,
    pub(crate) process: usize,
    /// The descriptor of the team's memory.
    pub(crate) segment: RawFd,
    /// The descriptor of the lifeline's end.
    pub(crate) lifeline: RawFd,
}

impl Inherited {
    /// The place that a launcher gave to this process, if one did.
    pub(crate) fn from_environment() -> Result<Option<Inherited>, TeamError> {
        let Some(value) = std::env::var_os(TEAM) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        match Inherited::parse(&value) {
            Ok(place) => Ok(Some(place)),
            Err(why) => Err(TeamError::Variable { variable: TEAM, value, why }),
        }
    }

    /// What `SYNCLINE_TEAM` is set to.
    pub(crate) fn value(&self) -> String {
        let Inherited { shape: Shape { processes, threads, cores }, process, segment, lifeline } =
            *self;
        let descriptor = |fd: RawFd| u64::from(fd.unsigned_abs());
        let numbers = [process, processes, threads, cores].map(|number| number as u64);
        let [process, processes, threads, cores] = numbers;
        TOLD.write([descriptor(segment), descriptor(lifeline), process, processes, threads, cores])
    }

    fn parse(value: &str) -> Result<Inherited, String> {
        let [segment, lifeline, rest @ ..] = TOLD.read(value)?;
        let [process, processes, threads, cores] = rest.map(|number| number as usize);
        if process >= processes {
            return Err(format!("there is no process {process} among {processes}"));
        }
        if processes * threads > MAX_MEMBERS {
            return Err(format!(
                "{processes} processes x {threads} threads are more than {MAX_MEMBERS} members"
            ));
        }
        let shape = Shape { processes, threads, cores };
        Ok(Inherited { shape, process, segment: segment as RawFd, lifeline: lifeline as RawFd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version=4 segment=5 lifeline=6 process=3 processes=4 threads=2 cores=8";

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let shape = Shape { processes: 4, threads: 2, cores: 8 };
        let place = Inherited { shape, process: 3, segment: 5, lifeline: 6 };
        assert_eq!((place.value().as_str(), Inherited::parse(GOOD)), (GOOD, Ok(place)));
        assert_eq!((shape.members(), shape.ranks(3)), (8, 6..8));
    }

    #[test]
    fn an_impossible_place_is_named() {
        let cases = [
            ("process=3", "process=4", "there is no process 4 among 4"),
            ("threads=2", "threads=0", "threads is \"0\", not a number from 1 to 4096"),
            ("threads=2", "threads=2000", "4 processes x 2000 threads are more than 4096 members"),
        ];
        for (from, to, why) in cases {
            let value = GOOD.replace(from, to);
            let found = Inherited::parse(&value).unwrap_err();
            assert!(found.starts_with(why), "{value}: {found}");
        }
    }

    #[test]
    fn the_number_of_members_has_bounds() {
        assert_eq!(Shape::here(64, 64).unwrap().members(), 4096);
        for (processes, threads) in [(0, 1), (1, 0), (64, 65), (usize::MAX, 2)] {
            let error = Shape::here(processes, threads).unwrap_err().to_string();
            assert!(
                error.contains(&format!("not {processes} processes x {threads} threads")),
                "{error}"
            );
        }
    }
}
