//! A Chromium without a window, driven over two pipes by its DevTools protocol: messages of JSON with a NUL behind each.
#![allow(clippy::expect_used, reason = "a test ends where its browser does")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The names that the program has.
const PROGRAMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// The browser's inherited descriptors 3 and 4 are the pipes; the shell has them at hand as its standard input and output.
const START: &str = "exec \"$0\" --headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --remote-debugging-pipe \
     --user-data-dir=\"$1\" about:blank 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

/// Far longer than any answer takes on a busy machine: it ends tests of a browser that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The size of the page, in CSS pixels.
const SIZE: (u32, u32) = (1400, 900);

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: Option<String>,
    number: u64,
    problems: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it; none, and said so, where no Chromium is installed.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start() -> Option<Self> {
        let there = |program: &&&str| {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .output();
            found.is_ok_and(|found| found.status.success())
        };
        let Some(program) = PROGRAMS.iter().find(there) else {
            eprintln!("skipped: none of {} is installed", PROGRAMS.join(", "));
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder for the browser");
        let mut process = Command::new("sh")
            .args(["-c", START, program])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = process.stdin.take().expect("a pipe");
        let mut pipe = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, output) = channel();
        // An answer can be waited for with a limit at a channel, not at a pipe.
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            process,
            input,
            output,
            session: None,
            number: 0,
            problems: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.call("Runtime.enable", json!({}));
        browser.call("Log.enable", json!({}));
        browser.call("Page.enable", json!({}));
        let (width, height) = SIZE;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", metrics);
        Some(browser)
    }

    /// Sets the colour scheme that the system prefers: `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Opens a file, and waits until an expression is true in it.
    ///
    /// # Panics
    /// Where that does not come.
    pub fn open(&mut self, file: &Path, ready: &str) {
        self.call(
            "Page.navigate",
            json!({ "url": format!("file://{}", file.display()) }),
        );
        self.until(ready);
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// Where it does not become so.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.evaluate(&format!("Boolean({expression})")) != json!(true) {
            assert!(
                begun.elapsed() < PATIENCE,
                "`{expression}` never was; {:?}",
                self.problems
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The value of an expression; of a promise, its result.
    ///
    /// # Panics
    /// Where it throws.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let wanted = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", wanted);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// An event of the mouse: `mousePressed`, `mouseMoved`, `mouseReleased`, `mouseWheel`; `more` says the rest.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64), more: Value) {
        let mut event = json!({ "type": kind, "x": x, "y": y });
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Presses a button at one point and lets it go at another; `modifiers` as the protocol counts them: 8 is Shift.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64), modifiers: u8) {
        let held = json!({ "button": "left", "buttons": 1, "clickCount": 1, "modifiers": modifiers });
        self.mouse("mousePressed", from, held.clone());
        if from != to {
            self.mouse(
                "mouseMoved",
                ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0),
                held.clone(),
            );
            self.mouse("mouseMoved", to, held.clone());
        }
        self.mouse("mouseReleased", to, held);
    }

    /// Presses and lets go a key: `w`, `ArrowUp`, `Enter`.
    pub fn key(&mut self, key: &str) {
        let mut down = json!({ "type": "keyDown", "key": key });
        if key.chars().count() == 1 {
            down["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// Errors of scripts, and requests to a network, so far.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    #[track_caller]
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("a browser that listens");
        loop {
            let answer = self.output.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|_| panic!("no answer to {method}; {:?}", self.problems));
            if answer["id"] == json!(self.number) {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            let problem = match answer["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Log.entryAdded") => answer["params"]["entry"]["level"] == "error",
                Some("Runtime.consoleAPICalled") => answer["params"]["type"] == "error",
                _ => false,
            };
            if problem {
                self.problems.push(answer["params"].to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
