//! A guard process that kills the remaining process groups when its keeper is killed.
//!
//! # Contract
//! The keeper starts process groups through its guard. When the keeper has ended, for whatever
//! reason, all groups that began and did not end are killed (SIGKILL). The programs need no support
//! for this, and may close every descriptor that they have; so it also covers programs to which a
//! [`Lifeline`](crate::lifeline::Lifeline) could not be passed.
//!
//! ```text
//!   keeper                      anonymous memory, a word per group    guard, in a group of its own
//!                               0      none
//!   start: the word, then exec  1      a group begins: found by mark  reads a pipe until its end:
//!          the number           1234   group 1234                     the keeper has ended
//!   finish: group killed, word  0                                     then kills by the words
//!           then collected
//! ```
//! The word is cleared *before* the leader is collected, as the number may be reused from then on.
//! A group that ends by itself between the keeper's end and the kill leaves its number free; Linux
//! does not reuse the number before it has gone through all others.
//!
//! # Costs
//! A start: two writes of four bytes into memory, and a check whether the guard is alive; an end:
//! one write. The guard sleeps until the keeper has ended.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{
    GroupLeader, Spawn,
    mark::{EnvironmentMark, Process},
};

/// The time limit for the guard to end, and for its search for a group that has just begun.
const PATIENCE: Duration = Duration::from_secs(10);

/// A word: no group.
const NONE: u32 = 0;
/// A word: a group begins. No group that a keeper starts has the number 1.
const BEGINS: u32 = 1;

/// The keeper's side of the guard. When it is dropped, the groups that have not ended are killed.
#[derive(Debug)]
pub struct Guard {
    process: GroupLeader,
    /// The write end of the guard's pipe; `None` once it has been closed.
    line: Option<OwnedFd>,
    words: OwnedFd,
    /// Words that were used and are free. `used` is the number of words ever used.
    free: Vec<u32>,
    used: u32,
    mark: EnvironmentMark,
}

/// A process group that the guard has registered, and whose leader has not been collected.
#[derive(Debug)]
pub struct Guarded {
    /// The leader of the group.
    pub leader: GroupLeader,
    word: u32,
}

/// The reason why a group was not started.
#[derive(Debug)]
pub enum Unstarted {
    /// This process could not be started.
    Process(io::Error),
    /// No process can be started, as nothing would guard it.
    Guard(io::Error),
}

impl Guard {
    /// Starts a guard. `program` must run this same program in a mode in which it calls [`serve`]
    /// with the same mark; `variable` is the environment variable of the mark.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn start(
        variable: &'static str,
        program: impl FnOnce(&EnvironmentMark) -> Spawn<'static>,
    ) -> io::Result<Guard> {
        let mark = EnvironmentMark::new(variable);
        let nothing = File::options().write(true).open("/dev/null")?;
        let words = rustix::fs::memfd_create(c"syncline guard", MemfdFlags::CLOEXEC)?;
        let (end, line) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let mut program = program(&mark);
        let program =
            program.stream(0, end.as_fd()).stream(1, nothing.as_fd()).stream(2, words.as_fd());
        let process = program.start_group()?;
        Ok(Guard { process, line: Some(line), words, free: Vec::new(), used: 0, mark })
    }

    /// Starts a process as the leader of a group, and registers the group with the guard.
    ///
    /// # Errors
    /// [`Unstarted`]: this process cannot be started, or the guard is gone.
    pub fn spawn(&mut self, spawn: &mut Spawn<'_>) -> Result<Guarded, Unstarted> {
        if self.process.has_exited() {
            return Err(Unstarted::Guard(io::Error::other("it was killed")));
        }
        let word = self.free.pop().unwrap_or(self.used);
        self.used = self.used.max(word + 1);
        self.write(word, BEGINS).map_err(Unstarted::Guard)?;
        self.mark.put_on(spawn);
        let started = spawn.start_group();
        let number = started.as_ref().map_or(NONE, GroupLeader::id);
        let written = self.write(word, number).map_err(Unstarted::Guard);
        match (started, written) {
            (Ok(leader), Ok(())) => Ok(Guarded { leader, word }),
            (Ok(leader), Err(why)) => {
                leader.send(libc::SIGKILL);
                let _ = leader.collect();
                Err(why)
            }
            (Err(error), written) => {
                self.free.push(word);
                written.and(Err(Unstarted::Process(error)))
            }
        }
    }

    /// Blocks until the leader of a group has exited, kills the rest of the group, and collects the
    /// leader.
    ///
    /// # Errors
    /// Returns the system's error: the leader was collected by other code of this process.
    pub fn finish(&mut self, group: Guarded) -> io::Result<ExitStatus> {
        let Guarded { leader, word } = group;
        let mut written = None;
        let status = leader.collect_after(|| written = Some(self.write(word, NONE)));
        // Otherwise the group may still be alive, and its word must stay.
        if let Some(Ok(())) = &written {
            self.free.push(word);
        }
        written.unwrap_or(Ok(())).and(status)
    }

    fn write(&self, word: u32, value: u32) -> io::Result<()> {
        let at = u64::from(word) * size_of::<u32>() as u64;
        rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.words, &value.to_ne_bytes(), at))?;
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.line.take());
        // A guard that another process has stopped is not waited for: it ends when it is continued.
        let until = Instant::now() + PATIENCE;
        if self.process.wait_exit(Some(until)) {
            let _ = self.process.try_collect();
        }
    }
}

