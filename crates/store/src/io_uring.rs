//! Concurrent transfer of pieces by an io_uring.
//!
//! ```text
//!   pieces ──> slot 0..DEPTH ──> submission queue ──> kernel ──> completion queue ──┐
//!                  ^                                                                │
//!                  └────── retry (short, interrupted, refused) ──────── answer <────┘
//! ```
//!
//! A piece stays in its slot, and its memory borrowed, until the kernel has answered. [`Flight`]
//! ensures this: its drop waits for all requests that the kernel has accepted. So no buffer is
//! freed while the device may still write to it, even after a failure.
//!
//! No request is left to the kernel's workers: Linux 6.18 accepts a write through the page cache,
//! assigns it to a worker, and occasionally, if several rings are in use, never starts one.
//! Three threads with a ring each met that within minutes; with plain calls, never.
//!
//! | a request                         | is made                                         |
//! |-----------------------------------|-------------------------------------------------|
//! | through the page cache            | by plain calls                                  |
//! | direct                            | by the ring, with the no-wait flag RWF_NOWAIT   |
//! | direct, would wait (EAGAIN)       | by plain calls                                  |
//! | direct, flag refused (EOPNOTSUPP) | by plain calls, like all later ones to the file |
//!
//! A direct request would wait, for example, if it is a write where the file grows or has a hole. A
//! file system refuses a flag that it does not support.
//!
//! A ring that can no longer be entered (memory shortage, a new seccomp filter) is `broken`:
//! requests that the kernel has accepted are awaited by polling the completion queue, the rest is
//! transferred by plain system calls, and the ring is not used again.
//!
//! All the `unsafe` of direct I/O except that of the buffer is in this file. Source: io_uring(7).

use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::{Errno, ReadWriteFlags};

use crate::transfer::{PIECE, Piece, Step};
use crate::{Error, Result, traced};

/// The maximal number of requests in flight: as many as a disk needs for short pieces.
const DEPTH: usize = 64;
/// The maximal number of bytes in flight, unless one piece has more: 16 pieces of full length. A
/// disk needs no more, and every page of them is pinned.
const BYTES: usize = 16 * PIECE;
/// The interval at which the completion queue of a broken ring is polled.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A ring with no requests in flight.
pub(crate) struct Ring {
    uring: IoUring,
    broken: bool,
}

impl Ring {
    /// Creates a ring, if the kernel supports it, permits this process to use it, and supports
    /// reads and writes.
    pub(crate) fn new() -> io::Result<Self> {
        let uring = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(Errno::NOSYS.into());
        }
        // A seccomp filter may permit the creation of a ring and refuse its use.
        while let Err(error) = uring.submit() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(Self { uring, broken: false })
    }

    /// Returns whether the ring can no longer be used.
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Transfers the pieces; on return, also with an error, the kernel uses none of their memory.
    pub(crate) fn run<'a>(&mut self, pieces: impl Iterator<Item = Piece<'a>>) -> Result<()> {
        let mut pieces = pieces.fuse();
        let mut flight = Flight::new(self);
        loop {
            for nth in 0..DEPTH {
                while flight.has_room() && flight.slots[nth].is_none() {
                    let Some(piece) = pieces.next() else {
                        break;
                    };
                    flight.put(nth, piece);
                    flight.send(nth);
                }
            }
            if flight.under_way == 0 {
                break;
            }
            flight.wait();
            while let Some((nth, answer)) = flight.landed() {
                flight.take(nth, answer);
            }
            if flight.ring.broken {
                flight.settle();
                break;
            }
        }
        if let Some(error) = flight.failure.take() {
            return Err(error);
        }
        // Pieces are left only if the ring broke.
        debug_assert!(flight.ring.broken || pieces.next().is_none());
        let mut left = flight.slots.iter_mut().filter_map(Option::take);
        left.try_for_each(Piece::plain)?;
        pieces.try_for_each(Piece::plain)
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("broken", &self.broken).finish_non_exhaustive()
    }
}

