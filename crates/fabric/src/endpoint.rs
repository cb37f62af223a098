//! A process's end of all messages: who receives, who is served, and how one waits for others on other hosts.
//!
//! # Contract
//! An [`Endpoint`] has the process's [`Transport`], and a list of [`Service`]s. A message is for one service of the receiving
//! process, which gets it in the order of each sender. Services have the same numbers in all processes, because members
//! attach them together, in the same order. What comes for one that is not attached yet is kept until it is.
//!
//! ```text
//!   members' threads          server thread (where there are other hosts)
//!     │ wait, enter             │ drive; sleeps when nothing comes
//!     ▼                         ▼
//!   ┌─ lock ────────────────────────────────────────────────┐
//!   │ transport.receive() ──> service by number ──> transport.send()   │   one thread at a time *drives*
//!   └────────────────────────────────────────────────────────┘
//! ```
//! Whoever waits drives: so a message is received by the thread that needs it, at once, and not by one that must be woken
//! first. If another thread drives already, a waiter only looks at what it waits for. Services must not block.
//!
//! # When messages leave
//! Messages to the same process go in one `parcel` where they can. What is sent while messages are received leaves when
//! those that were there have been received. What a member [posts](Endpoint::post) may be kept until a member of its process
//! sends something else or waits, as most do soon. The server thread, which looks a thousand times a second, sends what it
//! finds, and takes it for a sign that members compute; then nothing is kept, until a member waits again right after it has
//! posted something.
//!
//! ```text
//!                    a member waits: it sends
//!        ┌────────┐ <──────────────────────── ┌────────┐
//!   ●──> │ keeps  │                           │ sends  │
//!        └────────┘ ────────────────────────> └────────┘
//!                    the server has found something
//! ```
//! A process without a server thread keeps nothing.
//!
//! # Processes that do not serve
//! A host has a server thread in one of its processes. The others receive while their members wait,
//! and only then. That is enough where a message is needed by the member that it goes to. Where
//! others need what a service does with it, the member asks for a thread:
//! [`Endpoint::keep_serving`].
//!
//! # Costs
//! A look for messages is a lock that is mostly free, and a look of the wire. An idle server thread looks 1000 times a second,
//! after a tenth of a second 500 times; while members of other processes of its host wait for others, some ten thousand times.
//!
//! # Who is gone
//! Servers of hosts send beats to one another when they have nothing else to say: see `detector`.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use syncline_process::Generation;
use syncline_signal::poll_schedule::PollSchedule;
use syncline_signal::primitive::AtomicU64 as SharedU64;
use syncline_sync::{
    Fault, Space, SpaceError, calls::Blocking, membership::FaultList, space::Array,
};

use crate::coalesce::{self, Coalescer};
use crate::environment::Shape;
use crate::failure_detector::{FailureDetector, OWN};
use crate::hosts::Hosts;
use crate::team_state::TeamState;
use crate::transport::{Transport, TransportError};
use crate::wait_reports::WaitReports;

/// What receives messages of a kind.
pub trait Service: Send + Sync + 'static {
    /// A message has come from a process. `body` is what was written behind [`Out::message`].
    fn receive(&self, from: usize, body: &[u8], out: &mut Out<'_>);

    /// Nothing more has come for the moment, or many messages have been received. Called often.
    fn idle(&self, _out: &mut Out<'_>) {}
}

/// The way out, for one service, of the thread that has the endpoint's lock.
pub struct Out<'a> {
    transport: &'a mut dyn Transport,
    detector: &'a mut FailureDetector,
    coalescer: &'a mut Coalescer,
    service: u32,
}

impl Out<'_> {
    /// A message for the same service of another process, to be written into.
    #[must_use]
    pub fn message(&mut self) -> Vec<u8> {
        coalesce::begin(self.transport, self.service)
    }

    /// Sends what [`message`](Self::message) began, with others to the same process. To one who is dead, nothing is sent.
    pub fn send(&mut self, to: usize, message: Vec<u8>) {
        debug_assert!(message.len() >= coalesce::HEADER);
        self.coalescer.add(self.transport, self.detector, to, message);
    }

    /// What was written behind [`message`](Self::message).
    #[must_use]
    pub fn body<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        message.get(coalesce::HEADER..)
    }
}

