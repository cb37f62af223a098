//! What the manager of a pool that steals does: it offers what was submitted, and settles what the
//! dead have left.

use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::FarmError;
use crate::farm::Farm;
use crate::pool::TaskError;
use crate::pool::board::{Bereft, HANDS, State, Ticket};
use crate::pool::manager::{Hand, Manager};
use crate::pool::ready::Id;
use crate::pool::steal::Seat;
use crate::record::Life;
use crate::vpid::Vpid;
use crate::wire::WireError;

/// How many tasks are offered for each worker: enough that no worker waits for the manager, few
/// enough that what is urgent and comes later is not behind all others.
const OFFERED: usize = 32;
/// How many are offered at most: a deck holds as many.
const MOST: usize = 1000;

/// The manager's place at the board.
pub(crate) struct Dealer {
    pub(crate) seat: Seat,
    /// What was offered and has not ended.
    offered: Vec<(Ticket, Id)>,
}

impl Dealer {
    /// Makes the board.
    pub(crate) fn new(farm: &Farm) -> Result<Dealer, FarmError> {
        let arena = farm.arena();
        let memory = arena.memory();
        let block = arena.make_board().ok_or(FarmError::Room { asked: 16 << 20, memory })?;
        Ok(Dealer { seat: Seat::new(arena, block, 0, Vpid::MANAGER), offered: Vec::new() })
    }

    /// Whether something that was offered has ended.
    pub(crate) fn any_ended(&self) -> bool {
        self.offered.iter().any(|&(ticket, _)| self.seat.board().state(ticket).0 == State::Ended)
    }
}

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Offers what is ready, the best first, and has as many workers as there is work for.
    pub(crate) fn deal(&mut self) {
        let most = (OFFERED * self.crew.workers).min(MOST);
        while let Some(dealer) = self.dealer.as_ref().filter(|dealer| dealer.offered.len() < most) {
            let Some(id) = self.ready.pop() else { break };
            let Some(job) = self.job(id) else { continue };
            match dealer.seat.offer(&job.task) {
                Ok(Some(ticket)) => self.dealer.iter_mut().for_each(|d| d.offered.push((ticket, id))),
                // The board is full, or the memory: later, when something has ended.
                Ok(None) => {
                    self.again(id);
                    break;
                }
                Err(WireError::Long { .. }) if !dealer.offered.is_empty() => {
                    self.again(id);
                    break;
                }
                Err(why) => self.end(id, Err(TaskError::Unsendable { why: format!("it {why}") })),
            }
        }
        // What was offered may fork enough for all.
        let work = self.dealer.as_ref().is_some_and(|dealer| !dealer.offered.is_empty());
        while work && self.hands.len() < self.crew.workers {
            match self.start() {
                Ok(()) => (),
                Err(error) if self.hands.is_empty() => {
                    return self.fail_all(&error.to_string());
                }
                Err(_) => return, // those who are there go on
            }
        }
    }

    /// Gives a new worker its place at the board.
    pub(crate) fn seat(&mut self, vpid: Vpid) -> Option<(u32, usize)> {
        let taken = |hand: usize| self.hands.iter().any(|other| other.number == hand);
        let hand = (1..HANDS).find(|&hand| !taken(hand))?;
        let seat = &self.dealer.as_ref()?.seat;
        seat.board().reset(hand, vpid.to_raw());
        Some((seat.block, hand))
    }

    /// Takes the results of what has ended.
    pub(crate) fn collect(&mut self) {
        let Some(dealer) = &mut self.dealer else { return };
        let mut ended = Vec::new();
        let Dealer { seat, offered } = dealer;
        offered.retain(|&(ticket, id)| {
            let there = seat.board().state(ticket).0 == State::Ended;
            if there {
                ended.push((id, seat.result(ticket)));
            }
            !there
        });
        for (id, result) in ended {
            self.stillborn = 0;
            self.end(id, result);
        }
    }

    /// No worker can do what was offered and not begun.
    pub(crate) fn withdraw(&mut self, why: &str) {
        let Some(dealer) = &mut self.dealer else { return };
        let seat = dealer.seat.clone();
        let withdrawn = |&mut (ticket, _): &mut (Ticket, Id)| seat.board().claim(ticket, 0);
        for (ticket, id) in dealer.offered.extract_if(.., withdrawn).collect::<Vec<_>>() {
            seat.free(ticket);
            self.end(id, Err(TaskError::NoWorker { why: why.to_owned() }));
        }
    }

    /// Settles what a worker has left that has ended.
    pub(crate) fn settle(&mut self, hand: &Hand, how: &str) {
        let Some(dealer) = &self.dealer else { return };
        let (seat, retries) = (dealer.seat.clone(), u64::from(self.crew.retries));
        let board = seat.board();
        let bereft = board.bereft(hand.number, hand.vpid.to_raw());
        board.reset(hand.number, 0);
        // It was at the last that it had begun; those around that wait for others.
        let begun = bereft.iter().filter(|(_, what)| *what == Bereft::Begun);
        let last = begun.map(|&(ticket, _)| board.at(ticket).since.load(Ordering::Relaxed)).max();
        for (ticket, what) in bereft {
            if what == Bereft::Nobodys {
                // What belonged to the dead was given back by the steward; what to others is there
                // still.
                seat.free(ticket);
                continue;
            }
            let cell = board.at(ticket);
            let tries = cell.tries.fetch_add(1, Ordering::Relaxed) + 1;
            let owner = Vpid::from_raw(board.owner(ticket));
            if tries <= retries && seat.arena.life(owner) != Life::Ended {
                self.progress.retried += 1;
                if board.again(ticket, hand.number) {
                    seat.wake();
                } else {
                    seat.free(ticket);
                }
                continue;
            }
            let tries = u32::try_from(tries).unwrap_or(u32::MAX);
            let at_it = last == Some(cell.since.load(Ordering::Relaxed));
            let error = match &hand.killed {
                Some(TaskError::TimedOut { after, .. }) if at_it => {
                    TaskError::TimedOut { after: *after, tries }
                }
                Some(other @ TaskError::Garbled { .. }) => other.clone(),
                _ => TaskError::Worker { vpid: hand.vpid, how: how.to_owned(), tries },
            };
            seat.end(ticket, hand.number, &Err::<(), _>(error));
        }
        self.collect();
    }
}
