// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rights of a reader: what `watch` may bring in on its behalf.
//!
//! Input: the number of a process. Output: its [`Rights`], from its files in `/proc` that every
//! user may read, since the service has no right to look into other processes. A reader that can't
//! be understood has no rights.

use std::fs::{self, File};
use std::io::Read;
use std::sync::Arc;

use foreread_core::mounts::Mounts;
use foreread_sys::process_stat::start_ticks;
use foreread_watch::permission::{Credentials, differ};
use foreread_watch::skipped::Skipped;

use super::cgroups::Cgroups;

/// Threads whose credentials are compared. Servers whose threads act for different users have few.
const THREADS_MAX: usize = 64;
/// Longer tables of mounts are not read.
const MOUNTS_BYTES_MAX: u64 = 1 << 20;
/// Labels of security modules that restrict nothing that counts here.
const UNCONFINED: [&str; 2] = ["unconfined", "kernel"];

/// The rights of a reader.
#[derive(Clone, Debug)]
pub(super) enum Rights {
    /// It may read all that `watch` can.
    All,
    /// It may read what its credentials and mounts allow.
    Some(Arc<Limits>),
    /// Nothing is read on its behalf.
    None(Skipped),
}

/// The bounds of the rights of a reader.
#[derive(Debug)]
pub(super) struct Limits {
    pub credentials: Credentials,
    /// Its mounts; `None` if they are those of `watch`.
    pub mounts: Option<Mounts>,
}

/// A process, by its number and the time of its start.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    process: u32,
    start_ticks: Option<u64>,
    rights: Rights,
    /// The user to whom it wholly belongs.
    owner: Option<u32>,
    cgroups: Cgroups,
}

impl Reader {
    /// A process that has just missed something, and so waits for the disk. `numbers_are_ours`: our
    /// `/proc` has it under this number.
    pub fn of(process: u32, numbers_are_ours: bool, cgroups: &Cgroups) -> Self {
        let found = Self::find(process, numbers_are_ours, cgroups);
        found.unwrap_or_else(|| Self {
            process,
            start_ticks: None,
            rights: Rights::None(Skipped::UnknownReader),
            owner: None,
            cgroups: cgroups.clone(),
        })
    }

    /// The same; if it has ended meanwhile, as short programs of a script do, the process that it
    /// worked for. That one may have more rights, so it must have the same user.
    pub fn of_either(
        [process, for_whom]: [u32; 2],
        user: u32,
        numbers_are_ours: bool,
        cgroups: &Cgroups,
    ) -> Self {
        let found = Self::find(process, numbers_are_ours, cgroups).or_else(|| {
            let other = Self::find(for_whom, numbers_are_ours, cgroups)?;
            (other.user() == Some(user)).then_some(other)
        });
        found.unwrap_or_else(|| Self::of(process, false, cgroups))
    }

    fn find(process: u32, numbers_are_ours: bool, cgroups: &Cgroups) -> Option<Self> {
        let start_ticks = start_ticks(process).filter(|_| numbers_are_ours)?;
        let (rights, owner) = rights_of(process, cgroups)?;
        Some(Self {
            process,
            start_ticks: Some(start_ticks),
            rights,
            owner,
            cgroups: cgroups.clone(),
        })
    }

    /// The user whose rights it has; `None` where that is unknown.
    fn user(&self) -> Option<u32> {
        match &self.rights {
            Rights::All => Some(0),
            Rights::Some(limits) => Some(limits.credentials.user),
            Rights::None(_) => None,
        }
    }

    /// Its rights now, or those that it had last if it has ended since.
    pub fn rights(&mut self) -> Rights {
        if self.start_ticks.is_some()
            && start_ticks(self.process) == self.start_ticks
            && let Some((rights, owner)) = rights_of(self.process, &self.cgroups)
            && start_ticks(self.process) == self.start_ticks
        {
            self.rights = rights;
            self.owner = owner;
        }
        self.rights.clone()
    }

    /// The user to whom it wholly belonged when its rights were found last.
    pub fn owner(&self) -> Option<u32> {
        self.owner
    }
}

/// Its rights, and the user to whom it wholly belongs. `None` if the process has ended meanwhile.
fn rights_of(process: u32, cgroups: &Cgroups) -> Option<(Rights, Option<u32>)> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let rights = match cgroups.is_throttled(process)? {
        true => Rights::None(Skipped::Throttled),
        false => rights_by(process, &status)?,
    };
    // A thread may belong to another user.
    let is_mixed = matches!(rights, Rights::None(Skipped::MixedThreads));
    let owner = Credentials::owner(&status).filter(|_| !is_mixed);
    Some((rights, owner))
}

fn rights_by(process: u32, status: &str) -> Option<Rights> {
    let text = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}"));
    let maps = (text("uid_map").ok()?, text("gid_map").ok()?);
    let credentials = Credentials::parse(status, &maps.0, &maps.1)?;
    let mounts = mounts_of(process)?;
    if have_other_credentials(process, status) {
        return Some(Rights::None(Skipped::MixedThreads));
    }
    if credentials.is_root() && matches!(mounts, Seen::AsWe) {
        return Some(Rights::All);
    }
    // Without a security module with labels this is an error.
    let label = text("attr/current").unwrap_or_default();
    if !credentials.is_root() && is_confined(&label) {
        return Some(Rights::None(Skipped::Confined));
    }
    let mounts = match mounts {
        Seen::AsWe => None,
        Seen::Else(mounts) => Some(mounts),
        Seen::Unknown => return Some(Rights::None(Skipped::UnknownReader)),
    };
    Some(Rights::Some(Arc::new(Limits {
        credentials,
        mounts,
    })))
}

