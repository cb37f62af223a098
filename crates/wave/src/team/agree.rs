//! What the members of a team agree on: that all begin a sweep, that none has an error, that all
//! see the same inputs, and the names of the files that all write.
//!
//! # Contract
//! All functions that take a member are collective. An error of one member is an error of all, with
//! the rank and the cause.

use std::path::Path;

use syncline_fabric::Member;
use syncline_store::shared::{InputView, SharedName, SharedNewFile};

use crate::{Error, Result};

/// The first word of a sweep. Another collective call begins with another word, but by chance.
const SWEEP: u64 = 0x5357_4545_5020_6f6e;

/// Returns the value, if no member has an error; otherwise this member's error, or that of the
/// member of the lowest rank that has one. An error that another member was said to have gives way
/// to that member's own, which says more.
pub(crate) fn all<T>(me: &mut Member, outcome: Result<T>) -> Result<T> {
    const ELSEWHERE: u64 = 1;
    const OWN: u64 = 2;
    let kind = match &outcome {
        Ok(_) => 0,
        Err(Error::Elsewhere { .. }) => ELSEWHERE,
        Err(_) => OWN,
    };
    let kinds = me.gather(kind)?;
    let first = |kind| kinds.iter().position(|&of| of == kind);
    let Some(rank) = first(OWN).or_else(|| first(ELSEWHERE)) else { return outcome };
    let text = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let first = me.exchange(text.as_bytes())?.swap_remove(rank);
    match outcome {
        Err(error) if kind == OWN || kinds[rank] == ELSEWHERE => Err(error),
        _ => Err(Error::Elsewhere { rank, error: String::from_utf8_lossy(&first).into_owned() }),
    }
}

/// Begins a sweep: checks that all members do, and that none has found anything wrong with its
/// arguments (`checked`).
pub(crate) fn begin(me: &mut Member, checked: Result<()>) -> Result<()> {
    let words = me.gather(SWEEP)?;
    if let Some(rank) = words.iter().position(|&word| word != SWEEP) {
        let error = "it makes another collective call where this member begins a sweep".to_owned();
        return Err(Error::Elsewhere { rank, error });
    }
    all(me, checked)
}

/// Checks that all members see the same inputs, which this member has at `paths`.
pub(crate) fn check_views(me: &mut Member, paths: &[&Path], views: &[InputView]) -> Result<()> {
    let own: Vec<u8> = views.iter().flat_map(InputView::encode).collect();
    let (mut theirs, here) = (me.exchange(&own)?, me.place());
    let first = theirs.swap_remove(0);
    let firsts = first.as_chunks::<32>().0.iter().map(InputView::decode);
    let same = views.iter().zip(firsts).zip(paths);
    let mut checks = same.map(|((own, first), path)| own.check(&first, path, &here, "rank 0"));
    let counts = if first.len() == own.len() {
        Ok(())
    } else {
        Err(Error::NotOnTeam {
            what: "a number of inputs that differs from that of rank 0",
            instead: "give all members the same inputs",
        })
    };
    let checked = counts.and_then(|()| Ok(checks.try_for_each(|check| check)?));
    all(me, checked)
}

/// Returns the names of the files, as a message.
pub(crate) fn encode(files: &[SharedNewFile]) -> Vec<u8> {
    let names = files.iter().map(|file| file.name().encode());
    names.flat_map(|name| (name.len() as u64).to_le_bytes().into_iter().chain(name)).collect()
}

/// Returns the names in a message.
pub(crate) fn decode(mut message: &[u8]) -> Vec<SharedName> {
    let mut names = Vec::new();
    while let Some((len, rest)) = message.split_first_chunk::<8>() {
        let Some((name, rest)) = rest.split_at_checked(u64::from_le_bytes(*len) as usize) else {
            break;
        };
        names.extend(SharedName::decode(name));
        message = rest;
    }
    names
}
