//! A farm, as one of its processes has it: spawn, send, receive.

use std::num::NonZeroU64;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use syncline_fabric::Member;
use syncline_memory::{Segment, segment::is_sealed};
use syncline_process::{inherit, lifeline::LifelineEnd};
use syncline_signal::Policy;
use syncline_signal::primitive::Ordering;
use syncline_sync::{
    agreement::Thing,
    membership::{FaultList, LAUNCHER},
};

use crate::arena::{Arena, MAX_DEPTH, Slots};
use crate::bell;
use crate::bounds::Bounds;
use crate::channel::{Reader, Writer};
use crate::environment::{self, FARM, Inherited};
use crate::error::FarmError;
use crate::message::Draft;
use crate::program::{Program, Request};
use crate::record::{ExitCause, ProcessState, ProgressRecord};
use crate::supervisor::{self, Supervisor};
use crate::vpid::{MAX_PROCESSES, Vpid};
use crate::wire;

mod receive;
mod send;

/// A farm of processes, as one of them sees it: it spawns others, sends to them, and receives from
/// them.
///
/// One thread at a time uses it; a process has one for each farm that it founds, and one if it was
/// spawned. When the manager's is dropped, or the manager dies however, all processes of the farm
/// are killed.
///
/// # What processes start by themselves
/// Each process of a farm leads a process group, and what it starts by other means than its farm
/// belongs to that group. The group is killed (SIGKILL) when its process has ended, however, before
/// that end is told; and when the manager has. What leaves the group goes on: `setsid`, `setpgid`,
/// daemons, shells with job control.
///
/// # Children made by `fork`
/// A child that `fork` has made of a process of a farm has no part in the farm: every call with its
/// copy of a farm, a pool or a worker is [`FarmError::Forked`], and nothing that it drops is undone
/// for the process that was forked. It may found a farm of its own. It holds a copy of the
/// manager's end of the lifelines until it ends or calls `exec`.
///
/// # At a terminal
/// The groups are in the background. Ctrl-C reaches the manager: by default it dies, and all with
/// it; a manager that catches SIGINT decides what becomes of its processes. Ctrl-Z stops all, and
/// `fg` continues all: see [`Bounds::forward_stops`](crate::bounds::Bounds::forward_stops). A process that
/// takes part, and what it starts, ignores SIGTTIN and SIGTTOU, unless it has said otherwise: so it
/// may write to the terminal, and what reads from it gets an error (`EIO`).
///
/// # Examples
/// A worker sends back what it is sent. Both are this program: `join` tells which it is.
/// ```
/// use syncline_farm::{Farm, Program, Vpid};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     if let Some(mut farm) = Farm::join()? {
///         let text: String = farm.recv(Vpid::MANAGER)?;
///         farm.send(Vpid::MANAGER, &text.to_uppercase())?;
///         return Ok(());
///     }
///     let mut farm = Farm::new()?;
///     let worker = farm.reserve()?;
///     farm.send(worker, &"hello".to_owned())?; // before it is born
///     farm.start(worker, &Program::this()?)?;
///     assert_eq!(farm.recv::<String>(worker)?, "HELLO");
///     Ok(())
/// }
/// ```
///
/// # Source
/// Moreno Maza, Stephenson, Watt and Xie, "Multiprocessed parallelism support in ALDOR on SMPs and
/// multicores" (2007).
#[derive(Debug)]
pub struct Farm {
    arena: Arc<Arena>,
    me: Vpid,
    role: Role,
    /// By the receiver's place.
    outbound: Vec<Option<Outbound>>,
    /// By the sender's place.
    inbound: Vec<Option<Inbound>>,
    /// The places of the processes that have a channel to this one.
    senders: Vec<usize>,
    /// The processes that this one has started, and of whose end it was not told yet.
    children: Vec<Vpid>,
    /// A number that was reserved for a process that then could not be asked for.
    spare: Option<Vpid>,
    /// Of `senders`, where the next look at all begins.
    turn: usize,
    /// How many channels had been opened when the row was looked at.
    opened: u64,
    /// How many processes had ended when channels of the dead were looked for.
    ends: u64,
    policy: Policy<'static>,
    /// Whether `recv_any` tells of children that have ended well, too.
    every_end: bool,
}

