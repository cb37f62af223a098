//! Tests of overlays through the public interface: random overlays against plain models, faults,
//! futures, runs.

mod canonical;
mod check;
mod common;
mod compiled;
mod draw;
mod equity;
mod executors;
mod faults;
mod frontiers;
mod futures;
mod handles;
mod handles_and_faults;
mod runners;
mod schedule;
mod stop;
mod team;
mod team_fork;
mod team_refused;
mod team_wire;
mod watch;
mod wave_front;