/// A ring with pieces in flight.
struct Flight<'r, 'a> {
    ring: &'r mut Ring,
    slots: [Option<Piece<'a>>; DEPTH],
    /// The number of requests pushed whose answers were not taken.
    under_way: usize,
    /// The number of bytes of all pieces in slots.
    bytes: usize,
    /// The first failure. No request is sent after it.
    failure: Option<Error>,
}

impl<'r, 'a> Flight<'r, 'a> {
    const fn new(ring: &'r mut Ring) -> Self {
        Flight { ring, slots: [const { None }; DEPTH], under_way: 0, bytes: 0, failure: None }
    }

    const fn goes_on(&self) -> bool {
        self.failure.is_none() && !self.ring.broken
    }

    const fn has_room(&self) -> bool {
        self.goes_on() && self.bytes < BYTES
    }

    /// Puts a piece into the empty slot `nth`.
    fn put(&mut self, nth: usize, piece: Piece<'a>) {
        self.bytes += piece.len();
        self.slots[nth] = Some(piece);
    }

    /// Empties slot `nth`.
    fn clear(&mut self, nth: usize) -> Option<Piece<'a>> {
        let piece = self.slots[nth].take()?;
        self.bytes -= piece.len();
        Some(piece)
    }

    /// Sends the next request of the piece in slot `nth`, if there is one, or transfers its rest by
    /// plain calls if the request must not use the ring.
    fn send(&mut self, nth: usize) {
        let Some(piece) = &mut self.slots[nth] else {
            return;
        };
        let request = piece.request();
        if request.plainly {
            return self.do_plainly(nth);
        }
        let fd = types::Fd(request.fd);
        let (pointer, len, offset) = (request.pointer, request.len, request.offset);
        let flags = ReadWriteFlags::NOWAIT.bits().cast_signed();
        let entry = if request.write {
            opcode::Write::new(fd, pointer, len).offset(offset).rw_flags(flags).build()
        } else {
            opcode::Read::new(fd, pointer, len).offset(offset).rw_flags(flags).build()
        };
        // SAFETY: the file and the memory are valid as long as the piece lives, and memory that is
        // read into is borrowed exclusively. The piece has one request in flight, and is dropped
        // after its answer was taken, or with `self`, whose drop first waits for all answers.
        let pushed = unsafe { self.ring.uring.submission().push(&entry.user_data(nth as u64)) };
        match pushed {
            Ok(()) => self.under_way += 1,
            // The queue has an entry for each slot; if the push fails nevertheless, the piece is
            // left to plain calls.
            Err(_) => self.ring.broken = true,
        }
    }

    /// Submits the pushed requests to the kernel, and waits for an answer.
    fn wait(&mut self) {
        let file = self.slots.iter().flatten().next().map_or(u32::MAX, Piece::traced);
        let _waits = traced::awaits(file);
        loop {
            match self.ring.uring.submit_and_wait(1) {
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.ring.broken = true,
            }
        }
    }

    /// Returns the next available answer: its slot, and the number of bytes or the error.
    fn landed(&mut self) -> Option<(usize, Result<usize, Errno>)> {
        let entry = self.ring.uring.completion().next()?;
        self.under_way -= 1;
        let answer =
            usize::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
        Some((entry.user_data() as usize, answer))
    }

