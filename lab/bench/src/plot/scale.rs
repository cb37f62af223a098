//! The scale of an axis: its range, and its ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// A scale.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    range: Range<f64>,
    log: bool,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Returns a linear scale that contains these values.
    pub(super) fn linear(values: impl Iterator<Item = f64>, zero: bool) -> Self {
        let (low, high) = bounds(values);
        let low = if zero { low.min(0.0) } else { low };
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let step = nice(span / 6.0);
        let (from, to) = ((low / step).floor() * step, (low.max(high) / step + 0.2).ceil() * step);
        let count = ((to - from) / step).round() as usize;
        let ticks = (0..=count).map(|n| from + n as f64 * step);
        Self { range: from..to, log: false, ticks: ticks.map(|at| (at, label(at))).collect() }
    }

    /// Returns a logarithmic scale that contains these positive values.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = bounds(values.filter(|&value| value > 0.0));
        let (low, high) = if low > 0.0 { (low, high.max(low)) } else { (1.0, 10.0) };
        let (from, to) = (low / 1.3, high * 1.3);
        let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
        let digits: &[f64] = match to / from {
            few if few < 6.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            some if some < 3000.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let ticks = powers.flat_map(|power| {
            // A negative power of ten is not exact; its reciprocal, rounded once, prints without an
            // error.
            let ten = 10_f64.powi(power.abs());
            digits.iter().map(move |digit| if power < 0 { digit / ten } else { digit * ten })
        });
        let inside = ticks.filter(|tick| (from..to).contains(tick));
        let ticks = inside.map(|at| (at, label(at))).collect();
        Self { range: from..to, log: true, ticks }
    }

    /// Returns a scale with a tick for each of these numbers, and nothing between.
    pub(super) fn at(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let mut all: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let scale = if log {
            Self::log(all.iter().copied())
        } else {
            Self::linear(all.iter().copied(), false)
        };
        let span = scale.range.end - scale.range.start;
        let range = match (log, all.first(), all.last()) {
            (false, Some(first), Some(last)) => first - 0.03 * span..last + 0.03 * span,
            _ => scale.range,
        };
        Self { range, log, ticks: all.into_iter().map(|at| (at, label(at))).collect() }
    }

    /// Returns a scale of names, at the numbers from 0.
    pub(super) fn places(names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(n, name)| (n as f64, name.clone())).collect();
        Self { range: -0.5..names.len() as f64 - 0.5, log: false, ticks }
    }

    /// Returns the text of a tick.
    pub(super) fn text(&self, at: f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0.to_bits() == at.to_bits());
        tick.map_or_else(String::new, |tick| tick.1.clone())
    }

    /// Returns the number of ticks.
    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| if self.log { value.max(1e-300).ln() } else { value };
        let (from, to) = (place(self.range.start), place(self.range.end));
        let part = (place(*value) - from) / (to - from);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        self.text(*value)
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Returns 1, 2 or 5 times a power of ten: the least that is not below a step.
fn nice(step: f64) -> f64 {
    let ten = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * ten)
        .find(|&nice| nice >= step * 0.999)
        .unwrap_or(step)
}

/// Returns a number without superfluous digits.
fn label(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return format!("{number:.0e}");
    }
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_inside_the_range() {
        let all = |scale: Scale| scale.ticks.into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        let linear = all(Scale::linear([0.3, 5.9].into_iter(), true));
        assert_eq!(linear, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(all(Scale::log([0.2, 1.6].into_iter())), ["0.2", "0.5", "1", "2"]);
        assert_eq!(all(Scale::log([3.0, 4.0].into_iter())), ["3", "4", "5"]);
        assert_eq!(all(Scale::log([1.0, 1e6].into_iter())).len(), 7);
        assert_eq!(all(Scale::at([4.0, 2.0, 4.0].into_iter(), false)), ["2", "4"]);
        for none in [Scale::linear([].into_iter(), true), Scale::log([0.0].into_iter())] {
            assert!(none.range.start < none.range.end && !none.ticks.is_empty());
        }
        let one = Scale::linear([7.0].into_iter(), false);
        assert!(one.range.contains(&7.0), "{one:?}");
        assert_eq!(one.map(&f64::from(one.range.start as f32), (0, 100)), 0);
    }
}
