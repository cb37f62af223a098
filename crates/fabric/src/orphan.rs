//! A launched process watches its launcher, and ends when the launcher dies.

use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use syncline_process::lifeline::LifelineEnd;
use syncline_sync::membership::LAUNCHER;

use crate::environment::Inherited;
use crate::error::{Ranks, TeamError};
use crate::team_state::TeamState;

/// How long a process continues without its launcher, and how long its exit may take.
const GRACE: Duration = Duration::from_secs(1);
/// The exit code of a process that has lost its launcher.
const CODE: i32 = 1;

/// Watches the launcher for as long as this process lives.
pub(crate) fn watch(
    end: LifelineEnd,
    place: &Inherited,
    control: &TeamState,
) -> Result<(), TeamError> {
    let (process, ranks) = (place.process, place.shape.ranks(place.process));
    let fault_list = control.fault_list.clone();
    let watcher = move || {
        while !end.wait_cut(None).unwrap_or(false) {
            thread::sleep(GRACE); // the kernel had no memory to answer
        }
        // Gives up the launcher only: the members of this process live.
        fault_list.give_up(LAUNCHER);
        crate::say(format_args!(
            "process {process} ({}) ends: the launcher of its team is gone",
            Ranks(&ranks)
        ));
        thread::sleep(GRACE);
        // An exit handler may wait for something that another thread holds; the kill bounds that
        // wait.
        let _ = thread::Builder::new().spawn(|| {
            thread::sleep(GRACE);
            let _ = kill_process(getpid(), Signal::KILL);
        });
        std::process::exit(CODE);
    };
    let started = thread::Builder::new().name("syncline lifeline".to_owned()).spawn(watcher);
    let what = "start a thread that watches the launcher";
    started.map(|_| ()).map_err(|source| TeamError::System { what, source })
}
