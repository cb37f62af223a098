//! Gives `libsyncline_c.so` the name under which programs look for it: with the version, up to what makes another
//! interface. Until 1.0 that is the minor version.

fn main() {
    let part = |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    let interface = match part("MAJOR") {
        zero if zero == "0" => format!("0.{}", part("MINOR")),
        major => major,
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsyncline_c.so.{interface}");
    println!("cargo:rerun-if-changed=build.rs");
}
