//! `kestrel probe list`: named probes with what they did, or all kprobes of the kernel.

use crate::exit::{Exit, Failure};
use crate::output::columns::Column::{Left, Right};
use crate::output::columns::Columns;
use crate::output::json;
use crate::output::kprobe_states::KprobeStates;
use clap::{Args, ValueEnum};
use kestrel::catalog::Catalog;
use kestrel::code::{Registered, registered_kprobes};
use kestrel::kernel::kprobes::Listed;
use kestrel::kernel::{Host, kprobes};
use kestrel::session::UNCOUNTED;
use kestrel::session::named::{Probe, SESSION, Site, kernel_line};
use kestrel::session::pinned::PinnedSession;
use kestrel::session::store::Store;
use kestrel_trace::print::thousands;
use serde::Serialize;
use std::io::Write;

/// Output format of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people
    #[default]
    Text,
    /// JSON, one object per probe
    Json,
    /// Lines of the kernel's own `kprobe_events`, as far as probes can be said in it
    Tracefs,
}

/// Options of `probe list`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// All kprobes of the kernel, of all programs, and its global switch
    #[arg(long)]
    kernel: bool,
    /// Show the handlers
    #[arg(short, long)]
    verbose: bool,
    /// The session
    #[arg(long, value_name = "SESSION", default_value = SESSION)]
    session: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  kestrel probe list
  kestrel probe list --format json | jq '{name, hits, missed}'
  kestrel probe list --format tracefs >> /sys/kernel/tracing/kprobe_events
  kestrel probe list --kernel            every kprobe of the kernel, and its global switch

Columns: address, type (k kprobe, j jprobe, r return probe, t tracepoint, f trampoline), place, hits while enabled, hits that the kernel
missed (`+` or `?`: this kernel does not tell all of them), records lost, flags: [DISABLED], [WAITING] (its module is not loaded yet), [GONE] (its module was unloaded), [GONE?] (of
several at this place some are gone: `kestrel probe enable` attaches them anew),
[OPTIMIZED] (a jump instead of a trap), [FTRACE] (the function's ftrace site).";

/// Runs `kestrel probe list`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let store = crate::sessions::store(&host)?;
    if options.kernel {
        return kernel(options, &host, &store);
    }
    let session = match store.session(Some(&options.session)) {
        // The usual session is there as long as it has probes; without any it is no error that it is not. One that was asked for by name has to exist.
        Err(kestrel::Error::NoSession { .. }) if options.session == SESSION => {
            eprintln!("there are no named probes; `kestrel probe add` adds some");
            return Ok(Exit::Done);
        }
        other => other?,
    };
    let probes = session.probes(&host)?;
    let mut out = crate::screen::out();
    match options.format {
        Format::Text => out.write_all(text(&probes, options.verbose).as_bytes())?,
        Format::Json => {
            let on = session.probes_on();
            for probe in &probes {
                let row = ProbeRow {
                    probe,
                    session: session.name(),
                    works: probe.enabled && on,
                };
                writeln!(out, "{}", json::line(&row)?)?;
            }
        }
        Format::Tracefs => {
            let catalog = Catalog::new(host.clone());
            for probe in &probes {
                match kernel_line::of(probe, &catalog) {
                    Ok(lines) => lines.iter().try_for_each(|line| writeln!(out, "{line}"))?,
                    Err(why) => eprintln!("{} has no line of kprobe_events: {why}", probe.name),
                }
            }
        }
    }
    if probes.iter().any(|probe| !probe.missed_known) {
        eprintln!("MISSED `?` or `+`: {UNCOUNTED}");
    }
    super::remarks::report_inactive(&session, &host);
    Ok(Exit::Done)
}

/// A probe as JSON.
#[derive(Serialize)]
struct ProbeRow<'a> {
    #[serde(flatten)]
    probe: &'a Probe,
    session: &'a str,
    /// Whether its handlers run: it is enabled, and named probes are on.
    works: bool,
}

const HEADER: [&str; 8] = ["NAME", "ADDRESS", "", "PLACE", "HITS", "MISSED", "LOST", ""];

fn text(probes: &[Probe], verbose: bool) -> String {
    if probes.is_empty() {
        return String::new();
    }
    let mut columns = Columns::new([Left, Left, Left, Left, Right, Right, Right, Left]);
    columns.head("", HEADER);
    for probe in probes {
        for (index, site) in probe.sites.iter().enumerate() {
            // Counts are the probe's: of its sites only the first has them, so that columns can be added up.
            let first = |text: String| if index == 0 { text } else { String::new() };
            let missed = match (probe.missed, probe.missed_known) {
                (0, false) => "?".to_owned(),
                (missed, false) => format!("{}+", thousands(missed)),
                (missed, true) => thousands(missed),
            };
            let flags: String = [
                (site.flags.gone, "[GONE]"),
                (site.flags.maybe_gone && !site.flags.gone, "[GONE?]"),
                (site.flags.awaited, "[WAITING]"),
                (!probe.enabled, "[DISABLED]"),
                (site.flags.optimized, "[OPTIMIZED]"),
                (site.flags.ftrace, "[FTRACE]"),
            ]
            .iter()
            .filter_map(|(set, flag)| set.then_some(*flag))
            .collect();
            let last = index + 1 == probe.sites.len();
            columns.row(
                "",
                [
                    first(probe.name.clone()),
                    match site.about.as_ref().map_or(site.address, |about| about.address) {
                        0 => "-".to_owned(),
                        address => format!("{address:016x}"),
                    },
                    site.letter.to_string(),
                    place(site),
                    first(thousands(probe.hits)),
                    first(missed),
                    first(thousands(probe.lost)),
                    flags,
                ],
            );
            if verbose && last {
                let source = probe.line.as_deref().unwrap_or(&probe.source);
                source
                    .lines()
                    .for_each(|line| columns.line(&format!("    {line}")));
            }
        }
    }
    columns.text()
}

