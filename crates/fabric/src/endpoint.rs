//! A process's end of all messages: who receives, who is served, and how one waits for others on other hosts.
//!
//! # Contract
//! An [`Endpoint`] has the process's [`Wire`], and a list of [`Service`]s. A message is for one service of the receiving
//! process, which gets it in the order of each sender. Services have the same numbers in all processes, because members
//! attach them together, in the same order. What comes for one that is not attached yet is kept until it is.
//!
//! ```text
//!   members' threads          server thread (where there are other hosts)
//!     │ wait, enter             │ drive; sleeps when nothing comes
//!     ▼                         ▼
//!   ┌─ lock ────────────────────────────────────────────────┐
//!   │ wire.receive() ──> service by number ──> wire.send()   │   one thread at a time *drives*
//!   └────────────────────────────────────────────────────────┘
//! ```
//! Whoever waits drives: so a message is received by the thread that needs it, at once, and not by one that must be woken
//! first. If another thread drives already, a waiter only looks at what it waits for. Services must not block.
//!
//! # Costs
//! A look for messages is a lock that is mostly free, and a look of the wire. An idle server thread looks 1000 times a second;
//! while members of other processes of its host wait for others, some ten thousand times.
//!
//! # Who is gone
//! Servers of hosts send beats to one another when they have nothing else to say: see `heart`.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use syncline_signal::primitive::AtomicU64 as SharedU64;
use syncline_sync::{Array, Deaths, Fault, Space, SpaceError};

use crate::control::Control;
use crate::environment::Shape;
use crate::heart::Heart;
use crate::hosts::Hosts;
use crate::wire::{Wire, WireError};

/// What receives messages of a kind.
pub trait Service: Send + Sync + 'static {
    /// A message has come from a process. `body` is what was written behind [`Out::message`].
    fn receive(&self, from: usize, body: &[u8], out: &mut Out<'_>);

    /// Nothing more has come for the moment, or many messages have been received. Called often.
    fn idle(&self, _out: &mut Out<'_>) {}
}

/// The way out, for one service, of whoever has the endpoint's lock.
pub struct Out<'a> {
    wire: &'a mut dyn Wire,
    heart: &'a mut Heart,
    sent: &'a mut u64,
    service: u32,
}

/// Bytes before the body of every message: the number of its service.
const HEADER: usize = 8;

impl Out<'_> {
    /// A message for the same service of another process, to be written into.
    #[must_use]
    pub fn message(&mut self) -> Vec<u8> {
        let mut message = self.wire.buffer();
        message.clear();
        message.extend_from_slice(&u64::from(self.service).to_le_bytes());
        message
    }

    /// Sends what [`message`](Self::message) began. To one who is dead, nothing is sent.
    pub fn send(&mut self, to: usize, message: Vec<u8>) {
        debug_assert!(message.len() >= HEADER);
        *self.sent += 1;
        self.heart.said(to);
        if let Err(error) = self.wire.send(to, message) {
            self.heart.failed(&error);
        }
    }

    /// What was written behind [`message`](Self::message).
    #[must_use]
    pub fn body<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        message.get(HEADER..)
    }

    /// Messages that have been handed to the wire and have not left yet.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.wire.unsent()
    }
}

impl fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out").field("wire", &self.wire).field("service", &self.service).finish()
    }
}

/// A process's end of all messages: see the [module](self).
pub struct Endpoint {
    process: usize,
    hosts: Hosts,
    deaths: Deaths,
    state: Mutex<State>,
    /// Members of this process that wait, and so drive.
    waiting: AtomicU64,
    /// Members of this host that wait, in the memory of the host: the server is to be awake.
    attention: Array<SharedU64>,
    /// The server thread is to end.
    over: AtomicBool,
    wire: String,
}

struct State {
    wire: Box<dyn Wire>,
    heart: Heart,
    /// Messages of services that were sent.
    sent: u64,
    services: Vec<Attached>,
    /// What came for services that are not attached yet.
    early: HashMap<u32, Vec<(usize, Vec<u8>)>>,
}

/// A service, as what is called and as what it is.
#[derive(Clone)]
struct Attached {
    number: u32,
    service: Arc<dyn Service>,
    any: Arc<dyn Any + Send + Sync>,
}

/// What became of a look for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drove {
    /// Another thread drives.
    Other,
    /// Nothing was there.
    Idle,
    /// Something was.
    Progress,
}

/// So many messages are taken in one go.
const BURST: usize = 64;
/// The service of the endpoint itself.
const OWN: u32 = 0;

