//! Syntactic analysis of the text of an update, which builds a graph.
//!
//! ```text
//! update     = { assignment [";"] }                    comments: from # to the end of the line
//! assignment = name "=" sum
//! sum        = product { ("+" | "-") product }         associated to the left, as in C
//! product    = factor { ("*" | "/") factor }
//! factor     = "-" factor | number | value | "(" sum ")" | call
//! value      = [("old" | "new") "."] place
//! place      = name | array "." neighbour | array "[" offset "," offset ["," offset] "]"
//! call       = "min" "(" sum "," sum { "," sum } ")" | "max" ...     associated to the left
//!            | "abs" "(" sum ")" | "sqrt" "(" sum ")" | type "(" sum ")"
//!            | function "(" sum { "," sum } ")"
//!            | "if" "(" sum ("<" | "<=" | ">" | ">=" | "==" | "!=") sum "," sum "," sum ")"
//! ```
//!
//! A new assignment begins where a name is followed by `=`; line breaks have no meaning. `type` is
//! the name of an element type, and converts; `function` is one that the program gives. An offset
//! is a number, possibly with a minus sign.
mod place;

use std::collections::BTreeMap;
use std::ops::Range;

use syncline_store::ElementType;

use super::error::{Fault, unknown_name};
use super::graph::{
    ARGUMENTS, Arguments, Binary, Comparison, Graph, Id, Node, Read, Refused, Type, Unary,
};
use super::lex::{Lexer, Token};
pub(super) use place::offset_of;

/// The greatest nesting of parentheses, functions and signs.
const NESTED: usize = 64;

/// The names of functions, which cannot be given to values.
pub(super) const FUNCTIONS: [&str; 5] = ["abs", "if", "max", "min", "sqrt"];

/// The greatest distance of a neighbour along an axis.
pub(super) const RADIUS: i64 = 2;

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// A constant, or a value of the update.
    Value(Id),
    /// An array, or the point itself.
    Array,
    /// A neighbour of the point: planes, rows and columns.
    Neighbour([i8; 3]),
    /// A function that the program gives.
    Function,
}

/// The known names, each with its meaning and a phrase for its kind.
pub(super) type Names = BTreeMap<String, (Meaning, &'static str)>;

/// An array of the update.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) value: Type,
    /// The value that stands for no data, and what a kernel sees in its place.
    pub(super) nodata: Option<Nodata>,
}

/// No data: the value that means it, and what the update sees there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nodata {
    pub(super) value: f64,
    /// The value seen; `None` for the value of the array at the point.
    pub(super) seen: Option<f64>,
}

/// What is known when the update is parsed.
#[derive(Debug)]
pub(super) struct Context {
    /// The fields first, then the coefficients.
    pub(super) arrays: Vec<Array>,
    /// The number of fields.
    pub(super) fields: usize,
    /// Two or three.
    pub(super) dimensions: usize,
    /// The functions that the program gives.
    pub(super) functions: Vec<String>,
}

/// A read of a field at a neighbour, and the bytes of the text where it is.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) read: Read,
    /// Whether the text says that the value is updated already.
    pub(super) new: bool,
    pub(super) range: Range<usize>,
}

/// What the text of an update says.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The new value of each field.
    pub(super) roots: Vec<Id>,
    /// The reads of fields at neighbours, in the order of the text.
    pub(super) uses: Vec<Use>,
    /// The first operation that may overflow.
    pub(super) overflows: Option<Range<usize>>,
    /// The number of arguments of each function; 0 if it is not called.
    pub(super) arguments: Vec<usize>,
}

