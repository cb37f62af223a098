//! Teams: their members, and the run of their function.
//!
//! | call                    | launched (`SYNCLINE_TEAM` set) | not launched                      |
//! |-------------------------|--------------------------------|-----------------------------------|
//! | [`Team::run`]           | joins its team                 | under an MPI launcher: its ranks; |
//! |                         |                                | else threads of this process      |
//! | [`Team::run_shrinking`] | as `Team::run`                 | as `Team::run`; after a death, if |
//! |                         |                                | MPI continues, runs again without |
//! |                         |                                | the dead processes                |
//! | `Team::processes(n)`    | joins its team, for any `n`    | launches n processes of this      |
//! |                         |                                | program, and watches them         |
//! | `Team::threads(n)`      | threads of this process        | threads of this process           |

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use syncline_memory::{Segment, segment::is_sealed};
use syncline_mpi::launched::launched_with_others;
use syncline_process::{inherit, lifeline::LifelineEnd};
use syncline_sync::{Space, membership::MAX_MEMBERS};
use syncline_trace::{Role, set_role};

use crate::environment::{self, Inherited, Shape};
use crate::error::TeamError;
use crate::hosts::Hosts;
use crate::launcher::Launcher;
use crate::member::Member;
use crate::node::{Body, Node, collect};
use crate::team_state::TeamState;
use crate::transport::in_memory::{Conditions, Network};
use crate::{mpi, orphan};

