//! Syntactic analysis of the text of an update, which builds a graph.
//!
//! ```text
//! update     = { assignment [";"] }                    comments: from # to the end of the line
//! assignment = name "=" expression
//! expression = sum, or a condition: see `condition.rs`
//! sum        = product { ("+" | "-") product }         associated to the left, as in C
//! product    = factor { ("*" | "/" | "%") factor }
//! factor     = "-" factor | primary ["**" factor]      an exponent is a whole number
//! primary    = number | value | "(" expression ")" | call
//! value      = [("old" | "new") "."] place
//! place      = name | array "." neighbour | array "[" offset "," offset ["," offset] "]"
//! call       = "min" "(" sum "," sum { "," sum } ")" | "max" ...     associated to the left
//!            | "abs" "(" sum ")" | "sqrt" ... | "floor" | "exp" | "log" | "sin" | "cos"
//!            | "isnan" "(" sum ")" | type "(" expression ")"
//!            | function "(" sum { "," sum } ")"
//!            | "if" "(" condition "," expression "," expression ")"
//! ```
//!
//! A new assignment begins where a name is followed by `=`; line breaks have no meaning. `type` is
//! the name of an element type, and converts; `function` is one that the program gives. An offset
//! is a number, possibly with a minus sign.
mod condition;
mod place;

use std::collections::BTreeMap;
use std::ops::Range;

use syncline_store::ElementType;

use super::error::{Fault, unknown_name};
use super::graph::{
    ARGUMENTS, Arguments, Binary, Comparison, Graph, Id, Node, Read, Refused, Type, Unary,
};
use super::lex::{Lexer, Token};
use condition::{Condition, Conditions};
pub(super) use place::offset_of;

/// The greatest nesting of parentheses, functions and signs.
const NESTED: usize = 64;

/// The names of functions, which cannot be given to values.
pub(super) const FUNCTIONS: [&str; 5] = ["abs", "if", "max", "min", "sqrt"];

/// The names of functions that are functions only before a parenthesis: older descriptions may have
/// values, arrays and functions of these names.
const NEWER: [&str; 6] = ["cos", "exp", "floor", "isnan", "log", "sin"];

/// The greatest exponent, and the least one without its sign.
const EXPONENT: f64 = 64.0;

/// The greatest distance of a neighbour along an axis.
pub(super) const RADIUS: i64 = 2;

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// A constant, or a value of the update.
    Value(Id),
    /// A condition of the update.
    Condition(Condition),
    /// An array, or the point itself.
    Array,
    /// A neighbour of the point: planes, rows and columns.
    Neighbour([i8; 3]),
    /// A function that the program gives.
    Function,
}

/// What an expression is.
#[derive(Clone, Copy, Debug)]
enum Item {
    Value(Id),
    Condition(Condition),
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
    let conditions = Conditions::default();
    let mut parser = Parser {
        lexer,
        names,
        context,
        graph,
        nested: 0,
        given,
        uses,
        overflows,
        arguments,
        conditions,
    };
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
        let item = parser.expression()?;
        parser.assignment_ends()?;
        let meaning = match (field, item) {
            (Some(field), item) => {
                let id = parser.of_type(item, context.arrays[field].value, value)?;
                parser.given[field] = Some(id);
                Meaning::Value(id)
            }
            (None, Item::Value(id)) => Meaning::Value(id),
            (None, Item::Condition(condition)) => Meaning::Condition(condition),
        };
        parser.names.insert(name.to_owned(), (meaning, "a value of the update"));
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
    conditions: Conditions,
}

