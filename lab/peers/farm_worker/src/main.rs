//! A worker that does as little as can be: it receives a number, and sends the next. What is left is its start.
//!
//! `syncline-lab bench farm` builds it for this machine, whose C library is loaded when it starts, and static:
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
    // Started by hand it has nothing to do.
    let Some(mut farm) = Farm::join()? else { return Ok(()) };
    let number: u64 = farm.recv(Vpid::MANAGER)?;
    farm.send(Vpid::MANAGER, &(number + 1))
}
