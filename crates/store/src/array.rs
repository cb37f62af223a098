//! Arrays of two or three dimensions, of real or whole numbers, in memory.
//!
//! # Contract
//! An [`Array`] holds its elements row by row (in three dimensions plane by plane), little-endian,
//! aligned to a page, or [borrows](Array::borrowed) them. Its type is known at run time: the arrays
//! of one sweep may differ in it.
//! [`Array::open`] reads every `.npy` file of these types; what is stored otherwise is converted on
//! the way in.
//!
//! | in the file                   | conversion                                              |
//! |-------------------------------|---------------------------------------------------------|
//! | C order, little-endian        | none                                                    |
//! | big-endian                    | the bytes of each element are reversed                  |
//! | Fortran (column-major) order  | transposed, a few rows at a time                        |
//!
//! # Costs
//! A file in Fortran order is read once for each batch of rows that fits a buffer of 64 MiB.

use std::any::Any;
use std::fmt::Display;
use std::fs::File;
use std::io::Seek;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use syncline_memory::Segment;

use crate::chunk::{Chunk, Touch, modified};
use crate::direct_io::{DirectFile, IoBuffer};
use crate::generation::InputId;
pub use crate::half::{Bool, Half};
use crate::{Element, ElementType, Error, Layout, Matrix, NewFile, Result, Shape, chunk, npy};

/// The bytes that a conversion of order takes at once.
const BATCH: usize = 64 << 20;

mod sealed {
    pub trait Sealed {}
}

/// A number that arrays hold. The trait is sealed, because unsafe code relies on the properties of
/// its types: they have no padding, and every bit pattern is a value.
pub trait Number: sealed::Sealed + Copy + Send + Sync + Default + PartialEq + 'static {
    /// The corresponding run-time type.
    const TYPE: ElementType;
}

macro_rules! numbers {
    ($($number:ty: $type:ident),*) => {$(
        impl sealed::Sealed for $number {}
        impl Number for $number {
            const TYPE: ElementType = ElementType::$type;
        }
    )*};
}

numbers!(f64: Float64, f32: Float32, u8: Uint8, i16: Int16, u16: Uint16, i32: Int32, i64: Int64);
numbers!(i8: Int8, u32: Uint32, Bool: Bool, Half: Float16);

/// An array of two or three dimensions, in memory.
///
/// ```
/// use syncline_store::{ElementType, array::Array};
/// let heights = Array::from_vec(&[2, 3], vec![1_i16, 2, 3, 4, 5, 6])?;
/// assert_eq!((heights.element(), heights.dims()), (ElementType::Int16, &[2, 3][..]));
/// assert_eq!(heights.values::<i16>(), Some(&[1, 2, 3, 4, 5, 6][..]));
/// assert_eq!(heights.values::<f64>(), None);
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Array {
    element: ElementType,
    dims: Vec<usize>,
    bytes: Bytes,
    origin: Option<Box<InputId>>,
}

/// The elements: in memory of the array, or in that of another owner, which is only read.
#[derive(Debug)]
enum Bytes {
    Own(IoBuffer),
    Borrowed(Segment),
    /// The elements of a matrix, which lives as long as the array.
    Of(Segment, #[expect(dead_code, reason = "keeps the elements")] Arc<dyn Any + Send + Sync>),
}

impl Array {
    /// Creates an array of zeros.
    ///
    /// # Errors
    /// [`Error::Dimensions`] unless there are two or three dimensions, none of them 0;
    /// [`Error::Memory`] if there is no room.
    pub fn zeros(element: ElementType, dims: &[usize]) -> Result<Self> {
        let bytes = Bytes::Own(IoBuffer::new(bytes_of(element, dims)?)?);
        Ok(Self { element, dims: dims.to_vec(), bytes, origin: None })
    }

