//! Texts of kernels over arrays: what they mean, and the errors that name the place.

use proptest::prelude::*;
use proptest::sample::select;
use syncline_testkit::property;

use super::super::{Described, DescribedError};

/// Returns the place and the message of the error in a text, without the excerpt.
fn message(text: &str) -> String {
    let error = Described::parse(text).unwrap_err();
    let DescribedError::Text { place, message, .. } = error else { panic!("{error}") };
    format!("{}:{} {message}", place.line, place.column)
}

#[test]
fn a_plain_kernel_is_one_for_matrices() {
    let needs = |more: &str| {
        let text = format!("name = 'x'\nfield = 'u'\ncoefficients = ['c']\n{more}");
        Described::parse(&text).unwrap().needs_arrays()
    };
    assert!(!needs("update = 'u = n + c'"));
    assert!(!needs("update = 'u = u * c'"));
    assert!(!needs("update = 'u = new.n + u'"));
    assert!(!needs("edges = 'fixed'\nupdate = 'u = n'"));
    for more in [
        "update = 'u = old.n'",
        "update = 'u = c.n'",
        "update = 'u = u[-2, 0]'",
        "update = 'u = u[-1, 0] + u[0, 2]'",
        "edges = 'clamped'\nupdate = 'u = n'",
        "directions = ['north-west']\nupdate = 'u = s'",
        "dimensions = 3\ndirections = ['up-north-west']\nupdate = 'u = down'",
        "dimensions = 3\nupdate = 'u = up'",
        "update = 'u = n'\n[types]\nu = 'float64'\nc = 'float64'",
        "update = 'u = n'\n[nodata]\nu = -1",
    ] {
        // A value that means no data only adds to the update.
        assert_eq!(needs(more), !more.contains("nodata"), "{more}");
    }
}

#[test]
fn errors_name_the_place() {
    let head = "name = 'x'\nfield = 'u'\ncoefficients = ['c']\n";
    for (more, expected) in [
        ("update = 'u = old.n + s'", "4:23 this mixes values before the iteration (`old.`) with"),
        ("update = 'u = s + old.n'", "4:19 this mixes values before the iteration (`old.`) with"),
        ("update = 'u = old.c'", "4:15 `c` is a coefficient, which never changes"),
        ("update = 'u = old.x'", "4:15 there is no `x`; there are c, e, n"),
        ("update = 'u = c.x'", "4:17 there is no neighbour `x`; there are e, n, ne"),
        ("update = 'u = c.1'", "4:16 expected an operator or the next assignment, not `0.1`"),
        ("update = 'u = u[1]'", "4:15 invalid length 1, expected an array of length 2"),
        ("update = 'u = u[-3, 0]'", "4:15 [-3, 0] is too far: a neighbour is at most 2"),
        ("update = 'u = u[0.5, 0]'", "4:17 expected a whole number, not `0.5`"),
        ("update = 'u = u[0, 0'", "4:21 expected `]` after the offsets, not the end"),
        ("update = 'u = new.s'", "4:15 the sweep to the south-east has not updated this neighbour"),
        ("update = 'u = new.u'", "4:15 `u` is assigned only after this"),
        (
            "directions = ['north-east']\nupdate = 'u = new.n'",
            "5:15 the sweep to the north-east has not updated this neighbour yet",
        ),
        ("directions = ['up']\nupdate = 'u = n'", "4:15 there is no direction `up`; there are"),
        ("directions = []\nupdate = 'u = n'", "4:14 there may be 1 to 16 directions"),
        (
            "directions = ['south-east']\nupdate = 'u = old.n'",
            "4:14 an update that reads only values before the iteration has no direction",
        ),
        ("edges = 'round'\nupdate = 'u = n'", "4:9 there is no edge `round`; there are fixed"),
        ("edges = { row = 1 }\nupdate = 'u = n'", "4:11 there is no axis `row`; is `rows` meant?"),
        ("edges = { rows = [] }\nupdate = 'u = n'", "4:18 an edge is one of fixed, clamped"),
        (
            "edges = { rows = 'periodic' }\nupdate = 'u = n'",
            "4:18 rows can be periodic only if the update reads values before the iteration",
        ),
        (
            "edges = 'periodic'\nupdate = 'u = w'",
            "4:9 rows can be periodic only if the update reads values before the iteration",
        ),
        (
            "dimensions = 3\nedges = { rows = 'periodic' }\nupdate = 'u = old.n'",
            "5:18 rows cannot be periodic in three dimensions; planes and columns can",
        ),
        (
            "edges = { columns = 'periodic' }\nupdate = 'u = w'",
            "4:21 columns can be periodic only if the update reads values before the iteration",
        ),
        (
            "edges = 0.5\nupdate = 'u = old.n'\n[types]\nu = 'int16'\nc = 'int16'",
            "4:9 int16 cannot be 0.5",
        ),
        ("update = 'u = n + c'\n[types]\nu = 'int16'", "4:17 this combines int16 with an array"),
        (
            "update = 'u = n + c'\n[types]\nu = 'int16'\nc = 'uint8'",
            "4:17 this combines int16 with uint8; convert one of them, as in `uint8(...)`",
        ),
        (
            "update = 'u = float64(c)'\n[types]\nu = 'int16'\nc = 'uint8'",
            "4:15 this is float64, but the field is int16; convert it, as in `int16(...)`",
        ),
        (
            "overflow = 'wrapping'\nupdate = 'u = n + 0.5'\n[types]\nu = 'uint8'\nc = 'uint8'",
            "5:17 0.5 cannot be uint8",
        ),
        (
            "overflow = 'wrapping'\nupdate = 'u = 256'\n[types]\nu = 'uint8'\nc = 'uint8'",
            "5:15 256 cannot be uint8",
        ),
        (
            "update = 'u = n + c'\n[types]\nu = 'uint8'\nc = 'uint8'",
            "4:17 whole numbers may overflow here: say `overflow = \"wrapping\"`",
        ),
        ("overflow = 'no'\nupdate = 'u = n'", "4:12 there is no overflow `no`; there are wrapping"),
        (
            "update = 'u = sqrt(c)'\n[types]\nu = 'uint8'\nc = 'uint8'",
            "4:15 whole numbers have no square root",
        ),
        ("update = 'u = n'\n[types]\nv = 'uint8'", "6:1 there is no array `v`; there are u, c"),
        ("update = 'u = n'\n[types]\nu = 'byte'", "6:5 there is no type `byte`; there are float64"),
        ("update = 'u = n'\n[nodata]\nu = 'x'", "6:5 the value that means no data is a number"),
        ("update = 'u = n'\n[nodata]\nu = { seen = 2 }", "6:5 `value` is missing: the number that"),
        (
            "update = 'u = n'\n[nodata]\nu = { value = 1, seen = 'all' }",
            "6:5 `seen` is a number or \"point\"",
        ),
        (
            "update = 'u = n'\n[nodata]\nu = { value = 1, see = 2 }",
            "6:5 there is no key `see`; is `seen` meant?",
        ),
        ("dimensions = 4\nupdate = 'u = n'", "4:14 there are 2 or 3 dimensions"),
        ("dimensions = 3\nupdate = 'u = u[0, 1]'", "5:15 invalid length 2, expected an array of"),
        (
            "dimensions = 3\nupdate = 'u = new.down'",
            "5:15 the sweep down-south-east has not updated this neighbour yet",
        ),
        (
            "dimensions = 3\ndirections = ['up-north-west', 'down-south-east']\n\
             update = 'u = new.n'",
            "6:15 the sweep up-north-west has not updated this neighbour yet",
        ),
        ("fields = ['v']\nupdate = 'u = n'", "2:9 there is `fields` already"),
    ] {
        let text = format!("{head}{more}");
        assert!(message(&text).starts_with(expected), "{}\n{expected}\n{text}", message(&text));
    }
}

