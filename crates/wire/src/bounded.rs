//! Decoding of untrusted bytes: postcard, with limits on the nesting depth and the number of
//! elements.
//!
//! postcard never reads beyond the bytes, and a sequence's length allocates no more than the
//! remaining bytes. Three limits are missing: values that nest once per byte would overflow the
//! stack; each level of nested sequences would allocate the remaining bytes again; and the number
//! of elements that take no bytes (`()`, structures whose fields are all skipped) would be limited
//! only by the encoded length. So every value is read through a wrapper that counts.
//!
//! ```text
//! T::deserialize ── Guarded ── postcard ── guarded visitor of T ── elements, each Guarded again
//! ```

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use crate::{Error, MAX_NESTING};

/// The number of elements that may take no bytes.
const FREE_ELEMENTS: usize = 65_536;

/// The remaining limits.
struct Limits {
    nesting: Cell<usize>,
    elements: Cell<usize>,
    /// The number of elements for which memory may still be reserved in advance: at first that of
    /// all bytes. The lengths in a valid message exceed it only by elements that take no bytes.
    reserve: Cell<usize>,
    /// The limit that was exceeded, if any.
    exceeded: Cell<Option<&'static str>>,
}

impl Limits {
    #[cold]
    fn exceed<E: serde::de::Error>(&self, what: &'static str) -> E {
        self.exceeded.set(Some(what));
        E::custom(what)
    }

    /// Calls `f` one level deeper.
    #[inline]
    fn within<R, E: serde::de::Error>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let left = self.nesting.get();
        if left == 0 {
            return Err(self.exceed("it is nested deeper than 256 levels"));
        }
        self.nesting.set(left - 1);
        let done = f();
        self.nesting.set(left);
        done
    }

    #[inline]
    fn element<E: serde::de::Error>(&self) -> Result<(), E> {
        match self.elements.get().checked_sub(1) {
            Some(left) => {
                self.elements.set(left);
                Ok(())
            }
            None => Err(self.exceed("it has more elements than bytes")),
        }
    }
}

const _: () = assert!(MAX_NESTING == 256, "the message says so");

/// Decodes a value from bytes that may be invalid.
///
/// No memory is reserved for more elements than there are bytes before the elements are decoded,
/// and all sequences and maps together have no more elements than there are bytes, plus 65 536 that
/// take no bytes. So the memory of a value is bounded by a multiple of the size of its largest
/// element.
///
/// # Errors
/// [`Error::Undecodable`], [`Error::Trailing`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let limits = Limits {
        nesting: Cell::new(MAX_NESTING),
        elements: Cell::new(bytes.len() + FREE_ELEMENTS),
        reserve: Cell::new(bytes.len()),
        exceeded: Cell::new(None),
    };
    let mut deserializer = postcard::Deserializer::from_bytes(bytes);
    let value =
        T::deserialize(Guarded { inner: &mut deserializer, limits: &limits }).map_err(|error| {
            let why = limits.exceeded.get().map_or_else(|| reason(&error), str::to_owned);
            Error::Undecodable(why)
        })?;
    match deserializer.finalize().map(<[u8]>::len) {
        Ok(0) => Ok(value),
        Ok(bytes) => Err(Error::Trailing(bytes)),
        Err(error) => Err(Error::Undecodable(reason(&error))),
    }
}

/// Returns a short description of an error of postcard.
fn reason(error: &postcard::Error) -> String {
    use postcard::Error;
    match error {
        Error::DeserializeUnexpectedEnd => "it ends too early".to_owned(),
        Error::DeserializeBadVarint => "a number is out of range".to_owned(),
        Error::DeserializeBadBool => "a boolean is neither 0 nor 1".to_owned(),
        Error::DeserializeBadChar => "a character is not a Unicode scalar value".to_owned(),
        Error::DeserializeBadUtf8 => "a text is not UTF-8".to_owned(),
        Error::DeserializeBadOption => "the tag of an option is neither 0 nor 1".to_owned(),
        Error::SerdeDeCustom => "the type refuses a value".to_owned(),
        other => other.to_string(),
    }
}

