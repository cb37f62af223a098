//! The guard: a process that kills what is left when its keeper is killed.
//!
//! # Contract
//! The keeper starts process groups by its guard. When the keeper has ended, however it has, all
//! groups that began and did not end are killed (SIGKILL). The programs need not know of it, and
//! may close every descriptor that they have; so it holds also for those to which a
//! [`Lifeline`](crate::lifeline::Lifeline) could not be handed.
//!
//! ```text
//!   keeper                       memory without a name, a word a group        guard, in a group of its own
//!                                0      none
//!   start: the word, then exec   1      a group begins: found by its mark     reads a pipe until its end:
//!          the number            1234   group 1234                            the keeper has ended
//!   finish: group killed, word   0                                            then kills what the words say
//!           then collected
//! ```
//! The word is cleared *before* the leader is collected, as from then on the number may be another's.
//! A group that ends by itself between the keeper's end and the kill leaves its number free; Linux
//! does not give it to another before it has gone round.
//!
//! # Costs
//! A start: two writes of four bytes into memory, and a look whether the guard lives; an end: one.
//! The guard sleeps until the keeper has ended.

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

/// How long the guard may take to end, and to look for a group that has just begun.
const PATIENCE: Duration = Duration::from_secs(10);

/// A word: no group.
const NONE: u32 = 0;
/// A word: a group begins. Number 1 is no group's that a keeper starts.
const BEGINS: u32 = 1;

/// The keeper's end of the guard. When it is dropped, the groups that have not ended are killed.
#[derive(Debug)]
pub struct Guard {
    process: GroupLeader,
    /// `None` once it is over.
    line: Option<OwnedFd>,
    words: OwnedFd,
    /// Words that were used and are free, and how many were used.
    free: Vec<u32>,
    used: u32,
    mark: EnvironmentMark,
}

/// A process group that the guard knows, and whose leader was not collected.
#[derive(Debug)]
pub struct Guarded {
    /// The leader of the group.
    pub leader: GroupLeader,
    word: u32,
}

/// Why a group did not begin.
#[derive(Debug)]
pub enum Unstarted {
    /// This process could not be started.
    Process(io::Error),
    /// No process may be, as nothing would guard it.
    Guard(io::Error),
}

impl Guard {
    /// Starts a guard. `program` is this very program, in a way in which it calls [`serve`] with the
    /// same mark; `variable` is the mark's.
    ///
    /// # Errors
    /// What the system says.
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

    /// Starts a process as the leader of a group that the guard knows.
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

    /// Collects the leader of a group, when it has exited, and kills what is left of the group. Waits
    /// until it has.
    ///
    /// # Errors
    /// What the system says: the leader was collected by other code of this process.
    pub fn finish(&mut self, group: Guarded) -> io::Result<ExitStatus> {
        let Guarded { leader, word } = group;
        let mut written = None;
        let status = leader.collect_after(|| written = Some(self.write(word, NONE)));
        // Else the group may live, and the guard is to know of it.
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
        // Stopped by another process, it is left to itself: it ends when it goes on.
        let until = Instant::now() + PATIENCE;
        if self.process.wait_exit(Some(until)) {
            let _ = self.process.try_collect();
        }
    }
}

/// What the guard does: waits until its keeper has ended, and kills what is left.
///
/// Called in the program that [`Guard::start`] was given, which has the pipe as its standard input and
/// the words as its standard error: it must print nothing there.
///
/// # Errors
/// The words cannot be read.
pub fn serve(mark: &EnvironmentMark) -> io::Result<()> {
    let (line, table) = (io::stdin(), io::stderr());
    // What cannot be read any more is over, too; a signal is not the end.
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

/// Whether a group begins, and the groups that there are.
fn left(words: &[u8]) -> (bool, Vec<Pid>) {
    let (words, _) = words.as_chunks();
    let words = || words.iter().map(|&word| u32::from_ne_bytes(word));
    // Group 1 is not one to kill, whatever was read.
    let groups = words()
        .filter(|&word| word > BEGINS)
        .filter_map(|word| Pid::from_raw(word.try_into().ok()?));
    (words().any(|word| word == BEGINS), groups.collect())
}

/// One that is gone is no error.
fn kill(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

/// Does something to each group whose first process has that mark. One that leads a session has
/// left its keeper on purpose.
///
/// A process that is started holds the guard's pipe until it has its own program, but gets its
/// environment a moment later: so this looks again while there is a process without one.
fn kill_marked(mark: &EnvironmentMark, mut each: impl FnMut(Pid)) {
    let leads = |process: &Process| {
        let number = process.pid.as_raw_pid();
        process.group == number && process.session != number
    };
    let until = Instant::now() + PATIENCE;
    // One may have been started without an environment.
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
        // It is found at once, though it may not have its environment yet.
        let mut found = HashSet::new();
        kill_marked(&mark, |group| {
            found.insert(group);
        });
        assert_eq!(found, [group].into());
        kill(group);
        assert!(!leader.collect().unwrap().success());
    }
}