    /// Passes the answer to its piece.
    fn take(&mut self, nth: usize, answer: Result<usize, Errno>) {
        let Some(piece) = &mut self.slots[nth] else {
            return;
        };
        if answer == Err(Errno::OPNOTSUPP) {
            piece.refuse_flag();
        }
        if matches!(answer, Err(Errno::AGAIN | Errno::OPNOTSUPP)) && self.failure.is_none() {
            return self.do_plainly(nth);
        }
        match piece.answer(answer) {
            Ok(Step::Done) => drop(self.clear(nth)),
            Ok(Step::Again) if self.goes_on() => self.send(nth),
            // The piece stays for plain calls, or after a failure until it is dropped.
            Ok(Step::Again) => {}
            Err(error) => {
                self.clear(nth);
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Transfers the rest of the piece in slot `nth`, which has no request in flight, without the
    /// ring.
    fn do_plainly(&mut self, nth: usize) {
        if let Some(Err(error)) = self.clear(nth).map(Piece::plain) {
            self.failure.get_or_insert(error);
        }
    }

    /// Waits, by polling, for all requests that the kernel has accepted.
    fn settle(&mut self) {
        // The kernel accepts no more requests, because the ring is not entered again.
        let untaken = self.ring.uring.submission().len();
        while self.under_way > untaken {
            match self.landed() {
                Some((nth, answer)) => self.take(nth, answer),
                None => thread::sleep(LOOK_AGAIN),
            }
        }
    }
}

impl Drop for Flight<'_, '_> {
    fn drop(&mut self) {
        if self.under_way > 0 {
            self.ring.broken = true;
            self.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;
    use crate::{buffer::IoBuffer, direct::DirectFile};

    fn file(bytes: &[u8]) -> (File, DirectFile) {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        let direct = DirectFile::of(&file, Path::new("name"), true).unwrap();
        (file, direct)
    }

    fn contents(file: &File) -> Vec<u8> {
        let mut found = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut found, 0).unwrap();
        found
    }

    #[test]
    fn what_the_ring_does_not_do_is_done_by_plain_calls() {
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: no io_uring here");
        };
        let mut buffer = IoBuffer::new(8192).unwrap();
        buffer.as_mut_slice().fill(2);
        // The last answer is a short transfer: its rest is not aligned.
        for (answer, left) in [(Err(Errno::AGAIN), 0), (Err(Errno::OPNOTSUPP), 0), (Ok(4097), 4097)]
        {
            let (plain, file) = file(&[1; 8192]);
            let direct = file.is_direct();
            let mut flight = Flight::new(&mut ring);
            let mut piece = Piece::write(&file, 0, buffer.as_slice());
            piece.request();
            flight.put(3, piece);
            flight.take(3, answer);
            assert!(flight.slots[3].is_none() && flight.under_way == 0 && flight.failure.is_none());
            let found = contents(&plain);
            assert!(found[..left].iter().all(|&byte| byte == 1), "{answer:?}");
            assert!(
                found.len() == 8192 && found[left..].iter().all(|&byte| byte == 2),
                "{answer:?}"
            );
            // At most the flag was refused; direct I/O was not.
            assert_eq!(file.is_direct(), direct);
            assert_eq!(file.is_unwaiting(), answer != Err(Errno::OPNOTSUPP));
            let request = Piece::write(&file, 0, buffer.as_slice()).request();
            assert_eq!(request.plainly, !direct || answer == Err(Errno::OPNOTSUPP));
        }
    }

    #[test]
    fn a_failure_is_kept_and_no_write_follows_it() {
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: no io_uring here");
        };
        let (plain, _) = file(&[1; 8192]);
        let reopened = File::open(format!("/proc/self/fd/{}", plain.as_raw_fd())).unwrap();
        let unwritable = DirectFile::of(&reopened, Path::new("unwritable"), false).unwrap();
        let file = DirectFile::of(&plain, Path::new("name"), true).unwrap();
        let buffer = IoBuffer::new(4096).unwrap();
        let mut flight = Flight::new(&mut ring);
        for (nth, file) in [&unwritable, &file].into_iter().enumerate() {
            flight.put(nth, Piece::write(file, 0, buffer.as_slice()));
            flight.take(nth, Err(Errno::AGAIN));
        }
        let failure = flight.failure.take().unwrap().to_string();
        assert!(failure.starts_with("cannot write bytes 0 to 4096 of unwritable: "), "{failure}");
        assert!(flight.slots.iter().all(Option::is_none) && contents(&plain) == [1; 8192]);
    }

    #[test]
    fn requests_of_all_kinds_mix_and_none_is_left_to_a_worker_of_the_kernel() {
        const OTHERS: usize = DEPTH + 3;
        const COUNT: usize = 3 * DEPTH;
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: no io_uring here");
        };
        let mut buffer = IoBuffer::new(COUNT * 4096).unwrap();
        let (plains, files): (Vec<_>, Vec<_>) = [file(&[]), file(&[])].into_iter().unzip();
        files[1].give_up_direct();
        // The files grow, for which a file system waits, and are overwritten.
        for round in 0..3 {
            for (nth, byte) in buffer.as_mut_slice().iter_mut().enumerate() {
                *byte = (nth / 4096 + nth + round) as u8;
            }
            let parts = buffer.as_slice().chunks(4096).enumerate();
            let pieces = parts.map(|(nth, part)| {
                Piece::write(&files[usize::from(nth < OTHERS)], 4096 * nth as u64, part)
            });
            ring.run(pieces).unwrap();
            assert!(!ring.is_broken());
            let (head, tail) = buffer.as_slice().split_at(OTHERS * 4096);
            assert!(contents(&plains[1]) == head && contents(&plains[0])[head.len()..] == *tail);
            let mut found = IoBuffer::new(COUNT * 4096).unwrap();
            let parts = found.as_mut_slice().chunks_mut(4096).enumerate();
            let pieces = parts.map(|(nth, part)| {
                Piece::read(&files[usize::from(nth < OTHERS)], 4096 * nth as u64, part, 4096)
            });
            ring.run(pieces).unwrap();
            assert!(found.as_slice() == buffer.as_slice());
        }
        // A worker would live for seconds.
        let worker = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            // A task may have ended.
            let name =
                std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default();
            assert_ne!(name.trim(), worker);
        }
    }

