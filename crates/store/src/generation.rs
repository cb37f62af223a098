//! Generations: a long computation on disk that survives crashes.
//!
//! A computation makes passes over a matrix. Each pass reads one generation of it (the first pass:
//! the input) and writes the next. Beside the output is a folder with two slots, used in turn, and
//! a manifest that names the last complete generation:
//!
//! ```text
//! OUTPUT.syncline/   lock   manifest   generation.0   generation.1
//!
//! pass 1   input ────────> slot 1      commit: manifest names 1
//! pass 2   slot 1 ───────> slot 0      commit: manifest names 2
//! pass 3   slot 0 ───────> slot 1      commit: manifest names 3
//! finish   slot 1 ───────> OUTPUT      the folder is removed
//!
//! commit   sync the slot ─ write and sync manifest.part ─ rename it to manifest ─ sync the folder
//! finish   commit "finishing" ─ rename the slot to OUTPUT ─ sync its folder
//!          ─ remove slots, manifest, lock
//! ```
//!
//! A slot is written only while no manifest names it, not even a manifest that a power failure may
//! bring back.
//!
//! A computation may have several outputs in one folder, such as the fields of a simulation
//! ([`create_all`](Generations::create_all)). Each has two slots, in the folder beside the first
//! output, and all have the same manifest, so a commit is one of all. Because names can only be
//! changed one by one, `finish` removes all old outputs before the first rename:
//!
//! ```text
//! finish   commit "finishing" ─ remove the old outputs ─ sync their folder
//!          ─ rename each slot to its output ─ as above
//! ```
//!
//! # Guarantees
//!
//! After a SIGKILL or a power failure at any moment, the files are in one of these states, and no
//! other:
//!
//! | state                      | when                               | [`leftover`] |
//! |----------------------------|------------------------------------|--------------|
//! | no folder, or an empty one | before the first pass, or all done | `Nothing`    |
//! | slots without a manifest   | in the first pass                  | `Empty`      |
//! | a manifest and its slot    | from the first commit on           | `Resumable`  |
//! | a manifest, its slot moved | after an output got its name       | `Complete`   |
//!
//! [`leftover`]: Generations::leftover
//!
//! * The generation of a `Resumable` is the last whose commit returned, or the one whose commit was
//!   in progress; it is complete. So at most one pass is lost.
//! * OUTPUT is either its old version or the result. When `finish` has returned, it is the result
//!   and no other file is left beside it.
//! * Of several outputs, those that exist are all old or all of the result, never some of each. If
//!   `finish` was interrupted some may be missing; then the manifest leads to the missing ones.
//! * A complete generation that does not become OUTPUT is not lost, and [`Error::Kept`] names its
//!   file: the slot, from which a run can be resumed, or a file beside OUTPUT if no manifest exists
//!   ([`keep`](Generations::keep)).
//! * Files that are found are removed only by [`discard`](Generations::discard) or at the end of an
//!   interrupted [`finish`](Generations::finish); files that no run has created are never removed.
//!
//! # Assumptions about the medium
//!
//! 1. When a sync of a file or folder has returned, its data, length and names survive a power
//!    failure. A disk that reports a sync too early voids the guarantees for power failures, not
//!    for SIGKILL.
//! 2. `rename` within a file system is atomic also under a power failure, between folders too: the
//!    file has the old name or the new one. It is durable once the folder of the new name is
//!    synced.
//! 3. Before a sync any of the changes since the last sync may be lost and any may be kept, in any
//!    order and by any byte; but changes to one file do not affect others.
//! 4. `flock` works. Over NFS it works between runs only on machines with a working lock service.
//!
//! ext4, XFS, btrfs and tmpfs (SIGKILL only) satisfy 2 to 4.
//!
//! # Detection of damage
//!
//! Detected, each except with a probability of 2^-64, are any change of the manifest, a wrong
//! length or header of a generation, and, if the reader compares each panel by
//! [`check_panel`](Generations::check_panel), any change of its data; also an input that was
//! written to during the run ([`Identity::check_inputs`]). Not detected are an input that was
//! changed and given its old length and time again, and forgery. The mark of a file shows whether a
//! file without a folder beside it is the result of a computation ([`Existing`]).
//!
//! Costs: at most two copies of the matrix on disk beside the input (and an old OUTPUT until it is
//! replaced). A commit syncs the slot, the manifest and the folder, once each. The manifest takes
//! about 20 bytes for each panel and iteration.
//!
//! Source: T. S. Pillai et al., "All file systems are not created equal", OSDI 2014, for the
//! changes that may be lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

