//! Contenders that are processes: each reads what to run from its standard input, a line a run, and
//! answers with a line.
//!
//! ```text
//! RUN MEMBERS MILLISECONDS WORK_NS    ->    NS AS_WANTED [SHARE...]
//! ```
//!
//! NS is of wall time per episode, without the work, or per lock and unlock; AS_WANTED is 1 if each
//! member has a processor of its own, where there is one for each; a SHARE is how often a member
//! had the lock. Between runs such a process does nothing, and it ends when its input does.
//! `lab/peers/members.h` is the other side, and `member`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::super::peers::{Workshop, failed};
use super::contend::fairness;
use super::{Bout, Contender, Field, How, Measured, Side};
use crate::error::Result;

/// A peer in C or C++.
#[derive(Debug)]
pub(crate) struct Source {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What compiles it.
    pub(crate) compiler: &'static str,
    /// Its file, and the text of that.
    pub(crate) file: (&'static str, &'static str),
    /// How it is compiled.
    pub(crate) flags: &'static [&'static str],
    /// The argument that it is started with, if any.
    pub(crate) form: &'static [&'static str],
    /// What is added to its environment.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// What the sources include.
const HEADERS: [(&str, &str); 2] = [
    ("members.h", include_str!("../../../peers/members.h")),
    ("barrier.h", include_str!("../../../peers/barrier.h")),
];

/// What would change how OpenMP waits.
const OPENMP: [&str; 3] = ["OMP_", "GOMP_", "KMP_"];

/// Compiles what can be compiled into `folder`, and starts it.
pub(crate) fn start(folder: &Path, sources: &'static [Source], field: &mut Field) -> Result<()> {
    let mut workshop = Workshop::new(folder, &HEADERS)?;
    for source in sources {
        match workshop.program(source.compiler, source.file, source.flags)? {
            Ok(program) => {
                let mut command = Command::new(program);
                for (name, _) in std::env::vars_os() {
                    if OPENMP.iter().any(|openmp| name.to_string_lossy().starts_with(openmp)) {
                        command.env_remove(name);
                    }
                }
                command.args(source.form).envs(source.environment.iter().copied());
                field.contenders.push(Contender::process(source.name, Side::Peer, command)?);
            }
            Err(why) => field.skipped.push((source.name, why)),
        }
    }
    Ok(())
}

/// A process that runs when it is asked to.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    asked: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Contender {
    /// One that is a process, which the command starts.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn process(name: &'static str, side: Side, mut command: Command) -> Result<Self> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| failed(&format!("start {name}"), error))?;
        let (Some(asked), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&format!("start {name}"), "it has no pipes"));
        };
        let peer = Peer { child, asked, said: BufReader::new(said) };
        Ok(Self { name, side, how: How::Process(peer), fits: |_| true })
    }
}

impl Peer {
    /// Runs once.
    ///
    /// # Errors
    /// When it ends, or says something else than what was measured.
    pub(crate) fn run(&mut self, bout: &Bout<'_>) -> Result<Measured, String> {
        let Bout { members, work_ns, time, .. } = bout;
        let mut line = String::new();
        let asked = writeln!(self.asked, "RUN {members} {} {work_ns}", time.as_secs_f64() * 1e3);
        let said = asked.and_then(|()| self.said.read_line(&mut line));
        match said {
            Ok(0) => Err("it ended".to_owned()),
            Ok(_) => parse(&line).ok_or_else(|| format!("it said {:?}", line.trim_end())),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and need not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Option<Measured> {
    let mut words = line.split_whitespace();
    let ns = words.next()?.parse().ok()?;
    let pinned = words.next()? == "1";
    let shares: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
    Some(Measured { ns, pinned, fairness: fairness(&shares?) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::places::Places;
    use super::*;

    #[test]
    fn answers_are_understood_and_others_told() {
        let places = Places::none();
        let bout = Bout { places: &places, members: 3, work_ns: 500.0, time: Duration::from_micros(2500) };
        let said = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            match Contender::process("sh", Side::Peer, command).unwrap().how {
                How::Process(mut peer) => peer.run(&bout),
                How::Inside(_) => unreachable!(),
            }
        };
        let measured = said("read line; [ \"$line\" = 'RUN 3 2.5 500' ] && echo 7.5 1 30 20 40").unwrap();
        assert_eq!((measured.ns, measured.pinned, measured.fairness), (7.5, true, Some(0.5)));
        let measured = said("read line; echo 7.5 0; read line").unwrap();
        assert_eq!((measured.ns, measured.pinned, measured.fairness), (7.5, false, None));
        assert_eq!(said("read line; echo seven").unwrap_err(), "it said \"seven\"");
        assert_eq!(said("read line").unwrap_err(), "it ended");
    }
}
