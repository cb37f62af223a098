//! The terminal on standard error: how wide it is, and what bars are drawn on.

use std::io;

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

/// The width where the terminal does not tell its own.
const DEFAULT_COLUMNS: u16 = 80;

/// How often a bar is drawn anew, at most, in a second.
const HERTZ: u8 = 20;

/// What bars are drawn on: standard error, or nothing where that is no terminal.
pub(crate) fn target() -> ProgressDrawTarget {
    let plain = ProgressDrawTarget::stderr();
    if plain.is_hidden() {
        return plain;
    }
    ProgressDrawTarget::term_like_with_hz(Box::new(Terminal(Term::buffered_stderr())), HERTZ)
}

/// The columns of the terminal on standard error.
pub(crate) fn columns() -> u16 {
    columns_of(rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map_or(0, |size| size.ws_col))
}

/// The width is taken from the columns alone: a terminal may tell these and no rows, as after `stty
/// cols 44`.
const fn columns_of(told: u16) -> u16 {
    if told == 0 { DEFAULT_COLUMNS } else { told }
}

/// A terminal whose width is [`columns`]. `console` takes its default width if the rows are not
/// told.
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
