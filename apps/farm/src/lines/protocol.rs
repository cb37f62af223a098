//! The lines of JSON between the farm and a long-running worker.
//!
//! | from   | line                                    | meaning                               |
//! |--------|-----------------------------------------|---------------------------------------|
//! | farm   | `{"id":7,"task":...}`                   | a task                                |
//! | worker | `{"id":7,"result":...}`                 | the result of its task                |
//! | worker | `{"id":7,"error":"text"}`               | the reason why its task failed        |
//! | worker | `{"task":...,"priority":2}`             | a new task, while it has a task       |
//!
//! Tasks and results are passed on as text, digit by digit: no long integer is converted to a
//! double.

use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};

/// A line of a worker.
#[derive(Debug)]
pub(super) enum Said {
    /// The result of a task, or the reason why it failed.
    Answer { id: u64, answer: Result<Box<RawValue>, String> },
    /// A new task.
    New { task: Box<RawValue>, priority: i64 },
}

/// The fields of any line of a worker.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Line<'a> {
    id: Option<u64>,
    #[serde(borrow, default, deserialize_with = "given")]
    result: Option<&'a RawValue>,
    error: Option<String>,
    #[serde(borrow, default, deserialize_with = "given")]
    task: Option<&'a RawValue>,
    priority: Option<i64>,
}

/// Deserializes a present value, even if it is null.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Parses a line of a worker; the error describes the fault.
pub(super) fn parse(line: &[u8]) -> Result<Said, String> {
    // JSON is always UTF-8.
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| match error.classify() {
        // The position in the line does not matter.
        serde_json::error::Category::Data => {
            let why = error.to_string();
            why.split_once(" at line ").map_or(why.as_str(), |(why, _)| why).to_owned()
        }
        _ => "not JSON".to_owned(),
    })?;
    match line {
        Line { id: Some(id), result: Some(result), error: None, task: None, priority: None } => {
            Ok(Said::Answer { id, answer: Ok(result.to_owned()) })
        }
        Line { id: Some(id), result: None, error: Some(error), task: None, priority: None } => {
            Ok(Said::Answer { id, answer: Err(error) })
        }
        Line { id: None, result: None, error: None, task: Some(task), priority } => {
            Ok(Said::New { task: task.to_owned(), priority: priority.unwrap_or(0) })
        }
        _ => {
            Err("neither id and result, nor id and error, nor task and perhaps priority".to_owned())
        }
    }
}

/// Returns the task of a line of input: its JSON value, or else a string.
pub(super) fn task(text: &[u8]) -> Result<Box<RawValue>, String> {
    let text = str::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())?;
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(value) => Ok(value),
        Err(_) => to_raw_value(text).map_err(|error| format!("is no JSON: {error}")),
    }
}

/// Returns the line that gives a worker its task.
pub(super) fn give(id: u64, task: &RawValue) -> Vec<u8> {
    format!("{{\"id\":{id},\"task\":{}}}\n", OneLine(task)).into_bytes()
}

/// Returns the line of output for a task.
pub(super) fn tell(id: u64, task: &RawValue, answer: Result<&RawValue, &str>) -> Vec<u8> {
    let answer = match answer {
        Ok(result) => format!("\"result\":{}", OneLine(result)),
        Err(error) => format!("\"error\":{}", serde_json::Value::from(error)),
    };
    format!("{{\"id\":{id},\"task\":{},{answer}}}\n", OneLine(task)).into_bytes()
}

/// JSON on one line. Line breaks occur only between tokens, where blanks are equivalent.
struct OneLine<'a>(&'a RawValue);

impl std::fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.get();
        if text.contains(['\n', '\r']) {
            return f.write_str(&text.replace(['\n', '\r'], " "));
        }
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    #[test]
    fn workers_are_understood() {
        let said = |line: &str| format!("{:?}", parse(line.as_bytes()).unwrap());
        let result = said(r#" {"result": [1, 2.50], "id": 7} "#);
        assert!(result.contains("id: 7") && result.contains("[1, 2.50]"), "{result}");
        let null = said(r#"{"id":7,"result":null}"#);
        assert!(null.contains("null"), "{null}");
        assert!(said(r#"{"id":7,"error":"no"}"#).contains(r#"Err("no")"#));
        assert!(said(r#"{"task":null}"#).contains("priority: 0"));
        assert!(said(r#"{"task":{"a":1},"priority":-3}"#).contains("priority: -3"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, why) in [
            ("", "not JSON"),
            ("hello", "not JSON"),
            ("{\"id\":7,\"result\":1} x", "not JSON"),
            ("[1", "not JSON"),
            ("7", "expected an object"),
            ("{}", "neither id and result"),
            ("{\"id\":7}", "neither id and result"),
            ("{\"id\":7,\"result\":1,\"error\":\"x\"}", "neither id and result"),
            ("{\"id\":7,\"task\":1}", "neither id and result"),
            ("{\"id\":7,\"results\":1}", "unknown field `results`"),
            ("{\"id\":-7,\"result\":1}", "invalid value: integer `-7`"),
            ("{\"id\":7,\"error\":3}", "invalid type: integer `3`"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
        assert_eq!(parse(b"\xff\xfe").unwrap_err(), "not JSON");
        assert_eq!(task(b"\xff").unwrap_err(), "is not UTF-8");
    }

    #[test]
    fn values_stay_as_they_are() {
        let long = "[123456789012345678901234567890, 0.10]";
        assert_eq!(
            give(1, &task(long.as_bytes()).unwrap()),
            format!("{{\"id\":1,\"task\":{long}}}\n").into_bytes()
        );
        assert_eq!(
            give(2, &task(b"a \"b\" c").unwrap()),
            b"{\"id\":2,\"task\":\"a \\\"b\\\" c\"}\n"
        );
        assert_eq!(give(3, &task(b"[1,\n2]").unwrap()), b"{\"id\":3,\"task\":[1, 2]}\n");
        let text = tell(4, &task(b"x").unwrap(), Err("no\nway"));
        assert_eq!(text, b"{\"id\":4,\"task\":\"x\",\"error\":\"no\\nway\"}\n");
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn every_text_is_a_task_of_one_line(text in "\\PC*|[\\[\\]{}\",:0-9 \n]{0,8}") {
            let line = give(1, &task(text.as_bytes()).unwrap());
            prop_assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let expected = serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text));
            prop_assert_eq!(&value["task"], &expected);
        }

        #[test]
        fn no_line_makes_the_parser_panic(line in "\\PC*") {
            let _ = parse(line.as_bytes());
        }
    }
}
