//! Random descriptions, for the tests of this crate and for those of the executors.

use syncline_store::ElementType;
use syncline_testkit::Random;

/// Returns the type in which a text computes with values of a type.
fn kind(element: ElementType) -> ElementType {
    if element == ElementType::Float16 { ElementType::Float32 } else { element }
}

/// A random description, and the number of its dimensions.
pub(crate) fn description(random: &mut Random) -> (String, usize) {
    let dimensions = if random.one_in(3) { 3 } else { 2 };
    let explicit = random.one_in(2);
    description_of(random, (dimensions, explicit), false)
}

/// A random description of these dimensions, explicit or not. A `short` one that is ordered has
/// directions, and few terms.
pub(crate) fn description_of(
    random: &mut Random,
    (dimensions, explicit): (usize, bool),
    short: bool,
) -> (String, usize) {
    let typed = !random.one_in(3);
    let fields = [1, 1, 2, 3][random.below(4_usize)];
    let coefficients = random.below(3_usize);
    let radius = if random.one_in(3) { 2 } else { 1 };
    let names: Vec<String> = (0..fields)
        .map(|i| format!("f{i}"))
        .chain((0..coefficients).map(|i| format!("c{i}")))
        .collect();
    let one = random.one_of(&ElementType::ALL);
    let mixed = random.one_in(2);
    let types: Vec<ElementType> =
        names.iter().map(|_| if mixed { random.one_of(&ElementType::ALL) } else { one }).collect();
    let masks = typed && types.contains(&ElementType::Bool);
    let mut text = format!("name = 'random'\ndimensions = {dimensions}\n");
    let quoted = |names: &[String]| format!("{names:?}");
    text += &format!("fields = {}\n", quoted(&names[..fields]));
    text += &format!("coefficients = {}\n", quoted(&names[fields..]));
    let overflow = random.one_of(&["wrapping", "saturating"]);
    text += &format!("overflow = '{overflow}'\n");
    if !explicit && (short || random.one_in(2)) {
        let mut ways = vec!["south-east", "south-west", "north-west", "north-east"];
        // Members of a team cannot share a sweep of three dimensions in all of them.
        if dimensions == 3 && random.one_in(2) {
            let first = random.below(2_usize);
            ways = vec![ways[first], ways[first + 2]];
        }
        let some: Vec<String> = (0..=random.below(4_usize))
            .map(|_| match dimensions {
                2 => random.one_of(&ways).to_owned(),
                _ => format!("{}-{}", random.one_of(&["down", "up"]), random.one_of(&ways)),
            })
            .collect();
        text += &format!("directions = {some:?}\n");
    }
    let read = |random: &mut Random, array: usize| {
        let mut offset = || random.below(2 * radius + 1) as i64 - radius as i64;
        let offsets: Vec<i64> = (0..dimensions).map(|_| offset()).collect();
        let old = if explicit && array < fields { "old." } else { "" };
        format!("{old}{}{offsets:?}", names[array])
    };
    // The values at the point before the update, by other names.
    let mut update: String =
        names[..fields].iter().map(|name| format!("before_{name} = {name}\n")).collect();
    let calls = random.one_in(3);
    for field in 0..fields {
        // A value of another field as it is.
        let other = random.below(fields);
        if fields > 1 && random.one_in(3) && (!typed || types[other] == types[field]) {
            let value = match random.one_in(2) {
                true => format!("before_{}", names[other]),
                false => read(random, other),
            };
            update += &format!("{} = {value}\n", names[field]);
            continue;
        }
        // A function takes float64, which the data of a description without types then are.
        let calls = calls && (!typed || types[field] == ElementType::Float64);
        let own = kind(types[field]);
        // A read as a value of the type of the field.
        let value = |random: &mut Random| {
            let array = random.below(names.len());
            let value = match random.below(5) {
                0 => names[array].clone(),
                _ => read(random, array),
            };
            match typed && kind(types[array]) != own {
                true => format!("{own}({value})"),
                false => value,
            }
        };
        if typed && own == ElementType::Bool {
            let mut all = value(random);
            for _ in 0..random.within(1..=4) {
                let (x, y) = (value(random), value(random));
                let number = format!("float32({})", names[random.below(names.len())]);
                all = match random.below(5) {
                    0 => format!("{all} and not {x}"),
                    1 => format!("({all} or {x}) and {y}"),
                    2 => format!("if({x}, {y}, {all})"),
                    3 => format!("if({all}, {x}, {number} < 3)"),
                    _ => format!("({x} and {all}) or floor({number}) % 3 == 1 or isnan({number})"),
                };
            }
            update += &format!("{} = {all}\n", names[field]);
            continue;
        }
        let mut sum = value(random);
        for _ in 0..random.within(1..=if short { 2 } else { 6 }) {
            let (x, y, z) = (value(random), value(random), value(random));
            let number = random.below(5);
            let (real, most) = (!typed || types[field].is_real(), if calls { 24 } else { 22 });
            sum = match random.below(most) {
                0 => format!("{sum} + {x}"),
                1 => format!("{sum} - {x}"),
                2 => format!("{x} - ({sum})"),
                3 => format!("({sum}) * {number}"),
                4 => format!("{sum} + {x} * {y}"),
                5 => format!("{x} * {y} - ({sum})"),
                6 => format!("min({sum}, {x})"),
                7 => format!("max({x}, {y}, {sum})"),
                8 => format!("abs({sum}) / 3"),
                9 => format!("if({sum} < {x}, {y}, {z})"),
                10 => format!("if({x} <= {y}, {sum}, -{z})"),
                11 => format!("if({x} == {number}, {y}, {sum})"),
                12 => format!("{sum} + {x} + {y} + {z}"),
                13 => format!("({sum}) % ({x} - {number})"),
                14 => format!("({sum}) ** {} - {x} ** {number}", random.below(4)),
                15 => format!("if({x} < {y} and not {z} <= {number}, {sum}, {z})"),
                16 => format!("if({x} < {number} or ({sum} != {y} or {x} == {z}), {y}, {sum})"),
                17 if real => format!("floor({sum}) + {x} ** -2"),
                18 if real => format!("if(isnan({sum}) or {x} > {y}, {z}, {sum})"),
                19 if real => {
                    let function = random.one_of(&["exp", "log", "sin", "cos"]);
                    format!("{x} - {function}({sum})")
                }
                20 if real => format!("floor({x} * {number} / 3) * {sum}"),
                22 => format!("given({sum}, {x})"),
                23 => format!("given({y}, 3) - ({sum}) * {z}"),
                _ => format!("({sum}) / {x}"),
            };
        }
        let last = random.one_of(&["/ 2", "/ 3", "* 3", "- 1"]);
        update += &format!("{} = ({sum}) {last}\n", names[field]);
    }
    if random.one_in(2) {
        let mut axes = vec!["rows", "columns"];
        if dimensions == 3 {
            axes.push("planes");
        }
        let edges: Vec<String> = axes
            .into_iter()
            .map(|axis| {
                let number = if masks { "1" } else { "3" };
                let rules = ["'fixed'", "'clamped'", "'reflected'", number, "'periodic'"];
                let first = if dimensions == 3 { "planes" } else { "rows" };
                let most = if explicit && ["columns", first].contains(&axis) { 5 } else { 4 };
                format!("{axis} = {}", rules[random.below(most)])
            })
            .collect();
        text += &format!("edges = {{ {} }}\n", edges.join(", "));
    }
    if update.contains("given(") {
        text += "functions = ['given']\n";
    }
    text += &format!("update = \"\"\"\n{update}\"\"\"\n");
    if random.one_in(4) {
        let (seen, array) = (random.one_of(&["'point'", "7"]), random.below(names.len()));
        let is_real = !typed || types[array].to_string().starts_with("float");
        let value = if is_real && random.one_in(3) { "nan" } else { "4" };
        let (value, seen) = match typed && types[array] == ElementType::Bool {
            true => ("1", if seen == "7" { "0" } else { seen }),
            false => (value, seen),
        };
        text += &format!("[nodata]\n{} = {{ value = {value}, seen = {seen} }}\n", names[array]);
    }
    if typed {
        text += "[types]\n";
        for (name, element) in names.iter().zip(&types) {
            text += &format!("{name} = '{element}'\n");
        }
    }
    (text, dimensions)
}
