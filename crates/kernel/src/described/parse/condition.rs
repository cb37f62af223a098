//! Conditions: comparisons, joined by `and`, `or` and `not`.
//!
//! ```text
//! expression  = conjunction { "or" conjunction }
//! conjunction = negation { "and" negation }
//! negation    = "not" negation | sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
//! ```
//!
//! A condition is no value of the graph. A choice by a condition is one choice for each of its
//! comparisons: `if(a and b, x, y)` is `if(a, if(b, x, y), y)`.

use std::ops::Range;

use super::{Item, Parser};
use crate::described::error::Fault;
use crate::described::graph::{Comparison, Id, Node};
use crate::described::lex::Token;

/// The greatest number of comparisons of a condition.
const COMPARED: usize = 100;

/// The symbols of comparisons.
pub(super) const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// The index of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::described) struct Condition(usize);

/// The origin of a condition.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Compare(Comparison, Id, Id),
    Not(Condition),
    And(Condition, Condition),
    Or(Condition, Condition),
}

/// The conditions of an update, each with the number of its comparisons.
#[derive(Debug, Default)]
pub(super) struct Conditions(Vec<(Origin, usize)>);

impl Conditions {
    fn add(&mut self, origin: Origin, comparisons: usize) -> Condition {
        self.0.push((origin, comparisons));
        Condition(self.0.len() - 1)
    }

    /// Returns the condition that a comparison holds.
    pub(super) fn compare(&mut self, comparison: Comparison, left: Id, right: Id) -> Condition {
        self.add(Origin::Compare(comparison, left, right), 1)
    }

    /// Returns the condition that another one does not hold.
    pub(super) fn not(&mut self, condition: Condition) -> Condition {
        match self.0[condition.0] {
            (Origin::Not(inner), _) => inner,
            (_, comparisons) => self.add(Origin::Not(condition), comparisons),
        }
    }
}

impl Parser<'_, '_> {
    /// Parses a value or a condition.
    pub(super) fn expression(&mut self) -> Result<Item, Fault> {
        let at = self.lexer.peek()?.1;
        let mut left = self.conjunction()?;
        while let Some(range) = self.word("or")? {
            let (one, two) = self.both(left, &at, Self::conjunction)?;
            left = self.join(Origin::Or(one, two), [one, two], range)?;
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Item, Fault> {
        let at = self.lexer.peek()?.1;
        let mut left = self.negation()?;
        while let Some(range) = self.word("and")? {
            let (one, two) = self.both(left, &at, Self::negation)?;
            left = self.join(Origin::And(one, two), [one, two], range)?;
        }
        Ok(left)
    }

    /// Returns the left side as a condition, and parses the right one.
    fn both(
        &mut self,
        left: Item,
        at: &Range<usize>,
        right: fn(&mut Self) -> Result<Item, Fault>,
    ) -> Result<(Condition, Condition), Fault> {
        let one = self.condition_of(left, at)?;
        let at = self.lexer.peek()?.1;
        let right = right(self)?;
        Ok((one, self.condition_of(right, &at)?))
    }

    fn join(
        &mut self,
        origin: Origin,
        parts: [Condition; 2],
        range: Range<usize>,
    ) -> Result<Item, Fault> {
        let comparisons: usize = parts.iter().map(|part| self.conditions.0[part.0].1).sum();
        if comparisons > COMPARED {
            let message = format!("a condition may have {COMPARED} comparisons at most");
            return Err(Fault::new(range, message));
        }
        Ok(Item::Condition(self.conditions.add(origin, comparisons)))
    }

    fn negation(&mut self) -> Result<Item, Fault> {
        let is_value = self.names.contains_key("not");
        let Some(range) = (if is_value { None } else { self.word("not")? }) else {
            return self.comparison();
        };
        self.deeper(&range)?;
        let at = self.lexer.peek()?.1;
        let item = self.negation()?;
        self.nested -= 1;
        let condition = self.condition_of(item, &at)?;
        Ok(Item::Condition(self.conditions.not(condition)))
    }

    fn comparison(&mut self) -> Result<Item, Fault> {
        let at = self.lexer.peek()?.1;
        let left = self.item_sum()?;
        let Some((symbol, range)) = self.one_of(&COMPARISONS)? else { return Ok(left) };
        let left = self.value_of(left, &at)?;
        let right = self.sum()?;
        if let Some((_, range)) = self.one_of(&COMPARISONS)? {
            let message = "comparisons form no chain; write `a < b and b < c`";
            return Err(Fault::new(range, message));
        }
        self.comparable(left, right, &range)?;
        let (comparison, left, right) = match symbol {
            "<" => (Comparison::Less, left, right),
            "<=" => (Comparison::AtMost, left, right),
            ">" => (Comparison::Less, right, left),
            ">=" => (Comparison::AtMost, right, left),
            _ => (Comparison::Equal, left, right),
        };
        let condition = self.conditions.compare(comparison, left, right);
        let condition = if symbol == "!=" { self.conditions.not(condition) } else { condition };
        Ok(Item::Condition(condition))
    }

    /// Consumes a word between conditions, if it comes next.
    fn word(&mut self, word: &str) -> Result<Option<Range<usize>>, Fault> {
        match self.lexer.peek()? {
            (Token::Name(name), range) if name == word && !self.lexer.assigns() => {
                self.lexer.next()?;
                Ok(Some(range))
            }
            _ => Ok(None),
        }
    }

    /// Returns one value where the condition holds, and the other one elsewhere.
    pub(super) fn choose(
        &mut self,
        condition: Condition,
        yes: Id,
        no: Id,
        range: &Range<usize>,
    ) -> Result<Id, Fault> {
        // A condition has few comparisons, and is nested at most twice as deep.
        match self.conditions.0[condition.0].0 {
            Origin::Compare(comparison, left, right) => {
                self.add(Node::Select(comparison, [left, right, yes, no]), range.clone())
            }
            Origin::Not(inner) => self.choose(inner, no, yes, range),
            Origin::And(one, two) => {
                let inner = self.choose(two, yes, no, range)?;
                self.choose(one, inner, no, range)
            }
            Origin::Or(one, two) => {
                let inner = self.choose(two, yes, no, range)?;
                self.choose(one, yes, inner, range)
            }
        }
    }
}
