// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of installations by `kernel install`. Each is written down before it is made, so that
//! it can be undone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_linux_module::Built;
use foreread_sys::save;
use serde::{Deserialize, Serialize};

use crate::text::escaped_path;

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.kernel.installed/1";
/// Its name in the state directory.
const FILE: &str = "installed.json";

/// The builder of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Builder {
    /// DKMS, for each kernel that is installed.
    Dkms,
    /// make, for one kernel.
    Make,
}

/// An installation for one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForKernel {
    pub release: String,
    pub builder: Builder,
    /// The file that was made; none with DKMS, which knows its own.
    pub module: Option<Module>,
}

/// A module that make has built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    path: PathBuf,
    crc32: u32,
}

impl ForKernel {
    pub fn by_dkms(release: &str) -> Self {
        Self {
            release: release.to_owned(),
            builder: Builder::Dkms,
            module: None,
        }
    }

    pub fn by_make(built: Built) -> Self {
        Self {
            release: built.release,
            builder: Builder::Make,
            module: Some(Module {
                path: built.path,
                crc32: built.crc32,
            }),
        }
    }

    /// The file that was made, if there was one.
    pub fn built(&self) -> Option<Built> {
        let module = self.module.as_ref()?;
        Some(Built {
            release: self.release.clone(),
            path: module.path.clone(),
            crc32: module.crc32,
        })
    }
}

/// All installations by this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    schema: String,
    /// Version of the sources.
    pub version: String,
    /// The kernels that it was installed for by `install`. DKMS adds others by itself.
    pub kernels: Vec<ForKernel>,
    /// Whether it was removed for an upgrade, and is to be installed again.
    pub is_due: bool,
}

impl Installed {
    pub fn new(version: &str) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            version: version.to_owned(),
            kernels: Vec::new(),
            is_due: false,
        }
    }

    /// The same after its removal, to be installed again.
    pub fn due(&self) -> Self {
        Self {
            is_due: true,
            ..self.clone()
        }
    }

    /// Its builder for a kernel; `None` if it is not installed for that.
    pub fn builder(&self, release: &str) -> Option<Builder> {
        let mut kernels = self.kernels.iter();
        let of = kernels.find(|kernel| kernel.release == release)?;
        Some(of.builder)
    }

    /// Whether DKMS has it.
    pub fn uses_dkms(&self) -> bool {
        let mut kernels = self.kernels.iter();
        kernels.any(|kernel| kernel.builder == Builder::Dkms)
    }

    /// It is installed for a kernel, in place of what was there.
    pub fn set(&mut self, of: ForKernel) {
        self.kernels.retain(|known| known.release != of.release);
        self.kernels.push(of);
    }

    /// Reads the list; `None` if nothing was installed.
    pub fn read(state: &Path) -> Result<Option<Self>> {
        let path = state.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("cannot read {}", escaped_path(&path)))?,
        };
        let installed: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no list of what was installed", escaped_path(&path)))?;
        if installed.schema != SCHEMA {
            bail!(
                "{} is of schema {}, and {SCHEMA} is read",
                escaped_path(&path),
                installed.schema
            );
        }
        Ok(Some(installed))
    }

    pub fn write(&self, state: &Path) -> Result<()> {
        let path = state.join(FILE);
        let json = serde_json::to_string_pretty(self)?;
        save::replace(&path, json.as_bytes())
            .with_context(|| format!("cannot write {}", escaped_path(&path)))
    }

    /// Nothing is installed any more. The directories go if nothing else is in them.
    pub fn forget(state: &Path) -> Result<()> {
        let path = state.join(FILE);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", escaped_path(&path)))?;
        for directory in state.ancestors().take(2) {
            // The upper one has profiles, or nobody's.
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }
}

/// Makes the state directory.
pub fn create(state: &Path) -> Result<()> {
    let cannot = || format!("cannot make {}", escaped_path(state));
    if let Some(store) = state.parent() {
        if let Some(parent) = store.parent() {
            save::create_directory_for_all(parent).with_context(cannot)?;
        }
        save::create_directory(store).with_context(cannot)?;
    }
    save::create_directory(state).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_forgotten_with_its_directories() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("foreread/kernel");
        assert_eq!(Installed::read(&state).expect("nothing"), None);
        create(&state).expect("a directory");
        let mut installed = Installed::new("1.2.3");
        installed.set(ForKernel::by_dkms("6.1.0"));
        assert!(installed.uses_dkms());
        for crc32 in [1, 2] {
            installed.set(ForKernel::by_make(Built {
                release: "6.1.0".into(),
                path: "/lib/modules/6.1.0/updates/foreread.ko".into(),
                crc32,
            }));
        }
        assert_eq!(installed.kernels.len(), 1);
        assert_eq!(installed.builder("6.1.0"), Some(Builder::Make));
        assert!(!installed.uses_dkms());
        installed.write(&state).expect("it is written");
        assert_eq!(Installed::read(&state).expect("it"), Some(installed));
        Installed::forget(&state).expect("it is removed");
        assert!(!root.path().join("foreread").exists());

        create(&state).expect("a directory");
        fs::write(state.join(FILE), "{}").expect("a file");
        let error = Installed::read(&state).expect_err("it is none");
        assert!(error.to_string().contains("is no list"), "{error}");
    }
}