/// `vfs_read+0x4`, `vfs_read+0x9:post`, `ext4_sync_fs+0x0 [ext4]`, or the event where it is in no function.
fn place(site: &Site) -> String {
    let module = |module: &Option<String>| {
        let shown = module.as_ref().map(|module| format!(" [{module}]"));
        shown.unwrap_or_default()
    };
    if let Some(about) = &site.about {
        let module = module(&about.module);
        return format!("{}+{:#x}:{}{module}", about.symbol, about.offset, about.phase);
    }
    let module = module(&site.module);
    match &site.symbol {
        Some(symbol) => format!("{symbol}+{:#x}{module}", site.offset),
        None => site.event.clone(),
    }
}

/// Addresses and programs of named probes, to recognise them in the kernel's list.
#[derive(Default)]
struct NamedProbes {
    /// Address and type letter of a probe in the kernel's list, and its name.
    sites: Vec<(u64, char, String)>,
    /// Program ids of probes, and their names.
    programs: Vec<(u32, String)>,
}

impl NamedProbes {
    fn add(&mut self, session: &PinnedSession, host: &Host) -> Result<(), Failure> {
        let probes = session.probes(host)?;
        let name = |number: u32| probes.iter().find(|probe| probe.number == number);
        for (number, program) in session.probe_programs() {
            self.programs
                .extend(name(number).map(|probe| (program, probe.name.clone())));
        }
        for probe in &probes {
            let letter = |site: &Site| if site.letter == 'j' { 'k' } else { site.letter };
            let sites = probe.sites.iter();
            self.sites
                .extend(sites.map(|site| (site.listed, letter(site), probe.name.clone())));
        }
        Ok(())
    }

    /// The names of named probes for each row of the kernel's list. Of several kprobes at one address the kernel's memory (`registered`, in the order of
    /// the rows) names the program of each. If it cannot be read, the names of an address are given to all of its rows, unless there are more rows than names.
    fn names_by_row(&self, listed: &[Listed], registered_kprobes: Option<&[Registered]>) -> Vec<Vec<&str>> {
        let row = |(index, probe): (usize, &Listed)| {
            // Probes that the kernel has switched off itself are not ours: ours are attached.
            if probe.disabled {
                return Vec::new();
            }
            let here = |other: &&Listed| other.address == probe.address;
            let rows = listed.iter().filter(here).count();
            let before = listed[..index].iter().filter(here).count();
            let known = registered_kprobes.map(|all| all.iter().filter(|one| one.address == probe.address));
            let known: Option<Vec<&Registered>> = known.map(Iterator::collect);
            let mut names: Vec<&str> = match known.filter(|known| known.len() == rows && probe.address != 0) {
                Some(known) => {
                    let own = |(program, _): &&(u32, String)| known[before].program == Some(*program);
                    self.programs
                        .iter()
                        .filter(own)
                        .map(|(_, name)| name.as_str())
                        .collect()
                }
                None => {
                    let alike =
                        |other: &&Listed| here(other) && other.letter == probe.letter && !other.disabled;
                    let own = |(address, letter, _): &&(u64, char, String)| {
                        *address == probe.address && *letter == probe.letter
                    };
                    let own: Vec<&str> = self
                        .sites
                        .iter()
                        .filter(own)
                        .map(|(.., name)| name.as_str())
                        .collect();
                    match own.len() >= listed.iter().filter(alike).count() {
                        true => own,
                        false => Vec::new(),
                    }
                }
            };
            names.sort_unstable();
            names.dedup();
            names
        };
        listed.iter().enumerate().map(row).collect()
    }
}

/// A kprobe of the kernel's list, as JSON has it.
#[derive(Debug, Serialize)]
struct ListedRow<'a> {
    /// None where the kernel hides it.
    address: Option<String>,
    r#type: char,
    symbol: String,
    offset: u64,
    module: Option<String>,
    #[serde(flatten)]
    states: KprobeStates,
    /// Whether it fires.
    armed: bool,
    /// Named probes at it.
    probes: Vec<&'a str>,
}

