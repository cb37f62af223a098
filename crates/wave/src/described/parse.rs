//! Syntactic analysis of the text of an update, which builds a graph.
//!
//! ```text
//! update     = { assignment [";"] }                    comments: from # to the end of the line
//! assignment = name "=" sum
//! sum        = product { ("+" | "-") product }         associated to the left, as in C
//! product    = factor { ("*" | "/") factor }
//! factor     = "-" factor | number | name | "(" sum ")" | call
//! call       = "min" "(" sum "," sum { "," sum } ")" | "max" ...     associated to the left
//!            | "abs" "(" sum ")" | "sqrt" "(" sum ")"
//!            | "if" "(" sum ("<" | "<=" | ">" | ">=" | "==" | "!=") sum "," sum "," sum ")"
//! ```
//!
//! A new assignment begins where a name is followed by `=`; line breaks have no meaning.

use std::collections::BTreeMap;
use std::ops::Range;

use super::error::{Fault, unknown_name};
use super::graph::{Binary, Comparison, Full, Graph, Id, Node, Unary};
use super::lex::{Lexer, Token};

/// The greatest nesting of parentheses, functions and signs.
const NESTED: usize = 64;

/// The names of functions, which cannot be given to values.
pub(super) const FUNCTIONS: [&str; 5] = ["abs", "if", "max", "min", "sqrt"];

