//! `syncline doctor`: the properties and limits of this machine, with advice on problems.
//!
//! | part      | checks                                                                       |
//! |-----------|------------------------------------------------------------------------------|
//! | `disk`    | the file system of a folder: speed, direct I/O, extended attributes          |
//! | `machine` | memory, cores, and the kernel features that teams, locks and files use       |
//! | `limits`  | the limits of a process, a user and a control group                          |
//! | `network` | MPIs: compilers, launchers, shims; the carrier of messages between hosts     |

mod disk;
mod limits;
mod machine;
mod network;

use std::fmt::Write as _;

use serde::Serialize;
use syncline_common::words::plural;

use crate::args::DoctorArgs;
use crate::error::{Error, Result};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    part: &'static str,
    name: &'static str,
    found: String,
    ok: bool,
    /// What to do, if there is a problem.
    advice: Option<String>,
}

impl Check {
    fn fine(part: &'static str, name: &'static str, found: impl Into<String>) -> Check {
        Check { part, name, found: found.into(), ok: true, advice: None }
    }

    /// Adds advice, if `so`.
    fn advise(self, so: bool, advice: impl Into<String>) -> Check {
        if so { Check { ok: false, advice: Some(advice.into()), ..self } } else { self }
    }
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    warnings: usize,
    checks: &'a [Check],
}

/// `syncline doctor`.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<String> {
    let mut checks = disk::checks(&args.dir)?;
    checks.extend(machine::checks().into_iter().chain(limits::checks()).chain(network::checks()));
    let warnings = checks.iter().filter(|check| !check.ok).count();
    if args.json {
        return serde_json::to_string(&Json { warnings, checks: &checks })
            .map_err(|error| Error::Io { what: "write JSON".to_owned(), source: error.into() });
    }
    Ok(text(&checks, warnings))
}

fn text(checks: &[Check], warnings: usize) -> String {
    let mut text = String::new();
    let mut part = "";
    for check in checks {
        if check.part != part {
            part = check.part;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{part}");
        }
        let mark = if check.ok { ' ' } else { '!' };
        let _ = writeln!(text, "{mark} {:13} {}", check.name, check.found);
        if let Some(advice) = &check.advice {
            let _ = writeln!(text, "{:16}-> {advice}", "");
        }
    }
    let _ = match warnings {
        0 => write!(text, "\nNo problem was found."),
        n => write!(text, "\n{n} warning{}, marked with !", plural(n as u64)),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_a_line_and_each_warning_says_what_to_do() {
        let checks = [
            Check::fine("machine", "cores", "2").advise(false, "more"),
            Check::fine("machine", "memory", "1 B").advise(true, "buy some"),
            Check::fine("limits", "files", "20000"),
        ];
        let expected = "\
machine
  cores         2
! memory        1 B
                -> buy some
limits
  files         20000

1 warning, marked with !";
        assert_eq!(text(&checks, 1), expected);
        assert!(text(&checks[..1], 0).ends_with("\nNo problem was found."));
    }
}
