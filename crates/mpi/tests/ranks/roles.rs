//! The code that the ranks run.

use std::cell::UnsafeCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_mpi::{
    Communicator, Library, Mpi, MpiError,
    communicator::ThreadSupport,
    error::ErrorClass,
    launched::launched,
    message::{Kept, Message, Sending},
    shim::Family,
};
use syncline_signal::poll_schedule::PollSchedule;

/// The time after which a rank aborts, so that no process outlives a test.
const DEADLINE: Duration = Duration::from_secs(380);
const SIZES: [usize; 10] = [0, 1, 7, 64, 1000, 4096, 65_536, 65_537, 1 << 20, 5 << 20];

pub(crate) fn play() {
    let Ok(role) = std::env::var("SYNCLINE_TEST_ROLE") else { return };
    std::thread::spawn(|| {
        std::thread::sleep(DEADLINE);
        eprintln!("a rank has not ended in time");
        std::process::abort();
    });
    match role.as_str() {
        "messages" => messages(),
        "direct" => direct(),
        "dropped" => dropped(),
        "errors" => errors(),
        "groups" => groups(),
        "windows" => windows(),
        "threads" => threads(),
        "guest" => guest(),
        "single" => single(),
        "other" => other(),
        "alone" => alone(),
        "stranger" => stranger(),
        "failures" => failures(),
        role => panic!("there is no role {role:?}"),
    }
    // One write, since other ranks write to the same output.
    println!("{}", format_args!("{role} has played to its end"));
}

fn start(wanted: ThreadSupport) -> Mpi {
    let launched = launched().expect("a launcher");
    let mpi = Mpi::start(Library::find(&launched).unwrap(), wanted, Some(&launched)).unwrap();
    assert!(mpi.is_ours());
    assert_eq!(launched.size, Some(mpi.world().unwrap().size()));
    assert_eq!(launched.rank, Some(mpi.world().unwrap().rank()));
    mpi
}

fn named(variable: &str) -> PathBuf {
    std::env::var_os(variable).expect(variable).into()
}

/// Waits for the next message with a tag.
fn next(world: &Communicator, tag: u16) -> Message {
    let (start, mut poll) = (Instant::now(), PollSchedule::new());
    loop {
        if let Some(message) = world.probe(tag).unwrap() {
            return message;
        }
        assert!(start.elapsed() < DEADLINE);
        poll.pause();
    }
}

/// Polls until a condition holds.
fn until(mut holds: impl FnMut() -> bool) {
    let mut poll = PollSchedule::new();
    while !holds() {
        poll.pause();
    }
}

/// Returns bytes that depend on the sender, the receiver and the size.
fn pattern(from: usize, to: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 + from * 7 + to * 13 + size + (at >> 8)) as u8).collect()
}

