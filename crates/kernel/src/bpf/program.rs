//! BPF programs: binding code to maps and kernel functions, loading, asking about, test runs; attaching is [`super::Link`]'s.

use super::Map;
use super::descriptor::{self, DescriptorKind};
use super::memlock;
use super::sys::{self, AttachType, Command, ProgramType};
use crate::error::{Errno, Error, Result};
use bytemuck::Zeroable;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::code::{Code, MapRef, RelocationTarget};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What a program is run by, which decides its context argument and what it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// A probe on kernel or user code, through a perf event; context `struct pt_regs`.
    Kprobe,
    /// A probe on many kernel functions through one link (`kprobe.multi`).
    KprobeMulti,
    /// A kprobe program of many functions, called at entry and at return with a cookie shared between them (`kprobe.session`).
    KprobeSession,
    /// A probe on many user functions through one link (`uprobe.multi`).
    UprobeMulti,
    /// The same, called at entry and at return (`uprobe.session`).
    UprobeSession,
    /// A tracepoint's formatted entry, through a perf event.
    Tracepoint,
    /// A tracepoint's raw arguments (`u64[]`).
    RawTracepoint,
    /// A tracepoint's raw arguments with their types known to the verifier (`tp_btf`); the id is that of `btf_trace_<name>`.
    TypedTracepoint(TypeId),
    /// Entry of a kernel function, arguments typed (`fentry`).
    FunctionEntry(TypeId),
    /// Return of a kernel function, arguments and result typed (`fexit`).
    FunctionExit(TypeId),
    /// The entry of a module's function: the second number is that of the module's types ([`super::module_btf_id`]).
    ModuleFunctionEntry(TypeId, u32),
    /// Return of a module's function.
    ModuleFunctionExit(TypeId, u32),
    /// The entry of a function of a BPF program: its id among the program's types, and the program's number.
    ProgramFunctionEntry(TypeId, u32),
    /// Return of a BPF program's function.
    ProgramFunctionExit(TypeId, u32),
    /// A perf event's overflow.
    PerfEvent,
    /// A socket filter: the one kind for which test runs are always possible.
    SocketFilter,
    /// Run by hand only (`BPF_PROG_TYPE_SYSCALL`).
    Syscall,
    /// Any other, by its numbers.
    Other(ProgramType, AttachType, TypeId),
}

impl ProgramKind {
    /// Whether one link attaches it to many functions.
    pub fn is_multi(self) -> bool {
        matches!(self, Self::KprobeMulti | Self::UprobeMulti)
    }

    /// The kernel's program type, expected attach type and BTF id for it.
    pub fn numbers(self) -> (ProgramType, AttachType, TypeId) {
        let plain = |program| (program, AttachType::NONE, TypeId(0));
        match self {
            Self::Kprobe => plain(ProgramType::KPROBE),
            Self::KprobeMulti => (ProgramType::KPROBE, AttachType::TRACE_KPROBE_MULTI, TypeId(0)),
            Self::KprobeSession => (ProgramType::KPROBE, AttachType::TRACE_KPROBE_SESSION, TypeId(0)),
            Self::UprobeMulti => (ProgramType::KPROBE, AttachType::TRACE_UPROBE_MULTI, TypeId(0)),
            Self::UprobeSession => (ProgramType::KPROBE, AttachType::TRACE_UPROBE_SESSION, TypeId(0)),
            Self::Tracepoint => plain(ProgramType::TRACEPOINT),
            Self::RawTracepoint => plain(ProgramType::RAW_TRACEPOINT),
            Self::TypedTracepoint(id) => (ProgramType::TRACING, AttachType::TRACE_RAW_TP, id),
            Self::FunctionEntry(id)
            | Self::ModuleFunctionEntry(id, _)
            | Self::ProgramFunctionEntry(id, _) => (ProgramType::TRACING, AttachType::TRACE_FENTRY, id),
            Self::FunctionExit(id) | Self::ModuleFunctionExit(id, _) | Self::ProgramFunctionExit(id, _) => {
                (ProgramType::TRACING, AttachType::TRACE_FEXIT, id)
            }
            Self::PerfEvent => plain(ProgramType::PERF_EVENT),
            Self::SocketFilter => plain(ProgramType::SOCKET_FILTER),
            Self::Syscall => plain(ProgramType::SYSCALL),
            Self::Other(program, attach, id) => (program, attach, id),
        }
    }
}

