//! A program that is started to be viewed, and its output.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGTERM;
use syncline_common::signals::Signals;
use syncline_common::terminal;

use super::TICK;
use crate::error::{Error, Result};

/// A started program.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    name: String,
    /// What it has written.
    output: File,
}

impl Program {
    /// Starts a program that records to a file. If the view is `drawn` on the terminal, the program
    /// gets no input, and what it writes to the terminal is kept.
    pub(super) fn start(words: &[OsString], trace: &Path, drawn: bool) -> Result<Self> {
        let failed = |what: String| move |source| Error::Io { what, source };
        let keep = || failed("keep the output of the program".to_owned());
        let (program, arguments) =
            words.split_first().ok_or_else(|| Error::Usage("no program is given".to_owned()))?;
        let name = program.to_string_lossy().into_owned();
        let output = tempfile::tempfile().map_err(keep())?;
        let copy = || output.try_clone().map(Stdio::from).map_err(keep());
        // A program may change its directory before it records.
        let trace = std::path::absolute(trace).map_err(failed("name the trace".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).env(syncline_trace::VARIABLE, trace).stdout(copy()?);
        if drawn {
            command.stdin(Stdio::null());
            if io::stderr().is_terminal() {
                command.stderr(copy()?);
            }
        }
        let child = command.spawn().map_err(failed(format!("start {name}")))?;
        Ok(Self { child, name, output })
    }

    /// Whether the program has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        let what = || format!("wait for {}", self.name);
        let ended = self.child.try_wait().map_err(|source| Error::Io { what: what(), source })?;
        Ok(ended.is_some())
    }

    /// Passes a signal on to the program if it still runs, waits for its end, and prints its
    /// output. A second signal kills it.
    ///
    /// # Errors
    /// The exit code of the program, if it is not 0.
    pub(super) fn finish(mut self, signal: Option<u8>, signals: &Signals) -> Result<()> {
        let told = match signal {
            Some(signal) if i32::from(signal) == SIGTERM => Signal::TERM,
            _ => Signal::INT,
        };
        if !self.has_ended()? {
            self.send(told);
            terminal::say(format_args!("waiting for the end of {}", self.name));
        }
        while !self.has_ended()? {
            if signals.take().is_some() {
                self.send(Signal::KILL);
            }
            thread::sleep(TICK);
        }
        self.print()?;
        let what = || format!("wait for {}", self.name);
        let status = self.child.wait().map_err(|source| Error::Io { what: what(), source })?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        match code.unwrap_or(1) {
            0 => Ok(()),
            code => Err(Error::Told { code: code.clamp(1, 255) as u8 }),
        }
    }

    /// Sends a signal. The program was not waited for, so that its number is its own.
    fn send(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Prints what the program has written.
    fn print(&mut self) -> Result<()> {
        let copied = self
            .output
            .rewind()
            .and_then(|()| io::copy(&mut self.output, &mut io::stdout().lock()));
        match copied {
            Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::Io { what: format!("print the output of {}", self.name), source })
            }
            _ => Ok(()),
        }
    }
}
