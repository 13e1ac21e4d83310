// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `foreread` command: glue, output, exit codes.
#![forbid(unsafe_code)]

mod advise;
mod alone;
mod analyze;
mod apply;
mod args;
mod boot;
mod check_kernel;
mod compare;
mod config;
#[cfg(test)]
mod conventions;
mod demo;
mod device_state;
mod doctor;
#[cfg(test)]
mod examples;
mod explain;
mod helper;
mod kernel;
mod layout;
mod left_alone;
mod live;
mod machine_state;
mod merge;
mod named_device;
mod named_profile;
mod output;
mod package;
mod picture;
mod planner_words;
mod probe;
mod probing;
mod profiles;
mod progress;
mod report;
mod run;
mod runs;
#[cfg(test)]
mod schemas;
mod script;
mod show;
mod sim;
mod socket;
mod stat;
mod status;
mod store;
mod table;
mod text;
mod trace;
mod trial;
mod typed;
mod watch;
mod without_root;

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;

use alone::{Failed, end_failed};
use anyhow::{Context, Result, bail};
use args::Verb;
use foreread_sys::child;
use foreread_sys::user::User;

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
    let Some((command, failed)) = verb.command() else {
        return run(&verb).unwrap_or_else(|error| {
            output::error(&error);
            ExitCode::from(EXIT_FAILURE)
        });
    };
    if let Some(name) = verb.user()
        && let Err(error) = run_as(name)
    {
        // Not as somebody else: it isn't run at all.
        output::error(&error);
        return ExitCode::from(EXIT_FAILURE);
    }
    // Before the first thread.
    child::guard(command, failed != Failed::Wholly);
    panic::set_hook(Box::new(|panic| output::note(&one_line(panic))));
    let done = panic::catch_unwind(AssertUnwindSafe(|| run(&verb)));
    let code = match done {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            output::error(&error);
            end_failed(command, failed)
        }
        Err(_) => end_failed(command, failed),
    };
    child::end();
    code
}

/// From now on commands run with the rights of this user.
fn run_as(name: &str) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("--user needs root: it runs a command as somebody else");
    }
    let user = User::named(name).with_context(|| match name {
        "" => "--user needs the name of a user".to_owned(),
        name => format!("cannot find the user {name}"),
    })?;
    child::run_as(&user).context("cannot run as another user")
}

/// A defect of ours, for whoever reports it.
fn one_line(panic: &PanicHookInfo<'_>) -> String {
    let at = panic.location().map(ToString::to_string);
    let why = panic.payload().downcast_ref::<&str>().copied();
    let why = why.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
    let (at, why) = (at.unwrap_or_default(), why.unwrap_or("no reason"));
    format!("internal error at {at}: {why}")
}

fn run(verb: &Verb) -> Result<ExitCode> {
    match verb {
        Verb::Run(arguments) => run::run(arguments),
        Verb::Record(arguments) => run::record(arguments),
        Verb::Replay(arguments) => run::replay(arguments),
        Verb::Show(arguments) => show::show(arguments),
        Verb::Merge(arguments) => merge::merge(arguments),
        Verb::Profiles(arguments) => profiles::profiles(arguments),
        Verb::Sim(arguments) => sim::sim(arguments),
        Verb::Boot(arguments) => boot::boot(arguments),
        Verb::Layout(arguments) => layout::layout(arguments),
        Verb::Advise(arguments) => advise::advise(arguments),
        Verb::Analyze(arguments) => analyze::analyze(arguments),
        Verb::Trace(arguments) => trace::trace(arguments),
        Verb::Compare(arguments) => compare::compare(arguments),
        Verb::Apply(arguments) => apply::apply(arguments),
        Verb::Status(arguments) => status::status(arguments),
        Verb::Rollback(arguments) => apply::rollback(arguments),
        Verb::Config(arguments) => config::config(arguments),
        Verb::Report(arguments) => report::report(arguments),
        Verb::Doctor(arguments) => doctor::doctor(arguments),
        Verb::Demo(arguments) => demo::demo(arguments),
        Verb::Stat(arguments) => stat::stat(arguments),
        Verb::Probe(arguments) => probe::probe(arguments),
        Verb::Try(arguments) => trial::trial(arguments),
        Verb::Watch(arguments) => watch::watch(arguments),
        Verb::Explain(arguments) => explain::explain(arguments),
        Verb::Kernel(arguments) => kernel::kernel(arguments),
        Verb::CheckKernel(arguments) => check_kernel::check_kernel(arguments),
        Verb::Package(arguments) => package::package(arguments),
    }
}
