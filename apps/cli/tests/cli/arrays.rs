//! Kernels over arrays: the examples, in memory and from files to files, and what is refused.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use syncline_store::array::Array;
use syncline_testkit::cases;

use crate::common::{
    command, contents, fails_with, has_marks, json, names, ok, refused, said, until,
};

/// The examples, with the problems of their data and their fields.
const EXAMPLES: [(&str, &str, &[&str]); 7] = [
    ("explicit-heat", "heat", &["t"]),
    ("wave", "wave", &["u", "before"]),
    ("life", "life", &["cell"]),
    ("torus", "life", &["cell"]),
    ("eikonal", "eikonal", &["t"]),
    ("affine", "affine", &["best", "down", "right"]),
    ("ssor", "poisson", &["u"]),
];

fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn the_examples_have_the_bits_of_the_plain_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (example, problem, fields) in EXAMPLES {
        let kernel = examples().join(format!("{example}.toml"));
        let kernel = kernel.display();
        ok(path, &format!("gen {problem} {example} --rows 70 --cols 83"));
        let mut results = Vec::new();
        let ways = ["", "--memory 40M --depth 3", "--depth 2 --threads 3", "--lanes scalar"];
        for how in ways.into_iter().take(cases(4) as usize) {
            let line = format!("run {kernel} {example} --iterations 7 --verify --force {how}");
            let report = json(path, &line);
            assert_eq!(report["verified"], true, "{line}");
            assert_eq!((&report["rows"], &report["cols"]), (&70.into(), &83.into()));
            let read = |field: &&str| {
                fs::read(path.join(format!("{example}/{field}.{example}.out.npy"))).unwrap()
            };
            results.push(fields.iter().map(read).collect::<Vec<_>>());
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{example}");
        let changed = Array::open(&path.join(format!("{example}/{}.npy", fields[0]))).unwrap();
        let result = path.join(format!("{example}/{}.{example}.out.npy", fields[0]));
        assert!(changed != Array::open(&result).unwrap(), "{example}");
    }
}

/// A glider on a torus comes back to where it was: after four iterations for each row.
#[test]
fn a_glider_goes_around_a_torus() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (rows, cols) = (12, 12);
    let mut cells = vec![0_u8; rows * cols];
    [1, cols + 2, 2 * cols, 2 * cols + 1, 2 * cols + 2].into_iter().for_each(|at| cells[at] = 1);
    fs::create_dir(path.join("data")).unwrap();
    let cells = Array::from_vec(&[rows, cols], cells).unwrap();
    cells.create(&path.join("data/cell.npy")).unwrap().commit().unwrap();
    let kernel = examples().join("torus.toml");
    for (how, depth) in [("--depth 1", 1), ("--depth 5 --threads 2", 5), ("--depth 48", 48)] {
        let line = format!("run {} data -k 48 --verify --force {how}", kernel.display());
        let report = json(path, &line);
        assert_eq!(report["read_twice"], depth, "{line}");
        assert!(Array::open(&path.join("data/cell.torus.out.npy")).unwrap() == cells, "{line}");
    }
    let line = format!("run {} data -k 47 --force --depth 3", kernel.display());
    let told = "periodic     in each pass the first 3 rows and as many of the last are read twice";
    assert!(ok(path, &line).contains(told));
    assert!(Array::open(&path.join("data/cell.torus.out.npy")).unwrap() != cells);
}

