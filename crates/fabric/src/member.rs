//! One of a team.

use syncline_sync::{
    Auto, AutoMember, Barrier, BarrierMember, Combined, CombinedMember, Counter, Deaths, Dissemination,
    Fault, Lock, LockMember, Phased, RawLock, Space, SpaceError, Tournament,
};

use crate::control::Control;
use crate::environment::Shape;

/// What a [`Member`] can make together with all others: see [`Member::make`].
pub trait Collective: Sized {
    /// One member's part of it.
    type Seat;

    /// The same thing; its members are told of these deaths.
    #[must_use]
    fn watched(self, deaths: &Deaths) -> Self;

    /// Takes the part of the member `rank`.
    ///
    /// # Errors
    /// If the rank is taken, or none of its members.
    fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError>;
}

macro_rules! collective {
    ($($barrier:ty),*) => {$(
        impl Collective for $barrier {
            type Seat = <$barrier as Barrier>::Member;

            fn watched(self, deaths: &Deaths) -> Self {
                self.watching(deaths)
            }

            fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError> {
                self.member(rank)
            }
        }
    )*};
}

collective!(Auto, Counter, Dissemination, Tournament);

impl<R: RawLock, T: Send> Collective for Lock<R, T> {
    type Seat = LockMember<R, T>;

    fn watched(self, deaths: &Deaths) -> Self {
        self.watching(deaths)
    }

    fn seat(&self, rank: usize) -> Result<Self::Seat, SpaceError> {
        self.member(rank)
    }
}

/// One of a team: what the function of [`Team::run`](crate::Team::run) gets.
///
/// Rank `r` is thread `r % threads` of process `r / threads`.
#[derive(Debug)]
pub struct Member {
    shape: Shape,
    rank: usize,
    space: Space,
    control: Control,
    barrier: AutoMember,
    /// How many things it has made with the others.
    things: u64,
}

impl Member {
    pub(crate) fn new(
        shape: Shape,
        rank: usize,
        space: Space,
        control: Control,
        barrier: &Auto,
    ) -> Result<Self, SpaceError> {
        Ok(Member { shape, rank, space, control, barrier: barrier.member(rank)?, things: 0 })
    }

    /// Which of the members this is, counted from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.shape.members()
    }

    /// Which of the processes this member is in.
    #[must_use]
    pub fn process(&self) -> usize {
        self.rank / self.shape.threads
    }

    /// How many processes there are.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.shape.processes
    }

    /// Which of its process's members this is.
    #[must_use]
    pub fn thread(&self) -> usize {
        self.rank % self.shape.threads
    }

    /// How many members each process has.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shape.threads
    }

    /// On how many cores the team runs, as whoever made it saw it: the same for all members, for `Auto::within`.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.shape.cores
    }

    /// This member's view of the memory that all share.
    ///
    /// # Collective
    /// All members ask it for the same things in the same order. What is made of it here, and not by
    /// [`make`](Self::make), is waited for even if a member has ended without it.
    pub fn space(&mut self) -> &mut Space {
        &mut self.space
    }

    /// The members that are dead; [`LAUNCHER`](syncline_sync::LAUNCHER) stands for the launcher.
    /// Waits for signals that stand in [`space`](Self::space) end for them by `Policy::watching`.
    #[must_use]
    pub fn deaths(&self) -> &Deaths {
        &self.control.deaths
    }

    /// The barrier of all members, to arrive at it now and wait later.
    pub fn barrier(&mut self) -> &mut AutoMember {
        &mut self.barrier
    }

    /// Waits until all members have come here.
    ///
    /// # Collective
    /// All members call it, each as often as the others.
    ///
    /// # Errors
    /// [`Fault::Dead`], [`Fault::Left`]: a member without which it never ends.
    pub fn wait(&mut self) -> Result<(), Fault> {
        self.barrier.wait()
    }

    /// Makes a barrier or lock with all others, and takes this member's part of it.
    ///
    /// # Collective
    /// All members make the same things in the same order. Nobody waits for the others. A member that ends when it has
    /// made less than another is given up, so that nobody waits for its part. So is one that ends because it got an error
    /// here: what is made has a seat for every member.
    ///
    /// # Errors
    /// What `make` says; [`SpaceError::Mismatch`] if this member and another do not make the same things.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::{BarrierMember, Dissemination, Flags, Lock, Mcs};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut barrier = me.make(|space, members| Dissemination::within(space, members, 4, Flags::Padded))?;
    ///     let mut sum = me.make(Lock::<Mcs, u64>::within)?;
    ///     *sum.lock()? += 1;
    ///     barrier.wait()?;
    ///     assert_eq!(*sum.lock()?, 2);
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// })?;
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn make<C: Collective>(
        &mut self,
        make: impl FnOnce(&mut Space, usize) -> Result<C, SpaceError>,
    ) -> Result<C::Seat, SpaceError> {
        let size = self.size();
        let seat = make(&mut self.space, size)?.watched(self.deaths()).seat(self.rank)?;
        self.made();
        Ok(seat)
    }

    /// Makes a barrier in two levels: `inner` for the threads of each process, `outer` for the processes.
    ///
    /// # Collective
    /// As [`make`](Self::make). Every member's view makes the inner barriers of all processes, so that all views agree
    /// on what comes after them.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_sync::{BarrierMember, Counter};
    ///
    /// Team::threads(2).run(|me| {
    ///     let mut barrier = me.combine(Counter::within, Counter::within)?;
    ///     barrier.wait()?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// })?;
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn combine<Inner: Collective + Phased, Outer: Collective + Barrier>(
        &mut self,
        inner: impl Fn(&mut Space, usize) -> Result<Inner, SpaceError>,
        outer: impl FnOnce(&mut Space, usize) -> Result<Outer, SpaceError>,
    ) -> Result<CombinedMember<Inner::Led, <Outer as Barrier>::Member>, SpaceError> {
        let Shape { processes, threads, .. } = self.shape;
        let inners = (0..processes).map(|_| inner(&mut self.space, threads)).collect::<Result<Vec<_>, _>>();
        let inner = inners?.swap_remove(self.process());
        let outer = outer(&mut self.space, processes)?.watched(self.deaths());
        let inner = inner.watched(self.deaths());
        let seat = Combined::new(self.process(), inner, outer).member(self.thread())?;
        self.made();
        Ok(seat)
    }

    fn made(&mut self) {
        self.things += 1;
        self.control.made(self.rank, self.things);
    }

    /// This member's function has returned; if it has not, nobody is to wait for it.
    pub(crate) fn end(&self, returned: bool) {
        if returned {
            self.control.ended(self.rank, self.things);
        } else {
            // Its guards and handles are dropped, unless it has passed them on to other threads, which may be
            // at work with them. So it is not declared dead while its process lives.
            self.deaths().give_up(self.rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        fn movable<T: Send + 'static>() {}
        movable::<Member>();
        movable::<crate::TeamError>();
        movable::<crate::Launcher>();
    }
}
