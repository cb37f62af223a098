//! The machine and the time of a race: absolute times mean little without them.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// A machine, and the time.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The date and time of the beginning, UTC.
    date: String,
    processors: usize,
    /// The processors' model name, where the kernel reports it.
    processor: Option<String>,
    kernel: Option<String>,
}

impl Machine {
    /// Returns this machine and the present time; `processors` processors may be used.
    pub(crate) fn here(processors: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            date: date(now.map_or(0, |now| now.as_secs())),
            processors,
            processor: name.map(|(_, name)| name.trim().to_owned()),
            kernel: kernel.map(|kernel| format!("Linux {}", kernel.trim())),
        }
    }

    /// Formats the machine as one line of text.
    pub(crate) fn line(&self) -> String {
        let plural = if self.processors == 1 { "" } else { "s" };
        let of = self.processor.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        let kernel = self.kernel.as_ref().map_or(String::new(), |kernel| format!("; {kernel}"));
        format!("{}; {} processor{plural}{of}{kernel}", self.date, self.processors)
    }
}

/// Returns the date and time this number of seconds after the beginning of 1970, UTC.
fn date(seconds: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", days + 1, minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
            (1_772_323_200, "2026-03-01 00:00 UTC"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(date(seconds), expected);
        }
    }
}
