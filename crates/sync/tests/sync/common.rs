//! Every kind of barrier behind one constructor.

use std::sync::Arc;

use syncline_memory::Segment;
use syncline_sync::{
    Auto, Barrier, BarrierMember, Space, SpaceError,
    barrier::{Combined, Counter, Dissemination, Phased, Tournament},
    board::Flags,
    membership::FaultList,
};

/// A kind of barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Tournament(Flags),
    Dissemination(usize, Flags),
    /// Groups of that size, which divides the number of members, led by a counter or by a
    /// tournament.
    CounterWithin(usize),
    TournamentWithin(usize),
    Auto(usize),
}

pub(crate) type Members = Vec<Box<dyn BarrierMember>>;

fn all<B: Barrier>(barrier: B) -> Result<Members, SpaceError>
where
    B::Member: 'static,
{
    (0..barrier.members())
        .map(|rank| Ok(Box::new(barrier.member(rank)?) as Box<dyn BarrierMember>))
        .collect()
}

fn grouped<I: Phased>(
    space: &mut Space,
    members: usize,
    size: usize,
    inner: impl Fn(&mut Space) -> Result<I, SpaceError>,
    fault_list: &FaultList,
) -> Result<Members, SpaceError>
where
    I::Led: 'static,
{
    let groups = members / size;
    let outer = Dissemination::within(space, groups, 2, Flags::Packed)?.watching(fault_list);
    let mut members: Members = Vec::new();
    for group in 0..groups {
        let group = Combined::new(group, inner(space)?, outer.clone());
        for rank in 0..size {
            members.push(Box::new(group.member(rank)?));
        }
    }
    Ok(members)
}

impl Kind {
    /// Creates all members of such a barrier.
    pub(crate) fn members(
        self,
        space: &mut Space,
        n: usize,
        fault_list: &FaultList,
    ) -> Result<Members, SpaceError> {
        match self {
            Kind::Counter => all(Counter::within(space, n)?.watching(fault_list)),
            Kind::Tournament(flags) => {
                all(Tournament::within(space, n, flags)?.watching(fault_list))
            }
            Kind::Dissemination(radix, flags) => {
                all(Dissemination::within(space, n, radix, flags)?.watching(fault_list))
            }
            Kind::Auto(cores) => all(Auto::within(space, n, cores)?.watching(fault_list)),
            Kind::CounterWithin(size) => grouped(
                space,
                n,
                size,
                |space| Ok(Counter::within(space, size)?.watching(fault_list)),
                fault_list,
            ),
            Kind::TournamentWithin(size) => {
                let inner = |space: &mut Space| {
                    Ok(Tournament::within(space, size, Flags::Packed)?.watching(fault_list))
                };
                grouped(space, n, size, inner, fault_list)
            }
        }
    }

    /// Creates all members on the heap, without faults.
    pub(crate) fn heap(self, n: usize) -> Members {
        let mut space = Space::heap();
        let fault_list = FaultList::within(&mut space, n).unwrap();
        self.members(&mut space, n, &fault_list).unwrap()
    }

    /// Returns every kind that can have `n` members.
    pub(crate) fn every(n: usize) -> Vec<Kind> {
        let flags = [Flags::Packed, Flags::Padded];
        let mut kinds = vec![Kind::Counter, Kind::Auto(1), Kind::Auto(n)];
        kinds.extend(flags.map(Kind::Tournament));
        kinds
            .extend((2..=5).flat_map(|radix| flags.map(|flags| Kind::Dissemination(radix, flags))));
        for size in (1..=n).filter(|&size| n.is_multiple_of(size)) {
            kinds.extend([Kind::CounterWithin(size), Kind::TournamentWithin(size)]);
        }
        kinds
    }
}

/// Creates a segment, for views as processes have them.
#[allow(dead_code, reason = "not every test file has processes' views")]
pub(crate) fn segment() -> Arc<Segment> {
    Arc::new(Segment::shared(16 << 20).unwrap())
}
