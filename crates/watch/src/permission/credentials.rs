// SPDX-License-Identifier: MIT OR Apache-2.0
//! The credentials of a program, from `/proc/PID/status`, `uid_map` and `gid_map`.
//!
//! `/proc` translates numbers of users and groups to the user namespace of its reader, in which
//! `stat` has them too. The capabilities of a program count in its own user namespace. They cover
//! the inodes whose owner and group have a number there (`capable_wrt_inode_uidgid()`): root of an
//! unprivileged container isn't root.

/// Capabilities that let a program read any file: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
const READS_ALL: u64 = 1 << 1 | 1 << 2;

/// Ranges of numbers that exist in a user namespace, as numbers of our own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap(Vec<(u64, u64)>);

impl IdMap {
    /// Reads `/proc/PID/uid_map` or `gid_map`. `None` if it isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let range = |line: &str| {
            let fields = line.split_whitespace().map(|field| field.parse().ok());
            let fields: Vec<u64> = fields.collect::<Option<_>>()?;
            match fields[..] {
                [_inside, outside, count] => Some((outside, count)),
                _ => None,
            }
        };
        text.lines().map(range).collect::<Option<_>>().map(Self)
    }

    /// All numbers.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![(0, u64::from(u32::MAX))])
    }

    fn holds(&self, id: u32) -> bool {
        let id = u64::from(id);
        let mut ranges = self.0.iter();
        ranges.any(|(start, count)| id.checked_sub(*start).is_some_and(|at| at < *count))
    }

    fn is_all(&self) -> bool {
        *self == Self::all()
    }
}

/// The privilege to read files of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privilege(Option<(IdMap, IdMap)>);

impl Privilege {
    /// The privilege over files whose owner and group have numbers in these maps.
    #[must_use]
    pub fn over(users: IdMap, groups: IdMap) -> Self {
        Self(Some((users, groups)))
    }
}

/// The credentials of a program that count for files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user for access to files (fsuid).
    pub user: u32,
    /// The group for access to files (fsgid).
    pub group: u32,
    /// Its further groups.
    pub groups: Vec<u32>,
    /// The privilege of its capabilities.
    pub privilege: Privilege,
}

impl Credentials {
    /// Reads the texts of `/proc/PID/status`, `uid_map` and `gid_map`. `None` if one of them is
    /// incomplete, as that of a process that is just ending.
    #[must_use]
    pub fn parse(status: &str, uid_map: &str, gid_map: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let numbers = |text: &str| {
            let numbers = text.split_whitespace().map(|number| number.parse().ok());
            numbers.collect::<Option<Vec<u32>>>()
        };
        // Real, effective, saved, and for files.
        let for_files = |name| numbers(field(name)?)?.get(3).copied();
        let capabilities = u64::from_str_radix(field("CapEff")?.trim(), 16).ok()?;
        let privilege = match capabilities & READS_ALL {
            0 => Privilege::default(),
            _ => Privilege::over(IdMap::parse(uid_map)?, IdMap::parse(gid_map)?),
        };
        Some(Self {
            user: for_files("Uid")?,
            group: for_files("Gid")?,
            groups: numbers(field("Groups")?)?,
            privilege,
        })
    }

    /// The user to whom a process wholly belongs, from its `/proc/PID/status`: all its numbers of
    /// users are this one, those of groups are one, and it has no capability. `None` for others:
    /// what such a process does may be nothing for the user who started it.
    #[must_use]
    pub fn owner(status: &str) -> Option<u32> {
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let only = |name: &str| {
            let numbers = field(name)?.split_whitespace();
            let mut numbers = numbers.map(|number| number.parse::<u32>().ok());
            let first = numbers.next()??;
            numbers.all(|one| one == Some(first)).then_some(first)
        };
        let has_none = |name: &str| Some(u64::from_str_radix(field(name)?.trim(), 16).ok()? == 0);
        only("Gid")?;
        (has_none("CapEff")? && has_none("CapPrm")?).then(|| only("Uid"))?
    }

    /// Whether it is in a group.
    #[must_use]
    pub fn is_in(&self, group: u32) -> bool {
        self.group == group || self.groups.contains(&group)
    }

