// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors: which open of which file each stands for, and who shares them.

use std::collections::BTreeMap;

use crate::types::{FileId, Flags};

/// Most descriptors of all processes together; more than that, and a fork starts with none.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// The object behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// A pipe, a socket, a terminal.
    NotFile,
    /// An open of a file.
    File(OpenFile),
}

/// An open of a file; the kernel's `struct file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenFile {
    pub file: FileId,
    pub stream: u32,
    pub position_bytes: u64,
    pub flags: Flags,
}

/// The descriptors of a process, or of several that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TableId(u32);

#[derive(Default)]
struct Table {
    /// There are few, for which this is faster than hashing.
    entries: BTreeMap<i32, Entry>,
    users: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    open: u32,
    closes_on_exec: bool,
}

struct Shared {
    open: Open,
    descriptors: u32,
}

/// All descriptors.
#[derive(Default)]
pub(super) struct Descriptors {
    tables: Vec<Table>,
    free_tables: Vec<u32>,
    opens: Vec<Shared>,
    free_opens: Vec<u32>,
    /// Number of descriptors in all tables.
    count: usize,
}

impl Descriptors {
    /// An empty table with one user.
    pub fn new_table(&mut self) -> TableId {
        let table = Table {
            users: 1,
            ..Table::default()
        };
        if let Some(at) = self.free_tables.pop() {
            self.tables[at as usize] = table;
            return TableId(at);
        }
        self.tables.push(table);
        TableId(self.tables.len() as u32 - 1)
    }

    /// One more user of a table.
    pub fn share(&mut self, table: TableId) -> TableId {
        self.tables[table.0 as usize].users += 1;
        table
    }

    /// A copy of a table, as fork makes it; `false` when there is no room and it is empty.
    pub fn copy(&mut self, table: TableId) -> (TableId, bool) {
        let entries = self.tables[table.0 as usize].entries.clone();
        let copy = self.new_table();
        if self.count + entries.len() > DESCRIPTORS_MAX {
            return (copy, false);
        }
        self.count += entries.len();
        for entry in entries.values() {
            self.opens[entry.open as usize].descriptors += 1;
        }
        self.tables[copy.0 as usize].entries = entries;
        (copy, true)
    }

    /// One user less; gives the streams that were closed by it.
    pub fn leave(&mut self, table: TableId) -> Vec<OpenFile> {
        let users = &mut self.tables[table.0 as usize].users;
        *users = users.saturating_sub(1);
        if *users > 0 {
            return Vec::new();
        }
        let entries = std::mem::take(&mut self.tables[table.0 as usize].entries);
        self.free_tables.push(table.0);
        self.dropped(entries.into_values())
    }

    /// Closes the descriptors that exec closes. If the table is shared, the caller gets its own
    /// copy before.
    pub fn exec(&mut self, table: TableId) -> (TableId, Vec<OpenFile>) {
        let table = self.unshare(table);
        let entries = &mut self.tables[table.0 as usize].entries;
        let mut closed = Vec::new();
        entries.retain(|_, entry| {
            if entry.closes_on_exec {
                closed.push(*entry);
            }
            !entry.closes_on_exec
        });
        (table, self.dropped(closed.into_iter()))
    }

    /// An unshared table with the same descriptors.
    pub fn unshare(&mut self, table: TableId) -> TableId {
        if self.tables[table.0 as usize].users <= 1 {
            return table;
        }
        self.tables[table.0 as usize].users -= 1;
        self.copy(table).0
    }

    /// A descriptor stands for something new; gives the stream that was closed by it. `None` for
    /// the new one when there is no room.
    pub fn open(
        &mut self,
        table: TableId,
        fd: i32,
        open: Open,
        closes_on_exec: bool,
    ) -> Option<OpenFile> {
        let shared = Shared {
            open,
            descriptors: 0,
        };
        let at = match self.free_opens.pop() {
            Some(at) => {
                self.opens[at as usize] = shared;
                at
            }
            None => {
                self.opens.push(shared);
                self.opens.len() as u32 - 1
            }
        };
        self.put(table, fd, at, closes_on_exec)
    }

    /// A second descriptor for the same; gives the stream that was closed by it.
    pub fn duplicate(
        &mut self,
        table: TableId,
        from: i32,
        to: i32,
        closes_on_exec: bool,
    ) -> Option<OpenFile> {
        let entry = *self.tables[table.0 as usize].entries.get(&from)?;
        if from == to {
            return None;
        }
        self.put(table, to, entry.open, closes_on_exec)
    }

