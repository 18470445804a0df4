//! The settings: one row each.

use super::{Config, MissingProbes, StackMode, SymbolCache, Unstable};
use crate::lang::ast::ExprKind;

/// Value given to a setting.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SettingValue {
    Number(u64),
    Truth(bool),
    /// A word or a string.
    String(String),
}

/// A setting: its name, what it means in a sentence, and how it is set.
pub struct Setting {
    /// Name in a script; in the environment it is in capitals and begins with `BPFTRACE_`.
    pub name: &'static str,
    /// Meaning of the setting, in words.
    pub meaning: &'static str,
    /// Names that older versions had for it.
    older: &'static [&'static str],
    kind: SettingKind,
}

type Part<T> = fn(&mut Config) -> &mut T;

/// Type of a setting's values, and where they are kept.
enum SettingKind {
    Truth(Part<bool>),
    Number {
        least: u64,
        most: u64,
        part: Part<u64>,
    },
    MaybeNumber {
        least: u64,
        most: u64,
        part: Part<Option<u64>>,
    },
    Text(Part<String>),
    OneOf(&'static [&'static str], Part<String>),
    Missing(Part<MissingProbes>),
    Stack(Part<StackMode>),
    Cache(Part<Option<SymbolCache>>),
    Unstable(Part<Unstable>),
    /// A truth that was asked for by its opposite.
    Not(Part<bool>),
    /// Taken and of no effect here; the sentence says why.
    Nothing,
}

/// What stands for a value that is none of a setting.
pub(super) const UNREADABLE: &str = "what is written there";

/// Licenses of programs that the kernel takes for compatible with its own.
const LICENSES: &[&str] = &[
    "Dual MIT/GPL",
    "Dual BSD/GPL",
    "Dual MPL/GPL",
    "GPL and additional rights",
    "GPL v2",
    "GPL",
];

const MAX: u64 = 1 << 32;

const fn row(name: &'static str, kind: SettingKind, meaning: &'static str) -> Setting {
    Setting {
        name,
        meaning,
        older: &[],
        kind,
    }
}

