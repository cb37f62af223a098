//! Put, get, accumulate, and the read-modify-writes of one word.
//!
//! | operation                  | moves                                          | returns when                               |
//! |----------------------------|------------------------------------------------|--------------------------------------------|
//! | `put`, `put_strided`, `put_list` | from a buffer into a member's part         | the buffer may be used again               |
//! | `accumulate`, ...          | adds a factor times a buffer                   | the same                                   |
//! | `get`, `get_strided`, `get_list` | from a member's part into a buffer          | the data are there                         |
//! | `fetch_add`, `swap`, `compare_swap` | a word, or a pair                      | it is done                                 |
//! | `start_get`, ...           | the same                                       | at once: a [`Handle`](crate::handle::Handle) is waited for |
//!
//! # Memory within a host
//! is read and written in place, by the member itself: a put is a store. Order there is that of the memory of the machine:
//! what is put first is seen first only after a fence in between.
//!
//! # Memory of other hosts
//! is reached by messages to the server of its member. Operations of one member on another are done there in the order in
//! which they were called. Data go in pieces of up to 32 KiB, one behind the other; of regular shapes, rows are described by three
//! words together.

use crate::copy;
use crate::element::{Element, Number};
use crate::engine::Request;
use crate::error::RmaError;
use crate::memory::{Global, MemberPart, Table};
use crate::message::RequestKind;
use crate::rma::Rma;
use crate::runs::{Run, batches, places};
use crate::shape::Strided;

/// The bytes of elements.
fn bytes<T: Element>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// The runs of a shape, in bytes, in a part and in a buffer; what continues is one run.
pub(crate) fn shaped(
    there: Strided<'_>,
    offset: usize,
    here: Strided<'_>,
    first: usize,
    size: usize,
) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    there.runs(here.strides, |there, here, len| {
        let (there, here, len) = ((offset + there) * size, (first + here) * size, len * size);
        match runs.last_mut() {
            Some(last) if last.there + last.len == there && last.here + last.len == here => {
                last.len += len
            }
            _ => runs.push(Run { there, here, len }),
        }
    });
    runs
}

