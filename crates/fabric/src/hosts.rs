//! Which processes have memory in common.

use std::sync::Arc;

/// The hosts of a team: groups of processes that have memory in common. All else goes by messages.
///
/// The first process of a host *serves* it: it receives what others ask of the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// By process.
    host_of: Arc<[usize]>,
    /// By host, in ascending order.
    processes: Arc<[Vec<usize>]>,
}

impl Hosts {
    /// From the host of each process; hosts are numbered from 0 in the order of their first processes.
    pub(crate) fn new<T: PartialEq>(names: &[T]) -> Hosts {
        let mut processes: Vec<Vec<usize>> = Vec::new();
        let mut host_of = Vec::new();
        for (process, name) in names.iter().enumerate() {
            let known = processes.iter().position(|host| names[host[0]] == *name);
            let host = known.unwrap_or_else(|| {
                processes.push(Vec::new());
                processes.len() - 1
            });
            processes[host].push(process);
            host_of.push(host);
        }
        Hosts { host_of: host_of.into(), processes: processes.into() }
    }

    /// All processes on one host.
    pub(crate) fn one(processes: usize) -> Hosts {
        Hosts::new(&vec![(); processes])
    }

    /// How many hosts there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// The host of a process.
    #[must_use]
    pub fn of(&self, process: usize) -> usize {
        self.host_of[process]
    }

    /// The processes of a host, in ascending order.
    #[must_use]
    pub fn processes(&self, host: usize) -> &[usize] {
        &self.processes[host]
    }

    /// The process that serves a host.
    #[must_use]
    pub fn server(&self, host: usize) -> usize {
        self.processes[host][0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_by_their_first_processes() {
        let hosts = Hosts::new(&["b", "a", "b", "c", "a"]);
        assert_eq!((hosts.count(), hosts.of(2), hosts.of(4), hosts.of(3)), (3, 0, 1, 2));
        assert_eq!((hosts.processes(0), hosts.server(1), hosts.server(2)), (&[0, 2][..], 1, 3));
        assert_eq!(Hosts::one(3).count(), 1);
    }
}
