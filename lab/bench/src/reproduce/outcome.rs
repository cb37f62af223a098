//! The result of an item: claims, tables and figures, and their files.
//!
//! ```text
//! DIR/NAME/figure.svg, .png    the figures; further ones have names of their own
//! DIR/NAME/figure.csv          the points of all their lines, those of the paper among them
//! DIR/NAME/TABLE.csv           each table
//! DIR/NAME/data.json           all of these, and the sentences
//! DIR/README.md                the sentences and figures of all items in DIR
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Item;
use crate::error::{Result, failed};
use crate::plot::{Figure, Panel, Rows};
use crate::race::figure;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    /// A number; one that is not finite stands for no value.
    Number(f64),
    Text(String),
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Cell::Number(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Cell::Number(number as f64)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Cell::Number(number as f64)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        Cell::Number(number.unwrap_or(f64::NAN))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl Cell {
    /// Formats the cell for a file.
    fn csv(&self) -> String {
        match self {
            Cell::Number(number) if number.is_finite() => number.to_string(),
            Cell::Number(_) => String::new(),
            Cell::Text(text) => quoted(text),
        }
    }

    /// Formats the cell for a picture.
    fn short(&self) -> String {
        match self {
            Cell::Number(number) if !number.is_finite() => "-".to_owned(),
            Cell::Number(number) if number.fract() == 0.0 => number.to_string(),
            Cell::Number(number) if number.abs() < 1e-3 => format!("{number:.2e}"),
            Cell::Number(number) => figure(*number),
            Cell::Text(text) => text.clone(),
        }
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// A table of results.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    name: String,
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Returns an empty table; its name is that of its file.
    pub(crate) fn new<const N: usize>(name: impl Into<String>, head: [&str; N]) -> Self {
        let head = head.map(str::to_owned).into();
        Self { name: name.into(), head, rows: Vec::new() }
    }

    /// Adds a row. It must have as many cells as the head.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.head.len(), "a row of {}", self.name);
        self.rows.push(cells);
    }

    /// Returns the table as a panel of a figure.
    pub(crate) fn panel(&self) -> Panel {
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::short).collect()).collect();
        Panel::Rows(Rows::new(self.head.clone(), rows))
    }

    fn csv(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: Vec<String>| {
            text.push_str(&cells.join(","));
            text.push('\n');
        };
        line(self.head.iter().map(|name| quoted(name)).collect());
        self.rows.iter().for_each(|row| line(row.iter().map(Cell::csv).collect()));
        text
    }

    fn json(&self) -> Json {
        let row = |row: &Vec<Cell>| -> Json {
            self.head.iter().cloned().zip(row.iter().map(|cell| json!(cell))).collect()
        };
        self.rows.iter().map(row).collect()
    }
}

/// A statement of a paper, and what is seen here.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Claim {
    paper: String,
    here: String,
    /// Whether the same is seen here; `None` if the two are only told side by side.
    holds: Option<bool>,
    why: Option<String>,
}

impl Claim {
    /// Returns a statement, what is seen here, and whether that is the same.
    pub(crate) fn new(paper: impl Into<String>, here: impl Into<String>, holds: bool) -> Self {
        Self { paper: paper.into(), here: here.into(), holds: Some(holds), why: None }
    }

    /// Returns a statement and what is here, without a verdict.
    pub(crate) fn beside(paper: impl Into<String>, here: impl Into<String>) -> Self {
        Self { paper: paper.into(), here: here.into(), holds: None, why: None }
    }

    /// Adds the reason of a difference, which is told only if there is a difference.
    pub(crate) fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    /// Returns the sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { paper, here, holds, why } = self;
        match (holds, why) {
            (None, _) => format!("the paper has {paper}; here {here}"),
            (Some(true), _) => format!("the paper saw {paper}; here the same: {here}"),
            (Some(false), Some(why)) => {
                format!("the paper saw {paper}; here differently: {here}, because {why}")
            }
            (Some(false), None) => {
                format!("the paper saw {paper}; here differently: {here} (not explained)")
            }
        }
    }
}

/// The result of an item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) claims: Vec<Claim>,
    /// The conditions, and what this machine cannot show.
    pub(crate) notes: Vec<String>,
    pub(crate) tables: Vec<Table>,
    /// Names and figures; without any, the tables are drawn.
    pub(crate) figures: Vec<(String, Figure)>,
    /// The names and contents of further files.
    pub(crate) files: Vec<(String, String)>,
}

impl Outcome {
    /// Adds a claim.
    pub(crate) fn claim(mut self, claim: Claim) -> Self {
        self.claims.push(claim);
        self
    }

