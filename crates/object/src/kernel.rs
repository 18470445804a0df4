//! Kernel names that objects refer to: types, functions, variables, addresses; read when first needed.

use kestrel_bpf::btf::{Btf, BtfKind, TypeId};
use kestrel_catalog::code::CodeCache;
use kestrel_catalog::facts::Facts;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::{Host, btf};
use std::sync::OnceLock;

/// The running kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) known: CodeCache,
    modules: OnceLock<Vec<(String, Btf)>>,
}

/// Something found in the types of the kernel or a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: TypeId,
    /// `None` for the kernel itself.
    pub(super) module: Option<String>,
}

impl Kernel {
    pub(super) fn new(host: Host) -> Self {
        Self {
            known: CodeCache::new(Facts::new(host)),
            modules: OnceLock::new(),
        }
    }

    pub(super) fn host(&self) -> &Host {
        self.known.host()
    }

    /// Something of the kernel's types, its own first, then those of modules; `module:name` asks for a module's.
    pub(super) fn find(&self, kind: BtfKind, name: &str) -> Result<Option<Found>> {
        let types = self.known.types()?;
        let (wanted, name) = match name.split_once(':') {
            Some((module, name)) => (Some(module), name),
            None => (None, name),
        };
        if wanted.is_none_or(|module| module == "vmlinux")
            && let Some(id) = types.find(kind, name)
        {
            return Ok(Some(Found { id, module: None }));
        }
        let first = types.ids().next_back().map_or(0, |last| last.0 + 1);
        let mut modules = self
            .modules()?
            .iter()
            .filter(|(module, _)| wanted.is_none_or(|wanted| wanted == module));
        Ok(modules.find_map(|(module, btf)| {
            // A module's types lie over the kernel's: what has a number of the kernel's was looked for already.
            let id = btf.find(kind, name).filter(|id| id.0 >= first)?;
            Some(Found {
                id,
                module: Some(module.clone()),
            })
        }))
    }

    /// Whether the kernel, or else a module, has a type of an object with all that the object says of it.
    pub(super) fn matches(&self, object: &Btf, ty: TypeId) -> Result<bool> {
        if let Some(answer) = object.matched_in(ty, &*self.known.types()?) {
            return Ok(answer);
        }
        let modules = self.modules()?.iter();
        Ok(modules
            .filter_map(|(_, types)| object.matched_in(ty, types))
            .any(|answer| answer))
    }

    fn modules(&self) -> Result<&[(String, Btf)]> {
        if let Some(known) = self.modules.get() {
            return Ok(known);
        }
        let base = self.known.types()?;
        let mut all = Vec::new();
        for name in btf::modules(self.host())? {
            // One that goes, or is built for another kernel, hides none of the others.
            if let Ok(types) = btf::load_module(self.host(), &base, &name) {
                all.push((name, types));
            }
        }
        Ok(self.modules.get_or_init(|| all))
    }

    /// The kernel's symbols with their addresses.
    pub(super) fn symbols(&self) -> Result<&Kallsyms> {
        self.known.symbols()
    }

    /// The error for a kernel function that is not there, with names that come close.
    pub(super) fn no_function(&self, wanted: &str) -> Error {
        let all: Vec<String> = match self.symbols() {
            Ok(symbols) => symbols.functions().map(|symbol| symbol.name.to_owned()).collect(),
            Err(_) => Vec::new(),
        };
        let near = nearest(wanted, all.iter().map(String::as_str));
        Error::NoSuchEvent {
            what: "function".to_owned(),
            wanted: wanted.to_owned(),
            near: near.into_iter().map(Into::into).collect(),
        }
    }

    /// Whether it is known that the kernel has no code of this name: the compiler made none, or made it a part of its callers.
    pub(super) fn has_no_address(&self, name: &str) -> bool {
        self.symbols()
            .is_ok_and(|symbols| !symbols.named(name).any(|symbol| symbol.is_text()))
    }

    /// Whether the kernel has a symbol in code of this name.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.symbols()
            .is_ok_and(|symbols| symbols.named(name).any(|symbol| symbol.is_text()))
    }
}
