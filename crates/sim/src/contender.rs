// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contenders of a simulation: a policy, or the oracle that policies are measured against.

use std::fmt;
use std::str::FromStr;

use foreread_core::policy::Policy;
use thiserror::Error;

use crate::engine::Foresight;

/// The name of [`Contender::Oracle`].
pub const ORACLE: &str = "oracle";

/// The decider on readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// A policy of the core, which knows the past reads.
    Policy(Policy),
    /// An oracle that knows the future reads. No machine can have it: it is a limit.
    Oracle,
}

/// A name that is no contender's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "no policy is called `{name}`; there are: {}, and the limit {ORACLE}",
    list()
)]
pub struct NoSuchContender {
    /// The requested name.
    pub name: String,
}

fn list() -> String {
    Policy::ALL.map(Policy::name).join(", ")
}

impl Contender {
    /// Its name, as people type it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy(policy) => policy.name(),
            Self::Oracle => ORACLE,
        }
    }

    /// How it reads ahead when it is the oracle; [`Setup::tries`](crate::engine::Setup::tries) has
    /// the other ways.
    #[must_use]
    pub fn foresight(self) -> Option<Foresight> {
        match self {
            Self::Policy(_) => None,
            Self::Oracle => Foresight::ALL.first().copied(),
        }
    }

    /// The policy that decides at each access. Under the oracle that policy reads only the
    /// requested pages.
    #[must_use]
    pub fn policy(self) -> Policy {
        match self {
            Self::Policy(policy) => policy,
            Self::Oracle => Policy::None,
        }
    }
}

impl From<Policy> for Contender {
    fn from(policy: Policy) -> Self {
        Self::Policy(policy)
    }
}

impl PartialEq<Policy> for Contender {
    fn eq(&self, policy: &Policy) -> bool {
        *self == Self::Policy(*policy)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Contender {
    type Err = NoSuchContender;

    fn from_str(name: &str) -> Result<Self, NoSuchContender> {
        if name == ORACLE {
            return Ok(Self::Oracle);
        }
        let policy = name.parse().map(Self::Policy);
        policy.map_err(|_| NoSuchContender {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_contenders() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(Contender::Policy(policy)));
        }
        assert_eq!(ORACLE.parse(), Ok(Contender::Oracle));
        assert_eq!(Contender::Oracle.name(), ORACLE);
        let error = "fast".parse::<Contender>().unwrap_err().to_string();
        assert!(error.ends_with("linux-6.12, linux-7.3, and the limit oracle"));
    }
}
