//! The summary of several measurements of the same quantity.

/// Returns the median (the mean of the two middle values if their number is even); `None` without
/// values.
pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// The spread of times.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Spread {
    /// The median; the mean of the two middle values if their number is even.
    pub(crate) median: f64,
    /// The least value.
    pub(crate) best: f64,
    /// The 90th percentile.
    pub(crate) p90: f64,
}

impl Spread {
    /// Returns the spread of these values; `None` without values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        Some(Self {
            median: f64::midpoint(values[last / 2], values[values.len() / 2]),
            best: values[0],
            p90: values[(values.len() * 9).div_ceil(10) - 1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_the_least_and_nine_of_ten() {
        let of = |n: u32| Spread::of((1..=n).rev().map(f64::from).collect());
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(Spread { median: 1.0, best: 1.0, p90: 1.0 }));
        assert_eq!(of(10), Some(Spread { median: 5.5, best: 1.0, p90: 9.0 }));
        assert_eq!(of(101), Some(Spread { median: 51.0, best: 1.0, p90: 91.0 }));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    }
}
