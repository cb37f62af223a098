//! The records of messages against the neighbours of each point, one by one: all that cross the cut
//! are in a message, in the version that is read, and few others are.

use std::collections::HashMap;

use proptest::prelude::*;
use syncline_store::Shape;
use syncline_testkit::property;

use super::super::super::ghosts::Ghosts;
use super::super::super::tile::Chain;
use super::super::super::{Geometry, TOGETHER};
use super::super::message::Part;
use super::super::{Cuts, Share};
use crate::{Neighbour, Stencil};

/// A value of the field: its strip, its position and its place in the record.
type Value = (isize, isize, usize);

/// Returns the chain of a matrix of a kernel with this stencil.
fn chain(shape: Shape, stencil: Stencil, width: usize, levels: usize, band: usize) -> Chain {
    let skew = if stencil.corners() { 2 } else { 1 };
    let shape = Ghosts::new(shape, stencil).shape();
    let slots = Chain::slots(width, levels, band, 2);
    let geometry = Geometry { shape, width, skew, arrays: 1, slots: 0 }.with_slots(slots);
    Chain { geometry, levels, band }
}

fn value_at(g: &Geometry, row: isize, column: isize) -> Value {
    let (width, skew) = (g.width as isize, g.skew as isize);
    let value = (row - 1).rem_euclid(width);
    ((row - 1).div_euclid(width), column + skew * value, value as usize)
}

/// Returns the values of a message, and where they are in it.
fn values(parts: impl Iterator<Item = Part>) -> HashMap<Value, usize> {
    let mut all = HashMap::new();
    for part in parts {
        for position in part.positions.clone() {
            for value in part.values.clone() {
                let before = all.insert((part.strip, position, value), all.len());
                assert_eq!(before, None, "a value is sent twice");
            }
        }
    }
    all
}

/// The exchange of two hosts at a cut.
#[derive(Debug)]
pub(super) struct Exchange {
    /// For each value of the messages of each band, eastward and westward, whether any update reads
    /// it.
    pub(super) read: [Vec<Vec<bool>>; 2],
    /// The first column that the east accesses, and the column after the last that the west
    /// accesses.
    pub(super) columns: (usize, usize),
}

impl Exchange {
    /// Returns the number of values that are sent, and the number of those that are read.
    fn counts(&self, way: usize) -> (usize, usize) {
        let all = || self.read[way].iter().flatten();
        (all().count(), all().filter(|&&read| read).count())
    }
}

