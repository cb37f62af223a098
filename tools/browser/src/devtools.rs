//! Chromium's protocol for developers' tools over a pair of pipes.
//!
//! Messages are JSON objects, each ended by a zero byte. The pipes need no port and no crate for
//! WebSockets, and a browser that is newer than this client may send events that it does not know.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A limit far beyond the time of any call, on a busy machine as well.
const LIMIT: Duration = Duration::from_secs(120);

/// The time in which the browser ends by itself.
const FAREWELL: Duration = Duration::from_secs(10);

/// A headless Chromium and the pipes to it.
#[derive(Debug)]
pub(crate) struct Devtools {
    /// The browser, the leader of its process group.
    child: Child,
    /// What the browser reads.
    to: ChildStdin,
    /// The messages of the browser.
    from: Receiver<Value>,
    /// The number of the last call.
    last: u64,
    /// Events that have arrived and were not taken.
    events: Vec<Value>,
    /// The folder of the browser's own files, removed at the end.
    folder: PathBuf,
}

impl Devtools {
    /// Starts the browser.
    ///
    /// # Panics
    /// If it cannot be started.
    pub(crate) fn start(program: &str) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);

        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("syncline-browser-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a folder for the browser");
        // The browser reads descriptor 3 and writes descriptor 4. Its sandbox does not start as
        // root, nor in most containers.
        let script = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;
        let mut child = Command::new("sh")
            .args(["-c", script, program, "--headless", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
            .args(["--disable-sync", "--disable-breakpad", "--window-size=1280,900"])
            // A page that the browser takes for hidden would not draw.
            .args(["--disable-renderer-backgrounding", "--disable-background-timer-throttling"])
            .arg("--disable-backgrounding-occluded-windows")
            .arg(format!("--user-data-dir={}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let to = child.stdin.take().expect("a pipe");
        let mut pipe = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, from) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            while pipe.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                let message = serde_json::from_slice(bytes.strip_suffix(&[0]).unwrap_or(&bytes));
                if message.is_ok_and(|message: Value| sender.send(message).is_err()) {
                    break;
                }
                bytes.clear();
            }
        });
        Devtools { child, to, from, last: 0, events: Vec::new(), folder }
    }

    /// Calls a method, of a page if a session is given, and returns its result.
    ///
    /// # Panics
    /// If the browser returns an error, has ended, or does not answer.
    pub(crate) fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser runs");
        loop {
            let mut answer = self.receive(method);
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    /// Waits for an event of a session, and keeps it.
    ///
    /// # Panics
    /// If the browser has ended, or the event does not occur.
    pub(crate) fn wait(&mut self, session: &str, event: &str) {
        let is = |message: &Value| message["method"] == event && message["sessionId"] == session;
        while !self.events.iter().any(is) {
            self.receive(event);
        }
    }

    /// Takes the events that have arrived in a session.
    pub(crate) fn events(&mut self, session: &str) -> Vec<Value> {
        let of = |event: &mut Value| event["sessionId"] == session;
        self.events.extract_if(.., of).collect()
    }

    /// Receives a message. An event is kept as well.
    fn receive(&mut self, what: &str) -> Value {
        match self.from.recv_timeout(LIMIT) {
            Ok(message) => {
                if message["method"].is_string() {
                    self.events.push(message.clone());
                }
                message
            }
            Err(RecvTimeoutError::Timeout) => panic!("the browser does not answer: {what}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser has ended: {what}"),
        }
    }
}

impl Drop for Devtools {
    fn drop(&mut self) {
        let close = json!({ "id": self.last + 1, "method": "Browser.close" });
        let _ = self.to.write_all(format!("{close}\0").as_bytes());
        let late = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < late {
            thread::sleep(Duration::from_millis(5));
        }
        // What remains of the group: `kill` is the shell's builtin.
        let group = self.child.id().to_string();
        let _ = Command::new("sh")
            .args(["-c", "kill -s KILL -- -$0", &group])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
