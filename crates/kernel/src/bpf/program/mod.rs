//! BPF programs: binding code to maps and kernel functions, loading, asking about, test runs; attaching is [`super::Link`]'s.

mod spec;

use super::Map;
use super::descriptor::{self, DescriptorKind};
use super::memlock;
use super::sys::{self, Command, ProgramType};
use crate::error::{Errno, Error, Result};
use bytemuck::Zeroable;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::code::{Code, MapRef, RelocationTarget};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub use spec::{ProgramBtf, ProgramKind, ProgramSpec};

/// Characters of a function's name (`KSYM_NAME_LEN` of older kernels, and room for numbers of callbacks).
const MAX_FUNCTION_NAME: usize = 120;

const FUNC_INFO: usize = 8;

const LINE_INFO: usize = 16;

const CORE_RELO: usize = 16;

/// Description of a program by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The kernel's number for it while it lives.
    pub id: u32,
    /// The type of the program.
    pub kind: ProgramType,
    /// The name, at most 15 bytes.
    pub name: String,
    /// A hash of its instructions.
    pub tag: [u8; 8],
    /// Runs so far, counted while [`super::enable_stats`] (or `kernel.bpf_stats_enabled`) is on.
    pub runs: u64,
    /// Nanoseconds spent in those runs.
    pub run_time: u64,
    /// Events skipped because the program (or one with the same guard) was already running on that CPU; always counted.
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
    /// The attach target, for kinds with a BTF id.
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
            (None, function) if !spec.code.callbacks.is_empty() || !spec.code.functions.is_empty() => {
                Some(own_functions(function.unwrap_or("function0"), spec.code)?)
            }
            // The type id is for people, and for programs that are attached to it.
            (None, Some(function)) => own_functions(function, spec.code).ok(),
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

    /// The verifier's log, if it was asked for ([`ProgramSpec::log_level`]).
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

    /// Current kernel information about the program.
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

/// Input of a test run.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestRun<'a> {
    /// The packet, for socket filters and their like: at least 14 bytes.
    pub data: &'a [u8],
    /// The context; for raw tracepoints an array of 64-bit arguments.
    pub context: &'a [u8],
    /// Number of runs; 0 means once, and kinds other than packet programs take only 0.
    pub repeat: u32,
}

/// Result of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRunResult {
    /// Return value of the program.
    pub value: u32,
    /// Nanoseconds per run on average, where the kind is timed.
    pub duration: u32,
    /// The packet afterwards.
    pub data: Vec<u8>,
}

/// The types of a program's functions, without which the kernel takes none for a call back or for one to be verified alone, and the offset of each.
fn own_functions(name: &str, code: &Code) -> Result<(OwnedFd, Vec<u8>)> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    // The kernel takes up to 127 characters, and no digit at the begin.
    let name: String = name.chars().map(letter).take(MAX_FUNCTION_NAME).collect();
    let mut types = kestrel_bpf::btf::write::Builder::new();
    let int = types.int("int", 4);
    let mut functions = Vec::new();
    let mut add = |begin: usize, id: TypeId| {
        functions.extend((begin as u32).to_ne_bytes());
        functions.extend(id.0.to_ne_bytes());
    };
    add(0, types.function(&name, int, &[]));
    for (number, begin) in (1..).zip(&code.callbacks) {
        add(*begin, types.function(&format!("{name}_{number}"), int, &[]));
    }
    // Functions that the program calls are verified by themselves.
    let long = types.int("unsigned long", 8);
    let parameters = ["a", "b", "c", "d", "e"].map(|parameter| (parameter, long));
    for (number, own) in (code.callbacks.len() + 1..).zip(&code.functions) {
        let given = parameters.get(..own.parameters.into()).unwrap_or(&parameters);
        let id = types.global_function(&format!("{name}_{number}"), long, given);
        add(own.begin, id);
    }
    Ok((super::load_btf(&types.finish())?, functions))
}

/// Address, size and number of records laid end to end; all zero if there are none.
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

/// Loads first without a log (unless one is wanted anyway), then with a log that grows until the verifier's text fits.
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

/// Loads once, and again a few times where the verifier gives up with `EAGAIN` because a signal arrived.
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
