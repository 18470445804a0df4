//! `#pragma pack`: how closely members of C structs lie. Other pragmas mean nothing here.

use super::Lexer;
use std::rc::Rc;

impl Lexer<'_> {
    /// Most bytes that members of structures are aligned by now; 0 for no limit.
    pub(in crate::lang) fn pack(&self) -> u64 {
        self.preprocessor.as_ref().map_or(0, |p| p.pack)
    }

    /// `pack(1)`, `pack(push, 1)`, `pack(pop)`, `pack()`; other pragmas speak to a C compiler.
    pub(super) fn pragma(&mut self, rest: &str) {
        let words = rest
            .trim()
            .strip_prefix("pack")
            .and_then(|rest| rest.trim().strip_prefix('(')?.split(')').next());
        let (Some(words), Some(preprocessor)) = (words, &mut self.preprocessor) else {
            return;
        };
        let packs = Rc::make_mut(&mut preprocessor.packs);
        let mut pack = match words.trim().is_empty() {
            true => 0,
            false => preprocessor.pack,
        };
        for word in words.split(',').map(str::trim) {
            match word {
                "push" => {
                    packs.push(preprocessor.pack);
                    pack = preprocessor.pack;
                }
                "pop" => pack = packs.pop().unwrap_or(0),
                // As in C, other numbers mean nothing; a name of what is pushed has no use here.
                _ => {
                    let most = word
                        .parse()
                        .ok()
                        .filter(|most| [0, 1, 2, 4, 8, 16].contains(most));
                    if let Some(most) = most {
                        pack = most;
                    }
                }
            }
        }
        preprocessor.pack = pack;
    }
}
