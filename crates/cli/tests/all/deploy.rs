//! The process under a service manager, and the files of `deploy/`, which have to fit it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use crate::served::{PATIENCE, Serve, TestServer, Workplace, icecore};
use crate::text;

/// A service manager that listens at the name that it gives to the process.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn new(address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    /// Returns the next message as its lines.
    #[track_caller]
    fn next(&self, served: &TestServer) -> Vec<String> {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message);
        let length = length.unwrap_or_else(|error| panic!("{error}:\n{}", served.log()));
        let lines = text(&message[..length]).lines();
        lines.map(String::from).collect()
    }

    /// Returns what has been sent and not been read.
    fn rest(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).unwrap();
        let mut messages = Vec::new();
        let mut message = [0; 4096];
        loop {
            match self.socket.recv(&mut message) {
                Ok(length) => messages.push(text(&message[..length]).to_owned()),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                    return messages;
                }
            }
        }
    }
}

/// Starts and stops a process, and checks what its service manager is told meanwhile.
fn is_told_of_start_and_stop(workplace: &Workplace, name: &str, address: &SocketAddr) {
    let manager = Manager::new(address);
    let data = workplace.path("data");
    let mut served = Serve::new(&data, workplace.path("log"))
        .env("NOTIFY_SOCKET", name)
        .spawn();
    let opening = manager.next(&served);
    assert_eq!(opening, [format!("STATUS=opening {}", data.display())]);
    assert_eq!(manager.next(&served), ["READY=1", "STATUS=ready"]);
    // Not a moment too early.
    let ready = served.client().get("/-/ready").unwrap();
    assert_eq!(ready.status, 200, "{}", ready.text());
    // And a reload may follow at once.
    served.hang_up();
    served.wait_for_words("SIGHUP: reloading");
    served.terminate();
    let stopping = manager.next(&served);
    assert_eq!(stopping, ["STOPPING=1", "STATUS=stopping: SIGTERM"]);
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    // A stop that takes long says what it waits for.
    for message in manager.rest() {
        let is_progress = message.starts_with("STATUS=stopping: waiting for ");
        assert!(is_progress && !message.contains('\n'), "{message}");
    }
    assert!(
        !served.log().contains("service manager"),
        "{}",
        served.log()
    );
}

#[test]
fn a_service_manager_is_told_through_a_socket_in_a_folder() {
    let workplace = Workplace::new();
    let path = workplace.path("notify");
    let address = SocketAddr::from_pathname(&path).unwrap();
    is_told_of_start_and_stop(&workplace, path.to_str().unwrap(), &address);
}

#[cfg(target_os = "linux")]
#[test]
fn a_service_manager_is_told_through_an_abstract_socket() {
    use std::os::linux::net::SocketAddrExt as _;

    let workplace = Workplace::new();
    let name = format!("icecore{}", workplace.path("notify").display());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    is_told_of_start_and_stop(&workplace, &format!("@{name}"), &address);
}

#[test]
fn a_process_that_cannot_open_its_store_never_says_that_it_is_ready() {
    let workplace = Workplace::new();
    let path = workplace.path("notify");
    let manager = Manager::new(&SocketAddr::from_pathname(&path).unwrap());
    let data = workplace.path("data");
    std::fs::write(&data, "a file is no directory").unwrap();
    let mut served = Serve::new(&data, workplace.path("log"))
        .env("NOTIFY_SOCKET", path.to_str().unwrap())
        .spawn();
    assert_eq!(served.wait_exit(PATIENCE).code(), Some(1));
    let opening = format!("STATUS=opening {}", data.display());
    assert_eq!(manager.rest(), [opening], "{}", served.log());
}

#[test]
fn a_service_manager_that_cannot_be_told_is_a_warning() {
    let workplace = Workplace::new();
    let gone = workplace.path("gone");
    for (number, name) in ["not a socket", gone.to_str().unwrap()].iter().enumerate() {
        let log = workplace.path(&format!("log-{number}"));
        let mut served = Serve::new(workplace.path("data"), log)
            .env("NOTIFY_SOCKET", name)
            .start();
        let log = served.log();
        assert!(
            log.contains("WARN cannot tell the service manager"),
            "{log}"
        );
        served.terminate();
        assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns a file of the repository.
fn file(name: &str) -> String {
    let text = std::fs::read_to_string(repository().join(name));
    text.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns what follows a word at the beginning of lines.
fn after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let lines = text.lines();
    lines.filter_map(|line| line.strip_prefix(word)).collect()
}

/// Returns what follows a word that begins one line.
#[track_caller]
fn only<'a>(text: &'a str, word: &str) -> &'a str {
    match after(text, word)[..] {
        [one] => one,
        ref lines => panic!("{word:?} begins {} lines", lines.len()),
    }
}

