//! Liveness in both directions: a parent watches its children, and children watch their parent.
//!
//! ```text
//!   parent  -- ProcessWatch (pidfd) -->            child
//!           <-- LifelineEnd (end of file) --
//! ```
//!
//! Both answers come from a descriptor and not from a process number, so neither is ever about an
//! unrelated process that was given the number of the dead one, and neither needs the cooperation
//! of the watched side.
//!
//! `PR_SET_PDEATHSIG` is not used for the children, for three reasons. The signal follows the
//! *thread* that made the child: it is sent when that thread ends though the parent process lives
//! on. It is cleared by exec of a set-user-id program. It is lost if the parent dies before the
//! child asks for it. A pipe has none of these problems: its write end closes when the parent's
//! last thread is gone, however the parent died, and a child that checks late still sees it closed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, getpid, kill_process};

use crate::fatal::{self, Group};
use crate::watch::wait_ready;
use crate::{Error, error::Result};

/// Creates lifelines: see [`Lifeline::pair`].
#[derive(Debug)]
pub struct Lifeline;

impl Lifeline {
    /// Creates a lifeline: the parent holds the keeper, and hands the end to its children.
    ///
    /// Both descriptors are closed on exec, so only a child that is given the end explicitly has
    /// it; one end serves any number of children. A child made by fork *without* exec inherits the
    /// keeper too, and must drop it at once, or it keeps its own lifeline intact. (Any child is in
    /// that state between its fork and its exec.)
    ///
    /// # Errors
    /// [`Error::Lifeline`] if no descriptors are left.
    ///
    /// # Examples
    /// ```
    /// use syncline_process::lifeline::Lifeline;
    ///
    /// let (keeper, end) = Lifeline::pair()?;
    /// assert!(!end.is_cut()?);
    /// drop(keeper); // or the death of the process that holds it
    /// assert!(end.wait_cut(None)?);
    /// # Ok::<(), syncline_process::Error>(())
    /// ```
    pub fn pair() -> Result<(LifelineKeeper, LifelineEnd)> {
        match rustix::pipe::pipe_with(PipeFlags::CLOEXEC) {
            Ok((end, pipe)) => {
                Ok((LifelineKeeper { pipe, _held: None }, LifelineEnd { pipe: end }))
            }
            Err(errno) => Err(Error::Lifeline { op: "make", source: errno.into() }),
        }
    }
}

/// The parent's side of a lifeline. The lifeline is cut when it is dropped or its process dies.
#[derive(Debug)]
pub struct LifelineKeeper {
    // Dropped first: see `hold`.
    pipe: OwnedFd,
    _held: Option<LifelineEnd>,
}

impl LifelineKeeper {
    /// Keeps an end of this lifeline open for as long as the keeper exists. So a group that the end
    /// [kills](LifelineEnd::kill_group_when_cut) is killed even if all its processes have closed
    /// the end, as daemons and libraries do that close every descriptor they do not know.
    ///
    /// The kernel sends the signal when the last keeper is closed, to the ends that are open at
    /// that moment. A process that ends closes its descriptors from the lowest number to the
    /// highest, and Linux releases what they refer to in the reverse order (the list of
    /// `task_work_add`, since Linux 4.3). So the keeper gets a higher number than the end, and is
    /// released first, also if the process is killed.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if no descriptors are left.
    pub fn hold(self, end: LifelineEnd) -> Result<LifelineKeeper> {
        let mut pipe = self.pipe;
        if pipe.as_raw_fd() < end.pipe.as_raw_fd() {
            pipe = rustix::io::fcntl_dupfd_cloexec(&pipe, end.pipe.as_raw_fd())
                .map_err(|errno| Error::Lifeline { op: "hold", source: errno.into() })?;
        }
        Ok(LifelineKeeper { pipe, _held: Some(end) })
    }
}

/// The children's side of a lifeline: reports whether its keeper is gone.
///
/// The parent passes it on as a descriptor, for example as a standard stream
/// (`Command::stdin(end.into_fd())`), or as a copy without close-on-exec whose number it passes to
/// the child; the child takes it back with [`from_fd`](Self::from_fd).
#[derive(Debug)]
pub struct LifelineEnd {
    pipe: OwnedFd,
}

