//! The data of races out of core, and the disk's time for them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use syncline_store::{
    Layout, Matrix, NewFile, Shape,
    direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue, Method, ReadRequest},
};

use crate::error::{Result, failed};

/// Returns pseudorandom numbers in [0, 1).
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f64> {
    use rand_core::{RngCore, SeedableRng};
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    (0..count).map(|_| (random.next_u64() >> 11) as f64 * f64::powi(2.0, -53)).collect()
}

/// Writes the matrix number `n`: the first, the field, has values in [0, 1), the others in [0,
/// 0.25).
pub(crate) fn make(path: &Path, n: usize, shape: Shape) -> Result<()> {
    // The same numbers repeat with a period that no row length divides: the disk does not care.
    let values = numbers(7, 1 << 20 | 1);
    let new = NewFile::create(path, Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor)?)?;
    let mut matrix = Matrix::<f64>::create(&new, true, shape, Layout::RowMajor)?;
    let scale = if n == 0 { 1.0 } else { 0.25 };
    let mut next = values.iter().cycle().skip(n * 1000);
    let mut row = vec![0.0; shape.cols];
    for j in 0..shape.rows {
        row.iter_mut().zip(&mut next).for_each(|(value, next)| *value = next * scale);
        matrix.write_row(j, &row)?;
    }
    Ok(new.commit()?)
}

/// Drops the files of a folder from the page cache; returns the method used.
pub(crate) fn drop_caches(folder: &Path) -> Result<&'static str> {
    rustix::fs::sync();
    // Only root may.
    if fs::write("/proc/sys/vm/drop_caches", "3").is_ok() {
        return Ok("drop_caches");
    }
    let failed = |error| failed("drop files from the page cache", error);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = File::open(path).map_err(failed)?;
            let dropped = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            dropped.map_err(|error| failed(error.into()))?;
        }
    }
    Ok("posix_fadvise")
}

/// Returns the seconds to read all files, panel by panel, while one file of the size of the first
/// is written: with the same calls, and the same kind of memory, as a streamed pass.
pub(crate) fn floor(paths: &[PathBuf], output: &Path, shape: Shape, rows: usize) -> Result<f64> {
    let files = paths.iter().map(|path| Ok(DirectFile::open(path)?)).collect::<Result<Vec<_>>>()?;
    let row_bytes = shape.cols * 8;
    let starts = files
        .iter()
        .map(|file| Ok(file.len()? - (shape.rows * row_bytes) as u64))
        .collect::<Result<Vec<_>>>()?;
    let new = NewFile::create(output, (shape.rows * row_bytes) as u64)?;
    let start = Instant::now();
    let read = || -> Result<()> {
        let mut queue = IoQueue::new(Method::Auto);
        let mut buffers = files
            .iter()
            .map(|file| Ok(IoBuffer::new(file.room(0, rows * row_bytes) + file.alignment())?))
            .collect::<Result<Vec<_>>>()?;
        for row in (0..shape.rows).step_by(rows) {
            let len = rows.min(shape.rows - row) * row_bytes;
            let each = files.iter().zip(&starts).zip(&mut buffers);
            let mut reads: Vec<ReadRequest<'_>> = each
                .map(|((file, start), buffer)| ReadRequest {
                    file,
                    offset: start + (row * row_bytes) as u64,
                    len,
                    into: buffer.as_mut_slice(),
                })
                .collect();
            queue.read(&mut reads)?;
        }
        Ok(())
    };
    let write = || -> Result<()> {
        let mut queue = IoQueue::new(Method::Auto);
        let mut writer = DirectWriter::new(DirectFile::of(new.file(), output, true)?, 0)?;
        let mut buffer = IoBuffer::new(rows * row_bytes + 2 * writer.file().alignment())?;
        for row in (0..shape.rows).step_by(rows) {
            writer.write(
                &mut queue,
                buffer.as_mut_slice(),
                rows.min(shape.rows - row) * row_bytes,
            )?;
        }
        writer.finish()?;
        new.file().sync_data().map_err(|error| failed("sync the output", error))
    };
    thread::scope(|scope| {
        let writing = scope.spawn(write);
        read()?;
        writing.join().unwrap_or_else(|_| Err("writing has panicked".into()))
    })?;
    Ok(start.elapsed().as_secs_f64())
}