#[test]
fn errors_of_types_and_functions() {
    let of = |update: &str, u: &str, c: &str| {
        message(&format!(
            "name = 'x'\nfield = 'u'\ncoefficients = ['c']\noverflow = 'wrapping'\n\
             update = '{update}'\n[types]\nu = '{u}'\nc = '{c}'"
        ))
    };
    for (update, u, c, expected) in [
        (
            "u = exp(n)",
            "int16",
            "int8",
            "5:15 `exp` takes real numbers, but this is int16; convert it, as in `float64(...)`",
        ),
        ("u = u + floor(c)", "float64", "uint32", "5:19 `floor` takes real numbers, but this is"),
        ("u = sqrt(c)", "float64", "uint32", "5:15 whole numbers have no square root; convert"),
        (
            "u = if(isnan(c), u, 1)",
            "float64",
            "int8",
            "5:24 a whole number is never NaN, and this is int8",
        ),
        ("u = c ** -1", "int32", "int32", "5:20 whole numbers have no powers of less than 0;"),
        ("u = c + 1", "bool", "bool", "5:17 a value of bool is a condition, and no number;"),
        ("u = -c", "bool", "bool", "5:15 a value of bool is a condition, and no number;"),
        ("u = c ** 2", "bool", "bool", "5:17 a value of bool is a condition, and no number;"),
        ("u = c == 1", "bool", "bool", "5:17 a value of bool is a condition, and no number;"),
        ("u = isnan(c)", "bool", "bool", "5:21 a whole number is never NaN, and this is bool"),
        ("u = c", "float64", "bool", "5:15 this is bool, but the field is float64; convert it"),
        ("u = 2", "bool", "bool", "5:15 2 cannot be bool"),
        ("u = c", "bool", "uint8", "5:15 this is uint8, but the field is bool; convert it, as in"),
        ("u = if(c, 1, 2)", "uint8", "uint8", "5:19 expected a comparison such as `<`, not `,`"),
        ("u = c and u", "bool", "uint8", "5:15 this is a number, and no comparison; write"),
        (
            "u = n < 1",
            "float16",
            "bool",
            "5:15 this is a comparison, but the field is float16; convert it, as in \
             `float16(a < b)`",
        ),
        (
            "u = float64(c)",
            "float16",
            "bool",
            "5:15 this is float64, but the field is float16; convert it, as in `float16(...)`",
        ),
        ("u = u + c", "float16", "float64", "5:17 this combines float32 with float64; convert"),
        ("u = u + c", "uint32", "int32", "5:17 this combines uint32 with int32; convert one"),
        ("u = 4294967296", "uint32", "int8", "5:15 4294967296 cannot be uint32"),
        ("u = u", "half", "int8", "7:5 there is no type `half`; there are float64, float32"),
    ] {
        let found = of(update, u, c);
        assert!(found.starts_with(expected), "{update}: {found}");
    }
    let nodata = "name = 'x'\nfield = 'u'\nupdate = 'u = n'\n[types]\nu = 'bool'\n[nodata]\nu = 4";
    assert_eq!(message(nodata), "7:5 bool cannot be 4");
}