thread_local! {
    /// The rank of the member that this thread is.
    static MEMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of this process in the team that it has joined.
pub(crate) static JOINED: OnceLock<usize> = OnceLock::new();

/// A team: members that run one function and synchronise with one another.
#[derive(Debug)]
pub struct Team;

impl Team {
    /// Runs a function in every member of a team, and returns the results of the members in this
    /// process, by thread.
    ///
    /// The environment determines the members: the processes that `syncline launch` started; or
    /// those that an MPI launcher started, on any hosts (each with one member, or with
    /// `SYNCLINE_THREADS` threads); or else threads of this process, one per core or
    /// `SYNCLINE_THREADS`. The first member of a process runs on the calling thread.
    ///
    /// # Collective
    /// Every process of a launched team calls it, once.
    ///
    /// # Errors
    /// If the team cannot be made or joined; [`TeamError::Panicked`] if a member of this process
    /// has panicked, when the others have ended.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    ///
    /// let ranks = Team::run(|me| {
    ///     me.wait().unwrap(); // for all others
    ///     me.rank()
    /// })?;
    /// assert!(!ranks.is_empty());
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn run<R, F>(f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        Team::of_environment(false, &f)
    }

    /// Like [`Team::run`], and runs again in a smaller team of the remaining processes when
    /// processes have died.
    ///
    /// The function is called again in all live processes, even in those in which it had ended
    /// well, until it has ended in a team in which no process died; the results are those of that
    /// team. Ranks are assigned again, in the same order; [`Member::died`] returns how many
    /// processes are missing. The memory of the previous team is gone: state that is needed to
    /// continue must be on disk, or in memory of the process itself. A member that gets a death
    /// ([`Fault::Dead`](syncline_sync::Fault)) returns, with any error, and is called again.
    ///
    /// This requires an MPI that continues after a death (ULFM): Open MPI 5 under `mpirun --with-ft
    /// ulfm`. Elsewhere it is [`Team::run`]: the waits of members end with the death, and the
    /// members end. MPI does not recover from the death of a process before all processes have
    /// initialised MPI: Open MPI waits for it.
    ///
    /// # Collective
    /// As for [`Team::run`].
    ///
    /// # Errors
    /// As for [`Team::run`], of the last team; [`TeamError::Unshrunk`] if MPI does not find the
    /// remaining processes: it does not notice that a host was cut off.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    ///
    /// // The number of steps that this process has done; it survives the deaths of others.
    /// let done = std::sync::atomic::AtomicU64::new(0);
    /// let steps = Team::run_shrinking(|me| {
    ///     // All remaining members start at the least step that any of them has reached.
    ///     let mine = done.load(std::sync::atomic::Ordering::Relaxed);
    ///     let begin = me.gather(mine)?.into_iter().min().unwrap_or(0);
    ///     for step in begin..10 {
    ///         me.wait()?;
    ///         done.store(step + 1, std::sync::atomic::Ordering::Relaxed);
    ///     }
    ///     Ok::<_, syncline_sync::Fault>(10)
    /// })?;
    /// assert!(steps.iter().all(|steps| *steps == Ok(10)));
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    ///
    /// # Source
    /// Shrinking recovery by user-level failure mitigation (Bland et al., IJHPCA 2013).
    pub fn run_shrinking<R, F>(f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        Team::of_environment(true, &f)
    }

    fn of_environment<R, F>(shrinks: bool, f: &F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        match place()? {
            Some(place) => join(&place, f),
            None => match launched_with_others() {
                Some(launched) => mpi::join(&launched, shrinks, f),
                None => {
                    let threads = environment::threads()?;
                    Team::threads(threads.unwrap_or_else(|| environment::cores().min(MAX_MEMBERS)))
                        .run(f)
                }
            },
        }
    }

    /// Returns whether [`run`](Self::run) joins a team of several processes: `syncline launch` or a
    /// launcher of MPI has started this one.
    #[must_use]
    pub fn is_launched() -> bool {
        std::env::var_os(environment::TEAM).is_some() || launched_with_others().is_some()
    }

    /// Returns a builder for a team of threads of this process.
    #[must_use]
    pub fn threads(threads: usize) -> ThreadTeam {
        ThreadTeam { threads, memory: None, quiet: false }
    }

    /// Returns a builder for a team of the processes of an MPI communicator, within a program that
    /// has initialised MPI itself.
    ///
    /// The communicator is given by its Fortran handle, as `MPI_Comm_c2f` returns it. The team uses
    /// a duplicate of it, so its messages and the program's do not mix. MPI remains initialised
    /// when the team has ended; other teams may follow.
    ///
    /// A member that waits for others drives MPI, so what the program has begun there goes on: at
    /// `MPI_THREAD_MULTIPLE` in all threads, below it in the main thread. At
    /// `MPI_THREAD_SERIALIZED` no other thread of the process may call MPI while the team runs.
    /// With several members in a process, waits on one host do not drive MPI at that level, and the
    /// members may call it in turns.
    ///
    /// A process that has no shim for its MPI fails before it calls MPI, and the others wait for
    /// it. Where hosts may differ, each process tries with `MPI_COMM_SELF` first.
    ///
    /// # Safety
    /// `communicator` must be the handle of a communicator of this process, in the MPI that this
    /// program has loaded.
    #[must_use]
    pub unsafe fn within_mpi(communicator: i32) -> MpiTeam {
        MpiTeam { communicator, threads: 1, memory: None }
    }

    /// Returns a builder for a team whose hosts are groups of threads of this process: they share
    /// memory only within a host, and exchange messages between hosts, as members on several
    /// machines do. For tests of programs that will run on several machines, and for observing
    /// their messages.
    #[must_use]
    pub fn hosts(hosts: usize) -> HostTeam {
        let network = Conditions::default();
        HostTeam {
            hosts,
            processes: 1,
            servers: 1,
            threads: 1,
            memory: None,
            conditions: network,
            timeout: None,
            quiet: false,
        }
    }

    /// Returns a builder for a team of processes that run this program. The calling process only
    /// launches and watches them.
    #[must_use]
    pub fn processes(processes: usize) -> ProcessTeam {
        ProcessTeam { processes, threads: 1, memory: None, quiet: false, args: None }
    }
}

/// A team of threads of this process: see [`Team::threads`].
#[derive(Clone, Debug)]
pub struct ThreadTeam {
    threads: usize,
    memory: Option<usize>,
    quiet: bool,
}

impl ThreadTeam {
    /// Sets the most bytes that the members share, for barriers, one-sided memory and the like
    /// [default: as `SYNCLINE_MEMORY` says, or as many as the host, or the control group of this
    /// program, could have]. They are only reserved; objects that are made in them take them from
    /// the system, and fail if it has not enough.
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        ThreadTeam { memory: Some(memory), ..self }
    }

    /// Suppresses the warning when members outnumber cores.
    #[must_use]
    pub fn quiet(self) -> Self {
        ThreadTeam { quiet: true, ..self }
    }

    /// Runs a function in every member, and returns their results by rank.
    ///
    /// As for [`Team::run`].
    /// As [`Team::run`].
    pub fn run<R, F>(&self, f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        let shape = Shape::here(1, self.threads)?;
        let segment = Segment::reserve_heap(said(self.memory)?)?;
        let (space, control) = shared(segment, shape)?;
        if !self.quiet {
            shape.warn();
        }
        Node::alone(shape, 0, control).run(space, &f)
    }
}

