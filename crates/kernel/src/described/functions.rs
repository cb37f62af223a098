//! Functions that the program gives to a description, for what a text cannot say.

use std::ffi::c_void;
use std::sync::Arc;

use super::Described;
use crate::rule::{Around, Code, Context};
use crate::{Error, Result};

/// A C function of a description: computes `n` results from `n` values of each argument.
///
/// ```c
/// void flux(size_t n, const double *const *arguments, double *results, void *context);
/// ```
pub type CValues = unsafe extern "C" fn(
    n: usize,
    arguments: *const *const f64,
    results: *mut f64,
    context: *mut c_void,
);

/// Functions of the program.
///
/// `functions = ["flux"]` in a text names functions that the update calls, as in
/// `u = u - 0.1 * (flux(u, old.e) - flux(old.w, u))`. Their arguments and results are float64. The
/// program gives the code: a function computes the results for some points at once, whose values
/// are adjacent, so that a compiler can make vector instructions of its loop. A kernel with
/// functions is one for arrays.
impl Described {
    /// Returns the functions that the text names, and the number of arguments of each.
    pub fn functions(&self) -> impl Iterator<Item = (&str, usize)> {
        self.rule.functions.iter().map(|function| (function.name.as_str(), function.arguments))
    }

    /// Gives the code of a function: it takes the values of the arguments, and stores the results.
    /// All slices have the same length, which is arbitrary, and element `i` of the results may
    /// depend only on the elements `i` of the arguments. The function must be pure, as threads call
    /// it for points in any order.
    ///
    /// A sweep that resumes compares descriptions, and not the code of functions: let
    /// `Target::describe` name what distinguishes it.
    ///
    /// # Errors
    /// [`Error::Function`] if the text names no such function.
    pub fn with_function(
        mut self,
        name: &str,
        code: impl Fn(&[&[f64]], &mut [f64]) + Send + Sync + 'static,
    ) -> Result<Self> {
        self.give(name, Code::Rust(Arc::new(code)))?;
        Ok(self)
    }

    /// Gives a C function as the code of a function; see [`with_function`](Self::with_function).
    /// The bits of the result are those of the plain loop if the
    /// C compiler gives each point the same result wherever it is in a run: compile with `-ffp-
    /// contract=off` and without `-ffast-math`.
    ///
    /// # Errors
    /// [`Error::Function`] if the text names no such function.
    ///
    /// # Safety
    /// As long as the kernel or a copy of it exists:
    /// * It must be sound to call the function from any thread, also from several threads at the
    ///   same time, with any `n`, that number of values of each argument, and this context.
    /// * The function must read nothing else through the arguments, write `n` results and nothing
    ///   else, keep no pointer, and return: it must neither unwind nor jump out.
    ///
    /// ```
    /// use std::ffi::c_void;
    /// # extern crate syncline_kernel as syncline_wave;
    /// use syncline_wave::Described;
    ///
    /// /// Such a function is one in C, in a program that links it.
    /// unsafe extern "C" fn cube(
    ///     n: usize,
    ///     arguments: *const *const f64,
    ///     results: *mut f64,
    ///     _context: *mut c_void,
    /// ) {
    ///     // SAFETY: the caller gives one argument and the results, of `n` values each.
    ///     let (x, results) = unsafe {
    ///         let x = std::slice::from_raw_parts(*arguments, n);
    ///         (x, std::slice::from_raw_parts_mut(results, n))
    ///     };
    ///     results.iter_mut().zip(x).for_each(|(result, x)| *result = x * x * x);
    /// }
    ///
    /// let text = "name = 'c'\nfield = 'u'\nfunctions = ['cube']\nupdate = 'u = old.w - cube(u)'";
    /// // SAFETY: the function has no state, reads its argument and writes its results.
    /// let kernel = unsafe {
    ///     Described::parse(text)?.with_c_function("cube", cube, std::ptr::null_mut())?
    /// };
    /// assert_eq!(kernel.functions().collect::<Vec<_>>(), [("cube", 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn with_c_function(
        mut self,
        name: &str,
        function: CValues,
        context: *mut c_void,
    ) -> Result<Self> {
        self.give(name, Code::C(function, Context(context)))?;
        Ok(self)
    }

    /// Gives what runs each piece of a sweep, which calls functions many times. It calls what it is
    /// given, and has what the functions need meanwhile, such as the lock of an interpreter: taken
    /// once for a piece, it costs nothing in each call. A piece has some rows of an array, and all
    /// iterations of a pass.
    ///
    /// Several threads call `around` at the same time. Each call must call what it is given once,
    /// in the same thread, before it returns.
    #[must_use]
    pub fn around_pieces(
        mut self,
        around: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.rule.around = Some(Around(Arc::new(around)));
        self
    }

    fn give(&mut self, name: &str, code: Code) -> Result<()> {
        let kernel = &self.name;
        let known = self.rule.functions.iter_mut().find(|function| function.name == name);
        let Some(function) = known else {
            let why = "the description names no such function".to_owned();
            return Err(Error::Function { kernel: kernel.clone(), function: name.to_owned(), why });
        };
        function.code = Some(code);
        Ok(())
    }

    /// Checks that all functions have code.
    #[doc(hidden)]
    pub fn has_functions(&self) -> Result<()> {
        match self.rule.functions.iter().find(|function| function.code.is_none()) {
            None => Ok(()),
            Some(function) => Err(Error::Function {
                kernel: self.name.clone(),
                function: function.name.clone(),
                why: "the program has not given its code".to_owned(),
            }),
        }
    }
}
