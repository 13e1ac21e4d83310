// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace`: what a trace holds, and traces in other formats.

pub mod args;
pub mod convert;
mod cut;
pub mod findings;
pub mod head;
pub mod info;
pub mod input;
pub mod output;

use std::process::ExitCode;

use anyhow::Result;
use foreread_trace::Findings;

use args::{TraceArguments, TraceVerb};

/// `foreread trace`.
pub fn trace(arguments: &TraceArguments) -> Result<ExitCode> {
    match &arguments.verb {
        TraceVerb::Info(arguments) => info::info(arguments),
        TraceVerb::Head(arguments) => head::head(arguments),
        TraceVerb::Convert(arguments) => convert::convert(arguments),
        TraceVerb::Cut(arguments) => cut::cut(arguments),
    }
}

fn exit_code(findings: &Findings) -> ExitCode {
    if findings.is_whole() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(crate::EXIT_PARTLY)
    }
}
