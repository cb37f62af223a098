//! Slices of plain numbers, sent in their memory representation and read in place.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::message::{Message, MessageKind};
use crate::wire::{Encoder, Wire, WireError};

/// A plain number: no pointer, no padding, and every bit pattern is a value.
pub trait Number: bytemuck::Pod + Send + Sync + sealed::Sealed {
    #[doc(hidden)]
    const NAME: &'static str;
    #[doc(hidden)]
    const MARK: u16;
}

mod sealed {
    pub trait Sealed {}
}

/// The base of the marks of number types; other values are free for other kinds.
const NUMBERS: u16 = 0x100;

macro_rules! numbers {
    ($($type:ty = $mark:literal),*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Number for $type {
                const NAME: &'static str = stringify!($type);
                const MARK: u16 = NUMBERS + $mark;
            }
        )*

        /// Returns a description of the contents of a message.
        pub(crate) fn name(kind: MessageKind) -> &'static str {
            match kind {
                MessageKind::VALUE => "a value",
                $(MessageKind(mark) if mark == <$type>::MARK => concat!("numbers ", stringify!($type)),)*
                _ => "of a kind that is unknown",
            }
        }

        /// Returns the size in bytes of one element of a kind.
        pub(crate) fn size(kind: MessageKind) -> Option<usize> {
            match kind {
                MessageKind::VALUE => Some(1),
                $(MessageKind(mark) if mark == <$type>::MARK => Some(size_of::<$type>()),)*
                _ => None,
            }
        }
    };
}

numbers!(
    u8 = 1,
    i8 = 2,
    u16 = 3,
    i16 = 4,
    u32 = 5,
    i32 = 6,
    u64 = 7,
    i64 = 8,
    u128 = 9,
    i128 = 10,
    f32 = 11,
    f64 = 12,
    usize = 13,
    isize = 14
);

/// A slice of plain numbers: borrowed to be sent, or received and read in place.
///
/// ```
/// use syncline_farm::{Farm, Vpid, wire::Numbers};
///
/// let mut farm = Farm::new()?;
/// let mine = [1.5, 2.5, 3.5];
/// farm.send(Vpid::MANAGER, &Numbers::from(&mine[..]))?; // to itself
/// let theirs: Numbers<f64> = farm.recv(Vpid::MANAGER)?;
/// assert_eq!(*theirs, mine);
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
pub struct Numbers<'a, T: Number> {
    held: Held<'a, T>,
}

enum Held<'a, T: Number> {
    Borrowed(&'a [T]),
    Received(Message, PhantomData<T>),
}

impl<'a, T: Number> From<&'a [T]> for Numbers<'a, T> {
    fn from(numbers: &'a [T]) -> Self {
        Numbers { held: Held::Borrowed(numbers) }
    }
}

impl<T: Number> Deref for Numbers<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.held {
            Held::Borrowed(numbers) => numbers,
            // Checked at reception: the length is a whole number of elements, and the bytes are
            // aligned.
            Held::Received(message, _) => bytemuck::cast_slice(message),
        }
    }
}

impl<T: Number> Wire for Numbers<'_, T> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_, '_>) -> Result<(), WireError> {
        encoder.kind = MessageKind(T::MARK);
        encoder.draft.extend(bytemuck::cast_slice(self))
    }

    #[inline]
    fn decode(message: Message) -> Result<Self, WireError> {
        if message.kind() != MessageKind(T::MARK) {
            let (expected, found) =
                (format!("numbers {}", T::NAME), name(message.kind()).to_owned());
            return Err(WireError::MessageKind { expected, found });
        }
        if bytemuck::try_cast_slice::<u8, T>(&message).is_err() {
            return Err(WireError::Damaged { what: "its length" });
        }
        Ok(Numbers { held: Held::Received(message, PhantomData) })
    }
}

impl<T: Number + fmt::Debug> fmt::Debug for Numbers<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
