//! Lines over two axes.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::scale::Scale;
use super::{Canvas, FAMILY, LINE, Side, TEXT, not_drawn, width_of, words};
use crate::error::Result;

/// The size of the area with the axes and their labels.
const WIDTH: i32 = 500;
const HEIGHT: i32 = 380;

/// The colours of lines: dark, and of different brightness.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(200, 40, 30),
    RGBColor(30, 90, 180),
    RGBColor(20, 130, 60),
    RGBColor(150, 60, 160),
    RGBColor(190, 110, 0),
    RGBColor(0, 140, 150),
    RGBColor(110, 80, 60),
];
/// The colour of the numbers of a paper.
const PAPER: RGBColor = RGBColor(130, 130, 130);

/// An axis: its name with the unit, and its scale.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// From zero.
    Linear,
    Log,
    /// A tick for each number that occurs.
    Each {
        log: bool,
    },
    Places(Vec<String>),
}

impl Axis {
    /// Returns a linear axis that begins at zero.
    pub(crate) fn linear(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Linear }
    }

    /// Returns a logarithmic axis.
    pub(crate) fn log(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Log }
    }

    /// Returns an axis of few numbers, each of which has its tick.
    pub(crate) fn each(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Each { log: false } }
    }

    /// Returns a logarithmic axis of few numbers, each of which has its tick.
    pub(crate) fn each_log(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Each { log: true } }
    }

    /// Returns an axis of names, which stand at the numbers from 0.
    pub(crate) fn places<N: Into<String>>(
        name: impl Into<String>,
        places: impl IntoIterator<Item = N>,
    ) -> Self {
        let places = places.into_iter().map(Into::into).collect();
        Self { name: name.into(), kind: Kind::Places(places) }
    }

    /// Returns the name of a place; `None` if the axis has numbers.
    pub(crate) fn place(&self, at: f64) -> Option<&str> {
        match &self.kind {
            Kind::Places(places) => places.get(at as usize).map(String::as_str),
            _ => None,
        }
    }

    fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        match &self.kind {
            Kind::Linear => Scale::linear(values, true),
            Kind::Log => Scale::log(values),
            Kind::Each { log } => Scale::at(values, *log),
            Kind::Places(places) => Scale::places(places),
        }
    }
}

/// A line: its name and its points.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether the points are numbers of a paper.
    pub(crate) paper: bool,
    plain: bool,
    loose: bool,
}

impl Line {
    /// Returns a line; points that are not finite are left out.
    pub(crate) fn of(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let points = points.into_iter().filter(finite).collect();
        Self { name: name.into(), points, paper: false, plain: false, loose: false }
    }

    /// Marks the points as numbers of a paper.
    pub(crate) fn of_paper(self) -> Self {
        Self { paper: true, ..self }
    }

    /// Draws the line without markers.
    pub(crate) fn plain(self) -> Self {
        Self { plain: true, ..self }
    }

    /// Draws the markers without the line.
    pub(crate) fn loose(self) -> Self {
        Self { loose: true, ..self }
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

impl Chart {
    /// Returns a chart without lines.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, lines: Vec::new() }
    }

    /// Adds a line, unless it has no points.
    pub(crate) fn line(mut self, line: Line) -> Self {
        self.lines.extend((!line.points.is_empty()).then_some(line));
        self
    }

    /// Adds lines.
    pub(crate) fn lines(self, lines: impl IntoIterator<Item = Line>) -> Self {
        lines.into_iter().fold(self, Chart::line)
    }

    fn legend(&self) -> i32 {
        let widest = self.lines.iter().map(|line| width_of(&line.name, TEXT)).max();
        widest.map_or(0, |width| width + 70)
    }

    pub(super) fn size(&self) -> (i32, i32) {
        let height = HEIGHT.max((self.lines.len() as i32 + 3) * LINE);
        let title = width_of(&self.title, TEXT + 2) + 4 * LINE;
        let places = match &self.x.kind {
            // Names of places do not touch.
            Kind::Places(places) => {
                let widest = places.iter().map(|place| width_of(place, TEXT)).max().unwrap_or(0);
                places.len() as i32 * (widest + 12) + 110
            }
            _ => 0,
        };
        ((WIDTH.max(places) + self.legend()).max(title), height)
    }

    pub(super) fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>) -> Result<()> {
        let (width, height) = on.dim_in_pixel();
        let right = width as i32 - self.legend();
        words(on, &self.title, (right / 2 + 30, LINE / 2), TEXT + 2, Side::Centre)?;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = self.x.scale(points().map(|point| point.0));
        let y = self.y.scale(points().map(|point| point.1));
        let area = on.clone().shrink((0, LINE), (right as u32, height - LINE as u32));
        let text = (FAMILY, TEXT).into_font();
        let (across, up) = (x.clone(), y.clone());
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d(x, y)
            .map_err(not_drawn)?;
        chart
            .configure_mesh()
            .bold_line_style(RGBColor(225, 225, 225))
            .x_labels(across.len())
            .y_labels(up.len())
            .x_label_formatter(&|at| across.text(*at))
            .y_label_formatter(&|at| up.text(*at))
            .x_desc(self.x.name.as_str())
            .y_desc(self.y.name.as_str())
            .label_style(text.clone())
            .axis_desc_style(text)
            .draw()
            .map_err(not_drawn)?;
        let (left, top) = on.get_base_pixel();
        let place = |point: &(f64, f64)| {
            let (x, y) = chart.plotting_area().map_coordinate(point);
            (x - left, y - top)
        };
        let mut colour = 0;
        for (n, line) in self.lines.iter().enumerate() {
            let pen = Pen::new(line, colour);
            colour += usize::from(!line.paper);
            pen.draw(on, line.points.iter().map(place).collect())?;
            let at = (right + 12, 2 * LINE + n as i32 * LINE);
            pen.draw(on, vec![at, (at.0 + 34, at.1)])?;
            words(on, &line.name, (at.0 + 44, at.1), TEXT, Side::Left)?;
        }
        Ok(())
    }
}

