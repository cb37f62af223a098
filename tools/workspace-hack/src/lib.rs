//! Nothing: see `Cargo.toml`.
