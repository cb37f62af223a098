//! Teams of MPI processes: how the processes find one another, and the transport between their
//! hosts.
//!
//! # Contract
//! ```text
//!   mpirun ──> process 0   process 1   process 2   process 3   all: exchange cards (allgather)
//!                 host A: memory ◄──┐     host B: memory ◄──┐
//!                 serves     opens ─┘     serves     opens ─┘ by the server's /proc/PID/fd
//!                    └──────────── MPI ─────────┘             messages, by their own communicator
//! ```
//! Processes are on one host if they run under the same kernel and see the same network and
//! processes. They share a segment without a name, and watch one another by pidfd. All traffic
//! between hosts goes through MPI, over any network that MPI uses; there is no second path. If
//! memory cannot be shared, that is an error, not a slower mode.
//!
//! If all processes are on one host, the team itself uses MPI only at the beginning and at the end;
//! and, if requested, to continue without the processes that have died: see `shrink`.
//!
//! # Waits
//! A member that waits takes part in what MPI has to do for the program, as if it waited in MPI:
//! before it sleeps, and then some 2000 times a second, it looks into MPI. Which threads may do
//! that is in `syncline_mpi::progress`.
//!
//! # Threads
//! The server thread of a host needs an MPI that permits calls from several threads
//! (`MPI_THREAD_SERIALIZED` at least; calls take turns). In a program that has initialised MPI
//! itself it needs `MPI_THREAD_MULTIPLE`, as the program's own calls take no turns with those of
//! the server. With an MPI that does not permit it, members drive messages themselves while they
//! wait, and no messages are served while they compute; then no process is taken for dead because
//! of silence, either.

mod shrink;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use syncline_memory::{Segment, segment::is_sealed};
use syncline_mpi::{
    Communicator, Library, Mpi, MpiError, communicator::ThreadSupport, error::ErrorClass,
    launched::Launched, progress::Driven, shim::Family,
};
use syncline_process::watch::ProcessWatch;
use syncline_signal::poll_schedule::PollSchedule;
use syncline_sync::Space;

use crate::environment::{self, Shape};
use crate::error::TeamError;
use crate::hosts::Hosts;
use crate::member::Member;
use crate::node::Node;
use crate::team::{JOINED, said as memory_said, shared};
use crate::team_state::{ProcessState, TeamState};
use crate::transport::mpi::MpiTransport;

/// Takes this process's part in the team of all processes that an MPI launcher started; if
/// `shrinks`, also in the teams of the remaining processes.
pub(crate) fn join<R, F>(launched: &Launched, shrinks: bool, f: &F) -> Result<Vec<R>, TeamError>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    // `Serialized`: calls take turns, and some MPIs disable features, such as windows between
    // hosts, at a lower level. The settings are read first, so that errors in them are found before
    // another process waits for this one.
    let said = Said::read()?;
    let (threads, memory) = (environment::threads()?.unwrap_or(1), environment::memory()?);
    let mpi = Mpi::start(Library::find(launched)?, ThreadSupport::Serialized, Some(launched))?;
    let world = mpi.world()?;
    if JOINED.set(world.rank()).is_err() {
        return Err(TeamError::Taken { process: world.rank() });
    }
    let job = Job { mpi: &mpi, threads, memory, said };
    let shrinks = shrinks && mpi.library().survives();
    let ended = if shrinks { shrink::run(&job, world, f) } else { job.run(world, 0, f) };
    end(mpi, ended, shrinks)
}

/// Takes this process's part in a team within an MPI program.
pub(crate) fn within<R, F>(
    communicator: i32,
    threads: usize,
    memory: Option<usize>,
    f: &F,
) -> Result<Vec<R>, TeamError>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    let said = Said::read()?;
    let library = Library::of_this_program()?.ok_or(MpiError::NoMpi)?;
    let mpi = Mpi::join(library)?;
    // SAFETY: `communicator` is the handle of a communicator of this process in this MPI: the
    // caller of `Team::within_mpi` guarantees it.
    let own = unsafe { mpi.from_fortran(communicator) }?;
    let job = Job { mpi: &mpi, threads, memory: memory_said(memory)?, said };
    let ended = job.run(own, 0, f);
    end(mpi, ended, false)
}

