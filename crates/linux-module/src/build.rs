// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the module with make, and installs it among the modules of a kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foreread_sys::save;

use crate::{Kernel, ModuleError, NAME, Sources, tools};

/// Where depmod expects what was not built with the kernel. Nothing else of this name is there.
const UPDATES: &str = "updates";

/// A module that was built and installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The kernel that it is for.
    pub release: String,
    /// Where it is.
    pub path: PathBuf,
    /// Checksum (CRC-32, IEEE) of the file.
    pub crc32: u32,
}

/// The path at which [`install`] puts the module for a kernel.
#[must_use]
pub fn path(kernel: &Kernel) -> PathBuf {
    kernel.modules().join(UPDATES).join(format!("{NAME}.ko"))
}

/// Compiles the module for a kernel, in a new directory below `work` that is removed at the end.
/// Returns the content of the file. For a kernel that it was not tested on it is one that refuses
/// to be loaded, unless `is_forced`.
///
/// # Errors
///
/// make fails; or the directory can't be made.
pub fn compile(
    sources: &Sources,
    kernel: &Kernel,
    work: &Path,
    is_forced: bool,
) -> Result<Vec<u8>, ModuleError> {
    let directory = tempfile::Builder::new()
        .prefix("build-")
        .tempdir_in(work)
        .map_err(ModuleError::file("make a directory in", work))?;
    sources.copy_to(directory.path())?;
    let mut words = vec![
        "-C".into(),
        directory.path().as_os_str().to_owned(),
        tools::assignment("KDIR", &kernel.headers()),
        "modules".into(),
    ];
    if is_forced {
        words.push("FOREREAD_FORCE=1".into());
    }
    tools::run("make", &words)?;
    let module = directory.path().join(format!("{NAME}.ko"));
    fs::read(&module).map_err(ModuleError::file("read", &module))
}

/// The file that [`install`] would make of this module.
#[must_use]
pub fn built(kernel: &Kernel, module: &[u8]) -> Built {
    Built {
        release: kernel.release().to_owned(),
        path: path(kernel),
        crc32: crc32fast::hash(module),
    }
}

/// Puts a compiled module among the modules of its kernel, and has depmod index them.
///
/// # Errors
///
/// The file can't be written, or depmod fails.
pub fn install(kernel: &Kernel, module: &[u8]) -> Result<(), ModuleError> {
    let path = path(kernel);
    if let Some(directory) = path.parent() {
        save::create_directory_for_all(directory).map_err(ModuleError::file("make", directory))?;
    }
    save::replace_for_all(&path, module).map_err(ModuleError::file("write", &path))?;
    index(kernel)
}

/// Whether the file is as it was built; `None` if there is none.
#[must_use]
pub fn is_as_built(built: &Built) -> Option<bool> {
    match fs::read(&built.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.is_ok_and(|content| crc32fast::hash(&content) == built.crc32)),
    }
}

/// Removes a module that [is as it was built](is_as_built), with the directory if that is empty.
///
/// # Errors
///
/// The file can't be removed, or depmod fails.
pub fn remove(kernel: &Kernel, built: &Built) -> Result<(), ModuleError> {
    match fs::remove_file(&built.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other.map_err(ModuleError::file("remove", &built.path))?,
    }
    // Others have modules in it, or nobody has.
    if let Some(directory) = built.path.parent() {
        let _ = fs::remove_dir(directory);
    }
    match kernel.is_installed() {
        true => index(kernel),
        false => Ok(()),
    }
}

fn index(kernel: &Kernel) -> Result<(), ModuleError> {
    let root = kernel.root().as_os_str().to_owned();
    let words = ["-b".into(), root, kernel.release().into()];
    tools::run("depmod", &words).map(drop)
}
