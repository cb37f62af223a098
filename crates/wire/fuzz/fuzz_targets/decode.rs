//! Fuzzes the decoder with libFuzzer: no panic, no stack overflow, no more memory than the bytes
//! justify, and a decoded value can be encoded and decoded again.
//!
//! Run `cargo install cargo-fuzz`, then, in `crates/wire` (the variable is needed with a stable
//! compiler): `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none decode -- -runs=1000000
//! -malloc_limit_mb=16 -rss_limit_mb=512`

#![no_main]

use std::collections::{BTreeMap, HashMap};

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use syncline_wire::{decode, encode};

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

/// Checks that a decoded value can be encoded, decoded and encoded again. (Maps have no order, and
/// floats may be NaN: so only the lengths are compared.)
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
