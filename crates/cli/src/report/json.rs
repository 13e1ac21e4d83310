// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread.report/1`: the documents of the other verbs, as parts of one. `docs/report.md`
//! describes the fields.

use foreread_device::{Expected, Measured};
use foreread_sys::clock::now_unix_s;
use foreread_watch::log::followed::FollowedFile;
use foreread_watch::log::left_alone::LeftAlone;
use serde::Serialize;

use super::live::{Helped, Live};
use super::machine::{FIRST_STEPS, Machine};
use crate::advise::json::AdviceReport;
use crate::apply::json::StatusJson;
use crate::boot::status::{self as boot_status};
use crate::doctor::DoctorReport;
use crate::show::Shown;
use crate::show::json::ShowReport;
use crate::show::list::Found;
use crate::text::{self, escaped_path};

const SCHEMA: &str = "foreread.report/1";

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineJson<'a> {
    schema: &'static str,
    /// `machine`.
    about: &'static str,
    written_unix_s: u64,
    /// Name of the machine.
    host: &'a str,
    /// Release of the kernel.
    kernel: &'a str,
    /// The version of Foreread.
    version: &'static str,
    /// What could not be read, and why.
    left_out: &'a [String],
    /// Commands to begin with, on a machine where nothing was done yet.
    first_steps: Vec<&'static str>,
    /// A running `watch`.
    service: ServiceJson<'a>,
    /// The stored profiles.
    profiles: ProfilesJson<'a>,
    /// `foreread.advice/1`.
    devices: serde_json::Value,
    /// Measured throughput of the devices that are there.
    measured: Vec<&'a Measured>,
    /// The readahead of `foreread.status/2`; null where it can't be read.
    applied: Option<StatusJson<'a>>,
    /// `foreread.boot.status/1`; null where it can't be read.
    boot: Option<boot_status::StatusJson<'a>>,
    /// `foreread.doctor/1`.
    doctor: DoctorReport<'a>,
}

/// A running `watch`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServiceJson<'a> {
    /// Whether one runs.
    running: bool,
    /// Programs that it read ahead of, the oldest first.
    helped: &'a [Helped],
    /// Files in which it follows streams now.
    #[cfg_attr(test, schemars(with = "Vec<serde_json::Value>"))]
    followed: &'a [FollowedFile],
    /// Why nothing is known of streams; null where it is.
    streams_unknown: Option<&'a str>,
    /// File systems that do not answer.
    #[cfg_attr(test, schemars(with = "Vec<serde_json::Value>"))]
    left_alone: &'a [LeftAlone],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfilesJson<'a> {
    /// Where they are stored; null where there is no such place.
    directory: Option<String>,
    /// Stored profiles.
    profiles: Vec<ProfileJson<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfileJson<'a> {
    /// Its name.
    name: &'a str,
    /// Why it can't be read; null if it can.
    error: Option<String>,
    /// `foreread.show/1`.
    profile: Option<ShowReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OneJson {
    schema: &'static str,
    /// `profile`.
    about: &'static str,
    written_unix_s: u64,
    /// `foreread.show/1`.
    profile: ShowReport,
}

pub fn machine(machine: &Machine) -> impl Serialize + use<'_> {
    let expected = Expected::default();
    let shown: Vec<_> = machine.advised.all().collect();
    let devices = AdviceReport::of(&shown, 0, &machine.advised, expected);
    let steps = FIRST_STEPS.iter().map(|(command, _)| *command);
    MachineJson {
        schema: SCHEMA,
        about: "machine",
        written_unix_s: machine.written_unix_s,
        host: &machine.host,
        kernel: &machine.kernel,
        version: env!("CARGO_PKG_VERSION"),
        left_out: &machine.left_out,
        first_steps: steps.filter(|_| machine.is_fresh()).collect(),
        service: service(machine.is_watched, machine.live.as_ref()),
        profiles: ProfilesJson {
            directory: machine.store.as_deref().map(escaped_path),
            profiles: machine.profiles.iter().map(listed).collect(),
        },
        devices: text::json(&devices),
        measured: machine.curves().map(|(_, measured)| measured).collect(),
        applied: machine.applied.as_ref().map(StatusJson::of),
        boot: machine.boot.as_ref().map(boot_status::document),
        doctor: machine.examined.document(),
    }
}

fn service(running: bool, live: Option<&Live>) -> ServiceJson<'_> {
    ServiceJson {
        running,
        helped: live.map_or(&[], |live| &live.helped),
        followed: live.map_or(&[], |live| &live.followed),
        streams_unknown: live.and_then(|live| live.streams_unknown.as_deref()),
        left_alone: live.map_or(&[], |live| &live.left_alone),
    }
}

fn listed((name, shown): &Found) -> ProfileJson<'_> {
    let shown = shown.as_ref();
    ProfileJson {
        name,
        error: shown
            .err()
            .map(|error| text::printable(&format!("{error:#}"))),
        profile: shown.ok().map(|shown| ShowReport::of(shown, false)),
    }
}

pub fn profile(shown: &Shown) -> impl Serialize {
    OneJson {
        schema: SCHEMA,
        about: "profile",
        written_unix_s: now_unix_s(),
        profile: ShowReport::of(shown, false),
    }
}
