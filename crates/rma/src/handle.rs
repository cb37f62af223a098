//! Operations in flight, and waits for them.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::element::{Element, Number};
use crate::engine::Engine;
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::{Rma, Syncs};
use crate::runs::Run;
use crate::word::AddWord;

/// An operation in flight. [`Rma::wait`] waits for it, [`Rma::test`] checks it without blocking.
///
/// If it is dropped, a get is abandoned and its data are lost. Any other operation is performed
/// nevertheless, and fences and syncs still wait for it.
#[derive(Debug)]
#[must_use = "an operation is known to be done only after a wait"]
pub struct Handle<R> {
    pub(crate) state: HandleState,
    pub(crate) result: Option<R>,
    pub(crate) engine: Option<Arc<Engine>>,
    pub(crate) finish: fn(&mut Option<R>, u128),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleState {
    Done,
    /// An answer is outstanding for this ticket.
    Asked(u64),
    /// This number of requests to this server have to be acknowledged.
    Sent(usize, u64),
}

impl<R> Handle<R> {
    pub(crate) fn done(result: R) -> Self {
        Handle { state: HandleState::Done, result: Some(result), engine: None, finish: |_, _| () }
    }
}

impl<R> Drop for Handle<R> {
    fn drop(&mut self) {
        // Before the buffer is dropped that the answer would be written to.
        if let (HandleState::Asked(ticket), Some(engine)) = (self.state, &self.engine) {
            engine.give_up(ticket);
        }
    }
}

impl Rma {
    /// Starts to write elements. The handle is complete when they are visible to all members.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn start_put<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        values: &[T],
    ) -> Result<Handle<()>, RmaError> {
        self.put(memory, rank, offset, values)?;
        Ok(self.sent(rank))
    }

    /// Starts to add to elements. Like [`start_put`](Self::start_put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn start_accumulate<T: Number>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        factor: T,
        values: &[T],
    ) -> Result<Handle<()>, RmaError> {
        self.accumulate(memory, rank, offset, factor, values)?;
        Ok(self.sent(rank))
    }

    /// Starts to read elements into a buffer, as many as its length. The handle returns the buffer.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError};
    ///
    /// Team::hosts(2).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let memory = rma.allocate::<u64>(me, 100)?;
    ///     let reading = rma.start_get(&memory, 1 - me.rank(), 0, vec![1; 100])?;
    ///     let sum: u64 = (0..1000).sum(); // meanwhile
    ///     assert_eq!((rma.wait(reading)?, sum), (vec![0; 100], 499_500));
    ///     rma.sync()
    /// })?.into_iter().collect::<Result<(), _>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_get<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        mut buffer: Vec<T>,
    ) -> Result<Handle<Vec<T>>, RmaError> {
        let (part, at) = self.part(memory, rank, offset, buffer.len())?;
        if !part.address.is_null() {
            self.get(memory, rank, offset, &mut buffer)?;
            return Ok(Handle::done(buffer));
        }
        let run = Run { there: at, here: 0, len: size_of_val(&*buffer) };
        let to = buffer.as_mut_ptr().cast();
        let engine = Some(Arc::clone(&self.far().engine));
        // The handle owns the buffer from here on, and gives the request up before it drops the
        // buffer.
        let mut handle =
            Handle { state: HandleState::Done, result: Some(buffer), engine, finish: |_, _| () };
        // SAFETY: the run is inside the part, and covers exactly the buffer. The handle owns the
        // buffer, which is not moved or accessed until all answers have come or the ticket is given
        // up. A handle that is leaked never frees the buffer.
        let ticket = unsafe { self.ask_far(&memory.table, rank, &[run], to) }?;
        handle.state = HandleState::Asked(ticket);
        Ok(handle)
    }

    /// Starts to add to a word. Like [`fetch_add`](Self::fetch_add).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn start_fetch_add<T: AddWord>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        index: usize,
        value: T,
    ) -> Result<Handle<T>, RmaError> {
        self.step(memory, rank, index, value.add_of())
    }

    /// Waits for an operation, and returns its result.
    ///
    /// # Errors
    /// [`RmaError::Fault`] if a member is dead; [`RmaError::Refused`] if the other host has refused
    /// an operation.
    ///
    /// # Panics
    /// If another [`Rma`] has started the operation: its answers do not come to this one.
    pub fn wait<R>(&mut self, mut handle: Handle<R>) -> Result<R, RmaError> {
        self.check_not_forked()?;
        self.check_own(&handle);
        match (handle.state, &mut self.sync) {
            (HandleState::Asked(ticket), Syncs::Hosts(far)) => {
                let value = far.answer(ticket);
                handle.state = HandleState::Done;
                (handle.finish)(&mut handle.result, value?);
            }
            (HandleState::Sent(server, mark), Syncs::Hosts(far)) => {
                far.acknowledged(server, mark)?;
                far.refusals()?;
            }
            _ => (),
        }
        Ok(handle.result.take().expect("a handle is waited for once"))
    }

    /// Returns whether an operation is done. Does not block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn test<R>(&mut self, handle: &mut Handle<R>) -> Result<bool, RmaError> {
        self.check_not_forked()?;
        self.check_own(handle);
        let Syncs::Hosts(far) = &self.sync else { return Ok(true) };
        let HandleState::Asked(_) = handle.state else {
            return Ok(far.look(handle.state)?.is_some());
        };
        let looked = far.look(handle.state);
        if !matches!(looked, Ok(None)) {
            handle.state = HandleState::Done;
        }
        let Some(value) = looked? else { return Ok(false) };
        (handle.finish)(&mut handle.result, value);
        Ok(true)
    }

    /// Starts any number of operations with borrowed buffers, and waits for all of them at the end
    /// (the implicit handle of ARMCI).
    ///
    /// # Errors
    /// The error of `work`, or of the wait for an operation that it has started.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError};
    ///
    /// Team::hosts(4).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let memory = rma.allocate::<u64>(me, 1)?;
    ///     rma.put(&memory, me.rank(), 0, &[me.rank() as u64])?;
    ///     rma.sync()?;
    ///     let mut all = [0; 4];
    ///     rma.batch(|batch| {
    ///         let words = all.chunks_mut(1).enumerate();
    ///         words.into_iter().try_for_each(|(rank, word)| batch.get(&memory, rank, 0, word))
    ///     })?; // four requests, one wait
    ///     assert_eq!(all, [0, 1, 2, 3]);
    ///     rma.sync()
    /// })?.into_iter().collect::<Result<(), _>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch<'env, R>(
        &mut self,
        work: impl FnOnce(&mut Batch<'_, 'env>) -> Result<R, RmaError>,
    ) -> Result<R, RmaError> {
        let mut batch = Batch { rma: self, tickets: Vec::new(), env: PhantomData };
        let result = work(&mut batch)?;
        while let Some(&ticket) = batch.tickets.last() {
            if let Syncs::Hosts(far) = &batch.rma.sync {
                far.answer(ticket)?;
            }
            batch.tickets.pop();
        }
        Ok(result)
    }

    /// Panics if another [`Rma`] has started the operation. Otherwise its buffer would be returned
    /// while an answer may still be written to it.
    fn check_own<R>(&self, handle: &Handle<R>) {
        if let (HandleState::Asked(_), Some(engine)) = (handle.state, &handle.engine) {
            let own = matches!(&self.sync, Syncs::Hosts(far) if Arc::ptr_eq(&far.engine, engine));
            assert!(own, "an operation is waited for by the rma that started it");
        }
    }

    /// Returns a handle for everything that this member has sent to the server of `rank`.
    fn sent(&mut self, rank: usize) -> Handle<()> {
        let server = self.server_of(rank);
        match &self.sync {
            Syncs::Hosts(far) if far.marks[server] > 0 => {
                let state = HandleState::Sent(server, far.marks[server]);
                Handle { state, result: Some(()), engine: None, finish: |_, _| () }
            }
            _ => Handle::done(()),
        }
    }
}

