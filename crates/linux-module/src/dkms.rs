// SPDX-License-Identifier: MIT OR Apache-2.0
//! DKMS, which builds modules anew for each kernel that is installed.

use std::ffi::OsString;
use std::path::Path;

use crate::{Kernel, ModuleError, NAME, Sources, VERSION, tools};

/// Whether this system has it.
#[must_use]
pub fn is_there() -> bool {
    tools::has("dkms")
}

/// Whether it knows a version of the module.
///
/// # Errors
///
/// It can't be asked.
pub fn knows(version: &str) -> Result<bool, ModuleError> {
    let said = tools::run("dkms", &["status", "-m", NAME, "-v", version])?;
    Ok(said.lines().any(|line| line.starts_with(NAME)))
}

/// The kernels that it has built a version of the module for.
///
/// # Errors
///
/// It can't be asked.
pub fn kernels(version: &str) -> Result<Vec<String>, ModuleError> {
    let said = tools::run("dkms", &["status", "-m", NAME, "-v", version])?;
    Ok(said.lines().filter_map(release).collect())
}

/// The kernel in a line such as `foreread/0.1.0, 6.1.0-56-amd64, x86_64: installed`. A version that
/// was built for none is in a line without one.
fn release(line: &str) -> Option<String> {
    let mut parts = line.split(", ");
    let (_, release, _) = (parts.next()?, parts.next()?, parts.next()?);
    Some(release.to_owned())
}

/// Has it know the sources, and build and install the module for a tested kernel.
///
/// # Errors
///
/// A step of it fails. [`remove`] undoes the others.
pub fn install(sources: &Sources, kernel: &Kernel) -> Result<(), ModuleError> {
    let above = sources
        .directory()
        .parent()
        .unwrap_or_else(|| Path::new("/"));
    if !knows(VERSION)? {
        let mut words: Vec<OsString> = of(VERSION, "add");
        words.extend(["--sourcetree".into(), above.as_os_str().to_owned()]);
        tools::run("dkms", &words)?;
    }
    // `install` builds what isn't built.
    let mut words = of(VERSION, "install");
    words.extend(["-k".into(), kernel.release().into()]);
    tools::run("dkms", &words).map(drop)
}

/// Has it forget a version of the module, and remove what it has built of it.
///
/// # Errors
///
/// It fails.
pub fn remove(version: &str) -> Result<(), ModuleError> {
    let mut words = of(version, "remove");
    words.push("--all".into());
    tools::run("dkms", &words).map(drop)
}

fn of(version: &str, verb: &str) -> Vec<OsString> {
    [verb, "-m", NAME, "-v", version]
        .map(OsString::from)
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_from_what_it_prints() {
        let line = "foreread/0.1.0, 6.1.0-56-amd64, x86_64: installed";
        assert_eq!(release(line).as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(release("foreread/0.1.0: added"), None);
    }
}
