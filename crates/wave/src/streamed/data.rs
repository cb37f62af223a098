//! The sources of the rows of a pass, and the sink of its results.

use std::ops::Range;

use syncline_store::{
    Matrix,
    direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue, Method, ReadRequest},
};

use super::sums::Sums;
use crate::lanes::Real;
use crate::strip::ghosts::Ghosts;
use crate::strip::pack::Rows;
use crate::{Error, Result};

/// An array that a pass reads.
pub(crate) enum Source<'a, E> {
    /// All rows, in memory.
    Memory(Rows<E>),
    /// A file and the byte offset of its first element.
    File(&'a DirectFile, u64),
}

/// The place to which a pass writes the field.
pub(crate) enum Sink<E> {
    /// All rows, in memory.
    Memory(Rows<E>),
    /// A file, and the checksums of the data written, if requested.
    File(Box<FileSink>),
}

/// A file that is written front to back.
pub(crate) struct FileSink {
    pub(crate) writer: DirectWriter,
    pub(crate) sums: Option<Sums>,
    queue: IoQueue,
}

impl FileSink {
    pub(crate) fn new(writer: DirectWriter, sums: Option<Sums>) -> Self {
        FileSink { writer, sums, queue: IoQueue::new(Method::Auto) }
    }
}

/// A matrix as the executor holds it during a run.
pub(crate) enum Held {
    Memory,
    File(DirectFile, u64),
}

impl Held {
    /// Prepares a row-major matrix for reading or writing; opens its file, if it has one.
    ///
    /// # Errors
    /// Returns an error if the matrix is in another layout, or its file cannot be opened for direct
    /// I/O.
    pub(crate) fn of<E: Real>(matrix: &Matrix<E>) -> Result<Self> {
        if matrix.as_slice().is_some() {
            return Ok(Held::Memory);
        }
        match matrix.direct()? {
            Some((file, start)) => Ok(Held::File(file, start)),
            None => Err(Error::NotStreamed {
                name: matrix.name().to_owned(),
                why: "it is not row-major; run the sweep in blocks".to_owned(),
            }),
        }
    }

    pub(crate) fn source<'a, E: Real>(&'a self, matrix: &Matrix<E>) -> Source<'a, E> {
        match (self, matrix.as_slice()) {
            (Held::File(file, start), _) => Source::File(file, *start),
            (Held::Memory, values) => Source::Memory(all_rows(
                values.map_or(std::ptr::null_mut(), |v| v.as_ptr().cast_mut()),
                matrix.shape().rows,
                matrix.shape().cols,
            )),
        }
    }
}

/// Returns all rows of a matrix in memory.
pub(crate) fn all_rows<E>(start: *mut E, rows: usize, cols: usize) -> Rows<E> {
    Rows { start, first: 0, end: rows, left: 0, right: cols, pitch: cols }
}

/// The rows of one panel, of all arrays: in buffers of the panel, or in the memory of the array.
pub(crate) struct Panel<E> {
    buffers: Vec<Option<IoBuffer>>,
    ghosts: Ghosts,
    /// The position of the rows of each array, counted with the ghost lines.
    pub(crate) rows: Vec<(usize, Rows<E>)>,
}

