//! The terminal on standard error: lines, progress bars, and its width.
//!
//! # Contract
//! A line is one write, as other processes may write to the same terminal. A bar is hidden where
//! standard error is no terminal.

use std::fmt;
use std::io::{self, Write as _};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// The width if the terminal does not report one.
const DEFAULT_COLUMNS: u16 = 80;

/// The maximum number of redraws of a bar per second.
const HERTZ: u8 = 20;

/// Returns the target of progress bars: standard error, or nothing if that is not a terminal.
fn target() -> ProgressDrawTarget {
    let plain = ProgressDrawTarget::stderr();
    if plain.is_hidden() {
        return plain;
    }
    ProgressDrawTarget::term_like_with_hz(Box::new(Terminal(Term::buffered_stderr())), HERTZ)
}

/// Writes a line to standard error by one call, as other members of a team may write there too. A
/// closed standard error is not an error.
pub fn say(what: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{what}\n").as_bytes());
}

/// Returns the columns of the terminal on standard error.
#[must_use]
pub fn columns() -> u16 {
    told_or_default(
        rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map_or(0, |size| size.ws_col),
    )
}

/// Uses the columns alone: a terminal may report columns but no rows, as after `stty cols 44`.
const fn told_or_default(told: u16) -> u16 {
    if told == 0 { DEFAULT_COLUMNS } else { told }
}

/// Returns a bar on standard error, or a hidden one if that is not a terminal.
///
/// The template is one of indicatif's.
#[must_use]
pub fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Returns the text of a bar, without the bar.
pub(crate) fn in_words(bar: &ProgressBar) -> String {
    let part =
        |len: u64| format!("{}, {} %", bar.message(), bar.position().saturating_mul(100) / len);
    bar.length().filter(|&len| len > 0).map_or_else(|| bar.message(), part)
}

/// Returns the columns of the terminal for the text behind the prefix of a bar, or `None` if the
/// bar is not drawn.
#[must_use]
pub fn columns_of(bar: &ProgressBar) -> Option<usize> {
    let all = || usize::from(columns());
    (!bar.is_hidden()).then(|| all().saturating_sub(bar.prefix().chars().count()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_in_words() {
        let bar = ProgressBar::hidden();
        bar.set_message("pass 1 of 2");
        assert_eq!(in_words(&bar), "pass 1 of 2");
        bar.set_length(8);
        bar.set_position(2);
        assert_eq!(in_words(&bar), "pass 1 of 2, 25 %");
    }
}
