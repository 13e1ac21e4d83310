// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where `run` keeps profiles, and under which key.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use foreread_profile::{
    DecodeError, Observation, PagesOf, Profile, Run, RunMode, decode, encode, is_another, merge,
};
use foreread_sys::read_whole::read_whole;
use foreread_sys::save;

/// Result of a run, to be merged into the profile of its program.
pub enum Lesson {
    /// A recording that replaces what was known.
    Fresh(Profile),
    /// A full recording.
    Recorded(Profile),
    /// A replayed run: what was read beside the profile, and what was fetched for nothing.
    Replayed {
        /// The profile that was replayed.
        replayed: Arc<Profile>,
        /// Accesses that the profile lacked.
        news: Profile,
        /// Pages of the profile that were fetched and not used.
        unused: Vec<PagesOf>,
        /// Measurements of the run.
        run: Run,
        /// Whether the program went elsewhere.
        is_astray: bool,
    },
    /// Nothing but how long it took.
    Timed {
        /// The profile that there is.
        profile: Arc<Profile>,
        /// Measurements of the run.
        run: Run,
        /// Whether the program went elsewhere.
        is_astray: bool,
    },
}

impl Lesson {
    /// The runs of the profile with this one among them.
    pub fn runs(&self) -> Vec<Run> {
        let (before, run) = match self {
            Self::Fresh(recorded) | Self::Recorded(recorded) => return recorded.runs.clone(),
            Self::Replayed { replayed, run, .. } => (replayed, run),
            Self::Timed { profile, run, .. } => (profile, run),
        };
        before.runs.iter().chain([run]).cloned().collect()
    }

    fn apply(self, stored: Option<Profile>) -> Profile {
        match self {
            Self::Fresh(recorded) => recorded,
            Self::Recorded(recorded) => match stored {
                Some(stored) if has_changed(&stored, &recorded) => first_of(recorded),
                Some(stored) => merge(&stored, &recorded, Observation::Full),
                None => recorded,
            },
            Self::Replayed {
                replayed,
                news,
                unused,
                run,
                is_astray,
            } => {
                let mut profile = stored.unwrap_or_else(|| Profile::clone(&replayed));
                // Numbers of nodes mean something in the profile that was replayed only.
                if profile.nodes == replayed.nodes && profile.ranges == replayed.ranges {
                    profile.age_unused(&unused);
                }
                // What a program reads elsewhere is recorded by the next run, and held against what
                // was known.
                if news.nodes.len() > 1 && !is_astray {
                    let part = Observation::Refresh {
                        data: false,
                        lookups: false,
                    };
                    profile = merge(&profile, &news, part);
                }
                profile.is_astray = is_astray;
                profile.push_run(run);
                profile
            }
            Self::Timed {
                profile,
                run,
                is_astray,
            } => {
                let mut profile = stored.unwrap_or_else(|| Profile::clone(&profile));
                profile.is_astray = is_astray;
                profile.push_run(run);
                profile
            }
        }
    }
}

/// Whether what is stored is of a program that has changed altogether since. A script that was
/// edited a little reads the same; a program that ended early reads nothing else.
fn has_changed(stored: &Profile, recorded: &Profile) -> bool {
    let may_have = stored.is_astray || stored.program.scripts != recorded.program.scripts;
    may_have && is_another(stored, recorded)
}

/// A recording as the first one of its program: what was replayed beside it was another's.
fn first_of(mut recorded: Profile) -> Profile {
    for run in &mut recorded.runs {
        run.mode = RunMode::Recorded;
    }
    recorded
}

/// A directory of profiles.
pub struct Store {
    directory: PathBuf,
}

/// Contents of a profile file.
pub enum Stored {
    /// There is none.
    Nothing,
    /// A profile of this program and kind of arguments.
    Profile(Box<Profile>),
    /// Something that can't be read as a profile: a reason in one line.
    Unreadable(String),
}

impl Store {
    /// The place for profiles: `$FOREREAD_STATE_DIR`, else `$XDG_STATE_HOME/foreread`, else
    /// `/var/lib/foreread` for root and `~/.local/state/foreread` for others.
    pub fn find() -> Result<Self> {
        let directory = Self::place()?;
        // What saves in the background has another working directory.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Ok(Self { directory })
    }

