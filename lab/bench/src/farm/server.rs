//! Another program that measures: a process that is asked a line, and answers with a line of JSON.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use serde::Deserialize;

use super::race::{Outcome, Samples, words};

/// Such a process, until the last of its copies is dropped.
#[derive(Clone, Debug)]
pub(super) struct Server(Rc<RefCell<Running>>);

#[derive(Debug)]
struct Running {
    child: Child,
    /// Closed, it ends.
    asked: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

/// What it answers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    seconds: Samples,
    error: Option<String>,
}

impl Server {
    /// Starts one.
    pub(super) fn start(mut command: Command) -> Outcome<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("no {name}"),
            _ => format!("{name}: {error}"),
        })?;
        let (asked, said) = (child.stdin.take(), child.stdout.take());
        let said = BufReader::new(said.ok_or("it has no pipe")?);
        Ok(Server(Rc::new(RefCell::new(Running { child, asked, said }))))
    }

    /// Has it measure.
    pub(super) fn ask(&self, line: &str) -> Outcome<Samples> {
        let running = &mut *self.0.borrow_mut();
        let mut answer = String::new();
        let asked = running.asked.as_mut().ok_or("it has ended")?;
        writeln!(asked, "{line}").and_then(|()| asked.flush()).map_err(words)?;
        if running.said.read_line(&mut answer).map_err(words)? == 0 {
            return Err("it has ended".to_owned());
        }
        let Answer { seconds, error } = serde_json::from_str(&answer).map_err(words)?;
        match error {
            Some(error) => Err(error),
            None if seconds.is_empty() => Err(format!("it said {:?}", answer.trim_end())),
            None => Ok(seconds),
        }
    }

    /// Measures by such a line, each of whose samples is that of `operations`.
    pub(super) fn asks(&self, line: &str, operations: usize) -> impl FnMut() -> Outcome<Samples> + use<> {
        let (server, line) = (self.clone(), line.to_owned());
        move || Ok(server.ask(&line)?.into_iter().map(|seconds| seconds / operations as f64).collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.asked.take());
        // How it has ended does not matter any more.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str) -> Outcome<Samples> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Server::start(command)?.asks("cold 2", 10)()
    }

    #[test]
    fn answers_are_understood_and_others_told() {
        let answered =
            said(r#"read line; [ "$line" = "cold 2" ] && echo '{"what": "x", "seconds": [20, 40]}'"#);
        assert_eq!(answered, Ok(vec![2.0, 4.0]));
        assert_eq!(said(r#"read line; echo '{"error": "no"}'"#), Err("no".to_owned()));
        assert_eq!(said("read line; echo '{}'"), Err("it said \"{}\"".to_owned()));
        assert_eq!(said("read line"), Err("it has ended".to_owned()));
        assert_eq!(Server::start(Command::new("/nowhere/x")).unwrap_err(), "no /nowhere/x");
    }
}