/// Ends MPI, unless processes have died, as `MPI_Finalize` would wait for them. If `shrinks`, the
/// dead processes have been reported before.
fn end<R>(mut mpi: Mpi, ended: Ended<R>, shrinks: bool) -> Result<Vec<R>, TeamError> {
    let Ended { result, process, missing } = ended;
    if matches!(result, Err(TeamError::Forked { .. })) {
        std::mem::forget(mpi);
    } else if let Some(dead) = missing {
        if !shrinks {
            crate::say(format_args!(
                "process {process} ends without MPI_Finalize: {}",
                Dead(&dead)
            ));
        }
        std::mem::forget(mpi);
    } else {
        match mpi.finalize() {
            Err(error) if shrinks => crate::say(format_args!(
                "process {process} failed to end MPI after the team had ended: {error}"
            )),
            finalized => finalized?,
        }
    }
    result
}

/// The environment's settings for hosts.
#[derive(Clone, Copy, Debug)]
struct Said {
    per_host: Option<usize>,
    servers: usize,
    timeout: Duration,
}

impl Said {
    fn read() -> Result<Said, TeamError> {
        let (per_host, servers) = (environment::per_host()?, environment::servers()?);
        Ok(Said { per_host, servers, timeout: environment::timeout()? })
    }
}

/// The data that processes exchange first: one row of words from each.
#[derive(Clone, Copy, Debug)]
struct Card([u64; WORDS]);

const VERSION: u64 = 3;
const WORDS: usize = 9;

impl Card {
    fn bytes(self) -> Vec<u8> {
        self.0.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn all(bytes: &[u8]) -> Vec<Card> {
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().unwrap_or_default());
        let card = |card: &[u8]| Card(std::array::from_fn(|n| word(&card[8 * n..8 * n + 8])));
        bytes.chunks_exact(8 * WORDS).map(card).collect()
    }
}

/// The outcome of a team.
struct Ended<R> {
    result: Result<Vec<R>, TeamError>,
    process: usize,
    /// The known processes that have died, if any has. `MPI_Finalize` would wait for them.
    missing: Option<Vec<usize>>,
}

/// Processes that have died, formatted for messages.
struct Dead<'a>(&'a [usize]);

impl fmt::Display for Dead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("another process has died"),
            [process] => write!(f, "process {process} has died or cannot be reached"),
            all => {
                let all = all.iter().map(usize::to_string).collect::<Vec<_>>();
                write!(f, "processes {} have died or cannot be reached", all.join(", "))
            }
        }
    }
}

/// The settings that all teams of a process have in common.
#[derive(Debug)]
struct Job<'a> {
    mpi: &'a Mpi,
    threads: usize,
    memory: Option<usize>,
    said: Said,
}

/// The shared state that processes have set up together.
struct Met {
    shape: Shape,
    hosts: Hosts,
    /// The processes on this machine, which may be on several hosts.
    near: Vec<bool>,
    space: Space,
    control: TeamState,
    watcher: Option<thread::JoinHandle<()>>,
    spare: Option<Communicator>,
    /// A communicator of this process alone.
    alone: Option<Communicator>,
    /// Whether all processes have a server thread where they need one.
    served: bool,
}

/// A process of a team, before its members run.
struct Ready {
    node: Node,
    space: Space,
    watcher: Option<thread::JoinHandle<()>>,
    /// Makes waits drive MPI.
    driven: Option<Driven>,
}

