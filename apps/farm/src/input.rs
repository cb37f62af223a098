//! Input sources: the arguments of each task, as in GNU parallel.
//!
//! ```text
//!   one file, a pipe                  read as it is needed, so it may be endless
//!   several sources, or a percentage  read whole before the first task: the number is known
//!
//!   ::: a b ::: 1 2     a 1, a 2, b 1, b 2
//!   ::: a b :::+ 1 2    a 1, b 2             (the length of the shortest)
//!     │
//!     ├─ --colsep       each value is split
//!     └─ -n N           N records make a task
//! ```

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use regex_lite::Regex;

use super::tasks::Source;
use crate::args::{FarmRunArgs, Protocol, separator, split};
use crate::error::{Error, Result};

/// The arguments of a task.
pub(super) type Arguments = Vec<Vec<u8>>;

/// An input source of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    /// Whether its values are linked to those of the source before.
    linked: bool,
    from: From,
}

#[derive(Debug, PartialEq, Eq)]
enum From {
    Values(Vec<Vec<u8>>),
    /// A file; `None` is standard input.
    File(Option<PathBuf>),
}

/// The input of all tasks.
#[derive(Debug)]
pub(super) struct Input {
    records: Records,
    columns: Option<Columns>,
    /// The number of records per task.
    most: usize,
    /// The arguments of an incomplete task.
    begun: Arguments,
    records_begun: usize,
    /// The number of tasks that `next` has returned.
    given: u64,
}

#[derive(Debug)]
enum Records {
    Stream(Source),
    Lists(Lists),
}

/// Sources that are read to their ends first.
#[derive(Debug, Default)]
struct Lists {
    lists: Vec<List>,
    /// The sources still to be read, each with the index of its list.
    unread: VecDeque<(usize, Source)>,
    next: u64,
    /// The number of records, once all sources are read.
    total: u64,
}

#[derive(Debug)]
struct List {
    values: Vec<Vec<u8>>,
    linked: bool,
}

impl Input {
    /// Opens the input of a farm. With `whole`, the number of tasks must be known before the first
    /// one.
    pub(super) fn open(args: &FarmRunArgs, whole: bool) -> Result<Self> {
        let (command, behind) = split(&args.command);
        if command.is_empty() {
            return Err(Error::Usage("no command stands before the input sources".to_owned()));
        }
        let mut named: Vec<_> = args
            .tasks
            .iter()
            .map(|path| Named { linked: false, from: file(path.as_os_str()) })
            .collect();
        named.extend(sources(behind)?);
        if named.is_empty() {
            named.push(Named { linked: false, from: From::File(None) });
        }
        if named[0].linked {
            return Err(Error::Usage(
                "a source that is linked (:::+, ::::+) needs another before it".to_owned(),
            ));
        }
        if args.protocol == Protocol::Lines && named.len() > 1 {
            return Err(Error::Usage("--protocol lines has one input source".to_owned()));
        }
        if named.iter().filter(|named| named.from == From::File(None)).count() > 1 {
            return Err(Error::Usage("standard input can be one source only".to_owned()));
        }
        let columns = args.colsep.as_deref().map(Columns::new).transpose()?;
        let records = match named.as_slice() {
            [Named { from: From::File(path), .. }] if !whole => {
                Records::Stream(Source::open(path.as_deref(), args.null)?)
            }
            _ => Records::Lists(Lists::open(named, args.null)?),
        };
        let most = args.max_args.map_or(1, |most| most as usize);
        Ok(Self { records, columns, most, begun: Vec::new(), records_begun: 0, given: 0 })
    }

    /// Returns the arguments of the next task, if all of them have been read.
    pub(super) fn next(&mut self) -> Option<Arguments> {
        while self.records_begun < self.most {
            let Some(record) = self.records.next() else { break };
            self.records_begun += 1;
            match &self.columns {
                Some(columns) => {
                    self.begun.extend(record.iter().flat_map(|value| columns.of(value)))
                }
                None => self.begun.extend(record),
            }
        }
        let is_whole =
            self.records_begun == self.most || self.records_begun > 0 && self.records.is_over();
        is_whole.then(|| {
            (self.records_begun, self.given) = (0, self.given + 1);
            std::mem::take(&mut self.begun)
        })
    }

    /// Returns whether there will be no more tasks.
    pub(super) fn is_over(&self) -> bool {
        self.records_begun == 0 && self.records.is_over()
    }

    /// Returns the largest number of arguments that a task may have; `None` if only the lines
    /// tell (`--colsep`).
    pub(super) fn most_arguments(&self) -> Option<usize> {
        let of_record = match &self.records {
            Records::Stream(_) => 1,
            Records::Lists(lists) => lists.lists.len(),
        };
        self.columns.is_none().then(|| of_record.saturating_mul(self.most))
    }