/// Looks at every read of every update at a cut between two shares.
pub(super) fn exchange(
    chain: &Chain,
    stencil: Stencil,
    (west, east): (&Share, &Share),
) -> Exchange {
    let (g, cut) = (&chain.geometry, west.east.expect("a cut"));
    assert_eq!(east.west, Some(cut));
    let (rows, cols) = (g.shape.rows as isize, g.shape.cols as isize);
    let band_of = |strip: isize, level: isize| (strip + 1 + level) as usize / chain.band;
    // The band and the side that update a value in an iteration.
    let update = |(strip, position, _): Value, level: isize| {
        let band = band_of(strip, level);
        (band, position >= cut.position(band, strip, level as usize))
    };
    let (bands, levels) = (chain.bands(), chain.levels as isize);
    let eastward: Vec<_> = (0..bands).map(|band| values(cut.eastward(band))).collect();
    let westward: Vec<_> = (0..bands).map(|band| values(cut.westward(band))).collect();
    let none = |sent: &Vec<HashMap<_, _>>| sent.iter().map(|all| vec![false; all.len()]).collect();
    let mut read: [Vec<Vec<bool>>; 2] = [none(&eastward), none(&westward)];
    let (mut first, mut end) = (g.shape.cols, 0);
    // Only the side of this cut: other cuts of a share are looked at in their turn.
    let mut has = |side: bool, column: isize, position: isize| {
        let column = column as usize;
        if side {
            first = first.min(column)
        } else {
            end = end.max(column + 1)
        }
        let there = match side {
            true => east.columns_in().start <= column && east.window().start <= position,
            false => column < west.columns_in().end && position < west.window().end,
        };
        assert!(there, "column {column} at position {position} is not there");
    };
    for (row, column) in (1..rows - 1).flat_map(|row| (1..cols - 1).map(move |col| (row, col))) {
        let here = value_at(g, row, column);
        for level in 0..levels {
            let (band, side) = update(here, level);
            // The coefficients.
            has(side, column, here.1);
            let reads = stencil.neighbours().map(|neighbour| {
                use Neighbour::{North, NorthEast, NorthWest, West};
                let (down, right) = neighbour.offset();
                let new = matches!(neighbour, North | NorthEast | NorthWest | West);
                (row + down, column + right, level + isize::from(new))
            });
            for (row, column, version) in reads.chain([(row, column, level)]) {
                let value = value_at(g, row, column);
                let edge = row == 0 || row == rows - 1 || column == 0 || column == cols - 1;
                if version == 0 || edge {
                    has(side, column, value.1);
                    continue;
                }
                let (of, by) = update(value, version - 1);
                assert!(of == band || of + 1 == band, "versions are of this band or of the last");
                match (by, side) {
                    // The west has written it: it must still be so at the end of the band.
                    (false, true) => {
                        assert_eq!(of, band);
                        let later = version < levels && update(value, version) == (band, false);
                        assert!(!later, "{value:?} is written again before the export");
                        let sent = eastward[band].get(&value);
                        read[0][band][*sent.expect("a value that goes east")] = true;
                    }
                    // The east has written it in its first columns of the last band.
                    (true, false) => {
                        assert_eq!(of + 1, band);
                        let first = cut.position(of, value.0, version as usize - 1);
                        assert!(value.1 < first + chain.ahead() as isize);
                        assert!(version == levels || update(value, version).0 == band);
                        let sent = westward[of].get(&value);
                        read[1][of][*sent.expect("a value that goes west")] = true;
                    }
                    _ => {}
                }
            }
        }
        // The result.
        let (band, by) = update(here, levels - 1);
        match (by, east.columns_out(row as usize).start <= column as usize) {
            (false, true) => {
                let sent = eastward[band].get(&here);
                read[0][band][*sent.expect("a final value that goes east")] = true;
            }
            (true, false) => panic!("{here:?} is final on the wrong side"),
            _ => {}
        }
    }
    Exchange { read, columns: (first, end) }
}

/// Returns the exchanges at all cuts.
pub(super) fn exchanges(cuts: &Cuts, chain: &Chain, stencil: Stencil) -> Vec<Exchange> {
    let shares: Vec<_> = (0..cuts.hosts()).map(|host| cuts.share(host)).collect();
    shares.windows(2).map(|pair| exchange(chain, stencil, (&pair[0], &pair[1]))).collect()
}

#[derive(Clone, Debug)]
struct Plan {
    shape: Shape,
    stencil: Stencil,
    width: usize,
    levels: usize,
    band: usize,
    wider: usize,
    hosts: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let stencil = prop_oneof![
        Just(Stencil::FIVE_POINT),
        Just(Stencil::SEVEN_POINT),
        Just(Stencil::NINE_POINT),
        prop::sample::subsequence(Neighbour::ALL.to_vec(), 1..6).prop_map(|n| Stencil::of(&n)),
    ];
    let width = prop::sample::select(vec![1_usize, 2, 4, 8, 16]);
    let numbers = (3..60_usize, 3..150_usize, 1..20_usize, 1..3_usize, 0..20_usize, 2..5_usize);
    (stencil, width, numbers).prop_map(|(stencil, width, numbers)| {
        let (rows, cols, levels, fours, wider, hosts) = numbers;
        let shape = Shape::new(rows, cols);
        Plan { shape, stencil, width, levels, band: fours * TOGETHER, wider, hosts }
    })
}

proptest! {
    #![proptest_config(property(100))]

    /// Messages carry all that crosses a cut.
    #[test]
    fn messages_suffice(plan in plan()) {
        let Plan { shape, stencil, width, levels, band, wider, hosts } = plan;
        let chain = chain(shape, stencil, width, levels, band);
        let piece = chain.ahead() + wider;
        let hosts = hosts.min(Cuts::most(&chain, piece));
        let cuts = Cuts::new(chain, piece, hosts).unwrap();
        exchanges(&cuts, &chain, stencil);
        for host in 0..hosts {
            let share = cuts.share(host);
            for band in 0..chain.bands() {
                prop_assert!(share.east.is_none_or(|cut| cut.eastward_len(band) <= cut.most()));
                prop_assert!(share.west.is_none_or(|cut| cut.westward_len(band) <= cut.most()));
            }
        }
    }
}

