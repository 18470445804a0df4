//! Rows of a session's programs that make one handler, and which handlers a command line names.

use crate::session::state::{HandlerState, HookState, ProgramState, State};
use kestrel_catalog::catalog::Glob;
use std::collections::{BTreeSet, HashMap};

/// Place of a handler in the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandlerPlace {
    pub(super) hook: usize,
    pub(super) program: usize,
    pub(super) row: usize,
}

/// A row among those of a handler.
#[derive(Clone, Debug)]
pub(super) struct Part<'s> {
    pub(super) place: HandlerPlace,
    pub(super) hook: &'s HookState,
    pub(super) program: &'s ProgramState,
    pub(super) row: &'s HandlerState,
    /// Kinds of record of the program's rows before it.
    pub(super) before: u16,
}

impl<'s> Part<'s> {
    /// Whether all that it writes is for an agent.
    pub(super) fn only_asks(&self) -> bool {
        self.program.only_asks(self.before, self.row.records)
    }

    /// The events, each with the number that it is counted under, and that of this row's first record of it.
    pub(super) fn events(&self) -> impl Iterator<Item = (&'s str, u64, u64)> {
        let (hook, program, row) = (self.hook, self.program, self.row);
        let before = u64::from(self.before);
        let places = (0u16..).zip(&hook.events);
        let own = places.filter(|(place, _)| row.events.is_empty() || row.events.contains(place));
        own.filter_map(move |(place, event)| {
            let number = u64::from(program.number_of(place)?);
            Some((event.name.as_str(), number, number + before))
        })
    }
}

/// A handler's rows: the same text in the same tables.
#[derive(Clone, Debug)]
pub(super) struct Group<'s> {
    /// Names of its tables.
    pub(super) tables: Vec<&'s str>,
    pub(super) parts: Vec<Part<'s>>,
}

impl Group<'_> {
    /// The names, those of its first table first: in full, and how long what stands before the event is.
    pub(super) fn names(&self) -> impl Iterator<Item = (String, usize)> {
        let events = |table: &&str| {
            let before = format!("{table}/");
            let events = self.parts.iter().flat_map(Part::events);
            events.map(move |(event, ..)| (format!("{before}{event}"), before.len()))
        };
        self.tables.iter().flat_map(events)
    }

    pub(super) fn name(&self) -> String {
        self.names().next().map_or_else(String::new, |(name, _)| name)
    }

    pub(super) fn maps(&self) -> BTreeSet<u32> {
        self.parts
            .iter()
            .flat_map(|part| part.row.maps.iter().copied())
            .collect()
    }

    /// Numbers under which events are counted.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.parts
            .iter()
            .flat_map(Part::events)
            .map(|(_, number, _)| number)
            .collect()
    }
}

/// The handlers of a session.
pub(super) fn groups(state: &State) -> Vec<Group<'_>> {
    let mut all: Vec<(usize, Group<'_>)> = Vec::new();
    let mut known: HashMap<(&str, &[u32]), usize> = HashMap::new();
    for (hook, on) in state.hooks.iter().enumerate() {
        for (program, of) in on.programs.iter().enumerate() {
            let mut before = 0;
            for (index, row) in of.rows.iter().enumerate() {
                let part = Part {
                    place: HandlerPlace {
                        hook,
                        program,
                        row: index,
                    },
                    hook: on,
                    program: of,
                    row,
                    before,
                };
                before += row.records;
                let places = (0..).zip(&state.tables);
                let mut tables = places
                    .filter(|(_, table)| row.tables.contains(&table.number))
                    .peekable();
                let Some((first, _)) = tables.peek().copied() else {
                    continue; // its tables are gone
                };
                let group = *known.entry((&row.source, &row.tables)).or_insert_with(|| {
                    let tables = tables.map(|(_, table)| table.name.as_str()).collect();
                    all.push((
                        first,
                        Group {
                            tables,
                            parts: Vec::new(),
                        },
                    ));
                    all.len() - 1
                });
                all[group].1.parts.push(part);
            }
        }
    }
    // Hooks are in the order of attaching; readers expect that of the tables.
    all.sort_by_key(|(first, _)| *first);
    all.into_iter().map(|(_, group)| group).collect()
}

