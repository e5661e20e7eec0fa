//! Credentials: users with passwords, bearer tokens, and names in client certificates.
//!
//! ```text
//! Authorization ─┬─ Bearer ─► digest ─► compared with every token ──────────────────► roles
//!                └─ Basic ─► seen before? ─► wait for a permit ─► bcrypt, on a thread ─► roles
//! ```
//!
//! Holds always:
//! - Secrets are compared in constant time, and every user, known or not, costs as much as the one
//!   with the dearest hash: the time of an answer tells no name.
//! - At most [`HashingPool`]'s permits compute bcrypt at once, and a bounded number of requests
//!   waits for one: guessing passwords cannot take the machine.
//! - Nothing here has a `Debug` that shows a secret.

use std::collections::HashMap;
use std::fmt;
use std::hint::black_box;
use std::ops::Range;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use aws_lc_rs::digest as digests;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderMap, HeaderValue, header};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::AuthError;
use crate::cache::{Cache, Fingerprint, Fingerprints};
use crate::certificate::PeerCertificate;
use crate::roles::Roles;

/// Above it one request takes several seconds of CPU. What tools suggest is 10 to 12.
const COST_MAX: u32 = 16;

/// The cost at which unknown users are checked when there are no others to go by.
const COST_USUAL: u32 = 10;

/// Longer headers are no credential of ours. Tokens and passwords together with names are far
/// shorter.
const AUTHORIZATION_BYTES_MAX: usize = 8 << 10;

/// Requests that may wait for a permit to compute bcrypt: a few dozen senders that begin at once.
const WAITING_MAX: usize = 128;

/// SHA-256.
pub(crate) type Digest = [u8; 32];

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let mut digest = Digest::default();
    let computed = digests::digest(&digests::SHA256, bytes);
    for (to, from) in digest.iter_mut().zip(computed.as_ref()) {
        *to = *from;
    }
    digest
}

/// A bcrypt hash that was checked to be one.
#[derive(Clone)]
pub(crate) struct PasswordHash {
    text: Arc<str>,
    cost: u32,
}

impl PasswordHash {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // The library's reasons are about the form and never quote the hash.
        let parts = bcrypt::HashParts::from_str(text)
            .map_err(|_| "expected a bcrypt hash, as `htpasswd -nBC 10` makes it".to_owned())?;
        let cost = parts.get_cost();
        if !(4..=COST_MAX).contains(&cost) {
            return Err(format!(
                "the cost of the bcrypt hash is {cost}; it must be between 4 and {COST_MAX}"
            ));
        }
        Ok(Self {
            text: text.into(),
            cost,
        })
    }

    /// A hash that no password has, at this cost.
    fn of_nobody(cost: u32) -> Self {
        let text = format!("$2b${cost:02}${}", ".".repeat(53)).into();
        Self { text, cost }
    }

    fn is_of(&self, password: &[u8]) -> bool {
        bcrypt::verify(password, &self.text).unwrap_or(false)
    }

    /// The costs of the hashes that are computed beside this one, so that all together take as long
    /// as one of `cost`: each step of the cost doubles the time.
    fn costs_to(&self, cost: u32) -> Range<u32> {
        self.cost..cost
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// What the holder of a certificate may do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CertificateRule {
    name: String,
    /// Otherwise it is the subject's common name.
    is_san: bool,
    roles: Roles,
}

impl CertificateRule {
    pub(crate) fn of_san(name: String, roles: Roles) -> Self {
        Self {
            name,
            is_san: true,
            roles,
        }
    }

    pub(crate) fn of_common_name(name: String, roles: Roles) -> Self {
        Self {
            name,
            is_san: false,
            roles,
        }
    }

    fn matches(&self, certificate: &PeerCertificate) -> bool {
        if self.is_san {
            certificate.has_san(&self.name)
        } else {
            certificate.common_name() == Some(&self.name)
        }
    }
}

