//! `--dry-run`: commands are printed, and none is run.

use rustix::process::Signal;

use super::hub::Hub;
use super::ledger::{Ledger, Runners, Task};
use super::template::quoted;

/// Runs nothing.
#[derive(Debug)]
pub(super) struct Dry;

impl Runners for Dry {
    fn start(&mut self, ledger: &mut Ledger<'_>, task: Task) {
        let mut line = quoted(&ledger.template.fill(&task.args, task.number, 1));
        line.push(b'\n');
        ledger.hub.output.print(task.number, line.into());
    }

    fn running(&self) -> usize {
        0
    }

    fn poll(&mut self, ledger: &mut Ledger<'_>) {
        let (input, deadline) = (ledger.wants_input(0), ledger.deadline(0));
        ledger.hub.poll::<()>(input, std::iter::empty(), deadline);
    }

    fn stop(&mut self, hub: &mut Hub) {
        hub.stop_with(std::iter::empty());
    }

    fn signal(&mut self, _: Signal) {}

    fn abandon(self, _: &mut Ledger<'_>) {}
}
