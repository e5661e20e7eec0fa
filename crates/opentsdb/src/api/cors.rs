//! Requests from pages of other origins.

use http::{HeaderName, Method, StatusCode, header};

use crate::config::Config;
use crate::error::Error;
use crate::request::Request;

/// What a request from another origin is answered with.
pub(super) enum Cors {
    /// Nothing special.
    None,
    /// The answer gets these headers.
    Allowed(Vec<(HeaderName, String)>),
}

impl Cors {
    /// Where answers depend on the origin, caches must not give one origin that of another.
    pub(super) fn vary(config: &Config) -> Option<(HeaderName, String)> {
        let depends = !config.cors_domains.is_empty();
        depends.then(|| (header::VARY, header::ORIGIN.to_string()))
    }

    pub(super) fn of(config: &Config, request: &Request) -> Result<Self, Error> {
        let origin = request.headers.get(header::ORIGIN);
        let origin = origin.and_then(|origin| origin.to_str().ok());
        let origin = origin.filter(|origin| !origin.is_empty());
        let domains = &config.cors_domains;
        let Some(origin) = origin.filter(|_| !domains.is_empty()) else {
            if request.method != Method::OPTIONS {
                return Ok(Self::None);
            }
            let details = "The HTTP method [OPTIONS] is not permitted";
            let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
            return Err(error.with_details(details));
        };
        let fits = |domain: &String| domain == "*" || domain.eq_ignore_ascii_case(origin);
        if !domains.iter().any(fits) {
            // The status is OK: browsers look for the header, which is not there.
            let details = format!("The domain [{origin}] is not permitted access");
            let error = Error::new(StatusCode::OK, "CORS domain not allowed");
            return Err(error.with_details(details));
        }
        Ok(Self::Allowed(vec![
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.to_owned()),
            (
                header::ACCESS_CONTROL_ALLOW_METHODS,
                "GET, POST, PUT, DELETE".to_owned(),
            ),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                config.cors_headers.clone(),
            ),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn only_listed_origins_are_allowed() {
        let config = Config {
            cors_domains: vec!["http://a.example".into()],
            ..Config::default()
        };
        let of = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            let request = Request::new(Method::GET, "/api/version", headers, "".into());
            Cors::of(&config, &request)
        };
        assert!(matches!(of("http://A.example"), Ok(Cors::Allowed(_))));
        let error = of("http://b.example").err().unwrap();
        assert_eq!(error.status, StatusCode::OK);
        assert_eq!(error.message, "CORS domain not allowed");
    }
}
