//! Computations of several outputs, whose generations are committed together.
//!
//! Several files cannot be renamed at once. So the manifest says "finishing" first, the old outputs
//! are removed, and only then the slots get the names of the outputs, one by one. Wherever this is
//! interrupted, the outputs that exist are all old or all new, and a slot that is missing shows
//! that its output is new.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::RunFolder;
use super::manifest::{Manifest, OtherOutput};
use super::{Generations, Identity, check_whole, disk};
use crate::newfile::{NewFile, check_together, keep_mode};
use crate::{Error, Result};

impl Generations {
    /// Like [`create`](Self::create), for a computation of several outputs in one folder. Each has
    /// a path, the first bytes of its generations and their length in bytes.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// use syncline_store::generation::{Generations, Identity, Progress};
    /// # let folder = tempfile::tempdir()?;
    /// # let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    /// let outputs = [(&*one, &b""[..], 1), (&*two, &b""[..], 2)];
    /// let mut run = Generations::create_all(&outputs, &Identity::default())?;
    /// run.file_of(1, 0)?.write_all_at(b"1", 0)?;
    /// run.file_of(1, 1)?.write_all_at(b"22", 0)?;
    /// run.commit(&Progress { generation: 1, ..Progress::default() })?;
    /// run.finish()?;
    /// assert_eq!((std::fs::read(&one)?, std::fs::read(&two)?), (b"1".to_vec(), b"22".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`create`](Self::create); [`Error::File`] if there is no output; [`Error::Output`]
    /// if two of them are in different folders or are the same file ([`check_together`]).
    pub fn create_all(outputs: &[(&Path, &[u8], u64)], identity: &Identity) -> Result<Self> {
        let mut new = Self::enter(outputs, identity)?;
        let bytes = outputs.iter().fold(0_u64, |sum, &(_, _, bytes)| sum.saturating_add(bytes));
        disk::sync_folder(new.place.parent())?;
        disk::check_room(&new.place.folder, bytes.saturating_mul(2))?;
        new.file(1)?;
        Ok(new)
    }

    /// Begins a computation whose first generation was written to files without names, which become
    /// its slots. They get their names together by [`commit`](Self::commit) of generation 1 and
    /// [`finish`](Self::finish).
    ///
    /// # Errors
    /// Those of [`create_all`](Self::create_all), except a lack of space. The files are complete
    /// results, so they are kept as by [`NewFile::keep`], and are named by [`Error::Kept`].
    pub fn of_files(mut files: Vec<NewFile>, identity: &Identity) -> Result<Self> {
        let paths: Vec<PathBuf> = files.iter().map(|file| file.target().to_owned()).collect();
        let outputs =
            paths.iter().zip(&files).map(|(path, file)| (&**path, &b""[..], file.bytes()));
        let outputs: Vec<_> = outputs.collect();
        let keep = |files: &mut [NewFile], error: Error| {
            files.iter_mut().fold(error, |error, file| error.kept(disk::keep(file)))
        };
        let mut new = Self::enter(&outputs, identity).map_err(|error| keep(&mut files, error))?;
        match new.take(&mut files) {
            Ok(()) => Ok(new),
            Err(error) => {
                let named = new.writing.len();
                let error = new.keep(error);
                Err(keep(&mut files[named..], error))
            }
        }
    }

    /// Makes files the slots of the first generation.
    fn take(&mut self, files: &mut [NewFile]) -> Result<()> {
        disk::sync_folder(self.place.parent())?;
        for (output, file) in files.iter_mut().enumerate() {
            let slot = self.path_of(1, output);
            self.writing.push(disk::name(file, &slot)?);
        }
        disk::sync_folder(&self.place.folder)
    }