mod disk;
mod folder;
mod identity;
mod manifest;
mod mark;
mod outputs;
#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;

use folder::RunFolder;
pub use identity::{Identity, InputId};
use manifest::Manifest;
pub use manifest::Progress;
pub use mark::{Existing, Made, ResultMark};

/// The state that an earlier run has left beside an output.
#[derive(Debug)]
#[non_exhaustive]
pub enum Leftover {
    /// Nothing is left: a run can begin.
    Nothing,
    /// The files of a run that has committed no generation.
    Empty,
    /// A generation to resume from.
    Resumable(Progress),
    /// The result is complete. Only the folder beside it is left, which `resume` removes.
    Complete(Progress),
    /// The result is complete, but these of its outputs are still files of the folder beside it:
    /// `resume` gives them their names.
    Unnamed(Progress, Vec<PathBuf>),
    /// Another run is active; the path of the lock that it holds.
    Busy(PathBuf),
    /// A manifest or generation that cannot be used, and the reason.
    Damaged(Error),
}

/// The result of [`Generations::resume`].
#[derive(Debug)]
pub enum Resumed {
    /// No generation was committed.
    Nothing,
    /// The run continues after the generation that [`Generations::progress`] returns.
    Underway(Generations),
    /// The generation was renamed to the output, and a file of its length and header has that name;
    /// the folder beside it is removed. The checksums show whether the data are unchanged.
    Complete(Progress),
}

/// The generations of one computation, and the lock on its output.
///
/// If it is dropped after a commit, all files remain, to be resumed; if dropped before, it removes
/// the files that it created.
///
/// ```
/// use std::os::unix::fs::FileExt;
/// use syncline_store::checksum::checksum;
/// use syncline_store::generation::{Generations, Identity, Progress, Resumed};
/// # let folder = tempfile::tempdir()?;
/// # let output = folder.path().join("out.npy");
/// let identity = Identity::default();
/// let mut run = Generations::create(&output, &identity, b"head", 8)?;
/// run.file(1)?.write_all_at(b"one ", 4)?;
/// let sums = vec![checksum(b"one ")];
/// run.commit(&Progress { generation: 1, checksums: sums, ..Progress::default() })?;
/// drop(run); // or a crash
///
/// let Resumed::Underway(mut run) = Generations::resume(&output, &identity)? else { panic!() };
/// let mut panel = [0; 4];
/// run.file(1)?.read_exact_at(&mut panel, 4)?;
/// run.check_panel(0, checksum(&panel))?;
/// run.file(2)?.write_all_at(b"two ", 4)?;
/// run.commit(&Progress { generation: 2, ..Progress::default() })?;
/// run.finish()?;
/// assert_eq!(std::fs::read(&output)?, b"headtwo ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Generations {
    place: RunFolder,
    manifest: Box<Manifest>,
    /// The slots of the next generation, one for each output, open since before their first byte
    /// was written, so that `sync` reports every failed write to them; empty before that.
    writing: Vec<File>,
    /// A manifest exists, or may exist: the folder must stay.
    kept: bool,
    /// A commit failed at or after the rename.
    failed: bool,
    /// The lock, held for the lifetime of the run.
    _lock: File,
}

/// The state of the files in a folder.
enum Found {
    Nothing,
    Empty,
    Underway(Manifest),
    Complete(Manifest),
}

