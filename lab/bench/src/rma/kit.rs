//! A member's objects between hosts: memory, the compared objects, and the team's MPI.

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

/// The length of the longest put to several hosts, and those of puts to one host.
pub(super) const LONGEST: usize = 4000;
pub(super) const LONG: [(&str, usize); 6] = [
    ("32 KiB", 32 << 10),
    ("64 KiB", 64 << 10),
    ("128 KiB", 128 << 10),
    ("256 KiB", 256 << 10),
    ("1 MiB", 1 << 20),
    ("4 MiB", MOST),
];
const MOST: usize = 4 << 20;
/// The greatest number of other members to which a member puts before a sync.
const TARGETS: usize = 7;

/// Kinds of mutexes, and their names.
pub(super) const KINDS: [(LockKind, &str); 4] = [
    (LockKind::Mcs, "mcs"),
    (LockKind::Server, "server"),
    (LockKind::Ticket, "ticket"),
    (LockKind::Hybrid, "hybrid"),
];

/// A member's objects.
pub(super) struct Kit<'m> {
    pub(super) me: &'m mut Member,
    pub(super) data: Vec<u8>,
    /// One member of each other host, beginning with the next host.
    pub(super) others: Vec<usize>,
    pub(super) ours: Way,
    /// The same with two pairwise exchanges, as in the thesis.
    pub(super) thesis: Way,
    pub(super) dissemination: DisseminationMember<TeamBoard>,
    pub(super) tournament: TournamentMember<TeamBoard>,
    /// Dissemination in one round.
    pub(super) one_round: DisseminationMember<TeamBoard>,
    pub(super) combined: TeamBarrier,
    /// With the rounds between hosts of the paper on combined barriers.
    pub(super) combined_2: TeamBarrier,
    pub(super) mutexes: Vec<Mutexes>,
    pub(super) counter: Global<u64>,
    /// The longest data in the memory of each member, and private ones.
    pub(super) large: Global<u8>,
    pub(super) long: Vec<u8>,
    echo: (u32, Arc<Echo>),
    /// Present in the first member of each process, if MPI has what is needed.
    pub(super) mpi: Option<Peer>,
    pub(super) skipped: Vec<String>,
    /// The approximate time of a message and one back.
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

    /// Puts to these members, to a separate place in each.
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
        let (counter, large) = (ours.rma.allocate(me, 1)?, ours.rma.allocate(me, MOST)?);
        let (dissemination, tournament) = (me.dissemination(2)?, me.tournament()?);
        let (one_round, combined) = (me.dissemination(me.size())?, me.combined(0)?);
        let combined_2 = me.combined(2)?;
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
            combined_2,
            mutexes,
            counter,
            large,
            long: vec![1; MOST],
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

    /// Sends a message to the process that serves another host, and waits for one back.
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

/// Sends each message back, once.
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
            // Relaxed: a counter of its own, read only by the thread that counts or by a thread
            // that waits.
            self.back.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The team's MPI, for our own calls: one member of each process has it.
pub(super) struct Peer {
    // Released before the communicator.
    pub(super) window: Window,
    pub(super) communicator: Communicator,
    /// The processes to which this one puts.
    pub(super) others: Vec<usize>,
}

/// The message tag of pings.
const TAG: u16 = 7;
const LONG_TAG: u16 = 8;