/// The look of a line.
struct Pen {
    colour: RGBColor,
    dash: Option<(i32, i32)>,
    marker: Option<usize>,
    line: bool,
}

impl Pen {
    fn new(line: &Line, number: usize) -> Self {
        // Beyond the number of colours, the combinations differ.
        let turn = number / COLOURS.len();
        let dashes = [None, None, Some((10, 4)), Some((3, 3))];
        let (colour, dash) = match line.paper {
            true => (PAPER, Some((6, 4))),
            false => (COLOURS[number % COLOURS.len()], dashes[(number + turn) % dashes.len()]),
        };
        let marker = if line.paper { 4 } else { (number + 3 * turn) % MARKERS };
        Self { colour, dash, marker: (!line.plain).then_some(marker), line: !line.loose }
    }

    fn draw<B: DrawingBackend>(&self, on: &Canvas<'_, B>, points: Vec<(i32, i32)>) -> Result<()> {
        let style = self.colour.stroke_width(2);
        let marks = points.clone();
        match self.dash.filter(|_| self.line) {
            Some((size, gap)) => {
                let path = DashedPathElement::new(points, size, gap, style);
                on.draw(&path).map_err(not_drawn)?;
            }
            None if self.line => on.draw(&PathElement::new(points, style)).map_err(not_drawn)?,
            None => {}
        }
        let Some(marker) = self.marker else { return Ok(()) };
        marks.into_iter().try_for_each(|at| self.mark(on, marker, at))
    }

    fn mark<B: DrawingBackend>(
        &self,
        on: &Canvas<'_, B>,
        marker: usize,
        (x, y): (i32, i32),
    ) -> Result<()> {
        let at = |dx: i32, dy: i32| (x + dx, y + dy);
        let square = vec![at(-4, -4), at(4, -4), at(4, 4), at(-4, 4), at(-4, -4)];
        let triangle = vec![at(-5, 4), at(0, -5), at(5, 4), at(-5, 4)];
        let diamond = vec![at(-5, 0), at(0, -5), at(5, 0), at(0, 5), at(-5, 0)];
        let (fill, thin) = (self.colour.filled(), self.colour.stroke_width(2));
        let full = |shape: Vec<(i32, i32)>| on.draw(&Polygon::new(shape, fill)).map_err(not_drawn);
        let empty = |shape: Vec<(i32, i32)>| {
            on.draw(&Polygon::new(shape.clone(), WHITE.filled())).map_err(not_drawn)?;
            on.draw(&PathElement::new(shape, thin)).map_err(not_drawn)
        };
        match marker {
            0 => on.draw(&Circle::new((x, y), 4, fill)).map_err(not_drawn),
            1 => empty(square),
            2 => full(triangle),
            3 => empty(diamond),
            4 => {
                on.draw(&Circle::new((x, y), 4, WHITE.filled())).map_err(not_drawn)?;
                on.draw(&Circle::new((x, y), 4, thin)).map_err(not_drawn)
            }
            5 => full(square),
            6 => empty(triangle),
            _ => full(diamond),
        }
    }
}

/// The number of markers.
const MARKERS: usize = 8;