    /// Makes an array of elements in memory that another owner keeps. Writing to the array copies
    /// them first.
    ///
    /// # Errors
    /// [`Error::Dimensions`] as for [`zeros`](Self::zeros).
    ///
    /// # Safety
    /// As long as the array exists, the elements of the dimensions must be readable at `first`,
    /// which is aligned to them, from any thread, and no code may write them.
    ///
    /// ```
    /// use syncline_store::{ElementType, array::Array};
    /// let cells = [1_u8, 2, 3, 4];
    /// // SAFETY: the four elements outlive the array, and no code writes them.
    /// let array = unsafe { Array::borrowed(ElementType::Uint8, &[2, 2], cells.as_ptr())? };
    /// assert_eq!(array.values(), Some(&cells[..]));
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub unsafe fn borrowed(element: ElementType, dims: &[usize], first: *const u8) -> Result<Self> {
        let bytes = bytes_of(element, dims)?;
        // SAFETY: the caller guarantees that these bytes are readable and not written.
        let bytes = Bytes::Borrowed(unsafe { Segment::borrowed(first, bytes) });
        Ok(Self { element, dims: dims.to_vec(), bytes, origin: None })
    }

    /// Creates an array of these values, row by row.
    ///
    /// # Errors
    /// [`Error::Dimensions`] if the number of values is not that of the dimensions; otherwise as
    /// for [`zeros`](Self::zeros).
    pub fn from_vec<T: Number>(dims: &[usize], values: Vec<T>) -> Result<Self> {
        let given = values.len();
        let wrong = || Error::Dimensions { dims: dims.to_vec(), given };
        let product = dims.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
        if product != Some(given) {
            return Err(wrong());
        }
        let mut array = Self::zeros(T::TYPE, dims).map_err(|error| match error {
            Error::Dimensions { .. } => wrong(),
            other => other,
        })?;
        array.values_mut().ok_or_else(wrong)?.copy_from_slice(&values);
        Ok(array)
    }

    /// Reads a `.npy` file of two or three dimensions, of any order and byte order.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`], [`Error::NotTwoOrThreeDimensions`] and [`Error::NoElements`]
    /// for an array of another kind; [`Error::NotNpy`], [`Error::Length`] and [`Error::File`].
    pub fn open(path: &Path) -> Result<Self> {
        let (file, origin) = open(path)?;
        Ok(Self { origin: Some(Box::new(origin)), ..Self::read(&file, path, usize::MAX)? })
    }

    /// Reads the array that was written to a file which has no name yet: of the first axis the
    /// first `most` positions.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn of_file(new: &NewFile, most: usize) -> Result<Self> {
        let path = new.target();
        let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
        let mut file = new.file().try_clone().map_err(failed)?;
        file.rewind().map_err(failed)?;
        Self::read(&file, path, most)
    }

    /// Returns a copy of the first `most` positions of the first axis.
    ///
    /// # Errors
    /// [`Error::Dimensions`] if there are none; [`Error::Memory`].
    ///
    /// ```
    /// use syncline_store::array::Array;
    ///
    /// let array = Array::from_vec(&[3, 2], vec![1_u8, 2, 3, 4, 5, 6])?;
    /// assert_eq!(array.first(2)?.values(), Some(&[1_u8, 2, 3, 4][..]));
    /// assert_eq!(array.first(9)?, array);
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub fn first(&self, most: usize) -> Result<Self> {
        let mut first = Self::zeros(self.element, &first_of(&self.dims, most))?;
        let bytes = first.bytes().len();
        first.bytes_mut().copy_from_slice(&self.bytes()[..bytes]);
        Ok(first)
    }