impl LifelineEnd {
    /// Takes back an end that was passed on as a descriptor.
    ///
    /// # Errors
    /// [`Error::WrongDescriptor`] if it is not the read end of a pipe: such a descriptor would
    /// never report a death. [`Error::Lifeline`] if the kind of the descriptor cannot be
    /// determined.
    pub fn from_fd(pipe: OwnedFd) -> Result<LifelineEnd> {
        let inspect = |errno: Errno| Error::Lifeline { op: "inspect", source: errno.into() };
        let stat = rustix::fs::fstat(&pipe).map_err(inspect)?;
        let flags = rustix::fs::fcntl_getfl(&pipe).map_err(inspect)?;
        let fifo = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
        if !fifo || flags & OFlags::RWMODE != OFlags::RDONLY {
            let expected = "the read end of a lifeline";
            return Err(Error::WrongDescriptor { fd: pipe.as_raw_fd(), expected });
        }
        Ok(LifelineEnd { pipe })
    }

    /// Makes the kernel kill this process's whole group (SIGKILL) when the keeper is gone, or at
    /// once if it is gone already. This needs no thread, and computation in the processes does not
    /// delay it.
    ///
    /// It stays in force for as long as any process has this descriptor, so the descriptor is no
    /// longer closed on exec: processes that this one starts have it too, and are killed even if
    /// this process has ended before the keeper.
    ///
    /// The process should be in a group of its own, not in its parent's. A lifeline kills one
    /// group: where its parent has [chosen another](Self::kill_group_when_cut), that group is
    /// killed as well.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the system refuses.
    ///
    /// # Source
    /// Signals of `O_ASYNC`, with `F_SETSIG`: fcntl(2). They belong to an open file description,
    /// which all processes that inherit a pipe share.
    pub fn kill_own_group_when_cut(self) -> Result<()> {
        let (refused, own) = (|source| Error::Lifeline { op: "watch", source }, Group::own());
        let mut kept = None;
        if !fatal::kills_at_hang_up(self.as_fd(), own) {
            // A separate open file description, where one can be had, so that the group that the
            // parent has chosen stays.
            let path = format!("/proc/self/fd/{}", self.pipe.as_raw_fd());
            kept = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok();
            let pipe = kept.as_ref().unwrap_or(&self.pipe);
            fatal::kill_at_hang_up(pipe.as_fd(), own).map_err(refused)?;
        }
        rustix::io::fcntl_setfd(&self.pipe, FdFlags::empty())
            .map_err(|errno| refused(errno.into()))?;
        // Checked on the first open file description: one opened after the keeper was gone does not
        // report it.
        let is_cut = self.is_cut();
        // The descriptors have to stay open for as long as the process lives.
        for pipe in std::iter::once(self.pipe).chain(kept) {
            let _ = pipe.into_raw_fd();
        }
        if is_cut? {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        Ok(())
    }

    /// Makes the kernel kill a child's whole process group (SIGKILL) when the keeper is gone, for
    /// as long as any process of the group has the end, or the keeper [holds](LifelineKeeper::hold)
    /// it. So programs that are unaware of lifelines end with the keeper as well.
    ///
    /// The child must have been started with this end, in a group of its own, and not have been
    /// collected.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the system refuses: `ESRCH` if there is no such group.
    pub fn kill_group_when_cut(&self, leader: u32) -> Result<()> {
        let group = libc::pid_t::try_from(leader).map_err(|_| io::Error::from(Errno::SRCH));
        group
            .and_then(|group| fatal::kill_at_hang_up(self.pipe.as_fd(), Group::Of(group)))
            .map_err(|source| Error::Lifeline { op: "watch", source })
    }

    /// Gives up the descriptor, so that it can be passed to a child.
    pub fn into_fd(self) -> OwnedFd {
        self.pipe
    }

    /// Returns whether the keeper is gone. Does not block.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the kernel has no memory left to answer.
    pub fn is_cut(&self) -> Result<bool> {
        self.wait_cut(Some(Instant::now()))
    }

    /// Blocks until the keeper is gone (`true`) or the deadline has passed (`false`).
    ///
    /// Without a deadline it blocks until the keeper is gone. Signals do not interrupt it.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the kernel has no memory left to answer.
    pub fn wait_cut(&self, deadline: Option<Instant>) -> Result<bool> {
        // Hang-up is always reported, so no event needs to be requested. No process writes to the
        // pipe.
        wait_ready(self.pipe.as_fd(), PollFlags::empty(), deadline)
            .map_err(|errno| Error::Lifeline { op: "poll", source: errno.into() })
    }
}

impl AsFd for LifelineEnd {
    /// Lets a caller make a copy to pass on, or poll the descriptor itself: it hangs up when the
    /// lifeline is cut.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
