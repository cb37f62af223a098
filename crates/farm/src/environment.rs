//! The environment variable `SYNCLINE_FARM`, which a manager passes to each process of its farm.

use std::os::fd::RawFd;

use syncline_memory::segment::is_sealed;
use syncline_process::inherit::{DESCRIPTOR, Told};
use syncline_process::{inherit, lifeline::LifelineEnd};

use crate::error::FarmError;
use crate::vpid::Vpid;

/// The variable that is set for every process that a farm starts.
pub(crate) const FARM: &str = "SYNCLINE_FARM";

/// The fields of the variable. The version must be raised with any change of the memory layout of a
/// farm, or of what a process is started with. From version 2 on a process leads a process group.
const TOLD: Told<4> = Told {
    by: "manager",
    version: 2,
    fields: [
        ("memory", DESCRIPTOR),
        ("lifeline", DESCRIPTOR),
        ("manager", DESCRIPTOR),
        ("vpid", 0..=u64::MAX),
    ],
};

/// The inherited descriptors of a process of a farm, and its vpid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// The descriptor of the farm's memory.
    pub(crate) memory: RawFd,
    /// The descriptor of the process's end of the lifeline.
    pub(crate) lifeline: RawFd,
    /// The eventfd that notifies the manager of requests.
    pub(crate) manager: RawFd,
    pub(crate) vpid: Vpid,
}

impl Inherited {
    /// Reads the variable of this process; `None` if it is not set.
    pub(crate) fn from_environment() -> Result<Option<Inherited>, FarmError> {
        let Some(value) = std::env::var_os(FARM) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        match Inherited::parse(&value) {
            Ok(place) => Ok(Some(place)),
            Err(why) => Err(wrong(value, why)),
        }
    }

    /// Returns whether a farm started this process itself. False in a child of such a process,
    /// which inherits the variable but not the descriptors.
    pub(crate) fn is_ours() -> bool {
        let place = Inherited::from_environment().ok().flatten();
        place.is_some_and(|place| {
            inherit::copy(place.memory).is_ok_and(|memory| is_sealed(&memory))
                && inherit::copy(place.lifeline).is_ok_and(|end| LifelineEnd::from_fd(end).is_ok())
        })
    }

    /// Returns the value of the variable.
    pub(crate) fn value(&self) -> String {
        let descriptor = |fd: RawFd| u64::from(fd.unsigned_abs());
        let Inherited { memory, lifeline, manager, vpid } = *self;
        TOLD.write([descriptor(memory), descriptor(lifeline), descriptor(manager), vpid.to_raw()])
    }

    fn parse(value: &str) -> Result<Inherited, String> {
        let [memory, lifeline, manager, vpid] = TOLD.read(value)?;
        let [memory, lifeline, manager] = [memory, lifeline, manager].map(|number| number as RawFd);
        Ok(Inherited { memory, lifeline, manager, vpid: Vpid::from_raw(vpid) })
    }
}

/// Returns the error for an invalid value of the variable.
pub(crate) fn wrong(value: String, why: String) -> FarmError {
    FarmError::Variable { variable: FARM, value, why }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = Inherited { memory: 5, lifeline: 6, manager: 7, vpid: Vpid::new(3, 2) };
        assert_eq!(Inherited::parse(&place.value()), Ok(place));
    }
}
