// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between a helper process and its asker: any bytes are a message or an error, and what
//! is a message comes back as it was.
#![no_main]

use foreread_prefetch::helper::frame::message;
use foreread_prefetch::helper::{Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = message(bytes);
    if let Ok(request) = Request::from_bytes(bytes) {
        assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
    }
    if let Ok(reply) = Reply::from_bytes(bytes) {
        assert_eq!(Reply::from_bytes(&reply.to_bytes()), Ok(reply));
    }
});
