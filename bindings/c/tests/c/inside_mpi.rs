//! Teams within MPI programs in C and Fortran, under every MPI of the machine: all processes on one
//! host, and on several emulated hosts.

use std::process::Output;

use syncline_testkit::mpi::SURVIVOR;
use syncline_testkit::{Tool, output, succeed};

use crate::tools::compiled;
use crate::tools::mpi::{STRICT, Site, sites};

#[test]
fn a_program_of_mpi_has_a_team_within() {
    for site in sites() {
        let program = site.compile("examples/mpi_inside.c", true, &STRICT);
        for (processes, per_host) in [("2", "9"), ("3", "1"), ("4", "2")] {
            let said = succeed(&mut site.run(&program, processes, per_host, None));
            let what = format!("{}, {processes}, {per_host} on a host", site.mpi.launcher);
            assert_eq!(said, "every draw is in a bin\n", "{what}");
        }
    }
}

/// The exit of a forked child, and its return from the member's function, neither finalise MPI nor
/// undo the member's state.
#[test]
#[ignore = "full: one program within an MPI is tried in any case"]
fn a_forked_child_is_no_member() {
    for site in sites() {
        let program = site.compile("tests/programs/forks.c", true, &["-std=c11"]);
        for (processes, per_host) in [("3", "9"), ("3", "1")] {
            let mut command = site.run(&program, processes, per_host, None);
            command.arg("environment").args((per_host == "1").then_some("hosts"));
            let said = succeed(&mut command);
            let what = format!("{}, {processes}, {per_host} on a host", site.mpi.launcher);
            // Launchers may interleave lines.
            assert_eq!(said.matches("the children were no members").count(), 3, "{what}: {said}");
        }
    }
}

/// A host counts as dead after ten seconds of silence, or after the time that the environment sets,
/// and the error gives the limit. The stop takes half of the ten seconds. A busy machine may
/// prolong the silence, so the test tries again then.
#[test]
#[ignore = "full: it waits for 10 s"]
fn a_host_that_is_stopped_for_seconds_is_waited_for() {
    for site in sites() {
        let program = site.compile("tests/programs/stopped.c", true, &["-std=c11"]);
        let is_waited_for = || {
            let mut command = site.run(&program, "3", "1", None);
            let Output { status, stdout, stderr } = output(command.env_remove("SYNCLINE_TIMEOUT"));
            let said = String::from_utf8_lossy(&stdout);
            println!("{}: {status}\n{said}{}", site.mpi.launcher, String::from_utf8_lossy(&stderr));
            let told = said.matches("the stopped rank was waited for").count();
            status.success() && told == 3
        };
        assert!((0..5).any(|_| is_waited_for()), "{}: it never is", site.mpi.launcher);

        let mut command = site.run(&program, "3", "1", None);
        let Output { status, stderr, .. } = output(command.env("SYNCLINE_TIMEOUT", "500"));
        let wrong = String::from_utf8_lossy(&stderr);
        assert!(!status.success(), "{}: {wrong}", site.mpi.launcher);
        let told = "has not been heard of for 0.5 s; SYNCLINE_TIMEOUT sets the limit";
        assert!(wrong.contains(told), "{}: {wrong}", site.mpi.launcher);
    }
}

#[test]
#[ignore = "full: one program within an MPI is tried in any case"]
fn what_a_program_does_wrong_has_a_status_of_its_own() {
    // This process has no MPI.
    // SAFETY: without an MPI the function fails before it calls `function` or writes to memory.
    let status = unsafe {
        syncline_c::teams::syncline_team_run_mpi(
            0,
            std::ptr::null(),
            Some(never),
            std::ptr::null_mut(),
        )
    };
    assert_eq!(status, syncline_c::status::Status::NoMpi);
    for site in sites() {
        let flags = [&STRICT[..], &["-pthread"]].concat();
        let program = site.compile("tests/mpi/refused.c", true, &flags);
        let what = site.mpi.launcher;
        let said = succeed(site.run(&program, "3", "9", None).arg("with a shim"));
        assert_eq!(said, "refused, each by its name\n", "{what}");
        // No shim can be built within a file.
        let nowhere = site.dir.path().join("file/nowhere");
        std::fs::write(site.dir.path().join("file"), "").unwrap();
        let mut command = site.run(&program, "2", "9", None);
        let said = succeed(command.env_remove("SYNCLINE_MPI").env("XDG_DATA_HOME", nowhere));
        assert_eq!(said, "refused, each by its name\n", "{what}");
    }
}

unsafe extern "C-unwind" fn never(
    _: *mut syncline_c::teams::TeamMember<'_>,
    _: *mut std::ffi::c_void,
) -> std::ffi::c_int {
    1
}

