//! The header is what cbindgen makes of the sources, and every compiler takes it.

mod tools;

use std::path::PathBuf;

use tools::{Tool, root};

fn made() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    // The modules are found from there; nothing is asked of cargo.
    let builder = cbindgen::Builder::new().with_config(config).with_src(root().join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

fn committed() -> PathBuf {
    root().join("include/syncline.h")
}

/// With `SYNCLINE_HEADER=write` it is made anew.
#[test]
fn the_header_is_what_cbindgen_makes() {
    if std::env::var_os("SYNCLINE_HEADER").is_some_and(|v| v == "write") {
        std::fs::write(committed(), made()).unwrap();
    }
    let there = std::fs::read_to_string(committed()).unwrap();
    assert!(
        there == made(),
        "include/syncline.h is not what cbindgen makes: \
         SYNCLINE_HEADER=write cargo test -p syncline-c --test header"
    );
}

#[test]
fn every_exported_function_is_in_the_header_once() {
    let header = std::fs::read_to_string(committed()).unwrap();
    let (_, header) = header.split_once("#ifndef SYNCLINE_H").unwrap();
    let mut functions = 0;
    for source in std::fs::read_dir(root().join("src")).unwrap() {
        let text = std::fs::read_to_string(source.unwrap().path()).unwrap();
        for function in text.split("extern \"C\" fn ").skip(1) {
            let name = function.split('(').next().unwrap();
            let declared = |mark: char| header.matches(&format!("{mark}{name}(")).count();
            assert_eq!(declared(' ') + declared('*'), 1, "{name}");
            functions += 1;
        }
    }
    assert!(functions > 20);
}

#[test]
fn the_version_of_the_header_is_that_of_the_library() {
    let header = [
        syncline_c::SYNCLINE_VERSION_MAJOR,
        syncline_c::SYNCLINE_VERSION_MINOR,
        syncline_c::SYNCLINE_VERSION_PATCH,
    ];
    assert_eq!(header.map(|n| n.to_string()).join("."), env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_compiler_takes_the_header() {
    let c = ["c99", "c11", "c17"];
    let cpp = ["c++11", "c++17", "c++20"];
    for (compiler, language, standards) in
        [("gcc", "c", c), ("clang", "c", c), ("g++", "c++", cpp), ("clang++", "c++", cpp)]
    {
        let Some(tool) = Tool::find(compiler) else { continue };
        for standard in standards {
            tool.run([
                "-x",
                language,
                &format!("-std={standard}"),
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
                "-fsyntax-only",
                committed().to_str().unwrap(),
            ]);
        }
    }
}
