// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the boots of this system can be recorded and replayed.
//!
//! In: what the system says of itself. Out: the reason why not, in one line that tells what works
//! instead. Nothing is changed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use foreread_sys::mounts::{MountPoint, Mounts, mounts_of_self};

use crate::text::{escaped, printable};

/// Words that the boot loaders of live images give to the kernel.
const LIVE_WORDS: [&str; 4] = [
    // Debian's live-boot, and Ubuntu's casper.
    "boot=live",
    "boot=casper",
    // dracut, as Fedora and openSUSE use it.
    "rd.live.image",
    "rd.live.image=1",
];
/// What such words begin with where a value follows: dracut, and archiso.
const LIVE_BEGINNINGS: [&str; 5] = [
    "root=live:",
    "archisobasedir=",
    "archisosearchuuid=",
    "archisodevice=",
    "archisolabel=",
];
/// File systems that only live images have as their root.
const LIVE_ROOTS: [&[u8]; 4] = [b"squashfs", b"erofs", b"iso9660", b"tmpfs"];
/// What can be done about the boots of a live image.
const INSTEAD: &str = "nothing is kept from boot to boot. `foreread boot enable --root DIR` enables \
                       an installed system, or an image with a portable profile in \
                       /usr/lib/foreread/boot.d";

/// A system, as far as it matters to its boots.
pub struct ThisSystem {
    is_root: bool,
    /// What kind of container it is.
    container: Option<String>,
    has_systemd: bool,
    command_line: String,
    mounts: Mounts,
}

impl ThisSystem {
    /// The one that this process runs on.
    pub fn read() -> Result<Self> {
        Ok(Self {
            is_root: rustix::process::geteuid().is_root(),
            container: fs::read_to_string("/run/systemd/container").ok(),
            has_systemd: Path::new("/run/systemd/system").is_dir(),
            // Without it only the root file system tells a live image.
            command_line: fs::read_to_string("/proc/cmdline").unwrap_or_default(),
            mounts: mounts_of_self().context("cannot read the mounts")?,
        })
    }

    /// Whether its boots can be recorded and replayed; the error says why not.
    pub fn check(&self) -> Result<()> {
        if !self.is_root {
            bail!("only root can change how the system boots; try sudo");
        }
        if let Some(container) = &self.container {
            bail!(
                "this is a container ({}): it has no boot of its own. Enable it on the machine \
                 below; `foreread run` works here",
                printable(container.trim())
            );
        }
        if !self.has_systemd {
            bail!(
                "systemd doesn't run here, and boots of others can't be recorded yet; \
                 `foreread run` and `foreread watch` work"
            );
        }
        if let Some(word) = live_word(&self.command_line) {
            bail!(
                "this is a live image ({} on the kernel's command line): {INSTEAD}",
                printable(word)
            );
        }
        let at = self.mounts.mount_of(b"/");
        let root = at.and_then(|at| self.mounts.points().get(at));
        if let Some(why) = root.and_then(|root| forgets(root, &self.mounts)) {
            bail!("the root file system is {why}: {INSTEAD}");
        }
        Ok(())
    }
}

/// The word by which a boot loader starts a live image.
fn live_word(command_line: &str) -> Option<&str> {
    let is_live = |word: &&str| {
        let mut beginnings = LIVE_BEGINNINGS.iter();
        LIVE_WORDS.contains(word) || beginnings.any(|beginning| word.starts_with(beginning))
    };
    command_line.split_whitespace().find(is_live)
}

/// Why a root file system forgets at shutdown what was written to it.
///
/// An overlay whose upper layer is on a disk is as good as another root: pages are recorded and
/// replayed by the files of its layers. Without an upper layer it is read-only, and the state lies
/// on another file system or can't be written.
fn forgets(root: &MountPoint, mounts: &Mounts) -> Option<String> {
    if LIVE_ROOTS.contains(&&root.fs_type[..]) {
        return Some(format!("{}, as of a live image", escaped(&root.fs_type)));
    }
    let upper = upper_layer(root)?;
    let under = mounts.mount_of(upper);
    let under = under.and_then(|at| mounts.points().get(at))?;
    if under == root {
        // Ubuntu's live images, whose boot loader gives no word of it.
        return Some("an overlay whose upper layer is hidden, as of a live image".to_owned());
    }
    under
        .is_virtual()
        .then(|| "an overlay with its upper layer in memory".to_owned())
}