    /// Adds to an error which files hold the complete result that could not get its names.
    ///
    /// The result is the last committed generation, which stays in the folder for
    /// [`resume`](Self::resume). If none was committed, it is the first generation, all of whose
    /// data must have been written: its files move to names beside their outputs, as by
    /// [`NewFile::keep`], or stay in the folder if they cannot.
    #[must_use]
    pub fn keep(mut self, error: Error) -> Error {
        if self.kept {
            let generation = self.committed().max(1);
            let slots = (0..self.manifest.outputs()).map(|n| self.place.slot(generation, n));
            let slots = slots.filter(|slot| slot.symlink_metadata().is_ok());
            return slots.fold(error, |error, slot| error.kept(Some(slot)));
        }
        // Empty if data did not reach the disk.
        let slots = std::mem::take(&mut self.writing);
        slots.iter().enumerate().fold(error, |error, (n, file)| {
            let (slot, output) = (self.place.slot(1, n), output(&self.place, &self.manifest, n));
            if disk::sync(file, &slot).is_err() {
                return error;
            }
            let kept = disk::keep_slot(&slot, &output);
            self.kept |= kept.is_none();
            error.kept(kept.or(Some(slot)))
        })
    }

    /// Takes the lock of a computation, beside whose outputs nothing may be left.
    fn enter(outputs: &[(&Path, &[u8], u64)], identity: &Identity) -> Result<Self> {
        let failed = |path: &Path, kind: io::ErrorKind| {
            let (path, source) = (path.to_owned(), kind.into());
            Err(Error::File { action: "replace", path, source })
        };
        let Some(&(first, header, bytes)) = outputs.first() else {
            return failed(Path::new(""), io::ErrorKind::InvalidInput);
        };
        let place = RunFolder::of(first)?;
        for &(path, header, bytes) in outputs {
            if path.is_dir() {
                return failed(path, io::ErrorKind::IsADirectory);
            }
            if header.len() as u64 > bytes {
                let (path, what, expected) =
                    (path.to_owned(), "its header".into(), header.len() as u64);
                return Err(Error::Length { path, what, expected, actual: bytes });
            }
        }
        check_together(&outputs.iter().map(|&(path, ..)| path).collect::<Vec<_>>())?;
        let Some(_lock) = place.enter(true)? else {
            return Err(Error::Busy { path: place.lock() });
        };
        if place.contents()?.is_some_and(|found| found.manifest || found.others) {
            return Err(Error::Leftover { path: place.folder });
        }
        let mut manifest = Box::new(Manifest::new(identity, header, bytes));
        let others = outputs[1..].iter().map(|&(path, header, bytes)| OtherOutput {
            name: path.file_name().unwrap_or_default().into(),
            bytes,
            header: header.to_owned(),
        });
        manifest.others.extend(others);
        let (writing, kept, failed) = (Vec::new(), false, false);
        Ok(Self { place, manifest, writing, kept, failed, _lock })
    }

    /// Returns the paths of all outputs.
    #[must_use]
    pub fn outputs(&self) -> Vec<PathBuf> {
        (0..self.manifest.outputs()).map(|n| output(&self.place, &self.manifest, n)).collect()
    }

    /// Returns the path of a generation of output `output`, counted from 0, while it exists, for
    /// messages.
    #[must_use]
    pub fn path_of(&self, generation: u64, output: usize) -> PathBuf {
        self.place.slot(generation, output)
    }

    /// Like [`file`](Self::file), for output `output`, counted from 0.
    ///
    /// # Errors
    /// Those of [`file`](Self::file); [`Error::Range`] if there is no such output.
    pub fn file_of(&mut self, generation: u64, output: usize) -> Result<File> {
        self.check_usable()?;
        let count = self.manifest.outputs();
        if output >= count {
            let name = self.place.folder.display().to_string();
            let (count, asked) = (count as u64, (output as u64).saturating_add(1));
            return Err(Error::Range { name, what: "outputs", count, asked });
        }
        let next = Some(generation) == self.committed().checked_add(1);
        if next && self.writing.is_empty() {
            let slots = (0..count).map(|n| self.slot(generation, n)).collect::<Result<Vec<_>>>()?;
            disk::sync_folder(&self.place.folder)?;
            self.writing = slots;
        }
        if !next && (generation == 0 || generation != self.committed()) {
            return Err(self.not_at_hand(generation));
        }
        let path = self.path_of(generation, output);
        disk::open(&path, next).map_err(|source| Error::File { action: "open", path, source })
    }

