//! `--joblog`: a line for each job that has ended, in GNU parallel's columns; `--resume` reads it.
//!
//! A line is written by one write, and a part that a full disk accepts is truncated again. A farm
//! that is killed therefore leaves complete lines; only a machine that stops may leave a torn last
//! line. A torn line is cut off, and its job runs again. A line is written after the output of its
//! job ([`Row`]): a job whose output is not written has no line, nor has one that was running or
//! was ended with the farm.
//!
//! A line is trusted only for the command that it names: see [`Past::has`].

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::report::{Failure, shown};
use super::template::{Template, is_line_of, on_one_line, quoted};
use crate::error::{Error, Result};

/// The first line.
const HEADS: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

/// The jobs of earlier runs that are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// None: there is no earlier run.
    No,
    /// Every job that has a line.
    Ended,
    /// Every job whose last line reports success.
    Succeeded,
}

/// The log of this run.
#[derive(Debug)]
pub(super) struct JobLog {
    path: PathBuf,
    file: File,
}

/// A line of the log that is written after the output of its job.
#[derive(Debug)]
pub(super) struct Row {
    log: Arc<JobLog>,
    text: Vec<u8>,
}

impl Row {
    /// Returns the length of the line in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Writes the line.
    pub(super) fn write(&self) -> Result<()> {
        self.log.write(&self.text)
    }
}

/// The lines of earlier runs.
#[derive(Debug, Default)]
pub(super) struct Past {
    path: PathBuf,
    /// The last line of each job, by sequence number.
    jobs: HashMap<u64, Logged>,
    last: u64,
    again: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Logged {
    line: usize,
    succeeded: bool,
    /// The command, on one line.
    command: Vec<u8>,
}

/// The contents of a line about a job.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) number: u64,
    pub(super) host: &'a str,
    pub(super) began: SystemTime,
    pub(super) took: Duration,
    /// The number of bytes that it wrote to standard output.
    pub(super) wrote: u64,
    pub(super) failure: Option<&'a Failure>,
    pub(super) command: &'a [u8],
}

impl JobLog {
    /// Opens a log, which is created if it does not exist, and reads the lines of earlier runs.
    ///
    /// A file is not changed if it is no job log, if another farm writes it, or if it is not to be
    /// continued.
    pub(super) fn open(path: &Path, resume: Resume) -> Result<(Self, Past)> {
        let what = |what: &str| format!("{what} {}", path.display());
        let failed = |verb: &'static str| move |source| Error::Io { what: what(verb), source };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        // A file that can only be written, such as a pipe, is not a regular file.
        let file = file.or_else(|why| OpenOptions::new().append(true).open(path).map_err(|_| why));
        let file = file.map_err(failed("write"))?;
        let is_file = file.metadata().map_err(failed("read"))?.is_file();
        let log = Self { path: path.to_owned(), file };
        if !is_file {
            log.write(HEADS.as_bytes())?;
            return Ok((log, Past::default()));
        }
        // The lock belongs to this process, so no task inherits it.
        let locked = rustix::fs::fcntl_lock(&log.file, FlockOperation::NonBlockingLockExclusive);
        if let Err(Errno::AGAIN | Errno::ACCESS) = locked {
            return Err(refused(path, "another `syncline farm run` writes it"));
        }
        let mut text = Vec::new();
        (&log.file).read_to_end(&mut text).map_err(failed("read"))?;
        let (past, whole) = Past::of(path, &text, resume)?;
        if resume == Resume::No && !text.is_empty() {
            return Err(refused(path, "it has jobs of an earlier run: --resume goes on with them"));
        }
        if whole < text.len() {
            log.file.set_len(whole as u64).map_err(failed("write"))?;
        }
        if whole == 0 {
            log.write(HEADS.as_bytes())?;
        }
        Ok((log, past))
    }

    /// Returns the line of a job that has ended.
    pub(super) fn row(self: &Arc<Self>, job: &Ended<'_>) -> Row {
        let began =
            job.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let (exit, signal) = job.failure.map_or((0, 0), Failure::numbers);
        let (number, host, took, wrote) = (job.number, job.host, job.took.as_secs_f64(), job.wrote);
        let mut text =
            format!("{number}\t{host}\t{began:.3}\t{took:10.3}\t0\t{wrote}\t{exit}\t{signal}\t")
                .into_bytes();
        text.extend(on_one_line(job.command.to_vec()));
        text.push(b'\n');
        Row { log: Arc::clone(self), text }
    }

