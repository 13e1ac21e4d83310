// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and threads: who started whom, and whose descriptors each has.

use std::collections::BTreeMap;

use super::super::emit::Emit;
use super::super::find::contains;
use super::call::{Call, reads, unescaped};
use super::descriptors::{Descriptors, OpenFile, TableId};
use crate::types::{Access, Flags, Kind, LeftOut, Thread, ThreadId};

/// Most threads at one time.
const TASKS_MAX: usize = 1 << 16;
/// Longest name that is kept of a program: that of a path component.
const NAME_BYTES_MAX: usize = 255;

/// A thread that lives.
#[derive(Clone, Debug)]
struct Task {
    pid: u32,
    parent: Option<u32>,
    table: TableId,
    name: Vec<u8>,
    /// It is in a call that starts another.
    starts: Option<Sharing>,
}

/// Properties that a new thread shares with the one that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sharing {
    descriptors: bool,
    process: bool,
}

impl Sharing {
    fn of(name: &[u8], text: &[u8]) -> Self {
        let is_clone = name.starts_with(b"clone");
        Self {
            descriptors: is_clone && contains(text, b"CLONE_FILES"),
            process: is_clone && contains(text, b"CLONE_THREAD"),
        }
    }
}

fn starts_another(name: &[u8]) -> bool {
    matches!(name, b"clone" | b"clone3" | b"fork" | b"vfork")
}

/// All living tasks, and their open files.
#[derive(Default)]
pub(super) struct Tasks {
    tasks: BTreeMap<u32, Task>,
    /// Tasks that have entered a call which starts another task, the latest last.
    starting: Vec<u32>,
    pub descriptors: Descriptors,
}

/// Where and when a call returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub tid: u32,
    pub table: TableId,
    pub time_ns: u64,
    pub duration_ns: Option<u64>,
}

