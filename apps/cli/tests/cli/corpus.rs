//! The corpus: sweeps of all kinds with the checksums of their results, which no change of the
//! executors may change.
//!
//! Other tests compare a result with the plain loop of the same build, so a change of both goes
//! unnoticed there. `corpus.txt` has one line for each sweep: its name, and the checksum of the
//! files that it writes. With `SYNCLINE_CORPUS=write` the test writes that file instead of
//! comparing with it. Only a sweep that is new may change it.
//!
//! A result does not depend on the instructions of the machine, nor on the number of threads.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use syncline_store::array::{Array, Number};
use syncline_store::checksum::checksum;
use syncline_testkit::{Random, cases};

use crate::common::{command, has_marks, ok, said, succeeds, until};
use crate::team::launch;

/// A sweep of the corpus.
struct Entry {
    name: String,
    /// The folder of its arrays, and the arguments of `syncline run` after it.
    run: String,
    /// The names of the fields.
    fields: Vec<&'static str>,
    /// The members of a team.
    members: usize,
}

/// A problem of matrices: its name, the kernel with its options, and the arrays with the greatest
/// value of each.
type Problem = (&'static str, &'static str, &'static [(&'static str, f64)]);

const MATRICES: [Problem; 12] = [
    ("lk23", "lk23", LK23),
    ("gauss-seidel", "gauss-seidel", &[("u", 1.0)]),
    ("gauss-seidel-f", "gauss-seidel", &[("u", 1.0), ("f", 0.1)]),
    ("sor", "sor --omega 1.7", &[("u", 1.0)]),
    ("nine-point", "nine-point", &[("u", 1.0)]),
    ("nine-point-f", "nine-point --omega 1.2", &[("u", 1.0), ("f", 0.1)]),
    ("variable", "gauss-seidel-variable", VARIABLE),
    ("global", "alignment --gap 0.75", &[("score", 1.0), ("match", 2.0)]),
    ("local", "alignment --local", &[("score", 1.0), ("match", 2.0)]),
    ("text-lk23", "EXAMPLES/lk23.toml", LK23),
    ("text-heat", "EXAMPLES/heat.toml", &[("t", 1.0), ("source", 0.2), ("given", 0.0)]),
    ("text-corners", "corners.toml", &[("u", 1.0), ("a", 0.2)]),
];

const LK23: &[(&str, f64)] =
    &[("za", 1.0), ("zr", 0.25), ("zb", 0.25), ("zu", 0.25), ("zv", 0.25), ("zz", 0.25)];
const VARIABLE: &[(&str, f64)] = &[
    ("u", 1.0),
    ("an", 0.25),
    ("aw", 0.25),
    ("ae", 0.25),
    ("as", 0.25),
    ("f", 0.1),
    ("mask", 0.0),
];

/// The sweeps of each problem of matrices: rows, columns, arguments, members.
const WAYS: [(usize, usize, &str, usize); 7] = [
    (37, 53, "-k 7", 1),
    (130, 75, "-k 20 --depth 6 --threads 3", 1),
    (65, 301, "-k 5 --executor blocked --block 15x301", 1),
    (90, 91, "-k 400 --until 2e-3 --depth 7", 1),
    (64, 48, "-k 400 --until 2e-3 --exact-stop --depth 5", 1),
    (4, 700, "-k 9 --threads 2 --depth 9", 1),
    (70, 400, "-k 12 --depth 5", 2),
];

/// Kernels over arrays: a name, the description, the fields.
const ARRAYS: [(&str, &str, &[&str]); 16] = [
    ("life", "EXAMPLES/life.toml", &["cell"]),
    ("wave", "EXAMPLES/wave.toml", &["u", "before"]),
    ("eikonal", "EXAMPLES/eikonal.toml", &["t"]),
    ("ssor", "EXAMPLES/ssor.toml", &["u"]),
    ("affine", "EXAMPLES/affine.toml", &["best", "down", "right"]),
    ("explicit-heat", "EXAMPLES/explicit-heat.toml", &["t"]),
    ("clamped", "clamped.toml", &["u"]),
    ("periodic", "periodic.toml", &["u", "v"]),
    ("far", "far.toml", &["u"]),
    ("mixed", "mixed.toml", &["u", "m"]),
    ("explicit-3", "explicit-3.toml", &["u"]),
    ("explicit-3-edges", "explicit-3-edges.toml", &["u"]),
    ("ordered-3", "ordered-3.toml", &["u"]),
    ("ordered-3-27", "ordered-3-27.toml", &["u"]),
    ("ordered-3-int", "ordered-3-int.toml", &["u"]),
    ("two-3", "two-3.toml", &["u", "v"]),
];

