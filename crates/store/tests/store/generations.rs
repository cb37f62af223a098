//! Generations as seen by a program: damage, other computations, other processes, a full disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use syncline_store::{
    Error,
    checksum::checksum,
    generation::{Generations, Identity, InputId, Leftover, Progress, Resumed},
};
use syncline_testkit::again;

type Tested = Result<(), Box<dyn std::error::Error>>;

const HEADER: &[u8] = b"head";
const BYTES: u64 = 4 + 100;

fn identity(omega: &str) -> Identity {
    let what = [("kernel", "sor"), ("omega", omega)];
    let what = what.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Identity { what: BTreeMap::from(what), inputs: Vec::new() }
}

fn pass(run: &mut Generations) -> syncline_store::Result<()> {
    let generation = run.committed() + 1;
    let data = [generation as u8; 100];
    run.file(generation)?.write_all_at(&data, 4).expect("the slot has its room");
    let checksums = data.chunks(50).map(checksum).collect();
    run.commit(&Progress { generation, panel_rows: 5, checksums, ..Progress::default() })
}

/// Creates a run that is interrupted after `passes` passes.
fn interrupted(output: &Path, passes: u64) -> syncline_store::Result<()> {
    let mut run = Generations::create(output, &identity("1.5"), HEADER, BYTES)?;
    (0..passes).try_for_each(|_| pass(&mut run))
}

fn resume(output: &Path) -> syncline_store::Result<Resumed> {
    Generations::resume(output, &identity("1.5"))
}

fn in_folder(output: &Path, name: &str) -> PathBuf {
    let mut folder = output.as_os_str().to_owned();
    folder.push(".syncline");
    PathBuf::from(folder).join(name)
}

fn names(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("it is readable").file_name()).collect();
    names.sort();
    names
}

fn message<T: std::fmt::Debug>(tried: syncline_store::Result<T>) -> String {
    tried.expect_err("this should fail").to_string()
}

#[test]
fn names_that_are_not_text_work() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join(OsString::from_vec(b"out\xff\xfe.npy".to_vec()));
    std::fs::write(&output, b"in")?;
    let inputs = vec![InputId::of("za", &output)?];
    let identity = Identity { inputs, ..identity("1") };
    let mut run = Generations::create(&output, &identity, HEADER, BYTES)?;
    pass(&mut run)?;
    drop(run);
    let Resumed::Underway(run) = Generations::resume(&output, &identity)? else {
        panic!("nothing there")
    };
    run.finish()?;
    assert_eq!(std::fs::read(&output)?, [HEADER, &[1; 100]].concat());
    assert_eq!(names(folder.path()).len(), 1);
    Ok(())
}

#[test]
fn only_its_owner_can_enter_the_folder_and_the_output_is_an_ordinary_file() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    let ordinary = folder.path().join("ordinary");
    std::fs::write(&ordinary, b"")?;
    let mut run = Generations::create(&output, &identity("1"), HEADER, BYTES)?;
    assert_eq!(in_folder(&output, "").metadata()?.permissions().mode() & 0o777, 0o700);
    pass(&mut run)?;
    run.finish()?;
    assert_eq!(output.metadata()?.permissions(), ordinary.metadata()?.permissions());
    Ok(())
}

#[test]
fn a_run_that_committed_nothing_leaves_nothing() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    interrupted(&output, 0)?;
    assert!(names(folder.path()).is_empty());
    let run = Generations::create(&output, &identity("1"), HEADER, BYTES)?;
    assert!(message(run.finish()).contains("it was never committed"));
    assert!(names(folder.path()).is_empty());
    assert!(matches!(resume(&output)?, Resumed::Nothing));
    Generations::discard(&output)?;
    Ok(())
}

