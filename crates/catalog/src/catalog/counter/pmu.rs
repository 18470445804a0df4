//! Counters of a unit that the kernel describes in /sys/bus/event_source/devices (`cpu/event=0x3c,umask=0/u`, `msr/tsc/`, `power/energy-pkg/`): numbers
//! are put together by the unit's own `format`, names are those of its `events`.

use super::counted::{Meaning, Named, Scale, levels};
use crate::error::{Error, Result, nothing_matches};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::Host;
use kestrel_kernel::perf::{Counter, Levels};
use kestrel_kernel::procfs::CpuList;

/// Directory in which the kernel describes its counting units (PMUs).
const UNITS: &str = "/sys/bus/event_source/devices";

/// The unit, the terms and the letters of a text that is shaped like `UNIT/TERM,…/LETTERS`; what has a colon before the slash is an event of a tracer.
fn cut(text: &str) -> Option<(&str, &str, &str)> {
    let (unit, rest) = text.trim().split_once('/')?;
    let (terms, letters) = rest.rsplit_once('/')?;
    is_unit(unit).then_some((unit, terms, letters.trim_start_matches(':')))
}

/// Whether what stands right before a slash can be a unit's name.
pub fn is_unit(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// The counter of a text; `None` where it is shaped like no unit's.
///
/// # Errors
/// A unit, a term or a name that this machine does not have, with those that come close.
pub fn find(text: &str, host: &Host) -> Result<Option<Named>> {
    let Some((name, terms, letters)) = cut(text) else {
        return Ok(None);
    };
    let unit = Unit { name, host };
    let kind = unit.read("type").and_then(|text| text.parse().ok());
    let kind = kind.ok_or_else(|| no_unit(name, host))?;
    let mut config = Config::default();
    let mut scale = None;
    for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        // A term with `=` sets a field of the unit's `format`; a path would leave the directory of its `events`.
        match unit
            .read(&format!("events/{term}"))
            .filter(|_| !term.contains(['=', '/']))
        {
            Some(meant) => {
                for term in meant.split(',') {
                    unit.set(term.trim(), &mut config)?;
                }
                scale = unit.scale(term);
            }
            None => unit.set(term, &mut config)?,
        }
    }
    // Units of a package are counted on one CPU of each (`cpumask`); those of hybrid cores name the CPUs that they are in (`cpus`).
    let cpus = unit.read("cpumask").or_else(|| unit.read("cpus"));
    Ok(Some(Named {
        name: text.trim().to_owned(),
        counter: Counter {
            kind,
            config: config.words[0],
            config1: config.words[1],
            config2: config.words[2],
            name: text.trim().to_owned().into(),
            access: 0,
            counts_time: false,
        },
        meaning: Meaning::Raw,
        levels: match letters {
            "" => Levels::ALL,
            letters => levels(text, letters)?,
        },
        scale,
        cpus: cpus.and_then(|text| CpuList::parse(&text).ok()),
    }))
}

/// Config words of a PMU event in perf's attributes: `config`, `config1`, `config2`.
#[derive(Default)]
struct Config {
    words: [u64; 3],
}

const WORDS: [&str; 3] = ["config", "config1", "config2"];

struct Unit<'a> {
    name: &'a str,
    host: &'a Host,
}

