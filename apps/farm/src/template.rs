//! A command with replacement strings, as in GNU parallel.
//!
//! | string  | replaced by                        | for `a/b.c`, task 3, slot 2  |
//! |---------|------------------------------------|------------------------------|
//! | `{}`    | the input                          | `a/b.c`                      |
//! | `{.}`   | the input without extension        | `a/b`                        |
//! | `{/}`   | its basename                       | `b.c`                        |
//! | `{//}`  | its dirname                        | `a`                          |
//! | `{/.}`  | its basename without extension     | `b`                          |
//! | `{#}`   | the sequence number of the job     | `3`                          |
//! | `{%}`   | the job slot number                | `2`                          |
//! | `{2}`   | the second argument; also `{2/.}`   |                              |
//! | `{-1}`  | the last argument; also `{-1/.}`    |                              |
//!
//! A task may have several arguments (`-n`, `--colsep`, several sources). An argument of the
//! command that consists of one string without a number becomes one argument for each of them.
//! Within a longer argument they are joined by blanks. A task without the argument that a
//! positional string names is not run ([`Template::missing`]). If no string refers to the input,
//! the inputs are appended.
//!
//! A backslash directly before a string makes the string plain text, and is removed: `\{2}` is
//! `{2}`. A double backslash there is one backslash before a string that is replaced. All other
//! backslashes are left as they are.
//!
//! Inserted text is not expanded again: a task may contain `{}` itself.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The maximum number of digits of a slot number.
const MOST_DIGITS: usize = 9;

/// A command with replacement strings.
#[derive(Clone, Debug)]
pub(super) struct Template {
    parts: Vec<Vec<Piece>>,
}

/// A piece of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Input(Which, Form),
    Number,
    Slot,
}

/// The arguments of a task that a string is replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Counted from 1.
    First(usize),
    /// Counted from 1, from the end.
    Last(usize),
}

/// The part of an argument that is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Stem,
    Base,
    Dir,
    BaseStem,
}

impl Template {
    /// Parses the words of a command.
    pub(super) fn new(parts: &[OsString]) -> Self {
        let mut parts: Vec<_> = parts.iter().map(|part| pieces(part.as_bytes())).collect();
        if !parts.iter().flatten().any(|piece| matches!(piece, Piece::Input(..))) {
            parts.push(vec![Piece::Input(Which::All, Form::Whole)]);
        }
        Self { parts }
    }

    /// Returns whether all tasks run the same program.
    pub(super) fn one_program(&self) -> bool {
        let is_text = |piece: &Piece| matches!(piece, Piece::Text(_));
        self.parts.first().is_none_or(|part| part.iter().all(is_text))
    }

    /// Returns the first string that names an argument which a task with this number of arguments
    /// does not have.
    pub(super) fn missing(&self, args: usize) -> Option<Missing> {
        self.parts.iter().flatten().find_map(|piece| match *piece {
            Piece::Input(which, form) if which.least() > args => Some(Missing { which, form }),
            _ => None,
        })
    }

    /// Returns the command of one task. A string that names an argument that is
    /// [missing](Self::missing) is replaced by nothing.
    pub(super) fn fill(&self, args: &[Vec<u8>], number: u64, slot: usize) -> Vec<OsString> {
        let mut filled = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            if let [Piece::Input(Which::All, form)] = part.as_slice() {
                filled.extend(args.iter().map(|arg| OsString::from_vec(form.of(arg).to_vec())));
                continue;
            }
            let mut text = Vec::new();
            for piece in part {
                piece.fill(&mut text, args, number, slot);
            }
            filled.push(OsString::from_vec(text));
        }
        filled
    }
}

/// A string that names an argument which a task does not have. Displayed as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    which: Which,
    form: Form,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self.which {
            Which::All => String::new(),
            Which::First(number) => number.to_string(),
            Which::Last(number) => format!("-{number}"),
        };
        let form = match self.form {
            Form::Whole => "",
            Form::Stem => ".",
            Form::Base => "/",
            Form::Dir => "//",
            Form::BaseStem => "/.",
        };
        write!(f, "{{{number}{form}}}")
    }
}

impl Which {
    /// Returns the least number of arguments among which these are.
    fn least(self) -> usize {
        match self {
            Self::All => 0,
            Self::First(number) | Self::Last(number) => number,
        }
    }
}

