//! Values of any serialisable type in the locations of runs on teams.
//!
//! # Contract
//! A [`Location::wire`](crate::Location::wire) has a value of any type that serde serialises. In a
//! run on threads it is a location like any other: no value is encoded. In a run on a team, the
//! memory of the host holds the value as encoded by postcard, and each request of a task has a
//! decoded copy of its own:
//!
//! ```text
//! memory of the host   | length | task | rounds | bytes, at most as many as the bound |
//!                           │ before the body, if another task      ▲ after the body,
//!                           ▼ has written since                     │ if the task writes
//! the request          a decoded copy, to which the body has a reference
//! ```
//!
//! Two tasks of one member may read two versions at the same time, so a copy for each member would
//! not do. Task and rounds name the version; they travel with the bytes.
//!
//! # Errors
//! A value whose encoding exceeds the bound, a type that refuses, and bytes that are no value of
//! the type are errors of the task that has the grant. A length beyond the bound is not trusted.
//! Bytes of a faulty member take neither memory nor stack (see `syncline_wire`).

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_wire::{Error, decode, write_slice};

use crate::error::{WireError, message};

/// The bytes before the encoded value: its length and its version, as three words.
pub(crate) const HEADER: usize = 24;

/// The version of a value: the task that wrote it, counted from 1, and the rounds of that task.
/// The first value has the version (0, 0).
pub(crate) type Version = (u64, u64);

/// The encoding of a location's value.
pub(crate) struct Wire {
    pub(crate) bound: usize,
    own: Box<dyn Place>,
}

/// A value of the location's type, at an address that does not change.
trait Place: Send + Sync {
    fn address(&self) -> *mut u8;

    /// Encodes the value into `to`, and returns the number of its bytes, which may be too many.
    ///
    /// # Safety
    /// There is a value, it is alive, and no exclusive reference to it exists.
    unsafe fn encode(&self, to: &mut [u8]) -> Result<usize, Error>;

    /// Decodes the value. `full`: in place of another one.
    ///
    /// # Safety
    /// The place is alive, no reference to it exists, and it has a value if it is `full`.
    unsafe fn decode(&self, bytes: &[u8], full: bool) -> Result<(), Error>;

    /// Drops the value.
    ///
    /// # Safety
    /// As for [`decode`](Self::decode). There is a value, which is not used any more.
    unsafe fn clear(&self);

    /// Returns a place of its own, without a value.
    fn vacant(&self) -> Box<dyn Place>;
}

/// The place of a value; `_own`: its memory, if that is not the location's.
struct Typed<T> {
    at: *mut T,
    _own: Option<Arc<UnsafeCell<MaybeUninit<T>>>>,
}

// SAFETY: the address is dereferenced only by functions whose callers have the access of a grant,
// or own the place.
unsafe impl<T: Send> Send for Typed<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Typed<T> {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Place for Typed<T> {
    fn address(&self) -> *mut u8 {
        self.at.cast()
    }

    unsafe fn encode(&self, to: &mut [u8]) -> Result<usize, Error> {
        // SAFETY: the caller guarantees that there is a value, which is alive and is not written.
        write_slice(unsafe { &*self.at }, to)
    }

    unsafe fn decode(&self, bytes: &[u8], full: bool) -> Result<(), Error> {
        let value = decode(bytes)?;
        // SAFETY: the caller guarantees that the place is alive, is not accessed, and has a value
        // if it is `full`.
        unsafe { if full { *self.at = value } else { self.at.write(value) } };
        Ok(())
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller guarantees that there is a value, which is not used any more.
        unsafe { self.at.drop_in_place() };
    }

    fn vacant(&self) -> Box<dyn Place> {
        let own = Arc::new(UnsafeCell::new(MaybeUninit::<T>::uninit()));
        Box::new(Typed { at: own.get().cast::<T>(), _own: Some(own) })
    }
}

impl Wire {
    /// The encoding of the value at this address, which is that of a location.
    pub(crate) fn new<T>(value: *mut T, bound: usize) -> Wire
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Wire { bound, own: Box::new(Typed { at: value, _own: None }) }
    }