    /// Returns the number of tasks, if it is known.
    pub(super) fn total(&mut self) -> Option<u64> {
        let records = match &mut self.records {
            Records::Lists(lists) => lists.unread.is_empty().then_some(lists.total)?,
            // All returned tasks were complete.
            Records::Stream(source) => {
                self.given * self.most as u64 + self.records_begun as u64 + source.left()?
            }
        };
        Some(records.div_ceil(self.most as u64))
    }

    /// Returns whether a read would return data or the end.
    pub(super) fn is_ready(&self) -> bool {
        self.records.reading().is_some_and(Source::is_ready)
    }

    /// Reads once.
    pub(super) fn read(&mut self) -> Result<()> {
        match &mut self.records {
            Records::Stream(source) => source.read(),
            Records::Lists(lists) => lists.read(),
        }
    }

    /// Returns the descriptor for a poll, while there is input to read.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.records.reading().map(AsFd::as_fd)
    }
}

impl Records {
    fn next(&mut self) -> Option<Arguments> {
        match self {
            Self::Stream(source) => source.next().map(|value| vec![value]),
            Self::Lists(lists) => lists.next(),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Stream(source) => source.is_over(),
            Self::Lists(lists) => lists.unread.is_empty() && lists.next == lists.total,
        }
    }

    /// Returns the source that is read next.
    fn reading(&self) -> Option<&Source> {
        match self {
            Self::Stream(source) => Some(source).filter(|source| !source.is_read()),
            Self::Lists(lists) => lists.unread.front().map(|(_, source)| source),
        }
    }
}

impl Lists {
    fn open(named: Vec<Named>, null: bool) -> Result<Self> {
        let (mut lists, alone) = (Self::default(), named.len() == 1);
        for Named { linked, from } in named {
            let values = match from {
                From::Values(values) => values,
                From::File(path) => {
                    let source = Source::open(path.as_deref(), null)?;
                    // Empty lines are kept, so that linked or combined values do not shift.
                    let source = if alone { source } else { source.with_empty() };
                    lists.unread.push_back((lists.lists.len(), source));
                    Vec::new()
                }
            };
            lists.lists.push(List { values, linked });
        }
        lists.count()?;
        Ok(lists)
    }

    /// Returns the groups of linked lists, with the number of records of each group.
    fn groups(&self) -> Vec<(&[List], u64)> {
        let groups = self.lists.chunk_by(|_, next| next.linked);
        let shortest =
            |group: &[List]| group.iter().map(|list| list.values.len() as u64).min().unwrap_or(0);
        groups.map(|group| (group, shortest(group))).collect()
    }

    fn count(&mut self) -> Result<()> {
        if !self.unread.is_empty() {
            return Ok(());
        }
        let total =
            self.groups().iter().try_fold(1_u64, |total, (_, records)| total.checked_mul(*records));
        let many =
            || Error::Usage("the sources make more combinations than can be counted".to_owned());
        self.total = total.ok_or_else(many)?;
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let Some((of, source)) = self.unread.front_mut() else { return Ok(()) };
        source.read()?;
        self.lists[*of].values.extend(std::iter::from_fn(|| source.next()));
        if source.is_over() {
            self.unread.pop_front();
        }
        self.count()
    }

    /// Returns the next combination; the last source changes fastest.
    fn next(&mut self) -> Option<Arguments> {
        if !self.unread.is_empty() || self.next == self.total {
            return None;
        }
        let mut record = Vec::with_capacity(self.lists.len());
        let mut below = self.total;
        for (group, records) in self.groups() {
            below /= records;
            let at = (self.next / below % records) as usize;
            record.extend(group.iter().map(|list| list.values[at].clone()));
        }
        self.next += 1;
        Some(record)
    }
}

fn sources(words: &[OsString]) -> Result<Vec<Named>> {
    let mut all = Vec::new();
    for group in words.chunk_by(|_, next| separator(next).is_none()) {
        let [first, rest @ ..] = group else { continue };
        match separator(first) {
            Some((true, _)) if rest.is_empty() => {
                return Err(Error::Usage(format!("no file behind {}", first.display())));
            }
            Some((true, linked)) => {
                all.extend(rest.iter().map(|path| Named { linked, from: file(path) }))
            }
            Some((false, linked)) => {
                let values = rest.iter().map(|word| word.as_bytes().to_vec()).collect();
                all.push(Named { linked, from: From::Values(values) });
            }
            None => (),
        }
    }
    Ok(all)
}

fn file(path: &OsStr) -> From {
    From::File(Some(path).filter(|path| *path != "-").map(PathBuf::from))
}

