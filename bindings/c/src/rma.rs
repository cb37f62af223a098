//! One-sided memory of a team: rmas and allocations. The operations are in `moves` and `words`,
//! their completion in `syncs`.
//!
//! # Contract
//! A member makes an rma together with all others. The rma belongs to that member's call of the
//! team's function: when the function returns, outstanding gets are given up, and the rma becomes a
//! shell whose calls fail. The last `SHELLS` shells are kept; the shells of freed memory are kept
//! as long as that of their rma.
//!
//! ```text
//!   syncline_rma ──> state: alive ──> the member, the rma of Rust, allocations by number,
//!        ^                │           local buffers, outstanding gets
//!        │                └────────> none, once the function has returned
//!        └── syncline_rma_memory: its rma, its number
//! ```
//!
//! # Costs
//! Those of the Rust rma, plus the flag of the rma (two atomic exchanges on a line that only this
//! member writes), and two comparisons that find the memory. An outstanding get between hosts has
//! an entry in a table.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use syncline_fabric::Member;
use syncline_rma::{Global, Mutexes, RmaError, raw::Pending};

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Status, borrow, call, claim, deadline, out};
use crate::mutexes::RmaMutexes;
use crate::teams::{TeamMember, the_member};

/// The number of rmas of returned functions whose shells are kept.
const SHELLS: usize = 1024;

/// A member's access to one-sided memory: memory of which every member has a part, and which every
/// member reads and writes without the participation of the owner. One thread at a time uses it.
#[derive(Debug)]
pub struct Rma {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    alive: Option<Alive>,
    memories: Vec<Arc<RmaMemory>>,
    mutexes: Vec<Arc<RmaMutexes>>,
}

impl State {
    /// Keeps the shell of a set of mutexes as long as the rma's own shell.
    fn keep(&mut self, mutexes: Arc<RmaMutexes>) {
        self.mutexes.push(mutexes);
    }
}

/// One member's view of an allocation: a number of bytes at each member, aligned to 128.
#[derive(Debug)]
pub struct RmaMemory {
    owner: *const Rma,
    number: usize,
}

// SAFETY: the pointer is compared, and dereferenced to an rma that keeps this shell and that any
// thread may use.
unsafe impl Send for RmaMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for RmaMemory {}

/// An outstanding operation. Initialise it with zero bytes, which mean that there is none; it is
/// zero again after the operation was waited for.
#[repr(C)]
#[derive(Debug)]
pub struct RmaHandle {
    /// Read and written by the library only.
    pub words: [u64; 4],
}

#[derive(Debug)]
pub(crate) struct Alive {
    pub(crate) rma: syncline_rma::Rma,
    /// The id that marks the handles of this rma.
    id: u64,
    me: *const TeamMember<'static>,
    /// The parts by number; `None` if freed.
    parts: Vec<Option<Global<u8>>>,
    buffers: HashMap<usize, Layout>,
    /// The outstanding gets with a handle.
    pub(crate) gets: HashSet<[u64; 3]>,
    /// The implicit handle: the gets, and the last write to each rank.
    pub(crate) implicit_gets: Vec<Pending>,
    pub(crate) implicit_writes: HashMap<usize, Pending>,
    /// The sets of mutexes by number; `None` if freed.
    pub(crate) mutexes: Vec<Option<Mutexes>>,
    /// Whether this member has arrived at a sync that it has not completed.
    pub(crate) started: bool,
    /// Whether that sync was begun by a wait that timed out, and not by `syncline_rma_sync_start`.
    pub(crate) timed_out: bool,
}

// SAFETY: the member is used only under its flag, by any thread; see `the_member`. All other fields
// are `Send`.
unsafe impl Send for Alive {}

