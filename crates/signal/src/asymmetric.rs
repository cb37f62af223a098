//! A fence in two halves: nearly free on the side that is passed often, dear on the side that is
//! passed seldom.
//!
//! # Contract
//! Two threads each write one word and then read the other's. With a sequentially consistent fence
//! between the two steps on both sides, at least one of them sees what the other wrote (Dekker).
//! The same holds if one side has [`light`] there and the other [`heavy`].
//!
//! ```text
//!   often: a release of a lock            seldom: a thread that is about to sleep
//!     word = free                           sleepers = 1
//!     light()                               heavy()
//!     if sleepers { wake }                  if word is free { take it } else { sleep }
//! ```
//!
//! # Costs
//! `light`: nothing but that the compiler keeps the order. `heavy`: a system call that interrupts
//! every core on which a process runs that may be on the other side, 1 to 15 microseconds; a thread
//! that is about to sleep pays more anyway. Where the kernel has no such call (before Linux 4.16,
//! or forbidden), both are fences. Processes that share words must all have the call, or all lack
//! it: the light half of a process that has it orders nothing for one whose heavy half is a fence.
//!
//! # Source
//! membarrier(2), by M. Desnoyers; the use is that of userspace RCU and of folly's asymmetric
//! fences.

#[cfg(not(loom))]
mod real {
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

    use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

    /// Not asked yet, the kernel has the call, it has not.
    const UNKNOWN: u8 = 0;
    const THERE: u8 = 1;
    const ABSENT: u8 = 2;

    /// Whether this process is known to the kernel as one that has light fences.
    static REGISTERED: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[cold]
    fn register() -> u8 {
        if cfg!(miri) {
            // Miri does not know the call.
            REGISTERED.store(ABSENT, Ordering::Relaxed);
            return ABSENT;
        }
        let needed =
            [MembarrierCommand::GlobalExpedited, MembarrierCommand::RegisterGlobalExpedited];
        let known = membarrier_query();
        let there = needed.iter().all(|&command| known.contains_command(command))
            && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
        let state = if there { THERE } else { ABSENT };
        // Relaxed, here and below: nothing is published by it; a thread that reads it too early
        // registers as well, which changes nothing.
        REGISTERED.store(state, Ordering::Relaxed);
        state
    }

    /// The half that is passed often.
    #[inline]
    pub fn light() {
        if REGISTERED.load(Ordering::Relaxed) == THERE {
            compiler_fence(Ordering::SeqCst);
        } else {
            light_at_first();
        }
    }

    #[cold]
    fn light_at_first() {
        if REGISTERED.load(Ordering::Relaxed) == UNKNOWN {
            register();
        }
        // SeqCst: pairs with the fence in `heavy` (Dekker's pattern); no weaker fence orders a
        // store before a later load.
        fence(Ordering::SeqCst);
    }

    /// The half that is passed seldom.
    #[cold]
    pub fn heavy() {
        let state = match REGISTERED.load(Ordering::Relaxed) {
            UNKNOWN => register(),
            known => known,
        };
        if state != THERE || membarrier(MembarrierCommand::GlobalExpedited).is_err() {
            // SeqCst: pairs with the fence in `light`. No failure of a call that is there is known;
            // then the caller's sleep is bounded.
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(loom)]
mod mock {
    use loom::sync::atomic::{Ordering, fence};

    use crate::plant;

    /// The half that is passed often.
    pub fn light() {
        if !plant::is("asymmetric: no light fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// The half that is passed seldom.
    pub fn heavy() {
        if !plant::is("asymmetric: no heavy fence") {
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(loom)]
pub use mock::{heavy, light};
#[cfg(not(loom))]
pub use real::{heavy, light};
