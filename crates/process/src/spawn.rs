//! Starts a process with exactly the descriptors that it is given, without exposing them to other
//! processes.
//!
//! # Contract
//! A descriptor that a child is to inherit is usually made inheritable in the parent first. Between
//! that moment and the start, any other thread that starts a program passes it on as well; a lock
//! helps only against threads that take the same lock. Here no descriptor of this process ever
//! becomes inheritable. The copy for the child is made in the child, by a file action of
//! `posix_spawn`:
//!
//! ```text
//!   this process    7 ──> a pipe    close-on-exec
//!                   9 ──> a pipe    close-on-exec: a copy that reserves the number
//!   child           dup2(7, 9), then exec: 9 ──> a pipe, and nothing else of this process's own
//! ```
//! The copy reserves the number, so that it is free in this process as well: a descriptor that the
//! program has made inheritable itself, such as that of a job server, keeps its number in the
//! child.
//!
//! | what                | in the child                                                          |
//! |---------------------|-----------------------------------------------------------------------|
//! | environment         | that of this process, with the variables that were set                |
//! | standard streams    | those of this process, or those that were given                       |
//! | other descriptors   | those given, and the inheritable ones except [some](Spawn::close)      |
//! | blocked signals     | none                                                                  |
//! | SIGPIPE             | its default action, which Rust programs change for themselves         |
//! | process group       | this process's, or its own                                            |
//! | current directory   | this process's                                                        |
//!
//! # Costs
//! One `posix_spawn`, whose time does not grow with the memory of this process (`CLONE_VFORK`), and
//! one duplicated descriptor for each descriptor that is passed on besides the standard streams.
//!
//! # Limits
//! glibc before 2.24 reports a program that cannot be started as exit code 127 of the child.
//!
//! # Source
//! POSIX.1-2017, `posix_spawn` and `posix_spawn_file_actions_adddup2`. Since POSIX.1-2024, dup2 of
//! a number to itself clears close-on-exec there; glibc before 2.29 does not, so a second number is
//! used.

mod system;

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::{GroupLeader, inherit};

/// A process that is about to be started.
///
/// ```
/// use std::io::Read;
/// use std::os::fd::AsFd;
/// use syncline_process::Spawn;
///
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut spawn = Spawn::new("sh");
/// let number = spawn.hand(writer.as_fd())?;
/// let mut child = spawn.args(["-c", &format!("echo hello >&{number}")]).start()?;
/// drop(spawn);
/// drop(writer);
/// let mut said = String::new();
/// reader.read_to_string(&mut said)?;
/// assert_eq!((said.as_str(), child.wait()?.success()), ("hello\n", true));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Spawn<'a> {
    program: OsString,
    /// The name of the program, then its arguments.
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    removed: Vec<OsString>,
    /// The descriptors of the child, each with its number there.
    descriptors: Vec<(BorrowedFd<'a>, RawFd)>,
    /// Copies that reserve these numbers in this process.
    reserved: Vec<OwnedFd>,
    /// Inheritable descriptors that the child does not get.
    closed: Vec<RawFd>,
}

impl<'a> Spawn<'a> {
    /// Creates a process that runs a program. The program is looked up as a shell would: in the
    /// `PATH` of the child if its name has no slash.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Spawn<'a> {
        let program = program.as_ref().to_owned();
        Spawn {
            args: vec![program.clone()],
            program,
            variables: Vec::new(),
            removed: Vec::new(),
            descriptors: Vec::new(),
            reserved: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Sets the name by which the program is called, `argv[0]`. The default is the program itself.
    pub fn arg0(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        name.as_ref().clone_into(&mut self.args[0]);
        self
    }

    /// Appends arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable in the child's environment; a later value replaces an earlier one.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        let name = name.as_ref().to_owned();
        self.variables.retain(|(before, _)| *before != name);
        self.variables.push((name, value.as_ref().to_owned()));
        self
    }

