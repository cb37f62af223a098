//! The values of an update and their dependencies: a directed acyclic graph.
//!
//! # Contract
//! Equal operations on equal operands are one node, so an expression that is written twice is
//! computed once. Constants are not folded, because a folded constant would not be rounded to the
//! element type at each step; the one exception is the negation of a number, which is exact.
//!
//! # Types
//! Each node has a [`Type`]. The operands of an operation have the same type, which is that of the
//! result; nothing is converted but by [`Node::Cast`]. A number in the text, and an operation on
//! such numbers only, is [`Type::Literal`]: it takes the type of what it is combined with. In a
//! description that gives its arrays no types, all of them are [`Type::Real`], which is float64 or
//! float32, as the data are.
//!
//! A value of bool is only read, chosen and compared with another one: the parser makes comparisons
//! of what a text says of it. One of float16 is only read, chosen and converted: a text computes
//! with it in float32.
//!
//! # Limits
//! The graph has at most [`NODES`] nodes and at most [`DEPTH`] dependent operations in a chain, so
//! that recursion over it is safe.

use std::collections::HashMap;
use std::fmt;

use syncline_store::ElementType;

/// The greatest number of nodes of a graph.
pub(crate) const NODES: usize = 4096;
/// The greatest number of operations each of which needs the previous one.
pub(super) const DEPTH: u16 = 200;
/// The greatest whole number up to which every whole number is a float64.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(u16);

impl Id {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Neg,
    Abs,
    Sqrt,
    Floor,
    Exp,
    /// The natural logarithm.
    Log,
    Sin,
    Cos,
}

impl Unary {
    /// Returns whether the operation is one on real numbers only.
    const fn is_real(self) -> bool {
        !matches!(self, Unary::Neg | Unary::Abs)
    }

    /// Returns the name of the function in a text.
    const fn name(self) -> &'static str {
        match self {
            Unary::Neg => "-",
            Unary::Abs => "abs",
            Unary::Sqrt => "sqrt",
            Unary::Floor => "floor",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
        }
    }
}

/// An operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The remainder, which has the sign of the divisor.
    Rem,
    Min,
    Max,
}

/// A comparison. The other comparisons are these with operands exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Less,
    AtMost,
    Equal,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// That of the values with which it is combined.
    Literal,
    /// float64 or float32, as the data are.
    Real,
    /// A type that the description gives.
    Of(ElementType),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Literal => f.write_str("a number"),
            Type::Real => f.write_str("of the type of the data"),
            Type::Of(element) => f.write_str(element.name()),
        }
    }
}

/// The place and the time at which the update reads an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Read {
    /// The index of the array: the fields first, then the coefficients.
    pub array: u16,
    /// Whether the value is that before the iteration, whatever the order of the updates.
    pub old: bool,
    /// The distance from the point: planes, rows and columns; in two dimensions rows, 0, columns.
    pub offset: [i8; 3],
}

/// The greatest number of arguments of a function that the program gives.
pub(crate) const ARGUMENTS: usize = 16;

/// The arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arguments {
    ids: [Id; ARGUMENTS],
    count: u8,
}

impl Arguments {
    /// Returns the arguments, or `None` if there are none or too many.
    pub(super) fn new(given: &[Id]) -> Option<Self> {
        let first = *given.first()?;
        let mut ids = [first; ARGUMENTS];
        ids.get_mut(..given.len())?.copy_from_slice(given);
        Some(Arguments { ids, count: given.len() as u8 })
    }
}

impl std::ops::Deref for Arguments {
    type Target = [Id];

    fn deref(&self) -> &[Id] {
        &self.ids[..self.count as usize]
    }
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A value of an array.
    Read(Read),
    /// A constant, by its bits as a float64, and its type.
    Constant(u64, Type),
    /// An operation on one value.
    Unary(Unary, Id),
    /// An operation on two values.
    Binary(Binary, Id, Id),
    /// The third value if the comparison of the first two holds, and the fourth otherwise.
    Select(Comparison, [Id; 4]),
    /// A value converted to another type.
    Cast(ElementType, Id),
    /// The result of a function that the program gives, by its index.
    Call(u16, Arguments),
}

impl Node {
    /// Returns the operands from which the value is computed.
    pub(crate) fn operands(&self) -> impl Iterator<Item = Id> {
        let mut operands = [Id(0); ARGUMENTS];
        let count = match self {
            Node::Read(_) | Node::Constant(..) => 0,
            Node::Unary(_, x) | Node::Cast(_, x) => {
                operands[0] = *x;
                1
            }
            Node::Binary(_, x, y) => {
                operands[..2].copy_from_slice(&[*x, *y]);
                2
            }
            Node::Select(_, four) => {
                operands[..4].copy_from_slice(four);
                4
            }
            Node::Call(_, arguments) => {
                operands[..arguments.len()].copy_from_slice(arguments);
                arguments.len()
            }
        };
        operands.into_iter().take(count)
    }