#[test]
fn three_dimensions_and_foreign_orders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let seven = "name = 'seven'\nfield = 'u'\ndimensions = 3\n\
                 update = 'u = (up + down + n + s + e + w) / 6'\n";
    fs::write(path.join("seven.toml"), seven).unwrap();
    fs::create_dir(path.join("data")).unwrap();
    let values: Vec<f32> = (0..5 * 7 * 9).map(|i| (i * i % 31) as f32).collect();
    let array = Array::from_vec(&[5, 7, 9], values).unwrap();
    array.create(&path.join("data/u.npy")).unwrap().commit().unwrap();
    let report = json(path, "run seven.toml data --iterations 3 --verify");
    assert_eq!((&report["planes"], &report["dtype"]), (&5.into(), &"float32".into()));
    // The same values in the other order and byte order.
    let mut bytes = fs::read(path.join("data/u.npy")).unwrap();
    let text = String::from_utf8_lossy(&bytes[..128]).replace("False", "True ").replace('<', ">");
    let header: Vec<u8> =
        bytes[..8].iter().copied().chain(text.bytes().skip(text.len() - 120)).collect();
    let given = array.values::<f32>().unwrap();
    let swapped = (0..9).flat_map(|k| {
        (0..7).flat_map(move |j| (0..5).flat_map(move |i| given[(i * 7 + j) * 9 + k].to_be_bytes()))
    });
    bytes = header.into_iter().chain(swapped).collect();
    fs::create_dir(path.join("foreign")).unwrap();
    fs::write(path.join("foreign/u.npy"), bytes).unwrap();
    ok(path, "run seven.toml foreign --iterations 3 --verify --output o.npy");
    let result = |file: &str| Array::open(&path.join(file)).unwrap();
    assert!(result("o.npy") == result("data/u.seven.out.npy"));
}

/// Forward and back through a volume, in memory and, with passes of their own, from file to file.
#[test]
fn the_example_of_three_dimensions_has_the_bits_of_the_plain_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let kernel = examples().join("symmetric.toml");
    let values = |seed: usize| (0..12 * 17 * 23).map(move |i| ((i * 7919 + seed) % 1009) as f64);
    for (name, seed) in [("u", 1), ("r", 500)] {
        let array = Array::from_vec(&[12, 17, 23], values(seed).collect()).unwrap();
        array.create(&path.join(format!("{name}.npy"))).unwrap().commit().unwrap();
    }
    let line = format!("run {} . --iterations 6 --verify --force", kernel.display());
    for how in ["", "--threads 3", "--lanes scalar"].into_iter().take(cases(3) as usize) {
        let report = json(path, &format!("{line} {how}"));
        assert_eq!((&report["verified"], &report["passes"]), (&true.into(), &6.into()), "{how}");
    }
    let text = fs::read_to_string(&kernel).unwrap().replace("up-north-west", "north-west");
    fs::write(path.join("flat.toml"), text).unwrap();
    let expected = "there is no direction `north-west` in three dimensions; is `down-north-west` \
                    or `up-north-west` meant?";
    refused(path, "run flat.toml . --iterations 1", &["flat.toml", "line 7, column 34", expected]);
}