impl Setting {
    const fn once(mut self, older: &'static [&'static str]) -> Self {
        self.older = older;
        self
    }
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    row(
        "cache_user_symbols",
        SettingKind::Cache(|c| &mut c.cache_user_symbols),
        "which processes share symbols that have been read: PER_PROGRAM, PER_PID, NONE",
    ),
    row(
        "cpp_demangle",
        SettingKind::Truth(|c| &mut c.cpp_demangle),
        "names of C++ are shown as they are written in the source",
    ),
    row(
        "dummy_ts_map",
        SettingKind::Text(|c| &mut c.dummy_ts_map),
        "a map that holds the time of tseries, in ns, rather than the kernel's clock",
    ),
    row(
        "lazy_symbolication",
        SettingKind::Truth(|c| &mut c.lazy_symbolication),
        "addresses of processes are named when they are printed, and not ahead",
    ),
    row(
        "license",
        SettingKind::OneOf(LICENSES, |c| &mut c.license),
        "the license under which programs are loaded",
    ),
    row(
        "log_size",
        SettingKind::Number {
            least: 0,
            most: MAX,
            part: |c| &mut c.log_size,
        },
        "the bytes that the verifier may say about a program that it refuses",
    ),
    row(
        "max_bpf_progs",
        SettingKind::Number {
            least: 1,
            most: MAX,
            part: |c| &mut c.max_bpf_progs,
        },
        "how many programs a script may turn into",
    )
    .once(&["max_programs"]),
    row(
        "max_cat_bytes",
        SettingKind::Number {
            least: 0,
            most: MAX,
            part: |c| &mut c.max_cat_bytes,
        },
        "the bytes that cat() prints of a file",
    )
    .once(&["cat_bytes_max"]),
    row(
        "max_map_keys",
        SettingKind::Number {
            least: 1,
            most: MAX,
            part: |c| &mut c.max_map_keys,
        },
        "the keys that a map holds unless its declaration says otherwise",
    )
    .once(&["map_keys_max"]),
    row(
        "max_probes",
        SettingKind::Number {
            least: 0,
            most: MAX,
            part: |c| &mut c.max_probes,
        },
        "how many events a script may attach to",
    ),
    row(
        "max_strlen",
        SettingKind::Number {
            least: 1,
            most: 1 << 20,
            part: |c| &mut c.max_strlen,
        },
        "the bytes that str(), buf() and path() read at most",
    )
    .once(&["strlen"]),
    row(
        "missing_probes",
        SettingKind::Missing(|c| &mut c.missing_probes),
        "what is done about events that do not exist: error, warn, ignore",
    ),
    row(
        "on_stack_limit",
        SettingKind::Number {
            least: 0,
            most: MAX,
            part: |c| &mut c.on_stack_limit,
        },
        "the bytes up to which a value may lie on the stack of a program",
    ),
    row(
        "perf_rb_pages",
        SettingKind::MaybeNumber {
            least: 0,
            most: 1 << 20,
            part: |c| &mut c.perf_rb_pages,
        },
        "the pages of the ring that events are sent through; 0 for as many as usual",
    ),
    row(
        "print_maps_on_exit",
        SettingKind::Truth(|c| &mut c.print_maps_on_exit),
        "maps are printed at the end",
    ),
    row(
        "show_debug_info",
        SettingKind::Truth(|c| &mut c.show_debug_info),
        "frames of stacks show their file and line",
    )
    .once(&["use_blazesym"]),
    row(
        "stack_mode",
        SettingKind::Stack(|c| &mut c.stack_mode),
        "how stacks are printed: bpftrace, perf, raw, build_id",
    ),
    row(
        "str_trunc_trailer",
        SettingKind::Text(|c| &mut c.str_trunc_trailer),
        "what ends a string that has been cut",
    ),
    row(
        "unstable_dw_ustack",
        SettingKind::Unstable(|c| &mut c.unstable_dw_ustack),
        "user stacks by DWARF: error, warn, enable",
    ),
    row(
        "unstable_import",
        SettingKind::Nothing,
        "deprecated and has no effect: imports are part of the language",
    ),
    row(
        "unstable_import_statement",
        SettingKind::Unstable(|c| &mut c.unstable_import_statement),
        "taken and of no effect: imports are part of the language",
    ),
    row(
        "unstable_macro",
        SettingKind::Nothing,
        "deprecated and has no effect: macros are part of the language",
    ),
    row(
        "unstable_map_decl",
        SettingKind::Nothing,
        "deprecated and has no effect: maps may always be declared",
    ),
    row(
        "unstable_tseries",
        SettingKind::Unstable(|c| &mut c.unstable_tseries),
        "time series: error, warn, enable",
    ),
    row(
        "unstable_typeinfo",
        SettingKind::Unstable(|c| &mut c.unstable_typeinfo),
        "typeinfo: error, warn, enable",
    ),
    row(
        "no_cpp_demangle",
        SettingKind::Not(|c| &mut c.cpp_demangle),
        "names of C++ are shown as the compiler made them: cpp_demangle = false",
    ),
    row(
        "symbol_source",
        SettingKind::Nothing,
        "deprecated and has no effect: symbols come from wherever a file has them",
    ),
    row(
        "unstable_addr",
        SettingKind::Nothing,
        "deprecated and has no effect: addresses of variables are part of the language",
    ),
    row(
        "debug_output",
        SettingKind::Nothing,
        "of no effect: there is no debug printing in programs",
    ),
    row(
        "max_type_res_iterations",
        SettingKind::Nothing,
        "deprecated and has no effect: types are found in one go",
    ),
    row(
        "max_ast_nodes",
        SettingKind::Nothing,
        "of no effect: what a text may expand to is bounded",
    ),
    row(
        "verify_llvm_ir",
        SettingKind::Nothing,
        "of no effect: there is no LLVM",
    ),
];

/// The settings that scripts see as `config`, in the order in which bpftrace prints them: bools, numbers, words. One that bpftrace does not show would be
/// one more member of a record that scripts unpack and compare.
pub(super) const SHOWN: &[&str] = &[
    "cpp_demangle",
    "lazy_symbolication",
    "print_maps_on_exit",
    "show_debug_info",
    "log_size",
    "max_bpf_progs",
    "max_cat_bytes",
    "max_map_keys",
    "max_probes",
    "max_strlen",
    "on_stack_limit",
    "perf_rb_pages",
    "str_trunc_trailer",
    "unstable_import_statement",
    "unstable_tseries",
    "unstable_typeinfo",
    "unstable_dw_ustack",
    "missing_probes",
    "stack_mode",
    "license",
];

