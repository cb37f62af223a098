//! The minimum effective task granularity of Task Bench: the length of tasks at which they take
//! half of the time.
//!
//! Efficiency is the ideal time divided by the wall time; the ideal time is the number of tasks
//! times the grain, divided by the number of workers. METG(50 %) is the smallest grain with an
//! efficiency of one half. Between two measured grains it is interpolated on a logarithmic scale:
//! with grain g and an overhead c per task, the efficiency e is g / (g + c), so log(e / (1 - e)) is
//! a linear function of log g, and the interpolation is exact if the overhead does not depend on
//! the grain.

/// The efficiency of a grain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// The time of a body, in nanoseconds.
    pub(crate) grain: f64,
    /// The ideal time divided by the wall time.
    pub(crate) efficiency: f64,
}

/// A METG(50 %), in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Metg {
    /// The least grain was efficient already.
    AtMost(f64),
    /// Interpolated between two grains.
    At(f64),
    /// No grain was efficient.
    MoreThan(f64),
}

impl Metg {
    /// Returns the METG(50 %) of these points, in ascending order of their grains; `None` without
    /// points.
    pub(crate) fn of(points: &[Point]) -> Option<Self> {
        let Some(first) = points.iter().position(|point| point.efficiency >= 0.5) else {
            return points.last().map(|last| Self::MoreThan(last.grain));
        };
        let above = points[first];
        let Some(below) = first.checked_sub(1).map(|i| points[i]) else {
            return Some(Self::AtMost(above.grain));
        };
        let logit = |point: Point| {
            let e = point.efficiency.clamp(1e-6, 1.0 - 1e-6);
            (e / (1.0 - e)).ln()
        };
        let (low, high) = (logit(below), logit(above));
        // From below 0 to 0 or above.
        let way = -low / (high - low);
        Some(Self::At(below.grain * (above.grain / below.grain).powf(way)))
    }

    /// Returns the bound or value, in nanoseconds.
    pub(crate) fn ns(self) -> f64 {
        match self {
            Self::AtMost(ns) | Self::At(ns) | Self::MoreThan(ns) => ns,
        }
    }

    /// Returns the kind of the number.
    pub(crate) fn bound(self) -> &'static str {
        match self {
            Self::AtMost(_) => "at most",
            Self::At(_) => "at",
            Self::MoreThan(_) => "more than",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(overhead: f64, grains: &[f64]) -> Vec<Point> {
        grains
            .iter()
            .map(|&grain| Point { grain, efficiency: grain / (grain + overhead) })
            .collect()
    }

    #[test]
    fn a_constant_overhead_is_found_between_far_grains() {
        let Some(Metg::At(ns)) = Metg::of(&points(37.0, &[4.0, 16.0, 64.0, 256.0])) else {
            panic!()
        };
        assert!((ns - 37.0).abs() < 1e-6, "{ns}");
    }

    #[test]
    fn grains_may_all_be_too_short_or_long_enough() {
        assert_eq!(Metg::of(&points(37.0, &[4.0, 16.0])), Some(Metg::MoreThan(16.0)));
        assert_eq!(Metg::of(&points(37.0, &[64.0, 256.0])), Some(Metg::AtMost(64.0)));
        assert_eq!(Metg::of(&[]), None);
    }

    #[test]
    fn efficiencies_of_more_than_one_do_no_harm() {
        let points =
            [(8.0, 0.2), (16.0, 1.3)].map(|(grain, efficiency)| Point { grain, efficiency });
        let ns = Metg::of(&points).unwrap().ns();
        assert!((8.0..16.0).contains(&ns), "{ns}");
    }
}
