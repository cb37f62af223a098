//! Direct transfers in traces in memory: the bytes of their spans are those of the files.

use std::path::Path;

use syncline_store::direct_io::{DirectFile, IoBuffer, IoQueue, Method, ReadRequest, WriteRequest};
use syncline_store::{Layout, Matrix, NewFile, Shape, chunk::Touch};
use syncline_trace::note::{Note, ObjectClass, notes};
use syncline_trace::{Activity, Event, enable, snapshot};

/// The spans of a file, by its name.
fn spans(activity: Activity, name: &Path) -> Vec<Event> {
    let named = |id: u32| {
        notes().iter().any(|note| match note {
            Note::Name { class: ObjectClass::File, id: of, name: found } => {
                *of == id && Path::new(found) == name
            }
            _ => false,
        })
    };
    let events = snapshot().into_iter();
    events.filter(|event| event.activity == activity && named(event.subject)).collect()
}

#[test]
fn the_bytes_of_all_pieces_are_those_of_the_file() {
    enable(1 << 12);
    let folder = tempfile::tempdir().unwrap();
    for (nth, method) in [Method::Auto, Method::Plain].into_iter().enumerate() {
        let path = folder.path().join(format!("file {nth}"));
        // Pieces have 8 MiB at most, so there are three; their number of bytes is that of blocks.
        let len = (17 << 20) + 8192;
        let plain = std::fs::File::create_new(&path).unwrap();
        let file = DirectFile::of(&plain, &path, true).unwrap();
        let mut buffer = IoBuffer::new(len).unwrap();
        let mut queue = IoQueue::new(method);
        let from = buffer.as_slice();
        queue.write(&[WriteRequest { file: &file, offset: 0, from }]).unwrap();
        let into = buffer.as_mut_slice();
        queue.read(&mut [ReadRequest { file: &file, offset: 0, len, into }]).unwrap();
        for activity in [Activity::Read, Activity::Write] {
            let spans = spans(activity, &path);
            assert_eq!(spans.len(), 3, "{method:?} {activity:?}");
            assert_eq!(spans.iter().map(|span| span.detail).sum::<u64>(), len as u64);
        }
        let waits = spans(Activity::AwaitDisk, &path);
        assert!(!waits.is_empty());
        let (begin, end) = (waits[0].since_ns, waits.iter().map(|w| w.until_ns).max().unwrap());
        assert!(begin <= end);
    }
}

#[test]
fn a_file_that_is_mapped_or_synced_is_waited_for() {
    enable(1 << 12);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("matrix.npy");
    let shape = Shape::new(300, 200);
    let bytes = Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor).unwrap();
    let new = NewFile::create(&path, bytes).unwrap();
    let mut matrix = Matrix::create(&new, true, shape, Layout::RowMajor).unwrap();
    matrix.write_row(0, &[1.0_f64; 200]).unwrap();
    let before = spans(Activity::AwaitDisk, &path).len();
    new.commit().unwrap();
    let synced = spans(Activity::AwaitDisk, &path).len();
    assert!(synced > before);
    Matrix::<f64>::open(&path).unwrap().hold(Touch::Read).unwrap();
    assert!(spans(Activity::AwaitDisk, &path).len() > synced);
}
