//! The state of an endpoint that its lock guards: one thread at a time drives it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::{Driver, Drove, Out, Service};
use crate::coalesce::{self, Coalescer};
use crate::failure_detector::{FailureDetector, OWN};
use crate::long::{self, Ended, LongMessages, Way};
use crate::transport::{Transport, TransportError};
use crate::wait_reports::WaitReports;

/// The maximum number of messages that are received in one poll.
const BURST: usize = 64;

/// See the [module](self).
pub(super) struct State {
    pub(super) transport: Box<dyn Transport>,
    pub(super) detector: FailureDetector,
    pub(super) reports: WaitReports,
    pub(super) coalescer: Coalescer,
    pub(super) long: LongMessages,
    /// Whether messages that members post are kept until a member sends or waits.
    pub(super) keeps: bool,
    /// Whether a member has posted or sent a message since a thread last drove.
    pub(super) fresh: bool,
    /// Whether this process has a server thread.
    pub(super) served: bool,
    pub(super) services: Vec<Attached>,
    /// The messages for services that are not attached yet.
    pub(super) early: HashMap<u32, Vec<Early>>,
}

/// A message for a service that is not attached yet.
pub(super) struct Early {
    pub(super) from: usize,
    /// The body, or the header of a long message.
    pub(super) body: Vec<u8>,
    /// Of a long message: its length, and its number in `LongMessages`.
    pub(super) long: Option<(usize, u64)>,
}

/// An attached service, as a service to call and as a value to downcast.
#[derive(Clone)]
pub(super) struct Attached {
    pub(super) number: u32,
    pub(super) service: Arc<dyn Service>,
    pub(super) any: Arc<dyn Any + Send + Sync>,
}

impl State {
    pub(super) fn out(&mut self, service: u32) -> Out<'_> {
        let State { transport, detector, coalescer, long, .. } = self;
        Out { transport: &mut **transport, detector, coalescer, long, service }
    }

    pub(super) fn send_all(&mut self) {
        let State { transport, detector, coalescer, long, .. } = self;
        coalescer.send_all(&mut **transport, detector);
        // After the frames that announce them.
        if let Err(error) = long.begin(&mut **transport) {
            detector.failed(&error);
        }
    }

    /// Advances long messages, and reports those that have ended. Returns whether there was
    /// progress.
    fn advance_long(&mut self) -> bool {
        let State { transport, detector, long, .. } = self;
        let mut any = false;
        if !long.is_idle() {
            if let Err(error) = long.begin(&mut **transport) {
                detector.failed(&error);
            }
            match long.advance(&mut **transport) {
                Ok(done) => any = done,
                Err(error) => detector.failed(&error),
            }
            long.give_up(&mut **transport, |process| detector.has_died(process));
        }
        while let Some(Ended { service, process, token, way, place }) = self.long.next_ended() {
            any = true;
            let found = self.services.iter().find(|attached| attached.number == service);
            let Some(attached) = found.map(|attached| Arc::clone(&attached.service)) else {
                continue;
            };
            let out = &mut self.out(service);
            match (place, way) {
                (Some(place), Way::Out) => attached.sent(process, token, place, out),
                (Some(place), Way::In) => attached.landed(process, token, place, out),
                (None, way) => attached.given_up(process, token, way, out),
            }
        }
        any
    }

    pub(super) fn drive(&mut self, driver: Driver) -> Drove {
        let mut drove = Drove::Idle;
        if std::mem::take(&mut self.fresh) {
            self.keeps = driver == Driver::Member;
        }
        // First, since a waiter waits for an answer to these messages.
        self.send_all();
        for _ in 0..BURST {
            match self.transport.receive() {
                Ok(Some((from, message))) => {
                    drove = Drove::Progress;
                    self.detector.heard(from);
                    self.open(from, message);
                }
                Ok(None) => break,
                Err(error) => {
                    self.detector.failed(&error);
                    if !matches!(error, TransportError::Gone { .. }) {
                        break;
                    }
                }
            }
        }
        if self.advance_long() {
            drove = Drove::Progress;
        }
        // After a burst as well: a process that streams must not delay the answers to others.
        self.idle();
        self.send_all();
        if drove == Drove::Idle && !self.long.is_idle() {
            drove = Drove::Moving;
        }
        let now = Instant::now();
        let State { transport, detector, reports, .. } = self;
        if detector.is_quiet() {
            return drove;
        }
        detector.tell_verdict(&mut **transport);
        detector.beat(&mut **transport, now);
        reports.go(now, |to, words| {
            // The note may be about a member that has ended because of the verdict.
            detector.tell_verdict(&mut **transport);
            detector.send(&mut **transport, to, words);
        });
        drove
    }

    fn idle(&mut self) {
        let State { transport, detector, coalescer, long, services, .. } = self;
        for Attached { number, service, .. } in services {
            service.idle(&mut Out {
                transport: &mut **transport,
                detector,
                coalescer,
                long,
                service: *number,
            });
        }
    }

    fn open(&mut self, from: usize, message: Vec<u8>) {
        let mut left = &*message;
        while !left.is_empty() {
            let Some((service, body, rest)) = coalesce::first(left) else {
                self.detector.garbled(from, left);
                break;
            };
            left = rest;
            match long::announced(service, body) {
                None => self.deliver(from, service, body),
                Some((service, header, len)) => self.announced(from, service, header, len),
            }
        }
        self.transport.recycle(message);
    }

    pub(super) fn deliver(&mut self, from: usize, number: u32, body: &[u8]) {
        if number == OWN {
            let words = body.chunks_exact(8);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            if !self.reports.receive(&words.collect::<Vec<_>>()) {
                self.detector.receive(from, body);
            }
            return;
        }
        let State { transport, detector, coalescer, long, services, early, .. } = self;
        match services.iter().find(|attached| attached.number == number) {
            Some(attached) => {
                let transport = &mut **transport;
                let out = &mut Out { transport, detector, coalescer, long, service: number };
                attached.service.receive(from, body, out);
            }
            None => {
                let body = body.to_vec();
                early.entry(number).or_default().push(Early { from, body, long: None });
            }
        }
    }

    /// Receives the announcement of a long message.
    fn announced(&mut self, from: usize, number: u32, header: &[u8], len: usize) {
        if self.detector.has_died(from) {
            return;
        }
        let State { transport, detector, coalescer, long, services, early, .. } = self;
        match services.iter().find(|attached| attached.number == number) {
            Some(attached) => {
                let transport = &mut **transport;
                let out =
                    &mut Out { transport, detector, coalescer, long: &mut *long, service: number };
                let landing = attached.service.receive_long(from, header, len, out);
                assert_eq!(landing.place.len(), len, "the place of a long message has its length");
                long.receive(from, number, landing);
            }
            None => {
                let long = Some((len, long.receive_early(from, len)));
                let body = header.to_vec();
                early.entry(number).or_default().push(Early { from, body, long });
            }
        }
    }
}
