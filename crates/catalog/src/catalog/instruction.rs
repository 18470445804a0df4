//! Single instructions by kprobe: `kprobe:vfs_read+0x12`, `kprobe:0xffffffff81234560`, `kprobe:xfs:xfs_file_open`; checked against the code.

use super::function::{FunctionProbe, KPROBE};
use super::glob::Glob;
use super::kind::{EventKind, Instance, Resolved, Strategy};
use super::lookup::Catalog;
use super::phase::Phase;
use super::spec::text_of;
use crate::attach::{self, Mechanism};
use crate::code::{Code, CodePlace, KERNEL, LocationSpec};
use crate::error::{Error, Result};
use kestrel_compiler::lang::ast::{EventPart, EventSpec};

/// The place that an event's name asks for: its parts behind the kind, those that ask for something else than a place left out. `None` where
/// it is a function of the kernel by its name, or a pattern.
///
/// # Errors
/// When it is neither.
pub(super) fn parse_location(kind: &str, spec: &EventSpec) -> Result<Option<LocationSpec>> {
    let (module, last) = match spec.parts.get(1..).unwrap_or_default() {
        [last] => (None, last),
        [module, last] => (Some(module), last),
        _ => return Err(wrong(kind, spec)),
    };
    let pattern = |part: &EventPart| part.text.contains(['*', '?', '[']);
    let plain = module.is_none() && last.offset.is_none();
    if plain && (pattern(last) || !last.text.starts_with(|c: char| c.is_ascii_digit())) {
        return Ok(None);
    }
    let patterns = pattern(last) || module.is_some_and(pattern);
    if module.is_some_and(|m| m.offset.is_none()) && patterns && last.offset.is_none() {
        return Ok(None);
    }
    if pattern(last) || module.is_some_and(|m| pattern(m) || m.offset.is_some()) {
        return Err(Error::WrongShape {
            wanted: text_of(spec),
            shape: format!("{kind}:FUNCTION+OFFSET or {kind}:MODULE:FUNCTION, without patterns"),
        });
    }
    let module = module.map(|module| module.text.as_str());
    LocationSpec::new(module, &last.text, last.offset)
        .map(Some)
        .ok_or_else(|| wrong(kind, spec))
}

fn wrong(kind: &str, spec: &EventSpec) -> Error {
    Error::WrongShape {
        wanted: text_of(spec),
        shape: format!(
            "{kind}:FUNCTION, {kind}:FUNCTION+OFFSET, {kind}:0xADDRESS, {kind}:MODULE:FUNCTION or {kind}:MODULE:FUNCTION+OFFSET"
        ),
    }
}

impl FunctionProbe {
    /// The instructions so far behind the beginnings of all functions that match, in a script: `kprobe:vfs_rea*+4`. Functions that have none there are passed over.
    /// `None` where it is no such pattern.
    ///
    /// # Errors
    /// When no function has one there: why not.
    pub(super) fn instructions(&self, catalog: &Catalog, spec: &EventSpec) -> Result<Option<Vec<Resolved>>> {
        let [_, part] = spec.parts.as_slice() else {
            return Ok(None);
        };
        let pattern = Glob::new(&part.text);
        if part.offset.is_none() || pattern.is_plain() || catalog.script().is_none() {
            return Ok(None);
        }
        let (mut all, mut refused) = (Vec::new(), None);
        for name in catalog.expand(self, &[pattern])? {
            let wanted = LocationSpec::new(None, &name, part.offset);
            match wanted.map(|wanted| self.instruction(catalog, &wanted, None)) {
                Some(Ok(resolved)) => all.push(resolved),
                Some(Err(error)) => refused = Some(error),
                None => {}
            }
        }
        match (all.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(Some(all)),
        }
    }

    /// The instruction at a place, checked.
    pub(super) fn instruction(
        &self,
        catalog: &Catalog,
        wanted: &LocationSpec,
        maxactive: Option<u32>,
    ) -> Result<Resolved> {
        if let LocationSpec::Symbol {
            module: Some(module),
            symbol,
            offset,
        } = wanted
            && module != KERNEL
            && !catalog.has_module(module)
        {
            if catalog.script().is_some() {
                // A script ends with what it finds; a session that waits for modules is there for hours.
                return Err(Error::NoPlace {
                    wanted: format!("{}:{wanted}", self.name()),
                    why: format!("the module {module} is not loaded"),
                });
            }
            let place = CodePlace {
                module: Some(module.clone()),
                symbol: symbol.clone(),
                offset: offset.unwrap_or(0),
            };
            return Ok(self.awaited(catalog, wanted, &place, maxactive));
        }
        let code = Code::new(catalog)?;
        let (function, instruction) = code.probeable(wanted)?;
        let entry = function.probed(function.address) == function.probed(instruction.address);
        // Lines of kprobe_events may have the offset of the entry, behind an `endbr64`.
        if self.at_return && !entry {
            return Err(Error::NoPlace {
                wanted: wanted.to_string(),
                why: format!(
                    "a {} sees a function's return, whatever part of it returns: name the function alone",
                    self.name()
                ),
            });
        }
        let place = function.place(instruction.offset);
        let name = match wanted {
            LocationSpec::Address(address) => format!("{}:{address:#x}", self.name()),
            LocationSpec::Symbol { .. } => format!("{}:{wanted}", self.name()),
        };
        let module = function.module.as_deref();
        let mut context = self.context_in(catalog, module, Some(&function.symbol));
        context.name.clone_from(&name);
        if !entry {
            // Inside a function, registers hold what they happen to hold there.
            context.fields.clear();
            context.arguments.clear();
            // The kernel knows the function at its first instruction only.
            context.features.func_ip = false;
        }
        let instance = Instance {
            identity: Some(catalog.canonical_name_at(self.name(), &function, &instruction, Phase::Plain)),
            symbol: Some(function.symbol.clone()),
            ..Instance::named(name)
        };
        let at = |at_return, maxactive| {
            Mechanism::Instruction(attach::Instruction {
                by_name: names_one(catalog, &place),
                place: place.clone(),
                address: instruction.address,
                at_return,
                maxactive,
            })
        };
        let mut first = KPROBE.context_in(catalog, module, Some(&function.symbol));
        first.name.clone_from(&context.name);
        let companions = self.entry(&mut context, first, at(false, None));
        let strategy = Strategy {
            mechanism: at(self.at_return, maxactive),
            context,
            guard: None,
            companions,
        };
        Ok(Resolved {
            kind: self.name(),
            instances: vec![instance],
            strategies: vec![strategy],
            members: Vec::new(),
        })
    }

