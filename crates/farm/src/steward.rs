//! The manager's thread that starts processes for others, watches all, and tells of their ends.
//!
//! # Contract
//! Every process of a farm is a child of the manager's process, whoever asked for it. So one place knows who lives, how each
//! ended, and leaves none behind.
//!
//! ```text
//!  a worker: record says Asked ── eventfd ──┐
//!  the manager: started one, kill one ──────┼──> steward: poll ──> start, kill
//!  a process ends: its pidfd is readable ───┘         │
//!                                                     └──> its writers let go; record says Ended;
//!                                                          its blocks given back; all bells rung
//! ```
//!
//! # Costs
//! A start: posix_spawn, whose time does not grow with the manager's memory. The thread sleeps otherwise. An end: a look at
//! the farm's tables, and a ring for each process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use syncline_memory::{Ending, Lifeline, LifelineEnd, LifelineKeeper, ProcessWatch};

use crate::arena::Arena;
use crate::error::FarmError;
use crate::place::{FARM, Place};
use crate::program::{Program, Request};
use crate::record::{Life, code};
use crate::vpid::Vpid;
use crate::wire;

/// Held while there are descriptors that are not closed on exec, so that the children of another farm in this process do
/// not inherit them. Those of other code that starts programs at the same time may: then they hold the farm's memory until
/// they end, and a lifeline that they do not look at.
static SPAWNING: Mutex<()> = Mutex::new(());

/// How many of the dead keep their places, so that it can be asked how they ended.
const DEAD: usize = 64;

/// The manager's part of a farm: dropped, all its processes are killed, and collected.
#[derive(Debug)]
pub(crate) struct Steward {
    office: Arc<Office>,
    thread: Option<JoinHandle<()>>,
}

/// What the manager and its thread both use.
#[derive(Debug)]
struct Office {
    arena: Arc<Arena>,
    /// Written to, by whatever process, when there is something to do.
    event: OwnedFd,
    end: LifelineEnd,
    /// The line is cut when this process is gone.
    _keeper: LifelineKeeper,
    inbox: Mutex<Vec<Order>>,
    living: AtomicUsize,
}

#[derive(Debug)]
enum Order {
    Watch(Running),
    Send(Vpid, Signal),
    Stop,
}

#[derive(Debug)]
struct Running {
    vpid: Vpid,
    child: Child,
    watch: ProcessWatch,
}

