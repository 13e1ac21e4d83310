// SPDX-License-Identifier: MIT OR Apache-2.0
//! This executable as a helper process, which asks file systems that may never answer.

use foreread_sys::helper_process;

/// Works for the process that started this one, if this is a helper. Returns whether it was.
pub fn has_served() -> bool {
    let Some(socket) = helper_process::become_helper() else {
        foreread_linux_helper::enable();
        return false;
    };
    foreread_linux_helper::serve(
        socket,
        foreread_linux_prefetcher::serve,
        &[
            foreread_linux_watch::answer_helper_request,
            foreread_linux_recorder::answer_helper_request,
        ],
    );
    true
}
