//! Damages recordings at random and takes them through everything that reads some: `damage WORK FIRST COUNT RECORDING…`. For hand use.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "an example for hand use")]

use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::ProgramText;
use kestrel::replay::{Options, RecordedNames, Replaying};
use kestrel::script::Perform;
use kestrel_trace::browser::{About, Gatherer, Limits};
use kestrel_trace::convert::{self, Place, Recording, TARGETS};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::merge::Merge;
use kestrel_trace::export::{Calls, FORMATS, Layout, Shown, Style, as_calls};
use kestrel_trace::import;
use kestrel_trace::report::{self, Report};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n.max(1)
    }
}

const PROGRAMS: &[&str] = &[
    "syscalls:sys_enter_openat { @f[tid] = args.filename } syscalls:sys_exit_openat /@f[tid]/ { printf(\"%s %s %d\\n\", comm, str(@f[tid]), args.ret); delete(@f, tid) } syscalls:sys_exit_read { @r = hist(args.ret) }",
    "syscalls:sys_enter_execve { join(args.argv); printf(\"%s\", str(args.filename)) } syscalls:sys_enter_write { @b[buf(args.buf, 16)] = count() } syscalls:sys_enter_* { @[probe, comm] = count() }",
    "sched:sched_switch { @[args.prev_comm] = count(); @k[kstack] = count() } interval:s:1 { print(@); clear(@) }",
    "sched:* { @[probe] = count() }",
];

fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all)
        } else {
            all.push(path)
        }
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

fn damage(random: &mut Random, file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let n = bytes.len();
    if n == 0 {
        return;
    }
    match random.below(8) {
        0 => bytes.truncate(random.below(n)),
        1 => {
            let at = random.below(n);
            let len = random.below(64) + 1;
            for b in bytes.iter_mut().skip(at).take(len) {
                *b = 0xff
            }
        }
        2 => {
            let at = random.below(n);
            let len = random.below(200) + 1;
            for b in bytes.iter_mut().skip(at).take(len) {
                *b = 0
            }
        }
        3 => {
            let (at, from, len) = (random.below(n), random.below(n), random.below(300));
            let part: Vec<u8> = bytes.iter().skip(from).take(len).copied().collect();
            let end = (at + random.below(300)).min(n);
            bytes.splice(at..end, part);
        }
        4 => {
            let at = random.below(n) & !7;
            let word = [0u64, u64::MAX, 1 << 63, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 4096][random.below(7)];
            for (b, v) in bytes.iter_mut().skip(at).zip(word.to_le_bytes()) {
                *b = v
            }
        }
        _ => {
            for _ in 0..=random.below(8) {
                let at = random.below(n);
                bytes[at] ^= 1 << random.below(8)
            }
        }
    }
    fs::write(file, bytes).unwrap();
}

