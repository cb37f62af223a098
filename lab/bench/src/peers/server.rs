//! A server process: it reads a request line, runs it, and answers with a line.
//!
//! Between two lines the process is idle; it ends at the end of its input.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use serde::Deserialize;

use super::not_started;
use crate::error::Result;
use crate::race::Samples;

/// A server process. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Server(Rc<RefCell<Running>>);

#[derive(Debug)]
struct Running {
    child: Child,
    /// Its standard input; closing it ends the process.
    asked: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

/// The answer to a measurement.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    seconds: Samples,
    error: Option<String>,
}

impl Server {
    /// Starts a server process.
    ///
    /// # Errors
    /// If there is no such program, with the line that installs it.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| not_started(&command, &error))?;
        let (asked, said) = (child.stdin.take(), child.stdout.take());
        let said = BufReader::new(said.ok_or("it has no pipe")?);
        Ok(Server(Rc::new(RefCell::new(Running { child, asked, said }))))
    }

    /// Sends a line, and returns the answer.
    ///
    /// # Errors
    /// If the process has ended.
    pub(crate) fn ask(&self, line: &str) -> Result<String> {
        let running = &mut *self.0.borrow_mut();
        let mut answer = String::new();
        let asked = running.asked.as_mut().ok_or("it has ended")?;
        writeln!(asked, "{line}").and_then(|()| asked.flush())?;
        if running.said.read_line(&mut answer)? == 0 {
            return Err("it has ended".into());
        }
        answer.truncate(answer.trim_end().len());
        Ok(answer)
    }

    /// Returns a function that measures with such a line, which is answered in JSON; each sample
    /// covers `operations` operations.
    pub(crate) fn asks(
        &self,
        line: &str,
        operations: usize,
    ) -> impl FnMut() -> Result<Samples> + use<> {
        let (server, line) = (self.clone(), line.to_owned());
        move || {
            let answer = server.ask(&line)?;
            match serde_json::from_str(&answer)? {
                Answer { error: Some(error), .. } => Err(error.into()),
                Answer { seconds, .. } if seconds.is_empty() => {
                    Err(format!("it said {answer:?}").into())
                }
                Answer { seconds, .. } => {
                    Ok(seconds.iter().map(|time| time / operations as f64).collect())
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.asked.take());
        // The exit status does not matter any more.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str) -> Result<Samples, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let server = Server::start(command).map_err(|error| error.to_string())?;
        server.asks("cold 2", 10)().map_err(|error| error.to_string())
    }

    #[test]
    fn answers_are_understood_and_others_told() {
        let answered = said(
            r#"read line; [ "$line" = "cold 2" ] && echo '{"what": "x", "seconds": [20, 40]}'"#,
        );
        assert_eq!(answered, Ok(vec![2.0, 4.0]));
        assert_eq!(said(r#"read line; echo '{"error": "no"}'"#), Err("no".to_owned()));
        assert_eq!(said("read line; echo '{}'"), Err("it said \"{}\"".to_owned()));
        assert_eq!(said("read line"), Err("it has ended".to_owned()));
        let absent = Server::start(Command::new("/nowhere/python3")).unwrap_err();
        assert_eq!(absent.to_string(), "no /nowhere/python3 (apt-get install python3)");
    }
}