/// A comparison of the first rows: of explicit rules and of ordered ones that go down.
#[test]
fn a_sample_has_the_bits_of_the_plain_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (example, problem, fields) in EXAMPLES {
        let name = format!("{example}.toml");
        fs::copy(examples().join(&name), path.join(&name)).unwrap();
        ok(path, &format!("gen {problem} {example} --rows 260 --cols 40"));
        let output = format!("{example}-out");
        let target = match fields {
            [_] => format!("{output}.npy"),
            _ => {
                fs::create_dir(path.join(&output)).unwrap();
                output.clone()
            }
        };
        let iterations = if example == "affine" { 1 } else { 11 };
        let line =
            format!("run {name} {example} -k {iterations} --verify=sample --output {target}");
        if matches!(example, "torus" | "eikonal" | "ssor") {
            let error = fails_with(2, path, &line);
            assert!(error.contains("--verify=sample is for sweeps that go down only"), "{error}");
            continue;
        }
        let report = json(path, &line);
        let rows = report["sampled_rows"].as_u64();
        assert!(report["verified"] == true || rows.is_some_and(|rows| rows >= 4), "{report}");
    }
    // Three dimensions, with an edge that leads above the first plane.
    let text = "
        name = 'solid'
        field = 'u'
        dimensions = 3
        edges = 'reflected'
        update = 'u = (old.u[-1, 0, 0] + old.u[1, 0, 0] + old.u[0, 0, 1]) / 3'
    ";
    fs::write(path.join("solid.toml"), text).unwrap();
    fs::create_dir(path.join("data")).unwrap();
    let u = Array::from_vec(&[90, 5, 7], (0..90 * 35).map(|n| f64::from(n % 23)).collect());
    u.unwrap().create(&path.join("data/u.npy")).unwrap().commit().unwrap();
    let report = json(path, "run solid.toml data -k 20 --verify=sample");
    assert!(report["verified"] == true || report["sampled_rows"].as_u64() >= Some(4), "{report}");
    let refused = "run solid.toml data -k 20 --verify --force --memory 8M";
    let bytes = 400 * 3000 * 8_usize;
    let wide = Array::from_vec(&[400, 60, 50], vec![1.5; bytes / 8]).unwrap();
    wide.create(&path.join("data/u.npy")).unwrap().commit().unwrap();
    let error = fails_with(2, path, refused);
    assert!(error.contains("--verify compares in memory, which takes 27.5 MiB"), "{error}");
    let report = json(path, &refused.replace("--verify", "--verify=sample"));
    assert!(report["sampled_rows"].as_u64() >= Some(4), "{report}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let copy = |example: &str| {
        let name = format!("{example}.toml");
        fs::copy(examples().join(&name), path.join(&name)).unwrap();
    };
    ["life", "torus", "wave", "explicit-heat"].into_iter().for_each(copy);
    ok(path, "gen life cells --rows 9 --cols 9");
    ok(path, "gen wave waves --rows 9 --cols 9");
    fs::create_dir(path.join("odd")).unwrap();
    let odd = Array::from_vec(&[9, 9], vec![0_i16; 81]).unwrap();
    odd.create(&path.join("odd/cell.npy")).unwrap().commit().unwrap();
    odd.create(&path.join("odd/t.npy")).unwrap().commit().unwrap();
    let solid = Array::from_vec(&[3, 3, 9], vec![0_u8; 81]).unwrap();
    fs::create_dir(path.join("solid")).unwrap();
    solid.create(&path.join("solid/cell.npy")).unwrap().commit().unwrap();
    for (line, parts) in [
        ("run life.toml odd -k 1", &["the array cell is int16, but the kernel needs uint8"][..]),
        (
            "run life.toml solid -k 1",
            &["cell has 3 dimensions, but the kernel has 2", "dimensions = 3"],
        ),
        ("run explicit-heat.toml odd -k 1", &["t is int16", "float64 or float32", "no [types]"]),
        ("run life.toml waves -k 1", &["no matrix cell"]),
        ("run wave.toml waves -k 1 --output none", &["none does not exist: it is the folder"]),
        ("run life.toml cells -k 1 --memory 1M", &["--memory"]),
        ("run life.toml cells -k 1 --until nan", &["tolerance"]),
        ("run life.toml cells -k 1 --output cells/cell.npy", &["is the input"]),
    ] {
        refused(path, line, parts);
    }
    let round =
        "name = 'round'\nfield = 'u'\nedges = { rows = 'periodic' }\nupdate = 'u = n + s'\n";
    fs::write(path.join("round.toml"), round).unwrap();
    let error = fails_with(1, path, "run round.toml cells -k 1");
    let told = "round.toml, line 3, column 18: rows can be periodic only if the update reads values before";
    assert!(error.contains(told), "{error}");
    for (line, part) in [
        ("run life.toml cells -k 1 --block 8", "--block cannot be given"),
        ("run torus.toml cells -k 1 --verify=sample", "sweeps that go down only"),
        ("run life.toml cells -k 9 --verify=sample", "depend on 9 more, of 9 in all"),
        ("run wave.toml waves -k 1 --field waves/u.npy", "--field cannot be given"),
    ] {
        let error = fails_with(2, path, line);
        assert!(error.contains(part), "{line}: {error}");
    }
    ok(path, "run life.toml cells -k 1");
    refused(path, "run life.toml cells -k 2", &["life.out.npy is", "--force replaces it"]);
    ok(path, "run life.toml cells -k 2 --force");
    ok(path, "run life.toml cells -k 0 --output same.npy");
    assert!(
        Array::open(&path.join("same.npy")).unwrap()
            == Array::open(&path.join("cells/cell.npy")).unwrap()
    );
}

/// Options with which the arrays of [`large`] do not fit the memory.
const FROM_FILES: &str = "--memory 40M --threads 1 --depth 1";

