//! Random updates, compiled and executed with all vectors, equal a walk through the expression tree
//! bit for bit.

use std::fmt;

use proptest::prelude::*;
use proptest::sample::select;
use syncline_testkit::property;

use super::super::Described;
use crate::Neighbours;
use crate::lanes::{Engine, Lanes, Real, Vector};
use crate::point::{Slots, Update};
use crate::rule::update::RuleUpdate;
use syncline_store::Element;

/// The names of the inputs, in the order of the values given to a walk: the point, its neighbours,
/// the coefficients.
const INPUTS: [&str; 12] = ["u", "n", "w", "e", "s", "nw", "se", "ne", "sw", "a", "b", "c"];
/// The number of vectors that are updated at once, as in the engine.
const R: usize = 4;

#[derive(Clone, Debug)]
enum Tree {
    Input(usize),
    /// An earlier assignment, by its index.
    Earlier(usize),
    Number(f64),
    Unary(&'static str, Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
    If(&'static str, Box<[Tree; 4]>),
    /// The third where both comparisons hold, of the first two, or neither; the fourth elsewhere.
    Both(&'static str, Box<[Tree; 4]>),
    Power(Box<Tree>, i32),
}

impl Tree {
    /// Returns how tightly the operator binds: 0 for a sum, 1 for a product, 2 for a
    /// sign, 3 for a power, 4 for all others.
    fn binding(&self) -> u8 {
        match self {
            Tree::Binary("+" | "-", ..) => 0,
            Tree::Binary("*" | "/" | "%", ..) => 1,
            Tree::Unary("-", _) => 2,
            Tree::Power(..) => 3,
            _ => 4,
        }
    }
}

/// Writes the expression with no more parentheses than needed.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, tree: &Tree, least: u8| {
            if tree.binding() < least { write!(f, "({tree})") } else { write!(f, "{tree}") }
        };
        match self {
            Tree::Input(i) => f.write_str(INPUTS[*i]),
            Tree::Earlier(i) => write!(f, "v{i}"),
            Tree::Number(value) => write!(f, "{value:?}"),
            Tree::Unary("-", x) => {
                f.write_str("-")?;
                part(f, x, 2)
            }
            Tree::Unary(name, x) => write!(f, "{name}({x})"),
            Tree::Binary(op @ ("min" | "max"), x, y) => write!(f, "{op}({x}, {y})"),
            Tree::Binary(op, x, y) => {
                part(f, x, self.binding())?;
                write!(f, " {op} ")?;
                part(f, y, self.binding() + 1)
            }
            Tree::Both(op, parts) => {
                let [x, y, yes, no] = &**parts;
                match *op {
                    "and" => write!(f, "if({x} < {y} and not isnan({yes}), {yes}, {no})"),
                    "or" => write!(f, "if(not ({x} < {y} or {no} == {y}), {yes}, {no})"),
                    _ => write!(f, "if(isnan({x}) or {x} < {y} and ({yes} != {no}), {yes}, {no})"),
                }
            }
            Tree::Power(x, exponent) => {
                part(f, x, 4)?;
                write!(f, " ** {exponent}")
            }
            Tree::If(op, parts) => {
                write!(f, "if({} {op} {}, {}, {})", parts[0], parts[1], parts[2], parts[3])
            }
        }
    }
}

