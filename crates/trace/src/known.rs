// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and threads by their ids, for readers of events.

use crate::types::{Event, Extent, File, FileId, Thread, ThreadId};

/// The files and threads that the events so far have defined. Readers and writers of traces keep to
/// [`limits`](crate::limits), and so does the memory that this takes.
#[derive(Clone, Debug, Default)]
pub struct Known {
    files: Vec<Option<KnownFile>>,
    threads: Vec<Option<Thread>>,
}

#[derive(Clone, Debug)]
struct KnownFile {
    file: File,
    extents: Vec<Extent>,
}

impl Known {
    /// Adds the definitions of an event.
    pub fn learn(&mut self, event: &Event) {
        match event {
            Event::File(id, file) => {
                let extents = Vec::new();
                let file = File::clone(file);
                *slot(&mut self.files, id.0) = Some(KnownFile { file, extents });
            }
            Event::Extents(id, extents) => {
                if let Some(Some(known)) = self.files.get_mut(id.0 as usize) {
                    known.extents.extend_from_slice(extents);
                }
            }
            Event::Thread(id, thread) => {
                *slot(&mut self.threads, id.0) = Some(Thread::clone(thread));
            }
            Event::ThreadEnd { .. } | Event::Access(_) => {}
        }
    }

    /// The file, if it is defined.
    #[must_use]
    pub fn file(&self, id: FileId) -> Option<&File> {
        let known = self.files.get(id.0 as usize)?;
        known.as_ref().map(|known| &known.file)
    }

    /// Where the file is on its device, in the order in which it was said.
    #[must_use]
    pub fn extents(&self, id: FileId) -> &[Extent] {
        match self.files.get(id.0 as usize) {
            Some(Some(known)) => &known.extents,
            _ => &[],
        }
    }

    /// The thread, if it is defined.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(id.0 as usize)?.as_ref()
    }

    /// All files, by id.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &File)> {
        let files = (0..).zip(&self.files);
        files.filter_map(|(id, known)| Some((FileId(id), &known.as_ref()?.file)))
    }

    /// All threads, by id.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        let threads = (0..).zip(&self.threads);
        threads.filter_map(|(id, thread)| Some((ThreadId(id), thread.as_ref()?)))
    }
}

fn slot<T>(all: &mut Vec<Option<T>>, id: u32) -> &mut Option<T> {
    let at = id as usize;
    if all.len() <= at {
        all.resize_with(at + 1, || None);
    }
    &mut all[at]
}
