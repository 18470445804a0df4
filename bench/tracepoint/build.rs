//! Compiles LTTng's event, where it is asked for.

fn main() {
    println!("cargo::rerun-if-changed=src/lttng.c");
    println!("cargo::rerun-if-changed=src/lttng.h");
    #[cfg(feature = "lttng")]
    {
        cc::Build::new()
            .file("src/lttng.c")
            .include("src")
            .opt_level(2)
            .compile("bench_lttng");
        println!("cargo::rustc-link-lib=lttng-ust");
        println!("cargo::rustc-link-lib=dl");
        // LTTng finds its events by the bounds of a section alone, which lld takes for nobody's.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,nostart-stop-gc");
    }
}