/// Creates the arrays of the wave equation, and returns the command line of a run from files to
/// files, without its options.
fn large(path: &Path) -> String {
    ok(path, "gen wave waves --rows 1200 --cols 1000");
    ["o", "p"].iter().for_each(|name| fs::create_dir(path.join(name)).unwrap());
    format!("run {} waves", examples().join("wave.toml").display())
}

/// Starts a run into the folder `o`, and waits until it has committed a pass.
fn started(path: &Path, line: &str) -> Child {
    let mut child =
        command(path, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a pass", || {
        assert_eq!(child.try_wait().unwrap(), None, "{line} ended");
        path.join("o/u.npy.syncline/manifest").exists()
    });
    child
}

#[test]
fn a_killed_run_goes_on_after_its_last_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = large(path);
    ok(path, &format!("{run} --iterations 24 --output p"));
    let line = format!("{run} --iterations 24 --output o {FROM_FILES}");
    // Again, where the machine is too busy to kill the run before it ends.
    until("a run that is killed between its passes", || {
        let mut child =
            command(path, &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let manifest = path.join("o/u.npy.syncline/manifest");
        until("a pass, or the end", || manifest.exists() || child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        let is_caught = names(&path.join("o")) == ["u.npy.syncline"];
        if !is_caught {
            fs::remove_dir_all(path.join("o")).unwrap();
            fs::create_dir(path.join("o")).unwrap();
        }
        is_caught
    });
    let left = "o/u.npy.syncline is left of a run that ended after ";
    refused(path, &line, &[left, "--resume to go on from there", "--force"]);
    refused(path, &line.replace("24", "0"), &[left]);
    // Killed and resumed again and again, at any moment.
    for wait in [0, 5, 80, 200, 350] {
        let resumed = format!("{line} --resume");
        let mut child =
            command(path, &resumed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        let there: Vec<_> = names(&path.join("o"));
        assert!(there == ["u.npy.syncline"] || there.len() > 1, "{there:?}");
    }
    let report = json(path, &format!("{line} --resume"));
    if report["complete_already"] == false {
        assert!(report["resumed"].as_u64() > Some(0), "{report}");
        assert_eq!(report["marked"], has_marks(path));
    }
    assert_eq!(report["iterations"], 24);
    assert!(contents(&path.join("o")).values().eq(contents(&path.join("p")).values()));
    assert_eq!(names(&path.join("o")), ["before.npy", "u.npy"]);
}

#[test]
fn an_interrupted_run_says_what_is_kept_and_an_input_that_changes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = large(path);
    let line = format!("{run} --iterations 100000 --output o {FROM_FILES}");
    let child = started(path, &line);
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let told = said(child.wait_with_output().unwrap().stderr);
    assert!(told.contains("of 100000 iterations are kept, --resume goes on from there"), "{told}");
    // Another description is another computation.
    let text = fs::read_to_string(examples().join("wave.toml")).unwrap();
    fs::write(path.join("wave.toml"), text.replace("2*u", "2.0*u")).unwrap();
    let other = format!("run wave.toml waves --iterations 100000 --output o {FROM_FILES}");
    refused(path, &format!("{other} --resume"), &["is of another computation", "--force"]);
    // Kept iterations are more than those asked for.
    let few = format!("{run} --iterations 0 --output o {FROM_FILES} --resume");
    refused(path, &few, &["more than the 0 asked for", "--force"]);
    // A changed input.
    fs::remove_dir_all(path.join("o/u.npy.syncline")).unwrap();
    let child = started(path, &line);
    let speed = path.join("waves/speed.npy");
    let bytes = fs::read(&speed).unwrap();
    // In place: a file that is short for a moment is another error.
    fs::OpenOptions::new().write(true).open(&speed).unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = said(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("speed.npy was changed while it was read"), "{told}");
    // With other values it is another input, with the same ones it is not.
    let mut changed = bytes.clone();
    changed[5000] ^= 1;
    fs::write(&speed, &changed).unwrap();
    refused(path, &format!("{line} --resume"), &["speed.npy", "has other values"]);
    fs::write(&speed, &bytes).unwrap();
    refused(path, &few, &["more than the 0 asked for"]);
}

#[test]
fn a_result_of_several_fields_is_continued_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    let run = format!("run {} waves", examples().join("wave.toml").display());
    ok(path, "gen wave waves --rows 30 --cols 40");
    ["o", "p", "q"].iter().for_each(|name| fs::create_dir(path.join(name)).unwrap());
    let line = |k: u64, options: &str| format!("{run} --iterations {k} {options}");
    ok(path, &line(9, "--output p"));
    let nine = contents(&path.join("p"));
    // One pass from files to files, or several in memory.
    for how in ["", "--depth 2", "--depth 5 --threads 3"] {
        let report = json(path, &line(5, &format!("--output o --force {how}")));
        assert_eq!(
            (&report["marked"], &report["resumed"]),
            (&true.into(), &serde_json::Value::Null)
        );
        refused(path, &line(9, "--output o"), &["u.npy is the result of 5 iterations of wave"]);
        refused(path, &line(4, "--output o --resume"), &["iterations were 5, are 4"]);
        let report = json(path, &line(5, "--output o --resume --verify"));
        assert_eq!(
            (&report["complete_already"], &report["verified"]),
            (&true.into(), &true.into())
        );
        let report = json(path, &line(9, &format!("--output o --resume --verify {how}")));
        assert_eq!((&report["resumed"], &report["iterations"]), (&5.into(), &9.into()));
        assert!(contents(&path.join("o")).values().eq(nine.values()), "{how}");
    }
    // Fields of different iterations, exchanged fields, and fields without the others.
    ok(path, &line(5, "--output q"));
    fs::rename(path.join("q/u.npy"), path.join("o/u.npy")).unwrap();
    let mixed = line(12, "--output o --resume");
    refused(path, &mixed, &["before.npy is the result of 9", "iterations of o/u.npy are 5"]);
    fs::rename(path.join("o/before.npy"), path.join("o/u.npy")).unwrap();
    refused(path, &mixed, &["u.npy is", "the file of another field is missing"]);
    fs::rename(path.join("q/before.npy"), path.join("o/before.npy")).unwrap();
    refused(path, &mixed, &["field was 2 of 2, is 1 of 2"]);
    ok(path, &line(9, "--output o --force"));
    assert!(contents(&path.join("o")).values().eq(nine.values()));
}