#[test]
#[ignore = "full: an MPI that is installed for it alone"]
fn those_who_are_left_go_on() {
    let Some(site) = Site::find(&SURVIVOR) else { return };
    let program = site.compile("examples/survivors.c", true, &STRICT);
    for (processes, per_host, left) in [("3", "9", 2), ("4", "1", 3), ("5", "2", 4), ("2", "1", 1)]
    {
        let said = succeed(&mut site.run(&program, processes, per_host, None));
        assert_eq!(
            said,
            format!("100 steps done, the last of them by {left}, 1 died\n"),
            "{processes}, {per_host}"
        );
    }
}

/// Runs programs whose rank 0 waits in memory for processes that need its part in MPI: with the
/// barrier preloaded, and in a team.
fn a_wait_takes_part_in_mpi(site: &Site, processes: &str, per_host: &str, level: &str) {
    let library = [&STRICT[..], &["-O2", "-shared", "-fPIC"]].concat();
    let preload = site.compile("pmpi/pmpi.c", true, &library);
    let foreign = site.compile("tests/mpi/progress.c", false, &STRICT);
    let team = site.compile("tests/mpi/progress_team.c", true, &STRICT);
    let mut command = site.run(&foreign, processes, per_host, Some(&preload));
    let said = succeed(command.arg(level));
    let what = format!("{}, {processes}, {per_host} on a host, level {level}", site.mpi.launcher);
    assert_eq!(said, "every step is complete\n", "{what}");
    let said = succeed(site.run(&team, processes, per_host, None).arg(level));
    assert_eq!(said, "every wait has taken part\n", "{what}");
}

#[test]
fn a_wait_on_one_host_takes_part_in_mpi() {
    sites().for_each(|site| a_wait_takes_part_in_mpi(&site, "2", "9", "0"));
}

/// The last process has no shim.
#[test]
fn a_process_without_a_shim_leaves_the_barrier_of_all_to_mpi() {
    for site in sites() {
        let library = [&STRICT[..], &["-O2", "-shared", "-fPIC"]].concat();
        let preload = site.compile("pmpi/pmpi.c", true, &library);
        let foreign = site.compile("tests/mpi/foreign.c", false, &STRICT);
        let script = "[ \"${PMI_RANK:-$OMPI_COMM_WORLD_RANK}\" = 0 ] || export SYNCLINE_MPI=/nowhere\n\
                      exec \"$@\"";
        let mut command = site.run("sh".as_ref(), "2", "9", Some(&preload));
        let Output { status, stdout, stderr } =
            output(command.args(["-c", script, "sh"]).arg(&foreign).arg("0"));
        let (said, wrong) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{}: {wrong}", site.mpi.launcher);
        assert_eq!(said, "0 of 200 barriers were left too early\n", "{wrong}");
        assert!(wrong.contains("rank 1: MPI_Barrier stays MPI's own: "), "{wrong}");
    }
}

#[test]
#[ignore = "full: one host and one thread level are tried in any case"]
fn a_wait_takes_part_in_mpi_at_each_thread_level() {
    for site in sites() {
        for level in ["0", "1", "2", "3"] {
            a_wait_takes_part_in_mpi(&site, "2", "9", level);
            a_wait_takes_part_in_mpi(&site, "3", "1", level);
        }
        a_wait_takes_part_in_mpi(&site, "4", "2", "3");
    }
}

#[test]
#[ignore = "full: one program within an MPI is tried in any case"]
fn barriers_of_a_program_as_it_is_are_taken_over() {
    // Thread levels of MPI, numbered 0 to 3 in all MPIs.
    for site in sites() {
        let library = [&STRICT[..], &["-O2", "-shared", "-fPIC"]].concat();
        let preload = site.compile("pmpi/pmpi.c", true, &library);
        let foreign = site.compile("tests/mpi/foreign.c", false, &STRICT);
        for (processes, per_host, level) in [
            ("2", "9", "0"),
            ("4", "9", "0"),
            ("3", "1", "0"),
            ("4", "2", "0"),
            ("4", "2", "3"),
            ("3", "9", "2"),
        ] {
            let mut command = site.run(&foreign, processes, per_host, Some(&preload));
            let Output { status, stdout, stderr } = output(command.arg(level));
            let (said, wrong) =
                (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            let what = format!(
                "{}, {processes}, {per_host} on a host, level {level}\n{wrong}",
                site.mpi.launcher
            );
            assert!(status.success(), "{what}");
            assert_eq!(said, "0 of 200 barriers were left too early\n", "{what}");
            let taken = wrong.contains("200 calls of MPI_Barrier were taken over");
            let left = wrong.contains("MPI_Barrier stays MPI's own");
            assert!(taken != left, "{what}");
            // An MPI may grant more than the program requested.
            assert!(taken || level == "2", "{what}");
        }
        let Some(compiler) = Tool::find(site.mpi.fortran) else { continue };
        let foreign = compiled(compiler, "tests/mpi/foreign.f90", &[], &[]);
        let Output { status, stderr, .. } =
            output(&mut site.run(&foreign, "3", "9", Some(&preload)));
        let wrong = String::from_utf8_lossy(&stderr);
        assert!(
            status.success() && wrong.contains("50 calls of MPI_Barrier"),
            "{}: {wrong}",
            site.mpi.fortran
        );
    }
}
