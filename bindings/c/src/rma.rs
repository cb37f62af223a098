//! One-sided memory of a team: rmas and allocations. The operations are in `moves` and `words`, what completes them in
//! `syncs`.
//!
//! # Contract
//! An rma is made by a member, with all others, and belongs to its call of the team's function: when that returns, gets
//! that are under way are given up, and what is left of the rma is a shell that says so. The last `SHELLS` of those are
//! kept; so are the shells of memory that was freed, as long as that of their rma.
//!
//! ```text
//!   syncline_rma ──> state: alive ──> the member, the rma of Rust, allocations by number, local buffers, gets under way
//!        ^                └────────> none, once the function has returned
//!        └── syncline_rma_memory: its rma, its number
//! ```
//!
//! # Costs
//! On top of those in Rust: the flag of the rma (two atomic exchanges of a line that only this member writes), and two
//! comparisons that find the memory. A get that is under way between hosts has an entry in a table.

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

/// So many rmas of functions that have returned are known as such.
const SHELLS: usize = 1024;

/// A member's way to one-sided memory: memory of which every member has a part, and which any of them reads and writes
/// without the others. It is used by one thread at a time.
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
    /// What is shown to C of a set of mutexes is kept as long as the rma's own shell.
    fn keep(&mut self, mutexes: Arc<RmaMutexes>) {
        self.mutexes.push(mutexes);
    }
}

/// An allocation, as one member knows it: so many bytes at each member, at multiples of 128.
#[derive(Debug)]
pub struct RmaMemory {
    owner: *const Rma,
    number: usize,
}

// SAFETY: the pointer is compared, and followed to an rma that keeps this, and which any thread may use.
unsafe impl Send for RmaMemory {}
// SAFETY: as above.
unsafe impl Sync for RmaMemory {}

/// An operation that is under way. All bytes zero: none is; so it begins, and so it is when it has been waited for.
#[repr(C)]
#[derive(Debug)]
pub struct RmaHandle {
    /// Read and written by the library.
    pub words: [u64; 4],
}

#[derive(Debug)]
pub(crate) struct Alive {
    pub(crate) rma: syncline_rma::Rma,
    /// Says whose handles are its own.
    id: u64,
    me: *const TeamMember<'static>,
    /// By number; none: freed.
    parts: Vec<Option<Global<u8>>>,
    buffers: HashMap<usize, Layout>,
    /// Gets with a handle that are under way.
    pub(crate) gets: HashSet<[u64; 3]>,
    /// The implicit handle: gets, and by rank what has been written.
    pub(crate) implicit_gets: Vec<Pending>,
    pub(crate) implicit_writes: HashMap<usize, Pending>,
    /// Sets of mutexes by number; none: freed.
    pub(crate) mutexes: Vec<Option<Mutexes>>,
    /// It has arrived at a sync that it has not come out of.
    pub(crate) started: bool,
    /// That one was not started by itself: its wait has timed out.
    pub(crate) timed_out: bool,
}

// SAFETY: the member is used under its flag, by whatever thread; see `the_member`. All else may go to other threads.
unsafe impl Send for Alive {}

