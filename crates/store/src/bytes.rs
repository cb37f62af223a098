//! Conversion between values and the bytes that files hold.

#[cfg(not(target_endian = "little"))]
compile_error!(
    "files hold little-endian numbers and are mapped as they are: a little-endian target is needed"
);

#[cfg(not(target_pointer_width = "64"))]
compile_error!("matrices larger than memory are mapped: a 64-bit target is needed");

use crate::Element;

/// Returns the bytes of `values`.
pub(crate) fn of<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: the pointer and the length in bytes are those of a live slice; `u8` has alignment 1,
    // and the elements, which are only `f64` and `f32`, have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Returns the bytes of `values` for overwriting; any bytes are valid elements.
pub(crate) fn of_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `of`, and the slice is borrowed exclusively; every bit pattern is a valid
    // element.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
