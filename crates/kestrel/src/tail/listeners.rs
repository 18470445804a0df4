//! Closures that are given the records of a session, with priorities: registered and unregistered while it runs.

use crate::callbacks::{Callback, Callbacks};
use crate::session::Session;
use kestrel_catalog::catalog::Glob;
use kestrel_catalog::{Error, Result};
use kestrel_trace::event::EventId;
use kestrel_trace::record::Record;

/// The closures of one session.
///
/// ```no_run
/// # fn watch(session: kestrel::session::Session) -> Result<(), kestrel::Error> {
/// use kestrel::tail::{Listeners, Live};
///
/// let listeners = Listeners::of(&session);
/// let mut live = Live::new(session);
/// let _all = listeners.register("sched:*", 0, |record| println!("{}", record.event.name))?;
/// let _before = listeners.register("sched:sched_process_fork", 10, |record| println!("a child of {}", record.pid))?;
/// live.start();
/// live.poll(&mut |record| {
///     listeners.give(record);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Listeners {
    events: Vec<(EventId, String)>,
    callbacks: Callbacks<dyn FnMut(&Record<'_>) + Send>,
}

impl Listeners {
    /// A view of a session's events that has seen none yet.
    pub fn of(session: &Session) -> Self {
        let classes = session.classes().iter();
        Self {
            events: classes.map(|class| (class.id, class.name.clone())).collect(),
            callbacks: Callbacks::default(),
        }
    }

    /// Registers a closure for the records of the events that a name or pattern names, until what this gives is dropped. Higher priorities are called first, the same ones in the order in
    /// which they were registered.
    ///
    /// # Errors
    /// When the session records no such event.
    pub fn register(
        &self,
        event: &str,
        priority: i32,
        mut closure: impl FnMut(&Record<'_>) + Send + 'static,
    ) -> Result<Callback> {
        let pattern = Glob::new(event);
        let matching = self.events.iter().filter(|(_, name)| pattern.matches(name));
        let wanted: Vec<EventId> = matching.map(|(id, _)| *id).collect();
        if wanted.is_empty() {
            let names: Vec<&str> = self.events.iter().map(|(_, name)| name.as_str()).collect();
            return Err(Error::Unsupported {
                what: format!("listening to {event}"),
                why: format!("the session records {}", names.join(", ")),
            });
        }
        let chosen = move |record: &Record<'_>| {
            if wanted.contains(&record.event.id) {
                closure(record);
            }
        };
        Ok(self.callbacks.register(priority, Box::new(chosen)))
    }

    /// Gives a record to the closures that it is for, in order.
    pub fn give(&self, record: &Record<'_>) {
        self.callbacks.each(|closure| closure(record));
    }
}
