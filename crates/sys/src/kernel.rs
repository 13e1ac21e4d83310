// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel: its release, its lockdown, and whether it describes its types.

use std::{fs, io};

/// The kernel's release, such as `6.12.48+deb13-amd64`.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// The first two numbers of a kernel release.
#[must_use]
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where the kernel describes its types, for programs that fit themselves to it.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Size of the kernel's BTF in bytes.
///
/// # Errors
/// When there is none, as without `CONFIG_DEBUG_INFO_BTF`, or `/sys` isn't there.
pub fn btf_bytes() -> io::Result<u64> {
    Ok(fs::metadata(BTF)?.len())
}

/// The kernel's lockdown mode (`none`, `integrity`, `confidentiality`); `None` where it has none or
/// doesn't say.
#[must_use]
pub fn lockdown() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    chosen(&text).map(str::to_owned)
}

/// The word in brackets: `integrity` in `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_two_numbers() {
        assert_eq!(kernel_version("6.12.48+deb13-amd64"), Some((6, 12)));
        assert_eq!(kernel_version("7.0-rc1"), Some((7, 0)));
        assert_eq!(kernel_version("custom"), None);
        assert!(kernel_version(&kernel_release()).is_some());
    }

    #[test]
    fn lockdown_is_what_is_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n"),
            Some("integrity")
        );
        assert_eq!(chosen("nothing"), None);
    }
}
