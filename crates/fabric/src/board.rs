//! A board for the members of a team, on any hosts: flags in memory within a host, messages between
//! hosts.
//!
//! # Contract
//! That of [`SignalBoard`]. A flag is in the memory of its member's host. A member of the same host
//! raises it there; a member of another host sends *raise (slot, episode)* to the process of the
//! flag's member, which raises the flag the next time it drives; and a member drives while it
//! waits. Flags are episode numbers, so neither the order nor the tags of messages matter.
//!
//! ```text
//!  host 0: member 0 ── raise(1, s, e) ──> flag (1, s)            a store and two line transfers
//!     └── raise(2, s, e) ── message ──> host 1: process of member 2 ──> flag (2, s)
//! ```
//!
//! # Costs
//! One message of 24 bytes per raise between hosts. Leaving sends one message to every process of
//! each other host.

use std::sync::Arc;
use std::time::Instant;

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Policy, Signal};
use syncline_sync::{
    Barrier, Fault, Space, SpaceError,
    barrier::DisseminationMember,
    board::{Awaited, MemoryBoard, SignalBoard},
    call_matching::{Blocking, Caller},
    space::Array,
    traced::Traced,
};

use crate::endpoint::{Endpoint, Out, Service};

/// A member's handle to a board of its team.
#[derive(Debug)]
pub struct TeamBoard(Kind);

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "on one host there is no pointer to follow")]
enum Kind {
    Memory(MemoryBoard),
    Hosts(Box<Across>),
}

/// A handle to a board whose members are on several hosts.
#[derive(Debug)]
struct Across {
    endpoint: Arc<Endpoint>,
    service: u32,
    flags: Arc<Flags>,
    member: usize,
    episodes: u64,
    caller: Option<Caller>,
}

/// The part of such a board that the members of a host share.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    /// Indexed by slot, then by member. Cells of members on other hosts are not used.
    cells: Array<Signal>,
    /// For each member: 0, or `LEFT` and the number of episodes that it had completed.
    left: Array<AtomicU64>,
    /// The process of each member.
    processes: Arc<[usize]>,
    traced: Traced,
}

const LEFT: u64 = 1 << 63;
const RAISE: u64 = 1;
const LEAVE: u64 = 2;

impl TeamBoard {
    pub(crate) fn memory(board: MemoryBoard) -> TeamBoard {
        TeamBoard(Kind::Memory(board))
    }

    /// Returns the fault for which waits at this board end: the verdict on calls that do not match,
    /// a member that is dead, or a member that left before it completed this member's current
    /// episode. Returns `None` for a board in memory, where every wait checks this anyway.
    #[must_use]
    pub fn missing(&self) -> Option<Fault> {
        match &self.0 {
            Kind::Memory(_) => None,
            Kind::Hosts(board) => board.gone(),
        }
    }

    /// Returns the caller that waits at the board, if the board spans hosts.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        match &self.0 {
            Kind::Memory(_) => None,
            Kind::Hosts(board) => board.caller.as_ref(),
        }
    }

    /// Creates the handle of `member` to a board whose flags are `flags`.
    pub(crate) fn across(
        endpoint: &Arc<Endpoint>,
        service: u32,
        flags: Flags,
        member: usize,
        caller: Option<Caller>,
    ) -> TeamBoard {
        let flags = endpoint.attach(service, || flags);
        let endpoint = Arc::clone(endpoint);
        TeamBoard(Kind::Hosts(Box::new(Across {
            endpoint,
            service,
            flags,
            member,
            episodes: 0,
            caller,
        })))
    }
}

impl Flags {
    /// Allocates the flags of members that are in these processes.
    pub(crate) fn within(
        space: &mut Space,
        processes: Arc<[usize]>,
        slots: usize,
    ) -> Result<Flags, SpaceError> {
        let members = processes.len();
        let (cells, left) = (space.array(members * slots)?, space.array(members)?);
        Ok(Flags { cells, left, processes, traced: space.traced() })
    }

    fn cell(&self, of: usize, slot: usize) -> Option<&Signal> {
        self.cells.get(slot * self.processes.len() + of).filter(|_| of < self.processes.len())
    }

    /// Returns a member that left before it had completed `episodes`.
    fn left_before(&self, episodes: u64) -> Option<usize> {
        // Acquire: pairs with the Release of a member that leaves, and so with the reason for which
        // it leaves.
        let left = |word: &AtomicU64| word.load(Ordering::Acquire);
        self.left.iter().position(|word| left(word) >= LEFT && left(word) - LEFT < episodes)
    }
}

impl Service for Flags {
    fn receive(&self, _from: usize, body: &[u8], _out: &mut Out<'_>) {
        let word = |at: usize| {
            let bytes = body.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (member, slot, episode) = (word(1) as u32 as usize, (word(1) >> 32) as usize, word(2));
        match word(0) {
            RAISE => {
                if let Some(cell) = self.cell(member, slot) {
                    cell.raise_to(episode.min(Signal::MAX));
                }
            }
            LEAVE => {
                if let Some(left) = self.left.get(member) {
                    // Release: pairs with the Acquire in `left_before`.
                    left.store(LEFT | episode, Ordering::Release);
                }
            }
            _ => (),
        }
    }
}

impl Across {
    fn tell(&self, to: usize, words: [u64; 3]) {
        self.endpoint.enter(self.service, |out| {
            let mut message = out.message();
            words.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()));
            out.send(to, message);
        });
    }

    fn flag(&self, slot: usize) -> &Signal {
        self.flags.cell(self.member, slot).expect("a slot of the board")
    }
}

impl SignalBoard for TeamBoard {
    fn rank(&self) -> usize {
        match &self.0 {
            Kind::Memory(board) => board.rank(),
            Kind::Hosts(board) => board.member,
        }
    }

