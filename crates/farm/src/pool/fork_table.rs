//! The tasks of a pool whose workers steal: cells, the decks in which they are offered, and which
//! workers sleep.
//!
//! # Contract
//! A task is offered by its owner (the worker that forked it, or the manager), claimed once, by any
//! hand, and told of when it has ended. No worker sleeps while a task is offered.
//!
//! ```text
//! cells   state, owner, task, result                         a task each
//! deques   worker 0 (manager)  | t1 t2 t3 |<- bottom            tickets: a cell and its generation
//!         worker 1        top ->| t4 t5 |                       the owner adds at the bottom, others look at the top
//! asleep  a bit for each worker
//! ```
//! | state     | means                     | moved on by                                                            |
//! |-----------|---------------------------|------------------------------------------------------------------------|
//! | `Offered` | the task is in its cell   | the hand that claims it: one exchange of the state, which decides        |
//! | `Begun`   | a hand is at it           | that hand, when its result is in the cell                               |
//! | `Ended`   | the result is in its cell | the owner, which takes it and frees the cell                            |
//! | `Free`    | nothing                   | an owner                                                                |
//!
//! The state decides, and a deck only says where to look: a ticket that is found twice is claimed
//! once, and one that is lost (its owner has taken it back while another looked) is run by its
//! owner when it is joined. So owners and thieves need no exchange on the decks, and no death
//! leaves one in a state that others must understand. An owner that has ended makes its cells
//! *orphans*: the worker that is at one frees it.
//!
//! # Tokens
//! A [`Ticket`] only names a task. What may be done to its cell follows from tokens, which are not
//! copied: a process that has none cannot touch what stands in the cell.
//!
//! | token     | means                                      | from                            | becomes                         |
//! |-----------|--------------------------------------------|---------------------------------|---------------------------------|
//! | [`Offer`] | the holder is the owner                    | `offer`                         | a `Last`, or nothing            |
//! | [`Claim`] | the holder is at the task                  | `claim`, `steal`, `left_by`     | nothing, or a `Last`            |
//! | [`Last`]  | no other process has a token of this task  | all that ends an offer or claim | nothing: the cell is free       |
//!
//! An assertion holds a token to the board that it is from. Those of a process end with it; the
//! manager takes their place ([`left_by`](ForkTable::left_by)).
//!
//! # Sleep
//! A hand that offers: the ticket, a fence, a look at the bits. One that is to sleep: its bit, a
//! fence, a look at the decks. One of the two sees the other. The hand that offers takes one bit
//! away and rings that hand's bell; a hand that was chosen so, and finds that it has something
//! better to do, chooses another.
//!
//! # Costs
//! To fork and join without a theft: two exchanges on a line of one's own, two fences' worth. To
//! steal: the lines of a deck, of the cell, of the task.
//!
//! # Source
//! Michael, Vechev and Saraswat, "Idempotent work stealing" (PPoPP 2009): queues without exchanges,
//! which may give a task twice. Blumofe and Leiserson, "Scheduling multithreaded computations by
//! work stealing" (JACM 46, 1999).
//!
//! # Changed
//! The claim in the cell makes of "at least once" exactly once, which a worker's death does not
//! undo.

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicU64, Ordering, fence};

use crate::blocks::{Block, Blocks, Supply};
use crate::channel::{Body, Cell as Place};

/// How many hands a board has, the manager among them.
pub(crate) const WORKERS: usize = if cfg!(loom) { 3 } else { 256 };
/// How many tickets a deck holds.
const TICKETS: usize = if cfg!(loom) { 4 } else { 1024 };
/// How many tasks there can be at a time.
pub(crate) const CELLS: usize = if cfg!(loom) { 3 } else { 1 << 14 };

/// A task that was offered: its cell, and which of the tasks that were there, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The right of a task's owner: the cell is not freed while it is held.
#[derive(Debug)]
#[must_use = "the cell is lost"]
pub(crate) struct Offer(Token);

/// The right of the hand that is at a task.
#[derive(Debug)]
#[must_use = "the task does not end"]
pub(crate) struct Claim {
    token: Token,
    worker: usize,
}

/// The only right to a cell, which is to be freed.
#[derive(Debug)]
#[must_use = "the cell is lost"]
pub(crate) struct Last(Token);

/// What all rights are: a task of a board, which is told by where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    ticket: Ticket,
    table: usize,
}

/// A right to read what a task is.
pub(crate) trait Right {
    fn token(&self) -> &Token;

