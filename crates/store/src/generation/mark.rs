//! A mark on a complete file, which identifies the computation that produced it and its progress.
//!
//! # Contract
//! [`Identity::mark`] stores the mark in an extended attribute of the file, with the file's length
//! and time; [`Existing::at`] reads it back. A file without a mark, on a file system without
//! extended attributes, or written to since it was marked is not a known result: no run treats it
//! as its own, resumes from it or replaces it without a request.
//! After a kill between the naming of a file and the removal of the folder beside it, a run
//! compares the file with the sums of the manifest: a file of another program is not taken for
//! a result.
//!
//! ```text
//! user.syncline             one line of JSON, and one of its checksum:
//!                           {"format":4,"bytes":..,"modified_ns":..,"made":{..},"identity":{..}}
//!                           xxh3 0123456789abcdef
//! user.syncline.residuals   the residuals of all iterations, 8 bytes each, if they fit
//! ```
//!
//! If the mark does not fit, all residuals but the last are left out; then the folders of the
//! inputs' paths (the checksums still identify the inputs); then there is no mark. ext4 has some
//! 4000 bytes, which is about 300 residuals; XFS has 64 KiB.
//!
//! Writes are detected by length and time: a file that was given its old time again is not
//! detected.
//!
//! # Costs
//! A few system calls. The mark reaches the disk with the name that the file gets afterwards,
//! because the sync of the folder writes earlier changes. On file systems where this does not hold,
//! the mark may be missing after a power failure; the file is then not a known result, and is not
//! changed without a request.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::Identity;
use super::manifest::sum_line;
use crate::chunk::modified;
use crate::{Error, Result, checksum::checksum};

const NAME: &str = "user.syncline";
const RESIDUALS: &str = "user.syncline.residuals";
/// The format that is written and read. The identities of format 3 had other keys and sums.
const FORMAT: u32 = 4;
/// The maximal length of a value in bytes: the limit of the kernel.
const LONGEST: usize = 64 << 10;

/// The facts known about a result without reading its data.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// The number of iterations computed.
    pub iterations: u64,
    /// The residuals of the last iterations, exact to the bit: as many as are known, or none if
    /// none were computed.
    pub residuals: Vec<f64>,
    /// The tolerance of the run that ended here, if it had one.
    pub tolerance: Option<f64>,
    /// The first iteration, from 0, whose residual was not above that tolerance, if any.
    pub converged: Option<u64>,
}

impl Made {
    /// Returns the first iteration, from 0, whose residual is known to be at most `tolerance`, if
    /// any.
    ///
    /// A residual that was not computed, or that did not fit in the mark, counts as greater.
    ///
    /// ```
    /// use syncline_store::generation::Made;
    /// let made = Made { iterations: 10, residuals: vec![0.5, 0.25], ..Made::default() };
    /// assert_eq!(made.converged_to(Some(0.25)), Some(9));
    /// assert_eq!((made.converged_to(Some(0.1)), made.converged_to(None)), (None, None));
    /// ```
    #[must_use]
    pub fn converged_to(&self, tolerance: Option<f64>) -> Option<u64> {
        let at = self.residuals.iter().position(|&residual| Some(residual) <= tolerance);
        let known =
            at.map(|at| self.iterations.saturating_sub(self.residuals.len() as u64) + at as u64);
        // A residual that is at most a smaller tolerance is also at most this one.
        let noted =
            self.converged.filter(|_| self.tolerance.is_some() && self.tolerance <= tolerance);
        known.into_iter().chain(noted).min()
    }
}

/// The mark of a file: the computation that produced it, and its progress.
#[derive(Debug, Clone)]
pub struct ResultMark {
    /// The identity of the computation.
    pub identity: Identity,
    /// The progress of the computation.
    pub made: Made,
}

/// The file that has the name of a result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Existing {
    /// There is no file.
    Nothing,
    /// A result that was not written to since it was completed.
    Result(Box<ResultMark>),
    /// Another file, and the reason why it is not a known result: "it has no mark".
    Other(&'static str),
}

