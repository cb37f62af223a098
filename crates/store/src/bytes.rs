//! Doubles as the bytes that files hold.

#[cfg(not(target_endian = "little"))]
compile_error!(
    "files hold little-endian doubles and are mapped as they are: a little-endian target is needed"
);

#[cfg(not(target_pointer_width = "64"))]
compile_error!("matrices larger than memory are mapped: a 64-bit target is needed");

/// The bytes of `values`.
pub(crate) fn of(values: &[f64]) -> &[u8] {
    // SAFETY: the pointer and the length in bytes are those of a live slice; u8 has no alignment, and doubles
    // no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of `values`, to be overwritten: any bytes are doubles.
pub(crate) fn of_mut(values: &mut [f64]) -> &mut [u8] {
    // SAFETY: as in `of`, and the slice is borrowed exclusively; every bit pattern is a valid f64.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