impl Generations {
    /// Returns the state of the files beside `output`, and changes nothing.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the folder contains files that no run has created, [`Error::File`] if
    /// it cannot be read.
    pub fn leftover(output: &Path) -> Result<Leftover> {
        let place = RunFolder::of(output)?;
        let found = place.peek().and_then(|_lock| look(&place));
        Ok(match found {
            Ok(Found::Nothing) => Leftover::Nothing,
            Ok(Found::Empty) => Leftover::Empty,
            Ok(Found::Underway(manifest)) => Leftover::Resumable(manifest.progress),
            Ok(Found::Complete(manifest)) => match outputs::unnamed(&place, &manifest) {
                paths if paths.is_empty() => Leftover::Complete(manifest.progress),
                paths => Leftover::Unnamed(manifest.progress, paths),
            },
            Err(Error::Busy { path }) => Leftover::Busy(path),
            Err(error @ (Error::Manifest { .. } | Error::Generation { .. })) => {
                Leftover::Damaged(error)
            }
            Err(error) => return Err(error),
        })
    }

    /// Begins a computation whose generations are files of `bytes` bytes that begin with `header`.
    ///
    /// This call creates the first slot and reserves its space on disk; [`file`](Self::file)
    /// creates the second when a second pass needs it. Without space for both, nothing is begun.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Leftover`] if files of an earlier run are left;
    /// [`Error::Foreign`]; [`Error::NoSpace`]; [`Error::Length`] if the header is longer than the
    /// file; [`Error::File`], also if `output` is a folder. After an error all files are as before.
    pub fn create(output: &Path, identity: &Identity, header: &[u8], bytes: u64) -> Result<Self> {
        Self::create_all(&[(output, header, bytes)], identity)
    }

    /// Resumes an interrupted computation after its last committed generation.
    ///
    /// # Errors
    /// [`Error::OtherRun`] names each difference; [`Error::Manifest`] and [`Error::Generation`]
    /// report damage; [`Error::Busy`]; [`Error::Foreign`]; [`Error::File`]. None of them changes
    /// any file.
    pub fn resume(output: &Path, identity: &Identity) -> Result<Resumed> {
        Self::resume_settled(output, &mut identity.clone(), |_, _| Ok::<_, Error>(()))
    }

    /// Like [`resume`](Self::resume), but `settle` completes the identity of this run, given that
    /// of the interrupted run, before they are compared: see [`Identity::settle`]. The manifest
    /// contains the completed identity from the next commit on.
    ///
    /// # Errors
    /// Those of [`resume`](Self::resume), and those of `settle`.
    pub fn resume_settled<E: From<Error>>(
        output: &Path,
        identity: &mut Identity,
        settle: impl FnOnce(&Identity, &mut Identity) -> Result<(), E>,
    ) -> Result<Resumed, E> {
        let place = RunFolder::of(output)?;
        let Some(_lock) = place.enter(false)? else { return Ok(Resumed::Nothing) };
        let (manifest, complete) = match look(&place)? {
            Found::Nothing => {
                place.remove_folder()?;
                return Ok(Resumed::Nothing);
            }
            Found::Empty => return Ok(Resumed::Nothing),
            Found::Underway(manifest) => (manifest, false),
            Found::Complete(manifest) => (manifest, true),
        };
        settle(&manifest.identity, identity)?;
        let differences = manifest.identity.differences(identity);
        if !differences.is_empty() {
            return Err(Error::OtherRun { path: place.folder, differences }.into());
        }
        if complete {
            outputs::name_the_rest(&place, &manifest)?;
            place.tidy()?;
            return Ok(Resumed::Complete(manifest.progress));
        }
        let manifest = Box::new(Manifest { identity: identity.clone(), ..manifest });
        // The manifest may have been renamed and its folder not synced: a power failure could still
        // bring back the previous manifest, whose generation the next pass overwrites.
        disk::sync_folder(&place.folder)?;
        Ok(Resumed::Underway(Self {
            place,
            manifest,
            writing: Vec::new(),
            kept: true,
            failed: false,
            _lock,
        }))
    }