/// Outputs of several fields are files of their own in one folder, also if they are links.
#[test]
fn links_of_several_outputs_lead_to_one_folder_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen wave waves --rows 30 --cols 40");
    for folder in ["o", "o/in", "other"] {
        fs::create_dir(path.join(folder)).unwrap();
    }
    fs::write(path.join("other/u.npy"), "x").unwrap();
    let link = path.join("o/u.npy");
    let wave = examples().join("wave.toml");
    let line =
        |how: &str| format!("run {} waves --iterations 5 --output o --force {how}", wave.display());
    let apart =
        ["o/before.npy is not in the folder of the output", "o/u.npy leads to", "other/u.npy"];
    let same = ["o/before.npy is the same file as the output", "o/u.npy leads to"];
    // One pass, several, and one in memory.
    for how in ["", "--depth 2", "--depth 1 --threads 2"] {
        symlink("../other/u.npy", &link).unwrap();
        refused(path, &line(how), &apart);
        fs::remove_file(&link).unwrap();
        symlink("before.npy", &link).unwrap();
        fs::write(path.join("o/before.npy"), "x").unwrap();
        refused(path, &line(how), &same);
        fs::remove_file(&link).unwrap();
        // A link within the folder stays, and what it leads to is replaced.
        symlink("in/../old.npy", &link).unwrap();
        fs::write(path.join("o/old.npy"), "x").unwrap();
        ok(path, &line(&format!("{how} --verify")));
        assert!(link.is_symlink());
        assert_eq!(Array::open(&path.join("o/old.npy")).unwrap().dims(), [30, 40]);
        ok(path, &line(&format!("{how} --verify")));
        fs::remove_file(&link).unwrap();
    }
}
