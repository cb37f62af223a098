//! The clock of spans: the processor's time-stamp counter where Linux itself trusts it, otherwise
//! the monotonic clock.
//!
//! # Contract
//! [`now`] returns *ticks*, which never decrease along a happens-before order. A [`ClockPair`] is a
//! tick and the monotonic clock at the same moment; two pairs of a process convert all ticks
//! between them. So nothing is calibrated while a program runs.
//!
//! # Costs
//! A time stamp is one instruction, 12 ns in a virtual machine of 2026; the monotonic clock takes
//! 30 ns. A [`ClockPair`] takes thirteen clock readings.
//!
//! # Method
//! Linux chooses the clock source `tsc` only while all processors agree on the counter, and it
//! watches it (`Documentation/timers/timekeeping.rst`). Under `kvm-clock` and `hyperv` the flags
//! `constant_tsc` and `nonstop_tsc` decide. On AArch64 the generic timer is always common.
//!
//! A pair is as wrong as the time between its two readings of the counter is long: milliseconds if
//! another process runs in between. So a pair is the best of several, as in F. Cristian,
//! "Probabilistic clock synchronization", Distributed Computing 3 (1989).

use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment on three clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPair {
    /// The ticks of spans.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` in nanoseconds, which all processes of a host have in common.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// The monotonic clock, and the counter on both sides of it: its value in the middle belongs to it.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    before: u64,
    monotonic_ns: u64,
    after: u64,
}

/// The number of readings for a pair.
const READINGS: usize = 4;

/// Returns the reading that took least time.
fn closest(readings: [Reading; READINGS]) -> Reading {
    readings.into_iter().min_by_key(|reading| reading.after - reading.before).unwrap_or_default()
}

impl ClockPair {
    /// Reads the clocks now.
    #[must_use]
    pub fn now() -> ClockPair {
        let reading = || Reading { before: now(), monotonic_ns: monotonic_ns(), after: now() };
        let Reading { before, monotonic_ns, after } =
            closest(std::array::from_fn::<_, READINGS, _>(|_| reading()));
        let realtime = clock_gettime(ClockId::Realtime);
        ClockPair {
            ticks: before + (after - before) / 2,
            monotonic_ns,
            realtime_ns: nanoseconds(realtime),
        }
    }

    /// Converts a tick to monotonic nanoseconds along the line through `self` and `other`.
    ///
    /// Both pairs are of one process. The same line continues outside of the two pairs.
    #[must_use]
    pub fn convert(&self, other: &ClockPair, ticks: u64) -> u64 {
        let run = i128::from(other.ticks) - i128::from(self.ticks);
        let rise = i128::from(other.monotonic_ns) - i128::from(self.monotonic_ns);
        let from = i128::from(ticks) - i128::from(self.ticks);
        let (run, rise) = if run == 0 { (1, 1) } else { (run, rise) };
        // A damaged trace may hold any numbers.
        let risen = from.saturating_mul(rise) / run;
        i128::from(self.monotonic_ns).saturating_add(risen).clamp(0, i128::from(u64::MAX)) as u64
    }
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Returns the ticks of this moment.
///
/// # Memory ordering
/// The reading is not ordered with other instructions of the thread: it may be early or late by
/// the few nanoseconds for which the processor runs ahead.
#[inline]
pub fn now() -> u64 {
    if counter_is_trusted() { counter() } else { monotonic_ns() }
}

/// Returns whether ticks are of the processor's counter.
#[inline]
pub(crate) fn counter_is_trusted() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    *TRUSTED.get_or_init(ask)
}

#[cfg(target_arch = "x86_64")]
fn ask() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Ok(source) = std::fs::read_to_string(source) else { return false };
    let flags = || std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match source.trim() {
        "tsc" => true,
        "kvm-clock" | "hyperv_clocksource_tsc_page" => flags()
            .lines()
            .filter(|line| line.starts_with("flags"))
            .all(|line| line.contains(" constant_tsc") && line.contains(" nonstop_tsc")),
        _ => false,
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register, and every x86-64 processor has it. (The kernel can
    // forbid it by prctl; a program that does so gets SIGSEGV from its libc as well.)
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ask() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the instruction reads the virtual counter, which Linux opens to user space, and has
    // no other effect.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ask() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn counter() -> u64 {
    monotonic_ns()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    #[test]
    fn ticks_of_a_pair_lie_between_those_around_it() {
        let before = now();
        let pair = ClockPair::now();
        let after = now();
        assert!(before <= pair.ticks && pair.ticks <= after);
    }

    /// The thread loses its processor within all readings but one.
    #[test]
    fn a_pair_is_of_the_reading_that_nothing_interrupted() {
        let reading = |before, after, monotonic_ns| Reading { before, monotonic_ns, after };
        let readings = [
            reading(0, 9_000_000, 100),
            reading(9_000_000, 9_000_040, 3_000_120),
            reading(9_000_040, 9_000_500, 3_000_300),
            reading(9_000_500, 20_000_000, 3_000_400),
        ];
        assert_eq!(closest(readings).monotonic_ns, 3_000_120);
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn conversion_follows_the_line(
            ticks in 0u64..1 << 60, run in 1u64..1 << 40, ns in 0u64..1 << 60, rise in 0u64..1 << 40,
            part in 0u64..1 << 40,
        ) {
            let first = ClockPair { ticks, monotonic_ns: ns, realtime_ns: 0 };
            let last = ClockPair { ticks: ticks + run, monotonic_ns: ns + rise, realtime_ns: 0 };
            prop_assert_eq!(first.convert(&last, ticks), ns);
            prop_assert_eq!(first.convert(&last, ticks + run), ns + rise);
            let inside = first.convert(&last, ticks + part % run);
            prop_assert!(ns <= inside && inside <= ns + rise);
        }
    }
}
