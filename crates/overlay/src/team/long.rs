//! Long data of a run on a team: they go by themselves, from a place of the sender to the slot of
//! the receiver.
//!
//! # Contract
//! Data of [`LONG`] bytes and more are no part of the message that grants them: they are long
//! messages (`syncline_fabric::endpoint`), announced ahead of it. The receiver raises the mirror of
//! the task when all data of the release have landed, and the releases before it have been raised.
//!
//! ```text
//!   sender                                     receiver
//!   a task releases
//!     │ data of x   ── announcement ─────────>   names the slot of x
//!     │ release     ── rounds, short data ───>   waits for the data of x
//!     │             ══ data of x ════════════>   landed: raises the mirror
//!   sent
//! ```
//! *From the slot, or from a copy.* The data leave the sender's slot itself if the slot *stays* as
//! it is: no access of the host comes between the release and the reception after the next, which
//! is the next one in this slot, and the writer of that reception waits, by what it waits for
//! anyway, until the task has released one round more. Before the task releases that round, it
//! waits until its data have been sent. So no host fills the slot before. Where data flow back to
//! the writer, as in a ring or a pipeline that is a circle, they stay. Elsewhere the data leave a
//! copy, and the task goes on at once.
//!
//! | the task's data ...                  | leave    | the task waits                           |
//! |--------------------------------------|----------|------------------------------------------|
//! | stay in their slot                   | the slot | at its next release, until they are sent |
//! | are used by its host before that     | a copy   | no                                       |
//! | are a first or final value           | the slot | before the tasks begin; before the end   |
//!
//! *The end.* A member ends its part when all its data have been sent, also those that leave a
//! copy: its process may not receive and send afterwards. The last member of a process leaves the
//! run when nothing is on the way to its slots. If a process has died while data were on the way,
//! the memory of the run is not used again: the network may still access it.
//!
//! # Costs
//! An announcement, which travels with the release in one message of the network, and the messages
//! of the data. No copy, or one for each host, which is allocated.

#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use syncline_fabric::endpoint::{Landing, Out, Place};
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_sync::Fault;

use crate::team::exchange::{Exchange, FINAL, Head, INITIAL, Link, RELEASE};
use crate::team::layout::Part;

/// The length from which data go by themselves. A hop of a ring takes as long either way with 32
/// KiB; with 256 KiB it takes 0.4 to 0.6 of the time between processes of one machine.
const LONG: usize = 32 << 10;
/// The maximum number of buffers to keep.
const SPARE: usize = 8;

/// The numbers of long messages of a member that have not been sent: of values, of copies, and of
/// each task whose data stay in their slot.
pub(super) struct Unsent(Box<[AtomicU64]>);

/// The places of values and copies in [`Unsent`]; tasks follow.
const VALUES: usize = 0;
const COPIES: usize = 1;
const TASKS: usize = 2;

impl Unsent {
    /// For `tasks` tasks that send.
    pub(super) fn new(tasks: usize) -> Unsent {
        Unsent((0..TASKS + tasks).map(|_| AtomicU64::new(0)).collect())
    }

    /// The place of a task.
    pub(super) fn of(outgoing: usize) -> usize {
        TASKS + outgoing
    }

    fn begin(&self, of: usize) {
        // Relaxed: the thread that waits for zero has begun the message, or has been started
        // or awaited after that.
        self.0[of].fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, of: usize) {
        // Release: pairs with the Acquire in `is_sent`: the slot has been read.
        self.0[of].fetch_sub(1, Ordering::Release);
    }

    /// Whether all data of a task that stay in their slot, or of values, have been sent.
    pub(super) fn is_sent(&self, of: usize) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.0[of].load(Ordering::Acquire) == 0
    }

    /// Whether all data have been sent.
    pub(super) fn all_sent(&self) -> bool {
        (0..self.0.len()).all(|of| self.is_sent(of))
    }
}

/// The long messages of a process that have not ended.
#[derive(Default)]
pub(super) struct LongGrants {
    tokens: u64,
    moving: HashMap<u64, Moving>,
    spare: Vec<Vec<u8>>,
}

/// A long message.
enum Moving {
    /// From a slot or a copy, and its place in the numbers.
    Leaves(Arc<Unsent>, usize),
    /// To a slot of this run.
    Lands(Arc<Exchange>, Data),
}

/// What lands.
#[derive(Clone, Copy)]
enum Data {
    /// Data that a task has released in a round.
    Released { task: u32, round: u64 },
    /// A first value.
    Initial,
    /// A final value.
    Final,
}

impl LongGrants {
    fn token(&mut self, moving: Moving) -> u64 {
        self.tokens += 1;
        self.moving.insert(self.tokens, moving);
        self.tokens
    }

