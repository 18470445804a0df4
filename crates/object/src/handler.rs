//! Compiled objects as handlers of tables (`handler "path.o"`): which program an event meets, and getting it into the kernel; not how it is reached.
//!
//! ```text
//!   sched:sched_switch /pid == 42/ handler "count.o"        the one program of count.o that fits the event
//!   kprobe:vfs_*                   handler "count.o:calls"   this one
//! ```
//!
//! The same as the text of a named probe: `kestrel probe add calls 'kprobe:vfs_read handler "calls.o"'`; its path counts from where the command
//! runs (in a file of probes, from where that lies).
//!
//! **Which program.** A row gives the file, looked for beside the table file (of events on the command line: from where the command runs), and, where several programs fit, the program's name behind a
//! colon. A program fits an event if it is of the type that the event is seen with: a kprobe program (`SEC("kprobe")`, `SEC("kretprobe")`, …)
//! for functions and instructions, `SEC("tp_btf")`, `SEC("raw_tp")` or `SEC("tp")` for tracepoints (the event is then seen in that way),
//! `SEC("fentry")` and `SEC("fexit")` for those, `SEC("perf_event")` for clocks and counters. Of several that fit, the one whose section names
//! the event is meant. What a section names counts for nothing else: the row says what to attach to.
//!
//! **What it gets.** The context of its type, as if it were attached itself (`struct pt_regs *`, `struct bpf_raw_tracepoint_args *`, …);
//! `bpf_get_attach_cookie` distinguishes the events of a pattern by their places in it, in the order in which `kestrel status -v` has them. Its return value means
//! nothing. It may do whatever its type may: helpers, kernel functions, CO-RE, tail calls into its own program arrays. It records nothing into the session's
//! buffers: what it has to say stands in its own maps.
//!
//! **When it runs.** The hook looks at the active word, then at the row's predicate, counts the call (`count()`, as `kestrel handler list`
//! shows), and then calls the program through the hook's program array, behind the slots of the tables; it does not come back. So a
//! switch of tables masks it as it masks every handler, from the next event on.
//!
//! **What it shares.** All rows that name a file, and all tables that are loaded while one of them is there, share the object's maps and global data, which are
//! pinned with the session (`object0_NAME`), shown by `kestrel handler list` by their types, and gone with the last of these tables. A file that has changed is
//! another object, with maps of its own.

use super::attach::Bound;
use super::load::Loaded;
use super::map::BpfMap;
use super::opened::{Object, wrong};
use fnv::FnvHasher;
use kestrel_bpf::object::{self, Hook};
use kestrel_catalog::attach::{Mechanism, Sections};
use kestrel_catalog::bounded_read;
use kestrel_catalog::catalog::Instance;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
use kestrel_trace::files::Objection;
use std::hash::Hasher as _;
use std::os::fd::AsFd;
use std::path::Path;

/// The file of an object whose programs are handlers, read and not loaded.
#[derive(Debug)]
pub struct HandlerFile {
    /// The file's path, from the root.
    path: String,
    bytes: Vec<u8>,
    /// Objection to its file: another user could change it.
    objection: Option<Objection>,
    parsed: object::Object,
}

/// Sections of programs that a mechanism runs, and how they are written; for a hook that `is_there` already also those that can be loaded as what it calls.
fn served(mechanism: &Mechanism, is_there: bool) -> (Vec<Hook>, String) {
    let Sections {
        hooks,
        written,
        loadable,
    } = mechanism.sections();
    match loadable {
        Some((hook, also)) if is_there => ([hooks, &[hook]].concat(), format!("{written} and {also}")),
        _ => (hooks.to_vec(), written.to_owned()),
    }
}

impl HandlerFile {
    /// Reads the object of a row in a table file that lies in `beside`.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Object`] with what is wrong with it.
    pub fn read(written: &str, beside: &Path) -> Result<Self> {
        let path = beside.join(written);
        let given = bounded_read::give(&path, bounded_read::LARGEST_OBJECT)
            .map_err(Error::io("read the object", path.display()))?;
        let (bytes, path) = (given.bytes, given.path.display().to_string());
        let parsed = object::Object::parse(&bytes).map_err(|error| wrong(&path, &error))?;
        Ok(Self {
            path,
            bytes,
            objection: given.objection,
            parsed,
        })
    }

