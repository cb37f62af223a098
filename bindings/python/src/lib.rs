//! The native part of the Python package `syncline`: what has to be in Rust, and nothing else.
//!
//! # Contract
//! The functions and classes here are called by the modules in `python/syncline`, which check what
//! a user gives, and document it. No interpreter lock is held while anything waits or computes; a
//! wait asks for signals every few milliseconds (`attend`), so that Ctrl-C ends it.
//!
//! | module      | contents                                                                    |
//! |-------------|-----------------------------------------------------------------------------|
//! | `kernel`    | kernels: descriptions, with the functions of a program                      |
//! | `inputs`    | arrays of other owners, and files                                           |
//! | `sweep`     | a sweep, its plan and its report                                            |
//! | `buffer`    | results, as memory that numpy views without a copy                          |
//! | `work`      | tasks of a pool and their answers, as messages                              |
//! | `crew`      | a pool of workers, used by any number of threads                            |
//! | `locks`     | locks of Python code that an interrupt may end at any step                  |
//! | `serve`     | a worker of a pool                                                          |
//! | `recording` | traces of this process and of its workers, and reports of them              |
//! | `attend`    | work in a thread of its own, watched for signals                            |
//! | `error`     | errors as the exceptions of the package                                     |
//!
//! # Why no rust-numpy
//! Arrays come and go by the buffer protocol, which is part of the stable interface since
//! Python 3.11. So the extension does not depend on the interface of numpy.
//!
//! # Why the command is a file of the wheel
//! `python -m syncline` executes it. In the extension it would share signal handlers, `exit`
//! and the start of its own processes with an interpreter.

mod attend;
mod buffer;
mod crew;
mod error;
mod inputs;
mod kernel;
mod locks;
mod recording;
mod serve;
mod sweep;
mod work;

/// The native part of `syncline`.
#[pyo3::pymodule(gil_used = false)]
mod _syncline {
    #[pymodule_export]
    use crate::attend::{Busy, end};
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::crew::Crew;
    #[pymodule_export]
    use crate::kernel::Kernel;
    #[pymodule_export]
    use crate::locks::{FutureLock, Turn, is_telling, telling};
    #[pymodule_export]
    use crate::recording::{Reported, finish_trace, is_report_page, start_trace};
    #[pymodule_export]
    use crate::serve::serve;
    #[pymodule_export]
    use crate::sweep::{available_memory, check_replaceable, keep_file, output_path, plan, sweep};
    #[pymodule_export]
    use crate::work::Lent;
}