impl Piece {
    fn fill(&self, to: &mut Vec<u8>, args: &[Vec<u8>], number: u64, slot: usize) {
        match self {
            Self::Text(text) => to.extend_from_slice(text),
            Self::Number => to.extend_from_slice(number.to_string().as_bytes()),
            Self::Slot => to.extend_from_slice(slot.to_string().as_bytes()),
            Self::Input(Which::All, form) => {
                for (at, arg) in args.iter().enumerate() {
                    to.extend_from_slice(if at > 0 { b" " } else { b"" });
                    to.extend_from_slice(form.of(arg));
                }
            }
            Self::Input(which, form) => {
                let at = match which {
                    Which::First(number) => Some(number - 1),
                    Which::Last(number) => args.len().checked_sub(*number),
                    Which::All => None,
                };
                to.extend_from_slice(
                    at.and_then(|at| args.get(at)).map_or(&[], |arg| form.of(arg)),
                );
            }
        }
    }
}

impl Form {
    fn of(self, arg: &[u8]) -> &[u8] {
        match self {
            Self::Whole => arg,
            Self::Stem => &arg[..arg.len() - base(arg).len() + stem(base(arg)).len()],
            Self::Base => base(arg),
            Self::Dir => dir(arg),
            Self::BaseStem => stem(base(arg)),
        }
    }
}

/// Returns the part after the last `/`.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Returns the part before the last `.`, if that is not the last character.
fn stem(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot + 1 < name.len() => &name[..dot],
        _ => name,
    }
}

/// Returns the directory as dirname(1) does: `.` if there is none.
fn dir(path: &[u8]) -> &[u8] {
    let trimmed =
        |path: &[u8]| path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let named = &path[..trimmed(path)];
    if named.is_empty() {
        return if path.is_empty() { b"." } else { b"/" };
    }
    let before = &named[..named.len() - base(named).len()];
    match (before, trimmed(before)) {
        ([], _) => b".",
        (_, 0) => b"/",
        (_, length) => &before[..length],
    }
}

/// Splits an argument of the command into pieces.
fn pieces(mut part: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    while !part.is_empty() {
        let slashes = part.iter().take_while(|&&byte| byte == b'\\').count();
        let found = part[slashes..].strip_prefix(b"{").and_then(string);
        let Some((piece, after)) = found else {
            let plain = slashes.max(1);
            text.extend_from_slice(&part[..plain]);
            part = &part[plain..];
            continue;
        };
        text.extend_from_slice(&part[..slashes / 2]);
        if slashes % 2 == 1 {
            text.extend_from_slice(&part[slashes..part.len() - after.len()]);
        } else {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(piece);
        }
        part = after;
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

/// Parses the replacement string after a `{`; also returns the text after it.
fn string(rest: &[u8]) -> Option<(Piece, &[u8])> {
    let end = rest.iter().position(|&byte| byte == b'}')?;
    let (inner, after) = (std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]);
    let digits =
        inner.find(|byte: char| byte != '-' && !byte.is_ascii_digit()).unwrap_or(inner.len());
    let (number, form) = inner.split_at(digits);
    let form = match form {
        "" => Form::Whole,
        "." => Form::Stem,
        "/" => Form::Base,
        "//" => Form::Dir,
        "/." => Form::BaseStem,
        "#" if number.is_empty() => return Some((Piece::Number, after)),
        "%" if number.is_empty() => return Some((Piece::Slot, after)),
        _ => return None,
    };
    let which = match number.parse::<i32>() {
        _ if number.is_empty() => Which::All,
        Ok(first @ 1..) => Which::First(first as usize),
        Ok(last @ ..=-1) => Which::Last(last.unsigned_abs() as usize),
        _ => return None,
    };
    Some((Piece::Input(which, form), after))
}

/// Returns a command as a shell line, quoted as GNU parallel does.
#[must_use]
pub fn quoted(command: &[OsString]) -> Vec<u8> {
    let mut line = Vec::new();
    for (at, word) in command.iter().enumerate() {
        line.extend_from_slice(if at > 0 { b" " } else { b"" });
        let word = word.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+=:,./@%^".contains(byte);
        if !word.is_empty() && word.iter().all(plain) {
            line.extend_from_slice(word);
            continue;
        }
        line.push(b'\'');
        for &byte in word {
            match byte {
                b'\'' => line.extend_from_slice(b"'\"'\"'"),
                other => line.push(other),
            }
        }
        line.push(b'\'');
    }
    line
}

/// Puts a command on one line as GNU parallel does: a zero byte replaces each line break.
pub(super) fn on_one_line(mut line: Vec<u8>) -> Vec<u8> {
    line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = 0);
    line
}

