//! Names of counters for `stat` (`cycles`, `software:page-faults`, `L1-dcache-load-misses`, `r01c2`, `instructions:u`): perf's names
//! and ours, without a period.

use super::hardware;
use crate::error::{Error, Result, nothing_matches};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::perf::{Counter, Levels, Software};
use kestrel_kernel::procfs::CpuList;
use std::borrow::Cow;

/// Event that a counter counts, as far as figures are derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meaning {
    /// A software counter of the kernel.
    Software(u64),
    /// A hardware counter, by `enum perf_hw_id`.
    Hardware(u64),
    /// Accesses (or misses) of a cache for loads, stores or prefetches.
    Cache {
        /// `L1-dcache`.
        cache: &'static str,
        /// Whether misses are counted, instead of accesses.
        misses: bool,
        /// The operation: 0 loads, 1 stores, 2 prefetches.
        operation: u64,
    },
    /// The hits of a tracepoint.
    Tracepoint,
    /// A raw event of the processor.
    Raw,
}

/// A counter by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The name as it was typed.
    pub name: String,
    /// The kernel's numbers.
    pub counter: Counter,
    /// The counted event.
    pub meaning: Meaning,
    /// Privilege levels at which it counts.
    pub levels: Levels,
    /// Scale of the counts, if they are not shown by themselves.
    pub scale: Option<Scale>,
    /// The CPUs that count for all, where the unit has such (`cpumask`).
    pub cpus: Option<CpuList>,
}

/// Factor and unit with which counts are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Factor from counts to the unit that is shown.
    pub by: f64,
    /// Unit of the scaled counts: `Joules`.
    pub unit: String,
}

impl Named {
    /// The hits of a tracepoint.
    pub fn tracepoint(counter: Counter) -> Self {
        Self {
            name: counter.name.to_string(),
            meaning: Meaning::Tracepoint,
            counter,
            levels: Levels::ALL,
            scale: None,
            cpus: None,
        }
    }
}

/// `PERF_TYPE_HW_CACHE` and `PERF_TYPE_RAW`.
const TYPE_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;

/// A table: caches by `enum perf_hw_cache_id`, as perf calls them.
const CACHES: &[&str] = &["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
/// A table: `enum perf_hw_cache_op_id`, one and many.
const OPERATIONS: &[(&str, &str)] = &[("load", "loads"), ("store", "stores"), ("prefetch", "prefetches")];

/// Kinds that may stand before a name.
const KINDS: &[(&str, Family)] = &[("hardware", Family::Hardware), ("software", Family::Software)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Hardware,
    Software,
}

/// Default counters, as perf has them.
pub fn usual() -> Vec<Named> {
    let software = [
        Software::TaskClock,
        Software::ContextSwitches,
        Software::CpuMigrations,
        Software::PageFaults,
    ];
    let software = software.into_iter().map(of_software);
    software
        .chain(hardware::USUAL.iter().filter_map(|name| plain(name, None)))
        .collect()
}

/// A software counter of the kernel.
pub fn of_software(counter: Software) -> Named {
    Named {
        name: counter.name().to_owned(),
        meaning: Meaning::Software(counter as u64),
        counter: counter.into(),
        levels: Levels::ALL,
        scale: None,
        cpus: None,
    }
}

/// The counter of a name; `None` where it is not shaped like one, and so may be an event of a tracer.
///
/// # Errors
/// When it is shaped like one and there is none, with names that come close.
pub fn find(text: &str) -> Result<Option<Named>> {
    let mut parts: Vec<&str> = text.trim().split(':').collect();
    let first = parts.first().copied().unwrap_or_default();
    let kind = crate::catalog::find_kind(first).map(|kind| kind.name());
    let family = KINDS.iter().find(|(name, _)| kind == Some(name)).map(|(_, f)| *f);
    if family.is_some() {
        parts.remove(0);
    }
    let (name, modifiers) = match parts.as_slice() {
        [name] => (*name, None),
        [name, modifiers] => (*name, Some(*modifiers)),
        _ => return Ok(None),
    };
    let Some(mut named) = plain(name, family) else {
        // A name with a colon is an event of a tracer, or a file of events.
        let alone = family.is_some() || modifiers.is_none() && is_word(name);
        return if alone {
            Err(unknown(name, family))
        } else {
            Ok(None)
        };
    };
    text.trim().clone_into(&mut named.name);
    if let Some(modifiers) = modifiers {
        named.levels = levels(text, modifiers)?;
    }
    Ok(Some(named))
}

/// Whether it could be a counter's name and no pattern.
fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Privilege levels that letters behind a name select.
pub(super) fn levels(text: &str, modifiers: &str) -> Result<Levels> {
    match modifiers {
        "u" => Ok(Levels {
            user: true,
            kernel: false,
        }),
        "k" => Ok(Levels {
            user: false,
            kernel: true,
        }),
        "uk" | "ku" => Ok(Levels::ALL),
        _ => Err(Error::WrongShape {
            wanted: text.to_owned(),
            shape: "NAME, NAME:u (in user space only) or NAME:k (in the kernel only)".to_owned(),
        }),
    }
}

/// A counter by its plain name, without kind and modifiers.
fn plain(name: &str, family: Option<Family>) -> Option<Named> {
    if family != Some(Family::Hardware)
        && let Some(counter) = Software::find(name)
    {
        return Some(of_software(counter));
    }
    if family == Some(Family::Software) {
        return None;
    }
    let named = |kind, config, meaning| Named {
        name: name.to_owned(),
        counter: Counter {
            kind,
            config,
            config1: 0,
            config2: 0,
            name: Cow::Owned(name.to_owned()),
            access: 0,
            counts_time: false,
        },
        meaning,
        levels: Levels::ALL,
        scale: None,
        cpus: None,
    };
    if let Some(config) = hardware::config(name) {
        return Some(named(hardware::TYPE, config, Meaning::Hardware(config)));
    }
    if let Some((config, meaning)) = cache(name) {
        return Some(named(TYPE_CACHE, config, meaning));
    }
    let raw = name.strip_prefix('r').filter(|digits| digits.len() <= 16);
    let config = u64::from_str_radix(raw.filter(|digits| !digits.starts_with('+'))?, 16).ok()?;
    Some(named(TYPE_RAW, config, Meaning::Raw))
}

fn cache(name: &str) -> Option<(u64, Meaning)> {
    all_caches()
        .find(|(known, ..)| known == name)
        .map(|(_, config, meaning)| (config, meaning))
}

/// Every combination; the processor decides which of them exist.
fn all_caches() -> impl Iterator<Item = (String, u64, Meaning)> {
    let of = |id: usize, cache: &'static str| {
        OPERATIONS
            .iter()
            .zip(0..)
            .flat_map(move |((one, many), operation)| {
                [
                    (format!("{cache}-{many}"), false),
                    (format!("{cache}-{one}-misses"), true),
                ]
                .map(|(name, misses)| {
                    let config = id as u64 | operation << 8 | u64::from(misses) << 16;
                    (
                        name,
                        config,
                        Meaning::Cache {
                            cache,
                            misses,
                            operation,
                        },
                    )
                })
            })
    };
    CACHES
        .iter()
        .enumerate()
        .flat_map(move |(id, cache)| of(id, cache))
}

