// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passes of this machine: each is stored before its first move, until it is undone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_layout::Pass;
use foreread_sys::save::{self, Lock};

use crate::machine_state;

/// Suffix of their files; the name is the number of the pass.
const SUFFIX: &str = ".json";

/// A stored pass.
pub struct Stored {
    pub number: u64,
    pub path: PathBuf,
    pub pass: Pass,
}

/// The right to move files: one process has it at a time.
pub struct Passes {
    directory: PathBuf,
    _lock: Lock,
}

/// A pass belongs to the machine.
fn directory() -> PathBuf {
    machine_state::directory(Path::new("/"), "layout")
}

/// All passes, the oldest first.
pub fn all() -> Result<Vec<Stored>> {
    let directory = directory();
    let cannot = || format!("cannot list {}", directory.display());
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(cannot)?,
    };
    let mut passes = Vec::new();
    for entry in entries {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
        let Some(number) = number else { continue };
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let pass = Pass::from_json(&text).with_context(|| {
            format!(
                "{} can't be used; to give up undoing that pass, remove it",
                path.display()
            )
        })?;
        passes.push(Stored { number, path, pass });
    }
    passes.sort_by_key(|stored| stored.number);
    Ok(passes)
}

impl Passes {
    /// Takes the right to move files.
    pub fn take() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("only root can move files; try sudo");
        }
        let directory = directory();
        let cannot = || format!("cannot write to {}", directory.display());
        if let Some(store) = directory.parent() {
            if let Some(parent) = store.parent() {
                save::create_directory_for_all(parent).with_context(cannot)?;
            }
            save::create_directory(store).with_context(cannot)?;
        }
        save::create_directory(&directory).with_context(cannot)?;
        let lock = save::try_lock(&directory.join(".lock")).with_context(cannot)?;
        let Some(lock) = lock else {
            bail!("another foreread is moving files");
        };
        save::remove_leftovers(&directory);
        Ok(Self {
            directory,
            _lock: lock,
        })
    }

    /// Stores a new pass: on the disk when this returns.
    pub fn store(&self, pass: Pass) -> Result<Stored> {
        let last = all()?.last().map_or(0, |stored| stored.number);
        let number = last + 1;
        let stored = Stored {
            number,
            path: self.directory.join(format!("{number:06}{SUFFIX}")),
            pass,
        };
        self.replace(&stored)?;
        Ok(stored)
    }

    /// Stores what has changed in a pass.
    pub fn replace(&self, stored: &Stored) -> Result<()> {
        let text = stored.pass.to_json()?;
        save::replace(&stored.path, text.as_bytes())
            .with_context(|| format!("cannot keep {}", stored.path.display()))
    }

    /// Forgets a pass that is undone.
    pub fn remove(&self, stored: &Stored) -> Result<()> {
        fs::remove_file(&stored.path)
            .with_context(|| format!("cannot remove {}", stored.path.display()))
    }
}
