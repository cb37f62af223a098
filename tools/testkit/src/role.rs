//! This test program again, as another process.

use std::env;
use std::process::Command;

/// This test program with the one test `test`, named with its modules, whether it is ignored or not.
/// Variables of the environment say what it is to do.
///
/// # Panics
/// If the program cannot be found.
#[must_use]
pub fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
    command.args(as_role(test));
    command
}

/// The arguments of [`again`], for a program that starts this one.
#[must_use]
pub fn as_role(test: &str) -> [&str; 4] {
    [test, "--exact", "--include-ignored", "--nocapture"]
}
