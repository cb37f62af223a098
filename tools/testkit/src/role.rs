//! Re-execution of the test program as another process.

use std::env;
use std::process::Command;

/// Returns a command that runs this test program with the one test `test`, named with its modules,
/// whether it is ignored or not. Environment variables select what the test does.
///
/// # Panics
/// If the program cannot be found.
#[must_use]
pub fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
    command.args(as_role(test));
    command
}

/// Returns the arguments of [`again`], for a program that starts this test program.
#[must_use]
pub fn as_role(test: &str) -> [&str; 4] {
    [test, "--exact", "--include-ignored", "--nocapture"]
}
