//! The element types of matrices and arrays.
//!
//! | type  | numpy name | in a `.npy` header | bytes | of a [`Matrix`](crate::Matrix) |
//! |-------|------------|--------------------|-------|--------------------------------|
//! | `f64` | `float64`  | `<f8`              | 8     | yes                            |
//! | `f32` | `float32`  | `<f4`              | 4     | yes                            |
//! | `u8`  | `uint8`    | `\|u1`             | 1     | no                             |
//! | `i16` | `int16`    | `<i2`              | 2     | no                             |
//! | `u16` | `uint16`   | `<u2`              | 2     | no                             |
//! | `i32` | `int32`    | `<i4`              | 4     | no                             |
//! | `i64` | `int64`    | `<i8`              | 8     | no                             |
//! | `i8`  | `int8`     | `\|i1`             | 1     | no                             |
//! | `u32` | `uint32`   | `<u4`              | 4     | no                             |
//! | `Bool`| `bool`     | `\|b1`             | 1     | no                             |
//! | `Half`| `float16`  | `<f2`              | 2     | no                             |
//!
//! [`Element`] is the type of a matrix at compile time, [`ElementType`] the type at run time, as
//! read from a file. All types have no padding, and every bit pattern is a valid value: a file can
//! be mapped as it is. Values of other types are elements of an [`Array`](crate::array::Array):
//! see [`Bool`](crate::array::Bool) and [`Half`](crate::array::Half) for those that Rust lacks.

use std::fmt::{self, Debug, Display, LowerExp};
use std::path::Path;
use std::str::FromStr;

use crate::{Error, Result, chunk, npy};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for f32 {}
}

/// An element of a matrix: `f64` or `f32`. The trait is sealed, because unsafe code relies on the
/// properties of these two types.
///
/// ```
/// use syncline_store::{Element, Layout, Matrix, Result, Shape};
/// fn sum<T: Element>(matrix: &Matrix<T>) -> Result<f64> {
///     let mut values = vec![T::default(); matrix.shape().elements()];
///     matrix.read_rows(0..matrix.shape().rows, &mut values)?;
///     Ok(values.into_iter().map(T::to_f64).sum())
/// }
/// assert_eq!(sum(&Matrix::from_vec(Shape::new(1, 2), vec![0.5_f32, 1.0])?)?, 1.5);
/// assert_eq!(sum(&Matrix::<f64>::zeros(Shape::new(3, 3), Layout::RowMajor)?)?, 0.0);
/// # Ok::<(), syncline_store::Error>(())
/// ```
pub trait Element:
    sealed::Sealed + Copy + Send + Sync + Default + PartialOrd + Debug + Display + LowerExp + 'static
{
    /// The corresponding run-time type.
    const TYPE: ElementType;
    /// The number of bytes of one element, which is also its alignment.
    const BYTES: usize = size_of::<Self>();
    /// The `descr` of the type in a `.npy` header.
    const DESCR: &'static str = Self::TYPE.descr();
    /// The name of the type in numpy.
    const NAME: &'static str = Self::TYPE.name();

    /// Returns the nearest value of this type; ties go to even, and values that are too large
    /// become infinity.
    fn from_f64(value: f64) -> Self;

    /// Returns the value as an `f64`, which is exact.
    fn to_f64(self) -> f64;

    /// Returns the bits of the value; those of an `f32` are the lower half.
    fn bits(self) -> u64;

    /// Returns whether the value is not a number.
    fn is_nan(self) -> bool;
}

impl Element for f64 {
    const TYPE: ElementType = ElementType::Float64;

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::Float32;

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }

    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

