//! Code that was looked at before, beside the facts of its kernel: many events of a command may be in one function.

use super::function::Function;
use super::reserved::Reserved;
use crate::facts::Facts;
use kestrel_kernel::kcore::Kcore;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// A kernel's facts, and what [`super::Code`] has found out of its text.
#[derive(Debug)]
pub struct CodeCache {
    facts: Facts,
    reserved: OnceCell<Reserved>,
    /// Functions whose code was looked at, by address.
    functions: RefCell<HashMap<u64, Arc<Function>>>,
}

impl Deref for CodeCache {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl CodeCache {
    /// A catalog of code over these facts, with nothing read yet.
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            reserved: OnceCell::new(),
            functions: RefCell::default(),
        }
    }

    /// The facts, to be changed before anything asks for them.
    pub(crate) fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Places in code that the kernel keeps for itself, as they were when first asked for: all events of a command ask, and the tables are long.
    pub(crate) fn reserved(&self, memory: &Kcore) -> &Reserved {
        self.reserved.get_or_init(|| Reserved::read(self, memory))
    }

    /// A function that was looked at before: many events of a command may be in one.
    pub(crate) fn known_function(&self, address: u64) -> Option<Arc<Function>> {
        self.functions.borrow().get(&address).cloned()
    }

    /// Keeps a function for the next event in it.
    pub(crate) fn know_function(&self, function: Arc<Function>) {
        self.functions.borrow_mut().insert(function.address, function);
    }
}