#[test]
fn damage_of_a_generation_is_named() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    interrupted(&output, 2)?;
    let slot = in_folder(&output, "generation.0");
    let good = std::fs::read(&slot)?;
    let mut header = good.clone();
    header[3] ^= 1;
    let cases: [(Option<&[u8]>, &str); 4] = [
        (None, "it does not exist"),
        (Some(&good[1..]), "it has 103 bytes, not 104"),
        (Some(&[&good[..], b"x"].concat()), "it has 105 bytes, not 104"),
        (Some(&header), "its header was changed"),
    ];
    for (contents, why) in cases {
        match contents {
            Some(contents) => std::fs::write(&slot, contents)?,
            None => std::fs::remove_file(&slot)?,
        }
        assert!(message(resume(&output)).contains(why), "{why}");
        let leftover = Generations::leftover(&output)?;
        assert!(
            matches!(&leftover, Leftover::Damaged(error) if error.to_string().contains(why)),
            "{leftover:?}"
        );
    }
    for at in 4..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&slot, &bad)?;
        let Resumed::Underway(run) = resume(&output)? else { panic!("nothing there") };
        let checked: Vec<_> = bad[4..]
            .chunks(50)
            .enumerate()
            .map(|(n, data)| run.check_panel(n, checksum(data)))
            .collect();
        assert_eq!(checked.iter().position(Result::is_err), Some((at - 4) / 50));
        if at == 60 {
            assert!(
                format!("{checked:?}").contains("panel 1, from row 5 on, is damaged"),
                "{checked:?}"
            );
        }
        assert!(matches!(run.check_panel(2, 0), Err(Error::Range { count: 2, asked: 3, .. })));
    }
    Ok(())
}

#[test]
fn damage_of_the_manifest_is_named_and_harms_nothing() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    interrupted(&output, 2)?;
    let manifest = in_folder(&output, "manifest");
    let good = std::fs::read(&manifest)?;
    std::fs::write(&manifest, &good[..good.len() / 2])?;
    assert!(message(resume(&output)).contains("it is damaged"));
    assert!(matches!(Generations::leftover(&output)?, Leftover::Damaged(Error::Manifest { .. })));
    assert!(matches!(interrupted(&output, 0), Err(Error::Leftover { .. })));
    std::fs::write(&manifest, &good)?;
    assert!(matches!(resume(&output)?, Resumed::Underway(run) if run.committed() == 2));
    Ok(())
}

#[test]
fn another_computation_is_told_what_differs() -> Tested {
    let folder = tempfile::tempdir()?;
    let (output, za, zb) =
        (folder.path().join("out"), folder.path().join("za"), folder.path().join("zb"));
    std::fs::write(&za, b"1")?;
    std::fs::write(&zb, b"1")?;
    let of = |za: &Path, omega: &str| -> syncline_store::Result<Identity> {
        Ok(Identity { inputs: vec![InputId::of("za", za)?], ..identity(omega) })
    };
    pass(&mut Generations::create(&output, &of(&za, "1.5")?, HEADER, BYTES)?)?;

    let tried = |identity: &Identity| message(Generations::resume(&output, identity));
    let folder_name = in_folder(&output, "");
    let folder_name = folder_name.display().to_string();
    let told = tried(&of(&za, "1.9")?);
    assert_eq!(
        told,
        format!(
            "{} is of another computation: omega was 1.5, is 1.9",
            folder_name.trim_end_matches('/')
        )
    );
    let mut other = of(&zb, "1.5")?;
    other.what.remove("kernel");
    other.what.insert("rows".into(), "3".into());
    let told = tried(&other);
    for part in
        ["kernel was sor, is not given; rows was not given, is 3; za was ", "/za, is ", "/zb"]
    {
        assert!(told.contains(part), "{told}");
    }
    let twice =
        Identity { inputs: [of(&za, "1.5")?.inputs, other.inputs].concat(), ..identity("1.5") };
    assert!(tried(&twice).contains("za was not given, is "));
    assert!(tried(&identity("1.5")).contains("/za, is not given"));

    std::fs::File::options().write(true).open(&za)?.set_modified(std::time::UNIX_EPOCH)?;
    assert!(tried(&of(&za, "1.5")?).contains("/za, was written to since"));
    std::fs::write(&za, b"12")?;
    assert!(tried(&of(&za, "1.5")?).contains("/za, had 1 bytes, has 2"));
    assert!(matches!(Generations::leftover(&output)?, Leftover::Resumable(_)));
    assert!(matches!(InputId::of("za", folder.path()), Err(Error::File { .. })));
    assert!(matches!(InputId::of("za", &folder.path().join("none")), Err(Error::File { .. })));
    Ok(())
}