/// The directory that an overlay writes to.
fn upper_layer(mount: &MountPoint) -> Option<&[u8]> {
    let is_overlay = mount.fs_type == b"overlay";
    let options = mount.super_options.split(|byte| *byte == b',');
    let mut options = options.filter(|_| is_overlay);
    options.find_map(|option| option.strip_prefix(b"upperdir="))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: &str = "1 0 254:1 / / rw - ext4 /dev/vda1 rw\n";

    fn installed() -> ThisSystem {
        ThisSystem {
            is_root: true,
            container: None,
            has_systemd: true,
            command_line: "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet rd.live.image=0\n".into(),
            mounts: Mounts::parse(DISK.as_bytes()),
        }
    }

    fn why(system: &ThisSystem) -> String {
        match system.check() {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_installed_system_is_taken() {
        assert_eq!(why(&installed()), "");
    }

    #[test]
    fn containers_other_inits_and_other_users_are_refused() {
        let container = ThisSystem {
            container: Some("systemd-nspawn\n".into()),
            has_systemd: false,
            ..installed()
        };
        let refused = why(&container);
        assert!(
            refused.starts_with("this is a container (systemd-nspawn):"),
            "{refused}"
        );
        assert!(refused.contains("`foreread run` works here"), "{refused}");
        let other = ThisSystem {
            has_systemd: false,
            ..installed()
        };
        assert!(why(&other).starts_with("systemd doesn't run here"));
        let user = ThisSystem {
            is_root: false,
            ..container
        };
        assert!(why(&user).starts_with("only root"));
    }

    #[test]
    fn live_images_are_known_by_the_command_line() {
        for line in [
            "BOOT_IMAGE=/live/vmlinuz boot=live components quiet",
            "file=/cdrom/preseed/ubuntu.seed boot=casper quiet splash ---",
            "root=live:CDLABEL=Fedora-WS-Live-41 rd.live.image quiet rhgb",
            "root=/dev/sr0 rd.live.image",
            "archisobasedir=arch archisosearchuuid=2026-11-01-00-00-00-00",
            "initrd=/initrd archisolabel=ARCH_202611",
        ] {
            let live = ThisSystem {
                command_line: format!("{line}\n"),
                ..installed()
            };
            let refused = why(&live);
            assert!(
                refused.starts_with("this is a live image ("),
                "{line}: {refused}"
            );
            assert!(
                refused.contains("`foreread boot enable --root DIR`"),
                "{line}: {refused}"
            );
        }
        for line in ["boot=local", "root=/dev/live", "rd.live.debug=1", ""] {
            let other = ThisSystem {
                command_line: line.into(),
                ..installed()
            };
            assert_eq!(why(&other), "", "{line}");
        }
    }

    #[test]
    fn a_root_that_keeps_nothing_is_refused() {
        let overlay = |options: &str| format!("1 0 0:30 / / rw - overlay overlay rw,{options}\n");
        let run = "2 1 0:31 / /run rw - tmpfs tmpfs rw\n";
        let low = "3 1 254:1 / /media/root-ro ro - ext4 /dev/vda1 ro\n";
        let in_memory = "4 1 0:32 / /media/root-rw rw - tmpfs tmpfs rw\n";
        let on_disk = "4 1 254:2 / /media/root-rw rw - ext4 /dev/vda2 rw\n";
        let layers = "lowerdir=/media/root-ro,upperdir=/media/root-rw/up,workdir=/media/root-rw/w";
        let live = "lowerdir=/run/live/rootfs/filesystem.squashfs/,upperdir=/run/live/overlay/rw";
        let casper = "lowerdir=/filesystem.squashfs,upperdir=/cow/upper,workdir=/cow/work";
        for (mounts, reason) in [
            (
                "1 0 7:0 / / ro - squashfs /dev/loop0 ro\n".into(),
                "squashfs",
            ),
            (overlay(live) + run, "in memory"),
            (overlay(casper) + run, "hidden"),
            (overlay(layers) + low + in_memory, "in memory"),
            // overlayroot with a disk of its own, and the read-only root of an image with /var
            // apart.
            (overlay(layers) + low + on_disk, ""),
            (overlay("lowerdir=/sysroot/a::/sysroot/b"), ""),
        ] {
            let system = ThisSystem {
                mounts: Mounts::parse(mounts.as_bytes()),
                ..installed()
            };
            let refused = why(&system);
            assert_eq!(refused.is_empty(), reason.is_empty(), "{mounts}{refused}");
            assert!(refused.contains(reason), "{mounts}{refused}");
        }
    }
}
