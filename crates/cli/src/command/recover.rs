//! `kestrel recover`: recovers trace buffers from a crash dump or memory image.

use crate::exit::{Exit, Failure};
use crate::output::Format as Shown;
use crate::output::json;
use crate::progress;
use crate::style::bytes;
use clap::Args;
use kestrel::recover::LiveMemory;
use kestrel_trace::ctf::directory;
use kestrel_trace::image::bytes::ReadAt;
use kestrel_trace::image::{self, Format, Image};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::print::wall_time;
use kestrel_trace::print::{are, counted, shown, thousands};
use kestrel_trace::recover::{self, Findings, Recovered, Session};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `recover`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The image: an ELF core file, a kdump-compressed file, or raw memory
    #[arg(value_name = "IMAGE", required_unless_present = "live")]
    image: Option<PathBuf>,
    /// Search the running kernel instead, for sessions whose pins are gone but whose programs still run
    #[arg(long, conflicts_with = "image")]
    live: bool,
    /// Decode packets whose description is missing in the image with the metadata of this trace: an earlier one of the same session, or of the same tables
    #[arg(long, value_name = "TRACE")]
    metadata: Option<PathBuf>,
    /// The trace directory; of several sessions each gets one below it. An old trace there is replaced
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_OUTPUT, value_parser = crate::arguments::directory())]
    output: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Shown,
}

const DEFAULT_OUTPUT: &str = "kestrel.recovered";

const EXAMPLES: &str = "\
Examples:
  kestrel recover /var/crash/202611200815/dump.202611200815     a dump that kdump wrote
  kestrel recover vmcore -o last && kestrel report last         the events up to the panic
  kestrel recover --live                                        a session whose recorder was killed, if its programs run on
  kestrel recover vmcore --metadata monday.trace                with what another trace of the session says, where a dump is damaged
  kestrel recover --format json guest.ram | jq '.sessions[].events'

No symbols or debug information are needed: the buffers explain themselves. makedumpfile must not leave out the kernel's own pages, which
no dump level does.

--live finds buffers whose session's pins are gone while anybody holds a program that writes to them. Handlers of the session's first file go on
meanwhile; those of tables that were loaded later have ended with the pins: the kernel empties arrays of programs that no pin holds.";

/// Runs `kestrel recover`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let output = absolute(&options.output)?;
    let given = options.metadata.as_deref().map(directory::open).transpose()?;
    let given = given.as_ref().map(|trace| trace.reader.info());
    let Some(path) = &options.image else {
        let memory: Box<dyn ReadAt> = Box::new(LiveMemory::open()?);
        let image = Image::live(memory).map_err(|why| unreadable("this kernel", &why))?;
        return recover_all(&image, "this kernel", given, &output, options.format);
    };
    let name = path.display().to_string();
    let opened = File::open(path).map_err(image::Unreadable::from);
    let image = opened.and_then(|file| Image::new(Box::new(file) as Box<dyn ReadAt>));
    let image = image.map_err(|why| match path.is_dir() {
        true => unreadable(&name, &why)
            .hint("`kestrel print DIR` and `kestrel report DIR` read what a killed recorder left"),
        false => unreadable(&name, &why),
    })?;
    recover_all(&image, &name, given, &output, options.format)
}

fn unreadable(name: &str, why: &image::Unreadable) -> Failure {
    Failure::new(Exit::Failed, format!("cannot search {name} for sessions: {why}"))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| {
        Failure::new(
            Exit::Failed,
            format!("cannot say where {} is: {e}", path.display()),
        )
    })
}

/// Bytes of an image: of a file, or of the running kernel.
type AnyImage = Image<Box<dyn ReadAt>>;

/// Searches an image and writes each session that is in it.
fn recover_all(
    image: &AnyImage,
    name: &str,
    given: Option<&TraceInfo>,
    output: &Path,
    format: Shown,
) -> Result<Exit, Failure> {
    let findings = {
        let mut bar = progress::bar("searching");
        let mut report = |done, total| {
            if let Some(bar) = &mut bar {
                bar(done, total);
            }
        };
        recover::search(image, given, &mut report).map_err(|why| unreadable(name, &why))?
    };
    let recovered = save(image, &findings, output)?;
    match format {
        Shown::Json => {
            let all = RecoveredJson {
                image: name,
                format: &findings.format,
                scanned: &findings.scanned,
                sessions: &recovered,
                unexplained: &findings.unexplained,
            };
            writeln!(crate::screen::out(), "{}", json::line(&all)?)?;
        }
        Shown::Text => print_summary(&recovered)?,
    }
    report_unreadable(name, &findings);
    if recovered.is_empty() {
        return Err(no_session_found(name, &findings));
    }
    Ok(Exit::Done)
}