impl Drop for Alive {
    fn drop(&mut self) {
        // The gets end before their buffers, here or in the program, are freed.
        let gets = self.gets.iter().filter_map(|&words| Pending::from_words(words));
        gets.chain(self.implicit_gets.iter().copied()).for_each(|get| self.rma.give_up(get));
        for (address, layout) in self.buffers.drain() {
            // SAFETY: the buffer was allocated with this layout, and not freed: freeing removes it
            // from the table.
            unsafe { dealloc(ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
}

impl Alive {
    /// Returns a memory of this rma, and the rma.
    ///
    /// # Safety
    /// `memory` must be `NULL`, or have been given to C, with its shell still there.
    #[inline]
    pub(crate) unsafe fn memory(
        &mut self,
        owner: *const Rma,
        memory: *const RmaMemory,
    ) -> Result<(&mut syncline_rma::Rma, &Global<u8>), Error> {
        // SAFETY: the caller guarantees that a non-null `memory` points to a live allocation.
        let &RmaMemory { owner: other, number } = unsafe { borrow(memory, "the memory") }?;
        if other != owner {
            return Err(Error::misuse("the memory belongs to another rma"));
        }
        let part = self.parts.get(number).and_then(Option::as_ref);
        part.map(|part| (&mut self.rma, part)).ok_or_else(|| Error::misuse("the memory was freed"))
    }

    /// Records a started operation, under a handle or, if that is `NULL`, under the implicit one.
    ///
    /// # Safety
    /// `handle` must be `NULL`, or valid for writes.
    pub(crate) unsafe fn keep(
        &mut self,
        handle: *mut RmaHandle,
        pending: Pending,
        written_to: Option<usize>,
    ) {
        if pending == Pending::DONE {
            return;
        }
        if handle.is_null() {
            match written_to {
                // A later write to a rank completes later, so it replaces the earlier one.
                Some(rank) => drop(self.implicit_writes.insert(rank, pending)),
                None => self.implicit_gets.push(pending),
            }
            return;
        }
        let words = pending.to_words();
        if written_to.is_none() {
            self.gets.insert(words);
        }
        let [a, b, c] = words;
        // SAFETY: the handle is not `NULL`, and the caller guarantees that it is valid for writes.
        unsafe { handle.write(RmaHandle { words: [self.id, a, b, c] }) };
    }

    /// Returns the outstanding operation of a handle.
    pub(crate) fn pending(&self, handle: &RmaHandle) -> Result<Pending, Error> {
        let [id, words @ ..] = handle.words;
        if id == 0 {
            return Ok(Pending::DONE);
        }
        if id != self.id {
            return Err(Error::misuse("the handle is of another rma, or was never made zero"));
        }
        Pending::from_words(words)
            .ok_or_else(|| Error::invalid("the handle was not made by this library"))
    }

    /// Waits for the outstanding gets, with or without a handle.
    pub(crate) fn wait_for_gets(&mut self) -> Result<(), Error> {
        while let Some(&words) = self.gets.iter().next() {
            self.gets.remove(&words);
            self.rma.wait_for(Pending::from_words(words).unwrap_or(Pending::DONE))?;
        }
        while let Some(get) = self.implicit_gets.pop() {
            self.rma.wait_for(get)?;
        }
        Ok(())
    }

    /// Returns an error between the two halves of a sync, in which no collective operation is
    /// allowed.
    pub(crate) fn no_sync_started(&self) -> Result<(), Error> {
        match self.started {
            false => Ok(()),
            true => Err(Error::misuse("a sync is started: syncline_rma_sync_wait comes first")),
        }
    }
}

/// Returns an error if a handle cannot take an operation, as it has one already.
///
/// # Safety
/// `handle` must be `NULL`, or valid for reads.
pub(crate) unsafe fn idle(handle: *const RmaHandle) -> Result<(), Error> {
    // SAFETY: the caller guarantees that a non-null `handle` is valid for reads.
    match unsafe { handle.as_ref() } {
        Some(handle) if handle.words[0] != 0 => Err(Error::misuse(
            "the handle has an operation that was not waited for, or was never made zero",
        )),
        _ => Ok(()),
    }
}

/// Makes an object collectively, and returns the shell of it that C gets; the shell is kept as long
/// as that of the rma.
///
/// # Safety
/// The conditions of [`with`] apply.
pub(crate) unsafe fn make(
    rma: *mut Rma,
    make: impl FnOnce(&mut Alive, &mut Member) -> Result<Arc<RmaMutexes>, Error>,
) -> Result<*mut RmaMutexes, Error> {
    // SAFETY: the caller guarantees that a non-null `rma` points to a live rma.
    let mut state = claim(unsafe { &borrow(rma.cast_const(), "the rma")?.state }, "the rma")?;
    let alive = state.alive.as_mut();
    let alive = alive.ok_or_else(|| Error::misuse("the function of the member has returned"))?;
    alive.no_sync_started()?;
    // SAFETY: the rma is alive, so the function of the member has not returned, and the member is
    // live.
    let mut inside = unsafe { the_member(alive.me) }?;
    let made = make(alive, inside.member)?;
    drop(inside);
    let shell = Arc::as_ptr(&made).cast_mut();
    state.keep(made);
    Ok(shell)
}

/// Runs a collective operation with the member of an rma.
///
/// # Safety
/// The conditions of [`with`] apply.
pub(crate) unsafe fn together<R>(
    rma: *mut Rma,
    work: impl FnOnce(&mut Alive, &mut Member) -> Result<R, Error>,
) -> Result<R, Error> {
    let work = |alive: &mut Alive| {
        alive.no_sync_started()?;
        // SAFETY: the rma is alive, so the function of the member has not returned, and the member
        // is live.
        let mut inside = unsafe { the_member(alive.me) }?;
        work(alive, inside.member)
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    unsafe { with(rma, work) }
}

/// Takes an rma for the length of a call.
///
/// # Safety
/// The rma must be `NULL`, or have been given to C, with its shell still there.
#[inline]
pub(crate) unsafe fn with<R>(
    rma: *const Rma,
    work: impl FnOnce(&mut Alive) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the caller guarantees that a non-null `rma` points to a live rma.
    let mut state = claim(unsafe { &borrow(rma, "the rma")?.state }, "the rma")?;
    let alive = state.alive.as_mut();
    work(alive.ok_or_else(|| Error::misuse("the function of the member has returned"))?)
}

/// Turns an rma into a shell, after the function of its member has returned. An error if a call is
/// using it.
pub(crate) fn retire(rma: Arc<Rma>, member: usize) -> Result<(), Error> {
    static RETIRED: Mutex<VecDeque<Arc<Rma>>> = Mutex::new(VecDeque::new());
    let mut in_use = false;
    // Its mutexes are poisoned when they are dropped with it.
    let end = |state: &mut State| {
        let alive = state.alive.take();
        let held =
            alive.as_ref().and_then(|alive| alive.mutexes.iter().flatten().find_map(Mutexes::held));
        match held {
            None => Ok(()),
            Some(RmaError::Held { rank, index }) => Err(Error::misuse(format!(
                "rank {member} returned while it held mutex {index} of rank {rank}"
            ))),
            Some(error) => Err(error.into()),
        }
    };
    let ended = match rma.state.try_lock() {
        Ok(mut state) => end(&mut state),
        Err(TryLockError::Poisoned(state)) => end(&mut state.into_inner()),
        Err(TryLockError::WouldBlock) => {
            in_use = true;
            Err(Error::misuse(format!(
                "rank {member} returned while another call is using its rma"
            )))
        }
    };
    let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
    // An rma that a call is using must not be dropped.
    if in_use {
        std::mem::forget(rma);
    } else {
        retired.push_back(rma);
    }
    let old = if retired.len() > SHELLS { retired.pop_front() } else { None };
    drop(retired);
    drop(old);
    ended
}

/// Makes a member's access to one-sided memory. All members call it, under the rules of
/// `syncline_member_barrier`. The member owns the rma, which is freed when the function returns;
/// outstanding gets are given up then. A later call with it is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned. `*rma` must be valid for writes. Of
/// the rmas whose functions have returned, only the last thousand may be passed to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_rma(
    me: *mut TeamMember<'_>,
    rma: *mut *mut Rma,
) -> Status {
    static IDS: AtomicU64 = AtomicU64::new(1);
    call(|| {
        // SAFETY: the caller guarantees that a non-null `rma` is valid for writes.
        let rma = unsafe { out(rma, "rma") }?;
        // SAFETY: the caller guarantees that a non-null `me` points to a live member.
        let mut inside = unsafe { the_member(me) }?;
        let new = syncline_rma::Rma::new(inside.member)?;
        let alive = Alive {
            rma: new,
            // Relaxed: only uniqueness of the number matters.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            me: me.cast_const().cast(),
            parts: Vec::new(),
            mutexes: Vec::new(),
            buffers: HashMap::new(),
            gets: HashSet::new(),
            implicit_gets: Vec::new(),
            implicit_writes: HashMap::new(),
            started: false,
            timed_out: false,
        };
        let new = Arc::new(Rma {
            state: Mutex::new(State {
                alive: Some(alive),
                memories: Vec::new(),
                mutexes: Vec::new(),
            }),
        });
        rma.write(Arc::as_ptr(&new).cast_mut());
        inside.rmas.push(new);
        Ok(())
    })
}

/// Allocates `bytes` bytes at this member, all zero; each of the others allocates a number of its
/// own, which may be 0. Each part is aligned to 128. All members must allocate and free together,
/// in the same order, and the calls wait for one another; if a host has no room, it is
/// `SYNCLINE_STATUS_NO_ROOM` for all. Memory that is not freed with `syncline_rma_deallocate` is
/// freed with the team.
///
/// # Safety
/// As for all functions with an rma, the conditions of `syncline_member_rma` apply. `*memory` must
/// be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_allocate(
    rma: *mut Rma,
    bytes: usize,
    memory: *mut *mut RmaMemory,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_rma_allocate_for(rma, bytes, SYNCLINE_FOREVER, memory) }
}

/// Like `syncline_rma_allocate`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: the allocation has begun. The same call with the same number of
/// bytes, or `syncline_rma_allocate`, continues it; until it is complete, every other collective
/// operation of this rma is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// The conditions of `syncline_rma_allocate` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_allocate_for(
    rma: *mut Rma,
    bytes: usize,
    nanoseconds: u64,
    memory: *mut *mut RmaMemory,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `memory` is valid for writes.
        let memory = unsafe { out(memory, "memory") }?;
        // SAFETY: the caller guarantees that a non-null `rma` points to a live rma.
        let mut state = claim(unsafe { &borrow(rma.cast_const(), "the rma")?.state }, "the rma")?;
        let State { alive, memories, .. } = &mut *state;
        let alive = alive
            .as_mut()
            .ok_or_else(|| Error::misuse("the function of the member has returned"))?;
        alive.no_sync_started()?;
        // SAFETY: the rma is alive, so the function of the member has not returned, and the member
        // is live.
        let mut inside = unsafe { the_member(alive.me) }?;
        let part =
            alive.rma.allocate_deadline::<u8>(inside.member, bytes, deadline(nanoseconds))?;
        let new = Arc::new(RmaMemory { owner: rma, number: alive.parts.len() });
        alive.parts.push(Some(part));
        memory.write(Arc::as_ptr(&new).cast_mut());
        memories.push(new);
        Ok(())
    })
}