#[derive(Serialize, Deserialize)]
struct Text {
    format: u32,
    bytes: u64,
    modified_ns: i128,
    made: Numbers,
    identity: Identity,
}

/// Numbers as their bits, because JSON has neither NaN nor infinity.
#[derive(Serialize, Deserialize)]
struct Numbers {
    iterations: u64,
    /// The last residual.
    residual: Option<u64>,
    /// The checksum of all residuals in the other attribute.
    residuals: Option<u64>,
    tolerance: Option<u64>,
    converged: Option<u64>,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Existing {
    /// Reads the mark of the file at `path`, if there is one; changes nothing.
    ///
    /// # Errors
    /// [`Error::File`] if its metadata or contents cannot be read.
    pub fn at(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { action: "look at", path: path.to_owned(), source };
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(error) => return Err(failed(error)),
            // Opening a pipe would wait for its writer.
            Ok(found) if !found.is_file() => return Ok(Self::Other("it is not a regular file")),
            Ok(_) => {}
        }
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Self::Other("it may not be read"));
            }
            opened => opened.map_err(failed)?,
        };
        let text = match attribute(&file, NAME) {
            Ok(text) => text,
            Err(Errno::OPNOTSUPP) => {
                return Ok(Self::Other(
                    "its file system has no extended attributes to mark results with",
                ));
            }
            Err(_) => return Ok(Self::Other("it has no mark")),
        };
        let text = match decode(&text) {
            Ok(text) => text,
            Err(why) => return Ok(Self::Other(why)),
        };
        let found = file.metadata().map_err(failed)?;
        if (text.bytes, text.modified_ns) != (found.len(), modified(&found)) {
            return Ok(Self::Other("it was written to after it was marked as a result"));
        }
        let Numbers { iterations, residual, residuals, tolerance, converged } = text.made;
        let all = residuals.and_then(|sum| {
            let bytes = attribute(&file, RESIDUALS).ok().filter(|bytes| checksum(bytes) == sum)?;
            Some(bytes.as_chunks().0.iter().map(|&bits| f64::from_le_bytes(bits)).collect())
        });
        let residuals = all.unwrap_or_else(|| residual.map(f64::from_bits).into_iter().collect());
        let made =
            Made { iterations, residuals, tolerance: tolerance.map(f64::from_bits), converged };
        Ok(Self::Result(Box::new(ResultMark { identity: text.identity, made })))
    }
}

impl fmt::Display for Existing {
    /// Formats the value to follow "FILE is": "the result of 40 iterations of lk23".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("not there"),
            Self::Result(mark) => write!(f, "{mark}"),
            Self::Other(why) => write!(f, "not known as a result ({why})"),
        }
    }
}

impl fmt::Display for ResultMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iterations = self.made.iterations;
        write!(
            f,
            "the result of {iterations} iteration{}",
            if iterations == 1 { "" } else { "s" }
        )?;
        self.identity.what.get("kernel").map_or(Ok(()), |kernel| write!(f, " of {kernel}"))
    }
}

fn attribute(file: &File, name: &str) -> Result<Vec<u8>, Errno> {
    let mut text = vec![0; LONGEST];
    let len = rustix::fs::fgetxattr(file, name, &mut text)?;
    text.truncate(len);
    Ok(text)
}

/// Returns the text of a mark, or the reason why it is not known.
fn decode(bytes: &[u8]) -> Result<Text, &'static str> {
    const UNKNOWN: &str = "its mark is damaged, or of another version";
    let (body, sum) = bytes.split_at(bytes.len().checked_sub(sum_line(b"").len()).ok_or(UNKNOWN)?);
    if sum != sum_line(body).as_bytes() {
        return Err(UNKNOWN);
    }
    let Version { format } = serde_json::from_slice(body).map_err(|_| UNKNOWN)?;
    match format {
        FORMAT => serde_json::from_slice(body).map_err(|_| UNKNOWN),
        1..FORMAT => Err("its mark is of an older version of syncline"),
        _ => Err(UNKNOWN),
    }
}

