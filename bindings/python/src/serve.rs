//! A worker of a pool.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use syncline_farm::pool::{Forks, PUBLISHED, serve_forks};

use crate::error;
use crate::work::Work;

/// What a task returns: a pickle and its buffers.
type Returned<'py> = (Bound<'py, PyBytes>, Vec<PyBuffer<u8>>);

/// Serves the pool that has started this process; does not return. `run` is called with a pickle
/// and its buffers, and returns those of the answer. For a task of several items it is called with
/// a third argument, and returns an iterator, each step of which runs an item, and what returns the
/// answer.
///
/// # Errors
/// An error if no pool has started this process, or it cannot join it.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, run: Py<PyAny>) -> PyResult<()> {
    let served = py.detach(|| {
        serve_forks::<Work, Work>(|work, forks| {
            Python::attach(|py| {
                let answer = answer(py, &run, work, forks);
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
    work: Work,
    forks: &mut Forks<'_, Work, Work>,
) -> PyResult<Work> {
    let chunk = work.chunk;
    let (pickle, parts) = work.into_python(py, &Arc::new(AtomicUsize::new(0)), usize::MAX);
    let returned: Returned<'_> = if chunk == 0 {
        run.bind(py).call1((pickle, parts))?.extract()?
    } else {
        // Each step of the iterator runs an item. Its number is published before, so that the
        // manager knows which one ran if this process dies.
        let (steps, answer): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            run.bind(py).call1((pickle, parts, true))?.extract()?;
        let (mut steps, mut numbers) = (steps.try_iter()?, [0; PUBLISHED]);
        numbers[0] = chunk;
        loop {
            forks.publish(numbers);
            numbers[1] += 1;
            if steps.next().transpose()?.is_none() {
                break;
            }
        }
        answer.call0()?.extract()?
    };
    if !returned.1.is_empty() {
        // The buffers are those of live objects.
        forks.send_at_once();
    }
    Work::new(0, returned.0.as_bytes(), returned.1)
}
