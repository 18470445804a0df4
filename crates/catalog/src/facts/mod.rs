//! A cache of facts that are costly to ask of a kernel, each asked when it is first needed and kept: types, symbols, functions, where it preempts programs.

mod ftrace_sites;

use crate::arch;
use crate::error::{Error, Result};
use crate::executable::Executables;
use ftrace_sites::Traced;
use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_compiler::context::{Dispatchers, Features, PidNamespace, PreemptCount, ProgramKind};
use kestrel_compiler::program::IS_RETURN;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::ProgramKind as LoadedKind;
use kestrel_kernel::index::{self, Traceable};
use kestrel_kernel::kallsyms::{Kallsyms, Symbol};
use kestrel_kernel::kcore::Kcore;
use kestrel_kernel::preemption::{Count, Preemption};
use kestrel_kernel::privilege::{Capability, Privilege};
use kestrel_kernel::tracefs::Tracefs;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where `struct bpf_raw_event_map` has `bpf_func`, behind the tracepoint's address.
const BPF_FUNC: u64 = 8;

/// Facts about one kernel.
#[derive(Debug)]
pub struct Facts {
    host: Host,
    types: OnceCell<std::result::Result<Arc<Btf>, String>>,
    /// Types of modules, by the module's name.
    module_types: RefCell<HashMap<String, std::result::Result<Arc<Btf>, String>>>,
    symbols: OnceCell<std::result::Result<Kallsyms, kestrel_kernel::Error>>,
    functions: OnceCell<std::result::Result<Traceable, kestrel_kernel::Error>>,
    traced: OnceCell<Traced>,
    blacklist: OnceCell<Vec<(Range<u64>, String)>>,
    preemption: OnceCell<Preemption>,
    preempt_count: OnceCell<Option<PreemptCount>>,
    /// Whether handlers keep stacks of the kernel.
    keeps_stacks: Cell<bool>,
    /// The kernel's memory, where it shows it.
    memory: OnceCell<Option<Kcore>>,
    executables: Executables,
    script: Option<ScriptView>,
    /// The program of its command.
    command_file: Option<PathBuf>,
    /// Whether programs are attached to functions of the kernel, or of files, one by one, even where this kernel has links for many.
    without_multi: (bool, bool),
}

/// View of files that a program of the language has; persistent sessions have no such view.
#[derive(Clone, Copy, Debug)]
pub struct ScriptView {
    /// The process whose files are meant.
    pub process: Option<u32>,
    /// The process that will be its command.
    pub command: Option<u32>,
    /// Whether probes of files may stand where no instruction is known to begin.
    pub forces_places: bool,
}