fn messages() {
    let mut mpi = start(ThreadSupport::Multiple);
    assert_eq!(mpi.threads(), ThreadSupport::Multiple);
    assert!(matches!(
        Mpi::start(mpi.library().clone(), ThreadSupport::Single, None),
        Err(MpiError::Taken)
    ));
    assert!(!mpi.processor_name().unwrap().is_empty() && !mpi.library().text().is_empty());
    assert!(mpi.time().unwrap() <= mpi.time().unwrap());
    let world = mpi.world().unwrap();
    let (me, all) = (world.rank(), world.size());

    let gathered = world.allgather(&(me as u64).to_le_bytes()).unwrap();
    let expected: Vec<u8> = (0..all as u64).flat_map(u64::to_le_bytes).collect();
    assert_eq!(gathered, expected);

    let mut pool = Vec::new();
    for (tag, size) in SIZES.into_iter().enumerate() {
        let tag = tag as u16;
        let sendings: Vec<Sending> =
            (0..all).map(|to| world.isend(to, tag, pattern(me, to, size)).unwrap()).collect();
        let mut missing = vec![true; all];
        for _ in 0..all {
            let message = next(&world, tag);
            let (from, len) = (message.source(), message.len());
            assert_eq!((len, message.is_empty()), (size, size == 0));
            let buffer = message.receive(pool.pop().unwrap_or_default()).unwrap();
            assert_eq!(buffer, pattern(from, me, size));
            assert!(std::mem::take(&mut missing[from]), "twice from {from}");
            pool.push(buffer);
        }
        for mut sending in sendings {
            until(|| sending.test().unwrap());
            assert!(sending.test().unwrap(), "done stays done");
            assert_eq!(sending.wait().unwrap().len(), size);
        }
        assert!(world.probe(tag).unwrap().is_none());
    }

    // Many small messages arrive in order.
    let to = (me + 1) % all;
    let sendings: Vec<_> =
        (0..300_u32).map(|n| world.isend(to, 99, n.to_le_bytes().to_vec()).unwrap()).collect();
    let mut buffer = Vec::new();
    for n in 0..300_u32 {
        buffer = next(&world, 99).receive(buffer).unwrap();
        assert_eq!(buffer, n.to_le_bytes());
    }
    for sending in sendings {
        sending.wait().unwrap();
    }

    // The communicator works in another thread.
    let worker = std::thread::spawn(move || {
        world.barrier().unwrap();
        world
    });
    let world = worker.join().unwrap();

    mpi.finalize().unwrap();
    let again = mpi.finalize().unwrap_err();
    assert_eq!(again.to_string(), "cannot finalise MPI: MPI is finalised in this process");
    assert!(matches!(world.barrier(), Err(MpiError::Finalized { .. })));
    assert!(matches!(world.isend(0, 0, vec![1]), Err(MpiError::Finalized { .. })));
    assert!(matches!(mpi.world(), Err(MpiError::Finalized { .. })));
    let library = mpi.library().clone();
    drop(mpi);
    assert!(matches!(
        Mpi::start(library, ThreadSupport::Single, None),
        Err(MpiError::Finalized { .. })
    ));
}

/// Memory that MPI writes.
struct Bytes(UnsafeCell<Vec<u8>>);

// SAFETY: the threads of a rank access the bytes only through `take`, which needs the value itself.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn new(size: usize) -> Bytes {
        Bytes(UnsafeCell::new(vec![0; size]))
    }

    fn as_ptr(&self) -> *mut u8 {
        // SAFETY: no reference to the vector exists while there are shared ones to this value.
        unsafe { (*self.0.get()).as_mut_ptr() }
    }

    fn take(self: Arc<Bytes>) -> Vec<u8> {
        Arc::into_inner(self).expect("no transfer has it").0.into_inner()
    }
}

