// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a trace of the kernel: from pages of its ring buffers to accesses by inode.
//!
//! [`Chosen`] picks the events by their formats, [`PageLayout`] and [`Decoder`] read them,
//! [`Lineage`] tells whose they are, [`TraceReader`] adds up the accesses, and [`join`] gives them
//! names.

mod accesses;
mod chosen;
mod format;
mod join;
mod lineage;
mod reader;
mod ring_page;
mod ring_stats;

pub use accesses::{Accessed, Accesses, InodeKey};
pub use chosen::{Chosen, FormatError};
pub use format::{Decoder, Event, Kind, Life, Touch, page_layout};
pub use join::{Joined, join};
pub use lineage::Lineage;
pub use reader::{ReaderSetup, TraceReader};
pub use ring_page::PageLayout;
pub use ring_stats::lost_events;
