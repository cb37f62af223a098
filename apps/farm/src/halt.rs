//! `--halt`: the condition that ends a farm before its tasks do, in GNU parallel's syntax.

/// The condition that ends a farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halt {
    /// Whether running jobs are killed; otherwise they complete.
    pub(crate) now: bool,
    pub(crate) why: Cause,
    pub(crate) at: Limit,
}

/// The jobs that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Fail,
    Success,
    Done,
}

/// The number of jobs that meets the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Never,
    Jobs(u64),
    /// A percentage of all jobs.
    Percent(u64),
}

impl Halt {
    /// Returns whether the condition is met after this number of successes and failures, of `total`
    /// jobs.
    pub(super) fn is_met(&self, succeeded: u64, failed: u64, total: Option<u64>) -> bool {
        let count = match self.why {
            Cause::Fail => failed,
            Cause::Success => succeeded,
            Cause::Done => succeeded + failed,
        };
        match self.at {
            Limit::Never => false,
            Limit::Jobs(jobs) => count >= jobs,
            Limit::Percent(percent) => {
                count > 0
                    && total.is_some_and(|total| {
                        100 * u128::from(count) >= u128::from(percent) * u128::from(total)
                    })
            }
        }
    }
}

/// Parses the value of `--halt`.
pub(crate) fn parse(text: &str) -> Result<Halt, String> {
    let halt = |now, why, at| Ok(Halt { now, why, at });
    // The values of older versions of GNU parallel.
    match text {
        "never" | "0" => return halt(false, Cause::Fail, Limit::Never),
        "1" => return halt(false, Cause::Fail, Limit::Jobs(1)),
        "2" => return halt(true, Cause::Fail, Limit::Jobs(1)),
        "-1" => return halt(false, Cause::Success, Limit::Jobs(1)),
        "-2" => return halt(true, Cause::Success, Limit::Jobs(1)),
        _ => (),
    }
    if let Some(percent) = text.strip_suffix('%').filter(|number| !number.contains(',')) {
        return halt(false, Cause::Fail, Limit::Percent(number(percent, Some(99))?));
    }
    let expected = || "expected never, or now|soon,fail|success|done=N or =N%".to_owned();
    let (when, rest) = text.split_once(',').ok_or_else(expected)?;
    let now = match when {
        "now" => true,
        "soon" => false,
        _ => return Err(expected()),
    };
    let (why, at) = rest.split_once('=').ok_or_else(expected)?;
    let why = match why {
        "fail" => Cause::Fail,
        "success" => Cause::Success,
        "done" => Cause::Done,
        _ => return Err(expected()),
    };
    let at = match at.strip_suffix('%') {
        Some(percent) => Limit::Percent(number(percent, Some(100))?),
        None => Limit::Jobs(number(at, None)?),
    };
    halt(now, why, at)
}

fn number(text: &str, most: Option<u64>) -> Result<u64, String> {
    let most_in_words = most.map_or_else(String::new, |most| format!(" to {most}"));
    let number = text.parse().ok().filter(|number| (1..=most.unwrap_or(u64::MAX)).contains(number));
    number.ok_or_else(|| format!("{text:?} is no number from 1{most_in_words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_gnu_parallel() {
        for (text, now, why, at) in [
            ("now,fail=1", true, Cause::Fail, Limit::Jobs(1)),
            ("soon,fail=3%", false, Cause::Fail, Limit::Percent(3)),
            ("now,success=10", true, Cause::Success, Limit::Jobs(10)),
            ("soon,done=100%", false, Cause::Done, Limit::Percent(100)),
            ("1", false, Cause::Fail, Limit::Jobs(1)),
            ("2", true, Cause::Fail, Limit::Jobs(1)),
            ("-1", false, Cause::Success, Limit::Jobs(1)),
            ("-2", true, Cause::Success, Limit::Jobs(1)),
            ("30%", false, Cause::Fail, Limit::Percent(30)),
        ] {
            assert_eq!(parse(text), Ok(Halt { now, why, at }), "{text}");
        }
        assert!(["never", "0"].iter().all(|never| !parse(never).unwrap().is_met(9, 9, Some(9))));
        for text in [
            "",
            "now",
            "now,",
            "now,fail",
            "now,fail=",
            "now,fail=0",
            "now,fail=x",
            "later,fail=1",
            "now,all=1",
            "now,fail=101%",
            "now,fail=0%",
            "now,fail=1.5",
            "100%",
            "%",
            "3",
            "now,fail=1,2",
            "now,fail=-1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_are_of_all_jobs() {
        let half = parse("now,fail=50%").unwrap();
        assert!(
            !half.is_met(9, 1, Some(3)) && half.is_met(0, 2, Some(3)) && !half.is_met(0, 2, None)
        );
        let three = parse("soon,done=3").unwrap();
        assert!(!three.is_met(1, 1, None) && three.is_met(2, 1, None));
        let any = parse("now,success=1%").unwrap();
        assert!(!any.is_met(0, 5, Some(0)) && any.is_met(1, 0, Some(50)));
    }
}
