//! What can be sent: values by serde, and slices of plain numbers, which are not copied when they
//! are received.
//!
//! | sent                                     | received as                | bytes                                    |
//! |------------------------------------------|----------------------------|------------------------------------------|
//! | any `Serialize + DeserializeOwned` type  | the type                   | postcard: small integers are short        |
//! | [`Numbers`] of `f64`, `u32`, ...          | [`Numbers`], read in place | as they are in memory                    |
//! | anything                                 | [`Message`]                | as they were sent                         |
//!
//! # Bounds
//! What is received may be garbage, if a worker is broken. Decoding looks at every length before it
//! believes it, never takes more memory than the message is worth (see [`decode`]), goes no deeper
//! than [`MAX_NESTING`], and ends with an error that says what is wrong. It never panics.

mod bounded;
mod numbers;

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_memory::room::Size;

pub use numbers::{Number, Numbers};
pub(crate) use numbers::{name, size};

use crate::message::{Draft, Message, MessageKind};

/// How deep a value may be nested: structures, sequences and the like in one another.
pub const MAX_NESTING: usize = 256;

/// Why a value cannot be sent, or bytes are not a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// Its type refuses, or has something that cannot be sent.
    Refused {
        /// What it says.
        why: String,
    },
    /// The farm's memory has fewer bytes free.
    Long {
        /// How many are needed.
        bytes: usize,
    },
    /// The bytes are not a value of that type.
    Undecodable {
        /// What is wrong.
        why: String,
    },
    /// A value was read, and there are bytes left.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// It is something else than what is asked for.
    MessageKind {
        /// What was asked for.
        expected: String,
        /// What it is.
        found: String,
    },
    /// What stands in the channel is not what a sender writes.
    Damaged {
        /// What of it.
        what: &'static str,
    },
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WireError::Refused { why } => write!(f, "refuses: {why}"),
            WireError::Long { bytes } => {
                write!(f, "takes {}, which are not free in the farm's memory", Size(*bytes as u64))
            }
            WireError::Undecodable { why } => {
                write!(f, "is not of the type that was asked for: {why}")
            }
            WireError::Trailing { bytes } => {
                write!(f, "has {bytes} bytes too many for the type that was asked for")
            }
            WireError::MessageKind { expected, found } => write!(f, "is {found}, not {expected}"),
            WireError::Damaged { what } => write!(f, "is damaged: {what} cannot be"),
        }
    }
}

impl std::error::Error for WireError {}

/// What can be sent between processes of a farm.
///
/// Implemented for all types that serde can write and read, and for [`Numbers`].
pub trait Wire: Sized {
    /// Writes the value into a message.
    ///
    /// # Errors
    /// If the type refuses, or there is no room.
    #[doc(hidden)]
    fn encode(&self, draft: &mut Encoder<'_, '_>) -> Result<(), WireError>;

    /// Reads the value from a message.
    ///
    /// # Errors
    /// If the message is something else.
    #[doc(hidden)]
    fn decode(message: Message) -> Result<Self, WireError>;

    /// Reads the value where a small message stands, if it is one that need not keep it.
    #[doc(hidden)]
    fn decode_in_place(_kind: MessageKind, _bytes: &[u8]) -> Option<Result<Self, WireError>> {
        None
    }
}

/// Where [`Wire::encode`] writes.
pub struct Encoder<'d, 'a> {
    draft: &'d mut Draft<'a>,
    kind: MessageKind,
}

impl std::fmt::Debug for Encoder<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("kind", &self.kind).finish()
    }
}

impl<'d, 'a> Encoder<'d, 'a> {
    /// Writes a value, and says of what kind the message is.
    pub(crate) fn write<T: Wire>(
        draft: &'d mut Draft<'a>,
        value: &T,
    ) -> Result<MessageKind, WireError> {
        let mut encoder = Encoder { draft, kind: MessageKind::VALUE };
        value.encode(&mut encoder)?;
        Ok(encoder.kind)
    }
}

impl<T: Serialize + DeserializeOwned> Wire for T {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_, '_>) -> Result<(), WireError> {
        write(encoder.draft, self)
    }

    #[inline]
    fn decode(message: Message) -> Result<Self, WireError> {
        read(message)
    }

    #[inline]
    fn decode_in_place(kind: MessageKind, bytes: &[u8]) -> Option<Result<Self, WireError>> {
        (kind == MessageKind::VALUE).then(|| decode(bytes))
    }
}

/// Reads a value from a message that is one.
#[inline]
pub(crate) fn read<T: DeserializeOwned>(message: Message) -> Result<T, WireError> {
    match message.kind() {
        MessageKind::VALUE => decode(&message),
        other => Err(WireError::MessageKind {
            expected: "a value".to_owned(),
            found: name(other).to_owned(),
        }),
    }
}

/// Writes a value into a message.
#[inline]
pub(crate) fn write(draft: &mut Draft<'_>, value: &impl Serialize) -> Result<(), WireError> {
    let mut serializer = postcard::Serializer { output: Flavor { draft, full: None } };
    let written = value.serialize(&mut serializer);
    match (serializer.output.full, written) {
        (Some(full), _) => Err(full),
        (None, written) => written.map_err(|why| WireError::Refused { why: why.to_string() }),
    }
}

/// Reads a value from bytes that may be garbage.
///
/// Room is made for no more elements than there are bytes before they are there, and the elements
/// of all sequences and maps together are no more than the bytes, and 65 536 that take none. So the
/// memory of a value is bounded by a multiple of the largest of its elements.
///
/// # Errors
/// [`WireError::Undecodable`], [`WireError::Trailing`].
///
/// # Examples
/// ```
/// use syncline_farm::wire::{decode, encode};
///
/// let bytes = encode(&(7_u64, "seven".to_owned()))?;
/// assert_eq!(decode::<(u64, String)>(&bytes)?, (7, "seven".to_owned()));
/// assert!(decode::<Vec<u64>>(&[0xFF, 0xFF, 0xFF, 0x7F, 1]).is_err()); // 268 435 455 elements in one byte
/// # Ok::<(), syncline_farm::wire::WireError>(())
/// ```
#[inline]
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    bounded::decode(bytes)
}

/// The bytes of a value, as they are sent.
///
/// # Errors
/// [`WireError::Refused`] if the type refuses.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    postcard::to_stdvec(value).map_err(|why| WireError::Refused { why: why.to_string() })
}

/// Has postcard write into a draft.
struct Flavor<'d, 'a> {
    draft: &'d mut Draft<'a>,
    /// Why there is no room, if there is none: postcard knows one error only.
    full: Option<WireError>,
}

impl postcard::ser_flavors::Flavor for Flavor<'_, '_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.draft.extend(bytes).map_err(|full| {
            self.full = Some(full);
            postcard::Error::SerializeBufferFull
        })
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
