//! The command line of `syncline overlay`.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde::Deserialize;
use syncline_overlay::{Initial, snapshot::Format};

/// The subcommands of `syncline overlay`.
#[derive(Debug, Subcommand)]
pub(crate) enum OverlayCommand {
    Grid(GridArgs),
    Check(CheckArgs),
}

/// Draws the overlay of a blocked sweep: its tasks, and the order in which they wait for each
/// other.
///
/// Each block has one task, which writes it and reads the blocks above, left, right and below, as
/// Clauss and Gustedt run Livermore kernel 23 (PDP 2010, doi:10.1109/PDP.2010.11). A task is active
/// when all its requests are granted, partly delayed when some are, and delayed when none is.
/// Without --draw the drawing is printed: one column per location, the head of each queue at the
/// bottom.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline overlay grid <RxC> [OPTIONS]",
    after_long_help = "\
Examples:
  syncline overlay grid 4x4
  syncline overlay grid 8x8 --init max-parallel --draw grid.svg"
)]
pub(crate) struct GridArgs {
    /// Rows and columns of blocks, as 4x6; 4 means 4x4. At most 1048576 blocks
    #[arg(value_name = "RxC", value_parser = parse_grid)]
    pub(crate) grid: (usize, usize),
    /// The initial order of the requests
    #[arg(long, value_enum, default_value_t = Init::Wave)]
    pub(crate) init: Init,
    /// Only check; print no drawing
    #[arg(long)]
    pub(crate) check: bool,
    /// Draw into FILE; its extension selects the format: .txt, .dot (graphviz) or .svg
    #[arg(long, value_name = "FILE", value_parser = parse_draw)]
    pub(crate) draw: Option<Draw>,
}

/// Checks that the tasks of a file never deadlock, or names a cycle of tasks that wait for each
/// other.
///
/// Each task repeats the same round without end: it waits until all its requests are granted,
/// works, requests again, and releases the old grants. The initial order of the queues decides
/// whether the tasks ever stop. Without --draw the queues are printed: one column per location, the
/// head of each queue at the bottom.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline overlay check <FILE> [OPTIONS]",
    after_long_help = "\
A file:
  init = \"program\"                     # the initial order, unless tasks have a priority
  locations = [\"raw\", \"clean\"]         # optional; if given, it lists all locations

  [tasks]                              # in the order of the program
  read  = { writes = [\"raw\"] }
  clean = { reads = [\"raw\"], writes = [\"clean\"] }
  print = { reads = [\"clean\"] }        # and, for all or none: priority = 3 (lowest first)

  [order]                              # the queue of one location, head first
  clean = [\"clean\", \"print\"]

Exit codes: 0 live, 1 deadlock, 2 not checked (the file cannot be read, or is invalid), or not drawn into the \
file of --draw, or live but not printed (for example to a full disk)."
)]
pub(crate) struct CheckArgs {
    /// The overlay, as TOML
    pub(crate) file: PathBuf,
    /// The initial order of the requests; overrides `init` and `priority` of the file [default: as
    /// in the file, or program]
    #[arg(long, value_enum)]
    pub(crate) init: Option<Init>,
    /// Draw into FILE; its extension selects the format: .txt, .dot (graphviz) or .svg
    #[arg(long, value_name = "FILE", value_parser = parse_draw)]
    pub(crate) draw: Option<Draw>,
}

/// The initial order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Init {
    /// The order of declaration: the results of the sequential program
    Program,
    /// A wave: each task as soon as all earlier conflicting tasks have run; the same results
    Wave,
    /// As many tasks at once as a colouring allows: red-black on a grid, other results
    MaxParallel,
}

impl Init {
    pub(crate) fn initial(self) -> Initial {
        match self {
            Init::Program => Initial::Program,
            Init::Wave => Initial::Wave,
            Init::MaxParallel => Initial::MaxParallel,
        }
    }
}

/// The destination of a drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
}

fn parse_draw(text: &str) -> Result<Draw, String> {
    let format = match Path::new(text).extension().and_then(|ending| ending.to_str()) {
        Some("txt") => Format::Text,
        Some("dot") => Format::Dot,
        Some("svg") => Format::Svg,
        _ => return Err("the name of a drawing ends in .txt, .dot or .svg".to_owned()),
    };
    Ok(Draw { path: text.into(), format })
}

/// The maximum number of tasks of a grid.
const MOST: usize = 1 << 20;

/// Parses `4x6`, rows and columns, or `4`, a square.
fn parse_grid(text: &str) -> Result<(usize, usize), String> {
    let side =
        |side: &str| match side.trim().parse::<usize>() {
            Ok(side @ 1..) => Ok(side),
            _ => Err("a grid is rows x columns of blocks, as 4x6, and has at least one of each"
                .to_owned()),
        };
    let (rows, cols) = match text.split_once(['x', 'X']) {
        Some((rows, cols)) => (side(rows)?, side(cols)?),
        None => (side(text)?, side(text)?),
    };
    match rows.checked_mul(cols) {
        Some(..=MOST) => Ok((rows, cols)),
        _ => Err(format!("a grid of {text} has more than {MOST} blocks")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_read() {
        assert_eq!(parse_grid("4x6"), Ok((4, 6)));
        assert_eq!(parse_grid("1 X 3"), Ok((1, 3)));
        assert_eq!(parse_grid("8"), Ok((8, 8)));
        for bad in
            ["", "x", "0x3", "3x0", "-1x2", "4x6x2", "four", "2000000", "99999999999x99999999999"]
        {
            assert!(parse_grid(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_ending_says_how_to_draw() {
        assert_eq!(parse_draw("a.b/c.svg").unwrap().format, Format::Svg);
        assert_eq!(parse_draw("c.dot").unwrap().format, Format::Dot);
        assert_eq!(parse_draw("c.txt").unwrap().format, Format::Text);
        for bad in ["", "svg", ".svg", "c.png", "c.svg.gz"] {
            assert!(parse_draw(bad).is_err(), "{bad}");
        }
    }
}
