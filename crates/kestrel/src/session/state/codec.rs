//! The state as a session keeps it: JSON text in a frozen map, one value for all.

use super::{State, VERSION};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};

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
        let mut text = serde_json::to_vec(self).map_err(failed)?;
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
    pub fn from_map(map: &Map, session: &str) -> Result<Self> {
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

    fn from_json(bytes: &[u8]) -> std::result::Result<Self, String> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let value: serde_json::Value =
            serde_json::from_slice(&bytes[..end]).map_err(|error| error.to_string())?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {
                serde_json::from_value(value).map_err(|error| error.to_string())
            }
            Some(other) => {
                let tracer = value
                    .get("tracer")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("?");
                Err(format!(
                    "it was made by Kestrel {tracer}, whose sessions are of version {other}; this is {}, of version {VERSION}",
                    env!("CARGO_PKG_VERSION")
                ))
            }
            None => Err("it has no version".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TableState;
    use super::*;
    use kestrel_hook::hook::control::Table;

    fn text(state: &State) -> Vec<u8> {
        serde_json::to_vec(state).unwrap()
    }

    #[test]
    fn what_is_written_is_read_with_zeros_behind_it() {
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
    fn another_version_is_told_apart_from_damage() {
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
