//! The identity of a computation: the criteria by which two runs are the same.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::chunk::modified;
use crate::{Error, Result};

/// The identity of a computation: all that influences the bits of the result.
///
/// ```
/// use syncline_store::generation::Identity;
/// let mut then = Identity::default();
/// then.what.insert("omega".into(), "1.5".into());
/// let mut now = then.clone();
/// now.what.insert("omega".into(), "1.9".into());
/// assert_eq!(then.differences(&now), ["omega was 1.5, is 1.9"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Names and values, as messages display them: "kernel", "omega", "rows".
    pub what: BTreeMap<String, String>,
    /// The files read, in the order of the computation: the inputs of two runs are compared in
    /// pairs by position.
    pub inputs: Vec<InputId>,
}

/// An input file, with the data to detect that it was changed.
///
/// Two inputs are the same if length and checksum are equal; unless both checksums are known, if
/// path, length and time are equal. A file that was moved, copied or touched stays the same input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputId {
    /// The role of the file in the computation: "za".
    pub name: String,
    /// The path of the file, absolute and without symbolic links.
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub path: PathBuf,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The [`checksum`](crate::checksum::checksum) of its values, from front to back, or another
    /// sum of them that all runs of the computation take, once they have been read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
}

impl InputId {
    /// Reads the metadata of the file.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read or `path` is not a regular file.
    pub fn of(name: &str, path: &Path) -> Result<Self> {
        let failed = |source| Error::File { action: "look at", path: path.to_owned(), source };
        let absolute = path.canonicalize().map_err(failed)?;
        let found = absolute.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(failed(if found.is_dir() { Errno::ISDIR } else { Errno::INVAL }.into()));
        }
        let modified_ns = modified(&found);
        Ok(Self {
            name: name.to_owned(),
            path: absolute,
            bytes: found.len(),
            modified_ns,
            sum: None,
        })
    }

    /// Returns whether both are the same file by path, length and time.
    #[must_use]
    pub fn is_at(&self, now: &Self) -> bool {
        (&self.path, self.bytes, self.modified_ns) == (&now.path, now.bytes, now.modified_ns)
    }

    fn difference(&self, now: &Self) -> Option<String> {
        let (name, path, other) = (&self.name, self.path.display(), now.path.display());
        let sums = self.sum.zip(now.sum);
        let same = match sums {
            Some((then, now)) => then == now,
            None => self.is_at(now),
        };
        if same && self.bytes == now.bytes {
            return None;
        }
        Some(match (self.path == now.path, sums) {
            (true, _) if self.bytes != now.bytes => {
                format!("{name}, {path}, had {} bytes, has {}", self.bytes, now.bytes)
            }
            (true, Some((then, now))) => {
                format!(
                    "{name}, {path}, has other values: their checksum was {then:016x}, is {now:016x}"
                )
            }
            (true, None) => format!("{name}, {path}, was written to since"),
            (false, Some((then, now))) => {
                format!(
                    "{name} was {path}, is {other} with other values: checksum {then:016x}, now {now:016x}"
                )
            }
            (false, None) => format!("{name} was {path}, is {other}"),
        })
    }
}

impl Identity {
    /// Returns the differences between this run and `now`, one sentence each; empty if they are the
    /// same.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, was) in &self.what {
            match now.what.get(name) {
                None => all.push(format!("{name} was {was}, is not given")),
                Some(is) if is != was => all.push(format!("{name} was {was}, is {is}")),
                Some(_) => {}
            }
        }
        let added = now.what.iter().filter(|(name, _)| !self.what.contains_key(*name));
        all.extend(added.map(|(name, is)| format!("{name} was not given, is {is}")));
        let most = self.inputs.len().max(now.inputs.len());
        for (was, is) in (0..most).map(|n| (self.inputs.get(n), now.inputs.get(n))) {
            all.extend(match (was, is) {
                (Some(was), Some(is)) => was.difference(is),
                (Some(was), None) => {
                    Some(format!("{} was {}, is not given", was.name, was.path.display()))
                }
                (None, Some(is)) => {
                    Some(format!("{} was not given, is {}", is.name, is.path.display()))
                }
                (None, None) => None,
            });
        }
        all
    }

    /// Copies the checksums of inputs that are unchanged from `then`, and calls `sum` with the
    /// index of each input that has been moved or touched: [`differences`](Self::differences)
    /// recognises such inputs only if both checksums are known. `sum` is not called if the runs or
    /// the lengths of inputs differ anyway.
    ///
    /// # Errors
    /// Those of `sum`.
    pub fn settle<E>(
        &mut self,
        then: &Self,
        mut sum: impl FnMut(usize) -> Result<Option<u64>, E>,
    ) -> Result<(), E> {
        if self.what != then.what || self.inputs.len() != then.inputs.len() {
            return Ok(());
        }
        let pairs = || then.inputs.iter().enumerate();
        if pairs().any(|(n, was)| was.bytes != self.inputs[n].bytes) {
            return Ok(());
        }
        for (n, was) in pairs() {
            let is = &mut self.inputs[n];
            if was.is_at(is) {
                is.sum = is.sum.or(was.sum);
            } else if was.sum.is_some() && is.sum.is_none() {
                is.sum = sum(n)?;
            }
        }
        Ok(())
    }

    /// Checks that the inputs have not changed since this value was created.
    ///
    /// # Errors
    /// [`Error::InputChanged`] names an input that has changed, [`Error::File`] an input whose
    /// metadata cannot be read.
    pub fn check_inputs(&self) -> Result<()> {
        for then in &self.inputs {
            if !InputId::of(&then.name, &then.path)?.is_at(then) {
                return Err(Error::InputChanged { path: then.path.clone() });
            }
        }
        Ok(())
    }
}

/// The JSON form of a path: text if it is valid UTF-8, otherwise bytes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) fn write_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let name = match path.to_str() {
        Some(text) => Name::Text(text.to_owned()),
        None => Name::Bytes(path.as_os_str().as_bytes().to_owned()),
    };
    name.serialize(serializer)
}

pub(super) fn read_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(match Name::deserialize(deserializer)? {
        Name::Text(text) => text.into(),
        Name::Bytes(bytes) => OsString::from_vec(bytes).into(),
    })
}
