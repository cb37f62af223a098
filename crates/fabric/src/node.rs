//! A node: the state that the members of a process have in common, and their run.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use syncline_mpi::Communicator;
use syncline_sync::{Auto, Space};
use syncline_trace::{is_enabled, note};

use crate::endpoint::{Endpoint, exact_sleeps};
use crate::environment::Shape;
use crate::error::TeamError;
use crate::hosts::Hosts;
use crate::member::Member;
use crate::team::attend;
use crate::team_state::TeamState;
use crate::transport::Transport;

/// A process of a team; in a team whose hosts are groups of threads, a group that acts as a
/// process.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shape: Shape,
    pub(crate) process: usize,
    pub(crate) control: TeamState,
    pub(crate) hosts: Hosts,
    /// Present if there are other hosts.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// Whether threads other than the first may use the transport.
    pub(crate) threaded: bool,
    /// The communicator for MPI calls of the program, until a member takes it.
    pub(crate) mpi: Mutex<Option<Communicator>>,
    /// The number of processes that had died before the team was made.
    pub(crate) died: usize,
    /// Whether the other processes of the team are groups of threads of the same process.
    pub(crate) in_process: bool,
}

impl Node {
    /// Creates a process whose team is on a single host.
    pub(crate) fn alone(shape: Shape, process: usize, control: TeamState) -> Node {
        // The groups of a barrier in two levels: processes here, hosts otherwise.
        let control = control.grouped(|rank| rank / shape.threads);
        Node {
            shape,
            process,
            control,
            hosts: Hosts::one(shape.processes),
            endpoint: None,
            threaded: true,
            mpi: Mutex::default(),
            died: 0,
            in_process: false,
        }
    }

    /// Creates a process whose team is on several hosts, which `transport` connects.
    pub(crate) fn connected(
        shape: Shape,
        hosts: Hosts,
        transport: Box<dyn Transport>,
        space: &mut Space,
        control: TeamState,
        timeout: Duration,
    ) -> Result<Node, TeamError> {
        let process = transport.process();
        let control = control.grouped(|rank| hosts.of(rank / shape.threads));
        let endpoint = Endpoint::new(transport, hosts.clone(), space, &control, shape, timeout)?;
        Ok(Node {
            shape,
            process,
            control,
            hosts,
            endpoint: Some(endpoint),
            threaded: true,
            mpi: Mutex::default(),
            died: 0,
            in_process: false,
        })
    }

    /// Returns the ranks of the members on a host, in ascending order.
    pub(crate) fn ranks_on(&self, host: usize) -> Vec<usize> {
        self.hosts.processes(host).iter().flat_map(|&process| self.shape.ranks(process)).collect()
    }

    /// Tells traces about the team. Rank `r` is in process `r / team.threads`, and the host of each
    /// process is in the list `team.hosts.of`. A process that has several simulated ones in it has
    /// no `team.process` and no `team.host`.
    fn describe(&self) {
        note::fact("team.members", self.shape.members());
        note::fact("team.processes", self.shape.processes);
        note::fact("team.threads", self.shape.threads);
        note::fact("team.hosts", self.hosts.count());
        let hosts = || (0..self.shape.processes).map(|process| self.hosts.of(process).to_string());
        if is_enabled() {
            note::fact("team.hosts.of", hosts().collect::<Vec<_>>().join(" "));
        }
        if let Some(endpoint) = &self.endpoint {
            note::fact("team.transport", endpoint.transport());
        }
        if !self.in_process {
            note::fact("team.process", self.process);
            note::fact("team.host", self.hosts.of(self.process));
        }
    }

    /// Runs the function in every member of the process.
    pub(crate) fn run<R, F>(self, space: Space, f: &F) -> Result<Vec<R>, TeamError>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        collect(self.shape.ranks(self.process), f, |body| self.run_body(space, body))
    }

    /// Runs the function, which keeps its result itself, in every member of the process.
    pub(crate) fn run_body(self, mut space: Space, body: &Body<'_>) -> Result<(), TeamError> {
        let node = Arc::new(self);
        let Node { shape, process, ref control, ref endpoint, .. } = *node;
        node.describe();
        let (ended, server) = match start(&node, &mut space) {
            Ok((members, server)) => (run_all(&node, members, body), server),
            Err(error) => {
                // The process lives, and sends its bye below: the others wait for that.
                shape.ranks(process).for_each(|rank| control.fault_list.give_up(rank));
                (Err(error), None)
            }
        };
        if matches!(ended, Err(TeamError::Forked { .. })) {
            // Everything here, including the server thread, belongs to the parent of this child.
            std::mem::forget((node, server, space));
            return ended;
        }
        if let Some(endpoint) = endpoint {
            endpoint
                .finish(&shape.ranks(process).map(|rank| control.things(rank)).collect::<Vec<_>>());
        }
        if let Some(server) = server {
            // `join` returns even if a service has panicked: a poisoned lock stops no thread.
            let _ = server.join();
        }
        ended
    }
}

