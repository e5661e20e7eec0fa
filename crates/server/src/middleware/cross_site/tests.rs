use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::Effect::{Change, Ingest, Probe, Read};
use super::*;

/// A request of a table: its effect, and headers as `name: value`.
type Row = (Effect, &'static [&'static str]);

/// Settings as a test varies them.
#[derive(Clone)]
struct Settings {
    is_restricted: bool,
    is_https: bool,
    hosts: Vec<String>,
    origins: Option<OriginPattern>,
    domains: Vec<String>,
}

/// No access control, no TLS, and nothing set.
fn open() -> Settings {
    Settings {
        is_restricted: false,
        is_https: false,
        hosts: Vec::new(),
        origins: None,
        domains: Vec::new(),
    }
}

impl Settings {
    fn restricted() -> Self {
        Self {
            is_restricted: true,
            ..open()
        }
    }

    fn with_hosts(hosts: &[&str]) -> Self {
        Self {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..open()
        }
    }

    fn with_origins(pattern: &str) -> Self {
        Self {
            origins: Some(OriginPattern::parse(pattern).unwrap()),
            ..open()
        }
    }

    fn judge(&self, effect: Effect, uri: &str, headers: &[&str]) -> Option<CrossSite> {
        self.judge_method(&Method::GET, effect, uri, headers)
    }

