//! Figures as SVG and PNG, drawn by `plotters`.
//!
//! | panel          | contents                                                     |
//! |----------------|--------------------------------------------------------------|
//! | [`Chart`]      | lines over two axes, each with its unit                      |
//! | [`Grid`]       | a value for each cell of a grid, in equal levels of grey     |
//! | [`Drawing`]    | boxes, circles, arrows and words                             |
//! | [`Rows`]       | a table                                                      |
//!
//! Lines differ by marker and dash as well as by colour, so that a figure is readable in black and
//! white. Numbers of a paper are grey and dashed. The font is compiled in (`fonts/README.md`): the
//! figure is the same on a machine without fonts.

mod chart;
mod drawing;
mod grid;
mod rows;
mod scale;

use std::fmt::Display;
use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) use self::chart::{Axis, Chart, Line};
pub(crate) use self::drawing::{Drawing, Shape};
pub(crate) use self::grid::Grid;
pub(crate) use self::rows::Rows;
use crate::error::{Result, failed};

/// The font of all texts.
static FONT: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");
/// The name of its family.
const FAMILY: &str = "sans-serif";

/// The height of a line of text, and the width of margins.
const LINE: i32 = 20;
/// The size of the text.
const TEXT: i32 = 14;

/// A canvas: pixels from the upper left corner.
type Canvas<'a, B> = DrawingArea<B, Shift>;

/// A figure: panels, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// The number of panels side by side.
    pub(crate) columns: usize,
    pub(crate) panels: Vec<Panel>,
}

/// A part of a figure.
#[derive(Clone, Debug)]
pub(crate) enum Panel {
    Chart(Chart),
    Grid(Grid),
    Drawing(Drawing),
    Rows(Rows),
}

impl Panel {
    /// Returns the width and the height.
    fn size(&self) -> (i32, i32) {
        match self {
            Panel::Chart(chart) => chart.size(),
            Panel::Grid(grid) => grid.size(),
            Panel::Drawing(drawing) => drawing.size(),
            Panel::Rows(rows) => rows.size(),
        }
    }

    fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>) -> Result<()> {
        match self {
            Panel::Chart(chart) => chart.draw(on),
            Panel::Grid(grid) => grid.draw(on),
            Panel::Drawing(drawing) => drawing.draw(on),
            Panel::Rows(rows) => rows.draw(on),
        }
    }
}

impl Figure {
    /// Returns a figure of one panel.
    pub(crate) fn of(title: impl Into<String>, panel: Panel) -> Self {
        Self { title: title.into(), columns: 1, panels: vec![panel] }
    }

    /// Returns a figure of charts.
    pub(crate) fn charts(title: impl Into<String>, columns: usize, charts: Vec<Chart>) -> Self {
        let panels = charts.into_iter().map(Panel::Chart).collect();
        Self { title: title.into(), columns, panels }
    }

    /// Returns the width of a column, and the heights of the rows.
    fn sizes(&self) -> (i32, Vec<i32>) {
        let sizes: Vec<_> = self.panels.iter().map(Panel::size).collect();
        let width = sizes.iter().map(|size| size.0).max().unwrap_or(LINE);
        let title = width_of(&self.title, TEXT + 4) / self.columns.max(1) as i32 + 2 * LINE;
        let heights = sizes.chunks(self.columns.max(1));
        let heights = heights.map(|row| row.iter().map(|size| size.1).max().unwrap_or(LINE));
        (width.max(title), heights.collect())
    }

    /// Returns the width and the height.
    fn size(&self) -> (u32, u32) {
        let (width, heights) = self.sizes();
        let columns = self.columns.clamp(1, self.panels.len().max(1)) as i32;
        ((columns * width) as u32, (2 * LINE + heights.iter().sum::<i32>()) as u32)
    }

    /// Returns the figure as SVG.
    ///
    /// # Errors
    /// Errors of the drawing library.
    pub(crate) fn svg(&self) -> Result<String> {
        let mut text = String::new();
        self.draw(SVGBackend::with_string(&mut text, self.size()).into_drawing_area())?;
        Ok(text)
    }

    /// Returns the figure as PNG.
    ///
    /// # Errors
    /// As [`svg`](Self::svg).
    pub(crate) fn png(&self) -> Result<Vec<u8>> {
        let (width, height) = self.size();
        let mut pixels = vec![0; (3 * width * height) as usize];
        let canvas = BitMapBackend::with_buffer(&mut pixels, (width, height));
        self.draw(canvas.into_drawing_area())?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().map_err(not_drawn)?;
        writer.write_image_data(&pixels).map_err(not_drawn)?;
        writer.finish().map_err(not_drawn)?;
        Ok(bytes)
    }

