//! One process of a team, now and then a second one, is killed by SIGKILL at a random moment: those who wait for it are
//! told, repair what it has left, go on, and end; and nothing stays behind.
//!
//! `SYNCLINE_KILLS=200` runs as many teams in each test, `SYNCLINE_SEED=5` begins with that seed (a test that fails says
//! its own). Processes of a team run this very program, again with the one test [`role`].

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
