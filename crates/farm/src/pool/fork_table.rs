//! The fork table: the shared tasks of a pool whose workers steal. It consists of cells, the deques
//! in which tasks are offered, and a bit for each sleeping worker.
//!
//! # Contract
//! A task is offered by its owner (the worker that forked it, or the manager), claimed once, by any
//! worker, and its end is reported to the owner. No worker sleeps while a task is offered.
//!
//! ```text
//! cells   state, owner, task, result                  one task each
//! deques  worker 0 (manager)  | t1 t2 t3 |<- bottom   tickets: a cell and its generation
//!         worker 1     top -> | t4 t5 |               the owner adds at the bottom, others steal
//!                                                     at the top
//! asleep  a bit for each worker
//! ```
//! | state     | meaning                   | changed by                                           |
//! |-----------|---------------------------|------------------------------------------------------|
//! | `Offered` | the task is in its cell   | the worker that claims it: one exchange of the state |
//! | `Begun`   | a worker runs the task    | that worker, once the result is in the cell          |
//! | `Ended`   | the result is in its cell | the owner, which takes the result and frees the cell |
//! | `Free`    | the cell is unused        | an owner                                             |
//!
//! The state is decisive; a deque is only a hint where to look. A ticket that is found twice is
//! claimed once; a ticket that is lost (its owner took it back while another worker looked) is run
//! by its owner at the join. So owners and thieves need no exchange on the deques, and a death
//! leaves no deque in a state that others would have to repair. The cells of an owner that has
//! ended become *orphaned*: the worker that runs such a task frees its cell.
//!
//! # Tokens
//! A [`Ticket`] only names a task. The right to access its cell is a token, which cannot be copied:
//! a process without a token cannot touch the contents of the cell.
//!
//! | token     | meaning                  | from                        | becomes            |
//! |-----------|--------------------------|-----------------------------|--------------------|
//! | [`Offer`] | the holder owns the task | `offer`                     | `Last`, or nothing |
//! | [`Claim`] | the holder runs the task | `claim`, `steal`, `left_by` | nothing, or `Last` |
//! | [`Last`]  | no other token exists    | a used-up offer or claim    | nothing            |
//!
//! Using up a [`Last`] frees the cell.
//!
//! An assertion checks that a token belongs to the fork table it is used with. The tokens of a
//! process end with it; the manager replaces them ([`left_by`](ForkTable::left_by)).
//!
//! # Sleep
//! A worker that offers a task adds the ticket, executes a fence, and reads the bits. A worker that
//! is about to sleep announces it: it sets its bit, executes a fence, and scans the deques. At
//! least one of the two sees the other. The offering worker clears one bit and notifies the event
//! count of that worker's process. A worker chosen this way that has something better to do chooses
//! another.
//!
//! The sleep itself is that of the process's
//! [`EventCount`](syncline_signal::event_count::EventCount), which counts messages and ends as
//! well. Its mark is not used: the bits are the marks of all workers. A worker that offers finds
//! any sleeper with four loads of one line, where marks would be 256 lines, and a number of
//! sleepers beside the marks could not be put right for a process that is killed while it is
//! counted. A bit is cleared for it ([`reset`](ForkTable::reset)).
//!
//! # Costs
//! A fork and join without a theft: four compare-and-swaps (a free cell is popped and pushed back,
//! on a line that all workers share; the task is claimed and its holder cleared, on a line that the
//! worker owns) and one fence. A theft: the lines of a deque, of the cell, and of the task. A look:
//! a line of each deque that has ever had a ticket.
//!
//! # Source
//! Michael, Vechev and Saraswat, "Idempotent work stealing" (PPoPP 2009): queues without exchanges,
//! which may return a task twice. Blumofe and Leiserson, "Scheduling multithreaded computations by
//! work stealing" (JACM 46, 1999).
//!
//! # Differences from the sources
//! The claim in the cell turns "at least once" into exactly once, and a worker's death does not
//! undo it.

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicU64, Ordering, fence};

