//! Lines for `kprobe_events`, made at random: the kernel and `kestrel probe add` take and refuse the same ones, and record the same values.

use super::{DEFINITIONS, TRACEFS, no_probes};
use kestrel::Error;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::session::named::{SESSION, check, kernel_line};
use kestrel::session::store::Store;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::time::Instant;
use vm_tests::recording::records;
use vm_tests::{kestrel, lines, until};

/// How many lines of the kernel's are tried, by the environment; and from which seed on.
fn lines_wanted(otherwise: usize) -> (usize, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("KESTREL_LINES").map_or(otherwise, |count| count as usize);
    (count, number("KESTREL_LINES_SEED").unwrap_or(1))
}

/// The kernel's event of a line, if it takes the line; it is removed again.
fn kernel_takes(line: &str) -> Option<String> {
    let mut definitions = fs::OpenOptions::new().append(true).open(DEFINITIONS).unwrap();
    definitions.write_all(format!("{line}\n").as_bytes()).ok()?;
    let defined = fs::read_to_string(DEFINITIONS).unwrap();
    // Emptied by being opened.
    fs::File::create(DEFINITIONS).unwrap();
    // Of a remark it makes nothing.
    Some(defined).filter(|defined| !defined.is_empty())
}

#[test]
fn lines_are_taken_and_refused_as_by_the_kernel() {
    no_probes();
    let (count, seed) = lines_wanted(300);
    let catalog = Catalog::new(Host::default());
    let newest = fs::read_to_string(format!("{TRACEFS}/README"))
        .unwrap()
        .contains("<argname>");
    let mut random = lines::Random::new(seed);
    let address = catalog
        .symbols()
        .unwrap()
        .named("vfs_read")
        .next()
        .unwrap()
        .address;
    let (mut taken, mut wrong) = (0, Vec::new());
    let begun = Instant::now();
    for number in 0..count {
        let line = lines::any(&mut random, number, address);
        let defined = kernel_takes(&line.text);
        let theirs = defined.is_some();
        let read = kernel_line::read(&line.text, &catalog);
        let ours = read.and_then(|request| check(&request, &catalog).map(|_| request));
        taken += usize::from(theirs);
        match &ours {
            Ok(request) if !theirs && (newest || !line.new) => {
                wrong.push(format!(
                    "the kernel refuses `{}`, which is taken as {}",
                    line.text, request.source
                ));
            }
            // 6.18 looks for the closing quote before the text, and finds the opening one (`__parse_imm_string`); others of the matrix refuse it.
            Err(_)
                if theirs
                    && line
                        .text
                        .split(' ')
                        .any(|word| word.ends_with("\\\"") && word.matches('"').count() == 1) => {}
            Err(error @ Error::KernelLine { .. }) if theirs => {
                wrong.push(format!("the kernel takes `{}`: {error}", line.text));
            }
            // The text of an error is not in its own words.
            Err(error) if theirs => wrong.push(format!("the kernel takes `{}`: {error:?}", line.text)),
            Ok(request) => {
                let named = defined.as_deref().and_then(|line| line.split([':', ' ']).nth(1));
                // An event without a group is in the kernel's group `kprobes`; a group of ours does not begin like an option.
                let group = if request.name.contains('/') {
                    ""
                } else {
                    "kprobes/"
                };
                let own = format!("{group}{}", request.name);
                // An address that a name is made of is not the kernel's to tell.
                let named = named.filter(|named| !named.contains("_0x"));
                if named.is_some_and(|named| named != own && named.replacen('-', "_", 1) != own) {
                    wrong.push(format!("`{}` is {named:?}, and {own} here", line.text));
                }
            }
            Err(_) => {}
        }
    }
    println!(
        "{count} lines from seed {seed}, {taken} taken by the kernel, in {:?}",
        begun.elapsed()
    );
    assert!(
        taken * 20 > count && taken < count,
        "lines are right and wrong: {taken}"
    );
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The names of an event's own fields.
fn own_fields(event: &str) -> Vec<String> {
    let format = fs::read_to_string(format!("{TRACEFS}/events/kt/{event}/format")).unwrap();
    let names = format.lines().filter_map(|line| {
        let (field, _) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let name = field.rsplit(' ').next()?.split('[').next()?;
        (!name.starts_with("common_") && !name.starts_with("__probe_")).then(|| name.to_owned())
    });
    names.collect()
}

/// A number as either shows it, as 64 bits.
fn bits(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text
            .parse::<u64>()
            .ok()
            .or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
    }
}