    fn recycle(&mut self, place: Place) {
        if let Some(mut buffer) = place.into_bytes()
            && self.spare.len() < SPARE
        {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// No run is under way: buffers are not kept.
    pub(super) fn rest(&mut self) {
        self.spare = Vec::new();
    }

    /// Whether data are on the way to the slots of a run.
    pub(super) fn lands_in(&self, run: u32) -> bool {
        self.moving.values().any(|moving| matches!(moving, Moving::Lands(of, _) if of.run == run))
    }

    /// Names the place for data that have been announced to a run; a buffer if there is no run that
    /// expects them.
    pub(super) fn place_for(
        &mut self,
        run: Option<&Arc<Exchange>>,
        head: &Head,
        len: usize,
    ) -> Landing {
        let expected = run.and_then(|run| Some((run, run.expects(head, len)?)));
        let Some((run, (data, at))) = expected else {
            return Landing { token: 0, place: Place::owned(vec![0; len]) };
        };
        if let Data::Released { task, round } = data {
            run.arriving().entry(task).or_default().announced(round);
        }
        let token = self.token(Moving::Lands(Arc::clone(run), data));
        // SAFETY: `at` is the address of `len` bytes in memory that the owner keeps. No thread
        // accesses them until `landed` has raised the mirror or the count that accesses wait for,
        // and the sender has waited until the accesses to the reception before the last one have
        // been released. The data of the slot have left it by then: see the contract.
        let place = unsafe { Place::new(run.memory.at(at, len), len, run.owner.clone()) };
        Landing { token, place }
    }

    /// Returns what is to be done when a message has landed.
    pub(super) fn landed(&mut self, token: u64) -> Option<impl FnOnce() + use<>> {
        match self.moving.remove(&token)? {
            Moving::Lands(run, data) => Some(move || run.landed(data)),
            _ => None,
        }
    }

    /// A message is given up, as a process has died: waits for it end for this reason.
    pub(super) fn give_up(&mut self, token: u64) {
        self.moving.remove(&token);
    }

    /// A long message has left its place.
    pub(super) fn sent(&mut self, token: u64, place: Place) {
        self.recycle(place);
        if let Some(Moving::Leaves(unsent, of)) = self.moving.remove(&token) {
            unsent.end(of);
        }
    }
}

/// The releases of a task of another host that have not been raised, as data of them are on the
/// way.
#[derive(Default)]
pub(super) struct Arriving {
    /// In the order of the rounds. The last one may be announced, without a state so far.
    releases: VecDeque<Release>,
}

#[derive(Default)]
struct Release {
    /// The rounds that the release itself has brought.
    round: u64,
    state: Option<u64>,
    landing: u32,
}

impl Arriving {
    fn of_round(&mut self, round: u64) -> &mut Release {
        let at = self.releases.iter().position(|release| release.round == round);
        let at = at.unwrap_or_else(|| {
            self.releases.push_back(Release { round, ..Release::default() });
            self.releases.len() - 1
        });
        &mut self.releases[at]
    }

    /// Data of this round of the task have been announced.
    fn announced(&mut self, round: u64) {
        self.of_round(round).landing += 1;
    }

    /// Data of this round of the task have landed.
    fn landed(&mut self, round: u64) {
        let release = self.of_round(round);
        release.landing = release.landing.saturating_sub(1);
    }

    /// The release of this round has come, and its short data are in place.
    fn released(&mut self, round: u64, state: u64) {
        self.of_round(round).state = Some(state);
    }

    /// Returns the state of the next release to raise.
    fn next(&mut self) -> Option<u64> {
        let state = self.releases.front().filter(|release| release.landing == 0)?.state?;
        self.releases.pop_front();
        Some(state)
    }
}

/// Whether data of this length go by themselves.
fn is_long(len: usize) -> bool {
    len >= LONG
}

impl Part {
    /// Whether the data may go by themselves, in some round.
    fn may_be_long(&self) -> bool {
        is_long(self.len)
    }

    /// Whether the message of a release has the number of bytes that are used of the data.
    fn has_length(&self) -> bool {
        self.encoded && self.may_be_long()
    }

    /// Splits what the message of a release has of this part from the rest. The data are empty if
    /// they go by themselves.
    pub(super) fn split<'d>(&self, message: &'d [u8]) -> Option<(&'d [u8], &'d [u8])> {
        let (used, rest) = if self.has_length() {
            let (len, rest) = message.split_first_chunk()?;
            (usize::try_from(u64::from_le_bytes(*len)).ok()?, rest)
        } else {
            (self.used(message), message)
        };
        rest.split_at_checked(if is_long(used) { 0 } else { used })
    }
}

impl Exchange {
    /// Sends those data of a release to a process that go by themselves.
    ///
    /// # Safety
    /// The task of `head` holds the locations of the parts, has written them in this round, and
    /// raises its word after the call.
    pub(super) unsafe fn send_long_parts(
        &self,
        out: &mut Out<'_>,
        (to, parts): (usize, &[Part]),
        head: &Head,
        (of, round): (usize, u64),
    ) {
        for (number, part) in (0_u64..).zip(parts).filter(|(_, part)| part.may_be_long()) {
            let at = part.at[(round & 1) as usize];
            // SAFETY: no thread writes the data now: the caller guarantees it.
            let used = unsafe { part.used(self.memory.encoded(at, part.len)) };
            if is_long(used) {
                let head = Head { what: head.what | number << 32, ..*head };
                let of = part.stays.then_some(Unsent::of(of));
                // SAFETY: as above. The data of a part that stays are not written until they have
                // been sent: see the contract of the module.
                unsafe { self.send_long(out, to, &head, (at, used), of) };
            }
        }
    }

