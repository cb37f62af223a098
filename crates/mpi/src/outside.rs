//! Starts a process that is no rank, from a process that may be one.
//!
//! # Contract
//! An MPI launcher passes to each rank, in variables and descriptors, what makes it that rank. A
//! process that a rank starts inherits them. If it calls `MPI_Init`, it claims to be the rank that
//! started it: MPICH waits for ever, Open MPI ends the job. So a process that is a program of its
//! own is started without them, as a batch script would start it: `MPI_Init` makes it a job of one
//! rank, and it may run `mpirun` itself. [`leave_rank`] decides for all of Syncline what that is.
//!
//! Settings of users remain: `OMPI_MCA_btl`, `PMIX_MCA_gds`, `I_MPI_FABRICS`, `MPIR_CVAR_...`,
//! `OMPI_ALLOW_RUN_AS_ROOT`, `CUDA_VISIBLE_DEVICES`. So do the variables of a batch job, with which
//! `mpirun` and `srun` find their machines (`SLURM_JOB_ID`, `PBS_NODEFILE`, `FLUX_URI`). A setting
//! that a launcher exports for an option of its own, such as `mpirun --mca btl self`, counts as a
//! user's.
//!
//! # Sources
//! The tables below name the source of each pattern. "Seen" are the variables of a rank that this
//! launcher added to an empty environment.

use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, fstat};
use syncline_process::{Spawn, inherit};

use crate::launched::launched;

/// The variables of a rank. A star at the end stands for any text. [`USERS`] are exceptions.
const OF_A_RANK: &[&str] = &[
    // PMI-1 and PMI-2, "simple" wire protocol: Hydra of MPICH 4.0 and 5.0 (seen: PMI_FD, PMI_RANK,
    // PMI_SIZE, PMI_HOSTNAME), Slurm's mpi/pmi2, Flux's shell, Cray's ALPS and PALS.
    "PMI_*",
    "PMI2_*",
    // PMIx, "PMIx_server_setup_fork": Open MPI 4.1 and 5.0 (seen), Slurm's mpi/pmix.
    "PMIX_*",
    // Hydra, src/pm/hydra/proxy (seen).
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_CONTROL_FD",
    "HYDRA_PROXY_*",
    // Open MPI 4.1, orte/mca/schizo/ompi and orte/mca/odls (seen); Open MPI 5.0 (seen).
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_COMM_WORLD_*",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_NUM_APP_CTX",
    "OMPI_TOOL_NAME",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_VERSION",
    "OMPI_WORLD_*",
    "OMPI_MCA_PREFIXES",
    "OMPI_MCA_cpu_type",
    "OMPI_MCA_ess",
    "OMPI_MCA_ess_*",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_num_procs",
    "OMPI_MCA_orte_*",
    "OMPI_MCA_pmix",
    "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
    "OMPI_PARENT_PORT",
    "OPAL_USER_PARAMS_GIVEN",
    "ORTE_*",
    // PRRTE, the launcher of Open MPI 5.0 (seen: PRTE_LAUNCHED, PRTE_SHARED_FS).
    "PRTE_*",
    // Intel MPI's mpirun sets these beside Hydra's.
    "I_MPI_MPIRUN",
    // HPE Cray: palsd, and flux-shell's pmi-cray-pals.
    "PALS_APID",
    "PALS_APINFO",
    "PALS_LOCAL_RANKID",
    "PALS_LOCAL_SIZE",
    "PALS_NODEID",
    "PALS_RANKID",
    "PALS_SIZE",
    "PALS_SPOOL_DIR",
    "PALS_STARTUP_*",
    "ALPS_APP_*",
    // Flux, flux-run(1), "ENVIRONMENT".
    "FLUX_JOB_NNODES",
    "FLUX_JOB_SIZE",
    "FLUX_KVS_NAMESPACE",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_TASK_RANK",
    // IBM's jsrun, and MVAPICH's mpirun_rsh.
    "JSM_*",
    "MV2_COMM_WORLD_*",
    "MVP_COMM_WORLD_*",
    "MPIRUN_*",
];

/// What Slurm's srun sets for a step and for each of its tasks: srun(1), "OUTPUT ENVIRONMENT
/// VARIABLES". A batch script has some of them as well, and keeps them: they are removed only from
/// the children of a process that a launcher started.
const OF_A_STEP: &[&str] = &[
    "SLURM_CPU_BIND*",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_MPI_TYPE",
    "SLURM_NODEID",
    "SLURM_PMIX*",
    "SLURM_PMI2_*",
    "SLURM_PROCID",
    "SLURM_SRUN_COMM_*",
    "SLURM_STEPID",
    "SLURM_STEP_*",
    "SLURM_TASK_PID",
];

