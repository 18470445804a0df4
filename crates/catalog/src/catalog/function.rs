//! Kernel functions by kprobe: their entries (`kprobe`) and their returns (`kretprobe`), typed by BTF where it knows them.

use super::glob::Glob;
use super::instruction;
use super::kind::{
    DescribedField, Description, EventKind, HelperHook, HelperHooks, Instance, KindRow, Resolved, Strategy,
    Via,
};
use super::lookup::Catalog;
use super::phase::Phase;
use super::spec::text_of;
use crate::arch;
use crate::attach::{self, Mechanism};
use crate::code::{KERNEL, LocationSpec, Why};
use crate::error::{Error, Result};
use kestrel_bpf::btf::{Btf, Function, Type, TypeId};
use kestrel_compiler::context::{Context, EventField, EventNumber, Pair, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind;
use std::collections::HashSet;
use std::sync::Arc;

/// `kprobe` or `kretprobe`.
#[derive(Debug)]
pub(super) struct FunctionProbe {
    row: KindRow,
    pub(super) at_return: bool,
}

/// A function's entry.
pub(super) const KPROBE: FunctionProbe = FunctionProbe {
    row: KindRow::new(event_kind::KPROBE, 1),
    at_return: false,
};
/// A function's return.
pub(super) const KRETPROBE: FunctionProbe = FunctionProbe {
    row: KindRow {
        listed: false,
        ..KindRow::new(event_kind::KRETPROBE, 1)
    },
    at_return: true,
};

/// Place of a parameter at a function's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterHome {
    /// In so many registers of arguments, from one on.
    Registers { first: usize, count: usize },
    /// In the stack, so many bytes from its pointer on: behind the return address.
    Stack(u64),
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) ty: TypeId,
    pub(super) held: ParameterHome,
    /// Words that it takes.
    pub(super) words: u64,
    /// Whether it is a struct or a union by value.
    pub(super) composite: bool,
}

/// Bytes of a struct by value that registers carry, as the calling convention has it (System V): two words.
const MAX_IN_REGISTERS: u64 = 16;

/// The parameters, in order, with where each is; stops at the first of which that is not known (`...`, a floating-point number).
pub(super) fn parameters(types: &Btf, function: &Function<'_>) -> Vec<Parameter> {
    let arch = arch::current();
    let (mut used, mut stack) = (0, arch.return_slot);
    let mut all = Vec::new();
    for (index, parameter) in function.proto.parameters().enumerate() {
        let Some(size) = types.size_of(parameter.ty) else {
            break;
        };
        let composite = match types.resolved(parameter.ty) {
            Type::Int(_) | Type::Ptr(_) | Type::Enum(_) if size <= 8 => false,
            Type::Struct(_) | Type::Union(_) => true,
            _ => break,
        };
        // A value without bytes is not passed.
        if size == 0 {
            continue;
        }
        let words = size.div_ceil(8);
        let count = words as usize;
        let fits = size <= MAX_IN_REGISTERS && used + count <= arch.arguments.len();
        let held = match fits && !(composite && is_packed(types, parameter.ty)) {
            true => {
                used += count;
                ParameterHome::Registers {
                    first: used - count,
                    count,
                }
            }
            false => {
                stack += words * 8;
                ParameterHome::Stack(stack - words * 8)
            }
        };
        all.push(Parameter {
            name: match parameter.name {
                "" => format!("arg{index}"),
                name => name.to_owned(),
            },
            ty: parameter.ty,
            held,
            words,
            composite,
        });
    }
    all
}

/// Whether a member of a struct does not lie where its type wants it: memory carries such a struct.
fn is_packed(types: &Btf, ty: TypeId) -> bool {
    let members = types
        .composite(ty)
        .into_iter()
        .flat_map(|composite| composite.members());
    let mut plain = members.filter(|member| member.bits.is_none());
    plain.any(|member| match types.resolved(member.ty) {
        Type::Int(_) | Type::Ptr(_) | Type::Enum(_) => {
            let size = types.size_of(member.ty).unwrap_or(1).max(1) as u32;
            member.bit_offset % (size * 8) != 0
        }
        Type::Struct(_) | Type::Union(_) => is_packed(types, member.ty),
        _ => false,
    })
}