    /// Removes a variable from the child's environment. A later [`env`](Self::env) of the same name
    /// sets it again.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.variables.retain(|(before, _)| before != name.as_ref());
        self.removed.push(name.as_ref().to_owned());
        self
    }

    /// Sets the child's standard input (0), output (1) or error (2).
    pub fn stream(&mut self, number: RawFd, fd: BorrowedFd<'a>) -> &mut Self {
        debug_assert!((0..3).contains(&number), "{number} is no standard stream");
        self.descriptors.push((fd, number));
        self
    }

    /// Passes a descriptor on to the child, and returns the number that it has there. The caller
    /// must pass that number to the child.
    ///
    /// This process holds a copy, which reserves the number, until the `Spawn` is dropped.
    ///
    /// # Errors
    /// Returns the system's error: no descriptor is left.
    pub fn hand(&mut self, fd: BorrowedFd<'a>) -> io::Result<RawFd> {
        let reserved = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let number = reserved.as_raw_fd();
        self.descriptors.push((fd, number));
        self.reserved.push(reserved);
        Ok(number)
    }

    /// Withholds from the child a descriptor that is not closed on exec. In this process it stays
    /// open. Has no effect on a number under which the child is given another descriptor.
    pub fn close(&mut self, number: RawFd) -> &mut Self {
        self.closed.push(number);
        self
    }

    /// Starts the process in the group of this process.
    ///
    /// # Errors
    /// Returns the system's error: `NotFound` if there is no such program; `InvalidInput` for a
    /// zero byte in an argument or a variable.
    pub fn start(&self) -> io::Result<Child> {
        self.start_in(false)
    }

    /// Starts the process as the leader of a process group, which ends with it.
    ///
    /// # Errors
    /// As [`start`](Self::start), and if the process cannot be watched.
    pub fn start_group(&self) -> io::Result<GroupLeader> {
        GroupLeader::new(self.start_in(true)?).map_err(io::Error::from)
    }

    fn start_in(&self, own_group: bool) -> io::Result<Child> {
        let changed = self.variables.iter().map(|(name, _)| name).chain(&self.removed);
        let inherited =
            env::vars_os().filter(|(name, _)| changed.clone().all(|changed| changed != name));
        let variables: Vec<_> = inherited.chain(self.variables.iter().cloned()).collect();
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let environment: io::Result<Vec<_>> =
            variables.into_iter().map(|(name, value)| variable(name, &value)).collect();
        let args: io::Result<Vec<_>> =
            self.args.iter().map(|arg| text(arg.as_bytes().to_vec())).collect();
        // Another action could replace a source below 3 before it is read, and dup2 of a number to
        // itself may leave it close-on-exec.
        let mut copies = Vec::new();
        for (fd, _) in &self.descriptors {
            let low = fd.as_raw_fd() < 3;
            copies.push(low.then(|| rustix::io::fcntl_dupfd_cloexec(fd, 3)).transpose()?);
        }
        let sources = self.descriptors.iter().zip(&copies);
        let descriptors: Vec<_> = sources
            .map(|((fd, number), copy)| {
                (copy.as_ref().map_or(fd.as_raw_fd(), AsRawFd::as_raw_fd), *number)
            })
            .collect();
        // After all copies are made, as a source may have such a number. A number that is not open
        // may be beyond the limit, which is an error of the start.
        let is_given =
            |closed: &&RawFd| self.descriptors.iter().all(|(_, number)| number != *closed);
        let is_open = |closed: &&RawFd| inherit::copy(**closed).is_ok();
        let closed: Vec<_> = self.closed.iter().filter(is_given).filter(is_open).copied().collect();
        let (args, environment) = (args?, environment?);
        text(self.program.as_bytes().to_vec())?;
        first(&self.program, path, |program| {
            let program = text(program.as_os_str().as_bytes().to_vec())?;
            let pid =
                system::spawn(&program, &args, &environment, (&descriptors, &closed), own_group)?;
            Ok(Child { pid, status: None })
        })
    }
}

/// A process that was started, and has not been collected.
///
/// As with the standard library's `Child`, dropping it neither ends nor collects the process.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    status: Option<ExitStatus>,
}

impl Child {
    /// Returns the process ID, which is not reused until the process has been collected.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// Kills the process (SIGKILL). Does nothing if it has been collected.
    ///
    /// # Errors
    /// Returns the system's error: the process belongs to another user by now.
    pub fn kill(&self) -> io::Result<()> {
        match self.status {
            None => Ok(kill_process(self.pid, Signal::KILL)?),
            Some(_) => Ok(()),
        }
    }

