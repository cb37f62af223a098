//! The view on a terminal: drawing, and the keys.

use console::{Alignment, pad_str};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use syncline_report::live::{LaneView, State, View};
use syncline_trace::ActivityClass;

use super::table;

/// The lines above the threads, and the line below them.
const HEAD: u16 = 4;
const FOOT: u16 = 1;
/// From this width on there are columns for the processor.
const WIDE: u16 = 110;
/// The widest column of names on a narrow terminal.
const NAMES: usize = 16;
/// A wait of this length stands out.
const LONG: f64 = 1.0;

const HELP: [&str; 11] = [
    "█ work   ░ waiting   · outside of spans, in the last 5 s",
    "",
    "up, down, PgUp, PgDn, Home, End   scroll",
    "s   sort by waiting, or by the order of the threads",
    "q, Esc, Ctrl-C   end the view; a program that was",
    "                 started gets SIGINT",
    "",
    "A wait of a second and longer is red. STUCK: all",
    "threads have waited for a second and longer.",
    "",
    "Any key closes this help.",
];

/// What the keys have changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    /// The first thread that is shown.
    first: usize,
    /// The number of threads that are shown at once, and of all.
    page: usize,
    count: usize,
    by_waiting: bool,
    help: bool,
}

impl Screen {
    /// Acts on a key. Returns whether it ends the view.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return true;
        }
        if std::mem::take(&mut self.help) {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('s') => self.by_waiting = !self.by_waiting,
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first += 1,
            KeyCode::PageUp => self.first = self.first.saturating_sub(self.page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.first += self.page,
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = self.count,
            _ => {}
        }
        self.first = self.first.min(self.count.saturating_sub(self.page));
        false
    }

    /// Draws the view.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, view: &View, cause: Option<&str>) {
        let area = frame.area();
        let mut lanes = table::shown(view);
        if self.by_waiting {
            lanes.sort_by(|a, b| b.wait.total_cmp(&a.wait));
        }
        let ended = table::ended(view);
        self.count = lanes.len() + usize::from(ended.is_some());
        self.page = usize::from(area.height.saturating_sub(HEAD + FOOT)).max(1);
        self.first = self.first.min(self.count.saturating_sub(self.page));
        let columns = Columns::of(&lanes, area.width);
        let mut lines = head(view, cause);
        lines.push(columns.head());
        let rows = lanes.iter().map(|lane| columns.row(lane));
        let rows = rows.chain(ended.map(|line| Line::styled(line, dim())));
        lines.extend(rows.skip(self.first).take(self.page));
        let table = Rect { height: area.height.saturating_sub(FOOT), ..area };
        frame.render_widget(Paragraph::new(lines), table);
        if area.height > HEAD + FOOT {
            let foot = Rect { y: area.bottom() - FOOT, height: FOOT, ..area };
            frame.render_widget(Paragraph::new(self.foot(area.width)), foot);
        }
        if self.help {
            help(frame);
        }
    }

    fn foot(&self, width: u16) -> Line<'static> {
        let keys = "q end   s sort   ? help";
        let last = (self.first + self.page).min(self.count);
        let place = match self.count > self.page {
            true => format!("{} to {last} of {}, arrows scroll", self.first + 1, self.count),
            false => String::new(),
        };
        let sorted = if self.by_waiting { "   by waiting" } else { "" };
        let left = usize::from(width).saturating_sub(place.chars().count());
        let keys = pad_str(&format!("{keys}{sorted}"), left, Alignment::Left, None).into_owned();
        Line::styled(format!("{keys}{place}"), dim())
    }
}

/// The command, the state, and what bounds the run.
fn head(view: &View, cause: Option<&str>) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let command = match view.command.as_str() {
        "" => "syncline top".to_owned(),
        command => table::clean(command),
    };
    let running = view.lanes.iter().filter(|lane| !lane.ended).count();
    let state = match &view.state {
        State::Stuck { .. } => bold.fg(Color::LightRed),
        State::Killed(_) | State::Silent { .. } => bold.fg(Color::Red),
        _ => Style::new(),
    };
    let mut words = vec![Span::styled(table::elapsed(view), state)];
    if view.state == State::Runs {
        words.push(Span::raw(format!("  {running} threads")));
    }
    let cause = table::clean(cause.unwrap_or_default());
    vec![
        Line::styled(command, bold),
        Line::from(words),
        Line::styled(cause, Style::new().fg(Color::Yellow)),
    ]
}

/// The widths of the columns.
#[derive(Clone, Copy, Debug)]
struct Columns {
    name: usize,
    bar: usize,
    /// Whether there are columns for the processor.
    wide: bool,
}

impl Columns {
    fn of(lanes: &[&LaneView], width: u16) -> Self {
        let wide = width >= WIDE;
        let name = table::name_width(lanes);
        if wide {
            Self { name, bar: 30, wide }
        } else {
            Self { name: name.min(NAMES), bar: usize::from(width / 5), wide }
        }
    }

