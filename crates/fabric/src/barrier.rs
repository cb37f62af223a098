//! The barrier of all members of a team, on one host or several.

use std::sync::Arc;
use std::time::Instant;

use syncline_signal::Policy;
use syncline_sync::{
    Barrier as _, BarrierMember, Fault, Space, SpaceError,
    barrier::{AutoMember, Combined, CombinedMember, Counter, CounterMember, DisseminationMember},
    board::MemoryFlags,
    call_matching::Caller,
    traced::Traced,
};

use crate::board::{self, Outer, TeamBoard};
use crate::node::Node;

/// The barrier of all members of a team.
#[derive(Debug)]
pub struct TeamBarrier(pub(crate) Kind);

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "on one host there is no pointer to follow")]
pub(crate) enum Kind {
    Host(AutoMember),
    Hosts(Box<Levels>),
}

/// A counter within each host, and a dissemination barrier of the hosts.
pub(crate) type Levels = CombinedMember<CounterMember, DisseminationMember<TeamBoard>>;

/// Creates a member's seat at a barrier in two levels: the hosts, and the members of each.
pub(crate) fn levels(
    node: &Arc<Node>,
    rank: usize,
    space: &mut Space,
    services: &mut u32,
    radix: usize,
    caller: Option<Caller>,
) -> Result<Levels, SpaceError> {
    let count = node.hosts.count();
    let ranks: Arc<[Vec<usize>]> = (0..count).map(|host| node.ranks_on(host)).collect();
    let host = node.hosts.of(node.process);
    let seat =
        ranks[host].iter().position(|&other| other == rank).expect("a member is on its host");
    let among = |ranks: &[usize]| caller.clone().map(|caller| caller.among(ranks));
    let fault_list = node.control.fault_list.called(among(&ranks[host]));
    let inner = Counter::within(space, ranks[host].len())?.watching(&fault_list);
    let traced = inner.traced();
    let leaders = among(&ranks.iter().map(|ranks| ranks[0]).collect::<Vec<_>>());
    let fault_list = node.control.fault_list.called(leaders.clone());
    let radix =
        if radix < 2 { syncline_sync::cost::best_radix(count) } else { radix.min(count.max(2)) };
    let slots = DisseminationMember::<TeamBoard>::slots(count, radix);
    let board = match &node.endpoint {
        None => {
            let flags =
                MemoryFlags::within(space, count, slots, syncline_sync::board::Flags::Packed)?;
            let flags = flags.watching(&fault_list);
            if seat == 0 { Some(TeamBoard::memory(flags.board(host)?)) } else { None }
        }
        Some(endpoint) => {
            let processes = (0..count).map(|host| node.hosts.server(host)).collect();
            let flags = board::Flags::within(space, processes, slots)?;
            *services += 1;
            // All members attach it, since services are counted by process.
            (seat == 0).then(|| TeamBoard::across(endpoint, *services, flags, host, leaders))
        }
    };
    let combined =
        Combined::new(host, inner, Outer::new(count, radix, board, traced)).ranked(ranks);
    combined.watching(&node.control.fault_list).member(seat)
}

impl BarrierMember for TeamBarrier {
    fn rank(&self) -> usize {
        match &self.0 {
            Kind::Host(barrier) => barrier.rank(),
            Kind::Hosts(barrier) => barrier.rank(),
        }
    }

    fn members(&self) -> usize {
        match &self.0 {
            Kind::Host(barrier) => barrier.members(),
            Kind::Hosts(barrier) => barrier.members(),
        }
    }

    fn episodes(&self) -> u64 {
        match &self.0 {
            Kind::Host(barrier) => barrier.episodes(),
            Kind::Hosts(barrier) => barrier.episodes(),
        }
    }

    fn traced(&self) -> Traced {
        match &self.0 {
            Kind::Host(barrier) => barrier.traced(),
            Kind::Hosts(barrier) => barrier.traced(),
        }
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Fault> {
        match &mut self.0 {
            Kind::Host(barrier) => barrier.arrive(),
            Kind::Hosts(barrier) => barrier.arrive(),
        }
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        match &mut self.0 {
            Kind::Host(barrier) => barrier.done(),
            Kind::Hosts(barrier) => barrier.done(),
        }
    }

    #[inline]
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        match &mut self.0 {
            Kind::Host(barrier) => barrier.wait_untraced(deadline),
            Kind::Hosts(barrier) => barrier.wait_untraced(deadline),
        }
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        match &mut self.0 {
            Kind::Host(barrier) => barrier.set_policy(policy),
            Kind::Hosts(barrier) => barrier.set_policy(policy),
        }
    }
}