    /// Creates a slot, with its length and header.
    fn slot(&self, generation: u64, n: usize) -> Result<File> {
        let path = self.path_of(generation, n);
        let slot = disk::create(&path)?;
        keep_mode(&slot, &output(&self.place, &self.manifest, n))
            .map_err(|source| Error::File { action: "create", path: path.clone(), source })?;
        let (bytes, header) = self.manifest.shape(n);
        disk::allocate(&slot, &path, bytes, header)?;
        Ok(slot)
    }
}

/// Returns the path of an output.
fn output(place: &RunFolder, manifest: &Manifest, n: usize) -> PathBuf {
    match n.checked_sub(1) {
        None => place.output.clone(),
        Some(n) => place.output.with_file_name(&manifest.others[n].name),
    }
}

/// Returns whether a slot still has its own name.
fn is_slot(place: &RunFolder, manifest: &Manifest, n: usize) -> bool {
    place.slot(manifest.progress.generation, n).symlink_metadata().is_ok()
}

/// Checks the last generation. Returns whether some of its slots have the names of their outputs.
pub(super) fn check_all(place: &RunFolder, manifest: &Manifest) -> Result<bool> {
    let generation = manifest.progress.generation;
    let mut renamed = false;
    for n in 0..manifest.outputs() {
        let here = manifest.finishing && !is_slot(place, manifest, n);
        let path = if here { output(place, manifest, n) } else { place.slot(generation, n) };
        check_whole(&path, generation, manifest.shape(n))?;
        renamed |= here;
    }
    Ok(renamed)
}

/// Returns the outputs that the slots of the last generation are to become.
pub(super) fn unnamed(place: &RunFolder, manifest: &Manifest) -> Vec<PathBuf> {
    let slots = (0..manifest.outputs()).filter(|&n| is_slot(place, manifest, n));
    slots.map(|n| output(place, manifest, n)).collect()
}

/// Gives the slots of the last generation the names of the outputs.
pub(super) fn rename(place: &RunFolder, manifest: &Manifest) -> Result<()> {
    let count = manifest.outputs();
    if count > 1 {
        (0..count).try_for_each(|n| disk::remove(&output(place, manifest, n)))?;
        // A rename of a slot must not be on disk before the removal of another old output.
        disk::sync_folder(place.parent())?;
    }
    (0..count).try_for_each(|n| {
        disk::rename(&place.slot(manifest.progress.generation, n), &output(place, manifest, n))
    })
}

