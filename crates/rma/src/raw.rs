//! Operations between global memory as bytes and memory that the caller gives by address.
//!
//! They are for bindings to other languages, whose buffers have no Rust type. Rust programs use
//! [`ops`](crate::ops) and [`Handle`](crate::handle::Handle).
//!
//! # Contract
//! Offsets, lengths and strides are in bytes. The effect, the completion and the costs of an
//! operation are those of the operation with elements. A [`Pending`] stands for an operation in
//! flight. It is a plain value, which may be copied and dropped: the caller guarantees that the
//! destination of a get stays valid.
//!
//! ```text
//!   start_get_into ──> Pending ──> wait_for, is_done ──> bytes arrived, memory free to use
//!                          └─────> give_up ───────────> memory not written any more
//! ```

use crate::element::Number;
use crate::error::RmaError;
use crate::handle::HandleState;
use crate::memory::{Global, MemberPart};
use crate::ops::shaped;
use crate::rma::{Rma, Syncs};
use crate::runs::Run;
use crate::shape::Strided;
use crate::word::{AddWord, Word, sealed::Step};

/// The bytes that an operation moves: in a member's part, and in the caller's memory, which begins
/// at the address that the operation is called with.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'a> {
    /// A contiguous run.
    Run {
        /// The offset in the part.
        offset: usize,
        /// The number of bytes.
        len: usize,
    },
    /// A strided shape, with all numbers in bytes. The strides in the caller's memory may differ.
    Strided {
        /// The offset in the part.
        offset: usize,
        /// The shape in the part.
        there: Strided<'a>,
        /// The strides in the caller's memory, with the same counts.
        strides: &'a [usize],
    },
    /// A list of runs: offset in the part, address in the caller's memory, number of bytes. The
    /// address that the operation is called with is not used.
    List(&'a [(usize, *mut u8, usize)]),
}

/// An operation in flight. It stays valid after a wait: then it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an operation is known to be done only after a wait"]
pub struct Pending(HandleState);

impl Pending {
    /// An operation that is done.
    pub const DONE: Pending = Pending(HandleState::Done);

    /// Returns it as three words, to be stored by code in other languages. Zeros mean
    /// [`DONE`](Self::DONE).
    #[must_use]
    pub fn to_words(self) -> [u64; 3] {
        match self.0 {
            HandleState::Done => [0; 3],
            HandleState::Asked(ticket) => [1, ticket, 0],
            HandleState::Sent(server, mark) => [2, server as u64, mark],
        }
    }

    /// Returns the operation that [`to_words`](Self::to_words) has encoded; `None` if the words are
    /// not such an encoding.
    #[must_use]
    pub fn from_words(words: [u64; 3]) -> Option<Pending> {
        match words {
            [0, ..] => Some(Pending::DONE),
            [1, ticket, _] => Some(Pending(HandleState::Asked(ticket))),
            [2, server, mark] => {
                Some(Pending(HandleState::Sent(usize::try_from(server).ok()?, mark)))
            }
            _ => None,
        }
    }
}

impl Rma {
    /// Writes bytes of the caller's memory into the part of a member, like [`put`](Self::put),
    /// `put_strided` and `put_list`.
    ///
    /// # Safety
    /// The bytes must be valid for reads at `from`, or at the addresses of a list, and no other
    /// thread may write to them until this returns. They must not overlap the bytes that are
    /// written.
    ///
    /// # Errors
    /// As `put`, `put_strided`.
    pub unsafe fn put_from(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        bytes: Bytes<'_>,
        from: *const u8,
    ) -> Result<(), RmaError> {
        let (part, runs, from) = self.runs(memory, rank, bytes, from.cast_mut(), (true, false))?;
        // SAFETY: the runs are inside the part, as `runs` has checked. They are valid for reads in
        // the caller's memory, and no other thread writes to it: the caller guarantees it (see
        // `# Safety`).
        unsafe { self.write(&memory.table, rank, part, runs.as_slice(), from) }
    }

