//! Permissions of files that the process creates: other users of the machine have none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::served::{PATIENCE, Serve, TestServer, Workplace, icecore, under_umask};
use crate::text;

const NO_MASK: &str = "0";

/// The rights of others, and that of the group to write.
const TAKEN: u32 = 0o027;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns `true` if others get to a directory: where tests may write there may be a closed one
/// above.
fn is_reached(directory: &Path) -> bool {
    let directory = directory.canonicalize().unwrap();
    directory.ancestors().all(|path| mode(path) & 0o001 != 0)
}

/// A directory and everything in it.
fn tree(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        at += 1;
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    found
}

/// Checks everything in a directory; the names are of files that must be there.
#[track_caller]
fn check(root: &Path, names: &[&str]) {
    let found = tree(root);
    let open: Vec<String> = found
        .iter()
        .filter(|path| mode(path) & TAKEN != 0)
        .map(|path| format!("{:o} {}", mode(path), path.display()))
        .collect();
    assert_eq!(open, [] as [String; 0]);
    for name in names {
        let is_there = found.iter().any(|path| path.ends_with(name));
        assert!(is_there, "{name} is not in {found:#?}");
    }
}

fn post(served: &TestServer, path: &str, body: &str) -> String {
    let answer = served.client().post(path, &[], body.as_bytes()).unwrap();
    assert!(answer.is_success(), "{path}: {}", answer.text());
    answer.text()
}

#[track_caller]
fn run(command: &Command) {
    let output = under_umask(NO_MASK, command).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn serve(workplace: &Workplace, mask: &str) -> Serve {
    Serve::new(workplace.path("data"), workplace.path("log")).under_umask(mask)
}

#[test]
fn what_is_created_is_kept_from_others() {
    let workplace = Workplace::new();
    let mut served = serve(&workplace, NO_MASK).start();
    let url = format!("http://{}", served.address().unwrap());
    post(&served, "/api/v1/import/prometheus", "secret_metric 1\n");
    post(&served, "/-/flush", "");
    let mut snapshot = icecore();
    run(snapshot.args(["snapshot", "create", "kept", "--server", url.as_str()]));
    let exported = workplace.path("exported");
    fs::create_dir(&exported).unwrap();
    set_mode(&exported, 0o750);
    let mut export = icecore();
    let export = export.args(["export", "--server", url.as_str(), "--output"]);
    run(export.arg(exported.join("all.native")));
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());

    let (data, restored) = (workplace.path("data"), workplace.path("restored"));
    let mut restore = icecore();
    restore.args(["restore", "--snapshot", "kept", "--from"]);
    run(restore.arg(&data).arg("--to").arg(&restored));
    let mut maintenance = icecore();
    maintenance.args(["maintenance", "run", "--storage"]);
    run(maintenance.arg(&restored));
    for root in [&data, &restored] {
        assert_eq!(mode(root), 0o750);
        check(root, &["icecore.lock", "db/manifest"]);
    }
    check(&exported, &["all.native"]);
    assert!(!served.log().contains("chmod"), "{}", served.log());
}

#[test]
fn a_stricter_mask_stays_and_directories_that_exist_keep_their_rights() {
    let workplace = Workplace::new();
    let data = workplace.path("data");
    let mut served = serve(&workplace, "077").start();
    assert_eq!(mode(&data), 0o700);
    served.kill();
    let around = data.parent().unwrap();
    set_mode(around, 0o700);
    set_mode(&data, 0o755);
    let mut served = serve(&workplace, NO_MASK).start();
    assert_eq!(mode(&data), 0o755);
    assert!(!served.log().contains("chmod"), "{}", served.log());
    served.kill();
    set_mode(around, 0o755);
    // Others may enter it, and can read nothing there.
    let mut served = serve(&workplace, NO_MASK).start();
    assert!(!served.log().contains("chmod"), "{}", served.log());
    served.kill();
    set_mode(&data.join("icecore.lock"), 0o644);
    let mut served = serve(&workplace, NO_MASK).start();
    let advice = format!("`chmod -R o= {}`", data.display());
    let is_warned = served.log().contains(&advice);
    assert_eq!(is_warned, is_reached(around), "{}", served.log());
    served.kill();
    let chmod = Command::new("chmod").args(["-R", "o="]).arg(&data).status();
    assert!(chmod.unwrap().success());
    let served = serve(&workplace, NO_MASK).start();
    assert!(!served.log().contains("chmod"), "{}", served.log());
}
