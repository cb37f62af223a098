//! Messages between processes: which were under way when, and what the processes waited for.

use std::collections::BTreeMap;

use syncline_trace::{Activity, ActivityClass};

use super::Histogram;
use crate::align::Matcher;
use crate::load::{Span, Trace};
use crate::model::Messages;

/// The most messages and bars that a page shows.
const MOST: usize = 20_000;

/// Matched messages.
#[derive(Debug)]
pub(crate) struct MessageCollector<'t> {
    trace: &'t Trace,
    matcher: Matcher<'t>,
    /// Sender and receiver, as processes, with the times under way.
    pub(crate) pairs: BTreeMap<(usize, usize), Histogram>,
    arrows: Vec<(usize, usize, u64, u64)>,
    bars: Vec<Span>,
}

impl<'t> MessageCollector<'t> {
    pub(crate) fn new(trace: &'t Trace) -> MessageCollector<'t> {
        let matcher = Matcher::new(trace);
        let (arrows, bars) = (Vec::new(), Vec::new());
        MessageCollector { trace, matcher, pairs: BTreeMap::new(), arrows, bars }
    }

    pub(crate) fn take(&mut self, span: &Span) {
        if span.activity.class() == ActivityClass::Wait
            && span.activity != Activity::AwaitTask
            && self.bars.len() < MOST
        {
            self.bars.push(*span);
        }
        let Some((sent, received)) = self.matcher.take(span) else { return };
        let (from, to) = (self.matcher.peer(&sent), self.matcher.peer(&received));
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

    pub(crate) fn finish(&self) -> Option<Messages> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let peers = self.matcher.peers();
        let bars = self.bars.iter().map(|span| {
            let (peer, activity) = (self.matcher.peer(span) as u32, span.activity as u16);
            (peer, activity, seconds(span.since), seconds(span.until))
        });
        let arrows = self.arrows.iter().map(|&(from, to, sent, received)| {
            (from as u32, to as u32, seconds(sent), seconds(received))
        });
        let pairs = self.pairs.iter().map(|(&(from, to), pair)| {
            let (median, greatest) = (seconds(pair.median()), seconds(pair.greatest));
            (from as u32, to as u32, pair.count, median, greatest)
        });
        let clocks = match self.trace.alignment.words.as_str() {
            "" => "All processes ran on one host and had their clock in common.".to_owned(),
            words => words.to_owned(),
        };
        (self.count() > 0).then(|| Messages {
            bars: bars.collect(),
            arrows: arrows.collect(),
            all: self.count(),
            pairs: pairs.collect(),
            clocks,
            peers,
        })
    }
}
