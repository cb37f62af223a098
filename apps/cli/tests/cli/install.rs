//! Manual pages and completions, as `make install` installs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_testkit::{Tool, output, succeed};

use crate::common::{fails_with, names, ok};

/// Runs a target of make with a folder in which the command is, for an installation in a package.
fn make(target: &str, package: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Path::new(env!("CARGO_BIN_EXE_syncline")).parent().unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(root).arg(target).args(["PREFIX=/usr", "DOCUMENTED=syncline"]);
    make.arg(format!("BUILT={}", built.display()));
    make.arg(format!("DESTDIR={}", package.display()));
    // Not the variables of a `make test` that runs this test.
    succeed(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
}

/// The files of the three shells, below `/usr/share`.
const COMPLETIONS: [&str; 3] = [
    "bash-completion/completions/syncline",
    "zsh/site-functions/_syncline",
    "fish/vendor_completions.d/syncline.fish",
];

#[test]
fn pages_and_completions_are_installed_and_removed() {
    if Tool::find("make").is_none() {
        return;
    }
    let package = tempfile::tempdir().unwrap();
    make("install-documents", package.path());
    let share = package.path().join("usr/share");
    let pages = names(&share.join("man/man1"));
    for page in ["syncline.1", "syncline-run.1", "syncline-top.1", "syncline-farm-run.1"] {
        assert!(pages.iter().any(|name| name == page), "{pages:?} lack {page}");
    }
    // Commands that the help does not list have no page.
    assert!(!pages.iter().any(|name| name.contains("-man.") || name.contains("help")), "{pages:?}");
    for file in COMPLETIONS {
        let text = std::fs::read_to_string(share.join(file)).unwrap();
        assert!(text.contains("overlay") && text.contains("lk23"), "{file}");
    }
    make("uninstall", package.path());
    assert_eq!(names(&share.join("man/man1")), [""; 0]);
    assert!(COMPLETIONS.iter().all(|file| !share.join(file).exists()));
}

/// Returns a folder with the manual pages, and their paths.
fn pages() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(ok(folder.path(), "man ."), "");
    let pages = names(folder.path()).iter().map(|name| folder.path().join(name)).collect();
    (folder, pages)
}

#[test]
fn groff_sets_every_page_without_a_warning() {
    let Some(groff) = Tool::find("groff") else { return };
    let (_folder, pages) = pages();
    for page in pages {
        let set = output(Command::new(groff.name()).args(["-man", "-Tutf8", "-ww"]).arg(&page));
        let said = String::from_utf8_lossy(&set.stderr);
        assert!(set.status.success() && said.is_empty(), "{}: {said}", page.display());
    }
}

#[test]
fn a_page_has_the_options_of_its_command() {
    let (folder, _) = pages();
    let page = std::fs::read_to_string(folder.path().join("syncline-run.1")).unwrap();
    for part in ["syncline\\-run", "\\-\\-iterations", "lk23", ".SH OPTIONS"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let error = fails_with(1, folder.path(), "man ./no/such/folder");
    assert!(error.starts_with("cannot write the manual pages to ./no/such/folder: "), "{error}");
}

#[test]
fn bash_completes_commands_kernels_and_options() {
    let Some(bash) = Tool::find("bash") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("syncline");
    std::fs::write(&script, ok(folder.path(), "completions bash")).unwrap();
    let complete = |words: &[&str]| {
        let last = words.len() - 1;
        let line = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={last}; _syncline syncline '{}' '{}'; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words[last],
            words[last - 1],
        );
        bash.run(["-c", &line]).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["syncline", "ru"]), ["run"]);
    assert!(complete(&["syncline", "run", "lk"]).contains(&"lk23".to_owned()));
    assert_eq!(complete(&["syncline", "run", "lk23", "data", "--iter"]), ["--iterations"]);
    assert!(complete(&["syncline", "farm", "r"]).contains(&"run".to_owned()));
}