/// The settings of users among the variables of [`OF_A_RANK`].
const USERS: &[&str] = &[
    // Parameters of PMIx and PRRTE: their manuals, "MCA parameters". The prefixes find the files of
    // an installation that was moved.
    "PMIX_MCA_*",
    "PMIX_DEBUG*",
    "PMIX_INSTALL_PREFIX",
    "PMIX_PREFIX",
    "PRTE_ALLOW_RUN_AS_ROOT*",
    "PRTE_MCA_*",
    "PRTE_PREFIX",
    // Cray MPICH, intro_mpi(3), "PMI environment variables"; MPICH's PMI.
    "PMI_DEBUG*",
    "PMI_MMAP_*",
    "PMI_NO_*",
];

/// The variables that hold the number of a descriptor of a rank: PMI's connection to the process
/// manager, Hydra's control connection, and PALS's.
const DESCRIPTORS: &[&str] = &["PMI_FD", "HYDI_CONTROL_FD", "PMI_CONTROL_FD"];

/// Removes from a process that is about to be started the variables and descriptors by which an MPI
/// launcher made this process a rank. Changes nothing in a process that is no rank.
///
/// Must be called before variables of such names are set on purpose ([`Spawn::env`]).
///
/// ```
/// use syncline_mpi::outside::leave_rank;
/// use syncline_process::Spawn;
///
/// let mut spawn = Spawn::new("true");
/// leave_rank(&mut spawn); // also under mpirun, the process is no rank
/// assert!(spawn.start()?.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn leave_rank(spawn: &mut Spawn<'_>) {
    let in_step = launched().is_some();
    for (name, value) in std::env::vars_os() {
        if !is_of_a_rank(&name, in_step) {
            continue;
        }
        let number = || value.to_str()?.trim().parse::<RawFd>().ok();
        if DESCRIPTORS.iter().any(|other| name == *other)
            && let Some(number) = number().filter(|number| is_connection(*number))
        {
            spawn.close(number);
        }
        spawn.env_remove(name);
    }
}

/// Returns whether a launcher has set the variable for a rank; `in_step` tells whether a launcher
/// started this process.
fn is_of_a_rank(name: &OsStr, in_step: bool) -> bool {
    let is_among = |table: &[&str]| {
        table.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(begin) => name.as_bytes().starts_with(begin.as_bytes()),
            None => name == *pattern,
        })
    };
    (is_among(OF_A_RANK) || in_step && is_among(OF_A_STEP)) && !is_among(USERS)
}

/// Returns whether the descriptor is a socket, as a connection to a process manager is. An MPI that
/// has ended has closed its own, and the number may be another file's.
fn is_connection(number: RawFd) -> bool {
    let copy = number.checked_sub(3).and_then(|_| inherit::copy(number).ok());
    let stat = copy.and_then(|copy| fstat(copy).ok());
    stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What launchers were seen to set, and what users set.
    #[test]
    fn variables_of_launchers_go_and_those_of_users_stay() {
        let launchers = "PMI_FD PMI_RANK PMI_SIZE PMI_HOSTNAME MPI_LOCALNRANKS MPI_LOCALRANKID \
            HYDI_CONTROL_FD OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_SIZE OMPI_MCA_ess \
            OMPI_MCA_ess_base_vpid OMPI_MCA_orte_launch OMPI_MCA_orte_hnp_uri OMPI_MCA_pmix \
            OMPI_MCA_num_procs OMPI_UNIVERSE_SIZE OMPI_VERSION PMIX_RANK PMIX_NAMESPACE PMIX_ID \
            PMIX_SERVER_URI41 PMIX_PARAM_FILE_PASSED PRTE_LAUNCHED PALS_RANKID FLUX_TASK_RANK \
            JSM_NAMESPACE_RANK MV2_COMM_WORLD_RANK";
        for name in launchers.split_whitespace() {
            assert!(is_of_a_rank(name.as_ref(), false), "{name}");
        }
        let users = "OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include OMPI_MCA_pml OMPI_MCA_pmix_base_verbose \
            OMPI_MCA_rmaps_base_oversubscribe OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM \
            OMPI_CC OMPI_CFLAGS OMPI_LIBDIR_LOC OPAL_PREFIX PMIX_MCA_gds PMIX_PREFIX PRTE_MCA_plm \
            PRTE_ALLOW_RUN_AS_ROOT I_MPI_FABRICS I_MPI_PMI_LIBRARY MPIR_CVAR_CH4_NETMOD PMI_NO_FORK \
            HYDRA_LAUNCHER CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES OMP_NUM_THREADS PATH FLUX_URI \
            SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NTASKS PBS_NODEFILE SYNCLINE_MPI PMIXED";
        for name in users.split_whitespace() {
            assert!(!is_of_a_rank(name.as_ref(), true), "{name}");
        }
        for name in ["SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"] {
            assert!(is_of_a_rank(name.as_ref(), true), "{name}");
            assert!(!is_of_a_rank(name.as_ref(), false), "{name}");
        }
    }

    #[test]
    fn only_a_connection_is_closed() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = |fd: &dyn std::os::fd::AsRawFd| fd.as_raw_fd();
        assert!(is_connection(number(&socket)));
        assert!(!is_connection(number(&file)) && !is_connection(-1) && !is_connection(1 << 20));
    }
}
