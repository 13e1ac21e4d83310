// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles of the store, for `watch`.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foreread_linux_watch::{LoadError, Profiles};
use foreread_profile::{Profile, decode};
use rustix::process::geteuid;

use crate::output;
use crate::store::{self, Store};

/// More are not known, by name.
const PROFILES_MAX: usize = 1024;
/// Others may write.
const WRITABLE: u32 = 0o022;

/// Reads them, and says once of each what is wrong with it.
#[derive(Default)]
pub struct Reader {
    said: HashSet<PathBuf>,
}

impl Reader {
    /// All that can be read of the user who watches.
    pub fn read(&mut self) -> Profiles {
        let mut profiles = Profiles::new(own_profile);
        // Without a store there are no profiles.
        let Ok(store) = Store::find() else {
            return profiles;
        };
        let directory = store.directory();
        if let Ok(metadata) = fs::metadata(directory)
            && !is_own(&metadata)
        {
            self.say(
                directory,
                "it isn't only ours to write to; chmod go-w it, or set FOREREAD_STATE_DIR",
            );
            return profiles;
        }
        let files = match store.files() {
            Ok(files) => files,
            Err(error) => {
                self.say(directory, &format!("{error:#}"));
                return profiles;
            }
        };
        if files.len() > PROFILES_MAX {
            self.say(
                directory,
                &format!("only the first {PROFILES_MAX} are used"),
            );
        }
        for path in files.into_iter().take(PROFILES_MAX) {
            match own_profile(&path) {
                Ok(profile) => profiles.add(&path, &profile),
                Err(why) => self.say(&path, &format!("it is left out: {why}")),
            }
        }
        profiles
    }

    fn say(&mut self, path: &Path, what: &str) {
        if self.said.insert(path.to_owned()) {
            output::note(&format!("profiles of {}: {what}", path.display()));
        }
    }
}

/// A profile that nobody else can have written.
fn own_profile(path: &Path) -> Result<Profile, LoadError> {
    // The target of a symbolic link may belong to another user.
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() || !is_own(&metadata) {
        return Err(LoadError::NotOurs);
    }
    decode(&store::read_bytes(path)?).map_err(|source| LoadError::Decode {
        path: path.to_owned(),
        source,
    })
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw() && metadata.mode() & WRITABLE == 0
}
