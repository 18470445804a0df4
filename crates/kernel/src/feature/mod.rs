//! Features of this kernel, found out by trying (attaching, where loading proves nothing), each once and only when asked; never by version.
//!
//! Attach probes go to a function that the kernel calls only in its own BPF self-test (`bpf_fentry_test1`) and to rare tracepoints, with a program
//! that returns at once, and are detached again. Detaching a perf event or `fentry` costs 50 to 150 ms: hence lazily.

mod attach;
mod load;

use crate::btf;
use crate::error::{Errno, Error, Result};
use crate::host::Host;
use kestrel_bpf::btf::{Btf, BtfKind, TypeId};
use kestrel_bpf::helper::Helper;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Support for a feature, or the reason for its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// Tried, and it works.
    Works,
    /// This kernel does not have it.
    Missing {
        /// The kernel's answer, if there was one.
        errno: Option<Errno>,
        /// The probe of the feature and its result.
        why: String,
    },
    /// The kernel refuses it to this process: privilege, lockdown, a sandbox's policy. It may or may not be there.
    Denied {
        /// The kernel's answer.
        errno: Errno,
        /// The probe of the feature and its result.
        why: String,
    },
}

impl Support {
    /// Whether it works.
    pub fn works(&self) -> bool {
        *self == Self::Works
    }

    fn of(result: Result<()>) -> Self {
        let Err(error) = result else { return Self::Works };
        match error.errno() {
            Some(errno) if errno.is_permission() && error.verifier_log().is_none() => Self::Denied {
                errno,
                why: error.to_string(),
            },
            errno => Self::Missing {
                errno,
                why: error.to_string(),
            },
        }
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Missing { why, .. } => write!(f, "missing: {why}"),
            Self::Denied { why, .. } => write!(f, "denied: {why}"),
        }
    }
}

type Probe = fn(&Features) -> Result<()>;

/// The features as an enum with the table of their rows.
macro_rules! features {
    ($($feature:ident $name:literal $purpose:literal $probe:path;)*) => {
        /// Something that kernels have or have not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Feature {
            $(#[doc = concat!("`", $name, "`: ", $purpose, ".")] $feature,)*
        }

        impl Feature {
            /// All features, in the order in which to show them.
            pub const ALL: &[Self] = &[$(Self::$feature,)*];

            /// The short name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$feature => $name,)* }
            }

            /// Purpose of the feature, in half a sentence.
            pub fn purpose(self) -> &'static str {
                match self { $(Self::$feature => $purpose,)* }
            }

            fn probe(self) -> Probe {
                match self { $(Self::$feature => $probe,)* }
            }
        }
    };
}

features! {
    Bpf "bpf" "loading BPF programs" load::program;
    Btf "btf" "the kernel's types: fields by name, typed arguments" load::types;
    Atomics "atomics" "BPF atomics: Kestrel's ring buffer needs them" load::atomics;
    MmapArray "mmap-array" "arrays shared with user space: rings, counters, switches" load::mmap_array;
    Ringbuf "ringbuf" "the kernel's own BPF ring buffer" load::ringbuf;
    PreemptDisable "preempt-disable" "programs that cannot be preempted between reserve and commit" load::preempt_disable;
    RunStats "run-stats" "counting and timing the runs of programs" load::run_stats;
    RawTracepoint "raw-tp" "tracepoints by their raw arguments" attach::raw_tracepoint;
    RawTracepointCookie "raw-tp-cookie" "cookies of raw tracepoints" attach::raw_tracepoint_cookie;
    TypedTracepoint "tp-btf" "tracepoints by their typed arguments" attach::typed_tracepoint;
    TypedTracepointCookie "tp-btf-cookie" "cookies of typed tracepoints" attach::typed_tracepoint_cookie;
    Tracepoint "tracepoint" "tracepoints by their formatted entries" attach::tracepoint;
    Kprobe "kprobe" "probes on kernel instructions" attach::kprobe;
    Kretprobe "kretprobe" "probes on returns of kernel functions" attach::kretprobe;
    PerfLink "perf-link" "links to tracepoints, kprobes and perf events: cookies, and pins that outlive the process" attach::perf_link;
    KprobeMulti "kprobe-multi" "probes on many functions at once" attach::kprobe_multi;
    KprobeSession "kprobe-session" "entry and return by one program, on many functions at once" attach::kprobe_session;
    Fentry "fentry" "entries of kernel functions, with typed arguments" attach::fentry;
    FentryCookie "fentry-cookie" "cookies of fentry and fexit" attach::fentry_cookie;
    Fexit "fexit" "returns of kernel functions with their arguments, typed" attach::fexit;
    UprobeMulti "uprobe-multi" "probes on many user functions at once" attach::uprobe_multi;
    KprobeEvents "kprobe-events" "named probes through tracefs, with maxactive for returns" attach::kprobe_events;
}

