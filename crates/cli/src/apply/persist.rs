// SPDX-License-Identifier: MIT OR Apache-2.0
//! The udev rule on the disk.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_device::{UDEV_RULE_PATH, UdevRuleState, udev_rule, udev_rule_state};
use foreread_sys::save;

/// State of the udev rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// None.
    Missing,
    /// Ours.
    Installed,
    /// A file of its name that isn't, or no longer, ours.
    Others,
}

impl Rule {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Installed => "installed",
            Self::Others => "edited",
        }
    }
}

pub fn path(sysroot: &Path) -> PathBuf {
    sysroot.join(UDEV_RULE_PATH)
}

/// Looks whether it is there.
pub fn look(sysroot: &Path) -> Result<Rule> {
    let path = path(sysroot);
    match fs::read(&path) {
        Ok(bytes) => Ok(match udev_rule_state(&String::from_utf8_lossy(&bytes)) {
            UdevRuleState::Ours => Rule::Installed,
            UdevRuleState::Others => Rule::Others,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Rule::Missing),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Writes it; udev notices by itself. Returns whether it was changed.
pub fn install(sysroot: &Path) -> Result<bool> {
    let path = path(sysroot);
    let Some(rule) = lacking(sysroot)? else {
        return Ok(false);
    };
    let cannot = || format!("cannot write {}", path.display());
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).with_context(cannot)?;
    save::replace_for_all(&path, rule.as_bytes()).with_context(cannot)?;
    Ok(true)
}

/// The rule that [`install`] would write. `None`: it is there already.
///
/// # Errors
/// When it may not be installed, or replaces somebody's own.
pub fn lacking(sysroot: &Path) -> Result<Option<String>> {
    let path = path(sysroot);
    if look(sysroot)? == Rule::Others {
        bail!(
            "{} was edited by somebody, and stays; remove it to have it written anew",
            path.display()
        );
    }
    let program = std::env::current_exe().context("cannot tell where foreread is")?;
    refuse_if_replaceable(&program)?;
    let rule = udev_rule(&program.to_string_lossy())?;
    let is_there = fs::read(&path).is_ok_and(|old| old == rule.as_bytes());
    Ok((!is_there).then_some(rule))
}

/// Removes it, when it is as it was written. Returns whether it was there.
pub fn remove(sysroot: &Path) -> Result<bool> {
    let path = path(sysroot);
    match look(sysroot)? {
        Rule::Missing => Ok(false),
        Rule::Others => bail!(
            "{} was edited by somebody, and stays; remove it by hand if you want",
            path.display()
        ),
        Rule::Installed => {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            Ok(true)
        }
    }
}

/// udev runs the program as root. So only root and the installing user may be able to replace it.
fn refuse_if_replaceable(program: &Path) -> Result<()> {
    let me = rustix::process::geteuid().as_raw();
    for part in program.ancestors() {
        let metadata =
            fs::metadata(part).with_context(|| format!("cannot look at {}", part.display()))?;
        if !is_closed(&metadata, me) {
            bail!(
                "udev would run {} as root, and others than root may change {}; install it first \
                 (make install), and run that one",
                program.display(),
                part.display()
            );
        }
    }
    Ok(())
}

/// Whether only root, its groups and `me` can change it.
fn is_closed(metadata: &fs::Metadata, me: u32) -> bool {
    const STICKY: u32 = 0o1000;
    /// Debian's group for changes below `/usr/local`, which is as good as root there.
    const STAFF_GROUP: u32 = 50;
    // In a sticky directory others can't replace what isn't theirs.
    let sticky = metadata.is_dir() && metadata.mode() & STICKY != 0;
    let by_group = metadata.mode() & 0o020 != 0 && ![0, STAFF_GROUP].contains(&metadata.gid());
    let by_others = metadata.mode() & 0o002 != 0;
    [0, me].contains(&metadata.uid()) && (sticky || !(by_group || by_others))
}
