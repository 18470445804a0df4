//! The phases of a probed instruction: before it (`kprobe:f+0x12`, or `…:pre`), after it (`…:post`), and when it faulted (`…:fault`).
//!
//! ```text
//!   A: mov %rdx,(%rdi)   ◄─ pre; with a post: a companion notes (thread, stack pointer that will be)
//!   B: add $8,%rdi       ◄─ post: only where that was noted, which is forgotten then
//!   fixup_exception      ◄─ fault: only with A in the saved registers; a companion forgets what was noted for a post
//! ```
//!
//! B is every instruction that can run next: both ways of a conditional jump, the target of a call. Interrupts have another stack pointer, other
//! threads another stack, so that arrivals from elsewhere are not taken for A's.

use super::function::FunctionProbe;
use super::instruction::names_one;
use super::kind::{EventKind, HelperHook, HelperHooks, Instance, Resolved, Strategy};
use super::lookup::Catalog;
use super::spec::text_of;
use crate::arch;
use crate::attach::{self, KprobeSite, Mechanism};
use crate::code::{Code, Follow, Function, Instruction, LocationSpec};
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, EventField, Pair, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::ast::{EventPart, EventSpec};
use kestrel_trace::layout::{Base, Names};
use std::sync::Arc;

/// The kernel function that handles every exception which an instruction of the kernel has raised and for which the exception table has an entry
/// (`arch/x86/mm/extable.c`). Its parameters are the saved registers, the exception's number, its error code and the address.
const FIXUP: &str = "fixup_exception";

/// Text before the number of calls in the name of a return event.
const MAXACTIVE: &str = "maxactive=";

/// Phase of an event: the suffix of its name (entry, return, post).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the instruction, or at the return.
    Plain,
    /// After the function.
    Post,
    /// When it faulted.
    Fault,
    /// At the return, with at most this many calls followed at once.
    Return(u32),
}

impl Phase {
    /// Phases that are part of an event's name, behind the place of the instruction: two of them at one place are two events.
    pub(super) const BEHIND: [Self; 2] = [Self::Post, Self::Fault];

    /// Suffix of the phase in an event's name, with its colon; empty for phases that are not part of the name.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Post => ":post",
            Self::Fault => ":fault",
            Self::Plain | Self::Return(_) => "",
        }
    }

    /// The phase as a user writes it behind the place, with its colon.
    pub fn written(self) -> String {
        match self {
            Self::Return(calls) => format!(":{MAXACTIVE}{calls}"),
            other => other.suffix().to_owned(),
        }
    }

    /// Whether a part of a name is such a phase: `post` or `fault`.
    pub fn is_behind(part: &str) -> bool {
        Self::BEHIND
            .iter()
            .any(|phase| phase.suffix().strip_prefix(':') == Some(part))
    }

    /// The number in a part `maxactive=N` of a name, as text.
    pub fn calls_of(part: &str) -> Option<&str> {
        part.strip_prefix(MAXACTIVE)
    }

    /// Splits an event's name into its phase and the rest.
    ///
    /// # Errors
    /// When the kind has no such phase.
    pub(super) fn of(at_return: bool, spec: &EventSpec) -> Result<(Self, EventSpec)> {
        let last = match spec.parts.as_slice() {
            [_, _, .., last] => last.text.as_str(),
            _ => return Ok((Self::Plain, spec.clone())),
        };
        let phase = match (last, at_return) {
            ("pre", false) => Self::Plain,
            ("post", false) => Self::Post,
            ("fault", false) => Self::Fault,
            ("pre" | "post" | "fault", true) => {
                return Err(Error::WrongShape {
                    wanted: text_of(spec),
                    shape: format!(
                        "kprobe:FUNCTION+OFFSET:{last}: instructions have such phases, returns have none"
                    ),
                });
            }
            (option, true) if option.starts_with("maxactive") => match maxactive(option) {
                Some(number) => Self::Return(number),
                None => {
                    return Err(Error::wrong_shape(
                        spec,
                        "kretprobe:FUNCTION:maxactive=N, with N from 1 to 4096",
                    ));
                }
            },
            (option, false) if option.starts_with("maxactive") => {
                return Err(Error::WrongShape {
                    wanted: text_of(spec),
                    shape: format!("kretprobe:FUNCTION:{option}: only returns are limited"),
                });
            }
            _ => return Ok((Self::Plain, spec.clone())),
        };
        let mut rest = spec.clone();
        rest.parts.pop();
        // With two phases in one name, one event would have two meanings.
        let another = |part: &EventPart| ["pre", "post", "fault"].contains(&part.text.as_str());
        if rest.parts.len() > 2 && rest.parts.last().is_some_and(another) {
            return Err(Error::WrongShape {
                wanted: text_of(spec),
                shape: "kprobe:FUNCTION+OFFSET with one of :pre, :post and :fault; a handler for each is an event of its own".to_owned(),
            });
        }
        Ok((phase, rest))
    }

    pub(super) fn maxactive(self) -> Option<u32> {
        match self {
            Self::Return(number) => Some(number),
            _ => None,
        }
    }
}

/// The number of `maxactive=64`; the kernel takes at most `KRETPROBE_MAXACTIVE_MAX` (kernel/trace/trace_kprobe.c).
fn maxactive(option: &str) -> Option<u32> {
    let number = Phase::calls_of(option)?.parse().ok()?;
    (1..=4096).contains(&number).then_some(number)
}