    /// The path, from the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Hash of the content.
    pub fn content(&self) -> u64 {
        let mut hasher = FnvHasher::default();
        hasher.write(&self.bytes);
        hasher.finish()
    }

    /// The object's name in messages and names of maps.
    fn name(&self) -> String {
        let stem = Path::new(&self.path).file_stem();
        stem.map_or_else(|| "object".to_owned(), |stem| stem.to_string_lossy().into_owned())
    }

    /// The programs with their sections, for people.
    fn listed(&self) -> String {
        let each = self.parsed.programs().iter();
        let each: Vec<String> = each
            .map(|program| format!("{} (SEC(\"{}\"))", program.name, program.section.text))
            .collect();
        each.join(", ")
    }

    /// The name of the program that events meet which are attached so, or whose hook is there, attached so; or why there is none.
    pub fn program(
        &self,
        wanted: Option<&str>,
        (mechanism, is_there): (&Mechanism, bool),
        events: &[Instance],
    ) -> std::result::Result<String, String> {
        let (hooks, shape) = served(mechanism, is_there);
        let file = Path::new(&self.path)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let all = self.parsed.programs();
        if all.is_empty() {
            return Err(format!("{file} has no program"));
        }
        let fits = |program: &&object::Program| {
            program
                .section
                .kind()
                .is_some_and(|kind| hooks.contains(&kind.hook))
        };
        let event = events.first().map_or("the event", |event| &event.name);
        let awake = |program: &object::Program| match program.section.sleepable {
            true => Err(format!(
                "the program {} of {file} may sleep (SEC(\"{}\")), which handlers may not",
                program.name, program.section.text
            )),
            false => Ok(program.name.clone()),
        };
        if let Some(wanted) = wanted {
            let Some(program) = all.iter().find(|program| program.name == wanted) else {
                return Err(format!(
                    "{file} has no program {wanted}; it has {}",
                    self.listed()
                ));
            };
            if !fits(&program) {
                return Err(format!(
                    "the program {wanted} of {file} is SEC(\"{}\"): {event} is handled by programs of {shape}",
                    program.section.text
                ));
            }
            return awake(program);
        }
        let fitting: Vec<&object::Program> = all.iter().filter(fits).collect();
        // Of several that fit, the one whose section names this very event is meant.
        let named = |program: &&&object::Program| {
            let target = program.section.target.replace('/', ":");
            !target.is_empty()
                && events
                    .iter()
                    .any(|event| event.name.ends_with(&format!(":{target}")) || event.name == target)
        };
        let of_event: Vec<&&object::Program> = fitting.iter().filter(named).collect();
        match (fitting.as_slice(), of_event.as_slice()) {
            ([], _) => Err(format!(
                "no program of {file} fits {event}, which is handled by programs of {shape}; it has {}",
                self.listed()
            )),
            ([only], _) => awake(only),
            (_, [only]) => awake(only),
            (several, _) => {
                let names: Vec<&str> = several.iter().map(|program| program.name.as_str()).collect();
                Err(format!(
                    "{file} has {} programs for {event}: {}; say which: handler \"{file}:{}\"",
                    several.len(),
                    names.join(", "),
                    names.first().unwrap_or(&"")
                ))
            }
        }
    }

    /// Whether one of its programs, or this one, can be called by a hook that is there, attached so.
    pub fn fits(&self, wanted: Option<&str>, mechanism: &Mechanism) -> bool {
        let (hooks, _) = served(mechanism, true);
        let mut all = self.parsed.programs().iter();
        all.any(|program| {
            wanted.is_none_or(|wanted| program.name == wanted)
                && program
                    .section
                    .kind()
                    .is_some_and(|kind| hooks.contains(&kind.hook))
        })
    }

