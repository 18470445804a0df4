//! `kestrel bpf run`: an object onto the kernel, in the foreground.

use super::object;
use crate::arguments::duration;
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work};
use crate::output::Format;
use crate::output::json;
use crate::output::object_maps as maps;
use clap::{Args, ValueEnum};
use kestrel::bpf::output::{Outputs, Printk, Record};
use kestrel::bpf::{Loaded, Object, Running, Via, trusted, value};
use kestrel::kernel::Host;
use kestrel::kernel::bpf;
use kestrel_trace::print::{are, counted, thousands};
use serde::Serialize;
use serde_json::json;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  kestrel bpf run count.o vfs_read                  the one program, on a function
  kestrel bpf run count.o vfs_read+0x12             … on an instruction inside of it
  kestrel bpf run count.o vfs_read --return         … on its return
  kestrel bpf run tools.o                           what the sections say
  kestrel bpf run tools.o on_open=do_sys_openat2    … but this program elsewhere
  kestrel bpf run marks.o on_gc=/usr/bin/python3:python:gc__start   a USDT probe of a program
  kestrel bpf run walk.o dump=map:hits              an iterator over a map of the object (or a pin), over cgroup:PATH or task:PID
  kestrel bpf run ring.o --map-size events=65536    a size that the object leaves open
  kestrel bpf run view.o --map counts=/sys/fs/bpf/counts   a map of the object that another loader made
  kestrel bpf run tools.o --only on_open,on_close   two of its programs; --without NAME,… leaves some out
  kestrel bpf run events.o --output --format json   records of ring buffers and perf event arrays
  kestrel bpf run count.o vfs_read --maps --stats   values of maps and costs, once a second
  kestrel bpf run count.o --unpin                   remove the pins that its maps left

Pins: a map that asks to be pinned stays when the command ends, and is found again by the next run:
  classic  pinning 1 (object)   /sys/fs/bpf/tc/OBJECT/MAP, with OBJECT the file's name without .o
           pinning 2 (global)   /sys/fs/bpf/tc/globals/MAP
  BTF      LIBBPF_PIN_BY_NAME   /sys/fs/bpf/MAP
--unpin removes them when the command ends, or at once where there is nothing to attach to.
Programs that this kernel has nothing for are left out, each with a note, as long as another is attached; --strict makes that an error,
and what is asked for as NAME=TARGET always is one.
Types of records: `__type(value, struct event)` in a ring buffer or perf event array.";

/// Attach mechanism for kprobes.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum KprobeVia {
    /// A perf kprobe; where the kernel has none, an event of tracefs
    #[default]
    Best,
    /// A perf kprobe with a link
    Link,
    /// An event of tracefs (kprobe_events)
    Tracefs,
}

/// Options of `bpf run`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The object: what `clang --target=bpf -c` wrote
    #[arg(value_name = "OBJECT")]
    object: PathBuf,
    /// What to attach to: one target for the one program, or NAME=TARGET for each that goes elsewhere than its section says
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Initialize a global variable of the object with this number, or set the value of a CONFIG_… option of the kernel
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Set the maximum number of entries of a map, or the bytes of a ring, instead of what the object says
    #[arg(long, value_name = "MAP=ENTRIES")]
    map_size: Vec<String>,
    /// Take the map that is pinned at PATH, which another loader made, for the object's map NAME; may be repeated
    #[arg(long = "map", value_name = "NAME=PATH")]
    pinned: Vec<String>,
    /// Load only these programs of the object, and those that they call
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Do not load these programs of the object
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    without: Vec<String>,
    /// Attach kprobe programs to the return of the function
    #[arg(long = "return")]
    at_return: bool,
    /// Load optional programs, too: those of sections that begin with `?`
    #[arg(long)]
    optional: bool,
    /// Refuse the object if any of its programs finds nothing to be attached to, instead of going on without it
    #[arg(long)]
    strict: bool,
    /// Load the object although another user could have written it
    #[arg(long)]
    untrusted: bool,
    /// How kprobes are attached
    #[arg(long, value_enum, default_value_t)]
    via: KprobeVia,
    /// Show the values of the maps, once a second and at the end
    #[arg(long)]
    maps: bool,
    /// Show the records of ring buffers and perf event arrays
    #[arg(long)]
    output: bool,
    /// Count and time the runs of each program, shown once a second and at the end
    #[arg(long)]
    stats: bool,
    /// Time between two showings: seconds, or with ms, s, m, h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Pin links, programs and maps in this directory of bpffs: they go on when the command ends
    #[arg(long, value_name = "DIRECTORY")]
    pin: Option<PathBuf>,
    /// Remove the pins of the object's maps at the end
    #[arg(long)]
    unpin: bool,
    /// Stop after this time: seconds, or with ms, s, m, h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Write what the verifier says about all programs to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Output format of maps, records and statistics
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Say what is done, and how long it took
    #[arg(long, short)]
    verbose: bool,
}

