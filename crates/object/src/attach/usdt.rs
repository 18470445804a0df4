//! USDT probes of programs and libraries: found by their notes, attached one by one, with what programs need to read their arguments.
//!
//! The notes are those of SystemTap's `sys/sdt.h`; the map of argument specifications is that of libbpf's `usdt.bpf.h`, whose programs find their
//! entry by the attach cookie.

use super::request::{AttachRequest, Binding};
use crate::map::BpfMap;
use kestrel_catalog::Result;
use kestrel_catalog::attach::{Links, UserPlaces};
use kestrel_catalog::executable::{self, Argument, ArgumentPlace, UsdtProbe, arguments};
use kestrel_kernel::bpf::{Program, ProgramKind, ValueCheck};
use kestrel_kernel::perf::UprobePlace;
use std::path::Path;

/// `libc:setjmp` of `/lib/libc.so.6:libc:setjmp`.
fn split<'r>(request: &'r AttachRequest<'_>) -> Result<(String, &'r str, &'r str)> {
    let target = request.target()?;
    let mut parts = target.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(provider), Some(name)) if !provider.is_empty() && !name.is_empty() => {
            Ok((executable::find(file)?.display().to_string(), provider, name))
        }
        _ => Err(request.wrong(format!("`{target}` does not name a probe: FILE:PROVIDER:NAME"))),
    }
}

fn probes(request: &AttachRequest<'_>) -> Result<(String, Vec<UsdtProbe>)> {
    let (path, provider, name) = split(request)?;
    let file = request.kernel.known.executables().get(Path::new(&path))?;
    let found = file.usdt_probes_named(provider, name)?;
    Ok((path, found))
}

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    for probe in &probes(request)?.1 {
        specification(&probe.arguments).map_err(|why| request.wrong(why))?;
    }
    Ok(Binding::default())
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let (path, probes) = probes(request)?;
    let map = request.maps.iter().find(|map| map.name() == SPECIFICATIONS);
    let mut places = Vec::new();
    for probe in &probes {
        let specification = specification(&probe.arguments).map_err(|why| request.wrong(why))?;
        let cookie = match map {
            Some(map) => enter(request, map, &specification)?,
            None => 0,
        };
        places.push(UprobePlace {
            offset: probe.offset,
            semaphore: probe.semaphore,
            cookie,
        });
    }
    let all = UserPlaces {
        path: &path,
        places: &places,
        at_return: false,
    };
    all.attach(kind, program, request.kernel.host())
}

/// The array of specifications that libbpf's programs look into; their number is the attach cookie.
const SPECIFICATIONS: &str = "__bpf_usdt_specs";
/// The element: 12 arguments of 16 bytes, a cookie for users, the count of arguments, padding.
const ELEMENT: usize = 208;
const MAX_ARGUMENTS: usize = 12;
const COUNT_AT: usize = 200;
/// A byte of the padding: the element is in use. libbpf's programs do not read it.
const USED_AT: usize = 202;

/// The number of an element with this specification: one that is there, or the first free one.
fn enter(request: &AttachRequest<'_>, map: &BpfMap, specification: &[u8; ELEMENT]) -> Result<u64> {
    if map.info().value_size as usize != ELEMENT {
        return Err(request.wrong(format!(
            "the elements of {SPECIFICATIONS} have {} bytes, not {ELEMENT}: it is another library's",
            map.info().value_size
        )));
    }
    for number in 0..map.info().entries {
        let there = map.lookup(&number.to_ne_bytes())?.unwrap_or_default();
        if there == specification {
            return Ok(number.into());
        }
        if there.get(USED_AT) == Some(&0) {
            map.update(&number.to_ne_bytes(), specification, ValueCheck::Any)?;
            return Ok(number.into());
        }
    }
    Err(request.wrong(format!(
        "the probes have more than {} different ways to find their arguments (BPF_USDT_MAX_SPEC_CNT)",
        map.info().entries
    )))
}

/// The element of the map for a probe's arguments, as its note writes them: `-4@%edi 8@-16(%rbp)`.
fn specification(text: &str) -> std::result::Result<[u8; ELEMENT], String> {
    let mut element = [0; ELEMENT];
    let mut count = 0usize;
    for argument in arguments(text)? {
        let Argument { size, signed, place } = argument;
        let room = element
            .get_mut(count * 16..count * 16 + 16)
            .filter(|_| count < MAX_ARGUMENTS);
        let room = room.ok_or_else(|| format!("the probe has more than {MAX_ARGUMENTS} arguments"))?;
        let (value, how, register) = match place {
            ArgumentPlace::Constant(value) => (value, 0, 0),
            ArgumentPlace::Register(register) => (0, 1, register),
            ArgumentPlace::Memory { register, offset } => (offset, 2, register),
            // Base, index and the logarithm of the scale: libbpf 1.7 and later.
            ArgumentPlace::Indexed {
                register,
                index,
                scale,
                offset,
            } => (offset, 3 | index << 8 | scale << 20, register),
        };
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.extend(how.to_le_bytes());
        bytes.extend((register as u16).to_le_bytes());
        // The program reads 8 bytes and shifts the argument out of them, with its sign.
        bytes.push(u8::from(signed));
        bytes.push(64 - 8 * size);
        room.copy_from_slice(&bytes);
        count += 1;
    }
    if let Some(byte) = element.get_mut(COUNT_AT) {
        *byte = count as u8;
    }
    if let Some(byte) = element.get_mut(USED_AT) {
        *byte = 1;
    }
    Ok(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_map() {
        let element = specification("-4@%edi 8@$7").unwrap();
        assert_eq!(element[..16], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 112, 0, 1, 32]);
        assert_eq!(element[16..32], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(element[200..204], [2, 0, 1, 0]);
        assert!(specification("3@%edi").is_err());
        assert!(specification(&"8@%rax ".repeat(13)).is_err());
        assert_ne!(
            specification("").unwrap(),
            [0; ELEMENT],
            "an element in use is not taken for a free one"
        );
    }
}
