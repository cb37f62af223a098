//! The TOML file of a description.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use syncline_store::ElementType;
use syncline_store::array::Half;
use toml::{Spanned, Value};

use super::NEIGHBOURS;
use super::error::{Fault, unknown_name};
use super::graph::{self, Graph, Type};
use super::lex;
use super::parse::{self, Array, Context, Meaning, Names, Nodata, Parsed};
use crate::rule::{Direction, Edge, Function, Overflow, Rule};

/// The greatest number of coefficients: their indices are bytes.
const COEFFICIENTS: usize = 256;
/// The greatest number of fields.
const FIELDS: usize = 16;
/// The greatest number of directions that follow one another in turn.
const DIRECTIONS: usize = 16;
/// The names of the axes, and their numbers.
const AXES: [(&str, usize); 3] = [("planes", 0), ("rows", 1), ("columns", 2)];
/// The neighbours in the planes before and after the point, by default.
const PLANES: [(&str, [i8; 3]); 2] = [("up", [-1, 0, 0]), ("down", [1, 0, 0])];

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    name: Spanned<String>,
    field: Option<Spanned<String>>,
    #[serde(default)]
    fields: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    coefficients: Vec<Spanned<String>>,
    thickness: Option<Spanned<i64>>,
    dimensions: Option<Spanned<i64>>,
    directions: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    functions: Vec<Spanned<String>>,
    overflow: Option<Spanned<String>>,
    edges: Option<Spanned<Value>>,
    update: Spanned<String>,
    #[serde(default)]
    constants: BTreeMap<Spanned<String>, f64>,
    neighbours: Option<BTreeMap<Spanned<String>, Spanned<Vec<i64>>>>,
    #[serde(default)]
    types: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    nodata: BTreeMap<Spanned<String>, Spanned<Value>>,
}

/// The table of the edges of single axes, if the file has one.
#[derive(Deserialize)]
struct EdgeTable {
    edges: BTreeMap<Spanned<String>, Spanned<Value>>,
}