/// Runs `kestrel bpf run`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let interval = options.interval.max(Duration::from_millis(20));
    let (mut object, objection) = object::open(&options.object)?;
    if !options.untrusted {
        trusted(&options.object.display().to_string(), objection.as_ref())?;
    }
    if options.unpin && options.targets.is_empty() && nothing_to_attach_to(&object) {
        return unpin(&object);
    }
    let via = match options.via {
        KprobeVia::Best => Via::Best,
        KprobeVia::Link => Via::Link,
        KprobeVia::Tracefs => Via::Tracefs,
    };
    object = object
        .at_return(options.at_return)
        .via(via)
        .strict(options.strict)
        .with_optional(options.optional);
    for name in &options.only {
        object = object.only(name)?;
    }
    for name in &options.without {
        object = object.without(name)?;
    }
    for setting in &options.pinned {
        let Some((name, path)) = setting.split_once('=') else {
            let message = format!("--map {setting} should read NAME=PATH");
            return Err(Failure::new(Exit::Usage, message));
        };
        object = object.map_from(name, Path::new(path))?;
    }
    for target in &options.targets {
        object = match target.split_once('=') {
            Some((name, target)) => object.attach_to(name, target)?,
            None => object.attach_only_to(target)?,
        };
    }
    for setting in &options.set {
        if let Some((name, value)) = setting
            .split_once('=')
            .filter(|(name, _)| name.starts_with("CONFIG_"))
        {
            object = object.config(name, value);
            continue;
        }
        let (name, number) = named_number("--set", setting, "NAME=NUMBER")?;
        object = object.set_number(name, number)?;
    }
    for setting in &options.map_size {
        let (name, entries) = named_number("--map-size", setting, "MAP=ENTRIES")?;
        object = object.map_size(name, entries)?;
    }
    if options.log.is_some() {
        object = object.with_verifier_log();
    }
    let mut foreground = Foreground::new(options.duration)?;
    let read = begun.elapsed();
    let loaded = object.load().map_err(|error| {
        if let (kestrel::Error::Refused(refusal), Some(file)) = (&error, &options.log) {
            let _ = write(file, &refusal.log);
        }
        Failure::from(error)
    })?;
    write_log(options, &loaded)?;
    for note in loaded.notes() {
        eprintln!("note: {note}");
    }
    let notes_before = loaded.notes().len();
    let loaded_after = begun.elapsed();
    let _stats = if options.stats {
        Some(bpf::enable_stats()?)
    } else {
        None
    };
    // Before anything is attached, so that the first line of a program is not missed.
    let printk = open_printk(&loaded, options)?;
    let running = loaded.attach()?;
    for note in running.loaded().notes().iter().skip(notes_before) {
        eprintln!("note: {note}");
    }
    // Perf event arrays have no rings until a reader opens them: records before that are lost.
    let outputs = if options.output {
        Some(Outputs::open(&running)?)
    } else {
        None
    };
    let attached_after = begun.elapsed();
    if let Some(outputs) = &outputs
        && outputs.is_empty()
    {
        eprintln!("note: the object has neither ring buffers nor perf event arrays");
    }
    if let Some(directory) = &options.pin {
        running.pin(directory)?;
    }
    if options.verbose {
        report_attached(&running, [read, loaded_after, attached_after]);
    }
    iterate(&running)?;
    let mut out = crate::screen::out();
    match options.format {
        Format::Text => writeln!(out, "Running.")?,
        Format::Json => eprintln!("Running."),
    }
    out.flush()?;
    let mut shown = RunningObject {
        options,
        running,
        outputs,
        printk,
        interval,
        next: Instant::now() + interval,
    };
    foreground.run(&mut shown)?;
    let RunningObject { running, outputs, .. } = shown;
    finish(options, running, outputs)
}

