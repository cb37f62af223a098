//! A member's operations on memory of other hosts: requests and answers, fences, and its part in
//! syncs.
//!
//! # Contract
//! For each server, a member keeps a mark: the number of the last request that it has sent there
//! and that changes memory. A fence waits until that request is acknowledged. The `engine` counts
//! the requests that the process as a whole has sent and that are acknowledged.
//!
//! ```text
//!   request(server) ──> engine.sent[server] = n ──> marks[server] = n
//!   fence(server): wait until engine.acked[server] >= marks[server]
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::{board::TeamBoard, endpoint::Endpoint};
use syncline_sync::{Fault, board::SignalBoard as _, call_matching::Blocking};
use syncline_trace::{Activity, is_enabled, note::ObjectClass, span};

use crate::engine::{Data, Engine, Request};
use crate::error::RmaError;
use crate::handle::HandleState;
use crate::message::{HEAD, RequestKind, push};
use crate::rma::Window;

/// The state of a member of a team on several hosts.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) service: u32,
    pub(crate) engine: Arc<Engine>,
    /// Reports members that have left, and calls that do not match. Its flags are not used.
    pub(crate) board: TeamBoard,
    /// The number of syncs that this member has begun.
    pub(crate) begun: u64,
    /// By server: the number of requests that have to be acknowledged at the next fence; 0 if none.
    pub(crate) marks: Vec<u64>,
    /// The servers whose mark is not 0.
    pub(crate) touched: Vec<usize>,
    /// The servers and their marks when the last sync began: the requests that this sync completes.
    covered: Vec<(usize, u64)>,
}

