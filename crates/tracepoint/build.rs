//! Decides how keys are made: `patched_keys` where code can be changed under the threads that run it, `listed_events` where the linker makes a table.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(patched_keys)");
    println!("cargo::rustc-check-cfg=cfg(listed_events)");
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is == value);
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("loom") || is_set("CARGO_CFG_MIRI") || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    println!("cargo::rustc-cfg=listed_events");
    if is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is_set("CARGO_FEATURE_STD")
        && !is_set("CARGO_FEATURE_FLAG_KEYS")
    {
        println!("cargo::rustc-cfg=patched_keys");
    }
}
