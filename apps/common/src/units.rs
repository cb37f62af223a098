//! Sizes, rates and times, parsed and printed.

use std::fmt;
use std::time::Duration;

use syncline_memory::room::Size;

/// A number of bytes, printed with a unit that is a power of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        for unit in ["B", "KiB", "MiB", "GiB"] {
            // Less than 1024, so that no value is rounded up to 1024.
            if value < 1023.95 {
                return write_value(f, value, unit);
            }
            value /= 1024.0;
        }
        write_value(f, value, "TiB")
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    let digits = usize::from(unit != "B");
    write!(f, "{value:.digits$} {unit}")
}

/// A required number of bytes: tenths of a MiB, rounded up, so that the printed parts add up to the
/// printed sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AtLeast {
    tenths: u64,
}

impl AtLeast {
    /// Ten tenths of a MiB in bytes; a single tenth is not a whole number of bytes.
    const TEN_TENTHS: u128 = 1 << 20;

    /// Returns the number of tenths, rounded up.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let tenths = (u128::from(bytes) * 10).div_ceil(Self::TEN_TENTHS);
        Self { tenths: u64::try_from(tenths).unwrap_or(u64::MAX) }
    }

    /// A margin for the libraries, stacks and allocator of a run, whose memory varies.
    pub const A_LITTLE_MORE: u64 = 384 << 10;

    /// Adds [`A_LITTLE_MORE`](Self::A_LITTLE_MORE).
    pub fn with_a_little_more(bytes: u64) -> Self {
        Self::new(bytes.saturating_add(Self::A_LITTLE_MORE))
    }

    /// Returns the sum.
    pub const fn and(self, other: Self) -> Self {
        Self { tenths: self.tenths.saturating_add(other.tenths) }
    }
}

impl fmt::Display for AtLeast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} MiB", self.tenths / 10, self.tenths % 10)
    }
}

/// A rate per second, printed with a unit that is a power of 1000.
#[derive(Clone, Copy, Debug)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0;
        for unit in ["", " k", " M"] {
            if value < 999.95 {
                return write!(f, "{value:.1}{unit}");
            }
            value /= 1000.0;
        }
        write!(f, "{value:.1} G")
    }
}

/// Returns bytes per second. A time below a nanosecond counts as a nanosecond, so that the rate is
/// finite.
pub fn rate(bytes: u64, time: Duration) -> Bytes {
    Bytes((bytes as f64 / time.as_secs_f64().max(1e-9)) as u64)
}

/// A time, printed with one digit more than is significant.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0 if seconds < 0.1 => write!(f, "{:.1} ms", seconds * 1e3),
            0..10 => write!(f, "{seconds:.2} s"),
            10..120 => write!(f, "{seconds:.1} s"),
            whole => write!(f, "{} min {:02} s", whole / 60, whole % 60),
        }
    }
}

/// The time of one of many operations, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Each(pub f64);

impl fmt::Display for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1.0.. => write!(f, "{:.2} s", self.0),
            1e-3.. => write!(f, "{:.2} ms", self.0 * 1e3),
            seconds => write!(f, "{:.1} us", seconds * 1e6),
        }
    }
}

/// Parses `512M`, `2G`, `1.5GiB`, `100000`; the units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    text.parse::<Size>().map(|size| size.0)
}

/// Parses `90`, `1.5s`, `200ms`, `5m`, `2h`. Zero is refused.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim_start() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time is a number and ms, s, m or h, as in 90 or 1.5s or 5m".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(Duration::ZERO) => Err("a time is more than nothing".to_owned()),
        Ok(time) => Ok(time),
        Err(_) => Err(format!("{text} is too long")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    #[test]
    fn times_are_read() {
        for (text, millis) in [
            ("90", 90_000),
            ("1.5", 1_500),
            (".5s", 500),
            ("200ms", 200),
            (" 5 m ", 300_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0ms", "s", "-1", "1d", "1.2.3", "inf", "1e3", "."] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert!(parse_time(&"9".repeat(30)).is_err());
    }

    #[test]
    fn values_are_shown() {
        let shown = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (12 << 30, "12.0 GiB")];
        for (bytes, text) in shown {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(Bytes(u64::MAX).to_string(), "16777216.0 TiB");
        let rates = [
            (0.0, "0.0"),
            (999.0, "999.0"),
            (1_500.0, "1.5 k"),
            (2e9, "2.0 G"),
            (3e12, "3000.0 G"),
        ];
        for (rate, text) in rates {
            assert_eq!(Rate(rate).to_string(), text);
        }
        let times = [(5, "5.0 ms"), (1_234, "1.23 s"), (61_000, "61.0 s"), (125_000, "2 min 05 s")];
        for (millis, text) in times {
            assert_eq!(Time(Duration::from_millis(millis)).to_string(), text);
        }
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn what_is_to_be_allowed_is_never_less(bytes in 0_u64..1 << 50) {
            let shown = AtLeast::new(bytes).to_string().replace(' ', "");
            prop_assert!((bytes..=bytes + (1 << 20) / 10).contains(&parse_size(&shown).unwrap()));
        }

        #[test]
        fn parts_that_are_shown_add_up(one in 0_u64..1 << 50, other in 0_u64..1 << 50) {
            // In tenths, as sums of floats are inexact.
            let tenths = |size: AtLeast| size.to_string().replace(" MiB", "").replace('.', "").parse::<u64>().unwrap();
            let (one, other) = (AtLeast::new(one), AtLeast::with_a_little_more(other));
            prop_assert_eq!(tenths(one) + tenths(other), tenths(one.and(other)));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC*") {
            let _ = (parse_size(&text), parse_time(&text));
        }

        #[test]
        fn whole_numbers_are_exact(bytes: u64) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }
    }
}