impl Rma {
    /// Writes elements into the part of a member.
    ///
    /// It returns at *local* completion: the values may be changed, but are seen by others after a fence, or a sync, only.
    ///
    /// # One-sided
    /// The member itself calls it, and nobody else has to do anything. To another host it leaves at once, or with what this
    /// member does next: a millisecond or two later if that takes long.
    ///
    /// # Errors
    /// [`RmaError::Rank`], [`RmaError::Bounds`]: nothing is written. [`RmaError::Fault`] if somebody is dead.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError};
    ///
    /// // The same on Team::threads(3), Team::processes(3), or Team::run under mpirun.
    /// Team::hosts(3).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let ring = rma.allocate::<f64>(me, 2)?;
    ///     let right = (me.rank() + 1) % me.size();
    ///     rma.put(&ring, right, 0, &[me.rank() as f64, 0.5])?;
    ///     rma.sync()?;
    ///     let mut mine = [0.0; 2];
    ///     rma.get(&ring, me.rank(), 0, &mut mine)?;
    ///     assert_eq!(mine, [((me.rank() + 2) % 3) as f64, 0.5]);
    ///     Ok::<_, RmaError>(())
    /// })?.into_iter().collect::<Result<(), _>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn put<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        values: &[T],
    ) -> Result<(), RmaError> {
        let (part, at) = self.part(memory, rank, offset, values.len())?;
        if !part.address.is_null() {
            self.stored = true;
            // SAFETY: the elements are inside the part, which is shared memory.
            unsafe { copy::write(part.address.add(at), bytes(values)) };
            return Ok(());
        }
        let run = Run { there: at, here: 0, len: size_of_val(values) };
        // SAFETY: the run is inside the part, and all of the values.
        unsafe { self.write_far(&memory.table, rank, &[run], bytes(values).as_ptr()) }
    }

    /// Reads elements of the part of a member.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Memory ordering
    /// What was put before a sync, or before a fence of which the reader knows, is read.
    ///
    /// # Errors
    /// As [`put`](Self::put); what is in `values` then may be anything.
    #[inline]
    pub fn get<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        values: &mut [T],
    ) -> Result<(), RmaError> {
        let (part, at) = self.part(memory, rank, offset, values.len())?;
        let (to, len) = (values.as_mut_ptr().cast::<u8>(), size_of_val(values));
        if !part.address.is_null() {
            // SAFETY: the elements are inside the part, which is shared memory; `values` is the caller's own.
            unsafe { copy::read(part.address.add(at), to, len) };
            return Ok(());
        }
        // SAFETY: `values` is borrowed until this returns, which is when nothing is on its way into it any more.
        unsafe { self.read_far(&memory.table, rank, &[Run { there: at, here: 0, len }], to) }
    }

    /// Adds `factor` times the values to elements of the part of a member: each element in one step.
    ///
    /// Accumulates of several members to the same elements all count, in whatever order.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn accumulate<T: Number>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        factor: T,
        values: &[T],
    ) -> Result<(), RmaError> {
        let (part, at) = self.part(memory, rank, offset, values.len())?;
        let run = Run { there: at, here: 0, len: size_of_val(values) };
        // SAFETY: the run is inside the part, aligned as the type is, and all of the values.
        unsafe { self.add(&memory.table, rank, part, &[run], factor, bytes(values).as_ptr()) }
    }

    /// Writes elements of a buffer, from `first` on and with those strides, to elements of the part of a member from
    /// `offset` on, in the shape of `there`.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`RmaError::Shape`] if runs overlap where they are written, or the strides are too few or many;
    /// [`RmaError::Buffer`].
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError, Strided};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let matrix = rma.allocate::<f64>(me, 4 * 4)?;
    ///     if me.rank() == 0 {
    ///         // Three numbers as a column of rank 1's matrix of 4 x 4.
    ///         let column = Strided { counts: &[1, 3], strides: &[4] };
    ///         rma.put_strided(&matrix, 1, 2, column, &[1.0, 2.0, 3.0], 0, &[1])?;
    ///     }
    ///     rma.sync()?;
    ///     if me.rank() == 1 {
    ///         let mut all = [0.0; 16];
    ///         rma.get(&matrix, 1, 0, &mut all)?;
    ///         assert_eq!([all[2], all[6], all[10], all[14]], [1.0, 2.0, 3.0, 0.0]);
    ///     }
    ///     Ok::<_, RmaError>(())
    /// })?.into_iter().collect::<Result<(), _>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(
        clippy::too_many_arguments,
        reason = "two places, and the shape that they have in common"
    )]
    pub fn put_strided<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        there: Strided<'_>,
        values: &[T],
        first: usize,
        strides: &[usize],
    ) -> Result<(), RmaError> {
        let here = Strided { counts: there.counts, strides };
        let (runs, part) =
            self.strided(memory, rank, (offset, there, true), (first, here, false), values.len())?;
        // SAFETY: the runs are inside both.
        unsafe { self.write(&memory.table, rank, part, &runs, bytes(values).as_ptr()) }
    }

    /// Reads elements of the part of a member, in the shape of `there` from `offset` on, into a buffer.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put_strided`](Self::put_strided).
    #[expect(clippy::too_many_arguments, reason = "as put_strided")]
    pub fn get_strided<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        there: Strided<'_>,
        values: &mut [T],
        first: usize,
        strides: &[usize],
    ) -> Result<(), RmaError> {
        let here = Strided { counts: there.counts, strides };
        let (runs, part) =
            self.strided(memory, rank, (offset, there, false), (first, here, true), values.len())?;
        // SAFETY: as in `get`; the runs are inside both.
        unsafe { self.read(&memory.table, rank, part, &runs, values.as_mut_ptr().cast()) }
    }

    /// Adds `factor` times elements of a buffer to elements of the part of a member, in the shape of `there`.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put_strided`](Self::put_strided).
    #[expect(clippy::too_many_arguments, reason = "as put_strided")]
    pub fn accumulate_strided<T: Number>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        there: Strided<'_>,
        factor: T,
        values: &[T],
        first: usize,
        strides: &[usize],
    ) -> Result<(), RmaError> {
        let here = Strided { counts: there.counts, strides };
        let (runs, part) =
            self.strided(memory, rank, (offset, there, true), (first, here, false), values.len())?;
        // SAFETY: the runs are whole elements inside both.
        unsafe { self.add(&memory.table, rank, part, &runs, factor, bytes(values).as_ptr()) }
    }

    /// Writes lists of elements: of each `(offset, first, len)`, `len` from `first` on of the buffer, to `offset`.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`RmaError::Buffer`].
    pub fn put_list<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        list: &[(usize, usize, usize)],
        values: &[T],
    ) -> Result<(), RmaError> {
        let (runs, part) = self.list(memory, rank, list, values.len())?;
        // SAFETY: the runs are inside both.
        unsafe { self.write(&memory.table, rank, part, &runs, bytes(values).as_ptr()) }
    }

    /// Reads lists of elements: see [`put_list`](Self::put_list).
    ///
    /// # Errors
    /// As [`put_list`](Self::put_list).
    pub fn get_list<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        list: &[(usize, usize, usize)],
        values: &mut [T],
    ) -> Result<(), RmaError> {
        let (runs, part) = self.list(memory, rank, list, values.len())?;
        // SAFETY: as in `get`; the runs are inside both.
        unsafe { self.read(&memory.table, rank, part, &runs, values.as_mut_ptr().cast()) }
    }

    /// Adds `factor` times lists of elements: see [`put_list`](Self::put_list).
    ///
    /// # Errors
    /// As [`put_list`](Self::put_list).
    pub fn accumulate_list<T: Number>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        list: &[(usize, usize, usize)],
        factor: T,
        values: &[T],
    ) -> Result<(), RmaError> {
        let (runs, part) = self.list(memory, rank, list, values.len())?;
        // SAFETY: the runs are whole elements inside both.
        unsafe { self.add(&memory.table, rank, part, &runs, factor, bytes(values).as_ptr()) }
    }

    /// The runs of a shape, in bytes; and the part that they are in. Each place: its first element, shape, and whether it is
    /// written.
    fn strided<T: Element>(
        &self,
        memory: &Global<T>,
        rank: usize,
        (offset, there, write_there): (usize, Strided<'_>, bool),
        (first, here, write_here): (usize, Strided<'_>, bool),
        len: usize,
    ) -> Result<(Vec<Run>, MemberPart), RmaError> {
        let (part, _) = self.part(memory, rank, offset, there.extent(write_there)?)?;
        let extent = here.extent(write_here)?;
        let to = first.saturating_add(extent);
        if to > len {
            return Err(RmaError::Buffer { from: first, to, len });
        }
        Ok((shaped(there, offset, here, first, size_of::<T>()), part))
    }

    /// The runs of a list, in bytes.
    fn list<T: Element>(
        &self,
        memory: &Global<T>,
        rank: usize,
        list: &[(usize, usize, usize)],
        room: usize,
    ) -> Result<(Vec<Run>, MemberPart), RmaError> {
        let (part, _) = self.part(memory, rank, 0, 0)?;
        let size = size_of::<T>();
        let run = |&(offset, first, len): &(usize, usize, usize)| {
            let (_, there) = self.part(memory, rank, offset, len)?;
            let to = first.saturating_add(len);
            if to > room {
                return Err(RmaError::Buffer { from: first, to, len: room });
            }
            Ok(Run { there, here: first * size, len: len * size })
        };
        Ok((list.iter().map(run).collect::<Result<_, _>>()?, part))
    }

    /// # Safety
    /// The runs are inside the part, and inside the memory at `from`, which nobody writes until this returns.
    pub(crate) unsafe fn write(
        &mut self,
        table: &Table,
        rank: usize,
        part: MemberPart,
        runs: &[Run],
        from: *const u8,
    ) -> Result<(), RmaError> {
        if part.address.is_null() {
            // SAFETY: handed on.
            return unsafe { self.write_far(table, rank, runs, from) };
        }
        self.stored = true;
        for run in runs {
            // SAFETY: the caller vouches for the runs; parts are shared memory.
            unsafe { copy::write(part.address.add(run.there), run.bytes(from)) };
        }
        Ok(())
    }

    /// # Safety
    /// The runs are inside the part, and inside the memory at `to`, which is the caller's own until this returns.
    pub(crate) unsafe fn read(
        &mut self,
        table: &Table,
        rank: usize,
        part: MemberPart,
        runs: &[Run],
        to: *mut u8,
    ) -> Result<(), RmaError> {
        if part.address.is_null() {
            // SAFETY: handed on.
            return unsafe { self.read_far(table, rank, runs, to) };
        }
        for run in runs {
            // SAFETY: the caller vouches for the runs; parts are shared memory.
            unsafe { copy::read(part.address.add(run.there), run.place(to), run.len) };
        }
        Ok(())
    }

    /// # Safety
    /// As [`write`](Self::write).
    #[cold]
    pub(crate) unsafe fn write_far(
        &mut self,
        table: &Table,
        rank: usize,
        runs: &[Run],
        from: *const u8,
    ) -> Result<(), RmaError> {
        let (server, allocation) = (self.server_of(rank), table.id);
        for (pieces, runs) in batches(runs) {
            let request =
                Request { allocation, rank, pieces: &pieces, ..Request::new(RequestKind::Put) };
            let size = runs.iter().map(|run| run.len).sum();
            self.far().request(server, request, size, |message| {
                // SAFETY: the caller vouches for the runs, of which these are parts.
                runs.iter().for_each(|run| message.extend_from_slice(unsafe { run.bytes(from) }));
            })?;
        }
        Ok(())
    }

    /// Adds what is in the runs of the memory at `from`, here or elsewhere.
    ///
    /// # Safety
    /// As [`write`](Self::write); the runs are whole elements, and there at multiples of their size.
    pub(crate) unsafe fn add<T: Number>(
        &mut self,
        table: &Table,
        rank: usize,
        part: MemberPart,
        runs: &[Run],
        factor: T,
        from: *const u8,
    ) -> Result<(), RmaError> {
        let products = |run: &Run| {
            // SAFETY: the caller vouches for the runs.
            let values = unsafe { run.bytes(from) }.chunks_exact(size_of::<T>());
            values.map(move |value| bytemuck::pod_read_unaligned::<T>(value).times(factor))
        };
        if !part.address.is_null() {
            self.stored = true;
            for run in runs {
                let at = part.address.wrapping_add(run.there).cast::<T>();
                for (index, value) in products(run).enumerate() {
                    // SAFETY: the run is inside the part, and elements are aligned in it.
                    unsafe { value.add_to(at.add(index)) };
                }
            }
            return Ok(());
        }
        let (server, allocation) = (self.server_of(rank), table.id);
        for (pieces, runs) in batches(runs) {
            let detail = T::KIND as u8;
            let request = Request {
                detail,
                allocation,
                rank,
                pieces: &pieces,
                ..Request::new(RequestKind::Add)
            };
            let size = runs.iter().map(|run| run.len).sum();
            self.far().request(server, request, size, |message| {
                for value in runs.iter().flat_map(products) {
                    message.extend_from_slice(bytemuck::bytes_of(&value));
                }
            })?;
        }
        Ok(())
    }

    /// Asks for runs of another host's memory.
    ///
    /// # Safety
    /// The runs are inside the memory at `to`, which is nobody else's until all has come or the ticket is given up.
    pub(crate) unsafe fn ask_far(
        &mut self,
        table: &Table,
        rank: usize,
        runs: &[Run],
        to: *mut u8,
    ) -> Result<u64, RmaError> {
        let (server, allocation) = (self.server_of(rank), table.id);
        let batches = batches(runs);
        let ticket = self.far().engine.ask(places(&batches, to));
        for (pieces, runs) in batches {
            let answer = runs.iter().map(|run| run.len).sum();
            let request = Request {
                allocation,
                rank,
                ticket,
                pieces: &pieces,
                answer,
                ..Request::new(RequestKind::Get)
            };
            if let Err(fault) = self.far().request(server, request, 0, |_| ()) {
                self.far().engine.give_up(ticket);
                return Err(fault.into());
            }
        }
        Ok(ticket)
    }

    /// # Safety
    /// As [`read`](Self::read).
    #[cold]
    unsafe fn read_far(
        &mut self,
        table: &Table,
        rank: usize,
        runs: &[Run],
        to: *mut u8,
    ) -> Result<(), RmaError> {
        // SAFETY: handed on; `answer` returns when all has come or the ticket is given up.
        let ticket = unsafe { self.ask_far(table, rank, runs, to) }?;
        self.far().answer(ticket).map(|_| ())
    }
}
