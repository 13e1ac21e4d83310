// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/sys/kernel/foreread` of a loaded module: policies of devices, and their counters
//! (docs/kernel-module.md). Files that this version doesn't know are left alone.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foreread_core::Device;

use crate::{ModuleError, NAME};

/// The directory of what has no directory of its own.
const DEFAULT: &str = "default";

/// The version of the loaded module; `None` where none is loaded, or it has no version.
#[must_use]
pub fn loaded_version(root: &Path) -> Option<String> {
    let path = root.join("sys/module").join(NAME).join("version");
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// What settings hold for. The default comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// A disk, a partition, or a mounted file system.
    Device(Device),
    /// All others.
    Default,
}

impl fmt::Display for Of {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(number) => write!(formatter, "{number}"),
            Self::Default => formatter.write_str(DEFAULT),
        }
    }
}

/// A device as the module has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Which.
    pub of: Of,
    /// Its policy, or `off`.
    pub policy: String,
    /// How windows are read: `auto`, `issue` or `steer`.
    pub act: String,
    /// No window is larger; 0 means no such bound.
    pub window_max_pages: u64,
    /// The watchdog's verdict: `ok`, or why it has taken the policy away.
    pub watchdog: String,
    /// Its counters, in the module's order.
    pub counters: Vec<(String, u64)>,
}

/// The directory of a loaded module.
#[derive(Clone, Debug)]
pub struct Settings {
    directory: PathBuf,
}

impl Settings {
    /// Those of the system with this root; `None` if the module isn't loaded.
    #[must_use]
    pub fn of(root: &Path) -> Option<Self> {
        let directory = root.join("sys/kernel").join(NAME);
        directory
            .join("policies")
            .is_file()
            .then_some(Self { directory })
    }

    /// Names of the policies that it has.
    ///
    /// # Errors
    ///
    /// It is being unloaded.
    pub fn policies(&self) -> Result<Vec<String>, ModuleError> {
        let text = read(&self.directory.join("policies"))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The devices with a directory of their own, and the default.
    ///
    /// # Errors
    ///
    /// It is being unloaded, or is of another version.
    pub fn devices(&self) -> Result<Vec<DeviceSettings>, ModuleError> {
        let path = self.directory.join("devices");
        let entries = fs::read_dir(&path).map_err(ModuleError::file("read", &path))?;
        let mut devices = Vec::new();
        for entry in entries {
            let name = entry.map_err(ModuleError::file("read", &path))?.file_name();
            let name = name.to_string_lossy();
            let of = match name.parse() {
                Ok(number) => Of::Device(number),
                Err(_) if name == DEFAULT => Of::Default,
                Err(_) => continue,
            };
            devices.push(self.device(of)?);
        }
        devices.sort_by_key(|device| device.of);
        Ok(devices)
    }

    fn device(&self, of: Of) -> Result<DeviceSettings, ModuleError> {
        let directory = self.folder(of);
        let value = |file: &str| -> Result<String, ModuleError> {
            Ok(read(&directory.join(file))?.trim().to_owned())
        };
        let bound = value("pages_max")?;
        Ok(DeviceSettings {
            of,
            policy: value("policy")?,
            act: value("act")?,
            window_max_pages: bound
                .parse()
                .map_err(|_| ModuleError::Interface(format!("pages_max is {bound:?}")))?,
            watchdog: value("watchdog")?,
            counters: counters(&read(&directory.join("stat"))?)?,
        })
    }

    /// Whether a device has a directory of its own.
    #[must_use]
    pub fn has(&self, of: Of) -> bool {
        self.folder(of).is_dir()
    }

    /// Makes the directory of a device. Its policy is `off` at first.
    ///
    /// # Errors
    ///
    /// The kernel refuses it.
    pub fn add(&self, device: Device) -> Result<(), ModuleError> {
        self.write("add", &device.to_string())
    }

    /// Sets the policy.
    ///
    /// # Errors
    ///
    /// The module has none of this name.
    pub fn set_policy(&self, of: Of, policy: &str) -> Result<(), ModuleError> {
        self.write(&format!("devices/{of}/policy"), policy)
    }

    /// Sets how windows are read: `auto`, `issue` or `steer`.
    ///
    /// # Errors
    ///
    /// The module has no such way.
    pub fn set_act(&self, of: Of, act: &str) -> Result<(), ModuleError> {
        self.write(&format!("devices/{of}/act"), act)
    }

    /// Sets the bound of windows; 0 removes it.
    ///
    /// # Errors
    ///
    /// It has more than 32 bits.
    pub fn set_window_max(&self, of: Of, pages: u64) -> Result<(), ModuleError> {
        self.write(&format!("devices/{of}/pages_max"), &pages.to_string())
    }

    fn folder(&self, of: Of) -> PathBuf {
        self.directory.join("devices").join(of.to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), ModuleError> {
        // Its files are the kernel's; none is ever made.
        let path = self.directory.join(file);
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).open(path);
        opened
            .and_then(|mut opened| io::Write::write_all(&mut opened, value.as_bytes()))
            .map_err(|source| ModuleError::Setting {
                value: value.to_owned(),
                file: file.to_owned(),
                source,
            })
    }
}

fn read(path: &Path) -> Result<String, ModuleError> {
    fs::read_to_string(path).map_err(ModuleError::file("read", path))
}

/// Lines of a name and a number.
fn counters(text: &str) -> Result<Vec<(String, u64)>, ModuleError> {
    let counter = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    let each = text.lines().map(|line| {
        counter(line).ok_or_else(|| ModuleError::Interface(format!("stat has the line {line:?}")))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_come_by_their_number_and_the_default_last() {
        let root = tempfile::tempdir().expect("a directory");
        assert!(Settings::of(root.path()).is_none());
        let directory = root.path().join("sys/kernel/foreread");
        for (name, policy) in [("default", "off"), ("259:3", "foreread"), ("8:16", "linux")] {
            let device = directory.join("devices").join(name);
            fs::create_dir_all(&device).expect("a directory");
            for (file, text) in [
                ("policy", format!("{policy}\n")),
                ("act", "auto\n".into()),
                ("pages_max", "0\n".into()),
                ("watchdog", "ok\n".into()),
                ("stat", "sync 3\nwindows 12\n".into()),
            ] {
                fs::write(device.join(file), text).expect("a file");
            }
        }
        fs::write(directory.join("policies"), "linux\nforeread\n").expect("a file");
        let settings = Settings::of(root.path()).expect("it is loaded");
        assert_eq!(settings.policies().expect("a list"), ["linux", "foreread"]);
        let devices = settings.devices().expect("devices");
        let names: Vec<String> = devices.iter().map(|d| d.of.to_string()).collect();
        assert_eq!(names, ["8:16", "259:3", "default"]);
        assert_eq!(devices[0].counters[1], ("windows".to_owned(), 12));

        let of = devices[1].of;
        settings.set_policy(of, "leap").expect("it is written");
        // A file of the kernel has one value at a time; this one is longer before.
        assert!(
            settings.devices().expect("devices")[1]
                .policy
                .starts_with("leap")
        );
        // None is made.
        assert!(settings.add(Device { major: 8, minor: 0 }).is_err());
        fs::write(directory.join("devices/8:16/stat"), "sync\n").expect("a file");
        assert!(matches!(settings.devices(), Err(ModuleError::Interface(_))));
    }
}
