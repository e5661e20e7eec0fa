//! What a client is told about itself, so that it can ask for a credential before it needs one.

use std::net::IpAddr;

use http::{HeaderMap, header};

use crate::certificate::PeerCertificate;
use crate::credentials::{Credentials, user_in};
use crate::roles::Roles;
use crate::{Access, AuthError, Role};

/// Who a request is from, and what its sender may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Whether there are credentials at all: without, everybody may do everything.
    pub is_required: bool,
    /// Whether the request has one, which is right.
    pub is_authenticated: bool,
    /// The name of the user, where the credential is a password.
    pub user: Option<String>,
    /// Everything that is allowed.
    pub roles: Vec<Role>,
    /// The forms of `Authorization` that somebody could be let in by.
    pub schemes: Vec<&'static str>,
}

impl Access {
    /// Who sends a request. No credential is as good an answer as any, a wrong one is refused.
    pub async fn identify(
        &self,
        headers: &HeaderMap,
        certificate: Option<&PeerCertificate>,
        client: Option<IpAddr>,
    ) -> Result<Identity, AuthError> {
        let identified = self.identified(headers, certificate, client).await;
        if let Err(denied) = &identified {
            self.metrics.denied(*denied);
        }
        identified
    }

    async fn identified(
        &self,
        headers: &HeaderMap,
        certificate: Option<&PeerCertificate>,
        client: Option<IpAddr>,
    ) -> Result<Identity, AuthError> {
        let rules = self.rules();
        // Passwords must not be guessed here any faster than elsewhere.
        if rules.rate.as_ref().is_some_and(|rate| !rate.take(client)) {
            return Err(AuthError::TooMany);
        }
        let credentials = &rules.credentials;
        if credentials.are_none() {
            return Ok(identity(credentials, Some(Roles::ALL), None));
        }
        let roles = credentials.roles_of(headers, certificate, &self.hashing);
        match roles.await {
            Ok(roles) => {
                let user = headers.get(header::AUTHORIZATION).and_then(user_in);
                Ok(identity(credentials, Some(roles), user))
            }
            Err(AuthError::Missing) => Ok(identity(credentials, None, None)),
            Err(denied) => Err(denied),
        }
    }
}

fn identity(credentials: &Credentials, roles: Option<Roles>, user: Option<String>) -> Identity {
    let is_required = !credentials.are_none();
    let allowed = roles.unwrap_or(Roles::NONE);
    let every = [Role::Read, Role::Write, Role::Admin];
    Identity {
        is_required,
        is_authenticated: is_required && roles.is_some(),
        user,
        roles: every
            .into_iter()
            .filter(|role| allowed.allow(*role))
            .collect(),
        schemes: credentials.schemes(),
    }
}
