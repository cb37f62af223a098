//! The setting, the machine, and the bandwidth of the disk.

use std::fs;

use syncline_blocks::plan::Order;
use syncline_store::probe::{Pattern, Sample, Scratch, Way};

use super::{from_disk, memory};
use crate::error::Result;
use crate::papers::data::Data;
use crate::plot::{Axis, Chart, Figure, Line};
use crate::reproduce::lab::Lab;
use crate::reproduce::outcome::{Cell, Claim, Outcome, Table};
use crate::reproduce::steps::{ALONG, ITERATIONS, Twenty, name};

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

/// Returns the bytes of the memory of this machine.
fn ram() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}

/// O20: the sizes.
pub(in crate::reproduce) fn setting(lab: &Lab) -> Result<Outcome> {
    let side = lab.scale.side();
    let along = lab.scale.pick(4, ALONG, ALONG);
    let folder = lab.matrices(&[side / along])?;
    let inputs = folder.open(Data::Blocked, side / along)?;
    let found = inputs.field.shape();
    let bytes = (found.rows * found.cols * 8) as f64;
    let mut table = Table::new("setting", ["", "the paper", "here"]);
    let mut row =
        |what: &str, paper: f64, here: f64| table.row([what.into(), paper.into(), here.into()]);
    row("side of the matrix", 16384.0, found.rows as f64);
    row("MiB of the matrix", 2048.0, bytes / MIB);
    row("MiB with 5 matrices of coefficients", 12288.0, 6.0 * bytes / MIB);
    row("MiB of memory of the machine", 2048.0, ram() / MIB);
    row("MiB that a sweep may map", f64::NAN, lab.scale.memory() as f64 / MIB);
    row("blocks, and threads", 64.0, (along * along) as f64);
    row("iterations", 20.0, ITERATIONS as f64);
    let times = 6.0 * bytes / lab.scale.memory() as f64;
    let claim = Claim::new(
        "data of 12 GiB, 6 times the memory of the machine",
        format!(
            "data of {:.3} GiB, {times:.1} times what a sweep may map, and {:.4} times the \
             memory of the machine",
            6.0 * bytes / GIB,
            6.0 * bytes / ram()
        ),
        6.0 * bytes > ram(),
    );
    let why = "this scale is small: --scale paper has 12 GiB, and the limit of mapped memory \
               stands for a small machine";
    let why = if lab.scale.name() == "paper" {
        "this machine has more memory than the data"
    } else {
        why
    };
    Ok(Outcome::default().claim(claim.because(why)).note(memory(lab)).table(table))
}