/// Operations that are waited for together: see [`Rma::batch`].
#[derive(Debug)]
pub struct Batch<'rma, 'env> {
    rma: &'rma mut Rma,
    tickets: Vec<u64>,
    /// The lifetime of the buffers, which outlive the batch.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> Batch<'_, 'env> {
    /// Like [`Rma::get`]. The values are there when the batch ends.
    ///
    /// # Errors
    /// As [`Rma::get`].
    pub fn get<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        values: &'env mut [T],
    ) -> Result<(), RmaError> {
        let (part, at) = self.rma.part(memory, rank, offset, values.len())?;
        if !part.address.is_null() {
            return self.rma.get(memory, rank, offset, values);
        }
        let run = Run { there: at, here: 0, len: size_of_val(values) };
        // SAFETY: the run is inside the part, and covers exactly `values`. `values` is borrowed
        // exclusively for 'env, which outlives `Rma::batch`. Before that returns, all answers have
        // come or the ticket is given up, at the latest when this batch is dropped.
        let ticket =
            unsafe { self.rma.ask_far(&memory.table, rank, &[run], values.as_mut_ptr().cast()) }?;
        self.tickets.push(ticket);
        Ok(())
    }

    /// Like [`Rma::put`]. It completes locally, and the batch does not wait for it.
    ///
    /// # Errors
    /// As [`Rma::put`].
    pub fn put<T: Element>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        values: &[T],
    ) -> Result<(), RmaError> {
        self.rma.put(memory, rank, offset, values)
    }

    /// Like [`Rma::accumulate`].
    ///
    /// # Errors
    /// As [`Rma::accumulate`].
    pub fn accumulate<T: Number>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        offset: usize,
        factor: T,
        values: &[T],
    ) -> Result<(), RmaError> {
        self.rma.accumulate(memory, rank, offset, factor, values)
    }
}

impl Drop for Batch<'_, '_> {
    fn drop(&mut self) {
        for ticket in self.tickets.drain(..) {
            if let Syncs::Hosts(far) = &self.rma.sync {
                far.engine.give_up(ticket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_fabric::Team;

    #[test]
    fn an_operation_of_another_rma_is_not_taken_for_ones_own() {
        let ran = Team::hosts(2).quiet().run(|me| {
            let (mut first, mut second) = (Rma::new(me).unwrap(), Rma::new(me).unwrap());
            let memory = first.allocate::<u64>(me, 1000).unwrap();
            let other = 1 - me.rank();
            let reading = first.start_get(&memory, other, 0, vec![1; 1000]).unwrap();
            let asked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second.wait(reading)));
            first.sync().unwrap();
            asked.is_err()
        });
        assert_eq!(ran.unwrap(), [true; 2]);
    }
}
