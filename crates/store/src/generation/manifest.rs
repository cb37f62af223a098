//! The manifest: the last generation, the identity of the computation, and the checksums.
//!
//! ```text
//! {"format":2,"finishing":false,"bytes":..,"header":[..],"identity":{..},"progress":{..}}
//! xxh3 0123456789abcdef
//! ```
//!
//! The first line is JSON, the second contains the XXH3 of the first, line end included. Every
//! later format must be JSON with a `format` and end with such a line, which distinguishes a newer
//! manifest from a damaged one.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::identity::{read_path, write_path};
use super::{Identity, disk};
use crate::{Error, Result, checksum::checksum};

/// The format that is written and read. The sums of format 1 were others: those of the rows of a
/// unit as one text, not sums by which rows in any order are recognised.
const FORMAT: u32 = 2;
const SUM_LINE: usize = "xxh3 0123456789abcdef\n".len();
/// The maximal length in bytes of a manifest, more than any practical run needs.
const LONGEST: u64 = 1 << 30;

/// The record of a pass that is stored beside the generation. All of it is preserved exactly.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The number of the complete generation: 1 after the first pass.
    pub generation: u64,
    /// The number of iterations computed.
    pub iterations: u64,
    /// The number of rows of a panel; the last panel may have fewer.
    pub panel_rows: u64,
    /// The [`checksum`] of each panel's data, from front to back; or other sums, by which the
    /// reader recognises the data. Those of several outputs follow one another.
    pub checksums: Vec<u64>,
    /// The residuals of the last iterations, or of all iterations if all are known; NaN and
    /// infinities are preserved bit by bit.
    #[serde(with = "bits")]
    pub residuals: Vec<f64>,
    /// Additional data of the computation.
    pub note: BTreeMap<String, String>,
}

/// Numbers as their bits, because JSON has neither NaN nor infinity.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        values: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|value| value.to_bits()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<u64>::deserialize(deserializer)?.into_iter().map(f64::from_bits).collect())
    }
}

/// The contents of the manifest file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) format: u32,
    /// Whether the generation is the result and has been, or is about to be, renamed to the output.
    pub(super) finishing: bool,
    /// The length of a generation in bytes.
    pub(super) bytes: u64,
    /// The first bytes of every generation.
    pub(super) header: Vec<u8>,
    pub(super) identity: Identity,
    pub(super) progress: Progress,
    /// The outputs after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) others: Vec<OtherOutput>,
}

/// An output after the first. It is in the same folder as the first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OtherOutput {
    /// The name of its file.
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub(super) name: PathBuf,
    pub(super) bytes: u64,
    pub(super) header: Vec<u8>,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Manifest {
    /// Creates the manifest of a run that has committed no generation.
    pub(super) fn new(identity: &Identity, header: &[u8], bytes: u64) -> Self {
        let (identity, header) = (identity.clone(), header.to_owned());
        Self {
            format: FORMAT,
            finishing: false,
            bytes,
            header,
            identity,
            progress: Progress::default(),
            others: Vec::new(),
        }
    }

    /// Returns the number of outputs.
    pub(super) const fn outputs(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the length and the first bytes of the generations of an output.
    pub(super) fn shape(&self, output: usize) -> (u64, &[u8]) {
        match output.checked_sub(1) {
            None => (self.bytes, &self.header),
            Some(n) => (self.others[n].bytes, &self.others[n].header),
        }
    }

    /// Returns the bytes of the file.
    pub(super) fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        let failed = |error: serde_json::Error| Error::Manifest {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let mut bytes = serde_json::to_vec(self).map_err(failed)?;
        bytes.push(b'\n');
        bytes.extend(sum_line(&bytes).as_bytes());
        Ok(bytes)
    }

    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
        let file = disk::open(path, false).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        Self::decode(path, &bytes)
    }

    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let wrong = |why: String| Error::Manifest { path: path.to_owned(), why };
        if bytes.len() as u64 > LONGEST {
            return Err(wrong(format!("it is longer than {LONGEST} bytes")));
        }
        let (body, sum) = bytes.split_at(bytes.len().saturating_sub(SUM_LINE));
        if sum != sum_line(body).as_bytes() {
            return Err(wrong("it is damaged: its checksum is not that of its text".into()));
        }
        let Version { format } =
            serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        if format != FORMAT {
            let which = match format {
                0 => "no known version",
                1..FORMAT => {
                    "an older version of syncline, which can finish the run, or it is discarded"
                }
                _ => "a newer version of syncline",
            };
            return Err(wrong(format!(
                "it is of format {format}, {which}; format {FORMAT} is read"
            )));
        }
        let manifest: Self =
            serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        if manifest.progress.generation == 0 {
            Err(wrong("it names no generation".into()))
        } else {
            Ok(manifest)
        }
    }
}

