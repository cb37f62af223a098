//! Machine code against interpretation.

use syncline_store::ElementType;
use syncline_testkit::Random;

use crate::Described;
use crate::described::graph::Type;
use crate::lanes::Lanes;
use crate::rule::program::{Machine, Program};
use crate::rule::tests::description;

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
    let addresses: Vec<*const u8> = program
        .reads()
        .zip(reads)
        .map(|(read, values)| match targets.get(read.array as usize) {
            // The values at the points themselves.
            Some(target) if in_place && read.offset == [0; 3] => target.cast_const(),
            _ => values.as_ptr(),
        })
        .collect();
    // SAFETY: all have `n` values; the outputs overlap reads at the points themselves only.
    unsafe { Machine::new(program).unwrap().run(&addresses, &targets, n) };
    outputs
}

#[test]
fn machine_code_has_the_bits_of_the_interpretation() {
    let mut native = [0; 2];
    for case in 0..3000 {
        let mut random = Random::new(case);
        let (text, _) = description(&mut random);
        let Ok(described) = Described::parse(&text) else { continue };
        let (rule, real) = (described.rule(), random.one_of(&ElementType::REAL));
        let element = match rule.arrays[0].1 {
            Type::Of(element) => element,
            _ => real,
        };
        for lanes in Lanes::available() {
            let in_place = random.one_in(2);
            let program = Program::new(rule, real, lanes, in_place);
            if !program.is_native() {
                continue;
            }
            native[usize::from(element.is_real())] += 1;
            let other = Program::interpreted(rule, real, lanes, in_place);
            let n = random.below(300_usize);
            let reads: Vec<_> = program.reads().map(|_| values(element, n, &mut random)).collect();
            let outputs: Vec<_> =
                (0..rule.fields).map(|_| values(element, n + 2 * MARGIN, &mut random)).collect();
            let [left, right] = [&program, &other].map(|program| {
                let outputs = run(program, element, &reads, &outputs, in_place, n);
                outputs.iter().map(|bytes| canonical(element, bytes)).collect::<Vec<_>>()
            });
            assert!(left == right, "case {case}, {lanes:?}, {element}, {n} points: {text}");
            let margin = MARGIN * element.bytes();
            for (output, before) in left.iter().zip(&outputs) {
                let before = canonical(element, before);
                assert_eq!(output[..margin], before[..margin], "case {case}: {text}");
                let end = output.len() - margin;
                assert_eq!(output[end..], before[end..], "case {case}: {text}");
            }
        }
    }
    if Lanes::available().any(|lanes| lanes == Lanes::Avx2) {
        assert!(native[1] > 500, "{native:?}");
    }
    if Lanes::available().any(|lanes| lanes == Lanes::Avx512) {
        assert!(native[0] > 50, "{native:?}");
    }
}