    fn read(file: &File, path: &Path, most: usize) -> Result<Self> {
        let header = npy::array(file, path)?;
        let dims = if header.fortran { header.dims } else { first_of(&header.dims, most) };
        let mut array = Self::zeros(header.element, &dims)?;
        let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
        match header.fortran {
            false => file.read_exact_at(array.bytes_mut(), header.start).map_err(failed)?,
            true => array.read_fortran(file, header.start).map_err(failed)?,
        }
        if header.big_endian {
            let width = header.element.bytes();
            array.bytes_mut().chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        Ok(array)
    }

    /// Returns the elements for writing; copies those of another owner first.
    ///
    /// # Panics
    /// If there is no memory for the copy.
    fn own(&mut self) -> &mut IoBuffer {
        self.origin = None;
        if !matches!(self.bytes, Bytes::Own(_)) {
            self.bytes = self.clone().bytes;
        }
        match &mut self.bytes {
            Bytes::Own(bytes) => bytes,
            _ => unreachable!("a copy owns its elements"),
        }
    }

    /// Reads values in column-major order: the file holds the array with its axes reversed.
    fn read_fortran(&mut self, file: &File, start: u64) -> std::io::Result<()> {
        let width = self.element.bytes();
        let (first, rest) = (self.dims[0], self.dims[1..].to_vec());
        let inner: usize = rest.iter().product();
        // In the file, the elements along the first axis are adjacent. A batch has a range of the
        // positions along the other axes, which the file counts in reverse order.
        let batch = (BATCH / (first * width)).clamp(1, inner);
        let bytes = self.own().as_mut_slice();
        let mut buffer = vec![0; batch * first * width];
        for from in (0..inner).step_by(batch) {
            let count = batch.min(inner - from);
            let piece = &mut buffer[..count * first * width];
            file.read_exact_at(piece, start + (from * first * width) as u64)?;
            for at in 0..count {
                let place = match rest[..] {
                    [rows, cols] => (from + at) % rows * cols + (from + at) / rows,
                    _ => from + at,
                };
                for i in 0..first {
                    let value = &piece[(at * first + i) * width..][..width];
                    let to = (i * inner + place) * width;
                    bytes[to..to + width].copy_from_slice(value);
                }
            }
        }
        Ok(())
    }

    /// Writes the array as a `.npy` file, which gets its name by [`NewFile::commit`].
    ///
    /// # Errors
    /// An error of the file system.
    pub fn create(&self, path: &Path) -> Result<NewFile> {
        let header = npy::header(self.element, &self.dims);
        let new = NewFile::create(path, (header.len() + self.bytes().len()) as u64)?;
        let failed = |source| Error::File { action: "write", path: path.to_owned(), source };
        new.file().write_all_at(&header, 0).map_err(failed)?;
        new.file().write_all_at(self.bytes(), header.len() as u64).map_err(failed)?;
        Ok(new)
    }

    /// Returns the type of the elements.
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the dimensions: rows and columns, or planes, rows and columns.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns all elements, row by row, if they are of this type.
    pub fn values<T: Number>(&self) -> Option<&[T]> {
        let (start, len) = (self.bytes().as_ptr().cast::<T>(), self.bytes().len() / size_of::<T>());
        // SAFETY: the bytes are those of `len` elements of this type, aligned to a page, or as the
        // caller of `borrowed` guarantees, and every bit pattern is a value.
        (T::TYPE == self.element).then(|| unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Returns all elements for writing, row by row, if they are of this type.
    pub fn values_mut<T: Number>(&mut self) -> Option<&mut [T]> {
        let element = self.element;
        let own = self.own();
        let (start, len) = (own.as_mut_ptr().cast::<T>(), own.len() / size_of::<T>());
        // SAFETY: as in `values`, and the array is borrowed exclusively.
        (T::TYPE == element).then(|| unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// Returns the place of the first element whose bits differ from those of another array of the
    /// same type and dimensions, and both elements. Any two NaNs are equal.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        match self.element {
            ElementType::Float64 => self.differs::<f64>(other, |x, y| {
                x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
            }),
            ElementType::Float32 => self.differs::<f32>(other, |x, y| {
                x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
            }),
            ElementType::Uint8 => self.differs::<u8>(other, |x, y| x == y),
            ElementType::Int16 => self.differs::<i16>(other, |x, y| x == y),
            ElementType::Uint16 => self.differs::<u16>(other, |x, y| x == y),
            ElementType::Int32 => self.differs::<i32>(other, |x, y| x == y),
            ElementType::Int64 => self.differs::<i64>(other, |x, y| x == y),
            ElementType::Int8 => self.differs::<i8>(other, |x, y| x == y),
            ElementType::Uint32 => self.differs::<u32>(other, |x, y| x == y),
            ElementType::Bool => self.differs::<Bool>(other, |x, y| x == y),
            ElementType::Float16 => {
                self.differs::<Half>(other, |x, y| x == y || x.is_nan() && y.is_nan())
            }
        }
    }

    fn differs<T: Number + Display>(
        &self,
        other: &Self,
        same: impl Fn(&T, &T) -> bool,
    ) -> Option<String> {
        let Some((left, right)) = self.values::<T>().zip(other.values::<T>()) else {
            return Some(format!("{} and {}", self.element, other.element));
        };
        let at = left.iter().zip(right).position(|(x, y)| !same(x, y))?;
        let cols = *self.dims.last()?;
        let (row, col) = (at / cols, at % cols);
        let place = match self.dims[..] {
            [_, rows, _] => format!("plane {}, row {}", row / rows, row % rows),
            _ => format!("row {row}"),
        };
        Some(format!("{place}, column {col}: {} and {}", left[at], right[at]))
    }

    /// Returns the bytes of all elements.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own(bytes) => bytes.as_slice(),
            // SAFETY: the caller of `borrowed` guarantees that the bytes are readable and not
            // written as long as the array exists. Those of a matrix are not written while it is
            // shared.
            Bytes::Borrowed(bytes) | Bytes::Of(bytes, _) => unsafe {
                std::slice::from_raw_parts(bytes.as_ptr(), bytes.len())
            },
        }
    }

    /// Returns the file from which the elements were read, as it was found then, unless they may
    /// have been changed since.
    ///
    /// ```
    /// use syncline_store::array::Array;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.npy");
    /// let made = Array::from_vec(&[1, 2], vec![3_u8, 4])?;
    /// made.create(&path)?.commit()?;
    /// let read = Array::open(&path)?;
    /// assert_eq!(read.origin().map(|origin| &*origin.name), Some("a.npy"));
    /// assert_eq!(made.origin(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn origin(&self) -> Option<&InputId> {
        self.origin.as_deref()
    }

