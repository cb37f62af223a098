//! Sweeps from a description: a text that names the arrays and defines the update of a point.
//!
//! ```text
//! text --toml--> names, constants, neighbours          described.rs
//!      --lex, parse--> graph of dependent values       lex.rs parse.rs graph.rs
//!      --compile--> steps of a small virtual machine   compile.rs
//!      --program--> executed for 4 vectors at once     steps.rs program.rs
//! ```
//!
//! # Costs
//! About 2 to 4 times those of the same kernel in Rust if the data is in the cache; less than that
//! in a sweep that waits for memory or disk.

mod compile;
mod error;
mod graph;
mod lex;
mod parse;
mod program;
mod steps;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use syncline_store::chunk::read_text;
use toml::Spanned;

pub use error::{DescribedError, TextPlace, unknown_name};

use crate::Stencil;
use error::Fault;
use graph::{Graph, Id, Node};
use parse::Names;
pub(crate) use program::Program;
pub(crate) use steps::Code;

/// The neighbours in the order of their slots: name, row offset and column offset.
const NEIGHBOURS: [(&str, i64, i64); 8] = [
    ("n", -1, 0),
    ("w", 0, -1),
    ("e", 0, 1),
    ("s", 1, 0),
    ("nw", -1, -1),
    ("se", 1, 1),
    ("ne", -1, 1),
    ("sw", 1, -1),
];

/// The greatest number of coefficients: their indices are bytes.
const COEFFICIENTS: usize = 256;

/// The update of a point, described by a text. It needs no compiler.
///
/// # The text
/// The text is a TOML file:
///
/// ```toml
/// name = "lk23"
/// field = "za"
/// coefficients = ["zr", "zb", "zu", "zv", "zz"]   # in the order of their matrices; optional
/// update = """
/// qa = s*zr + n*zb + e*zu + w*zv + zz             # intermediate values, with any names
/// za = za + relax*(qa - za)                       # the field comes last
/// """
///
/// [constants]                                     # optional
/// relax = 0.175
///
/// [neighbours]                                    # row and column offsets; optional, by default
/// n = [-1, 0]                                     # n, w, e, s, nw, ne, sw, se
/// w = [0, -1]
/// e = [0, 1]
/// s = [1, 0]
/// ```
///
/// In the update the name of the field is the point itself, before the update. Neighbours above and
/// to the left are updated already. A point is updated if and only if all neighbours that the
/// update uses exist: with `n`, `w` and `nw` the first row and column stay, with `n`, `w`, `e` and
/// `s` all four edges. Expressions consist of `+ - * /`, parentheses, numbers, `abs(a)`, `sqrt(a)`,
/// `min(a, b, ..)`, `max(a, b, ..)` and `if(a < b, then, else)` with `< <= > >= == !=`.
///
/// # The numbers
/// Each operation is rounded to the element type of the matrices. `+ - * /` associate to the left.
/// No operation is reordered, contracted or computed in advance: the result has the bits of the
/// same expression in Rust, or in C without contraction. `min` and `max` are those of
/// [`Lane`](crate::Lane): the second operand if either is NaN. `if` computes both of its values; a
/// comparison with NaN is false, except `!=`.
///
/// ```
/// use syncline_wave::Described;
///
/// let heat = Described::parse(r#"
///     name = "heat"
///     field = "t"
///     coefficients = ["source", "given"]
///     update = "t = if(given == 0, (n + s + e + w + source) / 4, t)"
/// "#)?;
/// assert_eq!((heat.name(), heat.field()), ("heat", "t"));
/// assert_eq!(heat.coefficients(), ["source", "given"]);
/// assert_eq!(heat.stencil(), syncline_wave::Stencil::FIVE_POINT);
/// # Ok::<(), syncline_wave::described::DescribedError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Described {
    name: String,
    field: String,
    coefficients: Vec<String>,
    code: Code,
}

/// The TOML file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    field: Spanned<String>,
    #[serde(default)]
    coefficients: Vec<Spanned<String>>,
    thickness: Option<Spanned<i64>>,
    update: Spanned<String>,
    #[serde(default)]
    constants: BTreeMap<Spanned<String>, f64>,
    neighbours: Option<BTreeMap<Spanned<String>, Spanned<Vec<i64>>>>,
}

impl Described {
    /// The greatest size, in bytes, of a text that [`from_file`](Self::from_file) reads.
    pub const LONGEST: u64 = 1 << 20;

