//! The manager's thread that starts processes for others, watches all, and tells of their ends.
//!
//! # Contract
//! Every process of a farm is a child of the manager's process, whichever process asked for it. So
//! one place knows which live, how each ended, and leaves none behind.
//!
//! ```text
//!  a worker: record says Asked ── eventfd ──┐
//!                                           ├──> supervisor: epoll ──> starts it
//!  a process ends: its pidfd is readable ───┘         │
//!                                                     └──> its writers let go; record says Ended;
//!                                                          its blocks given back; all bells rung
//! ```
//! What the manager starts itself is watched from then on without waking the thread: so the new
//! process has the processor.
//!
//! # What processes start by themselves
//! Each process leads a process group, to which all that it starts belongs. The group ends with it:
//!
//! | what ends           | by what the group is killed                                                        |
//! |---------------------|------------------------------------------------------------------------------------|
//! | the process, however | the thread, before it collects the process and tells of its end                    |
//! | the farm            | the thread, before it ends                                                         |
//! | the manager, however | the kernel, when it closes the lifeline (`O_ASYNC`, whose owner is the group)       |
//!
//! A group is not in the foreground of a terminal, so the manager forwards its stops: see
//! [`StopForwarding`].
//!
//! # Costs
//! A start: posix_spawn, whose time does not grow with the manager's memory, a pipe, a pidfd, and
//! three calls of fcntl for the lifeline. The thread sleeps otherwise. An end: a look at the farm's
//! tables, and a ring for each process.

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
use syncline_process::{
    Generation, GroupLeader, Spawn,
    disposition::children_can_be_watched,
    jobs::{FollowedGroup, StopForwarding},
    lifeline::{Lifeline, LifelineKeeper},
    watch::Ending,
};

use crate::arena::Arena;
use crate::bell;
use crate::environment::{FARM, Inherited};
use crate::error::FarmError;
use crate::program::{Program, Request};
use crate::record::{ProcessState, code};
use crate::vpid::Vpid;
use crate::wire;

/// How many of the dead keep their places, so that it can be asked how they ended.
const DEAD: usize = 64;

/// The manager's part of a farm: dropped, all its processes are killed, and collected.
#[derive(Debug)]
pub(crate) struct Supervisor {
    state: Arc<SupervisorState>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    born: Generation,
    /// From the first start on, if stops of the manager are to stop all.
    stops: Option<StopForwarding>,
}

/// What the manager and its thread both use.
#[derive(Debug)]
struct SupervisorState {
    arena: Arc<Arena>,
    /// Written to, by whatever process, when there is something to do.
    event: OwnedFd,
    /// Watches the event, as [`EVENT`], and the processes that run, by their numbers.
    epoll: OwnedFd,
    /// By their numbers. One is there before it is watched.
    running: Mutex<HashMap<u64, Running>>,
    /// Those that have ended, or could not be started, and whose places are not free yet: the
    /// oldest first.
    ended: Mutex<VecDeque<Vpid>>,
    living: AtomicUsize,
    /// The thread is to end.
    stop: AtomicBool,
    /// What processes have for their standard input.
    nothing: File,
    /// Whether stops of the manager are to stop all.
    forwards_stops: bool,
}

/// What the event is called; no process is: it would be the last of them all.
const EVENT: u64 = u64::MAX;

#[derive(Debug)]
struct Running {
    leader: GroupLeader,
    /// `None` when it is about to be collected, is one too many, or stops are not forwarded.
    followed: Option<FollowedGroup>,
    /// The line is cut when this process is gone. Each has its own.
    _keeper: LifelineKeeper,
}

impl Running {
    /// Collects the process and kills what is left of its group, if it has exited.
    fn try_collect(&mut self) -> io::Result<Option<Ending>> {
        if self.leader.has_exited() {
            self.followed = None;
        }
        self.leader.try_collect().map(|status| status.map(Ending::from))
    }

    /// Kills it with all of its group, and collects it.
    fn end(self) {
        let Running { leader, followed, .. } = self;
        leader.send(Signal::KILL.as_raw());
        drop(followed);
        let _ = leader.collect(); // other code of this process may have done that
    }
}

impl Supervisor {
    /// No process is started yet, and there is no thread before one is.
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

    /// Starts the process of a number that was reserved, if no other process starts it.
    pub(crate) fn start(&mut self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        self.attend()?;
        if !self.state.arena.record(vpid.place()).claim(vpid, Vpid::MANAGER) {
            return Err(FarmError::NotReserved { vpid });
        }
        self.state.start(vpid, program)
    }

    /// The process of a number that is reserved is never started; false if the number is not.
    pub(crate) fn give_up(&self, vpid: Vpid) -> bool {
        let given_up = self.state.arena.record(vpid.place()).claim(vpid, Vpid::MANAGER);
        if given_up {
            self.state.declare(vpid, &Err(None));
        }
        given_up
    }

    /// A signal to a process and all of its group, if it lives still.
    pub(crate) fn send(&self, vpid: Vpid, signal: Signal) {
        if let Some(running) = self.state.running().get(&vpid.to_raw()) {
            running.leader.send(signal.as_raw());
        }
    }

    /// Asks it to look whether there are places that can be used again.
    pub(crate) fn look(&self) {
        ring(&self.state.event);
    }

    /// How many processes live.
    pub(crate) fn living(&self) -> usize {
        self.state.living.load(Ordering::Relaxed)
    }

    /// From now on there is a thread.
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
            // A child that was forked of the manager has neither its thread nor its processes,
            // which go on.
            std::mem::forget((self.thread.take(), self.stops.take(), Arc::clone(&self.state)));
        } else if let Some(thread) = self.thread.take() {
            // Relaxed: the ring makes it seen, as a write to a descriptor and the read of it do.
            self.state.stop.store(true, Ordering::Relaxed);
            ring(&self.state.event);
            // It does not panic; if it did, no caller could be told.
            let _ = thread.join();
        }
    }
}

