//! Events of `tracing` come out as tracepoints, and the other way round.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use tracing_core::{Event, Field, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};

kestrel_tracepoint::events! {
    group both;

    event answered(path: &str, status: u16, balance: i32, load: f64, ok: bool, body: &[u8]) {
        path: str = path,
        status: u16 = status,
        balance: i32 = balance,
        load: f64 = load,
        ok: bool = ok,
        body: bytes = body,
    } print "{path} {status}";
}

/// Lines of the tracepoints that match, with their events.
fn listened(pattern: &str) -> (Arc<Mutex<Vec<String>>>, Vec<kestrel_tracepoint::Registration>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let listen = |event: &'static kestrel_tracepoint::Event| {
        let lines = Arc::clone(&lines);
        let line = move |record: &kestrel_tracepoint::Record<'_>| {
            lines
                .lock()
                .unwrap()
                .push(format!("{}: {record}", record.event()));
        };
        event.listen(line, 0).unwrap()
    };
    let all = kestrel_tracepoint::matching(pattern)
        .into_iter()
        .map(listen)
        .collect();
    (lines, all)
}

#[test]
fn spans_and_events_are_tracepoints_while_there_is_a_listener() {
    let subscriber = tracing_subscriber::registry().with(kestrel_tracing::layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("nobody listens");
        let (lines, listening) = listened("tracing:*");
        {
            let outer = tracing::info_span!(target: "shop", "outer", user = 7);
            let _entered = outer.enter();
            tracing::warn!(target: "shop", path = "/x", "slow: {} ms", 12);
            tracing::debug_span!(target: "shop", "inner").in_scope(|| ());
        }
        drop(listening);
        tracing::info!("nobody listens any more");
        let lines = lines.lock().unwrap().clone();
        let id = |name: &str| {
            let begin = lines
                .iter()
                .find(|line| line.contains("span_begin") && line.contains(name))
                .unwrap();
            let behind = begin.split_once(&format!("{name}(")).unwrap().1;
            behind.split_once(')').unwrap().0.to_owned()
        };
        let (outer, inner) = (id("outer"), id("inner"));
        assert_eq!(
            lines,
            [
                format!("tracing:span_begin: INFO shop: outer({outer}) in 0 user=7"),
                format!("tracing:span_enter: outer({outer})"),
                "tracing:event: WARN shop: slow: 12 ms path=\"/x\"".to_owned(),
                format!("tracing:span_begin: DEBUG shop: inner({inner}) in {outer} "),
                format!("tracing:span_enter: inner({inner})"),
                format!("tracing:span_exit: inner({inner})"),
                format!("tracing:span_end: inner({inner})"),
                format!("tracing:span_exit: outer({outer})"),
                format!("tracing:span_end: outer({outer})"),
            ]
        );
    });
}

/// A subscriber's layer that writes down what it is given.
struct Lines(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl tracing_core::field::Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        write!(self.0, " {}={value}i", field.name()).unwrap();
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        write!(self.0, " {}={value}u", field.name()).unwrap();
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(format!(
            "{} {} {}",
            event.metadata().level(),
            event.metadata().target(),
            event.metadata().name()
        ));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

#[test]
fn tracepoints_are_events_of_tracing_with_typed_fields() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::registry().with(Lines(Arc::clone(&lines)));
    tracing::subscriber::with_default(subscriber, || {
        let forwarded = kestrel_tracing::forward("both:*", Level::DEBUG).unwrap();
        assert_eq!(forwarded.len(), 1);
        assert!(
            kestrel_tracing::forward("tracing:*", Level::DEBUG)
                .unwrap()
                .is_empty()
        );
        trace_answered("/x", 200, -3, 0.5, true, b"ab");
        drop(forwarded);
        trace_answered("/y", 404, 0, 0.0, false, b"");
    });
    assert_eq!(
        lines.lock().unwrap().as_slice(),
        [
            "DEBUG both both:answered message=/x 200 path=\"/x\" status=200u balance=-3i load=0.5 ok=true body={0x61,0x62}"
        ]
    );
}