    /// Parses and compiles a text.
    ///
    /// # Errors
    /// [`DescribedError::Text`], which shows the place of the error.
    pub fn parse(text: &str) -> Result<Self, DescribedError> {
        Self::understand(text).map_err(|fault| fault.in_text(text, None))
    }

    /// Parses and compiles the text of a file.
    ///
    /// # Errors
    /// [`DescribedError::Read`] if the file cannot be read or is not UTF-8; otherwise as for
    /// [`parse`](Self::parse).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, DescribedError> {
        let path = path.as_ref();
        let text =
            read_text(path, Self::LONGEST).map_err(|why| DescribedError::Read(Box::new(why)))?;
        Self::understand(&text).map_err(|fault| fault.in_text(&text, Some(path)))
    }

    /// Returns the name of the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the field.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the names of the coefficients, in the order of their matrices.
    #[must_use]
    pub fn coefficients(&self) -> &[String] {
        &self.coefficients
    }

    /// Returns the neighbours that the update reads. They determine which points are updated: see
    /// [`Stencil`].
    #[must_use]
    pub fn stencil(&self) -> Stencil {
        self.code.stencil()
    }

    pub(crate) const fn code(&self) -> &Code {
        &self.code
    }

    fn understand(text: &str) -> Result<Self, Fault> {
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
        let mut graph = Graph::default();
        let names = file.names(&mut graph)?;
        let field = file.field.get_ref();
        let root = file.update(text, names, &mut graph)?;
        let code = compile::compile(&graph, root, file.coefficients.len())
            .map_err(|error| Fault::new(file.update.span(), error.to_string()))?;
        Ok(Described {
            field: field.clone(),
            coefficients: file.coefficients.iter().map(|name| name.get_ref().clone()).collect(),
            name: file.name.into_inner(),
            code,
        })
    }
}

impl File {
    /// Collects all names that are defined outside of the update.
    fn names(&self, graph: &mut Graph) -> Result<Names, Fault> {
        let mut names = Names::new();
        let mut give = |name: &str,
                        node: Node,
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
            let id: Id =
                graph.add(node).map_err(|full| Fault::new(range.clone(), full.to_string()))?;
            match names.insert(name.to_owned(), (id, kind)) {
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
                    let node = neighbour(offset)?;
                    give(name.get_ref(), node, "a neighbour", name.span())?;
                }
            }
            None => {
                for ((name, _, _), slot) in NEIGHBOURS.into_iter().zip(1..) {
                    give(
                        name,
                        Node::Neighbour(slot),
                        "a neighbour (without a table of them)",
                        0..0,
                    )?;
                }
            }
        }
        give(self.field.get_ref(), Node::Neighbour(0), "the field", self.field.span())?;
        for (index, name) in self.coefficients.iter().enumerate() {
            let Ok(index) = u8::try_from(index) else {
                return Err(Fault::new(
                    name.span(),
                    format!("there may be {COEFFICIENTS} coefficients at most"),
                ));
            };
            give(name.get_ref(), Node::Coefficient(index), "a coefficient", name.span())?;
        }
        for (name, value) in &self.constants {
            give(name.get_ref(), Node::Constant(value.to_bits()), "a constant", name.span())?;
        }
        Ok(names)
    }

    /// Parses the update and returns the new value of the field.
    fn update(&self, text: &str, mut names: Names, graph: &mut Graph) -> Result<Id, Fault> {
        let (span, update) = (self.update.span(), self.update.get_ref());
        parse::update(update, self.field.get_ref(), &mut names, graph).map_err(|fault| {
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
        })
    }
}

/// Returns the node of a neighbour.
fn neighbour(offset: &Spanned<Vec<i64>>) -> Result<Node, Fault> {
    let &[row, col] = offset.get_ref().as_slice() else {
        let message =
            format!("invalid length {}, expected an array of length 2", offset.get_ref().len());
        return Err(Fault::new(offset.span(), message));
    };
    if [row, col] == [0, 0] {
        return Ok(Node::Neighbour(0));
    }
    match NEIGHBOURS.iter().zip(1..).find(|((_, r, c), _)| [*r, *c] == [row, col]) {
        Some((_, slot)) => Ok(Node::Neighbour(slot)),
        None => {
            let message = format!("[{row}, {col}] is too far: neighbours must touch the point");
            Err(Fault::new(offset.span(), message))
        }
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
