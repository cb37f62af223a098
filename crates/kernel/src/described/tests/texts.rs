//! Invalid texts give errors that help, and never a panic.

use proptest::prelude::*;
use proptest::sample::select;
use syncline_testkit::property;

use super::super::{Described, DescribedError};

const HEAD: &str = "name = 'x'\nfield = 'u'\ncoefficients = ['a', 'bb']\n";

/// Returns the place and the message of the error in an update, without the excerpt.
fn message(update: &str) -> String {
    let error = Described::parse(&format!("{HEAD}update = \"\"\"\n{update}\"\"\"\n")).unwrap_err();
    let DescribedError::Text { place, message, .. } = error else { panic!("{error}") };
    format!("{}:{} {message}", place.line - 4, place.column)
}

#[test]
fn errors_name_the_place() {
    for (update, expected) in [
        ("u = n + zz", "1:9 there is no `zz`; there are a, bb, e, n, ne, nw, s, se, sw, u, w"),
        ("u = n + b", "1:9 there is no `b`; there are a, bb, e, n, ne, nw, s, se, sw, u, w"),
        ("u = n + bbb", "1:9 there is no `bbb`; is `bb` meant?"),
        ("q = n + r\nr = s; u = q", "1:9 `r` is assigned only after this"),
        ("q = n + q; u = q", "1:9 there is no `q`; there are a, bb, e, n, ne, nw, s, se, sw, u, w"),
        ("q = r == n; r = s", "1:5 `r` is assigned only after this"),
        ("u = n + BB", "1:9 there is no `BB`; is `bb` meant?"),
        ("u = mix(n, s)", "1:5 there is no function `mix`; is `max` meant?"),
        ("q = n\n\n  u = q $ s", "3:9 '$' has no meaning here"),
        ("u = n ^ 2", "1:7 '^' has no meaning here; write a power as `x ** 3`"),
        ("u = if(n < 1 & s < 1, n, s)", "1:14 '&' has no meaning here; write `and`"),
        ("u = n ** 1.5", "1:10 an exponent is a whole number, as in `x ** 3`"),
        ("u = n ** s", "1:10 an exponent is a whole number, as in `x ** 3`"),
        ("u = n ** 2 ** 3", "1:10 an exponent is a whole number, as in `x ** 3`"),
        ("u = n ** -65", "1:10 an exponent is at least -64 and at most 64"),
        ("u = exp(n, s)", "1:10 expected `)` at the end of `exp`, not `,`"),
        ("u = isnan(n, s)", "1:12 expected `)` at the end of `isnan`, not `,`"),
        (
            "u = isnan(n)",
            "1:5 this is a comparison, but the field is of the type of the data; write `if(a < b, 1, 0)`",
        ),
        ("u = sin()", "1:9 expected a value, not `)`"),
        ("u = sinn(n)", "1:5 there is no function `sinn`; is `sin` meant?"),
        ("u = if(n < s < e, 1, 2)", "1:14 comparisons form no chain; write `a < b and b < c`"),
        (
            "u = (n < s) * 2",
            "1:5 this is a comparison, and no number; write `if(a < b, 1, 0)`, for example",
        ),
        (
            "u = 2 * (n < s)",
            "1:9 this is a comparison, and no number; write `if(a < b, 1, 0)`, for example",
        ),
        (
            "u = exp(n < s)",
            "1:9 this is a comparison, and no number; write `if(a < b, 1, 0)`, for example",
        ),
        (
            "u = if(n < s and e, 1, 2)",
            "1:18 this is a number, and no comparison; write `a != 0`, for example",
        ),
        (
            "u = if(not n, 1, 2)",
            "1:12 this is a number, and no comparison; write `a != 0`, for example",
        ),
        ("q = n < s; u = q.n", "1:17 expected an operator or the next assignment, not `.`"),
        ("q = n < s; u = old.q", "1:16 `q` is a value of the update; only a field is old or new"),
        ("u = (n + s", "1:11 expected `)` or an operator, not the end"),
        ("u = n + s)", "1:10 no parenthesis is open here"),
        ("u = ", "1:4 expected a value, not the end"),
        ("", "1:1 the update ends without assigning the field, `u`"),
        ("q = n", "1:6 the update ends without assigning the field, `u`"),
        ("u = n\nq = u", "2:1 nothing may follow the assignment of the field, `u`"),
        ("u = n q = s", "1:7 nothing may follow the assignment of the field, `u`"),
        ("u = n s", "1:7 expected an operator or the next assignment, not `s`"),
        ("u == n", "1:3 expected `=` after the name, not `==`"),
        ("n + s", "1:3 expected `=` after the name, not `+`"),
        (
            "n = s; u = n",
            "1:1 `n` is a neighbour (without a table of them) already; take another name",
        ),
        ("q = s; q = n; u = q", "1:8 `q` is a value of the update already; take another name"),
        ("max = s; u = n", "1:1 `max` is a function and cannot be assigned"),
        (
            "u = n < s",
            "1:5 this is a comparison, but the field is of the type of the data; write `if(a < b, 1, 0)`",
        ),
        ("u = if(n, s, e)", "1:9 expected a comparison such as `<`, not `,`"),
        ("u = if(n < s, e)", "1:16 expected `,` and the value otherwise, not `)`"),
        ("u = max(n)", "1:10 expected `,` and at least one more argument of `max`, not `)`"),
        ("u = abs(n, s)", "1:10 expected `)` at the end of `abs`, not `,`"),
        ("u = sqrt", "1:9 expected `(` after `sqrt`, not the end"),
        ("u = 1e999", "1:5 this number is too large"),
        ("u = 2n", "1:5 expected an operator after this number"),
        ("u + 1 = n", "1:3 expected `=` after the name, not `+`"),
        ("3 = n", "1:1 expected a name to assign, not `3`"),
        ("# only a comment\n", "1:17 the update ends without assigning the field, `u`"),
    ] {
        assert_eq!(message(update), expected, "{update}");
    }
}

