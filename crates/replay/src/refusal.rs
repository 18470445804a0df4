//! Refusals of a replay, found in a checked handler: what a recording cannot answer, with what to record instead.

pub use crate::event::advice;
use crate::needed::Roots;
use crate::reads::{Read, ReadKind, is_own, read};
use crate::remembering::{Held, holds};
use crate::subject::is_stack_of;
use kestrel_bpf::helper::{self, Helper};
use kestrel_compiler::check::tree::{
    Action, BinaryOp, CheckedProbe, Expr, ExprKind, Intrinsic, StatementKind,
};
use kestrel_compiler::lang::ast::Span;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_trace::calls::{MEMORY, REGISTER, Signature};
use kestrel_trace::event::EventClass;
use kestrel_trace::event_kind;
use kestrel_trace::layout::{Field, FieldPlace, Space};

/// A table: what helpers tell that a record has where it was asked to, under these names; words of the language are called the same.
pub(crate) const KEPT: &[(Helper, &str)] = &[
    (helper::GET_CURRENT_CGROUP_ID, "cgroup"),
    (helper::GET_CURRENT_TASK, "curtask"),
    (helper::GET_CURRENT_TASK_BTF, "curtask"),
    (helper::GET_NUMA_NODE_ID, "numaid"),
    (helper::JIFFIES64, "jiffies"),
];

/// Helpers that every record answers.
const ALWAYS: &[Helper] = &[
    helper::KTIME_GET_NS,
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_COMM,
    helper::GET_PRANDOM_U32,
];

/// Refusals: what a handler asks for and a recording of this event does not have; of the program's own events nothing is recorded.
/// `held` is the memory that the recording's records hold: what an address in the event's own record points to must be there with it, what is read
/// by an address that was kept may be of another event.
pub fn refused<'a>(handler: &'a CheckedProbe, event: Option<&'a EventClass>, held: Held) -> Vec<Diagnostic> {
    let mut found = Refusals {
        event,
        own: event.map(|event| (Roots::of(handler, event), holds(event))),
        held: event.map_or_else(Held::default, |_| held),
        found: Vec::new(),
    };
    for expr in handler.expressions() {
        found.expression(expr);
    }
    for statement in handler.statements() {
        found.statement(&statement.kind, statement.span);
    }
    found.found
}

/// Refusals of words about the thread that runs, in a handler of an interval: between two records nothing is known to run. (At `begin` and `end` the command
/// itself runs, as live.)
pub fn of_no_thread(handler: &CheckedProbe) -> Vec<Diagnostic> {
    let mut found = Refusals {
        event: None,
        own: None,
        held: Held::default(),
        found: Vec::new(),
    };
    for expr in handler.expressions() {
        match &expr.kind {
            ExprKind::Comm => found.missing(expr.span, "comm", "comm"),
            ExprKind::Binary { op, left, .. } => {
                if let ExprKind::Intrinsic(intrinsic) = &left.kind
                    && intrinsic.is_identity()
                {
                    let word = if *op == BinaryOp::ShiftRight { "pid" } else { "tid" };
                    found.missing(expr.span, word, word);
                }
            }
            _ => {}
        }
    }
    found.found
}

/// Clocks that records have no time of.
const CLOCKS: &[Helper] = &[
    helper::KTIME_GET_BOOT_NS,
    helper::KTIME_GET_TAI_NS,
    helper::KTIME_GET_COARSE_NS,
];

/// Begins and ends the refusal of what a helper of the kernel gives.
const HELPER: (&str, &str) = ("what the kernel's bpf_", " gives is in no recording");

/// Longest words of a program that a refusal repeats.
const MAX_WORDS: usize = 60;

/// Has refusals of helpers, and of what is read behind the address of a task, name what the program says at their places: `nsecs(boot)`, `ppid`.
pub fn name_as_written<'t>(refused: &mut [Diagnostic], words: impl Fn(Span) -> Option<&'t str>) {
    for diagnostic in refused {
        let Some(words) = words(diagnostic.span).filter(|words| words.len() <= MAX_WORDS) else {
            continue;
        };
        let message = &diagnostic.message;
        if let Some(rest) = message.strip_prefix(TASK_STRUCT) {
            diagnostic.message = format!("{words}{rest}");
        } else if message.starts_with(HELPER.0) && message.ends_with(HELPER.1) {
            diagnostic.message = format!("{words} is in no recording");
        }
    }
}

/// What is behind the address of a task.
const TASK_STRUCT: &str = "what a task_struct holds";
/// A value to record that has a name of the user's choice.
const NAMED: &str = "NAME = …";

/// Whether an address is found from that of the task that runs.
fn is_of_task(address: &Expr) -> bool {
    match &address.kind {
        ExprKind::Intrinsic(intrinsic) => intrinsic.is_current_task(),
        ExprKind::Load { address, .. } => is_of_task(address),
        ExprKind::Binary { left, right, .. } => is_of_task(left) || is_of_task(right),
        ExprKind::Sequence { value, .. } => is_of_task(value),
        _ => false,
    }
}