impl fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out")
            .field("wire", &self.transport)
            .field("service", &self.service)
            .finish()
    }
}

/// A process's end of all messages: see the [module](self).
pub struct Endpoint {
    process: usize,
    /// That of the process whose end it is, and the rank of the first member of that.
    born: Generation,
    first: usize,
    hosts: Hosts,
    fault_list: FaultList,
    state: Mutex<State>,
    /// Members of this process that wait, and so drive.
    waiting: AtomicU64,
    /// Members of this host that wait, in the memory of the host: the server is to be awake.
    attention: Array<SharedU64>,
    /// The server thread is to end.
    over: AtomicBool,
    /// Other threads than those of members may use the wire.
    threaded: AtomicBool,
    /// The thread that was started by `keep_serving`.
    more: Mutex<Option<JoinHandle<()>>>,
    transport: String,
}

struct State {
    transport: Box<dyn Transport>,
    detector: FailureDetector,
    spread: WaitReports,
    coalescer: Coalescer,
    /// What members post is kept until one sends or waits.
    keeps: bool,
    /// A member has posted or sent something since anybody last drove.
    fresh: bool,
    /// This process has a server thread.
    served: bool,
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

/// Who drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Member,
    Server,
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

impl Endpoint {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        hosts: Hosts,
        space: &mut Space,
        control: &TeamState,
        shape: Shape,
        timeout: Duration,
    ) -> Result<Arc<Endpoint>, SpaceError> {
        let process = transport.process();
        let name = transport.describe();
        let detector =
            FailureDetector::new(process, hosts.clone(), control.clone(), shape, timeout);
        let spread = WaitReports::new(process, &hosts, control, shape);
        let coalescer = Coalescer::new(transport.processes());
        let (services, early) = (Vec::new(), HashMap::new());
        let (keeps, fresh, served) = (true, false, false);
        let state =
            State { transport, detector, spread, coalescer, keeps, fresh, served, services, early };
        Ok(Arc::new(Endpoint {
            process,
            born: Generation::current(),
            first: shape.ranks(process).start,
            hosts,
            fault_list: control.fault_list.clone(),
            state: Mutex::new(state),
            waiting: AtomicU64::new(0),
            attention: space.array(1)?,
            over: AtomicBool::new(false),
            threaded: AtomicBool::new(false),
            more: Mutex::default(),
            transport: name,
        }))
    }

    /// What carries the messages, in words.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.transport
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