    /// Which task it is a right to.
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

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ForkState {
    Free,
    Offered,
    Begun,
    Ended,
}

/// Of a state: the owner has ended.
const ORPHAN: u64 = 1 << 8;
/// Of a state: the hand that is at it stands from here.
const HAND: u32 = 16;
/// Of a state and of a ticket: the generation stands from here.
const GENERATION: u32 = 32;

/// A task. All zero: none.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Cell {
    state: AtomicU64,
    /// The number of the process that has offered it.
    owner: AtomicU64,
    /// In how many tries its worker has ended.
    pub(crate) tries: AtomicU64,
    /// When it was begun, in nanoseconds of the monotonic clock.
    pub(crate) since: AtomicU64,
    task: Place<Body>,
    result: Place<Body>,
}

// SAFETY: the task is written by the process that has taken the free cell, before there is a token,
// and read by holders of one; the result is written by the holder of the claim, which ends by that,
// and read by the holder of the last token. The state orders one after the other.
unsafe impl Sync for Cell {}

/// What a hand offers. All zero: nothing.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Deque {
    /// The process whose deck it is.
    vpid: AtomicU64,
    /// Tickets that were added, and taken from the bottom.
    bottom: AtomicU64,
    _pad: [AtomicU64; 14],
    /// Tickets that were taken from the top.
    top: AtomicU64,
    tickets: [AtomicU64; TICKETS],
}

/// What a board begins with. All zero: no hand sleeps, no cell is in use.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Head {
    supply: Supply,
    asleep: [AtomicU64; WORKERS.div_ceil(64)],
}

