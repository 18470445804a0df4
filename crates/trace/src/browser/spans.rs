//! Spans of threads on the page in the browser: system calls, each from its entry to its return, and the spans of programs that `kestrel-tracing` records.

use super::columns::Columns;
use super::longest::{Lasting, Longest, LongestKept};
use super::steps::Steps;
use super::strings::Strings;
use super::threads::Threads;
use crate::calls::{Call, Descriptors, End, RAW_EXIT, call_text};
use crate::event::EventClass;
use crate::export::Calls;
use crate::record::Record;
use std::collections::BTreeSet;

/// Flag: only the call's return was recorded.
const BEGAN_BEFORE: u8 = 1;
/// Flag: the call had not returned when the records ended, or its return was not recorded.
const UNFINISHED: u8 = 2;
/// Flag: the call failed.
const FAILED: u8 = 4;

/// A system call of a thread, or a span of its program.
#[derive(Debug)]
struct Span {
    thread: u32,
    begin_ns: u64,
    end_ns: u64,
    name: u32,
    text: Box<str>,
    marks: u8,
}

impl Lasting for Span {
    fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// Collects system calls and spans from records.
#[derive(Debug)]
pub(super) struct Spans {
    calls: Option<Calls>,
    returns: Returns,
    steps: Steps,
    kept: Kept,
}

/// The calls whose returns a trace has: of others it is not known how long they took.
#[derive(Debug, Default)]
pub(super) struct Returns {
    all: bool,
    calls: BTreeSet<String>,
}

impl Returns {
    /// The returns among these events.
    pub(super) fn of(events: &[EventClass]) -> Self {
        let calls = events
            .iter()
            .filter_map(|event| event.name.strip_prefix("syscalls:sys_exit_"));
        Self {
            all: events.iter().any(|event| event.name == RAW_EXIT),
            calls: calls.map(str::to_owned).collect(),
        }
    }

    /// Whether a call's end is known, or would be if there were one.
    fn knows_end_of(&self, call: &Call) -> bool {
        let is_open = matches!(call.end, End::Unfinished | End::Unseen);
        !is_open || self.all || self.calls.contains(&call.signature.call)
    }
}

#[derive(Debug)]
struct Kept {
    longest: Longest<Span>,
    count: u64,
}

impl Spans {
    /// A collector of these calls and of spans, which keeps at most `most` of both together; none where the trace has neither.
    pub(super) fn new(calls: Option<(Calls, Returns)>, steps: Steps, most: usize) -> Option<Self> {
        let longest = Longest::new(most);
        let is_needed = calls.is_some() || !steps.is_empty();
        let (calls, returns) = calls.unzip();
        is_needed.then(|| Self {
            calls,
            returns: returns.unwrap_or_default(),
            steps,
            kept: Kept { longest, count: 0 },
        })
    }

    /// Whether the trace has spans of programs.
    pub(super) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Adds a record; records come in the order of their times.
    pub(super) fn record(&mut self, record: &Record<'_>, wanted: bool, world: (&mut Strings, &mut Threads)) {
        let kept = &mut self.kept;
        let (strings, threads) = world;
        if let Some(calls) = &mut self.calls {
            calls.each(record, wanted, &mut |call, files| {
                if self.returns.knows_end_of(call) {
                    kept.add(call, files, record.time_ns, strings, threads);
                }
            });
        }
        if let Some(step) = self.steps.record(record).filter(|_| wanted) {
            kept.count += 1;
            if kept.longest.wants(record.time_ns.saturating_sub(step.begin_ns)) {
                kept.longest.push(Span {
                    thread: threads.index_of(record.tid, record.pid),
                    begin_ns: step.begin_ns,
                    end_ns: record.time_ns,
                    name: strings.number(&step.name),
                    text: step.text.into(),
                    marks: 0,
                });
            }
        }
    }

    /// Notes that records were lost.
    pub(super) fn lose(&mut self) {
        self.calls.iter_mut().for_each(Calls::lose);
        self.steps.lose();
    }

    /// Writes calls and spans as columns; gives how many there were, how many of them were left out, and the longest of those.
    pub(super) fn finish(
        mut self,
        end_ns: u64,
        columns: &mut Columns,
        (strings, threads): (&mut Strings, &mut Threads),
    ) -> (u64, u64, u64) {
        let kept = &mut self.kept;
        if let Some(calls) = &mut self.calls {
            calls.each_left(&mut |call, files| {
                if self.returns.knows_end_of(call) {
                    kept.add(call, files, end_ns, strings, threads);
                }
            });
        }
        let count = self.kept.count;
        let LongestKept {
            kept,
            left_out,
            up_to_ns,
        } = self.kept.longest.finish();
        let calls = kept.iter();
        columns.rising("call.begin", calls.clone().map(|it| it.begin_ns));
        columns.numbers("call.ns", calls.clone().map(|it| it.ns().into()));
        columns.numbers("call.thread", calls.clone().map(|it| it.thread.into()));
        columns.numbers("call.name", calls.clone().map(|it| it.name.into()));
        columns.numbers("call.marks", calls.clone().map(|it| it.marks.into()));
        columns.strings("call.text", calls.map(|it| it.text.as_ref()));
        (count, left_out, up_to_ns)
    }
}

impl Kept {
    fn add(
        &mut self,
        call: &Call,
        files: &Descriptors,
        now_ns: u64,
        strings: &mut Strings,
        threads: &mut Threads,
    ) {
        self.count += 1;
        let begin_ns = call.time_ns();
        let end_ns = match call.end {
            End::Returned(_) => call.ended_ns.unwrap_or(begin_ns),
            End::Unfinished | End::InProgress => now_ns,
            End::Never | End::Unseen => begin_ns,
        };
        if !self.longest.wants(end_ns.saturating_sub(begin_ns)) {
            return;
        }
        let mut marks = 0;
        for (mark, is_so) in [
            (BEGAN_BEFORE, call.begun_ns.is_none()),
            (UNFINISHED, matches!(call.end, End::Unfinished | End::Unseen)),
            (FAILED, call.error().is_some()),
        ] {
            marks |= if is_so { mark } else { 0 };
        }
        self.longest.push(Span {
            thread: threads.index_of(call.tid, call.pid),
            begin_ns,
            end_ns,
            name: strings.number(&call.signature.shown()),
            text: call_text(call, files).into(),
            marks,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Moment, Pairing, Pieces, Signature};
    use crate::event::EventId;
    use crate::layout::Layout;
    use std::sync::Arc;

    #[test]
    fn a_call_whose_return_was_not_recorded_has_no_span() {
        let event = |name: &str| EventClass {
            id: EventId(1),
            name: name.to_owned(),
            kind: "tracepoint".to_owned(),
            layout: Layout::default(),
            action: None,
            print: None,
        };
        let mut pairing = Pairing::default();
        let entry = Moment::Entry {
            signature: Arc::new(Signature::new("openat", [])),
            values: Vec::new(),
            pieces: Pieces::default(),
            stacks: Vec::new(),
        };
        pairing.add((1, 1), 5, entry, &mut |_| {});
        let mut open = None;
        pairing.finish(&mut |call| open = Some(call));
        let knows = |name: &str| {
            open.as_ref()
                .map(|call| Returns::of(&[event(name)]).knows_end_of(call))
        };
        assert_eq!(knows("syscalls:sys_enter_openat"), Some(false));
        assert_eq!(knows("syscalls:sys_exit_read"), Some(false));
        assert_eq!(knows("syscalls:sys_exit_openat"), Some(true));
        assert_eq!(knows(RAW_EXIT), Some(true));
    }
}