    /// The bytes of the encoded value in the memory of a host, with the header.
    pub(crate) fn len(&self) -> usize {
        self.bound.saturating_add(HEADER)
    }

    /// Encodes the location's own value into `to`, as the first version.
    ///
    /// # Safety
    /// The location is alive, and no thread writes its value meanwhile.
    pub(crate) unsafe fn put(&self, location: &str, to: &mut [u8]) -> Result<(), WireError> {
        // SAFETY: the caller guarantees that the location is alive and its value is not written.
        let encode = |to: &mut [u8]| without_panic(|| unsafe { self.own.encode(to) });
        self.fill(location, (0, 0), to, encode)
    }

    /// Encodes a value by `encode`, as this version.
    fn fill(
        &self,
        location: &str,
        version: Version,
        to: &mut [u8],
        encode: impl FnOnce(&mut [u8]) -> Result<usize, String>,
    ) -> Result<(), WireError> {
        let room = &mut to[HEADER..];
        let most = room.len();
        let location = || location.to_owned();
        let bytes =
            encode(room).map_err(|reason| WireError::Refused { location: location(), reason })?;
        if bytes > most {
            return Err(WireError::Long { location: location(), bytes, bound: self.bound });
        }
        for (word, at) in [bytes as u64, version.0, version.1].into_iter().zip(to.chunks_mut(8)) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    /// Decodes the location's own value.
    ///
    /// # Safety
    /// The location is alive, and no other thread accesses its value meanwhile.
    pub(crate) unsafe fn take(&self, location: &str, from: &[u8]) -> Result<(), WireError> {
        let (bytes, _) = parse(location, from)?;
        // SAFETY: the caller guarantees that the location is alive and its value is not accessed.
        let taken = without_panic(|| unsafe { self.own.decode(bytes, true) });
        taken.map_err(|reason| undecodable(location, reason))
    }

    /// Returns a copy for a request of a task, without a value.
    pub(crate) fn copy(&self) -> WireCopy {
        WireCopy { place: self.own.vacant(), version: None }
    }
}

/// The decoded copy of a request.
pub(crate) struct WireCopy {
    place: Box<dyn Place>,
    /// None as long as there is no value.
    version: Option<Version>,
}

impl WireCopy {
    /// The address of the value, which is valid after the first [`load`](Self::load).
    pub(crate) fn address(&self) -> *mut u8 {
        self.place.address()
    }

    /// Decodes the value, unless the copy has this version.
    ///
    /// # Safety
    /// No reference to the copy exists.
    pub(crate) unsafe fn load(&mut self, location: &str, from: &[u8]) -> Result<(), WireError> {
        let (bytes, version) = parse(location, from)?;
        if self.version != Some(version) {
            // SAFETY: the caller guarantees that no reference to the copy exists, which has a value
            // if it has a version.
            unsafe { self.place.decode(bytes, self.version.is_some()) }
                .map_err(|error| undecodable(location, error.to_string()))?;
            self.version = Some(version);
        }
        Ok(())
    }

    /// Encodes the value as this version.
    ///
    /// # Safety
    /// The copy was loaded, and no exclusive reference to it exists.
    pub(crate) unsafe fn store(
        &mut self,
        location: &str,
        wire: &Wire,
        version: Version,
        to: &mut [u8],
    ) -> Result<(), WireError> {
        // SAFETY: the caller guarantees that the copy has a value and is not written.
        let encode = |to: &mut [u8]| unsafe { self.place.encode(to) }.map_err(|e| e.to_string());
        wire.fill(location, version, to, encode)?;
        self.version = Some(version);
        Ok(())
    }
}

impl Drop for WireCopy {
    fn drop(&mut self) {
        if self.version.is_some() {
            // SAFETY: the copy has a value, and with its owner all references have ended.
            unsafe { self.place.clear() };
        }
    }
}

/// Calls the `Serialize` or `Deserialize` of a type; returns the reason why it fails, which may be
/// a panic. Outside of bodies a panic would leave the other members waiting.
fn without_panic<R>(call: impl FnOnce() -> Result<R, Error>) -> Result<R, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("it panicked: {}", message(&*panic))),
    }
}