/// Predicate over a handler's full name and its event: whether they fit what was typed.
type NamePredicate<'a> = dyn Fn(&str, &str) -> bool + 'a;

/// Handlers that a text means: the first way of reading it that fits any.
pub(super) fn choose(all: &[Group<'_>], wanted: &str) -> Vec<usize> {
    let pattern = Glob::new(wanted);
    let ways: [&NamePredicate; 4] = [
        &|full, _| full == wanted,
        &|_, event| event == wanted,
        &|full, event| pattern.matches(full) || pattern.matches(event),
        &|full, event| full.starts_with(wanted) || event.starts_with(wanted),
    ];
    let fitting = |fits: &&NamePredicate| -> Vec<usize> {
        let any = |group: &Group<'_>| group.names().any(|(full, at)| fits(&full, &full[at..]));
        let fitting = all.iter().enumerate().filter(|(_, group)| any(group));
        fitting.map(|(index, _)| index).collect()
    };
    ways.iter()
        .map(fitting)
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::state::{EventState, TableState};

    fn row(source: &str, tables: &[u32], records: u16, events: &[u16]) -> HandlerState {
        HandlerState {
            source: source.into(),
            tables: tables.to_vec(),
            records,
            events: events.to_vec(),
            ..HandlerState::default()
        }
    }

    fn hook(events: &[&str], first: u16, records: u16, rows: Vec<HandlerState>) -> HookState {
        let event = |name: &&str| EventState {
            name: (*name).to_owned(),
            ..EventState::default()
        };
        HookState {
            events: events.iter().map(event).collect(),
            programs: vec![ProgramState {
                first,
                records,
                rows,
                ..ProgramState::default()
            }],
            ..HookState::default()
        }
    }

    fn state() -> State {
        let table = |(number, name): (u32, &str)| TableState {
            name: name.to_owned(),
            number,
            ..TableState::default()
        };
        State {
            tables: [(1, "one"), (2, "two")].map(table).to_vec(),
            hooks: vec![
                hook(
                    &["s:open"],
                    5,
                    2,
                    vec![row("b", &[2], 1, &[]), row("a", &[1], 1, &[])],
                ),
                hook(
                    &["s:read", "s:write"],
                    7,
                    2,
                    vec![
                        row("a", &[1], 1, &[1]),
                        row("d", &[1, 2], 1, &[0]),
                        row("c", &[9], 0, &[]),
                    ],
                ),
            ],
            ..State::default()
        }
    }

    #[test]
    fn rows_of_one_text_are_one_handler() {
        let state = state();
        let all = groups(&state);
        let names: Vec<String> = all.iter().map(Group::name).collect();
        assert_eq!(
            names,
            ["one/s:open", "one/s:read", "two/s:open"],
            "one whose table is gone is not there"
        );
        let events = |index: usize| -> Vec<_> { all[index].parts.iter().flat_map(Part::events).collect() };
        assert_eq!(events(0), [("s:open", 5, 6), ("s:write", 9, 9)]);
        assert_eq!(events(1), [("s:read", 7, 8)]);
        assert_eq!(all[1].names().count(), 2, "a name for each of its tables");
    }

    #[test]
    fn a_handler_is_named_by_what_it_has_alone() {
        let state = state();
        let all = groups(&state);
        for (wanted, found) in [
            ("one/s:open", &[0][..]),
            ("one/s:write", &[0]),
            ("two/s:read", &[1]),
            ("s:write", &[0]),
            ("s:open", &[0, 2]),
            ("two/*pen", &[2]),
            ("*ite", &[0]),
            ("one/s:r", &[1]),
            ("s:w", &[0]),
            ("two", &[1, 2]),
            ("three", &[]),
        ] {
            assert_eq!(choose(&all, wanted), found, "{wanted}");
        }
    }
}