/// The type of the elements of a matrix or an array, as read from a file.
///
/// ```
/// use syncline_store::ElementType;
/// let element: ElementType = "float32".parse()?;
/// assert_eq!(
///     (element.bytes(), element.descr(), element.to_string()),
///     (4, "<f4", "float32".to_owned())
/// );
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// `f64`.
    Float64,
    /// `f32`.
    Float32,
    /// `u8`.
    Uint8,
    /// `i16`.
    Int16,
    /// `u16`.
    Uint16,
    /// `i32`.
    Int32,
    /// `i64`.
    Int64,
    /// `i8`.
    Int8,
    /// `u32`.
    Uint32,
    /// A byte that is 0 or not: [`Bool`](crate::array::Bool).
    Bool,
    /// Half precision: [`Half`](crate::array::Half).
    Float16,
}

impl ElementType {
    /// All element types.
    pub const ALL: [Self; 11] = [
        Self::Float64,
        Self::Float32,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Int64,
        Self::Int8,
        Self::Uint32,
        Self::Bool,
        Self::Float16,
    ];

    /// The element types of a [`Matrix`](crate::Matrix).
    pub const REAL: [Self; 2] = [Self::Float64, Self::Float32];

    /// Returns the number of bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Float64 | Self::Int64 => 8,
            Self::Float32 | Self::Int32 | Self::Uint32 => 4,
            Self::Int16 | Self::Uint16 | Self::Float16 => 2,
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
        }
    }

    /// Returns the `descr` of the type in a `.npy` header.
    pub const fn descr(self) -> &'static str {
        match self {
            Self::Float64 => "<f8",
            Self::Float32 => "<f4",
            Self::Uint8 => "|u1",
            Self::Int16 => "<i2",
            Self::Uint16 => "<u2",
            Self::Int32 => "<i4",
            Self::Int64 => "<i8",
            Self::Int8 => "|i1",
            Self::Uint32 => "<u4",
            Self::Bool => "|b1",
            Self::Float16 => "<f2",
        }
    }

    /// Returns the name of the type in numpy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float64 => "float64",
            Self::Float32 => "float32",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Int8 => "int8",
            Self::Uint32 => "uint32",
            Self::Bool => "bool",
            Self::Float16 => "float16",
        }
    }

    /// Returns whether the values are real numbers, not whole ones nor those of bool.
    pub const fn is_real(self) -> bool {
        matches!(self, Self::Float64 | Self::Float32 | Self::Float16)
    }

    /// Returns the type of the elements of a `.npy` file, read from its header alone.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::NotNpy`], and [`Error::UnknownDtype`] for a type that matrices do
    /// not support.
    pub fn of_npy(path: &Path) -> Result<Self> {
        npy::element(&chunk::open(path)?, path)
    }
}

impl Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Parses the name in numpy, or the `descr`, of a type of matrices.
impl FromStr for ElementType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let named = |element: &Self| [element.name(), element.descr()].contains(&text);
        Self::REAL
            .into_iter()
            .find(named)
            .ok_or_else(|| Error::UnknownElement { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    fn constants_agree<T: Element>() {
        assert_eq!((T::BYTES, align_of::<T>()), (T::TYPE.bytes(), T::TYPE.bytes()));
        assert_eq!((T::DESCR, T::NAME), (T::TYPE.descr(), T::TYPE.name()));
        for text in [T::DESCR, T::NAME] {
            assert_eq!(text.parse::<ElementType>().ok(), Some(T::TYPE));
        }
        assert!(T::from_f64(f64::NAN).is_nan() && !T::default().is_nan());
        assert_eq!(T::default().bits(), 0);
    }

    #[test]
    fn the_two_ways_to_name_a_type_agree() {
        constants_agree::<f64>();
        constants_agree::<f32>();
        for text in ["", "f8", ">f8", "Float64", "int32"] {
            assert!(
                matches!(text.parse::<ElementType>(), Err(Error::UnknownElement { .. })),
                "{text}"
            );
        }
    }

    fn back<T: Element>(value: T) {
        let same = T::from_f64(value.to_f64());
        assert!(same.bits() == value.bits() || (same.is_nan() && value.is_nan()), "{value:?}");
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn every_value_goes_through_f64(bits: u64) {
            back(f64::from_bits(bits));
            back(f32::from_bits(bits as u32));
        }
    }
}