/// Runs the guard: waits until its keeper has ended, and kills the remaining groups.
///
/// Must be called in the program that [`Guard::start`] was given, which has the pipe as its
/// standard input and the words as its standard error: it must not print to standard error.
///
/// # Errors
/// Returns the system's error if the words cannot be read.
pub fn serve(mark: &EnvironmentMark) -> io::Result<()> {
    let (line, table) = (io::stdin(), io::stderr());
    // A read error ends the wait as well; an interrupting signal does not.
    while rustix::io::retry_on_intr(|| rustix::io::read(&line, &mut [0; 64]))
        .is_ok_and(|read| read > 0)
    {}
    let mut words = vec![0; rustix::fs::fstat(&table)?.st_size as usize];
    let mut filled = 0;
    while filled < words.len() {
        match rustix::io::retry_on_intr(|| {
            rustix::io::pread(&table, &mut words[filled..], filled as u64)
        })? {
            0 => break,
            read => filled += read,
        }
    }
    let (begins, groups) = left(&words[..filled]);
    for group in groups {
        kill(group);
    }
    if begins {
        kill_marked(mark, kill);
    }
    Ok(())
}

/// Returns whether a group is beginning, and the groups that exist.
fn left(words: &[u8]) -> (bool, Vec<Pid>) {
    let (words, _) = words.as_chunks();
    let words = || words.iter().map(|&word| u32::from_ne_bytes(word));
    // Group 1 must never be killed, whatever was read.
    let groups = words()
        .filter(|&word| word > BEGINS)
        .filter_map(|word| Pid::from_raw(word.try_into().ok()?));
    (words().any(|word| word == BEGINS), groups.collect())
}

/// Kills a group. A group that is gone is no error.
fn kill(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

/// Calls `each` for every process that leads its group, leads no session, and has the mark. A
/// process that leads a session has left its keeper on purpose.
///
/// A process that is being started holds the guard's pipe until its exec, but gets its environment
/// a moment later: so the search is repeated while there is a process without an environment.
fn kill_marked(mark: &EnvironmentMark, mut each: impl FnMut(Pid)) {
    let leads = |process: &Process| {
        let number = process.pid.as_raw_pid();
        process.group == number && process.session != number
    };
    let until = Instant::now() + PATIENCE;
    // The time limit is for a process that was started with an empty environment.
    while mark.find(leads, |process| each(process.pid)) && Instant::now() <= until {
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_left() {
        let bytes =
            |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let pid = |number| Pid::from_raw(number).unwrap();
        assert_eq!(left(&bytes(&[0, 100, 0, 200])), (false, vec![pid(100), pid(200)]));
        assert_eq!(left(&bytes(&[0, 1, u32::MAX])), (true, vec![]));
        // A keeper that is killed in the middle of a write leaves no part of a word.
        assert_eq!(left(&bytes(&[7])[..3]), (false, vec![]));
        assert_eq!(left(&[]), (false, vec![]));
    }

    #[test]
    fn a_group_is_found_by_its_mark() {
        let mark = EnvironmentMark::new("SYNCLINE_TEST_GUARD");
        let mut spawn = Spawn::new("sh");
        mark.put_on(spawn.args(["-c", "sleep 4000 & wait"]));
        let leader = spawn.start_group().unwrap();
        let group = Pid::from_raw(leader.id().try_into().unwrap()).unwrap();
        // The search finds the group at once, though it may not have its environment yet.
        let mut found = HashSet::new();
        kill_marked(&mark, |group| {
            found.insert(group);
        });
        assert_eq!(found, [group].into());
        kill(group);
        assert!(!leader.collect().unwrap().success());
    }
}
