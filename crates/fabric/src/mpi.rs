//! Teams of MPI's processes: how they find one another, and the wire between their hosts.
//!
//! # Contract
//! ```text
//!   mpirun ──> process 0   process 1   process 2   process 3       all: who are you? (allgather)
//!                 host A: memory ◄──┐     host B: memory ◄──┐
//!                 serves     opens ─┘     serves     opens ─┘     by /proc/PID/fd of who serves: no name
//!                    └──────────── MPI ─────────┘                 messages, in a communicator of their own
//! ```
//! Processes are on one host if they run under the same kernel and see the same network and processes. They share a segment
//! without a name, and watch one another by pidfd. What is between hosts goes by MPI, whatever that uses: nothing is ever
//! done by another road than that. If memory cannot be shared, that is an error, not a slower way.
//!
//! With all processes on one host MPI is used to begin and to end only.
//!
//! # Threads
//! The server thread of a host needs an MPI that grants it calls beside others' (`MPI_THREAD_SERIALIZED` at least; calls
//! take turns). Where a program's MPI does not, members drive by themselves while they wait, and nothing is served while
//! they compute; then nobody is taken for dead for being silent, either.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use syncline_memory::{ProcessWatch, Segment};
use syncline_mpi::{Communicator, Fault, Launched, Library, Mpi, MpiError, Receiving, Sending, Threads};

use crate::control::Control;
use crate::environment::{self, Shape};
use crate::error::TeamError;
use crate::hosts::Hosts;
use crate::inherit;
use crate::member::Member;
use crate::node::Node;
use crate::team::{JOINED, MEMORY, shared};
use crate::wire::{Wire, WireError};

/// The tag of messages.
const TAG: u16 = 1;
/// So many buffers are kept.
const SPARE: usize = 64;

/// Whether an MPI launcher started this process, with others.
pub(crate) fn launched() -> Option<Launched> {
    syncline_mpi::launched().filter(|launched| launched.size != Some(1))
}

/// Takes this process's part in the team of all processes that an MPI launcher started.
pub(crate) fn join<R, F>(launched: &Launched, f: &F) -> Result<Vec<R>, TeamError>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    // Calls take turns, and some MPIs do less, or have no windows between hosts, if told that they may not.
    // What may be wrong is found before anybody waits for this process.
    let said = Said::read()?;
    let (threads, memory) = (environment::threads()?.unwrap_or(1), environment::memory()?);
    let mpi = Mpi::start(Library::find(launched)?, Threads::Serialized, Some(launched))?;
    let world = mpi.world()?;
    if JOINED.set(world.rank()).is_err() {
        return Err(TeamError::Taken { process: world.rank() });
    }
    run(mpi, world, threads, memory, said, f)
}

/// Takes this process's part in a team within a program of MPI.
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
    let library = Library::of_this_program()?.map_or_else(no_mpi, Ok)?;
    let mpi = Mpi::start(library, Threads::Multiple, None)?;
    // SAFETY: as the caller of `Team::within_mpi` vouches.
    let own = unsafe { mpi.from_fortran(communicator) }?;
    run(mpi, own, threads, memory, said, f)
}

fn no_mpi() -> Result<Library, TeamError> {
    let source =
        std::io::Error::other("this program has loaded none, or has it linked in where nobody can see it");
    Err(TeamError::System { what: "find the MPI of this program", source })
}

/// What the environment says of hosts.
#[derive(Clone, Copy, Debug)]
struct Said {
    per_host: Option<usize>,
    timeout: Duration,
}

impl Said {
    fn read() -> Result<Said, TeamError> {
        Ok(Said { per_host: environment::per_host()?, timeout: environment::timeout()? })
    }
}

/// What processes tell one another first: a line of words each.
#[derive(Clone, Copy, Debug)]
struct Card([u64; 6]);

const VERSION: u64 = 1;
const WORDS: usize = 6;

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

