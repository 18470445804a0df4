//! Metrics of an agent and its sessions: collected when they are scraped, and served on this machine.

mod map;
pub mod serve;
pub mod text;

use super::log::Progress;
use crate::session::pinned::PinnedSession;
use crate::session::store::Store;
use kestrel_catalog::Result;
use kestrel_hook::buffer::layout::Mode;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Stats, enable_stats};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use text::{Family, Format, MetricKind, Number};

/// Counts of messages that an agent handled for a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Shown as a line: `notify`, `time`.
    pub shown: u64,
    /// Commands of `exec` that were started.
    pub started: u64,
    /// `exec`: left out, because it was asked for too often.
    pub limited: u64,
    /// `exec`: left out, because nothing may be run.
    pub forbidden: u64,
    /// `dump`: traces begun.
    pub dumped: u64,
    /// Lost: the ring was full.
    pub lost: u64,
}

/// Counts of commands by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Commands that ended with status 0.
    pub succeeded: u64,
    /// Ended with another status.
    pub failed: u64,
    /// Killed when their time was over.
    pub timed_out: u64,
    /// Could not be started.
    pub not_started: u64,
    /// Commands that run now.
    pub running: u64,
}

/// Activity of an agent since it began.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// Messages by session.
    pub messages: BTreeMap<String, Messages>,
    /// Commands of all sessions together.
    pub commands: Commands,
    /// Progress of the logs.
    pub logs: Vec<Progress>,
}

/// Collects the agent's metrics when they are asked for.
#[derive(Debug)]
pub struct Collector {
    store: Store,
    sessions: Vec<String>,
    /// While it is held, the kernel times programs.
    _timing: Option<Stats>,
    /// The most that was seen of what is computed from several words, and may seem to shrink while it grows: by identity of session, buffer, CPU.
    overwritten: Mutex<BTreeMap<(String, String, u32), u64>>,
}

impl Collector {
    /// Metrics of these sessions; none: of all. With `timing` the kernel measures the time of every BPF program of the machine as long as this lives,
    /// which costs each run some 20 ns.
    ///
    /// # Errors
    /// The kernel's, or when this host has no bpffs.
    pub fn new(host: &Host, sessions: Vec<String>, timing: bool) -> Result<Self> {
        Ok(Self {
            store: Store::open(host)?,
            sessions,
            _timing: timing.then(enable_stats).transpose()?,
            overwritten: Mutex::default(),
        })
    }

    /// All metrics as text. A session that ends meanwhile is left out.
    pub fn text(&self, activity: &Activity, format: Format) -> String {
        let mut families = Families::default();
        let mut names = self.store.names().unwrap_or_default();
        names.retain(|name| self.sessions.is_empty() || self.sessions.contains(name));
        families.sessions.add(&[], names.len() as u64);
        for name in &names {
            if let Ok(session) = self.store.session(Some(name)) {
                // Values read before the session ended are kept.
                let _ended = self.session(&session, &mut families);
            }
        }
        agent(activity, &mut families);
        text::text(&families.all(), format)
    }

    fn session(&self, session: &PinnedSession, all: &mut Families) -> Result<()> {
        let name = session.name();
        let started = session.state().started as f64 / 1e9;
        all.started.add(
            &[("session", name), ("uuid", session.state().uuid.as_str())],
            Number::Real(started),
        );
        for table in session.tables() {
            let labels = [("session", name), ("table", table.name.as_str())];
            all.table_active.add(&labels, table.active);
            all.table_events.add(&labels, table.events as u64);
            all.table_handlers.add(&labels, table.handlers as u64);
        }
        let status = session.status(None)?;
        for buffer in &status.buffers {
            self.buffer(name, &status.uuid, buffer, all);
        }
        for event in &status.events {
            let labels = [("session", name), ("event", event.event.as_str())];
            all.event_recorded.add(&labels, event.recorded);
            all.event_lost.add(&labels, event.lost);
        }
        for handler in session.handlers()? {
            let (table, _) = handler.name.split_once('/').unwrap_or((&handler.name, ""));
            let labels = [
                ("session", name),
                ("table", table),
                ("handler", handler.name.as_str()),
            ];
            all.handler_recorded.add(&labels, handler.kept());
            all.handler_lost.add(&labels, handler.lost());
            all.handler_missed.add(&labels, handler.missed);
        }
        for hook in session.hook_costs() {
            let labels = [
                ("session", name),
                ("event", hook.event.as_str()),
                ("way", hook.way.as_str()),
            ];
            all.hook_events.add(&labels, hook.events as u64);
            all.hook_missed.add(&labels, hook.missed);
            // The kernel counts runs only while statistics are on: a 0 would be wrong.
            if hook.runs > 0 {
                all.hook_runs.add(&labels, hook.runs);
                all.hook_time.add(&labels, Number::Real(hook.time as f64 / 1e9));
            }
        }
        for snapshot in session.map_snapshots()? {
            map::add(name, &snapshot, &mut all.maps);
        }
        Ok(())
    }

