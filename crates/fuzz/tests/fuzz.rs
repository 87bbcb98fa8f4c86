//! The committed corpora hold in every build, without a fuzzer: what was found once stays mended.

use std::fs;
use std::path::Path;

#[test]
fn the_corpora_hold() {
    for (name, target) in wayside_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut inputs = 0;
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            // Shown if it fails.
            println!("{}", path.display());
            target(&fs::read(path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 10, "{name}: hardly any corpus");
    }
}
