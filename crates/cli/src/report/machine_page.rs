// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a machine.

use foreread_core::{Bytes, KiB, grouped};
use foreread_device::{Advice, Device};
use foreread_profile::benefit::judge;

use super::charts::curve;
use super::html::{Column, legend, paragraph, section, soft, steps, table, tile};
use super::machine::{FIRST_STEPS, Machine};
use super::run_charts::{self, BOOTS_LEGEND, TIMES_LEGEND};
use super::service_page;
use crate::advise::human as advice_words;
use crate::boot::status::{mode, verdict};
use crate::doctor::Status;
use crate::output::{counted, pages, time};
use crate::picture::page::{self, html};
use crate::show::{Shown, judgement, list};
use crate::text::{command_line, date, escaped, escaped_path, printable};

pub const STYLE: &str = include_str!("style.css");

/// Programs that have a chart; the rest are rows of a table.
const CARDS_MAX: usize = 24;
/// Boots in the table.
const BOOTS_MAX: usize = 16;

pub fn page(machine: &Machine) -> String {
    let title = format!("foreread report: {}", machine.host);
    let mut page = page::begin(&title, STYLE);
    page += &format!(
        "<header>\n<h1>{}<small>{} · Linux {} · foreread {}</small></h1>\n",
        html(&machine.host),
        date(machine.written_unix_s),
        html(&printable(&machine.kernel)),
        env!("CARGO_PKG_VERSION"),
    );
    if !machine.left_out.is_empty() {
        let left_out = html(&machine.left_out.join("; "));
        page += &format!("<p class=\"note\">Left out: {left_out}.</p>\n");
    }
    if machine.is_fresh() {
        page += "<p>Nothing was recorded, measured or set on this machine yet. To begin with, one \
                 of:</p>\n";
        page += &steps(FIRST_STEPS);
    }
    page += &tiles(machine);
    page += "</header>\n<main>\n";
    page += &section("service", "Read ahead now", &service_page::content(machine));
    page += &section(
        "programs",
        "Programs and their profiles",
        &programs(machine),
    );
    page += &section("devices", "Devices", &devices(machine));
    page += &section("applied", "What apply has set", &applied(machine));
    page += &section("boot", "Boots", &boots(machine));
    page += &section("doctor", "Kernel and rights", &doctor(machine));
    page + "</main>\n" + page::END
}

/// The machine in six numbers.
fn tiles(machine: &Machine) -> String {
    let service = match (&machine.live, machine.is_watched) {
        (Some(live), _) => (
            counted(live.helped.len() as u64, "program", "programs"),
            "read ahead of by the service lately",
        ),
        (None, true) => ("runs".to_owned(), "the service, which could not be asked"),
        (None, false) => ("not running".to_owned(), "the service"),
    };
    let advice = machine
        .advised
        .all()
        .filter(|(device, _)| !device.is_idle());
    let changes = advice.filter(|(_, advice)| advice.is_change()).count();
    let applied = machine
        .applied
        .as_ref()
        .map_or(0, |report| report.open.len());
    let lacking = machine.examined.lacking().count();
    let mut tiles = "<ul class=\"tiles\">\n".to_owned();
    tiles += &tile("service", &service.0, service.1);
    tiles += &tile("programs", &saved(machine), &saved_by(machine));
    tiles += &tile(
        "devices",
        &counted(changes as u64, "device", "devices"),
        "with another readahead size than advised",
    );
    tiles += &tile(
        "applied",
        &counted(applied as u64, "setting", "settings"),
        "made by apply",
    );
    tiles += &tile("boot", &boot_gain(machine), "gained by a replayed boot");
    tiles += &tile(
        "doctor",
        &counted(lacking as u64, "thing", "things"),
        "lacking for run and replay",
    );
    tiles + "</ul>\n"
}

/// The profiles that can be read.
fn shown(machine: &Machine) -> impl Iterator<Item = (&str, &Shown)> {
    let found = machine.profiles.iter();
    found.filter_map(|(name, shown)| Some((&**name, shown.as_ref().ok()?)))
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs()))
}

/// What the latest measured run of each program saved, together.
fn saved(machine: &Machine) -> String {
    let saved = shown(machine).filter_map(|(_, shown)| list::last_saved(&shown.profile.runs));
    let sum = saved.reduce(i64::saturating_add);
    sum.map_or("nothing yet".to_owned(), signed)
}

fn saved_by(machine: &Machine) -> String {
    let count = shown(machine).count() as u64;
    format!(
        "saved by the latest runs of {}",
        counted(count, "program", "programs")
    )
}

fn boot_gain(machine: &Machine) -> String {
    let gain = machine
        .boot
        .as_ref()
        .and_then(|boot| boot.judged.saved_ns());
    gain.map_or("not known".to_owned(), signed)
}

