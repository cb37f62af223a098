//! One process of a team, sometimes a second one, is killed by SIGKILL at a random moment: the
//! members that wait for it get an error, repair what it has left, continue, and end; and nothing
//! remains.
//!
//! A test that fails prints the seed of its team. The processes of a team run this same program,
//! with the single test [`role_of_a_process`].

mod barriers;
mod locks;
mod plan;
mod runs;

#[test]
fn members_in_barriers_are_told_of_a_death() {
    runs::kills("barriers");
}

#[test]
fn members_of_locks_are_told_of_a_death_and_go_on() {
    runs::kills("locks");
}

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role_of_a_process() {
    let Some((role, seed)) = runs::role() else { return };
    match role.as_str() {
        "barriers" => barriers::play(seed),
        "locks" => locks::play(seed),
        other => panic!("no role {other:?}"),
    }
}