impl Drop for Alive {
    fn drop(&mut self) {
        // Before the buffers go that they are for, here or in the program.
        let gets = self.gets.iter().filter_map(|&words| Pending::from_words(words));
        gets.chain(self.implicit_gets.iter().copied()).for_each(|get| self.rma.give_up(get));
        for (address, layout) in self.buffers.drain() {
            // SAFETY: it was allocated with this layout, and not freed: then it would not be here.
            unsafe { dealloc(ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
}

impl Alive {
    /// A memory of this rma, and the rma.
    ///
    /// # Safety
    /// `memory` is `NULL`, or was given to C, and its shell is there.
    #[inline]
    pub(crate) unsafe fn memory(
        &mut self,
        owner: *const Rma,
        memory: *const RmaMemory,
    ) -> Result<(&mut syncline_rma::Rma, &Global<u8>), Error> {
        // SAFETY: as the caller vouches.
        let &RmaMemory { owner: other, number } = unsafe { borrow(memory, "the memory") }?;
        if other != owner {
            return Err(Error::misuse("the memory belongs to another rma"));
        }
        let part = self.parts.get(number).and_then(Option::as_ref);
        part.map(|part| (&mut self.rma, part)).ok_or_else(|| Error::misuse("the memory was freed"))
    }

    /// Keeps account of an operation that was started, under a handle or, if that is `NULL`, the implicit one.
    ///
    /// # Safety
    /// `handle` is `NULL`, or can be written.
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
                // What was written to a rank later is done later.
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
        // SAFETY: as the caller vouches.
        unsafe { handle.write(RmaHandle { words: [self.id, a, b, c] }) };
    }

    /// Of a handle, what is under way.
    pub(crate) fn pending(&self, handle: &RmaHandle) -> Result<Pending, Error> {
        let [id, words @ ..] = handle.words;
        if id == 0 {
            return Ok(Pending::DONE);
        }
        if id != self.id {
            return Err(Error::misuse("the handle is of another rma, or was never made zero"));
        }
        Pending::from_words(words)
            .ok_or_else(|| Error::invalid("the handle is none that the library made"))
    }

    /// Waits for the gets that are under way, with or without a handle.
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

    /// Nothing that has to do with syncs is done between the two halves of one.
    pub(crate) fn no_sync_started(&self) -> Result<(), Error> {
        match self.started {
            false => Ok(()),
            true => Err(Error::misuse("a sync is started: syncline_rma_sync_wait comes first")),
        }
    }
}

/// Whether an operation may be started under a handle.
///
/// # Safety
/// `handle` is `NULL`, or can be read.
pub(crate) unsafe fn idle(handle: *const RmaHandle) -> Result<(), Error> {
    // SAFETY: as the caller vouches.
    match unsafe { handle.as_ref() } {
        Some(handle) if handle.words[0] != 0 => Err(Error::misuse(
            "the handle has an operation that was not waited for, or was never made zero",
        )),
        _ => Ok(()),
    }
}

/// Makes something that members make together, and gives C a shell of it, which is kept as long as that of the rma.
///
/// # Safety
/// As [`with`].
pub(crate) unsafe fn make(
    rma: *mut Rma,
    make: impl FnOnce(&mut Alive, &mut Member) -> Result<Arc<RmaMutexes>, Error>,
) -> Result<*mut RmaMutexes, Error> {
    // SAFETY: as the caller vouches.
    let mut state = claim(unsafe { &borrow(rma.cast_const(), "the rma")?.state }, "the rma")?;
    let alive = state.alive.as_mut();
    let alive = alive.ok_or_else(|| Error::misuse("the function of the member has returned"))?;
    alive.no_sync_started()?;
    // SAFETY: the function of the member has not returned: then the rma would not be alive.
    let mut inside = unsafe { the_member(alive.me) }?;
    let made = make(alive, inside.member)?;
    drop(inside);
    let shell = Arc::as_ptr(&made).cast_mut();
    state.keep(made);
    Ok(shell)
}

/// Does something with the member of an rma, and all others.
///
/// # Safety
/// As [`with`].
pub(crate) unsafe fn together<R>(
    rma: *mut Rma,
    work: impl FnOnce(&mut Alive, &mut Member) -> Result<R, Error>,
) -> Result<R, Error> {
    let work = |alive: &mut Alive| {
        alive.no_sync_started()?;
        // SAFETY: as in `make`.
        let mut inside = unsafe { the_member(alive.me) }?;
        work(alive, inside.member)
    };
    // SAFETY: as the caller vouches.
    unsafe { with(rma, work) }
}

/// Takes an rma for a call.
///
/// # Safety
/// The rma is `NULL`, or was given to C, and its shell is there.
#[inline]
pub(crate) unsafe fn with<R>(
    rma: *const Rma,
    work: impl FnOnce(&mut Alive) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: as the caller vouches.
    let mut state = claim(unsafe { &borrow(rma, "the rma")?.state }, "the rma")?;
    let alive = state.alive.as_mut();
    work(alive.ok_or_else(|| Error::misuse("the function of the member has returned"))?)
}

/// The function of the member has returned: its rma is a shell from now on. An error if a call is using it.
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
    // One that is in use must not go.
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

/// Makes a member's way to one-sided memory, with all others: all members make it, as at `syncline_member_barrier`. It is
/// given back when the function returns; gets that are under way then are given up. A call with it later is
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned. `*rma` can be written. Of rmas of functions that have returned, no
/// more than the last thousand are passed to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_rma(
    me: *mut TeamMember<'_>,
    rma: *mut *mut Rma,
) -> Status {
    static IDS: AtomicU64 = AtomicU64::new(1);
    call(|| {
        // SAFETY: as the caller vouches.
        let rma = unsafe { out(rma, "rma") }?;
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_member(me) }?;
        let new = syncline_rma::Rma::new(inside.member)?;
        let alive = Alive {
            rma: new,
            // Relaxed: a number of its own is all that is asked for.
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

/// Allocates so many bytes of this member's, all zero; the others allocate as many as they like, 0 too. Each part begins at
/// a multiple of 128. All members allocate and free together, in the same order, and wait for one another; if one host has
/// no room, it is `SYNCLINE_STATUS_NO_ROOM` for all. What is not freed is given back with the team.
///
/// # Safety
/// As for all functions with an rma, that of `syncline_member_rma`. `*memory` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_allocate(
    rma: *mut Rma,
    bytes: usize,
    memory: *mut *mut RmaMemory,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_rma_allocate_for(rma, bytes, SYNCLINE_FOREVER, memory) }
}

/// Like `syncline_rma_allocate`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then: the allocation is begun. The same call, with as many bytes, or
/// `syncline_rma_allocate` goes on where it was; until it is done, what else all members do with
/// this rma together is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// As `syncline_rma_allocate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_allocate_for(
    rma: *mut Rma,
    bytes: usize,
    nanoseconds: u64,
    memory: *mut *mut RmaMemory,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let memory = unsafe { out(memory, "memory") }?;
        // SAFETY: as the caller vouches.
        let mut state = claim(unsafe { &borrow(rma.cast_const(), "the rma")?.state }, "the rma")?;
        let State { alive, memories, .. } = &mut *state;
        let alive = alive
            .as_mut()
            .ok_or_else(|| Error::misuse("the function of the member has returned"))?;
        alive.no_sync_started()?;
        // SAFETY: the function of the member has not returned: then the rma would not be alive.
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

/// Frees memory, with all members: what any of them has done to it before is done, and this member's gets have come. To
/// use it afterwards, or to free it again, is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// That of `syncline_member_rma`. `memory` is `NULL`, or comes from `syncline_rma_allocate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_deallocate(rma: *mut Rma, memory: *mut RmaMemory) -> Status {
    let free = |alive: &mut Alive| {
        alive.no_sync_started()?;
        // SAFETY: as the caller vouches.
        let part = unsafe { alive.memory(rma, memory) }?.1.view::<u8>()?;
        alive.wait_for_gets()?;
        // SAFETY: as in `syncline_rma_allocate`.
        let mut inside = unsafe { the_member(alive.me) }?;
        alive.rma.free(inside.member, part)?;
        // SAFETY: it was found there.
        let number = unsafe { borrow(memory, "the memory") }?.number;
        alive.parts[number] = None;
        Ok(())
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, free) })
}