    /// Appends what the message of a release has of a part.
    ///
    /// # Safety
    /// As for [`send_long_parts`](Self::send_long_parts).
    pub(super) unsafe fn append(&self, part: &Part, round: u64, message: &mut Vec<u8>) {
        let at = part.at[(round & 1) as usize];
        // SAFETY: no thread writes the data now: the caller guarantees it.
        unsafe {
            let used = part.used(self.memory.encoded(at, part.len));
            if part.has_length() {
                message.extend_from_slice(&(used as u64).to_le_bytes());
            }
            if !is_long(used) {
                self.memory.append(at, used, message);
            }
        }
    }

    /// Sends data of this host by themselves: from their slot if they have a place in `unsent`, or
    /// else from a copy.
    ///
    /// # Safety
    /// No thread writes the data now. If they have a place, none does until they have been sent.
    unsafe fn send_long(
        &self,
        out: &mut Out<'_>,
        to: usize,
        head: &Head,
        (at, len): (usize, usize),
        counted: Option<usize>,
    ) {
        let Some(Link { grants, .. }) = &self.link else { return };
        let mut message = out.message();
        head.put(&mut message);
        let mut long = grants.long();
        let place = if counted.is_some() {
            // SAFETY: `at` is the address of `len` bytes in memory that the owner keeps. No thread
            // writes them until the message is sent: the caller guarantees it.
            unsafe { Place::new(self.memory.at(at, len), len, self.owner.clone()) }
        } else {
            let mut copy = long.spare.pop().unwrap_or_default();
            // SAFETY: no thread writes the data now: the caller guarantees it.
            unsafe { self.memory.append(at, len, &mut copy) };
            Place::owned(copy)
        };
        let of = counted.unwrap_or(COPIES);
        self.unsent.begin(of);
        let token = long.token(Moving::Leaves(Arc::clone(&self.unsent), of));
        drop(long);
        out.send_long(to, message, token, place);
    }

    /// Sends a first or final value by itself if it is long. Returns whether it is.
    ///
    /// # Safety
    /// No thread writes the data until they have been sent.
    pub(super) unsafe fn send_long_value(
        &self,
        out: &mut Out<'_>,
        to: usize,
        head: &Head,
        data: (usize, usize),
    ) -> bool {
        if is_long(data.1) {
            // SAFETY: the caller guarantees it.
            unsafe { self.send_long(out, to, head, data, Some(VALUES)) };
        }
        is_long(data.1)
    }

    /// Waits until all long data of this member have been sent.
    pub(super) fn wait_sent(&self) -> Result<(), Fault> {
        match &self.link {
            Some(link) => link.endpoint.wait(None, || self.unsent.all_sent()),
            None => Ok(()),
        }
    }

    /// Returns which data a message announces, and the offset of their slot, if they are expected.
    fn expects(&self, head: &Head, len: usize) -> Option<(Data, usize)> {
        let what = head.what as u32;
        match head.kind {
            RELEASE => {
                let part = self.layout.arrivals.get(&what)?.get((head.what >> 32) as usize)?;
                let fits = if part.encoded { len <= part.len } else { len == part.len };
                let round = head.round();
                let data = Data::Released { task: what, round };
                fits.then(|| (data, part.at[(round & 1) as usize]))
            }
            INITIAL | FINAL => {
                let stored = self.layout.stored.get(&what).filter(|stored| stored.len == len)?;
                let data = if head.kind == INITIAL { Data::Initial } else { Data::Final };
                Some((data, stored.offset))
            }
            _ => None,
        }
    }

    fn arriving(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Arriving>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The release of a round has come, and its short data are in place: raises the mirror of the
    /// task, as soon as the long ones are.
    pub(super) fn has_released(&self, task: u32, parts: &[Part], head: &Head) {
        if parts.iter().any(Part::may_be_long) {
            self.arriving().entry(task).or_default().released(head.round(), head.state);
            self.raise_arrived(task);
        } else {
            self.raise(task, head.state);
        }
    }

    fn landed(&self, data: Data) {
        match data {
            Data::Released { task, round } => {
                self.arriving().entry(task).or_default().landed(round);
                self.raise_arrived(task);
            }
            Data::Initial => self.memory.count_initial(),
            Data::Final => self.memory.count_final(),
        }
    }

    fn raise_arrived(&self, task: u32) {
        let mut arriving = self.arriving();
        let states = std::iter::from_fn(|| arriving.get_mut(&task)?.next());
        states.for_each(|state| self.raise(task, state));
    }
}
