// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that `boot enable` makes: units, and hooks of what builds the initramfs.

use std::path::{Path, PathBuf};

use foreread_sys::root_directory::RootDirectory;

use super::installed::Item;

/// The program, as the files in `packaging/` name it.
const PROGRAM: &str = "/usr/local/bin/foreread";
/// Where an administrator's units are.
const UNITS: &str = "etc/systemd/system";
const SERVE: &str = include_str!("../../../../packaging/systemd/foreread-boot.service");
const REACHED: &str = include_str!("../../../../packaging/systemd/foreread-boot-reached.service");
const FROM_INITRAMFS: &str =
    include_str!("../../../../packaging/systemd/foreread-boot-initramfs.conf");
const HOOK: &str = include_str!("../../../../packaging/initramfs-tools/hook");
const LOCAL_BOTTOM: &str = include_str!("../../../../packaging/initramfs-tools/local-bottom");
const MODULE_SETUP: &str = include_str!("../../../../packaging/dracut/module-setup.sh");
const PRE_PIVOT: &str = include_str!("../../../../packaging/dracut/pre-pivot.sh");
/// Among dracut's modules; it reads those of no other directory.
const DRACUT_MODULE: &str = "usr/lib/dracut/modules.d/95foreread";

/// What builds the initramfs of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builder {
    /// Of Debian and its relatives.
    InitramfsTools,
    /// Of Fedora, openSUSE and others.
    Dracut,
}

impl Builder {
    /// The one that a system has. Where both are installed, Debian's own is in use.
    pub fn of(root: &RootDirectory) -> Option<Self> {
        let has = |path: &str| root.metadata(Path::new(path)).is_ok();
        if has("usr/sbin/update-initramfs") && has("usr/share/initramfs-tools") {
            Some(Self::InitramfsTools)
        } else if has("usr/lib/dracut/modules.d") {
            Some(Self::Dracut)
        } else {
            None
        }
    }

    /// Its hooks.
    pub fn items(self, program: &str) -> Vec<Item> {
        let hook = |path: &str, content: &str| Item::File {
            path: PathBuf::from(path),
            content: content.replace(PROGRAM, program),
            is_executable: true,
        };
        match self {
            Self::InitramfsTools => vec![
                hook("etc/initramfs-tools/hooks/foreread", HOOK),
                hook(
                    "etc/initramfs-tools/scripts/local-bottom/foreread",
                    LOCAL_BOTTOM,
                ),
            ],
            Self::Dracut => vec![
                hook(&format!("{DRACUT_MODULE}/module-setup.sh"), MODULE_SETUP),
                hook(&format!("{DRACUT_MODULE}/pre-pivot.sh"), PRE_PIVOT),
            ],
        }
    }

    /// Whether an item is one of its hooks.
    pub fn owns(self, item: &Item) -> bool {
        let folder = match self {
            Self::InitramfsTools => "etc/initramfs-tools",
            Self::Dracut => "usr/lib/dracut",
        };
        item.path().starts_with(folder)
    }

    /// The command that builds the initramfs anew.
    pub fn command(self) -> &'static [&'static str] {
        match self {
            Self::InitramfsTools => &["update-initramfs", "-u", "-k", "all"],
            Self::Dracut => &["dracut", "--regenerate-all", "--force"],
        }
    }
}

/// The units, and what has systemd start them.
pub fn units(program: &str) -> Vec<Item> {
    let unit = |name: &str, content: String| Item::File {
        path: Path::new(UNITS).join(name),
        content,
        is_executable: false,
    };
    let wanted = |target: &str, name: &str| Item::Link {
        path: Path::new(UNITS).join(format!("{target}.wants")).join(name),
        target: Path::new("/").join(UNITS).join(name),
    };
    let (serve, reached) = ("foreread-boot.service", "foreread-boot-reached.service");
    vec![
        unit(serve, SERVE.replace(PROGRAM, program)),
        unit(reached, REACHED.to_owned()),
        wanted("sysinit.target", serve),
        wanted("default.target", reached),
    ]
}

/// The part of the unit by which it executes the program of the initramfs.
pub fn from_initramfs(program: &str) -> Item {
    Item::File {
        path: Path::new(UNITS).join("foreread-boot.service.d/initramfs.conf"),
        content: FROM_INITRAMFS.replace(PROGRAM, program),
        is_executable: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    use foreread_linux_boot::{TIMED_ONLY, TRACE_NEXT};

    use crate::boot::state_of;

    /// The units look for files that the program makes.
    #[test]
    fn units_name_the_files_of_the_program() {
        let state = state_of(Path::new("/"));
        let file = |name: &str| state.file(name).to_string_lossy().into_owned();
        let (timed_only, trace_next) = (file(TIMED_ONLY), file(TRACE_NEXT));
        let is_separator = |at: char| at.is_whitespace() || "|!=;".contains(at);
        let named = |unit: &'static str| -> BTreeSet<&str> {
            let words = unit.split(is_separator);
            words
                .filter(|word| word.contains("/foreread/boot/"))
                .collect()
        };
        let both = BTreeSet::from([timed_only.as_str(), trace_next.as_str()]);
        assert_eq!(named(SERVE), both);
        assert_eq!(named(REACHED), BTreeSet::from([timed_only.as_str()]));
    }

    #[test]
    fn the_builder_in_use_is_found_and_its_hooks_name_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        let root = RootDirectory::open(top).unwrap();
        assert_eq!(Builder::of(&root), None);
        fs::create_dir_all(top.join("usr/lib/dracut/modules.d")).unwrap();
        assert_eq!(Builder::of(&root), Some(Builder::Dracut));
        fs::create_dir_all(top.join("usr/share/initramfs-tools")).unwrap();
        fs::create_dir_all(top.join("usr/sbin")).unwrap();
        fs::write(top.join("usr/sbin/update-initramfs"), "").unwrap();
        assert_eq!(Builder::of(&root), Some(Builder::InitramfsTools));
        for builder in [Builder::InitramfsTools, Builder::Dracut] {
            let items = builder.items("/opt/foreread");
            assert!(items.iter().all(|item| builder.owns(item)));
            let texts: String = items
                .iter()
                .map(|item| match item {
                    Item::File { content, .. } => content.as_str(),
                    _ => "",
                })
                .collect();
            assert!(texts.contains("/opt/foreread") && !texts.contains(PROGRAM));
        }
    }
}