/// In a large matrix the messages have the lengths of the formulas, most of their values are read,
/// and hosts have no column that they do not access, but for one at each side.
#[test]
#[ignore = "full: 9 s of computing"]
fn messages_are_short() {
    for stencil in [Stencil::FIVE_POINT, Stencil::SEVEN_POINT, Stencil::NINE_POINT] {
        for width in [1, 2, 4, 8, 16] {
            for (levels, band, wider) in [(1_usize, 4, 0), (7, 4, 5), (9, 8, 3)] {
                // A band in the middle has all of its strips in each iteration.
                let middle = levels.div_ceil(band);
                let rows = 2 + (middle + 2) * band * width;
                let chain = chain(Shape::new(rows, 1000), stencil, width, levels, band);
                let (g, ahead) = (&chain.geometry, chain.ahead());
                let cuts = Cuts::new(chain, ahead + wider, 2).unwrap();
                let (west, east) = (cuts.share(0), cuts.share(1));
                let cut = west.east.unwrap();
                let group = (cut.position(0, 0, levels - 1)).rem_euclid(width as isize) as usize;
                let group = group.saturating_sub(g.lag());
                let lengths = (cut.eastward_len(middle), cut.westward_len(middle));
                let expected = (
                    band * width * (levels * g.lag() + group),
                    ahead * width * (levels - 1) + ahead - 1,
                );
                assert_eq!(lengths, expected, "{stencil} {width} {levels} {band} {wider}");
                assert!(cut.most() >= lengths.0.max(lengths.1));

                let exchange = exchange(&chain, stencil, (&west, &east));
                for (sent, read) in [exchange.counts(0), exchange.counts(1)] {
                    let most = read <= sent && (read * 4 >= sent * 3 || !stencil.diagonal());
                    assert!(most, "{read} of {sent}: {stencil} {width} {levels} {band} {wider}");
                }
                let (first, end) = exchange.columns;
                assert!((first - 1..=first).contains(&east.columns_in().start));
                assert!((end..=end + 1).contains(&west.columns_in().end));
            }
        }
    }
}

/// The numbers of one plan: hosts have about equal work, and rings that are about as wide as their
/// columns.
#[test]
fn shares_of_a_wide_matrix() {
    let shape = Shape::new(4096, 4096);
    let chain = chain(shape, Stencil::FIVE_POINT, 8, 20, 16);
    let piece = chain.ahead();
    let most = Cuts::most(&chain, piece);
    assert_eq!(Cuts::new(chain, piece, most + 1).unwrap_err(), most);
    for hosts in [2, 4, 8, most] {
        let cuts = Cuts::new(chain, piece, hosts).unwrap();
        let shares: Vec<_> = (0..hosts).map(|host| cuts.share(host)).collect();
        assert_eq!(shares[0].columns.start, chain.walk().start);
        assert_eq!(shares[hosts - 1].columns.end, chain.walk().end);
        for (host, share) in shares.iter().enumerate() {
            let pieces: Vec<_> = (0..share.pieces()).map(|piece| share.piece(piece)).collect();
            assert_eq!(pieces[0].start, share.columns.start);
            assert_eq!(pieces[pieces.len() - 1].end, share.columns.end);
            assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(host == 0 || shares[host - 1].columns.end == share.columns.start);
            // 224 columns at each cut: of the iterations, and of the rows of a band.
            let columns = share.columns_in().len();
            assert!(columns <= share.columns.len() + 2 * 224 && columns >= share.columns.len() / 2);
            let whole = chain.geometry.bytes(8) as f64 / shape.cols as f64;
            let bytes = share.bytes(8) as f64 / whole;
            assert!(bytes <= (columns + chain.geometry.pad() + 64) as f64);
            let all = super::super::work(&chain, chain.walk().end);
            let (to, from) = (share.columns.end, share.columns.start);
            let work = super::super::work(&chain, to) - super::super::work(&chain, from);
            let (fair, one) = (all / hosts as u64, all / (most as u64 - 2));
            assert!(
                hosts == most || work.abs_diff(fair) <= one,
                "{host} of {hosts}: {work} {fair}"
            );
        }
    }
}