fn run<R, F>(
    mut mpi: Mpi,
    world: Communicator,
    threads: usize,
    memory: Option<usize>,
    said: Said,
    f: &F,
) -> Result<Vec<R>, TeamError>
where
    R: Send,
    F: Fn(&mut Member) -> R + Sync,
{
    let granted = mpi.threads();
    let threaded = granted >= Threads::Serialized;
    let memory = memory.unwrap_or(MEMORY);
    let mine =
        Card([VERSION, host_key(), std::process::id().into(), threads as u64, memory as u64, granted as u64]);
    let cards = Card::all(&world.allgather(&mine.bytes())?);
    let agreed =
        [(0, "the version of this library"), (3, "the threads of a process"), (4, "the memory of a host")];
    for (process, card) in cards.iter().enumerate() {
        for (word, what) in agreed {
            if card.0[word] != cards[0].0[word] {
                let (theirs, ours) = (card.0[word], cards[0].0[word]);
                return Err(TeamError::Disagree { process, what, theirs, ours });
            }
        }
    }
    if threads > 1 && !threaded {
        return Err(TeamError::Threads { granted: granted.to_string(), threads });
    }
    let keys = cards.iter().map(|card| card.0[1]).collect::<Vec<_>>();
    let hosts = Hosts::new(&grouped(&keys, said.per_host));
    let shape = Shape::here(world.size(), threads)?;
    let process = world.rank();
    let here = hosts.of(process);
    let pids = cards.iter().map(|card| card.0[2] as u32).collect::<Vec<_>>();

    // Who serves a host makes its memory; the others open it, and all wait until they have. What fails here is told when all
    // have come to the end of this: who returned before would be waited for in MPI for ever.
    let serves = hosts.server(here) == process;
    let made = serves.then(|| Segment::shared(memory)).transpose();
    let fd = made.as_ref().ok().and_then(Option::as_ref).and_then(Segment::fd);
    let number = fd.map_or(NONE, |fd| fd.as_raw_fd() as u64);
    let numbers = world.allgather(&number.to_le_bytes())?;
    let over = Arc::new(AtomicBool::new(false));
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
        let watcher = watch(shape, &watched, &control, &over)?;
        Ok::<_, TeamError>((space, control, watcher))
    };
    let settled = settle();
    let failed = world.max(f64::from(u8::from(settled.is_err())))?;
    if failed > 0.0 {
        over.store(true, Ordering::Relaxed);
        return match settled {
            Err(error) => Err(error),
            Ok(_) => Err(TeamError::Others),
        };
    }
    let (mut space, control, watcher) = settled?;
    control.begin(process);
    let spare = Mutex::new(world.split(Some(0), i32::try_from(process).unwrap_or(i32::MAX))?);

    let result = if hosts.count() == 1 {
        // Of the team's, MPI has nothing to do until the end.
        Node { mpi: spare, ..Node::alone(shape, process, control.clone()) }.run(space, f)
    } else {
        let name = format!("MPI ({})", named(mpi.library()));
        let wire = Box::new(MpiWire {
            world,
            name,
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
            spare: Vec::new(),
        });
        // Those who serve only while they wait may be silent for as long as they compute.
        let served = cards.iter().all(|card| card.0[5] >= Threads::Serialized as u64);
        let timeout = if served { said.timeout } else { Duration::from_secs(1 << 30) };
        let node = Node::connected(shape, hosts, wire, &mut space, control.clone(), timeout)?;
        Node { threaded, mpi: spare, ..node }.run(space, f)
    };
    control.finish(process);
    over.store(true, Ordering::Relaxed);
    if let Some(watcher) = watcher {
        let _ = watcher.join();
    }
    let lost =
        (0..shape.processes).any(|process| shape.ranks(process).all(|rank| control.deaths.includes(rank)));
    if lost {
        // Those who are gone do not come to its end.
        crate::say(format_args!("process {process} ends without MPI_Finalize: others are dead"));
        std::mem::forget(mpi);
    } else {
        mpi.finalize()?;
    }
    result
}

/// A library, in a few words.
fn named(library: &Library) -> String {
    let version = library.version().map(|version| format!(" {version}")).unwrap_or_default();
    format!("{}{version}", library.family())
}

/// Processes that see the same kernel, network and processes are on one host.
fn host_key() -> u64 {
    let mut key = DefaultHasher::new();
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut key);
    for space in ["net", "pid", "ipc", "mnt", "uts"] {
        let inode = std::fs::metadata(format!("/proc/self/ns/{space}")).map(|data| data.ino());
        inode.unwrap_or_default().hash(&mut key);
    }
    key.finish()
}

/// The host of each process, of which so many at most share memory.
fn grouped(keys: &[u64], most: Option<usize>) -> Vec<(u64, usize)> {
    let most = most.unwrap_or(usize::MAX);
    let before = |process: usize| keys[..process].iter().filter(|&&key| key == keys[process]).count();
    (0..keys.len()).map(|process| (keys[process], before(process) / most)).collect()
}

/// Stands for the descriptor of memory that could not be made.
const NONE: u64 = u64::MAX;

/// The memory of the host, which another process has made.
fn open(server: usize, pid: u32, number: u64) -> Result<Segment, TeamError> {
    if number == NONE {
        return Err(TeamError::Others);
    }
    let path = format!("/proc/{pid}/fd/{number}");
    let wrong = |why: String| TeamError::Sharing { process: server, path: path.clone(), why };
    let opened = std::fs::File::options().read(true).write(true).open(&path);
    let fd = OwnedFd::from(opened.map_err(|error| wrong(error.to_string()))?);
    if !inherit::is_sealed(&fd) {
        return Err(wrong("it is something else".to_owned()));
    }
    Segment::from_fd(fd).map_err(|error| wrong(error.to_string()))
}

