// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary text as udev rules, a TuneD profile that includes itself, nfs.conf and fstab.
#![no_main]

use foreread_device::{ProfileText, fstab, nfs_conf, tuned, udev_rules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let rules = udev_rules("rules", &text);
    assert!(rules.len() <= text.lines().count());
    assert!(fstab("fstab", &text).len() <= text.lines().count());
    assert!(matches!(nfs_conf("conf", &text).len(), 0 | 2));
    let profile = |_: &str| {
        Some(ProfileText {
            place: "profile".to_owned(),
            text: text.clone().into_owned(),
        })
    };
    let settings = tuned("profile", profile);
    assert!(settings.len() <= text.lines().count());
});
