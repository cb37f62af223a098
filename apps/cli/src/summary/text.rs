//! The summary as text.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use syncline_common::units::{Bytes, Time, rate};
use syncline_common::words::plural;

use super::not_finite::not_finite;
use super::{Seconds, Summary};

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, dtype, rows, cols, .. } = self;
        write!(f, "{kernel:<12} ")?;
        if let Some(planes) = self.planes {
            write!(f, "{planes} x ")?;
        }
        write!(f, "{rows} x {cols} {dtype}")?;
        if self.complete_already {
            writeln!(f)?;
            self.iterations(f)?;
            if self.verified_with.is_some() {
                self.verified(f)?;
            }
            return write!(f, "output       {}, complete already: nothing was done", self.output);
        }
        let count = self.threads.unwrap_or(1);
        match (&self.block, self.depth) {
            (Some([rows, cols]), _) => {
                let order = self.order.and_then(|order| order.to_possible_value());
                let order = order.as_ref().map_or("", |order| order.get_name());
                let blocks = self.blocks.unwrap_or(0);
                let s = plural(blocks as u64);
                writeln!(f, ", {blocks} block{s} of {rows} x {cols}, order {order}")?;
            }
            (None, depth) => {
                let (passes, depth) = (self.passes.unwrap_or(0), depth.unwrap_or(0));
                let lanes = self.lanes.as_deref().unwrap_or("");
                match passes {
                    0 => writeln!(f, ", streamed: no pass, there was nothing to compute")?,
                    _ => {
                        write!(
                            f,
                            ", streamed: {passes} pass{}",
                            if passes == 1 { "" } else { "es" }
                        )?;
                        writeln!(f, " of up to {depth} iteration{}, {lanes}", plural(depth))?;
                    }
                }
            }
        }
        if let Some(instead) = &self.instead {
            writeln!(f, "executor     {instead}")?;
        }
        if let Some(chosen) = &self.chosen {
            writeln!(f, "chosen       {chosen}")?;
        }
        self.iterations(f)?;
        let time = Duration::from_secs_f64(self.seconds.unwrap_or(0.0));
        write!(f, "time         {} on {count} thread{}", Time(time), plural(count))?;
        if let Some(members @ 2..) = self.members {
            write!(f, " of {members} members")?;
        }
        match self.ns_per_element {
            Some(ns) => writeln!(f, ", {ns:.2} ns/element")?,
            None => writeln!(f)?,
        }
        if let (Some(times), Some(1..)) = (&self.times, self.passes) {
            write_times(f, times)?;
        }
        let traffic = |bytes| match bytes {
            0 => "nothing".to_owned(),
            _ => format!("{} ({}/s)", Bytes(bytes), rate(bytes, time)),
        };
        let moved = |read: Option<u64>, written: Option<u64>| {
            Some(format!("read {}, written {}", traffic(read?), traffic(written?)))
        };
        let files = if self.block.is_some() { "mapped" } else { "files" };
        for (what, moved) in [
            (files, moved(self.bytes_read, self.bytes_written)),
            ("disk", moved(self.disk_read, self.disk_written)),
        ] {
            moved.map_or(Ok(()), |moved| writeln!(f, "{what:<13}{moved}"))?;
        }
        if let (Some(slabs), Some(1..)) = (self.read_twice, self.passes) {
            let slabs_are = if self.planes.is_some() { "plane" } else { "row" };
            writeln!(
                f,
                "periodic     in each pass the first {slabs} {slabs_are}{} and as many of the last are \
                 read twice",
                plural(slabs as u64)
            )?;
        }
        self.memory(f)?;
        self.verified(f)?;
        let sync = Time(Duration::from_secs_f64(self.sync_seconds.unwrap_or(0.0)));
        write!(f, "output       {}, {}, on disk after {sync} more", self.output, self.layout)?;
        match self.unmarked {
            Some(why) => write!(f, "\nnot marked   {why}, so --resume cannot go on from it"),
            None => Ok(()),
        }
    }
}

