//! Functions of BPF programs that are loaded, as far as programs came with types: what `fentry:bpf:…` is attached to.

use super::glob::Glob;
use crate::error::Result;
use kestrel_bpf::btf::{Btf, TypeId};
use kestrel_kernel::bpf::{Program, btf_bytes, program_ids};

/// The word in place of a module's name.
pub(super) const WORD: &str = "bpf";

/// A function of a BPF program.
#[derive(Clone, Debug)]
pub(super) struct BpfFunction {
    /// The program's number.
    pub(super) program: u32,
    pub(super) name: String,
    /// Among the program's types.
    pub(super) id: TypeId,
}

impl BpfFunction {
    /// Spelling behind the kind: `bpf:123:name`.
    pub(super) fn text(&self) -> String {
        format!("{WORD}:{}:{}", self.program, self.name)
    }
}

/// The functions of that name, of the program of a number (a pattern, too) or of all.
///
/// # Errors
/// The kernel's: listing programs needs CAP_SYS_ADMIN.
pub(super) fn find(number: Option<&str>, name: &Glob) -> Result<Vec<BpfFunction>> {
    let wanted = number.map(Glob::new);
    let mut found = Vec::new();
    for program in program_ids()? {
        if wanted
            .as_ref()
            .is_some_and(|wanted| !wanted.matches(&program.to_string()))
        {
            continue;
        }
        // One that is gone meanwhile, or has no types, has no functions.
        found.extend(
            functions(program)
                .unwrap_or_default()
                .into_iter()
                .filter(|function| name.matches(&function.name)),
        );
    }
    Ok(found)
}

fn functions(program: u32) -> Option<Vec<BpfFunction>> {
    let (types, ids) = Program::from_id(program).ok()?.functions().ok()?;
    if types == 0 {
        return None;
    }
    let types = Btf::parse(btf_bytes(types).ok()?).ok()?;
    let named = ids.into_iter().map(|id| BpfFunction {
        program,
        name: types.name(id).to_owned(),
        id,
    });
    Some(named.collect())
}
