//! Status of named probes: hits, what was missed or lost, and what the kernel's own list says of the places where they sit.

use crate::session::missed::Misses;
use crate::session::pinned::PinnedSession;
use crate::session::pins;
use crate::session::state::{HookState, Instruction, ProbeState, SiteState};
use kestrel_catalog::Result;
use kestrel_hook::buffer::Buffer;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::Pinned;
use kestrel_kernel::kprobes::{self, Listed};
use serde::{Serialize, Serializer};

/// A named probe as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The probe's name.
    pub name: String,
    /// The number in its session.
    #[serde(skip)]
    pub number: u32,
    /// The text of the probe.
    pub source: String,
    /// The line of the kernel's own syntax that it was made of.
    pub line: Option<String>,
    /// When it was added: ns since 1970.
    pub added: u64,
    /// Whether it is enabled itself; the global switch is another thing.
    pub enabled: bool,
    /// Events that reached its handler while it was enabled, before any predicate.
    pub hits: u64,
    /// Hits that the kernel dropped: the program, or one sharing its guard, was running already on that CPU; no room for one more return.
    pub missed: u64,
    /// Whether this kernel reports all of those (before Linux 6.7 a kprobe's link does not say).
    pub missed_known: bool,
    /// Records kept, in buffers that count them (those that overwrite).
    pub kept: u64,
    /// Records lost: a ring was full, or frozen.
    pub lost: u64,
    /// The events that the probe is attached to.
    pub sites: Vec<Site>,
}

/// An event of a named probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Name of the event.
    pub event: String,
    /// `k`, `j` or `r` as in the kernel's list; `t` for tracepoints, `f` for trampolines.
    pub letter: char,
    /// Where in the kernel; 0 where it has no place, or that is hidden.
    pub address: u64,
    /// The function that the place is in.
    pub symbol: Option<String>,
    /// Bytes into it.
    pub offset: u32,
    /// The function's module.
    pub module: Option<String>,
    /// The instruction that it is about, where the hook sits elsewhere: the place of a `:post` or a `:fault`.
    pub about: Option<Instruction>,
    /// Where the kernel's list has it; 0 where it does not.
    pub listed: u64,
    /// Flags of the kernel's list.
    pub flags: Flags,
}

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        /// A place in the kernel's code; addresses in hexadecimal, none where they are hidden.
        #[derive(Serialize)]
        struct KernelPlace<'a> {
            address: Option<String>,
            symbol: Option<&'a str>,
            offset: u64,
            module: Option<&'a str>,
        }
        /// The instruction that the event is about, and where its hook sits if that is elsewhere.
        #[derive(Serialize)]
        struct View<'a> {
            event: &'a str,
            r#type: char,
            #[serde(flatten)]
            flags: Flags,
            #[serde(flatten)]
            place: KernelPlace<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            phase: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            hook: Option<KernelPlace<'a>>,
        }
        let address = |address: u64| (address != 0).then(|| format!("{address:#x}"));
        let own = KernelPlace {
            address: address(self.address),
            symbol: self.symbol.as_deref(),
            offset: self.offset.into(),
            module: self.module.as_deref(),
        };
        // A `:post` sits behind the instruction that it is about, and users ask for that one.
        let (place, hook) = match &self.about {
            None => (own, None),
            Some(about) => {
                let place = KernelPlace {
                    address: address(about.address),
                    symbol: Some(&about.symbol),
                    offset: about.offset,
                    module: about.module.as_deref(),
                };
                (place, Some(own))
            }
        };
        let view = View {
            event: &self.event,
            r#type: self.letter,
            flags: self.flags,
            place,
            phase: self.about.as_ref().map(|about| about.phase.as_str()),
            hook,
        };
        view.serialize(to)
    }
}

/// Flags of a kprobe in the kernel's own list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flags {
    /// The module was unloaded.
    pub gone: bool,
    /// Of several probes at this place some are gone: maybe this one, or it is [`Self::gone`]. The kernel's list does not say whose they are.
    pub maybe_gone: bool,
    /// The probe jumps instead of trapping.
    pub optimized: bool,
    /// Whether the probe uses the function's ftrace site.
    pub ftrace: bool,
    /// The module is not loaded yet: the kernel attaches it when that comes.
    pub awaited: bool,
}

