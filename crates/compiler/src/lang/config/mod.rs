//! Settings of a script: `config = { … }` and the environment, both by one table.

mod setting;

pub use setting::{SETTINGS, Setting};

use crate::lang::ast::{Expr, ExprKind, Span, Spanned};
use crate::lang::diag::{Diagnostic, did_you_mean};
use setting::{SHOWN, SettingValue, find};

/// The settings of a script. Those of the environment stand, whatever a block says.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is described by its row of SETTINGS")]
pub struct Config {
    pub cache_user_symbols: Option<SymbolCache>,
    pub cpp_demangle: bool,
    pub dummy_ts_map: String,
    pub lazy_symbolication: bool,
    pub license: String,
    pub log_size: u64,
    pub max_bpf_progs: u64,
    pub max_cat_bytes: u64,
    pub max_map_keys: u64,
    pub max_probes: u64,
    pub max_strlen: u64,
    pub missing_probes: MissingProbes,
    pub on_stack_limit: u64,
    pub perf_rb_pages: Option<u64>,
    pub print_maps_on_exit: bool,
    pub show_debug_info: bool,
    pub stack_mode: StackMode,
    pub str_trunc_trailer: String,
    pub unstable_dw_ustack: Unstable,
    pub unstable_import_statement: Unstable,
    pub unstable_tseries: Unstable,
    pub unstable_typeinfo: Unstable,
    /// Names of the settings that the environment has given.
    pub(in crate::lang) environment: Vec<&'static str>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_user_symbols: None,
            cpp_demangle: true,
            dummy_ts_map: String::new(),
            lazy_symbolication: false,
            license: "GPL".to_owned(),
            log_size: 1_000_000,
            max_bpf_progs: 1024,
            max_cat_bytes: 10240,
            max_map_keys: 4096,
            max_probes: 1024,
            max_strlen: 1024,
            missing_probes: MissingProbes::Error,
            on_stack_limit: 32,
            perf_rb_pages: None,
            print_maps_on_exit: true,
            show_debug_info: true,
            stack_mode: StackMode::Bpftrace,
            str_trunc_trailer: "..".to_owned(),
            unstable_dw_ustack: Unstable::Warn,
            unstable_import_statement: Unstable::Enable,
            unstable_tseries: Unstable::Warn,
            unstable_typeinfo: Unstable::Enable,
            environment: Vec::new(),
        }
    }
}

/// Sharing of symbol caches between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolCache {
    /// The symbols of one program.
    PerProgram,
    /// Each has its own.
    PerPid,
    /// Nothing is kept.
    None,
}

/// Policy for probes whose event does not exist or cannot be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingProbes {
    /// An error: nothing runs.
    Error,
    /// A warning: the others run.
    Warn,
    /// No message: the other probes run.
    Ignore,
}

/// Format of printed stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMode {
    /// Symbol and offset.
    Bpftrace,
    /// Address, symbol and offset, as perf prints them.
    Perf,
    /// Raw addresses, without names.
    Raw,
    /// Build identifiers and offsets in files.
    BuildId,
}

/// Policy for features that may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstable {
    /// The feature is refused.
    Error,
    /// A warning is printed.
    Warn,
    /// The feature is enabled, without a warning.
    Enable,
}

