// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds `docs/schemas/` to the types that the verbs print: one JSON Schema for each document, made
//! from these types and the comments of their fields.
//!
//! `FOREREAD_WRITE_SCHEMAS=1 cargo test -p foreread --bin foreread schemas` writes the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// Documents that Foreread stores for itself. They are no interface.
const STORED: [&str; 4] = [
    "foreread.boot.installed/1",
    "foreread.kernel.installed/1",
    "foreread.probing/1",
    "foreread.recorder/1",
];

/// Units that end the name of a number.
const UNITS: [&str; 21] = [
    "ns",
    "us",
    "ms",
    "s",
    "bytes",
    "kib",
    "mib",
    "pages",
    "sectors",
    "blocks",
    "permille",
    "percent",
    "files",
    "directories",
    "requests",
    "reads",
    "seeks",
    "entries",
    "accesses",
    "mb_s",
    "unix",
];

/// Each document that a verb prints.
fn all() -> Vec<(&'static str, Value)> {
    vec![
        (
            "foreread.advice/1",
            schema_of::<crate::advise::json::AdviceReport<'static>>(),
        ),
        (
            "foreread.analyze/1",
            schema_of::<crate::analyze::json::AnalyzeReport<'static>>(),
        ),
        (
            "foreread.apply/1",
            schema_of::<crate::apply::json::ApplyJson<'static>>(),
        ),
        (
            "foreread.kernel.install/1",
            schema_of::<crate::kernel::install::InstallJson>(),
        ),
        (
            "foreread.kernel.load/1",
            schema_of::<crate::kernel::load::LoadJson>(),
        ),
        (
            "foreread.kernel.set/1",
            schema_of::<crate::kernel::load::LoadJson>(),
        ),
        (
            "foreread.kernel.status/1",
            schema_of::<crate::kernel::status::StatusJson>(),
        ),
        (
            "foreread.kernel.uninstall/1",
            schema_of::<crate::kernel::uninstall::UninstallJson>(),
        ),
        (
            "foreread.kernel.unload/1",
            schema_of::<crate::kernel::load::UnloadJson>(),
        ),
        ("foreread.report/1", schema_of::<AnyReport>()),
        (
            "foreread.rollback/1",
            schema_of::<crate::apply::json::RollbackJson<'static>>(),
        ),
        (
            "foreread.boot.chart/1",
            schema_of::<crate::boot::chart::json::ChartJson>(),
        ),
        (
            "foreread.boot.disable/1",
            schema_of::<crate::boot::enable::ChangesJson<'static>>(),
        ),
        (
            "foreread.boot.enable/1",
            schema_of::<crate::boot::enable::ChangesJson<'static>>(),
        ),
        (
            "foreread.boot.export/1",
            schema_of::<crate::boot::exchange::ExportJson>(),
        ),
        (
            "foreread.boot.import/1",
            schema_of::<crate::boot::exchange::ImportJson>(),
        ),
        (
            "foreread.boot.served/1",
            schema_of::<crate::boot::serve::ServedJson>(),
        ),
        (
            "foreread.boot.show/1",
            schema_of::<crate::boot::show::ShowJson>(),
        ),
        (
            "foreread.boot.status/1",
            schema_of::<crate::boot::status::StatusJson<'static>>(),
        ),
        (
            "foreread.check-kernel/1",
            schema_of::<crate::check_kernel::json::CheckKernelReport<'static>>(),
        ),
        (
            "foreread.compare/1",
            schema_of::<crate::compare::json::CompareReport<'static>>(),
        ),
        (
            "foreread.config/1",
            schema_of::<crate::config::ConfigReport>(),
        ),
        (
            "foreread.demo/1",
            schema_of::<crate::demo::json::DemoReport<'static>>(),
        ),
        (
            "foreread.doctor/1",
            schema_of::<crate::doctor::DoctorReport<'static>>(),
        ),
        (
            "foreread.explain/1",
            schema_of::<crate::explain::report::ExplainReport<'static>>(),
        ),
        (
            "foreread.layout.apply/1",
            schema_of::<crate::layout::json::MovedReport>(),
        ),
        (
            "foreread.layout.order/1",
            schema_of::<crate::layout::order::OrderReport>(),
        ),
        (
            "foreread.layout.plan/1",
            schema_of::<crate::layout::json::PlanReport>(),
        ),
        (
            "foreread.layout.resume/1",
            schema_of::<crate::layout::json::MovedReport>(),
        ),
        (
            "foreread.layout.status/1",
            schema_of::<crate::layout::json::StatusReport>(),
        ),
        (
            "foreread.layout.undo/1",
            schema_of::<crate::layout::json::MovedReport>(),
        ),
        (
            "foreread.layout/1",
            schema_of::<crate::layout::json::ShowReport>(),
        ),
        ("foreread.merge/1", schema_of::<crate::merge::MergeReport>()),
        (
            "foreread.probe/1",
            schema_of::<crate::probe::json::ProbeReport<'static>>(),
        ),
        (
            "foreread.profiles.forget/1",
            schema_of::<crate::profiles::forget::ForgetReport>(),
        ),
        (
            "foreread.profiles/1",
            schema_of::<crate::show::list::ListReport<'static>>(),
        ),
        (
            "foreread.record-trace/1",
            schema_of::<crate::run::traced::TracedReport>(),
        ),
        (
            "foreread.replay/1",
            schema_of::<crate::run::replayed::DoneReport>(),
        ),
        (
            "foreread.run/1",
            schema_of::<crate::run::json::RunReport<'static>>(),
        ),
        (
            "foreread.show/1",
            schema_of::<crate::show::json::ShowReport>(),
        ),
        (
            "foreread.sim.module-replay/1",
            schema_of::<crate::sim::module_replay::ModuleReplayReport<'static>>(),
        ),
        (
            "foreread.sim.replay/1",
            schema_of::<crate::sim::replay::described::Replay>(),
        ),
        (
            "foreread.sim/1",
            schema_of::<crate::sim::json::SimReport<'static>>(),
        ),
        (
            "foreread.stat.module/1",
            schema_of::<crate::stat::of_module::ModuleReport>(),
        ),
        (
            "foreread.stat/1",
            schema_of::<crate::stat::json::StatReport<'static>>(),
        ),
        (
            "foreread.status/2",
            schema_of::<crate::status::json::Document<'static>>(),
        ),
        (
            "foreread.trace-convert/1",
            schema_of::<crate::trace::convert::WroteReport<'static>>(),
        ),
        (
            "foreread.trace-cut/1",
            schema_of::<crate::trace::convert::WroteReport<'static>>(),
        ),
        (
            "foreread.trace-head/1",
            schema_of::<crate::trace::head::HeadReport<'static>>(),
        ),
        (
            "foreread.trace-info/1",
            schema_of::<crate::trace::info::InfoReport<'static>>(),
        ),
        (
            "foreread.try/1",
            schema_of::<crate::trial::json::TryReport>(),
        ),
        (
            "foreread.watch/1",
            schema_of::<crate::watch::report::WatchReport>(),
        ),
        (
            "foreread.workload/1",
            schema_of::<crate::probe::workload::WorkloadReport>(),
        ),
    ]
}