impl Summary {
    fn iterations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iterations   {}", self.iterations.unwrap_or(0))?;
        match self.resumed {
            Some(0) => write!(f, "; there was nothing to resume, so begun afresh")?,
            Some(before) => write!(f, ", resumed after {before}")?,
            None => {}
        }
        match (self.tolerance, self.converged_at, self.residual) {
            (Some(tolerance), Some(at), _) => {
                writeln!(f, "; no point changed by more than {tolerance:e} in iteration {at}")
            }
            (Some(_), None, Some(residual)) if !residual.is_finite() => {
                let told = not_finite(residual, self.output.split(", ").map(Path::new));
                writeln!(f, "; NOT CONVERGED: in the last {told}")
            }
            (Some(tolerance), None, Some(residual)) => {
                writeln!(
                    f,
                    "; NOT CONVERGED: in the last a point changed by {residual:e}, more than --until {tolerance:e}"
                )
            }
            (Some(_), None, None) if self.iterations == Some(0) => {
                writeln!(f, "; NOT CONVERGED: there was no iteration")
            }
            (Some(tolerance), None, None) => writeln!(
                f,
                "; NOT KNOWN to have come to --until {tolerance:e}, as they ran without --until: one more \
                 iteration tells"
            ),
            _ => writeln!(f),
        }
    }

    fn verified(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verified_with, self.sampled_rows) {
            (None, _) => writeln!(f, "verified     no"),
            (Some(with), None) => writeln!(f, "verified     bit for bit against {with}"),
            (Some(_), Some(0)) => writeln!(
                f,
                "sampled      nothing: after that many iterations the first rows depend on most others; --verify compares all"
            ),
            (Some(with), Some(rows)) => {
                let (some, all) = (rows * self.cols, self.rows * self.cols);
                writeln!(
                    f,
                    "sampled      {some} of {all} values, the first {rows} of {} rows, bit for bit against {with}; not \
                     the others",
                    self.rows
                )
            }
        }
    }

    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(peak), Some(bound), Some(window)) = (self.peak, self.memory, self.window) else {
            return Ok(());
        };
        let on_team = self.members > Some(1);
        let (of, count) = if on_team { (" of a host", self.on_host) } else { ("", 1) };
        write!(f, "memory       {} at the peak{of}, of {} allowed", Bytes(peak), Bytes(bound))?;
        if count > 1 {
            write!(f, " for its {count} members")?;
        }
        write!(f, "; ")?;
        // The plan counts all buffers in full, and a run may touch less of them.
        let window = Window { bytes: window, each: on_team };
        match (self.blocks, self.held, self.panels, self.panel_rows) {
            (None, ..) if self.passes == Some(0) => writeln!(f, "no window"),
            (Some(_), Some(true), ..) => writeln!(f, "all matrices held"),
            (Some(blocks), ..) => {
                let s = plural(blocks as u64);
                writeln!(f, "up to {} of {blocks} block{s} at once", self.windows.unwrap_or(0))
            }
            (None, _, Some(panels), Some(rows)) => {
                writeln!(f, "{window}, {panels} panels of {rows} rows")
            }
            _ => writeln!(f, "{window}"),
        }?;
        self.program.map_or(Ok(()), |program| {
            writeln!(
                f,
                "program      {} of its own file and libraries, which the bound leaves out",
                Bytes(program)
            )
        })
    }
}

/// The bytes that were planned for the window of a streamed sweep, of each member on a team.
struct Window {
    bytes: u64,
    each: bool,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.each { " of each member" } else { "" };
        write!(f, "{} planned for the window{whose}", Bytes(self.bytes))
    }
}

/// Writes one line: the activities of the computing threads as shares, and those beside them in
/// seconds.
fn write_times(f: &mut fmt::Formatter<'_>, times: &Seconds) -> fmt::Result {
    let all = times.update + times.pack + times.wait;
    if all <= 0.0 {
        return Ok(());
    }
    let share = |seconds: f64| format!("{:.0} %", seconds / all * 100.0);
    let time = |seconds: f64| Time(Duration::from_secs_f64(seconds));
    writeln!(
        f,
        "threads      update {}, pack {}, wait {}; beside them read {}, write {}, checksums {}",
        share(times.update),
        share(times.pack),
        share(times.wait),
        time(times.read),
        time(times.write),
        time(times.checksums)
    )
}
