//! What a switch costs: nanoseconds of a system call without a program, with an empty one, with a masked hook, with a recording one; and
//! the time from the store that masks until no CPU records any more. `cargo xtask bench switch` runs it; it traces only itself.
//!
//! ```text
//! switch masked ROUNDS    lines of NAME NS, the best of all rounds, which alternate between the names
//! switch store REPEATS    lines of NAME MEDIAN GREATEST, ns; and how many switches met a load at work
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::bpf::{AttachType, Link, Program, ProgramKind, ProgramSpec};
use kestrel::kernel::procfs::monotonic;
use kestrel::live::Live;
use kestrel::plan::{self, Plan, Request};
use kestrel::session::Session;
use kestrel::session::target::Target;
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::btf::Kind;
use kestrel_bpf::isa::Reg::R0;

/// The hook that everything is measured on.
const EVENT: &str = "raw_syscalls:sys_enter";
/// The same to the kernel's types.
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
        _ => Err("usage: switch masked ROUNDS | switch store REPEATS".into()),
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

/// A plan that records [`EVENT`] of this process in the first of so many tables.
fn recording(catalog: &Catalog, tables: u32, mode: Mode) -> Result<Plan> {
    let request = Request {
        events: vec![EVENT.to_owned()],
        target: Target::Process(std::process::id()),
        mode,
        ..Request::default()
    };
    let mut plan = plan::plan(&request, catalog)?;
    plan.tables = (1..=tables).map(|table| format!("table{table}")).collect();
    for row in plan.hooks.iter_mut().flat_map(|hook| &mut hook.rows) {
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
        .find(Kind::Typedef, TYPED)
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

/// What is attached while a row is measured.
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

/// One thread per CPU that makes system calls until it is told to end.
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
            // A thread that panicked has told so.
            let _ = thread.join();
        }
    }
}

/// How long the load is recorded before each switch.
const RECORDED: Duration = Duration::from_millis(2);
/// A switch tells something only if another CPU recorded until it came: this many ns before it, at most.
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
        // Later than the store is late; what came between the look at the clock and the store is not told apart from it.
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