impl PinnedSession {
    /// The named probes, in the order in which they came. Without debugfs nothing is known of the flags.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn probes(&self, host: &Host) -> Result<Vec<Probe>> {
        let state = &self.state.probes;
        if state.each.is_empty() {
            return Ok(Vec::new());
        }
        let listed = kprobes::list(host).unwrap_or_default();
        let buffers = self.buffers()?;
        let hits = self.map(pins::HITS)?;
        let misses = Misses::new(&self.host);
        let mut missed = Vec::new();
        for hook in self.state.hooks.iter().filter(|hook| hook.probe.is_some()) {
            // Before the hits: where the kernel's memory is read, that hits some probes itself.
            missed.push((hook, self.misses_of(hook, &misses)));
        }
        let probe = |probe: &ProbeState| {
            let element = hits.lookup(&probe.place.to_ne_bytes())?.unwrap_or_default();
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
            let mut now = Probe {
                name: probe.name.clone(),
                number: probe.number,
                source: probe.source.clone(),
                line: probe.line.clone(),
                added: probe.added,
                enabled: self.control.probe(probe.place).number() == probe.number,
                hits: hits.cpu_values(&element).map(word).sum(),
                missed_known: true,
                sites: probe
                    .sites
                    .iter()
                    .map(|site| awaited(of(site, &listed), host))
                    .collect(),
                ..Probe::default()
            };
            for (hook, missed) in missed.iter().filter(|(h, _)| h.probe == Some(probe.number)) {
                now.missed += missed;
                now.missed_known &= self.counts_misses(hook, &misses);
                for (kept, lost) in counted(hook, &buffers) {
                    now.kept += kept;
                    now.lost += lost;
                }
            }
            now.kept = now.kept.saturating_sub(probe.before.0);
            now.lost = now.lost.saturating_sub(probe.before.1);
            Ok(now)
        };
        state.each.iter().map(probe).collect()
    }

    /// Events that the session keeps in `kprobe_events` of tracefs, by the names of its own: while they are there, the kernel refuses to empty that file.
    pub fn tracefs_events(&self) -> Vec<String> {
        let hooks = self.state.hooks.iter().filter(|hook| !hook.own_events.is_empty());
        let name = |hook: &HookState| {
            let own = self
                .state
                .probes
                .each
                .iter()
                .find(|probe| Some(probe.number) == hook.probe);
            let event = || hook.events.first().map(|event| event.name.clone());
            own.map(|probe| probe.name.clone()).or_else(event)
        };
        let mut names: Vec<String> = hooks.filter_map(name).collect();
        names.dedup();
        names
    }

    /// The kernel's numbers of the programs of each named probe, by its number.
    pub fn probe_programs(&self) -> Vec<(u32, u32)> {
        let hooks = self.state.hooks.iter();
        let of = |hook: &HookState| {
            let programs = (0..hook.links).filter_map(|link| {
                match self.directory.open(&pins::link(hook.number, link)).ok()? {
                    Pinned::Link(link) => Some(link.info().ok()?.program),
                    _ => None,
                }
            });
            let mut programs: Vec<u32> = programs.collect();
            programs.dedup();
            programs
        };
        hooks
            .filter_map(|hook| Some((hook.probe?, of(hook))))
            .flat_map(|(probe, programs)| programs.into_iter().map(move |program| (probe, program)))
            .collect()
    }

    /// Whether a hook is a named probe's that works now.
    pub(in crate::session) fn works(&self, hook: &HookState) -> bool {
        let probes = &mut self.state.probes.each.iter();
        let own = probes.find(|probe| Some(probe.number) == hook.probe);
        own.is_some_and(|own| self.probes_on() && self.control.probe(own.place).number() == own.number)
    }

    /// Whether named probes work that are enabled themselves.
    pub fn probes_on(&self) -> bool {
        self.control.probes_on()
    }
}