    fn put(
        &mut self,
        table: TableId,
        fd: i32,
        open: u32,
        closes_on_exec: bool,
    ) -> Option<OpenFile> {
        let entry = Entry {
            open,
            closes_on_exec,
        };
        self.opens[open as usize].descriptors += 1;
        self.count += 1;
        if self.count > DESCRIPTORS_MAX {
            self.dropped(std::iter::once(entry));
            return None;
        }
        let before = self.tables[table.0 as usize].entries.insert(fd, entry);
        self.dropped(before.into_iter()).pop()
    }

    /// A descriptor is closed; gives the stream that was closed by it.
    pub fn close(&mut self, table: TableId, fd: i32) -> Option<OpenFile> {
        let entry = self.tables[table.0 as usize].entries.remove(&fd);
        self.dropped(entry.into_iter()).pop()
    }

    /// The descriptors from one number to another, both included, in order.
    pub fn numbers(&self, table: TableId, first: i64, last: i64) -> Vec<i32> {
        let numbers = self.tables[table.0 as usize].entries.keys().copied();
        numbers
            .filter(|fd| (first..=last).contains(&i64::from(*fd)))
            .collect()
    }

    /// The object behind a descriptor.
    pub fn get(&mut self, table: TableId, fd: i32) -> Option<&mut Open> {
        let entry = self.tables[table.0 as usize].entries.get(&fd)?;
        Some(&mut self.opens[entry.open as usize].open)
    }

    /// Whether exec closes it.
    pub fn set_closes_on_exec(&mut self, table: TableId, fd: i32, closes: bool) {
        if let Some(entry) = self.tables[table.0 as usize].entries.get_mut(&fd) {
            entry.closes_on_exec = closes;
        }
    }

    /// Entries that are in no table any more; gives the streams of which they were the last.
    fn dropped(&mut self, entries: impl Iterator<Item = Entry>) -> Vec<OpenFile> {
        let mut closed = Vec::new();
        for entry in entries {
            let shared = &mut self.opens[entry.open as usize];
            shared.descriptors = shared.descriptors.saturating_sub(1);
            self.count = self.count.saturating_sub(1);
            if shared.descriptors == 0 {
                self.free_opens.push(entry.open);
                if let Open::File(file) = shared.open {
                    closed.push(file);
                }
            }
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(file: u32) -> Open {
        Open::File(OpenFile {
            file: FileId(file),
            stream: file,
            position_bytes: 0,
            flags: Flags::default(),
        })
    }

    fn stream(closed: Option<OpenFile>) -> Option<u32> {
        closed.map(|file| file.stream)
    }

    #[test]
    fn a_stream_lives_as_long_as_any_descriptor() {
        let mut all = Descriptors::default();
        let table = all.new_table();
        assert_eq!(all.open(table, 3, file(1), false), None);
        assert_eq!(all.duplicate(table, 3, 4, false), None);
        let (child, copied) = all.copy(table);
        assert!(copied);
        assert_eq!(all.close(table, 3), None);
        assert_eq!(all.close(table, 4), None);
        assert!(all.leave(table).is_empty());
        if let Some(Open::File(file)) = all.get(child, 3) {
            file.position_bytes = 77;
        }
        let through_4 = match all.get(child, 4) {
            Some(Open::File(file)) => file.position_bytes,
            _ => 0,
        };
        assert_eq!(through_4, 77);
        assert_eq!(all.open(child, 4, file(2), false), None);
        assert_eq!(stream(all.open(child, 3, Open::NotFile, false)), Some(1));
        assert_eq!(all.leave(child).len(), 1);
        assert_eq!(all.count, 0);
    }

    #[test]
    fn more_descriptors_than_there_is_room_for_are_not_kept() {
        let mut all = Descriptors::default();
        let table = all.new_table();
        for fd in 0..DESCRIPTORS_MAX as i32 + 100 {
            all.open(table, fd, Open::NotFile, false);
        }
        assert_eq!(all.count, DESCRIPTORS_MAX);
        assert_eq!(all.opens.len(), DESCRIPTORS_MAX + 1);
        let (child, copied) = all.copy(table);
        assert!(!copied && all.numbers(child, 0, i64::MAX).is_empty());
    }

    #[test]
    fn exec_closes_what_it_was_told_to() {
        let mut all = Descriptors::default();
        let table = all.new_table();
        all.open(table, 3, file(1), true);
        all.open(table, 4, file(2), false);
        let shared = all.share(table);
        let (own, closed) = all.exec(table);
        assert_ne!(own, shared);
        assert!(closed.is_empty(), "the other still has it");
        assert!(all.get(own, 3).is_none() && all.get(shared, 3).is_some());
        let (same, closed) = all.exec(shared);
        assert_eq!((same, closed.len()), (shared, 1));
        assert_eq!(all.numbers(own, 0, 9), [4]);
    }
}
