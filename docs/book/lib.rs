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
    FarmRun "src/farm-run.md",
    FarmLines "src/farm-lines.md",
    Solve "src/solve.md",
    Python "src/python.md",
    Beyond "src/beyond.md",
    TracePage "src/trace.md",
    OrderedLocks "src/ordered-locks.md",
    DeadlockCheck "src/deadlock-check.md",
    CompiledSteps "src/compiled-steps.md",
    Waiting "src/waiting.md",
    BarrierCounter "src/barrier-counter.md",
    BarrierTournament "src/barrier-tournament.md",
    BarrierDissemination "src/barrier-dissemination.md",
    BarrierCombined "src/barrier-combined.md",
    LockTicket "src/lock-ticket.md",
    LockMcs "src/lock-mcs.md",
    OneExchangeSync "src/one-exchange-sync.md",
    RemoteMutex "src/remote-mutex.md",
    DeadlockDetection "src/deadlock-detection.md",
    FailureDetector "src/failure-detector.md",
    Channels "src/channels.md",
    TaskStealing "src/task-stealing.md",
    StreamedSweep "src/streamed-sweep.md",
    BlockedSweep "src/blocked-sweep.md",
    CrashSafeResults "src/crash-safe-results.md",
    Reproduced "src/reproduced.md",
    FromOpenmp "src/from-openmp.md",
    FromMpi "src/from-mpi.md",
    FromDask "src/from-dask.md",
    FromMultiprocessing "src/from-multiprocessing.md",
    FromGnuParallel "src/from-gnu-parallel.md",
    MemoryModel "src/memory-model.md",
    ProgressPage "src/progress.md",
    CrashSafety "src/crash-safety.md",
    Formats "src/formats.md",
    Failures "src/failures.md",
    Limits "src/limits.md",
    Faq "src/faq.md",
}
