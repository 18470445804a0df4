//! What a hook is attached to, as the state spells it.

use kestrel_bpf::btf::TypeId;
use kestrel_catalog::catalog::Attachment;
use kestrel_catalog::catalog::kind::Spot;
use kestrel_catalog::code::Place;
use kestrel_kernel::perf::Counter;
use serde::{Deserialize, Serialize};

/// What a hook is attached to: [`Attachment`] as the state spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in Attachment")]
pub enum AttachmentState {
    #[default]
    Nothing,
    Tracepoint {
        group: String,
        name: String,
    },
    Tracepoints,
    RawTracepoint {
        name: String,
    },
    TypedTracepoint {
        name: String,
        id: u32,
    },
    Functions {
        at_return: bool,
        #[serde(default)]
        alone: bool,
        #[serde(default)]
        maxactive: Option<u32>,
    },
    Entry {
        symbol: String,
    },
    Instruction {
        module: Option<String>,
        symbol: String,
        offset: u64,
        address: u64,
        by_name: bool,
        at_return: bool,
        #[serde(default)]
        maxactive: Option<u32>,
    },
    Instructions {
        spots: Vec<Spot>,
    },
    Trampoline {
        #[serde(default)]
        module: Option<String>,
        function: String,
        id: u32,
        at_return: bool,
    },
    Counter {
        kind: u32,
        config: u64,
        name: String,
        counts_time: bool,
        period: u64,
        every_cpu: bool,
    },
}

impl From<&Attachment> for AttachmentState {
    fn from(attachment: &Attachment) -> Self {
        match attachment.clone() {
            Attachment::Tracepoint { group, name } => Self::Tracepoint { group, name },
            Attachment::Tracepoints => Self::Tracepoints,
            Attachment::RawTracepoint { name } => Self::RawTracepoint { name },
            Attachment::TypedTracepoint { name, id } => Self::TypedTracepoint { name, id: id.0 },
            Attachment::Functions {
                at_return,
                alone,
                maxactive,
            } => Self::Functions {
                at_return,
                alone,
                maxactive,
            },
            Attachment::Entry { symbol } => Self::Entry { symbol },
            Attachment::Instruction {
                place,
                address,
                by_name,
                at_return,
                maxactive,
            } => Self::Instruction {
                module: place.module,
                symbol: place.symbol,
                offset: place.offset,
                address,
                by_name,
                at_return,
                maxactive,
            },
            Attachment::Instructions { spots } => Self::Instructions { spots },
            Attachment::Trampoline {
                module,
                function,
                id,
                at_return,
            } => Self::Trampoline {
                module,
                function,
                id: id.0,
                at_return,
            },
            Attachment::Counter {
                counter,
                period,
                every_cpu,
            } => Self::Counter {
                kind: counter.kind,
                config: counter.config,
                name: counter.name.into_owned(),
                counts_time: counter.counts_time,
                period,
                every_cpu,
            },
        }
    }
}

impl AttachmentState {
    /// Whether an attachment is this one. Where a function of a module lies is another each time that the module is loaded, and not known before.
    pub(in crate::session) fn is(&self, attachment: &Attachment) -> bool {
        let elsewhere = |mut state: Self| {
            if let Self::Instruction {
                module: Some(_),
                address,
                by_name,
                ..
            } = &mut state
            {
                (*address, *by_name) = (0, true);
            }
            state
        };
        elsewhere(self.clone()) == elsewhere(Self::from(attachment))
    }

    /// How many calls a kretprobe follows, where that was said: its event's name does not say it.
    pub(in crate::session) fn maxactive(&self) -> Option<u32> {
        match self {
            Self::Functions { maxactive, .. } | Self::Instruction { maxactive, .. } => *maxactive,
            _ => None,
        }
    }

    /// The same as the catalog has it.
    pub fn attachment(&self) -> Option<Attachment> {
        Some(match self.clone() {
            Self::Nothing => return None,
            Self::Tracepoint { group, name } => Attachment::Tracepoint { group, name },
            Self::Tracepoints => Attachment::Tracepoints,
            Self::RawTracepoint { name } => Attachment::RawTracepoint { name },
            Self::TypedTracepoint { name, id } => Attachment::TypedTracepoint { name, id: TypeId(id) },
            Self::Functions {
                at_return,
                alone,
                maxactive,
            } => Attachment::Functions {
                at_return,
                alone,
                maxactive,
            },
            Self::Entry { symbol } => Attachment::Entry { symbol },
            Self::Instruction {
                module,
                symbol,
                offset,
                address,
                by_name,
                at_return,
                maxactive,
            } => Attachment::Instruction {
                place: Place {
                    module,
                    symbol,
                    offset,
                },
                address,
                by_name,
                at_return,
                maxactive,
            },
            Self::Instructions { spots } => Attachment::Instructions { spots },
            Self::Trampoline {
                module,
                function,
                id,
                at_return,
            } => Attachment::Trampoline {
                module,
                function,
                id: TypeId(id),
                at_return,
            },
            Self::Counter {
                kind,
                config,
                name,
                counts_time,
                period,
                every_cpu,
            } => Attachment::Counter {
                counter: Counter {
                    kind,
                    config,
                    name: name.into(),
                    counts_time,
                },
                period,
                every_cpu,
            },
        })
    }
}
