//! Messages between processes: which were under way when, and what the processes waited for.

use std::collections::BTreeMap;

use syncline_trace::{Activity, ActivityClass};

use super::Histogram;
use crate::align::{Matcher, ends};
use crate::load::{Lane, Span, Trace};
use crate::model::Messages;

/// The most messages and bars that a page shows.
const MOST: usize = 20_000;

/// Matched messages.
#[derive(Debug)]
pub(crate) struct MessageCollector {
    matcher: Matcher,
    /// Sender and receiver, as numbers of processes in the team, with the times under way.
    pub(crate) pairs: BTreeMap<(u32, u32), Histogram>,
    arrows: Vec<(u32, u32, u64, u64)>,
    bars: Vec<Span>,
    /// The number of each thread's process in the team. A thread that passes messages knows it;
    /// otherwise the process has noted it.
    peers: Vec<Option<u32>>,
}

impl MessageCollector {
    pub(crate) fn new(trace: &Trace) -> MessageCollector {
        let number =
            |lane: &Lane| trace.processes[lane.process].facts.get("team.process")?.parse().ok();
        MessageCollector {
            matcher: Matcher::default(),
            pairs: BTreeMap::new(),
            arrows: Vec::new(),
            bars: Vec::new(),
            peers: trace.lanes.iter().map(number).collect(),
        }
    }

    pub(crate) fn take(&mut self, span: &Span) {
        if span.activity.class() == ActivityClass::Wait
            && span.activity != Activity::AwaitTask
            && self.bars.len() < MOST
        {
            self.bars.push(*span);
        }
        let (from, to) = ends(span.detail);
        match span.activity {
            Activity::Sent => self.peers[span.lane] = Some(from),
            Activity::Received => self.peers[span.lane] = Some(to),
            _ => return,
        }
        let Some((sent, received)) = self.matcher.take(span) else { return };
        self.pairs.entry((from, to)).or_default().add(received.since.saturating_sub(sent.since));
        if self.arrows.len() < MOST {
            self.arrows.push((from, to, sent.since, received.since));
        }
    }

    /// Returns the number of messages.
    pub(crate) fn count(&self) -> u64 {
        self.pairs.values().map(|pair| pair.count).sum()
    }

    /// Returns the median time under way, over all pairs.
    pub(crate) fn median(&self) -> u64 {
        let longest = self.pairs.values().max_by_key(|pair| pair.count);
        longest.map_or(0, Histogram::median)
    }

    pub(crate) fn finish(&self, trace: &Trace) -> Option<Messages> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let last = self.pairs.keys().map(|&(from, to)| from.max(to)).max()?;
        let host = |number: u32| {
            let lane = self.peers.iter().position(|&peer| peer == Some(number))?;
            Some(&trace.processes[trace.lanes[lane].process].info.host)
        };
        let name = |number| match host(number) {
            Some(host) => format!("process {number} on {host}"),
            None => format!("process {number}"),
        };
        let bars = self.bars.iter().filter_map(|span| {
            let peer = self.peers[span.lane].filter(|&peer| peer <= last)?;
            Some((peer, span.activity as u16, seconds(span.since), seconds(span.until)))
        });
        let arrows = self
            .arrows
            .iter()
            .map(|&(from, to, sent, received)| (from, to, seconds(sent), seconds(received)));
        let pairs = self.pairs.iter().map(|(&(from, to), pair)| {
            (from, to, pair.count, seconds(pair.median()), seconds(pair.greatest))
        });
        let clocks = match trace.alignment.words.as_str() {
            "" => "All processes ran on one host and had their clock in common.".to_owned(),
            words => words.to_owned(),
        };
        Some(Messages {
            bars: bars.collect(),
            arrows: arrows.collect(),
            all: self.count(),
            pairs: pairs.collect(),
            clocks,
            peers: (0..=last).map(name).collect(),
        })
    }
}