/// A program as it is to be loaded.
#[derive(Clone, Copy)]
pub struct ProgramSpec<'a> {
    /// For people; the kernel keeps 15 bytes, and other characters than letters, digits and `.` become `_`.
    pub name: &'a str,
    /// Its function's name among the program's types, by which it is traced; other characters than letters, digits and `_` become `_`.
    pub function: Option<&'a str>,
    /// What it is run by.
    pub kind: ProgramKind,
    /// Its code, references unresolved.
    pub code: &'a Code,
    /// The maps that the code refers to by [`MapRef`]: the reference is the index.
    pub maps: &'a [BorrowedFd<'a>],
    /// The BTF id of a kernel function that programs may call, by name.
    pub kfunc: &'a dyn Fn(&str) -> Option<TypeId>,
    /// The license declared to the kernel; many helpers want a GPL-compatible one.
    pub license: &'a CStr,
    /// `BPF_F_*` of programs, such as [`sys::PROGRAM_SLEEPABLE`].
    pub flags: u32,
    /// The module (its BTF) or program that the kind's BTF id belongs to; `None` for the kernel itself.
    pub target: Option<BorrowedFd<'a>>,
    /// Types, lines and relocations that came with an object file.
    pub btf: Option<ProgramBtf<'a>>,
    /// The kernel's version as `LINUX_VERSION_CODE`, which kernels before 5.0 compare with their own for kprobe programs; 0 elsewhere.
    pub kernel_version: u32,
    /// The types of modules whose functions are called: a call names one by its place here, from 1 on, in its offset.
    pub modules: &'a [BorrowedFd<'a>],
    /// 0: the verifier writes a log only when it refuses; 1 or 2: always, also for what it accepts (see [`Program::log`]).
    pub log_level: u32,
}

impl<'a> ProgramSpec<'a> {
    /// A program that refers to `maps` and calls no kernel functions.
    pub fn new(name: &'a str, kind: ProgramKind, code: &'a Code, maps: &'a [BorrowedFd<'a>]) -> Self {
        Self {
            name,
            function: None,
            kind,
            code,
            maps,
            kfunc: &|_| None,
            license: c"Dual MIT/GPL",
            flags: 0,
            target: None,
            btf: None,
            kernel_version: 0,
            modules: &[],
            log_level: 0,
        }
    }

    /// The specification with a way to find kernel functions.
    pub fn with_kfunc(mut self, kfunc: &'a dyn Fn(&str) -> Option<TypeId>) -> Self {
        self.kfunc = kfunc;
        self
    }
}

impl std::fmt::Debug for ProgramSpec<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramSpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("insns", &self.code.insns.len())
            .field("maps", &self.maps.len())
            .finish_non_exhaustive()
    }
}

/// What an object file says about a program, in the kernel's own layouts (`.BTF.ext`).
#[derive(Clone, Copy, Debug)]
pub struct ProgramBtf<'a> {
    /// The object's types, loaded by [`super::load_btf`].
    pub btf: BorrowedFd<'a>,
    /// `struct bpf_func_info` records, 8 bytes each.
    pub functions: &'a [u8],
    /// `struct bpf_line_info` records, 16 bytes each.
    pub lines: &'a [u8],
    /// `struct bpf_core_relo` records, 16 bytes each: the kernel itself adapts field accesses (Linux 5.17 and later).
    pub relocations: &'a [u8],
}

/// Characters of a function's name (`KSYM_NAME_LEN` of older kernels, and room for numbers of callbacks).
const MOST_FUNCTION_NAME: usize = 120;
const FUNC_INFO: usize = 8;
const LINE_INFO: usize = 16;
const CORE_RELO: usize = 16;

