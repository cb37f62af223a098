//! The manager's supervisor: starts processes on behalf of others, watches them and publishes their
//! ends.
//!
//! # Contract
//! Every process of a farm is a child of the manager's process, whichever process requested it. So
//! the state of all processes and the exit cause of each are known in one place, which leaves no
//! process behind.
//!
//! ```text
//!  a worker: record says Asked ── eventfd ──┐
//!                                           ├──> supervisor: epoll ──> starts it
//!  a process ends: its pidfd is readable ───┘         │
//!                                                     └──> its writers let go; record says Ended;
//!                                                          its blocks given back; all processes
//!                                                          notified
//! ```
//! A process that the manager starts itself is watched from then on without waking the thread,
//! which leaves the processor to the new process.
//!
//! # Processes started by the farm's processes
//! Each process of a farm leads a process group, to which all its own children belong. The group
//! ends with its leader:
//!
//! | end of      | the group is killed by                                                  |
//! |-------------|-------------------------------------------------------------------------|
//! | the process | the thread, before it reaps the process and publishes its end           |
//! | the farm    | the thread, before it terminates                                        |
//! | the manager | the kernel, when it closes the lifeline (`O_ASYNC`, owned by the group) |
//!
//! This holds whichever way the process or the manager ends, and whatever descriptors the processes
//! of the group have closed: the manager holds an end of each lifeline
//! ([`LifelineKeeper::hold`]). A process that leaves its group (`setsid`, `setpgid`) is no longer
//! part of it, and stays. A group is not in the foreground of a
//! terminal, so the manager forwards its stops: see [`StopForwarding`].
//!
//! # Why the kernel kills orphans
//! A thread that watches would have to run in each worker, and the parent-death signal follows
//! a thread (see `syncline_process::lifeline`). Each process has a pipe of its own, as the
//! signal belongs to an open file. Opening a common one again through `/proc` would take a
//! fifth of the time of joining. The end that the manager holds has a lower number than that of
//! the keeper: Linux releases the files of a process that ends from the highest number down, so
//! the hang-up finds an armed end.
//!
//! # Why a thread that waits for a new process sleeps
//! A new process begins on the processor of the thread that started it. A thread that yields
//! there gets the processor back only when the new process sleeps or its slice is over, even if
//! another processor is idle; a thread that sleeps is woken on the idle one. For the same
//! reason a start changes the epoll of the supervisor's thread, and does not wake it.
//!
//! # Why a death wakes all waiters
//! A process that is killed between its notification and the system call that wakes leaves a
//! sleeper asleep. Sleeps with a timeout would mend that, and cost a timer in each round trip:
//! 0.8 of 5.5 microseconds. So no sleep has one, and a published end wakes all processes,
//! whatever their words say.
//!
//! # Costs
//! A start: posix_spawn, whose time does not grow with the manager's memory, a pipe, a pidfd, and
//! three calls of fcntl for the lifeline. A process takes three descriptors of the manager. The
//! thread sleeps otherwise. An end: a look at the farm's tables, and a notification for each
//! process.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use syncline_fabric::leave_team;
use syncline_process::{
    Generation, GroupLeader, Spawn,
    disposition::children_can_be_watched,
    jobs::{FollowedGroup, StopForwarding},
    lifeline::{Lifeline, LifelineKeeper},
    watch::Ending,
};

use crate::arena::Arena;
use crate::environment::{FARM, Inherited};
use crate::error::FarmError;
use crate::program::{Program, Request};
use crate::record::{ProcessState, code};
use crate::vpid::Vpid;
use crate::wire;

/// The number of ended processes whose places are retained, so that their exit causes can be read.
const DEAD: usize = 64;

/// The manager's side of a farm. Dropping it kills and reaps all its processes.
#[derive(Debug)]
pub(crate) struct Supervisor {
    state: Arc<SupervisorState>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    born: Generation,
    /// Set at the first start, if stops of the manager are forwarded to all processes.
    stops: Option<StopForwarding>,
}

/// The state that the manager and its thread share.
#[derive(Debug)]
struct SupervisorState {
    arena: Arc<Arena>,
    /// An eventfd that any process writes to when it has a request.
    event: OwnedFd,
    /// Watches the eventfd, as [`EVENT`], and the running processes, by their vpids.
    epoll: OwnedFd,
    /// The running processes by vpid. A process is entered before it is watched.
    running: Mutex<HashMap<u64, Running>>,
    /// The processes that have ended, or could not be started, and whose places are not free yet:
    /// the oldest first.
    ended: Mutex<VecDeque<Vpid>>,
    living: AtomicUsize,
    /// Set when the thread must terminate.
    stop: AtomicBool,
    /// The standard input of all processes.
    nothing: File,
    /// Whether stops of the manager are forwarded to all processes.
    forwards_stops: bool,
}

