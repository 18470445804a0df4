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
        // LTTng reads its events between the start and end symbols of a section; lld drops the section, since nothing else refers to it.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,nostart-stop-gc");
    }
}