    fn judge_method(
        &self,
        method: &Method,
        effect: Effect,
        uri: &str,
        headers: &[&str],
    ) -> Option<CrossSite> {
        let uri: Uri = uri.parse().unwrap();
        let mut map = HeaderMap::new();
        for line in headers {
            let (name, value) = line.split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let site = Site::of(method, &uri, &map, self.is_https);
        let trust = Trust {
            is_restricted: self.is_restricted,
            machine: "box.example.org",
            hosts: &self.hosts,
            origins: self.origins.as_ref(),
            domains: &self.domains,
        };
        refusal_of(effect, &site, &trust)
    }

    /// Asserts that all are answered.
    fn allows(&self, rows: &[Row]) {
        for (effect, headers) in rows {
            let refused = self.judge(*effect, "/x", headers);
            assert_eq!(refused, None, "{effect:?} {headers:?}");
        }
    }

    /// Asserts that all are refused, and that the refusal names this setting.
    fn refuses(&self, setting: &str, rows: &[Row]) {
        for (effect, headers) in rows {
            let refused = self.judge(*effect, "/x", headers);
            let reason = refused.unwrap_or_else(|| panic!("{effect:?} {headers:?}"));
            assert!(reason.to_string().contains(setting), "{reason}");
        }
    }
}

#[test]
fn without_access_control_names_are_those_of_this_machine() {
    for host in [
        "127.0.0.1:9090",
        "192.0.2.7",
        "[::1]:9090",
        "[2001:db8::1]",
        "localhost:9090",
        "LocalHost.",
        "icecore:9090",
        "box.example.org:9090",
        "BOX.example.org.",
        "nas.local:9090",
        "host.docker.internal:9090",
        "metrics.corp.internal.",
        "icecore.monitoring.svc:9090",
        "icecore.monitoring.svc.cluster.local",
    ] {
        for effect in [Probe, Read, Ingest, Change] {
            let header = format!("host: {host}");
            assert_eq!(open().judge(effect, "/x", &[&header]), None, "{host}");
        }
    }
    for host in [
        "rebound.example:9090",
        "box.example.org.evil.example",
        "evil.example.",
        "127.0.0.1.evil.example",
        "svc.evil.example",
        "local.example",
        "internal.example",
        "127.0.0.1@evil.example",
        "icecore.monitoring:9090",
        "a b",
        "",
        "icecore/",
    ] {
        let header = format!("host: {host}");
        for effect in [Read, Change] {
            let refused = open().judge(effect, "/x", &[&header]);
            assert!(matches!(refused, Some(CrossSite::Host(_))), "{host}");
            assert_eq!(
                Settings::restricted().judge(effect, "/x", &[&header]),
                None,
                "{host}"
            );
        }
    }
}

#[test]
fn senders_and_probes_are_not_asked_for_their_host() {
    open().allows(&[
        (Ingest, &["host: icecore.monitoring:9090"]),
        (Probe, &["host: metrics.example"]),
        (
            Probe,
            &["host: metrics.example", "origin: http://evil.example"],
        ),
        (Probe, &["host: a", "host: b"]),
        (Read, &[]),
        (Change, &[]),
        (Ingest, &[]),
    ]);
    let rebound = "host: rebound.example:9090";
    open().refuses(
        "server.hosts",
        &[
            (
                Ingest,
                &["host: rebound.example:9090", "sec-fetch-site: same-origin"],
            ),
            (
                Ingest,
                &[
                    "host: rebound.example:9090",
                    "origin: http://rebound.example:9090",
                ],
            ),
            (Read, &["host: a", "host: b"]),
        ],
    );
    assert_eq!(open().judge(Ingest, "/x", &[rebound]), None);
}

#[test]
fn pages_of_others_change_nothing() {
    let rows: &[Row] = &[
        (
            Change,
            &["host: localhost:9090", "origin: http://evil.example"],
        ),
        (
            Ingest,
            &["host: localhost:9090", "origin: http://evil.example"],
        ),
        // Another port of the same machine is another origin.
        (
            Change,
            &["host: localhost:9090", "origin: http://localhost:3000"],
        ),
        (
            Change,
            &["host: localhost:9090", "origin: http://localhost"],
        ),
        (
            Change,
            &["host: localhost", "origin: http://localhost:9090"],
        ),
        (Change, &["host: localhost:9090", "origin: null"]),
        (Change, &["host: localhost:9090", "origin: file://"]),
        (
            Change,
            &[
                "host: localhost:9090",
                "origin: chrome-extension://localhost:9090",
            ],
        ),
        (
            Change,
            &["host: localhost:9090", "origin: http://127.0.0.1:9090"],
        ),
        (Change, &["host: localhost:9090", "origin: nonsense"]),
        (
            Change,
            &[
                "host: localhost:9090",
                "origin: http://localhost:9090",
                "sec-fetch-site: cross-site",
            ],
        ),
        // Nothing tells to which host it was sent.
        (Change, &["origin: http://localhost:9090"]),
    ];
    open().refuses("server.cors_origin", rows);
    Settings::restricted().refuses("server.cors_origin", rows);
    // Images and links have no origin.
    let rows: &[Row] = &[
        (
            Change,
            &["host: localhost:9090", "sec-fetch-site: cross-site"],
        ),
        (
            Change,
            &["host: localhost:9090", "sec-fetch-site: same-site"],
        ),
        (
            Ingest,
            &["host: localhost:9090", "sec-fetch-site: cross-site"],
        ),
    ];
    open().refuses("another site", rows);
    Settings::restricted().refuses("another site", rows);
}

#[test]
fn own_pages_and_programs_change_what_they_want() {
    let rows: &[Row] = &[
        (Change, &["host: localhost:9090"]),
        (
            Change,
            &["host: localhost:9090", "origin: http://localhost:9090"],
        ),
        (
            Change,
            &[
                "host: localhost:9090",
                "origin: http://localhost:9090",
                "sec-fetch-site: same-origin",
            ],
        ),
        (
            Change,
            &["host: LOCALHOST:9090", "origin: http://localhost:9090"],
        ),
        (Change, &["host: icecore", "origin: http://icecore"]),
        (Change, &["host: icecore:80", "origin: http://icecore"]),
        (Change, &["host: [::1]:9090", "origin: http://[::1]:9090"]),
        // An address that was typed, or a bookmark.
        (Change, &["host: localhost:9090", "sec-fetch-site: none"]),
        (
            Change,
            &["host: localhost:9090", "sec-fetch-site: same-origin"],
        ),
        // A proxy that speaks TLS and keeps the host.
        (
            Change,
            &["host: icecore.local", "origin: https://icecore.local"],
        ),
        (Change, &["host: icecore:443", "origin: https://icecore"]),
        // Pages of others may ask; who reads the answer is another question.
        (
            Read,
            &["host: localhost:9090", "origin: http://evil.example"],
        ),
        (
            Read,
            &["host: localhost:9090", "sec-fetch-site: cross-site"],
        ),
        (Change, &["host: localhost:9090", "origin: "]),
    ];
    open().allows(rows);
    Settings::restricted().allows(rows);
}

#[test]
fn a_server_that_speaks_tls_has_no_pages_without() {
    let tls = Settings {
        is_https: true,
        ..Settings::restricted()
    };
    tls.allows(&[
        (
            Change,
            &["host: metrics.example", "origin: https://metrics.example"],
        ),
        (
            Change,
            &[
                "host: metrics.example:9090",
                "origin: https://metrics.example:9090",
            ],
        ),
    ]);
    tls.refuses(
        "server.hosts",
        &[
            (
                Change,
                &["host: metrics.example", "origin: http://metrics.example"],
            ),
            (
                Change,
                &[
                    "host: metrics.example:9090",
                    "origin: http://metrics.example:9090",
                ],
            ),
        ],
    );
    // Nor has a server whose name is listed.
    let listed = Settings {
        hosts: vec!["metrics.example".into()],
        ..tls
    };
    listed.allows(&[(
        Change,
        &["host: 10.0.0.1", "origin: https://metrics.example"],
    )]);
    listed.refuses(
        "server.hosts",
        &[(
            Change,
            &["host: 10.0.0.1", "origin: http://metrics.example"],
        )],
    );
}

#[test]
fn headers_of_proxies_are_not_believed() {
    open().refuses(
        "server.",
        &[
            (
                Change,
                &[
                    "host: icecore:9090",
                    "x-forwarded-host: metrics.example",
                    "x-forwarded-proto: https",
                    "forwarded: host=metrics.example;proto=https",
                    "origin: https://metrics.example",
                ],
            ),
            (
                Read,
                &["host: metrics.example", "x-forwarded-host: localhost"],
            ),
        ],
    );
}

#[test]
fn listed_hosts_are_names_and_origins_of_this_server() {
    let listed = Settings::with_hosts(&["metrics.example", "Grafana.example", "full.example."]);
    let rows: &[Row] = &[
        (Read, &["host: full.example"]),
        (Read, &["host: full.example.:9090"]),
        (Change, &["host: icecore", "origin: https://full.example"]),
        (
            Change,
            &["host: icecore", "origin: https://metrics.example."],
        ),
        (Read, &["host: metrics.example"]),
        (Read, &["host: METRICS.example.:9090"]),
        (Read, &["host: grafana.example"]),
        (
            Change,
            &["host: metrics.example", "origin: https://metrics.example"],
        ),
        // A proxy that names the server by another host than the browser.
        (
            Change,
            &["host: icecore:9090", "origin: https://metrics.example"],
        ),
        (
            Change,
            &["host: icecore:9090", "origin: http://metrics.example:8443"],
        ),
        (
            Ingest,
            &["host: 127.0.0.1", "origin: https://grafana.example"],
        ),
    ];
    listed.allows(rows);
    let restricted = Settings {
        is_restricted: true,
        ..listed.clone()
    };
    restricted.allows(rows);
    listed.refuses(
        "server.hosts",
        &[
            (Read, &["host: other.metrics.example"]),
            (
                Change,
                &["host: icecore", "origin: https://other.metrics.example"],
            ),
            (
                Change,
                &["host: icecore", "origin: gopher://metrics.example"],
            ),
        ],
    );
}

#[test]
fn origins_that_were_set_may_change_what_they_want() {
    let set = Settings::with_origins("https://(shop|app)\\.example");
    set.allows(&[
        (
            Ingest,
            &["host: icecore:9090", "origin: https://shop.example"],
        ),
        (
            Ingest,
            &[
                "host: icecore:9090",
                "origin: https://shop.example",
                "sec-fetch-site: cross-site",
            ],
        ),
        (
            Change,
            &["host: icecore:9090", "origin: https://app.example"],
        ),
    ]);
    set.refuses(
        "server.cors_origin",
        &[
            (
                Ingest,
                &["host: icecore:9090", "origin: http://shop.example"],
            ),
            (Ingest, &["host: icecore:9090", "origin: null"]),
            (
                Ingest,
                &["host: icecore:9090", "sec-fetch-site: cross-site"],
            ),
        ],
    );
    // Who allows any origin allows pages without one of their own, too.
    Settings::with_origins(".*").allows(&[(Ingest, &["host: icecore:9090", "origin: null"])]);
    // It is about pages: the host is a question of its own.
    set.refuses(
        "server.hosts",
        &[(
            Ingest,
            &["host: rebound.example", "origin: https://shop.example"],
        )],
    );
}

#[test]
fn domains_of_opentsdb_may_change_what_they_want() {
    let set = |domains: &[&str]| Settings {
        domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        ..open()
    };
    let row: &[Row] = &[(Change, &["host: icecore:4242", "origin: http://A.example"])];
    set(&["http://b.example", "http://a.example"]).allows(row);
    // It is in files that were written for a server behind a firewall, and lets all pages read.
    set(&["*"]).refuses("server.cors_origin", row);
    set(&["http://b.example"]).refuses("server.cors_origin", row);
}

#[test]
fn the_host_of_an_address_counts_more_than_the_header() {
    let judge = |uri: &str, headers: &[&str]| open().judge(Change, uri, headers);
    assert_eq!(judge("http://localhost:9090/x", &[]), None);
    assert_eq!(
        judge("http://localhost:9090/x", &["host: evil.example"]),
        None
    );
    let refused = judge("http://evil.example/x", &["host: localhost"]);
    assert_eq!(refused, Some(CrossSite::Host("evil.example".into())));
    let own = ["origin: http://localhost:9090"];
    assert_eq!(judge("http://localhost:9090/x", &own), None);
}

#[test]
fn browsers_that_say_nothing_change_nothing_by_a_get() {
    const BROWSER: &str = "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0";
    let host = "host: icecore:4242";
    let judge = |method: Method, effect: Effect, headers: &[&str]| {
        open().judge_method(&method, effect, "/x", headers)
    };
    for method in [Method::GET, Method::HEAD] {
        let refused = judge(method.clone(), Change, &[host, BROWSER]);
        assert_eq!(refused, Some(CrossSite::Unnamed));
        assert_eq!(judge(method.clone(), Read, &[host, BROWSER]), None);
        let own = [host, BROWSER, "sec-fetch-site: same-origin"];
        assert_eq!(judge(method.clone(), Change, &own), None);
        let program = [host, "user-agent: curl/8.5.0"];
        assert_eq!(judge(method, Change, &program), None);
    }
    // Browsers name the page of a POST; programs that call themselves so have none.
    assert_eq!(judge(Method::POST, Change, &[host, BROWSER]), None);
}