/// Everything that requests are checked against.
pub(crate) struct Credentials {
    users: HashMap<String, (PasswordHash, Roles)>,
    /// Computed for users that do not exist, at the highest cost of those that do.
    dummy: PasswordHash,
    tokens: Vec<(Digest, Roles)>,
    certificates: Vec<CertificateRule>,
    fingerprints: Option<Fingerprints>,
    right: Cache<Roles>,
    wrong: Cache<()>,
}

/// What one `Authorization` header says.
enum AuthHeader<'h> {
    Basic { user: String, password: Vec<u8> },
    Bearer(&'h [u8]),
}

impl Credentials {
    pub(crate) fn new(
        users: Vec<(String, PasswordHash, Roles)>,
        tokens: Vec<(Digest, Roles)>,
        certificates: Vec<CertificateRule>,
    ) -> Self {
        let cost = users.iter().map(|(_, hash, _)| hash.cost).max();
        let users = users
            .into_iter()
            .map(|(name, hash, roles)| (name, (hash, roles)));
        Self {
            users: users.collect(),
            dummy: PasswordHash::of_nobody(cost.unwrap_or(COST_USUAL)),
            tokens,
            certificates,
            fingerprints: Fingerprints::new(),
            right: Cache::new(),
            wrong: Cache::new(),
        }
    }

    /// Whether there is no access control.
    pub(crate) fn are_none(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty() && self.certificates.is_empty()
    }

    /// The forms of `Authorization` that somebody could be let in by.
    pub(crate) fn schemes(&self) -> Vec<&'static str> {
        let basic = (!self.users.is_empty()).then_some("basic");
        let bearer = (!self.tokens.is_empty()).then_some("bearer");
        basic.into_iter().chain(bearer).collect()
    }

    /// What the sender of this request may do. A header that is there must be right, whatever the
    /// certificate allows: somebody believes in it.
    pub(crate) async fn roles_of(
        &self,
        headers: &HeaderMap,
        certificate: Option<&PeerCertificate>,
        hashing: &HashingPool,
    ) -> Result<Roles, AuthError> {
        let of_certificate = certificate.map_or(Roles::NONE, |it| self.roles_of_certificate(it));
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let of_header = match (given.next(), given.next()) {
            (Some(header), None) => self.roles_of_header(header, hashing).await?,
            (Some(_), Some(_)) => {
                return Err(AuthError::Malformed("there is more than one Authorization"));
            }
            (None, _) if of_certificate == Roles::NONE => return Err(AuthError::Missing),
            (None, _) => Roles::NONE,
        };
        Ok(of_certificate.and(of_header))
    }

    fn roles_of_certificate(&self, certificate: &PeerCertificate) -> Roles {
        // The names in an unverified certificate prove nothing.
        let verified = certificate.is_verified();
        let rules = self
            .certificates
            .iter()
            .filter(|rule| verified && rule.matches(certificate));
        rules.fold(Roles::NONE, |roles, rule| roles.and(rule.roles))
    }

    async fn roles_of_header(
        &self,
        header: &HeaderValue,
        hashing: &HashingPool,
    ) -> Result<Roles, AuthError> {
        match parse_header(header)? {
            AuthHeader::Bearer(token) => self.roles_of_token(token),
            AuthHeader::Basic { user, password } => {
                let fingerprint = self.fingerprints.as_ref().map(|key| {
                    // The colon cannot be in a name, so that no two pairs are alike.
                    key.of(&[user.as_bytes(), b":", &password].concat())
                });
                self.roles_of_user(&user, password, fingerprint, hashing)
                    .await
            }
        }
    }

    /// Compares with every token, so that the time tells nothing about which are there.
    fn roles_of_token(&self, token: &[u8]) -> Result<Roles, AuthError> {
        let presented = digest(token);
        let mut index = 0_u64;
        let mut found = Choice::from(0);
        for (number, (known, _)) in (0_u64..).zip(&self.tokens) {
            let equal = presented.ct_eq(known);
            index.conditional_assign(&number, equal);
            found |= equal;
        }
        if !bool::from(found) {
            return Err(AuthError::Wrong);
        }
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let token = self.tokens.get(index).ok_or(AuthError::Wrong)?;
        Ok(token.1)
    }

    async fn roles_of_user(
        &self,
        user: &str,
        password: Vec<u8>,
        fingerprint: Option<Fingerprint>,
        hashing: &HashingPool,
    ) -> Result<Roles, AuthError> {
        let known = || {
            let fingerprint = fingerprint.as_ref()?;
            let right = self.right.get(fingerprint).map(Ok);
            right.or_else(|| self.wrong.get(fingerprint).map(|()| Err(AuthError::Wrong)))
        };
        if let Some(known) = known() {
            return known;
        }
        let permit = hashing.permit().await?;
        // Of many requests with one credential the first has computed it for all.
        if let Some(known) = known() {
            return known;
        }
        let found = self.users.get(user);
        let hash = found.map_or(&self.dummy, |(hash, _)| hash).clone();
        let cost = self.dummy.cost;
        let is_right = tokio::task::spawn_blocking(move || {
            let is_right = hash.is_of(&password);
            for cost in hash.costs_to(cost) {
                black_box(PasswordHash::of_nobody(cost).is_of(&password));
            }
            // Released here and not with the request: a client that disconnects frees nothing.
            drop(permit);
            is_right
        });
        let is_right = is_right.await.unwrap_or(false);
        let roles = found.filter(|_| is_right).map(|(_, roles)| *roles);
        match (fingerprint, roles) {
            (Some(fingerprint), Some(roles)) => self.right.insert(fingerprint, roles),
            (Some(fingerprint), None) => self.wrong.insert(fingerprint, ()),
            (None, _) => {}
        }
        roles.ok_or(AuthError::Wrong)
    }
}

