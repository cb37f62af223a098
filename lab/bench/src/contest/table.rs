//! The race for people: a table for each cell.

use super::{Cell, Contest, Ratio, Record, Standing};

/// The table.
pub(crate) fn text(contest: &Contest) -> String {
    let mut lines = head(contest);
    lines.extend(contest.records.iter().filter_map(|record| match record {
        Record::Skipped { way, why } => Some(format!("skipped: {way}: {why}")),
        Record::Unpinned { way } => Some(format!("not pinned: {way}")),
        _ => None,
    }));
    for cell in &contest.cells {
        lines.extend(table(contest, *cell));
    }
    let ratios = contest.records.iter().filter_map(|record| match record {
        Record::Ratio(Ratio { what, value }) => Some(format!("{what:72} {value:10.3}")),
        _ => None,
    });
    let ratios: Vec<_> = ratios.collect();
    if !ratios.is_empty() {
        lines.push("\nof the medians".to_owned());
        lines.extend(ratios);
    }
    lines.join("\n")
}

fn head(contest: &Contest) -> Vec<String> {
    let hop = match contest.hop() {
        Some(hop) => format!(
            "H, a hop of a cache line between two of them: median {:.1} ns, best {:.1}",
            hop.median, hop.best
        ),
        None => "no two of them, so no hop of a cache line between them".to_owned(),
    };
    let machine = contest.records.iter().find_map(|record| match record {
        Record::Machine(machine) => Some(format!("{}; {hop}", machine.line())),
        _ => None,
    });
    let Contest { subject, rounds, milliseconds, .. } = contest;
    let race = format!("{}; {rounds} alternating rounds of {milliseconds} ms each", subject.what);
    machine.into_iter().chain([race]).collect()
}

fn table(contest: &Contest, cell: Cell) -> Vec<String> {
    let fair = contest.subject.fairness && cell.members > 1;
    let title = contest.title(cell);
    let fairness = if fair { format!(" {:>9}", "fairness") } else { String::new() };
    let mut lines = vec![format!(
        "\n{title:52} {:>10} {:>10} {:>10} {:>8} {:>8}{fairness}",
        "median ns", "best", "p90", "/ H", "/ peer"
    )];
    for record in &contest.records {
        match record {
            Record::Cell(Standing { way, cell: of, spread, to_hop, to_best_peer, fairness, .. })
                if *of == cell =>
            {
                let ratio = |ratio: &Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
                let fairness = fairness.map_or(String::new(), |fairness| format!(" {fairness:9.3}"));
                lines.push(format!(
                    "{way:52} {:10.1} {:10.1} {:10.1} {:>8} {:>8}{fairness}",
                    spread.median,
                    spread.best,
                    spread.p90,
                    ratio(to_hop),
                    ratio(to_best_peer),
                ));
            }
            Record::LeftOut { way, cell: of, ns, .. } if *of == cell => {
                lines.push(format!("{way:52} left out: it takes too long, {ns:.0} ns"));
            }
            _ => {}
        }
    }
    lines
}
