//! Sets of roles: what one credential allows.

/// What a credential allows. Each role stands for itself; `Admin` allows everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// No credential needed: health checks, and what holds no data.
    Open,
    Read,
    Write,
    Admin,
}

impl Role {
    /// As it is written in the file and in answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// What a credential allows: any of reading, writing and administration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles(u8);

impl Roles {
    pub(crate) const NONE: Self = Self(0);
    /// What Prometheus' own users have.
    pub(crate) const ALL: Self = Self(0b111);

    /// As they are written in the file.
    pub(crate) const WORDS: [&str; 3] = ["read", "write", "admin"];

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let role = match word {
            "read" => Role::Read,
            "write" => Role::Write,
            "admin" => Role::Admin,
            _ => return None,
        };
        Some(Self::of(role))
    }

    fn of(role: Role) -> Self {
        Self(match role {
            Role::Open => 0,
            Role::Read => 0b001,
            Role::Write => 0b010,
            Role::Admin => 0b100,
        })
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Each role stands for itself, and administration allows everything.
    pub(crate) fn allow(self, role: Role) -> bool {
        let needed = Self::of(role).0;
        self.0 & needed == needed || self.0 & Self::of(Role::Admin).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_stands_for_itself_and_admin_for_all() {
        let every = [Role::Open, Role::Read, Role::Write, Role::Admin];
        for (word, allowed) in [
            ("read", [true, true, false, false]),
            ("write", [true, false, true, false]),
            ("admin", [true, true, true, true]),
        ] {
            let roles = Roles::from_word(word).unwrap();
            assert_eq!(every.map(|role| roles.allow(role)), allowed, "{word}");
        }
        let both = Roles::from_word("read").zip(Roles::from_word("write"));
        let both = both.map(|(read, write)| read.and(write)).unwrap();
        assert_eq!(
            every.map(|role| both.allow(role)),
            [true, true, true, false]
        );
        assert!(!Roles::NONE.allow(Role::Read));
        assert_eq!(Roles::from_word("owner"), None);
    }
}