/// The sweeps of each kernel over arrays: arguments, members.
const WAYS_OF_ARRAYS: [(&str, usize); 7] = [
    ("-k 6", 1),
    ("-k 9 --depth 4 --threads 3", 1),
    ("-k 1", 1),
    ("-k 11 --memory 40M --depth 5", 1),
    ("-k 60 --until 1e-2 --depth 6", 1),
    ("-k 60 --until 1e-2 --exact-stop --depth 6", 1),
    ("-k 8 --depth 4", 2),
];

/// Descriptions beside the examples.
const TEXTS: [(&str, &str); 11] = [
    (
        "corners",
        "name = 'corners'\nfield = 'u'\ncoefficients = ['a']\nupdate = 'u = max(min(ne + a, sw), \
         abs(u - nw * se)) * 0.5 + sqrt(a) / (1 + u * u)'",
    ),
    (
        "clamped",
        "name = 'clamped'\nfield = 'u'\nedges = 'clamped'\nupdate = 'u = 0.2 * (n + s + e + w + u)'",
    ),
    (
        "periodic",
        "name = 'periodic'\nfields = ['u', 'v']\nedges = { rows = 'reflected', columns = \
         'periodic' }\nupdate = \"\"\"\nu = old.u + 0.1 * (old.v.e - old.v.w)\nv = old.v + 0.1 * \
         (old.u.n - old.u.s)\n\"\"\"",
    ),
    (
        "far",
        "name = 'far'\nfield = 'u'\nedges = 0.5\nupdate = 'u = (up + down + 2 * left + right) / \
         5'\n[neighbours]\nup = [-2, 1]\ndown = [2, -1]\nleft = [0, -2]\nright = [1, 2]",
    ),
    (
        "mixed",
        "name = 'mixed'\noverflow = 'wrapping'\nfields = ['u', 'm']\ntypes = { u = 'float32', m = 'int16', c = 'uint8' }\n\
         coefficients = ['c']\ndirections = ['south-east', 'north-west']\nupdate = \"\"\"\nu = \
         (u.n + u.s + u.e + u.w) * 0.25\nm = m.w + m.n - int16(c)\n\"\"\"",
    ),
    (
        "explicit-3",
        "name = 'explicit-3'\nfield = 'u'\ndimensions = 3\nupdate = 'u = u + 0.1 * (old.u[-1,0,0] \
         + old.u[1,0,0] + old.u[0,-1,0] + old.u[0,1,0] + old.u[0,0,-1] + old.u[0,0,1] - 6*u)'",
    ),
    (
        "explicit-3-edges",
        "name = 'explicit-3-edges'\nfield = 'u'\ndimensions = 3\nedges = { planes = 'clamped', \
         rows = 'reflected', columns = 'periodic' }\nupdate = 'u = u + 0.1 * (old.u[-1,0,0] + \
         old.u[1,0,0] + old.u[0,-1,0] + old.u[0,1,1] + old.u[0,0,-1] + old.u[1,0,1] - 6*u)'",
    ),
    (
        "ordered-3",
        "name = 'ordered-3'\nfield = 'u'\ncoefficients = ['f']\ndimensions = 3\nupdate = 'u = \
         (u[-1,0,0] + u[1,0,0] + u[0,-1,0] + u[0,1,0] + u[0,0,-1] + u[0,0,1] + f) / 6'",
    ),
    (
        "ordered-3-27",
        "name = 'ordered-3-27'\nfield = 'u'\ndimensions = 3\nedges = 0\nupdate = 'u = (u[-1,-1,-1] + \
         u[-1,0,0] + u[1,1,1] + u[1,0,-1] + u[0,-1,1] + u[0,1,-1] + u[0,0,-1] + u[0,0,1] + u) / 9'",
    ),
    (
        "ordered-3-int",
        "name = 'ordered-3-int'\nfield = 'u'\ndimensions = 3\noverflow = 'wrapping'\ntypes = { u = \
         'int32' }\nupdate = 'u = u[-1,0,0] + u[0,-1,0] - u[0,0,1] + 3 * u[1,0,0]'",
    ),
    (
        "two-3",
        "name = 'two-3'\nfields = ['u', 'v']\ndimensions = 3\nedges = 'clamped'\nupdate = \"\"\"\nu = \
         (u[-1,0,0] + u[0,0,1] + v) / 3\nv = 0.5 * (v[0,-1,0] + u[1,0,0])\n\"\"\"",
    ),
];

