//! Files that tests make, kept below the target folder for later runs.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a folder that `make` fills, unless a folder of this name and key exists; folders of the
/// same name and other keys are removed. Several processes may call it at once: each gets a
/// complete folder.
///
/// The key is all data that the contents depend on.
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
        // Another thread may have just created the requested folder.
        let is_whole = |path: &PathBuf| path.extension().is_none() && *path != folder;
        for path in old.filter_map(|entry| Some(entry.ok()?.path())).filter(is_whole) {
            // Another process may remove it at the same time.
            let _ = fs::remove_dir_all(path);
        }
    }
    // Relaxed: the numbers only have to differ.
    let number = MAKING.fetch_add(1, Ordering::Relaxed);
    let making = folder.with_extension(format!("{}-{number}", process::id()));
    fs::create_dir_all(&making).expect("a folder below the target folder");
    make(&making);
    if fs::rename(&making, &folder).is_err() {
        assert!(folder.is_dir(), "{} cannot be renamed", making.display());
        // Another process has made the folder meanwhile.
        let _ = fs::remove_dir_all(&making);
    }
    folder
}
