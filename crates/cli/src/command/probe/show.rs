//! `kestrel probe show`: the instructions of a kernel function, which of them can be probed, and where probes sit.

use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::{Left, LeftOf};
use crate::output::columns::Columns;
use crate::output::json;
use crate::output::kprobe_states::KprobeStates;
use clap::Args;
use kestrel::catalog::Catalog;
use kestrel::code::{Code, Function, Instruction, LocationSpec};
use kestrel::kernel::Host;
use kestrel::kernel::bpf::Program;
use kestrel::kernel::kprobes::{self, Listed};
use kestrel_trace::print::counted;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

/// Options of `probe show`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// FUNCTION, FUNCTION+OFFSET, MODULE:FUNCTION or 0xADDRESS
    #[arg(value_name = "PLACE")]
    place: String,
    /// Output format; JSON is one object per instruction
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  kestrel probe show vfs_read                    its instructions, with their offsets
  kestrel probe show vfs_read+0x12               the one at that offset
  kestrel probe show xfs:xfs_file_read_iter      of a module
  kestrel probe show 0xffffffff812345a0          the function around an address
  kestrel probe show vfs_read --format json | jq -r 'select(.probeable) | .offset'

The first column says whether a probe can be put there: `-` where it cannot (the last column says why), `*` where one sits already;
the BPF program that it runs and the persistent session that owns the program follow, where they are known.
`kestrel record -e kprobe:FUNCTION+OFFSET` attaches one.";

/// Runs `kestrel probe show`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let wanted: LocationSpec = options.place.parse()?;
    let catalog = Catalog::new(Host::default());
    let code = Code::new(&catalog)?;
    let (function, instruction) = code.locate(&wanted)?;
    // Users that may not see addresses do not learn where probes sit; the rest is shown without that.
    let listed = owned_probes(catalog.host());
    let one = match &wanted {
        LocationSpec::Symbol { offset, .. } => offset.is_some(),
        LocationSpec::Address(_) => false,
    };
    let shown: Vec<&Instruction> = if one {
        vec![&instruction]
    } else {
        function.instructions.iter().collect()
    };
    let mut out = crate::screen::out();
    match options.format {
        Format::Text => text(&mut out, &function, &shown, &listed)?,
        Format::Json => {
            for instruction in shown {
                writeln!(out, "{}", json::line(&row(&function, instruction, &listed))?)?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The probes that sit on an instruction.
fn probes<'l>(instruction: &Instruction, listed: &'l [OwnedProbe]) -> impl Iterator<Item = &'l OwnedProbe> {
    let address = instruction.address;
    listed.iter().filter(move |probe| probe.listed.address == address)
}

fn text(
    out: &mut impl Write,
    function: &Function,
    shown: &[&Instruction],
    listed: &[OwnedProbe],
) -> std::io::Result<()> {
    let good = function
        .instructions
        .iter()
        .filter(|i| i.probeable.is_ok())
        .count();
    writeln!(
        out,
        "{}{} at {:#x}, {}: {}, {good} of them can be probed",
        function.symbol,
        function
            .module
            .as_ref()
            .map_or_else(String::new, |m| format!(" [{m}]")),
        function.address,
        counted(function.size, "byte"),
        counted(function.instructions.len() as u64, "instruction"),
    )?;
    if let Some(why) = function
        .instructions
        .first()
        .and_then(|i| i.probeable.as_ref().err())
        && good == 0
    {
        writeln!(out, "None can be probed: {why}.")?;
    }
    let longest = shown.iter().map(|i| i.text.len()).max().unwrap_or(1).min(LONG);
    let mut columns = Columns::new([LeftOf(7), Left, LeftOf(longest), Left]);
    for instruction in shown {
        let bytes: Vec<String> = instruction.bytes.iter().map(|b| format!("{b:02x}")).collect();
        let states: Vec<String> = probes(instruction, listed).map(describe).collect();
        let mark = match (&instruction.probeable, states.is_empty()) {
            (Err(_), _) => "- ",
            (Ok(()), false) => "* ",
            (Ok(()), true) => "  ",
        };
        // Where no instruction can be probed, the reason stands above, once.
        let why = instruction.probeable.as_ref().err().filter(|_| good > 0);
        let why = why.map(|why| why.short().to_owned());
        let remarks: Vec<String> = states.into_iter().chain(why).collect();
        let offset = format!("+{:#x}", instruction.offset);
        columns.row(
            mark,
            [
                offset,
                bytes.join(" "),
                instruction.text.clone(),
                remarks.join(", "),
            ],
        );
    }
    out.write_all(columns.text().as_bytes())
}

/// Greatest width of the column of instruction texts; a longer text shifts the rest of its line.
const LONG: usize = 56;

/// A kprobe with the BPF program and session that own it, where these are known.
struct OwnedProbe {
    listed: Listed,
    /// The BPF program that it runs.
    program: Option<String>,
    /// The persistent session that owns the program.
    session: Option<String>,
}

/// All kprobes of the kernel with their owners; without the privilege to read addresses or kernel memory the list is incomplete.
fn owned_probes(host: &Host) -> Vec<OwnedProbe> {
    let listed = kprobes::list(host).unwrap_or_default();
    let registered_kprobes = if listed.is_empty() {
        Vec::new()
    } else {
        kestrel::code::registered_kprobes(host).unwrap_or_default()
    };
    let sessions = if registered_kprobes.is_empty() {
        HashMap::new()
    } else {
        program_sessions(host)
    };
    let mut places: HashMap<u64, Vec<Option<u32>>> = HashMap::new();
    for probe in &registered_kprobes {
        places.entry(probe.address).or_default().push(probe.program);
    }
    let mut rows: HashMap<u64, usize> = HashMap::new();
    for probe in &listed {
        *rows.entry(probe.address).or_default() += 1;
    }
    let mut next: HashMap<u64, usize> = HashMap::new();
    let owned = |listed: Listed| {
        let at = next.entry(listed.address).or_default();
        *at += 1;
        // Both lists have the probes of one place in the same order, unless one was added or removed between the two readings.
        let program = places
            .get(&listed.address)
            .filter(|programs| programs.len() == rows[&listed.address])
            .and_then(|programs| programs[*at - 1]);
        let name = |program: u32| Some(Program::from_id(program).ok()?.info().ok()?.name);
        OwnedProbe {
            program: program.and_then(name),
            session: program.and_then(|program| sessions.get(&program).cloned()),
            listed,
        }
    };
    listed.into_iter().map(owned).collect()
}

/// Names of persistent sessions by the ids of their programs.
fn program_sessions(host: &Host) -> HashMap<u32, String> {
    let Ok(store) = crate::sessions::store(host) else {
        return HashMap::new();
    };
    let of = |name: String| {
        let session = store.session(Some(&name));
        let numbers = session.map_or_else(|_| Vec::new(), |session| session.program_numbers());
        numbers.into_iter().map(move |number| (number, name.clone()))
    };
    store
        .names()
        .unwrap_or_default()
        .into_iter()
        .flat_map(of)
        .collect()
}

fn kind(probe: &Listed) -> &'static str {
    match probe.letter {
        'r' => "kretprobe",
        _ => "kprobe",
    }
}

