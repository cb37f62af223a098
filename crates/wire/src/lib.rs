//! Values as bytes, for the crates that send them.
//!
//! # Contract
//! A value is encoded by postcard, in which small integers are short. Its bytes may come from a
//! faulty process: decoding checks every length before it relies on it, takes no more memory than
//! the bytes justify (see `decode`), nests no deeper than `MAX_NESTING`, and returns an error that
//! gives the reason. It never panics, unless the `Deserialize` of a type does.
//!
//! The names are for the other crates of the workspace. `syncline_farm::wire` has those for users.

mod bounded;

use std::fmt;

use serde::Serialize;

#[doc(hidden)]
pub use bounded::decode;

/// The maximum nesting depth of a value: structures, sequences and the like inside one another.
#[doc(hidden)]
pub const MAX_NESTING: usize = 256;

/// The reason why a value is not encoded, or bytes are not a value. Its text is the reason alone.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The type's `Serialize` refuses.
    Refused(String),
    /// The bytes are not a value of the type.
    Undecodable(String),
    /// This number of bytes is left after the value.
    Trailing(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) | Error::Undecodable(why) => f.write_str(why),
            Error::Trailing(bytes) => write!(f, "{bytes} bytes are left after it"),
        }
    }
}

impl std::error::Error for Error {}

/// Calls `put` with the bytes of a value, one piece after the other.
///
/// # Errors
/// [`Error::Refused`], and the first error of `put`.
#[doc(hidden)]
#[inline]
pub fn write<E: From<Error>>(
    value: &impl Serialize,
    put: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut serializer = postcard::Serializer { output: Flavor { put, failed: None } };
    let written = value.serialize(&mut serializer);
    match (serializer.output.failed, written) {
        (Some(failed), _) => Err(failed),
        (None, written) => written.map_err(|why| Error::Refused(why.to_string()).into()),
    }
}

/// Writes a value to the beginning of `to`. Returns the number of its bytes. If that is more than
/// `to` has, the contents of `to` are unspecified.
///
/// # Errors
/// [`Error::Refused`].
#[doc(hidden)]
pub fn write_slice(value: &impl Serialize, to: &mut [u8]) -> Result<usize, Error> {
    let mut len = 0;
    let put = |bytes: &[u8]| {
        if let Some(room) = to.get_mut(len..).and_then(|to| to.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
        }
        len += bytes.len();
        Ok(())
    };
    write(value, put).map(|()| len)
}

/// Returns the bytes of a value.
///
/// # Errors
/// [`Error::Refused`].
#[doc(hidden)]
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    postcard::to_stdvec(value).map_err(|why| Error::Refused(why.to_string()))
}

/// The flavor by which postcard calls a function.
struct Flavor<F, E> {
    put: F,
    /// The error of the function: postcard has one of its own.
    failed: Option<E>,
}

impl<E, F: FnMut(&[u8]) -> Result<(), E>> postcard::ser_flavors::Flavor for Flavor<F, E> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        (self.put)(bytes).map_err(|failed| {
            self.failed = Some(failed);
            postcard::Error::SerializeBufferFull
        })
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
