// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and unloads the module.

use crate::{Kernel, ModuleError, NAME, Refusal, tools};

/// What modprobe says of the kernel's answers. EKEYREJECTED, ENOKEY and EBADMSG are those of the
/// check of signatures.
const ANSWERS: [(&str, Refusal); 8] = [
    ("Operation not supported", Refusal::Untested),
    ("Device or resource busy", Refusal::Taken),
    ("Key was rejected", Refusal::Unsigned),
    ("Required key not available", Refusal::Unsigned),
    ("Bad message", Refusal::Unsigned),
    ("Operation not permitted", Refusal::NotAllowed),
    ("Function not implemented", Refusal::NotAllowed),
    ("Exec format error", Refusal::OtherKernel),
];

/// Loads the module that is installed for the running kernel. With `is_forced` also on a kernel
/// that it was not tested on.
///
/// # Errors
///
/// A [`Refusal`] where the reason is known.
pub fn load(kernel: &Kernel, is_forced: bool) -> Result<(), ModuleError> {
    let root = kernel.root().as_os_str().to_owned();
    let mut words = vec!["-d".into(), root, NAME.into()];
    if is_forced {
        words.push("force=1".into());
    }
    tools::run("modprobe", &words)
        .map(drop)
        .map_err(|error| refused(error, &ANSWERS))
}

/// Unloads it. The kernel reads ahead of all devices again.
///
/// # Errors
///
/// A [`Refusal`] where the reason is known.
pub fn unload(kernel: &Kernel) -> Result<(), ModuleError> {
    let root = kernel.root().as_os_str().to_owned();
    let words = ["-d".into(), root, "-r".into(), NAME.into()];
    let in_use = [
        ("is in use", Refusal::InUse),
        ("Operation not permitted", Refusal::NotAllowed),
    ];
    tools::run("modprobe", &words)
        .map(drop)
        .map_err(|error| refused(error, &in_use))
}

fn refused(error: ModuleError, answers: &[(&str, Refusal)]) -> ModuleError {
    let ModuleError::Tool { said, .. } = &error else {
        return error;
    };
    let known = answers.iter().find(|(answer, _)| said.contains(answer));
    known.map_or(error, |(_, refusal)| (*refusal).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_kernel_become_reasons() {
        let said = |text: &str| ModuleError::Tool {
            command: "modprobe foreread".into(),
            said: format!("modprobe: ERROR: could not insert 'foreread': {text}"),
        };
        for (text, refusal) in [
            ("Operation not supported", Refusal::Untested),
            ("Device or resource busy", Refusal::Taken),
            ("Key was rejected by service", Refusal::Unsigned),
            ("Exec format error", Refusal::OtherKernel),
        ] {
            assert!(matches!(
                refused(said(text), &ANSWERS),
                ModuleError::Refused(found) if found == refusal
            ));
        }
        let other = refused(said("Cannot allocate memory"), &ANSWERS);
        assert!(other.to_string().contains("Cannot allocate memory"));
    }
}