impl FunctionProbe {
    /// Resolves an event after an instruction.
    pub(super) fn post(&self, catalog: &Catalog, wanted: &LocationSpec) -> Result<Resolved> {
        let code = Code::new(catalog)?;
        let (function, instruction) = code.probeable(wanted)?;
        let follow = code.following(instruction.address)?;
        let same = |first: &&Follow| {
            follow
                .iter()
                .all(|f| (f.base, f.stack) == (first.base, first.stack))
        };
        // A hit after the instruction is matched with the one before it by the stack pointer, so every way the instruction can go on must change it alike.
        let Some(first) = follow.first().filter(same) else {
            return Err(Error::NotFollowed {
                place: function.place(instruction.offset).to_string(),
                text: instruction.text,
                why: "the stack pointer after it is not the same on all ways".to_owned(),
            });
        };
        let after = |register: String| match first.stack {
            0 => register,
            less @ ..0 => format!("{register} - {}", less.unsigned_abs()),
            more => format!("{register} + {more}"),
        };
        let name = format!("{}:{wanted}{}", self.name(), Phase::Post.suffix());
        let mut before = self.context(catalog, Some(&function.symbol));
        before.name.clone_from(&name);
        before.features.func_ip = false;
        let mut context = before.clone();
        context.fields.clear();
        context.arguments.clear();
        context.pair = Some(Arc::new(Pair {
            first: before,
            first_key: after(format!("reg(\"{}\")", first.base)),
            key: "reg(\"sp\")".to_owned(),
            always: true,
            // After a fault the next instruction is not reached: the mark is removed where the kernel handles the fault.
            aborted: Some((
                self.fixup(catalog, &name, &function),
                after(format!("reg(\"{}\")", first.base)),
            )),
        }));
        let site = |f: &Follow| KprobeSite {
            by_name: names_one(catalog, &f.place),
            place: f.place.clone(),
            address: f.address,
        };
        let companions = HelperHooks {
            first: HelperHook {
                mechanism: Self::at(catalog, &function, &instruction),
                label: "start",
                symbol: None,
            },
            aborted: Some(HelperHook {
                mechanism: fixup(),
                label: "fault",
                symbol: Some(FIXUP.to_owned()),
            }),
        };
        let identity = catalog.canonical_name_at(self.name(), &function, &instruction, Phase::Post);
        Ok(self.phase(
            (name, identity),
            &function,
            Strategy {
                mechanism: Mechanism::Instructions(attach::Instructions {
                    sites: follow.iter().map(site).collect(),
                }),
                context,
                guard: None,
                companions: Some(companions),
            },
        ))
    }

    /// Resolves an event at the fault of an instruction, which need not be one that can be probed.
    pub(super) fn fault(&self, catalog: &Catalog, wanted: &LocationSpec) -> Result<Resolved> {
        let (function, instruction) = Code::new(catalog)?.locate(wanted)?;
        let name = format!("{}:{wanted}{}", self.name(), Phase::Fault.suffix());
        let context = self.fixup(catalog, &name, &function);
        let identity = catalog.canonical_name_at(self.name(), &function, &instruction, Phase::Fault);
        let mut resolved = self.phase(
            (name, identity),
            &function,
            Strategy {
                mechanism: fixup(),
                context,
                guard: Some(format!(
                    "((struct pt_regs *)arg0)->ip == {:#x}",
                    instruction.address
                )),
                companions: None,
            },
        );
        for instance in &mut resolved.instances {
            instance.symbol = Some(FIXUP.to_owned());
        }
        Ok(resolved)
    }

    fn phase(&self, (name, identity): (String, String), function: &Function, strategy: Strategy) -> Resolved {
        let instance = Instance {
            identity: Some(identity),
            symbol: Some(function.symbol.clone()),
            ..Instance::named(name)
        };
        Resolved {
            kind: self.name(),
            instances: vec![instance],
            strategies: vec![strategy],
            members: Vec::new(),
        }
    }

    fn at(catalog: &Catalog, function: &Function, instruction: &Instruction) -> Mechanism {
        let place = function.place(instruction.offset);
        Mechanism::Instruction(attach::Instruction {
            by_name: names_one(catalog, &place),
            place,
            address: instruction.address,
            at_return: false,
            maxactive: None,
        })
    }

    /// The context of an event at an instruction's fault: that of a probe on the function [`FIXUP`].
    fn fixup(&self, catalog: &Catalog, name: &str, function: &Function) -> Context {
        let mut kind = self.context(catalog, Some(FIXUP));
        // It would give the address of the kernel's function.
        kind.features.func_ip = false;
        let arch = arch::current();
        let field = |name: &str, ty, index: usize| {
            Some(EventField {
                name: name.to_owned(),
                ty,
                source: Source::Register {
                    offset: *arch.arguments.get(index)?,
                },
                recorded: true,
            })
        };
        let names = |names: &[(i64, &str)]| -> Names {
            names
                .iter()
                .map(|(value, name)| (*value, (*name).to_owned()))
                .collect()
        };
        let trap = ValueType::Enumeration {
            size: 4,
            signed: true,
            names: names(arch.traps),
        };
        let error = ValueType::Integer {
            size: 8,
            signed: false,
            base: Base::Hexadecimal,
        };
        let fields = [
            field("address", ValueType::Pointer { user: true }, 3),
            field("trap", trap, 1),
            field("error_code", error, 2),
        ];
        Context {
            name: name.to_owned(),
            function: Some(function.symbol.clone()),
            program: ProgramKind::Kprobe,
            fields: fields.into_iter().flatten().collect(),
            registers: arch::registers_at("arg0"),
            ..kind
        }
    }
}

fn fixup() -> Mechanism {
    Mechanism::Functions(attach::Functions {
        at_return: false,
        alone: true,
        maxactive: None,
    })
}