/// O23: the machine.
pub(in crate::reproduce) fn machine(_: &Lab) -> Result<Outcome> {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        let line = cpu.lines().find(|line| line.starts_with(key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let model = of("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let mhz = of("cpu MHz").map_or_else(String::new, |mhz| format!(" at {mhz} MHz"));
    let cache = |n: usize| {
        let at = format!("/sys/devices/system/cpu/cpu0/cache/index{n}");
        Some(format!("L{} {}", read(&format!("{at}/level"))?, read(&format!("{at}/size"))?))
    };
    let caches: Vec<_> = (2..4).filter_map(cache).collect();
    let unknown = || "not told by the system".to_owned();
    let caches = if caches.is_empty() {
        of("cache size").unwrap_or_else(unknown)
    } else {
        caches.join(", ")
    };
    let mut disks = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let sectors =
            read(&path.join("size").to_string_lossy()).and_then(|text| text.parse::<f64>().ok());
        let size = sectors.unwrap_or(0.0) * 512.0 / GIB;
        if size > 0.0 && !name.starts_with("loop") && !name.starts_with("ram") {
            let turns = read(&path.join("queue/rotational").to_string_lossy());
            let kind =
                if turns.as_deref() == Some("1") { "reported as rotating" } else { "not rotating" };
            disks.push(format!("{name}: {size:.0} GiB, {kind}"));
        }
    }
    let disks = if disks.is_empty() { unknown() } else { disks.join("; ") };
    let kernel = read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown);
    let mut table = Table::new("machines", ["", "Grelon", "Capricorne", "here"]);
    let rows = [
        (
            "CPU",
            "2x Intel Xeon 5110 dual-core at 1.6 GHz",
            "1x AMD Opteron 246 dual-core at 2.0 GHz",
            format!("{processors} of {model}{mhz}"),
        ),
        ("cache", "L2 4 MiB at 1333 MHz", "L2 1 MiB at 400 MHz", caches),
        ("memory", "2 GiB", "2 GiB", format!("{:.1} GiB", ram() / GIB)),
        ("hard disk", "80 GiB SATA", "36 GiB SCSI", disks),
        ("kernel", "2.6.26.2 (Aug 6, 2008)", "2.6.18.6 (Dec 16, 2006)", format!("Linux {kernel}")),
    ];
    for (what, grelon, capricorne, here) in rows {
        table.row([what, grelon, capricorne].map(Cell::from).into_iter().chain([here.into()]));
    }
    let here = format!("{processors} processors, {:.1} GiB and Linux {kernel}", ram() / GIB);
    Ok(Outcome::default()
        .claim(Claim::beside("machines of 4 and 2 cores, 2 GiB, and Linux 2.6", here))
        .table(table))
}

/// A disk's rates in MiB/s, for reading and for writing.
fn rates(lab: &Lab) -> Result<[f64; 2]> {
    let bytes = lab.scale.pick(8 << 20, 512 << 20, 12 << 30);
    lab.room(bytes)?;
    let mut scratch = Scratch::create(&lab.folder, bytes)?;
    let way = if scratch.lacks(Way::Direct).is_none() { Way::Direct } else { Way::Mapped };
    let mut rate = |pattern| -> Result<f64> {
        let mut samples = Vec::new();
        for _ in 0..3 {
            lab.signals.check()?;
            samples.push(scratch.measure(pattern, way)?);
        }
        Ok(Sample::median(samples).map_or(f64::NAN, |sample| sample.rate() / MIB))
    };
    Ok([rate(Pattern::Read)?, rate(Pattern::Write)?])
}

/// O32: the bandwidth of the disk.
pub(in crate::reproduce) fn bandwidth(lab: &Lab) -> Result<Outcome> {
    let [read, write] = rates(lab)?;
    let mut table = Table::new("bandwidth", ["MiB/s", "Grelon", "Capricorne", "here"]);
    table.row(["sequential input".into(), 64.0.into(), 52.0.into(), read.into()]);
    table.row(["sequential output".into(), 29.0.into(), 47.0.into(), write.into()]);
    let here = format!(
        "{read:.0} and {write:.0} MiB/s, {:.0} and {:.0} times those of Grelon",
        read / 64.0,
        write / 29.0
    );
    Ok(Outcome::default()
        .claim(Claim::beside(
            "64 and 29 MiB/s (Grelon), 52 and 47 MiB/s (Capricorne), by iozone",
            here,
        ))
        .note(
            "the product's own probe, direct where the file system permits it, after the page \
             cache has dropped the file",
        )
        .figure(bars(
            "ORWL, Table 2: sequential bandwidth of the disk",
            ["input", "output"],
            [("Grelon", [64.0, 29.0]), ("Capricorne", [52.0, 47.0])],
            [("here", [read, write])],
        ))
        .table(table))
}

/// Returns a chart of rates on a logarithmic axis: the paper's machines, and runs here.
fn bars<const N: usize>(
    title: &str,
    places: [&str; 2],
    paper: [(&str, [f64; 2]); 2],
    here: [(&str, [f64; 2]); N],
) -> Figure {
    let points = |rates: [f64; 2]| (0..2).map(move |n| (n as f64, rates[n]));
    let chart = Chart::new("", Axis::places("", places), Axis::log("MiB/s"))
        .lines(
            paper
                .map(|(name, rates)| Line::of(format!("{name} (paper)"), points(rates)).of_paper()),
        )
        .lines(here.map(|(name, rates)| Line::of(name, points(rates)).loose()));
    Figure::charts(title, 1, vec![chart])
}

/// O33: the bandwidth of reading in the computation.
pub(in crate::reproduce) fn computed_bandwidth(lab: &Lab) -> Result<Outcome> {
    let runs = lab.twenty()?;
    let [peak, _] = rates(lab)?;
    let rate = |data, order| {
        let run = runs.iter().find(|run| run.data == data && run.order == order);
        // The model's bytes: six matrices in each iteration, as the paper counts them.
        run.map_or(f64::NAN, |run| run.read as f64 / run.seconds / MIB)
    };
    let mut table = Table::new(
        "bandwidth",
        ["MiB/s", "start", "Grelon", "Capricorne", "here", "of the disk's"],
    );
    for (data, grelon, capricorne) in [(Data::Blocked, 57.0, 18.0), (Data::Framed, 40.0, 35.0)] {
        for order in [Order::Wave, Order::MaxParallel] {
            let (layout, start) = name(data, order);
            let here = rate(data, order);
            table.row([
                layout.into(),
                start.into(),
                Cell::from(grelon),
                capricorne.into(),
                here.into(),
                (here / peak).into(),
            ]);
        }
    }
    let waves = [Data::Blocked, Data::Framed].map(|data| rate(data, Order::Wave));
    let [blocked, framed] = waves;
    let sum = |of: fn(&Twenty) -> u64| runs.iter().map(of).sum::<u64>().max(1) as f64;
    let from = sum(|run| run.disk_read) / sum(|run| run.read);
    let why = from_disk(from);
    let ratio = |value: f64| 100.0 * value / peak;
    let claim = Claim::new(
        "57 and 40 MiB/s on Grelon, which are 89 and 63 % of what its disk gives",
        format!(
            "{blocked:.0} and {framed:.0} MiB/s asked for, which are {:.0} and {:.0} % of what \
             this disk gives",
            ratio(blocked),
            ratio(framed)
        ),
        from > 0.5
            && (50.0..110.0).contains(&ratio(blocked))
            && (50.0..110.0).contains(&ratio(framed)),
    );
    let order = Claim::new(
        "more bytes per second with the block layout than with the optimized one (it reads \
         whole neighbours)",
        format!("{:.2} times as many", blocked / framed),
        blocked > framed,
    );
    let figure = bars(
        "ORWL, Table 3: read bandwidth of the computation",
        ["block layout", "optimized layout"],
        [("Grelon", [57.0, 40.0]), ("Capricorne", [18.0, 35.0])],
        [
            ("here, wave", waves),
            (
                "here, maximal parallelism",
                [Data::Blocked, Data::Framed].map(|data| rate(data, Order::MaxParallel)),
            ),
            ("this disk", [peak; 2]),
        ],
    );
    Ok(Outcome::default()
        .claim(claim.because(why))
        .claim(order)
        .note(memory(lab))
        .table(table)
        .figure(figure))
}
