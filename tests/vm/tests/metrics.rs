//! The agent's metrics, scraped as Prometheus does: every line held against the format's grammar, the numbers against what was done.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's helpers may panic as the test may"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vm_tests::{kestrel, shell};

const TABLE: &str = r#"
buffer main { size = 64K }
buffer kept { size = 1M; mode = stream }
table main {
  syscalls:sys_enter_getppid /comm == "calls"/ {
    record(comm);
    @calls = count(); @by[comm, "a\"b\\c"] = count(); @sizes = hist(pid); @lines = lhist(2, 0, 10, 2);
    @sum = sum(pid); @mean = avg(3); @last = 5; @name = comm;
    notify("called")
  }
}
table quiet { }
"#;

const PORT: u16 = 9464;

/// One sample: its name, its labels in order, its number.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// A page as its grammar has it: families in one piece each, with help and type before their samples.
fn parse(page: &str, open: bool) -> Vec<Sample> {
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut current = String::new();
    let mut samples: Vec<Sample> = Vec::new();
    let body = if open {
        page.strip_suffix("# EOF\n").expect("OpenMetrics ends with # EOF")
    } else {
        page
    };
    assert!(body.ends_with('\n') && !body.contains('\r'));
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("help has words");
            assert!(is_name(name) && !words.is_empty(), "{line}");
            assert!(closed.insert(name.to_owned()), "{name} is there twice");
            name.clone_into(&mut current);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type has a name");
            assert_eq!(name, current, "the type comes after the help");
            assert!(
                ["counter", "gauge", "summary", "histogram"].contains(&kind),
                "{line}"
            );
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none());
            assert_eq!(kind == "counter" && !open, name.ends_with("_total"), "{line}");
        } else {
            let sample = parse_sample(line);
            let suffix = sample
                .name
                .strip_prefix(&current)
                .expect("a sample is of its family");
            let may: &[&str] = match kinds[&current].as_str() {
                "counter" if open => &["_total"],
                "counter" | "gauge" => &[""],
                "summary" => &["_sum", "_count"],
                _ => &["_bucket", "_count"],
            };
            assert!(may.contains(&suffix), "{line}");
            assert_eq!(sample.labels.contains_key("le"), suffix == "_bucket", "{line}");
            let same = |other: &Sample| other.name == sample.name && other.labels == sample.labels;
            assert!(!samples.iter().any(same), "twice: {line}");
            samples.push(sample);
        }
    }
    buckets_grow(&samples);
    samples
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parse_sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a sample has a number");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value in quotes");
            assert!(is_name(label), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let close = loop {
                match chars.next().expect("quotes are closed") {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().expect("something is escaped").1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        c => panic!("\\{c} in {line}"),
                    },
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &after[close + 1..];
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            rest = rest.strip_prefix(',').expect("labels are divided by commas");
        }
    }
    let number = rest.strip_prefix(' ').expect("a space before the number");
    assert!(!number.contains(' '), "{line}");
    Sample {
        name: name.to_owned(),
        labels,
        value: number.parse().unwrap_or_else(|_| panic!("{line}")),
    }
}

/// Buckets are in order, cumulative, and end with all.
fn buckets_grow(samples: &[Sample]) {
    type Labels = BTreeMap<String, String>;
    let mut series: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let mut labels = sample.labels.clone();
        if let Some(le) = labels.remove("le") {
            let name = sample.name.trim_end_matches("_bucket").to_owned();
            let le = le.trim_start_matches('+').parse().unwrap();
            series.entry((name, labels)).or_default().push((le, sample.value));
        }
    }
    for ((name, labels), buckets) in series {
        assert!(
            buckets
                .windows(2)
                .all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1),
            "{name} {buckets:?}"
        );
        let count = format!("{name}_count");
        let count = samples
            .iter()
            .find(|s| s.name == count && s.labels == labels)
            .unwrap();
        assert_eq!(buckets.last().copied(), Some((f64::INFINITY, count.value)));
    }
}

fn request(head: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", PORT))?;
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn scrape(accept: &str) -> (String, String) {
    let answer = request(&format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"
    ))
    .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    (head.to_owned(), body.to_owned())
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |s: &&Sample| {
        s.name == name
            && labels
                .iter()
                .all(|(label, value)| s.labels.get(*label).is_some_and(|v| v == value))
    };
    let found: Vec<&Sample> = samples.iter().filter(fits).collect();
    assert!(!found.is_empty(), "no {name} {labels:?}");
    found.iter().map(|s| s.value).sum()
}