fn programs(machine: &Machine) -> String {
    let place = machine
        .store
        .as_deref()
        .map(escaped_path)
        .unwrap_or_default();
    let mut by_worth: Vec<_> = shown(machine).collect();
    if machine.profiles.is_empty() {
        let words = "`foreread run -- COMMAND` records one";
        return paragraph(&format!("No profiles in {place} yet; {words}."));
    }
    let worth = |shown: &Shown| list::last_saved(&shown.profile.runs).unwrap_or(i64::MIN);
    by_worth.sort_by_key(|(name, shown)| (std::cmp::Reverse(worth(shown)), *name));
    let stored: u64 = by_worth.iter().map(|(_, shown)| shown.stored_bytes).sum();
    let count = counted(by_worth.len() as u64, "profile", "profiles");
    let mut content = soft(&format!(
        "{count}, {}, in {place}.",
        Bytes::new(stored).human()
    ));
    content += &legend(&TIMES_LEGEND);
    content += &soft("Pale bars: the files were in memory already.");
    content += "<div class=\"cards\">\n";
    for (name, shown) in by_worth.iter().take(CARDS_MAX) {
        content += &card(name, shown);
    }
    content += "</div>\n";
    if let Some(rest) = by_worth.get(CARDS_MAX..).filter(|rest| !rest.is_empty()) {
        let rows: Vec<Vec<String>> = rest.iter().map(|(name, shown)| row(name, shown)).collect();
        content += &table("More profiles", &PROGRAM_COLUMNS, &rows);
    }
    for (name, error) in machine
        .profiles
        .iter()
        .filter_map(|(n, s)| Some((n, s.as_ref().err()?)))
    {
        content += &paragraph(&format!("{name} can't be read: {error:#}"));
    }
    content
}

const PROGRAM_COLUMNS: [Column; 5] = [
    Column::Text("command"),
    Column::Text("profile"),
    Column::Number("runs"),
    Column::Number("saved"),
    Column::Short("replay"),
];

fn saved_of(shown: &Shown) -> String {
    list::last_saved(&shown.profile.runs).map_or("-".to_owned(), signed)
}

fn row(name: &str, shown: &Shown) -> Vec<String> {
    let runs = &shown.profile.runs;
    let replays = if judge(runs).replays() { "on" } else { "off" };
    vec![
        command_line(&shown.profile.program.arguments),
        name.to_owned(),
        grouped(runs.len() as u64),
        saved_of(shown),
        replays.to_owned(),
    ]
}

fn card(name: &str, shown: &Shown) -> String {
    let profile = &shown.profile;
    let command = html(&command_line(&profile.program.arguments));
    let mut card = format!("<article class=\"card\">\n<h3>{command}</h3>\n");
    card += &soft(&format!("in {}", escaped(&profile.program.directory)));
    card += &run_charts::times(&profile.runs).unwrap_or_default();
    card += &paragraph(&format!(
        "Saved by the latest run: {}. It reads {}; replay is {}.",
        saved_of(shown),
        pages(profile.total_pages()),
        judgement(&profile.runs),
    ));
    card + &soft(name) + "</article>\n"
}

const DEVICE_COLUMNS: [Column; 6] = [
    Column::Text("device"),
    Column::Text("what it is"),
    Column::Number("size"),
    Column::Number("set now, KiB"),
    Column::Number("advised, KiB"),
    Column::Text("because of"),
];

fn devices(machine: &Machine) -> String {
    let (idle, used): (Vec<_>, Vec<_>) = machine.advised.all().partition(|(d, _)| d.is_idle());
    let rows: Vec<Vec<String>> = used
        .iter()
        .map(|(device, advice)| device_row(device, advice))
        .collect();
    let mut content = match rows.is_empty() {
        true => paragraph("No device with readahead of its own."),
        false => table("Devices", &DEVICE_COLUMNS, &rows),
    };
    for (device, advice) in &used {
        for line in advice_words::remarks(device, advice) {
            content += &soft(&format!("{}: {line}", advice_words::name(device)));
        }
    }
    if !idle.is_empty() {
        let left_out = counted(idle.len() as u64, "device", "devices");
        content += &soft(&format!(
            "{left_out} left out: memory, and loop devices without a file."
        ));
    }
    let curves: Vec<_> = machine.curves().collect();
    if curves.is_empty() {
        let words = "`sudo foreread probe DEVICE` measures which size suits it";
        return content + &soft(&format!("No device was measured yet; {words}."));
    }
    content += &legend(&[
        ("curve line-blue", "measured throughput, with its range"),
        ("line-green", "plateau"),
        ("line-orange", "set now"),
        ("advised line-violet", "advised"),
    ]);
    content += "<div class=\"cards\">\n";
    for (at, measured) in curves {
        let (device, advice) = (
            &machine.advised.machine.devices[at],
            &machine.advised.advice[at],
        );
        let mut marks = vec![("line-green", measured.plateau_kib, "plateau")];
        marks.extend(advice.now_kib.map(|kib| ("line-orange", kib, "set now")));
        marks.extend(
            advice
                .advised_kib
                .map(|kib| ("advised line-violet", kib, "advised")),
        );
        let name = advice_words::name(device);
        let about = format!("Throughput of {name} by readahead size");
        let sure = if measured.certain {
            ""
        } else {
            ", not certain"
        };
        content += &format!("<article class=\"card\">\n<h3>{}</h3>\n", html(&name));
        content += &curve(&about, measured, &marks);
        content += &paragraph(&format!(
            "Plateau {}{sure}; measured {}.",
            KiB::new(measured.plateau_kib),
            date(measured.unix_s)
        ));
        content += "</article>\n";
    }
    content + "</div>\n"
}

