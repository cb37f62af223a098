//! The terminal on standard error: its width, and the target of progress bars.

use std::fmt;
use std::io::{self, Write as _};

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

/// The width if the terminal does not report one.
const DEFAULT_COLUMNS: u16 = 80;

/// The maximum number of redraws of a bar per second.
const HERTZ: u8 = 20;

/// Returns the target of progress bars: standard error, or nothing if that is not a terminal.
pub(crate) fn target() -> ProgressDrawTarget {
    let plain = ProgressDrawTarget::stderr();
    if plain.is_hidden() {
        return plain;
    }
    ProgressDrawTarget::term_like_with_hz(Box::new(Terminal(Term::buffered_stderr())), HERTZ)
}

/// Writes a line to standard error by one call, as other members of a team may write there too. A
/// closed standard error is not an error.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{what}\n").as_bytes());
}

/// Returns the columns of the terminal on standard error.
pub(crate) fn columns() -> u16 {
    columns_of(rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map_or(0, |size| size.ws_col))
}

/// Uses the columns alone: a terminal may report columns but no rows, as after `stty cols 44`.
const fn columns_of(told: u16) -> u16 {
    if told == 0 { DEFAULT_COLUMNS } else { told }
}

/// A terminal whose width is [`columns`]. `console` uses its default width if the rows are not
/// reported.
#[derive(Debug)]
struct Terminal(Term);

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        columns()
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.0.write_line(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
