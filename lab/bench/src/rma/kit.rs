//! What a member has between hosts: memory, the things that are compared, and the team's MPI.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use syncline_fabric::endpoint::{Out, Service};
use syncline_fabric::{Member, TeamBarrier, board::TeamBoard};
use syncline_mpi::Communicator;
use syncline_mpi::unstable::Window;
use syncline_rma::unstable::{self, LockKind};
use syncline_rma::{Global, Mutexes, Rma};
use syncline_sync::barrier::{DisseminationMember, TournamentMember};

use super::race;
use crate::error::Result;
use crate::peers::missing;

/// The longest put of those to several hosts; and that to one.
pub(super) const LONGEST: usize = 4000;
pub(super) const MIB: usize = 1 << 20;
/// To how many others, at most, a member puts before a sync.
const TARGETS: usize = 7;

/// Kinds of mutexes, and what they are called.
pub(super) const KINDS: [(LockKind, &str); 4] = [
    (LockKind::Mcs, "mcs"),
    (LockKind::Server, "server"),
    (LockKind::Ticket, "ticket"),
    (LockKind::Hybrid, "hybrid"),
];

/// A member's things.
pub(super) struct Kit<'m> {
    pub(super) me: &'m mut Member,
    pub(super) data: Vec<u8>,
    /// A member of each other host, the next host's first.
    pub(super) others: Vec<usize>,
    pub(super) ours: Way,
    /// The same with two rounds of exchanges in pairs, as in the thesis.
    pub(super) thesis: Way,
    pub(super) dissemination: DisseminationMember<TeamBoard>,
    pub(super) tournament: TournamentMember<TeamBoard>,
    /// Dissemination in one round.
    pub(super) one_round: DisseminationMember<TeamBoard>,
    pub(super) combined: TeamBarrier,
    pub(super) mutexes: Vec<Mutexes>,
    pub(super) counter: Global<u64>,
    /// A mebibyte of every member, and one of its own.
    pub(super) large: Global<u8>,
    pub(super) mebibyte: Vec<u8>,
    echo: (u32, Arc<Echo>),
    /// Of the first member of each process, if MPI has what is needed.
    pub(super) mpi: Option<Peer>,
    pub(super) skipped: Vec<String>,
    /// How long a message and one back take, about.
    pub(super) ping: Duration,
}

/// A way to global memory.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) rma: Rma,
    pub(super) memory: Global<u8>,
}

impl race::Kit for Kit<'_> {
    fn me(&mut self) -> &mut Member {
        self.me
    }
}

impl Way {
    fn new(me: &mut Member, mut rma: Rma) -> Result<Way> {
        let memory = rma.allocate(me, LONGEST * me.size())?;
        Ok(Way { rma, memory })
    }

    /// Puts to these, each to a place of its own.
    pub(super) fn put(&mut self, to: &[usize], data: &[u8]) -> Result<()> {
        let at = LONGEST * self.rma.rank();
        Ok(to.iter().try_for_each(|&rank| self.rma.put(&self.memory, rank, at, data))?)
    }
}

