//! Kernels: descriptions, with the functions of a program.
//!
//! Kernels that the interpreter calls hold its lock for a whole piece
//! (`Described::around_pieces`): a lock that is released after each run of points starves the
//! threads that wait for it.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use syncline_store::checksum::checksum;
use syncline_wave::c::CValues;
use syncline_wave::monitor::Monitor;
use syncline_wave::{Described, Result};

use crate::error;

/// The code of a function that a description names.
enum Code {
    /// A compiled function for a run of values, with its context.
    Compiled(usize, usize),
    /// A function in Python, which is called for one point after the other.
    Python(Py<PyAny>),
}

/// A kernel.
#[pyclass(frozen, module = "syncline._syncline")]
pub(crate) struct Kernel {
    described: Described,
    functions: Vec<(String, Code)>,
    /// What identifies its computation.
    pub(crate) parameters: Vec<(&'static str, String)>,
    fields: Vec<String>,
    coefficients: Vec<String>,
    dimensions: usize,
}

/// The first exception of a function in Python, which ends the sweep.
#[derive(Default)]
pub(crate) struct Failure(Mutex<Option<PyErr>>);

impl Failure {
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

#[pymethods]
impl Kernel {
    /// Parses a description. Each function is its name, either a callable or the addresses of a
    /// compiled function and of its context, and what identifies it.
    #[staticmethod]
    fn described(
        py: Python<'_>,
        text: &str,
        functions: Vec<(String, Bound<'_, PyAny>, String)>,
    ) -> PyResult<Self> {
        let described =
            py.detach(|| Described::parse(text)).map_err(|why| error::of_text(py, &why))?;
        let names: Vec<_> = functions.iter().map(|(_, _, identity)| identity.clone()).collect();
        let code = |(name, code, _): (String, Bound<'_, PyAny>, String)| {
            let code = match code.cast_exact::<PyTuple>().map(|pair| pair.extract()) {
                Ok(Ok((address, context))) => Code::Compiled(address, context),
                _ => Code::Python(code.unbind()),
            };
            (name, code)
        };
        let functions = functions.into_iter().map(code).collect::<Vec<_>>();
        let sum = format!("{:016x}", checksum(text.as_bytes()));
        let mut parameters = vec![("kernel", described.name().to_owned()), ("description", sum)];
        if !names.is_empty() {
            parameters.push(("functions", names.join(", ")));
        }
        Ok(Kernel {
            fields: described.fields().to_vec(),
            coefficients: described.coefficients().to_vec(),
            dimensions: described.dimensions(),
            described,
            functions,
            parameters,
        })
    }

    /// The names of the fields.
    #[getter]
    fn fields(&self) -> Vec<String> {
        self.fields.clone()
    }

    /// The names of the coefficients.
    #[getter]
    fn coefficients(&self) -> Vec<String> {
        self.coefficients.clone()
    }

    /// The number of dimensions.
    #[getter]
    fn dimensions(&self) -> usize {
        self.dimensions
    }
}

impl Kernel {
    /// Returns the description with its functions, which note an exception in `failure`, and end
    /// the sweep by its monitor.
    pub(crate) fn with_functions(
        &self,
        py: Python<'_>,
        monitor: &Arc<Monitor>,
        failure: &Arc<Failure>,
    ) -> Result<Described> {
        let mut described = self.described.clone();
        for (name, code) in &self.functions {
            described = match code {
                &Code::Compiled(address, context) => {
                    // SAFETY: the package passes addresses of functions of this type only: it has
                    // checked their signatures, or the caller of `syncline.function` vouches for
                    // them, and the kernel in Python keeps the function.
                    let function = unsafe { std::mem::transmute::<usize, CValues>(address) };
                    let context = context as *mut c_void;
                    // SAFETY: as before; what such a function must and must not do is a condition
                    // of `syncline.function`.
                    unsafe { described.with_c_function(name, function, context)? }
                }
                Code::Python(function) => {
                    let function = function.clone_ref(py);
                    let (monitor, failure) = (Arc::clone(monitor), Arc::clone(failure));
                    described.with_function(name, move |arguments, results| {
                        let called = call(&function, arguments, results, &monitor);
                        if let Err(error) = called {
                            failure.set(error);
                            monitor.cancel();
                        }
                    })?
                }
            };
        }
        if self.functions.iter().any(|(_, code)| matches!(code, Code::Python(_))) {
            described = described.around_pieces(|piece| Python::attach(|_| piece()));
        }
        Ok(described)
    }
}

/// The time after which a piece lets others have the interpreter lock, if no code in Python has.
/// Longer than the 5 ms after which a thread asks for it.
const TURN: Duration = Duration::from_millis(10);

thread_local! {
    /// When this thread last let others have the interpreter lock.
    static TURNED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Calls a function in Python for each point of a run, until the sweep is cancelled.
///
/// The lock is held for a whole piece. It is not released at the end of each run: a release wakes a
/// thread that waits for the lock, which finds it taken by the next run and waits anew. The
/// interpreter makes a thread pass its lock on only if another one was not woken for 5 ms.
fn call(
    function: &Py<PyAny>,
    arguments: &[&[f64]],
    results: &mut [f64],
    monitor: &Monitor,
) -> PyResult<()> {
    Python::attach(|py| {
        for (point, result) in results.iter_mut().enumerate() {
            if monitor.is_cancelled() {
                return Ok(());
            }
            let values = PyTuple::new(py, arguments.iter().map(|values| values[point]))?;
            *result = function.bind(py).call1(values)?.extract()?;
        }
        let now = Instant::now();
        match TURNED.get() {
            Some(last) if now - last < TURN => (),
            last => {
                // This passes the lock on to a thread that has asked for it.
                last.inspect(|_| py.detach(|| ()));
                TURNED.set(Some(now));
            }
        }
        Ok(())
    })
}