impl Job<'_> {
    /// Runs a team of the processes of a communicator, after `died` other processes have died. It
    /// ends when every process is done or has died.
    ///
    /// A process whose members have ended waits here for every live process. If a member's function
    /// never returns, the other processes wait without end, as in `MPI_Finalize`. This holds even
    /// if members have left early or have got an error for calls that do not match.
    fn run<R, F>(&self, world: Communicator, died: usize, f: &F) -> Ended<R>
    where
        R: Send,
        F: Fn(&mut Member) -> R + Sync,
    {
        let (process, over) = (world.rank(), Arc::new(AtomicBool::new(false)));
        let Ready { node, space, watcher, driven } = match self.ready(world, &over) {
            Ok(ready) => ready,
            Err(error) => {
                over.store(true, Ordering::Relaxed);
                return Ended { result: Err(error), process, missing: None };
            }
        };
        let (shape, control, alone) = (node.shape, node.control.clone(), node.endpoint.is_none());
        let result = Node { died, ..node }.run(space, f);
        if matches!(result, Err(TeamError::Forked { .. })) {
            // The thread that watches other processes does not exist in this child, and MPI belongs
            // to its parent.
            std::mem::forget(driven);
            return Ended { result, process, missing: Some(Vec::new()) };
        }
        control.finish(process);
        if alone {
            // Between hosts the endpoint has waited. MPI would also wait for the dead, and would
            // not sleep.
            let mut schedule = PollSchedule::driving();
            while (0..shape.processes)
                .any(|process| control.standing(process) == ProcessState::Alive)
            {
                schedule.idle();
            }
        }
        drop(driven);
        control.depart(process);
        over.store(true, Ordering::Relaxed);
        if let Some(watcher) = watcher {
            let _ = watcher.join();
        }
        let dead =
            (0..shape.processes).filter(|&process| control.has_died(process)).collect::<Vec<_>>();
        Ended { result, process, missing: (!dead.is_empty()).then_some(dead) }
    }

    /// Determines the hosts, and creates what the processes of this host share.
    fn ready(&self, world: Communicator, over: &Arc<AtomicBool>) -> Result<Ready, TeamError> {
        let met = self.meet(&world, over);
        if has_failed(&met) {
            // Other processes may wait for one another in the communicator.
            let _ = world.revoke();
        }
        let Met { shape, hosts, near, mut space, control, watcher, spare, alone, served } = met?;
        let driven = match alone {
            Some(alone) => self.mpi.drive_in_waits(alone, shape.threads)?,
            None => None,
        };
        let (process, mpi) = (world.rank(), Mutex::new(spare));
        let node = if hosts.count() == 1 {
            // On a single host the team does not use MPI until the end.
            Node { mpi, ..Node::alone(shape, process, control) }
        } else {
            let name = format!("MPI ({})", named(self.mpi.library()));
            // Between processes of one machine MPI copies from place to place.
            let open_mpi = self.mpi.library().family() == Family::OpenMpi;
            let eager = near.iter().map(|near| open_mpi && !near).collect();
            let transport = Box::new(MpiTransport::new(world, name, eager));
            // Processes that serve only while they wait may be silent for as long as they compute.
            let timeout = if served { self.said.timeout } else { Duration::from_secs(1 << 30) };
            let node = Node::connected(shape, hosts, transport, &mut space, control, timeout)?;
            Node { threaded: self.mpi.threads() >= self.server_needs(), mpi, ..node }
        };
        Ok(Ready { node, space, watcher, driven })
    }

    /// Returns the thread level that the server thread of a host needs.
    fn server_needs(&self) -> ThreadSupport {
        if self.mpi.is_ours() { ThreadSupport::Serialized } else { ThreadSupport::Multiple }
    }

    fn meet(&self, world: &Communicator, over: &Arc<AtomicBool>) -> Result<Met, TeamError> {
        let Job { mpi, threads, memory, said } = *self;
        let granted = mpi.threads();
        let mine = Card([
            VERSION,
            host_key(),
            std::process::id().into(),
            threads as u64,
            // 0 if unset: the default may differ between hosts.
            memory.unwrap_or(0) as u64,
            granted as u64,
            said.servers as u64,
            said.per_host.unwrap_or(0) as u64,
            said.timeout.as_millis() as u64,
        ]);
        let cards = Card::all(&world.allgather(&mine.bytes())?);
        let agreed = [
            (0, "the version of this library"),
            (3, "the threads of a process, SYNCLINE_THREADS"),
            (4, "the memory of a host, SYNCLINE_MEMORY"),
            (6, "the servers of a host, SYNCLINE_SERVERS"),
            (7, "the processes that share memory, SYNCLINE_PER_HOST"),
            (8, "when a host is dead, SYNCLINE_TIMEOUT"),
        ];
        for (process, card) in cards.iter().enumerate() {
            for (word, what) in agreed {
                if card.0[word] != cards[0].0[word] {
                    let (theirs, ours) = (card.0[word], cards[0].0[word]);
                    return Err(TeamError::Disagree { process, what, theirs, ours });
                }
            }
        }
        if threads > 1 && granted < ThreadSupport::Serialized {
            return Err(TeamError::Threads { granted: granted.to_string(), threads });
        }
        let keys = cards.iter().map(|card| card.0[1]).collect::<Vec<_>>();
        let hosts = Hosts::new(&grouped(&keys, said.per_host)).with_servers(said.servers);
        let shape = Shape::here(world.size(), threads)?;
        let process = world.rank();
        let here = hosts.of(process);
        let pids = cards.iter().map(|card| card.0[2] as u32).collect::<Vec<_>>();

        // The first server of a host creates its memory; the other processes open it, and all wait
        // until that is done. An error here is returned only after the last collective call:
        // otherwise the other processes would wait in MPI without end.
        let serves = hosts.server(here) == process;
        let made = serves.then(|| Segment::reserve_shared(memory)).transpose();
        let fd = made.as_ref().ok().and_then(Option::as_ref).and_then(Segment::fd);
        let number = fd.map_or(NONE, |fd| fd.as_raw_fd() as u64);
        let numbers = world.allgather(&number.to_le_bytes())?;
        let settle = || {
            let segment = match made? {
                Some(segment) => segment,
                None => {
                    let server = hosts.server(here);
                    let number = numbers[8 * server..8 * server + 8].try_into().unwrap_or_default();
                    open(server, pids[server], u64::from_le_bytes(number))?
                }
            };
            let (space, control) = shared(segment, shape)?;
            let watched = hosts.processes(here).iter().filter(|&&other| other != process);
            let watched = watched.map(|&other| (other, pids[other])).collect::<Vec<_>>();
            let watcher = watch(shape, &watched, &control, over)?;
            Ok::<_, TeamError>((space, control, watcher))
        };
        let settled = settle();
        let failed = world.max(f64::from(u8::from(settled.is_err())))?;
        if failed > 0.0 {
            return match settled {
                Err(error) => Err(error),
                Ok(_) => Err(TeamError::Others),
            };
        }
        let (space, control, watcher) = settled?;
        control.begin(process);
        let spare = world.split(Some(0), i32::try_from(process).unwrap_or(i32::MAX))?;
        let alone = world.split(u32::try_from(process).ok(), 0)?;
        let served = cards.iter().all(|card| card.0[5] >= self.server_needs() as u64);
        let near = keys.iter().map(|&key| key == keys[process]).collect();
        Ok(Met { shape, hosts, near, space, control, watcher, spare, alone, served })
    }
}