/// The epoll datum of the eventfd. No process has this vpid, which would be the last possible one.
const EVENT: u64 = u64::MAX;

#[derive(Debug)]
struct Running {
    leader: GroupLeader,
    /// `None` when the process is about to be reaped, there are too many to follow, or stops are
    /// not forwarded.
    followed: Option<FollowedGroup>,
    /// Cuts the process's own lifeline when dropped.
    _keeper: LifelineKeeper,
}

impl Running {
    /// Reaps the process and kills the rest of its group, if it has exited.
    fn try_collect(&mut self) -> io::Result<Option<Ending>> {
        if self.leader.has_exited() {
            self.followed = None;
        }
        self.leader.try_collect().map(|status| status.map(Ending::from))
    }

    /// Kills the process with its group, and reaps it.
    fn end(self) {
        let Running { leader, followed, .. } = self;
        leader.send(Signal::KILL.as_raw());
        drop(followed);
        let _ = leader.collect(); // other code of this process may have reaped it
    }
}

impl Supervisor {
    /// Creates a supervisor without processes. Its thread is started with the first process.
    pub(crate) fn new(arena: &Arc<Arena>, forwards_stops: bool) -> Result<Supervisor, FarmError> {
        children_can_be_watched().map_err(|source| FarmError::System {
            what: "watch the processes of a farm",
            source,
        })?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| system("make an eventfd", errno))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| system("make an epoll", errno))?;
        epoll::add(&epoll, &event, epoll::EventData::new_u64(EVENT), epoll::EventFlags::IN)
            .map_err(|errno| system("watch an eventfd", errno))?;
        let nothing = File::open("/dev/null")
            .map_err(|source| FarmError::System { what: "open /dev/null", source })?;
        let state = SupervisorState {
            arena: Arc::clone(arena),
            event,
            epoll,
            running: Mutex::default(),
            ended: Mutex::default(),
            living: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            nothing,
            forwards_stops,
        };
        Ok(Supervisor {
            state: Arc::new(state),
            thread: None,
            born: Generation::current(),
            stops: None,
        })
    }

    /// Starts the process of a reserved vpid, unless another process has claimed the start.
    pub(crate) fn start(&mut self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        self.attend()?;
        if !self.state.arena.record(vpid.place()).claim(vpid, Vpid::MANAGER) {
            return Err(FarmError::NotReserved { vpid });
        }
        self.state.start(vpid, program)
    }

    /// Gives up a reserved vpid, whose process will then never be started. Returns false if the
    /// vpid is not reserved.
    pub(crate) fn give_up(&self, vpid: Vpid) -> bool {
        let given_up = self.state.arena.record(vpid.place()).claim(vpid, Vpid::MANAGER);
        if given_up {
            self.state.declare(vpid, &Err(None));
        }
        given_up
    }

    /// Sends a signal to a process and its group, if the process is alive.
    pub(crate) fn send(&self, vpid: Vpid, signal: Signal) {
        if let Some(running) = self.state.running().get(&vpid.to_raw()) {
            running.leader.send(signal.as_raw());
        }
    }

    /// Wakes the thread, which then frees places that can be reused.
    pub(crate) fn look(&self) {
        ring(&self.state.event);
    }

    /// Returns the number of live processes.
    pub(crate) fn living(&self) -> usize {
        self.state.living.load(Ordering::Relaxed)
    }

    /// Starts the thread, unless it runs already.
    fn attend(&mut self) -> Result<(), FarmError> {
        if self.thread.is_none() {
            self.stops = self.state.forwards_stops.then(StopForwarding::start);
            let state = Arc::clone(&self.state);
            let thread = std::thread::Builder::new().name("syncline farm".to_owned());
            let thread = thread.spawn(move || Reaper { state }.attend());
            let what = "start a thread that watches the farm's processes";
            self.thread = Some(thread.map_err(|source| FarmError::System { what, source })?);
        }
        Ok(())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if !self.born.is_current() {
            // A forked child of the manager has neither its thread nor its processes, which
            // continue.
            std::mem::forget((self.thread.take(), self.stops.take(), Arc::clone(&self.state)));
        } else if let Some(thread) = self.thread.take() {
            // Relaxed: the write to the eventfd and the read of it make the store visible.
            self.state.stop.store(true, Ordering::Relaxed);
            ring(&self.state.event);
            // The thread does not panic; if it did, the error could not be reported here.
            let _ = thread.join();
        }
    }
}

