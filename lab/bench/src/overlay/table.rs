//! The race for people.

use super::{MEAN, Race, Record, Run, SIDE, WIDTH};

/// What is printed.
pub(crate) struct Table<'a> {
    race: &'a Race,
    text: String,
}

impl<'a> Table<'a> {
    pub(crate) fn new(race: &'a Race) -> Self {
        Self { race, text: String::new() }
    }

    /// All of it.
    pub(crate) fn text(mut self) -> String {
        self.head();
        self.empty();
        self.irregular();
        self.metg();
        self.efficiencies();
        self.text.trim_end().to_owned()
    }

    fn line(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }

    fn head(&mut self) {
        let Race { workers, rounds, site, .. } = self.race;
        let pinned = match site.places.len() {
            0 => "not pinned".to_owned(),
            1 => "pinned to 1 processor".to_owned(),
            places if places < *workers => format!("pinned to {places} processors in turn"),
            _ => "each pinned to a processor".to_owned(),
        };
        self.line(&format!(
            "{workers} workers, {pinned}; {rounds} alternating rounds; ns of wall time per task, after a warm-up\n"
        ));
        let kernels = self.race.records.iter().filter_map(|record| match record {
            Record::Kernel { by, ns_per_iteration } => Some(format!("{by} {ns_per_iteration:.3}")),
            _ => None,
        });
        let kernels: Vec<_> = kernels.collect();
        self.line(&format!("an iteration of the loop of bodies, ns: {}", kernels.join("; ")));
        for record in &self.race.records {
            match record {
                Record::Skipped { way, why } => self.line(&format!("skipped: {way}: {why}")),
                Record::Unpinned { way } => self.line(&format!("not pinned: {way}")),
                _ => {}
            }
        }
    }

    /// Median, best, and ratio of the median to the best one of ours.
    fn columns(&self, way: &str, wanted: impl Fn(&Run) -> bool + Copy) -> String {
        let of = |way: &str| self.race.median(|run| run.way == way && wanted(run));
        let ours = self.race.ways.iter().filter(|way| way.is_ours()).filter_map(|way| of(way.name()));
        let ours = ours.fold(f64::INFINITY, f64::min);
        let best = self.race.times(|run| run.way == way && wanted(run)).into_iter().fold(f64::NAN, f64::min);
        match of(way) {
            Some(median) => format!("{median:10.1} {best:9.1} {:8.2}", median / ours),
            None => String::new(),
        }
    }

    fn empty(&mut self) {
        let mut workers = vec![1, self.race.workers];
        workers.dedup();
        let number = |n: usize| if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") };
        let heads = |n: &usize| format!("   {:>10} {:>9} {:>8}", number(*n), "best", "/ ours");
        let heads: String = workers.iter().map(heads).collect();
        self.line(&format!("\n{:30}{heads}", format!("empty, grid {SIDE} x {SIDE}")));
        for way in self.race.ways.iter().map(|way| way.name()) {
            let columns = workers.iter().map(|&n| {
                let wanted = |run: &Run| (run.program, run.body, run.workers) == ("grid", "empty", n);
                format!("   {}", self.columns(way, wanted))
            });
            let columns: String = columns.collect();
            self.line(&format!("{way:30}{columns}"));
        }
    }

    fn irregular(&mut self) {
        let workers = self.race.workers;
        let wanted = |run: &Run, n| run.body == "irregular" && run.workers == n;
        let plain = self.race.ways.iter().find(|way| !way.keeps_order(2)).map_or("", |way| way.name());
        let without_order =
            |n| self.race.median(|run| run.way == plain && wanted(run, n)).unwrap_or(f64::NAN);
        let (alone, free) = (without_order(1), without_order(workers));
        let ideal = alone / workers as f64;
        self.line(&format!(
            "\n{:30}   {:>10} {:>9} {:>8} {:>8} {:>10}",
            "0 to 2 us, the same grid",
            format!("{workers} workers"),
            "best",
            "/ ours",
            "/ ideal",
            "/ no order"
        ));
        for way in self.race.ways.iter().map(|way| way.name()) {
            let wanted = |run: &Run| wanted(run, workers);
            let median = self.race.median(|run| run.way == way && wanted(run)).unwrap_or(f64::NAN);
            let (to_ideal, to_free) = (median / ideal, median / free);
            self.line(&format!("{way:30}   {} {to_ideal:8.3} {to_free:10.3}", self.columns(way, wanted)));
        }
        self.line(&format!(
            "ideal: the plain loop on one thread / {workers} workers = {ideal:.1} ns; its tasks are {:.3} times their mean by \
             the loop of bodies",
            alone / MEAN
        ));
    }

    fn metg_of(&self, program: &str, way: &str) -> Option<(&'static str, f64)> {
        self.race.records.iter().find_map(|record| match record {
            Record::Metg { program: p, way: w, bound, ns, .. } if (*p, *w) == (program, way) => {
                Some((*bound, *ns))
            }
            _ => None,
        })
    }

    fn metg(&mut self) {
        let programs: Vec<_> = self.race.programs.iter().map(|program| program.name).collect();
        self.line(&format!(
            "\nMETG(50 %) in ns, and by the least of ours, {} workers, patterns of {WIDTH} points",
            self.race.workers
        ));
        let heads: String = programs.iter().map(|name| format!("{name:>16}")).collect();
        self.line(&format!("{:28}{heads}", ""));
        for way in self.race.ways.iter().filter(|way| way.keeps_order(2)) {
            let cell = |program: &&str| {
                let ours = self.race.ways.iter().filter(|way| way.is_ours());
                let ours = ours.filter_map(|way| self.metg_of(program, way.name()));
                let ours = ours.map(|(_, ns)| ns).fold(f64::INFINITY, f64::min);
                let cell = self.metg_of(program, way.name()).map(|(bound, ns)| {
                    let sign = match bound {
                        "at most" => "<",
                        "more than" => ">",
                        _ => "",
                    };
                    format!("{sign}{ns:.0} {:>6.2}", ns / ours)
                });
                format!("{:>16}", cell.unwrap_or_default())
            };
            let cells: String = programs.iter().map(cell).collect();
            self.line(&format!("{:28}{cells}", way.name()));
        }
    }

    fn efficiencies(&mut self) {
        for program in &self.race.programs {
            let grains = self.race.grains.iter().map(|&n| n as f64 * self.race.ns_per_iteration);
            let heads: String = grains.map(|ns| format!("{ns:>7.0}")).collect();
            self.line(&format!("\n{:30}{heads}", format!("{}, % of ideal, by ns", program.name)));
            for way in self.race.ways.iter().filter(|way| way.keeps_order(2)) {
                let points = self.race.points(program.name, way.name());
                let cells: String = points.iter().map(|p| format!("{:>7.0}", p.efficiency * 100.0)).collect();
                self.line(&format!("{:30}{cells}", way.name()));
            }
        }
    }
}