fn write(path: &Path, dims: &[usize], values: Vec<f64>, element: &str) {
    fn of<T: Number>(dims: &[usize], values: &[f64], to: impl Fn(f64) -> T) -> Array {
        Array::from_vec(dims, values.iter().map(|value| to(*value)).collect()).unwrap()
    }
    let array = match element {
        "float32" => of(dims, &values, |value| value as f32),
        "int16" => of(dims, &values, |value| (value * 1000.0) as i16),
        "int32" => of(dims, &values, |value| (value * 1e9) as i32),
        "uint8" => of(dims, &values, |value| (value * 200.0) as u8),
        "cells" => of(dims, &values, |value| u8::from(value < 0.3)),
        _ => of(dims, &values, |value| value),
    };
    array.create(path).unwrap().commit().unwrap();
}

/// Writes arrays of the problems of matrices.
fn write_matrices(folder: &Path, entries: &mut Vec<Entry>) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let examples = examples.display().to_string();
    for (p, (problem, kernel, arrays)) in MATRICES.into_iter().enumerate() {
        let kernel = kernel.replace("EXAMPLES", &examples);
        for (w, (rows, cols, options, members)) in WAYS.into_iter().enumerate() {
            let element = if (p + w) % 3 == 2 { "float32" } else { "float64" };
            let dir = format!("{problem}-{w}");
            fs::create_dir(folder.join(&dir)).unwrap();
            let mut random = Random::stream(p as u64, w as u64);
            for (name, most) in arrays {
                let mut next = || random.number() as f64 / u64::MAX as f64 * most;
                let values = (0..rows * cols).map(|_| next()).collect();
                write(
                    &folder.join(&dir).join(format!("{name}.npy")),
                    &[rows, cols],
                    values,
                    element,
                );
            }
            let (kernel, rest) = kernel.split_once(' ').unwrap_or((&kernel, ""));
            // No tolerance on a team of matrices.
            let run = format!("run {kernel} {dir} {rest} {options}");
            entries.push(Entry { name: dir, run, fields: vec![arrays[0].0], members });
        }
    }
}

/// Returns the names and the types of the arrays of a kernel over arrays, and its dimensions.
fn arrays_of(kernel: &str) -> (&'static [(&'static str, &'static str)], usize) {
    match kernel {
        "life" => (&[("cell", "cells")], 2),
        "wave" => (&[("u", ""), ("before", ""), ("speed", "")], 2),
        "eikonal" => (&[("t", ""), ("slowness", "")], 2),
        "ssor" => (&[("u", ""), ("f", "")], 2),
        "affine" => {
            (&[("best", "int32"), ("down", "int32"), ("right", "int32"), ("match", "int32")], 2)
        }
        "explicit-heat" => (&[("t", "")], 2),
        "periodic" => (&[("u", ""), ("v", "")], 2),
        "mixed" => (&[("u", "float32"), ("m", "int16"), ("c", "uint8")], 2),
        "clamped" | "far" => (&[("u", "")], 2),
        "ordered-3" => (&[("u", ""), ("f", "")], 3),
        "ordered-3-int" => (&[("u", "int32")], 3),
        "two-3" => (&[("u", ""), ("v", "")], 3),
        _ => (&[("u", "")], 3),
    }
}

fn write_arrays(folder: &Path, entries: &mut Vec<Entry>) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let examples = examples.display().to_string();
    for (name, text) in TEXTS {
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    for (k, (kernel, text, fields)) in ARRAYS.into_iter().enumerate() {
        let (arrays, dimensions) = arrays_of(kernel);
        for (w, (options, members)) in WAYS_OF_ARRAYS.into_iter().enumerate() {
            let dims: &[usize] = match (dimensions, members, w % 3) {
                (2, 1, 0) => &[61, 83],
                (2, 1, 1) => &[130, 47],
                (2, 1, _) => &[20, 310],
                (2, ..) => &[96, 240],
                (_, 1, 0) => &[17, 13, 29],
                (_, 1, 1) => &[9, 30, 11],
                (_, 1, _) => &[31, 8, 21],
                _ => &[24, 12, 120],
            };
            let real = if (k + w) % 3 == 2 { "float32" } else { "float64" };
            let dir = format!("{kernel}-{w}");
            fs::create_dir(folder.join(&dir)).unwrap();
            let mut random = Random::stream(1000 + k as u64, w as u64);
            let points: usize = dims.iter().product();
            for (name, element) in arrays {
                let element = if element.is_empty() { real } else { element };
                let values =
                    (0..points).map(|_| random.number() as f64 / u64::MAX as f64).collect();
                write(&folder.join(&dir).join(format!("{name}.npy")), dims, values, element);
            }
            let text = text.replace("EXAMPLES", &examples);
            let run = format!("run {text} {dir} {options}");
            entries.push(Entry { name: dir, run, fields: fields.to_vec(), members });
        }
    }
}

