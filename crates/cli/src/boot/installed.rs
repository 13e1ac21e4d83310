// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `boot enable` has made on a system, item by item: written down before it is made, so that
//! it can be removed to the last file.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_linux_boot::{
    HISTORY, PACKAGES_CHANGED, PROFILE, PROFILE_SET_ASIDE, TIMED_ONLY, TRACE_NEXT,
};
use foreread_sys::root_directory::RootDirectory;
use foreread_sys::save;
use serde::{Deserialize, Serialize};

use crate::text::{escaped, escaped_path};

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.boot.installed/1";
/// Its name in the state directory.
const FILE: &str = "installed.json";
/// Files that boots and other verbs make in the state directory.
const KEPT: [&str; 6] = [
    HISTORY,
    PROFILE,
    PROFILE_SET_ASIDE,
    PACKAGES_CHANGED,
    TIMED_ONLY,
    TRACE_NEXT,
];
/// Its directory of traces.
const TRACES: &str = "traces";

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
    /// It is as an earlier version made it.
    Outdated,
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

    /// How it is found: absent, ours or foreign.
    fn standing(&self, root: &RootDirectory) -> io::Result<Standing> {
        let found = root.entry(self.path()).and_then(|path| {
            let metadata = fs::symlink_metadata(&path)?;
            Ok((path, metadata))
        });
        let (path, metadata) = match found {
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

    /// Removes it as it was made. A directory goes only when it is empty: else the reason is
    /// returned for which it stays.
    fn remove(&self, root: &RootDirectory) -> io::Result<Option<String>> {
        let path = root.entry(self.path())?;
        match self {
            Self::Directory { .. } => remove_directory(&path),
            Self::File { .. } | Self::Link { .. } => gone(fs::remove_file(&path)).map(|()| None),
        }
    }

    /// Removes what processes left that were killed while they made this file.
    fn remove_temporaries(&self, root: &RootDirectory) -> io::Result<()> {
        let (Self::File { path, .. }, Some(name)) = (self, self.path().file_name()) else {
            return Ok(());
        };
        let directory = root.directory(path.parent().unwrap_or(path))?;
        remove_files(&directory, &|_| false, &|saved| saved == name.as_bytes())
    }
}

/// All items, in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Installed {
    schema: String,
    /// In the order in which they were made.
    pub items: Vec<Item>,
    /// What is being replaced, as it was made. Killed meanwhile, we know either as ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<Item>,
    /// Whether hooks were changed since an initramfs was built with them.
    #[serde(default)]
    pub build_due: bool,
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
            replaced: Vec::new(),
            build_due: false,
        }
    }

    /// The same with these items, and the directories that they lack. They replace those of the
    /// same path. What else is in it stays.
    pub fn with(mut self, root: &RootDirectory, items: Vec<Item>) -> Self {
        let mut new = Vec::new();
        for item in items {
            match self.items.iter_mut().find(|had| had.path() == item.path()) {
                None => new.push(item),
                Some(had) if *had == item => {}
                Some(had) => self.replaced.push(mem::replace(had, item)),
            }
        }
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

    /// Whether it has an item of this path.
    pub fn has(&self, path: &Path) -> bool {
        self.items.iter().any(|item| item.path() == path)
    }

    /// How one of its items is found.
    pub fn standing(&self, item: &Item, root: &RootDirectory) -> Result<Standing> {
        let mut earlier = self.replaced.iter().filter(|old| old.path() == item.path());
        let standing = match item.standing(root) {
            Ok(Standing::Foreign) => earlier.try_fold(Standing::Foreign, |standing, old| match old
                .standing(
                root,
            )? {
                Standing::Ours => Ok(Standing::Outdated),
                _ => Ok(standing),
            }),
            other => other,
        };
        standing.with_context(|| cannot("look at", item, root))
    }

    /// Makes what isn't there, and replaces what an earlier version made. Everything is written
    /// down before, and whether an initramfs has to be built then. What somebody else has made or
    /// changed stays.
    pub fn make(&self, root: &RootDirectory, state: &Path, build_due: bool) -> Result<()> {
        // The directory that the list itself is in comes first.
        let (before, rest) = self.items.split_at(self.before_list(state));
        for item in before {
            self.make_item(item, root)?;
        }
        let noted = Self {
            build_due,
            ..self.clone()
        };
        noted.write(root, state)?;
        for item in rest {
            self.make_item(item, root)?;
        }
        match noted.replaced.is_empty() {
            true => Ok(()),
            false => noted.without_replaced().write(root, state),
        }
    }

    /// Notes that an initramfs was built with the hooks as they are.
    pub fn built(&self, root: &RootDirectory, state: &Path) -> Result<()> {
        let built = Self {
            build_due: false,
            ..self.without_replaced()
        };
        built.write(root, state)
    }

    fn without_replaced(&self) -> Self {
        Self {
            replaced: Vec::new(),
            ..self.clone()
        }
    }

    fn make_item(&self, item: &Item, root: &RootDirectory) -> Result<()> {
        let made = match self.standing(item, root)? {
            Standing::Ours | Standing::Foreign => Ok(()),
            Standing::Absent => item.make(root),
            // A new file is renamed over the old one.
            Standing::Outdated if matches!(item, Item::File { .. }) => item.make(root),
            Standing::Outdated => item.remove(root).and_then(|_| item.make(root)),
        };
        made.with_context(|| cannot("make", item, root))
    }

    fn write(&self, root: &RootDirectory, state: &Path) -> Result<()> {
        let list = list_path(root, state)?;
        let json = serde_json::to_string_pretty(self)?;
        save::replace(&list, json.as_bytes())
            .with_context(|| format!("cannot write {}", escaped_path(&list)))
    }

    /// How many items make the state directory.
    fn before_list(&self, state: &Path) -> usize {
        let leads_there =
            |item: &&Item| matches!(item, Item::Directory { .. }) && state.starts_with(item.path());
        self.items.iter().take_while(leads_there).count()
    }

    /// Removes what is as it was made, the last first, with what boots have left in the state
    /// directory. What else is found stays.
    pub fn remove(&self, root: &RootDirectory, state: &Path) -> Result<Removal<'_>> {
        let directory = directory_of(root, state)?;
        let (before, rest) = self.items.split_at(self.before_list(state));
        let mut removal = Removal::default();
        for item in rest.iter().rev() {
            removal.remove(item, self.standing(item, root)?, root, state)?;
        }
        let emptied = remove_kept(&directory)
            .and_then(|reason| gone(fs::remove_file(directory.join(FILE))).map(|()| reason));
        if let Some(reason) =
            emptied.with_context(|| format!("cannot empty {}", shown(root, state)))?
        {
            let path = state.join(TRACES);
            removal.stays.push(Stays { path, reason });
        }
        for item in before.iter().rev() {
            removal.remove(item, self.standing(item, root)?, root, state)?;
        }
        removal.removed.reverse();
        Ok(removal)
    }

    /// What [`Installed::remove`] would do. It is not foreseen which directories will be empty.
    pub fn preview(&self, root: &RootDirectory) -> Result<Removal<'_>> {
        let mut removal = Removal::default();
        for item in &self.items {
            match self.standing(item, root)? {
                Standing::Absent => {}
                Standing::Ours | Standing::Outdated => removal.removed.push(item),
                Standing::Foreign => removal.stays.push(Stays::changed(item)),
            }
        }
        Ok(removal)
    }
}