/// A team within an MPI program: see [`Team::within_mpi`].
#[derive(Clone, Copy, Debug)]
pub struct MpiTeam {
    communicator: i32,
    threads: usize,
    memory: Option<usize>,
}

impl MpiTeam {
    /// Sets how many members each process has, as threads [default: 1].
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        MpiTeam { threads, ..self }
    }

    /// Sets the most bytes that the members of a host share: see [`ThreadTeam::memory`].
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        MpiTeam { memory: Some(memory), ..self }
    }

    /// Runs a function in every member, and returns the results of the members in this process, by
    /// thread.
    ///
    /// # Collective
    /// Every process of the communicator calls it.
    ///
    /// # Errors
    /// As for [`Team::run`].
    pub fn run<R, F>(&self, f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        if let Some(rank) = MEMBER.get() {
            return Err(TeamError::Nested { rank });
        }
        mpi::within(self.communicator, self.threads, self.memory, &f)
    }
}

/// A team of hosts that are groups of threads: see [`Team::hosts`].
#[derive(Clone, Debug)]
pub struct HostTeam {
    hosts: usize,
    processes: usize,
    servers: usize,
    threads: usize,
    memory: Option<usize>,
    conditions: Conditions,
    timeout: Option<Duration>,
    quiet: bool,
}

impl HostTeam {
    /// Sets how many processes each host has [default: 1]: groups of its threads, each of which
    /// receives messages on its own.
    #[must_use]
    pub fn processes(self, processes: usize) -> Self {
        HostTeam { processes, ..self }
    }

    /// Sets how many of the processes of a host serve other hosts [default: 1], each for some of
    /// its members.
    #[must_use]
    pub fn servers(self, servers: usize) -> Self {
        HostTeam { servers, ..self }
    }

    /// Sets how many members each process has, as threads [default: 1].
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        HostTeam { threads, ..self }
    }

    /// Sets the most bytes that the members of a host share: see [`ThreadTeam::memory`].
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        HostTeam { memory: Some(memory), ..self }
    }

    /// Sets how long messages between hosts take [default: no added time].
    #[must_use]
    pub fn conditions(self, conditions: Conditions) -> Self {
        HostTeam { conditions, ..self }
    }

    /// Sets the silence after which a host is dead [default: 10 s, or as `SYNCLINE_TIMEOUT` says].
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        HostTeam { timeout: Some(timeout), ..self }
    }

    /// Suppresses the warning when members outnumber cores.
    #[must_use]
    pub fn quiet(self) -> Self {
        HostTeam { quiet: true, ..self }
    }

    /// Runs a function in every member, and returns their results by rank.
    ///
    /// # Errors
    /// As for [`Team::run`].
    pub fn run<R, F>(&self, f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        self.run_on(|_| (), f)
    }

    /// Like [`run`](Self::run); before any member runs, `network` gets the network between the
    /// hosts, to count messages or to cut hosts off.
    ///
    /// # Errors
    /// As for [`Team::run`].
    pub fn run_on<R, F>(&self, network: impl FnOnce(&Network), f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        let nodes = self.nodes(network)?;
        let members = self.hosts * self.processes * self.threads;
        collect(0..members, &f, |body| run_nodes(nodes, body))
    }

    /// Creates the processes, and the memory of each host.
    fn nodes(&self, network: impl FnOnce(&Network)) -> Result<Vec<(Node, Space)>, TeamError> {
        let HostTeam { hosts, processes, threads, .. } = *self;
        let wrong = TeamError::Members { processes: hosts.saturating_mul(processes), threads };
        let all = hosts.checked_mul(processes).ok_or(wrong)?;
        let shape = Shape::here(all, threads)?;
        if !self.quiet {
            shape.warn();
        }
        let timeout = self.timeout.map_or_else(environment::timeout, Ok)?;
        let links = Network::new(all, self.conditions);
        network(&links);
        let named = Hosts::new(&(0..all).map(|process| process / processes).collect::<Vec<_>>());
        let named = named.with_servers(self.servers);
        let memory = said(self.memory)?;
        let mut nodes = Vec::new();
        for host in 0..hosts {
            let (space, control) = shared(Segment::reserve_heap(memory)?, shape)?;
            for process in host * processes..(host + 1) * processes {
                let (mut space, control) = (space.clone(), control.clone());
                let transport = Box::new(links.transport(process));
                let node =
                    Node::connected(shape, named.clone(), transport, &mut space, control, timeout)?;
                nodes.push((Node { in_process: true, ..node }, space));
            }
        }
        Ok(nodes)
    }
}

