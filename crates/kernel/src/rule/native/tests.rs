//! Machine code against interpretation.

use std::ffi::c_void;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use syncline_store::ElementType;
use syncline_testkit::{Random, cases, seed};

use crate::Described;
use crate::described::graph::Type;
use crate::described::tests::random::description;
use crate::lanes::Lanes;
use crate::rule::program::{Machine, Program};

/// The values that a run may not change, on both sides of the outputs.
const MARGIN: usize = 100;

/// Returns values of a type, with those at the ends of its range among them.
fn values(element: ElementType, n: usize, random: &mut Random) -> Vec<u8> {
    let number = |random: &mut Random| random.below(200) as f64 / 8.0 - 12.0;
    let ends = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310, 1e308];
    let mut bytes = Vec::new();
    for _ in 0..n {
        let end = random.one_in(8);
        let real = if end { random.one_of(&ends) } else { number(random) };
        let whole = if end { random.below(u64::MAX) } else { random.below(8_u64) };
        match element {
            ElementType::Float64 => bytes.extend(real.to_le_bytes()),
            ElementType::Float32 => bytes.extend((real as f32).to_le_bytes()),
            _ => bytes.extend(&whole.to_le_bytes()[..element.bytes()]),
        }
    }
    bytes
}

/// Returns the bytes with one bit pattern for all NaNs, whose bits may differ.
fn canonical(element: ElementType, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for place in bytes.chunks_exact_mut(element.bytes()) {
        let nan = match element {
            ElementType::Float64 => f64::from_le_bytes((&*place).try_into().unwrap()).is_nan(),
            ElementType::Float32 => f32::from_le_bytes((&*place).try_into().unwrap()).is_nan(),
            _ => false,
        };
        if nan {
            place.fill(0xff);
        }
    }
    bytes
}

/// Values between two pages that cannot be accessed.
struct Guarded {
    mapping: *mut c_void,
    bytes: usize,
    first: *const u8,
}

impl Guarded {
    /// Copies the values so that they end at the second page, or begin at the first.
    fn new(values: &[u8], at_end: bool) -> Self {
        let page = rustix::param::page_size();
        let inner = values.len().next_multiple_of(page).max(page);
        let bytes = inner + 2 * page;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is a new one, and the copy lies between the pages at its ends.
        unsafe {
            let mapping =
                mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).unwrap();
            let start = mapping.cast::<u8>().add(page);
            let first = if at_end { start.add(inner - values.len()) } else { start };
            first.copy_from_nonoverlapping(values.as_ptr(), values.len());
            mprotect(mapping, page, MprotectFlags::empty()).unwrap();
            mprotect(start.add(inner).cast(), page, MprotectFlags::empty()).unwrap();
            Guarded { mapping, bytes, first }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { munmap(self.mapping, self.bytes).unwrap() };
    }
}

/// Runs a program; returns the outputs with their margins.
fn run(
    program: &Program,
    element: ElementType,
    reads: &[Vec<u8>],
    outputs: &[Vec<u8>],
    in_place: bool,
    n: usize,
) -> Vec<Vec<u8>> {
    let start = MARGIN * element.bytes();
    let mut outputs = outputs.to_vec();
    let targets: Vec<*mut u8> = outputs.iter_mut().map(|o| o[start..].as_mut_ptr()).collect();
    let guarded: Vec<Guarded> = reads
        .iter()
        .enumerate()
        .map(|(i, values)| Guarded::new(&values[..n * element.bytes()], i % 2 == 0))
        .collect();
    let addresses: Vec<*const u8> = program
        .reads()
        .zip(&guarded)
        .map(|(read, values)| match targets.get(read.array as usize) {
            // The values at the points themselves.
            Some(target) if in_place && read.offset == [0; 3] => target.cast_const(),
            _ => values.first,
        })
        .collect();
    // SAFETY: all have `n` values; the outputs overlap reads at the points themselves only.
    unsafe { Machine::new(program).unwrap().run(&addresses, &targets, n) };
    outputs
}