    /// Makes its maps, or takes those that a session has.
    pub fn load(&self, given: &dyn Fn(&str) -> Result<Option<Map>>) -> Result<HandlerObject> {
        trusted(&self.path, self.objection.as_ref())?;
        let object = Object::open_as(&self.name(), &self.bytes)?;
        let mut loaded = Loaded::empty(object);
        loaded.load_types();
        let reused = loaded.make_maps_with(given)?;
        for map in loaded.maps.iter().filter(|map| !map.reused) {
            if let Some(path) = &map.path {
                loaded.pins.pin(map.map.as_fd(), path)?;
            }
        }
        Ok(HandlerObject {
            loaded,
            reused,
            programs: Vec::new(),
        })
    }
}

/// Refuses an object that another user could have written: its programs may do more to the kernel than the source of handlers can say.
///
/// # Errors
/// [`Error::Untrusted`].
pub fn trusted(path: &str, objection: Option<&Objection>) -> Result<()> {
    objection.map_or(Ok(()), |objection| {
        Err(Error::Untrusted {
            file: path.to_owned(),
            refused: "is not loaded into the kernel",
            objection: objection.clone(),
        })
    })
}

/// An object whose programs are handlers, in the kernel.
#[derive(Debug)]
pub struct HandlerObject {
    pub(super) loaded: Loaded,
    /// Whether the maps were there before.
    reused: bool,
    /// Programs by name and type: one serves many hooks.
    programs: Vec<(String, ProgramKind, Program)>,
}

impl HandlerObject {
    /// The object's maps.
    pub fn maps(&self) -> &[BpfMap] {
        &self.loaded.maps
    }

    /// Pins that its maps ask for by name are kept from now on, as with objects that are run.
    pub fn keep(&mut self) {
        self.loaded.pins.keep();
    }

    /// A program of the object, loaded as this type.
    pub fn program(&mut self, name: &str, kind: ProgramKind) -> Result<&Program> {
        let known = self.programs.iter().position(|(n, k, _)| n == name && *k == kind);
        let place = match known {
            Some(place) => place,
            None => {
                self.held(kind)?;
                let program = self.one(name, kind)?;
                self.programs.push((name.to_owned(), kind, program));
                self.programs.len() - 1
            }
        };
        Ok(&self.programs[place].2)
    }

    /// The programs of its program arrays, once: they are called by programs of the same type alone.
    fn held(&mut self, kind: ProgramKind) -> Result<()> {
        if self.reused || !self.loaded.programs.is_empty() {
            return Ok(());
        }
        let all = self.loaded.object.parsed().programs().to_vec();
        for declared in all {
            if self.loaded.is_held(&declared) {
                let bound = self.bound(&declared, kind)?;
                let program = self.loaded.load_program(bound, declared)?;
                self.loaded.programs.push(program);
            }
        }
        self.loaded.fill_slots()
    }

    fn one(&mut self, name: &str, kind: ProgramKind) -> Result<Program> {
        let mut all = self.loaded.object.parsed().programs().iter();
        let declared = all.find(|program| program.name == name).cloned();
        let declared =
            declared.ok_or_else(|| self.loaded.object.wrong(format!("it has no program {name}")))?;
        let bound = self.bound(&declared, kind)?;
        Ok(self.loaded.load_program(bound, declared)?.program)
    }

    fn bound(&self, declared: &object::Program, kind: ProgramKind) -> Result<Bound> {
        Bound::called(declared, kind).ok_or_else(|| {
            self.loaded
                .object
                .wrong(format!("the section of {} is of no known kind", declared.name))
        })
    }
}

/// Parts of a handler's text: the file, and the program if it names one.
pub fn parts(written: &str) -> (&str, Option<&str>) {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match written.rsplit_once(':') {
        Some((file, program)) if is_name(program) && !file.is_empty() => (file, Some(program)),
        _ => (written, None),
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_program_is_named_behind_a_colon() {
        assert_eq!(parts("count.o"), ("count.o", None));
        assert_eq!(parts("a/count.o:calls_2"), ("a/count.o", Some("calls_2")));
        assert_eq!(parts("a:b/count.o"), ("a:b/count.o", None));
        assert_eq!(parts(":x"), (":x", None));
        assert_eq!(parts("x:"), ("x:", None));
        assert_eq!(parts("x:2"), ("x:2", None));
    }
}