    /// A place in a module that is not loaded: nothing is known of it, and the kernel attaches what is there when the module comes.
    fn awaited(
        &self,
        catalog: &Catalog,
        wanted: &LocationSpec,
        place: &CodePlace,
        maxactive: Option<u32>,
    ) -> Resolved {
        let (module, name) = (place.module.as_deref(), format!("{}:{wanted}", self.name()));
        let mut context = self.context_in(catalog, module, Some(&place.symbol));
        context.name.clone_from(&name);
        context.remarks.push(format!(
            "the module {} is not loaded: {name} waits for it",
            module.unwrap_or_default()
        ));
        // Arguments are in their registers at a function's first instruction only.
        if place.offset != 0 {
            context.arguments.clear();
            context.features.func_ip = false;
        }
        let at = |at_return, maxactive| {
            Mechanism::Instruction(attach::Instruction {
                place: place.clone(),
                address: 0,
                by_name: true,
                at_return,
                maxactive,
            })
        };
        let mut first = KPROBE.context_in(catalog, module, Some(&place.symbol));
        first.name.clone_from(&name);
        let companions = self.entry(&mut context, first, at(false, None));
        Resolved {
            kind: self.name(),
            instances: vec![Instance {
                symbol: Some(place.symbol.clone()),
                ..Instance::named(name)
            }],
            strategies: vec![Strategy {
                mechanism: at(self.at_return, maxactive),
                context,
                guard: None,
                companions,
            }],
            members: Vec::new(),
        }
    }

    /// Canonical name of a function that ftrace does not list under this name; or what stands in the way of a
    /// probe on it, as that several functions are called like that.
    pub(super) fn check(&self, catalog: &Catalog, symbol: &str) -> Result<String> {
        let wanted = LocationSpec::Symbol {
            module: None,
            symbol: symbol.to_owned(),
            offset: None,
        };
        let (function, instruction) = Code::new(catalog)?.probeable(&wanted)?;
        Ok(catalog.canonical_name_at(self.name(), &function, &instruction, Phase::Plain))
    }
}

/// Whether the kernel finds the place by its name: there is no other function of it, and the name is the kernel's or a module's own.
pub(super) fn names_one(catalog: &Catalog, place: &CodePlace) -> bool {
    let Ok(symbols) = catalog.symbols() else {
        return false;
    };
    let mut found = symbols.named(&place.symbol);
    found.next().is_some() && found.next().is_none() && place.module.as_deref() != Some(KERNEL)
}

/// Makes a mechanism in a module one by name; says where it is if it was that of a function without its module.
fn by_name(mechanism: &mut Mechanism, function: Option<&str>, catalog: &Catalog) -> Option<CodePlace> {
    match mechanism {
        Mechanism::Instruction(attach::Instruction {
            place,
            address,
            by_name: true,
            ..
        }) if place.module.as_deref().is_some_and(|module| module != KERNEL) => {
            *address = 0;
            None
        }
        Mechanism::Functions(attach::Functions {
            at_return, maxactive, ..
        }) => {
            let symbol = function?;
            let place = CodePlace {
                module: Some(catalog.module_of(None, symbol)?),
                symbol: symbol.to_owned(),
                offset: 0,
            };
            if !names_one(catalog, &place) {
                return None;
            }
            *mechanism = Mechanism::Instruction(attach::Instruction {
                place: place.clone(),
                address: 0,
                by_name: true,
                at_return: *at_return,
                maxactive: *maxactive,
            });
            Some(place)
        }
        _ => None,
    }
}

impl Resolved {
    /// The event with kprobes in modules by name, as events of tracefs, which the kernel attaches again whenever their module is loaded again
    /// (`trace_kprobe_module_callback` in kernel/trace/trace_kprobe.c): a persistent session has no process that could.
    pub fn with_modules(mut self, catalog: &Catalog) -> Self {
        let function = match self.instances.as_slice() {
            [one] => one.symbol.clone(),
            _ => None,
        };
        for strategy in &mut self.strategies {
            let companions = strategy.companions.iter_mut();
            let served = companions.flat_map(|all| std::iter::once(&mut all.first).chain(&mut all.aborted));
            for companion in served {
                let symbol = companion.symbol.as_deref().or(function.as_deref());
                by_name(&mut companion.mechanism, symbol, catalog);
            }
            let named = by_name(&mut strategy.mechanism, function.as_deref(), catalog);
            if let Some(place) = named {
                // A name by which it is found while the module is not loaded, too.
                let name = format!("{}:{place}", self.kind);
                strategy.context.name.clone_from(&name);
                self.instances
                    .iter_mut()
                    .for_each(|one| one.name.clone_from(&name));
            }
        }
        self.members = self
            .members
            .into_iter()
            .map(|one| one.with_modules(catalog))
            .collect();
        self
    }
}