/// The user that a header names; `None` where it has a token, or cannot be read.
pub(crate) fn user_in(header: &HeaderValue) -> Option<String> {
    match parse_header(header) {
        Ok(AuthHeader::Basic { user, .. }) => Some(user),
        Ok(AuthHeader::Bearer(_)) | Err(_) => None,
    }
}

fn parse_header(header: &HeaderValue) -> Result<AuthHeader<'_>, AuthError> {
    let bytes = header.as_bytes();
    if bytes.len() > AUTHORIZATION_BYTES_MAX {
        return Err(AuthError::Malformed("Authorization is too long"));
    }
    let space = bytes.iter().position(|byte| *byte == b' ');
    let (scheme, rest) = match space {
        Some(space) => bytes.split_at(space),
        None => return Err(AuthError::Malformed("Authorization has no credential")),
    };
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return match rest {
            [] => Err(AuthError::Malformed("the bearer token is empty")),
            token => Ok(AuthHeader::Bearer(token)),
        };
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err(AuthError::Malformed(
            "Authorization is neither Basic nor Bearer",
        ));
    }
    let decoded = BASE64.decode(rest);
    let decoded = decoded.map_err(|_| AuthError::Malformed("Basic is not base64"))?;
    let colon = decoded.iter().position(|byte| *byte == b':');
    let colon = colon.ok_or(AuthError::Malformed("Basic has no colon"))?;
    let (user, password) = decoded.split_at(colon);
    let user = String::from_utf8(user.into());
    let user = user.map_err(|_| AuthError::Malformed("the user name is not UTF-8"))?;
    let password = password.get(1..).unwrap_or_default().into();
    Ok(AuthHeader::Basic { user, password })
}