use crate::blocks::{Block, Blocks, Supply};
use crate::channel::{Body, Cell as Place};

/// The number of workers of a fork table, including the manager.
pub(crate) const WORKERS: usize = if cfg!(loom) { 3 } else { 256 };
/// The number of tickets that a deque holds.
const TICKETS: usize = if cfg!(loom) { 4 } else { 1024 };
/// The largest number of tasks at a time.
pub(crate) const CELLS: usize = if cfg!(loom) { 3 } else { 1 << 14 };

/// An offered task: the index of its cell and the generation of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The right of a task's owner: the cell is not freed while it is held.
#[derive(Debug)]
#[must_use = "the cell is lost"]
pub(crate) struct Offer(Token);

/// The right of the worker that runs a task.
#[derive(Debug)]
#[must_use = "the task does not end"]
pub(crate) struct Claim {
    token: Token,
    worker: usize,
}

/// The only remaining right to a cell, which must be freed.
#[derive(Debug)]
#[must_use = "the cell is lost"]
pub(crate) struct Last(Token);

/// The common part of all rights: a task, and the address of its fork table, which identifies the
/// table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    ticket: Ticket,
    table: usize,
}

/// A right to read a task.
pub(crate) trait Right {
    fn token(&self) -> &Token;

    /// Returns the ticket of the task.
    fn ticket(&self) -> Ticket {
        self.token().ticket
    }
}

impl Right for Offer {
    fn token(&self) -> &Token {
        &self.0
    }
}

impl Right for Claim {
    fn token(&self) -> &Token {
        &self.token
    }
}

impl Right for Last {
    fn token(&self) -> &Token {
        &self.0
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ForkState {
    Free,
    Offered,
    Begun,
    Ended,
}

/// Bit of a state: the owner has ended, or has abandoned the task.
const ORPHAN: u64 = 1 << 8;
/// The lowest bit of a state that holds the worker that runs the task.
const WORKER: u32 = 16;
/// The lowest bit of a state or ticket that holds the generation.
const GENERATION: u32 = 32;

/// The storage of a task. All zero bytes: no task.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Cell {
    state: AtomicU64,
    /// The process that has offered it, as a raw vpid.
    owner: AtomicU64,
    /// The number of attempts during which the worker ended.
    pub(crate) tries: AtomicU64,
    /// The start time, in nanoseconds of the monotonic clock.
    pub(crate) since: AtomicU64,
    task: Place<Body>,
    result: Place<Body>,
}

// SAFETY: the task is written by the process that has taken the free cell, before a token exists,
// and read by holders of a token. The result is written by the holder of the claim, which this uses
// up, and read by the holder of the last token. The state orders these accesses.
unsafe impl Sync for Cell {}

/// The tasks that a worker offers. All zero bytes: none.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Deque {
    /// The process that owns the deque.
    vpid: AtomicU64,
    /// The number of tickets added, minus those taken back at the bottom.
    bottom: AtomicU64,
    _pad: [AtomicU64; 14],
    /// The number of tickets taken from the top.
    top: AtomicU64,
    tickets: [AtomicU64; TICKETS],
}

/// The beginning of a fork table. All zero bytes: no worker sleeps, no cell is in use.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Head {
    supply: Supply,
    asleep: [AtomicU64; WORKERS.div_ceil(64)],
    /// The last deque that a ticket was ever added to: thieves do not look beyond it.
    last: AtomicU64,
}

/// A view of a fork table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkTable<'a> {
    head: &'a Head,
    deques: &'a [Deque],
    cells: &'a [Cell],
    /// The allocation table of the cells.
    table: &'a [Block],
}

impl Default for Deque {
    fn default() -> Self {
        let word = |_| AtomicU64::new(0);
        Deque {
            vpid: word(0),
            bottom: word(0),
            _pad: std::array::from_fn(word),
            top: word(0),
            tickets: std::array::from_fn(word),
        }
    }
}