impl File {
    /// Parses the text as TOML.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let file: File = toml::from_str(text).map_err(|error| {
            let range = error.span().unwrap_or(0..0);
            let message = error.message().trim_end();
            let message = message.replace("expected f64", "expected a number");
            Fault::new(range, message.replace("expected i64", "expected an integer"))
        })?;
        let name = file.name.get_ref();
        if name.trim().is_empty() || name.contains(char::is_control) {
            return Err(Fault::new(file.name.span(), "a name is one line of text".to_owned()));
        }
        if let Some(thickness) = &file.thickness
            && *thickness.get_ref() != 1
        {
            let message = "the frontier's thickness can only be 1: neighbours touch the point";
            return Err(Fault::new(thickness.span(), message));
        }
        match (&file.field, &file.fields) {
            (None, None) => Err(Fault::new(0..0, "missing field `field`")),
            (Some(one), Some(_)) => Err(Fault::new(one.span(), "there is `fields` already")),
            (None, Some(all)) if all.get_ref().is_empty() || all.get_ref().len() > FIELDS => {
                Err(Fault::new(all.span(), format!("there may be 1 to {FIELDS} fields")))
            }
            _ => Ok(file),
        }
    }

    pub(super) fn into_name(self) -> String {
        self.name.into_inner()
    }
    /// Returns the names of the fields.
    pub(super) fn fields(&self) -> Vec<String> {
        self.spanned_fields().iter().map(|name| name.get_ref().clone()).collect()
    }

    fn spanned_fields(&self) -> Vec<&Spanned<String>> {
        match (&self.field, &self.fields) {
            (Some(one), _) => vec![one],
            (None, all) => all.iter().flat_map(|all| all.get_ref()).collect(),
        }
    }

    /// Returns the names of the coefficients.
    pub(super) fn coefficients(&self) -> Vec<String> {
        self.coefficients.iter().map(|name| name.get_ref().clone()).collect()
    }

    /// Returns what the text says.
    pub(super) fn rule(&self, text: &str) -> Result<Rule, Fault> {
        let dimensions = match self.dimensions.as_ref().map(|d| (*d.get_ref(), d.span())) {
            None | Some((2, _)) => 2,
            Some((3, _)) => 3,
            Some((_, range)) => return Err(Fault::new(range, "there are 2 or 3 dimensions")),
        };
        let mut graph = Graph::default();
        let names = self.names(dimensions, &mut graph)?;
        let context = self.context(dimensions)?;
        let parsed = self.update(text, &context, names, &mut graph)?;
        let overflow = self.overflow(text, &parsed)?;
        let explicit = self.explicit(text, &parsed)?;
        let directions = self.directions(text, dimensions, explicit, &parsed)?;
        let arrays: Vec<_> = context.arrays.iter().map(|a| (a.name.clone(), a.value)).collect();
        let roots = parsed.roots.clone();
        let edges = [Edge::Fixed; 3];
        let fields = context.fields;
        let functions = self.functions(&context, &parsed.arguments)?;
        let rule = Rule {
            dimensions,
            fields,
            arrays,
            graph,
            roots,
            explicit,
            edges,
            overflow,
            directions,
            functions,
            around: None,
        };
        Ok(Rule { edges: self.edges(text, &rule)?, ..rule })
    }

    /// Returns the functions, which have no code yet.
    fn functions(&self, context: &Context, arguments: &[usize]) -> Result<Vec<Function>, Fault> {
        let functions = context.functions.iter().zip(arguments).zip(&self.functions);
        let function = |((name, arguments), written): ((&String, &usize), &Spanned<String>)| {
            if *arguments == 0 {
                let message = format!("the update does not call `{name}`");
                return Err(Fault::new(written.span(), message));
            }
            Ok(Function { name: name.clone(), arguments: *arguments, code: None })
        };
        functions.map(function).collect()
    }

    /// Collects all names that are defined outside of the update.
    fn names(&self, dimensions: usize, graph: &mut Graph) -> Result<Names, Fault> {
        let mut names = Names::new();
        let mut give = |name: &str,
                        meaning: Meaning,
                        kind: &'static str,
                        range: Range<usize>|
         -> Result<(), Fault> {
            if !lex::is_name(name) {
                let message = format!(
                    "{name:?} is not a name: letters, digits and `_`, not beginning with a digit"
                );
                return Err(Fault::new(range, message));
            }
            if parse::FUNCTIONS.contains(&name) {
                return Err(Fault::new(
                    range,
                    format!("`{name}` is a function and cannot be {kind}"),
                ));
            }
            match names.insert(name.to_owned(), (meaning, kind)) {
                None => Ok(()),
                Some((_, before)) if before == kind => {
                    Err(Fault::new(range, format!("`{name}` is {kind} already")))
                }
                Some((_, before)) => {
                    Err(Fault::new(range, format!("`{name}` is {kind}, but also {before}")))
                }
            }
        };
        match &self.neighbours {
            Some(neighbours) => {
                for (name, offset) in neighbours {
                    let place = parse::offset_of(offset.get_ref(), dimensions)
                        .map_err(|message| Fault::new(offset.span(), message))?;
                    give(name.get_ref(), Meaning::Neighbour(place), "a neighbour", name.span())?;
                }
            }
            None => {
                let kind = "a neighbour (without a table of them)";
                for (name, row, col) in NEIGHBOURS {
                    let place = match dimensions {
                        2 => [row as i8, 0, col as i8],
                        _ => [0, row as i8, col as i8],
                    };
                    give(name, Meaning::Neighbour(place), kind, 0..0)?;
                }
                for (name, place) in PLANES.into_iter().filter(|_| dimensions == 3) {
                    give(name, Meaning::Neighbour(place), kind, 0..0)?;
                }
            }
        }
        let fields = self.spanned_fields();
        let kind = if fields.len() == 1 { "the field" } else { "a field" };
        for name in &fields {
            give(name.get_ref(), Meaning::Array, kind, name.span())?;
        }
        for (index, name) in self.coefficients.iter().enumerate() {
            if index >= COEFFICIENTS {
                return Err(Fault::new(
                    name.span(),
                    format!("there may be {COEFFICIENTS} coefficients at most"),
                ));
            }
            give(name.get_ref(), Meaning::Array, "a coefficient", name.span())?;
        }
        for name in &self.functions {
            if parse::is_reserved(name.get_ref()) {
                let message = format!("`{}` is a function of every description", name.get_ref());
                return Err(Fault::new(name.span(), message));
            }
            give(name.get_ref(), Meaning::Function, "a function", name.span())?;
        }
        for (name, value) in &self.constants {
            let id =
                graph.constant(*value).map_err(|full| Fault::new(name.span(), full.to_string()))?;
            give(name.get_ref(), Meaning::Value(id), "a constant", name.span())?;
        }
        Ok(names)
    }

    /// Collects the arrays with their types and what means no data.
    fn context(&self, dimensions: usize) -> Result<Context, Fault> {
        let fields = self.spanned_fields();
        let names = || fields.iter().copied().chain(&self.coefficients);
        let find = |name: &Spanned<String>| {
            let known = names().position(|array| array.get_ref() == name.get_ref());
            known.ok_or_else(|| {
                let known = names().map(|array| array.get_ref().as_str());
                Fault::new(name.span(), unknown_name("array", name.get_ref(), known))
            })
        };
        let mut arrays: Vec<Array> = names()
            .map(|name| Array { name: name.get_ref().clone(), value: Type::Real, nodata: None })
            .collect();
        for (name, element) in &self.types {
            let array = find(name)?;
            let known = ElementType::ALL.into_iter().find(|e| e.name() == element.get_ref());
            let Some(known) = known else {
                let names = ElementType::ALL.map(ElementType::name);
                let message = unknown_name("type", element.get_ref(), names);
                return Err(Fault::new(element.span(), message));
            };
            arrays[array].value = Type::Of(known);
        }
        for (name, nodata) in &self.nodata {
            let array = find(name)?;
            let fault = |message: &str| Fault::new(nodata.span(), message.to_owned());
            let (value, seen) = match nodata.get_ref() {
                Value::Table(table) => {
                    if let Some(other) = table.keys().find(|k| !["value", "seen"].contains(&&***k))
                    {
                        return Err(fault(&unknown_name("key", other, ["value", "seen"])));
                    }
                    let seen = match table.get("seen") {
                        None => None,
                        Some(Value::String(word)) if word == "point" => None,
                        Some(seen) => {
                            let number = number(seen);
                            Some(number.ok_or_else(|| fault("`seen` is a number or \"point\""))?)
                        }
                    };
                    if !table.contains_key("value") {
                        return Err(fault("`value` is missing: the number that means no data"));
                    }
                    (table.get("value").and_then(number), seen)
                }
                value => (number(value), None),
            };
            let value = value.ok_or_else(|| fault("the value that means no data is a number"))?;
            for value in [Some(value), seen].into_iter().flatten() {
                if let Type::Of(element) = arrays[array].value
                    && !graph::holds(element, value)
                {
                    return Err(Fault::new(nodata.span(), format!("{element} cannot be {value}")));
                }
            }
            // The data have the nearest value of the type.
            let stored = |value: f64| match arrays[array].value {
                Type::Of(ElementType::Float16) => Half::from_f64(value).to_f64(),
                _ => value,
            };
            let (value, seen) = (stored(value), seen.map(stored));
            arrays[array].nodata = Some(Nodata { value, seen });
        }
        let functions = self.functions.iter().map(|name| name.get_ref().clone()).collect();
        Ok(Context { arrays, fields: fields.len(), dimensions, functions })
    }

    /// Parses the update.
    fn update(
        &self,
        text: &str,
        context: &Context,
        mut names: Names,
        graph: &mut Graph,
    ) -> Result<Parsed, Fault> {
        parse::update(self.update.get_ref(), context, &mut names, graph)
            .map_err(|fault| self.in_file(text, fault))
    }

    /// Moves a fault in the update to its place in the file.
    fn in_file(&self, text: &str, fault: Fault) -> Fault {
        let (span, update) = (self.update.span(), self.update.get_ref());
        let raw = text.get(span.clone()).unwrap_or_default();
        match Some(contents(raw)).filter(|at| raw.get(at.clone()) == Some(update)) {
            Some(contents) => {
                let start = span.start + contents.start;
                Fault::new(start + fault.range.start..start + fault.range.end, fault.message)
            }
            // With escapes, the bytes of the file are not those of the string.
            None => Fault::new(
                span,
                format!("in the update, byte {}: {}", fault.range.start, fault.message),
            ),
        }
    }

    /// Returns what happens to numbers that are too large; refuses arithmetic on whole numbers if
    /// the file does not say.
    fn overflow(&self, text: &str, parsed: &Parsed) -> Result<Overflow, Fault> {
        match (&self.overflow, &parsed.overflows) {
            (Some(word), _) => match word.get_ref().as_str() {
                "wrapping" => Ok(Overflow::Wrapping),
                "saturating" => Ok(Overflow::Saturating),
                other => {
                    let known = ["wrapping", "saturating"];
                    Err(Fault::new(word.span(), unknown_name("overflow", other, known)))
                }
            },
            (None, None) => Ok(Overflow::default()),
            (None, Some(range)) => {
                let message = "whole numbers may overflow here: say `overflow = \"wrapping\"` or \
                               `overflow = \"saturating\"` above";
                Err(self.in_file(text, Fault::new(range.clone(), message)))
            }
        }
    }

    /// Returns whether the update reads only values before the iteration.
    fn explicit(&self, text: &str, parsed: &Parsed) -> Result<bool, Fault> {
        let Some(old) = parsed.uses.iter().find(|used| used.read.old) else {
            return Ok(parsed.uses.is_empty());
        };
        let Some(other) = parsed.uses.iter().find(|used| !used.read.old) else {
            return Ok(true);
        };
        // The later one of the two is the surprise.
        let later = if old.range.start > other.range.start { old } else { other };
        let message = "this mixes values before the iteration (`old.`) with values in the order of \
                       the updates: the order would decide the result; write `old.` at every \
                       neighbour of a field, or at none";
        Err(self.in_file(text, Fault::new(later.range.clone(), message)))
    }

    /// Returns the directions, and checks that they make what the update calls new.
    fn directions(
        &self,
        text: &str,
        dimensions: usize,
        explicit: bool,
        parsed: &Parsed,
    ) -> Result<Vec<Direction>, Fault> {
        let mut directions = vec![Direction::default()];
        if let Some(given) = &self.directions {
            if explicit {
                let message =
                    "an update that reads only values before the iteration has no direction";
                return Err(Fault::new(given.span(), message));
            }
            let one = |name: &Spanned<String>| {
                direction(dimensions, name.get_ref())
                    .map_err(|message| Fault::new(name.span(), message))
            };
            directions = given.get_ref().iter().map(one).collect::<Result<_, _>>()?;
            if directions.is_empty() || directions.len() > DIRECTIONS {
                let message = format!("there may be 1 to {DIRECTIONS} directions");
                return Err(Fault::new(given.span(), message));
            }
        }
        for used in parsed.uses.iter().filter(|used| used.new) {
            let fault = |message: &str| {
                self.in_file(text, Fault::new(used.range.clone(), message.to_owned()))
            };
            if let Some(direction) = directions.iter().find(|d| !d.has_made(used.read.offset)) {
                let mut known = Direction::names(dimensions).iter();
                let name = known.find(|(_, known)| known == direction);
                let name = name.map_or("", |(name, _)| *name);
                let way = if dimensions == 2 { "to the " } else { "" };
                return Err(fault(&format!(
                    "the sweep {way}{name} has not updated this neighbour yet"
                )));
            }
        }
        Ok(directions)
    }

    /// Returns the edges of planes, rows and columns.
    fn edges(&self, text: &str, rule: &Rule) -> Result<[Edge; 3], Fault> {
        let mut edges = [Edge::Fixed; 3];
        let Some(given) = &self.edges else { return Ok(edges) };
        let known = axes(rule.dimensions);
        if !matches!(given.get_ref(), Value::Table(_)) {
            let edge = edge(given.get_ref(), given.span())?;
            for (name, axis) in known {
                check_edge(rule, (name, axis), edge, given.span())?;
                edges[axis] = edge;
            }
            return Ok(edges);
        }
        let table: EdgeTable = toml::from_str(text)
            .map_err(|error| Fault::new(given.span(), error.message().to_owned()))?;
        for (name, value) in &table.edges {
            let axis = known.iter().find(|(known, _)| known == name.get_ref());
            let Some((name, axis)) = axis else {
                let known = known.iter().map(|(name, _)| *name);
                return Err(Fault::new(name.span(), unknown_name("axis", name.get_ref(), known)));
            };
            let edge = edge(value.get_ref(), value.span())?;
            check_edge(rule, (name, *axis), edge, value.span())?;
            edges[*axis] = edge;
        }
        Ok(edges)
    }
}

