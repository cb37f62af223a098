//! The installed MPIs, and the carrier of their messages.

use std::env;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use syncline_mpi::{
    MpiError,
    build::compilers,
    launched::launched,
    shim::{Family, Shim, home, installed},
};

use super::Check;
use super::machine::several;
use crate::mpi::{in_words, named};

const PART: &str = "MPI";
const LAUNCHERS: [&str; 9] = [
    "mpirun",
    "mpiexec",
    "mpirun.openmpi",
    "mpiexec.openmpi",
    "mpirun.mpich",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "prterun",
    "srun",
];

/// The threads whose waits drive MPI.
const WAITS: &str = "drive MPI: in all threads at MPI_THREAD_MULTIPLE; in a program's own MPI at a lower level in \
                     the main thread, but at MPI_THREAD_SERIALIZED only if its process has one member";

pub(super) fn checks() -> Vec<Check> {
    let (compilers, shims) = (compilers(), installed());
    let good: Vec<&Shim> = shims.iter().filter_map(|(_, shim)| shim.as_ref().ok()).collect();
    let mut checks = Vec::new();
    if let Some(launched) = launched() {
        checks.push(Check::fine(PART, "started by", launched.to_string()));
    }
    checks.push(Check::fine(
        PART,
        "compilers",
        list(&compilers, "none on the path: teams stay on this host"),
    ));
    checks.push(Check::fine(PART, "launchers", list(&launchers(), "none on the path")));
    checks.extend(shims.iter().map(|(path, shim)| shim_check("shim", path, shim)));
    if shims.is_empty() || good.len() < compilers.len() {
        checks.push(missing(good.len(), compilers.len(), home().as_deref()));
    }
    checks.extend(named().map(|(path, shim)| shim_check("SYNCLINE_MPI", &path, &shim)));
    checks.push(Check::fine(PART, "transports", "memory within a host; MPI between hosts"));
    checks.push(Check::fine(PART, "waits", WAITS));
    checks.push(carriers(good.iter().any(|shim| shim.family == Family::OpenMpi)));
    checks
}

/// Checks whether the shims that are missing can be built at their first use.
fn missing(shims: usize, compilers: usize, home: Option<&Path>) -> Check {
    let found = match shims {
        0 => "none".to_owned(),
        _ => format!("{} for {}", several(shims, "shim"), several(compilers, "compiler")),
    };
    if compilers == 0 {
        return Check::fine(PART, "shims", found);
    }
    let Some(home) = home else {
        return Check::fine(PART, "shims", found).advise(
            true,
            "programs cannot build one, as neither XDG_DATA_HOME nor HOME is set: \
             `syncline mpi build --into DIR`",
        );
    };
    let is_writable = |folder: &Path| access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let nearest = home.ancestors().find(|folder| folder.exists()).unwrap_or(home);
    let place = home.display();
    Check::fine(PART, "shims", format!("{found}; the first program under an MPI builds its own in {place}")).advise(
        !nearest.is_dir() || !is_writable(nearest),
        "no file can be written there: run `syncline mpi build --into DIR`, and set SYNCLINE_MPI to the shim",
    )
}

fn list(paths: &[PathBuf], none: &str) -> String {
    match paths {
        [] => none.to_owned(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

fn shim_check(name: &'static str, path: &Path, shim: &Result<Shim, MpiError>) -> Check {
    let advice = match shim {
        Err(MpiError::Abi { .. }) => "run `syncline mpi build` again",
        _ if name == "SYNCLINE_MPI" => "unset it, or let it name a shim: see `syncline mpi list`",
        _ => "remove it, or run `syncline mpi build` again",
    };
    Check::fine(PART, name, in_words(path, shim)).advise(shim.is_err(), advice)
}

/// Returns the path at which a shell would find each launcher.
fn launchers() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    let first =
        |name: &&str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    LAUNCHERS.iter().filter_map(first).collect()
}

/// Checks which network would carry the messages of MPI.
fn carriers(open_mpi: bool) -> Check {
    let ucx = has_library("libucp.so");
    let cards =
        std::fs::read_dir("/sys/class/infiniband").map_or(0, |cards| cards.flatten().count());
    let mut parts = vec![
        if ucx { "UCX is installed".to_owned() } else { "no UCX".to_owned() },
        if cards == 0 { "no RDMA card: TCP".to_owned() } else { several(cards, "RDMA card") },
    ];
    let told: Vec<(&str, String)> =
        ["OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "UCX_TLS", "FI_PROVIDER"]
            .into_iter()
            .filter_map(|name| Some((name, env::var(name).ok()?)))
            .collect();
    parts.extend(told.iter().map(|(name, value)| format!("{name}={value}")));
    let wants = told
        .iter()
        .any(|(name, value)| *name == "OMPI_MCA_pml" && value.split(',').any(|pml| pml == "ucx"));
    Check::fine(PART, "network", parts.join("; "))
        .advise(wants && !ucx, "OMPI_MCA_pml asks for ucx, which is not found: unset it, or install UCX")
        .advise(
            cards > 0 && !ucx && open_mpi && !wants,
            "there is an RDMA card, and Open MPI reaches it by UCX, which is not found: messages go by TCP",
        )
}

/// Returns whether a library is in a default folder of the loader or in LD_LIBRARY_PATH.
fn has_library(name: &str) -> bool {
    let told = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let triplet = PathBuf::from(format!("/usr/lib/{}-linux-gnu", env::consts::ARCH));
    let folders = env::split_paths(&told).chain(usual).chain([triplet]);
    folders.into_iter().any(|folder| {
        let Ok(entries) = std::fs::read_dir(folder) else { return false };
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(name))
    })
}