/// Tells the manager that something is asked of it.
pub(crate) fn ring(event: &impl AsFd) {
    // Full is as good as rung.
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

    /// Starts a process; its record says so, and it is watched.
    fn start(&self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        let record = self.arena.record(vpid.place());
        let started = self.spawn(vpid, program).and_then(|running| {
            // Release: pairs with the Acquire in `Farm::pid`.
            record.pid.store(u64::from(running.leader.id()), Ordering::Release);
            // If it takes part already, it is beyond that.
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
        let memory = self.arena.fd().ok_or(io::ErrorKind::Unsupported)?;
        let place = Inherited {
            memory: spawn.hand(memory)?,
            lifeline: spawn.hand(end.as_fd())?,
            manager: spawn.hand(self.event.as_fd())?,
            vpid,
        };
        for (name, value) in &program.variables {
            spawn.env(name, value);
        }
        spawn.args(&program.args).stream(0, self.nothing.as_fd()).env(FARM, place.value());
        let leader = spawn.start_group()?;
        let followed = self.forwards_stops.then(|| FollowedGroup::new(leader.id())).flatten();
        let running = Running { leader, followed, _keeper: keeper };
        let bounded = self.bound(running.leader.id());
        match bounded.and_then(|()| Ok(end.kill_group_when_cut(running.leader.id())?)) {
            Ok(()) => Ok(running),
            Err(error) => {
                running.end(); // one that cannot be bounded is not kept
                Err(error)
            }
        }
    }

    /// From now on the thread is told when it ends.
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

    /// Tells all processes that one is no more, nor ever will be what it had reserved.
    fn declare(&self, vpid: Vpid, cause: &Result<Ending, Option<i32>>) {
        self.declare_one(vpid, cause);
        for place in 1..self.arena.used() {
            let record = self.arena.record(place);
            if record.is_orphan(vpid) {
                // From here on it is this thread's.
                let (generation, _) = record.now();
                self.declare_one(Vpid::new(place, generation), &Err(None));
            }
        }
    }

    fn declare_one(&self, vpid: Vpid, cause: &Result<Ending, Option<i32>>) {
        let arena = &self.arena;
        // SAFETY: the process was seen to end, or was never started.
        unsafe { arena.let_go_of_writers(vpid) };
        arena.record(vpid.place()).end(vpid, code(cause));
        // SAFETY: as above.
        unsafe { arena.let_go_of_the_rest(vpid) };
        if cause.is_ok() {
            self.living.fetch_sub(1, Ordering::Relaxed);
        }
        self.ended().push_back(vpid);
        // Release: pairs with the Acquire of a look at how many have ended; it sees all of the
        // above.
        arena.ends().increment();
        self.ring_all();
    }

    fn ring_all(&self) {
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
                bell::ring_for_a_death(&record.bell);
            }
        }
    }
}

/// "Invalid argument", for what the system has no number.
fn invalid() -> i32 {
    Errno::INVAL.raw_os_error()
}

/// The thread.
struct Reaper {
    state: Arc<SupervisorState>,
}

/// How many events are looked at together.
const EVENTS: usize = 64;

impl Reaper {
    fn attend(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            // Interrupted, or no memory: again.
            let _ = epoll::wait(&self.state.epoll, spare_capacity(&mut events), None);
            // Relaxed: see where it is set.
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
                // A ring from here on is heard the next time.
                let _ = rustix::io::read(&self.state.event, &mut count);
                self.serve();
                self.forget();
            }
        }
    }

    /// Collects one that has ended, and tells of it.
    fn reap(&mut self, vpid: Vpid) {
        let mut all = self.state.running();
        let Some(running) = all.get_mut(&vpid.to_raw()) else { return };
        let ending = match running.try_collect() {
            Ok(None) => return,
            Ok(Some(ending)) => ending,
            // Other code of this process has collected it.
            Err(_) => Ending::Exited(0),
        };
        // Closes its descriptor, and with that the watch.
        all.remove(&vpid.to_raw());
        drop(all);
        self.state.declare(vpid, &Ok(ending));
        self.forget();
    }

    /// Frees places when many of them are those of the dead, and as many as are waited for, the
    /// oldest first, as far as no process has anything of them.
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
                // SAFETY: its end was declared; this is what came between that and now.
                unsafe { arena.let_go_of_the_rest(vpid) };
                arena.record(vpid.place()).free(vpid.generation());
                lacking = lacking.saturating_sub(1);
            } else {
                ended.push_back(vpid);
            }
        }
        if ended.len() < before {
            // A process may wait for a place.
            self.state.ring_all();
        }
    }

    /// Starts what workers have asked for.
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
                    let _ = self.state.start(vpid, &program); // its record says why not
                }
                None => self.state.declare(vpid, &Err(Some(invalid()))),
            }
            arena.record(parent.place() % arena.processes()).bell.increment();
        }
    }

    /// What a worker wants started; `None` if it is garbage.
    fn request(&self, word: u64) -> Option<Program> {
        let (block, len) = (word as u32, (word >> 32) as usize);
        let bytes = self.state.arena.copy_of(block, len)?;
        wire::decode::<Request>(&bytes).ok().map(Program::from)
    }

    /// Kills all, and collects them.
    fn end(self) {
        let mut all = self.state.running();
        for running in all.values() {
            running.leader.send(Signal::KILL.as_raw());
        }
        all.drain().for_each(|(_, running)| running.end());
    }
}