enum Seen {
    AsWe,
    Else(Mounts),
    Unknown,
}

/// The mounts of a process. The text has only those below its root directory, by their paths from
/// there. The numbers of mounts are unique among all namespaces, so equal texts are of one
/// namespace and one root directory.
fn mounts_of(process: u32) -> Option<Seen> {
    let theirs = table(&format!("/proc/{process}/mountinfo"))?;
    let ours = table("/proc/thread-self/mountinfo")?;
    if theirs.len() as u64 > MOUNTS_BYTES_MAX {
        return Some(Seen::Unknown);
    }
    Some(match theirs == ours {
        true => Seen::AsWe,
        false => Seen::Else(Mounts::parse(&theirs)),
    })
}

fn table(path: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    let mut file = file.take(MOUNTS_BYTES_MAX + 1);
    file.read_to_end(&mut text).ok()?;
    Some(text)
}

/// Whether a thread has other credentials than the first one, as threads of some file servers do.
fn have_other_credentials(process: u32, status: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten().take(THREADS_MAX);
    threads
        .filter(|thread| thread.file_name().to_str() != Some(&process.to_string()))
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .any(|of| differ(&of, status))
}

/// Whether a security module may forbid a process to read what its credentials allow. AppArmor has
/// `unconfined`, SELinux `user:role:unconfined_t:level`.
fn is_confined(label: &str) -> bool {
    let label = label.trim_matches(['\0', '\n', ' ']);
    let kind = label.split(':').nth(2).unwrap_or_default();
    !label.is_empty() && !UNCONFINED.contains(&label) && kind != "unconfined_t"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// Ends with the value.
    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn of(process: u32, numbers_are_ours: bool) -> Reader {
        Reader::of(process, numbers_are_ours, &Cgroups::default())
    }

    fn start(words: &[&str]) -> Option<Ended> {
        let (program, arguments) = words.split_first()?;
        let child = Command::new(program).args(arguments).spawn().ok()?;
        let child = Ended(child);
        // Until it has called exec the last time.
        let comm = format!("/proc/{}/comm", child.0.id());
        for _ in 0..1000 {
            if fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep") {
                return Some(child);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        None
    }

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            println!("skipped: needs root");
        }
        is_root
    }

    #[test]
    fn root_reads_all_and_a_user_what_its_credentials_allow() {
        if !is_root() {
            return;
        }
        let root = start(&["sleep", "60"]).unwrap();
        let rights = of(root.0.id(), true).rights();
        assert!(matches!(rights, Rights::All), "{rights:?}");
        let words = [
            "setpriv",
            "--reuid",
            "1234",
            "--regid",
            "55",
            "--clear-groups",
        ];
        let user = start(&[&words[..], &["sleep", "60"]].concat()).unwrap();
        let mut user_of = of(user.0.id(), true);
        let Rights::Some(limits) = user_of.rights() else {
            panic!("{:?}", user_of.rights());
        };
        assert_eq!(
            (limits.credentials.user, limits.credentials.group),
            (1234, 55)
        );
        assert!(limits.mounts.is_none() && !limits.credentials.is_root());
        // After its end its last rights count.
        drop(user);
        assert!(matches!(user_of.rights(), Rights::Some(_)));
    }

    #[test]
    fn root_of_a_container_is_not_root() {
        if !is_root() {
            return;
        }
        let words = [
            "setpriv",
            "--reuid",
            "1234",
            "--regid",
            "55",
            "--clear-groups",
        ];
        let inner = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sleep",
            "60",
        ];
        let Some(container) = start(&[&words[..], &inner].concat()) else {
            return println!("skipped: no user namespaces");
        };
        let Rights::Some(limits) = of(container.0.id(), true).rights() else {
            panic!("it is root, or unknown");
        };
        assert_eq!(limits.credentials.user, 1234);
        assert!(limits.mounts.is_some() && !limits.credentials.is_root());
        assert!(limits.credentials.reads_all(1234, 55));
        assert!(!limits.credentials.reads_all(0, 0));
    }

    #[test]
    fn who_is_not_found_has_no_rights() {
        for (process, numbers_are_ours) in [(u32::MAX, true), (std::process::id(), false)] {
            let rights = of(process, numbers_are_ours).rights();
            assert!(matches!(rights, Rights::None(Skipped::UnknownReader)));
        }
    }

    #[test]
    fn one_that_has_ended_reads_as_the_one_it_worked_for_if_that_has_its_user() {
        if !is_root() {
            return;
        }
        let shell = start(&["sleep", "60"]).unwrap();
        let either = |process: u32, user: u32| {
            Reader::of_either([process, shell.0.id()], user, true, &Cgroups::default()).rights()
        };
        assert!(matches!(either(u32::MAX, 0), Rights::All));
        let of_another_user = either(u32::MAX, 1234);
        assert!(matches!(
            of_another_user,
            Rights::None(Skipped::UnknownReader)
        ));
        let words = [
            "setpriv",
            "--reuid",
            "1234",
            "--clear-groups",
            "sleep",
            "60",
        ];
        let user = start(&words).unwrap();
        assert!(matches!(either(user.0.id(), 0), Rights::Some(_)));
    }

    #[test]
    fn labels_of_confined_programs_are_known() {
        for free in [
            "",
            "unconfined\n",
            "unconfined_u:unconfined_r:unconfined_t:s0\0",
        ] {
            assert!(!is_confined(free), "{free:?}");
        }
        for confined in [
            "/usr/bin/man (enforce)\n",
            "system_u:system_r:httpd_t:s0",
            "_",
        ] {
            assert!(is_confined(confined), "{confined:?}");
        }
    }
}
