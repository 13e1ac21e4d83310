// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user of this machine, as whom a command is to run.
//!
//! In: a name or a number. Out: user, groups, home and environment. Source: the name service of the
//! C library, so users of a directory service are found, too.

use std::ffi::{CStr, CString, OsString, c_char};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

/// Sizes that are tried for the texts of an entry. The largest holds any that a directory service
/// is known to send.
const ENTRY_BYTES: [usize; 3] = [1 << 10, 16 << 10, 1 << 20];
/// As many groups as Linux lets a process have.
const GROUPS_MAX: usize = 65_536;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: OsString,
    /// The home directory.
    pub home: OsString,
    /// The user's number.
    pub uid: u32,
    /// The number of the user's own group.
    pub gid: u32,
    /// All groups of the user.
    pub groups: Vec<u32>,
}

impl User {
    /// The user with this name.
    ///
    /// # Errors
    /// `NotFound` where there is none; otherwise what the name service met.
    pub fn named(name: &str) -> io::Result<Self> {
        let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        for bytes in ENTRY_BYTES {
            let mut texts = vec![0 as c_char; bytes];
            match entry(&name, &mut texts) {
                Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {}
                Ok(Some(user)) => return user.with_groups(&name),
                Ok(None) => return Err(io::ErrorKind::NotFound.into()),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("its entry is too long"))
    }

    fn with_groups(mut self, name: &CStr) -> io::Result<Self> {
        let mut groups = vec![0; 64];
        loop {
            let mut count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
            // SAFETY: the name ends with 0, and `count` is the length of `groups`.
            let filled = unsafe {
                libc::getgrouplist(name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count)
            };
            let count = usize::try_from(count).unwrap_or(0);
            if filled >= 0 {
                groups.truncate(count);
                self.groups = groups;
                return Ok(self);
            }
            if groups.len() >= GROUPS_MAX {
                return Err(io::Error::other(
                    "it is in more groups than a process can have",
                ));
            }
            groups.resize((groups.len() * 2).max(count).min(GROUPS_MAX), 0);
        }
    }

    /// This process's environment, with the user's home and name in it.
    pub(crate) fn environment(&self) -> Vec<CString> {
        let own = [
            ("HOME", &self.home),
            ("USER", &self.name),
            ("LOGNAME", &self.name),
        ];
        let is_own = |name: &OsString| own.iter().any(|(own, _)| name == own);
        let others = std::env::vars_os().filter(|(name, _)| !is_own(name));
        let own = own
            .iter()
            .map(|(name, value)| (OsString::from(name), (*value).clone()));
        let variables = others.chain(own).map(|(name, value)| {
            let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
            CString::new(bytes).ok()
        });
        // A variable of an environment has no zero byte.
        variables.flatten().collect()
    }
}

fn entry(name: &CStr, texts: &mut [c_char]) -> io::Result<Option<User>> {
    // SAFETY: an entry of numbers and pointers, all of which may be 0.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = ptr::null_mut();
    // SAFETY: the name ends with 0, the texts have the length that is told, and both results live
    // through the call.
    let error = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &raw mut entry,
            texts.as_mut_ptr(),
            texts.len(),
            &raw mut found,
        )
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    if found.is_null() {
        return Ok(None);
    }
    let text = |text: *const c_char| {
        // SAFETY: a text of the entry ends with 0 and lies in `texts`, which lives on.
        let bytes = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
        OsString::from_vec(bytes)
    };
    Ok(Some(User {
        name: text(entry.pw_name),
        home: text(entry.pw_dir),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        groups: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let root = User::named("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0), "{root:?}");
        for wrong in ["", "no such user", "a\0b"] {
            let error = User::named(wrong).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{wrong:?}");
        }
        let home = CString::new("HOME=/root").unwrap();
        assert!(root.environment().contains(&home));
        let homes = root.environment();
        let homes = homes
            .iter()
            .filter(|one| one.to_bytes().starts_with(b"HOME="));
        assert_eq!(homes.count(), 1);
    }
}