/// Frees memory. All members call it: all earlier operations on the memory are complete, including
/// the gets of this member. Using the memory afterwards, or freeing it again, is
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. `memory` must be `NULL`, or come from
/// `syncline_rma_allocate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_deallocate(rma: *mut Rma, memory: *mut RmaMemory) -> Status {
    let free = |alive: &mut Alive| {
        alive.no_sync_started()?;
        // SAFETY: the caller guarantees that `memory` is `NULL`, or comes from
        // `syncline_rma_allocate`.
        let part = unsafe { alive.memory(rma, memory) }?.1.view::<u8>()?;
        alive.wait_for_gets()?;
        // SAFETY: the rma is alive, so the function of the member has not returned, and the member
        // is live.
        let mut inside = unsafe { the_member(alive.me) }?;
        alive.rma.free(inside.member, part)?;
        // SAFETY: `alive.memory` above found the memory, so it is live.
        let number = unsafe { borrow(memory, "the memory") }?.number;
        alive.parts[number] = None;
        Ok(())
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, free) })
}

/// Returns the address of the part of a member, if it is on the host of this member; else `NULL`,
/// without a failure. The address is valid until the memory is freed. Other members may read and
/// write the part at any time.
///
/// # Safety
/// `memory` must be `NULL`, or come from `syncline_rma_allocate`; its rma must meet the conditions
/// of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_address(
    memory: *const RmaMemory,
    rank: usize,
) -> *mut c_void {
    let mut address = ptr::null_mut();
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { of(memory, rank, |part| address = part.as_ptr(rank).cast()) });
    address
}