/// A running object, and the sources of the output shown.
struct RunningObject<'o> {
    options: &'o Options,
    running: Running,
    outputs: Option<Outputs>,
    printk: Option<Printk>,
    interval: Duration,
    /// When maps and statistics are shown next.
    next: Instant,
}

impl Work for RunningObject<'_> {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self { options, running, .. } = self;
        if last && options.pin.is_none() {
            // The last read then has all records, and rings and maps agree.
            running.detach()?;
        }
        let mut out = crate::screen::out();
        if let Some(outputs) = &mut self.outputs {
            let mut lines = String::new();
            outputs.read(running, |record| lines += &show_record(&record, options.format))?;
            out.write_all(lines.as_bytes())?;
        }
        if let Some(printk) = &mut self.printk {
            let mut lines = Vec::new();
            printk.read(|line| lines.push(line.to_owned()))?;
            for line in lines {
                writeln!(out, "{}", show_line(&line, options.format))?;
            }
        }
        if last || Instant::now() >= self.next {
            self.next = Instant::now() + self.interval;
            if options.maps {
                show_maps(&mut out, running, options.format)?;
            }
            if options.stats {
                show_stats(&mut out, running, options.format)?;
            }
        }
        out.flush()?;
        Ok(POLL_INTERVAL)
    }
}

/// The pause between two polls of rings and of bpf_printk.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Whether no program's section names a target.
fn nothing_to_attach_to(object: &Object) -> bool {
    object
        .parsed()
        .programs()
        .iter()
        .all(|program| program.section.target.is_empty())
}

fn unpin(object: &Object) -> Result<Exit, Failure> {
    let removed = object.unpin()?;
    for path in &removed {
        println!("removed {}", path.display());
    }
    if removed.is_empty() {
        println!("none of its maps is pinned");
    }
    Ok(Exit::Done)
}

/// Writes a file named on the command line; links of other users are not followed.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    kestrel_trace::files::create(file, 0o666)?.write_all(text.as_bytes())
}

fn write_log(options: &Options, loaded: &Loaded) -> Result<(), Failure> {
    let Some(file) = &options.log else { return Ok(()) };
    let mut text = String::new();
    for program in loaded.programs() {
        text += &format!(
            "program {} (section {})\n{}\n",
            program.name(),
            program.section(),
            program.log().unwrap_or("")
        );
    }
    write(file, &text)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", file.display())))
}

/// Lines of `bpf_printk` are shown if a program can write them; a kernel without tracefs is no reason to stop.
fn open_printk(loaded: &Loaded, options: &Options) -> Result<Option<Printk>, Failure> {
    if !loaded.programs().iter().any(kestrel::bpf::LoadedProgram::prints) {
        return Ok(None);
    }
    match Printk::open(&Host::default()) {
        Ok(printk) => Ok(Some(printk)),
        Err(error) => {
            if options.verbose {
                eprintln!("note: lines of bpf_printk are not shown: {error}");
            }
            Ok(None)
        }
    }
}

/// Prints, with `-v`, maps, programs and the time of each step.
fn report_attached(running: &Running, [read, loaded, attached]: [Duration; 3]) {
    for map in running.maps() {
        let state = match (map.is_reused(), map.pinned_at()) {
            (true, Some(path)) => format!("found at {}", path.display()),
            (false, Some(path)) => format!("pinned at {}", path.display()),
            _ => "new".to_owned(),
        };
        eprintln!(
            "map {} (id {}): {}, {state}",
            map.name(),
            map.info().id,
            kestrel::bpf::Shape::from(map.info())
        );
    }
    for (program, attached) in running.programs() {
        let id = program.program().info().map(|info| info.id).unwrap_or(0);
        let how = match attached.count() {
            0 => "attached to nothing".to_owned(),
            1 => format!("attached by a {}", attached.how()),
            // Of links and perf events there may be many, of events of tracefs there is one for each program.
            count => format!("attached by {count} {}s", attached.how()),
        };
        eprintln!(
            "program {} (id {id}): section {}, {how}",
            program.name(),
            program.section()
        );
    }
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    eprintln!(
        "attached {:.2} ms after the start: object read {:.2} ms, loaded {:.2} ms, attached {:.2} ms",
        ms(attached),
        ms(read),
        ms(loaded.saturating_sub(read)),
        ms(attached.saturating_sub(loaded))
    );
}