#[test]
fn errors_outside_of_the_update() {
    let text = |text: &str| {
        let DescribedError::Text { place, message, .. } = Described::parse(text).unwrap_err()
        else {
            panic!()
        };
        format!("{}:{} {message}", place.line, place.column)
    };
    let head = "name = 'x'\nfield = 'u'\nupdate = 'u = n'\n";
    for (more, expected) in [
        (
            "thickness = 2",
            "4:13 the frontier's thickness can only be 1: neighbours touch the point",
        ),
        ("coefficients = ['u']", "4:17 `u` is a coefficient, but also the field"),
        (
            "coefficients = ['s']",
            "4:17 `s` is a coefficient, but also a neighbour (without a table of them)",
        ),
        ("coefficients = ['a', 'a']", "4:22 `a` is a coefficient already"),
        (
            "coefficients = ['a b']",
            "4:17 \"a b\" is not a name: letters, digits and `_`, not beginning with a digit",
        ),
        ("coefficients = ['if']", "4:17 `if` is a function and cannot be a coefficient"),
        ("[constants]\nu = 1", "5:1 `u` is a constant, but also the field"),
        (
            "[neighbours]\nn = [-3, 0]",
            "5:5 [-3, 0] is too far: a neighbour is at most 2 points away along an axis",
        ),
        ("[neighbours]\nn = [-1]", "5:5 invalid length 1, expected an array of length 2"),
        ("[neighbours]\nu = [-1, 0]", "2:9 `u` is the field, but also a neighbour"),
        ("[neighbours]\nm = [-1, 0]", "3:15 there is no `n`; there are m, u"),
        ("[constants]\nc = 'a'", "5:5 invalid type: string \"a\", expected a number"),
        (
            "[neighbours]\nn = [0.5, 0]",
            "5:6 invalid type: floating point `0.5`, expected an integer",
        ),
    ] {
        assert_eq!(text(&format!("{head}{more}")), expected, "{more}");
    }
    assert!(
        text("name = 'x'\nfeld = 'u'")
            .starts_with("2:1 unknown field `feld`, expected one of `name`, `field`")
    );
    assert!(text("name = 'x'\nfield = 'u").starts_with("2:"));
    assert!(text("").contains("missing field `name`"));
    let many: Vec<String> = (0..257).map(|i| format!("'c{i}'")).collect();
    assert!(
        text(&format!("{head}coefficients = [{}]", many.join(", ")))
            .ends_with("256 coefficients at most")
    );
    assert!(Described::parse(&format!("{head}coefficients = [{}]", many[1..].join(", "))).is_ok());
}