    /// Removes the files that earlier runs have left, if any; OUTPUT is not changed.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Foreign`], in which case no file is removed; [`Error::File`].
    pub fn discard(output: &Path) -> Result<()> {
        let place = RunFolder::of(output)?;
        let Some(_lock) = place.enter(false)? else { return Ok(()) };
        place.contents()?;
        place.discard()
    }

    /// Replaces the identity of the computation, for example to add checksums of its inputs; the
    /// next commit records it.
    pub fn record_identity(&mut self, identity: &Identity) {
        self.manifest.identity.clone_from(identity);
    }

    /// Returns the progress of the last commit, if there was one.
    #[must_use]
    pub const fn progress(&self) -> Option<&Progress> {
        if self.committed() == 0 { None } else { Some(&self.manifest.progress) }
    }

    /// Returns the number of the last committed generation, 0 if there is none.
    #[must_use]
    pub const fn committed(&self) -> u64 {
        self.manifest.progress.generation
    }

    /// Returns the length of a generation's file in bytes, header included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.manifest.bytes
    }

    /// Returns the path of the result.
    #[must_use]
    pub fn output(&self) -> &Path {
        &self.place.output
    }

    /// Returns the path of a generation of the first output while it exists, for messages.
    #[must_use]
    pub fn path(&self, generation: u64) -> PathBuf {
        self.path_of(generation, 0)
    }

    /// Opens the file of a generation of the first output: the last committed one for reading, the
    /// next for reading and writing.
    ///
    /// The next generation has its length, its reserved space and its header; the contents of its
    /// data are unspecified. A second call opens the file again, and the data written to it stay.
    ///
    /// # Errors
    /// [`Error::NotAtHand`] for any other generation; [`Error::NoSpace`], in which case the last
    /// generation is unchanged; [`Error::File`]; [`Error::CommitFailed`].
    pub fn file(&mut self, generation: u64) -> Result<File> {
        self.file_of(generation, 0)
    }

    /// Compares the checksum of a panel of the last generation, as it was read, with the checksum
    /// that its commit recorded. The panels of several outputs, the same number of each, follow one
    /// another.
    ///
    /// # Errors
    /// [`Error::Generation`] if they differ: the data were changed since; [`Error::Range`] if the
    /// generation has no such panel.
    pub fn check_panel(&self, panel: usize, found: u64) -> Result<()> {
        let Progress { generation, panel_rows, ref checksums, .. } = self.manifest.progress;
        match checksums.get(panel) {
            Some(&sum) if sum == found => Ok(()),
            Some(_) => {
                let of_each = (checksums.len() / self.manifest.outputs()).max(1);
                let path = self.place.slot(generation, panel / of_each);
                let panel = panel % of_each;
                let first = panel_rows.saturating_mul(panel as u64);
                let why =
                    format!("panel {panel}, from row {first} on, is damaged: its checksum differs");
                Err(Error::Generation { generation, path, why })
            }
            None => {
                let name = self.path(generation).display().to_string();
                let asked = (panel as u64).saturating_add(1);
                Err(Error::Range { name, what: "panels", count: checksums.len() as u64, asked })
            }
        }
    }

    /// Commits the next generation, all of whose data must have been written: a later run resumes
    /// from it. On return it is on disk.
    ///
    /// # Errors
    /// [`Error::NotAtHand`] if `progress` does not belong to the generation that was written.
    /// [`Error::File`] if data did not reach the disk, in which case the pass must be repeated,
    /// from [`file`](Self::file) on; or if the manifest could not be written, in which case the
    /// commit can be retried. [`Error::CommitFailed`] from then on if the last steps failed and it
    /// is unknown whether the generation is committed.
    pub fn commit(&mut self, progress: &Progress) -> Result<()> {
        self.check_usable()?;
        let generation = progress.generation;
        let next = Some(generation) == self.committed().checked_add(1);
        if !next || self.writing.is_empty() {
            return Err(self.not_at_hand(generation));
        }
        // After a failed sync the kernel drops the unwritten data: a second sync would succeed
        // wrongly.
        let slots = std::mem::take(&mut self.writing);
        for (output, slot) in slots.iter().enumerate() {
            let path = self.place.slot(generation, output);
            disk::sync(slot, &path)?;
            check_whole(&path, generation, self.manifest.shape(output))?;
        }
        self.writing = slots;
        self.replace_manifest(Manifest { progress: progress.clone(), ..(*self.manifest).clone() })?;
        self.writing.clear();
        Ok(())
    }

    /// Renames the last committed generation to the output, replacing an existing file, and removes
    /// the other files; on return this has reached the disk. Of several outputs, the existing files
    /// are removed before the first rename.
    ///
    /// # Errors
    /// [`Error::Generation`] if no generation was committed. [`Error::File`] if either no output is
    /// of this result and the run can be resumed to finish, or some or all outputs are and only the
    /// rest failed; [`leftover`](Self::leftover) shows which. It is the source of [`Error::Kept`],
    /// which names the files of the generation that did not become outputs.
    pub fn finish(mut self) -> Result<()> {
        let generation = self.committed();
        if generation == 0 {
            self.check_usable()?;
            let path = self.place.slot(generation, 0);
            return Err(Error::Generation {
                generation: 1,
                path,
                why: "it was never committed".into(),
            });
        }
        let done = self.try_finish();
        done.map_err(|error| self.keep(error))
    }

    fn try_finish(&mut self) -> Result<()> {
        self.check_usable()?;
        self.replace_manifest(Manifest { finishing: true, ..(*self.manifest).clone() })?;
        outputs::rename(&self.place, &self.manifest)?;
        self.place.tidy()
    }

    fn replace_manifest(&mut self, manifest: Manifest) -> Result<()> {
        let part = self.place.part();
        disk::replace(&disk::create(&part)?, &part, &manifest.encode(&self.place.manifest())?)?;
        (self.kept, self.failed) = (true, true);
        disk::rename(&part, &self.place.manifest())?;
        disk::sync_folder(&self.place.folder)?;
        self.failed = false;
        *self.manifest = manifest;
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        if self.failed {
            Err(Error::CommitFailed { path: self.place.folder.clone() })
        } else {
            Ok(())
        }
    }

    fn not_at_hand(&self, asked: u64) -> Error {
        Error::NotAtHand { path: self.place.folder.clone(), asked, committed: self.committed() }
    }
}

