//! The header is the output of cbindgen for the sources, and every compiler accepts it.

use std::path::PathBuf;

use syncline_testkit::Tool;

use crate::tools::root;

fn made() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    // cbindgen finds the modules from this file; it does not run cargo.
    let builder = cbindgen::Builder::new().with_config(config).with_src(root().join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

fn committed() -> PathBuf {
    root().join("include/syncline.h")
}

/// With `SYNCLINE_HEADER=write` the test generates the header.
#[test]
fn the_header_is_what_cbindgen_makes() {
    if std::env::var_os("SYNCLINE_HEADER").is_some_and(|v| v == "write") {
        std::fs::write(committed(), made()).unwrap();
    }
    let there = std::fs::read_to_string(committed()).unwrap();
    assert!(
        there == made(),
        "include/syncline.h is not what cbindgen makes: \
         SYNCLINE_HEADER=write cargo test -p syncline-c --test c header"
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

/// Returns the text of a file without the comment marks and white space of C between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text between `begin` and the next `end`, if both occur.
fn between<'a>(text: &'a str, begin: &str, end: char) -> Option<&'a str> {
    text.split_once(begin)?.1.split(end).next()
}

#[test]
fn the_module_for_fortran_says_what_the_header_says() {
    let header = std::fs::read_to_string(committed()).unwrap();
    let header = words(header.split_once("#ifndef SYNCLINE_H").unwrap().1);
    let module = std::fs::read_to_string(root().join("fortran/syncline.f90")).unwrap();
    let module = module.split("&\n").map(str::trim_start).collect::<String>();
    let (mut functions, mut numbers) = (0, 0);
    for line in module.lines().map(str::trim).filter(|line| !line.starts_with('!')) {
        if let Some(constant) =
            line.split_once("parameter, public :: ").map(|(_, constant)| constant)
        {
            let defined = constant
                .replace(" = ", " ")
                .replace(" -1", " UINT64_MAX")
                .replace("_c_int64_t", "");
            let there = [format!(" {constant},"), format!("#define {defined} ")];
            assert!(there.iter().any(|there| header.contains(there)), "{constant}");
            numbers += 1;
        }
        let subroutine = line.starts_with("subroutine ") && line.ends_with(" bind(C)");
        if line.contains("bind(C) result(") || subroutine {
            let name =
                between(line, if subroutine { "subroutine " } else { "function " }, '(').unwrap();
            let here: Vec<_> =
                between(line, "(", ')').unwrap().split(", ").filter(|a| !a.is_empty()).collect();
            let there =
                between(&header, &format!("{name}("), ')').unwrap_or_else(|| panic!("{name}"));
            let last = |argument: &str| argument.rsplit([' ', '*']).next().unwrap().to_owned();
            let there: Vec<_> = there
                .split(", ")
                .map(last)
                .filter(|argument| !["void", ""].contains(&argument.as_str()))
                .collect();
            assert_eq!(here, there, "{name}");
            functions += 1;
        }
    }
    let all = header.split(';').filter(|text| {
        text.split_once("syncline_")
            .is_some_and(|(_, text)| text.contains('(') && text.ends_with(')'))
            && !text.contains("typedef")
    });
    assert_eq!(functions, all.count(), "the module has every function of the header");
    let mut missing = header.split("SYNCLINE_").skip(1).filter_map(|text| {
        let name = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
        let number = text[name.len()..].strip_prefix(" = ")?.split(',').next()?;
        (!module.contains(&format!("SYNCLINE_{name} = {number}\n"))).then(|| name.to_owned())
    });
    assert_eq!(missing.next(), None, "the module has every number of the header");
    assert!(numbers > 0);
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
