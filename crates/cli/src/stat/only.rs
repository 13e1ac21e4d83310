// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts that were asked for: of a device, of processes, of a cgroup.
//!
//! In: `--device`, `--process`, `--cgroup`. Out: whether an account counts. An account that stands
//! for all that found no room counts for nobody.

use anyhow::Result;
use foreread_accounting::{By, Subject};
use foreread_core::Device;

use super::args::StatArguments;
use super::said::Said;
use crate::{named_device, text};

/// What counts. Of a kind that is empty, all does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only {
    /// The device with its partitions.
    devices: Vec<Device>,
    /// Names and numbers.
    processes: Vec<String>,
    /// Path below the root of the hierarchy, with `/` at both ends.
    cgroup: Option<String>,
}

impl Only {
    pub fn of(arguments: &StatArguments) -> Result<Self> {
        let mut only = Self {
            processes: arguments.process.clone(),
            ..Self::default()
        };
        for name in &arguments.device {
            only.devices.extend(named_device::with_parts(name)?);
        }
        if let Some(path) = &arguments.cgroup {
            let said = text::escaped_path(path);
            let below = said.strip_prefix("/sys/fs/cgroup").unwrap_or(&said);
            only.cgroup = Some(format!("/{}/", below.trim_matches('/')));
        }
        Ok(only)
    }

    /// What accounts must be told apart by.
    pub fn by(&self) -> By {
        By {
            device: !self.devices.is_empty(),
            process: !self.processes.is_empty(),
            cgroup: self.cgroup.is_some(),
            ..By::default()
        }
    }

    /// Whether all counts.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a device counts.
    pub fn has_device(&self, device: Device) -> bool {
        self.devices.is_empty() || self.devices.contains(&device)
    }

    /// Whether an account counts.
    pub fn has(&self, subject: &Subject, said: &Said) -> bool {
        if self.is_all() {
            return true;
        }
        let is_named = |name: &Option<String>| {
            let name = name.as_deref().unwrap_or_default();
            self.processes.iter().any(|process| process == name)
        };
        let id = said.process_id.map(|id| id.to_string());
        let has_device = subject
            .device
            .is_some_and(|device| self.devices.contains(&device));
        let has_process = is_named(&said.process) || is_named(&id);
        let has_cgroup = self.cgroup.as_ref().is_some_and(|cgroup| {
            let path = said.cgroup.as_deref().unwrap_or_default();
            format!("/{}/", path.trim_matches('/')).starts_with(cgroup.as_str())
        });
        !subject.is_other
            && (self.devices.is_empty() || has_device)
            && (self.processes.is_empty() || has_process)
            && (self.cgroup.is_none() || has_cgroup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(minor: u32) -> Subject {
        Subject {
            device: Some(Device { major: 8, minor }),
            ..Subject::default()
        }
    }

    fn said(process: &str, id: u32, cgroup: &str) -> Said {
        Said {
            process: Some(process.to_owned()),
            process_id: Some(id),
            cgroup: Some(cgroup.to_owned()),
            ..Said::default()
        }
    }

    #[test]
    fn each_kind_that_was_asked_for_must_match() {
        let tar = said("tar", 12, "/system.slice/backup.service");
        let only = Only::default();
        assert!(only.is_all() && only.has(&subject(0), &tar));
        let only = Only {
            devices: vec![Device { major: 8, minor: 1 }],
            processes: vec!["tar".to_owned(), "77".to_owned()],
            cgroup: Some("/system.slice/".to_owned()),
        };
        assert!(only.has(&subject(1), &tar));
        assert!(only.has(&subject(1), &said("cp", 77, "/system.slice")));
        assert!(!only.has(&subject(2), &tar));
        assert!(!only.has(&subject(1), &said("cp", 12, "/system.slice")));
        assert!(!only.has(&subject(1), &said("tar", 12, "/system.slice2/x")));
        let other = Subject {
            is_other: true,
            ..Subject::default()
        };
        assert!(!only.has(&other, &tar));
    }
}