    /// Returns the same operation on other operands.
    fn with(self, mut operand: impl FnMut(Id) -> Result<Id, Refused>) -> Result<Self, Refused> {
        Ok(match self {
            Node::Read(_) | Node::Constant(..) => self,
            Node::Unary(op, x) => Node::Unary(op, operand(x)?),
            Node::Cast(element, x) => Node::Cast(element, operand(x)?),
            Node::Binary(op, x, y) => Node::Binary(op, operand(x)?, operand(y)?),
            Node::Select(comparison, [p, q, x, y]) => {
                let operands = [operand(p)?, operand(q)?, operand(x)?, operand(y)?];
                Node::Select(comparison, operands)
            }
            Node::Call(function, mut arguments) => {
                for id in &mut arguments.ids[..arguments.count as usize] {
                    *id = operand(*id)?;
                }
                Node::Call(function, arguments)
            }
        })
    }
}

/// The reason why a node cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the update is too long: it may have at most {NODES} different operations")]
    Nodes,
    #[error("this is too deep: at most {DEPTH} operations may each need the previous one")]
    Depth,
    #[error("{}", mix(*.0, *.1))]
    Mix(Type, Type),
    #[error("{0} cannot be {1}")]
    Number(f64, ElementType),
    #[error("whole numbers have no square root; convert to float64, for example")]
    WholeRoot,
    #[error(
        "`{name}` takes real numbers, but this is {found}; convert it, as in `float64(...)`",
        name = .0.name(), found = .1
    )]
    Whole(Unary, ElementType),
    #[error(
        "a function takes values of float64, but this is {0}; convert it, as in `float64(...)`"
    )]
    Argument(Type),
    #[error(
        "a value of bool is a condition, and no number; convert it, as in `float64(...)`, or join \
         conditions by `and`, `or` and `not`"
    )]
    Bool,
    #[error("a function needs a value of an array among its arguments")]
    Arguments,
}

/// Returns the message that values of two types are combined.
fn mix(left: Type, right: Type) -> String {
    match (left, right) {
        (Type::Real, Type::Of(known)) | (Type::Of(known), Type::Real) => {
            format!("this combines {known} with an array that has no type; give it one in [types]")
        }
        (left, right) => {
            format!("this combines {left} with {right}; convert one of them, as in `{right}(...)`")
        }
    }
}

/// Returns whether a value of the type can be this number.
pub(crate) fn holds(element: ElementType, value: f64) -> bool {
    let within = |least: f64, most: f64| value.fract() == 0.0 && (least..=most).contains(&value);
    match element {
        ElementType::Float64 | ElementType::Float32 | ElementType::Float16 => true,
        ElementType::Uint8 => within(0.0, u8::MAX.into()),
        ElementType::Int16 => within(i16::MIN.into(), i16::MAX.into()),
        ElementType::Uint16 => within(0.0, u16::MAX.into()),
        ElementType::Int32 => within(i32::MIN.into(), i32::MAX.into()),
        ElementType::Int64 => within(-EXACT, EXACT),
        ElementType::Int8 => within(i8::MIN.into(), i8::MAX.into()),
        ElementType::Uint32 => within(0.0, u32::MAX.into()),
        ElementType::Bool => within(0.0, 1.0),
    }
}

/// What is known about a node.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The depth of its chain of operations.
    depth: u16,
    value: Type,
}

/// The nodes, each after its operands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, Id>,
    known: Vec<Known>,
}

impl Graph {
    /// Returns the existing node for this operation, or adds one. Numbers among its operands take
    /// the type of the others.
    pub(super) fn add(&mut self, node: Node) -> Result<Id, Refused> {
        let node = self.unified(node)?;
        if let Node::Unary(_, x) | Node::Binary(_, x, _) = node
            && self.value_of(x) == Type::Of(ElementType::Bool)
        {
            return Err(Refused::Bool);
        }
        let value = match node {
            Node::Unary(_, x) => self.value_of(x),
            // A number beside a real value is no value of an array by itself.
            Node::Binary(_, x, y) | Node::Select(_, [_, _, x, y]) => self.common(x, y)?,
            Node::Constant(_, value) => value,
            Node::Cast(element, _) => Type::Of(element),
            Node::Call(_, arguments) => match self.value_of(arguments[0]) {
                Type::Literal => Type::Real,
                value => value,
            },
            // The parser adds reads by `read`.
            Node::Read(_) => Type::Real,
        };
        self.insert(node, value)
    }