impl Parameter {
    /// Source of the argument for a kprobe at the entry.
    pub(super) fn source(&self, types: &Btf) -> Source {
        let arch = arch::current();
        match self.held {
            ParameterHome::Registers { first, count } => {
                let offsets = arch.arguments.iter().skip(first).take(count);
                let mut words: Vec<Source> = offsets.map(|&offset| Source::Register { offset }).collect();
                match (self.composite, words.pop()) {
                    (false, Some(word)) => word,
                    (_, last) => {
                        words.extend(last);
                        Source::Words(words)
                    }
                }
            }
            ParameterHome::Stack(behind) => {
                let ty = match self.composite {
                    true => types.render(self.ty),
                    false => "uint64".to_owned(),
                };
                Source::Expression(format!("*({ty} *)(reg(\"sp\") + {behind})"))
            }
        }
    }
}

/// The return value's type, where a register carries it.
pub(super) fn return_type(types: &Btf, function: &Function<'_>) -> Option<TypeId> {
    let ret = function.proto.ret;
    (ret != TypeId::VOID && types.size_of(ret).is_some_and(|size| size <= 8)).then_some(ret)
}

/// Parameters and return type for people.
pub(super) fn describe(catalog: &Catalog, name: &str, at_return: bool) -> Result<Description> {
    let (module, symbol) = match name.split_once(':') {
        Some((module, symbol)) => (Some(module), symbol),
        None => (None, name),
    };
    let typed = catalog.typed_function(module, symbol)?;
    let (types, function) = (&typed.types, typed.function()?);
    let fields = function
        .proto
        .parameters()
        .map(|p| DescribedField {
            name: p.name.to_owned(),
            ty: types.render(p.ty),
        })
        .collect();
    let is_void = function.proto.ret == TypeId::VOID;
    let returns = (at_return && !is_void).then(|| types.render(function.proto.ret));
    Ok(Description { fields, returns })
}

impl FunctionProbe {
    /// The functions that match in modules that match: those of the kernel together, those of modules one by one, because several may have functions of one name.
    fn of_module(
        &self,
        catalog: &Catalog,
        module: &Glob,
        pattern: &Glob,
        maxactive: Option<u32>,
    ) -> Result<Vec<Resolved>> {
        let found = catalog.functions_of(module, pattern)?;
        let (kernel, modules): (Vec<_>, Vec<_>) = found.into_iter().partition(|(own, _)| own == KERNEL);
        let (mut all, mut refused) = (Vec::new(), None);
        if !kernel.is_empty() {
            let mut names: Vec<String> = kernel.into_iter().map(|(_, name)| name).collect();
            if catalog.script().is_some() {
                names = without_blacklisted(catalog, names, pattern.text())?;
            }
            let single = (names.len() == 1).then(|| names[0].clone());
            all.push(self.resolved(catalog, names, single.as_deref(), maxactive));
        }
        for (module, name) in modules {
            let wanted = LocationSpec::new(Some(&module), &name, None);
            match wanted.map(|wanted| self.instruction(catalog, &wanted, maxactive)) {
                Some(Ok(resolved)) => all.push(resolved),
                Some(Err(error)) => refused = Some(error),
                None => {}
            }
        }
        match (all.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(all),
        }
    }

    /// One function; of a set, with the name that ftrace lists where it is another one: `kprobe:__do_sys_getppid` for `__x64_sys_getppid`.
    fn instance(&self, catalog: &Catalog, symbol: String, of_set: bool) -> Instance {
        let is_other = of_set && catalog.is_listed(&symbol).is_ok_and(|listed| !listed);
        let mut instance = Instance::function(self.name(), symbol);
        if is_other {
            instance.identity = Some(catalog.canonical_name(&instance.name));
        }
        instance
    }

