// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all BPF programs need to be loaded, to tell what they see, and to be attached.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, OpenObject, PrintLevel, ProgramMut, RingBuffer, RingBufferBuilder};
use rustix::event::{PollFd, PollFlags, poll};

use crate::doctor::{BTF, Capabilities, Capability, btf_bytes};
use crate::interrupt::timespec;
use crate::recorder::{BpfError, refused};

/// A module `skeleton` with what libbpf-cargo made of a BPF program at build time.
macro_rules! skeleton {
    ($file:literal) => {
        #[allow(
            missing_docs,
            clippy::all,
            clippy::pedantic,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            unused_qualifications
        )]
        mod skeleton {
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
    };
}
pub(crate) use skeleton;

/// Where a skeleton is opened.
///
/// The skeleton borrows its object for as long as it lives: a few hundred bytes, once for each that
/// is opened, buy one without a lifetime.
pub(crate) fn storage() -> &'static mut MaybeUninit<OpenObject> {
    // libbpf prints a refused program's whole log; callers get the reason in one line.
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// What a kernel, or whoever asks it, lacks for programs to be loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Rights.
    Rights,
    /// A description of the kernel's types.
    Types,
    /// This tracepoint.
    Tracepoint(&'static str),
}

impl Lack {
    /// What is lacking here for programs that need these tracepoints; looked for when the kernel
    /// has refused them, and says less.
    pub fn here(needed: &[&'static str]) -> Option<Self> {
        Self::of(
            &fs::read(BTF).unwrap_or_default(),
            Capabilities::of_self(),
            btf_bytes().is_ok(),
            needed,
        )
    }

    /// The same of a kernel with these types.
    pub fn of(
        types: &[u8],
        capabilities: Capabilities,
        has_types: bool,
        needed: &[&'static str],
    ) -> Option<Self> {
        let may_load = capabilities.has(Capability::SysAdmin)
            || capabilities.has(Capability::Bpf) && capabilities.has(Capability::Perfmon);
        if !may_load {
            return Some(Self::Rights);
        }
        if !has_types {
            return Some(Self::Types);
        }
        let mut needed = needed.iter().copied();
        let tracepoint = needed.find(|name| !has_tracepoint(types, name));
        tracepoint.map(Self::Tracepoint)
    }
}

/// Whether the kernel's types have that of a tracepoint: a typedef `btf_trace_NAME`.
fn has_tracepoint(types: &[u8], name: &str) -> bool {
    let wanted = format!("\0btf_trace_{name}\0").into_bytes();
    types.windows(wanted.len()).any(|bytes| bytes == wanted)
}

/// Adds the ring buffer of a map; each record is given to `receive` when it is consumed.
///
/// # Errors
/// [`BpfError`] when it can't be mapped.
pub(crate) fn add_ring<'a>(
    builder: &mut RingBufferBuilder<'a, 'static>,
    map: &'a dyn MapCore,
    mut receive: impl FnMut(&[u8]) + 'static,
) -> Result<(), BpfError> {
    let added = builder.add(map, move |bytes| {
        receive(bytes);
        0
    });
    added.map(drop).map_err(refused("mapping the ring buffer"))
}

/// The ring buffer of a map alone.
///
/// # Errors
/// [`BpfError`] when it can't be mapped.
pub(crate) fn ring(
    map: &dyn MapCore,
    receive: impl FnMut(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, BpfError> {
    let mut builder = RingBufferBuilder::new();
    add_ring(&mut builder, map, receive)?;
    builder.build().map_err(refused("mapping the ring buffer"))
}

/// Waits so long at most, without a limit for ever, for a record or for `also`.
pub(crate) fn wait(ring: &RingBuffer<'_>, also: BorrowedFd<'_>, limit: Option<Duration>) {
    // SAFETY: the ring's descriptor is open for as long as the ring is.
    let records = unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) };
    let mut fds = [
        PollFd::from_borrowed_fd(records, PollFlags::IN),
        PollFd::from_borrowed_fd(also, PollFlags::IN),
    ];
    // Interrupted or not, what is there is taken.
    let _ = poll(&mut fds, limit.map(timespec).as_ref());
}

/// Attaches programs to their tracepoints, in this order. They are detached with their links.
///
/// # Errors
/// [`BpfError`] when a tracepoint refuses.
pub(crate) fn attach<'p, 'o: 'p>(
    programs: impl IntoIterator<Item = &'p mut ProgramMut<'o>>,
) -> Result<Vec<Link>, BpfError> {
    let links = programs.into_iter().map(|program| program.attach());
    let links: Result<_, _> = links.collect();
    links.map_err(refused("attaching to a tracepoint"))
}
