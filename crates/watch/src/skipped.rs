// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why nothing is fetched for a reader, although it walks or follows a profile.

use serde::{Deserialize, Serialize};

/// The reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// The reader may not read the directory itself.
    NoPermission,
    /// The rights of the reader can't be found.
    UnknownReader,
    /// The threads of the reader, or the processes that share a walk, have different users.
    MixedThreads,
    /// A security module restricts the reader.
    Confined,
    /// The I/O of the reader's cgroup is limited.
    Throttled,
    /// The file that the reader streams has a write lease, which reading ahead would break.
    Leased,
    /// The memory that `watch` has for this user is used up.
    UserBudget,
    /// The memory that `watch` has for all users is used up.
    TotalBudget,
}

impl Skipped {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NoPermission,
        Self::UnknownReader,
        Self::MixedThreads,
        Self::Confined,
        Self::Throttled,
        Self::Leased,
        Self::UserBudget,
        Self::TotalBudget,
    ];

    /// As a log has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoPermission => "no_permission",
            Self::UnknownReader => "unknown_reader",
            Self::MixedThreads => "mixed_threads",
            Self::Confined => "confined",
            Self::Throttled => "throttled",
            Self::Leased => "leased",
            Self::UserBudget => "user_budget",
            Self::TotalBudget => "total_budget",
        }
    }

    /// The reason of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// As a part of a sentence for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoPermission => "the program may not read there itself",
            Self::UnknownReader => "it isn't known what the program may read",
            Self::MixedThreads => "its threads or processes have different users",
            Self::Confined => "a security module restricts the program",
            Self::Throttled => "the I/O of its cgroup is limited",
            Self::Leased => "the file has a write lease, which opening it would break",
            Self::UserBudget => "the memory of watch for this user is used up",
            Self::TotalBudget => "the memory of watch is used up",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for one in Skipped::ALL {
            assert_eq!(Skipped::of_name(one.name()), Some(one));
            assert_eq!(serde_json::to_value(one).unwrap(), one.name());
            assert!(!one.words().is_empty());
        }
        assert_eq!(Skipped::of_name("other"), None);
    }
}