fn device_row(device: &Device, advice: &Advice) -> Vec<String> {
    let capacity = device.identity.capacity_bytes;
    vec![
        advice_words::name(device),
        printable(&advice_words::what(device)),
        capacity.map_or("-".to_owned(), |bytes| {
            Bytes::new(bytes).human().to_string()
        }),
        advice.now_kib.map_or("-".to_owned(), grouped),
        match advice.advised_kib {
            Some(kib) if advice.is_change() => grouped(kib),
            Some(_) => "as it is".to_owned(),
            None => "-".to_owned(),
        },
        printable(advice.brief()),
    ]
}

fn applied(machine: &Machine) -> String {
    let Some(report) = &machine.applied else {
        return paragraph("Left out, see above.");
    };
    if report.open.is_empty() {
        return paragraph("Nothing; `sudo foreread apply --all` sets what is advised.");
    }
    let columns = [
        Column::Text("device"),
        Column::Number("was, KiB"),
        Column::Number("set, KiB"),
        Column::Short("since"),
        Column::Short("state"),
        Column::Text("because of"),
    ];
    let rows = report.open.iter().map(|(entry, standing)| {
        let last = entry.steps.last();
        vec![
            printable(&entry.identity.name),
            grouped(entry.original_kib),
            grouped(entry.wanted_kib()),
            last.map_or("-".to_owned(), |step| date(step.unix_s)),
            standing.name().to_owned(),
            last.map_or(String::new(), |step| printable(&step.reason)),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table("What apply has set", &columns, &rows)
        + &soft(
            "ours: as applied. manual: as a person named it. foreign: somebody else has set another \
             value since. gone: the device is not there any more.",
        )
}

fn boots(machine: &Machine) -> String {
    let Some(boot) = &machine.boot else {
        return paragraph("Left out, see above.");
    };
    let mut content = paragraph(match boot.is_enabled {
        true => "Boots are recorded and replayed.",
        false => "Not enabled; `sudo foreread boot enable` does it.",
    });
    if let Some(why) = boot.profile.lacking.as_ref().filter(|_| boot.is_enabled) {
        content += &paragraph(&format!("No profile: {why}."));
    }
    let all = boot.history.boots();
    if all.is_empty() {
        return content;
    }
    verdict(&boot.judged)
        .lines()
        .for_each(|line| content += &paragraph(line));
    let without_ns = boot.judged.without.map(|spread| spread.median_ns);
    if let Some(chart) = run_charts::boots(all, without_ns) {
        let legend = legend(&BOOTS_LEGEND);
        content += &format!(
            "<div class=\"cards\">\n<div class=\"card\">\n{chart}{legend}</div>\n</div>\n"
        );
    }
    let columns = [
        Column::Short("boot"),
        Column::Short("was"),
        Column::Number("to the target"),
        Column::Number("waited"),
        Column::Text("note"),
    ];
    let rows = all.iter().rev().take(BOOTS_MAX).map(|boot| {
        let at = |ns: Option<u64>| ns.map_or("-".to_owned(), time);
        let untypical = boot
            .untypical
            .as_ref()
            .map(|why| printable(&why.to_string()));
        vec![
            date(boot.started_unix_s),
            mode(boot.mode).to_owned(),
            at(boot.measured.map(|measured| measured.target_ns)),
            at(boot.measured.and_then(|measured| measured.stall_ns)),
            match boot.measured {
                None => "did not reach its target".to_owned(),
                Some(_) => untypical.unwrap_or_default(),
            },
        ]
    });
    content + &table("The latest boots", &columns, &rows.collect::<Vec<_>>())
}

fn doctor(machine: &Machine) -> String {
    let columns = [
        Column::Short("state"),
        Column::Text("of"),
        Column::Text("found"),
        Column::Text("remedy"),
    ];
    let rows = |wanted: fn(Status) -> bool| -> Vec<Vec<String>> {
        let checks = machine.examined.checks.iter();
        let checks = checks.filter(|check| wanted(check.status)).map(|check| {
            vec![
                check.status.name().to_owned(),
                printable(&check.name),
                printable(&check.found),
                check.remedy.as_deref().map_or(String::new(), printable),
            ]
        });
        checks.collect()
    };
    let lacking = rows(|status| status == Status::Lacking);
    let mut content = match lacking.is_empty() {
        true => paragraph("Run and replay work fully."),
        false => table("What is lacking", &columns, &lacking),
    };
    let others = rows(|status| status != Status::Lacking);
    let count = counted(others.len() as u64, "more check", "more checks");
    content += &format!("<details><summary>{count}</summary>\n");
    content + &table("More checks", &columns, &others) + "</details>\n"
}
