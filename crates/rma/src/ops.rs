//! Put, get, accumulate, and their strided and list forms.
//!
//! | operation                           | moves                         | returns when       |
//! |-------------------------------------|-------------------------------|--------------------|
//! | `put`, `put_strided`, `put_list`    | a buffer into a member's part | buffer is reusable |
//! | `accumulate`, ...                   | factor times a buffer, added  | buffer is reusable |
//! | `get`, `get_strided`, `get_list`    | a member's part into a buffer | the data are there |
//! | `fetch_add`, `swap`, `compare_swap` | a word, or a pair             | it is done         |
//! | `start_get`, ...                    | the same                      | at once            |
//!
//! The operations that return at once return a [`Handle`](crate::handle::Handle) to wait for.
//!
//! # Memory within a host
//! The member itself reads and writes the memory in place: a put is a store. The order is that of
//! the machine's memory model: two puts are seen in order only if there is a fence between them.
//!
//! # Memory of other hosts
//! The member sends messages to the server of the target. The operations of one member on another
//! are performed in the order in which they were called. Up to 32 KiB of data travel within a
//! message. More data go as long messages of up to 256 KiB, several at a time, from and to buffers
//! of the member, and straight to and from the memory of the target: see `engine/long`. So a put
//! returns when its data are copied, and at most 8 MiB of a process are in flight to a server.
//! Accumulates go in messages of 32 KiB. Three words describe all rows of a regular shape.

use crate::copy;
use crate::element::{Element, Number};
use crate::engine::{Data, LONGEST, MOST, Request, are_apart};
use crate::error::RmaError;
use crate::memory::{Global, MemberPart, Table};
use crate::message::RequestKind;
use crate::rma::Rma;
use crate::runs::{Run, batches, places};
use crate::shape::Strided;

