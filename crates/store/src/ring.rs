//! Pieces under way together in an io_uring.
//!
//! ```text
//!   pieces ──> slot 0..DEPTH ──> submission queue ──> kernel ──> completion queue ──┐
//!                  ^                                                                │
//!                  └────── again (short, interrupted, refused) ──────── answer <────┘
//! ```
//!
//! A piece stays in its slot, and its memory borrowed, until the kernel has answered. [`Flight`] sees to it:
//! its drop waits for all that the kernel has. So no buffer is free while the device may still write to it,
//! whatever fails.
//!
//! A write that would have to wait for more than the disk is not left to the kernel's workers but done by a
//! plain call (RWF_NOWAIT): Linux 6.18 was once seen to take such a write, through the page cache, and never
//! to start a worker for it. Where a file system does not know the flag, writes are sent without.
//!
//! A ring that cannot be entered any more (memory shortage, a new seccomp filter) is `broken`: what the
//! kernel has is waited for by looking at the completion queue, the rest is transferred by plain system
//! calls, and the ring is not used again.
//!
//! All the `unsafe` of direct I/O but the buffer's is in this file. Source: io_uring(7).

use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::{Errno, ReadWriteFlags};

use crate::transfer::{Piece, Step};
use crate::{Error, Result};

/// Requests under way at most.
const DEPTH: usize = 16;
/// Between two looks at the completion queue of a broken ring.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A ring with nothing in it.
pub(crate) struct Ring {
    uring: IoUring,
    /// What writes are sent with.
    flags: ReadWriteFlags,
    broken: bool,
}

impl Ring {
    /// Makes a ring, if the kernel has it, lets this process have it, and it reads and writes.
    pub(crate) fn new() -> io::Result<Self> {
        let uring = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(Errno::NOSYS.into());
        }
        // A filter may let a ring be made and refuse its use.
        while let Err(error) = uring.submit() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(Self { uring, flags: ReadWriteFlags::NOWAIT, broken: false })
    }

    /// Whether it is of no use any more.
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Transfers the pieces; on return, also with an error, the kernel uses none of their memory.
    pub(crate) fn run<'a>(&mut self, pieces: impl Iterator<Item = Piece<'a>>) -> Result<()> {
        let mut pieces = pieces.fuse();
        let mut flight = Flight { ring: self, slots: [const { None }; DEPTH], under_way: 0, failure: None };
        loop {
            for nth in 0..DEPTH {
                if flight.goes_on() && flight.slots[nth].is_none() {
                    flight.slots[nth] = pieces.next();
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
        // There are some only if the ring broke.
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

/// A ring with pieces in it.
struct Flight<'r, 'a> {
    ring: &'r mut Ring,
    slots: [Option<Piece<'a>>; DEPTH],
    /// Requests pushed whose answers were not taken.
    under_way: usize,
    /// The first failure. No request is sent after it.
    failure: Option<Error>,
}

impl Flight<'_, '_> {
    const fn goes_on(&self) -> bool {
        self.failure.is_none() && !self.ring.broken
    }

    /// Sends the next request of the piece in slot `nth`, if there is one.
    fn send(&mut self, nth: usize) {
        let Some(piece) = &mut self.slots[nth] else {
            return;
        };
        let request = piece.request();
        let fd = types::Fd(request.fd);
        let entry = if request.write {
            let write = opcode::Write::new(fd, request.pointer, request.len).offset(request.offset);
            write.rw_flags(self.ring.flags.bits().cast_signed()).build()
        } else {
            opcode::Read::new(fd, request.pointer, request.len).offset(request.offset).build()
        };
        // SAFETY: the file and the memory are good as long as the piece lives, and exclusively borrowed if
        // they are read into. The piece has one request under way and is dropped after its answer was taken,
        // or with `self`, whose drop first waits for all answers.
        let pushed = unsafe { self.ring.uring.submission().push(&entry.user_data(nth as u64)) };
        match pushed {
            Ok(()) => self.under_way += 1,
            // It has an entry for every slot; if not, the piece is for the plain way.
            Err(_) => self.ring.broken = true,
        }
    }

    /// Hands the kernel what was pushed, and waits for an answer.
    fn wait(&mut self) {
        loop {
            match self.ring.uring.submit_and_wait(1) {
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.ring.broken = true,
            }
        }
    }

    /// The next answer that is there: its slot, and bytes or error.
    fn landed(&mut self) -> Option<(usize, Result<usize, Errno>)> {
        let entry = self.ring.uring.completion().next()?;
        self.under_way -= 1;
        let answer = usize::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
        Some((entry.user_data() as usize, answer))
    }

    /// Gives the answer to its piece.
    fn take(&mut self, nth: usize, answer: Result<usize, Errno>) {
        if answer == Err(Errno::OPNOTSUPP) {
            self.ring.flags = ReadWriteFlags::empty();
        }
        let slot = &mut self.slots[nth];
        let step = match (slot.as_mut(), answer) {
            (None, _) => return,
            // The ring could not have it done without waiting, or not now, or not at all: a plain call can, or
            // knows better.
            (Some(_), Err(Errno::AGAIN | Errno::OPNOTSUPP)) => {
                slot.take().map_or(Ok(Step::Done), |piece| piece.plain().map(|()| Step::Done))
            }
            (Some(piece), answer) => piece.answer(answer),
        };
        match step {
            Ok(Step::Done) => self.slots[nth] = None,
            Ok(Step::Again) if self.goes_on() => self.send(nth),
            // It stays for the plain way, or for nothing after a failure.
            Ok(Step::Again) => {}
            Err(error) => {
                self.slots[nth] = None;
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Waits without the kernel's help for all that it has taken.
    fn settle(&mut self) {
        // The kernel takes no more: nobody enters the ring again.
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
    use crate::{DirectFile, IoBuffer};

    /// Makes the kernel refuse all use of the ring.
    fn break_it(ring: &Ring) {
        // SAFETY: the descriptor is open, `ManuallyDrop` leaves it to the ring, and it stays a descriptor
        // that the ring may close; nothing is under way.
        let mut fd = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ring.uring.as_raw_fd()) });
        rustix::io::dup2(File::open("/dev/null").unwrap(), &mut fd).unwrap();
    }

    #[test]
    fn a_broken_ring_is_finished_by_plain_calls() {
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: no io_uring here");
        };
        let bytes: Vec<u8> = (0..200_000_u32).map(|nth| nth as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let file = DirectFile::of(&file, Path::new("name"), false).unwrap();
        let mut buffer = IoBuffer::new(4096 * 48).unwrap();
        for broken in [false, true] {
            buffer.as_mut_slice().fill(0);
            if broken {
                break_it(&ring);
            }
            let pieces = buffer.as_mut_slice().chunks_mut(4096).enumerate();
            let pieces = pieces.map(|(nth, part)| Piece::read(&file, 4096 * nth as u64, part, 4096));
            ring.run(pieces).unwrap();
            assert!(buffer.as_slice() == &bytes[..buffer.len()]);
            assert_eq!(ring.is_broken(), broken);
        }
    }
}
