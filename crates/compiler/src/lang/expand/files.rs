//! The sources of a script: itself, what it imports, headers of its own, the library.

use super::inputs::{ImportedText, Inputs};
use crate::lang::ast::{Item, Span, Spanned};
use crate::lang::diag::Diagnostic;
use crate::lang::parse::{ParsedFile, parse_file};
use crate::lang::source::Sources;

/// Most files that a script may take in.
const MAX_FILES: usize = 256;
/// Most bytes of all sources.
const MAX_BYTES: usize = 16 << 20;

/// Parsed contents of all files of a script.
pub(super) struct ParsedFiles {
    pub(super) sources: Sources,
    /// Items of imports before those of the text that imports them.
    pub(super) items: Vec<Item>,
    pub(super) library: Vec<Item>,
    pub(super) headers: Vec<String>,
    pub(super) found: Vec<Diagnostic>,
}

/// Role of a text in the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Script,
    Import,
    /// The types and names are known before the script begins.
    Header,
}

/// A text that has been asked for.
struct File {
    role: Role,
    /// Files that it takes in, by their index.
    takes: Vec<usize>,
}

/// Reads a script and all that it takes in. Texts are added behind one another, and read again as long as more are asked for:
/// names that a header defines are known to the text that includes it.
pub(super) fn read(name: &str, text: &str, inputs: &Inputs<'_>) -> ParsedFiles {
    let mut reader = Reader {
        inputs,
        sources: Sources::default(),
        files: vec![File {
            role: Role::Script,
            takes: Vec::new(),
        }],
        refused: Vec::new(),
        headers: Vec::new(),
        requested: Vec::new(),
    };
    reader.sources.add(name, text);
    // Predefined names are read like a text, too: their places lie in a text of their own, the last one.
    loop {
        let mut sources = reader.sources.clone();
        let library = sources.files().len();
        for (name, text) in inputs.library {
            sources.add(name, text);
        }
        let defined: String = inputs
            .defined
            .iter()
            .map(|(name, value)| format!("#define {name} {value}\n"))
            .collect();
        sources.add("<defined>", &defined);
        let parsed = reader.parse(&sources);
        if reader.take_in(&parsed) {
            continue;
        }
        let files = sources.files();
        let own: Vec<ParsedFile<'_>> = files[library..files.len() - 1]
            .iter()
            .map(|file| parse_file(sources.text(), file.start..file.end, Default::default(), false))
            .collect();
        let mut found: Vec<Diagnostic> = reader.refused.clone();
        let mut library = Vec::new();
        for file in own {
            library.extend(file.script.items);
            found.extend(file.found);
        }
        let mut items = Vec::new();
        let mut parsed: Vec<Option<ParsedFile<'_>>> = parsed.into_iter().map(Some).collect();
        reader.collect(0, &mut parsed, &mut items, &mut found);
        let headers = reader.headers;
        return ParsedFiles {
            items,
            library,
            headers,
            found,
            sources,
        };
    }
}

struct Reader<'a> {
    inputs: &'a Inputs<'a>,
    sources: Sources,
    /// Files of the sources, in the same order.
    files: Vec<File>,
    refused: Vec<Diagnostic>,
    headers: Vec<String>,
    /// Places of imports and includes that have been answered.
    requested: Vec<Span>,
}

