//! Pieces of memory that arguments of a call point to, as far as it was recorded: by argument, and by the pointers in what is there.

/// Pieces of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    place: usize,
    part: usize,
    bytes: Vec<u8>,
}

impl Pieces {
    /// Adds what the argument at a place points to (part 0), or what the `part`th pointer in that points to.
    pub fn insert(&mut self, place: usize, part: usize, bytes: &[u8]) {
        self.0.push(Piece {
            place,
            part,
            bytes: bytes.to_vec(),
        });
    }

    /// The pieces with their places moved on by `by`.
    pub(super) fn shifted(mut self, by: usize) -> Self {
        self.0.iter_mut().for_each(|piece| piece.place += by);
        self
    }

    /// Recorded bytes at a place.
    pub fn get(&self, place: usize, part: usize) -> Option<&[u8]> {
        let found = self.0.iter().find(|it| it.place == place && it.part == part);
        found.map(|it| it.bytes.as_slice())
    }

    /// Adds a field of a record, where its name is that of a piece: `mem1`, `mem1_2`, `text0`.
    pub(super) fn read(&mut self, field: &str, bytes: &[u8]) {
        let place = field
            .strip_prefix(super::moment::TEXT)
            .or_else(|| field.strip_prefix(super::moment::MEMORY));
        let Some(place) = place else { return };
        let (place, part) = place.split_once('_').unwrap_or((place, "0"));
        if let (Ok(place), Ok(part)) = (place.parse(), part.parse()) {
            self.insert(place, part, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let mut pieces = Pieces::default();
        for (field, bytes) in [
            ("text0", "a"),
            ("mem1", "b"),
            ("mem1_2", "c"),
            ("memory", "d"),
            ("id", "e"),
        ] {
            pieces.read(field, bytes.as_bytes());
        }
        let get = |place, part| pieces.get(place, part);
        assert_eq!(get(0, 0), Some(&b"a"[..]));
        assert_eq!((get(1, 0), get(1, 2)), (Some(&b"b"[..]), Some(&b"c"[..])));
        assert_eq!((get(1, 1), pieces.0.len()), (None, 3));
    }
}
