// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of the module. They are installed as `src/foreread-VERSION` beside the `bin` of the
//! program, with the policies in `core/`. In the source tree they are `module/`, beside `core/`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{ModuleError, NAME, VERSION};

/// A directory with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    directory: PathBuf,
}

impl Sources {
    /// Those of this program: in `named` if that is given, else where an installation puts them.
    ///
    /// # Errors
    ///
    /// There are none, or they are of another version.
    pub fn find(root: &Path, named: Option<&Path>) -> Result<Self, ModuleError> {
        let places = match named {
            Some(directory) => vec![directory.to_owned()],
            None => places(root),
        };
        let found = places.iter().find(|place| place.join("Kbuild").is_file());
        let Some(directory) = found else {
            let names: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            return Err(ModuleError::NoSources(names.join(" or ")));
        };
        let directory = directory
            .canonicalize()
            .map_err(ModuleError::file("read", directory))?;
        let sources = Self { directory };
        sources.check_version()?;
        Ok(sources)
    }

    /// Where they are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether DKMS can build in a copy of this directory alone.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let name = format!("{NAME}-{VERSION}");
        self.directory.join("core").is_dir() && self.directory.ends_with(name)
    }

    fn check_version(&self) -> Result<(), ModuleError> {
        let path = self.directory.join("dkms.conf");
        let text = fs::read_to_string(&path).map_err(ModuleError::file("read", &path))?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("PACKAGE_VERSION="));
        let found = value.unwrap_or_default().trim().trim_matches('"');
        if found == VERSION {
            return Ok(());
        }
        Err(ModuleError::Version {
            path: self.directory.clone(),
            found: found.to_owned(),
        })
    }

    /// Copies what a build needs into an empty directory.
    pub(crate) fn copy_to(&self, to: &Path) -> Result<(), ModuleError> {
        copy_files(&self.directory, to)?;
        let own = self.directory.join("core");
        let core = match own.is_dir() {
            true => own,
            // In the source tree they lie beside each other.
            false => self.directory.join("../core"),
        };
        copy_files(&core.join("foreread"), &to.join("core/foreread"))
    }
}

/// Where an installation puts them: beside the program, and where DKMS looks.
fn places(root: &Path) -> Vec<PathBuf> {
    let name = format!("{NAME}-{VERSION}");
    let mut places = vec![root.join("usr/src").join(&name)];
    let program = env::current_exe().ok();
    let prefix = program.as_deref().and_then(|path| path.parent()?.parent());
    if let Some(prefix) = prefix.filter(|prefix| root == Path::new("/") && prefix.is_absolute()) {
        let place = prefix.join("src").join(name);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// The files of a directory, and none of its directories.
fn copy_files(from: &Path, to: &Path) -> Result<(), ModuleError> {
    fs::create_dir_all(to).map_err(ModuleError::file("make", to))?;
    let entries = fs::read_dir(from).map_err(ModuleError::file("read", from))?;
    for entry in entries {
        let path = entry.map_err(ModuleError::file("read", from))?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, to.join(name)).map_err(ModuleError::file("copy", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_found_beside_the_program_and_are_of_its_version() {
        let root = tempfile::tempdir().expect("a directory");
        assert!(matches!(
            Sources::find(root.path(), None),
            Err(ModuleError::NoSources(_))
        ));
        let directory = root.path().join(format!("usr/src/foreread-{VERSION}"));
        fs::create_dir_all(directory.join("core/foreread")).expect("a directory");
        fs::write(directory.join("Kbuild"), "").expect("a file");
        fs::write(directory.join("core/foreread/policy.h"), "").expect("a file");
        fs::write(directory.join("dkms.conf"), "PACKAGE_VERSION=\"0.0.0\"\n").expect("a file");
        assert!(matches!(
            Sources::find(root.path(), None),
            Err(ModuleError::Version { found, .. }) if found == "0.0.0"
        ));
        let conf = format!("# of DKMS\nPACKAGE_VERSION=\"{VERSION}\"\n");
        fs::write(directory.join("dkms.conf"), conf).expect("a file");
        let sources = Sources::find(root.path(), None).expect("they are there");
        assert!(sources.is_whole());
        let to = root.path().join("build");
        sources.copy_to(&to).expect("a copy");
        assert!(to.join("Kbuild").is_file() && to.join("core/foreread/policy.h").is_file());
    }

    #[test]
    fn those_of_the_source_tree_are_of_this_version_and_take_the_core_along() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../module");
        let sources = Sources::find(Path::new("/"), Some(&tree)).expect("they are there");
        assert!(!sources.is_whole());
        let to = tempfile::tempdir().expect("a directory");
        sources.copy_to(to.path()).expect("a copy");
        assert!(to.path().join("main.c").is_file());
        assert!(to.path().join("core/foreread/policy.h").is_file());
    }
}
