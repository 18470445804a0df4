//! Cost of a switch: nanoseconds of a system call without a program, with an empty one, with a masked hook, with a recording one; and
//! the time from the store that masks until no CPU records any more. `cargo xtask bench switch` runs it; it traces only itself.
//!
//! Cost of `table load`: tables of many tracepoints, of this process alone, loaded into a persistent session.
//!
//! ```text
//! switch masked ROUNDS    lines of NAME NS, the best of all rounds, which alternate between the names
//! switch store REPEATS    lines of NAME MEDIAN GREATEST, ns; and how many switches met a load at work
//! switch load EVENTS      a line of NAME EVENTS HOOKS FIRST AGAIN OUT: how many there were, ms to load, to replace, to take out
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kestrel::buffer::layout::Mode;
use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::kernel::bpf::{AttachType, Link, Program, ProgramKind, ProgramSpec};
use kestrel::kernel::procfs::monotonic;
use kestrel::plan::{Options, Plan, Source, plan};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::session::start::Origin;
use kestrel::session::store::Store;
use kestrel::table::TableFile;
use kestrel::tail::Live;
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::btf::BtfKind;
use kestrel_bpf::isa::Reg::R0;

/// The hook that everything is measured on.
const EVENT: &str = "raw_syscalls:sys_enter";
/// Name of [`EVENT`] among the kernel's types.
const TYPED: &str = "btf_trace_sys_enter";

/// System calls per batch, and batches per round.
const CALLS: u32 = 10_000;
const BATCHES: u32 = 30;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let done = match arguments.first().map(String::as_str) {
        Some("masked") => masked(number),
        Some("store") => store(number),
        Some("load") => load(number as usize),
        _ => Err("usage: switch masked ROUNDS | switch store REPEATS | switch load EVENTS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("switch: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Nanoseconds of a system call: the best batch, because noise only ever adds.
fn cost() -> f64 {
    let batch = || {
        let begin = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// A plan that records [`EVENT`] of this process in the first of `tables` tables.
fn recording(catalog: &Catalog, tables: u32, mode: Mode) -> Result<Plan> {
    let options = Options {
        target: ProcessFilter::Processes(vec![std::process::id()]),
        mode: Some(mode),
        ..Options::default()
    };
    let mut plan = plan(Source::Events(&[EVENT.to_owned()]), &options, catalog)?;
    plan.tables = (1..=tables).map(|table| format!("table{table}")).collect();
    for row in plan.hooks.iter_mut().flat_map(|hook| &mut hook.handlers) {
        row.tables = vec![1];
    }
    Ok(plan)
}

/// A program that only returns, where the hook would be.
fn empty(catalog: &Catalog) -> Result<(Program, Link)> {
    let mut assembler = Assembler::new();
    assembler.mov(R0, 0).exit();
    let code = assembler.finish()?;
    let id = catalog
        .types()?
        .find(BtfKind::Typedef, TYPED)
        .ok_or("the kernel's types do not know the tracepoint")?;
    let program = Program::load(&ProgramSpec::new(
        "empty",
        ProgramKind::TypedTracepoint(id),
        &code,
        &[],
    ))?;
    let link = Link::tracing(&program, AttachType::TRACE_RAW_TP, 0)?;
    Ok((program, link))
}

/// Attaches the programs of a row, which are attached while it is measured.
type Attach = fn(&Catalog) -> Result<Box<dyn std::any::Any>>;

/// Every row.
const ROWS: &[(&str, Attach)] = &[
    ("bare", |_| Ok(Box::new(()))),
    ("empty", |catalog| Ok(Box::new(empty(catalog)?))),
    ("masked", |catalog| {
        let plan = recording(catalog, 1, Mode::Overwrite)?;
        Ok(Box::new(Session::start(&plan, catalog, "switch")?))
    }),
    ("masked-of-two", |catalog| {
        let plan = recording(catalog, 2, Mode::Overwrite)?;
        Ok(Box::new(Session::start(&plan, catalog, "switch")?))
    }),
    ("recording", |catalog| {
        let plan = recording(catalog, 1, Mode::Overwrite)?;
        let session = Session::start(&plan, catalog, "switch")?;
        session.activate();
        Ok(Box::new(session))
    }),
];

fn masked(rounds: u32) -> Result<()> {
    let catalog = Catalog::new(Host::default());
    let mut best = vec![f64::INFINITY; ROWS.len()];
    for _ in 0..rounds.max(1) {
        for ((_, attach), best) in ROWS.iter().zip(&mut best) {
            let attached = attach(&catalog)?;
            *best = cost().min(*best);
            drop(attached);
        }
    }
    for ((name, _), best) in ROWS.iter().zip(best) {
        println!("{name} {best:.1}");
    }
    Ok(())
}

/// One thread per CPU that makes system calls until its flag is set.
struct Load {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..count)
            .map(|_| {
                let end = Arc::clone(&end);
                thread::spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        std::hint::black_box(std::os::unix::process::parent_id());
                    }
                })
            })
            .collect();
        Self { end, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed that.
            let _ = thread.join();
        }
    }
}

