//! Puts the spans of a thread, which arrive in the order of their ends, into the order of a time
//! line: each span begins before the spans inside of it, and ends behind them.
//!
//! # Contract
//! [`Nest::take`] accepts spans by their ends. [`Nest::flush`] passes on whole trees of spans, the
//! oldest first, as begins and ends in the order of time. A span that begins before the end of one
//! that was passed on already, or that overlaps another one without containing it, is returned by
//! `take`: it belongs on a line of its own, which [`Slots`] finds.
//!
//! # Costs
//! A thread holds at most a bounded number of spans, so that a span over the whole run with more
//! spans inside of it is one of those that are returned.

use crate::load::Span;

/// A begin or an end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge<'a> {
    /// The span begins.
    Begin(&'a Span),
    /// The span ends.
    End(&'a Span),
}

/// Spans of a thread that were not passed on yet.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// Spans by their ends, each with the number of spans inside of it, which stand before it.
    held: Vec<(Span, usize)>,
    /// The most spans that are held.
    most: usize,
    /// The end of the last span that was passed on.
    passed: u64,
}

impl Nest {
    /// A nest that holds at most `most` spans, at least 2.
    pub(super) fn new(most: usize) -> Nest {
        Nest { held: Vec::new(), most: most.max(2), passed: 0 }
    }

    /// Takes a span, or returns it if it has no place on the line.
    pub(super) fn take(&mut self, span: &Span) -> Option<Span> {
        let mut inside = 0;
        // From the last outermost span back to the first that is in this one.
        while let Some(index) = self.held.len().checked_sub(1 + inside) {
            let (other, inner) = &self.held[index];
            if other.until <= span.since && other.since < other.until.max(span.since) {
                break;
            }
            if other.since < span.since {
                return Some(*span);
            }
            inside += 1 + inner;
        }
        if span.since < self.passed {
            return Some(*span);
        }
        self.held.push((*span, inside));
        None
    }