fn undecodable(location: &str, reason: String) -> WireError {
    WireError::Undecodable { location: location.to_owned(), reason }
}

/// Returns the number of bytes of an encoded value with its header; damaged ones have any number.
pub(crate) fn encoded_len(bytes: &[u8]) -> usize {
    let len = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    usize::try_from(len).unwrap_or(usize::MAX).saturating_add(HEADER)
}

/// Returns the encoded value and its version.
fn parse<'b>(location: &str, from: &'b [u8]) -> Result<(&'b [u8], Version), WireError> {
    let word = |i: usize| from[8 * i..][..8].try_into().map_or(0, u64::from_le_bytes);
    let bytes = usize::try_from(word(0)).ok().and_then(|len| from[HEADER..].get(..len));
    let bytes =
        bytes.ok_or_else(|| undecodable(location, "its length exceeds the bound".to_owned()))?;
    Ok((bytes, (word(1), word(2))))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn damaged_bytes_are_errors() {
        let mut own = "seven".to_owned();
        let wire = Wire::new(&raw mut own, 16);
        let mut bytes = vec![0; wire.len()];
        // SAFETY: `own` is alive, and is accessed by no other code.
        unsafe { wire.put("text", &mut bytes) }.unwrap();
        let load = |bytes: &[u8]| {
            let mut copy = wire.copy();
            // SAFETY: no reference to the copy exists.
            unsafe { copy.load("text", bytes) }.map_err(|error| error.to_string())
        };
        load(&bytes).unwrap();
        for at in 0..HEADER + 6 {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let outcome = load(&damaged);
                // The length of the encoding, or that of the text in it.
                if at < 8 || at == HEADER {
                    let error = outcome.unwrap_err();
                    assert!(error.starts_with("the bytes of location 'text' are not"), "{error}");
                }
            }
        }
    }

    #[test]
    fn nested_bytes_take_no_stack() {
        #[derive(serde::Deserialize, Serialize)]
        struct Chain(Option<Box<Chain>>);

        let mut own = Chain(None);
        let wire = Wire::new(&raw mut own, 1 << 20);
        let mut bytes = vec![1; wire.len()];
        bytes[..8].copy_from_slice(&(1_u64 << 20).to_le_bytes());
        // SAFETY: no reference to the copy exists.
        let error = unsafe { wire.copy().load("chain", &bytes) }.unwrap_err();
        assert!(error.to_string().contains("nested deeper than 256 levels"), "{error}");
    }

    #[test]
    fn a_copy_decodes_a_version_once() {
        let mut own = 7_u64;
        let wire = Wire::new(&raw mut own, 16);
        let mut bytes = vec![0; wire.len()];
        let mut copy = wire.copy();
        // SAFETY: `own` is alive; no other code accesses it, or has a reference to the copy.
        unsafe {
            wire.put("number", &mut bytes).unwrap();
            copy.load("number", &bytes).unwrap();
            *copy.address().cast::<u64>() = 8;
            copy.load("number", &bytes).unwrap();
            assert_eq!(*copy.address().cast::<u64>(), 8, "the same version is not decoded");
            copy.store("number", &wire, (1, 1), &mut bytes).unwrap();
            copy.load("number", &bytes).unwrap();
            wire.take("number", &bytes).unwrap();
        }
        assert_eq!(own, 8);
        // SAFETY: as above.
        unsafe {
            wire.put("number", &mut bytes).unwrap();
            *copy.address().cast::<u64>() = 9;
            copy.load("number", &bytes).unwrap();
            assert_eq!(*copy.address().cast::<u64>(), 8, "another version is decoded");
        }
    }
}
