//! Detects from the environment whether an MPI launcher started this process.
//!
//! | launcher          | sets                                            | gives                 |
//! |-------------------|-------------------------------------------------|-----------------------|
//! | Open MPI 5        | `OMPI_COMM_WORLD_SIZE`, `_RANK`, `OMPI_VERSION` | rank, size, version   |
//! | Open MPI up to 4  | the first two, and `OMPI_MCA_orte_*`            | rank, size            |
//! | Intel MPI         | `PMI_SIZE`, `PMI_RANK`, `I_MPI_*`               | rank, size            |
//! | MPICH             | `PMI_SIZE`, `PMI_RANK`, `MPI_LOCALNRANKS`       | rank, size            |
//! | Slurm's srun      | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` (below)  | rank, size, no family |
//! | another with PMIx | `PMIX_RANK`                                     | rank                  |
//!
//! A process of Slurm's srun also has `PMI_FD` or `PMIX_RANK`.

use std::fmt;

use crate::family::{Family, Version};

/// The kind of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MpiLauncher {
    /// The `mpirun` of an MPI.
    Mpirun,
    /// Slurm's `srun`.
    Srun,
    /// Any other launcher that speaks PMI or PMIx.
    Other,
}

/// The facts about the launcher of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launched {
    /// The kind of launcher.
    pub launcher: MpiLauncher,
    /// The family of the MPI that the launcher expects, if it gives one.
    pub family: Option<Family>,
    /// The major version of that MPI. For Open MPI, 4 stands for all versions up to 4.
    pub major: Option<u32>,
    /// The rank of this process in the world.
    pub rank: Option<usize>,
    /// The number of processes of the world.
    pub size: Option<usize>,
}

/// Returns the launcher that started this process, or `None` if no MPI launcher did.
#[must_use]
pub fn launched() -> Option<Launched> {
    read(|name| std::env::var(name).ok())
}

/// Returns the launcher that started this process with others, or did not say how many: `None` if
/// it is known to be the only one.
#[must_use]
pub fn launched_with_others() -> Option<Launched> {
    launched().filter(|launched| launched.size != Some(1))
}

/// Returns a name of the process that started this one, which no other process of the host has:
/// the user, the namespace of process numbers, and the number.
pub(crate) fn own_launcher() -> String {
    let user = rustix::process::geteuid().as_raw();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{user}-{}-{}", namespace.display(), std::os::unix::process::parent_id())
}

fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
    let has = |name: &str| variable(name).is_some();
    if let Some(size) = number("OMPI_COMM_WORLD_SIZE") {
        let said =
            variable("OMPI_VERSION").and_then(|version| Version::new(version.trim()).major());
        let old = has("OMPI_MCA_orte_launch") || has("OMPI_MCA_orte_ess_num_procs");
        return Some(Launched {
            launcher: MpiLauncher::Mpirun,
            family: Some(Family::OpenMpi),
            major: said.map(|major| major.max(4)).or(old.then_some(4)),
            rank: number("OMPI_COMM_WORLD_RANK"),
            size: Some(size),
        });
    }
    let pmi = has("PMI_FD") || has("PMI_PORT") || has("PMI_RANK");
    let pmix = number("PMIX_RANK");
    // A batch script has Slurm's numbers as well; a launched process also has a PMI or PMIx server.
    if (pmi || pmix.is_some()) && has("SLURM_PROCID") && !has("MPI_LOCALNRANKS") {
        return Some(Launched {
            launcher: MpiLauncher::Srun,
            family: None,
            major: None,
            rank: number("SLURM_PROCID").or(pmix),
            size: number("SLURM_STEP_NUM_TASKS").or(number("SLURM_NTASKS")),
        });
    }
    let (rank, size) = (number("PMI_RANK"), number("PMI_SIZE"));
    if rank.is_some() && size.is_some() || pmi && has("MPI_LOCALNRANKS") {
        let intel =
            has("I_MPI_MPIRUN") || has("I_MPI_HYDRA_TOPOLIB") || has("I_MPI_HYDRA_BOOTSTRAP");
        // Other launchers speak PMI as well; only Hydra sets the number of local ranks.
        let family = match (intel, has("MPI_LOCALNRANKS")) {
            (true, _) => Some(Family::IntelMpi),
            (false, true) => Some(Family::Mpich),
            (false, false) => None,
        };
        let launcher = if family.is_some() { MpiLauncher::Mpirun } else { MpiLauncher::Other };
        return Some(Launched { launcher, family, major: None, rank, size });
    }
    pmix.map(|rank| Launched {
        launcher: MpiLauncher::Other,
        family: None,
        major: None,
        rank: Some(rank),
        size: None,
    })
}

impl fmt::Display for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.launcher, self.family, self.major) {
            (MpiLauncher::Mpirun, Some(family), Some(major)) => {
                write!(f, "{family}'s mpirun (version {major})")
            }
            (MpiLauncher::Mpirun, Some(family), None) => write!(f, "{family}'s mpirun"),
            (MpiLauncher::Srun, ..) => f.write_str("Slurm's srun"),
            _ => f.write_str("a launcher of MPI programs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Launched> {
        read(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_are_known_by_what_they_set() {
        let open =
            [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "2"), ("PMIX_RANK", "2")];
        let five = of(&[&open[..], &[("OMPI_VERSION", "5.0.11")]].concat()).unwrap();
        assert_eq!(
            (five.family, five.major, five.rank, five.size),
            (Some(Family::OpenMpi), Some(5), Some(2), Some(4))
        );
        assert_eq!(five.to_string(), "Open MPI's mpirun (version 5)");
        let four = of(&[&open[..], &[("OMPI_MCA_orte_launch", "1")]].concat()).unwrap();
        assert_eq!(four.major, Some(4));
        assert_eq!(of(&open).unwrap().to_string(), "Open MPI's mpirun");

        let hydra =
            [("PMI_FD", "6"), ("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")];
        let mpich = of(&hydra).unwrap();
        assert_eq!(
            (mpich.family, mpich.major, mpich.rank, mpich.size),
            (Some(Family::Mpich), None, Some(1), Some(2))
        );
        let intel = of(&[&hydra[..], &[("I_MPI_MPIRUN", "mpirun")]].concat()).unwrap();
        assert_eq!(intel.family, Some(Family::IntelMpi));
        assert_eq!(of(&hydra[..3]).unwrap().launcher, MpiLauncher::Other);

        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("PMIX_RANK", "3")];
        let srun = of(&slurm).unwrap();
        assert_eq!(
            (srun.launcher, srun.family, srun.rank, srun.size),
            (MpiLauncher::Srun, None, Some(3), Some(8))
        );
        assert_eq!(of(&slurm[2..]).unwrap().rank, Some(3));
        // Hydra inside a job of Slurm is Hydra.
        assert_eq!(of(&[&slurm[..2], &hydra[..]].concat()).unwrap().family, Some(Family::Mpich));
    }

    #[test]
    fn nobody_launched_what_has_no_launchers_word() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "many")]), None);
        assert_eq!(of(&[("OMPI_ALLOW_RUN_AS_ROOT", "1")]), None);
    }
}
