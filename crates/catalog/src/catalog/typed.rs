//! Functions with their BTF types: those of the kernel, and those of modules, whose type ids continue the kernel's.

use super::glob::Glob;
use super::lookup::Catalog;
use crate::code::KERNEL;
use crate::error::{Error, Result, nothing_matches};
use kestrel_bpf::btf::{Btf, Function};
use std::sync::Arc;

/// A function that BTF describes.
#[derive(Clone, Debug)]
pub struct TypedFunction {
    /// The types: the kernel's, or its module's over the kernel's.
    pub types: Arc<Btf>,
    /// The module that the function is in; `None` for the kernel itself.
    pub(crate) module: Option<String>,
    /// The function's name.
    pub(crate) name: String,
}

impl TypedFunction {
    /// The function's description in the types.
    ///
    /// # Errors
    /// Never for one that [`Catalog::typed_function`] gave.
    pub(crate) fn function(&self) -> Result<Function<'_>> {
        self.types
            .function(&self.name)
            .ok_or_else(|| untyped(self.module.as_deref(), &self.name))
    }

    /// The function's name as a user writes it.
    pub(crate) fn text(&self) -> String {
        qualified(self.module.as_deref(), &self.name)
    }
}

/// `FUNCTION`, or `MODULE:FUNCTION`.
pub(crate) fn qualified(module: Option<&str>, name: &str) -> String {
    module.map_or_else(|| name.to_owned(), |module| format!("{module}:{name}"))
}

fn untyped(module: Option<&str>, name: &str) -> Error {
    let whose = module.map_or_else(
        || "the kernel's types (BTF)".to_owned(),
        |module| format!("the types (BTF) of the module {module}"),
    );
    Error::Unsupported {
        what: format!("typed parameters of {}", qualified(module, name)),
        why: format!(
            "{whose} do not have its prototype: they leave out functions whose parameters the compiler changed, or whose copies differ; kprobe:{} has its registers",
            qualified(module, name)
        ),
    }
}

impl Catalog {
    /// The module that a function is in: the one that is named, or that of the first symbol with the function's name; `None` for the kernel itself.
    pub fn module_of(&self, module: Option<&str>, name: &str) -> Option<String> {
        match module {
            Some(KERNEL) => None,
            Some(module) => Some(module.to_owned()),
            None => {
                let mut named = self.symbols().ok()?.named(name).filter(|symbol| symbol.is_text());
                let first = named.next()?;
                match first.module.is_none() || named.any(|symbol| symbol.module.is_none()) {
                    true => None,
                    false => first.module.map(str::to_owned),
                }
            }
        }
    }

    /// The functions in ftrace's list whose module and name match the patterns, each with its module.
    ///
    /// # Errors
    /// When there are none, or the kernel does not list them.
    pub(crate) fn functions_of(&self, module: &Glob, pattern: &Glob) -> Result<Vec<(String, String)>> {
        let functions = self.functions()?;
        let mut found = Vec::new();
        for name in functions.names().filter(|name| pattern.matches(name)) {
            let modules = functions.modules_of(name).map(|own| match own {
                "" => KERNEL,
                own => own,
            });
            let mut wanted: Vec<&str> = modules.filter(|own| module.matches(own)).collect();
            // Several functions with one name in one module are one event.
            wanted.dedup();
            found.extend(wanted.into_iter().map(|own| (own.to_owned(), name.to_owned())));
        }
        match found.is_empty() {
            false => Ok(found),
            true => Err(nothing_matches(
                "function",
                &format!("{}:{}", module.text(), pattern.text()),
                Vec::new(),
            )),
        }
    }

    /// The functions that match in modules that match, as `MODULE:FUNCTION`; none where none match.
    pub(crate) fn names_in_modules(&self, module: &Glob, pattern: &Glob, found: &mut dyn FnMut(&str)) {
        let matching = self.functions_of(module, pattern).unwrap_or_default();
        for (module, name) in matching {
            found(&format!("{module}:{name}"));
        }
    }

    /// A function and the types that describe it.
    ///
    /// # Errors
    /// When there are no types of it; the error names kinds of probes that need none.
    pub fn typed_function(&self, module: Option<&str>, name: &str) -> Result<TypedFunction> {
        let of_kernel = |types: Arc<Btf>| TypedFunction {
            types,
            module: None,
            name: name.to_owned(),
        };
        if module.is_none_or(|module| module == KERNEL) {
            let types = self.types()?;
            if types.function(name).is_some() {
                return Ok(of_kernel(types));
            }
        }
        if let (Some(module), Some(_)) = (module, self.script())
            && !self.has_module(module)
        {
            // A script ends with what it finds.
            return Err(Error::NoPlace {
                wanted: format!("{module}:{name}"),
                why: format!("the module {module} is not loaded"),
            });
        }
        let Some(module) = self.module_of(module, name) else {
            return Err(untyped(None, name));
        };
        let types = self.module_types(&module)?;
        let last = types.base().map_or(0, |base| base.len());
        let own = types
            .function(name)
            .filter(|function| function.id.0 as usize > last);
        match own {
            Some(_) => Ok(TypedFunction {
                types,
                module: Some(module),
                name: name.to_owned(),
            }),
            None => Err(untyped(Some(&module), name)),
        }
    }
}
