//! The transport between a pool's manager and its workers: processes of a farm, or members of a
//! team.
//!
//! | variant | workers                            | channel              | a hanging worker |
//! |---------|------------------------------------|----------------------|------------------|
//! | `Farm`  | processes that the manager starts  | in the farm's memory | is killed        |
//! | `Farm`  | members of a team on one host      | in the team's memory | gets no tasks    |
//! | `Mail`  | members of a team on several hosts | the team's transport | gets no tasks    |

use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_fabric::Member;
use syncline_sync::Fault;
use syncline_trace::{Activity, span};

use crate::error::FarmError;
use crate::farm::Farm;
use crate::mail::Mail;
use crate::record::{ExitCause, ProgressRecord};
use crate::vpid::Vpid;
use crate::wire::{self, WireError};

#[derive(Debug)]
pub(crate) enum PoolTransport {
    Farm(Box<Farm>),
    Mail(Mail),
}

/// An event that the manager receives.
pub(crate) enum Event<V> {
    /// A message.
    From(Vpid, V),
    /// An invalid message.
    Garbled(Vpid, WireError),
    /// A worker has ended.
    Gone(Vpid, ExitCause),
    /// No process is left, or no messages can be received any more.
    Disconnected(String),
    /// The deadline has passed, or the other awaited condition holds.
    Nothing,
}

impl PoolTransport {
    /// Creates the transport between the members of a team.
    pub(crate) fn within(member: &mut Member, memory: usize) -> Result<PoolTransport, FarmError> {
        match Mail::new(member) {
            Some(mail) => Ok(PoolTransport::Mail(mail)),
            None => Ok(PoolTransport::Farm(Box::new(Farm::within(member, memory)?))),
        }
    }

    /// Returns the farm, if there is one.
    pub(crate) fn farm(&mut self) -> Option<&mut Farm> {
        match self {
            PoolTransport::Farm(farm) => Some(farm),
            PoolTransport::Mail(_) => None,
        }
    }

    /// Checks that this process takes part itself, and is not a child made by `fork`.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), FarmError> {
        match self {
            PoolTransport::Farm(farm) => farm.check_not_forked(),
            PoolTransport::Mail(mail) => mail.check_not_forked(),
        }
    }

    pub(crate) fn vpid(&self) -> Vpid {
        match self {
            PoolTransport::Farm(farm) => farm.vpid(),
            PoolTransport::Mail(mail) => mail.vpid(),
        }
    }

    /// Sends a value that serde serializes.
    pub(crate) fn send(&mut self, to: Vpid, value: &impl Serialize) -> Result<(), FarmError> {
        self.send_and_leave(to, value, false)
    }

    /// Sends a value that serde serializes. If `leaves_room`, a large one fails with
    /// [`FarmError::Room`] unless the farm's memory has room for an answer of its size, too.
    pub(crate) fn send_and_leave(
        &mut self,
        to: Vpid,
        value: &impl Serialize,
        leaves_room: bool,
    ) -> Result<(), FarmError> {
        self.check_not_forked()?;
        let mail = match self {
            PoolTransport::Farm(farm) => return farm.send_serialized(to, value, leaves_room),
            PoolTransport::Mail(mail) => mail,
        };
        // Serialized first, so that a value that refuses leaves no partial message.
        let bytes = wire::encode(value).map_err(|why| FarmError::Unsendable { to, why })?;
        mail.send(to, |mut message| {
            message.extend_from_slice(&bytes);
            message
        });
        Ok(())
    }

    /// Waits, at the manager, for the next event.
    pub(crate) fn recv_event<V: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
        other: impl FnMut() -> bool,
    ) -> Event<V> {
        let farm = match self {
            PoolTransport::Farm(farm) => farm,
            PoolTransport::Mail(mail) => {
                let _waits = span(Activity::AwaitResult, u32::MAX, 0);
                return match mail.recv(deadline) {
                    Ok(None) => Event::Nothing,
                    Ok(Some((from, bytes))) => event(from, wire::decode(&bytes)),
                    // Whichever member it is: the endpoint fails all waits from now on.
                    Err(fault) => Event::Disconnected(fault.to_string()),
                };
            }
        };
        farm.awaits(Activity::AwaitResult);
        match farm.recv_any_or(deadline, other) {
            Ok(None) => Event::Nothing,
            Ok(Some((from, message))) => event(from, wire::read(message)),
            Err(FarmError::Gone { vpid, cause }) => Event::Gone(vpid, cause),
            Err(FarmError::Garbled { from, why }) => Event::Garbled(from, why),
            Err(error) => Event::Disconnected(error.to_string()),
        }
    }

    /// Waits, at a worker, for the next order of the manager. `awaits` is what the worker waits for
    /// in traces.
    pub(crate) fn recv<V: DeserializeOwned>(&mut self, awaits: Activity) -> Result<V, FarmError> {
        self.check_not_forked()?;
        let from = Vpid::MANAGER;
        let read = match self {
            PoolTransport::Farm(farm) => {
                farm.awaits(awaits);
                wire::read(farm.recv_message(from)?)
            }
            PoolTransport::Mail(mail) => {
                let _waits = span(awaits, 0, 0);
                match mail.recv(None).map_err(dead)? {
                    Some((_, bytes)) => wire::decode(&bytes),
                    None => Err(WireError::Damaged { what: "its end" }),
                }
            }
        };
        read.map_err(|why| FarmError::Garbled { from, why })
    }

    /// Returns the next order of the manager, if it has arrived.
    pub(crate) fn try_recv<V: DeserializeOwned>(&mut self) -> Result<Option<V>, FarmError> {
        self.check_not_forked()?;
        let from = Vpid::MANAGER;
        let read = match self {
            PoolTransport::Farm(farm) => farm.try_recv_message(from)?.map(wire::read),
            // A wait with an expired deadline makes progress on the transport.
            PoolTransport::Mail(mail) => mail
                .recv(Some(Instant::now()))
                .map_err(dead)?
                .map(|(_, bytes)| wire::decode(&bytes)),
        };
        read.transpose().map_err(|why| FarmError::Garbled { from, why })
    }

    /// Returns the progress record of a worker; `None` for a worker on another host.
    pub(crate) fn progress(&self, vpid: Vpid) -> Option<&ProgressRecord> {
        match self {
            PoolTransport::Farm(farm) => Some(farm.progress(vpid)),
            PoolTransport::Mail(_) => None,
        }
    }

    /// Returns the number of tasks that a worker has begun, given the number that it has reported.
    pub(crate) fn begun(&self, vpid: Vpid, reported: u64) -> u64 {
        self.progress(vpid).map_or(reported + 1, |progress| progress.begun.load(Ordering::Relaxed))
    }

    /// Returns the time at which a worker began its last task; 0: that task has ended, or nothing
    /// is known.
    pub(crate) fn since(&self, vpid: Vpid) -> u64 {
        self.progress(vpid).map_or(0, |progress| progress.since.load(Ordering::Relaxed))
    }
}

fn event<V>(from: Vpid, read: Result<V, WireError>) -> Event<V> {
    match read {
        Ok(value) => Event::From(from, value),
        Err(why) => Event::Garbled(from, why),
    }
}

fn dead(fault: Fault) -> FarmError {
    FarmError::Team { fault }
}