    /// Returns the node of a read of an array of this type, or adds one.
    pub(super) fn read(&mut self, read: Read, value: Type) -> Result<Id, Refused> {
        self.insert(Node::Read(read), value)
    }

    fn insert(&mut self, node: Node, value: Type) -> Result<Id, Refused> {
        if let Node::Unary(Unary::Neg, x) = node
            && let Node::Constant(bits, Type::Literal) = self.node(x)
        {
            return self.add(Node::Constant((-f64::from_bits(bits)).to_bits(), Type::Literal));
        }
        if let Node::Unary(op, _) = node
            && op.is_real()
            && let Type::Of(element) = value
            && !element.is_real()
        {
            let root = op == Unary::Sqrt;
            return Err(if root { Refused::WholeRoot } else { Refused::Whole(op, element) });
        }
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let depth = node.operands().map(|id| self.known[id.index()].depth + 1).max().unwrap_or(0);
        if depth > DEPTH {
            return Err(Refused::Depth);
        }
        if self.nodes.len() >= NODES {
            return Err(Refused::Nodes);
        }
        let id = Id(self.nodes.len() as u16);
        self.known.push(Known { depth, value });
        self.nodes.push(node);
        self.ids.insert(node, id);
        Ok(id)
    }

    /// Gives the operands that must have the same type that type.
    fn unified(&mut self, node: Node) -> Result<Node, Refused> {
        Ok(match node {
            Node::Binary(op, x, y) => {
                let value = self.common(x, y)?;
                Node::Binary(op, self.coerce(x, value)?, self.coerce(y, value)?)
            }
            Node::Select(comparison, [p, q, x, y]) => {
                let (compared, chosen) = (self.common(p, q)?, self.common(x, y)?);
                let (p, q) = (self.coerce(p, compared)?, self.coerce(q, compared)?);
                Node::Select(comparison, [p, q, self.coerce(x, chosen)?, self.coerce(y, chosen)?])
            }
            Node::Call(_, arguments) => {
                let mut value = Type::Literal;
                for id in arguments.iter() {
                    value = match (value, self.value_of(*id)) {
                        (Type::Literal, other) | (other, Type::Literal) => other,
                        (left, right) if left == right => left,
                        (left, right) => return Err(Refused::Mix(left, right)),
                    };
                }
                match value {
                    Type::Literal => return Err(Refused::Arguments),
                    Type::Real | Type::Of(ElementType::Float64) => {}
                    other => return Err(Refused::Argument(other)),
                }
                node.with(|operand| self.coerce(operand, value))?
            }
            other => other,
        })
    }

    /// Checks that two values may be compared: they have one type, and are numbers.
    pub(super) fn compared(&self, x: Id, y: Id) -> Result<(), Refused> {
        match self.common(x, y)? {
            Type::Of(ElementType::Bool) => Err(Refused::Bool),
            _ => Ok(()),
        }
    }

    /// Returns the type of an operation on two values.
    fn common(&self, x: Id, y: Id) -> Result<Type, Refused> {
        match (self.value_of(x), self.value_of(y)) {
            (Type::Literal, other) | (other, Type::Literal) => Ok(other),
            (left, right) if left == right => Ok(left),
            (left, right) => Err(Refused::Mix(left, right)),
        }
    }

    /// Returns a literal as a value of the type; another value, which has the type, as it is.
    pub(super) fn coerce(&mut self, id: Id, to: Type) -> Result<Id, Refused> {
        let Type::Of(element) = to else { return Ok(id) };
        if self.value_of(id) != Type::Literal {
            return Ok(id);
        }
        match self.node(id) {
            Node::Constant(bits, _) => match f64::from_bits(bits) {
                value if holds(element, value) => self.add(Node::Constant(bits, to)),
                value => Err(Refused::Number(value, element)),
            },
            other => {
                let node = other.with(|operand| self.coerce(operand, to))?;
                self.add(node)
            }
        }
    }

    /// Returns the node of a number of the text, or adds one.
    pub(super) fn constant(&mut self, value: f64) -> Result<Id, Refused> {
        self.add(Node::Constant(value.to_bits(), Type::Literal))
    }

    pub(crate) fn node(&self, id: Id) -> Node {
        self.nodes[id.index()]
    }

    pub(crate) fn value_of(&self, id: Id) -> Type {
        self.known[id.index()].value
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes from which these are computed, and these: each after its operands.
    pub(crate) fn needed(&self, roots: &[Id]) -> Vec<Id> {
        let mut needed = vec![false; self.len()];
        roots.iter().for_each(|id| needed[id.index()] = true);
        for index in (0..self.len()).rev() {
            if needed[index] {
                self.nodes[index].operands().for_each(|id| needed[id.index()] = true);
            }
        }
        (0..self.len()).filter(|&index| needed[index]).map(|index| Id(index as u16)).collect()
    }
}
