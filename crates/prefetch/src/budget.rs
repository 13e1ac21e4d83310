// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a replay may fill.

use foreread_profile::PAGE_BYTES;

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// `MemAvailable`: free, or given up without swapping.
    pub available_bytes: u64,
    /// Room under the tightest limit of our cgroup and its ancestors; `None` without a limit.
    pub cgroup_left_bytes: Option<u64>,
}

/// Half of the available memory: the program of these files needs memory of its own, and pages that
/// others have cached are worth something, too.
#[must_use]
pub fn budget_bytes(memory: Memory, asked_bytes: Option<u64>) -> u64 {
    let most = memory
        .cgroup_left_bytes
        .unwrap_or(u64::MAX)
        .min(memory.available_bytes)
        / 2;
    asked_bytes.unwrap_or(u64::MAX).min(most)
}

/// Pages that one of several groups (file systems) needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// When, from the start of the program.
    pub need_ns: u64,
    /// The group, by number.
    pub group: usize,
    /// Number of pages.
    pub pages: u64,
}

/// Divides a budget among groups that are read side by side, by need across all groups. If it
/// suffices for all, each group gets all that it needs. The shares together are never more than the
/// budget; groups beyond `groups` get nothing.
#[must_use]
pub fn shares(
    needs: impl Iterator<Item = Need> + Clone,
    groups: usize,
    budget_bytes: u64,
) -> Vec<u64> {
    let mut shares = vec![0u64; groups];
    let mut left_bytes = budget_bytes;
    let mut give = |need: Need| {
        let bytes = need.pages.saturating_mul(PAGE_BYTES).min(left_bytes);
        if let Some(share) = shares.get_mut(need.group) {
            *share += bytes;
            left_bytes -= bytes;
        }
    };
    let wanted = needs.clone().fold(0u64, |sum, need| {
        sum.saturating_add(need.pages.saturating_mul(PAGE_BYTES))
    });
    if wanted <= budget_bytes {
        needs.for_each(&mut give);
    } else {
        let mut sorted: Vec<Need> = needs.collect();
        sorted.sort_unstable_by_key(|need| (need.need_ns, need.group));
        sorted.into_iter().for_each(&mut give);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tightest_bound_counts() {
        let memory = |available_bytes, cgroup_left_bytes| Memory {
            available_bytes,
            cgroup_left_bytes,
        };
        assert_eq!(budget_bytes(memory(100, None), None), 50);
        assert_eq!(budget_bytes(memory(100, Some(40)), None), 20);
        assert_eq!(budget_bytes(memory(100, Some(400)), Some(30)), 30);
        assert_eq!(budget_bytes(memory(0, None), Some(30)), 0);
    }

    fn need(need_ns: u64, group: usize, pages: u64) -> Need {
        Need {
            need_ns,
            group,
            pages,
        }
    }

    #[test]
    fn what_is_needed_first_gets_the_budget_whosever_it_is() {
        let needs = [
            need(20, 0, 5),
            need(0, 1, 2),
            need(10, 0, 3),
            need(30, 1, 9),
        ];
        let of = |pages: u64| {
            let shares = shares(needs.into_iter(), 2, pages * PAGE_BYTES);
            shares
                .iter()
                .map(|bytes| bytes / PAGE_BYTES)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(100), [8, 11]);
        assert_eq!(of(19), [8, 11]);
        assert_eq!(of(11), [8, 3]);
        assert_eq!(of(4), [2, 2]);
        assert_eq!(of(0), [0, 0]);
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_budget_nor_what_is_needed(
            given in prop::collection::vec((any::<u64>(), 0usize..4, any::<u64>()), 0..40),
            budget in any::<u64>(),
        ) {
            let needs = given.iter().map(|&(at, group, pages)| need(at, group, pages));
            let shares = shares(needs, 3, budget);
            let given_bytes: u128 = shares.iter().map(|bytes| u128::from(*bytes)).sum();
            prop_assert!(given_bytes <= u128::from(budget));
            for (group, share) in shares.iter().enumerate() {
                let pages = given.iter().filter(|n| n.1 == group).map(|n| u128::from(n.2));
                prop_assert!(u128::from(*share) <= pages.sum::<u128>() * u128::from(PAGE_BYTES));
            }
        }
    }
}
