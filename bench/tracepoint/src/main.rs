//! Cost of an event with a time and three integers, in ns: ours, off and on, and those of other tracers of programs, in one run. A line for each: name, the cheapest batch
//! and the median one. Batches of all rows follow one another in turn, so that other work of the machine slows all of them alike.

use kestrel_tracepoint::{Mode, Options, Recorder};
use std::hint::black_box;
use std::time::{Duration, Instant};

kestrel_tracepoint::events! {
    group bench;

    event off(a: u64, b: u64, c: u64) { a: u64 = a, b: u64 = b, c: u64 = c } print "{a} {b} {c}";
    event kept(a: u64, b: u64, c: u64) { a: u64 = a, b: u64 = b, c: u64 = c } print "{a} {b} {c}";
    event called(a: u64, b: u64, c: u64) { a: u64 = a, b: u64 = b, c: u64 = c } print "{a} {b} {c}";
}

/// Events of a batch.
const EVENTS: u64 = 1000;
/// Batches of each row.
const BATCHES: usize = 400;

struct Row {
    name: &'static str,
    batch: Box<dyn FnMut(u64)>,
    ns: Vec<f64>,
}

fn row(name: &'static str, batch: impl FnMut(u64) + 'static) -> Row {
    Row {
        name,
        batch: Box::new(batch),
        ns: Vec::new(),
    }
}

fn times(count: u64, mut each: impl FnMut(u64)) {
    for at in 0..count {
        each(black_box(at));
    }
}

fn with_subscriber(name: &'static str, subscriber: impl tracing::Subscriber + Send + Sync + 'static) -> Row {
    let dispatch = tracing::Dispatch::new(subscriber);
    row(name, move |count| {
        tracing::dispatcher::with_default(&dispatch, || {
            times(count, |a| tracing::info!(a, b = a + 1, c = a + 2, "step"));
        });
    })
}

#[cfg(feature = "lttng")]
unsafe extern "C" {
    fn bench_lttng(times: u64);
}

/// A reporter that drops fastrace's spans, as its own benchmarks do.
struct Nowhere;

impl fastrace::collector::Reporter for Nowhere {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        drop(black_box(spans));
    }
}

fn clock_gettime() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_nsec as u64
}

fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn rows(folder: &std::path::Path) -> Vec<Row> {
    use tracing_subscriber::layer::SubscriberExt as _;
    let appender = tracing_appender::rolling::never(folder, "appender");
    let (appender, appender_guard) = tracing_appender::non_blocking(appender);
    let (chrome, chrome_guard) = tracing_chrome::ChromeLayerBuilder::new()
        .file(folder.join("chrome.json"))
        .build();
    // The guards are needed for as long as the program runs.
    std::mem::forget((appender_guard, chrome_guard));
    fastrace::set_reporter(Nowhere, fastrace::collector::Config::default());
    let tracy = tracy_client::Client::start();
    let called = called::register(
        |a, b, c| {
            black_box((a, b, c));
        },
        0,
    );
    called.keep();
    let mut all = vec![
        row("nothing", |count| {
            times(count, |a| _ = black_box((a, a + 1, a + 2)))
        }),
        row("kestrel, off", |count| {
            times(count, |a| {
                trace_off!(a, a + 1, a + 2);
                _ = black_box((a, a + 1, a + 2));
            });
        }),
        row("clock_gettime", |count| {
            times(count, |_| _ = black_box(clock_gettime()))
        }),
        #[cfg(target_arch = "x86_64")]
        row("rdtsc", |count| {
            // SAFETY: every processor of the architecture has it.
            times(count, |_| _ = black_box(unsafe { core::arch::x86_64::_rdtsc() }));
        }),
        row("kestrel, a callback", |count| {
            times(count, |a| trace_called(a, a + 1, a + 2))
        }),
        row("kestrel, recorded", |count| {
            times(count, |a| trace_kept(a, a + 1, a + 2))
        }),
        row("tracing, no subscriber", |count| {
            times(count, |a| tracing::info!(a, b = a + 1, c = a + 2, "step"));
        }),
        with_subscriber(
            "tracing, fmt to a sink",
            tracing_subscriber::fmt().with_writer(std::io::sink).finish(),
        ),
        with_subscriber(
            "tracing, fmt, appender",
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(appender)
                .finish(),
        ),
        with_subscriber("tracing, chrome", tracing_subscriber::registry().with(chrome)),
        row("fastrace, an event", |count| {
            let root = fastrace::Span::root("root", fastrace::collector::SpanContext::random());
            let _root = root.set_local_parent();
            times(count, |a| {
                let event = fastrace::Event::new("step").with_properties(|| {
                    [("a", a), ("b", a + 1), ("c", a + 2)].map(|(name, value)| (name, value.to_string()))
                });
                fastrace::local::LocalSpan::add_event(event);
            });
        }),
        row("fastrace, a span", |count| {
            let root = fastrace::Span::root("root", fastrace::collector::SpanContext::random());
            let _root = root.set_local_parent();
            times(count, |_| {
                drop(fastrace::local::LocalSpan::enter_with_local_parent("step"))
            });
        }),
        row("tracy, a zone of 3 values", move |count| {
            let tracy = tracy.clone();
            times(count, |a| {
                let zone = tracy.clone().span(tracy_client::span_location!("step"), 0);
                (a..a + 3).for_each(|value| zone.emit_value(value));
            });
        }),
    ];
    #[cfg(feature = "lttng")]
    // SAFETY: emits `times` events.
    all.push(row("lttng-ust", |count| unsafe { bench_lttng(count) }));
    all.shrink_to_fit();
    all
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .expect("usage: kestrel-bench-tracepoint FOLDER");
    let folder = std::path::PathBuf::from(folder);
    let options = Options::new(folder.join("kestrel"), Mode::Overwrite).events("bench:kept");
    let recorder = Recorder::start(options)?;
    let mut rows = rows(&folder);
    for row in &mut rows {
        (row.batch)(EVENTS);
    }
    for _ in 0..BATCHES {
        for row in &mut rows {
            let begin = Instant::now();
            (row.batch)(EVENTS);
            row.ns.push(begin.elapsed().as_nanos() as f64 / EVENTS as f64);
        }
    }
    for row in &mut rows {
        row.ns.sort_by(f64::total_cmp);
        println!("{}\t{:.2}\t{:.2}", row.name, row.ns[0], row.ns[row.ns.len() / 2]);
    }
    println!(
        "clock\t{}",
        if recorder.is_clock_counted() {
            "counter"
        } else {
            "kernel"
        }
    );
    let own = recorder.stop()?;
    assert_eq!(own.lost, 0);

    // Events per second of one thread's processor time, to files and into overwritten rings.
    for (name, mode) in [("overwriting", Mode::Overwrite), ("streamed", Mode::Stream)] {
        let options = Options::new(folder.join(name), mode)
            .ring_bytes(16 << 20)
            .events("bench:kept");
        let recorder = Recorder::start(options)?;
        const MANY: u64 = 10_000_000;
        let begin = thread_time();
        times(MANY, |a| trace_kept(a, a + 1, a + 2));
        let took = thread_time() - begin;
        let done = recorder.stop()?;
        assert_eq!(done.recorded + done.lost, MANY);
        println!(
            "{name}\t{:.2}\t{}",
            MANY as f64 / took.as_secs_f64() / 1e6,
            done.lost
        );
    }
    Ok(())
}