/// A board, for a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkTable<'a> {
    head: &'a Head,
    deques: &'a [Deque],
    cells: &'a [Cell],
    /// Of which cells are free.
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
        Head { supply: Supply::default(), asleep: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Ticket {
    /// The place of its cell.
    fn cell(self) -> usize {
        self.0 as u32 as usize
    }
}

fn word(generation: u64, worker: usize, state: ForkState) -> u64 {
    generation << GENERATION | (worker as u64) << HAND | state as u64
}

impl<'a> ForkTable<'a> {
    /// The board of these parts, which were all zero before the first of their boards was made.
    ///
    /// # Safety
    /// All boards that are ever made with one of these parts are made of the same four, and nothing
    /// else changes them: tokens are told apart by their head alone.
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

    /// The cell of a ticket.
    fn at(self, ticket: Ticket) -> &'a Cell {
        &self.cells[ticket.cell() % self.cells.len()]
    }

    fn token(self, ticket: Ticket) -> Token {
        Token { ticket, table: std::ptr::from_ref(self.head).addr() }
    }

    /// The cell of a token, which is of this board.
    pub(crate) fn cell(self, right: &impl Right) -> &'a Cell {
        assert_eq!(*right.token(), self.token(right.ticket()), "a token of another board");
        self.at(right.ticket())
    }

    /// Offers a task, of this process, in the deck of this hand; `None` if there is no room. The
    /// hand that is to be woken is not, yet: see [`wake`](Self::wake).
    pub(crate) fn offer(self, worker: usize, owner: u64, task: Body) -> Option<Offer> {
        let deque = &self.deques[worker];
        let (top, bottom) =
            (deque.top.load(Ordering::Relaxed), deque.bottom.load(Ordering::Relaxed));
        if bottom.wrapping_sub(top) as i64 >= TICKETS as i64 {
            return None;
        }
        let (number, _) = self.free_cells().take(1, owner + 1)?;
        let cell = &self.cells[number as usize];
        // Relaxed: only the hand that has taken the cell changes it now.
        let generation = cell.state.load(Ordering::Relaxed) >> GENERATION;
        cell.owner.store(owner, Ordering::Relaxed);
        cell.tries.store(0, Ordering::Relaxed);
        // SAFETY: this thread has taken the cell from the free ones, so there is no token of it.
        cell.task.write(|at| unsafe { at.write(task) });
        let ticket = Ticket(generation << GENERATION | u64::from(number));
        let order =
            if plant::is("board: relaxed offer") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `claim`: the hand that claims it sees the task.
        cell.state.store(word(generation, 0, ForkState::Offered), order);
        self.add(worker, ticket);
        Some(Offer(self.token(ticket)))
    }

    /// Puts a ticket into the deck of this hand.
    fn add(self, worker: usize, ticket: Ticket) {
        let deque = &self.deques[worker];
        // A thief may have passed a ticket that was taken back.
        let bottom = deque.bottom.load(Ordering::Relaxed).max(deque.top.load(Ordering::Relaxed));
        deque.tickets[bottom as usize % TICKETS].store(ticket.0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `steal`: a hand that sees the number sees the ticket.
        deque.bottom.store(bottom + 1, Ordering::Release);
    }

    /// Claims a task, if it is there still.
    fn claim(self, ticket: Ticket, worker: usize) -> Option<Claim> {
        let claim = || Claim { token: self.token(ticket), worker };
        let generation = ticket.0 >> GENERATION;
        let (from, to) =
            (word(generation, 0, ForkState::Offered), word(generation, worker, ForkState::Begun));
        if plant::is("board: claimed by a look") {
            let there = self.at(ticket).state.load(Ordering::Acquire) == from;
            self.at(ticket).state.store(to, Ordering::Release);
            return there.then(claim);
        }
        // Acquire: pairs with the Release in `offer` and `again`.
        let claimed =
            self.at(ticket).state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(claim)
    }

    /// The owner claims what it has offered, and does not want it done by others; the offer, if a
    /// hand has begun it.
    pub(crate) fn take_back(self, offer: Offer, worker: usize) -> Result<Last, Offer> {
        self.cell(&offer);
        match self.claim(offer.ticket(), worker) {
            Some(claim) => Ok(Last(claim.token)),
            None => Err(offer),
        }
    }

    /// Of what this hand has offered last and taken back, the ticket need not be looked at by
    /// others.
    pub(crate) fn forget(self, ticket: Ticket, worker: usize) {
        let deque = &self.deques[worker];
        let bottom = deque.bottom.load(Ordering::Relaxed);
        let last = bottom.checked_sub(1).map(|last| &deque.tickets[last as usize % TICKETS]);
        if last.is_some_and(|last| last.load(Ordering::Relaxed) == ticket.0)
            && bottom > deque.top.load(Ordering::Relaxed)
        {
            // A hand that has read it claims in vain.
            deque.bottom.store(bottom - 1, Ordering::Release);
        }
    }

    /// Claims the oldest task of the first deck that has one, beginning with the deck of `first`.
    pub(crate) fn steal(self, worker: usize, first: usize) -> Option<Claim> {
        let workers = self.deques.len();
        (0..workers).find_map(|turn| self.steal_from(worker, (first + turn) % workers))
    }

    fn steal_from(self, worker: usize, victim: usize) -> Option<Claim> {
        let deque = &self.deques[victim];
        loop {
            // Relaxed: it only says where to look; the exchange below says whether it has moved.
            let top = deque.top.load(Ordering::Relaxed);
            // Acquire: pairs with the Release in `add`.
            if top >= deque.bottom.load(Ordering::Acquire) {
                return None;
            }
            let place = &deque.tickets[top as usize % TICKETS];
            let ticket = Ticket(place.load(Ordering::Relaxed));
            let claimed = self.claim(ticket, worker);
            if claimed.is_some() || place.load(Ordering::Relaxed) == ticket.0 {
                // Another worker has claimed the task.
                let _ =
                    deque.top.compare_exchange(top, top + 1, Ordering::Relaxed, Ordering::Relaxed);
            }
            if claimed.is_some() {
                return claimed;
            }
        }
    }

    /// What a task is.
    pub(crate) fn task(self, right: &impl Right) -> Body {
        // SAFETY: the cell is not free while there is a token of its task, so nothing is written
        // there.
        self.cell(right).task.read(|at| unsafe { at.read() })
    }

    /// The process that has offered it.
    pub(crate) fn owner(self, right: &impl Right) -> u64 {
        self.cell(right).owner.load(Ordering::Relaxed)
    }

    /// The task has ended, with this result, which is its owner's; the last token, if it has no
    /// owner any more.
    pub(crate) fn end(self, claim: Claim, result: Body) -> Result<(), Last> {
        let cell = self.cell(&claim);
        // SAFETY: the holder of the claim alone writes there; others read when it has ended.
        cell.result.write(|at| unsafe { at.write(result) });
        let order =
            if plant::is("board: relaxed end") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `state`: the owner sees the result.
        self.pass_on(claim, ForkState::Ended, order)
    }

    /// The hand that was at a task leaves it in another state; the last token, if it has no owner.
    fn pass_on(self, claim: Claim, state: ForkState, order: Ordering) -> Result<(), Last> {
        let generation = claim.ticket().0 >> GENERATION;
        let to = word(generation, if state == ForkState::Ended { claim.worker } else { 0 }, state);
        let from = word(generation, claim.worker, ForkState::Begun);
        // Acquire: pairs with the Release in `abandon`, so that what the owner has read precedes what comes after.
        let passed = self.cell(&claim).state.compare_exchange(from, to, order, Ordering::Acquire);
        // Only the mark of an orphan, which its owner has left, changes the state beside the claim.
        passed.map(drop).map_err(|_| Last(claim.token))
    }

    /// How far a task has come.
    pub(crate) fn state(self, right: &impl Right) -> ForkState {
        // Acquire: pairs with the Release in `end`.
        state_in(self.cell(right).state.load(Ordering::Acquire))
    }

    /// The owner of a task that has ended has its last token; the offer, if it has not ended.
    pub(crate) fn ended(self, offer: Offer) -> Result<Last, Offer> {
        if self.state(&offer) == ForkState::Ended { Ok(Last(offer.0)) } else { Err(offer) }
    }

    /// The result of a task that has ended.
    pub(crate) fn result(self, last: &Last) -> Body {
        // SAFETY: there is no claim beside the last token, so nothing is written there; what was
        // never written is zero, or the result of another task.
        self.cell(last).result.read(|at| unsafe { at.read() })
    }

    /// Nothing more is to be known of a task.
    pub(crate) fn free(self, last: Last) {
        let ticket = last.ticket();
        let next = (ticket.0 >> GENERATION).wrapping_add(1) & u64::from(u32::MAX);
        // Relaxed: the next owner has it from the stack of free cells.
        self.cell(&last).state.store(word(next, 0, ForkState::Free), Ordering::Relaxed);
        let cell = ticket.cell() as u32;
        // SAFETY: the holder is read, and the last token of the cell is used up.
        unsafe { self.free_cells().give(cell, self.free_cells().holder(cell)) };
    }

    /// A bit that says that a hand sleeps.
    fn bit(self, worker: usize) -> (&'a AtomicU64, u64) {
        (&self.head.asleep[worker / 64], 1 << (worker % 64))
    }

    /// The hand says that it will sleep. It looks once more before it does.
    pub(crate) fn nod(self, worker: usize) {
        let (word, bit) = self.bit(worker);
        // Relaxed: the fence orders it.
        word.fetch_or(bit, Ordering::Relaxed);
        // SeqCst: with the one in `wake`, Dekker's pattern: one sees the other.
        fence(Ordering::SeqCst);
    }

    /// The hand does not sleep any more; whether another hand has chosen it to look for a task.
    pub(crate) fn rise(self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        word.fetch_and(!bit, Ordering::Relaxed) & bit == 0
    }

    /// Something was offered: the hand that is to be woken for it, if any sleeps.
    pub(crate) fn wake(self) -> Option<usize> {
        if !plant::is("board: no fence") {
            // SeqCst: see `nod`.
            fence(Ordering::SeqCst);
        }
        for (number, word) in self.head.asleep.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // Relaxed: the bell orders what follows.
                if word.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
                    return Some(number * 64 + bit.trailing_zeros() as usize);
                }
                bits &= !bit;
            }
        }
        None
    }

    /// The process of a hand.
    pub(crate) fn vpid(self, worker: usize) -> u64 {
        self.deques[worker].vpid.load(Ordering::Relaxed)
    }

    /// A hand's deck is another's from now on, or has no owner.
    pub(crate) fn reset(self, worker: usize, vpid: u64) {
        let deque = &self.deques[worker];
        // All that stands there was claimed, or has no owner: top first, so that no hand looks in
        // between.
        deque.top.store(deque.bottom.load(Ordering::Relaxed), Ordering::Relaxed);
        deque.vpid.store(vpid, Ordering::Relaxed);
        self.rise(worker);
    }

    /// A task whose hand has ended is offered again, by the manager; the last token, if it has no
    /// owner any more.
    pub(crate) fn again(self, claim: Claim) -> Result<(), Last> {
        let ticket = claim.ticket();
        // Release: as in `offer`; the task is as it was.
        self.pass_on(claim, ForkState::Offered, Ordering::Release)?;
        self.add(0, ticket);
        Ok(())
    }

    /// The tasks that a hand was at when it ended, and those of its process.
    ///
    /// # Safety
    /// The process `vpid`, and no other, was the hand from its last [`reset`](Self::reset) on. It
    /// has ended, and this is called once for it: its tokens are the caller's.
    pub(crate) unsafe fn left_by(self, worker: usize, vpid: u64) -> Vec<Left> {
        let made = self.free_cells().made();
        let mut found = Vec::new();
        for (number, cell) in self.cells.iter().enumerate().take(made) {
            // Acquire: pairs with the Release of the hand that moved it last.
            let state = cell.state.load(Ordering::Acquire);
            let token = self.token(Ticket(state >> GENERATION << GENERATION | number as u64));
            let own = cell.owner.load(Ordering::Relaxed) == vpid;
            let at_it = state_in(state) == ForkState::Begun && hand_in(state) == worker;
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

    /// The owner does not want to know of a task any more. The last token, unless a hand is at it,
    /// which then has it when the task ends.
    pub(crate) fn abandon(self, mut offer: Offer, worker: usize) -> Option<Last> {
        loop {
            let state = self.cell(&offer).state.load(Ordering::Acquire); // pairs with the Release in `end`
            match state_in(state) {
                ForkState::Free => return None, // not while there is an offer
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

/// A task that a worker has left when it ended.
#[derive(Debug)]
pub(crate) enum Left {
    /// It was at this one, and the owner waits.
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

fn hand_in(word: u64) -> usize {
    (word >> HAND & 0xFFFF) as usize
}
