//! The `syncline-lab` command: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    syncline_lab::main()
}