    fn place() -> Result<PathBuf> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(directory) = set("FOREREAD_STATE_DIR") {
            return Ok(directory.into());
        }
        if let Some(state) = set("XDG_STATE_HOME") {
            return Ok(PathBuf::from(state).join("foreread"));
        }
        if rustix::process::geteuid().is_root() {
            return Ok("/var/lib/foreread".into());
        }
        match set("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(".local/state/foreread")),
            None => bail!("no place for profiles: set FOREREAD_STATE_DIR to a directory of yours"),
        }
    }

    /// The file of a key: the program's name for people, and a checksum.
    pub fn path(&self, key: &Key) -> PathBuf {
        let name = Path::new(OsStr::from_bytes(&key.executable));
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || "._-+".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = name.chars().map(safe).take(64).collect();
        self.directory
            .join(format!("{name}-{:08x}.frp", crc32fast::hash(&key.bytes)))
    }

    /// Where it is; it may not exist.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The files of all profiles, by name; none when there's no such directory yet.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            other => other.with_context(|| format!("cannot list {}", self.directory.display()))?,
        };
        let is_profile = |path: &PathBuf| path.extension() == Some(OsStr::new("frp"));
        let mut files: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(is_profile)
            .collect();
        files.sort();
        Ok(files)
    }

    /// Why nobody's profiles are safe there; `None` if only we may write to it, or it isn't there.
    fn distrust(&self) -> Option<&'static str> {
        let metadata = fs::metadata(&self.directory).ok()?;
        if metadata.permissions().mode() & 0o022 != 0 {
            return Some("others may write there; chmod go-w it, or set FOREREAD_STATE_DIR");
        }
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        (!is_own).then_some("it belongs to another user; set FOREREAD_STATE_DIR")
    }

    /// The profile of a key. One that others may have written is none; [`Store::update`] says so.
    pub fn load(&self, key: &Key) -> Stored {
        if self.distrust().is_some() {
            return Stored::Nothing;
        }
        match read_bytes(&self.path(key)) {
            Ok(bytes) => stored(&bytes, key),
            Err(error) if is_absent(&error) => Stored::Nothing,
            Err(error) => Stored::Unreadable(error.to_string()),
        }
    }

    /// Takes what a run taught into the profile as it is on disk now (another run may have written
    /// it since it was loaded), and saves it. Returns what was saved.
    pub fn update(&self, key: &Key, lesson: Lesson) -> Result<Profile> {
        let place = || format!("cannot keep profiles in {}", self.directory.display());
        if !self.directory.is_dir() {
            save::create_directory(&self.directory).with_context(place)?;
        }
        // The store is private: profiles name files of the user.
        fs::metadata(&self.directory).with_context(place)?;
        if let Some(why) = self.distrust() {
            bail!("{}: {why}", place());
        }
        let _lock = save::lock(&self.directory).with_context(place)?;
        save::remove_leftovers(&self.directory);
        let path = self.path(key);
        let stored = match self.load(key) {
            Stored::Profile(profile) => Some(*profile),
            Stored::Nothing | Stored::Unreadable(_) => None,
        };
        let merged = lesson.apply(stored);
        save::replace(&path, &encode(&merged))
            .with_context(|| format!("cannot save {}; the old profile stays", path.display()))?;
        Ok(merged)
    }
}