impl Facts {
    /// Facts about a host; nothing is asked yet.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            types: OnceCell::new(),
            module_types: RefCell::default(),
            symbols: OnceCell::new(),
            functions: OnceCell::new(),
            traced: OnceCell::new(),
            blacklist: OnceCell::new(),
            preemption: OnceCell::new(),
            preempt_count: OnceCell::new(),
            keeps_stacks: Cell::new(false),
            memory: OnceCell::new(),
            executables: Executables::default(),
            script: None,
            command_file: None,
            without_multi: (false, false),
        }
    }

    /// Does without links to many functions of the kernel at once, or of files.
    pub(crate) fn do_without_multi(&mut self, functions: bool, of_files: bool) {
        self.without_multi = (functions, of_files);
    }

    /// Whether programs of a kind are to be used.
    pub(crate) fn uses(&self, kind: LoadedKind) -> bool {
        let (functions, of_files) = self.without_multi;
        match kind {
            LoadedKind::KprobeMulti | LoadedKind::KprobeSession => !functions,
            LoadedKind::UprobeMulti | LoadedKind::UprobeSession => !of_files,
            _ => true,
        }
    }

    /// Sees files as a program of the language does.
    pub(crate) fn see_as(&mut self, view: ScriptView) {
        self.script = Some(view);
    }

    /// Knows the process that will be the command of a program of the language.
    pub(crate) fn see_command(&mut self, pid: u32, program: PathBuf) {
        if let Some(view) = &mut self.script {
            view.command = Some(pid);
            self.command_file = Some(program);
        }
    }

    /// Lets probes of files stand where no instruction is known to begin.
    pub(crate) fn force_places(&mut self) {
        if let Some(view) = &mut self.script {
            view.forces_places = true;
        }
    }

    /// The program of the command that a program of the language has.
    pub(crate) fn command_file(&self) -> Option<&Path> {
        self.command_file.as_deref()
    }

    /// View of files that a program of the language has, where one asks.
    pub(crate) fn script(&self) -> Option<ScriptView> {
        self.script
    }

    /// Looks for debug files of programs in these folders, too.
    pub(crate) fn look_into(&mut self, folders: Vec<std::path::PathBuf>) {
        self.executables.look_into(folders);
    }

    /// Takes it for where this kernel preempts threads inside programs, whatever the kernel says.
    pub(crate) fn take_preemption(&mut self, preemption: Preemption) {
        self.preemption = OnceCell::from(preemption);
    }

    /// The host that the facts are about.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// tracefs, mounted if it was not.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn tracefs(&self) -> Result<Tracefs> {
        Ok(Tracefs::mount(&self.host)?)
    }

    /// The kernel's types.
    ///
    /// # Errors
    /// When the kernel publishes none, or they cannot be read.
    pub fn types(&self) -> Result<Arc<Btf>> {
        let load = || kestrel_kernel::btf::load(&self.host).map_err(|e| e.to_string());
        self.types
            .get_or_init(load)
            .clone()
            .map_err(|why| Error::Unsupported {
                what: "types of kernel functions and structures".to_owned(),
                why,
            })
    }

    /// Functions that probes can be put on.
    ///
    /// # Errors
    /// When the kernel does not list them.
    pub fn functions(&self) -> Result<&Traceable> {
        match self.functions.get_or_init(|| index::traceable(&self.host)) {
            Ok(functions) => Ok(functions),
            Err(error) => Err(error.clone().into()),
        }
    }

    /// Whether the kernel lists a function of this name among those that probes can be put on.
    pub fn is_listed(&self, name: &str) -> Result<bool> {
        Ok(self.functions()?.has(name))
    }

    /// Whether each of these names is that of one function of the kernel's image whose address can be turned back into the name: ftrace lists it once, and the
    /// kernel shows addresses. Functions of modules are none: a module may be gone when addresses in it are named.
    pub(crate) fn have_unique_addresses(&self, names: &[String]) -> bool {
        let path = "/proc/sys/kernel/kptr_restrict";
        let hidden = || self.host.read(path).is_ok_and(|text| text.trim() == "2");
        let may = || Privilege::read(&self.host).is_ok_and(|own| own.has(Capability::Syslog));
        let once = |functions: &Traceable| names.iter().all(|name| functions.modules_of(name).eq([""]));
        self.functions().is_ok_and(once) && !hidden() && may()
    }

    /// Whether a module is loaded.
    pub(crate) fn has_module(&self, module: &str) -> bool {
        self.host().path(format!("/sys/module/{module}")).exists()
    }

    /// The types of a module, over the kernel's.
    ///
    /// # Errors
    /// When the kernel publishes none for it, or they cannot be read.
    pub(crate) fn module_types(&self, module: &str) -> Result<Arc<Btf>> {
        let known = self.module_types.borrow().get(module).cloned();
        let types = match known {
            Some(types) => types,
            None => {
                let base = self.types()?;
                let read = kestrel_kernel::btf::load_module(self.host(), &base, module);
                let read = read.map(Arc::new).map_err(|error| error.to_string());
                let mut all = self.module_types.borrow_mut();
                all.insert(module.to_owned(), read.clone());
                read
            }
        };
        types.map_err(|why| Error::Unsupported {
            what: format!("types of the module {module}"),
            why: match self.has_module(module) {
                true => format!(
                    "/sys/kernel/btf/{module} cannot be used: {why}; kprobe:{module}:FUNCTION has registers"
                ),
                false => format!(
                    "the module {module} is not loaded; load it first, or take kprobe:{module}:FUNCTION, which waits for it and has registers"
                ),
            },
        })
    }

    /// Whether the kernel has a function of this name, traceable or not.
    pub(crate) fn is_function(&self, name: &str) -> bool {
        self.symbols()
            .is_ok_and(|s| s.named(name).any(|symbol| symbol.is_text()))
    }

    /// The symbols of the kernel and its modules, as they were when first asked for. Those of BPF programs and trampolines may be missing:
    /// [`Kallsyms::read`] has all there are now.
    ///
    /// # Errors
    /// When /proc/kallsyms cannot be read.
    pub fn symbols(&self) -> Result<&Kallsyms> {
        match self.symbols.get_or_init(|| index::symbols(&self.host)) {
            Ok(symbols) => Ok(symbols),
            Err(error) => Err(error.clone().into()),
        }
    }

    /// Address ranges that the kernel bars from kprobes, with a symbol each; empty where it does not tell (debugfs).
    pub(crate) fn blacklist(&self) -> &[(Range<u64>, String)] {
        self.blacklist.get_or_init(|| {
            // Other obstacles the kernel reports when it refuses.
            let _ = self.host.mount_debugfs();
            kestrel_kernel::tracefs::kprobe_blacklist(&self.host).unwrap_or_default()
        })
    }

    /// Whether a function has a place for ftrace, so that perf and tracefs let it be probed; of a part that the compiler split off
    /// (`f.cold`, `f.isra.0`), whether the whole has.
    ///
    /// # Errors
    /// When the kernel does not list them.
    pub(crate) fn is_traced(
        &self,
        module: Option<&str>,
        symbol: &str,
        address: u64,
        size: u64,
    ) -> Result<bool> {
        let functions = self.functions()?;
        let traced = self.traced.get_or_init(|| Traced::of(functions));
        let symbols = self.symbols()?;
        if traced.holds(functions, symbols, module, address, size) {
            return Ok(true);
        }
        let Some((whole, _)) = symbol.split_once('.') else {
            return Ok(false);
        };
        let whole = symbols.named(whole).find(|s| s.is_text() && s.module == module);
        let end = |s: &Symbol<'_>| symbols.next_address(s.address).unwrap_or(s.address + 1);
        Ok(whole.is_some_and(|s| traced.holds(functions, symbols, module, s.address, end(&s) - s.address)))
    }

    /// Programs and libraries that its processes run.
    pub fn executables(&self) -> &Executables {
        &self.executables
    }

    /// Whether perf can put kprobes.
    pub(crate) fn has_kprobes(&self) -> bool {
        self.host
            .path("/sys/bus/event_source/devices/kprobe/type")
            .exists()
    }

    /// Whether one program can see entries and returns of functions: the kernel then has the function by which it learns where it is.
    pub fn has_kprobe_sessions(&self) -> bool {
        self.types()
            .is_ok_and(|types| types.find(BtfKind::Func, IS_RETURN).is_some())
    }

    /// Where this kernel preempts threads inside programs.
    pub fn preemption(&self) -> Preemption {
        let look = || Preemption::of(&self.host, self.types().ok().as_deref());
        *self.preemption.get_or_init(look)
    }

    /// Finds out how programs read the preemption count, so that what is compiled from now on can; whether they can at all.
    pub fn learn_preempt_count(&self) -> bool {
        let look = || {
            let count = Count::of(self.types().ok()?.as_ref())?;
            Some(PreemptCount {
                place: count.place,
                tracepoints: count.tracepoints,
            })
        };
        self.preempt_count.get_or_init(look).is_some()
    }

    /// Has [`Facts::dispatchers`] read the symbols of the kernel from now on: handlers keep stacks. It gives none before.
    pub fn learn_dispatchers(&self) {
        self.keeps_stacks.set(true);
    }

    /// The functions between a tracepoint (without its group) and its programs, where handlers keep stacks and the kernel shows its addresses.
    pub(crate) fn dispatchers(&self, tracepoint: &str) -> Dispatchers {
        if !self.keeps_stacks.get() {
            return Dispatchers::default();
        }
        let Ok(symbols) = self.symbols() else {
            return Dispatchers::default();
        };
        let code = |before: &str| {
            let mut named = symbols.named(&format!("{before}{tracepoint}"));
            let start = named
                .find(|symbol| symbol.is_text() && symbol.address != 0)?
                .address;
            Some(start..symbols.next_address(start)?)
        };
        let of_class = || {
            let start = self.call_of_class(symbols, tracepoint)?;
            Some(start..symbols.next_address(start)?)
        };
        Dispatchers {
            call: code("__bpf_trace_").or_else(of_class),
            iterate: code("__traceiter_"),
        }
    }

    /// The function that calls the program of a tracepoint that is one of a class (`DECLARE_EVENT_CLASS`): it bears the class's name
    /// (`__bpf_trace_sched_wakeup_template`), which no list has; the kernel's row of the tracepoint has its address.
    fn call_of_class(&self, symbols: &Kallsyms, tracepoint: &str) -> Option<u64> {
        let mut rows = symbols.named(&format!("__bpf_trace_tp_map_{tracepoint}"));
        let row = rows.find(|symbol| symbol.address != 0)?.address;
        let memory = self.memory.get_or_init(|| Kcore::open(&self.host).ok());
        let mut address = [0; 8];
        memory
            .as_ref()?
            .read(row.checked_add(BPF_FUNC)?, &mut address)
            .ok()?;
        let address = u64::from_le_bytes(address);
        let mut own = symbols.at_exactly(address);
        own.any(|symbol| symbol.is_text() && symbol.name.starts_with("__bpf_trace_"))
            .then_some(address)
    }

    /// Features of this kernel for generated code of a program kind.
    pub fn features(&self, program: ProgramKind) -> Features {
        // Helpers are functions of the kernel like those that are called by name.
        let kfunc = |name: &str| self.types().is_ok_and(|t| t.find(BtfKind::Func, name).is_some());
        let perf = matches!(
            program,
            ProgramKind::Kprobe | ProgramKind::Kretprobe | ProgramKind::Tracepoint
        );
        let trampoline = matches!(program, ProgramKind::Fentry | ProgramKind::Fexit);
        Features {
            preempt_disable: kfunc("bpf_preempt_disable"),
            irq_save: kfunc("bpf_local_irq_save"),
            attach_cookie: perf,
            func_ip: trampoline || perf && program != ProgramKind::Tracepoint,
            current_task_btf: true,
            user_registers: arch::current()
                .user_registers()
                .filter(|_| kfunc("bpf_task_pt_regs")),
            pid_namespace: self.script().and_then(|_| pid_namespace(self.host())),
            probe_read_kernel: true,
            counted_reads: false,
            preempt_count: self.preempt_count.get().copied().flatten(),
        }
    }
}

/// The file number of the first PID namespace (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xeffffffc;

/// The PID namespace that this process is in, unless that is the first one, whose numbers the kernel gives by itself.
fn pid_namespace(host: &Host) -> Option<PidNamespace> {
    let about = host.path("/proc/self/ns/pid").metadata().ok()?;
    (about.ino() != FIRST_PID_NAMESPACE).then(|| PidNamespace {
        device: about.dev(),
        inode: about.ino(),
    })
}
