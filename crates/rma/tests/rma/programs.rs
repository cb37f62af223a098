//! Random programs of collective calls, for teams of every kind: legal programs, which complete,
//! and illegal ones, which end in an error at every member.

use std::time::Duration;

use syncline_fabric::Member;
use syncline_rma::{Rma, RmaError};
use syncline_sync::{
    Auto, BarrierMember as _, Fault,
    barrier::{AutoMember, Counter, CounterMember},
};
use syncline_testkit::Random;

/// The objects at which members wait.
struct Objects {
    rma: Rma,
    second: Rma,
    counter: Option<CounterMember>,
    auto: Option<AutoMember>,
}

const OBJECTS: usize = 6;

impl Objects {
    fn new(me: &mut Member) -> Result<Objects, RmaError> {
        let one_host = me.hosts().count() == 1;
        let counter = if one_host { Some(me.make(Counter::within)?) } else { None };
        let cores = me.cores();
        let auto =
            if one_host { Some(me.make(|space, n| Auto::within(space, n, cores))?) } else { None };
        Ok(Objects { rma: Rma::new(me)?, second: Rma::new(me)?, counter, auto })
    }

    /// Arrives at an object, if an arrival is a separate call there.
    fn arrive(&mut self, me: &mut Member, object: usize) -> Result<(), RmaError> {
        match object {
            0 => self.rma.sync_start(),
            1 => self.second.sync_start(),
            2 => Ok(me.barrier().arrive()?),
            3 => self.counter.as_mut().map_or(Ok(()), |counter| Ok(counter.arrive()?)),
            4 => self.auto.as_mut().map_or(Ok(()), |auto| Ok(auto.arrive()?)),
            _ => Ok(()),
        }
    }

    fn wait(&mut self, me: &mut Member, object: usize) -> Result<(), RmaError> {
        match object {
            0 => self.rma.sync(),
            1 => self.second.sync(),
            2 => Ok(me.wait()?),
            3 => self.counter.as_mut().map_or(Ok(()), |counter| Ok(counter.wait()?)),
            4 => self.auto.as_mut().map_or(Ok(()), |auto| Ok(auto.wait()?)),
            _ => {
                me.gather(object as u64)?;
                Ok(())
            }
        }
    }
}

/// A common order of waits. Before a wait, a member may arrive at an object that is waited at
/// later. Members are slow now and then, some of them long enough to be reported.
pub(crate) fn legal(me: &mut Member, seed: u64) -> Result<(), RmaError> {
    let mut objects = Objects::new(me)?;
    let mut common = Random::new(seed);
    let mut own = Random::stream(seed, me.rank() as u64 + 1);
    for _ in 0..30 {
        let object = common.below(OBJECTS);
        if own.below(3) == 0 {
            objects.arrive(me, own.below(OBJECTS))?;
        }
        match own.below(40) {
            0 => std::thread::sleep(Duration::from_millis(150 + own.below(250) as u64)),
            1..4 => std::thread::sleep(Duration::from_millis(own.below(10) as u64)),
            _ => (),
        }
        objects.wait(me, object)?;
    }
    // All members complete the halves that are left.
    (0..OBJECTS).try_for_each(|object| objects.wait(me, object))
}

/// The waits of [`legal`] without its arrivals, but one member leaves out a wait, or waits at
/// another object. All members end with waits at every object: so that member comes to an object
/// where the others are not, while they are where it is missing, and none gets through.
fn illegal(me: &mut Member, seed: u64) -> Result<(), RmaError> {
    let mut objects = Objects::new(me)?;
    let mut common = Random::new(seed);
    let wrong = (common.below(me.size()), common.below(10), common.below(2) == 0);
    let on_one = me.hosts().count() == 1;
    let others = if on_one { [0, 1, 2, 3, 4, 5] } else { [0, 1, 2, 5, 0, 1] };
    for turn in 0..12 {
        let object = others[common.below(OBJECTS)];
        if (me.rank(), turn) == (wrong.0, wrong.1) {
            if wrong.2 {
                continue;
            }
            let other = others.into_iter().find(|&other| other != object).unwrap_or_default();
            objects.wait(me, other)?;
            continue;
        }
        objects.wait(me, object)?;
    }
    // The other members come here, and one that has left out a wait has one too few.
    (0..OBJECTS).try_for_each(|object| objects.wait(me, object))?;
    objects.rma.sync()
}

/// Runs an illegal program. `Err` describes an outcome other than the expected errors.
///
/// A member gets the mismatch, or the error that another member, which got it, has left.
pub(crate) fn accused(me: &mut Member, seed: u64) -> Result<(), String> {
    match illegal(me, seed) {
        Err(RmaError::Fault(Fault::Mismatch { .. } | Fault::Left { .. })) => Ok(()),
        other => Err(format!("rank {} of an illegal program: {other:?}", me.rank())),
    }
}
