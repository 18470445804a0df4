//! Many functions by one link (`kprobe.multi`), or where the kernel has no such links, one by one.

use super::kprobe;
use super::request::{AttachRequest, Binding};
use kestrel_bpf::object::Hook;
use kestrel_catalog::attach::{Functions, Links};
use kestrel_catalog::catalog::Glob;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::feature::{Feature, Features, Support};

/// Most functions that are attached one by one: more take minutes to attach and detach.
const MAX_ONE_BY_ONE: usize = 64;

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    functions(request)?;
    let session = request.kind.hook == Hook::KprobeSession;
    let features = Features::new(request.kernel.host().clone());
    let (feature, kind) = match session {
        true => (Feature::KprobeSession, ProgramKind::KprobeSession),
        false => (Feature::KprobeMulti, ProgramKind::KprobeMulti),
    };
    match features.check(feature) {
        support if support.works() => Ok(kind.into()),
        support if session => Err(Error::Unsupported {
            what: format!("cannot attach SEC(\"{}\")", request.kind.shape),
            why: match support {
                Support::Denied { why, .. } => format!("the kernel refuses it to this process: {why}"),
                _ => "this kernel has no probes that run one program on entry and return of functions; SEC(\"kprobe.multi\") and SEC(\"kretprobe.multi\") are two programs for the same".to_owned(),
            },
        }),
        _ => Ok(ProgramKind::Kprobe.into()),
    }
}

fn functions(request: &AttachRequest<'_>) -> Result<Vec<String>> {
    let glob = Glob::new(request.target()?);
    if glob.is_plain() {
        return Ok(vec![glob.text().to_owned()]);
    }
    let all: Vec<String> = request
        .kernel
        .known
        .functions()?
        .names()
        .filter(|name| glob.matches(name))
        .map(str::to_owned)
        .collect();
    if all.is_empty() {
        return Err(Error::NoSuchEvent {
            what: "traceable function".to_owned(),
            wanted: glob.text().to_owned(),
            near: Vec::new(),
        });
    }
    Ok(all)
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let functions = functions(request)?;
    let at_return = request.at_return || request.kind.hook == Hook::KretprobeMulti;
    if kind == ProgramKind::Kprobe {
        if functions.len() > MAX_ONE_BY_ONE {
            return Err(Error::Unsupported {
                what: format!("{} functions match {}", functions.len(), request.target),
                why: format!(
                    "this kernel has no probes on many functions at once (FPROBE), and more than {MAX_ONE_BY_ONE} one by one take too long"
                ),
            });
        }
        let mut links = Links::default();
        for function in &functions {
            links.extend([kprobe::one(request, program, function, 0, at_return)?]);
        }
        return Ok(links);
    }
    let names: Vec<&str> = functions.iter().map(String::as_str).collect();
    let all = Functions {
        at_return,
        alone: false,
        maxactive: None,
    };
    match request.attach((program, kind), &all, &names) {
        Err(_) if names.len() == 1 && !request.kernel.has_function(request.target) => {
            Err(request.kernel.no_function(request.target))
        }
        attached => attached,
    }
}