/// Runs the function in every member of these processes, each on a thread.
fn run_nodes(nodes: Vec<(Node, Space)>, body: &Body<'_>) -> Result<(), TeamError> {
    let ended = thread::scope(|scope| {
        let run = |(node, space): (Node, Space)| {
            let thread = thread::Builder::new().name(format!("process {}", node.process));
            thread.spawn_scoped(scope, move || node.run_body(space, body))
        };
        let started = nodes.into_iter().map(run).collect::<Vec<_>>();
        let ended = started.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().expect("a member's panic is caught"),
            Err(source) => Err(TeamError::System { what: "start a thread for a process", source }),
        });
        ended.collect::<Vec<_>>()
    });
    ended.into_iter().collect()
}

/// A team of processes that run this program: see [`Team::processes`].
#[derive(Clone, Debug)]
pub struct ProcessTeam {
    processes: usize,
    threads: usize,
    memory: Option<usize>,
    quiet: bool,
    args: Option<Vec<OsString>>,
}

impl ProcessTeam {
    /// Sets how many members each process has, as threads [default: 1].
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        ProcessTeam { threads, ..self }
    }

    /// Sets the most bytes that the members share: see [`ThreadTeam::memory`].
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        ProcessTeam { memory: Some(memory), ..self }
    }

    /// Suppresses the warning when members outnumber cores.
    #[must_use]
    pub fn quiet(self) -> Self {
        ProcessTeam { quiet: true, ..self }
    }

    /// Sets the arguments that the program gets in every process [default: those of this process].
    #[must_use]
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        ProcessTeam { args: Some(args.into_iter().map(Into::into).collect()), ..self }
    }

    /// In a launched process: joins its team, runs the function in every member of this process,
    /// and returns their results by thread. Elsewhere: launches the processes, which call this
    /// method in turn, waits until all have ended, and returns no results.
    ///
    /// # Collective
    /// As for [`Team::run`].
    ///
    /// # Errors
    /// As for [`Team::run`]; where it launches, also [`TeamError::Start`], and
    /// [`TeamError::Failed`] if a process failed.
    pub fn run<R, F>(&self, f: F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        if let Some(place) = place()? {
            return join(&place, &f);
        }
        let program = std::env::current_exe();
        let program =
            program.map_err(|source| TeamError::System { what: "find this program", source })?;
        let args = self.args.clone().unwrap_or_else(|| std::env::args_os().skip(1).collect());
        let launcher =
            Launcher::new(program).args(args).processes(self.processes).threads(self.threads);
        let launcher = match self.memory {
            Some(memory) => launcher.memory(memory),
            None => launcher,
        };
        if self.quiet { launcher.quiet().run() } else { launcher.run() }?;
        Ok(Vec::new())
    }
}