    /// Writes a line completely, or not at all.
    fn write(&self, line: &[u8]) -> Result<()> {
        let mut left = line;
        while !left.is_empty() {
            match (&self.file).write(left) {
                Ok(written) => left = &left[written..],
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(source) => {
                    self.take_back(line.len() - left.len());
                    return Err(Error::Io {
                        what: format!("write {}", self.path.display()),
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Truncates the last bytes, which are part of a line: no other process writes to the file.
    fn take_back(&self, bytes: usize) {
        let whole = self.file.metadata().map(|file| file.len().checked_sub(bytes as u64));
        if let Ok(Some(whole)) = whole {
            // If it cannot be truncated it is no file, and its reader already has the bytes.
            let _ = self.file.set_len(whole);
        }
    }
}

fn refused(path: &Path, why: &str) -> Error {
    let source = io::Error::other(format!("{why}; it is left as it is"));
    Error::Io { what: format!("use {} as job log", path.display()), source }
}

fn read_row(row: &[u8], line: usize) -> Option<(u64, Logged)> {
    let columns: Vec<_> = row.splitn(9, |&byte| byte == b'\t').collect();
    let &[sequence, _host, _began, _took, _sent, _received, exit, signal, command] =
        columns.as_slice()
    else {
        return None;
    };
    let number = |column| std::str::from_utf8(column).ok()?.trim().parse::<i64>().ok();
    let sequence = u64::try_from(number(sequence)?).ok().filter(|&sequence| sequence > 0)?;
    let (exit, signal) = (number(exit)?, number(signal)?);
    Some((
        sequence,
        Logged { line, succeeded: exit == 0 && signal == 0, command: command.to_vec() },
    ))
}

impl Past {
    /// Reads the lines of a log without changing it.
    pub(super) fn read(path: &Path, resume: Resume) -> Result<Self> {
        match fs::read(path) {
            Ok(text) if resume != Resume::No => Ok(Self::of(path, &text, resume)?.0),
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Io { what: format!("read {}", path.display()), source })
            }
            _ => Ok(Self::default()),
        }
    }

    /// Parses the text of a log; also returns the length of its complete lines.
    fn of(path: &Path, text: &[u8], resume: Resume) -> Result<(Self, usize)> {
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let mut past =
            Self { path: path.to_owned(), again: resume == Resume::Succeeded, ..Self::default() };
        let Some(rows) = text[..whole].strip_prefix(HEADS.as_bytes()) else {
            let is_begun = whole == 0 && HEADS.as_bytes().starts_with(text);
            return if is_begun { Ok((past, 0)) } else { Err(refused(path, "it is no job log")) };
        };
        for (at, row) in rows.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let line = at + 2;
            let Some((number, job)) = read_row(&row[..row.len() - 1], line) else {
                return Err(refused(path, &format!("its line {line} tells of no job")));
            };
            past.last = past.last.max(number);
            past.jobs.insert(number, job);
        }
        Ok((past, whole))
    }

    /// Returns the highest number of a logged job.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns whether a job is skipped.
    ///
    /// # Errors
    /// If the log has another command for this number.
    pub(super) fn has(&self, template: &Template, args: &[Vec<u8>], number: u64) -> Result<bool> {
        let Some(job) = self.jobs.get(&number) else { return Ok(false) };
        if !is_line_of(&job.command, template, args, number) {
            let (line, told) = (job.line, shown(&job.command));
            let now = shown(&on_one_line(quoted(&template.fill(args, number, 1))));
            return Err(self.other(&format!(
                "its line {line} has {told} as job {number}, which is {now} here"
            )));
        }
        Ok(!self.again || job.succeeded)
    }

    /// Checks that the log is complete when the input ends with job `number`.
    ///
    /// # Errors
    /// If the log has more jobs.
    pub(super) fn ends(&self, number: u64) -> Result<()> {
        if self.last <= number {
            return Ok(());
        }
        Err(self
            .other(&format!("it has job {}, and the input here has {number} in all", self.last)))
    }

    fn other(&self, why: &str) -> Error {
        refused(&self.path, &format!("it is of another command or input: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const ROW: &str = "3\t:\t1795564319.416\t     0.032\t0\t2\t0\t9\techo 3\n";

    fn template() -> Template {
        Template::new(&["echo", "{}"].map(OsString::from))
    }

    fn ended<'a>(number: u64, failure: Option<&'a Failure>, command: &'a [u8]) -> Ended<'a> {
        let began = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        Ended {
            number,
            host: ":",
            began,
            took: Duration::from_millis(32),
            wrote: 2,
            failure,
            command,
        }
    }

    #[test]
    fn rows_are_those_of_gnu_parallel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, past) = JobLog::open(&path, Resume::No).unwrap();
        let log = Arc::new(log);
        assert_eq!(past.last(), 0);
        log.row(&ended(1, None, b"echo 'a\nb'")).write().unwrap();
        log.row(&ended(2, Some(&Failure::Late(Duration::from_secs(1))), b"sleep 2"))
            .write()
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let row = |rest| format!("\t:\t1.500\t     0.032\t0\t2\t{rest}\n");
        assert_eq!(
            text,
            format!("{HEADS}1{}2{}", row("0\t0\techo 'a\0b'"), row("-1\t15\tsleep 2"))
        );
        let error = JobLog::open(&path, Resume::No).unwrap_err().to_string();
        assert!(error.contains("it has jobs of an earlier run"), "{error}");
        let (_, past) = JobLog::open(&path, Resume::Ended).unwrap();
        assert_eq!(past.last(), 2);
        assert!(past.has(&template(), &[b"a\nb".to_vec()], 1).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_command_with_a_zero_byte_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Arc::new(JobLog::open(&path, Resume::No).unwrap().0);
        let args = [b"a\0b".to_vec()];
        let command = quoted(&template().fill(&args, 1, 1));
        log.row(&ended(1, None, &command)).write().unwrap();
        drop(log);
        let (_, past) = JobLog::open(&path, Resume::Ended).unwrap();
        assert!(past.has(&template(), &args, 1).unwrap());
        assert!(past.has(&template(), &[b"ab".to_vec()], 1).is_err());
    }

    #[test]
    fn a_line_that_is_written_in_part_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, _) = JobLog::open(&path, Resume::No).unwrap();
        // The state that a full disk leaves.
        (&log.file).write_all(b"1\t:\t17").unwrap();
        log.take_back(6);
        assert_eq!(fs::read_to_string(&path).unwrap(), HEADS);
        log.take_back(HEADS.len() + 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), HEADS);
    }

    #[test]
    fn what_has_succeeded_or_ended_is_not_run_again() {
        let read =
            |text: &str, resume| Past::of(Path::new("log"), text.as_bytes(), resume).unwrap().0;
        let good = ROW.replace("\t9\t", "\t0\t");
        let args = [b"3".to_vec()];
        for (rows, succeeded) in [
            (ROW.to_owned(), false),
            (format!("{ROW}{good}"), true),
            (format!("{good}{ROW}"), false),
        ] {
            for (resume, expected) in [(Resume::Ended, true), (Resume::Succeeded, succeeded)] {
                let past = read(&format!("{HEADS}{rows}"), resume);
                assert_eq!(past.has(&template(), &args, 3).unwrap(), expected, "{rows}");
                assert!(!past.has(&template(), &args, 2).unwrap());
            }
        }
        let past = read(&format!("{HEADS}{ROW}"), Resume::Ended);
        let error = past.has(&template(), &[b"4".to_vec()], 3).unwrap_err().to_string();
        let expected = "cannot use log as job log: it is of another command or input: its line 2 has \"echo 3\" as job 3, \
                        which is \"echo 4\" here; it is left as it is";
        assert_eq!(error, expected);
        assert!(past.ends(3).is_ok() && past.ends(2).is_err());
    }

    #[test]
    fn a_torn_end_is_cut_off_and_anything_else_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let whole = format!("{HEADS}{ROW}");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (_, past) = JobLog::open(&path, Resume::Ended).unwrap();
            assert_eq!(
                (past.last(), fs::read_to_string(&path).unwrap().as_str()),
                (0, HEADS),
                "{length}"
            );
        }
        fs::write(&path, format!("{whole}4\t:\t17")).unwrap();
        assert_eq!(Past::read(&path, Resume::Ended).unwrap().last(), 3);
        let (_, past) = JobLog::open(&path, Resume::Ended).unwrap();
        assert_eq!((past.last(), fs::read_to_string(&path).unwrap()), (3, whole.clone()));
        for text in [
            "x",
            "x\n",
            "Seq\n",
            &format!("{HEADS}junk\n"),
            &format!("{whole}x{ROW}"),
            &format!("{HEADS}0{}", &ROW[1..]),
        ] {
            fs::write(&path, text).unwrap();
            for resume in [Resume::Ended, Resume::No] {
                let error = JobLog::open(&path, resume).unwrap_err().to_string();
                assert!(error.ends_with("; it is left as it is"), "{error}");
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
            }
        }
    }
}
