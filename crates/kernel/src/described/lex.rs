//! Lexical analysis of the text of an update.

use std::fmt;
use std::ops::Range;

use super::error::Fault;

/// The symbols. Those of two characters come before those of one.
const SYMBOLS: [&str; 19] = [
    "<=", ">=", "==", "!=", "**", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ",", ";", "[",
    "]",
];

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A number without a sign.
    Number(f64),
    /// A name.
    Name(&'t str),
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    /// The end of the text.
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(value) => write!(f, "`{value}`"),
            Token::Name(name) => write!(f, "`{name}`"),
            Token::Symbol(symbol) => write!(f, "`{symbol}`"),
            Token::End => f.write_str("the end"),
        }
    }
}

/// Returns whether `text` is a name: letters, digits and underscores, not beginning with a digit.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(begins_name) && text.chars().all(continues_name)
}

fn begins_name(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn continues_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Iterates over the tokens of a text.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Lexer { text, at: 0 }
    }

    /// Returns the next token and its bytes, without consuming it.
    pub(super) fn peek(&self) -> Result<(Token<'t>, Range<usize>), Fault> {
        self.clone().next()
    }

    /// Returns whether a name and `=` come next.
    pub(super) fn assigns(&self) -> bool {
        let mut ahead = self.clone();
        matches!(ahead.next(), Ok((Token::Name(_), _)))
            && matches!(ahead.next(), Ok((Token::Symbol("="), _)))
    }

    /// Returns whether the name is assigned later in the text.
    pub(super) fn assigns_later(&self, name: &str) -> bool {
        let mut ahead = self.clone();
        loop {
            let assigns = ahead.assigns();
            match ahead.next() {
                Ok((Token::Name(found), _)) if assigns && found == name => return true,
                Ok((Token::End, _)) | Err(_) => return false,
                _ => {}
            }
        }
    }

    /// Consumes the next token; returns it and its bytes.
    pub(super) fn next(&mut self) -> Result<(Token<'t>, Range<usize>), Fault> {
        let rest = self.skip_blank();
        let start = self.at;
        let Some(first) = rest.chars().next() else {
            // The end is reported at the end of the last token.
            let last = self.text.trim_end().len();
            return Ok((Token::End, last..last));
        };
        let (token, length) =
            if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
                (Token::Symbol(symbol), symbol.len())
            } else if rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(begins_name)) {
                (Token::Symbol("."), 1)
            } else if begins_name(first) {
                let length = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
                (Token::Name(&rest[..length]), length)
            } else if let Some(length) = number(rest) {
                let range = start..start + length;
                let value: f64 = rest[..length]
                    .parse()
                    .map_err(|_| Fault::new(range.clone(), "this is not a number"))?;
                if value.is_infinite() {
                    return Err(Fault::new(range, "this number is too large"));
                }
                if rest[length..].starts_with(|c| continues_name(c) || c == '.') {
                    return Err(Fault::new(range, "expected an operator after this number"));
                }
                (Token::Number(value), length)
            } else {
                let hint = match first {
                    '^' => "; write a power as `x ** 3`",
                    '&' => "; write `and`",
                    '|' => "; write `or`",
                    '!' => "; write `not`",
                    _ => "",
                };
                let range = start..start + first.len_utf8();
                return Err(Fault::new(range, format!("{first:?} has no meaning here{hint}")));
            };
        self.at += length;
        Ok((token, start..self.at))
    }

    /// Skips blanks and comments; returns the rest of the text.
    fn skip_blank(&mut self) -> &'t str {
        loop {
            let rest = self.text[self.at..].trim_start();
            self.at = self.text.len() - rest.len();
            if !rest.starts_with('#') {
                return rest;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }
}

/// Returns the length in bytes of the number at the start of the text, if there is one: digits, a
/// point, an exponent.
fn number(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        if whole + fraction == 0 {
            return None;
        }
        length += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        std::iter::from_fn(|| {
            lexer.next().ok().map(|(token, _)| token).filter(|t| *t != Token::End)
        })
        .collect()
    }

    #[test]
    fn numbers() {
        for (text, value) in [
            ("1", 1.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("2.5e-3", 2.5e-3),
            ("1E+2", 100.0),
            ("007", 7.0),
        ] {
            assert_eq!(words(text), [Token::Number(value)], "{text}");
        }
        for text in [".", "1.2.3", "1e", "2x", "1e+", "1e999", "é.", "1..", "$"] {
            let mut lexer = Lexer::new(text);
            let ended = std::iter::from_fn(|| Some(lexer.next()))
                .find(|t| matches!(t, Err(_) | Ok((Token::End, _))));
            assert!(ended.is_some_and(|t| t.is_err()) || text == "é.", "{text}");
        }
    }

    #[test]
    fn words_and_comments() {
        use Token::{Name, Symbol};
        assert_eq!(words("a<=b # c\n=="), [Name("a"), Symbol("<="), Name("b"), Symbol("==")]);
        assert_eq!(words("ω_1--#"), [Name("ω_1"), Symbol("-"), Symbol("-")]);
        assert!(is_name("_a1") && !is_name("1a") && !is_name("") && !is_name("a b"));
    }
}
