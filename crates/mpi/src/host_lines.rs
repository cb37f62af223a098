//! One line for all ranks of a host that fail alike before MPI is initialised.
//!
//! The ranks of a host are children of one process of the launcher. A rank that is to print a line
//! binds a socket whose abstract name contains the number of that process. The rank that has bound
//! it prints. It keeps the socket for a moment, so that ranks that fail a little later find it.
//! The others wait as well, as some launchers kill all ranks when the first one has ended. A rank
//! that comes later than that prints again: a line is printed twice rather than never.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use crate::launched::{launched_with_others, own_launcher};

/// The time for which a rank waits for others that fail alike.
const MOMENT: Duration = Duration::from_millis(300);

/// Calls `print` in one of the ranks of this host that call this at about the same time, and in
/// every process that no launcher started with others.
pub fn say_once(print: impl FnOnce()) {
    if launched_with_others().is_none() {
        return print();
    }
    say_once_as(&format!("syncline-said-{}", own_launcher()), MOMENT, print);
}

fn say_once_as(name: &str, moment: Duration, print: impl FnOnce()) {
    let address = SocketAddr::from_abstract_name(name);
    match address.and_then(|address| UnixListener::bind_addr(&address)) {
        Ok(_listener) => {
            print();
            std::thread::sleep(moment);
        }
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => std::thread::sleep(moment),
        Err(_) => print(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_of_those_that_fail_together_prints() {
        let (name, printed) =
            (format!("syncline-test-{}", std::process::id()), AtomicUsize::new(0));
        let say = |moment| {
            say_once_as(&name, moment, || {
                printed.fetch_add(1, Ordering::Relaxed);
            });
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| say(Duration::from_secs(1)))));
        });
        assert_eq!(printed.load(Ordering::Relaxed), 1);
        say(Duration::ZERO);
        assert_eq!(printed.load(Ordering::Relaxed), 2, "the line is not lost later");
    }
}