impl Identity {
    /// Marks a completely written file as the result of this computation. Returns whether the file
    /// system had space for the mark.
    pub fn mark(&self, file: &File, made: &Made) -> bool {
        let Ok(found) = file.metadata() else { return false };
        let bytes: Vec<u8> =
            made.residuals.iter().flat_map(|residual| residual.to_le_bytes()).collect();
        let write = |identity: &Self, all: bool| {
            let text = Text {
                format: FORMAT,
                bytes: found.len(),
                modified_ns: modified(&found),
                made: Numbers {
                    iterations: made.iterations,
                    residual: made.residuals.last().map(|residual| residual.to_bits()),
                    residuals: all.then(|| checksum(&bytes)),
                    tolerance: made.tolerance.map(f64::to_bits),
                    converged: made.converged,
                },
                identity: identity.clone(),
            };
            let mut text = serde_json::to_vec(&text).ok()?;
            text.push(b'\n');
            text.extend(sum_line(&text).as_bytes());
            rustix::fs::fsetxattr(file, NAME, &text, XattrFlags::empty()).ok()
        };
        if write(self, false).is_none() {
            let mut short = self.clone();
            for input in &mut short.inputs {
                input.path = input.path.file_name().unwrap_or_default().into();
            }
            return write(&short, false).is_some();
        }
        if bytes.len() > 8
            && rustix::fs::fsetxattr(file, RESIDUALS, &bytes, XattrFlags::empty()).is_ok()
        {
            let _ = write(self, true);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;
    use crate::generation::InputId;

    /// Returns the mark of a file as text, with residuals as bits, because they may be NaN.
    fn found(path: &Path) -> Option<String> {
        let Existing::Result(mark) = Existing::at(path).unwrap() else { return None };
        let bits: Vec<_> = mark.made.residuals.iter().map(|residual| residual.to_bits()).collect();
        let Made { iterations, tolerance, converged, .. } = mark.made;
        Some(format!("{iterations} {bits:x?} {tolerance:?} {converged:?} {:?}", mark.identity))
    }

    fn expected(identity: &Identity, made: &Made) -> String {
        let bits: Vec<_> = made.residuals.iter().map(|residual| residual.to_bits()).collect();
        format!(
            "{} {bits:x?} {:?} {:?} {identity:?}",
            made.iterations, made.tolerance, made.converged
        )
    }

    /// Returns the progress of a run that reached its tolerance at iteration `at`.
    fn converged(at: u64) -> Made {
        Made { tolerance: Some(0.125), converged: Some(at), ..Made::default() }
    }

    #[test]
    fn a_mark_comes_back_whole_as_long_as_the_file_is_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, input) = (folder.path().join("out"), folder.path().join("in"));
        std::fs::write(&input, "input").unwrap();
        assert!(matches!(Existing::at(&path).unwrap(), Existing::Nothing));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"result").unwrap();
        let mut identity = Identity::default();
        identity.what.insert("kernel".to_owned(), "a".to_owned());
        identity.inputs.push(InputId { sum: Some(u64::MAX), ..InputId::of("in", &input).unwrap() });
        let seven =
            Made { iterations: 7, residuals: vec![0.5, f64::NAN, -f64::INFINITY], ..converged(5) };
        if !identity.mark(&file, &seven) {
            println!("skipped: {} has no extended attributes", folder.path().display());
            return;
        }
        assert_eq!(found(&path), Some(expected(&identity, &seven)));
        assert_eq!(Existing::at(&path).unwrap().to_string(), "the result of 7 iterations of a");
        let moved = folder.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!(found(&moved), Some(expected(&identity, &seven)));
        // If the checksum of the residuals does not match, only the last residual is left.
        rustix::fs::fsetxattr(&file, RESIDUALS, &[0; 24], XattrFlags::empty()).unwrap();
        let last = Made { residuals: vec![-f64::INFINITY], ..seven.clone() };
        assert_eq!(found(&moved), Some(expected(&identity, &last)));
        let most = Made { iterations: u64::MAX, residuals: vec![-f64::NAN], ..converged(u64::MAX) };
        for made in [Made::default(), Made { residuals: vec![-f64::NAN], ..Made::default() }, most]
        {
            assert!(identity.mark(&file, &made));
            assert_eq!(found(&moved), Some(expected(&identity, &made)));
        }
        let mut text = attribute(&file, NAME).unwrap();
        for at in (0..text.len()).step_by(7) {
            text[at] ^= 1;
            rustix::fs::fsetxattr(&file, NAME, &text, XattrFlags::empty()).unwrap();
            let why = Existing::at(&moved).unwrap().to_string();
            assert_eq!(
                why, "not known as a result (its mark is damaged, or of another version)",
                "{at}"
            );
            text[at] ^= 1;
        }
        let body = &text[..text.len() - sum_line(b"").len()];
        let body = String::from_utf8_lossy(body).replace("\"format\":4", "\"format\":3");
        let older = [body.as_bytes(), sum_line(body.as_bytes()).as_bytes()].concat();
        rustix::fs::fsetxattr(&file, NAME, &older, XattrFlags::empty()).unwrap();
        let why = Existing::at(&moved).unwrap().to_string();
        assert_eq!(why, "not known as a result (its mark is of an older version of syncline)");
        rustix::fs::fsetxattr(&file, NAME, &text, XattrFlags::empty()).unwrap();
        assert!(found(&moved).is_some());
        file.write_all(b"!").unwrap();
        let why = Existing::at(&moved).unwrap().to_string();
        assert!(why.contains("it was written to after it was marked"), "{why}");
        rustix::fs::fremovexattr(&file, NAME).unwrap();
        assert!(Existing::at(&moved).unwrap().to_string().contains("it has no mark"));
        assert!(Existing::at(folder.path()).unwrap().to_string().contains("not a regular file"));
    }

    /// If space is short, the residuals are left out first, then the folders of paths, then the
    /// mark.
    #[test]
    fn what_there_is_no_room_for_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let file = File::create(&path).unwrap();
        let input = |path: PathBuf| InputId {
            name: "za".into(),
            path,
            bytes: 1,
            modified_ns: 1,
            sum: Some(1),
        };
        let made = Made { iterations: 9000, residuals: vec![0.25; 9000], ..Made::default() };
        let short = Identity { inputs: vec![input("/za".into())], ..Identity::default() };
        if !short.mark(&file, &made) {
            println!("skipped: {} has no extended attributes", folder.path().display());
            return;
        }
        let Existing::Result(mark) = Existing::at(&path).unwrap() else { panic!("no mark") };
        // 72 KB are more than any file system accepts.
        assert_eq!((mark.made.residuals, mark.made.iterations), (vec![0.25], 9000));
        let long = PathBuf::from(format!("/{}/za", "x".repeat(70_000)));
        let long = Identity { inputs: vec![input(long)], ..Identity::default() };
        assert!(long.mark(&file, &made));
        let Existing::Result(mark) = Existing::at(&path).unwrap() else { panic!("no mark") };
        assert_eq!(
            (mark.identity.inputs[0].path.as_path(), mark.identity.inputs[0].sum),
            (Path::new("za"), Some(1))
        );
        let mut longest = short;
        longest.what.insert("x".to_owned(), "x".repeat(70_000));
        assert!(!longest.mark(&file, &made));
    }

    #[test]
    fn a_changed_input_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("zr.npy");
        std::fs::write(&input, "before").unwrap();
        let identity =
            Identity { inputs: vec![InputId::of("zr", &input).unwrap()], ..Identity::default() };
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