#[derive(Debug)]
enum Role {
    Manager(Supervisor),
    Worker {
        manager: OwnedFd,
    },
    /// One of a team, whose ranks are the numbers.
    Member {
        fault_list: FaultList,
    },
}

#[derive(Debug)]
struct Outbound {
    to: Vpid,
    block: u32,
    writer: Writer<Slots>,
}

#[derive(Debug)]
struct Inbound {
    from: Vpid,
    block: u32,
    reader: Reader<Slots>,
}

impl Role {
    /// How far a process has come.
    #[inline]
    fn life(&self, arena: &Arena, vpid: Vpid) -> ProcessState {
        match self {
            Role::Member { fault_list }
                if fault_list.includes(vpid.place()) || fault_list.includes(LAUNCHER) =>
            {
                ProcessState::Ended
            }
            _ => arena.life(vpid),
        }
    }

    /// How many have ended.
    fn ends(&self, arena: &Arena) -> u64 {
        match self {
            Role::Member { fault_list } => fault_list.count() as u64,
            _ => arena.ends().get(),
        }
    }

    /// What tells the waiters of a process that ends, if it is not their bell.
    fn fault_list(&self) -> Option<FaultList> {
        match self {
            Role::Member { fault_list } => Some(fault_list.clone()),
            _ => None,
        }
    }
}

/// How long to wait for the place of one that has ended.
const FOR_A_PLACE: Duration = Duration::from_millis(200);

/// A process is spawned once, and takes part once.
static JOINED: OnceLock<Vpid> = OnceLock::new();

impl Farm {
    /// Founds a farm, whose manager this process is, with the usual [`Bounds`].
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new() -> Result<Farm, FarmError> {
        Farm::with(Bounds::default())
    }

    /// Founds a farm, whose manager this process is.
    ///
    /// # Errors
    /// [`FarmError::Range`] if a bound makes no sense; [`FarmError::Worker`] in a process that a
    /// farm has started, and that does not take part in that one; what the system refuses.
    pub fn with(bounds: Bounds) -> Result<Farm, FarmError> {
        if JOINED.get().is_none() && Inherited::is_ours() {
            return Err(FarmError::Worker);
        }
        let Bounds { processes, memory, worker_memory, depth, forward_stops } = bounds;
        let range = |what, said, least, most| {
            if (least..=most).contains(&said) {
                Ok(())
            } else {
                Err(FarmError::Range { what, said, least, most })
            }
        };
        range("the number of processes of a farm", processes, 2, MAX_PROCESSES)?;
        range("the depth of channels", depth, 1, MAX_DEPTH)?;
        range("the memory of a farm", memory, 1 << 16, 1 << 44)?;
        let arena = Arc::new(Arena::new(processes, depth, memory)?);
        arena.bound_workers(worker_memory.map_or(0, NonZeroU64::get));
        let supervisor = Supervisor::new(&arena, forward_stops)?;
        let record = arena.record(0);
        record.pid.store(u64::from(std::process::id()), Ordering::Relaxed);
        record.step(0, ProcessState::Free, ProcessState::Joined);
        arena.use_place(0);
        Ok(Farm::of(arena, Vpid::MANAGER, Role::Manager(supervisor)))
    }