#[test]
fn what_no_run_has_made_is_left_alone() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    interrupted(&output, 1)?;
    let refused = || {
        let tried = [
            Generations::leftover(&output).map(drop),
            resume(&output).map(drop),
            Generations::discard(&output),
            interrupted(&output, 0),
        ];
        assert!(tried.iter().all(|tried| matches!(tried, Err(Error::Foreign { .. }))), "{tried:?}");
    };
    let stranger = in_folder(&output, "thesis.tex");
    std::fs::write(&stranger, b"x")?;
    refused();
    std::fs::remove_file(&stranger)?;
    let slot = in_folder(&output, "generation.0");
    symlink("/etc/passwd", &slot)?;
    refused();
    std::fs::remove_file(&slot)?;
    Generations::discard(&output)?;
    assert!(names(folder.path()).is_empty());

    std::fs::write(in_folder(&output, "").with_file_name("out.syncline"), b"x")?;
    refused();
    assert_eq!(names(folder.path()), ["out.syncline"]);

    // A foreign folder of that name is not even locked.
    std::fs::remove_file(folder.path().join("out.syncline"))?;
    std::fs::create_dir(folder.path().join("out.syncline"))?;
    std::fs::write(&stranger, b"x")?;
    refused();
    assert_eq!(names(&folder.path().join("out.syncline")), ["thesis.tex"]);
    Ok(())
}

#[test]
fn bad_outputs_are_errors() -> Tested {
    let folder = tempfile::tempdir()?;
    for output in [
        folder.path().join("none/out"),
        folder.path().to_owned(),
        PathBuf::from("/"),
        PathBuf::from(".."),
    ] {
        let tried = Generations::create(&output, &identity("1"), HEADER, BYTES);
        assert!(matches!(tried, Err(Error::File { .. })), "{tried:?}");
    }
    let output = folder.path().join("out");
    let tried = Generations::create(&output, &identity("1"), HEADER, 3);
    assert!(matches!(tried, Err(Error::Length { expected: 4, actual: 3, .. })), "{tried:?}");
    let tried = Generations::create(&output, &identity("1"), HEADER, u64::MAX / 4);
    assert!(matches!(tried, Err(Error::NoSpace { .. })), "{tried:?}");
    assert!(names(folder.path()).is_empty());
    Ok(())
}

const CHILD: &str = "SYNCLINE_TEST_OUTPUT";

/// Not a test by itself: the other process of the next test, which runs until it is killed.
#[test]
fn another_process() -> Tested {
    let Some(output) = std::env::var_os(CHILD) else { return Ok(()) };
    let mut run = Generations::create(Path::new(&output), &identity("1.5"), HEADER, BYTES)?;
    pass(&mut run)?;
    println!("\none pass");
    loop {
        pass(&mut run)?;
    }
}