impl Unit<'_> {
    /// A file of its description, without the end of its line.
    fn read(&self, file: &str) -> Option<String> {
        let text = self.host.read(format!("{UNITS}/{}/{file}", self.name)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The names in a folder of its description.
    fn names(&self, folder: &str) -> Vec<String> {
        names(self.host, &format!("{UNITS}/{}/{folder}", self.name))
    }

    /// Puts `TERM=NUMBER`, or a term alone, which stands for 1, into the words.
    fn set(&self, term: &str, config: &mut Config) -> Result<()> {
        let (name, written) = term.split_once('=').unwrap_or((term, "1"));
        let Some(value) = number(written) else {
            return Err(Error::WrongShape {
                wanted: format!("{}/{term}/", self.name),
                shape: format!("{name}=NUMBER"),
            });
        };
        let format = match WORDS.contains(&name) {
            true => Some(format!("{name}:0-63")),
            false => self
                .read(&format!("format/{name}"))
                .filter(|_| !name.contains('/')),
        };
        let placed = format.and_then(|format| place(value, &format));
        let Some((word, bits)) = placed else {
            let mut all = self.names("events");
            all.extend(self.names("format"));
            all.sort_unstable();
            let near = nearest(name, all.iter().map(String::as_str));
            let near = match near.is_empty() {
                true => all,
                false => near.into_iter().map(str::to_owned).collect(),
            };
            return Err(nothing_matches(
                &format!("term or event of {}", self.name),
                name,
                near,
            ));
        };
        if let Some(there) = config.words.get_mut(word) {
            *there |= bits;
        }
        Ok(())
    }

    /// Scale and unit of an event's counts.
    fn scale(&self, event: &str) -> Option<Scale> {
        let scale = self.read(&format!("events/{event}.scale"));
        let unit = self.read(&format!("events/{event}.unit")).unwrap_or_default();
        let by = scale.and_then(|text| text.parse().ok()).unwrap_or(1.0);
        (by != 1.0 || !unit.is_empty()).then_some(Scale { by, unit })
    }
}

/// Which word a value goes into, and its bits there: `config:0-7,32-35` has its low eight bits first.
fn place(value: u64, format: &str) -> Option<(usize, u64)> {
    let (word, ranges) = format.split_once(':')?;
    let word = WORDS.iter().position(|known| *known == word)?;
    let (mut left, mut bits) = (value, 0u64);
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last > 63 || first > last {
            return None;
        }
        let width = last - first + 1;
        let mask = u64::MAX >> (64 - width);
        bits |= (left & mask) << first;
        left = left.checked_shr(width).unwrap_or(0);
    }
    (left == 0).then_some((word, bits))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn names(host: &Host, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(host.path(folder))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.contains('.')).collect();
    names.sort_unstable();
    names
}

fn no_unit(name: &str, host: &Host) -> Error {
    let names = names(host, UNITS);
    let near = nearest(name, names.iter().map(String::as_str));
    nothing_matches(
        "unit of counters",
        name,
        near.into_iter().map(str::to_owned).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with a processor's unit and one for power.
    fn machine() -> (tempfile::TempDir, Host) {
        let tree = tempfile::tempdir().unwrap();
        let files = [
            ("cpu/type", "4\n"),
            ("cpu/format/event", "config:0-7,32-35\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/format/edge", "config:18\n"),
            ("cpu/format/ldlat", "config1:0-15\n"),
            ("cpu/events/cpu-cycles", "event=0x3c\n"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
            ("power/type", "12\n"),
            ("power/cpumask", "0,2\n"),
            ("power/format/event", "config:0-7\n"),
            ("power/events/energy-pkg", "event=0x02\n"),
            ("power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
            ("power/events/energy-pkg.unit", "Joules\n"),
        ];
        for (path, text) in files {
            let path = tree.path().join(UNITS.trim_start_matches('/')).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let host = Host::new(tree.path());
        (tree, host)
    }

    #[test]
    fn terms_are_put_where_the_unit_says() {
        let (_tree, host) = machine();
        let words = |text: &str| {
            let counter = find(text, &host).unwrap().unwrap().counter;
            (counter.kind, counter.config, counter.config1)
        };
        for (text, expected) in [
            ("cpu/event=0x3c,umask=0/", (4, 0x3c, 0)),
            ("cpu/event=0x13c,umask=2,edge/", (4, 0x1_0004_023c, 0)),
            ("cpu/cpu-cycles/", (4, 0x3c, 0)),
            ("cpu/mem-loads,ldlat=4/u", (4, 0x1cd, 7)),
            ("cpu/config=0xff,config1=0x10/", (4, 0xff, 0x10)),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        let power = find("power/energy-pkg/", &host).unwrap().unwrap();
        assert_eq!(power.scale.unwrap().unit, "Joules");
        assert_eq!(power.cpus.unwrap().iter().collect::<Vec<_>>(), [0, 2]);
        assert!(!find("cpu/cpu-cycles/u", &host).unwrap().unwrap().levels.kernel);
        for other in ["sched:sched_switch /pid == 1/", "cycles", "cycles /pid == 1/"] {
            assert_eq!(find(other, &host).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn absent_counters_and_their_wrong_terms_are_refused() {
        let (_tree, host) = machine();
        for (text, why) in [
            ("cpux/event=1/", "cpu"),
            ("cpu/evnt=1/", "event"),
            ("cpu/event=1x/", "event=NUMBER"),
            ("cpu/event=0x10000/", "event"),
            ("cpu/cpu-cycle/", "cpu-cycles"),
            ("cpu/cpu-cycles/x", "NAME:u"),
        ] {
            let error = find(text, &host).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