impl<E: Real> Panel<E> {
    /// Creates buffers for up to `rows` rows of each array on file.
    pub(crate) fn new(
        sources: &[Source<'_, E>],
        ghosts: Ghosts,
        rows: usize,
        cols: usize,
    ) -> Result<Self> {
        let (mut buffers, mut places) = (Vec::new(), Vec::new());
        for source in sources {
            let (buffer, place) = match source {
                Source::Memory(all) => (None, ghosts.place(*all)),
                Source::File(file, _) => {
                    let buffer =
                        IoBuffer::new(file.room(0, rows * cols * E::BYTES) + file.alignment())?;
                    (Some(buffer), all_rows(std::ptr::null_mut(), 0, cols))
                }
            };
            buffers.push(buffer);
            places.push((places.len(), place));
        }
        Ok(Panel { buffers, ghosts, rows: places })
    }

    /// Changes the source of the field for the next pass; the other arrays stay.
    pub(crate) fn change_field(
        &mut self,
        field: &Source<'_, E>,
        rows: usize,
        cols: usize,
    ) -> Result<()> {
        match field {
            Source::Memory(all) => {
                (self.buffers[0], self.rows[0].1) = (None, self.ghosts.place(*all))
            }
            Source::File(file, _) => {
                let needed = file.room(0, rows * cols * E::BYTES) + file.alignment();
                if self.buffers[0].as_ref().is_none_or(|b| b.len() < needed) {
                    self.buffers[0] = Some(IoBuffer::new(needed)?);
                }
            }
        }
        Ok(())
    }

    /// Reads the given rows of all arrays on file; returns the number of bytes read.
    pub(crate) fn read(
        &mut self,
        sources: &[Source<'_, E>],
        rows: Range<usize>,
        cols: usize,
        queue: &mut IoQueue,
    ) -> Result<u64> {
        let row_bytes = cols * E::BYTES;
        let len = rows.len() * row_bytes;
        let mut reads = Vec::with_capacity(sources.len());
        let each = sources.iter().zip(&mut self.buffers).zip(&mut self.rows);
        for ((source, buffer), (_, place)) in each {
            let (Source::File(file, start), Some(buffer)) = (source, buffer) else {
                continue;
            };
            let offset = start + (rows.start * row_bytes) as u64;
            *place = self.ghosts.place(Rows {
                start: buffer.as_mut_ptr().wrapping_add(file.lead(offset)).cast(),
                first: rows.start,
                end: rows.end,
                left: 0,
                right: cols,
                pitch: cols,
            });
            reads.push(ReadRequest { file, offset, len, into: buffer.as_mut_slice() });
        }
        queue.read(&mut reads)?;
        Ok((len * reads.len()) as u64)
    }

    /// Returns the bytes of an array that were read last; the field is array 0.
    pub(crate) fn bytes_of(&self, array: usize, cols: usize) -> &[u8] {
        let rows = &self.rows[array].1;
        match &self.buffers[array] {
            Some(buffer) if rows.end > rows.first => {
                let lead = rows.start.wrapping_add(rows.left).addr() - buffer.as_ptr().addr();
                &buffer.as_slice()[lead..lead + (rows.end - rows.first) * cols * E::BYTES]
            }
            _ => &[],
        }
    }
}

/// Final rows that are to be written.
pub(crate) struct Outgoing<E> {
    buffer: Option<IoBuffer>,
    /// The alignment of the file; `start` is the byte offset of its first element.
    alignment: u64,
    start: u64,
    ghosts: Ghosts,
    /// The position of the rows, counted with the ghost lines.
    pub(crate) rows: Rows<E>,
}

impl<E: Real> Outgoing<E> {
    /// Creates a buffer for up to `rows` rows if the sink is a file.
    pub(crate) fn new(sink: &Sink<E>, ghosts: Ghosts, rows: usize, cols: usize) -> Result<Self> {
        match sink {
            Sink::Memory(all) => Ok(Outgoing {
                buffer: None,
                alignment: 1,
                start: 0,
                ghosts,
                rows: ghosts.place(*all),
            }),
            Sink::File(file) => {
                let (start, file) = (file.writer.position(), file.writer.file());
                let bytes = file.room(0, rows * cols * E::BYTES) + 2 * file.alignment();
                Ok(Outgoing {
                    buffer: Some(IoBuffer::new(bytes)?),
                    alignment: file.alignment() as u64,
                    start,
                    ghosts,
                    rows: all_rows(std::ptr::null_mut(), 0, cols),
                })
            }
        }
    }

    /// Positions the buffer for the given rows.
    pub(crate) fn place(&mut self, rows: Range<usize>) {
        let cols = self.rows.pitch;
        if let Some(buffer) = &mut self.buffer {
            let offset = self.start + (rows.start * cols * E::BYTES) as u64;
            let lead = (offset % self.alignment) as usize;
            self.rows = self.ghosts.place(Rows {
                start: buffer.as_mut_ptr().wrapping_add(lead).cast(),
                first: rows.start,
                end: rows.end,
                left: 0,
                right: cols,
                pitch: cols,
            });
        }
    }

    /// Writes the rows, which must be the next ones in the file; returns the number of bytes
    /// written.
    pub(crate) fn write(&mut self, sink: &mut FileSink, rows: Range<usize>) -> Result<u64> {
        let Some(buffer) = &mut self.buffer else {
            return Ok(0);
        };
        let len = rows.len() * self.rows.pitch * E::BYTES;
        let lead = sink.writer.lead();
        if let Some(sums) = &mut sink.sums {
            sums.feed(rows, &buffer.as_slice()[lead..lead + len], |_, _| Ok(()))?;
        }
        sink.writer.write(&mut sink.queue, buffer.as_mut_slice(), len)?;
        Ok(len as u64)
    }
}
