//! The rules of the interface that the header states, checked for every function: names, objects,
//! outputs after a failure, texts of statuses, environment variables. Also, no message names an
//! item that only Rust has.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_testkit::{Tool, libraries, succeed};

use crate::tools::root;

/// A function of the header.
#[derive(Debug)]
struct Function {
    result: String,
    name: String,
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    kind: String,
    name: String,
}

fn header() -> String {
    std::fs::read_to_string(root().join("include/syncline.h")).unwrap()
}

/// Returns the header without its comments.
fn code() -> String {
    let header = header();
    let parts = header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
    parts.collect::<Vec<_>>().join(" ")
}

fn functions() -> Vec<Function> {
    let code = code();
    let (_, code) = code.split_once("extern \"C\" {").unwrap();
    let declaration = |text: &str| {
        let (before, arguments) = text.split_once('(')?;
        let (result, name) = before.rsplit_once([' ', '*'])?;
        if !name.starts_with("syncline_") {
            return None;
        }
        let arguments =
            arguments.strip_suffix(')')?.split(',').map(str::trim).filter(|a| *a != "void");
        let argument = |text: &str| {
            let at = text.rfind([' ', '*']).unwrap() + 1;
            Argument { kind: text[..at].trim().to_owned(), name: text[at..].to_owned() }
        };
        Some(Function {
            result: result.split_whitespace().last().unwrap_or_default().to_owned(),
            name: name.to_owned(),
            arguments: arguments.filter(|a| !a.is_empty()).map(argument).collect(),
        })
    };
    let words = code.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words.split(';').filter_map(|text| declaration(text.trim())).collect()
}

/// Returns the function of a name, if it exists.
fn find<'a>(all: &'a [Function], name: &str) -> Option<&'a Function> {
    all.iter().find(|function| function.name == name)
}

#[test]
fn every_function_is_read() {
    let all = functions();
    assert!(all.len() > 120, "{}", all.len());
    let wait = find(&all, "syncline_barrier_wait_for").unwrap();
    assert_eq!((wait.result.as_str(), wait.arguments.len()), ("syncline_status", 3));
    assert_eq!(wait.arguments[2], Argument { kind: "uint64_t".into(), name: "nanoseconds".into() });
}

#[test]
fn timed_functions_are_called_for_and_have_an_endless_form() {
    let all = functions();
    let mut timed = 0;
    for function in &all {
        let has_time = function.arguments.iter().any(|argument| argument.name == "nanoseconds");
        assert_eq!(has_time, function.name.ends_with("_for"), "{}", function.name);
        if has_time {
            let base = function.name.trim_end_matches("_for");
            let base = find(&all, base).unwrap_or_else(|| panic!("{base} is missing"));
            let rest: Vec<_> = function
                .arguments
                .iter()
                .filter(|argument| argument.name != "nanoseconds")
                .cloned()
                .collect();
            assert_eq!(base.arguments, rest, "{}", function.name);
            timed += 1;
        }
        for word in ["_within", "_timed", "_until_deadline", "_deadline"] {
            assert!(!function.name.contains(word), "{}", function.name);
        }
        // The verb follows `_try_`.
        let mut parts = function.name.split("_try").skip(1);
        assert!(parts.all(|verb| verb.starts_with('_') && verb.len() > 2), "{}", function.name);
    }
    assert!(timed >= 12, "{timed}");
}