impl<'m> Kit<'m> {
    pub(super) fn new(me: &'m mut Member) -> Result<Kit<'m>> {
        let hosts = me.hosts().count();
        let seat = me.ranks_on(me.host()).iter().position(|&rank| rank == me.rank()).unwrap_or(0);
        let next = (1..hosts).map(|ahead| me.ranks_on((me.host() + ahead) % hosts));
        let others = next.map(|ranks| ranks[seat % ranks.len()]).take(TARGETS).collect();
        let rma = Rma::new(me)?;
        let mut ours = Way::new(me, rma)?;
        let rma = unstable::with_radix(me, 2)?;
        let thesis = Way::new(me, rma)?;
        let mut mutexes = Vec::new();
        for (kind, _) in KINDS {
            mutexes.push(unstable::mutexes(&mut ours.rma, me, kind, 1)?);
        }
        let (counter, large) = (ours.rma.allocate(me, 1)?, ours.rma.allocate(me, MIB)?);
        let (dissemination, tournament) = (me.dissemination(2)?, me.tournament()?);
        let (one_round, combined) = (me.dissemination(me.size())?, me.combined(0)?);
        let echo = me.attach(Echo::default).ok_or("a team on one host has no messages")?;
        let (mut skipped, mut mpi) = (Vec::new(), None);
        match Peer::new(me)? {
            Ok(peer) => mpi = peer,
            Err(why) => skipped.push(why),
        }
        let mut kit = Kit {
            ping: Duration::ZERO,
            data: vec![1; LONGEST],
            others,
            ours,
            thesis,
            dissemination,
            tournament,
            one_round,
            combined,
            mutexes,
            counter,
            large,
            mebibyte: vec![1; MIB],
            echo,
            mpi,
            skipped,
            me,
        };
        let start = Instant::now();
        if kit.me.rank() == 0 {
            (0..4).try_for_each(|_| kit.ping(1))?;
        }
        let took = (start.elapsed() / 4).as_nanos() as u64;
        kit.ping = Duration::from_nanos(kit.me.gather(took)?[0]);
        Ok(kit)
    }

    /// A message to the process that serves another host, and one back.
    pub(super) fn ping(&mut self, host: usize) -> Result<()> {
        let endpoint = self.me.endpoint().ok_or("no messages")?;
        let (service, echo) = (self.echo.0, &self.echo.1);
        let (to, before) = (endpoint.hosts().server(host), echo.back.load(Ordering::Relaxed));
        endpoint.enter(service, |out| {
            let mut message = out.message();
            message.extend_from_slice(&ASK.to_le_bytes());
            out.send(to, message);
        });
        Ok(endpoint.wait(None, || echo.back.load(Ordering::Relaxed) > before)?)
    }
}

/// Sends back what it gets, once.
#[derive(Debug, Default)]
struct Echo {
    back: AtomicU64,
}

const ASK: u64 = 1;

impl Service for Echo {
    fn receive(&self, from: usize, body: &[u8], out: &mut Out<'_>) {
        if body == ASK.to_le_bytes() {
            let mut message = out.message();
            message.extend_from_slice(&(!ASK).to_le_bytes());
            out.send(from, message);
        } else {
            // Relaxed: a count of its own, which the thread that counts looks at, or one that
            // waits.
            self.back.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The team's MPI, for calls of our own: one member of each process has it.
pub(super) struct Peer {
    // Given back before the communicator.
    pub(super) window: Window,
    pub(super) communicator: Communicator,
    /// The processes that this one puts to.
    pub(super) others: Vec<usize>,
}

/// The tag of pings.
const TAG: u16 = 7;

impl Peer {
    /// Made by all; if any process has none, no process has, and the first member is told why.
    fn new(me: &mut Member) -> Result<Result<Option<Peer>, String>> {
        let first = me.thread() == 0;
        let communicator = if first { me.take_mpi() } else { None };
        let has = communicator.is_some() || !first;
        if me.gather(has.into())?.contains(&0) {
            let line = "apt-get install openmpi-bin libopenmpi-dev, then mpirun -n 4 --map-by node syncline-lab bench rma";
            return Ok(Err(missing("the peers of MPI: no MPI launched this team", line)));
        }
        let window = communicator.as_ref().map(|all| all.window(LONGEST * all.size() + 8 + MIB));
        let failed = matches!(window, Some(Err(_)));
        let failures = me.gather(failed.into())?;
        match (communicator, window) {
            (_, Some(Err(why))) => Ok(Err(format!("the peers of MPI: {why}"))),
            _ if failures.contains(&1) => {
                Ok(Err("the peers of MPI: another process has no window".to_owned()))
            }
            (Some(communicator), Some(Ok(window))) => {
                let hosts = me.hosts().count();
                let next = (1..hosts).map(|ahead| me.hosts().server((me.host() + ahead) % hosts));
                let others = next.take(TARGETS).collect();
                Ok(Ok(Some(Peer { communicator, window, others })))
            }
            _ => Ok(Ok(None)),
        }
    }

    /// Puts to the others; `data` stays as it is until a flush.
    pub(super) fn put(&self, data: &[u8]) -> Result<()> {
        let at = LONGEST * self.communicator.rank();
        for &to in &self.others {
            // SAFETY: the kit has the data for as long as the window, and nothing writes them.
            unsafe { self.window.put(to, at, data.as_ptr(), data.len()) }?;
        }
        Ok(())
    }

    /// Puts a mebibyte to the next host, and waits until it is there.
    pub(super) fn put_long(&self, data: &[u8]) -> Result<()> {
        let at = LONGEST * self.communicator.size() + 8;
        // SAFETY: as above; and it is flushed.
        unsafe { self.window.put(self.others[0], at, data.as_ptr(), data.len()) }?;
        Ok(self.window.flush(self.others[0])?)
    }

    /// Gets as much from there.
    pub(super) fn get_long(&self, data: &mut [u8]) -> Result<()> {
        let at = LONGEST * self.communicator.size() + 8;
        // SAFETY: the data are there until the flush.
        unsafe { self.window.get(self.others[0], at, data.as_mut_ptr(), data.len()) }?;
        Ok(self.window.flush(self.others[0])?)
    }

    /// Adds to the counter of the first process.
    pub(super) fn add(&self) -> Result<()> {
        let at = LONGEST * self.communicator.size();
        self.window.fetch_add(0, at, 1)?;
        Ok(())
    }

    /// Sends a message to another and waits for it to come back, or does so for the other.
    pub(super) fn ping(&self, with: usize, begin: bool) -> Result<()> {
        if begin {
            let sending = self.communicator.isend(with, TAG, vec![0; 8])?;
            self.wait()?;
            drop(sending);
        } else {
            self.wait()?;
            drop(self.communicator.isend(with, TAG, vec![0; 8])?);
        }
        Ok(())
    }

    /// Looks for a message, and lets others have the core.
    fn wait(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(message) = self.communicator.probe(TAG)? {
                message.receive(Vec::with_capacity(8))?;
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err("a ping of MPI never came back".into());
            }
            std::thread::yield_now();
        }
    }
}
