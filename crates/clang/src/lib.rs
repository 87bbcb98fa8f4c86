//! For build scripts: compiles one C source of `dataplane/` for BPF. Crates ask for it only where their feature wants
//! BPF, so that a plain build needs no clang.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` into `OUT_DIR`, as `NAME.o` for `NAME.c`, and says where that is. The compiler is `$CLANG`, or the
/// clang that the programs are known to pass the verifier with, or any.
///
/// # Panics
/// If there is no clang, or the source does not compile: a build script ends that way.
pub fn compile(source: &Path) -> PathBuf {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed={}", source.display());
    let asked = env::var("CLANG").ok();
    let compilers = asked.as_deref().map_or_else(|| vec!["clang-19", "clang"], |asked| vec![asked]);
    let name = Path::new(source.file_name().expect("a file")).with_extension("o");
    let object = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join(name);
    for compiler in &compilers {
        let mut command = Command::new(compiler);
        command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"]);
        // Debian keeps <asm/types.h> in a directory of the host's.
        command.arg(format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH));
        command.arg("-c").arg(source).arg("-o").arg(&object);
        match command.status() {
            Ok(status) if status.success() => return object,
            Ok(status) => panic!("{compiler} does not compile {} for BPF: {status}", source.display()),
            Err(_) => continue,
        }
    }
    panic!("BPF needs clang: none of {compilers:?} is there (apt-get install clang-19, or set CLANG)");
}
