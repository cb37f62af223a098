//! The encoding of messages: values that serde serializes, and slices of plain numbers, which are
//! not copied when they are received.
//!
//! | sent                                    | received as                | bytes           |
//! |-----------------------------------------|----------------------------|-----------------|
//! | any `Serialize + DeserializeOwned` type | the type                   | postcard        |
//! | [`Numbers`] of `f64`, `u32`, ...        | [`Numbers`], read in place | those in memory |
//! | [`Bulk`], also within other values      | [`Bulk`], read in place    | those in memory |
//! | anything                                | [`Message`]                | unchanged       |
//!
//! In the encoding of postcard, small integers are short.
//!
//! # Bounds
//! A message may be invalid, if a worker is faulty. Decoding checks every length before it relies
//! on it, never takes more memory than the message justifies (see [`decode`]), nests no deeper than
//! [`MAX_NESTING`], and returns an error that gives the reason. It never panics.

mod bulk;
mod numbers;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_memory::room::Size;

pub use bulk::Bulk;
pub use numbers::{Number, Numbers};
pub(crate) use numbers::{name, size};

use crate::message::{Draft, Message, MessageKind};

/// The maximum nesting depth of a value: structures, sequences and the like inside one another.
pub const MAX_NESTING: usize = syncline_wire::MAX_NESTING;

/// The reason why a value cannot be sent, or bytes are not a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The type's `Serialize` refuses, or the value contains something that cannot be sent.
    Refused {
        /// The error of the type.
        why: String,
    },
    /// The farm's memory has fewer free bytes than needed.
    Long {
        /// The number of bytes needed.
        bytes: usize,
    },
    /// The bytes are not a value of the type.
    Undecodable {
        /// The reason.
        why: String,
    },
    /// Bytes are left after the value.
    Trailing {
        /// Their number.
        bytes: usize,
    },
    /// The message is of another kind than the expected one.
    MessageKind {
        /// The expected kind.
        expected: String,
        /// The kind of the message.
        found: String,
    },
    /// The contents of the channel are not those that a sender writes.
    Damaged {
        /// The invalid part.
        what: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Refused { why } => write!(f, "cannot be serialized: {why}"),
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
            WireError::Damaged { what } => write!(f, "is damaged: {what} is invalid"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<syncline_wire::Error> for WireError {
    fn from(error: syncline_wire::Error) -> Self {
        match error {
            syncline_wire::Error::Refused(why) => WireError::Refused { why },
            syncline_wire::Error::Undecodable(why) => WireError::Undecodable { why },
            syncline_wire::Error::Trailing(bytes) => WireError::Trailing { bytes },
        }
    }
}

/// A type that can be sent between processes of a farm.
///
/// It is implemented for all types that serde can serialize and deserialize, and for [`Numbers`].
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

    /// Reads the value directly from a slot, if the value need not keep the message.
    #[doc(hidden)]
    fn decode_in_place(_kind: MessageKind, _bytes: &[u8]) -> Option<Result<Self, WireError>> {
        None
    }
}

/// The output of [`Wire::encode`].
pub struct Encoder<'d, 'a> {
    draft: &'d mut Draft<'a>,
    kind: MessageKind,
}

impl fmt::Debug for Encoder<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("kind", &self.kind).finish()
    }
}

impl<'d, 'a> Encoder<'d, 'a> {
    /// Writes a value, and returns the kind of the message.
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

/// Reads a value from a message of kind `VALUE`.
#[inline]
pub(crate) fn read<T: DeserializeOwned>(message: Message) -> Result<T, WireError> {
    match message.kind() {
        MessageKind::VALUE if message.is_in_place() => {
            let message = Arc::new(message);
            bulk::within(&message, || decode(&message))
        }
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
    let put = |bytes: &[u8]| {
        draft.extend(bytes)?;
        bulk::written(draft.len());
        Ok(())
    };
    bulk::writing(|| syncline_wire::write(value, put))
}

/// Decodes a value from bytes that may be invalid.
///
/// No memory is reserved for more elements than there are bytes before the elements are decoded,
/// and all sequences and maps together have no more elements than there are bytes, plus 65 536 that
/// take no bytes. So the memory of a value is bounded by a multiple of the size of its largest
/// element.
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
/// // 268 435 455 elements in one byte.
/// assert!(decode::<Vec<u64>>(&[0xFF, 0xFF, 0xFF, 0x7F, 1]).is_err());
/// # Ok::<(), syncline_farm::wire::WireError>(())
/// ```
#[inline]
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    Ok(syncline_wire::decode(bytes)?)
}

/// Returns the bytes of a value, as they are sent.
///
/// # Errors
/// [`WireError::Refused`] if the type refuses.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    Ok(syncline_wire::encode(value)?)
}
