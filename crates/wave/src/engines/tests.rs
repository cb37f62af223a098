//! The executors against the plain loop.

#[path = "../../../kernel/src/described/tests/random.rs"]
mod random;

use std::path::PathBuf;

use syncline_kernel::rule::Type;
use syncline_kernel::rule::greater;
use syncline_kernel::rule::plain::plain;
use syncline_store::ElementType;
use syncline_store::array::{Array, ArraySource, Bool, Half, Number};
use syncline_testkit::{Random, cases, seed};

use crate::lanes::Lanes;
use crate::plan::SweepPlan;
use crate::run::fields::Input;
use crate::run::plan::{ArrayPlan, Question};
use crate::target::{Leftovers, Target};
use crate::{Described, Error, Runner, Sweep, SweepReport};
pub(crate) use random::{description, description_of};

/// Returns an array of small numbers; of 200 real ones, `some` are NaN and twice as many infinite.
fn numbers(some: i64, element: ElementType, dims: &[usize], random: &mut Random) -> Array {
    let mut array = Array::zeros(element, dims).unwrap();
    let width = element.bytes();
    for place in array.bytes_mut().chunks_exact_mut(width) {
        let number = random.below(200) as i64 - 100;
        let real = match number + 100 {
            n if n < some => f64::NAN,
            n if n < 3 * some => random.one_of(&[f64::INFINITY, f64::NEG_INFINITY]),
            _ => number as f64 / 8.0,
        };
        match element {
            ElementType::Float64 => place.copy_from_slice(&real.to_le_bytes()),
            ElementType::Float32 => place.copy_from_slice(&(real as f32).to_le_bytes()),
            ElementType::Float16 => {
                place.copy_from_slice(&Half::from_f64(real).0.to_le_bytes());
            }
            // Rarely a byte that numpy does not write.
            ElementType::Bool if number == 99 => place.copy_from_slice(&[7]),
            ElementType::Bool => place.copy_from_slice(&[(number & 1) as u8]),
            _ => place.copy_from_slice(&number.to_le_bytes()[..width]),
        }
    }
    array
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    lanes: Lanes,
    threads: usize,
    depth: u64,
    band: usize,
    piece: usize,
    flight: usize,
}

impl Setting {
    /// Runs a description over arrays in memory, with this plan.
    fn run(
        &self,
        described: &Described,
        arrays: &[&Array],
        iterations: u64,
    ) -> (Vec<Array>, SweepReport) {
        let inputs: Vec<Input<'_>> = arrays.iter().map(|array| Input::Memory(array)).collect();
        self.sweep(described, iterations)
            .run_inputs(&inputs, SweepPlan::Arrays(self.plan(iterations)))
            .unwrap()
    }