    /// Reads bytes of the part of a member into the caller's memory, like [`get`](Self::get),
    /// `get_strided` and `get_list`.
    ///
    /// # Safety
    /// The bytes must be valid for writes at `to`, or at the addresses of a list, and no other
    /// thread may access them until this returns.
    ///
    /// # Errors
    /// As `get`, `get_strided`.
    pub unsafe fn get_into(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        bytes: Bytes<'_>,
        to: *mut u8,
    ) -> Result<(), RmaError> {
        let (part, runs, to) = self.runs(memory, rank, bytes, to, (false, true))?;
        // SAFETY: the runs are inside the part, as `runs` has checked. They are valid for writes in
        // the caller's memory, and no other thread accesses it: the caller guarantees it (see
        // `# Safety`).
        unsafe { self.read(&memory.table, rank, part, runs.as_slice(), to) }
    }

    /// Starts to read bytes of the part of a member into the caller's memory.
    ///
    /// # Safety
    /// As [`get_into`](Self::get_into), not only until this returns, but until
    /// [`wait_for`](Self::wait_for) or [`is_done`](Self::is_done) of this same `Rma` has reported
    /// that the operation is done, or [`give_up`](Self::give_up) has been called on it.
    ///
    /// # Errors
    /// As `get`, `get_strided`; then nothing is in flight.
    pub unsafe fn start_get_into(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        bytes: Bytes<'_>,
        to: *mut u8,
    ) -> Result<Pending, RmaError> {
        let (part, runs, to) = self.runs(memory, rank, bytes, to, (false, true))?;
        if part.address.is_null() {
            // SAFETY: as in `get_into`; the caller's guarantee lasts until all answers have come or
            // the ticket is given up.
            let ticket = unsafe { self.ask_far(&memory.table, rank, runs.as_slice(), to) }?;
            return Ok(Pending(HandleState::Asked(ticket)));
        }
        // SAFETY: as in `get_into`.
        unsafe { self.read(&memory.table, rank, part, runs.as_slice(), to) }?;
        Ok(Pending::DONE)
    }

    /// Adds `factor` times numbers of the caller's memory, which need not be aligned, to numbers of
    /// the part of a member, like [`accumulate`](Self::accumulate), `accumulate_strided` and
    /// `accumulate_list`.
    ///
    /// # Safety
    /// As [`put_from`](Self::put_from).
    ///
    /// # Errors
    /// As `accumulate`, `accumulate_strided`; [`RmaError::Align`] if the bytes in the part are not
    /// whole, aligned numbers.
    pub unsafe fn accumulate_from<T: Number>(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        bytes: Bytes<'_>,
        factor: T,
        from: *const u8,
    ) -> Result<(), RmaError> {
        let (part, runs, from) = self.runs(memory, rank, bytes, from.cast_mut(), (true, false))?;
        let size = size_of::<T>();
        for &Run { there: offset, len, .. } in runs.as_slice() {
            if offset % size != 0 || len % size != 0 {
                return Err(RmaError::Align { offset, len, size });
            }
        }
        // SAFETY: as in `put_from`; the runs are whole elements at multiples of their size.
        unsafe { self.add(&memory.table, rank, part, runs.as_slice(), factor, from) }
    }

    /// Returns everything that this member has written to the host of `rank` so far, as one
    /// operation. It is done when all of that is visible to all members.
    ///
    /// # Errors
    /// [`RmaError::Rank`].
    pub fn written(&self, rank: usize) -> Result<Pending, RmaError> {
        self.check_not_forked()?;
        if rank >= self.size() {
            return Err(RmaError::Rank { rank, size: self.size() });
        }
        let server = self.server_of(rank);
        match &self.sync {
            Syncs::Hosts(far) if far.marks[server] > 0 => {
                Ok(Pending(HandleState::Sent(server, far.marks[server])))
            }
            _ => Ok(Pending::DONE),
        }
    }

    /// Waits for an operation.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). A get that has failed is given up.
    pub fn wait_for(&mut self, pending: Pending) -> Result<(), RmaError> {
        self.check_not_forked()?;
        let Syncs::Hosts(far) = &self.sync else { return Ok(()) };
        match pending.0 {
            HandleState::Asked(ticket) => far.answer(ticket).map(|_| ()),
            HandleState::Sent(server, mark) if server < far.marks.len() => {
                far.acknowledged(server, mark)?;
                far.refusals()
            }
            _ => Ok(()),
        }
    }