pub(super) fn sum_line(body: &[u8]) -> String {
    format!("xxh3 {:016x}\n", checksum(body))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;
    use crate::generation::InputId;

    fn small() -> Manifest {
        let mut manifest = Manifest::new(&Identity::default(), b"\x93NUMPY", 48);
        manifest.identity.what.insert("omega".into(), "1.5".into());
        let input = InputId {
            name: "za".into(),
            path: "/za".into(),
            bytes: 48,
            modified_ns: 1,
            sum: Some(u64::MAX),
        };
        manifest.identity.inputs.push(input);
        manifest.progress = Progress {
            generation: 1,
            checksums: vec![7],
            residuals: vec![f64::NAN],
            ..Progress::default()
        };
        manifest
    }

    fn decode(bytes: &[u8]) -> Result<Manifest> {
        Manifest::decode(Path::new("manifest"), bytes)
    }

    fn encode(manifest: &Manifest) -> Vec<u8> {
        manifest.encode(Path::new("manifest")).unwrap()
    }

    #[test]
    fn every_change_of_a_byte_is_seen() {
        let good = encode(&small());
        assert!(decode(&good).is_ok());
        for at in 0..good.len() {
            for flip in 1..=255 {
                let mut bad = good.clone();
                bad[at] ^= flip;
                assert!(matches!(decode(&bad), Err(Error::Manifest { .. })), "byte {at} ^ {flip}");
            }
        }
    }

    #[test]
    fn every_cut_and_every_tail_is_seen() {
        let good = encode(&small());
        for length in 0..good.len() {
            assert!(matches!(decode(&good[..length]), Err(Error::Manifest { .. })), "{length}");
            assert!(decode(&good[good.len() - length..]).is_err(), "{length}");
            assert!(decode(&[&good[..], &good[..=length]].concat()).is_err(), "{length}");
        }
    }

    #[test]
    fn other_formats_are_told_from_damage() {
        let message = |format: u32| {
            let mut body = format!("{{\"format\":{format},\"anything\":[]}}\n").into_bytes();
            body.extend(sum_line(&body).into_bytes());
            decode(&body).unwrap_err().to_string()
        };
        let newer = message(FORMAT + 1);
        assert!(newer.contains("a newer version of syncline; format 2 is read"), "{newer}");
        let older = message(1);
        assert!(
            older.contains("format 1, an older version of syncline, which can finish"),
            "{older}"
        );
    }

    #[test]
    fn what_is_no_manifest_is_an_error() {
        for body in ["", "\n", "[]\n", "{}\n", "{\"format\":1}\n", "{\"format\":0}\n", "\u{0}"] {
            let bytes = [body.as_bytes(), sum_line(body.as_bytes()).as_bytes()].concat();
            assert!(matches!(decode(&bytes), Err(Error::Manifest { .. })), "{body:?}");
        }
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn all_comes_back_bit_by_bit(
            generation in 1..u64::MAX, checksums in prop::collection::vec(any::<u64>(), 0..20),
            residuals in prop::collection::vec(any::<u64>(), 0..20), name in ".{0,9}", value in ".{0,9}",
            path in prop::collection::vec(1_u8.., 0..9), modified_ns in any::<i64>(),
        ) {
            use std::os::unix::ffi::OsStringExt;
            let mut manifest = small();
            manifest.identity.what.insert(name.clone(), value.clone());
            manifest.identity.inputs[0].path = std::ffi::OsString::from_vec(path).into();
            manifest.identity.inputs[0].modified_ns = modified_ns.into();
            let note = BTreeMap::from([(name, value)]);
            let values = residuals.iter().map(|&bits| f64::from_bits(bits)).collect();
            manifest.progress = Progress {
                generation, iterations: !generation, panel_rows: 3, checksums, residuals: values, note,
            };
            let back = decode(&encode(&manifest)).unwrap();
            prop_assert_eq!(&back.identity, &manifest.identity);
            prop_assert_eq!(&back.progress.checksums, &manifest.progress.checksums);
            let bits: Vec<_> = back.progress.residuals.iter().map(|value| value.to_bits()).collect();
            prop_assert_eq!(bits, residuals);
            prop_assert_eq!(encode(&back), encode(&manifest));
        }
    }
}