impl Drop for Generations {
    fn drop(&mut self) {
        if !self.kept {
            // Files that cannot be removed are reported as a leftover.
            let _ = self.place.discard();
        }
    }
}

fn look(place: &RunFolder) -> Result<Found> {
    let Some(contents) = place.contents()? else { return Ok(Found::Nothing) };
    if !contents.manifest {
        return Ok(if contents.others { Found::Empty } else { Found::Nothing });
    }
    let manifest = Manifest::read(&place.manifest())?;
    match outputs::check_all(place, &manifest)? {
        true => Ok(Found::Complete(manifest)),
        false => Ok(Found::Underway(manifest)),
    }
}

/// Checks that the file has the length and header of a generation.
fn check_whole(path: &Path, generation: u64, (bytes, header): (u64, &[u8])) -> Result<()> {
    let wrong = |why| Error::Generation { generation, path: path.to_owned(), why };
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => wrong("it does not exist".into()),
        _ => Error::File { action: "read", path: path.to_owned(), source },
    };
    let file = disk::open(path, false).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    if found != bytes {
        return Err(wrong(format!("it has {found} bytes, not {bytes}")));
    }
    let mut begin = vec![0; header.len()];
    file.read_exact_at(&mut begin, 0).map_err(failed)?;
    if begin == header { Ok(()) } else { Err(wrong("its header was changed".into())) }
}