/// What the kernel says about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The kernel's number for it while it lives.
    pub id: u32,
    /// Its type.
    pub kind: ProgramType,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// A hash of its instructions.
    pub tag: [u8; 8],
    /// Runs so far, counted while [`super::enable_stats`] (or `kernel.bpf_stats_enabled`) is on.
    pub runs: u64,
    /// Nanoseconds spent in those runs.
    pub run_time: u64,
    /// Events skipped because the program (or one sharing its guard) was already running on that CPU; always counted.
    pub recursion_misses: u64,
    /// Instructions the verifier looked at (Linux 5.16 and later, else 0).
    pub verified_insns: u32,
    /// Bytes of machine code; 0 if it is interpreted.
    pub machine_code: u32,
    /// Bytes of instructions after the kernel's rewriting.
    pub translated: u32,
    /// When it was loaded: nanoseconds since boot.
    pub loaded_at: u64,
    /// The user that loaded it.
    pub uid: u32,
    /// What it is bound to, for kinds with a BTF id.
    pub attach_btf_id: TypeId,
}

/// A loaded program; closing it leaves it alive if a link, a program array or a pin still uses it.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    log: Option<String>,
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Program {
    /// Binds and loads a program (`BPF_PROG_LOAD`). The verifier's log is asked for only after a refusal: writing it costs more than loading.
    ///
    /// # Errors
    /// [`Error::Unresolved`] for a reference to a map or kernel function that is not there; [`Error::Load`] with the verifier's log.
    pub fn load(spec: &ProgramSpec<'_>) -> Result<Self> {
        let insns = bind(spec)?;
        let (program, attach, btf_id) = spec.kind.numbers();
        let module = match spec.kind {
            ProgramKind::ModuleFunctionEntry(_, types) | ProgramKind::ModuleFunctionExit(_, types) => Some(
                super::id::open(super::sys::Command::BtfFdById, types, "open the types with id")?,
            ),
            ProgramKind::ProgramFunctionEntry(_, program) | ProgramKind::ProgramFunctionExit(_, program) => {
                Some(super::id::open(
                    Command::ProgFdById,
                    program,
                    "open the program with id",
                )?)
            }
            _ => None,
        };
        let target = spec.target.or(module.as_ref().map(AsFd::as_fd));
        // Place 0 stands for the kernel itself and is not looked at.
        let called: Vec<i32> = std::iter::once(0)
            .chain(spec.modules.iter().map(AsRawFd::as_raw_fd))
            .collect();
        let mut argument = sys::ProgLoad {
            fd_array: if spec.modules.is_empty() {
                0
            } else {
                called.as_ptr() as u64
            },
            prog_type: program.0,
            insn_cnt: spec.code.insns.len() as u32,
            insns: insns.as_ptr() as u64,
            license: spec.license.as_ptr() as u64,
            kern_version: spec.kernel_version,
            prog_flags: spec.flags,
            prog_name: sys::object_name(spec.name),
            expected_attach_type: attach.0,
            attach_btf_id: btf_id.0,
            attach_fd: target.map_or(0, |fd| fd.as_raw_fd() as u32),
            ..Zeroable::zeroed()
        };
        let own = match (&spec.btf, spec.function) {
            (Some(_), _) => None,
            (None, function) if !spec.code.callbacks.is_empty() => Some(own_functions(
                function.unwrap_or("function0"),
                &spec.code.callbacks,
            )?),
            // Only for people, and for programs that are attached to it.
            (None, Some(function)) => own_functions(function, &[]).ok(),
            (None, None) => None,
        };
        if let Some((types, functions)) = &own {
            argument.prog_btf_fd = types.as_raw_fd() as u32;
            (
                argument.func_info,
                argument.func_info_rec_size,
                argument.func_info_cnt,
            ) = records(functions, FUNC_INFO);
        }
        if let Some(btf) = &spec.btf {
            argument.prog_btf_fd = btf.btf.as_raw_fd() as u32;
            (
                argument.func_info,
                argument.func_info_rec_size,
                argument.func_info_cnt,
            ) = records(btf.functions, FUNC_INFO);
            (
                argument.line_info,
                argument.line_info_rec_size,
                argument.line_info_cnt,
            ) = records(btf.lines, LINE_INFO);
            (
                argument.core_relos,
                argument.core_relo_rec_size,
                argument.core_relo_cnt,
            ) = records(btf.relocations, CORE_RELO);
        }
        // SAFETY: `insns` is `insn_cnt` times 8 bytes, the license is NUL-terminated, records and their counts come from slices; all
        // outlive the call.
        unsafe { submit(&mut argument, spec) }
    }

    /// Takes over a descriptor of a program.
    ///
    /// # Errors
    /// [`Error::Argument`] if it is not one.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        descriptor::expect(fd.as_fd(), DescriptorKind::Program)?;
        Ok(Self { fd, log: None })
    }

    /// Opens the program with this number (`BPF_PROG_GET_FD_BY_ID`).
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if there is none.
    pub fn from_id(id: u32) -> Result<Self> {
        Self::from_fd(super::id::open(
            Command::ProgFdById,
            id,
            "open the program with id",
        )?)
    }

    /// What the verifier wrote, if it was asked to ([`ProgramSpec::log_level`]).
    pub fn log(&self) -> Option<&str> {
        self.log.as_deref()
    }

    /// Lets a map that the program does not use live as long as the program does (`BPF_PROG_BIND_MAP`).
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn bind_map(&self, map: &Map) -> Result<()> {
        let mut argument = sys::BindMap {
            prog_fd: self.as_fd().as_raw_fd() as u32,
            map_fd: map.as_fd().as_raw_fd() as u32,
            flags: 0,
        };
        // SAFETY: the command reads no addresses.
        unsafe { sys::call(Command::ProgBindMap, &mut argument) }
            .map(drop)
            .map_err(|errno| Error::system("bind a map to", "a program", errno))
    }

    /// What the kernel says about it now.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn info(&self) -> Result<ProgramInfo> {
        let info: sys::ProgInfo =
            super::id::info(self.as_fd()).map_err(|errno| Error::system("ask about", "a program", errno))?;
        Ok(ProgramInfo {
            id: info.id,
            kind: ProgramType(info.kind),
            name: sys::text(&info.name),
            tag: info.tag,
            runs: info.run_cnt,
            run_time: info.run_time_ns,
            recursion_misses: info.recursion_misses,
            verified_insns: info.verified_insns,
            machine_code: info.jited_prog_len,
            translated: info.xlated_prog_len,
            loaded_at: info.load_time,
            uid: info.created_by_uid,
            attach_btf_id: TypeId(info.attach_btf_id),
        })
    }

    /// The functions that it consists of, by their ids among its own types, and the number of these types; none without.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn functions(&self) -> Result<(u32, Vec<TypeId>)> {
        let failed = |errno| Error::system("ask about", "a program's functions", errno);
        let known: sys::ProgInfo = super::id::info(self.as_fd()).map_err(failed)?;
        let mut records = vec![[0_u32; 2]; known.nr_func_info as usize];
        let mut info = sys::ProgInfo {
            nr_func_info: records.len() as u32,
            func_info_rec_size: FUNC_INFO as u32,
            func_info: records.as_mut_ptr() as u64,
            ..Zeroable::zeroed()
        };
        // SAFETY: `func_info` has room for `nr_func_info` records of this size; the other addresses are zero.
        unsafe { super::id::info_with(self.as_fd(), &mut info) }.map_err(failed)?;
        records.truncate(info.nr_func_info as usize);
        Ok((known.btf_id, records.iter().map(|[_, ty]| TypeId(*ty)).collect()))
    }

    /// Numbers of the maps that it uses.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn map_ids(&self) -> Result<Vec<u32>> {
        let failed = |errno| Error::system("ask about", "a program's maps", errno);
        let info: sys::ProgInfo = super::id::info(self.as_fd()).map_err(failed)?;
        let mut ids = vec![0u32; info.nr_map_ids as usize];
        let mut info = sys::ProgInfo {
            nr_map_ids: ids.len() as u32,
            map_ids: ids.as_mut_ptr() as u64,
            ..Zeroable::zeroed()
        };
        // SAFETY: `map_ids` has room for `nr_map_ids` numbers; the other addresses are zero.
        unsafe { super::id::info_with(self.as_fd(), &mut info) }.map_err(failed)?;
        ids.truncate(info.nr_map_ids as usize);
        Ok(ids)
    }

    /// Runs it without an event (`BPF_PROG_TEST_RUN`), for the kinds where the kernel can: socket filters, raw tracepoints, `fentry`, syscall.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOTSUPP` for other kinds, `EINVAL` for a context that does not fit.
    pub fn test_run(&self, run: &TestRun<'_>) -> Result<TestRunResult> {
        let mut data_out = vec![0u8; run.data.len() + DATA_SLACK];
        let with_data = !run.data.is_empty();
        let mut argument = sys::TestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_in: if with_data { run.data.as_ptr() as u64 } else { 0 },
            data_size_in: run.data.len() as u32,
            data_out: if with_data {
                data_out.as_mut_ptr() as u64
            } else {
                0
            },
            data_size_out: if with_data { data_out.len() as u32 } else { 0 },
            ctx_in: if run.context.is_empty() {
                0
            } else {
                run.context.as_ptr() as u64
            },
            ctx_size_in: run.context.len() as u32,
            repeat: run.repeat,
            ..Zeroable::zeroed()
        };
        // SAFETY: inputs and output are slices with their lengths beside them; all outlive the call.
        unsafe { sys::call(Command::ProgTestRun, &mut argument) }
            .map_err(|errno| Error::system("test-run", "a program", errno))?;
        data_out.truncate(argument.data_size_out as usize);
        Ok(TestRunResult {
            value: argument.retval,
            duration: argument.duration,
            data: data_out,
        })
    }
}