#[test]
fn another_process_is_seen_and_what_it_leaves_when_killed_is_whole() -> Tested {
    for delay in 0..8 {
        let folder = tempfile::tempdir()?;
        let output = folder.path().join("out");
        let mut command = again("generations::another_process");
        let mut child = command.env(CHILD, &output).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        lines.map_while(Result::ok).find(|line| line == "one pass").ok_or("no pass")?;
        assert!(matches!(Generations::leftover(&output)?, Leftover::Busy(_)));
        let told = message(resume(&output));
        assert!(
            told.starts_with("another run works on this output: it holds ")
                && told.ends_with("/lock"),
            "{told}"
        );
        assert!(matches!(Generations::discard(&output), Err(Error::Busy { .. })));
        std::thread::sleep(std::time::Duration::from_micros(700 * delay));
        child.kill()?;
        child.wait()?;

        let Resumed::Underway(mut run) = resume(&output)? else { panic!("nothing there") };
        let (mut data, last) = ([0; 100], run.committed());
        run.file(last)?.read_exact_at(&mut data, 4)?;
        assert_eq!(data, [last as u8; 100]);
        data.chunks(50).enumerate().try_for_each(|(n, data)| run.check_panel(n, checksum(data)))?;
        pass(&mut run)?;
        run.finish()?;
        assert_eq!(std::fs::read(&output)?, [HEADER, &[(last + 1) as u8; 100]].concat());
        assert_eq!(names(folder.path()), ["out"]);
    }
    Ok(())
}

/// A separate small file system, which only root can mount.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(folder.path()).stderr(Stdio::null());
        mount.status().ok()?.success().then(|| Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_file_system_leaves_the_last_generation() -> Tested {
    let Some(small) = Small::mount("size=256k") else {
        println!("skipped: a small file system can be mounted by root only");
        return Ok(());
    };
    let (output, filler) = (small.0.path().join("out"), small.0.path().join("filler"));
    let bytes = 100 << 10;

    // There is no space for the second slot.
    let mut run = Generations::create(&output, &identity("1.5"), HEADER, bytes)?;
    pass(&mut run)?;
    std::fs::write(&filler, vec![1; 80 << 10])?;
    let full = run.file(2);
    assert!(matches!(full, Err(Error::NoSpace { needed: 102_400, .. })), "{full:?}");
    drop(run);
    let Resumed::Underway(mut run) = resume(&output)? else { panic!("nothing there") };

    // There is no space for the manifest; the commit is retried when there is.
    std::fs::remove_file(&filler)?;
    run.file(2)?.write_all_at(&[2; 100], 4)?;
    assert!(std::fs::write(&filler, vec![1; 256 << 10]).is_err());
    let progress = Progress { generation: 2, ..Progress::default() };
    let full = run.commit(&progress);
    assert!(matches!(&full, Err(Error::File { action: "write", .. })), "{full:?}");
    assert_eq!(run.committed(), 1);
    std::fs::remove_file(&filler)?;
    run.commit(&progress)?;
    run.finish()?;
    assert_eq!(std::fs::read(&output)?[..8], *b"head\x02\x02\x02\x02");

    // There is no space for the first slot: no files are left.
    std::fs::write(&filler, vec![1; 100 << 10])?;
    let full = Generations::create(&output.with_file_name("more"), &identity("1.5"), HEADER, bytes);
    assert!(matches!(full, Err(Error::NoSpace { .. })), "{full:?}");
    assert_eq!(names(small.0.path()), ["filler", "out"]);
    Ok(())
}

#[test]
fn an_output_that_became_a_folder_can_be_finished_later() -> Tested {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    let mut run = Generations::create(&output, &identity("1.5"), HEADER, BYTES)?;
    pass(&mut run)?;
    std::fs::create_dir(&output)?;
    // The error names the file in which the result is until then.
    let Err(Error::Kept { kept, source }) = run.finish() else { panic!("it has its name") };
    assert!(matches!(*source, Error::File { action: "rename to", .. }), "{source}");
    assert!(kept.starts_with(folder.path().join("out.syncline")));
    assert_eq!(std::fs::read(kept)?.len() as u64, BYTES);
    assert!(
        matches!(Generations::leftover(&output)?, Leftover::Resumable(found) if found.generation == 1)
    );
    std::fs::remove_dir(&output)?;
    let Resumed::Underway(run) = resume(&output)? else { panic!("nothing there") };
    run.finish()?;
    assert_eq!(names(folder.path()), ["out"]);
    Ok(())
}