/// Returns whether a line is the command of this task, at any slot.
pub(super) fn is_line_of(line: &[u8], template: &Template, args: &[Vec<u8>], number: u64) -> bool {
    let with = |slot| on_one_line(quoted(&template.fill(args, number, slot)));
    let (zero, one) = (with(0), with(1));
    // The two differ at the first slot number, and nowhere before.
    let Some(at) = zero.iter().zip(&one).position(|(zero, one)| zero != one) else {
        return line == zero;
    };
    let digits = line.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count();
    (1..=digits.min(MOST_DIGITS)).any(|digits| {
        let slot =
            std::str::from_utf8(&line[at..at + digits]).ok().and_then(|slot| slot.parse().ok());
        slot.is_some_and(|slot| with(slot) == line)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    fn filled(parts: &[&str], args: &[&str], number: u64) -> Vec<String> {
        let parts: Vec<_> = parts.iter().map(OsString::from).collect();
        let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let all = Template::new(&parts).fill(&args, number, 2);
        all.into_iter().map(|part| part.into_string().unwrap()).collect()
    }

    #[test]
    fn strings_are_replaced() {
        assert_eq!(filled(&["cp", "{}", "{}.old"], &["a b"], 3), ["cp", "a b", "a b.old"]);
        assert_eq!(filled(&["echo", "{#}:{%}"], &["a b"], 3), ["echo", "3:2", "a b"]);
        assert_eq!(filled(&["{}"], &["a"], 1), ["a"]);
        assert_eq!(filled(&["x", "{{}}{#}{#", "{"], &["{}{#}"], 12), ["x", "{{}{#}}12{#", "{"]);
        assert_eq!(
            filled(&["{0}{1#}{a}{--1}{..}", "{1}"], &["x"], 1),
            ["{0}{1#}{a}{--1}{..}", "x"]
        );
        assert!(!Template::new(&["./{#}".into()]).one_program());
        assert!(Template::new(&["a".into(), "{}".into()]).one_program());
    }

    #[test]
    fn a_backslash_makes_a_string_plain_text() {
        assert_eq!(filled(&["a\\{2}b", "\\{}", "{}"], &["x"], 1), ["a{2}b", "{}", "x"]);
        assert_eq!(filled(&["\\\\{}", "\\\\\\{}", "\\{#}{#}"], &["x"], 7), ["\\x", "\\{}", "{#}7"]);
        // Before anything else it is an ordinary byte.
        assert_eq!(
            filled(&["\\n\\\\", "\\{a}", "x\\{2\\}", "{}\\"], &["x"], 1),
            ["\\n\\\\", "\\{a}", "x\\{2\\}", "x\\"]
        );
        // Plain text does not refer to the input, which is appended.
        assert_eq!(filled(&["\\{}"], &["x"], 1), ["{}", "x"]);
    }

    #[test]
    fn a_string_beyond_the_arguments_is_named() {
        let missing = |parts: &[&str], args| {
            let parts: Vec<_> = parts.iter().map(OsString::from).collect();
            Template::new(&parts).missing(args).map(|missing| missing.to_string())
        };
        for name in ["{2}", "{2.}", "{2/}", "{2//}", "{2/.}", "{-2}", "{-2/.}"] {
            let parts = ["x", &format!("{{1}}{{-1}}{{}}{{#}}{name}"), "{3}"];
            assert_eq!(missing(&parts, 1).as_deref(), Some(name));
            assert_eq!(missing(&parts, 2).as_deref(), Some("{3}"));
            assert_eq!(missing(&parts, 3), None);
        }
        assert_eq!(missing(&["x", "{}", "\\{2}", "{#}{%}"], 0), None);
    }

    /// The results of GNU parallel 20221122.
    #[test]
    fn parts_of_paths_are_those_of_gnu_parallel() {
        for (path, expected) in [
            ("a", "a a . a"),
            ("b/", "b/  . "),
            (".bashrc", " .bashrc . "),
            ("a/.x", "a/ .x a "),
            ("/", "/  / "),
            ("b/c.d.e", "b/c.d c.d.e b c.d"),
            ("x.", "x. x. . x."),
            ("", "  . "),
            ("/a", "/a a / a"),
            ("a//b/", "a//b/  a "),
            ("sub.dir/bar", "sub.dir/bar bar sub.dir bar"),
        ] {
            assert_eq!(filled(&["{.} {/} {//} {/.}"], &[path], 1), [expected], "{path}");
        }
    }

    #[test]
    fn several_arguments_have_positions() {
        assert_eq!(filled(&["{2}-{1}", "{-1/}"], &["a", "b/c"], 1), ["b/c-a", "c"]);
        assert_eq!(
            filled(&["x", "{}", "<{}>", "{/.}"], &["a", "b/c.d"], 1),
            ["x", "a", "b/c.d", "<a b/c.d>", "a", "c"]
        );
        assert_eq!(filled(&["x"], &["a", "b"], 1), ["x", "a", "b"]);
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let line = quoted(&["echo".into(), "a b".into(), "c'd".into(), "".into(), "$HOME".into()]);
        assert_eq!(String::from_utf8(line).unwrap(), r#"echo 'a b' 'c'"'"'d' '' '$HOME'"#);
    }

    #[test]
    fn a_line_is_known_whatever_its_slot_was() {
        let template = Template::new(&["run{%}".into(), "{} 7{%}".into(), "{#}".into()]);
        let is =
            |line: &str, number| is_line_of(line.as_bytes(), &template, &[b"4".to_vec()], number);
        assert!(is("run3 '4 73' 5", 5) && is("run12 '4 712' 5", 5));
        for line in
            ["run3 '4 73' 6", "run3 '4 73' 5 ", "run '4 7' 5", "run3 '5 73' 5", "run3 '4 73", ""]
        {
            assert!(!is(line, 5), "{line}");
        }
        let template = Template::new(&["{%}5".into()]);
        assert!(is_line_of(b"255 4", &template, &[b"4".to_vec()], 1));
        assert!(!is_line_of(b"25 5", &template, &[b"4".to_vec()], 1));
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn filling_is_replacing(before in "[a-z#{]{0,4}[a-z]", after in "[a-z][a-z#}]{0,4}", text in "\\PC{0,8}", number: u64) {
            let parts = [format!("{before}{{}}{after}"), format!("{before} {{#}}{after}")];
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let expected = [format!("{before}{text}{after}"), format!("{before} {number}{after}")];
            prop_assert_eq!(filled(&parts, &[&text], number), expected);
        }

        #[test]
        fn escaped_text_comes_out_as_it_went_in(words in prop::collection::vec("[a{}1#.\\\\]{0,6}", 1..4)) {
            // As a user would escape it: a backslash before each string, and before each backslash
            // that stands directly before one.
            let escaped = |word: &String| {
                let bytes = word.as_bytes();
                let mut out = Vec::new();
                for at in 0..bytes.len() {
                    let run = bytes[at..].iter().take_while(|&&byte| byte == b'\\').count();
                    let begins = bytes[at + run..].strip_prefix(b"{").is_some_and(|rest| string(rest).is_some());
                    out.extend(begins.then_some(b'\\'));
                    out.push(bytes[at]);
                }
                String::from_utf8(out).unwrap()
            };
            let escaped: Vec<_> = words.iter().map(escaped).collect();
            let parts: Vec<&str> = escaped.iter().map(String::as_str).chain(["{}"]).collect();
            let expected: Vec<_> = words.into_iter().chain(["x".to_owned()]).collect();
            prop_assert_eq!(filled(&parts, &["x"], 1), expected);
        }

        #[test]
        fn without_strings_nothing_changes(part in "[a-z#{ ]{0,9}", text in "\\PC{0,8}") {
            prop_assert_eq!(filled(&[&part], &[&text], 1), [part, text]);
        }

        #[test]
        fn a_shell_reads_back_what_was_quoted(words in prop::collection::vec("[ -~\n]{0,6}", 1..4)) {
            let line = quoted(&words.iter().map(OsString::from).collect::<Vec<_>>());
            let script = format!("printf '%s\\0' {}", String::from_utf8(line).unwrap());
            let read = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            prop_assert_eq!(String::from_utf8(read).unwrap(), expected);
        }
    }
}