/// A report is about the machine or about one profile.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum AnyReport {
    Machine(crate::report::json::MachineJson<'static>),
    Profile(crate::report::json::OneJson),
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = SchemaGenerator::from(settings).into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    join_lines(&mut schema);
    schema
}

/// Comments have line breaks where the sources need them; a description needs none.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => {
                        *text = text.replace('\n', " ");
                    }
                    member => join_lines(member),
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(join_lines),
        _ => {}
    }
}

/// The schema as it is stored: `schema` says which document it is.
fn stored((name, mut schema): (&'static str, Value)) -> (String, Value) {
    schema["title"] = json!(name);
    schema["properties"]["schema"] = json!({
        "const": name,
        "description": "The kind of this document, and its version. Fields may be added to a \
                        version; a field that is removed or means something else makes a new one."
    });
    (file_name(name), schema)
}

fn file_name(name: &str) -> String {
    format!("{}.json", name.replace('/', "."))
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

#[test]
fn files_are_as_the_types_say() {
    let is_written = std::env::var_os("FOREREAD_WRITE_SCHEMAS").is_some();
    let mut names = BTreeSet::new();
    for (name, schema) in all().into_iter().map(stored) {
        let path = directory().join(&name);
        let text = format!("{schema:#}\n");
        if is_written {
            std::fs::create_dir_all(directory()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{name} is out of date; the head of this module says how to write it"
        );
        names.insert(name);
    }
    let files = std::fs::read_dir(directory()).unwrap().flatten();
    let found: BTreeSet<String> = files
        .map(|file| file.file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, names);
}

#[test]
fn every_document_of_the_sources_has_one() {
    let mut missing = BTreeSet::new();
    let known: BTreeSet<&str> = all()
        .into_iter()
        .map(|(name, _)| name)
        .chain(STORED)
        .collect();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let names = text.split('"').filter(|word| is_document(word));
            missing.extend(
                names
                    .filter(|name| !known.contains(name))
                    .map(str::to_owned),
            );
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

/// Whether this is the name of a document, such as `foreread.run/1`.
fn is_document(word: &str) -> bool {
    word.strip_prefix("foreread.")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(name, version)| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || b".-".contains(&byte))
                && version.parse::<u32>().is_ok()
        })
}

#[test]
fn every_field_is_described_and_every_number_has_a_unit() {
    let mut undescribed = BTreeSet::new();
    for (name, schema) in all() {
        walk(&schema, &mut |field, of| {
            let is_described = of.get("description").is_some() || of.get("const").is_some();
            let has_unit = UNITS
                .iter()
                .any(|unit| field == *unit || field.split('_').any(|word| word == *unit));
            let is_clear = is_described || has_unit || field == "schema";
            if !is_clear {
                undescribed.insert(format!("{name}: {field}"));
            }
        });
    }
    assert!(
        undescribed.is_empty(),
        "{} fields: {undescribed:#?}",
        undescribed.len()
    );
}

/// Calls `visit` for each property below.
fn walk(schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                if let ("properties", Value::Object(fields)) = (name.as_str(), member) {
                    for (field, of) in fields {
                        visit(field, of);
                    }
                }
                walk(member, visit);
            }
        }
        Value::Array(members) => members.iter().for_each(|member| walk(member, visit)),
        _ => {}
    }
}