/// Time that the load is recorded before each switch.
const RECORDED: Duration = Duration::from_millis(2);
/// A switch measures something only if another CPU recorded until it came: this many ns before it, at most.
const AT_WORK: u64 = 2_000;

fn store(repeats: u32) -> Result<()> {
    let catalog = Catalog::new(Host::default());
    let session = Session::start(&recording(&catalog, 2, Mode::Stream)?, &catalog, "switch")?;
    let mut live = Live::new(session);
    let load = Load::start();
    let (mut stores, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        live.start();
        thread::sleep(RECORDED);
        let before = monotonic();
        live.session().deactivate();
        let after = monotonic();
        stores.push(after - before);
        thread::sleep(RECORDED);
        let mut newest = 0;
        live.poll(&mut |record| {
            newest = newest.max(record.time_ns);
            Ok(())
        })?;
        // Later than the store is late; a record between the look at the clock and the store is counted as late.
        if newest + AT_WORK > before {
            seen.push(newest.saturating_sub(before));
        }
    }
    drop(load);
    println!("met {} {repeats}", seen.len());
    println!("store {}", middle_and_greatest(&mut stores));
    println!("seen {}", middle_and_greatest(&mut seen));
    Ok(())
}

fn middle_and_greatest(values: &mut [u64]) -> String {
    values.sort_unstable();
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    format!("{} {}", at(values.len() / 2), at(values.len().saturating_sub(1)))
}

/// The session that tables are loaded into, and its table.
const SESSION: &str = "bench-load";
const BASE: &str =
    "buffer main { size = 1M }  table base { raw_syscalls:sys_enter /pid == PID/ { record() } }";

/// Tracepoints that another kind of hook serves, or that come by the million.
const NOT_LOADED: [&str; 4] = ["syscalls", "raw_syscalls", "ftrace", "lock"];

fn load(events: usize) -> Result<()> {
    let catalog = Catalog::new(Host::default());
    let own = |text: &str| text.replace("PID", &std::process::id().to_string());
    let all = catalog.tracefs()?.events()?;
    let usable = all.iter().filter(|e| !NOT_LOADED.contains(&e.group.as_str()));
    let mut names: Vec<String> = usable.map(|e| format!("{}:{}", e.group, e.name)).collect();
    names.sort_unstable();
    // Evenly from the whole list: some groups are fast to attach, others are not.
    let step = names.len().div_ceil(events.max(1)).max(1);
    let mut chosen: Vec<&str> = names.iter().step_by(step).map(String::as_str).collect();
    chosen.extend(
        names
            .iter()
            .enumerate()
            .filter(|(n, _)| n % step != 0)
            .map(|(_, name)| name.as_str()),
    );
    chosen.truncate(events);
    let table = format!(
        "table more {{ {} /pid == PID/ {{ record() }} }}",
        chosen.join(", ")
    );

    let store = Store::open(&Host::default())?;
    let base = TableFile::parse(&own(BASE), "base")?;
    let persistent = Options {
        persistent: true,
        ..Options::default()
    };
    let plan = plan(Source::File(&base), &persistent, &catalog)?;
    store.start(SESSION, plan, &catalog, None, Origin::default())?;
    let measured = load_into(&store, &catalog, &TableFile::parse(&own(&table), "more")?);
    store.stop(Some(SESSION))?;
    let (hooks, [first, again, out]) = measured?;
    println!("load {} {hooks} {first:.1} {again:.1} {out:.1}", chosen.len());
    Ok(())
}

/// Hooks of the session with the table in it; ms of loading it, of loading it again, of taking it out.
fn load_into(store: &Store, catalog: &Catalog, table: &TableFile) -> Result<(usize, [f64; 3])> {
    let names = ["more".to_owned()];
    let mut taken = [0.0; 3];
    let mut hooks = 0;
    for (step, taken) in taken.iter_mut().enumerate() {
        let begin = Instant::now();
        let mut change = store.change(Some(SESSION))?;
        if step < 2 {
            change.load(table, &names, catalog, Via::Auto)?;
        } else {
            change.unload(&names[0])?;
        }
        *taken = begin.elapsed().as_secs_f64() * 1e3;
        hooks = hooks.max(store.session(Some(SESSION))?.state().hooks.len());
    }
    Ok((hooks, taken))
}
