//! The places that an update reads: arrays at the point, at neighbours, before the iteration.
//!
//! ```text
//! value      = [("old" | "new") "."] place
//! place      = name | array "." neighbour | array "[" offset "," offset ["," offset] "]"
//! ```

use std::ops::Range;

use syncline_store::ElementType;

use super::{Array, FUNCTIONS, Item, Meaning, NEWER, Nodata, Parser, RADIUS, Use, refused};
use crate::described::error::{Fault, unknown_name};
use crate::described::graph::{Comparison, Id, Node, Read, Type};
use crate::described::lex::Token;

/// The time at which a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// In the state in which the order of the updates leaves it.
    Now,
    /// Before the iteration.
    Old,
    /// After its update in this iteration.
    New,
}

impl<'t> Parser<'t, '_> {
    /// Returns `none` where a value means no data, and `some` elsewhere.
    pub(super) fn where_no_data(
        &mut self,
        value: Id,
        nodata: Nodata,
        none: Id,
        some: Id,
        range: &Range<usize>,
    ) -> Result<Id, Fault> {
        let node = if nodata.value.is_nan() {
            Node::Select(Comparison::Equal, [value, value, some, none])
        } else {
            let means = self.graph.constant(nodata.value).map_err(|why| refused(why, range))?;
            Node::Select(Comparison::Equal, [value, means, none, some])
        };
        self.add(node, range.clone())
    }

    /// Returns a value of an array as the update computes with it: one of float16 in float32.
    pub(super) fn read_value(
        &mut self,
        array: u16,
        old: bool,
        offset: [i8; 3],
        range: &Range<usize>,
    ) -> Result<Id, Fault> {
        let value = self.read_raw(array, old, offset, range)?;
        self.computed(value, range)
    }

    /// Returns a value as the update computes with it.
    fn computed(&mut self, value: Id, range: &Range<usize>) -> Result<Id, Fault> {
        match self.graph.value_of(value) {
            Type::Of(ElementType::Float16) => {
                self.add(Node::Cast(ElementType::Float32, value), range.clone())
            }
            _ => Ok(value),
        }
    }

    /// Returns a value of an array as it is stored.
    pub(super) fn read_raw(
        &mut self,
        array: u16,
        old: bool,
        offset: [i8; 3],
        range: &Range<usize>,
    ) -> Result<Id, Fault> {
        let value = self.context.arrays[array as usize].value;
        self.graph.read(Read { array, old, offset }, value).map_err(|why| refused(why, range))
    }

    /// Parses a place from its first name on.
    pub(super) fn value(&mut self, name: &'t str, range: Range<usize>) -> Result<Item, Fault> {
        let (when, name, range) = self.when(name, range)?;
        if self.lexer.peek()?.0 == Token::Symbol("(") {
            let types = ElementType::ALL.map(ElementType::name);
            let given = self.context.functions.iter().map(String::as_str);
            let own = FUNCTIONS.iter().chain(&NEWER).copied();
            let known = own.chain(types).chain(given);
            return Err(Fault::new(range, unknown_name("function", name, known)));
        }
        if let Some(array) = self.context.array(name) {
            let (offset, range) = self.offset(name, range)?;
            return match offset {
                Some(offset) if offset != [0; 3] => self.read(array, when, offset, range),
                _ => self.centre(array, when, name, range),
            }
            .map(Item::Value);
        }
        match self.names.get(name) {
            Some(&(Meaning::Value(id), _)) if when == When::Now => Ok(Item::Value(id)),
            Some(&(Meaning::Condition(condition), _)) if when == When::Now => {
                Ok(Item::Condition(condition))
            }
            Some(&(Meaning::Value(_) | Meaning::Condition(_), kind)) => {
                Err(Fault::new(range, format!("`{name}` is {kind}; only a field is old or new")))
            }
            Some(&(Meaning::Neighbour([0, 0, 0]), _)) if self.context.fields == 1 => {
                self.centre(0, when, name, range).map(Item::Value)
            }
            Some(&(Meaning::Neighbour(offset), _)) if self.context.fields == 1 => {
                self.read(0, when, offset, range).map(Item::Value)
            }
            Some((Meaning::Neighbour(_), _)) => {
                let field = &self.context.arrays[0].name;
                Err(Fault::new(
                    range,
                    format!("of which field? Write `{field}.{name}`, for example"),
                ))
            }
            Some((Meaning::Function, _)) => {
                Err(Fault::new(range, format!("`{name}` is a function; its arguments are missing")))
            }
            // Arrays were looked up before.
            Some((Meaning::Array, _)) | None if self.lexer.assigns_later(name) => {
                Err(Fault::new(range, format!("`{name}` is assigned only after this")))
            }
            Some((Meaning::Array, _)) | None => Err(Fault::new(
                range,
                unknown_name("", name, self.names.keys().map(String::as_str)),
            )),
        }
    }

    /// Parses `old.` or `new.`, if the name is one of these and a point follows.
    fn when(
        &mut self,
        name: &'t str,
        range: Range<usize>,
    ) -> Result<(When, &'t str, Range<usize>), Fault> {
        let when = match name {
            "old" if !self.names.contains_key(name) => When::Old,
            "new" if !self.names.contains_key(name) => When::New,
            _ => return Ok((When::Now, name, range)),
        };
        if self.one_of(&["."])?.is_none() {
            return Ok((When::Now, name, range));
        }
        match self.lexer.next()? {
            (Token::Name(name), end) => Ok((when, name, range.start..end.end)),
            (token, range) => {
                Err(Fault::new(range, format!("expected a field or a neighbour, not {token}")))
            }
        }
    }

    /// Parses the neighbour of an array, if there is one.
    fn offset(
        &mut self,
        array: &str,
        range: Range<usize>,
    ) -> Result<(Option<[i8; 3]>, Range<usize>), Fault> {
        match self.one_of(&[".", "["])? {
            None => Ok((None, range)),
            Some((".", _)) => {
                let (token, end) = self.lexer.next()?;
                let meaning = match token {
                    Token::Name(name) => self.names.get(name).map(|(meaning, _)| *meaning),
                    _ => None,
                };
                if let Some(Meaning::Neighbour(offset)) = meaning {
                    return Ok((Some(offset), range.start..end.end));
                }
                let known = self.names.iter();
                let known =
                    known.filter(|(_, (meaning, _))| matches!(meaning, Meaning::Neighbour(_)));
                let message = match token {
                    Token::Name(name) => {
                        unknown_name("neighbour", name, known.map(|(name, _)| name.as_str()))
                    }
                    token => format!("expected a neighbour of `{array}`, not {token}"),
                };
                Err(Fault::new(end, message))
            }
            Some(_) => {
                let mut offsets = vec![self.whole()?];
                while self.one_of(&[","])?.is_some() {
                    offsets.push(self.whole()?);
                }
                let end = self.lexer.peek()?.1;
                self.expect("]", "after the offsets")?;
                let range = range.start..end.end;
                match offset_of(&offsets, self.context.dimensions) {
                    Ok(offset) => Ok((Some(offset), range)),
                    Err(message) => Err(Fault::new(range, message)),
                }
            }
        }
    }

    /// Parses a whole number.
    fn whole(&mut self) -> Result<i64, Fault> {
        let minus = self.one_of(&["-"])?.is_some();
        match self.lexer.next()? {
            (Token::Number(value), _) if value.fract() == 0.0 && value <= 1e9 => {
                Ok(if minus { -(value as i64) } else { value as i64 })
            }
            (token, range) => {
                Err(Fault::new(range, format!("expected a whole number, not {token}")))
            }
        }
    }

    /// Returns the value of an array at the point itself.
    fn centre(
        &mut self,
        array: u16,
        when: When,
        name: &str,
        range: Range<usize>,
    ) -> Result<Id, Fault> {
        let given = self.given.get(array as usize).copied().flatten();
        match (when, given) {
            (When::Now | When::New, Some(id)) => self.computed(id, &range),
            (When::New, None) if (array as usize) < self.context.fields => {
                Err(Fault::new(range, format!("`{name}` is assigned only after this")))
            }
            _ => self.read(array, when, [0; 3], range),
        }
    }

    fn read(
        &mut self,
        array: u16,
        when: When,
        offset: [i8; 3],
        range: Range<usize>,
    ) -> Result<Id, Fault> {
        let is_field = (array as usize) < self.context.fields;
        let Array { name, nodata, .. } = &self.context.arrays[array as usize];
        if when != When::Now && !is_field {
            let message = format!("`{name}` is a coefficient, which never changes");
            return Err(Fault::new(range, message));
        }
        // The value at the point itself is that before the update, in any case.
        let old = when == When::Old && offset != [0; 3];
        if is_field && offset != [0; 3] {
            let read = Read { array, old, offset };
            self.uses.push(Use { read, new: when == When::New, range: range.clone() });
        }
        let nodata = *nodata;
        let value = self.read_value(array, old, offset, &range)?;
        match nodata {
            Some(nodata) if offset != [0; 3] => {
                let seen = match nodata.seen {
                    Some(seen) => self.graph.constant(seen).map_err(|why| refused(why, &range))?,
                    None => self.read_value(array, false, [0; 3], &range)?,
                };
                self.where_no_data(value, nodata, seen, value, &range)
            }
            _ => Ok(value),
        }
    }
}

/// Returns the offset of a neighbour: planes, rows and columns.
///
/// # Errors
/// A message if there are not `dimensions` offsets, or if one is too far.
pub(in crate::described) fn offset_of(
    offsets: &[i64],
    dimensions: usize,
) -> Result<[i8; 3], String> {
    if offsets.len() != dimensions {
        let given = offsets.len();
        return Err(format!("invalid length {given}, expected an array of length {dimensions}"));
    }
    if offsets.iter().any(|offset| offset.abs() > RADIUS) {
        return Err(format!(
            "{offsets:?} is too far: a neighbour is at most {RADIUS} points away along an axis"
        ));
    }
    let at = |axis: usize| offsets[axis] as i8;
    Ok(if dimensions == 2 { [at(0), 0, at(1)] } else { [at(0), at(1), at(2)] })
}