    /// Returns the bytes of all elements for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.own().as_mut_slice()
    }
}

/// An array on file whose elements are stored as arrays in memory store them: it can be read in
/// parts.
#[derive(Debug)]
pub struct ArrayFile {
    file: DirectFile,
    element: ElementType,
    dims: Vec<usize>,
    start: u64,
    origin: Option<InputId>,
}

impl ArrayFile {
    /// Returns the file, as it was found when it was opened, if it had a name.
    pub const fn origin(&self) -> Option<&InputId> {
        self.origin.as_ref()
    }

    /// Returns the type of the elements.
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the dimensions: rows and columns, or planes, rows and columns.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the file, and the byte at which its elements begin.
    pub const fn direct(&self) -> (&DirectFile, u64) {
        (&self.file, self.start)
    }
}

/// An array in memory or on file.
#[derive(Debug)]
pub enum ArraySource {
    /// In memory.
    Memory(Array),
    /// On file.
    File(ArrayFile),
}

impl ArraySource {
    /// Opens a `.npy` file of two or three dimensions. What is stored in another order is read into
    /// memory; other files are only opened.
    ///
    /// # Errors
    /// As for [`Array::open`].
    pub fn open(path: &Path) -> Result<Self> {
        let (file, origin) = open(path)?;
        let header = npy::array(&file, path)?;
        if header.fortran || header.big_endian {
            return Ok(Self::Memory(Array::open(path)?));
        }
        let npy::Header { element, dims, start, .. } = header;
        let file = DirectFile::of(&file, path, false)?;
        Ok(Self::File(ArrayFile { file, element, dims, start, origin: Some(origin) }))
    }

