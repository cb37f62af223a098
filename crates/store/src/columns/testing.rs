//! Random divisions of a file, for tests.

use syncline_testkit::Random;

use super::share::Share;

/// Returns a share of a file of about `bytes` bytes at most: headers of any length, rows shorter
/// and longer than a block, hosts without columns, and cuts that move west within bands.
pub(super) fn any_share(random: &mut Random, bytes: u64) -> Share {
    let block = random.one_of(&[512, 4096]);
    any_share_of(random, bytes, block)
}

/// Like [`any_share`], with blocks of `block` bytes.
pub(super) fn any_share_of(random: &mut Random, bytes: u64, block: usize) -> Share {
    let header = vec![b'h'; random.one_of(&[0, 1, 64, 128, 512, 1000, 4096, 9000])];
    let row_bytes = 8 * match random.below(4) {
        0 => 1 + random.below(8),
        1 => 1 + random.below(200),
        2 => 512 * (1 + random.below(4)),
        _ => 1 + random.below(bytes / 16),
    };
    let rows = 1 + random.below(bytes / row_bytes + 1);
    let hosts = random.within(1..=6);
    let mut cuts: Vec<u64> = (0..hosts).map(|_| 8 * random.below(row_bytes / 8 + 1)).collect();
    cuts.sort_unstable();
    let (skew, band) = (8 * random.below(3_u64), 1 + random.below(50_u64));
    // The cuts of bands that begin at different rows.
    let first = random.below(band);
    let cut = move |row: u64, host: usize| cuts[host].saturating_sub(skew * ((row + first) % band));
    Share::new(&header, (rows, row_bytes), hosts, block, cut).unwrap()
}
