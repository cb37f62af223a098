//! The pages of the book, so that `cargo test` compiles and runs their Rust code.
//!
//! Each page of `src/SUMMARY.md` is named here; `tests/pages.rs` checks that. The shell code of the
//! pages is run by a test of the command (`apps/cli/tests/cli/book.rs`).

macro_rules! pages {
    ($($name:ident $file:literal),* $(,)?) => {$(
        #[cfg(doctest)]
        #[doc = include_str!($file)]
        struct $name;
    )*};
}

pages! {
    Introduction "src/introduction.md",
}
