// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flag that is set at the end of a scope, also when an assertion fails there.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped. Threads of a scope that run until the flag is set then end, or
/// the scope of a failed test would wait for them for ever.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