    /// Passes the older half of the spans on if there are too many.
    pub(super) fn relieve(&mut self, each: &mut dyn FnMut(Edge<'_>)) {
        if self.held.len() > self.most {
            self.flush(self.most / 2, each);
        }
    }

    /// Passes spans on until at most `rest` are left.
    pub(super) fn flush(&mut self, rest: usize, each: &mut dyn FnMut(Edge<'_>)) {
        // The last outermost spans that stay.
        let mut from = self.held.len();
        while let Some(&(_, inside)) = from.checked_sub(1).and_then(|last| self.held.get(last)) {
            let first = from - 1 - inside;
            if self.held.len() - first > rest {
                break;
            }
            from = first;
        }
        let passed: Vec<(Span, usize)> = self.held.drain(..from).collect();
        self.passed = passed.last().map_or(self.passed, |(span, _)| span.until);
        // The begins in the order of time, by a walk over the trees from their ends.
        let mut begins: Vec<usize> = Vec::with_capacity(passed.len());
        let mut open: Vec<usize> = Vec::new();
        let first = |index: usize| index - passed[index].1;
        let mut order: Vec<usize> = (0..passed.len()).collect();
        // Spans that begin their trees at the same place: the outermost is the first.
        order.sort_by_key(|&index| (first(index), std::cmp::Reverse(index)));
        begins.append(&mut order);
        for index in begins {
            while let Some(done) = open.pop_if(|&mut done| done < first(index)) {
                each(Edge::End(&passed[done].0));
            }
            each(Edge::Begin(&passed[index].0));
            open.push(index);
        }
        while let Some(done) = open.pop() {
            each(Edge::End(&passed[done].0));
        }
    }
}

/// Lines for spans that overlap one another and arrive in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// The end of the last span on each line.
    ends: Vec<u64>,
}

impl Slots {
    /// Returns the number of a line on which the span overlaps no other: the one that was free for
    /// the shortest time.
    pub(super) fn place(&mut self, span: &Span) -> usize {
        let free = |(_, end): &(usize, &u64)| **end <= span.since;
        let latest = self.ends.iter().enumerate().filter(free).max_by_key(|(_, end)| **end);
        let slot = latest.map(|(slot, _)| slot).unwrap_or_else(|| {
            self.ends.push(0);
            self.ends.len() - 1
        });
        self.ends[slot] = span.until;
        slot
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;
    use syncline_trace::Activity;

    use super::*;

    fn span(since: u64, until: u64, subject: u32) -> Span {
        Span { lane: 0, since, until, activity: Activity::Section, subject, detail: 0 }
    }

    /// Checks that edges are in the order of time and nested; returns the spans.
    fn check(edges: &[(bool, Span)]) -> Vec<Span> {
        let mut open: Vec<Span> = Vec::new();
        let (mut now, mut all) = (0, Vec::new());
        for (begins, span) in edges {
            let time = if *begins { span.since } else { span.until };
            assert!(time >= now, "{span:?} is out of order");
            now = time;
            if *begins {
                all.push(*span);
                open.push(*span);
            } else {
                assert_eq!(open.pop().as_ref(), Some(span), "not nested");
            }
        }
        assert!(open.is_empty());
        all
    }

    fn edge(edge: Edge<'_>) -> (bool, Span) {
        match edge {
            Edge::Begin(span) => (true, *span),
            Edge::End(span) => (false, *span),
        }
    }

    /// Takes steps of a thread's clock, which may be slow, and returns its spans by their ends.
    fn run(steps: &[(bool, u64)]) -> Vec<Span> {
        let (mut now, mut open, mut spans) = (0, Vec::new(), Vec::new());
        for (number, &(begins, step)) in steps.iter().enumerate() {
            now += step;
            if begins {
                open.push((now, number as u32));
            } else if let Some((since, subject)) = open.pop() {
                spans.push(span(since, now, subject));
            }
        }
        while let Some((since, subject)) = open.pop() {
            spans.push(span(since, now, subject));
        }
        spans
    }

    #[test]
    fn an_outer_span_that_begins_with_its_first_inner_one_is_the_first() {
        let mut nest = Nest::new(100);
        for inner in [span(5, 7, 1), span(7, 7, 2), span(8, 9, 3), span(5, 9, 4)] {
            assert_eq!(nest.take(&inner), None);
        }
        assert_eq!(nest.take(&span(8, 10, 5)), Some(span(8, 10, 5)), "it overlaps");
        let mut edges = Vec::new();
        nest.flush(0, &mut |e| edges.push(edge(e)));
        let subjects: Vec<u32> = check(&edges).iter().map(|span| span.subject).collect();
        assert_eq!(subjects, [4, 1, 2, 3]);
        assert_eq!(nest.take(&span(0, 12, 6)), Some(span(0, 12, 6)), "it begins too early");
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn lines_are_nested_and_complete(
            steps in proptest::collection::vec((any::<bool>(), 0u64..3), 0..300), most in 2usize..40,
        ) {
            let spans = run(&steps);
            for most in [most, 1000] {
                let (mut nest, mut slots) = (Nest::new(most), Slots::default());
                let (mut edges, mut aside) = (Vec::new(), 0);
                let mut lines: Vec<Vec<(bool, Span)>> = Vec::new();
                for span in &spans {
                    if let Some(span) = nest.take(span) {
                        aside += 1;
                        let slot = slots.place(&span);
                        lines.resize(lines.len().max(slot + 1), Vec::new());
                        lines[slot].extend([(true, span), (false, span)]);
                    }
                    nest.relieve(&mut |e| edges.push(edge(e)));
                    prop_assert!(nest.held.len() <= most);
                }
                nest.flush(0, &mut |e| edges.push(edge(e)));
                let mut found = check(&edges);
                lines.iter().for_each(|line| found.extend(check(line)));
                let mut all = spans.clone();
                let key = |span: &Span| (span.subject, span.since, span.until);
                all.sort_by_key(key);
                found.sort_by_key(key);
                prop_assert_eq!(found, all);
                prop_assert!(most < 1000 || aside == 0, "everything has its place");
            }
        }
    }
}
