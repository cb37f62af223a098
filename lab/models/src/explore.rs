//! Runs a model to its end.
//!
//! # Contract
//! [`holds`] explores all states: no `always` property is broken, and each `sometimes` property,
//! which shows that the model is not vacuous, has an example. [`breaks`] explores until the named
//! `always` property is broken, and returns the shortest path to that state. Both print one line
//! for each model; with `SYNCLINE_WAYS` set, they print that path as well.
//!
//! The search is breadth first, on one thread. The checker reports the last of the broken states
//! among the 1500 that it takes at a time, so [`breaks`] repeats the search below the depth of the
//! path that it has, until there is no shorter one. The search identifies states by a 64-bit hash:
//! with a million states, the odds that two states collide, and that one is missed for that reason,
//! are one in ten million or less.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

/// The outcome of an exploration.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The number of distinct states.
    pub states: usize,
    /// The length of the longest path from the initial state, in actions.
    pub depth: usize,
    /// The duration of the exploration, in seconds.
    pub seconds: f64,
    /// The path to the broken property, action by action; empty if no property was to break.
    pub way: Vec<String>,
}

/// Explores all states of a correct model.
///
/// # Panics
/// If an `always` property is broken (the message gives the shortest path), or if a `sometimes`
/// property has no example.
pub fn holds<M>(name: &str, model: M) -> Explored
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    run(name, model, None)
}

/// Explores a model with a planted bug until `property` is broken.
///
/// # Panics
/// If the property is never broken, or if the model has no such property.
pub fn breaks<M>(name: &str, model: M, property: &'static str) -> Explored
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    run(name, model, Some(property))
}

/// Explores all states of a model without printing, and returns the number of distinct states.
///
/// # Errors
/// The broken `always` property and the path to it. `sometimes` properties are not checked.
pub fn safe<M>(model: M) -> Result<usize, String>
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let broken = |property: &Property<M>| {
        let path = checker
            .discovery(property.name)
            .filter(|_| property.expectation == Expectation::Always)?;
        Some(format!("`{}` is broken by {:?}", property.name, path.into_actions()))
    };
    checker
        .model()
        .properties()
        .iter()
        .find_map(broken)
        .map_or(Ok(checker.unique_state_count()), Err)
}

/// Returns a path to a state that breaks a property and has less than the given depth.
fn way<M>(model: M, bug: &'static str, depth: usize) -> Option<Vec<String>>
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let stop = HasDiscoveries::AnyOf([bug].into());
    let checker = model.checker().finish_when(stop).target_max_depth(depth).spawn_bfs().join();
    let path = checker.discovery(bug)?;
    Some(path.into_actions().iter().map(|action| format!("{action:?}")).collect())
}

fn run<M>(name: &str, model: M, bug: Option<&'static str>) -> Explored
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let properties: Vec<_> =
        model.properties().iter().map(|p| (p.name, p.expectation.clone())).collect();
    if let Some(bug) = bug {
        assert!(properties.contains(&(bug, Expectation::Always)), "there is no property `{bug}`");
    }
    let begun = Instant::now();
    let stop = bug.map_or(HasDiscoveries::AnyFailures, |bug| HasDiscoveries::AnyOf([bug].into()));
    let checker = model.clone().checker().finish_when(stop).spawn_bfs().join();
    let mut explored = Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        seconds: begun.elapsed().as_secs_f64(),
        way: Vec::new(),
    };
    if let Some(bug) = bug {
        let path = checker
            .discovery(bug)
            .unwrap_or_else(|| panic!("{name}: `{bug}` holds, and should not"));
        explored.way = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
        // A state's depth is one more than the number of actions that lead to it.
        while let Some(shorter) = way(model.clone(), bug, explored.way.len() + 1) {
            explored.way = shorter;
        }
    } else {
        for (property, expectation) in properties {
            match (expectation, checker.discovery(property)) {
                (Expectation::Always, Some(path)) => {
                    let last = format!("{:#?}", path.last_state());
                    panic!(
                        "{name}: `{property}` is broken by {:?}, which leaves {last}",
                        path.into_actions()
                    );
                }
                (Expectation::Sometimes, None) => panic!("{name}: `{property}` never is"),
                _ => {}
            }
        }
    }
    let Explored { states, depth, seconds, ref way } = explored;
    if std::env::var_os("SYNCLINE_WAYS").is_some() {
        way.iter().for_each(|step| println!("    {step}"));
    }
    let found =
        bug.map_or(String::new(), |bug| format!("; broken after {} steps: {bug}", way.len()));
    println!("{name}: {states} states, depth {depth}, {seconds:.2} s{found}");
    explored
}