impl Endpoint {
    pub(crate) fn new(
        wire: Box<dyn Wire>,
        hosts: Hosts,
        space: &mut Space,
        control: &Control,
        shape: Shape,
        timeout: Duration,
    ) -> Result<Arc<Endpoint>, SpaceError> {
        let process = wire.process();
        let name = wire.describe();
        let heart = Heart::new(process, hosts.clone(), control.clone(), shape, timeout);
        let state = State { wire, heart, sent: 0, services: Vec::new(), early: HashMap::new() };
        Ok(Arc::new(Endpoint {
            process,
            hosts,
            deaths: control.deaths.clone(),
            state: Mutex::new(state),
            waiting: AtomicU64::new(0),
            attention: space.array(1)?,
            over: AtomicBool::new(false),
            wire: name,
        }))
    }

    /// What carries the messages, in words.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.wire
    }

    /// The hosts of the team.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The number of this process.
    #[must_use]
    pub fn process(&self) -> usize {
        self.process
    }

    /// How many messages the services of this process have sent. Beats are not among them.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// The service of that number, which the first to ask for it makes.
    ///
    /// # Panics
    /// If it is another kind of service: members did not attach the same things in the same order.
    pub(crate) fn attach<S: Service>(&self, number: u32, make: impl FnOnce() -> S) -> Arc<S> {
        assert_ne!(number, OWN, "the number of the endpoint's own service");
        let mut state = self.lock();
        let found = state.services.iter().find(|attached| attached.number == number);
        let attached = found.cloned().unwrap_or_else(|| {
            let service = Arc::new(make());
            let attached = Attached { number, service: service.clone(), any: service };
            state.services.push(attached.clone());
            for (from, message) in state.early.remove(&number).unwrap_or_default() {
                state.deliver(from, message);
            }
            attached
        });
        attached.any.downcast().expect("members attach the same services in the same order")
    }

    /// Something is done with the way out of a service, while nothing is received.
    pub fn enter<R>(&self, service: u32, work: impl FnOnce(&mut Out<'_>) -> R) -> R {
        let state = &mut *self.lock();
        work(&mut Out { wire: &mut *state.wire, heart: &mut state.heart, sent: &mut state.sent, service })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A service that has panicked has panicked a member, whom the others are told of.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives what is there, unless another thread does.
    pub(crate) fn drive(&self) -> Drove {
        match self.state.try_lock() {
            Ok(mut state) => state.drive(),
            Err(TryLockError::Poisoned(state)) => state.into_inner().drive(),
            Err(TryLockError::WouldBlock) => Drove::Other,
        }
    }

    /// Waits, and drives, until something is so.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], or [`Fault::Dead`] when anybody is dead. What is so already wins over both.
    pub fn wait(&self, deadline: Option<Instant>, mut until: impl FnMut() -> bool) -> Result<(), Fault> {
        if until() {
            return Ok(());
        }
        let _waiting = Waiting::new(self);
        let mut rest = Rest::new(WAITER);
        loop {
            let drove = self.drive();
            if until() {
                return Ok(());
            }
            if drove == Drove::Progress {
                rest = Rest::new(WAITER);
            }
            if let Some(rank) = self.deaths.after(0) {
                return if until() { Ok(()) } else { Err(Fault::Dead { rank }) };
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Fault::TimedOut);
            }
            rest.rest();
        }
    }

    /// Somebody who is dead, or given up.
    pub(crate) fn dead(&self) -> Option<Fault> {
        self.deaths.after(0).map(|rank| Fault::Dead { rank })
    }

    /// Starts the thread that serves this host.
    pub(crate) fn serve(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let endpoint = Arc::clone(self);
        let name = format!("server {}", self.hosts.of(self.process));
        thread::Builder::new().name(name).spawn(move || {
            exact_sleeps();
            let mut rest = Rest::new(SERVER);
            // Relaxed: a flag that stands for itself; what matters to both threads is under the lock.
            while !endpoint.over.load(Ordering::Relaxed) {
                if endpoint.drive() == Drove::Progress {
                    rest = Rest::new(SERVER);
                }
                // Those who wait in this process drive by themselves; those of other processes cannot.
                let here = endpoint.waiting.load(Ordering::Relaxed);
                let others = endpoint.attention[0].load(Ordering::Relaxed) > here;
                if here > 0 && !others {
                    thread::sleep(SERVER);
                } else {
                    rest.at_most(if others { WAITER } else { SERVER }).rest();
                }
            }
        })
    }

    /// All members of this process have ended: tells the others, and serves until they have ended, too.
    pub(crate) fn finish(&self, things: &[u64]) {
        let said = |state: &mut State| {
            let State { wire, heart, .. } = state;
            heart.bye(&mut **wire, things);
        };
        said(&mut self.lock());
        let mut rest = Rest::new(WAITER);
        let mut over = None;
        loop {
            if self.drive() == Drove::Progress {
                rest = Rest::new(WAITER);
            }
            let state = self.lock();
            if state.heart.all_over() {
                // What is for the dead does not leave; what is for others has some time for that.
                let since: Instant = *over.get_or_insert_with(Instant::now);
                if state.wire.unsent() == 0 || self.dead().is_some() && since.elapsed() > LAST_WORDS {
                    break;
                }
            }
            drop(state);
            rest.rest();
        }
        self.over.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { process, hosts, wire, .. } = self;
        f.debug_struct("Endpoint")
            .field("process", process)
            .field("hosts", hosts)
            .field("wire", wire)
            .finish()
    }
}