/// Gives the slots that still have their own names those of the outputs: an earlier run has begun
/// it.
pub(super) fn name_the_rest(place: &RunFolder, manifest: &Manifest) -> Result<()> {
    for n in (0..manifest.outputs()).filter(|&n| is_slot(place, manifest, n)) {
        let path = output(place, manifest, n);
        // The earlier run has removed the old file.
        if path.symlink_metadata().is_ok() {
            return Err(Error::Appeared { path });
        }
        disk::rename(&place.slot(manifest.progress.generation, n), &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use syncline_testkit::Random;

    use super::super::power::{Medium, OLD, lasting, taped};
    use super::super::tests::{folder, identity};
    use super::super::{Leftover, Progress, Resumed};
    use super::*;

    /// The number of passes of the computation.
    const PASSES: u64 = 2;
    const NAMES: [&str; 2] = ["out", "two"];

    /// Returns the data of an output after a pass; the two have different lengths.
    fn data(pass: u64, output: usize) -> Vec<u8> {
        vec![pass as u8 * 16 + output as u8; 3 + 4 * output]
    }

    fn prepare() -> (tempfile::TempDir, [PathBuf; 2]) {
        let root = folder();
        let paths = NAMES.map(|name| root.path().join(name));
        paths.iter().for_each(|path| std::fs::write(path, OLD).unwrap());
        (root, paths)
    }

    /// Resumes from the files that exist, and continues to the end.
    fn compute(paths: &[PathBuf; 2], at_once: bool) -> Result<()> {
        let mut run = match Generations::resume(&paths[0], &identity())? {
            Resumed::Complete(_) => return Ok(()),
            Resumed::Nothing if is_result(paths) => return Ok(()),
            Resumed::Underway(run) => run,
            Resumed::Nothing => {
                Generations::discard(&paths[0])?;
                match at_once {
                    true => {
                        let file = |n: usize| {
                            let bytes = data(PASSES, n);
                            let new = NewFile::create(&paths[n], bytes.len() as u64)?;
                            new.file().write_all_at(&bytes, 0).unwrap();
                            Ok(new)
                        };
                        let files = vec![file(0)?, file(1)?];
                        let mut run = Generations::of_files(files, &identity())?;
                        run.commit(&Progress { generation: 1, ..Progress::default() })?;
                        return run.finish();
                    }
                    false => {
                        let output = |n: usize| (&*paths[n], &b""[..], data(1, n).len() as u64);
                        Generations::create_all(&[output(0), output(1)], &identity())?
                    }
                }
            }
        };
        assert_eq!(run.outputs(), paths);
        while run.committed() < PASSES && !at_once {
            let next = run.committed() + 1;
            for n in 0..2 {
                let (file, path) = (run.file_of(next, n)?, run.path_of(next, n));
                disk::make(disk::Change::Write(&path), || file.write_all_at(&data(next, n), 0))?;
            }
            run.commit(&Progress { generation: next, ..Progress::default() })?;
        }
        run.finish()
    }

    fn read(paths: &[PathBuf; 2]) -> [Option<Vec<u8>>; 2] {
        [0, 1].map(|n| std::fs::read(&paths[n]).ok())
    }

    fn is_result(paths: &[PathBuf; 2]) -> bool {
        read(paths) == [0, 1].map(|n| Some(data(PASSES, n)))
    }

    /// Checks that the outputs are not partly old and partly new, and that a missing one is not
    /// lost.
    fn check(paths: &[PathBuf; 2]) {
        let found = read(paths);
        let old = found.iter().flatten().filter(|bytes| *bytes == OLD).count();
        let new = (0..2).filter(|&n| found[n].as_ref() == Some(&data(PASSES, n))).count();
        assert_eq!(old + new, found.iter().flatten().count(), "{found:?}");
        assert!(old == 0 || new == 0, "{found:?}");
        let left = Generations::leftover(&paths[0]).unwrap();
        match &left {
            Leftover::Unnamed(_, lack) => {
                let missing = paths.iter().zip(&found).filter(|(_, found)| found.is_none());
                assert!(lack.iter().eq(missing.map(|(path, _)| path)), "{found:?} {left:?}");
            }
            Leftover::Complete(_) => assert_eq!(new, 2, "{found:?}"),
            _ => assert!(old + new == 2 || matches!(left, Leftover::Resumable(_)), "{left:?}"),
        }
        assert!(!matches!(left, Leftover::Damaged(_)), "{left:?}");
    }

    #[test]
    fn a_kill_anywhere_leaves_no_mixture() {
        for at_once in [false, true] {
            for killed in 0.. {
                let (root, paths) = prepare();
                let mut done = false;
                lasting(killed, || done = compute(&paths, at_once).is_ok());
                check(&paths);
                compute(&paths, at_once).unwrap();
                assert!(is_result(&paths), "killed at {killed}");
                assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2, "at {killed}");
                if done {
                    assert!(killed > 15, "{killed}");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_power_failure_anywhere_leaves_no_mixture() {
        let (root, paths) = prepare();
        let events = taped(root.path(), usize::MAX, || compute(&paths, false).unwrap());
        let (mut medium, mut random) = (Medium::new(), Random::new(1));
        for event in &events {
            medium.replay(event);
            for _ in 0..2 << medium.pending().min(6) {
                let root = folder();
                medium.fail(random.below(u64::MAX), &mut random, root.path());
                let paths = NAMES.map(|name| root.path().join(name));
                check(&paths);
                compute(&paths, false).unwrap();
                assert!(is_result(&paths), "after {event:?}");
            }
        }
    }

    /// Whatever prevents their names, complete files are kept, and the error names all of them.
    #[test]
    fn complete_files_that_cannot_get_their_names_are_kept() {
        let files = |paths: &[PathBuf]| -> Vec<NewFile> {
            let files = paths.iter().enumerate().map(|(n, path)| {
                let new = NewFile::create(path, 2).unwrap();
                new.file().write_all_at(&[n as u8; 2], 0).unwrap();
                new
            });
            files.collect()
        };
        let check = |mut error: Error, whole: bool| {
            for n in [1, 0] {
                let Error::Kept { kept, source } = error else { panic!("{error}") };
                assert_eq!(std::fs::read(kept).unwrap(), [n; 2], "{source}");
                error = *source;
            }
            assert_eq!(matches!(error, Error::File { action: "remove", .. }), whole, "{error}");
        };
        let names = |root: &Path| std::fs::read_dir(root).unwrap().count();
        // Another run, other folders, a folder in the place of an output, at once and later.
        let (root, paths) = prepare();
        let busy = Generations::create(&paths[0], &identity(), b"", 1).unwrap();
        check(Generations::of_files(files(&paths), &identity()).unwrap_err(), false);
        drop(busy);
        assert_eq!(names(root.path()), 2 + 2);
        let (root, [one, _]) = prepare();
        std::fs::create_dir(root.path().join("other")).unwrap();
        let paths = [one, root.path().join("other/two")];
        check(Generations::of_files(files(&paths), &identity()).unwrap_err(), false);
        let (root, paths) = prepare();
        let complete = files(&paths);
        std::fs::remove_file(&paths[1]).unwrap();
        std::fs::create_dir(&paths[1]).unwrap();
        check(Generations::of_files(complete, &identity()).unwrap_err(), false);
        assert!(!root.path().join("out.syncline").exists());
        let (_root, paths) = prepare();
        let mut run = Generations::of_files(files(&paths), &identity()).unwrap();
        std::fs::remove_file(&paths[1]).unwrap();
        std::fs::create_dir(&paths[1]).unwrap();
        run.commit(&Progress { generation: 1, ..Progress::default() }).unwrap();
        check(run.finish().unwrap_err(), true);
        // A commit that fails before the manifest leaves no folder to resume from.
        let (root, paths) = prepare();
        let mut run = Generations::of_files(files(&paths), &identity()).unwrap();
        std::fs::create_dir(run.place.part()).unwrap();
        let error = run.commit(&Progress { generation: 1, ..Progress::default() }).unwrap_err();
        check(run.keep(error), false);
        assert_eq!(names(root.path()), 2 + 2 + 1);
    }

    #[test]
    fn outputs_that_do_not_fit_together_are_refused() {
        let (root, [one, two]) = prepare();
        let create = |paths: &[&Path]| {
            let outputs: Vec<_> = paths.iter().map(|path| (*path, &b""[..], 1)).collect();
            Generations::create_all(&outputs, &identity()).unwrap_err().to_string()
        };
        let elsewhere = root.path().join("in/two");
        assert!(create(&[&one, &elsewhere]).contains("in/two"));
        assert!(create(&[&one, &two, &one]).contains("out"));
        assert!(create(&[&one, root.path()]).contains("replace"));
        create(&[]);
        let mut run =
            Generations::create_all(&[(&*one, &b""[..], 1), (&*two, &b""[..], 1)], &identity())
                .unwrap();
        assert!(matches!(run.file_of(1, 2), Err(Error::Range { count: 2, asked: 3, .. })));
        assert!(matches!(run.file_of(2, 1), Err(Error::NotAtHand { .. })));
        drop(run);
        assert!(!root.path().join("out.syncline").exists());
    }
}
