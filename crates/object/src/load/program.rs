//! Programs of an object: linked, with what only this kernel knows filled in (functions, symbols, types), and loaded.

use super::{Loaded, LoadedProgram};
use crate::attach::Bound;
use crate::kernel::Found;
use crate::opened::wrong;
use crate::refusal;
use kestrel_bpf::btf::BtfKind;
use kestrel_bpf::code::{Code, MapRef, Relocation, RelocationTarget};
use kestrel_bpf::object::{Linked, Program as Declared, Reference};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{self, Program, ProgramBtf, ProgramSpec};
use kestrel_kernel::procfs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `BPF_PSEUDO_KFUNC_CALL`.
const PSEUDO_KFUNC_CALL: u8 = 2;

/// `BPF_PSEUDO_BTF_ID`.
const PSEUDO_BTF_ID: u8 = 3;

/// The number of a helper that no kernel has.
const MISSING: i32 = 0x0bad_f00d;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;

/// `bpf_trace_printk` and `bpf_trace_vprintk`.
const PRINTERS: [i32; 2] = [6, 177];

impl Loaded {
    pub(crate) fn load_program(&mut self, bound: Bound, declared: Declared) -> Result<LoadedProgram> {
        let mut linked = self
            .object
            .parsed
            .link(&declared)
            .map_err(|error| wrong(&self.object.name, &error))?;
        if let Some(types) = self.object.parsed.btf() {
            linked.answer_type_matches(|ty| self.kernel.matches(types, ty))?;
        }
        let (code, called) = self.resolve(&linked)?;
        let target = match &bound.module {
            Some(module) => Some(self.module(module)?),
            None => None,
        };
        let maps: Vec<BorrowedFd<'_>> = self.maps.iter().map(|map| map.map.as_fd()).collect();
        let modules: Vec<BorrowedFd<'_>> = called
            .iter()
            .filter_map(|module| self.modules.get(module))
            .map(AsFd::as_fd)
            .collect();
        let kfunc = |name: &str| {
            self.kernel
                .find(BtfKind::Func, name)
                .ok()
                .flatten()
                .map(|found| found.id)
        };
        let license = self
            .object
            .parsed
            .license()
            .cloned()
            .unwrap_or_else(|| c"GPL".to_owned());
        // Samples declare the version that they were compiled for; what old kernels compare with is their own.
        let version = procfs::version_code(&self.object.host)
            .ok()
            .or(self.object.parsed.version());
        let btf = self.btf.as_ref().filter(|_| !linked.functions.is_empty());
        let spec = ProgramSpec {
            license: &license,
            kernel_version: version.unwrap_or(0),
            flags: if declared.section.sleepable {
                bpf::sys::PROGRAM_SLEEPABLE
            } else {
                0
            },
            target: target
                .and_then(|module| self.modules.get(&module))
                .map(AsFd::as_fd),
            btf: btf.map(|btf| ProgramBtf {
                btf: btf.as_fd(),
                functions: &linked.functions,
                lines: &linked.lines,
                relocations: &linked.core,
            }),
            modules: &modules,
            log_level: u32::from(self.object.settings.verifier_log),
            ..ProgramSpec::new(&declared.name, bound.kind, &code, &maps).with_kfunc(&kfunc)
        };
        if btf.is_none() && !linked.core.is_empty() {
            return Err(self.object.wrong(format!(
                "{} needs its types for CO-RE relocations, and the kernel does not take them",
                declared.name
            )));
        }
        let program = Program::load(&spec)
            .map_err(|error| refusal::explain(error, &self.object, &declared, &linked, &code))?;
        let prints = code
            .insns
            .iter()
            .any(|insn| insn.code == CALL && insn.src == 0 && PRINTERS.contains(&insn.imm));
        Ok(LoadedProgram {
            declared,
            program,
            bound,
            prints,
        })
    }