impl State {
    fn drive(&mut self) -> Drove {
        let mut drove = Drove::Idle;
        for _ in 0..BURST {
            match self.wire.receive() {
                Ok(Some((from, message))) => {
                    drove = Drove::Progress;
                    self.heart.heard(from);
                    self.deliver(from, message);
                }
                Ok(None) => break,
                Err(error) => {
                    self.heart.failed(&error);
                    if !matches!(error, WireError::Gone { .. }) {
                        break;
                    }
                }
            }
        }
        // After a burst as well: who streams must not keep others from what they are owed.
        self.idle();
        self.heart.beat(&mut *self.wire, Instant::now());
        drove
    }

    fn idle(&mut self) {
        let State { wire, heart, sent, services, .. } = self;
        for Attached { number, service, .. } in services {
            service.idle(&mut Out { wire: &mut **wire, heart, sent, service: *number });
        }
    }

    fn deliver(&mut self, from: usize, message: Vec<u8>) {
        let State { wire, heart, sent, services, early } = self;
        let Some((head, body)) = message.split_first_chunk::<HEADER>() else {
            return heart.garbled(from, &message);
        };
        let number = u64::from_le_bytes(*head) as u32;
        if number == OWN {
            heart.receive(from, body);
        } else if let Some(attached) = services.iter().find(|attached| attached.number == number) {
            attached.service.receive(
                from,
                body,
                &mut Out { wire: &mut **wire, heart, sent, service: number },
            );
        } else {
            early.entry(number).or_default().push((from, message));
            return;
        }
        wire.recycle(message);
    }
}

/// The start of a message of the endpoint itself.
pub(crate) fn own_message(wire: &mut dyn Wire) -> Vec<u8> {
    let mut message = wire.buffer();
    message.clear();
    message.extend_from_slice(&u64::from(OWN).to_le_bytes());
    message
}

/// A member that waits: the server is to be awake, unless it is of this process.
struct Waiting<'a>(&'a Endpoint);

impl<'a> Waiting<'a> {
    fn new(endpoint: &'a Endpoint) -> Self {
        // Relaxed, here and below: hints for the server thread, which looks again soon.
        endpoint.waiting.fetch_add(1, Ordering::Relaxed);
        endpoint.attention[0].fetch_add(1, Ordering::Relaxed);
        Waiting(endpoint)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.attention[0].fetch_sub(1, Ordering::Relaxed);
    }
}

/// The longest sleep of one who waits, and of a server for whom there is nothing.
const WAITER: Duration = Duration::from_micros(100);
const SERVER: Duration = Duration::from_millis(1);
/// So long a process that ends goes on to send, if others are dead.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// So many yields come before the first sleep, which is so long.
const YIELDS: u32 = 50;
const SLEEP: Duration = Duration::from_micros(5);

/// Looks in vain: yields first, then sleeps, each longer than the last: for one who waits by a quarter, so that it comes late
/// by a quarter of how long it has waited, at most; for a server twice.
struct Rest {
    yields: u32,
    sleep: Duration,
    most: Duration,
}

impl Rest {
    fn new(most: Duration) -> Rest {
        Rest { yields: YIELDS, sleep: SLEEP, most }
    }

    fn at_most(&mut self, most: Duration) -> &mut Self {
        self.most = most;
        self
    }

    fn rest(&mut self) {
        if self.yields > 0 {
            self.yields -= 1;
            thread::yield_now();
        } else {
            thread::sleep(self.sleep.min(self.most));
            let longer = if self.most == SERVER { 2 * self.sleep } else { self.sleep * 5 / 4 };
            self.sleep = longer.min(self.most);
        }
    }
}

/// Sleeps of this thread end when they should, and not up to 50 microseconds later.
pub(crate) fn exact_sleeps() {
    // Refused, it is only slower.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
