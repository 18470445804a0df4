//! USDT probes of programs and libraries: `usdt:PATH:GROUP:NAME`, `usdt:PATH:NAME`, with patterns for either.
//!
//! A probe's note says how large its arguments are and where. Events of kestrel-tracepoint say more in a note beside it: their fields and how they are printed. The probe's one
//! register points to a word for each of these.

use super::glob::Glob;
use super::kind::{DescribedField, Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use super::spec::text_of;
use super::uprobe::UPROBE;
use super::user_files::files;
use crate::arch;
use crate::attach::{self, Mechanism};
use crate::error::{Error, Result};
use crate::executable::{
    self, Argument, ArgumentPlace, Executable, UsdtFieldKind, UsdtProbe, UsdtProbes, arguments,
};
use kestrel_compiler::context::{Context, EventField, EventNumber, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind;
use kestrel_trace::layout::Base;
use kestrel_trace::print::OwnFormat;

const NAME: &str = event_kind::USDT.name;
/// The register that points to the words of an event which says its fields, and how many these are at most.
const REGISTER: &str = "rax";
const WORDS: u32 = 32;
/// Most bytes of a field of bytes.
const MAX_BYTES: u32 = 255;

/// The kind `usdt`.
#[derive(Debug)]
pub(super) struct Usdt;

const ROW: KindRow = KindRow {
    // There are as many as there are files.
    listed: false,
    ..KindRow::new(event_kind::USDT, 3)
};

/// Parts of an event's name.
fn parse_pattern(spec: &EventSpec) -> Result<(&str, Glob, Glob)> {
    let parts: Vec<&str> = spec.parts.iter().map(|part| part.text.as_str()).collect();
    let has_offset = spec.parts.iter().any(|part| part.offset.is_some());
    match parts.as_slice() {
        [_, path, provider, name] if !has_offset => {
            let provider = if provider.is_empty() { "*" } else { provider };
            Ok((path, Glob::new(provider), Glob::new(*name)))
        }
        [_, path, name] if !has_offset => Ok((path, Glob::new("*"), Glob::new(*name))),
        _ => Err(Error::wrong_shape(spec, "usdt:PATH:GROUP:NAME or usdt:PATH:NAME")),
    }
}

/// Names of a file's probes that match.
fn matching(probes: &UsdtProbes, provider: &Glob, name: &Glob) -> Vec<(String, String)> {
    let named = probes
        .names()
        .filter(|(p, n)| provider.matches(p) && name.matches(n));
    named.map(|(p, n)| (p.to_owned(), n.to_owned())).collect()
}

impl EventKind for Usdt {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let any = Glob::new("*");
        let (path, provider, name) = match patterns {
            [path, provider, name] => (path, provider, name),
            [path, name] => (path, &any, name),
            // Those that a process runs; of all files there are too many.
            [] if catalog.script().is_some_and(|view| view.process.is_some()) => (&any, &any, &any),
            _ => return Ok(()),
        };
        for path in files(catalog, all_files(path.text()))? {
            // Of many files most have no probes.
            let file = catalog.executables().get(path.as_ref());
            let Ok(probes) = file.and_then(|file| file.usdt_probes()) else {
                continue;
            };
            for (provider, name) in matching(&probes, provider, name) {
                found(&format!("{path}:{provider}:{name}"));
            }
        }
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        let mut parts = name.rsplitn(3, ':');
        let (Some(name), Some(provider), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(Description::default());
        };
        let file = catalog.executables().get(path.as_ref())?;
        let probes = file.usdt_probes()?;
        let fields = match probes.description(provider, name) {
            Some(description) => description
                .fields
                .iter()
                .map(|field| DescribedField {
                    name: field.name.clone(),
                    ty: match field.kind {
                        UsdtFieldKind::String | UsdtFieldKind::Bytes => format!("{}[]", field.c_type),
                        UsdtFieldKind::Text { size: count } | UsdtFieldKind::Array { count, .. } => {
                            format!("{}[{count}]", field.c_type)
                        }
                        _ => field.c_type.clone(),
                    },
                })
                .collect(),
            // Without a description only the assembler's operands are known: how wide an argument is, not its name. The first place stands for all.
            None => {
                let first = probes.named(provider, name).next();
                let arguments = first.and_then(|probe| arguments(&probe.arguments).ok());
                let described = |(at, Argument { size, signed, .. }): (usize, Argument)| DescribedField {
                    name: format!("arg{at}"),
                    ty: format!("{}{}", if signed { "s" } else { "u" }, size * 8),
                };
                arguments
                    .unwrap_or_default()
                    .into_iter()
                    .enumerate()
                    .map(described)
                    .collect()
            }
        };
        Ok(Description {
            fields,
            returns: None,
        })
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let (path, provider, name) = parse_pattern(spec)?;
        let is_unnamed = path.is_empty() && catalog.script().is_some_and(|view| view.process.is_none());
        if is_unnamed {
            return Err(Error::wrong_shape(
                spec,
                "usdt:PATH:GROUP:NAME or, for the files of all processes, usdt:*:GROUP:NAME",
            ));
        }
        let path = all_files(path);
        let is_pattern = !Glob::new(path).is_plain();
        let mut all = Vec::new();
        let files = files(catalog, path)?;
        for path in &files {
            match in_file(catalog, path, (&provider, &name), spec) {
                Ok(found) => all.extend(found),
                // Of many files some do not have it.
                Err(_) if is_pattern => {}
                Err(error) => return Err(error),
            }
        }
        match all.is_empty() {
            true => Err(Error::NoSuchEvent {
                what: format!("USDT probe in any of the {} files that are meant,", files.len()),
                wanted: text_of(spec),
                near: Vec::new(),
            }),
            false => Ok(all),
        }
    }
}

/// Pattern for files: no path stands for all: all files that the process runs.
fn all_files(path: &str) -> &str {
    if path.is_empty() { "*" } else { path }
}

/// The probes of one file that match.
fn in_file(
    catalog: &Catalog,
    path: &str,
    (provider, name): (&Glob, &Glob),
    spec: &EventSpec,
) -> Result<Vec<Resolved>> {
    let file = catalog.executables().get(path.as_ref())?;
    let probes = file.usdt_probes()?;
    let names = matching(&probes, provider, name);
    if names.is_empty() {
        let text = format!("{}:{}", provider.text(), name.text());
        return Err(file.no_usdt_probe(&probes, &text));
    }
    let mut all = Vec::new();
    for (provider, name) in &names {
        // Arguments may lie elsewhere at each place.
        let mut alike: Vec<&UsdtProbe> = Vec::new();
        for probe in probes.named(provider, name) {
            if !alike.iter().any(|known| known.arguments == probe.arguments) {
                alike.push(probe);
            }
        }
        for probe in alike {
            all.push(
                one(catalog, (&file, path), &probes, probe).map_err(|why| Error::Object {
                    object: text_of(spec),
                    why,
                })?,
            );
        }
    }
    Ok(all)
}

/// All places of a probe whose arguments lie as at this one.
fn one(
    catalog: &Catalog,
    (file, shown): (&Executable, &str),
    probes: &UsdtProbes,
    probe: &UsdtProbe,
) -> std::result::Result<Resolved, String> {
    let UsdtProbe { provider, name, .. } = probe;
    let path = file.path().display();
    let shown = format!("{NAME}:{shown}:{provider}:{name}");
    let description = probes.description(provider, name);
    let (fields, by_number) = match description {
        Some(description) => described(description)?,
        None => plain(&probe.arguments)?,
    };
    let context = Context {
        fields,
        arguments: by_number,
        ..UPROBE.context(catalog, shown.clone(), EventNumber::Constant(0))
    };
    Ok(Resolved {
        kind: NAME,
        instances: vec![Instance {
            symbol: Some(format!("{provider}:{name}")),
            // The mechanism attaches to all places with these arguments; the first one's offset stands for them.
            identity: Some(format!("{path}:{:#x}", probe.offset)),
            print: description.map(|description| OwnFormat {
                text: description.print.clone(),
                fields: description
                    .fields
                    .iter()
                    .map(|field| field.name.clone())
                    .collect(),
            }),
            ..Instance::named(shown)
        }],
        strategies: vec![Strategy::new(
            Mechanism::Usdt(attach::Usdt {
                path: file.path().to_owned(),
                provider: provider.clone(),
                name: name.clone(),
                arguments: probe.arguments.clone(),
            }),
            context,
        )],
        members: Vec::new(),
    })
}

fn integer(size: u8, signed: bool) -> ValueType {
    ValueType::Integer {
        size,
        signed,
        base: Base::Decimal,
    }
}

/// The fields of an event that says what they are, and its words by number.
fn described(
    description: &executable::Description,
) -> std::result::Result<(Vec<EventField>, Vec<Source>), String> {
    let register = (arch::current().operand)(REGISTER).ok_or_else(|| {
        format!("this processor has no register {REGISTER}, by which the event gives its fields")
    })?;
    let word = |at: u32, behind| Source::UserMemory {
        register,
        offset: i64::from(at) * 8,
        behind,
    };
    let mut at = 0;
    let mut fields = Vec::new();
    for field in &description.fields {
        let (ty, behind) = match field.kind {
            UsdtFieldKind::Integer { size, signed } => (integer(size, signed), false),
            UsdtFieldKind::Float => {
                let base = Base::Float;
                (
                    ValueType::Integer {
                        size: 8,
                        signed: false,
                        base,
                    },
                    false,
                )
            }
            UsdtFieldKind::Bool => (ValueType::Bool, false),
            UsdtFieldKind::Text { size } => (
                ValueType::Shorter {
                    max: size.saturating_sub(1).max(1),
                },
                true,
            ),
            UsdtFieldKind::String => (ValueType::String, true),
            UsdtFieldKind::Bytes => (ValueType::Memory { max: MAX_BYTES }, true),
            UsdtFieldKind::Array { size, signed, count } => {
                let element = Box::new(integer(size, signed));
                (ValueType::Array { element, count }, true)
            }
        };
        // A field behind the words that a probe carries is left out, with the reason; those before it are kept.
        let words = field.kind.words();
        let source = match at + words <= WORDS {
            false => Source::Absent {
                why: format!("a probe carries {WORDS} words, and it is not among them"),
                instead: None,
            },
            true if field.kind == UsdtFieldKind::Bytes => Source::Expression(format!(
                "buf(uptr(*(uint64 *)uptr(reg(\"{REGISTER}\") + {})), *(uint64 *)uptr(reg(\"{REGISTER}\") + {}), {MAX_BYTES})",
                at * 8,
                at * 8 + 8
            )),
            true => word(at, behind),
        };
        at += words;
        fields.push(EventField {
            name: field.name.clone(),
            ty,
            recorded: !matches!(source, Source::Absent { .. }),
            source,
        });
    }
    let by_number = (0..at.min(WORDS)).map(|at| word(at, false)).collect();
    Ok((fields, by_number))
}

/// An argument in an element of an array: the array's address and the index are in registers.
fn element(argument: &Argument, registers: [u32; 2], scale: u32, offset: i64) -> Source {
    let saved = arch::current().registers.iter();
    let [base, index] = registers.map(|at| {
        let found = saved.clone().find(|saved| saved.offset == at);
        found.map(|saved| saved.name)
    });
    let (Some(base), Some(index)) = (base, index) else {
        return Source::Absent {
            why: "no register of the probe has the address of the array that it is in".to_owned(),
            instead: None,
        };
    };
    let sign = if argument.signed { "" } else { "u" };
    let (operator, distance) = (if offset < 0 { "-" } else { "+" }, offset.unsigned_abs());
    Source::Expression(format!(
        "*({sign}int{} *)uptr(reg(\"{base}\") + reg(\"{index}\") * {} {operator} {distance})",
        argument.size * 8,
        1u32 << scale,
    ))
}

/// The arguments of a probe of which only the note knows: `arg0`, `arg1`, ….
fn plain(text: &str) -> std::result::Result<(Vec<EventField>, Vec<Source>), String> {
    let field = |(at, argument): (usize, Argument)| EventField {
        name: format!("arg{at}"),
        ty: integer(argument.size, argument.signed),
        source: match argument.place {
            ArgumentPlace::Constant(value) => Source::Expression(value.to_string()),
            ArgumentPlace::Register(offset) => Source::Register { offset },
            ArgumentPlace::Memory { register, offset } => Source::UserMemory {
                register,
                offset,
                behind: false,
            },
            ArgumentPlace::Indexed {
                register,
                index,
                scale,
                offset,
            } => element(&argument, [register, index], scale, offset),
        },
        recorded: true,
    };
    let all = arguments(text)?;
    let by_number = all.iter().enumerate().map(|(at, argument)| match argument.place {
        ArgumentPlace::Constant(value) => {
            let sign = if argument.signed { "" } else { "u" };
            Source::Expression(format!("({sign}int{})({value})", argument.size * 8))
        }
        // A rule that names a field cannot stand for one that is a rule itself.
        ArgumentPlace::Indexed {
            register,
            index,
            scale,
            offset,
        } => element(argument, [register, index], scale, offset),
        _ => Source::Expression(format!("args.arg{at}")),
    });
    let by_number = by_number.collect();
    Ok((all.into_iter().enumerate().map(field).collect(), by_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_elements_of_arrays_are_read_by_base_and_index() {
        let (fields, by_number) = plain("-4@-80(%rbp,%rax,8) 2@6(%rdi,%rsi)").unwrap();
        let read = |text: &str| Source::Expression(text.to_owned());
        assert_eq!(
            fields[0].source,
            read(r#"*(int32 *)uptr(reg("bp") + reg("ax") * 8 - 80)"#)
        );
        assert_eq!(
            fields[1].source,
            read(r#"*(uint16 *)uptr(reg("di") + reg("si") * 1 + 6)"#)
        );
        assert!(fields.iter().all(|field| field.recorded));
        // A rule that names such a field would need its own value.
        let sources: Vec<Source> = fields.into_iter().map(|field| field.source).collect();
        assert_eq!(by_number, sources);
    }
}
