//! The table of `syncline probe disk`.

use std::fmt;

use syncline_common::units::{Bytes, Each};
use syncline_store::probe::{Pattern, Sample};

use super::{Found, Row};

/// Returns the name of a pattern.
pub(super) const fn name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Read => "read",
        Pattern::Block => "block",
        Pattern::Rows => "rows",
        Pattern::Row => "row",
        Pattern::Column => "column",
        Pattern::Frame => "frame",
        Pattern::Write => "write",
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, bytes, side, rounds, .. } = self;
        let plural = if *rounds == 1 { "" } else { "s" };
        let cold =
            if self.cold { "cold" } else { "NOT cold: the file system keeps files in memory" };
        writeln!(
            f,
            "disk below {}: a file of {}, blocks of {side} x {side}, medians of {rounds} round{plural}, {cold}\n",
            dir.display(),
            Bytes(*bytes)
        )?;
        writeln!(f, "{:29}{:^21}{:^21}{:^21}", "", "direct", "mapped", "direct, by fio")?;
        writeln!(
            f,
            "{:29}{:>9}{:>11} {:>9}{:>11} {:>9}{:>11}",
            "", "MiB/s", "a piece", "MiB/s", "a piece", "MiB/s", "/ ours"
        )?;
        self.rows.iter().try_for_each(|row| row.write(f))?;
        writeln!(f)?;
        if let Some(why) = self.no_direct {
            writeln!(f, "direct: not there: {why}")?;
        }
        if let Some(why) = &self.no_fio {
            writeln!(f, "fio: skipped: {why}")?;
        }
        match self.disk {
            Some(disk) => write!(
                f,
                "for --block auto: long pieces {}/s, written {}/s, and {} a piece",
                Bytes(disk.read as u64),
                Bytes(disk.write as u64),
                Each(disk.piece)
            ),
            None => write!(f, "for --block auto: nothing was measured"),
        }
    }
}

impl Row {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { bytes, pieces, .. } = self.mapped;
        let size = bytes / pieces.max(1);
        let long = size >= 1 << 20;
        let of = if long { "in pieces of" } else { "pieces of" };
        let size = Bytes(size.min(8 << 20)).to_string().replace(".0 ", " ");
        write!(
            f,
            "{:9}{:20}",
            name(self.pattern),
            if long { format!("{of} {size}") } else { format!("{pieces} {of} {size}") }
        )?;
        let columns = |sample: Option<Sample>| match sample {
            None => format!("{:>9}{:>11} ", "-", ""),
            Some(sample) => {
                let each = if long { String::new() } else { Each(sample.per_piece()).to_string() };
                format!("{:>9}{each:>11} ", mebibytes(sample.rate()))
            }
        };
        write!(f, "{}{}", columns(self.direct), columns(Some(self.mapped)))?;
        let fio = self.fio.zip(self.direct).map(|(each, direct)| {
            let rate = direct.bytes as f64 / direct.pieces.max(1) as f64 / each;
            format!("{:>9}{:>11.2}", mebibytes(rate), rate / direct.rate())
        });
        writeln!(f, "{}", fio.unwrap_or_else(|| format!("{:>9}", "-")))
    }
}

/// Formats a rate in MiB/s with three significant digits.
fn mebibytes(rate: f64) -> String {
    let rate = rate / f64::from(1 << 20);
    match rate {
        100.0.. => format!("{rate:.0}"),
        10.0.. => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}