    /// Opens a file of the elements only, in the order of memory.
    ///
    /// # Errors
    /// [`Error::Length`] if it has another length; [`Error::File`].
    #[doc(hidden)]
    pub fn open_raw(path: &Path, element: ElementType, dims: &[usize]) -> Result<Self> {
        let (file, origin) = open(path)?;
        let expected = bytes_of(element, dims)? as u64;
        if origin.bytes != expected {
            let (path, what) = (path.to_owned(), format!("{element} of the shape {dims:?}"));
            return Err(Error::Length { path, what, expected, actual: origin.bytes });
        }
        let file = DirectFile::of(&file, path, false)?;
        let (dims, origin) = (dims.to_vec(), Some(origin));
        Ok(Self::File(ArrayFile { file, element, dims, start: 0, origin }))
    }

    /// Returns the elements of a row-major matrix as an array, without a copy; of another layout,
    /// what the array has is the beginning of what is stored.
    ///
    /// # Errors
    /// An error if the file of the matrix cannot be examined, or has changed since it was opened.
    #[doc(hidden)]
    pub fn of_matrix<T: Element>(matrix: &Arc<Matrix<T>>) -> Result<Self> {
        let dims = vec![matrix.shape().rows, matrix.shape().cols];
        let (bytes, first) = (bytes_of(T::TYPE, &dims)?, matrix.bytes_of(0..0).start);
        let chunk = matrix.chunk();
        let Some(file) = chunk.file() else {
            let mapped = chunk.map(first..first + bytes as u64, Touch::Read)?;
            // SAFETY: the memory has these bytes, at this address as long as the chunk lives, which
            // the matrix keeps. The matrix is shared, so no code writes it.
            let segment = unsafe { Segment::borrowed(mapped.as_ptr().cast_const(), bytes) };
            let bytes = Bytes::Of(segment, Arc::clone(matrix) as Arc<dyn Any + Send + Sync>);
            return Ok(Self::Memory(Array { element: T::TYPE, dims, bytes, origin: None }));
        };
        let name = Path::new(chunk.name());
        let origin = match matrix.path() {
            None => None,
            Some(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let origin = InputId::of(&name, path)?;
                if chunk.version()? != Some((origin.bytes, origin.modified_ns)) {
                    return Err(Error::InputChanged { path: path.to_owned() });
                }
                Some(origin)
            }
        };
        let file = DirectFile::of(file, name, false)?;
        Ok(Self::File(ArrayFile { file, element: T::TYPE, dims, start: first, origin }))
    }

    /// Returns the type of the elements.
    pub const fn element(&self) -> ElementType {
        match self {
            Self::Memory(array) => array.element(),
            Self::File(file) => file.element(),
        }
    }

    /// Returns the dimensions.
    pub fn dims(&self) -> &[usize] {
        match self {
            Self::Memory(array) => array.dims(),
            Self::File(file) => file.dims(),
        }
    }

    /// Returns the first `most` positions of the first axis in memory.
    ///
    /// # Errors
    /// As for [`Array::open`] and [`Array::first`].
    pub fn first(&self, most: usize) -> Result<Array> {
        match self {
            Self::Memory(array) => array.first(most),
            Self::File(file) => {
                let path = file.file.name();
                Array::read(&chunk::open(path)?, path, most)
            }
        }
    }

    /// Returns the array in memory; reads it if it is on file.
    ///
    /// # Errors
    /// As for [`Array::open`].
    pub fn into_memory(self) -> Result<Array> {
        match self {
            Self::Memory(array) => Ok(array),
            Self::File(file) => Array::open(file.file.name()),
        }
    }
}

/// Returns the bytes of an array; fails unless it has two or three dimensions, none of them 0.
fn bytes_of(element: ElementType, dims: &[usize]) -> Result<usize> {
    let product = dims.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
    let bytes = product.and_then(|n| n.checked_mul(element.bytes()));
    let bytes = bytes.filter(|bytes| *bytes > 0 && matches!(dims.len(), 2 | 3));
    bytes.ok_or_else(|| Error::Dimensions { dims: dims.to_vec(), given: 0 })
}

