//! The family and version of an MPI.
//!
//! | family         | in a shim | text of the library                              |
//! |----------------|-----------|--------------------------------------------------|
//! | `OpenMpi`      | openmpi   | `Open MPI v4.1.4, package: ...`                  |
//! | `Mpich`        | mpich     | `MPICH Version:  4.0.2`, and more lines           |
//! | `IntelMpi`     | intel     | `Intel(R) MPI Library 2021.10 for Linux* OS`     |
//! | `StandardAbi`  | abi       | that of the library with the standard's ABI      |
//! | `Other`        | other     | anything else                                    |

use std::fmt;

/// The implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Family {
    /// Open MPI, and its derivatives.
    OpenMpi,
    /// MPICH.
    Mpich,
    /// Intel MPI, which a launcher treats as an MPICH.
    IntelMpi,
    /// Any MPI with the binary interface of MPI 5.
    StandardAbi,
    /// Any other MPI.
    Other,
}

impl Family {
    /// Returns the name that stands in a shim and in the name of its file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Family::OpenMpi => "openmpi",
            Family::Mpich => "mpich",
            Family::IntelMpi => "intel",
            Family::StandardAbi => "abi",
            Family::Other => "other",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Family> {
        let all =
            [Family::OpenMpi, Family::Mpich, Family::IntelMpi, Family::StandardAbi, Family::Other];
        all.into_iter().find(|family| family.name() == name)
    }

    /// Whether a shim for `self` may run if `there` is the family of the launcher or of the loaded
    /// library.
    pub(crate) fn fits(self, there: Family) -> bool {
        let kin = |family| if family == Family::IntelMpi { Family::Mpich } else { family };
        let any = |family| matches!(family, Family::StandardAbi | Family::Other);
        any(self) || any(there) || kin(self) == kin(there)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::IntelMpi => "Intel MPI",
            Family::StandardAbi => "the ABI of MPI",
            Family::Other => "another MPI",
        })
    }
}

/// A version: numbers first, then any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    pub(crate) fn new(text: &str) -> Version {
        Version(text.to_owned())
    }

    /// Returns the first number, if the version begins with one.
    #[must_use]
    pub fn major(&self) -> Option<u32> {
        self.numbers().first().copied()
    }

    /// Returns the numbers at the start of the version.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        let digits = |part: &str| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse().ok()
        };
        self.0.split('.').map_while(digits).collect()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses the text with which a library describes itself.
pub(crate) fn identify(text: &str) -> (Family, Option<Version>) {
    let first = text.lines().next().unwrap_or_default();
    let after = |mark: &str| {
        let rest = first.split_once(mark)?.1.trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
        (end > 0).then(|| Version::new(&rest[..end]))
    };
    if first.starts_with("Open MPI") {
        (Family::OpenMpi, after("Open MPI v"))
    } else if first.starts_with("Intel") {
        (Family::IntelMpi, after("Library"))
    } else if first.starts_with("MPICH") {
        (Family::Mpich, after("Version:"))
    } else {
        (Family::Other, None)
    }
}

/// Returns the first non-empty line of the text of a library, with single spaces.
pub(crate) fn in_short(text: &str) -> String {
    let first =
        text.lines().find(|line| !line.trim().is_empty()).unwrap_or("an MPI without a name");
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_what_they_say() {
        let cases = [
            (
                "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4",
                Family::OpenMpi,
                Some("4.1.4"),
                Some(4),
            ),
            ("Open MPI v5.0.11rc1, package", Family::OpenMpi, Some("5.0.11rc1"), Some(5)),
            (
                "MPICH Version:\t4.0.2\nMPICH Release date:\tThu",
                Family::Mpich,
                Some("4.0.2"),
                Some(4),
            ),
            ("MPICH Version:      5.0.2\n", Family::Mpich, Some("5.0.2"), Some(5)),
            (
                "Intel(R) MPI Library 2021.10 for Linux* OS\n",
                Family::IntelMpi,
                Some("2021.10"),
                Some(2021),
            ),
            ("MVAPICH2 Version      :\t2.3.7", Family::Other, None, None),
            ("MPICH Version:", Family::Mpich, None, None),
            ("", Family::Other, None, None),
        ];
        for (text, family, version, major) in cases {
            let found = identify(text);
            assert_eq!(
                (found.0, found.1.as_ref().map(|v| v.0.as_str())),
                (family, version),
                "{text}"
            );
            assert_eq!(found.1.and_then(|version| version.major()), major, "{text}");
        }
        assert_eq!(in_short("\nMPICH Version:\t4.0.2\nmore"), "MPICH Version: 4.0.2");
        assert_eq!(Version::new("5.0.11rc1").numbers(), [5, 0, 11]);
        assert!(Version::new("").major().is_none());
    }

    #[test]
    fn kin_fits() {
        assert!(Family::Mpich.fits(Family::IntelMpi) && Family::StandardAbi.fits(Family::OpenMpi));
        assert!(!Family::Mpich.fits(Family::OpenMpi) && !Family::OpenMpi.fits(Family::IntelMpi));
        assert_eq!(Family::named("intel"), Some(Family::IntelMpi));
    }
}
