//! The tracepoints that spans and events of `tracing` become.

/// The fields of `span_begin`: a new span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanFields<'a> {
    pub(crate) id: u64,
    /// 0 where it has none.
    pub(crate) parent: u64,
    pub(crate) level: &'static str,
    pub(crate) name: &'static str,
    pub(crate) target: &'a str,
    /// `user=7 path="/x"`.
    pub(crate) fields: &'a str,
}

/// The fields of `event`: an event of `tracing`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFields<'a> {
    /// The span that it is in; 0 where it is in none.
    pub(crate) span: u64,
    pub(crate) level: &'static str,
    pub(crate) target: &'a str,
    pub(crate) message: &'a str,
    pub(crate) fields: &'a str,
}

kestrel_tracepoint::events! {
    group tracing;

    /// A span is made.
    pub(crate) event span_begin(span: SpanFields<'_>) {
        id: u64 = span.id,
        parent: u64 = span.parent,
        level: char[8] = span.level,
        name: str = span.name,
        target: str = span.target,
        fields: str = span.fields,
    } print "{level} {target}: {name}({id}) in {parent} {fields}";

    class step(id: u64, name: &str) {
        id: u64 = id,
        name: str = name,
    } print "{name}({id})";

    /// A thread enters a span.
    pub(crate) event span_enter: step;
    /// A thread leaves it.
    pub(crate) event span_exit: step;
    /// A span is closed.
    pub(crate) event span_end: step;

    /// An event happens.
    pub(crate) event event(event: EventFields<'_>) {
        span: u64 = event.span,
        level: char[8] = event.level,
        target: str = event.target,
        message: str = event.message,
        fields: str = event.fields,
    } print "{level} {target}: {message} {fields}";
}
