//! Functions that the program gives.

use crate::Described;

/// Returns a description with this update and the function `f`.
fn text(update: &str) -> String {
    format!("name = 'x'\nfield = 'u'\nfunctions = ['f']\nupdate = '{update}'")
}

fn fault(text: &str) -> String {
    Described::parse(text).unwrap_err().to_string()
}

#[test]
fn wrong_calls_are_refused_at_their_place() {
    for (update, message) in [
        ("u = old.w + f(u) + f(u, 1)", "column 30: `f` has 1 argument(s) above, and 2 here"),
        ("u = old.w", "line 3, column 14: the update does not call `f`"),
        ("u = old.w + f", "column 23: `f` is a function; its arguments are missing"),
        ("u = old.w + f(1, 2)", "needs a value of an array among its arguments"),
        ("u = old.w + f(int32(u))", "takes values of float64, but this is int32"),
        ("u = old.w + g(u)", "column 23: there is no function `g`"),
        ("f = u; u = old.w + f(u)", "`f` is a function already"),
    ] {
        let fault = fault(&text(update));
        assert!(fault.contains(message), "{update}: {fault}");
    }
    let many = format!("u = old.w + f({})", ["u"; 17].join(", "));
    assert!(fault(&text(&many)).contains("`f` may have 16 arguments at most"));
    let twice = text("u = old.w + f(u)").replace("['f']", "['f', 'f']");
    assert!(fault(&twice).contains("`f` is a function already"));
    for known in ["sqrt", "int32"] {
        let text = text("u = old.w + f(u)").replace("['f']", &format!("['{known}']"));
        assert!(fault(&text).contains("column 14"), "{}", fault(&text));
    }
}

#[test]
fn an_argument_with_a_number_before_the_array_is_a_value_of_the_array() {
    for update in ["u = f(2 * old.w)", "u = f(if(old.w < 1, 7, u), 3)", "u = f(f(2 * old.w))"] {
        Described::parse(&text(update)).unwrap();
    }
}