/// Returns the settings in effect, and why, where `environment` has `NAME=VALUE`.
fn settings(environment: &[&str]) -> BTreeSet<String> {
    let variables = environment.iter().map(|pair| pair.split_once('=').unwrap());
    let output = icecore().arg("config").envs(variables).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout).lines();
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Fails unless the program has the command that these arguments name.
#[track_caller]
fn is_a_command(arguments: &[&str]) {
    let output = icecore().args(arguments).arg("--help").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let usage = format!("Usage: icecore {}", arguments.join(" "));
    assert!(text(&output.stdout).contains(&usage), "{output:?}");
}

#[test]
fn the_image_fits_the_program() {
    let image = file("deploy/Containerfile");
    let environment: Vec<&str> = after(&image, "ENV ")
        .into_iter()
        .filter(|pair| pair.starts_with("ICECORE_"))
        .collect();
    let settings = settings(&environment);
    let volume = only(&image, "VOLUME ");
    let location = format!("location: {volume} # ICECORE_STORAGE");
    assert!(settings.contains(&location), "{settings:#?}");

    // Everything that listens by default, and on this machine alone.
    let mut ports = BTreeSet::new();
    for line in &settings {
        if let Some((key, value)) = line.split_once("listen: ")
            && value != "off # default"
        {
            let port = value.strip_prefix("127.0.0.1:");
            let port = port.and_then(|rest| rest.strip_suffix(" # default"));
            ports.insert(port.unwrap_or_else(|| panic!("{key}listen: {value}")));
        }
    }
    let exposed: BTreeSet<&str> = only(&image, "EXPOSE ").split(' ').collect();
    assert_eq!(exposed, ports);

    let words = |json: &str| serde_json::from_str::<Vec<String>>(json).unwrap();
    assert_eq!(words(only(&image, "ENTRYPOINT ")), ["icecore"]);
    let command = words(only(&image, "CMD "));
    is_a_command(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let check = only(&image, "HEALTHCHECK ").split_once(" CMD ").unwrap().1;
    let check = words(check);
    let (program, check) = check.split_first().unwrap();
    assert_eq!(program, "icecore");
    is_a_command(&check.iter().map(String::as_str).collect::<Vec<_>>());

    let (user, group) = only(&image, "USER ").split_once(':').unwrap();
    for id in [user, group] {
        assert!(id.parse::<u32>().unwrap() > 0, "{id} is root");
    }
}

#[test]
fn the_image_is_built_by_the_toolchain_and_from_the_files_of_the_repository() {
    let image = file("deploy/Containerfile");
    let toolchain = file("rust-toolchain.toml");
    let channel = only(&toolchain, "channel = ").trim_matches('"');
    assert_eq!(only(&image, "ARG RUST="), channel);

    let copied: BTreeSet<&str> = after(&image, "COPY ")
        .into_iter()
        .filter(|arguments| !arguments.starts_with("--from="))
        .flat_map(|arguments| arguments.rsplit_once(' ').unwrap().0.split(' '))
        .collect();
    let ignored = file(".dockerignore");
    assert_eq!(copied, after(&ignored, "!").into_iter().collect());
    for name in copied {
        assert!(repository().join(name).exists(), "{name} is not there");
    }
}

#[test]
fn the_unit_fits_the_program() {
    let unit = file("deploy/icecore.service");
    let settings = settings(&after(&unit, "Environment="));
    let state = only(&unit, "StateDirectory=");
    let location = format!("location: /var/lib/{state} # ICECORE_STORAGE");
    assert!(settings.contains(&location), "{settings:#?}");
    let start: Vec<&str> = only(&unit, "ExecStart=").split(' ').collect();
    assert!(start[0].ends_with("/icecore"), "{start:?}");
    is_a_command(&start[1..]);

    let mut wrong = icecore();
    let wrong = wrong.args(["serve", "--storage.fsync", "maybe"]);
    let code = wrong.output().unwrap().status.code().unwrap();
    let unrepeated = only(&unit, "RestartPreventExitStatus=");
    assert_eq!(unrepeated, code.to_string());
}