/// A thread that waits for the end of other processes of this host, and declares them dead.
fn watch(
    shape: Shape,
    others: &[(usize, u32)],
    control: &Control,
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
                    if control.part(*process) != crate::error::Part::Done {
                        crate::say(format_args!(
                            "process {process} (pid {pid}, {}) is dead",
                            crate::error::Ranks(&ranks)
                        ));
                    }
                    control.process_ended(*process, *pid, ranks);
                }
                !ended
            });
        }
    };
    let started = thread::Builder::new().name("syncline watch".to_owned()).spawn(watcher);
    let what = "start a thread that watches other processes";
    started.map(Some).map_err(|source| TeamError::System { what, source })
}

/// A wire of messages of MPI.
#[derive(Debug)]
struct MpiWire {
    world: Communicator,
    name: String,
    sending: VecDeque<Sending>,
    /// What has been found and is not all there: a long message, whose sender may stop in its middle.
    receiving: VecDeque<(usize, Receiving)>,
    spare: Vec<Vec<u8>>,
}

/// So many messages are received at once: behind them others wait.
const RECEIVING: usize = 16;

impl MpiWire {
    /// What an error of MPI says of the team.
    fn error(&mut self, what: &'static str, error: &MpiError) -> WireError {
        if error.fault() == Some(Fault::ProcessFailed) {
            let failed = self.world.failures().unwrap_or_default();
            if let Some(&process) = failed.first() {
                return WireError::Gone { process };
            }
        }
        WireError::Broken { wire: self.name.clone(), what, why: error.to_string() }
    }

    /// Goes on with what has not left, and takes buffers back from what has.
    fn sent(&mut self) -> Result<(), WireError> {
        while let Some(sending) = self.sending.front_mut() {
            match sending.test() {
                Ok(false) => break,
                Ok(true) => {
                    let sending = self.sending.pop_front().map(Sending::wait);
                    if let Some(Ok(buffer)) = sending {
                        self.recycle(buffer);
                    }
                }
                Err(error) => {
                    self.sending.pop_front();
                    return Err(self.error("send a message", &error));
                }
            }
        }
        Ok(())
    }
}

impl MpiWire {
    /// The first message that is all there, and behind no other of its sender.
    fn received(&mut self) -> Result<Option<(usize, Vec<u8>)>, WireError> {
        for at in 0..self.receiving.len() {
            let from = self.receiving[at].0;
            if self.receiving.range(..at).any(|&(other, _)| other == from) {
                continue;
            }
            match self.receiving[at].1.test() {
                Ok(false) => (),
                Ok(true) => {
                    let received = self.receiving.remove(at).map(|(_, receiving)| receiving.wait());
                    let bytes =
                        received.transpose().map_err(|error| self.error("receive a message", &error))?;
                    return Ok(bytes.map(|bytes| (from, bytes)));
                }
                Err(error) => {
                    self.receiving.remove(at);
                    return Err(self.error("receive a message", &error));
                }
            }
        }
        Ok(None)
    }
}

impl Wire for MpiWire {
    fn process(&self) -> usize {
        self.world.rank()
    }

    fn processes(&self) -> usize {
        self.world.size()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), WireError> {
        match self.world.isend(to, TAG, message) {
            Ok(sending) => {
                self.sending.push_back(sending);
                Ok(())
            }
            Err(error) => Err(self.error("send a message", &error)),
        }
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, WireError> {
        self.sent()?;
        while self.receiving.len() < RECEIVING {
            let probed = self.world.probe(TAG);
            let Some(message) = probed.map_err(|error| self.error("look for a message", &error))? else {
                break;
            };
            let (from, buffer) = (message.source(), self.spare.pop().unwrap_or_default());
            let started = message.start(buffer);
            let started = started.map_err(|error| self.error("receive a message", &error))?;
            self.receiving.push_back((from, started));
            if let Some(received) = self.received()? {
                return Ok(Some(received));
            }
        }
        self.received()
    }

    fn unsent(&self) -> usize {
        self.sending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_cut_into_groups_where_somebody_wants_that() {
        let keys = [7, 7, 9, 7, 9];
        assert_eq!(Hosts::new(&grouped(&keys, None)).count(), 2);
        let pairs = Hosts::new(&grouped(&keys, Some(2)));
        assert_eq!((pairs.count(), pairs.processes(0), pairs.processes(2)), (3, &[0, 1][..], &[3][..]));
        assert_eq!(Hosts::new(&grouped(&keys, Some(1))).count(), 5);
    }

    #[test]
    fn cards_are_read_as_they_were_written() {
        let cards = [Card([1, 2, 3, 4, 5, 6]), Card([7, 8, 9, 10, 11, 12])];
        let bytes = cards.iter().flat_map(|card| card.bytes()).collect::<Vec<_>>();
        assert_eq!(Card::all(&bytes).iter().map(|card| card.0).collect::<Vec<_>>(), cards.map(|card| card.0));
    }
}
