//! Checks of the pages of reports in a headless Chromium, for tests of several crates.

mod devtools;

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use syncline_testkit::{Tool, is_quick};

use crate::devtools::Devtools;

/// Records what the page prints to the console, its exceptions, and what its policy refuses.
const RECORD: &str = r#"
window.faults = [];
for (const level of ["error", "warn", "assert"]) {
  const before = console[level];
  console[level] = (...words) => {
    if (level !== "assert" || !words[0]) window.faults.push(`console.${level}: ${words.join(" ")}`);
    before.apply(console, words);
  };
}
addEventListener("error", (e) => window.faults.push(`exception: ${e.message} ${e.error?.stack ?? ""}`));
addEventListener("unhandledrejection", (e) => window.faults.push(`rejection: ${e.reason?.stack ?? e.reason}`));
addEventListener("securitypolicyviolation", (e) => window.faults.push(`refused: ${e.violatedDirective} ${e.blockedURI}`));
"#;

const WALK: &str = include_str!("walk.js");

/// A headless Chromium that checks pages.
#[derive(Debug)]
pub struct Browser(Mutex<Devtools>);

/// A page that is open in a browser. It is closed when it is dropped.
struct Tab<'b> {
    browser: &'b Browser,
    target: Value,
    session: String,
}

/// What a page shows.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The names of the panels.
    pub panels: Vec<String>,
    /// The names of the panels that say why they have no data.
    pub empty: Vec<String>,
    /// The number of charts and drawings.
    pub charts: usize,
    /// The headline.
    pub headline: String,
    /// The visible text of the page.
    pub text: String,
}

impl Browser {
    /// Starts Chromium if it is installed; otherwise prints that tests are skipped.
    ///
    /// # Panics
    /// If Chromium is installed and cannot be started.
    #[must_use]
    pub fn find() -> Option<Self> {
        if is_quick() {
            println!("skipped: only `make test-full` looks at pages in a browser");
            return None;
        }
        let tool = Tool::find("chromium")?;
        Some(Browser(Mutex::new(Devtools::start(tool.name()))))
    }

    /// Walks through a page: every entry of the navigation, slider, switch and table, on a desktop,
    /// on a phone and in print. Returns what the page shows.
    ///
    /// # Panics
    /// With all [faults](Self::faults).
    #[must_use]
    pub fn check_page(&self, path: &Path) -> Seen {
        let (seen, faults) = self.faults(path);
        assert!(faults.is_empty(), "{}:\n{}", path.display(), faults.join("\n"));
        seen
    }

    /// Walks through a page as [`check_page`](Self::check_page). Returns what the page shows, and
    /// its faults: a blank chart, a page wider than a phone, a message of the level of a warning or
    /// an error on the console, an exception, a request to a network.
    ///
    /// # Panics
    /// If the page cannot be opened, or does not answer.
    #[must_use]
    pub fn faults(&self, path: &Path) -> (Seen, Vec<String>) {
        let mut faults = Vec::new();
        let tab = self.open(path);
        faults.extend(tab.texts("walk.desktop()"));
        tab.size(390, 844);
        faults.extend(tab.texts("walk.phone()"));
        tab.size(1280, 900);
        tab.media("print", "dark");
        faults.extend(tab.texts("walk.print()"));
        tab.media("", "light");
        if !tab.pdf().starts_with(b"%PDF") {
            faults.push("the print is not a PDF".to_owned());
        }
        faults.extend(tab.texts("JSON.stringify(window.faults)"));
        let seen = tab.seen();
        faults.extend(tab.events().iter().filter_map(fault));
        (seen, faults)
    }