    /// Functions as one set, or the single one.
    fn resolved(
        &self,
        catalog: &Catalog,
        names: Vec<String>,
        single: Option<&str>,
        maxactive: Option<u32>,
    ) -> Resolved {
        // Programs of the language count by it.
        let by_address = catalog.script().is_some() && catalog.have_unique_addresses(&names);
        let instances: Vec<Instance> = names
            .into_iter()
            .map(|symbol| self.instance(catalog, symbol, single.is_none()))
            .collect();
        let alone = self.strategy(catalog, single, maxactive);
        let mut strategies = Vec::new();
        if single.is_none() && maxactive.is_none() {
            // Values that one link for all functions cannot give, a link for each can.
            let mut together = alone.clone();
            together.mechanism = Mechanism::Functions(attach::Functions {
                at_return: self.at_return,
                alone: false,
                maxactive: None,
            });
            together.context.registers.clear();
            together.context.pair = None;
            together.companions = None;
            strategies.push(together);
        }
        strategies.push(alone);
        for strategy in &mut strategies {
            strategy.context.features.func_ip &= by_address;
        }
        Resolved {
            kind: self.name(),
            instances,
            strategies,
            members: Vec::new(),
        }
    }

    /// A link for each function.
    fn strategy(&self, catalog: &Catalog, single: Option<&str>, maxactive: Option<u32>) -> Strategy {
        let mut context = self.context(catalog, single);
        let entry = Mechanism::Functions(attach::Functions {
            at_return: false,
            alone: true,
            maxactive: None,
        });
        let companions = self.entry(&mut context, KPROBE.context(catalog, single), entry);
        Strategy {
            mechanism: Mechanism::Functions(attach::Functions {
                at_return: self.at_return,
                alone: true,
                maxactive,
            }),
            context,
            guard: None,
            companions,
        }
    }

    /// Pairs a return with the entry of the same call: by the place of the return address in the stack.
    pub(super) fn entry(&self, context: &mut Context, first: Context, at: Mechanism) -> Option<HelperHooks> {
        if !self.at_return {
            return None;
        }
        context.pair = Some(Arc::new(Pair {
            first,
            first_key: "reg(\"sp\")".to_owned(),
            key: format!("reg(\"sp\") - {}", arch::current().return_slot),
            always: false,
            aborted: None,
        }));
        Some(HelperHooks {
            first: HelperHook {
                mechanism: at,
                label: "entry",
                symbol: None,
            },
            aborted: None,
        })
    }

    pub(super) fn context(&self, catalog: &Catalog, symbol: Option<&str>) -> Context {
        self.context_in(catalog, None, symbol)
    }

    /// Context of a function, of a module where one is named.
    pub(super) fn context_in(
        &self,
        catalog: &Catalog,
        module: Option<&str>,
        symbol: Option<&str>,
    ) -> Context {
        let arch = arch::current();
        let typed = symbol.and_then(|symbol| catalog.typed_function(module, symbol).ok());
        let types = match &typed {
            Some(typed) => Some(typed.types.clone()),
            None => catalog.types().ok(),
        };
        let program = if self.at_return {
            ProgramKind::Kretprobe
        } else {
            ProgramKind::Kprobe
        };
        let known = typed
            .as_ref()
            .and_then(|typed| Some((typed.function().ok()?, &*typed.types)));
        let fields = match &known {
            Some((function, types)) if !self.at_return => entry_fields(types, function),
            _ => Vec::new(),
        };
        let parameters = known
            .as_ref()
            .and_then(|(function, types)| parameter_words(types, function));
        Context {
            parameters,
            function: symbol.map(str::to_owned),
            // A set shares one program: the cookie says which function it was.
            number: symbol.map_or(EventNumber::Cookie { first: 0, stride: 1 }, |_| {
                EventNumber::Constant(0)
            }),
            fields,
            arguments: if self.at_return { Vec::new() } else { arguments() },
            return_value: self.at_return.then(|| EventField {
                name: "retval".to_owned(),
                ty: known
                    .and_then(|(f, t)| return_type(t, &f))
                    .map_or_else(untyped, ValueType::Btf),
                source: Source::Register {
                    offset: arch.return_value,
                },
                recorded: true,
            }),
            // At a return, the instruction pointer is in the kernel's trampoline.
            registers: arch::registers(if self.at_return { 0 } else { arch.breakpoint }),
            features: catalog.features(program),
            types,
            ..Context::new(format!("{}:{}", self.name(), symbol.unwrap_or("*")), program)
        }
    }
}

