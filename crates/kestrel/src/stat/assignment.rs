//! Event specifications as what counts for them: groups of counters, and handlers of programs, with the places of their events.

use super::count::Event;
use super::count_spec::CountSpec;
use super::counters::Group;
use super::kernel_counters::Plain;
use super::request::CountRequest;
use super::traced::TracedSpec;
use kestrel_catalog::catalog::counter::counted::{Meaning, Named};

/// Counting requests of all specifications, arranged by event.
pub(super) struct Arranged {
    /// The events of counters, each with its place in the specifications.
    pub(super) events: Vec<(usize, Event)>,
    pub(super) groups: Vec<Group>,
    /// Specifications whose programs count.
    pub(super) specs: Vec<TracedSpec>,
}

impl Arranged {
    /// Arranges specifications, of which some are tracepoints for counters.
    pub(super) fn of(wanted: &[CountSpec], plain: &[Option<Vec<Plain>>], request: &CountRequest) -> Self {
        let usual = request.events.is_empty();
        let mut all = Self {
            events: Vec::new(),
            groups: Vec::new(),
            specs: Vec::new(),
        };
        for (one, plain) in wanted.iter().zip(plain) {
            match (one, plain) {
                (_, Some(plain)) => {
                    for tracepoint in plain {
                        let named = Named::tracepoint(tracepoint.counter.clone());
                        all.count(vec![named], tracepoint.place);
                    }
                }
                (CountSpec::Counters(named, grouped, place), None) => {
                    let named = named
                        .iter()
                        .map(|named| request.scope.suited(named.clone(), usual));
                    match grouped {
                        true => all.count(named.collect(), *place),
                        false => named.for_each(|named| all.count(vec![named], *place)),
                    }
                }
                (CountSpec::Traced(text, places), None) => {
                    let text = TracedSpec::new(text.clone(), places.clone(), all.specs.len(), request);
                    all.specs.push(text);
                }
            }
        }
        all
    }

    fn count(&mut self, named: Vec<Named>, place: usize) {
        let first = self.events.len();
        self.events.extend(named.iter().map(|named| {
            let event = Event {
                name: named.name.clone(),
                counter: (named.meaning != Meaning::Tracepoint).then(|| named.clone()),
            };
            (place, event)
        }));
        self.groups.push(Group { first, named });
    }
}

/// Events in the order of their places, and where each is then.
pub(super) fn ordered(events: Vec<(usize, Event)>) -> (Vec<Event>, Vec<usize>) {
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|at| events[*at].0);
    let mut now = vec![0; events.len()];
    for (new, old) in order.iter().enumerate() {
        now[*old] = new;
    }
    let sorted = order.iter().map(|at| events[*at].1.clone());
    (sorted.collect(), now)
}
