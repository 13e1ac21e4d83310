// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the subject of a line into words.

use foreread_accounting::Subject;
use foreread_linux_stat::Names;

use crate::text::escaped;

/// Words for a subject; `None` of what isn't told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub device: Option<String>,
    pub process: Option<String>,
    pub process_id: Option<u32>,
    pub file: Option<String>,
    pub cgroup: Option<String>,
    pub kind: Option<String>,
}

impl Said {
    /// Asks for the names of a subject.
    pub fn of(subject: &Subject, names: &mut Names) -> Self {
        if subject.is_other {
            // Counts without an account of their own are shown together.
            let other = || Some("(other)".to_owned());
            return Self {
                device: other(),
                process: other(),
                process_id: None,
                file: other(),
                cgroup: other(),
                kind: other(),
            };
        }
        let device = subject.device.map(|device| {
            let name = names.device(device).map(|name| escaped(&name));
            name.unwrap_or_else(|| device.to_string())
        });
        let process = subject.process.map(|process| {
            let name = names.process(process).map(escaped);
            name.unwrap_or_else(|| "?".into())
        });
        let file = subject.file.map(|file| {
            let path = names.file(file).map(|path| escaped(&path));
            path.unwrap_or_else(|| format!("{} inode {}", file.device, file.inode))
        });
        let cgroup = subject.cgroup.map(|number| {
            let path = names.cgroup(number).map(escaped);
            path.unwrap_or_else(|| number.to_string())
        });
        Self {
            device,
            process,
            process_id: subject.process.map(|process| process.id),
            file,
            cgroup,
            kind: subject.kind.map(|kind| kind.name().to_owned()),
        }
    }

    /// `grep 1234`
    pub fn process_and_number(&self) -> Option<String> {
        let name = self.process.as_ref()?;
        Some(match self.process_id {
            Some(id) => format!("{name} {id}"),
            None => name.clone(),
        })
    }

    /// As labels of a metric.
    pub fn labels(&self) -> Vec<(&'static str, String)> {
        let id = self.process_id.map(|id| id.to_string());
        let labels = [
            ("device", &self.device),
            ("process", &self.process),
            ("pid", &id),
            ("file", &self.file),
            ("cgroup", &self.cgroup),
            ("kind", &self.kind),
        ];
        let told = labels.into_iter();
        told.filter_map(|(name, value)| Some((name, value.clone()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_accounting::{FileOf, Kind, Process};
    use foreread_core::Device;

    #[test]
    fn what_has_no_name_has_its_number() {
        let device = Device {
            major: 4000,
            minor: 7,
        };
        let subject = Subject {
            device: Some(device),
            process: Some(Process {
                id: 12,
                started_ns: 0,
            }),
            file: Some(FileOf {
                device,
                inode: 42,
                generation: 0,
            }),
            kind: Some(Kind::Around),
            ..Subject::default()
        };
        let said = Said::of(&subject, &mut Names::default());
        assert_eq!(said.device.as_deref(), Some("4000:7"));
        assert_eq!(said.process_and_number().as_deref(), Some("? 12"));
        assert_eq!(said.file.as_deref(), Some("4000:7 inode 42"));
        let labels = said.labels();
        assert!(labels.contains(&("kind", "around".into())) && labels.len() == 5);
    }
}
