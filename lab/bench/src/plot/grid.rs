//! A value for each cell of a grid, in equal levels of grey.

use plotters::prelude::*;

use super::{Canvas, LINE, Side, TEXT, not_drawn, width_of, words};
use crate::error::Result;

/// The number of levels: as in the papers.
const LEVELS: usize = 12;
/// The size of the area of the cells.
const AREA: i32 = 320;

/// A grid.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) title: String,
    /// The names of the columns, of the rows, and of the values with their unit.
    pub(crate) names: [String; 3],
    /// The values, row by row.
    pub(crate) rows: Vec<Vec<f64>>,
    /// Whether the first row is at the top.
    downwards: bool,
}

impl Grid {
    /// Returns a grid.
    pub(crate) fn new(title: impl Into<String>, names: [&str; 3], rows: Vec<Vec<f64>>) -> Self {
        Self { title: title.into(), names: names.map(str::to_owned), rows, downwards: false }
    }

    /// Draws the first row at the top, as in a matrix.
    pub(crate) fn downwards(self) -> Self {
        Self { downwards: true, ..self }
    }

    pub(super) fn size(&self) -> (i32, i32) {
        let title = width_of(&self.title, TEXT) + 2 * LINE;
        ((AREA + 60 + 130).max(title), AREA + 5 * LINE)
    }

    /// Returns the least and the greatest value. If few values are far beyond all others, the
    /// greatest one of the others: those few are as dark.
    fn bounds(&self) -> (f64, f64) {
        let all = self.rows.iter().flatten().copied().filter(|value| value.is_finite());
        let (low, high) = all.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| {
            (low.min(value), high.max(value))
        });
        let mut all: Vec<f64> = self.rows.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let most = all.get(all.len().saturating_sub(1) * 94 / 100).copied().unwrap_or(high);
        let high = if most > low && high > 2.0 * most { most } else { high };
        if low < high { (low, high) } else { (low.min(high), low.min(high) + 1.0) }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>) -> Result<()> {
        let (left, top) = (60, 3 * LINE / 2);
        words(on, &self.title, (LINE / 2, LINE / 2), TEXT, Side::Left)?;
        let (low, high) = self.bounds();
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(1).max(1) as i32;
        let rows = self.rows.len().max(1) as i32;
        let x = |n: i32| left + AREA * n / columns;
        let y = |n: i32| match self.downwards {
            true => top + AREA * n / rows,
            false => top + AREA - AREA * n / rows,
        };
        let shade = |level: usize| {
            let grey = 250 - (level * 235 / (LEVELS - 1)) as u8;
            RGBColor(grey, grey, grey)
        };
        for (r, row) in (0..).zip(&self.rows) {
            for (c, value) in (0..).zip(row).filter(|(_, value)| value.is_finite()) {
                let part = (value - low) / (high - low);
                let level = ((part * LEVELS as f64) as usize).min(LEVELS - 1);
                let (one, other) = (y(r), y(r + 1));
                let corners = [(x(c), one.min(other)), (x(c + 1), one.max(other))];
                on.draw(&Rectangle::new(corners, shade(level).filled())).map_err(not_drawn)?;
            }
        }
        let frame = Rectangle::new([(left, top), (left + AREA, top + AREA)], BLACK);
        on.draw(&frame).map_err(not_drawn)?;
        let bottom = top + AREA;
        let step = |count: i32| ((count + 6) / 8).max(1) as usize;
        for c in (0..columns).step_by(step(columns)) {
            let at = ((x(c) + x(c + 1)) / 2, bottom + 10);
            words(on, &c.to_string(), at, TEXT - 2, Side::Centre)?;
        }
        for r in (0..rows).step_by(step(rows)) {
            let at = (left - 6, (y(r) + y(r + 1)) / 2);
            words(on, &r.to_string(), at, TEXT - 2, Side::Right)?;
        }
        let [across, up, value] = &self.names;
        words(on, across, (left + AREA / 2, bottom + 28), TEXT, Side::Centre)?;
        words(on, &format!("{up} (vertical)"), (LINE / 2, bottom + 48), TEXT, Side::Left)?;
        let bar = left + AREA + 16;
        for level in 0..LEVELS {
            let n = level as i32;
            let edge = |n: i32| bottom - AREA * n / LEVELS as i32;
            let box_ =
                Rectangle::new([(bar, edge(n + 1)), (bar + 18, edge(n))], shade(level).filled());
            on.draw(&box_).map_err(not_drawn)?;
            if level % 3 == 0 {
                let at = low + (high - low) * level as f64 / LEVELS as f64;
                words(on, &crate::race::figure(at), (bar + 24, edge(n)), TEXT - 2, Side::Left)?;
            }
        }
        on.draw(&Rectangle::new([(bar, top), (bar + 18, bottom)], BLACK)).map_err(not_drawn)?;
        let clipped = self.rows.iter().flatten().any(|value| *value > high);
        let end = if clipped { "and more" } else { &crate::race::figure(high) };
        words(on, end, (bar + 24, top), TEXT - 2, Side::Left)?;
        words(on, value, (bar - 10, bottom + 28), TEXT, Side::Left)
    }
}
