//! Finds libskim: in SKIM_LIB_DIR, or where pkg-config says. SKIM_LIB_DIR is the `lib` folder of an installed tree.
//!
//! A program needs the library when it is linked and when it runs. The first is `rustc-link-search`. For the second
//! this crate hands its folder to the crates that use it, as DEP_SKIM_LIB; see examples/rust/README.md.
use std::{env, process::Command};

fn library_folder() -> String {
    println!("cargo::rerun-if-env-changed=SKIM_LIB_DIR");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Ok(folder) = env::var("SKIM_LIB_DIR") {
        return folder;
    }
    let output = Command::new("pkg-config").args(["--variable=libdir", "skim"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => panic!("libskim not found: set SKIM_LIB_DIR to its folder, or PKG_CONFIG_PATH to the one of skim.pc"),
    }
}

fn main() {
    let folder = library_folder();
    println!("cargo::rustc-link-search=native={folder}");
    println!("cargo::metadata=LIB={folder}");
    // For the examples of this crate; Cargo does not pass link arguments on to other crates.
    println!("cargo::rustc-link-arg-examples=-Wl,-rpath,{folder}");
}