/// A program may grow its packet a little.
const DATA_SLACK: usize = 256;

/// What a test run is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestRun<'a> {
    /// The packet, for socket filters and their like: at least 14 bytes.
    pub data: &'a [u8],
    /// The context; for raw tracepoints an array of 64-bit arguments.
    pub context: &'a [u8],
    /// How often; 0 means once, and kinds other than packet programs take only 0.
    pub repeat: u32,
}

/// What came of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRunResult {
    /// What the program returned.
    pub value: u32,
    /// Nanoseconds per run on average, where the kind is timed.
    pub duration: u32,
    /// The packet afterwards.
    pub data: Vec<u8>,
}

/// Address, size and number of records laid end to end; all zero if there are none.
/// The types of a program's functions, without which the kernel takes none for a call back, and where each begins.
fn own_functions(name: &str, callbacks: &[usize]) -> Result<(OwnedFd, Vec<u8>)> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    // The kernel takes up to 127 characters, and no digit at the begin.
    let name: String = name.chars().map(letter).take(MOST_FUNCTION_NAME).collect();
    let mut types = kestrel_bpf::btf::write::Builder::new();
    let int = types.int("int", 4);
    let mut functions = Vec::new();
    for (number, entry) in std::iter::once(&0).chain(callbacks).enumerate() {
        let id = match number {
            0 => types.function(&name, int, &[]),
            number => types.function(&format!("{name}_{number}"), int, &[]),
        };
        functions.extend((*entry as u32).to_ne_bytes());
        functions.extend(id.0.to_ne_bytes());
    }
    Ok((super::load_btf(&types.finish())?, functions))
}