/// A guarded serde object.
struct Guarded<'l, T> {
    inner: T,
    limits: &'l Limits,
}

/// A guarded visitor; `counted` if the bytes determine the number of elements that it visits.
struct Visit<'l, V> {
    inner: V,
    limits: &'l Limits,
    counted: bool,
}

macro_rules! leaves {
    ($($method:ident)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
                self.inner.$method(visitor)
            }
        )*
    };
}

/// Methods whose values are one level deeper; `counted` as in [`Visit`].
macro_rules! nested {
    ($($method:ident($($name:ident: $of:ty),*) counted $counted:literal)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(
                self,
                $($name: $of,)*
                visitor: V,
            ) -> Result<V::Value, D::Error> {
                let visit = self.visit(visitor, $counted);
                self.limits.within(|| self.inner.$method($($name,)* visit))
            }
        )*
    };
}

impl<'l, T> Guarded<'l, T> {
    fn visit<V>(&self, inner: V, counted: bool) -> Visit<'l, V> {
        Visit { inner, limits: self.limits, counted }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guarded<'_, D> {
    type Error = D::Error;

    leaves!(deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_unit deserialize_identifier deserialize_ignored_any);

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    nested!(
        deserialize_option() counted false
        deserialize_newtype_struct(name: &'static str) counted false
        deserialize_seq() counted true
        deserialize_tuple(len: usize) counted false
        deserialize_tuple_struct(name: &'static str, len: usize) counted false
        deserialize_map() counted true
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) counted false
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) counted false
    );

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Visit<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    #[inline]
    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Guarded { inner, limits: self.limits })
    }

    #[inline]
    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Guarded { inner, limits: self.limits })
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Visit { inner, limits: self.limits, counted: self.counted })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Visit { inner, limits: self.limits, counted: self.counted })
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Guarded { inner, limits: self.limits })
    }
}

impl<A> Visit<'_, A> {
    #[inline]
    fn count<N, E: serde::de::Error>(&self, next: Option<N>) -> Result<Option<N>, E> {
        if self.counted && next.is_some() {
            self.limits.element()?;
        }
        Ok(next)
    }

    /// Limits an encoded length to the elements for which memory may be reserved.
    fn believed(&self, hint: Option<usize>) -> Option<usize> {
        let left = self.limits.reserve.get();
        let hint = hint?.min(left);
        self.limits.reserve.set(left - hint);
        Some(hint)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Visit<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        let next = self.inner.next_element_seed(Guarded { inner: seed, limits: self.limits })?;
        self.count(next)
    }

    fn size_hint(&self) -> Option<usize> {
        self.believed(self.inner.size_hint())
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Visit<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        let next = self.inner.next_key_seed(Guarded { inner: seed, limits: self.limits })?;
        self.count(next)
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.next_value_seed(Guarded { inner: seed, limits: self.limits })
    }

    fn size_hint(&self) -> Option<usize> {
        self.believed(self.inner.size_hint())
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Guarded<'_, T> {
    type Value = T::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        self.inner.deserialize(Guarded { inner, limits: self.limits })
    }
}

impl<'de, 'l, A: EnumAccess<'de>> EnumAccess<'de> for Guarded<'l, A> {
    type Error = A::Error;
    type Variant = Guarded<'l, A::Variant>;

    #[inline]
    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Self::Variant), A::Error> {
        let (value, inner) = self.inner.variant_seed(seed)?;
        Ok((value, Guarded { inner, limits: self.limits }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Guarded<'_, A> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.newtype_variant_seed(Guarded { inner: seed, limits: self.limits })
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visit = self.visit(visitor, false);
        self.inner.tuple_variant(len, visit)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visit = self.visit(visitor, false);
        self.inner.struct_variant(fields, visit)
    }
}