/// A kprobe in words: `kprobe [OPTIMIZED] of session web`.
fn describe(owned: &OwnedProbe) -> String {
    let probe = &owned.listed;
    let mut text = kind(probe).to_owned();
    for word in KprobeStates::of(probe).words() {
        text.push(' ');
        text.push_str(word);
    }
    match (&owned.session, &owned.program) {
        (Some(session), _) => text + " of session " + session,
        (None, Some(program)) => text + " of program " + program,
        (None, None) => text,
    }
}

/// An instruction with the kprobes at it, as JSON has it.
#[derive(Debug, Serialize)]
struct InstructionRow<'a> {
    symbol: &'a str,
    module: Option<&'a str>,
    offset: u64,
    address: String,
    bytes: String,
    text: &'a str,
    probeable: bool,
    why_not: Option<String>,
    probes: Vec<ProbeRow<'a>>,
}

/// A kprobe at an instruction, and whose it is.
#[derive(Debug, Serialize)]
struct ProbeRow<'a> {
    kind: &'static str,
    #[serde(flatten)]
    states: KprobeStates,
    program: Option<&'a str>,
    session: Option<&'a str>,
}

fn row<'a>(
    function: &'a Function,
    instruction: &'a Instruction,
    listed: &'a [OwnedProbe],
) -> InstructionRow<'a> {
    let bytes = instruction.bytes.iter().map(|b| format!("{b:02x}"));
    let probes = probes(instruction, listed).map(|owned| ProbeRow {
        kind: kind(&owned.listed),
        states: KprobeStates::of(&owned.listed),
        program: owned.program.as_deref(),
        session: owned.session.as_deref(),
    });
    InstructionRow {
        symbol: &function.symbol,
        module: function.module.as_deref(),
        offset: instruction.offset,
        address: format!("{:#x}", instruction.address),
        bytes: bytes.collect(),
        text: &instruction.text,
        probeable: instruction.probeable.is_ok(),
        why_not: instruction.probeable.as_ref().err().map(ToString::to_string),
        probes: probes.collect(),
    }
}