    /// Writes `stem.svg` and `stem.png`.
    ///
    /// # Errors
    /// As [`svg`](Self::svg), and errors of files.
    pub(crate) fn save(&self, stem: &Path) -> Result<()> {
        let files = [("svg", self.svg()?.into_bytes()), ("png", self.png()?)];
        for (extension, bytes) in files {
            let path = stem.with_extension(extension);
            let written = std::fs::write(&path, bytes);
            written.map_err(|error| failed(&format!("write {}", path.display()), error))?;
        }
        Ok(())
    }

    fn draw<B: DrawingBackend>(&self, canvas: Canvas<'_, B>) -> Result<()> {
        font();
        canvas.fill(&WHITE).map_err(not_drawn)?;
        let (width, heights) = self.sizes();
        words(&canvas, &self.title, (LINE / 2, LINE), TEXT + 4, Side::Left)?;
        let mut top = 2 * LINE;
        for (row, height) in self.panels.chunks(self.columns.max(1)).zip(heights) {
            for (n, panel) in row.iter().enumerate() {
                let corner = (n as i32 * width, top);
                let size = (width as u32, height as u32);
                panel.draw(&canvas.clone().shrink(corner, size))?;
            }
            top += height;
        }
        canvas.present().map_err(not_drawn)
    }
}

/// Registers the font, once.
fn font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The font is constant: a test draws with it.
        let _ = plotters::style::register_font(FAMILY, FontStyle::Normal, FONT);
    });
}

fn not_drawn(why: impl Display) -> crate::error::Failure {
    failed("draw a figure", why)
}

/// The place of a text, relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The text begins at the point.
    Left,
    Centre,
    /// The text ends at the point.
    Right,
}

/// Writes a line of text, whose middle has the height of the point.
fn words<B: DrawingBackend>(
    on: &Canvas<'_, B>,
    text: &str,
    at: (i32, i32),
    size: i32,
    side: Side,
) -> Result<()> {
    let across = match side {
        Side::Left => HPos::Left,
        Side::Centre => HPos::Center,
        Side::Right => HPos::Right,
    };
    let style = (FAMILY, size).into_text_style(on).pos(Pos::new(across, VPos::Center));
    on.draw(&Text::new(text, at, style)).map_err(not_drawn)
}

/// Returns the approximate width of a text, in pixels.
fn width_of(text: &str, size: i32) -> i32 {
    font();
    let measured = (FAMILY, size).into_font().box_size(text);
    measured.map_or(text.len() as i32 * size / 2, |(width, _)| width as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_all_panels_is_drawn_with_text_and_without_fonts_of_the_system() {
        let chart = Chart::new("times", Axis::linear("threads"), Axis::log("time, us"))
            .line(Line::of("here", [(1.0, 0.5), (2.0, 40.0), (3.0, f64::NAN)]))
            .line(Line::of("the paper", [(1.0, 1.0), (2.0, 2.0)]).of_paper());
        let places = Chart::new("", Axis::places("block", ["a", "b"]), Axis::linear("s"))
            .line(Line::of("x", [(0.0, 0.0), (1.0, 0.0)]));
        let grid = Grid::new("waits", ["iteration", "task", "ms"], vec![vec![1.0, 2.0]; 3]);
        let drawing = Drawing::new("shapes", 10.0, 5.0)
            .with(Shape::boxed((1.0, 1.0), (3.0, 1.0), "a box", 0.8))
            .with(Shape::arrow((4.0, 1.5), (8.0, 3.0), "", true))
            .with(Shape::circle((5.0, 2.0), 1.0, "c", 0.0));
        let rows = Rows::new(["name", "n"], vec![vec!["first".to_owned(), "1".to_owned()]]);
        let figure = Figure {
            title: "All < & >".to_owned(),
            columns: 2,
            panels: vec![
                Panel::Chart(chart),
                Panel::Chart(places),
                Panel::Grid(grid),
                Panel::Drawing(drawing),
                Panel::Rows(rows),
            ],
        };
        let svg = figure.svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts = document.descendants().filter(|node| node.has_tag_name("text")).count();
        assert!(texts > 20, "{texts} texts in {svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let png = figure.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), figure.size());
        // The title, the first text, has left dark pixels.
        let dark = pixels[..(3 * info.width * 2 * LINE as u32) as usize].iter();
        assert!(dark.filter(|&&value| value < 64).count() > 200, "no title");
    }
}