impl Peer {
    /// Creates the peer; must be called by all members. If any process cannot, no process gets one,
    /// and the first member gets the reason.
    fn new(me: &mut Member) -> Result<Result<Option<Peer>, String>> {
        let first = me.thread() == 0;
        let communicator = if first { me.take_mpi() } else { None };
        let has = communicator.is_some() || !first;
        if me.gather(has.into())?.contains(&0) {
            let line = "apt-get install openmpi-bin libopenmpi-dev, then mpirun -n 4 --map-by node syncline-lab bench rma";
            return Ok(Err(missing("the peers of MPI: no MPI launched this team", line)));
        }
        let window = communicator.as_ref().map(|all| all.window(LONGEST * all.size() + 8 + MOST));
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

    /// Puts to the others; `data` must stay unchanged until a flush.
    pub(super) fn put(&self, data: &[u8]) -> Result<()> {
        let at = LONGEST * self.communicator.rank();
        for &to in &self.others {
            // SAFETY: the kit owns the data for as long as the window exists, and no thread writes
            // them.
            unsafe { self.window.put(to, at, data.as_ptr(), data.len()) }?;
        }
        Ok(())
    }

    /// Puts to the next host, and waits until it is complete.
    pub(super) fn put_long(&self, data: &[u8]) -> Result<()> {
        let at = LONGEST * self.communicator.size() + 8;
        // SAFETY: `data` is borrowed until this function returns, and the flush completes the put
        // before.
        unsafe { self.window.put(self.others[0], at, data.as_ptr(), data.len()) }?;
        Ok(self.window.flush(self.others[0])?)
    }

    /// Gets from the next host.
    pub(super) fn get_long(&self, data: &mut [u8]) -> Result<()> {
        let at = LONGEST * self.communicator.size() + 8;
        // SAFETY: `data` is exclusively borrowed until this function returns, and the flush
        // completes the get before.
        unsafe { self.window.get(self.others[0], at, data.as_mut_ptr(), data.len()) }?;
        Ok(self.window.flush(self.others[0])?)
    }

    /// Sends a long message to another process, and waits for an empty one back.
    pub(super) fn send_long(&self, to: usize, data: &[u8]) -> Result<()> {
        // SAFETY: `data` is borrowed until this function returns, and no thread changes it; the
        // answer comes after the message has been received.
        let mut sending =
            unsafe { self.communicator.isend_from(to, LONG_TAG, data.as_ptr(), data.len()) }?;
        self.wait()?;
        while !sending.test()? {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Receives the message of `send_long`, and answers it.
    pub(super) fn receive_long(&self, from: usize, data: &mut [u8]) -> Result<()> {
        // SAFETY: `data` is exclusively borrowed until this function returns; it waits for the
        // message.
        let mut receiving =
            unsafe { self.communicator.irecv_into(from, LONG_TAG, data.as_mut_ptr(), data.len()) }?;
        while !receiving.test()? {
            std::thread::yield_now();
        }
        drop(self.communicator.isend(from, TAG, vec![0; 8])?);
        Ok(())
    }

    /// Adds to the counter of the first process.
    pub(super) fn add(&self) -> Result<()> {
        let at = LONGEST * self.communicator.size();
        self.window.fetch_add(0, at, 1)?;
        Ok(())
    }

    /// Passes a message of some bytes round all processes; returns the time of a hop, in
    /// nanoseconds, after the first rounds.
    pub(super) fn ring(&self, first: u64, rounds: u64, bytes: usize) -> Result<f64> {
        let (rank, size) = (self.communicator.rank(), self.communicator.size());
        let (mut data, mut start) = (vec![0; bytes], Instant::now());
        for round in 0..=first + rounds {
            if rank > 0 || round > 0 {
                data = self.wait()?;
            }
            if round == first {
                start = Instant::now();
            }
            let time = start.elapsed();
            data = self.communicator.isend((rank + 1) % size, TAG, data)?.wait()?;
            if round == first + rounds {
                // The last message of the ring.
                if rank == 0 {
                    self.wait()?;
                }
                return Ok(time.as_nanos() as f64 / (rounds * size as u64) as f64);
            }
        }
        Ok(f64::NAN)
    }

    /// Sends a message to another process and waits for the reply, or replies to the other process.
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

    /// Polls for a message, and yields the core in between.
    fn wait(&self) -> Result<Vec<u8>> {
        let start = Instant::now();
        loop {
            if let Some(message) = self.communicator.probe(TAG)? {
                let room = message.len();
                return Ok(message.receive(Vec::with_capacity(room))?);
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err("a ping of MPI never came back".into());
            }
            std::thread::yield_now();
        }
    }
}
