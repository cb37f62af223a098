//! The targets, and the distance from them.

use super::race::Cell;
use crate::race::{Target, ratio};

/// Returns the median of a way in a setting, in nanoseconds.
fn median(cells: &[Cell], group: &str, setting: &str, way: &str) -> Option<f64> {
    let fits =
        |cell: &&Cell| cell.key.group == group && cell.key.setting == setting && cell.way == way;
    cells.iter().find(fits).map(|cell| cell.spread.median)
}

/// Returns the targets of one host; `hop` is the time of a hop of a cache line.
pub(super) fn host(cells: &[Cell], hop: Option<f64>) -> Vec<Target> {
    let of = |setting: &str, way: &str| median(cells, "operations", setting, way);
    let mut targets = Vec::new();
    let ns = |way: &str, most| Target::at_most(format!("{way}, ns"), of("8 B", way), most);
    targets.extend([ns("put", 15.0), ns("get", 15.0), ns("put; fence", 15.0)]);
    let contended = ratio(of("8 B", "put; fence; the other reads that line"), hop);
    targets.push(Target::at_most("put; fence; the other reads that line, / H", contended, 2.0));
    let both = ratio(of("8 B", "put both ways; sync; get one's own"), hop);
    targets.push(Target::at_most("put both ways; sync; get one's own, / H", both, 4.0));
    for kind in ["mcs", "server", "ticket", "hybrid"] {
        let way = format!("lock; unlock: {kind}");
        targets.push(Target::at_most(format!("{way}, ns"), of("free, of another", &way), 25.0));
    }
    targets.push(Target::at_most("fence_all, ns", of("nothing under way", "fence_all"), 20.0));
    let computing = of("8 B", "get, from one that computes for 20 ms");
    targets.push(Target::at_most("get, from one that computes for 20 ms, ns", computing, 1000.0));
    let large = |way| median(cells, "data", "1 MiB", way);
    let speed = ratio(large("memcpy"), large("put"));
    targets.push(Target::at_least("put of 1 MiB: speed / memcpy", speed, 0.8));
    targets.into_iter().flatten().collect()
}

/// Returns the targets of several hosts.
pub(super) fn far(cells: &[Cell], hosts: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    let ping = median(cells, "ping", "8 B", "a message and one back");
    let most = (hosts - 1).min(7);
    for bytes in [100, 4000] {
        let setting = format!("{bytes} B, {most} targets");
        let of = |way: &str| median(cells, "fence", &setting, way);
        let serial = of("asking, K = 1");
        let trips = ratio(serial, ping).map(|trips| trips / most as f64);
        targets.push(Target::at_most(format!("{setting}: K = 1, / targets / ping"), trips, 1.2));
        let times = ratio(serial, of("asking, K = all"));
        let least = if hosts == 4 { Some(2.5) } else { None };
        targets
            .extend(least.map(|least| {
                Target::at_least(format!("{setting}: K = 1 / K = all"), times, least)
            }));
        let setting = format!("{bytes} B");
        let of = |way: &str| median(cells, "sync", &setting, way);
        let (serial, mpi) = (of("asking, K = 1; dissemination"), of("MPI: flush_all; barrier"));
        for (way, four, eight) in [("sync", 6.0, 8.0), ("sync_global", 3.4, 3.4)] {
            let least = match hosts {
                4 => Some(four),
                8 => Some(eight),
                _ => None,
            };
            let times = ratio(serial, of(way));
            targets.extend(least.map(|least| {
                Target::at_least(format!("{setting}: K = 1; dissemination / {way}"), times, least)
            }));
            targets.push(Target::at_least(
                format!("{setting}: MPI: flush_all; barrier / {way}"),
                ratio(mpi, of(way)),
                1.5,
            ));
        }
    }
    for setting in ["256 KiB", "1 MiB", "4 MiB"] {
        let of = |way: &str| median(cells, "long", setting, way);
        for (ours, theirs) in [
            ("put; fence", "MPI_Put; flush"),
            ("get", "MPI_Get; flush"),
            ("put; fence", "MPI_Isend; a message back"),
            ("get", "MPI_Isend; a message back"),
        ] {
            let what = format!("{setting}: bandwidth, {ours} / {theirs}");
            targets.push(Target::at_least(what, ratio(of(theirs), of(ours)), 0.8));
        }
    }
    let queued = cells.iter().filter(|cell| cell.key.group == "queue" && cell.way == "mcs");
    for Cell { key, spread, .. } in queued {
        let setting = &key.setting;
        let server = median(cells, "queue", setting, "server");
        let what = format!("{setting}: hand-over by server / mcs");
        targets.push(Target::at_least(what, ratio(server, Some(spread.median)), 1.7));
    }
    let of = |way: &str| median(cells, "barrier", "all", way);
    let combined = of("combined");
    targets.push(Target::at_least(
        "dissemination / combined",
        ratio(of("dissemination, radix 2"), combined),
        1.0,
    ));
    let idle = median(cells, "idle", "5 s, members sleep", "server threads, of a second");
    targets.push(Target::at_most("an idle server, % of a core", idle.map(|ns| ns / 1e7), 2.0));
    targets.into_iter().flatten().collect()
}