/// Whether a call of MPI failed because a process has died.
fn has_failed<T>(result: &Result<T, TeamError>) -> bool {
    matches!(result, Err(TeamError::Mpi(error)) if error.fault() == Some(ErrorClass::ProcessFailed))
}

/// Returns the name and version of a library.
fn named(library: &Library) -> String {
    let version = library.version().map(|version| format!(" {version}")).unwrap_or_default();
    format!("{}{version}", library.family())
}

/// Returns a key that is equal for processes that see the same kernel, network and processes.
fn host_key() -> u64 {
    let mut key = DefaultHasher::new();
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut key);
    for space in ["net", "pid", "ipc", "mnt", "uts"] {
        let inode = std::fs::metadata(format!("/proc/self/ns/{space}")).map(|data| data.ino());
        inode.unwrap_or_default().hash(&mut key);
    }
    key.finish()
}

/// Groups processes into hosts; at most `most` processes of a host share memory.
fn grouped(keys: &[u64], most: Option<usize>) -> Vec<(u64, usize)> {
    let most = most.unwrap_or(usize::MAX);
    let before =
        |process: usize| keys[..process].iter().filter(|&&key| key == keys[process]).count();
    (0..keys.len()).map(|process| (keys[process], before(process) / most)).collect()
}

/// Stands for the descriptor of memory that could not be created.
const NONE: u64 = u64::MAX;