/// Notifies the manager of a request.
pub(crate) fn ring(event: &impl AsFd) {
    // A full counter is already a notification.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

fn system(what: &'static str, errno: Errno) -> FarmError {
    FarmError::System { what, source: errno.into() }
}

impl SupervisorState {
    fn running(&self) -> MutexGuard<'_, HashMap<u64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, VecDeque<Vpid>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process, marks its record as started and watches it.
    fn start(&self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        let record = self.arena.record(vpid.place());
        let started = self.spawn(vpid, program).and_then(|running| {
            // Release: pairs with the Acquire in `Farm::pid`.
            record.pid.store(u64::from(running.leader.id()), Ordering::Release);
            // A process that has already joined is past this state.
            record.step_from(
                vpid.generation(),
                &[ProcessState::Reserved, ProcessState::Asked],
                ProcessState::Started,
            );
            self.living.fetch_add(1, Ordering::Relaxed);
            self.watch(vpid, running)
        });
        started.map_err(|source| {
            self.declare(vpid, &Err(Some(source.raw_os_error().unwrap_or(invalid()))));
            FarmError::Start { program: program.path.clone(), source }
        })
    }

    fn spawn(&self, vpid: Vpid, program: &Program) -> io::Result<Running> {
        let (keeper, end) = Lifeline::pair()?;
        let mut spawn = Spawn::new(&program.path);
        leave_team(&mut spawn);
        let memory = self.arena.fd().ok_or(io::ErrorKind::Unsupported)?;
        let place = Inherited {
            memory: spawn.hand(memory)?,
            lifeline: spawn.hand(end.as_fd())?,
            manager: spawn.hand(self.event.as_fd())?,
            vpid,
        };
        if let Some(path) = syncline_trace::recording_path() {
            spawn.env(syncline_trace::VARIABLE, path);
        }
        for (name, value) in &program.variables {
            spawn.env(name, value);
        }
        spawn.args(&program.args).stream(0, self.nothing.as_fd()).env(FARM, place.value());
        let leader = spawn.start_group()?;
        let followed = self.forwards_stops.then(|| FollowedGroup::new(leader.id())).flatten();
        let id = leader.id();
        let armed = self.bound(id).and_then(|()| Ok(end.kill_group_when_cut(id)?));
        // The process, and all that it starts, may close the end.
        match armed.and_then(|()| Ok(keeper.hold(end)?)) {
            Ok(keeper) => Ok(Running { leader, followed, _keeper: keeper }),
            Err(error) => {
                // A process that cannot be bounded is not kept.
                leader.send(Signal::KILL.as_raw());
                drop(followed);
                let _ = leader.collect();
                Err(error)
            }
        }
    }

    /// Watches a process: the thread is woken when it ends.
    fn watch(&self, vpid: Vpid, running: Running) -> io::Result<()> {
        let name = vpid.to_raw();
        let mut all = self.running();
        let data = epoll::EventData::new_u64(name);
        if let Err(errno) = epoll::add(&self.epoll, &running.leader, data, epoll::EventFlags::IN) {
            running.end();
            self.living.fetch_sub(1, Ordering::Relaxed);
            return Err(errno.into());
        }
        all.insert(name, running);
        Ok(())
    }

    fn bound(&self, child: u32) -> io::Result<()> {
        let Some(bytes) = self.arena.worker_memory() else { return Ok(()) };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
        rustix::process::prlimit(pid, Resource::Data, limit)?;
        Ok(())
    }

    /// Publishes that a process no longer exists, and that its unstarted children never will.
    fn declare(&self, vpid: Vpid, cause: &Result<Ending, Option<i32>>) {
        self.declare_one(vpid, cause);
        for place in 1..self.arena.used() {
            let record = self.arena.record(place);
            if record.is_orphan(vpid) {
                // The vpid is claimed: only this thread changes it from here on.
                let (generation, _) = record.now();
                self.declare_one(Vpid::new(place, generation), &Err(None));
            }
        }
    }

    fn declare_one(&self, vpid: Vpid, cause: &Result<Ending, Option<i32>>) {
        let arena = &self.arena;
        // SAFETY: the process has been reaped, or was never started.
        unsafe { arena.let_go_of_writers(vpid) };
        arena.record(vpid.place()).end(vpid, code(cause));
        // SAFETY: as above.
        unsafe { arena.let_go_of_the_rest(vpid) };
        if cause.is_ok() {
            self.living.fetch_sub(1, Ordering::Relaxed);
        }
        self.ended().push_back(vpid);
        // Release: pairs with the Acquire of a load of the count, which then sees all of the above.
        arena.ends().increment();
        self.notify_all();
    }

    fn notify_all(&self) {
        let arena = &self.arena;
        for place in 0..arena.used() {
            let record = arena.record(place);
            if matches!(
                record.now().1,
                ProcessState::Reserved
                    | ProcessState::Asked
                    | ProcessState::Started
                    | ProcessState::Joined
            ) || place == 0
            {
                record.events.notify_for_dead();
            }
        }
    }
}

/// Returns the number of "Invalid argument", used when the system reports no error number.
fn invalid() -> i32 {
    Errno::INVAL.raw_os_error()
}

/// The supervisor's thread.
struct Reaper {
    state: Arc<SupervisorState>,
}

/// The largest number of events that one call of epoll returns.
const EVENTS: usize = 64;

impl Reaper {
    fn attend(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            // Interrupted, or out of memory: tries again.
            let _ = epoll::wait(&self.state.epoll, spare_capacity(&mut events), None);
            // Relaxed: see the store in `Supervisor::drop`.
            if self.state.stop.load(Ordering::Relaxed) {
                return self.end();
            }
            let mut asked = false;
            for event in &events {
                match event.data.u64() {
                    EVENT => asked = true,
                    name => self.reap(Vpid::from_raw(name)),
                }
            }
            if asked {
                let mut count = [0; 8];
                // A notification after this read wakes the next wait.
                let _ = rustix::io::read(&self.state.event, &mut count);
                self.serve();
                self.forget();
            }
        }
    }

    /// Reaps an ended process, and publishes its end.
    fn reap(&mut self, vpid: Vpid) {
        let mut all = self.state.running();
        let Some(running) = all.get_mut(&vpid.to_raw()) else { return };
        let ending = match running.try_collect() {
            Ok(None) => return,
            Ok(Some(ending)) => ending,
            // Other code of this process has reaped it.
            Err(_) => Ending::Exited(0),
        };
        // Closes the pidfd, which also removes it from epoll.
        all.remove(&vpid.to_raw());
        drop(all);
        self.state.declare(vpid, &Ok(ending));
        self.forget();
    }

    /// Frees places of ended processes to which no process refers, the oldest first: those beyond
    /// the number retained, and as many as processes wait for.
    fn forget(&mut self) {
        let arena = &self.state.arena;
        let mut lacking = arena.lacking();
        let most = DEAD.min(arena.processes() / 2);
        let mut ended = self.state.ended();
        let before = ended.len();
        let mut looks = before;
        while (lacking > 0 || ended.len() > most) && looks > 0 {
            looks -= 1;
            let Some(vpid) = ended.pop_front() else { break };
            if arena.is_forgotten(vpid) {
                // SAFETY: the process has ended. This releases what was added since its end was
                // published.
                unsafe { arena.let_go_of_the_rest(vpid) };
                arena.record(vpid.place()).free(vpid.generation());
                lacking = lacking.saturating_sub(1);
            } else {
                ended.push_back(vpid);
            }
        }
        if ended.len() < before {
            // A process may wait for a place.
            self.state.notify_all();
        }
    }

    /// Starts the processes that workers have requested.
    fn serve(&mut self) {
        for place in 1..self.state.arena.used() {
            let arena = Arc::clone(&self.state.arena);
            let record = arena.record(place);
            let (generation, life) = record.now();
            if life != ProcessState::Asked {
                continue;
            }
            let vpid = Vpid::new(place, generation);
            let parent = record.parent();
            match self.request(record.request.load(Ordering::Relaxed)) {
                Some(program) => {
                    let _ = self.state.start(vpid, &program); // its record holds the error
                }
                None => self.state.declare(vpid, &Err(Some(invalid()))),
            }
            arena.record(parent.place() % arena.processes()).events.notify();
        }
    }

    /// Decodes a start request; `None` if it is invalid.
    fn request(&self, word: u64) -> Option<Program> {
        let (block, len) = (word as u32, (word >> 32) as usize);
        let bytes = self.state.arena.copy_of(block, len)?;
        wire::decode::<Request>(&bytes).ok().map(Program::from)
    }

    /// Kills and reaps all processes.
    fn end(self) {
        let mut all = self.state.running();
        for running in all.values() {
            running.leader.send(Signal::KILL.as_raw());
        }
        all.drain().for_each(|(_, running)| running.end());
    }
}
