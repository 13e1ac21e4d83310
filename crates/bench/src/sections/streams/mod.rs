// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that read large files, with `foreread watch` and without, in turn.

mod bed;
mod beside;
mod build;
mod checkpoint;
mod fio;
mod hot;
mod mapped;
mod reads;
mod turns;
mod unharmed;

use foreread_measure::MeasureError;
use foreread_measure::foreread::Foreread;
use foreread_measure::sample::Rounds;
use serde_json::Value;

use bed::Bed;

use crate::context::Context;
use crate::report::{Row, Section, Target};

/// A mebibyte, in which sizes of files are given here.
const MIB: u64 = 1 << 20;
/// Maximum time of the measurement of one row, and minimum number of its rounds.
const ROW_SECONDS: u64 = 8;
const ROUNDS_MIN: usize = 3;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let foreread = Foreread::new(&context.foreread)?;
    let mut streams = Streams {
        context,
        foreread: &foreread,
        rows: Vec::new(),
        notes: Vec::new(),
    };
    mapped::measure(&mut streams)?;
    reads::measure(&mut streams)?;
    unharmed::measure(&mut streams)?;
    hot::measure(&mut streams)?;
    beside::measure(&mut streams)?;
    checkpoint::measure(&mut streams)?;
    Ok(Section {
        name: "streams",
        about: "Programs that read large files on ext4: the kernel alone, and \
                `foreread watch -- PROGRAM`, in turn; medians. Speeds and times are those of the \
                program itself, taken inside it. At best: what fio reaches on the same file, or \
                what the disk can do."
            .to_owned(),
        header: vec![
            "program",
            "disk",
            "kernel alone",
            "watch",
            "at best",
            "start and end",
            "what is judged",
            "value",
        ],
        rows: streams.rows,
        notes: streams.notes,
    })
}

/// The rows of a program on a disk.
type Measured = Result<Vec<Row>, MeasureError>;

/// The tools of the section, and its rows so far.
struct Streams<'a> {
    context: &'a Context,
    foreread: &'a Foreread,
    rows: Vec<Row>,
    /// A sentence each.
    notes: Vec<String>,
}

impl Streams<'_> {
    fn rounds(&self) -> Rounds {
        let time = std::time::Duration::from_secs(ROW_SECONDS);
        self.context.rounds(ROUNDS_MIN, time)
    }

    /// Whether a program was asked for.
    fn wants(&self, program: &str) -> bool {
        !self.context.programs_of(&[program]).is_empty()
    }

    /// Measures each of these programs that was asked for, on each of these disks, with these
    /// files, for rows; does `begin` once they are there.
    fn on_each_disk(
        &mut self,
        programs: &[&'static str],
        devices: &[&str],
        files: &[(String, u64)],
        begin: impl FnOnce(&Bed),
        mut measure: impl FnMut(&mut Self, &Bed, &'static str, &str) -> Measured,
    ) -> Result<(), MeasureError> {
        let wanted = programs.iter().copied().filter(|name| self.wants(name));
        let wanted: Vec<&'static str> = wanted.collect();
        let devices = self.context.devices_of(devices);
        let Some(first) = devices.first().filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let bed = Bed::make(self, first, files)?;
        begin(&bed);
        for device in devices {
            bed.become_disk(device)?;
            for name in &wanted {
                self.context.say(&format!("streams: {name} on {device}"));
                let rows = measure(self, &bed, name, device)?;
                self.rows.extend(rows);
            }
        }
        Ok(())
    }

    /// A size, or with `--quick` half of it.
    fn size(&self, bytes: u64) -> u64 {
        match self.context.quick {
            true => bytes / 2,
            false => bytes,
        }
    }

    /// Notes something once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The cells of a row before its number.
struct Cells<'a> {
    program: &'a str,
    disk: &'a str,
    alone: String,
    watched: String,
    best: String,
    start_and_end: String,
    judged: &'a str,
}

/// A number, its target, and how many digits of it to show.
struct Judged {
    value: f64,
    target: Target,
    digits: usize,
}

fn row(cells: Cells<'_>, judged: Judged, details: Value) -> Row {
    Row {
        cells: vec![
            cells.program.to_owned(),
            cells.disk.to_owned(),
            cells.alone,
            cells.watched,
            cells.best,
            cells.start_and_end,
            cells.judged.to_owned(),
        ],
        value: judged.value,
        digits: judged.digits,
        target: judged.target,
        details,
    }
}

fn megabytes_per_s(bytes_per_s: f64) -> String {
    format!("{:.1} MB/s", bytes_per_s / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_measure::names::STREAM_NAMES;

    #[test]
    fn every_program_can_be_asked_for() {
        let mapped = mapped::PROGRAMS.iter().map(|program| program.name);
        let others = [
            &reads::PROGRAMS[..],
            &unharmed::PROGRAMS,
            &hot::PROGRAMS,
            &[beside::PROGRAM, checkpoint::PROGRAM],
        ];
        let measured: Vec<&str> = mapped.chain(others.concat()).collect();
        assert_eq!(measured, STREAM_NAMES);
    }
}
