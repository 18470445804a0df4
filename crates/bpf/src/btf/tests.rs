//! Tests of BTF as a whole: blobs that are built, parsed and walked, and the running kernel's own, where it publishes one.

use super::write::{Builder, Placed};
use super::*;

/// BTF as a kernel of a dozen types would have it.
fn miniature() -> Vec<u8> {
    let mut b = Builder::new();
    let int = b.int("int", 4);
    let long = b.unsigned("long unsigned int", 8);
    let size_t = b.typedef("size_t", long);
    let char = b.character();
    let task = b.declare("task_struct");
    let task_pointer = b.pointer(task);
    let comm = b.array(char, 16);
    let inner = b.structure("", &[("a", char), ("b", long)]);
    let anonymous = b.union("", &[("", inner), ("whole", long)]);
    let bool_ = b.boolean();
    b.define(
        task,
        &[
            ("pid", int),
            ("comm", comm),
            ("", anonymous),
            ("parent", task_pointer),
            ("dead", bool_),
        ],
    );
    let const_char = b.constant(char);
    let text = b.pointer(const_char);
    let callback = b.func_proto(int, &[]);
    let callback_pointer = b.pointer(callback);
    b.function(
        "do_it",
        size_t,
        &[("p", task_pointer), ("text", text), ("cb", callback_pointer)],
    );
    b.function("printk", int, &[("fmt", text), ("", TypeId::VOID)]);
    b.enumeration("state", 4, &[("RUNNING", 0), ("DEAD", -1)]);
    b.enumeration("wide", 8, &[("HUGE", 1 << 40)]);
    let bits = |name, bit_offset, bits| Placed {
        name,
        ty: int,
        bit_offset,
        bits: Some(bits),
    };
    b.struct_at_offsets("flags", 4, &[bits("low", 0, 3), bits("high", 3, 29)]);
    b.finish()
}

#[test]
fn members_sizes_and_functions() {
    let btf = Btf::parse(miniature()).unwrap();
    let task = btf.find_c("struct task_struct").unwrap();
    let at = |name| btf.find_member(task, name).map(|p| p.offset());
    assert_eq!(at("pid"), Some(0));
    assert_eq!(at("comm"), Some(4));
    assert_eq!(at("a"), Some(24));
    assert_eq!(at("b"), Some(32));
    assert_eq!(at("whole"), Some(24));
    assert_eq!(at("parent"), Some(40));
    assert_eq!(at("nothing"), None);
    assert_eq!(btf.size_of(task), Some(56));
    assert_eq!(
        btf.member_names(task),
        ["pid", "comm", "a", "b", "whole", "parent", "dead"]
    );
    let f = btf.function("do_it").unwrap();
    assert_eq!(
        btf.prototype(&f),
        "size_t do_it(struct task_struct * p, const char * text, int (*cb)(void))"
    );
    assert_eq!(
        btf.prototype(&btf.function("printk").unwrap()),
        "int printk(const char * fmt, ...)"
    );
    assert!(btf.function("RUNNING").is_none());
    assert_eq!(
        btf.functions().map(|f| f.name).collect::<Vec<_>>(),
        ["do_it", "printk"]
    );
    assert_eq!(btf.size_of(btf.find_c("size_t").unwrap()), Some(8));
}

#[test]
fn enumerators_and_bit_fields() {
    let btf = Btf::parse(miniature()).unwrap();
    assert_eq!(btf.enumerator("DEAD").map(|e| e.value), Some(-1));
    assert_eq!(btf.enumerator("HUGE").map(|e| e.value), Some(1 << 40));
    assert_eq!(btf.enumerator("NOTHING"), None);
    let flags = btf.find(BtfKind::Struct, "flags").unwrap();
    let high = btf.find_member(flags, "high").unwrap();
    assert_eq!((high.bit_offset, high.bits), (3, Some(29)));
    assert_eq!(
        btf.definition(flags),
        "struct flags {\n\tint low: 3;\n\tint high: 29;\n}"
    );
}

#[test]
fn declarations_as_c_writes_them() {
    let mut b = Builder::new();
    let char = b.character();
    let pointer = b.pointer(char);
    let double = b.pointer(pointer);
    let constant = b.constant(pointer);
    let array = b.array(pointer, 3);
    let to_array = b.pointer(array);
    let grid = b.array(array, 2);
    let proto = b.func_proto(pointer, &[("x", double)]);
    let callback = b.pointer(proto);
    let table = b.array(callback, 4);
    let btf = Btf::parse(b.finish()).unwrap();
    for (id, cast, declaration) in [
        (double, "char **", "char ** v"),
        (constant, "char * const", "char * const v"),
        (array, "char *[3]", "char * v[3]"),
        (to_array, "char *(*)[3]", "char *(*v)[3]"),
        (grid, "char *[2][3]", "char * v[2][3]"),
        (callback, "char *(*)(char ** x)", "char *(*v)(char ** x)"),
        (table, "char *(*[4])(char ** x)", "char *(*v[4])(char ** x)"),
    ] {
        assert_eq!(btf.render(id), cast);
        assert_eq!(btf.declare(id, "v"), declaration);
    }
}