fn records(bytes: &[u8], size: usize) -> (u64, u32, u32) {
    if bytes.len() < size {
        return (0, 0, 0);
    }
    (bytes.as_ptr() as u64, size as u32, (bytes.len() / size) as u32)
}

/// The instructions with descriptors and BTF ids filled in, as the kernel reads them.
fn bind(spec: &ProgramSpec<'_>) -> Result<Vec<[u8; 8]>> {
    let unresolved = |what: String| Error::Unresolved {
        program: spec.name.to_owned(),
        what,
    };
    let mut insns = spec.code.insns.clone();
    for relocation in &spec.code.relocations {
        let Some(insn) = insns.get_mut(relocation.insn) else {
            return Err(unresolved(format!(
                "something at instruction {}, past its end",
                relocation.insn
            )));
        };
        match &relocation.target {
            RelocationTarget::Map(map) => {
                insn.src = sys::PSEUDO_MAP_FD;
                insn.imm = map_fd(spec, *map)?;
            }
            RelocationTarget::MapValue(map) => {
                insn.src = sys::PSEUDO_MAP_VALUE;
                insn.imm = map_fd(spec, *map)?;
            }
            RelocationTarget::Kfunc(name) => {
                let id = (spec.kfunc)(name).ok_or_else(|| {
                    unresolved(format!(
                        "the kernel function {name}, which this kernel does not offer"
                    ))
                })?;
                insn.src = sys::PSEUDO_KFUNC_CALL;
                insn.off = 0;
                insn.imm = id.0 as i32;
            }
        }
    }
    Ok(insns.into_iter().map(|insn| insn.to_bytes()).collect())
}