    /// Adds a note.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a table.
    pub(crate) fn table(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// Adds a figure. The first one has the name `figure`.
    pub(crate) fn figure(mut self, figure: Figure) -> Self {
        let name = match self.figures.len() {
            0 => "figure".to_owned(),
            n => format!("figure-{}", n + 1),
        };
        self.figures.push((name, figure));
        self
    }

    /// Returns what the paper saw and what is seen here, in one line.
    pub(crate) fn sentence(&self) -> String {
        self.claims.iter().map(Claim::sentence).collect::<Vec<_>>().join(". ")
    }

    /// Writes all files of an item below a folder.
    ///
    /// # Errors
    /// Errors of files, and of the drawing library.
    pub(crate) fn write(
        &self,
        item: &Item,
        scale: &str,
        machine: &str,
        below: &Path,
    ) -> Result<()> {
        let folder = below.join(item.name());
        // A figure that is no longer made must not stay.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)
            .map_err(|error| failed(&format!("make {}", folder.display()), error))?;
        let mut figures = self.figures.clone();
        if figures.is_empty() {
            let panels = self.tables.iter().map(Table::panel).collect();
            let figure = Figure { title: item.title.to_owned(), columns: 1, panels };
            figures.push(("figure".to_owned(), figure));
        }
        for (name, figure) in &figures {
            figure.save(&folder.join(name))?;
        }
        let mut tables = self.tables.clone();
        tables.extend(points(&self.figures));
        let data = json!({
            "id": item.id,
            "name": item.name(),
            "kind": item.kind,
            "title": item.title,
            "source": item.place,
            "scale": scale,
            "machine": machine,
            "sentence": self.sentence(),
            "claims": self.claims,
            "notes": self.notes,
            "figures": figures.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "tables": tables.iter().map(|table| (table.name.clone(), table.json()))
                .collect::<serde_json::Map<_, _>>(),
        });
        let csv = tables.iter().map(|table| (format!("{}.csv", table.name), table.csv()));
        let json = ("data.json".to_owned(), format!("{data:#}\n"));
        for (name, text) in csv.chain([json]).chain(self.files.iter().cloned()) {
            let path = folder.join(name);
            fs::write(&path, text)
                .map_err(|error| failed(&format!("write {}", path.display()), error))?;
        }
        Ok(())
    }
}

/// Returns the points of all lines and grids, if there are any.
fn points(figures: &[(String, Figure)]) -> Option<Table> {
    let mut table = Table::new("figure", ["panel", "series", "source", "x", "y"]);
    for (name, figure) in figures {
        for (n, panel) in figure.panels.iter().enumerate() {
            let title = |title: &str| match title.is_empty() {
                true => format!("{name} {n}"),
                false => title.to_owned(),
            };
            match panel {
                Panel::Chart(chart) => {
                    for line in &chart.lines {
                        let source = if line.paper { "paper" } else { "here" };
                        for &(x, y) in &line.points {
                            let x = chart.x.place(x).map_or(Cell::Number(x), Cell::from);
                            let series = line.name.as_str();
                            table.row([
                                title(&chart.title).into(),
                                series.into(),
                                source.into(),
                                x,
                                y.into(),
                            ]);
                        }
                    }
                }
                Panel::Grid(grid) => {
                    for (r, row) in grid.rows.iter().enumerate() {
                        for (c, value) in row.iter().enumerate() {
                            let series = format!("{} {r}", grid.names[1]);
                            let cells = [title(&grid.title).into(), series.into(), "here".into()];
                            table.row(cells.into_iter().chain([c.into(), (*value).into()]));
                        }
                    }
                }
                Panel::Drawing(_) | Panel::Rows(_) => {}
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Writes `README.md`: the sentences and figures of all items that a folder has.
///
/// # Errors
/// Errors of files.
pub(crate) fn write_page(items: &[Item], below: &Path) -> Result<()> {
    let mut text = String::from(
        "# Figures and tables of the papers, reproduced\n\nMade by `syncline-lab reproduce`. \
         Grey and dashed: \
         numbers of a paper.\n",
    );
    let mut machine = String::new();
    for item in items {
        let folder = below.join(item.name());
        let Ok(data) = fs::read_to_string(folder.join("data.json")) else { continue };
        let data: Json = serde_json::from_str(&data)?;
        let word = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let here = format!("{}; scale: {}", word("machine"), word("scale"));
        if here != machine {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{here}\n");
            machine = here;
        }
        let (id, name, title, source) = (word("id"), word("name"), word("title"), word("source"));
        let _ = write!(text, "\n## {name}: {title}\n\n{id}; {source}.\n\n");
        let claims: Vec<Claim> = serde_json::from_value(data["claims"].clone())?;
        for claim in claims {
            let _ = writeln!(text, "* {}.", capital(&claim.sentence()));
        }
        for note in data["notes"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            let _ = writeln!(text, "* Note: {note}.");
        }
        for figure in data["figures"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            let _ = write!(text, "\n![{title}]({name}/{figure}.png)\n");
        }
    }
    let path = below.join("README.md");
    fs::write(&path, text).map_err(|error| failed(&format!("write {}", path.display()), error))
}

/// Returns a sentence with a capital letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