#[test]
fn split_goes_on_where_the_base_ends() {
    let base = Arc::new(Btf::parse(miniature()).unwrap());
    let task = base.find(BtfKind::Struct, "task_struct").unwrap();
    let mut b = Builder::split(&base);
    let pointer = b.pointer(task);
    b.structure(
        "module_data",
        &[("count", base.find_c("int").unwrap()), ("owner", pointer)],
    );
    b.function("module_function", pointer, &[]);
    let split = Btf::parse_split(base.clone(), b.finish()).unwrap();
    let data = split.find_c("struct module_data").unwrap();
    assert!(data.0 > base.len() as u32);
    let owner = split.find_member(data, "owner").unwrap();
    assert_eq!(
        (owner.offset(), split.render(owner.ty)),
        (8, "struct task_struct *".to_owned())
    );
    assert_eq!(split.find(BtfKind::Struct, "task_struct"), Some(task));
    assert_eq!(
        split.function("do_it").map(|f| f.id),
        base.function("do_it").map(|f| f.id)
    );
    assert_eq!(
        split.functions().map(|f| f.name).collect::<Vec<_>>(),
        ["module_function"]
    );
    assert_eq!(split.enumerator("DEAD").map(|e| e.value), Some(-1));
}

#[test]
fn refuses_what_is_not_btf() {
    for bytes in [
        &b""[..],
        b"\x9f",
        b"\xeb\x9f\x01\0",
        b"\x9f\xeb\x02\0",
        b"\x9f\xeb\x01\0\x18\0\0\0",
    ] {
        assert!(matches!(Btf::parse(bytes), Err(Error::Btf { .. })));
    }
    let whole = miniature();
    for length in 0..whole.len() {
        assert!(Btf::parse(whole[..length].to_vec()).is_err(), "cut at {length}");
    }
    let mut endless = whole;
    *endless.last_mut().unwrap() = b'x';
    assert!(matches!(Btf::parse(endless), Err(Error::Btf { .. })));
}

/// Asks every query of every type, to see that all come to an end without a panic.
fn walk(btf: &Btf) {
    for id in btf.ids().chain([TypeId(0), TypeId(u32::MAX)]) {
        let _ = (
            btf.size_of(id),
            btf.resolve(id),
            btf.render(id),
            btf.definition(id),
            btf.name(id),
        );
        let _ = (
            btf.find_member(id, "pid"),
            btf.find_member(id, "absent"),
            btf.member_names(id),
        );
        if let Type::Datasec { entries, .. } = btf.ty(id) {
            let _ = entries.variables().count();
        }
    }
    for function in btf.functions() {
        let _ = (btf.prototype(&function), btf.function(function.name));
    }
    let _ = (
        btf.enumerator("DEAD"),
        btf.find_c("struct task_struct"),
        btf.find_c("size_t"),
    );
}

/// A struct whose anonymous members are itself, a typedef of itself, an array of itself, a prototype of itself.
#[test]
fn cycles_end() {
    let mut b = Builder::new();
    let own = b.declare("loop");
    b.define(own, &[("", own), ("", own), ("", own)]);
    let next = TypeId(own.0 + 1);
    assert_eq!(b.typedef("self", next), next);
    let array = TypeId(next.0 + 1);
    b.array(array, u32::MAX);
    let proto = TypeId(array.0 + 1);
    b.func_proto(proto, &[("a", proto), ("b", proto)]);
    b.function("f", proto, &[("a", proto)]);
    let btf = Btf::parse(b.finish()).unwrap();
    walk(&btf);
    assert_eq!(btf.size_of(array), None);
    assert_eq!(btf.find_member(own, "absent"), None);
}

proptest::proptest! {
    /// With any few bytes changed, a blob is refused or can be walked.
    #[test]
    fn damaged_blobs_are_survived(changes in proptest::collection::vec((0_usize..2000, proptest::prelude::any::<u8>()), 1..12)) {
        let mut bytes = miniature();
        let length = bytes.len();
        for (at, value) in changes {
            bytes[24 + at % (length - 24)] = value;
        }
        if let Ok(btf) = Btf::parse(bytes.clone()) {
            walk(&btf);
        }
        let base = Arc::new(Btf::parse(miniature()).unwrap());
        if let Ok(btf) = Btf::parse_split(base, bytes) {
            walk(&btf);
        }
    }
}