    /// Runs a description from files, of which some may be in memory, into files.
    fn run_files(
        &self,
        described: &Described,
        arrays: &[&Array],
        iterations: u64,
        random: &mut Random,
    ) -> (Vec<Array>, SweepReport) {
        let folder = tempfile::tempdir().unwrap();
        let sources: Vec<ArraySource> = arrays
            .iter()
            .enumerate()
            .map(|(n, array)| {
                if random.one_in(3) {
                    return ArraySource::Memory((*array).clone());
                }
                let path = folder.path().join(format!("{n}.npy"));
                array.create(&path).unwrap().commit().unwrap();
                ArraySource::open(&path).unwrap()
            })
            .collect();
        let inputs: Vec<Input<'_>> = sources
            .iter()
            .map(|source| match source {
                ArraySource::Memory(array) => Input::Memory(array),
                ArraySource::File(file) => Input::File(file),
            })
            .collect();
        let targets: Vec<PathBuf> = (0..described.fields().len())
            .map(|field| folder.path().join(format!("result-{field}.npy")))
            .collect();
        let mut target = Target::npy(&targets[0]).in_memory(random.one_in(4));
        target = targets[1..].iter().fold(target, Target::and).leftovers(Leftovers::Resume);
        // Dropped results of several passes leave their generations, from which the next run goes
        // on.
        let parts: Vec<u64> =
            (0..random.below(3_usize)).map(|_| random.below(iterations + 1)).collect();
        let mut reports = Vec::new();
        for part in
            parts.iter().copied().filter(|part| (1..iterations).contains(part)).chain([iterations])
        {
            let plan = |_: &[Input<'_>], _, _| Ok(SweepPlan::Arrays(self.plan(part)));
            let run = self.sweep(described, part).run_to_files(&inputs, &target, &plan);
            match run {
                Ok((pending, report)) if part == iterations => {
                    pending.commit().unwrap();
                    reports.push(report);
                }
                Ok(_) => {}
                Err(Error::Fewer { done, asked, .. }) => assert!(done > asked),
                Err(other) => panic!("{other}"),
            }
        }
        assert!(!folder.path().join("result-0.npy.syncline").exists());
        let fields = targets.iter().map(|path| Array::open(path).unwrap()).collect();
        (fields, reports.pop().unwrap())
    }

    fn sweep(&self, described: &Described, iterations: u64) -> Sweep<Described> {
        Sweep::new(described.clone())
            .iterations(iterations)
            .until(-0.0)
            .lanes(self.lanes)
            .runner(Runner::pool(self.threads))
    }

    fn plan(&self, iterations: u64) -> ArrayPlan {
        ArrayPlan {
            depth: self.depth,
            passes: iterations.div_ceil(self.depth),
            band: self.band,
            piece: self.piece,
            flight: self.flight,
            twice: 0,
            memory: 0,
        }
    }
}

/// The function that descriptions call.
fn function(arguments: &[&[f64]], results: &mut [f64]) {
    for ((result, x), y) in results.iter_mut().zip(arguments[0]).zip(arguments[1]) {
        *result = if x < y { x * 0.75 } else { (y + 1.0).abs().sqrt() - x };
    }
}

/// Returns the first difference between two arrays; any two NaNs are equal.
pub(crate) fn difference(left: &Array, right: &Array) -> Option<String> {
    let differs = |i: usize, same: bool, values: String| (!same).then(|| format!("{i}: {values}"));
    let width = left.element().bytes();
    let pairs = left.bytes().chunks(width).zip(right.bytes().chunks(width));
    pairs.enumerate().find_map(|(i, (x, y))| match left.element() {
        ElementType::Float64 => {
            let of = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
            let (x, y) = (of(x), of(y));
            let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            differs(i, same, format!("{x} {y}"))
        }
        ElementType::Float32 => {
            let of = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
            let (x, y) = (of(x), of(y));
            let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            differs(i, same, format!("{x} {y}"))
        }
        ElementType::Float16 => {
            let of = |bytes: &[u8]| Half(u16::from_le_bytes(bytes.try_into().unwrap()));
            let (x, y) = (of(x), of(y));
            differs(i, x == y || x.is_nan() && y.is_nan(), format!("{x} {y}"))
        }
        _ => differs(i, x == y, format!("{x:?} {y:?}")),
    })
}

/// Returns the greatest change between two arrays, value by value.
pub(crate) fn change(old: &Array, new: &Array) -> f64 {
    fn of<T: Number>(old: &Array, new: &Array, change: impl Fn(T, T) -> f64) -> f64 {
        let pairs = old.values::<T>().unwrap().iter().zip(new.values::<T>().unwrap());
        pairs.fold(0.0, |greatest, (old, new)| greater(greatest, change(*old, *new)))
    }
    fn real(old: f64, new: f64, change: f64) -> f64 {
        if old == new || old.is_nan() && new.is_nan() { 0.0 } else { change.abs() }
    }
    match old.element() {
        ElementType::Float64 => of(old, new, |x: f64, y| real(x, y, y - x)),
        ElementType::Float32 => of(old, new, |x: f32, y| real(x.into(), y.into(), (y - x).into())),
        ElementType::Float16 => of(old, new, |x: Half, y: Half| {
            let (x, y) = (x.to_f32(), y.to_f32());
            real(x.into(), y.into(), (y - x).into())
        }),
        ElementType::Int8 => of(old, new, |x: i8, y| x.abs_diff(y).into()),
        ElementType::Uint32 => of(old, new, |x: u32, y| x.abs_diff(y).into()),
        ElementType::Bool => of(old, new, |x: Bool, y: Bool| x.0.abs_diff(y.0).into()),
        ElementType::Uint8 => of(old, new, |x: u8, y| x.abs_diff(y).into()),
        ElementType::Int16 => of(old, new, |x: i16, y| x.abs_diff(y).into()),
        ElementType::Uint16 => of(old, new, |x: u16, y| x.abs_diff(y).into()),
        ElementType::Int32 => of(old, new, |x: i32, y| x.abs_diff(y).into()),
        ElementType::Int64 => of(old, new, |x: i64, y| x.abs_diff(y) as f64),
    }
}

pub(crate) fn every_lanes() -> Vec<Lanes> {
    Lanes::available().collect()
}

#[test]
fn what_stays_infinite_or_nan_has_not_changed() {
    const NAN: f64 = f64::NAN;
    const INFINITY: f64 = f64::INFINITY;
    for (old, new, change) in [
        (1.0, 1.0, 0.0),
        (INFINITY, INFINITY, 0.0),
        (-INFINITY, -INFINITY, 0.0),
        (NAN, -NAN, 0.0),
        (NAN, INFINITY, NAN),
        (-INFINITY, NAN, NAN),
        (1.0, NAN, NAN),
        (INFINITY, 1.0, INFINITY),
        (1.0, -INFINITY, INFINITY),
        (INFINITY, -INFINITY, INFINITY),
    ] {
        // Before and after all others, in runs longer than a vector.
        for at in [0, 17, 36] {
            let run = |value: f64| (0..37).map(move |i| if i == at { value } else { i as f64 });
            let (mut before, mut after): (Vec<_>, Vec<_>) =
                (run(old).collect(), run(new).collect());
            let same = |of: f64, change: f64| of == change || of.is_nan() && change.is_nan();
            let of = |before: *const u8, after: *const u8, element| {
                // SAFETY: both have 37 values.
                unsafe { syncline_kernel::rule::change(element, before, after, 37) }
            };
            let found = of(before.as_ptr().cast(), after.as_ptr().cast(), ElementType::Float64);
            assert!(same(found, change), "{old} {new}: {found}");
            let narrow = |all: &[f64]| all.iter().map(|v| *v as f32).collect::<Vec<_>>();
            let (b, a) = (narrow(&before), narrow(&after));
            let found = of(b.as_ptr().cast(), a.as_ptr().cast(), ElementType::Float32);
            assert!(same(found, change), "{old} {new}: {found} of float32");
            // What else changes counts as well, whichever comes first.
            before[20] = 0.5;
            after[20] = 2.5;
            let found = of(before.as_ptr().cast(), after.as_ptr().cast(), ElementType::Float64);
            assert!(same(found, greater(change, 2.0)), "{old} {new}: {found} beside another");
        }
    }
}

/// A random description with random data.
pub(crate) struct Case {
    pub(crate) text: String,
    pub(crate) described: Described,
    pub(crate) dims: Vec<usize>,
    /// The fields, then the coefficients.
    pub(crate) arrays: Vec<Array>,
    pub(crate) random: Random,
}

/// Returns a case, unless its description is wrong by chance.
pub(crate) fn case(case: u64) -> Option<Case> {
    shaped_case(&mut Random::new(case), case, (0, 4), &description)
}

/// Returns a case whose arrays have some columns more.
pub(crate) fn wider_case(case: u64, more: usize) -> Option<Case> {
    shaped_case(&mut Random::new(case), case, (more, 0), &description)
}

/// Returns a case of three dimensions in some directions, whose arrays have some columns more. It
/// reads few neighbours, so that its reads differ from side to side.
pub(crate) fn solid_case(case: u64, more: usize) -> Option<Case> {
    let description = |random: &mut Random| description_of(random, (3, false), true);
    shaped_case(&mut Random::new(case), case, (more, 0), &description)
}

/// Returns a case whose arrays have some columns more, and of which one in `few` has few slabs.
fn shaped_case(
    random: &mut Random,
    case: u64,
    (more, few): (usize, u32),
    description: &dyn Fn(&mut Random) -> (String, usize),
) -> Option<Case> {
    let (text, dimensions) = description(random);
    let described = match Described::parse(&text) {
        Ok(described) => described,
        // By chance, no field is read at a neighbour.
        Err(error) if error.to_string().contains("has no direction") => return None,
        Err(error) => panic!("{case}: {text}{error}"),
    };
    let calls = described.functions().next().is_some();
    let described = match calls {
        true => described.with_function("given", function).unwrap(),
        false => described,
    };
    let most = if dimensions == 2 { random.one_of(&[40, 100]) } else { 12 };
    let mut dims: Vec<usize> = (0..dimensions).map(|_| random.within(1..=most)).collect();
    dims[dimensions - 1] += more;
    // Of a few slabs a pass has all at once.
    if few > 0 && random.one_in(few.into()) {
        dims[0] = random.within(1..=3);
    }
    let real = if calls { ElementType::Float64 } else { random.one_of(&ElementType::REAL) };
    // In a third of the cases some numbers are infinite or NaN.
    let rare = random.one_of(&[0, 0, 2]);
    let arrays = described
        .rule()
        .arrays
        .iter()
        .map(|(name, value)| {
            let element = match value {
                Type::Of(element) => *element,
                _ => real,
            };
            let some = if text.contains(&format!("{name} = {{ value = nan")) { 10 } else { rare };
            numbers(some, element, &dims, random)
        })
        .collect();
    Some(Case { text, described, dims, arrays, random: random.clone() })
}

/// Runs random descriptions on random data, and compares with the plain loop.
fn random_rules(cases: std::ops::Range<u64>, case: impl Fn(u64) -> Option<Case>) {
    for number in cases {
        let Some(Case { text, described, dims, arrays, mut random }) = case(number) else {
            continue;
        };
        let (rule, case) = (described.rule(), number);
        let arrays: Vec<&Array> = arrays.iter().collect();
        let (input, coefficients) = arrays.split_at(rule.fields);
        let iterations = random.below(8_u64);
        let threads = random.within(1..=3);
        let settings = Setting {
            depth: random.within(1..=8) as u64,
            band: random.within(1..=20),
            threads,
            flight: random.within(1..=threads + 1),
            piece: random.within(1..=60),
            lanes: random.one_of(&every_lanes()),
        };
        let (result, report) = match random.one_in(4) {
            true => settings.run_files(&described, &arrays, iterations, &mut random),
            false => settings.run(&described, &arrays, iterations),
        };
        let done = report.iterations;
        // A sweep that changes nothing any more has converged.
        assert!(done == iterations || report.converged.is_some_and(|at| at < done));
        let mut expected: Vec<Array> = input.iter().map(|array| (*array).clone()).collect();
        for iteration in 0..done {
            let before = expected.clone();
            plain(rule, &mut expected, coefficients, iteration..iteration + 1);
            let changes = before.iter().zip(&expected).map(|(old, new)| change(old, new));
            let (residual, change) =
                (report.residuals[iteration as usize], changes.fold(0.0, greater));
            let same = residual == change || residual.is_nan() && change.is_nan();
            assert!(same, "case {case}, iteration {iteration}: {residual} {change}");
        }
        for (field, (left, right)) in result.iter().zip(&expected).enumerate() {
            if let Some(difference) = difference(left, right) {
                panic!(
                    "case {case}, {dims:?}, {iterations} iterations, {settings:?}: field {field}, {difference}\n{text}"
                );
            }
        }
    }
}

#[test]
fn random_rules_have_the_bits_of_the_plain_loop() {
    let first = seed(0);
    random_rules(first..first + u64::from(cases(600)), case);
}

#[test]
fn random_rules_of_three_dimensions_have_the_bits_of_the_plain_loop() {
    let first = seed(0);
    random_rules(first..first + u64::from(cases(300)), |number| solid_case(number, 0));
}

#[test]
fn random_rules_over_few_long_rows_have_the_bits_of_the_plain_loop() {
    let explicit = |random: &mut Random| description_of(random, (2, true), false);
    let case = |number| shaped_case(&mut Random::new(number), number, (200, 1), &explicit);
    let first = seed(0);
    random_rules(first..first + u64::from(cases(300)), case);
}

/// Returns the positions of an axis in the order of a sweep.
fn along(len: usize, reversed: bool) -> Vec<usize> {
    let positions = 0..len;
    if reversed { positions.rev().collect() } else { positions.collect() }
}

/// The plain loop of three dimensions against loops that are written here, in each direction.
#[test]
fn each_direction_of_three_dimensions_is_that_of_its_name() {
    let ([planes, rows, cols], c) = ([4, 5, 6], |i: usize| ((i * 37 + 11) % 23) as f64 / 4.0);
    for plane in ["down", "up"] {
        for row in ["south", "north"] {
            for col in ["east", "west"] {
                let text = format!(
                    "name = 'one'\nfield = 'u'\ndimensions = 3\nedges = 0.5\n\
                     directions = ['{plane}-{row}-{col}']\n\
                     update = 'u = (up - 2*down + 3*n - 5*s + 7*w - 11*e + u) / 8'"
                );
                let described = Described::parse(&text).unwrap();
                let mut expected: Vec<f64> = (0..planes * rows * cols).map(c).collect();
                let array = Array::from_vec(&[planes, rows, cols], expected.clone()).unwrap();
                let mut fields = [array];
                plain(described.rule(), &mut fields, &[], 0..1);
                for k in along(planes, plane == "up") {
                    for j in along(rows, row == "north") {
                        for i in along(cols, col == "west") {
                            let at = |k: usize, j: usize, i: usize| {
                                let inside = k < planes && j < rows && i < cols;
                                if inside { expected[(k * rows + j) * cols + i] } else { 0.5 }
                            };
                            let before = |n: usize| n.wrapping_sub(1);
                            let new = at(before(k), j, i) - 2.0 * at(k + 1, j, i)
                                + 3.0 * at(k, before(j), i)
                                - 5.0 * at(k, j + 1, i)
                                + 7.0 * at(k, j, before(i))
                                - 11.0 * at(k, j, i + 1)
                                + at(k, j, i);
                            expected[(k * rows + j) * cols + i] = new / 8.0;
                        }
                    }
                }
                assert_eq!(fields[0].values::<f64>().unwrap(), expected, "{text}");
            }
        }
    }
}

/// Asks for plans of descriptions with arrays of these shapes, some of them on file.
fn plans(described: &Described, dims: [usize; 3], random: &mut Random) -> (bool, u64) {
    let rule = described.rule();
    let of = |value: &Type| if let Type::Of(one) = value { *one } else { ElementType::Float64 };
    let elements: Vec<_> = rule.arrays.iter().map(|(_, value)| of(value)).collect();
    let on_file: Vec<_> = elements.iter().map(|_| random.one_in(2)).collect();
    let question = Question {
        rule,
        dims,
        members: 1,
        together: 1,
        elements: &elements,
        on_file: &on_file,
        result_on_file: random.one_in(2),
        copied: false,
        iterations: random.within(1..=50) as u64,
        converges: random.one_in(2),
        depth: if random.one_in(3) { Some(random.within(1..=9) as u64) } else { None },
        deepest: u64::MAX,
        threads: random.within(1..=9),
        flight: None,
        around: 0,
        memory: 1,
        cache: 1 << 20,
        disk: if random.one_in(2) { Some(1e9) } else { None },
    };
    let Err(Error::StreamMemory { needed, instead, .. }) = question.answer() else {
        panic!("{dims:?}: a byte suffices")
    };
    let plan = Question { memory: needed, ..question }.answer().unwrap();
    assert_eq!(plan.memory, needed, "{dims:?}: {plan:?}");
    let less = Question { memory: needed - 1, ..question }.answer();
    let same =
        |error: &Error| matches!(error, Error::StreamMemory { needed: n, .. } if *n == needed);
    assert!(less.as_ref().is_err_and(same), "{dims:?}: {needed} {less:?}");
    (instead.is_some(), needed)
}

#[test]
fn the_least_memory_of_a_plan_suffices() {
    for number in seed(0)..seed(0) + u64::from(cases(200)) {
        let mut random = Random::new(number);
        let (text, dimensions) = description(&mut random);
        let Ok(described) = Described::parse(&text) else { continue };
        let mut size = |most: &[usize]| random.within(1..=random.clone().one_of(most));
        let dims = match dimensions {
            2 => [size(&[1, 5, 10_000]), 1, size(&[1, 100, 1_000_000])],
            _ => [size(&[1, 5, 300]), size(&[1, 300]), size(&[1, 1000])],
        };
        let (is_turned, _) = plans(&described, dims, &mut random);
        assert_eq!(is_turned, dims[1].max(dims[2]) > dims[0], "{dims:?}");
    }
}

/// A field of few slabs takes a copy of it on each side of a pass, and one for all levels.
#[test]
fn few_long_rows_take_few_copies() {
    let texts = [
        "update = 'u = (old.n + old.s + old.e + old.w) / 4'",
        "update = 'u = (n + s + e + w) / 4'",
    ];
    for (text, edges) in texts.iter().flat_map(|text| [(text, "'clamped'"), (text, "0")]) {
        let text = format!("name = 'c'\nfield = 'u'\nedges = {edges}\n{text}");
        let described = Described::parse(&text).unwrap();
        for (slabs, copies) in [(1, 3.3), (2, 3.3), (7, 3.3), (50, 1.0)] {
            let elements = [ElementType::Float64];
            let question = Question {
                rule: described.rule(),
                dims: [slabs, 1, 4_000_000],
                members: 1,
                together: 1,
                elements: &elements,
                on_file: &[true],
                result_on_file: true,
                copied: false,
                iterations: 5,
                converges: false,
                depth: None,
                deepest: u64::MAX,
                threads: 2,
                flight: None,
                around: 0,
                memory: 1,
                cache: 1 << 20,
                disk: None,
            };
            let Err(Error::StreamMemory { needed, .. }) = question.answer() else { panic!() };
            let found = needed as f64 / (slabs * 32_000_000) as f64;
            assert!(found < copies, "{text}: {found} copies of {slabs} slabs");
        }
    }
}