/// Functions without those on the kernel's blacklist, which are no probes of a script: one link for many functions would take them, a kprobe not.
///
/// # Errors
/// [`Error::NoPlace`] where none is left.
fn without_blacklisted(catalog: &Catalog, mut names: Vec<String>, wanted: &str) -> Result<Vec<String>> {
    let barred: HashSet<&str> = catalog
        .blacklist()
        .iter()
        .map(|(_, symbol)| symbol.as_str())
        .collect();
    let first = names.first().cloned();
    names.retain(|name| !barred.contains(name.as_str()));
    match (names.is_empty(), first) {
        (true, Some(first)) => Err(Error::NoPlace {
            wanted: wanted.to_owned(),
            why: Why::Blacklisted(first).to_string(),
        }),
        _ => Ok(names),
    }
}

fn untyped() -> ValueType {
    ValueType::Integer {
        size: 8,
        signed: true,
        base: kestrel_trace::layout::Base::Decimal,
    }
}

/// The number of arguments by number that lie on the stack, after those in registers.
const STACK_ARGUMENTS: u64 = 4;

/// Arguments by number: registers, then words of the stack behind the return address.
pub(super) fn arguments() -> Vec<Source> {
    let arch = arch::current();
    let registers = arch.arguments.iter().map(|&offset| Source::Register { offset });
    let behind = |word| {
        Source::Expression(format!(
            "*(uint64 *)(reg(\"sp\") + {})",
            arch.return_slot + word * 8
        ))
    };
    registers.chain((0..STACK_ARGUMENTS).map(behind)).collect()
}

/// How many arguments by number the parameters are. Not known where a structure or a list without an end (`...`) is among them.
fn parameter_words(types: &Btf, function: &Function<'_>) -> Option<usize> {
    let all = parameters(types, function);
    let plain = all.iter().all(|parameter| parameter.words == 1);
    (plain && all.len() == function.proto.parameters().len()).then_some(all.len())
}

fn entry_fields(types: &Btf, function: &Function<'_>) -> Vec<EventField> {
    let field = |parameter: Parameter| EventField {
        source: parameter.source(types),
        name: parameter.name,
        ty: ValueType::Btf(parameter.ty),
        recorded: true,
    };
    parameters(types, function).into_iter().map(field).collect()
}

pub(super) fn no_kprobes(what: &str) -> Error {
    Error::Unsupported {
        what: what.to_owned(),
        why: "this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)".to_owned(),
    }
}

impl EventKind for FunctionProbe {
    fn row(&self) -> &KindRow {
        &self.row
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        if !catalog.has_kprobes() {
            return Err(no_kprobes(self.name()));
        }
        if let [module, pattern] = patterns {
            catalog.names_in_modules(module, pattern, found);
            return Ok(());
        }
        let functions = catalog.functions()?;
        if let Some(plain) = patterns.first().filter(|p| p.is_plain()) {
            let listed = catalog.is_listed(plain.text())?;
            // Of several names for one address ftrace lists one; kprobes take all of them.
            if listed || catalog.is_function(plain.text()) {
                found(plain.text());
            }
            return Ok(());
        }
        let Some(pattern) = patterns.first() else {
            functions.names().for_each(found);
            return Ok(());
        };
        functions
            .names()
            .filter(|name| pattern.matches(name))
            .for_each(&mut *found);
        catalog.other_names(pattern)?.iter().for_each(|name| found(name));
        Ok(())
    }