static AT: AtomicU64 = AtomicU64::new(0);
static STEP: AtomicU64 = AtomicU64::new(0);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let work = PathBuf::from(&args[1]);
    let (first, count): (u64, u64) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let recordings: Vec<PathBuf> = args[4..].iter().map(PathBuf::from).collect();
    fs::create_dir_all(&work).unwrap();
    let root = work.join("root");
    fs::create_dir_all(&root).unwrap();
    std::thread::spawn(|| {
        let mut last = (0, 0);
        loop {
            std::thread::sleep(std::time::Duration::from_secs(20));
            let now = (AT.load(Ordering::Relaxed), STEP.load(Ordering::Relaxed));
            if now == last {
                println!("HANG at {now:?}");
                std::process::abort()
            }
            last = now;
        }
    });
    std::panic::set_hook(Box::new(|info| {
        println!(
            "PANIC at {} step {}: {info}",
            AT.load(Ordering::Relaxed),
            STEP.load(Ordering::Relaxed)
        );
    }));
    let mut words: BTreeMap<String, u64> = BTreeMap::new();
    let mut peak = 0;
    for seed in first..first + count {
        AT.store(seed, Ordering::Relaxed);
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        let which = &recordings[seed as usize % recordings.len()];
        let place = work.join("trace");
        if place.is_dir() {
            fs::remove_dir_all(&place).unwrap()
        } else {
            _ = fs::remove_file(&place)
        }
        copy(which, &place);
        let mut all = Vec::new();
        if place.is_dir() {
            files(&place, &mut all)
        } else {
            all.push(place.clone())
        }
        all.sort();
        for _ in 0..=random.below(2) {
            // Streams and descriptions alike.
            let is_stream = |f: &&PathBuf| {
                !f.components().any(|c| c.as_os_str() == ".kestrel") && !f.ends_with("metadata")
            };
            let streams: Vec<&PathBuf> = all.iter().filter(is_stream).collect();
            let file = match random.below(10) {
                0..6 if !streams.is_empty() => streams[random.below(streams.len())],
                _ => &all[random.below(all.len())],
            };
            damage(&mut random, file);
        }
        let choice = random.next();
        _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if let Err(word) = through(&place, &work, &root, choice) {
                let word: String = word
                    .chars()
                    .map(|c| if c.is_ascii_digit() { '#' } else { c })
                    .take(70)
                    .collect();
                *words.entry(word).or_default() += 1;
            }
        }));
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let rss = status
            .lines()
            .find_map(|l| l.strip_prefix("VmHWM:"))
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .unwrap();
        if rss > peak + 20_000 {
            println!("{seed}: peak {rss} kB ({})", which.display());
            peak = rss
        }
    }
    println!("done {count}, peak {peak}");
    let mut words: Vec<_> = words.into_iter().collect();
    words.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (word, n) in words.iter().take(60) {
        println!("{n:6} {word}")
    }
}

