//! One process of a team, sometimes a second one, is killed by SIGKILL at a random moment: the
//! members that wait for it get an error, repair what it has left, continue, and end; and nothing
//! remains.
//!
//! `SYNCLINE_KILLS=200` runs 200 teams in each test; `SYNCLINE_SEED=5` starts with seed 5 (a test
//! that fails prints its seed). The processes of a team run this same program, with the single test
//! [`role`].

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
fn role() {
    let Some((role, seed)) = runs::role() else { return };
    match role.as_str() {
        "barriers" => barriers::play(seed),
        "locks" => locks::play(seed),
        other => panic!("no role {other:?}"),
    }
}
