//! Runs the crate under every MPI of the machine: shims are built, and each launcher starts this
//! test program again with the single test [`role_of_a_process`], which runs the role that the
//! environment names. The quick tier tries one MPI.
//!
//! `SYNCLINE_TEST_MPI=/opt/one/bin/mpicc:/opt/two/bin/mpicc` adds compilers to those on the path.
//! Without any MPI, the tests print that they are skipped.

mod roles;
mod site;

use std::path::Path;

use site::{Site, run};

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role_of_a_process() {
    roles::play();
}

/// Runs a role under each MPI with each number of ranks.
fn everywhere(role: &str, ranks: &[usize]) {
    let sites = site::sites();
    for site in sites {
        for &ranks in ranks {
            run(site, role, ranks, &[]);
        }
    }
    if sites.is_empty() {
        println!(
            "skipped: there is no MPI here: neither mpicc, mpicc.openmpi nor mpicc.mpich is on the path"
        );
    }
}

#[test]
fn messages_of_all_sizes_arrive() {
    everywhere("messages", &[2, 4]);
}

#[test]
fn transfers_go_from_memory_to_memory() {
    everywhere("direct", &[2, 3]);
}

#[test]
fn what_is_dropped_arrives_or_is_forgotten() {
    everywhere("dropped", &[2]);
}

#[test]
fn what_is_wrong_is_an_error() {
    everywhere("errors", &[2]);
}

#[test]
fn groups_split_and_agree() {
    everywhere("groups", &[4]);
}

#[test]
fn windows_are_reached_by_all() {
    everywhere("windows", &[2, 3]);
}

#[test]
fn an_mpi_that_gives_one_thread_refuses_others() {
    everywhere("threads", &[1, 2]);
}

#[test]
fn the_programs_own_mpi_is_taken_and_left() {
    everywhere("guest", &[2]);
}

#[test]
fn one_process_alone_needs_no_launcher() {
    let sites = site::sites();
    for site in sites {
        // Not every MPI supports a start without a launcher; all those of the test machines do.
        site::run_alone(site, "single");
    }
    if sites.is_empty() {
        println!("skipped: there is no MPI here");
    }
}

#[test]
fn a_shim_for_another_mpi_is_told_of() {
    let sites = site::sites();
    let pairs = sites.iter().flat_map(|one| sites.iter().map(move |other| (one, other)));
    let mut any = false;
    for (launcher, shim) in pairs.filter(|(one, other)| one.shim.family != other.shim.family) {
        if [launcher, shim].iter().all(|site| site.shim.family.name() != "abi") {
            any = true;
            run(launcher, "other", 2, &[("SYNCLINE_MPI", shim.shim.path.as_os_str())]);
            run(launcher, "alone", 2, &[("SYNCLINE_TEST_SHIM", shim.shim.path.as_os_str())]);
            run(launcher, "stranger", 1, &[("SYNCLINE_TEST_SHIM", shim.shim.path.as_os_str())]);
        }
    }
    if !any {
        println!("skipped: there are no two kinds of MPI here");
    }
}

/// Jobs of all MPIs start at the same time and share the user's folder.
#[test]
#[ignore = "full: compilers that are no MPI's are tried in any case"]
fn the_first_processes_build_the_shim_once() {
    let sites: Vec<&Site> =
        site::sites().iter().filter(|site| site.shim.family.name() != "abi").collect();
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::thread::scope(|scope| {
        for site in &sites {
            let data = data.path().as_os_str();
            scope.spawn(move || {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let own = site.mpicc.parent().map(Path::to_owned);
                let path =
                    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)));
                let path = path.unwrap();
                let more = [("XDG_DATA_HOME", data), ("PATH", path.as_os_str())];
                let said = run(site, "groups", 4, &more);
                assert_eq!(said.matches("syncline: built the shim for ").count(), 1, "{said}");
                let said = run(site, "groups", 4, &more);
                assert!(!said.contains("built the shim"), "{said}");
            });
        }
    });
    if sites.is_empty() {
        println!("skipped: there is no MPI here");
    }
}

#[test]
fn those_that_live_go_on() {
    let sites = site::sites();
    let able: Vec<&Site> = sites.iter().filter(|site| site.survives()).collect();
    for site in &able {
        run(site, "failures", 3, &[]);
    }
    if able.is_empty() {
        println!("skipped: there is no Open MPI 5, whose jobs outlive a process");
    }
}