/// What was removed, and what stays.
#[derive(Default)]
pub struct Removal<'a> {
    /// In the order in which it was made.
    pub removed: Vec<&'a Item>,
    /// The last first.
    pub stays: Vec<Stays>,
}

/// Something that was left alone.
pub struct Stays {
    /// Path below the root directory.
    pub path: PathBuf,
    /// Why, as the end of a sentence.
    pub reason: String,
}

impl Stays {
    /// An item that isn't as it was made.
    pub fn changed(item: &Item) -> Self {
        Self {
            path: item.path().to_owned(),
            reason: "was changed by somebody else".to_owned(),
        }
    }
}

impl<'a> Removal<'a> {
    fn remove(
        &mut self,
        item: &'a Item,
        standing: Standing,
        root: &RootDirectory,
        state: &Path,
    ) -> Result<()> {
        match standing {
            Standing::Absent => {}
            Standing::Foreign => self.stays.push(Stays::changed(item)),
            Standing::Ours | Standing::Outdated => {
                let removed = item.remove(root);
                match removed.with_context(|| cannot("remove", item, root))? {
                    None => self.removed.push(item),
                    Some(reason) => self.keep(item.path(), reason, state),
                }
            }
        }
        let cleaned = gone(item.remove_temporaries(root));
        cleaned.with_context(|| cannot("clean up after", item, root))
    }

    /// Notes a directory that isn't empty, unless that is known or as it should be.
    fn keep(&mut self, path: &Path, reason: String, state: &Path) {
        let holds_another = self.stays.iter().any(|below| below.path.starts_with(path));
        // Other verbs keep their profiles beside the state directory.
        let is_shared = state.parent().is_some_and(|store| store.starts_with(path));
        if !holds_another && !is_shared {
            let path = path.to_owned();
            self.stays.push(Stays { path, reason });
        }
    }
}

fn cannot(what: &str, item: &Item, root: &RootDirectory) -> String {
    format!("cannot {what} {}", shown(root, item.path()))
}

/// Removes what boots and other verbs have made in the state directory. Links and files of other
/// names stay. Returns why the directory of traces stays.
fn remove_kept(directory: &Path) -> io::Result<Option<String>> {
    let is_kept = |name: &[u8]| KEPT.iter().any(|kept| kept.as_bytes() == name);
    let is_saved = |name: &[u8]| is_kept(name) || name == FILE.as_bytes();
    remove_files(directory, &is_kept, &is_saved)?;
    let traces = directory.join(TRACES);
    if !is_directory(&traces) {
        return Ok(None);
    }
    remove_files(&traces, &is_trace, &is_trace)?;
    remove_directory(&traces)
}