    /// The descriptor of a module's types, opened once.
    fn module(&mut self, name: &str) -> Result<String> {
        if !self.modules.contains_key(name) {
            self.modules.insert(name.to_owned(), bpf::module_btf(name)?);
        }
        Ok(name.to_owned())
    }

    /// Fills in what only this kernel knows, except maps, which remain references.
    /// Answers with the modules whose functions it calls, too.
    fn resolve(&mut self, linked: &Linked) -> Result<(Code, Vec<String>)> {
        let mut called = Vec::new();
        let mut code = Code {
            insns: linked.insns.clone(),
            ..Code::default()
        };
        for (insn, reference) in &linked.references {
            let mut refer = |target| code.relocations.push(Relocation { insn: *insn, target });
            match reference {
                Reference::Map(map) => refer(RelocationTarget::Map(MapRef(*map as u32))),
                Reference::MapValue(map) => refer(RelocationTarget::MapValue(MapRef(*map as u32))),
                Reference::Function { name, weak } => match self.kernel.find(BtfKind::Func, name)? {
                    Some(Found { module: None, .. }) => refer(RelocationTarget::Kfunc(name.clone())),
                    // The call's offset is a place in a list of descriptors, whose first is the kernel's own.
                    Some(Found {
                        module: Some(module),
                        id,
                    }) => {
                        let module = self.module(&module)?;
                        let known = called.iter().position(|known| *known == module);
                        let place = known.unwrap_or_else(|| {
                            called.push(module);
                            called.len() - 1
                        });
                        if let Some(insn) = code.insns.get_mut(*insn) {
                            (insn.src, insn.off, insn.imm) =
                                (PSEUDO_KFUNC_CALL, place as i16 + 1, id.0 as i32);
                        }
                    }
                    // The verifier refuses the call if it can be reached.
                    None if *weak => {
                        if let Some(insn) = code.insns.get_mut(*insn) {
                            (insn.src, insn.imm) = (0, MISSING);
                        }
                    }
                    None => {
                        return Err(Error::Unsupported {
                            what: format!("the kernel function {name}"),
                            why: "this kernel has none of this name that programs may call".to_owned(),
                        });
                    }
                },
                Reference::Symbol { name, ty, weak } => {
                    let (pseudo, low, high) = self.symbol(name, ty.is_some(), *weak)?;
                    if let Some(insn) = code.insns.get_mut(*insn) {
                        (insn.src, insn.imm) = (pseudo, low);
                    }
                    if let Some(insn) = code.insns.get_mut(*insn + 1) {
                        insn.imm = high;
                    }
                }
            }
        }
        Ok((code, called))
    }

    /// Source register and halves of the immediate of the load of a kernel symbol's address.
    fn symbol(&mut self, name: &str, typed: bool, weak: bool) -> Result<(u8, i32, i32)> {
        let missing = || Error::Unsupported {
            what: format!("the kernel symbol {name}"),
            why: "this kernel has none of this name; declare it __weak if the program can do without"
                .to_owned(),
        };
        if !typed {
            let address = self
                .kernel
                .symbols()?
                .named(name)
                .map(|symbol| symbol.address)
                .find(|address| *address != 0);
            return match address {
                Some(address) => Ok((0, address as u32 as i32, (address >> 32) as u32 as i32)),
                None if weak => Ok((0, 0, 0)),
                None => Err(missing()),
            };
        }
        let found = match self.kernel.find(BtfKind::Var, name)? {
            Some(found) => Some(found),
            None => self.kernel.find(BtfKind::Func, name)?,
        };
        match found {
            Some(Found { id, module: None }) => Ok((PSEUDO_BTF_ID, id.0 as i32, 0)),
            Some(Found {
                id,
                module: Some(module),
            }) => {
                let module = self.module(&module)?;
                let fd = self.modules.get(&module).map_or(0, AsRawFd::as_raw_fd);
                Ok((PSEUDO_BTF_ID, id.0 as i32, fd))
            }
            None if weak => Ok((0, 0, 0)),
            None => Err(missing()),
        }
    }
}
