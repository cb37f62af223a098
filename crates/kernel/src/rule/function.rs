//! Functions that the program gives to a rule, and what is around the pieces that call them.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use crate::c::CValues;
use crate::described::graph::ARGUMENTS;

/// A function that the program gives.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The number of its arguments.
    pub(crate) arguments: usize,
    pub(crate) code: Option<Code>,
}

/// Computes the results for some points from the arguments; all slices have the same length.
type Slices = dyn Fn(&[&[f64]], &mut [f64]) + Send + Sync;

/// The code of a function.
#[derive(Clone)]
pub(crate) enum Code {
    Rust(Arc<Slices>),
    C(CValues, Context),
}

/// The context of a C function.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub(crate) *mut c_void);

// SAFETY: `Described::with_c_function` requires that the function may be called with the context
// from any thread, also from several at the same time.
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

impl Code {
    /// Computes the results for `n` points.
    ///
    /// # Safety
    /// There are as many arguments as the function has. They and the results must have `n` values,
    /// aligned, of which no other thread accesses the results, nor writes the arguments. The
    /// results must not be among the arguments.
    #[inline]
    pub(crate) unsafe fn call(&self, arguments: &[*const f64], results: *mut f64, n: usize) {
        match self {
            Code::Rust(code) => {
                let mut slices: [&[f64]; ARGUMENTS] = [&[]; ARGUMENTS];
                for (slice, start) in slices.iter_mut().zip(arguments) {
                    // SAFETY: the caller guarantees the values.
                    *slice = unsafe { std::slice::from_raw_parts(*start, n) };
                }
                // SAFETY: as before; no slice overlaps with the results.
                let results = unsafe { std::slice::from_raw_parts_mut(results, n) };
                code(&slices[..arguments.len()], results);
            }
            // SAFETY: the caller guarantees the values; the rest is a condition of
            // `Described::with_c_function`.
            Code::C(code, Context(context)) => unsafe {
                code(n, arguments.as_ptr(), results, *context);
            },
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Code::C(..)) { "C" } else { "Rust" })
    }
}

/// What is around the pieces of a pass: it calls what it is given.
type AroundCode = dyn Fn(&mut dyn FnMut()) + Send + Sync;

/// What runs the pieces of a pass.
#[derive(Clone)]
pub struct Around(pub Arc<AroundCode>);

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}