/// The known names, each with its value and a phrase for its kind.
pub(super) type Names = BTreeMap<String, (Id, &'static str)>;

/// Parses the update; returns the value that it assigns to `field`.
pub(super) fn update(
    text: &str,
    field: &str,
    names: &mut Names,
    graph: &mut Graph,
) -> Result<Id, Fault> {
    let mut parser = Parser { lexer: Lexer::new(text), names, graph, nested: 0 };
    let mut given: Option<Id> = None;
    loop {
        let (token, range) = parser.lexer.next()?;
        let name = match (token, given) {
            (Token::End, Some(id)) => return Ok(id),
            (Token::End, None) => {
                return Err(Fault::new(
                    range,
                    format!("the update ends without assigning the field, `{field}`"),
                ));
            }
            (Token::Symbol(";"), _) => continue,
            (_, Some(_)) => {
                return Err(Fault::new(
                    range,
                    format!("nothing may follow the assignment of the field, `{field}`"),
                ));
            }
            (Token::Name(name), None) => name,
            (token, None) => {
                return Err(Fault::new(range, format!("expected a name to assign, not {token}")));
            }
        };
        parser.expect("=", "after the name")?;
        parser.assignable(name, field, &range)?;
        let id = parser.sum()?;
        parser.assignment_ends()?;
        if name == field {
            given = Some(id);
        } else {
            parser.names.insert(name.to_owned(), (id, "a value of the update"));
        }
    }
}

struct Parser<'t, 'g> {
    lexer: Lexer<'t>,
    names: &'g mut Names,
    graph: &'g mut Graph,
    nested: usize,
}

impl<'t> Parser<'t, '_> {
    fn assignable(&self, name: &str, field: &str, range: &Range<usize>) -> Result<(), Fault> {
        if FUNCTIONS.contains(&name) {
            return Err(Fault::new(
                range.clone(),
                format!("`{name}` is a function and cannot be assigned"),
            ));
        }
        match self.names.get(name) {
            Some((_, kind)) if name != field => {
                let message = format!("`{name}` is {kind} already; take another name");
                Err(Fault::new(range.clone(), message))
            }
            _ => Ok(()),
        }
    }

    /// Checks what follows an assignment: the end, a semicolon, or the next assignment.
    fn assignment_ends(&mut self) -> Result<(), Fault> {
        let (token, range) = self.lexer.peek()?;
        match token {
            Token::End | Token::Symbol(";") => Ok(()),
            Token::Name(_) if self.lexer.assigns() => Ok(()),
            Token::Symbol(symbol) if COMPARISONS.contains(&symbol) => {
                Err(Fault::new(range, "a comparison is only possible in `if(a < b, then, else)`"))
            }
            Token::Symbol("=") => Err(Fault::new(range, "only a name can be assigned")),
            Token::Symbol(")") => Err(Fault::new(range, "no parenthesis is open here")),
            Token::Symbol(",") => {
                Err(Fault::new(range, "a comma is only possible between arguments"))
            }
            token => Err(Fault::new(
                range,
                format!("expected an operator or the next assignment, not {token}"),
            )),
        }
    }

    fn expect(&mut self, symbol: &'static str, place: &str) -> Result<(), Fault> {
        let (token, range) = self.lexer.next()?;
        if token == Token::Symbol(symbol) {
            return Ok(());
        }
        Err(Fault::new(range, format!("expected `{symbol}` {place}, not {token}")))
    }

    /// Consumes the next symbol if it is one of these.
    fn one_of(
        &mut self,
        symbols: &[&'static str],
    ) -> Result<Option<(&'static str, Range<usize>)>, Fault> {
        match self.lexer.peek()? {
            (Token::Symbol(symbol), range) if symbols.contains(&symbol) => {
                self.lexer.next()?;
                Ok(Some((symbol, range)))
            }
            _ => Ok(None),
        }
    }

    fn add(&mut self, node: Node, range: Range<usize>) -> Result<Id, Fault> {
        self.graph.add(node).map_err(|full: Full| Fault::new(range, full.to_string()))
    }

    fn sum(&mut self) -> Result<Id, Fault> {
        let mut left = self.product()?;
        while let Some((symbol, range)) = self.one_of(&["+", "-"])? {
            let right = self.product()?;
            let op = if symbol == "+" { Binary::Add } else { Binary::Sub };
            left = self.add(Node::Binary(op, left, right), range)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Id, Fault> {
        let mut left = self.factor()?;
        while let Some((symbol, range)) = self.one_of(&["*", "/"])? {
            let right = self.factor()?;
            let op = if symbol == "*" { Binary::Mul } else { Binary::Div };
            left = self.add(Node::Binary(op, left, right), range)?;
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Id, Fault> {
        let (token, range) = self.lexer.next()?;
        if self.nested == NESTED {
            return Err(Fault::new(
                range,
                format!("this is nested too deeply: at most {NESTED} levels are allowed"),
            ));
        }
        self.nested += 1;
        let id = match token {
            Token::Number(value) => {
                self.graph.constant(value).map_err(|full| Fault::new(range, full.to_string()))?
            }
            Token::Symbol("-") => {
                let of = self.factor()?;
                self.add(Node::Unary(Unary::Neg, of), range)?
            }
            Token::Symbol("(") => {
                let inner = self.sum()?;
                self.expect(")", "or an operator")?;
                inner
            }
            Token::Name(name) if FUNCTIONS.contains(&name) => self.call(name, range)?,
            Token::Name(name) => self.value(name, range)?,
            token => return Err(Fault::new(range, format!("expected a value, not {token}"))),
        };
        self.nested -= 1;
        Ok(id)
    }

    fn value(&mut self, name: &'t str, range: Range<usize>) -> Result<Id, Fault> {
        if self.lexer.peek()?.0 == Token::Symbol("(") {
            let known = FUNCTIONS.iter().copied();
            return Err(Fault::new(range, unknown_name("function", name, known)));
        }
        match self.names.get(name) {
            Some(&(id, _)) => Ok(id),
            None if self.lexer.assigns_later(name) => {
                Err(Fault::new(range, format!("`{name}` is assigned only after this")))
            }
            None => Err(Fault::new(
                range,
                unknown_name("", name, self.names.keys().map(String::as_str)),
            )),
        }
    }

    fn call(&mut self, name: &str, range: Range<usize>) -> Result<Id, Fault> {
        self.expect("(", &format!("after `{name}`"))?;
        let first = self.sum()?;
        let id = match name {
            "abs" => self.add(Node::Unary(Unary::Abs, first), range)?,
            "sqrt" => self.add(Node::Unary(Unary::Sqrt, first), range)?,
            "if" => self.choice(first, range)?,
            _ => {
                let op = if name == "min" { Binary::Min } else { Binary::Max };
                self.expect(",", &format!("and at least one more argument of `{name}`"))?;
                let second = self.sum()?;
                let mut id = self.add(Node::Binary(op, first, second), range.clone())?;
                while self.one_of(&[","])?.is_some() {
                    let next = self.sum()?;
                    id = self.add(Node::Binary(op, id, next), range.clone())?;
                }
                id
            }
        };
        self.expect(")", &format!("at the end of `{name}`"))?;
        Ok(id)
    }

    /// Parses the rest of an `if`, from the comparison on.
    fn choice(&mut self, left: Id, range: Range<usize>) -> Result<Id, Fault> {
        let Some((symbol, _)) = self.one_of(&COMPARISONS)? else {
            let (token, range) = self.lexer.peek()?;
            return Err(Fault::new(
                range,
                format!("expected a comparison such as `<`, not {token}"),
            ));
        };
        let right = self.sum()?;
        self.expect(",", "after the comparison")?;
        let yes = self.sum()?;
        self.expect(",", "and the value otherwise")?;
        let no = self.sum()?;
        let (comparison, operands) = match symbol {
            "<" => (Comparison::Less, [left, right, yes, no]),
            "<=" => (Comparison::AtMost, [left, right, yes, no]),
            ">" => (Comparison::Less, [right, left, yes, no]),
            ">=" => (Comparison::AtMost, [right, left, yes, no]),
            "==" => (Comparison::Equal, [left, right, yes, no]),
            _ => (Comparison::Equal, [left, right, no, yes]),
        };
        self.add(Node::Select(comparison, operands), range)
    }
}

const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];