fn map_fd(spec: &ProgramSpec<'_>, map: MapRef) -> Result<i32> {
    spec.maps
        .get(map.0 as usize)
        .map(AsRawFd::as_raw_fd)
        .ok_or_else(|| Error::Unresolved {
            program: spec.name.to_owned(),
            what: format!("map number {}, but it is given {}", map.0, spec.maps.len()),
        })
}

/// First without a log (unless one is wanted anyway), then with a log that grows until the verifier's words fit.
///
/// # Safety
/// All addresses in `argument` must be valid for what the command reads.
unsafe fn submit(argument: &mut sys::ProgLoad, spec: &ProgramSpec<'_>) -> Result<Program> {
    let mut errno = Errno(0);
    if spec.log_level == 0 {
        // SAFETY: the caller's promise; there is no log.
        match memlock::attempt(|| unsafe { attempt(argument) }) {
            Ok(fd) => return Ok(Program { fd, log: None }),
            Err(refused) => errno = refused,
        }
    }
    argument.log_level = spec.log_level.max(1);
    let mut log = vec![0u8; LOG_START];
    loop {
        argument.log_buf = log.as_mut_ptr() as u64;
        argument.log_size = log.len() as u32;
        // SAFETY: the caller's promise, and the log has `log_size` bytes to write to.
        match unsafe { attempt(argument) } {
            Ok(fd) => {
                return Ok(Program {
                    fd,
                    log: Some(sys::text(&log)),
                });
            }
            Err(Errno::ENOSPC) if log.len() < LOG_MOST => log = vec![0; log.len() * 8],
            Err(refused) => {
                if errno.0 == 0 {
                    errno = refused;
                }
                return Err(Error::Load {
                    program: spec.name.to_owned(),
                    errno,
                    log: sys::text(&log),
                });
            }
        }
    }
}

const LOG_START: usize = 128 << 10;
const LOG_MOST: usize = 64 << 20;

/// The verifier gives up with `EAGAIN` when a signal arrives: ask again, a few times.
///
/// # Safety
/// As [`submit`], the log included.
unsafe fn attempt(argument: &mut sys::ProgLoad) -> std::result::Result<OwnedFd, Errno> {
    for _ in 0..5 {
        // SAFETY: the caller's promise; the command answers with a new descriptor.
        match unsafe { sys::call_for_fd(Command::ProgLoad, argument) } {
            Err(Errno::EAGAIN) => {}
            other => return other,
        }
    }
    Err(Errno::EAGAIN)
}
