//! The layer: what `tracing` says of spans and events, as tracepoints.

use crate::events::{self, EventFields, SpanFields};
use crate::text::Text;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A layer that makes tracepoints of spans and events. One without a listener costs the check for listeners.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Layer;

/// The layer that makes spans and events tracepoints.
pub fn layer() -> Layer {
    Layer
}

/// The name of a span.
fn name<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, context: &Context<'_, S>) -> &'static str {
    context.metadata(id).map_or("?", tracing_core::Metadata::name)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Layer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !events::span_begin::enabled() {
            return;
        }
        let mut text = Text::default();
        attributes.record(&mut text);
        let parent = context.span(id).and_then(|span| span.parent());
        let metadata = attributes.metadata();
        events::trace_span_begin(SpanFields {
            id: id.into_u64(),
            parent: parent.map_or(0, |parent| parent.id().into_u64()),
            level: metadata.level().as_str(),
            name: metadata.name(),
            target: metadata.target(),
            fields: &text.fields,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if !events::event::enabled() {
            return;
        }
        let mut text = Text::default();
        values.record(&mut text);
        let metadata = context.metadata(id);
        events::trace_event(EventFields {
            span: id.into_u64(),
            level: metadata.map_or("", |metadata| metadata.level().as_str()),
            target: metadata.map_or("", |metadata| metadata.target()),
            message: "recorded",
            fields: &text.fields,
        });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !events::event::enabled() {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        events::trace_event(EventFields {
            span: context.event_span(event).map_or(0, |span| span.id().into_u64()),
            level: metadata.level().as_str(),
            target: metadata.target(),
            message: &text.message,
            fields: &text.fields,
        });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if events::span_enter::enabled() {
            events::trace_span_enter(id.into_u64(), name(id, &context));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if events::span_exit::enabled() {
            events::trace_span_exit(id.into_u64(), name(id, &context));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if events::span_end::enabled() {
            events::trace_span_end(id.into_u64(), name(&id, &context));
        }
    }
}