/// Records kept and lost under a hook's numbers, event by event.
pub(super) fn counted(hook: &HookState, buffers: &[Buffer]) -> Vec<(u64, u64)> {
    let Some(program) = hook.programs.first() else {
        return Vec::new();
    };
    let records: u32 = program.rows.iter().map(|row| u32::from(row.records)).sum();
    let stride = u32::from(program.records);
    let of = |event: u32| {
        let first = u32::from(program.first) + event * stride;
        let numbers = (first..first + records).filter_map(|number| u16::try_from(number).ok());
        let each = numbers.flat_map(|number| {
            let has_room = move |buffer: &&Buffer| u32::from(number) < buffer.ring().geometry().events;
            let cpus = |buffer: &'_ Buffer| buffer.ring().cpus();
            let rings = buffers.iter().filter(has_room);
            rings.flat_map(move |buffer| cpus(buffer).map(move |cpu| buffer.counts(cpu, number)))
        });
        each.fold((0, 0), |sum, counts| {
            (sum.0 + counts.recorded, sum.1 + counts.lost)
        })
    };
    (0..hook.events.len() as u32).map(of).collect()
}

/// Says of a site that the kernel does not list whether its module is not there.
fn awaited(mut site: Site, host: &Host) -> Site {
    if let ("kprobe" | "kretprobe", Some((module, _))) = (
        site.event.split(':').next().unwrap_or_default(),
        site.event
            .split_once(':')
            .and_then(|(_, place)| place.split_once(':')),
    ) && site.listed == 0
        && site.address == 0
    {
        site.flags.awaited = !host.path(format!("/sys/module/{module}")).exists();
    }
    site
}

/// A site with what the kernel's list says of it.
fn of(site: &SiteState, listed: &[Listed]) -> Site {
    let letter = match site.letter {
        'j' => 'k',
        letter => letter,
    };
    let here = |probe: &&Listed| {
        probe.letter == letter
            && (site.address != 0 && probe.address == site.address
                // An entry may be listed behind its `endbr64`.
                || site.offset == 0
                    && probe.offset <= 4
                    && site.symbol.as_deref() == Some(&probe.symbol)
                    && (site.address == 0 || probe.address.wrapping_sub(site.address) <= 4))
    };
    // Several probes may be at one place: some of a module that went, some that were attached when it was back.
    let (gone, live): (Vec<_>, Vec<_>) = listed.iter().filter(here).partition(|probe| probe.gone);
    let found = live.first().or(gone.first());
    let flags = found.map_or_else(Flags::default, |probe| Flags {
        gone: probe.gone,
        maybe_gone: !gone.is_empty(),
        optimized: probe.optimized,
        ftrace: probe.ftrace,
        awaited: false,
    });
    Site {
        event: site.event.clone(),
        letter: site.letter,
        address: site.address,
        symbol: site.symbol.clone(),
        offset: site.offset,
        module: site.module.clone(),
        about: site.about.clone(),
        listed: found.map_or(0, |probe| probe.address),
        flags,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_found_in_the_kernels_list() {
        let listed = |address, letter, symbol: &str, offset| Listed {
            address,
            letter,
            symbol: symbol.to_owned(),
            offset,
            module: None,
            gone: symbol.starts_with("0x"),
            disabled: false,
            optimized: letter == 'r',
            ftrace: offset == 4,
        };
        let listed = [
            listed(0xffff_ffff_8100_0104, 'k', "f", 4),
            listed(0xffff_ffff_8100_0100, 'r', "f", 0),
            listed(0xffff_ffff_c000_0010, 'k', "0xffffffffc0000010", 0),
        ];
        let site = |letter, address, symbol: &str| SiteState {
            letter,
            address,
            symbol: Some(symbol.to_owned()),
            ..SiteState::default()
        };
        assert!(of(&site('k', 0xffff_ffff_8100_0100, "f"), &listed).flags.ftrace);
        assert!(of(&site('j', 0xffff_ffff_8100_0104, "f"), &listed).flags.ftrace);
        assert!(
            of(&site('r', 0xffff_ffff_8100_0100, "f"), &listed)
                .flags
                .optimized
        );
        assert!(of(&site('k', 0xffff_ffff_c000_0010, "g"), &listed).flags.gone);
        let elsewhere = of(&site('k', 0xffff_ffff_8100_0200, "f"), &listed);
        assert_eq!(elsewhere.flags, Flags::default(), "another function of the name");
    }
}
