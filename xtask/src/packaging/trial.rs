//! `cargo xtask dist --try`: what was packed, installed, used and removed in guests of Debian's releases.

use std::{io::Write, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use vm_tests::protocol::Stream;

use crate::{
    artifact::{self, Profile},
    guest::{ExitStatus, GuestSpec, GuestTemplate, Program},
    install,
};

/// Debian's releases, each with its kernel.
const RELEASES: &[(&str, &str)] = &[("bookworm", "6.1"), ("trixie", "6.12")];

/// Packages that the trial needs in a guest.
const PACKAGES: &[&str] = &[
    "diffutils",
    "dpkg",
    "groff-base",
    "gzip",
    "libc-bin",
    "man-db",
    "tar",
];

/// The trial: `$deb` and `$tar` are what was packed.
const SCRIPT: &str = r#"
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
everything() { find / -xdev ! -path '/var/l*' ! -path '/tmp/*' | sort; }
everything > /tmp/before
dpkg -i "$deb"
kestrel --version
kestrel doctor > /tmp/doctor || true
grep yes /tmp/doctor
kestrel record -o /tmp/trace -e sched:sched_switch -a --duration 1
kestrel report /tmp/trace | head -n 5
man -w kestrel kestrel-record kestrel-buffer-dump
man kestrel-record | grep 'kestrel record -e'
kestrel start flight
dpkg -r kestrel
if kestrel --version; then exit 1; fi
everything > /tmp/after
diff /tmp/before /tmp/after
if dpkg -s kestrel; then exit 1; fi
tar -xzf "$tar" -C /tmp
/tmp/kestrel-*/bin/kestrel trace -e sched:sched_switch -a --duration 1 > /tmp/lines
grep -c sched_switch /tmp/lines
test -s /tmp/kestrel-*/THIRD-PARTY
"#;

/// Installs, uses and removes the package, and uses the archive, in each release.
pub(super) fn run(deb: &Path, tar: &Path) -> Result<()> {
    install::ensure(install::GUESTS)?;
    install::ensure(install::IMAGES)?;
    let base = artifact::bare(Profile::Quick)?;
    for (suite, series) in RELEASES {
        let spec = GuestSpec {
            packages: PACKAGES.iter().map(|name| (*name).to_owned()).collect(),
            suite: (*suite).to_owned(),
            ..GuestSpec::plain(series)
        };
        let stable = GuestTemplate::prepare(&spec, &base.init)?;
        let mut guest = stable.guest()?;
        println!("── {suite} ({})", stable.release());
        let mut env = Vec::new();
        for (name, path) in [("deb", deb), ("tar", tar)] {
            let file = path.file_name().context("an archive without a name")?;
            let there = format!("/{}", file.to_string_lossy());
            guest.copy(path, &there)?;
            env.push((name.to_owned(), there));
        }
        let program = Program {
            argv: ["sh", "-c", SCRIPT].map(str::to_owned).to_vec(),
            env,
            limit: Duration::from_secs(300),
        };
        let ending = guest.run(&program, |stream, bytes| {
            let _ = match stream {
                Stream::Out => std::io::stdout().write_all(bytes),
                Stream::Err => std::io::stderr().write_all(bytes),
            };
        })?;
        ensure!(
            ending == ExitStatus::Exited(0),
            "{suite}: the trial ended with {ending:?}"
        );
    }
    Ok(())
}