/// Bounds how many bcrypt hashes are computed at once.
pub(crate) struct HashingPool {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl HashingPool {
    pub(crate) fn new() -> Self {
        // Half of the machine, at least one: the rest serves requests whose credentials are cached.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            permits: Arc::new(Semaphore::new((cores / 2).max(1))),
            waiting: AtomicUsize::new(0),
        }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, AuthError> {
        let _slot = QueueSlot::enter(&self.waiting).ok_or(AuthError::Busy)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.map_err(|_| AuthError::Busy)
    }
}

/// One request among those that wait.
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Option<Self> {
        let before = waiting.fetch_add(1, Relaxed);
        let this = Self(waiting);
        (before < WAITING_MAX).then_some(this)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cache::ENTRIES_MAX;

    /// Of the password `right`, at the least cost.
    fn hash() -> PasswordHash {
        PasswordHash::parse(&bcrypt::hash("right", 4).unwrap()).unwrap()
    }

    fn credentials() -> Credentials {
        let read = Roles::from_word("read").unwrap();
        let write = Roles::from_word("write").unwrap();
        Credentials::new(
            vec![
                ("reader".into(), hash(), read),
                ("all".into(), hash(), Roles::ALL),
            ],
            vec![
                (digest(b"a token for writing"), write),
                (digest(b"a token for reading"), read),
            ],
            vec![CertificateRule::of_san("agent.example".into(), write)],
        )
    }

    fn basic(user: &str, password: &str) -> String {
        format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
    }

    async fn roles(credentials: &Credentials, header: &str) -> Result<Roles, AuthError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, header.parse().unwrap());
        credentials
            .roles_of(&headers, None, &HashingPool::new())
            .await
    }

    #[tokio::test]
    async fn passwords_and_tokens() {
        let credentials = credentials();
        let read = Roles::from_word("read").unwrap();
        let write = Roles::from_word("write").unwrap();
        for (header, expected) in [
            (basic("reader", "right"), Ok(read)),
            (basic("reader", "right"), Ok(read)),
            (basic("all", "right"), Ok(Roles::ALL)),
            (basic("all", "wrong"), Err(AuthError::Wrong)),
            (basic("all", "wrong"), Err(AuthError::Wrong)),
            (basic("all", ""), Err(AuthError::Wrong)),
            (basic("nobody", "right"), Err(AuthError::Wrong)),
            (basic("", ""), Err(AuthError::Wrong)),
            ("Bearer a token for writing".into(), Ok(write)),
            ("bEARER  a token for reading ".into(), Ok(read)),
            ("Bearer a token for nothing".into(), Err(AuthError::Wrong)),
        ] {
            assert_eq!(roles(&credentials, &header).await, expected, "{header}");
        }
        let headers = HeaderMap::new();
        let missing = credentials
            .roles_of(&headers, None, &HashingPool::new())
            .await;
        assert_eq!(missing, Err(AuthError::Missing));
    }

    #[tokio::test]
    async fn malformed_headers() {
        let credentials = credentials();
        for header in [
            "",
            "Basic",
            "Bearer ",
            "Basic !!!",
            "Basic YWxs",
            "Basic //8=",
            "Digest username=all",
            &format!("Bearer {}", "x".repeat(AUTHORIZATION_BYTES_MAX)),
        ] {
            let denied = roles(&credentials, header).await;
            assert!(matches!(denied, Err(AuthError::Malformed(_))), "{header}");
        }
        let mut headers = HeaderMap::new();
        for _ in 0..2 {
            let value = basic("all", "right").parse().unwrap();
            headers.append(header::AUTHORIZATION, value);
        }
        let denied = credentials
            .roles_of(&headers, None, &HashingPool::new())
            .await;
        assert!(matches!(denied, Err(AuthError::Malformed(_))));
    }

    #[tokio::test]
    async fn certificates_add_to_headers() {
        let credentials = credentials();
        let write = Roles::from_word("write").unwrap();
        let check = async |certificate: &PeerCertificate, headers: &HeaderMap| {
            let hashing = HashingPool::new();
            credentials
                .roles_of(headers, Some(certificate), &hashing)
                .await
        };
        let none = HeaderMap::new();
        let known = PeerCertificate::for_test(&["agent.example"], true);
        assert_eq!(check(&known, &none).await, Ok(write));
        let unverified = PeerCertificate::for_test(&["agent.example"], false);
        assert_eq!(check(&unverified, &none).await, Err(AuthError::Missing));
        let other = PeerCertificate::for_test(&["other.example"], true);
        assert_eq!(check(&other, &none).await, Err(AuthError::Missing));
        let mut wrong = HeaderMap::new();
        wrong.insert(header::AUTHORIZATION, "Bearer x".parse().unwrap());
        assert_eq!(check(&known, &wrong).await, Err(AuthError::Wrong));
        let mut right = HeaderMap::new();
        let token = "Bearer a token for reading".parse().unwrap();
        right.insert(header::AUTHORIZATION, token);
        let both = write.and(Roles::from_word("read").unwrap());
        assert_eq!(check(&known, &right).await, Ok(both));
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let credentials = credentials();
        for number in 0..ENTRIES_MAX + 10 {
            let header = basic("all", &number.to_string());
            assert_eq!(roles(&credentials, &header).await, Err(AuthError::Wrong));
        }
        assert_eq!(credentials.wrong.len(), ENTRIES_MAX);
        roles(&credentials, &basic("all", "right")).await.unwrap();
        assert_eq!(credentials.right.len(), 1);
    }

    #[tokio::test]
    async fn those_who_wait_are_few() {
        let hashing = HashingPool::new();
        let all = u32::try_from(hashing.permits.available_permits()).unwrap();
        let taken = Arc::clone(&hashing.permits).acquire_many_owned(all).await;
        let mut waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| Box::pin(hashing.permit()))
            .collect();
        for permit in &mut waiting {
            assert!(futures::poll!(permit).is_pending());
        }
        assert_eq!(hashing.permit().await.err(), Some(AuthError::Busy));
        drop(waiting);
        drop(taken);
        drop(hashing.permit().await.unwrap());
    }

    #[tokio::test]
    async fn the_time_of_an_answer_tells_no_name() {
        let cheap = hash();
        let dear = PasswordHash::parse(&bcrypt::hash("right", 9).unwrap()).unwrap();
        for hash in [&cheap, &dear, &PasswordHash::of_nobody(9)] {
            let beside = hash.costs_to(9).map(|cost| 1_u64 << cost).sum::<u64>();
            assert_eq!((1 << hash.cost) + beside, 1 << 9);
        }
        let users = [("cheap", cheap), ("dear", dear)];
        let users = users.map(|(name, hash)| (name.to_owned(), hash, Roles::ALL));
        let credentials = Credentials::new(users.into(), Vec::new(), Vec::new());
        // Of many, because others use the machine, too. Each password is a new one: those that
        // were tried before are known.
        let mut fastest = [Duration::MAX; 3];
        for round in 0..8 {
            for (user, fastest) in ["cheap", "dear", "unknown"].iter().zip(&mut fastest) {
                let header = basic(user, &format!("wrong {round}"));
                let began = Instant::now();
                let denied = roles(&credentials, &header).await;
                *fastest = began.elapsed().min(*fastest);
                assert_eq!(denied, Err(AuthError::Wrong));
            }
        }
        let [cheap, dear, unknown] = fastest;
        assert!(cheap * 3 > unknown && unknown * 3 > cheap, "{fastest:?}");
        assert!(dear * 3 > unknown && unknown * 3 > dear, "{fastest:?}");
        let right = basic("cheap", "right");
        assert_eq!(roles(&credentials, &right).await, Ok(Roles::ALL));
    }

    #[test]
    fn hashes_are_checked_and_never_shown() {
        for text in [
            "",
            "plain",
            "$2y$17$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi",
            "$2y$99$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi",
        ] {
            let reason = PasswordHash::parse(text).unwrap_err();
            assert!(text.is_empty() || !reason.contains(text), "{reason}");
        }
        let nobody = PasswordHash::of_nobody(4);
        assert!(PasswordHash::parse(&nobody.text).is_ok());
        assert!(!nobody.is_of(b""));
        assert_eq!(format!("{:?}", hash()), "<secret>");
    }
}