/// Returns the direction of this name, or a message.
fn direction(dimensions: usize, name: &str) -> Result<Direction, String> {
    let named = |known: &&(&str, Direction)| known.0 == name;
    let known = Direction::names(dimensions);
    if let Some((_, direction)) = known.iter().find(named) {
        return Ok(*direction);
    }
    let (other, here) = if dimensions == 2 { (3, "two") } else { (2, "three") };
    if Direction::names(other).iter().any(|known| named(&known)) {
        // The names of three dimensions are those of two with another word before.
        let meant = known.iter().filter(|(one, _)| one.ends_with(name) || name.ends_with(one));
        let meant: Vec<String> = meant.map(|(one, _)| format!("`{one}`")).collect();
        let meant = meant.join(" or ");
        return Err(format!(
            "there is no direction `{name}` in {here} dimensions; is {meant} meant?"
        ));
    }
    Err(unknown_name("direction", name, known.iter().map(|(name, _)| *name)))
}

/// Returns the number that a value of the file is, if it is one.
fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// Returns the names and the numbers of the axes.
fn axes(dimensions: usize) -> Vec<(&'static str, usize)> {
    match dimensions {
        2 => vec![("rows", 0), ("columns", 2)],
        _ => AXES.to_vec(),
    }
}

/// Returns the edge of this name or number.
fn edge(value: &Value, range: Range<usize>) -> Result<Edge, Fault> {
    const KNOWN: [&str; 4] = ["fixed", "clamped", "reflected", "periodic"];
    match value {
        Value::String(rule) => match rule.as_str() {
            "fixed" => Ok(Edge::Fixed),
            "clamped" => Ok(Edge::Clamped),
            "reflected" => Ok(Edge::Reflected),
            "periodic" => Ok(Edge::Periodic),
            other => {
                let message = format!("{}, or a number", unknown_name("edge", other, KNOWN));
                Err(Fault::new(range, message))
            }
        },
        value => number(value).map(Edge::Value).ok_or_else(|| {
            Fault::new(range, format!("an edge is one of {}, or a number", KNOWN.join(", ")))
        }),
    }
}