    /// Returns whether an operation is done. Does not block.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub fn is_done(&mut self, pending: Pending) -> Result<bool, RmaError> {
        self.check_not_forked()?;
        let Syncs::Hosts(far) = &self.sync else { return Ok(true) };
        let looked = far.look(pending.0);
        if looked.is_err() {
            self.give_up(pending);
        }
        Ok(looked?.is_some())
    }

    /// Abandons a get: data that have not arrived yet are not written to its destination.
    pub fn give_up(&self, pending: Pending) {
        if let (HandleState::Asked(ticket), Syncs::Hosts(far)) = (pending.0, &self.sync) {
            far.engine.give_up(ticket);
        }
    }

    /// Adds to the word at `offset` bytes in the part of a member, like
    /// [`fetch_add`](Self::fetch_add).
    ///
    /// # Errors
    /// As `fetch_add`; [`RmaError::Align`] if `offset` is not a multiple of the size of the word.
    pub fn fetch_add_at<T: AddWord>(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        offset: usize,
        value: T,
    ) -> Result<T, RmaError> {
        self.word_at(memory, rank, offset, value.add_of())
    }

    /// Replaces the word at `offset` bytes in the part of a member, like [`swap`](Self::swap).
    ///
    /// # Errors
    /// As [`fetch_add_at`](Self::fetch_add_at).
    pub fn swap_at<T: Word>(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        offset: usize,
        value: T,
    ) -> Result<T, RmaError> {
        self.word_at(memory, rank, offset, value.swap_with())
    }

    /// Replaces the word at `offset` bytes in the part of a member if it equals `old`, like
    /// [`compare_swap`](Self::compare_swap).
    ///
    /// # Errors
    /// As [`fetch_add_at`](Self::fetch_add_at).
    pub fn compare_swap_at<T: Word>(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        offset: usize,
        old: T,
        new: T,
    ) -> Result<T, RmaError> {
        self.word_at(memory, rank, offset, old.compare_swap_with(new))
    }

    fn word_at<T: Word>(
        &mut self,
        memory: &Global<u8>,
        rank: usize,
        offset: usize,
        step: Step,
    ) -> Result<T, RmaError> {
        let size = size_of::<T>();
        let (part, at) = self.part(memory, rank, offset, size)?;
        if at % size != 0 {
            return Err(RmaError::Align { offset, len: size, size });
        }
        // SAFETY: the word is inside the part, as `part` has checked, at a multiple of its size.
        let handle = unsafe { self.step_at(&memory.table, rank, part, at, step) }?;
        self.wait(handle)
    }

    /// Returns the part, the runs inside it, none of them empty, and the buffer that the other ends
    /// of the runs are relative to. `written` tells whether the part and the buffer are written.
    fn runs(
        &self,
        memory: &Global<u8>,
        rank: usize,
        bytes: Bytes<'_>,
        buffer: *mut u8,
        written: (bool, bool),
    ) -> Result<(MemberPart, Runs, *mut u8), RmaError> {
        match bytes {
            Bytes::Run { offset, len } => {
                let (part, there) = self.part(memory, rank, offset, len)?;
                let runs = Runs::One([Run { there, here: 0, len }; 1], usize::from(len > 0));
                Ok((part, runs, buffer))
            }
            Bytes::Strided { offset, there, strides } => {
                let (part, _) = self.part(memory, rank, offset, there.extent()?)?;
                let here = Strided { counts: there.counts, strides };
                here.extent()?;
                for (shape, _) in [(there, written.0), (here, written.1)].iter().filter(|(_, w)| *w)
                {
                    shape.occurs_once()?;
                }
                Ok((part, Runs::Many(shaped(there, offset, here, 0, 1)), buffer))
            }
            Bytes::List(list) => {
                let (part, _) = self.part(memory, rank, 0, 0)?;
                let run = |&(offset, at, len): &(usize, *mut u8, usize)| {
                    let (_, there) = self.part(memory, rank, offset, len)?;
                    // Each address belongs to an object of its own, so none is relative to another.
                    Ok(Run { there, here: at.expose_provenance(), len })
                };
                let filled = list.iter().filter(|(_, _, len)| *len > 0);
                let runs = Runs::Many(filled.map(run).collect::<Result<_, RmaError>>()?);
                Ok((part, runs, std::ptr::null_mut()))
            }
        }
    }
}

