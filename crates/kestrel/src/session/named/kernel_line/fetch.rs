//! The arguments of a line, parsed as the kernel does (`kernel/trace/trace_probe.c`); translating them into the event language is not here.

use super::argument::{Argument, Fetch, STACK_WORDS, Store};
use super::expand::Expanded;
use super::kernel::{Dialect, Kernel, Resolution};
use super::place::LinePlace;
use super::word::{Parsed, Word, Wrong};
use super::written::{Written, array, written};
use super::{name, number};
use kestrel_bpf::btf::{Btf, TypeId};
use kestrel_catalog::arch;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Steps of a fetch (`FETCH_INSN_MAX` less the one that ends them).
const MAX_STEPS: u32 = 15;
/// Arguments of a line (`MAX_TRACE_ARGS`).
pub(super) const MAX_ARGUMENTS: usize = 128;
/// Arguments that a return knows of its entry: arg0 to arg9 of the language.
const KEPT_ARGUMENTS: u64 = 10;
/// Type of the last step of a fetch, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownType {
    pub(super) ty: TypeId,
    /// Where a bit field begins in its byte, and its bits.
    pub(super) bits: (u32, u32),
}

/// Why a symbol of a fetch has no address.
#[derive(Debug)]
pub(super) enum Unfound {
    /// The kernel does not have it, which a probe that waits may live with.
    Missing(Wrong),
    /// The text behind it is no offset.
    Unreadable(Wrong),
}

/// Reads the arguments of one line.
pub(super) struct Reader<'l> {
    pub(super) kernel: &'l dyn Kernel,
    pub(super) dialect: Dialect,
    pub(super) place: &'l LinePlace<'l>,
    pub(super) at_entry: bool,
    pub(super) at_return: bool,
    pub(super) prototype: OnceCell<Option<(Arc<Btf>, TypeId)>>,
    /// The first symbol that is not found, and its lack: the kernel looks for symbols when all of the line is read.
    pub(super) unfound: Option<Unfound>,
    /// Steps of the argument that is being read, less one.
    pub(super) steps: u32,
    /// Fetches from memory that its reading is within.
    pub(super) depth: u32,
    pub(super) known: Option<KnownType>,
}

impl<'l> Reader<'l> {
    /// A reader for the arguments of a probe at a place.
    pub(super) fn new(
        kernel: &'l dyn Kernel,
        place: &'l LinePlace<'l>,
        spot: Resolution,
        at_return: bool,
    ) -> Self {
        Self {
            kernel,
            dialect: kernel.dialect(),
            place,
            at_entry: !at_return && spot == Resolution::Entry,
            // At an address the kernel does not take a return for one.
            at_return: at_return && place.address.is_none(),
            prototype: OnceCell::new(),
            unfound: None,
            steps: 0,
            depth: 0,
            known: None,
        }
    }

