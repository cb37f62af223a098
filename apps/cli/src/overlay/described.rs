//! Overlays described in TOML.
//!
//! ```toml
//! init = "program"
//! locations = ["a", "b"]
//!
//! [tasks]
//! left = { writes = ["a"], reads = ["b"] }
//! right = { writes = ["b"], reads = ["a"] }
//!
//! [order]
//! b = ["left", "right"]
//! ```
//! Errors name the line, and the name that may have been intended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use syncline_overlay::AccessMode;
use syncline_overlay::{
    Initial, Plan,
    plan::{LocationId, Task},
};
use syncline_store::chunk::read_text;
use syncline_wave::described::{DescribedError, TextPlace, unknown_name};
use toml::Spanned;

use crate::args::Init;
use crate::error::{Error, Result};

/// The maximum length of a file, in bytes.
const LONGEST: u64 = 16 << 20;

/// An overlay from a file.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) plan: Plan,
    pub(super) initial: Initial,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    init: Option<Spanned<Init>>,
    locations: Option<Vec<Name>>,
    tasks: BTreeMap<Name, Requests>,
    #[serde(default)]
    order: BTreeMap<Name, Vec<Name>>,
}

type Name = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    #[serde(default)]
    writes: Vec<Name>,
    #[serde(default)]
    reads: Vec<Name>,
    priority: Option<i64>,
}

/// A fault, with the byte range that it refers to.
struct Fault(Range<usize>, String);

impl Described {
    /// Reads a file.
    ///
    /// # Errors
    /// Errors of the system, and [`Error::Description`].
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, LONGEST)?;
        Self::parse(&text).map_err(|Fault(range, message)| {
            let place = TextPlace::of(&text, &range);
            let why = DescribedError::Text { path: None, place, message };
            Error::Description { path: path.to_owned(), why }
        })
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let file: File = toml::from_str(text).map_err(|error| {
            Fault(error.span().unwrap_or(0..0), error.message().trim_end().replace('\n', ", "))
        })?;
        // A map has its own order; the order of the text is needed.
        let mut tasks: Vec<_> = file.tasks.iter().collect();
        tasks.sort_by_key(|(name, _)| name.span().start);
        let mut plan = Plan::new();
        let mut places = Places::new(&mut plan, file.locations.as_deref())?;
        let mut numbers = HashMap::new();
        let mut users: HashMap<LocationId, Vec<Task>> = HashMap::new();
        for (name, requests) in &tasks {
            let mut list: Vec<(LocationId, AccessMode)> = Vec::new();
            let writes = requests.writes.iter().map(|location| (location, AccessMode::Exclusive));
            for (location, kind) in
                writes.chain(requests.reads.iter().map(|l| (l, AccessMode::Inclusive)))
            {
                let place = places.find(&mut plan, location)?;
                if list.iter().any(|(other, _)| *other == place) {
                    let (task, location_name) = (name.get_ref(), location.get_ref());
                    let message =
                        format!("task `{task}` asks for location `{location_name}` twice");
                    return Err(Fault(location.span(), message));
                }
                list.push((place, kind));
            }
            let all: Vec<LocationId> = list.iter().map(|(place, _)| *place).collect();
            let task = plan.task(name.get_ref().as_str(), list);
            all.into_iter().for_each(|place| users.entry(place).or_default().push(task));
            numbers.insert(name.get_ref().as_str(), task);
        }
        for (location, order) in &file.order {
            let Some(place) = places.known.get(location.get_ref()).copied() else {
                let known = places.known.keys().map(String::as_str);
                return Err(Fault(
                    location.span(),
                    unknown_name("location", location.get_ref(), known),
                ));
            };
            let users = users.get(&place).map_or(&[][..], Vec::as_slice);
            let order = check_order(&plan, location, order, &numbers, users)?;
            plan.order(place, order);
        }
        Ok(Described { initial: initial(&file, &tasks)?, plan })
    }
}

/// The locations by name.
struct Places {
    known: BTreeMap<String, LocationId>,
    /// Whether the file lists all locations.
    declared: bool,
}

impl Places {
    fn new(plan: &mut Plan, declared: Option<&[Name]>) -> Result<Self, Fault> {
        let mut known = BTreeMap::new();
        for name in declared.unwrap_or_default() {
            let place = plan.location(name.get_ref().as_str());
            if known.insert(name.get_ref().clone(), place).is_some() {
                return Err(Fault(
                    name.span(),
                    format!("location `{}` is declared twice", name.get_ref()),
                ));
            }
        }
        Ok(Places { known, declared: declared.is_some() })
    }

    /// Returns the location of that name; its use declares it if there is no list.
    fn find(&mut self, plan: &mut Plan, name: &Name) -> Result<LocationId, Fault> {
        if let Some(place) = self.known.get(name.get_ref()) {
            return Ok(*place);
        }
        if self.declared {
            let known = self.known.keys().map(String::as_str);
            return Err(Fault(name.span(), unknown_name("location", name.get_ref(), known)));
        }
        let place = plan.location(name.get_ref().as_str());
        self.known.insert(name.get_ref().clone(), place);
        Ok(place)
    }
}

/// Checks that the tasks of an order use the location, and that all of its users are listed.
fn check_order(
    plan: &Plan,
    location: &Name,
    order: &[Name],
    numbers: &HashMap<&str, Task>,
    users: &[Task],
) -> Result<Vec<Task>, Fault> {
    let at = location.get_ref();
    let uses: HashSet<Task> = users.iter().copied().collect();
    let (mut list, mut seen) = (Vec::new(), HashSet::new());
    for name in order {
        let (span, task_name) = (name.span(), name.get_ref());
        let Some(&task) = numbers.get(task_name.as_str()) else {
            let mut known: Vec<&str> = users.iter().map(|&task| plan.task_name(task)).collect();
            if known.is_empty() {
                known = numbers.keys().copied().collect();
            }
            return Err(Fault(span, unknown_name("task", task_name, known)));
        };
        if !uses.contains(&task) {
            return Err(Fault(span, format!("task `{task_name}` does not use location `{at}`")));
        }
        if !seen.insert(task) {
            return Err(Fault(
                span,
                format!("task `{task_name}` stands twice in the order of location `{at}`"),
            ));
        }
        list.push(task);
    }
    match users.iter().find(|task| !seen.contains(task)) {
        None => Ok(list),
        Some(&missing) => {
            let name = plan.task_name(missing);
            Err(Fault(
                location.span(),
                format!("the order of location `{at}` does not say where task `{name}` is"),
            ))
        }
    }
}

fn initial(file: &File, tasks: &[(&Name, &Requests)]) -> Result<Initial, Fault> {
    let priorities: Vec<i64> = tasks.iter().filter_map(|(_, requests)| requests.priority).collect();
    match (&file.init, priorities.len()) {
        (None, 0) => Ok(Initial::Program),
        (Some(init), 0) => Ok(init.get_ref().initial()),
        (Some(init), _) => Err(Fault(
            init.span(),
            "tasks have a priority, so there can be no `init` beside it".to_owned(),
        )),
        (None, given) if given == tasks.len() => Ok(Initial::Priority(priorities)),
        (None, given) => {
            let (span, name) = tasks
                .iter()
                .find(|(_, requests)| requests.priority.is_none())
                .map_or((0..0, ""), |(name, _)| (name.span(), name.get_ref().as_str()));
            let all = tasks.len();
            Err(Fault(
                span,
                format!("task `{name}` has no priority, but {given} of the {all} tasks have one"),
            ))
        }
    }
}
