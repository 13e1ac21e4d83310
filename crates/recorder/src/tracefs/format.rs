// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the kernel's binary events by its descriptions of them: `format` files and `header_page`.
//!
//! Offsets differ between kernels, and some fields come and go, so none is taken for granted.

use super::ring_page::PageLayout;

/// Where a number is in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    at: usize,
    size: usize,
}

impl Field {
    /// The number, without its sign; `None` when the event is too short.
    fn read(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.at..self.at.checked_add(self.size)?)?;
        Some(match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    fn read_pid(self, event: &[u8]) -> Option<i32> {
        Some((self.read(event)? & 0xffff_ffff) as u32 as i32)
    }
}

/// The field `name` of a description with lines such as
/// `field:unsigned long i_ino; offset:8; size:8; signed:0;`, with tabs.
fn field(text: &str, name: &str) -> Option<Field> {
    text.lines().find_map(|line| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?;
        let declared = declared.split('[').next()?.trim_end();
        if declared.rsplit([' ', '*']).next()? != name {
            return None;
        }
        let mut value = |key| parts.next()?.strip_prefix(key)?.parse().ok();
        Some(Field {
            at: value("offset:")?,
            size: value("size:")?,
        })
    })
}

/// Reads `header_page`; `None` when it doesn't describe a page.
#[must_use]
pub fn page_layout(text: &str) -> Option<PageLayout> {
    let (commit, data) = (field(text, "commit")?, field(text, "data")?);
    Some(PageLayout {
        commit_at: commit.at,
        commit_bytes: commit.size,
        data_at: data.at,
        page_bytes: data.at.checked_add(data.size)?,
    })
}

/// The kinds of events that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Pages were read.
    Read,
    /// Cached pages were mapped around a fault.
    MapAround,
    /// A page fault was served from the page cache.
    Fault,
    /// A folio came into the page cache.
    Added,
    /// A process or thread was started.
    Fork,
    /// A program was executed.
    Exec,
    /// A process or thread has ended.
    Exit,
}

impl Kind {
    /// Its directory below `events`.
    #[must_use]
    pub fn directory(self) -> &'static str {
        match self {
            Self::Read => "filemap/mm_filemap_get_pages",
            Self::MapAround => "filemap/mm_filemap_map_pages",
            Self::Fault => "filemap/mm_filemap_fault",
            Self::Added => "filemap/mm_filemap_add_to_page_cache",
            Self::Fork => "sched/sched_process_fork",
            Self::Exec => "sched/sched_process_exec",
            Self::Exit => "sched/sched_process_exit",
        }
    }
}

/// Pages of an inode were touched, or came into the page cache (`Kind::Added`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The kind of the event.
    pub kind: Kind,
    /// When, by the clock of the trace.
    pub time_ns: u64,
    /// The thread that did it, by the kernel's own number.
    pub pid: i32,
    /// Superblock: 12 bits major, 20 bits minor.
    pub device: u32,
    /// Inode number.
    pub inode: u64,
    /// First page, in the kernel's pages.
    pub start: u64,
    /// Behind the last page.
    pub end: u64,
}

/// Begin or end of a process, thread or program; processes by the kernel's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It was started.
    Fork {
        /// The thread that started it.
        parent: i32,
        /// The new process or thread.
        child: i32,
    },
    /// It executed a program.
    Exec {
        /// The process.
        pid: i32,
        /// The thread that called exec; it has the number of the process afterwards.
        old_pid: i32,
    },
    /// It has ended.
    Exit {
        /// The process or thread.
        pid: i32,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Pages were touched.
    Touch(Touch),
    /// A process began or ended.
    Life(Life),
}

/// How to read the events of one kind.
#[derive(Clone, Debug)]
struct Layout {
    id: u64,
    kind: Kind,
    /// As each kind has them: see [`Decoder::add`].
    fields: Vec<Field>,
    /// Order of the folio. Before Linux 5.18 the page cache events had no such field, and there
    /// were no large folios to report.
    order: Option<Field>,
}

/// Reads events by the formats of this kernel.
#[derive(Clone, Debug)]
pub struct Decoder {
    kind_at: Field,
    pid_at: Field,
    layouts: Vec<Layout>,
}

/// `filemap_get_pages()` returns at most 31 folios of at most 512 pages: the rest of a longer read
/// comes with its next event.
const PAGES_PER_EVENT_MAX: u64 = 250 * 64;