/// Runs iterators once and prints their output.
fn iterate(running: &Running) -> Result<(), Failure> {
    for (name, mut file) in running.iterators()? {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("cannot read what the iterator {name} writes: {error}"),
            )
        })?;
        crate::screen::out().write_all(&text)?;
    }
    Ok(())
}

fn show_record(record: &Record<'_>, format: Format) -> String {
    let value = match record.ty {
        Some((btf, ty)) => value::to_json(btf, ty, record.data),
        None => value::plain(record.data),
    };
    match format {
        Format::Json => format!(
            "{}\n",
            json!({"output": record.map, "cpu": record.cpu, "size": record.data.len(), "value": value})
        ),
        Format::Text => {
            let cpu = record.cpu.map(|cpu| format!(" [{cpu:03}]")).unwrap_or_default();
            format!("{}{cpu}: {}\n", record.map, value::to_text(&value))
        }
    }
}

fn show_line(line: &str, format: Format) -> String {
    match format {
        Format::Json => json!({"printk": line.trim_start()}).to_string(),
        Format::Text => line.trim_start().to_owned(),
    }
}

/// The two sides of an option like `--set NAME=NUMBER`.
fn named_number<'a, N: std::str::FromStr>(
    option: &str,
    setting: &'a str,
    shape: &str,
) -> Result<(&'a str, N), Failure> {
    let parsed = setting
        .split_once('=')
        .and_then(|(name, number)| Some((name, number.parse().ok()?)));
    parsed.ok_or_else(|| Failure::new(Exit::Usage, format!("{option} {setting}: it should read {shape}")))
}

fn show_maps(out: &mut impl Write, running: &Running, format: Format) -> Result<(), Failure> {
    for map in running.maps().iter().filter(|map| maps::is_readable(map)) {
        maps::print(out, map, None, format == Format::Json)?;
    }
    Ok(())
}

/// Runs of a program, their time, and missed runs.
#[derive(Debug, Serialize)]
struct ProgramRuns {
    program: String,
    runs: u64,
    ns_per_run: u64,
    missed: u64,
}

fn show_stats(out: &mut impl Write, running: &Running, format: Format) -> Result<(), Failure> {
    for ((name, info), (_, attached)) in running.stats()?.into_iter().zip(running.programs()) {
        let it = ProgramRuns {
            program: name,
            runs: info.runs,
            ns_per_run: info.run_time.checked_div(info.runs).unwrap_or(0),
            missed: info.recursion_misses + attached.missed()?,
        };
        match format {
            Format::Json => writeln!(out, "{}", json::line(&it)?)?,
            Format::Text => {
                let lost = match it.missed {
                    0 => String::new(),
                    lost => format!(", {} missed", thousands(lost)),
                };
                writeln!(
                    out,
                    "{}: {}, {} ns per run{lost}",
                    it.program,
                    counted(it.runs, "run"),
                    it.ns_per_run
                )?;
            }
        }
    }
    Ok(())
}

fn finish(options: &Options, running: Running, outputs: Option<Outputs>) -> Result<Exit, Failure> {
    if let Some(lost) = outputs.map(|outputs| outputs.lost()).filter(|lost| *lost > 0) {
        eprintln!("{} found no room and {} lost", counted(lost, "record"), are(lost));
    }
    let stay: Vec<_> = running
        .maps()
        .iter()
        .filter_map(|map| Some((map.name().to_owned(), map.pinned_at()?.to_owned())))
        .collect();
    if options.unpin {
        for path in running.unpin()? {
            eprintln!("removed {}", path.display());
        }
    } else if options.verbose {
        for (name, path) in stay {
            eprintln!("the map {name} stays at {}", path.display());
        }
    }
    if let Some(directory) = &options.pin {
        eprintln!("still attached: `rm -r {}` ends it", directory.display());
    }
    drop(running);
    Ok(Exit::Done)
}