fn through(place: &Path, work: &Path, root: &Path, choice: u64) -> Result<(), String> {
    let e = |e: &dyn std::fmt::Display| e.to_string();
    let step = |n| STEP.store(n, Ordering::Relaxed);
    step(0);
    let open = || import::open(place).map_err(|x| e(&x));
    let mut outcome = Ok(());
    {
        let mut trace = open()?;
        let program = PROGRAMS[choice as usize % PROGRAMS.len()];
        let text = ProgramText::read("-e", program, Default::default(), &Default::default()).unwrap();
        let host = Host::new(root);
        let catalog = Catalog::new(host.clone());
        match Replaying::new(&text, Options::default(), &mut trace, &catalog) {
            Ok(mut replaying) => {
                step(1);
                let names = RecordedNames::new(host.clone(), &trace.reader.info().clock);
                let mut perform =
                    Perform::of_recording(trace.symbols.clone(), Arc::new(names), host, choice & 16 == 0);
                let mut run = || -> Result<(), String> {
                    replaying.begin(&mut perform).map_err(|x| e(&x))?;
                    while let Some((record, gap_ns)) = trace.reader.next_with_gap().map_err(|x| e(&x))? {
                        replaying.set_gap(gap_ns);
                        replaying.record(&record, true, &mut perform).map_err(|x| e(&x))?;
                        perform.out.clear();
                    }
                    replaying.end(&mut perform).map_err(|x| e(&x))?;
                    replaying.maps(&mut perform).map_err(|x| e(&x))
                };
                outcome = run();
                if let Some(s) = &trace.summary {
                    _ = trace.reader.absent(s);
                }
            }
            Err(x) => outcome = Err(e(&x)),
        }
    }
    step(2);
    {
        let mut trace = open()?;
        let format = &FORMATS[(choice >> 8) as usize % FORMATS.len()];
        let mut export = (format.new)(Style::default(), trace.symbols.clone(), trace.processes.clone());
        let mut out = Vec::new();
        if choice & 32 == 0 {
            let signatures = trace.calls.as_ref().map(|c| c.signatures()).unwrap_or_default();
            let mut calls = Calls::new(signatures, Shown::default(), Layout::Lines, Style::default());
            if let Err(x) = as_calls(
                &mut trace.reader,
                &mut |_| true,
                (&mut calls, export.as_mut()),
                &mut out,
                "out",
            ) {
                outcome = Err(e(&x))
            }
        } else {
            loop {
                match trace.reader.next() {
                    Ok(Some(record)) => {
                        export.record(&record, &mut out);
                        if out.len() > 1 << 20 {
                            out.clear()
                        }
                    }
                    Ok(None) => break,
                    Err(x) => {
                        outcome = Err(e(&x));
                        break;
                    }
                }
            }
            export.finish(&mut out);
        }
    }
    match (choice >> 16) % 4 {
        0 => {
            step(3);
            let mut trace = open()?;
            let calls = Calls::new(
                trace.calls.as_ref().map(|c| c.signatures()).unwrap_or_default(),
                Shown::default(),
                Layout::Lines,
                Style::default(),
            );
            let mut gatherer = Gatherer::new(
                trace.reader.info(),
                trace.symbols.clone(),
                (trace.processes.clone(), trace.tasks.clone()),
                Some(calls),
                Limits::USUAL,
            );
            let mut lost = 0;
            loop {
                let before = gatherer.last_ns();
                match trace.reader.next() {
                    Ok(Some(record)) => gatherer.record(&record, true),
                    Ok(None) => break,
                    Err(x) => {
                        outcome = Err(e(&x));
                        break;
                    }
                }
                let now = trace.reader.lost();
                if now > lost {
                    gatherer.lose(now - lost, before);
                    lost = now
                }
            }
            let page = gatherer.finish(About {
                info: trace.reader.info().clone(),
                path: "x".into(),
                missing: Vec::new(),
                notes: Vec::new(),
            });
            _ = page.bytes().len();
        }
        1 => {
            let target = &TARGETS[(choice >> 24) as usize % TARGETS.len()];
            step(10 + (choice >> 24) % TARGETS.len() as u64);
            let mut trace = open()?;
            let out = work.join("out");
            if out.is_dir() {
                fs::remove_dir_all(&out).unwrap()
            } else {
                _ = fs::remove_file(&out)
            }
            let recording = Recording {
                info: trace.reader.info().clone(),
                symbols: trace.symbols.clone(),
                processes: trace.processes.clone(),
                tasks: trace.tasks.clone(),
                unwound: trace.reader.unwound().cloned().unwrap_or_default(),
                summary: trace.summary.clone(),
                calls: trace.calls.clone(),
            };
            let summary = trace.summary.clone();
            let result = Place::at(&out)
                .and_then(|place| (target.begin)(recording, place))
                .and_then(|conversion| {
                    convert::convert(&mut trace.reader, summary.as_ref(), &mut |_| true, conversion)
                });
            if let Err(x) = result {
                outcome = Err(e(&x))
            }
            if target.name == "ctf"
                && out.is_dir()
                && let Ok(mut t) = import::open(&out)
            {
                while let Ok(Some(_)) = t.reader.next() {}
            }
        }
        2 => {
            step(30);
            let out = work.join("merged");
            _ = fs::remove_dir_all(&out);
            let result = directory::open(place)
                .and_then(|a| Merge::new(vec![("a".into(), a)]))
                .and_then(|mut merge| merge.write(&out, (choice & 64 == 0).then_some(3)));
            if let Err(x) = result {
                outcome = Err(e(&x))
            }
        }
        _ => {
            step(40);
            let mut trace = open()?;
            match Report::gather(&mut trace.reader, report::Options::default()) {
                Ok(report) => _ = report::text(&report, 80, false),
                Err(x) => outcome = Err(e(&x)),
            }
            step(41);
            let mut trace = open()?;
            trace.reader.within(1_000_000..=u64::MAX / 2);
            while let Ok(Some((_, r, _))) = trace.reader.next_with_losses() {
                _ = r.fields().count()
            }
        }
    }
    outcome
}