fn unknown(name: &str, family: Option<Family>) -> Error {
    let mut all: Vec<String> = Vec::new();
    let mut add = |names: &mut dyn Iterator<Item = &'static str>| {
        all.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    };
    if family != Some(Family::Hardware) {
        add(&mut Software::ALL.iter().flat_map(|(_, name, other)| [*name, *other]));
    }
    if family != Some(Family::Software) {
        add(&mut hardware::names());
    }
    if family.is_none() {
        all.extend(all_caches().map(|(name, ..)| name));
    }
    let near = nearest(name, all.iter().map(String::as_str));
    nothing_matches("counter", name, near.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Option<(u32, u64)> {
        find(text)
            .unwrap()
            .map(|named| (named.counter.kind, named.counter.config))
    }

    #[test]
    fn counters_have_perfs_names_and_ours() {
        for (text, expected) in [
            ("cycles", (0, 0)),
            ("hardware:cpu-cycles", (0, 0)),
            ("h:instructions", (0, 1)),
            ("branches", (0, 4)),
            ("stalled-cycles-backend", (0, 8)),
            ("task-clock", (1, 1)),
            ("software:faults", (1, 2)),
            ("cs", (1, 3)),
            ("L1-dcache-load-misses", (3, 0x1_0000)),
            ("LLC-stores", (3, 0x102)),
            ("r01c2", (4, 0x1c2)),
        ] {
            assert_eq!(numbers(text), Some(expected), "{text}");
        }
        for text in [
            "sched:sched_switch",
            "kprobe:vfs_read",
            "sched:*",
            "profile:hz:99",
            "*",
        ] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }

    #[test]
    fn letters_say_where_it_counts() {
        let levels = |text: &str| find(text).unwrap().unwrap().levels;
        assert_eq!(levels("cycles"), Levels::ALL);
        assert!(!levels("cycles:u").kernel && !levels("hardware:cycles:k").user);
        assert!(find("cycles:x").unwrap_err().to_string().contains("cycles:x"));
    }

    #[test]
    fn a_mistyped_name_has_a_suggestion() {
        for (text, near) in [
            ("cycless", "cycles"),
            ("page-fault", "page-faults"),
            ("LLC-load-mises", "LLC-load-misses"),
            ("software:task-clok", "task-clock"),
        ] {
            let error = find(text).unwrap_err().to_string();
            assert!(error.contains(near), "{text}: {error}");
        }
    }

    #[test]
    fn the_usual_ones_are_perfs() {
        let names: Vec<String> = usual().into_iter().map(|named| named.name).collect();
        assert_eq!(
            names,
            [
                "task-clock",
                "context-switches",
                "cpu-migrations",
                "page-faults",
                "cycles",
                "instructions",
                "branches",
                "branch-misses"
            ]
        );
    }
}