    fn members(&self) -> usize {
        match &self.0 {
            Kind::Memory(board) => board.members(),
            Kind::Hosts(board) => board.flags.processes.len(),
        }
    }

    fn traced(&self) -> Traced {
        match &self.0 {
            Kind::Memory(board) => board.traced(),
            Kind::Hosts(board) => board.flags.traced,
        }
    }

    #[inline]
    fn raise(&mut self, to: usize, slot: usize, epoch: u64) -> Result<(), Fault> {
        let board = match &mut self.0 {
            Kind::Memory(board) => return board.raise(to, slot, epoch),
            Kind::Hosts(board) => board,
        };
        board.check_not_forked()?;
        let (process, hosts) = (board.flags.processes[to], board.endpoint.hosts());
        if hosts.of(process) == hosts.of(board.endpoint.process()) {
            board.flags.cell(to, slot).expect("a slot of the board").raise_to(epoch);
        } else {
            board.tell(process, [RAISE, to as u64 | (slot as u64) << 32, epoch]);
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, slot: usize, epoch: u64) -> Result<bool, Fault> {
        let board = match &mut self.0 {
            Kind::Memory(board) => return board.poll(slot, epoch),
            Kind::Hosts(board) => board,
        };
        board.check_not_forked()?;
        if board.flag(slot).get() >= epoch {
            return Ok(true);
        }
        board.endpoint.drive();
        if board.flag(slot).get() >= epoch {
            return Ok(true);
        }
        match board.gone() {
            Some(fault) => Err(fault),
            None => Ok(false),
        }
    }

    #[inline]
    fn wait(
        &mut self,
        slot: usize,
        epoch: u64,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), Fault> {
        let board = match &mut self.0 {
            Kind::Memory(board) => return board.wait(slot, epoch, awaited, deadline),
            Kind::Hosts(board) => board,
        };
        let flag = board.flag(slot);
        let blocking = Blocking::new(board.caller.as_ref(), board.episodes + 1, deadline);
        let blocking = blocking.needing(awaited.into());
        board
            .endpoint
            .wait_in(&blocking, deadline, || flag.get() >= epoch || board.left().is_some())?;
        if flag.get() >= epoch { Ok(()) } else { board.gone().map_or(Ok(()), Err) }
    }

    #[inline]
    fn reached(&mut self, step: u32) {
        match &mut self.0 {
            Kind::Memory(board) => board.reached(step),
            Kind::Hosts(board) => {
                if let Some(caller) = &board.caller
                    && board.endpoint.check_not_forked()
                {
                    caller.reached(board.episodes + 1, step);
                }
            }
        }
    }

    fn complete(&mut self) {
        match &mut self.0 {
            Kind::Memory(board) => board.complete(),
            Kind::Hosts(board) => board.episodes += 1,
        }
    }

    fn episodes(&self) -> u64 {
        match &self.0 {
            Kind::Memory(board) => board.episodes(),
            Kind::Hosts(board) => board.episodes,
        }
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        // Between hosts the endpoint determines how a member waits.
        if let Kind::Memory(board) = &mut self.0 {
            board.set_policy(policy);
        }
    }
}

impl Across {
    /// Returns the reason why waits end. The verdict comes first: members that leave because of it
    /// are not its cause.
    fn gone(&self) -> Option<Fault> {
        // Read before the verdict: a member may have left for a reason that must then be reported.
        let left = self.left();
        let dead = self.endpoint.dead();
        self.caller.as_ref().and_then(Caller::verdict).or(dead).or(left)
    }

    /// Returns an error in a child that `fork` has made of the member's process.
    fn check_not_forked(&self) -> Result<(), Fault> {
        if self.endpoint.check_not_forked() {
            Ok(())
        } else {
            Err(Fault::Forked { rank: self.member })
        }
    }

    fn left(&self) -> Option<Fault> {
        self.flags.left_before(self.episodes + 1).map(|rank| Fault::Left { rank })
    }
}

impl Drop for Across {
    fn drop(&mut self) {
        if !self.endpoint.check_not_forked() {
            return; // the member's process has the seat
        }
        // Release: pairs with the Acquire in `left_before`.
        self.flags.left[self.member].store(LEFT | self.episodes, Ordering::Release);
        if self.endpoint.dead().is_some()
            || self.caller.as_ref().and_then(Caller::verdict).is_some()
        {
            // A waiting member must get that fault, and not the members that leave because of it.
            return;
        }
        let hosts = self.endpoint.hosts();
        let here = hosts.of(self.endpoint.process());
        for host in (0..hosts.count()).filter(|&host| host != here) {
            for &process in hosts.processes(host) {
                self.tell(process, [LEAVE, self.member as u64, self.episodes]);
            }
        }
    }
}

/// A dissemination barrier over boards that the members supply: the outer barrier of a
/// [`Combined`](syncline_sync::barrier::Combined).
#[derive(Debug)]
pub(crate) struct Outer {
    members: usize,
    radix: usize,
    board: std::sync::Mutex<Option<TeamBoard>>,
    traced: Traced,
}

impl Outer {
    pub(crate) fn new(
        members: usize,
        radix: usize,
        board: Option<TeamBoard>,
        traced: Traced,
    ) -> Outer {
        Outer { members, radix, board: board.into(), traced }
    }
}

impl Barrier for Outer {
    type Member = DisseminationMember<TeamBoard>;

    fn members(&self) -> usize {
        self.members
    }

    fn traced(&self) -> Traced {
        self.traced
    }

    fn member(&self, rank: usize) -> Result<Self::Member, SpaceError> {
        let board = self.board.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        Ok(DisseminationMember::new(board.ok_or(SpaceError::Taken { rank })?, self.radix))
    }
}
