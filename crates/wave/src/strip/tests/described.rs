//! Described kernels in the engine equal the built-in ones in the plain double loop, bit for bit.

use proptest::prelude::*;

use syncline_kernel::dynamic::{Dynamic as _, Kernel};
use syncline_kernel::point::Typed;
use syncline_kernel::rule::plain::plain;
use syncline_store::Shape;
use syncline_store::array::{Array, Number};
use syncline_testkit::{Random, cases, property, seed};

use super::numbers;
use crate::kernels::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor};
use crate::lanes::{Lanes, Real};
use crate::reference::plain_sweep;
use crate::strip::ghosts::Ghosts;
use crate::strip::pack::Rows;
use crate::strip::tile::{Chain, Job, Scratch, run};
use crate::strip::{Geometry, Ring};
use crate::{Described, PointKernel, Stencil};

/// A chained run of the engine. The first array is the field.
pub(crate) struct Chained<'a, T> {
    pub(crate) lanes: Lanes,
    pub(crate) shape: Shape,
    pub(crate) arrays: &'a [Vec<T>],
    pub(crate) levels: usize,
    pub(crate) band: usize,
    pub(crate) tile: usize,
}

impl<T: Real> Chained<'_, T> {
    pub(crate) fn with(self, kernel: &dyn Kernel<T>) -> Vec<T> {
        let Chained { lanes, shape, arrays, levels, band, tile } = self;
        let skew = if kernel.corners() { 2 } else { 1 };
        assert_eq!(kernel.coefficients() + 1, arrays.len());
        let slots = Chain::slots(lanes.width(T::BYTES), levels, band, 1);
        let ghosts = Ghosts::new(shape, kernel.stencil());
        let geometry = Geometry {
            shape: ghosts.shape(),
            width: lanes.width(T::BYTES),
            skew,
            arrays: arrays.len(),
            slots,
        };
        let chain = Chain { geometry, levels, band };
        let ring = Ring::new(geometry).unwrap();
        let mut out = vec![T::default(); shape.elements()];
        let mut scratch = Scratch::new(&geometry, tile);
        let (end, right) = (shape.rows, shape.cols);
        let rows = |start: *mut T| {
            ghosts.place(Rows { start, first: 0, end, left: 0, right, pitch: right })
        };
        let rows_in: Vec<_> =
            arrays.iter().map(|a| rows(a.as_ptr().cast_mut())).enumerate().collect();
        let rows_out = rows(out.as_mut_ptr());
        for p in 0..chain.bands() {
            let (chain, ring, rows_in, columns) = (&chain, &ring, &rows_in[..], chain.walk());
            let job = Job { chain, ring, band: p, columns, rows_in, rows_out, tile };
            // SAFETY: the machine has these lanes; all rows of all arrays are present, which are
            // only read, and so are the rows of the result; the bands run in order, in one thread.
            unsafe { run(lanes, kernel, &job, &mut scratch, None) };
        }
        out
    }
}