#[test]
fn places_in_all_kinds_of_strings() {
    let place = |update: &str| {
        let DescribedError::Text { place, .. } =
            Described::parse(&format!("{HEAD}update = {update}")).unwrap_err()
        else {
            panic!()
        };
        (place.line, place.column, place.length)
    };
    assert_eq!(place("'u = n + zzz'"), (4, 19, 3));
    assert_eq!(place("\"u = n + zzz\""), (4, 19, 3));
    assert_eq!(place("'''u = n + zzz'''"), (4, 21, 3));
    assert_eq!(place("'''\nu = n + zzz'''"), (5, 9, 3));
    assert_eq!(place("'''\r\nu = n +\r\n zzz'''"), (6, 2, 3));
    assert_eq!(place("'''\nü = n; u = ü + zzz'''"), (5, 16, 3));
    // With an escape the place is the whole string.
    assert_eq!(place("\"u = n \\u002b zzz\""), (4, 10, 18));
    assert_eq!(place("''"), (4, 11, 1));
}

#[test]
fn the_excerpt_points_at_it() {
    let error = Described::parse(&format!("{HEAD}update = '''\n\tu = n + zzz'''")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 5, column 10: there is no `zzz`; there are a, bb, e, n, ne, nw, s, se, sw, u, w\n  \
         |\n5 | \tu = n + zzz'''\n  | \t        ^^^"
    );
}

#[test]
fn files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    let error = Described::from_file(&path).unwrap_err();
    assert!(matches!(error, DescribedError::Read { .. }) && error.to_string().contains("x.toml"));
    std::fs::write(&path, "name = 3").unwrap();
    let error = Described::from_file(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}, line 1, column 8: ", path.display())), "{error}");
    for text in [&[0xff, 0xfe][..], &vec![b'#'; Described::LONGEST as usize + 1]] {
        std::fs::write(&path, text).unwrap();
        let error = Described::from_file(&path).unwrap_err();
        assert!(
            matches!(error, DescribedError::Read { .. }) && error.to_string().contains("x.toml"),
            "{error}"
        );
    }
    // Reading does not block on a pipe, nor read an endless file.
    for odd in ["/dev/zero", folder.path().to_str().unwrap()] {
        let error = Described::from_file(odd).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn of_long_lines_only_what_is_near_is_shown() {
    for (before, after) in [(150, 150), (0, 190), (190, 0), (50, 120), (60, 1)] {
        let (left, right) = ("u + ".repeat(before), " + u".repeat(after));
        let error = Described::parse(&format!("{HEAD}update = 'u = {left}zzz{right}'"))
            .unwrap_err()
            .to_string();
        assert!(
            error.len() < 500
                && error.contains(&format!("column {}: there is no `zzz`", 15 + 4 * before)),
            "{error}"
        );
        let lines: Vec<_> = error.lines().rev().take(2).collect();
        let caret = lines[0].find("^^^").unwrap();
        assert_eq!(&lines[1][caret..caret + 3], "zzz", "{error}");
    }
}

#[test]
fn a_name_is_one_line() {
    for name in [r#""a\nb""#, "'''\na\nb'''", "''", "' '", r#""\u001b[2J""#] {
        let text = format!("name = {name}\nfield = 'u'\nupdate = 'u = n'");
        let error = Described::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with("line 1, column 8: a name is one line of text"), "{error}");
    }
    let kept =
        Described::parse("name = 'Größe, 2. Fassung'\nfield = 'u'\nupdate = 'u = n'").unwrap();
    assert_eq!(kept.name(), "Größe, 2. Fassung");
}

#[test]
fn what_a_terminal_would_obey_is_not_shown() {
    let error = Described::parse("name = 'x'\nfield = 'u\u{1b}[2J\u{7}'").unwrap_err().to_string();
    assert!(!error.contains(['\u{1b}', '\u{7}']), "{error:?}");
}

#[test]
fn a_neighbour_is_two_numbers() {
    for offset in ["[]", "[-1]", "[0, 1, 7]", "[0, 1, 7, 9]"] {
        let error =
            Described::parse(&format!("{HEAD}update = 'u = a'\n[neighbours]\na = {offset}"))
                .unwrap_err();
        let DescribedError::Text { place, message, .. } = error else { panic!("{offset}") };
        assert!(
            message.contains("array of length 2") && place.text.ends_with(offset),
            "{offset}: {message}"
        );
    }
}

#[test]
fn limits_are_errors() {
    let nested = |n: usize| format!("u = {}n{}", "(".repeat(n), ")".repeat(n));
    let signs = |n: usize| format!("u = {}n", "-".repeat(n));
    let chain = |n: usize| format!("u = n{}", " + s".repeat(n));
    let lets = |n: usize| {
        let mut text = "v0 = n\n".to_owned();
        (1..n).for_each(|i| text += &format!("v{i} = v{} * s\n", i - 1));
        text + &format!("u = v{}", n - 1)
    };
    let numbers = |n: usize| {
        let sums: Vec<String> = (0..n).map(|i| format!("(n + {i}.5)")).collect();
        let halves: Vec<String> =
            sums.chunks(100).map(|c| format!("({})", c.join(" + "))).collect();
        format!("u = {}", halves.join(" * "))
    };
    let words = |n: usize| format!("u = if({}n < s, n, s)", "not ".repeat(n));
    let joined = |n: usize| format!("u = if(n < s{}, n, s)", " and n < e".repeat(n));
    let again = |n: usize| {
        let mut text = "c0 = n < s\n".to_owned();
        (1..n).for_each(|i| text += &format!("c{i} = not (c{p} or c{p})\n", p = i - 1));
        text + &format!("u = if(c{}, n, s)", n - 1)
    };
    for (update, part) in [
        (words(100_000), "nested too deeply"),
        (joined(100_000), "a condition may have 100 comparisons at most"),
        (again(100_000), "a condition may have 100 comparisons at most"),
        (nested(100_000), "nested too deeply"),
        (signs(100_000), "nested too deeply"),
        (chain(100_000), "too deep"),
        (lets(100_000), "too deep"),
    ] {
        assert!(message(&update).contains(part), "{}", message(&update));
    }
    let parses =
        |update: String| Described::parse(&format!("{HEAD}update = '''{update}'''")).map(drop);
    for update in [
        nested(60),
        signs(60),
        chain(200),
        lets(190),
        numbers(250),
        words(60),
        joined(99),
        again(7),
    ] {
        parses(update).unwrap();
    }
}

fn token() -> impl Strategy<Value = &'static str> {
    select(vec![
        "u", "n", "a", "bb", "q", "zz", "1", "0.5", "1e3", "+", "-", "*", "/", "(", ")", ",", ";",
        "=", "<", "<=", "==", "!=", "max", "min", "abs", "sqrt", "if", "\n", "# c\n", "$", "é",
        "%", "**", "and", "or", "not", "isnan", "exp", "floor", "float64", "bool", "float16", "=",
        "(", ")",
    ])
}

proptest! {
    #![proptest_config(property(2000))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = Described::parse(&text).map_err(|error| error.to_string());
        let _ = Described::parse(&format!("{HEAD}update = '''{text}'''")).map_err(|error| error.to_string());
        let _ = Described::parse(&format!("{HEAD}update = \"{}\"", text.escape_debug())).map_err(|e| e.to_string());
    }

    #[test]
    fn any_tokens(tokens in prop::collection::vec(token(), 0..60)) {
        let update = format!("u = {}", tokens.join(" "));
        let _ = Described::parse(&format!("{HEAD}update = '''{update}'''")).map_err(|error| error.to_string());
    }

    #[test]
    fn any_lines(lines in prop::collection::vec(select(vec![
        "name = 'x'", "field = 'u'", "field = ''", "coefficients = ['a', 'u']", "coefficients = ['a']", "thickness = 1",
        "thickness = -1", "update = 'u = n'", "update = \"\"", "update = 'u = '", "[constants]", "[neighbours]", "n = [-1, 0]",
        "u = [1, 9]", "c = nan", "c = 1", "c = inf", "update = '''", "'''", "[[a]]", "}",
    ]), 0..12)) {
        let _ = Described::parse(&lines.join("\n")).map_err(|error| error.to_string());
    }
}
