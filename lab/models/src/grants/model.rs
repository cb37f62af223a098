//! The run as a model for the explorer.

use stateright::{Model, Property};

use super::{Action, Bug, Grants, State};

impl Model for Grants {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.list(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        self.take(&mut state, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(
                "an access finds the version that one queue gives",
                |_: &Self, state: &State| !state.faults.stale,
            ),
            Property::always("no slot changes while it is used", |_: &Self, state: &State| {
                !state.faults.torn
            }),
            Property::always("at most two receptions are unread", |_: &Self, state: &State| {
                !state.faults.crowded
            }),
            Property::always("one message for a release and host", |_: &Self, state: &State| {
                !state.faults.twice
            }),
            Property::always("no task is too far ahead", |model: &Self, state: &State| {
                model.is_fair(state)
            }),
            Property::always("every run ends", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || model.is_over(state)
            }),
            Property::sometimes("a run ends", |model: &Self, state: &State| model.is_over(state)),
        ];
        if self.rules.test.is_some() {
            properties.push(Property::always(
                "no task passes the last round",
                |model: &Self, state: &State| model.is_in_time(state),
            ));
        }
        if self.rules.fails.iter().any(Option::is_some) {
            properties.push(Property::always(
                "all hosts name the same failed task",
                |model: &Self, state: &State| !model.is_over(state) || model.is_agreed(state),
            ));
            properties.push(Property::always(
                "no message follows a notice of a failure",
                |_: &Self, state: &State| !state.faults.late,
            ));
            return properties;
        }
        properties.push(Property::always(
            "the last writer's host has the result",
            |model: &Self, state: &State| !model.is_over(state) || model.has_results(state),
        ));
        let sends = self.plan.deliveries.iter().any(|deliveries| !deliveries.is_empty());
        if sends && self.rules.bug == Bug::None {
            properties.push(Property::sometimes(
                "a version is sent while the one before it is unread",
                |model: &Self, state: &State| model.is_ahead(state),
            ));
        }
        properties
    }
}