impl Steward {
    /// Nobody is started yet, and there is no thread before somebody is.
    pub(crate) fn new(arena: &Arc<Arena>) -> Result<Steward, FarmError> {
        let (keeper, end) = Lifeline::pair()?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| system("make an eventfd", errno))?;
        let office = Office {
            arena: Arc::clone(arena),
            event,
            end,
            _keeper: keeper,
            inbox: Mutex::default(),
            living: AtomicUsize::new(0),
        };
        Ok(Steward { office: Arc::new(office), thread: None })
    }

    /// Starts the process of a number that was reserved.
    pub(crate) fn start(&mut self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        self.attend()?;
        let running = self.office.start(vpid, program)?;
        self.office.order(Order::Watch(running));
        Ok(())
    }

    /// A signal to a process, if it lives still when it is sent.
    pub(crate) fn send(&self, vpid: Vpid, signal: Signal) {
        self.office.order(Order::Send(vpid, signal));
    }

    /// Asks it to look whether there are places that can be used again.
    pub(crate) fn look(&self) {
        ring(&self.office.event);
    }

    /// How many processes live.
    pub(crate) fn living(&self) -> usize {
        self.office.living.load(Ordering::Relaxed)
    }

    /// From now on there is a thread.
    fn attend(&mut self) -> Result<(), FarmError> {
        if self.thread.is_none() {
            let office = Arc::clone(&self.office);
            let thread = std::thread::Builder::new().name("syncline farm".to_owned());
            let thread = thread
                .spawn(move || Watchman { office, running: Vec::new(), ended: VecDeque::new() }.attend());
            let what = "start a thread that watches the farm's processes";
            self.thread = Some(thread.map_err(|source| FarmError::System { what, source })?);
        }
        Ok(())
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.office.order(Order::Stop);
            // It does not panic; if it did, there is nobody to tell.
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

impl Office {
    fn order(&self, order: Order) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        ring(&self.event);
    }

    /// Starts a process; its record says so.
    fn start(&self, vpid: Vpid, program: &Program) -> Result<Running, FarmError> {
        let failed = |source| FarmError::Start { program: program.path.clone(), source };
        let record = self.arena.record(vpid.place());
        match self.spawn(vpid, program) {
            Ok((child, watch)) => {
                record.pid.store(u64::from(child.id()), Ordering::Relaxed);
                // If it takes part already, it is beyond that.
                let _ = record.step(vpid.generation(), Life::Reserved, Life::Started)
                    || record.step(vpid.generation(), Life::Asked, Life::Started);
                self.living.fetch_add(1, Ordering::Relaxed);
                Ok(Running { vpid, child, watch })
            }
            Err(error) => {
                self.declare(vpid, &Err(Some(error.raw_os_error().unwrap_or(invalid()))));
                Err(failed(error))
            }
        }
    }

    fn spawn(&self, vpid: Vpid, program: &Program) -> io::Result<(Child, ProcessWatch)> {
        let _one_at_a_time = SPAWNING.lock().unwrap_or_else(PoisonError::into_inner);
        // Copies that are not closed on exec: the child has them under the same numbers.
        let memory = self.arena.fd().ok_or(io::ErrorKind::Unsupported)?;
        let (memory, lifeline) = (rustix::io::dup(memory)?, rustix::io::dup(&self.end)?);
        let manager = rustix::io::dup(&self.event)?;
        let place = Place {
            memory: memory.as_raw_fd(),
            lifeline: lifeline.as_raw_fd(),
            manager: manager.as_raw_fd(),
            vpid,
        };
        // Nothing here keeps the standard library from posix_spawn.
        let mut command = Command::new(&program.path);
        command.args(&program.args).envs(program.variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.env(FARM, place.value()).stdin(Stdio::null()).spawn()?;
        match self.bound(&child).and_then(|()| ProcessWatch::new(child.id()).map_err(io::Error::other)) {
            Ok(watch) => Ok((child, watch)),
            Err(error) => {
                // One that cannot be watched is not kept.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn bound(&self, child: &Child) -> io::Result<()> {
        let Some(bytes) = self.arena.worker_memory() else { return Ok(()) };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        rustix::process::prlimit(pid, Resource::Data, limit)?;
        Ok(())
    }

    /// Tells everybody that a process is no more.
    fn declare(&self, vpid: Vpid, fate: &Result<Ending, Option<i32>>) {
        let arena = &self.arena;
        arena.let_go_of_writers(vpid);
        arena.record(vpid.place()).end(vpid, code(fate));
        arena.let_go_of_the_rest(vpid);
        if fate.is_ok() {
            self.living.fetch_sub(1, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire of whoever looks how many have ended; it sees all of the above.
        arena.ends().add(1);
        self.ring_all();
    }

    fn ring_all(&self) {
        let arena = &self.arena;
        for place in 0..arena.used() {
            let record = arena.record(place);
            if matches!(record.now().1, Life::Reserved | Life::Asked | Life::Started | Life::Joined)
                || place == 0
            {
                record.bell.add(1);
            }
        }
    }
}

/// "Invalid argument", for what the system has no number.
fn invalid() -> i32 {
    Errno::INVAL.raw_os_error()
}

/// The thread.
struct Watchman {
    office: Arc<Office>,
    running: Vec<Running>,
    /// Who has ended and whose place is not free yet, the oldest first.
    ended: VecDeque<Vpid>,
}

impl Watchman {
    fn attend(mut self) {
        loop {
            let asked = self.poll();
            let orders =
                std::mem::take(&mut *self.office.inbox.lock().unwrap_or_else(PoisonError::into_inner));
            let mut stop = false;
            for order in orders {
                match order {
                    Order::Watch(running) => self.running.push(running),
                    Order::Send(vpid, signal) => self.send(vpid, signal),
                    Order::Stop => stop = true,
                }
            }
            if stop {
                return self.end();
            }
            self.reap();
            if asked {
                self.serve();
                self.forget();
            }
        }
    }

    /// Sleeps until there is something to do; whether somebody rang.
    fn poll(&self) -> bool {
        let watched = self.running.iter().map(|running| running.watch.as_fd());
        let mut fds: Vec<_> = std::iter::once(self.office.event.as_fd())
            .chain(watched)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let _ = rustix::event::poll(&mut fds, None); // interrupted, or no memory: again
        let mut count = [0; 8];
        rustix::io::read(&self.office.event, &mut count).is_ok()
    }

    fn send(&self, vpid: Vpid, signal: Signal) {
        if let Some(running) = self.running.iter().find(|running| running.vpid == vpid) {
            // It fails only for one that has ended.
            let _ = rustix::process::pidfd_send_signal(&running.watch, signal);
        }
    }

    /// Collects those that have ended, and tells of them.
    fn reap(&mut self) {
        let mut still = Vec::with_capacity(self.running.len());
        for mut running in std::mem::take(&mut self.running) {
            let ending = match running.child.try_wait() {
                Ok(None) => {
                    still.push(running);
                    continue;
                }
                Ok(Some(status)) => Ending::from(status),
                // Somebody else has collected it.
                Err(_) => match running.watch.has_exited() {
                    Ok(false) => {
                        still.push(running);
                        continue;
                    }
                    _ => Ending::Exited(0),
                },
            };
            self.tell(running.vpid, ending);
        }
        self.running = still;
    }

    fn tell(&mut self, vpid: Vpid, ending: Ending) {
        self.end_of(vpid, &Ok(ending));
        // What it had reserved and not started never will be.
        for place in 1..self.office.arena.used() {
            let record = self.office.arena.record(place);
            let (generation, life) = record.now();
            let orphan = matches!(life, Life::Reserved | Life::Asked)
                && record.parent.load(Ordering::Relaxed) == vpid.to_raw();
            if orphan {
                self.end_of(Vpid::new(place, generation), &Err(None));
            }
        }
    }

    fn end_of(&mut self, vpid: Vpid, fate: &Result<Ending, Option<i32>>) {
        self.office.declare(vpid, fate);
        self.ended.push_back(vpid);
        self.forget();
    }

    /// Frees places when many of them are those of the dead, the oldest first, as far as nobody has anything of them.
    fn forget(&mut self) {
        let arena = &self.office.arena;
        let most = DEAD.min(arena.processes() / 2);
        let before = self.ended.len();
        let mut looks = self.ended.len();
        while self.ended.len() > most && looks > 0 {
            looks -= 1;
            let Some(vpid) = self.ended.pop_front() else { break };
            if arena.is_forgotten(vpid) {
                // What came between its end and now.
                arena.let_go_of_the_rest(vpid);
                arena.record(vpid.place()).free(vpid.generation());
            } else {
                self.ended.push_back(vpid);
            }
        }
        if self.ended.len() < before {
            // Somebody may wait for a place.
            self.office.ring_all();
        }
    }

    /// Starts what workers have asked for.
    fn serve(&mut self) {
        for place in 1..self.office.arena.used() {
            let arena = Arc::clone(&self.office.arena);
            let record = arena.record(place);
            let (generation, life) = record.now();
            if life != Life::Asked {
                continue;
            }
            let vpid = Vpid::new(place, generation);
            let parent = Vpid::from_raw(record.parent.load(Ordering::Relaxed));
            match self.request(record.request.load(Ordering::Relaxed)) {
                Some(program) => match self.office.start(vpid, &program) {
                    Ok(running) => self.running.push(running),
                    Err(_) => self.ended.push_back(vpid), // its record says why
                },
                None => self.end_of(vpid, &Err(Some(invalid()))),
            }
            arena.record(parent.place() % arena.processes()).bell.add(1);
        }
    }

    /// What a worker wants started; `None` if it is garbage.
    fn request(&self, word: u64) -> Option<Program> {
        let (block, len) = (word as u32, (word >> 32) as usize);
        let bytes = self.office.arena.copy_of(block, len)?;
        wire::decode::<Request>(&bytes).ok().map(Program::from)
    }

    /// Kills all, and collects them.
    fn end(mut self) {
        for running in &self.running {
            let _ = rustix::process::pidfd_send_signal(&running.watch, Signal::KILL);
        }
        for running in &mut self.running {
            let _ = running.child.wait();
        }
    }
}
