// SPDX-License-Identifier: MIT OR Apache-2.0
//! TOML with places: each value knows its line, and an error says which field it is about.

use std::ops::Range;

use foreread_core::{Bytes, Unit, parse_size};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// An error in a scenario: its place, and what to write instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {field}{}{what}", if field.is_empty() { "" } else { ": " })]
pub struct ScenarioError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The field, with its section; empty where the text is no TOML.
    pub field: String,
    /// The error, and its remedy.
    pub what: String,
}

/// The text of a scenario and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    pub fn error(self, at: usize, field: &str, what: impl Into<String>) -> ScenarioError {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        ScenarioError {
            file: self.file.to_owned(),
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            field: field.to_owned(),
            what: what.into(),
        }
    }

    /// The whole document.
    pub fn parse(self) -> Result<toml::Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, "", error.message().trim())
        })
    }
}

/// A table of the scenario.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    source: Source<'a>,
    name: String,
    table: &'a DeTable<'a>,
    at: usize,
}

/// One value with its place.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    source: Source<'a>,
    name: String,
    value: &'a DeValue<'a>,
    at: Range<usize>,
}

type Result<T> = std::result::Result<T, ScenarioError>;

impl<'a> Section<'a> {
    pub fn new(source: Source<'a>, name: &str, table: &'a DeTable<'a>, at: usize) -> Self {
        Self {
            source,
            name: name.to_owned(),
            table,
            at,
        }
    }

    /// The file's name.
    pub fn source_file(&self) -> &'a str {
        self.source.file
    }

    /// Refuses fields that are none of `known`.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let what = format!("no such field; there are: {}", known.join(", "));
                return Err(self.source.error(key.span().start, &self.full(name), what));
            }
        }
        Ok(())
    }

    fn full(&self, name: &str) -> String {
        if self.name.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.name)
        }
    }

    pub fn get(&self, name: &str) -> Option<Field<'a>> {
        let value = self.table.get(name)?;
        Some(Field {
            source: self.source,
            name: self.full(name),
            value: value.get_ref(),
            at: value.span(),
        })
    }

    /// All fields, in the order in which they stand.
    pub fn fields(&self) -> Vec<(&'a str, Field<'a>)> {
        let mut fields: Vec<(&'a str, Field<'a>)> = Vec::new();
        for (key, value) in self.table.iter() {
            let name: &'a str = key.get_ref();
            fields.push((
                name,
                Field {
                    source: self.source,
                    name: self.full(name),
                    value: value.get_ref(),
                    at: value.span(),
                },
            ));
        }
        fields.sort_by_key(|(_, field)| field.at.start);
        fields
    }

    pub fn section(&self, name: &str) -> Result<Option<Section<'a>>> {
        self.get(name).map(|field| field.section()).transpose()
    }

    /// `[[name]]`, in order.
    pub fn sections(&self, name: &str) -> Result<Vec<Section<'a>>> {
        let Some(field) = self.get(name) else {
            return Ok(Vec::new());
        };
        field.items().iter().map(Field::section).collect()
    }

    pub fn error(&self, name: &str, what: impl Into<String>) -> ScenarioError {
        let at = self.get(name).map_or(self.at, |field| field.at.start);
        self.source.error(at, &self.full(name), what)
    }

    pub fn required(&self, name: &str) -> Result<Field<'a>> {
        self.get(name).ok_or_else(|| self.error(name, "is missing"))
    }

    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.get(name).map(|field| field.text()).transpose()
    }

    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        self.get(name).map(|field| field.size()).transpose()
    }

    pub fn time(&self, name: &str) -> Result<Option<u64>> {
        self.get(name).map(|field| field.time()).transpose()
    }

    pub fn count(&self, name: &str) -> Result<Option<u64>> {
        self.get(name).map(|field| field.count()).transpose()
    }

    pub fn flag(&self, name: &str) -> Result<bool> {
        self.get(name).map_or(Ok(false), |field| field.flag())
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        self.get(name).map(|field| field.number()).transpose()
    }

    /// One of a few words.
    pub fn word<T: Clone>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        self.get(name).map(|field| field.word(words)).transpose()
    }

    /// A value, or a list of them.
    pub fn list<T>(
        &self,
        name: &str,
        each: impl Fn(&Field<'a>) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(field) = self.get(name) else {
            return Ok(None);
        };
        let values: Vec<T> = field.items().iter().map(each).collect::<Result<_>>()?;
        if values.is_empty() {
            return Err(field.error("the list is empty"));
        }
        Ok(Some(values))
    }
}