impl Default for Head {
    fn default() -> Self {
        Head {
            supply: Supply::default(),
            asleep: std::array::from_fn(|_| AtomicU64::new(0)),
            last: AtomicU64::new(0),
        }
    }
}

impl Ticket {
    /// Returns the index of its cell.
    fn cell(self) -> usize {
        self.0 as u32 as usize
    }
}

fn word(generation: u64, worker: usize, state: ForkState) -> u64 {
    generation << GENERATION | (worker as u64) << WORKER | state as u64
}

impl<'a> ForkTable<'a> {
    /// Creates a view of the fork table that consists of these parts. They must have been all zero
    /// before the first such view.
    ///
    /// # Safety
    /// All fork tables that are ever created with one of these parts must be created with the same
    /// four parts, and nothing else may change them: tokens identify their fork table by `head`
    /// alone.
    pub(crate) unsafe fn new(
        head: &'a Head,
        deques: &'a [Deque],
        cells: &'a [Cell],
        table: &'a [Block],
    ) -> Self {
        ForkTable { head, deques, cells, table }
    }

    fn free_cells(self) -> Blocks<'a> {
        Blocks { supply: &self.head.supply, table: self.table, lines: self.table.len() as u64 }
    }

    /// Returns the cell of a ticket.
    fn at(self, ticket: Ticket) -> &'a Cell {
        &self.cells[ticket.cell() % self.cells.len()]
    }

    fn token(self, ticket: Ticket) -> Token {
        Token { ticket, table: std::ptr::from_ref(self.head).addr() }
    }

    /// Returns the cell of a token. Panics if the token belongs to another fork table.
    pub(crate) fn cell(self, right: &impl Right) -> &'a Cell {
        assert_eq!(*right.token(), self.token(right.ticket()), "a token of another fork table");
        self.at(right.ticket())
    }

    /// Offers a task of this process in the deque of `worker`; `None` if there is no room. It does
    /// not wake a worker: see [`wake`](Self::wake).
    pub(crate) fn offer(self, worker: usize, owner: u64, task: Body) -> Option<Offer> {
        let deque = &self.deques[worker];
        let (top, bottom) =
            (deque.top.load(Ordering::Relaxed), deque.bottom.load(Ordering::Relaxed));
        if bottom.wrapping_sub(top) as i64 >= TICKETS as i64 {
            return None;
        }
        let (number, _) = self.free_cells().take(1, owner + 1)?;
        let cell = &self.cells[number as usize];
        // Relaxed: only the worker that has taken the cell changes it now.
        let generation = cell.state.load(Ordering::Relaxed) >> GENERATION;
        cell.owner.store(owner, Ordering::Relaxed);
        cell.tries.store(0, Ordering::Relaxed);
        // SAFETY: this thread has taken the cell from the free ones, so no token of it exists, and
        // no other thread accesses it.
        cell.task.write(|at| unsafe { at.write(task) });
        let ticket = Ticket(generation << GENERATION | u64::from(number));
        let order = if plant::is("fork table: relaxed offer") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // Release: pairs with the Acquire in `claim`: the worker that claims the task sees it.
        cell.state.store(word(generation, 0, ForkState::Offered), order);
        self.add(worker, ticket);
        Some(Offer(self.token(ticket)))
    }

    /// Adds a ticket at the bottom of the deque of `worker`.
    fn add(self, worker: usize, ticket: Ticket) {
        let deque = &self.deques[worker];
        // Relaxed: the fences of `wake` and `announce` order it, as they order the tickets.
        if self.head.last.load(Ordering::Relaxed) < worker as u64
            && !plant::is("fork table: hidden deque")
        {
            self.head.last.fetch_max(worker as u64, Ordering::Relaxed);
        }
        // A thief may have advanced `top` past a ticket that was taken back.
        let bottom = deque.bottom.load(Ordering::Relaxed).max(deque.top.load(Ordering::Relaxed));
        deque.tickets[bottom as usize % TICKETS].store(ticket.0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `steal_from`: a worker that sees the count sees the
        // ticket.
        deque.bottom.store(bottom + 1, Ordering::Release);
    }

    /// Claims a task; `None` if it is not offered any more.
    fn claim(self, ticket: Ticket, worker: usize) -> Option<Claim> {
        let claim = || Claim { token: self.token(ticket), worker };
        let generation = ticket.0 >> GENERATION;
        let (from, to) =
            (word(generation, 0, ForkState::Offered), word(generation, worker, ForkState::Begun));
        if plant::is("fork table: claimed by a look") {
            let there = self.at(ticket).state.load(Ordering::Acquire) == from;
            self.at(ticket).state.store(to, Ordering::Release);
            return there.then(claim);
        }
        // Acquire: pairs with the Release in `offer` and `again`.
        let claimed =
            self.at(ticket).state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(claim)
    }

    /// Claims a task for its owner, which takes the offer back; returns the offer if a worker has
    /// begun the task.
    pub(crate) fn take_back(self, offer: Offer, worker: usize) -> Result<Last, Offer> {
        self.cell(&offer);
        match self.claim(offer.ticket(), worker) {
            Some(claim) => Ok(Last(claim.token)),
            None => Err(offer),
        }
    }

    /// Removes the ticket of a task that was taken back, if it is the last one in the deque of
    /// `worker`, so that other workers need not look at it.
    pub(crate) fn forget(self, ticket: Ticket, worker: usize) {
        let deque = &self.deques[worker];
        let bottom = deque.bottom.load(Ordering::Relaxed);
        let last = bottom.checked_sub(1).map(|last| &deque.tickets[last as usize % TICKETS]);
        if last.is_some_and(|last| last.load(Ordering::Relaxed) == ticket.0)
            && bottom > deque.top.load(Ordering::Relaxed)
        {
            // A worker that has already read the ticket fails to claim it.
            deque.bottom.store(bottom - 1, Ordering::Release);
        }
    }

    /// Claims the oldest task of the first deque that has one, beginning with the deque of `first`.
    pub(crate) fn steal(self, worker: usize, first: usize) -> Option<Claim> {
        let last = self.head.last.load(Ordering::Relaxed) as usize;
        let deques = last.min(self.deques.len() - 1) + 1;
        (0..deques).find_map(|turn| self.steal_from(worker, (first + turn) % deques))
    }

    fn steal_from(self, worker: usize, victim: usize) -> Option<Claim> {
        let deque = &self.deques[victim];
        loop {
            // Relaxed: only a hint where to look; the exchange below checks whether it has moved.
            let top = deque.top.load(Ordering::Relaxed);
            // Acquire: pairs with the Release in `add`.
            if top >= deque.bottom.load(Ordering::Acquire) {
                return None;
            }
            let place = &deque.tickets[top as usize % TICKETS];
            let ticket = Ticket(place.load(Ordering::Relaxed));
            let claimed = self.claim(ticket, worker);
            if claimed.is_some() || place.load(Ordering::Relaxed) == ticket.0 {
                // This worker has claimed the task, or another one had: the ticket is used up.
                let _ =
                    deque.top.compare_exchange(top, top + 1, Ordering::Relaxed, Ordering::Relaxed);
            }
            if claimed.is_some() {
                return claimed;
            }
        }
    }

    /// Returns the task.
    pub(crate) fn task(self, right: &impl Right) -> Body {
        // SAFETY: `at` is valid for reads, and no thread writes the cell: it is not freed while a
        // token of its task exists.
        self.cell(right).task.read(|at| unsafe { at.read() })
    }

    /// Returns the process that has offered the task.
    pub(crate) fn owner(self, right: &impl Right) -> u64 {
        self.cell(right).owner.load(Ordering::Relaxed)
    }

    /// Ends a task with this result, which belongs to the owner; returns the last token if the
    /// owner has abandoned the task.
    pub(crate) fn end(self, claim: Claim, result: Body) -> Result<(), Last> {
        let cell = self.cell(&claim);
        // SAFETY: only the holder of the claim writes the result; others read it after the end.
        cell.result.write(|at| unsafe { at.write(result) });
        let order = if plant::is("fork table: relaxed end") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // Release: pairs with the Acquire in `state`: the owner sees the result.
        self.pass_on(claim, ForkState::Ended, order)
    }

    /// Gives up a claim and changes the state of its task; returns the last token if the task has
    /// no owner.
    fn pass_on(self, claim: Claim, state: ForkState, order: Ordering) -> Result<(), Last> {
        let generation = claim.ticket().0 >> GENERATION;
        let to = word(generation, if state == ForkState::Ended { claim.worker } else { 0 }, state);
        let from = word(generation, claim.worker, ForkState::Begun);
        // Acquire: pairs with the Release in `abandon`, so the owner's reads precede whatever
        // follows.
        let passed = self.cell(&claim).state.compare_exchange(from, to, order, Ordering::Acquire);
        // Apart from the claim, only the owner changes the state: it sets `ORPHAN` and leaves.
        passed.map(drop).map_err(|_| Last(claim.token))
    }

    /// Returns the state of a task.
    pub(crate) fn state(self, right: &impl Right) -> ForkState {
        // Acquire: pairs with the Release in `pass_on`.
        state_in(self.cell(right).state.load(Ordering::Acquire))
    }

    /// Converts the owner's offer to the last token if the task has ended; otherwise returns the
    /// offer.
    pub(crate) fn ended(self, offer: Offer) -> Result<Last, Offer> {
        if self.state(&offer) == ForkState::Ended { Ok(Last(offer.0)) } else { Err(offer) }
    }

    /// Returns the result of an ended task.
    pub(crate) fn result(self, last: &Last) -> Body {
        // SAFETY: no claim exists beside the last token, so no thread writes the result. A result
        // that was never written is zero, or that of an earlier task, which are valid values.
        self.cell(last).result.read(|at| unsafe { at.read() })
    }

    /// Frees the cell of a task.
    pub(crate) fn free(self, last: Last) {
        let ticket = last.ticket();
        let next = (ticket.0 >> GENERATION).wrapping_add(1) & u64::from(u32::MAX);
        // Relaxed: the next owner gets the cell from the stack of free cells, which orders the
        // accesses.
        self.cell(&last).state.store(word(next, 0, ForkState::Free), Ordering::Relaxed);
        let cell = ticket.cell() as u32;
        // SAFETY: the holder is the current one, and the last token of the cell is used up.
        unsafe { self.free_cells().give(cell, self.free_cells().holder(cell)) };
    }

    /// Returns the word and the bit that say that a worker sleeps.
    fn bit(self, worker: usize) -> (&'a AtomicU64, u64) {
        (&self.head.asleep[worker / 64], 1 << (worker % 64))
    }

    /// Announces that a worker is about to sleep. The worker must scan the deques once more before
    /// it does.
    pub(crate) fn announce(self, worker: usize) {
        let (word, bit) = self.bit(worker);
        // Relaxed: the fence orders it.
        word.fetch_or(bit, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `wake` (Dekker's pattern): one sees the other.
        fence(Ordering::SeqCst);
    }

    /// Cancels the announcement of a worker. Returns whether another worker has chosen this one to
    /// look for a task.
    pub(crate) fn cancel(self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        word.fetch_and(!bit, Ordering::Relaxed) & bit == 0
    }

    /// Selects a sleeping worker to be woken for an offered task; `None` if none sleeps.
    pub(crate) fn wake(self) -> Option<usize> {
        if !plant::is("fork table: no fence") {
            // SeqCst: pairs with the fence in `announce`.
            fence(Ordering::SeqCst);
        }
        for (number, word) in self.head.asleep.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // Relaxed: the event count orders what follows.
                if word.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
                    return Some(number * 64 + bit.trailing_zeros() as usize);
                }
                bits &= !bit;
            }
        }
        None
    }

    /// Returns the process of a worker.
    pub(crate) fn vpid(self, worker: usize) -> u64 {
        self.deques[worker].vpid.load(Ordering::Relaxed)
    }

    /// Assigns a worker's deque to the process `vpid`; 0: to none.
    pub(crate) fn reset(self, worker: usize, vpid: u64) {
        let deque = &self.deques[worker];
        // All its tickets were claimed, or their tasks have no owner. `top` first, so that no
        // worker looks at them in between.
        deque.top.store(deque.bottom.load(Ordering::Relaxed), Ordering::Relaxed);
        deque.vpid.store(vpid, Ordering::Relaxed);
        self.cancel(worker);
    }

    /// Offers a task again, in the manager's deque, after its worker has ended; returns the last
    /// token if the task has no owner any more.
    pub(crate) fn again(self, claim: Claim) -> Result<(), Last> {
        let ticket = claim.ticket();
        // Release: as in `offer`; the task is unchanged.
        self.pass_on(claim, ForkState::Offered, Ordering::Release)?;
        self.add(0, ticket);
        Ok(())
    }

    /// Returns the tasks that a worker was running when it ended, and those that its process owned.
    ///
    /// # Safety
    /// The process `vpid`, and no other, must have been the worker since the last
    /// [`reset`](Self::reset) of it. It must have ended, and this must be called once for it: its
    /// tokens pass to the caller.
    pub(crate) unsafe fn left_by(self, worker: usize, vpid: u64) -> Vec<Left> {
        let made = self.free_cells().made();
        let mut found = Vec::new();
        for (number, cell) in self.cells.iter().enumerate().take(made) {
            // Acquire: pairs with the Release of the worker that changed the state last.
            let state = cell.state.load(Ordering::Acquire);
            let token = self.token(Ticket(state >> GENERATION << GENERATION | number as u64));
            let own = cell.owner.load(Ordering::Relaxed) == vpid;
            let at_it = state_in(state) == ForkState::Begun && worker_in(state) == worker;
            match state_in(state) {
                ForkState::Free => (),
                _ if at_it && (own || state & ORPHAN != 0) => found.push(Left::Last(Last(token))),
                _ if at_it => found.push(Left::Begun(Claim { token, worker })),
                _ if own => found.extend(self.abandon(Offer(token), 0).map(Left::Last)),
                _ => (),
            }
        }
        found
    }

    /// Abandons a task on behalf of its owner. Returns the last token, unless a worker runs the
    /// task, which then gets the token when the task ends.
    pub(crate) fn abandon(self, mut offer: Offer, worker: usize) -> Option<Last> {
        loop {
            // Acquire: pairs with the Release in `pass_on`.
            let state = self.cell(&offer).state.load(Ordering::Acquire);
            match state_in(state) {
                ForkState::Free => return None, // impossible while there is an offer
                ForkState::Ended => return Some(Last(offer.0)),
                ForkState::Offered => match self.take_back(offer, worker) {
                    Ok(last) => return Some(last),
                    Err(begun) => offer = begun,
                },
                ForkState::Begun => {
                    let (cell, orphan) = (self.cell(&offer), state | ORPHAN);
                    // Release: pairs with the Acquire in `pass_on`.
                    if cell
                        .state
                        .compare_exchange(state, orphan, Ordering::Release, Ordering::Relaxed)
                        .is_ok()
                    {
                        return None;
                    }
                }
            }
        }
    }
}

/// A task left behind by a worker that has ended.
#[derive(Debug)]
pub(crate) enum Left {
    /// The worker was running it, and the owner waits.
    Begun(Claim),
    /// No process wants its result.
    Last(Last),
}

fn state_in(word: u64) -> ForkState {
    match word & 0xFF {
        1 => ForkState::Offered,
        2 => ForkState::Begun,
        3 => ForkState::Ended,
        _ => ForkState::Free,
    }
}

fn worker_in(word: u64) -> usize {
    (word >> WORKER & 0xFFFF) as usize
}
