//! The endpoint of a process: receives all its messages, runs its services, and makes its members
//! wait for members of other hosts.
//!
//! # Contract
//! An [`Endpoint`] has the process's [`Transport`], and a list of [`Service`]s. A message is for
//! one service of the receiving process, which gets the messages of each sender in their order.
//! Services have the same numbers in all processes, because members attach them together, in the
//! same order. A message for a service that is not attached yet is kept until it is.
//!
//! ```text
//!   members' threads          server thread (where there are other hosts)
//!     │ wait, enter             │ drive; sleeps when no message comes
//!     ▼                         ▼
//!   ┌─ lock ──────────────────────────────────────────────────────────┐  one thread at a time
//!   │ transport.receive() ──> service by number ──> transport.send()  │  *drives*
//!   └─────────────────────────────────────────────────────────────────┘
//! ```
//! Each waiting thread drives: so a message is received at once by the thread that needs it, and
//! not by a thread that must be woken first. If another thread drives already, a waiter only checks
//! its condition. Services must not block.
//!
//! # When messages leave
//! Messages to the same process are coalesced where possible. A message that is sent while messages
//! are received leaves when all messages that were there have been received. A message that a
//! member [posts](Endpoint::post) may be kept until a member of its process sends another message
//! or waits, as most do soon. The server thread, which polls a thousand times a second, sends the
//! messages that it finds kept, and takes them for a sign that members compute; from then on no
//! message is kept, until a member waits again right after it has posted a message.
//!
//! ```text
//!                    a member waits: it sends
//!        ┌────────┐ <──────────────────────── ┌────────┐
//!   ●──> │ keeps  │                           │ sends  │
//!        └────────┘ ────────────────────────> └────────┘
//!                    the server has found a message
//! ```
//! A process without a server thread keeps no messages.
//!
//! # Long messages
//! [`Out::send_long`] sends a message straight from a [`Place`] to the place that
//! [`Service::receive_long`] of the receiver names. The header takes part in the order of messages,
//! and the bytes do not: [`Service::landed`] reports them. See `long` for the figure and the costs.
//!
//! | until                                       | a service must                                |
//! |---------------------------------------------|-----------------------------------------------|
//! | [`Service::sent`]                           | not change the bytes of a place that it sends |
//! | [`Service::landed`]                         | not use the place that it has named           |
//! | the team's end, after [`Service::given_up`] | not reuse the place: it may still be accessed |
//!
//! The owner of a place keeps its memory valid, also after the endpoint has ended.
//!
//! # Processes that do not serve
//! A host has a server thread in one of its processes. The others receive only while their members
//! wait. That is enough where the member that a message is for needs it. Where other members need
//! the effect of a service, the member requests a thread: [`Endpoint::keep_serving`].
//!
//! # Costs
//! A poll takes a lock that is mostly free, and polls the transport. An idle server thread polls
//! 1000 times a second, after a tenth of a second 500 times; while members of other processes of
//! its host wait for other hosts, some ten thousand times.
//!
//! # Failures
//! Servers of hosts send beats to one another when they send no other messages: see the failure
//! detector.

mod service;
mod state;

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
    Fault, Space, SpaceError, call_matching::Blocking, membership::FaultList, space::Array,
};
use syncline_trace::{Activity, Role, set_role, span};

pub use self::service::{Out, Service};
use self::state::{Attached, Early, State};
use crate::coalesce::Coalescer;
use crate::environment::Shape;
use crate::failure_detector::{FailureDetector, OWN};
use crate::hosts::Hosts;
use crate::long::LongMessages;
pub use crate::long::{Landing, Way};
use crate::team_state::TeamState;
use crate::transport::Transport;
use crate::transport::marked::MarkedTransport;
pub use crate::transport::place::{Owner, Place};
use crate::wait_reports::WaitReports;

/// The endpoint of a process: see the [module](self).
pub struct Endpoint {
    process: usize,
    /// The generation of the process that the endpoint belongs to, and the rank of its first
    /// member.
    born: Generation,
    first: usize,
    hosts: Hosts,
    fault_list: FaultList,
    state: Mutex<State>,
    /// The number of members of this process that wait, and so drive.
    waiting: AtomicU64,
    /// The number of members of this host that wait, in the memory of the host: the server must be
    /// awake.
    attention: Array<SharedU64>,
    /// Whether the server thread must end.
    over: AtomicBool,
    /// Whether threads other than those of members may use the transport.
    threaded: AtomicBool,
    /// The thread that `keep_serving` started.
    more: Mutex<Option<JoinHandle<()>>>,
    transport: String,
}

