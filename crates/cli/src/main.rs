// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `foreread` command: glue, output, exit codes.
#![forbid(unsafe_code)]

mod advise;
mod alone;
mod analyze;
mod apply;
mod args;
mod axes;
mod check_kernel;
mod compare;
mod demo;
mod device_state;
mod doctor;
mod explain;
mod helper;
mod left_alone;
mod merge;
mod output;
mod package;
mod positions;
mod probe;
mod probing;
mod run;
mod runs;
mod script;
mod show;
mod sim;
mod socket;
mod stat;
mod store;
mod svg;
mod table;
mod text;
mod trace;
mod typed;
mod watch;

use std::process::ExitCode;

use args::Verb;
use foreread_sys::signals;

/// Usage or failure.
const EXIT_FAILURE: u8 = 2;
/// Done in part: something could not be read, was lost on the way, or stayed as it was.
const EXIT_PARTLY: u8 = 64;

fn main() -> ExitCode {
    // Before anything is opened, and before the first thread.
    if helper::has_served() {
        return ExitCode::SUCCESS;
    }
    let verb = Verb::parse();
    if verb.wraps_a_command() {
        // Before the first thread.
        signals::hold();
    }
    let done = match verb {
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Record(arguments) => run::record(&arguments),
        Verb::Replay(arguments) => run::replay(&arguments),
        Verb::Show(arguments) => show::show(&arguments),
        Verb::Merge(arguments) => merge::merge(&arguments),
        Verb::Sim(arguments) => sim::sim(&arguments),
        Verb::Advise(arguments) => advise::advise(&arguments),
        Verb::Analyze(arguments) => analyze::analyze(&arguments),
        Verb::Trace(arguments) => trace::trace(&arguments),
        Verb::Compare(arguments) => compare::compare(&arguments),
        Verb::Apply(arguments) => apply::apply(&arguments),
        Verb::Status(arguments) => apply::status(&arguments),
        Verb::Rollback(arguments) => apply::rollback(&arguments),
        Verb::Doctor(arguments) => doctor::doctor(&arguments),
        Verb::Demo(arguments) => demo::demo(&arguments),
        Verb::Stat(arguments) => stat::stat(&arguments),
        Verb::Probe(arguments) => probe::probe(&arguments),
        Verb::Watch(arguments) => watch::watch(&arguments),
        Verb::Explain(arguments) => explain::explain(&arguments),
        Verb::CheckKernel(arguments) => check_kernel::check_kernel(&arguments),
        Verb::Package(arguments) => package::package(&arguments),
    };
    done.unwrap_or_else(|error| {
        output::error(&error);
        ExitCode::from(EXIT_FAILURE)
    })
}