    /// Takes part in the farm that has spawned this process; `None` if none has.
    ///
    /// From then on the kernel kills this process, and all of its process group, when the manager
    /// is gone. The descriptor by which it knows of that (the read end of a pipe, to which nothing
    /// is written) is inherited by what this process starts.
    ///
    /// # Errors
    /// [`FarmError::Taken`] the second time; [`FarmError::Variable`] if what the manager has said
    /// makes no sense.
    pub fn join() -> Result<Option<Farm>, FarmError> {
        let Some(place) = Inherited::from_environment()? else {
            return match JOINED.get() {
                Some(&vpid) => Err(FarmError::Taken { vpid }),
                None => Ok(None),
            };
        };
        let descriptor = |number: RawFd, what: &str| {
            let copy = inherit::copy(number)
                .and_then(|copy| inherit::close_on_exec(number).map(|()| copy));
            copy.map_err(|error| {
                environment::wrong(place.value(), format!("{what} cannot be had: {error}"))
            })
        };
        let memory = descriptor(place.memory, "the memory")?;
        if !is_sealed(&memory) {
            return Err(environment::wrong(
                place.value(),
                "the memory is something else".to_owned(),
            ));
        }
        let arena = Arena::attach(Segment::from_fd(memory)?);
        let arena = arena.map_err(|why| {
            environment::wrong(place.value(), format!("the memory is of no use: {why}"))
        })?;
        let manager = descriptor(place.manager, "the manager's event")?;
        let lifeline = LifelineEnd::from_fd(descriptor(place.lifeline, "the lifeline")?)?;
        let vpid = place.vpid;
        if vpid.place() >= arena.processes() {
            return Err(FarmError::Unknown { vpid });
        }
        let record = arena.record(vpid.place());
        // The manager may not have written yet that it has started this process.
        let lives = [ProcessState::Reserved, ProcessState::Asked, ProcessState::Started];
        if JOINED.set(vpid).is_err()
            || !record.step_from(vpid.generation(), &lives, ProcessState::Joined)
        {
            return Err(FarmError::Taken { vpid });
        }
        lifeline.kill_own_group_when_cut()?;
        syncline_process::jobs::bear_the_terminal();
        // The manager does so, too, for programs that do not come here; but perhaps a moment too
        // late.
        if let Some(bytes) = arena.worker_memory() {
            let most = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            let what = "bound the memory of this process";
            setrlimit(Resource::Data, limit)
                .map_err(|errno| FarmError::System { what, source: errno.into() })?;
        }
        inherit::forget_variable(FARM);
        Ok(Some(Farm::of(Arc::new(arena), vpid, Role::Worker { manager })))
    }

    /// Founds a farm of the members of a team, which are on one host: their ranks are the numbers.
    ///
    /// All members call it, as anything that is made.
    pub(crate) fn within(member: &mut Member, memory: usize) -> Result<Farm, FarmError> {
        let (rank, size, fault_list) = (member.rank(), member.size(), member.fault_list().clone());
        let arena = Arena::within(&mut member.space().making(Thing::Farm), size, 4, memory)?;
        (0..size).for_each(|place| arena.record(place).is_member());
        arena.use_place(size - 1);
        arena.record(rank).pid.store(u64::from(std::process::id()), Ordering::Relaxed);
        let mut farm = Farm::of(Arc::new(arena), Vpid::new(rank, 0), Role::Member { fault_list });
        if rank == 0 {
            farm.children = (1..size).map(|place| Vpid::new(place, 0)).collect();
        }
        Ok(farm)
    }

    fn of(arena: Arc<Arena>, me: Vpid, role: Role) -> Farm {
        Farm {
            arena,
            me,
            role,
            outbound: Vec::new(),
            inbound: Vec::new(),
            senders: Vec::new(),
            children: Vec::new(),
            spare: None,
            turn: 0,
            opened: 0,
            ends: 0,
            policy: Policy::default(),
            every_end: false,
        }
    }

    /// From now on `recv_any` is an error also for children that exit with 0.
    pub(crate) fn tell_of_every_end(&mut self) {
        self.every_end = true;
    }

    /// Where a process says what it is at.
    pub(crate) fn progress(&self, vpid: Vpid) -> &ProgressRecord {
        &self.arena.record(vpid.place()).progress
    }