/// The function of the members of a team, without its result: what runs it is compiled once.
pub(crate) type Body<'f> = dyn Fn(&mut Member) + Sync + 'f;

/// Calls `run` with the function of these members, and returns their results, by rank.
pub(crate) fn collect<R, F>(
    ranks: Range<usize>,
    f: &F,
    run: impl FnOnce(&Body<'_>) -> Result<(), TeamError>,
) -> Result<Vec<R>, TeamError>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    // Each member writes its own element alone, so that no lock is taken when a process forks.
    let results: Vec<Mutex<Option<R>>> = ranks.clone().map(|_| Mutex::new(None)).collect();
    let ended = run(&|member| {
        let result = f(member);
        if let Ok(mut own) = results[member.rank() - ranks.start].lock() {
            *own = Some(result);
        }
    });
    if matches!(ended, Err(TeamError::Forked { .. })) {
        // The results belong to the parent of this child.
        std::mem::forget(results);
        return ended.map(|()| Vec::new());
    }
    ended?;
    Ok(results.into_iter().filter_map(|own| own.into_inner().ok().flatten()).collect())
}

/// Creates the members of a process, and starts the thread that serves its host, if it has one.
fn start(
    node: &Arc<Node>,
    space: &mut Space,
) -> Result<(Vec<Member>, Option<thread::JoinHandle<()>>), TeamError> {
    let Node { shape, process, ref control, ref endpoint, .. } = **node;
    let barrier = match endpoint {
        Some(_) => None,
        None => {
            let barrier = Auto::within(space, shape.members(), shape.cores)?;
            Some(barrier.watching(&control.fault_list))
        }
    };
    let member = |rank| Member::new(node, rank, space, barrier.as_ref());
    let members = shape.ranks(process).map(member).collect::<Result<Vec<_>, _>>()?;
    if let Some(endpoint) = endpoint {
        endpoint.set_threaded(node.threaded);
    }
    let serves = node.threaded && node.hosts.serves(process).is_some();
    let server = match endpoint.as_ref().filter(|_| serves) {
        Some(endpoint) => Some(endpoint.serve().map_err(|source| TeamError::System {
            what: "start the thread that serves a host",
            source,
        })?),
        None => None,
    };
    Ok((members, server))
}

/// Runs one thread per member; the first member runs on the calling thread.
///
/// In a child that the function of the first member has made by `fork`, the threads of the other
/// members do not exist: there this returns at once, with [`TeamError::Forked`]. (A scope of the
/// standard library would wait for them without end.)
fn run_all(node: &Node, members: Vec<Member>, body: &Body<'_>) -> Result<(), TeamError> {
    let fault_list = &node.control.fault_list;
    let messages = node.endpoint.is_some();
    let attend = move |member: Member| {
        if messages {
            exact_sleeps();
        }
        attend(member, body)
    };
    let mut members = members.into_iter();
    let first = members.next();
    let mut failed = None;
    let mut others = Vec::new();
    for member in members {
        let rank = member.rank();
        let started = match failed {
            Some(_) => None,
            None => {
                let thread = thread::Builder::new().name(format!("rank {rank}"));
                // SAFETY: the thread uses what this function has borrowed, and is joined below
                // before this function returns. No code in between panics: `attend` catches the
                // panics of members. In a child made by fork it is not joined, but there the thread
                // does not exist.
                let started = unsafe { thread.spawn_unchecked(move || attend(member)) };
                started.map_err(|source| failed = Some(TeamError::Thread { rank, source })).ok()
            }
        };
        match started {
            Some(thread) => others.push(thread),
            None => fault_list.give_up(rank),
        }
    }
    if let (Some(first), Some(_)) = (&first, &failed) {
        fault_list.give_up(first.rank());
    }
    // The members that have started get an error for those that have not, and end.
    let here = first.filter(|_| failed.is_none()).map(attend);
    if let Some((_, Err(TeamError::Forked { rank }))) = here {
        std::mem::forget(others);
        return Err(TeamError::Forked { rank });
    }
    // The thread of a member returns even if the member panics.
    let there = others.into_iter().map(|thread| thread.join().expect("a member's panic is caught"));
    let results = here.into_iter().chain(there).collect::<Vec<_>>();
    match failed {
        Some(error) => Err(error),
        None => first_cause(results),
    }
}

/// Returns the error of the member that was the first to end with one, if any did: the errors of
/// others may be its consequences.
fn first_cause(ends: Vec<(u64, Result<(), TeamError>)>) -> Result<(), TeamError> {
    let failed = ends.into_iter().filter_map(|(end, result)| Some((end, result.err()?)));
    match failed.min_by_key(|(end, _)| *end) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}
