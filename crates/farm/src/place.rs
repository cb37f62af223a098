//! What a manager tells a process of its farm: `SYNCLINE_FARM`.

use std::os::fd::RawFd;

use syncline_memory::{LifelineEnd, inherit};

use crate::error::FarmError;
use crate::vpid::Vpid;

/// Set for every process that a farm starts.
pub(crate) const FARM: &str = "SYNCLINE_FARM";
/// Manager and workers must be of one kind. To be raised with any change of what stands in the
/// memory of a farm, and of what a process is started with. From 2 on it leads a process group.
const VERSION: u64 = 2;
const NAMES: [&str; 5] = ["version", "memory", "lifeline", "manager", "vpid"];

/// The place of a process in its farm: descriptors that it has inherited, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The descriptor of the farm's memory.
    pub(crate) memory: RawFd,
    /// The descriptor of the lifeline's end.
    pub(crate) lifeline: RawFd,
    /// The descriptor by which the manager is told that something is asked of it.
    pub(crate) manager: RawFd,
    pub(crate) vpid: Vpid,
}

impl Place {
    /// The place that a manager gave to this process, if one did.
    pub(crate) fn from_environment() -> Result<Option<Place>, FarmError> {
        let Some(value) = std::env::var_os(FARM) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        match Place::parse(&value) {
            Ok(place) => Ok(Some(place)),
            Err(why) => Err(wrong(value, why)),
        }
    }

    /// Whether a farm has started this very process, and not one that has started it: whose
    /// descriptors are not here.
    pub(crate) fn is_ours() -> bool {
        let place = Place::from_environment().ok().flatten();
        place.is_some_and(|place| {
            inherit::copy(place.memory).is_ok_and(|memory| inherit::is_sealed(&memory))
                && inherit::copy(place.lifeline).is_ok_and(|end| LifelineEnd::from_fd(end).is_ok())
        })
    }

    /// What the variable is set to.
    pub(crate) fn value(&self) -> String {
        let Place { memory, lifeline, manager, vpid } = self;
        let vpid = vpid.to_raw();
        format!("version={VERSION} memory={memory} lifeline={lifeline} manager={manager} vpid={vpid}")
    }

    fn parse(value: &str) -> Result<Place, String> {
        let mut fields = value.split_whitespace();
        let mut numbers = [0_u64; NAMES.len()];
        for (name, number) in NAMES.iter().zip(&mut numbers) {
            let field = fields.next().ok_or(format!("{name} is missing"))?;
            let text = field.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            let text = text.ok_or(format!("{field:?} stands where {name}= is expected"))?;
            *number = text.parse().map_err(|_| format!("{name} is {text:?}, not a number"))?;
        }
        let [version, memory, lifeline, manager, vpid] = numbers;
        if version != VERSION {
            return Err(format!("the manager is of version {version}, this program of version {VERSION}"));
        }
        let descriptor = |number: u64, name: &str| {
            RawFd::try_from(number).map_err(|_| format!("{name} is {number}, which is no descriptor"))
        };
        Ok(Place {
            memory: descriptor(memory, "memory")?,
            lifeline: descriptor(lifeline, "lifeline")?,
            manager: descriptor(manager, "manager")?,
            vpid: Vpid::from_raw(vpid),
        })
    }
}

/// What is wrong with the variable.
pub(crate) fn wrong(value: String, why: String) -> FarmError {
    FarmError::Variable { variable: FARM, value, why }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = Place { memory: 5, lifeline: 6, manager: 7, vpid: Vpid::new(3, 2) };
        assert_eq!(Place::parse(&place.value()), Ok(place));
    }

    #[test]
    fn garbage_is_named() {
        let good = Place { memory: 5, lifeline: 6, manager: 7, vpid: Vpid::new(3, 0) }.value();
        for (from, to, why) in [
            ("version=2", "version=9", "the manager is of version 9, this program of version 2"),
            ("memory=5", "memory=x", "memory is \"x\", not a number"),
            ("lifeline=6", "lifeline=99999999999", "lifeline is 99999999999, which is no descriptor"),
            ("manager=7", "boss=7", "\"boss=7\" stands where manager= is expected"),
            (" vpid=3", "", "vpid is missing"),
        ] {
            assert_eq!(Place::parse(&good.replace(from, to)).unwrap_err(), why);
        }
    }
}
