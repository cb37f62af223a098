//! The `syncline` command: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    syncline_cli::main()
}