/// Parses the update.
pub(super) fn update(
    text: &str,
    context: &Context,
    names: &mut Names,
    graph: &mut Graph,
) -> Result<Parsed, Fault> {
    let lexer = Lexer::new(text);
    let given = vec![None; context.fields];
    let (uses, overflows) = (Vec::new(), None);
    let arguments = vec![0; context.functions.len()];
    let mut parser =
        Parser { lexer, names, context, graph, nested: 0, given, uses, overflows, arguments };
    loop {
        let (token, range) = parser.lexer.next()?;
        let missing = parser.given.iter().position(Option::is_none);
        let name = match (token, missing) {
            (Token::End, None) => return parser.end(range),
            (Token::End, Some(field)) => {
                let field = &context.arrays[field].name;
                return Err(Fault::new(
                    range,
                    format!("the update ends without assigning the field, `{field}`"),
                ));
            }
            (Token::Symbol(";"), _) => continue,
            (_, None) => {
                let which = match context.fields {
                    1 => format!("the field, `{}`", context.arrays[0].name),
                    _ => "all fields".to_owned(),
                };
                return Err(Fault::new(
                    range,
                    format!("nothing may follow the assignment of {which}"),
                ));
            }
            (Token::Name(name), Some(_)) => name,
            (token, Some(_)) => {
                return Err(Fault::new(range, format!("expected a name to assign, not {token}")));
            }
        };
        parser.expect("=", "after the name")?;
        let field = parser.assignable(name, &range)?;
        let value = parser.lexer.peek()?.1;
        let mut id = parser.sum()?;
        parser.assignment_ends()?;
        if let Some(field) = field {
            id = parser.of_type(id, context.arrays[field].value, value)?;
            parser.given[field] = Some(id);
        }
        parser.names.insert(name.to_owned(), (Meaning::Value(id), "a value of the update"));
    }
}

struct Parser<'t, 'g> {
    lexer: Lexer<'t>,
    names: &'g mut Names,
    context: &'g Context,
    graph: &'g mut Graph,
    nested: usize,
    /// The new value of each field, once it is assigned.
    given: Vec<Option<Id>>,
    uses: Vec<Use>,
    overflows: Option<Range<usize>>,
    arguments: Vec<usize>,
}

