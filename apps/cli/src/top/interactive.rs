//! The loop of the view on a terminal.
//!
//! The terminal is restored when [`Screened`] is dropped; a panic restores it before its message,
//! and signals only end the loop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use syncline_common::signals::Signals;
use syncline_common::terminal;

use super::Run;
use super::screen::Screen;
use crate::error::{Error, Result};

/// The time between two drawings.
const REDRAW: Duration = Duration::from_millis(200);
/// The time for reading what is new, before the screen is drawn again.
const READ: Duration = Duration::from_millis(100);
/// The interval at which signals are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The terminal while it shows the view.
struct Screened(DefaultTerminal);

impl Screened {
    fn begin() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                ratatui::restore();
                Err(error)
            }
        }
    }
}

impl Drop for Screened {
    fn drop(&mut self) {
        // Where the terminal has gone, there is nothing to restore.
        let _ = ratatui::try_restore();
    }
}

/// Shows the run until a key or a signal ends the view, or the started program ends. Returns the
/// signal for a program that still runs.
pub(super) fn view(run: &mut Run, signals: &Signals) -> Result<Option<u8>> {
    let failed = |what: &'static str| move |source| Error::Io { what: what.to_owned(), source };
    // Both would end the command without restoring the terminal.
    let left = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&left)).map_err(failed("catch signals"))?;
    }
    let mut screened = Screened::begin().map_err(failed("draw on the terminal"))?;
    let ended = watch(run, signals, &left, &mut screened.0);
    drop(screened);
    if matches!(ended, Ok(None)) {
        run.cause.find(run.follower.bytes());
    }
    if let Some(cause) = run.cause.words() {
        terminal::say(format_args!("{cause}"));
    }
    ended
}

fn watch(
    run: &mut Run,
    signals: &Signals,
    left: &AtomicBool,
    terminal: &mut DefaultTerminal,
) -> Result<Option<u8>> {
    let failed = |source| Error::Io { what: "use the terminal".to_owned(), source };
    let mut screen = Screen::default();
    loop {
        let over = run.program.is_some() && run.is_over()?;
        let at_end = run.follower.poll(READ)?;
        let view = run.follower.live().view();
        run.cause.look(run.follower.bytes(), view.state.is_over());
        let cause = run.cause.words().map(str::to_owned).or_else(|| view.common_wait());
        terminal.draw(|frame| screen.draw(frame, &view, cause.as_deref())).map_err(failed)?;
        if over && at_end {
            return Ok(None);
        }
        let until = Instant::now() + REDRAW;
        while Instant::now() < until {
            if let Some(signal) = signals.take() {
                return match run.program {
                    Some(_) => Ok(Some(signal)),
                    None => Err(Error::interrupted(signal)),
                };
            }
            // Relaxed: the flag is all that is communicated.
            if left.load(Ordering::Relaxed) {
                return Ok(Some(SIGINT as u8));
            }
            if event::poll(LOOK).map_err(failed)? {
                match event::read().map_err(failed)? {
                    Event::Key(key) if screen.press(key) => return Ok(Some(SIGINT as u8)),
                    Event::Key(_) => break,
                    // A program that was started, or the user, changes the size.
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
        }
    }
}