    /// Writes pictures of a page into a folder: `light.png`, `dark.png`, `phone.png`, `print.pdf`.
    ///
    /// # Panics
    /// If a picture cannot be made or written.
    pub fn pictures(&self, path: &Path, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let tab = self.open(path);
        for (name, width, scheme) in
            [("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light")]
        {
            tab.media("", scheme);
            tab.size(width, 900);
            let height = tab.text("String(document.documentElement.scrollHeight)");
            let height: u32 = height.parse().expect("the height of the page");
            tab.size(width, height);
            let _ = tab.texts("walk.phone()");
            let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
            let options = json!({ "format": "png", "clip": clip });
            let picture = tab.call("Page.captureScreenshot", options);
            fs::write(folder.join(format!("{name}.png")), decoded(&picture["data"])).unwrap();
        }
        tab.size(1280, 900);
        fs::write(folder.join("print.pdf"), tab.pdf()).unwrap();
    }

    /// Opens a page.
    fn open(&self, path: &Path) -> Tab<'_> {
        let path = path.canonicalize().expect("the page exists");
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let target = target["targetId"].clone();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", attach);
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        let tab = Tab { browser: self, target, session };
        for domain in ["Log", "Runtime", "Page"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        tab.call("Page.bringToFront", json!({}));
        tab.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        let source = json!({ "source": format!("{RECORD}{WALK}") });
        tab.call("Page.addScriptToEvaluateOnNewDocument", source);
        tab.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        self.lock().wait(&tab.session, "Page.loadEventFired");
        tab
    }

    fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.lock().call(session, method, parameters)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Devtools> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks a page as [`Browser::check_page`], or prints that there is no browser.
///
/// # Panics
/// With all faults of the page.
pub fn check_page(path: &Path) -> Option<Seen> {
    Browser::find().map(|browser| browser.check_page(path))
}

impl Tab<'_> {
    fn call(&self, method: &str, parameters: Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    fn events(&self) -> Vec<Value> {
        self.browser.lock().events(&self.session)
    }

    /// Returns the text that an expression of the page gives.
    fn text(&self, expression: &str) -> String {
        let evaluate = json!({ "expression": expression, "awaitPromise": true });
        let value = self.call("Runtime.evaluate", evaluate);
        match &value["result"]["value"] {
            Value::String(text) => text.clone(),
            _ => panic!("{expression} throws: {value}"),
        }
    }

    fn texts(&self, expression: &str) -> Vec<String> {
        serde_json::from_str(&self.text(expression)).expect("a list of texts")
    }

    fn seen(&self) -> Seen {
        let seen: Value = serde_json::from_str(&self.text("walk.seen()")).expect("JSON");
        let names = |key: &str| {
            let names = seen[key].as_array().into_iter().flatten();
            names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
        };
        let word = |key: &str| seen[key].as_str().unwrap_or_default().to_owned();
        Seen {
            panels: names("panels"),
            empty: names("empty"),
            charts: seen["charts"].as_u64().unwrap_or(0) as usize,
            headline: word("headline"),
            text: word("text"),
        }
    }

    /// Sets the size of the window.
    fn size(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Sets the medium, and the scheme of colours that the reader prefers.
    fn media(&self, media: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let media = json!({ "media": media, "features": features });
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// Returns the print on A4.
    fn pdf(&self) -> Vec<u8> {
        let paper = json!({ "paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": true });
        decoded(&self.call("Page.printToPDF", paper)["data"])
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.browser.call(None, "Target.closeTarget", json!({ "targetId": self.target }));
        }
    }
}

/// Returns what is wrong if an event is a message of the log or an exception.
fn fault(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Log.entryAdded" => {
            let entry = &parameters["entry"];
            let bad = ["error", "warning"].contains(&entry["level"].as_str()?);
            bad.then(|| format!("log: {} {}", entry["text"], entry["url"]))
        }
        "Runtime.exceptionThrown" => {
            Some(format!("exception: {}", parameters["exceptionDetails"]["exception"]))
        }
        _ => None,
    }
}

/// Returns the bytes of a text in base 64.
fn decoded(text: &Value) -> Vec<u8> {
    let digits = text.as_str().unwrap_or_default().bytes().filter_map(|c| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