fn host() -> Option<Btf> {
    Btf::parse(std::fs::read("/sys/kernel/btf/vmlinux").ok()?).ok()
}

#[test]
fn the_running_kernel() {
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let btf = host().expect("the kernel's own BTF");
    let task = btf.find(BtfKind::Struct, "task_struct").unwrap();
    let pid = btf.find_member(task, "pid").unwrap();
    assert_eq!(btf.render(pid.ty), "pid_t");
    assert_eq!(btf.size_of(pid.ty), Some(4));
    let read = btf.prototype(&btf.function("vfs_read").unwrap());
    assert_eq!(
        read,
        "ssize_t vfs_read(struct file * file, char * buf, size_t count, loff_t * pos)"
    );
    assert_eq!(btf.enumerator("BPF_MAP_TYPE_ARRAY").map(|e| e.value), Some(2));
    assert!(btf.functions().count() > 10_000);
}

/// A type as `bpftool btf dump … format raw` shows it, members on lines of their own.
fn raw(btf: &Btf, id: TypeId) -> String {
    let quoted = |name: &str| format!("'{}'", if name.is_empty() { "(anon)" } else { name });
    let sign = |signed| if signed { "SIGNED" } else { "UNSIGNED" };
    let linkage = |l| {
        ["static", "global", "extern"]
            .get(l as usize)
            .copied()
            .unwrap_or("?")
    };
    let word = format!("{:?}", btf.kind(id).unwrap());
    let kind = match word.as_str() {
        "FuncProto" => "FUNC_PROTO".to_owned(),
        "DeclTag" => "DECL_TAG".to_owned(),
        "TypeTag" => "TYPE_TAG".to_owned(),
        word => word.to_uppercase(),
    };
    let head = format!("[{}] {kind} {}", id.0, quoted(btf.name(id)));
    let composite = |c: Composite<'_>| {
        let member = |m: Member<'_>| {
            let width = m
                .bits
                .map(|bits| format!(" bitfield_size={bits}"))
                .unwrap_or_default();
            format!(
                "\n\t{} type_id={} bits_offset={}{width}",
                quoted(m.name),
                m.ty.0,
                m.bit_offset
            )
        };
        format!(
            "size={} vlen={}{}",
            c.size,
            c.members().len(),
            c.members().map(member).collect::<String>()
        )
    };
    let rest = match btf.ty(id) {
        Type::Void | Type::Unknown => "?".to_owned(),
        Type::Int(i) => {
            let encoding = match (i.signed, i.char, i.bool) {
                (true, ..) => "SIGNED",
                (_, true, _) => "CHAR",
                (.., true) => "BOOL",
                _ => "(none)",
            };
            format!(
                "size={} bits_offset={} nr_bits={} encoding={encoding}",
                i.size, i.bit_offset, i.bits
            )
        }
        Type::Ptr(t) | Type::Volatile(t) | Type::Const(t) | Type::Restrict(t) => format!("type_id={}", t.0),
        Type::Typedef { ty, .. } | Type::TypeTag { ty, .. } => format!("type_id={}", ty.0),
        Type::Array {
            element,
            index,
            count,
        } => {
            format!("type_id={} index_type_id={} nr_elems={count}", element.0, index.0)
        }
        Type::Struct(c) | Type::Union(c) => composite(c),
        Type::Enum(e) => {
            let wide = btf.kind(id) == Some(BtfKind::Enum64);
            let value = |v: EnumerationValue<'_>| match (wide, e.signed) {
                (true, false) => format!("\n\t{} val={}ULL", quoted(v.name), v.value as u64),
                (true, true) => format!("\n\t{} val={}LL", quoted(v.name), v.value),
                _ => format!("\n\t{} val={}", quoted(v.name), v.value),
            };
            let values: String = e.values().map(value).collect();
            format!(
                "encoding={} size={} vlen={}{values}",
                sign(e.signed),
                e.size,
                e.values().len()
            )
        }
        Type::Fwd { union, .. } => format!("fwd_kind={}", if union { "union" } else { "struct" }),
        Type::Func {
            proto, linkage: l, ..
        } => format!("type_id={} linkage={}", proto.0, linkage(l)),
        Type::FuncProto(p) => {
            let parameter = |p: Parameter<'_>| format!("\n\t{} type_id={}", quoted(p.name), p.ty.0);
            let list: String = p.parameters().map(parameter).collect();
            format!("ret_type_id={} vlen={}{list}", p.ret.0, p.parameters().len())
        }
        Type::Var { ty, linkage: l, .. } => format!("type_id={}, linkage={}", ty.0, linkage(l)),
        Type::Datasec { size, entries, .. } => {
            let variable = |v: DatasecEntry| {
                let name = btf.name(v.ty);
                format!(
                    "\n\ttype_id={} offset={} size={} (VAR '{name}')",
                    v.ty.0, v.offset, v.size
                )
            };
            let list: String = entries.variables().map(variable).collect();
            format!("size={size} vlen={}{list}", entries.variables().len())
        }
        Type::Float { size, .. } => format!("size={size}"),
        Type::DeclTag { ty, component, .. } => format!("type_id={} component_idx={component}", ty.0),
    };
    format!("{head} {rest}")
}