/// The part of a member, as memory, if it is on the host of this one; else `NULL`, without a failure. It is there until it
/// is freed. Others may read and write it at any time.
///
/// # Safety
/// `memory` is `NULL`, or comes from `syncline_rma_allocate`; of its rma, as at
/// `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_address(
    memory: *const RmaMemory,
    rank: usize,
) -> *mut c_void {
    let mut address = ptr::null_mut();
    // SAFETY: as the caller vouches.
    call(|| unsafe { of(memory, rank, |part| address = part.as_ptr(rank).cast()) });
    address
}

/// How many bytes a member has of an allocation; `SIZE_MAX`, and a failure, if that cannot be told.
///
/// # Safety
/// As `syncline_rma_address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_bytes(memory: *const RmaMemory, rank: usize) -> usize {
    let mut bytes = usize::MAX;
    // SAFETY: as the caller vouches.
    call(|| unsafe { of(memory, rank, |part| bytes = part.len(rank)) });
    bytes
}

/// Looks at what a member has of an allocation.
///
/// # Safety
/// As `syncline_rma_address`.
unsafe fn of(
    memory: *const RmaMemory,
    rank: usize,
    look: impl FnOnce(&Global<u8>),
) -> Result<(), Error> {
    // SAFETY: as the caller vouches.
    let owner = unsafe { borrow(memory, "the memory") }?.owner;
    let look = |alive: &mut Alive| {
        // SAFETY: as the caller vouches.
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

/// Allocates memory of the program's own, all zero, aligned to 128: to put from and get into. It is freed by
/// `syncline_rma_deallocate_local`, or when the function of the member returns.
/// `SYNCLINE_STATUS_NO_ROOM` if there is no such memory.
///
/// # Safety
/// That of `syncline_member_rma`. `*buffer` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_allocate_local(
    rma: *mut Rma,
    bytes: usize,
    buffer: *mut *mut c_void,
) -> Status {
    let allocate = |alive: &mut Alive| {
        let full = || Error::new(Status::NoRoom, format!("there is no memory of {bytes} bytes"));
        let layout = Layout::from_size_align(bytes.max(1), 128).map_err(|_| full())?;
        // SAFETY: it is not empty.
        let new = unsafe { alloc_zeroed(layout) };
        if new.is_null() {
            return Err(full());
        }
        alive.buffers.insert(new.expose_provenance(), layout);
        Ok(new.cast())
    };
    call(|| {
        // SAFETY: as the caller vouches.
        let buffer = unsafe { out(buffer, "buffer") }?;
        // SAFETY: as the caller vouches.
        buffer.write(unsafe { with(rma, allocate) }?);
        Ok(())
    })
}

/// Frees what `syncline_rma_allocate_local` allocated; `NULL` is nothing. What was freed already is
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// That of `syncline_member_rma`. Nothing is on its way into the buffer.
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
            known.ok_or_else(|| Error::misuse("the buffer was freed, or is none of this rma"))?;
        // SAFETY: it was allocated with this layout, and not freed since.
        unsafe { dealloc(buffer.cast(), layout) };
        Ok(())
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, free) })
}