    #[test]
    fn what_the_kernel_has_is_waited_for_when_a_ring_breaks() {
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: no io_uring here");
        };
        let bytes: Vec<u8> = (0..DEPTH << 18).map(|nth| (nth >> 10) as u8).collect();
        let (_, file) = file(&bytes);
        if !file.is_direct() {
            return eprintln!("skipped: no direct I/O in the folder of temporary files");
        }
        let mut buffer = IoBuffer::new(bytes.len()).unwrap();
        let mut flight = Flight::new(&mut ring);
        for (nth, part) in buffer.as_mut_slice().chunks_mut(1 << 18).enumerate() {
            let need = part.len();
            flight.put(nth, Piece::read(&file, (nth << 18) as u64, part, need));
            flight.send(nth);
        }
        flight.ring.uring.submit().unwrap();
        assert_eq!(flight.under_way, DEPTH);
        drop(flight);
        assert!(ring.is_broken() && ring.uring.completion().is_empty());
        assert!(buffer.as_slice() == bytes);
    }

    /// Makes the kernel refuse all use of the ring.
    fn break_it(ring: &Ring) {
        // SAFETY: the descriptor is open; `ManuallyDrop` leaves its ownership to the ring; `dup2`
        // keeps it an open descriptor that the ring may close; no request is in flight.
        let mut fd = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ring.uring.as_raw_fd()) });
        rustix::io::dup2(File::open("/dev/null").unwrap(), &mut fd).unwrap();
    }

    #[test]
    fn a_broken_ring_is_finished_by_plain_calls() {
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: no io_uring here");
        };
        let bytes: Vec<u8> = (0..200_000_u32).map(|nth| nth as u8).collect();
        let mut buffer = IoBuffer::new(4096 * 48).unwrap();
        for broken in [false, true] {
            let (_, file) = file(&bytes);
            if !file.is_direct() {
                return eprintln!("skipped: no direct I/O in the folder of temporary files");
            }
            buffer.as_mut_slice().fill(0);
            if broken {
                break_it(&ring);
            }
            let pieces = buffer.as_mut_slice().chunks_mut(4096).enumerate();
            let pieces =
                pieces.map(|(nth, part)| Piece::read(&file, 4096 * nth as u64, part, 4096));
            ring.run(pieces).unwrap();
            assert!(buffer.as_slice() == &bytes[..buffer.len()]);
            assert_eq!(ring.is_broken(), broken);
        }
    }
}
