//! Locations: a name and a queue. The data that a location orders belong to the C program.

use std::ffi::c_char;

use syncline_overlay::Location as Control;

use crate::error::{Status, call, name, out};

/// A name with a strict queue of readers and writers. The program decides which resource a location
/// stands for: a block of an array, a file, a device.
#[derive(Debug)]
pub struct Location(pub(crate) Control<()>);

/// Creates a location. Its name appears in messages. Free it with `syncline_location_free`.
///
/// # Safety
/// `name` must be a UTF-8 string that ends in a zero byte; it is copied. `*location` must be valid
/// for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_location_new(
    name: *const c_char,
    location: *mut *mut Location,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `location` is valid for writes.
        let location = unsafe { out(location, "location") }?;
        // SAFETY: the caller guarantees that a non-null `name` is a string that ends in a zero
        // byte.
        let name = unsafe { self::name(name, "the name of the location") }?;
        let new = Box::new(Location(Control::new(name, ())));
        location.write(Box::into_raw(new));
        Ok(())
    })
}

/// Frees a location; does nothing for `NULL`. Handles and overlays that were made with the location
/// remain usable.
///
/// # Safety
/// `location` must come from `syncline_location_new`, and must not be used after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_location_free(location: *mut Location) {
    if !location.is_null() {
        // SAFETY: `syncline_location_new` made the box, and the caller guarantees that it is not
        // used after this call.
        let location = unsafe { Box::from_raw(location) };
        // The destructor can neither fail nor panic, so there is no status to return.
        call(|| {
            drop(location);
            Ok(())
        });
    }
}
