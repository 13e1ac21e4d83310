// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was fetched ahead, of walks and of profiles alike, for programs.

use foreread_watch::tally::Tally;
use serde_json::{Value, json};

/// What was fetched, and what became of it.
pub fn fetched_document(tally: &Tally) -> Value {
    json!({
        "fetched_files": tally.fetched_files,
        "fetched_pages": tally.fetched_pages,
        "used_files": tally.used_files,
        "wasted_files": tally.wasted_files(),
        "missed_files": tally.missed_files,
    })
}
