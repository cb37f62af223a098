//! The environment variables of a team.
//!
//! | variable            | set by    | meaning                                                    |
//! |---------------------|-----------|------------------------------------------------------------|
//! | `SYNCLINE_TEAM`     | launchers | the descriptors of a team, and this process's place in it  |
//! | `SYNCLINE_THREADS`  | users     | the threads of a team without a launcher                   |
//! | `SYNCLINE_QUIET`    | users     | `1`: no warning when members outnumber cores               |
//! | `SYNCLINE_MEMORY`   | users     | the most bytes that the members of a host share: `4G`      |
//! | `SYNCLINE_PER_HOST` | users     | under MPI, the processes of a host that share memory       |
//! | `SYNCLINE_SERVERS`  | users     | the processes of a host that serve other hosts             |
//! | `SYNCLINE_TIMEOUT`  | users     | the milliseconds of silence after which a host is dead     |
//! |                     |           | (10 000)                                                   |

use std::os::fd::RawFd;
use std::time::Duration;

use syncline_mpi::outside::leave_rank;
use syncline_process::Spawn;
use syncline_process::inherit::{DESCRIPTOR, Told};
use syncline_sync::membership::MAX_MEMBERS;

use crate::error::TeamError;

/// Set by launchers. Must not be passed to a program that a member starts.
pub(crate) const TEAM: &str = "SYNCLINE_TEAM";
const THREADS: &str = "SYNCLINE_THREADS";
const QUIET: &str = "SYNCLINE_QUIET";
const TIMEOUT: &str = "SYNCLINE_TIMEOUT";
const MEMORY: &str = "SYNCLINE_MEMORY";
const PER_HOST: &str = "SYNCLINE_PER_HOST";
const SERVERS: &str = "SYNCLINE_SERVERS";

/// The fields of `SYNCLINE_TEAM`. Raise the version with any change of the layout of a team's
/// memory.
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

/// Makes a process that is about to be started a member of no team: removes what a launcher has set
/// for this process, be it one of Syncline ([`Launcher`](crate::Launcher)) or of MPI
/// ([`leave_rank`]).
///
/// Must be called before variables of such names are set on purpose.
pub fn leave_team(spawn: &mut Spawn<'_>) {
    leave_rank(spawn);
    spawn.env_remove(TEAM);
}

/// The shape of a team: every process has the same number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    /// The number of cores that the team runs on, as seen by the process that made the team.
    pub(crate) cores: usize,
}

impl Shape {
    /// Creates the shape of a team on the cores that this process may use.
    pub(crate) fn here(processes: usize, threads: usize) -> Result<Shape, TeamError> {
        let wrong = TeamError::Members { processes, threads };
        let members =
            processes.checked_mul(threads).filter(|members| (1..=MAX_MEMBERS).contains(members));
        members.ok_or(wrong).map(|_| Shape { processes, threads, cores: cores() })
    }

    pub(crate) fn members(self) -> usize {
        self.processes * self.threads
    }

    /// Returns the ranks of a process.
    pub(crate) fn ranks(self, process: usize) -> std::ops::Range<usize> {
        process * self.threads..(process + 1) * self.threads
    }

    /// Warns if members outnumber cores. Called once per team, by the process that makes it.
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

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads and parses a variable, if it is set.
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

/// Returns the number of threads of a process, if it is set.
pub(crate) fn threads() -> Result<Option<usize>, TeamError> {
    read(THREADS, || format!("a number of threads from 1 to {MAX_MEMBERS}"), count)
}

/// Returns how many processes of a host share memory, if it is set. Further processes of the host
/// are treated as processes of other hosts.
pub(crate) fn per_host() -> Result<Option<usize>, TeamError> {
    read(PER_HOST, || format!("a number of processes from 1 to {MAX_MEMBERS}"), count)
}

/// Returns how many processes of a host serve other hosts.
pub(crate) fn servers() -> Result<usize, TeamError> {
    let said = read(SERVERS, || format!("a number of processes from 1 to {MAX_MEMBERS}"), count)?;
    Ok(said.unwrap_or(1))
}

/// Returns how much memory the members of a host share, if it is set.
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

/// Returns the silence after which another host is dead. A debugger or SIGSTOP may stop a process
/// for seconds; the end of a process is detected in other ways, and at once.
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
    /// Returns the place that a launcher gave to this process, or `None` if none did.
    pub(crate) fn from_environment() -> Result<Option<Inherited>, TeamError> {
        let Some(value) = std::env::var_os(TEAM) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        match Inherited::parse(&value) {
            Ok(place) => Ok(Some(place)),
            Err(why) => Err(TeamError::Variable { variable: TEAM, value, why }),
        }
    }

    /// Returns the value of `SYNCLINE_TEAM` for this place.
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
