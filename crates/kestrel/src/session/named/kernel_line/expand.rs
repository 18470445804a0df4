//! Expansion of words of a line: parameters by their names for `$argN` and `$arg*`, fetches of names for `%pd` and `%pD`.

use super::fetch::{MAX_ARGUMENTS, Reader};
use super::number;
use super::word::{Parsed, Word, Wrong};
use kestrel_bpf::btf::Type;

/// Bytes that the kernel has for the names it puts in the place of all `$argN` and `$arg*` that stand alone, each with its end (`MAX_BTF_ARGS_LEN`).
const ROOM_FOR_PARAMETERS: usize = 128;
/// Bytes for what the kernel puts in the place of all `%pd` and `%pD` (`MAX_DENTRY_ARGS_LEN`).
const ROOM_FOR_ENTRIES: usize = 256;
/// An argument as the kernel reads it: as it is typed, or what stands for it.
pub(super) struct Expanded {
    pub(super) text: String,
    /// Where the word stands that it is, or was made of.
    pub(super) at: usize,
    pub(super) made: bool,
}

impl Expanded {
    fn typed(word: &Word<'_>) -> Self {
        Self {
            text: word.text.to_owned(),
            at: word.at,
            made: false,
        }
    }

    fn made(text: String, at: usize) -> Self {
        Self { text, at, made: true }
    }
}

impl Reader<'_> {
    /// The words of a line as the kernel reads them.
    pub(super) fn expand(&self, words: &[Word<'_>]) -> Parsed<Vec<Expanded>> {
        let mut expanded: Vec<Expanded> = Vec::new();
        let mut all_at = None;
        let mut room = ROOM_FOR_PARAMETERS;
        for word in words {
            match word.text.strip_prefix("$arg") {
                Some(rest) => {
                    if rest.starts_with('*') && all_at.replace(word.at).is_some() {
                        return Err(Wrong::at(word.at, "`$arg*` can be there once"));
                    }
                    expanded.extend(self.parameters(rest, word, &mut room)?);
                }
                None => expanded.push(Expanded::typed(word)),
            }
        }
        let mut room = ROOM_FOR_ENTRIES;
        for argument in &mut expanded {
            if let Some(text) = self.entry_of_directory(&argument.text, argument.at)? {
                fits(&mut room, &text, argument.at)?;
                *argument = Expanded::made(text, argument.at);
            }
        }
        if expanded.len() > MAX_ARGUMENTS {
            let at = all_at.unwrap_or_default();
            return Err(Wrong::at(at, "a probe has 128 arguments at most"));
        }
        Ok(expanded)
    }

    /// Expansions of `$argN…` and `$arg*` where they stand alone: parameters by their names.
    fn parameters(&self, rest: &str, word: &Word<'_>, room: &mut usize) -> Parsed<Vec<Expanded>> {
        let as_it_is = || vec![Expanded::typed(word)];
        if !self.dialect.parameters && !rest.starts_with('*') {
            return Ok(as_it_is());
        }
        if !self.at_entry && !self.at_return {
            return Err(self.no_arguments(word.text, word.at));
        }
        let numbered = rest.starts_with(|c: char| c.is_ascii_digit());
        if !numbered && !rest.starts_with('*') {
            return Err(Wrong::at(word.at, format!("`{}` is no argument", word.text)));
        }
        let parameters = match self.prototype() {
            Some((types, proto)) => match types.ty(*proto) {
                Type::FuncProto(proto) => proto.parameters().map(|p| p.name.to_owned()).collect(),
                _ => Vec::new(),
            },
            None => Vec::new(),
        };
        // Without types the kernel still takes `$argN` as a plain word, but cannot know how many `$arg*` are.
        if parameters.is_empty() {
            return match numbered {
                true => Ok(as_it_is()),
                false => Err(Wrong::at(word.at, self.no_type_of("$arg*"))),
            };
        }
        if !numbered {
            parameters.iter().try_for_each(|name| fits(room, name, word.at))?;
            let made = |name| Expanded::made(name, word.at);
            return Ok(parameters.into_iter().map(made).collect());
        }
        let (number, ty) = number::leading_decimal(rest);
        if !ty.is_empty() && !ty.starts_with(':') {
            return Err(Wrong::at(word.at, format!("`{}` is no argument", word.text)));
        }
        let index = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1);
        match parameters.get(index) {
            Some(name) => {
                let text = format!("{name}{ty}");
                fits(room, &text, word.at)?;
                Ok(vec![Expanded::made(text, word.at)])
            }
            None => Err(Wrong::at(
                word.at,
                format!(
                    "`{}`: {} has {} parameters",
                    word.text,
                    self.place.name(),
                    parameters.len()
                ),
            )),
        }
    }

    /// `ARG:%pd` and `ARG:%pD` as the fetch of a directory entry's name.
    fn entry_of_directory(&self, text: &str, at: usize) -> Parsed<Option<String>> {
        let file = match (text.strip_suffix(":%pd"), text.strip_suffix(":%pD")) {
            (Some(inner), _) => (inner, false),
            (_, Some(inner)) => (inner, true),
            _ => return Ok(None),
        };
        let (inner, of_file) = file;
        let offset = |structure: &str, members: [&str; 2]| {
            let types = self.kernel.types()?;
            let mut id = types.find_c(&format!("struct {structure}"))?;
            let mut offset = 0;
            for member in members {
                let place = types.find_member(id, member)?;
                offset += place.offset();
                id = place.ty;
            }
            Some(offset)
        };
        let unknown = || Wrong::at(at, "the kernel's types (BTF) are needed for %pd and %pD");
        let entry = offset("dentry", ["d_name", "name"]).ok_or_else(unknown)?;
        let (name, fetch) = match inner.split_once('=') {
            Some((name, fetch)) => (format!("{name}="), fetch),
            None => (String::new(), inner),
        };
        let fetch = match of_file {
            true => {
                let path = offset("file", ["f_path", "dentry"]).ok_or_else(unknown)?;
                format!("+{path:#x}({fetch})")
            }
            false => fetch.to_owned(),
        };
        Ok(Some(format!("{name}+0x0(+{entry:#x}({fetch})):string")))
    }
}

/// Takes the room for a text that the kernel puts in the place of another.
fn fits(room: &mut usize, text: &str, at: usize) -> Parsed<()> {
    *room = room.checked_sub(text.len() + 1).ok_or_else(|| {
        let why = "the kernel has no room for what so many arguments of this kind stand for: name some by what they fetch";
        Wrong::at(at, why)
    })?;
    Ok(())
}