/// The separator of columns.
#[derive(Debug)]
struct Columns(Regex);

impl Columns {
    fn new(pattern: &str) -> Result<Self> {
        let regex = Regex::new(&latin(pattern.as_bytes()));
        regex.map(Self).map_err(|why| {
            Error::Usage(format!("--colsep {pattern:?} is no regular expression: {why}"))
        })
    }

    /// Splits a value into columns.
    fn of(&self, value: &[u8]) -> Vec<Vec<u8>> {
        // All characters are bytes here.
        let bytes = |column: &str| column.chars().map(|byte| byte as u8).collect();
        self.0.split(&latin(value)).map(bytes).collect()
    }
}

/// Returns a text with one character per byte.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn args(line: &str) -> FarmRunArgs {
        let command = FarmRunArgs::augment_args(Command::new("run"));
        let words = ["run"].into_iter().chain(line.split(' '));
        FarmRunArgs::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    fn refused(line: &str) -> String {
        Input::open(&args(line), false).unwrap_err().to_string()
    }

    /// All tasks, with blanks between their arguments.
    fn tasks(line: &str) -> Vec<String> {
        let mut input = Input::open(&args(line), false).unwrap();
        let mut tasks = Vec::new();
        while !input.is_over() {
            match input.next() {
                Some(arguments) => tasks.push(String::from_utf8(arguments.join(&b' ')).unwrap()),
                None => input.read().unwrap(),
            }
        }
        assert_eq!((input.next(), input.total()), (None, Some(tasks.len() as u64)));
        tasks
    }

    #[test]
    fn sources_are_combined() {
        assert_eq!(tasks("-- x ::: a b ::: 1 2 3"), ["a 1", "a 2", "a 3", "b 1", "b 2", "b 3"]);
        assert_eq!(tasks("-- x ::: a b :::+ 1 2 3"), ["a 1", "b 2"]);
        assert_eq!(tasks("-- x ::: a b :::+ 1 2 3 ::: x y"), ["a 1 x", "a 1 y", "b 2 x", "b 2 y"]);
        assert_eq!(tasks("-- x ::: a b ::: x y :::+ 1 2"), ["a x 1", "a y 2", "b x 1", "b y 2"]);
        assert_eq!(tasks("-- x :::"), Vec::<String>::new());
        assert_eq!(tasks("-- x ::: a b ::: "), ["a ", "b "]);
    }

    #[test]
    fn records_make_tasks() {
        assert_eq!(tasks("-n 2 -- x ::: a b c"), ["a b", "c"]);
        assert_eq!(tasks("-n 2 -- x ::: 1 2 ::: a b"), ["1 a 1 b", "2 a 2 b"]);
        assert_eq!(tasks("--colsep , -- x ::: a,b c"), ["a b", "c"]);
        assert_eq!(tasks("--colsep ,+ -n 2 -- x ::: a,,b c,d e"), ["a b c d", "e"]);
        assert_eq!(tasks("--colsep \\s|ä -- x ::: a\tb\u{e4}c"), ["a b c"]);
    }

    #[test]
    fn files_are_sources() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&one, "a\n\nb").unwrap();
        std::fs::write(&two, "1\n2\n").unwrap();
        assert_eq!(tasks(&format!("-a {one} -- x")), ["a", "b"]);
        assert_eq!(tasks(&format!("-n 3 -- x :::: {one}")), ["a b"]);
        assert_eq!(tasks(&format!("-a {two} -a {two} -- x")), ["1 1", "1 2", "2 1", "2 2"]);
        // An empty line counts where other sources are linked to it.
        assert_eq!(tasks(&format!("-- x :::: {one} ::::+ {two}")), ["a 1", " 2"]);
        assert_eq!(tasks(&format!("-a {two} -- x ::: y :::: {two}")).len(), 4);
        let mut input = Input::open(&args(&format!("-n 2 -a {one} -- x")), false).unwrap();
        assert_eq!((input.total(), input.next(), input.total()), (Some(1), None, Some(1)));
        let mut whole = Input::open(&args(&format!("-a {one} -- x")), true).unwrap();
        assert_eq!((whole.total(), whole.read().is_ok(), whole.next()), (None, true, None));
        assert_eq!((whole.read().is_ok(), whole.total()), (true, Some(2)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(
            refused("-- x :::+ a"),
            "a source that is linked (:::+, ::::+) needs another before it"
        );
        assert_eq!(refused("-a - -- x :::: -"), "standard input can be one source only");
        assert_eq!(refused("-- x ::: a ::::"), "no file behind ::::");
        assert!(
            refused("--colsep ( -- x").starts_with("--colsep \"(\" is no regular expression: ")
        );
    }
}
