//! `@x[keys]` as a place in a map: the map that its name means, made at its first use.

use super::content::scalar_type;
use super::key::flat;
use crate::check::checker::{Checked, Checker};
use crate::check::shape::{Clearing, Stored};
use crate::check::tree::{Expr, MapPlace, Type};
use crate::check::value::constant;
use crate::context::END;
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::aggregate::{EVERY_KEY, MAX_KEY, MapType, ValueKind, state};
use kestrel_trace::layout::FieldType;
use std::sync::Arc;

/// Generations of a map without keys that are kept apart, a power of two: those that were cleared are read a moment later.
const GENERATIONS: u32 = 64;

/// Most bytes of a map whose values are [shared](ValueKind::is_shared), where the program says nothing: as many as all the short series that one CPU may have.
const SHARED_BYTES: u32 = 64 << 20;

/// Kind of use of a map: reading or changing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum Usage {
    Reads,
    Writes,
    /// Deletes keys, or asks for one.
    Keys,
}

impl Checker<'_> {
    /// A place in a map, which is made if this is its first use. `kind` is what this use holds it for, if it cares; `assumed` what a new map holds.
    pub(in crate::check) fn map_place(
        &mut self,
        name: &str,
        keys: &[&ast::Expr],
        kind: Option<&ValueKind>,
        assumed: &ValueKind,
        usage: Usage,
        span: Span,
    ) -> Checked<MapPlace> {
        self.notes_use(name);
        let mut checked = Vec::new();
        for key in flat(keys) {
            let value = match keys {
                // A tuple that is the whole key has the parts of one that is written out.
                [_] if !matches!(key.kind, ast::ExprKind::Tuple(_)) => self.parts_of_key(key),
                _ => None,
            };
            match value {
                Some(parts) => checked.extend(parts),
                None => checked.push(self.map_key(key)),
            }
        }
        let checked: Vec<(FieldType, Expr)> = checked.into_iter().collect::<Checked<_>>()?;
        let (mut types, mut keys): (Vec<FieldType>, Vec<Expr>) = checked.into_iter().unzip();
        if self.globals.infers_types {
            (types, keys) = self.key_shape(name, types, keys, span)?;
        }
        let map = match self.globals.map(name).cloned() {
            Some(map) => {
                self.agree_on_keys(&map, &keys, span)?;
                match kind {
                    Some(kind) => self.agree_on_value(map, kind, span)?,
                    None => map,
                }
            }
            None => {
                let known = match (
                    usage,
                    self.globals.shapes.maps.get(name).and_then(|s| s.value.clone()),
                ) {
                    (Usage::Writes, _) | (_, None) => None,
                    (_, Some(Stored::Aggregation(aggregation))) => Some(ValueKind::Aggregation(aggregation)),
                    (_, Some(Stored::Value(ty))) => {
                        let nothing = constant(0, Type::I64, span);
                        self.value_kind_of(&nothing, &ty)
                            .ok()
                            .map(|kind| (kind, ty))
                            .map(|(kind, ty)| {
                                self.globals.held.insert(self.next_map(), ty);
                                kind
                            })
                    }
                };
                let assumed = known.as_ref().unwrap_or(assumed);
                let map = self.new_map(name.to_owned(), types, assumed.clone(), false, span)?;
                // A later handler may still write it, so the error waits until all handlers are checked.
                if usage != Usage::Writes {
                    let used = match usage {
                        Usage::Keys => "used",
                        _ => "read",
                    };
                    let message = format!("{} is {used}, but no handler writes it", map.title());
                    if usage == Usage::Keys {
                        self.globals.open.insert(map.number);
                    }
                    // As in bpftrace, scripts may read what nothing writes.
                    let found = match usage == Usage::Reads && self.globals.infers_types {
                        true => {
                            let message =
                                format!("nothing is ever stored in {}: it is read as 0", map.title());
                            Diagnostic::warning(span, message)
                        }
                        false => Diagnostic::error(span, message),
                    };
                    let entry = (map.number, found.hint(begins(&map)));
                    self.globals.unwritten.push(entry);
                }
                map
            }
        };
        if usage != Usage::Keys {
            self.globals.open.remove(&map.number);
        }
        if usage == Usage::Writes {
            self.globals.unwritten.retain(|(number, _)| *number != map.number);
        }
        Ok(MapPlace {
            map: Arc::new(map),
            keys,
        })
    }

    /// A place in a map of which only the keys matter: with some, it need not be known what the map holds.
    pub(super) fn any_place(&mut self, name: &str, keys: &[&ast::Expr], span: Span) -> Checked<MapPlace> {
        let kind = match self.globals.map(name) {
            None if !keys.is_empty() => ValueKind::Scalar(scalar_type(&Type::I64)),
            _ => self.known_map(name, span)?.value,
        };
        self.map_place(name, keys, None, &kind, Usage::Keys, span)
    }

    pub(crate) fn known_map(&mut self, name: &str, span: Span) -> Checked<MapType> {
        if let Some(map) = self.globals.map(name) {
            return Ok(map.clone());
        }
        if let Some(map) = self.foreseen_map(name, span) {
            return map;
        }
        let names: Vec<String> = self.globals.maps.iter().map(MapType::title).collect();
        let hint = did_you_mean(&format!("@{name}"), names.iter().map(String::as_str));
        let message = match self.globals.infers_types {
            true => format!("Undefined map: @{name}"),
            false => format!("there is no map @{name} so far: nothing before this writes it"),
        };
        let hint = hint.unwrap_or_else(|| match self.globals.infers_types {
            true => format!("a map begins where something is stored in it: @{name} = 1, @{name} = count()"),
            false => "put the handler that writes it first".to_owned(),
        });
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// A map of which all that is known comes from handlers further on.
    fn foreseen_map(&mut self, name: &str, span: Span) -> Option<Checked<MapType>> {
        let shape = self.globals.shapes.maps.get(name).cloned()?;
        let (keys, value) = (shape.keys?, shape.value?);
        let kind = match value {
            Stored::Aggregation(aggregation) => ValueKind::Aggregation(aggregation),
            Stored::Value(ty) => {
                let kind = self.value_kind_of(&constant(0, Type::I64, span), &ty).ok()?;
                self.globals.held.insert(self.next_map(), ty);
                kind
            }
        };
        let types = keys.iter().map(|key| self.kept_key(key));
        let types = types.collect::<Option<Vec<_>>>()?;
        let made = self.new_map(name.to_owned(), types, kind, false, span);
        if let Ok(map) = &made {
            let message = format!("{} is used, but no handler writes it", map.title());
            let entry = (map.number, Diagnostic::error(span, message).hint(begins(map)));
            self.globals.unwritten.push(entry);
        }
        Some(made)
    }

    pub(super) fn new_map(
        &mut self,
        name: String,
        keys: Vec<FieldType>,
        value: ValueKind,
        by_event: bool,
        span: Span,
    ) -> Checked<MapType> {
        let number = self.next_map();
        if number >= state::MAX_MAPS {
            return Err(self.error(span, format!("there can be at most {} maps", state::MAX_MAPS)));
        }
        let declared = self.globals.declared.get(&name);
        // A map of a single value has no elements to evict.
        let evicts = declared.is_some_and(|map| map.evicts) && !keys.is_empty();
        let map = MapType {
            number,
            entries: self.entries(&name, &keys, &value),
            marks: self.marks(&name, &keys, &value),
            keys,
            value,
            evicts,
            generations: self.has_generations(&name),
            name,
            by_event,
            first: self.context.name.clone(),
        };
        let most = match self.globals.infers_types {
            true => MAX_KEY,
            false => EVERY_KEY,
        };
        if map.key_size() > most {
            let message = format!(
                "these keys take {} bytes; there is room for {most}",
                map.key_size()
            );
            let hint = "limit strings: str(p, 64)";
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        self.globals.maps.push(map.clone());
        Ok(map)
    }

    /// Notes that a handler reads a map, or writes it: at a script's end, what the script cleared there must have gone.
    pub(in crate::check) fn notes_use(&mut self, name: &str) {
        if self.context.name == END {
            self.globals.shapes.notes_clearing(name, Clearing::UsedAtEnd);
        }
    }

    /// Notes that a handler clears a map.
    pub(super) fn notes_cleared(&mut self, name: &str, zeroed: bool) {
        let clearing = match self.context.name == END && !zeroed {
            true => Clearing::ClearedAtEnd,
            false => Clearing::Cleared,
        };
        self.globals.shapes.notes_clearing(name, clearing);
    }

    /// Whether a map's keys say when they were written: not where all handlers are known, and none clears the map before the end.
    fn has_generations(&self, name: &str) -> bool {
        !self.globals.infers_types || self.globals.shapes.is_cleared(name)
    }

    /// Whether handlers mark a new map as written. Those of persistent sessions do not: there all counters are shown from the start.
    pub(super) fn marks(&self, name: &str, keys: &[FieldType], value: &ValueKind) -> bool {
        !self.globals.persistent
            && keys.is_empty()
            && !MapType::is_hidden_name(name)
            && value.may_hold_zeroes()
    }

    /// The number of the next map. One that a session has let go of leaves its number behind.
    fn next_map(&self) -> u32 {
        let taken = |number: &u32| self.globals.maps.iter().any(|map| map.number == *number);
        (0..state::MAX_MAPS)
            .find(|number| !taken(number))
            .unwrap_or(state::MAX_MAPS)
    }

    /// Number of keys that a new map has room for.
    pub(super) fn entries(&self, name: &str, keys: &[FieldType], value: &ValueKind) -> u32 {
        let hidden = MapType::is_hidden_name(name);
        let declared = self.globals.declared.get(name).map(|map| map.entries);
        match declared.or(self.globals.max_map_keys) {
            _ if keys.is_empty() && value.is_per_cpu() && self.globals.infers_types => {
                let fitting = SHARED_BYTES / value.size().max(1);
                match value.is_shared() {
                    true => (1 << fitting.max(2).ilog2()).min(GENERATIONS),
                    false => GENERATIONS,
                }
            }
            _ if keys.is_empty() => 1,
            Some(most) if !hidden && value.is_shared() && declared.is_none() => {
                most.clamp(1, (SHARED_BYTES / value.size().max(1)).max(1))
            }
            Some(most) if !hidden => most.max(1),
            _ => MapType::fitting_entries(value.size()),
        }
    }
}

/// Where a map begins, for people.
fn begins(map: &MapType) -> String {
    let keys = if map.keys.is_empty() { "" } else { "[…]" };
    let place = format!("{}{keys}", map.title());
    format!("a map begins where something is stored in it: {place} = 1, {place} = count()")
}
