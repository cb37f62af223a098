//! Agreement of all members of a team that they run the same overlay.
//!
//! # Contract
//! Every member describes its run as a list of lines: the tasks with their members and requests,
//! the locations with their lengths, the order of the first requests, and the settings. One gather
//! compares the hashes of the lists. If they differ, every member gets the first line that differs,
//! from the two members of the lowest ranks that differ, with their ranks. A member that cannot run
//! the overlay refuses in the same gather, and all members get its reason.
//!
//! # Costs
//! If all agree: one gather, and a hash of the plan. Otherwise some tens of gathers: the first
//! difference is found by bisection, and texts travel in words of eight bytes.

use syncline_fabric::Member;
use syncline_sync::Fault;

use crate::error::RunError;

/// In the word of a member that refuses, with the rank at which the failure began.
const REFUSES: u64 = 1 << 63;
/// The greatest number of bytes of a text that is told to all members.
const LONGEST: usize = 240;

/// Agrees on the lines, unless this member or another one refuses.
pub(super) fn agree(
    me: &mut Member,
    lines: &[String],
    refusal: Option<RunError>,
) -> Result<(), RunError> {
    let hash = hashes(lines).last().copied().unwrap_or(0) & !REFUSES;
    let words = all_well(me, hash, refusal)?;
    match words.iter().position(|&word| word != words[0]) {
        None => Ok(()),
        Some(other) => Err(first_difference(me, lines, other)?),
    }
}

/// Gives a word, less than 2^63, and returns the words of all members, unless a member refuses:
/// then the error of this member itself, or the one that the refusing member of the lowest rank
/// has. So members that have no error of their own name the same one, even if several fail.
pub(super) fn all_well(
    me: &mut Member,
    word: u64,
    refusal: Option<RunError>,
) -> Result<Vec<u64>, RunError> {
    let told = gather(me, word, refusal.as_ref());
    match (refusal, told) {
        (Some(RunError::Elsewhere { .. }), Err(told @ RunError::Elsewhere { .. })) => Err(told),
        (Some(refusal), _) => Err(refusal),
        (None, Ok(words)) => Ok(words),
        (None, Err(error)) => Err(error),
    }
}

fn gather(me: &mut Member, word: u64, refusal: Option<&RunError>) -> Result<Vec<u64>, RunError> {
    // The member at which the failure began, and its error there.
    let (origin, own) = match refusal {
        Some(RunError::Elsewhere { rank, error }) => (*rank, error.clone()),
        Some(error) => (me.rank(), error.to_string()),
        None => (0, String::new()),
    };
    let words = me.gather(if refusal.is_some() { REFUSES | origin as u64 } else { word })?;
    let Some(rank) = words.iter().position(|&word| word & REFUSES != 0) else { return Ok(words) };
    let error = tell(me, &own)?.swap_remove(rank);
    Err(RunError::Elsewhere { rank: (words[rank] & !REFUSES) as usize, error })
}

/// Returns for each line the hash of all lines up to it (FNV-1a).
fn hashes(lines: &[String]) -> Vec<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let all = lines.iter().map(|line| {
        for byte in line.bytes().chain([b'\n']) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    });
    all.collect()
}

/// Finds the first line in which rank 0 and rank `other` differ.
fn first_difference(me: &mut Member, lines: &[String], other: usize) -> Result<RunError, Fault> {
    let hashes = hashes(lines);
    let most = me.gather(lines.len() as u64)?.into_iter().max().unwrap_or(0) as usize;
    // All lines before `least` are equal; some line before `end` differs.
    let (mut least, mut end) = (0, most.max(1));
    while least + 1 < end {
        let middle = least + (end - least) / 2;
        // A list that is shorter has another hash than one that goes on, as its last one.
        let own = hashes.get(middle - 1).or(hashes.last()).copied().unwrap_or(0);
        let words = me.gather(own)?;
        if words[0] == words[other] { least = middle } else { end = middle }
    }
    let own = lines.get(least).map_or("no more tasks or locations", String::as_str);
    let mut texts = tell(me, own)?;
    let theirs = texts.swap_remove(other);
    Ok(RunError::Differs { first: texts.swap_remove(0), rank: other, second: theirs })
}

/// Tells all members a text of each member.
fn tell(me: &mut Member, text: &str) -> Result<Vec<String>, Fault> {
    let mut len = text.len().min(LONGEST);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    let texts = me.exchange(&text.as_bytes()[..len])?;
    Ok(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
}
