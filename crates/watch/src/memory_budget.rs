// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory budget of `watch`: bytes that all its lists, steps and queues may hold together.
//!
//! Programs of all users make `watch` remember: names of directories, files to fetch, accesses on
//! their way. Without a bound in bytes any user sets the memory of a service that runs as root.
//!
//! Input: charges, each for a user. Output: a [`Charge`], which stands for the bytes until it is
//! dropped, or [`Exceeded`]. Guarantees:
//!
//! * the charges of a user, and of all users together, never exceed their limits.
//! * what is held is the sum of the charges that exist, and 0 when the last one is dropped.
//!
//! Root may use all of it. Others get a share, so that one of them leaves room for the next.
//! Tables of fixed size (detectors, the last lines of the log) have bounds of their own, in
//! [`table`](crate::table), since their contents must follow from the log alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::skipped::Skipped;

/// Bytes for all planners. The process has 64 MiB in all. Of these, its code, its stacks and the
/// fixed tables take about 20, and the allocator keeps up to half as much again as is charged.
pub const TOTAL_BYTES: u64 = 24 << 20;
/// Bytes for one user: a walk through a million files takes 12 MiB.
pub const USER_BYTES: u64 = 14 << 20;
/// The user without a limit of its own.
const ROOT: u32 = 0;
/// What the allocator and a list add to each element.
pub const ELEMENT_BYTES: u64 = 32;

/// A limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The limit of the user.
    User,
    /// The limit of all together.
    Total,
}

impl From<Exceeded> for Skipped {
    fn from(exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::User => Self::UserBudget,
            Exceeded::Total => Self::TotalBudget,
        }
    }
}

/// See the [module](self). Copies are the same budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total_bytes: u64,
    user_bytes: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Of each user that holds anything.
    of_users: BTreeMap<u32, u64>,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(TOTAL_BYTES, USER_BYTES)
    }
}

impl MemoryBudget {
    /// A budget of `total_bytes` for all, and of `user_bytes` for each user but root.
    #[must_use]
    pub fn new(total_bytes: u64, user_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            total_bytes,
            user_bytes,
            held: Mutex::default(),
        }))
    }

    /// A charge of no bytes for a user, which may grow.
    #[must_use]
    pub fn charge_of(&self, user: u32) -> Charge {
        Charge {
            budget: self.clone(),
            user,
            bytes: 0,
        }
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Bytes that are held for a user.
    #[must_use]
    pub fn held_bytes_of(&self, user: u32) -> u64 {
        self.lock().of_users.get(&user).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, user: u32, bytes: u64) -> Result<(), Exceeded> {
        let mut held = self.lock();
        let of_user = held.of_users.get(&user).copied().unwrap_or_default();
        let (all, of_user) = (
            held.bytes.saturating_add(bytes),
            of_user.saturating_add(bytes),
        );
        if user != ROOT && of_user > self.0.user_bytes {
            return Err(Exceeded::User);
        }
        if all > self.0.total_bytes {
            return Err(Exceeded::Total);
        }
        held.bytes = all;
        if bytes > 0 {
            held.of_users.insert(user, of_user);
        }
        Ok(())
    }

    fn give(&self, user: u32, bytes: u64) {
        let mut held = self.lock();
        held.bytes -= bytes;
        if let Some(of_user) = held.of_users.get_mut(&user) {
            *of_user -= bytes;
            if *of_user == 0 {
                held.of_users.remove(&user);
            }
        }
    }
}

/// Bytes that are held for a user. They are given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: MemoryBudget,
    user: u32,
    bytes: u64,
}

impl Charge {
    /// The bytes that it stands for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`Exceeded`] if a limit doesn't allow it; then the charge stays.
    pub fn add(&mut self, bytes: u64) -> Result<(), Exceeded> {
        self.budget.take(self.user, bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives bytes back, at most those that it stands for.
    pub fn give(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.budget.give(self.user, bytes);
        self.bytes -= bytes;
    }

    /// Makes it stand for this many bytes.
    ///
    /// # Errors
    /// [`Exceeded`] if a limit doesn't allow it; then the charge stays.
    pub fn set(&mut self, bytes: u64) -> Result<(), Exceeded> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.add(more),
            None => {
                self.give(self.bytes - bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_user_leaves_room_for_others_and_root_may_have_it_all() {
        let budget = MemoryBudget::new(100, 60);
        let mut one = budget.charge_of(1);
        assert_eq!(one.add(61), Err(Exceeded::User));
        assert_eq!(one.add(60), Ok(()));
        let mut other = budget.charge_of(2);
        assert_eq!(other.set(41), Err(Exceeded::Total));
        assert_eq!(other.set(40), Ok(()));
        drop((one, other));
        let mut root = budget.charge_of(0);
        assert_eq!(root.add(100), Ok(()));
        assert_eq!(root.add(1), Err(Exceeded::Total));
        assert_eq!(Skipped::from(Exceeded::Total), Skipped::TotalBudget);
        assert_eq!(Skipped::from(Exceeded::User), Skipped::UserBudget);
    }

    #[derive(Clone, Debug)]
    enum Happens {
        Begin(u32),
        Add(prop::sample::Index, u64),
        Set(prop::sample::Index, u64),
        Give(prop::sample::Index, u64),
        Drop(prop::sample::Index),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        let bytes = prop_oneof![0u64..3000, any::<u64>()];
        let at = any::<prop::sample::Index>;
        prop_oneof![
            (0u32..4).prop_map(Happens::Begin),
            (at(), bytes.clone()).prop_map(|(at, bytes)| Happens::Add(at, bytes)),
            (at(), bytes.clone()).prop_map(|(at, bytes)| Happens::Set(at, bytes)),
            (at(), bytes).prop_map(|(at, bytes)| Happens::Give(at, bytes)),
            at().prop_map(Happens::Drop),
        ]
    }

    proptest! {
        #[test]
        fn what_is_held_is_what_is_charged_and_all_is_given_back(
            all in prop::collection::vec(happens(), 0..200)
        ) {
            let budget = MemoryBudget::new(5000, 2000);
            let mut charges: Vec<Charge> = Vec::new();
            for one in all {
                if let Happens::Begin(user) = one {
                    charges.push(budget.charge_of(user));
                } else if !charges.is_empty() {
                    let count = charges.len();
                    match one {
                        Happens::Begin(_) => {}
                        Happens::Add(at, bytes) => {
                            let _ = charges[at.index(count)].add(bytes);
                        }
                        Happens::Set(at, bytes) => {
                            let _ = charges[at.index(count)].set(bytes);
                        }
                        Happens::Give(at, bytes) => charges[at.index(count)].give(bytes),
                        Happens::Drop(at) => drop(charges.swap_remove(at.index(count))),
                    }
                }
                let sum: u64 = charges.iter().map(Charge::bytes).sum();
                prop_assert_eq!(budget.held_bytes(), sum);
                prop_assert!(sum <= 5000);
                for user in 0..4 {
                    let of_user = charges.iter().filter(|charge| charge.user == user);
                    let of_user: u64 = of_user.map(Charge::bytes).sum();
                    prop_assert_eq!(budget.held_bytes_of(user), of_user);
                    prop_assert!(user == ROOT || of_user <= 2000);
                }
            }
            charges.clear();
            prop_assert_eq!(budget.held_bytes(), 0);
            prop_assert!(budget.lock().of_users.is_empty());
        }
    }
}