    fn head(self) -> Line<'static> {
        let name = pad_str("thread", self.name, Alignment::Left, None);
        let bar = pad_str("last 5 s", self.bar, Alignment::Left, None);
        let wide = if self.wide { "   cpu queue  " } else { " " };
        let text = format!("{name} {bar}{wide}{:>9}  now", "steps/s");
        Line::styled(text, Style::new().add_modifier(Modifier::UNDERLINED))
    }

    fn row(self, lane: &LaneView) -> Line<'static> {
        let name =
            pad_str(&table::clean(&lane.name), self.name, Alignment::Left, Some("…")).into_owned();
        let mut row = vec![Span::raw(name), Span::raw(" ")];
        row.extend(bar(lane, self.bar));
        if self.wide {
            let part = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), table::percent);
            let [processor, queued] = [part(lane.processor), part(lane.queued)];
            row.push(Span::raw(format!(" {processor:>5} {queued:>5} ")));
        }
        row.push(Span::raw(format!(" {:>9}  ", table::steps(lane))));
        let style = match &lane.now {
            Some(now) if now.class == ActivityClass::Wait && now.seconds >= LONG => {
                Style::new().fg(Color::LightRed)
            }
            Some(now) if now.class == ActivityClass::Wait => Style::new().fg(Color::Yellow),
            Some(_) => Style::new().fg(Color::Green),
            None => dim(),
        };
        row.push(Span::styled(table::now(lane), style));
        let row = Line::from(row);
        if lane.ended { row.style(dim()) } else { row }
    }
}

/// The last seconds of a thread as a bar.
fn bar(lane: &LaneView, width: usize) -> [Span<'static>; 3] {
    let cells = |part: f64, most: usize| ((part * width as f64).round() as usize).min(most);
    let work = cells(lane.work, width);
    let wait = cells(lane.wait, width - work);
    [
        Span::styled("█".repeat(work), Style::new().fg(Color::Green)),
        Span::styled("░".repeat(wait), Style::new().fg(Color::Yellow)),
        Span::styled("·".repeat(width - work - wait), dim()),
    ]
}

fn dim() -> Style {
    Style::new().fg(Color::DarkGray)
}

/// Draws the help over the view.
fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = HELP.iter().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 4;
    let (width, height) = (width.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use syncline_report::live::Now;

    use super::super::table::tests::example;
    use super::*;

    fn draw(
        screen: &mut Screen,
        size: (u16, u16),
        view: &View,
        cause: Option<&str>,
    ) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| screen.draw(frame, view, cause)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |row| {
            let cells = (0..size.0).map(|column| buffer[(column, row)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..size.1).map(line).collect()
    }

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn eighty_columns_suffice() {
        let lines = draw(&mut Screen::default(), (80, 9), &example(), Some("A lock: table."));
        let expected = [
            "syncline run lk23 data",
            "12.3 s  runs  2 threads",
            "A lock: table.",
            "thread   last 5 s           steps/s  now",
            "worker 0 ██████████████░░    12.3 k  block 3, 7, iteration 17, 20.0 ms",
            "worker 1 ████░░░░░░░░░░░░         -  waits for lock \"table\", 3.21 s",
            "1 thread has ended",
            "",
            "q end   s sort   ? help",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn wide_terminals_show_the_processor() {
        let lines = draw(&mut Screen::default(), (120, 9), &example(), None);
        assert!(lines[3].contains("cpu queue"), "{lines:?}");
        assert!(lines[4].contains("  90 %   1 %"), "{lines:?}");
    }

    #[test]
    fn a_stuck_run_says_so_and_names_the_wait() {
        let state = State::Stuck { seconds: 3.2, what: "worker 1 waits for lock \"t\"".into() };
        let view = View { state, ..example() };
        let lines = draw(&mut Screen::default(), (80, 9), &view, None);
        let line = "12.3 s  STUCK: all threads wait, for 3.20 s; worker 1 waits for lock \"t\"";
        assert_eq!(lines[1], line);
    }

    #[test]
    fn keys_sort_scroll_help_and_end() {
        let mut view = example();
        let wait = Now { words: "x".into(), class: ActivityClass::Wait, seconds: 0.0 };
        let more = (2..40).map(|number| LaneView {
            name: format!("worker {number}"),
            wait: f64::from(number) / 100.0,
            now: Some(wait.clone()),
            ..LaneView::default()
        });
        view.lanes.extend(more);
        let mut screen = Screen::default();
        let first = |screen: &mut Screen| draw(screen, (80, 15), &view, None)[4].clone();
        assert!(first(&mut screen).starts_with("worker 0 "));
        assert!(!screen.press(key(KeyCode::Char('s'))));
        assert!(first(&mut screen).starts_with("worker 1 "), "it waits most");
        screen.press(key(KeyCode::Down));
        assert!(first(&mut screen).starts_with("worker 39 "));
        screen.press(key(KeyCode::Char('s')));
        screen.press(key(KeyCode::PageDown));
        assert!(first(&mut screen).starts_with("worker 11 "), "{}", first(&mut screen));
        screen.press(key(KeyCode::End));
        let lines = draw(&mut screen, (80, 15), &view, None);
        assert_eq!(lines[13], "1 thread has ended");
        assert!(lines[14].ends_with("32 to 41 of 41, arrows scroll"), "{}", lines[14]);
        screen.press(key(KeyCode::Home));
        screen.press(key(KeyCode::Char('?')));
        let lines = draw(&mut screen, (80, 15), &view, None);
        assert!(lines.iter().any(|line| line.contains("sort by waiting")), "{lines:?}");
        assert!(!screen.press(key(KeyCode::Char('q'))), "it closes the help");
        assert!(first(&mut screen).starts_with("worker 0 "));
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert!(screen.press(key(code)));
        }
        assert!(screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn no_size_is_too_small() {
        let mut screen = Screen { help: true, ..Screen::default() };
        for size in [(1, 1), (3, 4), (20, 5), (80, 6), (300, 100)] {
            draw(&mut screen, size, &example(), Some("A lock."));
            draw(&mut screen, size, &View::default(), None);
        }
    }
}
