//! Encoding, and decoding of invalid bytes: no panic, no stack overflow, and no more memory than
//! the bytes justify.
//!
//! The bounds of memory hold for all bytes: all sequences of a message together reserve no more
//! elements than it has bytes, each element takes a byte, and vectors double.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use syncline_testkit::property;
use syncline_wire::{Error, MAX_NESTING, decode, encode, write_slice};

/// An allocator that counts the bytes that the current thread allocates.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator, which meets the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + layout.size()));
        // SAFETY: the caller meets the conditions of `GlobalAlloc::alloc`, which are those of
        // `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the conditions of `GlobalAlloc::dealloc`; `alloc` returned `at`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum Tree {
    Leaf,
    Number(u64),
    Node(Vec<Tree>),
    Chain(Box<Tree>),
    Named { name: String, of: Option<Box<Tree>> },
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Nothing {
    #[serde(skip)]
    _kept_here: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Everything {
    truth: bool,
    small: (u8, i8, u16, i16),
    middle: (u32, i32, f32),
    large: (u64, i64, u128, i128, f64),
    letter: char,
    text: String,
    bytes: Vec<u8>,
    numbers: Vec<i64>,
    map: BTreeMap<String, Vec<u16>>,
    tree: Tree,
    nothing: Vec<Nothing>,
    fixed: [u32; 3],
    unit: (),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![Just(Tree::Leaf), any::<u64>().prop_map(Tree::Number)];
    leaf.prop_recursive(6, 60, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Node),
            inner.clone().prop_map(|tree| Tree::Chain(Box::new(tree))),
            (".{0,8}", prop::option::of(inner))
                .prop_map(|(name, of)| Tree::Named { name, of: of.map(Box::new) }),
        ]
    })
}

prop_compose! {
    fn everything()(
        truth: bool, small: (u8, i8, u16, i16), middle: (u32, i32, f32),
        large in any::<(u64, i64, u128, i128, f64)>(), letter: char, text: String, bytes: Vec<u8>, numbers: Vec<i64>,
        map in prop::collection::btree_map(".{0,5}", prop::collection::vec(any::<u16>(), 0..5), 0..5),
        tree in trees(), nothing in prop::collection::vec(Just(Nothing::default()), 0..9), fixed: [u32; 3],
    ) -> Everything {
        let (middle, large) = ((middle.0, middle.1, 1.5), (large.0, large.1, large.2, large.3, -2.5));
        Everything { truth, small, middle, large, letter, text, bytes, numbers, map, tree, nothing, fixed, unit: () }
    }
}

/// The memory in bytes that elements without bytes may take in `Everything`: 65 536 elements of 8
/// bytes, in a vector that doubles.
const NOTHINGS: usize = 65_536 * 8 * 4;

/// Decodes bytes as a `T`, and checks that the allocated memory is proportional to the bytes.
fn try_as<T: serde::de::DeserializeOwned>(bytes: &[u8], of_an_element: usize) {
    try_with::<T>(bytes, of_an_element, 0);
}

fn try_with<T: serde::de::DeserializeOwned>(bytes: &[u8], of_an_element: usize, free: usize) {
    let before = ALLOCATED.get();
    let decoded = decode::<T>(bytes);
    let allocated = ALLOCATED.get() - before;
    drop(decoded);
    // Vectors double as they grow, maps have spare capacity, and the error takes a few bytes.
    let most = 4 * of_an_element * (bytes.len() + 16) + 4096 + free;
    assert!(
        allocated <= most,
        "{allocated} bytes for a message of {}, at most {most}",
        bytes.len()
    );
}

/// Decodes bytes as values of several types.
fn try_garbage(bytes: &[u8]) {
    try_with::<Everything>(bytes, 256, NOTHINGS);
    try_as::<Tree>(bytes, size_of::<Tree>());
    try_as::<Vec<u64>>(bytes, 8);
    try_as::<Vec<Vec<String>>>(bytes, 24);
    try_as::<HashMap<u16, [u64; 8]>>(bytes, 160);
    try_as::<(String, Option<Box<Tree>>, char)>(bytes, size_of::<Tree>());
}

/// Decodes nearly valid bytes: those of a value with one byte changed; then also with the end cut
/// off, and perhaps a byte appended.
fn try_damaged(
    value: &Everything,
    at: prop::sample::Index,
    byte: u8,
    cut: prop::sample::Index,
    more: bool,
) {
    let mut bytes = encode(value).unwrap();
    let at = at.index(bytes.len());
    bytes[at] = byte;
    try_with::<Everything>(&bytes, 256, NOTHINGS);
    bytes.truncate(cut.index(bytes.len() + 1));
    bytes.extend(more.then_some(byte));
    try_with::<Everything>(&bytes, 256, NOTHINGS);
}