    /// How many messages of services have left this process, those that went together as one. Beats are not among them.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.lock().coalescer.sent()
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
            for (from, body) in state.early.remove(&number).unwrap_or_default() {
                state.deliver(from, number, &body);
            }
            state.send_all();
            attached
        });
        attached.any.downcast().expect("members attach the same services in the same order")
    }

    /// Whether this process is the one whose endpoint it is, and not a child that `fork` has made
    /// of it. In such a child the lock may be with a thread that is not there, and the wire is the
    /// parent's.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> bool {
        self.born.is_current()
    }

    /// Something is done with the way out of a service, while nothing is received.
    ///
    /// # Panics
    /// In a child that `fork` has made of the process.
    pub fn enter<R>(&self, service: u32, work: impl FnOnce(&mut Out<'_>) -> R) -> R {
        let state = &mut *self.lock();
        let result = work(&mut state.out(service));
        state.fresh = true;
        state.send_all();
        result
    }

    /// The same, and what it sends may leave with what is sent next: for what nobody waits for yet. See the [module](self).
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    pub fn post<R>(&self, service: u32, work: impl FnOnce(&mut Out<'_>) -> R) -> R {
        let state = &mut *self.lock();
        let result = work(&mut state.out(service));
        state.fresh = true;
        if !(state.keeps && state.served) {
            state.send_all();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        assert!(
            self.check_not_forked(),
            "a child made by fork() has no part in the messages of its parent"
        );
        // A service that has panicked has panicked a member, whom the others are told of.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives what is there, unless another thread does.
    pub(crate) fn drive(&self) -> Drove {
        self.drive_as(Driver::Member)
    }

    fn drive_as(&self, driver: Driver) -> Drove {
        if !self.check_not_forked() {
            return Drove::Other;
        }
        match self.state.try_lock() {
            Ok(mut state) => state.drive(driver),
            Err(TryLockError::Poisoned(state)) => state.into_inner().drive(driver),
            Err(TryLockError::WouldBlock) => Drove::Other,
        }
    }

    /// Waits, and drives, until something is so.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], or what was seen of the first member that is gone. What is so already
    /// wins over both. [`Fault::Forked`] in a child that `fork` has made of the process.
    #[inline]
    pub fn wait(
        &self,
        deadline: Option<Instant>,
        until: impl FnMut() -> bool,
    ) -> Result<(), Fault> {
        self.wait_in(&Blocking::new(None, 0, deadline), deadline, until)
    }

    /// The same, where all members wait for one another.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); [`Fault::Mismatch`] if that will never be so.
    pub fn wait_in(
        &self,
        blocking: &Blocking<'_>,
        deadline: Option<Instant>,
        mut until: impl FnMut() -> bool,
    ) -> Result<(), Fault> {
        if !self.check_not_forked() {
            return Err(Fault::Forked { rank: self.first });
        }
        if until() {
            return Ok(());
        }
        let mut look = Instant::now() + LOOK;
        let _waiting = Waiting::new(self);
        let mut schedule = PollSchedule::new();
        loop {
            let drove = self.drive();
            if until() {
                return Ok(());
            }
            if drove == Drove::Progress {
                schedule = PollSchedule::new();
            }
            let now = Instant::now();
            // Looked for first: it may have left for a reason that is then to be told.
            let left = if now >= look { blocking.absent() } else { None };
            let dead = self.dead();
            if now >= look || dead.is_some() {
                look = now + LOOK;
                if let Some(fault) = blocking.look() {
                    return if until() { Ok(()) } else { Err(fault) };
                }
            }
            if let Some(fault) = dead.or(left) {
                return if until() { Ok(()) } else { Err(fault) };
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(Fault::TimedOut);
            }
            schedule.pause();
        }
    }

    /// What was seen of the first member that is dead, or given up.
    pub(crate) fn dead(&self) -> Option<Fault> {
        self.fault_list.fault(0)
    }

    /// From now on this process receives also while none of its members waits here: for a service
    /// whose messages others need while its members do something else. One member calls it, when it
    /// is so. It starts a thread, unless the process has one; where MPI permits no other thread, it
    /// does nothing.
    pub fn keep_serving(self: &Arc<Self>) {
        if !self.check_not_forked() || !self.threaded.load(Ordering::Relaxed) {
            return;
        }
        let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        if more.is_some() || self.lock().served {
            return;
        }
        match self.serve() {
            Ok(thread) => *more = Some(thread),
            Err(error) => crate::say(format_args!(
                "process {} receives messages only while its members wait, as a thread cannot be started: {error}",
                self.process
            )),
        }
    }

    /// Whether the wire may be used by other threads than those of members: said before these begin.
    pub(crate) fn set_threaded(&self, threaded: bool) {
        // Relaxed: ordered by the start of the members' threads.
        self.threaded.store(threaded, Ordering::Relaxed);
    }

    /// Starts the thread that serves this host.
    pub(crate) fn serve(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let endpoint = Arc::clone(self);
        let name = format!("server {}", self.hosts.of(self.process));
        let thread = thread::Builder::new().name(name).spawn(move || {
            exact_sleeps();
            let mut schedule = PollSchedule::new();
            // Relaxed: a flag that stands for itself; what matters to both threads is under the lock.
            while !endpoint.over.load(Ordering::Relaxed) {
                if endpoint.drive_as(Driver::Server) == Drove::Progress {
                    schedule = PollSchedule::new();
                }
                // Members of this process that wait drive by themselves; those of others cannot.
                let here = endpoint.waiting.load(Ordering::Relaxed);
                let others = endpoint.attention[0].load(Ordering::Relaxed) > here;
                if here > 0 && !others {
                    thread::sleep(SERVER);
                } else if others {
                    schedule.pause();
                } else {
                    schedule.idle();
                }
            }
        })?;
        self.lock().served = true;
        Ok(thread)
    }

    /// All members of this process have ended: tells the others, and serves until they have ended, too.
    pub(crate) fn finish(&self, things: &[u64]) {
        let said = |state: &mut State| {
            // Nothing is heard of this process after it has said that it ends.
            state.send_all();
            let State { transport, detector, .. } = state;
            detector.bye(&mut **transport, things);
        };
        said(&mut self.lock());
        let mut schedule = PollSchedule::new();
        let mut over = None;
        loop {
            if self.drive() == Drove::Progress {
                schedule = PollSchedule::new();
            }
            let mut state = self.lock();
            if state.detector.all_over() {
                let State { transport, detector, .. } = &mut *state;
                detector.last(&mut **transport);
                let said: bool = transport.unsent() == 0 && detector.all_quiet();
                // What is for the dead does not leave, and a process may end by itself after its
                // bye.
                let since: Instant = *over.get_or_insert_with(Instant::now);
                let patience = if state.detector.any_died() { LAST_WORDS } else { FAREWELL };
                if said || since.elapsed() > patience {
                    break;
                }
            }
            drop(state);
            schedule.pause();
        }
        self.over.store(true, Ordering::Relaxed);
        let more = self.more.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = more {
            // It returns even if a service panics.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { process, hosts, transport, .. } = self;
        f.debug_struct("Endpoint")
            .field("process", process)
            .field("hosts", hosts)
            .field("wire", transport)
            .finish()
    }
}

impl State {
    fn out(&mut self, service: u32) -> Out<'_> {
        let State { transport, detector, coalescer, .. } = self;
        Out { transport: &mut **transport, detector, coalescer, service }
    }

    fn send_all(&mut self) {
        let State { transport, detector, coalescer, .. } = self;
        coalescer.send_all(&mut **transport, detector);
    }

    fn drive(&mut self, driver: Driver) -> Drove {
        let mut drove = Drove::Idle;
        if std::mem::take(&mut self.fresh) {
            self.keeps = driver == Driver::Member;
        }
        // First: whoever waits, waits for an answer to this.
        self.send_all();
        for _ in 0..BURST {
            match self.transport.receive() {
                Ok(Some((from, parcel))) => {
                    drove = Drove::Progress;
                    self.detector.heard(from);
                    self.open(from, parcel);
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
        // After a burst as well: who streams must not keep others from what they are owed.
        self.idle();
        self.send_all();
        let now = Instant::now();
        let State { transport, detector, spread, .. } = self;
        if detector.is_quiet() {
            return drove;
        }
        detector.tell_verdict(&mut **transport);
        detector.beat(&mut **transport, now);
        spread.go(now, |to, words| {
            // A note may be that of a member that has ended because of it.
            detector.tell_verdict(&mut **transport);
            detector.send(&mut **transport, to, words);
        });
        drove
    }

    fn idle(&mut self) {
        let State { transport, detector, coalescer, services, .. } = self;
        for Attached { number, service, .. } in services {
            service.idle(&mut Out {
                transport: &mut **transport,
                detector,
                coalescer,
                service: *number,
            });
        }
    }

    fn open(&mut self, from: usize, parcel: Vec<u8>) {
        let mut left = &*parcel;
        while !left.is_empty() {
            let Some((service, body, rest)) = coalesce::first(left) else {
                self.detector.garbled(from, left);
                break;
            };
            left = rest;
            self.deliver(from, service, body);
        }
        self.transport.recycle(parcel);
    }

    fn deliver(&mut self, from: usize, number: u32, body: &[u8]) {
        if number == OWN {
            let words = body.chunks_exact(8);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            if !self.spread.receive(&words.collect::<Vec<_>>()) {
                self.detector.receive(from, body);
            }
            return;
        }
        let State { transport, detector, coalescer, services, early, .. } = self;
        match services.iter().find(|attached| attached.number == number) {
            Some(attached) => {
                let out =
                    &mut Out { transport: &mut **transport, detector, coalescer, service: number };
                attached.service.receive(from, body, out);
            }
            None => early.entry(number).or_default().push((from, body.to_vec())),
        }
    }
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

/// The sleep of a server while members of its own process wait, which drive by themselves.
const SERVER: Duration = Duration::from_millis(1);
/// Between two looks at what other members are blocked in.
const LOOK: Duration = Duration::from_millis(100);
/// How long a process that ends goes on to send, if others have died.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long it waits for the last messages of others, which are known to have ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// Makes the sleeps of this thread end on time, and not up to 50 microseconds later.
pub(crate) fn exact_sleeps() {
    // Without it, waits are slower, and nothing else.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
