// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that share the walk of another one.

use serde::Serialize;

use super::Subject;
use crate::output::{counted, time};

/// Those of one walk.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<Member>);

#[derive(Clone, Copy, Debug)]
struct Member {
    process: u32,
    since_start_ns: u64,
}

/// A process that shares a walk.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberReport {
    /// Number of the process.
    process: u32,
    /// Time since the watcher started.
    since_ns: u64,
}

impl Members {
    pub fn push(&mut self, process: u32, since_start_ns: u64) {
        self.0.push(Member {
            process,
            since_start_ns,
        });
    }

    /// Whether it is about one of them.
    pub fn has(&self, subject: &Subject) -> bool {
        self.of(subject).is_some()
    }

    fn of(&self, subject: &Subject) -> Option<&Member> {
        let Subject::Process(process) = subject else {
            return None;
        };
        self.0.iter().find(|member| member.process == *process)
    }

    /// As a sentence; nothing where there are none.
    pub fn human(&self, subject: &Subject) -> String {
        if let Some(member) = self.of(subject) {
            return format!(
                "  Process {} shares it since {}: what it reads counts as read on this walk.\n",
                member.process,
                time(member.since_start_ns)
            );
        }
        self.0.first().map_or_else(String::new, |first| {
            format!(
                "  Shared by {}, since {}.\n",
                counted(self.0.len() as u64, "process more", "processes more"),
                time(first.since_start_ns)
            )
        })
    }

    /// The same for programs.
    pub fn reports(&self) -> Vec<MemberReport> {
        let report = |member: &Member| MemberReport {
            process: member.process,
            since_ns: member.since_start_ns,
        };
        self.0.iter().map(report).collect()
    }
}