/// What isn't there needs no removal.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether it is a directory, and no link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Removes an empty directory. Returns why another one stays.
fn remove_directory(path: &Path) -> io::Result<Option<String>> {
    match gone(fs::remove_dir(path)) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            let entry = fs::read_dir(path)?.next().transpose()?;
            let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
            let name = escaped(name.as_bytes());
            Ok(Some(format!("holds {name} of somebody else")))
        }
        other => other.map(|()| None),
    }
}

/// Whether a trace of a boot may be called so.
fn is_trace(name: &[u8]) -> bool {
    let boot = name.strip_suffix(b".json");
    boot.is_some_and(|boot| {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        boot.iter().all(is_plain)
    })
}

/// Removes regular files of a directory that isn't a link: those of these names, and the temporary
/// files of those that were to be saved under these names. Nobody saves one meanwhile.
fn remove_files(
    directory: &Path,
    is_ours: &dyn Fn(&[u8]) -> bool,
    is_saved: &dyn Fn(&[u8]) -> bool,
) -> io::Result<()> {
    if !is_directory(directory) {
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_bytes();
        let is_temporary = save::saved_by(name).is_some_and(|(saved, _)| is_saved(saved));
        if (is_ours(name) || is_temporary) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_boot::trace::BootTrace;
    use foreread_boot::{History, Mode};
    use foreread_linux_boot::StateDirectory;
    use foreread_profile::{ProfileBuilder, Program, Source};

    /// Fails when the state directory gets a file that isn't removed.
    #[test]
    fn all_that_is_kept_from_boot_to_boot_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("boot");
        let state = StateDirectory::new(&path);
        let profile = ProfileBuilder::new(Program::default(), Source::default()).finish();
        state.keep_history(&History::default()).unwrap();
        state.keep_profile(&profile).unwrap();
        state.set_profile_aside().unwrap();
        state.keep_profile(&profile).unwrap();
        state.want_trace().unwrap();
        let trace = BootTrace::new("8c2c-01".into(), "6.1".into(), Mode::Plain);
        state.keep_trace(&trace).unwrap();
        state.set_timed_only(true).unwrap();
        fs::write(state.file(PACKAGES_CHANGED), "").unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 7);
        assert_eq!(remove_kept(&path).unwrap(), None);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn a_build_is_due_until_one_has_succeeded() {
        let directory = tempfile::tempdir().unwrap();
        let root = RootDirectory::open(directory.path()).unwrap();
        let state = Path::new("state");
        let hook = Item::File {
            path: PathBuf::from("hook"),
            content: "exec".to_owned(),
            is_executable: true,
        };
        let is_due = || Installed::read(&root, state).unwrap().unwrap().build_due;
        let list = Installed::plan(&root, state, vec![hook]);
        list.make(&root, state, true).unwrap();
        assert!(is_due());
        list.built(&root, state).unwrap();
        assert!(!is_due());
        // A list of an earlier version doesn't say.
        let path = directory.path().join("state").join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        let mut list: serde_json::Value = serde_json::from_str(&text).unwrap();
        list.as_object_mut().unwrap().remove("build_due").unwrap();
        fs::write(&path, list.to_string()).unwrap();
        assert!(!is_due());
    }

    /// Between the two, the program may have been killed.
    #[test]
    fn an_item_that_is_being_replaced_is_ours_before_and_after() {
        let directory = tempfile::tempdir().unwrap();
        let root = RootDirectory::open(directory.path()).unwrap();
        let state = Path::new("state");
        let unit = |content: &str| Item::File {
            path: PathBuf::from("unit"),
            content: content.to_owned(),
            is_executable: false,
        };
        let old = Installed::plan(&root, state, vec![unit("old")]);
        old.make(&root, state, false).unwrap();
        let new = old.with(&root, vec![unit("new")]);
        new.write(&root, state).unwrap();
        let read = || Installed::read(&root, state).unwrap().unwrap();
        for (content, standing) in [
            ("old", Standing::Outdated),
            ("new", Standing::Ours),
            ("mine", Standing::Foreign),
        ] {
            fs::write(directory.path().join("unit"), content).unwrap();
            let list = read().with(&root, vec![unit("new")]);
            assert_eq!(list, new);
            assert_eq!(list.standing(&unit("new"), &root).unwrap(), standing);
            list.make(&root, state, false).unwrap();
            let found = fs::read_to_string(directory.path().join("unit")).unwrap();
            assert_eq!(found == "new", content != "mine", "{content}");
            assert!(read().replaced.is_empty());
            new.write(&root, state).unwrap();
        }
        fs::write(directory.path().join("unit"), "old").unwrap();
        let list = read();
        let removal = list.remove(&root, state).unwrap();
        assert!(removal.stays.is_empty());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
