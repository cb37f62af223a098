//! Runs a model to its end.
//!
//! # Contract
//! [`holds`] explores all states: no `always` property is broken, and each `sometimes` property, which says that a
//! model is not empty talk, has an example. [`breaks`] explores until the named `always` property is broken, and gives
//! the shortest way there. Both print what they did, one line per model; with `SYNCLINE_WAYS` set, that way as well.
//!
//! Breadth first, on one thread, states known by a hash of 64 bits: with a million states the odds that two share one,
//! and that anything is missed so, are one to ten million.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

/// What was seen.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// The longest way from the first state, in actions.
    pub depth: usize,
    /// How long it took.
    pub seconds: f64,
    /// The way to the broken property, action by action; empty if none was to be broken.
    pub way: Vec<String>,
}

/// Explores all of a model that is right.
///
/// # Panics
/// If an `always` property is broken, with the shortest way there, or if a `sometimes` property has no example.
pub fn holds<M>(name: &str, model: M) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    run(name, model, None)
}

/// Explores a model with a planted bug until `property` is broken.
///
/// # Panics
/// If it never is, or if the model has no such property.
pub fn breaks<M>(name: &str, model: M, property: &'static str) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    run(name, model, Some(property))
}

/// Explores all of a model in silence. An error says which `always` property is broken, and how; what `sometimes` is,
/// is not looked at.
pub fn safe<M>(model: M) -> Result<usize, String>
where
    M: Model + Send + Sync + 'static,
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

fn run<M>(name: &str, model: M, bug: Option<&'static str>) -> Explored
where
    M: Model + Send + Sync + 'static,
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
    let checker = model.checker().finish_when(stop).spawn_bfs().join();
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