/// Returns the number of bytes that a member has in an allocation; `SIZE_MAX`, and stores a
/// failure, if the arguments are wrong or the memory was freed.
///
/// # Safety
/// The conditions of `syncline_rma_address` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_bytes(memory: *const RmaMemory, rank: usize) -> usize {
    let mut bytes = usize::MAX;
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { of(memory, rank, |part| bytes = part.len(rank)) });
    bytes
}

/// Inspects an allocation after a check of the rank.
///
/// # Safety
/// The conditions of `syncline_rma_address` apply.
unsafe fn of(
    memory: *const RmaMemory,
    rank: usize,
    look: impl FnOnce(&Global<u8>),
) -> Result<(), Error> {
    // SAFETY: the caller guarantees that a non-null `memory` points to a live allocation.
    let owner = unsafe { borrow(memory, "the memory") }?.owner;
    let look = |alive: &mut Alive| {
        // SAFETY: the caller guarantees that `memory` comes from `syncline_rma_allocate`; `borrow`
        // above has refused `NULL`.
        let (rma, part) = unsafe { alive.memory(owner, memory) }?;
        let size = rma.size();
        if rank >= size {
            return Err(RmaError::Rank { rank, size }.into());
        }
        look(part);
        Ok(())
    };
    // SAFETY: the shell of a memory is kept by that of its rma.
    unsafe { with(owner, look) }
}

