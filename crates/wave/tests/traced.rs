//! Sweeps in traces in memory: the bytes of files, the facts, and the waits for permits.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use syncline_store::{Layout, Matrix, NewFile, Shape};
use syncline_trace::note::{Note, ObjectClass, notes};
use syncline_trace::{Activity, enable, snapshot};
use syncline_wave::{Runner, Sweep, kernels::Lk23, target::Target};

const SHAPE: Shape = Shape::new(400, 500);
const DATA: u64 = 400 * 500 * 8;

/// Creates a `.npy` file of this name and opens it.
fn on_file(folder: &Path, name: &str) -> Arc<Matrix> {
    let path = folder.join(name);
    let bytes = Matrix::<f64>::file_bytes(true, SHAPE, Layout::RowMajor).unwrap();
    let new = NewFile::create(&path, bytes).unwrap();
    let mut matrix = Matrix::create(&new, true, SHAPE, Layout::RowMajor).unwrap();
    matrix.write_rows(0..SHAPE.rows, &vec![0.25; SHAPE.elements()]).unwrap();
    drop(matrix);
    new.commit().unwrap();
    Arc::new(Matrix::open(&path).unwrap())
}

/// The number of requests and of bytes, by the name of the file.
fn transferred(activity: Activity) -> HashMap<String, (u64, u64)> {
    let names = notes().into_iter().filter_map(|note| match note {
        Note::Name { class: ObjectClass::File, id, name } => Some((id, name)),
        _ => None,
    });
    let names: HashMap<u32, String> = names.collect();
    let mut sums: HashMap<String, (u64, u64)> = HashMap::new();
    for event in snapshot().iter().filter(|event| event.activity == activity) {
        let sum = sums.entry(names[&event.subject].clone()).or_default();
        *sum = (sum.0 + 1, sum.1 + event.detail);
    }
    sums
}

fn fact(key: &str) -> Option<String> {
    notes().into_iter().rev().find_map(|note| match note {
        Note::Fact { key: of, value } if of == key => Some(value),
        _ => None,
    })
}

fn check(expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(fact(key).as_deref(), Some(*value), "{key}");
    }
}

#[test]
fn a_sweep_tells_what_it_transfers_and_how_it_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    enable(1 << 14);
    let field = on_file(folder.path(), "field.npy");
    let coefficients = [0, 1, 2, 3, 4].map(|n| on_file(folder.path(), &format!("{n}.npy")));
    let sweep = Sweep::new(Lk23).iterations(6);
    let sweep = sweep.runner(Runner::pool(2));
    let target = Target::npy(folder.path().join("out.npy"));
    let (pending, report) = sweep.depth(6).run_to(&field, &coefficients, &target).unwrap();
    pending.commit().unwrap();
    assert_eq!(report.passes, 1);

    let (read, written) = (transferred(Activity::Read), transferred(Activity::Write));
    // A request transfers whole blocks around its rows.
    let around = |requests: u64| requests * 2 * 4096 + 4096;
    for n in 0..5 {
        let name = folder.path().join(format!("{n}.npy")).display().to_string();
        let (requests, bytes) = read[&name];
        assert!((DATA..=DATA + around(requests)).contains(&bytes), "{name}: {bytes}");
    }
    let (requests, bytes) =
        written.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!((DATA..=DATA + around(requests)).contains(&bytes), "{written:?}");
    assert!(snapshot().iter().any(|event| event.activity == Activity::AwaitDisk));
    let plan = report.plan.streamed().unwrap();
    check(&[
        ("sweep.kernel", "Lk23"),
        ("sweep.executor", "streamed"),
        ("sweep.rows", "400"),
        ("sweep.cols", "500"),
        ("sweep.element", "float64"),
        ("sweep.coefficients", "5"),
        ("sweep.iterations", "6"),
        ("sweep.threads", "2"),
        ("sweep.depth", "6"),
        ("sweep.panels", &plan.panels.to_string()),
        ("sweep.panel_rows", &plan.rows.to_string()),
        ("sweep.memory", &plan.memory.to_string()),
    ]);
    assert!(fact("disk.read_peak").unwrap().parse::<f64>().unwrap() > 0.0);
}