/// Compares every type of the running kernel with what bpftool (libbpf) reads.
#[test]
fn agrees_with_bpftool_on_every_type() {
    let command = ["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "raw"];
    let (Some(btf), Ok(theirs)) = (
        host(),
        std::process::Command::new("bpftool").args(command).output(),
    ) else {
        return;
    };
    if !theirs.status.success() {
        return;
    }
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    let mut theirs = theirs.lines();
    for id in btf.ids() {
        for line in raw(&btf, id).lines() {
            assert_eq!(Some(line), theirs.next());
        }
    }
    assert_eq!(theirs.next(), None);
}

/// The first searches go without an index, the later ones with one: both must find the same.
#[test]
fn searches_agree_with_and_without_an_index() {
    let base = Arc::new(Btf::parse(miniature()).unwrap());
    let mut b = Builder::split(&base);
    let own = b.structure("task_struct", &[("own", TypeId(1))]);
    b.enumeration("state", 4, &[("DEAD", 77)]);
    let split = b.finish();
    let names = [
        "task_struct",
        "ask_struct",
        "size_t",
        "do_it",
        "it",
        "state",
        "char",
        "",
        "nothing",
    ];
    let constants = ["RUNNING", "DEAD", "HUGE", "EAD", ""];
    let fresh = || Btf::parse_split(base.clone(), split.clone()).unwrap();
    let indexed = fresh();
    for _ in 0..100 {
        let _ = (indexed.find_all("nothing").count(), indexed.enumerator("NOTHING"));
    }
    assert!(
        indexed.names.get().is_none(),
        "the same name again needs no index"
    );
    for n in 0..100 {
        let name = format!("nothing_{n}");
        let _ = (indexed.find_all(&name).count(), indexed.enumerator(&name));
    }
    assert!(indexed.names.get().is_some() && indexed.enumerators.get().is_some());
    for name in names {
        let scanned = fresh();
        let found: Vec<TypeId> = scanned.find_all(name).collect();
        assert!(scanned.names.get().is_none());
        assert_eq!(found, indexed.find_all(name).collect::<Vec<_>>(), "{name}");
    }
    for name in constants {
        assert_eq!(fresh().enumerator(name), indexed.enumerator(name), "{name}");
    }
    assert_eq!(fresh().find(BtfKind::Struct, "task_struct"), Some(own));
    assert_eq!(fresh().enumerator("DEAD").map(|e| e.value), Some(77));
}

/// Run by hand, in release: `cargo test --release -p kestrel-bpf btf -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed_on_the_running_kernel() {
    let bytes = Bytes::from(std::fs::read("/sys/kernel/btf/vmlinux").unwrap());
    for _ in 0..5 {
        let start = std::time::Instant::now();
        let btf = Btf::parse(bytes.clone()).unwrap();
        let parsed = start.elapsed();
        let found = btf.find(BtfKind::Struct, "task_struct");
        let first = start.elapsed() - parsed;
        let start = std::time::Instant::now();
        let again = btf.find(BtfKind::Func, "vfs_read");
        let second = start.elapsed();
        let start = std::time::Instant::now();
        let named = btf.enumerator("BPF_MAP_TYPE_ARRAY");
        let enumerator = start.elapsed();
        let start = std::time::Instant::now();
        for n in (0..).take_while(|_| btf.names.get().is_none()) {
            assert!(btf.find(BtfKind::Func, &format!("vfs_write_{n}")).is_none());
        }
        let indexed = start.elapsed();
        println!(
            "{} types: parse {parsed:?}, first search {first:?}, next {second:?}, enumerator {enumerator:?}, up to the index {indexed:?}",
            btf.len()
        );
        assert!(found.is_some() && again.is_some() && named.is_some());
    }
}