impl Reader<'_> {
    /// Parses all sources but the library: headers first, whose names the others know.
    fn parse<'s>(&self, sources: &'s Sources) -> Vec<ParsedFile<'s>> {
        let text = sources.text();
        let mut names = match sources.files().last() {
            Some(file) => parse_file(text, file.start..file.end, Default::default(), false).names,
            None => Default::default(),
        };
        let mut parsed: Vec<Option<ParsedFile<'s>>> = Vec::new();
        parsed.resize_with(self.files.len(), || None);
        // A header that others include has been asked for later than they: the last one comes first.
        let (headers, others): (Vec<usize>, Vec<usize>) = (0..self.files.len())
            .rev()
            .partition(|index| self.files[*index].role == Role::Header);
        for index in headers.into_iter().chain(others) {
            let file = &sources.files()[index];
            let header = self.files[index].role == Role::Header;
            let one = parse_file(text, file.start..file.end, names.clone(), header);
            if header {
                names.clone_from(&one.names);
            }
            parsed[index] = Some(one);
        }
        parsed.into_iter().flatten().collect()
    }

    /// Adds the files that the sources import or include; `false` if there are none that are new.
    fn take_in(&mut self, parsed: &[ParsedFile<'_>]) -> bool {
        let before = self.files.len();
        for (index, file) in parsed.iter().enumerate() {
            let from = self.sources.files()[index].name.clone();
            for include in &file.includes {
                if self.is_new(include.path.span) {
                    let answer = self.inputs.files.header(&include.path.node, include.own, &from);
                    match answer {
                        Ok(None) if include.own => {
                            self.refuse(&include.path, "included", "there is no such file");
                        }
                        Ok(None) => self.headers.push(include.path.node.clone()),
                        Ok(Some(text)) => self.add(index, Role::Header, text, include.path.span),
                        Err(why) => self.refuse(&include.path, "included", &why),
                    }
                }
            }
            for item in &file.script.items {
                let Item::Import(path) = item else { continue };
                if !self.is_new(path.span) {
                    continue;
                }
                match self.inputs.files.import(&path.node, &from) {
                    Err(why) => self.refuse(path, "imported", &why),
                    Ok(sources) => sources
                        .into_iter()
                        .for_each(|text| self.import(index, text, path)),
                }
            }
        }
        self.files.len() > before
    }

    fn is_new(&mut self, place: Span) -> bool {
        let new = !self.requested.contains(&place);
        if new {
            self.requested.push(place);
        }
        new
    }

    fn refuse(&mut self, path: &Spanned<String>, what: &str, why: &str) {
        let message = format!("\"{}\" cannot be {what}: {why}", path.node);
        let hint = match path.node.rsplit_once('.') {
            // bpftrace compiles C by LLVM, and links its functions.
            Some((_, "c" | "o")) => {
                "functions for scripts are macros, in a .bt file; programs in C are compiled (clang -O2 -g --target=bpf -c) and run beside scripts: kestrel bpf run FILE.o, or -e 'EVENT handler \"FILE.o\"' of record and trace"
            }
            _ => "paths begin where the text lies that names them, or in a folder of -I",
        };
        let mut wrong = Diagnostic::error(path.span, message).hint(hint);
        if what == "imported" && why.starts_with("No such file") {
            let before = self.sources.text().get(..path.span.start as usize);
            let start = before.and_then(|before| before.rfind("import"));
            let whole = Span {
                start: start.map_or(path.span.start, |at| at as u32),
                ..path.span
            };
            wrong = wrong.known_as(whole, "Unable to find suitable path for import");
        }
        self.refused.push(wrong);
    }

    fn import(&mut self, by: usize, text: ImportedText, path: &Spanned<String>) {
        let role = match text.name.as_str() {
            name if name.ends_with(".h") => Role::Header,
            name if name.ends_with(".c") => {
                let message = format!(
                    "\"{}\" is a source of C, which Kestrel does not compile",
                    text.name
                );
                let hint =
                    "write it as macros or functions of a script, or run its object by handler \"FILE.o\"";
                self.refused
                    .push(Diagnostic::error(path.span, message).hint(hint));
                return;
            }
            _ => Role::Import,
        };
        self.add(by, role, text, path.span);
    }

    fn add(&mut self, by: usize, role: Role, text: ImportedText, place: Span) {
        let known = self
            .sources
            .files()
            .iter()
            .position(|file| file.name == text.name);
        if let Some(known) = known {
            self.files[by].takes.push(known);
            return;
        }
        if self.files.len() >= MAX_FILES || self.sources.text().len() + text.text.len() > MAX_BYTES {
            let message = format!("\"{}\" is one file too many, or too large", text.name);
            self.refused.push(Diagnostic::error(place, message));
            return;
        }
        let index = self.files.len();
        self.files[by].takes.push(index);
        self.files.push(File {
            role,
            takes: Vec::new(),
        });
        self.sources.add(&text.name, &text.text);
    }

    /// The items of a file behind those of the files that it takes in, each file once.
    fn collect(
        &self,
        index: usize,
        parsed: &mut [Option<ParsedFile<'_>>],
        items: &mut Vec<Item>,
        found: &mut Vec<Diagnostic>,
    ) {
        let Some(file) = parsed[index].take() else {
            return;
        };
        for taken in &self.files[index].takes {
            self.collect(*taken, parsed, items, found);
        }
        found.extend(file.found);
        for item in file.script.items {
            match &item {
                Item::Import(_) => continue,
                Item::Config(settings) if index > 0 => {
                    let place = settings.first().map(|(name, _)| name.span).unwrap_or_default();
                    let message = "an imported script has no config: only the script that imports it has one";
                    found.push(Diagnostic::error(place, message));
                    continue;
                }
                _ => items.push(item),
            }
        }
    }
}
