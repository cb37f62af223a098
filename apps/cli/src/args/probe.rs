//! The command line of `syncline probe`.

use std::path::PathBuf;

use syncline_common::units::parse_size;
use syncline_store::probe::Scratch;

/// Measures the disk of DIR with a scratch file that leaves nothing behind
///
/// Needs free space for the file, and no privileges.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline probe disk <DIR> [OPTIONS]",
    after_long_help = "\
Examples:
  syncline probe disk /scratch
  syncline probe disk . --quick --json

`syncline help probe` explains the table."
)]
pub(crate) struct ProbeDiskArgs {
    /// A directory on the disk to measure; it must exist
    pub(crate) dir: PathBuf,
    /// The size of the scratch file, at least 8M [default: 1G, with --quick 256M]
    #[arg(long, value_name = "SIZE", value_parser = enough)]
    pub(crate) size: Option<u64>,
    /// Measure fewer rounds on a smaller file
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print one JSON object, on one line, instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The explanation of the table in `syncline help probe`.
pub(crate) const TABLE: &str = "\
The table, in MiB/s of the requested data; for small pieces also the time per piece:
  read       bands of 32 MiB one after the other, in requests of 8 MiB
  block      blocks that are one piece of the file each (layouts blocked and framed)
  rows       one block out of a row-major file: a piece per row
  row        rows of blocks, one after the other: a frontier that is one piece
  column     a column of a block out of a row-major file: a piece per value
  frame      columns of blocks out of a framed file: frontiers that are one piece again
  write      bands of 32 MiB written over one after the other, until they are on the disk
Two ways:
  direct     O_DIRECT, up to 64 requests in flight, as `run` streams
  mapped     mapped files, as `run` reads and writes in blocks, by one thread
Before each sample the kernel is asked to drop the file from the page cache; the figures are medians of alternating rounds. On tmpfs \
nothing is cold, and nothing is direct. A hypervisor or a storage server may have a cache of its own.

Where fio is installed, it makes the direct requests as well: to the same file, of the same size, with the same \
number in flight. The column beside its figure is the ratio to ours. fio refills its queue where ours \
finishes a band, and reads single blocks of the disk for a column.

The last line has the figures by which `--block auto` models a disk: a piece of n bytes takes \
the time per piece plus n bytes at the rate of long pieces, mapped.";

/// Parses the size of a scratch file.
fn enough(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        size if size >= Scratch::LEAST => Ok(size),
        _ => Err("a scratch file has at least 8M".to_owned()),
    }
}
