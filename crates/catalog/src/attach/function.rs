//! Functions by kprobe or kretprobe: all of them by one multi link, or one link each where the kernel has no multi links.

use super::detach::close_many;
use super::family::{Attach, Events, Profile, Runner, Sections};
use super::kprobe::{self, Kprobe};
use super::links::Links;
use super::site::Sites;
use crate::code::{Code, CodeCache, LocationSpec};
use crate::error::{Error, Result};
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{KprobeMulti, KprobeTargets, Link, Program, ProgramKind};
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::tracefs::TraceableFunction;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// Functions by kprobe: one perf link each, or, unless each is to stand `alone`, one multi link for all. Of a multi link handlers see fewer
/// registers. `maxactive` calls of a function can be on their way when its return is probed; the kernel's default number without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Functions {
    pub at_return: bool,
    pub alone: bool,
    pub maxactive: Option<u32>,
}

/// A function's entry hooked by a multi link, which costs less than a kprobe; handlers see fewer registers. Where the kernel has no multi links, by kprobe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Entry {
    pub symbol: String,
}

impl Attach for Functions {
    fn program_kinds(&self, events: usize) -> Result<Vec<ProgramKind>> {
        Ok(match events > 1 && !self.alone {
            true => vec![ProgramKind::KprobeMulti, ProgramKind::Kprobe],
            false => vec![ProgramKind::Kprobe],
        })
    }

    fn descriptors(&self, events: u64, _cpus: u64) -> u64 {
        2 * events
    }

    fn profile(&self) -> Profile {
        Profile {
            letter: if self.at_return { 'r' } else { 'k' },
            maxactive: self.maxactive,
            joins: self.maxactive.is_none(),
            // Whether functions have one link, or one each, is known only when they are attached.
            loads_ahead: false,
            ..kprobe::PROFILE
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Functions
    }

    fn describe(&self, _reads: &str) -> String {
        match (self.at_return, self.maxactive) {
            (false, _) => "kprobe".to_owned(),
            (true, None) => "kretprobe".to_owned(),
            (true, Some(calls)) => format!("kretprobe, {calls} calls at once"),
        }
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let mut links = Links::default();
        for program in programs {
            match kind {
                ProgramKind::KprobeMulti | ProgramKind::KprobeSession => {
                    links.links.push(self.multi(kind, program, events)?);
                }
                _ => self.one_by_one(&mut links, program, events)?,
            }
        }
        Ok(links)
    }
}

impl Functions {
    /// If one fails, those before it are detached in the background: the error is reported at once.
    fn one_by_one(&self, links: &mut Links, program: &Program, events: &Events<'_>) -> Result<()> {
        for (cookie, symbol) in (0..).zip(events.names) {
            let kprobe = Kprobe {
                at_return: self.at_return,
                maxactive: self.maxactive,
                cookie,
                ..Kprobe::at(symbol, 0)
            };
            if let Err(error) = links.kprobe(program, &kprobe, events.known) {
                if links.events.is_empty() {
                    close_many(events.known.host(), std::mem::take(links).into_files().collect());
                }
                return Err(explain(events.known, symbol, error));
            }
        }
        Ok(())
    }

    /// One link for all; the error says which function the kernel refuses, and why, as far as the kernel says.
    fn multi(&self, kind: ProgramKind, program: &Program, events: &Events<'_>) -> Result<Link> {
        let (known, symbols) = (events.known, events.names);
        let cookies: Vec<u64> = (0..symbols.len() as u64).collect();
        let attach = |targets: KprobeTargets<'_>, cookies: &[u64]| {
            let multi = KprobeMulti {
                targets,
                cookies,
                at_return: self.at_return,
                session: kind == ProgramKind::KprobeSession,
            };
            Link::kprobe_multi(program, &multi)
        };
        // The kernel finds names in one pass over its symbols, which is quicker than reading all of them here.
        match attach(KprobeTargets::Symbols(symbols), &cookies) {
            // It takes functions that share a name by address alone.
            Err(error) if says_which(&error) => {
                let found = entries(known, symbols, &cookies).unwrap_or_default();
                let missing = symbols
                    .iter()
                    .zip(&cookies)
                    .find(|(_, cookie)| !found.iter().any(|(_, at)| at == *cookie));
                if let Some((symbol, _)) = missing {
                    return Err(explain(known, symbol, error.into()));
                }
                let (addresses, at): (Vec<u64>, Vec<u64>) = found.into_iter().unzip();
                attach(KprobeTargets::Addresses(&addresses), &at).map_err(|error| {
                    let refused = |range: Range<usize>| {
                        attach(KprobeTargets::Addresses(&addresses[range.clone()]), &at[range]).is_err()
                    };
                    let place = first_refused(addresses.len(), &refused);
                    let symbol = place.and_then(|place| symbols.get(at[place] as usize));
                    let error = Error::from(error);
                    match symbol {
                        Some(symbol) => explain(known, symbol, error),
                        None => error,
                    }
                })
            }
            attached => Ok(attached?),
        }
    }
}