/// Returns the dimensions of the first `most` positions of the first axis.
fn first_of(dims: &[usize], most: usize) -> Vec<usize> {
    let mut dims = dims.to_vec();
    if let Some(first) = dims.first_mut() {
        *first = most.min(*first);
    }
    dims
}

/// Opens a file, and returns how it is found before it is read.
fn open(path: &Path) -> Result<(File, InputId)> {
    let file = chunk::open(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let origin = InputId::of(&name, path)?;
    let opened = file.metadata();
    match opened.map(|opened| (opened.len(), modified(&opened))) {
        Ok(found) if found == (origin.bytes, origin.modified_ns) => Ok((file, origin)),
        Ok(_) => Err(Error::InputChanged { path: path.to_owned() }),
        Err(source) => Err(Error::File { action: "look at", path: path.to_owned(), source }),
    }
}

/// Returns the header of a `.npy` file of an array, which its elements follow.
pub fn header(element: ElementType, dims: &[usize]) -> Vec<u8> {
    npy::header(element, dims)
}

impl<T: Element> Matrix<T> {
    /// Turns a row-major matrix in memory of its own into an array, without a copy; gives others
    /// back.
    ///
    /// # Errors
    /// The matrix.
    #[doc(hidden)]
    pub fn into_array(self) -> std::result::Result<Array, Box<Self>> {
        let (shape, own) = (self.shape(), self.layout() == Layout::RowMajor);
        let segment = if own { self.into_memory() } else { Err(Box::new(self)) }?;
        let dims = vec![shape.rows, shape.cols];
        let bytes = Bytes::Own(IoBuffer::of(segment));
        Ok(Array { element: T::TYPE, dims, bytes, origin: None })
    }

    /// Turns an array of two dimensions into a matrix, without a copy if it owns its elements.
    ///
    /// # Errors
    /// [`Error::Dimensions`] if it has three dimensions, or elements of another type.
    #[doc(hidden)]
    pub fn of_array(mut array: Array) -> Result<Self> {
        let [rows, cols] = array.dims[..] else {
            return Err(Error::Dimensions { dims: array.dims, given: 0 });
        };
        if array.element != T::TYPE {
            return Err(Error::Dimensions { dims: array.dims, given: 0 });
        }
        array.own();
        let Bytes::Own(bytes) = array.bytes else { unreachable!("the array owns its elements") };
        let shape = Shape::new(rows, cols);
        Self::new(Chunk::of_memory(bytes.into_segment()), 0, shape, Layout::RowMajor)
    }
}

impl Clone for Array {
    /// Copies the elements.
    ///
    /// # Panics
    /// If there is no memory for the copy.
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.element, &self.dims)
            .unwrap_or_else(|error| panic!("cannot copy an array: {error}"));
        copy.bytes_mut().copy_from_slice(self.bytes());
        Self { origin: self.origin.clone(), ..copy }
    }
}

