//! The hosts of a team: which processes share memory.

use std::ops::Range;
use std::sync::Arc;

/// The hosts of a team: groups of processes that share memory. All else goes by messages.
///
/// The first process of a host *serves* it: it receives the requests of other hosts for the host's
/// memory. If a host has several servers (`SYNCLINE_SERVERS`), its first processes are servers, and
/// each serves some of the host's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The host of each process.
    host_of: Arc<[usize]>,
    /// The processes of each host, in ascending order.
    processes: Arc<[Vec<usize>]>,
    /// The server processes, ordered by host, and the index of the first server of each host.
    serving: Arc<[usize]>,
    first: Arc<[usize]>,
}

impl Hosts {
    /// Creates the hosts from the host name of each process. Hosts are numbered from 0 in the order
    /// of their first processes.
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
        let (host_of, processes) = (host_of.into(), processes.into());
        Hosts { host_of, processes, serving: Arc::new([]), first: Arc::new([]) }.with_servers(1)
    }

    /// Sets the number of servers on each host; a host with fewer processes has that many servers.
    pub(crate) fn with_servers(self, servers: usize) -> Hosts {
        let (mut serving, mut first) = (Vec::new(), vec![0]);
        for processes in &*self.processes {
            serving.extend(processes.iter().take(servers.max(1)));
            first.push(serving.len());
        }
        Hosts { serving: serving.into(), first: first.into(), ..self }
    }

    /// Creates a single host with all processes.
    pub(crate) fn one(processes: usize) -> Hosts {
        Hosts::new(&vec![(); processes])
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// Returns the host of a process.
    #[must_use]
    pub fn of(&self, process: usize) -> usize {
        self.host_of[process]
    }

    /// Returns the processes of a host, in ascending order.
    #[must_use]
    pub fn processes(&self, host: usize) -> &[usize] {
        &self.processes[host]
    }

    /// Returns the process that serves a host; the first, if there are several.
    #[must_use]
    pub fn server(&self, host: usize) -> usize {
        self.processes[host][0]
    }

    /// Returns the server processes, indexed by server number.
    #[must_use]
    pub fn servers(&self) -> &[usize] {
        &self.serving
    }

    /// Returns the server numbers of a host.
    #[must_use]
    pub fn servers_of(&self, host: usize) -> Range<usize> {
        self.first[host]..self.first[host + 1]
    }

    /// Returns the number of the server that handles requests for members of a process.
    #[must_use]
    pub fn server_of(&self, process: usize) -> usize {
        let host = self.host_of[process];
        let servers = self.servers_of(host);
        // Processes of a host are in ascending order.
        let place = self.processes[host].binary_search(&process).unwrap_or_default();
        servers.start + place % servers.len()
    }

    /// Returns the server number of a process, or `None` if the process is not a server.
    #[must_use]
    pub fn serves(&self, process: usize) -> Option<usize> {
        let server = self.server_of(process);
        (self.serving[server] == process).then_some(server)
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

    #[test]
    fn members_are_shared_out_among_the_servers_of_their_host() {
        let hosts = Hosts::new(&["a", "b", "a", "a", "b", "a"]);
        assert_eq!(hosts.servers(), [0, 1]);
        assert_eq!(
            (0..6).map(|process| hosts.server_of(process)).collect::<Vec<_>>(),
            [0, 1, 0, 0, 1, 0]
        );
        let hosts = hosts.with_servers(3);
        assert_eq!(hosts.servers(), [0, 2, 3, 1, 4]);
        assert_eq!(
            (0..6).map(|process| hosts.server_of(process)).collect::<Vec<_>>(),
            [0, 3, 1, 2, 4, 0]
        );
        assert_eq!((hosts.serves(3), hosts.serves(5), hosts.server(1)), (Some(2), None, 1));
    }
}