impl Config {
    /// Takes the settings of a block; of a setting that is given twice the last value counts.
    pub fn read(&mut self, settings: &[(Spanned<String>, Expr)], found: &mut Vec<Diagnostic>) {
        let mut seen: Vec<(&'static str, Span)> = Vec::new();
        for (name, value) in settings {
            let whole = Span {
                start: name.span.start,
                end: value.span.end,
            };
            let Some(setting) = find(&name.node) else {
                let message = format!("{}: not a known configuration option", name.node);
                let hint = did_you_mean(&name.node, SETTINGS.iter().map(|setting| setting.name));
                found.push(Diagnostic::error(whole, message).maybe_hint(hint));
                continue;
            };
            if let Some((_, first)) = seen.iter().find(|(known, _)| *known == setting.name) {
                let message = format!("\"{}\" is set twice: the last value counts", setting.name);
                found.push(Diagnostic::warning(whole, message).label(*first, "not this"));
            }
            if let Some(remark) = setting.remark(&name.node) {
                found.push(Diagnostic::warning(whole, remark));
            }
            seen.push((setting.name, whole));
            let mut outvoted = self.environment.contains(&setting.name).then(|| self.clone());
            let result = given(value).map_or_else(
                || Err(setting.wrong(setting::UNREADABLE)),
                |given| setting.set(outvoted.as_mut().unwrap_or(self), &given),
            );
            if let Err(message) = result {
                found.push(Diagnostic::error(whole, message));
            }
        }
    }

    /// The settings by their names, as a script sees them: those that bpftrace shows, in its order.
    pub fn values(&self) -> Vec<(&'static str, ExprKind)> {
        let settings = SHOWN.iter().filter_map(|name| find(name));
        settings
            .filter_map(|setting| Some((setting.name, setting.value(self)?)))
            .collect()
    }

    /// Takes a variable of the environment; `false` if it is none of a setting.
    ///
    /// # Errors
    /// The objection to its value.
    pub fn read_variable(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let Some(setting) = name.strip_prefix("BPFTRACE_").and_then(|_| find(name)) else {
            return Ok(false);
        };
        let given = match value.parse() {
            Ok(number) => SettingValue::Number(number),
            Err(_) if value == "true" || value == "false" => SettingValue::Truth(value == "true"),
            Err(_) => SettingValue::String(value.to_owned()),
        };
        setting.set(self, &given)?;
        self.environment.push(setting.name);
        Ok(true)
    }
}

fn given(value: &Expr) -> Option<SettingValue> {
    match &value.kind {
        ExprKind::Integer { value, .. } => Some(SettingValue::Number(*value)),
        ExprKind::Bool(value) => Some(SettingValue::Truth(*value)),
        ExprKind::String(text) | ExprKind::Identifier(text) => Some(SettingValue::String(text.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::ast::Item;
    use crate::lang::diag::has_errors;
    use crate::lang::parse_script;

    fn read(text: &str) -> (Config, Vec<Diagnostic>) {
        let (script, mut found) = parse_script(text);
        let mut config = Config::default();
        for item in &script.items {
            if let Item::Config(settings) = item {
                config.read(settings, &mut found);
            }
        }
        (config, found)
    }

    #[test]
    fn a_block_and_the_environment_set_the_same_things() {
        let (block, found) = read(
            "config = { stack_mode = perf; MAX_MAP_KEYS = 7; BPFTRACE_MISSING_PROBES=\"warn\"
             str_trunc_trailer = \"\"; print_maps_on_exit = 0; license = \"Dual BSD/GPL\"; strlen = 99;
             cache_user_symbols = PER_PID; unstable_tseries = enable; perf_rb_pages = 64 }",
        );
        let odd: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(odd, ["strlen is an old name: the setting is called max_strlen"]);
        assert!(!has_errors(&found));
        let mut variables = Config::default();
        for (name, value) in [
            ("BPFTRACE_STACK_MODE", "perf"),
            ("BPFTRACE_MAX_MAP_KEYS", "7"),
            ("BPFTRACE_MISSING_PROBES", "warn"),
            ("BPFTRACE_STR_TRUNC_TRAILER", ""),
            ("BPFTRACE_PRINT_MAPS_ON_EXIT", "false"),
            ("BPFTRACE_LICENSE", "Dual BSD/GPL"),
            ("BPFTRACE_MAX_STRLEN", "99"),
            ("BPFTRACE_CACHE_USER_SYMBOLS", "per_pid"),
            ("BPFTRACE_UNSTABLE_TSERIES", "enable"),
            ("BPFTRACE_PERF_RB_PAGES", "64"),
        ] {
            assert_eq!(variables.read_variable(name, value), Ok(true), "{name}");
        }
        for setting in SETTINGS {
            let (one, other) = (setting.value(&block), setting.value(&variables));
            assert_eq!(one, other, "{}", setting.name);
        }
        let shown: Vec<&str> = block.values().into_iter().map(|(name, _)| name).collect();
        assert_eq!(shown, SHOWN);
        assert_eq!(block.stack_mode, StackMode::Perf);
        assert_eq!((block.max_map_keys, block.max_strlen), (7, 99));
        assert_eq!(variables.read_variable("BPFTRACE_COLOR", "1"), Ok(false));
        assert_eq!(variables.read_variable("PATH", "x"), Ok(false));
        assert!(variables.read_variable("BPFTRACE_MAX_MAP_KEYS", "many").is_err());
    }

    #[test]
    fn the_environment_stands_before_a_block() {
        let (script, mut found) =
            parse_script("config = { max_strlen = 10; max_map_keys = 7; stack_mode = deep }");
        let mut config = Config::default();
        for (name, value) in [("BPFTRACE_MAX_STRLEN", "5"), ("BPFTRACE_STACK_MODE", "raw")] {
            assert_eq!(config.read_variable(name, value), Ok(true));
        }
        for item in &script.items {
            if let Item::Config(settings) = item {
                config.read(settings, &mut found);
            }
        }
        assert_eq!((config.max_strlen, config.max_map_keys), (5, 7));
        assert_eq!(config.stack_mode, StackMode::Raw);
        // The settings of a block are checked all the same.
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn unknown_settings_and_wrong_values_are_refused_at_their_place() {
        for (text, message, hint) in [
            (
                "config = { stack_mod = perf }",
                "stack_mod: not a known configuration option",
                "\"stack_mode\"",
            ),
            (
                "config = { license = \"Potato\" }",
                "Invalid value for license. Found: Potato",
                "",
            ),
            (
                "config = { stack_mode = deep }",
                "stack_mode: Invalid value for stack_mode: valid values are bpftrace, raw",
                "",
            ),
            (
                "config = { max_map_keys = 0 }",
                "Found: 0. Valid values: 1 to",
                "",
            ),
            (
                "config = { max_map_keys = \"x\" }",
                "max_map_keys: expecting a number, got x. Valid",
                "",
            ),
            ("config = { cpp_demangle = 2 }", "Valid values: true, false", ""),
            ("config = { max_probes = 1 + 2 }", "what is written there", ""),
            (
                "config = { max_probes = 1; BPFTRACE_MAX_PROBES = 2 }",
                "is set twice: the last value counts",
                "",
            ),
            (
                "config = { symbol_source = \"dwarf\" }",
                "symbol_source is deprecated and has no effect",
                "",
            ),
            ("config = { no_cpp_demangle = true }", "cpp_demangle = false", ""),
        ] {
            let (_, found) = read(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].message.contains(message), "{text}: {found:?}");
            assert!(found[0].hints.concat().contains(hint), "{text}: {found:?}");
        }
    }

    #[test]
    fn values_at_their_borders_are_those_of_bpftrace() {
        let (config, found) = read(
            "config = { perf_rb_pages = 0; on_stack_limit = 100000; print_maps_on_exit = no; lazy_symbolication = \"on\";
             cpp_demangle = off; show_debug_info = yes; unstable_import_statement = error; no_cpp_demangle = false }",
        );
        assert!(!has_errors(&found), "{found:?}");
        assert_eq!((config.perf_rb_pages, config.on_stack_limit), (None, 100_000));
        let bools = [
            config.print_maps_on_exit,
            config.lazy_symbolication,
            config.show_debug_info,
        ];
        assert_eq!(bools, [false, true, true]);
        assert!(config.cpp_demangle);
    }

    #[test]
    fn old_settings_count() {
        let (config, found) = read("config = { no_cpp_demangle = true; max_probes = 1; max_probes = 2 }");
        assert!(!has_errors(&found), "{found:?}");
        assert_eq!((config.cpp_demangle, config.max_probes), (false, 2));
    }

    #[test]
    fn every_setting_has_one_row_and_a_meaning() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert!(!setting.meaning.is_empty());
            let again = SETTINGS[index + 1..]
                .iter()
                .any(|other| other.name == setting.name);
            assert!(!again, "{}", setting.name);
        }
    }
}
