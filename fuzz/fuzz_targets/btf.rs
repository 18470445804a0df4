//! Any bytes as the kernel's types: reading, finding, walking and spelling them.
#![no_main]

use kestrel_bpf::btf::{Btf, BtfKind, TypeId};
use libfuzzer_sys::fuzz_target;

/// A header without errors, before so many bytes of types and the rest as strings.
fn blob(types: usize, data: &[u8]) -> Vec<u8> {
    let types = types.min(data.len()) as u32;
    let mut blob = vec![0x9f, 0xeb, 1, 0];
    for word in [24, 0, types, types, data.len() as u32 - types] {
        blob.extend_from_slice(&word.to_le_bytes());
    }
    blob.extend_from_slice(data);
    blob
}

fuzz_target!(|data: &[u8]| {
    walk(data);
    if let Some((&count, rest)) = data.split_first() {
        walk(&blob(usize::from(count) * 4, rest));
    }
});

fn walk(data: &[u8]) {
    let Ok(btf) = Btf::parse(data.to_vec()) else {
        return;
    };
    for id in btf.ids().chain([TypeId::VOID, TypeId(u32::MAX)]) {
        _ = (btf.ty(id), btf.kind(id), btf.size_of(id), btf.resolve(id));
        _ = (btf.render(id), btf.definition(id));
        // Anonymous members that hold each other twice have a hundred thousand names, and each search goes as far: a few will do.
        for member in btf.member_names(id).into_iter().take(8) {
            _ = btf.find_member(id, member);
        }
        let name = btf.name(id).to_owned();
        _ = (btf.find_c(&name), btf.function(&name), btf.enumerator(&name));
        // The first type of a name and kind is found again by them, whether by a search or by the index.
        if let Some(kind) = btf.kind(id).filter(|_| !name.is_empty()) {
            let found = btf.find(kind, &name);
            assert!(
                found.is_some_and(|found| found <= id),
                "{id:?} {kind:?} {name:?}: {found:?}"
            );
        }
    }
    for function in btf.functions() {
        _ = btf.prototype(&function);
    }
    _ = btf.find(BtfKind::Struct, "task_struct");
}
