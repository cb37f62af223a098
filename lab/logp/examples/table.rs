//! Prints the tables of `docs/growth.md`; with `--json`, the curves from which
//! `lab/scripts/curves.py` draws `docs/growth.svg`.

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    print!(
        "{}",
        if json { syncline_logp::growth::curves() } else { syncline_logp::growth::tables() }
    );
}
