//! Decides how keys are made: `patched_keys` where code can be changed under the threads that run it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(patched_keys)");
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is == value);
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_modelled = flags.contains("loom") || std::env::var_os("CARGO_CFG_MIRI").is_some();
    let by_flag = std::env::var_os("CARGO_FEATURE_FLAG_KEYS").is_some();
    if is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_OS", "linux") && !is_modelled && !by_flag {
        println!("cargo::rustc-cfg=patched_keys");
    }
}