/// Whether a value is the kernel's: `0x12`, `-1`, `"text"`, `vfs_read+0x4/0x90`, `(fault)`.
fn same(theirs: &str, ours: &Value) -> bool {
    let text = match ours {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(bool) => u8::from(*bool).to_string(),
        Value::Null => return theirs == "(fault)" || theirs == "\"(fault)\"",
        other => other.to_string(),
    };
    if theirs == "(fault)" {
        return matches!(text.as_str(), "" | "(fault)" | "0");
    }
    // A letter is a number here.
    if let Some(letter) = theirs.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return letter.bytes().next().map(u64::from) == bits(&text);
    }
    if let Some(quoted) = theirs.strip_prefix('"') {
        let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
        return quoted == text.trim_end_matches('\n') || quoted.split('/').next() == Some(text.as_str());
    }
    // A function's name with an offset of 0 is its name alone.
    let symbol = theirs.split('/').next().unwrap_or(theirs);
    if [symbol, symbol.trim_end_matches("+0x0")].contains(&text.as_str()) {
        return true;
    }
    bits(theirs).is_some_and(|number| Some(number) == bits(&text))
}

/// Lines whose values are compared at a time.
const BATCH: usize = 50;

#[test]
fn records_of_kernel_lines_equal_those_of_kprobe_events() {
    no_probes();
    let (count, seed) = lines_wanted(30);
    let catalog = Catalog::new(Host::default());
    let store = Store::open(&Host::default()).unwrap();
    let mut random = lines::Random::new(seed);
    fs::write("/tmp/kestrel-line", "something to read").unwrap();
    let tracefs = |file: &str, text: &str| fs::write(format!("{TRACEFS}/{file}"), text).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for batch in 0..count.div_ceil(BATCH) {
        let mut requests = Vec::new();
        let mut texts = Vec::new();
        for number in batch * BATCH..count.min((batch + 1) * BATCH) {
            let line = lines::valued(&mut random, number);
            let mut definitions = fs::OpenOptions::new().append(true).open(DEFINITIONS).unwrap();
            if definitions
                .write_all(format!("{}\n", line.text).as_bytes())
                .is_err()
            {
                assert!(
                    line.new || line.text.starts_with('r'),
                    "the kernel refuses {}",
                    line.text
                );
                continue;
            }
            requests.push(kernel_line::read(&line.text, &catalog).unwrap());
            texts.push((format!("v{number}"), line.text));
        }
        let added = store
            .add_probes(SESSION, &requests, false, &catalog, "test")
            .unwrap();
        assert!(added.left_out.is_empty(), "{added:?}");
        tracefs("trace", "");
        tracefs("events/kt/enable", "1");
        let reader = std::thread::Builder::new().name("reader".to_owned()).spawn(|| {
            let mut file = fs::File::open("/tmp/kestrel-line").unwrap();
            std::io::Read::read(&mut file, &mut [0; 9]).unwrap();
            rustix::thread::gettid().as_raw_nonzero().get()
        });
        let thread = reader.unwrap().join().unwrap();
        tracefs("events/kt/enable", "0");
        // The kernel's name for itself ends with the end of a line.
        let trace = fs::read_to_string(format!("{TRACEFS}/trace"))
            .unwrap()
            .replace("\n\"", "\"");
        let directory = format!("/tmp/lines-{batch}");
        kestrel(&["buffer", "dump", "--session", SESSION, "-o", &directory]).success();
        let all = records(&directory);
        for (name, text) in &texts {
            let fields = own_fields(name);
            let own = format!("-{thread} ");
            let theirs: Vec<Vec<String>> = trace
                .lines()
                .filter(|line| line.contains(&own))
                .filter_map(|line| lines::shown(line, name, &fields))
                .collect();
            let event = format!("kt/{name}");
            let ours: Vec<_> = all
                .iter()
                .filter(|record| record.event == event && record.tid == u64::from(thread.cast_unsigned()))
                .collect();
            // An interrupt may have hidden one of them.
            if theirs.len() != ours.len() {
                println!("{text}: {} and {} hits", theirs.len(), ours.len());
                continue;
            }
            for (theirs, ours) in theirs.iter().zip(&ours) {
                for (field, theirs) in fields.iter().zip(theirs) {
                    let elements = theirs.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                    let pairs: Vec<(String, &str)> = match elements {
                        None => vec![(field.clone(), theirs.as_str())],
                        Some(elements) => (0..)
                            .map(|n| format!("{field}_{n}"))
                            .zip(elements.split(','))
                            .collect(),
                    };
                    for (field, theirs) in pairs {
                        compared += 1;
                        let found = ours.fields.get(&field).unwrap_or(&Value::Null);
                        if !same(theirs, found) {
                            wrong.push(format!("{text}: {field} is {theirs}, recorded {found}"));
                        }
                    }
                }
            }
        }
        store.stop(Some(SESSION)).unwrap();
        until("the kernel's own events to go", || {
            fs::File::create(DEFINITIONS).is_ok()
        });
        no_probes();
    }
    println!("{compared} values of {count} lines from seed {seed}");
    assert!(compared > count, "most lines were hit: {compared} values");
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
