//! Unpacks LZO1X, makedumpfile's `-l`, from bytes of which nothing is believed; written after the kernel's Documentation/staging/lzo.rst.
//!
//! An instruction copies bytes that were unpacked before, then up to three literal ones; what the smallest instructions mean depends on how many
//! literals the one before them copied.

/// The marker of a stream's end: a copy from this far back.
const END: usize = 16384;

/// The packed bytes, taken from the front, and what came of them so far.
struct Stream<'a> {
    packed: &'a [u8],
    page: &'a mut [u8],
    done: usize,
}

/// Unpacks `packed` into `page`; whether it was filled exactly, and the stream ended there.
pub(super) fn unpack(packed: &[u8], page: &mut [u8]) -> bool {
    let wanted = page.len();
    let mut stream = Stream {
        packed,
        page,
        done: 0,
    };
    stream.run().is_some() && stream.done == wanted
}

impl Stream<'_> {
    /// Unpacks to the end of the stream; `None` for a stream that breaks the rules.
    fn run(&mut self) -> Option<()> {
        // Literals copied by the last instruction; 4 stands for 4 or more.
        let mut literals = 0;
        if let Some(first @ 18..) = self.packed.first().copied() {
            self.byte()?;
            literals = usize::from(first - 17);
            self.literals(literals)?;
            literals = literals.min(4);
        }
        loop {
            let instruction = self.byte()?;
            let low = instruction & 3;
            let two = instruction >> 2;
            // How far back to copy from, how many bytes, and how many literals follow. The first byte says which of the document's forms it is: those
            // from 16 on have their own meaning, those below it mean what the literals before them leave open.
            let (distance, length, follow) = match instruction {
                64.. => {
                    let distance = (self.byte()? << 3) + (two & 7) + 1;
                    (distance, (instruction >> 5) + 1, low)
                }
                32.. => {
                    let length = self.length(instruction & 31, 31)? + 2;
                    let word = self.word()?;
                    ((word >> 2) + 1, length, word & 3)
                }
                16.. => {
                    let length = self.length(instruction & 7, 7)? + 2;
                    let word = self.word()?;
                    let distance = END + ((instruction & 8) << 11) + (word >> 2);
                    if distance == END {
                        return self.packed.is_empty().then_some(());
                    }
                    (distance, length, word & 3)
                }
                _ if literals == 0 => {
                    let run = self.length(instruction, 15)? + 3;
                    self.literals(run)?;
                    literals = 4;
                    continue;
                }
                _ if literals == 4 => ((self.byte()? << 2) + two + 2049, 3, low),
                _ => ((self.byte()? << 2) + two + 1, 2, low),
            };
            self.copy(distance, length)?;
            self.literals(follow)?;
            literals = follow;
        }
    }

    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = self.packed.split_first()?;
        self.packed = rest;
        Some(usize::from(*first))
    }

    fn word(&mut self) -> Option<usize> {
        Some(self.byte()? | self.byte()? << 8)
    }

    /// A length as it stands in the instruction, or, where that is 0, in the bytes that follow: each 0 is 255 more.
    fn length(&mut self, short: usize, most: usize) -> Option<usize> {
        if short != 0 {
            return Some(short);
        }
        let mut length = most;
        loop {
            match self.byte()? {
                // Longer than any page: the sum is small.
                _ if length > self.page.len() + most => return None,
                0 => length += 255,
                last => return Some(length + last),
            }
        }
    }

    fn literals(&mut self, number: usize) -> Option<()> {
        let (literals, rest) = self.packed.split_at_checked(number)?;
        let room = self.page.get_mut(self.done..)?.get_mut(..number)?;
        room.copy_from_slice(literals);
        self.packed = rest;
        self.done += number;
        Some(())
    }

    /// Copies what was unpacked `distance` bytes ago; the two may overlap, so byte by byte.
    fn copy(&mut self, distance: usize, length: usize) -> Option<()> {
        let from = self.done.checked_sub(distance)?;
        let end = self.done + length;
        if end > self.page.len() {
            return None;
        }
        for (at, to) in (from..).zip(self.done..end) {
            self.page[to] = self.page[at];
        }
        self.done = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_packed_by_another_lzo_library_are_unpacked(seed in prop::collection::vec(0_u8..6, 1..600), times in 1_usize..9) {
            let page: Vec<u8> = seed.iter().copied().cycle().take(seed.len() * times).chain(seed.iter().map(|b| b * 37)).collect();
            let packed = lzokay_native::compress(&page).unwrap();
            let mut out = vec![0; page.len()];
            prop_assert!(unpack(&packed, &mut out));
            prop_assert_eq!(out, page);
        }

        #[test]
        fn copies_from_far_back_come_back(distance in 16_384_usize..49_000, length in 64_usize..600) {
            let mut state = 1_u32;
            let noise = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            let mut page: Vec<u8> = noise.take(distance).collect();
            page.extend_from_within(..length);
            let packed = lzokay_native::compress(&page).unwrap();
            prop_assert!(packed.len() < distance + distance / 20 + 100);
            let mut out = vec![0; page.len()];
            prop_assert!(unpack(&packed, &mut out));
            prop_assert_eq!(out, page);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            unpack(&bytes, &mut [0; 4096]);
        }
    }
}
