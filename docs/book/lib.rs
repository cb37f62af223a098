//! The pages of the book, so that `cargo test` compiles and runs their Rust code.
//!
//! Each page of `src/SUMMARY.md` is named here; `tests/pages.rs` checks that. The shell code of the
//! pages is run by a test of the command (`apps/cli/tests/cli/book.rs`).

macro_rules! pages {
    ($($name:ident $file:literal),* $(,)?) => {$(
        #[cfg(doctest)]
        #[doc = include_str!($file)]
        struct $name;
    )*};
}

pages! {
    Introduction "src/introduction.md",
    Sweep "src/sweep.md",
    Overlay "src/overlay.md",
    TeamPage "src/team.md",
    RmaPage "src/rma.md",
    Farm "src/farm.md",
    Beyond "src/beyond.md",
    FromOpenmp "src/from-openmp.md",
    FromMpi "src/from-mpi.md",
    FromDask "src/from-dask.md",
    FromMultiprocessing "src/from-multiprocessing.md",
    FromGnuParallel "src/from-gnu-parallel.md",
    MemoryModel "src/memory-model.md",
    ProgressPage "src/progress.md",
    CrashSafety "src/crash-safety.md",
    Failures "src/failures.md",
    Limits "src/limits.md",
    Faq "src/faq.md",
}