impl Decoder {
    /// With the format of any event, for the fields that all have; `None` when they are missing.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Some(Self {
            kind_at: field(text, "common_type")?,
            pid_at: field(text, "common_pid")?,
            layouts: Vec::new(),
        })
    }

    /// Learns a kind of event; `None` when a field is missing that it needs.
    pub fn add(&mut self, kind: Kind, text: &str) -> Option<()> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?;
        let names: &[&str] = match kind {
            Kind::Read | Kind::MapAround => &["s_dev", "i_ino", "index", "last_index"],
            Kind::Fault | Kind::Added => &["s_dev", "i_ino", "index"],
            Kind::Fork => &["parent_pid", "child_pid"],
            Kind::Exec => &["pid", "old_pid"],
            Kind::Exit => &["pid"],
        };
        let fields = names.iter().map(|name| field(text, name));
        self.layouts.push(Layout {
            id: id.trim().parse().ok()?,
            kind,
            fields: fields.collect::<Option<_>>()?,
            order: field(text, "order"),
        });
        Some(())
    }

    /// The thread that made an event, of any kind.
    #[must_use]
    pub fn pid_of(&self, event: &[u8]) -> Option<i32> {
        self.pid_at.read_pid(event)
    }

    /// Reads an event; `None` when it is none of those that were asked for.
    #[must_use]
    pub fn decode(&self, time_ns: u64, event: &[u8]) -> Option<Event> {
        let id = self.kind_at.read(event)?;
        let layout = self.layouts.iter().find(|layout| layout.id == id)?;
        let pid = |index: usize| layout.fields[index].read_pid(event);
        let life = match layout.kind {
            Kind::Fork => Life::Fork {
                parent: pid(0)?,
                child: pid(1)?,
            },
            Kind::Exec => Life::Exec {
                pid: pid(0)?,
                old_pid: pid(1)?,
            },
            Kind::Exit => Life::Exit { pid: pid(0)? },
            _ => return self.touch(layout, time_ns, event).map(Event::Touch),
        };
        Some(Event::Life(life))
    }

    fn touch(&self, layout: &Layout, time_ns: u64, event: &[u8]) -> Option<Touch> {
        let value = |index: usize| layout.fields[index].read(event);
        let start = value(2)?;
        let end = match layout.kind {
            Kind::Read | Kind::MapAround => value(3)?
                .saturating_add(1)
                .min(start.saturating_add(PAGES_PER_EVENT_MAX)),
            Kind::Added => {
                let order = layout.order.map_or(Some(0), |order| order.read(event))?;
                start.saturating_add(1 << order.min(30))
            }
            _ => start.saturating_add(1),
        };
        Some(Touch {
            kind: layout.kind,
            time_ns,
            pid: self.pid_at.read_pid(event)?,
            device: (value(0)? & 0xffff_ffff) as u32,
            inode: value(1)?,
            start,
            end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET_PAGES: &str = "\
name: mm_filemap_get_pages
ID: 599
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long last_index;\toffset:32;\tsize:8;\tsigned:0;

print fmt: \"...\"
";

    fn get_pages(start: u64, last: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(599u16.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend(4321i32.to_ne_bytes());
        bytes.extend(77u64.to_ne_bytes());
        bytes.extend((8u32 << 20 | 300).to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(start.to_ne_bytes());
        bytes.extend(last.to_ne_bytes());
        bytes
    }

    fn decoder() -> Decoder {
        let mut decoder = Decoder::new(GET_PAGES).expect("common fields");
        decoder.add(Kind::Read, GET_PAGES).expect("all fields");
        decoder
    }

    #[test]
    fn a_read_is_decoded_by_the_offsets_of_its_format() {
        let Some(Event::Touch(touch)) = decoder().decode(5, &get_pages(3, 6)) else {
            panic!("no access");
        };
        assert_eq!((touch.pid, touch.inode), (4321, 77));
        assert_eq!((touch.device >> 20, touch.device & 0xf_ffff), (8, 300));
        assert_eq!((touch.start, touch.end, touch.time_ns), (3, 7, 5));
    }

    #[test]
    fn a_huge_read_is_no_more_than_one_event_can_bring() {
        let Some(Event::Touch(touch)) = decoder().decode(5, &get_pages(3, u64::MAX)) else {
            panic!("no access");
        };
        assert_eq!(touch.end, 3 + PAGES_PER_EVENT_MAX);
    }

    #[test]
    fn what_is_short_or_unknown_is_nothing() {
        assert!(decoder().decode(0, &get_pages(0, 1)[..39]).is_none());
        assert!(decoder().decode(0, &[1; 40]).is_none());
        assert!(decoder().decode(0, &[]).is_none());
        let mut decoder = decoder();
        assert!(decoder.add(Kind::Fork, GET_PAGES).is_none());
    }

    #[test]
    fn an_array_and_a_pointer_have_names_too() {
        let text = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                    \tfield:struct file * file;\toffset:24;\tsize:8;\tsigned:0;\n";
        assert_eq!(field(text, "comm"), Some(Field { at: 8, size: 16 }));
        assert_eq!(field(text, "file"), Some(Field { at: 24, size: 8 }));
        assert_eq!(field(text, "fil"), None);
    }

    #[test]
    fn the_page_header_is_as_the_kernel_says() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let layout = page_layout(text).expect("a layout");
        assert_eq!((layout.commit_at, layout.commit_bytes), (8, 8));
        assert_eq!((layout.data_at, layout.page_bytes), (16, 4096));
        assert!(page_layout("").is_none());
    }
}