/// Returns the checksum of the results in a folder.
fn sum_of(folder: &Path, fields: &[&str]) -> u64 {
    let bytes: Vec<u8> = fields
        .iter()
        .flat_map(|field| fs::read(folder.join(format!("{field}.npy"))).unwrap())
        .collect();
    checksum(&bytes)
}

fn outputs(entry: &Entry, out: &str) -> String {
    match &entry.fields[..] {
        [field] => format!("--output {out}/{field}.npy"),
        _ => format!("--output {out}"),
    }
}

impl Entry {
    /// Runs the sweep into a new folder, and returns the checksum of its results.
    fn sum(&self, folder: &Path) -> u64 {
        let out = format!("{}-out", self.name);
        fs::create_dir(folder.join(&out)).unwrap();
        let run = format!("{} {}", self.run, outputs(self, &out));
        let run = run.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.members > 1 {
            succeeds(launch(folder, &format!("-n {}", self.members), &run), &run);
        } else {
            // A run that does not converge ends with code 3, and has its result.
            let output = command(folder, &run).output().unwrap();
            let code = output.status.code();
            assert!(code == Some(0) || code == Some(3), "{run}: {}", said(output.stderr));
        }
        sum_of(&folder.join(out), &self.fields)
    }
}

fn entries(folder: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    write_matrices(folder, &mut entries);
    write_arrays(folder, &mut entries);
    entries
}

fn expected() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/corpus.txt")
}

#[test]
fn results_are_those_of_the_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let entries = entries(folder.path());
    let line = |entry: &Entry| format!("{} {:016x}", entry.name, entry.sum(folder.path()));
    if std::env::var("SYNCLINE_CORPUS").is_ok_and(|what| what == "write") {
        let lines: String = entries.iter().map(|entry| line(entry) + "\n").collect();
        fs::write(expected(), lines).unwrap();
        return;
    }
    let corpus = fs::read_to_string(expected()).unwrap();
    assert_eq!(entries.len(), corpus.lines().count());
    // Seven sweeps follow one another for each kernel, so a quarter of all has some of each.
    let step = 2 * entries.len() / cases(2 * entries.len() as u32) as usize;
    let known = entries.iter().zip(corpus.lines()).step_by(step);
    let all = known.map(|(entry, known)| (line(entry), known));
    let differing: Vec<_> = all.filter(|(now, known)| now != known).collect();
    assert!(differing.is_empty(), "{} differ: {differing:?}", differing.len());
}

/// A run of several passes that is killed after one of them leaves what `--resume` continues from.
#[test]
fn interrupted_sweeps_of_the_corpus_end_with_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    let corpus = fs::read_to_string(expected()).unwrap();
    let names = [
        "lk23-1",
        "sor-1",
        "nine-point-f-1",
        "variable-3",
        "text-corners-1",
        "global-1",
        "life-3",
        "two-3-3",
        "ordered-3-3",
        "eikonal-3",
    ];
    for entry in entries(path).iter().filter(|entry| names.contains(&&*entry.name)) {
        let out = path.join(format!("{}-out", entry.name));
        fs::create_dir(&out).unwrap();
        // From files to files, whatever the memory.
        let name = format!("{}-out", entry.name);
        let run = format!("{} {}", entry.run, outputs(entry, &name));
        let mut child =
            command(path, &run).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let manifest = out.join(format!("{}.npy.syncline/manifest", entry.fields[0]));
        until("a pass", || manifest.exists() || child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        let output = command(path, &format!("{run} --resume")).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{run}: {}", said(output.stderr));
        let line = format!("{} {:016x}", entry.name, sum_of(&out, &entry.fields));
        assert!(corpus.lines().any(|known| known == line), "{line}");
        ok(path, &format!("{run} --resume"));
    }
}
