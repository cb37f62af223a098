//! Faults during a sweep lead to an error and never to a hang: a kernel that panics, a cancelled
//! sweep.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use syncline_blocks::{BlockedSweep, Error};
use syncline_overlay::error::RunError;
use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_wave::{Error as WaveError, Runner, Sweep, lanes::Lanes, monitor::Monitor};

use crate::common::{Data, Place};
use crate::kernels::Hooked;

/// Runs `work` with a time limit.
fn soon<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    wait.recv_timeout(Duration::from_secs(100)).expect("it hangs, or has panicked")
}

const SHAPE: Shape = Shape::new(150, 90);

/// The number of kernel calls in a whole run.
const CALLS: u64 = 7 * 148 * 88;

fn sweep(at: u64, hook: impl Fn() + Send + Sync + 'static) -> Sweep<Hooked> {
    Sweep::new(Hooked::new(at, hook)).iterations(7).lanes(Lanes::Scalar).runner(Runner::pool(3))
}

/// A cancelled sweep returns `Cancelled`, wherever it is when it is cancelled.
#[test]
fn a_sweep_is_cancelled_anywhere() {
    for n in 0..12 {
        soon(move || {
            let folder = tempfile::tempdir().unwrap();
            let place = if n % 2 == 0 { Place::Memory } else { Place::Raw };
            let (field, []) = Data::<f64, 0>::new(1, SHAPE).at(&[place], folder.path());
            let monitor = Arc::new(Monitor::new());
            let cancel = Arc::clone(&monitor);
            let sweep = sweep(1 + n * CALLS / 13, move || cancel.cancel()).monitor(monitor);
            let sweep = BlockedSweep::of(sweep).block(Block::new(20, 40));
            let outcome = sweep.run(&field, &[], place.result(folder.path(), SHAPE));
            let Err(Error::Sweep(WaveError::Cancelled { iteration })) = outcome else {
                panic!("{n}: {outcome:?}")
            };
            // Blocks are ahead of the slowest one by the number of iterations between two corners,
            // which is all of them here.
            assert!(iteration < 7, "{n}: {iteration}");
        });
    }
}

/// A panic is an error, which names the block.
#[test]
fn a_kernel_that_panics_in_blocks_is_an_error() {
    for runner in [Runner::pool(2), Runner::Threads] {
        let outcome = soon(move || {
            let field = Arc::new(Matrix::<f64>::zeros(SHAPE, Layout::RowMajor).unwrap());
            let result = Matrix::zeros(SHAPE, Layout::RowMajor).unwrap();
            let sweep = sweep(CALLS / 2, || panic!("the kernel broke")).runner(runner);
            BlockedSweep::of(sweep).block(Block::new(9, 9)).run(&field, &[], result)
        });
        let Err(Error::Sweep(WaveError::Run(RunError::Panicked { task, message, .. }))) = outcome
        else {
            panic!("{outcome:?}")
        };
        assert!(task.starts_with("block (") && message == "the kernel broke", "{task}: {message}");
    }
}
