//! `cargo xtask bench page`: what a recording costs as a page for browsers (`kestrel report --html`): its size, the time until its first picture, frames a
//! second while it zooms, time of a search; in a headless Chromium, which draws without a graphics card.

mod load;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::browser::Browser;

use crate::{artifact, install};

/// Measure what pages of recordings cost in a browser.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Events of the recording, about.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// Keep the recording and the page in this folder, or take the recording that is there.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Be the load that is recorded: so many rounds.
    #[arg(long, hide = true)]
    load: Option<u64>,
}

/// MB, seconds and frames a second that a page of a million events is to keep to.
const MB_AT_MOST: f64 = 30.0;
const SECONDS_AT_MOST: f64 = 3.0;
const FRAMES_AT_LEAST: f64 = 30.0;

/// Zooms in from the whole recording and out again, with a frame drawn for each step; the middle of the view moves, so that no two frames are alike.
const ZOOM: &str = "new Promise(done => { const { timeline } = kestrel; let step = 0, worst = 0, before; const steps = 120; \
    timeline.setView(0, kestrel.recording.span); const begun = performance.now(); \
    const next = () => { before = performance.now(); timeline.zoom(step < steps / 2 ? 0.82 : 1 / 0.82, 700 + step); timeline.draw(); \
    worst = Math.max(worst, performance.now() - before); \
    if (++step < steps) requestAnimationFrame(next); else done([1000 * steps / (performance.now() - begun), worst]); }; next(); })";

const SEARCH: &str = "(async () => { const begun = performance.now(); await kestrel.search.look('pipe'); return performance.now() - begun; })()";

const TABLES: &str = "['threads', 'waits', 'reasons', 'latencies', 'events'].map(tab => { const begun = performance.now(); kestrel.panel.show(tab); \
    return performance.now() - begun; })";

/// Records, writes the page, opens it, measures.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(rounds) = options.load {
        load::run(rounds)?;
        return Ok(ExitCode::SUCCESS);
    }
    install::ensure(&[install::BROWSER])?;
    let scratch = tempfile::tempdir().context("make a folder for the recording")?;
    let folder = options.keep.as_deref().unwrap_or(scratch.path());
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let kestrel = artifact::release()?;
    record(&kestrel, folder, options.events)?;
    let begun = Instant::now();
    kestrel_at(&kestrel, folder, &["report", "--html", "page.html", "trace"])?;
    println!("page written    {:>8.2} s", begun.elapsed().as_secs_f64());
    let page = folder.join("page.html");
    let bytes = fs::metadata(&page).context("find the page")?.len() as f64 / 1e6;
    println!("size            {bytes:>8.1} MB");
    // The address of a file is a whole path.
    let page = page.canonicalize().context("find the page")?;
    let mut browser = Browser::start().context("start Chromium")?;
    browser.open(&page, "window.kestrel");
    let mut number = |expression: &str| browser.evaluate(expression);
    let records = number("kestrel.recording.about.records").as_f64().unwrap_or(0.0);
    let first = number("kestrel.firstPicture").as_f64().unwrap_or(f64::MAX) / 1000.0;
    println!("events          {records:>8}");
    println!("first picture   {first:>8.2} s");
    let frames = number(ZOOM);
    let rate = frames[0].as_f64().unwrap_or(0.0);
    println!(
        "zoom            {rate:>8.0} frames/s, the longest {:.0} ms",
        frames[1].as_f64().unwrap_or(0.0)
    );
    println!(
        "search          {:>8.2} s",
        number(SEARCH).as_f64().unwrap_or(0.0) / 1000.0
    );
    println!("tables          {} ms", number(TABLES));
    println!(
        "warnings        {}",
        number("document.getElementById('warnings').innerText")
    );
    ensure!(browser.problems().is_empty(), "{:?}", browser.problems());
    let kept = bytes <= MB_AT_MOST && first < SECONDS_AT_MOST && rate >= FRAMES_AT_LEAST;
    println!(
        "at most {MB_AT_MOST} MB, first picture within {SECONDS_AT_MOST} s, {FRAMES_AT_LEAST} frames/s: {}",
        if kept { "kept" } else { "NOT KEPT" }
    );
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Records the load, unless the folder has a recording.
fn record(kestrel: &Path, folder: &Path, events: u64) -> Result<()> {
    if folder.join("trace").exists() {
        return Ok(());
    }
    let load = std::env::current_exe().context("find this program")?;
    let rounds = events.div_ceil(load::EVENTS).to_string();
    let load = load.display().to_string();
    let events = "raw_syscalls:*,sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new";
    let line = [
        "record",
        "--buffer-size",
        "64M",
        "-e",
        events,
        "-o",
        "trace",
        "--",
    ];
    let line = [&line[..], &[&load, "bench", "page", "--load", &rounds]].concat();
    kestrel_at(kestrel, folder, &line)
}

fn kestrel_at(kestrel: &Path, folder: &Path, line: &[&str]) -> Result<()> {
    let mut command = Command::new(kestrel);
    let status = command.args(line).current_dir(folder).status();
    let status = status.context("run kestrel")?;
    ensure!(status.success(), "kestrel {}: {status}", line.join(" "));
    Ok(())
}
