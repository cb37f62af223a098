//! Files that tests make, kept below the target folder for later runs.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that `make` fills, unless one of this name and key is there; those of the name and other keys
/// are removed. Several processes may ask for it at once: each sees a folder that is whole.
///
/// The key is all that the contents depend on.
///
/// # Panics
/// If a folder cannot be made.
pub fn kept<K: AsRef<[u8]>>(
    name: &str,
    key: impl IntoIterator<Item = K>,
    make: impl FnOnce(&Path),
) -> PathBuf {
    static MAKING: AtomicU64 = AtomicU64::new(0);

    let hash = |parts: &mut dyn Iterator<Item = &[u8]>| {
        let mut hash = DefaultHasher::new();
        parts.for_each(|part| part.hash(&mut hash));
        format!("{:016x}", hash.finish())
    };
    let key: Vec<K> = key.into_iter().collect();
    let program = env::current_exe().expect("the path of this program");
    // target/debug/deps/program
    let target = program.ancestors().nth(3).expect("a program of cargo's");
    let first = name.split([' ', '/']).next().unwrap_or_default();
    let all = format!("{first}-{}", hash(&mut [name.as_bytes()].into_iter()));
    let all = target.join("tmp/kept").join(all);
    let folder = all.join(hash(&mut key.iter().map(AsRef::as_ref)));
    if folder.is_dir() {
        return folder;
    }
    if let Ok(old) = fs::read_dir(&all) {
        // Another thread may just have made the one that is asked for.
        let is_whole = |path: &PathBuf| path.extension().is_none() && *path != folder;
        for path in old.filter_map(|entry| Some(entry.ok()?.path())).filter(is_whole) {
            // Another process may remove it, too.
            let _ = fs::remove_dir_all(path);
        }
    }
    // Relaxed: numbers that differ.
    let number = MAKING.fetch_add(1, Ordering::Relaxed);
    let making = folder.with_extension(format!("{}-{number}", process::id()));
    fs::create_dir_all(&making).expect("a folder below the target folder");
    make(&making);
    if fs::rename(&making, &folder).is_err() {
        assert!(folder.is_dir(), "{} cannot be renamed", making.display());
        // Another process has made it meanwhile.
        let _ = fs::remove_dir_all(&making);
    }
    folder
}