fn agent(options: &[&str]) -> Child {
    let mut command = Command::new("kestrel");
    command
        .arg("agent")
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let agent = command.spawn().unwrap();
    let begun = Instant::now();
    while request("GET / HTTP/1.1\r\n\r\n").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody listens");
        std::thread::sleep(Duration::from_millis(2));
    }
    agent
}

#[test]
fn metrics_count_the_actions_in_both_formats() {
    std::fs::write("/tmp/metrics.kst", TABLE).unwrap();
    // Where it is up already, or there is no such program, the scrape says so.
    let _ = shell("ip link set lo up 2>/dev/null || ifconfig lo 127.0.0.1 up");
    let refused = kestrel(&["agent", "--metrics", "0.0.0.0:9464"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("--metrics-anywhere"), "{}", refused.err);
    kestrel(&["start", "first", "/tmp/metrics.kst"]).success();
    kestrel(&["start", "second", "/tmp/metrics.kst", "--table", "quiet"]).success();
    let mut agent = agent(&[
        "--metrics",
        "127.0.0.1:9464",
        "--run-times",
        "--log",
        "/tmp/metrics.log",
    ]);
    shell("calls getppid 100").success();
    let begun = Instant::now();
    let samples = loop {
        let (head, page) = scrape("text/plain; version=0.0.4");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        let samples = parse(&page, false);
        let shown = samples.iter().find(|s| {
            s.name == "kestrel_agent_messages_total"
                && s.labels["session"] == "first"
                && s.labels["outcome"] == "shown"
        });
        let runs = value(&samples, "kestrel_hook_missed_total", &[("session", "first")]);
        if shown.is_some_and(|shown| shown.value + runs >= 100.0) {
            break samples;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{page}");
    };
    let get = |name: &str, labels: &[(&str, &str)]| value(&samples, name, labels);
    let first = ("session", "first");
    let missed = get("kestrel_hook_missed_total", &[first]);
    let about = |n: f64, of: f64| n <= of && n >= of - missed;
    assert_eq!(get("kestrel_sessions", &[]), 2.0);
    assert_eq!(get("kestrel_table_active", &[first, ("table", "main")]), 1.0);
    assert_eq!(get("kestrel_table_active", &[first, ("table", "quiet")]), 0.0);
    assert_eq!(
        get(
            "kestrel_table_active",
            &[("session", "second"), ("table", "quiet")]
        ),
        1.0
    );
    assert_eq!(
        get(
            "kestrel_buffer_size_bytes",
            &[first, ("buffer", "main"), ("cpu", "0")]
        ),
        65536.0
    );
    assert!(about(
        get("kestrel_buffer_recorded_total", &[first, ("buffer", "main")]),
        100.0
    ));
    assert!(about(
        get("kestrel_map_count_total", &[first, ("map", "@calls")]),
        100.0
    ));
    assert!(about(
        get(
            "kestrel_map_count_total",
            &[first, ("key1", "calls"), ("key2", "a\"b\\c")]
        ),
        100.0
    ));
    assert!(about(
        get("kestrel_map_histogram_count", &[first, ("map", "@sizes")]),
        100.0
    ));
    assert_eq!(
        get(
            "kestrel_map_histogram_bucket",
            &[first, ("map", "@lines"), ("le", "1")]
        ),
        0.0
    );
    assert!(about(
        get(
            "kestrel_map_histogram_bucket",
            &[first, ("map", "@lines"), ("le", "3")]
        ),
        100.0
    ));
    assert!(about(
        get("kestrel_map_mean_sum", &[first, ("map", "@mean")]) / 3.0,
        100.0
    ));
    assert_eq!(get("kestrel_map_value", &[first, ("map", "@last")]), 5.0);
    assert!(get("kestrel_handler_recorded_total", &[first, ("table", "main")]) > 0.0);
    assert!(get("kestrel_hook_runs_total", &[first]) >= 100.0 - missed);
    assert!(get("kestrel_hook_run_seconds_total", &[first]) > 0.0);
    assert_eq!(get("kestrel_log_stalled", &[first]), 0.0);
    assert!(
        !samples
            .iter()
            .any(|s| s.labels.get("map").is_some_and(|map| map == "@name") && s.name == "kestrel_map_value")
    );
    let (head, page) = scrape("application/openmetrics-text; version=1.0.0, text/plain;q=0.5");
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    let open = parse(&page, true);
    assert!(
        open.len() >= samples.len() - 2,
        "{} and {}",
        open.len(),
        samples.len()
    );
    assert!(
        request("POST /metrics HTTP/1.1\r\n\r\n")
            .unwrap()
            .starts_with("HTTP/1.1 405")
    );
    agent.kill().unwrap();
    agent.wait().unwrap();
    kestrel(&["stop", "first"]).success();
    kestrel(&["stop", "second"]).success();
}
