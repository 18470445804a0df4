//! A recording taken through what reads some: programs, questions, the formats of `print`, tables, the page for browsers, each export, `merge`, `cut`.

use super::questions;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::ProgramText;
use kestrel::replay::{Options, RecordedNames, Replaying};
use kestrel::script::Perform;
use kestrel_trace::browser::{About, Limits, PageBuilder};
use kestrel_trace::convert::{self, OutputPath, RecordingContext};
use kestrel_trace::ctf::directory::{self, Trace};
use kestrel_trace::ctf::merge::Merge;
use kestrel_trace::ctf::rewrite::{Rewriter, SideData};

use kestrel_trace::export::{Calls, FORMATS, Layout, Shown, Style, as_calls};
use kestrel_trace::import;
use kestrel_trace::report::{self, Report};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Programs that read strings, vectors, stacks and every field, keep pairs, and have intervals.
pub(super) const PROGRAMS: &[&str] = &[
    "syscalls:sys_enter_openat { @f[tid] = args.filename } \
     syscalls:sys_exit_openat /@f[tid]/ { printf(\"%s %s %d\\n\", comm, str(@f[tid]), args.ret); delete(@f, tid) } \
     syscalls:sys_exit_read { @r = hist(args.ret) }",
    "syscalls:sys_enter_execve { join(args.argv); printf(\"%s\", str(args.filename)) } \
     syscalls:sys_enter_write { @b[buf(args.buf, 16)] = count() } syscalls:sys_enter_* { @[probe, comm] = count() }",
    "sched:sched_switch { @[args.prev_comm] = count(); @k[kstack] = count(); @u[ustack] = count() } \
     interval:s:1 { print(@); clear(@) }",
    "sched:* { @[probe] = count(); @t[tid] = sum(nsecs) } end { printf(\"%d\\n\", elapsed) }",
    "syscalls:sys_enter_read { @s[tid] = nsecs } \
     syscalls:sys_exit_read /@s[tid]/ { @ns[comm] = hist(nsecs - @s[tid]); delete(@s, tid) }",
    "mark { printf(\"%s %s\\n\", str(args.text), str(args.values)); @[comm] = count() } damaged:page { @p = hist(args.number) } \
     damaged:all { @a[str(args.path), args.small] = sum(args.negative); print(args.peer) }",
];

/// A reader of recordings; the number chooses among its variants.
pub(super) type Reading = fn(&Scene<'_>, u64) -> Result<(), String>;

/// All of them, by name.
pub(super) const READINGS: &[(&str, Reading)] = &[
    ("program", program),
    ("print", print),
    ("report", tables),
    ("html", page),
    ("export", export),
    ("merge", merge),
    ("cut", cut),
    ("sched", questions::sched),
    ("stacks", questions::stacks),
    ("groups", questions::groups),
];

/// The recording, and where results go.
pub(super) struct Scene<'s> {
    pub(super) path: &'s Path,
    pub(super) work: &'s Path,
}

impl Scene<'_> {
    pub(super) fn open(&self) -> Result<Trace, String> {
        import::open(self.path).map_err(word)
    }

    /// A name for a result, at which nothing is.
    fn free(&self, name: &str) -> PathBuf {
        let path = self.work.join(name);
        match path.is_dir() {
            true => _ = fs::remove_dir_all(&path),
            false => _ = fs::remove_file(&path),
        }
        path
    }
}

