//! A minimal worker: it receives a number, and sends its successor. The rest of its time is its
//! start.
//!
//! `syncline-lab bench farm` builds it for this machine, where it loads the C library when it
//! starts, and statically linked:
//!
//! ```sh
//! cargo build --release -p syncline-farm-worker --target x86_64-unknown-linux-musl
//! ```

use std::process::ExitCode;

use syncline_farm::{Farm, FarmError, Vpid};

fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), FarmError> {
    // Started without a farm, it has nothing to do.
    let Some(mut farm) = Farm::join()? else { return Ok(()) };
    let number: u64 = farm.recv(Vpid::MANAGER)?;
    farm.send(Vpid::MANAGER, &(number + 1))
}
