//! A farm, from the view of one of its processes: spawn, send, receive.

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
use syncline_trace::{self as trace, Activity, note, set_role, span};

use crate::arena::{Arena, MAX_DEPTH, Slots};
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

/// A farm of processes, from the view of one of them: it spawns other processes, sends to them, and
/// receives from them.
///
/// One thread at a time uses it. A process has one for each farm that it founds, and one if it was
/// spawned. When the manager's is dropped, or the manager dies for any reason, all processes of the
/// farm are killed.
///
/// # Processes started by the farm's processes
/// Each process of a farm leads a process group. A process that it starts by other means than its
/// farm belongs to that group. The group is killed (SIGKILL) when its leader has ended for any
/// reason, before that end is reported, and when the manager has ended. A process that leaves the
/// group is not killed: `setsid`, `setpgid`, daemons, shells with job control.
///
/// # Children made by `fork`
/// A child that is made by `fork` of a process of a farm is not part of the farm: every call with
/// its copy of a farm, a pool or a worker returns [`FarmError::Forked`], and dropping such a copy
/// does not affect the forked process. The child may found a farm of its own. It holds a copy of
/// the manager's end of the lifelines until it ends or calls `exec`.
///
/// # At a terminal
/// The groups are in the background. Ctrl-C reaches the manager: by default it dies, and all
/// processes with it; a manager that catches SIGINT decides about its processes. Ctrl-Z stops all
/// processes, and `fg` continues them: see
/// [`Bounds::forward_stops`](crate::bounds::Bounds::forward_stops). A process that has joined, and
/// those that it starts, ignore SIGTTIN and SIGTTOU, unless they have set another disposition: they
/// may write to the terminal, and a read from it fails (`EIO`).
///
/// # Examples
/// A worker sends back the text that it receives, in upper case. Manager and worker are this
/// program: `join` determines which of them the process is.
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
///     farm.send(worker, &"hello".to_owned())?; // before it is started
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
    /// Indexed by the receiver's place.
    outbound: Vec<Option<Outbound>>,
    /// Indexed by the sender's place.
    inbound: Vec<Option<Inbound>>,
    /// The places of the processes that have a channel to this one.
    senders: Vec<usize>,
    /// The processes that this one has started, and whose end was not reported to it yet.
    children: Vec<Vpid>,
    /// A vpid that was reserved for a process whose start could not be requested.
    spare: Option<Vpid>,
    /// The index in `senders` at which the next scan begins.
    turn: usize,
    /// The number of channels that had been opened at the last scan of the row.
    opened: u64,
    /// The number of processes that had ended at the last search for channels of ended ones.
    ends: u64,
    policy: Policy<'static>,
    /// What the process waits for, in traces, when it waits for messages.
    awaits: Activity,
    /// Whether `recv_any` also reports children that have exited with 0.
    every_end: bool,
}

#[derive(Debug)]
enum Role {
    Manager(Supervisor),
    Worker {
        manager: OwnedFd,
    },
    /// A member of a team. The vpids are the ranks.
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
    /// Returns the state of a process.
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

    /// Returns the number of processes that have ended.
    fn ends(&self, arena: &Arena) -> u64 {
        match self {
            Role::Member { fault_list } => fault_list.count() as u64,
            _ => arena.ends().get(),
        }
    }

    /// The watch that waits ask for members that have ended, where no event is counted for that.
    fn fault_list(&self) -> Option<FaultList> {
        match self {
            Role::Member { fault_list } => Some(fault_list.clone()),
            _ => None,
        }
    }
}

/// The time that `reserve` waits for the place of an ended process.
const FOR_A_PLACE: Duration = Duration::from_millis(200);

/// Returns the subject of spans about a process: its place in the farm, or `u32::MAX` for any.
fn traced(vpid: Vpid) -> u32 {
    vpid.place() as u32
}

/// The vpid of this process: a process is spawned once, and joins once.
static JOINED: OnceLock<Vpid> = OnceLock::new();

impl Farm {
    /// Founds a farm with the default [`Bounds`]. This process becomes its manager.
    ///
    /// # Errors
    /// Those of [`with`](Self::with).
    pub fn new() -> Result<Farm, FarmError> {
        Farm::with(Bounds::default())
    }

