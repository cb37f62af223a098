//! What makes two runs the same computation.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::chunk::modified;
use crate::{Error, Result};

/// What makes two runs the same computation: all that has a say in the bits of the result.
///
/// ```
/// use syncline_store::Identity;
/// let mut then = Identity::default();
/// then.what.insert("omega".into(), "1.5".into());
/// let mut now = then.clone();
/// now.what.insert("omega".into(), "1.9".into());
/// assert_eq!(then.differences(&now), ["omega was 1.5, is 1.9"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Names and values, as a message shall show them: "kernel", "omega", "rows".
    pub what: BTreeMap<String, String>,
    /// The files read, in any order.
    pub inputs: Vec<InputId>,
}

/// A file that is read, and how to see that it was not changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputId {
    /// What it is to the computation: "za".
    pub name: String,
    /// Where it stands, absolute and without links.
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified_ns: i128,
}

impl InputId {
    /// Looks at the file.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be looked at or is not a file.
    pub fn of(name: &str, path: &Path) -> Result<Self> {
        let failed = |source| Error::File { action: "look at", path: path.to_owned(), source };
        let absolute = path.canonicalize().map_err(failed)?;
        let found = absolute.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(failed(if found.is_dir() { Errno::ISDIR } else { Errno::INVAL }.into()));
        }
        let modified_ns = modified(&found);
        Ok(Self { name: name.to_owned(), path: absolute, bytes: found.len(), modified_ns })
    }

    fn difference(&self, now: &Self) -> Option<String> {
        let (name, path) = (&self.name, self.path.display());
        if self.path != now.path {
            return Some(format!("{name} was {path}, is {}", now.path.display()));
        }
        if self.bytes != now.bytes {
            return Some(format!("{name}, {path}, had {} bytes, has {}", self.bytes, now.bytes));
        }
        (self.modified_ns != now.modified_ns).then(|| format!("{name}, {path}, was written to since"))
    }
}

impl Identity {
    /// What differs between this run and one of `now`, a sentence each; nothing if they are the same.
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
        let (then, now) = (by_name(&self.inputs), by_name(&now.inputs));
        for (&(name, nth), was) in &then {
            match now.get(&(name, nth)) {
                None => all.push(format!("{name} was {}, is not given", was.path.display())),
                Some(is) => all.extend(was.difference(is)),
            }
        }
        let added = now.iter().filter(|(key, _)| !then.contains_key(*key));
        all.extend(added.map(|((name, _), is)| format!("{name} was not given, is {}", is.path.display())));
        all
    }
}

/// The inputs by name; those of one name in their order.
fn by_name(inputs: &[InputId]) -> BTreeMap<(&str, usize), &InputId> {
    let mut all = BTreeMap::new();
    for input in inputs {
        let before = all.range((input.name.as_str(), 0)..=(&input.name, usize::MAX)).count();
        all.insert((input.name.as_str(), before), input);
    }
    all
}

/// JSON has no paths: text where they are, bytes where they are not.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

fn write_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let name = match path.to_str() {
        Some(text) => Name::Text(text.to_owned()),
        None => Name::Bytes(path.as_os_str().as_bytes().to_owned()),
    };
    name.serialize(serializer)
}

fn read_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(match Name::deserialize(deserializer)? {
        Name::Text(text) => text.into(),
        Name::Bytes(bytes) => OsString::from_vec(bytes).into(),
    })
}
