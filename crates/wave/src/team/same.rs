//! Whether all members were given the same sweep.
//!
//! # Contract
//! Each member describes its arguments by names and values, and compares them with those of the
//! first member. Members may differ in what does not change the result: threads, memory, vectors.
//! Kernels are compared by what they compute: see [`kernel`](super::kernel).

use syncline_fabric::Member;

use crate::Result;
use crate::error::Error;
use crate::run::target::Target;
use crate::sweep::Settings;

/// The value of an argument that a member was not given.
const NOT_GIVEN: &str = "not given";

/// Returns those arguments that all sweeps have.
pub(super) fn of_settings(settings: &Settings, target: Option<&Target>) -> Vec<(String, String)> {
    let depth = settings.depth.map_or_else(|| NOT_GIVEN.to_owned(), |depth| depth.to_string());
    let tolerance = settings.tolerance.map_or_else(|| NOT_GIVEN.to_owned(), |t| t.to_string());
    let in_memory = || ("in memory".to_owned(), "in memory");
    let (names, format) = target.map_or_else(in_memory, |target| {
        let paths = target.paths();
        let names = paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
        (names.collect::<Vec<_>>().join(", "), if target.npy { "npy" } else { "raw" })
    });
    let fixed = [
        ("the number of iterations", settings.iterations.to_string()),
        ("the depth", depth),
        ("the tolerance", tolerance),
        ("the name of the output", names),
        ("the format of the output", format.to_owned()),
    ];
    let mut all: Vec<_> = fixed.map(|(name, value)| (name.to_owned(), value)).into();
    let what = target.into_iter().flat_map(|target| &target.what);
    all.extend(what.map(|(name, value)| (format!("the {name}"), value.clone())));
    all
}

/// Compares the arguments of this member with those of the first one; all members call it.
///
/// The inner result is [`Error::Differs`], with the first difference.
pub(super) fn same(me: &mut Member, own: &[(String, String)]) -> Result<Result<()>> {
    let lines = |pairs: &[(String, String)]| {
        let lines = pairs.iter().map(|(name, value)| format!("{name}\0{value}\n"));
        lines.collect::<String>()
    };
    let first = me.exchange(lines(own).as_bytes())?.swap_remove(0);
    let first = String::from_utf8_lossy(&first).into_owned();
    let first: Vec<_> = first.lines().filter_map(|line| line.split_once('\0')).collect();
    let value = |name: &str| first.iter().find(|other| other.0 == name).map(|other| other.1);
    let rank = me.rank();
    let differs = |what: &str, own: &str, first: &str| {
        let [what, own, first] = [what, own, first].map(str::to_owned);
        Err(Error::Differs { rank, what, own, first })
    };
    for (name, own) in own {
        match value(name) {
            Some(first) if first == own.as_str() => {}
            first => return Ok(differs(name, own, first.unwrap_or(NOT_GIVEN))),
        }
    }
    let given = |name: &str| own.iter().any(|own| own.0 == name);
    Ok(match first.iter().find(|first| !given(first.0)) {
        Some((name, first)) => differs(name, NOT_GIVEN, first),
        None => Ok(()),
    })
}
