//! Places in the bodies of macros: each call has a copy of its macro's text behind the sources, so that a place says which call it is of.
//! A [`Span`] stays two offsets: [`Copy`] turns those in a macro into those in a copy, and a diagnostic finds the macro and its calls by the lines before copies.

use super::ast::Span;

/// Begins a line that says of what the text behind it is a copy, and which call the copy is for.
const COPY: char = '\u{1e}';
/// Most bytes of all copies. Macros that are called more often have the places of their calls.
const MAX_BYTES: usize = 4 << 20;

/// The copies of a script: text for behind its sources.
#[derive(Debug)]
pub(super) struct Copies<'a> {
    sources: &'a str,
    text: String,
}

/// A copy of a macro's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    /// What it is a copy of.
    of: Span,
    /// Where it begins.
    start: u32,
}

impl<'a> Copies<'a> {
    pub(super) fn new(sources: &'a str) -> Self {
        Self {
            sources,
            text: String::new(),
        }
    }

    /// Adds a copy of a macro for a call; `None` beyond the limit.
    pub(super) fn add(&mut self, of: Span, call: Span) -> Option<Copy> {
        let body = self.sources.get(of.start as usize..of.end as usize)?;
        if self.text.len() + body.len() > MAX_BYTES {
            return None;
        }
        self.text += &format!("\n{COPY}{} {} {}\n", of.start, call.start, call.end);
        let start = u32::try_from(self.sources.len() + self.text.len()).ok()?;
        self.text.push_str(body);
        Some(Copy { of, start })
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

impl Copy {
    /// The place in the copy of a place in the macro.
    pub(super) fn place(self, own: Span) -> Option<Span> {
        let inside = self.of.start <= own.start && own.end <= self.of.end;
        inside.then(|| Span {
            start: own.start - self.of.start + self.start,
            end: own.end - self.of.start + self.start,
        })
    }
}

/// Where the text at a place was written, and the call of a macro that brought it here.
fn step(text: &str, span: Span) -> Option<(Span, Span)> {
    let before = text.as_bytes().get(..span.start as usize)?;
    let marker = before.iter().rposition(|byte| char::from(*byte) == COPY)?;
    if before[..marker].last() != Some(&b'\n') {
        return None;
    }
    let (head, _) = text.get(marker + COPY.len_utf8()..)?.split_once('\n')?;
    let start = u32::try_from(marker + COPY.len_utf8() + head.len() + 1).ok()?;
    let numbers: Vec<u32> = head.split(' ').map_while(|number| number.parse().ok()).collect();
    let &[of, call_start, call_end] = numbers.as_slice() else {
        return None;
    };
    // Sources and earlier copies come first, so that steps end whatever a text has in it.
    let marker = u32::try_from(marker).ok()?;
    if of.max(call_start) >= marker || span.start < start {
        return None;
    }
    let moved = |at: u32| (at.saturating_sub(start)).saturating_add(of);
    let written = Span {
        start: moved(span.start),
        end: moved(span.end.max(span.start)),
    };
    let call = Span {
        start: call_start,
        end: call_end,
    };
    Some((written, call))
}

/// Where the text at a place was written.
pub(super) fn written(text: &str, span: Span) -> Span {
    step(text, span).map_or(span, |(written, _)| written)
}

/// The calls of macros that a place stands in, the innermost first, each where it was written.
pub(super) fn calls(text: &str, mut span: Span) -> Vec<Span> {
    let mut calls = Vec::new();
    while let Some((_, call)) = step(text, span) {
        calls.push(written(text, call));
        span = call;
    }
    calls
}

/// The place in the sources that a place came from: the outermost call.
pub(super) fn outermost(text: &str, mut span: Span) -> Span {
    while let Some((_, call)) = step(text, span) {
        span = call;
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_copy_is_that_of_the_macro_and_its_calls() {
        let sources = "macro m() { bad } macro n() { m() } begin { n() }";
        let find = |needle: &str| {
            let start = sources.rfind(needle).unwrap() as u32;
            Span {
                start,
                end: start + needle.len() as u32,
            }
        };
        let (m, n) = (Span { start: 0, end: 17 }, Span { start: 18, end: 35 });
        let mut copies = Copies::new(sources);
        let outer = copies.add(n, find("n()")).unwrap();
        let call = outer.place(find("m()")).unwrap();
        let inner = copies.add(m, call).unwrap();
        let place = inner.place(find("bad")).unwrap();
        assert_eq!(inner.place(find("begin")).map(|span| span.start), None);
        let text = format!("{sources}{}", copies.finish());
        assert_eq!(&text[place.start as usize..place.end as usize], "bad");
        assert_eq!(written(&text, place), find("bad"));
        assert_eq!(calls(&text, place), [find("m()"), find("n()")]);
        assert_eq!(outermost(&text, place), find("n()"));
        assert_eq!(calls(&text, find("bad")), []);
    }

    #[test]
    fn a_text_that_looks_like_copies_does_no_harm() {
        for head in [
            "0 90 99",
            "90 0 1",
            "x",
            "1 2",
            "1 2 3 4",
            "0 0 99",
            "4294967295 0 4294967295",
        ] {
            let text = format!("begin\n{COPY}{head}\nmore text ä");
            for start in 0..text.len() as u32 + 2 {
                let span = Span {
                    start,
                    end: start + 5,
                };
                assert!(calls(&text, span).len() < 2);
                assert!(written(&text, span).start <= start.max(7));
            }
        }
    }
}
