// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `boot enable` has made on a system, item by item: written down before it is made, so that
//! it can be removed to the last file.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_sys::root_directory::RootDirectory;
use foreread_sys::save;
use serde::{Deserialize, Serialize};

use crate::text::escaped_path;

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.boot.installed/1";
/// Its name in the state directory.
const FILE: &str = "installed.json";

/// Something that is made. Paths are below the root of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Item {
    /// A directory, for what is in it.
    Directory {
        /// Path below the root directory.
        path: PathBuf,
        /// Permission bits, as a decimal number.
        mode: u32,
    },
    /// A file that everybody may read.
    File {
        /// Path below the root directory.
        path: PathBuf,
        /// What is in it.
        content: String,
        /// By everybody, as a script.
        #[serde(default)]
        is_executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Path below the root directory.
        path: PathBuf,
        /// What it leads to.
        target: PathBuf,
    },
}

/// How an item is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It isn't there.
    Absent,
    /// It is as it was made.
    Ours,
    /// Something else is there.
    Foreign,
}

impl Item {
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory { path, .. } | Self::File { path, .. } | Self::Link { path, .. } => {
                path
            }
        }
    }

    pub fn standing(&self, root: &RootDirectory) -> io::Result<Standing> {
        let path = root.entry(self.path())?;
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Absent),
            other => other?,
        };
        let is_ours = match self {
            Self::Directory { .. } => metadata.is_dir(),
            Self::File { content, .. } => {
                metadata.is_file()
                    && metadata.len() == content.len() as u64
                    && fs::read(&path)? == content.as_bytes()
            }
            Self::Link { target, .. } => metadata.is_symlink() && fs::read_link(&path)? == *target,
        };
        Ok(if is_ours {
            Standing::Ours
        } else {
            Standing::Foreign
        })
    }

    fn make(&self, root: &RootDirectory) -> io::Result<()> {
        let path = root.entry(self.path())?;
        match self {
            Self::Directory { mode, .. } => DirBuilder::new().mode(*mode).create(path),
            Self::File {
                content,
                is_executable,
                ..
            } => {
                save::replace_for_all(&path, content.as_bytes())?;
                match is_executable {
                    true => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)),
                    false => Ok(()),
                }
            }
            Self::Link { target, .. } => symlink(target, path),
        }
    }

    /// A directory goes only when it is empty.
    fn remove(&self, root: &RootDirectory) -> io::Result<()> {
        let path = root.entry(self.path())?;
        let removed = match self {
            Self::Directory { .. } => fs::remove_dir(path),
            Self::File { .. } | Self::Link { .. } => fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other,
        }
    }
}

/// All items, in the order in which they are made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Installed {
    schema: String,
    /// In the order in which they were made.
    pub items: Vec<Item>,
}

impl Installed {
    /// The items, with the directories that they lack.
    pub fn plan(root: &RootDirectory, state: &Path, items: Vec<Item>) -> Self {
        let mut made = BTreeSet::new();
        let mut all = Vec::new();
        let parents = items.iter().filter_map(|item| item.path().parent());
        for directory in std::iter::once(state).chain(parents) {
            let mut above: Vec<&Path> = directory.ancestors().collect();
            above.reverse();
            for path in above {
                let is_made = root.metadata(path).is_ok_and(|found| found.is_dir());
                if !is_made && made.insert(path.to_owned()) {
                    // What is kept names files that not everybody may see.
                    let is_private = path == state || state.parent() == Some(path);
                    all.push(Item::Directory {
                        path: path.to_owned(),
                        mode: if is_private { 0o700 } else { 0o755 },
                    });
                }
            }
        }
        all.extend(items);
        Self {
            schema: SCHEMA.to_owned(),
            items: all,
        }
    }

    /// The same with items that it lacks, and their directories. What is in it stays.
    pub fn with(mut self, root: &RootDirectory, items: Vec<Item>) -> Self {
        let lacks = |item: &Item| self.items.iter().all(|had| had.path() != item.path());
        let new: Vec<Item> = items.into_iter().filter(lacks).collect();
        if !new.is_empty() {
            // Its state directory is in the list.
            let plan = Self::plan(root, Path::new(""), new);
            let had: BTreeSet<PathBuf> = self.items.iter().map(|i| i.path().to_owned()).collect();
            let new = plan.items.into_iter();
            self.items
                .extend(new.filter(|item| !had.contains(item.path())));
        }
        self
    }