    /// Collects the process if it has ended. Does not block.
    ///
    /// # Errors
    /// `ECHILD` if other code of this process has collected it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.collect(WaitOptions::NOHANG)
    }

    /// Blocks until the process has ended, and collects it.
    ///
    /// # Errors
    /// As [`try_wait`](Self::try_wait).
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.collect(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    fn collect(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        while self.status.is_none() {
            match waitpid(Some(self.pid), options) {
                Ok(None) => break,
                Ok(Some((_, status))) => self.status = Some(ExitStatus::from_raw(status.as_raw())),
                Err(Errno::INTR) => (),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(self.status)
    }
}

/// Returns the path of a program: in the first directory of a `PATH` in which it can be executed.
///
/// # Errors
/// `NotFound`, or `PermissionDenied` if the program exists but may not be executed.
pub fn find(program: &OsStr, path: Option<OsString>) -> io::Result<PathBuf> {
    first(program, path, |program| Ok(program.to_owned()))
}

/// Calls `start` with each possible path of a program until it succeeds, as `execvp` does: the
/// search continues with the next directory if the system reports that the program does not exist
/// (or its interpreter, for a script), or may not be executed.
fn first<T>(
    program: &OsStr,
    path: Option<OsString>,
    mut start: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<T> {
    // A path with a slash is not searched for; the start itself reports what is wrong with it.
    if program.as_bytes().contains(&b'/') {
        return start(program.as_ref());
    }
    let mut why = Errno::NOENT;
    for folder in env::split_paths(&path.unwrap_or_else(|| "/bin:/usr/bin".into())) {
        // An empty entry is the current directory. An empty name is no program's.
        let candidate = Path::new(".").join(folder).join(program);
        let executable = rustix::fs::access(&candidate, Access::EXEC_OK).map_err(io::Error::from);
        let started = match executable {
            Ok(()) if program.is_empty() => Err(Errno::NOENT.into()),
            Ok(()) if candidate.is_dir() => Err(Errno::ACCESS.into()),
            Ok(()) => start(&candidate),
            Err(error) => Err(error),
        };
        match started.as_ref().map_err(Errno::from_io_error) {
            Err(Some(Errno::ACCESS)) => why = Errno::ACCESS,
            Err(Some(Errno::NOENT | Errno::NOTDIR)) => (),
            Err(_) if program.is_empty() => (),
            _ => return started,
        }
    }
    Err(why.into())
}

/// Converts bytes to a C string.
fn text(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::from)
}

fn variable(name: OsString, value: &OsStr) -> io::Result<CString> {
    let mut bytes = name.into_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    text(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, pipe};
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;

    /// Runs a program and returns its standard output.
    fn said(program: &str, spawn: impl FnOnce(&mut Spawn<'_>)) -> String {
        let (mut reader, writer) = pipe().unwrap();
        let mut child = {
            let mut program = Spawn::new(program);
            spawn(&mut program);
            program.stream(1, writer.as_fd()).start().unwrap()
        };
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(
            child.try_wait().unwrap().is_some() && child.kill().is_ok(),
            "it has been collected"
        );
        said
    }

    #[test]
    fn variables_are_set_removed_and_inherited() {
        let said = said("sh", |sh| {
            sh.args(["-c", "echo \"$ONE-$TWO-$THREE-${PATH:+path}\""]);
            sh.env("ONE", "0")
                .env("ONE", "1")
                .env("TWO", "2")
                .env_remove("TWO")
                .env_remove("THREE")
                .env("THREE", "3");
        });
        assert_eq!(said, "1--3-path\n");
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let kind = |spawn: &mut Spawn<'_>| spawn.start().unwrap_err().kind();
        assert_eq!(kind(&mut Spawn::new("syncline-no-such-program")), io::ErrorKind::NotFound);
        assert_eq!(kind(&mut Spawn::new("/nowhere/to/be/found")), io::ErrorKind::NotFound);
        assert_eq!(kind(Spawn::new("sh").env("PATH", "/nowhere")), io::ErrorKind::NotFound);
        assert_eq!(kind(Spawn::new("null").env("PATH", "/dev")), io::ErrorKind::PermissionDenied);
        assert_eq!(kind(&mut Spawn::new("")), io::ErrorKind::NotFound);
        assert_eq!(kind(&mut Spawn::new("a\0b")), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Spawn::new("sh").args(["a\0b"])), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Spawn::new("sh").env("A", "a\0b")), io::ErrorKind::InvalidInput);
    }

    /// A script whose interpreter is gone, as in an old virtual environment, does not hide the
    /// program in the next directory.
    #[test]
    fn the_next_folder_has_the_program() {
        // Programs may not be allowed to run from the folder for temporary files.
        let folder = tempfile::tempdir_in(syncline_testkit::libraries()).unwrap();
        for (name, interpreter) in [("old", "/nowhere/to/be/found"), ("new", "/bin/sh")] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            let program = folder.path().join(name).join("program");
            std::fs::write(&program, format!("#!{interpreter}\nexit 7\n")).unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        let path = env::join_paths([folder.path().join("old"), folder.path().join("new")]).unwrap();
        let mut spawn = Spawn::new("program");
        // A test that forks at the same time may hold the file open for writing.
        let mut child = loop {
            match spawn.env("PATH", &path).start() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => (),
                started => break started.unwrap(),
            }
        };
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    /// One descriptor may be passed on several times.
    #[test]
    fn descriptors_are_those_that_were_given() {
        let (mut reader, writer) = pipe().unwrap();
        let mut sh = Spawn::new("sh");
        let (first, second) = (sh.hand(writer.as_fd()).unwrap(), sh.hand(writer.as_fd()).unwrap());
        assert_ne!(first, second);
        // Some shells redirect to numbers of one digit only.
        let files = "/proc/self/fd";
        let script =
            format!("echo a >{files}/{first}; echo b >{files}/{second}; echo c; echo d >&2");
        sh.args(["-c", &script]).stream(1, writer.as_fd()).stream(2, writer.as_fd());
        assert!(sh.start().unwrap().wait().unwrap().success());
        drop(sh);
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "a\nb\nc\nd\n");
    }

    /// A number that is given to the child is given, even if it is also to be closed.
    #[test]
    fn what_is_closed_is_not_inherited() {
        let (inherited, kept) = (pipe().unwrap(), pipe().unwrap());
        for pipe in [&inherited, &kept] {
            rustix::io::fcntl_setfd(&pipe.1, rustix::io::FdFlags::empty()).unwrap();
        }
        let (gone, there) = (inherited.1.as_raw_fd(), kept.1.as_raw_fd());
        let (mut reader, writer) = pipe().unwrap();
        let mut sh = Spawn::new("sh");
        let given = sh.hand(kept.1.as_fd()).unwrap();
        // The shell itself may have other descriptors, but these numbers are in use here.
        let script = "for fd; do [ -e /proc/self/fd/$fd ] && echo yes || echo no; done";
        sh.args(["-c", script, "_"]).args([gone, there, given].map(|number| number.to_string()));
        sh.close(gone).close(given).close(1).close(-1).close(1 << 30);
        assert!(sh.stream(1, writer.as_fd()).start().unwrap().wait().unwrap().success());
        drop(sh);
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "no\nyes\nyes\n");
    }

    #[test]
    fn sigpipe_ends_a_child_and_no_signal_is_blocked() {
        let said = said("grep", |grep| {
            grep.args(["-E", "SigBlk|SigIgn", "/proc/self/status"]);
        });
        let masks: Vec<_> =
            said.lines().map(|line| line.split_whitespace().next_back().unwrap()).collect();
        let masks: Vec<_> =
            masks.iter().map(|mask| u64::from_str_radix(mask, 16).unwrap()).collect();
        assert_eq!(masks[0], 0, "{said}");
        assert_eq!(masks[1] >> (libc::SIGPIPE - 1) & 1, 0, "{said}");
    }

    /// A stream of this process may be another stream of the child, in whatever order the two are
    /// named.
    #[test]
    fn streams_may_be_exchanged() {
        let (mut reader, writer) = pipe().unwrap();
        let stderr = io::stderr();
        let mut child = {
            let mut sh = Spawn::new("sh");
            sh.args(["-c", "printf ' ' && echo pipe >&2"]);
            sh.stream(2, writer.as_fd()).stream(1, stderr.as_fd()).start().unwrap()
        };
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(said, "pipe\n");
    }

    #[test]
    fn what_this_thread_blocks_is_not_blocked_in_a_child() {
        let said = thread::spawn(|| {
            // SAFETY: a signal set is plain data, which `sigemptyset` initialises; all pointers are
            // to it, or null where no old set is asked for. The thread ends with the closure.
            unsafe {
                let mut set = std::mem::zeroed();
                assert_eq!(libc::sigemptyset(&mut set), 0);
                assert_eq!(libc::sigaddset(&mut set, libc::SIGTERM), 0);
                assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()), 0);
            }
            // Without a shell, as some of them reset what is blocked.
            said("grep", |grep| {
                grep.args(["SigBlk", "/proc/self/status"]);
            })
        });
        let said = said.join().unwrap();
        assert_eq!(said.trim_end().trim_start_matches("SigBlk:").trim_matches(['0', '\t']), "");
    }
}