/// A list of runs that needs no heap allocation for a single run.
enum Runs {
    One([Run; 1], usize),
    Many(Vec<Run>),
}

impl Runs {
    #[inline]
    fn as_slice(&self) -> &[Run] {
        match self {
            Runs::One(run, count) => &run[..*count],
            Runs::Many(runs) => runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_fabric::Team;

    #[test]
    fn an_operation_travels_in_words() {
        for pending in
            [Pending::DONE, Pending(HandleState::Asked(7)), Pending(HandleState::Sent(3, 1 << 40))]
        {
            assert_eq!(Pending::from_words(pending.to_words()), Some(pending));
        }
        assert_eq!(Pending::from_words([3, 0, 0]), None);
    }

    fn bytes_of(me: &mut syncline_fabric::Member) -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u8>(me, 100)?;
        let (rank, right) = (me.rank(), (me.rank() + 1) % me.size());
        let (mut first, mut second) = ([rank as u8; 4], [rank as u8 + 10; 8]);
        let list = [
            (3, first.as_mut_ptr(), 4),
            (0, std::ptr::null_mut(), 0),
            (40, second.as_mut_ptr(), 8),
        ];
        let column = Strided { counts: &[1, 4], strides: &[16] };
        let shape = Bytes::Strided { offset: 15, there: column, strides: &[2] };
        // SAFETY: arrays of these lengths, which no other thread accesses.
        unsafe {
            rma.put_from(&memory, right, Bytes::List(&list), std::ptr::null())?;
            rma.put_from(&memory, right, shape, second.as_ptr())?;
            let run = Bytes::Run { offset: 80, len: 8 };
            let long = second.map(i32::from);
            rma.accumulate_from(&memory, right, run, 2_i32, long.as_ptr().cast())?;
        }
        let written = rma.written(right)?;
        rma.wait_for(written)?;
        rma.sync()?;
        assert_eq!(rma.fetch_add_at::<i32>(&memory, right, 84, 1)?, 2 * (rank as i32 + 10));
        rma.sync()?;
        let (mut all, mut tail) = ([0_u8; 100], [0_u8; 8]);
        // SAFETY: as above, until both are done.
        let (one, two) = unsafe {
            let one = rma.start_get_into(
                &memory,
                right,
                Bytes::Run { offset: 0, len: 100 },
                all.as_mut_ptr(),
            )?;
            let list = [(76, tail.as_mut_ptr().wrapping_add(4), 4), (84, tail.as_mut_ptr(), 4)];
            (one, rma.start_get_into(&memory, right, Bytes::List(&list), std::ptr::null_mut())?)
        };
        rma.wait_for(one)?;
        while !rma.is_done(two)? {}
        assert!(rma.is_done(one)?);
        assert_eq!((&all[3..7], &all[40..48]), (&first[..], &second[..]));
        assert!([15, 31, 47, 63].into_iter().all(|at| all[at] == rank as u8 + 10));
        assert_eq!(tail, [2 * (rank as u8 + 10) + 1, 0, 0, 0, 0, 0, 0, 0]);
        let odd = Bytes::Run { offset: 82, len: 4 };
        // SAFETY: as above.
        let refused = unsafe { rma.accumulate_from(&memory, right, odd, 1_i32, all.as_ptr()) };
        assert_eq!(refused, Err(RmaError::Align { offset: 82, len: 4, size: 4 }));
        assert_eq!(
            rma.swap_at::<i64>(&memory, right, 4, 1),
            Err(RmaError::Align { offset: 4, len: 8, size: 8 })
        );
        assert!(matches!(rma.swap_at::<i64>(&memory, right, 96, 1), Err(RmaError::Bounds { .. })));
        rma.sync()
    }

    #[test]
    fn bytes_go_where_they_are_sent() {
        for result in Team::threads(3).quiet().run(bytes_of).unwrap() {
            result.unwrap();
        }
        for result in Team::hosts(3).quiet().run(bytes_of).unwrap() {
            result.unwrap();
        }
    }
}