impl<'t> Parser<'t, '_> {
    /// Checks that the name may be assigned; returns the index of the field that it names, if it
    /// names one.
    fn assignable(&self, name: &str, range: &Range<usize>) -> Result<Option<usize>, Fault> {
        if is_function(name) {
            return Err(Fault::new(
                range.clone(),
                format!("`{name}` is a function and cannot be assigned"),
            ));
        }
        let field = self.context.field(name);
        match self.names.get(name) {
            _ if field.is_some_and(|field| self.given[field].is_some()) => {
                Err(Fault::new(range.clone(), format!("`{name}` is assigned already")))
            }
            Some((_, kind)) if field.is_none() => {
                let message = format!("`{name}` is {kind} already; take another name");
                Err(Fault::new(range.clone(), message))
            }
            _ => Ok(field),
        }
    }

    /// Returns the new values of the fields: a point that has no data in an array keeps them.
    fn end(mut self, range: Range<usize>) -> Result<Parsed, Fault> {
        let context = self.context;
        let mut roots: Vec<Id> = self.given.iter().copied().flatten().collect();
        for (index, array) in context.arrays.iter().enumerate().rev() {
            let Some(nodata) = array.nodata else { continue };
            let here = self.read_raw(index as u16, false, [0; 3], &range)?;
            for (field, root) in roots.iter_mut().enumerate() {
                let kept = self.read_raw(field as u16, false, [0; 3], &range)?;
                *root = self.where_no_data(here, nodata, kept, *root, &range)?;
            }
        }
        let Parser { uses, overflows, arguments, .. } = self;
        Ok(Parsed { roots, uses, overflows, arguments })
    }

    /// Returns the value if it has the type; a number takes the type.
    fn of_type(&mut self, id: Id, wanted: Type, range: Range<usize>) -> Result<Id, Fault> {
        let id = self.graph.coerce(id, wanted).map_err(|why| refused(why, &range))?;
        match self.graph.value_of(id) {
            Type::Literal => Ok(id),
            value if value == wanted => Ok(id),
            value => Err(Fault::new(
                range,
                format!(
                    "this is {value}, but the field is {wanted}; convert it, as in `{wanted}(...)`"
                ),
            )),
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
        let id = self.graph.add(node).map_err(|why| refused(why, &range))?;
        let whole = matches!(self.graph.value_of(id), Type::Of(element) if !element.is_real());
        let exact = matches!(
            node,
            Node::Select(..) | Node::Binary(Binary::Min | Binary::Max, ..) | Node::Constant(..)
        );
        if whole && !exact {
            self.overflows.get_or_insert(range);
        }
        Ok(id)
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
                self.graph.constant(value).map_err(|why| refused(why, &range))?
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
            Token::Name(name) if self.calls(name)? => self.call(name, range)?,
            Token::Name(name) => self.value(name, range)?,
            token => return Err(Fault::new(range, format!("expected a value, not {token}"))),
        };
        self.nested -= 1;
        Ok(id)
    }

    /// Returns whether the name, which was consumed last, is that of a function.
    fn calls(&self, name: &str) -> Result<bool, Fault> {
        // The name of a type may be that of a value, as older descriptions may have such values.
        let open = self.lexer.peek()?.0 == Token::Symbol("(");
        let given = self.context.function(name).is_some();
        Ok(FUNCTIONS.contains(&name) || open && (given || is_function(name)))
    }

    fn call(&mut self, name: &str, range: Range<usize>) -> Result<Id, Fault> {
        self.expect("(", &format!("after `{name}`"))?;
        let first = self.sum()?;
        if let Some(function) = self.context.function(name) {
            let id = self.given_function(function, first, range)?;
            self.expect(")", &format!("at the end of `{name}`"))?;
            return Ok(id);
        }
        let id = match name {
            "abs" => self.add(Node::Unary(Unary::Abs, first), range)?,
            "sqrt" => self.add(Node::Unary(Unary::Sqrt, first), range)?,
            "if" => self.choice(first, range)?,
            _ if !FUNCTIONS.contains(&name) => self.converted(name, first, range)?,
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

    /// Parses the other arguments of a function that the program gives.
    fn given_function(
        &mut self,
        function: usize,
        first: Id,
        range: Range<usize>,
    ) -> Result<Id, Fault> {
        let mut ids = vec![first];
        while self.one_of(&[","])?.is_some() {
            ids.push(self.sum()?);
        }
        let name = &self.context.functions[function];
        let Some(arguments) = Arguments::new(&ids) else {
            let message = format!("`{name}` may have {ARGUMENTS} arguments at most");
            return Err(Fault::new(range, message));
        };
        let known = &mut self.arguments[function];
        if *known != 0 && *known != ids.len() {
            let message = format!("`{name}` has {known} argument(s) above, and {} here", ids.len());
            return Err(Fault::new(range, message));
        }
        *known = ids.len();
        self.add(Node::Call(function as u16, arguments), range)
    }

    /// Returns a value converted to the type of this name.
    fn converted(&mut self, name: &str, id: Id, range: Range<usize>) -> Result<Id, Fault> {
        let Some(element) = ElementType::ALL.into_iter().find(|known| known.name() == name) else {
            return Err(Fault::new(range, unknown_name("function", name, FUNCTIONS)));
        };
        match self.graph.value_of(id) {
            // A number becomes a number of the type; it is not rounded twice.
            Type::Literal => {
                self.graph.coerce(id, Type::Of(element)).map_err(|why| refused(why, &range))
            }
            value if value == Type::Of(element) => Ok(id),
            _ => self.add(Node::Cast(element, id), range),
        }
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

impl Context {
    /// Returns the index of the array of this name.
    fn array(&self, name: &str) -> Option<u16> {
        self.arrays.iter().position(|array| array.name == name).map(|index| index as u16)
    }

    /// Returns the index of the function of this name.
    fn function(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|function| function == name)
    }

    /// Returns the index of the field of this name.
    fn field(&self, name: &str) -> Option<usize> {
        self.arrays[..self.fields].iter().position(|array| array.name == name)
    }
}

/// Returns whether the name is that of a function or of a conversion.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name) || ElementType::ALL.iter().any(|element| element.name() == name)
}

fn refused(why: Refused, range: &Range<usize>) -> Fault {
    Fault::new(range.clone(), why.to_string())
}