/// The kind of thread that drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Member,
    Server,
}

/// The outcome of a poll for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drove {
    /// Another thread drives.
    Other,
    /// No message was there.
    Idle,
    /// The same, and long messages are in flight.
    Moving,
    /// At least one message was there.
    Progress,
}

impl Endpoint {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        hosts: Hosts,
        space: &mut Space,
        control: &TeamState,
        shape: Shape,
        timeout: Duration,
    ) -> Result<Arc<Endpoint>, SpaceError> {
        let transport = Box::new(MarkedTransport::new(transport));
        let process = transport.process();
        let name = transport.describe();
        let detector =
            FailureDetector::new(process, hosts.clone(), control.clone(), shape, timeout);
        let reports = WaitReports::new(process, &hosts, control, shape);
        let coalescer = Coalescer::new(transport.processes());
        let (services, early, long) = (Vec::new(), HashMap::new(), LongMessages::default());
        let (keeps, fresh, served) = (true, false, false);
        let state = State {
            transport,
            detector,
            reports,
            coalescer,
            long,
            keeps,
            fresh,
            served,
            services,
            early,
        };
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

    /// Returns the name of the transport for messages to users.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.transport
    }

    /// Returns the hosts of the team.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the number of this process.
    #[must_use]
    pub fn process(&self) -> usize {
        self.process
    }

    /// Returns the number of messages of services that have left this process. Coalesced messages
    /// count as one, and beats do not count.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.lock().coalescer.sent()
    }

    /// Returns the service of this number, which the first caller makes.
    ///
    /// # Panics
    /// If the service is of another type: then members did not attach the same services in the same
    /// order.
    pub(crate) fn attach<S: Service>(&self, number: u32, make: impl FnOnce() -> S) -> Arc<S> {
        assert_ne!(number, OWN, "the number of the endpoint's own service");
        let mut state = self.lock();
        let found = state.services.iter().find(|attached| attached.number == number);
        let attached = found.cloned().unwrap_or_else(|| {
            let service = Arc::new(make());
            let attached = Attached { number, service: service.clone(), any: service };
            state.services.push(attached.clone());
            for Early { from, body, long } in state.early.remove(&number).unwrap_or_default() {
                match long {
                    None => state.deliver(from, number, &body),
                    Some((len, early)) => {
                        let landing =
                            attached.service.receive_long(from, &body, len, &mut state.out(number));
                        state.long.attach(from, early, number, landing);
                    }
                }
            }
            state.send_all();
            attached
        });
        attached.any.downcast().expect("members attach the same services in the same order")
    }

    /// Whether this process is the one that the endpoint belongs to, and not a child that `fork`
    /// has made of it. In such a child the lock may be held by a thread that does not exist there,
    /// and the transport belongs to the parent.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> bool {
        self.born.is_current()
    }

    /// Runs `work`, which may send messages of a service, while no message is received.
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

    /// Like [`enter`](Self::enter), but the messages may be delayed until the next ones are sent:
    /// for messages that no member waits for yet. See the [module](self).
    ///
    /// # Panics
    /// As for [`enter`](Self::enter).
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
        // A panic of a service poisons the lock. If a member was driving, the member panics with
        // it, and the others get an error for that.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the messages that are there, unless another thread does.
    pub(crate) fn drive(&self) -> Drove {
        self.drive_as(Driver::Member)
    }

    /// Receives the messages that are there, unless another thread does: for a thread that
    /// computes, between two pieces of its work.
    pub fn look(&self) {
        self.drive();
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

    /// Waits until `until` returns true, and drives meanwhile.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], or the fault of the first member that is gone; a condition that already
    /// holds has precedence over both. [`Fault::Forked`] in a child that `fork` has made of the
    /// process.
    #[inline]
    pub fn wait(
        &self,
        deadline: Option<Instant>,
        until: impl FnMut() -> bool,
    ) -> Result<(), Fault> {
        self.wait_in(&Blocking::new(None, 0, deadline), deadline, until)
    }

    /// Like [`wait`](Self::wait) without a deadline, for a wait that probably takes as long as the
    /// one before: then the end of the wait is noticed sooner.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_about(&self, time: Duration, until: impl FnMut() -> bool) -> Result<(), Fault> {
        let schedule = || PollSchedule::expecting(time);
        self.wait_by(schedule, &Blocking::new(None, 0, None), None, until)
    }

    /// Like [`wait`](Self::wait), where all members wait for one another.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait); [`Fault::Mismatch`] if the condition can never hold.
    pub fn wait_in(
        &self,
        blocking: &Blocking<'_>,
        deadline: Option<Instant>,
        until: impl FnMut() -> bool,
    ) -> Result<(), Fault> {
        self.wait_by(PollSchedule::new, blocking, deadline, until)
    }

    fn wait_by(
        &self,
        schedule: impl FnOnce() -> PollSchedule,
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
        let mut schedule = schedule();
        loop {
            let drove = self.drive();
            if until() {
                return Ok(());
            }
            if drove == Drove::Progress {
                schedule.begin_again();
            }
            let now = Instant::now();
            // Read before the verdict: a member may have left for a reason that must then be
            // reported.
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

    /// Returns the fault of the first member that is dead, or given up.
    pub(crate) fn dead(&self) -> Option<Fault> {
        self.fault_list.fault(0)
    }

    /// From this call on, the process also receives while none of its members waits here: for a
    /// service whose messages others need while its members do other work. One member calls it in
    /// that case. It starts a thread, unless the process has one; where MPI permits no other
    /// thread, it does nothing.
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

    /// Returns whether threads other than those of members may send and wait here: where MPI
    /// permits no other thread, they may not.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// Sets whether threads other than those of members may use the transport. Called before they
    /// start.
    pub(crate) fn set_threaded(&self, threaded: bool) {
        // Relaxed: ordered by the start of the members' threads.
        self.threaded.store(threaded, Ordering::Relaxed);
    }

    /// Starts the thread that serves this host.
    pub(crate) fn serve(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let endpoint = Arc::clone(self);
        let host = self.hosts.of(self.process);
        let name = format!("server {host}");
        let thread = thread::Builder::new().name(name).spawn(move || {
            exact_sleeps();
            set_role(Role::Server(host as u32));
            let mut schedule = PollSchedule::new();
            // Relaxed: no other memory depends on the flag; all shared state of both threads is
            // under the lock.
            while !endpoint.over.load(Ordering::Relaxed) {
                let drove = endpoint.drive_as(Driver::Server);
                if drove == Drove::Progress {
                    schedule = PollSchedule::new();
                }
                // Waiters of this process drive by themselves; waiters of other processes cannot
                // drive this one.
                let here = endpoint.waiting.load(Ordering::Relaxed);
                let others = endpoint.attention[0].load(Ordering::Relaxed) > here;
                if here > 0 && !others {
                    thread::sleep(SERVER);
                } else if others || drove == Drove::Moving {
                    schedule.pause();
                } else {
                    schedule.idle();
                }
            }
        })?;
        self.lock().served = true;
        Ok(thread)
    }

    /// Sends bye, as all members of this process have ended, and serves until those of all other
    /// processes have ended, too.
    pub(crate) fn finish(&self, things: &[u64]) {
        let said = |state: &mut State| {
            // After its bye, no message may come from this process.
            state.send_all();
            let State { transport, detector, .. } = state;
            detector.bye(&mut **transport, things);
        };
        said(&mut self.lock());
        let waits = span(Activity::AwaitMessage, u32::MAX, 0);
        let mut schedule = PollSchedule::new();
        let mut over = None;
        loop {
            if self.drive() == Drove::Progress {
                schedule = PollSchedule::new();
            }
            let mut state = self.lock();
            if state.detector.all_over() {
                let State { transport, detector, long, .. } = &mut *state;
                detector.last(&mut **transport);
                let said: bool = transport.unsent() == 0 && detector.all_quiet() && long.is_idle();
                // Messages to dead processes do not leave, and a process may end by itself after
                // its bye.
                let since: Instant = *over.get_or_insert_with(Instant::now);
                let patience = if state.detector.any_died() { LAST_WORDS } else { FAREWELL };
                if said || since.elapsed() > patience {
                    break;
                }
            }
            drop(state);
            schedule.pause();
        }
        drop(waits);
        self.over.store(true, Ordering::Relaxed);
        let more = self.more.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = more {
            // The thread returns even if a service panics.
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

/// A waiting member: the server must be awake, unless it is in the same process.
struct Waiting<'a>(&'a Endpoint);

impl<'a> Waiting<'a> {
    fn new(endpoint: &'a Endpoint) -> Self {
        // Relaxed, here and below: hints for the server thread, which polls again soon.
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
/// The interval of checks of the calls that other members are blocked in.
const LOOK: Duration = Duration::from_millis(100);
/// How long a process that ends continues to send, if others have died.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long it waits for the last messages of others, which are known to have ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// Makes the sleeps of this thread end on time, and not up to 50 microseconds later.
pub(crate) fn exact_sleeps() {
    // Without it, waits are slower, and nothing else.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
