//! The cost of barriers on machines of other sizes: transfers of cache lines, by formula.

use syncline_sync::cost::{Algorithm, best, best_radix, transfers};

/// Returns the table.
pub(super) fn text() -> String {
    let title = "advice for machines of other sizes: by formula, not measured; transfers of a cache line per episode,\n\
                 one after the other / in all, with a core for each member";
    let head = ["members", "counter", "tournament", "radix 2", "radix 4", "best radix"];
    let columns = |cells: [String; 6], last: &str| {
        let [members, rest @ ..] = cells;
        let rest: String = rest.iter().map(|cell| format!(" {cell:>14}")).collect();
        format!("{members:>7}{rest}   {last}")
    };
    let rows = (1..=8).map(|power| {
        let members = 1 << power;
        let cost = |algorithm| {
            let transfers = transfers(algorithm, members);
            format!("{} / {}", transfers.chain, transfers.all)
        };
        let radix = best_radix(members);
        let dissemination = |radix| cost(Algorithm::Dissemination { radix });
        let cells = [
            members.to_string(),
            cost(Algorithm::Counter),
            cost(Algorithm::Tournament),
            dissemination(2),
            dissemination(4),
            format!("{radix}: {}", dissemination(radix)),
        ];
        let auto = match best(members, members) {
            Algorithm::Counter => "counter".to_owned(),
            Algorithm::Tournament => "tournament".to_owned(),
            Algorithm::Dissemination { radix } => format!("dissemination, radix {radix}"),
        };
        columns(cells, &auto)
    });
    let head = columns(head.map(str::to_owned), "auto takes");
    [title.to_owned(), head].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn powers_of_two_from_2_to_256() {
        let text = super::text();
        let first =
            |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
        let members: Vec<_> = text.lines().filter_map(first).collect();
        assert_eq!(members, [2, 4, 8, 16, 32, 64, 128, 256]);
        let of_two = text.lines().find(|line| first(line) == Some(2)).unwrap();
        assert!(of_two.contains(" 3 / 3 ") && of_two.ends_with("counter"), "{text}");
    }
}