pub(super) fn word(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn program(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let program = PROGRAMS[usize::try_from(choice >> 8).unwrap() % PROGRAMS.len()];
    let text = ProgramText::read("-e", program, Default::default(), &Default::default()).unwrap();
    // No kernel is to be asked: an empty root.
    let host = Host::new(scene.work.join("root"));
    let catalog = Catalog::new(host.clone());
    let mut replaying = Replaying::new(&text, Options::default(), &mut trace, &catalog).map_err(word)?;
    let kept = trace.symbols.kept_names().clone();
    let names = RecordedNames::new(host.clone(), kept, &trace.reader.info().clock);
    let json = choice & 1 == 0;
    let mut perform = Perform::of_recording(trace.symbols.clone(), Arc::new(names), host, json);
    replaying.begin(&mut perform).map_err(word)?;
    while let Some((record, gap_ns)) = trace.reader.next_with_gap().map_err(word)? {
        replaying.set_gap(gap_ns);
        replaying.record(&record, true, &mut perform).map_err(word)?;
        perform.out.clear();
    }
    replaying.end(&mut perform).map_err(word)?;
    replaying.maps(&mut perform).map_err(word)?;
    if let Some(summary) = &trace.summary {
        _ = trace.reader.absent(summary);
    }
    Ok(())
}

fn print(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let format = &FORMATS[usize::try_from(choice >> 8).unwrap() % FORMATS.len()];
    let mut export = (format.new)(Style::default(), trace.symbols.clone(), trace.processes.clone());
    let mut out = Vec::new();
    if choice & 1 == 0 {
        let mut calls = calls_of(&trace);
        let written = as_calls(
            &mut trace.reader,
            &mut |_| true,
            (&mut calls, export.as_mut()),
            &mut out,
            "out",
        );
        return written.map(|_| ()).map_err(word);
    }
    while let Some(record) = trace.reader.next().map_err(word)? {
        export.record(&record, &mut out);
        if out.len() > 1 << 20 {
            out.clear();
        }
    }
    export.finish(&mut out);
    Ok(())
}

fn calls_of(trace: &Trace) -> Calls {
    let signatures = trace.calls.as_ref().map(|calls| calls.signatures());
    let signatures = signatures.unwrap_or_default();
    Calls::new(signatures, Shown::default(), Layout::Lines, Style::default())
}

fn tables(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let report = Report::read(&mut trace.reader, report::Options::default()).map_err(word)?;
    _ = report::text(&report, 80, choice & 1 == 0);
    _ = serde_json::to_string(&report).map_err(word)?;
    Ok(())
}

fn page(scene: &Scene<'_>, _choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let calls = calls_of(&trace);
    let names = (trace.processes.clone(), trace.tasks.clone());
    let info = trace.reader.info().clone();
    let mut page = PageBuilder::new(&info, trace.symbols.clone(), names, Some(calls), Limits::USUAL);
    let mut lost = 0;
    loop {
        let before = page.last_ns();
        let Some(record) = trace.reader.next().map_err(word)? else {
            break;
        };
        page.record(&record, true);
        let now = trace.reader.lost();
        if now > lost {
            page.lose(now - lost, before);
            lost = now;
        }
    }
    let page = page.finish(About {
        info,
        path: "trace".into(),
        missing: Vec::new(),
        notes: Vec::new(),
    });
    _ = page.bytes().len();
    Ok(())
}

fn export(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let target = &convert::FORMATS[usize::try_from(choice >> 8).unwrap() % convert::FORMATS.len()];
    let mut trace = scene.open()?;
    let out = scene.free("exported");
    let recording = RecordingContext {
        info: trace.reader.info().clone(),
        symbols: trace.symbols.clone(),
        processes: trace.processes.clone(),
        tasks: trace.tasks.clone(),
        unwound: trace.reader.unwound().cloned().unwrap_or_default(),
        summary: trace.summary.clone(),
        calls: trace.calls.clone(),
    };
    let summary = trace.summary.clone();
    let conversion = OutputPath::at(&out).and_then(|place| (target.begin)(recording, place));
    let conversion = conversion.map_err(word)?;
    convert::convert(&mut trace.reader, summary.as_ref(), &mut |_| true, conversion).map_err(word)?;
    Ok(())
}

fn merge(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let traces = vec![("a".to_owned(), directory::open(scene.path).map_err(word)?)];
    let mut merge = Merge::new(traces).map_err(word)?;
    let out = scene.free("merged");
    merge.write(&out, (choice & 1 == 0).then_some(3)).map_err(word)?;
    read_whole(&out)
}

fn cut(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    // Packets around the middle of a recording of some seconds since boot, or all.
    if choice & 2 == 0 {
        let from = choice % (1 << 46);
        trace.reader.within(from..=from.saturating_mul(2));
    }
    let out = scene.free("cut");
    rewrite(&mut trace, &out, (choice & 1 == 0).then_some(3)).map_err(word)?;
    read_whole(&out)
}

fn rewrite(trace: &mut Trace, out: &Path, level: Option<u8>) -> kestrel_trace::Result<()> {
    let mut rewriter = Rewriter::create(out, &trace.reader, level)?;
    while let Some((buffer, record, lost)) = trace.reader.next_with_losses()? {
        rewriter.record(buffer, &record, lost)?;
    }
    let beside = SideData {
        summary: trace.summary.clone(),
        symbols: trace.symbols.clone(),
        processes: trace.processes.clone(),
        tasks: trace.tasks.clone(),
        unwound: trace.reader.unwound().cloned().unwrap_or_default(),
        calls: trace.calls.clone(),
    };
    rewriter.finish(beside, "cut from a damaged recording".into())?;
    Ok(())
}

/// Checks that a recording made out of a damaged one can be read.
fn read_whole(path: &Path) -> Result<(), String> {
    let mut trace = import::open(path).map_err(word)?;
    while let Some(record) = trace.reader.next().map_err(word)? {
        _ = record.fields().count();
    }
    Ok(())
}