impl<'a> Field<'a> {
    pub fn error(&self, what: impl Into<String>) -> ScenarioError {
        self.source.error(self.at.start, &self.name, what)
    }

    pub fn section(&self) -> Result<Section<'a>> {
        match self.value {
            DeValue::Table(table) => {
                Ok(Section::new(self.source, &self.name, table, self.at.start))
            }
            _ => Err(self.error("expected a table of fields")),
        }
    }

    /// The elements of a list; a single value is a list of one.
    pub fn items(&self) -> Vec<Field<'a>> {
        let DeValue::Array(array) = self.value else {
            return vec![self.clone()];
        };
        let item = |value: &'a toml::Spanned<DeValue<'a>>| Field {
            source: self.source,
            name: self.name.clone(),
            value: value.get_ref(),
            at: value.span(),
        };
        array.iter().map(item).collect()
    }

    pub fn text(&self) -> Result<&'a str> {
        match self.value {
            DeValue::String(text) => Ok(text),
            _ => Err(self.error("expected a text in quotes")),
        }
    }

    /// A size with a unit, in bytes.
    pub fn size(&self) -> Result<u64> {
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(integer) => integer.as_str(),
            _ => return Err(self.error("expected a size, such as \"128K\"")),
        };
        let size = parse_size(text).map_err(|error| self.error(error.to_string()))?;
        let bytes: Bytes = size.to_exact().map_err(|e| self.error(e.to_string()))?;
        Ok(bytes.count())
    }

    /// A time with a unit, in nanoseconds.
    pub fn time(&self) -> Result<u64> {
        let wanted = "expected a time with a unit, such as \"1.5ms\" (ns, us, ms, s)";
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            _ => return Err(self.error(wanted)),
        };
        time_ns(text).ok_or_else(|| self.error(format!("`{text}`: {wanted}")))
    }

    pub fn count(&self) -> Result<u64> {
        let parsed = match self.value {
            DeValue::Integer(integer) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            _ => None,
        };
        parsed.ok_or_else(|| self.error("expected a whole number from 0 on"))
    }

    pub fn flag(&self) -> Result<bool> {
        match self.value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.error("expected true or false")),
        }
    }

    pub fn number(&self) -> Result<f64> {
        let text = match self.value {
            DeValue::Integer(integer) => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => return Err(self.error("expected a number")),
        };
        let number: Option<f64> = text.parse().ok();
        number
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.error("expected a number"))
    }

    pub fn word<T: Clone>(&self, words: &[(&str, T)]) -> Result<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.error(format!("`{text}` is none of: {}", words.join(", ")))
        })
    }

    /// A size or a time or a plain number, as the disk model takes it.
    pub fn assignment(&self) -> Result<String> {
        match self.value {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(integer) => Ok(integer.as_str().to_owned()),
            _ => Err(self.error("expected a number, or a text such as \"1.2ms\" or \"120MB\"")),
        }
    }
}

/// A time as typed, in nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let scale: u64 = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || whole.is_empty() {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u64>().ok()? * scale / 10u64.pow(fraction.len() as u32)
    };
    whole.checked_mul(scale)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time_ns("1.5ms"), Some(1_500_000));
        assert_eq!(time_ns("3 s"), Some(3_000_000_000));
        assert_eq!(time_ns("0.469ms"), Some(469_000));
        for bad in ["", "5", "ms", "1.2.3ms", "5min", "99999999999s", "-1s"] {
            assert_eq!(time_ns(bad), None, "{bad}");
        }
    }
}
