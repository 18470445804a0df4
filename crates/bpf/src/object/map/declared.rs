//! A map as an object declares it, whatever the style.

use crate::btf::{Btf, TypeId};
use crate::object::elf::Elf;
use crate::object::types::Externs;

/// Pinning policy of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// The map is pinned nowhere.
    #[default]
    None,
    /// Under a directory of the object's own (`PIN_OBJECT_NS` of tc).
    Object,
    /// Under the directory that all of tc's objects share (`PIN_GLOBAL_NS`).
    Global,
    /// Under its own name at the root of bpffs (`LIBBPF_PIN_BY_NAME`).
    ByName,
}

/// Initial content of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Contents of a new map: nothing, or zeroes.
    #[default]
    Empty,
    /// Bytes of the section, as the map's first value.
    Bytes(Vec<u8>),
    /// Values from the running kernel's configuration.
    Kconfig(Vec<KconfigVariable>),
}

/// A variable that takes its value from the kernel's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KconfigVariable {
    /// `CONFIG_HZ`, or one of the names that loaders know: `LINUX_KERNEL_VERSION`.
    pub name: String,
    /// Where it lies in the map's value.
    pub offset: u32,
    /// Size of the variable in bytes.
    pub size: u32,
    /// The type in the object's types.
    pub ty: TypeId,
    /// Weak: the symbol may be missing, and is zero then.
    pub weak: bool,
}

/// Initial value of a slot of a map, set before programs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filling {
    /// The map of that index.
    Map(usize),
    /// The program of that name.
    Program(String),
}

/// The template of the maps in a map of maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// The declaration of the inner maps.
    Template(Box<Map>),
    /// Another map of the object, by its index.
    Map(usize),
}

/// A map as declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// The name: that of the variable, or of the section.
    pub name: String,
    /// In which style it is declared, for people.
    pub style: &'static str,
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// The most elements; 0 where that is the number of CPUs.
    pub entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// `map_extra`.
    pub extra: u64,
    /// The key's type in the object's types.
    pub key: Option<TypeId>,
    /// The value's type.
    pub value: Option<TypeId>,
    /// Where it is pinned.
    pub pinning: Pinning,
    /// A number that other maps know it by (tc); 0 for none.
    pub id: u32,
    /// The maps that it holds, if it is a map of maps.
    pub inner: Option<Inner>,
    /// Slots filled from the start.
    pub filling: Vec<(u32, Filling)>,
    /// Initial content of the map.
    pub content: Content,
    /// Whether a section of the object is its value, so that code refers to places in it.
    pub is_data: bool,
    /// Section and place where it is declared, which relocations name.
    pub(in crate::object) place: (usize, u64),
    /// Bytes from there to the slots that are filled from the start.
    pub(in crate::object) slots_at: u64,
    /// tc's numbers: which map is the template of this one's, and in which slot of such a map this one goes.
    pub(in crate::object) numbers: Option<(u32, u32)>,
}

/// Parts of the object from which map declarations are read.
pub(in crate::object) struct Source<'o> {
    pub(in crate::object) elf: &'o Elf,
    pub(in crate::object) btf: Option<&'o Btf>,
    pub(in crate::object) externs: &'o Externs,
}
