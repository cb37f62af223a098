//! A command with holes: `{}` for a task's text, `{#}` for its number.
//!
//! | arguments      | task 3, `a b` | become             |
//! |----------------|---------------|--------------------|
//! | `cp {} {}.old` |               | `cp` `a b` `a b.old` |
//! | `echo {#}:`    |               | `echo` `3:` `a b`  |
//!
//! What is put in is not looked at again: a task may contain `{}` itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// A command with holes.
#[derive(Clone, Debug)]
pub(super) struct Template {
    parts: Vec<OsString>,
    /// Whether the text goes behind the last argument, for want of a hole.
    append: bool,
}

impl Template {
    /// The parts of a command, as they were given.
    pub(super) fn new(parts: &[OsString]) -> Self {
        let append = !parts.iter().any(|part| holes(part.as_bytes(), b"{}"));
        Self { parts: parts.to_vec(), append }
    }

    /// Whether all tasks run the same program.
    pub(super) fn one_program(&self) -> bool {
        self.parts
            .first()
            .is_none_or(|part| !holes(part.as_bytes(), b"{}") && !holes(part.as_bytes(), b"{#}"))
    }

    /// The command of one task.
    pub(super) fn fill(&self, text: &[u8], number: u64) -> Vec<OsString> {
        let number = number.to_string();
        let filled = self.parts.iter().map(|part| OsString::from_vec(fill(part.as_bytes(), text, &number)));
        filled.chain(self.append.then(|| OsStr::from_bytes(text).to_owned())).collect()
    }
}

/// Whether there is such a hole.
fn holes(part: &[u8], hole: &[u8]) -> bool {
    part.windows(hole.len()).any(|here| here == hole)
}

fn fill(mut part: &[u8], text: &[u8], number: &str) -> Vec<u8> {
    let mut filled = Vec::with_capacity(part.len() + text.len());
    while let Some(&first) = part.first() {
        let (with, after): (&[u8], _) = match part {
            [b'{', b'}', after @ ..] => (text, after),
            [b'{', b'#', b'}', after @ ..] => (number.as_bytes(), after),
            _ => (&[first], &part[1..]),
        };
        filled.extend_from_slice(with);
        part = after;
    }
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(parts: &[&str], text: &str, number: u64) -> Vec<String> {
        let parts: Vec<_> = parts.iter().map(OsString::from).collect();
        let all = Template::new(&parts).fill(text.as_bytes(), number);
        all.into_iter().map(|part| part.into_string().unwrap()).collect()
    }

    #[test]
    fn holes_are_filled() {
        assert_eq!(filled(&["cp", "{}", "{}.old"], "a b", 3), ["cp", "a b", "a b.old"]);
        assert_eq!(filled(&["echo", "{#}:"], "a b", 3), ["echo", "3:", "a b"]);
        assert_eq!(filled(&["{}"], "a", 1), ["a"]);
        assert_eq!(filled(&["x", "{{}}{#}{#", "{"], "{}{#}", 12), ["x", "{{}{#}}12{#", "{"]);
        assert!(!Template::new(&["./{#}".into()]).one_program());
        assert!(Template::new(&["a".into(), "{}".into()]).one_program());
    }

    proptest! {
        #[test]
        fn filling_is_replacing(before in "[a-z#{]{0,4}[a-z]?", after in "[a-z][a-z#}]{0,4}", text in "\\PC{0,8}", number: u64) {
            let parts = [format!("{before}{{}}{after}"), format!("{before} {{#}}{after}")];
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let expected = [format!("{before}{text}{after}"), format!("{before} {number}{after}")];
            prop_assert_eq!(filled(&parts, &text, number), expected);
        }

        #[test]
        fn without_holes_nothing_changes(part in "[a-z#{ ]{0,9}", text in "\\PC{0,8}") {
            prop_assert_eq!(filled(&[&part], &text, 1), [part, text]);
        }
    }
}
