//! Who is alive: a parent watches its children, and children watch their parent.
//!
//! ```text
//!   parent  -- ProcessWatch (pidfd) -->            child
//!           <-- LifelineEnd (end of file) --
//! ```
//!
//! Both answers come from a descriptor and not from a process number, so neither is ever about a
//! stranger who was given the number of the dead, and neither needs the watched side's help.
//!
//! Why not `PR_SET_PDEATHSIG` for the children: the signal follows the *thread* that made the
//! child. It comes when that thread ends though the parent lives on, it is cleared by exec of a
//! set-user-id program, and it is lost if the parent dies before the child asks for it. A pipe
//! has none of these: its write end closes when the parent's last thread is gone, however the
//! parent died, and a child that looks late still sees it closed.

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

/// Maker of lifelines: see [`Lifeline::pair`].
#[derive(Debug)]
pub struct Lifeline;

impl Lifeline {
    /// Makes a lifeline: the parent holds the keeper, and hands the end to its children.
    ///
    /// Both are closed on exec, so only a child that is given the end on purpose has it; one end
    /// serves any number of children. A child made by fork *without* exec inherits the keeper too,
    /// and must drop it at once, or it keeps its own lifeline whole. (Any child is in that state for
    /// the moment between its fork and its exec.)
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
            Ok((end, keeper)) => Ok((LifelineKeeper { _pipe: keeper }, LifelineEnd { pipe: end })),
            Err(errno) => Err(Error::Lifeline { op: "make", source: errno.into() }),
        }
    }
}

/// The parent's part of a lifeline. The line is cut when it is dropped or its process dies.
#[derive(Debug)]
pub struct LifelineKeeper {
    _pipe: OwnedFd,
}

/// The children's part of a lifeline: tells whether its keeper is gone.
///
/// The parent hands it down as a descriptor, for example as a standard stream
/// (`Command::stdin(end.into_fd())`) or as a copy without close-on-exec whose number the child is
/// told; the child takes it back with [`from_fd`](Self::from_fd).
#[derive(Debug)]
pub struct LifelineEnd {
    pipe: OwnedFd,
}

impl LifelineEnd {
    /// Takes back an end that was handed down as a descriptor.
    ///
    /// # Errors
    /// [`Error::WrongDescriptor`] if it is not the read end of a pipe: such a descriptor would
    /// never tell of a death. [`Error::Lifeline`] if the system cannot say what it is.
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

    /// From now on the kernel kills all of this process's group (SIGKILL) when the keeper is gone;
    /// and at once, if it is gone already. No thread is needed for that, and whatever the processes
    /// compute does not hold it up.
    ///
    /// It holds for as long as any process has this descriptor. So it is not closed on exec from
    /// now on: what this process starts has it too, and is killed even if this process has ended
    /// before the keeper.
    ///
    /// The process is to be in a group of its own, not in its parent's. A lifeline kills one group:
    /// where its parent has [chosen another](Self::kill_group_when_cut), that group is killed as
    /// well.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the system refuses.
    ///
    /// # Source
    /// Signals of `O_ASYNC`, with `F_SETSIG`: fcntl(2). They belong to an open file, which all who inherit a pipe share.
    pub fn kill_own_group_when_cut(self) -> Result<()> {
        let (refused, own) = (|source| Error::Lifeline { op: "watch", source }, Group::own());
        let mut kept = None;
        if !fatal::kills_at_hang_up(self.as_fd(), own) {
            // An open file of its own, where that can be had, so that the group that the parent has
            // chosen stays.
            let path = format!("/proc/self/fd/{}", self.pipe.as_raw_fd());
            kept = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok();
            let pipe = kept.as_ref().unwrap_or(&self.pipe);
            fatal::kill_at_hang_up(pipe.as_fd(), own).map_err(refused)?;
        }
        rustix::io::fcntl_setfd(&self.pipe, FdFlags::empty())
            .map_err(|errno| refused(errno.into()))?;
        // By the first open file: one that was opened when the keeper was gone does not tell of it.
        let is_cut = self.is_cut();
        // They have to stay open for as long as the process lives.
        for pipe in std::iter::once(self.pipe).chain(kept) {
            let _ = pipe.into_raw_fd();
        }
        if is_cut? {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        Ok(())
    }

    /// From now on the kernel kills all of a child's process group (SIGKILL) when the keeper is
    /// gone, for as long as any of them has the end. So programs that know nothing of lifelines end
    /// with the keeper as well.
    ///
    /// The child was started with this end in a group of its own, and has not been collected.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the system refuses: `ESRCH` if there is no such group.
    pub fn kill_group_when_cut(&self, leader: u32) -> Result<()> {
        let group = libc::pid_t::try_from(leader).map_err(|_| io::Error::from(Errno::SRCH));
        group
            .and_then(|group| fatal::kill_at_hang_up(self.pipe.as_fd(), Group::Of(group)))
            .map_err(|source| Error::Lifeline { op: "watch", source })
    }

    /// Gives up the descriptor, to be handed to a child.
    pub fn into_fd(self) -> OwnedFd {
        self.pipe
    }

    /// Whether the keeper is gone. Does not block.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the kernel has no memory left to answer.
    pub fn is_cut(&self) -> Result<bool> {
        self.wait_cut(Some(Instant::now()))
    }

    /// Waits until the keeper is gone (`true`) or the deadline has passed (`false`).
    ///
    /// Without a deadline it waits as long as it takes. Signals do not cut it short.
    ///
    /// # Errors
    /// [`Error::Lifeline`] if the kernel has no memory left to answer.
    pub fn wait_cut(&self, deadline: Option<Instant>) -> Result<bool> {
        // Hang-up is always reported, so no event need be asked for. Nobody writes to the pipe.
        wait_ready(self.pipe.as_fd(), PollFlags::empty(), deadline)
            .map_err(|errno| Error::Lifeline { op: "poll", source: errno.into() })
    }
}

impl AsFd for LifelineEnd {
    /// For a copy to hand down, or for a caller's own poll: hangs up when the line is cut.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
