//! Sets the soname of `libsyncline_c.so`: the name of the library with the part of the version that
//! identifies its interface. Before 1.0 that part is `0.MINOR`, from 1.0 on the major version.

fn main() {
    let part = |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    let interface = match part("MAJOR") {
        zero if zero == "0" => format!("0.{}", part("MINOR")),
        major => major,
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsyncline_c.so.{interface}");
    println!("cargo:rerun-if-changed=build.rs");
}
