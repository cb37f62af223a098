//! A mark on a complete file: the result of which computation it is.
//!
//! # Contract
//! [`Identity::mark`] notes it in an extended attribute of the file, with the file's length and time;
//! [`Identity::made`] tells whether a file is the result of this computation, and has not been written to
//! since. A file without a mark, or on a file system without extended attributes, is nobody's: then a run is
//! made again rather than a stranger's file taken for its result.
//!
//! ```text
//! user.syncline    1 <checksum of the identity> <bytes> <time of the last write, ns> <iterations>
//!                  <last residual, its bits> <iteration in which it converged>        "-": there is none
//! ```
//!
//! "Not written to" is by length and time: who gives a file its old time again is not found out.
//!
//! # Costs
//! A few system calls. It is not brought to disk by itself: after a power failure it may be missing, and the
//! computation is made again.

use std::fs::File;
use std::path::Path;

use rustix::fs::XattrFlags;

use super::Identity;
use crate::chunk::modified;
use crate::{Error, InputId, Result, checksum};

const NAME: &str = "user.syncline";
/// No mark is longer.
const LONGEST: usize = 160;

/// What is known of a result without looking at its numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Made {
    /// The iterations behind it.
    pub iterations: u64,
    /// The residual of the last iteration, if residuals were taken; it comes back bit by bit.
    pub residual: Option<f64>,
    /// The first iteration, from 0, whose residual was small enough, if there was one.
    pub converged: Option<u64>,
}

impl Made {
    fn encode(&self) -> String {
        let residual = self.residual.map_or("-".to_owned(), |value| format!("{:016x}", value.to_bits()));
        let converged = self.converged.map_or("-".to_owned(), |iteration| iteration.to_string());
        format!("{} {residual} {converged}", self.iterations)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let iterations = words.next()?.parse().ok()?;
        let residual = match words.next()? {
            "-" => None,
            bits => Some(f64::from_bits(u64::from_str_radix(bits, 16).ok()?)),
        };
        let converged = match words.next()? {
            "-" => None,
            iteration => Some(iteration.parse().ok()?),
        };
        words.next().is_none().then_some(Self { iterations, residual, converged })
    }
}

impl Identity {
    /// Notes on a file that is written to its end that it is the result of this computation. Where the file
    /// system has no room for the note, there is none.
    pub fn mark(&self, file: &File, made: &Made) {
        if let (Some(text), Ok(found)) = (self.sum(), file.metadata()) {
            let (bytes, time) = (found.len(), modified(&found));
            let text = format!("1 {text} {bytes} {time} {}", made.encode());
            // Without it the computation is made again if it is asked for again: nothing is lost.
            let _ = rustix::fs::fsetxattr(file, NAME, text.as_bytes(), XattrFlags::empty());
        }
    }

    /// What was noted on the file, if it is the result of this computation and was not written to since.
    #[must_use]
    pub fn made(&self, path: &Path) -> Option<Made> {
        // To open a pipe would wait for its writer.
        let file = path.is_file().then(|| File::open(path).ok()).flatten()?;
        let mut text = [0; LONGEST];
        let len = rustix::fs::fgetxattr(&file, NAME, &mut text).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let found = file.metadata().ok()?;
        let before = format!("1 {} {} {} ", self.sum()?, found.len(), modified(&found));
        Made::decode(text.strip_prefix(&before)?)
    }

    /// Whether the inputs are what they were when this was made.
    ///
    /// # Errors
    /// [`Error::InputChanged`] names one that is not, [`Error::File`] one that cannot be looked at.
    pub fn check_inputs(&self) -> Result<()> {
        for then in &self.inputs {
            if InputId::of(&then.name, &then.path)? != *then {
                return Err(Error::InputChanged { path: then.path.clone() });
            }
        }
        Ok(())
    }

    fn sum(&self) -> Option<String> {
        Some(format!("{:016x}", checksum(&serde_json::to_vec(self).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// As it stands in the file; residuals may be NaN.
    fn found(identity: &Identity, path: &Path) -> Option<String> {
        identity.made(path).map(|made| made.encode())
    }

    #[test]
    fn only_the_same_computation_and_the_same_file_count() {
        let folder = tempfile::tempdir().unwrap();
        let (path, input) = (folder.path().join("out"), folder.path().join("in"));
        std::fs::write(&input, "input").unwrap();
        let mut file = File::create(&path).unwrap();
        file.write_all(b"result").unwrap();
        let mut identity = Identity::default();
        identity.what.insert("kernel".to_owned(), "a".to_owned());
        identity.inputs.push(InputId::of("in", &input).unwrap());
        assert_eq!(found(&identity, &path), None);
        let seven = Made { iterations: 7, residual: Some(0.5), converged: Some(5) };
        identity.mark(&file, &seven);
        if rustix::fs::fgetxattr(&file, NAME, &mut [0; LONGEST]).is_err() {
            println!("skipped: {} has no extended attributes", folder.path().display());
            return;
        }
        assert_eq!(found(&identity, &path), Some("7 3fe0000000000000 5".to_owned()));
        let moved = folder.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!((found(&identity, &path), found(&identity, &moved)), (None, Some(seven.encode())));
        let mut other = identity.clone();
        other.what.insert("kernel".to_owned(), "b".to_owned());
        assert_eq!(found(&other, &moved), None);
        file.write_all(b"!").unwrap();
        assert_eq!(found(&identity, &moved), None);
        let lowest = Made { residual: Some(-f64::NAN), ..Made::default() };
        let longest = Made { iterations: u64::MAX, residual: Some(-f64::NAN), converged: Some(u64::MAX) };
        for made in [Made::default(), lowest, longest] {
            identity.mark(&file, &made);
            assert_eq!(found(&identity, &moved), Some(made.encode()));
        }
        let before = format!("1 {} 7 {}", identity.sum().unwrap(), modified(&file.metadata().unwrap()));
        for lie in ["", "1", "1 0 0 0 0", "2 x", &"9".repeat(LONGEST + 1), &format!("{before} 7")] {
            rustix::fs::fsetxattr(&file, NAME, lie.as_bytes(), XattrFlags::empty()).unwrap();
            assert_eq!(found(&identity, &moved), None, "{lie}");
        }
        assert_eq!(found(&identity, folder.path()), None);
    }

    #[test]
    fn what_is_no_note_is_none() {
        for text in ["", "7", "7 -", "7 - x", "7 - - -", "x - -", "7 0.5 -", "-1 - -", "7  - -", "7 - -1"] {
            assert!(Made::decode(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_changed_input_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("zr.npy");
        std::fs::write(&input, "before").unwrap();
        let identity = Identity { inputs: vec![InputId::of("zr", &input).unwrap()], ..Identity::default() };
        identity.check_inputs().unwrap();
        std::fs::write(&input, "longer than before").unwrap();
        let error = identity.check_inputs().unwrap_err();
        assert!(
            matches!(&error, Error::InputChanged { .. }) && error.to_string().contains("zr.npy"),
            "{error}"
        );
        std::fs::remove_file(&input).unwrap();
        assert!(matches!(identity.check_inputs(), Err(Error::File { .. })));
    }
}