/// Allocates private memory of the program, all zero, aligned to 128, as a source of puts and a
/// destination of gets. Free it with `syncline_rma_deallocate_local`; otherwise it is freed when
/// the function of the member returns. If there is not enough memory, this is
/// `SYNCLINE_STATUS_NO_ROOM`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. `*buffer` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_allocate_local(
    rma: *mut Rma,
    bytes: usize,
    buffer: *mut *mut c_void,
) -> Status {
    let allocate = |alive: &mut Alive| {
        let full = || Error::new(Status::NoRoom, format!("there is no memory of {bytes} bytes"));
        let layout = Layout::from_size_align(bytes.max(1), 128).map_err(|_| full())?;
        // SAFETY: the size of the layout is at least 1.
        let new = unsafe { alloc_zeroed(layout) };
        if new.is_null() {
            return Err(full());
        }
        alive.buffers.insert(new.expose_provenance(), layout);
        Ok(new.cast())
    };
    call(|| {
        // SAFETY: the caller guarantees that a non-null `buffer` is valid for writes.
        let buffer = unsafe { out(buffer, "buffer") }?;
        // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
        // still there.
        buffer.write(unsafe { with(rma, allocate) }?);
        Ok(())
    })
}

/// Frees a buffer from `syncline_rma_allocate_local`; does nothing for `NULL`. A buffer that was
/// freed already is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. No outstanding operation may write into the
/// buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_deallocate_local(
    rma: *mut Rma,
    buffer: *mut c_void,
) -> Status {
    let free = |alive: &mut Alive| {
        if buffer.is_null() {
            return Ok(());
        }
        let known = alive.buffers.remove(&buffer.addr());
        let layout =
            known.ok_or_else(|| Error::misuse("the buffer was freed, or is another rma's"))?;
        // SAFETY: the buffer was allocated with this layout, and not freed since: it was in the
        // table.
        unsafe { dealloc(buffer.cast(), layout) };
        Ok(())
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, free) })
}
