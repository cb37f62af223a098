//! A worker of a pool.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyString};
use syncline_farm::pool::{Forks, PUBLISHED, serve_forks};

use crate::error;
use crate::work::Work;

/// What a task returns: a pickle and its buffers.
type Returned<'py> = (Bound<'py, PyBytes>, Vec<PyBuffer<u8>>);

/// Serves the pool that has started this process; does not return. `run` is called with a pickle
/// and its buffers, and returns those of the answer. For a task of several items `items` is called
/// with them, and its result is used as the class `Items` of the package says.
///
/// # Errors
/// An error if no pool has started this process, or it cannot join it.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, run: Py<PyAny>, items: Py<PyAny>) -> PyResult<()> {
    let served = py.detach(|| {
        serve_forks::<Work, Work>(|work, forks| {
            Python::attach(|py| {
                let answer = answer(py, &run, &items, work, forks);
                answer.unwrap_or_else(|error| {
                    // `run` returns exceptions as values: this is one of the package itself.
                    error.print(py);
                    panic!("the worker failed: {error}")
                })
            })
        })
    });
    served.map_err(|why| error::exception(py, "PoolError", why))?;
    Err(error::exception(py, "PoolError", "no pool has started this process"))
}

fn answer(
    py: Python<'_>,
    run: &Py<PyAny>,
    items: &Py<PyAny>,
    work: Work,
    forks: &mut Forks<'_, Work, Work>,
) -> PyResult<Work> {
    let chunk = work.chunk;
    let received = work.into_python(py, &Arc::new(AtomicUsize::new(0)), usize::MAX);
    let returned: Returned<'_> = if chunk == 0 {
        run.bind(py).call1(received)?.extract()?
    } else {
        run_items(items.bind(py).call1(received)?, chunk, forks)?.extract()?
    };
    if !returned.1.is_empty() {
        // The buffers are those of live objects.
        forks.send_at_once();
    }
    Work::new(0, returned.0.as_bytes(), returned.1)
}

/// Runs the items of a task; returns the answer.
fn run_items<'py>(
    items: Bound<'py, PyAny>,
    chunk: u64,
    forks: &mut Forks<'_, Work, Work>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = items.py();
    let (mut steps, count) = (items.getattr("steps")?.try_iter()?, items.getattr("count")?);
    let (keep, values) = (items.getattr("keep")?, PyList::empty(py));
    let mut numbers = [0; PUBLISHED];
    numbers[0] = chunk;
    for at in 0..count.extract()? {
        // The manager reads which item ran if this process dies.
        numbers[1] = at;
        forks.publish(numbers);
        let value = match steps.next() {
            Some(Ok(value)) if is_plain(&value) => value,
            Some(Ok(value)) => keep.call1((at, value))?,
            failed => {
                // `map` ends early only if its function raises StopIteration.
                let error = failed.and_then(Result::err);
                let error = error.unwrap_or_else(|| PyStopIteration::new_err(()));
                items.call_method1("fail", (at, error.into_value(py)))?
            }
        };
        values.append(value)?;
    }
    items.call_method1("answer", (values,))
}

/// Returns whether no later item can change a value.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyComplex>()
}
