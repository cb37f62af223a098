//! Decoders and bytes that libFuzzer has thought of: no panic, no overflow of the stack, no memory
//! that the bytes are not worth, and a value that was read is written as it can be read again.
//!
//! `cargo install cargo-fuzz`, then, in `crates/farm` (the variable, as the compiler is a stable
//! one): `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none decode -- -runs=1000000
//! -malloc_limit_mb=16 -rss_limit_mb=512`

#![no_main]

use std::collections::{BTreeMap, HashMap};

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use syncline_farm::wire::{decode, encode};

#[derive(Debug, Deserialize, Serialize)]
enum Tree {
    Leaf,
    Number(u64),
    Node(Vec<Tree>),
    Chain(Box<Tree>),
    Named { name: String, of: Option<Box<Tree>> },
}

#[derive(Debug, Deserialize, Serialize)]
struct Everything {
    truth: bool,
    numbers: (u8, i16, u32, i64, u128, f32, f64),
    letter: char,
    bytes: Vec<u8>,
    map: BTreeMap<String, Vec<u16>>,
    table: HashMap<u16, [u64; 8]>,
    tree: Tree,
}

/// What is read can be written, and read again to be written alike. (Tables have no order, floats
/// may be no number: so the lengths are compared.)
fn check<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    if let Ok(value) = decode::<T>(bytes) {
        let written = encode(&value).expect("what was read can be written");
        let again = decode::<T>(&written).expect("what was written can be read");
        assert_eq!(encode(&again).map(|again| again.len()), Ok(written.len()));
    }
}

fuzz_target!(|bytes: &[u8]| {
    check::<Everything>(bytes);
    check::<Tree>(bytes);
    check::<Vec<Vec<String>>>(bytes);
    check::<HashMap<u16, [u64; 8]>>(bytes);
    check::<Vec<i64>>(bytes);
    let _ = decode::<Vec<()>>(bytes);
});
