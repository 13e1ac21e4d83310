// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace convert`, and what `cut` has in common with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use foreread_core::grouped;
use foreread_trace::{CopyError, LeftOut, Sink, Target, Wrote, copy, create};
use serde::Serialize;

use super::args::ConvertArguments;
use super::exit_code;
use super::findings::{self, FindingsReport};
use super::input::Input;
use super::output::{Output, target};
use crate::output::report;
use crate::text;

/// `foreread trace convert`.
pub fn convert(arguments: &ConvertArguments) -> Result<ExitCode> {
    let target = target(arguments.to_format, &arguments.output, "--to-format")?;
    let input = Input::open(&arguments.input, arguments.how.options())?;
    let writing = Writing {
        verb: "convert",
        target,
        output: &arguments.output,
        json: arguments.json,
    };
    writing.run(input, |input, sink| {
        copy(&mut *input.events, sink, |_| true)
    })
}

/// A trace that is written from another one.
pub struct Writing<'a> {
    pub verb: &'static str,
    pub target: Target,
    pub output: &'a Path,
    pub json: bool,
}

/// A trace that was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WroteReport<'a> {
    schema: String,
    /// The trace that was read.
    file: &'a str,
    /// The trace that was written.
    output: &'a str,
    /// Name of the format.
    format: &'static str,
    accesses: u64,
    /// Accesses that the format has no word for.
    no_word: u64,
    /// Files that have other names in it.
    renamed_files: u64,
    /// Accesses that are not in the trace that was read, by their kind.
    left_out: BTreeMap<&'static str, u64>,
    /// What could not be read, and what was left out.
    findings: FindingsReport,
}

impl Writing<'_> {
    /// Writes what `fill` copies, and says what became of it.
    pub fn run(
        &self,
        mut input: Input,
        fill: impl FnOnce(&mut Input, &mut dyn Sink) -> Result<(), CopyError>,
    ) -> Result<ExitCode> {
        let (output, file) = Output::create(self.output)?;
        let to = output.name.clone();
        let cannot = || format!("cannot write {to}");
        let mut sink = create(file, self.target, input.events.header()).with_context(cannot)?;
        match fill(&mut input, &mut *sink) {
            Ok(()) => {}
            Err(CopyError::Read(error)) => return Err(error).context(input.name.clone()),
            Err(CopyError::Write(error)) if is_gone(&error) => return Ok(ExitCode::SUCCESS),
            Err(CopyError::Write(error)) => return Err(error).with_context(cannot),
        }
        let wrote = match sink.finish() {
            Ok(wrote) => wrote,
            Err(error) if is_gone(&error) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error).with_context(cannot),
        };
        output.finish()?;
        let code = exit_code(input.events.findings());
        self.tell(input, &to, &wrote)?;
        Ok(code)
    }

    fn tell(&self, input: Input, to: &str, wrote: &Wrote) -> Result<()> {
        let found = input.events.findings().clone();
        let name = input.name.clone();
        drop(input);
        if self.json {
            let report = WroteReport {
                schema: format!("foreread.trace-{}/1", self.verb),
                file: &name,
                output: to,
                format: self.target.name(),
                accesses: wrote.accesses,
                no_word: wrote.left_out.get(LeftOut::NoWord),
                renamed_files: wrote.renamed_files,
                left_out: findings::left_out(&found),
                findings: FindingsReport::of(&found),
            };
            if self.output == Path::new("-") {
                eprintln!("{:#}", text::json(&report));
                return Ok(());
            }
            return text::print_json(&report);
        }
        findings::tell(&name, &found);
        // Gaps of the source are reported for `convert` only: for a part of a trace they mean
        // nothing.
        let of_source = found.left_out.iter().filter(|_| self.verb == "convert");
        let left_out: Vec<String> = of_source
            .chain(wrote.left_out.iter())
            .map(|(what, count)| format!("{} {}", grouped(count), what.words()))
            .collect();
        let mut line = format!("{} accesses in {to}", grouped(wrote.accesses));
        if !left_out.is_empty() {
            line += &format!("; left out: {}", left_out.join(", "));
        }
        if wrote.renamed_files > 0 {
            let files = grouped(wrote.renamed_files);
            line += &format!("; {files} files have other names there");
        }
        report(&line);
        Ok(())
    }
}

/// A reader that has gone, as in `| head`, has seen what it wanted.
fn is_gone(error: &foreread_trace::WriteError) -> bool {
    let gone = std::io::ErrorKind::BrokenPipe;
    matches!(error, foreread_trace::WriteError::Io(error) if error.kind() == gone)
}
