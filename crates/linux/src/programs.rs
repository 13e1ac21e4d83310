// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all BPF programs need to be loaded, to tell what they see, and to be attached.

use std::mem::MaybeUninit;

use libbpf_rs::{Link, MapCore, OpenObject, PrintLevel, ProgramMut, RingBuffer, RingBufferBuilder};

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

/// The ring buffer of a map; each record is given to `receive` when it is consumed.
///
/// # Errors
/// [`BpfError`] when it can't be mapped.
pub(crate) fn ring(
    map: &dyn MapCore,
    mut receive: impl FnMut(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, BpfError> {
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(map, move |bytes| {
        receive(bytes);
        0
    });
    added.map_err(refused("mapping the ring buffer"))?;
    builder.build().map_err(refused("mapping the ring buffer"))
}

/// Attaches programs to their tracepoints, in this order. They are detached with their links.
///
/// # Errors
/// [`BpfError`] when a tracepoint refuses.
pub(crate) fn attach<'p, 'o: 'p>(
    programs: impl IntoIterator<Item = &'p mut ProgramMut<'o>>,
) -> Result<Vec<Link>, BpfError> {
    let links = programs.into_iter().map(|program| program.attach_trace());
    let links: Result<_, _> = links.collect();
    links.map_err(refused("attaching to a tracepoint"))
}
