//! A transport over MPI messages.
//!
//! At most [`RECEIVING`] messages are received at the same time, each into a reused buffer. A
//! process that MPI reports as failed (ULFM) is reported once; any other error means that the
//! transport is broken.

use std::collections::VecDeque;

use syncline_mpi::{
    Communicator, MpiError,
    error::ErrorClass,
    message::{Receiving, Sending},
};

use super::{Transport, TransportError};

/// The tag of messages.
const TAG: u16 = 1;
/// The maximum number of buffers to keep.
const SPARE: usize = 64;
/// The maximum number of messages that are received at the same time; further messages wait.
const RECEIVING: usize = 16;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MpiTransport {
    world: Communicator,
    name: String,
    sending: VecDeque<Sending>,
    /// Messages that have been found and are not complete: long messages, whose senders may stop in
    /// the middle.
    receiving: VecDeque<(usize, Receiving)>,
    spare: Vec<Vec<u8>>,
    /// The processes that MPI has reported as failed, and those of them that are not yet reported
    /// by `receive`.
    failed: Vec<usize>,
    untold: VecDeque<usize>,
}

impl MpiTransport {
    /// Creates the transport of the processes of a communicator, which it owns. `name` is that of
    /// the MPI.
    pub(crate) fn new(world: Communicator, name: String) -> MpiTransport {
        MpiTransport {
            world,
            name,
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
            spare: Vec::new(),
            failed: Vec::new(),
            untold: VecDeque::new(),
        }
    }

    /// Converts an error of MPI.
    fn error(&mut self, what: &'static str, error: &MpiError) -> TransportError {
        if error.fault() == Some(ErrorClass::ProcessFailed) {
            for process in self.world.failures().unwrap_or_default() {
                if !self.failed.contains(&process) {
                    self.failed.push(process);
                    self.untold.push_back(process);
                }
            }
            // A process that has been reported already is reported again to a caller that sends to
            // it.
            if let Some(process) = self.untold.pop_front().or(self.failed.last().copied()) {
                return TransportError::Gone { process };
            }
        }
        TransportError::Broken { transport: self.name.clone(), what, why: error.to_string() }
    }

    /// Continues sends that have not completed, and takes buffers back from those that have.
    fn sent(&mut self) -> Result<(), TransportError> {
        while let Some(sending) = self.sending.front_mut() {
            match sending.test() {
                Ok(false) => break,
                Ok(true) => {
                    let sending = self.sending.pop_front().map(Sending::wait);
                    if let Some(Ok(buffer)) = sending {
                        self.recycle(buffer);
                    }
                }
                Err(error) => {
                    self.sending.pop_front();
                    return Err(self.error("send a message", &error));
                }
            }
        }
        Ok(())
    }
}

impl MpiTransport {
    /// Returns the first message that is complete, and behind no other message of its sender.
    fn received(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        for at in 0..self.receiving.len() {
            let from = self.receiving[at].0;
            if self.receiving.range(..at).any(|&(other, _)| other == from) {
                continue;
            }
            match self.receiving[at].1.test() {
                Ok(false) => (),
                Ok(true) => {
                    let received = self.receiving.remove(at).map(|(_, receiving)| receiving.wait());
                    let bytes = received
                        .transpose()
                        .map_err(|error| self.error("receive a message", &error))?;
                    return Ok(bytes.map(|bytes| (from, bytes)));
                }
                Err(error) => {
                    self.receiving.remove(at);
                    return Err(self.error("receive a message", &error));
                }
            }
        }
        Ok(None)
    }
}

impl Transport for MpiTransport {
    fn process(&self) -> usize {
        self.world.rank()
    }

    fn processes(&self) -> usize {
        self.world.size()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError> {
        match self.world.isend(to, TAG, message) {
            Ok(sending) => {
                self.sending.push_back(sending);
                Ok(())
            }
            Err(error) => Err(self.error("send a message", &error)),
        }
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        if let Some(process) = self.untold.pop_front() {
            return Err(TransportError::Gone { process });
        }
        self.sent()?;
        while self.receiving.len() < RECEIVING {
            let probed = self.world.probe(TAG);
            let Some(message) = probed.map_err(|error| self.error("look for a message", &error))?
            else {
                break;
            };
            let (from, buffer) = (message.source(), self.spare.pop().unwrap_or_default());
            let started = message.start(buffer);
            let started = started.map_err(|error| self.error("receive a message", &error))?;
            self.receiving.push_back((from, started));
            if let Some(received) = self.received()? {
                return Ok(Some(received));
            }
        }
        self.received()
    }

    fn unsent(&self) -> usize {
        self.sending.len()
    }
}
