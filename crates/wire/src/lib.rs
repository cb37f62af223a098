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
use serde::de::DeserializeOwned;

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

/// A place for the bytes of a value.
#[doc(hidden)]
pub trait Output {
    /// The reason why the place has no room, or the value is not encoded.
    type Error: From<Error>;

    /// Appends bytes.
    ///
    /// # Errors
    /// If there is no room.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Appends the bytes of a value to an output.
///
/// # Errors
/// [`Error::Refused`], and the error of the output.
#[doc(hidden)]
#[inline]
pub fn write<O: Output>(value: &impl Serialize, output: &mut O) -> Result<(), O::Error> {
    let mut serializer = postcard::Serializer { output: Flavor { output, full: None } };
    let written = value.serialize(&mut serializer);
    match (serializer.output.full, written) {
        (Some(full), _) => Err(full),
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
    let mut slice = Slice { to, len: 0 };
    write(value, &mut slice)?;
    Ok(slice.len)
}

/// Returns the bytes of a value.
///
/// # Errors
/// [`Error::Refused`].
#[doc(hidden)]
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    postcard::to_stdvec(value).map_err(|why| Error::Refused(why.to_string()))
}

/// Decodes a value from bytes that may be invalid.
///
/// No memory is reserved for more elements than there are bytes before the elements are decoded,
/// and all sequences and maps together have no more elements than there are bytes, plus 65 536 that
/// take no bytes. So the memory of a value is bounded by a multiple of the size of its largest
/// element.
///
/// # Errors
/// [`Error::Undecodable`], [`Error::Trailing`].
#[doc(hidden)]
#[inline]
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    bounded::decode(bytes)
}

/// A slice that counts the bytes for which it has no room.
struct Slice<'a> {
    to: &'a mut [u8],
    len: usize,
}

impl Output for Slice<'_> {
    type Error = Error;

    #[inline]
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some(room) = self.to.get_mut(self.len..).and_then(|to| to.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
        }
        self.len += bytes.len();
        Ok(())
    }
}

/// The flavor by which postcard writes into an output.
struct Flavor<'o, O: Output> {
    output: &'o mut O,
    /// The reason why there is no room, if there is none: postcard has only one error.
    full: Option<O::Error>,
}

impl<O: Output> postcard::ser_flavors::Flavor for Flavor<'_, O> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.output.extend(bytes).map_err(|full| {
            self.full = Some(full);
            postcard::Error::SerializeBufferFull
        })
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
