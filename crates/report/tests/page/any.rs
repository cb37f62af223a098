//! Any report: also those that no run gives.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use syncline_report::model::{
    ActivityInfo, Cause, Disk, Farm, Grid, LaneInfo, Messages, OverlayGraph, Report, Series,
    Summary, TimeLine, Wave,
};

/// A number that JSON can express.
pub(crate) fn finite() -> BoxedStrategy<f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![4 => 0.0..2.0_f64, 1 => POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO].boxed()
}

/// A number, finite or not.
pub(crate) fn number() -> BoxedStrategy<f64> {
    prop_oneof![6 => 0.0..2.0_f64, 1 => proptest::num::f64::ANY].boxed()
}

fn text() -> BoxedStrategy<String> {
    let hostile = ["</script>", "<!--", "{{data}}", "\u{2028}", "\0", "\\", "\"", "&lt;", ""];
    let hostile = proptest::sample::select(hostile.to_vec()).prop_map(str::to_owned);
    prop_oneof![hostile, any::<String>(), "[a-z ]{1,12}"].boxed()
}

/// A list of at most five.
fn few<T: Strategy + 'static>(item: T) -> BoxedStrategy<Vec<T::Value>>
where
    T::Value: 'static,
{
    vec(item, 0..6).boxed()
}

/// An index that is often in the range of a list of a few, and sometimes not.
fn index() -> BoxedStrategy<u32> {
    prop_oneof![8 => 0..4_u32, 1 => any::<u32>()].boxed()
}

fn activity() -> BoxedStrategy<usize> {
    index().prop_map(|i| i as usize).boxed()
}

/// Any report with these numbers.
pub(crate) fn report(f: BoxedStrategy<f64>) -> BoxedStrategy<Report> {
    let steps = || few(few((f.clone(), f.clone())));
    let class = proptest::sample::select(vec!["work", "wait", "device", "other", "off", "?"]);
    let infos =
        few((text(), class).prop_map(|(name, class)| ActivityInfo { name, class: class.into() }));
    let first =
        (text(), f.clone(), f.clone(), summary(f.clone()), few((text(), text())), few(text()));
    let second = (infos, few(lane(f.clone())), time_line(f.clone()), few(grid(f.clone())));
    let series = (text(), text(), few((f.clone(), f.clone())))
        .prop_map(|(name, unit, points)| Series { name, unit, points });
    let wave = (index(), index(), text(), steps()).prop_map(|(rows, cols, unit, steps)| Wave {
        rows,
        cols,
        unit,
        steps,
    });
    let graph = (
        few(text()),
        few(text()),
        few((index(), index(), any::<bool>())),
        steps(),
        (index(), index()),
    )
        .prop_map(|(tasks, locations, requests, steps, all)| OverlayGraph {
            tasks,
            locations,
            requests,
            steps,
            all,
        });
    let rest = (
        few(series),
        option::of(wave),
        option::of(graph),
        option::of(disk(f.clone())),
        option::of(messages(f.clone())),
        option::of(farm(f)),
    );
    (first, second, rest)
        .prop_map(|(first, second, rest)| {
            let (title, began, length, summary, facts, missing) = first;
            let (activities, lanes, time_line, grids) = second;
            let (progress, wave, overlay, disk, messages, farm) = rest;
            Report {
                title,
                began,
                length,
                summary,
                facts,
                missing,
                activities,
                lanes,
                time_line,
                grids,
                progress,
                wave,
                overlay,
                disk,
                messages,
                farm,
            }
        })
        .boxed()
}

fn summary(f: BoxedStrategy<f64>) -> BoxedStrategy<Summary> {
    let cause = (text(), text(), text(), text(), f.clone()).prop_map(
        |(kind, what, evidence, advice, cost)| Cause { kind, what, evidence, advice, cost },
    );
    (text(), few(cause), f.clone(), f.clone(), f.clone(), few((activity(), f)))
        .prop_map(|(headline, causes, work, queued, wait, waits)| Summary {
            headline,
            causes,
            work,
            queued,
            wait,
            waits,
        })
        .boxed()
}

fn lane(f: BoxedStrategy<f64>) -> BoxedStrategy<LaneInfo> {
    let shares = few((activity(), f.clone()));
    let open = few((activity(), text(), f.clone()));
    let processor = option::of((f.clone(), f.clone()));
    (text(), text(), any::<u32>(), f.clone(), f, shares, processor, open)
        .prop_map(|(name, host, pid, from, to, shares, processor, open)| LaneInfo {
            name,
            host,
            pid,
            from,
            to,
            shares,
            processor,
            open,
        })
        .boxed()
}

fn time_line(f: BoxedStrategy<f64>) -> BoxedStrategy<TimeLine> {
    let id = index().prop_map(|i| i as u16);
    let spans = few((index(), id, f.clone(), f.clone(), index()));
    let bin = (prop_oneof![-1..4_i16, any::<i16>()], any::<u8>());
    (spans, few(text()), f, few(few(bin)))
        .prop_map(|(spans, labels, bin, bins)| TimeLine { spans, labels, bin, bins })
        .boxed()
}

fn grid(f: BoxedStrategy<f64>) -> BoxedStrategy<Grid> {
    let phase = prop_oneof![0..3_u8, any::<u8>()];
    let ratios = [f.clone(), f.clone(), f.clone()];
    let cells = (few(few(f.clone())), few(few(f.clone())), few(few(phase)));
    (text(), few(text()), any::<u64>(), any::<u64>(), cells, f, ratios)
        .prop_map(|(name, tasks, first, stride, (work, wait, phase), ratio, ratios)| Grid {
            name,
            tasks,
            first,
            stride,
            work,
            wait,
            phase,
            ratio,
            ratios,
        })
        .boxed()
}

fn disk(f: BoxedStrategy<f64>) -> BoxedStrategy<Disk> {
    let file = (text(), any::<u64>(), any::<u64>(), f.clone(), f.clone());
    let peak = (option::of(f.clone()), option::of(f.clone()));
    (f.clone(), few(f.clone()), few(f), peak, few(file))
        .prop_map(|(bin, read, written, peak, files)| Disk { bin, read, written, peak, files })
        .boxed()
}

fn messages(f: BoxedStrategy<f64>) -> BoxedStrategy<Messages> {
    let arrows = few((index(), index(), f.clone(), f.clone()));
    let bars = few((index(), index().prop_map(|i| i as u16), f.clone(), f.clone()));
    let pairs = few((index(), index(), any::<u64>(), f.clone(), f));
    (few(text()), arrows, bars, any::<u64>(), pairs, text())
        .prop_map(|(peers, arrows, bars, all, pairs, clocks)| Messages {
            peers,
            arrows,
            bars,
            all,
            pairs,
            clocks,
        })
        .boxed()
}

fn farm(f: BoxedStrategy<f64>) -> BoxedStrategy<Farm> {
    let tasks = few((index(), any::<u64>(), f.clone(), f.clone()));
    let running = few((f.clone(), f.clone()));
    (few(text()), tasks, running, [f.clone(), f.clone(), f.clone(), f])
        .prop_map(|(workers, tasks, running, lengths)| Farm { workers, tasks, running, lengths })
        .boxed()
}