impl Attach for Entry {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::KprobeMulti, ProgramKind::Kprobe])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        2
    }

    fn profile(&self) -> Profile {
        Profile {
            // A program for a function means that function, and not a tracepoint's event that is seen there.
            sections: Sections {
                hooks: &[],
                written: "SEC(\"raw_tp\"), SEC(\"tp_btf\") or SEC(\"tp\")",
                loadable: None,
            },
            letter: 't',
            // The tracepoint comes before the function: two hooks that each look at the active word could both take a hit, or both leave it.
            relays: false,
            ..kprobe::PROFILE
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        // System calls are in no module.
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        format!("kprobe at {}", self.symbol)
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let mut links = Links::default();
        for program in programs {
            if kind == ProgramKind::KprobeMulti {
                let multi = KprobeMulti {
                    targets: KprobeTargets::Symbols(&[&self.symbol]),
                    cookies: &[],
                    at_return: false,
                    session: false,
                };
                links.links.push(Link::kprobe_multi(program, &multi)?);
            } else {
                links.kprobe_at(program, (&self.symbol, 0), (false, None), events.known)?;
            }
        }
        Ok(links)
    }
}

/// Why the kernel refuses a function, as far as its code shows: the errno is `EINVAL` for many reasons.
fn explain(known: &CodeCache, symbol: &str, error: Error) -> Error {
    let wanted = LocationSpec::Symbol {
        module: None,
        symbol: symbol.to_owned(),
        offset: None,
    };
    match Code::new(known).and_then(|code| code.probeable(&wanted)) {
        Err(why @ Error::NoPlace { .. }) => why,
        _ => error,
    }
}

/// Whether the kernel's refusal is about one of the functions rather than about links to many.
fn says_which(error: &kestrel_kernel::Error) -> bool {
    matches!(
        error.errno(),
        Some(Errno::ESRCH | Errno::EADDRNOTAVAIL | Errno::ENOENT)
    )
}

/// Index of the first refused function of `count`, found by trying ranges: a refusal of many does not name the function.
fn first_refused(count: usize, refused: &dyn Fn(Range<usize>) -> bool) -> Option<usize> {
    let mut range = 0..count;
    if count == 0 {
        return None;
    }
    while range.len() > 1 {
        let middle = range.start + range.len() / 2;
        range = if refused(range.start..middle) {
            range.start..middle
        } else {
            middle..range.end
        };
    }
    refused(range.clone()).then_some(range.start)
}

/// Addresses and cookies of functions; several for a name that several functions bear. ftrace lists the address of its call, which
/// may be behind an `endbr64`; the kernel finds a cookie by the function's own address (`bpf_kprobe_multi_cookie`), so the
/// symbol before each place is taken.
fn entries(known: &CodeCache, symbols: &[&str], cookies: &[u64]) -> Result<Vec<(u64, u64)>> {
    let places = known.tracefs()?.traceable_functions_with_addresses()?;
    let table = Kallsyms::read(known.host())?;
    let wanted: HashMap<&str, u64> = symbols.iter().copied().zip(cookies.iter().copied()).collect();
    let entry = |f: &TraceableFunction| {
        let cookie = *wanted.get(f.name.as_str())?;
        let (symbol, _) = table.at(f.address?)?;
        Some((symbol.address, cookie))
    };
    Ok(places.iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_one_is_found() {
        for bad in 0..9 {
            assert_eq!(first_refused(9, &|range| range.contains(&bad)), Some(bad));
        }
        assert_eq!(
            first_refused(9, &|range| range.contains(&3) || range.contains(&7)),
            Some(3)
        );
        assert_eq!(first_refused(1, &|_| true), Some(0));
        assert_eq!(first_refused(5, &|_| false), None);
        assert_eq!(first_refused(0, &|_| true), None);
    }
}