    /// That this process is the one that has founded or joined the farm, and not a child that
    /// `fork` has made of it.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), FarmError> {
        if self.arena.is_home() { Ok(()) } else { Err(FarmError::Forked { vpid: self.me }) }
    }

    /// The number of this process.
    #[must_use]
    pub fn vpid(&self) -> Vpid {
        self.me
    }

    /// The process that has started this one; the manager has none.
    #[must_use]
    pub fn parent(&self) -> Option<Vpid> {
        (self.me != Vpid::MANAGER).then(|| self.arena.record(self.me.place()).parent())
    }

    /// How this process waits from now on.
    pub fn set_policy(&mut self, policy: Policy<'static>) {
        self.policy = policy;
    }

    /// Makes a number for a process that is not born yet, so that it can be sent something first:
    /// as many messages as a channel holds ([`Bounds::depth`]), and not more, as no process
    /// receives them yet. Where all places are taken, it waits 200 ms for one that ends.
    ///
    /// # Errors
    /// [`FarmError::Full`].
    pub fn reserve(&mut self) -> Result<Vpid, FarmError> {
        self.reserve_deadline(Instant::now().checked_add(FOR_A_PLACE))
    }

    /// As [`reserve`](Self::reserve), but where all places are taken it waits until a deadline.
    ///
    /// The place of a process that has ended can be given to another when every receiver of what it
    /// had sent has received all and looked once more (in [`recv`](Self::recv),
    /// [`recv_any`](Self::recv_any), [`wait`](Self::wait) or here), and the process that has
    /// started it was told of its end, or has ended too. The oldest are given away first: then it
    /// is forgotten how these ended.
    ///
    /// # Errors
    /// [`FarmError::Full`].
    pub fn reserve_deadline(&mut self, deadline: Option<Instant>) -> Result<Vpid, FarmError> {
        self.check_not_forked()?;
        let now = self.spare.take().or_else(|| self.arena.reserve(self.me));
        if let Some(vpid) = now {
            self.arena.record(self.me.place()).set_waiting(false);
            return Ok(vpid);
        }
        let (arena, policy) = (Arc::clone(&self.arena), self.policy);
        let record = arena.record(self.me.place());
        record.set_waiting(true);
        let mut asked = None;
        let place = bell::wait(&record.bell, &policy, deadline, || {
            // Looked at before the places: what becomes free after that look rings after this one.
            let rung = Some(record.bell.get());
            let place = arena.reserve(self.me);
            if place.is_none() && asked != rung {
                asked = rung;
                // Processes that have ended have places still, also those that end meanwhile.
                self.bury();
                self.ask_for_places();
            }
            Ok::<_, FarmError>(place)
        });
        record.set_waiting(false);
        place?.ok_or(FarmError::Full { processes: arena.processes() })
    }

    /// The same, if there is a place now. If not, one is kept as soon as there is, until this
    /// succeeds.
    pub(crate) fn reserve_now(&mut self) -> Option<Vpid> {
        let place = self.spare.take().or_else(|| self.arena.reserve(self.me));
        self.arena.record(self.me.place()).set_waiting(place.is_none());
        if place.is_none() {
            self.bury();
            self.ask_for_places();
        }
        place
    }

    /// Asks the manager's thread to free the places that are waited for.
    fn ask_for_places(&self) {
        match &self.role {
            Role::Manager(supervisor) => supervisor.look(),
            Role::Worker { manager } => supervisor::ring(manager),
            Role::Member { .. } => (),
        }
    }

    /// This process has nothing of one that has ended any more: that may be the place that another
    /// waits for.
    fn has_let_go(&self) {
        if self.arena.is_awaited() {
            self.ask_for_places();
        }
    }

    /// Starts a process, as a task, and returns its number. Any process of the farm may, at any
    /// time.
    ///
    /// # Errors
    /// [`FarmError::Start`], [`FarmError::Full`].
    pub fn spawn(&mut self, program: &Program) -> Result<Vpid, FarmError> {
        let vpid = self.reserve()?;
        let started = self.start(vpid, program);
        // Else no process could use the number.
        if self.arena.record(vpid.place()).life(vpid) == ProcessState::Reserved {
            self.spare = Some(vpid);
        }
        started.map(|()| vpid)
    }

    /// Starts the process of a number that this process, or another, has [reserved](Self::reserve).
    ///
    /// # Errors
    /// [`FarmError::Start`]: then the number is used up; [`FarmError::NotReserved`];
    /// [`FarmError::Unsendable`], [`FarmError::System`]: then it is reserved still.
    pub fn start(&mut self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        self.known(vpid)?;
        let started = match &mut self.role {
            Role::Manager(supervisor) => supervisor.start(vpid, program),
            Role::Worker { .. } => self.ask(vpid, program),
            // A member of a team reserves no numbers.
            Role::Member { .. } => Err(FarmError::NotReserved { vpid }),
        };
        match started {
            Ok(()) => self.children.push(vpid),
            Err(FarmError::Start { .. }) => self.let_go_of(vpid),
            Err(_) => (),
        }
        started
    }

    /// The manager does not start a number that it has reserved: then it keeps no place.
    pub(crate) fn give_up(&mut self, vpid: Vpid) {
        // Another process of the place must not be taken for this one.
        if let Role::Manager(supervisor) = &self.role
            && supervisor.give_up(vpid)
        {
            self.let_go_of(vpid);
        }
    }

    /// How a process has ended was told to this one, which is its parent.
    pub(crate) fn let_go_of(&self, vpid: Vpid) {
        self.arena.record(vpid.place()).note();
        self.has_let_go();
    }

    /// Asks the manager to start a process, and waits until it has.
    fn ask(&self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        let Role::Worker { manager } = &self.role else { return Ok(()) };
        let record = self.arena.record(vpid.place());
        let request = Request::from(program);
        let refused = |why| FarmError::Unsendable { to: Vpid::MANAGER, why };
        let mut draft = Draft::new(&self.arena, self.me);
        let written = wire::write(&mut draft, &request).and_then(|()| draft.into_block());
        let (block, len) = written.map_err(refused)?;
        if !record.claim(vpid, self.me) {
            // SAFETY: it was written just now, and no process was told of it.
            unsafe { self.arena.blocks().give(block, self.me.to_raw() + 1) };
            return Err(FarmError::NotReserved { vpid });
        }
        record.request.store(u64::from(block) | (len as u64) << 32, Ordering::Relaxed);
        record.step(vpid.generation(), ProcessState::Reserved, ProcessState::Asked);
        supervisor::ring(manager);
        let bell = &self.arena.record(self.me.place()).bell;
        let answered = bell::wait(bell, &self.policy, None, || {
            Ok::<_, FarmError>((record.life(vpid) != ProcessState::Asked).then_some(()))
        });
        // SAFETY: the manager copies the request, whatever is done to the block meanwhile.
        unsafe { self.arena.blocks().give(block, self.me.to_raw() + 1) };
        answered?;
        match (record.life(vpid), record.cause(vpid)) {
            (ProcessState::Ended, ExitCause::NotStarted(why)) => Err(FarmError::Start {
                program: program.path.clone(),
                source: std::io::Error::other(why),
            }),
            _ => Ok(()),
        }
    }

    /// The record of a process, for a call of this one.
    fn known(&self, vpid: Vpid) -> Result<&crate::record::Record, FarmError> {
        self.check_not_forked()?;
        if vpid.place() >= self.arena.processes() || self.arena.life(vpid) == ProcessState::Free {
            return Err(FarmError::Unknown { vpid });
        }
        Ok(self.arena.record(vpid.place()))
    }

    /// That a process is not this one. `what` is what a process cannot do with itself.
    fn is_another(&self, vpid: Vpid, what: &'static str) -> Result<(), FarmError> {
        if vpid == self.me { Err(FarmError::Itself { vpid, what }) } else { Ok(()) }
    }

    fn gone(&self, vpid: Vpid) -> FarmError {
        FarmError::Gone { vpid, cause: self.fate_of(vpid) }
    }

    #[inline]
    fn life(&self, vpid: Vpid) -> ProcessState {
        self.role.life(&self.arena, vpid)
    }

    /// How one has ended that has.
    fn fate_of(&self, vpid: Vpid) -> ExitCause {
        match self.role {
            Role::Member { .. } => ExitCause::Dead,
            _ => self.arena.record(vpid.place()).cause(vpid),
        }
    }

    /// How a process has ended, if it has.
    ///
    /// # Errors
    /// [`FarmError::Unknown`].
    pub fn cause(&self, vpid: Vpid) -> Result<Option<ExitCause>, FarmError> {
        self.known(vpid)?;
        Ok((self.life(vpid) == ProcessState::Ended).then(|| self.fate_of(vpid)))
    }

    /// Waits until a process has ended, and tells how: [`ExitCause::Forgotten`] if its place was given
    /// away before this process has looked. See [`reserve_deadline`](Self::reserve_deadline); who
    /// looks for a place has thereby seen the end of those that it has started and that have exited
    /// with 0.
    ///
    /// # Errors
    /// [`FarmError::Unknown`], [`FarmError::TimedOut`]; [`FarmError::Itself`] for the number of
    /// this process, without a deadline.
    pub fn wait(&mut self, vpid: Vpid, deadline: Option<Instant>) -> Result<ExitCause, FarmError> {
        self.known(vpid)?;
        if deadline.is_none() {
            self.is_another(vpid, "wait for its own end")?;
        }
        let bell = &self.arena.record(self.me.place()).bell;
        // Long waits are usual here: no looks.
        let policy = Policy { yield_for: Duration::ZERO, ..self.policy };
        let ended = bell::wait(bell, &policy, deadline, || self.cause(vpid))?;
        if ended.is_some() && !self.has_sent(vpid) {
            self.unlink(vpid);
            self.note(vpid);
        }
        ended.ok_or_else(|| FarmError::TimedOut { what: format!("the end of process {vpid}") })
    }

    /// Kills a process (SIGKILL) with all of its process group. Its end is told to all, soon.
    ///
    /// # Errors
    /// [`FarmError::Manager`] if this is not the manager; [`FarmError::Itself`] if it is the one to
    /// be killed; [`FarmError::Unknown`].
    pub fn kill(&mut self, vpid: Vpid) -> Result<(), FarmError> {
        self.known(vpid)?;
        match &self.role {
            Role::Manager(supervisor) => {
                self.is_another(vpid, "kill itself: it can exit")?;
                supervisor.send(vpid, Signal::KILL);
                Ok(())
            }
            Role::Worker { .. } | Role::Member { .. } => {
                Err(FarmError::Manager { what: "kill processes", vpid: self.me })
            }
        }
    }

    /// The number in the system of a process that was started.
    #[must_use]
    pub fn pid(&self, vpid: Vpid) -> Option<u32> {
        let record = self.known(vpid).ok()?;
        // Acquire: pairs with the Release in the manager's `start`. The place of one that started
        // later has another generation, and that is seen.
        let pid = record.pid.load(Ordering::Acquire);
        (record.now().0 == vpid.generation() && pid != 0).then_some(pid as u32)
    }

    /// How many processes of the farm live, the manager not among them; the manager is asked, all
    /// others have 0.
    #[must_use]
    pub fn living(&self) -> usize {
        match &self.role {
            Role::Manager(supervisor) if self.arena.is_home() => supervisor.living(),
            Role::Manager(_) | Role::Worker { .. } | Role::Member { .. } => 0,
        }
    }
}