    /// What was made on a system; `None` if nothing was.
    pub fn read(root: &RootDirectory, state: &Path) -> Result<Option<Self>> {
        let path = list_path(root, state)?;
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("cannot read {}", escaped_path(&path)))?,
        };
        let installed: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no list of what was made", escaped_path(&path)))?;
        if installed.schema != SCHEMA {
            bail!(
                "{} is of schema {}, and {SCHEMA} is read",
                escaped_path(&path),
                installed.schema
            );
        }
        let is_below = |item: &Item| {
            let mut parts = item.path().components();
            parts.all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        if !installed.items.iter().all(is_below) {
            bail!("{} names paths that lead elsewhere", escaped_path(&path));
        }
        Ok(Some(installed))
    }

    /// Makes what isn't there. Everything is written down before.
    pub fn make(&self, root: &RootDirectory, state: &Path) -> Result<()> {
        let failed = |item: &Item| format!("cannot make {}", shown(root, item.path()));
        for item in &self.items {
            let standing = item.standing(root).with_context(|| failed(item))?;
            if standing == Standing::Foreign {
                bail!(
                    "{} is there already and not ours; nothing was changed",
                    shown(root, item.path())
                );
            }
        }
        // The directory that the list itself is in comes first.
        let (before, rest) = self.items.split_at(self.before_list(state));
        for item in before {
            make_absent(item, root).with_context(|| failed(item))?;
        }
        let list = list_path(root, state)?;
        let json = serde_json::to_string_pretty(self)?;
        save::replace(&list, json.as_bytes())
            .with_context(|| format!("cannot write {}", escaped_path(&list)))?;
        for item in rest {
            make_absent(item, root).with_context(|| failed(item))?;
        }
        Ok(())
    }

    /// How many items make the state directory.
    fn before_list(&self, state: &Path) -> usize {
        let leads_there =
            |item: &&Item| matches!(item, Item::Directory { .. }) && state.starts_with(item.path());
        self.items.iter().take_while(leads_there).count()
    }

    /// Removes what is as it was made, the last first, with what is kept in the state directory.
    /// Returns the items that somebody has changed, which stay.
    pub fn remove(&self, root: &RootDirectory, state: &Path, kept: &[&str]) -> Result<Vec<&Item>> {
        let failed = |path: &Path| format!("cannot remove {}", shown(root, path));
        let directory = directory_of(root, state)?;
        let (before, rest) = self.items.split_at(self.before_list(state));
        let mut foreign = Vec::new();
        for item in rest.iter().rev() {
            match item.standing(root).with_context(|| failed(item.path()))? {
                Standing::Foreign => foreign.push(item),
                Standing::Ours => item.remove(root).with_context(|| failed(item.path()))?,
                Standing::Absent => {}
            }
        }
        for name in kept.iter().chain([&FILE]) {
            match fs::remove_file(directory.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| failed(&state.join(name)));
                }
                _ => {}
            }
        }
        for item in before.iter().rev() {
            item.remove(root).with_context(|| failed(item.path()))?;
        }
        Ok(foreign)
    }
}

fn make_absent(item: &Item, root: &RootDirectory) -> io::Result<()> {
    match item.standing(root)? {
        Standing::Absent => item.make(root),
        Standing::Ours | Standing::Foreign => Ok(()),
    }
}

/// Where the state directory of a system is, or would be made.
pub fn directory_of(root: &RootDirectory, state: &Path) -> Result<PathBuf> {
    let directory = root.directory(state);
    directory.with_context(|| format!("cannot find {}", shown(root, state)))
}

fn list_path(root: &RootDirectory, state: &Path) -> Result<PathBuf> {
    Ok(directory_of(root, state)?.join(FILE))
}

/// A path of a system, as it is shown: after that of its root directory.
pub fn shown(root: &RootDirectory, path: &Path) -> String {
    escaped_path(&root.path().join(path))
}