fn direct() {
    let mpi = start(ThreadSupport::Multiple);
    let world = mpi.world().unwrap();
    let (me, all) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % all, (me + all - 1) % all);
    for size in SIZES {
        let sent = pattern(me, to, size);
        let mut got = vec![0_u8; size];
        // SAFETY: both buffers stay valid until the waits below have returned, and are not accessed
        // before.
        let (mut receive, mut send) = unsafe {
            let receive = world.irecv_into(from, 5, got.as_mut_ptr(), size).unwrap();
            (receive, world.isend_from(to, 5, sent.as_ptr(), size).unwrap())
        };
        assert_eq!((receive.wait().unwrap(), send.wait().unwrap()), (size, 0));
        assert!(receive.test().unwrap() && !receive.was_cancelled());
        assert_eq!(got, pattern(from, me, size));

        // A receive begins before its message arrives, and another after it has arrived.
        let receiving = world.irecv(from, 6, Vec::with_capacity(size + 3)).unwrap();
        let sending = world.isend(to, 6, sent.clone()).unwrap();
        assert_eq!(receiving.wait().unwrap(), got);
        sending.wait().unwrap();
        let sending = world.isend(to, 7, sent).unwrap();
        let message = next(&world, 7);
        let mut place = vec![0_u8; size];
        // SAFETY: `place` stays valid and unused until the wait has returned.
        let mut transfer = unsafe { message.start_into(place.as_mut_ptr(), size) }.unwrap();
        assert_eq!(transfer.wait().unwrap(), size);
        assert_eq!(place, got);
        sending.wait().unwrap();
    }
    // Memory with an owner, which is free when both transfers are done; messages with the same tag
    // match receives in order.
    for size in SIZES {
        let sent = [1, 2].map(|n| Arc::new(pattern(me + n, to + n, size)));
        let got = [(); 2].map(|()| Arc::new(Bytes::new(size)));
        // SAFETY: the owners keep both buffers valid, and no thread accesses those that receive
        // before their transfers are done.
        let mut transfers = unsafe {
            let receive = |got: &Arc<Bytes>| {
                world.irecv_kept(from, 9, got.as_ptr(), size, got.clone()).unwrap()
            };
            let send = |sent: &Arc<Vec<u8>>| {
                world.isend_kept(to, 9, sent.as_ptr(), size, sent.clone()).unwrap()
            };
            let receives = got.each_ref().map(receive);
            [receives, sent.each_ref().map(send)].into_iter().flatten().collect::<Vec<_>>()
        };
        until(|| transfers.iter_mut().all(|transfer| transfer.test().unwrap()));
        assert_eq!(transfers.iter().map(Kept::received).collect::<Vec<_>>(), [size, size, 0, 0]);
        drop(transfers);
        for (n, got) in got.into_iter().enumerate() {
            assert_eq!(got.take(), pattern(from + n + 1, me + n + 1, size));
        }
        assert!(sent.into_iter().all(|sent| Arc::into_inner(sent).is_some()));
    }
    // A receive that is given up is cancelled, and a later call frees its memory.
    let unused = Arc::new(Bytes::new(8));
    // SAFETY: the owner keeps the buffer valid, and no thread accesses it.
    let given = unsafe { world.irecv_kept(from, 10, unused.as_ptr(), 8, unused.clone()) }.unwrap();
    given.give_up();
    until(|| {
        assert!(world.probe(10).unwrap().is_none());
        Arc::strong_count(&unused) == 1
    });
    // A receive without a message is cancelled.
    let mut place = [0_u8; 8];
    // SAFETY: `place` stays valid and unused until the transfer is cancelled.
    let mut transfer = unsafe { world.irecv_into(from, 8, place.as_mut_ptr(), 8) }.unwrap();
    assert!(!transfer.test().unwrap());
    transfer.cancel().unwrap();
    transfer.wait().unwrap();
    assert!(transfer.was_cancelled());
    world.barrier().unwrap();
}

fn dropped() {
    let mpi = start(ThreadSupport::Multiple);
    let world = mpi.world().unwrap();
    let (me, other) = (world.rank(), 1 - world.rank());
    for size in SIZES {
        drop(world.isend(other, 1, pattern(me, other, size)).unwrap());
        assert_eq!(next(&world, 1).receive(Vec::new()).unwrap(), pattern(other, me, size));
        drop(world.isend(other, 2, pattern(me, other, size)).unwrap());
        drop(next(&world, 2));
        let receiving = world.irecv(other, 3, Vec::with_capacity(size)).unwrap();
        drop(receiving);
        world.isend(other, 3, pattern(me, other, size)).unwrap().wait().unwrap();
    }
    // All earlier messages were consumed: the next message is the last one.
    let sending = world.isend(other, 3, b"last".to_vec()).unwrap();
    assert_eq!(next(&world, 3).receive(Vec::new()).unwrap(), b"last");
    sending.wait().unwrap();
    world.barrier().unwrap();
    assert!(world.probe(1).unwrap().is_none() && world.probe(2).unwrap().is_none());
}