impl PartialEq for Array {
    /// Compares types, dimensions and the bits of all elements.
    fn eq(&self, other: &Self) -> bool {
        (self.element, &self.dims, self.bytes()) == (other.element, &other.dims, other.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file as numpy would.
    fn npy(descr: &str, fortran: bool, dims: &str, data: &[u8]) -> tempfile::NamedTempFile {
        let order = if fortran { "True" } else { "False" };
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {dims}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn foreign_orders_are_converted() {
        // The arrays 0 1 2 / 3 4 5, and 0..12 as 2 x 2 x 3.
        let fortran: Vec<u8> =
            [0_i16, 3, 1, 4, 2, 5].iter().flat_map(|v| v.to_be_bytes()).collect();
        let file = npy(">i2", true, "(2, 3)", &fortran);
        let array = Array::open(file.path()).unwrap();
        assert_eq!(array.values::<i16>(), Some(&[0, 1, 2, 3, 4, 5][..]));
        let fortran = [0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11];
        let file = npy("|u1", true, "(2, 2, 3)", &fortran);
        let array = Array::open(file.path()).unwrap();
        assert_eq!(array.values::<u8>().unwrap(), (0..12).collect::<Vec<u8>>());
    }

    #[test]
    fn a_written_array_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let array = Array::from_vec(&[2, 1, 2], vec![1_u16, 65535, 0, 7]).unwrap();
        array.create(&path).unwrap().commit().unwrap();
        assert_eq!(Array::open(&path).unwrap(), array);
        assert!(array.clone() == array);
    }

    #[test]
    fn every_type_goes_through_a_file() {
        fn through<T: Number + std::fmt::Debug>(values: [T; 4], descr: &str, bytes: &[u8]) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.npy");
            let array = Array::from_vec(&[2, 2], values.to_vec()).unwrap();
            assert_eq!((array.element(), array.bytes()), (T::TYPE, bytes));
            array.create(&path).unwrap().commit().unwrap();
            let read = Array::open(&path).unwrap();
            assert_eq!(read.values(), Some(&values[..]));
            assert_eq!(read.first_difference(&array), None);
            let text = std::fs::read(&path).unwrap();
            let header = String::from_utf8_lossy(&text[10..64]).into_owned();
            assert!(header.contains(&format!("'descr': '{descr}'")), "{header}");
            // What another program writes is read as well, also with its bytes reversed.
            let foreign = npy(descr, false, "(2, 2)", bytes);
            assert_eq!(Array::open(foreign.path()).unwrap(), array);
            if let Some(rest) = descr.strip_prefix('<') {
                let mut bytes = bytes.to_vec();
                bytes.chunks_mut(array.element().bytes()).for_each(<[u8]>::reverse);
                let foreign = npy(&format!(">{rest}"), false, "(2, 2)", &bytes);
                assert_eq!(Array::open(foreign.path()).unwrap(), array);
            }
        }
        through([0_i8, -1, 127, -128], "|i1", &[0, 255, 127, 128]);
        let numbers = [0, 1, u32::MAX, 1 << 31];
        let bytes = [0, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 128];
        through(numbers, "<u4", &bytes);
        through([false, true, true, false].map(Bool::from), "|b1", &[0, 1, 1, 0]);
        let halves = [1.0, -2.0, f64::INFINITY, 0.5].map(Half::from_f64);
        through(halves, "<f2", &[0, 0x3c, 0, 0xc0, 0, 0x7c, 0, 0x38]);
        let differ = |x: u8, y: u8| {
            let of = |value| Array::from_vec(&[1, 1], vec![Bool(value)]).unwrap();
            of(x).first_difference(&of(y))
        };
        assert_eq!(differ(0, 1).as_deref(), Some("row 0, column 0: False and True"));
        assert_eq!(differ(1, 3).as_deref(), Some("row 0, column 0: True and True (the byte 3)"));
    }

    #[test]
    fn others_are_named() {
        let error = |descr, dims, data: &[u8]| {
            let file = npy(descr, false, dims, data);
            Array::open(file.path()).unwrap_err().to_string()
        };
        let complex = error("<c16", "(1, 1)", &[0; 16]);
        assert!(complex.contains("type <c16; save it as one of float64"), "{complex}");
        assert!(error("<f8", "(1,)", &[0; 8]).contains("1 dimension(s) [1], not 2 or 3"));
        assert!(error("<i4", "(2, 2)", &[0; 8]).contains("takes"));
        let empty = error("<i4", "(2, 0)", &[]);
        assert!(empty.ends_with(" has no elements: its dimensions are [2, 0]"), "{empty}");
        assert!(matches!(
            Array::from_vec(&[2, 2], vec![0_u8; 3]),
            Err(Error::Dimensions { given: 3, .. })
        ));
        assert!(Array::from_vec(&[4], vec![0_u8; 4]).is_err());
        assert!(Array::zeros(ElementType::Uint8, &[0, 4]).is_err());
        assert!(Array::zeros(ElementType::Int64, &[1 << 40, 1 << 40]).is_err());
    }
}
