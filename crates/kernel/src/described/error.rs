//! Errors in a description, and their places.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The reason why a description was rejected.
///
/// ```
/// # extern crate syncline_kernel as syncline_wave;
/// # use syncline_wave::Described;
/// let text = "name = 'heat'\nfield = 'u'\nupdate = 'u = (n + s + ee + w) / 4'";
/// let error = Described::parse(text).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 3, column 24: there is no `ee`; is `e` meant?\n  |\n\
///      3 | update = 'u = (n + s + ee + w) / 4'\n  |                        ^^",
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescribedError {
    /// The file could not be read.
    #[error(transparent)]
    Read(Box<syncline_store::Error>),
    /// The text is not a valid description.
    #[error("{}{place}: {message}\n{}", Prefix(path.as_deref()), place.nearby().excerpt())]
    Text {
        /// The file, if the text came from one.
        path: Option<PathBuf>,
        /// The place of the error.
        place: TextPlace,
        /// The error at that place.
        message: String,
    },
}

/// The number of known names that a message lists, at most.
const LISTED: usize = 16;

/// Returns a message that there is no `what` with this name, and which of the `known` names may be
/// meant. `what` may be empty.
///
/// ```
/// # extern crate syncline_kernel as syncline_wave;
/// use syncline_wave::described::unknown_name;
///
/// let known = ["north", "south"];
/// assert_eq!(unknown_name("side", "nroth", known), "there is no side `nroth`; is `north` meant?");
/// assert_eq!(unknown_name("side", "up", known), "there is no side `up`; there are north, south");
/// assert_eq!(unknown_name("side", "up", []), "there is no side `up`; there are none");
/// ```
pub fn unknown_name<'n>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
) -> String {
    let distance =
        |other: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known.iter().map(|other| (distance(other), *other)).min();
    let what = if what.is_empty() { String::new() } else { format!("{what} ") };
    let length = name.chars().count();
    match nearest {
        None => format!("there is no {what}`{name}`; there are none"),
        // A distance of the whole length means that no letter matches, so such a name is not
        // suggested.
        Some((distance, nearest)) if distance <= 1.max(length / 3) && distance < length => {
            format!("there is no {what}`{name}`; is `{nearest}` meant?")
        }
        _ => {
            let more = if known.len() > LISTED { ", ..." } else { "" };
            let listed = known[..known.len().min(LISTED)].join(", ");
            format!("there is no {what}`{name}`; there are {listed}{more}")
        }
    }
}

/// The number of characters that are shown of a line that is more than twice that long.
const NEARBY: usize = 80;

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The number of the line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The number of characters of this line in the place, at least 1.
    pub length: usize,
    /// The line itself. Control characters, which a terminal would interpret, are replaced.
    pub text: String,
}

fn is_hostile(c: char) -> bool {
    c.is_control() && c != '\t'
}

impl TextPlace {
    /// Returns the place of a range of bytes. A bound outside of the text, or inside of a
    /// character, is moved to the nearest boundary before it.
    #[must_use]
    pub fn of(text: &str, range: &Range<usize>) -> Self {
        let boundary = |at: usize| {
            (0..=at.min(text.len())).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0)
        };
        let start = boundary(range.start);
        let end = boundary(range.end).max(start);
        let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let last = text[start..].find('\n').map_or(text.len(), |at| start + at);
        TextPlace {
            line: text[..start].matches('\n').count() + 1,
            column: text[first..start].chars().count() + 1,
            length: text[start..end.min(last)].chars().count().max(1),
            text: text[first..last].trim_end_matches('\r').replace(is_hostile, "\u{FFFD}"),
        }
    }

    /// Returns the same place in an excerpt of the line, if the line is long.
    #[must_use]
    pub fn nearby(&self) -> Self {
        let count = self.text.chars().count();
        if count <= 2 * NEARBY {
            return self.clone();
        }
        let start = self.column.saturating_sub(NEARBY / 2).min(count - NEARBY);
        let before = if start > 0 { "... " } else { "" };
        let after = if start + NEARBY < count { " ..." } else { "" };
        let text: String = self.text.chars().skip(start).take(NEARBY).collect();
        let column = self.column - start + before.len();
        let length = self.length.min(NEARBY + before.len() + 1 - column).max(1);
        TextPlace { text: format!("{before}{text}{after}"), column, length, line: self.line }
    }

    /// Returns the line with carets under the place.
    fn excerpt(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // A tab below a tab has the same width.
        let blank = |c: char| if c == '\t' { c } else { ' ' };
        let before: String = self
            .text
            .chars()
            .map(blank)
            .chain(std::iter::repeat(' '))
            .take(self.column - 1)
            .collect();
        let carets = "^".repeat(self.length);
        format!("{margin} |\n{number} | {}\n{margin} | {before}{carets}", self.text)
    }
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

struct Prefix<'a>(Option<&'a Path>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |path| write!(f, "{}, ", path.display()))
    }
}

/// An error message and the range of bytes that it is about.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) range: Range<usize>,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(range: Range<usize>, message: impl Into<String>) -> Self {
        Fault { range, message: message.into() }
    }

    /// Turns the fault into an error of this text.
    pub(super) fn in_text(self, text: &str, path: Option<&Path>) -> DescribedError {
        let path = path.map(Path::to_owned);
        DescribedError::Text {
            path,
            place: TextPlace::of(text, &self.range),
            message: self.message,
        }
    }
}
