//! The web interface in a real browser: runs the tests of `web/test/browser` against the binary.

use std::path::Path;
use std::process::{Command, Stdio};

const WEB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web");
const CURE: &str = "apt install chromium nodejs npm, then (cd web && npm install)";

#[test]
fn pages_work_in_a_browser() {
    let there = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null());
        command.stderr(Stdio::null()).status().is_ok()
    };
    let packages = Path::new(WEB).join("node_modules/playwright-core");
    if !there("node") || !there("chromium") || !packages.exists() {
        skipped_tests::skip("the web interface in a browser", CURE);
        return;
    }
    let output = Command::new("npm")
        .args(["run", "browser"])
        .current_dir(WEB)
        .env("ICECORE_BIN", env!("CARGO_BIN_EXE_icecore"))
        .output()
        .expect("npm comes with node");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