/// The setting of that name: as in a script, or as in the environment.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    let lower = name.to_ascii_lowercase();
    let plain = match name.bytes().any(|b| b.is_ascii_lowercase()) {
        true => lower.as_str(),
        false => lower.strip_prefix("bpftrace_").unwrap_or(&lower),
    };
    SETTINGS
        .iter()
        .find(|setting| setting.name == plain || setting.older.contains(&plain))
}

impl Setting {
    /// A remark on a setting under the name that was written, where that is odd.
    pub(super) fn remark(&self, written: &str) -> Option<String> {
        let plain = written.to_ascii_lowercase();
        let plain = plain.strip_prefix("bpftrace_").unwrap_or(&plain);
        match self.kind {
            SettingKind::Nothing => Some(format!("{} is {}", self.name, self.meaning)),
            SettingKind::Not(_) => Some(format!("{} is an old setting: {}", self.name, self.meaning)),
            _ if self.name != plain => Some(format!(
                "{written} is an old name: the setting is called {}",
                self.name
            )),
            _ => None,
        }
    }

    pub(super) fn wrong(&self, found: &str) -> String {
        let wanted = match self.kind {
            SettingKind::Truth(_) | SettingKind::Not(_) => "true, false, 1, 0".to_owned(),
            SettingKind::Number { least, most, .. } | SettingKind::MaybeNumber { least, most, .. } => {
                format!("{least} to {most}")
            }
            SettingKind::Text(_) | SettingKind::Nothing => "a string".to_owned(),
            SettingKind::OneOf(words, _) => words.join(", "),
            SettingKind::Missing(_) => "ignore, warn, and error".to_owned(),
            SettingKind::Stack(_) => "bpftrace, raw, perf, and build_id".to_owned(),
            SettingKind::Cache(_) => "PER_PID, PER_PROGRAM, and NONE".to_owned(),
            SettingKind::Unstable(_) => "enable, warn, and error".to_owned(),
        };
        let name = self.name;
        match self.kind {
            SettingKind::Number { .. } | SettingKind::MaybeNumber { .. }
                if found.parse::<u64>().is_err() && found != UNREADABLE =>
            {
                format!("{name}: expecting a number, got {found}. Valid values: {wanted}")
            }
            SettingKind::Missing(_) | SettingKind::Stack(_) | SettingKind::Cache(_) => {
                format!("{name}: Invalid value for {name}: valid values are {wanted}.")
            }
            SettingKind::Unstable(_) => {
                format!("{name}: Invalid value for unstable config: valid values are {wanted}.")
            }
            _ => format!("Invalid value for {name}. Found: {found}. Valid values: {wanted}"),
        }
    }

    pub(super) fn set(&self, config: &mut Config, given: &SettingValue) -> Result<(), String> {
        let unquoted = self.unquoted(given);
        match (&self.kind, unquoted.as_ref().unwrap_or(given)) {
            (SettingKind::Nothing, _) => {}
            (SettingKind::Truth(part), SettingValue::Truth(value)) => *part(config) = *value,
            (SettingKind::Not(part), SettingValue::Truth(value)) => *part(config) = !value,
            (SettingKind::Not(part), SettingValue::Number(value @ 0..=1)) => *part(config) = *value == 0,
            (SettingKind::Truth(part), SettingValue::Number(value @ 0..=1)) => *part(config) = *value == 1,
            (SettingKind::Number { least, most, part }, SettingValue::Number(value))
                if (*least..=*most).contains(value) =>
            {
                *part(config) = *value;
            }
            (SettingKind::MaybeNumber { least, most, part }, SettingValue::Number(value))
                if (*least..=*most).contains(value) =>
            {
                *part(config) = Some(*value).filter(|value| *value > 0);
            }
            (SettingKind::Text(part), SettingValue::String(text)) => part(config).clone_from(text),
            (SettingKind::Text(part), SettingValue::Number(value)) => *part(config) = value.to_string(),
            (SettingKind::OneOf(words, part), SettingValue::String(text))
                if words.contains(&text.as_str()) =>
            {
                part(config).clone_from(text);
            }
            (SettingKind::Missing(part), SettingValue::String(text)) => {
                let values = [
                    ("error", MissingProbes::Error),
                    ("warn", MissingProbes::Warn),
                    ("ignore", MissingProbes::Ignore),
                ];
                *part(config) = self.one_of(&values, text)?;
            }
            (SettingKind::Stack(part), SettingValue::String(text)) => {
                let values = [
                    ("bpftrace", StackMode::Bpftrace),
                    ("perf", StackMode::Perf),
                    ("raw", StackMode::Raw),
                    ("build_id", StackMode::BuildId),
                ];
                *part(config) = self.one_of(&values, text)?;
            }
            (SettingKind::Cache(part), SettingValue::String(text)) => {
                let values = [
                    ("per_program", SymbolCache::PerProgram),
                    ("per_pid", SymbolCache::PerPid),
                    ("none", SymbolCache::None),
                ];
                *part(config) = Some(self.one_of(&values, text)?);
            }
            // Older versions had numbers for whether, and for how.
            (SettingKind::Cache(part), SettingValue::Number(0)) => *part(config) = Some(SymbolCache::None),
            (SettingKind::Cache(part), SettingValue::Number(1)) => *part(config) = Some(SymbolCache::PerPid),
            (SettingKind::Unstable(part), SettingValue::String(text)) => {
                let values = [
                    ("error", Unstable::Error),
                    ("warn", Unstable::Warn),
                    ("enable", Unstable::Enable),
                ];
                *part(config) = self.one_of(&values, text)?;
            }
            (SettingKind::Unstable(part), SettingValue::Number(0) | SettingValue::Truth(false)) => {
                *part(config) = Unstable::Error
            }
            (SettingKind::Unstable(part), SettingValue::Number(1) | SettingValue::Truth(true)) => {
                *part(config) = Unstable::Enable
            }
            (_, SettingValue::Number(value)) => return Err(self.wrong(&value.to_string())),
            (_, SettingValue::Truth(value)) => return Err(self.wrong(&value.to_string())),
            (_, SettingValue::String(text)) => return Err(self.wrong(text)),
        }
        Ok(())
    }

