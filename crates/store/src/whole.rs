//! Access to whole row-major matrices: as one slice in memory, or as a file for readers that bypass
//! the page cache.
//!
//! | matrix                       | `as_slice`     | `row_major_file`; `direct`                   |
//! |------------------------------|----------------|----------------------------------------------|
//! | row-major, heap or shared    | the whole data | none                                         |
//! | row-major, opened from file  | none           | its path, or a descriptor; and the offset    |
//! | row-major, over a new file   | none           | none (no name yet); a descriptor             |
//! | blocked, framed              | none           | none                                         |
//!
//! A file that is [held](Matrix::hold) is still a file: it is not lent as a slice, because a
//! truncated file would then raise SIGBUS in unrelated code.

use std::path::{Path, PathBuf};

use crate::{Element, Layout, Matrix, Result, bytes, chunk::Touch, direct::DirectFile};

/// The position of the rows of a matrix: row `i` of `cols` elements begins at byte
/// `start + i * cols * T::BYTES` of the file at `path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowMajorFile {
    /// The path by which the matrix was opened; a relative path stays relative.
    pub path: PathBuf,
    /// The offset of the first element in bytes.
    pub start: u64,
}

impl<T: Element> Matrix<T> {
    /// Returns the position of the rows on file, for readers that bypass the page cache; `None` in
    /// memory, for other layouts, and for a matrix [over a new file](Self::create), which has no
    /// name yet.
    ///
    /// A caller that opens the path again must ensure that the file was not replaced meanwhile.
    ///
    /// ```
    /// use syncline_store::{Layout, Matrix, Shape};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("za");
    /// std::fs::write(&path, [0; 24])?;
    /// let matrix = Matrix::<f32>::open_raw(&path, Shape::new(2, 3), Layout::RowMajor)?;
    /// let file = matrix.row_major_file().ok_or("the matrix is not on file")?;
    /// assert_eq!((file.path, file.start), (path, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn row_major_file(&self) -> Option<RowMajorFile> {
        let path = self.opened().filter(|_| self.layout() == Layout::RowMajor)?.to_owned();
        Some(RowMajorFile { path, start: self.bytes_of(0..0).start })
    }

    /// Returns the path that the matrix was opened by; `None` for a matrix in memory or over a new
    /// file.
    pub fn path(&self) -> Option<&Path> {
        self.opened()
    }

    /// Opens the file of a row-major matrix again for direct I/O, and returns it with the offset of
    /// its first element in bytes; `None` in memory and for other layouts. The file is open for
    /// writing if the matrix is.
    ///
    /// Data written this way are visible through the matrix once the write has returned. If the two
    /// are used at the same time, either may see old data.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File).
    pub fn direct(&self) -> Result<Option<(DirectFile, u64)>> {
        let Some(file) = self.chunk().file().filter(|_| self.layout() == Layout::RowMajor) else {
            return Ok(None);
        };
        let file =
            DirectFile::of(file, Path::new(self.chunk().name()), self.chunk().is_writable())?;
        Ok(Some((file, self.bytes_of(0..0).start)))
    }

    /// Returns all elements, row by row, of a row-major matrix on the heap or in shared memory;
    /// `None` for others.
    ///
    /// ```
    /// use syncline_store::{Matrix, Shape};
    /// let matrix = Matrix::from_vec(Shape::new(2, 2), vec![1.0_f32, 2.0, 3.0, 4.0])?;
    /// assert_eq!(matrix.as_slice(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub fn as_slice(&self) -> Option<&[T]> {
        let (pointer, len) = self.whole()?;
        // SAFETY: `whole` returns a pointer that is not null and aligned, to `len` initialised
        // elements in one mapping that lives as long as the chunk, which `self` keeps alive. A
        // mapping is at most `isize::MAX` bytes long. No code of this process writes the elements
        // while `self` is borrowed: there is no `&mut Matrix`, and regions, whose creation consumes
        // the matrix, give out no `&Matrix`. Other processes that map shared memory must not write
        // it meanwhile: see `Matrix`.
        Some(unsafe { std::slice::from_raw_parts(pointer, len) })
    }

    /// Returns the [`checksum`](crate::checksum::checksum) of the bytes of
    /// [`as_slice`](Self::as_slice).
    pub fn values_checksum(&self) -> Option<u64> {
        self.as_slice().map(|values| crate::checksum::checksum(bytes::of(values)))
    }

    /// Returns [`as_slice`](Self::as_slice) for writing.
    ///
    /// A matrix that is shared cannot be written. Tiles are made of an `Arc<Matrix>`, so there is
    /// no slice for writing beside a tile:
    /// ```compile_fail,E0596
    /// # use std::sync::Arc;
    /// # use syncline_store::Matrix;
    /// # fn test(matrix: Arc<Matrix>) {
    /// matrix.as_mut_slice();
    /// # }
    /// ```
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let (pointer, len) = self.whole()?;
        // SAFETY: as in `as_slice`. Memory that is not a file is mapped for reading and writing.
        // The matrix is the only one of its chunk, and is borrowed exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
    }

    /// Returns a pointer to the first of the elements of a row-major matrix in memory, aligned and
    /// initialised, and their number; `None` for other matrices.
    fn whole(&self) -> Option<(*mut T, usize)> {
        if self.chunk().is_file() || self.layout() != Layout::RowMajor {
            return None;
        }
        let len = self.shape().elements();
        // The map of memory cannot fail, and keeps its address as long as the chunk lives.
        let mapped = self.chunk().map(self.bytes_of(0..len), Touch::Read).ok()?;
        Some((mapped.as_ptr().cast(), len))
    }
}
