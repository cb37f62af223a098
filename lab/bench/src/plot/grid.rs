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
    /// The values, row by row; the first row is at the bottom.
    pub(crate) rows: Vec<Vec<f64>>,
}

impl Grid {
    /// Returns a grid.
    pub(crate) fn new(title: impl Into<String>, names: [&str; 3], rows: Vec<Vec<f64>>) -> Self {
        Self { title: title.into(), names: names.map(str::to_owned), rows }
    }

    pub(super) fn size(&self) -> (i32, i32) {
        let title = width_of(&self.title, TEXT) + 2 * LINE;
        ((AREA + 60 + 130).max(title), AREA + 5 * LINE)
    }

    /// Returns the least and the greatest value.
    fn bounds(&self) -> (f64, f64) {
        let all = self.rows.iter().flatten().copied().filter(|value| value.is_finite());
        let (low, high) = all.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| {
            (low.min(value), high.max(value))
        });
        if low < high { (low, high) } else { (low.min(high), low.min(high) + 1.0) }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>) -> Result<()> {
        let (left, top) = (60, 3 * LINE / 2);
        words(on, &self.title, (LINE / 2, LINE / 2), TEXT, Side::Left)?;
        let (low, high) = self.bounds();
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(1).max(1) as i32;
        let rows = self.rows.len().max(1) as i32;
        let x = |n: i32| left + AREA * n / columns;
        let y = |n: i32| top + AREA - AREA * n / rows;
        let shade = |level: usize| {
            let grey = 250 - (level * 235 / (LEVELS - 1)) as u8;
            RGBColor(grey, grey, grey)
        };
        for (r, row) in (0..).zip(&self.rows) {
            for (c, value) in (0..).zip(row).filter(|(_, value)| value.is_finite()) {
                let part = (value - low) / (high - low);
                let level = ((part * LEVELS as f64) as usize).min(LEVELS - 1);
                let corners = [(x(c), y(r + 1)), (x(c + 1), y(r))];
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
        words(on, &format!("{up} (upwards)"), (LINE / 2, bottom + 48), TEXT, Side::Left)?;
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
        words(on, &crate::race::figure(high), (bar + 24, top), TEXT - 2, Side::Left)?;
        words(on, value, (bar - 10, bottom + 28), TEXT, Side::Left)
    }
}
