//! Boxes, circles, arrows and words.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Canvas, FAMILY, LINE, Side, TEXT, not_drawn, width_of, words};
use crate::error::Result;

/// The pixels of a unit.
const UNIT: f64 = 24.0;

/// A drawing. Its units are about the width of two letters; the origin is the upper left corner.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    pub(crate) title: String,
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
}

/// A point of a drawing.
type At = (f64, f64);

/// A part of a drawing.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A rectangle: its corner, its size, the lines of its text, and its brightness from 0 to 1.
    Box { at: At, size: At, text: String, light: f64 },
    /// A circle, with text and brightness.
    Circle { at: At, radius: f64, text: String, light: f64 },
    /// An arrow, with a text at its middle.
    Arrow { from: At, to: At, text: String, dashed: bool },
    /// A line without a head.
    Line { from: At, to: At, dashed: bool },
    /// A text that begins at a point, or is centred there.
    Words { at: At, text: String, centred: bool },
}

impl Shape {
    /// Returns a rectangle.
    pub(crate) fn boxed(at: At, size: At, text: impl Into<String>, light: f64) -> Self {
        Shape::Box { at, size, text: text.into(), light }
    }

    /// Returns a circle.
    pub(crate) fn circle(at: At, radius: f64, text: impl Into<String>, light: f64) -> Self {
        Shape::Circle { at, radius, text: text.into(), light }
    }

    /// Returns an arrow.
    pub(crate) fn arrow(from: At, to: At, text: impl Into<String>, dashed: bool) -> Self {
        Shape::Arrow { from, to, text: text.into(), dashed }
    }

    /// Returns a line.
    pub(crate) fn line(from: At, to: At, dashed: bool) -> Self {
        Shape::Line { from, to, dashed }
    }

    /// Returns a text that begins at a point.
    pub(crate) fn words(at: At, text: impl Into<String>) -> Self {
        Shape::Words { at, text: text.into(), centred: false }
    }

    /// Returns a text that is centred at a point.
    pub(crate) fn centred(at: At, text: impl Into<String>) -> Self {
        Shape::Words { at, text: text.into(), centred: true }
    }
}

impl Drawing {
    /// Returns an empty drawing of a size.
    pub(crate) fn new(title: impl Into<String>, width: f64, height: f64) -> Self {
        Self { title: title.into(), width, height, shapes: Vec::new() }
    }

    /// Adds a shape.
    pub(crate) fn with(mut self, shape: Shape) -> Self {
        self.shapes.push(shape);
        self
    }

    /// Adds shapes.
    pub(crate) fn all(mut self, shapes: impl IntoIterator<Item = Shape>) -> Self {
        self.shapes.extend(shapes);
        self
    }

    pub(super) fn size(&self) -> (i32, i32) {
        let title = width_of(&self.title, TEXT + 2) + 2 * LINE;
        let width = (self.width * UNIT) as i32 + LINE;
        (width.max(title), (self.height * UNIT) as i32 + 2 * LINE)
    }

    pub(super) fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>) -> Result<()> {
        words(on, &self.title, (LINE / 2, LINE / 2), TEXT + 2, Side::Left)?;
        self.shapes.iter().try_for_each(|shape| draw(on, shape))
    }
}

fn pixel((x, y): At) -> (i32, i32) {
    (LINE / 2 + (x * UNIT).round() as i32, 3 * LINE / 2 + (y * UNIT).round() as i32)
}

fn grey(light: f64) -> RGBColor {
    let level = (255.0 * light.clamp(0.0, 1.0)) as u8;
    RGBColor(level, level, level)
}

fn draw<B: DrawingBackend>(on: &Canvas<'_, B>, shape: &Shape) -> Result<()> {
    match shape {
        Shape::Box { at, size, text, light } => {
            let corners = [pixel(*at), pixel((at.0 + size.0, at.1 + size.1))];
            on.draw(&Rectangle::new(corners, grey(*light).filled())).map_err(not_drawn)?;
            on.draw(&Rectangle::new(corners, BLACK)).map_err(not_drawn)?;
            lines(on, (at.0 + size.0 / 2.0, at.1 + size.1 / 2.0), text, *light)
        }
        Shape::Circle { at, radius, text, light } => {
            let pixels = (radius * UNIT) as i32;
            on.draw(&Circle::new(pixel(*at), pixels, grey(*light).filled())).map_err(not_drawn)?;
            on.draw(&Circle::new(pixel(*at), pixels, BLACK)).map_err(not_drawn)?;
            lines(on, *at, text, *light)
        }
        Shape::Arrow { from, to, text, dashed } => {
            path(on, *from, *to, *dashed)?;
            let ((x, y), (dx, dy)) = (pixel(*to), (to.0 - from.0, to.1 - from.1));
            let length = dx.hypot(dy).max(1e-9);
            let (ux, uy) = (dx / length, dy / length);
            let corner = |along: f64, across: f64| {
                let (px, py) = (-along * ux - across * uy, -along * uy + across * ux);
                (x + px.round() as i32, y + py.round() as i32)
            };
            let head = vec![(x, y), corner(10.0, 4.5), corner(10.0, -4.5)];
            on.draw(&Polygon::new(head, BLACK.filled())).map_err(not_drawn)?;
            let (mx, my) = pixel(((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0));
            words(on, text, (mx + 4, my - 9), TEXT - 2, Side::Centre)
        }
        Shape::Line { from, to, dashed } => path(on, *from, *to, *dashed),
        Shape::Words { at, text, centred } => {
            let side = if *centred { Side::Centre } else { Side::Left };
            words(on, text, pixel(*at), TEXT - 1, side)
        }
    }
}

/// Writes the lines of a text, centred at a point, black on light and white on dark.
fn lines<B: DrawingBackend>(on: &Canvas<'_, B>, at: At, text: &str, light: f64) -> Result<()> {
    let (x, y) = pixel(at);
    let count = text.lines().count() as i32;
    for (n, line) in (0..).zip(text.lines()) {
        let at = (x, y + (2 * n - count + 1) * 8);
        if light < 0.45 {
            let style = (FAMILY, TEXT - 1)
                .into_text_style(on)
                .color(&WHITE)
                .pos(Pos::new(HPos::Center, VPos::Center));
            on.draw(&Text::new(line, at, style)).map_err(not_drawn)?;
        } else {
            words(on, line, at, TEXT - 1, Side::Centre)?;
        }
    }
    Ok(())
}

fn path<B: DrawingBackend>(on: &Canvas<'_, B>, from: At, to: At, dashed: bool) -> Result<()> {
    let points = vec![pixel(from), pixel(to)];
    if dashed {
        let path = DashedPathElement::new(points, 5, 4, BLACK);
        return on.draw(&path).map_err(not_drawn);
    }
    on.draw(&PathElement::new(points, BLACK)).map_err(not_drawn)
}