    /// Whether its capabilities let it read a file with this owner and group, and search such a
    /// directory.
    #[must_use]
    pub fn reads_all(&self, user: u32, group: u32) -> bool {
        let Privilege(privilege) = &self.privilege;
        let over = privilege.as_ref();
        over.is_some_and(|(users, groups)| users.holds(user) && groups.holds(group))
    }

    /// Whether it may read all files, whoever owns them.
    #[must_use]
    pub fn is_root(&self) -> bool {
        let Privilege(privilege) = &self.privilege;
        let over = privilege.as_ref();
        over.is_some_and(|(users, groups)| users.is_all() && groups.is_all())
    }
}

/// Whether threads of one process have different credentials: the texts of their `status` differ in
/// a line that counts.
#[must_use]
pub fn differ(one: &str, other: &str) -> bool {
    const COUNTS: [&str; 4] = ["Uid:", "Gid:", "Groups:", "CapEff:"];
    let counts = |line: &&str| COUNTS.iter().any(|name| line.starts_with(name));
    !one.lines().filter(counts).eq(other.lines().filter(counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATUS: &str = "Name:\ta\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t10 20 \n\
                          CapEff:\t0000000000000000\n";
    const ALL: &str = "         0          0 4294967295\n";

    #[test]
    fn the_numbers_for_files_count() {
        let found = Credentials::parse(STATUS, ALL, ALL).unwrap();
        assert_eq!((found.user, found.group), (4, 8));
        assert!(found.is_in(8) && found.is_in(10) && found.is_in(20) && !found.is_in(5));
        assert!(!found.is_root() && !found.reads_all(0, 0));
    }

    #[test]
    fn capabilities_count_as_far_as_the_user_namespace_reaches() {
        for (capabilities, reads) in [("1", false), ("2", true), ("4", true), ("38", false)] {
            let status = STATUS.replace("0000000000000000", capabilities);
            let root = Credentials::parse(&status, ALL, ALL).unwrap();
            assert_eq!(root.is_root(), reads, "{capabilities}");
            let inner = Credentials::parse(&status, "0 1000 1\n", "0 1000 1\n").unwrap();
            assert!(!inner.is_root());
            assert_eq!(inner.reads_all(1000, 1000), reads);
            assert!(!inner.reads_all(0, 1000) && !inner.reads_all(1000, 0));
        }
        // A namespace that has no numbers yet.
        let status = STATUS.replace("0000000000000000", "1ffffffffff");
        let none = Credentials::parse(&status, "", "").unwrap();
        assert!(!none.is_root() && !none.reads_all(0, 0));
    }

    #[test]
    fn what_is_incomplete_is_nothing() {
        for missing in ["Uid:", "Gid:", "Groups:", "CapEff:"] {
            let lines = STATUS.lines().filter(|line| !line.starts_with(missing));
            let cut: String = lines.flat_map(|line| [line, "\n"]).collect();
            assert_eq!(Credentials::parse(&cut, ALL, ALL), None, "{missing}");
        }
        assert_eq!(IdMap::parse("0 0\n"), None);
        assert_eq!(IdMap::parse("0 0 1 2\n"), None);
        assert_eq!(IdMap::parse("a 0 1\n"), None);
    }

    #[test]
    fn threads_are_compared_by_what_counts() {
        assert!(!differ(STATUS, &STATUS.replace("Name:\ta", "Name:\tb")));
        assert!(differ(STATUS, &STATUS.replace("\t4\n", "\t0\n")));
        assert!(differ(STATUS, ""));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(status in "(Uid|Gid|Groups|CapEff)?[:\t 0-9a-f\n]{0,60}") {
            let _ = Credentials::parse(&status, &status, &status);
        }

        #[test]
        fn a_map_holds_its_ranges(start in 0u32..1000, count in 0u32..1000, id in 0u32..3000) {
            let map = IdMap::parse(&format!("0 {start} {count}\n")).unwrap();
            prop_assert_eq!(map.holds(id), id >= start && id - start < count);
        }
    }
}