    /// Founds a farm. This process becomes its manager.
    ///
    /// # Errors
    /// [`FarmError::Range`] if a bound is out of range; [`FarmError::Worker`] in a process that was
    /// started by a farm and has not joined it; [`FarmError::System`] and others if the system
    /// refuses an operation.
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
        note::fact("farm.process", Vpid::MANAGER);
        note::fact("farm.processes", processes);
        set_role(trace::Role::Manager);
        Ok(Farm::of(arena, Vpid::MANAGER, Role::Manager(supervisor)))
    }

    /// Joins the farm that has spawned this process; returns `None` if none has.
    ///
    /// From then on the kernel kills this process, and all of its process group, when the manager
    /// is gone. The descriptor that signals this (the read end of a pipe to which nothing is
    /// written) is inherited by the processes that this process starts.
    ///
    /// # Errors
    /// [`FarmError::Taken`] for the second call; [`FarmError::Variable`] if the environment
    /// variable that the manager has set is invalid.
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
                environment::wrong(place.value(), format!("{what} is not available: {error}"))
            })
        };
        let memory = descriptor(place.memory, "the memory")?;
        if !is_sealed(&memory) {
            return Err(environment::wrong(
                place.value(),
                "the memory is not that of a farm".to_owned(),
            ));
        }
        let arena = Arena::attach(Segment::from_fd(memory)?);
        let arena = arena.map_err(|why| {
            environment::wrong(place.value(), format!("the memory is unusable: {why}"))
        })?;
        let manager = descriptor(place.manager, "the manager's event")?;
        let lifeline = LifelineEnd::from_fd(descriptor(place.lifeline, "the lifeline")?)?;
        let vpid = place.vpid;
        if vpid.place() >= arena.processes() {
            return Err(FarmError::Unknown { vpid });
        }
        let record = arena.record(vpid.place());
        // The manager may not have marked this process as started yet.
        let lives = [ProcessState::Reserved, ProcessState::Asked, ProcessState::Started];
        if JOINED.set(vpid).is_err()
            || !record.step_from(vpid.generation(), &lives, ProcessState::Joined)
        {
            return Err(FarmError::Taken { vpid });
        }
        lifeline.kill_own_group_when_cut()?;
        syncline_process::jobs::bear_the_terminal();
        // The manager also does so, for programs that never join, but perhaps a moment too late.
        if let Some(bytes) = arena.worker_memory() {
            let most = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            let what = "bound the memory of this process";
            setrlimit(Resource::Data, limit)
                .map_err(|errno| FarmError::System { what, source: errno.into() })?;
        }
        inherit::forget_variable(FARM);
        note::fact("farm.process", vpid);
        set_role(trace::Role::Worker(vpid.place() as u32));
        Ok(Some(Farm::of(Arc::new(arena), vpid, Role::Worker { manager })))
    }

    /// Founds a farm of the members of a team on one host, whose ranks are the vpids.
    ///
    /// # Collective
    /// All members call it.
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
            awaits: Activity::AwaitMessage,
            every_end: false,
        }
    }

    /// Makes `recv_any` also report children that exit with 0.
    /// Sets what the process waits for, in traces, when it waits for messages.
    pub(crate) fn awaits(&mut self, activity: Activity) {
        self.awaits = activity;
    }

    pub(crate) fn report_every_end(&mut self) {
        self.every_end = true;
    }

    /// Returns the progress record of a process.
    pub(crate) fn progress(&self, vpid: Vpid) -> &ProgressRecord {
        &self.arena.record(vpid.place()).progress
    }

    /// Checks that this process has founded or joined the farm itself, and is not a child made by
    /// `fork`.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), FarmError> {
        if self.arena.is_home() { Ok(()) } else { Err(FarmError::Forked { vpid: self.me }) }
    }

    /// Returns the vpid of this process.
    #[must_use]
    pub fn vpid(&self) -> Vpid {
        self.me
    }

    /// Returns the process that has started this one; `None` at the manager.
    #[must_use]
    pub fn parent(&self) -> Option<Vpid> {
        (self.me != Vpid::MANAGER).then(|| self.arena.record(self.me.place()).parent())
    }

    /// Sets the policy by which this process waits.
    pub fn set_policy(&mut self, policy: Policy<'static>) {
        self.policy = policy;
    }

    /// Reserves a vpid for a process that has not been started, so that messages can be sent to it
    /// beforehand: at most the number that a channel holds ([`Bounds::depth`]), as no process
    /// receives them yet. If all places are taken, it waits 200 ms for one to become free.
    ///
    /// # Errors
    /// [`FarmError::Full`] if no place became free.
    pub fn reserve(&mut self) -> Result<Vpid, FarmError> {
        self.reserve_deadline(Instant::now().checked_add(FOR_A_PLACE))
    }

    /// Like [`reserve`](Self::reserve), but waits until a deadline if all places are taken.
    ///
    /// The place of an ended process can be reused once every receiver of its messages has received
    /// all of them and has checked once more (in [`recv`](Self::recv),
    /// [`recv_any`](Self::recv_any), [`wait`](Self::wait) or here), and its end was reported to its
    /// parent, or the parent has ended too. The oldest places are reused first; the exit causes of
    /// their processes are then forgotten.
    ///
    /// # Errors
    /// [`FarmError::Full`] if no place became free.
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
        let _waits = span(Activity::AwaitProcess, u32::MAX, 0);
        let mut asked = None;
        let place = record.events.wait_for(&policy, deadline, || {
            // Read before the places: what becomes free after that look is counted after this one.
            let seen = Some(record.events.prepare());
            let place = arena.reserve(self.me);
            if place.is_none() && asked != seen {
                asked = seen;
                // Processes that have ended have places still, also those that end meanwhile.
                self.release_ended();
                self.ask_for_places();
            }
            Ok::<_, FarmError>(place)
        });
        record.set_waiting(false);
        place?.ok_or(FarmError::Full { processes: arena.processes() })
    }

    /// Reserves a place if one is free now. If not, the manager's thread keeps the next free place,
    /// until this succeeds.
    pub(crate) fn reserve_now(&mut self) -> Option<Vpid> {
        let place = self.spare.take().or_else(|| self.arena.reserve(self.me));
        self.arena.record(self.me.place()).set_waiting(place.is_none());
        if place.is_none() {
            self.release_ended();
            self.ask_for_places();
        }
        place
    }

    /// Asks the manager's thread to free the places that processes wait for.
    fn ask_for_places(&self) {
        match &self.role {
            Role::Manager(supervisor) => supervisor.look(),
            Role::Worker { manager } => supervisor::ring(manager),
            Role::Member { .. } => (),
        }
    }

    /// Called when this process has released something of an ended one: its place may be the one
    /// that another process waits for.
    fn has_let_go(&self) {
        if self.arena.is_awaited() {
            self.ask_for_places();
        }
    }

    /// Starts a process, and returns its vpid. Any process of the farm may call it, at any time.
    ///
    /// # Errors
    /// [`FarmError::Start`], [`FarmError::Full`].
    pub fn spawn(&mut self, program: &Program) -> Result<Vpid, FarmError> {
        let vpid = self.reserve()?;
        let started = self.start(vpid, program);
        // Otherwise no process could use the vpid.
        if self.arena.record(vpid.place()).life(vpid) == ProcessState::Reserved {
            self.spare = Some(vpid);
        }
        started.map(|()| vpid)
    }

    /// Starts the process of a vpid that this process, or another, has [reserved](Self::reserve).
    ///
    /// # Errors
    /// [`FarmError::Start`]: then the vpid is used up; [`FarmError::NotReserved`];
    /// [`FarmError::Unsendable`], [`FarmError::System`]: then it is still reserved.
    pub fn start(&mut self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        self.known(vpid)?;
        let started = match &mut self.role {
            Role::Manager(supervisor) => {
                let _waits = span(Activity::AwaitProcess, traced(vpid), 0);
                supervisor.start(vpid, program)
            }
            Role::Worker { .. } => self.ask(vpid, program),
            // A member of a team reserves no vpids.
            Role::Member { .. } => Err(FarmError::NotReserved { vpid }),
        };
        match started {
            Ok(()) => self.children.push(vpid),
            Err(FarmError::Start { .. }) => self.let_go_of(vpid),
            Err(_) => (),
        }
        started
    }

    /// Gives up a vpid that the manager has reserved and does not start, and so frees its place.
    pub(crate) fn give_up(&mut self, vpid: Vpid) {
        // A later process of the same place must not be mistaken for this one.
        if let Role::Manager(supervisor) = &self.role
            && supervisor.give_up(vpid)
        {
            self.let_go_of(vpid);
        }
    }

    /// Records that the exit cause of a child was reported to this process, its parent.
    pub(crate) fn let_go_of(&self, vpid: Vpid) {
        self.arena.record(vpid.place()).note();
        self.has_let_go();
    }

    /// Asks the manager to start a process, and waits until it has done so.
    fn ask(&self, vpid: Vpid, program: &Program) -> Result<(), FarmError> {
        let Role::Worker { manager } = &self.role else { return Ok(()) };
        let record = self.arena.record(vpid.place());
        let request = Request::from(program);
        let refused = |why| FarmError::Unsendable { to: Vpid::MANAGER, why };
        let mut draft = Draft::new(&self.arena, self.me);
        let written = wire::write(&mut draft, &request).and_then(|()| draft.into_block());
        let (block, len) = written.map_err(refused)?;
        if !record.claim(vpid, self.me) {
            // SAFETY: the block was written just now and its number was not published, so no
            // process uses it.
            unsafe { self.arena.blocks().give(block, self.me.to_raw() + 1) };
            return Err(FarmError::NotReserved { vpid });
        }
        record.request.store(u64::from(block) | (len as u64) << 32, Ordering::Relaxed);
        record.step(vpid.generation(), ProcessState::Reserved, ProcessState::Asked);
        supervisor::ring(manager);
        let waits = span(Activity::AwaitProcess, traced(vpid), 0);
        let events = &self.arena.record(self.me.place()).events;
        let answered = events.wait_for(&self.policy, None, || {
            Ok::<_, FarmError>((record.life(vpid) != ProcessState::Asked).then_some(()))
        });
        drop(waits);
        // SAFETY: the manager copies the request, and tolerates that the block changes meanwhile.
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

    /// Returns the record of a process that exists or existed; checks that this is no forked child.
    fn known(&self, vpid: Vpid) -> Result<&crate::record::Record, FarmError> {
        self.check_not_forked()?;
        if vpid.place() >= self.arena.processes() || self.arena.life(vpid) == ProcessState::Free {
            return Err(FarmError::Unknown { vpid });
        }
        Ok(self.arena.record(vpid.place()))
    }

    /// Checks that a process is not this one. `what` is the operation that a process cannot do with
    /// itself.
    fn is_another(&self, vpid: Vpid, what: &'static str) -> Result<(), FarmError> {
        if vpid == self.me { Err(FarmError::Itself { vpid, what }) } else { Ok(()) }
    }

    fn gone(&self, vpid: Vpid) -> FarmError {
        FarmError::Gone { vpid, cause: self.cause_of(vpid) }
    }

    #[inline]
    fn life(&self, vpid: Vpid) -> ProcessState {
        self.role.life(&self.arena, vpid)
    }

    /// Returns the exit cause of an ended process.
    fn cause_of(&self, vpid: Vpid) -> ExitCause {
        match self.role {
            Role::Member { .. } => ExitCause::Dead,
            _ => self.arena.record(vpid.place()).cause(vpid),
        }
    }

    /// Returns the exit cause of a process, if it has ended.
    ///
    /// # Errors
    /// [`FarmError::Unknown`].
    pub fn cause(&self, vpid: Vpid) -> Result<Option<ExitCause>, FarmError> {
        self.known(vpid)?;
        Ok((self.life(vpid) == ProcessState::Ended).then(|| self.cause_of(vpid)))
    }

    /// Waits until a process has ended, and returns its exit cause; [`ExitCause::Forgotten`] if its
    /// place was reused before this call. See [`reserve_deadline`](Self::reserve_deadline): a
    /// process that waits for a place thereby notes the end of those children that have exited with
    /// 0.
    ///
    /// # Errors
    /// [`FarmError::Unknown`], [`FarmError::TimedOut`]; [`FarmError::Itself`] for the vpid of this
    /// process, without a deadline.
    pub fn wait(&mut self, vpid: Vpid, deadline: Option<Instant>) -> Result<ExitCause, FarmError> {
        self.known(vpid)?;
        if deadline.is_none() {
            self.is_another(vpid, "wait for its own end")?;
        }
        let events = &self.arena.record(self.me.place()).events;
        // Long waits are usual here: no looks.
        let policy = Policy { yield_for: Duration::ZERO, ..self.policy };
        let waits = span(Activity::AwaitProcess, traced(vpid), 0);
        let ended = events.wait_for(&policy, deadline, || self.cause(vpid))?;
        drop(waits);
        if ended.is_some() && !self.has_sent(vpid) {
            self.unlink(vpid);
            self.note(vpid);
        }
        ended.ok_or_else(|| FarmError::TimedOut { what: format!("the end of process {vpid}") })
    }

    /// Kills a process (SIGKILL) with all of its process group. Its end is reported to all
    /// processes soon afterwards.
    ///
    /// # Errors
    /// [`FarmError::Manager`] if this is not the manager; [`FarmError::Itself`] for the vpid of
    /// this process; [`FarmError::Unknown`].
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

    /// Returns the process ID of a started process.
    #[must_use]
    pub fn pid(&self, vpid: Vpid) -> Option<u32> {
        let record = self.known(vpid).ok()?;
        // Acquire: pairs with the Release in the manager's `start`. If the place belongs to a
        // process that started later, the generation differs, which the check below detects.
        let pid = record.pid.load(Ordering::Acquire);
        (record.now().0 == vpid.generation() && pid != 0).then_some(pid as u32)
    }

    /// Returns the number of live processes of the farm, excluding the manager. Only the manager
    /// counts them; other processes return 0.
    #[must_use]
    pub fn living(&self) -> usize {
        match &self.role {
            Role::Manager(supervisor) if self.arena.is_home() => supervisor.living(),
            Role::Manager(_) | Role::Worker { .. } | Role::Member { .. } => 0,
        }
    }
}
