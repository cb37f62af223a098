//! A table as a picture.

use plotters::prelude::*;

use super::{Canvas, LINE, Side, TEXT, not_drawn, width_of, words};
use crate::error::Result;

/// A table: names at the left, and columns of figures.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Rows {
    /// Returns a table.
    pub(crate) fn new<H: Into<String>>(
        head: impl IntoIterator<Item = H>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows }
    }

    /// Returns the width of each column.
    fn widths(&self) -> Vec<i32> {
        let cell = |n: usize| {
            let all = [&self.head].into_iter().chain(&self.rows).filter_map(move |row| row.get(n));
            all.map(|text| width_of(text, TEXT)).max().unwrap_or(0) + LINE
        };
        (0..self.head.len()).map(cell).collect()
    }

    pub(super) fn size(&self) -> (i32, i32) {
        let width = self.widths().iter().sum::<i32>() + LINE;
        (width, (self.rows.len() as i32 + 3) * LINE)
    }

    pub(super) fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>) -> Result<()> {
        let widths = self.widths();
        let width: i32 = widths.iter().sum();
        for (r, row) in (0..).zip([&self.head].into_iter().chain(&self.rows)) {
            let y = LINE / 2 + r * LINE + if r > 0 { 6 } else { 0 };
            let mut x = LINE / 2;
            for (n, (text, width)) in row.iter().zip(&widths).enumerate() {
                // Words stand at the left, numbers at the right.
                let number = n > 0 && self.rows.iter().all(|row| is_number(row, n));
                let (at, side) = match number {
                    true => (x + width - LINE / 2, Side::Right),
                    false => (x, Side::Left),
                };
                words(on, text, (at, y), TEXT, side)?;
                x += width;
            }
        }
        let line = vec![(LINE / 2, LINE + 2), (LINE / 2 + width, LINE + 2)];
        on.draw(&PathElement::new(line, BLACK)).map_err(not_drawn)
    }
}

fn is_number(row: &[String], n: usize) -> bool {
    row.get(n).is_none_or(|text| text.chars().all(|c| !c.is_alphabetic() || c == 'e'))
}