/// Cache of this kernel's features. Asking is thread-safe.
#[derive(Debug)]
pub struct Features {
    host: Host,
    btf: OnceLock<Result<Arc<Btf>>>,
    cells: Vec<OnceLock<Support>>,
    helpers: Mutex<HashMap<(Helper, u32), Support>>,
}

impl Features {
    /// A cache with nothing known yet. `host` is where the kernel's files are; programs are tried on the kernel that runs.
    pub fn new(host: Host) -> Self {
        let cells = Feature::ALL.iter().map(|_| OnceLock::new()).collect();
        Self {
            host,
            btf: OnceLock::new(),
            cells,
            helpers: Mutex::default(),
        }
    }

    /// The host it was made for.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The kernel's types, loaded when first asked for.
    ///
    /// # Errors
    /// As [`btf::load`].
    pub fn btf(&self) -> Result<&Arc<Btf>> {
        self.btf
            .get_or_init(|| btf::load(&self.host))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Whether a feature works here: tried once, then remembered.
    pub fn check(&self, feature: Feature) -> Support {
        let probe = || Support::of(feature.probe()(self));
        match self.cells.get(feature as usize) {
            Some(cell) => cell.get_or_init(probe).clone(),
            None => probe(),
        }
    }

    /// Whether a feature works here.
    pub fn works(&self, feature: Feature) -> bool {
        self.check(feature).works()
    }

    /// Whether programs of a kind may call a helper. Some helpers exist only for some kinds.
    pub fn helper(&self, helper: Helper, kind: crate::bpf::ProgramKind) -> Support {
        let key = (helper, kind.numbers().0.0 << 8 | kind.numbers().1.0);
        let known = |features: &Self| {
            features
                .helpers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&key)
                .cloned()
        };
        if let Some(support) = known(self) {
            return support;
        }
        let support = Support::of(load::helper(helper, kind));
        self.helpers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, support.clone());
        support
    }

    /// The BTF id of a kernel function.
    fn function(&self, name: &'static str) -> Result<TypeId> {
        self.type_id(BtfKind::Func, name)
    }

    fn type_id(&self, kind: BtfKind, name: &str) -> Result<TypeId> {
        self.btf()?.find(kind, name).ok_or_else(|| Error::Unavailable {
            what: "a kernel type or function",
            why: format!("its BTF has no {name}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::ProgramKind;
    use kestrel_bpf::helper;

    #[test]
    fn names_are_unique_and_every_feature_has_a_cell() {
        let features = Features::new(Host::default());
        for (index, feature) in Feature::ALL.iter().enumerate() {
            assert_eq!(*feature as usize, index);
            assert!(
                !Feature::ALL[..index]
                    .iter()
                    .any(|other| other.name() == feature.name())
            );
        }
        assert_eq!(features.cells.len(), Feature::ALL.len());
    }

    #[test]
    fn every_probe_answers_and_leaves_nothing_attached() {
        let features = Features::new(Host::default());
        let mine = features.check(Feature::Bpf);
        if !mine.works() {
            return println!("skipped: {mine}");
        }
        for feature in Feature::ALL {
            let support = features.check(*feature);
            println!("{:16} {support}", feature.name());
            assert_eq!(features.check(*feature), support);
        }
        // Atomics came with 5.12, raw tracepoints and mappable arrays long before.
        assert!(features.works(Feature::RawTracepoint) && features.works(Feature::MmapArray));
        let release = crate::procfs::kernel_release(features.host()).unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(features.works(Feature::Atomics), version >= (5, 12));
    }

    #[test]
    fn helpers_depend_on_the_kind_of_program() {
        let features = Features::new(Host::default());
        if !features.works(Feature::Bpf) {
            return println!("skipped: {}", features.check(Feature::Bpf));
        }
        let kprobe = ProgramKind::Kprobe;
        assert_eq!(features.helper(helper::KTIME_GET_NS, kprobe), Support::Works);
        assert!(!features.helper(Helper(60_000), kprobe).works());
        // bpf_skb_store_bytes is for packets.
        assert!(!features.helper(Helper(9), kprobe).works());
        assert!(
            features
                .helper(
                    Helper(9),
                    ProgramKind::Other(
                        crate::bpf::ProgramType::SCHED_CLS,
                        crate::bpf::AttachType::NONE,
                        TypeId(0)
                    )
                )
                .works()
        );
    }
}