/// Contents of an image, as JSON has them.
#[derive(Debug, Serialize)]
struct RecoveredJson<'a> {
    image: &'a str,
    format: &'a Format,
    scanned: &'a image::Scanned,
    sessions: &'a [Recovered],
    unexplained: &'a [recover::Unexplained],
}

fn save(image: &AnyImage, findings: &Findings, output: &Path) -> Result<Vec<Recovered>, Failure> {
    let total = findings.sessions.iter().map(Session::packets).sum();
    let mut bar = progress::bar("writing");
    let mut before = 0;
    let mut all = Vec::new();
    for (session, folder) in findings
        .sessions
        .iter()
        .zip(recover::folder_names(&findings.sessions))
    {
        let path = if findings.sessions.len() == 1 {
            output.to_owned()
        } else {
            directory::create_folder(output)?;
            output.join(folder)
        };
        all.push(session.save(image, &path, &mut |done| {
            if let Some(bar) = &mut bar {
                bar(before + done, total);
            }
        })?);
        before += session.packets();
    }
    Ok(all)
}

fn print_summary(all: &[Recovered]) -> std::io::Result<()> {
    let mut out = crate::screen::out();
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match one.session.as_str() {
            "" => writeln!(out, "session {}", one.uuid)?,
            name => writeln!(out, "session {} ({})", shown(name), one.uuid)?,
        }
        writeln!(out, "  made by  {}", shown(&one.command))?;
        writeln!(
            out,
            "  on       {}, Linux {}",
            shown(&one.hostname),
            shown(&one.kernel_release)
        )?;
        // Packets without an event that can be read give no times.
        if one.events > 0 {
            writeln!(
                out,
                "  from     {} to {}",
                wall_time(one.first_ns),
                wall_time(one.last_ns)
            )?;
        }
        if let Some(by) = &one.explained_by {
            writeln!(out, "  read by  the metadata of trace {by}: its own is not there")?;
        }
        writeln!(out, "  events   {}", thousands(one.events))?;
        writeln!(
            out,
            "  packets  {} whole, {} cut, {} missing between them",
            thousands(one.whole),
            thousands(one.cut),
            thousands(one.missing)
        )?;
        for (number, noun, what) in [
            (one.torn, "event", "behind unfinished ones cannot be read"),
            (one.damaged, "packet", "could not be read"),
            (one.stale, "packet", "of earlier use left out"),
            (one.copies, "packet", "there more than once"),
        ] {
            if number > 0 {
                writeln!(out, "           {} {what}", counted(number, noun))?;
            }
        }
        writeln!(out, "  trace    {}", one.path.display())?;
    }
    Ok(())
}

fn no_session_found(name: &str, findings: &Findings) -> Failure {
    let (looked, format) = (bytes(findings.scanned.bytes), findings.format);
    let failure = Failure::new(
        Exit::Failed,
        format!("no session is in {name} ({format}): {looked} were searched"),
    );
    match format {
        Format::Live => failure,
        _ => failure.hint("is it an image of the right machine, and of its whole memory? /proc/vmcore and QEMU's dump-guest-memory are"),
    }
}

/// Reports pages that could not be read and packets without metadata.
fn report_unreadable(name: &str, findings: &Findings) {
    let scanned = &findings.scanned;
    if scanned.unreadable > 0 {
        eprintln!(
            "kestrel: {} of {name} could not be read: {}",
            counted(scanned.unreadable, "page"),
            scanned.note.as_deref().unwrap_or("no reason is known")
        );
    }
    for one in &findings.unexplained {
        eprintln!(
            "kestrel: {} of trace {} {} not explained: {}",
            counted(one.packets, "packet"),
            one.uuid,
            are(one.packets),
            shown(&one.why.to_string())
        );
    }
    if !findings.unexplained.is_empty() {
        eprintln!(
            "hint: --metadata TRACE reads them with the metadata of an earlier trace of the same session or tables"
        );
    }
}