fn errors() {
    let mpi = start(ThreadSupport::Serialized);
    let world = mpi.world().unwrap();
    let (me, other) = (world.rank(), 1 - world.rank());
    let error = world.isend(2, 0, Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "cannot send a message: there is no rank 2 among 2");
    let error = world.probe(40_000).unwrap_err();
    assert_eq!(error.to_string(), "cannot look for a message: the tag 40000 is above 32767");
    assert!(matches!(world.irecv(5, 0, Vec::new()), Err(MpiError::Argument { .. })));
    assert!(matches!(world.broadcast(&mut [1], 7), Err(MpiError::Argument { .. })));
    assert!(matches!(world.split(Some(u32::MAX), 0), Err(MpiError::Argument { .. })));
    assert!(
        matches!(world.window(8 << me), Err(MpiError::Argument { .. })),
        "not as many bytes everywhere"
    );

    let mut receiving = world.irecv(other, 1, Vec::with_capacity(4)).unwrap();
    let sending = world.isend(other, 1, vec![7; 100]).unwrap();
    let mut poll = PollSchedule::new();
    let error = loop {
        match receiving.test() {
            Ok(false) => poll.pause(),
            Ok(true) => panic!("100 bytes are no 4"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.fault(), Some(ErrorClass::Truncated), "{error}");
    assert!(error.to_string().starts_with("cannot finish a message: "), "{error}");
    assert!(receiving.test().is_err(), "failed stays failed");
    sending.wait().unwrap();
    if !mpi.library().has_ulfm() {
        let error = world.revoke().unwrap_err();
        assert_eq!(error.fault(), Some(ErrorClass::NotSupported), "{error}");
        assert!(world.shrink().is_err() && world.agree(1).is_err() && world.failures().is_err());
    }
    world.barrier().unwrap();
    world.free().unwrap();
}

fn groups() {
    let mpi = start(ThreadSupport::Multiple);
    let world = mpi.world().unwrap();
    let me = world.rank();
    // The keys reverse the order; the last rank passes no color.
    let part = world.split((me < 3).then_some(7), -(me as i32)).unwrap();
    assert_eq!(part.as_ref().map(|part| (part.rank(), part.size())), (me < 3).then(|| (2 - me, 3)));
    if let Some(part) = &part {
        let mut bytes = [me as u8; 1000];
        part.broadcast(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [2; 1000], "rank 0 of the part is rank 2 of the world");
    }
    assert_eq!(world.max(-(me as f64)).unwrap(), 0.0);
    assert_eq!(world.max(me as f64).unwrap(), 3.0);
    // Messages of one communicator do not match receives of another.
    let second = mpi.world().unwrap();
    let sending = second.isend((me + 1) % 4, 1, vec![1]).unwrap();
    world.barrier().unwrap();
    assert!(world.probe(1).unwrap().is_none());
    assert_eq!(next(&second, 1).receive(Vec::new()).unwrap(), [1]);
    sending.wait().unwrap();
    // Freed communicators leave room in the shim's table.
    for _ in 0..600 {
        second.split(Some(0), 0).unwrap().unwrap().free().unwrap();
    }
}

fn windows() {
    let mpi = start(ThreadSupport::Multiple);
    let world = mpi.world().unwrap();
    let (me, all) = (world.rank(), world.size());
    let window = world.window(1024).unwrap();
    assert_eq!(window.bytes(), 1024);
    // SAFETY: the memory has 1024 bytes, and no process accesses it before the barrier.
    unsafe { window.base().write_bytes(0, 1024) };
    window.sync().unwrap();
    world.barrier().unwrap();
    // Each rank puts its own bytes, and all add to the same numbers and to one counter.
    let (mine, values) = ([me as u8 + 1; 16], [1.0, me as f64]);
    for to in 0..all {
        // SAFETY: both arrays stay valid and unchanged until the flush.
        unsafe {
            window.put(to, 16 * me, mine.as_ptr(), 16).unwrap();
            window.accumulate(to, 512, values.as_ptr(), 2).unwrap();
        }
    }
    window.flush(me).unwrap();
    window.flush_all().unwrap();
    let tickets: Vec<i64> = (0..10).map(|_| window.fetch_add(0, 1016, 1).unwrap()).collect();
    assert!(tickets.is_sorted_by(|a, b| a < b));
    world.barrier().unwrap();
    window.sync().unwrap();
    let mut got = [0_u8; 1024];
    for from in 0..all {
        // SAFETY: `got` stays valid until the flush, and is read only afterwards.
        unsafe { window.get(from, 0, got.as_mut_ptr(), 1024).unwrap() };
        window.flush(from).unwrap();
        for rank in 0..all {
            assert_eq!(got[16 * rank..16 * (rank + 1)], [rank as u8 + 1; 16]);
        }
        let sum = |at: usize| f64::from_ne_bytes(got[at..at + 8].try_into().unwrap());
        assert_eq!((sum(512), sum(520)), (all as f64, (all * (all - 1) / 2) as f64));
        let count = i64::from_ne_bytes(got[1016..].try_into().unwrap());
        assert_eq!(count, if from == 0 { 10 * all as i64 } else { 0 });
    }
    let outside = window.fetch_add(0, 1020, 1).unwrap_err().to_string();
    assert_eq!(
        outside,
        "cannot fetch and add: 1 x 8 bytes at 1020 are not in a window of 1024, or not aligned"
    );
    assert!(window.fetch_add(all, 0, 1).is_err() && window.flush(all).is_err());
    world.barrier().unwrap();
    window.free().unwrap();
}

fn threads() {
    let mut mpi = start(ThreadSupport::Single);
    if mpi.threads() > ThreadSupport::Funneled {
        println!("skipped: this MPI grants {} although less is requested", mpi.threads());
        return;
    }
    let world = mpi.world().unwrap();
    let (mpi_back, world) =
        std::thread::spawn(move || {
            let error = world.barrier().unwrap_err();
            assert!(error.to_string().starts_with(
                "cannot meet at a barrier in this thread: the MPI grants MPI_THREAD_"
            ));
            assert!(matches!(mpi.finalize(), Err(MpiError::Thread { .. })));
            (mpi, world)
        })
        .join()
        .unwrap();
    world.barrier().unwrap();
    mpi = mpi_back;
    mpi.finalize().unwrap();
}

type Function = unsafe extern "C" fn() -> i32;

/// Loads the library that the environment names, which initialises MPI as a program does.
fn program() -> (libloading::os::unix::Library, i32) {
    use libloading::os::unix::{Library as System, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: the test has compiled the library, and its functions have the types given here.
    unsafe {
        let library =
            System::open(Some(named("SYNCLINE_TEST_PROGRAM")), RTLD_NOW | RTLD_GLOBAL).unwrap();
        let begin = *library.get::<Function>(b"begin").unwrap();
        (library, begin())
    }
}

fn end(library: &libloading::os::unix::Library) -> i32 {
    // SAFETY: as in `program`.
    unsafe { library.get::<Function>(b"end").unwrap()() }
}

fn guest() {
    let (program, handle) = program();
    let library = Library::find(&launched().unwrap()).unwrap();
    for _ in 0..2 {
        let mut mpi =
            Mpi::start(library.clone(), ThreadSupport::Multiple, launched().as_ref()).unwrap();
        assert!(!mpi.is_ours() && mpi.threads() >= ThreadSupport::Funneled);
        // SAFETY: the program's function has returned this handle.
        let part = unsafe { mpi.from_fortran(handle) }.unwrap();
        assert_eq!(part.rank(), mpi.world().unwrap().size() - 1 - mpi.world().unwrap().rank());
        let sending = part.isend(1 - part.rank(), 0, b"guest".to_vec()).unwrap();
        assert_eq!(next(&part, 0).receive(Vec::new()).unwrap(), b"guest");
        sending.wait().unwrap();
        part.free().unwrap();
        mpi.finalize().unwrap();
        assert!(matches!(mpi.finalize(), Err(MpiError::Finalized { .. })));
    }
    assert_eq!(end(&program), 0, "the program's MPI has not ended");
    let ended = Mpi::start(library, ThreadSupport::Multiple, None);
    assert!(matches!(ended, Err(MpiError::Finalized { .. })));
}

/// A program with one MPI and a shim for another is refused.
fn stranger() {
    let (program, _) = program();
    let error = Library::load(&named("SYNCLINE_TEST_SHIM")).unwrap_err();
    assert!(matches!(error, MpiError::Process { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("but this program has loaded") && text.contains("can have one MPI"),
        "{text}"
    );
    assert!(Library::of_this_program().unwrap().is_some(), "that for its own is found");
    assert_eq!(end(&program), 0);
}

fn single() {
    assert_eq!(launched(), None);
    assert!(Library::of_this_program().unwrap().is_none());
    let library = Library::load(&named("SYNCLINE_TEST_SHIM")).unwrap();
    if library.shim().family != Family::StandardAbi {
        assert_eq!(library.family(), library.shim().family);
        assert_eq!(library.version().unwrap().major(), library.shim().version.major());
    }
    let mpi = Mpi::start(library, ThreadSupport::Multiple, None).unwrap();
    let world = mpi.world().unwrap();
    assert_eq!((world.rank(), world.size()), (0, 1));
    let sending = world.isend(0, 0, vec![1, 2, 3]).unwrap();
    assert_eq!(next(&world, 0).receive(Vec::new()).unwrap(), [1, 2, 3]);
    sending.wait().unwrap();
}

fn other() {
    let launched = launched().unwrap();
    let error = Library::find(&launched).unwrap_err();
    assert!(matches!(error, MpiError::OtherMpi { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("but this process was started by {launched}")), "{text}");
}

fn alone() {
    let mut launched = launched().unwrap();
    let library = Library::load(&named("SYNCLINE_TEST_SHIM")).unwrap();
    let error = Mpi::start(library.clone(), ThreadSupport::Multiple, Some(&launched)).unwrap_err();
    assert!(matches!(error, MpiError::OtherMpi { .. }), "{error}");
    // If the launcher does not name its MPI, the size of the world reveals the mismatch.
    (launched.family, launched.major) = (None, None);
    let (family, version) = (library.shim().family, library.shim().version.major());
    if family == Family::Mpich && version >= Some(5) {
        println!("skipped: this MPI aborts by itself under a launcher of another");
        return;
    }
    let name = library.name();
    let error = Mpi::start(library, ThreadSupport::Multiple, Some(&launched)).unwrap_err();
    assert!(matches!(error, MpiError::Alone { size: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("a shim for another MPI: {name}")), "{text}");
    assert!(text.ends_with(&format!("but {launched} started 2")), "{text}");
}

fn failures() {
    let mpi = start(ThreadSupport::Multiple);
    let world = mpi.world().unwrap();
    let me = world.rank();
    assert_eq!(world.failures().unwrap(), []);
    // The rank dies when no other rank is still on the way to this point.
    if me == 1 {
        for _ in 1..world.size() {
            next(&world, 0);
        }
        std::process::abort();
    }
    world.isend(1, 0, vec![1]).unwrap().wait().unwrap();
    let (start, mut poll) = (Instant::now(), PollSchedule::new());
    let fault = loop {
        assert!(start.elapsed() < DEADLINE);
        match world.barrier() {
            Ok(()) => poll.pause(),
            Err(error) => break error.fault().unwrap(),
        }
    };
    assert!(matches!(fault, ErrorClass::ProcessFailed | ErrorClass::Revoked), "{fault:?}");
    world.revoke().unwrap();
    let error = world.barrier().unwrap_err();
    assert_eq!(error.fault(), Some(ErrorClass::Revoked), "{error}");
    // A rank that failed through the revocation may not yet have detected which process failed.
    let known = world.failures().unwrap();
    assert!(known == [1] || fault == ErrorClass::Revoked && known.is_empty(), "{known:?}");
    let left = world.shrink().unwrap();
    assert_eq!((left.size(), left.rank()), (2, me / 2));
    assert_eq!(left.agree(if me == 0 { 6 } else { 3 }).unwrap(), 2);
    left.barrier().unwrap();
    // MPI_Finalize might wait for the dead rank.
    std::mem::forget(mpi);
}
