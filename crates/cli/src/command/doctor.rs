//! `kestrel doctor`: checks which features work on this machine, and why others do not.

use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::checks::{Check, print_checks};
use crate::style;
use clap::Args;
use kestrel::kernel::feature::{Feature, Features, Support};
use kestrel::kernel::privilege::Privilege;
use kestrel::kernel::{Host, btf, procfs};
use kestrel::session::store::Store;
use std::io::Write;

/// Options of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// The features that recording requires.
const NEEDED: &[Feature] = &[Feature::Bpf, Feature::Atomics, Feature::MmapArray];

/// Runs `kestrel doctor`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let mut rows = machine_checks(&host);
    let features = Features::new(host);
    let mut exit = Exit::Done;
    for &feature in Feature::ALL {
        let support = features.check(feature);
        if NEEDED.contains(&feature) && !support.works() {
            exit = if matches!(support, Support::Denied { .. }) {
                Exit::Privilege
            } else {
                Exit::Feature
            };
        }
        rows.push(Check {
            name: feature.name().to_owned(),
            passed: support.works(),
            finding: support.to_string(),
            purpose: feature.purpose(),
        });
    }
    rows.extend(sessions_in_tracefs());
    print_checks(&rows, options.format)?;
    if exit != Exit::Done && options.format == Format::Text {
        writeln!(
            crate::screen::out(),
            "\nThis machine cannot be traced by Kestrel as it is: see the lines marked no above."
        )?;
    }
    Ok(exit)
}

/// Sessions that keep events in `kprobe_events`.
fn sessions_in_tracefs() -> Vec<Check> {
    let host = Host::default();
    let store = Store::open(&host);
    let names = store.as_ref().map(|store| store.names().unwrap_or_default());
    let kept = |name: String| {
        let session = store.as_ref().ok()?.session(Some(&name)).ok()?;
        let kept = session.tracefs_events();
        (!kept.is_empty()).then(|| Check {
            name: "kprobe_events".to_owned(),
            passed: false,
            finding: crate::output::kprobe_events::note(&name, &kept),
            purpose: "",
        })
    };
    names.unwrap_or_default().into_iter().filter_map(kept).collect()
}

fn machine_checks(host: &Host) -> Vec<Check> {
    let row = |name: &str, good, says: String, purpose| Check {
        name: name.to_owned(),
        passed: good,
        finding: says,
        purpose,
    };
    let mut rows = Vec::new();
    let release = procfs::kernel_release(host).unwrap_or_else(|e| e.to_string());
    rows.push(row(
        "kernel",
        true,
        format!("{release} {}", std::env::consts::ARCH),
        "",
    ));
    match Privilege::read(host) {
        Ok(privilege) => {
            for need in kestrel::kernel::privilege::Need::ALL {
                let missing = privilege.missing(*need);
                let says = missing
                    .as_ref()
                    .map_or_else(|| "granted".to_owned(), ToString::to_string);
                rows.push(row(&need.to_string(), missing.is_none(), says, "a privilege"));
            }
        }
        Err(error) => rows.push(row("privileges", false, error.to_string(), "")),
    }
    // Lockdown for integrity leaves kprobes, tracefs and reads of kernel memory alone (`lockdown_reason`, include/linux/security.h).
    let lockdown = procfs::lockdown(host);
    rows.push(row(
        "lockdown",
        lockdown != procfs::Lockdown::Confidentiality,
        lockdown.to_string(),
        "",
    ));
    let tracefs = host.mount_tracefs();
    let says = tracefs
        .as_ref()
        .map_or_else(ToString::to_string, |p| p.display().to_string());
    rows.push(row(
        "tracefs",
        tracefs.is_ok(),
        says,
        "names and formats of tracepoints",
    ));
    let types = btf::vmlinux(host);
    let says = types
        .as_ref()
        .map_or_else(ToString::to_string, |b| style::bytes(b.len() as u64));
    rows.push(row(
        "types (BTF)",
        types.is_ok(),
        says,
        "struct fields and parameters by name",
    ));
    rows
}
