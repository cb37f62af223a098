//! `syncline overlay`: drawings, verdicts, and errors in files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{command, contents, fails, fails_with, names, ok};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Checks that a file which is no overlay gives exit code 2, a one-line error that contains all of
/// `parts`, and no output file.
fn wrong(folder: &Path, text: &str, parts: &[&str]) {
    fs::write(folder.join("o.toml"), text).unwrap();
    let before = contents(folder);
    let error = fails_with(2, folder, "overlay check o.toml --draw o.svg");
    for part in parts.iter().chain(&["o.toml"]) {
        assert!(error.contains(part), "{error:?} does not say {part:?}, of {text}");
    }
    assert!(contents(folder) == before, "{:?}", names(folder));
}

#[test]
fn a_grid_is_drawn_and_summed_up() {
    let folder = tempfile::tempdir().unwrap();
    let text = ok(folder.path(), "overlay grid 2x2");
    let drawing = "
3 │ ○t1,0~   ○t1,1    ○t1,1    □t1,1
2 │ ○t0,1~   □t0,1~   □t1,0~   ●t1,0~
1 │ ■t0,0*   ●t0,0*   ●t0,0*   ●t0,1~
  └────────────────────────────────────
    b0,0     b0,1     b1,0     b1,1
";
    assert!(text.contains(drawing), "{text}");
    for line in [
        "tasks        4 on 4 locations, 12 requests",
        "start        1 active, 2 partly delayed, 1 delayed; order wave",
        "live         yes",
        "depth        3,",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let checked = ok(folder.path(), "overlay grid 8x8 --init max-parallel --check");
    assert!(
        checked.contains("start        32 active") && checked.contains("depth        2,"),
        "{checked}"
    );
    assert!(!checked.contains('■'), "{checked}");
    for init in ["program", "wave"] {
        let checked = ok(folder.path(), &format!("overlay grid 8x8 --check --init {init}"));
        assert!(
            checked.contains("start        1 active") && checked.contains("depth        15,"),
            "{checked}"
        );
    }
    let one = ok(folder.path(), "overlay grid 1x1 --check");
    assert!(one.contains("tasks        1 on 1 location, 1 request\n"), "{one}");
    let help = ok(folder.path(), "overlay check --help");
    assert!(!help.contains("[default: program]"), "{help}");
    let many = ok(folder.path(), "overlay grid 50x50");
    assert!(many.contains("not printed for more than 2000 tasks: --draw FILE"), "{many}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn the_ending_of_the_file_says_how_it_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (file, start) in
        [("g.svg", "<svg xmlns="), ("g.dot", "digraph overlay {"), ("g.txt", "16 tasks, ")]
    {
        let text = ok(path, &format!("overlay grid 4x4 --draw {file}"));
        assert!(text.ends_with(&format!("drawing      {file}\n")) && !text.contains('■'), "{text}");
        let drawing = fs::read_to_string(path.join(file)).unwrap();
        assert!(drawing.starts_with(start), "{drawing}");
        // Again, over the old file: identical to the byte.
        ok(path, &format!("overlay grid 4x4 --draw {file}"));
        assert_eq!(fs::read_to_string(path.join(file)).unwrap(), drawing);
    }
    assert_eq!(names(path), ["g.dot", "g.svg", "g.txt"]);
    for line in
        ["overlay grid 4x4 --draw g.png", "overlay grid 0x4", "overlay grid 9999999x9999999"]
    {
        assert_eq!(command(path, line).output().unwrap().status.code(), Some(2), "{line}");
    }
    assert!(fails_with(1, path, "overlay grid 4x4 --draw nowhere/g.svg").contains("nowhere"));
}

#[test]
fn a_deadlock_is_refused_by_name_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::copy(example("deadlock.toml"), path.join("o.toml")).unwrap();
    let circle = "o.toml: the overlay deadlocks: 'left' waits at 'a' for 'right', 'right' waits at 'b' for 'left'";
    let error = fails_with(1, path, "overlay check o.toml --draw o.svg");
    assert_eq!(error, format!("{circle}; drawn in o.svg"));
    let drawing = fs::read_to_string(path.join("o.svg")).unwrap();
    assert_eq!(drawing.matches("<path class=\"deadlock\"").count(), 4, "{drawing}");
    assert!(drawing.contains("'left' waits at 'a' for 'right'"), "{drawing}");
    // Without an output file, the drawing is printed as well.
    let refused = command(path, "overlay check o.toml").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), format!("error: {circle}\n"));
    assert!(String::from_utf8(refused.stdout).unwrap().contains("1 │ ●right!   ●left!"));
    // The same requests in any single order are live.
    ok(path, "overlay grid 1x2");
    fs::write(
        path.join("p.toml"),
        fs::read_to_string(path.join("o.toml")).unwrap().split("[order]").next().unwrap(),
    )
    .unwrap();
    assert!(ok(path, "overlay check p.toml").contains("live         yes"));
}