    fn listed(&self, catalog: &Catalog, patterns: &[Glob]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.names(catalog, patterns, &mut |name| names.push(name.to_owned()))?;
        let wanted = patterns.last().map_or("*", Glob::text);
        // What ftrace does not list may still be probed: its code says.
        if let ([pattern], [_]) = (patterns, names.as_slice())
            && pattern.is_plain()
            && !catalog.is_listed(wanted)?
        {
            self.check(catalog, wanted)?;
        }
        without_blacklisted(catalog, names, wanted)
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        describe(catalog, name, self.at_return)
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let has_offset = spec.parts.last().is_some_and(|part| part.offset.is_some());
        if self.at_return && has_offset && catalog.script().is_some() {
            let shape = "kretprobe:FUNCTION: an offset is not allowed where a function returns";
            return Err(Error::wrong_shape(spec, shape));
        }
        let (phase, spec) = Phase::of(self.at_return, spec)?;
        let spec = &spec;
        if let (Phase::Plain, true) = (phase, catalog.has_kprobes())
            && let Some(found) = self.instructions(catalog, spec)?
        {
            return Ok(found);
        }
        let wanted = instruction::parse_location(self.name(), spec)?;
        if !catalog.has_kprobes() {
            return Err(no_kprobes(&text_of(spec)));
        }
        let part = match spec.parts.as_slice() {
            [_, _, last] => last,
            parts => &parts[1],
        };
        // A phase belongs to one instruction, so a function without an offset means its first.
        if matches!(phase, Phase::Post | Phase::Fault) {
            let plain =
                || LocationSpec::new(None, &part.text, None).filter(|_| Glob::new(&part.text).is_plain());
            let Some(wanted) = wanted.or_else(plain) else {
                let shape = format!(
                    "kprobe:FUNCTION+OFFSET{}, without patterns: it is about one instruction",
                    phase.suffix()
                );
                return Err(Error::wrong_shape(spec, &shape));
            };
            return Ok(vec![match phase {
                Phase::Post => self.post(catalog, &wanted)?,
                _ => self.fault(catalog, &wanted)?,
            }]);
        }
        if let Some(wanted) = wanted {
            return Ok(vec![self.instruction(catalog, &wanted, phase.maxactive())?]);
        }
        if let [_, module, _] = spec.parts.as_slice() {
            return self.of_module(
                catalog,
                &Glob::new(&module.text),
                &Glob::new(&part.text),
                phase.maxactive(),
            );
        }
        let mut names = catalog.expand(self, &[Glob::new(&part.text)])?;
        if catalog.script().is_some() {
            names = without_blacklisted(catalog, names, &spec.parts[1].text)?;
        }
        let single = (names.len() == 1).then(|| names[0].clone());
        // ftrace does not list all functions that can be probed: such a one is checked by its code.
        let unlisted = Glob::new(&part.text).is_plain() && !catalog.is_listed(&part.text)?;
        let identity = match unlisted {
            true => Some(self.check(catalog, &part.text)?),
            false => None,
        };
        let mut resolved = self.resolved(catalog, names, single.as_deref(), phase.maxactive());
        if let [one] = resolved.instances.as_mut_slice() {
            one.identity = identity;
        }
        Ok(vec![resolved])
    }

    fn set(&self, catalog: &Catalog, names: &[String], _via: Via) -> Result<Option<Resolved>> {
        // A single instruction is no member of a set.
        let whole = |name: &&str| !name.contains([':', '+']) && !name.starts_with("0x");
        let symbol = |name: &String| {
            let name = name.strip_prefix(self.name())?.strip_prefix(':')?;
            Some(name).filter(whole).map(str::to_owned)
        };
        let symbols: Option<Vec<String>> = names.iter().map(symbol).collect();
        Ok(symbols.map(|symbols| self.resolved(catalog, symbols, None, None)))
    }
}
