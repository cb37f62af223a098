//! Kernels from a description: a text that names the arrays and defines the update of a point.
//!
//! ```text
//! text --toml--> names, constants, neighbours          file.rs
//!      --lex, parse--> graph of dependent values       lex.rs parse.rs graph.rs
//!      --compile--> steps of a small virtual machine   compile.rs
//!      --program--> executed for 4 vectors at once     steps.rs program.rs
//! ```
//!
//! Where there is machine code for the graph (`rule/native`), it is executed instead of the steps.
//!
//! # Costs
//! About 2 to 2.5 times those of the same kernel in Rust if the data is in the cache, and 3 times
//! as steps; less than that in a sweep that waits for memory or disk.

mod compile;
mod error;
mod file;
pub(crate) mod functions;
pub(crate) mod graph;
mod lex;
mod parse;
mod program;
pub(crate) mod scalar;
mod steps;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use syncline_store::chunk::read_text;

pub use error::{DescribedError, TextPlace, unknown_name};

use crate::Stencil;
use crate::rule::{Direction, Edge, Rule};
use error::Fault;
use file::File;
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
/// `s` all four edges. Expressions consist of `+ - * / %`, powers such as `a ** 3`, parentheses,
/// numbers, `abs(a)`, `sqrt(a)`, `floor(a)`, `exp(a)`, `log(a)`, `sin(a)`, `cos(a)`,
/// `min(a, b, ..)`, `max(a, b, ..)` and `if(condition, then, else)`.
///
/// A condition is a comparison by `< <= > >= == !=`, or `isnan(a)`, or several of these, joined by
/// `not`, `and`, `or` and parentheses; `not` binds most tightly, and `or` least. A condition can
/// have a name: `hot = u > 80 and not isnan(c)`, then `u = if(hot, 80, u)`. It is no number:
/// `if(hot, 1, 0)` is one.
///
/// # Kernels over arrays
/// A text may say more. [`needs_arrays`](Self::needs_arrays) then returns true, and the kernel is
/// one for `Sweep::run_arrays`.
///
/// * `old.n`: the value before the iteration. An *explicit* kernel reads all neighbours so.
/// * `new.n`: the same as `n`; an error where a direction has not updated it yet.
/// * `fields = ["a", "b"]`: several fields, read as `a.n` or `old.b.s`. After `a = ..`, `a` is the
///   new value.
/// * `c.n`, `u[-2, 0]`: an array at a neighbour, by its name, or by rows and columns, up to 2 away.
/// * `dimensions = 3`: planes, rows and columns, as in `u[-1, 0, 0]`; `up` and `down` are planes.
/// * `directions = ["south-east", ..]`: the directions of the iterations in turn: south-east (the
///   default), south-west, north-west and north-east. In three dimensions each has `down-` or
///   `up-` before it, and down-south-east is the default. Explicit kernels have none.
/// * `edges = "clamped"`, or `{ rows = .., columns = .. }`: what is beyond an edge. `"fixed"` (as
///   above), `"clamped"` (the last element), `"reflected"` (about it: next to the last element is
///   the one before it; on a short axis also about the other edge), a number, or, for the first and
///   the last axis of explicit kernels, `"periodic"`.
/// * `[types]` with `u = "uint8"`: float64, float32, int8, uint8, int16, uint16, int32, uint32,
///   int64, bool or float16. `float64(u)` converts; nothing else does.
/// * A value of bool is a condition: any byte but 0 is true. `float64(m)` of a condition is 1 or 0,
///   and `bool(u)` is `u != 0`. A field of bool is assigned a condition, which is stored as 1 or 0.
/// * A value of float16 is one of float32 as soon as it is read, and is rounded to the nearest, of
///   two equally near ones to the even one, when it is stored. `float16(u)` rounds to the number
///   that float16 would hold, once, and is one of float32.
/// * `overflow = "wrapping"` or `"saturating"`: what becomes of a whole number that its type cannot
///   hold.
/// * `functions = ["f"]`: functions that the program gives, see
///   [`with_function`](Self::with_function).
/// * `[nodata]` with `u = -9999`: a point where any array has such a value keeps all its fields,
///   and its neighbours see the value of the point itself; `u = { value = nan, seen = 0 }` lets
///   them see a number. A number beyond an edge that is that value means no data as well.
///
/// In a direction such as north-west, the rows are updated from the last to the first, and the
/// points of a row from right to left; in one such as up-south-east, the planes from the last to
/// the first. Names of neighbours stay. A kernel that mixes values before the iteration with values
/// in the order of the updates is refused.
///
/// Quotients of whole numbers are rounded towards 0, and a quotient by 0 is 0. A conversion to a
/// whole type drops the fraction; a real number that the type cannot hold becomes the nearest one,
/// and NaN becomes 0.
///
/// # The numbers
/// Each operation is rounded to the element type of the matrices. `+ - * /` associate to the left.
/// No operation is reordered, contracted or computed in advance: the result has the bits of the
/// same expression in Rust, or in C without contraction. `min` and `max` are those of
/// [`Lane`](crate::Lane): the second operand if either is NaN. `if` computes both of its values; a
/// comparison with NaN is false, except `!=`.
///
/// | written    | result                                                                         |
/// |------------|--------------------------------------------------------------------------------|
/// | `floor(a)` | the greatest whole number that is at most `a`; exact, -0.0 stays -0.0          |
/// | `a % b`    | the remainder, with the sign of `b`, as in Python and numpy: `-1 % 3` is 2     |
/// | `a ** 3`   | `a * a * a`, from the left; `a ** -3` is `1 / (a * a * a)`; `a ** 0` is 1       |
/// | `exp(a)`   | also `log`, `sin`, `cos`: those of the platform's mathematical library         |
///
/// A remainder is that of C's `fmod`, which is exact, plus `b` if the signs differ; by 0 it is NaN,
/// and of whole numbers 0. So a position that leaves a period at its begin comes back at its end.
/// An exponent is a whole number from -64 to 64, or the name of a constant that is one. It binds
/// more tightly than a sign before it: `-a ** 2` is `-(a ** 2)`. Whole numbers have no powers of
/// less than 0. `exp`, `log`, `sin` and `cos` are those that [`f64`] or [`f32`] has for the type:
/// their last bits may differ between platforms, and are the same in all executors of one.
/// Comparisons, `floor` and powers have vector instructions; the others are called for each value.
///
/// ```
/// # extern crate syncline_kernel as syncline_wave;
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
    fields: Vec<String>,
    coefficients: Vec<String>,
    rule: Rule,
    /// The steps, if the rule is that of one field, ordered, and without types and edges.
    code: Option<Code>,
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

    /// Returns the name of the field; of several, that of the first.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.fields[0]
    }

    /// Returns the names of the fields, in the order of the text.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Returns whether only a sweep over [`Array`](syncline_store::array::Array)s can run the
    /// kernel: it has several fields, types, edges or directions, reads values before the
    /// iteration, distant neighbours or coefficients at neighbours, has three dimensions, or has
    /// more than 256 numbers or 55 values that are needed again later.
    #[must_use]
    pub const fn needs_arrays(&self) -> bool {
        self.code.is_none()
    }

    /// Returns how many rows (or planes) below a point an iteration reads, at most: after `k`
    /// iterations the first `n` rows depend on the first `n + k * below` rows only. `None` if an
    /// iteration goes up, when each row depends on all below it.
    ///
    /// ```
    /// # extern crate syncline_kernel as syncline_wave;
    /// use syncline_wave::Described;
    ///
    /// let text = "name = 'x'\nfield = 'u'\nupdate = 'u = old.u[2, 0] - old.n'";
    /// assert_eq!(Described::parse(text)?.reads_below(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reads_below(&self) -> Option<usize> {
        let (above, below) = self.rule.reach()[0];
        let up = |direction: &Direction| direction.up;
        match self.rule.directions.iter().any(up) && !self.rule.explicit {
            true => None,
            // The first rows need the last ones.
            false if self.rule.edges[0] == Edge::Periodic => None,
            // An edge may lead a read above the first row to a row below the point.
            false if self.rule.edges[0] != Edge::Fixed => Some(above.max(below)),
            false => Some(below),
        }
    }

    /// Returns the number of dimensions: two or three.
    #[must_use]
    pub const fn dimensions(&self) -> usize {
        self.rule.dimensions
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
        self.rule.touching()
    }

    #[doc(hidden)]
    pub const fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Returns the steps, which a rule that only arrays can hold does not have.
    pub(crate) fn code(&self) -> crate::Result<&Code> {
        let name = || crate::Error::OfArrays { kernel: self.name.clone() };
        self.code.as_ref().ok_or_else(name)
    }

    fn understand(text: &str) -> Result<Self, Fault> {
        let file = File::parse(text)?;
        let rule = file.rule(text)?;
        let code = match rule.is_plain() && compile::fits(&rule.graph, rule.roots[0]) {
            false => None,
            true => compile::compile(&rule.graph, rule.roots[0], file.coefficients().len()),
        };
        let (fields, coefficients) = (file.fields(), file.coefficients());
        Ok(Described { name: file.into_name(), fields, coefficients, rule, code })
    }
}
