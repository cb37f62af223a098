//! What came of a race, put in relation: the lines below the tables.

use serde::Serialize;

use super::{Cell, Contest, Record, Side, Standing};

/// A number that is told beside the tables, of medians.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) what: String,
    pub(crate) value: f64,
}

impl Ratio {
    /// One time by another; `None` if either was not measured.
    pub(crate) fn of(what: impl Into<String>, time: Option<f64>, by: Option<f64>) -> Option<Self> {
        Self::just(what, time.zip(by).map(|(time, by)| time / by))
    }

    /// A number by itself.
    pub(crate) fn just(what: impl Into<String>, value: Option<f64>) -> Option<Self> {
        Some(Self { what: what.into(), value: value? })
    }
}

impl Contest {
    /// The median of the least times of a hop.
    pub(crate) fn median_hop(&self) -> Option<f64> {
        self.hop().map(|hop| hop.median)
    }

    /// How many processors there are.
    pub(crate) fn processors(&self) -> usize {
        self.processors
    }

    /// The median time of a contender in the cell of this many members without work.
    pub(crate) fn median(&self, way: &str, members: usize) -> Option<f64> {
        self.best(&[way], members)
    }

    /// The least median of these contenders in that cell.
    pub(crate) fn best(&self, ways: &[&str], members: usize) -> Option<f64> {
        self.least(members, |standing| ways.contains(&standing.way))
    }

    /// The least median of ours in that cell, of those that are threads.
    pub(crate) fn best_of_ours(&self, members: usize) -> Option<f64> {
        self.least(members, |standing| standing.side == Side::Ours && !standing.way.ends_with(PROCESSES))
    }

    /// The median fairness of a contender in that cell.
    pub(crate) fn fairness(&self, way: &str, members: usize) -> Option<f64> {
        self.standings(members).find(|standing| standing.way == way)?.fairness
    }

    /// What sharing memory between processes costs with 2 members: `ways` are threads, and the same
    /// as processes.
    pub(crate) fn processes_by_threads(&self, ways: &[(&str, &str)]) -> Vec<Ratio> {
        let ratio = |&(threads, processes): &(&str, &str)| {
            let what = format!("{processes} / threads, 2 members");
            Ratio::of(what, self.median(processes, 2), self.median(threads, 2))
        };
        ways.iter().filter_map(ratio).collect()
    }

    fn least(&self, members: usize, of: impl Fn(&Standing) -> bool) -> Option<f64> {
        let medians = self.standings(members).filter(|&standing| of(standing));
        medians.map(|standing| standing.spread.median).reduce(f64::min)
    }

    fn standings(&self, members: usize) -> impl Iterator<Item = &Standing> {
        let of_it = move |standing: &&Standing| standing.cell == Cell { members, work_ns: 0.0 };
        let standings = self.records.iter().filter_map(|record| match record {
            Record::Cell(standing) => Some(standing),
            _ => None,
        });
        standings.filter(of_it)
    }
}

/// How the names of contenders that are processes end.
const PROCESSES: &str = ", processes";
