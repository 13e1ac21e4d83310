// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/check.bpf.c`: loaded, attached, drained, asked.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use foreread_bpf::skeletons::check::types::check_event;
use foreread_bpf::skeletons::check::{CheckSkel, CheckSkelBuilder};
use foreread_bpf::{BpfError, MissingHook, Served, field, needs, refused};
use foreread_sim::check::{Facts, Remembered};
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, ProgramInput, RingBuffer};

/// In the order in which they are attached.
const HOOKS: [&str; 9] = [
    "inserted",
    "removed",
    "sync_ra",
    "async_ra",
    "ra_order",
    "ra_unbounded",
    "fault",
    "taken_again",
    "mapped",
];

/// `enum check_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Inserted,
    Removed,
    Sync,
    Async,
    Order,
    Unbounded,
    Fault,
    Late,
    StillLate,
    Mapped,
    Others,
}

/// `struct check_event`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub kind: Kind,
    pub order: u8,
    pub index: u64,
    pub pages: u64,
    async_pages: u64,
}

impl Told {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let kind = match field!(bytes, check_event, kind)? {
            1 => Kind::Inserted,
            2 => Kind::Removed,
            3 => Kind::Sync,
            4 => Kind::Async,
            5 => Kind::Order,
            6 => Kind::Unbounded,
            7 => Kind::Fault,
            8 => Kind::Late,
            9 => Kind::StillLate,
            10 => Kind::Mapped,
            11 => Kind::Others,
            _ => return None,
        };
        Some(Self {
            kind,
            order: u8::try_from(field!(bytes, check_event, order)?).unwrap_or(u8::MAX),
            index: field!(bytes, check_event, index)?,
            pages: field!(bytes, check_event, pages)?,
            async_pages: field!(bytes, check_event, async_pages)?,
        })
    }
}

impl fmt::Display for Told {
    /// As the tracepoints print it, shorter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, pages, ahead) = (self.index, self.pages, self.async_pages);
        match self.kind {
            Kind::Inserted => write!(f, "inserts {index}, order {}", self.order),
            Kind::Removed => write!(f, "removes {index}, order {}", self.order),
            Kind::Sync => write!(f, "page_cache_sync_ra at {index} for {pages}"),
            Kind::Async => write!(f, "page_cache_async_ra at {index} for {pages}"),
            Kind::Order => {
                let order = self.order;
                write!(
                    f,
                    "page_cache_ra_order {index}+{pages} a{ahead}, order {order}"
                )
            }
            Kind::Unbounded => {
                write!(f, "page_cache_ra_unbounded {index}+{pages} a{ahead}")
            }
            Kind::Fault => write!(f, "filemap_fault at {index}"),
            Kind::Mapped => write!(f, "filemap_map_pages {index}+{pages}"),
            Kind::Others => write!(f, "somebody else read {index}"),
            Kind::Late | Kind::StillLate => write!(f, "the folio at {index} is late"),
        }
    }
}

/// The kernel's state of a descriptor.
pub(super) struct Looked {
    /// Address of its inode.
    pub host: u64,
    pub facts: Facts,
    pub remembered: Remembered,
}

/// The programs in the kernel. Detached when dropped.
pub struct Watcher {
    skel: CheckSkel<'static>,
    ring: RingBuffer<'static>,
    told: Rc<RefCell<Vec<Told>>>,
    served: Served,
    _links: Vec<Link>,
}

impl Watcher {
    /// Loads and attaches them; nothing is watched yet.
    ///
    /// # Errors
    /// [`BpfError`] when BPF, BTF or one of the hooks isn't there, or rights are missing.
    pub fn load() -> Result<Self, BpfError> {
        let (skel, mut served) =
            foreread_bpf::load::<CheckSkelBuilder>(&HOOKS.map(needs), |_| Ok(()))?;
        let told = Rc::new(RefCell::new(Vec::new()));
        let receiver = Rc::clone(&told);
        let ring = foreread_bpf::ring(&skel.maps.fr_chk_events, move |bytes| {
            receiver.borrow_mut().extend(Told::from_bytes(bytes));
        })?;
        let links = served.attach(skel.object(), &HOOKS)?;
        Ok(Self {
            skel,
            ring,
            told,
            served,
            _links: links,
        })
    }

    /// Events that aren't seen on this kernel.
    #[must_use]
    pub fn lacking(&self) -> &[MissingHook] {
        self.served.lacking()
    }

    /// Watches an inode, by its address; 0 for none.
    pub(super) fn watch(&mut self, host: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.watched_host = host;
        }
    }

    /// Events since the last call.
    pub(super) fn drain(&self) -> Vec<Told> {
        // An error here is a damaged ring: the folios in it show as pages that were never inserted.
        let _ = self.ring.consume();
        self.told.take()
    }

    /// A step begins: whatever came in before has arrived.
    pub(super) fn begin_step(&mut self, is_touch: bool) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.awaited_count = 0;
            bss.is_touch = is_touch.into();
        }
    }

    /// Events that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.lost)
    }

    /// Events at which the kernel has not run a program.
    pub(super) fn missed_events(&self) -> u64 {
        foreread_bpf::missed_calls(&self.served.all(self.skel.object()))
    }

    /// Asks about a descriptor of this process.
    pub(super) fn look(&mut self, descriptor: i32) -> Result<Looked, BpfError> {
        let missing = |reason: &str| BpfError::Refused {
            step: "asking for the state of a descriptor",
            reason: reason.to_owned(),
        };
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else {
            return Err(missing("the programs have no variables"));
        };
        bss.looked.descriptor = descriptor.cast_unsigned();
        self.skel
            .progs
            .fr_chk_look
            .test_run(ProgramInput::default())
            .map_err(refused("asking for the state of a descriptor"))?;
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return Err(missing("the programs have no variables"));
        };
        let looked = &bss.looked;
        if looked.found == 0 {
            return Err(missing("the descriptor is not open"));
        }
        Ok(Looked {
            host: looked.host,
            facts: Facts {
                ra_pages: u32::try_from(looked.bdi_ra_pages).unwrap_or(u32::MAX),
                io_pages: u32::try_from(looked.bdi_io_pages).unwrap_or(u32::MAX),
                folio_order_max: u8::try_from(looked.folio_order_max).unwrap_or(u8::MAX),
            },
            remembered: Remembered {
                start: looked.start,
                size: looked.size,
                async_size: looked.async_size,
                ra_pages: looked.ra_pages,
                order: looked.order,
                mmap_miss: looked.mmap_miss,
                prev_pos: looked.prev_pos,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_from_its_bytes() {
        let mut bytes = Vec::new();
        for word in [5u32, 2] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [1u64 << 40, 16, 8] {
            bytes.extend(word.to_ne_bytes());
        }
        let told = Told::from_bytes(&bytes).unwrap();
        assert_eq!((told.kind, told.order), (Kind::Order, 2));
        assert_eq!((told.index, told.pages, told.async_pages), (1 << 40, 16, 8));
        assert!(Told::from_bytes(&bytes[..31]).is_none());
        bytes[0] = 12;
        assert!(Told::from_bytes(&bytes).is_none(), "a kind that is none");
    }
}
