//! The state as a session keeps it: JSON text in a frozen map, one value for all. A handler of many events is a row of every hook of theirs, with its whole source: a source stands
//! there once, and rows have its index. A table of 800 events that names each of them would have 20 MiB of state otherwise.

use super::{HandlerState, State, VERSION};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;

impl State {
    /// Writes it into a map of its own, which is frozen.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn to_map(&self) -> Result<Map> {
        let failed = |error: serde_json::Error| Error::State {
            session: self.name.clone(),
            why: error.to_string(),
        };
        let mut text = serde_json::to_vec(&self.with_sources_apart()).map_err(failed)?;
        text.resize((text.len() + 1).next_multiple_of(8), 0);
        let map = Map::create(&MapSpec::new(
            MapKind::ARRAY,
            "kestrel_state",
            4,
            text.len() as u32,
            1,
        ))?;
        map.update(&0u32.to_ne_bytes(), &text, ValueCheck::Any)?;
        map.freeze()?;
        Ok(map)
    }

    /// Reads it from its map.
    ///
    /// # Errors
    /// When the map holds something else, or what another version of Kestrel wrote.
    pub(crate) fn from_map(map: &Map, session: &str) -> Result<Self> {
        let wrong = |why: String| Error::State {
            session: session.to_owned(),
            why,
        };
        let empty = || wrong("its map is empty".to_owned());
        if map.info().key_size != 4 {
            return Err(empty());
        }
        let bytes = map.lookup(&0u32.to_ne_bytes())?.ok_or_else(empty)?;
        Self::from_json(&bytes).map_err(wrong)
    }

    /// The state with each source in [`State::sources`] once, and its index there in the handlers.
    fn with_sources_apart(&self) -> Self {
        let mut state = self.clone();
        let mut places: HashMap<Arc<str>, Arc<str>> = HashMap::new();
        let mut sources = Vec::new();
        for row in state.rows_mut() {
            let place = places.entry(row.source.clone()).or_insert_with(|| {
                sources.push(row.source.clone());
                (sources.len() - 1).to_string().into()
            });
            row.source = place.clone();
        }
        state.sources = sources;
        state
    }

    /// Gives the handlers the sources at their indices in [`State::sources`].
    fn take_sources(&mut self) -> std::result::Result<(), String> {
        let sources = std::mem::take(&mut self.sources);
        for row in self.rows_mut() {
            let place = row.source.parse::<usize>().ok();
            let source = place.and_then(|place| sources.get(place));
            row.source = source
                .ok_or_else(|| {
                    format!(
                        "a handler has source {}, but the state has {}",
                        row.source,
                        sources.len()
                    )
                })?
                .clone();
        }
        Ok(())
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = &mut HandlerState> {
        let programs = self.hooks.iter_mut().flat_map(|hook| &mut hook.programs);
        programs.flat_map(|program| &mut program.rows)
    }

    fn from_json(bytes: &[u8]) -> std::result::Result<Self, String> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let text = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
        let origin: Origin = read(text)?;
        match origin.version {
            Some(VERSION) => {
                let mut state: Self = read(text)?;
                state.take_sources()?;
                Ok(state)
            }
            Some(other) => Err(format!(
                "it was made by Kestrel {}, whose sessions are of version {other}; this is {}, of version {VERSION}",
                origin.tracer.as_deref().unwrap_or("?"),
                env!("CARGO_PKG_VERSION")
            )),
            None => Err("it has no version".to_owned()),
        }
    }
}

/// Which Kestrel wrote a state, and in which version: readable whatever the rest of it is.
#[derive(Deserialize)]
struct Origin {
    version: Option<u32>,
    tracer: Option<String>,
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> std::result::Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{HookState, ProgramState, TableState};
    use super::*;
    use kestrel_hook::hook::control::Table;

    fn text(state: &State) -> Vec<u8> {
        serde_json::to_vec(&state.with_sources_apart()).unwrap()
    }

    #[test]
    fn a_state_is_read_despite_trailing_zeros() {
        let state = State {
            version: VERSION,
            name: "s".to_owned(),
            tables: vec![TableState {
                name: "t".to_owned(),
                number: 3,
                slot: Some(2),
                ..TableState::default()
            }],
            ..State::default()
        };
        let mut bytes = text(&state);
        bytes.extend([0; 9]);
        assert_eq!(State::from_json(&bytes), Ok(state.clone()));
        assert_eq!(state.active(Table::in_slot(3, 2)), state.table("t"));
        assert_eq!(state.active(Table::known(3)), None, "an older one of this number");
        assert_eq!(state.free_slot(&[0, 1]), Some(3));
    }

    #[test]
    fn a_source_of_many_hooks_is_kept_once() {
        let row = |source: &str| HandlerState {
            source: source.into(),
            ..HandlerState::default()
        };
        let hook = |rows: Vec<HandlerState>| HookState {
            programs: vec![ProgramState {
                rows,
                ..ProgramState::default()
            }],
            ..HookState::default()
        };
        let long = "a:b, ".repeat(1000);
        let state = State {
            version: VERSION,
            hooks: (0..500)
                .map(|_| hook(vec![row(&long), row("0"), row("")]))
                .collect(),
            ..State::default()
        };
        let bytes = text(&state);
        assert!(bytes.len() < 500 * 500 + long.len(), "{} bytes", bytes.len());
        assert_eq!(State::from_json(&bytes), Ok(state));

        // Other binaries of this version of the state know the list by this name.
        assert!(String::from_utf8_lossy(&bytes).contains("\"texts\":["));

        let lost = String::from_utf8(bytes)
            .unwrap()
            .replace("\"source\":\"2\"", "\"source\":\"3\"");
        let why = State::from_json(lost.as_bytes()).unwrap_err();
        assert_eq!(why, "a handler has source 3, but the state has 3");
    }

    #[test]
    fn another_version_is_distinguished_from_damage() {
        let state = State {
            version: VERSION + 7,
            tracer: "9.9".to_owned(),
            ..State::default()
        };
        let why = State::from_json(&text(&state)).unwrap_err();
        assert!(
            why.contains("Kestrel 9.9") && why.contains(&format!("version {}", VERSION + 7)),
            "{why}"
        );
        for damage in [&b""[..], b"{}", b"[1]", b"\xff"] {
            let why = State::from_json(damage).unwrap_err();
            assert!(!why.contains("Kestrel"), "{why}");
        }
    }
}