/// Defines the walk through the tree for one type of numbers.
macro_rules! walk {
    ($name:ident, $type:ty) => {
        fn $name(tree: &Tree, inputs: &[$type], earlier: &[$type]) -> $type {
            let of = |tree: &Tree| $name(tree, inputs, earlier);
            match tree {
                Tree::Input(i) => inputs[*i],
                Tree::Earlier(i) => earlier[*i],
                Tree::Number(value) => *value as $type,
                Tree::Unary("-", x) => -of(x),
                Tree::Unary("abs", x) => of(x).abs(),
                Tree::Unary("sqrt", x) => of(x).sqrt(),
                Tree::Unary("floor", x) => of(x).floor(),
                Tree::Unary("exp", x) => of(x).exp(),
                Tree::Unary("log", x) => of(x).ln(),
                Tree::Unary("sin", x) => of(x).sin(),
                Tree::Unary(_, x) => of(x).cos(),
                Tree::Power(x, exponent) => {
                    let x = of(x);
                    let power = (1..exponent.abs()).fold(x, |power, _| power * x);
                    match exponent {
                        0 => 1.0,
                        1.. => power,
                        _ => 1.0 / power,
                    }
                }
                Tree::Both(op, parts) => {
                    let [x, y, yes, no] = [&parts[0], &parts[1], &parts[2], &parts[3]].map(of);
                    let holds = match *op {
                        "and" => x < y && !yes.is_nan(),
                        "or" => !(x < y || no == y),
                        _ => x.is_nan() || x < y && yes != no,
                    };
                    if holds { yes } else { no }
                }
                Tree::Binary(op, x, y) => {
                    let (x, y) = (of(x), of(y));
                    match *op {
                        "+" => x + y,
                        "-" => x - y,
                        "*" => x * y,
                        "/" => x / y,
                        "%" => {
                            let rest = x % y;
                            match rest == 0.0 {
                                true => rest.copysign(y),
                                false if (rest > 0.0) == (y > 0.0) => rest,
                                false => rest + y,
                            }
                        }
                        "min" => {
                            if x < y {
                                x
                            } else {
                                y
                            }
                        }
                        _ => {
                            if x > y {
                                x
                            } else {
                                y
                            }
                        }
                    }
                }
                Tree::If(op, parts) => {
                    let [x, y, yes, no] = [&parts[0], &parts[1], &parts[2], &parts[3]].map(of);
                    let holds = match *op {
                        "<" => x < y,
                        "<=" => x <= y,
                        ">" => x > y,
                        ">=" => x >= y,
                        "==" => x == y,
                        _ => x != y,
                    };
                    if holds { yes } else { no }
                }
            }
        }
    };
}

walk!(walk_f64, f64);
walk!(walk_f32, f32);