/// Checks that the rule can have the edge at this axis.
fn check_edge(
    rule: &Rule,
    (name, axis): (&str, usize),
    edge: Edge,
    range: Range<usize>,
) -> Result<(), Fault> {
    match edge {
        Edge::Periodic if !rule.explicit => Err(Fault::new(
            range,
            format!(
                "{name} can be periodic only if the update reads values before the iteration \
                 (`old.`)"
            ),
        )),
        Edge::Periodic if axis == 1 => Err(Fault::new(
            range,
            format!("{name} cannot be periodic in three dimensions; planes and columns can"),
        )),
        Edge::Value(value) => {
            let beyond = rule.reads().into_iter().filter(|read| read.offset != [0; 3]);
            let types = beyond.map(|read| rule.arrays[read.array as usize].1);
            let wrong = types.into_iter().find_map(|value_type| match value_type {
                Type::Of(element) if !graph::holds(element, value) => Some(element),
                _ => None,
            });
            match wrong {
                Some(element) => Err(Fault::new(range, format!("{element} cannot be {value}"))),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Returns the range between the quotes of a TOML string.
fn contents(raw: &str) -> Range<usize> {
    for quotes in ["\"\"\"", "'''"] {
        if let Some(inner) = raw.strip_prefix(quotes).and_then(|raw| raw.strip_suffix(quotes)) {
            let line_break =
                ["\r\n", "\n"].into_iter().find(|b| inner.starts_with(b)).map_or(0, str::len);
            return 3 + line_break..raw.len() - 3;
        }
    }
    1.min(raw.len())..raw.len().saturating_sub(1).max(1.min(raw.len()))
}