#[test]
fn what_one_function_makes_one_function_gives_back() {
    let all = functions();
    let mut pairs = 0;
    for function in &all {
        let name = function.name.as_str();
        if let Some(object) = name.strip_suffix("_free") {
            let made: &[_] = match object {
                "syncline_handle" => &["syncline_reader_new", "syncline_writer_new"],
                _ => &[&format!("{object}_new")[..]],
            };
            assert!(
                made.iter().all(|new| find(&all, new).is_some()),
                "{name} undoes none of {made:?}"
            );
            pairs += 1;
        }
        if let Some(object) = name.strip_suffix("_new") {
            let object = match object {
                "syncline_reader" | "syncline_writer" => "syncline_handle",
                object => object,
            };
            assert!(find(&all, &format!("{object}_free")).is_some(), "nothing undoes {name}");
        }
        if name.contains("_deallocate") {
            assert!(find(&all, &name.replace("_deallocate", "_allocate")).is_some(), "{name}");
        }
        if let Some(object) = name.strip_suffix("_dispose") {
            // A function that hands an object out has another name than one that makes it.
            assert!(find(&all, &format!("{object}_new")).is_none(), "{name}");
            assert_eq!(function.result, "void", "{name}");
        }
    }
    assert!(pairs >= 9, "{pairs}");
    assert!(
        find(&all, "syncline_farm_join").is_some() && find(&all, "syncline_farm_leave").is_some()
    );
}

/// Whether a function writes its result through an argument: a pointer to a single value of the
/// caller.
fn is_output(function: &Function, argument: &Argument) -> bool {
    // A buffer with a capacity is no output.
    if function.name == "syncline_overlay_active" && argument.name == "tasks" {
        return false;
    }
    let values = ["bool", "size_t", "uint32_t", "uint64_t", "int32_t", "int64_t"];
    let structures = ["syncline_exit_cause", "syncline_farm_progress", "syncline_rma_pair"];
    let kind = argument.kind.as_str();
    match kind.strip_suffix('*').map(str::trim_end) {
        Some(pointer) if pointer.ends_with('*') && !pointer.contains("*const") => true,
        Some(value) => values.iter().chain(&structures).any(|known| *known == value),
        None => false,
    }
}

/// Returns an argument that makes the call fail: invalid wherever possible, except for one output.
fn wrong(function: &Function, argument: &Argument, output: Option<&str>) -> String {
    let kind = argument.kind.as_str();
    if is_output(function, argument) {
        let wanted = output == Some(&argument.name);
        return if wanted { format!("&out_{}", argument.name) } else { "NULL".into() };
    }
    match kind {
        "const syncline_farm_bounds *" => "&bounds".into(),
        "uint64_t" if argument.name == "nanoseconds" => "0".into(),
        "bool" => "true".into(),
        "double" => "0.0".into(),
        "int" => "-1".into(),
        "int32_t" | "int64_t" => "-1".into(),
        "size_t" => "SIZE_MAX".into(),
        "uint32_t" => "UINT32_MAX".into(),
        "uint64_t" => "UINT64_MAX".into(),
        "syncline_rma_pair" => "pair".into(),
        pointer => {
            let pointer = pointer.ends_with('*')
                || ["syncline_body", "syncline_team_function", "syncline_farm_function"]
                    .contains(&pointer);
            assert!(pointer, "{} has an argument {kind}", function.name);
            "NULL".into()
        }
    }
}