impl Store {
    /// Removes these files of the store.
    pub fn remove(&self, files: &[PathBuf]) -> Result<()> {
        let place = || format!("cannot change {}", self.directory.display());
        let _lock = save::lock(&self.directory).with_context(place)?;
        for path in files {
            match fs::remove_file(path) {
                Err(error) if !is_absent(&error) => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// No such file, nor could there be one.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Two keys may share a checksum: then the file is of another program, and as good as none.
fn stored(bytes: &[u8], key: &Key) -> Stored {
    match decode(bytes) {
        Ok(profile) if profile.program.key == key.bytes => Stored::Profile(Box::new(profile)),
        Ok(_) => Stored::Nothing,
        Err(error) => Stored::Unreadable(error.to_string()),
    }
}

/// Reads a profile file that a user named.
pub fn read(path: &Path) -> Result<Profile> {
    let bytes = read_bytes(path).with_context(|| format!("cannot read {}", path.display()))?;
    decode(&bytes).map_err(|error: DecodeError| {
        let remedy = match error.is_damage() {
            true => "; record it again",
            false => "",
        };
        anyhow::anyhow!("{}: {error}{remedy}", path.display())
    })
}

/// The largest file that is read as a profile: above what the format can hold (96 MiB).
const FILE_BYTES_MAX: u64 = 128 << 20;

/// The content of a file that may be a profile.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read_whole(path, "profile", FILE_BYTES_MAX)
}

/// Key of a profile: the program, the kind of its arguments, and the directory.
pub struct Key {
    pub executable: Vec<u8>,
    pub directory: Vec<u8>,
    pub bytes: Vec<u8>,
}

/// Programs whose first operand is something to look for, not a subcommand.
const PATTERN_FIRST: [&str; 12] = [
    "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "mawk", "jq",
];

/// Options by which interpreters take a program as an argument.
const CODE_OPTIONS: [&str; 3] = ["-c", "-e", "-m"];

impl Key {
    /// The key of a command line, run in the current directory.
    ///
    /// Options are part of it (values after `=` are not), and so are names of files that exist, a
    /// subcommand (`git status`), and the program text given to an interpreter. Everything else,
    /// such as what `grep` looks for, changes from run to run while the files stay the same.
    pub fn of(executable: &Path, arguments: &[OsString]) -> Self {
        let directory = env::current_dir().unwrap_or_default().into_os_string();
        let directory = directory.as_bytes().to_vec();
        let executable = executable.as_os_str().as_bytes().to_vec();
        let name = executable
            .rsplit(|&b| b == b'/')
            .next()
            .unwrap_or_default()
            .to_vec();
        // One binary may be many programs by the name that it's called with.
        let called = arguments
            .first()
            .map(|name| Path::new(name).file_name().unwrap_or_default());
        let called = called.unwrap_or_default().as_bytes().to_vec();
        let mut parts = vec![executable.clone(), called, directory.clone()];
        let mut operands = 0;
        let mut code_next = false;
        for argument in arguments.iter().skip(1) {
            let bytes = argument.as_bytes();
            if code_next {
                code_next = false;
                parts.push(bytes.to_vec());
            } else if bytes.starts_with(b"-") && bytes.len() > 1 {
                code_next = CODE_OPTIONS.iter().any(|option| option.as_bytes() == bytes);
                parts.push(
                    bytes
                        .split(|&b| b == b'=')
                        .next()
                        .unwrap_or_default()
                        .to_vec(),
                );
            } else {
                operands += 1;
                if let Ok(path) = fs::canonicalize(argument) {
                    parts.push(path.into_os_string().as_bytes().to_vec());
                } else if operands == 1 && is_word(bytes) && !takes_pattern(&name) {
                    parts.push(bytes.to_vec());
                }
            }
        }
        Self {
            executable,
            directory,
            bytes: parts.join(&0),
        }
    }
}

fn is_word(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(b))
}

fn takes_pattern(name: &[u8]) -> bool {
    PATTERN_FIRST
        .iter()
        .any(|pattern| pattern.as_bytes() == name)
}

/// The file that a command name means: itself when it has a slash, else the first in `PATH`.
pub fn find_executable(name: &OsStr) -> Option<PathBuf> {
    let executable = |path: &Path| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let found = if name.as_bytes().contains(&b'/') {
        Some(PathBuf::from(name))
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|path| executable(path))
    };
    found
        .filter(|path| executable(path))
        .map(|path| fs::canonicalize(&path).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(program: &str, arguments: &[&str]) -> Vec<u8> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        Key::of(Path::new(program), &arguments).bytes
    }

    #[test]
    fn what_is_looked_for_is_no_part_of_the_key() {
        let one = key("/bin/grep", &["grep", "-rq", "needle", "/usr"]);
        assert_eq!(one, key("/bin/grep", &["grep", "-rq", "haystack", "/usr"]));
        assert_ne!(one, key("/bin/grep", &["grep", "-rq", "needle", "/etc"]));
        assert_ne!(one, key("/bin/grep", &["grep", "-r", "needle", "/usr"]));
        assert_ne!(one, key("/bin/egrep", &["grep", "-rq", "needle", "/usr"]));
    }

    #[test]
    fn subcommands_and_code_are() {
        assert_ne!(
            key("/bin/git", &["git", "status"]),
            key("/bin/git", &["git", "log"])
        );
        assert_ne!(
            key("/bin/python3", &["python3", "-c", "import a"]),
            key("/bin/python3", &["python3", "-c", "import b"])
        );
        assert_eq!(
            key("/bin/x", &["x", "--jobs=1", "17"]),
            key("/bin/x", &["x", "--jobs=4", "18"])
        );
    }
}