impl Tasks {
    /// A call was entered, and another thread came between.
    pub fn began(&mut self, tid: u32, name: &[u8], before: &[u8]) {
        if starts_another(name) && self.table(tid).is_some() {
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.starts = Some(Sharing::of(name, before));
            }
            self.starting.retain(|other| *other != tid);
            self.starting.push(tid);
        }
    }

    /// A call returned.
    pub fn returned(
        &mut self,
        tid: u32,
        time_ns: u64,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let Some(table) = self.table(tid) else {
            emit.findings.over_limit();
            return Ok(());
        };
        let at = At {
            tid,
            table,
            time_ns,
            duration_ns: call.duration_ns,
        };
        if starts_another(name) {
            self.starting.retain(|other| *other != tid);
            let starts = self.tasks.get_mut(&tid).and_then(|task| task.starts.take());
            if let Some(child) = call.returned().and_then(|child| u32::try_from(child).ok()) {
                let all = |at| call.argument(at);
                let text = [all(0), all(1), all(2), all(3)].concat();
                let sharing = starts.unwrap_or_else(|| Sharing::of(name, &text));
                self.start(child, tid, sharing, emit);
            }
            return Ok(());
        }
        if call.has_failed() {
            if reads(name) {
                emit.left_out(LeftOut::Failed);
            }
            return Ok(());
        }
        match name {
            b"execve" | b"execveat" => self.exec(at, name, call, emit),
            b"unshare" => {
                if contains(call.argument(0), b"CLONE_FILES") {
                    let own = self.descriptors.unshare(table);
                    self.set_table(tid, own);
                }
                Ok(())
            }
            _ => self.call(at, name, call, emit),
        }
    }

    /// A thread ended.
    pub fn ended(&mut self, tid: u32, time_ns: u64, emit: &mut Emit) -> Result<(), &'static str> {
        self.starting.retain(|other| *other != tid);
        if let Some(task) = self.tasks.remove(&tid) {
            let closed = self.descriptors.leave(task.table);
            let at = At {
                tid,
                table: task.table,
                time_ns,
                duration_ns: None,
            };
            if let Some(thread) = emit.thread_of(u64::from(tid)) {
                for file in closed {
                    emit.access(closing(at, thread, file))?;
                }
            }
        }
        emit.thread_ends(u64::from(tid), time_ns);
        Ok(())
    }

    /// The descriptors of a thread, which may not have been seen before.
    fn table(&mut self, tid: u32) -> Option<TableId> {
        if let Some(task) = self.tasks.get(&tid) {
            return Some(task.table);
        }
        // A child that runs before its parent's call has returned.
        let parent = self.starting.pop();
        let started = parent.and_then(|parent| {
            let sharing = self.tasks.get(&parent)?.starts?;
            self.starting.insert(0, parent);
            Some((parent, sharing))
        });
        if let Some((parent, sharing)) = started {
            self.insert(tid, Some((parent, sharing)))
        } else {
            self.insert(tid, None)
        }
    }

    fn start(&mut self, tid: u32, parent: u32, sharing: Sharing, emit: &mut Emit) {
        // It may have run before its parent's call returned.
        let is_known = self
            .tasks
            .get(&tid)
            .is_some_and(|task| task.parent == Some(parent));
        if !is_known {
            if let Some(before) = self.tasks.remove(&tid) {
                self.descriptors.leave(before.table);
            }
            if self.insert(tid, Some((parent, sharing))).is_none() {
                emit.findings.over_limit();
            }
        }
    }

    fn insert(&mut self, tid: u32, parent: Option<(u32, Sharing)>) -> Option<TableId> {
        if self.tasks.len() >= TASKS_MAX {
            return None;
        }
        let known = parent.and_then(|(parent, sharing)| {
            let task = self.tasks.get(&parent)?.clone();
            Some((parent, task, sharing))
        });
        let task = match known {
            Some((parent, task, sharing)) => Task {
                pid: if sharing.process { task.pid } else { tid },
                parent: Some(parent),
                table: if sharing.descriptors {
                    self.descriptors.share(task.table)
                } else {
                    self.descriptors.copy(task.table).0
                },
                name: task.name,
                starts: None,
            },
            None => Task {
                pid: tid,
                parent: None,
                table: self.descriptors.new_table(),
                name: Vec::new(),
                starts: None,
            },
        };
        let table = task.table;
        self.tasks.insert(tid, task);
        Some(table)
    }

    fn set_table(&mut self, tid: u32, table: TableId) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.table = table;
        }
    }

    fn exec(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let (own, closed) = self.descriptors.exec(at.table);
        self.set_table(at.tid, own);
        let path = unescaped(call.argument(usize::from(name == b"execveat")));
        let program = path.rsplit(|byte| *byte == b'/').next().unwrap_or(b"");
        if let Some(task) = self.tasks.get_mut(&at.tid) {
            task.name = program[..program.len().min(NAME_BYTES_MAX)].to_vec();
        }
        for file in closed {
            self.closed(at, file, emit)?;
        }
        Ok(())
    }

    /// The thread of the trace; `None` when it is beyond the limits.
    pub fn thread(&self, tid: u32, emit: &mut Emit) -> Option<ThreadId> {
        if let Some(thread) = emit.thread_of(u64::from(tid)) {
            return Some(thread);
        }
        let task = self.tasks.get(&tid)?;
        let parent = task.parent;
        let parent = parent.and_then(|parent| emit.thread_of(u64::from(parent)));
        emit.thread(u64::from(tid), || Thread {
            pid: task.pid,
            tid,
            parent,
            name: task.name.clone(),
        })
    }

    /// The last descriptor of a stream was closed.
    pub fn closed(&self, at: At, file: OpenFile, emit: &mut Emit) -> Result<(), &'static str> {
        match self.thread(at.tid, emit) {
            Some(thread) => emit.access(closing(at, thread, file)),
            None => {
                emit.findings.over_limit();
                Ok(())
            }
        }
    }
}

fn closing(at: At, thread: ThreadId, file: OpenFile) -> Access {
    Access {
        time_ns: at.time_ns,
        thread,
        file: file.file,
        stream: file.stream,
        offset_bytes: 0,
        length_bytes: 0,
        kind: Kind::Close,
        flags: Flags::default(),
        waited_ns: None,
        duration_ns: at.duration_ns,
    }
}