    /// The arguments.
    pub(super) fn arguments(&mut self, words: &[Word<'_>]) -> Parsed<Vec<Argument>> {
        let words = match words.get(MAX_ARGUMENTS) {
            Some(beyond) if self.dialect.entry_arguments => {
                return Err(Wrong::at(beyond.at, "a probe has 128 arguments at most"));
            }
            Some(_) => &words[..MAX_ARGUMENTS],
            None => words,
        };
        let expanded = self.expand(words)?;
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        for (index, Expanded { text, at, made }) in expanded.iter().enumerate() {
            let argument = self.argument(index, text, *at).map_err(|wrong| match made {
                // The line has the word that this was made of.
                true => Wrong::at(*at, wrong.why),
                false => wrong,
            })?;
            if !names.insert(argument.name.clone()) {
                let why = format!("another argument is called `{}`, too", argument.name);
                return Err(Wrong::at(*at, why));
            }
            all.push(argument);
        }
        Ok(all)
    }

    fn argument(&mut self, index: usize, text: &str, at: usize) -> Parsed<Argument> {
        let (name, body, within) = match text.find('=') {
            Some(equals) => {
                name::argument(&text[..equals], at)?;
                (text[..equals].to_owned(), &text[equals + 1..], at + equals + 1)
            }
            None => {
                let own = text.split(':').next().unwrap_or(text);
                let name = match name::is_plain(own) {
                    true => own.to_owned(),
                    false => format!("arg{}", index + 1),
                };
                (name, text, at)
            }
        };
        name::unused(&name, at)?;
        if body.is_empty() {
            return Err(Wrong::at(within, "there is nothing to fetch behind the `=`"));
        }
        let longest = self.dialect.longest_argument();
        if body.len() > longest {
            let why = format!("`{body}` is longer than {longest} letters");
            return Err(Wrong::at(within, why));
        }
        let (fetch, store, elements) = self.body(body, within)?;
        Ok(Argument {
            name,
            fetch,
            store,
            elements,
        })
    }

    /// `FETCH[:TYPE[[COUNT]]]`.
    fn body(&mut self, body: &str, at: usize) -> Parsed<(Fetch, Store, Option<u32>)> {
        let (fetch, ty) = match body.split_once(':') {
            Some((fetch, ty)) => (fetch, Some(ty)),
            None => (body, None),
        };
        let type_at = ty.map_or(at, |_| at + fetch.len() + 1);
        let (ty, elements) = array(ty, type_at)?;
        let written = match (ty, fetch) {
            (None | Some("string"), "$comm" | "$COMM") if elements.is_none() => Some(Written::String),
            (None | Some("string"), text) if text.starts_with("\\\"") && elements.is_none() => {
                Some(Written::String)
            }
            (_, "$comm" | "$COMM") => {
                return Err(Wrong::at(type_at, "the thread's name is a string, and no array"));
            }
            (_, text) if text.starts_with("\\\"") => {
                return Err(Wrong::at(type_at, "a string in quotes is no array"));
            }
            (None, _) => None,
            (Some(ty), _) => Some(written(ty).ok_or_else(|| {
                let known = "u8 to u64, s8 to s64, x8 to x64, char, symbol, string, ustring, symstr, bWIDTH@OFFSET/SIZE, %pd and %pD";
                Wrong::at(type_at, format!("the type `{ty}` is none of {known}"))
            })?),
        };
        self.steps = 0;
        self.depth = 0;
        self.known = None;
        let mut value = self.fetch(fetch, at)?;
        let known = self.known;
        if let (Some(known), Some(Written::String | Written::UserString)) = (known, written) {
            value = self.text_of_type(known, value, written == Some(Written::UserString), type_at)?;
        }
        let store = match (written, known) {
            (None, Some(known)) => self.store_of_type(known, at)?,
            (None, None) => Store::Integer {
                bits: 64,
                signed: false,
            },
            (Some(written), _) => self.store(written, ty.unwrap_or_default(), &value, elements, type_at)?,
        };
        // Storing what memory does not give takes a step, and so do bits and an array.
        let stored_apart = match written {
            Some(Written::String | Written::UserString) => {
                elements.is_some() || !matches!(value, Fetch::Memory { .. })
            }
            Some(Written::SymbolString) => true,
            _ => !matches!(value, Fetch::Memory { .. }),
        };
        let more = [
            stored_apart,
            matches!(store, Store::Bits { .. }),
            elements.is_some(),
        ];
        for _ in more.iter().filter(|more| **more) {
            self.step(at)?;
        }
        if elements.is_some() {
            let fits = match (&value, store) {
                (Fetch::Memory { .. }, Store::Text { .. }) => written != Some(Written::SymbolString),
                // Only the first of them is found there.
                (Fetch::Immediate(_), Store::Text { .. }) => written != Some(Written::SymbolString),
                (Fetch::Memory { user, .. }, _) => !user && written != Some(Written::SymbolString),
                _ => false,
            };
            if !fits {
                let why = format!(
                    "`{fetch}` is no array: memory at an address of the kernel's is one, +0(…), or one of strings"
                );
                return Err(Wrong::at(type_at, why));
            }
        }
        Ok((value, store, elements))
    }

    pub(super) fn step(&mut self, at: usize) -> Parsed<()> {
        self.steps += 1;
        match self.steps < MAX_STEPS {
            true => Ok(()),
            false => Err(Wrong::at(at, "too many steps for the kernel: nest less")),
        }
    }

    pub(super) fn no_arguments(&self, text: &str, at: usize) -> Wrong {
        let why = format!("`{text}`: arguments are known at the entry of a function by its name only");
        Wrong::at(at, why)
    }

    fn fetch(&mut self, text: &str, at: usize) -> Parsed<Fetch> {
        let unreadable = || {
            let why = format!(
                "`{text}` is not %REGISTER, $VARIABLE, @ADDRESS, @SYMBOL, \\VALUE, +OFFSET(FETCH) or an argument's name"
            );
            Wrong::at(at, why)
        };
        match text.as_bytes().first() {
            Some(b'$') => self.variable(text, at),
            Some(b'%') => {
                let wanted = &text[1..];
                let saved = arch::current()
                    .registers
                    .iter()
                    .find(|saved| saved.name == wanted);
                saved.map(|saved| Fetch::Register(saved.name)).ok_or_else(|| {
                    let other = arch::current()
                        .registers
                        .iter()
                        .find(|saved| saved.aliases.contains(&wanted));
                    let hint = other.map_or_else(String::new, |saved| {
                        format!(": the kernel calls it %{}", saved.name)
                    });
                    Wrong::at(at, format!("`{text}` is no register of this processor{hint}"))
                })
            }
            Some(b'@') => self.memory_at(text, at),
            Some(b'+' | b'-') => self.memory(text, at),
            Some(b'\\') => immediate(&text[1..], at + 1),
            Some(first) if first.is_ascii_alphabetic() || *first == b'_' => self.parameter(text, at),
            _ => Err(unreadable()),
        }
    }

    /// `$retval`, `$stackN`, `$comm`, `$argN`.
    fn variable(&mut self, text: &str, at: usize) -> Parsed<Fetch> {
        let name = &text[1..];
        let unknown = || {
            let known = "$retval, $stack, $stackN, $argN and $comm";
            Wrong::at(at, format!("`{text}` is none of {known}"))
        };
        if name.starts_with("retval") {
            if !self.at_return {
                return Err(Wrong::at(
                    at,
                    "`$retval` is there in return probes of functions only",
                ));
            }
            return self.return_value(text, at);
        }
        if let Some(number) = name.strip_prefix("stack") {
            if number.is_empty() {
                return Ok(Fetch::StackPointer);
            }
            let number = number::decimal(number).ok_or_else(unknown)?;
            return match number <= STACK_WORDS {
                true => Ok(Fetch::Stack(number)),
                false => Err(Wrong::at(
                    at,
                    format!("`{text}`: a stack has {STACK_WORDS} words"),
                )),
            };
        }
        if matches!(name, "comm" | "COMM") {
            return Ok(Fetch::Comm);
        }
        let number = name.strip_prefix("arg").ok_or_else(unknown)?;
        let number = number::decimal(number.strip_prefix('+').unwrap_or(number)).ok_or_else(unknown)?;
        if !(1..=STACK_WORDS).contains(&number) {
            return Err(Wrong::at(at, format!("`{text}`: the first argument is $arg1")));
        }
        if !self.at_entry && !self.at_return {
            return Err(self.no_arguments(text, at));
        }
        // At a return the kernel has only the arguments that its entry handler kept.
        if self.at_return && number > KEPT_ARGUMENTS {
            let why = format!("`{text}`: the first {KEPT_ARGUMENTS} are kept for the return");
            return Err(Wrong::at(at, why));
        }
        Ok(Fetch::Argument(number as u32 - 1))
    }

    /// `@ADDRESS`, `@SYMBOL+OFFSET`.
    fn memory_at(&mut self, text: &str, at: usize) -> Parsed<Fetch> {
        let place = &text[1..];
        let address = if place.starts_with(|c: char| c.is_ascii_digit()) {
            number::unsigned(place)
                .ok_or_else(|| Wrong::at(at, format!("`{text}`: `{place}` is no address")))?
        } else if place.starts_with('+') {
            let why = format!("`{text}`: offsets into files are of probes in programs");
            return Err(Wrong::at(at, why));
        } else {
            let (symbol, offset) = place.split_at(place.find(['+', '-']).unwrap_or(place.len()));
            let address = self.symbol(symbol, offset, at);
            self.step(at)?;
            address
        };
        self.step(at)?;
        Ok(Fetch::Memory {
            base: Box::new(Fetch::Immediate(address)),
            offset: 0,
            user: false,
        })
    }

    /// The address of a symbol, and 0 for one that is not found: of several such the first is remembered.
    fn symbol(&mut self, symbol: &str, offset: &str, at: usize) -> u64 {
        let moved = match offset {
            "" => Some(0),
            offset => number::signed(offset),
        };
        let unfound = match (moved, self.kernel.address(symbol)) {
            (Some(moved), Some(address)) => return address.wrapping_add_signed(moved),
            (Some(_), None) => {
                let why = format!("`@{symbol}`: the kernel has no such symbol");
                Unfound::Missing(Wrong::at(at, why))
            }
            (None, _) => {
                let why = format!("`@{symbol}{offset}`: `{offset}` is not an offset in bytes");
                Unfound::Unreadable(Wrong::at(at + 1 + symbol.len(), why))
            }
        };
        self.unfound.get_or_insert(unfound);
        0
    }

    /// The first symbol that was not found in the arguments that were read.
    pub(super) fn unfound(self) -> Option<Unfound> {
        self.unfound
    }

    /// `+OFFS(FETCH)`, `-OFFS(FETCH)`, `+uOFFS(FETCH)`.
    fn memory(&mut self, text: &str, at: usize) -> Parsed<Fetch> {
        let user = text[1..].starts_with('u');
        let behind = if user { 2 } else { 1 };
        let Some(open) = text.find('(') else {
            return Err(Wrong::at(
                at,
                format!("`{text}`: an offset is followed by (FETCH)"),
            ));
        };
        // The kernel skips one plus, and reads what follows as a number with a sign.
        let digits = match open >= behind {
            true => &text[behind..open],
            false => "",
        };
        let offset = match text.starts_with('-') {
            true => number::signed(&format!("-{digits}")),
            false => number::signed(digits),
        };
        let offset = offset.ok_or_else(|| {
            let why = format!("`{}` is not an offset in bytes", &text[..open]);
            Wrong::at(at, why)
        })?;
        let inner = &text[open + 1..];
        let Some(close) = inner.rfind(')') else {
            return Err(Wrong::at(at + text.len(), "a `)` is missing"));
        };
        self.depth += 1;
        if self.dialect.deepest().is_some_and(|deepest| self.depth > deepest) {
            let why = format!(
                "fetches lie {} deep in each other at most: nest less",
                self.depth - 1
            );
            return Err(Wrong::at(at, why));
        }
        let base = self.fetch(&inner[..close], at + open + 1)?;
        if matches!(base, Fetch::Comm | Fetch::Text(_)) {
            let why = format!("`{}` is a string, not an address", &inner[..close]);
            return Err(Wrong::at(at + open + 1, why));
        }
        self.step(at)?;
        self.known = None;
        Ok(Fetch::Memory {
            base: Box::new(base),
            offset,
            user,
        })
    }
}

fn immediate(text: &str, at: usize) -> Parsed<Fetch> {
    if let Some(text) = text.strip_prefix('"') {
        let text = text
            .strip_suffix('"')
            .ok_or_else(|| Wrong::at(at + 1 + text.len(), "the string has no end: a `\"` is missing"))?;
        return Ok(Fetch::Text(text.to_owned()));
    }
    let number = match text.as_bytes().first() {
        Some(b'0'..=b'9') => number::unsigned(text),
        Some(b'-') => number::signed(text).map(i64::cast_unsigned),
        Some(b'+') => number::signed(&text[1..]).map(i64::cast_unsigned),
        _ => None,
    };
    let number = number.ok_or_else(|| Wrong::at(at, format!("`\\{text}` is no number of 64 bits")))?;
    Ok(Fetch::Immediate(number))
}
