// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where state is kept that belongs to a machine, and not to a user.

use std::env;
use std::path::{Path, PathBuf};

/// The directory of a part, such as `boot`: below `$FOREREAD_STATE_DIR` for this system, where that
/// is set, else below `/var/lib/foreread` of the system with this root.
pub fn directory(root: &Path, part: &str) -> PathBuf {
    let set = env::var_os("FOREREAD_STATE_DIR").filter(|value| !value.is_empty());
    let store = match set.filter(|_| root == Path::new("/")) {
        Some(store) => PathBuf::from(store),
        None => root.join("var/lib/foreread"),
    };
    store.join(part)
}