fn example(name: &str) -> Described {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    Described::from_file(format!("{path}{name}.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the arrays of a case, and the field after its sweeps in the plain loop.
fn arrays<T: Real, K: PointKernel<N>, const N: usize>(
    kernel: &K,
    case: Case,
) -> (Vec<Vec<T>>, Vec<T>) {
    let Case { rows, cols, levels, seed, .. } = case;
    let arrays: Vec<Vec<T>> = (0..=N as u64)
        .map(|a| {
            let mut array = numbers::<T>(seed + a, rows * cols, 0.25);
            // Some zeros, for the masks.
            array.iter_mut().skip(seed as usize % 5).step_by(3).for_each(|v| *v = T::default());
            array
        })
        .collect();
    let mut expected = arrays[0].clone();
    for _ in 0..levels {
        plain_sweep(kernel, &mut expected, std::array::from_fn(|n| &arrays[n + 1][..]), rows, cols);
    }
    (arrays, expected)
}

impl Case {
    fn chained<T>(self, lanes: Lanes, arrays: &[Vec<T>]) -> Chained<'_, T> {
        let Case { rows, cols, levels, band, tile, .. } = self;
        Chained { lanes, shape: Shape::new(rows, cols), arrays, levels, band: 4 * band, tile }
    }
}

/// Compares a described kernel in the engine with the built-in one in the plain loop, in both
/// element types, and the built-in one in the engine with it, in doubles.
fn equal<K: PointKernel<N>, const N: usize>(kernel: &K, described: &Described, case: Case) {
    let (wide, expected) = arrays::<f64, K, N>(kernel, case);
    for lanes in Lanes::available() {
        let out = case.chained(lanes, &wide).with(&Typed::<_, N>(kernel));
        assert!(out == expected, "built-in: {lanes} {case:?}");
        let out = case.chained(lanes, &wide).with(&*described.kernel().unwrap());
        assert!(out == expected, "described: {lanes} {case:?}");
    }
    let (narrow, expected) = arrays::<f32, K, N>(kernel, case);
    for lanes in Lanes::available() {
        let out = case.chained(lanes, &narrow).with(&*described.kernel().unwrap());
        assert!(out == expected, "described, f32: {lanes} {case:?}");
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    rows: usize,
    cols: usize,
    levels: usize,
    band: usize,
    tile: usize,
    seed: u64,
}

prop_compose! {
    fn case()(
        rows in 3_usize..70,
        cols in 3_usize..70,
        levels in 1_usize..7,
        band in 1_usize..4,
        tile in prop_oneof![Just(8_usize), Just(32), Just(1000)],
        seed in 1_u64..1000,
    ) -> Case {
        Case { rows, cols, levels, band, tile, seed }
    }
}

const SOR: &str = "name = 'sor'\nfield = 'u'\ncoefficients = ['f']\nconstants = { omega = 1.7 }\n\
    update = 'u = u + omega*((n + s + e + w + f)/4 - u)'";
const NINE: &str = "name = 'nine'\nfield = 'u'\ncoefficients = ['f']\n\
    update = '''near = n + s + e + w; far = ne + nw + se + sw\nu = u + 1.7*((4*near + far + f)/20 - u)'''";
const GAUSS_SEIDEL: &str = "name = 'gs'\nfield = 'u'\ncoefficients = ['an', 'aw', 'ae', 'as', 'f', 'mask']\n\
    update = 'u = if(mask == 0, an*n + aw*w + ae*e + as*s + f, u)'";

proptest! {
    #![proptest_config(property(24))]

    #[test]
    fn lk23(case in case()) {
        equal::<_, 5>(&Lk23, &example("lk23"), case);
    }

    #[test]
    fn sor(case in case()) {
        let described = Described::parse(SOR).unwrap();
        equal::<_, 1>(&Sor::new(1.7).unwrap(), &described, case);
    }

    #[test]
    fn nine_point(case in case()) {
        let described = Described::parse(NINE).unwrap();
        equal::<_, 1>(&NinePoint::new(1.7).unwrap(), &described, case);
    }

    #[test]
    fn gauss_seidel(case in case()) {
        let described = Described::parse(GAUSS_SEIDEL).unwrap();
        equal::<_, 6>(&GaussSeidelVariable, &described, case);
    }

    #[test]
    fn alignment(case in case()) {
        equal::<_, 1>(&Alignment::local(2.0).unwrap(), &example("alignment"), case);
    }
}

/// The masked over-relaxation of the example, as a kernel in Rust.
struct Heat;

impl PointKernel<2> for Heat {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    #[inline(always)]
    fn update<L: crate::Lane>(&self, at: crate::Neighbours<L>, [source, given]: [L; 2]) -> L {
        let balance = (at.north + at.south + at.east + at.west + source) / L::splat(4.0);
        let new = at.centre + L::splat(1.8) * (balance - at.centre);
        L::choose(given.equal(L::splat(0.0)), new, at.centre)
    }
}

#[test]
fn heat() {
    let case = Case { rows: 40, cols: 57, levels: 6, band: 1, tile: 32, seed: 3 };
    equal::<_, 2>(&Heat, &example("heat"), case);
}

/// Returns a random description of matrices, with its number of coefficients.
fn description(random: &mut Random) -> (String, usize) {
    let coefficients = if random.one_in(3) { random.below(12_usize) } else { random.below(4) };
    let near = ["n", "s", "e", "w"];
    let diagonal = ["n", "s", "e", "w", "nw", "se"];
    let all = ["n", "s", "e", "w", "nw", "se", "ne", "sw"];
    let neighbours = random.one_of(&[&near[..], &near, &diagonal, &all]);
    let some: Vec<&str> = match random.one_in(3) {
        true => neighbours.to_vec(),
        false => (0..=random.below(4_usize)).map(|_| random.one_of(neighbours)).collect(),
    };
    let mut names: Vec<String> = some.iter().map(|name| (*name).to_owned()).collect();
    names.push("u".to_owned());
    names.extend((0..coefficients).map(|n| format!("c{n}")));
    let mut sum = some[0].to_owned();
    // Many values that are needed again take all registers.
    let most = random.one_of(&[4, 12, 60]);
    for _ in 0..random.within(1..=most) {
        let name = |random: &mut Random| names[random.below(names.len())].clone();
        let (x, y, z) = (name(random), name(random), name(random));
        sum = match random.below(10) {
            0 => format!("{sum} + {x}"),
            1 => format!("{x} - ({sum})"),
            2 => format!("({sum}) * 0.75 + {x} * {y}"),
            3 => format!("({x} + {y}) - ({sum}) / 2"),
            4 => format!("max({sum}, {x} * {y} - {z})"),
            5 => format!("if({x} < {y}, {sum}, {z})"),
            6 => format!("if({sum} <= {x}, {y} - {z}, {sum})"),
            7 => format!("abs({sum}) / 3"),
            8 => format!("min({sum}, {x}) + {y}"),
            _ => format!("({sum}) / ({x} + 4)"),
        };
    }
    let named: Vec<String> = (0..coefficients).map(|n| format!("c{n}")).collect();
    let text = format!(
        "name = 'random'\nfield = 'u'\ncoefficients = {named:?}\nupdate = 'u = ({sum}) / 2'\n"
    );
    (text, coefficients)
}

/// Runs a random description in the engine, and compares it with the plain loop over arrays.
fn random_description<T: Real + Number>(number: u64) {
    let mut random = Random::new(number);
    let (text, coefficients) = description(&mut random);
    let Ok(described) = Described::parse(&text) else { panic!("{number}: {text}") };
    // Wide enough for the middle of all strips: 16 values to a vector, 9 strips.
    let (rows, cols) = (random.within(3..=260), random.within(3..=90));
    let case = Case {
        rows,
        cols,
        levels: random.within(1..=9),
        band: random.within(1..=3),
        tile: random.one_of(&[8, 32, 1000]),
        seed: number,
    };
    let arrays: Vec<Vec<T>> =
        (0..=coefficients).map(|a| numbers::<T>(case.seed + a as u64, rows * cols, 0.25)).collect();
    let mut all: Vec<Array> =
        arrays.iter().map(|a| Array::from_vec(&[rows, cols], a.clone()).unwrap()).collect();
    let constant = all.split_off(1);
    let constant: Vec<&Array> = constant.iter().collect();
    plain(described.rule(), &mut all, &constant, 0..case.levels as u64);
    let expected = all[0].values::<T>().unwrap();
    let Ok(kernel) = described.kernel::<T>() else { return };
    for lanes in Lanes::available() {
        let out = case.chained(lanes, &arrays).with(&*kernel);
        let differs = |(x, y): (&T, &T)| {
            let (x, y) = (x.to_f64(), y.to_f64());
            x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan())
        };
        let at = out.iter().zip(expected).position(differs);
        assert!(at.is_none(), "case {number}, {lanes}, {case:?}: at {at:?} of {text}");
    }
}

#[test]
fn random_descriptions() {
    // The last case needs all registers of AVX2 while it joins values of two strips.
    let first = seed(0);
    for number in (first..first + u64::from(cases(150))).chain([353]) {
        random_description::<f64>(2 * number);
        random_description::<f32>(2 * number + 1);
    }
}