/// Opens the memory of the host, which another process has created.
fn open(server: usize, pid: u32, number: u64) -> Result<Segment, TeamError> {
    if number == NONE {
        return Err(TeamError::Others);
    }
    let path = format!("/proc/{pid}/fd/{number}");
    let wrong = |why: String| TeamError::Sharing { process: server, path: path.clone(), why };
    let opened = std::fs::File::options().read(true).write(true).open(&path);
    let fd = OwnedFd::from(opened.map_err(|error| wrong(error.to_string()))?);
    if !is_sealed(&fd) {
        return Err(wrong("it is another kind of file".to_owned()));
    }
    Segment::attach_reserved(fd).map_err(|error| wrong(error.to_string()))
}

/// Starts a thread that waits for the end of other processes of this host, and declares them dead.
fn watch(
    shape: Shape,
    others: &[(usize, u32)],
    control: &TeamState,
    over: &Arc<AtomicBool>,
) -> Result<Option<thread::JoinHandle<()>>, TeamError> {
    let mut watches = Vec::new();
    for &(process, pid) in others {
        watches.push((process, pid, ProcessWatch::new(pid)?));
    }
    if watches.is_empty() {
        return Ok(None);
    }
    let (control, over) = (control.clone(), Arc::clone(over));
    let watcher = move || {
        while !over.load(Ordering::Relaxed) && !watches.is_empty() {
            thread::sleep(Duration::from_millis(20));
            watches.retain(|(process, pid, watch)| {
                let ended = watch.has_exited().unwrap_or(false);
                if ended {
                    let ranks = shape.ranks(*process);
                    // A process that is done waits for the others before it may exit.
                    if !control.has_departed(*process) {
                        crate::say(format_args!(
                            "process {process} (pid {pid}, {}) is dead",
                            crate::error::Ranks(&ranks)
                        ));
                    }
                    control.process_ended(*process, *pid, ranks, false);
                }
                !ended
            });
        }
    };
    let started = thread::Builder::new().name("syncline watch".to_owned()).spawn(watcher);
    let what = "start a thread that watches other processes";
    started.map(Some).map_err(|source| TeamError::System { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_cut_into_groups_where_somebody_wants_that() {
        let keys = [7, 7, 9, 7, 9];
        assert_eq!(Hosts::new(&grouped(&keys, None)).count(), 2);
        let pairs = Hosts::new(&grouped(&keys, Some(2)));
        assert_eq!(
            (pairs.count(), pairs.processes(0), pairs.processes(2)),
            (3, &[0, 1][..], &[3][..])
        );
        assert_eq!(Hosts::new(&grouped(&keys, Some(1))).count(), 5);
    }

    #[test]
    fn cards_are_read_as_they_were_written() {
        let cards = [Card([1, 2, 3, 4, 5, 6, 7, 8, 9]), Card([10, 11, 12, 13, 14, 15, 16, 17, 18])];
        let bytes = cards.iter().flat_map(|card| card.bytes()).collect::<Vec<_>>();
        assert_eq!(
            Card::all(&bytes).iter().map(|card| card.0).collect::<Vec<_>>(),
            cards.map(|card| card.0)
        );
    }
}
