//! The plain loop of a rule: what every executor must equal, bit for bit.
//!
//! # Contract
//! [`plain`] updates the points of the fields one after another, in the order of each iteration's
//! direction, and computes each value of the graph by itself. It shares the graph and the edges
//! with the executors, and no code that computes.
//!
//! # Whole numbers
//! `+ - *`, `-a` and `abs` give the result that the overflow of the rule says. A quotient is
//! rounded towards 0; a quotient by 0 is 0. A conversion to a whole type drops the fraction; a real
//! number that the type cannot hold becomes the nearest one, and NaN becomes 0; a whole number is
//! treated as the overflow says.

use syncline_store::ElementType;
use syncline_store::array::{Array, Bool, Half};

use super::{Beyond, Overflow, Rule};
use crate::described::graph::{Binary, Comparison, Node, Read, Type, Unary};

/// A value of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Double(f64),
    Single(f32),
    Whole(i64),
    /// Of float16, with which nothing is computed.
    Half(Half),
}

/// The parameters of a computation.
#[derive(Clone, Copy)]
struct Computing {
    element: ElementType,
    overflow: Overflow,
}

/// Returns the least and the greatest number of a whole type.
fn limits(element: ElementType) -> (i128, i128) {
    match element {
        ElementType::Uint8 | ElementType::Bool => (0, u8::MAX.into()),
        ElementType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ElementType::Uint32 => (0, u32::MAX.into()),
        ElementType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ElementType::Uint16 => (0, u16::MAX.into()),
        ElementType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

impl Computing {
    /// Returns the number that the type holds in place of an exact result.
    fn held(self, exact: i128) -> Value {
        let (least, most) = limits(self.element);
        let held = match self.overflow {
            Overflow::Saturating => exact.clamp(least, most),
            Overflow::Wrapping => least + (exact - least).rem_euclid(most - least + 1),
        };
        Value::Whole(held as i64)
    }

    /// Returns a number as a value of the type.
    fn constant(self, value: f64) -> Value {
        match self.element {
            ElementType::Float64 => Value::Double(value),
            ElementType::Float32 => Value::Single(value as f32),
            ElementType::Float16 => Value::Half(Half::from_f64(value)),
            _ => self.held(value as i128),
        }
    }

    fn unary(self, op: Unary, x: Value) -> Value {
        match (op, x) {
            (Unary::Neg, Value::Double(x)) => Value::Double(-x),
            (Unary::Abs, Value::Double(x)) => Value::Double(x.abs()),
            (Unary::Sqrt, Value::Double(x)) => Value::Double(x.sqrt()),
            (Unary::Neg, Value::Single(x)) => Value::Single(-x),
            (Unary::Abs, Value::Single(x)) => Value::Single(x.abs()),
            (Unary::Sqrt, Value::Single(x)) => Value::Single(x.sqrt()),
            (Unary::Floor, Value::Double(x)) => Value::Double(x.floor()),
            (Unary::Exp, Value::Double(x)) => Value::Double(x.exp()),
            (Unary::Log, Value::Double(x)) => Value::Double(x.ln()),
            (Unary::Sin, Value::Double(x)) => Value::Double(x.sin()),
            (Unary::Cos, Value::Double(x)) => Value::Double(x.cos()),
            (Unary::Floor, Value::Single(x)) => Value::Single(x.floor()),
            (Unary::Exp, Value::Single(x)) => Value::Single(x.exp()),
            (Unary::Log, Value::Single(x)) => Value::Single(x.ln()),
            (Unary::Sin, Value::Single(x)) => Value::Single(x.sin()),
            (Unary::Cos, Value::Single(x)) => Value::Single(x.cos()),
            (Unary::Neg, Value::Whole(x)) => self.held(-i128::from(x)),
            (Unary::Abs, Value::Whole(x)) => self.held(i128::from(x).abs()),
            // The graph has no such node.
            (_, Value::Whole(_) | Value::Half(_)) => x,
        }
    }

    fn binary(self, op: Binary, x: Value, y: Value) -> Value {
        match (x, y) {
            (Value::Double(x), Value::Double(y)) => Value::Double(match op {
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Mul => x * y,
                Binary::Div => x / y,
                Binary::Rem => {
                    // What `fmod` returns has the sign of the dividend.
                    let rest = x % y;
                    let other = rest.is_sign_negative() != y.is_sign_negative();
                    match rest == 0.0 {
                        true => rest.copysign(y),
                        false => rest + if other { y } else { 0.0 },
                    }
                }
                Binary::Min => {
                    if x < y {
                        x
                    } else {
                        y
                    }
                }
                Binary::Max => {
                    if x > y {
                        x
                    } else {
                        y
                    }
                }
            }),
            (Value::Single(x), Value::Single(y)) => Value::Single(match op {
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Mul => x * y,
                Binary::Div => x / y,
                Binary::Rem => {
                    let rest = x % y;
                    let other = rest.is_sign_negative() != y.is_sign_negative();
                    match rest == 0.0 {
                        true => rest.copysign(y),
                        false => rest + if other { y } else { 0.0 },
                    }
                }
                Binary::Min => {
                    if x < y {
                        x
                    } else {
                        y
                    }
                }
                Binary::Max => {
                    if x > y {
                        x
                    } else {
                        y
                    }
                }
            }),
            (Value::Whole(x), Value::Whole(y)) => {
                let (x, y) = (i128::from(x), i128::from(y));
                self.held(match op {
                    Binary::Add => x + y,
                    Binary::Sub => x - y,
                    Binary::Mul => x * y,
                    Binary::Div => x.checked_div(y).unwrap_or(0),
                    Binary::Rem if y == 0 => 0,
                    Binary::Rem => {
                        let rest = x.rem_euclid(y);
                        if y < 0 && rest > 0 { rest + y } else { rest }
                    }
                    Binary::Min => x.min(y),
                    Binary::Max => x.max(y),
                })
            }
            // The operands of a node have one type.
            (x, _) => x,
        }
    }

    fn cast(self, x: Value) -> Value {
        let (least, most) = limits(self.element);
        match (self.element, x) {
            (ElementType::Float64, Value::Double(x)) => Value::Double(x),
            (ElementType::Float64, Value::Single(x)) => Value::Double(x.into()),
            (ElementType::Float64, Value::Whole(x)) => Value::Double(x as f64),
            (ElementType::Float32, Value::Double(x)) => Value::Single(x as f32),
            (ElementType::Float32, Value::Single(x)) => Value::Single(x),
            (ElementType::Float32, Value::Whole(x)) => Value::Single(x as f32),
            (ElementType::Float32, Value::Half(x)) => Value::Single(x.to_f32()),
            (ElementType::Float16, Value::Double(x)) => Value::Half(Half::from_f64(x)),
            (ElementType::Float16, Value::Single(x)) => Value::Half(Half::from_f64(x.into())),
            (ElementType::Float16, Value::Whole(x)) => Value::Half(Half::from_f64(x as f64)),
            // The graph has no other conversion.
            (_, Value::Half(_)) => x,
            (_, Value::Double(x)) => Value::Whole((x as i128).clamp(least, most) as i64),
            (_, Value::Single(x)) => Value::Whole((x as i128).clamp(least, most) as i64),
            (_, Value::Whole(x)) => self.held(x.into()),
        }
    }
}

fn compare(comparison: Comparison, x: Value, y: Value) -> bool {
    let order = match (x, y) {
        (Value::Double(x), Value::Double(y)) => x.partial_cmp(&y),
        (Value::Single(x), Value::Single(y)) => x.partial_cmp(&y),
        (Value::Whole(x), Value::Whole(y)) => Some(x.cmp(&y)),
        _ => None,
    };
    match comparison {
        Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Comparison::AtMost => order.is_some_and(std::cmp::Ordering::is_le),
        Comparison::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
    }
}

/// Returns element `i` of an array.
fn load(array: &Array, i: usize) -> Value {
    let at = |values: Option<Value>| values.unwrap_or(Value::Whole(0));
    match array.element() {
        ElementType::Float64 => at(array.values::<f64>().map(|v| Value::Double(v[i]))),
        ElementType::Float32 => at(array.values::<f32>().map(|v| Value::Single(v[i]))),
        ElementType::Uint8 => at(array.values::<u8>().map(|v| Value::Whole(v[i].into()))),
        ElementType::Int16 => at(array.values::<i16>().map(|v| Value::Whole(v[i].into()))),
        ElementType::Uint16 => at(array.values::<u16>().map(|v| Value::Whole(v[i].into()))),
        ElementType::Int32 => at(array.values::<i32>().map(|v| Value::Whole(v[i].into()))),
        ElementType::Int64 => at(array.values::<i64>().map(|v| Value::Whole(v[i]))),
        ElementType::Int8 => at(array.values::<i8>().map(|v| Value::Whole(v[i].into()))),
        ElementType::Uint32 => at(array.values::<u32>().map(|v| Value::Whole(v[i].into()))),
        ElementType::Bool => at(array.values::<Bool>().map(|v| Value::Whole(v[i].0.into()))),
        ElementType::Float16 => at(array.values::<Half>().map(|v| Value::Half(v[i]))),
    }
}

/// Stores element `i` of an array; the value has the type of the array.
fn store(array: &mut Array, i: usize, value: Value) {
    let (width, bytes) = (array.element().bytes(), array.bytes_mut());
    let place = &mut bytes[i * width..][..width];
    match value {
        Value::Double(value) => place.copy_from_slice(&value.to_le_bytes()),
        Value::Single(value) => place.copy_from_slice(&value.to_le_bytes()),
        Value::Half(value) => place.copy_from_slice(&value.0.to_le_bytes()),
        // A whole number that fits a type has the low bytes of the number.
        Value::Whole(value) => place.copy_from_slice(&value.to_le_bytes()[..width]),
    }
}

/// Runs iterations `from..to` of the rule over the fields. The arrays are those of the rule in its
/// order, of its types and of one shape; the fields are given apart.
pub fn plain(
    rule: &Rule,
    fields: &mut [Array],
    coefficients: &[&Array],
    iterations: std::ops::Range<u64>,
) {
    let dims = super::three(fields[0].dims());
    let updated = rule.updated(dims);
    let arrays = fields.iter().chain(coefficients.iter().copied());
    let real = rule.real_of(arrays.map(Array::element));
    let nodes = rule.graph.needed(&rule.roots);
    let mut values = vec![Value::Whole(0); rule.graph.len()];
    for iteration in iterations {
        let before = rule.explicit.then(|| fields.to_vec());
        let direction = rule.direction(iteration);
        let ordered = |range: &std::ops::Range<usize>, reversed: bool| -> Vec<usize> {
            if reversed { range.clone().rev().collect() } else { range.clone().collect() }
        };
        for plane in ordered(&updated[0], direction.up) {
            for row in ordered(&updated[1], direction.north) {
                for col in ordered(&updated[2], direction.left) {
                    let point = [plane, row, col];
                    for &id in &nodes {
                        let element = match rule.graph.value_of(id) {
                            Type::Of(element) => element,
                            _ => real,
                        };
                        let computing = Computing { element, overflow: rule.overflow };
                        values[id.index()] = match rule.graph.node(id) {
                            Node::Constant(bits, _) => computing.constant(f64::from_bits(bits)),
                            Node::Read(read) => {
                                let array = match (read.array as usize, &before) {
                                    (n, Some(before)) if n < rule.fields => &before[n],
                                    (n, None) if n < rule.fields => &fields[n],
                                    (n, _) => coefficients[n - rule.fields],
                                };
                                match place(rule, read, point, dims) {
                                    Ok(i) => load(array, i),
                                    Err(number) => computing.constant(number),
                                }
                            }
                            Node::Unary(op, x) => computing.unary(op, values[x.index()]),
                            Node::Binary(op, x, y) => {
                                computing.binary(op, values[x.index()], values[y.index()])
                            }
                            Node::Select(comparison, [p, q, x, y]) => {
                                let holds =
                                    compare(comparison, values[p.index()], values[q.index()]);
                                values[if holds { x } else { y }.index()]
                            }
                            Node::Cast(_, x) => computing.cast(values[x.index()]),
                            Node::Call(function, arguments) => {
                                call(rule, function, arguments.iter().map(|x| values[x.index()]))
                            }
                        };
                    }
                    let i = (plane * dims[1] + row) * dims[2] + col;
                    for (field, root) in fields.iter_mut().zip(&rule.roots) {
                        store(field, i, values[root.index()]);
                    }
                }
            }
        }
    }
}

/// Calls a function that the program gives for one point.
fn call(rule: &Rule, function: u16, arguments: impl Iterator<Item = Value>) -> Value {
    let doubles: Vec<f64> = arguments
        .map(|value| match value {
            Value::Double(x) => x,
            other => unreachable!("the argument {other:?} is no float64"),
        })
        .collect();
    let starts: Vec<*const f64> = doubles.iter().map(std::ptr::from_ref).collect();
    let mut result = [f64::NAN];
    if let Some(code) = &rule.functions[function as usize].code {
        // SAFETY: there is one value of each argument, and of the result.
        unsafe { code.call(&starts, result.as_mut_ptr(), 1) };
    }
    Value::Double(result[0])
}

/// Returns the index of the element that a read at a point leads to, or a number.
fn place(rule: &Rule, read: Read, point: [usize; 3], dims: [usize; 3]) -> Result<usize, f64> {
    let mut at = point;
    for axis in 0..3 {
        let position = point[axis] as isize + isize::from(read.offset[axis]);
        match rule.edges[axis].at(position, dims[axis]) {
            Some(Beyond::At(position)) => at[axis] = position,
            Some(Beyond::Number(number)) => return Err(number),
            // A point that lacks a neighbour beyond a fixed edge is not updated.
            None => unreachable!("the point {point:?} is not updated"),
        }
    }
    Ok((at[0] * dims[1] + at[1]) * dims[2] + at[2])
}