    /// A number or bool in quotes, where the setting is one: `max_strlen = "64"`.
    fn unquoted(&self, given: &SettingValue) -> Option<SettingValue> {
        let SettingValue::String(text) = given else {
            return None;
        };
        match self.kind {
            SettingKind::Truth(_)
            | SettingKind::Not(_)
            | SettingKind::Number { .. }
            | SettingKind::MaybeNumber { .. } => match text.as_str() {
                "true" | "yes" | "on" => Some(SettingValue::Truth(true)),
                "false" | "no" | "off" => Some(SettingValue::Truth(false)),
                text => text.parse().ok().map(SettingValue::Number),
            },
            _ => None,
        }
    }

    /// Value of the setting; `None` for one that has no effect.
    pub(super) fn value(&self, config: &Config) -> Option<ExprKind> {
        let mut config = config.clone();
        let number = |value| ExprKind::Integer {
            value,
            unsigned: false,
        };
        let word = |word: &str| ExprKind::String(word.to_owned());
        Some(match &self.kind {
            SettingKind::Truth(part) => ExprKind::Bool(*part(&mut config)),
            SettingKind::Number { part, .. } => number(*part(&mut config)),
            SettingKind::MaybeNumber { part, .. } => number(part(&mut config).unwrap_or(0)),
            SettingKind::Text(part) | SettingKind::OneOf(_, part) => {
                ExprKind::String(part(&mut config).clone())
            }
            SettingKind::Missing(part) => word(match part(&mut config) {
                MissingProbes::Error => "error",
                MissingProbes::Warn => "warn",
                MissingProbes::Ignore => "ignore",
            }),
            SettingKind::Stack(part) => word(match part(&mut config) {
                StackMode::Bpftrace => "bpftrace",
                StackMode::Perf => "perf",
                StackMode::Raw => "raw",
                StackMode::BuildId => "build_id",
            }),
            SettingKind::Cache(part) => word(match part(&mut config) {
                None => "",
                Some(SymbolCache::PerProgram) => "PER_PROGRAM",
                Some(SymbolCache::PerPid) => "PER_PID",
                Some(SymbolCache::None) => "NONE",
            }),
            SettingKind::Unstable(part) => word(match part(&mut config) {
                Unstable::Error => "error",
                Unstable::Warn => "warn",
                Unstable::Enable => "enable",
            }),
            SettingKind::Not(_) | SettingKind::Nothing => return None,
        })
    }

    fn one_of<T: Copy>(&self, values: &[(&str, T)], word: &str) -> Result<T, String> {
        let found = values.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.map(|(_, value)| *value).ok_or_else(|| self.wrong(word))
    }
}