/// Runs the code for `R` vectors; `values[i]` holds the values of input `i` for one vector after
/// another.
#[inline(always)]
fn execute<L: Vector>(program: &RuleUpdate<9>, values: &[Vec<L::Element>]) -> Vec<L::Element> {
    #[repr(align(64))]
    struct Aligned<E>([E; 16]);
    let load = |i: usize, r: usize| {
        let mut row = Aligned([L::Element::default(); 16]);
        row.0[..L::WIDTH].copy_from_slice(&values[i][r * L::WIDTH..][..L::WIDTH]);
        row
    };
    let mut at = [Neighbours::<L> {
        centre: L::splat(0.0),
        north: L::splat(0.0),
        west: L::splat(0.0),
        east: L::splat(0.0),
        south: L::splat(0.0),
        north_west: L::splat(0.0),
        south_east: L::splat(0.0),
        north_east: L::splat(0.0),
        south_west: L::splat(0.0),
    }; R];
    let mut coefficients: Vec<Aligned<L::Element>> = Vec::new();
    for (r, at) in at.iter_mut().enumerate() {
        let places = [
            &mut at.centre,
            &mut at.north,
            &mut at.west,
            &mut at.east,
            &mut at.south,
            &mut at.north_west,
            &mut at.south_east,
            &mut at.north_east,
            &mut at.south_west,
        ];
        for (i, place) in places.into_iter().enumerate() {
            // SAFETY: the row is aligned to 64 bytes and as long as the widest vector.
            *place = unsafe { L::load(load(i, r).0.as_ptr()) };
        }
        // The three vectors of coefficients of a point, without gaps.
        let mut together = vec![L::Element::default(); 3 * L::WIDTH];
        for (n, three) in together.chunks_mut(L::WIDTH).enumerate() {
            three.copy_from_slice(&load(9 + n, r).0[..L::WIDTH]);
        }
        together.resize(48, L::Element::default());
        coefficients.extend(together.chunks(16).map(|c| Aligned(c.try_into().unwrap())));
    }
    let pointers: [*const L::Element; R] =
        std::array::from_fn(|r| coefficients[3 * r..].as_ptr().cast());
    let mut slots = Slots::default();
    let slots = program.prepare::<L, R>(&mut slots);
    // SAFETY: each pointer leads to three coefficients, aligned to 64 bytes; the slots are those
    // for `R` vectors; `execute` is called only where the processor has the instructions of `L`.
    let new = unsafe { program.update::<L, R>(at, pointers, slots) };
    let mut values = Vec::new();
    for vector in new {
        let mut row = Aligned([L::Element::default(); 16]);
        // SAFETY: the row is aligned to 64 bytes and as long as the widest vector.
        unsafe { vector.store(row.0.as_mut_ptr()) };
        values.extend_from_slice(&row.0[..L::WIDTH]);
    }
    values
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<L: Vector>(program: &RuleUpdate<9>, values: &[Vec<L::Element>]) -> Vec<L::Element> {
    execute::<L>(program, values)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512<L: Vector>(program: &RuleUpdate<9>, values: &[Vec<L::Element>]) -> Vec<L::Element> {
    execute::<L>(program, values)
}

/// Returns the update, without and with machine code.
fn programs<E: Real>(described: &Described) -> [RuleUpdate<9>; 2] {
    let update = || RuleUpdate::new::<E>(described.rule_of_matrices().unwrap());
    [update().interpreted(), update()]
}

/// Runs the code with these lanes.
fn executed<T: Real>(lanes: Lanes, program: &RuleUpdate<9>, values: &[Vec<T>]) -> Vec<T> {
    match lanes {
        // SAFETY: the lanes are available.
        #[cfg(target_arch = "x86_64")]
        Lanes::Avx2 => unsafe { avx2::<T::Avx2<Engine>>(program, values) },
        // SAFETY: the lanes are available.
        #[cfg(target_arch = "x86_64")]
        Lanes::Avx512 => unsafe { avx512::<T::Avx512<Engine>>(program, values) },
        #[cfg(target_arch = "aarch64")]
        Lanes::Neon => execute::<T::Neon<Engine>>(program, values),
        _ => execute::<T>(program, values),
    }
}

fn same<E: Element>(left: E, right: E) -> bool {
    left.bits() == right.bits() || (left.is_nan() && right.is_nan())
}

fn tree(earlier: usize) -> impl Strategy<Value = Tree> {
    let number = select(vec![0.0, 1.0, 0.175, 0.5, 3.0, 1e30, 1e-30, 1e-320, 20.0]);
    let mut leaves = vec![
        (6, (0..INPUTS.len()).prop_map(Tree::Input).boxed()),
        (2, number.prop_map(Tree::Number).boxed()),
    ];
    if earlier > 0 {
        leaves.push((4, (0..earlier).prop_map(Tree::Earlier).boxed()));
    }
    proptest::strategy::Union::new_weighted(leaves).prop_recursive(6, 60, 4, |inner| {
        let b = |tree: Tree| Box::new(tree);
        let arithmetic = select(vec!["+", "+", "-", "-", "*", "*", "*", "/", "%", "min", "max"]);
        let functions = vec!["-", "abs", "sqrt", "floor", "exp", "log", "sin", "cos"];
        let comparison = select(vec!["<", "<=", ">", ">=", "==", "!="]);
        prop_oneof![
            1 => (select(functions), inner.clone()).prop_map(move |(op, x)| Tree::Unary(op, b(x))),
            8 => (arithmetic, inner.clone(), inner.clone()).prop_map(move |(op, x, y)| Tree::Binary(op, b(x), b(y))),
            1 => (inner.clone(), -3..5).prop_map(move |(x, exponent)| Tree::Power(b(x), exponent)),
            1 => (select(vec!["and", "or", "mixed"]), prop::array::uniform4(inner.clone()))
                .prop_map(|(op, parts)| Tree::Both(op, Box::new(parts))),
            1 => (comparison, prop::array::uniform4(inner)).prop_map(|(op, parts)| Tree::If(op, Box::new(parts))),
        ]
    })
}

fn value() -> impl Strategy<Value = f64> {
    let special =
        vec![0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310, -1e-42, 1e30, 2.0];
    prop_oneof![8 => -10.0..10.0, 1 => select(special)]
}

proptest! {
    #![proptest_config(property(400))]

    #[test]
    fn equal_the_plain_walk(
        trees in (0_usize..5).prop_flat_map(|n| (0..=n).map(tree).collect::<Vec<_>>()),
        values in prop::collection::vec(prop::collection::vec(value(), 16 * R), INPUTS.len()),
    ) {
        let last = trees.len() - 1;
        let mut update = String::new();
        for (i, tree) in trees.iter().enumerate() {
            let name = if i == last { "u".to_owned() } else { format!("v{i}") };
            update += &format!("{name} = {tree}\n");
        }
        let text = format!("name = 'random'\nfield = 'u'\ncoefficients = ['a', 'b', 'c']\nupdate = '''\n{update}'''");
        let described = Described::parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let narrow: Vec<Vec<f32>> = values.iter().map(|v| v.iter().map(|v| *v as f32).collect()).collect();
        let (wide, thin) = (programs::<f64>(&described), programs::<f32>(&described));
        let runs = Lanes::available().flat_map(|lanes| [(lanes, 0), (lanes, 1)]);
        for (lanes, n) in runs {
            let new = executed::<f64>(lanes, &wide[n], &values);
            for (i, new) in new.into_iter().enumerate() {
                let inputs: Vec<f64> = values.iter().map(|v| v[i]).collect();
                let mut earlier = Vec::new();
                trees.iter().for_each(|tree| earlier.push(walk_f64(tree, &inputs, &earlier)));
                prop_assert!(same(new, earlier[last]), "{lanes} f64 {i}: {new} and {}\n{update}", earlier[last]);
            }
            let new = executed::<f32>(lanes, &thin[n], &narrow);
            for (i, new) in new.into_iter().enumerate() {
                let inputs: Vec<f32> = narrow.iter().map(|v| v[i]).collect();
                let mut earlier = Vec::new();
                trees.iter().for_each(|tree| earlier.push(walk_f32(tree, &inputs, &earlier)));
                prop_assert!(same(new, earlier[last]), "{lanes} f32 {i}: {new} and {}\n{update}", earlier[last]);
            }
        }
    }
}

/// The compiler uses the steps for several operations, so that these updates take few steps.
#[test]
fn few_steps() {
    let steps = |update: &str| {
        let text =
            format!("name = 'x'\nfield = 'u'\ncoefficients = ['a', 'b', 'c']\nupdate = '{update}'");
        programs::<f64>(&Described::parse(&text).unwrap())[0].steps()
    };
    assert_eq!(steps("u = u"), 1);
    assert_eq!(steps("u = n*a + s*b + e*c"), 2);
    assert_eq!(steps("q = n*a + s*b + c; u = u + 0.175*(q - u)"), 3);
    assert_eq!(steps("u = n + s + e + w"), 1);
    // An expression that is written twice is computed once; an unused value is not computed.
    assert_eq!(steps("dead = sqrt(n); u = (n + s)*(n + s)"), 2);
    assert_eq!(steps("u = a - n*b"), steps("u = n*b - a"));
}

/// Returns the result of an update for one point, whose value is `u`.
fn one(update: &str, u: f64, a: f64) -> f64 {
    let text = format!(
        "name = 'x'\nfield = 'u'\ncoefficients = ['a', 'b', 'c']\nupdate = '''\n{update}'''"
    );
    let described = Described::parse(&text).unwrap();
    let [program, _] = programs::<f64>(&described);
    let mut values = vec![vec![u; R]; INPUTS.len()];
    values[9] = vec![a; R];
    execute::<f64>(&program, &values)[0]
}

#[test]
fn functions_have_exact_values() {
    const INFINITY: f64 = f64::INFINITY;
    for (update, u, a, expected) in [
        ("u = floor(u)", -1.5, 0.0, -2.0),
        ("u = floor(u)", -0.0, 0.0, -0.0),
        ("u = floor(u)", 0.7, 0.0, 0.0),
        ("u = floor(u)", -1e-320, 0.0, -1.0),
        ("u = floor(u)", -INFINITY, 0.0, -INFINITY),
        ("u = floor(u)", f64::NAN, 0.0, f64::NAN),
        ("u = floor(u)", 4_503_599_627_370_495.5, 0.0, 4_503_599_627_370_495.0),
        ("u = u % a", 7.0, 3.0, 1.0),
        ("u = u % a", -7.0, 3.0, 2.0),
        ("u = u % a", 7.0, -3.0, -2.0),
        ("u = u % a", -7.0, -3.0, -1.0),
        ("u = u % a", -6.0, 3.0, 0.0),
        ("u = u % a", 6.0, -3.0, -0.0),
        ("u = u % a", -1.0, INFINITY, INFINITY),
        ("u = u % a", 1.0, INFINITY, 1.0),
        ("u = u % a", INFINITY, 2.0, f64::NAN),
        ("u = u % a", 1.0, 0.0, f64::NAN),
        ("u = -u ** 2", 3.0, 0.0, -9.0),
        ("u = u ** -2 * 2", 4.0, 0.0, 0.125),
        ("u = 2 * u ** 3", -2.0, 0.0, -16.0),
        ("u = u ** 0", f64::NAN, 0.0, 1.0),
        ("u = u ** 1", -0.0, 0.0, -0.0),
        ("u = u ** 3", 0.1, 0.0, 0.1 * 0.1 * 0.1),
        ("u = u ** 5", 1.1, 0.0, 1.1 * 1.1 * 1.1 * 1.1 * 1.1),
        ("u = u ** (-1)", 0.0, 0.0, INFINITY),
        ("u = exp(u)", 0.0, 0.0, 1.0),
        ("u = exp(u)", -INFINITY, 0.0, 0.0),
        ("u = log(u)", 0.0, 0.0, -INFINITY),
        ("u = log(u)", -1.0, 0.0, f64::NAN),
        ("u = sin(u)", -0.0, 0.0, -0.0),
        ("u = cos(u)", 0.0, 0.0, 1.0),
        ("u = cos(u)", INFINITY, 0.0, f64::NAN),
        ("u = if(isnan(u), 1, 2)", f64::NAN, 0.0, 1.0),
        ("u = if(isnan(u), 1, 2)", INFINITY, 0.0, 2.0),
        ("u = if(not u < a, 1, 2)", f64::NAN, 0.0, 1.0),
        ("u = if(u >= a, 1, 2)", f64::NAN, 0.0, 2.0),
        ("u = if(u != u, 1, 2)", f64::NAN, 0.0, 1.0),
        ("u = if(u < 0 or u > 1 and a == 1, 1, 2)", -1.0, 0.0, 1.0),
        ("u = if((u < 0 or u > 1) and a == 1, 1, 2)", -1.0, 0.0, 2.0),
        ("low = u < 0\nboth = low and a < 0\nu = if(both or not low, 1, 2)", -1.0, 1.0, 2.0),
        ("low = u < 0\nboth = low and a < 0\nu = if(both or not low, 1, 2)", 1.0, 1.0, 1.0),
    ] {
        assert!(
            same(one(update, u, a), expected),
            "{update} of {u} and {a}: {}",
            one(update, u, a)
        );
    }
}

/// Names that became functions later stay those of values where no parenthesis follows.
#[test]
fn older_texts_may_have_values_with_the_names_of_functions() {
    let text = "name = 'x'\nfield = 'log'\ncoefficients = ['sin']\nfunctions = ['exp']\n\
                update = 'cos = sin * 2; log = exp(cos) + floor * log'\n[constants]\nfloor = 2";
    let described = Described::parse(text).unwrap();
    assert_eq!(described.functions().collect::<Vec<_>>(), [("exp", 1)]);
}