    fn buffer(
        &self,
        session: &str,
        uuid: &str,
        buffer: &kestrel_hook::buffer::status::Status,
        all: &mut Families,
    ) {
        let mode = match buffer.geometry.mode {
            Mode::Stream => "stream",
            Mode::Overwrite => "overwrite",
        };
        let labels = [
            ("session", session),
            ("buffer", buffer.name.as_str()),
            ("mode", mode),
        ];
        all.buffer_frozen.add(&labels, buffer.frozen);
        for ring in &buffer.rings {
            let cpu = ring.cpu.to_string();
            let labels = [
                ("session", session),
                ("buffer", buffer.name.as_str()),
                ("cpu", cpu.as_str()),
            ];
            all.buffer_size.add(&labels, u64::from(buffer.geometry.data()));
            all.buffer_held.add(&labels, ring.held);
            all.buffer_lost.add(&labels, ring.lost);
            if buffer.geometry.mode == Mode::Overwrite {
                let key = (uuid.to_owned(), buffer.name.clone(), ring.cpu);
                let mut most = self.overwritten.lock().unwrap_or_else(PoisonError::into_inner);
                let most = most.entry(key).or_default();
                *most = ring.overwritten.max(*most);
                all.buffer_recorded.add(&labels, ring.recorded);
                all.buffer_overwritten.add(&labels, *most);
            }
        }
    }
}

fn agent(activity: &Activity, all: &mut Families) {
    for (session, messages) in &activity.messages {
        for (outcome, count) in [
            ("shown", messages.shown),
            ("started", messages.started),
            ("limited", messages.limited),
            ("forbidden", messages.forbidden),
            ("dumped", messages.dumped),
            ("lost", messages.lost),
        ] {
            all.messages
                .add(&[("session", session.as_str()), ("outcome", outcome)], count);
        }
    }
    let commands = activity.commands;
    for (result, count) in [
        ("succeeded", commands.succeeded),
        ("failed", commands.failed),
        ("timed_out", commands.timed_out),
        ("not_started", commands.not_started),
    ] {
        all.commands.add(&[("result", result)], count);
    }
    all.running.add(&[], commands.running);
    for log in &activity.logs {
        let labels = [("session", log.session.as_str())];
        all.log_bytes.add(&labels, log.bytes);
        all.log_stalled.add(&labels, log.stalled);
    }
}

/// The table of all families: a field, its name, what its numbers mean.
macro_rules! families {
    ($($field:ident: $name:literal $kind:ident $help:literal;)*) => {
        struct Families {
            $($field: Family,)*
            maps: map::Families,
        }

        impl Default for Families {
            fn default() -> Self {
                Self {
                    $($field: Family::new($name, MetricKind::$kind, $help),)*
                    maps: map::Families::default(),
                }
            }
        }

        impl Families {
            fn all(self) -> Vec<Family> {
                let mut all = vec![$(self.$field,)*];
                all.extend(self.maps.all());
                all
            }
        }
    };
}

families! {
    sessions: "kestrel_sessions" Gauge "Sessions that are there.";
    started: "kestrel_session_start_time_seconds" Gauge "When the session was started, seconds since 1970.";
    table_active: "kestrel_table_active" Gauge "Whether the table is the active one.";
    table_events: "kestrel_table_events" Gauge "Events that the table has a handler for.";
    table_handlers: "kestrel_table_handlers" Gauge "Different handlers of the table.";
    event_recorded: "kestrel_event_recorded" Counter "Records of the event, in buffers that overwrite (streams do not count what they take).";
    event_lost: "kestrel_event_lost" Counter "Records of the event that a full or frozen buffer lost.";
    handler_recorded: "kestrel_handler_recorded" Counter "Records of the handler since its last reset, in buffers that overwrite; `table` is the first of its tables.";
    handler_lost: "kestrel_handler_lost" Counter "Records of the handler that a full or frozen buffer lost since its last reset.";
    handler_missed: "kestrel_handler_missed" Counter "Hits that the programs it is a part of did not see, because one ran already on that CPU.";
    buffer_frozen: "kestrel_buffer_frozen" Gauge "Whether the buffer takes nothing.";
    buffer_size: "kestrel_buffer_size_bytes" Gauge "Size of the ring of a CPU.";
    buffer_held: "kestrel_buffer_held_bytes" Gauge "Bytes in the ring of a CPU; in a stream those not yet read.";
    buffer_recorded: "kestrel_buffer_recorded" Counter "Records written to the ring of a CPU (overwriting buffers).";
    buffer_overwritten: "kestrel_buffer_overwritten" Counter "Of these, overwritten by newer ones.";
    buffer_lost: "kestrel_buffer_lost" Counter "Records that the ring of a CPU lost: it was full, or frozen.";
    hook_events: "kestrel_hook_events" Gauge "Events that the hook serves; the first of them names it.";
    hook_missed: "kestrel_hook_missed" Counter "Hits that the hook did not see because a program ran already on that CPU.";
    hook_runs: "kestrel_hook_runs" Counter "Runs of the hook while the kernel timed programs (--run-times).";
    hook_time: "kestrel_hook_run_seconds" Counter "Time of these runs, handlers in slots included.";
    messages: "kestrel_agent_messages" Counter "Messages of handlers, by what this agent did with them.";
    commands: "kestrel_agent_commands" Counter "Commands that this agent ran for exec(), by how they ended.";
    running: "kestrel_agent_commands_running" Gauge "Commands that run now.";
    log_bytes: "kestrel_log_written_bytes" Counter "Bytes of packets that this agent wrote to log files.";
    log_stalled: "kestrel_log_stalled" Gauge "Whether the log cannot be written now.";
}