impl Far {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        service: u32,
        engine: Arc<Engine>,
        board: TeamBoard,
    ) -> Far {
        board.traced().name(ObjectClass::Barrier, "sync");
        let marks = vec![0; endpoint.hosts().servers().len()];
        let (touched, covered) = (Vec::new(), Vec::new());
        Far { endpoint, service, engine, board, begun: 0, marks, touched, covered }
    }

    /// Sends a request about a part of global memory. If it changes memory, the next fence waits
    /// for it.
    pub(crate) fn request(
        &mut self,
        server: usize,
        request: Request<'_>,
        size: usize,
        data: Data<'_>,
    ) -> Result<(), Fault> {
        let parity = (self.begun % 2) as u8;
        let changes = request.kind.changes();
        let request = Request { parity, ..request };
        self.engine.request(&self.endpoint, self.service, request, server, size, data)?;
        if changes {
            self.mark(server);
        }
        Ok(())
    }

    fn mark(&mut self, server: usize) {
        if self.marks[server] == 0 {
            self.touched.push(server);
        }
        self.marks[server] = self.engine.sent(server);
    }

    /// Waits for all answers to a request.
    pub(crate) fn answer(&self, ticket: u64) -> Result<u128, RmaError> {
        self.answer_unless(ticket, || Ok(()))
    }

    /// Like [`answer`](Self::answer), and stops with the error of `lost` when that returns one.
    pub(crate) fn answer_unless(
        &self,
        ticket: u64,
        lost: impl Fn() -> Result<(), RmaError>,
    ) -> Result<u128, RmaError> {
        let waits = is_enabled().then(|| span(Activity::AwaitMessage, self.engine.peer(ticket), 0));
        let (mut value, mut ended) = (None, Ok(()));
        let waited = self.endpoint.wait(None, || {
            value = value.take().or_else(|| self.engine.answered(ticket));
            if value.is_none() {
                ended = lost();
            }
            ended.is_err() || value.is_some() && self.engine.is_level()
        });
        drop(waits);
        if waited.is_err() || ended.is_err() {
            self.engine.give_up(ticket);
        }
        waited?;
        ended?;
        value.unwrap_or(Ok(0))
    }

    /// Returns the value of an operation if it is done. Does not wait for it.
    pub(crate) fn look(&self, state: HandleState) -> Result<Option<u128>, RmaError> {
        if let HandleState::Sent(server, mark) = state
            && !self.engine.acked(server, mark)
            && self.engine.room(server, HEAD as u64)
        {
            self.prompt(server, mark)?;
        }
        let mut value = None;
        let looked = self.endpoint.wait(Some(Instant::now()), || {
            value = value.take().or_else(|| match state {
                HandleState::Done => Some(Ok(0)),
                HandleState::Sent(server, mark) => self.engine.acked(server, mark).then_some(Ok(0)),
                HandleState::Asked(ticket) => self.engine.answered(ticket),
            });
            value.is_some()
        });
        match (looked, value) {
            (_, Some(value)) => {
                // This wait is short: see `Engine::is_level`.
                self.endpoint.wait(None, || self.engine.is_level())?;
                self.refusals()?;
                value.map(Some)
            }
            (Err(Fault::TimedOut) | Ok(()), None) => Ok(None),
            (Err(fault), None) => Err(fault.into()),
        }
    }

    /// Returns the error of a request without an answer that was refused since the last call.
    pub(crate) fn refusals(&self) -> Result<(), RmaError> {
        self.engine.refused().map_or(Ok(()), Err)
    }

    /// Asks a server to acknowledge `mark` requests, unless it has done so or an answer in flight
    /// will.
    fn prompt(&self, server: usize, mark: u64) -> Result<(), Fault> {
        if self.engine.acked(server, mark) || self.engine.is_asked(server, mark) {
            return Ok(());
        }
        // The answer has no ticket: only the acknowledgement that it carries matters.
        self.engine.request(
            &self.endpoint,
            self.service,
            Request::new(RequestKind::Fence),
            server,
            0,
            Data::Within(&|_| ()),
        )
    }

    /// Waits until `mark` requests to a server are acknowledged.
    pub(crate) fn acknowledged(&self, server: usize, mark: u64) -> Result<(), RmaError> {
        let _waits = span(Activity::AwaitFence, self.engine.process_of(server), 0);
        self.prompt(server, mark)?;
        Ok(self.endpoint.wait(None, || self.engine.acked(server, mark))?)
    }

    pub(crate) fn fence(&mut self, server: usize) -> Result<(), RmaError> {
        let mark = self.marks[server];
        if mark == 0 {
            return Ok(());
        }
        self.acknowledged(server, mark)?;
        self.marks[server] = 0;
        self.touched.retain(|&other| other != server);
        self.refusals()
    }

    pub(crate) fn fence_all(&mut self) -> Result<(), RmaError> {
        let waits = span(Activity::AwaitFence, u32::MAX, 0);
        let (engine, marks) = (&self.engine, &self.marks);
        self.touched.iter().try_for_each(|&server| self.prompt(server, marks[server]))?;
        self.endpoint.wait(None, || {
            self.touched.iter().all(|&server| engine.acked(server, marks[server]))
        })?;
        drop(waits);
        for server in self.touched.drain(..) {
            self.marks[server] = 0;
        }
        self.refusals()
    }

    pub(crate) fn ask_all(&mut self, window: Window, rank: u64) -> Result<(), RmaError> {
        let _waits = span(Activity::AwaitFence, u32::MAX, 0);
        let mut servers = std::mem::take(&mut self.touched);
        if window.random {
            // Each member asks the servers in a pseudo-random order of its own.
            let mut state = (rank + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.begun;
            for last in (1..servers.len()).rev() {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                servers.swap(last, (state >> 33) as usize % (last + 1));
            }
        }
        let asked = servers.chunks(window.k.max(1)).try_for_each(|group| self.ask_each(group));
        match asked {
            Ok(()) => servers.into_iter().for_each(|server| self.marks[server] = 0),
            // It is unknown which requests are done: the next fence waits for all of them.
            Err(_) => self.touched = servers,
        }
        asked
    }

    fn ask_each(&mut self, servers: &[usize]) -> Result<(), RmaError> {
        let ask = |&server: &usize| self.ask_about(RequestKind::Fence, server, 0, 0, [0; 2]);
        let asked = servers.iter().map(ask).collect::<Vec<_>>();
        let mut failed = None;
        for ticket in asked {
            // All tickets are taken back, also after an error.
            if let Err(error) = ticket.and_then(|ticket| self.answer(ticket)) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends a request about a mutex or a fence whose answer has no data. Returns its ticket.
    pub(crate) fn ask_about(
        &mut self,
        kind: RequestKind,
        server: usize,
        allocation: u32,
        rank: usize,
        words: [u64; 2],
    ) -> Result<u64, RmaError> {
        let ticket = self.engine.ask(VecDeque::from([Vec::new()]));
        let request = Request { allocation, rank, ticket, ..Request::new(kind) };
        let write = |message: &mut Vec<u8>| words.into_iter().for_each(|word| push(message, word));
        let sent = self.request(server, request, 16, Data::Within(&write));
        if let Err(fault) = sent {
            self.engine.give_up(ticket);
            return Err(fault.into());
        }
        Ok(ticket)
    }

    /// Sends a request that has no answer.
    pub(crate) fn tell_about(
        &mut self,
        kind: RequestKind,
        server: usize,
        allocation: u32,
        rank: usize,
        words: [u64; 2],
    ) -> Result<(), RmaError> {
        let request = Request { allocation, rank, ..Request::new(kind) };
        let write = |message: &mut Vec<u8>| words.into_iter().for_each(|word| push(message, word));
        self.request(server, request, 16, Data::Within(&write))?;
        Ok(())
    }

    pub(crate) fn start(&mut self) {
        if self.board.episodes() < self.begun {
            return; // it has arrived already, as in barriers
        }
        self.begun += 1;
        if let Some(caller) = self.board.caller() {
            caller.arrive(self.begun);
        }
        self.covered.clear();
        self.covered.extend(self.touched.iter().map(|&server| (server, self.marks[server])));
        let words = &self.engine.words;
        let members = self.engine.members();
        // Release, in `increment`: the process that begins the exchange sees what this member did.
        if words.arrived().increment() == self.begun * members {
            self.endpoint.enter(self.service, |out| self.engine.arrived(out));
        }
    }

    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> Result<(), RmaError> {
        if self.board.episodes() == self.begun {
            return Ok(());
        }
        let (completed, begun) = (self.engine.words.completed(), self.begun);
        let blocking = Blocking::new(self.board.caller(), begun, deadline);
        let waited = self.endpoint.wait_in(&blocking, deadline, || {
            completed.get() >= begun || self.board.missing().is_some()
        });
        drop(blocking);
        if completed.get() < begun {
            waited?;
            return Err(self.board.missing().unwrap_or(Fault::TimedOut).into());
        }
        self.board.complete();
        for (server, mark) in self.covered.drain(..) {
            // If the mark differs, something was sent there after the sync began.
            if self.marks[server] == mark {
                self.marks[server] = 0;
            }
        }
        self.touched.retain(|&server| self.marks[server] != 0);
        self.refusals()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // A sync at which the member has arrived needs nothing more of it: the engine completes the
        // sync. So the member counts as having left after that sync.
        if self.board.episodes() < self.begun {
            self.board.complete();
        }
    }
}

impl Request<'_> {
    pub(crate) fn new(kind: RequestKind) -> Self {
        Request {
            kind,
            detail: 0,
            parity: 0,
            allocation: 0,
            rank: 0,
            ticket: 0,
            pieces: &[],
            answer: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rma::Rma;
    use syncline_fabric::Member;
    use syncline_fabric::Team;

    /// A member that arrives twice counts once: otherwise the others would pass without another
    /// member.
    fn arrives_twice(me: &mut Member) -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u64>(me, 1)?;
        let (rank, size) = (me.rank(), me.size());
        for round in 1..=50_u64 {
            rma.put(&memory, (rank + 1) % size, 0, &[round])?;
            if rank == 0 {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            rma.sync_start()?;
            rma.sync_start()?;
            if round % 2 == 0 {
                rma.sync()?;
            } else {
                rma.sync_wait(None)?;
            }
            let mut word = [0];
            rma.get(&memory, rank, 0, &mut word)?;
            assert_eq!(word, [round]);
            rma.sync()?;
        }
        Ok(())
    }

    #[test]
    fn a_sync_that_is_started_twice_is_one() {
        for result in Team::threads(3).quiet().run(arrives_twice).unwrap() {
            result.unwrap();
        }
        for result in Team::hosts(2).threads(2).quiet().run(arrives_twice).unwrap() {
            result.unwrap();
        }
    }
}