impl<'t> Parser<'t, '_> {
    /// Checks that the name may be assigned; returns the index of the field that it names, if it
    /// names one.
    fn assignable(&self, name: &str, range: &Range<usize>) -> Result<Option<usize>, Fault> {
        if is_reserved(name) {
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
            let here = self.read_value(index as u16, false, [0; 3], &range)?;
            for (field, root) in roots.iter_mut().enumerate() {
                let kept = self.read_raw(field as u16, false, [0; 3], &range)?;
                *root = self.where_no_data(here, nodata, kept, *root, &range)?;
            }
        }
        let Parser { uses, overflows, arguments, .. } = self;
        Ok(Parsed { roots, uses, overflows, arguments })
    }

    /// Returns the value if it has the type; a number takes the type.
    fn of_type(&mut self, item: Item, wanted: Type, range: Range<usize>) -> Result<Id, Fault> {
        let half = wanted == Type::Of(ElementType::Float16);
        // A text computes in float32 with values of float16.
        let computed = if half { Type::Of(ElementType::Float32) } else { wanted };
        let id = match item {
            Item::Value(id) => id,
            Item::Condition(condition) if wanted == Type::Of(ElementType::Bool) => {
                return self.numbers(condition, ElementType::Bool, &range);
            }
            Item::Condition(_) => {
                let hint = match wanted {
                    Type::Of(element) => format!("convert it, as in `{element}(a < b)`"),
                    _ => "write `if(a < b, 1, 0)`".to_owned(),
                };
                let message = format!("this is a comparison, but the field is {wanted}; {hint}");
                return Err(Fault::new(range, message));
            }
        };
        let id = self.graph.coerce(id, computed).map_err(|why| refused(why, &range))?;
        match self.graph.value_of(id) {
            Type::Literal => Ok(id),
            value if value == computed && half => {
                self.add(Node::Cast(ElementType::Float16, id), range)
            }
            value if value == computed => Ok(id),
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
            Node::Select(..)
                | Node::Binary(Binary::Min | Binary::Max | Binary::Rem, ..)
                | Node::Constant(..)
        );
        if whole && !exact {
            self.overflows.get_or_insert(range);
        }
        Ok(id)
    }

    /// Parses a value.
    fn sum(&mut self) -> Result<Id, Fault> {
        let at = self.lexer.peek()?.1;
        let item = self.item_sum()?;
        self.value_of(item, &at)
    }

    fn item_sum(&mut self) -> Result<Item, Fault> {
        let at = self.lexer.peek()?.1;
        let mut left = self.product()?;
        while let Some((symbol, range)) = self.one_of(&["+", "-"])? {
            let one = self.value_of(left, &at)?;
            let at = self.lexer.peek()?.1;
            let right = self.product()?;
            let two = self.value_of(right, &at)?;
            let op = if symbol == "+" { Binary::Add } else { Binary::Sub };
            left = Item::Value(self.add(Node::Binary(op, one, two), range)?);
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Item, Fault> {
        let at = self.lexer.peek()?.1;
        let mut left = self.factor()?;
        while let Some((symbol, range)) = self.one_of(&["*", "/", "%"])? {
            let one = self.value_of(left, &at)?;
            let at = self.lexer.peek()?.1;
            let right = self.factor()?;
            let two = self.value_of(right, &at)?;
            let op = match symbol {
                "*" => Binary::Mul,
                "/" => Binary::Div,
                _ => Binary::Rem,
            };
            left = Item::Value(self.add(Node::Binary(op, one, two), range)?);
        }
        Ok(left)
    }

    /// Goes one level deeper.
    fn deeper(&mut self, range: &Range<usize>) -> Result<(), Fault> {
        if self.nested == NESTED {
            return Err(Fault::new(
                range.clone(),
                format!("this is nested too deeply: at most {NESTED} levels are allowed"),
            ));
        }
        self.nested += 1;
        Ok(())
    }

    fn factor(&mut self) -> Result<Item, Fault> {
        let (token, range) = self.lexer.next()?;
        self.deeper(&range)?;
        let mut item = match token {
            Token::Number(value) => {
                Item::Value(self.graph.constant(value).map_err(|why| refused(why, &range))?)
            }
            Token::Symbol("-") => {
                let at = self.lexer.peek()?.1;
                let of = self.factor()?;
                let of = self.value_of(of, &at)?;
                Item::Value(self.add(Node::Unary(Unary::Neg, of), range.clone())?)
            }
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")", "or an operator")?;
                inner
            }
            Token::Name(name) if self.calls(name)? => self.call(name, range.clone())?,
            Token::Name(name) => self.value(name, range.clone())?,
            token => return Err(Fault::new(range, format!("expected a value, not {token}"))),
        };
        if let Some((_, symbol)) = self.one_of(&["**"])? {
            let base = self.value_of(item, &range)?;
            item = Item::Value(self.power(base, symbol)?);
        }
        self.nested -= 1;
        Ok(item)
    }

    /// Parses an exponent; returns the power, as a product that associates to the left.
    fn power(&mut self, base: Id, range: Range<usize>) -> Result<Id, Fault> {
        let at = self.lexer.peek()?.1;
        let exponent = self.factor()?;
        let number = match exponent {
            Item::Value(id) => match self.graph.node(id) {
                Node::Constant(bits, Type::Literal) => Some(f64::from_bits(bits)),
                _ => None,
            },
            Item::Condition(_) => None,
        };
        let Some(number) = number.filter(|number| number.fract() == 0.0) else {
            let message = "an exponent is a whole number, as in `x ** 3`";
            return Err(Fault::new(at, message));
        };
        if number.abs() > EXPONENT {
            let message = format!("an exponent is at least -{EXPONENT} and at most {EXPONENT}");
            return Err(Fault::new(at, message));
        }
        let value = self.graph.value_of(base);
        let is_whole = matches!(value, Type::Of(element) if !element.is_real());
        if is_whole && number < 0.0 {
            let message = "whole numbers have no powers of less than 0; convert to float64, for \
                           example";
            return Err(Fault::new(at, message));
        }
        let one = self.graph.constant(1.0).map_err(|why| refused(why, &range))?;
        if number == 0.0 {
            return self.graph.coerce(one, value).map_err(|why| refused(why, &range));
        }
        let mut power = base;
        for _ in 1..number.abs() as u32 {
            power = self.add(Node::Binary(Binary::Mul, power, base), range.clone())?;
        }
        match number < 0.0 {
            true => self.add(Node::Binary(Binary::Div, one, power), range),
            false => Ok(power),
        }
    }

    /// Returns an expression as a value.
    fn value_of(&self, item: Item, range: &Range<usize>) -> Result<Id, Fault> {
        match item {
            Item::Value(id) => Ok(id),
            Item::Condition(_) => {
                let message = "this is a comparison, and no number; write `if(a < b, 1, 0)`, for \
                               example";
                Err(Fault::new(range.clone(), message))
            }
        }
    }

    /// Returns an expression as a condition.
    fn condition_of(&mut self, item: Item, range: &Range<usize>) -> Result<Condition, Fault> {
        match item {
            Item::Condition(condition) => Ok(condition),
            Item::Value(id) if self.graph.value_of(id) == Type::Of(ElementType::Bool) => {
                let zero = self.zero(ElementType::Bool).map_err(|why| refused(why, range))?;
                let equal = self.conditions.compare(Comparison::Equal, id, zero);
                Ok(self.conditions.not(equal))
            }
            Item::Value(_) => {
                let message = "this is a number, and no comparison; write `a != 0`, for example";
                Err(Fault::new(range.clone(), message))
            }
        }
    }

    /// Checks that two values may be compared.
    fn comparable(&mut self, left: Id, right: Id, range: &Range<usize>) -> Result<(), Fault> {
        self.graph.compared(left, right).map_err(|why| refused(why, range))
    }

    /// Returns whether the name, which was consumed last, is that of a function.
    fn calls(&self, name: &str) -> Result<bool, Fault> {
        // The name of a type may be that of a value, as older descriptions may have such values.
        let open = self.lexer.peek()?.0 == Token::Symbol("(");
        let given = self.context.function(name).is_some();
        Ok(FUNCTIONS.contains(&name) || open && (given || is_function(name)))
    }

    fn call(&mut self, name: &str, range: Range<usize>) -> Result<Item, Fault> {
        self.expect("(", &format!("after `{name}`"))?;
        let at = self.lexer.peek()?.1;
        let first = self.expression()?;
        if let Some(function) = self.context.function(name) {
            let first = self.value_of(first, &at)?;
            let id = self.given_function(function, first, range)?;
            self.expect(")", &format!("at the end of `{name}`"))?;
            return Ok(Item::Value(id));
        }
        let unary = match name {
            "abs" => Some(Unary::Abs),
            "sqrt" => Some(Unary::Sqrt),
            "floor" => Some(Unary::Floor),
            "exp" => Some(Unary::Exp),
            "log" => Some(Unary::Log),
            "sin" => Some(Unary::Sin),
            "cos" => Some(Unary::Cos),
            _ => None,
        };
        let item = match (name, unary) {
            (_, Some(op)) => {
                let of = self.value_of(first, &at)?;
                Item::Value(self.add(Node::Unary(op, of), range)?)
            }
            ("if", _) => self.choice(first, range)?,
            ("isnan", _) => self.is_nan(first, &at)?,
            ("min" | "max", _) => {
                let first = self.value_of(first, &at)?;
                let op = if name == "min" { Binary::Min } else { Binary::Max };
                self.expect(",", &format!("and at least one more argument of `{name}`"))?;
                let second = self.sum()?;
                let mut id = self.add(Node::Binary(op, first, second), range.clone())?;
                while self.one_of(&[","])?.is_some() {
                    let next = self.sum()?;
                    id = self.add(Node::Binary(op, id, next), range.clone())?;
                }
                Item::Value(id)
            }
            _ => self.converted(name, first, range)?,
        };
        self.expect(")", &format!("at the end of `{name}`"))?;
        Ok(item)
    }

    /// Returns the condition that a value is NaN.
    fn is_nan(&mut self, item: Item, range: &Range<usize>) -> Result<Item, Fault> {
        let id = self.value_of(item, range)?;
        if let Type::Of(element) = self.graph.value_of(id)
            && !element.is_real()
        {
            let message = format!("a whole number is never NaN, and this is {element}");
            return Err(Fault::new(range.clone(), message));
        }
        let equal = self.conditions.compare(Comparison::Equal, id, id);
        Ok(Item::Condition(self.conditions.not(equal)))
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

    /// Returns a value or a condition converted to the type of this name.
    fn converted(&mut self, name: &str, item: Item, range: Range<usize>) -> Result<Item, Fault> {
        let Some(element) = ElementType::ALL.into_iter().find(|known| known.name() == name) else {
            let known = FUNCTIONS.iter().chain(&NEWER).copied();
            return Err(Fault::new(range, unknown_name("function", name, known)));
        };
        let half = element == ElementType::Float16;
        let id = match item {
            Item::Value(id) if self.graph.value_of(id) != Type::Of(ElementType::Bool) => id,
            item if element == ElementType::Bool => return Ok(item),
            item => {
                let condition = self.condition_of(item, &range)?;
                let element = if half { ElementType::Float32 } else { element };
                return self.numbers(condition, element, &range).map(Item::Value);
            }
        };
        if element == ElementType::Bool {
            let zero = self.graph.constant(0.0).map_err(|why| refused(why, &range))?;
            let equal = self.conditions.compare(Comparison::Equal, id, zero);
            return Ok(Item::Condition(self.conditions.not(equal)));
        }
        if half {
            let wide = Type::Of(ElementType::Float64);
            let id = self.graph.coerce(id, wide).map_err(|why| refused(why, &range))?;
            let rounded = self.add(Node::Cast(element, id), range.clone())?;
            return self.add(Node::Cast(ElementType::Float32, rounded), range).map(Item::Value);
        }
        match self.graph.value_of(id) {
            // A number becomes a number of the type; it is not rounded twice.
            Type::Literal => {
                self.graph.coerce(id, Type::Of(element)).map_err(|why| refused(why, &range))
            }
            value if value == Type::Of(element) => Ok(id),
            _ => self.add(Node::Cast(element, id), range),
        }
        .map(Item::Value)
    }

    /// Returns the number 0 of a type.
    fn zero(&mut self, element: ElementType) -> Result<Id, Refused> {
        let zero = self.graph.constant(0.0)?;
        self.graph.coerce(zero, Type::Of(element))
    }

    /// Returns 1 of a type where a condition holds, and 0 elsewhere.
    fn numbers(
        &mut self,
        condition: Condition,
        element: ElementType,
        range: &Range<usize>,
    ) -> Result<Id, Fault> {
        let mut number = |value: f64| {
            let id = self.graph.constant(value)?;
            self.graph.coerce(id, Type::Of(element))
        };
        let (one, zero) = (number(1.0), number(0.0));
        let one = one.map_err(|why| refused(why, range))?;
        let zero = zero.map_err(|why| refused(why, range))?;
        self.choose(condition, one, zero, range)
    }

    /// Parses a value of an `if`; a condition is one of bool.
    fn branch(&mut self) -> Result<Id, Fault> {
        let at = self.lexer.peek()?.1;
        match self.expression()? {
            Item::Value(id) => Ok(id),
            Item::Condition(condition) => self.numbers(condition, ElementType::Bool, &at),
        }
    }

    /// Parses the rest of an `if`, after its condition.
    fn choice(&mut self, first: Item, range: Range<usize>) -> Result<Item, Fault> {
        let condition = match first {
            Item::Condition(condition) => condition,
            Item::Value(id) if self.graph.value_of(id) == Type::Of(ElementType::Bool) => {
                self.condition_of(first, &range)?
            }
            Item::Value(_) => {
                let (token, range) = self.lexer.peek()?;
                let message = format!("expected a comparison such as `<`, not {token}");
                return Err(Fault::new(range, message));
            }
        };
        self.expect(",", "after the comparison")?;
        let yes = self.branch()?;
        self.expect(",", "and the value otherwise")?;
        let no = self.branch()?;
        self.choose(condition, yes, no, &range).map(Item::Value)
    }
}

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
    is_reserved(name) || NEWER.contains(&name)
}

/// Returns whether no value of the update, and no function of the program, may have the name.
pub(super) fn is_reserved(name: &str) -> bool {
    FUNCTIONS.contains(&name) || ElementType::ALL.iter().any(|element| element.name() == name)
}

fn refused(why: Refused, range: &Range<usize>) -> Fault {
    Fault::new(range.clone(), why.to_string())
}