/// Lists all kprobes of the kernel, with the names of named probes among them.
fn kernel(options: &Options, host: &Host, store: &Store) -> Result<Exit, Failure> {
    if options.format == Format::Tracefs {
        return Err(Failure::new(
            Exit::Usage,
            "what others have put cannot be said as lines of kprobe_events",
        )
        .hint("--format tracefs shows named probes only; the kernel's own events are in /sys/kernel/tracing/kprobe_events"));
    }
    let on = kprobes::enabled(host)?;
    let mut named = NamedProbes::default();
    for name in store.names()? {
        // One that is stopped meanwhile, or another version's, has no names to give.
        let Ok(session) = store.session(Some(&name)) else {
            continue;
        };
        named.add(&session, host)?;
    }
    let mut out = crate::screen::out();
    let listed = kprobes::list(host)?;
    let owners = named.names_by_row(&listed, registered_kprobes(host).ok().as_deref());
    let mut columns = Columns::new([Left; 5]);
    for (probe, names) in listed.into_iter().zip(owners) {
        let states = KprobeStates::of(&probe);
        if options.format == Format::Json {
            let row = ListedRow {
                address: (probe.address != 0).then(|| format!("{:#x}", probe.address)),
                r#type: probe.letter,
                symbol: probe.symbol,
                offset: probe.offset,
                module: probe.module,
                states,
                armed: on && states.can_fire(),
                probes: names,
            };
            writeln!(out, "{}", json::line(&row)?)?;
            continue;
        }
        let flags: String = states.words().collect();
        let module = probe
            .module
            .map_or_else(String::new, |module| format!("  [{module}]"));
        columns.row(
            "",
            [
                format!("{:016x}", probe.address),
                probe.letter.to_string(),
                format!("{}+{:#x}{module}", probe.symbol, probe.offset),
                flags,
                names.join(", "),
            ],
        );
    }
    out.write_all(columns.text().as_bytes())?;
    eprintln!(
        "the kernel's own switch for kprobes is {}",
        if on {
            "on"
        } else {
            "off: `kestrel probe enable --kernel` switches it on"
        }
    );
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel::session::named::{Flags, Instruction};

    #[test]
    fn helper_hooks_are_listed_at_their_instruction() {
        let site = Site {
            event: "kprobe:f+0x9:fault".to_owned(),
            letter: 'k',
            address: 0xffff_ffff_8200_0004,
            symbol: Some("fixup_exception".to_owned()),
            offset: 4,
            about: Some(Instruction {
                address: 0xffff_ffff_8100_0009,
                symbol: "f".to_owned(),
                offset: 9,
                module: Some("ext4".to_owned()),
                phase: "fault".to_owned(),
            }),
            ..Site::default()
        };
        let probe = Probe {
            sites: vec![site],
            ..Probe::default()
        };
        let shown = text(&[probe], false);
        assert!(
            shown.contains("ffffffff81000009  k  f+0x9:fault [ext4] "),
            "{shown}"
        );
    }

    #[test]
    fn a_row_of_the_kernels_is_called_as_whose_program_it_runs() {
        let row = |address, letter| Listed {
            address,
            letter,
            symbol: "f".to_owned(),
            offset: 0,
            module: None,
            gone: false,
            disabled: false,
            optimized: false,
            ftrace: false,
        };
        let listed = [row(8, 'k'), row(8, 'k'), row(16, 'r')];
        let named = NamedProbes {
            sites: vec![(8, 'k', "mine".to_owned()), (16, 'r', "back".to_owned())],
            programs: vec![(5, "mine".to_owned()), (6, "back".to_owned())],
        };
        let known = |address, program| Registered {
            address,
            program,
            missed: 0,
        };
        let listed_registrations = [known(8, Some(77)), known(8, Some(5)), known(16, Some(6))];
        let owners = named.names_by_row(&listed, Some(&listed_registrations));
        assert_eq!(owners, [vec![], vec!["mine"], vec!["back"]]);
        // Without the kernel's memory it is not said which of two is named.
        assert_eq!(named.names_by_row(&listed, None), [vec![], vec![], vec!["back"]]);
    }

    #[test]
    fn a_table_with_flags_and_what_is_not_known() {
        let site = |symbol: &str, ftrace| Site {
            letter: 'k',
            address: 0xffff_ffff_8100_0000,
            symbol: Some(symbol.to_owned()),
            flags: Flags {
                ftrace,
                ..Flags::default()
            },
            ..Site::default()
        };
        let one = Probe {
            name: "reads".to_owned(),
            source: "k:vfs_read".to_owned(),
            enabled: true,
            hits: 1234,
            missed_known: true,
            sites: vec![site("vfs_read", true)],
            ..Probe::default()
        };
        let two = Probe {
            name: "both".to_owned(),
            missed: 2,
            enabled: false,
            missed_known: false,
            sites: vec![site("f", false), site("g", false)],
            ..one.clone()
        };
        let shown = text(&[one, two], true);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[1],
            "reads  ffffffff81000000  k  vfs_read+0x0  1,234       0     0  [FTRACE]"
        );
        assert_eq!(lines[2], "    k:vfs_read");
        assert!(
            lines[3].contains("2+") && lines[3].ends_with("[DISABLED]"),
            "{shown}"
        );
        assert!(
            lines[4].starts_with("       ffffffff81000000  k  g+0x0"),
            "{shown}"
        );
    }
}
