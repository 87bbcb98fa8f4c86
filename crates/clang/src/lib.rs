//! For build scripts, and for `cargo xtask mutate`: compiles one C source of `dataplane/` for BPF. Crates ask for it
//! only where their feature wants BPF, so that a plain build needs no clang.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilers that are tried in turn: `$CLANG`, or the clang that the programs are known to pass the verifier with,
/// or any.
pub fn compilers() -> Vec<String> {
    env::var("CLANG").map_or_else(|_| vec!["clang-19".into(), "clang".into()], |asked| vec![asked])
}

/// How a compiler is called for BPF. What is compiled, into what and with which debugging information is the caller's
/// to add.
pub fn command(compiler: &str) -> Command {
    let mut command = Command::new(compiler);
    command.args(["-target", "bpf", "-mcpu=v3", "-O2"]);
    // Debian keeps <asm/types.h> in a directory of the host's.
    command.arg(format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH));
    command
}

/// Compiles `source` into `OUT_DIR`, as `NAME.o` for `NAME.c`, and says where that is.
///
/// # Panics
/// If there is no clang, or the source does not compile: a build script ends that way.
pub fn compile(source: &Path) -> PathBuf {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed={}", source.display());
    let compilers = compilers();
    let name = Path::new(source.file_name().expect("a file")).with_extension("o");
    let object = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join(name);
    for compiler in &compilers {
        let mut command = command(compiler);
        command.args(["-g", "-Wall", "-Werror", "-c"]).arg(source).arg("-o").arg(&object);
        match command.status() {
            Ok(status) if status.success() => return object,
            Ok(status) => panic!("{compiler} does not compile {} for BPF: {status}", source.display()),
            Err(_) => continue,
        }
    }
    panic!("BPF needs clang: none of {compilers:?} is there (apt-get install clang-19, or set CLANG)");
}