#[test]
fn directions_have_names_of_their_dimensions() {
    let solid = "down-south-east, down-south-west, down-north-west, down-north-east, \
                 up-south-east, up-south-west, up-north-west, up-north-east";
    let unknown = format!("there is no direction `up`; there are {solid}");
    for (dimensions, names, expected) in [
        (
            2,
            "'south-east', 'down-south-east'",
            "4:29 there is no direction `down-south-east` in two dimensions; is `south-east` meant?",
        ),
        (
            2,
            "'up-north-west'",
            "4:15 there is no direction `up-north-west` in two dimensions; is `north-west` meant?",
        ),
        (
            2,
            "'up'",
            "4:15 there is no direction `up`; there are south-east, south-west, north-west, \
             north-east",
        ),
        (
            3,
            "'down-south-east', 'north-west'",
            "4:34 there is no direction `north-west` in three dimensions; is `down-north-west` or \
             `up-north-west` meant?",
        ),
        (
            3,
            "'down-south-esat'",
            "4:15 there is no direction `down-south-esat`; is `down-south-east` meant?",
        ),
        (3, "'up'", &format!("4:15 {unknown}")),
        (3, "'down-up-south-east'", "4:15 there is no direction `down-up-south-east`; is "),
        (3, "", "4:14 there may be 1 to 16 directions"),
    ] {
        let text = format!(
            "name = 'x'\nfield = 'u'\ndimensions = {dimensions}\ndirections = [{names}]\n\
             update = 'u = n'"
        );
        let found = message(&text);
        let whole = !expected.ends_with(' ');
        assert!(found == expected || !whole && found.starts_with(expected), "{found}\n{expected}");
    }
}

#[test]
fn errors_of_several_fields() {
    let head = "name = 'x'\nfields = ['a', 'b']\n";
    for (update, expected) in [
        ("a = b", "3:16 the update ends without assigning the field, `b`"),
        ("a = b; b = a; c = a", "3:25 nothing may follow the assignment of all fields"),
        ("a = b; a = 1; b = 1", "3:18 `a` is assigned already"),
        ("a = n; b = a", "3:15 of which field? Write `a.n`, for example"),
        ("a = new.b; b = 1", "3:15 `b` is assigned only after this"),
        ("a = old.b.n; b = a.n", "3:28 this mixes values before the iteration"),
    ] {
        let text = format!("{head}update = '{update}'");
        assert!(message(&text).starts_with(expected), "{}\n{expected}\n{text}", message(&text));
    }
    assert!(
        message("name = 'x'\nfields = []\nupdate = ''").starts_with("2:10 there may be 1 to 16")
    );
    assert!(message("name = 'x'\nupdate = ''").contains("missing field `field`"));
}

fn token() -> impl Strategy<Value = &'static str> {
    select(vec![
        "u", "v", "n", "up", "c", "old", "new", ".", "[", "]", "-1", "0", "2", "1.5", "+", "-",
        "*", "/", "(", ")", ",", ";", "=", "<", "==", "max", "if", "uint8", "float64", "sqrt",
        "\n",
    ])
}

proptest! {
    #![proptest_config(property(2000))]

    #[test]
    fn any_tokens(
        tokens in prop::collection::vec(token(), 0..40),
        lines in prop::collection::vec(select(vec![
            "dimensions = 3", "overflow = 'wrapping'", "edges = 'clamped'", "edges = 3",
            "edges = { columns = 'periodic', rows = 0 }", "edges = 'periodic'", "directions = ['north-west']",
            "directions = ['up-north-west']",
            "types = { u = 'uint8', v = 'float32' }", "nodata = { u = 3 }",
            "nodata = { v = { value = nan, seen = 0 } }",
        ]), 0..4),
    ) {
        let head = "name = 'x'\nfields = ['u', 'v']\ncoefficients = ['c']\n";
        let text = format!("{head}{}\nupdate = '''u = {}'''", lines.join("\n"), tokens.join(" "));
        let _ = Described::parse(&text).map_err(|error| error.to_string());
    }
}
