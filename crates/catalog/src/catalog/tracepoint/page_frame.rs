//! The number of a page's frame, computed from the address of its `struct page`: what `page_to_pfn` does in the kernel.

use super::super::lookup::Catalog;
use kestrel_bpf::btf::BtfKind;
use kestrel_kernel::procfs;

/// The form in rules: `PFN(page)`.
const WRITTEN: &str = "PFN(";
/// The kernel keeps all `struct page` in one array; where it begins is drawn at boot, in steps of so many bytes (`kernel_randomize_memory`).
const STEP: u64 = 1 << 30;

/// Whether an expression asks for a frame's number.
pub(super) fn is_in(expression: &str) -> bool {
    expression.contains(WRITTEN)
}

/// Puts what stands for each `PFN(…)` into an expression; `None` where this machine's frames do not follow from addresses alone.
pub(super) fn expand(catalog: &Catalog, expression: &str) -> Option<String> {
    if !is_in(expression) {
        return Some(expression.to_owned());
    }
    let types = catalog.types().ok()?;
    let size = types.size_of(types.find(BtfKind::Struct, "page")?)?;
    // As long as the array is no longer than a step, an address's place in its step is its place in the array.
    let frames = procfs::page_frames(catalog.host()).ok()?;
    (cfg!(target_arch = "x86_64") && frames.checked_mul(size)? <= STEP).then(|| written(expression, size))
}

fn written(expression: &str, size: u64) -> String {
    let mut rest = expression;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once(WRITTEN) {
        let (page, more) = after.split_once(')').unwrap_or((after, ""));
        text += before;
        text += &format!("(((uint64){page} & {:#x}) / {size})", STEP - 1);
        rest = more;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_in_the_array_is_the_number() {
        assert_eq!(
            written("x == 0 ? 1 : PFN(page)", 64),
            "x == 0 ? 1 : (((uint64)page & 0x3fffffff) / 64)"
        );
    }
}