#[test]
fn outputs_are_zero_after_a_failure() {
    let mut calls = String::new();
    let (mut outputs, mut tried) = (0, 0);
    for function in functions() {
        let all: Vec<_> = function
            .arguments
            .iter()
            .filter(|argument| is_output(&function, argument))
            .cloned()
            .collect();
        outputs += all.len();
        // This function has no argument that could be invalid except its output.
        if function.name == "syncline_overlay_new" {
            continue;
        }
        // Each output by itself with NULL for the others, and then all of them.
        let one_by_one = all.iter().map(|output| vec![output.clone()]);
        let together = if all.len() > 1 { Some(all.clone()) } else { None };
        for wanted in one_by_one.chain(together) {
            calls.push_str("    {\n");
            for Argument { kind, name } in &wanted {
                let value = kind.strip_suffix('*').unwrap();
                writeln!(
                    calls,
                    "        {value} out_{name};\n        memset(&out_{name}, 0x77, sizeof out_{name});"
                )
                .unwrap();
            }
            let pass = |argument: &Argument| {
                let output = wanted.iter().find(|output| *output == argument);
                wrong(&function, argument, output.map(|output| output.name.as_str()))
            };
            let arguments: Vec<_> = function.arguments.iter().map(pass).collect();
            let name = &function.name;
            writeln!(calls, "        failed(\"{name}\", {name}({}));", arguments.join(", "))
                .unwrap();
            for Argument { name: output, .. } in &wanted {
                // This output is the number of the sender, and 0 is the number of a process.
                let nobody = name.starts_with("syncline_farm_recv_any") && output == "from";
                let byte = if nobody { "0xff" } else { "0" };
                writeln!(
                    calls,
                    "        all_are(\"{name}: {output}\", &out_{output}, sizeof out_{output}, {byte});"
                )
                .unwrap();
            }
            calls.push_str("    }\n");
            tried += 1;
        }
    }
    assert!(outputs > 45 && tried > outputs - 2, "{outputs} outputs, {tried} calls");

    let Some(gcc) = Tool::find("gcc") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("outputs.c"), dir.path().join("outputs"));
    let text = format!(
        "#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syncline.h>
static void failed(const char *what, syncline_status status) {{
    if (status == SYNCLINE_STATUS_OK) {{ printf(\"%s did not fail\\n\", what); exit(1); }}
}}
static void all_are(const char *what, const void *bytes, size_t count, int byte) {{
    for (size_t n = 0; n < count; n++)
        if (((const unsigned char *)bytes)[n] != byte) {{ printf(\"%s is not zero\\n\", what); exit(1); }}
}}
int main(void) {{
    const syncline_farm_bounds bounds = {{1, 0, 0, 0}};
    const syncline_rma_pair pair = {{1, 2}};
    setenv(\"SYNCLINE_FARM\", \"nonsense\", 1);
{calls}    puts(\"all outputs were zero\");
    return 0;
}}
"
    );
    std::fs::write(&source, text).unwrap();
    gcc.run([
        "-std=c11".as_ref(),
        "-Wall".as_ref(),
        "-Werror".as_ref(),
        "-I".as_ref(),
        root().join("include").as_os_str(),
        source.as_os_str(),
        libraries().join("libsyncline_c.a").as_os_str(),
        "-pthread".as_ref(),
        "-ldl".as_ref(),
        "-lm".as_ref(),
        "-o".as_ref(),
        program.as_os_str(),
    ]);
    assert_eq!(succeed(&mut Command::new(program)), "all outputs were zero\n");
}

#[test]
fn every_status_has_words_of_its_own() {
    let text = |status| {
        // SAFETY: the function returns a NUL-terminated text of static lifetime.
        unsafe { CStr::from_ptr(syncline_c::status::syncline_status_text(status)) }
            .to_str()
            .unwrap()
    };
    let code = code();
    let statuses = code.split("SYNCLINE_STATUS_").skip(1).filter_map(|entry| {
        let (name, number) = entry.split_once('=')?;
        Some((name.trim().to_owned(), number.split(',').next()?.trim().parse::<i32>().ok()?))
    });
    let statuses: Vec<_> = statuses.collect();
    assert!(statuses.len() >= 25, "{statuses:?}");
    let mut said: Vec<_> = statuses.iter().map(|&(_, number)| text(number)).collect();
    assert!(!said.contains(&"unknown status"), "{statuses:?} {said:?}");
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), statuses.len());
    assert_eq!((text(0), text(-1), text(1000)), ("success", "unknown status", "unknown status"));
}

/// Returns the sources of the crates whose errors reach C, without their tests and comments.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|end| end == "rs")
                && !path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"))
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let own = text
                    .split("#[cfg(all(test")
                    .next()
                    .unwrap()
                    .split("#[cfg(test")
                    .next()
                    .unwrap();
                let lines = own.lines().filter(|line| !line.trim_start().starts_with("//"));
                into.push((path.clone(), lines.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    let mut all = Vec::new();
    for name in ["farm", "fabric", "memory", "mpi", "overlay", "rma", "signal", "sync"] {
        collect(&root().join("../../crates").join(name).join("src"), &mut all);
    }
    collect(&root().join("src"), &mut all);
    assert!(all.len() > 60);
    all
}

/// Returns the string literals of a source.
fn texts(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut letters = source.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // A character literal, or a lifetime.
            '\'' => {
                let mut ahead = letters.clone();
                let behind = match ahead.next() {
                    Some('\\') => 3,
                    _ if ahead.next() == Some('\'') => 2,
                    _ => 0,
                };
                for _ in 0..behind {
                    letters.next();
                }
            }
            '"' => {
                let mut text = String::new();
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' => break,
                        // At the end of a line, the text continues after the blanks of the next
                        // line.
                        '\\' => match letters.next() {
                            Some('\n') => while letters.next_if(|l| l.is_whitespace()).is_some() {},
                            Some(escaped) => text.push(escaped),
                            None => break,
                        },
                        letter => text.push(letter),
                    }
                }
                found.push(text);
            }
            _ => {}
        }
    }
    found
}

/// Returns the part of a text that has a meaning in Rust only: a path, a call, an item of the
/// interface.
fn rust_in(text: &str) -> Option<&str> {
    // A text without a space is a format or an identifier, not a message.
    if !text.contains(' ') {
        return None;
    }
    let types = [
        "Bounds",
        "Checked",
        "Err",
        "FaultList",
        "Global",
        "Mutexes",
        "None",
        "Ok",
        "Option",
        "Policy",
        "Pool",
        "PoolBuilder",
        "Result",
        "Some",
        "String",
        "Vec",
        "Vpid",
    ];
    let marks = ["::", "()", "panick", "unwrap"];
    marks
        .into_iter()
        .find(|mark| text.contains(mark))
        .or_else(|| {
            let quoted = text.split('`').skip(1).step_by(2);
            let commands = ["syncline ", "memory"];
            quoted
                .into_iter()
                .find(|quoted| !commands.iter().any(|command| quoted.starts_with(command)))
        })
        .or_else(|| {
            let mut words = text.split(|c: char| !(c.is_alphanumeric() || "_{}:?".contains(c)));
            words.find(|word| types.contains(word))
        })
}

#[test]
fn no_message_names_what_only_rust_has() {
    assert_eq!(rust_in("only Team::threads makes another"), Some("::"));
    assert_eq!(rust_in("call `serve` first"), Some("serve"));
    assert_eq!(rust_in("a higher bound, by Bounds"), Some("Bounds"));
    assert_eq!(rust_in("run `syncline mpi build`, it has {len} bytes"), None);
    // The message of a Rust panic is in Rust's terms, but none reaches C.
    let allowed = ["panicked"];
    let mut looked_at = 0;
    for (path, source) in sources() {
        for text in texts(&source) {
            looked_at += 1;
            // `fork()` is a function of C.
            let text = text.replace("fork()", "fork");
            if let Some(found) = rust_in(&text) {
                assert!(
                    allowed.iter().any(|word| text.contains(word)),
                    "{}: {found:?} in {text:?}",
                    path.display()
                );
            }
        }
    }
    assert!(looked_at > 500, "{looked_at}");
}

#[test]
fn the_header_names_every_environment_variable() {
    let header = header();
    let (introduction, _) = header.split_once("#ifndef SYNCLINE_H").unwrap();
    let (_, environment) = introduction.split_once(" * Environment\n").unwrap();
    let mut variables = 0;
    for (path, source) in sources() {
        for text in texts(&source) {
            let name = text.strip_prefix("SYNCLINE_").is_some_and(|rest| {
                rest.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
            });
            if name {
                assert!(environment.contains(&text), "{}: {text}", path.display());
                variables += 1;
            }
        }
    }
    assert!(variables >= 9, "{variables}");
}