/// Compares the machine code of a rule with its interpretation; returns whether there is any.
fn compare(text: &str, lanes: Lanes, random: &mut Random) -> Option<ElementType> {
    let described = Described::parse(text).ok()?;
    let (rule, real) = (described.rule(), random.one_of(&ElementType::REAL));
    let element = match rule.arrays[0].1 {
        Type::Of(element) => element,
        _ => real,
    };
    let in_place = random.one_in(2);
    let program = Program::new(rule, real, lanes, in_place);
    if !program.is_native() {
        return None;
    }
    let other = Program::interpreted(rule, real, lanes, in_place);
    // Long runs begin with a part of a vector.
    let n = if random.one_in(3) { random.below(2000_usize) } else { random.below(100) };
    let reads: Vec<_> = program.reads().map(|_| values(element, n, random)).collect();
    let outputs: Vec<_> =
        (0..rule.fields).map(|_| values(element, n + 2 * MARGIN, random)).collect();
    let [left, right] = [&program, &other].map(|program| {
        let outputs = run(program, element, &reads, &outputs, in_place, n);
        outputs.iter().map(|bytes| canonical(element, bytes)).collect::<Vec<_>>()
    });
    assert!(left == right, "{lanes:?}, {element}, {n} points: {text}");
    let margin = MARGIN * element.bytes();
    for (output, before) in left.iter().zip(&outputs) {
        let before = canonical(element, before);
        assert_eq!(output[..margin], before[..margin], "{text}");
        let end = output.len() - margin;
        assert_eq!(output[end..], before[end..], "{text}");
    }
    Some(element)
}

fn has(lanes: Lanes) -> bool {
    Lanes::available().any(|available| available == lanes)
}

#[test]
fn machine_code_has_the_bits_of_the_interpretation() {
    let mut native = [0; 2];
    let (first, all) = (seed(0), u64::from(cases(3000)));
    for case in first..first + all {
        let mut random = Random::new(case);
        let (text, _) = description(&mut random);
        for lanes in Lanes::available() {
            if let Some(element) = compare(&text, lanes, &mut random) {
                native[usize::from(element.is_real())] += 1;
            }
        }
    }
    // At least these descriptions have values of one type, and operations with instructions.
    assert!(!has(Lanes::Avx2) || native[1] > all / 10, "{native:?} of {all}");
    assert!(!has(Lanes::Avx512) || native[0] > all / 150, "{native:?} of {all}");
}

/// Returns a description that reads up to 50 values, each several times, and has many numbers.
fn wide(random: &mut Random) -> String {
    let mut reads: Vec<String> = (0..50_i64)
        .map(|i| (["old.f", "old.g"][(i / 25) as usize], i % 5 - 2, i % 25 / 5 - 2))
        .map(|(field, row, col)| format!("{field}[{row}, {col}]"))
        .map(|read| read.replace("old.f[0, 0]", "f").replace("old.g[0, 0]", "g"))
        .collect();
    random.shuffle(&mut reads);
    reads.truncate(random.within(20..=50));
    let mut text = "name = 'wide'\nfields = ['f', 'g']\nupdate = \"\"\"\ns0 = f * 0.5\n".to_owned();
    let mut sum = "s0".to_owned();
    for round in 1..=4 {
        random.shuffle(&mut reads);
        let name = format!("s{round}");
        let mut terms = sum.clone();
        for four in reads.chunks_exact(4) {
            let [a, b, c, d] = four else { unreachable!() };
            let number = random.below(60_u64) as f64 / 8.0 + 0.3;
            terms = match random.below(7) {
                0 => format!("{terms} + {a} * {number} - {b} * ({c} + {d})"),
                1 => format!("min({terms}, if({a} < {b}, {c}, {d}))"),
                2 => format!("max({terms}, if({a} * {number} <= {b}, {d}, -{c}))"),
                4 => format!("({a} - {b}) * max({c}, {d}) + {terms}"),
                6 => format!(
                    "{terms} + floor({a}) * if({b} < {c} and not isnan({d}), {number}, {c})"
                ),
                3 => format!("if({terms} < {a}, {b}, {c} / {number}) + abs({d})"),
                _ => format!("{a} + ({terms}) * {number} + {b} / 4 + sqrt({c}) * {d}"),
            };
        }
        text += &format!("{name} = {terms}\n");
        sum = name;
    }
    text + &format!("f = {sum} + g\ng = f * 0.5 - {sum}\n\"\"\"\n")
}

#[test]
fn values_without_a_register_are_loaded_again() {
    let mut native = 0;
    let (first, all) = (seed(0), u64::from(cases(300)));
    for case in first..first + all {
        let mut random = Random::new(case);
        let text = wide(&mut random);
        Described::parse(&text).unwrap();
        for lanes in [Lanes::Avx2, Lanes::Avx512].into_iter().filter(|lanes| has(*lanes)) {
            native += u64::from(compare(&text, lanes, &mut random).is_some());
        }
    }
    assert!(!has(Lanes::Avx2) || native > all * 2 / 3, "{native} of {all}");
}