/// Whether an expression is the one helper's answer that has the numbers of user and group.
fn is_user_and_group(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Intrinsic(Intrinsic::Helper { helper, .. }) if *helper == helper::GET_CURRENT_UID_GID)
}

/// Whether a helper copies a text that the program itself has, as `strlen` and `str_concat` do.
fn is_copy(helper: Helper, operands: &[Expr]) -> bool {
    helper == helper::PROBE_READ_KERNEL_STR && operands.last().is_some_and(is_own)
}

/// The field of an event's records that has what a word of the language says.
pub(crate) fn has_field(event: Option<&EventClass>, name: &str) -> bool {
    event.is_some_and(|event| event.layout.fields().iter().any(|field| field.name == name))
}

struct Refusals<'a> {
    event: Option<&'a EventClass>,
    /// Which addresses are of the event's own record, and the memory that records of the event hold.
    own: Option<(Roots<'a>, Held)>,
    held: Held,
    found: Vec<Diagnostic>,
}

impl Refusals<'_> {
    /// Says that something was not recorded, and how it would be.
    fn missing(&mut self, span: Span, what: &str, recorded: &str) {
        let diagnostic = match self.event {
            Some(event) => {
                let message = format!("{what} was not recorded with {}", event.name);
                let diagnostic = Diagnostic::error(span, message).hint(advice(&event.name, recorded));
                // Of other events memory is advised by its address; arguments of calls have their own numbers.
                let is_named = recorded == NAMED && event.name.contains("syscalls:sys_");
                diagnostic.maybe_hint(is_named.then(|| "and read it by that name: args.NAME".to_owned()))
            }
            None => {
                let message = format!("{what} is known of recorded events only");
                Diagnostic::error(span, message)
            }
        };
        if !self.found.contains(&diagnostic) {
            self.found.push(diagnostic);
        }
    }

    fn word(&mut self, span: Span, word: &str) {
        // Where what it holds is asked for, the address alone is of no use.
        let is_within = |it: &Diagnostic| {
            it.message.starts_with(TASK_STRUCT) && it.span.start <= span.start && span.end <= it.span.end
        };
        if word == "curtask" && self.found.iter().any(is_within) {
            return;
        }
        if !has_field(self.event, word) {
            self.missing(span, word, word);
        }
    }

    /// Whether the recording may hold memory that is read.
    fn is_held(&self, read: &Read<'_>) -> bool {
        let (is_own, with_event) = match &self.own {
            Some((roots, held)) => (roots.is_own(read.address), *held),
            None => (false, Held::default()),
        };
        let held = Held {
            // What calls were given is there for what happens in the kernel on their behalf.
            user: self.held.user && (!is_own || with_event.user || self.held.of_calls),
            kernel: self.held.kernel && (!is_own || with_event.kernel),
            ..self.held
        };
        match read.space {
            Some(Space::User) => held.user,
            Some(Space::Kernel) => held.kernel,
            None => held.user || held.kernel,
        }
    }

    /// Memory behind an address that a field, if any, has.
    fn memory(&mut self, span: Span, address: &Expr, what: ReadKind) {
        let name = self.field_of(address);
        let (what, recorded) = match (what, name) {
            (ReadKind::Text, Some(name)) => (
                format!("the string at args.{name}"),
                format!("{name} = str(args.{name})"),
            ),
            (ReadKind::Member | ReadKind::Text, None) if is_of_task(address) => {
                (TASK_STRUCT.to_owned(), NAMED.to_owned())
            }
            (ReadKind::Text, None) => (
                "the string at this address".to_owned(),
                "text = str(…)".to_owned(),
            ),
            (ReadKind::Bytes, Some(name)) => {
                let field = match self.argument(name) {
                    Some(place) => format!("{MEMORY}{place}"),
                    None => "memory".to_owned(),
                };
                (
                    format!("the memory behind args.{name}"),
                    format!("{field} = buf(args.{name}, BYTES)"),
                )
            }
            (ReadKind::Bytes, None) => (
                "the memory at this address".to_owned(),
                "memory = buf(ADDRESS, BYTES)".to_owned(),
            ),
            (ReadKind::Member, Some(name)) => (
                format!("the memory behind args.{name}"),
                format!("args.{name}->…"),
            ),
            (ReadKind::Member, None) => ("the memory at this address".to_owned(), "…".to_owned()),
        };
        // A function's arguments are known by number: memory is read where one was recorded beside it.
        let recorded = match self.event {
            Some(event) if event_kind::is_function_entry(&event.kind) => {
                let number = name.and_then(|name| name.strip_prefix(REGISTER)?.parse::<u8>().ok());
                let number = number.unwrap_or(0);
                format!("arg{number}, {MEMORY}{number} = buf(arg{number}, BYTES)")
            }
            _ => recorded,
        };
        self.missing(span, &what, &recorded);
    }

    /// The place among a call's arguments of the field of this name, where the event is a call's.
    fn argument(&self, name: &str) -> Option<usize> {
        let event = self.event?;
        let call = event.name.strip_prefix("syscalls:sys_enter_")?;
        let signature = Signature::of_event(call, event);
        signature.parameters.iter().position(|it| it.name == name)
    }

    /// The name of the field whose value an address is.
    fn field_of(&self, address: &Expr) -> Option<&str> {
        match &address.kind {
            ExprKind::Load { address, offset, .. } if address.kind == ExprKind::ContextPointer => {
                let fixed = |field: &&Field| match field.place {
                    FieldPlace::Fixed { offset: own } => i64::from(own) == i64::from(*offset),
                    FieldPlace::Tail { .. } => false,
                };
                let field = self.event?.layout.fields().iter().find(fixed)?;
                Some(&field.name)
            }
            _ => None,
        }
    }

    fn expression(&mut self, expr: &Expr) {
        let span = expr.span;
        if let Some(read) = read(expr) {
            if !self.is_held(&read) {
                self.memory(span, read.address, read.what);
            }
            return;
        }
        match &expr.kind {
            ExprKind::Stack { space, .. } => self.stack(span, *space),
            ExprKind::StackCopy { .. } | ExprKind::Unwound { .. } => {
                self.missing(span, "a copy of the stack", "ustack");
            }
            ExprKind::Intrinsic(Intrinsic::FunctionAddress) => self.word(span, "func"),
            ExprKind::IsTarget(_) => {
                let message = "which threads were followed is not known of a recording";
                self.found
                    .push(Diagnostic::error(span, message).hint("compare pid or comm"));
            }
            ExprKind::Parameter(_) => {
                self.found
                    .push(Diagnostic::error(span, "a recording has no parameters"));
            }
            ExprKind::Binary { op, left, .. } => {
                // One helper gives both numbers; the operation on its result decides which one is asked for.
                if let ExprKind::Intrinsic(Intrinsic::Helper { helper, .. }) = &left.kind
                    && *helper == helper::GET_CURRENT_UID_GID
                {
                    self.word(span, if *op == BinaryOp::ShiftRight { "gid" } else { "uid" });
                }
            }
            // `username` takes the lower half alone.
            ExprKind::Convert { value, .. } if is_user_and_group(value) && !has_field(self.event, "uid") => {
                self.missing(span, "username", "uid");
            }
            ExprKind::Intrinsic(Intrinsic::Helper { helper, .. })
                if *helper == helper::GET_SMP_PROCESSOR_ID && self.event.is_none() =>
            {
                self.missing(span, "cpu", "cpu");
            }
            ExprKind::Intrinsic(Intrinsic::Helper { helper, .. })
                if !ALWAYS.contains(helper) && *helper != helper::GET_CURRENT_UID_GID =>
            {
                match KEPT.iter().find(|(known, _)| known == helper) {
                    Some((_, word)) => self.word(span, word),
                    None => self.helper(span, *helper),
                }
            }
            ExprKind::HelperCall { helper, operands } if !is_copy(*helper, operands) => {
                self.helper(span, *helper);
            }
            _ => {}
        }
    }

    fn helper(&mut self, span: Span, helper: Helper) {
        let name = helper.name().unwrap_or("helper");
        let message = format!("{}{name}{}", HELPER.0, HELPER.1);
        let found = Diagnostic::error(span, message);
        self.found.push(match CLOCKS.contains(&helper) {
            true => found.hint("nsecs is the clock of the recording; strftime(\"…\", nsecs) gives its date"),
            false => found,
        });
    }

    fn stack(&mut self, span: Span, space: Space) {
        let there = self.event.is_some_and(|event| {
            event
                .layout
                .fields()
                .iter()
                .any(|field| is_stack_of(&field.ty, space))
        });
        let word = match space {
            Space::Kernel => "kstack",
            Space::User => "ustack",
        };
        if !there {
            self.missing(span, word, word);
        }
    }

    fn statement(&mut self, statement: &StatementKind, span: Span) {
        let (message, hint) = match statement {
            StatementKind::Perform { helper, operands, .. } if is_copy(*helper, operands) => return,
            StatementKind::Perform { verb, .. } => (
                format!("{verb}() acts on what runs, and a recording has happened"),
                "leave it out here, or run the program without --trace",
            ),
            // The program ends as soon as its output is performed.
            StatementKind::Act(Action::Leave) => return,
            StatementKind::Act(_) => (
                "tables and buffers are a session's, and a recording has none".to_owned(),
                "leave it out here",
            ),
            _ => return,
        };
        self.found.push(Diagnostic::error(span, message).hint(hint));
    }
}