/// Returns the place of this process in the team that it was launched for; `None` if it was not
/// launched.
fn place() -> Result<Option<Inherited>, TeamError> {
    if let Some(rank) = MEMBER.get() {
        return Err(TeamError::Nested { rank });
    }
    match JOINED.get() {
        Some(&process) => Err(TeamError::Taken { process }),
        None => Inherited::from_environment(),
    }
}

/// Returns how much memory a team has, if it is set: by the program, or else by the environment.
pub(crate) fn said(memory: Option<usize>) -> Result<Option<usize>, TeamError> {
    memory.map_or_else(environment::memory, |memory| Ok(Some(memory)))
}

/// Wraps the segment of a team, and allocates the team state at its beginning.
pub(crate) fn shared(segment: Segment, shape: Shape) -> Result<(Space, TeamState), TeamError> {
    // SAFETY: the segment was made for this team, so it was zeroed, and it has no other use; a
    // launcher of another version is refused.
    let mut space = unsafe { Space::segment(Arc::new(segment)) }?;
    let control = TeamState::within(&mut space, shape.processes, shape.members())?;
    Ok((space, control))
}

/// Takes this process's part in the team that it was launched for.
fn join<R, F>(place: &Inherited, f: &F) -> Result<Vec<R>, TeamError>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    let (segment, end) = (attach(place.segment)?, lifeline(place.lifeline)?);
    let (space, control) = shared(segment, place.shape)?;
    if !control.is_new() {
        let source = io::Error::other(
            "its PID was the PID of a process of the team that has ended; start it again",
        );
        return Err(TeamError::System { what: "take part in the team", source });
    }
    if JOINED.set(place.process).is_err() || !control.begin(place.process) {
        return Err(TeamError::Taken { process: place.process });
    }
    for descriptor in [place.segment, place.lifeline] {
        let what = "keep a descriptor of the team from other programs";
        inherit::close_on_exec(descriptor).map_err(|source| TeamError::System { what, source })?;
    }
    inherit::forget_variable(environment::TEAM);
    orphan::watch(end, place, &control)?;
    let results = Node::alone(place.shape, place.process, control.clone()).run(space, f);
    if !matches!(results, Err(TeamError::Forked { .. })) {
        control.finish(place.process);
    }
    results
}

fn attach(descriptor: RawFd) -> Result<Segment, TeamError> {
    let wrong = |why: String| TeamError::Descriptor { descriptor, what: "memory", why };
    let fd = inherit::copy(descriptor).map_err(|error| wrong(error.to_string()))?;
    if !is_sealed(&fd) {
        return Err(wrong("it is another kind of file".to_owned()));
    }
    Segment::attach_reserved(fd).map_err(|error| wrong(error.to_string()))
}

fn lifeline(descriptor: RawFd) -> Result<LifelineEnd, TeamError> {
    let wrong = |why: String| TeamError::Descriptor { descriptor, what: "lifeline", why };
    let fd = inherit::copy(descriptor).map_err(|error| wrong(error.to_string()))?;
    LifelineEnd::from_fd(fd).map_err(|_| wrong("it is another kind of file".to_owned()))
}

/// Runs a member. Returns the position of its end in the order of all ends, and whether it ended
/// well. If the member panics, it is given up from then on.
pub(crate) fn attend(mut member: Member, body: &Body<'_>) -> (u64, Result<(), TeamError>) {
    let rank = member.rank();
    let outer = MEMBER.replace(Some(rank));
    set_role(Role::Member(rank as u32));
    // The state that the function leaves behind belongs to the caller, which gets an error; the
    // member itself is dropped.
    let result = catch_unwind(AssertUnwindSafe(|| body(&mut member)));
    MEMBER.set(outer);
    if member.check_not_forked().is_err() {
        // The resources of the member belong to its process, which continues to use them.
        std::mem::forget((member, result));
        return (0, Err(TeamError::Forked { rank }));
    }
    let end = member.end(result.is_ok());
    let result = result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let message =
            text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(not a text)").to_owned();
        // The destructor of the panic payload might panic.
        std::mem::forget(panic);
        TeamError::Panicked { rank, message }
    });
    (end, result)
}
