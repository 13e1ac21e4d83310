// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds each JSON document that a test lets foreread print to its schema in `docs/schemas/`.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

/// Lines of a log are read by `explain` only.
const WITHOUT_SCHEMA: [&str; 1] = ["foreread.watch.log/1"];

/// The documents on both outputs are as their schemas say, and have no field that their schema
/// lacks.
pub fn check(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        if let Some(document) = document_in(text) {
            check_document(&document);
        }
    }
}

/// The first document, if there is one. A test of a failed write may leave half of it.
fn document_in(text: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(text).ok()?;
    let begin = match text.starts_with('{') {
        true => 0,
        false => text.find("\n{")?,
    };
    let mut documents = serde_json::Deserializer::from_str(&text[begin..]).into_iter();
    documents.next()?.ok()
}

/// A document is as its schema says.
pub fn check_document(document: &Value) {
    let Some(name) = document["schema"].as_str() else {
        return;
    };
    if WITHOUT_SCHEMA.contains(&name) {
        return;
    }
    let file = format!("../../docs/schemas/{}.json", name.replace('/', "."));
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
        .unwrap_or_else(|error| panic!("{name} has no schema: {error}"));
    let mut schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    forbid_others(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema is one");
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{document:#}");
}

/// From now on each object may have only the fields that the schema names.
fn forbid_others(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let has_fields = members.contains_key("properties");
            for (name, member) in members.iter_mut() {
                // What an object with fields may be besides adds fields to it.
                let is_same_object = ["oneOf", "anyOf", "allOf"].contains(&name.as_str());
                if !(has_fields && is_same_object) {
                    forbid_others(member);
                }
            }
            if has_fields {
                members.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        Value::Array(members) => members.iter_mut().for_each(forbid_others),
        _ => {}
    }
}