/// Returns the bytes of elements.
fn bytes<T: Element>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// Returns the runs of a shape, in bytes, in a part and in a buffer. Adjacent runs are merged.
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
    /// It returns at *local* completion: the caller may reuse the buffer, but other members see the
    /// values only after a fence or a sync.
    ///
    /// # One-sided
    /// Only this member calls it; no other member takes part. A message to another host leaves at
    /// once, or together with the next message of this member. If there is none soon, it leaves
    /// after a millisecond or two.
    ///
    /// # Errors
    /// [`RmaError::Rank`], [`RmaError::Bounds`]: nothing is written. [`RmaError::Fault`] if a
    /// member is dead.
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
            // SAFETY: the part has as many bytes from `at` on as `values`, as `part` has checked.
            // Parts are shared memory.
            unsafe { copy::write(part.address.add(at), bytes(values)) };
            return Ok(());
        }
        let run = Run { there: at, here: 0, len: size_of_val(values) };
        // SAFETY: the run is inside the part, and covers exactly `values`, which stays borrowed
        // until this returns.
        unsafe { self.write_far(&memory.table, rank, &[run], bytes(values).as_ptr()) }
    }

    /// Reads elements from the part of a member.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Memory ordering
    /// It reads everything that was put before a sync, or before a fence that happens before this
    /// call.
    ///
    /// # Errors
    /// As [`put`](Self::put); the content of `values` is then unspecified.
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
            // SAFETY: the part has `len` bytes from `at` on, as `part` has checked. Parts are
            // shared memory. `values` is borrowed exclusively, and has `len` bytes.
            unsafe { copy::read(part.address.add(at), to, len) };
            return Ok(());
        }
        // SAFETY: the run is inside the part, and covers exactly `values`. `values` is borrowed
        // exclusively until this returns, and nothing is written to it afterwards.
        unsafe { self.read_far(&memory.table, rank, &[Run { there: at, here: 0, len }], to) }
    }

    /// Adds `factor` times the values to elements of the part of a member, each element atomically.
    ///
    /// Concurrent accumulates of several members to the same elements all take effect, in an
    /// unspecified order.
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
        // SAFETY: the run is inside the part, covers exactly `values`, and has whole elements at a
        // multiple of their size.
        unsafe { self.add(&memory.table, rank, part, &[run], factor, bytes(values).as_ptr()) }
    }

    /// Writes elements of a buffer into the part of a member.
    ///
    /// The elements are read from `first` on with the given strides, and written from `offset` on
    /// in the shape `there`.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`RmaError::Shape`] if an element is written twice, or if the
    /// number of strides is wrong; [`RmaError::Buffer`] if the buffer is too short.
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
        // SAFETY: the runs are inside the part and inside `values`, as `strided` has checked.
        unsafe { self.write(&memory.table, rank, part, &runs, bytes(values).as_ptr()) }
    }

    /// Reads elements from the part of a member, in the shape `there` from `offset` on, into a
    /// buffer.
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
        // SAFETY: the runs are inside the part and inside `values`, as `strided` has checked.
        // `values` is borrowed exclusively until this returns.
        unsafe { self.read(&memory.table, rank, part, &runs, values.as_mut_ptr().cast()) }
    }

    /// Adds `factor` times elements of a buffer to elements of the part of a member, in the shape
    /// `there`.
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
        // SAFETY: the runs are inside the part and inside `values`, as `strided` has checked, and
        // consist of whole elements.
        unsafe { self.add(&memory.table, rank, part, &runs, factor, bytes(values).as_ptr()) }
    }

    /// Writes a list of runs: for each `(offset, first, len)`, writes `len` elements of the buffer
    /// from `first` on to `offset` in the part of a member.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`RmaError::Buffer`] if a run is not inside the buffer.
    pub fn put_list<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        list: &[(usize, usize, usize)],
        values: &[T],
    ) -> Result<(), RmaError> {
        let (runs, part) = self.list(memory, rank, list, values.len())?;
        // SAFETY: the runs are inside the part and inside `values`, as `list` has checked.
        unsafe { self.write(&memory.table, rank, part, &runs, bytes(values).as_ptr()) }
    }

    /// Reads a list of runs: see [`put_list`](Self::put_list).
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
        // SAFETY: the runs are inside the part and inside `values`, as `list` has checked. `values`
        // is borrowed exclusively until this returns.
        unsafe { self.read(&memory.table, rank, part, &runs, values.as_mut_ptr().cast()) }
    }

    /// Adds `factor` times a list of runs: see [`put_list`](Self::put_list).
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
        // SAFETY: the runs are inside the part and inside `values`, as `list` has checked, and
        // consist of whole elements.
        unsafe { self.add(&memory.table, rank, part, &runs, factor, bytes(values).as_ptr()) }
    }

    /// Returns the runs of a shape, in bytes, and the part that they are in. The tuples give the
    /// first element, the shape, and whether it is written, in the part and in the buffer.
    fn strided<T: Element>(
        &self,
        memory: &Global<T>,
        rank: usize,
        (offset, there, write_there): (usize, Strided<'_>, bool),
        (first, here, write_here): (usize, Strided<'_>, bool),
        len: usize,
    ) -> Result<(Vec<Run>, MemberPart), RmaError> {
        let (part, _) = self.part(memory, rank, offset, there.extent()?)?;
        let extent = here.extent()?;
        let to = first.saturating_add(extent);
        if to > len {
            return Err(RmaError::Buffer { from: first, to, len });
        }
        for (shape, _) in [(there, write_there), (here, write_here)].iter().filter(|(_, w)| *w) {
            shape.occurs_once()?;
        }
        Ok((shaped(there, offset, here, first, size_of::<T>()), part))
    }

    /// Returns the runs of a list, in bytes, and the part that they are in.
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

    /// Writes runs from the memory at `from` into a part, on this host or another one.
    ///
    /// # Safety
    /// The runs must be inside the part, and valid for reads in the memory at `from`. No other
    /// thread may write to that memory until this returns.
    pub(crate) unsafe fn write(
        &mut self,
        table: &Table,
        rank: usize,
        part: MemberPart,
        runs: &[Run],
        from: *const u8,
    ) -> Result<(), RmaError> {
        if part.address.is_null() {
            // SAFETY: the conditions are the same: the caller guarantees them (see `# Safety`).
            return unsafe { self.write_far(table, rank, runs, from) };
        }
        self.stored = true;
        for run in runs {
            // SAFETY: the run is inside the part and inside the memory at `from`: the caller
            // guarantees it (see `# Safety`). Parts are shared memory.
            unsafe { copy::write(part.address.add(run.there), run.bytes(from)) };
        }
        Ok(())
    }

    /// Reads runs of a part into the memory at `to`.
    ///
    /// # Safety
    /// The runs must be inside the part, and valid for writes in the memory at `to`. No other
    /// thread may access that memory until this returns.
    pub(crate) unsafe fn read(
        &mut self,
        table: &Table,
        rank: usize,
        part: MemberPart,
        runs: &[Run],
        to: *mut u8,
    ) -> Result<(), RmaError> {
        if part.address.is_null() {
            // SAFETY: the conditions are the same: the caller guarantees them (see `# Safety`).
            return unsafe { self.read_far(table, rank, runs, to) };
        }
        for run in runs {
            // SAFETY: the run is inside the part and inside the memory at `to`: the caller
            // guarantees it (see `# Safety`). Parts are shared memory.
            unsafe { copy::read(part.address.add(run.there), run.place(to), run.len) };
        }
        Ok(())
    }

    /// Writes runs into a part on another host.
    ///
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
        let (batches, mut ticket) = (batches(runs, LONGEST), 0);
        let together = batches.len() > 1 && are_apart(runs);
        for (pieces, runs) in batches {
            let size = runs.iter().map(|run| run.len).sum();
            let write = |message: &mut Vec<u8>| {
                // SAFETY: the run is a part of one that is valid for reads at `from`: the caller
                // guarantees it (see `# Safety`).
                runs.iter().for_each(|run| message.extend_from_slice(unsafe { run.bytes(from) }));
            };
            let far = self.far();
            let data = if size > MOST {
                // Only the parts of one put have the same number.
                if ticket == 0 || !together {
                    ticket = far.engine.ticket();
                }
                let mut data = far.engine.buffer(0);
                write(&mut data);
                Data::Long(data)
            } else {
                Data::Within(&write)
            };
            let put = Request::new(RequestKind::Put);
            let request = Request { allocation, rank, ticket, pieces: &pieces, ..put };
            far.request(server, request, size, data)?;
        }
        Ok(())
    }

    /// Adds the elements of the runs at `from` to a part, on this host or another one.
    ///
    /// # Safety
    /// As [`write`](Self::write). The runs must also consist of whole elements, at multiples of
    /// their size in the part.
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
            // SAFETY: the run is valid for reads at `from`: the caller guarantees it (see
            // `# Safety`).
            let values = unsafe { run.bytes(from) }.chunks_exact(size_of::<T>());
            values.map(move |value| bytemuck::pod_read_unaligned::<T>(value).times(factor))
        };
        if !part.address.is_null() {
            self.stored = true;
            for run in runs {
                let at = part.address.wrapping_add(run.there).cast::<T>();
                for (index, value) in products(run).enumerate() {
                    // SAFETY: the element is inside the part, as the run is. It is aligned: the
                    // part is aligned for all elements, and `there` is a multiple of the size.
                    // Parts are shared memory.
                    unsafe { value.add_to(at.add(index)) };
                }
            }
            return Ok(());
        }
        let (server, allocation) = (self.server_of(rank), table.id);
        for (pieces, runs) in batches(runs, MOST) {
            let detail = T::KIND as u8;
            let request = Request {
                detail,
                allocation,
                rank,
                pieces: &pieces,
                ..Request::new(RequestKind::Add)
            };
            let size = runs.iter().map(|run| run.len).sum();
            let write = |message: &mut Vec<u8>| {
                for value in runs.iter().flat_map(products) {
                    message.extend_from_slice(bytemuck::bytes_of(&value));
                }
            };
            self.far().request(server, request, size, Data::Within(&write))?;
        }
        Ok(())
    }

    /// Requests runs of the memory of another host, and returns the ticket of the answers.
    ///
    /// # Safety
    /// The runs must be valid for writes in the memory at `to`. No other thread may access that
    /// memory until all answers have come or the ticket is given up.
    pub(crate) unsafe fn ask_far(
        &mut self,
        table: &Table,
        rank: usize,
        runs: &[Run],
        to: *mut u8,
    ) -> Result<u64, RmaError> {
        let (server, allocation) = (self.server_of(rank), table.id);
        let batches = batches(runs, LONGEST);
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
            if let Err(fault) = self.far().request(server, request, 0, Data::Within(&|_| ())) {
                self.far().engine.give_up(ticket);
                return Err(fault.into());
            }
        }
        Ok(ticket)
    }

    /// Reads runs of a part on another host.
    ///
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
        // SAFETY: the runs are valid at `to` until this returns: the caller guarantees it (see
        // `# Safety`). `answer` returns only when all answers have come or the ticket is given up.
        let ticket = unsafe { self.ask_far(table, rank, runs, to) }?;
        self.far().answer(ticket).map(|_| ())
    }
}
