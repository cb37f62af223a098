//! Words for numbers and lists of things, in messages.

/// Returns the plural ending of a noun for `n` things.
#[must_use]
pub const fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// Joins names into a list in words.
#[must_use]
pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the verb for one thing or several.
#[must_use]
pub fn are(names: &[&str]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}