#[test]
fn a_pipeline_is_live_and_priorities_decide() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::copy(example("pipeline.toml"), path.join("o.toml")).unwrap();
    let text = ok(path, "overlay check o.toml");
    assert!(
        text.contains("4 on 3 locations, 7 requests") && text.contains("order program"),
        "{text}"
    );
    assert!(ok(path, "overlay check o.toml --init max-parallel").contains("order max-parallel"));
    fs::write(
        path.join("o.toml"),
        "tasks.a = {writes=['x'], priority=2}\ntasks.b = {reads=['x', 'y'], priority=1}",
    )
    .unwrap();
    let text = ok(path, "overlay check o.toml");
    assert!(
        text.contains("2 │ □a")
            && text.contains("1 │ ●b*")
            && text.contains("the given priorities"),
        "{text}"
    );
    assert!(text.contains("never written y"), "{text}");
    assert!(ok(path, "overlay check o.toml --init program").contains("1 │ ■a*"));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert!(fails_with(2, path, "overlay check none.toml").contains("none.toml"));
    wrong(path, "tasks = ", &["line 1, column"]);
    wrong(
        path,
        "locations = []\ntasks.a = {reads = ['y']}",
        &["no location `y`; there are none, in: tasks.a"],
    );
    fs::write(path.join("o.toml"), "").unwrap();
    assert!(fails_with(2, path, "overlay check o.toml").ends_with(": missing field `tasks`"));
    wrong(path, "[task]\n", &["line 1, column 2", "unknown field `task`"]);
    wrong(
        path,
        "[tasks]\na = {read=['x']}",
        &["line 2, column 6", "unknown field `read`", "in: a = {read=['x']}"],
    );
    wrong(path, "init = 'wav'\n[tasks]", &["line 1", "unknown variant `wav`", "max-parallel"]);
    let tasks = "[tasks]\nleft = {writes=['a'], reads=['b']}\nright = {writes=['b']}\nthird = {reads=['c']}\n";
    let order = |order: &str| format!("{tasks}[order]\n{order}\n");
    wrong(
        path,
        &order("b = ['lfet', 'right']"),
        &["line 6, column 6", "no task `lfet`; is `left` meant?"],
    );
    wrong(path, &order("bb = []"), &["line 6, column 1", "no location `bb`; is `b` meant?"]);
    wrong(
        path,
        &order("other = []"),
        &["line 6, column 1", "no location `other`; there are a, b, c"],
    );
    wrong(path, &order("b = ['left']"), &["line 6", "does not say where task `right` is"]);
    wrong(path, &order("b = ['left', 'right', 'left']"), &["column 23", "`left` stands twice"]);
    wrong(path, &order("b = ['left', 'third', 'right']"), &["`third` does not use location `b`"]);
    let listed = format!("locations = ['a', 'bee', 'c']\n{tasks}");
    wrong(path, &listed.replace("'bee'", "'b', 'b'"), &["line 1", "`b` is declared twice"]);
    wrong(
        path,
        &listed.replace("['b']", "['ebe']"),
        &["line 3, column 30", "no location `ebe`; is `bee` meant?"],
    );
    wrong(
        path,
        "tasks.a = {writes=['x'], reads=['x']}",
        &["column 33", "task `a` asks for location `x` twice"],
    );
    wrong(
        path,
        "tasks.a = {priority=1}\ntasks.b = {}",
        &["line 2", "task `b` has no priority, but 1 of the 2"],
    );
    wrong(path, "init = 'wave'\ntasks.a = {priority=1}", &["line 1", "no `init` beside it"]);
}

#[test]
fn a_drawing_never_replaces_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("o.txt"), "tasks.a = {}").unwrap();
    assert!(
        fails_with(2, path, "overlay check o.txt --draw ./o.txt").contains("never overwritten")
    );
    assert_eq!(fs::read_to_string(path.join("o.txt")).unwrap(), "tasks.a = {}");
    // A drawing that cannot be written is an error of its own, even for a deadlock, which is
    // reported too.
    fs::copy(example("deadlock.toml"), path.join("d.toml")).unwrap();
    let error = fails_with(2, path, "overlay check d.toml --draw nowhere/d.svg");
    assert!(error.contains("d.toml: the overlay deadlocks: 'left' waits at 'a'"), "{error}");
    assert!(error.contains("; not drawn: ") && error.contains("nowhere"), "{error}");
}

#[test]
fn the_middle_of_a_long_circle_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut text = "[tasks]\n".to_owned();
    (0..300)
        .for_each(|t| text += &format!("t{t} = {{ writes = ['l{t}', 'l{}'] }}\n", (t + 1) % 300));
    text += "[order]\n";
    (0..300).for_each(|t| text += &format!("l{t} = ['t{t}', 't{}']\n", (t + 299) % 300));
    fs::write(path.join("o.toml"), text).unwrap();
    let error = fails_with(1, path, "overlay check o.toml --draw o.txt");
    assert!(
        error.contains(", ... 292 more ..., ") && error.ends_with("; drawn in o.txt"),
        "{error}"
    );
    assert_eq!(error.matches(" waits at ").count(), 8, "{error}");
}

/// A caller that uses the exit code gets the same verdict, or that there is none, if the text
/// cannot be printed.
#[test]
fn a_verdict_that_cannot_be_printed_is_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (file, code, verdict) in
        [("pipeline.toml", 2, ""), ("deadlock.toml", 1, "the overlay deadlocks: ")]
    {
        fs::copy(example(file), path.join("o.toml")).unwrap();
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut check = command(path, "overlay check o.toml");
        check.stdout(full);
        let error = fails(code, check, file);
        assert!(
            error.contains(verdict) && error.contains("cannot write to standard output"),
            "{error}"
        );
    }
}
