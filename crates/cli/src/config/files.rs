// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that set defaults: of the machine, and of the user.

use std::env;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_sys::read_whole::read_whole;

use super::defaults::Defaults;
use crate::text::escaped_path;

/// The file of the machine.
const OF_MACHINE: &str = "/etc/foreread/foreread.toml";
/// The file of a user, below the directory of configuration.
const OF_USER: &str = "foreread/foreread.toml";
/// Size above which a file is none that a person wrote.
const BYTES_MAX: u64 = 64 << 10;

/// The files, in the order in which they are read: `$FOREREAD_CONFIG` alone where that is set, else
/// that of the machine and then that of the user.
pub fn paths() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = set("FOREREAD_CONFIG") {
        return vec![path.into()];
    }
    let home = || set("HOME").map(|home| PathBuf::from(home).join(".config"));
    let of_user = set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let of_user = of_user.map(|directory| directory.join(OF_USER));
    [PathBuf::from(OF_MACHINE)]
        .into_iter()
        .chain(of_user)
        .collect()
}

/// What these files set. A file that isn't there sets nothing.
pub fn read() -> Result<Defaults> {
    let mut defaults = Defaults::default();
    for path in paths() {
        if let Some(text) = text_of(&path)? {
            defaults.add(&path, &text)?;
        }
    }
    Ok(defaults)
}

fn is_none_of_ours(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
    )
}

fn text_of(path: &Path) -> Result<Option<String>> {
    let cannot = || format!("cannot read {}", escaped_path(path));
    let bytes = match read_whole(path, "configuration", BYTES_MAX) {
        // Of somebody else's home nothing is known, as under `sudo -u`.
        Err(error) if is_none_of_ours(error.kind()) => return Ok(None),
        bytes => bytes.with_context(cannot)?,
    };
    let metadata = path.metadata().with_context(cannot)?;
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&metadata.uid()) || metadata.mode() & 0o022 != 0 {
        bail!(
            "{} isn't used: others may change it; make it yours, and chmod go-w it",
            escaped_path(path)
        );
    }
    let text = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("it is no text"));
    text.with_context(cannot).map(Some)
}
