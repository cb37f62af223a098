//! Locations: a name and a queue. The data that they order belong to the C program.

use std::ffi::c_char;

use syncline_overlay::Location as Control;

use crate::error::{Status, call, name, out};

/// Something that has a strict queue of readers and writers. What it stands for is the business of the
/// program: a block of an array, a file, a device.
#[derive(Debug)]
pub struct Location(pub(crate) Control<()>);

/// Makes a location. The name appears in messages.
///
/// # Safety
/// `name` is a string in UTF-8 that ends in a zero byte; it is copied. `*location` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_location_new(
    name: *const c_char,
    location: *mut *mut Location,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let location = unsafe { out(location, "location") }?;
        // SAFETY: as the caller vouches.
        let name = unsafe { self::name(name, "the name of the location") }?;
        let new = Box::new(Location(Control::new(name, ())));
        location.write(Box::into_raw(new));
        Ok(())
    })
}

/// Gives a location back; `NULL` is nothing. Handles and overlays that were made with it go on.
///
/// # Safety
/// `location` comes from `syncline_location_new`, and is not used from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_location_free(location: *mut Location) {
    if !location.is_null() {
        // SAFETY: as the caller vouches.
        let location = unsafe { Box::from_raw(location) };
        // Nothing in it can fail or panic, so there is nothing to say.
        call(|| {
            drop(location);
            Ok(())
        });
    }
}