proptest! {
    #![proptest_config(property(2000))]

    #[test]
    fn what_was_encoded_is_decoded(value in everything()) {
        prop_assert_eq!(decode::<Everything>(&encode(&value).unwrap()).unwrap(), value);
    }

    #[test]
    fn garbage_is_an_error_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        try_garbage(&bytes);
    }

    #[test]
    fn what_was_damaged_is_an_error_or_a_value(
        value in everything(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index, more: bool,
    ) {
        try_damaged(&value, at, byte, cut, more);
    }
}

#[test]
fn a_slice_that_is_too_short_is_told_the_length() {
    let value = (300_u32, "three hundred", [1_u8; 5]);
    let bytes = encode(&value).unwrap();
    for room in 0..bytes.len() + 3 {
        let mut slice = vec![0; room];
        assert_eq!(write_slice(&value, &mut slice), Ok(bytes.len()));
        if room >= bytes.len() {
            assert_eq!(slice[..bytes.len()], bytes);
        }
    }
}

/// The cases with which the tests above have failed in the past.
#[test]
fn what_was_once_wrong_is_an_error_or_a_value() {
    try_garbage(&[113, 0]);

    const A: i64 = 1 << 48;
    const B: i64 = 1 << 55;
    const C: i64 = 1 << 62;
    const NB: i64 = -B - 1;
    const NC: i64 = -C - 1;
    let numbers = vec![
        A, B, NC, B, C, C, NB, B, C, NC, C, C, NB, B, NC, NC, NB, C, NC, NB, B, NB, C, C, C, C, NC,
        NC, C, C, NB, B, C, B, NC, C, C, B, C, B, NC, NC, NC, NC, NB, NC, NB, NC, NB, C, NB, NC, B,
        C, NC, C, C, NB, NC, NB,
    ];
    let map =
        [("\0¡", vec![16384, 16384, 16384]), ("Aa𐀀A", vec![16384, 16384]), ("𐀀𐀀\0", Vec::new())];
    let tree = [9_223_372_036_854_775_808, 144_119_586_122_366_976].map(Tree::Number);
    let value = Everything {
        truth: false,
        small: (0, 0, 0, 0),
        middle: (0, 0, 1.5),
        large: (0, 0, 0, 0, -2.5),
        letter: '0',
        text: String::new(),
        bytes: Vec::new(),
        numbers,
        map: map.map(|(name, numbers)| (name.to_owned(), numbers)).into(),
        tree: Tree::Node(tree.into()),
        nothing: Vec::new(),
        fixed: [0, 2_097_152, 268_435_456],
        unit: (),
    };
    let mut bytes = encode(&value).unwrap();
    // The place is a fraction of the length, as in the strategies of proptest.
    let at = (bytes.len() as u128 * 17_821_891_181_669_316_437) >> 64;
    bytes[at as usize] = 0;
    try_with::<Everything>(&bytes, 256, NOTHINGS);
    bytes.clear();
    try_with::<Everything>(&bytes, 256, NOTHINGS);
}

#[test]
fn what_is_nested_too_deep_is_an_error() {
    let chain = |levels: usize| (1..levels).fold(Tree::Leaf, |tree, _| Tree::Chain(Box::new(tree)));
    let good = chain(MAX_NESTING);
    assert_eq!(decode::<Tree>(&encode(&good).unwrap()), Ok(good));
    let why = "it is nested deeper than 256 levels".to_owned();
    let deep = encode(&chain(MAX_NESTING + 1)).unwrap();
    assert_eq!(decode::<Tree>(&deep), Err(Error::Undecodable(why.clone())));
    // A megabyte of nesting would overflow any stack.
    assert_eq!(decode::<Tree>(&vec![3; 1 << 20]), Err(Error::Undecodable(why)));
}

/// Each level has the length of 200 elements, and begins with another level.
#[test]
fn nested_lengths_do_not_add_up() {
    let bytes: Vec<u8> = [2, 200, 1].repeat(100);
    try_as::<Tree>(&bytes, size_of::<Tree>());
}

#[test]
fn elements_that_take_no_bytes_are_counted() {
    let few = vec![Nothing::default(); 1000];
    assert_eq!(decode::<Vec<Nothing>>(&encode(&few).unwrap()), Ok(few));
    // 2^62 elements, in nine bytes.
    let many = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    let why = "it has more elements than bytes".to_owned();
    assert_eq!(decode::<Vec<Nothing>>(&many), Err(Error::Undecodable(why.clone())));
    assert_eq!(decode::<Vec<()>>(&many), Err(Error::Undecodable(why)));
}
