//! Hints for command lines that lack `--` before a program.

use std::ffi::OsString;

use clap::Parser as _;
use syncline_farm_run::quoted;

use crate::args::Args;

/// Returns a hint for a command line of `syncline launch`, `top` or `farm run` that lacks `--`
/// before its program: the command line with `--`, quoted for a shell.
///
/// The program starts at the last place where `--` makes the command line valid, as no word of a
/// program can precede it.
pub(crate) fn before_program(line: &[OsString]) -> Option<String> {
    let first = match line {
        [launch, ..] if launch == "launch" || launch == "top" => 1,
        [farm, run, ..] if farm == "farm" && run == "run" => 2,
        _ => return None,
    };
    if line.iter().any(|word| word == "--") {
        return None;
    }
    let with = |program: usize| {
        let mut words = vec![OsString::from("syncline")];
        words.extend_from_slice(&line[..program]);
        words.push("--".into());
        words.extend_from_slice(&line[program..]);
        words
    };
    // An option is no program: it may be a misspelt option of the command.
    let begins = |program: &usize| !line[*program].as_encoded_bytes().starts_with(b"-");
    let mut valid = (first..line.len()).rev().filter(begins).map(with);
    let words = valid.find(|words| Args::try_parse_from(words).is_ok())?;
    Some(format!("write `--` before the program: {}", String::from_utf8_lossy(&quoted(&words))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> Option<String> {
        before_program(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_program_without_dashes_before_it_is_found() {
        for options in [
            "launch -n 4",
            "launch -n4",
            "launch --processes=4",
            "launch -n 4 --threads 2",
            "launch -n 4 --memory=1G",
            "top --interval 2s",
            "farm run",
            "farm run -k",
            "farm run -k -j 4",
            "farm run -kj4 --timeout=5m --halt now,fail=1",
            "farm run --halt -u",
            "farm run -a tasks.txt -n 2",
        ] {
            assert_eq!(
                hint(&format!("{options} ./prog --size 7 -j 2")).unwrap(),
                format!(
                    "write `--` before the program: syncline {options} -- ./prog --size 7 -j 2"
                )
            );
        }
        assert_eq!(
            hint("farm run -j 2 gzip {} ::: a b").unwrap(),
            "write `--` before the program: syncline farm run -j 2 -- gzip '{}' ::: a b"
        );
        for line in [
            "launch -n 4",
            "launch -n 4 --",
            "launch -n 4 -- ./prog",
            "launch ./prog",
            "launch -n",
            "run lk23 -n 4 x",
            "farm",
            "farm run",
            "farm run -j 4",
            "farm run --jbos 4 ./prog",
            "farm run -k -- ./prog",
            "",
        ] {
            assert_eq!(hint(line), None, "{line}");
        }
    }
}
