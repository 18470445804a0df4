//! Handlers by recorded event; those of single system calls by the number that a record of all calls has.

use crate::call::CallPlaces;
use kestrel_trace::calls::Abi;
use kestrel_trace::event::EventId;
use kestrel_trace::record::Record;

/// A handler, by its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerId(pub(crate) usize);

/// Handlers by the number of the event class.
#[derive(Debug, Default)]
pub(crate) struct ByEvent(Vec<OfEvent>);

/// The handlers of an event class, in source order.
#[derive(Debug, Default)]
struct OfEvent {
    all: Vec<HandlerId>,
    /// By the number of a call: its handlers, those of all calls among them. Others have `all`.
    by_call: Vec<Option<Vec<HandlerId>>>,
    /// Where records have their calls, if handlers ask.
    places: Option<CallPlaces>,
}

/// The handlers of a record, in source order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfRecord {
    event: usize,
    /// The number of its call, where that has handlers of its own.
    call: Option<usize>,
    /// Number of events.
    pub(crate) count: usize,
}

/// Numbers of calls that have handlers of their own are below this.
const MAX_NUMBERS: usize = 1 << 12;

impl ByEvent {
    fn of(&self, event: EventId) -> Option<&OfEvent> {
        self.0.get(usize::from(event.0))
    }

    fn of_mut(&mut self, event: EventId) -> &mut OfEvent {
        let number = usize::from(event.0);
        if self.0.len() <= number {
            self.0.resize_with(number + 1, OfEvent::default);
        }
        &mut self.0[number]
    }

    /// Adds a handler of all records.
    pub(crate) fn add(&mut self, event: EventId, handler: HandlerId) {
        let of = self.of_mut(event);
        of.all.push(handler);
        for handlers in of.by_call.iter_mut().flatten() {
            handlers.push(handler);
        }
    }

    /// Adds a handler of calls: of one, or of all. Numbers of one are those of the kernel's own interface.
    pub(crate) fn add_of_calls(
        &mut self,
        event: EventId,
        places: CallPlaces,
        number: Option<u64>,
        handler: HandlerId,
    ) {
        let of = self.of_mut(event);
        let is_native = places.abi() == Abi::Native;
        of.places = Some(places);
        let Some(number) = number else {
            return self.add(event, handler);
        };
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if !is_native || number >= MAX_NUMBERS {
            return;
        }
        if of.by_call.len() <= number {
            of.by_call.resize(number + 1, None);
        }
        if let Some(handlers) = of.by_call.get_mut(number) {
            handlers.get_or_insert_with(|| of.all.clone()).push(handler);
        }
    }

    /// Whether a recorded event has handlers.
    #[inline]
    pub(crate) fn wants(&self, event: EventId) -> bool {
        self.of(event)
            .is_some_and(|of| !of.all.is_empty() || !of.by_call.is_empty())
    }

    /// The handlers of a record.
    #[inline]
    pub(crate) fn of_record(&self, record: &Record<'_>) -> OfRecord {
        let event = usize::from(record.event.id.0);
        let Some(of) = self.0.get(event) else {
            return OfRecord::default();
        };
        let number = match of.by_call.is_empty() {
            true => None,
            false => of.places.as_ref().and_then(|places| places.number(record)),
        };
        let number = number.and_then(|number| usize::try_from(number).ok());
        let own = number.and_then(|number| Some((number, of.by_call.get(number)?.as_ref()?)));
        OfRecord {
            event,
            call: own.map(|(number, _)| number),
            count: own.map_or(&of.all, |(_, handlers)| handlers).len(),
        }
    }

    /// A handler among those of a record.
    #[inline]
    pub(crate) fn handler(&self, of: OfRecord, place: usize) -> Option<HandlerId> {
        let event = self.0.get(of.event)?;
        let handlers = match of.call {
            Some(number) => event.by_call.get(number)?.as_ref()?,
            None => &event.all,
        };
        handlers.get(place).copied()
    }

    /// Where records of an event have their calls.
    #[inline]
    pub(crate) fn places(&self, event: EventId) -> Option<&CallPlaces> {
        self.of(event)?.places.as_ref()
    }
}
