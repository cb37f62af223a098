//! External tools of this machine, and their output.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// An installed program.
#[derive(Clone, Copy, Debug)]
pub struct Tool(pub(crate) &'static str);

impl Tool {
    /// Returns the program if it is installed; otherwise prints that tests are skipped.
    #[must_use]
    pub fn find(name: &'static str) -> Option<Self> {
        let there = Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        if !there {
            println!("skipped: {name} is not installed, so nothing was tried with it");
        }
        there.then_some(Tool(name))
    }

    /// Returns the name by which the program was found.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Returns a text that differs from version to version: the reported version, and the
    /// modification time of the file, because a compiler wrapper reports only the version of the
    /// compiler below it.
    ///
    /// # Panics
    /// If the program does not report its version.
    #[must_use]
    pub fn version(self) -> String {
        let path = env::var_os("PATH").unwrap_or_default();
        let files = env::split_paths(&path).map(|folder| folder.join(self.0));
        let time = files.filter_map(|file| fs::metadata(file).ok()?.modified().ok()).next();
        format!("{} {time:?} {}", self.0, self.run(["--version"]))
    }

    /// Returns whether the program succeeds with these arguments.
    pub fn works<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> bool {
        Command::new(self.0).args(arguments).output().is_ok_and(|o| o.status.success())
    }

    /// Runs the program and returns its standard output.
    ///
    /// # Panics
    /// With all output of the program, if it fails.
    pub fn run<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> String {
        let mut command = Command::new(self.0);
        command.args(arguments);
        succeed(&mut command)
    }
}

/// The time limit of a command, far beyond the need of any program here, under valgrind and on any
/// machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a command to its end.
///
/// # Panics
/// If the command cannot be started, or does not end within the limit: it is then killed with all
/// processes of its group.
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    fn all(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }
    let (stdout, stderr) = (all(child.stdout.take().unwrap()), all(child.stderr.take().unwrap()));
    let late = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() >= late {
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    if status.is_none() {
        // `kill` is the shell's builtin: a program of that name may be missing.
        Command::new("sh")
            .args(["-c", "kill -s KILL -- -$0", &child.id().to_string()])
            .status()
            .unwrap();
        child.wait().unwrap();
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status =
        status.unwrap_or_else(|| panic!("{command:?} hangs\n{}{}", text(&stdout), text(&stderr)));
    Output { status, stdout, stderr }
}

/// Runs a command and returns its standard output.
///
/// # Panics
/// With all output of the command, if it fails.
pub fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Returns the folder where cargo puts libraries, beside the tests.
///
/// # Panics
/// If this program is in no folder.
#[must_use]
pub fn libraries() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}
